/* Time to live. */
#include "store/execute.h"
#include "store/execution.h"
#include "wire/item_json.h"

/* Computes `expires` of all items anew, for a TTL attribute that was just named. */
static int fill_expiry(struct hf_execution *x)
{
    struct hf_columns start = {0};
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    int result, code = 0;
    struct hf_arena *arena = x->arena, scratch = {0};
    x->arena = &scratch; /* a table may have more items than fit an answer */
    while (code == 0 && (result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        int64_t expires;
        code = hf__x_item(x, row, &item);
        struct hf_columns key = {hf__arena_copy(&scratch, hf__column(row, 1)),
                                 hf__arena_copy(&scratch, hf__column(row, 2))};
        if (code == 0 && scratch.failed) code = hf__error_no_memory(x->error);
        sqlite3_stmt *set = code == 0 ? hf__x_prepare(x, HF_SQL_EXPIRY_SET, &key) : NULL;
        if (set) {
            if (hf__x_expiry(x, item, &expires)) sqlite3_bind_int64(set, 4, expires);
            code = hf__database_step(x->db, set, x->error);
        }
        hf__arena_reset(&scratch);
    }
    if (code == 0 && result != SQLITE_DONE) code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    hf__arena_free(&scratch);
    x->arena = arena;
    return code;
}

int hf__x_describe_ttl(struct hf_execution *x)
{
    bool enabled = x->table.ttl_attribute.len > 0;
    x->answer->ttl_status = enabled ? HF_LIT("ENABLED") : HF_LIT("DISABLED");
    x->answer->ttl_attribute = hf__arena_copy(x->arena, x->table.ttl_attribute);
    return 0;
}

int hf__x_update_ttl(struct hf_execution *x)
{
    const struct hf_op *op = x->op;
    bool enabled = x->table.ttl_attribute.len > 0;
    bool same = hf__slice_eq(x->table.ttl_attribute, op->ttl_attribute);
    if (enabled && !same)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "TimeToLive is active on a different AttributeName");
    if (enabled == op->ttl_enabled)
        return hf__error_set(x->error, HF_ERR_VALIDATION, "TimeToLive is already %s",
                             enabled ? "enabled" : "disabled");
    x->table.ttl_attribute = op->ttl_enabled ? op->ttl_attribute : hf__slice(NULL, 0);
    sqlite3_stmt *set = hf__database_prepare(x->db, HF_SQL_TTL_SET, x->error);
    if (!set) return x->error->code;
    sqlite3_bind_int64(set, 1, x->table.id);
    hf__bind_text(set, 2, x->table.ttl_attribute);
    int code = hf__database_step(x->db, set, x->error);
    if (code == 0) code = fill_expiry(x);
    if (code != 0) return code;
    hf__x_describe_ttl(x);
    x->answer->ttl_attribute = op->ttl_attribute;
    return 0;
}

/* One item that has expired, with its entries in indexes. */
static int sweep_row(struct hf_execution *x, sqlite3_stmt *row)
{
    struct hf_op op = {.kind = HF_DELETE_ITEM,
                       .table = hf__arena_copy(x->arena, hf__column(row, 0))};
    struct hf_slice json = hf__arena_copy(x->arena, hf__column(row, 1));
    struct hf_columns key = {hf__arena_copy(x->arena, hf__column(row, 2)),
                             hf__arena_copy(x->arena, hf__column(row, 3))};
    struct hf_item item = {0};
    if (x->arena->failed) return hf__error_no_memory(x->error);
    x->op = &op;
    int code = hf__x_find_table(x);
    if (code == 0 && x->table.spec.indexes.count > 0)
        code = hf__item_from_json(x->arena, json, &item, x->error);
    return code == 0 ? hf__x_erase(x, &key, item) : code;
}

/* Each row is copied before it is deleted; the walk then goes on after it. */
int hf__execute_sweep(struct hf_database *db, int64_t now_unix_us, int most, int *ret_deleted,
                      struct hf_error *reterr)
{
    static const int64_t five_years_s = 5 * 365 * 86400LL, ten_minutes_ms = 600000;
    struct hf_arena arena = {0};
    struct hf_execution x = {.db = db, .arena = &arena, .error = reterr};
    sqlite3_stmt *forget = hf__database_prepare(db, HF_SQL_TOKENS_DELETE, reterr);
    if (!forget) return reterr->code;
    sqlite3_bind_int64(forget, 1, now_unix_us / 1000 - ten_minutes_ms);
    int code = hf__database_step(db, forget, reterr);
    sqlite3_stmt *row = code == 0 ? hf__database_prepare(db, HF_SQL_SWEEP, reterr) : NULL;
    if (!row) return reterr->code;
    int64_t now_s = now_unix_us / 1000000;
    sqlite3_bind_int64(row, 1, now_s);
    sqlite3_bind_int64(row, 2, now_s - five_years_s);
    sqlite3_bind_int64(row, 3, most);
    int result = SQLITE_DONE;
    *ret_deleted = 0;
    hf__database_forget(db);
    while (code == 0 && (result = sqlite3_step(row)) == SQLITE_ROW) {
        code = sweep_row(&x, row);
        hf__arena_reset(&arena);
        ++*ret_deleted;
    }
    if (code == 0 && result != SQLITE_DONE) code = hf__database_error(db, "read", reterr);
    sqlite3_reset(row);
    hf__arena_free(&arena);
    return code;
}
