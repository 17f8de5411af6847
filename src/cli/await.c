/*
 * Waiting for a lock, for a person at a terminal or for a script: one acquire of the library, which
 * reports how the wait stands (hf_wait). An outage of the store ends the wait after a while, unless
 * the user asked to wait for the store as well.
 */
#include "cli/await.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

enum {
    SHOW_AFTER_MS = 300,
    OUTAGE_MS = 15000,   /* of a store that has answered before … */
    OUTAGE_FAILURES = 3, /* … or, in a row, of one that has not */
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
    struct hf_error error; /* of the result, or of the outage */
    bool held;             /* by `owner` */
    char owner[OWNER_SIZE];
    int64_t holders;
    int64_t since_unix_ms;
    int64_t expires_unix_ms;
    int64_t ahead;
    bool answered;
    int failures;
    int64_t silent_since_ms; /* on the boot clock */
};

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

static void waits(void *user, const struct hf_wait *wait)
{
    struct news *news = &the_news;
    (void)user;
    pthread_mutex_lock(&news->mutex);
    news->held = wait->holders > 0;
    news->holders = wait->holders;
    news->since_unix_ms = wait->since_unix_ms;
    news->expires_unix_ms = wait->expires_unix_ms;
    news->ahead = wait->ahead;
    news->answered = wait->answered;
    news->failures = wait->failures;
    news->silent_since_ms = boot_ms() - wait->silent_ms;
    if (wait->error) news->error = *wait->error;
    snprintf(news->owner, sizeof news->owner, "%s", wait->owner ? wait->owner : "somebody");
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

/* ---- messages ---- */

struct waiting {
    struct cli *cli;
    struct hf_client *client;
    const char *name;
    const struct await_options *options;
    bool shows;
    bool said_held;
    bool said_outage;
    int64_t begin_ms;    /* on the boot clock */
    int64_t deadline_ms; /* likewise; HF_FOREVER */
    char last_owner[OWNER_SIZE];
};

static void look(struct news *ret)
{
    pthread_mutex_lock(&the_news.mutex);
    *ret = the_news;
    pthread_mutex_unlock(&the_news.mutex);
}

static bool is_silent(const struct news *news)
{
    return news->failures >= OUTAGE_FAILURES;
}

/* Messages that are printed once. */
static void say(struct waiting *waiting, const struct news *news)
{
    const struct await_options *options = waiting->options;
    if (news->held && options->held_by && strcmp(news->owner, waiting->last_owner) != 0) {
        snprintf(waiting->last_owner, sizeof waiting->last_owner, "%s", news->owner);
        progress_clear();
        options->held_by(options->user, news->owner);
    }
    if (news->held && !waiting->said_held && waiting->cli->settings.verbose) {
        progress_clear();
        cli_note(waiting->cli, "lock \"%s\": held by %s; waiting", waiting->name, news->owner);
        waiting->said_held = true;
    }
    if (is_silent(news) && options->retry && !waiting->said_outage) {
        progress_clear();
        cli_note(waiting->cli, "%s; trying again", news->error.message);
        waiting->said_outage = true;
    }
}

/* The progress line. */
static void show(struct waiting *waiting)
{
    struct news news;
    char age[MOMENT_SIZE], left[MOMENT_SIZE];
    char who[OWNER_SIZE + 128] = "", until[96] = "";
    look(&news);
    say(waiting, &news);
    if (!waiting->shows || (!news.held && boot_ms() - waiting->begin_ms < SHOW_AFTER_MS)) return;
    if (is_silent(&news)) {
        progress_show("waiting for the store");
        return;
    }
    if (news.held && news.holders > 1)
        snprintf(who, sizeof who, "; held by %lld, most recently %s", (long long)news.holders,
                 news.owner);
    else if (news.held) snprintf(who, sizeof who, "; held by %s", news.owner);
    size_t len = strlen(who);
    if (news.held && news.since_unix_ms > 0)
        snprintf(who + len, sizeof who - len, " for %s",
                 duration_print(wall_ms() - news.since_unix_ms, age));
    len = strlen(who);
    if (news.held && news.expires_unix_ms > wall_ms())
        snprintf(who + len, sizeof who - len, " (lease: %s)",
                 duration_print(news.expires_unix_ms - wall_ms(), left));
    if (waiting->deadline_ms != HF_FOREVER)
        snprintf(until, sizeof until, ", at most %s more",
                 duration_print(waiting->deadline_ms - boot_ms(), left));
    progress_show("waiting for %s%s%s", waiting->name, until, who);
}

/* ---- one acquire ---- */

static int64_t left_ms(const struct waiting *waiting)
{
    if (waiting->deadline_ms == HF_FOREVER) return HF_FOREVER;
    int64_t left = waiting->deadline_ms - boot_ms();
    return left > 0 ? left : 0;
}

/* When the store has been silent for too long; HF_FOREVER: it answers, or that does not matter. */
static int64_t outage_at_ms(const struct waiting *waiting, const struct news *news)
{
    if (waiting->options->retry || news->failures == 0) return HF_FOREVER;
    if (!news->answered) return is_silent(news) ? 0 : HF_FOREVER;
    return news->silent_since_ms + OUTAGE_MS;
}

/* Why a wait was given up before it had a result; 0: it was not. */
struct end {
    int signal;
    int code; /* of an outage */
    struct hf_error error;
};

static void wait_for_result(struct waiting *waiting, struct hf_acquisition *acquisition,
                            struct end *ret)
{
    struct news news;
    *ret = (struct end){0};
    for (look(&news); !news.done; look(&news)) {
        bool ends = ret->signal || ret->code;
        int64_t outage_ms = ends ? HF_FOREVER : outage_at_ms(waiting, &news);
        if (outage_ms <= boot_ms()) {
            ret->code = news.error.code;
            ret->error = news.error;
            hf_acquisition_cancel(acquisition);
            continue;
        }
        int64_t nap = waiting->shows && !ends ? PROGRESS_MS : WAKE_NEVER;
        if (outage_ms != HF_FOREVER && (nap == WAKE_NEVER || outage_ms - boot_ms() < nap))
            nap = outage_ms - boot_ms();
        int signal = wake_wait(nap);
        if (signal > 0 && wake_is_end(signal) && !ends) {
            ret->signal = signal;
            hf_acquisition_cancel(acquisition);
        }
        if (signal == SIGTSTP) {
            progress_clear();
            hf_client_pause(waiting->client); /* not while holding a lock on the store's file */
            raise(SIGSTOP);
            hf_client_resume(waiting->client);
        }
        if (!ret->signal && !ret->code) show(waiting);
    }
    progress_clear();
}

static int acquire_once(struct waiting *waiting, const struct hf_acquire_options *how,
                        struct await_result *ret)
{
    struct hf_acquisition *acquisition;
    struct news news;
    struct end end;
    pthread_mutex_lock(&the_news.mutex);
    the_news.done = the_news.held = the_news.answered = false;
    the_news.lock = NULL;
    the_news.failures = 0;
    pthread_mutex_unlock(&the_news.mutex);
    int code = hf_acquire_async(waiting->client, waiting->name, left_ms(waiting), how, acquired,
                                &the_news, &acquisition, &ret->error);
    if (code != 0) return code;
    wait_for_result(waiting, acquisition, &end);
    hf_acquisition_free(acquisition);
    look(&news);
    ret->signal = end.signal;
    if (end.signal && news.lock) { /* it was granted at the same moment */
        hf_release(news.lock, NULL, NULL);
        hf_lock_unref(news.lock);
    }
    if (end.signal) return hf__error_set(&ret->error, HF_ERR_CANCELLED, "cancelled");
    if (news.code == HF_ERR_CANCELLED && end.code != 0) {
        ret->error = end.error;
        hf__error_prefix(&ret->error, "lock \"%s\"", waiting->name);
        return end.code;
    }
    if (news.code == 0) ret->lock = news.lock;
    else ret->error = news.error;
    return news.code;
}

/* Before the next acquire after an outage. */
static int pause_for(struct waiting *waiting, int64_t ms)
{
    for (int64_t end_ms = boot_ms() + ms, now; (now = boot_ms()) < end_ms;) {
        if (waiting->shows) progress_show("waiting for the store");
        int signal = wake_wait(end_ms - now);
        if (signal > 0 && wake_is_end(signal)) return signal;
    }
    return 0;
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
               const struct await_options *options, const struct hf_acquire_options *given,
               struct await_result *ret)
{
    struct waiting waiting = {
        .cli = cli,
        .client = client,
        .name = name,
        .options = options,
        .begin_ms = boot_ms(),
        .shows = options->wait_ms > 0 && !cli->settings.quiet && isatty(STDERR_FILENO),
        .deadline_ms =
            options->wait_ms >= HF_FOREVER - boot_ms() ? HF_FOREVER : boot_ms() + options->wait_ms,
    };
    struct hf_acquire_options how = *given;
    how.on_wait = waits;
    *ret = (struct await_result){0};
    for (;;) {
        int code = acquire_once(&waiting, &how, ret);
        /* A try that only waits for the store continues as well. */
        bool is_over = options->wait_ms > 0 && left_ms(&waiting) == 0;
        if (ret->signal || !is_outage(code) || !options->retry || is_over) return code;
        if (!waiting.said_outage) cli_note(cli, "%s; trying again", ret->error.message);
        waiting.said_outage = true;
        ret->signal = pause_for(&waiting, AGAIN_MS);
        progress_clear();
        if (ret->signal) return hf__error_set(&ret->error, HF_ERR_CANCELLED, "cancelled");
    }
}
