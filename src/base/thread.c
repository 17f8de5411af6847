#include "base/thread.h"

#include <signal.h>

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
