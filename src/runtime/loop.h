/*
 * An event loop on a thread of its own: descriptors, timers, and tasks posted
 * from other threads.
 *
 * Rules
 * L1  Everything but hf__loop_stop, hf__loop_post and hf__loop_call is for the loop's
 *     own thread once it runs: callbacks, tasks and timers.
 * L2  Tasks run in the order in which they were posted. What was posted before
 *     hf__loop_stop is run before it returns.
 * L3  A timer runs once, not before its time. A timer or watch may be removed
 *     from within any callback.
 */
#ifndef HF_RUNTIME_LOOP_H
#define HF_RUNTIME_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/list.h"

struct hf_loop;

struct hf_task {
    struct hf_list node;
    void (*run)(struct hf_task *task);
};

struct hf_timer {
    struct hf_heap_node node;
    void (*run)(struct hf_timer *timer);
};

struct hf_watch {
    int fd;
    void (*ready)(struct hf_watch *watch, uint32_t events); /* EPOLLIN, EPOLLOUT, … */
};

/* For a source of events that need not wake the loop while it is awake. */
struct hf_sleeper {
    bool (*may_sleep)(struct hf_sleeper *sleeper); /* false: it must not, there is work */
    void (*woke)(struct hf_sleeper *sleeper);
};

int hf__loop_new(const struct hf_clock *clock, struct hf_loop **ret, struct hf_error *reterr);

/* Before this call the loop belongs to the thread that made it, and afterwards to its own. */
int hf__loop_start(struct hf_loop *loop, struct hf_error *reterr);

/* Not from the loop's own thread. The loop is freed, whether it was started or not. */
void hf__loop_stop(struct hf_loop *loop);

/* From any thread. The task must stay until it has run. */
void hf__loop_post(struct hf_loop *loop, struct hf_task *task);

/* From any thread: runs it on the loop's own, and waits until it has. */
void hf__loop_call(struct hf_loop *loop, void (*call)(void *user), void *user);

void hf__loop_set_sleeper(struct hf_loop *loop, struct hf_sleeper *sleeper); /* NULL: none */

/* Whether this is the loop's own thread. */
bool hf__loop_is_here(const struct hf_loop *loop);

int64_t hf__loop_now_us(const struct hf_loop *loop);

/* Before a timer is used, and after: in between, setting it cannot fail. */
bool hf__loop_timer_init(struct hf_loop *loop, struct hf_timer *timer,
                         void (*run)(struct hf_timer *timer));
void hf__loop_timer_done(struct hf_loop *loop, struct hf_timer *timer);

void hf__loop_timer_set(struct hf_loop *loop, struct hf_timer *timer, int64_t at_boot_us);
void hf__loop_timer_clear(struct hf_loop *loop, struct hf_timer *timer);

/* Watches for events; `is_new` unless it is watched already. False if the kernel refuses. */
bool hf__loop_watch(struct hf_loop *loop, struct hf_watch *watch, uint32_t events, bool is_new);
void hf__loop_unwatch(struct hf_loop *loop, struct hf_watch *watch);

#endif
