#include "store/store.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/engines.h"

static const struct {
    const char *prefix;
    hf_engine_open_fn open;
} engines[] = {
    {"file:", hf__embedded_open_file},  {"memory:", hf__embedded_open_memory},
    {"dynamodb://", hf__dynamodb_open}, {"https://", hf__service_open},
    {"http://", hf__service_open},
};

int hf__store_open(const char *url, const struct hf_store_options *options, struct hf_store **ret,
                   struct hf_error *reterr)
{
    static const struct hf_store_options defaults;
    if (!options) options = &defaults;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        size_t len = strlen(engines[i].prefix);
        if (strncmp(url, engines[i].prefix, len) != 0) continue;
        struct hf_arena arena = {0};
        int code = engines[i].open(&arena, url, options, ret, reterr);
        hf__arena_free(&arena);
        return code;
    }
    return hf__error_set(reterr, HF_ERR_INVALID,
                         "\"%s\" is not a store; use file:PATH, memory:, https://HOST or "
                         "dynamodb://TABLE?region=REGION",
                         url);
}

int hf__store_init(struct hf_store *store, const struct hf_store_engine *engine,
                   const struct hf_store_options *options, const char *table,
                   struct hf_error *reterr)
{
    store->engine = engine;
    store->clock = options->clock ? options->clock : &hf__clock_system;
    store->log = options->log;
    store->last_id = 0;
    store->pid = getpid();
    store->embedded = store->served = false;
    store->table = NULL;
    int code = hf__table_name_check(hf__slice_str(table), reterr);
    if (code != 0) return code;
    store->table = hf__strdup(table);
    return store->table ? 0 : hf__error_no_memory(reterr);
}

void hf__store_close(struct hf_store *store)
{
    if (store) store->engine->close(store);
}

struct hf_slice hf__store_table(const struct hf_store *store)
{
    return hf__slice_str(store->table);
}

int hf__store_describe(struct hf_store *store, struct hf_store_info *ret, struct hf_error *reterr)
{
    return store->engine->describe(store, ret, reterr);
}

static uint64_t prepare(struct hf_store *store, struct hf_call *call)
{
    uint64_t id = __atomic_add_fetch(&store->last_id, 1, __ATOMIC_RELAXED);
    call->id = id;
    call->cancelled = false;
    hf__list_init(&call->node);
    memset(&call->answer, 0, sizeof call->answer);
    return id;
}

uint64_t hf__store_submit(struct hf_store *store, struct hf_call *call)
{
    uint64_t id = prepare(store, call);
    store->engine->submit(store, call);
    return id;
}

int64_t hf__store_now_unix_us(const struct hf_store *store)
{
    return store->engine->now_unix_us ? store->engine->now_unix_us(store) : 0;
}

void hf__store_pause(struct hf_store *store, bool paused)
{
    if (store->engine->pause) store->engine->pause(store, paused);
}

void hf__store_cork(struct hf_store *store, bool corked)
{
    if (store->engine->cork) store->engine->cork(store, corked);
}

bool hf__store_listen(struct hf_store *store, struct hf_hint *hint)
{
    hf__list_init(&hint->node);
    return store->engine->listen && store->engine->listen(store, hint);
}

void hf__store_unlisten(struct hf_store *store, struct hf_hint *hint)
{
    if (store->engine->unlisten) store->engine->unlisten(store, hint);
}

int hf__store_line(const struct hf_store *store)
{
    return store->engine->line ? store->engine->line(store) : -1;
}

/* Perhaps; the engine finds out. */
static bool is_short(const struct hf_op *op)
{
    return op->kind == HF_GET_ITEM || op->kind == HF_QUERY;
}

bool hf__store_read_here(struct hf_store *store, struct hf_call *call)
{
    if (!store->engine->read_here || !is_short(&call->op)) return false;
    struct hf_mailbox *mailbox = call->mailbox;
    prepare(store, call);
    call->mailbox = NULL; /* it is called back here */
    if (store->engine->read_here(store, call)) return true;
    call->mailbox = mailbox;
    return false;
}

void hf__call_done_of_many(struct hf_store *store, struct hf_call *call, struct hf_mailbox **last)
{
    struct hf_mailbox *mailbox = call ? call->mailbox : NULL;
    if (*last != mailbox) {
        if (mailbox) hf__mailbox_hold(mailbox);
        if (*last) {
            hf__mailbox_ring(*last);
            hf__mailbox_let_go(*last);
        }
        *last = mailbox;
    }
    if (!call) return;
    if (store->observe) store->observe(store->observe_user, call);
    if (mailbox) hf__mailbox_put(mailbox, call);
    else call->done(call);
}

void hf__call_done(struct hf_store *store, struct hf_call *call)
{
    struct hf_mailbox *last = NULL;
    hf__call_done_of_many(store, call, &last);
    hf__call_done_of_many(store, NULL, &last);
}

void hf__store_cancel(struct hf_store *store, uint64_t id)
{
    store->engine->cancel(store, id);
}

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
};

static void wake(struct hf_call *call)
{
    struct waiter *waiter = call->user;
    pthread_mutex_lock(&waiter->mutex);
    waiter->done = true;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
}

int hf__store_run(struct hf_store *store, struct hf_call *call)
{
    struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    call->done = wake;
    call->user = &waiter;
    call->mailbox = NULL;
    hf__store_submit(store, call);
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.done) pthread_cond_wait(&waiter.changed, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.changed);
    pthread_mutex_destroy(&waiter.mutex);
    return call->answer.code;
}
