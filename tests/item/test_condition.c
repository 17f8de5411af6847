/* What a condition says of an item. Each row was tried on DynamoDB Local. */
#include "harness/cases.h"
#include "harness/model.h"

#define V(name, json) "{\":" name "\":" json "}"
#define N(digits) "{\"N\":\"" digits "\"}"
#define S(text) "{\"S\":\"" text "\"}"

TEST(conditions_hold_as_in_dynamodb)
{
    for (size_t i = 0; i < hf_condition_case_count; i++) {
        const struct hf_condition_case *row = &hf_condition_cases[i];
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_item(&arena, hf_condition_item);
        hf_test_note("%s with %s", row->text, row->values ? row->values : "nothing");
        const struct hf_condition *condition = hf_test_condition(&arena, row->text, row->values);
        CHECK_INT(hf__condition_check(condition, "ConditionExpression", &error), 0);
        CHECK(hf__condition_holds(condition, item) == row->holds);
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
        condition =
            hf__cond_and(&arena, condition,
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
