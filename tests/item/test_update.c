/* What an update makes of an item. Each row was tried on DynamoDB Local. */
#include "base/buf.h"
#include "harness/cases.h"
#include "harness/model.h"

#define V(json) "{\":v\":" json "}"
#define N(digits) "{\"N\":\"" digits "\"}"

TEST(updates_change_what_they_name)
{
    for (size_t i = 0; i < hf_update_case_count; i++) {
        const struct hf_update_case *row = &hf_update_cases[i];
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_item(&arena, hf_update_item), result;
        hf_test_note("%s", row->text);
        const struct hf_update *update = hf_test_update(&arena, row->text, row->values);
        CHECK_INT(hf__update_check(update, &error), 0);
        if (hf__update_apply(&arena, update, item, &result, &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        hf_test_check_attribute(result, row->shown, row->result);
        CHECK_STR(hf_test_show(&arena, item), hf_update_item);
        hf__arena_free(&arena);
    }
}

TEST(updates_that_do_not_fit_the_item_are_refused)
{
    for (size_t i = 0; i < hf_bad_update_case_count; i++) {
        const struct hf_bad_update_case *row = &hf_bad_update_cases[i];
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_item item = hf_test_item(&arena, hf_update_item), result;
        hf_test_note("%s", row->text);
        const struct hf_update *update = hf_test_update(&arena, row->text, row->values);
        CHECK_INT(hf__update_check(update, &error), 0);
        CHECK_INT(hf__update_apply(&arena, update, item, &result, &error), HF_ERR_VALIDATION);
        CHECK_STR(error.message, row->message);
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
        {"SET n = if_not_exists(q, :v), q = :v", V(N("1")), false},
        {"SET n = if_not_exists(n, q)", NULL, false},
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

/* Whatever is thrown at it, an update gives a valid item or an error, and leaves the old one alone.
 */
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
    CHECK(applied > 1000);
}

/* As JSON: a set of so many members, beginning with a number. */
static struct hf_value large_set(struct hf_arena *arena, int from, int count)
{
    struct hf_buf json;
    hf__buf_init(&json, 1 << 22);
    hf__buf_str(&json, "{\"v\":{\"SS\":[");
    for (int i = 0; i < count; i++)
        hf__buf_printf(&json, "%s\"%d\"", i ? "," : "", (from + i) * 7919 % 1000003);
    hf__buf_str(&json, "]}}");
    struct hf_value set =
        hf_test_item(arena, hf__arena_str(arena, hf__buf_view(&json))).attrs[0].value;
    hf__buf_free(&json);
    return set;
}

/* With quadratic work this would take minutes, and the test's time-out would end it. */
TEST(large_sets_and_items_are_handled)
{
    enum { MEMBERS = 60000 };
    struct hf_arena arena = {0};
    struct hf_error error;
    struct hf_value a = large_set(&arena, 0, MEMBERS), b = large_set(&arena, MEMBERS / 2, MEMBERS);
    struct hf_value same = large_set(&arena, 0, MEMBERS);
    CHECK(hf__value_equal(&a, &same) && !hf__value_equal(&a, &b));
    struct hf_item item = hf__item_with(&arena, (struct hf_item){0}, HF_LIT("s"), &a), result;
    struct hf_update add = {0}, take = {0}, many = {0};
    hf__update_add_to(&arena, &add, "s", b);
    hf__update_delete_from(&arena, &take, "s", b);
    CHECK_INT(hf__update_apply(&arena, &add, item, &result, &error), 0);
    CHECK_INT(hf__item_get_str(result, "s")->list.count, MEMBERS * 3 / 2);
    CHECK_INT(hf__update_apply(&arena, &take, item, &result, &error), 0);
    CHECK_INT(hf__item_get_str(result, "s")->list.count, MEMBERS / 2);
    struct hf_attr *attrs = hf__arena_zalloc(&arena, MEMBERS, sizeof *attrs);
    for (int i = 0; i < MEMBERS; i++)
        attrs[i] = (struct hf_attr){hf__arena_printf(&arena, "a%d", i), hf__bool(true)};
    for (int i = 0; i < 300; i++) {
        const char *present = hf__arena_printf(&arena, "a%d", i * 100).ptr;
        hf__update_remove(&arena, &many, i % 3 ? present : hf__arena_printf(&arena, "z%d", i).ptr);
    }
    CHECK_INT(hf__update_apply(&arena, &many, (struct hf_item){attrs, MEMBERS}, &result, &error),
              0);
    CHECK_INT(result.count, MEMBERS - 200);
    CHECK(attrs[100].value.boolean && hf__slice_is(attrs[100].name, "a100"));
    hf__arena_free(&arena);
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
    int code =
        arena.failed ? HF_ERR_NO_MEMORY : hf__update_apply(&arena, &update, item, &result, &error);
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
        RUN(large_sets_and_items_are_handled),
        RUN(applying_survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
