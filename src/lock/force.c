/*
 * An operator takes a lock away from its holder.
 *
 * A holder with its own lease learns of it at its next renewal; until then both
 * sides believe that they hold the lock, and only a fencing token tells them apart.
 * The holder of a session's lock is told first, through `revoked`, and has until it
 * obeys or its session ends. The record says who did it and why.
 *
 * Only the holders found by the first read are removed. A successor is another
 * holder, even with the same owner: the record's identity tells them apart. Where
 * other clients' heartbeats change the identity, a lock that has changed is left
 * alone, and the caller is told so.
 *
 *   read → (own lease) take away
 *        → (session) note, revoke, [read, read session]… , take away
 *   for one holder after the other, until none of them is left
 */
#include "lock/inside.h"

enum { POLL_US = 100000, OBEYED_AFTER = 2 };

struct force {
    struct hf_alarm alarm;
    struct hf_list node;
    struct hf_name *name;
    struct hf_job *job;
    struct hf_arena arena; /* by, reason, session */
    struct hf_arena round; /* the record */
    struct hf_slice by;
    struct hf_slice reason;
    struct hf_slice owner;    /* of the holder found */
    struct hf_slice identity; /* of the exclusive holder found; in `arena` */
    struct hf_slice *members; /* the grants of the shared holders found; likewise */
    size_t member_count;
    struct hf_record record;
    struct hf_holder holder; /* the one being removed; its texts are in `arena` */
    bool revoked;            /* the holder has been told */
    bool noted;
    bool found;      /* the holders to remove are known */
    bool readers;    /* … and are several with their own leases in one record */
    bool unsure;     /* a write that removes the holder may have landed */
    int64_t version; /* of the session, when the holder was told */
    int64_t deadline_us;
    struct hf_request *request;
};

static void read_record(struct hf_core *core, struct force *force, int64_t now_us);

static void finish(struct hf_core *core, struct force *force, int code, const char *why)
{
    if (force->job) hf__job_done(core, force->job, code, "lock \"%s\": %s", force->name->text, why);
    force->job = NULL;
    hf__alarm_set(core, &force->alarm, HF_NEVER);
    if (force->request) return; /* its answer frees it */
    hf__alarm_done(core, &force->alarm);
    hf__list_remove(&force->node);
    hf__arena_free(&force->arena);
    hf__arena_free(&force->round);
    hf__name_unref(core, force->name);
    hf__free(force);
}

/* A holder in this client learns of it now. */
static void end_ours(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_name *name = force->name;
    struct hf_claim claim = {.name = hf__name_text(name)};
    struct hf_error detail;
    hf__error_set(&detail, 0, "by %.*s: %.*s", HF_FMT(force->by), HF_FMT(force->reason));
    for (struct hf_list *at = name->grants.next, *next; at != &name->grants; at = next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_name);
        next = at->next;
        claim.grant = grant->id;
        claim.limit = grant->limit;
        bool is_it = force->record.exclusive ? core->options.format->holds(&force->record, &claim)
                                             : hf__id_is(&grant->id, force->holder.grant);
        if (!is_it || grant->state == HF_GRANT_RELEASING) continue;
        if (!grant->lease->is_session) grant->lease->stopped = true;
        hf__grant_end(core, grant, HF_REASON_FORCED, 0, detail.message, now_us);
        if (!force->readers) return; /* it was the only one, and `next` may have been freed */
    }
}

static void later(struct hf_core *core, struct force *force, int64_t now_us)
{
    int64_t at_us = now_us + POLL_US;
    hf__alarm_set(core, &force->alarm, at_us < force->deadline_us ? at_us : force->deadline_us);
}

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct force *force = HF_CONTAINER(alarm, struct force, alarm);
    if (now_us >= force->deadline_us)
        finish(core, force, HF_ERR_TIMED_OUT, "the holder did not release it in time");
    else read_record(core, force, now_us);
}

/* True: the answer can be acted on. */
static bool step(struct hf_core *core, struct force *force, const struct hf_answer *answer,
                 int64_t now_us)
{
    force->request = NULL;
    if (!force->job) {
        finish(core, force, 0, "");
        return false;
    }
    switch (hf__classify(answer)) {
    case HF_ANSWER_OK:
    case HF_ANSWER_REFUSED: return true;
    case HF_ANSWER_FATAL: finish(core, force, answer->code, answer->error.message); return false;
    default:
        if (answer->code == HF_ERR_OUTCOME_UNKNOWN) force->unsure = true;
        later(core, force, now_us);
        return false;
    }
}

static struct hf_request *request_new(struct hf_core *core, struct force *force, hf_request_fn done,
                                      int64_t now_us)
{
    struct hf_request *request =
        hf__request_new(core, HF_REQUEST_FORCE, hf__name_text(force->name), done, force);
    if (!request) {
        later(core, force, now_us);
        return NULL;
    }
    force->request = request;
    hf__alarm_set(core, &force->alarm, HF_NEVER);
    if (force->arena.failed || force->round.failed) request->arena.failed = true;
    return request;
}

static void taken_away(struct hf_core *core, struct hf_request *request,
                       const struct hf_answer *answer, int64_t now_us)
{
    struct force *force = request->owner;
    if (!step(core, force, answer, now_us)) return;
    if (answer->code == 0) end_ours(core, force, now_us);
    if (answer->code != 0 || !force->record.exclusive || HF_BUG(FORCE_ROBS)) {
        read_record(core, force, now_us); /* there are other holders, or it has changed */
        return;
    }
    struct hf_name *name = force->name;
    name->refs++;
    finish(core, force, 0, "");
    hf__name_advance(core, name, now_us);
    hf__name_unref(core, name);
}

static struct hf_forcing forcing_of(const struct force *force)
{
    return (struct hf_forcing){.name = hf__name_text(force->name),
                               .grant = force->holder.grant,
                               .by = force->by,
                               .reason = force->reason};
}

static void take_away(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, taken_away, now_us);
    if (!request) return;
    const struct hf_format *format = core->options.format;
    const struct hf_layout *layout = &core->options.layout;
    struct hf_forcing how = forcing_of(force);
    how.ttl_unix_s = hf__ttl_unix_s(core, now_us, 0);
    if (force->record.exclusive)
        format->force(layout, &request->arena, &force->record, &how, &request->op);
    else
        format->shares->reap(layout, &request->arena, hf__name_text(force->name),
                             force->holder.member, &request->op);
    hf__request_send(core, request);
}

static void session_was_read(struct hf_core *core, struct hf_request *request,
                             const struct hf_answer *answer, int64_t now_us)
{
    struct force *force = request->owner;
    if (!step(core, force, answer, now_us)) return;
    struct hf_session_record session;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &session);
    bool over = !session.exists;
    if (session.exists && !session.damaged) {
        /* The holder has sent a renewal that began after the one that told it. */
        over = session.version_number >= force->version + OBEYED_AFTER ||
               hf__judge(core, &session.liveness, now_us).dead;
    }
    if (over) take_away(core, force, now_us);
    else later(core, force, now_us);
}

static void read_session(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, session_was_read, now_us);
    if (!request) return;
    core->options.format->sessions->read(&core->options.layout, &request->arena,
                                         force->holder.session, &request->op);
    hf__request_send(core, request);
}

static void revoked(struct hf_core *core, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct force *force = request->owner;
    if (!step(core, force, answer, now_us)) return;
    struct hf_session_record session;
    core->options.format->sessions->parse(&core->options.layout, &request->arena, answer->has_item,
                                          answer->item, &session);
    force->revoked = true;
    force->version = session.version_number;
    if (answer->code == 0) later(core, force, now_us);
    else take_away(core, force, now_us); /* there is no such session */
}

static void revoke(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, revoked, now_us);
    if (!request) return;
    struct hf_slice order = hf__revocation_print(
        &request->arena, force->record.exclusive ? HF_HOLD_EXCLUSIVE : HF_HOLD_SHARED,
        force->holder.grant, hf__name_text(force->name), force->by, force->reason);
    core->options.format->sessions->revoke(&core->options.layout, &request->arena,
                                           force->holder.session, order, &request->op);
    hf__request_send(core, request);
}

static void noted(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                  int64_t now_us)
{
    struct force *force = request->owner;
    if (!step(core, force, answer, now_us)) return;
    force->noted = answer->code == 0;
    if (force->noted) revoke(core, force, now_us);
    else read_record(core, force, now_us);
}

static void note(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, noted, now_us);
    if (!request) return;
    struct hf_forcing how = forcing_of(force);
    how.note_only = true;
    core->options.format->force(&core->options.layout, &request->arena, &force->record, &how,
                                &request->op);
    hf__request_send(core, request);
}

/* The holders to remove are the present ones. */
static void remember_holders(struct force *force)
{
    const struct hf_record *record = &force->record;
    struct hf_arena *arena = &force->arena;
    force->found = true;
    force->readers = record->readers > 0;
    force->owner = hf__arena_copy(arena, record->owner);
    force->identity = hf__arena_copy(arena, record->identity);
    force->members = hf__arena_zalloc(arena, record->member_count + 1, sizeof *force->members);
    for (size_t i = 0; force->members && i < record->member_count; i++)
        force->members[force->member_count++] = hf__arena_copy(arena, record->members[i].grant);
}

static bool is_meant(const struct force *force, struct hf_slice member)
{
    for (size_t i = 0; i < force->member_count; i++) {
        if (hf__slice_eq(force->members[i], member)) return true;
    }
    return false;
}

/* One of the holders to remove that still holds it; NULL: none. */
static const struct hf_holder *find_holder(const struct force *force)
{
    const struct hf_record *record = &force->record;
    const struct hf_holder *found = NULL;
    if (record->exclusive) {
        bool same = force->identity.len > 0 && hf__slice_eq(record->identity, force->identity);
        if (HF_BUG(FORCE_ROBS)) same |= hf__slice_eq(record->owner, force->owner);
        return same ? &record->holder : NULL;
    }
    for (size_t i = 0; i < record->member_count; i++) {
        if (!is_meant(force, record->members[i].grant)) continue;
        if (hf__slice_eq(record->members[i].grant, force->holder.grant)) return &record->members[i];
        if (!found) found = &record->members[i];
    }
    return found;
}

static void choose_holder(struct force *force, const struct hf_holder *holder)
{
    if (hf__slice_eq(holder->grant, force->holder.grant)) return;
    force->revoked = force->noted = false;
    force->holder = (struct hf_holder){
        .grant = hf__arena_copy(&force->arena, holder->grant),
        .session = hf__arena_copy(&force->arena, holder->session),
        .member = hf__arena_copy(&force->arena, holder->member),
    };
}

/* None of the holders to remove is left, as far as the record tells. */
static void gone(struct hf_core *core, struct force *force, bool held, int64_t now_us)
{
    bool cannot_tell =
        held && force->record.exclusive &&
        (force->identity.len == 0 || (core->options.format->can & HF_HEARTBEAT_RENAMES) ||
         (force->readers && force->record.readers > 0)); /* another reader has joined */
    (void)now_us;
    if (!force->found) finish(core, force, HF_ERR_ABSENT, "it is not held");
    else if (cannot_tell && force->unsure)
        finish(core, force, HF_ERR_OUTCOME_UNKNOWN,
               "the store did not answer, and the lock is held now; inspect it before retrying");
    else if (cannot_tell)
        finish(core, force, HF_ERR_CONDITION,
               "its record changed meanwhile and nothing was removed; retry");
    else finish(core, force, 0, "");
}

static void was_read(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    struct force *force = request->owner;
    if (!step(core, force, answer, now_us)) return;
    hf__arena_free(&force->round);
    struct hf_item item = hf__item_copy(&force->round, answer->item);
    core->options.format->parse(&core->options.layout, &force->round, answer->has_item, item,
                                &force->record);
    if (force->round.failed) {
        hf__arena_free(&force->round);
        later(core, force, now_us);
        return;
    }
    if (force->record.damaged) {
        finish(core, force, HF_ERR_DAMAGED, "its record is invalid; repair it by hand");
        return;
    }
    bool held = hf__record_is_held(&force->record);
    if (held && !force->found) {
        remember_holders(force);
        if (force->arena.failed) {
            finish(core, force, HF_ERR_NO_MEMORY, "out of memory");
            return;
        }
        choose_holder(force,
                      force->record.exclusive ? &force->record.holder : &force->record.members[0]);
    } else {
        const struct hf_holder *holder = held ? find_holder(force) : NULL;
        if (!holder) {
            gone(core, force, held, now_us);
            return;
        }
        choose_holder(force, holder);
    }
    if (force->arena.failed) finish(core, force, HF_ERR_NO_MEMORY, "out of memory");
    else if (force->holder.session.len == 0) take_away(core, force, now_us);
    else if (hf__session_find(core, force->holder.session)) take_away(core, force, now_us);
    else if (!force->noted) note(core, force, now_us);
    else if (!force->revoked) revoke(core, force, now_us);
    else read_session(core, force, now_us);
}

static void read_record(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, was_read, now_us);
    if (!request) return;
    core->options.format->read(&core->options.layout, &request->arena, hf__name_text(force->name),
                               &request->op);
    hf__request_send(core, request);
}

void hf__core_force(struct hf_core *core, struct hf_slice name, struct hf_slice by,
                    struct hf_slice reason, int64_t timeout_ms, struct hf_job *job, int64_t now_us)
{
    hf__core_tick(core, now_us);
    struct force *force = core->closing ? NULL : hf__calloc(1, sizeof *force);
    struct hf_name *entry = force ? hf__name_get(core, name) : NULL;
    if (!entry || !hf__alarm_init(core, &force->alarm, ring)) {
        hf__free(force);
        hf__name_unref(core, entry);
        hf__job_done(core, job, core->closing ? HF_ERR_CLOSED : HF_ERR_NO_MEMORY,
                     core->closing ? "the client is being closed" : "out of memory");
        return;
    }
    force->name = entry;
    force->job = job;
    force->by = hf__arena_copy(&force->arena, by);
    force->reason = hf__arena_copy(&force->arena, reason);
    force->deadline_us = now_us + timeout_ms * 1000;
    hf__list_append(&core->forces, &force->node);
    if (force->arena.failed) finish(core, force, HF_ERR_NO_MEMORY, "out of memory");
    else read_record(core, force, now_us);
}

void hf__forces_fail(struct hf_core *core, int64_t now_us)
{
    (void)now_us;
    for (struct hf_list *at = core->forces.next, *next; at != &core->forces; at = next) {
        next = at->next;
        struct force *force = HF_CONTAINER(at, struct force, node);
        if (force->job) finish(core, force, HF_ERR_CLOSED, "the client was closed");
    }
}
