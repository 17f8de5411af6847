/* The line of processes: two descriptions of one open file stand for two processes. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/test.h"
#include "store/line.h"

static char path[] = "/tmp/holdfast-line.XXXXXX";
static int files[4];

static void open_files(void)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    files[0] = mkstemp(path);
    for (int i = 1; i < 4; i++) files[i] = open(path, O_RDWR | O_CLOEXEC);
}

static void close_files(void)
{
    for (int i = 0; i < 4; i++) close(files[i]);
    unlink(path);
}

static const struct hf_slice a = {"a", 1}, b = {"b", 1};
static const int64_t noon_us = INT64_C(43200) * 1000000;

TEST(whoever_waits_longest_is_first)
{
    open_files();
    CHECK(hf__line_is_first(files[0], a, 0));
    int64_t late = hf__line_join(files[0], a, noon_us + 5000);
    int64_t early = hf__line_join(files[1], a, noon_us);
    int64_t later = hf__line_join(files[2], a, noon_us + 9000);
    CHECK(early > 0 && early < late && late < later);
    CHECK(hf__line_is_first(files[1], a, early));
    CHECK(!hf__line_is_first(files[0], a, late));
    CHECK(!hf__line_is_first(files[2], a, later));
    CHECK(!hf__line_is_first(files[3], a, 0));
    hf__line_leave(files[1], early);
    CHECK(hf__line_is_first(files[0], a, late));
    CHECK(!hf__line_is_first(files[2], a, later));
    close_files();
}

TEST(lines_of_other_locks_do_not_count)
{
    open_files();
    CHECK(hf__line_join(files[0], b, 0) > 0);
    CHECK(hf__line_is_first(files[1], a, 0));
    CHECK(hf__line_is_first(files[1], a, hf__line_join(files[1], a, noon_us)));
    close_files();
}

TEST(a_process_that_ends_leaves_the_line)
{
    open_files();
    CHECK(hf__line_join(files[0], a, noon_us) > 0);
    int64_t next = hf__line_join(files[1], a, noon_us + 1000000);
    CHECK(!hf__line_is_first(files[1], a, next));
    close(files[0]);
    CHECK(hf__line_is_first(files[1], a, next));
    files[0] = -1;
    close_files();
}

TEST(those_who_come_at_the_same_time_get_different_places)
{
    open_files();
    int64_t one = hf__line_join(files[0], a, noon_us), two = hf__line_join(files[1], a, noon_us);
    CHECK(one > 0 && two > 0 && one != two);
    CHECK(hf__line_is_first(files[0], a, one) != hf__line_is_first(files[1], a, two));
    close_files();
}

TEST(others_are_counted)
{
    open_files();
    CHECK_INT(hf__line_count(files[3], a, 100), 0);
    CHECK(hf__line_join(files[1], a, noon_us) > 0);
    CHECK(hf__line_join(files[0], a, noon_us + 500) > 0);
    CHECK(hf__line_join(files[2], a, noon_us - 500) > 0);
    CHECK(hf__line_join(files[2], b, noon_us) > 0);
    CHECK_INT(hf__line_count(files[3], a, 100), 3);
    CHECK_INT(hf__line_count(files[3], a, 2), 2);
    CHECK_INT(hf__line_count(files[0], a, 100), 2);
    for (int i = 1; i <= 3; i++) CHECK(hf__line_join(files[0], a, noon_us + 640 + 64 * i) > 0);
    CHECK_INT(hf__line_count(files[3], a, 100), 6);
    close_files();
}

TEST(a_lock_without_an_end_is_counted_once)
{
    open_files();
    int64_t place = hf__line_join(files[0], a, noon_us);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place + 1};
    CHECK_INT(fcntl(files[1], F_OFD_SETLK, &lock), 0);
    CHECK(hf__line_count(files[3], a, 100) <= 100);
    CHECK(hf__line_is_first(files[0], a, place));
    close_files();
}

TEST(without_a_file_everybody_is_first)
{
    CHECK_INT(hf__line_join(-1, a, noon_us), 0);
    CHECK(hf__line_is_first(-1, a, 0));
    CHECK_INT(hf__line_count(-1, a, 100), 0);
    hf__line_leave(-1, 0);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(whoever_waits_longest_is_first),
        RUN(lines_of_other_locks_do_not_count),
        RUN(a_process_that_ends_leaves_the_line),
        RUN(those_who_come_at_the_same_time_get_different_places),
        RUN(others_are_counted),
        RUN(a_lock_without_an_end_is_counted_once),
        RUN(without_a_file_everybody_is_first),
    };
    return RUN_TESTS(tests);
}
