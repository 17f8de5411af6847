/* Work on whole tables, done by portions beside the operations of callers. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/model.h"
#include "store/store.h"
#include "wire/request.h"

enum { ITEMS = 3000, BATCH = 25, TRIES = 2000 };

static char url[600];
static struct hf_store *store;
static struct hf_arena arena;

static void open_it(const char *name)
{
    struct hf_error error;
    snprintf(url, sizeof url, "file:%s/%s", hf_test_directory(), name);
    /* So often it looks for what others have left. */
    if (hf__store_open(url, &(struct hf_store_options){.sweep_period_ms = 20}, &store, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

static void close_it(void)
{
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* An operation as the body of its request. */
static struct hf_answer ask(enum hf_op_kind kind, const char *body)
{
    struct hf_call call = {.arena = &arena};
    struct hf_error error;
    struct hf_slice copy = hf__arena_copy(&arena, hf__slice_str(body));
    if (hf__request_read(&arena, kind, copy, &call.op, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    hf__store_run(store, &call);
    return call.answer;
}

static struct hf_answer good(enum hf_op_kind kind, const char *body)
{
    struct hf_answer answer = ask(kind, body);
    if (answer.code != 0) hf_test_fail(__FILE__, __LINE__, "%s", answer.error.message);
    return answer;
}

static void create(void)
{
    good(HF_CREATE_TABLE,
         "{\"TableName\":\"jobs\",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":["
         "{\"AttributeName\":\"id\",\"AttributeType\":\"N\"}],\"KeySchema\":[{\"AttributeName\":"
         "\"id\",\"KeyType\":\"HASH\"}]}");
}

/* Every item has a color, one of two, and an expiry long ago. */
static void fill(void)
{
    char body[BATCH * 160];
    for (int i = 0; i < ITEMS; i += BATCH) {
        int len = snprintf(body, sizeof body, "{\"RequestItems\":{\"jobs\":[");
        for (int j = i; j < i + BATCH; j++)
            len += snprintf(body + len, sizeof body - (size_t)len,
                            "%s{\"PutRequest\":{\"Item\":{\"id\":{\"N\":\"%d\"},\"color\":{\"S\":"
                            "\"%s\"},\"end\":{\"N\":\"%d\"}}}}",
                            j > i ? "," : "", j, j % 2 ? "red" : "blue", 1700000000 + j);
        snprintf(body + len, sizeof body - (size_t)len, "]}}");
        good(HF_BATCH_WRITE, body);
    }
}

static struct hf_answer create_index(void)
{
    return good(HF_UPDATE_TABLE,
                "{\"TableName\":\"jobs\",\"AttributeDefinitions\":[{\"AttributeName\":\"color\","
                "\"AttributeType\":\"S\"}],\"GlobalSecondaryIndexUpdates\":[{\"Create\":{"
                "\"IndexName\":\"colors\",\"KeySchema\":[{\"AttributeName\":\"color\",\"KeyType\":"
                "\"HASH\"}],\"Projection\":{\"ProjectionType\":\"KEYS_ONLY\"}}}]}");
}

static void delete_index(void)
{
    good(HF_UPDATE_TABLE, "{\"TableName\":\"jobs\",\"GlobalSecondaryIndexUpdates\":[{\"Delete\":{"
                          "\"IndexName\":\"colors\"}}]}");
}

static struct hf_answer query(const char *color)
{
    char body[300];
    snprintf(body, sizeof body,
             "{\"TableName\":\"jobs\",\"IndexName\":\"colors\",\"Select\":\"COUNT\","
             "\"KeyConditionExpression\":\"color = :c\",\"ExpressionAttributeValues\":{\":c\":{"
             "\"S\":\"%s\"}}}",
             color);
    return ask(HF_QUERY, body);
}

static bool is_filling(void)
{
    struct hf_answer answer = good(HF_DESCRIBE_TABLE, "{\"TableName\":\"jobs\"}");
    CHECK_INT(answer.table.indexes.count, 1);
    return answer.table.indexes.at[0].filling;
}

static void await_index(void)
{
    int tries = 0;
    while (is_filling() && tries++ < TRIES) usleep(5000);
    CHECK(tries < TRIES);
}

/* Rows of any table in the file itself. */
static int64_t rows(const char *what)
{
    char sql[100];
    sqlite3 *db;
    sqlite3_stmt *count;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", what);
    CHECK(sqlite3_open(url + strlen("file:"), &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    CHECK(sqlite3_prepare_v2(db, sql, -1, &count, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(count) == SQLITE_ROW);
    int64_t number = sqlite3_column_int64(count, 0);
    sqlite3_finalize(count);
    sqlite3_close(db);
    return number;
}

static void await_rows(const char *what, int64_t wanted)
{
    int tries = 0;
    while (rows(what) != wanted && tries++ < TRIES) usleep(5000);
    CHECK_INT(rows(what), wanted);
}

TEST(an_index_on_a_large_table_is_filled_beside_writes)
{
    open_it("fill.db");
    create();
    fill();
    struct hf_answer made = create_index();
    CHECK(made.table.indexes.at[0].filling);
    CHECK_INT(made.table.item_count, -1);
    int64_t refused = query("red").code;
    CHECK(refused == HF_ERR_VALIDATION || !is_filling());
    /* Before and after the place that the work has reached. */
    good(HF_UPDATE_ITEM,
         "{\"TableName\":\"jobs\",\"Key\":{\"id\":{\"N\":\"1\"}},\"UpdateExpression\":"
         "\"SET color = :c\",\"ExpressionAttributeValues\":{\":c\":{\"S\":\"green\"}}}");
    good(HF_DELETE_ITEM, "{\"TableName\":\"jobs\",\"Key\":{\"id\":{\"N\":\"3\"}}}");
    good(HF_UPDATE_ITEM, "{\"TableName\":\"jobs\",\"Key\":{\"id\":{\"N\":\"2999\"}},"
                         "\"UpdateExpression\":\"SET color = :c\",\"ExpressionAttributeValues\":{"
                         "\":c\":{\"S\":\"green\"}}}");
    good(HF_DELETE_ITEM, "{\"TableName\":\"jobs\",\"Key\":{\"id\":{\"N\":\"2997\"}}}");
    await_index();
    CHECK_INT(query("green").count, 2);
    CHECK_INT(query("red").count, ITEMS / 2 - 4);
    CHECK_INT(query("blue").count, ITEMS / 2);
    CHECK_INT(rows("chores"), 0);
    close_it();
}

TEST(an_index_that_is_made_again_has_nothing_of_the_first)
{
    open_it("again.db");
    create();
    fill();
    for (int i = 0; i < 3; i++) {
        create_index();
        if (i < 2) delete_index(); /* while it is being filled, and emptied */
    }
    await_index();
    CHECK_INT(query("red").count, ITEMS / 2);
    await_rows("entries", ITEMS);
    await_rows("chores", 0);
    close_it();
}

TEST(a_table_that_was_deleted_is_gone_at_once_and_its_items_soon)
{
    open_it("drop.db");
    create();
    fill();
    create_index();
    good(HF_DELETE_TABLE, "{\"TableName\":\"jobs\"}");
    CHECK_INT(ask(HF_DESCRIBE_TABLE, "{\"TableName\":\"jobs\"}").code, HF_ERR_NO_TABLE);
    create();
    CHECK_INT(good(HF_SCAN, "{\"TableName\":\"jobs\"}").scanned, 0);
    create_index();
    CHECK_INT(query("red").count, 0);
    await_rows("items", 0);
    await_rows("entries", 0);
    await_rows("chores", 0);
    close_it();
}

TEST(expiry_is_computed_for_items_that_were_there)
{
    open_it("expiry.db");
    create();
    fill();
    good(HF_UPDATE_TTL, "{\"TableName\":\"jobs\",\"TimeToLiveSpecification\":{\"Enabled\":true,"
                        "\"AttributeName\":\"end\"}}");
    await_rows("items", 0);
    close_it();
}

TEST(another_ttl_attribute_does_not_end_items_by_the_first)
{
    open_it("other.db");
    create();
    good(HF_UPDATE_TTL, "{\"TableName\":\"jobs\",\"TimeToLiveSpecification\":{\"Enabled\":true,"
                        "\"AttributeName\":\"first\"}}");
    good(HF_PUT_ITEM, "{\"TableName\":\"jobs\",\"Item\":{\"id\":{\"N\":\"1\"},\"first\":{\"N\":"
                      "\"1700000000\"},\"second\":{\"N\":\"99999999999\"}}}");
    good(HF_UPDATE_TTL, "{\"TableName\":\"jobs\",\"TimeToLiveSpecification\":{\"Enabled\":false,"
                        "\"AttributeName\":\"first\"}}");
    /* Unless it was swept before that. */
    bool there = good(HF_SCAN, "{\"TableName\":\"jobs\"}").scanned == 1;
    good(HF_UPDATE_TTL, "{\"TableName\":\"jobs\",\"TimeToLiveSpecification\":{\"Enabled\":true,"
                        "\"AttributeName\":\"second\"}}");
    await_rows("items WHERE expires = 1700000000", 0);
    usleep(100000);
    CHECK_INT(good(HF_SCAN, "{\"TableName\":\"jobs\"}").scanned, there);
    close_it();
}

static void change_file(const char *sql)
{
    sqlite3 *db;
    CHECK(sqlite3_open(url + strlen("file:"), &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

TEST(a_table_that_cannot_be_read_holds_up_no_other)
{
    open_it("damaged.db");
    create();
    good(HF_CREATE_TABLE,
         "{\"TableName\":\"broken\",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":["
         "{\"AttributeName\":\"id\",\"AttributeType\":\"N\"}],\"KeySchema\":[{\"AttributeName\":"
         "\"id\",\"KeyType\":\"HASH\"}]}");
    for (int i = 0; i < 2; i++) {
        good(HF_UPDATE_TTL,
             i ? "{\"TableName\":\"jobs\",\"TimeToLiveSpecification\":{\"Enabled\":"
                 "true,\"AttributeName\":\"end\"}}"
               : "{\"TableName\":\"broken\",\"TimeToLiveSpecification\":{\"Enabled\":"
                 "true,\"AttributeName\":\"end\"}}");
        good(HF_PUT_ITEM,
             i ? "{\"TableName\":\"jobs\",\"Item\":{\"id\":{\"N\":\"1\"},\"end\":{\"N\":"
                 "\"9999999999\"}}}"
               : "{\"TableName\":\"broken\",\"Item\":{\"id\":{\"N\":\"1\"},\"end\":{\"N\":"
                 "\"9999999999\"}}}");
    }
    change_file("UPDATE tables SET spec = 'x' WHERE name = 'broken';"
                "UPDATE items SET expires = 1700000000"
                " WHERE table_id = (SELECT id FROM tables WHERE name = 'broken');"
                "INSERT INTO chores(kind, table_id, slot, pk, sk)"
                " SELECT 4, id, -1, x'', x'' FROM tables WHERE name = 'broken'");
    fill();
    await_rows("items", 1); /* the others have expired, but one */
    CHECK_INT(rows("items WHERE expires = 1700000000"), 1);
    good(HF_DELETE_TABLE, "{\"TableName\":\"jobs\"}");
    await_rows("items", 1);
    close_it();
}

/* Children die at any moment of the work; whoever opens the file next goes on with it. */
TEST(work_that_was_cut_off_is_finished_by_the_next_process)
{
    enum { ROUNDS = 20 };
    open_it("killed.db");
    create();
    fill();
    close_it();
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            open_it("killed.db");
            if (i == 0) create_index();
            usleep(20000);
            _exit(0);
        }
        usleep((useconds_t)(1000 * (i + 4)));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    open_it("killed.db");
    if (good(HF_DESCRIBE_TABLE, "{\"TableName\":\"jobs\"}").table.indexes.count == 0)
        create_index();
    await_index();
    CHECK_INT(query("red").count, ITEMS / 2);
    CHECK_INT(query("blue").count, ITEMS / 2);
    close_it();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(an_index_on_a_large_table_is_filled_beside_writes),
        RUN(an_index_that_is_made_again_has_nothing_of_the_first),
        RUN(a_table_that_was_deleted_is_gone_at_once_and_its_items_soon),
        RUN(expiry_is_computed_for_items_that_were_there),
        RUN(another_ttl_attribute_does_not_end_items_by_the_first),
        RUN(a_table_that_cannot_be_read_holds_up_no_other),
        RUN(work_that_was_cut_off_is_finished_by_the_next_process),
    };
    return hf_test_main(tests, COUNT_OF(tests), argc, argv);
}
