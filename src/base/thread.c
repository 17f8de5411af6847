#include "base/thread.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int hf__thread_create(pthread_t *ret, void *(*run)(void *user), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    int failure = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failure) return failure;
    failure = pthread_create(ret, NULL, run, user); /* which inherits the mask */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

void hf__thread_make_way(void)
{
    enum { NICE = 19 };
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread alone, on Linux */
}

int hf__cond_init(pthread_cond_t *ret)
{
    pthread_condattr_t monotonic;
    int failure = pthread_condattr_init(&monotonic);
    if (failure) return failure;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    failure = pthread_cond_init(ret, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return failure;
}
