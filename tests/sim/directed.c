/*
 * Schedules for what chance finds too rarely: two clients, one lock, and a
 * network that does exactly what hurts.
 */
#include "sim.h"

enum { MS = 1000, LEASE_MS = 2000, TIMEOUT_MS = 900 };

struct pair {
    struct sim_client *holder;
    struct sim_client *challenger;
};

static struct pair make_pair(struct sim_world *world, enum hf_session_use session)
{
    world->latency_us = 200;
    world->timeout_ms = TIMEOUT_MS;
    world->poll_limit_ms = 5;
    struct pair pair;
    pair.holder = sim_add_client(world, LEASE_MS, 0);
    pair.challenger = sim_add_client(world, LEASE_MS, 0);
    for (int i = 0; i < 2; i++) {
        struct sim_client *client = &world->clients[i];
        client->fixed_modes = true;
        client->session = i == 0 ? session : HF_USE_SESSION_NEVER;
        client->judge = HF_JUDGE_OBSERVED;
        client->is_probe = true; /* does only what it is told */
        client->worker_count = 1;
    }
    return pair;
}

static void start(struct sim_world *world, struct pair pair)
{
    sim_client_start(pair.holder);
    sim_client_start(pair.challenger);
    sim_worker_begin(&pair.holder->workers[0], 0, 0, HF_NEVER, 0);
    sim_run_until(world, 50 * MS);
    sim_worker_begin(&pair.challenger->workers[0], 0, 0, HF_NEVER, 0);
}

/*
 * The challenger's reads are answered late: what it reads at the end of the
 * lease is what stood there before a renewal that was slow itself. Only the
 * condition of its write can tell.
 */
static void stale_verdict(struct sim_world *world, enum hf_session_use session,
                          enum hf_request_kind read)
{
    struct pair pair = make_pair(world, session);
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.holder,
        .kind = HF_REQUEST_RENEW,
        .from_t = 400 * MS,
        .until_t = 600 * MS,
        .most = 1,
        .request_delay_us = 850 * MS,
    };
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.challenger,
        .kind = read,
        .from_t = 1300 * MS,
        .until_t = 1345 * MS,
        .most = 1,
        .answer_delay_us = 830 * MS,
    };
    start(world, pair);
    sim_run_until(world, 3000 * MS);
    pair.holder->paused_until_t = 20 * SIM_SECOND;
    sim_run_until(world, 6 * SIM_SECOND);
}

static void stale_verdict_own(struct sim_world *world)
{
    stale_verdict(world, HF_USE_SESSION_NEVER, HF_REQUEST_READ);
}

static void stale_verdict_session(struct sim_world *world)
{
    stale_verdict(world, HF_USE_SESSION_ALWAYS, HF_REQUEST_JUDGE);
}

/* The holder's clock is slow, the challenger's fast, and nothing else takes any time. */
static void drifting_apart(struct sim_world *world)
{
    struct pair pair = make_pair(world, HF_USE_SESSION_NEVER);
    world->latency_us = 20;
    world->poll_limit_ms = 1;
    pair.holder->clock_ppm = -5000;
    pair.challenger->clock_ppm = 5000;
    sim_client_start(pair.holder);
    sim_client_start(pair.challenger);
    sim_worker_begin(&pair.holder->workers[0], 0, 0, HF_NEVER, 0);
    sim_run_until(world, 1 * MS);
    pair.holder->paused_until_t = 10 * SIM_SECOND;
    sim_worker_begin(&pair.challenger->workers[0], 0, 0, HF_NEVER, 0);
    sim_run_until(world, 3 * SIM_SECOND);
}

/* A renewal is sent twice; its second copy must not make the lease any longer. */
static void slow_first_copy(struct sim_world *world)
{
    struct pair pair = make_pair(world, HF_USE_SESSION_NEVER);
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.holder,
        .kind = HF_REQUEST_RENEW,
        .from_t = 400 * MS,
        .until_t = 600 * MS,
        .most = 1,
        .answer_delay_us = 2 * SIM_SECOND, /* it lands at once, and nobody hears of it */
    };
    start(world, pair);
    sim_run_until(world, 1500 * MS); /* the resend is answered: that renewal had landed */
    pair.holder->paused_until_t = 10 * SIM_SECOND;
    sim_run_until(world, 4 * SIM_SECOND);
}

/* A session's renewal lands while its end is on the way. */
static void ended_too_late(struct sim_world *world)
{
    struct pair pair = make_pair(world, HF_USE_SESSION_ALWAYS);
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.challenger,
        .kind = HF_REQUEST_TAKE,
        .from_t = 0,
        .until_t = 10 * SIM_SECOND,
        .most = 1,
        .request_delay_us = 700 * MS,
    };
    start(world, pair);
    pair.holder->paused_until_t = 2040 * MS;
    sim_run_until(world, 6 * SIM_SECOND);
}

/* Two services, and two callers that do only what they are told. */
static struct pair make_services(struct sim_world *world)
{
    struct pair pair = make_pair(world, HF_USE_SESSION_NEVER);
    pair.holder->by_grant = pair.challenger->by_grant = true;
    for (int i = 0; i < 2; i++)
        world->callers[world->caller_count++] =
            (struct sim_caller){.world = world, .index = i, .is_told = true};
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.challenger,
        .kind = HF_REQUEST_ERRAND,
        .until_t = 100 * MS,
        .most = 1,
        .answer_delay_us = 100 * MS, /* a session ends, and its caller does not hear of that */
    };
    sim_client_start(pair.holder);
    sim_client_start(pair.challenger);
    return pair;
}

/* A caller ends its session through one service, and uses it through the other. */
static void use_ended(struct sim_world *world, struct pair pair)
{
    struct sim_caller *caller = &world->callers[0];
    sim_caller_calls(caller, SIM_CALL_END_SESSION, pair.challenger);
    sim_run_until(world, 60 * MS);
    sim_caller_hangs_up(caller);
    sim_run_until(world, 100 * MS);
    sim_caller_calls(caller, SIM_CALL_ACQUIRE, pair.holder);
    sim_run_until(world, 500 * MS);
    sim_caller_calls(&world->callers[1], SIM_CALL_ACQUIRE, pair.challenger);
    sim_run_until(world, 6 * SIM_SECOND);
}

static void ended_elsewhere(struct sim_world *world)
{
    struct pair pair = make_services(world);
    sim_caller_calls(&world->callers[0], SIM_CALL_OPEN, pair.holder);
    sim_run_until(world, 50 * MS);
    use_ended(world, pair);
}

/* … where a renewal is under way that was sent, and has landed, before the end. */
static void renewed_before(struct sim_world *world)
{
    struct pair pair = make_services(world);
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.holder,
        .kind = HF_REQUEST_RENEW,
        .until_t = 50 * MS,
        .most = 1,
        .answer_delay_us = 300 * MS,
    };
    sim_caller_calls(&world->callers[0], SIM_CALL_OPEN, pair.holder);
    sim_run_until(world, 20 * MS);
    sim_caller_calls(&world->callers[0], SIM_CALL_RENEW_SESSION, pair.holder);
    sim_run_until(world, 50 * MS);
    sim_caller_hangs_up(&world->callers[0]);
    use_ended(world, pair);
}

/* A copy of a session's creation lands after its end; whoever repeats a call need not know that. */
static void created_late(struct sim_world *world)
{
    struct pair pair = make_services(world);
    struct sim_caller *caller = &world->callers[0];
    world->rule_count = 0;
    world->rules[world->rule_count++] = (struct sim_rule){
        .client = pair.holder,
        .kind = HF_REQUEST_SESSION,
        .until_t = 50 * MS,
        .most = 1,
        .copy_delay_us = 300 * MS,
    };
    sim_caller_calls(caller, SIM_CALL_OPEN, pair.holder);
    sim_run_until(world, 20 * MS);
    sim_caller_calls(caller, SIM_CALL_ACQUIRE, pair.holder);
    sim_run_until(world, 50 * MS);
    sim_caller_calls(caller, SIM_CALL_END_SESSION, pair.challenger);
    sim_run_until(world, 400 * MS);
    caller->grant = caller->last;
    caller->in_session = true;
    sim_caller_calls(caller, SIM_CALL_RENEW, pair.challenger);
    sim_run_until(world, 6 * SIM_SECOND);
}

static const struct {
    const char *name;
    void (*run)(struct sim_world *world);
    uint64_t grants; /* at least */
} schedules[] = {
    {"stale verdict on a lock with its own lease", stale_verdict_own, 2},
    {"stale verdict on a session", stale_verdict_session, 2},
    {"clocks that drift apart", drifting_apart, 2},
    {"the first copy of a renewal lands unheard", slow_first_copy, 2},
    {"a takeover that takes its time", ended_too_late, 2},
    {"a session that was ended elsewhere", ended_elsewhere, 1},
    {"a renewal that was sent before the session's end", renewed_before, 1},
    {"a session's creation that lands after its end", created_late, 1},
};

int sim_directed_count(void)
{
    return (int)(sizeof schedules / sizeof schedules[0]);
}

const char *sim_directed_name(int which)
{
    return schedules[which].name;
}

bool sim_directed(struct sim_world *world, int which, bool trace, const struct hf_format *format)
{
    struct sim_params params = {
        .seed = (uint64_t)which + 1,
        .format = format,
        .trace = trace,
    };
    sim_world_init(world, &params);
    schedules[which].run(world);
    if (!world->failure[0] && world->grants < schedules[which].grants)
        sim_fail(world, "the challenger never got the lock, and should have");
    return !world->failure[0];
}
