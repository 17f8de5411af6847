/*
 * A bell shared by all processes that have a file open: a process that has committed rings it, and
 * listeners hear that something may have changed. It is a hint: it may be late, spurious or
 * missing.
 *
 * It is some bytes of PATH-open that are written again, and inotify. They may tell which lock is
 * being given up: a waiter for that one tries at once, without looking first, and all others hear a
 * moment later. SQLite's own log would not serve: it is written before the commit can be seen,
 * and nothing is written when it can. A futex in a mapped file would serve, but ends every process
 * that has it mapped if the file is truncated.
 * Ringing is one system call per commit, whether or not anybody listens; listening is a thread that
 * sleeps.
 */
#ifndef HF_STORE_BELL_H
#define HF_STORE_BELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct hf_hint;

struct hf_bell {
    /* On its thread, to call hf__bell_tell; NULL: it has none. */
    void (*heard)(struct hf_bell *bell, uint64_t freed);
    pthread_mutex_t mutex; /* guards the rest; held while hints are given */
    struct hf_list hints;
    int fd;         /* of the file, to see what was freed */
    uint64_t stamp; /* of what was freed last, as far as its thread knows */
    int inotify_fd; /* -1: nobody has listened yet */
    int stop_fd;
    pthread_t thread;
    bool has_thread;
};

void hf__bell_init(struct hf_bell *bell);
/* Ends its thread: it is heard in this process only by hf__bell_tell. */
void hf__bell_stop(struct hf_bell *bell);
/* Nobody listens any more. */
void hf__bell_free(struct hf_bell *bell);

/* Tells everybody in this process. `freed`: see struct hf_hint. */
void hf__bell_tell(struct hf_bell *bell, uint64_t freed);
/*
 * … and in others: `fd` is of the file that they listen to. With `freed` it is rung before the
 * commit, by who cannot be overtaken, and again without after it.
 */
void hf__bell_ring(int fd, uint64_t freed);

/* `path` NULL: it is rung by hf__bell_tell only; `fd` is of the same file. False: it cannot be heard. */
bool hf__bell_listen(struct hf_bell *bell, const char *path, int fd, struct hf_hint *hint);
/* When this returns, the hint is not and will not be given. */
void hf__bell_unlisten(struct hf_bell *bell, struct hf_hint *hint);

#endif
