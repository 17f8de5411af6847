/*
 * Changes of locks as they happen: a ring of the last few thousand events, and the streams of
 * listeners (Server-Sent Events).
 *
 * Changes made by this service are reported at once. Changes made by others are found by reading
 * the table at intervals, while there are listeners.
 *
 * Invariants
 * N1  Events are numbered without gaps. A listener gets each one once, in order, or is told that
 *     it has missed some ("reset").
 * N2  A change that this service has reported is not reported again when the table is read.
 */
#ifndef HF_SERVICE_API_EVENT_H
#define HF_SERVICE_API_EVENT_H

#include <sys/types.h>

#include "service/http/exchange.h"

struct hf_events;
struct hf_stream;

struct hf_change {
    const char *type; /* granted, renewed, released, lost, forced, queue */
    const char *lock;
    const char *owner; /* NULL: not given, like the following */
    const char *instance;
    int64_t token;
    bool shared;
    const char *reason; /* of a loss: its name; of a force-release: the reason given */
    const char *detail;
    const char *by; /* who force-released it */
    int64_t lease_ms;
    int64_t expires_unix_ms; /* 0: not known */
    int64_t waiters;         /* of type queue */
    const char *api;         /* NULL: v2 */
};

int hf__events_start(struct hf_service *service, int64_t look_ms, struct hf_events **ret,
                     struct hf_error *reterr);
/* Ends the streams; they must be gone before hf__events_stop. */
void hf__events_drain(struct hf_events *events);
/* Ends the streams and tells listeners why; they reconnect and are authenticated again. */
void hf__events_end_streams(struct hf_events *events, const char *why);
/* Stops reading the table; locks may still end. */
void hf__events_halt(struct hf_events *events);
void hf__events_stop(struct hf_events *events);

void hf__event(struct hf_events *events, const struct hf_change *what);
/* Whether there are listeners: events of interest to listeners only can be skipped otherwise. */
bool hf__events_heard(const struct hf_events *events);

/* For the server: up to `size` bytes; 0: nothing now; -1: it has ended. */
ssize_t hf__stream_read(struct hf_stream *stream, char *room, size_t size);
void hf__stream_close(struct hf_stream *stream);
/* server.c: reads the stream again. */
void hf__exchange_wake(struct hf_exchange *exchange);

#endif
