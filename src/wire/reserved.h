/* DynamoDB's reserved words: names that an expression may not use without an alias. */
#ifndef HF_WIRE_RESERVED_H
#define HF_WIRE_RESERVED_H

#include <stdbool.h>

#include "base/slice.h"

/* Without regard to case. */
bool hf__is_reserved(struct hf_slice word);

#endif
