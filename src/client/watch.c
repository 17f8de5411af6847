/*
 * Watching a lock: it is read at intervals, and changes are reported.
 *
 * A watcher has a reference of its user, one while it reads from the store, and one
 * while a callback is queued or runs.
 */
#include <string.h>

#include "base/alloc.h"
#include "client/client.h"
#include "lock/inspection.h"

struct hf_watcher {
    struct hf_client_call look;
    struct hf_chore chore;
    struct hf_list node; /* client->watchers */
    struct hf_client *client;
    struct hf_arena arena; /* of one read */
    struct hf_inspection inspection;
    int64_t interval_ms;
    int64_t next_us;
    hf_watch_fn changed;
    void *user;
    struct hf_lock_info *news; /* to be reported */
    uint64_t last;             /* a digest of the last report */
    bool has_last;
    bool looking;
    bool stopped;
    uint32_t refs;
    size_t name_len;
    char name[];
};

static void unref(struct hf_watcher *watcher)
{
    if (--watcher->refs > 0) return;
    hf__list_remove(&watcher->node);
    hf__arena_free(&watcher->arena);
    hf__free(watcher->news);
    hf__free(watcher);
}

static uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) digest = (digest ^ at[i]) * 1099511628211u;
    return (digest ^ len) * 1099511628211u;
}

/* A digest of everything except the signs of life. */
static uint64_t digest(const struct hf_view *view)
{
    const struct hf_record *record = view->record;
    int64_t numbers[] = {record->exists, view->state,   record->exclusive, record->token,
                         view->holders,  record->limit, record->readers};
    uint64_t all = digest_bytes(14695981039346656037u, numbers, sizeof numbers);
    /* Some formats identify a grant only by its signs of life. */
    bool has_grant = record->holder.grant.ptr != record->liveness.version.ptr;
    const struct hf_slice texts[] = {record->owner, record->data,
                                     has_grant ? record->holder.grant : HF_LIT(""),
                                     record->forced_by, record->forced_reason};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        all = digest_bytes(all, texts[i].ptr, texts[i].len);
    return all;
}

static void tell(struct hf_client *client, struct hf_chore *chore)
{
    struct hf_watcher *watcher = HF_CONTAINER(chore, struct hf_watcher, chore);
    pthread_mutex_lock(&client->mutex);
    struct hf_lock_info *news = watcher->news;
    watcher->news = NULL;
    bool stopped = watcher->stopped;
    pthread_mutex_unlock(&client->mutex);
    if (!stopped && news) watcher->changed(watcher->user, news);
    hf__free(news);
    pthread_mutex_lock(&client->mutex);
    unref(watcher);
    pthread_mutex_unlock(&client->mutex);
}

/* All records have been read. */
static void compare(struct hf_client *client, struct hf_watcher *watcher)
{
    struct hf_view view;
    hf__inspection_view(&watcher->inspection, 0, &view);
    uint64_t now = digest(&view);
    if (watcher->arena.failed || (watcher->has_last && watcher->last == now)) return;
    struct hf_lock_info *news = hf__info_new(client, &watcher->inspection);
    if (!news) return; /* out of memory: reported after the next read */
    watcher->has_last = true;
    watcher->last = now;
    hf__free(watcher->news);
    watcher->news = news;
    if (hf__list_empty(&watcher->chore.node)) watcher->refs++;
    hf__client_chore(client, &watcher->chore);
}

/* Reads the next record, if there is one. */
static bool read_on(struct hf_client *client, struct hf_watcher *watcher)
{
    watcher->look.call = (struct hf_call){.arena = &watcher->arena};
    if (client->closed || watcher->arena.failed ||
        !hf__inspection_next(&watcher->inspection, &watcher->look.call.op))
        return false;
    hf__client_submit(client, &watcher->look);
    return true;
}

static void looked(struct hf_client *client, struct hf_client_call *call)
{
    struct hf_watcher *watcher = HF_CONTAINER(call, struct hf_watcher, look);
    const struct hf_answer *answer = &call->call.answer;
    struct hf_inspection *inspection = &watcher->inspection;
    if (answer->code == 0 && !watcher->stopped) {
        if (inspection->count > 0) hf__inspection_answer(inspection, answer);
        else
            hf__inspection_add(inspection, hf__slice(watcher->name, watcher->name_len),
                               answer->has_item, answer->item);
        hf__inspection_time(inspection, answer);
        if (read_on(client, watcher)) return;
        if (!client->closed && !watcher->arena.failed) compare(client, watcher);
    }
    watcher->looking = false;
    watcher->next_us = hf__client_now_us(client) + watcher->interval_ms * 1000;
    hf__arena_reset(&watcher->arena);
    watcher->arena.failed = false;
    unref(watcher);
}

/* Whether it waits for its next read. */
static bool is_asleep(const struct hf_client *client, const struct hf_watcher *watcher)
{
    return !watcher->stopped && !watcher->looking && !client->closed;
}

int64_t hf__watchers_next_us(const struct hf_client *client)
{
    int64_t next_us = HF_NEVER;
    for (struct hf_list *at = client->watchers.next; at != &client->watchers; at = at->next) {
        const struct hf_watcher *watcher = HF_CONTAINER(at, struct hf_watcher, node);
        if (is_asleep(client, watcher) && watcher->next_us < next_us) next_us = watcher->next_us;
    }
    return next_us;
}

void hf__watchers_run(struct hf_client *client, int64_t now_us)
{
    for (struct hf_list *at = client->watchers.next; at != &client->watchers; at = at->next) {
        struct hf_watcher *watcher = HF_CONTAINER(at, struct hf_watcher, node);
        if (!is_asleep(client, watcher) || watcher->next_us > now_us) continue;
        const struct hf_core_options *core = hf__core_options(client->core);
        watcher->looking = true;
        watcher->refs++;
        memset(&watcher->look.call, 0, sizeof watcher->look.call);
        watcher->look.call.arena = &watcher->arena;
        hf__inspection_init(&watcher->inspection, core, &watcher->arena);
        core->format->read(&core->layout, &watcher->arena,
                           hf__slice(watcher->name, watcher->name_len), &watcher->look.call.op);
        hf__client_submit(client, &watcher->look);
    }
}

void hf__watchers_close(struct hf_client *client)
{
    for (struct hf_list *at = client->watchers.next; at != &client->watchers; at = at->next)
        HF_CONTAINER(at, struct hf_watcher, node)->stopped = true;
}

int hf_watch(struct hf_client *client, const char *name, int64_t interval_ms, hf_watch_fn changed,
             void *user, struct hf_watcher **ret, struct hf_error *reterr)
{
    if (!name || !changed || !ret)
        return hf__error_set(reterr, HF_ERR_INVALID, "a watch needs a name and a callback");
    if (interval_ms < 0 || interval_ms > HF_LEASE_MAX_MS)
        return hf__error_set(reterr, HF_ERR_INVALID, "invalid interval of %lld ms: at most a year",
                             (long long)interval_ms);
    const char *refusal = hf__core_options(client->core)->format->refuses_name(hf__slice_str(name));
    if (refusal) return hf__error_set(reterr, HF_ERR_INVALID, "lock \"%.64s\": %s", name, refusal);
    size_t len = strlen(name);
    struct hf_watcher *watcher = hf__calloc(1, sizeof *watcher + len + 1);
    if (!watcher) return hf__error_no_memory(reterr);
    int code = hf__client_enter(client, reterr);
    if (code == 0 && hf__core_is_closing(client->core)) {
        pthread_mutex_unlock(&client->mutex);
        code = hf__error_set(reterr, HF_ERR_CLOSED, "the client is being closed");
    }
    if (code != 0) {
        hf__free(watcher);
        return code;
    }
    memcpy(watcher->name, name, len);
    watcher->name_len = len;
    watcher->client = client;
    watcher->interval_ms =
        interval_ms ? interval_ms : hf__core_options(client->core)->poll_limit_ms;
    watcher->changed = changed;
    watcher->user = user;
    watcher->refs = 1;
    watcher->look.done = looked;
    watcher->chore.run = tell;
    hf__list_init(&watcher->chore.node);
    hf__list_append(&client->watchers, &watcher->node);
    hf__client_ref(client);
    *ret = watcher;
    hf__client_leave(client);
    return 0;
}

void hf_watch_stop(struct hf_watcher *watcher)
{
    if (!watcher || hf__client_enter(watcher->client, NULL) != 0) return;
    struct hf_client *client = watcher->client;
    watcher->stopped = true;
    unref(watcher);
    hf__client_unref_unlock(client);
}
