#include "item/index.h"

const char *const hf__project_names[HF_PROJECTS] = {
    [HF_PROJECT_ALL] = "ALL",
    [HF_PROJECT_KEYS_ONLY] = "KEYS_ONLY",
    [HF_PROJECT_INCLUDE] = "INCLUDE",
};

const struct hf_index *hf__index_find(struct hf_indexes indexes, struct hf_slice name)
{
    for (size_t i = 0; i < indexes.count; i++)
        if (hf__slice_eq(indexes.at[i].name, name)) return &indexes.at[i];
    return NULL;
}

/* The attributes of a key. */
struct part {
    struct hf_slice name;
    enum hf_type type;
    size_t limit;
};

static size_t parts_of(const struct hf_key_schema *schema, struct part ret[2])
{
    ret[0] = (struct part){schema->hash_name, schema->hash_type, HF_HASH_KEY_MAX_SIZE};
    ret[1] = (struct part){schema->range_name, schema->range_type, HF_RANGE_KEY_MAX_SIZE};
    return hf__schema_has_range(schema) ? 2 : 1;
}

/* ---- new indexes ---- */

static int invalid(struct hf_error *reterr, const char *text)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION, "One or more parameter values were invalid: %s",
                         text);
}

static int check_projection(const struct hf_index *index, struct hf_error *reterr)
{
    if (index->project != HF_PROJECT_INCLUDE && index->included_count > 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "One or more parameter values were invalid: ProjectionType is %s, but "
                             "NonKeyAttributes is specified",
                             hf__project_names[index->project]);
    if (index->project == HF_PROJECT_INCLUDE && index->included_count == 0)
        return invalid(reterr, "ProjectionType is INCLUDE, but NonKeyAttributes is not specified");
    for (size_t i = 0; i < index->included_count && index->included_count <= HF_INCLUDED_MOST; i++)
        for (size_t j = 0; j < i; j++)
            if (hf__slice_eq(index->included[i], index->included[j]))
                return invalid(reterr, "Duplicate attribute in NonKeyAttributes");
    return 0;
}

static int check_local(const struct hf_index *index, const struct hf_key_schema *table,
                       struct hf_error *reterr)
{
    if (!hf__schema_has_range(table))
        return invalid(reterr, "Table KeySchema does not have a range key, which is required when "
                               "specifying a LocalSecondaryIndex");
    if (!hf__schema_has_range(&index->schema))
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Index KeySchema does not have a "
            "range key for index: %.*s",
            HF_FMT(index->name));
    if (!hf__slice_eq(index->schema.hash_name, table->hash_name))
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Index KeySchema does not have the "
            "same leading hash key as table KeySchema for index: %.*s. index hash key: "
            "%.*s, table hash key: %.*s",
            HF_FMT(index->name), HF_FMT(index->schema.hash_name), HF_FMT(table->hash_name));
    return 0;
}

static int check_global(const struct hf_index *index, bool on_demand, struct hf_error *reterr)
{
    bool units = index->read_units > 0 && index->write_units > 0;
    bool any = index->read_units != 0 || index->write_units != 0;
    if (on_demand && any)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: ProvisionedThroughput should not be "
            "specified for index: %.*s when BillingMode is PAY_PER_REQUEST",
            HF_FMT(index->name));
    if (!on_demand && any && !units)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '%lld' at "
            "'globalSecondaryIndexes.%.*s.provisionedThroughput.%sCapacityUnits' failed to satisfy "
            "constraint: Member must have value greater than or equal to 1",
            (long long)(index->read_units < 1 ? index->read_units : index->write_units),
            HF_FMT(index->name), index->read_units < 1 ? "read" : "write");
    if (!on_demand && !any)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: ProvisionedThroughput is not "
            "specified for index: %.*s",
            HF_FMT(index->name));
    return 0;
}

static int check_index(const struct hf_index *index, const struct hf_key_schema *table,
                       bool on_demand, struct hf_error *reterr)
{
    if (index->name.len < 3 || index->name.len > 255 || !hf__is_table_text(index->name))
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Invalid table/index name.  Table/index names must be between 3 and 255 "
            "characters long, and may contain only the characters a-z, A-Z, 0-9, '_', "
            "'-', and '.'");
    int code = hf__schema_check(&index->schema, reterr);
    if (code == 0) code = check_projection(index, reterr);
    if (code != 0) return code;
    return index->global ? check_global(index, on_demand, reterr)
                         : check_local(index, table, reterr);
}

/* No item could have an attribute that two keys want to be of different types. */
static int check_types(const struct hf_key_schema *one, const struct hf_key_schema *other,
                       struct hf_error *reterr)
{
    struct part left[2], right[2];
    size_t left_count = parts_of(one, left), right_count = parts_of(other, right);
    for (size_t i = 0; i < left_count; i++)
        for (size_t j = 0; j < right_count; j++)
            if (left[i].type != right[j].type && hf__slice_eq(left[i].name, right[j].name))
                return hf__error_set(reterr, HF_ERR_VALIDATION,
                                     "One or more parameter values were invalid: Key attribute "
                                     "%.*s is already defined with another type: %s",
                                     HF_FMT(left[i].name), hf__type_name(right[j].type));
    return 0;
}

int hf__indexes_check(struct hf_indexes indexes, const struct hf_key_schema *table, bool on_demand,
                      struct hf_error *reterr)
{
    size_t globals = 0, locals = 0, included = 0;
    bool many = indexes.count > HF_GLOBAL_INDEXES_MOST + HF_LOCAL_INDEXES_MOST;
    for (size_t i = 0; i < indexes.count; i++) {
        const struct hf_index *index = &indexes.at[i];
        *(index->global ? &globals : &locals) += 1;
        included += index->included_count;
        int code = check_index(index, table, on_demand, reterr);
        if (code == 0) code = check_types(&index->schema, table, reterr);
        for (size_t j = 0; j < i && code == 0 && !many; j++)
            code = check_types(&index->schema, &indexes.at[j].schema, reterr);
        if (code != 0) return code;
        if (!many && hf__index_find((struct hf_indexes){indexes.at, i}, index->name))
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Duplicate index name: %.*s",
                HF_FMT(index->name));
    }
    if (locals > HF_LOCAL_INDEXES_MOST)
        return invalid(reterr, "Number of LocalSecondaryIndexes exceeds per-table limit of 5");
    if (globals > HF_GLOBAL_INDEXES_MOST)
        return invalid(reterr, "GlobalSecondaryIndex count exceeds the per-table limit of 20");
    if (included > HF_INCLUDED_MOST)
        return invalid(reterr, "Number of NonKeyAttributes exceeds the limit of 100");
    return 0;
}

/* ---- items ---- */

int hf__index_check_item(const struct hf_index *index, struct hf_item item, struct hf_error *reterr)
{
    struct part parts[2];
    size_t count = parts_of(&index->schema, parts);
    for (size_t i = 0; i < count; i++) {
        const struct hf_value *value = hf__item_get(item, parts[i].name);
        if (!value) continue;
        if (value->type != parts[i].type)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Type mismatch for Index Key %.*s "
                "Expected: %s Actual: %s IndexName: %.*s",
                HF_FMT(parts[i].name), hf__type_name(parts[i].type), hf__type_name(value->type),
                HF_FMT(index->name));
        if (value->type == HF_N) continue;
        if (value->bytes.len == 0)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values are not valid. A value specified for a "
                "secondary index key is not supported. The AttributeValue for a key "
                "attribute cannot contain an empty %s value. IndexName: %.*s, IndexKey: %.*s",
                value->type == HF_S ? "string" : "binary", HF_FMT(index->name),
                HF_FMT(parts[i].name));
        if (value->bytes.len > parts[i].limit)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Size of %s has exceeded the "
                "maximum size limit of %zu bytes",
                i == 0 ? "hashkey" : "rangekey", parts[i].limit);
    }
    return 0;
}

bool hf__index_has(const struct hf_index *index, struct hf_item item)
{
    return hf__item_get(item, index->schema.hash_name) &&
           (!hf__schema_has_range(&index->schema) || hf__item_get(item, index->schema.range_name));
}

static bool is_key(const struct hf_index *index, const struct hf_key_schema *table,
                   struct hf_slice name)
{
    return hf__schema_is_key_name(table, name) || hf__schema_is_key_name(&index->schema, name);
}

bool hf__index_shows(const struct hf_index *index, const struct hf_key_schema *table,
                     struct hf_slice name)
{
    if (index->project == HF_PROJECT_ALL || is_key(index, table, name)) return true;
    for (size_t i = 0; i < index->included_count; i++)
        if (hf__slice_eq(index->included[i], name)) return true;
    return false;
}

static struct hf_item choose(struct hf_arena *arena, const struct hf_index *index,
                             const struct hf_key_schema *table, struct hf_item item,
                             bool (*wants)(const struct hf_index *, const struct hf_key_schema *,
                                           struct hf_slice))
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count + 1, sizeof *attrs);
    if (!attrs) return (struct hf_item){0};
    size_t count = 0;
    for (size_t i = 0; i < item.count; i++)
        if (wants(index, table, item.attrs[i].name)) attrs[count++] = item.attrs[i];
    return (struct hf_item){attrs, count};
}

struct hf_item hf__index_project(struct hf_arena *arena, const struct hf_index *index,
                                 const struct hf_key_schema *table, struct hf_item item)
{
    if (index->project == HF_PROJECT_ALL) return item;
    return choose(arena, index, table, item, hf__index_shows);
}

struct hf_item hf__index_key_of(struct hf_arena *arena, const struct hf_index *index,
                                const struct hf_key_schema *table, struct hf_item item)
{
    return choose(arena, index, table, item, is_key);
}

bool hf__index_key_fits(const struct hf_index *index, const struct hf_key_schema *table,
                        struct hf_item key)
{
    struct part parts[4];
    size_t count = parts_of(table, parts), seen = 0;
    count += parts_of(&index->schema, parts + count);
    for (size_t i = 0; i < key.count; i++) seen += is_key(index, table, key.attrs[i].name);
    for (size_t i = 0; i < count; i++) {
        const struct hf_value *value = hf__item_get(key, parts[i].name);
        if (!value || value->type != parts[i].type || hf__value_check(value, NULL) != 0)
            return false;
        if (value->type != HF_N && (value->bytes.len == 0 || value->bytes.len > parts[i].limit))
            return false;
    }
    return seen == key.count;
}

/* ---- comparing ---- */

static bool index_equal(const struct hf_index *a, const struct hf_index *b)
{
    bool same = hf__slice_eq(a->name, b->name) && a->global == b->global &&
                hf__schema_equal(&a->schema, &b->schema) && a->project == b->project &&
                a->included_count == b->included_count && a->read_units == b->read_units &&
                a->write_units == b->write_units;
    for (size_t i = 0; same && i < a->included_count; i++)
        same = hf__slice_eq(a->included[i], b->included[i]);
    return same;
}

bool hf__indexes_equal(struct hf_indexes a, struct hf_indexes b)
{
    if (a.count != b.count) return false;
    for (size_t i = 0; i < a.count; i++)
        if (!index_equal(&a.at[i], &b.at[i])) return false;
    return true;
}
