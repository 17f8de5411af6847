/* The contract of store.h: queries and scans. */
#include "base/buf.h"
#include "contract/fixture.h"

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

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(queries_find_ranges_in_order),  RUN(string_ranges_are_bytewise_and_know_prefixes),
        RUN(binary_keys_sort_unsigned),     RUN(pages_of_a_query_join_without_gap_or_overlap),
        RUN(filters_apply_after_the_limit), RUN(a_scan_sees_everything_once),
        RUN(a_page_ends_at_a_megabyte),     RUN(queries_that_make_no_sense_are_refused),
    };
    return RUN_CONTRACT(tests);
}
