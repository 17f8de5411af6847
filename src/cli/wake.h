/*
 * What wakes the command's own thread: signals, and callbacks of the library.
 *
 * Signals are blocked from the beginning and read here, so nothing is ever interrupted, and no
 * moment exists in which one could end us with a lock in hand.
 */
#ifndef HF_CLI_WAKE_H
#define HF_CLI_WAKE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { WAKE_NEVER = -1 };

/* Blocks the signals; exits if there are no file descriptors left. */
void wake_init(void);
/* The mask that we were started with: for children. */
const sigset_t *wake_old_mask(void);

/*
 * Ends us by the signal that ended our child: a shell that runs a script goes on after Ctrl-C
 * unless what it waits for has died of it.
 */
void wake_die_of(int signal);

/* For what holds nothing: signals do what they do to every program. */
void wake_let_signals_end(void);

/* From any thread. */
void wake_up(void);

/* Wakes us also when this can be read; -1: no more. */
void wake_watch(int fd);

/* Waits for a signal (its number), a wake_up or what is watched (0), or the time-out (-1). */
int wake_wait(int64_t timeout_ms);

/* Whether the last signal came from the terminal, and not from somebody's kill(1). */
bool wake_was_terminal(void);

/* One that asks us to end. */
bool wake_is_end(int signal);

#endif
