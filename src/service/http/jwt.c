#include "service/http/jwt.h"

#include "base/json_reader.h"
#include "base/text.h"

static const struct {
    const char *name;
    enum hf_jwt_algorithm algorithm;
} algorithms[] = {{"RS256", HF_JWT_RS256}, {"ES256", HF_JWT_ES256}, {"EdDSA", HF_JWT_EDDSA}};

bool hf__base64url_decode(struct hf_arena *arena, struct hf_slice text, struct hf_slice *ret)
{
    size_t padded = (text.len + 3) / 4 * 4, len;
    char *plain = hf__arena_alloc(arena, padded + 1);
    char *bytes = hf__arena_alloc(arena, padded + 1);
    if (!plain || !bytes || text.len % 4 == 1) return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '+' || c == '/' || c == '=') return false;
        plain[i] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    for (size_t i = text.len; i < padded; i++) plain[i] = '=';
    if (!hf__base64_decode(hf__slice(plain, padded), bytes, &len)) return false;
    *ret = hf__slice(bytes, len);
    return true;
}

static int malformed(struct hf_error *reterr, const char *what)
{
    return hf__error_set(reterr, HF_ERR_INVALID, "the token is malformed: %s", what);
}

static int parse_header(struct hf_arena *arena, struct hf_slice text, struct hf_jwt *ret,
                        struct hf_error *reterr)
{
    struct hf_json_reader json;
    struct hf_slice key, algorithm = {0};
    hf__json_reader_init(&json, text, HF_JWT_MAX_SIZE, arena);
    hf__json_object(&json);
    while (hf__json_key(&json, &key)) {
        if (hf__slice_is(key, "alg")) hf__json_string(&json, &algorithm);
        else if (hf__slice_is(key, "kid")) hf__json_string(&json, &ret->key_id);
        else if (hf__slice_is(key, "crit") || hf__slice_is(key, "zip"))
            return malformed(reterr, "its header requires an unsupported extension");
        else hf__json_skip(&json);
    }
    if (hf__json_finish(&json) != 0) return malformed(reterr, "its header is not JSON");
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (!hf__slice_is(algorithm, algorithms[i].name)) continue;
        ret->algorithm = algorithms[i].algorithm;
        return 0;
    }
    return hf__error_set(reterr, HF_ERR_DENIED,
                         "the token is not signed with RS256, ES256 or EdDSA");
}

static void take_audience(struct hf_json_reader *json, struct hf_jwt *ret)
{
    struct hf_slice text;
    if (!hf__json_string(json, &text)) return;
    if (ret->audience_count == HF_JWT_AUDIENCES) hf__json_fail(json, "too many audiences");
    else ret->audiences[ret->audience_count++] = text;
}

/* A single one, or an array. */
static void take_audiences(struct hf_json_reader *json, struct hf_jwt *ret)
{
    if (hf__json_peek(json) == HF_JSON_STRING) {
        take_audience(json, ret);
        return;
    }
    hf__json_array(json);
    while (hf__json_element(json)) take_audience(json, ret);
}

/* Seconds; a fraction is cut off. */
static void take_date(struct hf_json_reader *json, int64_t *ret)
{
    struct hf_slice text;
    if (!hf__json_number(json, &text)) return;
    const char *dot = memchr(text.ptr, '.', text.len);
    if (dot) text.len = (size_t)(dot - text.ptr);
    if (!hf__parse_int64(text, ret) || *ret < 0 || *ret > INT64_MAX / 4)
        hf__json_fail(json, "invalid date");
}

static bool has_word(struct hf_slice text, struct hf_slice word)
{
    while (text.len > 0) {
        const char *space = memchr(text.ptr, ' ', text.len);
        size_t len = space ? (size_t)(space - text.ptr) : text.len;
        if (hf__slice_eq(hf__slice(text.ptr, len), word)) return true;
        text = hf__slice_skip(text, space ? len + 1 : len);
    }
    return false;
}

/* One value of a claim: a text, an element of an array, true or false. */
static void weigh(struct hf_slice key, struct hf_slice text, bool has_words,
                  const struct hf_jwt_wants *wants, struct hf_jwt *ret)
{
    const struct hf_claim_test *admin = &wants->admin;
    if (admin->name.len && hf__slice_eq(key, admin->name))
        ret->has_admin_claim |=
            has_words ? has_word(text, admin->value) : hf__slice_eq(text, admin->value);
    for (size_t i = 0; i < wants->claim_count; i++) {
        const struct hf_claim_test *test = &wants->claims[i];
        if (!hf__slice_eq(key, test->name)) continue;
        bool holds = hf__slice_eq(text, test->value) || (has_words && has_word(text, test->value));
        if (holds) ret->claims |= UINT64_C(1) << i;
    }
}

static void take_right(struct hf_json_reader *json, struct hf_slice text, struct hf_jwt *ret)
{
    if (ret->right_count == HF_JWT_RIGHTS) hf__json_fail(json, "too many rights");
    else ret->rights[ret->right_count++] = text;
}

static bool is_asked_for(struct hf_slice key, const struct hf_jwt_wants *wants)
{
    bool asked = (wants->admin.name.len && hf__slice_eq(key, wants->admin.name)) ||
                 (wants->rights_claim.len && hf__slice_eq(key, wants->rights_claim));
    for (size_t i = 0; i < wants->claim_count && !asked; i++)
        asked = hf__slice_eq(key, wants->claims[i].name);
    return asked;
}

static void take_other(struct hf_json_reader *json, struct hf_slice key,
                       const struct hf_jwt_wants *wants, struct hf_jwt *ret)
{
    bool is_rights = wants->rights_claim.len && hf__slice_eq(key, wants->rights_claim);
    struct hf_slice text;
    bool value;
    switch (is_asked_for(key, wants) ? hf__json_peek(json) : HF_JSON_NULL) {
    case HF_JSON_STRING:
        if (!hf__json_string(json, &text)) return;
        weigh(key, text, true, wants, ret);
        if (is_rights) take_right(json, text, ret);
        break;
    case HF_JSON_BOOL:
        if (hf__json_bool(json, &value))
            weigh(key, value ? HF_LIT("true") : HF_LIT("false"), false, wants, ret);
        break;
    case HF_JSON_ARRAY:
        hf__json_array(json);
        while (hf__json_element(json)) {
            if (hf__json_peek(json) != HF_JSON_STRING) {
                hf__json_skip(json);
                continue;
            }
            if (!hf__json_string(json, &text)) return;
            weigh(key, text, false, wants, ret);
            if (is_rights) take_right(json, text, ret);
        }
        break;
    default: hf__json_skip(json);
    }
}

static int parse_claims(struct hf_arena *arena, struct hf_slice text,
                        const struct hf_jwt_wants *wants, struct hf_jwt *ret,
                        struct hf_error *reterr)
{
    struct hf_json_reader json;
    struct hf_slice key;
    hf__json_reader_init(&json, text, HF_JWT_MAX_SIZE, arena);
    hf__json_object(&json);
    while (hf__json_key(&json, &key)) {
        if (hf__slice_is(key, "iss")) hf__json_string(&json, &ret->issuer);
        else if (hf__slice_is(key, "sub")) hf__json_string(&json, &ret->subject);
        else if (hf__slice_is(key, "aud")) {
            ret->has_audience = true;
            take_audiences(&json, ret);
        } else if (hf__slice_is(key, "exp")) take_date(&json, &ret->expires_s);
        else if (hf__slice_is(key, "nbf")) take_date(&json, &ret->not_before_s);
        else if (hf__slice_is(key, "iat")) take_date(&json, &ret->issued_s);
        else take_other(&json, key, wants, ret);
    }
    if (hf__json_finish(&json) != 0) return malformed(reterr, "its claims are invalid");
    return 0;
}

int hf__jwt_parse(struct hf_arena *arena, struct hf_slice token, const struct hf_jwt_wants *wants,
                  struct hf_jwt *ret, struct hf_error *reterr)
{
    struct hf_slice header, claims;
    *ret = (struct hf_jwt){0};
    if (token.len > HF_JWT_MAX_SIZE) return malformed(reterr, "the token is too long");
    const char *first = token.len ? memchr(token.ptr, '.', token.len) : NULL;
    if (!first) /* it may have been meant for the tokens file */
        return hf__error_set(reterr, HF_ERR_DENIED, "unknown token, and not a JWT");
    size_t first_len = (size_t)(first - token.ptr);
    struct hf_slice rest = hf__slice_skip(token, first_len + 1);
    const char *second = rest.len ? memchr(rest.ptr, '.', rest.len) : NULL;
    if (!second) return malformed(reterr, "it has two parts");
    size_t second_len = (size_t)(second - rest.ptr);
    struct hf_slice last = hf__slice_skip(rest, second_len + 1);
    if (last.len == 0) return hf__error_set(reterr, HF_ERR_DENIED, "the token is not signed");
    if (memchr(last.ptr, '.', last.len)) return malformed(reterr, "it has more than three parts");
    if (!hf__base64url_decode(arena, hf__slice(token.ptr, first_len), &header) ||
        !hf__base64url_decode(arena, hf__slice(rest.ptr, second_len), &claims) ||
        !hf__base64url_decode(arena, last, &ret->signature))
        return malformed(reterr, "it is not base64url");
    ret->signed_part = hf__slice(token.ptr, first_len + 1 + second_len);
    int code = parse_header(arena, header, ret, reterr);
    return code != 0 ? code : parse_claims(arena, claims, wants, ret, reterr);
}

int hf__jwt_check(const struct hf_jwt *jwt, const struct hf_jwt_rules *rules, int64_t now_s,
                  struct hf_error *reterr)
{
    enum { OWNER_MOST = 512 };
    /* A token that names an audience must name ours (RFC 7519, 4.1.3). */
    bool for_us =
        hf__slice_is(rules->audience, "*") || (rules->audience.len == 0 && !jwt->has_audience);
    for (size_t i = 0; i < jwt->audience_count; i++)
        for_us |= hf__slice_eq(jwt->audiences[i], rules->audience);
    const char *wrong = NULL;
    if (jwt->expires_s == 0) wrong = "the token does not say when it expires";
    else if (now_s >= jwt->expires_s + rules->leeway_s) wrong = "the token has expired";
    else if (now_s < jwt->not_before_s - rules->leeway_s) wrong = "the token is not valid yet";
    else if (jwt->issued_s > now_s + rules->leeway_s) wrong = "the token was issued in the future";
    else if (rules->issuer.len && !hf__slice_eq(jwt->issuer, rules->issuer))
        wrong = "the token is from another issuer";
    else if (!for_us && rules->audience.len == 0)
        wrong = "the token has an audience, and this service has none: set "
                "--jwt-audience";
    else if (!for_us) wrong = "the token is for another audience";
    else if (jwt->subject.len == 0) wrong = "the token has no subject";
    else if (jwt->subject.len > OWNER_MOST || memchr(jwt->subject.ptr, '\0', jwt->subject.len))
        wrong = "the token's subject cannot be an owner";
    return wrong ? hf__error_set(reterr, HF_ERR_DENIED, "%s", wrong) : 0;
}
