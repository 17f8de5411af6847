#include "harness/test.h"
#include "item/number.h"

static struct hf_number number(const char *text)
{
    struct hf_number n;
    struct hf_error error;
    if (hf__number_parse(hf__slice_str(text), &n, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    return n;
}

TEST(prints_canonically)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"0", "0"},
        {"-0", "0"},
        {"0.000", "0"},
        {"0e500", "0"},
        {"007", "7"},
        {"+5", "5"},
        {".5", "0.5"},
        {"5.", "5"},
        {"1.50", "1.5"},
        {"-1.50", "-1.5"},
        {"100", "100"},
        {"1e2", "100"},
        {"1E+2", "100"},
        {"123e-5", "0.00123"},
        {"00123.4500e-2", "1.2345"},
        {"1.0e0", "1"},
        {"10.01", "10.01"},
        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
        {"0.1e1", "1"},
        {"1e20", "100000000000000000000"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[HF_NUMBER_TEXT_SIZE];
        struct hf_number n = number(cases[i].text);
        size_t len = hf__number_print(&n, text);
        CHECK_STR(text, cases[i].printed);
        CHECK_INT(len, strlen(text));
    }
}

TEST(the_longest_texts_fit)
{
    char text[HF_NUMBER_TEXT_SIZE];
    static const char *const extremes[] = {
        "-9.9999999999999999999999999999999999999e125", "-1e-130",
        "-1.2345678901234567890123456789012345678e-130", "1e125"};
    for (size_t i = 0; i < COUNT_OF(extremes); i++) {
        struct hf_number n = number(extremes[i]);
        CHECK(hf__number_print(&n, text) < sizeof text);
        struct hf_number again = number(text);
        CHECK_INT(hf__number_compare(&n, &again), 0);
    }
}

TEST(refuses_what_dynamodb_refuses)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "A value provided cannot be converted into a number"},
        {"abc", "A value provided cannot be converted into a number"},
        {" 1", "A value provided cannot be converted into a number"},
        {"1 ", "A value provided cannot be converted into a number"},
        {"1e", "A value provided cannot be converted into a number"},
        {"--1", "A value provided cannot be converted into a number"},
        {"1.2.3", "A value provided cannot be converted into a number"},
        {".", "A value provided cannot be converted into a number"},
        {"NaN", "A value provided cannot be converted into a number"},
        {"1E126",
         "Number overflow. Attempting to store a number with magnitude larger than supported range"},
        {"-1E126",
         "Number overflow. Attempting to store a number with magnitude larger than supported range"},
        {"1E99999999999999999999",
         "Number overflow. Attempting to store a number with magnitude larger than supported range"},
        {"1E-131",
         "Number underflow. Attempting to store a number with magnitude smaller than supported range"},
        {"123456789012345678901234567890123456789",
         "DynamoDB only supports precision up to 38 digits"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_number n;
        struct hf_error error = {0};
        hf_test_note("%s", cases[i].text);
        CHECK_INT(hf__number_parse(hf__slice_str(cases[i].text), &n, &error), HF_ERR_VALIDATION);
        CHECK_STR(error.message, cases[i].message);
    }
}

TEST(orders_and_sorts_alike)
{
    static const char *const ascending[] = {
        "-9.9e125", "-1e20", "-100",    "-99.5", "-99",    "-10",  "-9",   "-1.5",   "-1",
        "-0.5",     "-0.05", "-1e-130", "0",     "1e-130", "0.05", "0.5",  "0.55",   "1",
        "1.5",      "9",     "10",      "10.5",  "99",     "100",  "1e20", "9.9e125"};
    for (size_t i = 0; i < COUNT_OF(ascending); i++)
        for (size_t j = 0; j < COUNT_OF(ascending); j++) {
            struct hf_number a = number(ascending[i]), b = number(ascending[j]);
            unsigned char x[HF_NUMBER_SORTABLE_SIZE], y[HF_NUMBER_SORTABLE_SIZE];
            size_t x_len = hf__number_sortable(&a, x), y_len = hf__number_sortable(&b, y);
            int expected = (i > j) - (i < j);
            hf_test_note("%s and %s", ascending[i], ascending[j]);
            CHECK_INT(hf__number_compare(&a, &b), expected);
            CHECK_INT(hf__slice_cmp(hf__slice((char *)x, x_len), hf__slice((char *)y, y_len)),
                      expected);
        }
}

TEST(adds_and_subtracts_exactly)
{
    static const struct {
        const char *a, *b, *sum, *difference;
    } cases[] = {
        {"1", "2", "3", "-1"},
        {"999", "1", "1000", "998"},
        {"0.1", "0.2", "0.3", "-0.1"},
        {"-5", "5", "0", "-10"},
        {"1e37", "1", "10000000000000000000000000000000000001",
         "9999999999999999999999999999999999999"},
        {"100", "-0.01", "99.99", "100.01"},
        {"0", "-7", "-7", "7"},
        {"1e-130", "1e-130",
         "0.000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "0000000000000000000000000000000002",
         "0"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_number a = number(cases[i].a), b = number(cases[i].b), result;
        char text[HF_NUMBER_TEXT_SIZE];
        CHECK_INT(hf__number_add(&a, &b, &result, NULL), 0);
        hf__number_print(&result, text);
        CHECK_STR(text, cases[i].sum);
        CHECK_INT(hf__number_subtract(&a, &b, &result, NULL), 0);
        hf__number_print(&result, text);
        CHECK_STR(text, cases[i].difference);
    }
}

TEST(never_rounds)
{
    static const struct {
        const char *a, *b, *message;
    } cases[] = {
        {"1e37", "0.5", "DynamoDB only supports precision up to 38 digits"},
        {"1e125", "1e-130", "DynamoDB only supports precision up to 38 digits"},
        {"9e125", "9e125",
         "Number overflow. Attempting to store a number with magnitude larger than supported range"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_number a = number(cases[i].a), b = number(cases[i].b), result;
        struct hf_error error;
        CHECK_INT(hf__number_add(&a, &b, &result, &error), HF_ERR_VALIDATION);
        CHECK_STR(error.message, cases[i].message);
    }
}

TEST(agrees_with_machine_integers)
{
    struct hf_rng rng = {1};
    for (int i = 0; i < 50000; i++) {
        int64_t x = (int64_t)hf_rng_next(&rng) >> (2 + hf_rng_below(&rng, 60));
        int64_t y = (int64_t)hf_rng_next(&rng) >> (2 + hf_rng_below(&rng, 60));
        struct hf_number a = hf__number_from_int64(x), b = hf__number_from_int64(y), sum,
                         difference;
        int64_t back = 0;
        CHECK(hf__number_to_int64(&a, &back) && back == x);
        CHECK_INT(hf__number_compare(&a, &b), (x > y) - (x < y));
        CHECK_INT(hf__number_add(&a, &b, &sum, NULL), 0);
        CHECK_INT(hf__number_subtract(&a, &b, &difference, NULL), 0);
        CHECK(hf__number_to_int64(&sum, &back) && back == x + y);
        CHECK(hf__number_to_int64(&difference, &back) && back == x - y);
        char text[HF_NUMBER_TEXT_SIZE], expected[32];
        hf__number_print(&a, text);
        snprintf(expected, sizeof expected, "%lld", (long long)x);
        CHECK_STR(text, expected);
    }
}

TEST(integers_that_do_not_fit_are_refused)
{
    int64_t value;
    static const char *const bad[] = {"0.5", "9223372036854775808", "-9223372036854775809", "1e19",
                                      "1e-5"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_number n = number(bad[i]);
        CHECK(!hf__number_to_int64(&n, &value));
    }
    struct hf_number smallest = number("-9223372036854775808");
    CHECK(hf__number_to_int64(&smallest, &value) && value == INT64_MIN);
    struct hf_number round_number = number("1e18");
    CHECK(hf__number_to_int64(&round_number, &value) && value == 1000000000000000000);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(prints_canonically),
        RUN(the_longest_texts_fit),
        RUN(refuses_what_dynamodb_refuses),
        RUN(orders_and_sorts_alike),
        RUN(adds_and_subtracts_exactly),
        RUN(never_rounds),
        RUN(agrees_with_machine_integers),
        RUN(integers_that_do_not_fit_are_refused),
    };
    return RUN_TESTS(tests);
}
