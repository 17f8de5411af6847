/*
 * Events for the command's own thread: signals, and callbacks of the library.
 *
 * Signals are blocked from the beginning and read here, so nothing is ever interrupted, and there
 * is no moment at which one could end us while we hold a lock.
 */
#ifndef HF_CLI_WAKE_H
#define HF_CLI_WAKE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { WAKE_NEVER = -1 };

/* Blocks the signals; exits if there are no file descriptors left. */
void wake_init(void);
/* The signal mask at start: for children. */
const sigset_t *wake_old_mask(void);

/*
 * Ends us by the signal that ended our child: a shell that runs a script continues after Ctrl-C
 * unless the program that it waits for has died of it.
 */
void wake_die_of(int signal);

/* For commands that hold no lock: signals have their default effect. */
void wake_let_signals_end(void);

/* From any thread. */
void wake_up(void);

/* Also wakes us when this descriptor is readable; -1: none. */
void wake_watch(int fd);

/* Waits for a signal (its number), a wake_up or the descriptor (0), or the timeout (-1). */
int wake_wait(int64_t timeout_ms);

/* Whether the last signal came from the terminal, not from kill(1). */
bool wake_was_terminal(void);

/* Whether the signal asks us to end. */
bool wake_is_end(int signal);

#endif
