/* Time to live. */
#include "store/execute.h"
#include "store/execution.h"
#include "wire/item_json.h"

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
    bool more;
    int code = hf__database_step(x->db, set, x->error);
    if (code == 0 && op->ttl_enabled) code = hf__x_begin_chore(x, HF_CHORE_EXPIRY, -1, &more);
    if (code != 0) return code;
    hf__x_describe_ttl(x);
    x->answer->ttl_attribute = op->ttl_attribute;
    return 0;
}

/* An expiry so long ago is taken for a mistake, as DynamoDB does. */
static const int64_t five_years_s = 5 * 365 * 86400LL;

static bool has_expired(int64_t expires, int64_t now_s)
{
    return expires < now_s && expires > now_s - five_years_s;
}

/*
 * Deletes an item with its entries in indexes, if it has expired: `expires` may still be from
 * another TTL attribute, or from before TTL was turned off.
 */
static int sweep_row(struct hf_execution *x, sqlite3_stmt *row, bool *ret_changed)
{
    struct hf_op op = {.kind = HF_DELETE_ITEM,
                       .table = hf__arena_copy(x->arena, hf__column(row, 0))};
    struct hf_slice json = hf__arena_copy(x->arena, hf__column(row, 1));
    struct hf_columns key = {hf__arena_copy(x->arena, hf__column(row, 2)),
                             hf__arena_copy(x->arena, hf__column(row, 3))};
    struct hf_item item = {0};
    int64_t expires, *known = NULL;
    *ret_changed = false;
    if (x->arena->failed) return hf__error_no_memory(x->error);
    x->op = &op;
    int code = hf__x_find_table(x);
    *ret_changed = code == 0;
    if (code != 0) return code == HF_ERR_DAMAGED ? 0 : code; /* that table's rows stay */
    code = hf__item_from_json(x->arena, json, &item, x->error);
    if (code == HF_ERR_NO_MEMORY) return code;
    if (code == 0 && hf__x_expiry(x, item, &expires)) known = &expires;
    if (known && has_expired(expires, x->now_unix_us / 1000000)) return hf__x_erase(x, &key, item);
    return hf__x_set_expiry(x, &key, known);
}

/* Each row is copied before it is deleted; the walk then goes on after it. */
int hf__execute_sweep(struct hf_database *db, int64_t now_unix_us, bool *ret_more,
                      struct hf_error *reterr)
{
    enum { MOST = 500, MOST_BYTES = 256 * 1024 };
    static const int64_t ten_minutes_ms = 600000;
    struct hf_arena arena = {0};
    struct hf_execution x = {
        .db = db, .arena = &arena, .error = reterr, .now_unix_us = now_unix_us};
    sqlite3_stmt *forget = hf__database_prepare(db, HF_SQL_TOKENS_DELETE, reterr);
    if (!forget) return reterr->code;
    sqlite3_bind_int64(forget, 1, now_unix_us / 1000 - ten_minutes_ms);
    int code = hf__database_step(db, forget, reterr);
    sqlite3_stmt *row = code == 0 ? hf__database_prepare(db, HF_SQL_SWEEP, reterr) : NULL;
    if (!row) return reterr->code;
    int64_t now_s = now_unix_us / 1000000;
    sqlite3_bind_int64(row, 1, now_s);
    sqlite3_bind_int64(row, 2, now_s - five_years_s);
    sqlite3_bind_int64(row, 3, MOST);
    int result = SQLITE_DONE, count = 0;
    size_t size = 0;
    bool any = false, changed;
    hf__database_forget(db);
    while (code == 0 && size < MOST_BYTES && (result = sqlite3_step(row)) == SQLITE_ROW) {
        size += hf__column(row, 1).len;
        code = sweep_row(&x, row, &changed);
        any |= changed;
        hf__arena_reset(&arena);
        count++;
    }
    if (code == 0 && result != SQLITE_DONE && result != SQLITE_ROW)
        code = hf__database_error(db, "read", reterr);
    sqlite3_reset(row);
    hf__arena_free(&arena);
    *ret_more = code == 0 && any && (count == MOST || size >= MOST_BYTES);
    return code;
}
