#include <stdio.h>

#include "base/json_writer.h"
#include "wire/expr_print.h"
#include "wire/item_json.h"
#include "wire/request.h"
#include "wire/schema_json.h"

struct writer {
    struct hf_json_writer json;
    struct hf_placeholders placeholders;
    struct hf_buf text; /* one expression at a time */
};

static void put_string(struct writer *w, const char *name, struct hf_slice value)
{
    hf__json_put_name(&w->json, name);
    hf__json_put_string(&w->json, value);
}

static void put_item(struct writer *w, const char *name, struct hf_item item)
{
    hf__json_put_name(&w->json, name);
    hf__json_put_item(&w->json, item);
}

static void put_expression(struct writer *w, const char *name)
{
    put_string(w, name, hf__buf_view(&w->text));
    w->json.buf->failed |= w->text.failed;
    hf__buf_clear(&w->text);
}

static void put_condition(struct writer *w, const char *name, const struct hf_condition *condition)
{
    if (!condition) return;
    hf__expr_print_condition(&w->text, &w->placeholders, condition);
    put_expression(w, name);
}

static void put_placeholders(struct writer *w)
{
    char name[32];
    const struct hf_placeholders *p = &w->placeholders;
    if (p->name_count > 0) {
        hf__json_put_name(&w->json, "ExpressionAttributeNames");
        hf__json_open(&w->json, '{');
        for (size_t i = 0; i < p->name_count; i++) {
            snprintf(name, sizeof name, "#n%zu", i);
            put_string(w, name, p->names[i]);
        }
        hf__json_close(&w->json, '}');
    }
    if (p->value_count > 0) {
        hf__json_put_name(&w->json, "ExpressionAttributeValues");
        hf__json_open(&w->json, '{');
        for (size_t i = 0; i < p->value_count; i++) {
            snprintf(name, sizeof name, ":v%zu", i);
            hf__json_put_name(&w->json, name);
            hf__json_put_value(&w->json, p->values[i]);
        }
        hf__json_close(&w->json, '}');
    }
}

static void put_write(struct writer *w, const struct hf_op *op)
{
    if (op->kind == HF_PUT_ITEM) put_item(w, "Item", op->item);
    else put_item(w, "Key", op->key);
    if (op->kind == HF_UPDATE_ITEM && op->update && op->update->count > 0) {
        hf__expr_print_update(&w->text, &w->placeholders, op->update);
        put_expression(w, "UpdateExpression");
    }
    put_condition(w, "ConditionExpression", op->condition);
    if (op->returns != HF_RETURN_NONE)
        put_string(w, "ReturnValues", hf__slice_str(hf__returns_names[op->returns]));
    if (op->old_on_failure) put_string(w, "ReturnValuesOnConditionCheckFailure", HF_LIT("ALL_OLD"));
}

static void put_limit(struct writer *w, const struct hf_op *op)
{
    if (!op->has_limit) return;
    hf__json_put_name(&w->json, "Limit");
    hf__json_put_int64(&w->json, op->limit);
}

static void put_read(struct writer *w, const struct hf_op *op)
{
    if (op->kind == HF_GET_ITEM) put_item(w, "Key", op->key);
    if (op->kind == HF_QUERY && op->where) {
        const struct hf_condition *tree = hf__key_condition_tree(w->placeholders.arena, op->where);
        put_condition(w, "KeyConditionExpression", tree);
    }
    put_condition(w, "FilterExpression", op->filter);
    if (op->projection && op->projection->count > 0) {
        hf__expr_print_projection(&w->text, &w->placeholders, op->projection);
        put_expression(w, "ProjectionExpression");
    }
    if (op->consistent) {
        hf__json_put_name(&w->json, "ConsistentRead");
        hf__json_put_bool(&w->json, true);
    }
    if (op->backward) {
        hf__json_put_name(&w->json, "ScanIndexForward");
        hf__json_put_bool(&w->json, false);
    }
    put_limit(w, op);
    if (op->start_key.count > 0) put_item(w, "ExclusiveStartKey", op->start_key);
}

static void put_create(struct writer *w, const struct hf_op *op)
{
    hf__json_put_schema(&w->json, &op->schema);
    if (op->read_units == 0 && op->write_units == 0) {
        put_string(w, "BillingMode", HF_LIT("PAY_PER_REQUEST"));
        return;
    }
    put_string(w, "BillingMode", HF_LIT("PROVISIONED"));
    hf__json_put_name(&w->json, "ProvisionedThroughput");
    hf__json_open(&w->json, '{');
    hf__json_put_name(&w->json, "ReadCapacityUnits");
    hf__json_put_int64(&w->json, op->read_units);
    hf__json_put_name(&w->json, "WriteCapacityUnits");
    hf__json_put_int64(&w->json, op->write_units);
    hf__json_close(&w->json, '}');
}

static void put_ttl(struct writer *w, const struct hf_op *op)
{
    hf__json_put_name(&w->json, "TimeToLiveSpecification");
    hf__json_open(&w->json, '{');
    hf__json_put_name(&w->json, "Enabled");
    hf__json_put_bool(&w->json, op->ttl_enabled);
    put_string(w, "AttributeName", op->ttl_attribute);
    hf__json_close(&w->json, '}');
}

int hf__request_write(struct hf_arena *arena, const struct hf_op *op, struct hf_buf *ret,
                      struct hf_error *reterr)
{
    struct writer w = {.placeholders.arena = arena};
    hf__json_writer_init(&w.json, ret);
    hf__buf_init(&w.text, HF_REQUEST_MAX_SIZE);
    hf__json_open(&w.json, '{');
    if (op->kind != HF_LIST_TABLES) put_string(&w, "TableName", op->table);
    switch (op->kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: put_write(&w, op); break;
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN: put_read(&w, op); break;
    case HF_CREATE_TABLE: put_create(&w, op); break;
    case HF_LIST_TABLES:
        put_limit(&w, op);
        if (op->start_table.len > 0) put_string(&w, "ExclusiveStartTableName", op->start_table);
        break;
    case HF_UPDATE_TTL: put_ttl(&w, op); break;
    case HF_DESCRIBE_TABLE:
    case HF_DELETE_TABLE:
    case HF_DESCRIBE_TTL: break;
    }
    put_placeholders(&w);
    hf__json_close(&w.json, '}');
    hf__buf_free(&w.text);
    if (arena->failed) return hf__error_no_memory(reterr);
    if (!ret->failed) return 0;
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "the %s request cannot be written: it is larger than %d bytes, or a text in it "
        "is not valid UTF-8",
        hf__op_names[op->kind], HF_REQUEST_MAX_SIZE);
}
