/*
 * A pool of workers over many customers: each customer's work is done by one
 * worker at a time, wherever the workers run. Start it on as many machines as
 * you like. Usage: pool STORE-URL [CUSTOMERS [WORKERS]]
 *
 * One client serves all threads. It keeps its locks with one heartbeat: the
 * session that HF_SESSION_AUTO begins when there are more than a few.
 */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct hf_client *client;
static int customers = 20;
static int done; /* atomic */

static void serve(int customer, struct hf_lock *lock)
{
    (void)customer;
    struct timespec a_while = {.tv_nsec = 2000000};
    nanosleep(&a_while, NULL);
    /* Before anything that cannot be undone: is it still ours? */
    if (hf_lock_is_held(lock)) __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

static void *work(void *user)
{
    (void)user;
    for (int i = 0; i < customers; i++) {
        char name[32];
        struct hf_lock *lock;
        snprintf(name, sizeof name, "customer/%d", i);
        /* Somebody else is at it: go on to the next customer. */
        if (hf_acquire(client, name, 0, NULL, &lock, NULL) != 0) continue;
        serve(i, lock);
        hf_release(lock, NULL, NULL);
        hf_lock_unref(lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 64 };
    struct hf_error error;
    struct hf_client_options options = {.size = sizeof options};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    if (argc > 2) customers = (int)strtol(argv[2], NULL, 10);
    int workers = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 4;
    if (workers < 1 || workers > MOST) workers = MOST;
    if (hf_client_new(&options, &client, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    pthread_t threads[MOST];
    int started = 0;
    while (started < workers && pthread_create(&threads[started], NULL, work, NULL) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    printf("%d workers served %d customers\n", started, done);
    int code = hf_client_close(client, 0);
    return code != 0 || done < customers;
}
