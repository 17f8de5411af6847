/* The contract of store.h: secondary indexes. */
#include "contract/fixture.h"

#define ITEM(pk, sk, more) "{\"pk\":{\"S\":\"" pk "\"},\"sk\":{\"N\":\"" sk "\"}" more "}"
#define TEXT(name, value) ",\"" name "\":{\"S\":\"" value "\"}"

/* A global index on "who" and "sk", which shows "note"; a local one on "label", of keys only. */
static const struct hf_slice included[] = {{"note", 4}};
static const struct hf_index indexes[] = {
    {.name = {"by-label", 8},
     .schema = {.hash_name = {"pk", 2}, .range_name = {"label", 5}, .range_type = HF_S},
     .project = HF_PROJECT_KEYS_ONLY},
    {.name = {"by-owner", 8},
     .global = true,
     .schema = {.hash_name = {"who", 3}, .range_name = {"sk", 2}, .range_type = HF_N},
     .project = HF_PROJECT_INCLUDE,
     .included = included,
     .included_count = 1},
};
static const struct hf_table_wishes wishes = {.indexes = {indexes, 2}};

static struct hf_op query_op(const char *index, const char *name, const char *value)
{
    struct hf_key_condition *where = hf__arena_zalloc(&arena, 1, sizeof *where);
    struct hf_op op = new_op(HF_QUERY);
    where->tests[0] =
        (struct hf_key_test){.name = hf__slice_str(name), .op = HF_EQ, .low = hf__s_str(value)};
    where->count = 1;
    op.where = where;
    op.index = hf__slice_str(index);
    return op;
}

/* The numbers of the items that an owner has in the index, as "1 2 3". */
static const char *numbers(const struct hf_answer *answer)
{
    struct hf_slice text = HF_LIT("");
    for (size_t i = 0; i < answer->count; i++) {
        int64_t number = -1;
        hf__number_to_int64(hf__item_get_str(answer->items[i], "sk")->number, &number);
        text =
            hf__arena_printf(&arena, "%.*s%s%lld", HF_FMT(text), i ? " " : "", (long long)number);
    }
    return text.len ? text.ptr : "";
}

static const char *owned_by(const char *owner)
{
    struct hf_answer answer = good(query_op("by-owner", "who", owner));
    return numbers(&answer);
}

static void fill(void)
{
    put(ITEM("a", "3", TEXT("who", "me")));
    put(ITEM("b", "1", TEXT("who", "me") TEXT("note", "n") TEXT("extra", "o")));
    put(ITEM("c", "2", ""));
    put(ITEM("d", "5", TEXT("who", "you")));
}

TEST(an_index_has_the_items_that_have_its_key_in_its_order)
{
    with_table_and(&by_pair, &wishes);
    fill();
    struct hf_op op = query_op("by-owner", "who", "me");
    struct hf_answer mine = good(op);
    CHECK_STR(numbers(&mine), "1 3");
    CHECK(hf__item_get_str(mine.items[0], "note") && hf__item_get_str(mine.items[0], "pk"));
    CHECK(!hf__item_get_str(mine.items[0], "extra"));
    op.backward = true;
    mine = good(op);
    CHECK_STR(numbers(&mine), "3 1");
    op.select = HF_SELECT_COUNT;
    mine = good(op);
    CHECK_INT(mine.scanned, 2);
    struct hf_op scan = new_op(HF_SCAN);
    scan.index = HF_LIT("by-owner");
    CHECK_INT(good(scan).count, 3);
    finish();
}

TEST(entries_follow_their_items)
{
    with_table_and(&by_pair, &wishes);
    fill();
    good(update_op(PAIR("a", "3"), "SET who = :o", "{\":o\":{\"S\":\"you\"}}"));
    CHECK_STR(owned_by("me"), "1");
    CHECK_STR(owned_by("you"), "3 5");
    good(update_op(PAIR("c", "2"), "SET who = :o", "{\":o\":{\"S\":\"you\"}}"));
    CHECK_STR(owned_by("you"), "2 3 5");
    good(delete_op(PAIR("a", "3")));
    put(ITEM("d", "5", ""));
    CHECK_STR(owned_by("you"), "2");
    struct hf_op failing = update_op(PAIR("b", "1"), "SET who = :o", "{\":o\":{\"S\":\"you\"}}");
    failing.condition = hf__cond_absent(&arena, "pk");
    refused(failing, HF_ERR_CONDITION);
    CHECK_STR(owned_by("me"), "1");
    finish();
}

TEST(pages_of_an_index_join_without_gap_or_overlap)
{
    enum { COUNT = 9 };
    with_table_and(&by_pair, &wishes);
    for (int i = 0; i < COUNT; i++) {
        char item[160];
        snprintf(item, sizeof item,
                 "{\"pk\":{\"S\":\"p%d\"},\"sk\":{\"N\":\"%d\"},\"who\":{\"S\":\"me\"}}", i,
                 i / 3); /* three of each number */
        put(item);
    }
    for (int limit = 1; limit <= COUNT + 1; limit++)
        for (int backward = 0; backward < 2; backward++) {
            struct hf_op op = query_op("by-owner", "who", "me");
            size_t seen = 0;
            int pages = 0;
            op.has_limit = true;
            op.limit = limit;
            op.backward = backward;
            do {
                struct hf_answer page = good(op);
                seen += page.count;
                op.start_key = page.last_key;
                CHECK(op.start_key.count == 0 || op.start_key.count == 3);
                CHECK(++pages < 20);
            } while (op.start_key.count > 0);
            CHECK_INT(seen, COUNT);
        }
    finish();
}

TEST(a_local_index_gets_the_rest_from_the_table)
{
    with_table_and(&by_pair, &wishes);
    put(ITEM("a", "1", TEXT("label", "z") TEXT("note", "n")));
    put(ITEM("a", "2", TEXT("label", "y")));
    put(ITEM("a", "3", ""));
    struct hf_op op = query_op("by-label", "pk", "a");
    struct hf_answer keys = good(op);
    CHECK_STR(numbers(&keys), "2 1");
    CHECK(!hf__item_get_str(keys.items[1], "note"));
    op.select = HF_SELECT_ALL;
    op.consistent = true;
    struct hf_answer all = good(op);
    CHECK(hf__item_get_str(all.items[1], "note"));
    finish();
}

TEST(what_an_index_cannot_answer_is_refused)
{
    with_table_and(&by_pair, &wishes);
    fill();
    struct hf_op op = query_op("by-owner", "who", "me");
    op.consistent = true;
    refused_saying(op, HF_ERR_VALIDATION,
                   "Consistent reads are not supported on global secondary indexes");
    op = query_op("by-owner", "who", "me");
    op.select = HF_SELECT_ALL;
    refused(op, HF_ERR_VALIDATION);
    op = query_op("by-owner", "who", "me");
    op.projection = hf_test_projection(&arena, "extra");
    refused(op, HF_ERR_VALIDATION);
    refused_saying(query_op("by-nobody", "who", "me"), HF_ERR_VALIDATION,
                   "The table does not have the specified index: by-nobody");
    refused(query_op("by-owner", "pk", "a"), HF_ERR_VALIDATION);
    op = query_op("by-owner", "who", "me");
    op.start_key = hf_test_item(&arena, PAIR("b", "1"));
    refused(op, HF_ERR_VALIDATION);
    refused(put_op(ITEM("x", "1", ",\"who\":{\"N\":\"1\"}")), HF_ERR_VALIDATION);
    refused(put_op(ITEM("x", "1", TEXT("who", ""))), HF_ERR_VALIDATION);
    finish();
}

TEST(segments_of_a_scan_join_to_the_whole)
{
    enum { COUNT = 40, SEGMENTS = 3 };
    with_table(&by_key);
    for (int i = 0; i < COUNT; i++) {
        char item[64];
        snprintf(item, sizeof item, "{\"key\":{\"S\":\"k%d\"}}", i);
        put(item);
    }
    struct hf_op op = new_op(HF_SCAN);
    size_t seen = 0;
    op.segments = SEGMENTS;
    for (op.segment = 0; op.segment < SEGMENTS; op.segment++) {
        struct hf_answer part = good(op);
        CHECK(part.count < COUNT);
        seen += part.count;
    }
    CHECK_INT(seen, COUNT);
    refused(op, HF_ERR_VALIDATION);
    finish();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(an_index_has_the_items_that_have_its_key_in_its_order),
        RUN(entries_follow_their_items),
        RUN(pages_of_an_index_join_without_gap_or_overlap),
        RUN(a_local_index_gets_the_rest_from_the_table),
        RUN(what_an_index_cannot_answer_is_refused),
        RUN(segments_of_a_scan_join_to_the_whole),
    };
    return RUN_CONTRACT(tests);
}
