/* Tables: their keys, indexes, units and tags. */
#include <stdio.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/random.h"
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
    bool of_items = x->op->kind <= HF_SCAN || x->op->kind == HF_CONDITION_CHECK;
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
        .read_units = sqlite3_column_int64(row, 6),
        .write_units = sqlite3_column_int64(row, 7),
        .ttl_attribute = hf__arena_copy(memory, hf__column(row, 8)),
        .created_unix_ms = sqlite3_column_int64(row, 9),
    };
    struct hf_slice spec = hf__arena_copy(memory, hf__column(row, 10));
    sqlite3_reset(row);
    if (memory->failed) return hf__error_no_memory(x->error);
    struct hf_error why;
    int code = hf__table_spec_read(memory, spec, &table->spec, &why);
    if (code == 0 || code == HF_ERR_NO_MEMORY) return code == 0 ? 0 : hf__error_no_memory(x->error);
    return hf__error_set(x->error, HF_ERR_DAMAGED, "%s: table %.*s cannot be read: %s", x->db->name,
                         HF_FMT(table->name), why.message);
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

/* ---- describing ---- */

/* The same for as long as the table lives, and another for its successor of the same name. */
static struct hf_slice table_id(struct hf_execution *x)
{
    unsigned char bytes[16];
    char text[HF_UUID_SIZE];
    uint64_t hash = hf__hash_more(HF_HASH_START, x->table.name);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(hash >> (8 * i));
        bytes[8 + i] = (unsigned char)((uint64_t)x->table.created_unix_ms >> (8 * i));
    }
    bytes[15] = (unsigned char)x->table.id;
    hf__uuid4_from(bytes, text);
    return hf__arena_copy(x->arena, hf__slice_str(text));
}

static int count_rows(struct hf_execution *x, enum hf_statement which, int64_t slot,
                      int64_t *ret_count, int64_t *ret_size)
{
    enum { WHILE_WRITING = 1000 };
    int64_t most = x->op->kind == HF_DESCRIBE_TABLE ? INT64_MAX : WHILE_WRITING;
    sqlite3_stmt *count = hf__database_prepare(x->db, which, x->error);
    if (!count) return x->error->code;
    sqlite3_bind_int64(count, 1, x->table.id);
    if (which != HF_SQL_TABLE_COUNT) sqlite3_bind_int64(count, 2, most);
    if (which == HF_SQL_ENTRY_COUNT) sqlite3_bind_int64(count, 3, slot);
    if (sqlite3_step(count) != SQLITE_ROW) return hf__database_error(x->db, "read", x->error);
    *ret_count = sqlite3_column_int64(count, 0);
    if (ret_size) *ret_size = sqlite3_column_int64(count, 1);
    sqlite3_reset(count);
    if (*ret_count == most) *ret_count = -1;
    return 0;
}

static struct hf_key_schema copy_key(struct hf_execution *x, struct hf_key_schema schema)
{
    schema.hash_name = hf__arena_copy(x->arena, schema.hash_name);
    if (hf__schema_has_range(&schema))
        schema.range_name = hf__arena_copy(x->arena, schema.range_name);
    return schema;
}

struct hf_key_schema hf__x_copy_schema(struct hf_execution *x)
{
    return copy_key(x, x->table.schema);
}

static struct hf_indexes copy_indexes(struct hf_execution *x, struct hf_indexes indexes)
{
    struct hf_index *copies = hf__arena_zalloc(x->arena, indexes.count + 1, sizeof *copies);
    for (size_t i = 0; copies && i < indexes.count; i++) {
        copies[i] = indexes.at[i];
        copies[i].name = hf__arena_copy(x->arena, copies[i].name);
        copies[i].schema = copy_key(x, copies[i].schema);
        struct hf_slice *included =
            hf__arena_zalloc(x->arena, copies[i].included_count + 1, sizeof *included);
        for (size_t j = 0; included && j < copies[i].included_count; j++)
            included[j] = hf__arena_copy(x->arena, indexes.at[i].included[j]);
        copies[i].included = included;
    }
    return (struct hf_indexes){copies, copies ? indexes.count : 0};
}

/* A write must not take long: what would is not told. */
static int describe(struct hf_execution *x, const char *status)
{
    bool whole = x->op->kind == HF_DESCRIBE_TABLE;
    const struct hf_table *table = &x->table;
    size_t index_count = table->spec.indexes.count;
    int64_t *counts = hf__arena_zalloc(x->arena, index_count + 1, sizeof *counts);
    int64_t count, size;
    if (!counts) return hf__error_no_memory(x->error);
    int code =
        count_rows(x, whole ? HF_SQL_TABLE_COUNT : HF_SQL_TABLE_COUNT_SOME, 0, &count, &size);
    if (count == 0) size = 0;
    for (size_t i = 0; i < index_count && code == 0 && count >= 0; i++)
        code = count_rows(x, HF_SQL_ENTRY_COUNT, table->spec.indexes.at[i].slot, &counts[i], NULL);
    if (code != 0) return code;
    x->answer->table = (struct hf_table_info){
        .name = hf__arena_copy(x->arena, table->name),
        .status = hf__slice_str(status),
        .schema = hf__x_copy_schema(x),
        .item_count = count,
        .size_bytes = size,
        .on_demand = table->on_demand,
        .read_units = table->read_units,
        .write_units = table->write_units,
        .created_unix_ms = table->created_unix_ms,
        .indexes = copy_indexes(x, table->spec.indexes),
        .index_counts = count >= 0 ? counts : NULL,
        .is_protected = table->spec.is_protected,
        .id = table_id(x),
    };
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

int hf__x_describe_table(struct hf_execution *x)
{
    return describe(x, "ACTIVE");
}

/* ---- creating and deleting ---- */

static int write_spec(struct hf_execution *x, sqlite3_stmt *statement, int column,
                      const struct hf_table_spec *spec, const struct hf_key_schema *schema)
{
    enum { LONGEST = 1024 * 1024 };
    struct hf_buf text;
    hf__buf_init(&text, LONGEST);
    hf__table_spec_write(spec, schema, &text);
    int code = text.failed ? hf__error_no_memory(x->error) : 0;
    if (code == 0) {
        hf__bind_text(statement, column, hf__buf_view(&text));
        code = hf__database_step(x->db, statement, x->error);
    }
    hf__buf_free(&text);
    return code;
}

/* The indexes that the operation asks for, each with a slot. */
static struct hf_table_spec spec_of(struct hf_execution *x)
{
    const struct hf_table_wishes *wishes = x->op->wishes;
    struct hf_table_spec spec = {0};
    if (!wishes) return spec;
    struct hf_index *indexes =
        hf__arena_zalloc(x->arena, wishes->indexes.count + 1, sizeof *indexes);
    for (size_t i = 0; indexes && i < wishes->indexes.count; i++) {
        indexes[i] = wishes->indexes.at[i];
        indexes[i].slot = (int64_t)i;
        indexes[i].filling = false;
    }
    spec.indexes = (struct hf_indexes){indexes, indexes ? wishes->indexes.count : 0};
    spec.is_protected = wishes->has_protection && wishes->protection;
    spec.tags = wishes->tags;
    return spec;
}

int hf__x_create_table(struct hf_execution *x)
{
    const struct hf_op *op = x->op;
    int code = hf__x_find_table(x);
    if (code == 0)
        return hf__error_set(x->error, HF_ERR_TABLE_IN_USE, "Table already exists: %.*s",
                             HF_FMT(op->table));
    if (code != HF_ERR_NO_TABLE) return code;
    struct hf_table_spec spec = spec_of(x);
    if (x->arena->failed) return hf__error_no_memory(x->error);
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
    code = write_spec(x, insert, 9, &spec, &op->schema);
    if (code == 0) code = hf__x_find_table(x);
    return code == 0 ? describe(x, "ACTIVE") : code;
}

int hf__x_delete_table(struct hf_execution *x)
{
    if (x->table.spec.is_protected)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "Resource cannot be deleted as it is currently protected against "
                             "deletion. Disable deletion protection first.");
    int code = describe(x, "DELETING");
    sqlite3_stmt *erase =
        code == 0 ? hf__database_prepare(x->db, HF_SQL_TABLE_DELETE, x->error) : NULL;
    if (!erase) return x->error->code;
    sqlite3_bind_int64(erase, 1, x->table.id);
    code = hf__database_step(x->db, erase, x->error);
    bool more;
    return code == 0 ? hf__x_begin_chore(x, HF_CHORE_DROP, -1, &more) : code;
}

/* ---- changing ---- */

static int save_spec(struct hf_execution *x)
{
    sqlite3_stmt *set = hf__database_prepare(x->db, HF_SQL_SPEC_SET, x->error);
    if (!set) return x->error->code;
    sqlite3_bind_int64(set, 1, x->table.id);
    return write_spec(x, set, 2, &x->table.spec, &x->table.schema);
}

static int create_index(struct hf_execution *x, struct hf_index *indexes, size_t *count,
                        const struct hf_index *wanted)
{
    struct hf_index index = *wanted;
    int code = hf__x_first_slot(x, &index.slot);
    if (code != 0) return code;
    for (size_t i = 0; i < *count; i++) {
        if (hf__slice_eq(indexes[i].name, index.name))
            return hf__error_set(x->error, HF_ERR_VALIDATION,
                                 "Attempting to create an index which already exists");
        if (indexes[i].slot >= index.slot) index.slot = indexes[i].slot + 1;
    }
    index.filling = false;
    indexes[(*count)++] = index;
    x->table.spec.indexes = (struct hf_indexes){indexes, *count};
    code = hf__indexes_check(x->table.spec.indexes, &x->table.schema, x->table.on_demand, x->error);
    if (code != 0) return code;
    return hf__x_begin_chore(x, HF_CHORE_FILL, index.slot, &indexes[*count - 1].filling);
}

static int change_index(struct hf_execution *x, struct hf_index *indexes, size_t *count,
                        const struct hf_index_change *change)
{
    size_t i = 0;
    if (change->kind == HF_INDEX_CREATE) return create_index(x, indexes, count, &change->index);
    while (i < *count && !(indexes[i].global && hf__slice_eq(indexes[i].name, change->index.name)))
        i++;
    if (i == *count)
        return hf__error_set(x->error, HF_ERR_NO_TABLE, "Requested resource not found");
    if (change->kind == HF_INDEX_UPDATE) {
        indexes[i].read_units = change->index.read_units;
        indexes[i].write_units = change->index.write_units;
        return 0;
    }
    bool more;
    int code = hf__x_begin_chore(x, HF_CHORE_EMPTY, indexes[i].slot, &more);
    for (; i + 1 < *count; i++) indexes[i] = indexes[i + 1];
    --*count;
    return code;
}

int hf__x_index_is_filled(struct hf_execution *x, int64_t slot)
{
    struct hf_indexes old = x->table.spec.indexes;
    struct hf_index *indexes = hf__arena_zalloc(x->arena, old.count + 1, sizeof *indexes);
    if (!indexes) return hf__error_no_memory(x->error);
    for (size_t i = 0; i < old.count; i++) {
        indexes[i] = old.at[i];
        if (indexes[i].slot == slot) indexes[i].filling = false;
    }
    x->table.spec.indexes.at = indexes;
    return save_spec(x);
}

static int change_units(struct hf_execution *x)
{
    const struct hf_op *op = x->op;
    bool on_demand = op->read_units == 0 && op->write_units == 0;
    if (x->table.on_demand && op->wishes->keeps_mode)
        return hf__error_set(
            x->error, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor "
            "WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST");
    if (!on_demand && x->table.read_units == op->read_units &&
        x->table.write_units == op->write_units && op->wishes->change_count == 0 &&
        !op->wishes->has_protection)
        return hf__error_set(
            x->error, HF_ERR_VALIDATION,
            "The provisioned throughput for the table will not change. The requested value equals "
            "the current value. Current ReadCapacityUnits provisioned for the table: %lld. "
            "Requested ReadCapacityUnits: %lld. Current WriteCapacityUnits provisioned for the "
            "table: %lld. Requested WriteCapacityUnits: %lld. Refer to the Amazon DynamoDB "
            "Developer Guide for current limits and how to request higher limits.",
            (long long)x->table.read_units, (long long)op->read_units,
            (long long)x->table.write_units, (long long)op->write_units);
    sqlite3_stmt *set = hf__database_prepare(x->db, HF_SQL_UNITS_SET, x->error);
    if (!set) return x->error->code;
    sqlite3_bind_int64(set, 1, x->table.id);
    sqlite3_bind_int64(set, 2, op->read_units);
    sqlite3_bind_int64(set, 3, op->write_units);
    x->table.on_demand = on_demand;
    return hf__database_step(x->db, set, x->error);
}

int hf__x_update_table(struct hf_execution *x)
{
    const struct hf_table_wishes *wishes = x->op->wishes;
    struct hf_indexes old = x->table.spec.indexes;
    size_t count = old.count;
    struct hf_index *indexes =
        hf__arena_zalloc(x->arena, count + wishes->change_count + 1, sizeof *indexes);
    if (!indexes) return hf__error_no_memory(x->error);
    for (size_t i = 0; i < count; i++) indexes[i] = old.at[i];
    int code = wishes->has_billing ? change_units(x) : 0;
    for (size_t i = 0; i < count && wishes->has_billing && x->table.on_demand; i++)
        indexes[i].read_units = indexes[i].write_units = 0;
    for (size_t i = 0; i < wishes->change_count && code == 0; i++)
        code = change_index(x, indexes, &count, &wishes->changes[i]);
    x->table.spec.indexes = (struct hf_indexes){indexes, count};
    if (wishes->has_protection) x->table.spec.is_protected = wishes->protection;
    if (code == 0) code = save_spec(x);
    if (code != 0) return code;
    hf__database_forget(x->db);
    code = hf__x_find_table(x);
    return code == 0 ? describe(x, "ACTIVE") : code;
}

/* ---- tags ---- */

int hf__x_tag(struct hf_execution *x)
{
    enum { MOST = 50 };
    struct hf_item tags = x->op->wishes->tags;
    for (size_t i = 0; i < tags.count; i++)
        x->table.spec.tags =
            hf__item_with(x->arena, x->table.spec.tags, tags.attrs[i].name, &tags.attrs[i].value);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    if (x->table.spec.tags.count > MOST)
        return hf__error_set(x->error, HF_ERR_LIMIT, "a table may have at most %d tags", MOST);
    int code = save_spec(x);
    hf__database_forget(x->db);
    return code;
}

int hf__x_untag(struct hf_execution *x)
{
    const struct hf_table_wishes *wishes = x->op->wishes;
    for (size_t i = 0; i < wishes->tag_key_count; i++)
        x->table.spec.tags = hf__item_with(x->arena, x->table.spec.tags, wishes->tag_keys[i], NULL);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    int code = save_spec(x);
    hf__database_forget(x->db);
    return code;
}

int hf__x_list_tags(struct hf_execution *x)
{
    x->answer->tags = hf__item_copy(x->arena, x->table.spec.tags);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

/* ---- listing ---- */

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
