#include "wire/table_json.h"

#include <stdio.h>

#include "wire/schema_json.h"

/* ---- writing ---- */

static void put_string(struct hf_json_writer *w, const char *name, struct hf_slice text)
{
    hf__json_put_name(w, name);
    hf__json_put_string(w, text);
}

static void put_int64(struct hf_json_writer *w, const char *name, int64_t value)
{
    hf__json_put_name(w, name);
    hf__json_put_int64(w, value);
}

static void put_time(struct hf_json_writer *w, const char *name, int64_t unix_ms)
{
    char text[32];
    snprintf(text, sizeof text, "%lld.%03lld", (long long)(unix_ms / 1000),
             (long long)(unix_ms % 1000));
    hf__json_put_name(w, name);
    hf__json_put_raw(w, hf__slice_str(text));
}

static void put_units(struct hf_json_writer *w, int64_t read_units, int64_t write_units)
{
    hf__json_put_name(w, "ProvisionedThroughput");
    hf__json_open(w, '{');
    put_int64(w, "NumberOfDecreasesToday", 0);
    put_int64(w, "ReadCapacityUnits", read_units);
    put_int64(w, "WriteCapacityUnits", write_units);
    hf__json_close(w, '}');
}

static void put_arn(struct hf_json_writer *w, const char *name, struct hf_slice table,
                    const struct hf_index *index)
{
    char text[600];
    int len = snprintf(text, sizeof text, HF_ARN_PREFIX "%.*s", HF_FMT(table));
    if (index && len > 0 && len < (int)sizeof text)
        snprintf(text + len, sizeof text - (size_t)len, "/index/%.*s", HF_FMT(index->name));
    put_string(w, name, hf__slice_str(text));
}

static void put_index(struct hf_json_writer *w, const struct hf_table_info *table, size_t i)
{
    const struct hf_index *index = &table->indexes.at[i];
    hf__json_open(w, '{');
    hf__json_put_index(w, index);
    if (index->global) {
        put_string(w, "IndexStatus", index->filling ? HF_LIT("CREATING") : HF_LIT("ACTIVE"));
        if (index->filling) {
            hf__json_put_name(w, "Backfilling");
            hf__json_put_bool(w, true);
        }
        put_units(w, index->read_units, index->write_units);
    }
    if (table->index_counts) {
        put_int64(w, "ItemCount", table->index_counts[i]);
        int64_t each = table->item_count > 0 ? table->size_bytes / table->item_count : 0;
        if (table->size_bytes >= 0) /* an estimate */
            put_int64(w, "IndexSizeBytes", each * table->index_counts[i]);
    }
    put_arn(w, "IndexArn", table->name, index);
    hf__json_close(w, '}');
}

static void put_indexes(struct hf_json_writer *w, const struct hf_table_info *table, bool global)
{
    bool any = false;
    for (size_t i = 0; i < table->indexes.count; i++) {
        if (table->indexes.at[i].global != global) continue;
        if (!any) {
            hf__json_put_name(w, global ? "GlobalSecondaryIndexes" : "LocalSecondaryIndexes");
            hf__json_open(w, '[');
        }
        any = true;
        put_index(w, table, i);
    }
    if (any) hf__json_close(w, ']');
}

void hf__json_put_table(struct hf_json_writer *w, const struct hf_table_info *table)
{
    hf__json_open(w, '{');
    put_string(w, "TableName", table->name);
    put_string(w, "TableStatus", table->status);
    hf__json_put_key_schema(w, &table->schema);
    hf__json_put_definitions(w, &table->schema, table->indexes);
    put_time(w, "CreationDateTime", table->created_unix_ms);
    put_units(w, table->read_units, table->write_units);
    if (table->size_bytes >= 0) put_int64(w, "TableSizeBytes", table->size_bytes);
    if (table->item_count >= 0) put_int64(w, "ItemCount", table->item_count);
    put_arn(w, "TableArn", table->name, NULL);
    if (table->id.len > 0) put_string(w, "TableId", table->id);
    hf__json_put_name(w, "BillingModeSummary");
    hf__json_open(w, '{');
    put_string(w, "BillingMode",
               table->on_demand ? HF_LIT("PAY_PER_REQUEST") : HF_LIT("PROVISIONED"));
    if (table->on_demand) put_time(w, "LastUpdateToPayPerRequestDateTime", table->created_unix_ms);
    hf__json_close(w, '}');
    put_indexes(w, table, false);
    put_indexes(w, table, true);
    hf__json_put_name(w, "DeletionProtectionEnabled");
    hf__json_put_bool(w, table->is_protected);
    hf__json_close(w, '}');
}

void hf__json_put_tags(struct hf_json_writer *w, struct hf_item tags)
{
    hf__json_put_name(w, "Tags");
    hf__json_open(w, '[');
    for (size_t i = 0; i < tags.count; i++) {
        hf__json_open(w, '{');
        put_string(w, "Key", tags.attrs[i].name);
        put_string(w, "Value", tags.attrs[i].value.bytes);
        hf__json_close(w, '}');
    }
    hf__json_close(w, ']');
}

/* ---- reading ---- */

/* Seconds with a fraction, in any spelling, as milliseconds. */
static void read_time(struct hf_json_reader *json, int64_t *ret_ms)
{
    struct hf_slice text;
    struct hf_number number;
    if (!hf__json_number(json, &text) || hf__number_parse(text, &number, NULL) != 0) return;
    if (number.count == 0) return;
    number.exponent = (int16_t)(number.exponent + 3);
    if (number.exponent < 0) return;
    if (number.count > number.exponent + 1) number.count = (uint8_t)(number.exponent + 1);
    hf__number_to_int64(&number, ret_ms);
}

static void read_billing(struct hf_json_reader *json, bool *ret_on_demand)
{
    struct hf_slice key, mode;
    hf__json_object(json);
    while (hf__json_key(json, &key)) {
        if (!hf__slice_is(key, "BillingMode")) hf__json_skip(json);
        else if (hf__json_string(json, &mode))
            *ret_on_demand = hf__slice_is(mode, "PAY_PER_REQUEST");
    }
}

static bool resolve(struct hf_json_reader *r, const struct hf_definitions *definitions,
                    struct hf_key_schema *schema, struct hf_indexes indexes)
{
    struct hf_error error;
    if (r->failed) return false;
    if (r->note_count > 0) return hf__json_fail(r, "%.*s", HF_FMT(r->notes));
    int code = schema ? hf__schema_resolve(definitions, schema, &error) : 0;
    for (size_t i = 0; i < indexes.count && code == 0; i++) {
        struct hf_index *index = (struct hf_index *)&indexes.at[i]; /* this reader's own */
        code = hf__schema_resolve(definitions, &index->schema, &error);
    }
    return code == 0 || hf__json_fail(r, "%s", error.message);
}

bool hf__json_read_table(struct hf_json_reader *json, struct hf_table_info *table)
{
    struct hf_definitions definitions = {0};
    struct hf_slice key;
    hf__json_object(json);
    while (hf__json_key(json, &key)) {
        if (hf__json_peek(json) == HF_JSON_NULL) hf__json_null(json);
        else if (hf__slice_is(key, "TableName")) hf__json_string(json, &table->name);
        else if (hf__slice_is(key, "TableStatus")) hf__json_string(json, &table->status);
        else if (hf__slice_is(key, "TableId")) hf__json_string(json, &table->id);
        else if (hf__slice_is(key, "ItemCount")) hf__json_int64(json, &table->item_count);
        else if (hf__slice_is(key, "TableSizeBytes")) hf__json_int64(json, &table->size_bytes);
        else if (hf__slice_is(key, "CreationDateTime")) read_time(json, &table->created_unix_ms);
        else if (hf__slice_is(key, "KeySchema")) hf__json_read_key_schema(json, &table->schema);
        else if (hf__slice_is(key, "AttributeDefinitions"))
            hf__json_read_definitions(json, &definitions);
        else if (hf__slice_is(key, "BillingModeSummary")) read_billing(json, &table->on_demand);
        else if (hf__slice_is(key, "ProvisionedThroughput"))
            hf__json_read_units(json, &table->read_units, &table->write_units);
        else if (hf__slice_is(key, "LocalSecondaryIndexes"))
            hf__json_read_indexes(json, false, &table->indexes);
        else if (hf__slice_is(key, "GlobalSecondaryIndexes"))
            hf__json_read_indexes(json, true, &table->indexes);
        else if (hf__slice_is(key, "DeletionProtectionEnabled"))
            hf__json_bool(json, &table->is_protected);
        else hf__json_skip(json);
    }
    return resolve(json, &definitions, &table->schema, table->indexes);
}

static void read_tag(struct hf_json_reader *r, struct hf_attr *ret)
{
    struct hf_slice key;
    ret->value.type = HF_S;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__slice_is(key, "Key")) hf__json_string(r, &ret->name);
        else if (hf__slice_is(key, "Value")) hf__json_string(r, &ret->value.bytes);
        else hf__json_skip(r);
    }
}

bool hf__json_read_tags(struct hf_json_reader *r, struct hf_item *ret)
{
    struct hf_attr *attrs = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r);
    while (hf__json_element(r)) {
        attrs = hf__arena_grow(r->arena, attrs, count, &capacity, sizeof *attrs);
        if (!attrs) return hf__json_no_memory(r);
        if (count > HF_TAGS_MOST) { /* refused when it is checked */
            hf__json_skip(r);
            continue;
        }
        attrs[count] = (struct hf_attr){0};
        read_tag(r, &attrs[count++]);
        const struct hf_item before = {attrs, count - 1};
        if (!r->failed && hf__item_get(before, attrs[count - 1].name))
            return hf__json_refuse(r, "One or more parameter values were invalid: Duplicate tag "
                                      "keys");
    }
    *ret = (struct hf_item){attrs, count};
    return !r->failed;
}

struct hf_slice hf__table_of_arn(struct hf_slice text)
{
    static const struct hf_slice begin = {"arn:", 4}, middle = {":table/", 7};
    if (!hf__slice_starts(text, begin)) return text;
    for (size_t i = 0; i + middle.len <= text.len; i++) {
        struct hf_slice rest = hf__slice_skip(text, i);
        if (!hf__slice_starts(rest, middle)) continue;
        rest = hf__slice_skip(rest, middle.len);
        const char *end = memchr(rest.ptr, '/', rest.len);
        return end ? hf__slice(rest.ptr, (size_t)(end - rest.ptr)) : rest;
    }
    return text;
}

/* ---- what the embedded engine keeps ---- */

static void put_kept_indexes(struct hf_json_writer *w, struct hf_indexes indexes, bool global)
{
    hf__json_put_name(w, global ? "GlobalSecondaryIndexes" : "LocalSecondaryIndexes");
    hf__json_open(w, '[');
    for (size_t i = 0; i < indexes.count; i++) {
        const struct hf_index *index = &indexes.at[i];
        if (index->global != global) continue;
        hf__json_open(w, '{');
        hf__json_put_index(w, index);
        put_units(w, index->read_units, index->write_units);
        put_int64(w, "Slot", index->slot);
        if (index->filling) put_string(w, "IndexStatus", HF_LIT("CREATING"));
        hf__json_close(w, '}');
    }
    hf__json_close(w, ']');
}

static bool has_any(struct hf_indexes indexes, bool global)
{
    for (size_t i = 0; i < indexes.count; i++)
        if (indexes.at[i].global == global) return true;
    return false;
}

void hf__table_spec_write(const struct hf_table_spec *spec, const struct hf_key_schema *schema,
                          struct hf_buf *ret)
{
    struct hf_json_writer w;
    if (spec->indexes.count == 0 && !spec->is_protected && spec->tags.count == 0) return;
    hf__json_writer_init(&w, ret);
    hf__json_open(&w, '{');
    hf__json_put_definitions(&w, schema, spec->indexes);
    for (int global = 0; global < 2; global++)
        if (has_any(spec->indexes, global)) put_kept_indexes(&w, spec->indexes, global);
    hf__json_put_name(&w, "DeletionProtectionEnabled");
    hf__json_put_bool(&w, spec->is_protected);
    hf__json_put_tags(&w, spec->tags);
    hf__json_close(&w, '}');
}

int hf__table_spec_read(struct hf_arena *arena, struct hf_slice text, struct hf_table_spec *ret,
                        struct hf_error *reterr)
{
    enum { LONGEST = 1024 * 1024 };
    struct hf_definitions definitions = {0};
    struct hf_json_reader r;
    struct hf_slice key;
    *ret = (struct hf_table_spec){0};
    if (text.len == 0) return 0;
    hf__json_reader_init(&r, text, LONGEST, arena);
    hf__json_object(&r);
    while (hf__json_key(&r, &key)) {
        if (hf__slice_is(key, "AttributeDefinitions")) hf__json_read_definitions(&r, &definitions);
        else if (hf__slice_is(key, "LocalSecondaryIndexes"))
            hf__json_read_indexes(&r, false, &ret->indexes);
        else if (hf__slice_is(key, "GlobalSecondaryIndexes"))
            hf__json_read_indexes(&r, true, &ret->indexes);
        else if (hf__slice_is(key, "DeletionProtectionEnabled"))
            hf__json_bool(&r, &ret->is_protected);
        else if (hf__slice_is(key, "Tags")) hf__json_read_tags(&r, &ret->tags);
        else hf__json_skip(&r);
    }
    resolve(&r, &definitions, NULL, ret->indexes);
    int code = hf__json_finish(&r);
    return code == 0 ? 0 : hf__error_set(reterr, code, "%s", r.error.message);
}
