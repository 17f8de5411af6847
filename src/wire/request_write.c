#include <stdio.h>
#include <stdlib.h>

#include "base/json_writer.h"
#include "wire/expr_print.h"
#include "wire/item_json.h"
#include "wire/request.h"
#include "wire/schema_json.h"
#include "wire/table_json.h"

struct writer {
    struct hf_json_writer json;
    struct hf_placeholders placeholders;
    struct hf_buf text; /* one expression at a time */
    bool in_order;      /* the members of maps, by their names */
};

static int order_attrs(const void *a, const void *b)
{
    const struct hf_attr *left = a, *right = b;
    return hf__slice_cmp(left->name, right->name);
}

/* The item with the attributes of all its maps in the order of their names. */
static struct hf_item in_order(struct hf_arena *arena, struct hf_item item);

static struct hf_value value_in_order(struct hf_arena *arena, struct hf_value value)
{
    if (value.type == HF_M) value.map = in_order(arena, value.map);
    if (value.type != HF_L) return value;
    struct hf_value *values = hf__arena_zalloc(arena, value.list.count + 1, sizeof *values);
    for (size_t i = 0; values && i < value.list.count; i++)
        values[i] = value_in_order(arena, value.list.at[i]);
    value.list.at = values;
    if (!values) value.list.count = 0;
    return value;
}

static struct hf_item in_order(struct hf_arena *arena, struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count + 1, sizeof *attrs);
    if (!attrs) return (struct hf_item){0};
    for (size_t i = 0; i < item.count; i++)
        attrs[i] = (struct hf_attr){item.attrs[i].name, value_in_order(arena, item.attrs[i].value)};
    qsort(attrs, item.count, sizeof *attrs, order_attrs);
    return (struct hf_item){attrs, item.count};
}

static void put_string(struct writer *w, const char *name, struct hf_slice value)
{
    hf__json_put_name(&w->json, name);
    hf__json_put_string(&w->json, value);
}

static void put_item(struct writer *w, const char *name, struct hf_item item)
{
    hf__json_put_name(&w->json, name);
    hf__json_put_item(&w->json, w->in_order ? in_order(w->placeholders.arena, item) : item);
}

static void put_int64(struct writer *w, const char *name, int64_t value)
{
    hf__json_put_name(&w->json, name);
    hf__json_put_int64(&w->json, value);
}

static void put_expression(struct writer *w, const char *name)
{
    put_string(w, name, hf__buf_view(&w->text));
    w->json.buf->failed |= w->text.failed;
    w->json.buf->starved |= w->text.starved;
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
            struct hf_value value = *p->values[i];
            if (w->in_order) value = value_in_order(p->arena, value);
            hf__json_put_value(&w->json, &value);
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

static void put_capacity(struct writer *w, const struct hf_op *op)
{
    if (op->capacity != HF_CAPACITY_NONE)
        put_string(w, "ReturnConsumedCapacity", hf__slice_str(hf__capacity_names[op->capacity]));
    if (op->collection_metrics) put_string(w, "ReturnItemCollectionMetrics", HF_LIT("SIZE"));
}

static void put_limit(struct writer *w, const struct hf_op *op)
{
    if (!op->has_limit) return;
    put_int64(w, "Limit", op->limit);
}

/* What a read shows, and how fresh. */
static void put_shape(struct writer *w, const struct hf_op *op)
{
    if (op->projection && op->projection->count > 0) {
        hf__expr_print_projection(&w->text, &w->placeholders, op->projection);
        put_expression(w, "ProjectionExpression");
    }
    if (op->consistent) {
        hf__json_put_name(&w->json, "ConsistentRead");
        hf__json_put_bool(&w->json, true);
    }
}

static void put_read(struct writer *w, const struct hf_op *op)
{
    if (op->kind == HF_GET_ITEM) put_item(w, "Key", op->key);
    if (op->kind == HF_QUERY && op->where) {
        const struct hf_condition *tree = hf__key_condition_tree(w->placeholders.arena, op->where);
        put_condition(w, "KeyConditionExpression", tree);
    }
    put_condition(w, "FilterExpression", op->filter);
    put_shape(w, op);
    if (op->backward) {
        hf__json_put_name(&w->json, "ScanIndexForward");
        hf__json_put_bool(&w->json, false);
    }
    put_limit(w, op);
    if (op->start_key.count > 0) put_item(w, "ExclusiveStartKey", op->start_key);
    if (op->index.ptr) put_string(w, "IndexName", op->index);
    if (op->select != HF_SELECT_DEFAULT)
        put_string(w, "Select", hf__slice_str(hf__select_names[op->select]));
    if (op->segments > 0) {
        put_int64(w, "Segment", op->segment);
        put_int64(w, "TotalSegments", op->segments);
    }
}

static void put_units(struct writer *w, int64_t read_units, int64_t write_units)
{
    hf__json_put_name(&w->json, "ProvisionedThroughput");
    hf__json_open(&w->json, '{');
    put_int64(w, "ReadCapacityUnits", read_units);
    put_int64(w, "WriteCapacityUnits", write_units);
    hf__json_close(&w->json, '}');
}

static void put_billing(struct writer *w, const struct hf_op *op)
{
    bool on_demand = op->read_units == 0 && op->write_units == 0;
    put_string(w, "BillingMode", on_demand ? HF_LIT("PAY_PER_REQUEST") : HF_LIT("PROVISIONED"));
    if (!on_demand) put_units(w, op->read_units, op->write_units);
}

static void put_index(struct writer *w, const struct hf_index *index)
{
    hf__json_open(&w->json, '{');
    hf__json_put_index(&w->json, index);
    if (index->read_units > 0) put_units(w, index->read_units, index->write_units);
    hf__json_close(&w->json, '}');
}

static void put_indexes(struct writer *w, struct hf_indexes indexes, bool global)
{
    bool any = false;
    for (size_t i = 0; i < indexes.count; i++) {
        if (indexes.at[i].global != global) continue;
        if (!any) {
            hf__json_put_name(&w->json,
                              global ? "GlobalSecondaryIndexes" : "LocalSecondaryIndexes");
            hf__json_open(&w->json, '[');
        }
        any = true;
        put_index(w, &indexes.at[i]);
    }
    if (any) hf__json_close(&w->json, ']');
}

static void put_protection(struct writer *w, const struct hf_table_wishes *wishes)
{
    if (!wishes->has_protection) return;
    hf__json_put_name(&w->json, "DeletionProtectionEnabled");
    hf__json_put_bool(&w->json, wishes->protection);
}

static void put_create(struct writer *w, const struct hf_op *op)
{
    static const struct hf_table_wishes none;
    const struct hf_table_wishes *wishes = op->wishes ? op->wishes : &none;
    hf__json_put_key_schema(&w->json, &op->schema);
    hf__json_put_definitions(&w->json, &op->schema, wishes->indexes);
    put_billing(w, op);
    put_indexes(w, wishes->indexes, false);
    put_indexes(w, wishes->indexes, true);
    put_protection(w, wishes);
    if (wishes->tags.count > 0) hf__json_put_tags(&w->json, wishes->tags);
}

/* The keys of new indexes are defined in a list of their own. */
static void put_changes(struct writer *w, const struct hf_table_wishes *wishes)
{
    static const char *const names[] = {"Create", "Update", "Delete"};
    if (wishes->change_count == 0) return;
    const struct hf_index_change *first = &wishes->changes[0];
    if (first->kind == HF_INDEX_CREATE)
        hf__json_put_definitions(&w->json, &first->index.schema, (struct hf_indexes){0});
    hf__json_put_name(&w->json, "GlobalSecondaryIndexUpdates");
    hf__json_open(&w->json, '[');
    for (size_t i = 0; i < wishes->change_count; i++) {
        const struct hf_index_change *change = &wishes->changes[i];
        hf__json_open(&w->json, '{');
        hf__json_put_name(&w->json, names[change->kind]);
        if (change->kind == HF_INDEX_CREATE) {
            put_index(w, &change->index);
        } else {
            hf__json_open(&w->json, '{');
            put_string(w, "IndexName", change->index.name);
            if (change->kind == HF_INDEX_UPDATE)
                put_units(w, change->index.read_units, change->index.write_units);
            hf__json_close(&w->json, '}');
        }
        hf__json_close(&w->json, '}');
    }
    hf__json_close(&w->json, ']');
}

static void put_table_update(struct writer *w, const struct hf_op *op)
{
    if (!op->wishes) return;
    if (op->wishes->has_billing) put_billing(w, op);
    put_protection(w, op->wishes);
    put_changes(w, op->wishes);
}

static void put_tag_keys(struct writer *w, const struct hf_table_wishes *wishes)
{
    hf__json_put_name(&w->json, "TagKeys");
    hf__json_open(&w->json, '[');
    for (size_t i = 0; i < wishes->tag_key_count; i++)
        hf__json_put_string(&w->json, wishes->tag_keys[i]);
    hf__json_close(&w->json, ']');
}

/* One part of a transaction has names and values of its own. */
static void put_action(struct writer *w, const struct hf_op *part)
{
    static const char *const names[HF_OP_KINDS] = {
        [HF_GET_ITEM] = "Get",
        [HF_PUT_ITEM] = "Put",
        [HF_UPDATE_ITEM] = "Update",
        [HF_DELETE_ITEM] = "Delete",
        [HF_CONDITION_CHECK] = "ConditionCheck",
    };
    w->placeholders = (struct hf_placeholders){.arena = w->placeholders.arena};
    hf__json_open(&w->json, '{');
    hf__json_put_name(&w->json, names[part->kind]);
    hf__json_open(&w->json, '{');
    put_string(w, "TableName", part->table);
    if (part->kind == HF_GET_ITEM) put_read(w, part);
    else put_write(w, part);
    put_placeholders(w);
    hf__json_close(&w->json, '}');
    hf__json_close(&w->json, '}');
    w->placeholders = (struct hf_placeholders){.arena = w->placeholders.arena};
}

static void put_transaction(struct writer *w, const struct hf_op *op)
{
    hf__json_put_name(&w->json, "TransactItems");
    hf__json_open(&w->json, '[');
    for (size_t i = 0; i < op->part_count; i++) put_action(w, &op->parts[i]);
    hf__json_close(&w->json, ']');
    if (op->token.len > 0) put_string(w, "ClientRequestToken", op->token);
}

static bool is_first_of_table(const struct hf_op *op, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (hf__slice_eq(op->parts[j].table, op->parts[i].table)) return false;
    return true;
}

static void put_batch_part(struct writer *w, const struct hf_op *part)
{
    if (part->kind == HF_GET_ITEM) {
        hf__json_put_item(&w->json, part->key);
        return;
    }
    bool put = part->kind == HF_PUT_ITEM;
    hf__json_open(&w->json, '{');
    hf__json_put_name(&w->json, put ? "PutRequest" : "DeleteRequest");
    hf__json_open(&w->json, '{');
    put_item(w, put ? "Item" : "Key", put ? part->item : part->key);
    hf__json_close(&w->json, '}');
    hf__json_close(&w->json, '}');
}

/* The gets of one table share a projection and their consistency: those of the first. */
static void put_batch(struct writer *w, const struct hf_op *op)
{
    bool gets = op->kind == HF_BATCH_GET;
    hf__json_put_name(&w->json, "RequestItems");
    hf__json_open(&w->json, '{');
    for (size_t i = 0; i < op->part_count; i++) {
        if (!is_first_of_table(op, i)) continue;
        hf__json_put_key(&w->json, op->parts[i].table);
        if (gets) {
            w->placeholders = (struct hf_placeholders){.arena = w->placeholders.arena};
            hf__json_open(&w->json, '{');
            hf__json_put_name(&w->json, "Keys");
        }
        hf__json_open(&w->json, '[');
        for (size_t j = i; j < op->part_count; j++)
            if (hf__slice_eq(op->parts[j].table, op->parts[i].table))
                put_batch_part(w, &op->parts[j]);
        hf__json_close(&w->json, ']');
        if (gets) {
            put_shape(w, &op->parts[i]);
            put_placeholders(w);
            hf__json_close(&w->json, '}');
        }
    }
    hf__json_close(&w->json, '}');
    w->placeholders = (struct hf_placeholders){.arena = w->placeholders.arena};
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

static int write_request(struct hf_arena *arena, const struct hf_op *op, bool in_order,
                         struct hf_buf *ret, struct hf_error *reterr)
{
    struct writer w = {.placeholders.arena = arena, .in_order = in_order};
    hf__json_writer_init(&w.json, ret);
    hf__buf_init(&w.text, HF_REQUEST_MAX_SIZE);
    hf__json_open(&w.json, '{');
    bool tags = op->kind >= HF_TAG;
    if (tags)
        put_string(&w, "ResourceArn",
                   hf__arena_printf(arena, HF_ARN_PREFIX "%.*s", HF_FMT(op->table)));
    else if (op->kind != HF_LIST_TABLES && !hf__op_has_parts(op->kind))
        put_string(&w, "TableName", op->table);
    switch (op->kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
    case HF_CONDITION_CHECK: put_write(&w, op); break;
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN: put_read(&w, op); break;
    case HF_CREATE_TABLE: put_create(&w, op); break;
    case HF_UPDATE_TABLE: put_table_update(&w, op); break;
    case HF_LIST_TABLES:
        put_limit(&w, op);
        if (op->start_table.len > 0) put_string(&w, "ExclusiveStartTableName", op->start_table);
        break;
    case HF_UPDATE_TTL: put_ttl(&w, op); break;
    case HF_BATCH_GET:
    case HF_BATCH_WRITE: put_batch(&w, op); break;
    case HF_TRANSACT_GET:
    case HF_TRANSACT_WRITE: put_transaction(&w, op); break;
    case HF_TAG:
        if (op->wishes) hf__json_put_tags(&w.json, op->wishes->tags);
        break;
    case HF_UNTAG:
        if (op->wishes) put_tag_keys(&w, op->wishes);
        break;
    case HF_DESCRIBE_TABLE:
    case HF_DELETE_TABLE:
    case HF_DESCRIBE_TTL:
    case HF_LIST_TAGS: break;
    }
    put_capacity(&w, op);
    put_placeholders(&w);
    hf__json_close(&w.json, '}');
    hf__buf_free(&w.text);
    if (arena->failed || ret->starved) return hf__error_no_memory(reterr);
    if (!ret->failed) return 0;
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "the %s request cannot be written: it is larger than %d bytes, or a text in it "
        "is not valid UTF-8",
        hf__op_names[op->kind], HF_REQUEST_MAX_SIZE);
}

int hf__request_write(struct hf_arena *arena, const struct hf_op *op, struct hf_buf *ret,
                      struct hf_error *reterr)
{
    return write_request(arena, op, false, ret, reterr);
}

int hf__request_write_in_order(struct hf_arena *arena, const struct hf_op *op, struct hf_buf *ret,
                               struct hf_error *reterr)
{
    return write_request(arena, op, true, ret, reterr);
}
