/*
 * The command that runs under a lock.
 *
 * It gets a process group of its own, so that all it starts can be signalled together; on a
 * terminal it also gets that. Where the terminal cannot be handed over (we are part of a pipeline
 * or of a script) it stays in our group, and only itself is signalled. We adopt what it leaves
 * behind, so that all of it can be killed. If we are killed it is killed too.
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
    bool has_terminal;
    bool had_terminal; /* when it was started */
    bool is_over;
    bool is_stopped;
    bool is_suspended;        /* … by its terminal, so that its shell can go on */
    int status;               /* as of waitpid, when it is over */
    unsigned long long began; /* clock ticks since boot */
    int terminal;             /* the controlling one; -1: none */
};

/*
 * Remembers which files were open when we began: those, and no others, are the child's too. Called
 * first of all.
 */
void child_remember_files(void);

/* Variables for it, in front of ours; pairs of name and value, the last one {NULL}. A value of
 * NULL: not set. */
struct child_variable {
    const char *name;
    const char *value;
};

/* 0, or errno with which the program could not be executed. */
int child_start(struct child *child, char *const *argv, const struct child_variable *variables,
                struct hf_arena *arena);

/* Whether the terminal's Ctrl-C is meant for us. */
bool child_is_foreground(void);

void child_signal(const struct child *child, int signal);
/* After SIGCHLD: learns what became of it. */
void child_look(struct child *child);
/* We were stopped and go on: so does it. */
void child_continue(struct child *child);
/* SIGKILL for it and everything that came of it, wherever that has gone. */
void child_kill_all(const struct child *child);
/* Hands the terminal over if it is ours, and lets the child go on; false: it is not ours. */
bool child_take_terminal(struct child *child);
/* Takes the terminal back. */
void child_end(struct child *child);

/* Its exit code, or 128 + signal. */
int child_exit_code(const struct child *child);

#endif
