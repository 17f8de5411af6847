/* What an update makes of an item. Each row was tried on DynamoDB Local. */
#include "harness/model.h"

#define ITEM                                                                                       \
    "{\"l\":{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"S\":\"c\"}]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"}}},"      \
    "\"n\":{\"N\":\"5\"},\"s\":{\"S\":\"x\"},\"ss\":{\"SS\":[\"a\",\"b\"]}}"
#define V(json) "{\":v\":" json "}"
#define N(digits) "{\"N\":\"" digits "\"}"

/* The attribute `shown` after the update, as JSON; NULL when it is gone. */
TEST(updates_change_what_they_name)
{
    static const struct {
        const char *text, *values, *shown, *result;
    } cases[] = {
        {"SET s = :v", V("{\"S\":\"y\"}"), "s", "{\"S\":\"y\"}"},
        {"SET q = :v", V("{\"S\":\"y\"}"), "q", "{\"S\":\"y\"}"},
        {"SET n = n + :v", V(N("0.5")), "n", N("5.5")},
        {"SET n = :v - n", V(N("1")), "n", N("-4")},
        {"SET q = n", NULL, "q", N("5")},
        {"SET n = if_not_exists(n, :v) + :v", V(N("2")), "n", N("7")},
        {"SET q = if_not_exists(q, :v) + :v", V(N("2")), "q", N("4")},
        {"SET m.x = :v", V(N("9")), "m", "{\"M\":{\"x\":{\"N\":\"9\"}}}"},
        {"SET m.y = :v", V(N("9")), "m", "{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"9\"}}}"},
        {"SET l[1] = :v", V("{\"S\":\"z\"}"), "l", "{\"L\":[{\"S\":\"a\"},{\"S\":\"z\"},{\"S\":\"c\"}]}"},
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
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_item(&arena, ITEM), result;
        hf_test_note("%s", cases[i].text);
        const struct hf_update *update = hf_test_update(&arena, cases[i].text, cases[i].values);
        CHECK_INT(hf__update_check(update, &error), 0);
        if (hf__update_apply(&arena, update, item, &result, &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        const struct hf_value *shown = hf__item_get_str(result, cases[i].shown);
        CHECK((shown != NULL) == (cases[i].result != NULL));
        if (shown) {
            struct hf_value expected = hf_test_value(&arena, cases[i].result);
            CHECK(hf__value_equal(shown, &expected));
        }
        CHECK_STR(hf_test_show(&arena, item), ITEM);
        hf__arena_free(&arena);
    }
}

TEST(updates_that_do_not_fit_the_item_are_refused)
{
    static const char missing[] =
        "The provided expression refers to an attribute that does not exist in the item";
    static const char type[] = "An operand in the update expression has an incorrect data type";
    static const char path[] =
        "The document path provided in the update expression is invalid for update";
    static const struct {
        const char *text, *values, *message;
    } cases[] = {
        {"SET n = zz + :v", V(N("1")), missing},
        {"SET n = zz", NULL, missing},
        {"SET n = s + :v", V(N("1")), type},
        {"SET l = list_append(s, :v)", V("{\"L\":[]}"), type},
        {"ADD s :v", V(N("1")), type},
        {"ADD ss :v", V("{\"NS\":[\"1\"]}"), type},
        {"DELETE s :v", V("{\"SS\":[\"b\"]}"), type},
        {"SET q.a = :v", V(N("1")), path},
        {"SET s.a = :v", V(N("1")), path},
        {"SET m[0] = :v", V(N("1")), path},
        {"SET l.x = :v", V(N("1")), path},
        {"REMOVE q.a", NULL, path},
        {"REMOVE s.a", NULL, path},
        {"SET n = n + :v", V(N("1e-100")), "DynamoDB only supports precision up to 38 digits"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item result;
        hf_test_note("%s", cases[i].text);
        const struct hf_update *update = hf_test_update(&arena, cases[i].text, cases[i].values);
        CHECK_INT(hf__update_check(update, &error), 0);
        CHECK_INT(hf__update_apply(&arena, update, hf_test_item(&arena, ITEM), &result, &error),
                  HF_ERR_VALIDATION);
        CHECK_STR(error.message, cases[i].message);
        hf__arena_free(&arena);
    }
}

TEST(updates_that_make_no_sense_are_refused)
{
    static const struct {
        const char *text, *values, *message;
    } cases[] = {
        {"SET m.x = :v, m = :v", V(N("1")),
         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
         "[m, x], path two: [m]"},
        {"SET m.x = :v REMOVE m.x", V(N("1")),
         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
         "[m, x], path two: [m, x]"},
        {"SET m.x = :v, m[1] = :v", V(N("1")),
         "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: "
         "[m, x], path two: [m, [1]]"},
        {"ADD s :v", V("{\"S\":\"1\"}"),
         "Incorrect operand type for operator or function; operator: ADD, operand type: STRING, typeSet: "
         "ALLOWED_FOR_ADD_OPERAND"},
        {"DELETE s :v", V(N("1")),
         "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER, typeSet: "
         "ALLOWED_FOR_DELETE_OPERAND"},
        {"SET n = :v + n", V("{\"S\":\"1\"}"),
         "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
        {"SET l = list_append(l, :v)", V("{\"S\":\"1\"}"),
         "Incorrect operand type for operator or function; operator or function: list_append, operand type: S"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        char expected[512];
        hf_test_note("%s", cases[i].text);
        CHECK_INT(hf__update_check(hf_test_update(&arena, cases[i].text, cases[i].values), &error),
                  HF_ERR_VALIDATION);
        snprintf(expected, sizeof expected, "Invalid UpdateExpression: %s", cases[i].message);
        CHECK_STR(error.message, expected);
        hf__arena_free(&arena);
    }
}

TEST(only_absolute_updates_are_repeatable)
{
    static const struct {
        const char *text, *values;
        bool repeatable;
    } cases[] = {
        {"SET s = :v REMOVE n", V(N("1")), true},
        {"ADD ss :v", V("{\"SS\":[\"a\"]}"), true},
        {"DELETE ss :v", V("{\"SS\":[\"a\"]}"), true},
        {"SET n = if_not_exists(n, :v)", V(N("1")), true},
        {"SET n = n + :v", V(N("1")), false},
        {"ADD n :v", V(N("1")), false},
        {"SET l = list_append(l, :v)", V("{\"L\":[]}"), false},
        {"SET q = n, n = s", NULL, false},
        {"REMOVE l[0]", NULL, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        hf_test_note("%s", cases[i].text);
        CHECK(hf__update_is_repeatable(hf_test_update(&arena, cases[i].text, cases[i].values)) ==
              cases[i].repeatable);
        hf__arena_free(&arena);
    }
}

/* Whatever is thrown at it, an update gives a valid item or an error, and leaves the old one alone. */
TEST(generated_updates_keep_items_valid)
{
    struct hf_rng rng = {99};
    int applied = 0;
    for (int i = 0; i < 20000; i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_gen_item(&rng, &arena), result;
        const char *before = hf_test_show(&arena, item);
        const struct hf_update *update = hf_test_gen_update(&rng, &arena);
        if (hf__update_apply(&arena, update, item, &result, &error) == 0) {
            CHECK_INT(hf__item_check(result, &error), 0);
            applied++;
        } else {
            CHECK(error.code == HF_ERR_VALIDATION && error.message[0]);
        }
        CHECK_STR(hf_test_show(&arena, item), before);
        hf__arena_free(&arena);
    }
    CHECK(applied > 2000);
}

static void apply_an_update(void)
{
    struct hf_arena arena = {0};
    struct hf_error error = {0};
    struct hf_update update = {0};
    struct hf_item item = {0}, result;
    struct hf_value text = hf__s_str("x");
    for (int i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%d", i);
        struct hf_slice copy = hf__arena_copy(&arena, hf__slice_str(name));
        if (copy.ptr) item = hf__item_with(&arena, item, copy, &text);
        if (copy.ptr) hf__update_set(&arena, &update, copy.ptr, hf__n(&arena, i));
    }
    int code = arena.failed ? HF_ERR_NO_MEMORY : hf__update_apply(&arena, &update, item, &result, &error);
    CHECK_INT(code, hf_alloc_has_failed() ? HF_ERR_NO_MEMORY : 0);
    hf__arena_free(&arena);
}

TEST(applying_survives_want_of_memory)
{
    CHECK(hf_test_torture(apply_an_update) > 1);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(updates_change_what_they_name),
        RUN(updates_that_do_not_fit_the_item_are_refused),
        RUN(updates_that_make_no_sense_are_refused),
        RUN(only_absolute_updates_are_repeatable),
        RUN(generated_updates_keep_items_valid),
        RUN(applying_survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
