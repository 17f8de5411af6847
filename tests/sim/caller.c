/*
 * Callers: those for whom several programs act by grant, as clients of lock services on one table
 * do, and scripts that were given a grant.
 *
 * A caller asks any client of the world: to acquire (clients that are services), to renew and to
 * release what it holds, wherever that was acquired. It believes what it was told: "yours for so
 * long" counts from the answer, on the caller's own clock, and counts for I1. Answers get lost,
 * programs stop, crash and start again without their memory; the table stays.
 *
 * Some have a session, which any service opens, renews, takes locks for and ends. An acquire that
 * was not answered may be repeated at another service, as the same call.
 *
 * What a client does with a call is what the service and the command do with it (service/api/v2.c,
 * client/by_grant.c): its own grant first, then the record.
 */
#include <string.h>

#include "sim.h"

static const char *const call_names[] = {"acquire",        "renew",          "repeat",
                                         "release",        "open a session", "renew the session",
                                         "end the session"};

struct sim_call {
    struct sim_user user;
    enum sim_call_kind kind;
    struct sim_caller *caller;
    struct sim_client *client;
    int64_t lease_ms;
    int64_t timeout_ms;
    struct hf_id grant;
    struct hf_job job;
    struct hf_attempt *attempt;
    struct hf_lease *session; /* counted */
    bool session_ready;
    bool repeats; /* the grant of an earlier call is adopted */
    bool asked_record;
    bool over; /* the caller has its answer, or does not wait for it any more */
};

/* A grant that a service keeps an eye on. */
struct sim_entry {
    struct sim_user user;
    struct sim_entry *next;
    struct hf_grant *grant;
    struct sim_call *releasing;
};

static int64_t caller_us(const struct sim_caller *caller)
{
    int64_t t = caller->world->t;
    return t + t / 1000000 * caller->clock_ppm + t % 1000000 * caller->clock_ppm / 1000000;
}

bool sim_caller_believes(const struct sim_caller *caller)
{
    return caller->has_grant && !caller->robbed && caller->told_until_us > caller_us(caller) &&
           !sim_check_is_revoked(caller->world, &caller->grant);
}

static void think(struct sim_caller *caller);

/* ---- what a caller hears ---- */

static void forget(struct sim_caller *caller)
{
    caller->has_grant = caller->robbed = caller->in_session = false;
    caller->told_until_us = 0;
}

/* Whether the session that it has keeps the grant that it has: it may be of an earlier one. */
static bool is_kept(const struct sim_caller *caller)
{
    return caller->has_grant && caller->has_session && caller->in_session &&
           hf__id_eq(&caller->kept_by, &caller->session);
}

static void forget_session(struct sim_caller *caller)
{
    bool kept = is_kept(caller);
    caller->has_session = false;
    if (!kept) return;
    sim_check_dead(caller->world, &caller->grant);
    forget(caller);
}

/* Nothing is promised of a session whose end was asked for, whatever the answer. */
static void leave_session(struct sim_caller *caller)
{
    if (is_kept(caller)) forget(caller);
    caller->has_session = false;
}

static void hear_of_session(struct sim_call *call, int code, int64_t left_ms)
{
    struct sim_caller *caller = call->caller;
    int64_t until_us = caller_us(caller) + left_ms * 1000;
    if (code == 0 && call->kind != SIM_CALL_END_SESSION) {
        if (call->kind == SIM_CALL_OPEN) caller->session_until_us = 0;
        if (until_us > caller->session_until_us) caller->session_until_us = until_us;
        caller->has_session = true;
        if (is_kept(caller) && until_us > caller->told_until_us) caller->told_until_us = until_us;
    } else if (code == 0 || code == HF_ERR_LOST) {
        forget_session(caller);
    } else if (call->kind == SIM_CALL_END_SESSION) {
        leave_session(caller);
    }
}

static void heard(struct sim_call *call, int code, int64_t left_ms)
{
    struct sim_caller *caller = call->caller;
    struct sim_world *world = caller->world;
    call->over = true;
    caller->call = NULL;
    sim_trace(world, "caller%d: %s at %s: %s, %lld ms", caller->index, call_names[call->kind],
              call->client->owner, hf_error_name(code), (long long)left_ms);
    caller->again = false;
    if (call->kind >= SIM_CALL_OPEN) {
        hear_of_session(call, code, left_ms);
    } else if (code == 0 && call->kind != SIM_CALL_RELEASE) {
        caller->grant = call->grant;
        caller->has_grant = true;
        if (call->kind == SIM_CALL_ACQUIRE) {
            caller->in_session = call->session != NULL;
            caller->kept_by = caller->session;
            caller->last_kept_by = caller->session;
            caller->asked = call->client;
            caller->last = call->grant;
            caller->last_lock = caller->lock;
            caller->last_in_session = caller->in_session;
            caller->last_limit = caller->limit;
        }
        if (call->kind == SIM_CALL_ACQUIRE)
            caller->robbed = sim_check_is_robbed(world, &call->grant, caller->limit);
        sim_check_alive(world, &call->grant, caller->limit);
        int64_t until_us = caller_us(caller) + left_ms * 1000;
        if (until_us > caller->told_until_us) caller->told_until_us = until_us;
    } else if (call->kind == SIM_CALL_RELEASE && code == 0) {
        sim_check_dead(world, &call->grant);
        forget(caller);
    } else if (code == HF_ERR_LOST && call->kind == SIM_CALL_ACQUIRE) {
        forget_session(caller);
        forget(caller);
    } else if (code == HF_ERR_LOST) {
        sim_check_dead(world, &call->grant);
        forget(caller);
    } else if (call->kind == SIM_CALL_ACQUIRE || code == HF_ERR_ABSENT) {
        forget(caller);
    }
    sim_check_step(world, NULL);
    think(caller);
}

/* What a service tells: a hundredth of the lease less, for the caller's clock. */
static void answer(struct sim_call *call, int code, const struct hf_confirmed *confirmed)
{
    struct sim_world *world = call->caller->world;
    struct sim_client *client = call->client;
    client->serving--;
    hf__lease_unref(client->core, call->session);
    if (call->over) return;
    if (!world->draining && sim_chance(world, world->loss_percent)) {
        sim_trace(world, "   (the answer to caller%d gets lost)", call->caller->index);
        return;
    }
    int64_t left_ms = 0;
    if (code == 0 && confirmed) {
        left_ms = (confirmed->valid_until_us - sim_boot_us(client, world->t)) / 1000;
        left_ms -= (confirmed->lease_ms + 99) / 100;
        if (left_ms < 0) left_ms = 0;
    }
    heard(call, code, left_ms);
}

static void hang_up_call(struct sim_call *call)
{
    if (call->over) return;
    sim_trace(call->caller->world, "caller%d: hangs up", call->caller->index);
    call->over = true;
    call->caller->call = NULL;
    call->caller->again = call->kind == SIM_CALL_ACQUIRE;
    if (call->kind == SIM_CALL_END_SESSION && !call->caller->is_told) leave_session(call->caller);
    think(call->caller);
}

static void hang_up(struct sim_event *event)
{
    hang_up_call(event->about);
}

void sim_caller_hangs_up(struct sim_caller *caller)
{
    if (caller->call) hang_up_call(caller->call);
}

/* ---- what a client does with a call ---- */

static struct sim_entry *find_entry(const struct sim_client *client, const struct hf_id *grant)
{
    for (struct sim_entry *entry = client->entries; entry; entry = entry->next) {
        if (hf__id_eq(&entry->grant->id, grant)) return entry;
    }
    return NULL;
}

static struct sim_entry *list_entry(struct sim_client *client, struct hf_grant *grant)
{
    struct sim_entry *entry = hf__arena_zalloc(&client->world->arena, 1, sizeof *entry);
    entry->user.kind = SIM_ENTRY;
    entry->grant = grant;
    entry->next = client->entries;
    client->entries = entry;
    grant->user = entry;
    return entry;
}

void sim_entry_event(struct sim_client *client, struct hf_grant *grant)
{
    struct sim_entry *entry = grant->user;
    struct sim_entry **at = &client->entries;
    while (*at && *at != entry) at = &(*at)->next;
    if (*at) *at = entry->next;
    sim_trace(client->world, "%s: a caller's %.*s ENDED %s%s%s", client->owner,
              HF_FMT(hf__name_text(grant->name)), hf_reason_name(grant->reason),
              grant->detail ? ", " : "", grant->detail ? grant->detail : "");
    /* What a service says of it to those who listen is true. A process may say that it ended
     * here. */
    bool lost = grant->reason > HF_REASON_ABANDONED && grant->reason != HF_REASON_UNCONFIRMED &&
                (client->by_grant ||
                 (grant->reason != HF_REASON_EXPIRED && grant->reason != HF_REASON_UNREACHABLE &&
                  grant->reason != HF_REASON_STORE_LOST));
    if (lost) sim_check_dead(client->world, &grant->id);
    if (entry->releasing) {
        bool released = grant->reason == HF_REASON_RELEASED || grant->reason == HF_REASON_CLOSED;
        int code = released ? 0 : lost ? HF_ERR_LOST : HF_ERR_OUTCOME_UNKNOWN;
        answer(entry->releasing, code, NULL);
    }
    hf__grant_free(client->core, grant);
}

static struct hf_by_grant which(const struct sim_call *call)
{
    const struct sim_caller *caller = call->caller;
    return (struct hf_by_grant){.name = sim_lock_name(caller->lock),
                                .grant = call->grant,
                                .limit = caller->limit,
                                .owner = caller->in_session ? HF_LIT("callers") : HF_LIT(""),
                                .keep = call->client->by_grant};
}

static void by_record(struct sim_call *call, int64_t now_us)
{
    struct sim_client *client = call->client;
    struct hf_by_grant by = which(call);
    call->asked_record = true;
    if (call->caller->in_session) call->lease_ms = by.limit = 0; /* as v2's grants are written */
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    sim_memory_fails(client->world, client->world->draining ? 0 : client->world->memory);
    if (call->kind != SIM_CALL_RELEASE)
        hf__core_adopt(client->core, &by, call->lease_ms, &call->job, now_us);
    else hf__core_release_by_grant(client->core, &by, &how, &call->job, now_us);
    sim_memory_fails(client->world, 0);
}

static void serve_renew(struct sim_call *call, int64_t now_us)
{
    struct sim_client *client = call->client;
    struct sim_entry *entry = find_entry(client, &call->grant);
    if (call->kind == SIM_CALL_REPEAT && !entry) {
        answer(call, HF_ERR_ABSENT, NULL); /* it is acquired anew */
        return;
    }
    if (!entry || entry->grant->state != HF_GRANT_HELD) {
        by_record(call, now_us);
        return;
    }
    const struct hf_lease *lease = entry->grant->lease;
    int64_t lease_ms = call->lease_ms > lease->lease_ms ? call->lease_ms : lease->lease_ms;
    int64_t at_least_ms = lease_ms - lease_ms / 100 - 1;
    if (call->kind == SIM_CALL_REPEAT) at_least_ms = 0;
    hf__core_ensure(client->core, entry->grant, at_least_ms, &call->job, now_us);
}

static void serve_release(struct sim_call *call, int64_t now_us)
{
    struct sim_client *client = call->client;
    struct sim_entry *entry = find_entry(client, &call->grant);
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    if (entry && entry->grant->state == HF_GRANT_HELD) {
        struct hf_grant *grant = entry->grant;
        entry->releasing = call;
        if (hf__core_release(client->core, grant, &how, now_us)) return;
        entry->releasing = NULL;
    }
    by_record(call, now_us);
}

static void acquire(struct sim_call *call, int64_t now_us)
{
    const struct sim_caller *caller = call->caller;
    const struct hf_want want = {
        .name = sim_lock_name(caller->lock),
        .limit = caller->limit,
        .timeout_ms = call->timeout_ms,
        .lease_ms = call->session ? 0 : call->lease_ms,
        .owner = hf__slice_str("callers"), /* one name for all: a grant is what counts */
        .session = call->session,
        .has_call = true,
        .call = caller->identity,
        .user = call,
    };
    struct hf_error error;
    if (hf__core_acquire(call->client->core, &want, now_us, &call->attempt, &error) != 0)
        answer(call, error.code, NULL);
}

static struct hf_lease *find_session(struct sim_client *client, const struct hf_id *secret)
{
    struct hf_id id;
    hf__id_of_secret(secret, &id);
    for (struct hf_list *at = client->core->opened.next; at != &client->core->opened;
         at = at->next) {
        struct hf_lease *session = HF_CONTAINER(at, struct hf_lease, of_opened);
        if (hf__id_eq(&session->id, &id)) return session;
    }
    return NULL;
}

/* What the service does: with its own session, if it has it, otherwise it is adopted first. */
static void serve_session(struct sim_call *call, int64_t now_us)
{
    struct sim_client *client = call->client;
    struct sim_caller *caller = call->caller;
    struct hf_error error;
    if (call->kind == SIM_CALL_OPEN) {
        const struct hf_session_want want = {.owner = HF_LIT("callers"),
                                             .lease_ms = call->lease_ms};
        int code =
            hf__core_session_open(client->core, &want, &call->job, now_us, &call->session, &error);
        if (code == 0) call->session->refs++;
        else answer(call, code, NULL);
        return;
    }
    struct hf_lease *known = call->session ? call->session : find_session(client, &caller->session);
    if (!known || known->state != HF_LEASE_LIVE || known->leaving) {
        struct hf_id id;
        if (call->session) { /* it was adopted, and has ended since */
            answer(call, HF_ERR_LOST, NULL);
            return;
        }
        hf__id_of_secret(&caller->session, &id);
        int code = hf__core_session_adopt(client->core, &id, HF_LIT("callers"), &call->job, now_us,
                                          &call->session, &error);
        if (code != 0) answer(call, code, NULL);
        return;
    }
    if (!call->session) known->refs++;
    call->session = known;
    if (call->kind == SIM_CALL_ACQUIRE) {
        acquire(call, now_us);
    } else if (call->kind == SIM_CALL_END_SESSION) {
        call->session_ready = true;
        hf__core_session_close(client->core, known, &call->job, now_us);
    } else {
        call->session_ready = true;
        hf__core_session_ensure(client->core, known, known->lease_ms - known->lease_ms / 100 - 1,
                                &call->job, now_us);
    }
}

static bool is_about_session(const struct sim_call *call)
{
    return call->kind >= SIM_CALL_OPEN ||
           (call->kind == SIM_CALL_ACQUIRE && call->caller->has_session);
}

static void serve(struct sim_event *event)
{
    struct sim_call *call = event->about;
    struct sim_client *client = call->client;
    int64_t now_us = sim_boot_us(client, client->world->t);
    if (client->closing || call->over) return;
    sim_client_tick(client);
    client->serving++;
    call->job = (struct hf_job){.user = call, .calls_back = true};
    sim_memory_fails(client->world, client->world->draining ? 0 : client->world->memory);
    if (is_about_session(call)) serve_session(call, now_us);
    else if (call->kind == SIM_CALL_RENEW || call->kind == SIM_CALL_REPEAT)
        serve_renew(call, now_us);
    else if (call->kind == SIM_CALL_RELEASE) serve_release(call, now_us);
    else acquire(call, now_us);
    sim_memory_fails(client->world, 0);
    sim_client_drain(client);
}

static struct hf_confirmed confirmed_of(const struct hf_grant *grant)
{
    return (struct hf_confirmed){.lease_ms = grant->lease->lease_ms,
                                 .valid_until_us = grant->lease->valid_until_us};
}

void sim_call_acquired(struct sim_client *client, struct hf_attempt *attempt)
{
    struct sim_call *call = attempt->want.user;
    int code = attempt->code;
    int64_t now_us = sim_boot_us(client, client->world->t);
    struct hf_grant *grant = code == 0 ? attempt->grant : NULL;
    if (code == HF_ERR_HELD && attempt->repeats && !call->over) {
        call->grant = attempt->repeated;
        call->repeats = call->asked_record = true;
        hf__attempt_free(client->core, attempt);
        call->job = (struct hf_job){.user = call, .calls_back = true};
        struct hf_by_grant by = which(call);
        hf__core_adopt(client->core, &by, 0, &call->job, now_us);
        return;
    }
    hf__attempt_free(client->core, attempt);
    if (grant) {
        client->world->grants++;
        list_entry(client, grant);
        call->grant = grant->id;
        if (call->over) { /* nobody to tell: it is given back */
            hf__core_give_back(client->core, grant, now_us);
            answer(call, 0, NULL);
            return;
        }
    }
    struct hf_confirmed confirmed = {0};
    if (grant) confirmed = confirmed_of(grant);
    answer(call, code, &confirmed);
}

void sim_call_done(struct sim_client *client, struct hf_job *job)
{
    struct sim_call *call = job->user;
    struct sim_entry *entry = find_entry(client, &call->grant);
    int64_t now_us = sim_boot_us(client, client->world->t);
    if (call->kind == SIM_CALL_RELEASE) {
        answer(call, job->code, NULL);
        return;
    }
    if (is_about_session(call) && !call->repeats) {
        struct hf_confirmed session = {0};
        bool goes_on = job->code == 0 && !call->session_ready &&
                       (call->kind == SIM_CALL_ACQUIRE || call->kind == SIM_CALL_END_SESSION);
        if (goes_on) { /* it was adopted */
            call->job = (struct hf_job){.user = call, .calls_back = true};
            serve_session(call, now_us);
            return;
        }
        if (job->code == HF_ERR_LOST && call->session_ready && call->kind != SIM_CALL_END_SESSION) {
            hf__lease_unref(client->core, call->session); /* lost here: what does the record say? */
            call->session = NULL;
            call->session_ready = false;
            call->job = (struct hf_job){.user = call, .calls_back = true};
            serve_session(call, now_us);
            return;
        }
        if (call->session) session.lease_ms = call->session->lease_ms;
        if (call->session) session.valid_until_us = call->session->valid_until_us;
        if (call->kind == SIM_CALL_OPEN && job->code == 0 && !call->over)
            call->caller->session = call->session->secret;
        answer(call, job->code, &session);
        return;
    }
    if (job->code == HF_ERR_LOST &&
        !call->asked_record) { /* lost here: what does the record say? */
        call->job = (struct hf_job){.user = call, .calls_back = true};
        by_record(call, sim_boot_us(client, client->world->t));
        return;
    }
    struct hf_confirmed confirmed = job->confirmed;
    if (job->code == 0 && job->grant && (!entry || entry->grant != job->grant))
        list_entry(client, job->grant); /* adopted */
    else if (job->code == 0 && job->grant) confirmed = confirmed_of(job->grant);
    answer(call, job->code, &confirmed);
}

/* ---- what a caller does ---- */

static struct sim_client *some_client(struct sim_world *world, bool service)
{
    for (int tries = 0; tries < 8; tries++) {
        struct sim_client *client = &world->clients[sim_below(world, world->client_count)];
        if (client->alive && !client->closing && !client->is_probe &&
            (client->by_grant || !service))
            return client;
    }
    return NULL;
}

void sim_caller_calls(struct sim_caller *caller, enum sim_call_kind kind, struct sim_client *client)
{
    struct sim_world *world = caller->world;
    struct sim_call *call = hf__arena_zalloc(&world->arena, 1, sizeof *call);
    call->user.kind = SIM_CALL;
    call->kind = kind;
    call->caller = caller;
    call->client = client;
    call->grant = caller->grant;
    int64_t lease_ms = client->lease_ms;
    int64_t leases[] = {0, lease_ms, lease_ms / 4, lease_ms + sim_below(world, lease_ms / 2)};
    call->lease_ms = kind == SIM_CALL_RELEASE ? 0 : leases[sim_below(world, 4)];
    if (kind == SIM_CALL_ACQUIRE && call->lease_ms == 0) call->lease_ms = lease_ms;
    if (caller->limit > 0 && kind == SIM_CALL_RENEW && sim_chance(world, 60))
        call->lease_ms = caller->lease_ms += caller->lease_ms / 100;
    /* Longer than the skew, within which no other service takes it up (common.c). */
    if (kind == SIM_CALL_OPEN)
        call->lease_ms = world->skew_ms * 2 + lease_ms * (1 + sim_below(world, 3));
    if (kind == SIM_CALL_ACQUIRE && !caller->again) { /* a repeated call asks for nothing new */
        caller->asked_t = world->t;
        caller->lease_ms = call->lease_ms;
        uint64_t words[2] = {sim_random(world), sim_random(world)};
        memcpy(caller->identity.bytes, words, sizeof words);
    }
    if (call->lease_ms > world->longest_lease_ms) world->longest_lease_ms = call->lease_ms;
    int64_t waits[] = {0, lease_ms / 2, lease_ms * 2};
    call->timeout_ms = waits[sim_below(world, 3)];
    if (kind == SIM_CALL_RELEASE || (kind == SIM_CALL_END_SESSION && is_kept(caller)))
        sim_check_given_up(world, &caller->grant);
    caller->call = call;
    sim_trace(world, "caller%d: asks %s to %s %.*s (lease %lld)", caller->index, client->owner,
              call_names[kind], HF_FMT(sim_lock_name(caller->lock)), (long long)call->lease_ms);
    sim_at(world, world->t + sim_below(world, 500), client, serve, call);
    int64_t patience_us = (call->timeout_ms + world->timeout_ms * 6) * 1000;
    sim_at(world, world->t + patience_us, NULL, hang_up, call);
}

static void begin(struct sim_caller *caller)
{
    struct sim_world *world = caller->world;
    struct sim_client *client = some_client(world, true);
    if (!client || world->draining) {
        think(caller);
        return;
    }
    if (caller->again && sim_chance(world, 70)) {
        sim_caller_calls(caller, SIM_CALL_ACQUIRE, client);
        return;
    }
    caller->again = false;
    forget(caller);
    if (!caller->has_session && world->params.format->sessions && sim_chance(world, 30)) {
        sim_caller_calls(caller, SIM_CALL_OPEN, client);
        return;
    }
    if (caller->has_session && sim_chance(world, 10)) {
        sim_caller_calls(caller, SIM_CALL_END_SESSION, client);
        return;
    }
    caller->lock = (int)sim_below(world, world->lock_count);
    caller->limit = 0;
    if (world->lock_kinds[caller->lock] == SIM_SEMAPHORE) {
        caller->limit = world->lock_limits[caller->lock];
        if (!caller->has_session) {
            think(caller);
            return;
        }
    }
    if (world->lock_kinds[caller->lock] == SIM_READERS &&
        (!world->params.format->sessions || caller->has_session))
        caller->limit = sim_chance(world, 70) ? HF_READERS_LIMIT : 0;
    sim_caller_calls(caller, SIM_CALL_ACQUIRE, client);
}

static void act(struct sim_event *event)
{
    struct sim_caller *caller = event->about;
    struct sim_world *world = caller->world;
    if (caller->call || event->number != caller->thought) return;
    bool may_repeat = caller->asked && caller->asked->alive && !caller->asked->closing &&
                      (!caller->has_grant || hf__id_eq(&caller->grant, &caller->last));
    if (may_repeat && !world->draining && sim_chance(world, 15)) {
        caller->grant = caller->last; /* whoever repeats need not know what became of it */
        caller->lock = caller->last_lock;
        caller->limit = caller->last_limit;
        caller->in_session = caller->last_in_session;
        caller->kept_by = caller->last_kept_by;
        sim_caller_calls(caller, SIM_CALL_REPEAT, caller->asked);
        return;
    }
    if (!caller->has_grant) {
        begin(caller);
        return;
    }
    struct sim_client *client = some_client(world, caller->in_session);
    int64_t what = sim_below(world, 100);
    if (!client) think(caller);
    else if (is_kept(caller) && what < 5) sim_caller_calls(caller, SIM_CALL_END_SESSION, client);
    else if (world->draining || what < 20) sim_caller_calls(caller, SIM_CALL_RELEASE, client);
    else if (is_kept(caller) && what < 65) sim_caller_calls(caller, SIM_CALL_RENEW_SESSION, client);
    else if (what < 90) sim_caller_calls(caller, SIM_CALL_RENEW, client);
    else if (what < 93) {
        forget(caller); /* it leaves the lock to expire */
        think(caller);
    } else think(caller);
}

static void think(struct sim_caller *caller)
{
    struct sim_world *world = caller->world;
    if (caller->is_told) return;
    int64_t most_us = world->clients[0].lease_ms * (sim_chance(world, 20) ? 1800 : 500);
    if (world->draining) most_us = 100000;
    caller->thought++;
    sim_at(world, world->t + 1 + sim_below(world, most_us), NULL, act, caller)->number =
        caller->thought;
}

bool sim_callers_idle(const struct sim_world *world)
{
    for (int i = 0; i < world->caller_count; i++) {
        if (world->callers[i].call || world->callers[i].has_grant) return false;
    }
    return true;
}

/* A process tells the grant of its lock to somebody. */
void sim_caller_hears(struct sim_world *world, const struct hf_grant *grant, int lock)
{
    if (!grant->lease || grant->lease->is_session) return;
    for (int i = 0; i < world->caller_count; i++) {
        struct sim_caller *caller = &world->callers[i];
        if (caller->has_grant || caller->call) continue;
        sim_trace(world, "caller%d: hears of %.*s", i, HF_FMT(sim_lock_name(lock)));
        forget(caller);
        caller->has_grant = true;
        caller->grant = grant->id;
        caller->again = false;
        caller->asked_t = 0;
        caller->lock = lock;
        caller->limit = grant->limit;
        caller->lease_ms = grant->lease->lease_ms;
        think(caller);
        return;
    }
}

void sim_callers_start(struct sim_world *world, int count)
{
    for (int i = 0; i < count; i++) {
        struct sim_caller *caller = &world->callers[world->caller_count];
        *caller = (struct sim_caller){.world = world, .index = world->caller_count++};
        if (world->params.faults & SIM_CLOCKS) caller->clock_ppm = sim_below(world, 10001) - 5000;
        think(caller);
    }
}
