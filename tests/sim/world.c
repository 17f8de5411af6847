/* Chance, clocks and the order of events. */
#include <stdarg.h>
#include <string.h>

#include "sim.h"

const char *const sim_profile_names[SIM_PROFILES] = {"default", "tight", "long"};

uint64_t sim_random(struct sim_world *world)
{
    uint64_t z = world->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t sim_below(struct sim_world *world, int64_t below)
{
    return below <= 1 ? 0 : (int64_t)(sim_random(world) % (uint64_t)below);
}

bool sim_chance(struct sim_world *world, int percent)
{
    return percent > 0 && sim_below(world, 100) < percent;
}

int64_t sim_boot_us(const struct sim_client *client, int64_t t)
{
    int64_t drift = t / 1000000 * client->clock_ppm + t % 1000000 * client->clock_ppm / 1000000;
    return client->clock_offset_us + t + drift;
}

/* The first true time at which the client's clock shows at least that. */
int64_t sim_true_t(const struct sim_client *client, int64_t boot_us)
{
    /* In two parts: a year in microseconds, times a million, does not fit. */
    int64_t whole = 1000000 + client->clock_ppm, since = boot_us - client->clock_offset_us;
    int64_t t = since / whole * 1000000 + since % whole * 1000000 / whole;
    while (sim_boot_us(client, t) < boot_us) t++;
    return t;
}

struct hf_slice sim_lock_name(int lock)
{
    static const char *const names[SIM_LOCKS] = {"lock:alpha", "lock:beta", "lock:gamma"};
    return hf__slice_str(names[lock]);
}

int sim_lock_of(const struct sim_world *world, struct hf_slice key)
{
    size_t prefix = world->layout.prefix.len;
    if (key.len < prefix) return -1;
    for (int i = 0; i < SIM_LOCKS; i++) {
        if (hf__slice_eq(hf__slice_skip(key, prefix), sim_lock_name(i))) return i;
    }
    return -1;
}

void sim_trace(struct sim_world *world, const char *format, ...)
{
    if (!world->params.trace) return;
    va_list args;
    va_start(args, format);
    printf("%10.6f  ", (double)world->t / SIM_SECOND);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void sim_fail(struct sim_world *world, const char *format, ...)
{
    if (world->failure[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure, sizeof world->failure, format, args);
    va_end(args);
    sim_trace(world, "!!! %s", world->failure);
}

struct sim_event *sim_at(struct sim_world *world, int64_t t, struct sim_client *client,
                         void (*run)(struct sim_event *event), void *about)
{
    struct sim_event *event = hf__arena_zalloc(&world->arena, 1, sizeof *event);
    hf__heap_node_init(&event->node);
    event->run = run;
    event->client = client;
    event->life = client ? client->life : 0;
    event->about = about;
    hf__heap_set(&world->events, &event->node, t > world->t ? t : world->t);
    return event;
}

struct sim_world *sim_world_of(const struct sim_event *event)
{
    return event->client->world;
}

void sim_run_until(struct sim_world *world, int64_t t)
{
    struct hf_heap_node *first;
    while (!world->failure[0] && (first = hf__heap_first(&world->events)) && first->at <= t) {
        hf__heap_remove(&world->events, first);
        struct sim_event *event = HF_CONTAINER(first, struct sim_event, node);
        world->t = first->at;
        struct sim_client *client = event->client;
        if (client) {
            if (client->life != event->life) continue;
            if (client->paused_until_t > world->t) { /* it happens when the process runs again */
                hf__heap_set(&world->events, &event->node,
                             client->paused_until_t + sim_below(world, 50));
                continue;
            }
        }
        world->steps++;
        event->run(event);
    }
    if (world->t < t) world->t = t;
}
