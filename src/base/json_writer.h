/*
 * JSON writer into a buffer. Puts the commas itself; refuses text that is not
 * UTF-8. Errors are sticky and show as buf->failed.
 */
#ifndef HF_BASE_JSON_WRITER_H
#define HF_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct hf_json_writer {
    struct hf_buf *buf;
    bool comma; /* the next value needs one before it */
};

void hf__json_writer_init(struct hf_json_writer *w, struct hf_buf *buf);

void hf__json_open(struct hf_json_writer *w, char bracket);  /* '{' or '[' */
void hf__json_close(struct hf_json_writer *w, char bracket); /* '}' or ']' */
void hf__json_put_key(struct hf_json_writer *w, struct hf_slice key);
/* A key that needs no escaping. */
void hf__json_put_plain_key(struct hf_json_writer *w, struct hf_slice key);
static inline void hf__json_put_name(struct hf_json_writer *w, const char *name)
{
    hf__json_put_plain_key(w, hf__slice_str(name));
}
void hf__json_put_string(struct hf_json_writer *w, struct hf_slice text);
void hf__json_put_int64(struct hf_json_writer *w, int64_t value);
void hf__json_put_bool(struct hf_json_writer *w, bool value);
void hf__json_put_null(struct hf_json_writer *w);
/* A number's or any value's text as it stands. */
void hf__json_put_raw(struct hf_json_writer *w, struct hf_slice text);

#endif
