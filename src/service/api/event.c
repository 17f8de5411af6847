#include "service/api/event.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "service/service.h"

enum {
    KEPT = 4096, /* events; a power of two */
    KNOWN_MAX = 20000,
    BUCKETS = 4096,
    KEEP_ALIVE_US = 15 * 1000000,
    PAGE = 100,
    OUT_MAX = 256 * 1024,  /* one event */
    OUT_ENOUGH = 8 * 1024, /* of several */
    SEND_BUFFER = 32 * 1024,
    BUSY_US = 1000000,
    WAKE_EVERY_MS = 2,
    LOOKED_AT_MOST = 256, /* streams to be woken that are examined at a time */
    TRIM_EVERY_US = 30 * 1000000,
};

struct event {
    struct hf_change what; /* its texts are in `texts`; type and api are constants */
    int64_t at_unix_ms;
    struct hf_buf line; /* as sent to streams; formatted when first needed */
    char texts[];
};

/* A lock as last reported. */
struct known {
    struct known *next;
    int64_t token;
    int64_t expires_unix_ms;
    int64_t told_us; /* our clock */
    uint64_t round;  /* the last read of the table that found it */
    bool held;
    char *owner;
    char name[];
};

struct hf_events {
    struct hf_service *service;
    int64_t look_ms;
    char epoch[17]; /* of this process; ids of another one are not valid here */
    pthread_t thread;
    bool has_thread;
    int listeners; /* atomic */

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct event *ring[KEPT]; /* NULL: out of memory for this event */
    uint64_t last;            /* the number of the newest; the first is 1 */
    struct hf_list streams;
    struct hf_list asleep; /* streams that have been sent everything … */
    struct hf_list due;    /* … and streams to be woken, within the time budget */
    int64_t paid_us;       /* until when waking has used up its time budget */
    int64_t looked_after_us;
    struct known *known[BUCKETS];
    size_t known_count;
    bool has_known; /* the table has been read since there are listeners */
    uint64_t round;
    bool draining;
    bool stopping;
};

struct hf_stream {
    struct hf_list node;
    struct hf_list sleeper; /* asleep or due; in neither while it has something to send */
    struct hf_events *events;
    struct hf_exchange *exchange;
    uint64_t at; /* the last event it was sent */
    bool missed; /* some are no longer in the ring */
    bool ended;
    const char *expired; /* why it is to end, as sent to the listener; NULL: it is not */
    int64_t spoke_us;
    int64_t read_us; /* when it last asked for more to send */
    char *prefix;
    struct hf_buf out;
    size_t out_at;
};

/* ---- known locks ---- */

static struct known **bucket_of(struct hf_events *events, const char *name)
{
    return &events->known[hf__hash_text(name, BUCKETS)];
}

static struct known *find(struct hf_events *events, const char *name)
{
    struct known *known = *bucket_of(events, name);
    while (known && strcmp(known->name, name) != 0) known = known->next;
    return known;
}

static struct known *find_or_add(struct hf_events *events, const char *name)
{
    struct known *known = find(events, name);
    if (known || events->known_count >= KNOWN_MAX) return known;
    struct known **bucket = bucket_of(events, name);
    size_t len = strlen(name);
    known = hf__calloc(1, sizeof *known + len + 1);
    if (!known) return NULL;
    memcpy(known->name, name, len);
    known->next = *bucket;
    *bucket = known;
    events->known_count++;
    return known;
}

static void forget_if(struct hf_events *events, uint64_t before)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct known **at = &events->known[i]; *at;) {
            struct known *known = *at;
            if (known->round >= before || known->held) {
                at = &known->next;
                continue;
            }
            *at = known->next;
            hf__free(known->owner);
            hf__free(known);
            events->known_count--;
        }
    }
}

static void note(struct hf_events *events, struct known *known, const struct hf_change *what)
{
    known->held = strcmp(what->type, "granted") == 0 || strcmp(what->type, "renewed") == 0;
    if (what->token) known->token = what->token;
    known->expires_unix_ms = what->expires_unix_ms;
    known->told_us = hf__service_now_us(events->service);
    known->round = events->round;
    if (what->owner) {
        hf__free(known->owner);
        known->owner = hf__strdup(what->owner);
    }
}

/* Until the table has been read nothing is known, and need not be. */
static void remember(struct hf_events *events, const struct hf_change *what)
{
    if (!events->has_known || strcmp(what->type, "queue") == 0) return;
    struct known *known = find_or_add(events, what->lock);
    if (known) note(events, known, what);
}

/* ---- reporting ---- */

static void copy_text(const char **text, char **at)
{
    if (!*text) return;
    size_t size = strlen(*text) + 1;
    memcpy(*at, *text, size);
    *text = *at;
    *at += size;
}

/* Most events have no listener: they are formatted only when a stream sends them. */
static struct event *keep_event(struct hf_events *events, const struct hf_change *what)
{
    const char *texts[] = {what->lock,   what->owner,  what->instance,
                           what->reason, what->detail, what->by};
    size_t size = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    struct event *event = hf__malloc(sizeof *event + size);
    if (!event) return NULL;
    struct hf_interval now = hf__service_time(events->service);
    char *at = event->texts;
    hf__buf_init(&event->line, OUT_MAX);
    event->what = *what;
    event->at_unix_ms = now.known ? now.lo_unix_us / 1000 : 0;
    copy_text(&event->what.lock, &at);
    copy_text(&event->what.owner, &at);
    copy_text(&event->what.instance, &at);
    copy_text(&event->what.reason, &at);
    copy_text(&event->what.detail, &at);
    copy_text(&event->what.by, &at);
    return event;
}

static void event_free(struct event *event)
{
    if (!event) return;
    hf__buf_free(&event->line);
    hf__free(event);
}

static void put_json(struct hf_buf *buf, const struct event *event)
{
    const struct hf_change *what = &event->what;
    struct hf_json_writer json;
    hf__json_writer_init(&json, buf);
    hf__json_open(&json, '{');
    hf__put_text(&json, "type", what->type);
    hf__put_text(&json, "name", what->lock);
    hf__put_number(&json, "at_unix_ms", event->at_unix_ms);
    if (what->owner) hf__put_text(&json, "owner", what->owner);
    if (what->instance) hf__put_text(&json, "instance", what->instance);
    if (what->token) hf__put_number(&json, "token", what->token);
    if (what->shared) hf__put_text(&json, "mode", "shared");
    if (what->by) hf__put_text(&json, "by", what->by);
    if (what->reason) hf__put_text(&json, "reason", what->reason);
    if (what->detail) hf__put_text(&json, "detail", what->detail);
    if (what->lease_ms) hf__put_number(&json, "lease_ms", what->lease_ms);
    if (what->expires_unix_ms) hf__put_number(&json, "expires_unix_ms", what->expires_unix_ms);
    if (strcmp(what->type, "queue") == 0) hf__put_number(&json, "waiters", what->waiters);
    if (what->api) hf__put_text(&json, "api", what->api);
    hf__json_close(&json, '}');
}

static bool is_for(const struct hf_stream *stream, const char *lock)
{
    if (stream->prefix && strncmp(lock, stream->prefix, strlen(stream->prefix)) != 0) return false;
    return hf__may(stream->exchange, HF_RIGHT_READ, hf__slice_str(lock));
}

/* Waking a stream costs system calls. The budget is 5,000 a second, ten at once; beyond it, events
 * are sent later. */
static bool has_time(struct hf_events *events)
{
    enum { PRICE_US = 200, BURST_US = 2000 };
    int64_t now_us = hf__service_now_us(events->service);
    int64_t paid_us = events->paid_us > now_us ? events->paid_us : now_us;
    if (paid_us + PRICE_US - now_us > BURST_US) return false;
    events->paid_us = paid_us + PRICE_US;
    return true;
}

/* Skips events that are not for this stream. False: there is nothing to send. */
static bool has_news(struct hf_events *events, struct hf_stream *stream)
{
    for (; stream->at < events->last; stream->at++) {
        bool gone = events->last - stream->at > KEPT;
        const struct event *next = gone ? NULL : events->ring[(stream->at + 1) % KEPT];
        if (!next || is_for(stream, next->what.lock)) return true;
    }
    return false;
}

/* Wakes those that have waited longest, as far as the budget allows; the rest later. */
static void wake_due(struct hf_events *events)
{
    for (int i = 0; i < LOOKED_AT_MOST && !hf__list_empty(&events->due); i++) {
        struct hf_stream *stream = HF_CONTAINER(events->due.next, struct hf_stream, sleeper);
        bool news = has_news(events, stream);
        if (news && !has_time(events)) return;
        hf__list_remove(&stream->sleeper);
        if (news) hf__exchange_wake(stream->exchange);
        else hf__list_append(&events->asleep, &stream->sleeper);
    }
}

/* With the mutex. */
static void tell(struct hf_events *events, const struct hf_change *what)
{
    struct event **place = &events->ring[++events->last % KEPT];
    event_free(*place);
    *place = keep_event(events, what); /* NULL: listeners are told to read again */
    hf__count(&events->service->metrics.events);
    bool crowd = !hf__list_empty(&events->due);
    hf__list_splice(&events->due, &events->asleep);
    wake_due(events);
    if (!crowd && !hf__list_empty(&events->due)) pthread_cond_signal(&events->wake);
}

void hf__event(struct hf_events *events, const struct hf_change *what)
{
    if (!events) return;
    bool passing = strcmp(what->type, "renewed") == 0 || strcmp(what->type, "queue") == 0;
    if (passing && !hf__events_heard(events)) return;
    pthread_mutex_lock(&events->mutex);
    remember(events, what);
    tell(events, what);
    pthread_mutex_unlock(&events->mutex);
}

bool hf__events_heard(const struct hf_events *events)
{
    return events && __atomic_load_n(&events->listeners, __ATOMIC_RELAXED) > 0;
}

/* ---- reading the table ---- */

/* With the mutex: compares what was read with what was last reported. */
static void compare(struct hf_events *events, const struct hf_lock_info *info, int64_t began_us)
{
    struct known *known = find_or_add(events, info->name);
    if (!known) return;
    bool is_new = known->round == 0 && known->told_us == 0;
    known->round = events->round;
    if (known->told_us >= began_us) return; /* what was read may be older than the report */
    bool other = info->token != known->token ||
                 strcmp(info->owner ? info->owner : "", known->owner ? known->owner : "") != 0;
    struct hf_change what = {
        .type = info->held                       ? "granted"
                : info->state == HF_LOCK_EXPIRED ? "expired"
                                                 : "released",
        .lock = info->name,
        .owner = info->owner,
        .instance = info->instance,
        .token = info->token,
        .shared = info->shared,
        .lease_ms = info->lease_ms,
        .expires_unix_ms = info->expires_unix_ms,
    };
    bool tells = info->held != known->held || (info->held && other);
    /* Some formats keep whole seconds. */
    int64_t moved_ms = info->expires_unix_ms - known->expires_unix_ms;
    if (!tells && info->held && (moved_ms > 1000 || moved_ms < -1000)) {
        what.type = "renewed";
        tells = true;
    }
    if (is_new && (!events->has_known || !info->held)) tells = false; /* the initial state */
    note(events, known, &what);
    known->told_us = 0;
    if (tells) tell(events, &what);
}

/* Held locks that were not found have been deleted. */
static void miss(struct hf_events *events, int64_t began_us)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct known *known = events->known[i]; known; known = known->next) {
            if (!known->held || known->round == events->round || known->told_us >= began_us)
                continue;
            known->held = false;
            tell(events, &(struct hf_change){.type = "released",
                                             .lock = known->name,
                                             .owner = known->owner,
                                             .token = known->token,
                                             .detail = "its record is gone"});
        }
    }
}

static void look(struct hf_events *events)
{
    struct hf_service *service = events->service;
    int64_t began_us = hf__service_now_us(service);
    char *cursor = NULL;
    bool complete = false;
    pthread_mutex_lock(&events->mutex);
    events->round++;
    pthread_mutex_unlock(&events->mutex);
    for (size_t seen = 0; seen < KNOWN_MAX;) {
        struct hf_list_options options = {.size = sizeof options, .cursor = cursor, .limit = PAGE};
        struct hf_list_page *page;
        if (hf_list(service->client, &options, &page, NULL) != 0) break;
        pthread_mutex_lock(&events->mutex);
        for (size_t i = 0; i < page->count; i++) compare(events, &page->locks[i], began_us);
        wake_due(events);
        pthread_mutex_unlock(&events->mutex);
        hf__free(cursor);
        cursor = page->cursor ? hf__strdup(page->cursor) : NULL;
        complete = page->cursor == NULL;
        bool more = cursor != NULL;
        seen += page->count + 1; /* a page may be empty */
        hf_list_page_free(page);
        if (!more) break;
    }
    hf__free(cursor);
    pthread_mutex_lock(&events->mutex);
    if (complete) {
        if (events->has_known) miss(events, began_us);
        events->has_known = true;
        forget_if(events, events->round);
    }
    pthread_mutex_unlock(&events->mutex);
}

static void end_stream(struct hf_stream *stream, const char *why)
{
    if (!stream->expired) stream->expired = why;
    hf__exchange_wake(stream->exchange);
}

void hf__events_end_streams(struct hf_events *events, const char *why)
{
    pthread_mutex_lock(&events->mutex);
    for (struct hf_list *at = events->streams.next; at != &events->streams; at = at->next)
        end_stream(HF_CONTAINER(at, struct hf_stream, node), why);
    pthread_mutex_unlock(&events->mutex);
}

/* Serves streams that have been silent for long, whose token has expired, or whose listener does
 * not read. */
static void look_after(struct hf_events *events)
{
    int64_t now_us = hf__service_now_us(events->service);
    int64_t late_us = KEEP_ALIVE_US + events->service->limits.request_ms * 1000;
    int64_t wall_s = hf__clock_wall_us(events->service->store->clock) / 1000000;
    if (now_us - events->looked_after_us < BUSY_US) return;
    events->looked_after_us = now_us;
    for (struct hf_list *at = events->streams.next; at != &events->streams; at = at->next) {
        struct hf_stream *stream = HF_CONTAINER(at, struct hf_stream, node);
        int64_t until_s = stream->exchange->caller.until_s;
        if (now_us - stream->read_us >= late_us) hf__exchange_cut_off(stream->exchange);
        else if (until_s && wall_s >= until_s) end_stream(stream, "token-expired");
        else if (now_us - stream->spoke_us >= KEEP_ALIVE_US) hf__exchange_wake(stream->exchange);
    }
}

static void *run(void *user)
{
    struct hf_events *events = user;
    int64_t look_at_us = 0; /* the table is not read more often than this, whoever listens */
    int64_t trim_at_us = hf__service_now_us(events->service) + TRIM_EVERY_US;
    pthread_mutex_lock(&events->mutex);
    while (!events->stopping) {
        bool heard = !hf__list_empty(&events->streams);
        int64_t now_us = hf__service_now_us(events->service);
        if (heard && now_us >= look_at_us) {
            look_at_us = now_us + events->look_ms * 1000;
            pthread_mutex_unlock(&events->mutex);
            look(events);
            pthread_mutex_lock(&events->mutex);
            look_after(events);
        } else if (heard) {
            look_after(events);
        } else if (events->has_known) { /* no listeners: the next one begins with a new read */
            for (size_t i = 0; i < BUCKETS; i++) {
                for (struct known *known = events->known[i]; known; known = known->next)
                    known->held = false;
            }
            forget_if(events, UINT64_MAX);
            events->has_known = false;
        }
        if (events->stopping) break;
        wake_due(events);
        if (now_us >= trim_at_us) { /* returns memory that an attack may have made us allocate */
            trim_at_us = now_us + TRIM_EVERY_US;
            malloc_trim(0);
        }
        int64_t left_ms = (look_at_us - hf__service_now_us(events->service)) / 1000 + 1;
        if (left_ms > BUSY_US / 1000) left_ms = BUSY_US / 1000;
        if (!hf__list_empty(&events->due) && left_ms > WAKE_EVERY_MS) left_ms = WAKE_EVERY_MS;
        struct timespec until = hf__deadline_in(!heard        ? TRIM_EVERY_US / 1000
                                                : left_ms > 0 ? left_ms
                                                              : 0);
        pthread_cond_timedwait(&events->wake, &events->mutex, &until);
    }
    pthread_mutex_unlock(&events->mutex);
    return NULL;
}

/* ---- streams ---- */

/* Formatted once for all streams. */
static struct hf_slice line_of(const struct hf_events *events, struct event *event, uint64_t number)
{
    struct hf_buf *line = &event->line;
    if (line->len > 0) return hf__buf_view(line);
    hf__buf_printf(line, "id: %s-%" PRIu64 "\nevent: %s\ndata: ", events->epoch, number,
                   event->what.type);
    put_json(line, event);
    hf__buf_str(line, "\n\n");
    if (line->failed) hf__buf_free(line);
    return hf__buf_view(line);
}

/* Adds the whole event, or marks it as missed. */
static void put_event(struct hf_stream *stream, struct event *event)
{
    struct hf_buf *out = &stream->out;
    size_t begin = out->len;
    struct hf_slice line = line_of(stream->events, event, stream->at);
    hf__buf_slice(out, line);
    if (line.len > 0 && !out->failed) return;
    out->len = begin;
    out->failed = false;
    stream->missed = true;
}

/* With the mutex: fills in the news, as text/event-stream. */
static void fill(struct hf_stream *stream)
{
    struct hf_events *events = stream->events;
    int64_t now_us = hf__service_now_us(events->service);
    uint64_t oldest = events->last >= KEPT ? events->last - KEPT + 1 : 1;
    hf__buf_clear(&stream->out);
    stream->out_at = 0;
    if (stream->at + 1 < oldest) stream->missed = true;
    while (!stream->missed && stream->at < events->last && stream->out.len < OUT_ENOUGH) {
        struct event *event = events->ring[++stream->at % KEPT];
        if (!event) stream->missed = true;
        else if (is_for(stream, event->what.lock)) put_event(stream, event);
    }
    if (stream->missed) {
        hf__buf_printf(&stream->out, "id: %s-%" PRIu64 "\nevent: reset\ndata: {}\n\n",
                       events->epoch, events->last);
        stream->missed = false;
        stream->at = events->last;
    }
    if (stream->expired && !stream->ended) {
        hf__buf_printf(&stream->out, "event: end\ndata: {\"reason\":\"%s\"}\n\n", stream->expired);
        stream->ended = true;
    }
    if (stream->out.len == 0 && now_us - stream->spoke_us >= KEEP_ALIVE_US)
        hf__buf_str(&stream->out, ":\n\n");
    if (stream->out.len > 0) stream->spoke_us = now_us;
}

ssize_t hf__stream_read(struct hf_stream *stream, char *room, size_t size)
{
    struct hf_events *events = stream->events;
    pthread_mutex_lock(&events->mutex);
    hf__list_remove(&stream->sleeper);
    stream->read_us = hf__service_now_us(events->service);
    if (stream->out_at >= stream->out.len) fill(stream);
    size_t left = stream->out.len - stream->out_at;
    if (left > size) left = size;
    if (left > 0) memcpy(room, stream->out.data + stream->out_at, left);
    stream->out_at += left;
    bool ended = stream->ended || events->draining || stream->out.failed;
    if (left == 0 && !ended) hf__list_append(&events->asleep, &stream->sleeper);
    pthread_mutex_unlock(&events->mutex);
    return left > 0 ? (ssize_t)left : ended ? -1 : 0;
}

void hf__stream_close(struct hf_stream *stream)
{
    struct hf_events *events = stream->events;
    pthread_mutex_lock(&events->mutex);
    hf__list_remove(&stream->node);
    hf__list_remove(&stream->sleeper);
    pthread_mutex_unlock(&events->mutex);
    __atomic_fetch_sub(&events->listeners, 1, __ATOMIC_RELAXED);
    hf__gauge(&events->service->metrics.streams, -1);
    hf__budget_give(events->service, HF_BUDGET_STREAMS, stream->exchange->caller.owner, 1);
    hf__buf_free(&stream->out);
    hf__free(stream->prefix);
    hf__free(stream);
}

static void gone(struct hf_exchange *exchange)
{
    struct hf_events *events = exchange->stream->events;
    pthread_mutex_lock(&events->mutex);
    exchange->stream->ended = true;
    pthread_mutex_unlock(&events->mutex);
    hf__exchange_wake(exchange);
}

/* "epoch-number", as sent by us; "0": all events in the ring. */
static void resume(struct hf_stream *stream, const char *id)
{
    struct hf_events *events = stream->events;
    size_t len = strlen(events->epoch);
    int64_t number;
    stream->at = events->last;
    if (!id) return;
    if (strcmp(id, "0") == 0) {
        stream->at = events->last >= KEPT ? events->last - KEPT : 0;
    } else if (strncmp(id, events->epoch, len) == 0 && id[len] == '-' &&
               hf__parse_int64(hf__slice_str(id + len + 1), &number) && number >= 0 &&
               (uint64_t)number <= events->last) {
        stream->at = (uint64_t)number;
    } else {
        stream->missed = true;
    }
}

void hf__v2_events(struct hf_exchange *exchange)
{
    struct hf_events *events = exchange->service->events;
    struct hf_stream *stream = hf__calloc(1, sizeof *stream);
    const char *id = hf__exchange_header(exchange, "Last-Event-ID");
    const char *prefix = hf__exchange_query(exchange, "prefix");
    if (!id) id = hf__exchange_query(exchange, "last_event_id");
    if (prefix && strlen(prefix) > 1024) {
        hf__free(stream);
        hf__answer_error(exchange, 400, "invalid", "\"prefix\": must have at most 1024 bytes");
        return;
    }
    if (stream && prefix && *prefix) stream->prefix = hf__strdup(prefix);
    if (!stream || (prefix && *prefix && !stream->prefix)) {
        hf__free(stream);
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    if (!hf__budget_take(exchange->service, HF_BUDGET_STREAMS, exchange->caller.owner, 1)) {
        hf__free(stream->prefix);
        hf__free(stream);
        hf__answer_too_many(exchange, "too-many-streams", "at most %lld streams per owner",
                            (long long)exchange->service->limits.per_caller[HF_BUDGET_STREAMS]);
        return;
    }
    stream->events = events;
    stream->exchange = exchange;
    stream->spoke_us = stream->read_us = hf__service_now_us(exchange->service);
    hf__list_init(&stream->sleeper);
    hf__buf_init(&stream->out, OUT_MAX);
    hf__buf_str(&stream->out, "retry: 2000\n\n");
    exchange->content_type = "text/event-stream";
    exchange->status = 200;
    exchange->stream = stream;
    pthread_mutex_lock(&events->mutex);
    resume(stream, id);
    if (hf__list_empty(&events->streams)) pthread_cond_signal(&events->wake); /* start reading */
    hf__list_append(&events->streams, &stream->node);
    pthread_mutex_unlock(&events->mutex);
    __atomic_fetch_add(&events->listeners, 1, __ATOMIC_RELAXED);
    hf__gauge(&exchange->service->metrics.streams, 1);
    exchange->gone = gone;
    /* Unread events wait in this process, not in the socket's buffer. */
    hf__exchange_send_buffer(exchange, SEND_BUFFER);
    hf__exchange_done(exchange);
}

/* ---- life ---- */

int hf__events_start(struct hf_service *service, int64_t look_ms, struct hf_events **ret,
                     struct hf_error *reterr)
{
    struct hf_events *events = hf__calloc(1, sizeof *events);
    if (!events) return hf__error_no_memory(reterr);
    unsigned char bytes[8];
    hf__random_bytes(bytes, sizeof bytes);
    hf__hex_encode(bytes, sizeof bytes, events->epoch);
    events->service = service;
    events->look_ms = look_ms;
    hf__list_init(&events->streams);
    hf__list_init(&events->asleep);
    hf__list_init(&events->due);
    pthread_mutex_init(&events->mutex, NULL);
    hf__cond_init(&events->wake);
    if (hf__thread_create(&events->thread, run, events) != 0) {
        hf__events_stop(events);
        return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread");
    }
    events->has_thread = true;
    *ret = events;
    return 0;
}

void hf__events_drain(struct hf_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->draining = true;
    for (struct hf_list *at = events->streams.next; at != &events->streams; at = at->next)
        hf__exchange_wake(HF_CONTAINER(at, struct hf_stream, node)->exchange);
    pthread_mutex_unlock(&events->mutex);
}

void hf__events_halt(struct hf_events *events)
{
    if (!events || !events->has_thread) return;
    pthread_mutex_lock(&events->mutex);
    events->stopping = true;
    pthread_cond_signal(&events->wake);
    pthread_mutex_unlock(&events->mutex);
    pthread_join(events->thread, NULL);
    events->has_thread = false;
}

void hf__events_stop(struct hf_events *events)
{
    if (!events) return;
    hf__events_halt(events);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct known *known = events->known[i]; known; known = known->next)
            known->held = false;
    }
    forget_if(events, UINT64_MAX);
    for (size_t i = 0; i < KEPT; i++) event_free(events->ring[i]);
    pthread_cond_destroy(&events->wake);
    pthread_mutex_destroy(&events->mutex);
    hf__free(events);
}
