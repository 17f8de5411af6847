#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "harness/test.h"
#include "runtime/loop.h"

static struct hf_loop *loop;

static void begin(void)
{
    struct hf_error error;
    if (hf__loop_new(&hf__clock_system, &loop, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

/* ---- tasks ---- */

struct counted {
    struct hf_task task;
    int value;
    int *last;
    bool *in_order;
};

static void check_order(struct hf_task *task)
{
    struct counted *c = HF_CONTAINER(task, struct counted, task);
    if (c->value <= *c->last) *c->in_order = false;
    *c->last = c->value;
}

TEST(tasks_run_in_order_and_all_of_them_before_the_stop)
{
    enum { COUNT = 1000 };
    static struct counted tasks[COUNT];
    int last = -1;
    bool in_order = true;
    begin();
    CHECK_INT(hf__loop_start(loop, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = (struct counted){{.run = check_order}, i, &last, &in_order};
        hf__loop_post(loop, &tasks[i].task);
    }
    hf__loop_stop(loop);
    CHECK(in_order);
    CHECK_INT(last, COUNT - 1);
}

TEST(a_loop_that_was_never_started_runs_its_tasks_when_it_is_stopped)
{
    int last = -1;
    bool in_order = true;
    struct counted task = {{.run = check_order}, 7, &last, &in_order};
    begin();
    hf__loop_post(loop, &task.task);
    hf__loop_stop(loop);
    CHECK_INT(last, 7);
}

static void post_again(struct hf_task *task)
{
    struct counted *c = HF_CONTAINER(task, struct counted, task);
    if (++*c->last < c->value) hf__loop_post(loop, task);
}

TEST(a_task_may_post_itself_also_while_the_loop_stops)
{
    int runs = 0;
    struct counted task = {{.run = post_again}, 5000, &runs, NULL};
    begin();
    CHECK_INT(hf__loop_start(loop, NULL), 0);
    hf__loop_post(loop, &task.task);
    hf__loop_stop(loop);
    CHECK_INT(runs, 5000);
}

static struct {
    struct hf_task first, second;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
} chain = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void finish_chain(struct hf_task *task)
{
    (void)task;
    pthread_mutex_lock(&chain.mutex);
    chain.done = true;
    pthread_cond_signal(&chain.changed);
    pthread_mutex_unlock(&chain.mutex);
}

static void post_second(struct hf_task *task)
{
    (void)task;
    hf__loop_post(loop, &chain.second);
}

TEST(what_a_task_posts_runs_without_anything_else_happening)
{
    chain.first.run = post_second;
    chain.second.run = finish_chain;
    chain.done = false;
    begin();
    CHECK_INT(hf__loop_start(loop, NULL), 0);
    hf__loop_post(loop, &chain.first);
    pthread_mutex_lock(&chain.mutex);
    while (!chain.done)
        pthread_cond_wait(&chain.changed, &chain.mutex); /* not only when it stops */
    pthread_mutex_unlock(&chain.mutex);
    hf__loop_stop(loop);
}

/* Starting and stopping at once must neither hang nor lose a task. */
TEST(stopping_is_never_slept_through)
{
    for (int i = 0; i < 2000; i++) {
        int last = -1;
        bool in_order = true;
        struct counted task = {{.run = check_order}, i, &last, &in_order};
        begin();
        CHECK_INT(hf__loop_start(loop, NULL), 0);
        hf__loop_post(loop, &task.task);
        hf__loop_stop(loop);
        CHECK_INT(last, i);
    }
}

/* ---- timers ---- */

enum { TIMERS = 50 };

static struct timed {
    struct hf_timer timer;
    int64_t at_us;
} timers[TIMERS];

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int fired, too_early, out_of_order;
    int64_t last_us;
} record = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};

static void fire(struct hf_timer *timer)
{
    struct timed *t = HF_CONTAINER(timer, struct timed, timer);
    pthread_mutex_lock(&record.mutex);
    record.fired++;
    record.too_early += hf__loop_now_us(loop) < t->at_us;
    record.out_of_order += t->at_us < record.last_us;
    record.last_us = t->at_us;
    pthread_cond_signal(&record.changed);
    pthread_mutex_unlock(&record.mutex);
}

TEST(timers_fire_once_in_order_and_not_before_their_time)
{
    struct hf_rng rng = {3};
    begin();
    record.fired = record.too_early = record.out_of_order = 0;
    record.last_us = 0;
    int64_t now = hf__loop_now_us(loop);
    for (int i = 0; i < TIMERS; i++) {
        CHECK(hf__loop_timer_init(loop, &timers[i].timer, fire));
        timers[i].at_us = now + hf_rng_below(&rng, 60000);
        hf__loop_timer_set(loop, &timers[i].timer, timers[i].at_us);
    }
    for (int i = 0; i < TIMERS; i += 5) hf__loop_timer_clear(loop, &timers[i].timer);
    CHECK_INT(hf__loop_start(loop, NULL), 0);
    pthread_mutex_lock(&record.mutex);
    while (record.fired < TIMERS - TIMERS / 5) pthread_cond_wait(&record.changed, &record.mutex);
    pthread_mutex_unlock(&record.mutex);
    hf__loop_stop(loop);
    CHECK_INT(record.fired, TIMERS - TIMERS / 5);
    CHECK_INT(record.too_early, 0);
    CHECK_INT(record.out_of_order, 0);
}

/* ---- descriptors ---- */

static struct pair {
    struct hf_watch watch;
    struct pair *other;
    int *calls;
} pairs[2];

static void unwatch_the_other(struct hf_watch *watch, uint32_t events)
{
    struct pair *p = HF_CONTAINER(watch, struct pair, watch);
    (void)events;
    ++*p->calls;
    hf__loop_unwatch(loop, &p->other->watch);
    hf__loop_unwatch(loop, watch);
}

TEST(a_watch_that_was_removed_is_not_called_even_if_its_event_was_there)
{
    int ends[2][2], calls = 0;
    begin();
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(ends[i]) == 0 && write(ends[i][1], "x", 1) == 1);
        pairs[i] = (struct pair){{ends[i][0], unwatch_the_other}, &pairs[1 - i], &calls};
        CHECK(hf__loop_watch(loop, &pairs[i].watch, EPOLLIN, true));
    }
    CHECK_INT(hf__loop_start(loop, NULL), 0);
    usleep(20000);
    hf__loop_stop(loop);
    CHECK_INT(calls, 1);
    for (int i = 0; i < 4; i++) close(ends[i / 2][i % 2]);
}

static void make_a_loop(void)
{
    struct hf_loop *made = NULL;
    struct hf_timer timer;
    struct hf_error error;
    int code = hf__loop_new(&hf__clock_system, &made, &error);
    if (code == 0) {
        bool has_timer = hf__loop_timer_init(made, &timer, fire);
        if (has_timer) hf__loop_timer_done(made, &timer);
        hf__loop_stop(made);
        if (!has_timer) code = HF_ERR_NO_MEMORY;
    }
    CHECK_INT(code, hf_alloc_has_failed() ? HF_ERR_NO_MEMORY : 0);
}

TEST(survives_want_of_memory)
{
    CHECK(hf_test_torture(make_a_loop) == 2);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(tasks_run_in_order_and_all_of_them_before_the_stop),
        RUN(a_loop_that_was_never_started_runs_its_tasks_when_it_is_stopped),
        RUN(a_task_may_post_itself_also_while_the_loop_stops),
        RUN(what_a_task_posts_runs_without_anything_else_happening),
        RUN(stopping_is_never_slept_through),
        RUN(timers_fire_once_in_order_and_not_before_their_time),
        RUN(a_watch_that_was_removed_is_not_called_even_if_its_event_was_there),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
