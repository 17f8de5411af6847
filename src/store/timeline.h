/*
 * The time of an embedded store: the kernel's boot clock plus an offset kept in the file.
 *
 * Invariants
 * M1  All processes that have the file open agree on its time. They run on one kernel (place.h), so
 *     they share the boot clock, whatever their containers say: a process that opens a file which
 *     is already open takes the offset it finds.
 * M2  It does not jump when somebody sets the wall clock.
 * M3  When the first process opens the file after a reboot, it is not known how long the machine
 *     was down. The time is then an interval: no earlier than the last that was written down, no
 *     later than the wall clock says. Leases are judged by its low end and written by its high end,
 *     so a wall clock that is wrong frees nobody's lock. After an hour only the high end is left.
 * M4  It is set back only where it was days ahead of a plausible wall clock, and then only by a
 *     process that is alone. Locks then look held for longer, never for less.
 *
 * A process that has the file open holds a lock on PATH-open, which the kernel drops when the
 * process ends.
 */
#ifndef HF_STORE_TIMELINE_H
#define HF_STORE_TIMELINE_H

#include "base/clock.h"
#include "base/log.h"
#include "base/store_time.h"
#include "store/database.h"

struct hf_timeline {
    int64_t low_us; /* store time − boot time */
    int64_t high_us;
    int64_t closes_us;  /* boot time from which on only the high end counts */
    int64_t written_us; /* the last time that was written down */
    int64_t pending_us; /* … in the transaction that is open */
    int lock_fd;        /* -1: nobody else can have it open */
    const struct hf_clock *clock;
    int64_t namespace_us; /* our boot clock − the kernel's */
};

/* Blocks while another process opens the file. `is_file`: not a database in memory. */
int hf__timeline_open(struct hf_timeline *timeline, struct hf_database *db,
                      const struct hf_clock *clock, bool is_file, const struct hf_log *log,
                      struct hf_error *reterr);

struct hf_interval hf__timeline_at(const struct hf_timeline *timeline, int64_t boot_us);

/* In a write transaction: writes the time down if that was last done a second ago. Then, if it was
 * committed, tell. */
int hf__timeline_write_down(struct hf_timeline *timeline, struct hf_database *db, int64_t boot_us,
                            struct hf_error *reterr);
void hf__timeline_committed(struct hf_timeline *timeline);

/* When the database is closed. */
void hf__timeline_close(struct hf_timeline *timeline);

#endif
