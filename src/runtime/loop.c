#include "runtime/loop.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

enum { EVENTS = 512 }; /* a round of the service is all that is ready */

struct hf_loop {
    const struct hf_clock *clock;
    int epoll_fd;
    struct hf_watch wake;
    struct hf_heap timers;
    size_t timer_count; /* initialized, whether set or not */
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards the rest */
    struct hf_list tasks;
    bool stopping;
    /* Events not yet delivered in this round, so that unwatching can withdraw them. */
    struct epoll_event *pending;
    int pending_count;
    struct hf_sleeper *sleeper;
};

static void wake(struct hf_loop *loop)
{
    uint64_t one = 1;
    ssize_t written = write(loop->wake.fd, &one, sizeof one);
    (void)written; /* a full counter wakes just as well */
}

int64_t hf__loop_now_us(const struct hf_loop *loop)
{
    return hf__clock_boot_us(loop->clock);
}

/* Until the first timer, in milliseconds rounded up; -1 for ever. */
static int wait_ms(const struct hf_loop *loop)
{
    const struct hf_heap_node *first = hf__heap_first(&loop->timers);
    if (!first) return -1;
    int64_t us = first->at - hf__loop_now_us(loop);
    if (us <= 0) return 0;
    int64_t ms = (us + 999) / 1000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void run_timers(struct hf_loop *loop)
{
    int64_t now = hf__loop_now_us(loop);
    for (struct hf_heap_node *first; (first = hf__heap_first(&loop->timers)) && first->at <= now;) {
        hf__heap_remove(&loop->timers, first);
        struct hf_timer *timer = HF_CONTAINER(first, struct hf_timer, node);
        timer->run(timer);
    }
}

/* Runs what was posted, but not what that posts. False: nothing was, and the loop is to stop. */
static bool run_tasks(struct hf_loop *loop)
{
    struct hf_list tasks;
    hf__list_init(&tasks);
    pthread_mutex_lock(&loop->mutex);
    hf__list_splice(&tasks, &loop->tasks);
    bool stopping = loop->stopping;
    pthread_mutex_unlock(&loop->mutex);
    bool any = !hf__list_empty(&tasks);
    for (struct hf_list *node; (node = hf__list_pop(&tasks)) != NULL;) {
        struct hf_task *task = HF_CONTAINER(node, struct hf_task, node);
        task->run(task);
    }
    return any || !stopping; /* once more after the last tasks: they may have posted */
}

/* Not while tasks wait or the loop is to stop: the thread that posted may not have woken it. */
static bool is_idle(struct hf_loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    bool idle = hf__list_empty(&loop->tasks) && !loop->stopping;
    pthread_mutex_unlock(&loop->mutex);
    return idle;
}

/* How long it may sleep; then the sleeper has agreed. */
static int sleep_ms(struct hf_loop *loop)
{
    int ms = is_idle(loop) ? wait_ms(loop) : 0;
    if (ms != 0 && loop->sleeper && !loop->sleeper->may_sleep(loop->sleeper)) return 0;
    return ms;
}

static void deliver(struct hf_loop *loop, struct epoll_event *events, int count)
{
    loop->pending = events;
    loop->pending_count = count;
    for (int i = 0; i < count; i++) {
        struct hf_watch *watch = events[i].data.ptr;
        if (watch) watch->ready(watch, events[i].events);
    }
    loop->pending = NULL;
    loop->pending_count = 0;
}

static void *run(void *arg)
{
    struct hf_loop *loop = arg;
    struct epoll_event events[EVENTS];
    while (run_tasks(loop)) {
        int ms = sleep_ms(loop);
        int count = epoll_wait(loop->epoll_fd, events, EVENTS, ms);
        if (ms != 0 && loop->sleeper) loop->sleeper->woke(loop->sleeper);
        if (count > 0) deliver(loop, events, count);
        run_timers(loop);
    }
    return NULL;
}

static void drain_wakes(struct hf_watch *watch, uint32_t events)
{
    uint64_t count;
    (void)events;
    ssize_t got = read(watch->fd, &count, sizeof count);
    (void)got;
}

static void destroy(struct hf_loop *loop)
{
    if (loop->epoll_fd >= 0) close(loop->epoll_fd);
    if (loop->wake.fd >= 0) close(loop->wake.fd);
    hf__heap_free(&loop->timers);
    pthread_mutex_destroy(&loop->mutex);
    hf__free(loop);
}

int hf__loop_new(const struct hf_clock *clock, struct hf_loop **ret, struct hf_error *reterr)
{
    struct hf_loop *loop = hf__calloc(1, sizeof *loop);
    if (!loop) return hf__error_no_memory(reterr);
    loop->clock = clock;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake =
        (struct hf_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = drain_wakes};
    pthread_mutex_init(&loop->mutex, NULL);
    hf__list_init(&loop->tasks);
    bool ready = loop->epoll_fd >= 0 && loop->wake.fd >= 0 &&
                 hf__loop_watch(loop, &loop->wake, EPOLLIN, true);
    if (!ready) {
        int code = hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot make an event loop: %s",
                                 strerror(errno));
        destroy(loop);
        return code;
    }
    *ret = loop;
    return 0;
}

int hf__loop_start(struct hf_loop *loop, struct hf_error *reterr)
{
    loop->started = true; /* before the thread, which may post to itself at once */
    int failure = hf__thread_create(&loop->thread, run, loop);
    if (failure == 0) return 0;
    loop->started = false;
    return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread: %s", strerror(failure));
}

void hf__loop_stop(struct hf_loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->mutex);
    wake(loop);
    if (loop->started) pthread_join(loop->thread, NULL);
    else run(loop); /* what was posted */
    destroy(loop);
}

static bool on_own_thread(const struct hf_loop *loop)
{
    return loop->started && pthread_equal(pthread_self(), loop->thread);
}

void hf__loop_post(struct hf_loop *loop, struct hf_task *task)
{
    pthread_mutex_lock(&loop->mutex);
    bool first = hf__list_empty(&loop->tasks);
    /* A task that is posted already would tear the list apart. */
    if (task->node.next && !hf__list_empty(&task->node)) abort();
    hf__list_append(&loop->tasks, &task->node);
    pthread_mutex_unlock(&loop->mutex);
    /* is_idle: the loop looks for tasks before it sleeps, so its own thread need not wake it. */
    if (first && !on_own_thread(loop)) wake(loop);
}

struct waiting_call {
    struct hf_task task;
    void (*call)(void *user);
    void *user;
    pthread_mutex_t mutex;
    pthread_cond_t over;
    bool done;
};

static void run_call(struct hf_task *task)
{
    struct waiting_call *at = HF_CONTAINER(task, struct waiting_call, task);
    at->call(at->user);
    pthread_mutex_lock(&at->mutex);
    at->done = true;
    pthread_cond_signal(&at->over);
    pthread_mutex_unlock(&at->mutex);
}

void hf__loop_call(struct hf_loop *loop, void (*call)(void *user), void *user)
{
    struct waiting_call at = {.task.run = run_call,
                              .call = call,
                              .user = user,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .over = PTHREAD_COND_INITIALIZER};
    if (!loop->started || on_own_thread(loop)) {
        call(user);
        return;
    }
    hf__list_init(&at.task.node);
    hf__loop_post(loop, &at.task);
    pthread_mutex_lock(&at.mutex);
    while (!at.done) pthread_cond_wait(&at.over, &at.mutex);
    pthread_mutex_unlock(&at.mutex);
    pthread_cond_destroy(&at.over);
    pthread_mutex_destroy(&at.mutex);
}

void hf__loop_set_sleeper(struct hf_loop *loop, struct hf_sleeper *sleeper)
{
    loop->sleeper = sleeper;
}

bool hf__loop_is_here(const struct hf_loop *loop)
{
    return on_own_thread(loop);
}

bool hf__loop_timer_init(struct hf_loop *loop, struct hf_timer *timer,
                         void (*run_timer)(struct hf_timer *timer))
{
    if (!hf__heap_reserve(&loop->timers, loop->timer_count + 1)) return false;
    loop->timer_count++;
    hf__heap_node_init(&timer->node);
    timer->run = run_timer;
    return true;
}

void hf__loop_timer_done(struct hf_loop *loop, struct hf_timer *timer)
{
    hf__heap_remove(&loop->timers, &timer->node);
    loop->timer_count--;
}

void hf__loop_timer_set(struct hf_loop *loop, struct hf_timer *timer, int64_t at_boot_us)
{
    hf__heap_set(&loop->timers, &timer->node, at_boot_us); /* has room: the timer was initialized */
}

void hf__loop_timer_clear(struct hf_loop *loop, struct hf_timer *timer)
{
    hf__heap_remove(&loop->timers, &timer->node);
}

bool hf__loop_watch(struct hf_loop *loop, struct hf_watch *watch, uint32_t events, bool is_new)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(loop->epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch->fd, &event) ==
           0;
}

void hf__loop_unwatch(struct hf_loop *loop, struct hf_watch *watch)
{
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = 0; i < loop->pending_count; i++)
        if (loop->pending[i].data.ptr == watch) loop->pending[i].data.ptr = NULL;
}
