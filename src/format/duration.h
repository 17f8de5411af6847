/*
 * The length of a lease, in the two spellings that are found in tables: decimal milliseconds
 * ("20000"), and Go's durations ("20s", "1m30s", "1.5s").
 */
#ifndef HF_FORMAT_DURATION_H
#define HF_FORMAT_DURATION_H

#include <stdint.h>

#include "base/arena.h"

/*
 * Either spelling, rounded up to milliseconds; false if it is not a duration, not positive, or
 * absurdly long.
 */
bool hf__duration_parse(struct hf_slice text, int64_t *ret_ms);

struct hf_slice hf__duration_print_ms(struct hf_arena *arena, int64_t ms);
/* As Go prints it. */
struct hf_slice hf__duration_print_go(struct hf_arena *arena, int64_t ms);

#endif
