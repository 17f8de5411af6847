/* Small blocking HTTP exchanges with the servers that give out credentials. */
#ifndef HF_STORE_FETCH_H
#define HF_STORE_FETCH_H

#include "runtime/http.h"
#include "store/providers.h"

/* A request with the time-outs and limits for such servers. */
struct hf_http_request hf__fetch_request(const char *method, const char *url);

/*
 * Sends it; the body of a 200 answer goes to the arena. `who` names the server
 * in messages.
 */
int hf__fetch(struct hf_provider_context *context, struct hf_http_request *request, const char *who,
              struct hf_slice *ret, struct hf_error *reterr);

#endif
