#include "store/line.h"

#include <fcntl.h>

#include "base/hash.h"

/* An offset is line · 2^42 + time, in units of 64 µs: it starts anew after nine years. */
enum { LINES = 1 << 20, TIME_BITS = 42, UNIT_US = 64, TIES = 16 };
static const int64_t line_bytes = INT64_C(1) << TIME_BITS;

/* The first byte of a lock's line. The one before the first line has other uses (timeline.c). */
static int64_t line_of(struct hf_slice name)
{
    return (1 + (int64_t)hf__hash_place(hf__hash_more(HF_HASH_START, name), LINES)) * line_bytes;
}

static bool set(int fd, short type, int64_t place)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Places of [from, to) that another process has; 0: there are none, or nobody can tell. */
static int64_t find(int fd, int64_t from, int64_t to, int64_t *ret_count)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = to - from};
    if (to <= from || fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
    /* Of one process, and next to each other; a lock without an end is none of ours. */
    *ret_count = lock.l_len > 0 ? lock.l_len : to - lock.l_start;
    return lock.l_start > from ? lock.l_start : from;
}

int64_t hf__line_join(int fd, struct hf_slice name, int64_t since_us)
{
    int64_t first = line_of(name);
    int64_t place = first + (since_us > 0 ? since_us : 0) / UNIT_US % (line_bytes - TIES);
    for (int i = 0; i < TIES; i++) {
        if (set(fd, F_WRLCK, place + i)) return place + i;
    }
    return 0;
}

void hf__line_leave(int fd, int64_t place)
{
    if (place > 0) set(fd, F_UNLCK, place);
}

bool hf__line_is_first(int fd, struct hf_slice name, int64_t place)
{
    int64_t first = line_of(name), count;
    return find(fd, first, place > 0 ? place : first + line_bytes, &count) == 0;
}

/* The kernel names any one that is there: the rest of the line lies before and after it. */
static size_t count(int fd, int64_t from, int64_t to, size_t most)
{
    size_t found = 0;
    int64_t places;
    for (int64_t at; found < most && (at = find(fd, from, to, &places)) != 0; from = at + places) {
        found += (size_t)places;
        if (found < most) found += count(fd, from, at, most - found);
    }
    return found < most ? found : most;
}

size_t hf__line_count(int fd, struct hf_slice name, size_t most)
{
    int64_t first = line_of(name);
    return count(fd, first, first + line_bytes, most);
}
