/* What the embedded engine promises beyond the contract: files, processes, crashes, time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "harness/model.h"
#include "store/store.h"
#include "wire/answer.h"
#include "wire/request.h"

static char path[512];
static char url[600];
static struct hf_arena arena;

static void fresh_path(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", hf_test_directory(), name);
    snprintf(url, sizeof url, "file:%s", path);
}

static struct hf_store *open_good(const struct hf_store_options *options)
{
    struct hf_error error;
    struct hf_store *store = NULL;
    if (hf__store_open(url, options, &store, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return store;
}

static int run(struct hf_store *store, struct hf_op op, struct hf_answer *ret)
{
    struct hf_call call = {.op = op, .arena = &arena};
    hf__store_run(store, &call);
    if (ret) *ret = call.answer;
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
    CHECK_INT(run(store, op, NULL), 0);
}

static struct hf_op put(const char *key, const char *more)
{
    char item[600];
    struct hf_op op = op_of(HF_PUT_ITEM);
    snprintf(item, sizeof item, "{\"key\":{\"S\":\"%s\"}%s}", key, more);
    op.item = hf_test_item(&arena, hf__arena_str(&arena, hf__slice_str(item)));
    return op;
}

static struct hf_op get_of(const char *key)
{
    struct hf_op op = op_of(HF_GET_ITEM);
    char item[100];
    snprintf(item, sizeof item, "{\"key\":{\"S\":\"%s\"}}", key);
    op.key = hf_test_item(&arena, hf__arena_str(&arena, hf__slice_str(item)));
    return op;
}

static bool exists(struct hf_store *store, const char *key)
{
    struct hf_answer answer;
    CHECK_INT(run(store, get_of(key), &answer), 0);
    return answer.has_item;
}

static void fails_to_open(int code, const char *part)
{
    struct hf_error error = {0};
    struct hf_store *store = NULL;
    CHECK_INT(hf__store_open(url, NULL, &store, &error), code);
    if (!strstr(error.message, part))
        hf_test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", error.message, part);
    if (!strstr(error.message, path))
        hf_test_fail(__FILE__, __LINE__, "\"%s\" does not name the file", error.message);
}

static void write_bytes(const char *bytes, size_t len, off_t at)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && pwrite(fd, bytes, len, at) == (ssize_t)len);
    close(fd);
}

/* ---- files ---- */

TEST(a_file_keeps_what_was_written_and_is_private)
{
    struct stat info;
    fresh_path("keeps.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), NULL), 0);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    hf__store_close(store);
    store = open_good(NULL);
    CHECK(exists(store, "a"));
    CHECK_SLICE(hf__store_table(store), HF_LIT("locks"));
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(foreign_files_are_refused_and_left_alone)
{
    static const char text[] = "This is not a database, but a letter that must not be lost.\n";
    char after[sizeof text];
    sqlite3 *other;
    struct stat before_info, after_info;
    fresh_path("letter.txt");
    write_bytes(text, sizeof text - 1, 0);
    fails_to_open(HF_ERR_DAMAGED, "is not a holdfast store");
    int fd = open(path, O_RDONLY);
    CHECK(read(fd, after, sizeof after) == sizeof text - 1 &&
          memcmp(after, text, sizeof text - 1) == 0);
    close(fd);

    fresh_path("other.db");
    sqlite3_open(path, &other);
    sqlite3_exec(other, "CREATE TABLE precious(x); INSERT INTO precious VALUES (1)", NULL, NULL,
                 NULL);
    sqlite3_close(other);
    CHECK(stat(path, &before_info) == 0);
    fails_to_open(HF_ERR_DAMAGED, "is a database of another program");
    CHECK(stat(path, &after_info) == 0);
    CHECK(before_info.st_size == after_info.st_size &&
          before_info.st_mtim.tv_nsec == after_info.st_mtim.tv_nsec);
    char wal[600];
    snprintf(wal, sizeof wal, "%s-wal", path);
    CHECK(access(wal, F_OK) != 0);
}

TEST(a_newer_layout_is_refused)
{
    sqlite3 *db;
    fresh_path("newer.db");
    hf__store_close(open_good(NULL));
    sqlite3_open(path, &db);
    sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(db);
    fails_to_open(HF_ERR_DAMAGED, "newer holdfast");
}

TEST(a_file_of_the_first_layout_is_brought_up_to_date)
{
    static const char undo[] = "DROP TABLE entries; DROP TABLE tokens; DROP TABLE chores;"
                               "ALTER TABLE tables DROP COLUMN spec; PRAGMA user_version = 1";
    struct hf_answer answer;
    sqlite3 *db;
    fresh_path("first.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    CHECK_INT(run(store, put("kept", ""), &answer), 0);
    hf__store_close(store);
    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, undo, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    for (int i = 0; i < 2; i++) {
        store = open_good(NULL);
        CHECK(exists(store, "kept"));
        CHECK_INT(run(store, put("new", ""), &answer), 0);
        hf__store_close(store);
    }
    hf__arena_free(&arena);
}

TEST(a_damaged_file_is_an_error_that_names_it)
{
    char garbage[4096];
    struct hf_answer answer;
    memset(garbage, 0xa5, sizeof garbage);
    fresh_path("damaged.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    for (int i = 0; i < 300; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%d", i);
        CHECK_INT(run(store,
                      put(key, ",\"pad\":{\"S\":\"0123456789012345678901234567890123456789\"}"),
                      NULL),
                  0);
    }
    hf__store_close(store);
    for (int page = 1; page < 12; page++) write_bytes(garbage, sizeof garbage, page * 4096);
    struct hf_error error = {0};
    int code = hf__store_open(url, NULL, &store, &error);
    if (code == 0) {
        code = run(store, op_of(HF_SCAN), &answer);
        error = answer.error;
        hf__store_close(store);
    }
    CHECK_INT(code, HF_ERR_DAMAGED);
    CHECK(strstr(error.message, path) != NULL);
    hf__arena_free(&arena);
}

TEST(a_malformed_item_in_the_file_is_an_error_not_a_crash)
{
    static const char *const bad[] = {"nonsense", "{\"key\":{\"N\":\"x\"}}", "{\"key\":", "[]", ""};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        sqlite3 *db;
        struct hf_answer answer;
        char sql[256];
        fresh_path("malformed.db");
        unlink(path);
        struct hf_store *store = open_good(NULL);
        create_table(store);
        CHECK_INT(run(store, put("a", ""), NULL), 0);
        hf__store_close(store);
        sqlite3_open(path, &db);
        snprintf(sql, sizeof sql, "UPDATE items SET item = '%s'", bad[i]);
        CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
        sqlite3_close(db);
        store = open_good(NULL);
        struct hf_op guarded = put("a", "");
        guarded.condition = hf__cond_absent(&arena, "key");
        CHECK_INT(run(store, op_of(HF_SCAN), &answer), HF_ERR_DAMAGED);
        struct hf_op as_json = op_of(HF_SCAN);
        as_json.takes_json = true;
        CHECK_INT(run(store, as_json, &answer), HF_ERR_DAMAGED);
        CHECK_INT(run(store, guarded, &answer), HF_ERR_DAMAGED); /* not free, and not overwritten */
        hf__store_close(store);
    }
    hf__arena_free(&arena);
}

/* A request's answer, as it would be sent. Apostrophes stand for quotes. */
static struct hf_slice answer_to(struct hf_store *store, enum hf_op_kind kind, const char *request,
                                 bool takes_json, bool *ret_has_json)
{
    struct hf_op op;
    struct hf_error error;
    struct hf_answer answer;
    struct hf_buf text;
    char *body = hf__arena_str(&arena, hf__slice_str(request));
    for (char *at = body; (at = strchr(at, '\'')) != NULL;) *at = '"';
    if (hf__request_read(&arena, kind, hf__slice_str(body), &op, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    op.takes_json = takes_json;
    if (run(store, op, &answer) != 0) hf_test_fail(__FILE__, __LINE__, "%s", answer.error.message);
    hf__buf_init(&text, 1 << 20);
    hf__answer_write(&op, &answer, &text);
    struct hf_slice view = hf__arena_copy(&arena, hf__buf_view(&text));
    hf__buf_free(&text);
    *ret_has_json = answer.json.ptr || answer.jsons;
    return view;
}

/* Eight items with values of all kinds; every second one is in the indexes. */
static void fill_table_with_indexes(struct hf_store *store)
{
    char put_it[600];
    bool ignored;
    answer_to(
        store, HF_CREATE_TABLE,
        "{'TableName':'tab','BillingMode':'PAY_PER_REQUEST','KeySchema':["
        "{'AttributeName':'k','KeyType':'HASH'},{'AttributeName':'r','KeyType':'RANGE'}],"
        "'AttributeDefinitions':[{'AttributeName':'k','AttributeType':'S'},"
        "{'AttributeName':'r','AttributeType':'N'},{'AttributeName':'g','AttributeType':'S'}],"
        "'GlobalSecondaryIndexes':[{'IndexName':'all','Projection':{'ProjectionType':'ALL'},"
        "'KeySchema':[{'AttributeName':'g','KeyType':'HASH'}]},{'IndexName':'keys',"
        "'Projection':{'ProjectionType':'KEYS_ONLY'},"
        "'KeySchema':[{'AttributeName':'g','KeyType':'HASH'}]}]}",
        false, &ignored);
    for (int i = 0; i < 8; i++) {
        snprintf(put_it, sizeof put_it,
                 "{'TableName':'tab','Item':{'k':{'S':'a'},'r':{'N':'%d'},'z':{'L':[{'N':'1e%d'},"
                 "{'S':'\\u0001\\\"\\u00e9\\ud83d\\ude00'},{'BOOL':true},{'NULL':true},"
                 "{'M':{'b':{'B':'AAE='},'ss':{'SS':['y','x']}}}]}%s}}",
                 i, i, i % 2 ? ",'g':{'S':'x'}" : "");
        answer_to(store, HF_PUT_ITEM, put_it, false, &ignored);
    }
}

TEST(an_answer_given_as_json_says_the_same)
{
    static const char of_g[] = "'KeyConditionExpression':'g = :g',"
                               "'ExpressionAttributeValues':{':g':{'S':'x'}}";
    static const struct {
        enum hf_op_kind kind;
        bool whole;       /* items */
        const char *more; /* … of the request; % stands for of_g */
    } reads[] = {
        {HF_GET_ITEM, true, "'Key':{'k':{'S':'a'},'r':{'N':'3'}}"},
        {HF_GET_ITEM, false, "'Key':{'k':{'S':'none'},'r':{'N':'3'}}"},
        {HF_GET_ITEM, false, "'Key':{'k':{'S':'a'},'r':{'N':'3'}},'ProjectionExpression':'g'"},
        {HF_SCAN, true, "'ReturnConsumedCapacity':'TOTAL'"},
        {HF_SCAN, true, "'Limit':3"},
        {HF_SCAN, false, "'Select':'COUNT'"},
        {HF_SCAN, false, "'Segment':0,'TotalSegments':2"},
        {HF_SCAN, false, "'FilterExpression':'attribute_exists(g)'"},
        {HF_QUERY, true, "'IndexName':'all',%"},
        {HF_QUERY, true, "'IndexName':'all','Limit':2,%"},
        {HF_QUERY, false, "'IndexName':'keys',%"},
        {HF_QUERY, false, "'IndexName':'all','ProjectionExpression':'k',%"},
    };
    char request[600];
    bool has_json;
    fresh_path("json.db");
    struct hf_store *store = open_good(NULL);
    fill_table_with_indexes(store);
    for (size_t i = 0; i < COUNT_OF(reads); i++) {
        int len = (int)strcspn(reads[i].more, "%");
        snprintf(request, sizeof request, "{'TableName':'tab',%.*s%s}", len, reads[i].more,
                 reads[i].more[len] ? of_g : "");
        struct hf_slice items = answer_to(store, reads[i].kind, request, false, &has_json);
        CHECK_INT(has_json, false);
        CHECK_SLICE(answer_to(store, reads[i].kind, request, true, &has_json), items);
        CHECK_INT(has_json, reads[i].whole);
    }
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_change_of_a_table_that_fails_changes_nothing)
{
    static const struct hf_index_change change = {
        .kind = HF_INDEX_DELETE, .index = {.name = {"unknown", 7}, .global = true}};
    static const struct hf_table_wishes wishes = {
        .has_billing = true, .changes = &change, .change_count = 1};
    struct hf_answer answer;
    fresh_path("atomic.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    struct hf_op op = op_of(HF_UPDATE_TABLE);
    op.wishes = &wishes;
    op.read_units = op.write_units = 5;
    CHECK_INT(run(store, op, NULL), HF_ERR_NO_TABLE);
    CHECK_INT(run(store, op_of(HF_DESCRIBE_TABLE), &answer), 0);
    CHECK(answer.table.on_demand);
    CHECK_INT(run(store, put("c", ""), NULL), 0); /* and the store goes on */
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* Else no item with that attribute would fit both. */
TEST(a_new_index_may_not_give_an_attribute_another_type)
{
    struct hf_answer answer;
    fresh_path("types.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    static const struct {
        const char *name, *attribute;
        enum hf_type type;
        int code;
    } wanted[] = {{"by-size", "size", HF_N, 0},
                  {"by-size-text", "size", HF_S, HF_ERR_VALIDATION},
                  {"by-key", "key", HF_B, HF_ERR_VALIDATION},
                  {"by-size-again", "size", HF_N, 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct hf_index_change change = {
            .kind = HF_INDEX_CREATE,
            .index = {.name = hf__slice_str(wanted[i].name),
                      .global = true,
                      .schema = {.hash_name = hf__slice_str(wanted[i].attribute),
                                 .hash_type = wanted[i].type}}};
        struct hf_table_wishes wishes = {.changes = &change, .change_count = 1};
        struct hf_op op = op_of(HF_UPDATE_TABLE);
        op.wishes = &wishes;
        CHECK_INT(run(store, op, NULL), wanted[i].code);
    }
    CHECK_INT(run(store, op_of(HF_DESCRIBE_TABLE), &answer), 0);
    CHECK_INT(answer.table.indexes.count, 2);
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* A put that takes the writer more than a millisecond. */
static struct hf_op long_put(int number)
{
    enum { ELEMENTS = 30000 };
    struct hf_op op = op_of(HF_PUT_ITEM);
    struct hf_buf item;
    hf__buf_init(&item, 1 << 20);
    hf__buf_printf(&item, "{\"key\":{\"S\":\"long-%d\"},\"list\":{\"L\":[", number);
    for (int i = 0; i < ELEMENTS; i++) hf__buf_printf(&item, "%s{\"N\":\"%d\"}", i ? "," : "", i);
    hf__buf_str(&item, "]}}");
    op.item = hf_test_item(&arena, hf__arena_str(&arena, hf__buf_view(&item)));
    hf__buf_free(&item);
    return op;
}

static int calls_done; /* atomic */

static void count_done(struct hf_call *call)
{
    (void)call;
    __atomic_fetch_add(&calls_done, 1, __ATOMIC_RELEASE);
}

TEST(guests_do_not_hold_up_the_protocol)
{
    enum { GUESTS = 10 };
    static struct hf_call calls[GUESTS + 1];
    fresh_path("guests.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    hf__store_pause(store, true);
    for (int i = 0; i <= GUESTS; i++) {
        struct hf_op op = i < GUESTS ? long_put(i) : put("own", "");
        calls[i] = (struct hf_call){
            .op = op, .arena = &arena, .done = count_done, .lane = i < GUESTS ? 7 : 0};
        hf__store_submit(store, &calls[i]);
    }
    hf__store_pause(store, false);
    for (int tries = 0; __atomic_load_n(&calls_done, __ATOMIC_ACQUIRE) <= GUESTS && tries < 6000;
         tries++)
        usleep(5000);
    hf__store_close(store);
    int with_own = 0;
    for (int i = 0; i < GUESTS; i++) {
        CHECK_INT(calls[i].answer.code, 0);
        with_own += calls[i].answer.sent_boot_us == calls[GUESTS].answer.sent_boot_us;
    }
    CHECK(with_own < GUESTS); /* of those that were there, some are in a later transaction */
    hf__arena_free(&arena);
}

TEST(a_malformed_item_does_not_hold_up_a_change_of_its_table)
{
    sqlite3 *db;
    struct hf_answer answer;
    fresh_path("malformed-item.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), NULL), 0);
    CHECK_INT(run(store, put("b", ""), NULL), 0);
    sqlite3_open(path, &db);
    CHECK(sqlite3_exec(db, "UPDATE items SET item = 'x' WHERE pk = CAST('b' AS BLOB)", NULL, NULL,
                       NULL) == SQLITE_OK);
    sqlite3_close(db);
    struct hf_op ttl = op_of(HF_UPDATE_TTL);
    ttl.ttl_enabled = true;
    ttl.ttl_attribute = HF_LIT("ttl");
    CHECK_INT(run(store, ttl, NULL), 0);
    CHECK_INT(run(store, op_of(HF_DESCRIBE_TTL), &answer), 0);
    CHECK_SLICE(answer.ttl_status, HF_LIT("ENABLED"));
    CHECK_INT(run(store, get_of("b"), NULL), HF_ERR_DAMAGED); /* it is still there */
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(a_missing_directory_says_what_to_do)
{
    fresh_path("no/such/directory.db");
    fails_to_open(HF_ERR_IO, "create its directory first");
    snprintf(path, sizeof path, "%s", hf_test_directory());
    snprintf(url, sizeof url, "file:%s", path);
    fails_to_open(HF_ERR_INVALID, "is not a regular file");
}

/* Runs a part of a test in a process of its own; its exit status says whether it held. */
static void in_child(void (*part)(void))
{
    pid_t child = fork();
    if (child == 0) {
        part();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) hf_test_skip("not permitted here");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void as_nobody(void)
{
    struct hf_error error = {0};
    struct hf_store *store = NULL;
    if (geteuid() == 0) CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    int code = hf__store_open(url, NULL, &store, &error);
    fprintf(stderr, "as nobody: %s\n", error.message);
    CHILD_CHECK(code == HF_ERR_READ_ONLY);
    CHILD_CHECK(strstr(error.message, path) && strstr(error.message, "writable"));
}

TEST(a_read_only_directory_or_file_is_an_error_that_names_it)
{
    char directory[400];
    CHECK(chmod(hf_test_directory(), 0755) == 0);
    snprintf(directory, sizeof directory, "%s/readonly", hf_test_directory());
    CHECK(mkdir(directory, 0755) == 0);
    fresh_path("readonly/new.db");
    CHECK(chmod(directory, 0555) == 0);
    in_child(as_nobody);
    CHECK(chmod(directory, 0755) == 0);
    fresh_path("readonly/old.db");
    hf__store_close(open_good(NULL));
    CHECK(chmod(path, 0444) == 0 && chmod(directory, 0555) == 0);
    in_child(as_nobody);
    CHECK(chmod(directory, 0755) == 0);
}

static bool write_text(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return written;
}

/* As root, or as root of a user namespace of our own. */
static bool enter_mount_namespace(void)
{
    char uid_map[64], gid_map[64];
    snprintf(uid_map, sizeof uid_map, "0 %d 1", (int)getuid());
    snprintf(gid_map, sizeof gid_map, "0 %d 1", (int)getgid());
    if (unshare(CLONE_NEWNS) == 0) return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", uid_map) && write_text("/proc/self/gid_map", gid_map);
}

static void note_done(struct hf_call *call)
{
    __atomic_store_n((bool *)call->user, true, __ATOMIC_RELEASE);
}

/* In one batch: a write, and a transaction that is refused because of it. Neither was committed. */
static void refuse_by_what_was_not_written(struct hf_store *store, struct hf_value value)
{
    static const struct hf_operand by_key = {.is_path = true};
    bool done[2] = {false, false};
    struct hf_condition absent = {.op = HF_NOT_EXISTS, .count = 1};
    struct hf_operand operand = by_key;
    operand.path = hf__path(&arena, HF_LIT("key"));
    absent.operands = &operand;
    struct hf_op part = put("fresh", "");
    part.item = hf__item_with(&arena, part.item, HF_LIT("large"), &value);
    part.condition = &absent;
    struct hf_op both = {.kind = HF_TRANSACT_WRITE, .parts = &part, .part_count = 1};
    struct hf_call calls[2] = {{.op = part}, {.op = both}};
    hf__store_cork(store, true);
    for (int i = 0; i < 2; i++) {
        calls[i].arena = &arena;
        calls[i].done = note_done;
        calls[i].user = &done[i];
        hf__store_submit(store, &calls[i]);
    }
    hf__store_cork(store, false);
    for (int i = 0; i < 2; i++)
        for (int tries = 0; !__atomic_load_n(&done[i], __ATOMIC_ACQUIRE); tries++) {
            CHILD_CHECK(tries < 5000);
            usleep(1000);
        }
    CHILD_CHECK(calls[0].answer.code == HF_ERR_FULL);
    CHILD_CHECK(calls[1].answer.code == HF_ERR_FULL);
}

static void fill_a_small_disk(void)
{
    struct hf_error error = {0};
    struct hf_store *store = NULL;
    struct hf_answer answer = {0};
    char directory[400], key[64];
    snprintf(directory, sizeof directory, "%s/small", hf_test_directory());
    mkdir(directory, 0755);
    if (!enter_mount_namespace()) _exit(77);
    if (mount("none", directory, "tmpfs", 0, "size=512k") != 0) _exit(77);
    fresh_path("small/full.db");
    CHILD_CHECK(hf__store_open(url, NULL, &store, &error) == 0);
    create_table(store);
    static char large[20000];
    memset(large, 'x', sizeof large);
    int written = 0;
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "k%d", i);
        struct hf_op op = put(key, "");
        struct hf_value value = hf__s(hf__slice(large, sizeof large));
        op.item = hf__item_with(&arena, op.item, HF_LIT("large"), &value);
        if (run(store, op, &answer) != 0) break;
        written++;
    }
    fprintf(stderr, "after %d writes: %s\n", written, answer.error.message);
    CHILD_CHECK(written > 2 && answer.code == HF_ERR_FULL);
    CHILD_CHECK(strstr(answer.error.message, path) && strstr(answer.error.message, "free space"));
    refuse_by_what_was_not_written(store, hf__s(hf__slice(large, sizeof large)));
    for (int i = 0; i < written; i++) { /* what was answered is still there */
        snprintf(key, sizeof key, "k%d", i);
        CHILD_CHECK(exists(store, key));
    }
    hf__store_close(store);
}

TEST(a_full_disk_is_an_error_that_names_the_file_and_loses_nothing)
{
    in_child(fill_a_small_disk);
}

/* ---- processes ---- */

static void increment_many(void)
{
    struct hf_store *store = open_good(NULL);
    for (int done = 0, tries = 0; done < 50 && tries < 20000; tries++) {
        struct hf_answer answer;
        struct hf_op get = op_of(HF_GET_ITEM), update = op_of(HF_UPDATE_ITEM);
        int64_t n = 0;
        get.key = update.key = hf_test_item(&arena, "{\"key\":{\"S\":\"n\"}}");
        CHILD_CHECK(run(store, get, &answer) == 0);
        bool found = answer.has_item;
        if (found) hf__number_to_int64(hf__item_get_str(answer.item, "n")->number, &n);
        struct hf_update set = {0};
        hf__update_set(&arena, &set, "n", hf__n(&arena, n + 1));
        update.update = &set;
        update.condition = found ? hf__cond_compare(&arena, "n", HF_EQ, hf__n(&arena, n))
                                 : hf__cond_absent(&arena, "n");
        int code = run(store, update, &answer);
        CHILD_CHECK(code == 0 || code == HF_ERR_CONDITION);
        done += code == 0;
        hf__arena_reset(&arena);
    }
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(several_processes_on_one_file_lose_nothing)
{
    enum { PROCESSES = 4 };
    pid_t children[PROCESSES];
    struct hf_answer answer;
    int64_t n = 0;
    fresh_path("shared.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    hf__store_close(store);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            increment_many();
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    store = open_good(NULL);
    struct hf_op get = op_of(HF_GET_ITEM);
    get.key = hf_test_item(&arena, "{\"key\":{\"S\":\"n\"}}");
    CHECK_INT(run(store, get, &answer), 0);
    CHECK(hf__number_to_int64(hf__item_get_str(answer.item, "n")->number, &n));
    CHECK_INT(n, PROCESSES * 50);
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(many_processes_may_create_one_file_at_once)
{
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    fresh_path("race.db");
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct hf_store *store = open_good(NULL); /* creates it, or waits for who does */
            CHILD_CHECK(run(store, op_of(HF_LIST_TABLES), NULL) == 0);
            hf__store_close(store);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
}

TEST(a_file_locked_for_too_long_is_busy)
{
    sqlite3 *other;
    struct hf_answer answer;
    struct hf_store_options options = {.busy_timeout_ms = 50};
    fresh_path("busy.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    sqlite3_open(path, &other);
    CHECK(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
    CHECK_INT(run(store, put("a", ""), &answer), HF_ERR_BUSY);
    CHECK(strstr(answer.error.message, path) != NULL);
    CHECK(!exists(store, "a")); /* readers are not held up */
    sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    CHECK_INT(run(store, put("a", ""), NULL), 0);
    sqlite3_close(other);
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* ---- crashes ---- */

/* Writes keys one after the other and reports each that was answered. */
TEST(no_other_process_may_write_while_one_moves_the_log)
{
    enum { LOG_BYTE = 3 };
    struct hf_store_options options = {.busy_timeout_ms = 100};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOG_BYTE, .l_len = 1};
    char other[600];
    fresh_path("moved.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    snprintf(other, sizeof other, "%s-open", path);
    int fd = open(other, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
    CHECK_INT(run(store, put("a", ""), NULL), HF_ERR_BUSY);
    CHECK(!exists(store, "a")); /* who reads need not wait */
    lock.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    CHECK_INT(run(store, put("a", ""), NULL), 0);
    lock.l_type = F_WRLCK;
    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0); /* it was let go after the commit */
    close(fd);
    hf__store_close(store);
    hf__arena_free(&arena);
}

static void write_until_killed(int report, int round)
{
    struct hf_store *store = open_good(NULL);
    for (int32_t i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d-%d", round, i);
        if (run(store, put(key, ",\"pad\":{\"S\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}"), NULL) !=
            0)
            _exit(1);
        if (write(report, &i, sizeof i) != sizeof i) _exit(2);
        hf__arena_reset(&arena);
    }
    _exit(0);
}

TEST(killed_200_times_every_answered_write_is_there)
{
    enum { ROUNDS = 200 };
    static int32_t lasts[ROUNDS];
    struct hf_rng rng = {2026};
    int answered = 0;
    fresh_path("crash.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    hf__store_close(store);
    for (int round = 0; round < ROUNDS; round++) {
        int report[2], status;
        int32_t last = -1, seen;
        CHECK(pipe(report) == 0);
        pid_t child = fork();
        if (child == 0) write_until_killed(report[1], round);
        close(report[1]);
        usleep(2000 + hf_rng_below(&rng, 15000));
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        while (read(report[0], &seen, sizeof seen) == sizeof seen) last = seen;
        close(report[0]);
        store = open_good(NULL); /* it opens every time */
        for (int32_t i = 0; i <= last; i++) {
            char key[32];
            snprintf(key, sizeof key, "%d-%d", round, i);
            hf_test_note("round %d, write %d of %d", round, i, last);
            CHECK(exists(store, key));
        }
        hf__store_close(store);
        hf__arena_reset(&arena);
        answered += last + 1;
        lasts[round] = last;
    }
    store = open_good(NULL); /* and no later crash took away what an earlier one had left */
    for (int round = 0; round < ROUNDS; round++)
        for (int32_t i = 0; i <= lasts[round]; i++) {
            char key[32];
            snprintf(key, sizeof key, "%d-%d", round, i);
            CHECK(exists(store, key));
            hf__arena_reset(&arena);
        }
    hf__store_close(store);
    printf("         %d writes were answered before 200 kills\n", answered);
    CHECK(answered > 0);
    hf__arena_free(&arena);
}

/* ---- time ---- */

TEST(expired_items_are_swept_by_the_stores_time)
{
    struct hf_virtual_clock clock;
    hf_virtual_clock_init(&clock);
    struct hf_store_options options = {.clock = &clock.clock, .sweep_period_ms = 5};
    char expiring[64], ancient[64];
    int64_t now_s = clock.wall_us / 1000000;
    fresh_path("ttl.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    snprintf(expiring, sizeof expiring, ",\"ttl\":{\"N\":\"%lld\"}", (long long)now_s + 100);
    snprintf(ancient, sizeof ancient, ",\"ttl\":{\"N\":\"%lld\"}",
             (long long)now_s - 6 * 365 * 86400);
    CHECK_INT(run(store, put("before", expiring), NULL), 0);
    struct hf_op ttl = op_of(HF_UPDATE_TTL);
    ttl.ttl_enabled = true;
    ttl.ttl_attribute = HF_LIT("ttl");
    CHECK_INT(run(store, ttl, NULL), 0);
    CHECK_INT(run(store, put("after", expiring), NULL), 0);
    CHECK_INT(run(store, put("text", ",\"ttl\":{\"S\":\"1\"}"), NULL), 0);
    CHECK_INT(run(store, put("ancient", ancient), NULL),
              0); /* over five years old: never, as in DynamoDB */
    CHECK_INT(run(store, put("forever", ""), NULL), 0);
    hf_virtual_clock_advance(&clock, 99LL * 1000000);
    usleep(30000);
    CHECK(exists(store, "before") && exists(store, "after"));
    hf_virtual_clock_advance(&clock, 2LL * 1000000);
    for (int i = 0; i < 1000 && (exists(store, "before") || exists(store, "after")); i++)
        usleep(5000);
    CHECK(!exists(store, "before") && !exists(store, "after"));
    CHECK(exists(store, "text") && exists(store, "ancient") && exists(store, "forever"));
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(the_stores_time_does_not_follow_a_wall_clock_that_jumps)
{
    struct hf_virtual_clock clock;
    struct hf_answer before, after, reopened;
    hf_virtual_clock_init(&clock);
    struct hf_store_options options = {.clock = &clock.clock};
    fresh_path("clock.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), &before), 0);
    clock.wall_us += 3600LL * 1000000; /* somebody sets the clock */
    hf_virtual_clock_advance(&clock, 1000000);
    CHECK_INT(run(store, put("a", ""), &after), 0);
    CHECK_INT(after.store.lo_unix_us - before.store.lo_unix_us, 1000000);
    CHECK_INT(after.store.lo_unix_us, after.store.hi_unix_us);
    hf__store_close(store);
    store = open_good(&options); /* another process of this boot agrees */
    CHECK_INT(run(store, put("a", ""), &reopened), 0);
    CHECK_INT(reopened.store.lo_unix_us, after.store.lo_unix_us);
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(the_stores_time_does_not_go_back_after_a_reboot)
{
    struct hf_virtual_clock clock;
    struct hf_answer before, after;
    sqlite3 *db;
    hf_virtual_clock_init(&clock);
    struct hf_store_options options = {.clock = &clock.clock};
    fresh_path("reboot.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), &before), 0);
    hf__store_close(store);
    sqlite3_open(path, &db);
    sqlite3_exec(db, "UPDATE meta SET value = 'another boot' WHERE name = 'clock_boot'", NULL, NULL,
                 NULL);
    sqlite3_close(db);
    clock.boot_us = 5000000;
    clock.wall_us -= 86400LL * 1000000; /* the battery is empty */
    store = open_good(&options);
    CHECK_INT(run(store, put("a", ""), &after), 0);
    CHECK(after.store.lo_unix_us >= before.store.lo_unix_us);
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* As if the machine had been started anew: the boot clock begins again. */
static void reboot(struct hf_virtual_clock *clock)
{
    sqlite3 *db;
    sqlite3_open(path, &db);
    sqlite3_exec(db, "UPDATE meta SET value = 'another boot' WHERE name = 'clock_boot'", NULL, NULL,
                 NULL);
    sqlite3_close(db);
    clock->boot_us = 5000000;
}

TEST(after_a_reboot_the_stores_time_is_an_interval_for_an_hour)
{
    struct hf_virtual_clock clock;
    struct hf_answer before, after, later;
    const int64_t hour_us = 3600LL * 1000000;
    hf_virtual_clock_init(&clock);
    struct hf_store_options options = {.clock = &clock.clock};
    fresh_path("interval.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), &before), 0);
    hf__store_close(store);
    reboot(&clock);
    clock.wall_us += hour_us; /* away so long, or set wrong */
    store = open_good(&options);
    CHECK_INT(run(store, put("a", ""), &after), 0);
    CHECK_INT(after.store.lo_unix_us, before.store.lo_unix_us);
    CHECK_INT(after.store.hi_unix_us, clock.wall_us);
    hf__store_close(store);
    hf_virtual_clock_advance(&clock, hour_us - 1000000);
    store = open_good(&options); /* whoever comes later agrees */
    CHECK_INT(run(store, put("a", ""), &later), 0);
    CHECK_INT(later.store.lo_unix_us - after.store.lo_unix_us, hour_us - 1000000);
    CHECK_INT(later.store.hi_unix_us, clock.wall_us);
    hf_virtual_clock_advance(&clock, 1000000);
    CHECK_INT(run(store, put("a", ""), &later), 0);
    CHECK_INT(later.store.lo_unix_us, clock.wall_us);
    CHECK_INT(later.store.hi_unix_us, clock.wall_us);
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(who_opens_a_file_that_is_open_takes_its_time)
{
    struct hf_virtual_clock clock;
    struct hf_answer first, second, third;
    hf_virtual_clock_init(&clock);
    struct hf_virtual_clock other = clock;
    other.wall_us += 3600LL * 1000000;
    other.clock.user = &other;
    struct hf_store_options options = {.clock = &clock.clock}, set_wrong = {.clock = &other.clock};
    fresh_path("shared-clock.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    sqlite3 *db; /* as a container sees it that has a boot id of its own */
    sqlite3_open(path, &db);
    sqlite3_exec(db, "UPDATE meta SET value = 'container' WHERE name = 'clock_boot'", NULL, NULL,
                 NULL);
    sqlite3_close(db);
    struct hf_store *second_store = open_good(&set_wrong);
    CHECK_INT(run(store, put("a", ""), &first), 0);
    CHECK_INT(run(second_store, put("a", ""), &second), 0);
    CHECK_INT(second.store.lo_unix_us, first.store.lo_unix_us);
    CHECK_INT(second.store.hi_unix_us, first.store.hi_unix_us);
    hf__store_close(store);
    struct hf_store *third_store = open_good(&set_wrong); /* the second one has it open still */
    CHECK_INT(run(third_store, put("a", ""), &third), 0);
    CHECK_INT(third.store.hi_unix_us, first.store.hi_unix_us);
    hf__store_close(second_store);
    hf__store_close(third_store);
    hf__arena_free(&arena);
}

TEST(a_time_that_is_days_ahead_is_set_back_by_who_is_alone)
{
    struct hf_virtual_clock clock;
    struct hf_answer answer;
    hf_virtual_clock_init(&clock);
    clock.wall_us = 1794000000LL * 1000000; /* 2026-11 */
    const int64_t right_us = clock.wall_us;
    struct hf_store_options options = {.clock = &clock.clock};
    fresh_path("ahead.db");
    clock.wall_us += 365LL * 86400 * 1000000;
    struct hf_store *store = open_good(&options);
    create_table(store);
    hf__store_close(store);
    reboot(&clock);
    clock.wall_us = 1000000; /* a clock that nobody has set is not believed */
    store = open_good(&options);
    CHECK_INT(run(store, put("a", ""), &answer), 0);
    CHECK(answer.store.lo_unix_us >= right_us + 364LL * 86400 * 1000000);
    hf__store_close(store);
    reboot(&clock);
    clock.wall_us = right_us;
    store = open_good(&options);
    CHECK_INT(run(store, put("a", ""), &answer), 0);
    CHECK_INT(answer.store.hi_unix_us, right_us);
    CHECK_INT(answer.store.lo_unix_us, right_us);
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* ---- the file's place ---- */

TEST(a_file_that_is_gone_or_another_one_is_noticed)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-open"};
    struct hf_answer answer;
    for (int i = 0; i < 8; i++) {
        char name[64], from[600], to[640];
        snprintf(name, sizeof name, "gone%d.db", i);
        fresh_path(name);
        struct hf_store *store = open_good(NULL);
        create_table(store);
        CHECK_INT(run(store, put("a", ""), NULL), 0);
        snprintf(from, sizeof from, "%s%s", path, ends[i % 4]);
        snprintf(to, sizeof to, "%s.away", from);
        CHECK_INT(rename(from, to), 0);
        if (i >= 4) { /* and another one is there */
            FILE *file = fopen(from, "w");
            CHECK(file != NULL);
            fclose(file);
        }
        CHECK_INT(run(store, put("a", ""), &answer), HF_ERR_DAMAGED);
        CHECK(strstr(answer.error.message, i < 4 ? "was deleted or moved" : "was replaced"));
        CHECK_INT(run(store, get_of("a"), &answer), HF_ERR_DAMAGED);
        CHECK_INT(rename(to, from), 0); /* it comes back */
        CHECK_INT(run(store, put("a", ""), NULL), 0);
        hf__store_close(store);
    }
    hf__arena_free(&arena);
}

TEST(whoever_goes_elsewhere_still_reads_the_same_file)
{
    char here[512], first[600], second[600];
    struct hf_error error;
    struct hf_store *store = NULL, *other = NULL;
    CHECK(getcwd(here, sizeof here) != NULL);
    snprintf(first, sizeof first, "%s/first", hf_test_directory());
    snprintf(second, sizeof second, "%s/second", hf_test_directory());
    CHECK_INT(mkdir(first, 0700), 0);
    CHECK_INT(mkdir(second, 0700), 0);
    CHECK_INT(chdir(second), 0);
    CHECK_INT(hf__store_open("file:same.db", NULL, &other, &error), 0);
    create_table(other);
    CHECK_INT(chdir(first), 0);
    CHECK_INT(hf__store_open("file:same.db", NULL, &store, &error), 0);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), NULL), 0);
    CHECK_INT(chdir(second), 0);
    for (int i = 0; i < 10; i++) CHECK(exists(store, "a")); /* by any of its readers */
    CHECK(!exists(other, "a"));
    hf__store_close(store);
    hf__store_close(other);
    CHECK_INT(chdir(here), 0);
    hf__arena_free(&arena);
}

TEST(boot_ids_that_change_do_not_hold_up_the_time)
{
    struct hf_virtual_clock clock;
    struct hf_answer before, after;
    hf_virtual_clock_init(&clock);
    struct hf_store_options options = {.clock = &clock.clock};
    fresh_path("masked.db");
    struct hf_store *store = open_good(&options);
    create_table(store);
    CHECK_INT(run(store, put("a", ""), &before), 0);
    hf__store_close(store);
    for (int i = 1; i <= 5; i++) { /* a host and a container, in turns */
        sqlite3 *db;
        sqlite3_open(path, &db);
        sqlite3_exec(db, "UPDATE meta SET value = 'other' WHERE name = 'clock_boot'", NULL, NULL,
                     NULL);
        sqlite3_close(db);
        hf_virtual_clock_advance(&clock, 10000000);
        store = open_good(&options);
        CHECK_INT(run(store, put("a", ""), &after), 0);
        CHECK_INT(after.store.lo_unix_us - before.store.lo_unix_us, 10000000LL * i);
        CHECK_INT(after.store.hi_unix_us, after.store.lo_unix_us);
        hf__store_close(store);
    }
    hf__arena_free(&arena);
}

TEST(hard_links_are_refused_and_symbolic_ones_are_not)
{
    char linked[600], link_url[700];
    struct hf_error error;
    struct stat info;
    fresh_path("linked.db");
    hf__store_close(open_good(NULL));
    snprintf(linked, sizeof linked, "%s/hard.db", hf_test_directory());
    CHECK_INT(link(path, linked), 0);
    fails_to_open(HF_ERR_INVALID, "hard links");
    CHECK_INT(unlink(linked), 0);
    snprintf(linked, sizeof linked, "%s/soft.db", hf_test_directory());
    CHECK_INT(symlink("linked.db", linked), 0);
    struct hf_store *store = open_good(NULL), *same = NULL;
    create_table(store);
    snprintf(link_url, sizeof link_url, "file:%s", linked);
    CHECK_INT(hf__store_open(link_url, NULL, &same, &error), 0);
    CHECK_INT(run(same, put("a", ""), NULL), 0);
    CHECK(exists(store, "a"));
    hf__store_close(same);
    hf__store_close(store);
    /* A link to nowhere makes the file where it points, for its user alone. */
    fresh_path("dangling.db");
    CHECK_INT(symlink("target.db", path), 0);
    hf__store_close(open_good(NULL));
    CHECK_INT(stat(path, &info), 0);
    CHECK_INT(info.st_mode & 0777, 0600);
    hf__arena_free(&arena);
}

struct listener {
    struct hf_hint hint;
    int heard; /* atomic */
};

static void hear(struct hf_hint *hint, uint64_t freed)
{
    (void)freed;
    __atomic_fetch_add(&HF_CONTAINER(hint, struct listener, hint)->heard, 1, __ATOMIC_RELAXED);
}

static void await_hint(struct listener *listener)
{
    int before = __atomic_exchange_n(&listener->heard, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 20000 && before == 0; i++) {
        usleep(1000);
        before = __atomic_exchange_n(&listener->heard, 0, __ATOMIC_RELAXED);
    }
    CHECK(before > 0);
}

/* As if by another process: it is heard through the file. */
TEST(who_listens_hears_of_a_commit_by_somebody_else)
{
    struct listener listener = {.hint.changed = hear}, second = {.hint.changed = hear};
    fresh_path("bell.db");
    struct hf_store *ours = open_good(NULL), *theirs = open_good(NULL);
    create_table(theirs);
    CHECK(hf__store_listen(ours, &listener.hint));
    CHECK(hf__store_listen(ours, &second.hint));
    CHECK_INT(run(theirs, put("a", ""), NULL), 0);
    await_hint(&listener);
    await_hint(&second);
    hf__store_unlisten(ours, &second.hint);
    CHECK_INT(run(theirs, put("b", ""), NULL), 0);
    await_hint(&listener);
    CHECK_INT(__atomic_load_n(&second.heard, __ATOMIC_RELAXED), 0);
    hf__store_unlisten(ours, &listener.hint);
    hf__store_close(theirs);
    hf__store_close(ours);
    hf__arena_free(&arena);
}

/* Takes at once what is being freed. */
struct taker {
    struct hf_hint hint;
    struct hf_store *store;
    struct hf_call call;
    int hints; /* atomic: in general */
    int taken; /* atomic */
};

static void is_taken(struct hf_call *call)
{
    __atomic_fetch_add(&((struct taker *)call->user)->taken, 1, __ATOMIC_RELEASE);
}

static void take_what_is_freed(struct hf_hint *hint, uint64_t freed)
{
    struct taker *taker = HF_CONTAINER(hint, struct taker, hint);
    if (freed == 77) hf__store_submit(taker->store, &taker->call);
    if (!freed) __atomic_fetch_add(&taker->hints, 1, __ATOMIC_RELAXED);
}

static void wait_for_number(const int *number, int least)
{
    for (int i = 0; i < 20000 && __atomic_load_n(number, __ATOMIC_ACQUIRE) < least; i++)
        usleep(1000);
    CHECK(__atomic_load_n(number, __ATOMIC_ACQUIRE) >= least);
}

/* It hears of it before it is written, and yet comes after it. */
TEST(who_takes_what_is_being_freed_is_not_too_early)
{
    enum { ROUNDS = 100 };
    struct taker taker = {.hint.changed = take_what_is_freed};
    struct hf_arena mine = {0};
    fresh_path("freed.db");
    struct hf_store *ours = taker.store = open_good(NULL), *theirs = open_good(NULL);
    create_table(theirs);
    CHECK_INT(run(theirs, put("a", ""), NULL), 0);
    CHECK(hf__store_listen(ours, &taker.hint));
    struct hf_op take = put("a", ""), free_it = op_of(HF_DELETE_ITEM);
    take.condition = hf__cond_absent(&arena, "key");
    free_it.key = get_of("a").key;
    free_it.frees = 77;
    for (int i = 0; i < ROUNDS; i++) {
        int before = __atomic_load_n(&taker.hints, __ATOMIC_RELAXED);
        taker.call = (struct hf_call){.op = take, .arena = &mine, .done = is_taken, .user = &taker};
        CHECK_INT(run(theirs, free_it, NULL), 0);
        wait_for_number(&taker.taken, i + 1);
        CHECK_INT(taker.call.answer.code, 0);
        CHECK(exists(theirs, "a"));
        wait_for_number(&taker.hints, before + 1); /* all others hear, too */
        hf__arena_reset(&mine);
        usleep(2000); /* its own commit is heard as well */
    }
    hf__store_unlisten(ours, &taker.hint);
    hf__store_close(theirs);
    hf__store_close(ours);
    hf__arena_free(&mine);
    hf__arena_free(&arena);
}

/* Looks whenever it hears that something may have changed. */
struct looker {
    struct hf_hint hint;
    struct hf_store *store;
    int saw_none; /* atomic */
};

static void look_for_it(struct hf_hint *hint, uint64_t freed)
{
    struct looker *looker = HF_CONTAINER(hint, struct looker, hint);
    struct hf_attr name = {HF_LIT("key"), hf__s_str("b")};
    struct hf_arena mine = {0};
    struct hf_call call = {.op = op_of(HF_GET_ITEM), .arena = &mine};
    call.op.key = (struct hf_item){&name, 1};
    if (!freed) hf__store_run(looker->store, &call);
    if (!freed && call.answer.code == 0 && !call.answer.has_item)
        __atomic_store_n(&looker->saw_none, 1, __ATOMIC_RELEASE);
    hf__arena_free(&mine);
}

/* … each of which is rung before it can be seen. */
TEST(of_two_that_are_freed_at_about_the_same_time_both_are_heard_of)
{
    enum { ROUNDS = 400 };
    struct looker looker = {.hint.changed = look_for_it};
    fresh_path("both.db");
    struct hf_store *ours = open_good(NULL), *theirs = open_good(NULL);
    looker.store = open_good(NULL);
    create_table(theirs);
    CHECK(hf__store_listen(ours, &looker.hint));
    struct hf_op frees[2];
    for (int i = 0; i < 2; i++) {
        frees[i] = op_of(HF_DELETE_ITEM);
        frees[i].key = get_of(i == 0 ? "a" : "b").key;
        frees[i].frees = 77 + (uint64_t)i;
    }
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_INT(run(theirs, put("a", ""), NULL), 0);
        CHECK_INT(run(theirs, put("b", ""), NULL), 0);
        usleep(3000);
        __atomic_store_n(&looker.saw_none, 0, __ATOMIC_RELAXED);
        CHECK_INT(run(theirs, frees[0], NULL), 0);
        int64_t until_us = hf__clock_boot_us(&hf__clock_system) + i * 2;
        while (hf__clock_boot_us(&hf__clock_system) < until_us) continue;
        CHECK_INT(run(theirs, frees[1], NULL), 0);
        wait_for_number(&looker.saw_none, 1);
    }
    hf__store_unlisten(ours, &looker.hint);
    hf__store_close(looker.store);
    hf__store_close(theirs);
    hf__store_close(ours);
    hf__arena_free(&arena);
}

/* Zeros behind the end of the log, which is read and written by all. */
TEST(who_waits_makes_room_in_the_log)
{
    char log[600];
    struct stat info = {0};
    struct listener listener = {.hint.changed = hear};
    fresh_path("room.db");
    struct hf_store *ours = open_good(NULL), *theirs = open_good(NULL);
    create_table(theirs);
    CHECK_INT(run(theirs, put("a", ""), NULL), 0);
    snprintf(log, sizeof log, "%s-wal", path);
    CHECK(stat(log, &info) == 0 && info.st_size < 200 * 1024);
    CHECK(hf__store_listen(ours, &listener.hint));
    for (int i = 0; i < 20000 && info.st_size < 200 * 1024; i++) {
        usleep(1000);
        CHECK_INT(stat(log, &info), 0);
    }
    CHECK(info.st_size >= 200 * 1024 && info.st_size < 256 * 1024);
    CHECK_INT(run(theirs, put("b", ""), NULL), 0);
    CHECK_INT(run(ours, put("c", ""), NULL), 0);
    hf__store_unlisten(ours, &listener.hint);
    struct hf_store *late = open_good(NULL);
    for (const char *key = "abc"; *key; key++) CHECK(exists(late, (char[]){*key, '\0'}));
    hf__store_close(late);
    hf__store_close(theirs);
    hf__store_close(ours);
    late = open_good(NULL);
    for (const char *key = "abc"; *key; key++) CHECK(exists(late, (char[]){*key, '\0'}));
    hf__store_close(late);
    hf__arena_free(&arena);
}

TEST(a_log_stays_short_where_there_is_little_data)
{
    char log[600];
    struct stat info;
    fresh_path("short.db");
    struct hf_store *store = open_good(NULL);
    create_table(store);
    for (int i = 0; i < 1500; i++) CHECK_INT(run(store, put("a", ""), NULL), 0);
    snprintf(log, sizeof log, "%s-wal", path);
    CHECK_INT(stat(log, &info), 0);
    CHECK(info.st_size < 1300 * 1024);
    hf__store_close(store);
    hf__arena_free(&arena);
}

/* ---- want of memory ---- */

static int forgotten; /* no memory to remember what was written, which does no harm (recall.h) */

static void open_write_and_read(void)
{
    struct hf_error error = {0};
    struct hf_store *store = NULL;
    struct hf_arena mine = {0};
    struct hf_attr attrs[] = {{HF_LIT("key"), hf__s_str("a")}, {HF_LIT("b"), hf__s_str("x\ny")}};
    int code = hf__store_open("memory:", NULL, &store, &error);
    if (code == 0) {
        struct hf_call call = {.arena = &mine};
        call.op = op_of(HF_CREATE_TABLE);
        call.op.schema = (struct hf_key_schema){.hash_name = HF_LIT("key"), .hash_type = HF_S};
        code = hf__store_run(store, &call);
        if (code == 0) {
            call.op = op_of(HF_PUT_ITEM);
            call.op.item = (struct hf_item){attrs, 2};
            call.op.condition = hf__cond_absent(&mine, "key");
            code = hf__store_run(store, &call);
        }
        if (code == 0) {
            call.op = op_of(HF_SCAN);
            code = hf__store_run(store, &call);
            if (code == 0) CHECK_INT(call.answer.count, 1);
        }
        hf__store_close(store);
    }
    if (code == 0 && hf_alloc_has_failed()) forgotten++;
    else CHECK_INT(code, hf_alloc_has_failed() ? HF_ERR_NO_MEMORY : 0);
    hf__arena_free(&mine);
}

TEST(survives_want_of_memory)
{
    CHECK(hf_test_torture(open_write_and_read) > 5);
    CHECK(forgotten > 0 && forgotten <= 2 * 3); /* one at a time, and all from then on */
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_file_keeps_what_was_written_and_is_private),
        RUN(foreign_files_are_refused_and_left_alone),
        RUN(a_newer_layout_is_refused),
        RUN(a_file_of_the_first_layout_is_brought_up_to_date),
        RUN(a_damaged_file_is_an_error_that_names_it),
        RUN(a_malformed_item_in_the_file_is_an_error_not_a_crash),
        RUN(an_answer_given_as_json_says_the_same),
        RUN(a_change_of_a_table_that_fails_changes_nothing),
        RUN(a_new_index_may_not_give_an_attribute_another_type),
        RUN(guests_do_not_hold_up_the_protocol),
        RUN(a_malformed_item_does_not_hold_up_a_change_of_its_table),
        RUN(a_missing_directory_says_what_to_do),
        RUN(a_read_only_directory_or_file_is_an_error_that_names_it),
        RUN(a_full_disk_is_an_error_that_names_the_file_and_loses_nothing),
        RUN(several_processes_on_one_file_lose_nothing),
        RUN(many_processes_may_create_one_file_at_once),
        RUN(a_file_locked_for_too_long_is_busy),
        RUN(no_other_process_may_write_while_one_moves_the_log),
        RUN(killed_200_times_every_answered_write_is_there),
        RUN(expired_items_are_swept_by_the_stores_time),
        RUN(the_stores_time_does_not_follow_a_wall_clock_that_jumps),
        RUN(the_stores_time_does_not_go_back_after_a_reboot),
        RUN(after_a_reboot_the_stores_time_is_an_interval_for_an_hour),
        RUN(who_opens_a_file_that_is_open_takes_its_time),
        RUN(a_time_that_is_days_ahead_is_set_back_by_who_is_alone),
        RUN(a_file_that_is_gone_or_another_one_is_noticed),
        RUN(whoever_goes_elsewhere_still_reads_the_same_file),
        RUN(boot_ids_that_change_do_not_hold_up_the_time),
        RUN(hard_links_are_refused_and_symbolic_ones_are_not),
        RUN(who_listens_hears_of_a_commit_by_somebody_else),
        RUN(who_takes_what_is_being_freed_is_not_too_early),
        RUN(of_two_that_are_freed_at_about_the_same_time_both_are_heard_of),
        RUN(who_waits_makes_room_in_the_log),
        RUN(a_log_stays_short_where_there_is_little_data),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
