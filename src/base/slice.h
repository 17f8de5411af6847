/* A run of bytes that somebody else owns. Not terminated; may hold any byte. */
#ifndef HF_BASE_SLICE_H
#define HF_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct hf_slice {
    const char *ptr;
    size_t len;
};

/* For printf("%.*s"): HF_FMT(slice). Messages are short; the cut at INT_MAX never shows. */
#define HF_FMT(slice) (int)(slice).len, (slice).ptr ? (slice).ptr : ""

/* A slice of a string literal, usable in initializers. */
#define HF_LIT(text) ((struct hf_slice){"" text, sizeof(text) - 1})

static inline struct hf_slice hf__slice(const char *ptr, size_t len)
{
    return (struct hf_slice){ptr, len};
}

/* NULL gives the empty slice. */
static inline struct hf_slice hf__slice_str(const char *text)
{
    return (struct hf_slice){text, text ? strlen(text) : 0};
}

/* One past the last byte. Not ptr + len: adding even 0 to NULL is undefined. */
static inline const char *hf__slice_end(struct hf_slice slice)
{
    return slice.len ? slice.ptr + slice.len : slice.ptr;
}

/* Without its first `count` bytes; it has at least as many. */
static inline struct hf_slice hf__slice_skip(struct hf_slice slice, size_t count)
{
    return count ? hf__slice(slice.ptr + count, slice.len - count) : slice;
}

static inline bool hf__slice_eq(struct hf_slice a, struct hf_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool hf__slice_is(struct hf_slice a, const char *text)
{
    return hf__slice_eq(a, hf__slice_str(text));
}

/* Bytewise order, a prefix before its extensions: the order of DynamoDB's keys. */
static inline int hf__slice_cmp(struct hf_slice a, struct hf_slice b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order != 0) return order < 0 ? -1 : 1;
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

static inline bool hf__slice_starts(struct hf_slice a, struct hf_slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

#endif
