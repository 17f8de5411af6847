/* Expressions: printing and parsing are inverse, and what is no expression is refused. */
#include "harness/model.h"
#include "wire/expr_parse.h"
#include "wire/expr_print.h"

/* What the placeholders of printed text stand for, as a request would carry it. */
static struct hf_bindings bindings_of(struct hf_arena *arena, const struct hf_placeholders *p)
{
    struct hf_attr *names = hf__arena_zalloc(arena, p->name_count, sizeof *names);
    struct hf_attr *values = hf__arena_zalloc(arena, p->value_count, sizeof *values);
    for (size_t i = 0; i < p->name_count; i++)
        names[i] = (struct hf_attr){hf__arena_printf(arena, "#n%zu", i), hf__s(p->names[i])};
    for (size_t i = 0; i < p->value_count; i++)
        values[i] = (struct hf_attr){hf__arena_printf(arena, ":v%zu", i), *p->values[i]};
    return (struct hf_bindings){
        .names = {names, p->name_count},
        .values = {values, p->value_count},
        .name_used = hf__arena_zalloc(arena, p->name_count, sizeof(bool)),
        .value_used = hf__arena_zalloc(arena, p->value_count, sizeof(bool)),
    };
}

TEST(conditions_print_and_parse_back)
{
    struct hf_rng rng = {5};
    for (int i = 0; i < 10000; i++) {
        struct hf_arena arena = {0};
        struct hf_buf text;
        struct hf_error error = {0};
        struct hf_placeholders placeholders = {.arena = &arena};
        const struct hf_condition *condition = hf_test_gen_condition(&rng, &arena, 0), *back = NULL;
        hf__buf_init(&text, 1 << 20);
        hf__expr_print_condition(&text, &placeholders, condition);
        struct hf_bindings bindings = bindings_of(&arena, &placeholders);
        hf_test_note("%s", hf__buf_cstr(&text));
        int code =
            hf__expr_parse_condition(&arena, hf__buf_view(&text), &bindings, "C", &back, &error);
        if (text.len <= HF_EXPRESSION_MAX_SIZE) {
            if (code != 0) hf_test_fail(__FILE__, __LINE__, "%s", error.message);
            CHECK(hf__condition_equal(condition, back));
            CHECK_INT(hf__bindings_check(&bindings, &error), 0);
            CHECK_INT(hf__bindings_check_used(&bindings, &error), 0);
        }
        hf__buf_free(&text);
        hf__arena_free(&arena);
    }
}

TEST(updates_print_and_parse_back)
{
    struct hf_rng rng = {6};
    for (int i = 0; i < 10000; i++) {
        struct hf_arena arena = {0};
        struct hf_buf text;
        struct hf_error error = {0};
        struct hf_placeholders placeholders = {.arena = &arena};
        const struct hf_update *update = hf_test_gen_update(&rng, &arena);
        struct hf_update back;
        hf__buf_init(&text, 1 << 20);
        hf__expr_print_update(&text, &placeholders, update);
        struct hf_bindings bindings = bindings_of(&arena, &placeholders);
        hf_test_note("%s", hf__buf_cstr(&text));
        if (hf__expr_parse_update(&arena, hf__buf_view(&text), &bindings, &back, &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        CHECK(hf__update_equal(update, &back));
        CHECK_INT(hf__bindings_check_used(&bindings, &error), 0);
        hf__buf_free(&text);
        hf__arena_free(&arena);
    }
}

TEST(projections_print_and_parse_back)
{
    struct hf_rng rng = {8};
    for (int i = 0; i < 2000; i++) {
        struct hf_arena arena = {0};
        struct hf_buf text;
        struct hf_error error = {0};
        struct hf_placeholders placeholders = {.arena = &arena};
        const struct hf_projection *projection = hf_test_gen_projection(&rng, &arena);
        struct hf_projection back;
        hf__buf_init(&text, 1 << 20);
        hf__expr_print_projection(&text, &placeholders, projection);
        struct hf_bindings bindings = bindings_of(&arena, &placeholders);
        CHECK_INT(hf__expr_parse_projection(&arena, hf__buf_view(&text), &bindings, &back, &error),
                  0);
        CHECK(hf__projection_equal(projection, &back));
        hf__buf_free(&text);
        hf__arena_free(&arena);
    }
}

static int parse_condition(const char *text, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    const struct hf_condition *condition;
    static const char values[] = "{\":a\":{\"N\":\"5\"},\":b\":{\"S\":\"x\"}}";
    struct hf_bindings bindings = {.values = hf_test_item(&arena, values)};
    bool used[2] = {false};
    bindings.value_used = used;
    int code = hf__expr_parse_condition(&arena, hf__slice_str(text), &bindings,
                                        "ConditionExpression", &condition, reterr);
    hf__arena_free(&arena);
    return code;
}

TEST(spelling_is_free_where_dynamodb_leaves_it_free)
{
    static const char *const good[] = {
        "n=:a",
        "n = (:a)",
        "(n) = :a",
        "(n = :a)",
        "n = :a and n = :a",
        "n In (:a,:a)",
        "n BETWEEN :a AND :a",
        "not n = :a",
        "size (n) = :a",
        "\tn\n=\r:a",
        "(n = :a) AND (n = :a)",
        "NOT (n = :a OR n = :a)",
        "contains(n, :a) OR NOT begins_with(n, :b)",
        "l[0].x[12] = :a",
        "n IN ((:a))",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct hf_error error = {0};
        if (parse_condition(good[i], &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s: %s", good[i], error.message);
    }
}

TEST(what_is_no_condition_is_refused_in_dynamodbs_words)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "The expression can not be empty;"},
        {"  ", "Syntax error; token: \"<EOF>\", near: \"  \""},
        {" BETWEEN :a", "Syntax error; token: \"BETWEEN\", near: \" BETWEEN :a\""},
        {"n = ", "Syntax error; token: \"<EOF>\", near: \"= \""},
        {"n", "Syntax error; token: \"<EOF>\", near: \"n\""},
        {"n == :a", "Syntax error; token: \"=\", near: \"== :a\""},
        {"n = :a )", "Syntax error; token: \")\", near: \":a )\""},
        {"n = :a &", "Syntax error; token: \"&\", near: \":a &\""},
        {"_n = :a", "Syntax error; token: \"_\", near: \"_n\""},
        {"1n = :a", "Syntax error; token: \"1\", near: \"1n\""},
        {"l[00] = :a", "Syntax error; token: \"0\", near: \"00]\""},
        {"l[-1] = :a", "Syntax error; token: \"-\", near: \"[-1\""},
        {"n = :a AND", "Syntax error; token: \"<EOF>\", near: \"AND\""},
        {"n BETWEEN :a OR :a", "Syntax error; token: \"OR\", near: \":a OR :a\""},
        {"((n = :a))", "The expression has redundant parentheses;"},
        {"n = :q",
         "An expression attribute value used in expression is not defined; attribute value: :q"},
        {"#q = :a",
         "An expression attribute name used in the document path is not defined; attribute name: #q"},
        {"owner = :a", "Attribute name is a reserved keyword; reserved keyword: owner"},
        {"foo(n)", "Invalid function name; function: foo"},
        {"n IN (:a, foo(n))", "Invalid function name; function: foo"},
        {"ATTRIBUTE_EXISTS(n)", "Invalid function name; function: ATTRIBUTE_EXISTS"},
        {"begins_with(n)",
         "Incorrect number of operands for operator or function; operator or function: begins_with, number of "
         "operands: 1"},
        {"begins_with(n, :b, :b)",
         "Incorrect number of operands for operator or function; operator or function: begins_with, number of "
         "operands: 3"},
        {"n = attribute_exists(n)",
         "The function is not allowed to be used this way in an expression; function: attribute_exists"},
        {"attribute_exists(n) = :a",
         "The function is not allowed to be used this way in an expression; function: attribute_exists"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_error error = {0};
        char expected[512];
        hf_test_note("%s", cases[i].text);
        CHECK_INT(parse_condition(cases[i].text, &error), HF_ERR_VALIDATION);
        snprintf(expected, sizeof expected, "Invalid ConditionExpression: %s", cases[i].message);
        CHECK_STR(error.message, expected);
    }
}

/* Repeats a text into a buffer of its own. */
static const char *repeat(struct hf_buf *buf, const char *text, int times, const char *tail)
{
    hf__buf_clear(buf);
    for (int i = 0; i < times; i++) hf__buf_str(buf, text);
    hf__buf_str(buf, tail);
    return hf__buf_cstr(buf);
}

TEST(size_nesting_and_operators_are_bounded)
{
    struct hf_buf buf;
    struct hf_error error;
    hf__buf_init(&buf, 100000);
    CHECK(parse_condition(repeat(&buf, "x", 5000, ""), &error) == HF_ERR_VALIDATION);
    CHECK(parse_condition(repeat(&buf, "(", 300, "n = :a"), &error) == HF_ERR_VALIDATION);
    CHECK(parse_condition(repeat(&buf, "NOT ", 300, "n = :a"), &error) == HF_ERR_VALIDATION);
    CHECK_INT(parse_condition(repeat(&buf, "n=:a OR ", 140, "n=:a"), &error), 0);
    CHECK(parse_condition(repeat(&buf, "n=:a OR ", 200, "n=:a"), &error) == HF_ERR_VALIDATION);
    CHECK(parse_condition(repeat(&buf, "a.", 40, "b = :a"), &error) == HF_ERR_VALIDATION);
    CHECK(parse_condition(repeat(&buf, "size(", 100, "n"), &error) == HF_ERR_VALIDATION);
    hf__buf_clear(&buf);
    hf__buf_str(&buf, "n IN (:a");
    for (int i = 0; i < 100; i++) hf__buf_str(&buf, ",:a");
    hf__buf_char(&buf, ')');
    CHECK(parse_condition(hf__buf_cstr(&buf), &error) == HF_ERR_VALIDATION);
    hf__buf_free(&buf);
}

TEST(what_is_no_update_is_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"SET n = :a + :a + :a", "Syntax error; token: \"+\", near: \":a + :a\""},
        {"SET n = if_not_exists(n, :a + :a)", "Syntax error; token: \"+\", near: \":a + :a\""},
        {"SET n = :a SET m = :a",
         "The \"SET\" section can only be used once in an update expression;"},
        {"SET n :a", "Syntax error; token: \":a\", near: \"n :a\""},
        {"ADD n m", "Syntax error; token: \"m\", near: \"n m\""},
        {"SET n = foo(:a)", "Invalid function name; function: foo"},
        {"SET owner = :a", "Attribute name is a reserved keyword; reserved keyword: owner"},
        {"REMOVE", "Syntax error; token: \"<EOF>\", near: \"REMOVE\""},
        {"bogus", "Syntax error; token: \"bogus\", near: \"bogus\""},
        {"SET n = ((:a))", "The expression has redundant parentheses;"},
        {"SET n = ((:a + :a))", "The expression has redundant parentheses;"},
        {"SET n = (:a) + ((:a))", "The expression has redundant parentheses;"},
        {"SET n = (:a + :a) + :a", "Syntax error; token: \"+\", near: \") + :a\""},
        {"SET n = (:a", "Syntax error; token: \"<EOF>\", near: \":a\""},
        {"SET set = :a", "Syntax error; token: \"set\", near: \"SET set =\""},
        {" bogus ", "Syntax error; token: \"bogus\", near: \" bogus \""},
        {" ", "Syntax error; token: \"<EOF>\", near: \" \""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_update update;
        char expected[512];
        struct hf_bindings bindings = {.values = hf_test_item(&arena, "{\":a\":{\"N\":\"5\"}}")};
        bool used;
        bindings.value_used = &used;
        hf_test_note("%s", cases[i].text);
        CHECK_INT(
            hf__expr_parse_update(&arena, hf__slice_str(cases[i].text), &bindings, &update, &error),
            HF_ERR_VALIDATION);
        snprintf(expected, sizeof expected, "Invalid UpdateExpression: %s", cases[i].message);
        CHECK_STR(error.message, expected);
        hf__arena_free(&arena);
    }
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(conditions_print_and_parse_back),
        RUN(updates_print_and_parse_back),
        RUN(projections_print_and_parse_back),
        RUN(spelling_is_free_where_dynamodb_leaves_it_free),
        RUN(what_is_no_condition_is_refused_in_dynamodbs_words),
        RUN(size_nesting_and_operators_are_bounded),
        RUN(what_is_no_update_is_refused),
    };
    return RUN_TESTS(tests);
}
