#include "contract/fixture.h"

#include <stdlib.h>

#include "base/random.h"

const struct hf_key_schema by_key = {.hash_name = {"key", 3}, .hash_type = HF_S};
const struct hf_key_schema by_pair = {
    .hash_name = {"pk", 2}, .hash_type = HF_S, .range_name = {"sk", 2}, .range_type = HF_N};

struct hf_store *store;
struct hf_arena arena;
char table[64];

struct hf_op new_op(enum hf_op_kind kind)
{
    return (struct hf_op){.kind = kind, .table = hf__slice_str(table)};
}

/* Runs an operation; the answer lives until the test ends. */
struct hf_answer run(struct hf_op op)
{
    struct hf_call call = {.op = op, .arena = &arena};
    hf__store_run(store, &call);
    return call.answer;
}

struct hf_answer good(struct hf_op op)
{
    struct hf_answer answer = run(op);
    if (answer.code != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", hf__op_names[op.kind], answer.error.message);
    return answer;
}

void refused(struct hf_op op, int code)
{
    struct hf_answer answer = run(op);
    if (answer.code != code)
        hf_test_fail(__FILE__, __LINE__, "%s gave %s (%s), not %s", hf__op_names[op.kind],
                     hf_error_name(answer.code), answer.error.message, hf_error_name(code));
    CHECK(answer.error.message[0] != '\0');
}

/* In the service's own words; DynamoDB Local has others for some. */
void refused_saying(struct hf_op op, int code, const char *message)
{
    refused(op, code);
    if (strncmp(getenv("HOLDFAST_TEST_STORE"), "dynamodb:", 9) == 0) return;
    CHECK_STR(run(op).error.message, message);
}

void open_store(void)
{
    struct hf_error error;
    struct hf_store_options options = {.request_timeout_ms = 20000};
    if (hf__store_open(getenv("HOLDFAST_TEST_STORE"), &options, &store, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

void with_table(const struct hf_key_schema *schema)
{
    with_table_and(schema, NULL);
}

void with_table_and(const struct hf_key_schema *schema, const struct hf_table_wishes *wishes)
{
    char id[HF_ID_SIZE];
    hf__random_id(id);
    snprintf(table, sizeof table, "contract-%s", id);
    open_store();
    struct hf_op op = new_op(HF_CREATE_TABLE);
    op.schema = *schema;
    op.wishes = wishes;
    good(op);
}

void finish(void)
{
    good(new_op(HF_DELETE_TABLE));
    hf__store_close(store);
    hf__arena_free(&arena);
}

struct hf_op put_op(const char *item)
{
    struct hf_op op = new_op(HF_PUT_ITEM);
    op.item = hf_test_item(&arena, item);
    return op;
}

void put(const char *item)
{
    good(put_op(item));
}

struct hf_op get_op(const char *key)
{
    struct hf_op op = new_op(HF_GET_ITEM);
    op.key = hf_test_item(&arena, key);
    op.consistent = true;
    return op;
}

struct hf_op delete_op(const char *key)
{
    struct hf_op op = new_op(HF_DELETE_ITEM);
    op.key = hf_test_item(&arena, key);
    return op;
}

struct hf_op update_op(const char *key, const char *text, const char *values)
{
    struct hf_op op = new_op(HF_UPDATE_ITEM);
    op.key = hf_test_item(&arena, key);
    op.update = hf_test_update(&arena, text, values);
    return op;
}

/* An item's JSON, "" when it does not exist. */
const char *stored(const char *key)
{
    struct hf_answer answer = good(get_op(key));
    return answer.has_item ? hf_test_show(&arena, answer.item) : "";
}

/* An item with more attributes than its key. */
const char *with_key(const char *attributes)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"key\":{\"S\":\"k\"},%s", attributes + 1);
    return hf__arena_str(&arena, hf__slice_str(text));
}

int run_contract(const struct hf_test *tests, size_t count, int argc, char **argv)
{
    if (!getenv("HOLDFAST_TEST_STORE")) setenv("HOLDFAST_TEST_STORE", "memory:", 1);
    if (strcmp(getenv("HOLDFAST_TEST_STORE"), "file:") == 0) {
        char url[512];
        snprintf(url, sizeof url, "file:%s/contract.db", hf_test_directory());
        setenv("HOLDFAST_TEST_STORE", url, 1);
    }
    return hf_test_main(tests, count, argc, argv);
}
