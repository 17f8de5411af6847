/* Whether holdfast has the terminal, or the command to which it was handed. */
#ifndef HF_CLI_FOREGROUND_H
#define HF_CLI_FOREGROUND_H

#include <stdbool.h>
#include <sys/types.h>

struct foreground {
    int terminal;  /* the controlling one; -1: none */
    bool is_ours;  /* at the beginning: its Ctrl-C is meant for us */
    bool can_give; /* … and only ours: we are a job of our own, and write to it */
    bool is_given;
};

void foreground_open(struct foreground *foreground);
void foreground_close(struct foreground *foreground);

/* Hands it to a process group, if it is ours now; false: it is not. */
bool foreground_give(struct foreground *foreground, pid_t group);
/* Takes it back. */
void foreground_take(struct foreground *foreground);

/* Whether a shell with job control would continue us if we stopped. */
bool foreground_has_shell(void);

/* Whether the terminal's Ctrl-C is meant for us. */
bool foreground_is_ours(void);

#endif
