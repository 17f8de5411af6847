/*
 * The small process between us and the command. Its name is hf-guard: whoever kills "holdfast" by
 * name must not kill both.
 *
 * It is forked first of all, while there are no threads and no locks, and does one thing: it starts
 * the command, and sees to it that the command is gone before the lease ends. It logs nothing, opens
 * no store, takes no mutex and waits for nobody: whatever holds us up (a terminal that does not
 * answer, a debugger, SIGSTOP), it goes on. If we are killed it kills all that came of the command.
 *
 *   holdfast            the lock, signals, the terminal, messages
 *    └ hf-guard         the lease's end, the command's life
 *       └ COMMAND
 *
 * Invariants
 * W1  The lease's end reaches it through one number in shared memory, which only grows. Whoever
 *     writes it late, or not at all, makes the command end sooner.
 * W2  The command is told to end (SIGTERM) so that it has `kill_after` before it is killed, and it
 *     is killed `margin` before the lease ends; more than that if this process was seen to wake up
 *     late.
 * W3  A command that was told to end is not told otherwise, whatever is renewed.
 * W4  What may not be killed is tried again until it is gone, also when we are gone.
 *
 * One per process, like its signals.
 */
#ifndef HF_CLI_WARDEN_H
#define HF_CLI_WARDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum warden_news {
    WARDEN_STARTED,     /* value: its process */
    WARDEN_NOT_STARTED, /* value: errno; ETIME: the lease is over, or about to be */
    WARDEN_CONTINUED,   /* after it was STOPPED, by somebody else */
    WARDEN_STOPPED,     /* by its terminal */
    WARDEN_TERMINATED,  /* it got SIGTERM */
    WARDEN_KILLED,      /* … and SIGKILL */
    WARDEN_DENIED,      /* … which it did not get: it runs as another user */
    WARDEN_ENDED,       /* value: its status, as of waitpid */
    WARDEN_GONE,        /* the process between us is; the command has been killed with it */
};

struct warden_report {
    enum warden_news news;
    int value;
    int64_t left_ms; /* of the lease, when it happened; below 0: it was over */
    bool terminated; /* ENDED: it had been told to end */
};

struct warden_plan {
    int64_t until_us; /* boot clock */
    int64_t lease_us;
    int64_t margin_us;
    int64_t kill_after_us;
    bool own_group;
    bool takes_terminal;
};

/* 0, or errno; ENOSYS: /proc cannot be read. The words stay until the end. */
int warden_start(char *const *argv);
/* It was killed. */
bool warden_is_gone(void);

/* Readable when there is a report. */
int warden_fd(void);

/* Runs the command with variables for name, owner and token (NULL: none). The first report says
 * whether it was started. */
void warden_run(const struct warden_plan *plan, const char *lock, const char *owner,
                const char *token);

/* W1. */
void warden_extend(int64_t until_us);
/* How long ago it last did something; while a command runs that is seldom long. */
int64_t warden_idle_us(void);
/* Lets it go on, if somebody has stopped it. */
void warden_remind(void);
/* Of the lease, as the warden knows it. */
int64_t warden_until_us(void);

void warden_signal(int signal);
void warden_continue(void);
/* The lock is lost: as if the time had come. */
void warden_terminate(void);

/* The next report; false: there is none at the moment. */
bool warden_next(struct warden_report *ret);

/* For us to do if the warden does not: kills it and all that came of it. */
void warden_kill_all(void);

/* Ends it, and waits until it has gone; what a command has left behind stays, if it ended by
 * itself. */
void warden_end(void);

#endif
