/*
 * The allocator of tests in which every allocation of the process can fail, those of the libraries that it uses among
 * them. What is counted as allocated is ours alone: they may keep what they like. Not with sanitizers, which have an
 * allocator of their own.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "harness/test.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *ptr);

/* All atomic: this is called while anything may be locked. */
static size_t live;
static size_t made;     /* allocations since it was armed */
static size_t fails_at; /* 0: none */
static bool keeps_failing;
static bool has_failed;

static void arm(size_t n, bool keeps)
{
    __atomic_store_n(&fails_at, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&made, 0, __ATOMIC_SEQ_CST);
    if (n > 0) __atomic_store_n(&has_failed, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&keeps_failing, keeps, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fails_at, n, __ATOMIC_SEQ_CST);
}

static bool fails(void)
{
    size_t at = __atomic_load_n(&fails_at, __ATOMIC_SEQ_CST);
    if (at == 0) return false;
    size_t number = __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST);
    if (number != at && !(number > at && keeps_failing)) return false;
    __atomic_store_n(&has_failed, true, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return true;
}

void hf_alloc_fail_at(size_t n)
{
    arm(n, false);
}

void hf_alloc_fail_from(size_t n)
{
    arm(n, true);
}

bool hf_alloc_has_failed(void)
{
    return __atomic_load_n(&has_failed, __ATOMIC_SEQ_CST);
}

size_t hf_alloc_live(void)
{
    return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

/* ---- everybody's ---- */

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}

void free(void *ptr)
{
    __libc_free(ptr);
}

/* ---- ours ---- */

static void *count(void *made_now)
{
    if (made_now) __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return made_now;
}

void *hf__malloc(size_t size)
{
    return count(malloc(size ? size : 1));
}

void *hf__calloc(size_t number, size_t size)
{
    return count(calloc(number ? number : 1, size ? size : 1));
}

void *hf__realloc(void *old, size_t size)
{
    void *moved = realloc(old, size ? size : 1);
    return old ? moved : count(moved);
}

void hf__free(void *ptr)
{
    if (ptr) __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
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
