/* How many requests per second a caller may make, and all callers together. */
#ifndef HF_SERVICE_LIMIT_H
#define HF_SERVICE_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hf_service;

/* Takes one from the caller's share; false if there is none left. */
bool hf__limit_allows(struct hf_service *service, const char *owner);

/* The same for a call that is not let in, which takes nothing from those that are. */
bool hf__limit_allows_refused(struct hf_service *service, const char *address);

/* Which of so many places a name or an address has; strangers cannot aim at it. */
size_t hf__limit_place(const struct hf_service *service, const char *text, size_t places);

/* Callers share a bucket if their hashes collide: with so many, seldom. */
enum { HF_RATE_BUCKETS = 4096 };

/* Where a caller's waiters are counted. */
int32_t *hf__limit_waiting(struct hf_service *service, const char *owner);

/* A bucket that fills at `rate` per second, to one second's worth. Pure. */
struct hf_bucket {
    int64_t level_us; /* how much time is in it: a request takes 1 s / rate */
    int64_t at_us;
};
struct hf_rates {
    uint64_t key[2]; /* of the hash */
    pthread_mutex_t mutex;
    struct hf_bucket all;
    struct hf_bucket of_caller[HF_RATE_BUCKETS];
    struct hf_bucket all_refused;
    struct hf_bucket refused_of[HF_RATE_BUCKETS]; /* by address */
    int32_t waiting[HF_RATE_BUCKETS]; /* atomic: acquires of a caller that are not answered */
};
bool hf__bucket_take(struct hf_bucket *bucket, int64_t rate, int64_t now_us);

#endif
