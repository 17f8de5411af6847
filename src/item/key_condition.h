/* The items that a Query wants: one partition, and perhaps a range of its sort keys. */
#ifndef HF_ITEM_KEY_CONDITION_H
#define HF_ITEM_KEY_CONDITION_H

#include "item/condition.h"
#include "item/key.h"

/* name op low, or name BETWEEN low AND high. */
struct hf_key_test {
    struct hf_slice name;
    enum hf_condition_op op; /* EQ LT LE GT GE BETWEEN BEGINS_WITH */
    struct hf_value low;
    struct hf_value high;
};

/* In any order: the table's schema says which one is the partition's. */
struct hf_key_condition {
    struct hf_key_test tests[2];
    size_t count;
};

bool hf__key_condition_equal(const struct hf_key_condition *a, const struct hf_key_condition *b);

/* The tests as the schema orders them; *ret_range is NULL when there is none. */
int hf__key_condition_bind(const struct hf_key_condition *condition,
                           const struct hf_key_schema *schema, const struct hf_value **ret_hash,
                           const struct hf_key_test **ret_range, struct hf_error *reterr);

/* The same, as a condition: for printing. */
const struct hf_condition *hf__key_condition_tree(struct hf_arena *arena,
                                                  const struct hf_key_condition *condition);

/* From a condition as it was parsed. `5 < sk` counts as `sk > 5`. */
int hf__key_condition_from_tree(const struct hf_condition *tree, struct hf_key_condition *ret,
                                struct hf_error *reterr);

#endif
