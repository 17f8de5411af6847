/* Tables and their time to live. */
#include "store/execute.h"
#include "store/execution.h"

enum { TABLES_PER_PAGE = 100 };

static enum hf_type column_type(sqlite3_stmt *row, int index)
{
    enum hf_type type = HF_S;
    hf__type_from_name(hf__column(row, index), &type);
    return type;
}

static int no_table(const struct hf_execution *x)
{
    bool of_items = x->op->kind <= HF_SCAN;
    if (of_items) return hf__error_set(x->error, HF_ERR_NO_TABLE, "Requested resource not found");
    return hf__error_set(x->error, HF_ERR_NO_TABLE,
                         "Requested resource not found: Table: %.*s not found",
                         HF_FMT(x->op->table));
}

/* Reads a table's row into the connection's memory of it, which lasts for one transaction. */
static int read_table(struct hf_execution *x, struct hf_table *table)
{
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_TABLE, x->error);
    if (!row) return x->error->code;
    hf__bind_text(row, 1, x->op->table);
    int result = sqlite3_step(row);
    if (result == SQLITE_DONE) return no_table(x);
    if (result != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    hf__database_forget(x->db);
    struct hf_arena *memory = &x->db->table_memory;
    *table = (struct hf_table){
        .id = sqlite3_column_int64(row, 0),
        .name = hf__arena_copy(memory, hf__column(row, 1)),
        .schema = {.hash_name = hf__arena_copy(memory, hf__column(row, 2)),
                   .hash_type = column_type(row, 3),
                   .range_name = hf__arena_copy(memory, hf__column(row, 4)),
                   .range_type = column_type(row, 5)},
        .on_demand = sqlite3_column_int64(row, 6) == 0,
        .ttl_attribute = hf__arena_copy(memory, hf__column(row, 8)),
        .created_unix_ms = sqlite3_column_int64(row, 9),
    };
    sqlite3_reset(row);
    return memory->failed ? hf__error_no_memory(x->error) : 0;
}

/* What the answer keeps of a table must outlive the connection's memory of it. */
int hf__x_find_table(struct hf_execution *x)
{
    struct hf_table *known = &x->db->table;
    if (!known->id || !hf__slice_eq(known->name, x->op->table)) {
        int code = read_table(x, known);
        if (code != 0) {
            hf__database_forget(x->db);
            return code;
        }
    }
    x->table = *known;
    return 0;
}

struct hf_key_schema hf__x_copy_schema(struct hf_execution *x)
{
    struct hf_key_schema schema = x->table.schema;
    schema.hash_name = hf__arena_copy(x->arena, schema.hash_name);
    if (hf__schema_has_range(&schema))
        schema.range_name = hf__arena_copy(x->arena, schema.range_name);
    return schema;
}

static int describe(struct hf_execution *x, const char *status)
{
    sqlite3_stmt *count = hf__database_prepare(x->db, HF_SQL_TABLE_COUNT, x->error);
    if (!count) return x->error->code;
    sqlite3_bind_int64(count, 1, x->table.id);
    if (sqlite3_step(count) != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    x->answer->table = (struct hf_table_info){
        .name = hf__arena_copy(x->arena, x->table.name),
        .status = hf__slice_str(status),
        .schema = hf__x_copy_schema(x),
        .item_count = sqlite3_column_int64(count, 0),
        .on_demand = x->table.on_demand,
        .created_unix_ms = x->table.created_unix_ms,
    };
    sqlite3_reset(count);
    return 0;
}

int hf__x_create_table(struct hf_execution *x)
{
    const struct hf_op *op = x->op;
    int code = hf__x_find_table(x);
    if (code == 0)
        return hf__error_set(x->error, HF_ERR_TABLE_IN_USE, "Table already exists: %.*s",
                             HF_FMT(op->table));
    if (code != HF_ERR_NO_TABLE) return code;
    sqlite3_stmt *insert = hf__database_prepare(x->db, HF_SQL_TABLE_INSERT, x->error);
    if (!insert) return x->error->code;
    bool range = hf__schema_has_range(&op->schema);
    hf__bind_text(insert, 1, op->table);
    hf__bind_text(insert, 2, op->schema.hash_name);
    hf__bind_text(insert, 3, hf__slice_str(hf__type_name(op->schema.hash_type)));
    hf__bind_text(insert, 4, op->schema.range_name);
    hf__bind_text(insert, 5, hf__slice_str(range ? hf__type_name(op->schema.range_type) : ""));
    sqlite3_bind_int64(insert, 6, op->read_units);
    sqlite3_bind_int64(insert, 7, op->write_units);
    sqlite3_bind_int64(insert, 8, x->now_unix_us / 1000);
    code = hf__database_step(x->db, insert, x->error);
    if (code == 0) code = hf__x_find_table(x);
    return code == 0 ? describe(x, "ACTIVE") : code;
}

int hf__x_delete_table(struct hf_execution *x)
{
    static const enum hf_statement steps[] = {HF_SQL_TABLE_ITEMS_DELETE, HF_SQL_TABLE_DELETE};
    int code = describe(x, "DELETING");
    for (int i = 0; i < 2 && code == 0; i++) {
        sqlite3_stmt *step = hf__database_prepare(x->db, steps[i], x->error);
        if (!step) return x->error->code;
        sqlite3_bind_int64(step, 1, x->table.id);
        code = hf__database_step(x->db, step, x->error);
    }
    return code;
}

int hf__x_list_tables(struct hf_execution *x)
{
    int64_t limit = x->op->has_limit ? x->op->limit : TABLES_PER_PAGE;
    if (limit > TABLES_PER_PAGE) limit = TABLES_PER_PAGE;
    struct hf_slice *names = hf__arena_zalloc(x->arena, (size_t)limit + 1, sizeof *names);
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_TABLE_LIST, x->error);
    if (!names) return hf__error_no_memory(x->error);
    if (!row) return x->error->code;
    hf__bind_text(row, 1, x->op->start_table);
    sqlite3_bind_int64(row, 2, limit + 1);
    size_t count = 0;
    int result;
    while ((result = sqlite3_step(row)) == SQLITE_ROW)
        names[count++] = hf__arena_copy(x->arena, hf__column(row, 0));
    if (result != SQLITE_DONE) return hf__database_error(x->db, "read", x->error);
    bool more = (int64_t)count > limit;
    x->answer->tables = names;
    x->answer->table_count = more ? (size_t)limit : count;
    if (more) x->answer->last_table = names[limit - 1];
    return 0;
}

int hf__x_describe_table(struct hf_execution *x)
{
    return describe(x, "ACTIVE");
}

/* ---- TTL ---- */

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

int hf__execute_sweep(struct hf_database *db, int64_t now_unix_us, int most, int *ret_deleted,
                      struct hf_error *reterr)
{
    static const int64_t five_years_s = 5 * 365 * 86400LL;
    sqlite3_stmt *sweep = hf__database_prepare(db, HF_SQL_SWEEP, reterr);
    if (!sweep) return reterr->code;
    int64_t now_s = now_unix_us / 1000000;
    sqlite3_bind_int64(sweep, 1, now_s);
    sqlite3_bind_int64(sweep, 2, now_s - five_years_s);
    sqlite3_bind_int64(sweep, 3, most);
    int code = hf__database_step(db, sweep, reterr);
    if (code == 0) *ret_deleted = sqlite3_changes(db->handle);
    return code;
}
