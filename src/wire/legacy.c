#include "wire/legacy.h"

#include "wire/item_json.h"

/* ---- reading ---- */

/* Whether a text is a word of lower case, in whatever case. */
static bool is_word(struct hf_slice text, const char *word)
{
    struct hf_slice wanted = hf__slice_str(word);
    bool same = text.len == wanted.len;
    for (size_t i = 0; i < text.len && same; i++) same = (text.ptr[i] | 0x20) == wanted.ptr[i];
    return same;
}

bool hf__json_read_flag(struct hf_json_reader *r, bool *ret)
{
    struct hf_slice text;
    if (hf__json_peek(r) != HF_JSON_STRING) return hf__json_bool(r, ret);
    if (!hf__json_string(r, &text)) return false;
    bool is_true = is_word(text, "true");
    if (!is_true && !is_word(text, "false")) return hf__json_fail(r, "expected true or false");
    *ret = is_true;
    return true;
}

static void read_list(struct hf_json_reader *r, struct hf_values *ret)
{
    struct hf_value *values = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r);
    while (hf__json_element(r)) {
        values = hf__arena_grow(r->arena, values, count, &capacity, sizeof *values);
        if (!values) {
            hf__json_no_memory(r);
            return;
        }
        hf__json_read_value(r, &values[count++]);
    }
    *ret = (struct hf_values){values, count};
}

static void read_test(struct hf_json_reader *r, struct hf_legacy_test *ret)
{
    struct hf_slice key;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__json_peek(r) == HF_JSON_NULL) hf__json_null(r);
        else if (hf__slice_is(key, "ComparisonOperator")) hf__json_string(r, &ret->comparison);
        else if (hf__slice_is(key, "AttributeValueList")) {
            ret->has_list = true;
            read_list(r, &ret->list);
        } else if (hf__slice_is(key, "Value")) ret->has_value = hf__json_read_value(r, &ret->value);
        else if (hf__slice_is(key, "Exists")) ret->has_exists = hf__json_read_flag(r, &ret->exists);
        else hf__json_skip(r);
    }
}

static bool refuse_many(struct hf_json_reader *r)
{
    return hf__json_refuse(r, "too many attributes: a parameter may name at most %d",
                           HF_LEGACY_MOST);
}

bool hf__json_read_tests(struct hf_json_reader *r, struct hf_legacy_tests *ret)
{
    struct hf_legacy_test *tests = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice name;
    hf__json_object(r);
    while (hf__json_key(r, &name)) {
        tests = hf__arena_grow(r->arena, tests, count, &capacity, sizeof *tests);
        if (!tests) return hf__json_no_memory(r);
        if (count == HF_LEGACY_MOST) return refuse_many(r);
        tests[count] = (struct hf_legacy_test){.name = name};
        read_test(r, &tests[count++]);
    }
    *ret = (struct hf_legacy_tests){tests, count, true};
    return !r->failed;
}

static void read_change(struct hf_json_reader *r, struct hf_legacy_change *ret)
{
    struct hf_slice key;
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__json_peek(r) == HF_JSON_NULL) hf__json_null(r);
        else if (hf__slice_is(key, "Action")) hf__json_string(r, &ret->action);
        else if (hf__slice_is(key, "Value")) ret->has_value = hf__json_read_value(r, &ret->value);
        else hf__json_skip(r);
    }
}

bool hf__json_read_changes(struct hf_json_reader *r, struct hf_legacy_changes *ret)
{
    struct hf_legacy_change *changes = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice name;
    hf__json_object(r);
    while (hf__json_key(r, &name)) {
        changes = hf__arena_grow(r->arena, changes, count, &capacity, sizeof *changes);
        if (!changes) return hf__json_no_memory(r);
        if (count == HF_LEGACY_MOST) return refuse_many(r);
        changes[count] = (struct hf_legacy_change){.name = name};
        read_change(r, &changes[count++]);
    }
    *ret = (struct hf_legacy_changes){changes, count, true};
    return !r->failed;
}

bool hf__json_read_attributes(struct hf_json_reader *r, struct hf_projection *ret)
{
    struct hf_path *paths = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice name;
    hf__json_array(r);
    while (hf__json_element(r)) {
        paths = hf__arena_grow(r->arena, paths, count, &capacity, sizeof *paths);
        if (!paths) return hf__json_no_memory(r);
        if (!hf__json_string(r, &name)) return false;
        if (count == HF_LEGACY_MOST) return refuse_many(r);
        for (size_t i = 0; i < count; i++)
            if (hf__slice_eq(paths[i].parts[0].name, name))
                return hf__json_refuse(r,
                                       "One or more parameter values were invalid: Duplicate value "
                                       "in attribute name: %.*s",
                                       HF_FMT(name));
        paths[count++] = hf__path(r->arena, name);
        if (r->arena->failed) return hf__json_no_memory(r);
    }
    if (count == 0)
        hf__json_note(r,
                      "Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must "
                      "have length greater than or equal to 1");
    *ret = (struct hf_projection){paths, count};
    return !r->failed;
}

/* ---- comparisons ---- */

/* The types of values that a comparison takes, as bits. */
#define TYPE(type) (1u << (type))
#define SCALARS (TYPE(HF_S) | TYPE(HF_N) | TYPE(HF_B))
#define ELEMENTS (SCALARS | TYPE(HF_BOOL) | TYPE(HF_NULL)) /* of a list that may be searched for */
#define ALL_TYPES (~0u)

struct comparison {
    const char *name;
    enum hf_condition_op op;
    bool negated;
    size_t least, most; /* values */
    unsigned types;
};

static const struct comparison comparisons[] = {
    {"EQ", HF_EQ, false, 1, 1, ALL_TYPES},
    {"NE", HF_NE, false, 1, 1, ALL_TYPES},
    {"LE", HF_LE, false, 1, 1, SCALARS},
    {"LT", HF_LT, false, 1, 1, SCALARS},
    {"GE", HF_GE, false, 1, 1, SCALARS},
    {"GT", HF_GT, false, 1, 1, SCALARS},
    {"BETWEEN", HF_BETWEEN, false, 2, 2, SCALARS},
    {"IN", HF_IN, false, 1, HF_IN_MAX, SCALARS},
    {"NULL", HF_NOT_EXISTS, false, 0, 0, 0},
    {"NOT_NULL", HF_EXISTS, false, 0, 0, 0},
    {"CONTAINS", HF_CONTAINS, false, 1, 1, ELEMENTS},
    {"NOT_CONTAINS", HF_CONTAINS, true, 1, 1, ELEMENTS},
    {"BEGINS_WITH", HF_BEGINS_WITH, false, 1, 1, TYPE(HF_S) | TYPE(HF_B)},
};

static int find_comparison(struct hf_slice name, const struct comparison **ret,
                           struct hf_error *reterr)
{
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        if (!hf__slice_is(name, comparisons[i].name)) continue;
        *ret = &comparisons[i];
        return 0;
    }
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "1 validation error detected: Value '%.*s' at 'comparisonOperator' failed to satisfy "
        "constraint: Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, "
        "EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]",
        HF_FMT(name));
}

static int check_values(const struct comparison *comparison, struct hf_values values,
                        struct hf_error *reterr)
{
    if (values.count < comparison->least || values.count > comparison->most)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Invalid number of argument(s) for the "
            "%s ComparisonOperator",
            comparison->name);
    for (size_t i = 0; i < values.count; i++) {
        if (!(comparison->types & TYPE(values.at[i].type)))
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: ComparisonOperator %s is not valid "
                "for %s AttributeValue type",
                comparison->name, hf__type_name(values.at[i].type));
    }
    for (size_t i = 0; i < values.count; i++)
        if (values.at[i].type != values.at[0].type)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "One or more parameter values were invalid: AttributeValues inside "
                "AttributeValueList must be of same type");
    if (comparison->op == HF_BETWEEN && hf__value_order(&values.at[0], &values.at[1]) > 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "The BETWEEN condition was provided a range where the lower bound is "
                             "greater than the upper bound");
    return 0;
}

static int check_shape(const struct hf_legacy_test *test, bool expected, struct hf_error *reterr)
{
    const char *why = NULL;
    bool nullary =
        hf__slice_is(test->comparison, "NULL") || hf__slice_is(test->comparison, "NOT_NULL");
    if (!expected) {
        if (test->comparison.ptr) return 0;
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "1 validation error detected: Value null at 'comparisonOperator' "
                             "failed to satisfy constraint: Member must not be null");
    }
    if (test->has_list && test->has_value)
        why = "Value and AttributeValueList cannot be used together";
    else if (test->comparison.ptr && test->has_exists)
        why = "Exists and ComparisonOperator cannot be used together";
    else if (test->comparison.ptr && !nullary && !test->has_list && !test->has_value)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Value or AttributeValueList must be "
            "used with ComparisonOperator: %.*s for Attribute: %.*s",
            HF_FMT(test->comparison), HF_FMT(test->name));
    else if (!test->comparison.ptr && test->has_list)
        why = "AttributeValueList can only be used with a ComparisonOperator";
    else if (!test->comparison.ptr && test->has_exists && !test->exists && test->has_value)
        why = "Value cannot be used when Exists is false";
    else if (!test->comparison.ptr && (!test->has_exists || test->exists) && !test->has_value)
        why = test->has_exists ? "Value must be provided when Exists is true"
                               : "Value must be provided when Exists is null";
    if (!why) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "One or more parameter values were invalid: %s for Attribute: %.*s", why,
                         HF_FMT(test->name));
}

/* The comparison and the values of a test that is well formed. */
static int resolve(const struct hf_legacy_test *test, bool expected,
                   const struct comparison **ret_comparison, struct hf_values *ret_values,
                   struct hf_error *reterr)
{
    int code = check_shape(test, expected, reterr);
    if (code != 0) return code;
    struct hf_slice name = test->comparison;
    if (!name.ptr) name = test->has_exists && !test->exists ? HF_LIT("NULL") : HF_LIT("EQ");
    code = find_comparison(name, ret_comparison, reterr);
    if (code != 0) return code;
    *ret_values = test->has_value ? (struct hf_values){&test->value, 1} : test->list;
    return check_values(*ret_comparison, *ret_values, reterr);
}

static const struct hf_condition *condition_of(struct hf_arena *arena, struct hf_slice name,
                                               const struct comparison *comparison,
                                               struct hf_values values)
{
    struct hf_operand *operands = hf__arena_zalloc(arena, values.count + 1, sizeof *operands);
    if (!operands) return NULL;
    operands[0] = hf__operand_path(hf__path(arena, name));
    for (size_t i = 0; i < values.count; i++) operands[i + 1] = hf__operand_value(values.at[i]);
    const struct hf_condition *condition =
        hf__cond(arena, comparison->op, operands, values.count + 1);
    if (!comparison->negated) return condition;
    /* An attribute that does not exist has no elements, but neither does it lack one. */
    return hf__cond_and(arena, hf__cond(arena, HF_EXISTS, operands, 1),
                        hf__cond_not(arena, condition));
}

int hf__legacy_condition(struct hf_arena *arena, const struct hf_legacy_tests *tests, bool any,
                         bool expected, const struct hf_condition **ret, struct hf_error *reterr)
{
    const struct hf_condition *all = NULL;
    if (tests->count >= HF_CONDITION_MAX_DEPTH)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "One or more parameter values were invalid: more than %d conditions",
                             HF_CONDITION_MAX_DEPTH);
    for (size_t i = 0; i < tests->count; i++) {
        const struct comparison *comparison;
        struct hf_values values;
        int code = resolve(&tests->at[i], expected, &comparison, &values, reterr);
        if (code != 0) return code;
        const struct hf_condition *one = condition_of(arena, tests->at[i].name, comparison, values);
        all = any ? hf__cond_or(arena, all, one) : hf__cond_and(arena, all, one);
    }
    *ret = all;
    return arena->failed ? hf__error_no_memory(reterr) : 0;
}

int hf__legacy_key_condition(const struct hf_legacy_tests *tests, struct hf_key_condition *ret,
                             struct hf_error *reterr)
{
    struct hf_key_condition condition = {0};
    if (tests->count < 1 || tests->count > 2)
        return hf__error_set(reterr, HF_ERR_VALIDATION, "Conditions can be of length 1 or 2 only");
    for (size_t i = 0; i < tests->count; i++) {
        const struct comparison *comparison;
        struct hf_values values;
        int code = resolve(&tests->at[i], false, &comparison, &values, reterr);
        if (code != 0) return code;
        bool supported = comparison->op == HF_EQ ||
                         (comparison->op >= HF_LT && comparison->op <= HF_BETWEEN) ||
                         comparison->op == HF_BEGINS_WITH;
        if (!supported)
            return hf__error_set(reterr, HF_ERR_VALIDATION,
                                 "Attempted conditional constraint is not an indexable operation");
        condition.tests[condition.count++] = (struct hf_key_test){
            .name = tests->at[i].name,
            .op = comparison->op,
            .low = values.at[0],
            .high = comparison->op == HF_BETWEEN ? values.at[1] : hf__null(),
        };
    }
    *ret = condition;
    return 0;
}

/* ---- updates ---- */

/* ADD to a list appends to it, which is SET name = list_append(if_not_exists(name, []), value). */
static void append(struct hf_arena *arena, struct hf_update *update,
                   const struct hf_legacy_change *change)
{
    struct hf_term *before = hf__arena_zalloc(arena, 1, sizeof *before);
    struct hf_term *whole = hf__arena_zalloc(arena, 1, sizeof *whole);
    struct hf_path path = hf__path(arena, change->name);
    if (!before || !whole) return;
    *before = (struct hf_term){.kind = HF_TERM_IF_NOT_EXISTS,
                               .path = path,
                               .first = hf__term_value(arena, hf__list(HF_L, NULL, 0))};
    *whole = (struct hf_term){.kind = HF_TERM_LIST_APPEND,
                              .first = before,
                              .second = hf__term_value(arena, change->value)};
    hf__update_add(arena, update, (struct hf_action){.kind = HF_SET, .path = path, .left = whole});
}

static int check_change(const struct hf_legacy_change *change, enum hf_action_kind kind,
                        struct hf_error *reterr)
{
    if (!change->has_value) {
        if (kind == HF_DELETE) return 0;
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Only DELETE action is allowed when "
            "no attribute value is specified");
    }
    enum hf_type type = change->value.type;
    bool fits = kind == HF_SET || hf__type_is_set(type) ||
                (kind == HF_ADD && (type == HF_N || type == HF_L));
    if (fits) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "One or more parameter values were invalid: %s is not supported for the "
                         "type %s",
                         kind == HF_ADD ? "ADD action" : "DELETE action with value",
                         hf__type_name(type));
}

static int action_of(const struct hf_legacy_change *change, enum hf_action_kind *ret,
                     struct hf_error *reterr)
{
    struct hf_slice text = change->action.ptr ? change->action : HF_LIT("PUT");
    *ret = hf__slice_is(text, "PUT")      ? HF_SET
           : hf__slice_is(text, "ADD")    ? HF_ADD
           : hf__slice_is(text, "DELETE") ? HF_DELETE
                                          : HF_REMOVE;
    if (*ret != HF_REMOVE) return check_change(change, *ret, reterr);
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "1 validation error detected: Value '%.*s' at 'attributeUpdates.%.*s.member.action' "
        "failed to satisfy constraint: Member must satisfy enum value set: [ADD, DELETE, PUT]",
        HF_FMT(text), HF_FMT(change->name));
}

int hf__legacy_update(struct hf_arena *arena, const struct hf_legacy_changes *changes,
                      struct hf_update *ret, struct hf_error *reterr)
{
    ret->is_legacy = true;
    for (size_t i = 0; i < changes->count; i++) {
        const struct hf_legacy_change *change = &changes->at[i];
        struct hf_action action = {.path = hf__path(arena, change->name), .value = change->value};
        int code = action_of(change, &action.kind, reterr);
        if (code != 0) return code;
        if (action.kind == HF_ADD && change->value.type == HF_L) {
            append(arena, ret, change);
            continue;
        }
        if (action.kind == HF_SET) action.left = hf__term_value(arena, change->value);
        if (action.kind == HF_DELETE && !change->has_value) action.kind = HF_REMOVE;
        hf__update_add(arena, ret, action);
    }
    return arena->failed ? hf__error_no_memory(reterr) : 0;
}
