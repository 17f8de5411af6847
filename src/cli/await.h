/* Waiting for a lock, with an eye on signals and on the person who waits too. */
#ifndef HF_CLI_AWAIT_H
#define HF_CLI_AWAIT_H

#include "cli/cli.h"

struct await_options {
    int64_t wait_ms; /* 0: try; HF_FOREVER */
    bool retry;      /* an outage of the store is waited for, too */
    /* Called on this thread when somebody else turns out to hold it; NULL: nobody asks. */
    void (*held_by)(void *user, const char *owner);
    void *user;
};

/*
 * 0, and the lock; HF_ERR_HELD or HF_ERR_TIMED_OUT; what the store said; or HF_ERR_CANCELLED with
 * the signal that ended it. Nothing is left behind unless it is 0.
 */
int await_lock(struct cli *cli, struct hf_client *client, const char *name,
               const struct await_options *options, const struct hf_acquire_options *how,
               struct hf_lock **ret, int *ret_signal, struct hf_error *reterr);

/* Opens a client; with `retry`, when the store lets it. The signal that ended it, or 0. */
int open_patiently(struct cli *cli, const struct client_use *use, bool retry,
                   struct hf_client **ret, int *ret_signal, struct hf_error *reterr);

/* Whether the store may come back from this. */
bool is_outage(int code);

#endif
