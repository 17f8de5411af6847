/*
 * Acting by grant: one process takes a lock, another one renews or releases it. The protocol
 * does the work (lock/adopt.c); these are the calls.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/on_behalf.h"
#include "format/format.h"

/* "NAME#grant"; for a shared lock "NAME#s" and the grant. */
int hf_lock_grant(const struct hf_lock *lock, char ret[HF_GRANT_SIZE], struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    char id[HF_GRANT_TEXT + 1];
    int code = hf__client_enter(client, reterr);
    if (code != 0) return code;
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    if (!facts.held) {
        code = hf__error_set(reterr, HF_ERR_LOST, "the lock is no longer held");
    } else if (facts.in_session) {
        code = hf__error_set(reterr, HF_ERR_UNSUPPORTED,
                             "the lock is kept by a session, which ends with its process");
    } else {
        hf__hex_encode(facts.id.bytes, sizeof facts.id.bytes, id);
        snprintf(ret, HF_GRANT_SIZE, "%s#%s%s", facts.name, facts.limit ? "s" : "", id);
    }
    pthread_mutex_unlock(&client->mutex);
    return code;
}

bool hf__grant_parse(struct hf_slice text, struct hf_by_grant *ret)
{
    bool shared = text.len > 0 && text.ptr[0] == 's';
    ret->limit = shared ? HF_READERS_LIMIT : 0;
    return hf__id_parse(hf__slice_skip(text, shared ? 1 : 0), &ret->grant);
}

static int parse(const struct hf_client *client, const char *text, struct hf_by_grant *ret,
                 struct hf_error *reterr)
{
    const char *hash = text ? strrchr(text, '#') : NULL;
    *ret = (struct hf_by_grant){0};
    if (hash) ret->name = hf__slice(text, (size_t)(hash - text));
    if (!hash || !hf__grant_parse(hf__slice_str(hash + 1), ret))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid grant: expected NAME#… as printed by acquire");
    const char *refusal = hf__core_options(client->core)->format->refuses_name(ret->name);
    if (refusal) return hf__error_set(reterr, HF_ERR_INVALID, "invalid grant: %s", refusal);
    return 0;
}

static int check_lease(int64_t lease_ms, struct hf_error *reterr)
{
    if (lease_ms == 0 || (lease_ms >= 100 && lease_ms <= HF_LEASE_MAX_MS)) return 0;
    return hf__error_set(reterr, HF_ERR_INVALID,
                         "invalid lease of %lld ms: must be between 100 ms and a year",
                         (long long)lease_ms);
}

int hf_grant_renew(struct hf_client *client, const char *grant, int64_t lease_ms,
                   struct hf_grant_status *ret, struct hf_error *reterr)
{
    struct hf_by_grant which;
    struct hf_job_call call;
    int code = check_lease(lease_ms, reterr);
    if (code == 0) code = parse(client, grant, &which, reterr);
    if (code == 0) code = hf__job_begin(client, &call, reterr);
    if (code != 0) return code;
    hf__core_adopt(client->core, &which, lease_ms, &call.job, hf__client_now_us(client));
    code = hf__job_finish(client, &call, reterr);
    if (code != 0 || !ret) return code;
    const struct hf_confirmed *confirmed = &call.job.confirmed;
    int64_t left_us = confirmed->valid_until_us - hf__clock_boot_us(call.clock);
    *ret = (struct hf_grant_status){
        .token = confirmed->token,
        .lease_ms = confirmed->lease_ms,
        .left_ms = left_us > 0 ? left_us / 1000 : 0,
        .expires_unix_ms = confirmed->expires_unix_ms,
    };
    return 0;
}

int hf_grant_release(struct hf_client *client, const char *grant, struct hf_error *reterr)
{
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    struct hf_by_grant which;
    struct hf_job_call call;
    int code = parse(client, grant, &which, reterr);
    if (code == 0) code = hf__job_begin(client, &call, reterr);
    if (code != 0) return code;
    hf__core_release_by_grant(client->core, &which, &how, &call.job, hf__client_now_us(client));
    return hf__job_finish(client, &call, reterr);
}

/* ---- for the service ---- */

int hf__adopt_async(struct hf_client *client, const struct hf_adopt_call *call,
                    struct hf_error *reterr)
{
    const struct hf_acquire_options options = {.on_event = call->on_event, .user = call->lock_user};
    int code = check_lease(call->lease_ms, reterr);
    if (code != 0) return code;
    struct hf_lock *lock = hf__lock_new(client, &options);
    struct hf_async *async = lock ? hf__async_begin(client, NULL, call->user, reterr) : NULL;
    if (!async) {
        hf__lock_drop(lock);
        return lock ? reterr->code : hf__error_no_memory(reterr);
    }
    struct hf_by_grant which = *call->which;
    which.keep = true;
    which.user = lock;
    async->lock = lock;
    async->adopted = call->done;
    hf__core_adopt(client->core, &which, call->lease_ms, &async->job, hf__client_now_us(client));
    hf__client_leave(client);
    return 0;
}

int hf__release_by_grant_async(struct hf_client *client, const struct hf_by_grant *which,
                               const void *data, size_t size, hf_released_fn done, void *user,
                               struct hf_error *reterr)
{
    const struct hf_release how = {.reason = HF_REASON_RELEASED,
                                   .has_data = data != NULL,
                                   .data = hf__slice(data, data ? size : 0)};
    struct hf_async *async = hf__async_begin(client, NULL, user, reterr);
    if (!async) return reterr->code;
    async->released = done;
    hf__core_release_by_grant(client->core, which, &how, &async->job, hf__client_now_us(client));
    hf__client_leave(client);
    return 0;
}
