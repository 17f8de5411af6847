/*
 * The embedded engine: one writer thread per store, readers beside it.
 *
 * Invariants
 * E1  All writes of a process go through its writer thread, which puts whatever
 *     is waiting into one transaction: callers share the cost of one sync.
 * E2  A write is answered after its commit, never before: what was answered
 *     survives a crash (WAL, synchronous=FULL).
 * E3  Readers have connections of their own, opened when they are first needed,
 *     and see every commit that was answered before they began. A database in
 *     memory has only the writer's.
 * E4  The store's time is the boot clock plus an offset kept in the file, set anew
 *     after a reboot and never set back: it does not jump when somebody sets the
 *     wall clock, and all processes on the file agree on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "store/engines.h"
#include "store/execute.h"
#include "store/url.h"

enum { READERS = 2, GUESTS = 4, LARGEST_BATCH = 1024, SWEEP_BATCH = 500 };

struct queue {
    pthread_cond_t filled;
    struct hf_list calls;
};

/* A connection for whoever reads on a thread of their own. */
struct guest {
    pthread_mutex_t mutex;
    struct hf_database db;
};

struct embedded {
    struct hf_store store;
    pthread_mutex_t mutex; /* guards the queues and closing */
    struct queue writes;
    struct queue reads;
    bool closing;  /* the readers end */
    bool draining; /* … and have ended: the writer completes what is left, and ends */
    int sweep_period_ms;
    int64_t offset_us; /* store time − boot time */
    struct hf_database writer_db;
    struct hf_database reader_dbs[READERS];
    pthread_t writer;
    pthread_t readers[READERS];
    int reader_count;
    bool has_writer;
    struct guest guests[GUESTS];
};

struct reader_start {
    struct embedded *engine;
    struct hf_database *db;
};

static int64_t boot_us(const struct embedded *e)
{
    return hf__clock_boot_us(e->store.clock);
}

static int64_t store_us(const struct embedded *e)
{
    return boot_us(e) + e->offset_us;
}

/* ---- completing ---- */

static void complete(struct embedded *e, struct hf_call *call)
{
    struct hf_answer *answer = &call->answer;
    answer->received_boot_us = boot_us(e);
    int64_t now = answer->received_boot_us + e->offset_us;
    answer->store = (struct hf_interval){.known = true, .lo_unix_us = now, .hi_unix_us = now};
    if (answer->code == 0) answer->error = (struct hf_error){0};
    hf__call_done(&e->store, call);
}

static void fail(struct embedded *e, struct hf_call *call, const struct hf_error *error)
{
    call->answer.has_item = false;
    call->answer.code = error->code;
    call->answer.error = *error;
    complete(e, call);
}

/* Completes a call that was cancelled while it waited. */
static bool drop_cancelled(struct embedded *e, struct hf_call *call)
{
    struct hf_error error;
    if (!call->cancelled) return false;
    hf__error_set(&error, HF_ERR_CANCELLED, "%s was cancelled", hf__op_names[call->op.kind]);
    fail(e, call, &error);
    return true;
}

static void fail_all(struct embedded *e, struct hf_list *calls, const struct hf_error *error)
{
    for (struct hf_list *node; (node = hf__list_pop(calls)) != NULL;)
        fail(e, HF_CONTAINER(node, struct hf_call, node), error);
}

/* ---- the writer ---- */

/* Ops whose answer rested on the transaction; a refusal of the request itself did not. */
static bool rests_on_commit(const struct hf_call *call)
{
    return call->answer.code == 0 || call->answer.code == HF_ERR_CONDITION;
}

/*
 * Executes a batch inside an open transaction. Returns an error when SQLite
 * rolled the transaction back under us: then no call of the batch took place.
 */
static int execute_batch(struct embedded *e, struct hf_list *batch, struct hf_error *reterr)
{
    for (struct hf_list *node = batch->next; node != batch; node = node->next) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        hf__execute(&e->writer_db, &call->op, call->arena, store_us(e), &call->answer);
        if (!sqlite3_get_autocommit(e->writer_db.handle)) continue;
        *reterr = call->answer.error;
        return reterr->code ? reterr->code : hf__error_set(reterr, HF_ERR_IO, "transaction lost");
    }
    return 0;
}

/*
 * A commit that fails may yet be found in the log by whoever recovers it. Only
 * when the log could not be locked or written at all is it certain that not.
 */
static int commit(struct embedded *e, struct hf_error *reterr)
{
    int code = hf__database_run(&e->writer_db, HF_SQL_COMMIT, reterr);
    int primary = sqlite3_errcode(e->writer_db.handle) & 0xff;
    if (code == 0 || primary == SQLITE_BUSY || primary == SQLITE_FULL) return code;
    reterr->code = HF_ERR_OUTCOME_UNKNOWN;
    hf__error_prefix(reterr, "it is not known whether this was written");
    return HF_ERR_OUTCOME_UNKNOWN;
}

static void write_batch(struct embedded *e, struct hf_list *batch)
{
    struct hf_error error = {0};
    int64_t sent = boot_us(e);
    for (struct hf_list *node = batch->next, *next; node != batch; node = next) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        next = node->next;
        if (call->cancelled) {
            hf__list_remove(node);
            drop_cancelled(e, call);
            continue;
        }
        call->answer.first_sent_boot_us = call->answer.sent_boot_us = sent;
        call->answer.attempts = 1;
    }
    if (hf__list_empty(batch)) return;
    hf__database_forget(&e->writer_db);
    int code = hf__database_run(&e->writer_db, HF_SQL_BEGIN_WRITE, &error);
    if (code == 0) {
        code = execute_batch(e, batch, &error);
        if (code == 0) code = commit(e, &error);
    }
    hf__database_rollback(&e->writer_db);
    for (struct hf_list *node; (node = hf__list_pop(batch)) != NULL;) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        if (code != 0 && rests_on_commit(call)) {
            struct hf_error mine = error;
            if (!hf__op_is_write(&call->op) && mine.code == HF_ERR_OUTCOME_UNKNOWN)
                mine.code = HF_ERR_IO;
            fail(e, call, &mine);
        } else {
            complete(e, call);
        }
    }
}

static int set_meta(struct embedded *e, const char *name, int64_t value, struct hf_error *reterr)
{
    sqlite3_stmt *set = hf__database_prepare(&e->writer_db, HF_SQL_META_SET, reterr);
    if (!set) return reterr->code;
    hf__bind_text(set, 1, hf__slice_str(name));
    sqlite3_bind_int64(set, 2, value);
    return hf__database_step(&e->writer_db, set, reterr);
}

/* Returns whether there may be more to delete. */
static bool sweep(struct embedded *e)
{
    struct hf_error error = {0};
    int deleted = 0;
    int64_t now = store_us(e);
    int code = hf__database_run(&e->writer_db, HF_SQL_BEGIN_WRITE, &error);
    if (code == 0) code = hf__execute_sweep(&e->writer_db, now, SWEEP_BATCH, &deleted, &error);
    /* What was deleted must stay in the past, also after a reboot with a wrong clock. */
    if (code == 0) code = set_meta(e, "clock_last_us", now, &error);
    if (code == 0) code = hf__database_run(&e->writer_db, HF_SQL_COMMIT, &error);
    hf__database_rollback(&e->writer_db);
    if (code != 0) hf__log(&e->store.log, HF_LOG_WARN, "TTL sweep: %s", error.message);
    return code == 0 && deleted == SWEEP_BATCH;
}

/* Takes up to a batch of calls; waits for the first until a moment. False: nothing came. */
static bool take_batch(struct embedded *e, struct queue *queue, const struct timespec *until,
                       size_t most, struct hf_list *ret)
{
    hf__list_init(ret);
    pthread_mutex_lock(&e->mutex);
    while (hf__list_empty(&queue->calls) && !e->closing) {
        if (!until) pthread_cond_wait(&queue->filled, &e->mutex);
        else if (pthread_cond_timedwait(&queue->filled, &e->mutex, until) == ETIMEDOUT) break;
    }
    for (size_t i = 0; i < most && !hf__list_empty(&queue->calls); i++)
        hf__list_append(ret, hf__list_pop(&queue->calls));
    pthread_mutex_unlock(&e->mutex);
    return !hf__list_empty(ret);
}

static bool is_closing(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    bool closing = e->closing;
    pthread_mutex_unlock(&e->mutex);
    return closing;
}

static bool is_past(const struct timespec *at)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > at->tv_sec || (now.tv_sec == at->tv_sec && now.tv_nsec >= at->tv_nsec);
}

/* Completes what nobody will carry out any more, also what those completions submit. */
static void drain(struct embedded *e)
{
    struct hf_error error;
    struct hf_list left;
    hf__error_set(&error, HF_ERR_CANCELLED, "the store was closed");
    do {
        hf__list_init(&left);
        pthread_mutex_lock(&e->mutex);
        while (!e->draining) pthread_cond_wait(&e->writes.filled, &e->mutex);
        hf__list_splice(&left, &e->writes.calls);
        hf__list_splice(&left, &e->reads.calls);
        pthread_mutex_unlock(&e->mutex);
        bool any = !hf__list_empty(&left);
        fail_all(e, &left, &error);
        if (!any) return;
    } while (true);
}

static void *run_writer(void *arg)
{
    struct embedded *e = arg;
    struct timespec next_sweep = hf__deadline_in(e->sweep_period_ms);
    while (!is_closing(e)) {
        struct hf_list batch;
        if (take_batch(e, &e->writes, &next_sweep, LARGEST_BATCH, &batch)) write_batch(e, &batch);
        if (!is_past(&next_sweep) || is_closing(e)) continue;
        bool more = sweep(e);
        next_sweep = hf__deadline_in(more ? 0 : e->sweep_period_ms);
    }
    drain(e);
    return NULL;
}

/* ---- the readers ---- */

/* Fills in the answer; false: the error says why there is none. */
static bool read_from(struct embedded *e, struct hf_database *db, struct hf_call *call,
                      struct hf_error *reterr)
{
    struct hf_answer *answer = &call->answer;
    if (!db->handle && hf__database_reopen(db, &e->writer_db, reterr) != 0) return false;
    hf__database_forget(db);
    answer->first_sent_boot_us = answer->sent_boot_us = boot_us(e);
    answer->attempts = 1;
    if (hf__database_run(db, HF_SQL_BEGIN_READ, reterr) != 0) return false;
    hf__execute(db, &call->op, call->arena, store_us(e), answer);
    hf__database_rollback(db);
    return true;
}

static void read_one(struct embedded *e, struct hf_database *db, struct hf_call *call)
{
    struct hf_error error = {0};
    if (drop_cancelled(e, call)) return;
    if (read_from(e, db, call, &error)) complete(e, call);
    else fail(e, call, &error);
}

static void *run_reader(void *arg)
{
    struct reader_start start = *(struct reader_start *)arg;
    struct embedded *e = start.engine;
    hf__free(arg);
    while (!is_closing(e)) {
        struct hf_list batch;
        if (!take_batch(e, &e->reads, NULL, 1, &batch)) continue;
        read_one(e, start.db, HF_CONTAINER(batch.next, struct hf_call, node));
    }
    return NULL;
}

/* ---- the interface ---- */

static void submit(struct hf_store *store, struct hf_call *call)
{
    struct embedded *e = (struct embedded *)store;
    bool writes = hf__op_is_write(&call->op) || e->reader_count == 0;
    struct queue *queue = writes ? &e->writes : &e->reads;
    pthread_mutex_lock(&e->mutex);
    hf__list_append(&queue->calls, &call->node);
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&e->mutex);
}

/* Whichever guest's place is free; a database in memory has none. */
static bool read_here(struct hf_store *store, struct hf_call *call)
{
    struct embedded *e = (struct embedded *)store;
    static __thread unsigned first;
    if (e->reader_count == 0) return false;
    for (unsigned i = 0; i < GUESTS; i++) {
        struct guest *guest = &e->guests[(first + i) % GUESTS];
        if (pthread_mutex_trylock(&guest->mutex) != 0) continue;
        first = (first + i) % GUESTS; /* where its pages are warm */
        struct hf_error error = {0};
        bool good = read_from(e, &guest->db, call, &error);
        pthread_mutex_unlock(&guest->mutex);
        if (good) complete(e, call);
        else fail(e, call, &error);
        return true;
    }
    return false;
}

static bool mark_cancelled(struct hf_list *calls, uint64_t id)
{
    for (struct hf_list *node = calls->next; node != calls; node = node->next) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        if (call->id != id) continue;
        call->cancelled = true;
        return true;
    }
    return false;
}

/* Only what is still waiting can be taken back; the rest is done in a moment anyway. */
static void cancel(struct hf_store *store, uint64_t id)
{
    struct embedded *e = (struct embedded *)store;
    pthread_mutex_lock(&e->mutex);
    if (!mark_cancelled(&e->writes.calls, id)) mark_cancelled(&e->reads.calls, id);
    pthread_mutex_unlock(&e->mutex);
}

static void destroy(struct embedded *e)
{
    hf__database_close(&e->writer_db);
    for (int i = 0; i < READERS; i++) hf__database_close(&e->reader_dbs[i]);
    for (int i = 0; i < GUESTS; i++) {
        hf__database_close(&e->guests[i].db);
        pthread_mutex_destroy(&e->guests[i].mutex);
    }
    pthread_cond_destroy(&e->writes.filled);
    pthread_cond_destroy(&e->reads.filled);
    pthread_mutex_destroy(&e->mutex);
    hf__free(e->store.table);
    hf__free(e);
}

static void announce(struct embedded *e, bool *what)
{
    pthread_mutex_lock(&e->mutex);
    *what = true;
    pthread_cond_broadcast(&e->writes.filled);
    pthread_cond_broadcast(&e->reads.filled);
    pthread_mutex_unlock(&e->mutex);
}

static void close_store(struct hf_store *store)
{
    struct embedded *e = (struct embedded *)store;
    announce(e, &e->closing);
    for (int i = 0; i < e->reader_count; i++) pthread_join(e->readers[i], NULL);
    announce(e, &e->draining);
    if (e->has_writer) pthread_join(e->writer, NULL);
    destroy(e);
}

static int describe(struct hf_store *store, struct hf_store_info *ret, struct hf_error *reterr)
{
    (void)reterr;
    const struct embedded *e = HF_CONTAINER(store, struct embedded, store);
    bool in_memory = strcmp(e->writer_db.name, "memory:") == 0;
    ret->kind = in_memory ? "memory" : "file";
    snprintf(ret->place, sizeof ret->place, "%s", in_memory ? "" : e->writer_db.name);
    return 0;
}

static int64_t now_unix_us(const struct hf_store *store)
{
    return store_us(HF_CONTAINER(store, struct embedded, store));
}

static const struct hf_store_engine embedded_engine = {
    .submit = submit,
    .read_here = read_here,
    .cancel = cancel,
    .close = close_store,
    .describe = describe,
    .now_unix_us = now_unix_us,
};

/* ---- the store's time ---- */

/* What tells this boot of this machine (and its time namespace) from others; "" if nothing does. */
static void boot_identity(char *ret, size_t size)
{
    char boot[64] = "", space[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, boot, sizeof boot - 1) : -1;
    if (fd >= 0) close(fd);
    boot[len > 0 ? (size_t)len : 0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    len = readlink("/proc/self/ns/time", space, sizeof space - 1);
    space[len > 0 ? (size_t)len : 0] = '\0';
    ret[0] = '\0';
    if (boot[0]) snprintf(ret, size, "%s %s", boot, space);
}

/* The row of a meta value, valid until the statement is used again; NULL if there is none, or on
 * error. */
static sqlite3_stmt *get_meta(struct embedded *e, const char *name, struct hf_error *reterr)
{
    sqlite3_stmt *get = hf__database_prepare(&e->writer_db, HF_SQL_META_GET, reterr);
    if (!get) return NULL;
    hf__bind_text(get, 1, hf__slice_str(name));
    int result = sqlite3_step(get);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        hf__database_error(&e->writer_db, "read", reterr);
    return result == SQLITE_ROW ? get : NULL;
}

static int64_t get_meta_int(struct embedded *e, const char *name, struct hf_error *reterr)
{
    sqlite3_stmt *row = get_meta(e, name, reterr);
    int64_t value = row ? sqlite3_column_int64(row, 0) : 0;
    if (row) sqlite3_reset(row);
    return value;
}

static int set_meta_text(struct embedded *e, const char *name, const char *value,
                         struct hf_error *reterr)
{
    sqlite3_stmt *set = hf__database_prepare(&e->writer_db, HF_SQL_META_SET, reterr);
    if (!set) return reterr->code;
    hf__bind_text(set, 1, hf__slice_str(name));
    hf__bind_text(set, 2, hf__slice_str(value));
    return hf__database_step(&e->writer_db, set, reterr);
}

/* The offset that this boot's first process stored; false if this boot has none yet. */
static bool find_offset(struct embedded *e, const char *identity, struct hf_error *reterr)
{
    sqlite3_stmt *row = get_meta(e, "clock_boot", reterr);
    bool same = row && identity[0] && hf__slice_is(hf__column(row, 0), identity);
    if (row) sqlite3_reset(row);
    e->offset_us = get_meta_int(e, "clock_offset_us", reterr);
    return same;
}

/* Whether all is as it should be, and was written down not long ago. */
static bool has_fresh_offset(struct embedded *e, struct hf_error *reterr)
{
    char identity[160];
    boot_identity(identity, sizeof identity);
    if (!find_offset(e, identity, reterr)) return false;
    int64_t last = get_meta_int(e, "clock_last_us", reterr);
    int64_t age_us = store_us(e) - last;
    return reterr->code == 0 && age_us >= 0 && age_us < (int64_t)e->sweep_period_ms * 1000;
}

static int choose_offset(struct embedded *e, struct hf_error *reterr)
{
    char identity[160];
    boot_identity(identity, sizeof identity);
    bool known = find_offset(e, identity, reterr);
    int64_t last = get_meta_int(e, "clock_last_us", reterr);
    if (reterr->code != 0) return reterr->code;
    int code = 0;
    if (!known || store_us(e) < last) {
        int64_t wall = hf__clock_wall_us(e->store.clock);
        e->offset_us = (wall > last ? wall : last) - boot_us(e);
        code = set_meta_text(e, "clock_boot", identity, reterr);
        if (code == 0) code = set_meta(e, "clock_offset_us", e->offset_us, reterr);
    }
    return code == 0 ? set_meta(e, "clock_last_us", store_us(e), reterr) : code;
}

/* E4: the offset of this boot, or a new one that does not lead back. */
static int set_clock(struct embedded *e, struct hf_error *reterr)
{
    struct hf_error error = {0};
    if (has_fresh_offset(e, &error)) return 0; /* nobody has to wait for a sync */
    error = (struct hf_error){0};
    int code = hf__database_run(&e->writer_db, HF_SQL_BEGIN_WRITE, &error);
    if (code == 0) code = choose_offset(e, &error);
    if (code == 0) code = hf__database_run(&e->writer_db, HF_SQL_COMMIT, &error);
    hf__database_rollback(&e->writer_db);
    return code == 0 ? 0 : hf__error_set(reterr, code, "%s", error.message);
}

/* ---- opening ---- */

static int start_threads(struct embedded *e, int readers, struct hf_error *reterr)
{
    if (hf__thread_create(&e->writer, run_writer, e) != 0)
        return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread");
    e->has_writer = true;
    for (int i = 0; i < readers; i++) {
        struct reader_start *start = hf__malloc(sizeof *start);
        if (!start) return hf__error_no_memory(reterr);
        *start = (struct reader_start){e, &e->reader_dbs[i]};
        if (hf__thread_create(&e->readers[i], run_reader, start) != 0) {
            hf__free(start);
            return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread");
        }
        e->reader_count++;
    }
    return 0;
}

static struct embedded *new_engine(const struct hf_store_options *options)
{
    struct embedded *e = hf__calloc(1, sizeof *e);
    if (!e) return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->mutex, NULL);
    for (int i = 0; i < GUESTS; i++) pthread_mutex_init(&e->guests[i].mutex, NULL);
    pthread_cond_init(&e->writes.filled, &monotonic);
    pthread_cond_init(&e->reads.filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    hf__list_init(&e->writes.calls);
    hf__list_init(&e->reads.calls);
    e->sweep_period_ms = options->sweep_period_ms ? options->sweep_period_ms : 60000;
    return e;
}

static int open_engine(const char *path, const char *table, const struct hf_store_options *options,
                       struct hf_store **ret, struct hf_error *reterr)
{
    int busy_ms = options->busy_timeout_ms ? options->busy_timeout_ms : 5000;
    struct embedded *e = new_engine(options);
    if (!e) return hf__error_no_memory(reterr);
    int code = hf__store_init(&e->store, &embedded_engine, options, table, reterr);
    e->store.embedded = true;
    if (code == 0) code = hf__database_open(&e->writer_db, path, e->store.clock, busy_ms, reterr);
    if (code == 0) code = set_clock(e, reterr);
    if (code == 0) code = start_threads(e, path ? READERS : 0, reterr);
    if (code == 0) *ret = &e->store;
    else close_store(&e->store);
    return code;
}

static int open_url(struct hf_arena *arena, const char *text, const char *prefix,
                    const struct hf_store_options *options, struct hf_store **ret,
                    struct hf_error *reterr)
{
    static const char *const known[] = {"table", NULL};
    struct hf_url url;
    bool in_memory = strcmp(prefix, "memory:") == 0;
    int code = hf__url_parse(arena, text, prefix, known, &url, reterr);
    if (code != 0) return code;
    if (in_memory != (url.path[0] == '\0'))
        return hf__error_set(reterr, HF_ERR_INVALID, "%s",
                             in_memory
                                 ? "memory: takes no path; use file:PATH to keep the data"
                                 : "file: needs a path, as in file:/var/lib/holdfast/locks.db");
    const char *table = hf__url_get(&url, "table");
    return open_engine(in_memory ? NULL : url.path, table ? table : "locks", options, ret, reterr);
}

int hf__embedded_open_file(struct hf_arena *arena, const char *url,
                           const struct hf_store_options *options, struct hf_store **ret,
                           struct hf_error *reterr)
{
    if (strncmp(url, "file://", 7) == 0 && url[7] != '/')
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "\"%s\": write file:PATH, without slashes before a relative path",
                             url);
    return open_url(arena, url, "file:", options, ret, reterr);
}

int hf__embedded_open_memory(struct hf_arena *arena, const char *url,
                             const struct hf_store_options *options, struct hf_store **ret,
                             struct hf_error *reterr)
{
    return open_url(arena, url, "memory:", options, ret, reterr);
}
