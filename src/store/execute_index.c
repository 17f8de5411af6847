/* Secondary indexes: their entries, which change in the same transaction as their items. */
#include "store/execution.h"

void hf__x_index_columns(struct hf_execution *x, const struct hf_index *index, struct hf_item item,
                         struct hf_columns *ret)
{
    ret->pk = hf__x_sortable(x, hf__item_get(item, index->schema.hash_name));
    ret->sk = HF_LIT("");
    if (hf__schema_has_range(&index->schema))
        ret->sk = hf__x_sortable(x, hf__item_get(item, index->schema.range_name));
}

int hf__x_check_indexes(struct hf_execution *x, struct hf_item item)
{
    int code = 0;
    for (size_t i = 0; i < x->table.spec.indexes.count && code == 0; i++)
        code = hf__index_check_item(&x->table.spec.indexes.at[i], item, x->error);
    return code;
}

static int write_entry(struct hf_execution *x, enum hf_statement how, const struct hf_index *index,
                       const struct hf_columns *entry, const struct hf_columns *key)
{
    sqlite3_stmt *statement = hf__database_prepare(x->db, how, x->error);
    if (!statement) return x->error->code;
    sqlite3_bind_int64(statement, 1, x->table.id);
    sqlite3_bind_int64(statement, 2, index->slot);
    hf__bind_blob(statement, 3, entry->pk);
    hf__bind_blob(statement, 4, entry->sk);
    hf__bind_blob(statement, 5, key->pk);
    hf__bind_blob(statement, 6, key->sk);
    return hf__database_step(x->db, statement, x->error);
}

static int change_entry(struct hf_execution *x, const struct hf_index *index,
                        const struct hf_columns *key, const struct hf_item *old,
                        const struct hf_item *new)
{
    struct hf_columns before, after;
    bool was = old && hf__index_has(index, *old), is = new &&hf__index_has(index, *new);
    if (was) hf__x_index_columns(x, index, *old, &before);
    if (is) hf__x_index_columns(x, index, *new, &after);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    if (was && is && hf__slice_eq(before.pk, after.pk) && hf__slice_eq(before.sk, after.sk))
        return 0;
    int code = was ? write_entry(x, HF_SQL_ENTRY_DELETE, index, &before, key) : 0;
    if (code == 0 && is) code = write_entry(x, HF_SQL_ENTRY_INSERT, index, &after, key);
    return code;
}

int hf__x_change_entries(struct hf_execution *x, const struct hf_columns *key,
                         const struct hf_item *old, const struct hf_item *new)
{
    int code = 0;
    for (size_t i = 0; i < x->table.spec.indexes.count && code == 0; i++)
        code = change_entry(x, &x->table.spec.indexes.at[i], key, old, new);
    return code;
}

/* An item that does not fit the new index is left out of it, as in DynamoDB. */
int hf__x_fill_index(struct hf_execution *x, const struct hf_index *index)
{
    struct hf_columns start = {0};
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    int result, code = 0;
    struct hf_arena *arena = x->arena, scratch = {0};
    x->arena = &scratch; /* a table may have more items than fit an answer */
    while (code == 0 && (result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        code = hf__x_item(x, row, &item);
        struct hf_columns key = {hf__arena_copy(&scratch, hf__column(row, 1)),
                                 hf__arena_copy(&scratch, hf__column(row, 2))};
        if (code == 0 && scratch.failed) code = hf__error_no_memory(x->error);
        if (code == 0 && hf__index_check_item(index, item, NULL) == 0)
            code = change_entry(x, index, &key, NULL, &item);
        hf__arena_reset(&scratch);
    }
    if (code == 0 && result != SQLITE_DONE) code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    hf__arena_free(&scratch);
    x->arena = arena;
    return code;
}

int hf__x_empty_index(struct hf_execution *x, const struct hf_index *index)
{
    sqlite3_stmt *erase = hf__database_prepare(x->db, HF_SQL_ENTRIES_DELETE, x->error);
    if (!erase) return x->error->code;
    sqlite3_bind_int64(erase, 1, x->table.id);
    sqlite3_bind_int64(erase, 2, index->slot);
    return hf__database_step(x->db, erase, x->error);
}
