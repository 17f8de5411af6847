#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t now_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

struct timespec hf__deadline_in(int64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + ms % 1000 * 1000000;
    at.tv_sec += ms / 1000 + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    return at;
}

static int64_t boot_us(void *user)
{
    (void)user;
    return now_us(CLOCK_BOOTTIME);
}

static int64_t wall_us(void *user)
{
    (void)user;
    return now_us(CLOCK_REALTIME);
}

const struct hf_clock hf__clock_system = {boot_us, wall_us, NULL};
