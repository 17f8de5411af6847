/* The server's certificate, which can be replaced while it runs, and those of its callers. */
#ifndef HF_SERVICE_TLS_H
#define HF_SERVICE_TLS_H

#include "base/arena.h"
#include "base/error.h"

struct hf_tls;
struct MHD_OptionItem;
enum { HF_TLS_OPTIONS = 5 };

/* PEM files. With `client_ca`, callers may show a certificate that it has signed. */
int hf__tls_start(const char *certificate, const char *key, const char *client_ca,
                  struct hf_tls **ret, struct hf_error *reterr);
/* Reads the files again; if they do not fit, what is in use stays. */
int hf__tls_reload(struct hf_tls *tls, struct hf_error *reterr);
void hf__tls_stop(struct hf_tls *tls);

/* For the server. */
void hf__tls_options(struct hf_tls *tls, struct MHD_OptionItem *ret);
/* The common name in the caller's certificate, if we trust it; NULL: none was shown. */
int hf__tls_caller(void *connection, struct hf_arena *arena, const char **ret,
                   struct hf_error *reterr);

#endif
