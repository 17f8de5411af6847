/*
 * Growable byte buffer with a hard limit.
 *
 * A buffer that ran out of memory or reached its limit is `failed`: it keeps
 * what it has, ignores what follows, and says so once at the end. Writers need
 * no check per call.
 */
#ifndef HF_BASE_BUF_H
#define HF_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct hf_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t limit;
    bool failed;
    bool starved; /* for want of memory */
};

void hf__buf_init(struct hf_buf *buf, size_t limit);
void hf__buf_free(struct hf_buf *buf);

/* Forgets the content and the failure, keeps the memory. */
void hf__buf_clear(struct hf_buf *buf);

/* The same, where it may have to grow. */
void hf__buf_add_slowly(struct hf_buf *buf, const void *data, size_t len);

static inline void hf__buf_add(struct hf_buf *buf, const void *data, size_t len)
{
    /* A byte is kept for a terminator; the capacity never passes the limit by more than that. */
    if (buf->failed || len == 0 || buf->cap - buf->len <= len) {
        hf__buf_add_slowly(buf, data, len);
        return;
    }
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
}

static inline void hf__buf_slice(struct hf_buf *buf, struct hf_slice slice)
{
    hf__buf_add(buf, slice.ptr, slice.len);
}

static inline void hf__buf_str(struct hf_buf *buf, const char *text)
{
    hf__buf_add(buf, text, strlen(text));
}

static inline void hf__buf_char(struct hf_buf *buf, char c)
{
    hf__buf_add(buf, &c, 1);
}

void hf__buf_int64(struct hf_buf *buf, int64_t value);

void hf__buf_printf(struct hf_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for `len` more bytes at the end, or NULL; the caller adds to buf->len what it used. */
char *hf__buf_reserve(struct hf_buf *buf, size_t len);

/* The content, terminated. "" when empty, NULL when failed. Valid until the next change. */
const char *hf__buf_cstr(struct hf_buf *buf);

static inline struct hf_slice hf__buf_view(const struct hf_buf *buf)
{
    return (struct hf_slice){buf->data, buf->len};
}

#endif
