/*
 * Strict JSON pull reader over a complete document in memory.
 *
 * The caller asks for what it expects; the reader either delivers it or stops
 * at the first error, with its position, and answers false to everything after
 * that. So a caller reads a whole document and checks once:
 *
 *     hf__json_object(&r);
 *     while (hf__json_key(&r, &key)) {
 *         if (hf__slice_is(key, "name")) hf__json_string(&r, &name);
 *         else hf__json_skip(&r);
 *     }
 *     if (hf__json_finish(&r) != 0) … r.error …
 *
 * Accepted is RFC 8259 and nothing else: valid UTF-8, no lone surrogates, no
 * duplicate keys, nothing after the document. Numbers stay text. Strings point
 * into the document unless they had escapes; then they are in the arena.
 */
#ifndef HF_BASE_JSON_READER_H
#define HF_BASE_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

enum { HF_JSON_MAX_DEPTH = 96 };

enum hf_json_type {
    HF_JSON_NOTHING, /* an error, or the end */
    HF_JSON_OBJECT,
    HF_JSON_ARRAY,
    HF_JSON_STRING,
    HF_JSON_NUMBER,
    HF_JSON_BOOL,
    HF_JSON_NULL,
};

struct hf_json_frame {
    bool is_object;
    bool any;           /* something was read, so a comma must follow */
    uint32_t first_key; /* this object's first entry in `keys` */
};

struct hf_json_reader {
    const char *start;
    const char *at;
    const char *end;
    struct hf_arena *arena;
    bool failed;
    unsigned depth;
    struct hf_slice *keys; /* of all open objects, to find duplicates */
    size_t key_count;
    size_t key_capacity;
    struct hf_json_frame frames[HF_JSON_MAX_DEPTH];
    struct hf_slice key_room[16];
    struct hf_error error; /* valid once failed */
    struct hf_slice notes; /* see hf__json_note */
    size_t note_count;
};

/* The document must outlive the reader and what it delivers; more than `limit` bytes is an error.
 */
void hf__json_reader_init(struct hf_json_reader *r, struct hf_slice document, size_t limit,
                          struct hf_arena *arena);

/* What comes next, without taking it. */
enum hf_json_type hf__json_peek(struct hf_json_reader *r);

bool hf__json_object(struct hf_json_reader *r);
/* The next key of the open object; false at its end, which is taken. */
bool hf__json_key(struct hf_json_reader *r, struct hf_slice *ret);

bool hf__json_array(struct hf_json_reader *r);
/* Whether another element follows in the open array; false at its end, which is taken. */
bool hf__json_element(struct hf_json_reader *r);

bool hf__json_string(struct hf_json_reader *r, struct hf_slice *ret);
bool hf__json_number(struct hf_json_reader *r, struct hf_slice *ret);
bool hf__json_int64(struct hf_json_reader *r, int64_t *ret);
bool hf__json_bool(struct hf_json_reader *r, bool *ret);
bool hf__json_null(struct hf_json_reader *r);

/* Takes one value of any type, checking all of it. */
bool hf__json_skip(struct hf_json_reader *r);

/* Nothing may follow. Returns 0 or the error's code. */
int hf__json_finish(struct hf_json_reader *r);

/* For callers whose own memory ran out. */
bool hf__json_no_memory(struct hf_json_reader *r);

/* For callers that find fault with a well-formed value: fails at the current position. */
bool hf__json_fail(struct hf_json_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For values of the right type that are refused all the same: HF_ERR_VALIDATION, in these words. */
bool hf__json_refuse(struct hf_json_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For callers that report all such values together: noted in `notes`, and reading goes on. */
void hf__json_note(struct hf_json_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
