/* Reading and writing one item. */
#include "base/buf.h"
#include "store/execution.h"
#include "wire/item_json.h"

enum { LARGE_SCRATCH = 64 * 1024 }; /* not worth keeping */

/* Texts and bytes sort as they are; numbers have a form of their own. */
struct hf_slice hf__x_sortable(struct hf_execution *x, const struct hf_value *value)
{
    unsigned char bytes[HF_NUMBER_SORTABLE_SIZE];
    if (value->type != HF_N) return value->bytes;
    size_t len = hf__number_sortable(value->number, bytes);
    return hf__arena_copy(x->arena, hf__slice((const char *)bytes, len));
}

int hf__x_columns(struct hf_execution *x, struct hf_item item, struct hf_columns *ret)
{
    const struct hf_key_schema *schema = &x->table.schema;
    ret->pk = hf__x_sortable(x, hf__item_get(item, schema->hash_name));
    ret->sk = HF_LIT("");
    if (hf__schema_has_range(schema))
        ret->sk = hf__x_sortable(x, hf__item_get(item, schema->range_name));
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

sqlite3_stmt *hf__x_prepare(struct hf_execution *x, enum hf_statement which,
                            const struct hf_columns *key)
{
    sqlite3_stmt *statement = hf__database_prepare(x->db, which, x->error);
    if (!statement) return NULL;
    sqlite3_bind_int64(statement, 1, x->table.id);
    hf__bind_blob(statement, 2, key->pk);
    hf__bind_blob(statement, 3, key->sk);
    return statement;
}

int hf__x_decline(struct hf_execution *x)
{
    x->db->declined = true;
    return hf__error_set(x->error, HF_ERR_LIMIT, "this is to be read elsewhere");
}

/* The item of the current row; what is stored was checked when it came in. */
int hf__x_item(struct hf_execution *x, sqlite3_stmt *row, struct hf_item *ret)
{
    struct hf_slice column = hf__column(row, 0);
    struct hf_error why;
    if (x->db->longest && column.len > x->db->longest) return hf__x_decline(x);
    x->json = hf__arena_copy(x->arena, column);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    int code = hf__item_from_json(x->arena, x->json, ret, &why);
    if (code == 0 || code == HF_ERR_NO_MEMORY)
        return hf__error_set(x->error, code, "%s", code ? why.message : "");
    return hf__error_set(x->error, HF_ERR_DAMAGED, "%s: an item of table %.*s cannot be read: %s",
                         x->db->name, HF_FMT(x->table.name), why.message);
}

static int load(struct hf_execution *x, const struct hf_columns *key, bool *ret_found,
                struct hf_item *ret_item)
{
    *ret_found = false;
    *ret_item = (struct hf_item){0};
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_ITEM_GET, key);
    if (!row) return x->error->code;
    int result = sqlite3_step(row), code = 0;
    *ret_found = x->found = result == SQLITE_ROW;
    if (*ret_found) code = hf__x_item(x, row, ret_item);
    if (*ret_found && code == 0) hf__x_effort(x, hf__column(row, 0).len, *ret_item);
    else if (!*ret_found && result != SQLITE_DONE)
        code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    return code;
}

static struct hf_recall_key recall_key(const struct hf_execution *x, const struct hf_columns *key)
{
    return (struct hf_recall_key){x->table.id, key->pk, key->sk};
}

/* The item that a write is about. */
static int load_to_write(struct hf_execution *x, const struct hf_columns *key, bool *ret_found,
                         struct hf_item *ret_item)
{
    const struct hf_recall_key place = recall_key(x, key);
    size_t json_len;
    if (!hf__recall_find(x->db->recall, &place, x->arena, ret_item, &json_len))
        return load(x, key, ret_found, ret_item);
    *ret_found = x->found = true;
    hf__x_effort(x, json_len, *ret_item);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

/* The TTL attribute's value, if it is a whole number: anything else never expires. */
bool hf__x_expiry(const struct hf_execution *x, struct hf_item item, int64_t *ret)
{
    if (x->table.ttl_attribute.len == 0) return false;
    const struct hf_value *ttl = hf__item_get(item, x->table.ttl_attribute);
    return ttl && ttl->type == HF_N && hf__number_to_int64(ttl->number, ret);
}

int hf__x_set_expiry(struct hf_execution *x, const struct hf_columns *key, const int64_t *expires)
{
    sqlite3_stmt *set = hf__x_prepare(x, HF_SQL_EXPIRY_SET, key);
    if (!set) return x->error->code;
    if (expires) sqlite3_bind_int64(set, 4, *expires);
    return hf__database_step(x->db, set, x->error);
}

/* Changes the row of an item that is there, as it was read or is remembered. */
static int change_row(struct hf_execution *x, sqlite3_stmt *statement)
{
    int code = hf__database_step(x->db, statement, x->error);
    if (code != 0 || sqlite3_changes(x->db->handle) == 1) return code;
    hf__recall_clear(x->db->recall);
    return hf__error_set(x->error, HF_ERR_DAMAGED, "%s: an item of table %.*s has disappeared",
                         x->db->name, HF_FMT(x->table.name));
}

static int save(struct hf_execution *x, const struct hf_columns *key, struct hf_item old,
                struct hf_item item)
{
    struct hf_buf *json = &x->db->scratch;
    enum hf_statement how = x->found ? HF_SQL_ITEM_REPLACE : HF_SQL_ITEM_INSERT;
    int64_t expires;
    hf__buf_clear(json);
    hf__item_to_json(item, json);
    if (json->failed) return hf__error_no_memory(x->error);
    sqlite3_stmt *put = hf__x_prepare(x, how, key);
    if (!put) return x->error->code;
    if (hf__x_expiry(x, item, &expires)) sqlite3_bind_int64(put, 4, expires);
    hf__bind_text(put, 5, hf__buf_view(json));
    int code = x->found ? change_row(x, put) : hf__database_step(x->db, put, x->error);
    size_t json_len = json->len;
    if (json->cap > LARGE_SCRATCH) hf__buf_free(json);
    if (code == 0) code = hf__x_change_entries(x, key, x->found ? &old : NULL, &item);
    const struct hf_recall_key place = recall_key(x, key);
    if (code == 0) hf__recall_keep(x->db->recall, &place, item, json_len);
    return code;
}

int hf__x_erase(struct hf_execution *x, const struct hf_columns *key, struct hf_item old)
{
    const struct hf_recall_key place = recall_key(x, key);
    hf__recall_drop(x->db->recall, &place);
    sqlite3_stmt *erase = hf__x_prepare(x, HF_SQL_ITEM_DELETE, key);
    if (!erase) return x->error->code;
    int code = change_row(x, erase);
    return code == 0 ? hf__x_change_entries(x, key, &old, NULL) : code;
}

static void show(struct hf_execution *x, struct hf_item item)
{
    x->answer->has_item = true;
    x->answer->item = item;
    x->answer->size = hf__item_size(item);
}

static int check_condition(struct hf_execution *x, bool found, struct hf_item old)
{
    if (!x->op->condition || hf__condition_holds(x->op->condition, old)) return 0;
    if (found && x->op->old_on_failure) show(x, old);
    return hf__error_set(x->error, HF_ERR_CONDITION, "The conditional request failed");
}

/* Tables with local indexes have item collections, whose size may be asked for. */
static void show_collection(struct hf_execution *x, struct hf_item key)
{
    struct hf_indexes indexes = x->table.spec.indexes;
    bool local = false;
    for (size_t i = 0; i < indexes.count; i++) local |= !indexes.at[i].global;
    if (!local || !x->op->collection_metrics) return;
    struct hf_key_schema schema = hf__x_copy_schema(x);
    schema.range_name = hf__slice(NULL, 0);
    if (!x->arena->failed) x->answer->collection_key = hf__key_of(x->arena, &schema, key);
}

static int get_item(struct hf_execution *x, bool *ret_found, struct hf_item *ret)
{
    struct hf_columns key;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = hf__x_columns(x, x->op->key, &key);
    if (code == 0) code = load(x, &key, ret_found, ret);
    if (code == 0) hf__x_count_read(x, NULL, *ret_found ? hf__item_size(*ret) : 1);
    return code;
}

/* Of an item that is not wanted as a whole, only what is wanted is kept. */
static int get_some(struct hf_execution *x, bool *ret_found, struct hf_item *ret)
{
    struct hf_arena scratch = {0}, *kept = x->arena;
    x->arena = &scratch;
    int code = get_item(x, ret_found, ret);
    if (code == 0 && *ret_found) {
        *ret = hf__projection_apply(&scratch, x->op->projection, *ret);
        *ret = hf__item_copy(kept, *ret);
    }
    if (code == 0 && (scratch.failed || kept->failed)) code = hf__error_no_memory(x->error);
    x->arena = kept;
    hf__arena_free(&scratch);
    return code;
}

int hf__x_get_item(struct hf_execution *x)
{
    struct hf_item item;
    bool found;
    int code = x->op->projection ? get_some(x, &found, &item) : get_item(x, &found, &item);
    if (code == 0 && found) show(x, item);
    if (code == 0 && found && x->op->takes_json && !x->op->projection) x->answer->json = x->json;
    return code;
}

int hf__x_put_item(struct hf_execution *x)
{
    struct hf_columns key;
    struct hf_item old;
    bool found;
    int code = hf__key_check_item(&x->table.schema, x->op->item, x->error);
    if (code == 0) code = hf__x_check_indexes(x, x->op->item);
    if (code == 0) code = hf__x_columns(x, x->op->item, &key);
    if (code == 0) code = load_to_write(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) hf__x_count_write(x, found ? &old : NULL, &x->op->item);
    if (code == 0) show_collection(x, x->op->item);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    if (code == 0) code = save(x, &key, old, x->op->item);
    if (code == 0 && found && x->op->returns == HF_RETURN_ALL_OLD) show(x, old);
    return code;
}

int hf__x_delete_item(struct hf_execution *x)
{
    struct hf_columns key;
    struct hf_item old;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = hf__x_columns(x, x->op->key, &key);
    if (code == 0) code = load_to_write(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) hf__x_count_write(x, found ? &old : NULL, NULL);
    if (code == 0) show_collection(x, x->op->key);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    if (code == 0 && found) code = hf__x_erase(x, &key, old);
    if (code == 0 && found && x->op->returns == HF_RETURN_ALL_OLD) show(x, old);
    return code;
}

int hf__x_check_condition(struct hf_execution *x)
{
    struct hf_columns key;
    struct hf_item old;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = hf__x_columns(x, x->op->key, &key);
    if (code == 0) code = load_to_write(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) hf__x_count_write(x, found ? &old : NULL, found ? &old : NULL);
    return code;
}

static int check_update_spares_key(struct hf_execution *x)
{
    for (size_t i = 0; x->op->update && i < x->op->update->count; i++) {
        struct hf_slice name = x->op->update->actions[i].path.parts[0].name;
        if (hf__schema_is_key_name(&x->table.schema, name))
            return hf__error_set(
                x->error, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Cannot update attribute "
                "%.*s. This attribute is part of the key",
                HF_FMT(name));
    }
    return 0;
}

static int apply(struct hf_execution *x, struct hf_item base, struct hf_item *ret)
{
    struct hf_error why;
    *ret = base;
    if (x->op->update && hf__update_apply(x->arena, x->op->update, base, ret, &why) != 0)
        return hf__error_set(x->error, why.code, "%s", why.message);
    int code = hf__item_check(*ret, x->error);
    if (code == 0 && hf__item_size(*ret) > HF_ITEM_MAX_SIZE)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "Item size to update has exceeded the maximum allowed size");
    return code;
}

static void show_update(struct hf_execution *x, bool found, struct hf_item old, struct hf_item new)
{
    enum hf_returns returns = x->op->returns;
    bool of_old = returns == HF_RETURN_ALL_OLD || returns == HF_RETURN_UPDATED_OLD;
    bool touched = returns == HF_RETURN_UPDATED_OLD || returns == HF_RETURN_UPDATED_NEW;
    if (returns == HF_RETURN_NONE || (of_old && !found)) return;
    struct hf_item shown = of_old ? old : new;
    if (touched) {
        static const struct hf_update nothing;
        shown = hf__touched_attributes(x->arena, x->op->update ? x->op->update : &nothing, shown);
        if (shown.count == 0) return;
    }
    show(x, shown);
}

int hf__x_update_item(struct hf_execution *x)
{
    struct hf_columns key;
    struct hf_item old, new;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = check_update_spares_key(x);
    if (code == 0) code = hf__x_columns(x, x->op->key, &key);
    if (code == 0) code = load_to_write(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) code = apply(x, found ? old : x->op->key, &new);
    if (code == 0) code = hf__x_check_indexes(x, new);
    if (code == 0) show_update(x, found, old, new);
    if (code == 0) hf__x_count_write(x, found ? &old : NULL, &new);
    if (code == 0) show_collection(x, x->op->key);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    return code == 0 ? save(x, &key, old, new) : code; /* last: what follows a write cannot fail */
}
