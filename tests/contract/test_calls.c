/* The contract of store.h: many calls at once, what every answer carries, closing. */
#include <pthread.h>
#include <stdlib.h>

#include "contract/fixture.h"
#include "harness/cases.h"

enum { THREADS = 8, INCREMENTS = 60 };

/* Reads the counter, then writes one more on the condition that nobody did meanwhile. */
static void *increment(void *failure)
{
    for (int done = 0, tries = 0; done < INCREMENTS && tries < 20000; tries++) {
        struct hf_arena mine = {0};
        struct hf_attr key = {HF_LIT("key"), hf__s_str("counter")};
        struct hf_call get = {.arena = &mine}, put_next = {.arena = &mine};
        int64_t n = 0;
        get.op = (struct hf_op){.kind = HF_GET_ITEM,
                                .table = hf__slice_str(table),
                                .key = {&key, 1},
                                .consistent = true};
        if (hf__store_run(store, &get) != 0) *(int *)failure = get.answer.code;
        if (get.answer.has_item)
            hf__number_to_int64(hf__item_get_str(get.answer.item, "n")->number, &n);
        struct hf_update update = {0};
        hf__update_set(&mine, &update, "n", hf__n(&mine, n + 1));
        put_next.op = (struct hf_op){
            .kind = HF_UPDATE_ITEM,
            .table = hf__slice_str(table),
            .key = {&key, 1},
            .update = &update,
            .condition = get.answer.has_item ? hf__cond_compare(&mine, "n", HF_EQ, hf__n(&mine, n))
                                             : hf__cond_absent(&mine, "n"),
        };
        int code = hf__store_run(store, &put_next);
        if (code == 0) done++;
        else if (code != HF_ERR_CONDITION) *(int *)failure = code;
        hf__arena_free(&mine);
    }
    return NULL;
}

TEST(eight_threads_of_conditional_increments_lose_nothing)
{
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    with_table(&by_key);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, increment, &failures[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_INT(failures[i], 0);
    char expected[64];
    snprintf(expected, sizeof expected, "{\"key\":{\"S\":\"counter\"},\"n\":{\"N\":\"%d\"}}",
             THREADS * INCREMENTS);
    CHECK_STR(stored(KEY("counter")), expected);
    finish();
}

enum { IN_FLIGHT = 200 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done, granted;
} tally = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void count_done(struct hf_call *call)
{
    pthread_mutex_lock(&tally.mutex);
    tally.done++;
    tally.granted += call->answer.code == 0;
    pthread_cond_signal(&tally.changed);
    pthread_mutex_unlock(&tally.mutex);
}

TEST(of_many_conditional_creations_in_flight_one_wins)
{
    static struct hf_call calls[IN_FLIGHT];
    static struct hf_arena arenas[IN_FLIGHT];
    with_table(&by_key);
    tally.done = tally.granted = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i] = (struct hf_call){.arena = &arenas[i], .done = count_done};
        calls[i].op = put_op(KEY("k"));
        calls[i].op.condition = hf__cond_absent(&arena, "key");
    }
    for (int i = 0; i < IN_FLIGHT; i++) hf__store_submit(store, &calls[i]);
    pthread_mutex_lock(&tally.mutex);
    while (tally.done < IN_FLIGHT) pthread_cond_wait(&tally.changed, &tally.mutex);
    pthread_mutex_unlock(&tally.mutex);
    CHECK_INT(tally.granted, 1);
    for (int i = 0; i < IN_FLIGHT; i++) hf__arena_free(&arenas[i]);
    finish();
}

/* ---- what every answer carries ---- */

TEST(answers_are_stamped)
{
    with_table(&by_key);
    int64_t before = hf__clock_boot_us(&hf__clock_system);
    struct hf_answer answer = good(put_op(KEY("k")));
    int64_t after = hf__clock_boot_us(&hf__clock_system);
    CHECK(before <= answer.first_sent_boot_us);
    CHECK(answer.first_sent_boot_us <= answer.sent_boot_us);
    CHECK(answer.sent_boot_us <= answer.received_boot_us);
    CHECK(answer.received_boot_us <= after);
    CHECK_INT(answer.attempts, 1);
    /* The store runs on this machine: its clock is near ours, whatever it calls it. */
    int64_t wall = hf__clock_wall_us(&hf__clock_system);
    CHECK(answer.store.known);
    CHECK(answer.store.lo_unix_us <= answer.store.hi_unix_us);
    CHECK(answer.store.lo_unix_us < wall + 5000000 && answer.store.hi_unix_us > wall - 5000000);
    struct hf_answer failed = run(get_op("{\"kex\":{\"S\":\"1\"}}"));
    CHECK(failed.store.known && failed.received_boot_us >= failed.sent_boot_us);
    finish();
}

TEST(an_operation_whose_arena_failed_is_not_sent)
{
    with_table(&by_key);
    struct hf_arena broken = {.failed = true};
    struct hf_call call = {.op = put_op(KEY("k")), .arena = &broken};
    CHECK_INT(hf__store_run(store, &call), HF_ERR_NO_MEMORY);
    CHECK_STR(stored(KEY("k")), "");
    finish();
}

TEST(closing_completes_what_is_outstanding)
{
    static struct hf_call calls[IN_FLIGHT];
    static struct hf_arena arenas[IN_FLIGHT];
    with_table(&by_key);
    tally.done = tally.granted = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i] = (struct hf_call){.arena = &arenas[i], .done = count_done};
        calls[i].op = put_op(KEY("k"));
        hf__store_submit(store, &calls[i]);
    }
    for (int i = 0; i < IN_FLIGHT; i += 2) hf__store_cancel(store, calls[i].id);
    hf__store_cancel(store, 999999);
    hf__store_close(store);
    CHECK_INT(tally.done, IN_FLIGHT);
    for (int i = 0; i < IN_FLIGHT; i++) {
        int code = calls[i].answer.code;
        CHECK(code == 0 || code == HF_ERR_CANCELLED || code == HF_ERR_OUTCOME_UNKNOWN);
        hf__arena_free(&arenas[i]);
    }
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "memory:") == 0) { /* it is gone with its store */
        hf__arena_free(&arena);
        return;
    }
    open_store();
    finish();
}

/* Submits a second operation from within `done`. */
static void submit_once(struct hf_call *call)
{
    hf__store_submit(store, call->user);
    count_done(call);
}

TEST(done_may_submit_also_while_the_store_closes)
{
    enum { PAIRS = 100 };
    static struct hf_call firsts[PAIRS], seconds[PAIRS];
    static struct hf_arena arenas[2 * PAIRS];
    static struct hf_op ops[2];
    with_table(&by_key);
    ops[0] = put_op(KEY("k"));
    ops[1] = get_op(KEY("k"));
    for (int closing = 0; closing < 2; closing++) {
        tally.done = 0;
        for (int i = 0; i < PAIRS; i++) {
            firsts[i] = (struct hf_call){.op = ops[i % 2],
                                         .arena = &arenas[2 * i],
                                         .done = submit_once,
                                         .user = &seconds[i]};
            seconds[i] = (struct hf_call){
                .op = ops[(i + 1) % 2], .arena = &arenas[2 * i + 1], .done = count_done};
            hf__store_submit(store, &firsts[i]);
        }
        if (closing) {
            hf__store_close(store);
        } else {
            pthread_mutex_lock(&tally.mutex);
            while (tally.done < 2 * PAIRS) pthread_cond_wait(&tally.changed, &tally.mutex);
            pthread_mutex_unlock(&tally.mutex);
        }
        CHECK_INT(tally.done, 2 * PAIRS);
        for (int i = 0; i < 2 * PAIRS; i++) hf__arena_free(&arenas[i]);
    }
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "memory:") == 0) {
        hf__arena_free(&arena);
        return;
    }
    open_store();
    finish();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(eight_threads_of_conditional_increments_lose_nothing),
        RUN(of_many_conditional_creations_in_flight_one_wins),
        RUN(answers_are_stamped),
        RUN(an_operation_whose_arena_failed_is_not_sent),
        RUN(closing_completes_what_is_outstanding),
        RUN(done_may_submit_also_while_the_store_closes),
    };
    return RUN_CONTRACT(tests);
}
