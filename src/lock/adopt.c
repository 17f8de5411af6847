/*
 * Acting by grant: a lock that another process acquired, or this one before it was restarted, is
 * taken up from its record and renewed here. (Releasing one is an errand.)
 *
 *   read → (the grant holds it) a grant and its lease, ADOPTING → renewed: HELD
 *   read → (a session keeps it) the session is adopted and renewed (common.c) → read again: HELD
 *
 * The renewal is an ordinary one (lease.c): it is repeated until it is decided, it gives way to
 * other actors of the same grant, and the lease counts from its first send. Until it is confirmed
 * nothing is promised, nothing else here knows of the grant, and the grant ends with its job.
 */
#include "lock/inside.h"

struct adoption {
    struct hf_alarm alarm;
    struct hf_list node; /* core->adoptions */
    struct hf_name *name;
    struct hf_job *job; /* NULL: it has ended; its request is still out */
    struct hf_grant *grant;
    struct hf_lease *lease;   /* its own, if it turns out to have one */
    struct hf_lease *session; /* that keeps it; counted; NULL: none, or not known yet */
    struct hf_job renewal;    /* of the session */
    bool renews, renewed;     /* that job is out; the session is renewed, the record read again */
    struct hf_request *request;
    int64_t lease_ms; /* as asked; 0: as long as before */
    bool any_owner;
    int failures;
    struct hf_error error; /* the last failure */
    int64_t give_up_us;
};

static void destroy(struct hf_core *core, struct adoption *adoption)
{
    hf__alarm_done(core, &adoption->alarm);
    hf__list_remove(&adoption->node);
    if (adoption->renews) hf__list_remove(&adoption->renewal.node);
    hf__lease_unref(core, adoption->session);
    hf__lease_unref(core, adoption->lease);
    if (adoption->grant) hf__free(adoption->grant);
    hf__name_unref(core, adoption->name);
    hf__free(adoption);
}

static void fail(struct hf_core *core, struct adoption *adoption, int code, const char *why)
{
    hf__job_done(core, adoption->job, code, "lock \"%s\": %s", adoption->name->text, why);
    adoption->job = NULL;
    if (!adoption->request) destroy(core, adoption);
}

const char *hf__refuses_by_grant(const struct hf_record *record, const struct hf_claim *claim,
                                 struct hf_slice owner, int *ret_code)
{
    if (record->damaged) {
        *ret_code = HF_ERR_DAMAGED;
        return "its record is invalid; repair it by hand";
    }
    if (owner.len > 0 && !hf__slice_eq(claim->owner, owner)) {
        *ret_code = HF_ERR_LOST;
        return "the grant does not hold it";
    }
    if (record->holder.session.len > 0 || record->member_count > 0) {
        *ret_code = HF_ERR_UNSUPPORTED;
        return "it is kept by a session; renew the session";
    }
    return NULL;
}

const struct hf_holder *hf__holder_in_session(const struct hf_core *core,
                                              const struct hf_record *record,
                                              const struct hf_id *grant, int64_t *ret_limit)
{
    if (!core->options.by_grant || record->damaged) return NULL;
    *ret_limit = 0;
    if (record->exclusive && record->holder.session.len && hf__id_is(grant, record->holder.grant))
        return &record->holder;
    *ret_limit = record->limit;
    for (size_t i = 0; i < record->member_count; i++) {
        if (hf__id_is(grant, record->members[i].grant)) return &record->members[i];
    }
    return NULL;
}

/* The rest of a lease of which the record gives only the expiry. */
static int64_t rest_ms(const struct hf_core *core, const struct hf_claim *claim, int64_t now_us)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    int64_t rest = claim->expires_unix_ms - (store.hi_unix_us + 999) / 1000;
    return store.known && rest > 0 ? rest : 0;
}

static void set_owner(struct hf_grant *grant, struct hf_slice owner, struct hf_slice instance)
{
    if (instance.len > HF_INSTANCE_MAX) instance.len = 0; /* not holdfast's; only for people */
    grant->owner_len = (uint16_t)owner.len;
    grant->instance_len = (uint16_t)instance.len;
    memcpy(grant->owner, owner.ptr, owner.len);
    grant->owner[owner.len] = '\0';
    if (instance.len) memcpy(grant->owner + owner.len + 1, instance.ptr, instance.len);
}

/* Fills the grant and its lease from the record, and renews the lease. */
static void take_up(struct hf_core *core, struct adoption *adoption, const struct hf_claim *claim,
                    int64_t now_us)
{
    struct hf_grant *grant = adoption->grant;
    struct hf_lease *lease = adoption->lease;
    grant->token = claim->token;
    grant->since_unix_ms = claim->since_unix_ms;
    set_owner(grant, claim->owner, claim->instance);
    grant->state = HF_GRANT_ADOPTING;
    lease->version = claim->version;
    lease->by = claim->by;
    lease->expires_unix_ms = claim->expires_unix_ms;
    lease->lease_ms = claim->lease_ms ? claim->lease_ms : rest_ms(core, claim, now_us);
    lease->wanted_ms = adoption->lease_ms ? adoption->lease_ms : claim->lease_ms;
    if (!lease->wanted_ms) lease->wanted_ms = core->options.lease_ms;
    if (lease->wanted_ms < lease->lease_ms && !HF_BUG(LEASE_SHRINKS))
        lease->wanted_ms = lease->lease_ms;
    lease->state = HF_LEASE_LIVE;
    lease->adopting = lease->others = true;
    lease->job = adoption->job;
    lease->valid_until_us = adoption->give_up_us;
    core->grant_count++;
    core->own_count++;
    adoption->name->refs++; /* the grant's */
    hf__lease_add(core, lease, grant, now_us);
    adoption->grant = NULL;
    destroy(core, adoption);
    hf__lease_renew(core, lease, now_us);
}

/* Renewed on behalf of a holder elsewhere. */
static void let_go(struct hf_core *core, struct hf_grant *grant, int64_t now_us)
{
    struct hf_lease *lease = grant->lease;
    grant->state = HF_GRANT_ENDED;
    lease->stopped = true;
    hf__list_remove(&grant->of_lease);
    core->grant_count--;
    core->own_count--;
    hf__lease_end(core, lease, HF_REASON_ABANDONED, 0, NULL, now_us);
    hf__lease_unref(core, lease);
    hf__grant_free(core, grant);
}

void hf__adopted(struct hf_core *core, struct hf_grant *grant, int64_t now_us)
{
    struct hf_lease *lease = grant->lease;
    struct hf_job *job = lease->job;
    lease->job = NULL;
    job->confirmed = (struct hf_confirmed){
        .token = grant->token,
        .lease_ms = lease->lease_ms,
        .valid_until_us = lease->valid_until_us,
        .expires_unix_ms = lease->expires_unix_ms,
    };
    hf__job_done(core, job, 0, " ");
    if (grant->passing) {
        let_go(core, grant, now_us);
        return;
    }
    grant->state = HF_GRANT_HELD;
    hf__list_append(&grant->name->grants, &grant->of_name);
    job->grant = grant;
}

void hf__adoption_failed(struct hf_core *core, struct hf_grant *grant, struct hf_job *job)
{
    int code = HF_ERR_LOST;
    if (grant->reason == HF_REASON_UNREACHABLE || grant->reason == HF_REASON_STORE_LOST)
        code = grant->code;
    if (grant->reason == HF_REASON_EXPIRED) code = HF_ERR_OUTCOME_UNKNOWN; /* it was sent */
    if (grant->reason == HF_REASON_CLOSED || grant->reason == HF_REASON_UNCONFIRMED ||
        grant->reason == HF_REASON_ABANDONED)
        code = HF_ERR_CLOSED;
    const char *why =
        code == HF_ERR_LOST ? hf_reason_meaning(grant->reason) : hf_error_meaning(code);
    hf__job_done(core, job, code, "lock \"%s\": %s%s%s", grant->name->text, why,
                 grant->detail ? ", " : "", grant->detail ? grant->detail : "");
    hf__grant_free(core, grant);
}

static void send_read(struct hf_core *core, struct adoption *adoption, int64_t now_us);

static void later(struct hf_core *core, struct adoption *adoption, const struct hf_error *error,
                  int64_t now_us)
{
    adoption->error = *error;
    int64_t at_us = now_us + hf__backoff_us(core, ++adoption->failures, 1000000);
    if (at_us >= adoption->give_up_us) fail(core, adoption, error->code, error->message);
    else hf__alarm_set(core, &adoption->alarm, at_us);
}

/* ---- grants that a session keeps ---- */

static void session_renewed(struct hf_core *core, struct hf_job *job)
{
    struct adoption *adoption = HF_CONTAINER(job, struct adoption, renewal);
    adoption->renews = false;
    adoption->renewed = job->code == 0;
    if (adoption->renewed) send_read(core, adoption, core->now_us);
    else fail(core, adoption, job->code, job->error.message);
}

static void renew_session(struct hf_core *core, struct adoption *adoption, struct hf_slice text,
                          int64_t now_us)
{
    struct hf_id id;
    struct hf_error error;
    if (!hf__id_parse(text, &id)) {
        fail(core, adoption, HF_ERR_DAMAGED, "the session in its record is invalid");
        return;
    }
    adoption->renews = true;
    adoption->renewal = (struct hf_job){.then = session_renewed};
    hf__list_init(&adoption->renewal.node);
    int code = hf__core_session_adopt(core, &id, hf__grant_owner(core, adoption->grant),
                                      &adoption->renewal, now_us, &adoption->session, &error);
    if (code == 0) return;
    adoption->renews = false;
    fail(core, adoption, code, error.message);
}

/* M4 of common.c: the session was renewed, and the record read after that has the grant. */
static void hold_in_session(struct hf_core *core, struct adoption *adoption,
                            const struct hf_record *record, int64_t limit, int64_t now_us)
{
    struct hf_grant *grant = adoption->grant;
    struct hf_lease *session = adoption->session;
    struct hf_job *job = adoption->job;
    if (session->state != HF_LEASE_LIVE || session->valid_until_us <= now_us || session->leaving) {
        fail(core, adoption, HF_ERR_LOST, "its session has ended");
        return;
    }
    grant->limit = (int32_t)limit;
    /* While a reader is inside no writer is granted: the latest token fences as its own does. */
    grant->token = record->token;
    grant->since_unix_ms = limit ? 0 : record->since_unix_ms;
    if (limit == 0) set_owner(grant, record->owner, record->instance);
    grant->state = HF_GRANT_HELD;
    core->grant_count++;
    adoption->name->refs++; /* the grant's */
    hf__list_append(&grant->name->grants, &grant->of_name);
    hf__lease_add(core, session, grant, now_us);
    job->confirmed = (struct hf_confirmed){
        .token = grant->token,
        .lease_ms = session->lease_ms,
        .valid_until_us = session->valid_until_us,
        .expires_unix_ms = session->expires_unix_ms,
    };
    job->grant = grant;
    adoption->grant = NULL;
    destroy(core, adoption);
    hf__job_done(core, job, 0, " ");
}

static void examine_in_session(struct hf_core *core, struct adoption *adoption,
                               const struct hf_record *record, const struct hf_holder *holder,
                               int64_t limit, int64_t now_us)
{
    struct hf_slice owner = hf__grant_owner(core, adoption->grant);
    if (adoption->any_owner || (limit == 0 && !hf__slice_eq(record->owner, owner)))
        fail(core, adoption, HF_ERR_LOST, "the grant does not hold it");
    else if (adoption->lease_ms)
        fail(core, adoption, HF_ERR_UNSUPPORTED, "it is kept by a session, whose lease it has");
    else if (adoption->renewed) hold_in_session(core, adoption, record, limit, now_us);
    else renew_session(core, adoption, holder->session, now_us);
}

/* ---- the record ---- */

static void examine(struct hf_core *core, struct adoption *adoption, const struct hf_record *record,
                    int64_t now_us)
{
    const struct hf_format *format = core->options.format;
    const struct hf_grant *grant = adoption->grant;
    struct hf_claim claim = {
        .name = hf__name_text(adoption->name), .grant = grant->id, .limit = grant->limit};
    struct hf_slice owner = adoption->any_owner ? HF_LIT("") : hf__grant_owner(core, grant);
    struct hf_error lost;
    int64_t limit;
    int code;
    const struct hf_holder *holder = hf__holder_in_session(core, record, &grant->id, &limit);
    if (holder) {
        examine_in_session(core, adoption, record, holder, limit, now_us);
        return;
    }
    if (!record->damaged && !format->adopt(record, &claim)) {
        hf__explain_lost(record, &grant->id, &lost);
        fail(core, adoption, lost.code, lost.message);
        return;
    }
    const char *refusal = hf__refuses_by_grant(record, &claim, owner, &code);
    if (!refusal && claim.owner.len > HF_OWNER_MAX) {
        code = HF_ERR_LIMIT;
        refusal = "its owner is too long";
    }
    if (!refusal && (format->can & HF_NEEDS_CLOCK) && !core->store_time.known) {
        code = HF_ERR_UNSUPPORTED;
        refusal = "this format needs the store's time, and the store does not report it";
    }
    if (!refusal && grant->limit > 0 && adoption->lease_ms > claim.lease_ms &&
        !HF_BUG(READER_GROWS)) {
        code = HF_ERR_UNSUPPORTED;
        refusal = HF_FIXED_LEASE;
    }
    if (refusal) fail(core, adoption, code, refusal);
    else take_up(core, adoption, &claim, now_us);
}

static void was_read(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct adoption *adoption = request->owner;
    struct hf_record record;
    struct hf_error no_memory;
    adoption->request = NULL;
    if (!adoption->job) {
        destroy(core, adoption);
        return;
    }
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK:
        core->options.format->parse(&core->options.layout, &request->arena, answer->has_item,
                                    answer->item, &record);
        if (!request->arena.failed) {
            examine(core, adoption, &record, now_us);
            return;
        }
        hf__error_no_memory(&no_memory);
        later(core, adoption, &no_memory, now_us);
        return;
    case HF_ANSWER_FATAL: fail(core, adoption, answer->code, answer->error.message); return;
    default: later(core, adoption, &answer->error, now_us); return;
    }
}

static void send_read(struct hf_core *core, struct adoption *adoption, int64_t now_us)
{
    struct hf_slice name = hf__name_text(adoption->name);
    struct hf_request *request = hf__request_new(core, HF_REQUEST_ADOPT, name, was_read, adoption);
    struct hf_error no_memory;
    if (!request) {
        hf__error_no_memory(&no_memory);
        later(core, adoption, &no_memory, now_us);
        return;
    }
    adoption->request = request;
    core->options.format->read(&core->options.layout, &request->arena, name, &request->op);
    hf__request_send(core, request);
}

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct adoption *adoption = HF_CONTAINER(alarm, struct adoption, alarm);
    if (adoption->job && !adoption->request) send_read(core, adoption, now_us);
}

/* NULL when out of memory. */
static struct adoption *adoption_new(struct hf_core *core, const struct hf_by_grant *which)
{
    struct adoption *adoption = hf__calloc(1, sizeof *adoption);
    if (!adoption) return NULL;
    hf__list_init(&adoption->node);
    size_t room = (which->owner.len ? which->owner.len : HF_OWNER_MAX) + 1 + HF_INSTANCE_MAX;
    adoption->any_owner = which->owner.len == 0;
    adoption->name = hf__name_get(core, which->name);
    adoption->grant = hf__grant_new(room);
    adoption->lease = hf__lease_new(core, false);
    if (!adoption->name || !adoption->grant || !adoption->lease ||
        !hf__alarm_init(core, &adoption->alarm, ring)) {
        destroy(core, adoption);
        return NULL;
    }
    struct hf_grant *grant = adoption->grant;
    grant->name = adoption->name;
    grant->id = which->grant;
    grant->limit = (int32_t)which->limit;
    grant->user = which->user;
    grant->passing = !which->keep;
    grant->owner_len = (uint16_t)which->owner.len;
    if (which->owner.len) memcpy(grant->owner, which->owner.ptr, which->owner.len);
    return adoption;
}

void hf__core_adopt(struct hf_core *core, const struct hf_by_grant *which, int64_t lease_ms,
                    struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    job->grant = NULL;
    if (!(core->options.format->can & HF_CAN_RENEW)) {
        hf__job_done(core, job, HF_ERR_UNSUPPORTED, "the format \"%s\" has no leases",
                     core->options.format->name);
        return;
    }
    struct adoption *adoption = core->closing ? NULL : adoption_new(core, which);
    if (!adoption) {
        int code = core->closing ? HF_ERR_CLOSED : HF_ERR_NO_MEMORY;
        hf__job_done(core, job, code, "%s", hf_error_meaning(code));
        return;
    }
    adoption->job = job;
    adoption->lease_ms = lease_ms;
    adoption->give_up_us = now_us + core->options.request_timeout_ms * 1000 * HF_PATIENCE;
    hf__list_append(&core->adoptions, &adoption->node);
    send_read(core, adoption, now_us);
}

/* Grants that are still being adopted are not this client's to release. */
void hf__adoptions_fail(struct hf_core *core, int64_t now_us)
{
    for (struct hf_list *at = core->leases.next, *next; at != &core->leases; at = next) {
        struct hf_lease *lease = HF_CONTAINER(at, struct hf_lease, node);
        lease->refs++;
        if (lease->adopting) hf__lease_end(core, lease, HF_REASON_CLOSED, 0, NULL, now_us);
        next = at->next;
        hf__lease_unref(core, lease);
    }
    for (struct hf_list *at = core->adoptions.next, *next; at != &core->adoptions; at = next) {
        next = at->next;
        struct adoption *adoption = HF_CONTAINER(at, struct adoption, node);
        if (adoption->job) fail(core, adoption, HF_ERR_CLOSED, "the client was closed");
    }
}
