/*
 * The one way to get memory.
 *
 * Production links alloc.c, which is malloc. Tests link an allocator that
 * counts, fails a test on leaks and can fail the n-th allocation: the choice
 * is made by the linker, so no global and no pointer is needed for it.
 */
#ifndef HF_BASE_ALLOC_H
#define HF_BASE_ALLOC_H

#include <stddef.h>

void *hf__malloc(size_t size);
void *hf__calloc(size_t count, size_t size);
void *hf__realloc(void *old, size_t size);
void hf__free(void *ptr);

/* NULL stays NULL. */
char *hf__strdup(const char *text);

#endif
