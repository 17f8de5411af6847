/*
 * An operator takes a lock away from its holder.
 *
 * A holder with its own lease hears of it at its next renewal; until then both
 * sides believe in their lock, and only a fencing token tells them apart. A
 * session's holder is asked first, through `revoked`, and gets until it has
 * obeyed or its session has ended. Who did it and why stands in the record.
 *
 *   read → (own lease) take away
 *        → (session) note, revoke, [read, read session]… , take away
 *   for one holder after the other; then read again, until nobody is left
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
    struct hf_slice owner; /* of whom we found */
    struct hf_record record;
    struct hf_holder holder; /* whose turn it is; its texts are in `arena` */
    bool revoked;            /* the holder has been told */
    bool noted;
    bool any;        /* somebody was in the way */
    int64_t version; /* of the session, when it was told */
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

static void later(struct hf_core *core, struct force *force, int64_t now_us)
{
    int64_t at_us = now_us + POLL_US;
    hf__alarm_set(core, &force->alarm, at_us < force->deadline_us ? at_us : force->deadline_us);
}

static void ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    struct force *force = HF_CONTAINER(alarm, struct force, alarm);
    if (now_us >= force->deadline_us)
        finish(core, force, HF_ERR_TIMED_OUT, "the holder has not let go in time");
    else read_record(core, force, now_us);
}

/* True: the answer is one to act on. */
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
    default: later(core, force, now_us); return false;
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

static void then_read(struct hf_core *core, struct hf_request *request,
                      const struct hf_answer *answer, int64_t now_us)
{
    struct force *force = request->owner;
    if (step(core, force, answer, now_us)) read_record(core, force, now_us);
}

static void take_away(struct hf_core *core, struct force *force, int64_t now_us)
{
    struct hf_request *request = request_new(core, force, then_read, now_us);
    if (!request) return;
    const struct hf_format *format = core->options.format;
    const struct hf_layout *layout = &core->options.layout;
    if (force->record.exclusive)
        format->force(layout, &request->arena, &force->record, hf__name_text(force->name),
                      force->holder.grant, force->by, force->reason,
                      hf__ttl_unix_s(core, now_us, 0), false, &request->op);
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
        /* A renewal that began after the one that heard of it has been sent. */
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
        &request->arena, force->record.exclusive ? 'x' : 's', force->holder.grant,
        hf__name_text(force->name), force->by, force->reason);
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
    core->options.format->force(&core->options.layout, &request->arena, &force->record,
                                hf__name_text(force->name), force->holder.grant, force->by,
                                force->reason, 0, true, &request->op);
    hf__request_send(core, request);
}

static void choose_holder(struct force *force)
{
    const struct hf_record *record = &force->record;
    const struct hf_holder *holder = record->exclusive ? &record->holder : &record->members[0];
    for (size_t i = 0; i < record->member_count; i++) {
        if (hf__slice_eq(record->members[i].grant, force->holder.grant)) return;
    }
    if (record->exclusive && hf__slice_eq(record->holder.grant, force->holder.grant)) return;
    force->revoked = force->noted = false;
    force->holder = (struct hf_holder){
        .grant = hf__arena_copy(&force->arena, holder->grant),
        .session = hf__arena_copy(&force->arena, holder->session),
        .member = hf__arena_copy(&force->arena, holder->member),
    };
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
        later(core, force, now_us);
        return;
    }
    if (force->record.damaged) {
        finish(core, force, HF_ERR_DAMAGED, "its record makes no sense; mend it by hand");
        return;
    }
    if (!hf__record_is_held(&force->record)) {
        finish(core, force, force->any ? 0 : HF_ERR_ABSENT, "nobody holds it");
        return;
    }
    /* Only those who held it when we came: whoever comes in later is not meant. */
    struct hf_slice before = force->holder.grant;
    choose_holder(force);
    /* Where a heartbeat changes what names the holder, its owner tells. */
    bool same = hf__slice_eq(before, force->holder.grant) ||
                (!(core->options.format->can & HF_CAN_SESSION) &&
                 hf__slice_eq(force->owner, force->record.owner));
    if (!force->any) force->owner = hf__arena_copy(&force->arena, force->record.owner);
    if (force->any && force->record.exclusive && !same) {
        finish(core, force, 0, "");
        return;
    }
    force->any = true;
    if (force->holder.session.len == 0) take_away(core, force, now_us);
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
    read_record(core, force, now_us);
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
