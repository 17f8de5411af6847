#include "item/update.h"

#include <stdlib.h>

const char *const hf__action_names[HF_ACTION_KINDS] = {
    [HF_SET] = "SET", [HF_REMOVE] = "REMOVE", [HF_ADD] = "ADD", [HF_DELETE] = "DELETE"};

/* ---- building ---- */

void hf__update_add(struct hf_arena *arena, struct hf_update *update, struct hf_action action)
{
    if (!update) return;
    struct hf_action *actions =
        hf__arena_grow(arena, update->actions, update->count, &update->capacity, sizeof *actions);
    if (!actions) return;
    update->actions = actions;
    update->actions[update->count++] = action;
}

const struct hf_term *hf__term_value(struct hf_arena *arena, struct hf_value value)
{
    struct hf_term *term = hf__arena_zalloc(arena, 1, sizeof *term);
    if (term) *term = (struct hf_term){.kind = HF_TERM_VALUE, .value = value};
    return term;
}

static struct hf_path top(struct hf_arena *arena, const char *name)
{
    return hf__path(arena, hf__slice_str(name));
}

void hf__update_set(struct hf_arena *arena, struct hf_update *update, const char *name,
                    struct hf_value value)
{
    hf__update_add(arena, update,
                   (struct hf_action){.kind = HF_SET,
                                      .path = top(arena, name),
                                      .left = hf__term_value(arena, value)});
}

void hf__update_remove(struct hf_arena *arena, struct hf_update *update, const char *name)
{
    hf__update_add(arena, update, (struct hf_action){.kind = HF_REMOVE, .path = top(arena, name)});
}

void hf__update_count(struct hf_arena *arena, struct hf_update *update, const char *name,
                      int64_t start, int64_t by)
{
    struct hf_term *left = hf__arena_zalloc(arena, 1, sizeof *left);
    if (!left) return;
    *left = (struct hf_term){.kind = HF_TERM_IF_NOT_EXISTS,
                             .path = top(arena, name),
                             .first = hf__term_value(arena, hf__n(arena, start))};
    hf__update_add(arena, update,
                   (struct hf_action){.kind = HF_SET,
                                      .path = top(arena, name),
                                      .sign = '+',
                                      .left = left,
                                      .right = hf__term_value(arena, hf__n(arena, by))});
}

void hf__update_add_to(struct hf_arena *arena, struct hf_update *update, const char *name,
                       struct hf_value value)
{
    hf__update_add(arena, update,
                   (struct hf_action){.kind = HF_ADD, .path = top(arena, name), .value = value});
}

void hf__update_delete_from(struct hf_arena *arena, struct hf_update *update, const char *name,
                            struct hf_value value)
{
    hf__update_add(arena, update,
                   (struct hf_action){.kind = HF_DELETE, .path = top(arena, name), .value = value});
}

/* ---- evaluating right-hand sides ---- */

static const char wrong_type_text[] =
    "An operand in the update expression has an incorrect data type";

static int wrong_type(struct hf_error *reterr)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION, "%s", wrong_type_text);
}

static int append_lists(struct hf_arena *arena, const struct hf_value *front,
                        const struct hf_value *back, struct hf_value *ret, struct hf_error *reterr)
{
    if (front->type != HF_L || back->type != HF_L) return wrong_type(reterr);
    size_t count = front->list.count + back->list.count;
    struct hf_value *values = hf__arena_zalloc(arena, count, sizeof *values);
    if (!values) return hf__error_no_memory(reterr);
    if (front->list.count) memcpy(values, front->list.at, front->list.count * sizeof *values);
    if (back->list.count)
        memcpy(values + front->list.count, back->list.at, back->list.count * sizeof *values);
    *ret = hf__list(HF_L, values, count);
    return 0;
}

static int evaluate(struct hf_arena *arena, const struct hf_term *term, struct hf_item item,
                    struct hf_value *ret, struct hf_error *reterr)
{
    const struct hf_value *found;
    struct hf_value front, back;
    int code;
    switch (term->kind) {
    case HF_TERM_VALUE: *ret = term->value; return 0;
    case HF_TERM_PATH:
        found = hf__path_get(item, term->path);
        if (!found)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "The provided expression refers to an attribute that does not exist "
                "in the item");
        *ret = *found;
        return 0;
    case HF_TERM_IF_NOT_EXISTS: /* the alternative is evaluated, and may fail, in any case */
        found = hf__path_get(item, term->path);
        code = evaluate(arena, term->first, item, ret, reterr);
        if (code == 0 && found) *ret = *found;
        return code;
    case HF_TERM_LIST_APPEND:
        code = evaluate(arena, term->first, item, &front, reterr);
        if (code == 0) code = evaluate(arena, term->second, item, &back, reterr);
        return code == 0 ? append_lists(arena, &front, &back, ret, reterr) : code;
    }
    return HF_ERR_INVALID;
}

static int calculate(struct hf_arena *arena, char sign, const struct hf_value *a,
                     const struct hf_value *b, struct hf_value *ret, struct hf_error *reterr)
{
    if (a->type != HF_N || b->type != HF_N) return wrong_type(reterr);
    struct hf_number sum;
    int code = sign == '+' ? hf__number_add(a->number, b->number, &sum, reterr)
                           : hf__number_subtract(a->number, b->number, &sum, reterr);
    if (code == 0) *ret = hf__number(arena, &sum);
    return code;
}

static int evaluate_set(struct hf_arena *arena, const struct hf_action *action, struct hf_item item,
                        struct hf_value *ret, struct hf_error *reterr)
{
    struct hf_value left, right;
    int code = evaluate(arena, action->left, item, &left, reterr);
    if (code != 0) return code;
    if (!action->sign) {
        *ret = left;
        return 0;
    }
    code = evaluate(arena, action->right, item, &right, reterr);
    return code == 0 ? calculate(arena, action->sign, &left, &right, ret, reterr) : code;
}

/*
 * Set arithmetic. Sets that were read are sorted, so membership is found by
 * halving; only small sets that a program built may be in any order.
 */
static bool has_member(const struct hf_value *set, bool sorted, const struct hf_value *member)
{
    if (!sorted) return hf__values_contain(set->list, member);
    size_t low = 0, high = set->list.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = hf__value_order(&set->list.at[middle], member);
        if (order == 0) return true;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return false;
}

/* Members of a and those of b that are not in it. */
static struct hf_value unite(struct hf_arena *arena, const struct hf_value *a,
                             const struct hf_value *b)
{
    struct hf_value *values =
        hf__arena_zalloc(arena, a->list.count + b->list.count, sizeof *values);
    if (!values) return *a;
    memcpy(values, a->list.at, a->list.count * sizeof *values);
    size_t count = a->list.count;
    bool sorted = hf__values_sorted(a->list);
    for (size_t i = 0; i < b->list.count; i++)
        if (!has_member(a, sorted, &b->list.at[i])) values[count++] = b->list.at[i];
    return hf__list(a->type, values, count);
}

static struct hf_value without(struct hf_arena *arena, const struct hf_value *a,
                               const struct hf_value *b)
{
    struct hf_value *values = hf__arena_zalloc(arena, a->list.count, sizeof *values);
    if (!values) return *a;
    size_t count = 0;
    bool sorted = hf__values_sorted(b->list);
    for (size_t i = 0; i < a->list.count; i++)
        if (!has_member(b, sorted, &a->list.at[i])) values[count++] = a->list.at[i];
    return hf__list(a->type, values, count);
}

/* ---- changing the item ----
 *
 * The containers on the way to a path are copied once per update and edited in
 * place from then on; everything else is shared. Elements removed from a list
 * become holes first, so that the indexes of other actions keep their meaning,
 * and are closed at the end.
 */

enum { HOLE = HF_TYPE_COUNT };

struct editor {
    struct hf_arena *arena;
    size_t actions;     /* how much any container can grow */
    const void **owned; /* copies that this update made, each with room to grow */
    size_t count;
    size_t capacity;
    struct hf_error *reterr;
};

static bool is_hole(const struct hf_value *value)
{
    return (int)value->type == HOLE;
}

static int bad_path(struct hf_error *reterr)
{
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "The document path provided in the update expression is invalid for update");
}

/* The array itself if this update made it, or else a copy with room for all its actions. */
static void *own(struct editor *e, const void *array, size_t count, size_t size)
{
    for (size_t i = 0; i < e->count; i++)
        if (array && e->owned[i] == array) return (void *)array;
    void *owned = hf__arena_grow(e->arena, e->owned, e->count, &e->capacity, sizeof *e->owned);
    if (!owned) return NULL;
    e->owned = owned;
    void *copy = hf__arena_zalloc(e->arena, count + e->actions, size);
    if (!copy) return NULL;
    if (count) memcpy(copy, array, count * size);
    e->owned[e->count++] = copy;
    return copy;
}

static int replace_below(struct editor *e, const struct hf_value *container, struct hf_path path,
                         size_t depth, const struct hf_value *value, struct hf_value *ret);

/* The replacement of `child` when `value` (NULL: nothing) is put at the rest of the path. */
static int replace_child(struct editor *e, const struct hf_value *child, struct hf_path path,
                         size_t depth, const struct hf_value *value, struct hf_value *ret)
{
    if (depth + 1 < path.count) {
        if (!child || is_hole(child)) return bad_path(e->reterr);
        return replace_below(e, child, path, depth + 1, value, ret);
    }
    *ret = value ? *value : (struct hf_value){.type = (enum hf_type)HOLE};
    return 0;
}

static int replace_in_list(struct editor *e, struct hf_values list, struct hf_path path,
                           size_t depth, const struct hf_value *value, struct hf_value *ret)
{
    size_t index = path.parts[depth].index;
    bool there = index < list.count;
    *ret = hf__list(HF_L, list.at, list.count);
    if (!there && !value && depth + 1 == path.count) return 0; /* nothing to remove */
    struct hf_value child;
    int code = replace_child(e, there ? &list.at[index] : NULL, path, depth, value, &child);
    if (code != 0) return code;
    struct hf_value *values = own(e, list.at, list.count, sizeof *values);
    if (!values) return hf__error_no_memory(e->reterr);
    values[there ? index : list.count] = child;
    *ret = hf__list(HF_L, values, list.count + !there);
    return 0;
}

static int replace_in_map(struct editor *e, struct hf_item map, struct hf_path path, size_t depth,
                          const struct hf_value *value, struct hf_item *ret)
{
    struct hf_slice name = path.parts[depth].name;
    struct hf_value child;
    size_t index = 0;
    while (index < map.count && !hf__slice_eq(map.attrs[index].name, name)) index++;
    bool there = index < map.count;
    int code = replace_child(e, there ? &map.attrs[index].value : NULL, path, depth, value, &child);
    *ret = map;
    if (code != 0 || (is_hole(&child) && !there)) return code;
    struct hf_attr *attrs = own(e, map.attrs, map.count, sizeof *attrs);
    if (!attrs) return hf__error_no_memory(e->reterr);
    size_t count = map.count + !there;
    if (is_hole(&child)) attrs[index] = attrs[--count];
    else attrs[index] = (struct hf_attr){there ? attrs[index].name : name, child};
    *ret = (struct hf_item){attrs, count};
    return 0;
}

static int replace_below(struct editor *e, const struct hf_value *container, struct hf_path path,
                         size_t depth, const struct hf_value *value, struct hf_value *ret)
{
    bool is_index = path.parts[depth].is_index;
    if (container->type != (is_index ? HF_L : HF_M)) return bad_path(e->reterr);
    if (is_index) return replace_in_list(e, container->list, path, depth, value, ret);
    struct hf_item map;
    int code = replace_in_map(e, container->map, path, depth, value, &map);
    if (code == 0) *ret = hf__map(map);
    return code;
}

static struct hf_item close_holes_in_map(struct hf_arena *arena, struct hf_item item);

static struct hf_value close_holes(struct hf_arena *arena, const struct hf_value *value)
{
    if (value->type == HF_M) return hf__map(close_holes_in_map(arena, value->map));
    if (value->type != HF_L) return *value;
    struct hf_value *values = hf__arena_zalloc(arena, value->list.count, sizeof *values);
    if (!values) return *value;
    size_t count = 0;
    for (size_t i = 0; i < value->list.count; i++)
        if (!is_hole(&value->list.at[i])) values[count++] = close_holes(arena, &value->list.at[i]);
    return hf__list(HF_L, values, count);
}

static struct hf_item close_holes_in_map(struct hf_arena *arena, struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count, sizeof *attrs);
    if (!attrs) return item;
    for (size_t i = 0; i < item.count; i++)
        attrs[i] = (struct hf_attr){item.attrs[i].name, close_holes(arena, &item.attrs[i].value)};
    return (struct hf_item){attrs, item.count};
}

/* ---- applying ---- */

/* The effect of one action at its path: a value, nothing (`removes`), or no change (`skips`). */
struct outcome {
    const struct hf_action *action;
    bool skips;
    bool removes;
    struct hf_value value;
};

static int add_outcome(struct hf_arena *arena, const struct hf_value *old, struct outcome *out,
                       struct hf_error *reterr)
{
    const struct hf_value *by = &out->action->value;
    if (!old) out->value = *by;
    else if (by->type == HF_N) return calculate(arena, '+', old, by, &out->value, reterr);
    else if (old->type != by->type) return wrong_type(reterr);
    else out->value = unite(arena, old, by);
    return 0;
}

/* Whether the container of the last part of a path exists, and has the right type. */
static bool has_parent(struct hf_item item, struct hf_path path)
{
    if (path.count == 1) return true;
    const struct hf_value *parent =
        hf__path_get(item, (struct hf_path){path.parts, path.count - 1});
    return parent && parent->type == (path.parts[path.count - 1].is_index ? HF_L : HF_M);
}

static int delete_outcome(struct hf_arena *arena, const struct hf_value *old, struct outcome *out,
                          struct hf_error *reterr)
{
    out->skips = old == NULL;
    if (!old) return 0;
    if (old->type != out->action->value.type) return wrong_type(reterr);
    out->value = without(arena, old, &out->action->value);
    out->removes = out->value.list.count == 0;
    return 0;
}

static int find_outcome(struct hf_arena *arena, struct hf_item item, struct outcome *out,
                        struct hf_error *reterr)
{
    const struct hf_action *action = out->action;
    const struct hf_value *old = hf__path_get(item, action->path);
    if (!has_parent(item, action->path)) return bad_path(reterr);
    switch (action->kind) {
    case HF_SET: return evaluate_set(arena, action, item, &out->value, reterr);
    case HF_REMOVE: out->removes = true; return 0;
    case HF_ADD: return add_outcome(arena, old, out, reterr);
    case HF_DELETE: return delete_outcome(arena, old, out, reterr);
    }
    return HF_ERR_INVALID;
}

/* In the order of their paths, so that elements set beyond a list's end come in by their index. */
static int order_outcomes(const void *a, const void *b)
{
    const struct outcome *x = a, *y = b;
    return hf__path_order(x->action->path, y->action->path);
}

/*
 * Values that are assigned are all part of the new item: together they are no larger than it may be.
 * Tells so before the next one is computed. Each action looks for its attribute.
 */
static int check_growth(const struct hf_update *update, struct hf_item item, size_t size,
                        struct hf_error *reterr)
{
    enum { LOOKS_MOST = 50 * 1000 * 1000 };
    if (size > HF_ITEM_MAX_SIZE)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Item size to update has exceeded the maximum allowed size");
    if (item.count > LOOKS_MOST / (update->count + 1))
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "too many actions on an item with so many attributes");
    return 0;
}

int hf__update_apply(struct hf_arena *arena, const struct hf_update *update, struct hf_item item,
                     struct hf_item *ret, struct hf_error *reterr)
{
    struct outcome *outcomes = hf__arena_zalloc(arena, update->count, sizeof *outcomes);
    if (!outcomes) return hf__error_no_memory(reterr);
    bool nested = false;
    size_t size = 0;
    for (size_t i = 0; i < update->count; i++) {
        outcomes[i].action = &update->actions[i];
        struct hf_error why;
        int code = find_outcome(arena, item, &outcomes[i], &why);
        bool mismatch = code != 0 && strcmp(why.message, wrong_type_text) == 0;
        if (code != 0)
            return hf__error_set(reterr, code, "%s",
                                 mismatch && update->is_legacy
                                     ? "Type mismatch for attribute to update"
                                     : why.message);
        nested |= update->actions[i].path.count > 1;
        if (update->actions[i].kind == HF_SET) size += hf__value_size(&outcomes[i].value);
        code = check_growth(update, item, size, reterr);
        if (code != 0) return code;
    }
    qsort(outcomes, update->count, sizeof *outcomes, order_outcomes);
    struct hf_item result = item;
    struct editor editor = {.arena = arena, .actions = update->count, .reterr = reterr};
    for (size_t i = 0; i < update->count; i++) {
        const struct outcome *out = &outcomes[i];
        if (out->skips) continue;
        int code = replace_in_map(&editor, result, out->action->path, 0,
                                  out->removes ? NULL : &out->value, &result);
        if (code != 0) return code;
    }
    if (nested) result = close_holes_in_map(arena, result);
    if (arena->failed) return hf__error_no_memory(reterr);
    *ret = result;
    return 0;
}

/* ---- checking ---- */

static int refuse_operand(const char *function, const struct hf_value *value,
                          struct hf_error *reterr)
{
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Invalid UpdateExpression: Incorrect operand type for operator or function; "
        "operator or function: %s, operand type: %s",
        function, hf__type_name(value->type));
}

static int check_term(const struct hf_term *term, bool whole, struct hf_error *reterr);

static int check_alternative(const struct hf_term *term, struct hf_error *reterr)
{
    char path[HF_PATH_TEXT_SIZE];
    int code = check_term(term->first, false, reterr);
    if (code != 0) return code;
    bool same = term->first->kind == HF_TERM_PATH && hf__path_equal(term->path, term->first->path);
    if (!same) return 0;
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Invalid UpdateExpression: The first operand must be distinct from the remaining "
        "operands for this operator or function; operator: if_not_exists, first operand: %s",
        hf__path_show(term->path, path));
}

/* `whole`: it is all that is assigned, which is the only place for list_append. */
static int check_term(const struct hf_term *term, bool whole, struct hf_error *reterr)
{
    if (!term) return hf__error_set(reterr, HF_ERR_INVALID, "an update action lacks an operand");
    int code = 0;
    switch (term->kind) {
    case HF_TERM_PATH: return 0;
    case HF_TERM_VALUE: return hf__value_check(&term->value, reterr);
    case HF_TERM_IF_NOT_EXISTS: return check_alternative(term, reterr);
    case HF_TERM_LIST_APPEND:
        if (!whole)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "Invalid UpdateExpression: The function is not allowed to be used this way "
                "in an expression; function: list_append");
        code = check_term(term->first, false, reterr);
        if (code == 0) code = check_term(term->second, false, reterr);
        if (code != 0) return code;
        const struct hf_term *sides[] = {term->first, term->second};
        for (int i = 0; i < 2; i++)
            if (sides[i]->kind == HF_TERM_VALUE && sides[i]->value.type != HF_L)
                return refuse_operand("list_append", &sides[i]->value, reterr);
        return 0;
    }
    return HF_ERR_INVALID;
}

static int check_set(const struct hf_action *action, struct hf_error *reterr)
{
    int code = check_term(action->left, !action->sign, reterr);
    if (code != 0 || !action->sign) return code;
    code = check_term(action->right, false, reterr);
    if (code != 0) return code;
    const struct hf_term *sides[] = {action->left, action->right};
    const char sign[] = {action->sign, '\0'};
    for (int i = 0; i < 2; i++)
        if (sides[i]->kind == HF_TERM_VALUE && sides[i]->value.type != HF_N)
            return refuse_operand(sign, &sides[i]->value, reterr);
    return 0;
}

static int check_action(const struct hf_action *action, struct hf_error *reterr)
{
    static const char *const long_names[HF_TYPE_COUNT] = {
        [HF_S] = "STRING",  [HF_N] = "NUMBER",      [HF_B] = "BINARY",      [HF_BOOL] = "BOOLEAN",
        [HF_NULL] = "NULL", [HF_SS] = "STRING_SET", [HF_NS] = "NUMBER_SET", [HF_BS] = "BINARY_SET",
        [HF_L] = "LIST",    [HF_M] = "MAP"};
    if (action->path.count == 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "an update action lacks a path");
    if (action->kind == HF_REMOVE) return 0;
    if (action->kind == HF_SET) return check_set(action, reterr);
    enum hf_type type = action->value.type;
    if (hf__type_is_set(type) || (type == HF_N && action->kind == HF_ADD))
        return hf__value_check(&action->value, reterr);
    const char *name = hf__action_names[action->kind];
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Invalid UpdateExpression: Incorrect operand type for operator or function; "
        "operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND",
        name, long_names[type], name);
}

static struct hf_path nth_path(const void *update, size_t n)
{
    return ((const struct hf_update *)update)->actions[n].path;
}

int hf__update_check(const struct hf_update *update, struct hf_error *reterr)
{
    int code = 0;
    for (size_t i = 0; i < update->count && code == 0; i++)
        code = check_action(&update->actions[i], reterr);
    return code == 0
               ? hf__paths_check_all(update, nth_path, update->count, "UpdateExpression", reterr)
               : code;
}

/* ---- comparing ---- */

static bool term_equal(const struct hf_term *a, const struct hf_term *b)
{
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    if (a->kind == HF_TERM_VALUE) return hf__value_equal(&a->value, &b->value);
    return hf__path_equal(a->path, b->path) && term_equal(a->first, b->first) &&
           term_equal(a->second, b->second);
}

bool hf__update_equal(const struct hf_update *a, const struct hf_update *b)
{
    if (!a || !b) return a == b;
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct hf_action *x = &a->actions[i], *y = &b->actions[i];
        if (x->kind != y->kind || x->sign != y->sign || !hf__path_equal(x->path, y->path))
            return false;
        if (x->kind == HF_SET && !(term_equal(x->left, y->left) && term_equal(x->right, y->right)))
            return false;
        if ((x->kind == HF_ADD || x->kind == HF_DELETE) && !hf__value_equal(&x->value, &y->value))
            return false;
    }
    return true;
}

/* Whether a SET assigns the same however often it runs: a value, or one only where there is none.
 */
static bool is_fixed(const struct hf_action *action)
{
    const struct hf_term *term = action->left;
    if (term->kind == HF_TERM_VALUE) return true;
    return term->kind == HF_TERM_IF_NOT_EXISTS && hf__path_equal(term->path, action->path) &&
           term->first->kind == HF_TERM_VALUE;
}

bool hf__update_is_repeatable(const struct hf_update *update)
{
    for (size_t i = 0; i < update->count; i++) {
        const struct hf_action *action = &update->actions[i];
        bool below_list = false;
        for (size_t j = 0; j < action->path.count; j++)
            below_list |= action->path.parts[j].is_index;
        if (below_list) return false; /* indexes shift, and may append */
        if (action->sign || (action->kind == HF_ADD && action->value.type == HF_N)) return false;
        if (action->kind != HF_SET) continue;
        if (!is_fixed(action)) return false;
    }
    return true;
}
