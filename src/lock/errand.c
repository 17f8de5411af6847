/*
 * Errands: small conditional writes that must get done and do no harm when they
 * are done twice. Repeated until the store has decided or patience runs out.
 *
 * A release names the version that it has seen (C6). If another actor has renewed the
 * grant since, the holder's own release adopts the new version and is sent again. A
 * grant that is given back because its time was up here is left to the other actor.
 */
#include <string.h>

#include "lock/inside.h"

enum { SPARES = 4 };

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);

static struct hf_errand *make(struct hf_core *core)
{
    struct hf_errand *errand = hf__calloc(1, sizeof *errand);
    if (!errand || hf__alarm_init(core, &errand->alarm, ring)) return errand;
    hf__free(errand);
    return NULL;
}

bool hf__errands_init(struct hf_core *core)
{
    for (int i = 0; i < SPARES; i++) {
        struct hf_errand *errand = make(core);
        if (!errand) return false;
        hf__arena_alloc(&errand->arena, 1);
        hf__arena_reset(&errand->arena);
        errand->arena.failed = false; /* a chunk in reserve is useful, but not required */
        hf__list_append(&core->spares, &errand->node);
        core->spare_count++;
    }
    return true;
}

void hf__errands_free(struct hf_core *core)
{
    while (!hf__list_empty(&core->errands))
        hf__errand_free(core, HF_CONTAINER(core->errands.next, struct hf_errand, node));
    for (struct hf_list *node; (node = hf__list_pop(&core->spares)) != NULL;) {
        struct hf_errand *errand = HF_CONTAINER(node, struct hf_errand, node);
        hf__alarm_done(core, &errand->alarm);
        hf__arena_free(&errand->arena);
        hf__free(errand);
    }
}

/* Whether another client would have to wait for a lease to end if it were not done. */
static bool gives_up(enum hf_errand_kind kind)
{
    return kind == HF_ERRAND_RELEASE || kind == HF_ERRAND_EXPIRE || kind == HF_ERRAND_GIVE_BACK ||
           kind == HF_ERRAND_END_SESSION;
}

struct hf_errand *hf__errand_new(struct hf_core *core, enum hf_errand_kind kind,
                                 struct hf_name *name)
{
    struct hf_errand *errand = make(core);
    if (!errand && gives_up(kind)) {
        struct hf_list *node = hf__list_pop(&core->spares);
        errand = node ? HF_CONTAINER(node, struct hf_errand, node) : NULL;
        if (errand) core->spare_count--;
    }
    if (!errand) return NULL;
    hf__list_init(&errand->of_grant);
    errand->kind = kind;
    errand->name = name;
    if (name) name->refs++;
    hf__list_append(&core->errands, &errand->node);
    return errand;
}

struct hf_errand *hf__errand_for(struct hf_core *core, enum hf_errand_kind kind,
                                 struct hf_grant *grant)
{
    struct hf_errand *errand = hf__errand_new(core, kind, grant->name);
    if (!errand) return NULL;
    errand->grant = grant;
    hf__list_append(&grant->errands, &errand->of_grant);
    hf__grant_claim(core, grant, &errand->claim);
    if (errand->claim.session) { /* the errand may outlive the lease */
        errand->session = *errand->claim.session;
        errand->claim.session = &errand->session;
    }
    return errand;
}

void hf__errand_free(struct hf_core *core, struct hf_errand *errand)
{
    hf__alarm_done(core, &errand->alarm);
    hf__list_remove(&errand->node);
    hf__name_unref(core, errand->name);
    struct hf_arena arena = errand->arena; /* keeps its chunk, which a spare may need */
    hf__arena_reset(&arena);
    arena.failed = false;
    *errand = (struct hf_errand){.arena = arena};
    if (core->spare_count < SPARES && hf__alarm_init(core, &errand->alarm, ring)) {
        hf__list_append(&core->spares, &errand->node);
        core->spare_count++;
    } else {
        hf__arena_free(&errand->arena);
        hf__free(errand);
    }
}

/* Frees it; if its request is still out, the answer does. */
static void finish(struct hf_core *core, struct hf_errand *errand)
{
    hf__list_remove(&errand->of_grant);
    errand->grant = NULL;
    hf__alarm_set(core, &errand->alarm, HF_NEVER);
    if (errand->request) errand->give_up_us = 0;
    else hf__errand_free(core, errand);
}

static void give_up(struct hf_core *core, struct hf_errand *errand, int code, int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    enum hf_errand_kind kind = errand->kind;
    struct hf_job *job = errand->job;
    if (errand->sent) code = HF_ERR_OUTCOME_UNKNOWN; /* an earlier copy may have landed */
    finish(core, errand);
    if (kind == HF_ERRAND_RELEASE && grant)
        hf__grant_end(core, grant, HF_REASON_UNCONFIRMED, code, hf_error_meaning(code), now_us);
    if (kind == HF_ERRAND_EXPIRE && grant)
        hf__grant_end(core, grant, HF_REASON_ABANDONED, code, hf_error_meaning(code), now_us);
    if (job) hf__job_done(core, job, code, "the store: %s", hf_error_meaning(code));
}

/* No copy of a session's creation is under way for longer than an hour. */
static int64_t grave_ttl_s(const struct hf_core *core, int64_t now_us)
{
    int64_t ttl_s = hf__ttl_unix_s(core, now_us, 0), more_s = core->options.layout.keep_s - 3600;
    return ttl_s && more_s > 0 ? ttl_s - more_s : ttl_s;
}

/* Whether to read instead of writing: the record is not known yet, or must not be touched. */
static bool only_reads(const struct hf_errand *errand)
{
    return (errand->kind == HF_ERRAND_BY_GRANT && !errand->known) || errand->looks;
}

static void build(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                  int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    const struct hf_layout *layout = &core->options.layout;
    struct hf_arena *arena = &request->arena;
    struct hf_op *op = &request->op;
    switch (errand->kind) {
    case HF_ERRAND_BY_GRANT:
    case HF_ERRAND_EXPIRE:
        if (errand->of_session && !errand->known) {
            format->sessions->read(layout, arena, hf__id_text(arena, &errand->session), op);
            break;
        }
        if (only_reads(errand)) {
            format->read(layout, arena, hf__name_text(errand->name), op);
            break;
        }
        /* fall through */
    case HF_ERRAND_RELEASE:
    case HF_ERRAND_GIVE_BACK:
        errand->claim.ttl_unix_s = hf__ttl_unix_s(core, now_us, 0);
        errand->claim.is_wanted =
            errand->kind == HF_ERRAND_RELEASE || errand->kind == HF_ERRAND_BY_GRANT;
        format->release(layout, arena, &errand->claim, op);
        op->frees = hf__name_hash(hf__name_text(errand->name));
        break;
    case HF_ERRAND_RETIRE:
        format->shares->retire(layout, arena, hf__name_text(errand->name),
                               hf__ttl_unix_s(core, now_us, 0), op);
        break;
    case HF_ERRAND_WITHDRAW:
        format->shares->withdraw(layout, arena, hf__name_text(errand->name), errand->target, op);
        break;
    case HF_ERRAND_ASK:
        format->sessions->ask(layout, arena, errand->target, errand->text, op);
        break;
    case HF_ERRAND_CLEAR:
        format->sessions->clear(layout, arena, errand->target, errand->asked, errand->revoked, op);
        break;
    case HF_ERRAND_END_SESSION:
        if (errand->buries) {
            const struct hf_session_claim claim = {.id = errand->session,
                                                   .version = errand->claim.version,
                                                   .by = errand->claim.by,
                                                   .ttl_unix_s = grave_ttl_s(core, now_us)};
            format->sessions->bury(layout, arena, &claim, op);
        } else {
            format->sessions->end(layout, arena, errand->target, NULL, op);
        }
        break;
    case HF_ERRAND_DATA: format->set_data(layout, arena, &errand->claim, op); break;
    case HF_ERRAND_RECHECK: format->read(layout, arena, hf__name_text(errand->name), op); break;
    }
}

/* A lock of a common session may have been released through another service, which reports it. */
static bool is_others_to_say(const struct hf_core *core, enum hf_errand_kind kind,
                             const struct hf_grant *grant)
{
    return kind == HF_ERRAND_RECHECK && grant->state == HF_GRANT_HELD &&
           hf__session_is_common(core, grant->lease);
}

/* The record no longer contains the grant. */
static void missing(struct hf_core *core, struct hf_errand *errand, const struct hf_record *record,
                    int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    struct hf_job *job = errand->job;
    enum hf_errand_kind kind = errand->kind;
    /* An earlier copy of the release may have removed it, or another actor with the grant. */
    bool sent = errand->sent;
    bool released = sent || hf__id_is(&errand->claim.grant, record->released);
    struct hf_error lost;
    hf__explain_lost(record, &errand->claim.grant, &lost);
    hf__error_prefix(&lost, "lock \"%s\"", errand->name->text);
    finish(core, errand);
    if (grant && kind == HF_ERRAND_RELEASE &&
        (released || !(hf__record_is_held(record) || hf__id_is(&grant->id, record->forced))))
        hf__grant_end(core, grant, grant->reason, 0, NULL, now_us);
    else if (grant && kind == HF_ERRAND_EXPIRE && sent)
        hf__grant_end(core, grant, grant->reason ? grant->reason : HF_REASON_EXPIRED, 0, NULL,
                      now_us);
    else if (grant && !hf__id_is(&grant->id, record->forced) &&
             (kind == HF_ERRAND_EXPIRE || is_others_to_say(core, kind, grant)))
        /* Released elsewhere, or lost: the last actor for it has reported which. */
        hf__grant_end(core, grant, HF_REASON_ABANDONED, 0, "ended elsewhere", now_us);
    else if (grant && (kind == HF_ERRAND_RELEASE || kind == HF_ERRAND_EXPIRE ||
                       grant->state == HF_GRANT_HELD))
        hf__grant_end_as(core, grant, record, now_us); /* unless our own release removed it */
    if (job && kind == HF_ERRAND_BY_GRANT && released) {
        job->already = !sent;
        hf__job_done(core, job, 0, " ");
    } else if (job) hf__job_done(core, job, HF_ERR_LOST, "%s", lost.message);
}

/* Another actor for the same grant has changed its version. */
static void overtaken(struct hf_core *core, struct hf_errand *errand, const struct hf_claim *seen,
                      int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    if (errand->kind == HF_ERRAND_EXPIRE && !HF_BUG(GIVE_BACK_ANY)) {
        finish(core, errand);
        hf__grant_end(core, grant, HF_REASON_ABANDONED, 0, "renewed elsewhere", now_us);
        return;
    }
    errand->claim.version = seen->version;
    errand->claim.by = seen->by;
    errand->claim.expires_unix_ms = seen->expires_unix_ms;
    errand->claim.token = seen->token;
    errand->claim.last = false; /* other holders may have joined */
    errand->claim.pending = false;
    int64_t again_us = now_us + hf__yield_us(core, errand->overtaken++);
    if (again_us >= errand->give_up_us) give_up(core, errand, HF_ERR_CONDITION, now_us);
    else if (again_us <= now_us) ring(core, &errand->alarm, now_us);
    else hf__alarm_set(core, &errand->alarm, again_us);
}

/* A release or a set_data was refused: compares the grant with the record. */
static void compare(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_record record;
    struct hf_claim seen = errand->claim;
    core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                answer->item, &record);
    if (request->arena.failed) give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
    else if (record.damaged) give_up(core, errand, HF_ERR_DAMAGED, now_us);
    else if (!core->options.format->adopt(&record, &seen)) missing(core, errand, &record, now_us);
    else overtaken(core, errand, &seen, now_us);
}

static void refuse(struct hf_core *core, struct hf_errand *errand, int code, const char *why)
{
    hf__job_done(core, errand->job, code, "lock \"%s\": %s", errand->name->text, why);
    errand->job = NULL;
    finish(core, errand);
}

/* A grant in a session belongs to the session's owner; a shared lock does not name its holders. */
static void take_up_in_session(struct hf_core *core, struct hf_errand *errand,
                               const struct hf_record *record, const struct hf_holder *holder,
                               int64_t now_us)
{
    if (!hf__id_parse(holder->session, &errand->session)) {
        refuse(core, errand, HF_ERR_DAMAGED, "the session in its record is invalid");
        return;
    }
    errand->claim.session = &errand->session;
    errand->of_session = errand->claim.limit > 0;
    errand->known = !errand->of_session;
    if (errand->known && !hf__slice_eq(record->owner, errand->target))
        refuse(core, errand, HF_ERR_LOST, "the grant does not hold it");
    else ring(core, &errand->alarm, now_us);
}

static void check_session(struct hf_core *core, struct hf_errand *errand,
                          struct hf_request *request, const struct hf_answer *answer,
                          int64_t now_us)
{
    struct hf_session_record record;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &record);
    if (!record.exists) {
        refuse(core, errand, HF_ERR_LOST, "its session has ended");
    } else if (!hf__slice_eq(record.owner, errand->target)) {
        refuse(core, errand, HF_ERR_LOST, "the grant does not hold it");
    } else {
        errand->known = true;
        ring(core, &errand->alarm, now_us);
    }
}

/* The first step of a release by grant: reads the record. */
static void take_up(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_record record;
    struct hf_claim *claim = &errand->claim;
    int code;
    core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                answer->item, &record);
    if (request->arena.failed) {
        give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
        return;
    }
    int64_t limit;
    const struct hf_holder *holder = hf__holder_in_session(core, &record, &claim->grant, &limit);
    if (holder) {
        claim->limit = limit;
        take_up_in_session(core, errand, &record, holder, now_us);
        return;
    }
    if (!record.damaged && !core->options.format->adopt(&record, claim)) {
        missing(core, errand, &record, now_us);
        return;
    }
    const char *refusal = hf__refuses_by_grant(&record, claim, errand->target, &code);
    if (refusal) {
        refuse(core, errand, code, refusal);
        return;
    }
    claim->owner = hf__arena_copy(&errand->arena, claim->owner);
    errand->known = true;
    ring(core, &errand->alarm, now_us);
}

static void done(struct hf_core *core, struct hf_errand *errand, int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    struct hf_job *job = errand->job;
    enum hf_errand_kind kind = errand->kind;
    struct hf_name *name = errand->name;
    if (name) name->refs++;
    finish(core, errand);
    if (kind == HF_ERRAND_RELEASE && grant)
        hf__grant_end(core, grant, grant->reason, 0, NULL, now_us);
    if (kind == HF_ERRAND_EXPIRE && grant)
        hf__grant_end(core, grant, grant->reason ? grant->reason : HF_REASON_EXPIRED, 0, NULL,
                      now_us);
    if (job) hf__job_done(core, job, 0, " ");
    if (kind == HF_ERRAND_BY_GRANT) hf__name_advance(core, name, now_us);
    hf__name_unref(core, name);
}

/* The last holder left without knowing that it was the last: sets the ttl. */
static void retire_if_empty(struct hf_core *core, struct hf_errand *errand,
                            struct hf_request *request, const struct hf_answer *answer,
                            int64_t now_us)
{
    bool left = errand->kind == HF_ERRAND_RELEASE || errand->kind == HF_ERRAND_BY_GRANT ||
                errand->kind == HF_ERRAND_EXPIRE || errand->kind == HF_ERRAND_GIVE_BACK;
    if (!left || errand->claim.limit == 0 || errand->claim.last || !answer->has_item) return;
    struct hf_record record;
    core->options.format->parse(&core->options.layout, &request->arena, true, answer->item,
                                &record);
    if (hf__record_is_held(&record) || record.retired) return;
    if (core->options.format->sessions && hf__ttl_unix_s(core, now_us, 0) == 0) return;
    struct hf_errand *retire = hf__errand_new(core, HF_ERRAND_RETIRE, errand->name);
    if (retire) hf__errand_start(core, retire, core->options.lease_ms, now_us);
}

/*
 * Other actors have served the grant as well, and may have promised more than was promised here.
 * So it has expired only if nobody has renewed it for as long as a challenger would wait; then it
 * is given back like any other.
 */
static void look_expired(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                         const struct hf_answer *answer, int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    struct hf_record record;
    struct hf_claim seen = errand->claim, pending = errand->claim;
    pending.by = errand->claim.pending_by;
    pending.expires_unix_ms = errand->claim.pending_unix_ms;
    format->parse(&core->options.layout, &request->arena, answer->has_item, answer->item, &record);
    if (request->arena.failed) give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
    else if (record.damaged) give_up(core, errand, HF_ERR_DAMAGED, now_us);
    else if (!format->adopt(&record, &seen)) missing(core, errand, &record, now_us);
    else if (!format->at_version(&record, &errand->claim) &&
             !(errand->claim.pending && format->at_version(&record, &pending)))
        overtaken(core, errand, &seen, now_us);
    else {
        struct hf_verdict verdict = hf__judge(core, &record.liveness, now_us);
        errand->looks = !verdict.dead;
        if (verdict.dead) ring(core, &errand->alarm, now_us);
        else if (verdict.judge_at_us < errand->give_up_us)
            hf__alarm_set(core, &errand->alarm, verdict.judge_at_us);
        else give_up(core, errand, HF_ERR_TIMED_OUT, now_us);
    }
}

/* The end of a session was refused: another program has renewed it, or it has ended already. */
static void end_refused(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                        const struct hf_answer *answer, int64_t now_us)
{
    struct hf_session_record record;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &record);
    const struct hf_claim seen = {.version = record.version_number, .by = record.by};
    if (!record.exists) done(core, errand, now_us);
    else if (!record.damaged && errand->buries) overtaken(core, errand, &seen, now_us);
    else if (errand->job) give_up(core, errand, HF_ERR_DAMAGED, now_us);
    else done(core, errand, now_us);
}

static void answered(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct hf_errand *errand = request->owner;
    errand->request = NULL;
    if (errand->give_up_us == 0) { /* it ended meanwhile */
        hf__errand_free(core, errand);
        return;
    }
    bool about_grant = errand->kind == HF_ERRAND_RELEASE || errand->kind == HF_ERRAND_DATA ||
                       errand->kind == HF_ERRAND_EXPIRE || errand->kind == HF_ERRAND_BY_GRANT ||
                       (errand->kind == HF_ERRAND_GIVE_BACK && HF_BUG(GIVE_BACK_ANY));
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK:
        if (errand->of_session && !errand->known) {
            check_session(core, errand, request, answer, now_us);
            return;
        }
        if (errand->kind == HF_ERRAND_BY_GRANT && !errand->known) {
            take_up(core, errand, request, answer, now_us);
            return;
        }
        if (errand->looks) {
            look_expired(core, errand, request, answer, now_us);
            return;
        }
        if (errand->kind == HF_ERRAND_RECHECK) {
            struct hf_record record;
            core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                        answer->item, &record);
            if (!request->arena.failed && !core->options.format->holds(&record, &errand->claim)) {
                missing(core, errand, &record, now_us);
                return;
            }
        }
        retire_if_empty(core, errand, request, answer, now_us);
        done(core, errand, now_us);
        return;
    case HF_ANSWER_REFUSED:
        if (answer->code == HF_ERR_OUTCOME_UNKNOWN) errand->sent = true;
        if (about_grant) compare(core, errand, request, answer, now_us);
        else if (errand->kind == HF_ERRAND_END_SESSION)
            end_refused(core, errand, request, answer, now_us);
        else done(core, errand, now_us); /* there was nothing left to remove */
        return;
    case HF_ANSWER_FATAL: give_up(core, errand, answer->code, now_us); return;
    case HF_ANSWER_UNSURE: errand->sent = true; break;
    case HF_ANSWER_FAILED: break;
    }
    int64_t again_us = now_us + hf__backoff_us(core, ++errand->failures, 1000000);
    if (again_us >= errand->give_up_us || answer->code == HF_ERR_CANCELLED)
        give_up(core, errand, answer->code, now_us);
    else hf__alarm_set(core, &errand->alarm, again_us);
}

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct hf_errand *errand = HF_CONTAINER(alarm, struct hf_errand, alarm);
    if (errand->request) return;
    if (errand->arena.failed) { /* it is incomplete, and stays so */
        give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
        return;
    }
    struct hf_slice about = errand->name ? hf__name_text(errand->name) : HF_LIT("session");
    struct hf_request *request = hf__request_new(core, HF_REQUEST_ERRAND, about, answered, errand);
    if (!request) {
        int64_t again_us = now_us + hf__backoff_us(core, ++errand->failures, 1000000);
        if (again_us >= errand->give_up_us) give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
        else hf__alarm_set(core, &errand->alarm, again_us);
        return;
    }
    errand->request = request;
    build(core, errand, request, now_us);
    hf__request_send(core, request);
}

void hf__errand_start(struct hf_core *core, struct hf_errand *errand, int64_t patience_ms,
                      int64_t now_us)
{
    errand->give_up_us = now_us + patience_ms * 1000;
    ring(core, &errand->alarm, now_us);
}

void hf__errands_forget(struct hf_core *core, struct hf_grant *grant)
{
    struct hf_list *node;
    while ((node = hf__list_pop(&grant->errands))) {
        struct hf_errand *errand = HF_CONTAINER(node, struct hf_errand, of_grant);
        struct hf_job *job = errand->job;
        errand->job = NULL;
        finish(core, errand);
        if (job) hf__job_done(core, job, HF_ERR_LOST, "the lock is no longer held");
    }
}

void hf__errands_fail(struct hf_core *core, int64_t now_us)
{
    for (struct hf_list *at = core->errands.next, *next; at != &core->errands; at = next) {
        struct hf_errand *errand = HF_CONTAINER(at, struct hf_errand, node);
        next = at->next;
        bool is_call = errand->kind == HF_ERRAND_BY_GRANT || errand->kind == HF_ERRAND_END_SESSION;
        if (is_call && errand->job) {
            struct hf_job *job = errand->job;
            errand->job = NULL;
            hf__job_done(core, job, errand->sent ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_CLOSED,
                         "%s: the client was closed",
                         errand->name ? errand->name->text : "the session");
            give_up(core, errand, HF_ERR_CLOSED, now_us);
        }
    }
}

static struct hf_slice keep_owner(struct hf_errand *errand, struct hf_slice owner)
{
    if (owner.len > sizeof errand->owner) return hf__arena_copy(&errand->arena, owner);
    memcpy(errand->owner, owner.ptr, owner.len);
    return hf__slice(errand->owner, owner.len);
}

void hf__give_back(struct hf_core *core, struct hf_name *name, enum hf_hold kind,
                   const struct hf_claim *claim, int64_t now_us)
{
    struct hf_errand *errand = hf__errand_new(
        core, kind == HF_HOLD_INTENT ? HF_ERRAND_WITHDRAW : HF_ERRAND_GIVE_BACK, name);
    if (!errand) return; /* then it expires, or a challenger asks for it */
    errand->claim = *claim;
    errand->claim.name = hf__name_text(name);
    errand->claim.owner = keep_owner(errand, claim->owner.len ? claim->owner : core->options.owner);
    errand->claim.instance = HF_LIT("");
    errand->claim.has_data = false;
    errand->claim.extra = (struct hf_item){0};
    errand->claim.intent = NULL;
    if (claim->session) { /* the errand may outlive it */
        errand->session = *claim->session;
        errand->claim.session = &errand->session;
    }
    if (kind == HF_HOLD_INTENT) {
        struct hf_slice first = hf__id_text(&errand->arena, claim->session);
        struct hf_slice second = hf__id_text(&errand->arena, &claim->grant);
        errand->target =
            hf__arena_printf(&errand->arena, "%.*s/%.*s", HF_FMT(first), HF_FMT(second));
    }
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
}

void hf__core_release_by_grant(struct hf_core *core, const struct hf_by_grant *which,
                               const struct hf_release *how, struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    struct hf_name *name = core->closing ? NULL : hf__name_get(core, which->name);
    struct hf_errand *errand = name ? hf__errand_new(core, HF_ERRAND_BY_GRANT, name) : NULL;
    hf__name_unref(core, name);
    if (!errand) {
        int code = core->closing ? HF_ERR_CLOSED : HF_ERR_NO_MEMORY;
        hf__job_done(core, job, code, "%s", hf_error_meaning(code));
        return;
    }
    errand->job = job;
    errand->target = hf__arena_copy(&errand->arena, which->owner);
    errand->claim = (struct hf_claim){
        .name = hf__name_text(errand->name),
        .grant = which->grant,
        .limit = which->limit,
        .has_data = how->has_data,
        .data = hf__arena_copy(&errand->arena, how->data),
    };
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
}
