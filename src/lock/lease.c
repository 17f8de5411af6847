/*
 * Keeping: one machine renews leases, of one lock or of a session with many.
 *
 * Invariants
 * K1  At most one renewal is in flight. It takes the record from `version` to
 *     version + 1, and is repeated under the same number and id until it is decided.
 * K2  valid_until_us is counted from the first send of the confirmed version.
 *     A confirmed renewal never shortens it; an unconfirmed one never changes it
 *     (with hold_on_unavailable, one that the store rejected as out of service
 *     counts as confirmed: it is hoped that no other client is served either).
 * K3  When valid_until_us has passed the lease is dead, whatever comes later.
 * K4  Once its grant is being released a lease is no longer renewed.
 * K5  A record at version + 1 is ours if our write made it. Otherwise another actor
 *     serves the same holder: its version is adopted, it promises nothing here, and
 *     our renewal follows at once. A lease is lost when the record no longer has it.
 *     A lease that ends here is given back only if no other actor ever served its
 *     grant: they may have promised more than was promised here. A common session
 *     becomes dormant instead (common.c).
 * K6  A write is never shorter than the record: lease and expiry only grow, even if
 *     the caller asked for less.
 */
#include "lock/inside.h"

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);

struct hf_lease *hf__lease_new(struct hf_core *core, bool is_session)
{
    struct hf_lease *lease = hf__calloc(1, sizeof *lease);
    if (!lease) return NULL;
    if (!hf__alarm_init(core, &lease->alarm, ring)) {
        hf__free(lease);
        return NULL;
    }
    hf__list_init(&lease->grants);
    hf__list_init(&lease->ensures);
    hf__list_init(&lease->node);
    hf__list_init(&lease->of_opened);
    hf__list_init(&lease->verifying);
    hf__list_append(&core->leases, &lease->node);
    lease->look_at_us = HF_NEVER;
    lease->refs = 1;
    lease->is_session = is_session;
    /* Where a version does not identify its write, another actor may have renewed it unseen. */
    lease->others = !is_session && !(core->options.format->can & HF_NAMES_WRITES);
    lease->state = HF_LEASE_CREATING;
    lease->wanted_ms = lease->lease_ms = core->options.lease_ms;
    lease->warn_least_ms = HF_NEVER;
    return lease;
}

void hf__lease_ref(struct hf_lease *lease)
{
    lease->refs++;
}

void hf__lease_unref(struct hf_core *core, struct hf_lease *lease)
{
    if (!lease || --lease->refs > 0) return;
    hf__alarm_done(core, &lease->alarm);
    hf__list_remove(&lease->node);
    hf__free(lease->owner);
    hf__free(lease);
}

static struct hf_grant *only_grant(const struct hf_lease *lease)
{
    if (lease->is_session || hf__list_empty(&lease->grants)) return NULL;
    return HF_CONTAINER(lease->grants.next, struct hf_grant, of_lease);
}

static int64_t warn_due_us(const struct hf_lease *lease)
{
    if (lease->warn_least_ms == HF_NEVER) return HF_NEVER;
    return lease->confirmed_us + lease->warn_least_ms * 1000;
}

void hf__lease_schedule(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    (void)now_us;
    bool stopped = lease->stopped && !HF_BUG(RENEW_AFTER_RELEASE);
    if (lease->state != HF_LEASE_LIVE || stopped) {
        hf__alarm_set(core, &lease->alarm, HF_NEVER);
        return;
    }
    int64_t at_us = lease->dormant ? HF_NEVER : lease->valid_until_us;
    int64_t warn_us = lease->dormant ? HF_NEVER : warn_due_us(lease);
    bool is_wanted = !hf__list_empty(&lease->ensures);
    bool renews = !lease->dormant || (is_wanted && lease->version > 0);
    if (warn_us < at_us) at_us = warn_us;
    if (!lease->request && renews && lease->renew_at_us < at_us) at_us = lease->renew_at_us;
    if (!lease->request && lease->look_at_us < at_us) at_us = lease->look_at_us;
    if (lease->dormant && is_wanted && lease->give_up_us < at_us) at_us = lease->give_up_us;
    hf__alarm_set(core, &lease->alarm, at_us);
}

void hf__lease_add(struct hf_core *core, struct hf_lease *lease, struct hf_grant *grant,
                   int64_t now_us)
{
    lease->refs++;
    lease->idle_us = 0;
    grant->lease = lease;
    hf__list_append(&lease->grants, &grant->of_lease);
    if (grant->warn_ms > 0 && grant->warn_ms < lease->warn_least_ms)
        lease->warn_least_ms = grant->warn_ms;
    hf__lease_schedule(core, lease, now_us);
}

static void set_validity(struct hf_core *core, struct hf_lease *lease, int64_t sent_us,
                         int64_t now_us)
{
    if (HF_BUG(LEASE_FROM_ANSWER)) sent_us = now_us;
    lease->confirmed_us = sent_us;
    lease->valid_until_us = hf__valid_until_us(core, sent_us, lease->lease_ms);
    lease->renew_at_us =
        core->options.period_ms ? sent_us + core->options.period_ms * 1000 : HF_NEVER;
    lease->pending = false;
    lease->failures = 0;
    lease->failure_code = 0;
    lease->dormant = false;
}

void hf__lease_begin(struct hf_core *core, struct hf_lease *lease, const struct hf_id *by,
                     int64_t sent_us, int64_t now_us)
{
    lease->state = HF_LEASE_LIVE;
    lease->version = 1;
    lease->by = *by;
    set_validity(core, lease, sent_us, now_us);
    hf__lease_schedule(core, lease, now_us);
}

/* ---- the end ---- */

void hf__ensures_fail(struct hf_core *core, struct hf_lease *lease, const struct hf_grant *grant,
                      int code, enum hf_reason reason)
{
    struct hf_list failing, *node;
    hf__list_init(&failing);
    for (struct hf_list *at = lease->ensures.next, *next; at != &lease->ensures; at = next) {
        next = at->next;
        if (grant && HF_CONTAINER(at, struct hf_job, node)->grant != grant) continue;
        hf__list_remove(at);
        hf__list_append(&failing, at);
    }
    if (!grant) hf__list_splice(&failing, &lease->verifying);
    while ((node = hf__list_pop(&failing))) {
        struct hf_job *job = HF_CONTAINER(node, struct hf_job, node);
        if (code != HF_ERR_LOST) hf__job_done(core, job, code, "%s", hf_error_meaning(code));
        else if (grant || !lease->is_session)
            hf__job_done(core, job, code, "the lock was lost: %s", hf_reason_meaning(reason));
        else hf__job_done(core, job, code, "the session has ended: %s", hf_reason_meaning(reason));
    }
}

void hf__lease_end(struct hf_core *core, struct hf_lease *lease, enum hf_reason reason, int code,
                   const char *detail, int64_t now_us)
{
    if (lease->state == HF_LEASE_DEAD) return;
    lease->refs++;
    lease->state = HF_LEASE_DEAD;
    hf__alarm_set(core, &lease->alarm, HF_NEVER);
    if (core->session == lease) {
        core->session = NULL;
        hf__lease_unref(core, lease);
    }
    hf__list_remove(&lease->of_opened);
    if (lease->opened) hf__lease_unref(core, lease);
    if (lease->job && !lease->adopting) { /* an adoption ends with its grant */
        hf__job_done(core, lease->job, lease->leaving ? 0 : HF_ERR_LOST, "the session ended: %s",
                     hf_reason_meaning(reason));
        lease->job = NULL;
    }
    hf__ensures_fail(core, lease, NULL, HF_ERR_LOST, reason);
    /* Grants that are being released end with their release. */
    for (struct hf_list *at = lease->grants.next, *next; at != &lease->grants; at = next) {
        next = at->next;
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_lease);
        if (grant->state == HF_GRANT_HELD || grant->state == HF_GRANT_ADOPTING)
            hf__grant_end(core, grant, reason, code, detail, now_us);
    }
    hf__lease_unref(core, lease);
}

void hf__lease_give_back_all(struct hf_core *core, const struct hf_lease *lease, int64_t now_us)
{
    for (struct hf_list *at = lease->grants.next; at != &lease->grants; at = at->next) {
        const struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_lease);
        struct hf_claim claim;
        bool is_ours = !lease->others || lease->is_session || HF_BUG(GIVE_BACK_ANY); /* K5 */
        if (grant->state != HF_GRANT_HELD || !is_ours) continue;
        hf__grant_claim(core, grant, &claim);
        hf__give_back(core, grant->name, grant->limit > 0 ? HF_HOLD_SHARED : HF_HOLD_EXCLUSIVE,
                      &claim, now_us);
    }
}

/* Another actor may have renewed it: the record tells whether it has expired (C6). */
static void ask_record(struct hf_core *core, struct hf_lease *lease, struct hf_grant *grant,
                       int64_t now_us)
{
    struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_EXPIRE, grant);
    if (!errand) {
        hf__grant_end(core, grant, HF_REASON_ABANDONED, HF_ERR_NO_MEMORY, NULL, now_us);
        return;
    }
    errand->looks = lease->others && !HF_BUG(GIVE_BACK_ANY);
    int64_t patience_ms =
        (errand->looks ? 2 * lease->lease_ms : 0) + core->options.skew_ms + core->options.lease_ms;
    grant->state = HF_GRANT_EXPIRING;
    lease->stopped = true;
    hf__ensures_fail(core, lease, NULL, HF_ERR_LOST, HF_REASON_EXPIRED);
    if (lease->request) lease->release = errand; /* G2 of grant.c */
    else hf__errand_start(core, errand, patience_ms, now_us);
}

/* Time is up. Tells the store if possible, so that nobody waits for a lease that was given up. */
static void expire(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    struct hf_id id = lease->id;
    struct hf_grant *grant = only_grant(lease);
    if (grant && core->options.by_grant && !lease->adopting) {
        ask_record(core, lease, grant, now_us);
        return;
    }
    if (hf__session_is_common(core, lease) && !(HF_BUG(SESSION_IS_OURS) && lease->version)) {
        hf__session_lapse(core, lease, now_us);
        return;
    }
    if (grant || lease->opened) hf__lease_give_back_all(core, lease, now_us);
    if (lease->failures > 0) {
        struct hf_error detail;
        hf__error_set(&detail, 0, "%s, for the last %lld ms", hf_error_meaning(lease->failure_code),
                      (long long)((now_us - lease->failing_us) / 1000));
        hf__lease_end(core, lease, HF_REASON_UNREACHABLE, lease->failure_code, detail.message,
                      now_us);
    } else {
        hf__lease_end(core, lease, HF_REASON_EXPIRED, 0, NULL, now_us);
    }
    if (lease->is_session) hf__session_drop(core, &id, now_us);
}

static void warn(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    lease->warned = true;
    lease->warn_least_ms = HF_NEVER;
    for (struct hf_list *at = lease->grants.next; at != &lease->grants; at = at->next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_lease);
        if (grant->state != HF_GRANT_HELD || grant->warned || grant->warn_ms <= 0) continue;
        if (lease->confirmed_us + grant->warn_ms * 1000 <= now_us) hf__grant_warn(core, grant);
        else if (grant->warn_ms < lease->warn_least_ms) lease->warn_least_ms = grant->warn_ms;
    }
}

static void forget_warnings(struct hf_lease *lease)
{
    if (!lease->warned) return;
    lease->warned = false;
    for (struct hf_list *at = lease->grants.next; at != &lease->grants; at = at->next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_lease);
        grant->warned = false;
        if (grant->warn_ms > 0 && grant->warn_ms < lease->warn_least_ms)
            lease->warn_least_ms = grant->warn_ms;
    }
}

/* ---- renewing ---- */

/* Call it after handling what the same answer has taken away. */
void hf__ensures_settle(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    bool confirmed = !lease->failures && !lease->overtaken; /* by this answer */
    bool holds_on = core->options.hold_on_unavailable, wants_more = false;
    struct hf_list settled, *node;
    hf__list_init(&settled);
    for (struct hf_list *at = lease->ensures.next, *next; at != &lease->ensures; at = next) {
        next = at->next;
        struct hf_job *job = HF_CONTAINER(at, struct hf_job, node);
        bool is_newer =
            !core->options.by_grant || lease->confirmed_us >= job->asked_us || HF_BUG(OLD_RENEWAL);
        bool lasts = job->need_until_us <= lease->valid_until_us;
        if (!lasts || !is_newer || !(confirmed || holds_on)) {
            wants_more |= !job->looks;
            continue;
        }
        hf__list_remove(at);
        hf__list_append(&settled, at);
    }
    if (wants_more && !lease->failures && !lease->overtaken) lease->renew_at_us = now_us;
    lease->refs++;
    while ((node = hf__list_pop(&settled))) {
        struct hf_job *job = HF_CONTAINER(node, struct hf_job, node);
        if (job->rechecks && !HF_BUG(NO_RECHECK)) hf__grant_recheck(core, job, now_us);
        else hf__job_done(core, job, 0, " ");
    }
    hf__lease_unref(core, lease);
}

void hf__lease_confirm(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    lease->version++;
    lease->by = lease->pending_by;
    lease->lease_ms = lease->pending_lease_ms;
    lease->expires_unix_ms = lease->pending_expires_unix_ms;
    lease->overtaken = 0;
    set_validity(core, lease, lease->pending_sent_us, now_us);
    forget_warnings(lease);
    lease->renewals++;
    if (lease->adopting) {
        lease->adopting = false;
        hf__adopted(core, only_grant(lease), now_us);
    }
}

/* K5. `seen` is the claim as the record has it. */
void hf__lease_overtaken(struct hf_core *core, struct hf_lease *lease, const struct hf_claim *seen,
                         int64_t now_us)
{
    lease->version = seen->version;
    lease->by = seen->by;
    lease->expires_unix_ms = seen->expires_unix_ms;
    if (lease->lease_ms < seen->lease_ms) lease->lease_ms = seen->lease_ms;
    if (lease->wanted_ms < lease->lease_ms) lease->wanted_ms = lease->lease_ms;
    lease->pending = false;
    lease->others = true;
    lease->renew_at_us = now_us + hf__yield_us(core, lease->overtaken);
    lease->overtaken++;
}

/* `why`: the store's own words; NULL: what the code means. */
static void failed(struct hf_core *core, struct hf_lease *lease, int code, const char *why,
                   int64_t now_us)
{
    if (lease->failures++ == 0) {
        lease->failing_us = now_us;
        hf__log(&core->options.log, HF_LOG_WARN, "renewal failed: %s; %lld ms left",
                why && *why ? why : hf_error_meaning(code),
                (long long)((lease->valid_until_us - now_us) / 1000));
    }
    lease->failure_code = code;
    lease->renew_at_us = now_us + hf__backoff_us(core, lease->failures, lease->lease_ms * 1000 / 8);
}

static void hold_on(struct hf_core *core, struct hf_lease *lease)
{
    lease->confirmed_us = lease->pending_sent_us;
    lease->valid_until_us = hf__valid_until_us(core, lease->confirmed_us, lease->lease_ms);
    lease->pending = false;
}

/* Own lease: the record that refused a renewal. */
static void refused_own(struct hf_core *core, struct hf_lease *lease, struct hf_request *request,
                        const struct hf_answer *answer, int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    struct hf_grant *grant = only_grant(lease);
    struct hf_claim sent, seen;
    struct hf_record record;
    hf__grant_claim(core, grant, &sent);
    seen = sent;
    sent.by = lease->pending_by;
    sent.expires_unix_ms = lease->pending_expires_unix_ms;
    format->parse(&core->options.layout, &request->arena, answer->has_item, answer->item, &record);
    if (request->arena.failed) failed(core, lease, HF_ERR_NO_MEMORY, NULL, now_us);
    else if (record.damaged) failed(core, lease, HF_ERR_DAMAGED, NULL, now_us);
    else if (!format->adopt(&record, &seen)) hf__grant_end_as(core, grant, &record, now_us);
    else if (format->at_version(&record, &sent) || HF_BUG(ANY_WRITER))
        hf__lease_confirm(core, lease, now_us); /* an earlier copy landed */
    else if (HF_BUG(MOVED_IS_LOST)) hf__grant_end_as(core, grant, &record, now_us);
    else hf__lease_overtaken(core, lease, &seen, now_us);
}

static void refused_session(struct hf_core *core, struct hf_lease *lease,
                            struct hf_request *request, const struct hf_answer *answer,
                            int64_t now_us)
{
    struct hf_session_record record;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &record);
    if (request->arena.failed) {
        failed(core, lease, HF_ERR_NO_MEMORY, NULL, now_us);
    } else if (!record.exists) {
        hf__session_gone(core, lease, now_us);
    } else if (record.damaged) {
        failed(core, lease, HF_ERR_DAMAGED, NULL, now_us);
    } else if (hf__id_eq(&record.by, &lease->pending_by)) {
        hf__lease_confirm(core, lease, now_us);
        hf__session_heard(core, lease, &record, now_us);
        hf__session_recheck(core, lease, now_us);
    } else {
        const struct hf_claim seen = {.version = record.version_number,
                                      .by = record.by,
                                      .lease_ms = record.liveness.lease_ms,
                                      .expires_unix_ms = record.liveness.expires_unix_ms};
        hf__lease_overtaken(core, lease, &seen, now_us);
        hf__session_heard(core, lease, &record, now_us);
    }
}

static void heard_new_session(struct hf_core *core, struct hf_lease *lease,
                              struct hf_request *request, const struct hf_answer *answer,
                              int64_t now_us)
{
    struct hf_session_record record;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &record);
    if (!record.damaged) hf__session_heard(core, lease, &record, now_us);
    hf__session_recheck(core, lease, now_us);
}

static void renewed(struct hf_core *core, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_lease *lease = request->owner;
    lease->request = NULL;
    if (lease->state != HF_LEASE_LIVE) {
        hf__lease_unref(core, lease);
        return;
    }
    if (lease->stopped && !HF_BUG(RENEW_AFTER_RELEASE)) {
        struct hf_errand *release = lease->release;
        lease->release = NULL;
        if (release)
            hf__errand_start(core, release, 2 * lease->lease_ms + core->options.lease_ms, now_us);
        hf__lease_unref(core, lease);
        return;
    }
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK:
        hf__lease_confirm(core, lease, now_us);
        if (lease->is_session) heard_new_session(core, lease, request, answer, now_us);
        break;
    case HF_ANSWER_REFUSED:
        if (lease->is_session) refused_session(core, lease, request, answer, now_us);
        else refused_own(core, lease, request, answer, now_us);
        break;
    default:
        /* Other clients may not see our writes: waiting is useless. A service cannot know what
         * others see, and reports nothing. */
        if (answer->code == HF_ERR_DAMAGED && !core->options.by_grant) {
            hf__lease_end(core, lease, HF_REASON_STORE_LOST, answer->code, answer->error.message,
                          now_us);
            break;
        }
        if (core->options.hold_on_unavailable && answer->unavailable) hold_on(core, lease);
        failed(core, lease, answer->code, answer->error.message, now_us);
        break;
    }
    if (lease->state == HF_LEASE_LIVE) hf__ensures_settle(core, lease, now_us);
    hf__lease_schedule(core, lease, now_us);
    hf__lease_unref(core, lease);
}

static void build_renewal(struct hf_core *core, const struct hf_lease *lease,
                          const struct hf_grant *grant, struct hf_request *request)
{
    const struct hf_core_options *options = &core->options;
    if (!grant) {
        struct hf_session_claim claim = {
            .id = lease->id,
            .owner = lease->owner ? hf__slice_str(lease->owner) : options->owner,
            .version = lease->version + 1,
            .before_by = lease->by,
            .by = lease->pending_by,
            .lease_ms = lease->pending_lease_ms,
            .expires_unix_ms = lease->pending_expires_unix_ms,
            .ttl_unix_s = hf__ttl_unix_s(core, lease->pending_sent_us, lease->pending_lease_ms),
        };
        options->format->sessions->renew(&options->layout, &request->arena, &claim, &request->op);
        return;
    }
    struct hf_claim claim;
    hf__grant_claim(core, grant, &claim);
    claim.version = lease->version + 1;
    claim.before_by = lease->by;
    claim.by = lease->pending_by;
    claim.lease_ms = lease->pending_lease_ms;
    claim.before_unix_ms = claim.expires_unix_ms;
    claim.expires_unix_ms = lease->pending_expires_unix_ms;
    claim.pending = false;
    options->format->renew(&options->layout, &request->arena, &claim, &request->op);
}

void hf__lease_send_renewal(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    if (!lease->pending) {
        lease->pending = true;
        lease->pending_sent_us = now_us;
        lease->pending_lease_ms = lease->wanted_ms;
        lease->pending_expires_unix_ms = hf__expires_unix_ms(core, now_us, lease->wanted_ms);
        if (lease->pending_expires_unix_ms &&
            lease->pending_expires_unix_ms < lease->expires_unix_ms && !HF_BUG(EXPIRY_SHRINKS))
            lease->pending_expires_unix_ms = lease->expires_unix_ms; /* K6 */
        hf__new_id(core, &lease->pending_by);
    } else if (HF_BUG(FROM_RESEND)) {
        lease->pending_sent_us = now_us;
    }
    const struct hf_grant *grant = only_grant(lease);
    struct hf_slice about = grant ? hf__name_text(grant->name) : HF_LIT("session");
    struct hf_request *request = hf__request_new(core, HF_REQUEST_RENEW, about, renewed, lease);
    if (!request) {
        failed(core, lease, HF_ERR_NO_MEMORY, NULL, now_us);
        return;
    }
    lease->refs++;
    lease->request = request;
    build_renewal(core, lease, grant, request);
    hf__request_send(core, request);
}

void hf__lease_renew(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    lease->renew_at_us = now_us;
    if (!lease->request && lease->dormant) hf__session_look(core, lease, now_us);
    else if (!lease->request) hf__lease_send_renewal(core, lease, now_us);
    hf__lease_schedule(core, lease, now_us);
}

/* A session that has been idle for a lease is not worth a write per period. */
static bool is_idle(struct hf_core *core, struct hf_lease *lease, int64_t now_us)
{
    enum { CORE_AND_CALLER = 2 };
    if (!lease->is_session || lease->opened || !hf__list_empty(&lease->grants) || lease->pending ||
        lease->refs > CORE_AND_CALLER)
        return false;
    if (lease->idle_us == 0) lease->idle_us = now_us;
    return now_us - lease->idle_us >= core->options.lease_ms * 1000;
}

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct hf_lease *lease = HF_CONTAINER(alarm, struct hf_lease, alarm);
    if (lease->state == HF_LEASE_CREATING && lease->is_session) {
        hf__session_retry(core, lease, now_us);
        return;
    }
    if (lease->state != HF_LEASE_LIVE || (lease->stopped && !HF_BUG(RENEW_AFTER_RELEASE))) return;
    lease->refs++;
    if (lease->dormant) {
        hf__session_doze(core, lease, now_us);
    } else if (now_us >= lease->valid_until_us) {
        expire(core, lease, now_us);
    } else {
        if (now_us >= lease->look_at_us && !lease->request) hf__session_look(core, lease, now_us);
        if (now_us >= warn_due_us(lease)) warn(core, lease, now_us);
        if (now_us >= lease->renew_at_us && !lease->request) {
            if (is_idle(core, lease, now_us)) {
                hf__session_drop(core, &lease->id, now_us);
                hf__lease_end(core, lease, HF_REASON_RELEASED, 0, NULL, now_us);
            } else {
                hf__lease_send_renewal(core, lease, now_us);
            }
        }
    }
    hf__lease_schedule(core, lease, now_us);
    hf__lease_unref(core, lease);
}

void hf__ensure(struct hf_core *core, struct hf_lease *lease, int64_t at_least_ms,
                struct hf_job *job, int64_t now_us)
{
    job->asked_us = now_us;
    job->need_until_us = now_us + at_least_ms * 1000;
    bool may_remember = !core->options.by_grant || HF_BUG(FROM_MEMORY);
    if (job->need_until_us <= lease->valid_until_us && may_remember) {
        hf__job_done(core, job, 0, " ");
        return;
    }
    int64_t needed_ms = (at_least_ms * 1000 + 999 - core->options.margin_per_mille) /
                            (1000 - core->options.margin_per_mille) +
                        1;
    const struct hf_grant *grant = only_grant(lease);
    if (needed_ms > lease->lease_ms && grant && grant->limit > 0 && !HF_BUG(READER_GROWS)) {
        hf__job_done(core, job, HF_ERR_UNSUPPORTED, "%s", HF_FIXED_LEASE);
        return;
    }
    if (needed_ms > lease->wanted_ms) lease->wanted_ms = needed_ms;
    if (lease->dormant && hf__list_empty(&lease->ensures))
        lease->give_up_us = now_us + core->options.request_timeout_ms * 1000 * HF_PATIENCE;
    hf__list_append(&lease->ensures, &job->node);
    hf__lease_renew(core, lease, now_us);
}

void hf__core_ensure(struct hf_core *core, struct hf_grant *grant, int64_t at_least_ms,
                     struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    bool is_common = grant->lease && hf__session_is_common(core, grant->lease);
    if (grant->state != HF_GRANT_HELD || (hf__grant_left_us(grant, now_us) <= 0 && !is_common)) {
        hf__job_done(core, job, HF_ERR_LOST, "the lock is no longer held");
        return;
    }
    if (!(core->options.format->can & HF_CAN_RENEW)) {
        hf__job_done(core, job, HF_ERR_UNSUPPORTED, "the format \"%s\" has no leases",
                     core->options.format->name);
        return;
    }
    job->grant = grant;
    job->rechecks = is_common;
    hf__ensure(core, grant->lease, at_least_ms, job, now_us);
}

void hf__core_session_ensure(struct hf_core *core, struct hf_lease *session, int64_t at_least_ms,
                             struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    bool lasts = session->valid_until_us > now_us || hf__session_is_common(core, session);
    if (session->state != HF_LEASE_LIVE || !lasts || session->leaving)
        hf__job_done(core, job, HF_ERR_LOST, "the session has ended");
    else hf__ensure(core, session, at_least_ms, job, now_us);
}
