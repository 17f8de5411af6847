#include "harness/test.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum outcome { PASSED, FAILED, SKIPPED };

static jmp_buf leave;
static pid_t main_process; /* a child that a test forks may fail, but not go on with other tests */
static char note[256];
static char directory[256];

void hf_test_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
}

void hf_test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    hf_alloc_fail_at(0);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, note[0] ? " (%s)\n" : "%s\n", note);
    if (getpid() != main_process) _exit(1);
    longjmp(leave, FAILED);
}

void hf_test_skip(const char *why)
{
    fprintf(stderr, "SKIPPED: %s\n", why);
    longjmp(leave, SKIPPED);
}

static enum outcome run_one(const struct hf_test *test)
{
    size_t before = hf_alloc_live();
    note[0] = '\0';
    int left = setjmp(leave);
    if (left != 0) return (enum outcome)left;
    test->run();
    note[0] = '\0';
    if (hf_alloc_live() != before)
        hf_test_fail(test->name, 0, "%zu blocks of memory leaked", hf_alloc_live() - before);
    return PASSED;
}

static bool selected(const struct hf_test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], test->name) == 0) return true;
    return argc < 2;
}

int hf_test_main(const struct hf_test *tests, size_t count, int argc, char **argv)
{
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    int total[3] = {0};
    main_process = getpid();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; i++) {
        if (!selected(&tests[i], argc, argv)) continue;
        enum outcome outcome = run_one(&tests[i]);
        total[outcome]++;
        printf("%-8s %s\n", words[outcome], tests[i].name);
    }
    printf("%d passed, %d failed, %d skipped\n", total[PASSED], total[FAILED], total[SKIPPED]);
    if (total[FAILED] > 0 || total[PASSED] + total[SKIPPED] == 0) return 1;
    return total[PASSED] == 0 ? 77 : 0;
}

size_t hf_test_torture(void (*scenario)(void))
{
    enum { BOUND = 100000 };
    for (size_t n = 1; n < BOUND; n++) {
        size_t before = hf_alloc_live();
        hf_test_note("allocation %zu fails", n);
        hf_alloc_fail_at(n);
        scenario();
        bool reached = hf_alloc_has_failed();
        hf_alloc_fail_at(0);
        if (hf_alloc_live() != before)
            hf_test_fail(__FILE__, __LINE__, "%zu blocks leaked", hf_alloc_live() - before);
        if (!reached) return n - 1;
    }
    hf_test_fail(__FILE__, __LINE__, "more than %d allocations", BOUND);
}

/* splitmix64: small, fast, and the same everywhere. */
uint64_t hf_rng_next(struct hf_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t hf_rng_below(struct hf_rng *rng, uint32_t below)
{
    return (uint32_t)((hf_rng_next(rng) >> 32) * below >> 32);
}

static int64_t virtual_boot(void *user)
{
    return __atomic_load_n(&((struct hf_virtual_clock *)user)->boot_us, __ATOMIC_RELAXED);
}

static int64_t virtual_wall(void *user)
{
    return __atomic_load_n(&((struct hf_virtual_clock *)user)->wall_us, __ATOMIC_RELAXED);
}

void hf_virtual_clock_init(struct hf_virtual_clock *clock)
{
    clock->boot_us = 1000000000;
    clock->wall_us = 1800000000000000;
    clock->clock = (struct hf_clock){virtual_boot, virtual_wall, clock};
}

void hf_virtual_clock_advance(struct hf_virtual_clock *clock, int64_t us)
{
    __atomic_add_fetch(&clock->boot_us, us, __ATOMIC_RELAXED);
    __atomic_add_fetch(&clock->wall_us, us, __ATOMIC_RELAXED);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_directory(void)
{
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *hf_test_directory(void)
{
    if (directory[0]) return directory;
    const char *root = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/holdfast-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(directory)) hf_test_fail(__FILE__, __LINE__, "cannot create %s", directory);
    atexit(remove_directory);
    return directory;
}
