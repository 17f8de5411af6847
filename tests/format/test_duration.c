/* Leases as text: decimal milliseconds, and Go's durations. */
#include "format/duration.h"
#include "format/format.h"
#include "harness/test.h"

TEST(both_spellings_are_read)
{
    static const struct {
        const char *text;
        int64_t ms; /* 0: refused */
    } rows[] = {
        {"20000", 20000},
        {"20s", 20000},
        {"1m30s", 90000},
        {"1.5s", 1500},
        {"250ms", 250},
        {"1h0m0s", 3600000},
        {"1.5h", 5400000},
        {"2m", 120000},
        {"100us", 1},
        {"100\xc2\xb5s", 1},
        {"1500000ns", 2},
        {"0.5ms", 1},
        {".5s", 500},
        {"1h1m1.001s", 3661001},
        {"", 0},
        {"0", 0},
        {"-5", 0},
        {"0s", 0},
        {"s", 0},
        {"5", 5},
        {"5x", 0},
        {"5 s", 0},
        {"1m30", 0},
        {".s", 0},
        {"1..5s", 0},
        {"999999999999999", 0},
        {"9999999999h", 0},
        {"1e3", 0},
        {"20000ms ", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hf_test_note("\"%s\"", rows[i].text);
        int64_t ms = 0;
        bool good = hf__duration_parse(hf__slice_str(rows[i].text), &ms);
        CHECK_INT(good, rows[i].ms > 0);
        CHECK_INT(ms, rows[i].ms);
    }
}

TEST(each_spelling_is_written_as_its_clients_do)
{
    static const struct {
        int64_t ms;
        const char *go;
    } rows[] = {
        {20000, "20s"},  {90000, "1m30s"}, {1500, "1.5s"},  {250, "250ms"}, {3600000, "1h0m0s"},
        {60000, "1m0s"}, {1001, "1.001s"}, {1010, "1.01s"}, {999, "999ms"}, {3661001, "1h1m1.001s"},
    };
    struct hf_arena arena = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms;
        hf_test_note("%lld", (long long)rows[i].ms);
        CHECK_SLICE(hf__duration_print_go(&arena, rows[i].ms), hf__slice_str(rows[i].go));
        CHECK(hf__duration_parse(hf__duration_print_go(&arena, rows[i].ms), &ms));
        CHECK_INT(ms, rows[i].ms);
        CHECK(hf__duration_parse(hf__duration_print_ms(&arena, rows[i].ms), &ms));
        CHECK_INT(ms, rows[i].ms);
    }
    hf__arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(both_spellings_are_read),
        RUN(each_spelling_is_written_as_its_clients_do),
    };
    return RUN_TESTS(tests);
}
