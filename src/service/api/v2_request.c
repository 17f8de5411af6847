#include "base/json_reader.h"
#include "base/text.h"
#include "service/api/v2.h"

enum { BODY_MOST = 1 << 20, DATA_MOST = 350 * 1024, LEASE_LEAST_MS = 100 };
static const int64_t lease_most_ms = (int64_t)366 * 86400 * 1000;
static const int64_t wait_most_ms = (int64_t)3600 * 1000;

enum kind { NUMBER, FLAG, TEXT, BYTES, BASE64, MAP };

#define AT(member) offsetof(struct hf_v2_body, member)

static const struct {
    const char *name;
    enum kind kind;
    size_t at;
    int64_t least; /* of a number, or of the bytes of a text */
    int64_t most;
} fields[HF_V2_FIELDS] = {
    [HF_V2_WAIT] = {"wait_ms", NUMBER, AT(wait_ms), 0, wait_most_ms},
    [HF_V2_LEASE] = {"lease_ms", NUMBER, AT(lease_ms), LEASE_LEAST_MS, lease_most_ms},
    [HF_V2_MODE] = {"mode", TEXT, AT(mode), 1, 16},
    [HF_V2_LIMIT] = {"limit", NUMBER, AT(limit), 1, 1000000},
    [HF_V2_DATA] = {"data", BYTES, AT(data), 0, DATA_MOST},
    [HF_V2_DATA_BASE64] = {"data_base64", BASE64, AT(data), 0, DATA_MOST},
    [HF_V2_KEEP_DATA] = {"keep_data", FLAG, AT(keep_data), 0, 0},
    [HF_V2_ONLY_IF_EXISTS] = {"only_if_exists", FLAG, AT(only_if_exists), 0, 0},
    [HF_V2_SESSION] = {"session", TEXT, AT(session), 1, 64},
    [HF_V2_IDEMPOTENCY_KEY] = {"idempotency_key", TEXT, AT(idempotency_key), 1, HF_V2_KEY_MAX},
    [HF_V2_GRANT] = {"grant", TEXT, AT(grant), 1, 64},
    [HF_V2_REASON] = {"reason", TEXT, AT(reason), 1, HF_V2_REASON_MAX},
    [HF_V2_INSTANCE] = {"instance", TEXT, AT(instance), 1, 128},
    [HF_V2_ATTRIBUTES] = {"attributes", MAP, 0, 0, 0},
};

static bool take_number(struct hf_json_reader *json, int field, int64_t *ret)
{
    if (!hf__json_int64(json, ret)) return false;
    if (*ret >= fields[field].least && *ret <= fields[field].most) return true;
    return hf__json_fail(json, "must be between %lld and %lld", (long long)fields[field].least,
                         (long long)fields[field].most);
}

/* Must not contain NUL, since it becomes a C string. */
static bool take_text(struct hf_json_reader *json, int field, struct hf_slice *ret)
{
    struct hf_slice text;
    if (!hf__json_string(json, &text)) return false;
    if (text.len < (size_t)fields[field].least || text.len > (size_t)fields[field].most)
        return hf__json_fail(json, "must have %lld to %lld bytes", (long long)fields[field].least,
                             (long long)fields[field].most);
    if (fields[field].kind == TEXT && text.len && memchr(text.ptr, '\0', text.len))
        return hf__json_fail(json, "must not contain NUL");
    *ret = hf__arena_copy(json->arena, text);
    return !json->arena->failed || hf__json_no_memory(json);
}

static bool take_base64(struct hf_json_reader *json, int field, struct hf_slice *ret)
{
    struct hf_slice text;
    size_t len;
    if (!hf__json_string(json, &text)) return false;
    char *bytes = hf__arena_alloc(json->arena, text.len + 1);
    if (!bytes) return hf__json_no_memory(json);
    if (!hf__base64_decode(text, bytes, &len))
        return hf__json_fail(json, "must be base64 with padding");
    if (len > (size_t)fields[field].most)
        return hf__json_fail(json, "must have at most %lld bytes", (long long)fields[field].most);
    *ret = hf__slice(bytes, len);
    return true;
}

static bool take_attributes(struct hf_json_reader *json, struct hf_v2_body *body)
{
    struct hf_slice key, text;
    body->attributes =
        hf__arena_zalloc(json->arena, HF_V2_ATTRIBUTES_MAX, sizeof *body->attributes);
    if (!body->attributes) return hf__json_no_memory(json);
    if (!hf__json_object(json)) return false;
    while (hf__json_key(json, &key)) {
        if (!hf__json_string(json, &text)) return false;
        if (body->attribute_count == HF_V2_ATTRIBUTES_MAX)
            return hf__json_fail(json, "must have at most %d members", HF_V2_ATTRIBUTES_MAX);
        if ((key.len && memchr(key.ptr, '\0', key.len)) ||
            (text.len && memchr(text.ptr, '\0', text.len)))
            return hf__json_fail(json, "must not contain NUL");
        body->attributes[body->attribute_count++] = (struct hf_attribute){
            hf__arena_copy(json->arena, key).ptr, hf__arena_copy(json->arena, text).ptr};
        if (json->arena->failed) return hf__json_no_memory(json);
    }
    return !json->failed;
}

static bool take(struct hf_json_reader *json, int field, struct hf_v2_body *body)
{
    char *at = (char *)body + fields[field].at;
    switch (fields[field].kind) {
    case NUMBER: return take_number(json, field, (int64_t *)at);
    case FLAG: return hf__json_bool(json, (bool *)at);
    case BASE64:
    case BYTES:
        if (body->has_data)
            return hf__json_fail(json, "data and data_base64 are mutually exclusive");
        body->has_data = true;
        return fields[field].kind == BASE64 ? take_base64(json, field, (struct hf_slice *)at)
                                            : take_text(json, field, (struct hf_slice *)at);
    case TEXT: return take_text(json, field, (struct hf_slice *)at);
    case MAP: return take_attributes(json, body);
    }
    return false;
}

static int find(struct hf_slice key, uint32_t allowed)
{
    for (int i = 0; i < HF_V2_FIELDS; i++) {
        if ((allowed & 1u << i) && hf__slice_is(key, fields[i].name)) return i;
    }
    return -1;
}

int hf__v2_body(struct hf_arena *arena, struct hf_slice text, uint32_t allowed,
                struct hf_v2_body *ret, struct hf_error *reterr)
{
    struct hf_json_reader json;
    struct hf_slice key, last = {0};
    *ret = (struct hf_v2_body){0};
    if (text.len == 0) return 0;
    hf__json_reader_init(&json, text, BODY_MOST, arena);
    if (hf__json_peek(&json) != HF_JSON_OBJECT && !json.failed)
        return hf__error_set(reterr, HF_ERR_INVALID, "the body must be a JSON object");
    hf__json_object(&json);
    while (hf__json_key(&json, &key)) {
        int field = find(key, allowed);
        if (field < 0)
            return hf__error_set(reterr, HF_ERR_INVALID, "unknown field \"%.*s\"",
                                 key.len > 64 ? 64 : (int)key.len, key.ptr);
        last = key;
        if (!take(&json, field, ret)) break;
    }
    if (json.failed && json.error.code == HF_ERR_NO_MEMORY) return hf__error_no_memory(reterr);
    if (json.failed && last.len)
        return hf__error_set(reterr, HF_ERR_INVALID, "\"%.*s\": %s", HF_FMT(last),
                             json.error.message);
    if (hf__json_finish(&json) != 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "the body is not JSON: %s",
                             json.error.message);
    if (ret->mode.len && !hf__slice_is(ret->mode, "exclusive") &&
        !hf__slice_is(ret->mode, "shared"))
        return hf__error_set(reterr, HF_ERR_INVALID, "\"mode\": must be exclusive or shared");
    return 0;
}
