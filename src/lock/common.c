/*
 * Common sessions: those that several programs act for, as lock services on one table do for their
 * callers. Each of them may renew the session, take locks for it, and end it; none knows what the
 * others have done, except from the record.
 *
 *   LIVE ⇄ dormant → DEAD      (hf__session_lapse, hf__lease_confirm, hf__session_gone, ended)
 *
 * Invariants
 * M1  A session is dormant here while nothing is promised here: before its first renewal by this
 *     program, and when the last one has run out. Its record is then read about once per lease.
 *     A renewal that is confirmed wakes it. If others serve it, its locks are theirs by then.
 * M2  A session that was not renewed in time is ended only on the version that was read, and only
 *     if a challenger would find that version dead or, if no other program ever renewed it, once
 *     nobody can wake it (M3). Its locks are given back after that, not before.
 * M3  A dormant session is woken only if its record, read in the same round, is so far from its
 *     expiry by the store's clock that no challenger can have ended it. A copy of its creation that
 *     lands after its end brings the record back, with the expiry that it had then. A session that
 *     cannot be woken is watched until its end is certain.
 * M4  A lock is granted to a session only if the session is seen in the table after the grant;
 *     a lock is said to be held only if it is seen in its record after the session was renewed.
 *     In either order, one of them alone proves nothing: the other may have ended elsewhere.
 *     What was sent before a call answers nothing that the call asks.
 * M5  A grant that others ask for is given back only by the program that made it (the mark in the
 *     grant tells). Other programs may not know a grant that its holder relies on. An intent is
 *     withdrawn by any of them.
 * M6  The end that its caller asks for names the version it has seen, and leaves a mark (N3 of
 *     holdfast_session.c): neither a late copy of its creation nor one of its end does any harm.
 */
#include "lock/inside.h"

enum { FIRST_LOOKS_US = 500000 };

static void looked(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                   int64_t now_us);
static void ended(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                  int64_t now_us);

static int64_t give_up_us(const struct hf_core *core, int64_t now_us)
{
    return now_us + core->options.request_timeout_ms * 1000 * HF_PATIENCE;
}

static void look_later(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    /* Of one that was not taken up yet, the lease is not known. */
    int64_t most_us = session->version > 0 ? session->lease_ms * 1000 / 8 : FIRST_LOOKS_US;
    session->failures++;
    session->look_at_us = now_us + hf__backoff_us(core, session->failures, most_us);
}

/* ---- the record ---- */

void hf__session_look(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    const struct hf_core_options *options = &core->options;
    struct hf_request *request =
        hf__request_new(core, HF_REQUEST_ADOPT, HF_LIT("session"), looked, session);
    if (!request) {
        look_later(core, session, now_us);
        return;
    }
    session->look_at_us = HF_NEVER;
    session->refs++;
    session->request = request;
    /* Only jobs that began before it was sent can be answered by it. */
    for (struct hf_list *at = session->ensures.next, *next; at != &session->ensures; at = next) {
        next = at->next;
        if (!HF_CONTAINER(at, struct hf_job, node)->looks) continue;
        hf__list_remove(at);
        hf__list_append(&session->verifying, at);
    }
    options->format->sessions->read(&options->layout, &request->arena,
                                    hf__id_text(&request->arena, &session->id), &request->op);
    hf__request_send(core, request);
}

/* M2. */
static void send_end(struct hf_core *core, struct hf_lease *session,
                     const struct hf_session_record *seen, int64_t now_us)
{
    const struct hf_core_options *options = &core->options;
    struct hf_request *request =
        hf__request_new(core, HF_REQUEST_JUDGE, HF_LIT("session"), ended, session);
    if (!request) {
        look_later(core, session, now_us);
        return;
    }
    session->refs++;
    session->request = request;
    struct hf_session_record copy = *seen;
    copy.item = hf__item_copy(&request->arena, seen->item);
    options->format->sessions->end(&options->layout, &request->arena,
                                   hf__id_text(&request->arena, &session->id), &copy, &request->op);
    session->ending = true;
    hf__request_send(core, request);
}

/* Its absence does not tell who ended it, nor why, unless it was this program. */
void hf__session_gone(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    if (!hf__session_is_common(core, session))
        hf__lease_end(core, session, HF_REASON_SESSION_ENDED, 0, "its record is gone", now_us);
    else if (!session->ending)
        hf__lease_end(core, session, HF_REASON_ABANDONED, 0, "the session ended elsewhere", now_us);
    else {
        hf__lease_give_back_all(core, session, now_us);
        hf__lease_end(core, session, HF_REASON_EXPIRED, 0, NULL, now_us);
    }
}

/* Fails the jobs that wait for it; a session that was not taken up yet is forgotten. */
static void refuse(struct hf_core *core, struct hf_lease *session, int code, int64_t now_us)
{
    hf__ensures_fail(core, session, NULL, code, HF_REASON_SESSION_ENDED);
    if (session->version == 0) hf__lease_end(core, session, HF_REASON_ABANDONED, 0, NULL, now_us);
}

static bool is_of_use(const struct hf_lease *session)
{
    return !hf__list_empty(&session->grants) || !hf__list_empty(&session->ensures) ||
           session->wanting > 0;
}

/*
 * How early before `expires` a challenger can have ended a session: by observation, on a faster
 * clock than the store's, and of an expiry that was written from the high end of the store's time.
 */
static int64_t margin_us(const struct hf_core *core, const struct hf_session_record *record)
{
    return 2 * record->liveness.lease_ms * core->options.margin_per_mille +
           2000 * core->options.skew_ms;
}

/* M3. */
static bool may_wake(const struct hf_core *core, const struct hf_session_record *record,
                     int64_t now_us)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    int64_t rest_us = record->liveness.expires_unix_ms * 1000 - store.hi_unix_us;
    return (store.known && rest_us > margin_us(core, record)) || HF_BUG(WAKES_DEAD);
}

/* When nobody can wake it any more: the clocks of the store's hosts may differ by the skew. */
static int64_t sealed_at_us(const struct hf_core *core, const struct hf_session_record *record,
                            int64_t now_us)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    if (!store.known || record->liveness.expires_unix_ms == 0) return HF_NEVER;
    int64_t rest_us = record->liveness.expires_unix_ms * 1000 - store.lo_unix_us;
    return now_us + rest_us - margin_us(core, record) + 1000 * core->options.skew_ms;
}

/* Nothing is promised here: watches it for as long as a challenger would wait. */
static void watch(struct hf_core *core, struct hf_lease *session,
                  const struct hf_session_record *record, int64_t now_us)
{
    struct hf_verdict verdict = hf__judge(core, &record->liveness, now_us);
    int64_t sealed_us = session->others ? HF_NEVER : sealed_at_us(core, record, now_us);
    if (sealed_us < verdict.judge_at_us) verdict.judge_at_us = sealed_us;
    if (verdict.dead || sealed_us <= now_us) {
        send_end(core, session, record, now_us);
        return;
    }
    if (!is_of_use(session)) {
        hf__lease_end(core, session, HF_REASON_ABANDONED, 0, NULL, now_us);
        return;
    }
    session->renew_at_us = HF_NEVER; /* not before it has been seen again */
    session->look_at_us = now_us + session->lease_ms * 1000;
    if (verdict.judge_at_us > now_us && verdict.judge_at_us < session->look_at_us)
        session->look_at_us = verdict.judge_at_us;
}

/* It is there. */
static void seen(struct hf_core *core, struct hf_lease *session,
                 const struct hf_session_record *record, int64_t now_us)
{
    const struct hf_claim claim = {.version = record->version_number,
                                   .by = record->by,
                                   .lease_ms = record->liveness.lease_ms,
                                   .expires_unix_ms = record->liveness.expires_unix_ms};
    bool is_ours = session->version > 0 && hf__id_eq(&record->by, &session->by);
    bool landed = session->pending && hf__id_eq(&record->by, &session->pending_by);
    struct hf_list verified, *node;
    hf__list_init(&verified);
    hf__list_splice(&verified, &session->verifying);
    session->ending = false;
    session->failures = 0;
    if (landed) hf__lease_confirm(core, session, now_us);
    else if (!is_ours) hf__lease_overtaken(core, session, &claim, now_us);
    session->overtaken = 0; /* nothing of ours was refused */
    hf__session_heard(core, session, record, now_us);
    while ((node = hf__list_pop(&verified))) {
        struct hf_job *job = HF_CONTAINER(node, struct hf_job, node);
        if (session->state == HF_LEASE_LIVE && job->need_until_us > session->valid_until_us)
            hf__list_append(&session->ensures, node); /* for a renewal */
        else hf__job_done(core, job, 0, " ");
    }
    if (session->state != HF_LEASE_LIVE) return;
    bool wakes = !session->dormant || may_wake(core, record, now_us);
    if (!wakes) session->failure_code = HF_ERR_TIMED_OUT; /* unless its fate is seen in time */
    if (wakes && !hf__list_empty(&session->ensures)) hf__lease_send_renewal(core, session, now_us);
    else if (session->dormant) watch(core, session, record, now_us);
}

/* An empty name stands for any owner. What it is called follows from the record. */
static bool is_owned(struct hf_lease *session, const struct hf_session_record *record)
{
    char *asked_for = session->owner;
    struct hf_slice instance = record->instance;
    if (*asked_for && !hf__slice_eq(record->owner, hf__slice_str(asked_for))) return false;
    if (instance.len > HF_INSTANCE_MAX) instance.len = 0; /* not holdfast's; only for people */
    bool is_named = hf__session_name(session, record->owner, instance);
    hf__free(asked_for);
    return is_named;
}

static void looked(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                   int64_t now_us)
{
    struct hf_lease *session = request->owner;
    struct hf_session_record record;
    session->request = NULL;
    if (session->state != HF_LEASE_LIVE) {
        hf__lease_unref(core, session);
        return;
    }
    enum hf_answer_class class = hf__classify(answer);
    if (class == HF_ANSWER_OK) {
        core->options.format->sessions->parse(&core->options.layout, &request->arena,
                                              answer->has_item, answer->item, &record);
        bool is_new = session->version == 0;
        if (request->arena.failed) class = HF_ANSWER_FAILED;
        else if (!record.exists) hf__session_gone(core, session, now_us);
        else if (record.damaged) refuse(core, session, HF_ERR_DAMAGED, now_us);
        else if (is_new && !is_owned(session, &record))
            refuse(core, session, session->owner ? HF_ERR_LOST : HF_ERR_NO_MEMORY, now_us);
        else seen(core, session, &record, now_us);
        if (record.damaged && session->state == HF_LEASE_LIVE)
            session->look_at_us = now_us + session->lease_ms * 1000;
    } else if (class == HF_ANSWER_FATAL) {
        refuse(core, session, answer->code, now_us);
    }
    if (class != HF_ANSWER_OK && session->state == HF_LEASE_LIVE) {
        session->failure_code = answer->code ? answer->code : HF_ERR_NO_MEMORY;
        hf__list_splice(&session->ensures, &session->verifying);
        look_later(core, session, now_us);
    }
    hf__lease_schedule(core, session, now_us);
    hf__lease_unref(core, session);
}

static void ended(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                  int64_t now_us)
{
    struct hf_lease *session = request->owner;
    session->request = NULL;
    if (session->state == HF_LEASE_LIVE) {
        enum hf_answer_class class = hf__classify(answer);
        bool gone = class == HF_ANSWER_OK || (class == HF_ANSWER_REFUSED && !answer->has_item);
        if (gone) hf__session_gone(core, session, now_us);
        else if (class == HF_ANSWER_REFUSED) session->look_at_us = now_us;
        else look_later(core, session, now_us);
        hf__lease_schedule(core, session, now_us);
    }
    hf__lease_unref(core, session);
}

/* ---- time ---- */

/*
 * The services that renew it know which of its locks are held; this one takes them up again from
 * their records when it is asked to. From now on the mark does not tell that a grant is an orphan.
 */
static void drop_grants(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    if (!hf__list_empty(&session->grants)) core->has_mark = false;
    for (struct hf_list *at = session->grants.next, *next; at != &session->grants; at = next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_lease);
        next = at->next;
        if (grant->state == HF_GRANT_HELD)
            hf__grant_end(core, grant, HF_REASON_ABANDONED, 0, "its session is served elsewhere",
                          now_us);
    }
}

void hf__session_lapse(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    session->dormant = true;
    if (session->others) drop_grants(core, session, now_us);
    session->give_up_us = give_up_us(core, now_us);
    session->look_at_us = now_us;
    if (!session->request) hf__session_look(core, session, now_us);
}

void hf__session_doze(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    bool is_wanted = !hf__list_empty(&session->ensures) || !hf__list_empty(&session->verifying);
    if (is_wanted && now_us >= session->give_up_us) {
        int code = session->failure_code ? session->failure_code : HF_ERR_UNREACHABLE;
        refuse(core, session, session->pending ? HF_ERR_OUTCOME_UNKNOWN : code, now_us);
        is_wanted = false;
    }
    if (session->state != HF_LEASE_LIVE || session->request) return;
    bool renews = is_wanted && session->version > 0 && now_us >= session->renew_at_us;
    if (renews || now_us >= session->look_at_us) hf__session_look(core, session, now_us);
}

/* ---- what is asked of it ---- */

void hf__session_verify(struct hf_core *core, struct hf_lease *session, struct hf_job *job,
                        int64_t now_us)
{
    if (session->state != HF_LEASE_LIVE || session->leaving) {
        hf__job_done(core, job, HF_ERR_LOST, "the session has ended");
        return;
    }
    job->looks = true;
    job->asked_us = now_us;
    job->need_until_us = now_us + 1;
    if (session->dormant && hf__list_empty(&session->ensures))
        session->give_up_us = give_up_us(core, now_us);
    hf__list_append(&session->ensures, &job->node);
    if (session->dormant) {
        hf__lease_renew(core, session, now_us);
        return;
    }
    session->look_at_us = now_us;
    if (!session->request) hf__session_look(core, session, now_us);
    hf__lease_schedule(core, session, now_us);
}

int hf__core_session_adopt(struct hf_core *core, const struct hf_id *id, struct hf_slice owner,
                           struct hf_job *job, int64_t now_us, struct hf_lease **ret,
                           struct hf_error *reterr)
{
    hf__core_tick(core, now_us);
    if (core->closing) return hf__error_set(reterr, HF_ERR_CLOSED, "the client is being closed");
    struct hf_lease *session = NULL;
    for (struct hf_list *at = core->opened.next; !session && at != &core->opened; at = at->next) {
        struct hf_lease *known = HF_CONTAINER(at, struct hf_lease, of_opened);
        if (known->state == HF_LEASE_LIVE && hf__id_eq(&known->id, id)) session = known;
    }
    if (session) {
        session->refs++;
        *ret = session;
        bool is_owners = owner.len == 0 || hf__slice_eq(owner, hf__slice_str(session->owner));
        if (!is_owners && session->version == 0) /* whose it is, its record will tell */
            hf__job_done(core, job, HF_ERR_THROTTLED, "another call is taking the session up");
        else if (session->leaving || !is_owners)
            hf__job_done(core, job, HF_ERR_LOST, "the session has ended, or is another owner's");
        else hf__ensure(core, session, 0, job, now_us);
        return 0;
    }
    session = hf__lease_new(core, true);
    if (!session || !hf__session_name(session, owner, HF_LIT(""))) {
        hf__lease_unref(core, session);
        return hf__error_no_memory(reterr);
    }
    session->id = *id;
    session->state = HF_LEASE_LIVE;
    session->opened = session->dormant = session->others = true;
    session->renew_at_us = HF_NEVER;
    session->lease_ms = session->wanted_ms = 1; /* the record's is longer */
    hf__list_append(&core->opened, &session->of_opened);
    session->refs++; /* the caller's */
    *ret = session;
    hf__ensure(core, session, 0, job, now_us);
    return 0;
}
