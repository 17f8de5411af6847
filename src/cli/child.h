/*
 * The command that runs under a lock, as its parent sees it: the warden (warden.h).
 *
 * It gets a process group of its own, so that all processes that it starts can be signalled
 * together; on a terminal it also becomes the foreground group. Where the terminal cannot be handed
 * over (holdfast is part of a pipeline or of a script) it stays in our group, and only the command
 * itself is signalled. Its parent adopts its orphans, so that all of them can be killed. If the
 * parent is killed, the command is killed too.
 *
 * Its process is forked while the lock is waited for, and executes the command when it gets its
 * orders: a waiter that has got the lock need not fork first.
 */
#ifndef HF_CLI_CHILD_H
#define HF_CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct child {
    pid_t pid;
    bool own_group;
    bool takes_terminal; /* when it is started */
    bool is_over;
    bool is_stopped;
    bool is_suspended; /* … by its terminal, so that its shell can continue */
    int status;        /* as of waitpid, when it has ended */
    int orders_fd;     /* where it waits for its orders; -1: it has them */
    int report_fd;     /* readable when it was executed, or could not be; -1: already known */
};

/*
 * Remembers what this process was started with: its open files, which the child inherits and no
 * others; its scheduling priority; whether SIGPIPE is ignored. Call it before anything else.
 */
void child_remember(void);

enum { CHILD_TEXT_SIZE = 1100 }; /* for a name or an owner, which the library bounds */

/* What is known only when the lock is held; variables as "NAME=value". */
struct child_orders {
    bool own_group;
    bool takes_terminal;
    bool has_token;
    char token[48], lock[CHILD_TEXT_SIZE], owner[CHILD_TEXT_SIZE];
};

/* Forks a process that waits for its orders; 0, or errno. `argv` must stay valid. */
int child_prepare(struct child *child, char *const *argv);
/* Kills it while it waits. */
void child_discard(struct child *child);

/* Gives it its orders: it executes the program, which is not waited for. 0, or errno: it is over. */
int child_start(struct child *child, const struct child_orders *orders);

/* Whether it was executed by now (error 0), or could not be (its errno). */
bool child_has_started(struct child *child, int *ret_error);

/* Lets it go on if it was stopped before it executed the program; by which signal, or 0. */
int child_unstop(const struct child *child);

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
