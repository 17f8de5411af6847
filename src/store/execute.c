#include "store/execute.h"

#include "store/execution.h"

static int (*const executors[HF_OP_KINDS])(struct hf_execution *x) = {
    [HF_GET_ITEM] = hf__x_get_item,
    [HF_PUT_ITEM] = hf__x_put_item,
    [HF_UPDATE_ITEM] = hf__x_update_item,
    [HF_DELETE_ITEM] = hf__x_delete_item,
    [HF_QUERY] = hf__x_query,
    [HF_SCAN] = hf__x_scan,
    [HF_CREATE_TABLE] = hf__x_create_table,
    [HF_DESCRIBE_TABLE] = hf__x_describe_table,
    [HF_DELETE_TABLE] = hf__x_delete_table,
    [HF_LIST_TABLES] = hf__x_list_tables,
    [HF_UPDATE_TTL] = hf__x_update_ttl,
    [HF_DESCRIBE_TTL] = hf__x_describe_ttl,
    [HF_CONDITION_CHECK] = hf__x_check_condition,
    [HF_BATCH_GET] = hf__x_many,
    [HF_BATCH_WRITE] = hf__x_many,
    [HF_TRANSACT_GET] = hf__x_many,
    [HF_TRANSACT_WRITE] = hf__x_many,
    [HF_UPDATE_TABLE] = hf__x_update_table,
    [HF_TAG] = hf__x_tag,
    [HF_UNTAG] = hf__x_untag,
    [HF_LIST_TAGS] = hf__x_list_tags,
};

void hf__x_effort(struct hf_execution *x, size_t json_size, struct hf_item item)
{
    const struct hf_op *op = x->op;
    size_t comparisons = hf__condition_size(op->condition) + hf__condition_size(op->filter);
    if (op->projection) comparisons += op->projection->count / 4; /* these are cheap */
    x->effort->loaded += hf__item_size(item);
    x->effort->looked += json_size * (1 + comparisons);
}

/* That is about a twentieth of a second. */
bool hf__x_is_tired(const struct hf_execution *x)
{
    enum { LOOKED_MOST = 50 * 1000 * 1000 };
    return x->effort->looked > LOOKED_MOST;
}

/* Items that are read take up to twenty times their size. */
bool hf__x_is_full(const struct hf_execution *x)
{
    enum { KEPT_MOST = 32 * 1024 * 1024 };
    return x->effort->kept->size - x->effort->kept_before > KEPT_MOST;
}

/* Operations that take several statements: all of them or none. */
static int execute_whole(struct hf_execution *x)
{
    int code = hf__database_run(x->db, HF_SQL_SAVEPOINT, x->error);
    if (code != 0) return code;
    code = executors[x->op->kind](x);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    hf__database_forget(x->db);
    if (code != 0) hf__recall_clear(x->db->recall);
    if (sqlite3_get_autocommit(x->db->handle)) return code; /* SQLite undid the whole transaction */
    struct hf_error error;
    int undone = code == 0 ? 0 : hf__database_run(x->db, HF_SQL_ROLLBACK_TO, &error);
    int released = hf__database_run(x->db, HF_SQL_RELEASE, &error);
    if (undone != 0 || released != 0) hf__database_rollback(x->db); /* the batch fails as a whole */
    return code == 0 && released != 0 ? hf__error_set(x->error, released, "%s", error.message)
                                      : code;
}

/* Whether an operation writes in more than one statement. */
static bool takes_several(const struct hf_execution *x)
{
    switch (x->op->kind) {
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TABLE:
    case HF_UPDATE_TTL:
    case HF_BATCH_WRITE:
    case HF_TRANSACT_WRITE: return true;
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: return x->table.spec.indexes.count > 0;
    default: return false;
    }
}

void hf__execute(struct hf_database *db, const struct hf_op *op, struct hf_arena *arena,
                 int64_t now_unix_us, struct hf_answer *answer)
{
    struct hf_effort effort = {.kept = arena, .kept_before = arena->size};
    struct hf_execution x = {.db = db,
                             .effort = &effort,
                             .op = op,
                             .arena = arena,
                             .answer = answer,
                             .error = &answer->error,
                             .now_unix_us = now_unix_us};
    bool needs_table =
        op->kind != HF_CREATE_TABLE && op->kind != HF_LIST_TABLES && !hf__op_has_parts(op->kind);
    answer->error.code = 0;
    int code = arena->failed ? hf__error_no_memory(x.error) : hf__op_check(op, x.error); /* S5 */
    answer->at_once = code != 0;
    if (code == 0 && needs_table) code = hf__x_find_table(&x);
    if (code == 0 && needs_table) code = hf__x_count_begin(&x);
    if (code == 0) code = takes_several(&x) ? execute_whole(&x) : executors[op->kind](&x);
    if (code == 0 && arena->failed && !hf__op_is_write(op)) code = hf__error_no_memory(x.error);
    answer->code = code;
}
