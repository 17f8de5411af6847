#include "harness/test.h"
#include "store/retry.h"

TEST(delays_grow_with_full_jitter_to_a_limit)
{
    static const struct {
        int made;
        bool throttled;
        int64_t longest_ms;
    } cases[] = {{1, false, 25},     {2, false, 50},     {3, false, 100}, {4, false, 200},
                 {20, false, 20000}, {1, true, 1000},    {2, true, 2000}, {5, true, 16000},
                 {6, true, 20000},   {1000, true, 20000}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        hf_test_note("after %d attempts", cases[i].made);
        CHECK_INT(hf__retry_delay_us(cases[i].made, cases[i].throttled, 0, 0), 0);
        CHECK_INT(hf__retry_delay_us(cases[i].made, cases[i].throttled, 0.5, 0),
                  cases[i].longest_ms * 500);
        CHECK(hf__retry_delay_us(cases[i].made, cases[i].throttled, 0.9999999, 0) <
              cases[i].longest_ms * 1000);
    }
}

TEST(the_servers_wish_is_honoured_within_the_limit)
{
    CHECK_INT(hf__retry_delay_us(1, false, 0, 300), 300000);
    CHECK_INT(hf__retry_delay_us(1, true, 0.9, 300), 900000);
    CHECK_INT(hf__retry_delay_us(1, false, 0, 3600000), 20000000);
}

TEST(the_bucket_pays_for_retries_and_is_refilled_by_successes)
{
    struct hf_retry_bucket bucket;
    hf__retry_init(&bucket);
    int retries = 0;
    while (hf__retry_take(&bucket, false)) retries++;
    CHECK_INT(retries, 500 / 14);
    CHECK_INT(bucket.tokens, 10);
    CHECK(hf__retry_take(&bucket, true)); /* throttling costs less */
    CHECK(hf__retry_take(&bucket, true));
    CHECK(!hf__retry_take(&bucket, true));
    hf__retry_refund(&bucket, hf__retry_cost(false));
    CHECK(hf__retry_take(&bucket, false));
    for (int i = 0; i < 10000; i++) hf__retry_refund(&bucket, 0);
    CHECK_INT(bucket.tokens, HF_RETRY_BUCKET);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(delays_grow_with_full_jitter_to_a_limit),
        RUN(the_servers_wish_is_honoured_within_the_limit),
        RUN(the_bucket_pays_for_retries_and_is_refilled_by_successes),
    };
    return RUN_TESTS(tests);
}
