#include "base/store_time.h"

/* How far two clocks may drift apart between two moments. */
static int64_t drift_us(int64_t from_boot_us, int64_t to_boot_us)
{
    int64_t age_us = to_boot_us - from_boot_us;
    if (age_us < 0) age_us = -age_us;
    return (age_us * HF_CLOCK_MARGIN_PER_MILLE + 999) / 1000;
}

bool hf__store_time_report(struct hf_store_time *time, int64_t lo_unix_us, int64_t hi_unix_us,
                           int64_t sent_boot_us, int64_t received_boot_us)
{
    /* The moment was not after the receipt and not before the sending. */
    int64_t drift = drift_us(sent_boot_us, received_boot_us);
    int64_t lo = lo_unix_us - received_boot_us - drift;
    int64_t hi = hi_unix_us - sent_boot_us + drift;
    bool consistent = true;
    if (time->known) {
        int64_t widen = drift_us(time->as_of_boot_us, received_boot_us);
        int64_t old_lo = time->offset_lo_us - widen;
        int64_t old_hi = time->offset_hi_us + widen;
        consistent = lo <= old_hi && old_lo <= hi;
        if (consistent) {
            if (old_lo > lo) lo = old_lo;
            if (old_hi < hi) hi = old_hi;
        }
    }
    *time = (struct hf_store_time){
        .known = true, .offset_lo_us = lo, .offset_hi_us = hi, .as_of_boot_us = received_boot_us};
    return consistent;
}

struct hf_interval hf__store_time_at(const struct hf_store_time *time, int64_t boot_us)
{
    if (!time->known) return (struct hf_interval){0};
    int64_t widen = drift_us(time->as_of_boot_us, boot_us);
    return (struct hf_interval){
        .known = true,
        .lo_unix_us = boot_us + time->offset_lo_us - widen,
        .hi_unix_us = boot_us + time->offset_hi_us + widen,
    };
}
