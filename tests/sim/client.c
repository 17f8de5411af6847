/* A client: the core, its driver, and the workers that use it. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static int64_t now_us(const struct sim_client *client)
{
    return sim_boot_us(client, client->world->t);
}

static uint64_t random_of(void *user)
{
    return sim_random(user);
}

/* ---- driver ---- */

static void tick(struct sim_event *event)
{
    sim_client_tick(event->client);
}

void sim_client_tick(struct sim_client *client)
{
    client->tick_at_us = HF_NEVER;
    sim_memory_fails(client->world, client->world->draining ? 0 : client->world->memory);
    /* Hints come late, for nothing, several at a time, and mostly not at all. */
    if (sim_chance(client->world, 20)) {
        int freed = (int)sim_below(client->world, client->world->lock_count);
        bool tells = sim_chance(client->world, 50);
        hf__core_hint(client->core, tells ? hf__name_hash(sim_lock_name(freed)) : 0,
                      now_us(client));
    }
    if (sim_chance(client->world, 10)) {
        int lock = (int)sim_below(client->world, client->world->lock_count);
        hf__core_hint_name(client->core, sim_lock_name(lock), now_us(client));
    } else hf__core_tick(client->core, now_us(client));
    sim_memory_fails(client->world, 0);
    sim_client_drain(client);
}

static void think(struct sim_worker *worker);

static void worker_finished(struct sim_worker *worker, struct hf_attempt *attempt)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    if (worker->attempt != attempt) {
        sim_fail(world, "I4: a result for an attempt that had one");
        return;
    }
    worker->attempt = NULL;
    world->waiting--;
    sim_trace(world, "%s: %.*s %s", client->owner, HF_FMT(sim_lock_name(worker->lock)),
              attempt->code == 0 ? "GRANTED" : hf_error_name(attempt->code));
    if (attempt->code == 0) {
        worker->grant = attempt->grant;
        int64_t asked_t = worker->since_t;
        worker->since_t = world->t;
        worker->releasing = false;
        sim_check_granted(client, attempt->grant, worker->lock, asked_t);
        if (sim_chance(world, 40)) sim_caller_hears(world, attempt->grant, worker->lock);
    }
    hf__attempt_free(client->core, attempt);
    think(worker);
}

static void worker_event(struct sim_worker *worker, struct hf_grant *grant, int which)
{
    struct sim_client *client = worker->client;
    if (which == HF_EVENT_IS_WARNING) {
        sim_trace(client->world, "%s: %.*s warning", client->owner,
                  HF_FMT(hf__name_text(grant->name)));
        return;
    }
    sim_trace(client->world, "%s: %.*s ENDED %s%s%s", client->owner,
              HF_FMT(hf__name_text(grant->name)), hf_reason_name(grant->reason),
              grant->detail ? ", " : "", grant->detail ? grant->detail : "");
    sim_check_ended(client, grant);
    worker->grant = NULL;
    hf__grant_free(client->core, grant);
    think(worker);
}

void sim_client_drain(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (bool more = true; more && !world->failure[0];) {
        more = false;
        struct hf_request *request;
        struct hf_attempt *attempt;
        struct hf_grant *grant;
        struct hf_job *job;
        struct hf_report report;
        int which;
        while (hf__core_next_report(client->core, now_us(client), &report)) {
        } /* nothing rests on it */
        while ((attempt = hf__core_next_finished(client->core))) {
            more = true;
            const struct sim_user *user = attempt->want.user;
            if (user->kind == SIM_CALL) sim_call_acquired(client, attempt);
            else worker_finished(attempt->want.user, attempt);
        }
        while ((grant = hf__core_next_event(client->core, &which))) {
            more = true;
            const struct sim_user *user = grant->user;
            if (user->kind == SIM_WORKER) worker_event(grant->user, grant, which);
            else if (which == HF_EVENT_IS_FINAL) sim_entry_event(client, grant);
        }
        while ((job = hf__core_next_job(client->core))) {
            more = true;
            if (job->calls_back) {
                sim_call_done(client, job);
                continue;
            }
            sim_trace(world, "%s: job %s", client->owner, hf_error_name(job->code));
            struct sim_worker *worker = job->user;
            worker->job_running = false;
            think(worker);
        }
        while ((request = hf__core_next_request(client->core))) {
            more = true;
            sim_check_request(client, request);
            sim_network_send(client, request);
        }
    }
    if (client->closing && client->core->closed && client->alive && !client->is_probe)
        sim_client_left(client);
    int64_t next_us = hf__core_next_us(client->core);
    if (next_us < client->tick_at_us) {
        client->tick_at_us = next_us;
        sim_at(world, sim_true_t(client, next_us), client, tick, NULL);
    }
    sim_check_step(world, client);
}

/* ---- workers ---- */

static void cancel(struct sim_event *event)
{
    struct sim_worker *worker = event->about;
    if (!worker->attempt || event->number != worker->since_t) return;
    sim_trace(worker->client->world, "%s: cancels", worker->client->owner);
    hf__core_cancel(worker->client->core, worker->attempt, now_us(worker->client));
    sim_client_drain(worker->client);
}

void sim_worker_begin(struct sim_worker *worker, int lock, int64_t limit, int64_t timeout_ms,
                      int64_t lease_ms)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    worker->lock = lock;
    worker->limit = limit;
    worker->since_t = world->t;
    struct hf_want want = {
        .name = sim_lock_name(lock),
        .limit = limit,
        .timeout_ms = timeout_ms,
        .lease_ms = lease_ms,
        .reports = lock % 2 == 0,
        .user = worker,
    };
    struct hf_lease *opened = worker->session;
    if (opened && opened->state == HF_LEASE_LIVE && lease_ms == 0 && sim_chance(world, 70))
        want.session = opened;
    struct hf_error error;
    sim_trace(world, "%s: wants %.*s%s", client->owner, HF_FMT(want.name),
              limit ? " (shared)" : "");
    if (hf__core_acquire(client->core, &want, now_us(client), &worker->attempt, &error) != 0) {
        think(worker);
        return;
    }
    world->waiting++;
    if (!world->draining && (world->params.faults & SIM_CANCELS) && sim_chance(world, 15)) {
        int64_t after = sim_chance(world, 50) ? world->latency_us * 2 : client->lease_ms * 1000;
        sim_at(world, world->t + sim_below(world, after), client, cancel, worker)->number =
            world->t;
    }
    sim_client_drain(client);
}

void sim_worker_release(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    if (!worker->grant || worker->releasing) return;
    worker->releasing = true;
    sim_check_given_up(client->world, &worker->grant->id);
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    sim_trace(client->world, "%s: releases %.*s", client->owner,
              HF_FMT(sim_lock_name(worker->lock)));
    hf__core_release(client->core, worker->grant, &how, now_us(client));
    sim_client_drain(client);
}

static void let_go(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    if (world->draining || !sim_chance(world, 4)) {
        sim_worker_release(worker);
        return;
    }
    sim_trace(world, "%s: abandons", client->owner);
    hf__core_abandon(client->core, worker->grant, now_us(client));
    sim_client_drain(client);
}

static void ask_for_more(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    int64_t ms = client->lease_ms / 2 + sim_below(client->world, client->lease_ms);
    worker->job = (struct hf_job){.user = worker};
    worker->job_running = true;
    hf__core_ensure(client->core, worker->grant, ms, &worker->job, now_us(client));
    sim_client_drain(client);
}

static void write_on_it(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    worker->job = (struct hf_job){.user = worker};
    worker->job_running = true;
    hf__core_set_data(client->core, worker->grant, true, HF_LIT("data"), &worker->job,
                      now_us(client));
    sim_client_drain(client);
}

/* A session of the worker's own, as the service opens them for its callers. */
static bool mind_session(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    if (!world->params.format->sessions || world->params.seed % 4 != 3) return false;
    if (client->by_grant) return false; /* there they are its callers' (caller.c) */
    if (worker->session && worker->session->state == HF_LEASE_DEAD) {
        hf__lease_unref(client->core, worker->session);
        worker->session = NULL;
    }
    bool closes =
        worker->session && worker->session->state == HF_LEASE_LIVE && sim_chance(world, 15);
    if (!closes && (worker->session || !sim_chance(world, 40))) return false;
    worker->job = (struct hf_job){.user = worker};
    worker->job_running = true;
    if (closes) {
        sim_trace(world, "%s: closes a session", client->owner);
        hf__core_session_close(client->core, worker->session, &worker->job, now_us(client));
    } else if (hf__core_session_open(
                   client->core,
                   &(struct hf_session_want){.owner = hf__slice_str(client->owner),
                                             .lease_ms = client->lease_ms},
                   &worker->job, now_us(client), &worker->session, NULL) == 0) {
        sim_trace(world, "%s: opens a session", client->owner);
        worker->session->refs++;
    } else {
        worker->job_running = false;
        return false;
    }
    sim_client_drain(client);
    return true;
}

static void begin_random(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    int lock = (int)sim_below(world, world->lock_count);
    int64_t limit = 0, lease_ms = 0;
    if (world->lock_kinds[lock] == SIM_READERS && sim_chance(world, 70)) limit = HF_READERS_LIMIT;
    if (world->lock_kinds[lock] == SIM_SEMAPHORE) limit = world->lock_limits[lock];
    if (limit > 0 && sim_chance(world, 2) && world->params.format->sessions)
        limit++; /* somebody is misconfigured */
    if (limit == 0 && sim_chance(world, 20) && (world->params.format->can & HF_CAN_RENEW))
        lease_ms = client->lease_ms + sim_below(world, client->lease_ms / 2);
    if (lease_ms > world->longest_lease_ms) world->longest_lease_ms = lease_ms;
    int64_t kinds[] = {0, client->lease_ms / 2, client->lease_ms * 3, HF_NEVER};
    sim_worker_begin(worker, lock, limit, kinds[sim_below(world, 4)], lease_ms);
}

static void work(struct sim_event *event)
{
    struct sim_worker *worker = event->about;
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    if (client->closing) return;
    sim_client_tick(client); /* what is due is sent before a release, and checked as such */
    if (worker->attempt || worker->job_running || event->number != (int64_t)worker->since_t) return;
    if (worker->grant) {
        if (worker->grant->state != HF_GRANT_HELD) return;
        if (!world->draining && sim_chance(world, 8)) {
            if (sim_chance(world, 50) || !(world->params.format->can & HF_CAN_DATA))
                ask_for_more(worker);
            else write_on_it(worker);
        } else {
            let_go(worker);
        }
    } else if (!world->draining && !client->is_probe) {
        if (!mind_session(worker)) begin_random(worker);
    }
}

/* What a worker does next, and when. */
static void think(struct sim_worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_world *world = client->world;
    if (client->closing || client->is_probe) return;
    int64_t most_us = worker->grant ? client->lease_ms * (sim_chance(world, 30) ? 2500 : 500)
                                    : client->lease_ms * 400;
    if (world->draining) most_us = 100000;
    worker->since_t = world->t;
    sim_at(world, world->t + 1 + sim_below(world, most_us), client, work, worker)->number =
        world->t;
}

/* ---- life ---- */

/* ---- a line of processes that says anything: only time may depend on it ---- */

static int64_t join_line(void *user, struct hf_slice name, int64_t since_us)
{
    (void)name, (void)since_us;
    return sim_below(user, 4);
}

static void leave_line(void *user, int64_t place)
{
    (void)user, (void)place;
}

static bool is_first_in_line(void *user, struct hf_slice name, int64_t place)
{
    (void)name, (void)place;
    return sim_chance(user, 50);
}

void sim_client_start(struct sim_client *client)
{
    struct sim_world *world = client->world;
    client->life++;
    client->alive = true;
    client->closing = false;
    client->tick_at_us = HF_NEVER;
    client->entries = NULL;
    client->serving = 0;
    client->store_time = (struct hf_store_time){0};
    snprintf(client->owner, sizeof client->owner, "client%d.%u", client->index, client->life);
    struct hf_core_options options = {
        .format = world->params.format,
        .layout = world->layout,
        .owner = hf__arena_copy(&world->arena, hf__slice_str(client->owner)),
        .lease_ms = client->lease_ms,
        .period_ms = client->lease_ms / 4,
        .warn_ms = client->lease_ms * 2 / 3,
        .request_timeout_ms = world->timeout_ms,
        .poll_limit_ms = world->poll_limit_ms,
        .skew_ms = world->skew_ms,
        .margin_per_mille = HF_CLOCK_MARGIN_PER_MILLE,
        .session = (enum hf_session_use)sim_below(world, 3),
        .own_leases = 1,
        .by_grant = client->by_grant,
        .hints = sim_chance(client->world, 50),
        .ordered = client->by_grant, /* which is not true here: nothing may rest on it */
        .draw = random_of,
        .draw_user = world,
    };
    if (sim_chance(world, 50) && !client->fixed_modes)
        options.line = (struct hf_line){join_line, leave_line, is_first_in_line, NULL, world};
    static const enum hf_expiry_mode modes[] = {HF_JUDGE_BOTH, HF_JUDGE_BOTH, HF_JUDGE_OBSERVED,
                                                HF_JUDGE_CLOCK};
    options.judge = client->hears_time ? modes[sim_below(world, 4)] : HF_JUDGE_BOTH;
    if (client->is_probe) options.judge = HF_JUDGE_BOTH;
    if (world->params.format->skew_ms) options.skew_ms = world->params.format->skew_ms;
    if (!(world->params.format->can & HF_CAN_SESSION)) options.session = HF_USE_SESSION_NEVER;
    if (!(world->params.format->can & HF_CAN_RENEW)) {
        options.lease_ms = HF_LEASE_MAX_MS;
        options.period_ms = options.warn_ms = 0;
    }
    if (client->by_grant) { /* nobody renews but the callers */
        options.period_ms = options.warn_ms = 0;
        options.session = HF_USE_SESSION_NEVER;
    }
    if (client->fixed_modes) {
        options.session = client->session;
        options.judge = client->judge;
    }
    client->core = hf__core_new(&options);
    if (!client->core) sim_fail(world, "simulator: out of memory");
    for (int i = 0; i < client->worker_count; i++) {
        client->workers[i] = (struct sim_worker){.client = client};
        if (!client->by_grant) think(&client->workers[i]);
    }
}

/* Releases everything, except that a service leaves its callers' locks as they are. */
void sim_client_close(struct sim_client *client, int64_t limit_ms)
{
    for (int i = 0; i < client->worker_count; i++) {
        const struct hf_grant *grant = client->workers[i].grant;
        if (grant) sim_check_given_up(client->world, &grant->id);
    }
    if (client->by_grant) hf__core_leave_all(client->core, now_us(client));
    hf__core_close(client->core, limit_ms, now_us(client));
}

void sim_client_leave(struct sim_client *client)
{
    struct sim_world *world = client->world;
    sim_client_tick(client);
    sim_trace(world, "%s: leaves", client->owner);
    client->closing = true;
    sim_client_close(client, client->lease_ms * (sim_chance(world, 70) ? 2 : 0));
    sim_client_drain(client);
}

/* It has closed: everything it had ended with a word. */
void sim_client_left(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (int i = 0; i < world->held_count; i++) {
        if (world->held[i].client == client)
            sim_fail(world, "I5: %s has left, and a lock of it has not ended", client->owner);
    }
    for (int i = 0; i < client->worker_count; i++) {
        if (client->workers[i].attempt || client->workers[i].job_running)
            sim_fail(world, "I4: %s has left with somebody waiting", client->owner);
    }
    if (client->serving != 0)
        sim_fail(world, "I4: %s has left with %d calls unanswered", client->owner, client->serving);
    sim_trace(world, "%s: has left", client->owner);
    client->alive = false;
    client->life++; /* what is still on the way finds nobody */
}

void sim_client_crash(struct sim_client *client)
{
    struct sim_world *world = client->world;
    sim_trace(world, "%s: CRASHES", client->owner);
    for (int i = 0; i < client->worker_count; i++) {
        if (client->workers[i].attempt) world->waiting--;
    }
    sim_check_crashed(client);
    client->alive = false;
    client->life++; /* its events are void */
}
