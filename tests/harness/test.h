/*
 * The test harness: one program per test file, one function per statement.
 *
 *     TEST(zero_has_no_sign) { CHECK_STR(print("-0"), "0"); }
 *     …
 *     int main(int argc, char **argv)
 *     {
 *         static const struct hf_test tests[] = {RUN(zero_has_no_sign), …};
 *         return RUN_TESTS(tests);
 *     }
 *
 * A failed CHECK ends its test; the others still run. A test that returns with
 * memory allocated has failed too. Arguments select tests by name.
 */
#ifndef HF_TEST_H
#define HF_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/slice.h"

struct hf_test {
    const char *name;
    void (*run)(void);
};

#define TEST(name) static void name(void)
#define RUN(name)                                                                                  \
    {                                                                                              \
#name, name                                                                                \
    }
#define RUN_TESTS(tests) hf_test_main(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

int hf_test_main(const struct hf_test *tests, size_t count, int argc, char **argv);

/* Ends the running test. Only on the thread that runs it. */
void hf_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* Ends the running test as skipped; the reason is printed. */
void hf_test_skip(const char *why) __attribute__((noreturn));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) hf_test_fail(__FILE__, __LINE__, "%s", #condition);                      \
    } while (0)

#define CHECK_INT(actual, expected)                                                                \
    do {                                                                                           \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                \
        if (actual_ != expected_)                                                                  \
            hf_test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #actual, actual_, expected_); \
    } while (0)

#define CHECK_SLICE(actual, expected)                                                              \
    do {                                                                                           \
        struct hf_slice actual_ = (actual), expected_ = (expected);                                \
        if (!hf__slice_eq(actual_, expected_))                                                     \
            hf_test_fail(__FILE__, __LINE__, "%s is \"%.*s\", not \"%.*s\"", #actual,              \
                         HF_FMT(actual_), HF_FMT(expected_));                                      \
    } while (0)

#define CHECK_STR(actual, expected) CHECK_SLICE(hf__slice_str(actual), hf__slice_str(expected))

/* In a table-driven test: which row is being looked at, shown when a check fails. */
void hf_test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the allocator ---- */

/* Blocks that are allocated now. */
size_t hf_alloc_live(void);
/* The n-th allocation from now on fails (1 is the next), once. 0 switches it off. */
void hf_alloc_fail_at(size_t n);
/* The n-th fails, and every one after it. */
void hf_alloc_fail_from(size_t n);
/* Whether it came to that since it was last switched on. */
bool hf_alloc_has_failed(void);

/*
 * Runs a scenario again and again, failing the first allocation, then the
 * second, and so on until it completes without needing the failing one. The
 * scenario must end cleanly each time; leaks fail the test. Returns how many
 * allocations it took.
 */
size_t hf_test_torture(void (*scenario)(void));

/* ---- reproducible randomness ---- */

struct hf_rng {
    uint64_t state;
};

uint64_t hf_rng_next(struct hf_rng *rng);
/* In [0, below). */
uint32_t hf_rng_below(struct hf_rng *rng, uint32_t below);

/* ---- virtual time ---- */

struct hf_virtual_clock {
    struct hf_clock clock;
    int64_t boot_us;
    int64_t wall_us;
};

void hf_virtual_clock_init(struct hf_virtual_clock *clock);
void hf_virtual_clock_advance(struct hf_virtual_clock *clock, int64_t us);

/* ---- scratch files ---- */

/* A new directory under TMPDIR, removed with its content when the program ends. */
const char *hf_test_directory(void);

#endif
