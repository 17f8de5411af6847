#include "store/execute.h"

#include "base/buf.h"
#include "wire/item_json.h"

enum {
    PAGE_SIZE = 1024 * 1024, /* of items looked at by one Query or Scan */
    TABLES_PER_PAGE = 100,
    HIGHEST_KEY_SIZE = HF_HASH_KEY_MAX_SIZE + 1,
};

struct execution {
    struct hf_database *db;
    const struct hf_op *op;
    struct hf_arena *arena;
    struct hf_answer *answer;
    struct hf_error *error; /* &answer->error */
    int64_t now_unix_us;
    struct hf_table table;
    bool found; /* the item was there: it is replaced, not inserted */
};

/* ---- tables ---- */

static enum hf_type column_type(sqlite3_stmt *row, int index)
{
    enum hf_type type = HF_S;
    hf__type_from_name(hf__column(row, index), &type);
    return type;
}

static int no_table(const struct execution *x)
{
    bool of_items = x->op->kind <= HF_SCAN;
    if (of_items) return hf__error_set(x->error, HF_ERR_NO_TABLE, "Requested resource not found");
    return hf__error_set(x->error, HF_ERR_NO_TABLE,
                         "Requested resource not found: Table: %.*s not found",
                         HF_FMT(x->op->table));
}

/* Reads a table's row into the connection's memory of it, which lasts for one transaction. */
static int read_table(struct execution *x, struct hf_table *table)
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
static int find_table(struct execution *x)
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

static struct hf_key_schema copy_schema(struct execution *x)
{
    struct hf_key_schema schema = x->table.schema;
    schema.hash_name = hf__arena_copy(x->arena, schema.hash_name);
    if (hf__schema_has_range(&schema))
        schema.range_name = hf__arena_copy(x->arena, schema.range_name);
    return schema;
}

static int describe(struct execution *x, const char *status)
{
    sqlite3_stmt *count = hf__database_prepare(x->db, HF_SQL_TABLE_COUNT, x->error);
    if (!count) return x->error->code;
    sqlite3_bind_int64(count, 1, x->table.id);
    if (sqlite3_step(count) != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    x->answer->table = (struct hf_table_info){
        .name = hf__arena_copy(x->arena, x->table.name),
        .status = hf__slice_str(status),
        .schema = copy_schema(x),
        .item_count = sqlite3_column_int64(count, 0),
        .on_demand = x->table.on_demand,
        .created_unix_ms = x->table.created_unix_ms,
    };
    sqlite3_reset(count);
    return 0;
}

static int create_table(struct execution *x)
{
    const struct hf_op *op = x->op;
    int code = find_table(x);
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
    if (code == 0) code = find_table(x);
    return code == 0 ? describe(x, "ACTIVE") : code;
}

static int delete_table(struct execution *x)
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

static int list_tables(struct execution *x)
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

/* ---- reading and writing one item ---- */

/* A key's two columns. */
struct columns {
    struct hf_slice pk;
    struct hf_slice sk;
};

static struct hf_slice sortable(struct execution *x, const struct hf_value *value)
{
    struct hf_buf buf;
    hf__buf_init(&buf, HIGHEST_KEY_SIZE);
    hf__key_sortable(value, &buf);
    struct hf_slice copy = hf__arena_copy(x->arena, hf__buf_view(&buf));
    x->arena->failed |= buf.failed;
    hf__buf_free(&buf);
    return copy;
}

static int columns_of(struct execution *x, struct hf_item item, struct columns *ret)
{
    const struct hf_key_schema *schema = &x->table.schema;
    ret->pk = sortable(x, hf__item_get(item, schema->hash_name));
    ret->sk = HF_LIT("");
    if (hf__schema_has_range(schema)) ret->sk = sortable(x, hf__item_get(item, schema->range_name));
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static sqlite3_stmt *prepare_keyed(struct execution *x, enum hf_statement which,
                                   const struct columns *key)
{
    sqlite3_stmt *statement = hf__database_prepare(x->db, which, x->error);
    if (!statement) return NULL;
    sqlite3_bind_int64(statement, 1, x->table.id);
    hf__bind_blob(statement, 2, key->pk);
    hf__bind_blob(statement, 3, key->sk);
    return statement;
}

/* The item of the current row; what is stored was checked when it came in. */
static int item_of_row(struct execution *x, sqlite3_stmt *row, struct hf_item *ret)
{
    struct hf_slice json = hf__arena_copy(x->arena, hf__column(row, 0));
    struct hf_error why;
    if (x->arena->failed) return hf__error_no_memory(x->error);
    int code = hf__item_from_json(x->arena, json, ret, &why);
    if (code == 0 || code == HF_ERR_NO_MEMORY)
        return hf__error_set(x->error, code, "%s", code ? why.message : "");
    return hf__error_set(x->error, HF_ERR_DAMAGED, "%s: an item of table %.*s cannot be read: %s",
                         x->db->name, HF_FMT(x->table.name), why.message);
}

static int load(struct execution *x, const struct columns *key, bool *ret_found,
                struct hf_item *ret_item)
{
    *ret_found = false;
    *ret_item = (struct hf_item){0};
    sqlite3_stmt *row = prepare_keyed(x, HF_SQL_ITEM_GET, key);
    if (!row) return x->error->code;
    int result = sqlite3_step(row), code = 0;
    *ret_found = x->found = result == SQLITE_ROW;
    if (*ret_found) code = item_of_row(x, row, ret_item);
    else if (result != SQLITE_DONE) code = hf__database_error(x->db, "read", x->error);
    sqlite3_reset(row);
    return code;
}

/* The TTL attribute's value, if it is a whole number: anything else never expires. */
static bool expiry_of(const struct execution *x, struct hf_item item, int64_t *ret)
{
    if (x->table.ttl_attribute.len == 0) return false;
    const struct hf_value *ttl = hf__item_get(item, x->table.ttl_attribute);
    return ttl && ttl->type == HF_N && hf__number_to_int64(ttl->number, ret);
}

static int save(struct execution *x, const struct columns *key, struct hf_item item)
{
    struct hf_buf json;
    int64_t expires;
    hf__buf_init(&json, HF_ITEM_JSON_MAX);
    hf__item_to_json(item, &json);
    enum hf_statement how = x->found ? HF_SQL_ITEM_REPLACE : HF_SQL_ITEM_INSERT;
    sqlite3_stmt *put = json.failed ? NULL : prepare_keyed(x, how, key);
    int code = json.failed ? hf__error_no_memory(x->error) : x->error->code;
    if (put) {
        if (expiry_of(x, item, &expires)) sqlite3_bind_int64(put, 4, expires);
        hf__bind_text(put, 5, hf__buf_view(&json));
        code = hf__database_step(x->db, put, x->error);
    }
    hf__buf_free(&json);
    return code;
}

static int erase(struct execution *x, const struct columns *key)
{
    sqlite3_stmt *erase = prepare_keyed(x, HF_SQL_ITEM_DELETE, key);
    return erase ? hf__database_step(x->db, erase, x->error) : x->error->code;
}

static void show(struct execution *x, struct hf_item item)
{
    x->answer->has_item = true;
    x->answer->item = item;
}

static int check_condition(struct execution *x, bool found, struct hf_item old)
{
    if (!x->op->condition || hf__condition_holds(x->op->condition, old)) return 0;
    if (found && x->op->old_on_failure) show(x, old);
    return hf__error_set(x->error, HF_ERR_CONDITION, "The conditional request failed");
}

static int get_item(struct execution *x)
{
    struct columns key;
    struct hf_item item;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = columns_of(x, x->op->key, &key);
    if (code == 0) code = load(x, &key, &found, &item);
    if (code != 0 || !found) return code;
    if (x->op->projection) item = hf__projection_apply(x->arena, x->op->projection, item);
    show(x, item);
    return 0;
}

static int put_item(struct execution *x)
{
    struct columns key;
    struct hf_item old;
    bool found;
    int code = hf__key_check_item(&x->table.schema, x->op->item, x->error);
    if (code == 0) code = columns_of(x, x->op->item, &key);
    if (code == 0) code = load(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) code = save(x, &key, x->op->item);
    if (code == 0 && found && x->op->returns == HF_RETURN_ALL_OLD) show(x, old);
    return code;
}

static int delete_item(struct execution *x)
{
    struct columns key;
    struct hf_item old;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = columns_of(x, x->op->key, &key);
    if (code == 0) code = load(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0 && found) code = erase(x, &key);
    if (code == 0 && found && x->op->returns == HF_RETURN_ALL_OLD) show(x, old);
    return code;
}

static int check_update_spares_key(struct execution *x)
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

static int apply(struct execution *x, struct hf_item base, struct hf_item *ret)
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

static void show_update(struct execution *x, bool found, struct hf_item old, struct hf_item new)
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

static int update_item(struct execution *x)
{
    struct columns key;
    struct hf_item old, new;
    bool found;
    int code = hf__key_check(&x->table.schema, x->op->key, x->error);
    if (code == 0) code = check_update_spares_key(x);
    if (code == 0) code = columns_of(x, x->op->key, &key);
    if (code == 0) code = load(x, &key, &found, &old);
    if (code == 0) code = check_condition(x, found, old);
    if (code == 0) code = apply(x, found ? old : x->op->key, &new);
    if (code == 0) show_update(x, found, old, new);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    return code == 0 ? save(x, &key, new) : code; /* last: what follows a write cannot fail */
}

/* ---- pages ---- */

/* Sort keys from lo up to, not including, hi. */
struct range {
    struct hf_slice lo;
    struct hf_slice hi;
};

/* The smallest byte string above one. */
static struct hf_slice just_above(struct execution *x, struct hf_slice bytes)
{
    char *copy = hf__arena_str(x->arena, bytes); /* its terminator becomes part of it */
    return copy ? hf__slice(copy, bytes.len + 1) : bytes;
}

/* Above every sort key that fits. */
static struct hf_slice highest(struct execution *x)
{
    char *bytes = hf__arena_alloc(x->arena, HIGHEST_KEY_SIZE);
    if (!bytes) return hf__slice(NULL, 0);
    memset(bytes, 0xff, HIGHEST_KEY_SIZE);
    return hf__slice(bytes, HIGHEST_KEY_SIZE);
}

/* The smallest byte string above all that begin with a prefix. */
static struct hf_slice above_prefix(struct execution *x, struct hf_slice prefix)
{
    while (prefix.len > 0 && (unsigned char)prefix.ptr[prefix.len - 1] == 0xff) prefix.len--;
    if (prefix.len == 0) return highest(x);
    char *copy = hf__arena_str(x->arena, prefix);
    if (copy) copy[prefix.len - 1] = (char)(copy[prefix.len - 1] + 1);
    return hf__slice(copy, prefix.len);
}

static struct range range_of(struct execution *x, const struct hf_key_test *test)
{
    struct range range = {hf__slice(NULL, 0), highest(x)};
    if (!test) return range;
    struct hf_slice low = sortable(x, &test->low);
    switch (test->op) {
    case HF_EQ: return (struct range){low, just_above(x, low)};
    case HF_LT: range.hi = low; break;
    case HF_LE: range.hi = just_above(x, low); break;
    case HF_GT: range.lo = just_above(x, low); break;
    case HF_GE: range.lo = low; break;
    case HF_BETWEEN: return (struct range){low, just_above(x, sortable(x, &test->high))};
    case HF_BEGINS_WITH: return (struct range){low, above_prefix(x, low)};
    default: break;
    }
    return range;
}

/* Collects rows into the answer until the page is full or the rows end. */
static int collect(struct execution *x, sqlite3_stmt *row)
{
    struct hf_item *items = NULL;
    size_t count = 0, capacity = 0, seen_size = 0;
    int64_t seen = 0;
    int result;
    while ((result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        int code = item_of_row(x, row, &item);
        if (code != 0) return code;
        seen++;
        seen_size += hf__item_size(item);
        if (!x->op->filter || hf__condition_holds(x->op->filter, item)) {
            items = hf__arena_grow(x->arena, items, count, &capacity, sizeof *items);
            if (!items) return hf__error_no_memory(x->error);
            items[count++] =
                x->op->projection ? hf__projection_apply(x->arena, x->op->projection, item) : item;
        }
        if ((x->op->has_limit && seen >= x->op->limit) || seen_size > PAGE_SIZE) {
            struct hf_key_schema schema = copy_schema(x);
            x->answer->last_key = hf__key_of(x->arena, &schema, item);
            break;
        }
    }
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return hf__database_error(x->db, "read", x->error);
    x->answer->items = items;
    x->answer->count = count;
    x->answer->scanned = seen;
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static bool is_key_name(const void *schema, struct hf_slice name)
{
    return hf__schema_is_key_name(schema, name);
}

static int check_start_key(struct execution *x)
{
    if (x->op->start_key.count == 0) return 0;
    if (hf__key_check(&x->table.schema, x->op->start_key, NULL) == 0) return 0;
    return hf__error_set(
        x->error, HF_ERR_VALIDATION,
        "The provided starting key is invalid: The provided key element does not match "
        "the schema");
}

static int check_filter(struct execution *x)
{
    const struct hf_slice *name =
        hf__condition_find_name(x->op->filter, is_key_name, &x->table.schema);
    if (!name) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "Filter Expression can only contain non-primary key attributes: Primary "
                         "key attribute: %.*s",
                         HF_FMT(*name));
}

/* Goes on behind the start key, which must lie in the range that is asked for. */
static int narrow(struct execution *x, struct hf_slice pk, struct range *range)
{
    struct columns start;
    if (x->op->start_key.count == 0) return 0;
    int code = columns_of(x, x->op->start_key, &start);
    if (code != 0) return code;
    bool inside = hf__slice_eq(start.pk, pk) && hf__slice_cmp(start.sk, range->lo) >= 0 &&
                  hf__slice_cmp(start.sk, range->hi) < 0;
    if (!inside)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "The provided starting key does not match the range key predicate");
    if (x->op->backward) range->hi = start.sk;
    else range->lo = just_above(x, start.sk);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static int query(struct execution *x)
{
    const struct hf_value *hash;
    const struct hf_key_test *test;
    enum hf_statement direction = x->op->backward ? HF_SQL_QUERY_DOWN : HF_SQL_QUERY_UP;
    int code = hf__key_condition_bind(x->op->where, &x->table.schema, &hash, &test, x->error);
    if (code == 0) code = check_start_key(x);
    if (code == 0) code = check_filter(x);
    if (code != 0) return code;
    struct range range = range_of(x, test);
    struct hf_slice pk = sortable(x, hash);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    code = narrow(x, pk, &range);
    if (code != 0) return code;
    sqlite3_stmt *row = hf__database_prepare(x->db, direction, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    hf__bind_blob(row, 2, pk);
    hf__bind_blob(row, 3, range.lo);
    hf__bind_blob(row, 4, range.hi);
    code = collect(x, row);
    sqlite3_reset(row);
    return code;
}

static int scan(struct execution *x)
{
    struct columns start = {0};
    int code = check_start_key(x);
    if (code == 0 && x->op->start_key.count > 0) code = columns_of(x, x->op->start_key, &start);
    if (code != 0) return code;
    sqlite3_stmt *row = prepare_keyed(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    code = collect(x, row);
    sqlite3_reset(row);
    return code;
}

/* ---- TTL ---- */

/* Computes `expires` of all items anew, for a TTL attribute that was just named. */
static int fill_expiry(struct execution *x)
{
    struct columns start = {0};
    sqlite3_stmt *row = prepare_keyed(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    int result, code = 0;
    struct hf_arena *arena = x->arena, scratch = {0};
    x->arena = &scratch; /* a table may have more items than fit an answer */
    while (code == 0 && (result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        int64_t expires;
        code = item_of_row(x, row, &item);
        struct columns key = {hf__arena_copy(&scratch, hf__column(row, 1)),
                              hf__arena_copy(&scratch, hf__column(row, 2))};
        if (code == 0 && scratch.failed) code = hf__error_no_memory(x->error);
        sqlite3_stmt *set = code == 0 ? prepare_keyed(x, HF_SQL_EXPIRY_SET, &key) : NULL;
        if (set) {
            if (expiry_of(x, item, &expires)) sqlite3_bind_int64(set, 4, expires);
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

static int describe_ttl(struct execution *x)
{
    bool enabled = x->table.ttl_attribute.len > 0;
    x->answer->ttl_status = enabled ? HF_LIT("ENABLED") : HF_LIT("DISABLED");
    x->answer->ttl_attribute = hf__arena_copy(x->arena, x->table.ttl_attribute);
    return 0;
}

static int update_ttl(struct execution *x)
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
    describe_ttl(x);
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

/* ---- all of them ---- */

static int describe_active(struct execution *x)
{
    return describe(x, "ACTIVE");
}

static int (*const executors[HF_OP_KINDS])(struct execution *x) = {
    [HF_GET_ITEM] = get_item,
    [HF_PUT_ITEM] = put_item,
    [HF_UPDATE_ITEM] = update_item,
    [HF_DELETE_ITEM] = delete_item,
    [HF_QUERY] = query,
    [HF_SCAN] = scan,
    [HF_CREATE_TABLE] = create_table,
    [HF_DESCRIBE_TABLE] = describe_active,
    [HF_DELETE_TABLE] = delete_table,
    [HF_LIST_TABLES] = list_tables,
    [HF_UPDATE_TTL] = update_ttl,
    [HF_DESCRIBE_TTL] = describe_ttl,
};

/* Changes of a table take several statements: all of them or none. */
static int execute_whole(struct execution *x)
{
    int code = hf__database_run(x->db, HF_SQL_SAVEPOINT, x->error);
    if (code != 0) return code;
    code = executors[x->op->kind](x);
    if (code == 0 && x->arena->failed) code = hf__error_no_memory(x->error);
    hf__database_forget(x->db);
    if (sqlite3_get_autocommit(x->db->handle)) return code; /* SQLite undid the whole transaction */
    struct hf_error error;
    int undone = code == 0 ? 0 : hf__database_run(x->db, HF_SQL_ROLLBACK_TO, &error);
    int released = hf__database_run(x->db, HF_SQL_RELEASE, &error);
    if (undone != 0 || released != 0) hf__database_rollback(x->db); /* the batch fails as a whole */
    return code == 0 && released != 0 ? hf__error_set(x->error, released, "%s", error.message)
                                      : code;
}

void hf__execute(struct hf_database *db, const struct hf_op *op, struct hf_arena *arena,
                 int64_t now_unix_us, struct hf_answer *answer)
{
    struct execution x = {.db = db,
                          .op = op,
                          .arena = arena,
                          .answer = answer,
                          .error = &answer->error,
                          .now_unix_us = now_unix_us};
    bool needs_table = op->kind != HF_CREATE_TABLE && op->kind != HF_LIST_TABLES;
    bool changes_tables =
        op->kind == HF_CREATE_TABLE || op->kind == HF_DELETE_TABLE || op->kind == HF_UPDATE_TTL;
    answer->error.code = 0;
    int code = arena->failed ? hf__error_no_memory(x.error) : hf__op_check(op, x.error); /* S5 */
    if (code == 0 && needs_table) code = find_table(&x);
    if (code == 0) code = changes_tables ? execute_whole(&x) : executors[op->kind](&x);
    if (code == 0 && arena->failed && !hf__op_is_write(op)) code = hf__error_no_memory(x.error);
    answer->code = code;
}
