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

/* Writes up to six bytes; returns their number. */
static size_t escape(unsigned char c, char *ret)
{
    static const char letters[128] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
                                      ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\'};
    static const char digits[] = "0123456789abcdef";
    ret[0] = '\\';
    ret[1] = letters[c] ? letters[c] : 'u';
    if (letters[c]) return 2;
    ret[2] = ret[3] = '0';
    ret[4] = digits[c >> 4];
    ret[5] = digits[c & 15];
    return 6;
}

static bool must_escape(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* Writes the run of bytes that must be escaped; returns where the run ends. */
static const char *put_escapes(struct hf_buf *buf, const char *at, const char *end)
{
    char room[6 * 64];
    do {
        size_t len = 0;
        while (at < end && must_escape(*at) && len <= sizeof room - 6)
            len += escape((unsigned char)*at++, room + len);
        hf__buf_add(buf, room, len);
        if (len <= sizeof room - 6) return at;
    } while (true);
}

static void put_quoted(struct hf_buf *buf, struct hf_slice text)
{
    const char *at = text.ptr, *end = hf__slice_end(text), *from = at;
    hf__buf_char(buf, '"');
    while (at < end) { /* an empty text may be nowhere */
        at += hf__plain_run(at, end);
        if (at == end) break;
        if ((unsigned char)*at >= 0x80) {
            size_t len = hf__utf8_sequence(at, end);
            if (len == 0) {
                buf->failed = true;
                return;
            }
            at += len;
            continue;
        }
        if (at > from) hf__buf_add(buf, from, (size_t)(at - from));
        from = at = put_escapes(buf, at, end);
    }
    if (end > from) hf__buf_add(buf, from, (size_t)(end - from));
    hf__buf_char(buf, '"');
}

void hf__json_put_key(struct hf_json_writer *w, struct hf_slice key)
{
    separate(w);
    put_quoted(w->buf, key);
    hf__buf_char(w->buf, ':');
    w->comma = false;
}

void hf__json_put_plain_key(struct hf_json_writer *w, struct hf_slice key)
{
    separate(w);
    hf__buf_char(w->buf, '"');
    hf__buf_slice(w->buf, key);
    hf__buf_add(w->buf, "\":", 2);
    w->comma = false;
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
    separate(w);
    hf__buf_int64(w->buf, value);
}

void hf__json_put_bool(struct hf_json_writer *w, bool value)
{
    hf__json_put_raw(w, value ? HF_LIT("true") : HF_LIT("false"));
}

void hf__json_put_null(struct hf_json_writer *w)
{
    hf__json_put_raw(w, HF_LIT("null"));
}
