/*
 * Operations of several parts. A batch is its parts, one after the other; a transaction is all of
 * them or none. The caller runs both in a savepoint, so that a part that fails undoes the rest.
 */
#include "store/execution.h"

enum { TOKEN_LIFE_MS = 10 * 60 * 1000 };

/* ---- tokens ---- */

/* Callers cannot meet each other's tokens. */
static struct hf_slice token_of(struct hf_execution *x)
{
    return hf__arena_printf(x->arena, "%zu:%.*s%.*s", x->op->token.len, HF_FMT(x->op->token),
                            HF_FMT(x->op->caller));
}

/* Whether the same transaction was carried out already. */
static int find_token(struct hf_execution *x, bool *ret_done)
{
    *ret_done = false;
    if (x->op->token.len == 0) return 0;
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_TOKEN_GET, x->error);
    if (!row) return x->error->code;
    struct hf_slice token = token_of(x);
    hf__bind_text(row, 1, token);
    sqlite3_bind_int64(row, 2, x->now_unix_us / 1000 - TOKEN_LIFE_MS);
    int result = sqlite3_step(row), code = 0;
    if (result == SQLITE_ROW) {
        *ret_done = hf__slice_eq(hf__column(row, 0), x->op->fingerprint);
        if (!*ret_done)
            code = hf__error_set(x->error, HF_ERR_OTHER_REQUEST,
                                 "the ClientRequestToken was used for another request within the "
                                 "last ten minutes");
    } else if (result != SQLITE_DONE) {
        code = hf__database_error(x->db, "read", x->error);
    }
    sqlite3_reset(row);
    return code;
}

static int keep_token(struct hf_execution *x)
{
    if (x->op->token.len == 0) return 0;
    sqlite3_stmt *insert = hf__database_prepare(x->db, HF_SQL_TOKEN_INSERT, x->error);
    if (!insert) return x->error->code;
    struct hf_slice token = token_of(x);
    hf__bind_text(insert, 1, token);
    hf__bind_blob(insert, 2, x->op->fingerprint);
    sqlite3_bind_int64(insert, 3, x->now_unix_us / 1000);
    return hf__database_step(x->db, insert, x->error);
}

/* ---- parts ---- */

static int (*const executors[HF_OP_KINDS])(struct hf_execution *x) = {
    [HF_GET_ITEM] = hf__x_get_item,
    [HF_PUT_ITEM] = hf__x_put_item,
    [HF_UPDATE_ITEM] = hf__x_update_item,
    [HF_DELETE_ITEM] = hf__x_delete_item,
    [HF_CONDITION_CHECK] = hf__x_check_condition,
};

/* One part, with the wishes that are made for the whole. */
static int run_part(struct hf_execution *x, size_t i)
{
    struct hf_answer *answer = &x->answer->parts[i];
    struct hf_op op = x->op->parts[i];
    op.capacity = x->op->capacity;
    op.collection_metrics = x->op->collection_metrics;
    if (x->op->kind == HF_TRANSACT_GET) op.consistent = true;
    struct hf_execution part = {.db = x->db,
                                .effort = x->effort,
                                .op = &op,
                                .arena = x->arena,
                                .answer = answer,
                                .error = &answer->error,
                                .now_unix_us = x->now_unix_us};
    int code = hf__x_find_table(&part);
    if (code == 0) code = hf__x_count_begin(&part);
    if (code == 0) code = executors[op.kind](&part);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(&answer->error);
    return answer->code = code;
}

/* The key that a part has, which only the table's schema tells of a put. */
static int key_of_part(struct hf_execution *x, const struct hf_op *part, struct hf_item *ret)
{
    struct hf_execution look = {.db = x->db, .op = part, .arena = x->arena, .error = x->error};
    int code = hf__x_find_table(&look);
    if (code != 0) return code;
    *ret = part->key;
    if (part->kind != HF_PUT_ITEM) return hf__key_check(&look.table.schema, part->key, x->error);
    code = hf__key_check_item(&look.table.schema, part->item, x->error);
    if (code != 0) return code;
    struct hf_key_schema schema = hf__x_copy_schema(&look);
    *ret = hf__key_of(x->arena, &schema, part->item);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

/*
 * Two parts on one item are refused. A key that does not fit its table is the fault of the whole in
 * a batch, and a reason of its part in a transaction.
 */
static int check_targets(struct hf_execution *x)
{
    const struct hf_op *op = x->op;
    bool transaction = op->kind >= HF_TRANSACT_GET;
    struct hf_item *keys = hf__arena_zalloc(x->arena, op->part_count, sizeof *keys);
    if (!keys) return hf__error_no_memory(x->error);
    for (size_t i = 0; i < op->part_count; i++) {
        int code = key_of_part(x, &op->parts[i], &keys[i]);
        if (transaction && code == HF_ERR_VALIDATION) {
            keys[i] = (struct hf_item){0};
            continue;
        }
        if (code != 0) return code;
        for (size_t j = 0; j < i; j++)
            if (hf__slice_eq(op->parts[j].table, op->parts[i].table) &&
                hf__item_equal(keys[i], keys[j]))
                return hf__error_set(
                    x->error, HF_ERR_VALIDATION, "%s",
                    transaction
                        ? "Transaction request cannot include multiple operations on one item"
                        : "Provided list of item keys contains duplicates");
    }
    return 0;
}

static size_t size_of_part(const struct hf_op *part)
{
    return part->kind == HF_PUT_ITEM ? hf__item_size(part->item) : hf__item_size(part->key);
}

static int check_size(struct hf_execution *x)
{
    size_t size = 0;
    for (size_t i = 0; i < x->op->part_count; i++) size += size_of_part(&x->op->parts[i]);
    if (x->op->kind != HF_TRANSACT_WRITE || size <= HF_TRANSACT_MAX_SIZE) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "Transaction payload size cannot exceed 4MB. Payload Size: %zu", size);
}

/* The items that a transaction finds are limited as well. */
static int check_effort(struct hf_execution *x)
{
    if (x->effort->loaded > HF_TRANSACT_MAX_SIZE)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "The aggregate size of the items in the transaction exceeds 4 MB");
    if (hf__x_is_tired(x))
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "The transaction reads and compares too much; use smaller items, "
                             "fewer conditions or several transactions");
    return 0;
}

/* Errors that a part of a transaction has as a reason; all others are the whole call's. */
static bool is_reason(int code)
{
    return code == HF_ERR_CONDITION || code == HF_ERR_VALIDATION;
}

/*
 * All parts of a transaction are tried, so that all reasons are told; what they write is undone by
 * the caller if there are any.
 */
static int run_transaction(struct hf_execution *x)
{
    bool cancelled = false;
    for (size_t i = 0; i < x->op->part_count; i++) {
        int code = run_part(x, i);
        int tired = check_effort(x);
        if (tired != 0) return tired;
        if (code == 0) continue;
        if (!is_reason(code))
            return hf__error_set(x->error, code, "%s", x->answer->parts[i].error.message);
        cancelled = true;
    }
    if (!cancelled) return keep_token(x);
    return hf__error_set(x->error, HF_ERR_TRANSACTION,
                         "Transaction cancelled, please refer cancellation reasons for specific "
                         "reasons");
}

/* Items beyond the size of an answer are put off: the caller asks for them again. */
static int run_batch(struct hf_execution *x)
{
    size_t size = 0;
    for (size_t i = 0; i < x->op->part_count; i++) {
        struct hf_answer *answer = &x->answer->parts[i];
        bool ends = size > HF_BATCH_MAX_SIZE || hf__x_is_tired(x) || hf__x_is_full(x);
        if (ends && i > 0 && x->op->kind == HF_BATCH_GET) {
            answer->put_off = true;
            continue;
        }
        int code = run_part(x, i);
        if (code != 0) return hf__error_set(x->error, code, "%s", answer->error.message);
        size += answer->size;
    }
    return 0;
}

int hf__x_many(struct hf_execution *x)
{
    bool done = false, transaction = x->op->kind >= HF_TRANSACT_GET;
    x->answer->parts = hf__arena_zalloc(x->arena, x->op->part_count, sizeof *x->answer->parts);
    if (!x->answer->parts) return hf__error_no_memory(x->error);
    x->answer->part_count = x->op->part_count;
    int code = check_targets(x);
    if (code == 0) code = check_size(x);
    if (code == 0) code = find_token(x, &done);
    if (code != 0 || done) return code;
    code = transaction ? run_transaction(x) : run_batch(x);
    if (code == 0) hf__x_count_together(x, transaction ? 2 : 1);
    for (size_t i = 0; i < x->op->part_count; i++) x->answer->size += x->answer->parts[i].size;
    return code;
}
