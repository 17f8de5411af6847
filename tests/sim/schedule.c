/* One schedule: a world from a seed, its troubles, a drain, and a probe. */
#include <string.h>

#include "sim.h"

#define EPOCH_US ((int64_t)1790000000 * SIM_SECOND)

static int rate(struct sim_world *world, unsigned fault)
{
    static const int rates[] = {0, 2, 10, 25};
    int percent = rates[sim_below(world, 4)];
    return world->params.faults & fault ? percent : 0;
}

static int64_t lease_of(struct sim_world *world)
{
    if (world->params.profile == SIM_LONG) return 200000 + sim_below(world, 200000);
    return 2000 + sim_below(world, 2000);
}

void sim_world_init(struct sim_world *world, const struct sim_params *params)
{
    sim_memory_reset();
    memset(world, 0, sizeof *world);
    world->params = *params;
    world->rng = params->seed * 0x9e3779b97f4a7c15u + params->profile;
    world->layout = (struct hf_layout){
        .table = HF_LIT("locks"),
        .key_name = HF_LIT("key"),
        .keep_s = 3600,
    };
    const struct hf_format *format = params->format;
    world->layout.key_name = hf__slice_str(format->default_key);
    world->layout.prefix = hf__slice_str(format->default_prefix);
    world->layout.sort_name = hf__slice_str(format->default_sort);
    world->layout.sort_value = hf__slice_str(format->default_sort_value);
    world->layout.fencing = params->fencing;
    world->layout.trust_clock = params->trust_clock;
    world->layout.keep_on_release = params->keep_on_release;
    world->skew_ms = format->skew_ms ? format->skew_ms : 1000;
    world->timeout_ms = 200 + sim_below(world, 700);
    world->poll_limit_ms = 100 + sim_below(world, 900);
    world->latency_us = 20000;
    world->lock_count = 1;
    for (int i = 0; i < SIM_HOSTS; i++) world->host_offset_us[i] = EPOCH_US;
}

struct sim_client *sim_add_client(struct sim_world *world, int64_t lease_ms, int64_t ppm)
{
    struct sim_client *client = &world->clients[world->client_count];
    *client = (struct sim_client){
        .world = world,
        .index = world->client_count++,
        .lease_ms = lease_ms,
        .clock_ppm = ppm,
        .clock_offset_us = 1 + sim_below(world, (int64_t)1000000 * SIM_SECOND),
        .hears_time = true,
    };
    if (lease_ms > world->longest_lease_ms) world->longest_lease_ms = lease_ms;
    return client;
}

static int64_t drift_ppm(struct sim_world *world)
{
    if (!(world->params.faults & SIM_CLOCKS)) return 0;
    int64_t kind = sim_below(world, 4);
    if (kind == 0) return 5000;
    if (kind == 1) return -5000;
    return sim_below(world, 10001) - 5000;
}

static void choose(struct sim_world *world)
{
    const struct sim_params *params = &world->params;
    if (params->profile == SIM_TIGHT) {
        world->latency_us = 20 + sim_below(world, 280);
        world->poll_limit_ms = 2 + sim_below(world, 40);
    } else {
        world->loss_percent = rate(world, SIM_LOSS);
        world->duplicate_percent = rate(world, SIM_DUPLICATES);
        world->slow_percent = rate(world, SIM_DELAYS);
        world->error_percent = (params->faults & SIM_ERRORS) && sim_chance(world, 30) ? 5 : 0;
        world->latency_us = sim_chance(world, 30) ? 100000 : 1000 + sim_below(world, 20000);
    }
    if (params->profile == SIM_LONG) {
        world->poll_limit_ms = 2000 + sim_below(world, 10000);
        world->timeout_ms = 1000 + sim_below(world, 4000);
    }
    if (params->faults & SIM_CLOCKS) {
        for (int i = 0; i < SIM_HOSTS; i++)
            world->host_offset_us[i] += sim_below(world, SIM_SECOND) - SIM_SECOND / 2;
    }
    if ((params->faults & SIM_MEMORY) && sim_chance(world, 15))
        world->memory = 25 + (int)sim_below(world, 100);
    world->lock_count = 1 + (int)sim_below(world, 2);
    for (int i = 0; i < world->lock_count; i++) {
        world->lock_kinds[i] =
            sim_chance(world, 50) ? SIM_EXCLUSIVE : (enum sim_lock_kind)sim_below(world, 3);
        if (world->params.format->shares == NULL) world->lock_kinds[i] = SIM_EXCLUSIVE;
        else if (world->params.format->sessions == NULL && world->lock_kinds[i] == SIM_SEMAPHORE)
            world->lock_kinds[i] = SIM_READERS;
        world->lock_limits[i] = 1 + sim_below(world, 3);
    }
    bool timeless = (params->faults & SIM_CLOCKS) && sim_chance(world, 10) &&
                    !(params->format->can & HF_NEEDS_CLOCK) && !params->trust_clock;
    int count = params->client_count ? params->client_count : 2 + (int)sim_below(world, 3);
    for (int i = 0; i < count; i++) {
        struct sim_client *client = sim_add_client(world, lease_of(world), drift_ppm(world));
        client->hears_time = !timeless;
        client->worker_count = 1 + (int)sim_below(world, 2);
    }
    world->slowest_us = world->longest_lease_ms * (3000 + sim_below(world, 3000));
    if (params->profile == SIM_LONG) world->slowest_us /= 3;
    /* Records stay for longer than any message travels, as the hour of the sweep sees to. */
    world->layout.keep_s = 3 + sim_below(world, 10);
    if (world->duplicate_percent || world->slow_percent)
        world->layout.keep_s += world->slowest_us * 3 / SIM_SECOND;
}

/* ---- troubles ---- */

static struct sim_cell *sim_find(struct sim_world *world, struct hf_slice name)
{
    return sim_cell(world, hf__arena_printf(&world->arena, "%.*s%.*s", HF_FMT(world->layout.prefix),
                                            HF_FMT(name)));
}

/* Locks that never expire are removed by a person who knows that their holders are gone. */
static void remove_stranded(struct sim_world *world)
{
    if (world->params.format->can & HF_CAN_RENEW) return;
    for (int lock = 0; lock < world->lock_count; lock++) {
        struct sim_cell *cell = sim_find(world, sim_lock_name(lock));
        bool held = false;
        for (int i = 0; i < world->held_count; i++) held |= world->held[i].lock == lock;
        /* Nor may somebody be about to hear that it is theirs. */
        int64_t patience_us = (world->timeout_ms * 4 + world->poll_limit_ms * 2) * 1000;
        if (held || !cell->exists || world->t - cell->changed_t < patience_us) continue;
        sim_trace(world, "a person removes %.*s", HF_FMT(cell->key));
        sim_cell_set(world, cell, false, (struct hf_item){0});
    }
}

static struct sim_client *somebody(struct sim_world *world)
{
    return &world->clients[sim_below(world, world->client_count)];
}

static void restart(struct sim_event *event)
{
    struct sim_client *client = event->about;
    if (!client->alive) sim_client_start(client);
}

static void delete_by_hand(struct sim_world *world)
{
    int lock = (int)sim_below(world, world->lock_count);
    struct sim_cell *cell = sim_find(world, sim_lock_name(lock));
    if (!cell->exists) return;
    sim_trace(world, "somebody deletes %.*s by hand", HF_FMT(cell->key));
    /* Tokens outlive the TTL and the sweep, which come late; not a hand that comes at once. */
    cell->most_token = world->last_token[lock] = 0;
    sim_check_doom(world, lock);
    sim_cell_set(world, cell, false, (struct hf_item){0});
}

static void force_by_hand(struct sim_world *world, struct sim_client *client)
{
    struct sim_worker *worker = &client->workers[0];
    if (!client->alive || client->closing || worker->job_running ||
        client->paused_until_t > world->t)
        return;
    int lock = (int)sim_below(world, world->lock_count);
    sim_trace(world, "%s: forces %.*s", client->owner, HF_FMT(sim_lock_name(lock)));
    worker->job = (struct hf_job){.user = worker};
    worker->job_running = true;
    hf__core_force(client->core, sim_lock_name(lock), HF_LIT("operator"), HF_LIT("a test"),
                   client->lease_ms * 5, &worker->job, sim_boot_us(client, world->t));
    sim_client_drain(client);
}

/* A janitor deletes what was released long ago; between its look and its broom time passes. */
struct broom {
    struct sim_world *world;
    struct hf_op op;
};

static void sweep(struct sim_event *event)
{
    struct broom *broom = event->about;
    struct hf_answer answer;
    sim_table_apply(broom->world, &broom->op, &answer);
    sim_trace(broom->world, "the sweep of %.*s: %s", HF_FMT(broom->op.key.attrs[0].value.bytes),
              hf_error_name(answer.code));
}

static void begin_sweep(struct sim_world *world)
{
    const struct hf_format *format = world->params.format;
    struct hf_slice name = sim_lock_name((int)sim_below(world, world->lock_count));
    struct sim_cell *cell = sim_find(world, name);
    struct hf_record record;
    if (!format->sweep) return;
    format->parse(&world->layout, &world->arena, cell->exists, cell->item, &record);
    int64_t now_s = (world->t + world->host_offset_us[0]) / SIM_SECOND;
    if (!record.exists || hf__record_is_held(&record) || record.ttl_unix_s == 0 ||
        record.ttl_unix_s > now_s)
        return;
    struct broom *broom = hf__arena_zalloc(&world->arena, 1, sizeof *broom);
    broom->world = world;
    format->sweep(&world->layout, &world->arena, name, &record, &broom->op);
    sim_at(world, world->t + sim_below(world, world->longest_lease_ms * 1000), NULL, sweep, broom);
}

static void trouble(struct sim_event *event)
{
    struct sim_world *world = event->about;
    unsigned faults = world->params.faults;
    if (world->draining) return;
    struct sim_client *client = somebody(world);
    int64_t kind = sim_below(world, 20);
    if (kind < 6 && (faults & SIM_PAUSES)) {
        client->paused_until_t = world->t + sim_below(world, client->lease_ms * 3000);
        sim_trace(world, "%s: paused for %lld ms", client->owner,
                  (long long)((client->paused_until_t - world->t) / 1000));
    } else if (kind < 9 && (faults & SIM_CRASHES) && client->alive) {
        sim_client_crash(client);
        sim_at(world, world->t + sim_below(world, client->lease_ms * 2000), NULL, restart, client);
    } else if (kind == 9 && (faults & SIM_CRASHES) && client->alive && !client->closing &&
               client->paused_until_t <= world->t) {
        sim_client_leave(client);
        sim_at(world, world->t + client->lease_ms * 4000, NULL, restart, client);
    } else if (kind < 13 && (faults & SIM_TTL)) {
        sim_table_expire(world);
    } else if (kind >= 15 && kind < 17 && (faults & SIM_TTL)) {
        begin_sweep(world);
    } else if (kind == 13 && (faults & SIM_HANDS) && sim_chance(world, 20)) {
        delete_by_hand(world);
    } else if (kind == 14 && (faults & SIM_HANDS) && sim_chance(world, 20)) {
        force_by_hand(world, client);
    }
    sim_at(world, world->t + sim_below(world, world->longest_lease_ms * 400), NULL, trouble, world);
}

/* ---- drain and probe ---- */

static bool all_idle(const struct sim_world *world)
{
    return world->waiting == 0 && world->held_count == 0 && !world->foreign.holds &&
           sim_callers_idle(world);
}

/* Faults stop; whoever waits gets what is free, and lets go of it. */
static void drain(struct sim_world *world)
{
    world->draining = true;
    sim_trace(world, "--- faults stop");
    for (int i = 0; i < world->client_count; i++) world->clients[i].paused_until_t = 0;
    /* Late copies land first: nothing is promised before. */
    int64_t quiet_t = world->t + world->slowest_us * 2 + world->timeout_ms * 1000;
    int64_t lease_us = world->longest_lease_ms * 1000 * 3;
    int64_t by_t = quiet_t + lease_us * 2 + world->poll_limit_ms * 2000 + world->skew_ms * 1000 +
                   world->timeout_ms * 10000 + 10 * SIM_SECOND;
    int64_t step_us = world->longest_lease_ms * 250;
    while (!world->failure[0] && (world->t < quiet_t || !all_idle(world)) && world->t < by_t) {
        remove_stranded(world);
        int64_t t = world->t + step_us;
        sim_run_until(world, t < quiet_t || world->t >= quiet_t ? t : quiet_t);
    }
    if (!world->failure[0] && !all_idle(world))
        sim_fail(world, "I4: %d attempts without a result, %d locks without an end after the drain",
                 world->waiting, world->held_count);
}

static void probe(struct sim_world *world)
{
    /* Some leave properly; the others stay, with whatever their sessions may have left behind. */
    for (int i = 0; i < world->client_count; i++) {
        struct sim_client *client = &world->clients[i];
        if (!client->alive || client->closing || sim_chance(world, 50)) continue;
        client->closing = true;
        sim_client_close(client, client->lease_ms);
        sim_client_drain(client);
    }
    struct sim_client *fresh = sim_add_client(world, lease_of(world), 0);
    fresh->is_probe = true;
    fresh->worker_count = world->lock_count;
    sim_client_start(fresh);
    /* An orphan of a live session is asked for after a lease, and given back within a period. */
    int64_t by_t = world->t + world->longest_lease_ms * 3 * 1000 + world->skew_ms * 1000 +
                   world->poll_limit_ms * 2000 + world->timeout_ms * 4000;
    for (int i = 0; i < world->lock_count; i++)
        sim_worker_begin(&fresh->workers[i], i, 0, HF_NEVER, 0);
    while (!world->failure[0] && world->waiting > 0 && world->t < by_t) {
        remove_stranded(world);
        sim_run_until(world, world->t + 50000);
    }
    if (!world->failure[0] && world->waiting > 0)
        sim_fail(world, "I6: the probe does not get a free lock");
    sim_run_until(world, world->t + world->longest_lease_ms * 1000 + SIM_SECOND);
    for (int i = 0; i < world->client_count && !world->failure[0]; i++) {
        struct sim_client *client = &world->clients[i];
        if (client->alive && client->closing && !client->core->closed)
            sim_fail(world, "I4: %s does not close", client->owner);
    }
}

bool sim_schedule(struct sim_world *world, const struct sim_params *params)
{
    sim_world_init(world, params);
    choose(world);
    bool callers = (params->faults & SIM_SERVICES) && sim_chance(world, 50) &&
                   (params->format->can & HF_CAN_RENEW);
    bool remotes = (params->faults & SIM_REMOTE) && params->format == &hf__format_holdfast &&
                   world->clients[0].hears_time && sim_chance(world, 33);
    world->one_owner = remotes && sim_chance(world, 30);
    for (int i = 0; i < world->client_count; i++) {
        world->clients[i].by_grant = callers && sim_chance(world, 60);
        /* A service is no client of a service. */
        world->clients[i].remote = remotes && !world->clients[i].by_grant && sim_chance(world, 60);
        sim_client_start(&world->clients[i]);
    }
    if (callers) sim_callers_start(world, 1 + (int)sim_below(world, SIM_CALLERS));
    if ((params->faults & SIM_FOREIGN) && params->profile == SIM_DEFAULT &&
        params->format == &hf__format_holdfast && sim_chance(world, 25))
        sim_foreign_start(world);
    sim_at(world, sim_below(world, SIM_SECOND), NULL, trouble, world);
    world->end_t = world->longest_lease_ms * (4000 + sim_below(world, 6000));
    sim_run_until(world, world->end_t);
    if (!world->failure[0]) drain(world);
    if (!world->failure[0]) probe(world);
    return !world->failure[0];
}
