#include "harness/model.h"
#include "wire/item_json.h"

TEST(every_type_reads_and_writes)
{
    static const char json[] =
        "{\"b\":{\"B\":\"AP8=\"},\"bs\":{\"BS\":[\"AQ==\",\"Ag==\"]},\"l\":{\"L\":[{\"S\":\"\\n\"},{\"L\":[]}]},"
        "\"m\":{\"M\":{\"x\":{\"NULL\":true}}},\"n\":{\"N\":\"-1.5\"},\"ns\":{\"NS\":[\"1\",\"2\"]},"
        "\"s\":{\"S\":\"\xc3\xa9\"},\"ss\":{\"SS\":[\"a\"]},\"t\":{\"BOOL\":true}}";
    struct hf_arena arena = {0};
    CHECK_STR(hf_test_show(&arena, hf_test_item(&arena, json)), json);
    hf__arena_free(&arena);
}

TEST(numbers_come_out_canonical)
{
    struct hf_arena arena = {0};
    CHECK_STR(hf_test_show(&arena, hf_test_item(&arena, "{\"n\":{\"N\":\"0012.500e1\"}}")),
              "{\"n\":{\"N\":\"125\"}}");
    hf__arena_free(&arena);
}

TEST(malformed_values_are_refused)
{
    static const struct {
        const char *json;
        int code;
    } cases[] = {
        {"{\"v\":{}}", HF_ERR_VALIDATION},
        {"{\"v\":{\"S\":\"a\",\"N\":\"1\"}}", HF_ERR_VALIDATION},
        {"{\"v\":{\"NULL\":false}}", HF_ERR_VALIDATION},
        {"{\"v\":{\"N\":\"x\"}}", HF_ERR_VALIDATION},
        {"{\"v\":{\"N\":1}}", HF_ERR_SYNTAX},
        {"{\"v\":{\"B\":\"a\"}}", HF_ERR_SYNTAX},
        {"{\"v\":{\"X\":\"a\"}}", HF_ERR_SYNTAX},
        {"{\"v\":\"a\"}", HF_ERR_SYNTAX},
        {"{\"v\":{\"SS\":[1]}}", HF_ERR_SYNTAX},
        {"{\"v\":{\"L\":[\"a\"]}}", HF_ERR_SYNTAX},
        {"{\"v\":{\"BOOL\":\"true\"}}", HF_ERR_SYNTAX},
        {"{\"v\":{\"S\":\"a\"},\"v\":{\"S\":\"b\"}}", HF_ERR_SYNTAX},
        {"[]", HF_ERR_SYNTAX},
        {"", HF_ERR_SYNTAX},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_item item;
        struct hf_error error = {0};
        hf_test_note("%s", cases[i].json);
        CHECK_INT(hf__item_from_json(&arena, hf__slice_str(cases[i].json), &item, &error),
                  cases[i].code);
        CHECK(error.message[0] != '\0');
        hf__arena_free(&arena);
    }
}

TEST(generated_items_survive_the_round_trip)
{
    struct hf_rng rng = {11};
    for (int i = 0; i < 5000; i++) {
        struct hf_arena arena = {0};
        struct hf_item item = hf_test_gen_item(&rng, &arena);
        const char *json = hf_test_show(&arena, item);
        hf_test_note("%s", json);
        CHECK(hf__item_equal(hf_test_item(&arena, json), item));
        hf__arena_free(&arena);
    }
}

static void read_and_write(void)
{
    struct hf_arena arena = {0};
    struct hf_item item = {0};
    struct hf_error error;
    struct hf_buf buf;
    hf__buf_init(&buf, 10000);
    int code = hf__item_from_json(
        &arena, HF_LIT("{\"a\":{\"N\":\"1\"},\"b\":{\"L\":[{\"B\":\"AQ==\"},{\"S\":\"\\n\"}]}}"),
        &item, &error);
    if (code == 0) hf__item_to_json(item, &buf);
    CHECK((code != 0 || buf.failed) == hf_alloc_has_failed());
    if (code != 0) CHECK_INT(code, HF_ERR_NO_MEMORY);
    hf__buf_free(&buf);
    hf__arena_free(&arena);
}

TEST(survives_want_of_memory)
{
    CHECK(hf_test_torture(read_and_write) > 1);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(every_type_reads_and_writes),  RUN(numbers_come_out_canonical),
        RUN(malformed_values_are_refused), RUN(generated_items_survive_the_round_trip),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
