/*
 * A lock that is held, from its confirmation to its final event.
 *
 * Invariants
 * G1  A grant ends once, with one reason, and is then in no list except
 *     `events`.
 * G2  A release and a renewal of one lock are never in flight together; after a
 *     release has begun no renewal is sent.
 */
#include <stdio.h>

#include "lock/inside.h"

struct hf_slice hf__grant_owner(const struct hf_core *core, const struct hf_grant *grant)
{
    return grant->owner_len ? hf__slice(grant->owner, grant->owner_len) : core->options.owner;
}

struct hf_slice hf__grant_instance(const struct hf_grant *grant)
{
    return hf__slice(grant->owner + grant->owner_len + 1, grant->instance_len);
}

const char *hf__grant_name(const struct hf_grant *grant)
{
    return grant->name->text;
}

int64_t hf__grant_token(const struct hf_grant *grant)
{
    return grant->token;
}

void *hf__grant_user(const struct hf_grant *grant)
{
    return grant->user;
}

void hf__grant_set_user(struct hf_grant *grant, void *user)
{
    grant->user = user;
}

int64_t hf__grant_left_us(const struct hf_grant *grant, int64_t now_us)
{
    if (grant->state != HF_GRANT_HELD || grant->lease->valid_until_us <= now_us) return 0;
    return grant->lease->valid_until_us - now_us;
}

bool hf__grant_is_reentered(const struct hf_grant *grant)
{
    return grant->entries > 1;
}

void hf__grant_facts(const struct hf_grant *grant, struct hf_grant_facts *ret)
{
    *ret = (struct hf_grant_facts){
        .name = grant->name->text,
        .id = grant->id,
        .token = grant->token,
        .since_unix_ms = grant->since_unix_ms,
        .limit = grant->limit,
        .held = grant->state == HF_GRANT_HELD,
        .taken_over = grant->taken_over,
        .ended = grant->state == HF_GRANT_ENDED,
        .reason = (enum hf_reason)grant->reason,
        .code = grant->code,
        .detail = grant->detail,
    };
    if (!grant->lease) return;
    ret->lease_ms = grant->lease->lease_ms;
    ret->expires_unix_ms = grant->lease->expires_unix_ms;
    ret->in_session = grant->lease->is_session;
}

struct hf_grant *hf__grant_new(size_t owner_room)
{
    struct hf_grant *grant = hf__calloc(1, sizeof *grant + owner_room + 1);
    if (!grant) return NULL;
    hf__list_init(&grant->of_name);
    hf__list_init(&grant->of_lease);
    hf__list_init(&grant->event);
    hf__list_init(&grant->errands);
    grant->entries = 1;
    return grant;
}

void hf__grant_claim(const struct hf_core *core, const struct hf_grant *grant, struct hf_claim *ret)
{
    *ret = (struct hf_claim){
        .name = hf__name_text(grant->name),
        .owner = hf__grant_owner(core, grant),
        .instance = hf__grant_instance(grant),
        .grant = grant->id,
        .session = grant->lease->is_session ? &grant->lease->id : NULL,
        .limit = grant->limit,
        .version = grant->lease->version,
        .by = grant->lease->by,
        .lease_ms = grant->lease->lease_ms,
        .expires_unix_ms = grant->lease->expires_unix_ms,
        .pending = grant->lease->pending,
        .pending_by = grant->lease->pending_by,
        .pending_unix_ms = grant->lease->pending_expires_unix_ms,
        .since_unix_ms = grant->since_unix_ms,
        .token = grant->token,
    };
}

static void announce(struct hf_core *core, struct hf_grant *grant, uint8_t what)
{
    if (!grant->pending) hf__list_append(&core->events, &grant->event);
    grant->pending |= what;
}

void hf__grant_warn(struct hf_core *core, struct hf_grant *grant)
{
    grant->warned = true;
    announce(core, grant, HF_EVENT_IS_WARNING);
}

struct hf_grant *hf__core_next_event(struct hf_core *core, int *ret_which)
{
    if (hf__list_empty(&core->events)) return NULL;
    struct hf_grant *grant = HF_CONTAINER(core->events.next, struct hf_grant, event);
    uint8_t which = grant->pending & HF_EVENT_IS_WARNING ? HF_EVENT_IS_WARNING : HF_EVENT_IS_FINAL;
    grant->pending &= (uint8_t)~which;
    if (!grant->pending) hf__list_remove(&grant->event);
    *ret_which = which;
    return grant;
}

void hf__grant_end(struct hf_core *core, struct hf_grant *grant, enum hf_reason reason, int code,
                   const char *detail, int64_t now_us)
{
    if (grant->state == HF_GRANT_ENDED) return;
    struct hf_name *name = grant->name;
    struct hf_lease *lease = grant->lease;
    struct hf_job *adopting = NULL;
    if (grant->state == HF_GRANT_ADOPTING) {
        adopting = lease->job;
        lease->job = NULL;
    }
    hf__errands_forget(core, grant);
    hf__ensures_fail(core, lease, grant, HF_ERR_LOST, reason);
    lease->release = NULL;
    if (core->closing && reason == HF_REASON_UNCONFIRMED) core->unconfirmed++;
    grant->state = HF_GRANT_ENDED;
    grant->reason = (uint8_t)reason;
    grant->code = (int16_t)code;
    grant->detail = hf__strdup(detail); /* out of memory: the reason is reported without detail */
    hf__list_remove(&grant->of_name);
    hf__list_remove(&grant->of_lease);
    grant->lease = NULL;
    core->grant_count--;
    if (!lease->is_session) {
        core->own_count--;
        hf__lease_end(core, lease, reason, code, detail, now_us);
    }
    if (lease->leaving && hf__list_empty(&lease->grants)) hf__session_left(core, lease, now_us);
    hf__lease_unref(core, lease);
    name->refs++;
    if (adopting) hf__adoption_failed(core, grant, adopting);
    else announce(core, grant, HF_EVENT_IS_FINAL);
    hf__name_advance(core, name, now_us);
    hf__name_unref(core, name);
    if (core->closing && !core->closed) {
        if (core->releasing > 0) core->releasing--;
        hf__alarm_set(core, &core->closing_alarm, now_us);
    }
}

/* Why a grant is not in its record. */
static enum hf_reason explain(const struct hf_record *record, const struct hf_id *grant,
                              struct hf_error *ret)
{
    if (!record->exists) {
        hf__error_set(ret, 0, "its record is gone");
        return HF_REASON_DELETED;
    }
    if (hf__id_is(grant, record->forced)) {
        hf__error_set(ret, 0, "by %.*s: %.*s", HF_FMT(record->forced_by),
                      HF_FMT(record->forced_reason));
        return HF_REASON_FORCED;
    }
    if (hf__id_is(grant, record->released)) {
        hf__error_set(ret, 0, "its grant was released");
        return HF_REASON_DELETED;
    }
    if (hf__record_is_held(record)) {
        bool has_instance = record->instance.len > 0;
        hf__error_set(ret, 0, "by %.*s%s%.*s%s", HF_FMT(record->owner), has_instance ? " (" : "",
                      HF_FMT(record->instance), has_instance ? ")" : "");
        return HF_REASON_TAKEN;
    }
    hf__error_set(ret, 0, "its grant was removed from the record");
    return HF_REASON_DELETED;
}

void hf__grant_end_as(struct hf_core *core, struct hf_grant *grant, const struct hf_record *record,
                      int64_t now_us)
{
    struct hf_error detail = {0};
    enum hf_reason reason = explain(record, &grant->id, &detail);
    hf__grant_end(core, grant, reason, 0, detail.message, now_us);
}

void hf__explain_lost(const struct hf_record *record, const struct hf_id *grant,
                      struct hf_error *ret)
{
    struct hf_error detail = {0};
    enum hf_reason reason = explain(record, grant, &detail);
    if (reason == HF_REASON_TAKEN)
        hf__error_set(ret, HF_ERR_LOST, "no longer held: taken %s", detail.message);
    else if (reason == HF_REASON_FORCED)
        hf__error_set(ret, HF_ERR_LOST, "no longer held: force-released %s", detail.message);
    else hf__error_set(ret, HF_ERR_LOST, "no longer held: %s", detail.message);
}

void hf__grant_recheck(struct hf_core *core, struct hf_job *job, int64_t now_us)
{
    struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_RECHECK, job->grant);
    if (!errand) {
        hf__job_done(core, job, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    errand->job = job;
    hf__errand_start(core, errand, core->options.request_timeout_ms * HF_PATIENCE, now_us);
}

/* ---- release ---- */

bool hf__core_release(struct hf_core *core, struct hf_grant *grant, const struct hf_release *how,
                      int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (grant->state != HF_GRANT_HELD) return false;
    if (grant->entries > 1) {
        grant->entries--;
        return true;
    }
    struct hf_lease *lease = grant->lease;
    struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_RELEASE, grant);
    if (!errand) {
        /* Without memory for a release the lock is left to expire; it is no longer held. */
        if (!lease->is_session) lease->stopped = true;
        hf__grant_end(core, grant, HF_REASON_UNCONFIRMED, HF_ERR_NO_MEMORY, NULL, now_us);
        return true;
    }
    grant->state = HF_GRANT_RELEASING;
    grant->reason = (uint8_t)how->reason;
    errand->claim.last = grant->alone;
    errand->claim.has_data = how->has_data;
    if (how->has_data) errand->claim.data = hf__arena_copy(&errand->arena, how->data);
    /* Moves it after the held ones, since closing looks at the front. */
    hf__list_remove(&grant->of_lease);
    hf__list_append(&lease->grants, &grant->of_lease);
    if (!lease->is_session) {
        hf__list_remove(&lease->node);
        hf__list_append(&core->leases, &lease->node);
        lease->stopped = true;
        hf__lease_schedule(core, lease, now_us);
        if (lease->request && !HF_BUG(RENEW_AFTER_RELEASE)) { /* G2 */
            lease->release = errand;
            return true;
        }
    }
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
    hf__name_follow(core, grant->name, now_us);
    return true;
}

bool hf__core_give_back(struct hf_core *core, struct hf_grant *grant, int64_t now_us)
{
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    if (!core->options.by_grant || grant->state != HF_GRANT_HELD || grant->lease->is_session)
        return hf__core_release(core, grant, &how, now_us);
    hf__core_tick(core, now_us);
    if (grant->state != HF_GRANT_HELD) return false;
    struct hf_lease *lease = grant->lease;
    struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_EXPIRE, grant);
    lease->stopped = true;
    if (!errand) {
        hf__grant_end(core, grant, HF_REASON_UNCONFIRMED, HF_ERR_NO_MEMORY, NULL, now_us);
        return true;
    }
    grant->state = HF_GRANT_EXPIRING;
    grant->reason = HF_REASON_RELEASED;
    hf__lease_schedule(core, lease, now_us);
    if (lease->request) lease->release = errand; /* G2 */
    else hf__errand_start(core, errand, core->options.lease_ms, now_us);
    return true;
}

void hf__core_abandon(struct hf_core *core, struct hf_grant *grant, int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (grant->state != HF_GRANT_HELD) return;
    if (!grant->lease->is_session) grant->lease->stopped = true;
    hf__grant_end(core, grant, HF_REASON_ABANDONED, 0, NULL, now_us);
}

void hf__core_set_data(struct hf_core *core, struct hf_grant *grant, bool has_data,
                       struct hf_slice data, struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (grant->state != HF_GRANT_HELD) {
        hf__job_done(core, job, HF_ERR_LOST, "the lock is no longer held");
        return;
    }
    struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_DATA, grant);
    if (!errand) {
        hf__job_done(core, job, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    errand->job = job;
    errand->claim.has_data = has_data;
    errand->claim.data = hf__arena_copy(&errand->arena, data);
    hf__errand_start(core, errand, grant->lease->lease_ms, now_us);
}

void hf__grant_free(struct hf_core *core, struct hf_grant *grant)
{
    if (!grant) return;
    if (grant->pending) hf__list_remove(&grant->event);
    hf__name_unref(core, grant->name);
    hf__free(grant->detail);
    hf__free(grant);
}
