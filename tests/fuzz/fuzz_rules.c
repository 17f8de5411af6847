/* Rules as a file has them, and one as a token has it; whoever asks, what is allowed is bounded. */
#include "fuzz.h"
#include "service/http/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice text = hf__slice((const char *)data, size);
    struct hf_rules *rules = NULL, *granted = NULL;
    struct hf_error error;
    const struct hf_who who = {"alice", "cert", "AKID", 1}, nobody = {0};
    size_t claims;
    if (hf__rules_parse(text, "rules", &rules, &error) == 0) {
        hf__rules_claims(rules, &claims);
        MUST(claims <= HF_RULES_CLAIMS_MOST);
        for (unsigned right = 1; right <= HF_RIGHT_WRITE; right *= 2) {
            bool lock = hf__rules_allow(rules, &nobody, right, false, HF_LIT("jobs/a"));
            MUST(!lock || hf__rules_allow(rules, &who, right, false, HF_LIT("jobs/a")));
            /* Whatever may be done to a lock, it may be seen. */
            MUST(!lock || hf__rules_allow(rules, &nobody, HF_RIGHT_READ, false, HF_LIT("jobs/a")));
        }
    } else {
        MUST(error.message[0] != '\0');
    }
    hf__rules_unref(rules);
    hf__rules_add(&granted, text, &error);
    hf__rules_allow(granted, &who, HF_RIGHT_LOCK, true, HF_LIT("locks"));
    hf__rules_unref(granted);
    return 0;
}
