#include "item/condition.h"

#include <stdio.h>

const struct hf_condition_syntax hf__condition_syntax[HF_CONDITION_OPS] = {
    [HF_AND] = {"AND", false, 0, 0},
    [HF_OR] = {"OR", false, 0, 0},
    [HF_NOT] = {"NOT", false, 0, 0},
    [HF_EQ] = {"=", false, 2, 2},
    [HF_NE] = {"<>", false, 2, 2},
    [HF_LT] = {"<", false, 2, 2},
    [HF_LE] = {"<=", false, 2, 2},
    [HF_GT] = {">", false, 2, 2},
    [HF_GE] = {">=", false, 2, 2},
    [HF_BETWEEN] = {"BETWEEN", false, 3, 3},
    [HF_IN] = {"IN", false, 2, HF_IN_MAX + 1},
    [HF_EXISTS] = {"attribute_exists", true, 1, 1},
    [HF_NOT_EXISTS] = {"attribute_not_exists", true, 1, 1},
    [HF_HAS_TYPE] = {"attribute_type", true, 2, 2},
    [HF_BEGINS_WITH] = {"begins_with", true, 2, 2},
    [HF_CONTAINS] = {"contains", true, 2, 2},
};

/* ---- building ---- */

struct hf_operand hf__operand_path(struct hf_path path)
{
    return (struct hf_operand){.is_path = true, .path = path};
}

struct hf_operand hf__operand_value(struct hf_value value)
{
    return (struct hf_operand){.value = value};
}

static struct hf_condition *new_node(struct hf_arena *arena, enum hf_condition_op op)
{
    struct hf_condition *node = hf__arena_zalloc(arena, 1, sizeof *node);
    if (node) node->op = op;
    return node;
}

static const struct hf_condition *join(struct hf_arena *arena, enum hf_condition_op op,
                                       const struct hf_condition *left,
                                       const struct hf_condition *right)
{
    if (!left || !right) return left ? left : right;
    struct hf_condition *node = new_node(arena, op);
    if (!node) return NULL;
    node->left = left;
    node->right = right;
    return node;
}

const struct hf_condition *hf__cond_and(struct hf_arena *arena, const struct hf_condition *left,
                                        const struct hf_condition *right)
{
    return join(arena, HF_AND, left, right);
}

const struct hf_condition *hf__cond_or(struct hf_arena *arena, const struct hf_condition *left,
                                       const struct hf_condition *right)
{
    return join(arena, HF_OR, left, right);
}

const struct hf_condition *hf__cond_not(struct hf_arena *arena, const struct hf_condition *what)
{
    struct hf_condition *node = new_node(arena, HF_NOT);
    if (!node || !what) return NULL;
    node->left = what;
    return node;
}

const struct hf_condition *hf__cond(struct hf_arena *arena, enum hf_condition_op op,
                                    const struct hf_operand *operands, size_t count)
{
    struct hf_condition *node = new_node(arena, op);
    struct hf_operand *copy = hf__arena_zalloc(arena, count, sizeof *copy);
    if (!node || !copy) return NULL;
    memcpy(copy, operands, count * sizeof *copy);
    node->operands = copy;
    node->count = count;
    return node;
}

const struct hf_condition *hf__cond_exists(struct hf_arena *arena, const char *name)
{
    struct hf_operand operand = hf__operand_path(hf__path(arena, hf__slice_str(name)));
    return hf__cond(arena, HF_EXISTS, &operand, 1);
}

const struct hf_condition *hf__cond_absent(struct hf_arena *arena, const char *name)
{
    struct hf_operand operand = hf__operand_path(hf__path(arena, hf__slice_str(name)));
    return hf__cond(arena, HF_NOT_EXISTS, &operand, 1);
}

const struct hf_condition *hf__cond_compare(struct hf_arena *arena, const char *name,
                                            enum hf_condition_op op, struct hf_value value)
{
    struct hf_operand operands[2] = {
        hf__operand_path(hf__path(arena, hf__slice_str(name))),
        hf__operand_value(value),
    };
    return hf__cond(arena, op, operands, 2);
}

/* ---- evaluating ---- */

/* The length of a string is counted in UTF-16 units, as DynamoDB Local does. */
static size_t utf16_length(struct hf_slice text)
{
    size_t units = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        units += ((byte & 0xc0) != 0x80) + (byte >= 0xf0);
    }
    return units;
}

/* The size() of a value; false for types that have none. */
static bool size_of(const struct hf_value *value, struct hf_number *ret)
{
    size_t size;
    switch (value->type) {
    case HF_S: size = utf16_length(value->bytes); break;
    case HF_B: size = value->bytes.len; break;
    case HF_SS:
    case HF_NS:
    case HF_BS:
    case HF_L: size = value->list.count; break;
    case HF_M: size = value->map.count; break;
    default: return false;
    }
    *ret = hf__number_from_int64((int64_t)size);
    return true;
}

/* An operand's value on an item; `there` is false when it has none. */
struct operand_value {
    bool there;
    struct hf_value value;
    struct hf_number size;
};

static void evaluate(const struct hf_operand *operand, struct hf_item item,
                     struct operand_value *ret)
{
    const struct hf_value *value =
        operand->is_path ? hf__path_get(item, operand->path) : &operand->value;
    ret->there = value != NULL;
    if (!value) return;
    if (operand->is_size) {
        ret->there = size_of(value, &ret->size);
        ret->value = (struct hf_value){.type = HF_N, .number = &ret->size};
    } else {
        ret->value = *value;
    }
}

static bool comparable(const struct operand_value *a, const struct operand_value *b)
{
    return a->there && b->there && a->value.type == b->value.type &&
           hf__type_is_ordered(a->value.type);
}

static bool equal(const struct operand_value *a, const struct operand_value *b)
{
    return a->there && b->there && hf__value_equal(&a->value, &b->value);
}

static bool has_part(struct hf_slice text, struct hf_slice part)
{
    return part.len == 0 || (text.len && memmem(text.ptr, text.len, part.ptr, part.len));
}

static bool contains(const struct hf_value *in, const struct hf_value *what)
{
    if (in->type == HF_S || in->type == HF_B)
        return what->type == in->type && has_part(in->bytes, what->bytes);
    if (hf__type_is_set(in->type) || in->type == HF_L) return hf__values_contain(in->list, what);
    return false;
}

static bool has_type(const struct hf_value *value, const struct hf_value *name)
{
    enum hf_type type;
    return name->type == HF_S && hf__type_from_name(name->bytes, &type) && type == value->type;
}

static bool is_among(const struct operand_value *wanted, const struct hf_condition *c,
                     struct hf_item item)
{
    for (size_t i = 1; i < c->count; i++) {
        struct operand_value candidate;
        evaluate(&c->operands[i], item, &candidate);
        if (equal(wanted, &candidate)) return true;
    }
    return false;
}

static bool simple_holds(const struct hf_condition *c, struct hf_item item)
{
    struct operand_value a, b, upper;
    evaluate(&c->operands[0], item, &a);
    if (c->count > 1) evaluate(&c->operands[1], item, &b);
    bool both = c->count > 1 && a.there && b.there;
    int order = c->count > 1 && comparable(&a, &b) ? hf__value_order(&a.value, &b.value) : 0;
    switch (c->op) {
    case HF_EQ: return equal(&a, &b);
    case HF_NE: return !equal(&a, &b);
    case HF_LT: return order < 0;
    case HF_LE: return comparable(&a, &b) && order <= 0;
    case HF_GT: return order > 0;
    case HF_GE: return comparable(&a, &b) && order >= 0;
    case HF_BETWEEN:
        evaluate(&c->operands[2], item, &upper);
        return comparable(&a, &b) && order >= 0 && comparable(&a, &upper) &&
               hf__value_order(&a.value, &upper.value) <= 0;
    case HF_IN: return is_among(&a, c, item);
    case HF_EXISTS: return a.there;
    case HF_NOT_EXISTS: return !a.there;
    case HF_HAS_TYPE: return both && has_type(&a.value, &b.value);
    case HF_BEGINS_WITH:
        return both && a.value.type == b.value.type &&
               (b.value.type == HF_S || b.value.type == HF_B) &&
               hf__slice_starts(a.value.bytes, b.value.bytes);
    case HF_CONTAINS: return both && contains(&a.value, &b.value);
    case HF_AND:
    case HF_OR:
    case HF_NOT: break;
    }
    return false;
}

bool hf__condition_holds(const struct hf_condition *c, struct hf_item item)
{
    switch (c->op) {
    case HF_AND: return hf__condition_holds(c->left, item) && hf__condition_holds(c->right, item);
    case HF_OR: return hf__condition_holds(c->left, item) || hf__condition_holds(c->right, item);
    case HF_NOT: return !hf__condition_holds(c->left, item);
    default: return simple_holds(c, item);
    }
}

/* ---- checking ---- */

static int refuse_type(const char *where, const char *operator, enum hf_type type,
                       struct hf_error *reterr)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "Invalid %s: Incorrect operand type for operator or function; operator or "
                         "function: %s, operand type: %s",
                         where, operator, hf__type_name(type));
}

static bool is_literal(const struct hf_operand *operand)
{
    return !operand->is_path && !operand->is_size;
}

static int check_distinct(const struct hf_condition *c, const char *where, struct hf_error *reterr)
{
    const struct hf_operand *first = &c->operands[0];
    if (!first->is_path || first->is_size) return 0;
    for (size_t i = 1; i < c->count; i++) {
        const struct hf_operand *other = &c->operands[i];
        if (!other->is_path || other->is_size || !hf__path_equal(first->path, other->path))
            continue;
        char path[HF_PATH_TEXT_SIZE];
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Invalid %s: The first operand must be distinct from the remaining "
            "operands for this operator or function; operator: %s, first operand: %s",
            where, hf__condition_syntax[c->op].text, hf__path_show(first->path, path));
    }
    return 0;
}

/* A scalar as DynamoDB's messages show it; others only by type. */
static const char *show_value(const struct hf_value *value, char *ret, size_t size)
{
    char number[HF_NUMBER_TEXT_SIZE] = "";
    if (value->type == HF_N) hf__number_print(value->number, number);
    struct hf_slice text = value->type == HF_S ? value->bytes : hf__slice_str(number);
    snprintf(ret, size, "AttributeValue: {%s:%.*s}", hf__type_name(value->type), HF_FMT(text));
    return ret;
}

static int check_between(const struct hf_condition *c, const char *where, struct hf_error *reterr)
{
    const struct hf_value *low = &c->operands[1].value, *high = &c->operands[2].value;
    if (!is_literal(&c->operands[1]) || !is_literal(&c->operands[2])) return 0;
    bool same = low->type == high->type;
    if (same && hf__value_order(low, high) <= 0) return 0;
    char lower[128], upper[128];
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Invalid %s: The BETWEEN operator requires %s; lower bound operand: %s, upper "
        "bound operand: %s",
        where,
        same ? "upper bound to be greater than or equal to lower bound"
             : "same data type for lower and upper bounds",
        show_value(low, lower, sizeof lower), show_value(high, upper, sizeof upper));
}

static int check_type_name(const struct hf_condition *c, const char *where, struct hf_error *reterr)
{
    const struct hf_operand *name = &c->operands[1];
    if (!is_literal(name))
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Invalid %s: Incorrect operand type for operator or function; operator or "
            "function: attribute_type, operand type: a document path",
            where);
    if (name->value.type != HF_S)
        return refuse_type(where, "attribute_type", name->value.type, reterr);
    enum hf_type type;
    if (hf__type_from_name(name->value.bytes, &type)) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "Invalid %s: Invalid attribute type name found; type: %.*s, valid types: "
                         "{N,BS,L,B,NULL,M,S,SS,NS,BOOL}",
                         where, HF_FMT(name->value.bytes));
}

/* Whether a literal of this type may stand in this operator. */
static bool literal_allowed(enum hf_condition_op op, enum hf_type type)
{
    switch (op) {
    case HF_LT:
    case HF_LE:
    case HF_GT:
    case HF_GE:
    case HF_BETWEEN: return hf__type_is_ordered(type);
    case HF_BEGINS_WITH: return type == HF_S || type == HF_B;
    default: return true;
    }
}

static int check_operand(const struct hf_condition *c, const struct hf_operand *operand,
                         const char *where, struct hf_error *reterr)
{
    const char *text = hf__condition_syntax[c->op].text;
    bool needs_path = c->op == HF_EXISTS || c->op == HF_NOT_EXISTS;
    if (needs_path && (!operand->is_path || operand->is_size))
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Invalid %s: Operator or function requires a document path; operator or "
            "function: %s",
            where, text);
    struct hf_number size;
    if (!operand->is_path) {
        int code = hf__value_check(&operand->value, reterr);
        if (code != 0) return code;
        if (operand->is_size && !size_of(&operand->value, &size))
            return refuse_type(where, "size", operand->value.type, reterr);
    }
    if (operand->is_path && !operand->is_size) return 0;
    enum hf_type type = operand->is_size ? HF_N : operand->value.type;
    return literal_allowed(c->op, type) ? 0 : refuse_type(where, text, type, reterr);
}

static int check_simple(const struct hf_condition *c, const char *where, struct hf_error *reterr)
{
    const struct hf_condition_syntax *syntax = &hf__condition_syntax[c->op];
    if (c->op == HF_IN && c->count > HF_IN_MAX + 1)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Invalid %s: The IN operator is provided with too many operands; number "
            "of operands: %zu",
            where, c->count - 1);
    if (c->count < (size_t)syntax->least || c->count > (size_t)syntax->most)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid %s: Incorrect number of operands for operator or function; "
                             "operator or function: %s, number of operands: %zu",
                             where, syntax->text, c->count);
    int code = 0;
    for (size_t i = 0; i < c->count && code == 0; i++)
        code = check_operand(c, &c->operands[i], where, reterr);
    if (code == 0) code = check_distinct(c, where, reterr);
    if (code == 0 && c->op == HF_BETWEEN) code = check_between(c, where, reterr);
    if (code == 0 && c->op == HF_HAS_TYPE) code = check_type_name(c, where, reterr);
    return code;
}

static int check_at(const struct hf_condition *c, const char *where, int depth,
                    struct hf_error *reterr)
{
    if (depth > HF_CONDITION_MAX_DEPTH)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid %s: The expression is nested too deeply", where);
    if (c->op > HF_NOT) return check_simple(c, where, reterr);
    int code = check_at(c->left, where, depth + 1, reterr);
    if (code == 0 && c->op != HF_NOT) code = check_at(c->right, where, depth + 1, reterr);
    return code;
}

int hf__condition_check(const struct hf_condition *c, const char *where, struct hf_error *reterr)
{
    return check_at(c, where, 1, reterr);
}

/* ---- comparing and searching ---- */

static bool operand_equal(const struct hf_operand *a, const struct hf_operand *b)
{
    if (a->is_path != b->is_path || a->is_size != b->is_size) return false;
    return a->is_path ? hf__path_equal(a->path, b->path) : hf__value_equal(&a->value, &b->value);
}

bool hf__condition_equal(const struct hf_condition *a, const struct hf_condition *b)
{
    if (!a || !b) return a == b;
    if (a->op != b->op || a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!operand_equal(&a->operands[i], &b->operands[i])) return false;
    return hf__condition_equal(a->left, b->left) && hf__condition_equal(a->right, b->right);
}

const struct hf_slice *hf__condition_find_name(const struct hf_condition *c,
                                               bool (*is_it)(const void *user,
                                                             struct hf_slice name),
                                               const void *user)
{
    if (!c) return NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct hf_operand *operand = &c->operands[i];
        if (!operand->is_path) continue;
        if (is_it(user, operand->path.parts[0].name)) return &operand->path.parts[0].name;
    }
    const struct hf_slice *found = hf__condition_find_name(c->left, is_it, user);
    return found ? found : hf__condition_find_name(c->right, is_it, user);
}

size_t hf__condition_size(const struct hf_condition *c)
{
    if (!c) return 0;
    size_t below = hf__condition_size(c->left) + hf__condition_size(c->right);
    return below + (c->op == HF_IN ? c->count : 1);
}
