#include "store/fetch.h"

enum { CONNECT_TIMEOUT_MS = 1000, TIMEOUT_MS = 5000 };

struct hf_http_request hf__fetch_request(const char *method, const char *url)
{
    return (struct hf_http_request){.method = method,
                                    .url = url,
                                    .connect_timeout_ms = CONNECT_TIMEOUT_MS,
                                    .timeout_ms = TIMEOUT_MS,
                                    .limit = HF_CREDENTIALS_MAX_SIZE};
}

int hf__fetch(struct hf_provider_context *context, struct hf_http_request *request, const char *who,
              struct hf_slice *ret, struct hf_error *reterr)
{
    int code = 0;
    request->stop = context->stop;
    request->ca_file = hf__env_get(context->environment, "AWS_CA_BUNDLE");
    hf__http_fetch(request, context->clock);
    struct hf_slice body = hf__buf_view(&request->answer);
    if (request->outcome != HF_HTTP_ANSWERED) {
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s at %s: %s", who, request->url,
                             request->error.message);
    } else if (request->status != 200) {
        struct hf_slice why = body;
        hf__xml_text(context->arena, body, "Message", &why);
        if (why.len > 200) why.len = 200;
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s at %s answered with status %d%s%.*s",
                             who, request->url, request->status, why.len ? ": " : "", HF_FMT(why));
    } else {
        *ret = hf__arena_copy(context->arena, body);
        if (context->arena->failed) code = hf__error_no_memory(reterr);
    }
    hf__http_request_free(request);
    return code;
}
