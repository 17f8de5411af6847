/*
 * The embedded engine: one writer thread per store, readers beside it.
 *
 * Invariants
 * E1  All writes of a process go through its writer thread, which puts whatever
 *     is waiting into one transaction: callers share the cost of one sync. The
 *     bell's thread may write, too, while the writer rests: a waiter that hears
 *     of a release then acquires without waking another thread. The pen tells
 *     which of the two writes.
 * E2  A write is answered after its commit, never before: what was answered
 *     survives a crash (WAL, synchronous=FULL). Others may see a release before (is_early).
 * E3  Readers have connections of their own, opened when they are first needed,
 *     and see every commit that was answered before they began. A database in
 *     memory has only the writer's.
 * E4  The store's time is the file's (timeline.h), not the wall clock's.
 * E5  A file that was deleted, moved or replaced is noticed by the next operation
 *     (place.h): nothing is answered from what nobody else can see.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "store/bell.h"
#include "store/engines.h"
#include "store/execute.h"
#include "store/lanes.h"
#include "store/place.h"
#include "store/timeline.h"
#include "store/url.h"

enum {
    READERS = 2,
    SPARE_READERS = 4,
    LARGEST_BATCH = 1024,
    LONGEST_TRANSACTION_US = 50000,
    LONGEST_FOR_GUESTS_US = 2000, /* of it, for other lanes than the protocol's */
    PAUSE_MS = 10, /* in our own work, for other processes: longer than they pause (database.c) */
    RETRY_MS = 1000,
    QUIET_MS = 1,             /* nobody writes: there is time to get ready */
    OWN_OF = 4,               /* one place in four of a batch is open to all lanes */
    LONGEST_HERE = 32 * 1024, /* longer items are for the readers: read_here */
};

struct queue {
    pthread_cond_t filled;
    struct hf_lanes calls;
};

/* A connection for callers that read on their own thread. */
struct spare_reader {
    pthread_mutex_t mutex;
    struct hf_database db;
};

struct embedded {
    struct hf_store store;
    pthread_mutex_t mutex; /* guards the queues and closing */
    struct queue writes;
    struct queue reads;
    pthread_cond_t idle;
    int busy;          /* threads that are in a transaction, or about to be */
    bool pen_is_taken; /* by the thread that uses writer_db */
    bool paused;       /* no more of them */
    bool corked;       /* the writer need not be woken for what comes now */
    pthread_t corker;
    struct spare_reader
        *reading;  /* the corker's: a read transaction that is open until it uncorks */
    bool warms;    /* the writer gets ready, since somebody waits to write */
    bool closing;  /* the readers and the bell end */
    bool draining; /* … and have ended: the writer completes what is left, and ends */
    int sweep_period_ms;
    struct hf_timeline timeline;
    struct hf_place place; /* without paths: in memory */
    struct hf_bell bell;
    struct hf_database writer_db;
    struct hf_database reader_dbs[READERS];
    pthread_t writer;
    pthread_t readers[READERS];
    int reader_count;
    bool has_writer;
    struct spare_reader spare_readers[SPARE_READERS];
};

struct reader_start {
    struct embedded *engine;
    struct hf_database *db;
};

static int64_t boot_us(const struct embedded *e)
{
    return hf__clock_boot_us(e->store.clock);
}

/* For writes; leases are judged by the caller that gets the answer. */
static int64_t store_us(const struct embedded *e)
{
    return hf__timeline_at(&e->timeline, boot_us(e)).hi_unix_us;
}

/* ---- completing ---- */

static void finish(struct embedded *e, struct hf_call *call)
{
    struct hf_answer *answer = &call->answer;
    answer->received_boot_us = boot_us(e);
    answer->store = hf__timeline_at(&e->timeline, answer->received_boot_us);
    if (answer->code == 0) answer->error = (struct hf_error){0};
}

static void complete(struct embedded *e, struct hf_call *call)
{
    finish(e, call);
    hf__call_done(&e->store, call);
}

static void set_failed(struct hf_call *call, const struct hf_error *error)
{
    call->answer.has_item = false;
    call->answer.code = error->code;
    call->answer.error = *error;
}

static void fail(struct embedded *e, struct hf_call *call, const struct hf_error *error)
{
    set_failed(call, error);
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

/* Calls that no longer fit into a transaction go back, for a later one. */
static void put_off(struct embedded *e, struct hf_list *calls)
{
    if (hf__list_empty(calls)) return;
    pthread_mutex_lock(&e->mutex);
    hf__lanes_put_back(&e->writes.calls, calls);
    pthread_mutex_unlock(&e->mutex);
}

/* Whether a batch that began long ago, or has served guests for long, leaves a call to a later one. */
static bool is_for_later(const struct hf_call *call, bool is_first, int64_t spent_us,
                         int64_t guests_us)
{
    return (!is_first && spent_us > LONGEST_TRANSACTION_US) ||
           (call->lane != 0 && guests_us > LONGEST_FOR_GUESTS_US);
}

/*
 * Executes a batch inside an open transaction, or as much of it as may be: other processes wait
 * meanwhile, and the protocol's calls for those of guests. Returns an error when SQLite rolled the
 * transaction back under us: then no call of the batch took place.
 */
static int execute_batch(struct embedded *e, struct hf_list *batch, struct hf_error *reterr)
{
    int64_t start = hf__clock_boot_us(&hf__clock_system), now = start, guests_us = 0;
    struct hf_list later;
    int code = 0;
    hf__list_init(&later);
    for (struct hf_list *node = batch->next, *next; node != batch && code == 0; node = next) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        next = node->next;
        if (is_for_later(call, node == batch->next, now - start, guests_us)) {
            hf__list_remove(node);
            hf__list_append(&later, node);
            continue;
        }
        hf__execute(&e->writer_db, &call->op, call->arena, store_us(e), &call->answer);
        int64_t before = now;
        now = hf__clock_boot_us(&hf__clock_system);
        if (call->lane != 0) guests_us += now - before;
        if (!sqlite3_get_autocommit(e->writer_db.handle)) continue;
        *reterr = call->answer.error;
        code = reterr->code ? reterr->code : hf__error_set(reterr, HF_ERR_IO, "transaction lost");
    }
    put_off(e, &later);
    return code;
}

/*
 * A commit that fails may still be found in the log by a process that recovers
 * it. Only if the log could not be locked or written at all is it certain that
 * nothing was written.
 */
static int commit(struct embedded *e, struct hf_error *reterr)
{
    int code = hf__database_commit(&e->writer_db, reterr);
    int primary = sqlite3_errcode(e->writer_db.handle) & 0xff;
    if (code == 0 || primary == SQLITE_BUSY || primary == SQLITE_FULL) return code;
    reterr->code = HF_ERR_OUTCOME_UNKNOWN;
    hf__error_prefix(reterr, "it is not known whether this was written");
    return HF_ERR_OUTCOME_UNKNOWN;
}

/* Takes out what was cancelled while it waited, and notes when the rest was sent. */
static void begin_batch(struct embedded *e, struct hf_list *batch)
{
    int64_t sent = boot_us(e);
    for (struct hf_list *node = batch->next, *next; node != batch; node = next) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        next = node->next;
        if (call->cancelled) {
            hf__list_remove(node);
            drop_cancelled(e, call);
            continue;
        }
        call->answer =
            (struct hf_answer){.first_sent_boot_us = sent, .sent_boot_us = sent, .attempts = 1};
    }
}

static bool is_any_full(const struct hf_list *batch)
{
    for (const struct hf_list *node = batch->next; node != batch; node = node->next)
        if (HF_CONTAINER(node, struct hf_call, node)->answer.code == HF_ERR_FULL) return true;
    return false;
}

static bool changes_anything(const struct hf_list *batch)
{
    for (const struct hf_list *node = batch->next; node != batch; node = node->next) {
        const struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        if (call->answer.code == 0 && hf__op_is_write(&call->op)) return true;
    }
    return false;
}

/*
 * A batch that only gives something up is seen by others at once: who waits for it may begin while
 * it is being synced. Should the power fail meanwhile, nobody was told of it, and what others have
 * done since is either lost as well or, being synced behind it in the same log, has made it durable.
 */
static bool is_early(const struct embedded *e, const struct hf_list *batch)
{
    bool any = false;
    for (const struct hf_list *node = batch->next; node != batch; node = node->next) {
        const struct hf_op *op = &HF_CONTAINER(node, struct hf_call, node)->op;
        if (hf__op_is_write(op) && !op->frees) return false;
        any |= op->frees != 0;
    }
    return any && e->timeline.lock_fd >= 0; /* a file */
}

/* Waiters may poll now. */
static void ring(struct embedded *e, uint64_t freed)
{
    if (e->timeline.lock_fd >= 0) hf__bell_ring(e->timeline.lock_fd, freed);
    else hf__bell_tell(&e->bell, 0);
}

/*
 * With the file locked: who hears it now, and writes, comes next. So a waiter wakes up while we
 * write. It is rung again when others can see it.
 */
static void ring_early(struct embedded *e, const struct hf_list *batch)
{
    ring(e, HF_CONTAINER(batch->next, struct hf_call, node)->op.frees);
}

/* One transaction. HF_ERR_FULL: nothing was written. */
static int try_batch(struct embedded *e, struct hf_list *batch, bool early, bool is_last_try,
                     struct hf_error *reterr)
{
    hf__database_forget(&e->writer_db);
    int code = hf__place_verify(&e->place, reterr);
    if (code == 0) code = hf__database_set_durable(&e->writer_db, !early, reterr);
    if (code == 0) code = hf__database_begin_write(&e->writer_db, reterr);
    if (code == 0) {
        if (early) ring_early(e, batch);
        code = hf__timeline_write_down(&e->timeline, &e->writer_db, boot_us(e), reterr);
        if (code == 0) code = execute_batch(e, batch, reterr);
        if (code == 0 && !is_last_try && is_any_full(batch)) code = HF_ERR_FULL;
        if (code == 0) code = commit(e, reterr);
        if (code == 0) hf__timeline_committed(&e->timeline);
    }
    hf__database_rollback(&e->writer_db);
    if (code != 0 || hf__place_verify(&e->place, reterr) == 0) return code;
    return reterr->code = HF_ERR_OUTCOME_UNKNOWN; /* in a file that nobody else sees any more */
}

static void write_batch(struct embedded *e, struct hf_list *batch)
{
    struct hf_error error = {0};
    begin_batch(e, batch);
    if (hf__list_empty(batch)) return;
    bool early = is_early(e, batch);
    int code = try_batch(e, batch, early, false, &error);
    if (code == HF_ERR_FULL) { /* perhaps only of a log that could begin again */
        hf__database_checkpoint(&e->writer_db);
        begin_batch(e, batch);
        error = (struct hf_error){0};
        code = try_batch(e, batch, early, true, &error);
    }
    struct hf_mailbox *last = NULL;
    /* Before any caller is answered, since a caller may end the process then. */
    if (code == 0 && changes_anything(batch)) ring(e, 0);
    if (code == 0 && early && hf__database_sync(&e->writer_db, &error) != 0)
        code = error.code = HF_ERR_OUTCOME_UNKNOWN;
    for (struct hf_list *node; (node = hf__list_pop(batch)) != NULL;) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        if (code != 0 && !call->answer.at_once) { /* it rests on what others have written here */
            struct hf_error mine = error;
            if (!hf__op_is_write(&call->op) && mine.code == HF_ERR_OUTCOME_UNKNOWN)
                mine.code = HF_ERR_IO;
            set_failed(call, &mine);
        }
        finish(e, call);
        hf__call_done_of_many(&e->store, call, &last);
    }
    hf__call_done_of_many(&e->store, NULL, &last);
}

typedef int (*own_work_fn)(struct hf_database *db, int64_t now_unix_us, bool *ret_more,
                           struct hf_error *reterr);

/* Work that comes from no queue, in a transaction. Returns when to go on, or 0: it is done. */
static int work(struct embedded *e, own_work_fn go, const char *what)
{
    struct hf_error error = {0};
    bool more = false;
    int64_t boot = boot_us(e);
    int64_t now = hf__timeline_at(&e->timeline, boot).lo_unix_us;
    int code = hf__place_verify(&e->place, &error);
    if (code == 0) code = hf__database_set_durable(&e->writer_db, true, &error);
    if (code == 0) code = hf__database_begin_write(&e->writer_db, &error);
    if (code == 0) code = go(&e->writer_db, now, &more, &error);
    /* What was deleted must stay in the past, also after a reboot with a wrong clock. */
    if (code == 0) code = hf__timeline_write_down(&e->timeline, &e->writer_db, boot, &error);
    if (code == 0) code = hf__database_commit(&e->writer_db, &error);
    if (code == 0) hf__timeline_committed(&e->timeline);
    hf__database_rollback(&e->writer_db);
    if (code != 0) hf__log(&e->store.log, HF_LOG_WARN, "%s: %s", what, error.message);
    return code != 0 ? RETRY_MS : more ? PAUSE_MS : 0;
}

/* With the mutex. */
static bool must_wait(const struct embedded *e, const struct queue *queue)
{
    bool writes = queue == &e->writes;
    if (e->closing) return false;
    if (writes && e->pen_is_taken) return true;
    return e->paused || (queue->calls.count == 0 && !(writes && e->warms));
}

/* Takes up to a batch of calls; waits for the first until a moment. False: nothing came. */
static bool take_batch(struct embedded *e, struct queue *queue, const struct timespec *until,
                       size_t most, struct hf_list *ret)
{
    hf__list_init(ret);
    pthread_mutex_lock(&e->mutex);
    while (must_wait(e, queue)) {
        if (!until) pthread_cond_wait(&queue->filled, &e->mutex);
        else if (pthread_cond_timedwait(&queue->filled, &e->mutex, until) == ETIMEDOUT) break;
    }
    bool writes = queue == &e->writes, may = !e->paused && !(writes && e->pen_is_taken);
    for (size_t i = 0; i < most && may; i++) {
        struct hf_call *call = hf__lanes_take(&queue->calls, writes && i % OWN_OF != OWN_OF - 1);
        if (!call) break;
        hf__list_append(ret, &call->node);
    }
    bool any = !hf__list_empty(ret);
    if (any) e->busy++;
    if (any && writes) e->pen_is_taken = true;
    pthread_mutex_unlock(&e->mutex);
    return any;
}

static void rest(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    if (--e->busy == 0) pthread_cond_signal(&e->idle);
    pthread_mutex_unlock(&e->mutex);
}

/* For what comes from no queue. */
static bool take_pen(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    bool may = !e->paused && !e->closing && !e->pen_is_taken;
    if (may) e->busy++;
    if (may) e->pen_is_taken = true;
    pthread_mutex_unlock(&e->mutex);
    return may;
}

static void put_pen_down(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    e->pen_is_taken = false;
    if (--e->busy == 0) pthread_cond_signal(&e->idle);
    bool wakes =
        (e->writes.calls.count > 0 || e->warms) && !pthread_equal(pthread_self(), e->writer);
    pthread_mutex_unlock(&e->mutex);
    if (wakes) pthread_cond_signal(&e->writes.filled);
}

/* ---- connections that read ---- */

static bool begin_reading(struct embedded *e, struct hf_database *db, struct hf_error *reterr)
{
    if (hf__place_verify(&e->place, reterr) != 0) return false;
    if (!db->handle && (hf__database_reopen(db, &e->writer_db, reterr) != 0 ||
                        hf__place_verify(&e->place, reterr) != 0))
        return false;
    hf__database_forget(db);
    return hf__database_run(db, HF_SQL_BEGIN_READ, reterr) == 0;
}

/* A spare connection that is free, locked; a database in memory has none. */
static struct spare_reader *find_spare_reader(struct embedded *e)
{
    static __thread unsigned first;
    for (unsigned i = 0; i < SPARE_READERS && e->reader_count > 0; i++) {
        struct spare_reader *spare = &e->spare_readers[(first + i) % SPARE_READERS];
        if (pthread_mutex_trylock(&spare->mutex) != 0) continue;
        first = (first + i) % SPARE_READERS; /* where its pages are warm */
        return spare;
    }
    return NULL;
}

/* With the spare's place locked. */
static void put_spare_back(struct spare_reader *spare)
{
    if (spare->db.handle) hf__database_rollback(&spare->db);
    pthread_mutex_unlock(&spare->mutex);
}

/*
 * A waiter has time now for what its first read and write do besides; the next holder has not. The
 * first sync of a file that SQLite has opened also syncs its directory.
 */
static void warm_up_for_wait(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    bool warms = e->warms;
    pthread_mutex_unlock(&e->mutex);
    if (!warms || !take_pen(e)) return;
    pthread_mutex_lock(&e->mutex);
    e->warms = false;
    pthread_mutex_unlock(&e->mutex);
    struct hf_error ignored = {0};
    struct spare_reader *spare = find_spare_reader(e);
    if (spare && begin_reading(e, &spare->db, &ignored)) hf__database_warm_up(&spare->db);
    if (spare) put_spare_back(spare);
    hf__database_warm_up(&e->writer_db);
    hf__database_make_room(&e->writer_db);
    hf__database_sync(&e->writer_db, &ignored);
    put_pen_down(e);
}

/* A holder has time now for what its release will need. */
static void warm_up_for_release(struct embedded *e)
{
    struct hf_error ignored = {0};
    if (!take_pen(e)) return;
    hf__database_warm_up(&e->writer_db);
    hf__database_set_durable(&e->writer_db, false, &ignored);
    put_pen_down(e);
}

/* ---- the writer's thread ---- */

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

/*
 * Completes calls that will not be carried out any more, and those that their completions submit.
 */
static void drain(struct embedded *e)
{
    struct hf_error error;
    struct hf_list left;
    hf__error_set(&error, HF_ERR_CANCELLED, "the store was closed");
    do {
        hf__list_init(&left);
        pthread_mutex_lock(&e->mutex);
        while (!e->draining) pthread_cond_wait(&e->writes.filled, &e->mutex);
        for (struct hf_call *call; (call = hf__lanes_take(&e->writes.calls, true)) != NULL;)
            hf__list_append(&left, &call->node);
        for (struct hf_call *call; (call = hf__lanes_take(&e->reads.calls, true)) != NULL;)
            hf__list_append(&left, &call->node);
        pthread_mutex_unlock(&e->mutex);
        bool any = !hf__list_empty(&left);
        fail_all(e, &left, &error);
        if (!any) return;
    } while (true);
}

static void *run_writer(void *arg)
{
    struct embedded *e = arg;
    struct timespec next_sweep = hf__deadline_in(e->sweep_period_ms), next_chore = next_sweep;
    struct hf_database *db = &e->writer_db;
    if (db->has_chores) next_chore = hf__deadline_in(PAUSE_MS); /* of a process that has ended */
    enum { COLD, USED, WARM } heat = COLD;
    while (!is_closing(e)) {
        struct hf_list batch;
        bool had_chores = db->has_chores;
        struct timespec until = db->has_chores ? next_chore : next_sweep;
        if (heat == USED) until = hf__deadline_in(QUIET_MS);
        if (take_batch(e, &e->writes, &until, LARGEST_BATCH, &batch)) {
            write_batch(e, &batch);
            put_pen_down(e);
            if (heat == COLD) heat = USED;
        } else if (heat == USED) {
            warm_up_for_release(e);
            heat = WARM;
        }
        warm_up_for_wait(e);
        if (db->has_chores && !had_chores) next_chore = hf__deadline_in(PAUSE_MS);
        bool sweeps = is_past(&next_sweep), works = db->has_chores && is_past(&next_chore);
        if (!sweeps && !works) continue;
        if (!take_pen(e)) {
            next_chore = next_sweep = hf__deadline_in(PAUSE_MS);
            continue;
        }
        if (works) {
            int pause_ms = work(e, hf__execute_chore, "work on a table");
            db->has_chores = pause_ms > 0;
            next_chore = hf__deadline_in(pause_ms);
        }
        if (sweeps) {
            int pause_ms = work(e, hf__execute_sweep, "TTL sweep");
            next_sweep = hf__deadline_in(pause_ms ? pause_ms : e->sweep_period_ms);
            db->has_chores |= hf__execute_has_chores(db);
        }
        put_pen_down(e);
    }
    drain(e);
    return NULL;
}

/* ---- the readers ---- */

/* Within a transaction. */
static void answer_from(struct embedded *e, struct hf_database *db, struct hf_call *call)
{
    struct hf_answer *answer = &call->answer;
    answer->first_sent_boot_us = answer->sent_boot_us = boot_us(e);
    answer->attempts = 1;
    hf__execute(db, &call->op, call->arena, store_us(e), answer);
}

/* Fills in the answer; false: the error says why there is none. */
static bool read_from(struct embedded *e, struct hf_database *db, struct hf_call *call,
                      struct hf_error *reterr)
{
    if (!begin_reading(e, db, reterr)) return false;
    answer_from(e, db, call);
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
    hf__thread_make_way();
    while (!is_closing(e)) {
        struct hf_list batch;
        if (!take_batch(e, &e->reads, NULL, 1, &batch)) continue;
        read_one(e, start.db, HF_CONTAINER(batch.next, struct hf_call, node));
        rest(e);
    }
    return NULL;
}

/* ---- the interface ---- */

/* What is asked on the bell's thread while it tells: it is done there, and no other thread woken. */
static __thread struct {
    const struct embedded *of; /* NULL: it does not tell */
    struct hf_list reads;
    struct hf_list writes;
} asked;

static void enqueue(struct embedded *e, struct hf_call *call, bool writes)
{
    struct queue *queue = writes ? &e->writes : &e->reads;
    pthread_mutex_lock(&e->mutex);
    /* The writer takes all there is, a reader one. */
    bool wakes = !writes || (queue->calls.count == 0 && !e->corked);
    hf__lanes_add(&queue->calls, call);
    pthread_mutex_unlock(&e->mutex);
    if (wakes) pthread_cond_signal(&queue->filled); /* the woken thread finds the mutex free */
}

static void submit(struct hf_store *store, struct hf_call *call)
{
    struct embedded *e = (struct embedded *)store;
    bool writes = hf__op_is_write(&call->op) || e->reader_count == 0;
    if (asked.of == e) hf__list_append(writes ? &asked.writes : &asked.reads, &call->node);
    else enqueue(e, call, writes);
}

static bool is_corker(struct embedded *e)
{
    return __atomic_load_n(&e->corked, __ATOMIC_RELAXED) &&
           pthread_equal(e->corker, pthread_self());
}

/*
 * A caller that reads here must not be delayed: long reads are left to a reader's thread.
 *
 * A caller that has corked the store reads several times in one transaction: every request that it
 * has by then arrived before the transaction began, or is answered as of a later moment.
 */
static bool read_here(struct hf_store *store, struct hf_call *call)
{
    struct embedded *e = (struct embedded *)store;
    bool goes_on = is_corker(e);
    struct hf_error error = {0};
    bool good = true;
    struct spare_reader *spare = goes_on && e->reading ? e->reading : find_spare_reader(e);
    if (!spare) return false;
    if (!goes_on || !e->reading) good = begin_reading(e, &spare->db, &error);
    spare->db.longest = LONGEST_HERE;
    spare->db.declined = false;
    if (good) answer_from(e, &spare->db, call);
    bool declined = spare->db.declined;
    if (good && goes_on) e->reading = spare;
    else put_spare_back(spare);
    if (declined) {
        call->answer = (struct hf_answer){0};
        return false;
    }
    if (good) complete(e, call);
    else fail(e, call, &error);
    return true;
}

static bool may_read(struct embedded *e)
{
    pthread_mutex_lock(&e->mutex);
    bool may = !e->paused && !e->closing;
    if (may) e->busy++;
    pthread_mutex_unlock(&e->mutex);
    return may;
}

static void read_asked(struct embedded *e)
{
    if (hf__list_empty(&asked.reads)) return;
    bool may = may_read(e);
    for (struct hf_list *node; (node = hf__list_pop(&asked.reads)) != NULL;) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        if (!may || !read_here(&e->store, call)) enqueue(e, call, false);
    }
    if (may) rest(e);
}

static void write_asked(struct embedded *e)
{
    if (hf__list_empty(&asked.writes)) return;
    if (take_pen(e)) {
        struct hf_list batch;
        hf__list_init(&batch);
        hf__list_splice(&batch, &asked.writes);
        write_batch(e, &batch);
        put_pen_down(e);
    }
    for (struct hf_list *node; (node = hf__list_pop(&asked.writes)) != NULL;)
        enqueue(e, HF_CONTAINER(node, struct hf_call, node), true);
}

static void heard(struct hf_bell *bell, uint64_t freed)
{
    enum { ROUNDS = 4 }; /* an answer may ask for more */
    struct embedded *e = HF_CONTAINER(bell, struct embedded, bell);
    hf__list_init(&asked.reads);
    hf__list_init(&asked.writes);
    asked.of = e;
    hf__bell_tell(bell, freed);
    for (int i = 0; i < ROUNDS; i++) {
        read_asked(e);
        write_asked(e);
    }
    asked.of = NULL;
    for (struct hf_list *node; (node = hf__list_pop(&asked.reads)) != NULL;)
        enqueue(e, HF_CONTAINER(node, struct hf_call, node), false);
    for (struct hf_list *node; (node = hf__list_pop(&asked.writes)) != NULL;)
        enqueue(e, HF_CONTAINER(node, struct hf_call, node), true);
}

/* Only what is still waiting can be taken back; the rest is done in a moment anyway. */
static void cancel(struct hf_store *store, uint64_t id)
{
    struct embedded *e = (struct embedded *)store;
    pthread_mutex_lock(&e->mutex);
    struct hf_call *call = hf__lanes_find(&e->writes.calls, id);
    if (!call) call = hf__lanes_find(&e->reads.calls, id);
    if (call) call->cancelled = true;
    pthread_mutex_unlock(&e->mutex);
}

static void pause_store(struct hf_store *store, bool paused)
{
    enum { PATIENCE_MS = 2000 };
    struct embedded *e = (struct embedded *)store;
    struct timespec until = hf__deadline_in(PATIENCE_MS);
    pthread_mutex_lock(&e->mutex);
    e->paused = paused;
    while (e->paused && e->busy > 0)
        if (pthread_cond_timedwait(&e->idle, &e->mutex, &until) != 0) break;
    pthread_cond_broadcast(&e->writes.filled);
    pthread_cond_broadcast(&e->reads.filled);
    pthread_mutex_unlock(&e->mutex);
}

static void cork_store(struct hf_store *store, bool corked)
{
    struct embedded *e = (struct embedded *)store;
    if (!corked && e->reading) {
        put_spare_back(e->reading);
        e->reading = NULL;
    }
    pthread_mutex_lock(&e->mutex);
    if (corked) e->corker = pthread_self();
    __atomic_store_n(&e->corked, corked, __ATOMIC_RELAXED);
    bool wakes = !corked && e->writes.calls.count > 0;
    pthread_mutex_unlock(&e->mutex);
    if (wakes) pthread_cond_signal(&e->writes.filled);
}

/* A database in memory is this process's alone, and tells it by itself. */
static bool listen_to(struct hf_store *store, struct hf_hint *hint)
{
    struct embedded *e = (struct embedded *)store;
    bool is_file = e->timeline.lock_fd >= 0;
    pthread_mutex_lock(&e->mutex);
    e->warms = is_file;
    pthread_cond_signal(&e->writes.filled);
    pthread_mutex_unlock(&e->mutex);
    return hf__bell_listen(&e->bell, is_file ? hf__place_open_file(&e->place) : NULL,
                           e->timeline.lock_fd, hint);
}

static void unlisten(struct hf_store *store, struct hf_hint *hint)
{
    hf__bell_unlisten(&((struct embedded *)store)->bell, hint);
}

/* Nobody else waits for what is in the memory of this process. */
static int line(const struct hf_store *store)
{
    return ((const struct embedded *)store)->timeline.lock_fd;
}

static void destroy(struct embedded *e)
{
    hf__bell_free(&e->bell);
    hf__database_close(&e->writer_db);
    for (int i = 0; i < READERS; i++) hf__database_close(&e->reader_dbs[i]);
    for (int i = 0; i < SPARE_READERS; i++) {
        hf__database_close(&e->spare_readers[i].db);
        pthread_mutex_destroy(&e->spare_readers[i].mutex);
    }
    hf__timeline_close(&e->timeline);
    hf__place_free(&e->place);
    pthread_cond_destroy(&e->writes.filled);
    pthread_cond_destroy(&e->reads.filled);
    pthread_cond_destroy(&e->idle);
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
    hf__bell_stop(&e->bell);
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
    .pause = pause_store,
    .cork = cork_store,
    .listen = listen_to,
    .unlisten = unlisten,
    .line = line,
    .close = close_store,
    .describe = describe,
    .now_unix_us = now_unix_us,
};

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
    hf__bell_init(&e->bell);
    e->bell.heard = heard;
    pthread_mutex_init(&e->mutex, NULL);
    for (int i = 0; i < SPARE_READERS; i++) pthread_mutex_init(&e->spare_readers[i].mutex, NULL);
    hf__cond_init(&e->writes.filled);
    hf__cond_init(&e->reads.filled);
    hf__cond_init(&e->idle);
    hf__lanes_init(&e->writes.calls);
    hf__lanes_init(&e->reads.calls);
    e->timeline.lock_fd = -1;
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
    if (code == 0)
        code = hf__timeline_open(&e->timeline, &e->writer_db, e->store.clock, path != NULL,
                                 &e->store.log, reterr);
    e->writer_db.lock_fd = e->timeline.lock_fd;
    if (code == 0 && path) code = hf__place_mark(&e->place, path, reterr);
    if (code == 0 && path && hf__database_has_moved(&e->writer_db)) /* before it was remembered */
        code = hf__error_set(reterr, HF_ERR_DAMAGED,
                             "%s was replaced while it was being opened; try again", path);
    if (code == 0) e->writer_db.has_chores = hf__execute_has_chores(&e->writer_db);
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
