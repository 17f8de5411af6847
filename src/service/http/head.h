/*
 * The head of an HTTP/1.1 request: its first line and its headers. Independent of sockets: bytes go
 * in, fields come out.
 *
 * It is strict wherever leniency would let a proxy in front of us interpret the same request
 * differently: lines end with CR LF, headers are not folded, a name is followed directly by a
 * colon, a length is digits, sent once and never together with chunks, and there is one Host.
 */
#ifndef HF_SERVICE_HTTP_HEAD_H
#define HF_SERVICE_HTTP_HEAD_H

#include <stdint.h>

#include "base/slice.h"

enum { HF_FIELDS_MOST = 64 };

struct hf_field {
    const char *name;
    const char *value;
};

/* All texts are terminated, in the bytes that were parsed. */
struct hf_head {
    const char *method;
    const char *path;
    const char *query; /* NULL: none */
    bool is_old;       /* HTTP/1.0 */
    bool closes;       /* no other request follows on this connection */
    bool chunked;
    bool expects;   /* "100 Continue" before it sends its body */
    int64_t length; /* of the body; -1: not given; INT64_MAX: too large to count */
    size_t count;
    struct hf_field fields[HF_FIELDS_MOST];
};

/*
 * The length of the head, with the empty line that ends it; 0: it is not complete. `scanned` keeps
 * how far the last call has searched, and starts at 0.
 */
size_t hf__head_end(struct hf_slice bytes, size_t *scanned);

/* Parses a whole head in place. 0, or the status to refuse it with, and why. */
int hf__head_parse(char *text, size_t len, struct hf_head *ret, const char **ret_why);

/* The first header of that name, in any case; NULL: it was not sent. */
const char *hf__head_field(const struct hf_head *head, const char *name);

#endif
