/*
 * Memory that is freed all at once.
 *
 * Items, conditions, requests and answers are trees of small immutable pieces
 * that live and die together: each lives in one arena, and pieces may be
 * shared freely within it. A zeroed arena is valid and empty. One that ran out
 * of memory is `failed` and stays so; builders check once at the end.
 */
#ifndef HF_BASE_ARENA_H
#define HF_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct hf_arena_chunk;

struct hf_arena {
    struct hf_arena_chunk *chunks; /* newest first */
    char *at;
    char *end;
    size_t size; /* of all chunks */
    bool failed;
};

/* Aligned for any type, not zeroed. NULL when out of memory. */
void *hf__arena_alloc(struct hf_arena *arena, size_t size);

/* Zeroed; NULL also when count × size overflows. */
void *hf__arena_zalloc(struct hf_arena *arena, size_t count, size_t size);

/* A copy, followed by a terminator that is not part of the slice. Empty on failure. */
struct hf_slice hf__arena_copy(struct hf_arena *arena, struct hf_slice slice);

/* A copy as a C string; NULL on failure. */
char *hf__arena_str(struct hf_arena *arena, struct hf_slice slice);

struct hf_slice hf__arena_printf(struct hf_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Makes room for one more element in an array that grows in an arena: returns
 * the array (moved when it was full), or NULL. Start with NULL and capacity 0.
 */
void *hf__arena_grow(struct hf_arena *arena, void *array, size_t count, size_t *capacity,
                     size_t element_size);

void hf__arena_free(struct hf_arena *arena);

/* Forgets everything but keeps one chunk for the next use. */
void hf__arena_reset(struct hf_arena *arena);

#endif
