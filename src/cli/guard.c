#include "cli/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

enum {
    LEASE_MS = 20000, /* the library's own */
    SAY_MS = 1000,
    RELEASE_MS = 10000, /* after the command has ended */
    KILL_AFTER_MOST_MS = 10000,
    MARGIN_LEAST_MS = 20,
    MARGIN_MOST_MS = 1000,
};

/* ---- the lock's end, from the client's thread ---- */

static pthread_mutex_t news_mutex = PTHREAD_MUTEX_INITIALIZER;
static char news[600]; /* why the lock was lost; "": it was not */
static bool has_ended;

static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    if (event->type == HF_EVENT_WARNING) return;
    pthread_mutex_lock(&news_mutex);
    has_ended = true;
    if (event->type == HF_EVENT_LOST)
        snprintf(news, sizeof news, "%s%s%s", hf_reason_meaning(event->reason),
                 event->detail ? ": " : "", event->detail ? event->detail : "");
    pthread_mutex_unlock(&news_mutex);
    wake_up();
}

void guard_listen(struct hf_acquire_options *how)
{
    pthread_mutex_lock(&news_mutex);
    news[0] = '\0';
    has_ended = false;
    pthread_mutex_unlock(&news_mutex);
    how->on_event = on_event;
}

int guard_release(struct hf_lock *lock, struct hf_error *reterr)
{
    int code = hf_release_async(lock, NULL, reterr);
    bool ended = code != 0;
    int64_t give_up_ms = boot_ms() + RELEASE_MS;
    while (!ended) {
        pthread_mutex_lock(&news_mutex);
        ended = has_ended;
        pthread_mutex_unlock(&news_mutex);
        int signal = ended ? 0 : wake_wait(give_up_ms - boot_ms() > 0 ? give_up_ms - boot_ms() : 0);
        if (!ended && ((signal > 0 && wake_is_end(signal)) || boot_ms() >= give_up_ms))
            return hf__error_set(reterr, HF_ERR_OUTCOME_UNKNOWN, "interrupted");
    }
    if (code != 0) return code;
    enum hf_reason reason = hf_lock_reason(lock);
    if (reason == HF_REASON_RELEASED) return 0;
    return hf__error_set(reterr,
                         reason == HF_REASON_UNCONFIRMED ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_LOST,
                         "%s", hf_reason_meaning(reason));
}

static bool is_lost(char ret[sizeof news])
{
    pthread_mutex_lock(&news_mutex);
    memcpy(ret, news, sizeof news);
    pthread_mutex_unlock(&news_mutex);
    return ret[0] != '\0';
}

/* ---- the guard ---- */

struct guard {
    struct cli *cli;
    struct hf_lock *lock;
    struct child child;
    int64_t lease_ms;
    int64_t kill_after_ms;
    int64_t margin_ms;
    int64_t certain_until_ms; /* boot clock */
    bool terminating;
    bool killed;
    int64_t kill_at_ms;
    int ended_by;
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void plan(struct guard *guard, const struct guard_options *options)
{
    guard->lease_ms = options->lease_ms ? options->lease_ms : LEASE_MS;
    guard->margin_ms = clamp(guard->lease_ms / 20, MARGIN_LEAST_MS, MARGIN_MOST_MS);
    guard->kill_after_ms = options->kill_after_ms
                               ? options->kill_after_ms
                               : clamp(guard->lease_ms / 4, 1, KILL_AFTER_MOST_MS);
}

bool guard_check(const struct guard_options *options)
{
    struct guard guard = {0};
    plan(&guard, options);
    if (guard.kill_after_ms <= guard.lease_ms / 2 || !options->kill_after_ms) return true;
    cli_usage("--kill-after must be at most half the lease (%lld ms), for the child must be gone "
              "before it ends",
              (long long)guard.lease_ms);
    return false;
}

static void terminate(struct guard *guard, const char *why)
{
    int64_t now = boot_ms(), left = guard->certain_until_ms - now;
    guard->terminating = true;
    guard->kill_at_ms = now + guard->kill_after_ms;
    int64_t last = guard->certain_until_ms - guard->margin_ms;
    if (guard->kill_at_ms > last) guard->kill_at_ms = last;
    child_signal(&guard->child, SIGTERM);
    if (guard->child.is_stopped && guard->kill_at_ms > now) child_continue(&guard->child);
    cli_note(guard->cli, "lock \"%s\": %s; the command gets SIGTERM, %lld ms before the lease ends",
             hf_lock_name(guard->lock), why, (long long)(left > 0 ? left : 0));
}

static void kill_now(struct guard *guard)
{
    int64_t left = guard->certain_until_ms - boot_ms();
    guard->killed = true;
    child_kill_all(&guard->child);
    if (left > 0)
        cli_note(guard->cli, "lock \"%s\": the command gets SIGKILL, %lld ms before the lease ends",
                 hf_lock_name(guard->lock), (long long)left);
    else
        cli_note(guard->cli, "lock \"%s\": its lease is over; the command gets SIGKILL",
                 hf_lock_name(guard->lock));
}

/* Does what is due; returns how long to wait for the next. */
static int64_t watch_lease(struct guard *guard)
{
    char why[sizeof news];
    int64_t now = boot_ms(), left = hf_lock_left_ms(guard->lock);
    if (left > 0 && !guard->terminating) guard->certain_until_ms = now + left;
    int64_t term_at_ms = guard->certain_until_ms - guard->margin_ms - guard->kill_after_ms;
    if (!guard->terminating) {
        if (is_lost(why)) terminate(guard, why);
        else if (now >= term_at_ms)
            terminate(guard, "the store has not confirmed a renewal in time");
    }
    if (!guard->terminating) return term_at_ms - now;
    if (guard->killed) return WAKE_NEVER;
    if (now < guard->kill_at_ms) return guard->kill_at_ms - now;
    kill_now(guard);
    return WAKE_NEVER;
}

/* The child was stopped by its terminal: stop with it. Our heartbeats stop, too. */
static void stop_together(struct guard *guard)
{
    watch_lease(guard); /* we may have been stopped before it was */
    if (guard->terminating) return;
    if (child_take_terminal(&guard->child)) return; /* it only wanted that, and we have it now */
    child_end(&guard->child);
    raise(SIGSTOP);
    int64_t left = hf_lock_left_ms(guard->lock);
    if (left <= 0) { /* it must not run on for a moment */
        guard->terminating = true;
        kill_now(guard);
        return;
    }
    if (!child_take_terminal(&guard->child)) child_continue(&guard->child);
}

static void pass_on(struct guard *guard, int signal)
{
    if (signal == SIGCHLD) {
        child_look(&guard->child);
        if (guard->child.is_suspended && !guard->child.is_over && !guard->killed)
            stop_together(guard);
    } else if (signal == SIGCONT || signal == SIGWINCH) {
        return;
    } else {
        if (wake_is_end(signal)) guard->ended_by = signal;
        /* In our own group it has heard the terminal's signals itself. */
        bool heard = !guard->child.own_group && wake_was_terminal();
        if (!heard) child_signal(&guard->child, signal);
    }
}

static struct guard_result not_started(const struct cli *cli, const char *program, int error)
{
    (void)cli;
    bool absent = error == ENOENT || error == ENOTDIR;
    cli_usage("cannot execute %s: %s", program, strerror(error));
    return (struct guard_result){.exit_code = absent ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE};
}

struct guard_result guard_run(struct cli *cli, struct hf_lock *lock, char *const *argv,
                              const struct guard_options *options)
{
    char token[24], why[sizeof news];
    snprintf(token, sizeof token, "%lld", (long long)hf_lock_token(lock));
    /* A format without tokens has none to show: not even 0. */
    const struct child_variable variables[] = {
        {"HOLDFAST_LOCK", hf_lock_name(lock)},
        {"HOLDFAST_OWNER", hf_lock_owner(lock)},
        {"HOLDFAST_TOKEN", hf_lock_token(lock) ? token : NULL},
        {0}};
    struct guard guard = {.cli = cli, .lock = lock};
    plan(&guard, options);
    guard.certain_until_ms = boot_ms() + hf_lock_left_ms(lock);
    if (hf_lock_left_ms(lock) <= 0) {
        cli_note(cli, "lock \"%s\": lost before the command could start", hf_lock_name(lock));
        return (struct guard_result){.exit_code = EXIT_LOST, .was_started = true, .lost = true};
    }
    say_patience(0); /* from now on there is something to guard */
    int error = child_start(&guard.child, argv, variables, &cli->arena);
    if (error != 0) say_patience(SAY_MS);
    if (error != 0) return not_started(cli, argv[0], error);
    while (!guard.child.is_over) {
        int64_t timeout_ms = watch_lease(&guard);
        int signal = wake_wait(timeout_ms);
        if (signal > 0) pass_on(&guard, signal);
    }
    if (guard.terminating) child_kill_all(&guard.child); /* what it has left behind */
    say_patience(SAY_MS);
    child_end(&guard.child);
    bool lost = guard.terminating || is_lost(why);
    int killed_by = WIFSIGNALED(guard.child.status) ? WTERMSIG(guard.child.status) : 0;
    if (!lost && killed_by == SIGINT && (guard.child.had_terminal || !guard.child.own_group))
        cli->dies_of = killed_by;
    return (struct guard_result){
        .exit_code = lost ? EXIT_LOST : child_exit_code(&guard.child),
        .was_started = true,
        .lost = lost,
        .ended_by = guard.ended_by,
    };
}
