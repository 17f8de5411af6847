/*
 * The command that runs under a lock, as its parent sees it: the warden (warden.h).
 *
 * It gets a process group of its own, so that all it starts can be signalled together; on a
 * terminal it also gets that. Where the terminal cannot be handed over (we are part of a pipeline
 * or of a script) it stays in our group, and only itself is signalled. Its parent adopts what it
 * leaves behind, so that all of it can be killed. If the parent is killed it is killed too.
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
    bool is_suspended; /* … by its terminal, so that its shell can go on */
    int status;        /* as of waitpid, when it is over */
    int report_fd;     /* readable when it was executed, or could not be; -1: that is known */
};

/*
 * Remembers what we were given: open files, which, and no others, are the child's too; our place
 * among the processes that want to run; whether SIGPIPE is ignored. Called first of all.
 */
void child_remember(void);

/* Variables for it, in front of ours; pairs of name and value, the last one {NULL}. A value of
 * NULL: not set. */
struct child_variable {
    const char *name;
    const char *value;
};

/* Starts it as `own_group` and `takes_terminal` say; 0, or errno. Does not wait until the program
 * is executed. */
int child_start(struct child *child, char *const *argv, const struct child_variable *variables,
                struct hf_arena *arena);

/* Whether it was executed by now (error 0), or could not be (its errno). */
bool child_has_started(struct child *child, int *ret_error);

void child_signal(const struct child *child, int signal);
/* After SIGCHLD: learns what became of it. */
void child_look(struct child *child);

/* When a process began, in clock ticks since boot, and whose child it is; 0: it is gone, or cannot
 * be seen. */
unsigned long long child_began(pid_t pid);
pid_t child_parent(pid_t pid);

/* The children that we have now are nobody's business. False: /proc cannot be read, and nobody's
 * children be found. */
bool child_spare_others(void);

/* Everything below `root`, but not children of its own that are older: those of whatever was
 * exec'ed into it. */
struct brood {
    pid_t root;
    unsigned long long not_before; /* as of child_began; 0: all */
};

/*
 * SIGKILL for all of it, wherever it has gone. Returns how many are alive still: they have not died
 * yet, or may not be killed (*ret_denied: by us).
 */
int child_kill_brood(const struct brood *brood, bool *ret_denied);

/* The exit code of a status, or 128 + signal. */
int child_exit_code(int status);

#endif
