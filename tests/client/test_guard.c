/*
 * What all of it is for: processes that are stopped, continued and killed at
 * random share a counter, and not one increment gets lost.
 *
 * The counter is a row in SQLite that refuses tokens smaller than the largest it
 * has seen. A worker reads it under the lock, dawdles, and writes it back plus
 * one: if two workers were ever let in together, the number of writes would
 * outgrow the value.
 *
 * Besides, every worker notes when it was sure to hold the lock, by the machine's
 * one clock: these spans must not overlap, tokens or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "harness/served.h"
#include "harness/test.h"
#include "holdfast.h"

enum { WORKERS = 8, LEASE_MS = 1000, DEFAULT_SECONDS = 60 };

static char lock_url[600], resource_path[600], log_path[600], table[64];

static int64_t boot_us(void)
{
    return hf__clock_boot_us(&hf__clock_system);
}

static void nap_ms(int64_t ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&nap, &nap) != 0 && errno == EINTR) continue;
}

static int64_t below(int64_t most)
{
    return (int64_t)(hf__random_u64() % (uint64_t)most);
}

/* ---- the resource ---- */

static sqlite3 *open_resource(void)
{
    sqlite3 *db;
    if (sqlite3_open(resource_path, &db) != SQLITE_OK) return NULL;
    sqlite3_busy_timeout(db, 20000);
    return db;
}

static int64_t ask(sqlite3 *db, const char *sql, int64_t first, int64_t second)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) return -1;
    sqlite3_bind_int64(statement, 1, first);
    sqlite3_bind_int64(statement, 2, second);
    int64_t value = -1;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
    else if (code == SQLITE_DONE) value = sqlite3_changes(db);
    sqlite3_finalize(statement);
    return value;
}

/* ---- a worker ---- */

static void note_span(int fd, int64_t from_us, int64_t until_us, int64_t token)
{
    char line[96];
    int len = snprintf(line, sizeof line, "%lld %lld %lld\n", (long long)from_us,
                       (long long)until_us, (long long)token);
    if (write(fd, line, (size_t)len) != len) _exit(3);
}

static void increment(struct hf_lock *lock, sqlite3 *db, int fd)
{
    int64_t token = hf_lock_token(lock), begin_us = boot_us();
    /* Reading takes part in the fencing: from now on smaller tokens are refused. */
    if (ask(db, "UPDATE guard SET token = ?1 WHERE token <= ?1", token, 0) != 1) return;
    int64_t value = ask(db, "SELECT value FROM guard", 0, 0);
    if (below(3) == 0) nap_ms(below(200));
    ask(db, "UPDATE guard SET value = ?2, writes = writes + 1 WHERE token = ?1", token, value + 1);
    int64_t now_us = boot_us();
    if (hf_lock_is_held(lock)) note_span(fd, begin_us, now_us, token);
}

static void work(int index)
{
    struct hf_client_options options = {
        .size = sizeof options,
        .store_url = lock_url,
        .table = table,
        .lease_ms = LEASE_MS,
        .poll_limit_ms = 100,
        .session = index % 2 ? HF_SESSION_ON : HF_SESSION_OFF,
    };
    struct hf_client *client;
    struct hf_error error;
    sqlite3 *db = open_resource();
    int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (!db || fd < 0) _exit(3);
    if (hf_client_new(&options, &client, &error) != 0) {
        fprintf(stderr, "worker: %s\n", error.message);
        _exit(3);
    }
    for (;;) { /* until it is killed */
        struct hf_lock *lock;
        int code = hf_acquire(client, "counter", below(4) ? 5000 : 0, NULL, &lock, &error);
        if (code != 0) {
            nap_ms(below(20));
            continue;
        }
        for (int64_t i = 1 + below(3); i > 0; i--) increment(lock, db, fd);
        if (below(10)) hf_release(lock, NULL, NULL); /* or forget about it */
        hf_lock_unref(lock);
    }
}

static pid_t spawn(int index)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) work(index);
    return pid;
}

/* ---- the check ---- */

struct span {
    long long from_us, until_us, token;
};

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->from_us < y->from_us ? -1 : x->from_us > y->from_us;
}

static size_t check_spans(void)
{
    enum { MOST = 1 << 20 };
    struct span *spans = malloc(MOST * sizeof *spans);
    size_t count = 0;
    FILE *file = fopen(log_path, "r");
    CHECK(spans && file);
    struct span span;
    while (count < MOST &&
           fscanf(file, "%lld %lld %lld", &span.from_us, &span.until_us, &span.token) == 3)
        spans[count++] = span;
    fclose(file);
    qsort(spans, count, sizeof spans[0], by_start);
    size_t overlaps = 0, steps_back = 0;
    for (size_t i = 1; i < count; i++) {
        overlaps += spans[i].from_us < spans[i - 1].until_us;
        steps_back += spans[i].token < spans[i - 1].token;
    }
    free(spans);
    CHECK_INT(overlaps, 0);
    CHECK_INT(steps_back, 0);
    return count;
}

static void torment(pid_t workers[WORKERS], int seconds, int *ret_stops, int *ret_kills)
{
    int64_t resume_us[WORKERS] = {0};
    int64_t end_us = boot_us() + (int64_t)seconds * 1000000;
    while (boot_us() < end_us) {
        nap_ms(20 + below(100));
        for (int i = 0; i < WORKERS; i++) {
            if (resume_us[i] == 0 || resume_us[i] > boot_us()) continue;
            kill(workers[i], SIGCONT);
            resume_us[i] = 0;
        }
        int victim = (int)below(WORKERS);
        int64_t kind = below(10);
        if (kind < 4 && resume_us[victim] == 0) {
            kill(workers[victim], SIGSTOP);
            resume_us[victim] = boot_us() + below(3 * LEASE_MS) * 1000;
            (*ret_stops)++;
        } else if (kind == 4) {
            int status;
            kill(workers[victim], SIGKILL);
            CHECK_INT(waitpid(workers[victim], &status, 0), workers[victim]);
            CHECK(WIFSIGNALED(status)); /* it had not given up by itself */
            workers[victim] = spawn(victim);
            resume_us[victim] = 0;
            (*ret_kills)++;
        }
    }
}

TEST(no_increment_is_lost)
{
    const char *given = getenv("HOLDFAST_TEST_STORE"), *seconds = getenv("HOLDFAST_GUARD_SECONDS");
    if (!given || strcmp(given, "memory:") == 0) given = "file:";
    char id[HF_ID_SIZE];
    hf__random_id(id);
    snprintf(table, sizeof table, "guard%s", id);
    snprintf(resource_path, sizeof resource_path, "%s/resource.db", hf_test_directory());
    snprintf(log_path, sizeof log_path, "%s/spans", hf_test_directory());
    if (hf_test_is_served()) snprintf(lock_url, sizeof lock_url, "%s", hf_test_serve());
    else if (strcmp(given, "file:") == 0)
        snprintf(lock_url, sizeof lock_url, "file:%s/locks.db", hf_test_directory());
    else snprintf(lock_url, sizeof lock_url, "%s", given);

    sqlite3 *db = open_resource();
    CHECK(db);
    CHECK_INT(sqlite3_exec(db,
                           "PRAGMA journal_mode=WAL; CREATE TABLE guard (token, value, writes);"
                           "INSERT INTO guard VALUES (0, 0, 0)",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
    /* The table is made before anybody is killed; not in this process, which goes on forking. */
    fflush(NULL);
    pid_t maker = fork();
    if (maker == 0) {
        struct hf_client_options options = {
            .size = sizeof options, .store_url = lock_url, .table = table, .create_table = true};
        struct hf_client *client;
        _exit(hf_client_new(&options, &client, NULL) == 0 && hf_client_close(client, 0) == 0 ? 0
                                                                                             : 1);
    }
    int status;
    CHECK_INT(waitpid(maker, &status, 0), maker);
    CHECK_INT(status, 0);

    pid_t workers[WORKERS];
    int stops = 0, kills = 0;
    for (int i = 0; i < WORKERS; i++) workers[i] = spawn(i);
    torment(workers, seconds ? (int)strtol(seconds, NULL, 10) : DEFAULT_SECONDS, &stops, &kills);
    for (int i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGKILL);
        CHECK_INT(waitpid(workers[i], &status, 0), workers[i]);
        CHECK(WIFSIGNALED(status));
    }
    db = open_resource();
    int64_t value = ask(db, "SELECT value FROM guard", 0, 0);
    int64_t writes = ask(db, "SELECT writes FROM guard", 0, 0);
    sqlite3_close(db);
    size_t spans = check_spans();
    printf("%lld increments, %zu spans without overlap, %d stops, %d kills\n", (long long)value,
           spans, stops, kills);
    CHECK_INT(value, writes);
    CHECK(value > 20 && spans > 20);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {RUN(no_increment_is_lost)};
    return RUN_TESTS(tests);
}
