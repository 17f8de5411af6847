/*
 * Another program on the same table: it writes records of the same format, by
 * the simplest logic that the format permits, and shares no code with the
 * protocol. It keeps its own lease, observes, and trusts no clock but its own,
 * which is true time.
 */
#include <string.h>

#include "base/text.h"
#include "sim.h"

static void live(struct sim_event *event);

static void again(struct sim_world *world, int64_t after_us)
{
    sim_at(world, world->t + after_us, NULL, live, world);
}

static bool write_op(struct sim_world *world, const struct hf_op *op, struct hf_answer *answer)
{
    sim_table_apply(world, op, answer);
    return answer->code == 0;
}

static void claim_of(struct sim_foreign *foreign, struct hf_claim *ret)
{
    struct sim_world *world = foreign->world;
    *ret = (struct hf_claim){
        .name = sim_lock_name(foreign->lock),
        .owner = HF_LIT("foreign"),
        .grant = foreign->grant,
        .version = foreign->version,
        .lease_ms = foreign->lease_ms,
        .token_start = world->t + world->host_offset_us[0],
    };
}

static void got_it(struct sim_foreign *foreign)
{
    struct sim_world *world = foreign->world;
    sim_trace(world, "foreign: holds %.*s", HF_FMT(sim_lock_name(foreign->lock)));
    foreign->holds = true;
    foreign->valid_until_t = world->t + foreign->lease_ms * 990;
    sim_check_step(world, NULL);
}

static void try_it(struct sim_foreign *foreign)
{
    struct sim_world *world = foreign->world;
    const struct hf_format *format = world->params.format;
    struct hf_op op;
    struct hf_answer answer;
    struct hf_claim claim;
    uint64_t words[2] = {sim_random(world), sim_random(world)};
    memcpy(foreign->grant.bytes, words, sizeof foreign->grant.bytes);
    foreign->version = 1;
    claim_of(foreign, &claim);
    format->acquire(&world->layout, &world->arena, &claim, NULL, &op);
    if (write_op(world, &op, &answer)) {
        got_it(foreign);
        return;
    }
    struct hf_record record;
    format->parse(&world->layout, &world->arena, answer.has_item, answer.item, &record);
    if (!record.exclusive || record.holder.session.len > 0) return;
    int64_t version = 0;
    const struct hf_value *number = hf__item_get_str(record.item, "version");
    if (number && number->type == HF_N) hf__number_to_int64(number->number, &version);
    const struct hf_value *by = hf__item_get_str(record.item, "by");
    struct hf_id write = {{0}};
    if (by && by->type == HF_S) hf__id_parse(by->bytes, &write);
    if (version != foreign->seen_version || !hf__id_eq(&write, &foreign->seen_by) ||
        record.holder.grant.len != HF_GRANT_TEXT ||
        memcmp(foreign->seen_grant, record.holder.grant.ptr, HF_GRANT_TEXT) != 0) {
        foreign->seen_version = version;
        foreign->seen_by = write;
        foreign->seen_since_t = world->t;
        if (record.holder.grant.len == HF_GRANT_TEXT)
            memcpy(foreign->seen_grant, record.holder.grant.ptr, HF_GRANT_TEXT);
        return;
    }
    /* Its clock may be slow against the holder's: by the margin it is safe all the same. */
    if (world->t - foreign->seen_since_t < record.liveness.lease_ms * 1000) return;
    format->take(&world->layout, &world->arena, &claim, &record, &op);
    if (write_op(world, &op, &answer)) got_it(foreign);
}

static void keep_it(struct sim_foreign *foreign)
{
    struct sim_world *world = foreign->world;
    const struct hf_format *format = world->params.format;
    struct hf_op op;
    struct hf_answer answer;
    struct hf_claim claim;
    if (world->t >= foreign->valid_until_t) {
        foreign->holds = false;
        return;
    }
    if (world->draining || sim_chance(world, 20)) {
        claim_of(foreign, &claim);
        format->release(&world->layout, &world->arena, &claim, &op);
        foreign->holds = false;
        write_op(world, &op, &answer);
        return;
    }
    if (sim_chance(world, 10)) { /* it dies, and comes back with nothing */
        foreign->holds = false;
        return;
    }
    foreign->version++;
    claim_of(foreign, &claim);
    format->renew(&world->layout, &world->arena, &claim, &op);
    if (write_op(world, &op, &answer)) foreign->valid_until_t = world->t + foreign->lease_ms * 990;
    else foreign->holds = false;
}

static void live(struct sim_event *event)
{
    struct sim_world *world = event->about;
    struct sim_foreign *foreign = &world->foreign;
    if (foreign->holds) keep_it(foreign);
    else if (!world->draining) try_it(foreign);
    if (!world->draining || foreign->holds)
        again(world, foreign->lease_ms * (foreign->holds ? 250 : 100 + sim_below(world, 400)));
}

void sim_foreign_start(struct sim_world *world)
{
    world->has_foreign = true;
    world->foreign = (struct sim_foreign){
        .world = world,
        .lock = 0,
        .lease_ms = 2000 + sim_below(world, 2000),
    };
    if (world->foreign.lease_ms > world->longest_lease_ms)
        world->longest_lease_ms = world->foreign.lease_ms;
    again(world, sim_below(world, 1000000));
}
