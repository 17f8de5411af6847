#include "base/json_reader.h"
#include "base/json_writer.h"
#include "harness/test.h"

enum { LIMIT = 100000 };

/* Reads a whole document of any shape; returns 0 or the error's code. */
static int read_all(struct hf_slice document, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    hf__json_reader_init(&r, document, LIMIT, &arena);
    hf__json_skip(&r);
    int code = hf__json_finish(&r);
    if (code != 0 && reterr) *reterr = r.error;
    hf__arena_free(&arena);
    return code;
}

TEST(accepts_what_rfc_8259_accepts)
{
    static const char *const good[] = {
        "0",
        "-0",
        "1.5e+10",
        "123456789012345678901234567890",
        "\"\"",
        "true",
        "null",
        "[]",
        "{}",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[{},[]]}}",
        "\"\\u0041\\n\\\"\\/\"",
        "\"\\ud83d\\ude00\"",
        "\"\xc3\xa9\"",
        "\"\\u0000\"",
        "[1e5,1E5,1e-5,-0.0]",
        "\t\r\n1\n",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        hf_test_note("%s", good[i]);
        CHECK_INT(read_all(hf__slice_str(good[i]), NULL), 0);
    }
}

TEST(refuses_everything_else_with_a_position)
{
    static const struct {
        const char *text;
        int position;
    } bad[] = {
        {"", 0},
        {" ", 1},
        {"01", 1},
        {"-", 1},
        {".5", 0},
        {"1.", 2},
        {"1e", 2},
        {"+1", 0},
        {"nul", 0},
        {"True", 0},
        {"[1,]", 3},
        {"[1 2]", 3},
        {"{\"a\"}", 4},
        {"{a:1}", 1},
        {"{\"a\":1,}", 7},
        {"[", 1},
        {"\"", 1},
        {"\"\\x\"", 2},
        {"\"\\u12\"", 3},
        {"\"\\ud800\"", 7},
        {"\"\\udc00\"", 7},
        {"\"\\ud800\\u0041\"", 13},
        {"\"\n\"", 1},
        {"\"\xff\"", 1},
        {"\"\xed\xa0\x80\"", 1},
        {"1 2", 2},
        {"[]]", 2},
        {"{\"a\":1,\"a\":2}", 10},
        {"{\"a\":1,\"\\u0061\":2}", 15},
        {"\"abc\\", 5},
        {"[1}", 2},
        {"{]", 1},
        {"NaN", 0},
        {"\"\\\"", 3},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_error error = {0};
        char position[32];
        hf_test_note("%s", bad[i].text);
        CHECK(read_all(hf__slice_str(bad[i].text), &error) != 0);
        snprintf(position, sizeof position, "JSON, byte %d:", bad[i].position);
        if (!hf__slice_starts(hf__slice_str(error.message), hf__slice_str(position)))
            hf_test_fail(__FILE__, __LINE__, "%s is not at byte %d", error.message,
                         bad[i].position);
    }
}

TEST(a_nul_byte_is_not_the_end)
{
    CHECK(read_all(hf__slice("1\0", 2), NULL) != 0);
    CHECK(read_all(hf__slice("\"\0\"", 3), NULL) != 0);
    CHECK(read_all(hf__slice("\"\\\0\"", 4), NULL) != 0);
}

TEST(duplicates_are_found_among_many_keys_and_in_any_spelling)
{
    struct hf_buf buf;
    hf__buf_init(&buf, LIMIT);
    for (int duplicate = 0; duplicate < 2; duplicate++) {
        hf__buf_clear(&buf);
        hf__buf_char(&buf, '{');
        for (int i = 0; i < 3000; i++) hf__buf_printf(&buf, "\"k%d\":{\"k1\":1},", i);
        hf__buf_printf(&buf, "\"k\\u0031%s\":0}", duplicate ? "234" : "x");
        CHECK((read_all(hf__buf_view(&buf), NULL) != 0) == (duplicate == 1));
    }
    hf__buf_free(&buf);
}

TEST(depth_and_size_are_bounded)
{
    struct hf_error error;
    char deep[2 * HF_JSON_MAX_DEPTH + 3];
    memset(deep, '[', HF_JSON_MAX_DEPTH);
    memset(deep + HF_JSON_MAX_DEPTH, ']', HF_JSON_MAX_DEPTH);
    CHECK_INT(read_all(hf__slice(deep, 2 * HF_JSON_MAX_DEPTH), NULL), 0);
    memset(deep, '[', HF_JSON_MAX_DEPTH + 1);
    memset(deep + HF_JSON_MAX_DEPTH + 1, ']', HF_JSON_MAX_DEPTH + 1);
    CHECK_INT(read_all(hf__slice(deep, 2 * HF_JSON_MAX_DEPTH + 2), &error), HF_ERR_LIMIT);
    static char spaces[LIMIT + 2];
    memset(spaces, ' ', sizeof spaces);
    spaces[0] = '1';
    CHECK_INT(read_all(hf__slice(spaces, LIMIT), NULL), 0);
    CHECK_INT(read_all(hf__slice(spaces, LIMIT + 1), &error), HF_ERR_LIMIT);
}

TEST(pulls_values_as_they_are)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    struct hf_slice key, text;
    int64_t whole = 0;
    bool flag = false;
    static const char document[] =
        "{\"s\":\"a\\tb\\u20ac\\ud83d\\ude00\",\"n\":1.50e3,\"i\":-7,\"t\":true,\"l\":[null,\"x\"],\"z\":{}}";
    hf__json_reader_init(&r, hf__slice_str(document), LIMIT, &arena);
    CHECK(hf__json_object(&r));
    CHECK(hf__json_key(&r, &key) && hf__slice_is(key, "s") && hf__json_string(&r, &text));
    CHECK_SLICE(text, HF_LIT("a\tb\xe2\x82\xac\xf0\x9f\x98\x80"));
    CHECK(hf__json_key(&r, &key) && hf__json_number(&r, &text));
    CHECK_SLICE(text, HF_LIT("1.50e3"));
    CHECK(hf__json_key(&r, &key) && hf__json_int64(&r, &whole));
    CHECK_INT(whole, -7);
    CHECK(hf__json_key(&r, &key) && hf__json_bool(&r, &flag) && flag);
    CHECK(hf__json_key(&r, &key) && hf__json_array(&r));
    CHECK(hf__json_element(&r) && hf__json_null(&r));
    CHECK(hf__json_element(&r) && hf__json_peek(&r) == HF_JSON_STRING &&
          hf__json_string(&r, &text));
    CHECK(!hf__json_element(&r));
    CHECK(hf__json_key(&r, &key) && hf__json_skip(&r));
    CHECK(!hf__json_key(&r, &key));
    CHECK_INT(hf__json_finish(&r), 0);
    hf__arena_free(&arena);
}

TEST(the_first_error_stays)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    struct hf_slice text;
    hf__json_reader_init(&r, HF_LIT("[1]"), LIMIT, &arena);
    hf__json_array(&r);
    hf__json_element(&r);
    CHECK(!hf__json_string(&r, &text));
    char first[sizeof r.error.message];
    memcpy(first, r.error.message, sizeof first);
    CHECK(!hf__json_skip(&r) && !hf__json_element(&r) && !hf__json_object(&r));
    CHECK_INT(hf__json_finish(&r), HF_ERR_SYNTAX);
    CHECK_STR(r.error.message, first);
    hf__arena_free(&arena);
}

TEST(what_is_written_reads_back)
{
    struct hf_arena arena = {0};
    struct hf_buf buf;
    struct hf_json_writer w;
    struct hf_json_reader r;
    struct hf_slice key, text;
    char all[128];
    for (int i = 0; i < 128; i++) all[i] = (char)i;
    hf__buf_init(&buf, LIMIT);
    hf__json_writer_init(&w, &buf);
    hf__json_open(&w, '{');
    hf__json_put_key(&w, hf__slice(all, sizeof all));
    hf__json_put_string(&w, hf__slice(all, sizeof all));
    hf__json_put_name(&w, "list");
    hf__json_open(&w, '[');
    hf__json_put_int64(&w, INT64_MIN);
    hf__json_put_bool(&w, false);
    hf__json_put_null(&w);
    hf__json_open(&w, '{');
    hf__json_close(&w, '}');
    hf__json_put_raw(&w, HF_LIT("1.25"));
    hf__json_close(&w, ']');
    hf__json_close(&w, '}');
    CHECK(!buf.failed);
    hf__json_reader_init(&r, hf__buf_view(&buf), LIMIT, &arena);
    hf__json_object(&r);
    CHECK(hf__json_key(&r, &key));
    CHECK_SLICE(key, hf__slice(all, sizeof all));
    CHECK(hf__json_string(&r, &text));
    CHECK_SLICE(text, hf__slice(all, sizeof all));
    CHECK(hf__json_key(&r, &key));
    CHECK_SLICE(hf__slice(r.at, (size_t)(r.end - r.at)),
                HF_LIT("[-9223372036854775808,false,null,{},1.25]}"));
    hf__buf_free(&buf);
    hf__arena_free(&arena);
}

TEST(every_byte_that_must_be_escaped_is_however_many_follow_each_other)
{
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i % 33 == 32 ? '"' : i % 33);
    struct hf_buf buf;
    struct hf_json_writer w;
    struct hf_json_reader r;
    struct hf_arena arena = {0};
    struct hf_slice back;
    hf__buf_init(&buf, 1 << 20);
    hf__json_writer_init(&w, &buf);
    hf__json_put_string(&w, hf__slice(text, sizeof text));
    hf__json_reader_init(&r, hf__buf_view(&buf), LIMIT, &arena);
    CHECK(hf__json_string(&r, &back));
    CHECK(hf__slice_eq(back, hf__slice(text, sizeof text)));
    hf__arena_free(&arena);
    hf__buf_free(&buf);
}

TEST(the_writer_refuses_bad_utf8)
{
    struct hf_buf buf;
    struct hf_json_writer w;
    hf__buf_init(&buf, LIMIT);
    hf__json_writer_init(&w, &buf);
    hf__json_put_string(&w, HF_LIT("a\xff"));
    CHECK(buf.failed);
    hf__buf_free(&buf);
}

static void read_with_escapes(void)
{
    static const char document[] =
        "{\"\\u0061\":\"\\n\",\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
        "\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1,\"r\":\"\\t\"}";
    int code = read_all(hf__slice_str(document), NULL);
    CHECK_INT(code, hf_alloc_has_failed() ? HF_ERR_NO_MEMORY : 0);
}

TEST(survives_want_of_memory)
{
    CHECK(hf_test_torture(read_with_escapes) >= 1);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(accepts_what_rfc_8259_accepts),
        RUN(refuses_everything_else_with_a_position),
        RUN(a_nul_byte_is_not_the_end),
        RUN(duplicates_are_found_among_many_keys_and_in_any_spelling),
        RUN(depth_and_size_are_bounded),
        RUN(pulls_values_as_they_are),
        RUN(the_first_error_stays),
        RUN(what_is_written_reads_back),
        RUN(every_byte_that_must_be_escaped_is_however_many_follow_each_other),
        RUN(the_writer_refuses_bad_utf8),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
