#include "item/key_condition.h"

static bool test_equal(const struct hf_key_test *a, const struct hf_key_test *b)
{
    return a->op == b->op && hf__slice_eq(a->name, b->name) && hf__value_equal(&a->low, &b->low) &&
           (a->op != HF_BETWEEN || hf__value_equal(&a->high, &b->high));
}

bool hf__key_condition_equal(const struct hf_key_condition *a, const struct hf_key_condition *b)
{
    if (!a || !b) return a == b;
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!test_equal(&a->tests[i], &b->tests[i])) return false;
    return true;
}

static int check_types(const struct hf_key_test *test, enum hf_type type, struct hf_error *reterr)
{
    bool fits = test->low.type == type && (test->op != HF_BETWEEN || test->high.type == type);
    bool prefix_of_number = test->op == HF_BEGINS_WITH && type == HF_N;
    if (fits && !prefix_of_number) return 0;
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "One or more parameter values were invalid: Condition parameter type does not "
        "match schema type");
}

static int check_size(const struct hf_key_test *test, size_t limit, const char *title,
                      struct hf_error *reterr)
{
    const struct hf_value *values[] = {&test->low, &test->high};
    for (int i = 0; i < (test->op == HF_BETWEEN ? 2 : 1); i++)
        if (values[i]->type != HF_N && values[i]->bytes.len > limit)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: Size of %s has exceeded "
                "the maximum size limit of %zu bytes",
                title, limit);
    return 0;
}

static int check_not_empty(const struct hf_key_test *test, struct hf_error *reterr)
{
    if (test->low.type == HF_N || test->low.bytes.len > 0) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "One or more parameter values are not valid. The AttributeValue for a key "
                         "attribute cannot contain an empty string value. Key: %.*s",
                         HF_FMT(test->name));
}

int hf__key_condition_bind(const struct hf_key_condition *condition,
                           const struct hf_key_schema *schema, const struct hf_value **ret_hash,
                           const struct hf_key_test **ret_range, struct hf_error *reterr)
{
    const struct hf_key_test *hash = NULL, *range = NULL;
    for (size_t i = 0; i < condition->count; i++) {
        const struct hf_key_test *test = &condition->tests[i];
        if (hf__slice_eq(test->name, schema->hash_name)) hash = test;
        else if (hf__schema_has_range(schema) && hf__slice_eq(test->name, schema->range_name))
            range = test;
    }
    bool more = condition->count != (range ? 2u : 1u);
    if (!hash || (more && hf__schema_has_range(schema)))
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Query condition missed key schema element: %.*s",
                             HF_FMT(hash ? schema->range_name : schema->hash_name));
    if (more || hash->op != HF_EQ)
        return hf__error_set(reterr, HF_ERR_VALIDATION, "Query key condition not supported");
    int code = check_types(hash, schema->hash_type, reterr);
    if (code == 0) code = check_not_empty(hash, reterr);
    if (code == 0 && range) code = check_types(range, schema->range_type, reterr);
    if (code == 0 && range) code = check_not_empty(range, reterr);
    if (code == 0) code = check_size(hash, HF_HASH_KEY_MAX_SIZE, "hashkey", reterr);
    if (code == 0 && range) code = check_size(range, HF_RANGE_KEY_MAX_SIZE, "rangekey", reterr);
    if (code != 0) return code;
    *ret_hash = &hash->low;
    *ret_range = range;
    return 0;
}

static const struct hf_condition *test_tree(struct hf_arena *arena, const struct hf_key_test *test)
{
    struct hf_operand operands[3] = {
        hf__operand_path(hf__path(arena, test->name)),
        hf__operand_value(test->low),
        hf__operand_value(test->high),
    };
    return hf__cond(arena, test->op, operands, test->op == HF_BETWEEN ? 3 : 2);
}

const struct hf_condition *hf__key_condition_tree(struct hf_arena *arena,
                                                  const struct hf_key_condition *condition)
{
    const struct hf_condition *tree = NULL;
    for (size_t i = 0; i < condition->count; i++)
        tree = hf__cond_and(arena, tree, test_tree(arena, &condition->tests[i]));
    return tree;
}

static enum hf_condition_op mirrored(enum hf_condition_op op)
{
    switch (op) {
    case HF_LT: return HF_GT;
    case HF_LE: return HF_GE;
    case HF_GT: return HF_LT;
    case HF_GE: return HF_LE;
    default: return op;
    }
}

static bool is_name(const struct hf_operand *operand)
{
    return operand->is_path && !operand->is_size && operand->path.count == 1;
}

static bool is_value(const struct hf_operand *operand)
{
    return !operand->is_path && !operand->is_size;
}

static int take_test(const struct hf_condition *c, struct hf_key_condition *ret,
                     struct hf_error *reterr)
{
    bool supported =
        c->op == HF_EQ || (c->op >= HF_LT && c->op <= HF_BETWEEN) || c->op == HF_BEGINS_WITH;
    if (!supported)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid operator used in KeyConditionExpression: %s",
                             hf__condition_syntax[c->op].text);
    const struct hf_operand *name = &c->operands[0], *low = &c->operands[1];
    enum hf_condition_op op = c->op;
    if (is_value(name) && is_name(low) && op != HF_BETWEEN && op != HF_BEGINS_WITH) {
        name = &c->operands[1];
        low = &c->operands[0];
        op = mirrored(op);
    }
    bool shaped = is_name(name) && is_value(low) && (op != HF_BETWEEN || is_value(&c->operands[2]));
    if (!shaped)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid condition in KeyConditionExpression: a key attribute must be "
                             "compared with a value");
    for (size_t i = 0; i < ret->count; i++)
        if (hf__slice_eq(ret->tests[i].name, name->path.parts[0].name) || ret->count == 2)
            return hf__error_set(reterr, HF_ERR_VALIDATION,
                                 "KeyConditionExpressions must only contain one condition per key");
    ret->tests[ret->count++] = (struct hf_key_test){
        .name = name->path.parts[0].name,
        .op = op,
        .low = low->value,
        .high = op == HF_BETWEEN ? c->operands[2].value : (struct hf_value){.type = HF_NULL},
    };
    return 0;
}

static int take_tests(const struct hf_condition *tree, struct hf_key_condition *ret,
                      struct hf_error *reterr)
{
    if (tree->op != HF_AND) return take_test(tree, ret, reterr);
    int code = take_tests(tree->left, ret, reterr);
    return code == 0 ? take_tests(tree->right, ret, reterr) : code;
}

int hf__key_condition_from_tree(const struct hf_condition *tree, struct hf_key_condition *ret,
                                struct hf_error *reterr)
{
    struct hf_key_condition condition = {0};
    int code = take_tests(tree, &condition, reterr);
    if (code == 0) *ret = condition;
    return code;
}
