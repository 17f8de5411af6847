/* The bodies and paths of v1 and v2. */
#include "base/text.h"
#include "fuzz.h"
#include "service/api/v1.h"
#include "service/api/v2.h"
#include "service/http/exchange.h"

/* exchange.h's; nothing here answers. */
void hf__exchange_done(struct hf_exchange *exchange)
{
    (void)exchange;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice text = hf__slice((const char *)data, size), decoded;
    struct hf_arena arena = {0};
    struct hf_error error;
    struct hf_v1_body v1;
    struct hf_v2_body v2;
    for (int lease = 0; lease < 2; lease++) {
        v1 = (struct hf_v1_body){0};
        struct hf_v1_problems problems;
        hf__v1_body(&arena, text, lease, &v1, &problems);
        MUST(problems.count <= HF_V1_PROBLEMS_MOST);
        if (problems.count > 0) continue;
        MUST(v1.instance_id.len >= 3 && v1.instance_id.len <= 64);
        MUST(!lease || (v1.lease_s >= 1 && v1.lease_s <= 86400));
    }
    if (hf__v2_body(&arena, text, UINT32_MAX, &v2, &error) == 0) {
        MUST(v2.wait_ms >= 0 && v2.wait_ms <= 3600000);
        MUST(v2.lease_ms == 0 || v2.lease_ms >= 100);
        MUST(!v2.grant.ptr || strlen(v2.grant.ptr) == v2.grant.len);
        MUST(v2.attribute_count <= HF_V2_ATTRIBUTES_MAX);
    }
    if (hf__percent_decode(&arena, text, true, &decoded)) {
        MUST(decoded.len <= size && hf__utf8_valid(decoded));
        struct hf_v1_problems problems;
        hf__v1_path(&arena, decoded, decoded, &problems);
        MUST(problems.count > 0 || arena.failed || (decoded.len >= 3 && decoded.len <= 64));
    }
    hf__arena_free(&arena);
    return 0;
}
