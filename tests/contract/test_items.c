/* The contract of store.h: items, conditions, updates. */
#include <stdlib.h>

#include "contract/fixture.h"
#include "harness/cases.h"
#include "wire/request.h"

/* ---- one item ---- */

TEST(what_was_put_is_there)
{
    static const char item[] =
        "{\"b\":{\"B\":\"AP8=\"},\"bs\":{\"BS\":[\"AQ==\",\"Ag==\"]},\"key\":{\"S\":\"k\"},"
        "\"l\":{\"L\":[{\"S\":\"\"},{\"M\":{\"x\":{\"NULL\":true}}}]},\"n\":{\"N\":\"-1.5\"},"
        "\"ns\":{\"NS\":[\"1\",\"2\"]},\"s\":{\"S\":\"\xc3\xa9\\n\\\"\"},\"ss\":{\"SS\":[\"a\"]},\"t\":{\"BOOL\":false}}";
    with_table(&by_key);
    CHECK_STR(stored(KEY("k")), "");
    put(item);
    CHECK_STR(stored(KEY("k")), item);
    put(KEY("k"));
    CHECK_STR(stored(KEY("k")), KEY("k"));
    finish();
}

/* DynamoDB Local gives numbers back as they were spelled; the service, and we, canonically. */
TEST(numbers_are_numbers_however_spelled)
{
    static const struct {
        const char *spelled, *canonical;
    } cases[] = {
        {"1.00", "1"},
        {"0012", "12"},
        {"1e2", "100"},
        {"-0", "0"},
        {"1E-3", "0.001"},
        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"}};
    with_table(&by_key);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char item[128], expected[128];
        snprintf(item, sizeof item, "{\"key\":{\"S\":\"k\"},\"n\":{\"N\":\"%s\"}}",
                 cases[i].spelled);
        snprintf(expected, sizeof expected, "{\"key\":{\"S\":\"k\"},\"n\":{\"N\":\"%s\"}}",
                 cases[i].canonical);
        put(item);
        CHECK_STR(stored(KEY("k")), expected);
    }
    finish();
}

TEST(deleting_is_idempotent_and_returns_the_old)
{
    with_table(&by_key);
    put(with_key("{\"a\":{\"S\":\"1\"}}"));
    struct hf_op op = delete_op(KEY("k"));
    op.returns = HF_RETURN_ALL_OLD;
    struct hf_answer answer = good(op);
    CHECK(answer.has_item);
    hf_test_check_attribute(answer.item, "a", "{\"S\":\"1\"}");
    CHECK_STR(stored(KEY("k")), "");
    CHECK(!good(op).has_item);
    finish();
}

TEST(put_returns_the_old_when_asked)
{
    with_table(&by_key);
    struct hf_op op = put_op(with_key("{\"a\":{\"S\":\"1\"}}"));
    op.returns = HF_RETURN_ALL_OLD;
    CHECK(!good(op).has_item);
    struct hf_op again = put_op(KEY("k"));
    again.returns = HF_RETURN_ALL_OLD;
    struct hf_answer answer = good(again);
    CHECK(answer.has_item);
    hf_test_check_attribute(answer.item, "a", "{\"S\":\"1\"}");
    CHECK(!good(put_op(KEY("k"))).has_item);
    finish();
}

TEST(update_returns_what_was_asked_for)
{
    static const struct {
        enum hf_returns returns;
        const char *first, *second;
    } cases[] = {
        {HF_RETURN_NONE, "", ""},
        {HF_RETURN_ALL_OLD, "", "{\"a\":{\"N\":\"1\"},\"c\":{\"S\":\"x\"},\"key\":{\"S\":\"k\"}}"},
        {HF_RETURN_ALL_NEW, "{\"a\":{\"N\":\"1\"},\"c\":{\"S\":\"x\"},\"key\":{\"S\":\"k\"}}",
         "{\"a\":{\"N\":\"2\"},\"key\":{\"S\":\"k\"}}"},
        {HF_RETURN_UPDATED_OLD, "", "{\"a\":{\"N\":\"1\"},\"c\":{\"S\":\"x\"}}"},
        {HF_RETURN_UPDATED_NEW, "{\"a\":{\"N\":\"1\"},\"c\":{\"S\":\"x\"}}",
         "{\"a\":{\"N\":\"2\"}}"},
    };
    with_table(&by_key);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        hf_test_note("returns %s", hf__returns_names[cases[i].returns]);
        good(delete_op(KEY("k")));
        struct hf_op first = update_op(KEY("k"), "ADD a :v SET c = :c",
                                       "{\":v\":{\"N\":\"1\"},\":c\":{\"S\":\"x\"}}");
        struct hf_op second = update_op(KEY("k"), "ADD a :v REMOVE c", "{\":v\":{\"N\":\"1\"}}");
        first.returns = second.returns = cases[i].returns;
        struct hf_answer answer = good(first);
        CHECK_STR(answer.has_item ? hf_test_show(&arena, answer.item) : "", cases[i].first);
        answer = good(second);
        CHECK_STR(answer.has_item ? hf_test_show(&arena, answer.item) : "", cases[i].second);
    }
    finish();
}

TEST(updated_attributes_are_shown_whole)
{
    static const struct {
        enum hf_returns returns;
        const char *shown;
    } cases[] = {
        {HF_RETURN_UPDATED_NEW,
         "{\"l\":{\"L\":[{\"S\":\"b\"},{\"M\":{\"q\":{\"N\":\"7\"}}}]},\"m\":{\"M\":{\"x\":{\"N\":\"7\"},\"y\":{\"N\":\"2\"}}}}"},
        {HF_RETURN_UPDATED_OLD,
         "{\"l\":{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"M\":{\"q\":{\"N\":\"1\"}}}]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"2\"}}}}"},
    };
    with_table(&by_key);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        put(with_key(
            "{\"l\":{\"L\":[{\"S\":\"a\"},{\"S\":\"b\"},{\"M\":{\"q\":{\"N\":\"1\"}}}]},\"m\":{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"2\"}}}}"));
        struct hf_op op =
            update_op(KEY("k"), "SET m.x = :v, l[2].q = :v REMOVE l[0]", "{\":v\":{\"N\":\"7\"}}");
        op.returns = cases[i].returns;
        struct hf_answer answer = good(op);
        CHECK(answer.has_item);
        CHECK_STR(hf_test_show(&arena, answer.item), cases[i].shown);
    }
    finish();
}

TEST(updating_creates_what_is_missing)
{
    with_table(&by_key);
    good(update_op(KEY("k"), "SET a = :v", "{\":v\":{\"S\":\"1\"}}"));
    CHECK_STR(stored(KEY("k")), "{\"a\":{\"S\":\"1\"},\"key\":{\"S\":\"k\"}}");
    good(update_op(KEY("j"), "REMOVE a", NULL));
    CHECK_STR(stored(KEY("j")), KEY("j"));
    struct hf_op bare = new_op(HF_UPDATE_ITEM);
    bare.key = hf_test_item(&arena, KEY("i"));
    good(bare);
    CHECK_STR(stored(KEY("i")), KEY("i"));
    finish();
}

TEST(projections_cut_what_is_read)
{
    with_table(&by_key);
    put(with_key("{\"a\":{\"S\":\"1\"},\"m\":{\"M\":{\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"2\"}}},"
                 "\"l\":{\"L\":[{\"S\":\"p\"},{\"S\":\"q\"}]}}"));
    struct hf_op op = get_op(KEY("k"));
    op.projection = hf_test_projection(&arena, "m.y, l[1], zz");
    struct hf_answer answer = good(op);
    CHECK_STR(hf_test_show(&arena, answer.item),
              "{\"l\":{\"L\":[{\"S\":\"q\"}]},\"m\":{\"M\":{\"y\":{\"N\":\"2\"}}}}");
    op.projection = hf_test_projection(&arena, "zz");
    answer = good(op);
    CHECK_INT(answer.item.count, 0);
    finish();
}

/* ---- conditions and updates ---- */

TEST(conditions_hold_as_in_the_table)
{
    with_table(&by_key);
    struct hf_item item = hf_test_item(&arena, hf_condition_item);
    struct hf_op op = new_op(HF_PUT_ITEM);
    op.item = item;
    good(op);
    for (size_t i = 0; i < hf_condition_case_count; i++) {
        const struct hf_condition_case *row = &hf_condition_cases[i];
        hf_test_note("%s with %s", row->text, row->values ? row->values : "nothing");
        op.condition = hf_test_condition(&arena, row->text, row->values);
        struct hf_answer answer = run(op);
        if (answer.code != 0 && answer.code != HF_ERR_CONDITION)
            hf_test_fail(__FILE__, __LINE__, "%s", answer.error.message);
        CHECK((answer.code == 0) == row->holds);
    }
    finish();
}

TEST(updates_do_as_in_the_table)
{
    with_table(&by_key);
    for (size_t i = 0; i < hf_update_case_count; i++) {
        const struct hf_update_case *row = &hf_update_cases[i];
        hf_test_note("%s", row->text);
        put(with_key(hf_update_item));
        struct hf_op op = update_op(KEY("k"), row->text, row->values);
        op.returns = HF_RETURN_ALL_NEW;
        struct hf_answer answer = good(op);
        hf_test_check_attribute(answer.item, row->shown, row->result);
        CHECK(hf__item_equal(good(get_op(KEY("k"))).item, answer.item));
    }
    finish();
}

TEST(updates_that_do_not_fit_change_nothing)
{
    with_table(&by_key);
    put(with_key(hf_update_item));
    const char *before = stored(KEY("k"));
    for (size_t i = 0; i < hf_bad_update_case_count; i++) {
        const struct hf_bad_update_case *row = &hf_bad_update_cases[i];
        hf_test_note("%s", row->text);
        refused(update_op(KEY("k"), row->text, row->values), HF_ERR_VALIDATION);
    }
    CHECK_STR(stored(KEY("k")), before);
    finish();
}

TEST(a_failed_condition_changes_nothing_and_shows_the_old)
{
    with_table(&by_key);
    const struct hf_condition *absent = hf_test_condition(&arena, "attribute_not_exists(a)", NULL);
    put(with_key("{\"a\":{\"S\":\"1\"}}"));
    struct hf_op ops[] = {
        put_op(with_key("{\"a\":{\"S\":\"2\"}}")),
        update_op(KEY("k"), "SET a = :v", "{\":v\":{\"S\":\"3\"}}"),
        delete_op(KEY("k")),
    };
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        hf_test_note("%s", hf__op_names[ops[i].kind]);
        ops[i].condition = absent;
        refused_saying(ops[i], HF_ERR_CONDITION, "The conditional request failed");
        CHECK(!run(ops[i]).has_item);
        ops[i].old_on_failure = true;
        struct hf_answer answer = run(ops[i]);
        CHECK_INT(answer.code, HF_ERR_CONDITION);
        CHECK(answer.has_item);
        hf_test_check_attribute(answer.item, "a", "{\"S\":\"1\"}");
        CHECK_STR(stored(KEY("k")), "{\"a\":{\"S\":\"1\"},\"key\":{\"S\":\"k\"}}");
    }
    finish();
}

TEST(a_condition_that_fails_on_nothing_shows_nothing)
{
    with_table(&by_key);
    struct hf_op op = put_op(KEY("k"));
    op.condition = hf_test_condition(&arena, "attribute_exists(a)", NULL);
    op.old_on_failure = true;
    struct hf_answer answer = run(op);
    CHECK_INT(answer.code, HF_ERR_CONDITION);
    CHECK(!answer.has_item);
    CHECK_STR(stored(KEY("k")), "");
    finish();
}

TEST(a_condition_guards_creation)
{
    with_table(&by_key);
    struct hf_op op = put_op(KEY("k"));
    op.condition = hf__cond_absent(&arena, "key");
    good(op);
    refused(op, HF_ERR_CONDITION);
    struct hf_op update = update_op(KEY("new"), "SET a = :v", "{\":v\":{\"N\":\"1\"}}");
    update.condition = hf_test_condition(&arena, "a = :v", "{\":v\":{\"N\":\"1\"}}");
    refused(update, HF_ERR_CONDITION);
    CHECK_STR(stored(KEY("new")), "");
    finish();
}

static const char *request_text(const struct hf_op *op)
{
    struct hf_buf text;
    struct hf_error error;
    hf__buf_init(&text, HF_REQUEST_MAX_SIZE);
    hf__request_write(&arena, op, &text, &error);
    const char *copy = hf__arena_str(&arena, hf__buf_view(&text));
    hf__buf_free(&text);
    return copy;
}

/* Whatever condition and update are generated, the store does what the item layer says. */
TEST(generated_writes_do_what_the_model_says)
{
    const char *wanted = getenv("HOLDFAST_TEST_SEED");
    struct hf_rng rng = {wanted ? strtoull(wanted, NULL, 10) : 31};
    with_table(&by_key);
    int applied = 0;
    for (int i = 0; i < 400; i++) {
        struct hf_value key = hf__s_str("k");
        struct hf_item item =
            hf__item_with(&arena, hf_test_gen_item(&rng, &arena), HF_LIT("key"), &key);
        struct hf_item expected = item;
        struct hf_error error = {0};
        struct hf_op write = new_op(HF_PUT_ITEM), update = new_op(HF_UPDATE_ITEM);
        write.item = item;
        update.key = hf_test_item(&arena, KEY("k"));
        if (i % 2) update.condition = hf_test_gen_condition(&rng, &arena, 2);
        /* Most generated updates do not fit their item; look for one that does. */
        for (int tries = 0; tries < (i % 4 ? 50 : 1); tries++) {
            update.update = hf_test_gen_update(&rng, &arena);
            if (hf__update_apply(&arena, update.update, item, &expected, &error) == 0) break;
        }
        expected = item;
        bool holds = !update.condition || hf__condition_holds(update.condition, item);
        int code = holds ? hf__update_apply(&arena, update.update, item, &expected, &error)
                         : HF_ERR_CONDITION;
        good(write);
        struct hf_answer answer = run(update);
        struct hf_item now = good(get_op(KEY("k"))).item;
        if (answer.code != code || !hf__item_equal(now, code == 0 ? expected : item))
            hf_test_fail(
                __FILE__, __LINE__,
                "step %d: %s (%s), model says %s (%s)\nbefore   %s\nafter    %s\nexpected %s\nrequest  %s",
                i, hf_error_name(answer.code), answer.error.message, hf_error_name(code),
                error.message, hf_test_show(&arena, item), hf_test_show(&arena, now),
                hf_test_show(&arena, expected), request_text(&update));
        applied += code == 0;
    }
    CHECK(applied > 100);
    finish();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(what_was_put_is_there),
        RUN(numbers_are_numbers_however_spelled),
        RUN(deleting_is_idempotent_and_returns_the_old),
        RUN(put_returns_the_old_when_asked),
        RUN(update_returns_what_was_asked_for),
        RUN(updated_attributes_are_shown_whole),
        RUN(updating_creates_what_is_missing),
        RUN(projections_cut_what_is_read),
        RUN(conditions_hold_as_in_the_table),
        RUN(updates_do_as_in_the_table),
        RUN(updates_that_do_not_fit_change_nothing),
        RUN(a_failed_condition_changes_nothing_and_shows_the_old),
        RUN(a_condition_that_fails_on_nothing_shows_nothing),
        RUN(a_condition_guards_creation),
        RUN(generated_writes_do_what_the_model_says),
    };
    return RUN_CONTRACT(tests);
}
