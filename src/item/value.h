/*
 * Attribute values and items, as DynamoDB has them.
 *
 * Values are immutable once built and live in an arena; copying a struct shares
 * what it points to. A set is a list whose elements are all S, N or B.
 */
#ifndef HF_ITEM_VALUE_H
#define HF_ITEM_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "item/number.h"

enum hf_type { HF_S, HF_N, HF_B, HF_BOOL, HF_NULL, HF_SS, HF_NS, HF_BS, HF_L, HF_M };
enum { HF_TYPE_COUNT = HF_M + 1 };

enum {
    HF_ITEM_MAX_SIZE = 400 * 1024,
    HF_ITEM_MAX_NESTING = 32,
    HF_HASH_KEY_MAX_SIZE = 2048,
    HF_RANGE_KEY_MAX_SIZE = 1024,
};

struct hf_attr;
struct hf_value;

/* A map of names to values: an item, or an M. Names are unique; the order has no meaning. */
struct hf_item {
    const struct hf_attr *attrs;
    size_t count;
};

struct hf_values {
    const struct hf_value *at;
    size_t count;
};

struct hf_value {
    enum hf_type type;
    union {
        struct hf_slice bytes;          /* S (UTF-8), B */
        const struct hf_number *number; /* N */
        bool boolean;                   /* BOOL */
        struct hf_values list;          /* SS, NS, BS, L */
        struct hf_item map;             /* M */
    };
};

struct hf_attr {
    struct hf_slice name;
    struct hf_value value;
};

/* "S", "NS", "BOOL", … */
const char *hf__type_name(enum hf_type type);
bool hf__type_from_name(struct hf_slice name, enum hf_type *ret);
bool hf__type_is_set(enum hf_type type);
/* The type of a set's elements. */
enum hf_type hf__type_element(enum hf_type set);
/* S, N, B: the types with an order, which keys may have. */
bool hf__type_is_ordered(enum hf_type type);

/* Constructors. Those with an arena allocate there; the others share their argument. */
struct hf_value hf__s(struct hf_slice text);
struct hf_value hf__s_str(const char *text);
struct hf_value hf__b(struct hf_slice bytes);
struct hf_value hf__bool(bool value);
struct hf_value hf__null(void);
struct hf_value hf__n(struct hf_arena *arena, int64_t value);
struct hf_value hf__number(struct hf_arena *arena, const struct hf_number *number);
struct hf_value hf__list(enum hf_type type, const struct hf_value *values, size_t count);
struct hf_value hf__map(struct hf_item item);

/* The value of an attribute, or NULL. */
const struct hf_value *hf__item_get(struct hf_item item, struct hf_slice name);
const struct hf_value *hf__item_get_str(struct hf_item item, const char *name);

/* The item with one attribute set, or taken away with value NULL. The old item is untouched. */
struct hf_item hf__item_with(struct hf_arena *arena, struct hf_item item, struct hf_slice name,
                             const struct hf_value *value);

/*
 * Sorts the attributes of a large map by name: then comparing two of them costs
 * no square. Small ones keep the order in which they came.
 */
void hf__attrs_sort(struct hf_attr *attrs, size_t count);

/* Whether the members of a set are in ascending order, as in every set that was read from JSON. */
bool hf__values_sorted(struct hf_values set);

/* Numbers by value, sets as sets, maps without order. Different types are not equal. */
bool hf__value_equal(const struct hf_value *a, const struct hf_value *b);
bool hf__item_equal(struct hf_item a, struct hf_item b);

/* Order of two values of the same ordered type. */
int hf__value_order(const struct hf_value *a, const struct hf_value *b);

/* Whether a list or set has an element equal to this one. */
bool hf__values_contain(struct hf_values values, const struct hf_value *wanted);

/* Deep copies into an arena. */
struct hf_value hf__value_copy(struct hf_arena *arena, const struct hf_value *value);
struct hf_item hf__item_copy(struct hf_arena *arena, struct hf_item item);

/* DynamoDB's size accounting: names and values, three bytes per list or map, one per member. */
size_t hf__value_size(const struct hf_value *value);
size_t hf__item_size(struct hf_item item);

/*
 * Refuses what DynamoDB refuses whatever the table: text that is not UTF-8,
 * sets that are empty or repeat an element, empty names, deep nesting. Its
 * error texts.
 */
int hf__value_check(const struct hf_value *value, struct hf_error *reterr);
int hf__item_check(struct hf_item item, struct hf_error *reterr);

#endif
