/* What the embedded engine remembers of items is what SQLite has stored: a write sees what a read sees. */
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/model.h"
#include "store/execute.h"
#include "store/recall.h"
#include "store/store.h"

static char path[512];
static struct hf_arena arena;

static struct hf_store *open_file(const char *name, const struct hf_store_options *options)
{
    char url[600];
    struct hf_store *store = NULL;
    snprintf(path, sizeof path, "%s/%s", hf_test_directory(), name);
    snprintf(url, sizeof url, "file:%s", path);
    CHECK_INT(hf__store_open(url, options, &store, NULL), 0);
    return store;
}

static int run(struct hf_store *store, struct hf_op op)
{
    struct hf_call call = {.op = op, .arena = &arena};
    hf__store_run(store, &call);
    return call.answer.code;
}

static struct hf_op op_of(enum hf_op_kind kind)
{
    return (struct hf_op){.kind = kind, .table = HF_LIT("locks")};
}

static void create_table(struct hf_store *store)
{
    struct hf_op op = op_of(HF_CREATE_TABLE);
    op.schema = (struct hf_key_schema){.hash_name = HF_LIT("key"), .hash_type = HF_S};
    CHECK_INT(run(store, op), 0);
}

static struct hf_op put(const char *json)
{
    struct hf_op op = op_of(HF_PUT_ITEM);
    op.item = hf_test_item(&arena, json);
    return op;
}

static struct hf_op on_key(enum hf_op_kind kind)
{
    struct hf_op op = op_of(kind);
    op.key = hf_test_item(&arena, "{\"key\":{\"S\":\"job\"}}");
    return op;
}

static struct hf_op set_n(int64_t n)
{
    struct hf_op op = on_key(HF_UPDATE_ITEM);
    struct hf_update *set = hf__arena_zalloc(&arena, 1, sizeof *set);
    hf__update_set(&arena, set, "n", hf__n(&arena, n));
    op.update = set;
    return op;
}

/* Whether a conditional write sees this; -1: no item. */
static bool a_write_sees(struct hf_store *store, int64_t n)
{
    struct hf_op check = on_key(HF_CONDITION_CHECK);
    struct hf_op both = {.kind = HF_TRANSACT_WRITE, .parts = &check, .part_count = 1};
    check.condition = n < 0 ? hf__cond_absent(&arena, "key")
                            : hf__cond_compare(&arena, "n", HF_EQ, hf__n(&arena, n));
    return run(store, both) == 0;
}

TEST(a_write_sees_what_another_process_has_written)
{
    struct hf_store *ours = open_file("two.db", NULL), *theirs = open_file("two.db", NULL);
    create_table(ours);
    for (int64_t i = 1; i < 50; i++) {
        CHECK_INT(run(ours, set_n(i * 10)), 0);
        CHECK(a_write_sees(ours, i * 10));
        CHECK_INT(run(theirs, set_n(i * 10 + 1)), 0);
        CHECK(!a_write_sees(ours, i * 10));
        CHECK(a_write_sees(ours, i * 10 + 1));
        CHECK_INT(run(ours, set_n(i * 10 + 2)), 0);
        CHECK_INT(run(theirs, on_key(HF_DELETE_ITEM)), 0);
        CHECK(a_write_sees(ours, -1));
        CHECK(a_write_sees(theirs, -1));
    }
    hf__store_close(theirs);
    hf__store_close(ours);
    hf__arena_free(&arena);
}

static void change_by_hand(const char *sql)
{
    sqlite3 *db;
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    CHECK_INT(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

TEST(a_write_sees_what_an_operator_has_changed)
{
    struct hf_store *store = open_file("hand.db", NULL);
    create_table(store);
    CHECK_INT(run(store, set_n(1)), 0);
    change_by_hand("UPDATE items SET item = '{\"key\":{\"S\":\"job\"},\"n\":{\"N\":\"2\"}}'");
    CHECK(a_write_sees(store, 2));
    CHECK_INT(run(store, set_n(3)), 0);
    change_by_hand("DELETE FROM items");
    CHECK(a_write_sees(store, -1));
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_write_sees_nothing_of_what_was_undone)
{
    struct hf_store *store = open_file("undone.db", NULL);
    create_table(store);
    CHECK_INT(run(store, set_n(1)), 0);
    struct hf_op parts[2] = {set_n(2), on_key(HF_CONDITION_CHECK)};
    parts[1].key = hf_test_item(&arena, "{\"key\":{\"S\":\"other\"}}");
    parts[1].condition = hf__cond_exists(&arena, "key");
    struct hf_op both = {.kind = HF_TRANSACT_WRITE, .parts = parts, .part_count = 2};
    CHECK_INT(run(store, both), HF_ERR_TRANSACTION);
    CHECK(a_write_sees(store, 1));
    parts[0] = on_key(HF_DELETE_ITEM);
    CHECK_INT(run(store, both), HF_ERR_TRANSACTION);
    CHECK(a_write_sees(store, 1));
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_write_sees_nothing_of_what_could_not_be_committed)
{
    struct hf_store *store = open_file("failed.db", NULL);
    struct rlimit limit, low;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    create_table(store);
    for (int64_t n = 1; n < 20; n++) {
        CHECK_INT(run(store, set_n(n)), 0);
        low = limit;
        low.rlim_cur = 4096; /* the log cannot be written */
        CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
        CHECK(run(store, set_n(-7)) != 0);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK(a_write_sees(store, n));
    }
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_write_does_not_see_what_was_deleted)
{
    struct hf_store *store = open_file("deleted.db", NULL);
    create_table(store);
    CHECK_INT(run(store, set_n(1)), 0);
    CHECK_INT(run(store, on_key(HF_DELETE_ITEM)), 0);
    CHECK(a_write_sees(store, -1));
    CHECK_INT(run(store, set_n(2)), 0);
    CHECK_INT(run(store, op_of(HF_DELETE_TABLE)), 0);
    create_table(store);
    CHECK(a_write_sees(store, -1));
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_write_does_not_see_what_has_expired)
{
    struct hf_store_options options = {.sweep_period_ms = 5};
    struct hf_store *store = open_file("expired.db", &options);
    create_table(store);
    struct hf_op ttl = op_of(HF_UPDATE_TTL);
    ttl.ttl_enabled = true;
    ttl.ttl_attribute = HF_LIT("ttl");
    CHECK_INT(run(store, ttl), 0);
    for (int i = 0; i < 3; i++) {
        char item[100];
        snprintf(item, sizeof item, "{\"key\":{\"S\":\"job\"},\"ttl\":{\"N\":\"%lld\"}}",
                 (long long)(hf__clock_wall_us(&hf__clock_system) / 1000000 - 10));
        CHECK_INT(run(store, put(item)), 0);
        struct hf_call get = {.op = on_key(HF_GET_ITEM), .arena = &arena};
        for (int tries = 0; tries < 2000; tries++) {
            hf__store_run(store, &get);
            CHECK_INT(get.answer.code, 0);
            if (!get.answer.has_item) break;
            usleep(2000);
        }
        CHECK(!get.answer.has_item && a_write_sees(store, -1));
    }
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* ---- without a store ---- */

static int execute(struct hf_database *db, const struct hf_op *op)
{
    struct hf_answer answer = {0};
    hf__database_forget(db);
    hf__execute(db, op, &arena, 1700000000000000, &answer);
    return answer.code;
}

/* Its error is better than a write that is lost. */
TEST(a_write_of_what_is_remembered_wrongly_is_an_error)
{
    struct hf_database db;
    struct hf_op create = op_of(HF_CREATE_TABLE), set = set_n(1), delete = on_key(HF_DELETE_ITEM);
    create.schema = (struct hf_key_schema){.hash_name = HF_LIT("key"), .hash_type = HF_S};
    CHECK_INT(hf__database_open(&db, NULL, &hf__clock_system, 1000, NULL), 0);
    CHECK_INT(hf__database_begin_write(&db, NULL), 0);
    CHECK_INT(execute(&db, &create), 0);
    for (int i = 0; i < 2; i++) {
        const struct hf_op *next = i == 0 ? &set : &delete;
        CHECK_INT(execute(&db, &set), 0);
        CHECK(sqlite3_exec(db.handle, "DELETE FROM items", NULL, NULL, NULL) == SQLITE_OK);
        CHECK_INT(execute(&db, next), HF_ERR_DAMAGED);
        CHECK_INT(execute(&db, next), 0); /* it has forgotten */
    }
    CHECK_INT(hf__database_commit(&db, NULL), 0);
    hf__database_close(&db);
    hf__arena_free(&arena);
}

/* ---- by itself ---- */

static const struct hf_recall_key place = {.table_id = 1, .pk = {"job", 3}};

static bool finds(struct hf_recall *recall, const struct hf_recall_key *key)
{
    struct hf_item item;
    size_t json_len;
    return hf__recall_find(recall, key, &arena, &item, &json_len);
}

TEST(it_remembers_items_of_the_last_committed_transaction)
{
    struct hf_recall *recall = hf__recall_new();
    struct hf_item item =
        hf_test_item(&arena, "{\"key\":{\"S\":\"job\"},\"set\":{\"NS\":[\"1\",\"2\"]}}");
    struct hf_item found;
    size_t json_len;
    hf__recall_begin(recall, 7);
    CHECK(!finds(recall, &place));
    hf__recall_keep(recall, &place, item, 50);
    CHECK(finds(recall, &place)); /* for the rest of the transaction, and … */
    hf__recall_commit(recall, 8);
    hf__recall_begin(recall, 8);
    CHECK(hf__recall_find(recall, &place, &arena, &found, &json_len)); /* … after it */
    CHECK(hf__item_equal(found, item));
    CHECK_INT((int64_t)json_len, 50);
    hf__recall_begin(recall, 8); /* the one before was not committed */
    CHECK(!finds(recall, &place));
    hf__recall_keep(recall, &place, item, 50);
    hf__recall_commit(recall, 9);
    hf__recall_begin(recall, 10); /* somebody else has written */
    CHECK(!finds(recall, &place));
    hf__recall_free(recall);
    hf__arena_free(&arena);
}

TEST(it_tells_items_apart)
{
    struct hf_recall *recall = hf__recall_new();
    const struct hf_recall_key others[] = {{.table_id = 2, .pk = {"job", 3}},
                                           {.table_id = 1, .pk = {"jo", 2}, .sk = {"b", 1}},
                                           {.table_id = 1, .pk = {"job", 3}, .sk = {"x", 1}}};
    struct hf_item item = hf_test_item(&arena, "{\"key\":{\"S\":\"job\"}}");
    hf__recall_keep(recall, &place, item, 20);
    for (size_t i = 0; i < 3; i++) CHECK(!finds(recall, &others[i]));
    for (int64_t i = 0; i < 5000; i++) { /* more than there is room for */
        struct hf_recall_key key = {.table_id = i, .pk = {"job", 3}};
        struct hf_value n = hf__n(&arena, i);
        hf__recall_keep(recall, &key, hf__item_with(&arena, item, HF_LIT("n"), &n), 20);
    }
    int known = 0;
    for (int64_t i = 0; i < 5000; i++) {
        struct hf_recall_key key = {.table_id = i, .pk = {"job", 3}};
        struct hf_item found;
        size_t json_len;
        int64_t n;
        if (!hf__recall_find(recall, &key, &arena, &found, &json_len)) continue;
        CHECK(hf__number_to_int64(hf__item_get_str(found, "n")->number, &n));
        CHECK_INT(n, i);
        known++;
    }
    CHECK(known > 100);
    hf__recall_keep(recall, &place, item, 100000); /* a long one takes the place of a short one */
    CHECK(!finds(recall, &place));
    hf__recall_free(recall);
    hf__arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_write_sees_what_another_process_has_written),
        RUN(a_write_sees_what_an_operator_has_changed),
        RUN(a_write_sees_nothing_of_what_was_undone),
        RUN(a_write_sees_nothing_of_what_could_not_be_committed),
        RUN(a_write_does_not_see_what_was_deleted),
        RUN(a_write_does_not_see_what_has_expired),
        RUN(a_write_of_what_is_remembered_wrongly_is_an_error),
        RUN(it_remembers_items_of_the_last_committed_transaction),
        RUN(it_tells_items_apart),
    };
    return hf_test_main(tests, COUNT_OF(tests), argc, argv);
}
