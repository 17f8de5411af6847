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

/* An item from before the index may have its key attributes with other types. */
static bool is_in(const struct hf_index *index, struct hf_item item)
{
    return hf__index_has(index, item) && hf__index_check_item(index, item, NULL) == 0;
}

static int change_entry(struct hf_execution *x, const struct hf_index *index,
                        const struct hf_columns *key, const struct hf_item *old,
                        const struct hf_item *new)
{
    struct hf_columns before, after;
    bool was = old && is_in(index, *old), is = new &&is_in(index, *new);
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
int hf__x_enter(struct hf_execution *x, const struct hf_index *index, const struct hf_columns *key,
                struct hf_item item)
{
    return change_entry(x, index, key, NULL, &item);
}
