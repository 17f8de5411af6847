/*
 * The command that runs under a lock, as its parent sees it: the warden (warden.h).
 *
 * It gets a process group of its own, so that all processes that it starts can be signalled
 * together; on a terminal it also becomes the foreground group. Where the terminal cannot be handed
 * over (holdfast is part of a pipeline or of a script) it stays in our group, and only the command
 * itself is signalled. Its parent adopts its orphans, so that all of them can be killed. If the
 * parent is killed, the command is killed too.
 */
#ifndef HF_CLI_CHILD_H
#define HF_CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"

struct child {
    pid_t pid;
    bool own_group;
    bool takes_terminal; /* when it is started */
    bool is_over;
    bool is_stopped;
    bool is_suspended; /* … by its terminal, so that its shell can continue */
    int status;        /* as of waitpid, when it has ended */
    int report_fd;     /* readable when it was executed, or could not be; -1: already known */
};

/*
 * Remembers what this process was started with: its open files, which the child inherits and no
 * others; its scheduling priority; whether SIGPIPE is ignored. Call it before anything else.
 */
void child_remember(void);

/* Variables for the child, before ours; pairs of name and value, the last one {NULL}. A value of
 * NULL: not set. */
struct child_variable {
    const char *name;
    const char *value;
};

/* Starts it as `own_group` and `takes_terminal` say; 0, or errno. Does not wait for the program to
 * be executed. */
int child_start(struct child *child, char *const *argv, const struct child_variable *variables,
                struct hf_arena *arena);

/* Whether it was executed by now (error 0), or could not be (its errno). */
bool child_has_started(struct child *child, int *ret_error);

void child_signal(const struct child *child, int signal);
/* After SIGCHLD: updates its state. */
void child_look(struct child *child);

/* The start of a process, in clock ticks since boot, and its parent; 0: it has ended, or cannot be
 * seen. */
unsigned long long child_began(pid_t pid);
pid_t child_parent(pid_t pid);

/* Excludes our present children from killing. False: /proc cannot be read, so that no children can
 * be found. */
bool child_spare_others(void);

/* All descendants of `root`, except older children of its own: those of the program that exec'ed
 * into it. */
struct brood {
    pid_t root;
    unsigned long long not_before; /* as of child_began; 0: all */
};

/*
 * Sends SIGKILL to all of them, in whatever group or session. Returns the number still alive: they
 * have not died yet, or must not be killed by us (*ret_denied).
 */
int child_kill_brood(const struct brood *brood, bool *ret_denied);

/* The exit code of a status, or 128 + signal. */
int child_exit_code(int status);

#endif
