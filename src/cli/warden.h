/*
 * The small process between holdfast and the command. It is called hf-guard, so that killing
 * "holdfast" by name does not kill both.
 *
 * It is forked before there are threads and locks, and does one thing: it starts the command, and
 * ensures that the command is gone before the lease ends. It logs nothing, opens no store, takes no
 * mutex and waits for nothing else: whatever blocks holdfast (a terminal that does not answer, a
 * debugger, SIGSTOP), it continues. If holdfast is killed, it kills all descendants of the command.
 *
 *   holdfast            the lock, signals, the terminal, messages
 *    └ hf-guard         the lease's end, the command's life
 *       └ COMMAND
 *
 * Invariants
 * W1  The lease's end reaches it through one number in shared memory, which only grows. If it is
 *     written late, or not at all, the command ends sooner.
 * W2  The command is told to end (SIGTERM) so that it has `kill_after` before it is killed, and it
 *     is killed `margin` before the lease ends; more than that if this process was seen to wake up
 *     late.
 * W3  A command that was told to end must end, whatever is renewed.
 * W4  Killing is retried until all processes are gone, even after holdfast is gone.
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
    WARDEN_NOT_STARTED, /* value: errno; ETIME: the lease has ended, or is about to */
    WARDEN_CONTINUED,   /* after it was STOPPED, by another process */
    WARDEN_STOPPED,     /* by its terminal */
    WARDEN_TERMINATED,  /* it got SIGTERM */
    WARDEN_KILLED,      /* … and SIGKILL */
    WARDEN_DENIED,      /* … which it did not get: it runs as another user */
    WARDEN_ENDED,       /* value: its status, as of waitpid */
    WARDEN_GONE,        /* hf-guard was killed, and the command with it */
};

struct warden_report {
    enum warden_news news;
    int value;
    int64_t left_ms; /* of the lease, when it happened; negative: it had ended */
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

/* 0, or errno; ENOSYS: /proc cannot be read. `argv` must stay valid. */
int warden_start(char *const *argv);
/* Whether it was killed. */
bool warden_is_gone(void);

/* Readable when there is a report. */
int warden_fd(void);

/* Runs the command with variables for name, owner and token (NULL: none). The first report tells
 * whether it was started. */
void warden_run(const struct warden_plan *plan, const char *lock, const char *owner,
                const char *token);

/* W1. */
void warden_extend(int64_t until_us);
/* The time since it last did something; while a command runs, usually short. */
int64_t warden_idle_us(void);
/* Continues it, if it was stopped. */
void warden_remind(void);
/* The end of the lease, as the warden knows it. */
int64_t warden_until_us(void);

void warden_signal(int signal);
void warden_continue(void);
/* The lock is lost: acts as if the time had come. */
void warden_terminate(void);

/* The next report; false: there is none at the moment. */
bool warden_next(struct warden_report *ret);

/* In case the warden does not: kills it and all its descendants. */
void warden_kill_all(void);

/* Ends it, and waits for that; processes that the command has left behind stay, if it ended by
 * itself. */
void warden_end(void);

#endif
