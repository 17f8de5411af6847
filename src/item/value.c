#include "item/value.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static const struct {
    const char *name;
    bool ordered;
    bool set;
    enum hf_type element;
    const char *set_name; /* as DynamoDB's messages say it */
} types[HF_TYPE_COUNT] = {
    [HF_S] = {.name = "S", .ordered = true},
    [HF_N] = {.name = "N", .ordered = true},
    [HF_B] = {.name = "B", .ordered = true},
    [HF_BOOL] = {.name = "BOOL"},
    [HF_NULL] = {.name = "NULL"},
    [HF_SS] = {.name = "SS", .set = true, .element = HF_S, .set_name = "string set"},
    [HF_NS] = {.name = "NS", .set = true, .element = HF_N, .set_name = "number set"},
    [HF_BS] = {.name = "BS", .set = true, .element = HF_B, .set_name = "binary set"},
    [HF_L] = {.name = "L"},
    [HF_M] = {.name = "M"},
};

const char *hf__type_name(enum hf_type type)
{
    return types[type].name;
}

bool hf__type_from_name(struct hf_slice name, enum hf_type *ret)
{
    for (int i = 0; i < HF_TYPE_COUNT; i++) {
        if (!hf__slice_is(name, types[i].name)) continue;
        *ret = (enum hf_type)i;
        return true;
    }
    return false;
}

bool hf__type_is_set(enum hf_type type)
{
    return types[type].set;
}

enum hf_type hf__type_element(enum hf_type set)
{
    return types[set].element;
}

bool hf__type_is_ordered(enum hf_type type)
{
    return types[type].ordered;
}

struct hf_value hf__s(struct hf_slice text)
{
    return (struct hf_value){.type = HF_S, .bytes = text};
}

struct hf_value hf__s_str(const char *text)
{
    return hf__s(hf__slice_str(text));
}

struct hf_value hf__b(struct hf_slice bytes)
{
    return (struct hf_value){.type = HF_B, .bytes = bytes};
}

struct hf_value hf__bool(bool value)
{
    return (struct hf_value){.type = HF_BOOL, .boolean = value};
}

struct hf_value hf__null(void)
{
    return (struct hf_value){.type = HF_NULL};
}

struct hf_value hf__number(struct hf_arena *arena, const struct hf_number *number)
{
    static const struct hf_number zero; /* stands in when the arena failed */
    struct hf_number *copy = hf__arena_alloc(arena, sizeof *copy);
    if (copy) *copy = *number;
    return (struct hf_value){.type = HF_N, .number = copy ? copy : &zero};
}

struct hf_value hf__n(struct hf_arena *arena, int64_t value)
{
    struct hf_number number = hf__number_from_int64(value);
    return hf__number(arena, &number);
}

struct hf_value hf__list(enum hf_type type, const struct hf_value *values, size_t count)
{
    return (struct hf_value){.type = type, .list = {values, count}};
}

struct hf_value hf__map(struct hf_item item)
{
    return (struct hf_value){.type = HF_M, .map = item};
}

const struct hf_value *hf__item_get(struct hf_item item, struct hf_slice name)
{
    for (size_t i = 0; i < item.count; i++)
        if (hf__slice_eq(item.attrs[i].name, name)) return &item.attrs[i].value;
    return NULL;
}

const struct hf_value *hf__item_get_str(struct hf_item item, const char *name)
{
    return hf__item_get(item, hf__slice_str(name));
}

struct hf_item hf__item_with(struct hf_arena *arena, struct hf_item item, struct hf_slice name,
                             const struct hf_value *value)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count + 1, sizeof *attrs);
    if (!attrs) return item;
    size_t count = 0;
    bool placed = false;
    for (size_t i = 0; i < item.count; i++) {
        bool same = hf__slice_eq(item.attrs[i].name, name);
        if (same && !value) continue;
        attrs[count] = item.attrs[i];
        if (same) attrs[count].value = *value;
        placed |= same;
        count++;
    }
    if (value && !placed) attrs[count++] = (struct hf_attr){name, *value};
    return (struct hf_item){attrs, count};
}

bool hf__values_contain(struct hf_values values, const struct hf_value *wanted)
{
    for (size_t i = 0; i < values.count; i++)
        if (hf__value_equal(&values.at[i], wanted)) return true;
    return false;
}

int hf__value_order(const struct hf_value *a, const struct hf_value *b)
{
    if (a->type == HF_N) return hf__number_compare(a->number, b->number);
    return hf__slice_cmp(a->bytes, b->bytes);
}

static int order_elements(const void *a, const void *b)
{
    return hf__value_order(a, b);
}

bool hf__values_sorted(struct hf_values set)
{
    for (size_t i = 1; i < set.count; i++)
        if (hf__value_order(&set.at[i - 1], &set.at[i]) > 0) return false;
    return true;
}

static bool same_elements(struct hf_values a, struct hf_values b);

/* Whether every element of a set is in another of the same size: then they are equal. */
static bool same_members(struct hf_values a, struct hf_values b)
{
    if (hf__values_sorted(a) && hf__values_sorted(b)) return same_elements(a, b);
    for (size_t i = 0; i < a.count; i++)
        if (!hf__values_contain(b, &a.at[i])) return false;
    return true;
}

static bool same_elements(struct hf_values a, struct hf_values b)
{
    for (size_t i = 0; i < a.count; i++)
        if (!hf__value_equal(&a.at[i], &b.at[i])) return false;
    return true;
}

bool hf__value_equal(const struct hf_value *a, const struct hf_value *b)
{
    if (a->type != b->type) return false;
    switch (a->type) {
    case HF_S:
    case HF_B: return hf__slice_eq(a->bytes, b->bytes);
    case HF_N: return hf__number_compare(a->number, b->number) == 0;
    case HF_BOOL: return a->boolean == b->boolean;
    case HF_NULL: return true;
    case HF_SS:
    case HF_NS:
    case HF_BS: return a->list.count == b->list.count && same_members(a->list, b->list);
    case HF_L: return a->list.count == b->list.count && same_elements(a->list, b->list);
    case HF_M: return hf__item_equal(a->map, b->map);
    }
    return false;
}

enum { SMALL_MAP = 16 };

static int order_attrs(const void *a, const void *b)
{
    return hf__slice_cmp(((const struct hf_attr *)a)->name, ((const struct hf_attr *)b)->name);
}

void hf__attrs_sort(struct hf_attr *attrs, size_t count)
{
    if (count > SMALL_MAP) qsort(attrs, count, sizeof *attrs, order_attrs);
}

static bool is_sorted_map(struct hf_item item)
{
    for (size_t i = 1; i < item.count; i++)
        if (order_attrs(&item.attrs[i - 1], &item.attrs[i]) > 0) return false;
    return true;
}

static bool same_attrs(struct hf_item a, struct hf_item b)
{
    for (size_t i = 0; i < a.count; i++) {
        const struct hf_attr *x = &a.attrs[i], *y = &b.attrs[i];
        if (!hf__slice_eq(x->name, y->name) || !hf__value_equal(&x->value, &y->value)) return false;
    }
    return true;
}

bool hf__item_equal(struct hf_item a, struct hf_item b)
{
    if (a.count != b.count) return false;
    if (a.count > SMALL_MAP && is_sorted_map(a) && is_sorted_map(b)) return same_attrs(a, b);
    for (size_t i = 0; i < a.count; i++) {
        const struct hf_value *other = hf__item_get(b, a.attrs[i].name);
        if (!other || !hf__value_equal(&a.attrs[i].value, other)) return false;
    }
    return true;
}

static struct hf_values copy_values(struct hf_arena *arena, struct hf_values from)
{
    struct hf_value *at = hf__arena_zalloc(arena, from.count, sizeof *at);
    if (!at) return (struct hf_values){0};
    for (size_t i = 0; i < from.count; i++) at[i] = hf__value_copy(arena, &from.at[i]);
    return (struct hf_values){at, from.count};
}

struct hf_value hf__value_copy(struct hf_arena *arena, const struct hf_value *value)
{
    struct hf_value copy = *value;
    switch (value->type) {
    case HF_S:
    case HF_B: copy.bytes = hf__arena_copy(arena, value->bytes); break;
    case HF_N: copy = hf__number(arena, value->number); break;
    case HF_BOOL:
    case HF_NULL: break;
    case HF_SS:
    case HF_NS:
    case HF_BS:
    case HF_L: copy.list = copy_values(arena, value->list); break;
    case HF_M: copy.map = hf__item_copy(arena, value->map); break;
    }
    return copy;
}

struct hf_item hf__item_copy(struct hf_arena *arena, struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, item.count, sizeof *attrs);
    if (!attrs) return (struct hf_item){0};
    for (size_t i = 0; i < item.count; i++) {
        attrs[i].name = hf__arena_copy(arena, item.attrs[i].name);
        attrs[i].value = hf__value_copy(arena, &item.attrs[i].value);
    }
    return (struct hf_item){attrs, item.count};
}

size_t hf__value_size(const struct hf_value *value)
{
    size_t size = 0;
    switch (value->type) {
    case HF_S:
    case HF_B: return value->bytes.len;
    case HF_N: return hf__number_size(value->number);
    case HF_BOOL:
    case HF_NULL: return 1;
    case HF_SS:
    case HF_NS:
    case HF_BS:
        for (size_t i = 0; i < value->list.count; i++) size += hf__value_size(&value->list.at[i]);
        return size;
    case HF_L:
        for (size_t i = 0; i < value->list.count; i++)
            size += 1 + hf__value_size(&value->list.at[i]);
        return 3 + size;
    case HF_M: return 3 + value->map.count + hf__item_size(value->map);
    }
    return 0;
}

size_t hf__item_size(struct hf_item item)
{
    size_t size = 0;
    for (size_t i = 0; i < item.count; i++)
        size += item.attrs[i].name.len + hf__value_size(&item.attrs[i].value);
    return size;
}

static int invalid(struct hf_error *reterr, const char *text)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION, "One or more parameter values were invalid: %s",
                         text);
}

/* "[a, a]", as far as a message has room. */
static int duplicates(struct hf_values set, struct hf_error *reterr)
{
    char text[256] = "", number[HF_NUMBER_TEXT_SIZE];
    size_t len = 0;
    for (size_t i = 0; i < set.count && len < sizeof text; i++) {
        struct hf_slice one = set.at[i].bytes;
        if (set.at[i].type == HF_N) {
            hf__number_print(set.at[i].number, number);
            one = hf__slice_str(number);
        } else if (set.at[i].type == HF_B) {
            one = HF_LIT("...");
        }
        int more = snprintf(text + len, sizeof text - len, "%s%.*s", i ? ", " : "", HF_FMT(one));
        len += more > 0 ? (size_t)more : 0;
    }
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "One or more parameter values were invalid: Input collection [%s] contains "
        "duplicates.",
        text);
}

/* Sorting costs a copy, but a set of a hundred thousand members must not cost its square. */
static int check_no_duplicates(struct hf_values set, struct hf_error *reterr)
{
    bool repeats = false;
    if (hf__values_sorted(set)) {
        for (size_t i = 1; i < set.count; i++)
            repeats |= hf__value_order(&set.at[i - 1], &set.at[i]) == 0;
        return repeats ? duplicates(set, reterr) : 0;
    }
    struct hf_arena arena = {0};
    struct hf_value *sorted = hf__arena_alloc(&arena, set.count * sizeof *sorted);
    if (!sorted) return hf__error_no_memory(reterr);
    memcpy(sorted, set.at, set.count * sizeof *sorted);
    qsort(sorted, set.count, sizeof *sorted, order_elements);
    for (size_t i = 1; i < set.count; i++)
        repeats |= hf__value_order(&sorted[i - 1], &sorted[i]) == 0;
    hf__arena_free(&arena);
    return repeats ? duplicates(set, reterr) : 0;
}

static int check_set(const struct hf_value *value, struct hf_error *reterr)
{
    if (value->list.count == 0 && value->type == HF_BS)
        return invalid(reterr, "Binary sets should not be empty");
    if (value->list.count == 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "One or more parameter values were invalid: An %s  may not be empty",
                             types[value->type].set_name);
    for (size_t i = 0; i < value->list.count; i++) {
        const struct hf_value *element = &value->list.at[i];
        if (element->type != types[value->type].element)
            return invalid(reterr, "a set has an element of another type");
        if (element->type == HF_S && !hf__utf8_valid(element->bytes))
            return invalid(reterr, "a string is not valid UTF-8");
    }
    return check_no_duplicates(value->list, reterr);
}

static int check_nested(const struct hf_value *value, int depth, struct hf_error *reterr)
{
    int code = 0;
    if (depth > HF_ITEM_MAX_NESTING)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Nesting Levels have exceeded supported limits: Attributes in the item "
            "have nested levels beyond supported limit");
    switch (value->type) {
    case HF_S:
        return hf__utf8_valid(value->bytes) ? 0 : invalid(reterr, "a string is not valid UTF-8");
    case HF_SS:
    case HF_NS:
    case HF_BS: return check_set(value, reterr);
    case HF_L:
        for (size_t i = 0; i < value->list.count && code == 0; i++)
            code = check_nested(&value->list.at[i], depth + 1, reterr);
        return code;
    case HF_M:
        for (size_t i = 0; i < value->map.count && code == 0; i++) {
            if (value->map.attrs[i].name.len == 0)
                return hf__error_set(reterr, HF_ERR_VALIDATION, "Empty attribute name");
            if (!hf__utf8_valid(value->map.attrs[i].name))
                return invalid(reterr, "an attribute name is not valid UTF-8");
            code = check_nested(&value->map.attrs[i].value, depth + 1, reterr);
        }
        return code;
    case HF_N:
    case HF_B:
    case HF_BOOL:
    case HF_NULL: break;
    }
    return 0;
}

int hf__value_check(const struct hf_value *value, struct hf_error *reterr)
{
    return check_nested(value, 1, reterr);
}

int hf__item_check(struct hf_item item, struct hf_error *reterr)
{
    for (size_t i = 0; i < item.count; i++) {
        if (item.attrs[i].name.len == 0)
            return invalid(reterr, "an attribute name may not be empty");
        if (!hf__utf8_valid(item.attrs[i].name))
            return invalid(reterr, "an attribute name is not valid UTF-8");
        int code = hf__value_check(&item.attrs[i].value, reterr);
        if (code != 0) return code;
    }
    return 0;
}
