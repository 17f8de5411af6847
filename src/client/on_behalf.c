#include "client/on_behalf.h"

#include "base/alloc.h"

struct hf_session {
    struct hf_client *client; /* counted */
    struct hf_lease *lease;   /* counted */
};

/* ---- calls that call back ---- */

static void call_back(struct hf_client *client, struct hf_chore *chore)
{
    struct hf_async *async = HF_CONTAINER(chore, struct hf_async, chore);
    if (async->adopted)
        async->adopted(async->user, async->job.code, async->lock, &async->job.error);
    else if (async->released)
        async->released(async->user, async->job.code, async->job.already, &async->job.error);
    else async->done(async->user, async->job.code, &async->job.error);
    hf__free(async);
    pthread_mutex_lock(&client->mutex);
    hf__client_unref_unlock(client);
}

void hf__async_done(struct hf_client *client, struct hf_async *async)
{
    if (async->lock && async->job.code == 0) {
        async->lock->grant = async->job.grant;
        hf__client_ref(client); /* the lock's */
    } else {
        hf__lock_drop(async->lock);
        async->lock = NULL;
    }
    hf__client_chore(client, &async->chore);
}

struct hf_async *hf__async_begin(struct hf_client *client, hf_done_fn done, void *user,
                                 struct hf_error *reterr)
{
    struct hf_async *async = hf__calloc(1, sizeof *async);
    if (!async) {
        hf__error_no_memory(reterr);
        return NULL;
    }
    if (hf__client_enter(client, reterr) != 0) {
        hf__free(async);
        return NULL;
    }
    hf__client_ref(client);
    async->chore.run = call_back;
    hf__list_init(&async->chore.node);
    async->job.calls_back = true;
    async->done = done;
    async->user = user;
    return async;
}

/* Why it did not begin. */
static int code_of(const struct hf_error *error)
{
    return error ? error->code : HF_ERR_NO_MEMORY;
}

int hf__lock_renew_async(struct hf_lock *lock, int64_t lease_ms, hf_done_fn done, void *user,
                         struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) return code_of(reterr);
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    if (lease_ms < facts.lease_ms) lease_ms = facts.lease_ms;
    hf__core_ensure(client->core, lock->grant, hf__whole_ms(client, lease_ms), &async->job,
                    hf__client_now_us(client));
    hf__client_leave(client);
    return 0;
}

/* ---- sessions ---- */

int hf__session_open(struct hf_client *client, const struct hf_session_want *want, hf_done_fn done,
                     void *user, struct hf_session **ret, struct hf_error *reterr)
{
    if (!hf__core_options(client->core)->format->sessions)
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no sessions",
                             hf__core_options(client->core)->format->name);
    if (want->lease_ms < 100 || want->lease_ms > HF_LEASE_MAX_MS)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid lease of %lld ms: must be between 100 ms and a year",
                             (long long)want->lease_ms);
    struct hf_session *session = hf__calloc(1, sizeof *session);
    if (!session) return hf__error_no_memory(reterr);
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) {
        hf__free(session);
        return code_of(reterr);
    }
    int code = hf__core_session_open(client->core, want, &async->job, hf__client_now_us(client),
                                     &session->lease, reterr);
    if (code != 0) {
        hf__free(session);
        hf__free(async);
        hf__client_unref_unlock(client);
        return code;
    }
    session->client = client;
    hf__lease_ref(session->lease); /* one is the core's, until the session ends */
    hf__client_ref(client);
    *ret = session;
    hf__client_leave(client);
    return 0;
}

int hf__session_renew(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr)
{
    struct hf_client *client = session->client;
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) return code_of(reterr);
    int64_t now_us = hf__client_now_us(client);
    struct hf_session_facts facts;
    hf__session_facts(session->lease, now_us, &facts);
    hf__core_session_ensure(client->core, session->lease, hf__whole_ms(client, facts.lease_ms),
                            &async->job, now_us);
    hf__client_leave(client);
    return 0;
}

int hf__session_close(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr)
{
    struct hf_client *client = session->client;
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) return code_of(reterr);
    hf__core_session_close(client->core, session->lease, &async->job, hf__client_now_us(client));
    hf__client_leave(client);
    return 0;
}

int64_t hf__session_left_ms(const struct hf_session *session)
{
    struct hf_session_facts facts;
    hf__session_status(session, &facts);
    return facts.left_ms;
}

void hf__session_unref(struct hf_session *session)
{
    if (!session || hf__client_enter(session->client, NULL) != 0) return;
    struct hf_client *client = session->client;
    hf__lease_unref(client->core, session->lease);
    hf__free(session);
    hf__client_unref_unlock(client);
}

int hf__session_adopt(struct hf_client *client, const struct hf_id *secret, const char *owner,
                      hf_done_fn done, void *user, struct hf_session **ret, struct hf_error *reterr)
{
    struct hf_id id;
    struct hf_session *session = hf__calloc(1, sizeof *session);
    if (!session) return hf__error_no_memory(reterr);
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) {
        hf__free(session);
        return code_of(reterr);
    }
    hf__id_of_secret(secret, &id);
    int code = hf__core_session_adopt(client->core, &id, hf__slice_str(owner), &async->job,
                                      hf__client_now_us(client), &session->lease, reterr);
    if (code != 0) {
        hf__free(session);
        hf__free(async);
        hf__client_unref_unlock(client);
        return code;
    }
    hf__session_set_secret(session->lease, secret);
    session->client = client;
    hf__client_ref(client);
    *ret = session;
    hf__client_leave(client);
    return 0;
}

void hf__session_status(const struct hf_session *session, struct hf_session_facts *ret)
{
    struct hf_client *client = session->client;
    *ret = (struct hf_session_facts){.ended = true, .unused = true};
    if (hf__client_enter(client, NULL) != 0) return;
    hf__session_facts(session->lease, hf__client_now_us(client), ret);
    pthread_mutex_unlock(&client->mutex);
}

void hf__lock_give_back(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (hf__client_enter(client, NULL) != 0) return;
    hf__core_give_back(client->core, lock->grant, hf__client_now_us(client));
    hf__client_leave(client);
}

int hf__acquire_in(struct hf_client *client, const struct hf_session *session,
                   const struct hf_acquire_call *call, struct hf_acquisition **ret,
                   struct hf_error *reterr)
{
    struct hf_acquire_call in_it = *call;
    in_it.session = session ? session->lease : NULL;
    return hf__acquire_async(client, &in_it, ret, reterr);
}

int hf__force_async(struct hf_client *client, const struct hf_force_call *call, hf_done_fn done,
                    void *user, struct hf_error *reterr)
{
    struct hf_async *async = hf__async_begin(client, done, user, reterr);
    if (!async) return code_of(reterr);
    hf__core_force(client->core, hf__slice_str(call->name), hf__slice_str(call->by),
                   hf__slice_str(call->reason), call->timeout_ms, &async->job,
                   hf__client_now_us(client));
    hf__client_leave(client);
    return 0;
}

/* ---- inspecting ---- */

void hf__lock_status(const struct hf_lock *lock, struct hf_lock_status *ret)
{
    struct hf_client *client = lock->client;
    *ret = (struct hf_lock_status){0};
    if (hf__client_enter(client, NULL) != 0) return;
    struct hf_grant_facts facts;
    hf__grant_facts(lock->grant, &facts);
    *ret = (struct hf_lock_status){
        .token = facts.token,
        .lease_ms = facts.lease_ms,
        .left_ms = hf__grant_left_us(lock->grant, hf__client_now_us(client)) / 1000,
        .since_unix_ms = facts.since_unix_ms,
        .expires_unix_ms = facts.expires_unix_ms,
        .grant = facts.id,
        .limit = facts.limit,
        .in_session = facts.in_session,
        .taken_over = facts.taken_over,
        .lacks_data = lock->lacks_data,
    };
    struct hf_slice instance = hf__grant_instance(lock->grant);
    if (instance.len) memcpy(ret->instance, instance.ptr, instance.len);
    pthread_mutex_unlock(&client->mutex);
}

void hf__client_by_grant(struct hf_client *client)
{
    if (hf__client_enter(client, NULL) != 0) return;
    hf__core_set_by_grant(client->core, client->store->embedded); /* one writer, one queue */
    hf__client_leave(client);
}

void hf__client_inspect(struct hf_client *client, struct hf_arena *arena, struct hf_slice name,
                        struct hf_inspection *ret, struct hf_op *ret_op)
{
    const struct hf_core_options *core = hf__core_options(client->core); /* which never change */
    hf__inspection_init(ret, core, arena);
    core->format->read(&core->layout, arena, name, ret_op);
}

struct hf_lock_info *hf__inspected(struct hf_client *client, const struct hf_inspection *inspection)
{
    if (hf__client_enter(client, NULL) != 0) return NULL;
    struct hf_lock_info *info = inspection->arena->failed ? NULL : hf__info_new(client, inspection);
    pthread_mutex_unlock(&client->mutex);
    return info;
}

const struct hf_format *hf__client_format(const struct hf_client *client)
{
    return hf__core_options(client->core)->format;
}

const struct hf_layout *hf__client_layout(const struct hf_client *client)
{
    return &hf__core_options(client->core)->layout;
}

bool hf__client_finds_dead(struct hf_client *client, const struct hf_liveness *liveness)
{
    pthread_mutex_lock(&client->mutex);
    bool dead = hf__core_finds_dead(client->core, liveness, hf__client_now_us(client));
    pthread_mutex_unlock(&client->mutex);
    return dead;
}

struct hf_mailbox *hf__client_mailbox(struct hf_client *client)
{
    return client->driven ? &client->mailbox : NULL;
}

void hf__client_hint(struct hf_client *client, struct hf_slice name)
{
    if (hf__client_enter(client, NULL) != 0) return;
    hf__core_hint_name(client->core, name, hf__client_now_us(client));
    hf__client_leave(client);
}

size_t hf__client_queue(struct hf_client *client, const char *name)
{
    if (hf__client_enter(client, NULL) != 0) return 0;
    size_t count = hf__core_queue(client->core, hf__slice_str(name));
    pthread_mutex_unlock(&client->mutex);
    return count;
}

void hf__client_refuse_waiters(struct hf_client *client)
{
    struct hf_error error;
    hf__error_set(&error, HF_ERR_CLOSED, "the service is shutting down");
    if (hf__client_enter(client, NULL) != 0) return;
    int64_t now_us = hf__client_now_us(client);
    hf__core_tick(client->core, now_us);
    hf__core_refuse(client->core, &error, now_us);
    hf__client_leave(client);
}

void hf__client_cut_short(struct hf_client *client)
{
    if (hf__client_enter(client, NULL) != 0) return;
    int64_t now_us = hf__client_now_us(client);
    hf__core_leave_all(client->core, now_us);
    hf__core_close(client->core, 0, now_us);
    for (struct hf_list *at = client->calls.next; at != &client->calls; at = at->next)
        hf__store_cancel(client->store, HF_CONTAINER(at, struct hf_client_call, node)->id);
    hf__client_leave(client);
}

void hf__client_leave_locks(struct hf_client *client)
{
    if (hf__client_enter(client, NULL) != 0) return;
    hf__core_leave_all(client->core, hf__client_now_us(client));
    hf__client_leave(client);
}
