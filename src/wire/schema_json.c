#include "wire/schema_json.h"

/* One object with an AttributeName and one other member. */
static void put_pair(struct hf_json_writer *w, struct hf_slice name, const char *what,
                     const char *value)
{
    hf__json_open(w, '{');
    hf__json_put_name(w, "AttributeName");
    hf__json_put_string(w, name);
    hf__json_put_name(w, what);
    hf__json_put_string(w, hf__slice_str(value));
    hf__json_close(w, '}');
}

void hf__json_put_schema(struct hf_json_writer *w, const struct hf_key_schema *schema)
{
    bool range = hf__schema_has_range(schema);
    hf__json_put_name(w, "KeySchema");
    hf__json_open(w, '[');
    put_pair(w, schema->hash_name, "KeyType", "HASH");
    if (range) put_pair(w, schema->range_name, "KeyType", "RANGE");
    hf__json_close(w, ']');
    hf__json_put_name(w, "AttributeDefinitions");
    hf__json_open(w, '[');
    put_pair(w, schema->hash_name, "AttributeType", hf__type_name(schema->hash_type));
    if (range) put_pair(w, schema->range_name, "AttributeType", hf__type_name(schema->range_type));
    hf__json_close(w, ']');
}

static bool read_pair(struct hf_json_reader *r, const char *what, struct hf_slice *ret_name,
                      struct hf_slice *ret_value)
{
    struct hf_slice key;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__slice_is(key, "AttributeName")) hf__json_string(r, ret_name);
        else if (hf__slice_is(key, what)) hf__json_string(r, ret_value);
        else hf__json_skip(r);
    }
    return !r->failed;
}

bool hf__json_read_key_schema(struct hf_json_reader *r, struct hf_schema_parts *parts)
{
    hf__json_array(r);
    while (hf__json_element(r)) {
        struct hf_slice name = {0}, role = {0};
        if (!read_pair(r, "KeyType", &name, &role)) return false;
        struct hf_slice *part = hf__slice_is(role, "HASH")    ? &parts->hash_name
                                : hf__slice_is(role, "RANGE") ? &parts->range_name
                                                              : NULL;
        if (!part || part->len > 0 || name.len == 0)
            return hf__json_fail(r, "KeySchema must have one HASH and at most one RANGE element");
        *part = name;
    }
    return !r->failed;
}

bool hf__json_read_definitions(struct hf_json_reader *r, struct hf_schema_parts *parts)
{
    hf__json_array(r);
    while (hf__json_element(r)) {
        struct hf_slice name = {0}, type = {0};
        if (!read_pair(r, "AttributeType", &name, &type)) return false;
        size_t index = parts->defined_count++;
        if (index >= sizeof parts->defined / sizeof parts->defined[0]) continue;
        parts->defined[index].name = name;
        parts->defined[index].type = type;
    }
    return !r->failed;
}

static int find_type(const struct hf_schema_parts *parts, struct hf_slice name, enum hf_type *ret,
                     struct hf_error *reterr)
{
    size_t room = sizeof parts->defined / sizeof parts->defined[0];
    for (size_t i = 0; i < parts->defined_count && i < room; i++) {
        if (!hf__slice_eq(parts->defined[i].name, name)) continue;
        if (hf__type_from_name(parts->defined[i].type, ret) && hf__type_is_ordered(*ret)) return 0;
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '%.*s' at 'attributeDefinitions' failed "
            "to satisfy constraint: Member must satisfy enum value set: [B, N, S]",
            HF_FMT(parts->defined[i].type));
    }
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "One or more parameter values were invalid: Some index key attributes are not "
        "defined in AttributeDefinitions. Keys: [%.*s]",
        HF_FMT(name));
}

int hf__schema_join(const struct hf_schema_parts *parts, struct hf_key_schema *ret,
                    struct hf_error *reterr)
{
    struct hf_key_schema schema = {.hash_name = parts->hash_name, .range_name = parts->range_name};
    int code = find_type(parts, schema.hash_name, &schema.hash_type, reterr);
    if (code == 0 && hf__schema_has_range(&schema))
        code = find_type(parts, schema.range_name, &schema.range_type, reterr);
    if (code == 0) *ret = schema;
    return code;
}
