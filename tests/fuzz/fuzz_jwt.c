/* Tokens and key sets, as strangers send them: a key set, a newline, a token. */
#include "fuzz.h"
#include "service/http/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice all = hf__slice((const char *)data, size);
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - all.ptr) : 0;
    struct hf_slice token = newline ? hf__slice_skip(all, len + 1) : all;
    const struct hf_claim_test groups[] = {{HF_LIT("groups"), HF_LIT("ops")}};
    const struct hf_jwt_wants wants = {.admin = {HF_LIT("scope"), HF_LIT("holdfast:admin")},
                                       .claims = groups,
                                       .claim_count = 1,
                                       .rights_claim = HF_LIT("rights")};
    const struct hf_jwt_rules rules = {HF_LIT("issuer"), HF_LIT("locks"), 60};
    struct hf_arena arena = {0};
    struct hf_error error;
    struct hf_jwks *keys = NULL;
    struct hf_jwt jwt;
    bool has_keys = newline && hf__jwks_parse(hf__slice(all.ptr, len), &keys, &error) == 0;
    if (hf__jwt_parse(&arena, token, &wants, &jwt, &error) == 0) {
        MUST(jwt.signature.len > 0 && jwt.signed_part.len < token.len);
        MUST(jwt.audience_count <= HF_JWT_AUDIENCES);
        if (hf__jwt_check(&jwt, &rules, 1800000000, &error) == 0)
            MUST(jwt.subject.len > 0 && jwt.subject.len <= 512 && jwt.expires_s > 1799999000);
        if (has_keys) hf__jwks_verify(keys, &jwt, &error);
    }
    hf__jwks_unref(keys);
    hf__arena_free(&arena);
    return 0;
}
