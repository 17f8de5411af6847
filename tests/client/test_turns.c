/*
 * Fairness between processes on one file. Clients that open the file by themselves are to each other
 * what processes are.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "harness/test.h"
#include "holdfast.h"

enum { ENOUGH = 300, TURNS_MOST = 5, CROWD = 4, ROUNDS = 12 };

static char url[256];

static void choose_file(void)
{
    static int count;
    snprintf(url, sizeof url, "file:%s/turns-%d.db", hf_test_directory(), count++);
}

static struct hf_client *open_client(void)
{
    struct hf_client *client = NULL;
    const struct hf_client_options options = {
        .size = sizeof options, .store_url = url, .lease_ms = 10000};
    CHECK_INT(hf_client_new(&options, &client, NULL), 0);
    return client;
}

static void nap_ms(int ms)
{
    const struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&nap, NULL);
}

/* Acquires, holds for a while, releases. */
static bool hold_once(struct hf_client *client, int ms)
{
    struct hf_lock *lock;
    if (hf_acquire(client, "job", 60000, NULL, &lock, NULL) != 0) return false;
    nap_ms(ms);
    hf_release(lock, NULL, NULL);
    hf_lock_unref(lock);
    return true;
}

static bool greedy_stop; /* atomic */
static int greedy_turns; /* atomic */

static void *be_greedy(void *user)
{
    for (int i = 0; i < ENOUGH && !__atomic_load_n(&greedy_stop, __ATOMIC_ACQUIRE); i++) {
        if (!hold_once(user, 5)) break;
        __atomic_add_fetch(&greedy_turns, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

TEST(a_program_that_wants_it_again_and_again_does_not_keep_others_out)
{
    pthread_t thread;
    choose_file();
    struct hf_client *greedy = open_client(), *patient = open_client();
    greedy_stop = false, greedy_turns = 0;
    CHECK_INT(pthread_create(&thread, NULL, be_greedy, greedy), 0);
    while (__atomic_load_n(&greedy_turns, __ATOMIC_ACQUIRE) == 0) nap_ms(1);
    int most = 0;
    for (int i = 0; i < 10; i++) {
        int before = __atomic_load_n(&greedy_turns, __ATOMIC_ACQUIRE);
        CHECK(hold_once(patient, 0));
        int overtaken = __atomic_load_n(&greedy_turns, __ATOMIC_ACQUIRE) - before;
        if (overtaken > most) most = overtaken;
    }
    __atomic_store_n(&greedy_stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (most > TURNS_MOST) printf("overtaken %d times\n", most);
    CHECK(most <= TURNS_MOST);
    hf_client_close(greedy, 5000);
    hf_client_close(patient, 5000);
}

static int turns[CROWD];

static void *take_turns(void *user)
{
    struct hf_client *client = open_client();
    int *turn = user;
    for (*turn = 0; *turn < ROUNDS; ++*turn) {
        if (!hold_once(client, 2)) break;
    }
    hf_client_close(client, 5000);
    return NULL;
}

TEST(everybody_gets_a_turn)
{
    pthread_t threads[CROWD];
    choose_file();
    for (int i = 0; i < CROWD; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, take_turns, &turns[i]), 0);
    for (int i = 0; i < CROWD; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < CROWD; i++) CHECK_INT(turns[i], ROUNDS);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_program_that_wants_it_again_and_again_does_not_keep_others_out),
        RUN(everybody_gets_a_turn),
    };
    return RUN_TESTS(tests);
}
