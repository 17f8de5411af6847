#include "wire/answer.h"

#include <stdio.h>

#include "base/json_writer.h"
#include "wire/expr_print.h"
#include "wire/item_json.h"
#include "wire/table_json.h"

/* ---- writing ---- */

static void put_string(struct hf_json_writer *w, const char *name, struct hf_slice text)
{
    hf__json_put_name(w, name);
    hf__json_put_string(w, text);
}

static void put_page(struct hf_json_writer *w, const struct hf_op *op,
                     const struct hf_answer *answer)
{
    if (op->select != HF_SELECT_COUNT) {
        hf__json_put_name(w, "Items");
        hf__json_open(w, '[');
        for (size_t i = 0; i < answer->count; i++) {
            if (answer->jsons) hf__json_put_raw(w, answer->jsons[i]);
            else hf__json_put_item(w, answer->items[i]);
        }
        hf__json_close(w, ']');
    }
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

/* ---- capacity ---- */

static void put_halves(struct hf_json_writer *w, int64_t halves)
{
    char text[32];
    snprintf(text, sizeof text, "%lld.%d", (long long)(halves / 2), halves % 2 ? 5 : 0);
    hf__json_put_name(w, "CapacityUnits");
    hf__json_put_raw(w, hf__slice_str(text));
}

static void put_index_units(struct hf_json_writer *w, const struct hf_capacity *capacity,
                            bool global)
{
    bool any = false;
    for (size_t i = 0; i < capacity->index_count; i++) {
        const struct hf_index_units *units = &capacity->indexes[i];
        if (units->global != global || units->halves == 0) continue;
        if (!any) {
            hf__json_put_name(w, global ? "GlobalSecondaryIndexes" : "LocalSecondaryIndexes");
            hf__json_open(w, '{');
        }
        any = true;
        hf__json_put_key(w, units->name);
        hf__json_open(w, '{');
        put_halves(w, units->halves);
        hf__json_close(w, '}');
    }
    if (any) hf__json_close(w, '}');
}

static void put_table_units(struct hf_json_writer *w, const struct hf_op *op,
                            const struct hf_capacity *capacity)
{
    int64_t total = capacity->halves;
    for (size_t i = 0; i < capacity->index_count; i++) total += capacity->indexes[i].halves;
    hf__json_open(w, '{');
    put_string(w, "TableName", capacity->table);
    put_halves(w, total);
    if (op->capacity == HF_CAPACITY_INDEXES) {
        hf__json_put_name(w, "Table");
        hf__json_open(w, '{');
        put_halves(w, capacity->halves);
        hf__json_close(w, '}');
        put_index_units(w, capacity, false);
        put_index_units(w, capacity, true);
    }
    hf__json_close(w, '}');
}

static void put_capacity(struct hf_json_writer *w, const struct hf_op *op,
                         const struct hf_answer *answer)
{
    bool many = hf__op_has_parts(op->kind);
    if (op->capacity == HF_CAPACITY_NONE || (!many && answer->capacity_count == 0)) return;
    hf__json_put_name(w, "ConsumedCapacity");
    if (many) hf__json_open(w, '[');
    for (size_t i = 0; i < answer->capacity_count; i++)
        put_table_units(w, op, &answer->capacities[i]);
    if (many) hf__json_close(w, ']');
}

/* ---- item collections ---- */

static void put_collection(struct hf_json_writer *w, struct hf_item key)
{
    hf__json_open(w, '{');
    hf__json_put_name(w, "ItemCollectionKey");
    hf__json_put_item(w, key);
    hf__json_put_name(w, "SizeEstimateRangeGB");
    hf__json_put_raw(w, HF_LIT("[0.0,1.0]"));
    hf__json_close(w, '}');
}

static bool is_first_with_collection(const struct hf_op *op, const struct hf_answer *answer,
                                     size_t i)
{
    if (answer->parts[i].collection_key.count == 0) return false;
    for (size_t j = 0; j < i; j++)
        if (answer->parts[j].collection_key.count > 0 &&
            hf__slice_eq(op->parts[j].table, op->parts[i].table))
            return false;
    return true;
}

static void put_collections(struct hf_json_writer *w, const struct hf_op *op,
                            const struct hf_answer *answer)
{
    if (!op->collection_metrics) return;
    if (!hf__op_has_parts(op->kind)) {
        if (answer->collection_key.count == 0) return;
        hf__json_put_name(w, "ItemCollectionMetrics");
        put_collection(w, answer->collection_key);
        return;
    }
    hf__json_put_name(w, "ItemCollectionMetrics");
    hf__json_open(w, '{');
    for (size_t i = 0; i < answer->part_count; i++) {
        if (!is_first_with_collection(op, answer, i)) continue;
        hf__json_put_key(w, op->parts[i].table);
        hf__json_open(w, '[');
        for (size_t j = i; j < answer->part_count; j++)
            if (answer->parts[j].collection_key.count > 0 &&
                hf__slice_eq(op->parts[j].table, op->parts[i].table))
                put_collection(w, answer->parts[j].collection_key);
        hf__json_close(w, ']');
    }
    hf__json_close(w, '}');
}

/* ---- several in one ---- */

static bool is_first_of_table(const struct hf_op *op, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (hf__slice_eq(op->parts[j].table, op->parts[i].table)) return false;
    return true;
}

/* What a request for the rest shows of each item. */
static void put_projection(struct hf_json_writer *w, const struct hf_projection *projection)
{
    struct hf_arena arena = {0};
    struct hf_placeholders placeholders = {.arena = &arena};
    struct hf_buf text;
    char name[32];
    if (!projection || projection->count == 0) return;
    hf__buf_init(&text, w->buf->limit);
    hf__expr_print_projection(&text, &placeholders, projection);
    put_string(w, "ProjectionExpression", hf__buf_view(&text));
    hf__json_put_name(w, "ExpressionAttributeNames");
    hf__json_open(w, '{');
    for (size_t i = 0; i < placeholders.name_count; i++) {
        snprintf(name, sizeof name, "#n%zu", i);
        put_string(w, name, placeholders.names[i]);
    }
    hf__json_close(w, '}');
    w->buf->failed |= text.failed || arena.failed;
    hf__buf_free(&text);
    hf__arena_free(&arena);
}

/* Keys that were not looked for, as a request that looks for them. */
static void put_unprocessed_keys(struct hf_json_writer *w, const struct hf_op *op,
                                 const struct hf_answer *answer)
{
    hf__json_put_name(w, "UnprocessedKeys");
    hf__json_open(w, '{');
    for (size_t i = 0; i < op->part_count; i++) {
        bool any = false;
        if (!is_first_of_table(op, i)) continue;
        for (size_t j = i; j < op->part_count; j++) {
            if (!answer->parts[j].put_off || !hf__slice_eq(op->parts[j].table, op->parts[i].table))
                continue;
            if (!any) {
                hf__json_put_key(w, op->parts[i].table);
                hf__json_open(w, '{');
                hf__json_put_name(w, "ConsistentRead");
                hf__json_put_bool(w, op->parts[i].consistent);
                put_projection(w, op->parts[i].projection);
                hf__json_put_name(w, "Keys");
                hf__json_open(w, '[');
            }
            any = true;
            hf__json_put_item(w, op->parts[j].key);
        }
        if (!any) continue;
        hf__json_close(w, ']');
        hf__json_close(w, '}');
    }
    hf__json_close(w, '}');
}

static void put_batch_got(struct hf_json_writer *w, const struct hf_op *op,
                          const struct hf_answer *answer)
{
    hf__json_put_name(w, "Responses");
    hf__json_open(w, '{');
    for (size_t i = 0; i < op->part_count; i++) {
        if (!is_first_of_table(op, i)) continue;
        hf__json_put_key(w, op->parts[i].table);
        hf__json_open(w, '[');
        for (size_t j = i; j < op->part_count; j++)
            if (answer->parts[j].has_item && hf__slice_eq(op->parts[j].table, op->parts[i].table))
                hf__json_put_item(w, answer->parts[j].item);
        hf__json_close(w, ']');
    }
    hf__json_close(w, '}');
    put_unprocessed_keys(w, op, answer);
}

static void put_transaction_got(struct hf_json_writer *w, const struct hf_answer *answer)
{
    hf__json_put_name(w, "Responses");
    hf__json_open(w, '[');
    for (size_t i = 0; i < answer->part_count; i++) {
        hf__json_open(w, '{');
        if (answer->parts[i].has_item) {
            hf__json_put_name(w, "Item");
            hf__json_put_item(w, answer->parts[i].item);
        }
        hf__json_close(w, '}');
    }
    hf__json_close(w, ']');
}

static void put_reasons(struct hf_json_writer *w, const struct hf_answer *answer)
{
    hf__json_put_name(w, "CancellationReasons");
    hf__json_open(w, '[');
    for (size_t i = 0; i < answer->part_count; i++) {
        const struct hf_answer *part = &answer->parts[i];
        hf__json_open(w, '{');
        put_string(w, "Code", hf__slice_str(hf__cancellation_name(part->code)));
        if (part->code != 0) put_string(w, "Message", hf__slice_str(part->error.message));
        if (part->code == HF_ERR_CONDITION && part->has_item) {
            hf__json_put_name(w, "Item");
            hf__json_put_item(w, part->item);
        }
        hf__json_close(w, '}');
    }
    hf__json_close(w, ']');
}

/* The message names the reasons, too, for clients that read nothing else. */
static void put_cancelled(struct hf_json_writer *w, const struct hf_answer *answer)
{
    struct hf_buf message;
    hf__buf_init(&message, 8192);
    hf__buf_str(&message, "Transaction cancelled, please refer cancellation reasons for specific "
                          "reasons [");
    for (size_t i = 0; i < answer->part_count; i++)
        hf__buf_printf(&message, "%s%s", i ? ", " : "",
                       hf__cancellation_name(answer->parts[i].code));
    hf__buf_str(&message, "]");
    put_string(w, "Message", hf__buf_view(&message)); /* so spelt in this exception */
    w->buf->failed |= message.failed;
    hf__buf_free(&message);
    put_reasons(w, answer);
}

/* ---- answers ---- */

static void put_success(struct hf_json_writer *w, const struct hf_op *op,
                        const struct hf_answer *answer)
{
    enum hf_op_kind kind = op->kind;
    switch (kind) {
    case HF_GET_ITEM:
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
        if (!answer->has_item) break;
        hf__json_put_name(w, kind == HF_GET_ITEM ? "Item" : "Attributes");
        if (answer->json.ptr) hf__json_put_raw(w, answer->json);
        else hf__json_put_item(w, answer->item);
        break;
    case HF_QUERY:
    case HF_SCAN: put_page(w, op, answer); break;
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TABLE:
    case HF_DESCRIBE_TABLE:
        hf__json_put_name(w, kind == HF_DESCRIBE_TABLE ? "Table" : "TableDescription");
        hf__json_put_table(w, &answer->table);
        break;
    case HF_LIST_TABLES: put_tables(w, answer); break;
    case HF_UPDATE_TTL:
    case HF_DESCRIBE_TTL: put_ttl(w, kind, answer); break;
    case HF_BATCH_GET: put_batch_got(w, op, answer); break;
    case HF_BATCH_WRITE:
        hf__json_put_name(w, "UnprocessedItems");
        hf__json_open(w, '{');
        hf__json_close(w, '}');
        break;
    case HF_TRANSACT_GET: put_transaction_got(w, answer); break;
    case HF_LIST_TAGS: hf__json_put_tags(w, answer->tags); break;
    case HF_TRANSACT_WRITE:
    case HF_CONDITION_CHECK:
    case HF_TAG:
    case HF_UNTAG: break;
    }
    put_collections(w, op, answer);
    put_capacity(w, op, answer);
}

static void put_type(struct hf_json_writer *w, const struct hf_exception *exception)
{
    char type[128];
    snprintf(type, sizeof type, "%s#%s", hf__exception_prefix(exception), exception->name);
    put_string(w, "__type", hf__slice_str(type));
}

static int put_error(struct hf_json_writer *w, const struct hf_answer *answer)
{
    const struct hf_exception *exception = hf__exception_for(answer->code);
    put_type(w, exception);
    if (answer->code == HF_ERR_TRANSACTION) put_cancelled(w, answer);
    else
        put_string(w, answer->code == HF_ERR_OTHER_REQUEST ? "Message" : "message",
                   hf__slice_str(answer->error.message));
    if (answer->code == HF_ERR_CONDITION && answer->has_item) {
        hf__json_put_name(w, "Item");
        hf__json_put_item(w, answer->item);
    }
    return exception->status;
}

int hf__answer_write_exception(const char *name, const char *message, struct hf_buf *ret)
{
    const struct hf_exception *exception = hf__exception_find(hf__slice_str(name));
    struct hf_json_writer w;
    hf__json_writer_init(&w, ret);
    hf__json_open(&w, '{');
    put_type(&w, exception);
    put_string(&w, "message", hf__slice_str(message));
    hf__json_close(&w, '}');
    return exception->status;
}

int hf__answer_write(const struct hf_op *op, const struct hf_answer *answer, struct hf_buf *ret)
{
    struct hf_json_writer w;
    int status = 200;
    hf__json_writer_init(&w, ret);
    hf__json_open(&w, '{');
    if (answer->code == 0) put_success(&w, op, answer);
    else status = put_error(&w, answer);
    hf__json_close(&w, '}');
    return status;
}
