#include "wire/schema_json.h"

/* ---- writing ---- */

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

void hf__json_put_key_schema(struct hf_json_writer *w, const struct hf_key_schema *schema)
{
    hf__json_put_name(w, "KeySchema");
    hf__json_open(w, '[');
    put_pair(w, schema->hash_name, "KeyType", "HASH");
    if (hf__schema_has_range(schema)) put_pair(w, schema->range_name, "KeyType", "RANGE");
    hf__json_close(w, ']');
}

/* Whether one of the keys before this one, the table's or of so many indexes, has the attribute. */
static bool is_defined(const struct hf_key_schema *schema, struct hf_indexes before,
                       struct hf_slice name)
{
    if (hf__schema_is_key_name(schema, name)) return true;
    for (size_t i = 0; i < before.count; i++)
        if (hf__schema_is_key_name(&before.at[i].schema, name)) return true;
    return false;
}

static void put_definition(struct hf_json_writer *w, struct hf_slice name, enum hf_type type)
{
    put_pair(w, name, "AttributeType", hf__type_name(type));
}

void hf__json_put_definitions(struct hf_json_writer *w, const struct hf_key_schema *schema,
                              struct hf_indexes indexes)
{
    hf__json_put_name(w, "AttributeDefinitions");
    hf__json_open(w, '[');
    put_definition(w, schema->hash_name, schema->hash_type);
    if (hf__schema_has_range(schema)) put_definition(w, schema->range_name, schema->range_type);
    for (size_t i = 0; i < indexes.count; i++) {
        const struct hf_key_schema *key = &indexes.at[i].schema;
        const struct hf_indexes before = {indexes.at, i};
        if (!is_defined(schema, before, key->hash_name))
            put_definition(w, key->hash_name, key->hash_type);
        if (hf__schema_has_range(key) && !is_defined(schema, before, key->range_name))
            put_definition(w, key->range_name, key->range_type);
    }
    hf__json_close(w, ']');
}

static void put_projection(struct hf_json_writer *w, const struct hf_index *index)
{
    hf__json_put_name(w, "Projection");
    hf__json_open(w, '{');
    hf__json_put_name(w, "ProjectionType");
    hf__json_put_string(w, hf__slice_str(hf__project_names[index->project]));
    if (index->included_count > 0) {
        hf__json_put_name(w, "NonKeyAttributes");
        hf__json_open(w, '[');
        for (size_t i = 0; i < index->included_count; i++)
            hf__json_put_string(w, index->included[i]);
        hf__json_close(w, ']');
    }
    hf__json_close(w, '}');
}

void hf__json_put_index(struct hf_json_writer *w, const struct hf_index *index)
{
    hf__json_put_name(w, "IndexName");
    hf__json_put_string(w, index->name);
    hf__json_put_key_schema(w, &index->schema);
    put_projection(w, index);
}

/* ---- reading ---- */

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

static bool invalid(struct hf_json_reader *r, const char *text)
{
    return hf__json_refuse(r, "%s", text);
}

/* A third element, or no first one. */
static void note_length(struct hf_json_reader *r, struct hf_slice shown, size_t count)
{
    hf__json_note(r,
                  "Value '[%.*s]' at 'keySchema' failed to satisfy constraint: Member must have "
                  "length %s than or equal to %d",
                  HF_FMT(shown), count ? "less" : "greater", count ? 2 : 1);
}

bool hf__json_read_key_schema(struct hf_json_reader *r, struct hf_key_schema *ret)
{
    enum { SHOWN = 4 };
    struct hf_slice shown = HF_LIT("");
    size_t count = 0;
    hf__json_array(r);
    while (hf__json_element(r)) {
        struct hf_slice name = {0}, role = {0};
        if (!read_pair(r, "KeyType", &name, &role)) return false;
        if (count < SHOWN)
            shown = hf__arena_printf(r->arena,
                                     "%.*s%sKeySchemaElement(attributeName=%.*s, keyType=%.*s)",
                                     HF_FMT(shown), count ? ", " : "", HF_FMT(name), HF_FMT(role));
        bool hash = hf__slice_is(role, "HASH");
        if (name.len == 0 || (!hash && !hf__slice_is(role, "RANGE")))
            hf__json_note(r,
                          "Value '%.*s' at 'keySchema.%zu.member.keyType' failed to satisfy "
                          "constraint: Member must satisfy enum value set: [HASH, RANGE]",
                          HF_FMT(role), count + 1);
        else if (count == 0 && !hash)
            return invalid(r, "Invalid KeySchema: The first KeySchemaElement is not a HASH key "
                              "type");
        else if (count == 1 && hash)
            return invalid(r, "Invalid KeySchema: The second KeySchemaElement is not a RANGE key "
                              "type");
        if (count < 2) *(count == 0 ? &ret->hash_name : &ret->range_name) = name;
        count++;
    }
    if (count < 1 || count > 2) note_length(r, shown, count);
    return !r->failed;
}

bool hf__json_read_definitions(struct hf_json_reader *r, struct hf_definitions *ret)
{
    hf__json_array(r);
    while (hf__json_element(r)) {
        struct hf_slice name = {0}, type = {0};
        if (!read_pair(r, "AttributeType", &name, &type)) return false;
        size_t index = ret->count++;
        if (index >= sizeof ret->at / sizeof ret->at[0]) continue;
        ret->at[index].name = name;
        ret->at[index].type = type;
        for (size_t i = 0; i < index; i++)
            if (hf__slice_eq(ret->at[i].name, name))
                return invalid(r, "Cannot have two attributes with the same name");
    }
    return !r->failed;
}

static void read_names(struct hf_json_reader *r, struct hf_index *ret)
{
    struct hf_slice *names = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r);
    while (hf__json_element(r)) {
        names = hf__arena_grow(r->arena, names, count, &capacity, sizeof *names);
        if (!names) {
            hf__json_no_memory(r);
            return;
        }
        hf__json_string(r, &names[count++]);
    }
    ret->included = names;
    ret->included_count = count;
}

static void read_projection(struct hf_json_reader *r, struct hf_index *ret)
{
    struct hf_slice key, type = {0};
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__slice_is(key, "ProjectionType")) hf__json_string(r, &type);
        else if (hf__slice_is(key, "NonKeyAttributes")) read_names(r, ret);
        else hf__json_skip(r);
    }
    if (r->failed) return;
    if (!type.ptr) {
        hf__json_refuse(r,
                        "One or more parameter values were invalid: Unknown ProjectionType: null");
        return;
    }
    for (int i = 0; i < HF_PROJECTS; i++) {
        if (!hf__slice_is(type, hf__project_names[i])) continue;
        ret->project = (enum hf_project)i;
        return;
    }
    hf__json_note(
        r,
        "Value '%.*s' at 'projection.projectionType' failed to satisfy constraint: Member "
        "must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]",
        HF_FMT(type));
}

bool hf__json_read_units(struct hf_json_reader *r, int64_t *ret_read, int64_t *ret_write)
{
    struct hf_slice key;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__slice_is(key, "ReadCapacityUnits")) hf__json_int64(r, ret_read);
        else if (hf__slice_is(key, "WriteCapacityUnits")) hf__json_int64(r, ret_write);
        else hf__json_skip(r);
    }
    return !r->failed;
}

static void read_status(struct hf_json_reader *r, bool *ret_filling)
{
    struct hf_slice status;
    if (hf__json_string(r, &status)) *ret_filling = hf__slice_is(status, "CREATING");
}

bool hf__json_read_index(struct hf_json_reader *r, struct hf_index *ret)
{
    struct hf_slice key;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__json_peek(r) == HF_JSON_NULL) hf__json_null(r);
        else if (hf__slice_is(key, "IndexName")) hf__json_string(r, &ret->name);
        else if (hf__slice_is(key, "KeySchema")) hf__json_read_key_schema(r, &ret->schema);
        else if (hf__slice_is(key, "Projection")) read_projection(r, ret);
        else if (hf__slice_is(key, "ProvisionedThroughput"))
            hf__json_read_units(r, &ret->read_units, &ret->write_units);
        else if (hf__slice_is(key, "Slot")) hf__json_int64(r, &ret->slot);
        else if (hf__slice_is(key, "IndexStatus")) read_status(r, &ret->filling);
        else hf__json_skip(r);
    }
    return !r->failed;
}

bool hf__json_read_indexes(struct hf_json_reader *r, bool global, struct hf_indexes *list)
{
    struct hf_index *indexes = NULL;
    size_t count = 0, capacity = 0;
    for (; count < list->count; count++) {
        indexes = hf__arena_grow(r->arena, indexes, count, &capacity, sizeof *indexes);
        if (!indexes) return hf__json_no_memory(r);
        indexes[count] = list->at[count];
    }
    hf__json_array(r);
    while (hf__json_element(r)) {
        indexes = hf__arena_grow(r->arena, indexes, count, &capacity, sizeof *indexes);
        if (!indexes) return hf__json_no_memory(r);
        indexes[count] = (struct hf_index){.global = global};
        hf__json_read_index(r, &indexes[count++]);
    }
    if (!r->failed && count == list->count)
        return hf__json_refuse(r,
                               "One or more parameter values were invalid: List of "
                               "%sSecondaryIndexes is empty",
                               global ? "Global" : "Local");
    *list = (struct hf_indexes){indexes, count};
    return !r->failed;
}

static int find_type(const struct hf_definitions *definitions, struct hf_slice name,
                     enum hf_type *ret, struct hf_error *reterr)
{
    size_t room = sizeof definitions->at / sizeof definitions->at[0];
    for (size_t i = 0; i < definitions->count && i < room; i++) {
        if (!hf__slice_eq(definitions->at[i].name, name)) continue;
        if (hf__type_from_name(definitions->at[i].type, ret) && hf__type_is_ordered(*ret)) return 0;
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '%.*s' at "
            "'attributeDefinitions.%zu.member.attributeType' failed to satisfy constraint: "
            "Member must satisfy enum value set: [B, N, S]",
            HF_FMT(definitions->at[i].type), i + 1);
    }
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "One or more parameter values were invalid: Some index key attributes are not "
        "defined in AttributeDefinitions. Keys: [%.*s]",
        HF_FMT(name));
}

int hf__schema_resolve(const struct hf_definitions *definitions, struct hf_key_schema *schema,
                       struct hf_error *reterr)
{
    int code = find_type(definitions, schema->hash_name, &schema->hash_type, reterr);
    if (code == 0 && hf__schema_has_range(schema))
        code = find_type(definitions, schema->range_name, &schema->range_type, reterr);
    return code;
}
