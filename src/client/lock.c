/*
 * The handle of a lock.
 *
 * A handle is counted: one reference for each of the user's, and one of our own
 * from the grant until its final event has been delivered. The grant is freed with
 * the last of them.
 */
#include <string.h>

#include "base/alloc.h"
#include "client/client.h"

enum { DATA_MAX = 350 * 1024 };

static void deliver(struct hf_client *client, struct hf_chore *chore);

struct hf_lock *hf__lock_new(struct hf_client *client, const struct hf_acquire_options *options)
{
    struct hf_lock *lock = hf__calloc(1, sizeof *lock);
    if (!lock) return NULL;
    hf__list_init(&lock->events.node);
    lock->events.run = deliver;
    lock->client = client;
    lock->on_event = options->on_event;
    lock->user = options->user;
    lock->refs = 2;
    return lock;
}

void hf__lock_drop(struct hf_lock *lock)
{
    if (!lock) return;
    hf__free(lock->data);
    hf__free(lock);
}

/* Call with the mutex held; it is released. */
static void unref_unlock(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (--lock->refs > 0) {
        pthread_mutex_unlock(&client->mutex);
        return;
    }
    hf__grant_free(client->core, lock->grant);
    hf__lock_drop(lock);
    hf__client_unref_unlock(client);
}

/* ---- events ---- */

void hf__lock_news(struct hf_client *client, struct hf_grant *grant, int which)
{
    struct hf_lock *lock = hf__grant_user(grant);
    lock->told |= (uint8_t)which;
    if (which == HF_EVENT_IS_FINAL) hf__client_wake_all(client, lock);
    hf__client_chore(client, &lock->events);
}

static bool take_news(struct hf_lock *lock, uint8_t which, struct hf_event *ret)
{
    struct hf_grant_facts facts;
    if (!(lock->told & which)) return false;
    lock->told &= (uint8_t)~which;
    hf__grant_facts(lock->grant, &facts);
    *ret = (struct hf_event){
        .type = which == HF_EVENT_IS_WARNING       ? HF_EVENT_WARNING
                : facts.reason <= HF_REASON_CLOSED ? HF_EVENT_RELEASED
                                                   : HF_EVENT_LOST,
        .lock = lock,
        .name = facts.name,
        .token = facts.token,
        .reason = which == HF_EVENT_IS_WARNING ? HF_REASON_NONE : facts.reason,
        .cause = facts.code,
        .detail = facts.detail,
        .left_ms = hf__grant_left_us(lock->grant, hf__client_now_us(lock->client)) / 1000,
    };
    return true;
}

static void deliver(struct hf_client *client, struct hf_chore *chore)
{
    struct hf_lock *lock = HF_CONTAINER(chore, struct hf_lock, events);
    struct hf_event event;
    pthread_mutex_lock(&client->mutex);
    bool warning = take_news(lock, HF_EVENT_IS_WARNING, &event);
    /* A warning is dropped if the lease has ended by now. */
    if (warning && event.left_ms > 0 && lock->on_event) {
        pthread_mutex_unlock(&client->mutex);
        lock->on_event(lock->user, &event);
        pthread_mutex_lock(&client->mutex);
    }
    if (!take_news(lock, HF_EVENT_IS_FINAL, &event)) {
        pthread_mutex_unlock(&client->mutex);
        return;
    }
    hf__list_remove(&lock->events.node); /* it may have been queued during the warning */
    pthread_mutex_unlock(&client->mutex);
    if (lock->on_event) lock->on_event(lock->user, &event);
    pthread_mutex_lock(&client->mutex);
    unref_unlock(lock);
}

/* ---- what it is ---- */

const char *hf_lock_name(const struct hf_lock *lock)
{
    return hf__grant_name(lock->grant);
}

const char *hf_lock_owner(const struct hf_lock *lock)
{
    return hf__grant_owner(lock->client->core, lock->grant).ptr;
}

int64_t hf_lock_token(const struct hf_lock *lock)
{
    return hf__grant_token(lock->grant);
}

int64_t hf_lock_left_ms(const struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (hf__client_enter(client, NULL) != 0) return 0;
    int64_t left_us = hf__grant_left_us(lock->grant, hf__client_now_us(client));
    pthread_mutex_unlock(&client->mutex);
    return left_us / 1000;
}

bool hf_lock_is_held(const struct hf_lock *lock)
{
    return lock && hf_lock_left_ms(lock) > 0;
}

enum hf_reason hf_lock_reason(const struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (hf__client_enter(client, NULL) != 0) return HF_REASON_NONE;
    hf__core_tick(client->core, hf__client_now_us(client));
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    hf__client_leave(client);
    return facts.ended ? facts.reason : HF_REASON_NONE;
}

const void *hf_lock_data(const struct hf_lock *lock, size_t *ret_size)
{
    struct hf_client *client = lock->client;
    if (ret_size) *ret_size = 0;
    if (hf__client_enter(client, NULL) != 0) return NULL;
    const void *data = lock->data;
    if (ret_size && data) *ret_size = lock->data_size;
    pthread_mutex_unlock(&client->mutex);
    return data;
}

/* ---- calls that wait ---- */

int hf__job_finish(struct hf_client *client, struct hf_job_call *call, struct hf_error *reterr)
{
    hf__client_leave(client);
    pthread_mutex_lock(&client->mutex);
    hf__waiter_wait(client, &call->waiter);
    hf__client_unref_unlock(client);
    if (call->job.code != 0 && reterr) *reterr = call->job.error;
    return call->job.code;
}

int hf__job_begin(struct hf_client *client, struct hf_job_call *call, struct hf_error *reterr)
{
    int code = hf__client_enter_waiting(client, reterr);
    if (code != 0) return code;
    call->clock = client->clock;
    call->job = (struct hf_job){.user = &call->waiter};
    code = hf__waiter_init(client, &call->waiter, NULL, reterr);
    if (code != 0) pthread_mutex_unlock(&client->mutex);
    return code;
}

int hf_lock_extend(struct hf_lock *lock, int64_t at_least_ms, struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    struct hf_job_call call;
    if (at_least_ms < 0 || at_least_ms > HF_LEASE_MAX_MS / 2)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid duration of %lld ms: must be between 0 and half a year",
                             (long long)at_least_ms);
    int code = hf__job_begin(client, &call, reterr);
    if (code != 0) return code;
    hf__core_ensure(client->core, lock->grant, at_least_ms, &call.job, hf__client_now_us(client));
    return hf__job_finish(client, &call, reterr);
}

int64_t hf__whole_ms(const struct hf_client *client, int64_t lease_ms)
{
    int margin_per_mille = hf__core_options(client->core)->margin_per_mille;
    int64_t ms = lease_ms - lease_ms * margin_per_mille / 1000 - 1;
    return ms > 0 ? ms : 0;
}

int hf_lock_renew(struct hf_lock *lock, struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    struct hf_job_call call;
    int code = hf__job_begin(client, &call, reterr);
    if (code != 0) return code;
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    hf__core_ensure(client->core, lock->grant, hf__whole_ms(client, facts.lease_ms), &call.job,
                    hf__client_now_us(client));
    return hf__job_finish(client, &call, reterr);
}

int hf_lock_set_data(struct hf_lock *lock, const void *data, size_t size, struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    struct hf_job_call call;
    if (size > DATA_MAX)
        return hf__error_set(reterr, HF_ERR_LIMIT,
                             "data of %zu bytes is too long: at most %d bytes", size, DATA_MAX);
    if (!(hf__core_options(client->core)->format->can & HF_CAN_DATA))
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" stores no data",
                             hf__core_options(client->core)->format->name);
    if (!data) size = 0;
    void *copy = data ? hf__malloc(size + 1) : NULL;
    if (data && !copy) return hf__error_no_memory(reterr);
    if (copy) memcpy(copy, data, size);
    int code = hf__job_begin(client, &call, reterr);
    if (code == 0) {
        hf__core_set_data(client->core, lock->grant, data != NULL, hf__slice(copy, size), &call.job,
                          hf__client_now_us(client));
        code = hf__job_finish(client, &call, reterr);
    }
    if (code != 0) {
        hf__free(copy);
        return code;
    }
    pthread_mutex_lock(&client->mutex);
    void *old = lock->data;
    lock->data = copy;
    lock->data_size = (uint32_t)size;
    pthread_mutex_unlock(&client->mutex);
    hf__free(old);
    return 0;
}

/* ---- release ---- */

static int begin_release(struct hf_lock *lock, const struct hf_release_options *options,
                         bool *ret_counted, struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    const struct hf_release how = {
        .has_data = options->data != NULL,
        .data = hf__slice(options->data, options->data ? options->data_size : 0),
        .reason = HF_REASON_RELEASED,
    };
    *ret_counted = hf__grant_is_reentered(lock->grant);
    if (hf__core_release(client->core, lock->grant, &how, hf__client_now_us(client))) return 0;
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    return hf__error_set(reterr, HF_ERR_LOST, "lock \"%s\" is not held: %s", facts.name,
                         hf_reason_meaning(facts.reason));
}

static int check_release(const struct hf_release_options *options, struct hf_error *reterr)
{
    if (options->data && options->data_size > DATA_MAX)
        return hf__error_set(reterr, HF_ERR_LIMIT,
                             "data of %zu bytes is too long: at most %d bytes", options->data_size,
                             DATA_MAX);
    return 0;
}

static int result_of(const struct hf_lock *lock, bool best_effort, struct hf_error *reterr)
{
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    const char *detail = facts.detail ? facts.detail : "";
    switch (facts.reason) {
    case HF_REASON_RELEASED:
    case HF_REASON_CLOSED: return 0;
    case HF_REASON_UNCONFIRMED:
        if (best_effort) return 0;
        return hf__error_set(reterr, HF_ERR_OUTCOME_UNKNOWN,
                             "lock \"%s\": the store did not confirm the release (%s); it expires "
                             "by itself",
                             facts.name, detail);
    default:
        return hf__error_set(reterr, HF_ERR_LOST, "lock \"%s\" was lost: %s%s%s", facts.name,
                             hf_reason_meaning(facts.reason), *detail ? ", " : "", detail);
    }
}

int hf_release(struct hf_lock *lock, const struct hf_release_options *given,
               struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_release_options, options, given);
    if (!lock) return hf__error_set(reterr, HF_ERR_INVALID, "the lock is NULL");
    struct hf_client *client = lock->client;
    struct hf_waiter waiter;
    bool counted;
    int code = check_release(&options, reterr);
    if (code == 0) code = hf__client_enter_waiting(client, reterr);
    if (code != 0) return code;
    code = hf__waiter_init(client, &waiter, lock, reterr);
    if (code == 0) {
        code = begin_release(lock, &options, &counted, reterr);
        if (code != 0 || counted) waiter.done = true;
        hf__client_leave(client);
        pthread_mutex_lock(&client->mutex);
        hf__waiter_wait(client, &waiter);
        if (code == 0 && !counted) code = result_of(lock, options.best_effort, reterr);
        client->refs--; /* the waiter's; the lock keeps the client */
    }
    pthread_mutex_unlock(&client->mutex);
    return code;
}

int hf_release_async(struct hf_lock *lock, const struct hf_release_options *given,
                     struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_release_options, options, given);
    bool counted;
    int code = check_release(&options, reterr);
    if (code == 0) code = hf__client_enter(lock->client, reterr);
    if (code != 0) return code;
    code = begin_release(lock, &options, &counted, reterr);
    hf__client_leave(lock->client);
    return code;
}

/* ---- references ---- */

struct hf_lock *hf_lock_ref(struct hf_lock *lock)
{
    if (hf__client_enter(lock->client, NULL) != 0) return lock;
    lock->refs++;
    pthread_mutex_unlock(&lock->client->mutex);
    return lock;
}

void hf_lock_unref(struct hf_lock *lock)
{
    if (!lock || hf__client_enter(lock->client, NULL) != 0) return;
    struct hf_client *client = lock->client;
    bool only_ours_is_left = lock->refs == 2;
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    if (only_ours_is_left && facts.held) {
        hf__core_abandon(client->core, lock->grant, hf__client_now_us(client));
        lock->refs--;
        hf__client_leave(client);
        return;
    }
    unref_unlock(lock);
}
