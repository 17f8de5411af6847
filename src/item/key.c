#include "item/key.h"

bool hf__schema_equal(const struct hf_key_schema *a, const struct hf_key_schema *b)
{
    bool range = hf__schema_has_range(a);
    return hf__slice_eq(a->hash_name, b->hash_name) && a->hash_type == b->hash_type &&
           range == hf__schema_has_range(b) &&
           (!range ||
            (hf__slice_eq(a->range_name, b->range_name) && a->range_type == b->range_type));
}

bool hf__is_table_text(struct hf_slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '.';
        if (!good) return false;
    }
    return true;
}

bool hf__schema_is_key_name(const struct hf_key_schema *schema, struct hf_slice name)
{
    return hf__slice_eq(name, schema->hash_name) ||
           (hf__schema_has_range(schema) && hf__slice_eq(name, schema->range_name));
}

int hf__schema_check(const struct hf_key_schema *schema, struct hf_error *reterr)
{
    struct hf_slice names[] = {schema->hash_name, schema->range_name};
    enum hf_type types[] = {schema->hash_type, schema->range_type};
    int count = hf__schema_has_range(schema) ? 2 : 1;
    for (int i = 0; i < count; i++) {
        if (names[i].len < 1 || names[i].len > 255)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "1 validation error detected: a key attribute's name must have 1 to "
                "255 bytes");
        if (!hf__type_is_ordered(types[i]))
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "1 validation error detected: Value '%s' at 'attributeDefinitions' "
                "failed to satisfy constraint: Member must satisfy enum value set: "
                "[B, N, S]",
                hf__type_name(types[i]));
    }
    if (count == 2 && hf__slice_eq(names[0], names[1]))
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid KeySchema: Some index key attribute have no definition");
    return 0;
}

struct part {
    struct hf_slice name;
    enum hf_type type;
    size_t limit;
    const char *title; /* as DynamoDB's messages say it */
};

static size_t parts_of(const struct hf_key_schema *schema, struct part ret[2])
{
    ret[0] = (struct part){schema->hash_name, schema->hash_type, HF_HASH_KEY_MAX_SIZE, "hashkey"};
    ret[1] =
        (struct part){schema->range_name, schema->range_type, HF_RANGE_KEY_MAX_SIZE, "rangekey"};
    return hf__schema_has_range(schema) ? 2 : 1;
}

static int check_value(const struct part *part, const struct hf_value *value,
                       struct hf_error *reterr)
{
    int code = hf__value_check(value, reterr);
    if (code != 0 || part->type == HF_N) return code;
    if (value->bytes.len == 0)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values are not valid. The AttributeValue for a key "
            "attribute cannot contain an empty %s value. Key: %.*s",
            part->type == HF_S ? "string" : "binary", HF_FMT(part->name));
    if (value->bytes.len > part->limit)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Size of %s has exceeded the "
            "maximum size limit of %zu bytes",
            part->title, part->limit);
    return 0;
}

int hf__key_check(const struct hf_key_schema *schema, struct hf_item key, struct hf_error *reterr)
{
    struct part parts[2];
    size_t count = parts_of(schema, parts);
    bool fits = key.count == count;
    for (size_t i = 0; i < count && fits; i++) {
        const struct hf_value *value = hf__item_get(key, parts[i].name);
        fits = value && value->type == parts[i].type;
    }
    if (!fits)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "The provided key element does not match the schema");
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = check_value(&parts[i], hf__item_get(key, parts[i].name), reterr);
    return code;
}

int hf__key_check_item(const struct hf_key_schema *schema, struct hf_item item,
                       struct hf_error *reterr)
{
    struct part parts[2];
    size_t count = parts_of(schema, parts);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        const struct hf_value *value = hf__item_get(item, parts[i].name);
        if (!value)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Missing the key %.*s in "
                "the item",
                HF_FMT(parts[i].name));
        if (value->type != parts[i].type)
            return hf__error_set(reterr, HF_ERR_VALIDATION,
                                 "One or more parameter values were invalid: Type mismatch for key "
                                 "%.*s expected: %s actual: %s",
                                 HF_FMT(parts[i].name), hf__type_name(parts[i].type),
                                 hf__type_name(value->type));
        code = check_value(&parts[i], value, reterr);
    }
    return code;
}

struct hf_item hf__key_of(struct hf_arena *arena, const struct hf_key_schema *schema,
                          struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, 2, sizeof *attrs);
    if (!attrs) return (struct hf_item){0};
    size_t count = 0;
    attrs[count++] = (struct hf_attr){schema->hash_name, *hf__item_get(item, schema->hash_name)};
    if (hf__schema_has_range(schema))
        attrs[count++] =
            (struct hf_attr){schema->range_name, *hf__item_get(item, schema->range_name)};
    return (struct hf_item){attrs, count};
}
