#include "base/store_time.h"
#include "harness/test.h"

TEST(nothing_is_known_before_the_first_report)
{
    struct hf_store_time time = {0};
    CHECK(!hf__store_time_at(&time, 5).known);
}

TEST(a_report_bounds_the_time_by_sending_and_receipt)
{
    struct hf_store_time time = {0};
    CHECK(hf__store_time_report(&time, 7000000, 7999999, 1000, 3000));
    struct hf_interval now = hf__store_time_at(&time, 3000);
    CHECK(now.known);
    CHECK_INT(now.lo_unix_us, 7000000 - 20);
    CHECK_INT(now.hi_unix_us, 7999999 + 2000 + 20);
}

TEST(reports_narrow_the_interval_and_age_widens_it)
{
    struct hf_store_time time = {0};
    hf__store_time_report(&time, 7000000, 7999999, 0, 0);
    hf__store_time_report(&time, 8000000, 8999999, 500000, 500000);
    struct hf_interval now = hf__store_time_at(&time, 500000);
    CHECK_INT(now.lo_unix_us, 8000000);
    CHECK_INT(now.hi_unix_us, 7999999 + 500000 + 5000);
    struct hf_interval later = hf__store_time_at(&time, 100500000);
    CHECK_INT(later.lo_unix_us, 108000000 - 1000000);
    CHECK_INT(later.hi_unix_us - later.lo_unix_us, now.hi_unix_us - now.lo_unix_us + 2000000);
}

TEST(a_contradiction_starts_anew_and_says_so)
{
    struct hf_store_time time = {0};
    CHECK(hf__store_time_report(&time, 7000000, 7999999, 0, 0));
    CHECK(!hf__store_time_report(&time, 90000000, 90999999, 1000, 1000));
    CHECK_INT(hf__store_time_at(&time, 1000).lo_unix_us, 90000000);
}

/* T1: with true reports and rates within the margin the store's time is always inside. */
TEST(the_interval_always_contains_the_truth)
{
    struct hf_rng rng = {7};
    for (int round = 0; round < 200; round++) {
        struct hf_store_time time = {0};
        int64_t rate_per_mille = 995 + hf_rng_below(&rng, 11); /* store seconds per our 1000 */
        int64_t base = 1800000000000000 + hf_rng_below(&rng, 1000000);
        int64_t now = hf_rng_below(&rng, 1000000);
        for (int i = 0; i < 60; i++) {
            int64_t sent = now, delay = hf_rng_below(&rng, 400000);
            int64_t served = sent + (delay ? hf_rng_below(&rng, (uint32_t)delay) : 0);
            int64_t truth = base + served * rate_per_mille / 1000;
            int64_t second = truth / 1000000 * 1000000;
            CHECK(hf__store_time_report(&time, second, second + 999999, sent, sent + delay));
            now = sent + delay + hf_rng_below(&rng, 30000000);
            struct hf_interval at = hf__store_time_at(&time, now);
            truth = base + now * rate_per_mille / 1000;
            CHECK(at.lo_unix_us <= truth && truth <= at.hi_unix_us);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(nothing_is_known_before_the_first_report),
        RUN(a_report_bounds_the_time_by_sending_and_receipt),
        RUN(reports_narrow_the_interval_and_age_widens_it),
        RUN(a_contradiction_starts_anew_and_says_so),
        RUN(the_interval_always_contains_the_truth),
    };
    return RUN_TESTS(tests);
}
