/*
 * v2: acquire, renew, release and force-release, on behalf of callers.
 *
 * An acquire that waits is an attempt of the client, in its queue for that lock: first come, first
 * served, and handed over when the lock is released here. Its connection is watched meanwhile.
 */
#include "service/api/v2.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/info_json.h"
#include "service/api/event.h"
#include "service/api/grant.h"
#include "service/api/lock.h"
#include "service/api/session.h"

#define BIT(field) (1u << HF_V2_##field)

enum { FORCE_MS = 60000 };

/* ---- how a grant is shown ---- */

static void show_grant(struct hf_exchange *exchange, const struct hf_entry *entry, bool repeated)
{
    struct hf_json_writer json;
    struct hf_lock_status status;
    hf__lock_status(entry->lock, &status);
    exchange->token = status.token;
    exchange->secret = hf__arena_str(&exchange->arena, hf__slice_str(entry->id));
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "name", entry->name);
    hf__put_text(&json, "grant", entry->id);
    hf__put_text(&json, "owner", entry->owner);
    if (entry->instance) hf__put_text(&json, "instance", entry->instance);
    hf__put_text(&json, "mode", entry->shared ? "shared" : "exclusive");
    if (entry->limit) hf__put_number(&json, "limit", entry->limit);
    hf__put_number(&json, "token", status.token);
    hf__put_number(&json, "lease_ms", status.lease_ms);
    hf__put_number(&json, "left_ms", hf__left_for_caller(status.left_ms, status.lease_ms));
    if (status.since_unix_ms) hf__put_number(&json, "since_unix_ms", status.since_unix_ms);
    if (status.expires_unix_ms) hf__put_number(&json, "expires_unix_ms", status.expires_unix_ms);
    if (entry->session) hf__put_text(&json, "session", entry->session->id);
    size_t size;
    const void *data = hf_lock_data(entry->lock, &size);
    hf__data_put(&json, data, size);
    if (status.lacks_data) exchange->answer.failed = true;
    if (repeated) hf__put_bool(&json, "repeated", true);
    hf__answer_end(exchange, &json);
}

static void show_aside(struct hf_exchange *exchange)
{
    struct hf_entry *entry = exchange->shown;
    show_grant(exchange, entry, exchange->is_repeated);
    hf__entry_unref(entry);
}

static void answer_grant(struct hf_exchange *exchange, struct hf_entry *entry, bool repeated)
{
    size_t size = 0;
    hf_lock_data(entry->lock, &size);
    if (size <= HF_SMALL) {
        show_grant(exchange, entry, repeated);
        return;
    }
    if (!hf__exchange_reserve_long(exchange, size)) {
        hf__answer_overloaded(exchange);
        return;
    }
    exchange->shown = entry;
    exchange->is_repeated = repeated;
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    hf__exchange_aside(exchange, show_aside);
}

static void tell(const struct hf_entry *entry, const char *type, const char *reason,
                 const char *detail)
{
    struct hf_lock_status status = {0};
    if (entry->lock) hf__lock_status(entry->lock, &status);
    hf__event(entry->service->events,
              &(struct hf_change){.type = type,
                                  .lock = entry->name,
                                  .owner = entry->owner,
                                  .instance = entry->instance,
                                  .token = status.token,
                                  .shared = entry->shared,
                                  .reason = reason,
                                  .detail = detail,
                                  .lease_ms = status.lease_ms,
                                  .expires_unix_ms = status.expires_unix_ms});
}

static void tell_queue(struct hf_service *service, const char *name)
{
    if (!hf__events_heard(service->events)) return;
    hf__event(service->events, &(struct hf_change){
                                   .type = "queue",
                                   .lock = name,
                                   .waiters = (int64_t)hf__client_queue(service->client, name),
                               });
}

/* ---- the life of a lock ---- */

static void answer_release(struct hf_exchange *exchange, const struct hf_entry *entry,
                           const struct hf_event *event)
{
    struct hf_json_writer json;
    switch (event->reason) {
    case HF_REASON_RELEASED:
    case HF_REASON_CLOSED:
        hf__answer_begin(exchange, 200, &json);
        hf__put_text(&json, "name", entry->name);
        hf__put_bool(&json, "released", true);
        hf__answer_end(exchange, &json);
        break;
    case HF_REASON_UNCONFIRMED:
    case HF_REASON_ABANDONED: /* the service is being stopped */
        hf__answer_error(exchange, 504, "outcome-unknown",
                         "the store did not confirm the release; the lock expires by itself");
        break;
    default:
        hf__answer_error(exchange, 409, "lost", "the lock was lost: %s%s%s",
                         hf_reason_meaning(event->reason), event->detail ? ", " : "",
                         event->detail ? event->detail : "");
    }
}

/* On the client's thread, like all callbacks of the library. */
static void happened(void *user, const struct hf_event *event)
{
    struct hf_entry *entry = user;
    struct hf_service *service = entry->service;
    if (event->type == HF_EVENT_WARNING) return;
    hf__count(&service->metrics.ended[event->reason]);
    bool forced = event->reason == HF_REASON_FORCED;
    if (event->type == HF_EVENT_RELEASED) tell(entry, "released", NULL, NULL);
    else if (!forced && event->reason != HF_REASON_ABANDONED)
        tell(entry, "lost", hf_reason_name(event->reason), event->detail);
    hf__entry_drop_key(entry);
    hf__entry_unlist(entry);
    struct hf_exchange *releasing = __atomic_exchange_n(&entry->releasing, NULL, __ATOMIC_ACQ_REL);
    if (releasing) answer_release(releasing, entry, event);
    hf__entry_unref(entry); /* the lock's */
}

static void give_back(struct hf_entry *entry)
{
    hf__count(&entry->service->metrics.given_back);
    hf__lock_give_back(entry->lock); /* if this fails, the lock expires */
}

/* ---- acquire ---- */

static void stop_waiting(struct hf_service *service, const struct hf_entry *entry)
{
    __atomic_fetch_sub(&service->waiting, 1, __ATOMIC_RELAXED);
    hf__budget_give(service, HF_BUDGET_WAITERS, entry->owner, 1);
    hf__gauge(&service->metrics.waiters, -1);
    if (entry->waits) tell_queue(service, entry->name);
}

/* From now on the lock can be found by its grant. */
static void hold(struct hf_entry *entry, struct hf_lock *lock)
{
    struct hf_lock_status status;
    entry->lock = lock;
    hf__lock_status(lock, &status);
    entry->shared = status.limit > 0;
    if (status.limit > 0 && status.limit != HF_READERS_LIMIT) entry->limit = status.limit;
    bool readers = entry->shared && !status.in_session;
    if (readers) entry->id[0] = 's';
    hf__hex_encode(status.grant.bytes, sizeof status.grant.bytes, entry->id + readers);
    hf__entry_list(entry);
}

/* 423, with what a caller needs to decide whether to wait. */
static void answer_held(const struct hf_entry *entry, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = entry->acquiring;
    const struct hf_wait *by = hf__acquisition_blocked_by(entry->acquisition);
    struct hf_interval now = hf__service_time(entry->service);
    struct hf_json_writer json;
    bool may_read = hf__may(exchange, HF_RIGHT_READ, hf__slice_str(entry->name));
    if (!may_read) { /* nor see the holder */
        hf__answer_error(exchange, 423, hf_error_name(code), "the lock is held");
        return;
    }
    if (!by) {
        exchange->retry_after_s = 1;
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    hf__answer_error_begin(exchange, 423, hf_error_name(code), error->message, &json);
    if (by->owner) hf__put_text(&json, "owner", by->owner);
    if (by->instance) hf__put_text(&json, "instance", by->instance);
    if (by->holders) hf__put_number(&json, "holders", by->holders);
    if (by->since_unix_ms) hf__put_number(&json, "since_unix_ms", by->since_unix_ms);
    if (by->expires_unix_ms && now.known) {
        int64_t left_ms = by->expires_unix_ms - now.lo_unix_us / 1000;
        hf__put_number(&json, "left_ms", left_ms > 0 ? left_ms : 0);
    }
    hf__put_number(&json, "waiters",
                   (int64_t)hf__client_queue(entry->service->client, entry->name));
    hf__answer_end(exchange, &json);
}

static void begin_acquire(struct hf_exchange *exchange);

/*
 * The same call through another service, or before a restart, holds the lock: its grant is adopted,
 * which renews it.
 */
static void repeated(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    struct hf_entry *entry = user;
    struct hf_exchange *exchange = entry->acquiring;
    struct hf_lock_status status;
    if (code == 0) {
        hold(entry, lock);
        hf__lock_status(lock, &status);
        if (*status.instance && !entry->instance) entry->instance = hf__strdup(status.instance);
        tell(entry, "renewed", NULL, NULL);
        if (hf__entry_tell(entry)) {
            answer_grant(exchange, entry, true);
            return;
        }
        hf__answer_error(exchange, 409, "lost", "the lock was lost before it could be reported");
        return;
    }
    hf__entry_drop_key(entry);
    if (code == HF_ERR_LOST && !hf__exchange_is_gone(exchange)) { /* it has gone since: anew */
        exchange->user = NULL;
        exchange->finished = NULL;
        hf__exchange_again(exchange, begin_acquire);
        hf__entry_unref(entry); /* the exchange's */
    } else {
        hf__answer_failure(exchange, code == HF_ERR_LOST ? HF_ERR_CANCELLED : code, error);
    }
    hf__entry_unref(entry); /* the lock's: there is none */
}

static void repeat_elsewhere(struct hf_entry *entry, const struct hf_id *earlier)
{
    struct hf_error error;
    const struct hf_by_grant which = {.name = hf__slice_str(entry->name),
                                      .grant = *earlier,
                                      .owner = hf__slice_str(entry->owner)};
    entry->repeats = true;
    entry->acquiring->gone = NULL;
    const struct hf_adopt_call call = {
        .which = &which, .done = repeated, .user = entry, .on_event = happened, .lock_user = entry};
    int code = hf__adopt_async(entry->service->client, &call, &error);
    if (code != 0) repeated(entry, code, NULL, &error);
}

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    struct hf_entry *entry = user;
    struct hf_service *service = entry->service;
    struct hf_exchange *exchange = entry->acquiring;
    struct hf_lock_status status;
    const struct hf_id *earlier = hf__acquisition_repeats(entry->acquisition);
    stop_waiting(service, entry);
    if (code == HF_ERR_HELD && earlier) {
        repeat_elsewhere(entry, earlier);
        return;
    }
    if (code != 0) {
        hf__entry_drop_key(entry);
        if (code == HF_ERR_CANCELLED)
            hf__answer_error(exchange, 499, "hung-up", "the caller hung up");
        else if (code == HF_ERR_LOST) /* an attempt can only lose its session */
            hf__answer_error(exchange, 410, "session-ended", "%s", error->message);
        else if (code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT) answer_held(entry, code, error);
        else hf__answer_failure(exchange, code, error);
        hf__entry_unref(entry); /* the lock's: there is no lock */
        return;
    }
    hold(entry, lock);
    hf__lock_status(lock, &status);
    hf__count(&service->metrics.grants);
    if (status.taken_over) hf__count(&service->metrics.takeovers);
    hf__observe(&service->metrics.queue_time, hf__service_now_us(service) - entry->asked_us);
    tell(entry, "granted", NULL, NULL);
    if (!hf__entry_tell(entry)) { /* it ended before it could be answered */
        exchange->user = NULL;
        exchange->finished = NULL;
        hf__answer_error(exchange, 409, "lost", "the lock was lost before it could be reported");
        hf__entry_unref(entry); /* the exchange's */
        return;
    }
    if (hf__exchange_is_gone(exchange)) {
        hf__answer_error(exchange, 499, "hung-up", "the caller hung up");
        return; /* `finished` gives it back */
    }
    answer_grant(exchange, entry, false);
}

static void hung_up(struct hf_exchange *exchange)
{
    struct hf_entry *entry = exchange->user;
    hf_acquisition_cancel(entry->acquisition);
}

static bool is_shared(const struct hf_v2_body *body)
{
    return body->limit > 0 || hf__slice_is(body->mode, "shared");
}

/* The answer was sent, or could not be (E3). */
static void finished(struct hf_exchange *exchange, bool received)
{
    struct hf_entry *entry = exchange->user;
    bool got = received && exchange->status == 200;
    if (entry->lock && !got && hf__entry_untell(entry)) give_back(entry);
    hf__entry_unref(entry);
}

/* ---- repeated acquires ---- */

/*
 * Only the store can tell whether it is still held: it may have been released or lost through
 * another service. So the grant is renewed, and if it is gone the lock is acquired anew.
 */
static void confirmed_again(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct hf_entry *earlier = exchange->user;
    if (code == 0) {
        exchange->finished = finished;
        answer_grant(exchange, earlier, true);
        return;
    }
    exchange->user = NULL;
    if (hf__entry_untell(earlier) && code != HF_ERR_LOST) give_back(earlier); /* E3 */
    if (code == HF_ERR_LOST) {
        hf__entry_drop_key(earlier);
        hf__exchange_again(exchange, begin_acquire);
    } else {
        hf__answer_failure(exchange, code, error);
    }
    hf__entry_unref(earlier);
}

/* The same call again, because its answer was lost. Takes the reference. */
static void repeat(struct hf_exchange *exchange, struct hf_entry *earlier,
                   const struct hf_v2_body *body)
{
    struct hf_error error;
    const char *session = earlier->session ? earlier->session->id : "";
    bool same = earlier->limit == body->limit && earlier->shared == is_shared(body) &&
                hf__slice_is(body->session, session);
    if (!same) {
        hf__answer_error(exchange, 409, "in-progress",
                         "this idempotency key was used with another mode, limit or session");
    } else if (__atomic_load_n(&earlier->releasing, __ATOMIC_ACQUIRE)) {
        exchange->retry_after_s = 1;
        hf__answer_error(exchange, 409, "in-progress",
                         "the lock acquired with this key is being released");
    } else if (hf__entry_tell(earlier)) {
        exchange->user = earlier;
        int code = hf__lock_renew_async(earlier->lock, 0, confirmed_again, exchange, &error);
        if (code != 0) confirmed_again(exchange, code, &error);
        return;
    } else {
        exchange->retry_after_s = 1;
        hf__answer_error(exchange, 409, "in-progress",
                         "a call with this idempotency key is still waiting");
    }
    hf__entry_unref(earlier);
}

static bool may_wait(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    int64_t own_most = service->limits.per_caller[HF_BUDGET_WAITERS];
    unsigned waiting = (unsigned)__atomic_add_fetch(&service->waiting, 1, __ATOMIC_RELAXED);
    if (waiting <= service->limits.waiters &&
        hf__budget_take(service, HF_BUDGET_WAITERS, exchange->caller.owner, 1))
        return true;
    __atomic_fetch_sub(&service->waiting, 1, __ATOMIC_RELAXED);
    hf__answer_too_many(
        exchange, "too-many-waiters", "at most %u acquires at a time, and %lld per owner",
        service->limits.waiters, (long long)(own_most ? own_most : service->limits.waiters));
    return false;
}

static bool has_room(struct hf_exchange *exchange, struct hf_entry *entry, int64_t data_size)
{
    const int64_t *most = exchange->service->limits.per_caller;
    if (!hf__entry_count(entry, data_size)) {
        hf__answer_too_many(exchange, "too-many-locks",
                            "at most %lld locks per owner at a time, with %lld bytes of data",
                            (long long)most[HF_BUDGET_LOCKS], (long long)most[HF_BUDGET_DATA]);
        return false;
    }
    return true;
}

static int64_t size_of(const struct hf_v2_body *body)
{
    int64_t size = (int64_t)body->data.len;
    for (size_t i = 0; i < body->attribute_count; i++)
        size += (int64_t)(strlen(body->attributes[i].name) + strlen(body->attributes[i].text));
    return size;
}

/* NULL: the call has been answered, or begins again. */
static struct hf_entry *prepare(struct hf_exchange *exchange, const char *name,
                                const struct hf_v2_body *body)
{
    struct hf_service *service = exchange->service;
    const char *key = body->idempotency_key.ptr;
    struct hf_session_entry *session = NULL;
    struct hf_entry *other = NULL;
    if (!key) key = hf__exchange_header(exchange, "Idempotency-Key");
    if (key && (!*key || strlen(key) > HF_V2_KEY_MAX)) {
        hf__answer_error(exchange, 400, "invalid", "\"Idempotency-Key\": must have 1 to %d bytes",
                         HF_V2_KEY_MAX);
        return NULL;
    }
    if (body->session.ptr) {
        struct hf_session_facts status = {.ended = true};
        session = hf__session_entry_find(service, body->session.ptr, exchange->caller.owner);
        if (session) hf__session_status(session->session, &status);
        if (status.ended) { /* ended here: the record decides */
            if (session) hf__session_entry_unlist(session);
            hf__session_entry_unref(session);
            hf__session_adopt_for(exchange, body->session.ptr, exchange->caller.owner,
                                  begin_acquire);
            return NULL;
        }
    }
    struct hf_entry *entry = hf__entry_new(service, name, exchange->caller.owner, key);
    const char *instance = body->instance.ptr;
    if (!instance && session) instance = session->instance;
    if (entry && instance && !(entry->instance = hf__strdup(instance))) {
        hf__entry_unref(entry);
        entry = NULL;
    }
    if (entry) { /* complete, before other calls can find it by its key */
        entry->session = session;
        entry->shared = is_shared(body);
        entry->limit = body->limit;
        entry->waits = body->wait_ms > 0;
        entry->acquiring = exchange;
        entry->asked_us = hf__service_now_us(service);
    }
    if (!entry || (key && !hf__entry_claim_key(entry, &other))) {
        if (entry) hf__entry_unref(entry);
        else hf__session_entry_unref(session);
        if (other) repeat(exchange, other, body);
        else hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return NULL;
    }
    if (!has_room(exchange, entry, size_of(body))) {
        hf__entry_drop_key(entry);
        hf__entry_unref(entry);
        return NULL;
    }
    return entry;
}

/* A call that may be repeated at another service. */
static bool identify(const struct hf_entry *entry, struct hf_id *ret)
{
    const char *const texts[] = {entry->owner, entry->name, entry->key};
    struct hf_buf all;
    if (!entry->key || entry->session) return false;
    hf__buf_init(&all, 8 * 1024);
    for (int i = 0; i < 3; i++) hf__buf_add(&all, texts[i], strlen(texts[i]) + 1);
    bool good = !all.failed;
    if (good) hf__id_of_owner(hf__buf_view(&all), ret);
    hf__buf_free(&all);
    return good;
}

static const uint32_t acquire_fields = BIT(WAIT) | BIT(LEASE) | BIT(MODE) | BIT(LIMIT) | BIT(DATA) |
                                       BIT(DATA_BASE64) | BIT(KEEP_DATA) | BIT(ONLY_IF_EXISTS) |
                                       BIT(SESSION) | BIT(IDEMPOTENCY_KEY) | BIT(ATTRIBUTES) |
                                       BIT(INSTANCE);

static void begin_acquire(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    struct hf_v2_body body;
    struct hf_error error;
    const char *name = hf__v2_name(exchange, HF_RIGHT_LOCK);
    if (!name || !hf__v2_read(exchange, acquire_fields, &body)) return;
    exchange->instance = body.instance.ptr;
    if (!hf__v2_lease_is_good(exchange, body.lease_ms)) return;
    bool shared = is_shared(&body);
    if (hf__slice_is(body.mode, "exclusive") && body.limit > 0) {
        hf__answer_error(exchange, 400, "invalid", "\"limit\": not allowed for an exclusive lock");
        return;
    }
    if (shared && !body.session.ptr && hf__client_format(service->client)->sessions) {
        hf__answer_error(exchange, 400, "invalid",
                         "\"session\": shared locks and semaphores need one; open it with POST "
                         "/v2/sessions and give its id");
        return;
    }
    struct hf_entry *entry = prepare(exchange, name, &body);
    if (!entry) return;
    exchange->user = entry;
    exchange->finished = finished;
    struct hf_acquire_options options = {
        .size = sizeof options,
        .shared = shared,
        .limit = body.limit,
        .data = body.has_data ? (body.data.ptr ? body.data.ptr : "") : NULL,
        .data_size = body.data.len,
        .keep_data = body.keep_data,
        .only_if_exists = body.only_if_exists,
        .attributes = body.attributes,
        .attribute_count = body.attribute_count,
        .lease_ms = body.lease_ms,
        .on_event = happened,
        .user = entry,
        .owner = entry->owner,
        .instance = entry->instance,
    };
    if (!may_wait(exchange)) { /* it has been answered */
        hf__entry_drop_key(entry);
        return;
    }
    hf__gauge(&service->metrics.waiters, 1);
    if (body.wait_ms > 0) exchange->gone = hung_up;
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED); /* the lock's */
    struct hf_id id;
    const struct hf_acquire_call call = {.name = name,
                                         .timeout_ms = body.wait_ms,
                                         .options = &options,
                                         .done = acquired,
                                         .user = entry,
                                         .id = identify(entry, &id) ? &id : NULL};
    int code = hf__acquire_in(service->client, entry->session ? entry->session->session : NULL,
                              &call, &entry->acquisition, &error);
    if (code != 0) {
        exchange->gone = NULL;
        acquired(entry, code, NULL, &error);
        return;
    }
    if (body.wait_ms > 0) tell_queue(service, name);
}

void hf__v2_acquire(struct hf_exchange *exchange)
{
    hf__v2_read_first(exchange, acquire_fields, begin_acquire);
}

/* ---- by grant ---- */

/* A call about a grant. */
struct grant_call {
    struct hf_v2_body body;
    struct hf_by_grant which;
    struct hf_entry *entry; /* the entry in this process; counted */
};

/* The entry of the grant, if it belongs to this caller and this lock. */
static struct hf_entry *find(struct hf_exchange *exchange, const char *grant)
{
    struct hf_entry *entry = hf__entry_find(exchange->service, grant);
    if (!entry) return NULL;
    if (strcmp(entry->name, exchange->parts[2].ptr) == 0 &&
        strcmp(entry->owner, exchange->caller.owner) == 0)
        return entry;
    hf__entry_unref(entry);
    return NULL;
}

/* NULL: the call has been answered. Grants are compared in one spelling, however they were sent. */
/* A caller that has the grant may always release. */
static struct grant_call *read_grant(struct hf_exchange *exchange, uint32_t also,
                                     enum hf_right right)
{
    struct grant_call *call = hf__arena_zalloc(&exchange->arena, 1, sizeof *call);
    if (!call) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return NULL;
    }
    struct hf_v2_body *body = &call->body;
    if (!hf__v2_name(exchange, right) || !hf__v2_read(exchange, BIT(GRANT) | also, body))
        return NULL;
    if (!hf__v2_lease_is_good(exchange, body->lease_ms)) return NULL;
    if (!body->grant.ptr) {
        hf__answer_error(exchange, 400, "invalid",
                         "\"grant\": missing; send the grant that acquire returned");
        return NULL;
    }
    if (!hf__grant_parse(body->grant, &call->which)) {
        hf__answer_error(exchange, 409, "lost", "unknown grant");
        return NULL;
    }
    struct hf_slice id = hf__id_text(&exchange->arena, &call->which.grant);
    body->grant =
        hf__arena_printf(&exchange->arena, "%s%.*s", call->which.limit ? "s" : "", HF_FMT(id));
    call->which.name = exchange->parts[2];
    call->which.owner = hf__slice_str(exchange->caller.owner);
    if (exchange->arena.failed) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return NULL;
    }
    exchange->secret = body->grant.ptr;
    call->entry = find(exchange, body->grant.ptr);
    exchange->user = call;
    return call;
}

static void drop_entry(struct grant_call *call)
{
    if (call->entry) hf__entry_unref(call->entry);
    call->entry = NULL;
}

/* The reason names the present holder, which not every caller may know. */
static void answer_not_held(struct hf_exchange *exchange, int code, const struct hf_error *error)
{
    if (code == HF_ERR_LOST && !hf__may(exchange, HF_RIGHT_READ, exchange->parts[2]))
        hf__answer_error(exchange, 409, "lost", "this grant does not hold the lock");
    else hf__answer_failure(exchange, code, error);
}

/* A grant of another service, or from before a restart, is now tracked here as well. */
static void adopted(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct grant_call *call = exchange->user;
    struct hf_entry *entry = call->entry;
    struct hf_lock_status status;
    if (code != 0) {
        drop_entry(call);
        hf__entry_unref(entry); /* the lock's: there is no lock */
        answer_not_held(exchange, code, error);
        return;
    }
    hold(entry, lock);
    hf__lock_status(lock, &status);
    if (*status.instance) entry->instance = hf__strdup(status.instance); /* for people */
    tell(entry, "renewed", NULL, NULL);
    answer_grant(exchange, entry, false);
    hf__entry_unref(entry);
}

/* A grant that this process does not know, or takes for ended, is decided by the record. */
static void renew_by_record(struct hf_exchange *exchange)
{
    struct grant_call *call = exchange->user;
    struct hf_service *service = exchange->service;
    struct hf_error error;
    drop_entry(call);
    struct hf_entry *entry =
        hf__entry_new(service, exchange->parts[2].ptr, exchange->caller.owner, NULL);
    if (!entry) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    entry->shared = call->which.limit > 0;
    call->entry = entry;
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED); /* the lock's */
    const struct hf_adopt_call adoption = {.which = &call->which,
                                           .lease_ms = call->body.lease_ms,
                                           .done = adopted,
                                           .user = exchange,
                                           .on_event = happened,
                                           .lock_user = entry};
    int code = hf__adopt_async(service->client, &adoption, &error);
    if (code != 0) adopted(exchange, code, NULL, &error);
}

static void renewed(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct grant_call *call = exchange->user;
    struct hf_entry *entry = call->entry;
    if (code == HF_ERR_LOST) {
        renew_by_record(exchange);
        return;
    }
    if (code == 0) {
        if (hf__events_heard(entry->service->events)) tell(entry, "renewed", NULL, NULL);
        answer_grant(exchange, entry, false);
    } else {
        hf__answer_failure(exchange, code, error);
    }
    hf__entry_unref(entry);
}

static bool is_in_session(const struct hf_entry *entry)
{
    struct hf_lock_status status = {0};
    if (!entry->session && entry->lock) hf__lock_status(entry->lock, &status);
    return entry->session || status.in_session;
}

void hf__v2_renew(struct hf_exchange *exchange)
{
    struct hf_error error;
    struct grant_call *call = read_grant(exchange, BIT(LEASE), HF_RIGHT_LOCK);
    if (!call) return;
    if (!call->entry) {
        renew_by_record(exchange);
        return;
    }
    if (call->body.lease_ms && is_in_session(call->entry)) {
        drop_entry(call);
        hf__answer_error(exchange, 400, "invalid",
                         "\"lease_ms\": the lock is kept by a session; renew that");
        return;
    }
    int code =
        hf__lock_renew_async(call->entry->lock, call->body.lease_ms, renewed, exchange, &error);
    if (code != 0) renewed(exchange, code, &error);
}

static void released_by_record(void *user, int code, bool already, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct hf_service *service = exchange->service;
    const char *name = exchange->parts[2].ptr;
    struct hf_json_writer json;
    if (code != 0) {
        answer_not_held(exchange, code, error);
        return;
    }
    if (!already) {
        hf__count(&service->metrics.ended[HF_REASON_RELEASED]);
        hf__event(
            service->events,
            &(struct hf_change){.type = "released", .lock = name, .owner = exchange->caller.owner});
    }
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "name", name);
    hf__put_bool(&json, "released", true);
    hf__answer_end(exchange, &json);
}

static const void *data_of(const struct hf_v2_body *body)
{
    if (!body->has_data) return NULL;
    return body->data.ptr ? body->data.ptr : "";
}

static void release_by_record(struct hf_exchange *exchange)
{
    struct grant_call *call = exchange->user;
    struct hf_error error;
    drop_entry(call);
    int code =
        hf__release_by_grant_async(exchange->service->client, &call->which, data_of(&call->body),
                                   call->body.data.len, released_by_record, exchange, &error);
    if (code != 0) released_by_record(exchange, code, false, &error);
}

/* The first release takes the exchange; then the client's thread answers it (`happened`). */
static bool claim_release(struct hf_entry *entry, struct hf_exchange *exchange)
{
    struct hf_exchange *none = NULL;
    return __atomic_compare_exchange_n(&entry->releasing, &none, exchange, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static const uint32_t release_fields = BIT(DATA) | BIT(DATA_BASE64);

static void begin_release(struct hf_exchange *exchange)
{
    struct hf_error error;
    struct grant_call *call = read_grant(exchange, release_fields, 0);
    if (!call) return;
    struct hf_entry *entry = call->entry;
    call->entry = NULL; /* the reference is held here now: `happened` may answer at any time */
    const struct hf_release_options options = {
        .size = sizeof options,
        .data = data_of(&call->body),
        .data_size = call->body.data.len,
    };
    if (!entry || !claim_release(entry, exchange)) {
        release_by_record(exchange); /* likewise if a release is under way */
    } else if (hf_release_async(entry->lock, &options, &error) != 0) {
        struct hf_exchange *mine = exchange;
        /* Unless its final event came first and has answered. */
        if (__atomic_compare_exchange_n(&entry->releasing, &mine, NULL, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            release_by_record(exchange);
    }
    if (entry) hf__entry_unref(entry);
}

void hf__v2_release(struct hf_exchange *exchange)
{
    hf__v2_read_first(exchange, release_fields | BIT(GRANT), begin_release);
}

/* ---- by force ---- */

static void forced(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    const struct hf_v2_body *body = exchange->user;
    const char *name = exchange->parts[2].ptr;
    struct hf_json_writer json;
    if (code == HF_ERR_ABSENT) {
        hf__answer_error(exchange, 404, "absent", "this lock is not held");
        return;
    }
    if (code != 0) {
        hf__answer_failure(exchange, code, error);
        return;
    }
    hf__event(exchange->service->events, &(struct hf_change){.type = "forced",
                                                             .lock = name,
                                                             .by = exchange->caller.owner,
                                                             .reason = body->reason.ptr});
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "name", name);
    hf__put_bool(&json, "released", true);
    hf__put_text(&json, "by", exchange->caller.owner);
    hf__put_text(&json, "reason", body->reason.ptr);
    hf__answer_end(exchange, &json);
}

void hf__v2_force(struct hf_exchange *exchange)
{
    struct hf_error error;
    struct hf_v2_body *body = hf__arena_zalloc(&exchange->arena, 1, sizeof *body);
    if (!body) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    if (!hf__v2_name(exchange, HF_RIGHT_FORCE) || !hf__v2_read(exchange, BIT(REASON), body)) return;
    if (!body->reason.ptr) {
        hf__answer_error(exchange, 400, "invalid",
                         "\"reason\": missing; it is recorded in the lock");
        return;
    }
    exchange->user = body;
    const struct hf_force_call call = {.name = exchange->parts[2].ptr,
                                       .by = exchange->caller.owner,
                                       .reason = body->reason.ptr,
                                       .timeout_ms = FORCE_MS};
    int code = hf__force_async(exchange->service->client, &call, forced, exchange, &error);
    if (code != 0) forced(exchange, code, &error);
}

/* What the page shows of the service itself. */
static void put_state(struct hf_json_writer *json, struct hf_service *service)
{
    int64_t failing_us = __atomic_load_n(&service->metrics.store_failing_us, __ATOMIC_RELAXED);
    hf__put_text(json, "version", HF_VERSION_STRING);
    hf__put_text(json, "store", service->store->embedded ? "embedded" : "dynamodb");
    hf__put_number(json, "store_us", __atomic_load_n(&service->metrics.store_us, __ATOMIC_RELAXED));
    if (failing_us > 0)
        hf__put_number(json, "store_failing_ms", (hf__service_now_us(service) - failing_us) / 1000);
}

void hf__v2_whoami(struct hf_exchange *exchange)
{
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "owner", exchange->caller.owner);
    hf__put_bool(&json, "admin", exchange->caller.admin);
    hf__put_text(&json, "format", exchange->service->format);
    struct hf_interval now = hf__service_time(exchange->service);
    hf__put_number(
        &json, "now_unix_ms",
        (now.known ? now.lo_unix_us : hf__clock_wall_us(exchange->service->store->clock)) / 1000);
    put_state(&json, exchange->service);
    hf__answer_end(exchange, &json);
}
