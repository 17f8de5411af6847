/* What a condition says of an item. Each row was tried on DynamoDB Local. */
#include "harness/model.h"

static const char item_json[] =
    "{\"key\":{\"S\":\"c\"},\"n\":{\"N\":\"5\"},\"s\":{\"S\":\"hello\"},\"u\":{\"S\":\"\xf0\x9f\x98\x80\"},"
    "\"bo\":{\"BOOL\":true},\"nu\":{\"NULL\":true},\"l\":{\"L\":[{\"S\":\"a\"},{\"N\":\"1\"}]},"
    "\"ss\":{\"SS\":[\"a\",\"b\"]},\"ns\":{\"NS\":[\"1\",\"2\"]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"}}},"
    "\"b\":{\"B\":\"AQID\"}}";

#define V(name, json) "{\":" name "\":" json "}"
#define N(digits) "{\"N\":\"" digits "\"}"
#define S(text) "{\"S\":\"" text "\"}"

TEST(conditions_hold_as_in_dynamodb)
{
    static const struct {
        const char *text, *values;
        bool holds;
    } cases[] = {
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
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_item(&arena, item_json);
        hf_test_note("%s with %s", cases[i].text, cases[i].values ? cases[i].values : "nothing");
        const struct hf_condition *condition =
            hf_test_condition(&arena, cases[i].text, cases[i].values);
        CHECK_INT(hf__condition_check(condition, "ConditionExpression", &error), 0);
        CHECK(hf__condition_holds(condition, item) == cases[i].holds);
        hf__arena_free(&arena);
    }
}

TEST(no_item_is_an_item_without_attributes)
{
    struct hf_arena arena = {0};
    struct hf_item none = {0};
    CHECK(hf__condition_holds(hf_test_condition(&arena, "attribute_not_exists(a)", NULL), none));
    CHECK(hf__condition_holds(hf_test_condition(&arena, "a <> :v", V("v", S("x"))), none));
    CHECK(!hf__condition_holds(hf_test_condition(&arena, "a = :v", V("v", S("x"))), none));
    hf__arena_free(&arena);
}

TEST(conditions_that_make_no_sense_are_refused)
{
    static const struct {
        const char *text, *values, *message;
    } cases[] = {
        {"n = n", NULL,
         "The first operand must be distinct from the remaining operands for this operator or function; "
         "operator: =, first operand: [n]"},
        {"n IN (s, n)", NULL,
         "The first operand must be distinct from the remaining operands for this operator or function; "
         "operator: IN, first operand: [n]"},
        {"bo < :a", V("a", "{\"BOOL\":true}"),
         "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"},
        {"ss < :a", V("a", "{\"SS\":[\"a\"]}"),
         "Incorrect operand type for operator or function; operator or function: <, operand type: SS"},
        {"n BETWEEN :b AND :a", "{\":a\":" N("1") ",\":b\":" N("5") "}",
         "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound "
         "operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: {N:1}"},
        {"n BETWEEN :a AND :b", "{\":a\":" N("1") ",\":b\":" S("5") "}",
         "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: "
         "AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:5}"},
        {"attribute_exists(:a)", V("a", S("x")),
         "Operator or function requires a document path; operator or function: attribute_exists"},
        {"attribute_type(n, :a)", V("a", S("Q")),
         "Invalid attribute type name found; type: Q, valid types: {N,BS,L,B,NULL,M,S,SS,NS,BOOL}"},
        {"begins_with(s, :a)", V("a", N("1")),
         "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
        {"size(:a) = :a", V("a", N("1")),
         "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        char expected[512];
        hf_test_note("%s", cases[i].text);
        const struct hf_condition *condition =
            hf_test_condition(&arena, cases[i].text, cases[i].values);
        CHECK_INT(hf__condition_check(condition, "ConditionExpression", &error), HF_ERR_VALIDATION);
        snprintf(expected, sizeof expected, "Invalid ConditionExpression: %s", cases[i].message);
        CHECK_STR(error.message, expected);
        hf__arena_free(&arena);
    }
}

static void build_a_condition(void)
{
    struct hf_arena arena = {0};
    const struct hf_condition *condition = NULL;
    for (int i = 0; i < 40; i++)
        condition = hf__cond_and(&arena, condition,
                                 hf__cond_or(&arena, hf__cond_absent(&arena, "grant"),
                                             hf__cond_compare(&arena, "version", HF_EQ, hf__n(&arena, i))));
    CHECK(arena.failed == hf_alloc_has_failed());
    hf__arena_free(&arena);
}

TEST(building_survives_want_of_memory)
{
    CHECK(hf_test_torture(build_a_condition) > 1);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(conditions_hold_as_in_dynamodb),
        RUN(no_item_is_an_item_without_attributes),
        RUN(conditions_that_make_no_sense_are_refused),
        RUN(building_survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
