/*
 * One acquire, from the call to its result.
 *
 * Invariants
 * A1  Every try has a new grant id, and the attempt remembers the latest ones
 *     with their send times: any of them that lands is recognized, and counted
 *     from its own send.
 * A2  A grant is accepted only if it is still valid by our own clock; otherwise
 *     it is given back.
 * A3  No holder is taken over on hearsay: a rival is dead by its own record, read
 *     in this round, and the write that takes it over depends on that record.
 * A4  All rivals in the way are examined in each round.
 * A5  The result is reported once. If the request that is still out when the
 *     attempt ends brings a grant, it is given back.
 */
#include "lock/attempt.h"

enum { TRY_FAILURES = 3, POLLS_SAVED = 10, POLLS_SAVED_IN_LINE = 30 };
enum { TIME_IS_FRESH_US = 60 * 1000000 };

static void look(struct hf_core *core, struct hf_attempt *attempt, bool has_item,
                 struct hf_item item, int64_t now_us);

bool hf__attempt_is_try(const struct hf_attempt *attempt)
{
    return attempt->want.timeout_ms == 0;
}

/* ---- the end ---- */

void hf__attempt_destroy(struct hf_core *core, struct hf_attempt *attempt)
{
    for (int i = 0; i < attempt->try_count; i++) hf__lease_unref(core, attempt->tries[i].session);
    attempt->try_count = 0;
    hf__lease_unref(core, attempt->intent_session);
    hf__lease_unref(core, attempt->own);
    if (attempt->want.session) attempt->want.session->wanting--;
    hf__lease_unref(core, attempt->want.session);
    hf__alarm_done(core, &attempt->alarm);
    hf__arena_free(&attempt->wants);
    hf__arena_free(&attempt->round);
    hf__name_unref(core, attempt->name);
    hf__free(attempt->grant);
    hf__free(attempt);
}

void hf__attempt_free(struct hf_core *core, struct hf_attempt *attempt)
{
    attempt->taken = true;
    if (attempt->code == 0) attempt->grant = NULL; /* the caller's now */
    if (!attempt->request) hf__attempt_destroy(core, attempt);
}

void *hf__attempt_user(const struct hf_attempt *attempt)
{
    return attempt->want.user;
}

void hf__attempt_outcome(const struct hf_attempt *attempt, struct hf_outcome *ret)
{
    *ret = (struct hf_outcome){
        .code = attempt->code,
        .error = &attempt->error,
        .has_stored = attempt->has_stored,
        .lacks_stored = attempt->lacks_stored,
        .stored = attempt->stored,
        .repeats = attempt->repeats ? &attempt->repeated : NULL,
    };
    if (attempt->code == 0) ret->grant = attempt->grant;
    ret->again = ret->grant && ret->grant->user != attempt->want.user;
    bool blocked = attempt->code == HF_ERR_HELD || attempt->code == HF_ERR_TIMED_OUT;
    if (!blocked || attempt->wants.failed) return;
    ret->blocked = true;
    ret->blocked_by = attempt->blocked_by;
    ret->blocked_by.name = hf__name_text(attempt->name);
    ret->blocked_by.answered = attempt->heard;
}

struct hf_attempt *hf__core_next_finished(struct hf_core *core)
{
    struct hf_list *node = hf__list_pop(&core->finished);
    return node ? HF_CONTAINER(node, struct hf_attempt, of_core) : NULL;
}

static void claim_of(struct hf_core *core, const struct hf_attempt *attempt,
                     const struct hf_try *try, struct hf_claim *ret);

static void give_back_try(struct hf_core *core, struct hf_attempt *attempt,
                          const struct hf_try *try, int64_t now_us)
{
    struct hf_claim claim;
    claim_of(core, attempt, try, &claim);
    hf__give_back(core, attempt->name, attempt->want.limit ? HF_HOLD_SHARED : HF_HOLD_EXCLUSIVE,
                  &claim, now_us);
}

static void withdraw_intent(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    const struct hf_claim claim = {.owner = attempt->want.owner,
                                   .grant = attempt->intent,
                                   .session = &attempt->intent_session->id};
    hf__give_back(core, attempt->name, HF_HOLD_INTENT, &claim, now_us);
}

/* These are about the newest try. */
static bool is_grant_request(const struct hf_request *request)
{
    return request->kind == HF_REQUEST_TRY || request->kind == HF_REQUEST_TAKE ||
           request->kind == HF_REQUEST_RESOLVE;
}

void hf__attempt_finish(struct hf_core *core, struct hf_attempt *attempt, int code, int64_t now_us)
{
    attempt->code = code;
    attempt->over = true;
    if (attempt->verifies) hf__list_remove(&attempt->verify.node);
    attempt->verifies = false;
    hf__alarm_set(core, &attempt->alarm, HF_NEVER);
    hf__list_remove(&attempt->of_name);
    hf__list_remove(&attempt->of_core);
    hf__list_append(&core->finished, &attempt->of_core);
    hf__list_remove(&attempt->report);
    hf__attempt_set_waiting(core, attempt, false);
    hf__turn_leave(core, attempt);
    core->reporting_count -= attempt->want.reports ? 1 : 0;
    hf__name_report(core, attempt->name);
    if (code != 0 || attempt->use_session) core->own_count -= attempt->own ? 1 : 0;
    if (code != 0) {
        /* Gives back tries that may have landed; the one that is out is left to its answer (A5). */
        bool asks = attempt->request && is_grant_request(attempt->request);
        for (int i = 0; i < attempt->try_count; i++) {
            bool is_out = asks && i == attempt->try_count - 1;
            if (attempt->tries[i].unsure && !is_out)
                give_back_try(core, attempt, &attempt->tries[i], now_us);
        }
    }
    if (attempt->has_intent) withdraw_intent(core, attempt, now_us);
    attempt->has_intent = false;
    hf__name_advance(core, attempt->name, now_us);
}

void hf__attempt_fail(struct hf_core *core, struct hf_attempt *attempt,
                      const struct hf_error *error, int64_t now_us)
{
    if (attempt->over) return;
    attempt->error = *error;
    hf__attempt_finish(core, attempt, error->code, now_us);
}

void hf__attempt_end(struct hf_core *core, struct hf_attempt *attempt, int code, const char *why,
                     int64_t now_us)
{
    hf__error_set(&attempt->error, code, "lock \"%s\": %s", attempt->name->text, why);
    hf__attempt_finish(core, attempt, code, now_us);
}

void hf__attempt_fail_held(struct hf_core *core, struct hf_attempt *attempt, int code,
                           int64_t now_us)
{
    const struct hf_report *by = &attempt->blocked_by;
    hf__attempt_note_blocker(core, attempt);
    bool has_instance = by->instance.len > 0;
    const char *prefix = code == HF_ERR_TIMED_OUT ? "not free in time; " : "";
    const char *damage = attempt->record.damaged          ? attempt->record.damage
                         : attempt->record.strange_intent ? "intent"
                                                          : NULL;
    if (damage)
        hf__error_set(&attempt->error, code,
                      "lock \"%s\": %sits record is invalid (attribute \"%s\"); repair it",
                      attempt->name->text, prefix, damage);
    else if (by->owner.len > 0)
        hf__error_set(&attempt->error, code, "lock \"%s\": %sheld by %.*s%s%.*s%s",
                      attempt->name->text, prefix, HF_FMT(by->owner), has_instance ? " (" : "",
                      HF_FMT(by->instance), has_instance ? ")" : "");
    else hf__error_set(&attempt->error, code, "lock \"%s\": %sheld", attempt->name->text, prefix);
    hf__attempt_finish(core, attempt, code, now_us);
}

/* An attempt that queued here may have asked the store only a moment ago. */
static bool had_time_to_answer(const struct hf_core *core, const struct hf_attempt *attempt,
                               int64_t now_us)
{
    int64_t enough_ms = attempt->want.timeout_ms / 2;
    if (enough_ms > core->options.request_timeout_ms) enough_ms = core->options.request_timeout_ms;
    return attempt->asked_us && now_us - attempt->asked_us >= enough_ms * 1000;
}

static void time_out(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (!attempt->heard && attempt->error.code != 0) {
        hf__error_prefix(&attempt->error, "lock \"%s\"", attempt->name->text);
        hf__attempt_finish(core, attempt, attempt->error.code, now_us);
    } else if (!attempt->heard && had_time_to_answer(core, attempt, now_us)) {
        hf__attempt_end(core, attempt, HF_ERR_UNREACHABLE, "the store did not answer in time",
                        now_us);
    } else {
        hf__attempt_fail_held(core, attempt, HF_ERR_TIMED_OUT, now_us);
    }
}

void hf__core_cancel(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (!attempt->over) hf__attempt_end(core, attempt, HF_ERR_CANCELLED, "cancelled", now_us);
}

/* ---- waiting ---- */

void hf__attempt_sleep(struct hf_core *core, struct hf_attempt *attempt, int64_t at_us)
{
    attempt->state = HF_ATTEMPT_WAITING;
    attempt->wake_us = at_us;
    hf__attempt_set_waiting(core, attempt, true);
    hf__alarm_set(core, &attempt->alarm,
                  at_us < attempt->deadline_us ? at_us : attempt->deadline_us);
}

/* Soon at first, then less and less often; never past the moment when a rival could be dead. */
void hf__attempt_wait(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (hf__attempt_is_try(attempt)) {
        hf__attempt_fail_held(core, attempt, HF_ERR_HELD, now_us);
        return;
    }
    attempt->rushes = 0;
    attempt->read_next = true;
    attempt->yields_until_us = 0;
    hf__turn_queue(core, attempt);
    int64_t limit_ms = core->options.poll_limit_ms;
    if (hf__hints_are_trusted(core, now_us))
        limit_ms *= hf__turn_is_ours(core, attempt) ? POLLS_SAVED : POLLS_SAVED_IN_LINE;
    core->wants_hints = true;
    attempt->looked_us = now_us;
    if (attempt->poll_ms > limit_ms) attempt->poll_ms = limit_ms;
    int64_t at_us = now_us + 1000 + hf__random_below(core, attempt->poll_ms * 1000);
    attempt->poll_ms *= 2;
    if (attempt->judge_at_us > now_us && attempt->judge_at_us < at_us) at_us = attempt->judge_at_us;
    hf__attempt_sleep(core, attempt, at_us);
    /* Its request may have read the record before that change (H1). */
    if (attempt->look_again || attempt->asked_hints != core->hints_heard)
        hf__attempt_hint(core, attempt, now_us);
    attempt->look_again = false;
    hf__attempt_report(core, attempt);
    hf__name_refuse_tries(core, attempt->name, now_us);
}

void hf__attempt_retry(struct hf_core *core, struct hf_attempt *attempt,
                       const struct hf_answer *answer, int64_t now_us)
{
    attempt->error = answer->error;
    if (++attempt->failures == TRY_FAILURES && !hf__attempt_is_try(attempt) &&
        !attempt->want.reports) /* those callers get reports */
        hf__log(&core->options.log, HF_LOG_WARN, "lock \"%s\": %s; trying again",
                attempt->name->text, answer->error.message);
    if (hf__attempt_is_try(attempt) && attempt->failures >= TRY_FAILURES) {
        hf__error_prefix(&attempt->error, "lock \"%s\"", attempt->name->text);
        hf__attempt_finish(core, attempt, answer->code, now_us);
        return;
    }
    hf__attempt_report(core, attempt);
    hf__attempt_sleep(
        core, attempt,
        now_us + hf__backoff_us(core, attempt->failures, core->options.poll_limit_ms * 1000));
}

void hf__attempt_retry_for_memory(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    struct hf_answer answer = {0};
    answer.code = hf__error_no_memory(&answer.error);
    hf__attempt_retry(core, attempt, &answer, now_us);
}

/* Handles the answers that are alike for every step. True: the step continues. */
bool hf__attempt_step(struct hf_core *core, struct hf_attempt *attempt, struct hf_request *request,
                      const struct hf_answer *answer, int64_t now_us)
{
    attempt->request = NULL;
    enum hf_answer_class class = hf__classify(answer);
    if (attempt->over) {
        bool may_have_landed = class == HF_ANSWER_OK || class == HF_ANSWER_UNSURE ||
                               answer->code == HF_ERR_OUTCOME_UNKNOWN ||
                               (request->kind == HF_REQUEST_RESOLVE && class != HF_ANSWER_REFUSED);
        if (is_grant_request(request) && may_have_landed && attempt->try_count > 0)
            give_back_try(core, attempt, &attempt->tries[attempt->try_count - 1], now_us);
        if (request->kind == HF_REQUEST_INTENT && may_have_landed && attempt->intent_session)
            withdraw_intent(core, attempt, now_us);
        if (attempt->taken) hf__attempt_destroy(core, attempt);
        return false;
    }
    if (class == HF_ANSWER_OK || class == HF_ANSWER_REFUSED) {
        attempt->heard = true;
        if (attempt->failures > 0) hf__attempt_report(core, attempt);
        attempt->failures = 0;
        return true;
    }
    if (class == HF_ANSWER_FATAL && attempt->want.stubborn) {
        hf__log(&core->options.log, HF_LOG_ERROR, "lock \"%s\": %s; trying again",
                attempt->name->text, answer->error.message);
        return true;
    }
    if (class == HF_ANSWER_FATAL) {
        attempt->error = answer->error;
        hf__error_prefix(&attempt->error, "lock \"%s\"", attempt->name->text);
        hf__attempt_finish(core, attempt, answer->code, now_us);
        return false;
    }
    return true;
}

bool hf__answer_decided(const struct hf_answer *answer)
{
    enum hf_answer_class class = hf__classify(answer);
    return class == HF_ANSWER_OK || class == HF_ANSWER_REFUSED;
}

/* The same for steps that read again after an unknown outcome. */
bool hf__attempt_decided_step(struct hf_core *core, struct hf_attempt *attempt,
                              struct hf_request *request, const struct hf_answer *answer,
                              int64_t now_us)
{
    if (!hf__attempt_step(core, attempt, request, answer, now_us)) return false;
    if (hf__answer_decided(answer)) return true;
    attempt->read_next = true;
    hf__attempt_retry(core, attempt, answer, now_us);
    return false;
}

struct hf_request *hf__attempt_request(struct hf_core *core, struct hf_attempt *attempt,
                                       enum hf_request_kind kind, hf_request_fn done,
                                       int64_t now_us)
{
    struct hf_request *request =
        hf__request_new(core, kind, hf__name_text(attempt->name), done, attempt);
    if (!request) {
        hf__attempt_retry_for_memory(core, attempt, now_us);
        return NULL;
    }
    attempt->request = request;
    hf__attempt_set_waiting(core, attempt, false);
    if (!attempt->asked_us) attempt->asked_us = now_us;
    if (attempt->failures == 0) attempt->silent_us = now_us;
    attempt->asked_hints = core->hints_heard;
    hf__alarm_set(core, &attempt->alarm, attempt->deadline_us);
    return request;
}

/* ---- granted ---- */

static void drop_try(struct hf_core *core, struct hf_attempt *attempt, int at)
{
    hf__lease_unref(core, attempt->tries[at].session);
    attempt->try_count--;
    memmove(&attempt->tries[at], &attempt->tries[at + 1],
            (size_t)(attempt->try_count - at) * sizeof attempt->tries[0]);
}

/* A2. */
static bool in_time(struct hf_core *core, const struct hf_attempt *attempt,
                    const struct hf_try *try, int64_t now_us)
{
    if (HF_BUG(NO_LATE_CHECK)) return true;
    if (try->session)
        return try->session->state == HF_LEASE_LIVE && try->session->valid_until_us > now_us &&
               !try->session->leaving;
    return hf__valid_until_us(core, try->sent_us, attempt->own->lease_ms) > now_us ||
           HF_BUG(LEASE_FROM_ANSWER);
}

/* The record has the new grant alone: earlier ones were released or lost through other services. */
static void drop_earlier(struct hf_core *core, struct hf_name *name, int64_t now_us)
{
    for (struct hf_list *at = name->grants.next, *next; at != &name->grants; at = next) {
        struct hf_grant *earlier = HF_CONTAINER(at, struct hf_grant, of_name);
        next = at->next;
        if (earlier->state == HF_GRANT_HELD)
            hf__grant_end(core, earlier, HF_REASON_ABANDONED, 0, "ended elsewhere", now_us);
    }
}

/* It is ours, and the lease that keeps it lasts. */
static void hold(struct hf_core *core, struct hf_attempt *attempt, const struct hf_try *try,
                 int64_t now_us)
{
    struct hf_grant *grant = attempt->grant;
    grant->state = HF_GRANT_HELD;
    if (core->options.by_grant && grant->limit == 0) drop_earlier(core, attempt->name, now_us);
    attempt->name->refs++;
    hf__list_append(&attempt->name->grants, &grant->of_name);
    core->grant_count++;
    if (try->session) {
        hf__lease_add(core, try->session, grant, now_us);
        attempt->use_session = true;
    } else {
        struct hf_lease *own = attempt->own;
        own->expires_unix_ms = try->expires_unix_ms;
        hf__lease_begin(core, own, &try->by, try->sent_us, now_us);
        hf__lease_add(core, own, grant, now_us);
        attempt->use_session = false;
    }
    hf__attempt_finish(core, attempt, 0, now_us);
}

static void too_late(struct hf_core *core, struct hf_attempt *attempt, int at, int64_t now_us)
{
    struct hf_try try = attempt->tries[at];
    give_back_try(core, attempt, &try, now_us);
    drop_try(core, attempt, at);
    attempt->judge_at_us = HF_NEVER;
    if (hf__attempt_is_try(attempt))
        hf__attempt_end(core, attempt, HF_ERR_TIMED_OUT, "granted too late to be valid; given back",
                        now_us);
    else hf__attempt_wait(core, attempt, now_us);
}

/* M4 of common.c: the newest try was granted, and its session has been asked for. */
static void verified(struct hf_core *core, struct hf_job *job)
{
    struct hf_attempt *attempt = HF_CONTAINER(job, struct hf_attempt, verify);
    int at = attempt->try_count - 1;
    attempt->verifies = false;
    if (job->code == HF_ERR_LOST)
        hf__attempt_end(core, attempt, HF_ERR_LOST, "the session has ended", core->now_us);
    else if (job->code != 0) hf__attempt_fail(core, attempt, &job->error, core->now_us);
    else if (!in_time(core, attempt, &attempt->tries[at], core->now_us))
        too_late(core, attempt, at, core->now_us);
    else hold(core, attempt, &attempt->tries[at], core->now_us);
}

static void verify(struct hf_core *core, struct hf_attempt *attempt, int at, int64_t now_us)
{
    struct hf_try try = attempt->tries[at];
    attempt->tries[at] = attempt->tries[attempt->try_count - 1];
    attempt->tries[attempt->try_count - 1] = try;
    attempt->tries[attempt->try_count - 1].unsure =
        true; /* it is given back if it cannot be kept */
    attempt->state = HF_ATTEMPT_TRYING;
    attempt->verifies = true;
    attempt->verify = (struct hf_job){.then = verified};
    hf__list_init(&attempt->verify.node);
    hf__alarm_set(core, &attempt->alarm, attempt->deadline_us);
    hf__session_verify(core, try.session, &attempt->verify, now_us);
}

static void granted(struct hf_core *core, struct hf_attempt *attempt, int at,
                    const struct hf_record *record, int64_t now_us)
{
    struct hf_try try = attempt->tries[at];
    bool is_common = try.session && hf__session_is_common(core, try.session);
    if (!is_common && !in_time(core, attempt, &try, now_us)) {
        too_late(core, attempt, at, now_us);
        return;
    }
    struct hf_grant *grant = attempt->grant;
    grant->id = try.grant;
    /* Where the store does not count, later readers may have raised the record's token. */
    bool counts = !core->options.format->next_token && record->exists;
    grant->token = counts ? record->token : try.token;
    grant->since_unix_ms = record->since_unix_ms;
    grant->taken_over = try.take;
    grant->alone = record->member_count == 1 || record->readers == 1;
    if (!record->exists && attempt->want.has_data) { /* a put does not return what it wrote */
        attempt->stored = attempt->want.data;
        attempt->has_stored = true;
    }
    if (record->has_data) {
        attempt->stored = hf__arena_copy(&attempt->wants, record->data);
        attempt->has_stored = true;
        attempt->lacks_stored = attempt->wants.failed;
    }
    if (is_common && !HF_BUG(NO_VERIFY)) verify(core, attempt, at, now_us);
    else hold(core, attempt, &try, now_us);
}

/* ---- the write ---- */

bool hf__attempt_wants_session(const struct hf_attempt *attempt)
{
    return attempt->use_session;
}

struct hf_lease *hf__attempt_session(struct hf_core *core, const struct hf_attempt *attempt,
                                     int64_t now_us)
{
    struct hf_lease *opened = attempt->want.session;
    if (!opened) return hf__session_get(core, now_us);
    bool lasts = opened->valid_until_us > now_us || hf__session_is_common(core, opened);
    return opened->state == HF_LEASE_LIVE && lasts && !opened->leaving ? opened : NULL;
}

bool hf__attempt_joins(const struct hf_attempt *attempt)
{
    return attempt->want.limit > 0 && attempt->record.readers > 0;
}

static struct hf_try *new_try(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    struct hf_id first = attempt->try_count > 0 ? attempt->tries[0].grant : (struct hf_id){{0}};
    bool has_first = attempt->try_count > 0;
    if (attempt->try_count == HF_TRIES_KEPT) drop_try(core, attempt, 0);
    struct hf_try *try = &attempt->tries[attempt->try_count++];
    *try = (struct hf_try){.sent_us = now_us, .unsure = true};
    hf__new_grant_id(core, &attempt->want, &try->grant);
    hf__new_id(core, &try->by);
    if (HF_BUG(ONE_ID) && has_first) try->grant = first;
    if (hf__attempt_wants_session(attempt)) {
        try->session = attempt->want.session ? attempt->want.session : core->session;
        try->session->refs++;
    } else {
        try->expires_unix_ms = hf__expires_unix_ms(core, now_us, attempt->own->lease_ms);
    }
    return try;
}

static void claim_of(struct hf_core *core, const struct hf_attempt *attempt,
                     const struct hf_try *try, struct hf_claim *ret)
{
    const struct hf_want *want = &attempt->want;
    struct hf_interval store = hf__core_store_time(core, try->sent_us);
    *ret = (struct hf_claim){
        .name = hf__name_text(attempt->name),
        .owner = want->owner.len ? want->owner : core->options.owner,
        .instance = want->instance,
        .grant = try->grant,
        .session = try->session ? &try->session->id : NULL,
        .limit = want->limit,
        .version = 1,
        .by = try->by,
        .token = try->token,
        .lease_ms = attempt->own ? attempt->own->lease_ms : 0,
        .expires_unix_ms = try->expires_unix_ms,
        .now_unix_ms = store.known ? store.lo_unix_us / 1000 : 0,
        .skew_ms = core->options.skew_ms,
        .since_unix_ms = store.known ? store.lo_unix_us / 1000 : 0,
        .token_start = store.known ? store.lo_unix_us : 0,
        .has_data = want->has_data,
        .keep_data = want->keep_data,
        .data = want->data,
        .extra = want->extra,
        .only_if_exists = want->only_if_exists,
        .intent = attempt->record.has_intent && attempt->has_intent &&
                          hf__id_is(&attempt->intent, attempt->record.intent.grant)
                      ? &attempt->intent
                      : NULL,
    };
}

static void tried(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                  int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_step(core, attempt, request, answer, now_us)) return;
    int at = attempt->try_count - 1;
    struct hf_try *try = &attempt->tries[at];
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK: {
        struct hf_record record;
        core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                    answer->item, &record);
        if (request->arena.failed) {
            attempt->read_next = true;
            hf__attempt_retry_for_memory(core, attempt, now_us);
        } else {
            granted(core, attempt, at, &record, now_us);
        }
        return;
    }
    case HF_ANSWER_REFUSED:
        try->unsure = answer->code == HF_ERR_OUTCOME_UNKNOWN;
        look(core, attempt, answer->has_item, answer->item, now_us);
        return;
    case HF_ANSWER_UNSURE:
        /* The next try finds out; for a shared lock the token has to be fetched. */
        attempt->read_next = attempt->use_session && attempt->want.limit > 0;
        hf__attempt_retry(core, attempt, answer, now_us);
        return;
    default:
        try->unsure = false;
        attempt->read_next = false;
        hf__attempt_retry(core, attempt, answer, now_us);
        return;
    }
}

static bool needs_clock(const struct hf_core *core)
{
    return (core->options.format->can & HF_NEEDS_CLOCK) || core->options.layout.trust_clock;
}

void hf__attempt_try(struct hf_core *core, struct hf_attempt *attempt, bool take, int64_t now_us)
{
    if (needs_clock(core) && !core->store_time.known) {
        hf__attempt_end(core, attempt, HF_ERR_UNSUPPORTED,
                        "this format needs the store's time, and the store does not report it",
                        now_us);
        return;
    }
    if (!take && hf__turn_yields(core, attempt, now_us)) return;
    struct hf_request *request =
        hf__attempt_request(core, attempt, take ? HF_REQUEST_TAKE : HF_REQUEST_TRY, tried, now_us);
    if (!request) return;
    attempt->state = HF_ATTEMPT_TRYING;
    struct hf_claim claim;
    const struct hf_format *format = core->options.format;
    const struct hf_layout *layout = &core->options.layout;
    struct hf_try *try = new_try(core, attempt, now_us);
    try->take = take;
    /* A record that shows a holder serves to take over; it says nothing about a free lock. */
    bool has_seen = attempt->looked &&
                    (take || !hf__record_is_held(&attempt->record) || hf__attempt_joins(attempt));
    const struct hf_record *seen = has_seen ? &attempt->record : NULL;
    if (format->next_token) try->token = format->next_token(layout, seen);
    claim_of(core, attempt, try, &claim);
    if (take) format->take(layout, &request->arena, &claim, &attempt->record, &request->op);
    else format->acquire(layout, &request->arena, &claim, seen, &request->op);
    if (attempt->round.failed) request->arena.failed = true;
    hf__request_send(core, request);
}

static void resolved(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_step(core, attempt, request, answer, now_us)) return;
    struct hf_record record = {0};
    core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                answer->item, &record);
    if (hf__classify(answer) == HF_ANSWER_OK && !request->arena.failed) {
        granted(core, attempt, attempt->try_count - 1, &record, now_us);
        return;
    }
    attempt->read_next = true;
    if (hf__answer_decided(answer)) hf__attempt_sleep(core, attempt, now_us + 1000);
    else hf__attempt_retry(core, attempt, answer, now_us);
}

/* A shared try that landed without an answer: fetches its token. */
static void resolve(struct hf_core *core, struct hf_attempt *attempt, int at, int64_t now_us)
{
    struct hf_try try = attempt->tries[at];
    int last = attempt->try_count - 1;
    attempt->tries[at] = attempt->tries[last];
    attempt->tries[last] = try;
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_RESOLVE, resolved, now_us);
    if (!request) return;
    attempt->state = HF_ATTEMPT_TRYING;
    struct hf_claim claim;
    claim_of(core, attempt, &try, &claim);
    core->options.format->shares->resolve(&core->options.layout, &request->arena, &claim,
                                          &request->op);
    hf__request_send(core, request);
}

/* ---- reading ---- */

static void was_read(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct hf_attempt *attempt = request->owner;
    if (!hf__attempt_decided_step(core, attempt, request, answer, now_us)) return;
    look(core, attempt, answer->has_item, answer->item, now_us);
}

static void send_read(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    struct hf_request *request =
        hf__attempt_request(core, attempt, HF_REQUEST_READ, was_read, now_us);
    if (!request) return;
    attempt->state = HF_ATTEMPT_EXAMINING;
    core->options.format->read(&core->options.layout, &request->arena, hf__name_text(attempt->name),
                               &request->op);
    hf__request_send(core, request);
}

/* ---- what a record means ---- */

/*
 * Whether an earlier call with the same identity holds it, granted by another service. Its grant is
 * adopted by a renewal: a service that gives it back names the version that it has seen. A lock of
 * a session has no version, so there each call is one of its own.
 */
static bool is_of_same_call(const struct hf_attempt *attempt)
{
    const struct hf_record *record = &attempt->record;
    const struct hf_want *want = &attempt->want;
    return want->limit == 0 && !want->session && record->exclusive &&
           record->holder.session.len == 0 && hf__slice_eq(record->owner, want->owner) &&
           hf__grant_is_of_call(want, record->holder.grant);
}

/* Decides what a record means for the attempt: granted, free, or held. */
static void look(struct hf_core *core, struct hf_attempt *attempt, bool has_item,
                 struct hf_item item, int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    hf__arena_free(&attempt->round);
    item = hf__item_copy(&attempt->round, item);
    format->parse(&core->options.layout, &attempt->round, has_item, item, &attempt->record);
    if (attempt->round.failed || !hf__rivals_list(attempt)) {
        attempt->record = (struct hf_record){0};
        attempt->looked = false;
        hf__arena_free(&attempt->round);
        attempt->read_next = true;
        hf__attempt_retry_for_memory(core, attempt, now_us);
        return;
    }
    attempt->looked = true;
    hf__attempt_noticed(core, attempt, now_us);
    if (attempt->has_intent &&
        !(attempt->record.has_intent && hf__id_is(&attempt->intent, attempt->record.intent.grant)))
        attempt->has_intent = false; /* it was lost or removed: declare it again */
    for (int i = attempt->try_count - 1; i >= 0; i--) {
        struct hf_claim claim;
        claim_of(core, attempt, &attempt->tries[i], &claim);
        if (!format->holds(&attempt->record, &claim)) continue;
        if (attempt->use_session && attempt->want.limit > 0) resolve(core, attempt, i, now_us);
        else granted(core, attempt, i, &attempt->record, now_us);
        return;
    }
    if (is_of_same_call(attempt)) {
        hf__id_parse(attempt->record.holder.grant, &attempt->repeated);
        attempt->repeats = true;
        hf__attempt_end(core, attempt, HF_ERR_HELD, "held by the same call", now_us);
        return;
    }
    if (attempt->want.only_if_exists && !attempt->record.exists) {
        hf__attempt_end(core, attempt, HF_ERR_ABSENT, "there is no such lock", now_us);
        return;
    }
    attempt->state = HF_ATTEMPT_EXAMINING;
    hf__rivals_examine(core, attempt, now_us);
}

/* ---- beginning ---- */

void hf__attempt_go(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (now_us >= attempt->deadline_us) {
        time_out(core, attempt, now_us);
        return;
    }
    if (attempt->want.session && !hf__attempt_session(core, attempt, now_us)) {
        hf__attempt_end(core, attempt, HF_ERR_LOST, "the session has ended", now_us);
        return;
    }
    /* A token starts at the low end of the store's time, which falls behind as it ages. */
    const struct hf_format *format = core->options.format;
    if (format->reads_first && !attempt->looked && format->reads_first(&core->options.layout))
        attempt->read_next = true;
    bool knows_time =
        core->timeless || !(needs_clock(core) || (format->can & HF_WANTS_CLOCK)) ||
        (core->store_time.known && now_us - core->store_time.as_of_boot_us <= TIME_IS_FRESH_US);
    if (attempt->read_next || !knows_time) {
        attempt->read_next = false;
        send_read(core, attempt, now_us);
        return;
    }
    if (hf__attempt_wants_session(attempt) && !hf__attempt_session(core, attempt, now_us)) {
        if (!core->session) {
            hf__attempt_retry_for_memory(core, attempt, now_us);
            return;
        }
        attempt->state = HF_ATTEMPT_SESSION;
        hf__attempt_set_waiting(core, attempt, false);
        if (!attempt->asked_us) attempt->asked_us = now_us; /* the session's request is its own */
        if (attempt->failures == 0) attempt->silent_us = now_us;
        hf__alarm_set(core, &attempt->alarm, attempt->deadline_us);
        hf__list_remove(&attempt->of_core);
        hf__list_append(&core->session_waiters, &attempt->of_core);
        return;
    }
    hf__attempt_try(core, attempt, false, now_us);
}

void hf__attempt_session_ready(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (!attempt->over) hf__attempt_go(core, attempt, now_us);
}

void hf__attempt_ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct hf_attempt *attempt = HF_CONTAINER(alarm, struct hf_attempt, alarm);
    if (attempt->over) return;
    if (now_us >= attempt->deadline_us) time_out(core, attempt, now_us);
    else if (attempt->state == HF_ATTEMPT_WAITING) hf__attempt_go(core, attempt, now_us);
    else hf__alarm_set(core, alarm, attempt->deadline_us);
}

void hf__attempt_session_fails(struct hf_core *core, struct hf_attempt *attempt,
                               const struct hf_error *error)
{
    attempt->failures++;
    attempt->error = *error;
    hf__attempt_report(core, attempt);
}
