/*
 * The two clocks, as something that can be passed in.
 *
 * Boot time (CLOCK_BOOTTIME) never jumps and counts while the machine sleeps:
 * everything about leases uses it. Wall time is for people and for other
 * programs' formats. Both are microseconds. Tests pass a virtual clock.
 */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

struct hf_clock {
    int64_t (*boot_us)(void *user);
    int64_t (*wall_us)(void *user);
    void *user;
};

/* The machine's own. */
extern const struct hf_clock hf__clock_system;

/* This time from now, as a moment of CLOCK_MONOTONIC: for threads that wait on a condition. */
struct timespec hf__deadline_in(int64_t ms);

static inline int64_t hf__clock_boot_us(const struct hf_clock *clock)
{
    return clock->boot_us(clock->user);
}

static inline int64_t hf__clock_wall_us(const struct hf_clock *clock)
{
    return clock->wall_us(clock->user);
}

#endif
