/*
 * The head of an HTTP/1.1 request: its first line and its headers. It knows no sockets: bytes go in,
 * fields come out.
 *
 * It is strict wherever leniency would let a proxy in front of us read the same request otherwise:
 * lines end with CR LF, a header is not folded, its name is followed by a colon at once, a length is
 * digits and is said once, and never beside chunks; there is one Host.
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
    const char *query; /* NULL: there is none */
    bool is_old;       /* HTTP/1.0 */
    bool closes;       /* no other request follows on this connection */
    bool chunked;
    bool expects;   /* to be told to go on before it sends its body */
    int64_t length; /* of the body; -1: it is not said; INT64_MAX: more than can be counted */
    size_t count;
    struct hf_field fields[HF_FIELDS_MOST];
};

/*
 * How long the head is, with the empty line that ends it; 0: it has not come in whole. `scanned`
 * keeps how far the last call has looked, and begins with 0.
 */
size_t hf__head_end(struct hf_slice bytes, size_t *scanned);

/* Parses a whole head, which it changes. 0, or the status to refuse it with, and why. */
int hf__head_parse(char *text, size_t len, struct hf_head *ret, const char **ret_why);

/* The first header of that name, in any case; NULL: it was not sent. */
const char *hf__head_field(const struct hf_head *head, const char *name);

#endif
