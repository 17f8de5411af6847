#include "wire/answer.h"

#include <stdio.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "wire/item_json.h"
#include "wire/schema_json.h"

/* ---- writing ---- */

static void put_string(struct hf_json_writer *w, const char *name, struct hf_slice text)
{
    hf__json_put_name(w, name);
    hf__json_put_string(w, text);
}

static void put_table(struct hf_json_writer *w, const struct hf_table_info *table)
{
    char created[32];
    snprintf(created, sizeof created, "%lld.%03lld", (long long)(table->created_unix_ms / 1000),
             (long long)(table->created_unix_ms % 1000));
    hf__json_open(w, '{');
    put_string(w, "TableName", table->name);
    put_string(w, "TableStatus", table->status);
    hf__json_put_schema(w, &table->schema);
    hf__json_put_name(w, "CreationDateTime");
    hf__json_put_raw(w, hf__slice_str(created));
    hf__json_put_name(w, "ItemCount");
    hf__json_put_int64(w, table->item_count);
    hf__json_put_name(w, "BillingModeSummary");
    hf__json_open(w, '{');
    put_string(w, "BillingMode",
               table->on_demand ? HF_LIT("PAY_PER_REQUEST") : HF_LIT("PROVISIONED"));
    hf__json_close(w, '}');
    hf__json_close(w, '}');
}

static void put_page(struct hf_json_writer *w, const struct hf_answer *answer)
{
    hf__json_put_name(w, "Items");
    hf__json_open(w, '[');
    for (size_t i = 0; i < answer->count; i++) hf__json_put_item(w, answer->items[i]);
    hf__json_close(w, ']');
    hf__json_put_name(w, "Count");
    hf__json_put_int64(w, (int64_t)answer->count);
    hf__json_put_name(w, "ScannedCount");
    hf__json_put_int64(w, answer->scanned);
    if (answer->last_key.count == 0) return;
    hf__json_put_name(w, "LastEvaluatedKey");
    hf__json_put_item(w, answer->last_key);
}

static void put_tables(struct hf_json_writer *w, const struct hf_answer *answer)
{
    hf__json_put_name(w, "TableNames");
    hf__json_open(w, '[');
    for (size_t i = 0; i < answer->table_count; i++) hf__json_put_string(w, answer->tables[i]);
    hf__json_close(w, ']');
    if (answer->last_table.len > 0) put_string(w, "LastEvaluatedTableName", answer->last_table);
}

static void put_ttl(struct hf_json_writer *w, enum hf_op_kind kind, const struct hf_answer *answer)
{
    bool update = kind == HF_UPDATE_TTL;
    hf__json_put_name(w, update ? "TimeToLiveSpecification" : "TimeToLiveDescription");
    hf__json_open(w, '{');
    if (update) {
        hf__json_put_name(w, "Enabled");
        hf__json_put_bool(w, hf__slice_is(answer->ttl_status, "ENABLED"));
    } else {
        put_string(w, "TimeToLiveStatus", answer->ttl_status);
    }
    if (answer->ttl_attribute.len > 0) put_string(w, "AttributeName", answer->ttl_attribute);
    hf__json_close(w, '}');
}

static void put_success(struct hf_json_writer *w, enum hf_op_kind kind,
                        const struct hf_answer *answer)
{
    switch (kind) {
    case HF_GET_ITEM:
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
        if (!answer->has_item) break;
        hf__json_put_name(w, kind == HF_GET_ITEM ? "Item" : "Attributes");
        hf__json_put_item(w, answer->item);
        break;
    case HF_QUERY:
    case HF_SCAN: put_page(w, answer); break;
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_DESCRIBE_TABLE:
        hf__json_put_name(w, kind == HF_DESCRIBE_TABLE ? "Table" : "TableDescription");
        put_table(w, &answer->table);
        break;
    case HF_LIST_TABLES: put_tables(w, answer); break;
    case HF_UPDATE_TTL:
    case HF_DESCRIBE_TTL: put_ttl(w, kind, answer); break;
    }
}

static int put_error(struct hf_json_writer *w, const struct hf_answer *answer)
{
    const struct hf_exception *exception = hf__exception_for(answer->code);
    char type[128];
    snprintf(type, sizeof type, "%s#%s",
             exception->code == HF_ERR_VALIDATION ? "com.amazon.coral.validate"
                                                  : "com.amazonaws.dynamodb.v20120810",
             exception->name);
    put_string(w, "__type", hf__slice_str(type));
    put_string(w, "message", hf__slice_str(answer->error.message));
    if (answer->code == HF_ERR_CONDITION && answer->has_item) {
        hf__json_put_name(w, "Item");
        hf__json_put_item(w, answer->item);
    }
    return exception->status;
}

int hf__answer_write(enum hf_op_kind kind, const struct hf_answer *answer, struct hf_buf *ret)
{
    struct hf_json_writer w;
    int status = 200;
    hf__json_writer_init(&w, ret);
    hf__json_open(&w, '{');
    if (answer->code == 0) put_success(&w, kind, answer);
    else status = put_error(&w, answer);
    hf__json_close(&w, '}');
    return status;
}

/* ---- reading ---- */

struct reader {
    struct hf_json_reader json;
    struct hf_answer *answer;
};

static void read_item(struct reader *r)
{
    r->answer->has_item = hf__json_read_item(&r->json, &r->answer->item);
}

static void read_items(struct reader *r)
{
    struct hf_item *items = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        items = hf__arena_grow(r->json.arena, items, count, &capacity, sizeof *items);
        if (!items) {
            hf__json_no_memory(&r->json);
            return;
        }
        hf__json_read_item(&r->json, &items[count++]);
    }
    r->answer->items = items;
    r->answer->count = count;
}

static void read_scanned(struct reader *r)
{
    hf__json_int64(&r->json, &r->answer->scanned);
}

static void read_last_key(struct reader *r)
{
    hf__json_read_item(&r->json, &r->answer->last_key);
}

static void read_tables(struct reader *r)
{
    struct hf_slice *names = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        names = hf__arena_grow(r->json.arena, names, count, &capacity, sizeof *names);
        if (!names) {
            hf__json_no_memory(&r->json);
            return;
        }
        hf__json_string(&r->json, &names[count++]);
    }
    r->answer->tables = names;
    r->answer->table_count = count;
}

static void read_last_table(struct reader *r)
{
    hf__json_string(&r->json, &r->answer->last_table);
}

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

static void read_table(struct reader *r)
{
    struct hf_json_reader *json = &r->json;
    struct hf_table_info *table = &r->answer->table;
    struct hf_schema_parts parts = {0};
    struct hf_error error;
    struct hf_slice key;
    hf__json_object(json);
    while (hf__json_key(json, &key)) {
        if (hf__slice_is(key, "TableName")) hf__json_string(json, &table->name);
        else if (hf__slice_is(key, "TableStatus")) hf__json_string(json, &table->status);
        else if (hf__slice_is(key, "ItemCount")) hf__json_int64(json, &table->item_count);
        else if (hf__slice_is(key, "CreationDateTime")) read_time(json, &table->created_unix_ms);
        else if (hf__slice_is(key, "KeySchema")) hf__json_read_key_schema(json, &parts);
        else if (hf__slice_is(key, "AttributeDefinitions")) hf__json_read_definitions(json, &parts);
        else if (hf__slice_is(key, "BillingModeSummary")) read_billing(json, &table->on_demand);
        else hf__json_skip(json);
    }
    if (!json->failed && hf__schema_join(&parts, &table->schema, &error) != 0)
        hf__json_fail(json, "%s", error.message);
}

static void read_ttl(struct reader *r)
{
    struct hf_slice key;
    bool enabled;
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &key)) {
        if (hf__slice_is(key, "Enabled")) {
            if (hf__json_bool(&r->json, &enabled))
                r->answer->ttl_status = enabled ? HF_LIT("ENABLED") : HF_LIT("DISABLED");
        } else if (hf__slice_is(key, "TimeToLiveStatus")) {
            hf__json_string(&r->json, &r->answer->ttl_status);
        } else if (hf__slice_is(key, "AttributeName")) {
            hf__json_string(&r->json, &r->answer->ttl_attribute);
        } else {
            hf__json_skip(&r->json);
        }
    }
}

static const struct {
    const char *name;
    void (*read)(struct reader *r);
} members[] = {
    {"Item", read_item},
    {"Attributes", read_item},
    {"Items", read_items},
    {"ScannedCount", read_scanned},
    {"LastEvaluatedKey", read_last_key},
    {"Table", read_table},
    {"TableDescription", read_table},
    {"TableNames", read_tables},
    {"LastEvaluatedTableName", read_last_table},
    {"TimeToLiveSpecification", read_ttl},
    {"TimeToLiveDescription", read_ttl},
};

static void read_member(struct reader *r, struct hf_slice key)
{
    if (hf__json_peek(&r->json) == HF_JSON_NULL) {
        hf__json_null(&r->json);
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (!hf__slice_is(key, members[i].name)) continue;
        members[i].read(r);
        return;
    }
    hf__json_skip(&r->json);
}

int hf__answer_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                    struct hf_answer *ret, struct hf_error *reterr)
{
    struct reader r = {.answer = ret};
    struct hf_slice key;
    hf__json_reader_init(&r.json, body, HF_ANSWER_MAX_SIZE, arena);
    hf__json_object(&r.json);
    while (hf__json_key(&r.json, &key)) read_member(&r, key);
    bool has_table =
        kind == HF_CREATE_TABLE || kind == HF_DESCRIBE_TABLE || kind == HF_DELETE_TABLE;
    if (!r.json.failed && has_table && ret->table.schema.hash_name.len == 0)
        hf__json_fail(&r.json, "the table's key is missing");
    if (hf__json_finish(&r.json) == 0) return 0;
    if (arena->failed) return hf__error_no_memory(reterr);
    return hf__error_set(reterr, HF_ERR_BAD_ANSWER, "the answer to %s cannot be read: %s",
                         hf__op_names[kind], r.json.error.message);
}

/* "prefix#Name:junk" → "Name" */
static struct hf_slice exception_name(struct hf_slice type)
{
    const char *colon = type.len ? memchr(type.ptr, ':', type.len) : NULL;
    if (colon) type.len = (size_t)(colon - type.ptr);
    const char *hash = type.len ? memchr(type.ptr, '#', type.len) : NULL;
    if (hash) type = hf__slice(hash + 1, type.len - (size_t)(hash + 1 - type.ptr));
    return type;
}

void hf__answer_read_error(struct hf_arena *arena, int status, struct hf_slice body,
                           struct hf_answer *ret, const struct hf_exception **ret_exception)
{
    struct reader r = {.answer = ret};
    struct hf_slice key, type = {0}, message = {0};
    hf__json_reader_init(&r.json, body, HF_ANSWER_MAX_SIZE, arena);
    hf__json_object(&r.json);
    while (hf__json_key(&r.json, &key)) {
        if (hf__slice_is(key, "__type")) hf__json_string(&r.json, &type);
        else if (hf__slice_is(key, "message") || hf__slice_is(key, "Message")) {
            if (hf__json_peek(&r.json) == HF_JSON_STRING) hf__json_string(&r.json, &message);
            else hf__json_skip(&r.json);
        } else if (hf__slice_is(key, "Item")) read_item(&r);
        else hf__json_skip(&r.json);
    }
    if (hf__json_finish(&r.json) != 0) { /* no JSON: the body is the text */
        type = hf__slice(NULL, 0);
        message = body;
        ret->has_item = false;
    }
    type = exception_name(type);
    const struct hf_exception *exception = hf__exception_find(type);
    int code = exception ? exception->code : status >= 500 ? HF_ERR_STORE : HF_ERR_BAD_ANSWER;
    if (message.len > 300) message.len = 300;
    if (exception) ret->code = hf__error_set(&ret->error, code, "%.*s", HF_FMT(message));
    else
        ret->code = hf__error_set(&ret->error, code, "HTTP status %d%s%.*s%s%.*s", status,
                                  type.len ? ", " : "", HF_FMT(type), message.len ? ": " : "",
                                  HF_FMT(message));
    *ret_exception = exception;
}
