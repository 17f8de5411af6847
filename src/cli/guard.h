/*
 * Keeps a command within the lease of its lock. The warden (warden.h) keeps the time and does the
 * killing; this is our side of it: the lease's end, signals, the terminal, messages.
 *
 *   |---- lease, counted from before the last confirmed renewal was sent ----|
 *                                      | SIGTERM      | SIGKILL     | the end
 *                                      |- kill after -|-- margin ---|
 *
 * Invariants
 * Z1  The child is gone before the lease ends, as far as SIGKILL can ensure it.
 * Z2  A child that was told to end must end, even if a renewal succeeds after all.
 */
#ifndef HF_CLI_GUARD_H
#define HF_CLI_GUARD_H

#include "cli/cli.h"

struct guard_options {
    int64_t lease_ms;
    int64_t kill_after_ms; /* 0: a quarter of the lease, at most 10 s */
};

struct guard_result {
    int exit_code;    /* of the child, or why it did not run */
    bool was_started; /* if not, a message has been printed */
    bool lost;        /* the lock ended first */
    int ended_by;     /* a signal that asked us to end; 0: none */
};

/* Sets the options of an acquire so that the guard learns of the lock's end. */
void guard_listen(struct hf_acquire_options *how);

/* Releases a lock that the guard listens to; a signal ends the wait, not the release. */
int guard_release(struct hf_lock *lock, struct hf_error *reterr);

/* Call it before there are threads: 0, or an exit code and a message. `argv` is the command's, and
 * must stay valid. */
int guard_begin(char *const *argv);
void guard_end(void);

/* Runs the command. The caller keeps the lock; it is not released. */
struct guard_result guard_run(struct cli *cli, struct hf_client *client, struct hf_lock *lock,
                              char *const *argv, const struct guard_options *options);

/* Prints a message if the options contradict each other. */
bool guard_check(const struct guard_options *options);

#endif
