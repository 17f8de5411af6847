/* The contract of store.h: transactions. */
#include "contract/fixture.h"

static struct hf_op transaction(const struct hf_op *parts, size_t count)
{
    struct hf_op *copies = hf__arena_zalloc(&arena, count, sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = parts[i];
        copies[i].consistent = false;
    }
    return (struct hf_op){.kind = HF_TRANSACT_WRITE, .parts = copies, .part_count = count};
}

static struct hf_op check_op(const char *key, bool exists)
{
    struct hf_op op = delete_op(key);
    op.kind = HF_CONDITION_CHECK;
    op.condition = exists ? hf__cond_exists(&arena, "key") : hf__cond_absent(&arena, "key");
    op.old_on_failure = true;
    return op;
}

TEST(all_parts_are_done_or_none)
{
    with_table(&by_key);
    put(KEY("old"));
    struct hf_op parts[] = {put_op(KEY("new")), delete_op(KEY("old")),
                            update_op(KEY("more"), "SET n = :n", "{\":n\":{\"N\":\"1\"}}"),
                            check_op(KEY("absent"), false)};
    good(transaction(parts, COUNT_OF(parts)));
    CHECK_STR(stored(KEY("new")), KEY("new"));
    CHECK_STR(stored(KEY("old")), "");
    struct hf_op failing[] = {delete_op(KEY("new")), check_op(KEY("more"), false),
                              put_op(KEY("never"))};
    struct hf_answer answer = run(transaction(failing, COUNT_OF(failing)));
    CHECK_INT(answer.code, HF_ERR_TRANSACTION);
    CHECK_INT(answer.part_count, 3);
    CHECK_INT(answer.parts[0].code, 0);
    CHECK_INT(answer.parts[1].code, HF_ERR_CONDITION);
    CHECK(answer.parts[1].has_item && hf__item_get_str(answer.parts[1].item, "n"));
    CHECK_INT(answer.parts[2].code, 0);
    CHECK_STR(stored(KEY("new")), KEY("new"));
    CHECK_STR(stored(KEY("never")), "");
    finish();
}

TEST(two_parts_on_one_item_are_refused)
{
    with_table(&by_key);
    struct hf_op parts[] = {put_op(KEY("a")), delete_op(KEY("a"))};
    refused_saying(transaction(parts, 2), HF_ERR_VALIDATION,
                   "Transaction request cannot include multiple operations on one item");
    refused(transaction(parts, 0), HF_ERR_VALIDATION);
    CHECK_STR(stored(KEY("a")), "");
    finish();
}

TEST(reads_of_a_transaction_keep_their_order)
{
    with_table(&by_key);
    put(KEY("a"));
    put(KEY("c"));
    struct hf_op parts[] = {get_op(KEY("c")), get_op(KEY("b")), get_op(KEY("a"))};
    struct hf_op op = transaction(parts, 3);
    op.kind = HF_TRANSACT_GET;
    struct hf_answer answer = good(op);
    CHECK_INT(answer.part_count, 3);
    CHECK(answer.parts[0].has_item && !answer.parts[1].has_item && answer.parts[2].has_item);
    CHECK_STR(hf_test_show(&arena, answer.parts[0].item), KEY("c"));
    finish();
}

/* Fencing: data changes only while the lock's record has the token. */
TEST(a_check_fences_a_write)
{
    with_table(&by_key);
    put("{\"key\":{\"S\":\"lock\"},\"token\":{\"N\":\"7\"}}");
    for (int token = 7; token <= 8; token++) {
        struct hf_op check = check_op(KEY("lock"), true);
        check.condition = hf__cond_compare(&arena, "token", HF_EQ, hf__n(&arena, token));
        struct hf_op write = put_op(KEY("data"));
        struct hf_op parts[] = {check, write};
        struct hf_answer answer = run(transaction(parts, 2));
        CHECK_INT(answer.code, token == 7 ? 0 : HF_ERR_TRANSACTION);
    }
    finish();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(all_parts_are_done_or_none),
        RUN(two_parts_on_one_item_are_refused),
        RUN(reads_of_a_transaction_keep_their_order),
        RUN(a_check_fences_a_write),
    };
    return RUN_CONTRACT(tests);
}
