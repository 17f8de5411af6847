#include "base/json_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static bool fail_at(struct hf_json_reader *r, const char *at, int code, const char *what)
{
    if (r->failed) return false;
    r->failed = true;
    hf__error_set(&r->error, code, "JSON, byte %zu: %s", (size_t)(at - r->start), what);
    return false;
}

static bool fail(struct hf_json_reader *r, const char *what)
{
    return fail_at(r, r->at, HF_ERR_SYNTAX, what);
}

bool hf__json_no_memory(struct hf_json_reader *r)
{
    return fail_at(r, r->at, HF_ERR_NO_MEMORY, "out of memory");
}

bool hf__json_fail(struct hf_json_reader *r, const char *format, ...)
{
    char what[384];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return fail(r, what);
}

bool hf__json_refuse(struct hf_json_reader *r, const char *format, ...)
{
    char what[sizeof r->error.message];
    if (r->failed) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    r->failed = true;
    hf__error_set(&r->error, HF_ERR_VALIDATION, "%s", what);
    return false;
}

void hf__json_note(struct hf_json_reader *r, const char *format, ...)
{
    enum { MOST = 10 };
    char what[sizeof r->error.message];
    if (r->failed || r->note_count == MOST) return;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    r->notes =
        hf__arena_printf(r->arena, "%.*s%s%s", HF_FMT(r->notes), r->note_count ? "; " : "", what);
    r->note_count++;
    if (r->arena->failed) hf__json_no_memory(r);
}

void hf__json_reader_init(struct hf_json_reader *r, struct hf_slice document, size_t limit,
                          struct hf_arena *arena)
{
    r->start = r->at = document.ptr ? document.ptr : "";
    r->end = r->start + document.len;
    r->arena = arena;
    r->failed = false;
    r->depth = 0;
    r->keys = r->key_room;
    r->key_count = 0;
    r->key_capacity = sizeof r->key_room / sizeof r->key_room[0];
    r->notes = HF_LIT("");
    r->note_count = 0;
    if (document.len > limit)
        fail_at(r, r->start + limit, HF_ERR_LIMIT, "the document is too long");
}

static void skip_space(struct hf_json_reader *r)
{
    const char *at = r->at, *end = r->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    r->at = at;
}

enum hf_json_type hf__json_peek(struct hf_json_reader *r)
{
    if (r->failed) return HF_JSON_NOTHING;
    skip_space(r);
    if (r->at == r->end) return HF_JSON_NOTHING;
    switch (*r->at) {
    case '{': return HF_JSON_OBJECT;
    case '[': return HF_JSON_ARRAY;
    case '"': return HF_JSON_STRING;
    case 't':
    case 'f': return HF_JSON_BOOL;
    case 'n': return HF_JSON_NULL;
    case '-':
    case '0' ... '9': return HF_JSON_NUMBER;
    default: return HF_JSON_NOTHING;
    }
}

/* Takes one expected character after white space. */
static bool take(struct hf_json_reader *r, char c, const char *complaint)
{
    if (r->failed) return false;
    skip_space(r);
    if (r->at == r->end) return fail(r, "the document ends too early");
    if (*r->at != c) return fail(r, complaint);
    r->at++;
    return true;
}

static bool open_frame(struct hf_json_reader *r, bool is_object)
{
    if (r->depth == HF_JSON_MAX_DEPTH) return fail_at(r, r->at, HF_ERR_LIMIT, "nested too deeply");
    r->frames[r->depth++] =
        (struct hf_json_frame){.is_object = is_object, .first_key = (uint32_t)r->key_count};
    return true;
}

bool hf__json_object(struct hf_json_reader *r)
{
    return take(r, '{', "expected an object") && open_frame(r, true);
}

bool hf__json_array(struct hf_json_reader *r)
{
    return take(r, '[', "expected an array") && open_frame(r, false);
}

static int compare_keys(const void *a, const void *b)
{
    return hf__slice_cmp(*(const struct hf_slice *)a, *(const struct hf_slice *)b);
}

/*
 * A duplicate is refused when it is met, so that no caller sees one. The first few keys of an
 * object are compared one by one. Beyond that its keys stand in sorted runs, one for each bit of
 * their number, largest first: adding one sorts the run that its number ends in. So no document
 * costs more than n log² n.
 */
enum { FEW_KEYS = 8 };

static bool is_known(const struct hf_slice *keys, size_t count, struct hf_slice key)
{
    if (count < FEW_KEYS) {
        for (size_t i = 0; i < count; i++)
            if (hf__slice_eq(keys[i], key)) return true;
        return false;
    }
    for (size_t run; count > 0; keys += run, count -= run) {
        run = (size_t)1 << (8 * sizeof(unsigned long) - 1 - (size_t)__builtin_clzl(count));
        if (bsearch(&key, keys, run, sizeof *keys, compare_keys)) return true;
    }
    return false;
}

static void sort_last_run(struct hf_slice *keys, size_t count)
{
    size_t run = count & -count;
    if (count >= FEW_KEYS && run > 1) qsort(keys + count - run, run, sizeof *keys, compare_keys);
}

/* Takes a closing bracket or the comma before the next member. True: a member follows. */
static bool next_member(struct hf_json_reader *r, bool is_object)
{
    if (r->failed) return false;
    if (r->depth == 0 || r->frames[r->depth - 1].is_object != is_object)
        return fail(r, "not inside such a value");
    struct hf_json_frame *frame = &r->frames[r->depth - 1];
    skip_space(r);
    if (r->at < r->end && *r->at == (is_object ? '}' : ']')) {
        r->at++;
        r->depth--;
        if (is_object) r->key_count = frame->first_key;
        return false;
    }
    if (frame->any && !take(r, ',', "expected a comma or the end")) return false;
    frame->any = true;
    return true;
}

bool hf__json_element(struct hf_json_reader *r)
{
    return next_member(r, false);
}

static bool remember_key(struct hf_json_reader *r, struct hf_slice key)
{
    size_t first = r->frames[r->depth - 1].first_key;
    if (is_known(r->keys + first, r->key_count - first, key))
        return hf__json_fail(r, "duplicate key \"%.*s\"", HF_FMT(key));
    if (r->key_count == r->key_capacity) {
        void *keys = hf__arena_grow(r->arena, r->keys, r->key_count, &r->key_capacity, sizeof key);
        if (!keys) return fail_at(r, r->at, HF_ERR_NO_MEMORY, "out of memory");
        r->keys = keys;
    }
    r->keys[r->key_count++] = key;
    sort_last_run(r->keys + first, r->key_count - first);
    return true;
}

bool hf__json_key(struct hf_json_reader *r, struct hf_slice *ret)
{
    if (!next_member(r, true)) return false;
    struct hf_slice key;
    if (hf__json_peek(r) != HF_JSON_STRING) return fail(r, "expected a key");
    if (!hf__json_string(r, &key) || !remember_key(r, key)) return false;
    if (!take(r, ':', "expected a colon")) return false;
    *ret = key;
    return true;
}

/* Four hex digits at r->at, or -1. */
static int32_t take_unit(struct hf_json_reader *r)
{
    if (r->end - r->at < 4) return -1;
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = hf__hex_value(r->at[i]);
        if (value < 0) return -1;
        unit = unit << 4 | value;
    }
    r->at += 4;
    return unit;
}

static char *put_utf8(char *out, int32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* Decodes the escape after a backslash; NULL on failure. */
static char *take_escape(struct hf_json_reader *r, char *out)
{
    static const char plain[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return fail(r, "the document ends too early"), NULL;
    char c = *r->at;
    const char *found = c ? strchr(plain, c) : NULL;
    if (found) {
        r->at++;
        *out++ = meant[found - plain];
        return out;
    }
    if (c != 'u') return fail(r, "unknown escape"), NULL;
    r->at++;
    int32_t unit = take_unit(r);
    if (unit < 0) return fail(r, "\\u needs four hex digits"), NULL;
    if (unit >= 0xdc00 && unit <= 0xdfff) return fail(r, "lone surrogate"), NULL;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return fail(r, "lone surrogate"), NULL;
        r->at += 2;
        int32_t low = take_unit(r);
        if (low < 0xdc00 || low > 0xdfff) return fail(r, "lone surrogate"), NULL;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(out, unit);
}

/* Moves r->at over plain text and checked UTF-8 to the quote, a backslash or an error. */
static bool scan_plain(struct hf_json_reader *r)
{
    const char *at = r->at, *end = r->end;
    for (;;) {
        at += hf__plain_run(at, end);
        if (at == end || (unsigned char)*at < 0x80) break;
        size_t len = hf__utf8_sequence(at, end);
        if (len == 0) break;
        at += len;
    }
    r->at = at;
    if (at == end) return fail(r, "the document ends inside a string");
    if ((unsigned char)*at >= 0x80) return fail(r, "not valid UTF-8");
    if ((unsigned char)*at < 0x20) return fail(r, "a control character must be escaped");
    return true;
}

/* The rest of a string that has escapes, decoded into the arena. `from` is its first byte. */
static bool take_escaped(struct hf_json_reader *r, const char *from, struct hf_slice *ret)
{
    /* No escape decodes to more bytes than it takes, so the text up to the closing quote is enough.
     */
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    if (close == r->end)
        return fail_at(r, r->end, HF_ERR_SYNTAX, "the document ends inside a string");
    char *text = hf__arena_alloc(r->arena, (size_t)(close - from) + 1);
    if (!text) return fail_at(r, r->at, HF_ERR_NO_MEMORY, "out of memory");
    char *out = text;
    for (;;) {
        memcpy(out, from, (size_t)(r->at - from));
        out += r->at - from;
        if (*r->at++ == '"') break;
        out = take_escape(r, out);
        if (!out) return false;
        from = r->at;
        if (!scan_plain(r)) return false;
    }
    *ret = hf__slice(text, (size_t)(out - text));
    return true;
}

bool hf__json_string(struct hf_json_reader *r, struct hf_slice *ret)
{
    if (!take(r, '"', "expected a string")) return false;
    const char *from = r->at;
    if (!scan_plain(r)) return false;
    if (*r->at == '\\') return take_escaped(r, from, ret);
    *ret = hf__slice(from, (size_t)(r->at - from));
    r->at++;
    return true;
}

static bool is_digit(const struct hf_json_reader *r)
{
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static bool take_digits(struct hf_json_reader *r)
{
    if (!is_digit(r)) return fail(r, "expected a digit");
    while (is_digit(r)) r->at++;
    return true;
}

bool hf__json_number(struct hf_json_reader *r, struct hf_slice *ret)
{
    if (r->failed) return false;
    if (hf__json_peek(r) != HF_JSON_NUMBER) return fail(r, "expected a number");
    const char *from = r->at;
    if (*r->at == '-') r->at++;
    if (r->at < r->end && *r->at == '0') {
        r->at++;
        if (is_digit(r)) return fail(r, "a number may not begin with 0");
    } else if (!take_digits(r)) {
        return false;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!take_digits(r)) return false;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!take_digits(r)) return false;
    }
    *ret = hf__slice(from, (size_t)(r->at - from));
    return true;
}

bool hf__json_int64(struct hf_json_reader *r, int64_t *ret)
{
    struct hf_slice text;
    if (!hf__json_number(r, &text)) return false;
    if (!hf__parse_int64(text, ret)) return fail(r, "expected a whole number of 64 bits");
    return true;
}

static bool take_word(struct hf_json_reader *r, const char *word, size_t len)
{
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return fail(r, "unknown word");
    r->at += len;
    return true;
}

bool hf__json_bool(struct hf_json_reader *r, bool *ret)
{
    if (r->failed) return false;
    if (hf__json_peek(r) != HF_JSON_BOOL) return fail(r, "expected true or false");
    bool value = *r->at == 't';
    if (!(value ? take_word(r, "true", 4) : take_word(r, "false", 5))) return false;
    *ret = value;
    return true;
}

bool hf__json_null(struct hf_json_reader *r)
{
    if (r->failed) return false;
    if (hf__json_peek(r) != HF_JSON_NULL) return fail(r, "expected null");
    return take_word(r, "null", 4);
}

bool hf__json_skip(struct hf_json_reader *r)
{
    struct hf_slice ignored;
    bool flag;
    switch (hf__json_peek(r)) {
    case HF_JSON_OBJECT:
        hf__json_object(r);
        while (hf__json_key(r, &ignored)) hf__json_skip(r);
        break;
    case HF_JSON_ARRAY:
        hf__json_array(r);
        while (hf__json_element(r)) hf__json_skip(r);
        break;
    case HF_JSON_STRING: hf__json_string(r, &ignored); break;
    case HF_JSON_NUMBER: hf__json_number(r, &ignored); break;
    case HF_JSON_BOOL: hf__json_bool(r, &flag); break;
    case HF_JSON_NULL: hf__json_null(r); break;
    case HF_JSON_NOTHING: fail(r, "expected a value"); break;
    }
    return !r->failed;
}

int hf__json_finish(struct hf_json_reader *r)
{
    if (!r->failed) {
        skip_space(r);
        if (r->depth > 0) fail(r, "the document was not read to its end");
        else if (r->at != r->end) fail(r, "something follows the document");
    }
    return r->failed ? r->error.code : 0;
}
