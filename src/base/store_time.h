/*
 * What is known about the store's clock, the one clock that no party owns.
 *
 * Each answer says that the store's clock stood in [lo, hi] at some moment
 * between its sending and its receipt. Many answers together narrow that to an
 * interval for the difference between the store's time and our boot clock.
 *
 * Invariants
 * T1  If every report was true and our clock's rate is within the margin, the
 *     store's time at boot_us is inside hf__store_time_at(…, boot_us).
 * T2  The interval only narrows by reports; without them its ends move outward
 *     by margin × age.
 * T3  Reports that contradict what is known start anew; the caller is told, to
 *     log it.
 */
#ifndef HF_BASE_STORE_TIME_H
#define HF_BASE_STORE_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* The store's time at one moment, unix microseconds, both ends inclusive. */
struct hf_interval {
    bool known;
    int64_t lo_unix_us;
    int64_t hi_unix_us;
};

struct hf_store_time {
    bool known;
    int64_t offset_lo_us; /* store time − boot time, as of `as_of_boot_us` */
    int64_t offset_hi_us;
    int64_t as_of_boot_us;
};

/* Parts per thousand by which a clock's rate may be off. */
enum { HF_CLOCK_MARGIN_PER_MILLE = 10 };

/* The store's clock stood in [lo, hi] at some moment in [sent, received]. False: started anew (T3).
 */
bool hf__store_time_report(struct hf_store_time *time, int64_t lo_unix_us, int64_t hi_unix_us,
                           int64_t sent_boot_us, int64_t received_boot_us);

/* The store's time at a moment of our boot clock, which may lie before the last report. */
struct hf_interval hf__store_time_at(const struct hf_store_time *time, int64_t boot_us);

#endif
