#include "cli/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/foreground.h"
#include "cli/logger.h"
#include "cli/moment.h"
#include "cli/wake.h"
#include "cli/warden.h"

enum {
    LEASE_MS = 20000,   /* the library's own */
    RELEASE_MS = 10000, /* after the command has ended */
    KILL_AFTER_MOST_MS = 10000,
    MARGIN_LEAST_MS = 50,
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
    struct hf_client *client;
    struct hf_lock *lock;
    struct foreground foreground;
    pid_t pid; /* of the command; 0: it has not been executed */
    int start_error;
    bool own_group;
    bool had_terminal; /* when it was started */
    int64_t lease_ms;
    int64_t kill_after_ms;
    int64_t margin_ms;
    const char *why; /* why it must end; NULL: no reason known */
    char news[sizeof news];
    bool terminating;
    bool killing; /* the warden is killing */
    bool is_over;
    int status;
    int ended_by;
    bool stop_due;          /* the terminal has stopped the command, so we stop too */
    int64_t last_chance_ms; /* for the warden to do what is due; 0: nothing is */
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void plan(struct guard *guard, const struct guard_options *options)
{
    guard->lease_ms = options->lease_ms ? options->lease_ms : LEASE_MS;
    guard->margin_ms = clamp(guard->lease_ms / 10, MARGIN_LEAST_MS, MARGIN_MOST_MS);
    guard->kill_after_ms = options->kill_after_ms
                               ? options->kill_after_ms
                               : clamp(guard->lease_ms / 4, 1, KILL_AFTER_MOST_MS);
}

bool guard_check(const struct guard_options *options)
{
    struct guard guard = {0};
    plan(&guard, options);
    if (guard.kill_after_ms <= guard.lease_ms / 2 || !options->kill_after_ms) return true;
    cli_usage(
        "--kill-after must be at most half the lease (%lld ms), since the command must be gone "
        "before it ends",
        (long long)guard.lease_ms);
    return false;
}

int guard_begin(char *const *argv)
{
    int error = warden_start(argv);
    if (error == 0) return 0;
    if (error == ENOSYS)
        cli_usage("cannot read /proc, which is needed to end all processes of the command; "
                  "mount it");
    else cli_usage("cannot start a process that guards the command: %s", strerror(error));
    return EXIT_INTERNAL;
}

void guard_end(void)
{
    warden_end();
}

/* ---- the lease ---- */

/* W1, and the warden's work if it does not do it. Returns how long to wait. */
static int64_t watch_lease(struct guard *guard)
{
    int64_t now = boot_ms(), left = hf_lock_left_ms(guard->lock);
    if (!guard->why && !guard->terminating) {
        if (left > 0) warden_extend((now + left) * 1000);
        if (is_lost(guard->news)) {
            guard->why = guard->news;
            warden_terminate();
        }
    }
    int64_t last = warden_until_us() / 1000 - guard->margin_ms / 2;
    if (guard->killing) return WAKE_NEVER;
    /* All processes may have been frozen, and the warden may only be the second to wake up. */
    if (now >= last && !guard->last_chance_ms)
        guard->last_chance_ms = now + guard->margin_ms / 4 + 1;
    if (now < last) guard->last_chance_ms = 0;
    int64_t idle_ms = warden_idle_us() / 1000;
    bool must_act = guard->last_chance_ms && now >= guard->last_chance_ms;
    if (must_act || idle_ms > guard->lease_ms) { /* it is stopped, or does not get to run */
        guard->terminating = guard->killing = true;
        warden_kill_all();
        return WAKE_NEVER;
    }
    if (guard->last_chance_ms) return guard->last_chance_ms - now;
    if (idle_ms > guard->lease_ms / 2) warden_remind();
    /* Early enough to see the next renewal, and often from then on. */
    int64_t next = last - guard->margin_ms / 2 - guard->kill_after_ms - guard->lease_ms / 4;
    if (guard->why || guard->terminating || next <= now) next = now + guard->lease_ms / 32 + 1;
    return clamp(next - now, 1, last - now);
}

/* ---- the warden's reports ---- */

/* The child was stopped by its terminal: stop with it. Our heartbeats stop as well. */
static void stop_together(struct guard *guard)
{
    guard->stop_due = false;
    if (guard->why || guard->terminating) return;
    /* The child only wanted the terminal, and now has it; or no shell would ever continue us: then
     * the kernel ignores Ctrl-Z, and so do we. */
    if ((guard->own_group && foreground_give(&guard->foreground, guard->pid)) ||
        !foreground_has_shell()) {
        warden_continue();
        return;
    }
    foreground_take(&guard->foreground);
    hf_client_pause(guard->client); /* not while holding a lock on the store's file */
    raise(SIGSTOP);
    hf_client_resume(guard->client);
    if (guard->own_group) foreground_give(&guard->foreground, guard->pid);
    warden_continue();
}

static void take_report(struct guard *guard, const struct warden_report *report)
{
    const char *name = hf_lock_name(guard->lock);
    long long left = report->left_ms > 0 ? report->left_ms : 0;
    switch (report->news) {
    case WARDEN_STARTED: guard->pid = report->value; break;
    case WARDEN_NOT_STARTED:
        guard->is_over = true;
        guard->start_error = report->value;
        break;
    case WARDEN_STOPPED: guard->stop_due = true; break;
    case WARDEN_CONTINUED: guard->stop_due = false; break;
    case WARDEN_TERMINATED:
        guard->terminating = true;
        cli_note(guard->cli,
                 "lock \"%s\": %s; the command gets SIGTERM, %lld ms before the lease ends", name,
                 guard->why ? guard->why : "the store has not confirmed a renewal in time", left);
        break;
    case WARDEN_KILLED:
        guard->killing = true;
        if (left > 0)
            cli_note(guard->cli,
                     "lock \"%s\": the command gets SIGKILL, %lld ms before the lease ends", name,
                     left);
        else
            cli_note(guard->cli, "lock \"%s\": its lease has ended; the command gets SIGKILL",
                     name);
        break;
    case WARDEN_DENIED:
        guard->killing = true;
        cli_note(
            guard->cli,
            "lock \"%s\": the command, or a process that it started, cannot be killed: it runs as "
            "another user, and may outlive the lease; end it by hand; retrying",
            name);
        break;
    case WARDEN_ENDED:
        guard->is_over = true;
        guard->status = report->value;
        guard->terminating |= report->terminated;
        break;
    case WARDEN_GONE:
        warden_kill_all();
        cli_note(guard->cli,
                 "lock \"%s\": hf-guard, the process that supervises the command, was "
                 "%s, and the command with it",
                 name, guard->terminating ? "stopped, and is killed" : "killed");
        guard->is_over = true;
        guard->status = SIGKILL; /* as of waitpid */
        break;
    }
}

static void pass_on(struct guard *guard, int signal)
{
    if (signal == SIGCHLD || signal == SIGCONT || signal == SIGWINCH) return;
    if (wake_is_end(signal)) guard->ended_by = signal;
    /* In our own group it has received the terminal's signals itself, if it was running. */
    if (guard->own_group || !wake_was_terminal() || !guard->pid) warden_signal(signal);
}

static void start(struct guard *guard)
{
    char token[24];
    struct foreground *foreground = &guard->foreground;
    snprintf(token, sizeof token, "%lld", (long long)hf_lock_token(guard->lock));
    foreground_open(foreground);
    guard->own_group = foreground->can_give || !foreground->is_ours;
    guard->had_terminal = foreground->can_give;
    int64_t now = boot_ms();
    const struct warden_plan plan = {
        .until_us = (now + hf_lock_left_ms(guard->lock)) * 1000,
        .lease_us = guard->lease_ms * 1000,
        .margin_us = guard->margin_ms * 1000,
        .kill_after_us = guard->kill_after_ms * 1000,
        .own_group = guard->own_group,
        .takes_terminal = foreground->can_give,
    };
    warden_run(&plan, hf_lock_name(guard->lock), hf_lock_owner(guard->lock),
               hf_lock_token(guard->lock) ? token : NULL);
    foreground->is_given = foreground->can_give;
}

static struct guard_result not_started(const char *program, int error)
{
    int exit_code = error == ENOENT || error == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    return (struct guard_result){.exit_code = cli_cannot_execute(program, error, exit_code)};
}

static void watch(struct guard *guard)
{
    struct warden_report report;
    wake_watch(warden_fd());
    while (!guard->is_over) {
        int signal = wake_wait(watch_lease(guard));
        if (signal > 0) pass_on(guard, signal);
        while (!guard->is_over && warden_next(&report)) take_report(guard, &report);
        if (guard->stop_due && !guard->is_over) stop_together(guard);
    }
    wake_watch(-1);
}

struct guard_result guard_run(struct cli *cli, struct hf_client *client, struct hf_lock *lock,
                              char *const *argv, const struct guard_options *options)
{
    struct guard guard = {.cli = cli, .client = client, .lock = lock};
    plan(&guard, options);
    int error = warden_is_gone() ? warden_start(argv) : 0; /* it was killed in an earlier term */
    if (error != 0) return not_started(argv[0], error);
    start(&guard);
    logger_start(false); /* from now on messages do not block */
    watch(&guard);
    logger_pause();
    foreground_close(&guard.foreground);
    if (guard.start_error == ETIME) {
        cli_note(cli, "lock \"%s\": lost before the command could start", hf_lock_name(lock));
        return (struct guard_result){.exit_code = EXIT_LOST, .was_started = true, .lost = true};
    }
    if (guard.start_error != 0) return not_started(argv[0], guard.start_error);
    bool lost = guard.terminating || is_lost(guard.news);
    int killed_by = WIFSIGNALED(guard.status) ? WTERMSIG(guard.status) : 0;
    if (!lost && killed_by == SIGINT && (guard.had_terminal || !guard.own_group))
        cli->dies_of = killed_by;
    return (struct guard_result){
        .exit_code = lost ? EXIT_LOST : child_exit_code(guard.status),
        .was_started = true,
        .lost = lost,
        .ended_by = guard.ended_by,
    };
}
