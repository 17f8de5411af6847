#include "harness/model.h"

static const struct hf_key_schema simple = {.hash_name = {"key", 3}, .hash_type = HF_S};
static const struct hf_key_schema composite = {
    .hash_name = {"pk", 2}, .hash_type = HF_S, .range_name = {"sk", 2}, .range_type = HF_N};

TEST(keys_must_fit_the_schema)
{
    static const char misfit[] = "The provided key element does not match the schema";
    static const char empty[] =
        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
        "contain an empty string value. Key: key";
    static const struct {
        const struct hf_key_schema *schema;
        const char *key, *message;
    } cases[] = {
        {&simple, "{\"key\":{\"S\":\"a\"}}", NULL},
        {&simple, "{\"key\":{\"N\":\"1\"}}", misfit},
        {&simple, "{\"kex\":{\"S\":\"a\"}}", misfit},
        {&simple, "{}", misfit},
        {&simple, "{\"key\":{\"S\":\"a\"},\"x\":{\"S\":\"a\"}}", misfit},
        {&simple, "{\"key\":{\"S\":\"\"}}", empty},
        {&composite, "{\"pk\":{\"S\":\"a\"},\"sk\":{\"N\":\"1\"}}", NULL},
        {&composite, "{\"pk\":{\"S\":\"a\"}}", misfit},
        {&composite, "{\"pk\":{\"S\":\"a\"},\"sk\":{\"S\":\"1\"}}", misfit},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        hf_test_note("%s", cases[i].key);
        int code = hf__key_check(cases[i].schema, hf_test_item(&arena, cases[i].key), &error);
        CHECK_INT(code, cases[i].message ? HF_ERR_VALIDATION : 0);
        if (cases[i].message) CHECK_STR(error.message, cases[i].message);
        hf__arena_free(&arena);
    }
}

TEST(keys_have_limits)
{
    struct hf_error error;
    static char text[HF_HASH_KEY_MAX_SIZE + 1];
    memset(text, 'k', sizeof text);
    struct hf_attr attr = {HF_LIT("key"), hf__s(hf__slice(text, HF_HASH_KEY_MAX_SIZE))};
    CHECK_INT(hf__key_check(&simple, (struct hf_item){&attr, 1}, &error), 0);
    attr.value.bytes.len++;
    CHECK_INT(hf__key_check(&simple, (struct hf_item){&attr, 1}, &error), HF_ERR_VALIDATION);
}

TEST(key_conditions_are_bound_by_the_schema)
{
    static const struct {
        const char *text, *values, *message;
    } cases[] = {
        {"pk = :a", "{\":a\":{\"S\":\"x\"}}", NULL},
        {"pk = :a AND sk > :b", "{\":a\":{\"S\":\"x\"},\":b\":{\"N\":\"1\"}}", NULL},
        {":b < sk AND (pk = :a)", "{\":a\":{\"S\":\"x\"},\":b\":{\"N\":\"1\"}}", NULL},
        {"pk > :a", "{\":a\":{\"S\":\"x\"}}", "Query key condition not supported"},
        {"sk = :b", "{\":b\":{\"N\":\"1\"}}", "Query condition missed key schema element: pk"},
        {"pk = :a AND v = :a", "{\":a\":{\"S\":\"x\"}}",
         "Query condition missed key schema element: sk"},
        {"pk = :b", "{\":b\":{\"N\":\"1\"}}",
         "One or more parameter values were invalid: Condition parameter type does not match schema type"},
        {"pk = :a AND begins_with(sk, :a)", "{\":a\":{\"S\":\"x\"}}",
         "One or more parameter values were invalid: Condition parameter type does not match schema type"},
        {"pk = :a OR sk = :b", "{\":a\":{\"S\":\"x\"},\":b\":{\"N\":\"1\"}}",
         "Invalid operator used in KeyConditionExpression: OR"},
        {"pk = :a AND sk <> :b", "{\":a\":{\"S\":\"x\"},\":b\":{\"N\":\"1\"}}",
         "Invalid operator used in KeyConditionExpression: <>"},
        {"pk = :a AND pk = :a", "{\":a\":{\"S\":\"x\"}}",
         "KeyConditionExpressions must only contain one condition per key"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_key_condition condition;
        const struct hf_value *hash;
        const struct hf_key_test *range;
        hf_test_note("%s", cases[i].text);
        int code = hf__key_condition_from_tree(
            hf_test_condition(&arena, cases[i].text, cases[i].values), &condition, &error);
        if (code == 0) code = hf__key_condition_bind(&condition, &composite, &hash, &range, &error);
        CHECK_INT(code, cases[i].message ? HF_ERR_VALIDATION : 0);
        if (cases[i].message) CHECK_STR(error.message, cases[i].message);
        else CHECK_SLICE(hash->bytes, HF_LIT("x"));
        if (!cases[i].message && range) CHECK_INT(range->op, HF_GT);
        hf__arena_free(&arena);
    }
}

TEST(projections_keep_what_they_name)
{
    static const char item[] =
        "{\"a\":{\"S\":\"1\"},\"l\":{\"L\":[{\"S\":\"x\"},{\"M\":{\"y\":{\"S\":\"2\"}}},{\"S\":\"z\"}]},"
        "\"m\":{\"M\":{\"p\":{\"S\":\"3\"},\"q\":{\"S\":\"4\"}}}}";
    static const struct {
        const char *text, *result;
    } cases[] = {
        {"a", "{\"a\":{\"S\":\"1\"}}"},
        {"a, zz", "{\"a\":{\"S\":\"1\"}}"},
        {"m.q", "{\"m\":{\"M\":{\"q\":{\"S\":\"4\"}}}}"},
        {"m.p, m.q", "{\"m\":{\"M\":{\"p\":{\"S\":\"3\"},\"q\":{\"S\":\"4\"}}}}"},
        {"m.zz", "{}"},
        {"l[2], l[0]", "{\"l\":{\"L\":[{\"S\":\"x\"},{\"S\":\"z\"}]}}"},
        {"l[1].y", "{\"l\":{\"L\":[{\"M\":{\"y\":{\"S\":\"2\"}}}]}}"},
        {"l[9], a.b, m[0]", "{}"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        hf_test_note("%s", cases[i].text);
        struct hf_item cut = hf__projection_apply(&arena, hf_test_projection(&arena, cases[i].text),
                                                  hf_test_item(&arena, item));
        CHECK_STR(hf_test_show(&arena, cut), cases[i].result);
        hf__arena_free(&arena);
    }
}

TEST(operations_are_checked_before_they_reach_a_table)
{
    struct hf_error error = {0};
    struct hf_op op = {.kind = HF_CREATE_TABLE, .table = HF_LIT("ab")};
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    op.kind = HF_PUT_ITEM;
    op.table = HF_LIT("a/b/c");
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    op.table = HF_LIT("locks.v-1_2");
    CHECK_INT(hf__op_check(&op, &error), 0);
    op.returns = HF_RETURN_ALL_NEW;
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    CHECK_STR(error.message, "Return values set to invalid value");
    op = (struct hf_op){.kind = HF_SCAN, .table = HF_LIT("locks"), .has_limit = true};
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    op = (struct hf_op){.kind = HF_QUERY, .table = HF_LIT("locks")};
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    static char large[HF_ITEM_MAX_SIZE + 1];
    memset(large, 'x', sizeof large);
    struct hf_attr attr = {HF_LIT("a"), hf__s(hf__slice(large, HF_ITEM_MAX_SIZE - 1))};
    op = (struct hf_op){.kind = HF_PUT_ITEM, .table = HF_LIT("locks"), .item = {&attr, 1}};
    CHECK_INT(hf__op_check(&op, &error), 0);
    attr.value.bytes.len++;
    CHECK_INT(hf__op_check(&op, &error), HF_ERR_VALIDATION);
    CHECK_STR(error.message, "Item size has exceeded the maximum allowed size");
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(keys_must_fit_the_schema),
        RUN(keys_have_limits),
        RUN(key_conditions_are_bound_by_the_schema),
        RUN(projections_keep_what_they_name),
        RUN(operations_are_checked_before_they_reach_a_table),
    };
    return RUN_TESTS(tests);
}
