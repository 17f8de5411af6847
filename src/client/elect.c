/*
 * Leader election: a lock that is acquired again whenever it is lost, and a
 * watch that reports who holds it.
 *
 * Invariant: exactly one of these is true: an acquisition is under way, a lock
 * is held (or its end not yet reported), or the campaign is over.
 */
#include <string.h>

#include "base/alloc.h"
#include "client/client.h"

struct hf_election {
    struct hf_client *client;
    struct hf_watcher *watcher;
    struct hf_acquisition *acquisition;
    struct hf_lock *lock;
    struct hf_elect_options options; /* data is a copy */
    char *name;
    bool over;
    bool leads; /* as last reported */
    struct hf_waiter *waiter;
};

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error);
static void happened(void *user, const struct hf_event *event);

static void tell(struct hf_election *election, enum hf_leadership state,
                 const struct hf_lock_info *info)
{
    if (election->options.changed) election->options.changed(election->options.user, state, info);
}

static int campaign(struct hf_election *election, struct hf_error *reterr)
{
    struct hf_acquire_options options = {
        .size = sizeof options,
        .data = election->options.data,
        .data_size = election->options.data_size,
        .lease_ms = election->options.lease_ms,
        .on_event = happened,
        .user = election,
    };
    const struct hf_acquire_call call = {.name = election->name,
                                         .timeout_ms = HF_FOREVER,
                                         .options = &options,
                                         .done = acquired,
                                         .user = election,
                                         .stubborn = true};
    return hf__acquire_async(election->client, &call, &election->acquisition, reterr);
}

static void wake(struct hf_election *election)
{
    if (election->waiter) hf__waiter_wake(election->waiter);
}

static void end(struct hf_election *election, const struct hf_error *why)
{
    hf__log(&election->client->log, HF_LOG_ERROR, "election \"%s\" ends: %s", election->name,
            why->message);
    tell(election, HF_LEADER_ENDED, NULL);
}

/* On the client's thread, like all of the following. */
static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    struct hf_election *election = user;
    struct hf_client *client = election->client;
    pthread_mutex_lock(&client->mutex);
    struct hf_acquisition *acquisition = election->acquisition;
    election->acquisition = NULL;
    election->lock = lock;
    bool over = election->over || code != 0;
    if (code != 0) election->over = true;
    election->leads = !over;
    if (code != 0) wake(election);
    pthread_mutex_unlock(&client->mutex);
    hf_acquisition_free(acquisition);
    if (code != 0) {
        /* After resigning there is no callback. Otherwise the client is being closed. */
        if (code == HF_ERR_CLOSED) tell(election, HF_LEADER_ENDED, NULL);
        else if (code != HF_ERR_CANCELLED) end(election, error);
        return;
    }
    if (over) hf_release_async(lock, NULL, NULL); /* resigned meanwhile; its end wakes waiters */
    else tell(election, HF_LEADER_SELF, NULL);
}

static void happened(void *user, const struct hf_event *event)
{
    struct hf_election *election = user;
    struct hf_client *client = election->client;
    if (event->type == HF_EVENT_WARNING) return;
    pthread_mutex_lock(&client->mutex);
    struct hf_lock *lock = election->lock;
    bool led = election->leads;
    election->lock = NULL;
    election->leads = false;
    bool closing = hf__core_is_closing(client->core);
    bool over = election->over || closing;
    if (over) {
        election->over = true;
        wake(election);
    }
    pthread_mutex_unlock(&client->mutex);
    hf_lock_unref(lock);
    if (led) tell(election, HF_LEADER_LOST, NULL);
    if (closing) tell(election, HF_LEADER_ENDED, NULL);
    struct hf_error error;
    if (!over && campaign(election, &error) != 0) {
        pthread_mutex_lock(&client->mutex);
        election->over = true;
        wake(election);
        pthread_mutex_unlock(&client->mutex);
        end(election, &error);
    }
}

static void seen(void *user, const struct hf_lock_info *info)
{
    struct hf_election *election = user;
    struct hf_client *client = election->client;
    pthread_mutex_lock(&client->mutex);
    /* A record read before our grant is out of date. */
    bool ours = election->lock && info->token <= hf_lock_token(election->lock);
    pthread_mutex_unlock(&client->mutex);
    if (ours) return;
    tell(election, info->held ? HF_LEADER_OTHER : HF_LEADER_NONE, info);
}

/* No callback of it runs any more, or will. */
static void free_election(struct hf_election *election)
{
    struct hf_client *client = election->client;
    hf_watch_stop(election->watcher);
    pthread_mutex_lock(&client->mutex);
    bool in_callback = hf__client_is_thread(client);
    pthread_mutex_unlock(&client->mutex);
    if (!in_callback) hf__client_settle(client);
    hf__client_let_go(client);
    hf__free((void *)election->options.data);
    hf__free(election->name);
    hf__free(election);
}

int hf_elect(struct hf_client *client, const char *name, const struct hf_elect_options *given,
             struct hf_election **ret, struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_elect_options, options, given);
    if (!client || !name || !ret)
        return hf__error_set(reterr, HF_ERR_INVALID, "an election needs a client and a name");
    struct hf_election *election = hf__calloc(1, sizeof *election);
    if (!election) return hf__error_no_memory(reterr);
    int code = hf__client_enter(client, reterr);
    if (code != 0) {
        hf__free(election);
        return code;
    }
    hf__client_ref(client);
    pthread_mutex_unlock(&client->mutex);
    election->client = client;
    election->options = options;
    election->options.data = NULL;
    election->name = hf__strdup(name);
    if (options.data) {
        void *copy = hf__malloc(options.data_size + 1);
        if (copy) memcpy(copy, options.data, options.data_size);
        election->options.data = copy;
    }
    if (!election->name || (options.data && !election->options.data))
        code = hf__error_no_memory(reterr);
    if (code == 0) code = hf_watch(client, name, 0, seen, election, &election->watcher, reterr);
    if (code == 0) {
        if (options.observe_only) election->over = true;
        else code = campaign(election, reterr);
    }
    if (code != 0) {
        free_election(election);
        return code;
    }
    *ret = election;
    return 0;
}

/* Whether it leads now, and with which token (0: the format has none). */
static bool leads(const struct hf_election *election, int64_t *ret_token)
{
    *ret_token = 0;
    if (!election) return false;
    struct hf_client *client = election->client;
    if (hf__client_enter(client, NULL) != 0) return false;
    const struct hf_lock *lock = election->leads ? election->lock : NULL;
    bool held = lock && hf__grant_left_us(lock->grant, hf__client_now_us(client)) > 0;
    if (held) *ret_token = hf_lock_token(lock);
    pthread_mutex_unlock(&client->mutex);
    return held;
}

bool hf_election_is_leader(const struct hf_election *election)
{
    int64_t token;
    return leads(election, &token);
}

int64_t hf_election_token(const struct hf_election *election)
{
    int64_t token;
    leads(election, &token);
    return token;
}

int hf_election_resign(struct hf_election *election, struct hf_error *reterr)
{
    if (!election) return 0;
    struct hf_client *client = election->client;
    struct hf_waiter waiter;
    int code = hf__client_enter_waiting(client, reterr);
    if (code != 0) return code;
    election->over = true;
    bool busy = election->acquisition || election->lock;
    code = busy ? hf__waiter_init(client, &waiter, NULL, reterr) : 0;
    if (code != 0) {
        pthread_mutex_unlock(&client->mutex);
        return code;
    }
    election->waiter = busy ? &waiter : NULL;
    struct hf_lock *lock = election->lock;
    struct hf_attempt *attempt = hf__acquisition_attempt(election->acquisition);
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    if (lock) hf__core_release(client->core, lock->grant, &how, hf__client_now_us(client));
    else if (attempt) hf__core_cancel(client->core, attempt, hf__client_now_us(client));
    hf__client_leave(client);
    if (busy) {
        pthread_mutex_lock(&client->mutex);
        hf__waiter_wait(client, &waiter);
        hf__client_unref_unlock(client);
    }
    free_election(election);
    return 0;
}
