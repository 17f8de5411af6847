/* The way to the store and back: it loses, repeats, delays, and tells the time. */
#include "sim.h"

static int64_t delay_us(struct sim_world *world)
{
    int64_t usual = 1 + world->latency_us / 20 + sim_below(world, world->latency_us);
    if (world->draining || !sim_chance(world, world->slow_percent)) return usual;
    return usual + sim_below(world, world->slowest_us);
}

static void fail(struct hf_answer *answer, int code, const char *why)
{
    *answer = (struct hf_answer){0};
    answer->code = hf__error_set(&answer->error, code, "%s", why);
}

static void tell(struct sim_message *message)
{
    struct sim_client *client = message->client;
    struct sim_world *world = client->world;
    int64_t now_us = sim_boot_us(client, world->t);
    struct hf_answer *answer = &message->answer;
    message->answered = true;
    world->in_flight--;
    answer->first_sent_boot_us = answer->sent_boot_us = message->sent_boot_us;
    answer->received_boot_us = now_us;
    answer->attempts = 1;
    answer->store = hf__store_time_at(&client->store_time, now_us);
    sim_trace(world, "%s  <- %s %.*s: %s%s", client->owner,
              hf__request_names[message->request->kind], HF_FMT(message->request->about),
              hf_error_name(answer->code), answer->has_item ? " with item" : "");
    /* Copies may still be under way: what they point to stays. */
    message->request->arena = (struct hf_arena){.failed = message->request->arena.failed};
    sim_memory_fails(world, world->draining ? 0 : world->memory);
    hf__core_answer(client->core, message->request, answer, now_us);
    sim_memory_fails(world, 0);
    sim_client_drain(client);
}

static void arrive_back(struct sim_event *event)
{
    struct sim_message *copy = event->about;
    struct sim_message *message = copy->request ? copy : NULL;
    if (!message || message->answered) return;
    struct sim_client *client = message->client;
    struct sim_world *world = client->world;
    if (client->hears_time) {
        /* The Date header: whole seconds, of some host's clock, at the moment of the answer. */
        int64_t date_us = event->number / SIM_SECOND * SIM_SECOND;
        hf__store_time_report(&client->store_time, date_us, date_us + SIM_SECOND - 1,
                              message->sent_boot_us, sim_boot_us(client, world->t));
    }
    tell(message);
}

static void time_out(struct sim_event *event)
{
    struct sim_message *message = event->about;
    if (message->answered) return;
    bool write = hf__op_is_write(&message->op);
    fail(&message->answer, write ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_UNREACHABLE,
         "no answer in time");
    tell(message);
}

static void arrive(struct sim_event *event)
{
    struct sim_message *message = event->about;
    struct sim_world *world = message->client->world;
    struct hf_answer answer;
    bool forces = (event->number & 0xff) == HF_REQUEST_FORCE && hf__op_is_write(&message->op);
    struct sim_cell before = forces ? *sim_cell_of(world, &message->op) : (struct sim_cell){0};
    if (message->client->remote)
        sim_remote_apply(message->client, &message->op, message->host, &answer);
    else sim_table_apply(world, &message->op, &answer);
    enum hf_request_kind kind = event->number & 0xff;
    if (answer.code == 0 && (kind == HF_REQUEST_TRY || kind == HF_REQUEST_TAKE) &&
        ++message->landings > 1)
        sim_check_revived(world, &message->op);
    if (kind == HF_REQUEST_FORCE && !forces) sim_check_force_looks(world, message);
    if (forces && answer.code == 0) sim_check_forced(world, message, before.exists, before.item);
    sim_trace(world, "store: %s %.*s of %s%s: %s", hf__request_names[event->number & 0xff],
              HF_FMT(message->request->about), message->client->owner,
              event->number >> 8 ? " (copy)" : "", hf_error_name(answer.code));
    if (event->number >> 8) return; /* nobody waits for a copy's answer */
    if (!world->draining && sim_chance(world, world->loss_percent)) return;
    if (!world->draining && sim_chance(world, world->error_percent) &&
        hf__op_is_write(&message->op))
        fail(&answer, HF_ERR_OUTCOME_UNKNOWN, "500");
    /* What a store says that had sent the write once before. */
    if (!world->draining && answer.code == HF_ERR_CONDITION && answer.has_item &&
        sim_chance(world, world->error_percent))
        answer.code = answer.error.code = HF_ERR_OUTCOME_UNKNOWN;
    message->answer = answer;
    struct sim_event *back = sim_at(world, world->t + delay_us(world) + message->answer_delay_us,
                                    message->client, arrive_back, message);
    back->life = message->life;
    back->number = world->t + world->host_offset_us[message->host];
}

static void refuse(struct sim_event *event)
{
    struct sim_message *message = event->about;
    if (message->answered) return;
    fail(&message->answer, (int)event->number, "not today");
    tell(message);
}

static struct sim_rule *rule_for(struct sim_world *world, const struct sim_message *message)
{
    for (int i = 0; i < world->rule_count; i++) {
        struct sim_rule *rule = &world->rules[i];
        if (rule->client != message->client || rule->kind != message->request->kind) continue;
        if (world->t < rule->from_t || world->t >= rule->until_t || rule->most == 0) continue;
        rule->most--;
        return rule;
    }
    return NULL;
}

static void deliver(struct sim_world *world, struct sim_message *message, bool is_copy)
{
    int64_t delay = delay_us(world);
    const struct sim_rule *rule = is_copy ? NULL : rule_for(world, message);
    if (rule) {
        sim_trace(world, "   (a rule: %s)", rule->drop ? "dropped" : "delayed");
        if (rule->drop) return;
        if (rule->copy_delay_us)
            sim_at(world, world->t + rule->copy_delay_us, NULL, arrive, message)->number =
                message->request->kind | 1 << 8;
        delay += rule->request_delay_us;
        message->answer_delay_us = rule->answer_delay_us;
    }
    if (is_copy) delay += sim_below(world, world->slowest_us);
    struct sim_event *event = sim_at(world, world->t + delay, NULL, arrive, message);
    event->number = message->request->kind | (is_copy ? 1 << 8 : 0);
}

void sim_network_send(struct sim_client *client, struct hf_request *request)
{
    struct sim_world *world = client->world;
    struct sim_message *message = hf__arena_zalloc(&world->arena, 1, sizeof *message);
    if (!message) {
        sim_fail(world, "I8: requests without end use up the schedule's memory");
        return;
    }
    *message = (struct sim_message){
        .op = request->op,
        .request = request,
        .client = client,
        .life = client->life,
        .sent_boot_us = sim_boot_us(client, world->t),
        .host = (int)sim_below(world, SIM_HOSTS),
    };
    world->in_flight++;
    world->requests++;
    client->requests++;
    sim_trace(world, "%s -> %s %.*s", client->owner, hf__request_names[request->kind],
              HF_FMT(request->about));
    if (request->kind == HF_REQUEST_FORCE && hf__op_is_write(&request->op))
        sim_check_force_writes(world, message);
    if (request->arena.failed) { /* no store takes it */
        sim_at(world, world->t + 1, client, refuse, message)->number = HF_ERR_NO_MEMORY;
        return;
    }
    if (!world->draining && sim_chance(world, world->error_percent)) {
        static const int codes[] = {HF_ERR_THROTTLED, HF_ERR_UNREACHABLE, HF_ERR_STORE,
                                    HF_ERR_DENIED, HF_ERR_DAMAGED};
        struct sim_event *event =
            sim_at(world, world->t + delay_us(world), client, refuse, message);
        event->number = codes[sim_below(world, 5)];
        sim_at(world, world->t + request->op.timeout_ms * 1000, client, time_out, message);
        return;
    }
    sim_at(world, world->t + request->op.timeout_ms * 1000, client, time_out, message);
    if (world->draining || !sim_chance(world, world->loss_percent)) deliver(world, message, false);
    if (!world->draining && sim_chance(world, world->duplicate_percent))
        deliver(world, message, true);
}
