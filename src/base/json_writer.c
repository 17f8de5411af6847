#include "base/json_writer.h"

#include "base/text.h"

void hf__json_writer_init(struct hf_json_writer *w, struct hf_buf *buf)
{
    *w = (struct hf_json_writer){.buf = buf};
}

static void separate(struct hf_json_writer *w)
{
    if (w->comma) hf__buf_char(w->buf, ',');
    w->comma = true;
}

void hf__json_open(struct hf_json_writer *w, char bracket)
{
    separate(w);
    hf__buf_char(w->buf, bracket);
    w->comma = false;
}

void hf__json_close(struct hf_json_writer *w, char bracket)
{
    hf__buf_char(w->buf, bracket);
    w->comma = true;
}

static void put_escape(struct hf_buf *buf, unsigned char c)
{
    static const char named[] = "\b\f\n\r\t\"\\";
    static const char letters[] = "bfnrt\"\\";
    const char *found = c ? strchr(named, c) : NULL;
    if (found) {
        hf__buf_char(buf, '\\');
        hf__buf_char(buf, letters[found - named]);
    } else {
        hf__buf_printf(buf, "\\u%04x", c);
    }
}

/* Bytes that end the fast path: quote, backslash, control, non-ASCII. */
static const unsigned char stops[256] = {[0 ... 31] = 1, ['"'] = 1, ['\\'] = 1, [128 ... 255] = 1};

static void put_quoted(struct hf_buf *buf, struct hf_slice text)
{
    const char *at = text.ptr, *end = hf__slice_end(text), *from = at;
    hf__buf_char(buf, '"');
    while (at < end) {
        if (!stops[(unsigned char)*at]) {
            at++;
            continue;
        }
        size_t len = (unsigned char)*at >= 0x80 ? hf__utf8_sequence(at, end) : 1;
        if (len == 0) {
            buf->failed = true;
            return;
        }
        if ((unsigned char)*at >= 0x80) {
            at += len;
            continue;
        }
        hf__buf_add(buf, from, (size_t)(at - from));
        put_escape(buf, (unsigned char)*at++);
        from = at;
    }
    hf__buf_add(buf, from, (size_t)(end - from));
    hf__buf_char(buf, '"');
}

void hf__json_put_key(struct hf_json_writer *w, struct hf_slice key)
{
    separate(w);
    put_quoted(w->buf, key);
    hf__buf_char(w->buf, ':');
    w->comma = false;
}

void hf__json_put_name(struct hf_json_writer *w, const char *name)
{
    hf__json_put_key(w, hf__slice_str(name));
}

void hf__json_put_string(struct hf_json_writer *w, struct hf_slice text)
{
    separate(w);
    put_quoted(w->buf, text);
}

void hf__json_put_raw(struct hf_json_writer *w, struct hf_slice text)
{
    separate(w);
    hf__buf_slice(w->buf, text);
}

void hf__json_put_int64(struct hf_json_writer *w, int64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    separate(w);
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) *--at = '-';
    hf__buf_add(w->buf, at, (size_t)(digits + sizeof digits - at));
}

void hf__json_put_bool(struct hf_json_writer *w, bool value)
{
    hf__json_put_raw(w, value ? HF_LIT("true") : HF_LIT("false"));
}

void hf__json_put_null(struct hf_json_writer *w)
{
    hf__json_put_raw(w, HF_LIT("null"));
}
