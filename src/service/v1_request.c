#include "base/json_reader.h"
#include "base/text.h"
#include "service/v1.h"

enum {
    NAME_LEAST = 3,
    NAME_MOST = 64,
    INSTANCE_MOST = 1024,
    BODY_MOST = 64 * 1024,
    LEASE_MOST_S = 86400
};

/* ---- the path ---- */

static const char *name_refusal(struct hf_arena *arena, const char *parameter, const char *what,
                                struct hf_slice name)
{
    const char *wrong = NULL;
    if (name.len < NAME_LEAST || name.len > NAME_MOST)
        wrong = "must be between 3 and 64 characters long";
    for (size_t i = 0; i < name.len && !wrong; i++) {
        char c = name.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_';
        if (!good) wrong = "must be alphanumeric with dashes and underscores only";
    }
    if (!wrong) return NULL;
    return hf__arena_printf(arena, "Parameter '%s' failed validation: %s %s", parameter, what,
                            wrong)
        .ptr;
}

const char *hf__v1_path_refusal(struct hf_arena *arena, struct hf_slice space, struct hf_slice name)
{
    const char *refusal = name_refusal(arena, "namespace", "Namespace", space);
    return refusal ? refusal : name_refusal(arena, "lockName", "Lock name", name);
}

/* ---- the body ---- */

static const char *const type_names[] = {
    [HF_JSON_NOTHING] = "nothing", [HF_JSON_OBJECT] = "object", [HF_JSON_ARRAY] = "array",
    [HF_JSON_STRING] = "string",   [HF_JSON_NUMBER] = "number", [HF_JSON_BOOL] = "boolean",
    [HF_JSON_NULL] = "null",
};

static const char *take_instance(struct hf_arena *arena, struct hf_json_reader *json,
                                 struct hf_slice *ret)
{
    enum hf_json_type type = hf__json_peek(json);
    if (type != HF_JSON_STRING)
        return hf__arena_printf(arena, "$.instanceId: %s found, string expected", type_names[type])
            .ptr;
    if (!hf__json_string(json, ret)) return NULL;
    if (ret->len == 0) return "$.instanceId: must be at least 1 characters long";
    if (ret->len > INSTANCE_MOST)
        return hf__arena_printf(arena, "$.instanceId: must be at most %d characters long",
                                INSTANCE_MOST)
            .ptr;
    return NULL;
}

static const char *take_lease(struct hf_arena *arena, struct hf_json_reader *json, int64_t *ret)
{
    enum hf_json_type type = hf__json_peek(json);
    struct hf_slice text;
    if (type != HF_JSON_NUMBER)
        return hf__arena_printf(arena, "$.leaseDuration: %s found, integer expected",
                                type_names[type])
            .ptr;
    if (!hf__json_number(json, &text)) return NULL;
    bool whole = text.len > 0;
    for (size_t i = 0; i < text.len; i++)
        whole =
            whole && ((text.ptr[i] >= '0' && text.ptr[i] <= '9') || (i == 0 && text.ptr[i] == '-'));
    if (!whole) return "$.leaseDuration: number found, integer expected";
    if (text.ptr[0] == '-' || !hf__parse_int64(text, ret) || *ret < 1) {
        if (text.ptr[0] == '-' || text.len < 10)
            return "$.leaseDuration: must have a minimum value of 1";
        *ret = LEASE_MOST_S + 1;
    }
    return *ret > LEASE_MOST_S ? "$.leaseDuration: must have a maximum value of 86400" : NULL;
}

const char *hf__v1_body(struct hf_arena *arena, struct hf_slice text, bool wants_lease,
                        struct hf_v1_body *ret)
{
    struct hf_json_reader json;
    struct hf_slice key;
    const char *detail = NULL;
    bool has_instance = false, has_lease = false;
    hf__json_reader_init(&json, text, BODY_MOST, arena);
    enum hf_json_type type = hf__json_peek(&json);
    if (type != HF_JSON_NOTHING && type != HF_JSON_OBJECT)
        return hf__arena_printf(arena, "$: %s found, object expected", type_names[type]).ptr;
    hf__json_object(&json);
    while (!detail && hf__json_key(&json, &key)) {
        if (hf__slice_is(key, "instanceId")) {
            has_instance = true;
            detail = take_instance(arena, &json, &ret->instance_id);
        } else if (wants_lease && hf__slice_is(key, "leaseDuration")) {
            has_lease = true;
            detail = take_lease(arena, &json, &ret->lease_s);
        } else {
            detail = hf__arena_printf(arena,
                                      "$: property '%.*s' is not defined in the schema and the "
                                      "schema does not allow additional properties",
                                      HF_FMT(key))
                         .ptr;
        }
    }
    if (detail) return detail;
    if (hf__json_finish(&json) != 0)
        return hf__arena_printf(arena, "$: %s", json.error.message).ptr;
    if (!has_instance) return "$: required property 'instanceId' not found";
    if (wants_lease && !has_lease) return "$: required property 'leaseDuration' not found";
    return NULL;
}
