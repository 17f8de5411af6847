#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* With its head, the first chunk is the largest piece that glibc's malloc keeps at hand. */
enum { ALIGN = 16, FIRST_CHUNK = 1008, LARGEST_CHUNK = 64 * 1024 };

struct hf_arena_chunk {
    struct hf_arena_chunk *next;
    size_t size;
    _Alignas(ALIGN) char data[];
};

static bool add_chunk(struct hf_arena *arena, size_t least)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
    if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
    if (size < least) size = least;
    struct hf_arena_chunk *chunk = hf__malloc(sizeof *chunk + size);
    if (!chunk) return false;
    *chunk = (struct hf_arena_chunk){.next = arena->chunks, .size = size};
    arena->chunks = chunk;
    arena->size += size;
    arena->at = chunk->data;
    arena->end = chunk->data + size;
    return true;
}

void *hf__arena_alloc(struct hf_arena *arena, size_t size)
{
    size_t padded = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (arena->failed || padded < size) goto fail;
    if (padded == 0) padded = ALIGN;
    if ((size_t)(arena->end - arena->at) < padded && !add_chunk(arena, padded)) goto fail;
    void *ptr = arena->at;
    arena->at += padded;
    return ptr;
fail:
    arena->failed = true;
    return NULL;
}

void *hf__arena_zalloc(struct hf_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        arena->failed = true;
        return NULL;
    }
    void *ptr = hf__arena_alloc(arena, total);
    if (ptr) memset(ptr, 0, total);
    return ptr;
}

char *hf__arena_str(struct hf_arena *arena, struct hf_slice slice)
{
    char *copy = hf__arena_alloc(arena, slice.len + 1);
    if (!copy) return NULL;
    if (slice.len) memcpy(copy, slice.ptr, slice.len);
    copy[slice.len] = '\0';
    return copy;
}

struct hf_slice hf__arena_copy(struct hf_arena *arena, struct hf_slice slice)
{
    char *copy = hf__arena_str(arena, slice);
    return copy ? hf__slice(copy, slice.len) : hf__slice(NULL, 0);
}

struct hf_slice hf__arena_printf(struct hf_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len < 0 ? NULL : hf__arena_alloc(arena, (size_t)len + 1);
    if (!text) return hf__slice(NULL, 0);
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return hf__slice(text, (size_t)len);
}

void *hf__arena_grow(struct hf_arena *arena, void *array, size_t count, size_t *capacity,
                     size_t element_size)
{
    if (count < *capacity) return array;
    size_t wanted = *capacity ? *capacity * 2 : 4;
    void *moved = hf__arena_zalloc(arena, wanted, element_size);
    if (!moved) return NULL;
    if (count) memcpy(moved, array, count * element_size);
    *capacity = wanted;
    return moved;
}

static void free_chunks(struct hf_arena_chunk *chunk)
{
    while (chunk) {
        struct hf_arena_chunk *next = chunk->next;
        hf__free(chunk);
        chunk = next;
    }
}

void hf__arena_free(struct hf_arena *arena)
{
    free_chunks(arena->chunks);
    *arena = (struct hf_arena){0};
}

void hf__arena_reset(struct hf_arena *arena)
{
    struct hf_arena_chunk *keep = arena->chunks;
    if (!keep) {
        arena->failed = false;
        return;
    }
    free_chunks(keep->next);
    keep->next = NULL;
    *arena = (struct hf_arena){
        .chunks = keep, .at = keep->data, .end = keep->data + keep->size, .size = keep->size};
}
