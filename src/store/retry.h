/*
 * When to try again: the "standard" mode of AWS's clients. Delays grow with
 * full jitter; a bucket of tokens, shared by all requests of a client, stops
 * retries from adding to an outage.
 */
#ifndef HF_STORE_RETRY_H
#define HF_STORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HF_RETRY_ATTEMPTS = 4,
    HF_RETRY_BUCKET = 500,
    HF_RETRY_COST = 14,
    HF_RETRY_THROTTLE_COST = 5,
    HF_RETRY_REFUND = 1, /* for a success without a retry */
    HF_RETRY_BASE_MS = 25,
    HF_RETRY_THROTTLE_BASE_MS = 1000,
    HF_RETRY_LONGEST_MS = 20000,
};

struct hf_retry_bucket {
    int tokens;
};

void hf__retry_init(struct hf_retry_bucket *bucket);

/* Takes the tokens for one more attempt; false if the bucket has too few. */
bool hf__retry_take(struct hf_retry_bucket *bucket, bool throttled);

/* After a success: gives back what its last retry cost (0: there was none). */
void hf__retry_refund(struct hf_retry_bucket *bucket, int cost);

int hf__retry_cost(bool throttled);

/* How long to wait before attempt n + 1; `unit` is random in [0, 1). `asked_ms` is the server's
 * wish, or 0. */
int64_t hf__retry_delay_us(int attempts_made, bool throttled, double unit, int64_t asked_ms);

#endif
