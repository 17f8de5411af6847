/* Counters and histograms, updated by any thread without waiting. */
#ifndef HF_SERVICE_METRIC_H
#define HF_SERVICE_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "holdfast.h"

enum { HF_METRIC_BUCKETS = 14, HF_METRIC_ROUTES = 40, HF_METRIC_CLASSES = 5 };

struct hf_histogram {
    uint64_t counts[HF_METRIC_BUCKETS + 1];
    uint64_t sum_us;
};

struct hf_metrics {
    uint64_t requests[HF_METRIC_ROUTES][HF_METRIC_CLASSES]; /* 1xx to 5xx */
    struct hf_histogram latency[HF_METRIC_ROUTES];
    struct hf_histogram store;      /* all operations of this service at the store */
    struct hf_histogram queue_time; /* of acquires that were granted */
    uint64_t store_errors;
    uint64_t grants;
    uint64_t takeovers;
    uint64_t given_back; /* grants that no caller received */
    uint64_t ended[HF_REASON_COUNT];
    uint64_t refused_auth;
    uint64_t refused_limit;
    uint64_t dropped_slow;
    uint64_t events;
    int64_t connections;
    int64_t waiters;
    int64_t locks_held;
    int64_t sessions;
    int64_t streams;
    int64_t peers;
    int64_t data_bytes;       /* stored with locks that are held or asked for */
    int64_t store_us;         /* how long the store took lately, on average */
    int64_t store_failing_us; /* since when it has only failed, on the boot clock; 0: it answers */
};

static inline void hf__count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline void hf__gauge(int64_t *gauge, int64_t by)
{
    __atomic_fetch_add(gauge, by, __ATOMIC_RELAXED);
}

/* route -1: none. */
void hf__metric_request(struct hf_metrics *metrics, ptrdiff_t route, int status, int64_t us);
void hf__observe(struct hf_histogram *histogram, int64_t us);
/* The store has answered. */
void hf__metric_store(struct hf_metrics *metrics, int64_t took_us, bool failed, int64_t now_us);

/* ---- process.c ---- */

void hf__process_put(struct hf_buf *buf, int64_t started_unix_s);

#endif
