/*
 * FNV-1a for internal tables, where nobody gains from collisions; SipHash where an attacker might.
 */
#ifndef HF_BASE_HASH_H
#define HF_BASE_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define HF_HASH_START UINT64_C(14695981039346656037)

/* Continues from an earlier hash, or from HF_HASH_START. */
static inline uint64_t hf__hash_more(uint64_t hash, struct hf_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(1099511628211);
    return hash;
}

/* The place of a hash, below `places`. */
static inline size_t hf__hash_place(uint64_t hash, size_t places)
{
    return (size_t)(hash ^ hash >> 32) % places;
}

/* SipHash-2-4: without the key nobody can tell which texts share a place. */
uint64_t hf__hash_keyed(const uint64_t key[2], struct hf_slice text);

static inline size_t hf__hash_text(const char *text, size_t places)
{
    return hf__hash_place(hf__hash_more(HF_HASH_START, hf__slice_str(text)), places);
}

#endif
