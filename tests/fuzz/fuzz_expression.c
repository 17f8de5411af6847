/* Expressions: what parses and makes sense prints, parses back as the same tree, and evaluates. */
#include "fuzz.h"
#include "wire/expr_parse.h"
#include "wire/expr_print.h"
#include "wire/item_json.h"

static const char values_json[] =
    "{\":a\":{\"N\":\"5\"},\":b\":{\"S\":\"x\"},\":c\":{\"SS\":[\"x\"]},"
    "\":d\":{\"L\":[{\"S\":\"y\"}]},\":e\":{\"BOOL\":true}}";
static const char item_json[] =
    "{\"a\":{\"N\":\"1\"},\"b\":{\"S\":\"xy\"},\"c\":{\"SS\":[\"x\",\"y\"]},"
    "\"d\":{\"L\":[{\"S\":\"x\"},{\"M\":{\"a\":{\"N\":\"2\"}}}]}}";

static struct hf_bindings given(struct hf_arena *arena)
{
    static const struct hf_attr names[] = {{{"#a", 2}, {.type = HF_S, .bytes = {"owner", 5}}},
                                           {{"#b", 2}, {.type = HF_S, .bytes = {"a.b", 3}}}};
    struct hf_bindings bindings = {.names = {names, 2}};
    MUST(hf__item_from_json(arena, hf__slice_str(values_json), &bindings.values, NULL) == 0);
    bindings.name_used = hf__arena_zalloc(arena, 2, sizeof(bool));
    bindings.value_used = hf__arena_zalloc(arena, bindings.values.count, sizeof(bool));
    return bindings;
}

static struct hf_bindings printed(struct hf_arena *arena, const struct hf_placeholders *p)
{
    struct hf_attr *names = hf__arena_zalloc(arena, p->name_count, sizeof *names);
    struct hf_attr *values = hf__arena_zalloc(arena, p->value_count, sizeof *values);
    for (size_t i = 0; i < p->name_count; i++)
        names[i] = (struct hf_attr){hf__arena_printf(arena, "#n%zu", i), hf__s(p->names[i])};
    for (size_t i = 0; i < p->value_count; i++)
        values[i] = (struct hf_attr){hf__arena_printf(arena, ":v%zu", i), *p->values[i]};
    return (struct hf_bindings){{names, p->name_count},
                                {values, p->value_count},
                                hf__arena_zalloc(arena, p->name_count, sizeof(bool)),
                                hf__arena_zalloc(arena, p->value_count, sizeof(bool))};
}

static void try_condition(struct hf_arena *arena, struct hf_slice text, struct hf_item item)
{
    struct hf_bindings bindings = given(arena);
    const struct hf_condition *condition, *again;
    struct hf_error error;
    if (hf__expr_parse_condition(arena, text, &bindings, "C", &condition, &error) != 0) return;
    if (hf__condition_check(condition, "C", &error) != 0) return;
    hf__condition_holds(condition, item);
    struct hf_placeholders placeholders = {.arena = arena};
    struct hf_buf out;
    hf__buf_init(&out, 1 << 20);
    hf__expr_print_condition(&out, &placeholders, condition);
    struct hf_bindings back = printed(arena, &placeholders);
    if (out.len <= HF_EXPRESSION_MAX_SIZE) {
        MUST(hf__expr_parse_condition(arena, hf__buf_view(&out), &back, "C", &again, &error) == 0);
        MUST(hf__condition_equal(condition, again));
    }
    hf__buf_free(&out);
}

static void try_update(struct hf_arena *arena, struct hf_slice text, struct hf_item item)
{
    struct hf_bindings bindings = given(arena);
    struct hf_update update, again;
    struct hf_item changed;
    struct hf_error error;
    if (hf__expr_parse_update(arena, text, &bindings, &update, &error) != 0) return;
    if (hf__update_check(&update, &error) != 0) return;
    if (hf__update_apply(arena, &update, item, &changed, &error) == 0)
        MUST(hf__item_check(changed, &error) == 0);
    hf__update_is_repeatable(&update);
    struct hf_placeholders placeholders = {.arena = arena};
    struct hf_buf out;
    hf__buf_init(&out, 1 << 20);
    hf__expr_print_update(&out, &placeholders, &update);
    struct hf_bindings back = printed(arena, &placeholders);
    if (out.len <= HF_EXPRESSION_MAX_SIZE)
        MUST(hf__expr_parse_update(arena, hf__buf_view(&out), &back, &again, &error) == 0);
    hf__buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_slice text = hf__slice((const char *)data, size);
    struct hf_item item;
    struct hf_projection projection;
    struct hf_error error;
    MUST(hf__item_from_json(&arena, hf__slice_str(item_json), &item, NULL) == 0);
    try_condition(&arena, text, item);
    try_update(&arena, text, item);
    struct hf_bindings bindings = given(&arena);
    if (hf__expr_parse_projection(&arena, text, &bindings, &projection, &error) == 0 &&
        hf__projection_check(&projection, &error) == 0)
        hf__projection_apply(&arena, &projection, item);
    hf__arena_free(&arena);
    return 0;
}
