/* The server's certificate, which can be replaced while it runs, and those of its callers. */
#ifndef HF_SERVICE_HTTP_TLS_H
#define HF_SERVICE_HTTP_TLS_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"

struct hf_tls;

/* PEM files. With `client_ca`, callers may present a certificate that it has signed. */
int hf__tls_start(const char *certificate, const char *key, const char *client_ca,
                  struct hf_tls **ret, struct hf_error *reterr);
/* Reads the files again; if they are invalid, the present ones stay in use. */
int hf__tls_reload(struct hf_tls *tls, struct hf_error *reterr);
void hf__tls_stop(struct hf_tls *tls);

/* A session on a connected socket, which does not block; NULL: out of memory. */
void *hf__tls_open(struct hf_tls *tls, int fd);
void hf__tls_close(void *session);
/* 1: the handshake is complete; 0: not yet, call again when the socket is ready; -1: it failed. */
int hf__tls_shake(void *session);
/* Like recv and send, with errno. Bytes that were not sent must be passed again. */
ssize_t hf__tls_receive(void *session, void *room, size_t size);
ssize_t hf__tls_send(void *session, const void *data, size_t size);
/* Announces the end of the connection. */
void hf__tls_bye(void *session);
/* The common name in the caller's certificate, if it is trusted; NULL: none was presented. */
int hf__tls_caller(void *session, struct hf_arena *arena, const char **ret,
                   struct hf_error *reterr);

#endif
