/* The allocator that tests link in place of base/alloc.c: it counts, and fails on demand. */
#include "base/alloc.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t live;
static size_t until_failure;
static bool keeps_failing; /* from then on */
static bool has_failed;

size_t hf_alloc_live(void)
{
    pthread_mutex_lock(&mutex);
    size_t now = live;
    pthread_mutex_unlock(&mutex);
    return now;
}

void hf_alloc_fail_at(size_t n)
{
    pthread_mutex_lock(&mutex);
    until_failure = n;
    keeps_failing = false;
    if (n > 0) has_failed = false;
    pthread_mutex_unlock(&mutex);
}

void hf_alloc_fail_from(size_t n)
{
    pthread_mutex_lock(&mutex);
    until_failure = n;
    keeps_failing = n > 0;
    if (n > 0) has_failed = false;
    pthread_mutex_unlock(&mutex);
}

bool hf_alloc_has_failed(void)
{
    pthread_mutex_lock(&mutex);
    bool failed = has_failed;
    pthread_mutex_unlock(&mutex);
    return failed;
}

/* Whether this allocation may succeed; counts it if it is a new block. */
static bool admit(bool is_new)
{
    pthread_mutex_lock(&mutex);
    bool fail = until_failure > 0 && --until_failure == 0;
    if (fail && keeps_failing) until_failure = 1;
    has_failed |= fail;
    if (!fail && is_new) live++;
    pthread_mutex_unlock(&mutex);
    return !fail;
}

void *hf__malloc(size_t size)
{
    return admit(true) ? malloc(size ? size : 1) : NULL;
}

void *hf__calloc(size_t count, size_t size)
{
    return admit(true) ? calloc(count ? count : 1, size ? size : 1) : NULL;
}

void *hf__realloc(void *old, size_t size)
{
    return admit(!old) ? realloc(old, size ? size : 1) : NULL;
}

void hf__free(void *ptr)
{
    if (!ptr) return;
    pthread_mutex_lock(&mutex);
    live--;
    pthread_mutex_unlock(&mutex);
    free(ptr);
}

char *hf__strdup(const char *text)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = hf__malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}
