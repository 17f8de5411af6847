#include "base/json_reader.h"
#include "base/text.h"
#include "item/number.h"
#include "service/api/v1.h"

enum { NAME_LEAST = 3, NAME_MOST = 64, BODY_MOST = 64 * 1024, LEASE_MOST_S = 86400 };

/* ---- the path ---- */

static void tell(struct hf_v1_problems *problems, const char *text)
{
    if (problems->count < HF_V1_PROBLEMS_MOST && text) problems->at[problems->count++] = text;
}

static bool is_word(struct hf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_';
        if (!good) return false;
    }
    return text.len > 0;
}

static void check_name(struct hf_arena *arena, const char *parameter, const char *what,
                       struct hf_slice name, struct hf_v1_problems *problems)
{
    const char *wrong[] = {NULL, NULL};
    if (name.len < NAME_LEAST || name.len > NAME_MOST)
        wrong[0] = "must be between 3 and 64 characters long";
    if (name.len > 0 && !is_word(name))
        wrong[1] = "must be alphanumeric with dashes and underscores only";
    for (int i = 0; i < 2; i++) {
        if (!wrong[i]) continue;
        tell(problems, hf__arena_printf(arena, "Parameter '%s' failed validation: %s %s", parameter,
                                        what, wrong[i])
                           .ptr);
    }
}

void hf__v1_path(struct hf_arena *arena, struct hf_slice space, struct hf_slice name,
                 struct hf_v1_problems *ret)
{
    *ret = (struct hf_v1_problems){0};
    check_name(arena, "namespace", "Namespace", space, ret);
    check_name(arena, "lockName", "Lock name", name, ret);
}

/* ---- the body ---- */

static const char *const type_names[] = {
    [HF_JSON_NOTHING] = "nothing", [HF_JSON_OBJECT] = "object", [HF_JSON_ARRAY] = "array",
    [HF_JSON_STRING] = "string",   [HF_JSON_NUMBER] = "number", [HF_JSON_BOOL] = "boolean",
    [HF_JSON_NULL] = "null",
};

/* Whether the value has the type it should have. */
static bool is_of_type(struct hf_arena *arena, struct hf_json_reader *json, const char *field,
                       enum hf_json_type wanted, const char *name, struct hf_v1_problems *problems)
{
    enum hf_json_type type = hf__json_peek(json);
    if (type == wanted) return true;
    tell(problems,
         hf__arena_printf(arena, "$.%s: %s found, %s expected", field, type_names[type], name).ptr);
    hf__json_skip(json);
    return false;
}

static void take_instance(struct hf_arena *arena, struct hf_json_reader *json, struct hf_slice *ret,
                          struct hf_v1_problems *problems)
{
    if (!is_of_type(arena, json, "instanceId", HF_JSON_STRING, "string", problems)) return;
    if (!hf__json_string(json, ret)) return;
    if (ret->len < NAME_LEAST) tell(problems, "$.instanceId: must be at least 3 characters long");
    if (ret->len > NAME_MOST) tell(problems, "$.instanceId: must be at most 64 characters long");
    if (!is_word(*ret))
        tell(problems, "$.instanceId: does not match the regex pattern ^[a-zA-Z0-9_-]+$");
}

/* 60.0 and 6e1 are whole numbers as well. */
static void take_lease(struct hf_arena *arena, struct hf_json_reader *json, int64_t *ret,
                       struct hf_v1_problems *problems)
{
    struct hf_slice text;
    struct hf_number number, least = hf__number_from_int64(1);
    struct hf_number most = hf__number_from_int64(LEASE_MOST_S);
    if (!is_of_type(arena, json, "leaseDuration", HF_JSON_NUMBER, "integer", problems)) return;
    if (!hf__json_number(json, &text)) return;
    bool reads = hf__number_parse(text, &number, NULL) == 0;
    if (reads && hf__number_compare(&number, &least) < 0)
        tell(problems, "$.leaseDuration: must have a minimum value of 1");
    else if (!reads || hf__number_compare(&number, &most) > 0)
        tell(problems, "$.leaseDuration: must have a maximum value of 86400");
    else if (!hf__number_to_int64(&number, ret))
        tell(problems, "$.leaseDuration: number found, integer expected");
}

void hf__v1_body(struct hf_arena *arena, struct hf_slice text, bool wants_lease,
                 struct hf_v1_body *ret, struct hf_v1_problems *ret_problems)
{
    struct hf_v1_problems *problems = ret_problems;
    struct hf_json_reader json;
    struct hf_slice key;
    bool has_instance = false, has_lease = false;
    *problems = (struct hf_v1_problems){0};
    hf__json_reader_init(&json, text, BODY_MOST, arena);
    enum hf_json_type type = hf__json_peek(&json);
    if (type != HF_JSON_NOTHING && type != HF_JSON_OBJECT) {
        tell(problems,
             hf__arena_printf(arena, "$: %s found, object expected", type_names[type]).ptr);
        return;
    }
    hf__json_object(&json);
    while (hf__json_key(&json, &key)) {
        if (hf__slice_is(key, "instanceId")) {
            has_instance = true;
            take_instance(arena, &json, &ret->instance_id, problems);
        } else if (wants_lease && hf__slice_is(key, "leaseDuration")) {
            has_lease = true;
            take_lease(arena, &json, &ret->lease_s, problems);
        } else {
            tell(problems, hf__arena_printf(arena,
                                            "$: property '%.*s' is not defined in the schema and "
                                            "the schema does not allow additional properties",
                                            HF_FMT(key))
                               .ptr);
            hf__json_skip(&json);
        }
    }
    if (hf__json_finish(&json) != 0) {
        problems->count = 0; /* the JSON is malformed: problems found before may be wrong */
        tell(problems, hf__arena_printf(arena, "$: %s", json.error.message).ptr);
        return;
    }
    if (!has_instance) tell(problems, "$: required property 'instanceId' not found");
    if (wants_lease && !has_lease) tell(problems, "$: required property 'leaseDuration' not found");
}
