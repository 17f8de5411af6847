/*
 * Conditions: trees that are evaluated on an item, printed as DynamoDB
 * expressions, and parsed from them.
 *
 * A condition in an arena that failed may be NULL, and NULL as the condition of
 * a write means "none": an operation's arena must be checked before it is
 * submitted (the stores do that).
 */
#ifndef HF_ITEM_CONDITION_H
#define HF_ITEM_CONDITION_H

#include "base/arena.h"
#include "base/error.h"
#include "item/path.h"
#include "item/value.h"

enum hf_condition_op {
    HF_AND,
    HF_OR,
    HF_NOT,
    HF_EQ,
    HF_NE,
    HF_LT,
    HF_LE,
    HF_GT,
    HF_GE,
    HF_BETWEEN,
    HF_IN,
    HF_EXISTS,
    HF_NOT_EXISTS,
    HF_HAS_TYPE,
    HF_BEGINS_WITH,
    HF_CONTAINS,
};
enum { HF_CONDITION_OPS = HF_CONTAINS + 1, HF_IN_MAX = 100, HF_CONDITION_MAX_DEPTH = 320 };

/* How an operator is written, and what it takes. One row per operator. */
struct hf_condition_syntax {
    const char *text; /* "=", "BETWEEN", "attribute_exists" */
    bool function;
    int least; /* operands */
    int most;
};
extern const struct hf_condition_syntax hf__condition_syntax[HF_CONDITION_OPS];

/* A path, a value, or the size() of either. */
struct hf_operand {
    bool is_path;
    bool is_size;
    union {
        struct hf_path path;
        struct hf_value value;
    };
};

struct hf_condition {
    enum hf_condition_op op;
    const struct hf_condition *left; /* AND, OR; NOT has only this one */
    const struct hf_condition *right;
    const struct hf_operand *operands; /* all others */
    size_t count;
};

struct hf_operand hf__operand_path(struct hf_path path);
struct hf_operand hf__operand_value(struct hf_value value);

/* Builders. A NULL side of and/or is left out: cond_and(x, NULL) is x. */
const struct hf_condition *hf__cond_and(struct hf_arena *arena, const struct hf_condition *left,
                                        const struct hf_condition *right);
const struct hf_condition *hf__cond_or(struct hf_arena *arena, const struct hf_condition *left,
                                       const struct hf_condition *right);
const struct hf_condition *hf__cond_not(struct hf_arena *arena, const struct hf_condition *what);
const struct hf_condition *hf__cond(struct hf_arena *arena, enum hf_condition_op op,
                                    const struct hf_operand *operands, size_t count);

/* How many comparisons and functions it has. */
size_t hf__condition_size(const struct hf_condition *condition);

/* On top-level attributes, the usual case. */
const struct hf_condition *hf__cond_exists(struct hf_arena *arena, const char *name);
const struct hf_condition *hf__cond_absent(struct hf_arena *arena, const char *name);
const struct hf_condition *hf__cond_compare(struct hf_arena *arena, const char *name,
                                            enum hf_condition_op op, struct hf_value value);

/* Whether the condition holds on an item; no item is the item without attributes. */
bool hf__condition_holds(const struct hf_condition *condition, struct hf_item item);

/* Refuses what DynamoDB refuses before it looks at any item. `where`: "ConditionExpression", … */
int hf__condition_check(const struct hf_condition *condition, const char *where,
                        struct hf_error *reterr);

bool hf__condition_equal(const struct hf_condition *a, const struct hf_condition *b);

/* The first top-level attribute named in the condition that `is_it` says yes to, or NULL. */
const struct hf_slice *hf__condition_find_name(const struct hf_condition *condition,
                                               bool (*is_it)(const void *user,
                                                             struct hf_slice name),
                                               const void *user);

#endif
