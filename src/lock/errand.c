/*
 * Errands: small conditional writes that must get done and do no harm when they
 * are done twice. Repeated until the store has decided or patience runs out.
 */
#include "lock/inside.h"

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);

struct hf_errand *hf__errand_new(struct hf_core *core, enum hf_errand_kind kind,
                                 struct hf_name *name)
{
    struct hf_errand *errand = hf__calloc(1, sizeof *errand);
    if (!errand) return NULL;
    if (!hf__alarm_init(core, &errand->alarm, ring)) {
        hf__free(errand);
        return NULL;
    }
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
    hf__arena_free(&errand->arena);
    hf__free(errand);
}

/* Ready, unless its request is still out: then that one's answer frees it. */
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
    if (job) hf__job_done(core, job, code, "the store: %s", hf_error_meaning(code));
}

static void build(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                  int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    const struct hf_layout *layout = &core->options.layout;
    struct hf_arena *arena = &request->arena;
    struct hf_op *op = &request->op;
    switch (errand->kind) {
    case HF_ERRAND_RELEASE:
    case HF_ERRAND_GIVE_BACK:
        errand->claim.ttl_unix_s = hf__ttl_unix_s(core, now_us, 0);
        format->release(layout, arena, &errand->claim, op);
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
        format->sessions->end(layout, arena, errand->target, NULL, op);
        break;
    case HF_ERRAND_DATA: format->set_data(layout, arena, &errand->claim, op); break;
    case HF_ERRAND_RECHECK: format->read(layout, arena, hf__name_text(errand->name), op); break;
    }
}

/* The grant is no longer in its record, says the record. */
static void missing(struct hf_core *core, struct hf_errand *errand, const struct hf_record *record,
                    int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    struct hf_job *job = errand->job;
    enum hf_errand_kind kind = errand->kind;
    bool ours = errand->sent; /* an earlier copy of the release may have done it */
    finish(core, errand);
    if (grant && kind == HF_ERRAND_RELEASE &&
        (ours || !(hf__record_is_held(record) || hf__id_is(&grant->id, record->forced))))
        hf__grant_end(core, grant, grant->reason, 0, NULL, now_us);
    else if (grant && (kind == HF_ERRAND_RELEASE || grant->state == HF_GRANT_HELD))
        hf__grant_end_as(core, grant, record, now_us); /* unless our own release removed it */
    if (job) hf__job_done(core, job, HF_ERR_LOST, "the lock is not held any more");
}

/* A release, a set_data or a re-read: what does the record say of the grant? */
static void compare(struct hf_core *core, struct hf_errand *errand, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_record record;
    core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                answer->item, &record);
    if (request->arena.failed) {
        give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
    } else if (!core->options.format->holds(&record, &errand->claim)) {
        missing(core, errand, &record, now_us);
    } else if (errand->kind == HF_ERRAND_RELEASE && errand->claim.last) {
        errand->claim.last = false; /* others are inside */
        ring(core, &errand->alarm, now_us);
    } else {
        give_up(core, errand, HF_ERR_CONDITION, now_us);
    }
}

static void done(struct hf_core *core, struct hf_errand *errand, int64_t now_us)
{
    struct hf_grant *grant = errand->grant;
    struct hf_job *job = errand->job;
    enum hf_errand_kind kind = errand->kind;
    finish(core, errand);
    if (kind == HF_ERRAND_RELEASE && grant)
        hf__grant_end(core, grant, grant->reason, 0, NULL, now_us);
    if (job) hf__job_done(core, job, 0, " ");
}

/* Somebody left who did not take themselves for the last one, and was. */
static void retire_if_empty(struct hf_core *core, struct hf_errand *errand,
                            struct hf_request *request, const struct hf_answer *answer,
                            int64_t now_us)
{
    bool left = errand->kind == HF_ERRAND_RELEASE || errand->kind == HF_ERRAND_GIVE_BACK;
    if (!left || errand->claim.limit == 0 || errand->claim.last || !answer->has_item) return;
    struct hf_record record;
    core->options.format->parse(&core->options.layout, &request->arena, true, answer->item,
                                &record);
    if (hf__record_is_held(&record) || record.retired) return;
    if (core->options.format->sessions && hf__ttl_unix_s(core, now_us, 0) == 0) return;
    struct hf_errand *retire = hf__errand_new(core, HF_ERRAND_RETIRE, errand->name);
    if (retire) hf__errand_start(core, retire, core->options.lease_ms, now_us);
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
    bool about_grant = errand->kind == HF_ERRAND_RELEASE || errand->kind == HF_ERRAND_DATA;
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK:
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
        else done(core, errand, now_us); /* what was to go is gone */
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
    struct hf_slice about = errand->name ? hf__name_text(errand->name) : HF_LIT("session");
    struct hf_request *request = hf__request_new(core, HF_REQUEST_ERRAND, about, answered, errand);
    if (!request) {
        int64_t again_us = now_us + hf__backoff_us(core, ++errand->failures, 1000000);
        if (again_us >= errand->give_up_us) give_up(core, errand, HF_ERR_NO_MEMORY, now_us);
        else hf__alarm_set(core, &errand->alarm, again_us);
        return;
    }
    if (errand->arena.failed) request->arena.failed = true; /* half an errand is none */
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
        if (job) hf__job_done(core, job, HF_ERR_LOST, "the lock is not held any more");
    }
}

void hf__give_back(struct hf_core *core, struct hf_name *name, char kind, const struct hf_id *grant,
                   int64_t version, const struct hf_id *session, struct hf_slice owner,
                   int64_t now_us)
{
    struct hf_errand *errand =
        hf__errand_new(core, kind == 'i' ? HF_ERRAND_WITHDRAW : HF_ERRAND_GIVE_BACK, name);
    if (!errand) return; /* it expires, or is asked for */
    if (session) errand->session = *session;
    errand->claim = (struct hf_claim){
        .name = hf__name_text(name),
        .owner = hf__arena_copy(&errand->arena, owner.len ? owner : core->options.owner),
        .grant = *grant,
        .session = session ? &errand->session : NULL,
        .limit = kind == 's' ? 1 : 0,
        .version = version,
        .pending = true, /* nobody renews it any more, but somebody may have */
    };
    if (kind == 'i') {
        struct hf_slice first = hf__id_text(&errand->arena, session);
        struct hf_slice second = hf__id_text(&errand->arena, grant);
        errand->target =
            hf__arena_printf(&errand->arena, "%.*s/%.*s", HF_FMT(first), HF_FMT(second));
    }
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
}
