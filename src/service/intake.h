/*
 * What callers may send before it is looked at: the bodies of requests, and the memory they take.
 *
 * Invariants
 * B1  A body has at most HF_BODY_MAX bytes. More is answered with 413: at the header that says so,
 *     or as soon as it has come in; then the connection ends.
 * B2  Only bytes that are kept count, and of those what is beyond the first HF_SMALL of a body:
 *     against what all callers may take together and what those of one address may. Where there is
 *     no room the answer is 503, never silence. So whoever holds back large bodies cannot keep out
 *     those who send small ones.
 */
#ifndef HF_SERVICE_INTAKE_H
#define HF_SERVICE_INTAKE_H

#include <microhttpd.h>

#include "service/service.h"

/*
 * The header has come in. False: it is to be answered now, since it says that the body is far too
 * large (413), or its length in two ways (400). A body that is too large, but can be read to its
 * end, has been answered.
 */
bool hf__intake_begin(struct hf_exchange *exchange);

/* A part of a body has come in. False: the connection is to be closed. */
bool hf__intake_add(struct hf_exchange *exchange, const char *bytes, size_t size);

/* The exchange is over. */
void hf__intake_done(struct hf_exchange *exchange);

#endif
