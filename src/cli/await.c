/*
 * An acquire of the library waits through outages, and says nothing while it waits. So the waiting
 * is cut into slices: a slice in which the store never answered is an outage.
 */
#include "cli/await.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

enum {
    LATE_MS = 250,
    SHOW_AFTER_MS = 300,
    SLICE_MS = 15000,
    AGAIN_MS = 1000,
    PROGRESS_MS = 1000,
    OWNER_SIZE = 520
};

/* Shared with the client's thread. */
struct news {
    pthread_mutex_t mutex;
    bool done;
    int code;
    struct hf_lock *lock;
    struct hf_error error;
    bool seen; /* what was last seen of the lock */
    bool held;
    char owner[OWNER_SIZE];
    int64_t since_unix_ms;
    int64_t expires_unix_ms;
    int64_t holders;
};

/* A last call of a watcher may come after it was stopped: this stays. */
static struct news the_news = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    struct news *news = user;
    pthread_mutex_lock(&news->mutex);
    news->done = true;
    news->code = code;
    news->lock = lock;
    if (error) news->error = *error;
    pthread_mutex_unlock(&news->mutex);
    wake_up();
}

static void changed(void *user, const struct hf_lock_info *info)
{
    struct news *news = user;
    pthread_mutex_lock(&news->mutex);
    news->seen = true;
    news->held = info->held;
    news->since_unix_ms = info->since_unix_ms;
    news->expires_unix_ms = info->expires_unix_ms;
    news->holders = info->holders;
    snprintf(news->owner, sizeof news->owner, "%s", info->owner ? info->owner : "somebody");
    pthread_mutex_unlock(&news->mutex);
    wake_up();
}

bool is_outage(int code)
{
    switch (code) {
    case HF_ERR_UNREACHABLE:
    case HF_ERR_OUTCOME_UNKNOWN:
    case HF_ERR_THROTTLED:
    case HF_ERR_STORE:
    case HF_ERR_BUSY:
    case HF_ERR_IO:
    case HF_ERR_BAD_ANSWER:
    case HF_ERR_CREDENTIALS: return true;
    default: return false;
    }
}

/* ---- what is shown ---- */

struct waiting {
    struct cli *cli;
    const char *name;
    const struct await_options *options;
    struct news *news;
    bool shows;
    int64_t begin_ms;    /* on the boot clock */
    int64_t deadline_ms; /* likewise; HF_FOREVER */
    char last_owner[OWNER_SIZE];
    const char *self; /* our own name: we are not in our way */
};

static void show(struct waiting *waiting)
{
    struct news *news = waiting->news;
    char owner[OWNER_SIZE], age[MOMENT_SIZE], left[MOMENT_SIZE];
    char who[OWNER_SIZE + 96] = "", until[96] = "";
    pthread_mutex_lock(&news->mutex);
    bool held = news->seen && news->held && strcmp(news->owner, waiting->self) != 0;
    int64_t since = news->since_unix_ms, expires = news->expires_unix_ms, holders = news->holders;
    snprintf(owner, sizeof owner, "%s", news->owner);
    pthread_mutex_unlock(&news->mutex);
    if (held && waiting->options->held_by && strcmp(owner, waiting->last_owner) != 0) {
        snprintf(waiting->last_owner, sizeof waiting->last_owner, "%s", owner);
        progress_clear();
        waiting->options->held_by(waiting->options->user, owner);
    }
    if (!waiting->shows || (!held && boot_ms() - waiting->begin_ms < SHOW_AFTER_MS)) return;
    if (held && holders > 1)
        snprintf(who, sizeof who, "; held by %lld, lately %s", (long long)holders, owner);
    else if (held) snprintf(who, sizeof who, "; held by %s", owner);
    size_t len = strlen(who);
    if (held && since > 0)
        snprintf(who + len, sizeof who - len, " for %s", duration_print(wall_ms() - since, age));
    len = strlen(who);
    if (held && expires > wall_ms())
        snprintf(who + len, sizeof who - len, " (lease: %s)",
                 duration_print(expires - wall_ms(), left));
    if (waiting->deadline_ms != HF_FOREVER)
        snprintf(until, sizeof until, ", at most %s more",
                 duration_print(waiting->deadline_ms - boot_ms(), left));
    progress_show("waiting for %s%s%s", waiting->name, until, who);
}

static int64_t left_ms(const struct waiting *waiting)
{
    if (waiting->deadline_ms == HF_FOREVER) return HF_FOREVER;
    int64_t left = waiting->deadline_ms - boot_ms();
    return left > 0 ? left : 0;
}

/* ---- one slice ---- */

static bool is_done(struct news *news)
{
    pthread_mutex_lock(&news->mutex);
    bool done = news->done;
    pthread_mutex_unlock(&news->mutex);
    return done;
}

/* A signal that ends it; 0: there is a result. */
static int wait_for_result(struct waiting *waiting, struct hf_acquisition *acquisition)
{
    int ended_by = 0;
    bool late = false;
    while (!is_done(waiting->news)) {
        /* A try takes as long as the store does; whoever said how long to wait waits no longer. */
        int64_t left = waiting->options->wait_ms > 0 && !late ? left_ms(waiting) : HF_FOREVER;
        int64_t nap = waiting->shows && !ended_by ? PROGRESS_MS : WAKE_NEVER;
        if (left != HF_FOREVER && (nap == WAKE_NEVER || left + LATE_MS < nap)) nap = left + LATE_MS;
        int signal = wake_wait(nap);
        if (signal > 0 && wake_is_end(signal) && !ended_by) {
            ended_by = signal;
            hf_acquisition_cancel(acquisition);
        }
        if (left == 0 && signal < 0) {
            late = true;
            hf_acquisition_cancel(acquisition);
        }
        if (signal == SIGTSTP) {
            progress_clear();
            raise(SIGSTOP);
        }
        if (!ended_by) show(waiting);
    }
    progress_clear();
    return ended_by;
}

static int slice(struct waiting *waiting, struct hf_client *client, int64_t ms,
                 const struct hf_acquire_options *how, struct hf_lock **ret, int *ret_signal,
                 struct hf_error *reterr)
{
    struct news *news = waiting->news;
    struct hf_acquisition *acquisition;
    news->done = false;
    news->lock = NULL;
    int code =
        hf_acquire_async(client, waiting->name, ms, how, acquired, news, &acquisition, reterr);
    if (code != 0) return code;
    *ret_signal = wait_for_result(waiting, acquisition);
    hf_acquisition_free(acquisition);
    if (*ret_signal) { /* it may have come in the same moment */
        if (news->lock) hf_release(news->lock, NULL, NULL);
        hf_lock_unref(news->lock);
        return hf__error_set(reterr, HF_ERR_CANCELLED, "cancelled");
    }
    if (news->code == 0) *ret = news->lock;
    else *reterr = news->error;
    if (news->code == HF_ERR_CANCELLED)
        return hf__error_set(reterr, HF_ERR_UNREACHABLE,
                             "lock \"%s\": the store has not answered in time", waiting->name);
    return news->code;
}

/* Before the next slice after an outage. */
static int pause_for(struct waiting *waiting, int64_t ms)
{
    for (int64_t end_ms = boot_ms() + ms, now; (now = boot_ms()) < end_ms;) {
        if (waiting->shows) progress_show("waiting for the store");
        int signal = wake_wait(end_ms - now);
        if (signal > 0 && wake_is_end(signal)) return signal;
    }
    return 0;
}

static int wait_in_slices(struct waiting *waiting, struct hf_client *client,
                          const struct hf_acquire_options *how, struct hf_lock **ret,
                          int *ret_signal, struct hf_error *reterr)
{
    bool said = false;
    for (int64_t ms = 0;; ms = left_ms(waiting) < SLICE_MS ? left_ms(waiting) : SLICE_MS) {
        int code = slice(waiting, client, ms, how, ret, ret_signal, reterr);
        /* Who does not want to wait for the lock may yet wait for the store. */
        bool is_over = left_ms(waiting) == 0 && waiting->options->wait_ms > 0;
        bool tried = waiting->options->wait_ms == 0;
        if (code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT) {
            if (is_over || tried) return code;
            if (waiting->cli->settings.verbose && ms == 0)
                cli_note(waiting->cli, "%s; waiting", reterr->message);
        } else if (is_outage(code) && waiting->options->retry && !is_over) {
            if (!said) cli_note(waiting->cli, "%s; trying again", reterr->message);
            said = true;
            *ret_signal = pause_for(waiting, AGAIN_MS);
            progress_clear();
            if (*ret_signal) return hf__error_set(reterr, HF_ERR_CANCELLED, "cancelled");
        } else {
            return code;
        }
    }
}

int open_patiently(struct cli *cli, const struct client_use *use, bool retry,
                   struct hf_client **ret, int *ret_signal, struct hf_error *reterr)
{
    struct waiting waiting = {.cli = cli, .shows = !cli->settings.quiet && isatty(STDERR_FILENO)};
    int code = cli_open(cli, use, ret, reterr);
    if (is_outage(code) && retry) cli_note(cli, "%s; trying again", reterr->message);
    for (*ret_signal = 0; is_outage(code) && retry && !*ret_signal;) {
        *ret_signal = pause_for(&waiting, AGAIN_MS);
        if (!*ret_signal) code = cli_open(cli, use, ret, reterr);
    }
    progress_clear();
    return code;
}

int await_lock(struct cli *cli, struct hf_client *client, const char *name,
               const struct await_options *options, const struct hf_acquire_options *how,
               struct hf_lock **ret, int *ret_signal, struct hf_error *reterr)
{
    struct waiting waiting = {
        .cli = cli,
        .name = name,
        .options = options,
        .news = &the_news,
        .begin_ms = boot_ms(),
        .self = hf_client_owner(client),
        .shows = options->wait_ms > 0 && !cli->settings.quiet && isatty(STDERR_FILENO),
        .deadline_ms =
            options->wait_ms >= HF_FOREVER - boot_ms() ? HF_FOREVER : boot_ms() + options->wait_ms,
    };
    struct hf_watcher *watcher = NULL;
    *ret_signal = 0;
    pthread_mutex_lock(&the_news.mutex);
    the_news.seen = the_news.done = false;
    pthread_mutex_unlock(&the_news.mutex);
    bool watches = waiting.shows || options->held_by;
    if (watches && hf_watch(client, name, 0, changed, &the_news, &watcher, reterr) != 0)
        watcher = NULL;
    int code = wait_in_slices(&waiting, client, how, ret, ret_signal, reterr);
    if (watcher) hf_watch_stop(watcher);
    return code;
}
