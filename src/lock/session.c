/*
 * Sessions: one record that keeps any number of locks alive (lease.c renews it).
 *
 * Invariants
 * S1  A session is created on absence, and used only after that is confirmed.
 * S2  An id that was given up is never used again: a lost session is replaced by
 *     a new one.
 * S3  A grant that others ask for is given back unless this client holds or
 *     attempts it; a revoked one is given back in any case. Both are then cleared.
 * S4  A common session is created with its expiry: if the store's time is not known yet,
 *     a read comes first.
 */
#include "lock/inside.h"

enum { RECHECK_ALL_UP_TO = 8, RECHECK_EVERY = 8, LATE_MOST = 3 };

struct hf_lease *hf__session_find(const struct hf_core *core, struct hf_slice id)
{
    struct hf_lease *session = core->session;
    if (session && session->state == HF_LEASE_LIVE && hf__id_is(&session->id, id)) return session;
    for (struct hf_list *at = core->opened.next; at != &core->opened; at = at->next) {
        session = HF_CONTAINER(at, struct hf_lease, of_opened);
        if (session->state == HF_LEASE_LIVE && hf__id_is(&session->id, id)) return session;
    }
    return NULL;
}

static void created(struct hf_core *core, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us);
static void heard_time(struct hf_core *core, struct hf_request *request,
                       const struct hf_answer *answer, int64_t now_us);

/* Other services take up a common session only if its record says when it expires (S4). */
static bool lacks_time(const struct hf_core *core, const struct hf_lease *session)
{
    return hf__session_is_common(core, session) && !core->timeless && !core->store_time.known;
}

static void send_creation(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    const struct hf_core_options *options = &core->options;
    bool reads = lacks_time(core, session);
    struct hf_request *request =
        hf__request_new(core, reads ? HF_REQUEST_ADOPT : HF_REQUEST_SESSION, HF_LIT("session"),
                        reads ? heard_time : created, session);
    if (!request) {
        hf__alarm_set(core, &session->alarm,
                      now_us + hf__backoff_us(core, ++session->failures, 1000000));
        return;
    }
    session->refs++;
    session->request = request;
    if (reads) {
        options->format->sessions->read(&options->layout, &request->arena,
                                        hf__id_text(&request->arena, &session->id), &request->op);
        hf__request_send(core, request);
        return;
    }
    struct hf_session_claim claim = {
        .id = session->id,
        .owner = session->owner ? hf__slice_str(session->owner) : options->owner,
        .instance = hf__slice_str(session->instance),
        .version = 1,
        .by = session->pending_by,
        .lease_ms = session->lease_ms,
        .expires_unix_ms = session->pending_expires_unix_ms,
        .ttl_unix_s = hf__ttl_unix_s(core, session->pending_sent_us, session->lease_ms),
    };
    options->format->sessions->create(&options->layout, &request->arena, &claim, &request->op);
    hf__request_send(core, request);
}

static void begin_anew(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    hf__new_id(core, &session->id);
    if (session->opened) {
        session->secret = session->id;
        hf__id_of_secret(&session->secret, &session->id);
    }
    if (core->has_principal) hf__id_bind(&session->id, &core->principal);
    session->pending_by = session->id; /* as new as the session */
    session->pending_sent_us = now_us;
    session->pending_expires_unix_ms = hf__expires_unix_ms(core, now_us, session->lease_ms);
}

struct hf_lease *hf__session_get(struct hf_core *core, int64_t now_us)
{
    struct hf_lease *session = core->session;
    if (session) return session->state == HF_LEASE_LIVE ? session : NULL;
    session = hf__lease_new(core, true);
    if (!session) return NULL; /* its waiters retry */
    core->session = session;
    begin_anew(core, session, now_us);
    send_creation(core, session, now_us);
    return NULL;
}

/* An id whose creation was first sent long ago would start with half its lease gone (S2). */
void hf__session_retry(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    if (session->request) return;
    if (now_us - session->pending_sent_us > session->lease_ms * 1000 / 4) {
        hf__session_drop(core, &session->id, now_us); /* it may have landed */
        begin_anew(core, session, now_us);
    }
    send_creation(core, session, now_us);
}

static void tell_waiters(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    if (session->job) hf__job_done(core, session->job, 0, " ");
    session->job = NULL;
    if (session->opened) return;
    struct hf_list waiters, *node;
    hf__list_init(&waiters);
    hf__list_splice(&waiters, &core->session_waiters);
    while ((node = hf__list_pop(&waiters)))
        hf__attempt_session_ready(core, HF_CONTAINER(node, struct hf_attempt, of_core), now_us);
}

static void fail_waiters(struct hf_core *core, struct hf_lease *session,
                         const struct hf_error *error, bool tries_only, int64_t now_us)
{
    if (session->job) hf__job_done(core, session->job, error->code, "%s", error->message);
    session->job = NULL;
    if (session->opened) return;
    struct hf_list waiters, *node;
    hf__list_init(&waiters);
    hf__list_splice(&waiters, &core->session_waiters);
    while ((node = hf__list_pop(&waiters))) {
        struct hf_attempt *attempt = HF_CONTAINER(node, struct hf_attempt, of_core);
        if ((tries_only && attempt->want.timeout_ms != 0) || attempt->want.stubborn) {
            hf__list_append(&core->session_waiters, node);
            hf__attempt_session_fails(core, attempt, error);
        } else {
            hf__attempt_fail(core, attempt, error, now_us);
        }
    }
}

/* The store takes longer to answer than the session would last. */
static void created_late(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    struct hf_error error;
    hf__session_drop(core, &session->id, now_us);
    hf__error_set(&error, HF_ERR_TIMED_OUT,
                  "a session with a lease of %lld ms expires before the store confirms it; use a "
                  "longer lease",
                  (long long)session->lease_ms);
    session->late++;
    if (session->late >= LATE_MOST) fail_waiters(core, session, &error, true, now_us);
    if (session->opened && !session->job) {
        hf__lease_end(core, session, HF_REASON_EXPIRED, HF_ERR_TIMED_OUT, NULL, now_us);
        return;
    }
    begin_anew(core, session, now_us);
    hf__alarm_set(core, &session->alarm, now_us + hf__backoff_us(core, session->late, 1000000));
}

static void creation_failed(struct hf_core *core, struct hf_lease *session,
                            const struct hf_answer *answer, int64_t now_us)
{
    bool is_final = hf__classify(answer) == HF_ANSWER_FATAL;
    session->failures++;
    if (is_final || session->failures >= 3)
        fail_waiters(core, session, &answer->error, !is_final, now_us);
    hf__alarm_set(core, &session->alarm, now_us + hf__backoff_us(core, session->failures, 1000000));
    bool wanted = session->opened ? session->job != NULL : !hf__list_empty(&core->session_waiters);
    if (!wanted) /* any more */
        hf__lease_end(core, session, HF_REASON_UNREACHABLE, answer->code, NULL, now_us);
}

static void created(struct hf_core *core, struct hf_request *request,
                    const struct hf_answer *answer, int64_t now_us)
{
    struct hf_lease *session = request->owner;
    session->request = NULL;
    enum hf_answer_class class = hf__classify(answer);
    if (session->state != HF_LEASE_CREATING) {
        if (class == HF_ANSWER_OK || class == HF_ANSWER_UNSURE)
            hf__session_drop(core, &session->id, now_us);
        hf__lease_unref(core, session);
        return;
    }
    /* A service's first answer may tell this client's principal there. */
    if (answer->code == HF_ERR_DENIED && core->has_principal &&
        !hf__id_is_bound(&session->id, &core->principal)) {
        begin_anew(core, session, now_us);
        send_creation(core, session, now_us);
        hf__lease_unref(core, session);
        return;
    }
    struct hf_session_record record = {0};
    if (class == HF_ANSWER_REFUSED) {
        core->options.format->sessions->parse(&core->options.layout, &request->arena,
                                              answer->has_item, answer->item, &record);
        /* A record with this id can only be an earlier copy of this creation. */
        if (record.exists && !record.damaged && record.version_number == 1) class = HF_ANSWER_OK;
    }
    if (class == HF_ANSWER_OK) {
        if (hf__valid_until_us(core, session->pending_sent_us, session->lease_ms) > now_us) {
            session->late = 0;
            hf__lease_begin(core, session, &session->pending_by, session->pending_sent_us, now_us);
            tell_waiters(core, session, now_us);
        } else {
            created_late(core, session, now_us);
        }
    } else {
        creation_failed(core, session, answer, now_us);
    }
    hf__lease_unref(core, session);
}

static void heard_time(struct hf_core *core, struct hf_request *request,
                       const struct hf_answer *answer, int64_t now_us)
{
    struct hf_lease *session = request->owner;
    session->request = NULL;
    if (session->state == HF_LEASE_CREATING) {
        if (hf__classify(answer) <= HF_ANSWER_REFUSED) {
            begin_anew(core, session, now_us);
            send_creation(core, session, now_us);
        } else {
            creation_failed(core, session, answer, now_us);
        }
    }
    hf__lease_unref(core, session);
}

void hf__session_drop(struct hf_core *core, const struct hf_id *id, int64_t now_us)
{
    struct hf_errand *errand = hf__errand_new(core, HF_ERRAND_END_SESSION, NULL);
    if (!errand) return; /* it expires by itself, later */
    errand->target = hf__id_text(&errand->arena, id);
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
}

/* ---- sessions that callers open ---- */

void hf__session_facts(const struct hf_lease *session, int64_t now_us, struct hf_session_facts *ret)
{
    bool ended = session->state == HF_LEASE_DEAD || session->leaving;
    int64_t left_us = session->valid_until_us - now_us;
    int64_t left_ms = ended || session->dormant || left_us < 0 ? 0 : left_us / 1000;
    *ret = (struct hf_session_facts){
        .secret = session->secret,
        .owner = session->owner,
        .instance = session->instance,
        .lease_ms = session->lease_ms,
        .left_ms = left_ms,
        .ended = ended,
        .unused = ended || (left_ms == 0 && hf__list_empty(&session->grants) && !session->wanting),
    };
}

void hf__session_set_secret(struct hf_lease *session, const struct hf_id *secret)
{
    session->secret = *secret;
}

bool hf__session_name(struct hf_lease *session, struct hf_slice owner, struct hf_slice instance)
{
    session->owner = hf__malloc(owner.len + 1 + instance.len + 1);
    if (!session->owner) return false;
    if (owner.len) memcpy(session->owner, owner.ptr, owner.len);
    session->owner[owner.len] = '\0';
    session->instance = session->owner + owner.len + 1;
    if (instance.len) memcpy(session->instance, instance.ptr, instance.len);
    session->instance[instance.len] = '\0';
    return true;
}

int hf__core_session_open(struct hf_core *core, const struct hf_session_want *want,
                          struct hf_job *job, int64_t now_us, struct hf_lease **ret,
                          struct hf_error *reterr)
{
    hf__core_tick(core, now_us);
    if (core->closing) return hf__error_set(reterr, HF_ERR_CLOSED, "the client is being closed");
    struct hf_lease *session = hf__lease_new(core, true);
    if (!session) return hf__error_no_memory(reterr);
    if (!hf__session_name(session, want->owner, want->instance)) {
        hf__lease_unref(core, session);
        return hf__error_no_memory(reterr);
    }
    session->opened = true;
    session->job = job;
    session->lease_ms = session->wanted_ms = want->lease_ms;
    hf__list_append(&core->opened, &session->of_opened);
    begin_anew(core, session, now_us);
    send_creation(core, session, now_us);
    *ret = session;
    return 0;
}

void hf__session_left(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    struct hf_errand *errand = hf__errand_new(core, HF_ERRAND_END_SESSION, NULL);
    if (errand) {
        errand->target = hf__id_text(&errand->arena, &session->id);
        errand->buries = hf__session_is_common(core, session) && !HF_BUG(NO_GRAVE);
        errand->session = session->id;
        errand->claim.version = session->version;
        errand->claim.by = session->by;
        if (hf__session_is_common(core, session)) {
            errand->job = session->job; /* others may have locks in it: the record must be gone */
            session->job = NULL;
        }
        hf__errand_start(core, errand, core->options.lease_ms, now_us);
    } /* otherwise it ends by itself, later */
    hf__lease_end(core, session, HF_REASON_RELEASED, 0, NULL, now_us);
}

void hf__core_session_close(struct hf_core *core, struct hf_lease *session, struct hf_job *job,
                            int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (session->state != HF_LEASE_LIVE || session->leaving) {
        hf__job_done(core, job, HF_ERR_LOST, "the session has ended");
        return;
    }
    session->leaving = true;
    session->job = job;
    session->refs++;
    if (hf__list_empty(&session->grants)) hf__session_left(core, session, now_us);
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    /* Grants that are being released are at the end of the list. */
    while (!hf__list_empty(&session->grants)) {
        struct hf_grant *grant = HF_CONTAINER(session->grants.next, struct hf_grant, of_lease);
        if (grant->state != HF_GRANT_HELD) break;
        grant->entries = 1;
        hf__core_release(core, grant, &how, now_us);
    }
    hf__lease_unref(core, session);
}

void hf__core_leave_all(struct hf_core *core, int64_t now_us)
{
    hf__core_tick(core, now_us);
    for (struct hf_list *at = core->leases.next, *next; at != &core->leases; at = next) {
        struct hf_lease *lease = HF_CONTAINER(at, struct hf_lease, node);
        lease->refs++;
        if (!lease->is_session) lease->stopped = true;
        while (!hf__list_empty(&lease->grants))
            hf__grant_end(core, HF_CONTAINER(lease->grants.next, struct hf_grant, of_lease),
                          HF_REASON_ABANDONED, 0, NULL, now_us);
        if (lease->opened) { /* whether it has ended is not for us to say */
            hf__ensures_fail(core, lease, NULL,
                             lease->pending ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_CLOSED,
                             HF_REASON_CLOSED);
            hf__lease_end(core, lease, HF_REASON_ABANDONED, 0, NULL, now_us);
        }
        next = at->next;
        hf__lease_unref(core, lease);
    }
}

/* ---- what others want ---- */

static void give_back_text(struct hf_core *core, struct hf_lease *session,
                           const struct hf_errand_text *text, int64_t now_us)
{
    struct hf_id id;
    if (!hf__id_parse(text->grant, &id)) return;
    struct hf_name *name = hf__name_get(core, text->name);
    if (!name) return;
    const struct hf_claim claim = {
        .grant = id, .session = &session->id, .limit = text->kind == HF_HOLD_SHARED ? 1 : 0};
    hf__give_back(core, name, text->kind, &claim, now_us);
    hf__name_unref(core, name);
}

static void obey(struct hf_core *core, struct hf_lease *session, struct hf_slice order,
                 int64_t now_us)
{
    struct hf_errand_text text;
    struct hf_slice by, reason;
    if (!hf__revocation_parse(order, &text, &by, &reason)) return;
    struct hf_name *name = hf__name_find(core, text.name);
    for (struct hf_list *at = name ? name->grants.next : NULL; name && at != &name->grants;
         at = at->next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_name);
        if (!hf__id_is(&grant->id, text.grant) || grant->state != HF_GRANT_HELD) continue;
        struct hf_error detail;
        hf__error_set(&detail, 0, "by %.*s: %.*s", HF_FMT(by), HF_FMT(reason));
        hf__grant_end(core, grant, HF_REASON_FORCED, 0, detail.message, now_us);
        break;
    }
    give_back_text(core, session, &text, now_us);
}

/*
 * Whether we are to answer for a grant of this session (M5 of common.c). For an intent, any program
 * may: nobody counts on it, and a writer that still waits declares it again.
 */
static bool is_for_us(const struct hf_core *core, const struct hf_lease *session,
                      const struct hf_errand_text *text)
{
    return !hf__session_is_common(core, session) || text->kind == HF_HOLD_INTENT ||
           hf__grant_is_marked(core, text->grant) || HF_BUG(ASKED_FREES);
}

static struct hf_values copy_set(struct hf_arena *arena, struct hf_values set)
{
    struct hf_value whole = hf__list(HF_SS, set.at, set.count);
    if (set.count == 0) return set;
    return hf__value_copy(arena, &whole).list;
}

void hf__session_heard(struct hf_core *core, struct hf_lease *session,
                       const struct hf_session_record *record, int64_t now_us)
{
    if (record->asked.count == 0 && record->revoked.count == 0) return;
    struct hf_errand *errand = hf__errand_new(core, HF_ERRAND_CLEAR, NULL);
    /* All of what is revoked: the operator relies on that. */
    for (size_t i = 0; i < record->revoked.count; i++)
        obey(core, session, record->revoked.at[i].bytes, now_us);
    size_t heard_count = 0;
    struct hf_value *heard = NULL;
    if (errand && record->asked.count)
        heard = hf__arena_zalloc(&errand->arena, record->asked.count, sizeof *heard);
    for (size_t i = 0; i < record->asked.count; i++) {
        struct hf_errand_text text;
        bool parsed = hf__errand_parse(record->asked.at[i].bytes, &text);
        if (parsed && !is_for_us(core, session, &text)) continue;
        if (heard) heard[heard_count++] = record->asked.at[i];
        const struct hf_name *name = parsed ? hf__name_find(core, text.name) : NULL;
        if (!parsed || (name && hf__name_cares_for(name, text.grant))) continue;
        give_back_text(core, session, &text, now_us);
    }
    if (!errand) return; /* they are heard again with the next renewal */
    if (heard_count == 0 && record->revoked.count == 0) {
        hf__errand_free(core, errand);
        return;
    }
    errand->target = hf__id_text(&errand->arena, &session->id);
    errand->asked = copy_set(&errand->arena, (struct hf_values){.at = heard, .count = heard_count});
    errand->revoked = copy_set(&errand->arena, record->revoked);
    hf__errand_start(core, errand, core->options.lease_ms, now_us);
}

/*
 * A record that is deleted or changed by hand takes a lock away unannounced. With
 * few locks, each is re-read once per lease; with many, one from time to time, which
 * detects a table that was emptied.
 */
void hf__session_recheck(struct hf_core *core, struct hf_lease *session, int64_t now_us)
{
    size_t count = 0;
    for (struct hf_list *at = session->grants.next; at != &session->grants; at = at->next) {
        if (++count > RECHECK_ALL_UP_TO) break;
    }
    size_t looks =
        count > RECHECK_ALL_UP_TO ? (session->renewals % RECHECK_EVERY == 0) : (count + 2) / 3;
    if (session->others && hf__session_is_common(core, session))
        looks = count; /* others may have released them */
    for (size_t i = 0; i < looks; i++) {
        struct hf_list *node = hf__list_pop(&session->grants);
        if (!node) return;
        struct hf_grant *grant = HF_CONTAINER(node, struct hf_grant, of_lease);
        hf__list_append(&session->grants, node);
        if (grant->state != HF_GRANT_HELD) continue;
        struct hf_errand *errand = hf__errand_for(core, HF_ERRAND_RECHECK, grant);
        if (!errand) return;
        int64_t period_ms = core->options.period_ms;
        hf__errand_start(core, errand, period_ms ? period_ms : session->lease_ms / 4, now_us);
    }
}
