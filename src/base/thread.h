/* Threads of the library: they take no signals, which are for the program's own threads. */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, with all signals blocked in the new thread. */
int hf__thread_create(pthread_t *ret, void *(*run)(void *user), void *user);

/* Lowers the priority of the calling thread, for long work that can wait. */
void hf__thread_make_way(void);

/* A condition whose deadlines are of the monotonic clock, as hf__deadline_in makes them. */
int hf__cond_init(pthread_cond_t *ret);

#endif
