/*
 * The contract of store.h. It runs unchanged on memory:, on file: and on
 * DynamoDB Local: HOLDFAST_TEST_STORE names the store. Every test makes a table
 * of its own and deletes it.
 *
 * Where DynamoDB Local differs from the documented service, the documented
 * behaviour is what is asserted, and a comment says so.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "harness/cases.h"
#include "store/store.h"
#include "wire/request.h"

#define KEY(text) "{\"key\":{\"S\":\"" text "\"}}"
#define PAIR(pk, sk) "{\"pk\":{\"S\":\"" pk "\"},\"sk\":{\"N\":\"" sk "\"}}"

static const struct hf_key_schema by_key = {.hash_name = {"key", 3}, .hash_type = HF_S};
static const struct hf_key_schema by_pair = {
    .hash_name = {"pk", 2}, .hash_type = HF_S, .range_name = {"sk", 2}, .range_type = HF_N};

/* ---- a store with one table ---- */

static struct hf_store *store;
static struct hf_arena arena; /* everything of one test */
static char table[64];

static struct hf_op new_op(enum hf_op_kind kind)
{
    return (struct hf_op){.kind = kind, .table = hf__slice_str(table)};
}

/* Runs an operation; the answer lives until the test ends. */
static struct hf_answer run(struct hf_op op)
{
    struct hf_call call = {.op = op, .arena = &arena};
    hf__store_run(store, &call);
    return call.answer;
}

static struct hf_answer good(struct hf_op op)
{
    struct hf_answer answer = run(op);
    if (answer.code != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", hf__op_names[op.kind], answer.error.message);
    return answer;
}

static void refused(struct hf_op op, int code)
{
    struct hf_answer answer = run(op);
    if (answer.code != code)
        hf_test_fail(__FILE__, __LINE__, "%s gave %s (%s), not %s", hf__op_names[op.kind],
                     hf_error_name(answer.code), answer.error.message, hf_error_name(code));
    CHECK(answer.error.message[0] != '\0');
}

/* In the service's own words; DynamoDB Local has others for some. */
static void refused_saying(struct hf_op op, int code, const char *message)
{
    refused(op, code);
    if (strncmp(getenv("HOLDFAST_TEST_STORE"), "dynamodb:", 9) == 0) return;
    CHECK_STR(run(op).error.message, message);
}

static void open_store(void)
{
    struct hf_error error;
    struct hf_store_options options = {.request_timeout_ms = 20000};
    if (hf__store_open(getenv("HOLDFAST_TEST_STORE"), &options, &store, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

static void with_table(const struct hf_key_schema *schema)
{
    char id[HF_ID_SIZE];
    hf__random_id(id);
    snprintf(table, sizeof table, "contract-%s", id);
    open_store();
    struct hf_op op = new_op(HF_CREATE_TABLE);
    op.schema = *schema;
    good(op);
}

static void finish(void)
{
    good(new_op(HF_DELETE_TABLE));
    hf__store_close(store);
    hf__arena_free(&arena);
}

static struct hf_op put_op(const char *item)
{
    struct hf_op op = new_op(HF_PUT_ITEM);
    op.item = hf_test_item(&arena, item);
    return op;
}

static void put(const char *item)
{
    good(put_op(item));
}

static struct hf_op get_op(const char *key)
{
    struct hf_op op = new_op(HF_GET_ITEM);
    op.key = hf_test_item(&arena, key);
    op.consistent = true;
    return op;
}

static struct hf_op delete_op(const char *key)
{
    struct hf_op op = new_op(HF_DELETE_ITEM);
    op.key = hf_test_item(&arena, key);
    return op;
}

static struct hf_op update_op(const char *key, const char *text, const char *values)
{
    struct hf_op op = new_op(HF_UPDATE_ITEM);
    op.key = hf_test_item(&arena, key);
    op.update = hf_test_update(&arena, text, values);
    return op;
}

/* An item's JSON, "" when it does not exist. */
static const char *stored(const char *key)
{
    struct hf_answer answer = good(get_op(key));
    return answer.has_item ? hf_test_show(&arena, answer.item) : "";
}

/* An item with more attributes than its key. */
static const char *with_key(const char *attributes)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"key\":{\"S\":\"k\"},%s", attributes + 1);
    return hf__arena_str(&arena, hf__slice_str(text));
}

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

/* ---- pages ---- */

static void fill_pairs(void)
{
    static const char *const items[] = {PAIR("a", "-2"),  PAIR("a", "-1"), PAIR("a", "0"),
                                        PAIR("a", "0.5"), PAIR("a", "1"),  PAIR("a", "10"),
                                        PAIR("a", "2"),   PAIR("b", "1")};
    for (size_t i = 0; i < COUNT_OF(items); i++) put(items[i]);
}

static struct hf_op query_op(const char *text, const char *values)
{
    struct hf_key_condition *where = hf__arena_zalloc(&arena, 1, sizeof *where);
    struct hf_error error;
    struct hf_op op = new_op(HF_QUERY);
    if (hf__key_condition_from_tree(hf_test_condition(&arena, text, values), where, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    op.where = where;
    op.consistent = true;
    return op;
}

/* The sort keys of a page, as "1 2 3". */
static const char *sort_keys(const struct hf_answer *answer)
{
    struct hf_buf text;
    char number[HF_NUMBER_TEXT_SIZE];
    hf__buf_init(&text, 10000);
    for (size_t i = 0; i < answer->count; i++) {
        hf__number_print(hf__item_get_str(answer->items[i], "sk")->number, number);
        hf__buf_printf(&text, "%s%s", i ? " " : "", number);
    }
    const char *copy = hf__arena_str(&arena, hf__buf_view(&text));
    hf__buf_free(&text);
    return copy;
}

TEST(queries_find_ranges_in_order)
{
#define AB(b) "{\":a\":{\"S\":\"a\"},\":b\":{\"N\":\"" b "\"}}"
    static const struct {
        const char *text, *values, *up;
    } cases[] = {
        {"pk = :a", "{\":a\":{\"S\":\"a\"}}", "-2 -1 0 0.5 1 2 10"},
        {"pk = :a", "{\":a\":{\"S\":\"zz\"}}", ""},
        {"pk = :a AND sk = :b", AB("1.0"), "1"},
        {"pk = :a AND sk < :b", AB("0"), "-2 -1"},
        {"pk = :a AND sk <= :b", AB("0"), "-2 -1 0"},
        {"pk = :a AND sk > :b", AB("1"), "2 10"},
        {"pk = :a AND sk >= :b", AB("1"), "1 2 10"},
        {"sk >= :b AND pk = :a", AB("1"), "1 2 10"},
        {"pk = :a AND sk BETWEEN :b AND :c",
         "{\":a\":{\"S\":\"a\"},\":b\":{\"N\":\"-1\"},\":c\":{\"N\":\"1\"}}", "-1 0 0.5 1"},
    };
#undef AB
    with_table(&by_pair);
    fill_pairs();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        hf_test_note("%s with %s", cases[i].text, cases[i].values);
        struct hf_op op = query_op(cases[i].text, cases[i].values);
        struct hf_answer up = good(op);
        CHECK_STR(sort_keys(&up), cases[i].up);
        CHECK_INT(up.last_key.count, 0);
        op.backward = true;
        struct hf_answer down = good(op);
        CHECK_INT(down.count, up.count);
        for (size_t j = 0; j < up.count; j++)
            CHECK(hf__item_equal(up.items[j], down.items[up.count - 1 - j]));
    }
    finish();
}

TEST(string_ranges_are_bytewise_and_know_prefixes)
{
    static const struct hf_key_schema texts = {
        .hash_name = {"pk", 2}, .hash_type = HF_N, .range_name = {"sk", 2}, .range_type = HF_S};
    static const char *const keys[] = {"a", "ab", "abc", "b", "\xc3\xa9", "A"};
    with_table(&texts);
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char item[128];
        snprintf(item, sizeof item, "{\"pk\":{\"N\":\"1\"},\"sk\":{\"S\":\"%s\"}}", keys[i]);
        put(item);
    }
    struct hf_answer all = good(query_op("pk = :a", "{\":a\":{\"N\":\"1.0\"}}"));
    static const char *const order[] = {"A", "a", "ab", "abc", "b", "\xc3\xa9"};
    CHECK_INT(all.count, COUNT_OF(order));
    for (size_t i = 0; i < all.count; i++)
        CHECK_SLICE(hf__item_get_str(all.items[i], "sk")->bytes, hf__slice_str(order[i]));
    struct hf_answer some = good(query_op("pk = :a AND begins_with(sk, :p)",
                                          "{\":a\":{\"N\":\"1\"},\":p\":{\"S\":\"ab\"}}"));
    CHECK_INT(some.count, 2);
    finish();
}

TEST(binary_keys_sort_unsigned)
{
    static const struct hf_key_schema bytes = {
        .hash_name = {"pk", 2}, .hash_type = HF_B, .range_name = {"sk", 2}, .range_type = HF_B};
    with_table(&bytes);
    put("{\"pk\":{\"B\":\"AA==\"},\"sk\":{\"B\":\"/w==\"}}");
    put("{\"pk\":{\"B\":\"AA==\"},\"sk\":{\"B\":\"//8=\"}}");
    put("{\"pk\":{\"B\":\"AA==\"},\"sk\":{\"B\":\"AQ==\"}}");
    struct hf_answer all = good(query_op("pk = :a", "{\":a\":{\"B\":\"AA==\"}}"));
    CHECK_INT(all.count, 3);
    CHECK_SLICE(hf__item_get_str(all.items[0], "sk")->bytes, HF_LIT("\x01"));
    CHECK_SLICE(hf__item_get_str(all.items[2], "sk")->bytes, HF_LIT("\xff\xff"));
    struct hf_answer prefixed = good(query_op("pk = :a AND begins_with(sk, :p)",
                                              "{\":a\":{\"B\":\"AA==\"},\":p\":{\"B\":\"/w==\"}}"));
    CHECK_INT(prefixed.count, 2);
    finish();
}

TEST(pages_of_a_query_join_without_gap_or_overlap)
{
    with_table(&by_pair);
    fill_pairs();
    for (int limit = 1; limit <= 8; limit++)
        for (int backward = 0; backward < 2; backward++) {
            struct hf_op op = query_op("pk = :a", "{\":a\":{\"S\":\"a\"}}");
            size_t seen = 0;
            int pages = 0;
            op.has_limit = true;
            op.limit = limit;
            op.backward = backward;
            do {
                struct hf_answer page = good(op);
                seen += page.count;
                CHECK(page.count <= (size_t)limit);
                op.start_key = page.last_key;
                CHECK(++pages < 20);
            } while (op.start_key.count > 0);
            CHECK_INT(seen, 7);
        }
    finish();
}

TEST(filters_apply_after_the_limit)
{
    with_table(&by_pair);
    for (int i = 0; i < 6; i++) {
        char item[128];
        snprintf(item, sizeof item,
                 "{\"pk\":{\"S\":\"a\"},\"sk\":{\"N\":\"%d\"},\"odd\":{\"BOOL\":%s}}", i,
                 i % 2 ? "true" : "false");
        put(item);
    }
    struct hf_op op = query_op("pk = :a", "{\":a\":{\"S\":\"a\"}}");
    op.filter = hf_test_condition(&arena, "odd = :t", "{\":t\":{\"BOOL\":true}}");
    op.has_limit = true;
    op.limit = 3;
    struct hf_answer page = good(op);
    CHECK_INT(page.count, 1);
    CHECK_INT(page.scanned, 3);
    CHECK_STR(sort_keys(&page), "1");
    CHECK(page.last_key.count == 2);
    op.filter = hf_test_condition(&arena, "sk = :n", "{\":n\":{\"N\":\"1\"}}");
    refused(op, HF_ERR_VALIDATION);
    finish();
}

TEST(a_scan_sees_everything_once)
{
    enum { COUNT = 57 };
    bool seen[COUNT] = {false};
    with_table(&by_key);
    for (int i = 0; i < COUNT; i++) {
        char item[64];
        snprintf(item, sizeof item, "{\"key\":{\"S\":\"k%d\"},\"i\":{\"N\":\"%d\"}}", i, i);
        put(item);
    }
    struct hf_op op = new_op(HF_SCAN);
    op.consistent = true;
    op.has_limit = true;
    op.limit = 10;
    int total = 0, pages = 0;
    do {
        struct hf_answer page = good(op);
        for (size_t j = 0; j < page.count; j++) {
            int64_t i = -1;
            CHECK(hf__number_to_int64(hf__item_get_str(page.items[j], "i")->number, &i));
            CHECK(i >= 0 && i < COUNT && !seen[i]);
            seen[i] = true;
            total++;
        }
        op.start_key = page.last_key;
        CHECK(++pages < 20);
    } while (op.start_key.count > 0);
    CHECK_INT(total, COUNT);
    op = new_op(HF_SCAN);
    op.filter = hf_test_condition(&arena, "i < :n", "{\":n\":{\"N\":\"5\"}}");
    op.projection = hf_test_projection(&arena, "i");
    struct hf_answer filtered = good(op);
    CHECK_INT(filtered.count, 5);
    CHECK_INT(filtered.scanned, COUNT);
    CHECK_INT(filtered.items[0].count, 1);
    finish();
}

TEST(a_page_ends_at_a_megabyte)
{
    enum { COUNT = 8, SIZE = 300 * 1024 };
    with_table(&by_pair);
    char *large = hf__arena_alloc(&arena, SIZE);
    memset(large, 'x', SIZE);
    for (int i = 0; i < COUNT; i++) {
        struct hf_op op = new_op(HF_PUT_ITEM);
        struct hf_attr *attrs = hf__arena_zalloc(&arena, 3, sizeof *attrs);
        attrs[0] = (struct hf_attr){HF_LIT("pk"), hf__s_str("a")};
        attrs[1] = (struct hf_attr){HF_LIT("sk"), hf__n(&arena, i)};
        attrs[2] = (struct hf_attr){HF_LIT("large"), hf__s(hf__slice(large, SIZE))};
        op.item = (struct hf_item){attrs, 3};
        good(op);
    }
    struct hf_op op = query_op("pk = :a", "{\":a\":{\"S\":\"a\"}}");
    struct hf_answer page = good(op);
    CHECK(page.count >= 3 && page.count <= 4);
    CHECK(page.last_key.count == 2);
    size_t seen = page.count;
    while (page.last_key.count > 0 && seen < 100) {
        op.start_key = page.last_key;
        page = good(op);
        seen += page.count;
    }
    CHECK_INT(seen, COUNT);
    finish();
}

/* ---- what is refused ---- */

TEST(keys_must_fit_the_table)
{
    static const char misfit[] = "The provided key element does not match the schema";
    static char longest[HF_HASH_KEY_MAX_SIZE + 1];
    with_table(&by_key);
    refused_saying(get_op("{\"key\":{\"N\":\"1\"}}"), HF_ERR_VALIDATION, misfit);
    refused_saying(get_op("{\"kex\":{\"S\":\"1\"}}"), HF_ERR_VALIDATION, misfit);
    refused_saying(get_op("{\"key\":{\"S\":\"1\"},\"x\":{\"S\":\"1\"}}"), HF_ERR_VALIDATION,
                   misfit);
    refused_saying(delete_op("{\"key\":{\"N\":\"1\"}}"), HF_ERR_VALIDATION, misfit);
    refused_saying(update_op("{\"kex\":{\"S\":\"1\"}}", "REMOVE a", NULL), HF_ERR_VALIDATION,
                   misfit);
    refused(get_op(KEY("")), HF_ERR_VALIDATION);
    refused(put_op(KEY("")), HF_ERR_VALIDATION);
    refused(put_op("{\"a\":{\"S\":\"1\"}}"), HF_ERR_VALIDATION);
    refused(put_op("{\"key\":{\"N\":\"1\"}}"), HF_ERR_VALIDATION);
    memset(longest, 'k', sizeof longest);
    struct hf_attr attr = {HF_LIT("key"), hf__s(hf__slice(longest, HF_HASH_KEY_MAX_SIZE))};
    struct hf_op op = new_op(HF_PUT_ITEM);
    op.item = (struct hf_item){&attr, 1};
    good(op);
    attr.value.bytes.len++;
    refused(op, HF_ERR_VALIDATION);
    finish();
}

TEST(malformed_items_are_refused)
{
    static const char *const bad[] = {
        "{\"key\":{\"S\":\"k\"},\"a\":{\"SS\":[]}}",
        "{\"key\":{\"S\":\"k\"},\"a\":{\"SS\":[\"x\",\"x\"]}}",
        "{\"key\":{\"S\":\"k\"},\"a\":{\"NS\":[\"1\",\"1.0\"]}}",
    };
    with_table(&by_key);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        hf_test_note("%s", bad[i]);
        refused(put_op(bad[i]), HF_ERR_VALIDATION);
    }
    struct hf_value deep = hf__s_str("x");
    for (int i = 0; i < 40; i++) {
        struct hf_value *inner = hf__arena_alloc(&arena, sizeof *inner);
        *inner = deep;
        deep = hf__list(HF_L, inner, 1);
    }
    struct hf_op op = put_op(KEY("k"));
    op.item = hf__item_with(&arena, op.item, HF_LIT("deep"), &deep);
    refused(op, HF_ERR_VALIDATION);
    CHECK_STR(stored(KEY("k")), "");
    finish();
}

TEST(items_have_a_largest_size)
{
    enum { SIZE = HF_ITEM_MAX_SIZE };
    with_table(&by_key);
    char *large = hf__arena_alloc(&arena, SIZE);
    memset(large, 'x', SIZE);
    struct hf_value value = hf__s(hf__slice(large, SIZE - 5)); /* the names and "k" take 5 */
    struct hf_op op = put_op(KEY("k"));
    op.item = hf__item_with(&arena, op.item, HF_LIT("a"), &value);
    good(op);
    value.bytes.len = SIZE;
    op = put_op(KEY("k"));
    op.item = hf__item_with(&arena, op.item, HF_LIT("a"), &value);
    refused_saying(op, HF_ERR_VALIDATION, "Item size has exceeded the maximum allowed size");
    refused_saying(update_op(KEY("k"), "SET b = :v", "{\":v\":{\"S\":\"0123456789\"}}"),
                   HF_ERR_VALIDATION, "Item size to update has exceeded the maximum allowed size");
    finish();
}

TEST(the_key_cannot_be_updated)
{
    with_table(&by_pair);
    put(PAIR("a", "1"));
    refused_saying(
        update_op(PAIR("a", "1"), "SET pk = :v", "{\":v\":{\"S\":\"b\"}}"), HF_ERR_VALIDATION,
        "One or more parameter values were invalid: Cannot update attribute pk. This attribute is "
        "part of the key");
    refused(update_op(PAIR("a", "1"), "REMOVE sk", NULL), HF_ERR_VALIDATION);
    finish();
}

TEST(expressions_that_make_no_sense_are_refused)
{
    static const struct {
        const char *text, *values;
    } conditions[] = {
        {"a = a", NULL},
        {"a < :v", "{\":v\":{\"BOOL\":true}}"},
        {"a BETWEEN :v AND :w", "{\":v\":{\"N\":\"2\"},\":w\":{\"N\":\"1\"}}"},
        {"attribute_type(a, :v)", "{\":v\":{\"S\":\"X\"}}"},
        {"begins_with(a, :v)", "{\":v\":{\"N\":\"1\"}}"},
        {"size(:v) = :v", "{\":v\":{\"N\":\"1\"}}"},
    };
    static const struct {
        const char *text, *values;
    } updates[] = {
        {"SET a.b = :v, a = :v", "{\":v\":{\"N\":\"2\"}}"},
        {"ADD a :v", "{\":v\":{\"S\":\"2\"}}"},
        {"DELETE a :v", "{\":v\":{\"N\":\"2\"}}"},
        {"SET a = :v + :v", "{\":v\":{\"S\":\"2\"}}"},
        {"SET a = list_append(a, :v)", "{\":v\":{\"S\":\"2\"}}"},
    };
    with_table(&by_key);
    for (size_t i = 0; i < COUNT_OF(conditions); i++) {
        hf_test_note("%s", conditions[i].text);
        struct hf_op op = put_op(KEY("k"));
        op.condition = hf_test_condition(&arena, conditions[i].text, conditions[i].values);
        refused(op, HF_ERR_VALIDATION);
    }
    for (size_t i = 0; i < COUNT_OF(updates); i++) {
        hf_test_note("%s", updates[i].text);
        refused(update_op(KEY("k"), updates[i].text, updates[i].values), HF_ERR_VALIDATION);
    }
    struct hf_op op = get_op(KEY("k"));
    op.projection = hf_test_projection(&arena, "a, a.b");
    refused(op, HF_ERR_VALIDATION);
    finish();
}

TEST(queries_that_make_no_sense_are_refused)
{
    with_table(&by_pair);
    refused(query_op("pk > :a", "{\":a\":{\"S\":\"a\"}}"), HF_ERR_VALIDATION);
    refused(query_op("sk = :a", "{\":a\":{\"N\":\"1\"}}"), HF_ERR_VALIDATION);
    refused(query_op("pk = :a", "{\":a\":{\"N\":\"1\"}}"), HF_ERR_VALIDATION);
    refused(query_op("pk = :a AND v = :a", "{\":a\":{\"S\":\"1\"}}"), HF_ERR_VALIDATION);
    refused(
        query_op("pk = :a AND begins_with(sk, :b)", "{\":a\":{\"S\":\"a\"},\":b\":{\"S\":\"1\"}}"),
        HF_ERR_VALIDATION);
    struct hf_op op = query_op("pk = :a", "{\":a\":{\"S\":\"a\"}}");
    op.has_limit = true;
    op.limit = 0;
    refused(op, HF_ERR_VALIDATION);
    op.limit = 1;
    op.start_key = hf_test_item(&arena, PAIR("b", "1"));
    refused(op, HF_ERR_VALIDATION);
    op.start_key = hf_test_item(&arena, "{\"pk\":{\"S\":\"a\"}}");
    refused(op, HF_ERR_VALIDATION);
    finish();
}

TEST(only_updates_return_the_new)
{
    with_table(&by_key);
    struct hf_op op = put_op(KEY("k"));
    op.returns = HF_RETURN_ALL_NEW;
    refused(op, HF_ERR_VALIDATION);
    op = delete_op(KEY("k"));
    op.returns = HF_RETURN_UPDATED_NEW;
    refused(op, HF_ERR_VALIDATION);
    finish();
}

/* ---- tables ---- */

TEST(tables_come_and_go)
{
    with_table(&by_pair);
    put(PAIR("a", "1"));
    struct hf_answer info = good(new_op(HF_DESCRIBE_TABLE));
    CHECK_SLICE(info.table.name, hf__slice_str(table));
    CHECK_SLICE(info.table.status, HF_LIT("ACTIVE"));
    CHECK_SLICE(info.table.schema.hash_name, HF_LIT("pk"));
    CHECK_INT(info.table.schema.hash_type, HF_S);
    CHECK_SLICE(info.table.schema.range_name, HF_LIT("sk"));
    CHECK_INT(info.table.schema.range_type, HF_N);
    CHECK(info.table.on_demand);
    CHECK(info.table.created_unix_ms > 1600000000000);
    struct hf_op again = new_op(HF_CREATE_TABLE);
    again.schema = by_key;
    refused(again, HF_ERR_TABLE_IN_USE);
    good(new_op(HF_DELETE_TABLE));
    refused(new_op(HF_DESCRIBE_TABLE), HF_ERR_NO_TABLE);
    refused(new_op(HF_DELETE_TABLE), HF_ERR_NO_TABLE);
    good(again);
    CHECK_STR(stored(KEY("a")), "");
    finish();
}

TEST(operations_on_no_table_say_so)
{
    with_table(&by_key);
    struct hf_op ops[] = {get_op(KEY("k")), put_op(KEY("k")), delete_op(KEY("k")),
                          update_op(KEY("k"), "REMOVE a", NULL), new_op(HF_SCAN)};
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        hf_test_note("%s", hf__op_names[ops[i].kind]);
        ops[i].table = HF_LIT("no-such-table");
        refused_saying(ops[i], HF_ERR_NO_TABLE, "Requested resource not found");
    }
    ops[0].table = HF_LIT("a");
    refused(ops[0], HF_ERR_VALIDATION);
    finish();
}

TEST(tables_are_listed_in_pages)
{
    with_table(&by_key);
    struct hf_op op = new_op(HF_LIST_TABLES);
    bool found = false;
    int pages = 0;
    op.has_limit = true;
    op.limit = 1;
    do {
        struct hf_answer page = good(op);
        CHECK(page.table_count <= 1);
        for (size_t i = 0; i < page.table_count; i++) found |= hf__slice_is(page.tables[i], table);
        op.start_table = page.last_table;
        CHECK(++pages < 1000);
    } while (op.start_table.len > 0);
    CHECK(found);
    finish();
}

TEST(time_to_live_is_switched_on_and_off)
{
    with_table(&by_key);
    struct hf_answer off = good(new_op(HF_DESCRIBE_TTL));
    CHECK_SLICE(off.ttl_status, HF_LIT("DISABLED"));
    struct hf_op op = new_op(HF_UPDATE_TTL);
    op.ttl_enabled = true;
    op.ttl_attribute = HF_LIT("ttl");
    good(op);
    struct hf_answer on = good(new_op(HF_DESCRIBE_TTL));
    CHECK_SLICE(on.ttl_status, HF_LIT("ENABLED"));
    CHECK_SLICE(on.ttl_attribute, HF_LIT("ttl"));
    refused(op, HF_ERR_VALIDATION);
    op.ttl_enabled = false;
    good(op);
    refused(op, HF_ERR_VALIDATION);
    CHECK_SLICE(good(new_op(HF_DESCRIBE_TTL)).ttl_status, HF_LIT("DISABLED"));
    finish();
}

/* ---- many at once ---- */

enum { THREADS = 8, INCREMENTS = 60 };

/* Reads the counter, then writes one more on the condition that nobody did meanwhile. */
static void *increment(void *failure)
{
    for (int done = 0, tries = 0; done < INCREMENTS && tries < 20000; tries++) {
        struct hf_arena mine = {0};
        struct hf_attr key = {HF_LIT("key"), hf__s_str("counter")};
        struct hf_call get = {.arena = &mine}, put_next = {.arena = &mine};
        int64_t n = 0;
        get.op = (struct hf_op){.kind = HF_GET_ITEM,
                                .table = hf__slice_str(table),
                                .key = {&key, 1},
                                .consistent = true};
        if (hf__store_run(store, &get) != 0) *(int *)failure = get.answer.code;
        if (get.answer.has_item)
            hf__number_to_int64(hf__item_get_str(get.answer.item, "n")->number, &n);
        struct hf_update update = {0};
        hf__update_set(&mine, &update, "n", hf__n(&mine, n + 1));
        put_next.op = (struct hf_op){
            .kind = HF_UPDATE_ITEM,
            .table = hf__slice_str(table),
            .key = {&key, 1},
            .update = &update,
            .condition = get.answer.has_item ? hf__cond_compare(&mine, "n", HF_EQ, hf__n(&mine, n))
                                             : hf__cond_absent(&mine, "n"),
        };
        int code = hf__store_run(store, &put_next);
        if (code == 0) done++;
        else if (code != HF_ERR_CONDITION) *(int *)failure = code;
        hf__arena_free(&mine);
    }
    return NULL;
}

TEST(eight_threads_of_conditional_increments_lose_nothing)
{
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    with_table(&by_key);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, increment, &failures[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_INT(failures[i], 0);
    char expected[64];
    snprintf(expected, sizeof expected, "{\"key\":{\"S\":\"counter\"},\"n\":{\"N\":\"%d\"}}",
             THREADS * INCREMENTS);
    CHECK_STR(stored(KEY("counter")), expected);
    finish();
}

enum { IN_FLIGHT = 200 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done, granted;
} tally = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void count_done(struct hf_call *call)
{
    pthread_mutex_lock(&tally.mutex);
    tally.done++;
    tally.granted += call->answer.code == 0;
    pthread_cond_signal(&tally.changed);
    pthread_mutex_unlock(&tally.mutex);
}

TEST(of_many_conditional_creations_in_flight_one_wins)
{
    static struct hf_call calls[IN_FLIGHT];
    static struct hf_arena arenas[IN_FLIGHT];
    with_table(&by_key);
    tally.done = tally.granted = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i] = (struct hf_call){.arena = &arenas[i], .done = count_done};
        calls[i].op = put_op(KEY("k"));
        calls[i].op.condition = hf__cond_absent(&arena, "key");
    }
    for (int i = 0; i < IN_FLIGHT; i++) hf__store_submit(store, &calls[i]);
    pthread_mutex_lock(&tally.mutex);
    while (tally.done < IN_FLIGHT) pthread_cond_wait(&tally.changed, &tally.mutex);
    pthread_mutex_unlock(&tally.mutex);
    CHECK_INT(tally.granted, 1);
    for (int i = 0; i < IN_FLIGHT; i++) hf__arena_free(&arenas[i]);
    finish();
}

/* ---- what every answer carries ---- */

TEST(answers_are_stamped)
{
    with_table(&by_key);
    int64_t before = hf__clock_boot_us(&hf__clock_system);
    struct hf_answer answer = good(put_op(KEY("k")));
    int64_t after = hf__clock_boot_us(&hf__clock_system);
    CHECK(before <= answer.first_sent_boot_us);
    CHECK(answer.first_sent_boot_us <= answer.sent_boot_us);
    CHECK(answer.sent_boot_us <= answer.received_boot_us);
    CHECK(answer.received_boot_us <= after);
    CHECK_INT(answer.attempts, 1);
    /* The store runs on this machine: its clock is near ours, whatever it calls it. */
    int64_t wall = hf__clock_wall_us(&hf__clock_system);
    CHECK(answer.store.known);
    CHECK(answer.store.lo_unix_us <= answer.store.hi_unix_us);
    CHECK(answer.store.lo_unix_us < wall + 5000000 && answer.store.hi_unix_us > wall - 5000000);
    struct hf_answer failed = run(get_op("{\"kex\":{\"S\":\"1\"}}"));
    CHECK(failed.store.known && failed.received_boot_us >= failed.sent_boot_us);
    finish();
}

TEST(an_operation_whose_arena_failed_is_not_sent)
{
    with_table(&by_key);
    struct hf_arena broken = {.failed = true};
    struct hf_call call = {.op = put_op(KEY("k")), .arena = &broken};
    CHECK_INT(hf__store_run(store, &call), HF_ERR_NO_MEMORY);
    CHECK_STR(stored(KEY("k")), "");
    finish();
}

TEST(closing_completes_what_is_outstanding)
{
    static struct hf_call calls[IN_FLIGHT];
    static struct hf_arena arenas[IN_FLIGHT];
    with_table(&by_key);
    tally.done = tally.granted = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i] = (struct hf_call){.arena = &arenas[i], .done = count_done};
        calls[i].op = put_op(KEY("k"));
        hf__store_submit(store, &calls[i]);
    }
    for (int i = 0; i < IN_FLIGHT; i += 2) hf__store_cancel(store, calls[i].id);
    hf__store_cancel(store, 999999);
    hf__store_close(store);
    CHECK_INT(tally.done, IN_FLIGHT);
    for (int i = 0; i < IN_FLIGHT; i++) {
        int code = calls[i].answer.code;
        CHECK(code == 0 || code == HF_ERR_CANCELLED || code == HF_ERR_OUTCOME_UNKNOWN);
        hf__arena_free(&arenas[i]);
    }
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "memory:") == 0) { /* it is gone with its store */
        hf__arena_free(&arena);
        return;
    }
    open_store();
    finish();
}

/* Submits a second operation from within `done`. */
static void submit_once(struct hf_call *call)
{
    hf__store_submit(store, call->user);
    count_done(call);
}

TEST(done_may_submit_also_while_the_store_closes)
{
    enum { PAIRS = 100 };
    static struct hf_call firsts[PAIRS], seconds[PAIRS];
    static struct hf_arena arenas[2 * PAIRS];
    static struct hf_op ops[2];
    with_table(&by_key);
    ops[0] = put_op(KEY("k"));
    ops[1] = get_op(KEY("k"));
    for (int closing = 0; closing < 2; closing++) {
        tally.done = 0;
        for (int i = 0; i < PAIRS; i++) {
            firsts[i] = (struct hf_call){.op = ops[i % 2],
                                         .arena = &arenas[2 * i],
                                         .done = submit_once,
                                         .user = &seconds[i]};
            seconds[i] = (struct hf_call){
                .op = ops[(i + 1) % 2], .arena = &arenas[2 * i + 1], .done = count_done};
            hf__store_submit(store, &firsts[i]);
        }
        if (closing) {
            hf__store_close(store);
        } else {
            pthread_mutex_lock(&tally.mutex);
            while (tally.done < 2 * PAIRS) pthread_cond_wait(&tally.changed, &tally.mutex);
            pthread_mutex_unlock(&tally.mutex);
        }
        CHECK_INT(tally.done, 2 * PAIRS);
        for (int i = 0; i < 2 * PAIRS; i++) hf__arena_free(&arenas[i]);
    }
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "memory:") == 0) {
        hf__arena_free(&arena);
        return;
    }
    open_store();
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
        RUN(queries_find_ranges_in_order),
        RUN(string_ranges_are_bytewise_and_know_prefixes),
        RUN(binary_keys_sort_unsigned),
        RUN(pages_of_a_query_join_without_gap_or_overlap),
        RUN(filters_apply_after_the_limit),
        RUN(a_scan_sees_everything_once),
        RUN(a_page_ends_at_a_megabyte),
        RUN(keys_must_fit_the_table),
        RUN(malformed_items_are_refused),
        RUN(items_have_a_largest_size),
        RUN(the_key_cannot_be_updated),
        RUN(expressions_that_make_no_sense_are_refused),
        RUN(queries_that_make_no_sense_are_refused),
        RUN(only_updates_return_the_new),
        RUN(tables_come_and_go),
        RUN(operations_on_no_table_say_so),
        RUN(tables_are_listed_in_pages),
        RUN(time_to_live_is_switched_on_and_off),
        RUN(eight_threads_of_conditional_increments_lose_nothing),
        RUN(of_many_conditional_creations_in_flight_one_wins),
        RUN(answers_are_stamped),
        RUN(an_operation_whose_arena_failed_is_not_sent),
        RUN(closing_completes_what_is_outstanding),
        RUN(done_may_submit_also_while_the_store_closes),
    };
    if (!getenv("HOLDFAST_TEST_STORE")) setenv("HOLDFAST_TEST_STORE", "memory:", 1);
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "file:") == 0) {
        char url[512];
        snprintf(url, sizeof url, "file:%s/contract.db", hf_test_directory());
        setenv("HOLDFAST_TEST_STORE", url, 1);
    }
    return RUN_TESTS(tests);
}
