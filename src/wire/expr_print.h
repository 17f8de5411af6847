/*
 * Conditions, updates and projections as DynamoDB expression text.
 *
 * Every name and value becomes a placeholder (#n0, :v0): so many names are
 * reserved words that aliasing all of them is simpler than knowing which.
 * One set of placeholders serves all the expressions of a request.
 */
#ifndef HF_WIRE_EXPR_PRINT_H
#define HF_WIRE_EXPR_PRINT_H

#include "base/buf.h"
#include "item/condition.h"
#include "item/projection.h"
#include "item/update.h"

struct hf_placeholders {
    struct hf_arena *arena;
    struct hf_slice *names; /* #n0, #n1, … */
    size_t name_count;
    size_t name_capacity;
    const struct hf_value **values; /* :v0, :v1, … */
    size_t value_count;
    size_t value_capacity;
};

void hf__expr_print_condition(struct hf_buf *out, struct hf_placeholders *p,
                              const struct hf_condition *condition);
void hf__expr_print_update(struct hf_buf *out, struct hf_placeholders *p,
                           const struct hf_update *update);
void hf__expr_print_projection(struct hf_buf *out, struct hf_placeholders *p,
                               const struct hf_projection *projection);

#endif
