/* Operations as the bodies of DynamoDB requests, and back. */
#ifndef HF_WIRE_REQUEST_H
#define HF_WIRE_REQUEST_H

#include "base/buf.h"
#include "item/op.h"

/* A request may carry an item of 400 KB in the most wasteful spelling. */
enum { HF_REQUEST_MAX_SIZE = 16 * 1024 * 1024 };

/* Appends the body to `ret`; `arena` is scratch. Fails only for want of memory or on bad UTF-8. */
int hf__request_write(struct hf_arena *arena, const struct hf_op *op, struct hf_buf *ret,
                      struct hf_error *reterr);

/* The same, but with the members of all maps in the order of their names. */
int hf__request_write_in_order(struct hf_arena *arena, const struct hf_op *op, struct hf_buf *ret,
                               struct hf_error *reterr);

/*
 * Reads the body of a request of the given kind. The operation points into the
 * body and the arena. DynamoDB's error texts; parameters that DynamoDB calls
 * legacy become conditions, updates and projections; others that holdfast does
 * not know are ignored.
 */
int hf__request_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                     struct hf_op *ret, struct hf_error *reterr);

/* The kind that an X-Amz-Target header names ("DynamoDB_20120810.GetItem"); false if none. */
bool hf__request_kind(struct hf_slice target, enum hf_op_kind *ret);

#endif
