#include "harness/cases.h"

#define N(digits) "{\"N\":\"" digits "\"}"
#define S(text) "{\"S\":\"" text "\"}"

void hf_test_check_attribute(struct hf_item item, const char *name, const char *json)
{
    struct hf_arena arena = {0};
    const struct hf_value *value = hf__item_get_str(item, name);
    CHECK((value != NULL) == (json != NULL));
    if (value) {
        struct hf_value expected = hf_test_value(&arena, json);
        CHECK(hf__value_equal(value, &expected));
    }
    hf__arena_free(&arena);
}

/* ---- conditions ---- */

#define V(name, json) "{\":" name "\":" json "}"

const char hf_condition_item[] =
    "{\"key\":{\"S\":\"c\"},\"n\":{\"N\":\"5\"},\"s\":{\"S\":\"hello\"},\"u\":{\"S\":\"\xf0\x9f\x98\x80\"},"
    "\"bo\":{\"BOOL\":true},\"nu\":{\"NULL\":true},\"l\":{\"L\":[{\"S\":\"a\"},{\"N\":\"1\"}]},"
    "\"ss\":{\"SS\":[\"a\",\"b\"]},\"ns\":{\"NS\":[\"1\",\"2\"]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"}}},"
    "\"b\":{\"B\":\"AQID\"}}";

const struct hf_condition_case hf_condition_cases[] = {
    {"n = :a", V("a", N("5.00")), true},
    {"n <> :a", V("a", N("5.00")), false},
    {"s = :a", V("a", N("5")), false},
    {"s <> :a", V("a", N("5")), true},
    {"zz = :a", V("a", N("5")), false},
    {"zz <> :a", V("a", N("5")), true},
    {"zz < :a", V("a", N("5")), false},
    {"zz >= :a", V("a", N("5")), false},
    {"NOT zz = :a", V("a", N("5")), true},
    {"zz = yy", NULL, false},
    {"zz <> yy", NULL, true},
    {"n < :a", V("a", N("6")), true},
    {"n <= :a", V("a", N("5")), true},
    {"n > :a", V("a", N("5")), false},
    {"n >= :a", V("a", N("5")), true},
    {"n < :a", V("a", S("6")), false},
    {"n >= :a", V("a", S("6")), false},
    {"n < s", NULL, false},
    {"bo < n", NULL, false},
    {"s > :a", V("a", S("hell")), true},
    {"b > :a", V("a", "{\"B\":\"AQI=\"}"), true},
    {"n BETWEEN :a AND :b", "{\":a\":" N("1") ",\":b\":" N("5") "}", true},
    {"n BETWEEN :a AND :b", "{\":a\":" N("6") ",\":b\":" N("7") "}", false},
    {"n BETWEEN zz AND :b", V("b", N("7")), false},
    {":a BETWEEN n AND zz", V("a", N("7")), false},
    {"s BETWEEN :a AND :b", "{\":a\":" N("1") ",\":b\":" N("5") "}", false},
    {"n IN (:a, :b)", "{\":a\":" S("5") ",\":b\":" N("5.0") "}", true},
    {"n IN (:a)", V("a", N("6")), false},
    {"zz IN (:a)", V("a", N("6")), false},
    {"attribute_exists(n)", NULL, true},
    {"attribute_exists(zz)", NULL, false},
    {"attribute_not_exists(zz)", NULL, true},
    {"attribute_exists(m.x) AND attribute_exists(l[1])", NULL, true},
    {"attribute_exists(l[2]) OR attribute_exists(s.q) OR attribute_exists(n[1])", NULL, false},
    {"attribute_type(n, :a)", V("a", S("N")), true},
    {"attribute_type(nu, :a)", V("a", S("NULL")), true},
    {"attribute_type(ss, :a)", V("a", S("L")), false},
    {"attribute_type(zz, :a)", V("a", S("N")), false},
    {"begins_with(s, :a)", V("a", S("he")), true},
    {"begins_with(s, :a)", V("a", S("hello world")), false},
    {"begins_with(b, :a)", V("a", "{\"B\":\"AQ==\"}"), true},
    {"begins_with(:a, s)", V("a", S("hello world")), true},
    {"begins_with(n, :a)", V("a", S("5")), false},
    {"begins_with(zz, s)", NULL, false},
    {"begins_with(s, n)", NULL, false},
    {"contains(s, :a)", V("a", S("ell")), true},
    {"contains(s, :a)", V("a", S("")), true},
    {"contains(ss, :a)", V("a", S("a")), true},
    {"contains(ss, :a)", V("a", "{\"SS\":[\"a\"]}"), false},
    {"contains(ns, :a)", V("a", N("1.0")), true},
    {"contains(l, :a)", V("a", N("1")), true},
    {"contains(l, :a)", V("a", N("2")), false},
    {"contains(b, :a)", V("a", "{\"B\":\"Ag==\"}"), true},
    {"contains(m, :a)", V("a", S("x")), false},
    {"contains(s, :a)", V("a", N("1")), false},
    {"contains(zz, :a)", V("a", S("a")), false},
    {"contains(:a, s)", V("a", S("xxhello")), true},
    {"size(s) = :a", V("a", N("5")), true},
    {"size(u) = :a", V("a", N("2")), true},
    {"size(b) = :a", V("a", N("3")), true},
    {"size(l) = :a AND size(ss) = :a AND size(ns) = :a", V("a", N("2")), true},
    {"size(m) = :a", V("a", N("1")), true},
    {"size(n) = :a", V("a", N("1")), false},
    {"size(zz) = :a", V("a", N("0")), false},
    {"size(n) <> :a", V("a", N("1")), true},
    {"size(s) < :a", V("a", S("x")), false},
    {"size(s) = size(s)", NULL, true},
    {"size(:b) = :a", "{\":a\":" N("1") ",\":b\":" S("x") "}", true},
    {":a = size(s)", V("a", N("5")), true},
    {"size(s) BETWEEN :a AND :a", V("a", N("5")), true},
    {"m = :a", V("a", "{\"M\":{\"x\":{\"N\":\"1.0\"}}}"), true},
    {"ss = :a", V("a", "{\"SS\":[\"b\",\"a\"]}"), true},
    {"l = :a", V("a", "{\"L\":[{\"S\":\"a\"},{\"N\":\"1\"}]}"), true},
    {"bo = :a", V("a", "{\"BOOL\":true}"), true},
    {"nu = :a", V("a", "{\"NULL\":true}"), true},
    {"l[0] = :a", V("a", S("a")), true},
    {"NOT NOT n = :a", V("a", N("5")), true},
    {"n = :a OR n = :a AND n = :b", "{\":a\":" N("5") ",\":b\":" N("6") "}", true},
    {"(n = :a OR n = :a) AND n = :b", "{\":a\":" N("5") ",\":b\":" N("6") "}", false},
    {"NOT n = :a AND n = :b", "{\":a\":" N("6") ",\":b\":" N("5") "}", true},
    {"n between :a and :b and n = :b", "{\":a\":" N("1") ",\":b\":" N("5") "}", true},
};
const size_t hf_condition_case_count = COUNT_OF(hf_condition_cases);
#undef V

/* ---- updates ---- */

#define V(json) "{\":v\":" json "}"

const char hf_update_item[] =
    "{\"l\":{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"}]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"}}},"
    "\"n\":{\"N\":\"5\"},\"s\":{\"S\":\"x\"},\"ss\":{\"SS\":[\"a\",\"b\"]}}";

const struct hf_update_case hf_update_cases[] = {
    {"SET s = :v", V("{\"S\":\"y\"}"), "s", "{\"S\":\"y\"}"},
    {"SET q = :v", V("{\"S\":\"y\"}"), "q", "{\"S\":\"y\"}"},
    {"SET n = n + :v", V(N("0.5")), "n", N("5.5")},
    {"SET n = :v - n", V(N("1")), "n", N("-4")},
    {"SET q = n", NULL, "q", N("5")},
    {"SET n = if_not_exists(n, :v) + :v", V(N("2")), "n", N("7")},
    {"SET q = if_not_exists(q, :v) + :v", V(N("2")), "q", N("4")},
    {"SET m.x = :v", V(N("9")), "m", "{\"M\":{\"x\":{\"N\":\"9\"}}}"},
    {"SET m.y = :v", V(N("9")), "m", "{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"9\"}}}"},
    {"SET l[1] = :v", V("{\"S\":\"z\"}"), "l",
     "{\"L\":[{\"S\":\"a\"},{\"S\":\"z\"},{\"S\":\"c\"}]}"},
    {"SET l[9] = :v", V("{\"S\":\"z\"}"), "l",
     "{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"},{\"S\":\"z\"}]}"},
    {"SET l[9] = n, l[7] = s", NULL, "l",
     "{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"},{\"S\":\"x\"},{\"N\":\"5\"}]}"},
    {"SET l = list_append(l, :v)", V("{\"L\":[{\"S\":\"z\"}]}"), "l",
     "{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"},{\"S\":\"z\"}]}"},
    {"SET q = list_append(if_not_exists(q, :v), :v)", V("{\"L\":[{\"S\":\"z\"}]}"), "q",
     "{\"L\":[{\"S\":\"z\"},{\"S\":\"z\"}]}"},
    {"REMOVE s", NULL, "s", NULL},
    {"REMOVE q", NULL, "q", NULL},
    {"REMOVE l[0], l[2]", NULL, "l", "{\"L\":[{\"S\":\"b\"}]}"},
    {"REMOVE l[7]", NULL, "l", "{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"}]}"},
    {"REMOVE l[0] SET l[1] = :v", V("{\"S\":\"z\"}"), "l", "{\"L\":[{\"S\":\"z\"},{\"S\":\"c\"}]}"},
    {"REMOVE m.x", NULL, "m", "{\"M\":{}}"},
    {"ADD n :v", V(N("-7")), "n", N("-2")},
    {"ADD q :v", V(N("3")), "q", N("3")},
    {"ADD ss :v", V("{\"SS\":[\"c\",\"a\"]}"), "ss", "{\"SS\":[\"a\",\"b\",\"c\"]}"},
    {"ADD q :v", V("{\"SS\":[\"c\"]}"), "q", "{\"SS\":[\"c\"]}"},
    {"DELETE ss :v", V("{\"SS\":[\"a\",\"zz\"]}"), "ss", "{\"SS\":[\"b\"]}"},
    {"DELETE ss :v", V("{\"SS\":[\"a\",\"b\"]}"), "ss", NULL},
    {"DELETE q :v", V("{\"SS\":[\"a\"]}"), "q", NULL},
    {"SET n = :v, q = n", V(N("1")), "q", N("5")},
    {"SET q = n REMOVE n", NULL, "q", N("5")},
};
const size_t hf_update_case_count = COUNT_OF(hf_update_cases);

#define MISSING "The provided expression refers to an attribute that does not exist in the item"
#define TYPE "An operand in the update expression has an incorrect data type"
#define PATH "The document path provided in the update expression is invalid for update"

const struct hf_bad_update_case hf_bad_update_cases[] = {
    {"SET n = zz + :v", V(N("1")), MISSING},
    {"SET n = zz", NULL, MISSING},
    {"SET n = s + :v", V(N("1")), TYPE},
    {"SET l = list_append(s, :v)", V("{\"L\":[]}"), TYPE},
    {"ADD s :v", V(N("1")), TYPE},
    {"ADD ss :v", V("{\"NS\":[\"1\"]}"), TYPE},
    {"DELETE s :v", V("{\"SS\":[\"b\"]}"), TYPE},
    {"SET q.a = :v", V(N("1")), PATH},
    {"SET s.a = :v", V(N("1")), PATH},
    {"SET m[0] = :v", V(N("1")), PATH},
    {"SET l.x = :v", V(N("1")), PATH},
    {"REMOVE q.a", NULL, PATH},
    {"REMOVE s.a", NULL, PATH},
    {"SET n = n + :v", V(N("1e-100")), "DynamoDB only supports precision up to 38 digits"},
};
const size_t hf_bad_update_case_count = COUNT_OF(hf_bad_update_cases);
