/* Acquiring: one path for calls that wait and calls that call back. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/client.h"
#include "client/on_behalf.h"

enum { DATA_MAX = 350 * 1024, ATTRIBUTES_MAX = 32 };

/* News of a wait, with its texts. */
struct news {
    struct hf_wait wait;
    struct hf_error error;
    char texts[]; /* the name; the owner; the instance */
};

struct hf_acquisition {
    struct hf_chore chore;  /* calls back with the result */
    struct hf_chore report; /* calls on_wait; it holds a reference while it is queued */
    hf_wait_fn on_wait;
    void *on_wait_user;
    struct news *news;
    struct news *blocked;  /* the holder that blocked it; NULL: none, or out of memory */
    bool repeats;          /* an earlier call with the same identity holds the lock … */
    struct hf_id repeated; /* … with this grant */
    bool telling;          /* on_wait runs: the result waits for it */
    struct hf_client *client;
    struct hf_attempt *attempt; /* NULL: it has a result */
    struct hf_lock *lock;       /* made in advance */
    struct hf_waiter *waiter;   /* NULL: called back */
    hf_acquired_fn done;
    void *user;
    int code;
    struct hf_error error;
    uint32_t refs;
};

static void unref(struct hf_acquisition *acquisition)
{
    if (--acquisition->refs > 0) return;
    hf__free(acquisition->news);
    hf__free(acquisition->blocked);
    hf__lock_drop(acquisition->lock);
    hf__free(acquisition);
}

/* ---- news of a wait ---- */

static const char *put_text(char **at, struct hf_slice text)
{
    char *copy = *at;
    if (text.len == 0) return NULL;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

/* NULL: out of memory. */
static struct news *news_of(const struct hf_report *report)
{
    size_t size = report->name.len + report->owner.len + report->instance.len + (size_t)3;
    struct news *news = hf__malloc(sizeof *news + size);
    if (!news) return NULL;
    char *at = news->texts;
    news->wait = (struct hf_wait){
        .name = put_text(&at, report->name),
        .owner = put_text(&at, report->owner),
        .instance = put_text(&at, report->instance),
        .holders = report->holders,
        .since_unix_ms = report->since_unix_ms,
        .expires_unix_ms = report->expires_unix_ms,
        .ahead = report->ahead,
        .answered = report->answered,
        .failures = report->failures,
        .silent_ms = (report->silent_us + 999) / 1000,
        .error = report->error ? &news->error : NULL,
    };
    if (report->error) news->error = *report->error;
    return news;
}

void hf__acquire_report(struct hf_client *client, struct hf_attempt *attempt,
                        const struct hf_report *report)
{
    struct hf_acquisition *acquisition = hf__attempt_user(attempt);
    struct news *news = news_of(report);
    if (!news) return; /* out of memory: later news follows anyway */
    hf__free(acquisition->news);
    acquisition->news = news;
    if (hf__list_empty(&acquisition->report.node)) acquisition->refs++;
    hf__client_chore(client, &acquisition->report);
}

static void give_result(struct hf_client *client, struct hf_acquisition *acquisition)
{
    if (acquisition->waiter) hf__waiter_wake(acquisition->waiter);
    else hf__client_chore(client, &acquisition->chore);
}

static void tell(struct hf_client *client, struct hf_chore *chore)
{
    struct hf_acquisition *acquisition = HF_CONTAINER(chore, struct hf_acquisition, report);
    pthread_mutex_lock(&client->mutex);
    struct news *news = acquisition->news;
    acquisition->news = NULL;
    acquisition->telling = acquisition->attempt != NULL && news;
    pthread_mutex_unlock(&client->mutex);
    if (acquisition->telling) acquisition->on_wait(acquisition->on_wait_user, &news->wait);
    hf__free(news);
    pthread_mutex_lock(&client->mutex);
    if (acquisition->telling && !acquisition->attempt && acquisition->waiter)
        give_result(client, acquisition);
    acquisition->telling = false;
    unref(acquisition);
    pthread_mutex_unlock(&client->mutex);
}

/* ---- the result ---- */

/* Copies the data in the record to the handle. */
static void keep_data(struct hf_lock *lock, const struct hf_outcome *outcome)
{
    if (!outcome->has_stored) return;
    if (!outcome->lacks_stored) lock->data = hf__malloc(outcome->stored.len + 1);
    if (!lock->data) { /* the lock counts more than its data */
        lock->lacks_data = true;
        return;
    }
    memcpy(lock->data, outcome->stored.ptr, outcome->stored.len);
    lock->data_size = (uint32_t)outcome->stored.len;
}

void hf__acquire_finished(struct hf_client *client, struct hf_attempt *attempt)
{
    struct hf_acquisition *acquisition = hf__attempt_user(attempt);
    struct hf_outcome outcome;
    hf__attempt_outcome(attempt, &outcome);
    acquisition->attempt = NULL;
    acquisition->code = outcome.code;
    acquisition->error = *outcome.error;
    if (outcome.again) { /* a re-entrant acquire: the handle that exists */
        hf__lock_drop(acquisition->lock);
        acquisition->lock = hf__grant_user(outcome.grant);
        acquisition->lock->refs++;
    } else if (outcome.grant) {
        struct hf_lock *lock = acquisition->lock;
        lock->grant = outcome.grant;
        hf__grant_set_user(lock->grant, lock);
        keep_data(lock, &outcome);
        hf__client_ref(client);
    }
    if (outcome.blocked) acquisition->blocked = news_of(&outcome.blocked_by);
    acquisition->repeats = outcome.repeats != NULL;
    if (outcome.repeats) acquisition->repeated = *outcome.repeats;
    hf__attempt_free(client->core, attempt);
    /* A callback is queued after the news being reported, and before the lock's events. */
    if (!acquisition->telling || !acquisition->waiter) give_result(client, acquisition);
}

static void call_back(struct hf_client *client, struct hf_chore *chore)
{
    struct hf_acquisition *acquisition = HF_CONTAINER(chore, struct hf_acquisition, chore);
    struct hf_lock *lock = acquisition->code == 0 ? acquisition->lock : NULL;
    if (lock) acquisition->lock = NULL;
    acquisition->done(acquisition->user, acquisition->code, lock, &acquisition->error);
    pthread_mutex_lock(&client->mutex);
    unref(acquisition);
    pthread_mutex_unlock(&client->mutex);
}

/* ---- checking the options ---- */

static int check_attributes(struct hf_client *client, const struct hf_acquire_options *options,
                            struct hf_arena *arena, struct hf_item *ret, struct hf_error *reterr)
{
    const struct hf_core_options *core = hf__core_options(client->core);
    *ret = (struct hf_item){0};
    if (options->attribute_count > ATTRIBUTES_MAX)
        return hf__error_set(reterr, HF_ERR_LIMIT, "at most %d attributes", ATTRIBUTES_MAX);
    for (size_t i = 0; i < options->attribute_count; i++) {
        struct hf_slice name = hf__slice_str(options->attributes[i].name);
        struct hf_slice text = hf__slice_str(options->attributes[i].text);
        const char *refusal = hf__format_refuses_extra(core->format, &core->layout, name);
        if (!refusal && !hf__utf8_valid(text)) refusal = "its text is not UTF-8";
        if (!refusal && text.len > DATA_MAX) refusal = "its text is too long";
        if (refusal)
            return hf__error_set(reterr, HF_ERR_INVALID, "attribute \"%.*s\": %s", HF_FMT(name),
                                 refusal);
        struct hf_value value = hf__s(text);
        *ret = hf__item_with(arena, *ret, name, &value);
    }
    return arena->failed ? hf__error_no_memory(reterr) : 0;
}

#define REFUSE_IF(condition, ...)                                                                  \
    if (condition) return hf__error_set(reterr, HF_ERR_INVALID, __VA_ARGS__)

static int check_times(const struct hf_core_options *core, const struct hf_want *want,
                       struct hf_error *reterr)
{
    int64_t lease_ms = want->lease_ms ? want->lease_ms : core->lease_ms;
    REFUSE_IF(want->lease_ms > 0 && !(core->format->can & HF_CAN_RENEW),
              "the format \"%s\" has no leases", core->format->name);
    REFUSE_IF(want->lease_ms < 0 || want->lease_ms > HF_LEASE_MAX_MS || lease_ms < 100,
              "invalid lease of %lld ms: must be between 100 ms and a year",
              (long long)want->lease_ms);
    REFUSE_IF(core->period_ms > lease_ms / 2,
              "a lease of %lld ms is too short for a heartbeat every %lld ms; it must be at least "
              "twice that",
              (long long)lease_ms, (long long)core->period_ms);
    REFUSE_IF(want->warn_ms != 0 && (want->warn_ms <= core->period_ms || want->warn_ms >= lease_ms),
              "a warning after %lld ms must lie between the heartbeat (%lld ms) and the lease "
              "(%lld ms)",
              (long long)want->warn_ms, (long long)core->period_ms, (long long)lease_ms);
    return 0;
}

static int check_shared(const struct hf_client *client, const struct hf_acquire_options *options,
                        const struct hf_lease *session, struct hf_error *reterr)
{
    const struct hf_core_options *core = hf__core_options(client->core);
    if (!options->shared && options->limit == 0) return 0;
    if (!(core->format->can & HF_CAN_SHARE))
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no shared locks",
                             core->format->name);
    REFUSE_IF(options->limit < 0 || options->limit >= HF_READERS_LIMIT,
              "a limit of %lld: it must be between 1 and %d", (long long)options->limit,
              HF_READERS_LIMIT - 1);
    if (!core->format->sessions) {
        if (options->limit == 0) return 0;
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no semaphores",
                             core->format->name);
    }
    REFUSE_IF(core->session == HF_USE_SESSION_NEVER && !session,
              "a shared lock needs a session; leave sessions and heartbeats on");
    REFUSE_IF(options->lease_ms != 0,
              "a shared lock is kept by a session and cannot have a lease of its own");
    return 0;
}

static int check_want(struct hf_client *client, const struct hf_acquire_call *call,
                      struct hf_arena *arena, struct hf_want *ret, struct hf_error *reterr)
{
    const struct hf_core_options *core = hf__core_options(client->core);
    const struct hf_acquire_options *options = call->options;
    const char *name = call->name;
    REFUSE_IF(!name, "missing lock name");
    const char *refusal = core->format->refuses_name(hf__slice_str(name));
    REFUSE_IF(refusal, "lock \"%.64s\": %s", name, refusal);
    REFUSE_IF(call->timeout_ms < 0, "invalid timeout of %lld ms: use 0 to try, HF_FOREVER to wait",
              (long long)call->timeout_ms);
    struct hf_slice owner = hf__slice_str(options->owner);
    REFUSE_IF(options->owner &&
                  (owner.len == 0 || owner.len > HF_OWNER_MAX || !hf__utf8_valid(owner)),
              "an owner is UTF-8 text of 1 to %d bytes", HF_OWNER_MAX);
    struct hf_slice instance = hf__slice_str(options->instance);
    REFUSE_IF(instance.len > HF_INSTANCE_MAX || !hf__utf8_valid(instance),
              "an instance is UTF-8 text of at most %d bytes", HF_INSTANCE_MAX);
    REFUSE_IF(options->data_size > 0 && !options->data, "data_size without data");
    if (options->data_size > DATA_MAX)
        return hf__error_set(reterr, HF_ERR_LIMIT,
                             "data of %zu bytes is too long: at most %d bytes", options->data_size,
                             DATA_MAX);
    if (options->data && !(core->format->can & HF_CAN_DATA))
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" stores no data",
                             core->format->name);
    *ret = (struct hf_want){
        .name = hf__slice_str(name),
        .limit = options->limit    ? options->limit
                 : options->shared ? HF_READERS_LIMIT
                                   : 0,
        .timeout_ms = call->timeout_ms > HF_LEASE_MAX_MS ? HF_NEVER : call->timeout_ms,
        .lease_ms = options->lease_ms,
        .warn_ms = options->warn_ms,
        .has_data = options->data != NULL,
        .keep_data = options->keep_data,
        .data = hf__slice(options->data, options->data_size),
        .only_if_exists = options->only_if_exists,
        .reentrant = options->reentrant,
        .owner = owner,
        .instance = instance,
        .reports = options->on_wait != NULL,
        .stubborn = call->stubborn,
        .session = call->session,
        .has_call = call->id != NULL,
    };
    if (call->id) ret->call = *call->id;
    REFUSE_IF(call->session && options->lease_ms,
              "a session's lock cannot have a lease of its own");
    int code = check_times(core, ret, reterr);
    if (code == 0) code = check_shared(client, options, call->session, reterr);
    if (code == 0) code = check_attributes(client, options, arena, &ret->extra, reterr);
    return code;
}

/* ---- the two ways ---- */

static struct hf_acquisition *acquisition_new(struct hf_client *client,
                                              const struct hf_acquire_options *options)
{
    struct hf_acquisition *acquisition = hf__calloc(1, sizeof *acquisition);
    if (!acquisition) return NULL;
    acquisition->refs = 1;
    acquisition->client = client;
    acquisition->chore.run = call_back;
    acquisition->report.run = tell;
    acquisition->on_wait = options->on_wait;
    acquisition->on_wait_user = options->user;
    hf__list_init(&acquisition->chore.node);
    hf__list_init(&acquisition->report.node);
    acquisition->lock = hf__lock_new(client, options);
    if (acquisition->lock) return acquisition;
    hf__free(acquisition);
    return NULL;
}

/* With the mutex held. */
static int begin(struct hf_acquisition *acquisition, struct hf_want *want, struct hf_error *reterr)
{
    struct hf_client *client = acquisition->client;
    want->user = acquisition;
    return hf__core_acquire(client->core, want, hf__client_now_us(client), &acquisition->attempt,
                            reterr);
}

int hf_acquire(struct hf_client *client, const char *name, int64_t timeout_ms,
               const struct hf_acquire_options *given, struct hf_lock **ret,
               struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_acquire_options, options, given);
    if (!client || !ret)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "the client or the pointer for the lock is NULL");
    struct hf_arena arena = {0};
    struct hf_want want;
    struct hf_waiter waiter;
    const struct hf_acquire_call call = {
        .name = name, .timeout_ms = timeout_ms, .options = &options};
    int code = check_want(client, &call, &arena, &want, reterr);
    struct hf_acquisition *acquisition = code == 0 ? acquisition_new(client, &options) : NULL;
    if (!acquisition) {
        hf__arena_free(&arena);
        return code != 0 ? code : hf__error_no_memory(reterr);
    }
    code = hf__client_enter_waiting(client, reterr);
    if (code != 0) {
        unref(acquisition);
        hf__arena_free(&arena);
        return code;
    }
    code = hf__waiter_init(client, &waiter, NULL, reterr);
    if (code == 0) {
        acquisition->waiter = &waiter;
        code = begin(acquisition, &want, reterr);
        if (code != 0) waiter.done = true;
        hf__client_leave(client);
        pthread_mutex_lock(&client->mutex);
        hf__waiter_wait(client, &waiter);
        if (code == 0) {
            code = acquisition->code;
            if (code == 0) {
                *ret = acquisition->lock;
                acquisition->lock = NULL;
            } else if (reterr) {
                *reterr = acquisition->error;
            }
        }
        unref(acquisition);
        hf__client_unref_unlock(client);
    } else {
        unref(acquisition);
        pthread_mutex_unlock(&client->mutex);
    }
    hf__arena_free(&arena);
    return code;
}

int hf_acquire_async(struct hf_client *client, const char *name, int64_t timeout_ms,
                     const struct hf_acquire_options *given, hf_acquired_fn done, void *user,
                     struct hf_acquisition **ret, struct hf_error *reterr)
{
    const struct hf_acquire_call call = {
        .name = name, .timeout_ms = timeout_ms, .options = given, .done = done, .user = user};
    return hf__acquire_async(client, &call, ret, reterr);
}

int hf__acquire_async(struct hf_client *client, const struct hf_acquire_call *given,
                      struct hf_acquisition **ret, struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_acquire_options, options, given->options);
    struct hf_acquire_call call = *given;
    call.options = &options;
    if (!client || !call.done)
        return hf__error_set(reterr, HF_ERR_INVALID, "the client or the callback is NULL");
    struct hf_arena arena = {0};
    struct hf_want want;
    int code = check_want(client, &call, &arena, &want, reterr);
    struct hf_acquisition *acquisition = code == 0 ? acquisition_new(client, &options) : NULL;
    if (!acquisition) {
        hf__arena_free(&arena);
        return code != 0 ? code : hf__error_no_memory(reterr);
    }
    code = hf__client_enter(client, reterr);
    if (code == 0) {
        acquisition->done = call.done;
        acquisition->user = call.user;
        if (ret) acquisition->refs++;
        code = begin(acquisition, &want, reterr);
        if (code == 0 && ret) {
            *ret = acquisition;
            hf__client_ref(client);
        }
        hf__client_leave(client);
        if (code != 0) acquisition->refs = 1;
    }
    if (code != 0) unref(acquisition);
    hf__arena_free(&arena);
    return code;
}

const struct hf_wait *hf__acquisition_blocked_by(const struct hf_acquisition *acquisition)
{
    return acquisition && acquisition->blocked ? &acquisition->blocked->wait : NULL;
}

const struct hf_id *hf__acquisition_repeats(const struct hf_acquisition *acquisition)
{
    return acquisition && acquisition->repeats ? &acquisition->repeated : NULL;
}

struct hf_attempt *hf__acquisition_attempt(const struct hf_acquisition *acquisition)
{
    return acquisition ? acquisition->attempt : NULL;
}

void hf_acquisition_cancel(struct hf_acquisition *acquisition)
{
    if (!acquisition) return;
    struct hf_client *client = acquisition->client;
    if (hf__client_enter(client, NULL) != 0) return;
    if (acquisition->attempt)
        hf__core_cancel(client->core, acquisition->attempt, hf__client_now_us(client));
    hf__client_leave(client);
}

void hf_acquisition_free(struct hf_acquisition *acquisition)
{
    if (!acquisition || hf__client_enter(acquisition->client, NULL) != 0) return;
    struct hf_client *client = acquisition->client;
    unref(acquisition);
    hf__client_unref_unlock(client);
}
