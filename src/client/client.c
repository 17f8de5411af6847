#include "client/client.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/process.h"
#include "base/thread.h"
#include "store/line.h"

enum { LONGEST_NAP_MS = 1000, CLOSE_MS = 5000 };

/* One request of the core. */
struct call {
    struct hf_client_call at;
    struct hf_request *request;
};

bool hf__client_is_ours(const struct hf_client *client)
{
    return client->process == hf__process();
}

int64_t hf__client_now_us(const struct hf_client *client)
{
    return hf__clock_boot_us(client->clock);
}

/* ---- driving the core ---- */

static void answered(struct hf_call *at)
{
    struct hf_client_call *call = HF_CONTAINER(at, struct hf_client_call, call);
    struct hf_client *client = call->client;
    pthread_mutex_lock(&client->mutex);
    hf__list_remove(&call->node);
    call->done(client, call);
    hf__client_leave(client);
}

void hf__client_submit(struct hf_client *client, struct hf_client_call *call)
{
    call->client = client;
    call->call.done = answered;
    call->call.mailbox = client->driven ? &client->mailbox : NULL;
    hf__list_append(&client->calls, &call->node);
    call->id = hf__store_submit(client->store, &call->call);
}

static void answer_core(struct hf_client *client, struct hf_client_call *at)
{
    struct call *call = HF_CONTAINER(at, struct call, at);
    hf__core_answer(client->core, call->request, &at->call.answer, hf__client_now_us(client));
    hf__free(call);
}

/* A request that cannot be handed to the store has failed. */
static void fail_request(struct hf_client *client, struct hf_request *request, int code)
{
    struct hf_answer answer = {0};
    answer.code = hf__error_set(&answer.error, code, "%s", hf_error_meaning(code));
    hf__core_answer(client->core, request, &answer, hf__client_now_us(client));
}

static void submit(struct hf_client *client, struct hf_request *request)
{
    struct call *call = client->closed ? NULL : hf__calloc(1, sizeof *call);
    if (!call) {
        fail_request(client, request, client->closed ? HF_ERR_CANCELLED : HF_ERR_NO_MEMORY);
        return;
    }
    call->request = request;
    call->at.call.op = request->op;
    call->at.call.arena = &request->arena;
    call->at.done = answer_core;
    hf__client_submit(client, &call->at);
}

/* L3. */
static void drain(struct hf_client *client)
{
    struct hf_core *core = client->core;
    for (bool more = true; more;) {
        more = false;
        struct hf_request *request;
        struct hf_attempt *attempt;
        struct hf_grant *grant;
        struct hf_job *job;
        struct hf_report report;
        int which;
        while ((attempt = hf__core_next_report(core, hf__client_now_us(client), &report)))
            hf__acquire_report(client, attempt, &report);
        while ((attempt = hf__core_next_finished(core))) {
            hf__acquire_finished(client, attempt);
            more = true;
        }
        while ((grant = hf__core_next_event(core, &which))) {
            hf__lock_news(client, grant, which);
            more = true;
        }
        while ((job = hf__core_next_job(core))) {
            if (job->calls_back) hf__async_done(client, HF_CONTAINER(job, struct hf_async, job));
            else hf__waiter_wake(job->user);
            more = true;
        }
        while ((request = hf__core_next_request(core))) {
            submit(client, request);
            more = true;
        }
    }
}

static int64_t next_us(const struct hf_client *client)
{
    int64_t core_us = hf__core_next_us(client->core), watch_us = hf__watchers_next_us(client);
    return core_us < watch_us ? core_us : watch_us;
}

static bool wants_to_listen(const struct hf_client *client)
{
    return hf__core_wants_hints(client->core) && !client->listens &&
           !hf__core_is_closing(client->core);
}

/* Whether the thread has anything to do before it wakes up by itself. */
static bool has_work(const struct hf_client *client)
{
    return !hf__list_empty(&client->chores) || client->hinted || client->freed ||
           hf__core_is_closed(client->core) || client->stopping || client->closed ||
           wants_to_listen(client) || next_us(client) < client->nap_until_us;
}

void hf__client_leave(struct hf_client *client)
{
    drain(client);
    if (!client->woken && has_work(client)) {
        client->woken = true;
        pthread_cond_signal(&client->wake);
    }
    if (client->driven && !pthread_equal(pthread_self(), client->thread))
        hf__mailbox_ring(&client->mailbox);
    pthread_mutex_unlock(&client->mutex);
}

/* ---- the thread ---- */

static void nap(struct hf_client *client, int64_t until_us)
{
    int64_t now_us = hf__client_now_us(client);
    int64_t ms = until_us > now_us ? (until_us - now_us + 999) / 1000 : 0;
    /* Not for long: the clock that counts runs on while the machine is suspended. */
    if (until_us == HF_NEVER || ms > LONGEST_NAP_MS) ms = LONGEST_NAP_MS;
    struct timespec until = hf__deadline_in(ms);
    client->nap_until_us = until_us;
    client->woken = false;
    while (!client->woken) {
        if (pthread_cond_timedwait(&client->wake, &client->mutex, &until) != 0) break;
    }
    client->woken = true;
}

/* ---- hints ---- */

/*
 * Heeded where it is heard: to hand it to the thread would take longer than the poll. Whoever drives
 * the client is woken.
 */
static void heard(struct hf_hint *hint, uint64_t freed)
{
    struct hf_client *client = HF_CONTAINER(hint, struct hf_client, hint);
    pthread_mutex_lock(&client->mutex);
    bool heeds =
        (freed ? client->freed != freed : !client->hinted) && hf__core_heeds_hint(client->core);
    if (heeds && !client->driven) {
        hf__core_hint(client->core, freed, hf__client_now_us(client));
        hf__client_leave(client);
        return;
    }
    if (heeds) {
        if (freed) client->freed = freed;
        else client->hinted = true;
        hf__mailbox_ring(&client->mailbox);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* Without the mutex, which a hint takes. */
static void listen_now(struct hf_client *client, struct hf_chore *chore)
{
    (void)chore;
    bool hears = hf__store_listen(client->store, &client->hint);
    pthread_mutex_lock(&client->mutex);
    client->hears = hears;
    hf__core_set_hints(client->core, hears);
    pthread_mutex_unlock(&client->mutex);
}

static void listen_if_wanted(struct hf_client *client)
{
    if (!wants_to_listen(client)) return;
    client->listens = true;
    hf__client_chore(client, &client->listen);
}

/* Does what is due. With the mutex. */
static void turn(struct hf_client *client)
{
    int64_t now_us = hf__client_now_us(client);
    hf__core_tick(client->core, now_us);
    if (client->freed) hf__core_hint(client->core, client->freed, now_us);
    if (client->hinted) hf__core_hint(client->core, 0, now_us);
    client->freed = 0;
    client->hinted = false;
    listen_if_wanted(client);
    hf__watchers_run(client, now_us);
    drain(client);
    if (hf__core_is_closed(client->core)) hf__client_wake_all(client, client->core);
}

/* With the mutex, released while it runs. False: there is none. */
static bool run_chore(struct hf_client *client)
{
    struct hf_list *node = hf__list_pop(&client->chores);
    if (!node) return false;
    struct hf_chore *chore = HF_CONTAINER(node, struct hf_chore, node);
    pthread_mutex_unlock(&client->mutex);
    chore->run(client, chore);
    pthread_mutex_lock(&client->mutex);
    return true;
}

static void *run(void *user)
{
    struct hf_client *client = user;
    pthread_mutex_lock(&client->mutex);
    for (;;) {
        turn(client);
        if (run_chore(client)) continue;
        if (client->stopping) break;
        nap(client, next_us(client));
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

bool hf__client_is_thread(const struct hf_client *client)
{
    return (client->has_thread || client->processing) &&
           pthread_equal(pthread_self(), client->thread);
}

/* ---- driven by the user's loop ---- */

/* One round, without waiting. With the mutex. */
static void process(struct hf_client *client)
{
    enum { CHORES_MOST = 10000 }; /* then return to the loop */
    pthread_mutex_unlock(&client->mutex);
    hf__mailbox_run(&client->mailbox);
    pthread_mutex_lock(&client->mutex);
    turn(client);
    client->processing = true;
    for (int i = 0; i < CHORES_MOST && run_chore(client); i++) {
    }
    client->processing = false;
}

static int64_t timeout_ms(const struct hf_client *client)
{
    if (!hf__list_empty(&client->chores)) return 0;
    int64_t at_us = next_us(client), now_us = hf__client_now_us(client);
    if (at_us == HF_NEVER || at_us > now_us + LONGEST_NAP_MS * 1000) return LONGEST_NAP_MS;
    return at_us > now_us ? (at_us - now_us + 999) / 1000 : 0;
}

/* One round for a driving caller that waits. With the mutex. */
static void pump(struct hf_client *client)
{
    struct pollfd ready = {.fd = client->mailbox.fd, .events = POLLIN};
    int64_t ms = timeout_ms(client);
    pthread_mutex_unlock(&client->mutex);
    poll(&ready, 1, (int)ms);
    pthread_mutex_lock(&client->mutex);
    process(client);
}

static int check_driven(const struct hf_client *client, struct hf_error *reterr)
{
    if (!client || !client->driven)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "this client has a thread of its own; set `driven` in its options");
    if (!hf__client_is_ours(client))
        return hf__error_set(reterr, HF_ERR_FORKED,
                             "this client was made before fork(); make a new one in the child");
    return 0;
}

int hf_client_fd(const struct hf_client *client)
{
    return check_driven(client, NULL) == 0 ? client->mailbox.fd : -1;
}

int64_t hf_client_timeout_ms(struct hf_client *client)
{
    if (check_driven(client, NULL) != 0) return -1;
    pthread_mutex_lock(&client->mutex);
    int64_t ms = timeout_ms(client);
    pthread_mutex_unlock(&client->mutex);
    return ms;
}

int hf_client_process(struct hf_client *client, struct hf_error *reterr)
{
    int code = check_driven(client, reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&client->mutex);
    if (hf__client_is_thread(client)) {
        code = hf__error_set(reterr, HF_ERR_IN_CALLBACK,
                             "already inside this call or one of its callbacks");
    } else {
        client->thread = pthread_self();
        process(client);
    }
    pthread_mutex_unlock(&client->mutex);
    return code;
}

void hf__client_chore(struct hf_client *client, struct hf_chore *chore)
{
    if (hf__list_empty(&chore->node)) hf__list_append(&client->chores, &chore->node);
}

/* ---- the core's output ---- */

/* L1: the log callback may be slow. */
struct line {
    struct hf_chore chore;
    enum hf_log_level level;
    char text[];
};

enum { LINES_MOST = 256 }; /* queued at most; further ones are dropped to save memory */

static void tell(struct hf_client *client, struct hf_chore *chore)
{
    struct line *line = HF_CONTAINER(chore, struct line, chore);
    client->log.fn(client->log.user, line->level, line->text);
    hf__free(line);
    pthread_mutex_lock(&client->mutex);
    client->lines--;
    pthread_mutex_unlock(&client->mutex);
}

/* The core's log; with the mutex. */
static void note(void *user, enum hf_log_level level, const char *text)
{
    struct hf_client *client = user;
    size_t size = strlen(text) + 1;
    struct line *line = client->lines < LINES_MOST ? hf__malloc(sizeof *line + size) : NULL;
    if (!line) return;
    line->chore.run = tell;
    hf__list_init(&line->chore.node);
    line->level = level;
    memcpy(line->text, text, size);
    client->lines++;
    hf__client_chore(client, &line->chore);
}

/* ---- entering and waiting ---- */

int hf__client_enter(struct hf_client *client, struct hf_error *reterr)
{
    if (!hf__client_is_ours(client))
        return hf__error_set(reterr, HF_ERR_FORKED,
                             "this client was made before fork(); make a new one in the child");
    pthread_mutex_lock(&client->mutex);
    return 0;
}

int hf__client_enter_waiting(struct hf_client *client, struct hf_error *reterr)
{
    int code = hf__client_enter(client, reterr);
    if (code != 0) return code;
    if (!hf__client_is_thread(client)) return 0;
    pthread_mutex_unlock(&client->mutex);
    return hf__error_set(reterr, HF_ERR_IN_CALLBACK,
                         "this call waits, and callbacks must not; use its asynchronous form or "
                         "another thread");
}

int hf__client_hold(struct hf_client *client, struct hf_error *reterr)
{
    int code = hf__client_enter_waiting(client, reterr);
    if (code != 0) return code;
    hf__client_ref(client);
    pthread_mutex_unlock(&client->mutex);
    return 0;
}

void hf__client_let_go(struct hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    hf__client_unref_unlock(client);
}

int hf__waiter_init(struct hf_client *client, struct hf_waiter *waiter, const void *about,
                    struct hf_error *reterr)
{
    *waiter = (struct hf_waiter){.about = about};
    hf__list_init(&waiter->node);
    if (hf__cond_init(&waiter->cond) != 0) return hf__error_no_memory(reterr);
    hf__list_append(&client->waiters, &waiter->node);
    hf__client_ref(client);
    return 0;
}

void hf__waiter_wake(struct hf_waiter *waiter)
{
    waiter->done = true;
    pthread_cond_signal(&waiter->cond);
}

void hf__waiter_wait(struct hf_client *client, struct hf_waiter *waiter)
{
    bool drives = client->driven && pthread_equal(pthread_self(), client->thread);
    if (drives) turn(client);
    while (!waiter->done) {
        if (drives) pump(client);
        else pthread_cond_wait(&waiter->cond, &client->mutex);
    }
    hf__list_remove(&waiter->node);
    pthread_cond_destroy(&waiter->cond);
}

void hf__client_wake_all(struct hf_client *client, const void *about)
{
    for (struct hf_list *at = client->waiters.next; at != &client->waiters; at = at->next) {
        struct hf_waiter *waiter = HF_CONTAINER(at, struct hf_waiter, node);
        if (waiter->about == about) hf__waiter_wake(waiter);
    }
}

struct settle {
    struct hf_chore chore;
    struct hf_waiter waiter;
};

static void settled(struct hf_client *client, struct hf_chore *chore)
{
    struct settle *settle = HF_CONTAINER(chore, struct settle, chore);
    pthread_mutex_lock(&client->mutex);
    hf__waiter_wake(&settle->waiter);
    pthread_mutex_unlock(&client->mutex);
}

void hf__client_settle(struct hf_client *client)
{
    struct settle settle = {.chore.run = settled};
    hf__list_init(&settle.chore.node);
    pthread_mutex_lock(&client->mutex);
    if (client->stopping || hf__waiter_init(client, &settle.waiter, NULL, NULL) != 0) {
        pthread_mutex_unlock(&client->mutex); /* the thread has ended, or is about to */
        return;
    }
    hf__client_chore(client, &settle.chore);
    hf__client_leave(client);
    pthread_mutex_lock(&client->mutex);
    hf__waiter_wait(client, &settle.waiter);
    hf__client_unref_unlock(client);
}

struct single {
    struct hf_client_call at;
    struct hf_waiter waiter;
};

static void single_done(struct hf_client *client, struct hf_client_call *at)
{
    (void)client;
    hf__waiter_wake(&HF_CONTAINER(at, struct single, at)->waiter);
}

int hf__client_run(struct hf_client *client, struct hf_call *call, struct hf_error *reterr)
{
    struct single single = {.at.call = *call, .at.done = single_done};
    int code = hf__client_enter_waiting(client, reterr);
    if (code != 0) return code;
    if (hf__core_is_closing(client->core))
        code = hf__error_set(reterr, HF_ERR_CLOSED, "the client is closed");
    if (code == 0) code = hf__waiter_init(client, &single.waiter, NULL, reterr);
    if (code != 0) {
        pthread_mutex_unlock(&client->mutex);
        return code;
    }
    hf__client_submit(client, &single.at);
    hf__waiter_wait(client, &single.waiter);
    hf__core_learn_time(client->core, &single.at.call.answer);
    hf__client_unref_unlock(client);
    call->answer = single.at.call.answer;
    if (call->answer.code != 0 && reterr) *reterr = call->answer.error;
    return call->answer.code;
}

/* ---- life ---- */

void hf__client_ref(struct hf_client *client)
{
    client->refs++;
}

static void dissolve(struct hf_client *client)
{
    if (client->driven) hf__mailbox_close(&client->mailbox);
    pthread_cond_destroy(&client->wake);
    pthread_mutex_destroy(&client->mutex);
    hf__arena_free(&client->arena);
    hf__free(client);
}

static void destroy(struct hf_client *client)
{
    hf__core_free(client->core);
    for (struct hf_list *node; (node = hf__list_pop(&client->chores)) != NULL;) /* lines */
        hf__free(HF_CONTAINER(node, struct line, chore.node));
    dissolve(client);
}

void hf__client_unref_unlock(struct hf_client *client)
{
    bool last = --client->refs == 0;
    pthread_mutex_unlock(&client->mutex);
    if (last) destroy(client);
}

static int open_store(struct hf_client *client, const struct hf_client_options *options,
                      struct hf_error *reterr)
{
    client->store = options->store;
    if (options->store && options->store_url)
        return hf__error_set(reterr, HF_ERR_INVALID, "give store or store_url, not both");
    if (options->store && options->store->pid != getpid())
        return hf__error_set(reterr, HF_ERR_FORKED,
                             "this store was opened before fork(); open a new one in the child");
    if (options->store) return 0;
    if (!options->store_url)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "no store: give store_url, such as \"file:locks.db\", "
                             "\"https://locks.example.com\" or "
                             "\"dynamodb://TABLE?region=REGION\"");
    struct hf_store_options store_options = {
        .log = client->log,
        .token_file = options->token_file,
        .ca_file = options->ca_file,
        .cert_file = options->client_cert_file,
        .key_file = options->client_key_file,
    };
    int code = hf__store_open(options->store_url, &store_options, &client->store, reterr);
    client->owns_store = code == 0;
    return code;
}

/* ---- the line of processes ---- */

/* By the file's own time: the clocks of processes in other time namespaces differ from ours. */
static int64_t join_line(void *user, struct hf_slice name, int64_t since_us)
{
    const struct hf_store *store = user;
    int64_t waited_us = hf__clock_boot_us(store->clock) - since_us;
    return hf__line_join(hf__store_line(store), name, hf__store_now_unix_us(store) - waited_us);
}

static void leave_line(void *user, int64_t place)
{
    hf__line_leave(hf__store_line(user), place);
}

static bool is_first_in_line(void *user, struct hf_slice name, int64_t place)
{
    return hf__line_is_first(hf__store_line(user), name, place);
}

static int64_t count_line(void *user, struct hf_slice name)
{
    enum { MOST = 1000 };
    return (int64_t)hf__line_count(hf__store_line(user), name, MOST);
}

static struct hf_line line_of(struct hf_store *store)
{
    struct hf_line line = {.user = store};
    if (hf__store_line(store) >= 0) {
        line.join = join_line;
        line.leave = leave_line;
        line.is_first = is_first_in_line;
    }
    if (store->embedded) line.count = count_line; /* what is in memory is this process's */
    return line;
}

static int start_core(struct hf_client *client, const struct hf_client_options *options,
                      struct hf_error *reterr)
{
    struct hf_core_options core_options = {0};
    int code = hf__client_options(options, &client->arena, &core_options, reterr);
    if (code != 0) return code;
    client->log = core_options.log;
    if (client->log.fn) core_options.log = (struct hf_log){note, client, client->log.least};
    code = open_store(client, options, reterr);
    if (code != 0) return code;
    if (client->store->served && core_options.format != &hf__format_holdfast)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a service keeps its locks in the format \"holdfast\", not \"%s\"",
                             core_options.format->name);
    client->clock = client->store->clock;
    core_options.layout.table =
        options->table ? hf__arena_copy(&client->arena, hf__slice_str(options->table))
                       : hf__arena_copy(&client->arena, hf__store_table(client->store));
    if (client->arena.failed) return hf__error_no_memory(reterr);
    code = hf__table_name_check(core_options.layout.table, reterr);
    if (code != 0) {
        hf__error_prefix(reterr, "table \"%.*s\"", HF_FMT(core_options.layout.table));
        return code;
    }
    core_options.line = line_of(client->store);
    client->core = hf__core_new(&core_options);
    return client->core ? 0 : hf__error_no_memory(reterr);
}

static int start_thread(struct hf_client *client, struct hf_error *reterr)
{
    if (hf__thread_create(&client->thread, run, client) != 0)
        return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread");
    client->has_thread = true;
    return 0;
}

int hf_client_new(const struct hf_client_options *given, struct hf_client **ret,
                  struct hf_error *reterr)
{
    if (!given) return hf__error_set(reterr, HF_ERR_INVALID, "the options are NULL");
    if (!ret) return hf__error_set(reterr, HF_ERR_INVALID, "the pointer for the client is NULL");
    HF_OPTIONS(struct hf_client_options, options, given);
    struct hf_client *client = hf__calloc(1, sizeof *client);
    if (!client) return hf__error_no_memory(reterr);
    client->process = hf__process();
    client->refs = 1;
    hf__list_init(&client->chores);
    hf__list_init(&client->waiters);
    hf__list_init(&client->calls);
    hf__list_init(&client->watchers);
    hf__list_init(&client->listen.node);
    client->listen.run = listen_now;
    client->hint.changed = heard;
    if (pthread_mutex_init(&client->mutex, NULL) != 0 || hf__cond_init(&client->wake) != 0) {
        hf__free(client);
        return hf__error_no_memory(reterr);
    }
    int code = options.driven ? hf__mailbox_open(&client->mailbox, reterr) : 0;
    client->driven = options.driven && code == 0;
    client->thread = pthread_self();
    if (code == 0) code = start_core(client, &options, reterr);
    if (code == 0 && (options.create_table || client->store->embedded))
        code = hf__table_ensure(client, reterr);
    if (code == 0 && !client->driven) code = start_thread(client, reterr);
    if (code != 0) {
        if (client->owns_store) hf__store_close(client->store);
        destroy(client);
        return code;
    }
    *ret = client;
    return 0;
}

/* Cancels the calls at the store, and waits: it answers everything, sooner or later. */
static void recall(struct hf_client *client)
{
    client->closed = true;
    hf__core_forget_line(client->core); /* it goes with the store */
    if (client->owns_store) {
        pthread_mutex_unlock(&client->mutex);
        hf__store_close(client->store);
        if (client->driven) hf__mailbox_run(&client->mailbox);
        pthread_mutex_lock(&client->mutex);
        return;
    }
    for (struct hf_list *at = client->calls.next; at != &client->calls; at = at->next)
        hf__store_cancel(client->store, HF_CONTAINER(at, struct hf_client_call, node)->id);
    while (!hf__list_empty(&client->calls)) {
        if (client->driven) {
            pump(client);
            continue;
        }
        client->woken = false;
        pthread_cond_wait(&client->wake, &client->mutex);
    }
}

void hf_client_pause(struct hf_client *client)
{
    if (hf__client_is_ours(client)) hf__store_pause(client->store, true);
}

void hf_client_resume(struct hf_client *client)
{
    if (hf__client_is_ours(client)) hf__store_pause(client->store, false);
}

int hf_client_close(struct hf_client *client, int64_t timeout_ms)
{
    if (!client) return 0;
    struct hf_waiter waiter;
    int code = hf__client_enter_waiting(client, NULL);
    if (code != 0) return code;
    if (client->driven) client->thread = pthread_self(); /* no other thread drives it any more */
    if (timeout_ms <= 0) timeout_ms = CLOSE_MS;
    if (timeout_ms > HF_LEASE_MAX_MS) timeout_ms = HF_LEASE_MAX_MS;
    code = hf__waiter_init(client, &waiter, client->core, NULL);
    if (code != 0) {
        pthread_mutex_unlock(&client->mutex);
        return code;
    }
    hf__watchers_close(client);
    hf__core_close(client->core, timeout_ms, hf__client_now_us(client));
    hf__client_leave(client);
    pthread_mutex_lock(&client->mutex);
    hf__waiter_wait(client, &waiter);
    /* The thread runs the callbacks that are left, and ends. */
    client->stopping = true;
    hf__client_leave(client);
    if (!client->driven) pthread_join(client->thread, NULL);
    pthread_mutex_lock(&client->mutex);
    if (client->driven) process(client);
    client->has_thread = false;
    bool hears = client->hears;
    pthread_mutex_unlock(&client->mutex);
    if (hears) hf__store_unlisten(client->store, &client->hint); /* a hint may be arriving */
    pthread_mutex_lock(&client->mutex);
    recall(client);
    drain(client);
    code = hf__core_unconfirmed(client->core) ? HF_ERR_OUTCOME_UNKNOWN : 0;
    client->refs--; /* the waiter's */
    hf__client_unref_unlock(client);
    return code;
}

int hf_store_open(const char *url, hf_log_fn log, void *log_user, struct hf_store **ret,
                  struct hf_error *reterr)
{
    if (!url || !ret) return hf__error_set(reterr, HF_ERR_INVALID, "no URL");
    struct hf_store_options options = {.log = {log, log_user, HF_LOG_INFO}};
    return hf__store_open(url, &options, ret, reterr);
}

void hf_store_close(struct hf_store *store)
{
    if (store && store->pid == getpid()) hf__store_close(store);
}
