/*
 * What stands behind the base64 of tokens and key sets: a header, a newline, claims, a newline, a
 * key set. The fuzzer would hardly find its way through the encoding.
 */
#include "base/text.h"
#include "fuzz.h"
#include "service/http/jwt.h"

static struct hf_slice cut_line(struct hf_slice *text)
{
    const char *newline = text->len ? memchr(text->ptr, '\n', text->len) : NULL;
    struct hf_slice line = newline ? hf__slice(text->ptr, (size_t)(newline - text->ptr)) : *text;
    *text = hf__slice_skip(*text, newline ? line.len + 1 : line.len);
    return line;
}

static struct hf_slice encode(struct hf_arena *arena, struct hf_slice text)
{
    char *encoded = hf__arena_alloc(arena, HF_BASE64_SIZE(text.len));
    if (!encoded) return HF_LIT("");
    hf__base64_encode(text.ptr, text.len, encoded);
    size_t len = strlen(encoded);
    while (len > 0 && encoded[len - 1] == '=') len--;
    for (size_t i = 0; i < len; i++)
        encoded[i] = (char)(encoded[i] == '+' ? '-' : encoded[i] == '/' ? '_' : encoded[i]);
    return hf__slice(encoded, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_slice rest = hf__slice((const char *)data, size);
    struct hf_slice header = encode(&arena, cut_line(&rest));
    struct hf_slice claims = encode(&arena, cut_line(&rest));
    struct hf_slice token =
        hf__arena_printf(&arena, "%.*s.%.*s.c2lnbmF0dXJl", HF_FMT(header), HF_FMT(claims));
    const struct hf_claim_test groups[] = {{HF_LIT("groups"), HF_LIT("ops")}};
    const struct hf_jwt_wants wants = {.admin = {HF_LIT("scope"), HF_LIT("holdfast:admin")},
                                       .claims = groups,
                                       .claim_count = 1,
                                       .rights_claim = HF_LIT("rights")};
    const struct hf_jwt_rules rules = {HF_LIT("issuer"), HF_LIT("locks"), 60};
    struct hf_error error;
    struct hf_jwks *keys = NULL;
    struct hf_jwt jwt;
    bool has_keys = hf__jwks_parse(rest, &keys, &error) == 0;
    if (hf__jwt_parse(&arena, token, &wants, &jwt, &error) == 0) {
        MUST(jwt.audience_count <= HF_JWT_AUDIENCES);
        if (hf__jwt_check(&jwt, &rules, 1800000000, &error) == 0)
            MUST(jwt.subject.len > 0 && jwt.subject.len <= 512 && jwt.expires_s > 1799999000);
        if (has_keys) hf__jwks_verify(keys, &jwt, &error);
    }
    hf__jwks_unref(keys);
    hf__arena_free(&arena);
    return 0;
}
