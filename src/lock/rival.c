/*
 * The rivals of an attempt: the holders and waiters in its way, whether they are
 * alive, and what follows from it.
 *
 * A round begins with a record (hf__rivals_list) and examines one rival after the
 * other (hf__rivals_examine), reading and ending sessions as needed; then it acts:
 * removes the dead, takes over, tries, declares its intent, or waits.
 *
 * Invariants: A3 and A4 of attempt.c.
 */
#include "lock/attempt.h"

enum { RUSHES = 4, ASKED_MOST = 64 };

static void add_rival(struct hf_attempt *attempt, enum hf_hold kind, struct hf_holder holder)
{
    attempt->rivals[attempt->rival_count++] = (struct hf_rival){.holder = holder, .kind = kind};
}

/* All holders and intents in the way. */
bool hf__rivals_list(struct hf_attempt *attempt)
{
    const struct hf_record *record = &attempt->record;
    const struct hf_want *want = &attempt->want;
    attempt->rival_count = attempt->rival_at = 0;
    attempt->judge_at_us = HF_NEVER;
    attempt->rivals =
        hf__arena_zalloc(&attempt->round, record->member_count + 2, sizeof(struct hf_rival));
    if (!attempt->rivals) return false;
    if (record->exclusive && !hf__attempt_joins(attempt))
        add_rival(attempt, HF_HOLD_EXCLUSIVE, record->holder);
    bool full = want->limit == 0 || record->limit != want->limit ||
                (int64_t)record->member_count >= want->limit;
    for (size_t i = 0; full && i < record->member_count; i++)
        add_rival(attempt, HF_HOLD_SHARED, record->members[i]);
    if (want->limit > 0 && record->has_intent) add_rival(attempt, HF_HOLD_INTENT, record->intent);
    return true;
}

static void blocked_by_live(struct hf_core *core, struct hf_attempt *attempt,
                            const struct hf_session_record *session, int64_t now_us)
{
    struct hf_rival *rival = &attempt->rivals[attempt->rival_at++];
    if (session->asked.count >= ASKED_MOST) return;
    if (!hf__worth_asking(core, rival->holder.grant, session->liveness.lease_ms, now_us)) return;
    struct hf_errand *errand = hf__errand_new(core, HF_ERRAND_ASK, NULL);
    if (!errand) return;
    errand->target = hf__arena_copy(&errand->arena, rival->holder.session);
    errand->text = hf__errand_print(&errand->arena, rival->kind, rival->holder.grant,
                                    hf__name_text(attempt->name));
    hf__errand_start(core, errand, core->options.request_timeout_ms, now_us);
}

static void session_ended(struct hf_core *core, struct hf_request *request,
                          const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_decided_step(core, attempt, request, answer, now_us)) return;
    struct hf_rival *rival = &attempt->rivals[attempt->rival_at++];
    rival->dead = answer->code == 0 || !answer->has_item;
    if (!rival->dead) attempt->judge_at_us = now_us + 1000; /* it was renewed: read it again */
    hf__rivals_examine(core, attempt, now_us);
}

static void end_session(struct hf_core *core, struct hf_attempt *attempt,
                        const struct hf_session_record *seen, int64_t now_us)
{
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_JUDGE, session_ended, now_us);
    if (!request) return;
    struct hf_session_record copy = *seen;
    copy.item = hf__item_copy(&request->arena, seen->item);
    core->options.format->sessions->end(&core->options.layout, &request->arena,
                                        attempt->rivals[attempt->rival_at].holder.session, &copy,
                                        &request->op);
    hf__request_send(core, request);
}

static void session_was_read(struct hf_core *core, struct hf_request *request,
                             const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_step(core, attempt, request, answer, now_us)) return;
    struct hf_session_record record;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &record);
    if (!hf__answer_decided(answer) || request->arena.failed) {
        attempt->read_next = true;
        if (hf__answer_decided(answer)) hf__attempt_retry_for_memory(core, attempt, now_us);
        else hf__attempt_retry(core, attempt, answer, now_us);
        return;
    }
    if (!record.exists) {
        attempt->rivals[attempt->rival_at++].dead = true;
    } else if (record.damaged) {
        attempt->rival_at++; /* a rival that cannot be judged */
    } else {
        struct hf_verdict verdict = hf__judge(core, &record.liveness, now_us);
        if (verdict.dead && !HF_BUG(TAKE_LIVE_SESSION)) {
            end_session(core, attempt, &record, now_us);
            return;
        }
        if (verdict.judge_at_us < attempt->judge_at_us) attempt->judge_at_us = verdict.judge_at_us;
        if (verdict.dead) attempt->rivals[attempt->rival_at++].dead = true;
        else blocked_by_live(core, attempt, &record, now_us);
    }
    hf__rivals_examine(core, attempt, now_us);
}

static void read_session(struct hf_core *core, struct hf_attempt *attempt, struct hf_slice session,
                         int64_t now_us)
{
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_JUDGE, session_was_read, now_us);
    if (!request) return;
    core->options.format->sessions->read(&core->options.layout, &request->arena, session,
                                         &request->op);
    hf__request_send(core, request);
}

/* ---- acting on what was found ---- */

static void removed(struct hf_core *core, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_decided_step(core, attempt, request, answer, now_us)) return;
    hf__rivals_examine(core, attempt, now_us);
}

static void remove_dead(struct hf_core *core, struct hf_attempt *attempt, struct hf_rival *rival,
                        int64_t now_us)
{
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_REAP, removed, now_us);
    if (!request) return;
    rival->done = true;
    const struct hf_share_format *shares = core->options.format->shares;
    (rival->kind == HF_HOLD_INTENT ? shares->withdraw : shares->reap)(
        &core->options.layout, &request->arena, hf__name_text(attempt->name), rival->holder.member,
        &request->op);
    hf__request_send(core, request);
}

static void declared(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_step(core, attempt, request, answer, now_us)) return;
    enum hf_answer_class class = hf__classify(answer);
    attempt->has_intent = class == HF_ANSWER_OK || class == HF_ANSWER_UNSURE;
    hf__attempt_wait(core, attempt, now_us);
}

/* A writer that waits for readers declares it, so that no new readers enter. */
static bool declare_intent(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (attempt->want.limit > 0 || attempt->record.member_count == 0 ||
        hf__attempt_is_try(attempt) || attempt->has_intent || attempt->record.has_intent ||
        attempt->want.lease_ms > 0 ||
        (core->options.session == HF_USE_SESSION_NEVER && !attempt->want.session))
        return false;
    attempt->use_session = true;
    struct hf_lease *session = hf__attempt_session(core, attempt, now_us);
    if (!session) return false; /* the next round has one */
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_INTENT, declared, now_us);
    if (!request) return true;
    attempt->has_intent = true;
    hf__new_grant_id(core, &attempt->want, &attempt->intent);
    hf__lease_unref(core, attempt->intent_session);
    attempt->intent_session = session;
    session->refs++;
    struct hf_slice first = hf__id_text(&request->arena, &session->id);
    struct hf_slice second = hf__id_text(&request->arena, &attempt->intent);
    struct hf_slice member =
        hf__arena_printf(&request->arena, "%.*s/%.*s", HF_FMT(first), HF_FMT(second));
    core->options.format->shares->declare(&core->options.layout, &request->arena,
                                          hf__name_text(attempt->name), member, &request->op);
    hf__request_send(core, request);
    return true;
}

static void act(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    const struct hf_record *record = &attempt->record;
    size_t in_the_way =
        record->damaged || (attempt->want.limit > 0 && record->strange_intent) ? 1 : 0;
    for (size_t i = 0; i < attempt->rival_count; i++) {
        struct hf_rival *rival = &attempt->rivals[i];
        if (!rival->dead) in_the_way++;
        else if (rival->kind != HF_HOLD_EXCLUSIVE && !rival->done) {
            remove_dead(core, attempt, rival, now_us);
            return;
        }
    }
    bool reaped = attempt->rival_count > 0 && attempt->rivals[0].kind != HF_HOLD_EXCLUSIVE &&
                  in_the_way < attempt->rival_count;
    bool has_room = attempt->want.limit > 0 && reaped && !record->damaged &&
                    record->limit == attempt->want.limit && !record->has_intent &&
                    !record->strange_intent;
    if (in_the_way > 0 && !has_room) {
        if (attempt->want.limit > 0 && attempt->record.member_count > 0 &&
            attempt->record.limit != attempt->want.limit)
            hf__attempt_end(core, attempt, HF_ERR_OTHER_LIMIT, "it is shared under another limit",
                            now_us);
        else if (!declare_intent(core, attempt, now_us)) hf__attempt_wait(core, attempt, now_us);
        return;
    }
    /* Free. An attempt that keeps losing this race waits a little instead. */
    if (++attempt->rushes > RUSHES) {
        attempt->judge_at_us = HF_NEVER;
        hf__attempt_wait(core, attempt, now_us);
        return;
    }
    if (hf__attempt_wants_session(attempt) && !hf__attempt_session(core, attempt, now_us)) {
        hf__attempt_go(core, attempt, now_us);
        return;
    }
    hf__attempt_try(core, attempt, attempt->record.exclusive && !hf__attempt_joins(attempt),
                    now_us);
}

/* A grant of a session of ours that nobody here knows of; if others act for that session, too, one
 * that was made here. */
static bool is_orphan_of_ours(const struct hf_core *core, const struct hf_attempt *attempt,
                              const struct hf_rival *rival)
{
    struct hf_slice grant = rival->holder.grant;
    const struct hf_lease *session = hf__session_find(core, rival->holder.session);
    if (!session || hf__name_cares_for(attempt->name, grant)) return false;
    return !hf__session_is_common(core, session) || hf__grant_is_marked(core, grant);
}

/* Of a session that nobody else acts for, we need not read the record. */
static bool is_alive_here(const struct hf_core *core, struct hf_slice id)
{
    const struct hf_lease *session = hf__session_find(core, id);
    return session && !hf__session_is_common(core, session);
}

/* A3, A4. */
void hf__rivals_examine(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    while (attempt->rival_at < attempt->rival_count) {
        struct hf_rival *rival = &attempt->rivals[attempt->rival_at];
        struct hf_slice session = rival->holder.session;
        if (session.len == 0) {
            struct hf_verdict verdict = hf__judge(core, &attempt->record.liveness, now_us);
            rival->dead = verdict.dead;
            if (verdict.judge_at_us < attempt->judge_at_us)
                attempt->judge_at_us = verdict.judge_at_us;
        } else if (is_orphan_of_ours(core, attempt, rival)) {
            rival->dead = true;
        } else if (is_alive_here(core, session)) {
            rival->dead = false;
        } else {
            read_session(core, attempt, session, now_us);
            return;
        }
        attempt->rival_at++;
    }
    act(core, attempt, now_us);
}
