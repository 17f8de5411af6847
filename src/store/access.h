/*
 * How to reach a holdfast service, and how to authenticate there: https://HOST[:PORT], with a
 * bearer token from a file, a client certificate, or neither. Plain http:// goes to this machine
 * only: a token that others can read protects nothing.
 */
#ifndef HF_STORE_ACCESS_H
#define HF_STORE_ACCESS_H

#include "base/arena.h"
#include "runtime/http.h"
#include "store/store.h"

struct hf_access {
    char *records;    /* the URL of its records … */
    char *events;     /* … and of what happens to them */
    char *token_file; /* NULL: none */
    char *ca_file;    /* NULL: the system's */
    char *cert_file;  /* of the client; NULL: none */
    char *key_file;
    bool local; /* this machine's own */
};

int hf__access_new(struct hf_arena *arena, const char *url, const struct hf_store_options *options,
                   struct hf_access **ret, struct hf_error *reterr);
void hf__access_free(struct hf_access *access);

/*
 * Fills in the parts that all requests share: certificates and, as its file has it now, the token.
 * Everything that the request points to is in the arena.
 */
int hf__access_prepare(const struct hf_access *access, struct hf_arena *arena,
                       struct hf_http_request *request, struct hf_error *reterr);

#endif
