#include "harness/model.h"

#include <stdlib.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "wire/expr_parse.h"
#include "wire/item_json.h"

struct hf_item hf_test_item(struct hf_arena *arena, const char *json)
{
    struct hf_item item = {0};
    struct hf_error error = {0};
    if (hf__item_from_json(arena, hf__slice_str(json), &item, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", json, error.message);
    return item;
}

struct hf_value hf_test_value(struct hf_arena *arena, const char *json)
{
    char item[4096];
    snprintf(item, sizeof item, "{\"v\":%s}", json);
    return hf_test_item(arena, hf__arena_str(arena, hf__slice_str(item))).attrs[0].value;
}

static struct hf_bindings bind(struct hf_arena *arena, const char *values)
{
    struct hf_bindings bindings = {0};
    if (values) bindings.values = hf_test_item(arena, values);
    bindings.value_used = hf__arena_zalloc(arena, bindings.values.count, sizeof(bool));
    return bindings;
}

const struct hf_condition *hf_test_condition(struct hf_arena *arena, const char *text,
                                             const char *values)
{
    const struct hf_condition *condition = NULL;
    struct hf_bindings bindings = bind(arena, values);
    struct hf_error error;
    if (hf__expr_parse_condition(arena, hf__slice_str(text), &bindings, "ConditionExpression",
                                 &condition, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    return condition;
}

const struct hf_update *hf_test_update(struct hf_arena *arena, const char *text, const char *values)
{
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    struct hf_bindings bindings = bind(arena, values);
    struct hf_error error;
    if (hf__expr_parse_update(arena, hf__slice_str(text), &bindings, update, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    return update;
}

const struct hf_projection *hf_test_projection(struct hf_arena *arena, const char *text)
{
    struct hf_projection *projection = hf__arena_zalloc(arena, 1, sizeof *projection);
    struct hf_bindings bindings = bind(arena, NULL);
    struct hf_error error;
    if (hf__expr_parse_projection(arena, hf__slice_str(text), &bindings, projection, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    return projection;
}

static int order_attrs(const void *a, const void *b)
{
    return hf__slice_cmp(((const struct hf_attr *)a)->name, ((const struct hf_attr *)b)->name);
}

static int order_values(const void *a, const void *b)
{
    return hf__value_order(a, b);
}

static struct hf_item sorted(struct hf_arena *arena, struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count, sizeof *attrs);
    for (size_t i = 0; i < item.count; i++) {
        attrs[i] = item.attrs[i];
        struct hf_value *value = &attrs[i].value;
        if (value->type == HF_M) value->map = sorted(arena, value->map);
        if (!hf__type_is_set(value->type)) continue;
        struct hf_value *members = hf__arena_zalloc(arena, value->list.count, sizeof *members);
        memcpy(members, value->list.at, value->list.count * sizeof *members);
        qsort(members, value->list.count, sizeof *members, order_values);
        value->list.at = members;
    }
    qsort(attrs, item.count, sizeof *attrs, order_attrs);
    return (struct hf_item){attrs, item.count};
}

const char *hf_test_show(struct hf_arena *arena, struct hf_item item)
{
    struct hf_buf buf;
    hf__buf_init(&buf, 1 << 20);
    hf__item_to_json(sorted(arena, item), &buf);
    const char *text = hf__arena_str(arena, hf__buf_view(&buf));
    hf__buf_free(&buf);
    return text;
}

/* ---- generators ---- */

static const char *const names[] = {"a", "b", "c", "owner", "n1", "list"};

static struct hf_slice gen_name(struct hf_rng *rng)
{
    return hf__slice_str(names[hf_rng_below(rng, COUNT_OF(names))]);
}

static struct hf_value gen_scalar(struct hf_rng *rng, struct hf_arena *arena, enum hf_type type)
{
    static const char *const strings[] = {"", "x", "xy", "owner", "\xc3\xa9", "1"};
    static const char *const numbers[] = {"0", "1", "-1", "2.50", "1e20", "0.001", "42"};
    if (type == HF_N) {
        struct hf_number number;
        hf__number_parse(hf__slice_str(numbers[hf_rng_below(rng, COUNT_OF(numbers))]), &number,
                         NULL);
        return hf__number(arena, &number);
    }
    struct hf_slice text = hf__slice_str(strings[hf_rng_below(rng, COUNT_OF(strings))]);
    return type == HF_S ? hf__s(text) : hf__b(text);
}

static struct hf_value gen_set(struct hf_rng *rng, struct hf_arena *arena, enum hf_type type)
{
    struct hf_value *members = hf__arena_zalloc(arena, 4, sizeof *members);
    size_t count = 0, wanted = 1 + hf_rng_below(rng, 3);
    for (int tries = 0; count < wanted && tries < 20; tries++) {
        struct hf_value member = gen_scalar(rng, arena, hf__type_element(type));
        struct hf_values so_far = {members, count};
        bool empty = member.type != HF_N && member.bytes.len == 0;
        if (!empty && !hf__values_contain(so_far, &member)) members[count++] = member;
    }
    return hf__list(type, members, count);
}

struct hf_value hf_test_gen_value(struct hf_rng *rng, struct hf_arena *arena, int depth)
{
    enum hf_type type = (enum hf_type)hf_rng_below(rng, depth > 2 ? HF_L : HF_TYPE_COUNT);
    size_t count = hf_rng_below(rng, 4);
    switch (type) {
    case HF_S:
    case HF_N:
    case HF_B: return gen_scalar(rng, arena, type);
    case HF_BOOL: return hf__bool(hf_rng_below(rng, 2));
    case HF_NULL: return hf__null();
    case HF_SS:
    case HF_NS:
    case HF_BS: return gen_set(rng, arena, type);
    case HF_L: {
        struct hf_value *values = hf__arena_zalloc(arena, count, sizeof *values);
        for (size_t i = 0; i < count; i++) values[i] = hf_test_gen_value(rng, arena, depth + 1);
        return hf__list(HF_L, values, count);
    }
    case HF_M: {
        struct hf_item map = {0};
        for (size_t i = 0; i < count; i++) {
            struct hf_value value = hf_test_gen_value(rng, arena, depth + 1);
            map = hf__item_with(arena, map, gen_name(rng), &value);
        }
        return hf__map(map);
    }
    }
    return hf__null();
}

struct hf_item hf_test_gen_item(struct hf_rng *rng, struct hf_arena *arena)
{
    struct hf_item item = {0};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (hf_rng_below(rng, 4) == 0) continue;
        struct hf_value value = hf_test_gen_value(rng, arena, 0);
        item = hf__item_with(arena, item, hf__slice_str(names[i]), &value);
    }
    return item;
}

static struct hf_path gen_path(struct hf_rng *rng, struct hf_arena *arena)
{
    size_t count = 1 + (hf_rng_below(rng, 3) == 0 ? hf_rng_below(rng, 3) : 0);
    struct hf_path_part *parts = hf__arena_zalloc(arena, count, sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        parts[i].is_index = i > 0 && hf_rng_below(rng, 2);
        parts[i].index = parts[i].is_index ? hf_rng_below(rng, 4) : 0;
        if (!parts[i].is_index) parts[i].name = gen_name(rng);
    }
    return (struct hf_path){parts, count};
}

static struct hf_operand gen_operand(struct hf_rng *rng, struct hf_arena *arena)
{
    struct hf_operand operand = {0};
    operand.is_path = hf_rng_below(rng, 2);
    if (operand.is_path) operand.path = gen_path(rng, arena);
    else operand.value = hf_test_gen_value(rng, arena, 2);
    operand.is_size = operand.is_path && hf_rng_below(rng, 5) == 0;
    return operand;
}

const struct hf_condition *hf_test_gen_condition(struct hf_rng *rng, struct hf_arena *arena,
                                                 int depth)
{
    struct hf_error error;
    for (int tries = 0; tries < 1000; tries++) {
        enum hf_condition_op op = (enum hf_condition_op)hf_rng_below(rng, HF_CONDITION_OPS);
        if (op <= HF_NOT && depth > 3) continue;
        if (op == HF_NOT) return hf__cond_not(arena, hf_test_gen_condition(rng, arena, depth + 1));
        if (op == HF_AND)
            return hf__cond_and(arena, hf_test_gen_condition(rng, arena, depth + 1),
                                hf_test_gen_condition(rng, arena, depth + 1));
        if (op == HF_OR)
            return hf__cond_or(arena, hf_test_gen_condition(rng, arena, depth + 1),
                               hf_test_gen_condition(rng, arena, depth + 1));
        struct hf_operand operands[6];
        size_t count = (size_t)hf__condition_syntax[op].least;
        if (op == HF_IN) count += hf_rng_below(rng, 3);
        for (size_t i = 0; i < count; i++) operands[i] = gen_operand(rng, arena);
        if (op == HF_HAS_TYPE)
            operands[1] = hf__operand_value(
                hf__s_str(hf__type_name((enum hf_type)hf_rng_below(rng, HF_TYPE_COUNT))));
        const struct hf_condition *condition = hf__cond(arena, op, operands, count);
        if (hf__condition_check(condition, "x", &error) == 0) return condition;
    }
    hf_test_fail(__FILE__, __LINE__, "no valid condition in 1000 tries");
}

static const struct hf_term *gen_term(struct hf_rng *rng, struct hf_arena *arena, int depth)
{
    struct hf_term *term = hf__arena_zalloc(arena, 1, sizeof *term);
    term->kind = (enum hf_term_kind)hf_rng_below(rng, depth > 1 ? 2 : 4);
    switch (term->kind) {
    case HF_TERM_VALUE: term->value = hf_test_gen_value(rng, arena, 1); break;
    case HF_TERM_PATH: term->path = gen_path(rng, arena); break;
    case HF_TERM_IF_NOT_EXISTS:
        term->path = gen_path(rng, arena);
        term->first = gen_term(rng, arena, depth + 1);
        break;
    case HF_TERM_LIST_APPEND:
        term->first = gen_term(rng, arena, depth + 1);
        term->second = gen_term(rng, arena, depth + 1);
        break;
    }
    return term;
}

static struct hf_action gen_action(struct hf_rng *rng, struct hf_arena *arena,
                                   enum hf_action_kind kind)
{
    struct hf_action action = {.kind = kind, .path = gen_path(rng, arena)};
    if (kind == HF_ADD || kind == HF_DELETE) action.value = hf_test_gen_value(rng, arena, 1);
    if (kind != HF_SET) return action;
    action.left = gen_term(rng, arena, 0);
    action.sign = "\0\0+-"[hf_rng_below(rng, 4)];
    if (action.sign) action.right = gen_term(rng, arena, 0);
    return action;
}

/* Actions in the order in which they are printed: by kind. */
const struct hf_update *hf_test_gen_update(struct hf_rng *rng, struct hf_arena *arena)
{
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    struct hf_error error;
    for (int kind = 0; kind < HF_ACTION_KINDS; kind++) {
        size_t wanted = hf_rng_below(rng, 3);
        for (int tries = 0; wanted > 0 && tries < 30; tries++) {
            struct hf_update longer = *update;
            longer.capacity = longer.count; /* so that growing copies */
            hf__update_add(arena, &longer, gen_action(rng, arena, (enum hf_action_kind)kind));
            if (hf__update_check(&longer, &error) != 0) continue;
            *update = longer;
            wanted--;
        }
    }
    if (update->count == 0) hf__update_remove(arena, update, "a");
    return update;
}

const struct hf_projection *hf_test_gen_projection(struct hf_rng *rng, struct hf_arena *arena)
{
    struct hf_projection *projection = hf__arena_zalloc(arena, 1, sizeof *projection);
    struct hf_path *paths = hf__arena_zalloc(arena, 4, sizeof *paths);
    struct hf_error error;
    projection->paths = paths;
    size_t wanted = 1 + hf_rng_below(rng, 3);
    for (int tries = 0; projection->count < wanted && tries < 30; tries++) {
        paths[projection->count++] = gen_path(rng, arena);
        if (hf__projection_check(projection, &error) != 0) projection->count--;
    }
    return projection;
}
