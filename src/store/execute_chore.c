/*
 * Chores: work on all items of a table, done a portion at a time, so that nobody waits for the whole
 * of it. The first portion belongs to the operation that asks for the work. The rest is written
 * down in the same transaction, and the writer does it between the operations of its callers:
 * whichever process comes to it, also after a crash.
 *
 * Invariants
 * C1  A portion and the place after it are one transaction.
 * C2  An index that is being filled is kept up to date by every write, and is not read.
 * C3  What remains of a deleted table or index is under a number that no other one has meanwhile.
 * C4  A chore that has lost its table or its index is over.
 */
#include "store/execute.h"
#include "store/execution.h"

enum {
    ITEMS_READ = 500, /* in a portion; as many entries are deleted */
    BYTES_READ = 256 * 1024,
    ITEMS_DELETED = 500,
    ITEMS_AT_ONCE = 20,
    LONGEST_US = 5000,
};

struct chore {
    int64_t id; /* 0: not written down */
    enum hf_chore_kind kind;
    int64_t table_id;
    int64_t slot;
    struct hf_columns at; /* the item to continue after */
};

/* ---- portions ---- */

static int erase(struct hf_execution *x, enum hf_statement which, const struct chore *chore,
                 int most)
{
    sqlite3_stmt *erase = hf__database_prepare(x->db, which, x->error);
    if (!erase) return x->error->code;
    sqlite3_bind_int64(erase, 1, chore->table_id);
    sqlite3_bind_int64(erase, 2, most);
    sqlite3_bind_int64(erase, 3, chore->slot);
    return hf__database_step(x->db, erase, x->error);
}

/* `rest` deletes what is left when there are no more than `most`. */
static int erase_some(struct hf_execution *x, enum hf_statement some, enum hf_statement rest,
                      const struct chore *chore, int most, bool *ret_more)
{
    int code = erase(x, some, chore, most);
    *ret_more = code == 0 && sqlite3_changes(x->db->handle) > 0;
    return code == 0 && !*ret_more ? erase(x, rest, chore, most) : code;
}

static int drop_some(struct hf_execution *x, const struct chore *chore, bool *ret_more)
{
    int code = erase_some(x, HF_SQL_TABLE_ENTRIES_SOME, HF_SQL_TABLE_ENTRIES_DELETE, chore,
                          ITEMS_READ, ret_more);
    if (code != 0 || *ret_more) return code;
    /* An item may have a hundred pages. */
    int64_t stop_us = hf__clock_boot_us(&hf__clock_system) + LONGEST_US;
    for (int i = 0; i < ITEMS_DELETED && code == 0; i += ITEMS_AT_ONCE) {
        code = erase_some(x, HF_SQL_TABLE_ITEMS_SOME, HF_SQL_TABLE_ITEMS_DELETE, chore,
                          ITEMS_AT_ONCE, ret_more);
        if (!*ret_more || hf__clock_boot_us(&hf__clock_system) > stop_us) break;
    }
    return code;
}

/* What a chore does with an item. */
static int treat(struct hf_execution *x, const struct chore *chore, const struct hf_index *index,
                 const struct hf_columns *key, struct hf_item item)
{
    int64_t expires;
    if (index) return hf__x_enter(x, index, key, item);
    if (chore->kind != HF_CHORE_EXPIRY || !hf__x_expiry(x, item, &expires)) return 0;
    return hf__x_set_expiry(x, key, &expires);
}

/* The next items of the table; `scratch` is the execution's arena. An item that cannot be read is
 * left out. */
static int read_some(struct hf_execution *x, struct chore *chore, const struct hf_index *index,
                     struct hf_arena *kept, bool *ret_more)
{
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_SCAN, &chore->at);
    size_t size = 0;
    int count = 0, result = SQLITE_DONE, code = 0;
    if (!row) return x->error->code;
    while (code == 0 && count < ITEMS_READ && size < BYTES_READ &&
           (result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        struct hf_columns key = {hf__arena_copy(x->arena, hf__column(row, 1)),
                                 hf__arena_copy(x->arena, hf__column(row, 2))};
        count++;
        size += hf__column(row, 0).len;
        chore->at.pk = hf__arena_copy(kept, key.pk);
        chore->at.sk = hf__arena_copy(kept, key.sk);
        code = hf__x_item(x, row, &item);
        if (code == 0) code = treat(x, chore, index, &key, item);
        else if (code == HF_ERR_DAMAGED) code = 0;
        if (code == 0 && (x->arena->failed || kept->failed)) code = hf__error_no_memory(x->error);
        hf__arena_reset(x->arena);
    }
    if (code == 0 && result != SQLITE_DONE && result != SQLITE_ROW)
        code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    *ret_more = result != SQLITE_DONE;
    return code;
}

static int do_some(struct hf_execution *x, struct chore *chore, bool *ret_more)
{
    const struct hf_index *index = NULL;
    *ret_more = false;
    if (chore->kind == HF_CHORE_DROP) return drop_some(x, chore, ret_more);
    if (chore->kind == HF_CHORE_EMPTY)
        return erase_some(x, HF_SQL_ENTRIES_SOME, HF_SQL_ENTRIES_DELETE, chore, ITEMS_READ,
                          ret_more);
    struct hf_indexes indexes = x->table.spec.indexes;
    for (size_t i = 0; i < indexes.count && chore->kind == HF_CHORE_FILL; i++)
        if (indexes.at[i].slot == chore->slot) index = &indexes.at[i];
    if (!x->table.id || (chore->kind == HF_CHORE_FILL && !index)) return 0; /* C4 */
    struct hf_arena scratch = {0}, *kept = x->arena;
    x->arena = &scratch;
    int code = read_some(x, chore, index, kept, ret_more);
    x->arena = kept;
    hf__arena_free(&scratch);
    return code;
}

/* ---- beginning ---- */

static int write_down(struct hf_execution *x, const struct chore *chore)
{
    sqlite3_stmt *insert = hf__database_prepare(x->db, HF_SQL_CHORE_INSERT, x->error);
    if (!insert) return x->error->code;
    sqlite3_bind_int64(insert, 1, chore->kind);
    sqlite3_bind_int64(insert, 2, chore->table_id);
    sqlite3_bind_int64(insert, 3, chore->slot);
    hf__bind_blob(insert, 4, chore->at.pk);
    hf__bind_blob(insert, 5, chore->at.sk);
    x->db->has_chores = true;
    return hf__database_step(x->db, insert, x->error);
}

int hf__x_begin_chore(struct hf_execution *x, enum hf_chore_kind kind, int64_t slot, bool *ret_more)
{
    struct chore chore = {.kind = kind, .table_id = x->table.id, .slot = slot};
    int code = do_some(x, &chore, ret_more);
    return code == 0 && *ret_more ? write_down(x, &chore) : code;
}

int hf__x_first_slot(struct hf_execution *x, int64_t *ret)
{
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_CHORE_SLOT, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    if (sqlite3_step(row) != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    *ret = sqlite3_column_int64(row, 0) + 1;
    sqlite3_reset(row);
    return 0;
}

/* ---- going on ---- */

/* The oldest one that can be done; its id is 0 if there is none. */
static int find_chore(struct hf_execution *x, struct chore *ret)
{
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_CHORE_GET, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->db->chore_after);
    *ret = (struct chore){0};
    int result = sqlite3_step(row), code = 0;
    if (result == SQLITE_ROW)
        *ret = (struct chore){
            .id = sqlite3_column_int64(row, 0),
            .kind = (enum hf_chore_kind)sqlite3_column_int(row, 1),
            .table_id = sqlite3_column_int64(row, 2),
            .slot = sqlite3_column_int64(row, 3),
            .at = {hf__arena_copy(x->arena, hf__column(row, 4)),
                   hf__arena_copy(x->arena, hf__column(row, 5))},
        };
    else if (result != SQLITE_DONE) code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    return code == 0 && x->arena->failed ? hf__error_no_memory(x->error) : code;
}

/* Its table, if it still exists. */
static int find_table(struct hf_execution *x, const struct chore *chore, struct hf_op *op)
{
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_TABLE_NAME, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, chore->table_id);
    int result = sqlite3_step(row);
    if (result == SQLITE_ROW) op->table = hf__arena_copy(x->arena, hf__column(row, 0));
    sqlite3_reset(row);
    if (result == SQLITE_DONE) return 0;
    if (result != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    x->op = op;
    return hf__x_find_table(x);
}

static int move_on(struct hf_execution *x, const struct chore *chore)
{
    sqlite3_stmt *move = hf__database_prepare(x->db, HF_SQL_CHORE_MOVE, x->error);
    if (!move) return x->error->code;
    sqlite3_bind_int64(move, 1, chore->id);
    hf__bind_blob(move, 2, chore->at.pk);
    hf__bind_blob(move, 3, chore->at.sk);
    return hf__database_step(x->db, move, x->error);
}

static int finish(struct hf_execution *x, const struct chore *chore)
{
    sqlite3_stmt *erase = hf__database_prepare(x->db, HF_SQL_CHORE_DELETE, x->error);
    if (!erase) return x->error->code;
    sqlite3_bind_int64(erase, 1, chore->id);
    int code = hf__database_step(x->db, erase, x->error);
    if (code != 0 || chore->kind != HF_CHORE_FILL || !x->table.id) return code;
    return hf__x_index_is_filled(x, chore->slot);
}

bool hf__execute_has_chores(struct hf_database *db)
{
    struct hf_error error;
    sqlite3_stmt *row = hf__database_prepare(db, HF_SQL_CHORE_GET, &error);
    if (!row) return false;
    sqlite3_bind_int64(row, 1, db->chore_after);
    bool any = sqlite3_step(row) == SQLITE_ROW;
    sqlite3_reset(row);
    return any;
}

int hf__execute_chore(struct hf_database *db, int64_t now_unix_us, bool *ret_more,
                      struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_op op = {.kind = HF_UPDATE_TABLE};
    struct hf_execution x = {
        .db = db, .arena = &arena, .error = reterr, .now_unix_us = now_unix_us};
    struct chore chore;
    bool more = false;
    hf__database_forget(db);
    int code = find_chore(&x, &chore);
    if (code == 0 && chore.id != 0) {
        bool in_table = chore.kind == HF_CHORE_FILL || chore.kind == HF_CHORE_EXPIRY;
        code = in_table ? find_table(&x, &chore, &op) : 0;
        if (code == HF_ERR_DAMAGED)
            db->chore_after = chore.id; /* the others need not wait for it */
        if (code == 0) code = do_some(&x, &chore, &more);
        if (code == 0) code = more ? move_on(&x, &chore) : finish(&x, &chore);
    }
    hf__database_forget(db);
    hf__arena_free(&arena);
    *ret_more = code == 0 && chore.id != 0; /* this one or the next */
    return code;
}
