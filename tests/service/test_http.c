/* What a request looks like: its head, and a body in chunks. No socket is needed for that. */
#include "harness/test.h"
#include "service/http/chunks.h"
#include "service/http/head.h"

static struct hf_head head;
static char text[4096];
static const char *why;

static int parse(const char *request)
{
    size_t len = strlen(request);
    memcpy(text, request, len);
    return hf__head_parse(text, len, &head, &why);
}

TEST(a_request_is_taken_apart)
{
    CHECK_INT(parse("POST /v2/locks/a%20b/acquire?x=1&y HTTP/1.1\r\nHost: h\r\nX-Empty:\r\n"
                    "Content-Length:  12 \t\r\nexpect: 100-Continue\r\n\r\n"),
              0);
    CHECK_STR(head.method, "POST");
    CHECK_STR(head.path, "/v2/locks/a%20b/acquire");
    CHECK_STR(head.query, "x=1&y");
    CHECK_INT(head.length, 12);
    CHECK(head.expects && !head.chunked && !head.closes && !head.is_old);
    CHECK_STR(hf__head_field(&head, "HOST"), "h");
    CHECK_STR(hf__head_field(&head, "x-empty"), "");
    CHECK(!hf__head_field(&head, "X"));
}

TEST(a_target_may_name_its_host)
{
    CHECK_INT(parse("GET http://h:80/a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    CHECK_STR(head.path, "/a");
    CHECK_STR(head.query, "b=c");
    CHECK_INT(parse("GET https://h?b HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    CHECK_STR(head.path, "/");
    CHECK_STR(head.query, "b");
    CHECK_INT(parse("GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

TEST(who_keeps_the_connection)
{
    static const struct {
        const char *request;
        bool closes;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, CLOSE\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(parse(cases[i].request), 0);
        CHECK_INT(head.closes, cases[i].closes);
    }
}

/* Whatever two readers could understand in two ways is refused. */
TEST(what_is_ambiguous_or_malformed_is_refused)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET /\r\nHost: a\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
        {"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = parse(cases[i].request);
        if (status != cases[i].status)
            hf_test_fail(__FILE__, __LINE__, "%d, expected %d: %s", status, cases[i].status,
                         cases[i].request);
        CHECK(why && *why);
    }
    memcpy(text, "GET / HTTP/1.1\r\nHost: \0\r\n\r\n", 27);
    CHECK_INT(hf__head_parse(text, 27, &head, &why), 400);
}

TEST(a_length_that_cannot_be_counted_is_a_large_one)
{
    CHECK_INT(parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: "
                    "1000000000000000000000000000000\r\n\r\n"),
              0);
    CHECK(head.length == INT64_MAX);
}

TEST(there_are_only_so_many_headers)
{
    char many[4096];
    int len = snprintf(many, sizeof many, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 1; i < HF_FIELDS_MOST; i++)
        len += snprintf(many + len, sizeof many - (size_t)len, "X%d: y\r\n", i);
    snprintf(many + len, sizeof many - (size_t)len, "\r\n");
    CHECK_INT(parse(many), 0);
    CHECK_INT(head.count, HF_FIELDS_MOST);
    snprintf(many + len, sizeof many - (size_t)len, "One-more: y\r\n\r\n");
    CHECK_INT(parse(many), 431);
}

TEST(the_end_of_a_head_is_found_wherever_it_is_cut)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    const size_t end = sizeof "GET / HTTP/1.1\r\nHost: a\r\n\r\n" - 1;
    for (size_t cut = 0; cut < sizeof request; cut++) {
        size_t scanned = 0;
        size_t first = hf__head_end(hf__slice(request, cut), &scanned);
        CHECK_INT(first, cut >= end ? end : 0);
        if (first == 0) CHECK_INT(hf__head_end(hf__slice_str(request), &scanned), end);
    }
}

/* ---- chunks ---- */

/* The body as it was sent, fed so many bytes at a time; NULL: it was refused or has no end. */
static const char *unchunk(const char *body, size_t len, size_t at_a_time, size_t *ret_used)
{
    static char whole[4096];
    struct hf_chunks chunks = {0};
    size_t used = 0, size = 0;
    for (;;) {
        size_t left = len - used;
        struct hf_slice bytes = hf__slice(body + used, left < at_a_time ? left : at_a_time), data;
        size_t had = bytes.len;
        enum hf_chunks_result result = hf__chunks_next(&chunks, &bytes, &data);
        used += had - bytes.len;
        if (result == HF_CHUNKS_DATA) {
            memcpy(whole + size, data.ptr, data.len);
            size += data.len;
        } else if (result == HF_CHUNKS_END) {
            whole[size] = '\0';
            *ret_used = used;
            return whole;
        } else if (result == HF_CHUNKS_BAD || used == len) {
            return NULL;
        }
    }
}

TEST(chunks_are_put_together_however_they_come_in)
{
    static const char body[] = "5;a=b\r\nhello\r\n1\r\n \r\n00A \t;x\r\n0123456789\r\n0;x\r\n"
                               "Trailer: y\r\nAnother: z\r\n\r\nGET";
    for (size_t at_a_time = 1; at_a_time < sizeof body; at_a_time++) {
        size_t used = 0;
        const char *whole = unchunk(body, sizeof body - 1, at_a_time, &used);
        CHECK(whole);
        CHECK_STR(whole, "hello 0123456789");
        CHECK_INT(used, sizeof body - 1 - 3);
    }
}

TEST(chunks_that_are_malformed_are_refused)
{
    static const char *const cases[] = {
        "\r\n\r\n",         "zz\r\n",
        "-1\r\nx\r\n",      "5\r\nhello!\r\n0\r\n\r\n",
        "5\nhello\r\n",     "5\r\nhello\n",
        "5 x\nhello",       "2 junk 7\r\nhi\r\n",
        "2;\x01\r\nhi\r\n", "FFFFFFFFFFFFFFFFFFFF\r\n",
        "0\r\nX\n\r\n",     "0\r\n\n",
        "5;a\rx\r\n",       "0\r\nX: y\rz\r\n\r\n",
        "40000001\r\nx",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t used;
        if (unchunk(cases[i], strlen(cases[i]), 100, &used))
            hf_test_fail(__FILE__, __LINE__, "taken: %s", cases[i]);
    }
    static char extension[8192];
    size_t used;
    memset(extension, 'x', sizeof extension);
    memcpy(extension, "1;", 2);
    CHECK(!unchunk(extension, sizeof extension, 100, &used));
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_request_is_taken_apart),
        RUN(a_target_may_name_its_host),
        RUN(who_keeps_the_connection),
        RUN(what_is_ambiguous_or_malformed_is_refused),
        RUN(a_length_that_cannot_be_counted_is_a_large_one),
        RUN(there_are_only_so_many_headers),
        RUN(the_end_of_a_head_is_found_wherever_it_is_cut),
        RUN(chunks_are_put_together_however_they_come_in),
        RUN(chunks_that_are_malformed_are_refused),
    };
    return RUN_TESTS(tests);
}
