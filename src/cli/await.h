/* Waiting for a lock, while handling signals and showing progress at a terminal. */
#ifndef HF_CLI_AWAIT_H
#define HF_CLI_AWAIT_H

#include "cli/cli.h"

struct await_options {
    int64_t wait_ms; /* 0: try; HF_FOREVER */
    bool retry;      /* wait for an unreachable store as well */
    /* Called on this thread when another holder is found; NULL: not wanted. */
    void (*held_by)(void *user, const char *owner);
    void *user;
};

/*
 * 0, and the lock; HF_ERR_HELD or HF_ERR_TIMED_OUT; the store's error; or HF_ERR_CANCELLED with
 * the signal that ended it. Unless it is 0, nothing is left behind.
 */
struct await_result {
    struct hf_lock *lock;
    int signal;
    struct hf_error error;
};
int await_lock(struct cli *cli, struct hf_client *client, const char *name,
               const struct await_options *options, const struct hf_acquire_options *how,
               struct await_result *ret);

/* Opens a client; with `retry`, as soon as the store permits. The signal that ended it, or 0. */
int open_patiently(struct cli *cli, const struct client_use *use, bool retry,
                   struct hf_client **ret, int *ret_signal, struct hf_error *reterr);

/* Whether the store may recover from this error. */
bool is_outage(int code);

#endif
