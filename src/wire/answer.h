/* Answers as the bodies of DynamoDB responses, and back. */
#ifndef HF_WIRE_ANSWER_H
#define HF_WIRE_ANSWER_H

#include "base/buf.h"
#include "item/op.h"
#include "wire/errors.h"

/* A page is at most 1 MB of items, in the most wasteful spelling. */
enum { HF_ANSWER_MAX_SIZE = 64 * 1024 * 1024 };

/*
 * Appends the body that answers an operation; returns the HTTP status. On want
 * of memory ret->failed says so.
 */
int hf__answer_write(const struct hf_op *op, const struct hf_answer *answer, struct hf_buf *ret);

/* Appends the body of an exception that none of our codes has; returns the HTTP status. */
int hf__answer_write_exception(const char *name, const char *message, struct hf_buf *ret);

/*
 * Reads the body of a successful response (status 200); not of the batches. The answer points into
 * the body and the arena. What is missing or malformed is HF_ERR_BAD_ANSWER.
 */
int hf__answer_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                    struct hf_answer *ret, struct hf_error *reterr);

/*
 * Reads the body of a failed response into ret->code, ->error and, for a failed
 * condition, ->item. *ret_exception is NULL for an exception we do not know;
 * then 5xx is HF_ERR_STORE and everything else HF_ERR_BAD_ANSWER.
 */
void hf__answer_read_error(struct hf_arena *arena, int status, struct hf_slice body,
                           struct hf_answer *ret, const struct hf_exception **ret_exception);

#endif
