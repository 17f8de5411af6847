/*
 * Operations on the embedded engine. Input: lines of an operation's name and its body, such as
 * "PutItem {…}". There is a table "tab" with a global and a local index to begin with.
 *
 * After each operation every index has an entry for each item that has its keys, and no other; an
 * operation that fails has changed nothing; and a write sees what a read sees.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "store/execute.h"
#include "wire/request.h"

enum { OPERATIONS_MOST = 12 };

static const char create[] =
    "{\"TableName\":\"tab\",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":["
    "{\"AttributeName\":\"k\",\"AttributeType\":\"S\"},{\"AttributeName\":\"r\",\"AttributeType\":"
    "\"N\"},{\"AttributeName\":\"g\",\"AttributeType\":\"S\"},{\"AttributeName\":\"l\","
    "\"AttributeType\":\"B\"}],\"KeySchema\":[{\"AttributeName\":\"k\",\"KeyType\":\"HASH\"},{"
    "\"AttributeName\":\"r\",\"KeyType\":\"RANGE\"}],\"GlobalSecondaryIndexes\":[{\"IndexName\":"
    "\"by-g\",\"KeySchema\":[{\"AttributeName\":\"g\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"r\","
    "\"KeyType\":\"RANGE\"}],\"Projection\":{\"ProjectionType\":\"KEYS_ONLY\"}}],"
    "\"LocalSecondaryIndexes\":[{\"IndexName\":\"by-l\",\"KeySchema\":[{\"AttributeName\":\"k\","
    "\"KeyType\":\"HASH\"},{\"AttributeName\":\"l\",\"KeyType\":\"RANGE\"}],\"Projection\":{"
    "\"ProjectionType\":\"ALL\"}}]}";

static struct hf_database db;

/* In a transaction, which an operation that only reads has, too. */
static void execute(struct hf_arena *arena, const struct hf_op *op, struct hf_answer *ret)
{
    static int64_t now_unix_us = 1700000000000000;
    *ret = (struct hf_answer){0};
    MUST(hf__database_begin_write(&db, NULL) == 0);
    hf__database_forget(&db);
    hf__execute(&db, op, arena, now_unix_us += 1000, ret);
    MUST(hf__database_commit(&db, NULL) == 0);
}

static int64_t ask(const char *sql)
{
    sqlite3_stmt *row = NULL;
    MUST(sqlite3_prepare_v2(db.handle, sql, -1, &row, NULL) == SQLITE_OK);
    MUST(sqlite3_step(row) == SQLITE_ROW);
    int64_t value = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return value;
}

/* How many entries the indexes of a table should have. */
static int64_t entries_of(struct hf_arena *arena, struct hf_slice table)
{
    struct hf_op describe = {.kind = HF_DESCRIBE_TABLE, .table = table};
    struct hf_op scan = {.kind = HF_SCAN, .table = table};
    struct hf_answer described, scanned;
    int64_t count = 0;
    execute(arena, &describe, &described);
    execute(arena, &scan, &scanned);
    MUST(described.code == 0 && scanned.code == 0 && scanned.last_key.count == 0);
    for (size_t i = 0; i < described.table.indexes.count; i++) {
        const struct hf_index *index = &described.table.indexes.at[i];
        struct hf_op look = {.kind = HF_SCAN, .table = table, .index = index->name};
        struct hf_answer seen;
        int64_t in_index = 0;
        MUST(!index->filling);
        for (size_t j = 0; j < scanned.count; j++)
            in_index += hf__index_has(index, scanned.items[j]) &&
                        hf__index_check_item(index, scanned.items[j], NULL) == 0;
        execute(arena, &look, &seen);
        MUST(seen.code == 0 && (int64_t)seen.count == in_index);
        count += in_index;
    }
    return count;
}

static void check_indexes(struct hf_arena *arena)
{
    struct hf_op list = {.kind = HF_LIST_TABLES};
    struct hf_answer tables;
    int64_t wanted = 0;
    execute(arena, &list, &tables);
    MUST(tables.code == 0);
    for (size_t i = 0; i < tables.table_count; i++) wanted += entries_of(arena, tables.tables[i]);
    MUST(ask("SELECT count(*) FROM entries") == wanted);
    MUST(ask("SELECT count(*) FROM chores") == 0);
}

/* The engine remembers what it has written (recall.h). */
static void check_memory(struct hf_arena *arena, struct hf_slice table, struct hf_item item)
{
    static const struct hf_key_schema schema = {
        .hash_name = {"k", 1}, .hash_type = HF_S, .range_name = {"r", 1}, .range_type = HF_N};
    struct hf_op get = {.kind = HF_GET_ITEM, .table = table};
    struct hf_op check = {.kind = HF_CONDITION_CHECK, .table = table, .old_on_failure = true};
    struct hf_answer stored, seen;
    if (hf__key_check_item(&schema, item, NULL) != 0) return; /* of another table */
    check.key = get.key = hf__key_of(arena, &schema, item);
    check.condition = hf__cond_absent(arena, "k");
    execute(arena, &get, &stored);
    execute(arena, &check, &seen);
    if (stored.code != 0) return; /* such a key does not fit the table any more */
    MUST(seen.code == (stored.has_item ? HF_ERR_CONDITION : 0));
    if (stored.has_item) MUST(seen.has_item && hf__item_equal(stored.item, seen.item));
}

static void check_what_is_written(struct hf_arena *arena, const struct hf_op *op)
{
    if (op->kind == HF_PUT_ITEM) check_memory(arena, op->table, op->item);
    if (op->kind == HF_UPDATE_ITEM || op->kind == HF_DELETE_ITEM)
        check_memory(arena, op->table, op->key);
    for (size_t i = 0; i < op->part_count; i++) check_what_is_written(arena, &op->parts[i]);
}

static bool find_kind(struct hf_slice name, enum hf_op_kind *ret)
{
    char target[64];
    int len = snprintf(target, sizeof target, "DynamoDB_20120810.%.*s", HF_FMT(name));
    return len < (int)sizeof target && hf__request_kind(hf__slice_str(target), ret);
}

static void run_line(struct hf_slice line)
{
    struct hf_arena arena = {0};
    struct hf_op op;
    struct hf_answer answer;
    struct hf_error error;
    enum hf_op_kind kind;
    const char *space = memchr(line.ptr, ' ', line.len);
    if (!space || !find_kind(hf__slice(line.ptr, (size_t)(space - line.ptr)), &kind)) return;
    struct hf_slice body = hf__slice_skip(line, (size_t)(space - line.ptr) + 1);
    if (hf__request_read(&arena, kind, body, &op, &error) == 0) {
        int64_t before = sqlite3_total_changes64(db.handle);
        int64_t items = ask("SELECT total(length(item)) + count(*) FROM items");
        execute(&arena, &op, &answer);
        MUST(answer.code == 0 || answer.error.code == answer.code);
        if (answer.code != 0)
            MUST(ask("SELECT total(length(item)) + count(*) FROM items") == items);
        if (!hf__op_is_write(&op)) MUST(sqlite3_total_changes64(db.handle) == before);
        check_indexes(&arena);
        check_what_is_written(&arena, &op);
    }
    hf__arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice rest = hf__slice((const char *)data, size);
    char first[sizeof create + 16];
    int len = snprintf(first, sizeof first, "CreateTable %s", create);
    MUST(hf__database_open(&db, NULL, &hf__clock_system, 1000, NULL) == 0);
    run_line(hf__slice(first, (size_t)len));
    MUST(ask("SELECT count(*) FROM tables") == 1);
    for (int i = 0; i < OPERATIONS_MOST && rest.len > 0; i++) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t length = end ? (size_t)(end - rest.ptr) : rest.len;
        run_line(hf__slice(rest.ptr, length));
        rest = hf__slice_skip(rest, end ? length + 1 : length);
    }
    hf__database_close(&db);
    return 0;
}
