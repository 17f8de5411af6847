/* The contract of store.h: what is refused, and tables. */
#include "contract/fixture.h"

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
    ops[0].table = HF_LIT("a b");
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

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(keys_must_fit_the_table),
        RUN(malformed_items_are_refused),
        RUN(items_have_a_largest_size),
        RUN(the_key_cannot_be_updated),
        RUN(expressions_that_make_no_sense_are_refused),
        RUN(only_updates_return_the_new),
        RUN(tables_come_and_go),
        RUN(operations_on_no_table_say_so),
        RUN(tables_are_listed_in_pages),
        RUN(time_to_live_is_switched_on_and_off),
    };
    return RUN_CONTRACT(tests);
}
