#include "service/api/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "service/api/grant.h"
#include "service/api/lock.h"
#include "service/api/v2.h"

enum {
    BUCKETS = 1024,
    LEASE_MS = 20000,
    LOCKS_SHOWN = 1000,
    SESSIONS_SHOWN = 1000,
    DOUBT_MS = 2000, /* about the time of a store elsewhere */
};

struct hf_sessions {
    pthread_mutex_t mutex;
    size_t count;
    int64_t swept_us;
    struct hf_session_entry *by_id[BUCKETS];
};

static size_t hash(const char *id)
{
    return hf__hash_text(id, BUCKETS);
}

/* ---- the table ---- */

int hf__sessions_start(struct hf_service *service, struct hf_error *reterr)
{
    service->sessions = hf__calloc(1, sizeof *service->sessions);
    if (!service->sessions) return hf__error_no_memory(reterr);
    pthread_mutex_init(&service->sessions->mutex, NULL);
    return 0;
}

void hf__session_entry_unref(struct hf_session_entry *entry)
{
    if (!entry || __atomic_sub_fetch(&entry->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    hf__session_unref(entry->session);
    if (entry->counted) hf__budget_give(entry->service, HF_BUDGET_SESSIONS, entry->owner, 1);
    hf__free(entry->owner);
    hf__free(entry->instance);
    hf__free(entry);
}

static void list(struct hf_session_entry *entry)
{
    struct hf_sessions *sessions = entry->service->sessions;
    struct hf_session_entry **bucket = &sessions->by_id[hash(entry->id)];
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&sessions->mutex);
    entry->next = *bucket;
    *bucket = entry;
    pthread_mutex_unlock(&sessions->mutex);
    hf__gauge(&entry->service->metrics.sessions, 1);
}

void hf__session_entry_unlist(struct hf_session_entry *entry)
{
    struct hf_sessions *sessions = entry->service->sessions;
    pthread_mutex_lock(&sessions->mutex);
    struct hf_session_entry **at = &sessions->by_id[hash(entry->id)];
    while (*at && *at != entry) at = &(*at)->next;
    bool found = *at;
    if (found) {
        *at = entry->next;
        sessions->count--;
    }
    pthread_mutex_unlock(&sessions->mutex);
    if (!found) return;
    hf__gauge(&entry->service->metrics.sessions, -1);
    hf__session_entry_unref(entry);
}

/* Sessions that have ended do no harm, but take room. */
void hf__sessions_sweep(struct hf_service *service)
{
    struct hf_sessions *sessions = service->sessions;
    struct hf_session_entry *ended = NULL;
    pthread_mutex_lock(&sessions->mutex);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct hf_session_entry **at = &sessions->by_id[i]; *at;) {
            struct hf_session_entry *entry = *at;
            struct hf_session_facts status;
            hf__session_status(entry->session, &status);
            if (!status.unused) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            entry->next = ended;
            ended = entry;
            sessions->count--;
        }
    }
    pthread_mutex_unlock(&sessions->mutex);
    while (ended) {
        struct hf_session_entry *next = ended->next;
        hf__gauge(&service->metrics.sessions, -1);
        hf__session_entry_unref(ended);
        ended = next;
    }
}

void hf__sessions_sweep_at_times(struct hf_service *service)
{
    enum { SECOND_US = 1000000 };
    struct hf_sessions *sessions = service->sessions;
    int64_t now_us = hf__service_now_us(service);
    pthread_mutex_lock(&sessions->mutex);
    bool due = now_us - sessions->swept_us >= SECOND_US;
    if (due) sessions->swept_us = now_us;
    pthread_mutex_unlock(&sessions->mutex);
    if (due) hf__sessions_sweep(service);
}

void hf__sessions_stop(struct hf_service *service)
{
    struct hf_sessions *sessions = service->sessions;
    if (!sessions) return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (sessions->by_id[i]) hf__session_entry_unlist(sessions->by_id[i]);
    }
    pthread_mutex_destroy(&sessions->mutex);
    hf__free(sessions);
    service->sessions = NULL;
}

struct hf_session_entry *hf__session_entry_find(struct hf_service *service, const char *id,
                                                const char *owner)
{
    struct hf_sessions *sessions = service->sessions;
    pthread_mutex_lock(&sessions->mutex);
    struct hf_session_entry *entry = sessions->by_id[hash(id)];
    while (entry && (strcmp(entry->id, id) != 0 || (owner && strcmp(entry->owner, owner) != 0)))
        entry = entry->next;
    if (entry) __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&sessions->mutex);
    return entry;
}

/* Reserves a place for one more, before it is opened. */
static bool reserve(struct hf_service *service)
{
    struct hf_sessions *sessions = service->sessions;
    pthread_mutex_lock(&sessions->mutex);
    bool has_room = sessions->count < service->limits.sessions;
    if (has_room) sessions->count++;
    pthread_mutex_unlock(&sessions->mutex);
    return has_room;
}

static void unreserve(struct hf_service *service)
{
    pthread_mutex_lock(&service->sessions->mutex);
    service->sessions->count--;
    pthread_mutex_unlock(&service->sessions->mutex);
}

/* ---- routes ---- */

struct names {
    struct hf_json_writer *json;
    int count;
};

static void put_name(void *user, struct hf_entry *entry)
{
    struct names *names = user;
    if (names->count++ >= LOCKS_SHOWN) return;
    hf__json_put_string(names->json, hf__slice_str(entry->name));
}

static void put_session(struct hf_json_writer *json, struct hf_session_entry *entry)
{
    struct names names = {.json = json};
    hf__put_text(json, "session", entry->id);
    hf__put_text(json, "owner", entry->owner);
    if (entry->instance) hf__put_text(json, "instance", entry->instance);
    struct hf_session_facts status;
    hf__session_status(entry->session, &status);
    hf__put_number(json, "lease_ms", status.lease_ms);
    hf__put_number(json, "left_ms", hf__left_for_caller(status.left_ms, status.lease_ms));
    hf__json_put_name(json, "locks");
    hf__json_open(json, '[');
    hf__entries_of(entry, put_name, &names);
    hf__json_close(json, ']');
}

static void answer(struct hf_exchange *exchange, struct hf_session_entry *entry)
{
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    put_session(&json, entry);
    hf__answer_end(exchange, &json);
}

static void dropped(void *user, int code, const struct hf_error *error)
{
    (void)code, (void)error;
    hf__session_entry_unref(user);
}

/* The answer was sent, or could not be: a session that its caller does not know is ended. */
static void told(struct hf_exchange *exchange, bool received)
{
    struct hf_session_entry *entry = exchange->user;
    if (received && exchange->status == 200) {
        hf__session_entry_unref(entry);
        return;
    }
    hf__session_entry_unlist(entry);
    if (hf__session_close(entry->session, dropped, entry, NULL) != 0)
        hf__session_entry_unref(entry); /* it ends with its lease */
}

static void opened(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct hf_session_entry *entry = exchange->user;
    if (code != 0) {
        unreserve(exchange->service);
        hf__session_entry_unref(entry);
        /* A session that never existed cannot be lost: the service is shutting down. */
        hf__answer_failure(exchange, code == HF_ERR_LOST ? HF_ERR_CLOSED : code, error);
        return;
    }
    struct hf_session_facts status;
    hf__session_status(entry->session, &status);
    hf__hex_encode(status.secret.bytes, sizeof status.secret.bytes, entry->id);
    list(entry);
    exchange->secret = hf__arena_str(&exchange->arena, hf__slice_str(entry->id));
    exchange->finished = told;
    answer(exchange, entry);
}

static void answer_too_many_of_owner(struct hf_exchange *exchange)
{
    const int64_t *most = exchange->service->limits.per_caller;
    hf__answer_too_many(exchange, "too-many-sessions", "at most %lld sessions of one owner",
                        (long long)most[HF_BUDGET_SESSIONS]);
}

static struct hf_session_entry *entry_new(struct hf_service *service, const char *owner,
                                          const char *instance)
{
    struct hf_session_entry *entry = hf__calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->service = service;
    entry->refs = 1;
    hf__list_init(&entry->locks);
    entry->owner = hf__strdup(owner);
    entry->instance = instance ? hf__strdup(instance) : NULL;
    if (entry->owner && (!instance || entry->instance)) return entry;
    hf__session_entry_unref(entry);
    return NULL;
}

void hf__v2_session_open(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    struct hf_v2_body body;
    struct hf_error error;
    if (!hf__v2_read(exchange, 1u << HF_V2_LEASE | 1u << HF_V2_INSTANCE, &body)) return;
    exchange->instance = body.instance.ptr;
    if (!hf__v2_lease_is_good(exchange, body.lease_ms)) return;
    hf__sessions_sweep(service);
    if (!reserve(service)) {
        hf__answer_too_many(exchange, "too-many-sessions", "at most %u sessions at a time",
                            service->limits.sessions);
        return;
    }
    if (!hf__budget_take(service, HF_BUDGET_SESSIONS, exchange->caller.owner, 1)) {
        unreserve(service);
        answer_too_many_of_owner(exchange);
        return;
    }
    struct hf_session_entry *entry = entry_new(service, exchange->caller.owner, body.instance.ptr);
    if (!entry) {
        unreserve(service);
        hf__budget_give(service, HF_BUDGET_SESSIONS, exchange->caller.owner, 1);
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    entry->counted = true;
    exchange->user = entry;
    const struct hf_session_want want = {.owner = hf__slice_str(entry->owner),
                                         .instance = hf__slice_str(entry->instance),
                                         .lease_ms = body.lease_ms ? body.lease_ms : LEASE_MS};
    int code = hf__session_open(service->client, &want, opened, exchange, &entry->session, &error);
    if (code == 0) return;
    unreserve(service);
    entry->session = NULL;
    hf__session_entry_unref(entry);
    hf__answer_failure(exchange, code, &error);
}

/* Of all locks: sessions have no names that rules could match. */
static bool is_admin(const struct hf_exchange *exchange)
{
    return hf__may(exchange, HF_RIGHT_ADMIN, HF_LIT(""));
}

/* All live sessions for an administrator; otherwise the caller's own. */
void hf__v2_session_list(struct hf_exchange *exchange)
{
    struct hf_sessions *sessions = exchange->service->sessions;
    struct hf_json_writer json;
    bool all = is_admin(exchange);
    int shown = 0;
    hf__answer_begin(exchange, 200, &json);
    hf__json_put_name(&json, "sessions");
    hf__json_open(&json, '[');
    pthread_mutex_lock(&sessions->mutex);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct hf_session_entry *entry = sessions->by_id[i]; entry; entry = entry->next) {
            bool is_own = strcmp(entry->owner, exchange->caller.owner) == 0;
            if ((!all && !is_own) || hf__session_left_ms(entry->session) <= 0) continue;
            if (shown++ >= SESSIONS_SHOWN) continue;
            hf__json_open(&json, '{');
            put_session(&json, entry);
            hf__json_close(&json, '}');
        }
    }
    pthread_mutex_unlock(&sessions->mutex);
    hf__json_close(&json, ']');
    hf__put_number(&json, "count", shown);
    hf__answer_end(exchange, &json);
}

/* ---- sessions of other services, and from before a restart ---- */

static void answer_ended(struct hf_exchange *exchange)
{
    hf__answer_error(exchange, 410, "session-ended", "unknown or expired session; open a new one");
}

/* A session that is being adopted for a call, and the continuation of that call. */
struct adoption {
    struct hf_session_entry *entry;
    void (*then)(struct hf_exchange *exchange);
};

/* As its record has it; out of memory, it stays as the caller has named it. */
static void name_entry(struct hf_session_entry *entry)
{
    struct hf_session_facts facts;
    hf__session_status(entry->session, &facts);
    char *owner = *entry->owner ? NULL : hf__strdup(facts.owner);
    if (owner) {
        hf__free(entry->owner);
        entry->owner = owner;
    }
    if (facts.instance && *facts.instance && !entry->instance)
        entry->instance = hf__strdup(facts.instance);
}

static void adopted(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    const struct adoption *adoption = exchange->user;
    struct hf_session_entry *entry = adoption->entry;
    exchange->user = NULL;
    if (code != 0) {
        unreserve(exchange->service);
        hf__session_entry_unref(entry);
        if (code == HF_ERR_LOST) answer_ended(exchange);
        else hf__answer_failure(exchange, code, error);
        return;
    }
    exchange->has_adopted = true;
    name_entry(entry);
    struct hf_session_entry *other = hf__session_entry_find(exchange->service, entry->id, NULL);
    if (other) unreserve(exchange->service); /* two calls have adopted it at the same time */
    else list(entry);
    hf__session_entry_unref(other);
    hf__session_entry_unref(entry);
    hf__exchange_again(exchange, adoption->then);
}

void hf__session_adopt_for(struct hf_exchange *exchange, const char *id, const char *owner,
                           void (*then)(struct hf_exchange *exchange))
{
    struct hf_service *service = exchange->service;
    struct hf_id secret;
    struct hf_error error;
    bool may_be = hf__client_format(service->client)->sessions && !exchange->has_adopted &&
                  hf__id_parse(hf__slice_str(id), &secret);
    if (!may_be) {
        answer_ended(exchange);
        return;
    }
    hf__sessions_sweep_at_times(service);
    if (!reserve(service)) {
        hf__answer_too_many(exchange, "too-many-sessions", "at most %u sessions at a time",
                            service->limits.sessions);
        return;
    }
    bool counts = *owner != '\0';
    if (counts && !hf__budget_take(service, HF_BUDGET_SESSIONS, owner, 1)) {
        unreserve(service);
        answer_too_many_of_owner(exchange);
        return;
    }
    struct adoption *adoption = hf__arena_zalloc(&exchange->arena, 1, sizeof *adoption);
    struct hf_session_entry *entry = adoption ? entry_new(service, owner, NULL) : NULL;
    if (entry) entry->counted = counts;
    if (!entry) {
        unreserve(service);
        if (counts) hf__budget_give(service, HF_BUDGET_SESSIONS, owner, 1);
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    hf__hex_encode(secret.bytes, sizeof secret.bytes, entry->id);
    *adoption = (struct adoption){entry, then};
    exchange->user = adoption;
    int code = hf__session_adopt(service->client, &secret, owner, adopted, exchange,
                                 &entry->session, &error);
    if (code != 0) adopted(exchange, code, &error);
}

/*
 * The session that the path names; NULL: it is being adopted and `then` is called afterwards, or
 * the call has been answered. An administrator may end another owner's session, but not renew it.
 */
static struct hf_session_entry *find(struct hf_exchange *exchange, bool of_anybody,
                                     void (*then)(struct hf_exchange *exchange))
{
    bool any = of_anybody && is_admin(exchange);
    const char *owner = any ? NULL : exchange->caller.owner;
    struct hf_session_entry *entry =
        hf__session_entry_find(exchange->service, exchange->parts[2].ptr, owner);
    struct hf_session_facts status;
    exchange->secret = exchange->parts[2].ptr;
    if (entry) {
        hf__session_status(entry->session, &status);
        if (!status.ended) return entry;
        hf__session_entry_unlist(entry);
        hf__session_entry_unref(entry);
    }
    hf__session_adopt_for(exchange, exchange->parts[2].ptr, any ? "" : owner, then);
    return NULL;
}

/* ---- looking at one ---- */

static void was_read(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    const struct hf_format *format = hf__client_format(exchange->service->client);
    struct hf_service *service = exchange->service;
    struct hf_session_record record;
    struct hf_json_writer json;
    if (answer->code != 0) {
        hf__answer_failure(exchange, answer->code, &answer->error);
        return;
    }
    format->sessions->parse(hf__client_layout(service->client), &exchange->arena, answer->has_item,
                            answer->item, &record);
    struct hf_interval now = hf__service_time(service);
    bool is_own = hf__slice_is(record.owner, exchange->caller.owner) || is_admin(exchange);
    /* The expiry is the latest moment: it was written from the high end of the store's time. */
    int64_t doubt_ms = service->store->embedded ? 0 : DOUBT_MS;
    int64_t left_ms = record.liveness.expires_unix_ms - (now.hi_unix_us + 999) / 1000 - doubt_ms -
                      record.liveness.lease_ms / 100;
    bool is_over = now.known && record.liveness.expires_unix_ms &&
                   record.liveness.expires_unix_ms * 1000 <= now.lo_unix_us;
    if (left_ms < 0) left_ms = 0;
    if (!record.exists || record.damaged || !is_own || is_over) {
        answer_ended(exchange);
        return;
    }
    struct hf_session_entry *entry = hf__session_entry_find(service, exchange->parts[2].ptr, NULL);
    struct names names = {.json = &json};
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "session", exchange->parts[2].ptr);
    hf__json_put_name(&json, "owner");
    hf__json_put_string(&json, record.owner);
    if (record.instance.len) {
        hf__json_put_name(&json, "instance");
        hf__json_put_string(&json, record.instance);
    }
    hf__put_number(&json, "lease_ms", record.liveness.lease_ms);
    if (now.known)
        hf__put_number(&json, "left_ms", hf__left_for_caller(left_ms, record.liveness.lease_ms));
    hf__json_put_name(&json, "locks");
    hf__json_open(&json, '[');
    if (entry) hf__entries_of(entry, put_name, &names);
    hf__json_close(&json, ']');
    hf__answer_end(exchange, &json);
    hf__session_entry_unref(entry);
}

void hf__v2_session_get(struct hf_exchange *exchange)
{
    struct hf_client *client = exchange->service->client;
    const struct hf_format *format = hf__client_format(client);
    struct hf_id secret, id;
    exchange->secret = exchange->parts[2].ptr;
    if (!format->sessions || !hf__id_parse(exchange->parts[2], &secret)) {
        answer_ended(exchange);
        return;
    }
    hf__id_of_secret(&secret, &id);
    struct hf_op op;
    format->sessions->read(hf__client_layout(client), &exchange->arena,
                           hf__id_text(&exchange->arena, &id), &op);
    hf__exchange_run(exchange, &op, was_read);
}

/* ---- renewing and ending ---- */

static void renewed(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct hf_session_entry *entry = exchange->user;
    exchange->user = NULL;
    if (code == HF_ERR_LOST) { /* lost here: the record decides */
        hf__session_entry_unlist(entry);
        hf__session_adopt_for(exchange, entry->id, entry->owner, hf__v2_session_renew);
    } else if (code != 0) {
        hf__answer_failure(exchange, code, error);
    } else {
        answer(exchange, entry);
    }
    hf__session_entry_unref(entry);
}

void hf__v2_session_renew(struct hf_exchange *exchange)
{
    struct hf_v2_body body;
    struct hf_error error;
    if (!hf__v2_read(exchange, 0, &body)) return;
    struct hf_session_entry *entry = find(exchange, false, hf__v2_session_renew);
    if (!entry) return;
    if (exchange->has_adopted) { /* which was a renewal */
        answer(exchange, entry);
        hf__session_entry_unref(entry);
        return;
    }
    exchange->user = entry;
    int code = hf__session_renew(entry->session, renewed, exchange, &error);
    if (code != 0) renewed(exchange, code, &error);
}

static void ended(void *user, int code, const struct hf_error *error)
{
    struct hf_exchange *exchange = user;
    struct hf_session_entry *entry = exchange->user;
    struct hf_json_writer json;
    exchange->user = NULL;
    if (code == 0 || code == HF_ERR_LOST) hf__session_entry_unlist(entry);
    if (code == 0) {
        hf__answer_begin(exchange, 200, &json);
        hf__put_text(&json, "session", entry->id);
        hf__put_bool(&json, "ended", true);
        hf__answer_end(exchange, &json);
    } else if (code == HF_ERR_LOST) {
        hf__session_adopt_for(exchange, entry->id, entry->owner, hf__v2_session_end);
    } else {
        hf__answer_failure(exchange, code, error);
    }
    hf__session_entry_unref(entry);
}

void hf__v2_session_end(struct hf_exchange *exchange)
{
    struct hf_v2_body body;
    struct hf_error error;
    if (!hf__v2_read(exchange, 0, &body)) return;
    struct hf_session_entry *entry = find(exchange, true, hf__v2_session_end);
    if (!entry) return;
    exchange->user = entry;
    int code = hf__session_close(entry->session, ended, exchange, &error);
    if (code != 0) ended(exchange, code, &error);
}
