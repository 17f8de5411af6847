/* DynamoDB's exceptions and our error codes: one table, both directions. */
#ifndef HF_WIRE_ERRORS_H
#define HF_WIRE_ERRORS_H

#include <stdbool.h>

#include "base/slice.h"

struct hf_exception {
    const char *name; /* "ConditionalCheckFailedException" */
    int code;
    int status;     /* of the HTTP answer */
    bool retryable; /* the same request may succeed later */
    bool throttle;  /* … and should wait longer */
    bool skew;      /* may mean that our clock is off */
};

/* By name; NULL if it is unknown. */
const struct hf_exception *hf__exception_find(struct hf_slice name);

/* What stands before its name: "com.amazonaws.dynamodb.v20120810", … */
const char *hf__exception_prefix(const struct hf_exception *exception);

/* Why one part of a transaction cancelled it: "ConditionalCheckFailed", …; "None": it did not. */
const char *hf__cancellation_name(int code);
/* … and back. */
int hf__cancellation_code(struct hf_slice name);

/* The exception that stands for one of our codes in an answer; never NULL. */
const struct hf_exception *hf__exception_for(int code);

#endif
