#include "store/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"

#define SECOND_US INT64_C(1000000)

static const int64_t open_for_us = 3600 * SECOND_US;
static const int64_t far_ahead_us = 24 * 3600 * SECOND_US;
/* A wall clock that shows less was never set: 2026-01-01. */
static const int64_t plausible_us = INT64_C(1767225600) * SECOND_US;

/* ---- what the file says ---- */

/* In unix or kernel boot microseconds. */
struct rows {
    bool exist;
    bool same_boot;
    int64_t low_us, high_us, closes_us, last_us;
    int64_t started_us; /* wall − boot, when the last was written down; 0: not known */
};

static int get(struct hf_database *db, const char *name, int64_t *ret, char *ret_text, size_t size,
               struct hf_error *reterr)
{
    sqlite3_stmt *row = hf__database_prepare(db, HF_SQL_META_GET, reterr);
    if (!row) return reterr->code;
    hf__bind_text(row, 1, hf__slice_str(name));
    int result = sqlite3_step(row);
    int code = 0;
    if (result == SQLITE_ROW && ret) *ret = sqlite3_column_int64(row, 0);
    else if (result == SQLITE_ROW) snprintf(ret_text, size, "%.*s", HF_FMT(hf__column(row, 0)));
    else if (result != SQLITE_DONE) code = hf__database_error(db, "read", reterr);
    sqlite3_reset(row);
    return code;
}

static int set(struct hf_database *db, const char *name, int64_t value, struct hf_error *reterr)
{
    sqlite3_stmt *row = hf__database_prepare(db, HF_SQL_META_SET, reterr);
    if (!row) return reterr->code;
    hf__bind_text(row, 1, hf__slice_str(name));
    sqlite3_bind_int64(row, 2, value);
    return hf__database_step(db, row, reterr);
}

static int set_text(struct hf_database *db, const char *name, const char *value,
                    struct hf_error *reterr)
{
    sqlite3_stmt *row = hf__database_prepare(db, HF_SQL_META_SET, reterr);
    if (!row) return reterr->code;
    hf__bind_text(row, 1, hf__slice_str(name));
    hf__bind_text(row, 2, hf__slice_str(value));
    return hf__database_step(db, row, reterr);
}

/* In a transaction: all rows of one moment. */
static int read_rows(struct hf_database *db, const char *boot, struct rows *ret,
                     struct hf_error *reterr)
{
    char known[64] = "";
    *ret = (struct rows){.low_us = INT64_MIN};
    int code = get(db, "clock_boot", NULL, known, sizeof known, reterr);
    if (code == 0) code = get(db, "clock_offset_us", &ret->high_us, NULL, 0, reterr);
    if (code == 0) code = get(db, "clock_low_us", &ret->low_us, NULL, 0, reterr);
    if (code == 0) code = get(db, "clock_closes_us", &ret->closes_us, NULL, 0, reterr);
    if (code == 0) code = get(db, "clock_last_us", &ret->last_us, NULL, 0, reterr);
    if (code == 0) code = get(db, "clock_started_us", &ret->started_us, NULL, 0, reterr);
    ret->exist = ret->last_us != 0;
    ret->same_boot = boot[0] && strcmp(boot, known) == 0;
    if (ret->low_us == INT64_MIN || ret->low_us > ret->high_us) ret->low_us = ret->high_us;
    return code;
}

/* ---- this kernel ---- */

static size_t read_small(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, ret, size - 1) : -1;
    if (fd >= 0) close(fd);
    ret[len > 0 ? (size_t)len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}

/* The id that tells this boot from others; "" if there is none. */
static void boot_identity(char *ret, size_t size)
{
    read_small("/proc/sys/kernel/random/boot_id", ret, size);
    ret[strcspn(ret, "\n")] = '\0';
}

static bool is_same_link(const char *a, const char *b)
{
    char first[64] = "", second[64] = "";
    ssize_t got = readlink(a, first, sizeof first - 1);
    ssize_t also = readlink(b, second, sizeof second - 1);
    return (got < 0 && also < 0) || strcmp(first, second) == 0;
}

/*
 * Our boot clock − the kernel's: containers may have a time namespace. False: that is not known.
 * The kernel shows the offset for our children.
 */
static bool namespace_us(int64_t *ret)
{
    char text[256];
    long long seconds = 0, nanoseconds = 0;
    *ret = 0;
    read_small("/proc/self/timens_offsets", text, sizeof text);
    const char *at = strstr(text, "boottime");
    if (at && sscanf(at, "boottime %lld %lld", &seconds, &nanoseconds) == 2)
        *ret = seconds * SECOND_US + nanoseconds / 1000;
    else if (read_small("/proc/self/stat", text, sizeof text) == 0) return false;
    return is_same_link("/proc/self/ns/time", "/proc/self/ns/time_for_children");
}

/* ---- who has it open ---- */

enum { OPENING, IS_OPEN }; /* bytes of PATH-open */

static bool try_lock(int fd, short type, int byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* As SQLite does with its own files: a user who may open one may open the other. */
static void share_as(int fd, const char *path)
{
    struct stat file, own;
    if (stat(path, &file) != 0 || fstat(fd, &own) != 0) return;
    if (own.st_uid == geteuid() && (own.st_mode & 0777) != (file.st_mode & 0666)) {
        if (fchmod(fd, file.st_mode & 0666) != 0) return;
    }
    if (geteuid() == 0 && fchown(fd, file.st_uid, file.st_gid) != 0) return;
}

/* Whether the path still leads to the file that we hold locks on. */
static bool is_still_there(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

static int open_lock(struct hf_timeline *timeline, struct hf_database *db, struct hf_error *reterr)
{
    char path[4096];
    const char *file = sqlite3_db_filename(db->handle, "main"); /* without links, absolute */
    if (snprintf(path, sizeof path, "%s-open", file) >= (int)sizeof path)
        return hf__error_set(reterr, HF_ERR_INVALID, "%s: the path is too long", file);
    timeline->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (timeline->lock_fd < 0)
        return hf__error_set(reterr, errno == ENOSPC ? HF_ERR_FULL : HF_ERR_READ_ONLY,
                             "cannot open %s: %s; make it writable for this user", path,
                             strerror(errno));
    share_as(timeline->lock_fd, file);
    return 0;
}

/* If it was deleted while we locked it, later processes would not see our locks. */
static int check_lock(const struct hf_timeline *timeline, const struct hf_database *db,
                      struct hf_error *reterr)
{
    char path[4096];
    snprintf(path, sizeof path, "%s-open", sqlite3_db_filename(db->handle, "main"));
    if (is_still_there(timeline->lock_fd, path)) return 0;
    return hf__error_set(reterr, HF_ERR_DAMAGED,
                         "%s was replaced while it was being opened; try again", path);
}

/* One at a time; and whether nobody else has it open. */
static int take_turn(struct hf_timeline *timeline, struct hf_database *db, bool *ret_alone,
                     struct hf_error *reterr)
{
    enum { LONGEST_US = 10000 };
    int64_t pause_us = 200, now_us = hf__clock_boot_us(&hf__clock_system);
    int64_t give_up_us = now_us + (int64_t)db->busy_timeout_ms * 1000;
    while (!try_lock(timeline->lock_fd, F_WRLCK, OPENING)) {
        if (errno != EAGAIN && errno != EACCES)
            return hf__error_set(reterr, HF_ERR_IO, "cannot lock %s-open: %s", db->name,
                                 strerror(errno));
        if (hf__clock_boot_us(&hf__clock_system) > give_up_us)
            return hf__error_set(reterr, HF_ERR_BUSY,
                                 "%s: another process has been opening it for long", db->name);
        usleep((useconds_t)(pause_us + (int64_t)(hf__random_u64() % (uint64_t)pause_us)));
        if (pause_us < LONGEST_US) pause_us *= 2;
    }
    *ret_alone = try_lock(timeline->lock_fd, F_WRLCK, IS_OPEN);
    return 0;
}

/* From now on we have it open, and others may open it. */
static void settle(struct hf_timeline *timeline)
{
    try_lock(timeline->lock_fd, F_RDLCK, IS_OPEN);
    try_lock(timeline->lock_fd, F_UNLCK, OPENING);
}

/* ---- choosing ---- */

/* M3, M4. `boot_us` is the kernel's. */
static void begin_anew(struct rows *rows, int64_t wall_us, int64_t boot_us,
                       const struct hf_log *log, const char *name)
{
    int64_t low = wall_us, high = wall_us;
    if (rows->exist && wall_us >= rows->last_us) {
        low = rows->last_us;
    } else if (rows->exist && rows->last_us - wall_us > far_ahead_us && wall_us > plausible_us) {
        hf__log(log, HF_LOG_WARN,
                "%s: its time was %lld hours ahead of this machine's clock, and is set back; locks "
                "that were not released look held until then",
                name, (long long)((rows->last_us - wall_us) / SECOND_US / 3600));
    } else if (rows->exist) {
        low = high = rows->last_us;
    }
    rows->low_us = low - boot_us;
    rows->high_us = high - boot_us;
    rows->closes_us = low < high ? boot_us + open_for_us : boot_us;
    rows->last_us = low;
    rows->started_us = wall_us - boot_us;
}

static int write_rows(struct hf_database *db, const char *boot, const struct rows *rows,
                      struct hf_error *reterr)
{
    int code = set_text(db, "clock_boot", boot, reterr);
    if (code == 0) code = set(db, "clock_offset_us", rows->high_us, reterr);
    if (code == 0) code = set(db, "clock_low_us", rows->low_us, reterr);
    if (code == 0) code = set(db, "clock_closes_us", rows->closes_us, reterr);
    if (code == 0) code = set(db, "clock_last_us", rows->last_us, reterr);
    if (code == 0) code = set(db, "clock_started_us", rows->started_us, reterr);
    return code;
}

static struct hf_interval at(const struct rows *rows, int64_t boot_us)
{
    int64_t high = boot_us + rows->high_us;
    int64_t low = boot_us < rows->closes_us ? boot_us + rows->low_us : high;
    return (struct hf_interval){.known = true, .lo_unix_us = low, .hi_unix_us = high};
}

/*
 * The time line of this boot is there already. Boot ids may be masked, or made up by containers:
 * where the boot clock has gone on and the wall clock with it, it is the same boot, too.
 */
static bool goes_on(const struct rows *rows, int64_t wall_us, int64_t boot_us)
{
    int64_t off = rows->started_us - (wall_us - boot_us);
    bool same_kernel = rows->started_us && off < 2 * SECOND_US && off > -2 * SECOND_US;
    return rows->exist && (rows->same_boot || same_kernel) &&
           at(rows, boot_us).hi_unix_us >= rows->last_us;
}

/* A time line that is being opened. */
struct opening {
    struct hf_timeline *timeline;
    struct hf_database *db;
    const struct hf_clock *clock;
    const struct hf_log *log;
    char boot[64];   /* id */
    int64_t boot_us; /* the kernel's */
    bool knows_kernel;
    bool is_file;
    struct rows rows;
};

/* The usual case: nobody waits, neither for a sync nor for their turn. */
static int find(struct opening *o, bool *ret_found, struct hf_error *reterr)
{
    struct hf_database *db = o->db;
    int64_t wall_us = hf__clock_wall_us(o->clock);
    *ret_found = false;
    for (int i = 0; i < 2; i++) { /* once more when nobody can change it any more */
        int code = hf__database_run(db, HF_SQL_BEGIN_READ, reterr);
        if (code == 0) code = read_rows(db, o->boot, &o->rows, reterr);
        hf__database_rollback(db);
        if (code == 0 && !sqlite3_get_autocommit(db->handle)) code = hf__error_no_memory(reterr);
        if (code != 0) return code;
        *ret_found = goes_on(&o->rows, wall_us, o->boot_us) &&
                     (i == 1 || try_lock(o->timeline->lock_fd, F_RDLCK, IS_OPEN));
        if (!*ret_found) break;
    }
    if (!*ret_found) try_lock(o->timeline->lock_fd, F_UNLCK, IS_OPEN);
    return 0;
}

static int choose(struct opening *o, bool alone, struct hf_error *reterr)
{
    struct hf_database *db = o->db;
    int64_t wall_us = hf__clock_wall_us(o->clock);
    int code = hf__database_run(db, HF_SQL_BEGIN_WRITE, reterr);
    if (code == 0) code = read_rows(db, o->boot, &o->rows, reterr);
    if (code == 0 && (!o->rows.exist || (alone && !goes_on(&o->rows, wall_us, o->boot_us)))) {
        begin_anew(&o->rows, wall_us, o->boot_us, o->log, db->name);
        code = write_rows(db, o->boot, &o->rows, reterr);
    }
    if (code == 0) code = hf__database_run(db, HF_SQL_COMMIT, reterr);
    hf__database_rollback(db);
    return code;
}

static int open_rows(struct opening *o, struct hf_error *reterr)
{
    bool found = false, alone = true;
    boot_identity(o->boot, sizeof o->boot);
    int code = o->is_file ? open_lock(o->timeline, o->db, reterr) : 0;
    if (code == 0 && o->is_file && o->knows_kernel) code = find(o, &found, reterr);
    if (code == 0 && found) code = check_lock(o->timeline, o->db, reterr);
    if (code != 0 || found) return code;
    if (o->is_file) code = take_turn(o->timeline, o->db, &alone, reterr);
    if (code == 0 && !alone && !o->knows_kernel)
        code =
            hf__error_set(reterr, HF_ERR_INVALID,
                          "%s: others have it open, and by what clock cannot be told: /proc must "
                          "be mounted, and the time namespace be ours",
                          o->db->name);
    if (code == 0) code = choose(o, alone, reterr);
    if (code == 0 && o->is_file) code = check_lock(o->timeline, o->db, reterr);
    if (code == 0 && o->is_file) settle(o->timeline);
    return code;
}

int hf__timeline_open(struct hf_timeline *timeline, struct hf_database *db,
                      const struct hf_clock *clock, bool is_file, const struct hf_log *log,
                      struct hf_error *reterr)
{
    struct hf_error error = {0};
    struct opening opening = {
        .timeline = timeline, .db = db, .clock = clock, .log = log, .is_file = is_file};
    const struct rows *rows = &opening.rows;
    int64_t namespace;
    opening.knows_kernel = namespace_us(&namespace);
    opening.boot_us = hf__clock_boot_us(clock) - namespace;
    *timeline = (struct hf_timeline){.lock_fd = -1};
    int code = open_rows(&opening, &error);
    if (code != 0) {
        hf__timeline_close(timeline);
        return hf__error_set(reterr, code, "%s", error.message);
    }
    timeline->low_us = rows->low_us - namespace;
    timeline->high_us = rows->high_us - namespace;
    timeline->closes_us = rows->closes_us + namespace;
    timeline->written_us = rows->last_us;
    timeline->clock = clock;
    timeline->namespace_us = namespace;
    return 0;
}

void hf__timeline_close(struct hf_timeline *timeline)
{
    if (timeline->lock_fd >= 0) close(timeline->lock_fd);
    timeline->lock_fd = -1;
}

/* ---- using it ---- */

struct hf_interval hf__timeline_at(const struct hf_timeline *timeline, int64_t boot_us)
{
    const struct rows rows = {
        .low_us = timeline->low_us, .high_us = timeline->high_us, .closes_us = timeline->closes_us};
    return at(&rows, boot_us);
}

int hf__timeline_write_down(struct hf_timeline *timeline, struct hf_database *db, int64_t boot_us,
                            struct hf_error *reterr)
{
    int64_t now = hf__timeline_at(timeline, boot_us).lo_unix_us;
    timeline->pending_us = timeline->written_us;
    if (now - timeline->written_us < SECOND_US) return 0;
    timeline->pending_us = now;
    sqlite3_stmt *raise = hf__database_prepare(db, HF_SQL_META_RAISE, reterr);
    if (!raise) return reterr->code;
    hf__bind_text(raise, 1, HF_LIT("clock_last_us"));
    sqlite3_bind_int64(raise, 2, now);
    int code = hf__database_step(db, raise, reterr);
    int64_t started_us = hf__clock_wall_us(timeline->clock) - (boot_us - timeline->namespace_us);
    return code == 0 ? set(db, "clock_started_us", started_us, reterr) : code;
}

void hf__timeline_committed(struct hf_timeline *timeline)
{
    timeline->written_us = timeline->pending_us;
}
