#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void hf__buf_init(struct hf_buf *buf, size_t limit)
{
    *buf = (struct hf_buf){.limit = limit};
}

void hf__buf_free(struct hf_buf *buf)
{
    hf__free(buf->data);
    hf__buf_init(buf, buf->limit);
}

void hf__buf_clear(struct hf_buf *buf)
{
    buf->len = 0;
    buf->failed = buf->starved = false;
}

/* Makes room for len bytes and a terminator that does not count. */
char *hf__buf_reserve(struct hf_buf *buf, size_t len)
{
    if (buf->failed) return NULL;
    if (len > buf->limit - buf->len) goto fail;
    if (buf->cap < buf->len + len + 1) {
        size_t cap = buf->cap ? buf->cap : 256;
        while (cap < buf->len + len + 1) cap *= 2;
        if (cap - 1 > buf->limit) cap = buf->limit + 1;
        char *data = hf__realloc(buf->data, cap);
        buf->starved = !data;
        if (!data) goto fail;
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
fail:
    buf->failed = true;
    return NULL;
}

void hf__buf_add_slowly(struct hf_buf *buf, const void *data, size_t len)
{
    char *to = hf__buf_reserve(buf, len);
    if (!to || len == 0) return;
    memcpy(to, data, len);
    buf->len += len;
}

void hf__buf_int64(struct hf_buf *buf, int64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) *--at = '-';
    hf__buf_add(buf, at, (size_t)(digits + sizeof digits - at));
}

void hf__buf_printf(struct hf_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *to = len < 0 ? NULL : hf__buf_reserve(buf, (size_t)len);
    if (!to) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
    buf->len += (size_t)len;
}

const char *hf__buf_cstr(struct hf_buf *buf)
{
    char *end = hf__buf_reserve(buf, 0);
    if (!end) return NULL;
    *end = '\0';
    return buf->data;
}
