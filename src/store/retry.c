#include "store/retry.h"

void hf__retry_init(struct hf_retry_bucket *bucket)
{
    bucket->tokens = HF_RETRY_BUCKET;
}

int hf__retry_cost(bool throttled)
{
    return throttled ? HF_RETRY_THROTTLE_COST : HF_RETRY_COST;
}

bool hf__retry_take(struct hf_retry_bucket *bucket, bool throttled)
{
    int cost = hf__retry_cost(throttled);
    if (bucket->tokens < cost) return false;
    bucket->tokens -= cost;
    return true;
}

void hf__retry_refund(struct hf_retry_bucket *bucket, int cost)
{
    bucket->tokens += cost ? cost : HF_RETRY_REFUND;
    if (bucket->tokens > HF_RETRY_BUCKET) bucket->tokens = HF_RETRY_BUCKET;
}

int64_t hf__retry_delay_us(int attempts_made, bool throttled, double unit, int64_t asked_ms)
{
    int64_t ms = throttled ? HF_RETRY_THROTTLE_BASE_MS : HF_RETRY_BASE_MS;
    for (int i = 1; i < attempts_made && ms < HF_RETRY_LONGEST_MS; i++) ms *= 2;
    if (ms > HF_RETRY_LONGEST_MS) ms = HF_RETRY_LONGEST_MS;
    int64_t us = (int64_t)((double)ms * 1000 * unit);
    if (asked_ms > HF_RETRY_LONGEST_MS) asked_ms = HF_RETRY_LONGEST_MS;
    return us < asked_ms * 1000 ? asked_ms * 1000 : us;
}
