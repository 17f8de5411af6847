/*
 * Measures what the design promises, as ratios within one run:
 *
 *     bench DIRECTORY [STORE-URL of a DynamoDB [SECTION…]]
 *
 * DIRECTORY is where the files go; its disk is what is measured. Sections are
 * json, embedded and dynamodb.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_reader.h"
#include "store/store.h"
#include "wire/request.h"

enum { MAX_SAMPLES = 400000, IN_FLIGHT = 64 };

static double samples[MAX_SAMPLES];
static size_t sample_count;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add_sample(double us)
{
    if (sample_count < MAX_SAMPLES) samples[sample_count++] = us;
}

static double percentile(double p)
{
    qsort(samples, sample_count, sizeof samples[0], ascending);
    return sample_count ? samples[(size_t)(p * (double)(sample_count - 1))] : 0;
}

/* A row: what, how many per second, and the latencies sampled since the last row. */
static double row(const char *what, double per_second)
{
    double p50 = percentile(0.5), p99 = percentile(0.99);
    printf("  %-52s %9.0f/s   p50 %7.0f us   p99 %7.0f us\n", what, per_second, p50, p99);
    sample_count = 0;
    return per_second;
}

static void verdict(const char *what, double value, const char *unit, double aim, bool at_most)
{
    bool met = at_most ? value <= aim : value >= aim;
    printf("  %-52s %9.2f %-4s aim %s %.2f  %s\n", what, value, unit, at_most ? "<=" : ">=", aim,
           met ? "met" : "MISSED");
}

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* ---- JSON ---- */

static const char request[] =
    "{\"TableName\":\"locks\",\"Key\":{\"key\":{\"S\":\"customer/4711/nightly-report\"}},\"UpdateExpression\":"
    "\"SET #n0 = :v0, #n1 = :v1 REMOVE #n2\",\"ConditionExpression\":\"attribute_not_exists(#n3) AND #n4 = :v2\","
    "\"ExpressionAttributeNames\":{\"#n0\":\"owner\",\"#n1\":\"version\",\"#n2\":\"ttl\",\"#n3\":\"grant\",\"#n4\":"
    "\"token\"},\"ExpressionAttributeValues\":{\":v0\":{\"S\":\"host-17\"},\":v1\":{\"N\":\"12\"},\":v2\":{\"N\":"
    "\"42\"}}}";

static void bench_json(void)
{
    enum { ROUNDS = 200000 };
    struct hf_arena arena = {0};
    size_t len = strlen(request);
    struct hf_slice document = hf__slice(request, len);
    double begin = now_us();
    for (int i = 0; i < ROUNDS; i++) {
        struct hf_json_reader r;
        hf__json_reader_init(&r, document, 1 << 20, &arena);
        hf__json_skip(&r);
        if (hf__json_finish(&r) != 0) die(r.error.message);
    }
    double pull = (now_us() - begin) / ROUNDS;
    begin = now_us();
    for (int i = 0; i < ROUNDS; i++) {
        struct hf_op op;
        struct hf_error error;
        if (hf__request_read(&arena, HF_UPDATE_ITEM, document, &op, &error) != 0)
            die(error.message);
        hf__arena_reset(&arena);
    }
    double whole = (now_us() - begin) / ROUNDS;
    begin = now_us();
    for (int i = 0; i < ROUNDS; i++) {
        json_t *value = json_loadb(request, len, JSON_REJECT_DUPLICATES, NULL);
        if (!value) die("jansson refused the request");
        json_decref(value);
    }
    double theirs = (now_us() - begin) / ROUNDS;
    hf__arena_free(&arena);
    printf("JSON, a DynamoDB request of %zu bytes\n", len);
    printf("  %-52s %9.2f us\n", "jansson, into its tree", theirs);
    printf("  %-52s %9.2f us\n", "ours, into an operation with parsed expressions", whole);
    verdict("ours, pulled through and checked", pull, "us", 1.5, true);
}

/* ---- the machine ---- */

static double bench_fdatasync(const char *directory)
{
    char path[512], page[4096] = {0};
    snprintf(path, sizeof path, "%s/fdatasync", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) die("cannot write to the directory");
    double begin = now_us(), end = begin + 1e6;
    int count = 0;
    for (; now_us() < end; count++) {
        double start = now_us();
        if (pwrite(fd, page, sizeof page, (off_t)(count % 256) * 4096) < 0 || fdatasync(fd) != 0)
            die("fdatasync");
        add_sample(now_us() - start);
    }
    double rate = row("write of 4 KB and fdatasync", count / ((now_us() - begin) / 1e6));
    close(fd);
    unlink(path);
    return rate;
}

static void must(sqlite3 *db, int result)
{
    if (result != SQLITE_OK && result != SQLITE_DONE && result != SQLITE_ROW)
        die(sqlite3_errmsg(db));
}

/* SQLite by itself: rows of the same size, `batch` of them in each transaction. */
static double bench_sqlite(const char *directory, int batch, const char *what)
{
    char path[512], item[300];
    sqlite3 *db;
    sqlite3_stmt *begin_sql, *put, *commit;
    memset(item, 'x', sizeof item);
    snprintf(path, sizeof path, "%s/bare.db", directory);
    unlink(path);
    must(NULL, sqlite3_open(path, &db));
    must(db, sqlite3_exec(
                 db,
                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;"
                 "CREATE TABLE t(k BLOB PRIMARY KEY, v TEXT) WITHOUT ROWID",
                 NULL, NULL, NULL));
    must(db, sqlite3_prepare_v2(db, "BEGIN IMMEDIATE", -1, &begin_sql, NULL));
    must(db, sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO t VALUES (?1, ?2)", -1, &put, NULL));
    must(db, sqlite3_prepare_v2(db, "COMMIT", -1, &commit, NULL));
    double begin = now_us(), end = begin + 2e6;
    int count = 0;
    while (now_us() < end) {
        double start = now_us();
        must(db, sqlite3_step(begin_sql));
        sqlite3_reset(begin_sql);
        for (int i = 0; i < batch; i++, count++) {
            char key[32];
            int len = snprintf(key, sizeof key, "key-%d", count % 1000);
            sqlite3_bind_blob(put, 1, key, len, SQLITE_STATIC);
            sqlite3_bind_text(put, 2, item, sizeof item, SQLITE_STATIC);
            must(db, sqlite3_step(put));
            sqlite3_reset(put);
        }
        must(db, sqlite3_step(commit));
        sqlite3_reset(commit);
        add_sample(now_us() - start);
    }
    double rate = row(what, count / ((now_us() - begin) / 1e6));
    sqlite3_finalize(begin_sql);
    sqlite3_finalize(put);
    sqlite3_finalize(commit);
    sqlite3_close(db);
    return rate;
}

/* ---- a store, with calls in flight ---- */

struct caller {
    struct hf_call call;
    struct hf_arena arena;
    double started;
    int number;
};

static struct hf_store *store;
static char pad[200];
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    double end;
    int next, done, running;
} load = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};

/* A conditional put: what a lock does. */
static void prepare(struct caller *c)
{
    struct hf_arena *arena = &c->arena;
    hf__arena_reset(arena);
    struct hf_attr *attrs = hf__arena_zalloc(arena, 4, sizeof *attrs);
    attrs[0] =
        (struct hf_attr){HF_LIT("key"), hf__s(hf__arena_printf(arena, "key-%d", c->number % 1000))};
    attrs[1] = (struct hf_attr){HF_LIT("owner"), hf__s_str("host-17/4711")};
    attrs[2] = (struct hf_attr){HF_LIT("version"), hf__n(arena, c->number)};
    attrs[3] = (struct hf_attr){HF_LIT("data"), hf__s(hf__slice(pad, sizeof pad))};
    c->call.arena = arena;
    c->call.op = (struct hf_op){.kind = HF_PUT_ITEM,
                                .table = hf__store_table(store),
                                .item = {attrs, 4},
                                .condition = hf__cond_absent(arena, "grant")};
}

static void start_next(struct caller *c);

static void on_done(struct hf_call *call)
{
    struct caller *c = call->user;
    if (call->answer.code != 0) die(call->answer.error.message);
    pthread_mutex_lock(&load.mutex);
    add_sample(now_us() - c->started);
    load.done++;
    bool more = now_us() < load.end;
    c->number = load.next++;
    if (!more && --load.running == 0) pthread_cond_signal(&load.changed);
    pthread_mutex_unlock(&load.mutex);
    if (more) start_next(c);
}

static void start_next(struct caller *c)
{
    prepare(c);
    c->started = now_us();
    hf__store_submit(store, &c->call);
}

static double bench_store(int in_flight, double seconds, const char *what, double *ret_cpu_us)
{
    static struct caller callers[IN_FLIGHT];
    double begin = now_us(), cpu = cpu_us();
    load.end = begin + seconds * 1e6;
    load.next = load.done = 0;
    load.running = in_flight;
    for (int i = 0; i < in_flight; i++) {
        callers[i].call.done = on_done;
        callers[i].call.user = &callers[i];
        callers[i].number = load.next++;
    }
    for (int i = 0; i < in_flight; i++) start_next(&callers[i]);
    pthread_mutex_lock(&load.mutex);
    while (load.running > 0) pthread_cond_wait(&load.changed, &load.mutex);
    pthread_mutex_unlock(&load.mutex);
    if (ret_cpu_us) *ret_cpu_us = (cpu_us() - cpu) / load.done;
    return row(what, load.done / ((now_us() - begin) / 1e6));
}

/* One caller that waits for each answer, as a program with one lock does. */
static double bench_one_by_one(double seconds, const char *what)
{
    static struct caller c;
    double begin = now_us(), end = begin + seconds * 1e6;
    int count = 0;
    for (; now_us() < end; count++) {
        c.number = count;
        prepare(&c);
        double start = now_us();
        if (hf__store_run(store, &c.call) != 0) die(c.call.answer.error.message);
        add_sample(now_us() - start);
    }
    hf__arena_free(&c.arena);
    return row(what, count / ((now_us() - begin) / 1e6));
}

static void open_store(const char *url)
{
    struct hf_error error;
    struct hf_arena arena = {0};
    if (hf__store_open(url, NULL, &store, &error) != 0) die(error.message);
    struct hf_call call = {.arena = &arena};
    call.op = (struct hf_op){.kind = HF_CREATE_TABLE,
                             .table = hf__store_table(store),
                             .schema = {.hash_name = HF_LIT("key"), .hash_type = HF_S}};
    int code = hf__store_run(store, &call);
    if (code != 0 && code != HF_ERR_TABLE_IN_USE) die(call.answer.error.message);
    hf__arena_free(&arena);
}

static void bench_embedded(const char *directory)
{
    char url[600];
    printf("\nEmbedded engine, items of about 300 bytes, synchronous=FULL\n");
    bench_fdatasync(directory);
    double bare = bench_sqlite(directory, 1, "bare SQLite, one row per commit");
    double batch = bench_sqlite(directory, IN_FLIGHT, "bare SQLite, 64 rows per commit");
    snprintf(url, sizeof url, "file:%s/bench.db", directory);
    open_store(url);
    double single = bench_one_by_one(2, "conditional puts, one by one");
    double grouped = bench_store(IN_FLIGHT, 2, "conditional puts, 64 callers", NULL);
    hf__store_close(store);
    verdict("one by one: cost against a bare commit", bare / single, "x", 1.5, true);
    verdict("64 callers: rate against SQLite's own batches", grouped / batch, "x", 0.6, false);
}

static size_t ignore(char *data, size_t size, size_t count, void *user)
{
    (void)data;
    (void)user;
    return size * count;
}

/* libcurl by itself: the same put, signed by nobody, parsed by nobody. What is left is the floor.
 */
static double bench_curl(const char *url, double seconds)
{
    static CURL *handles[IN_FLIGHT];
    char endpoint[200] = "", body[600];
    const char *found = strstr(url, "endpoint=");
    if (found) snprintf(endpoint, sizeof endpoint, "%s/", found + 9);
    snprintf(
        body, sizeof body,
        "{\"TableName\":\"%.*s\",\"Item\":{\"key\":{\"S\":\"key-1\"},\"data\":{\"S\":\"%.*s\"}}}",
        HF_FMT(hf__store_table(store)), (int)sizeof pad, pad);
    struct curl_slist *headers =
        curl_slist_append(NULL, "Content-Type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, "X-Amz-Target: DynamoDB_20120810.PutItem");
    headers = curl_slist_append(
        headers, "Authorization: AWS4-HMAC-SHA256 Credential=test/20261115/us-east-1/"
                 "dynamodb/aws4_request, SignedHeaders=host, Signature=0");
    CURLM *multi = curl_multi_init();
    for (int i = 0; i < IN_FLIGHT; i++) {
        handles[i] = curl_easy_init();
        curl_easy_setopt(handles[i], CURLOPT_URL, endpoint);
        curl_easy_setopt(handles[i], CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(handles[i], CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(handles[i], CURLOPT_WRITEFUNCTION, ignore);
        curl_multi_add_handle(multi, handles[i]);
    }
    double begin = now_us(), cpu = cpu_us();
    int done = 0, running, left;
    while (now_us() < begin + seconds * 1e6) {
        curl_multi_perform(multi, &running);
        for (CURLMsg *message; (message = curl_multi_info_read(multi, &left)) != NULL; done++) {
            CURL *easy = message->easy_handle;
            if (message->data.result != CURLE_OK) die(curl_easy_strerror(message->data.result));
            curl_multi_remove_handle(multi, easy);
            curl_multi_add_handle(multi, easy);
        }
        curl_multi_poll(multi, NULL, 0, 100, NULL);
    }
    double per_request = (cpu_us() - cpu) / (done ? done : 1);
    printf("  %-52s %9.0f/s\n", "a plain libcurl loop, the same put, 64 in flight",
           done / ((now_us() - begin) / 1e6));
    for (int i = 0; i < IN_FLIGHT; i++) {
        curl_multi_remove_handle(multi, handles[i]);
        curl_easy_cleanup(handles[i]);
    }
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    return per_request;
}

static void bench_dynamodb(const char *url)
{
    double cpu, bare;
    printf("\nDynamoDB engine against DynamoDB Local\n");
    open_store(url);
    bench_store(IN_FLIGHT, 3, "(warming up)", NULL);
    bare = bench_curl(url, 4);
    bench_store(IN_FLIGHT, 4, "conditional puts, 64 in flight", &cpu);
    hf__store_close(store);
    printf("  %-52s %9.2f us\n", "CPU of the plain libcurl loop per request", bare);
    verdict("CPU of the client per request", cpu, "us", 40, true);
}

static bool wanted(const char *section, int argc, char **argv)
{
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], section) == 0) return true;
    return argc < 4;
}

int main(int argc, char **argv)
{
    if (argc < 2) die("usage: bench DIRECTORY [STORE-URL [SECTION...]]");
    memset(pad, 'x', sizeof pad);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (wanted("json", argc, argv)) bench_json();
    if (wanted("embedded", argc, argv)) bench_embedded(argv[1]);
    if (argc > 2 && wanted("dynamodb", argc, argv)) bench_dynamodb(argv[2]);
    return 0;
}
