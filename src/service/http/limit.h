/* Limits: requests per second, of one caller and of all; and what one caller may have. */
#ifndef HF_SERVICE_HTTP_LIMIT_H
#define HF_SERVICE_HTTP_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hf_exchange;
struct hf_service;

/* Takes one from the caller's share; false if there is none left. */
bool hf__limit_allows(struct hf_service *service, const char *owner);

/* The same for a call that is not authenticated, which takes nothing from those that are. */
bool hf__limit_allows_refused(struct hf_service *service, const char *address);

/* The bucket, below `places`, of a name or an address; strangers cannot aim at one. */
size_t hf__limit_place(const struct hf_service *service, const char *text, size_t places);

/* Callers share a bucket if their hashes collide: with this number, rarely. */
enum { HF_RATE_BUCKETS = 4096 };

/* What a caller may have at a time. */
enum hf_budget {
    HF_BUDGET_WAITERS, /* acquires that are not answered yet */
    HF_BUDGET_SESSIONS,
    HF_BUDGET_STREAMS,
    HF_BUDGET_LOCKS, /* held through v2, or asked for */
    HF_BUDGET_DATA,  /* bytes stored with those locks */
    HF_BUDGETS,
};

/* False: the caller would exceed its budget; nothing was taken. */
bool hf__budget_take(struct hf_service *service, enum hf_budget what, const char *owner,
                     int64_t amount);
void hf__budget_give(struct hf_service *service, enum hf_budget what, const char *owner,
                     int64_t amount);

/* Answers 429, and counts it. */
void hf__answer_too_many(struct hf_exchange *exchange, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A bucket that fills at `rate` per second, to one second's worth. Pure. */
struct hf_bucket {
    int64_t level_us; /* time in the bucket: a request takes 1 s / rate */
    int64_t at_us;
};
struct hf_rates {
    uint64_t key[2]; /* of the hash */
    pthread_mutex_t mutex;
    struct hf_bucket all;
    struct hf_bucket of_caller[HF_RATE_BUCKETS];
    struct hf_bucket all_refused;
    struct hf_bucket refused_of[HF_RATE_BUCKETS]; /* by address */
    int64_t has[HF_BUDGETS][HF_RATE_BUCKETS];     /* atomic */
};
bool hf__bucket_take(struct hf_bucket *bucket, int64_t rate, int64_t now_us);

#endif
