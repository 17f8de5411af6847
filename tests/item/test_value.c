#include "harness/model.h"

TEST(equality_is_by_content)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"{\"N\":\"1\"}", "{\"N\":\"1.00\"}", true},
        {"{\"S\":\"1\"}", "{\"N\":\"1\"}", false},
        {"{\"S\":\"a\"}", "{\"B\":\"YQ==\"}", false},
        {"{\"SS\":[\"a\",\"b\"]}", "{\"SS\":[\"b\",\"a\"]}", true},
        {"{\"NS\":[\"1\",\"2\"]}", "{\"NS\":[\"2.0\",\"1e0\"]}", true},
        {"{\"SS\":[\"a\"]}", "{\"SS\":[\"a\",\"b\"]}", false},
        {"{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"}]}", "{\"L\":[{\"S\":\"b\"},{\"S\":\"a\"}]}", false},
        {"{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"BOOL\":true}}}",
         "{\"M\":{\"y\":{\"BOOL\":true},\"x\":{\"N\":\"1\"}}}", true},
        {"{\"M\":{}}", "{\"M\":{\"x\":{\"NULL\":true}}}", false},
        {"{\"NULL\":true}", "{\"NULL\":true}", true},
        {"{\"BOOL\":true}", "{\"BOOL\":false}", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_value a = hf_test_value(&arena, cases[i].a),
                        b = hf_test_value(&arena, cases[i].b);
        hf_test_note("%s and %s", cases[i].a, cases[i].b);
        CHECK(hf__value_equal(&a, &b) == cases[i].equal);
        CHECK(hf__value_equal(&b, &a) == cases[i].equal);
        hf__arena_free(&arena);
    }
}

TEST(sizes_are_counted_as_dynamodb_counts)
{
    static const struct {
        const char *item;
        size_t size;
    } cases[] = {
        {"{}", 0},
        {"{\"name\":{\"S\":\"\xc3\xa9\"}}", 6},
        {"{\"n\":{\"N\":\"12345\"}}", 5},
        {"{\"n\":{\"N\":\"-1\"}}", 4},
        {"{\"b\":{\"B\":\"AQID\"}}", 4},
        {"{\"t\":{\"BOOL\":true},\"z\":{\"NULL\":true}}", 4},
        {"{\"l\":{\"L\":[{\"S\":\"ab\"},{\"S\":\"\"}]}}", 1 + 3 + 1 + 2 + 1},
        {"{\"m\":{\"M\":{\"k\":{\"S\":\"ab\"}}}}", 1 + 3 + 1 + 1 + 2},
        {"{\"s\":{\"SS\":[\"ab\",\"c\"]}}", 4},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        hf_test_note("%s", cases[i].item);
        CHECK_INT(hf__item_size(hf_test_item(&arena, cases[i].item)), cases[i].size);
        hf__arena_free(&arena);
    }
}

TEST(malformed_values_are_refused)
{
    struct hf_arena arena = {0};
    struct hf_error error;
    struct hf_value empty_set = hf__list(HF_SS, NULL, 0);
    CHECK_INT(hf__value_check(&empty_set, &error), HF_ERR_VALIDATION);
    CHECK_STR(error.message,
              "One or more parameter values were invalid: An string set  may not be empty");
    struct hf_value twice = hf_test_value(&arena, "{\"NS\":[\"1\",\"2\",\"1.0\"]}");
    CHECK_INT(hf__value_check(&twice, &error), HF_ERR_VALIDATION);
    struct hf_value mixed_members[] = {hf__s_str("a"), hf__n(&arena, 1)};
    struct hf_value mixed = hf__list(HF_SS, mixed_members, 2);
    CHECK_INT(hf__value_check(&mixed, &error), HF_ERR_VALIDATION);
    struct hf_value bad_text = hf__s(HF_LIT("\xff"));
    CHECK_INT(hf__value_check(&bad_text, &error), HF_ERR_VALIDATION);
    struct hf_value deep = hf__s_str("x");
    for (int i = 0; i < HF_ITEM_MAX_NESTING - 1; i++) {
        struct hf_value *inner = hf__arena_alloc(&arena, sizeof *inner);
        *inner = deep;
        deep = hf__list(HF_L, inner, 1);
    }
    CHECK_INT(hf__value_check(&deep, &error), 0);
    struct hf_value deeper = hf__list(HF_L, &deep, 1);
    CHECK_INT(hf__value_check(&deeper, &error), HF_ERR_VALIDATION);
    struct hf_attr unnamed = {HF_LIT(""), hf__null()};
    CHECK_INT(hf__item_check((struct hf_item){&unnamed, 1}, &error), HF_ERR_VALIDATION);
    hf__arena_free(&arena);
}

TEST(copies_share_nothing)
{
    struct hf_arena from = {0}, to = {0};
    struct hf_rng rng = {3};
    for (int i = 0; i < 300; i++) {
        struct hf_item item = hf_test_gen_item(&rng, &from);
        const char *before = hf_test_show(&to, item);
        struct hf_item copy = hf__item_copy(&to, item);
        CHECK(hf__item_equal(item, copy));
        hf__arena_free(&from);
        CHECK_STR(hf_test_show(&to, copy), before);
        hf__arena_reset(&to);
    }
    hf__arena_free(&to);
}

TEST(setting_and_taking_away_leave_the_old_item_alone)
{
    struct hf_arena arena = {0};
    struct hf_item item = hf_test_item(&arena, "{\"a\":{\"S\":\"1\"},\"b\":{\"S\":\"2\"}}");
    struct hf_value value = hf__s_str("3");
    CHECK_STR(hf_test_show(&arena, hf__item_with(&arena, item, HF_LIT("a"), &value)),
              "{\"a\":{\"S\":\"3\"},\"b\":{\"S\":\"2\"}}");
    CHECK_STR(hf_test_show(&arena, hf__item_with(&arena, item, HF_LIT("c"), &value)),
              "{\"a\":{\"S\":\"1\"},\"b\":{\"S\":\"2\"},\"c\":{\"S\":\"3\"}}");
    CHECK_STR(hf_test_show(&arena, hf__item_with(&arena, item, HF_LIT("a"), NULL)),
              "{\"b\":{\"S\":\"2\"}}");
    CHECK_STR(hf_test_show(&arena, item), "{\"a\":{\"S\":\"1\"},\"b\":{\"S\":\"2\"}}");
    hf__arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(equality_is_by_content),
        RUN(sizes_are_counted_as_dynamodb_counts),
        RUN(malformed_values_are_refused),
        RUN(copies_share_nothing),
        RUN(setting_and_taking_away_leave_the_old_item_alone),
    };
    return RUN_TESTS(tests);
}
