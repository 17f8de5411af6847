/*
 * DynamoDB expression text to trees: the inverse of expr_print, for the
 * DynamoDB endpoint. Error texts are DynamoDB's.
 */
#ifndef HF_WIRE_EXPR_PARSE_H
#define HF_WIRE_EXPR_PARSE_H

#include "base/arena.h"
#include "base/error.h"
#include "item/condition.h"
#include "item/projection.h"
#include "item/update.h"

enum { HF_EXPRESSION_MAX_SIZE = 4096, HF_EXPRESSION_MAX_OPERATORS = 300 };

/* The meaning of placeholders, and which were used. */
struct hf_bindings {
    struct hf_item names;  /* "#n0" → S */
    struct hf_item values; /* ":v0" → value */
    bool *name_used;       /* as many as names.count */
    bool *value_used;
};

/* `where` is the parameter's name, for messages: "ConditionExpression". */
int hf__expr_parse_condition(struct hf_arena *arena, struct hf_slice text,
                             struct hf_bindings *bindings, const char *where,
                             const struct hf_condition **ret, struct hf_error *reterr);
int hf__expr_parse_update(struct hf_arena *arena, struct hf_slice text,
                          struct hf_bindings *bindings, struct hf_update *ret,
                          struct hf_error *reterr);
int hf__expr_parse_projection(struct hf_arena *arena, struct hf_slice text,
                              struct hf_bindings *bindings, struct hf_projection *ret,
                              struct hf_error *reterr);

/* Placeholders must be well-formed, and used. */
int hf__bindings_check(const struct hf_bindings *bindings, struct hf_error *reterr);
int hf__bindings_check_used(const struct hf_bindings *bindings, struct hf_error *reterr);

#endif
