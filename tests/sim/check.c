/*
 * The invariants, looked at after every step.
 *
 * I1  no two live exclusive holders, no exclusive beside a shared one, never
 *     more shared ones than the limit
 * I2  tokens of one lock strictly grow in grant order, also across deletions
 * I3  what was reported lost or released is never renewed or held again
 * I4  every acquire ends once (the schedule counts them)
 * I5  every lock ends in exactly one final event with a reason
 * I6  once faults stop, a free lock is got in time (the schedule's probe)
 * I7  a validity never shrinks, and grows only by a confirmed renewal
 * I8  a client sends no more requests than its work explains
 *
 * Several may act for one grant: they are one holder, and what each of them was
 * told counts (I1). What one of them was told is lost or released is not told as
 * held by another (I3).
 *
 * Where somebody deleted a record by hand, I1 is not promised; that the holder
 * notices within a lease is. A forced release robs the one it found, and nobody
 * else.
 */
#include <string.h>

#include "sim.h"

static bool is_live(const struct sim_held *held)
{
    struct sim_client *client = held->client;
    return hf__grant_left_us(held->grant, sim_boot_us(client, client->world->t)) > 0;
}

static struct sim_held *find(struct sim_world *world, const struct hf_grant *grant)
{
    for (int i = 0; i < world->held_count; i++) {
        if (world->held[i].grant == grant) return &world->held[i];
    }
    return NULL;
}

static bool is_listed(const struct hf_id *ids, int count, const struct hf_id *id)
{
    for (int i = 0; i < count; i++) {
        if (hf__id_eq(&ids[i], id)) return true;
    }
    return false;
}

/* The holders of a lock: those with one grant are one. */
struct holders {
    struct hf_id seen[SIM_GRANTS + SIM_CALLERS];
    int count;
    int exclusive, shared;
    int64_t limit;
    const char *owners[2];
};

static void count_holder(const struct sim_world *world, struct holders *holders,
                         const struct hf_id *grant, int64_t limit, const char *owner)
{
    if (is_listed(holders->seen, holders->count, grant) ||
        is_listed(world->given_up, world->given_up_count, grant))
        return;
    holders->seen[holders->count++] = *grant;
    if (limit == 0) holders->exclusive++;
    else holders->shared++;
    if (limit) holders->limit = limit;
    holders->owners[1] = holders->owners[0];
    holders->owners[0] = owner;
}

static void check_exclusion(struct sim_world *world)
{
    static const char *const caller_names[SIM_CALLERS] = {"caller0", "caller1", "caller2"};
    for (int lock = 0; lock < world->lock_count; lock++) {
        if (world->by_hand[lock]) continue;
        struct holders holders = {.owners = {"", ""}};
        for (int i = 0; i < world->held_count; i++) {
            const struct sim_held *held = &world->held[i];
            if (held->lock != lock || held->robbed || !is_live(held)) continue;
            count_holder(world, &holders, &held->grant->id, held->grant->limit,
                         held->client->owner);
        }
        for (int i = 0; i < world->caller_count; i++) {
            const struct sim_caller *caller = &world->callers[i];
            if (caller->lock == lock && sim_caller_believes(caller))
                count_holder(world, &holders, &caller->grant, caller->limit, caller_names[i]);
        }
        int exclusive = holders.exclusive, shared = holders.shared;
        int64_t limit = holders.limit;
        const char **owners = holders.owners;
        struct sim_foreign *foreign = &world->foreign;
        if (world->has_foreign && foreign->lock == lock && foreign->holds &&
            foreign->valid_until_t > world->t) {
            exclusive++;
            owners[1] = owners[0];
            owners[0] = "foreign";
        }
        if (exclusive > 1 || (exclusive > 0 && shared > 0) || (shared > 0 && shared > limit)) {
            sim_fail(world, "I1: lock %.*s has %d exclusive and %d shared holders (%s, %s)",
                     HF_FMT(sim_lock_name(lock)), exclusive, shared, owners[0], owners[1]);
        }
    }
}

void sim_check_granted(struct sim_client *client, struct hf_grant *grant, int lock, int64_t asked_t)
{
    struct sim_world *world = client->world;
    world->grants++;
    if (world->held_count == SIM_GRANTS) {
        sim_fail(world, "simulator: more than %d locks are held", SIM_GRANTS);
        return;
    }
    if (find(world, grant)) sim_fail(world, "I4: a grant was reported twice");
    if (grant->reason != 0) sim_fail(world, "I3: a grant that ended is reported as held");
    /* Two shared grants may be confirmed in another order than they were made. */
    const struct hf_layout *layout = &world->layout;
    bool has_token = (world->params.format->can & HF_CAN_TOKEN) &&
                     (world->params.format != &hf__format_dlock || layout->fencing);
    bool robbed = sim_check_is_robbed(world, &grant->id, grant->limit);
    if (grant->limit == 0 && !world->by_hand[lock] && has_token && !robbed) {
        if (grant->token <= world->last_token[lock])
            sim_fail(world, "I2: token %lld of %.*s after %lld", (long long)grant->token,
                     HF_FMT(sim_lock_name(lock)), (long long)world->last_token[lock]);
        world->last_token[lock] = grant->token;
    }
    world->held[world->held_count++] = (struct sim_held){
        .grant = grant,
        .client = client,
        .lock = lock,
        .asked_t = asked_t,
        .valid_until_us = grant->lease ? grant->lease->valid_until_us : 0,
        .robbed = robbed,
    };
}

void sim_check_ended(struct sim_client *client, struct hf_grant *grant)
{
    struct sim_world *world = client->world;
    struct sim_held *held = find(world, grant);
    if (!held) {
        sim_fail(world, "I5: a second final event (%s)", hf_reason_name(grant->reason));
        return;
    }
    if (grant->reason == 0) sim_fail(world, "I5: a final event without a reason");
    if (grant->reason > HF_REASON_ABANDONED) world->losses++;
    *held = world->held[--world->held_count];
}

void sim_check_crashed(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (int i = 0; i < world->held_count;) {
        if (world->held[i].client == client) world->held[i] = world->held[--world->held_count];
        else i++;
    }
}

/* A holder that was robbed notices within a lease (and a few tries). */
static void doom(struct sim_held *held)
{
    const struct sim_world *world = held->client->world;
    if (held->doomed || !held->grant->lease) return;
    held->doomed = true;
    held->doomed_by_t =
        world->t + held->grant->lease->lease_ms * 1000 * 5 / 4 + world->timeout_ms * 2000;
}

static void list_id(struct sim_world *world, struct hf_id *ids, int *count, const struct hf_id *id)
{
    if (is_listed(ids, *count, id)) return;
    if (*count == SIM_DEAD) sim_fail(world, "simulator: more than %d grants", SIM_DEAD);
    else ids[(*count)++] = *id;
}

void sim_check_dead(struct sim_world *world, const struct hf_id *grant)
{
    list_id(world, world->dead, &world->dead_count, grant);
}

static bool held_in(struct sim_world *world, const struct hf_item *items, int count,
                    const struct hf_id *grant, int64_t limit)
{
    const struct hf_format *format = world->params.format;
    const struct hf_claim claim = {.grant = *grant, .limit = limit};
    for (int i = 0; i < count; i++) {
        struct hf_record record;
        format->parse(&world->layout, &world->arena, true, items[i], &record);
        if (format->holds(&record, &claim)) return true;
    }
    return false;
}

/*
 * A copy of an acquire that lands after its grant has ended grants it once more, with a new token:
 * whoever still has it may renew it then.
 */
void sim_check_revived(struct sim_world *world, const struct hf_op *op)
{
    const struct sim_cell *cell = sim_cell_of(world, op);
    if (cell->exists && world->revived_count < SIM_FORCES)
        world->revived[world->revived_count++] = cell->item;
}

void sim_check_alive(struct sim_world *world, const struct hf_id *grant, int64_t limit)
{
    if (is_listed(world->dead, world->dead_count, grant) &&
        !sim_check_is_robbed(world, grant, limit) &&
        !held_in(world, world->revived, world->revived_count, grant, limit))
        sim_fail(world, "I3: a grant that was lost or released is told as held");
}

void sim_check_given_up(struct sim_world *world, const struct hf_id *grant)
{
    list_id(world, world->given_up, &world->given_up_count, grant);
}

static bool was_taken(struct sim_world *world, const struct sim_cell *cell,
                      const struct hf_record *before, const struct hf_id *grant, int64_t limit)
{
    const struct hf_format *format = world->params.format;
    const struct hf_claim claim = {.grant = *grant, .limit = limit};
    struct hf_record after;
    format->parse(&world->layout, &world->arena, cell->exists, cell->item, &after);
    return format->holds(before, &claim) && !format->holds(&after, &claim);
}

static struct sim_force *force_of(struct sim_world *world, const struct sim_message *message)
{
    const void *about = message->request->owner;
    for (int i = 0; i < world->force_count; i++) {
        struct sim_force *force = &world->forces[i];
        if (force->about == about && force->client == message->client &&
            force->life == message->life)
            return force;
    }
    if (world->force_count == SIM_FORCES) {
        sim_fail(world, "simulator: more than %d forced releases", SIM_FORCES);
        return &world->forces[0];
    }
    struct sim_force *force = &world->forces[world->force_count++];
    *force = (struct sim_force){
        .about = about, .client = message->client, .life = message->life, .looked_t = world->t};
    return force;
}

void sim_check_force_looks(struct sim_world *world, const struct sim_message *message)
{
    struct sim_force *force = force_of(world, message);
    if (!force->writes) force->looked_t = world->t;
}

void sim_check_force_writes(struct sim_world *world, const struct sim_message *message)
{
    force_of(world, message)->writes = true;
}

/* One forced release takes the lock from those that it found: nobody who asked for it later. */
static void check_robbed(struct sim_world *world, const struct sim_message *message,
                         const struct hf_id *grant, int64_t limit, int64_t asked_t)
{
    struct sim_force *force = force_of(world, message);
    if (world->by_hand[sim_cell_of(world, &message->op)->lock]) return;
    if (asked_t > force->looked_t)
        sim_fail(world, "I1: a forced release takes a lock from somebody who came later");
    if (limit > 0) return;
    if (force->robs && !hf__id_eq(&force->grant, grant))
        sim_fail(world, "I1: one forced release takes a lock away from two holders");
    force->robs = true;
    force->grant = *grant;
}

bool sim_check_is_robbed(struct sim_world *world, const struct hf_id *grant, int64_t limit)
{
    return held_in(world, world->robbed, world->robbed_count, grant, limit);
}

/* A session is asked to give a lock back. Its caller need not hear of that at once. */
static void note_revoked(struct sim_world *world, const struct sim_cell *cell)
{
    const struct hf_value *revoked =
        cell->exists && cell->lock < 0 ? hf__item_get_str(cell->item, "revoked") : NULL;
    for (size_t i = 0; revoked && revoked->type == HF_SS && i < revoked->list.count; i++) {
        struct hf_errand_text text;
        struct hf_slice by, reason;
        struct hf_id id;
        if (hf__revocation_parse(revoked->list.at[i].bytes, &text, &by, &reason) &&
            hf__id_parse(text.grant, &id))
            list_id(world, world->revoked, &world->revoked_count, &id);
    }
}

bool sim_check_is_revoked(const struct sim_world *world, const struct hf_id *grant)
{
    return is_listed(world->revoked, world->revoked_count, grant);
}

void sim_check_forced(struct sim_world *world, const struct sim_message *message, bool had,
                      struct hf_item old)
{
    struct hf_record before;
    const struct sim_cell *cell = sim_cell_of(world, &message->op);
    note_revoked(world, cell);
    world->params.format->parse(&world->layout, &world->arena, had, old, &before);
    if (had && world->robbed_count < SIM_FORCES) world->robbed[world->robbed_count++] = old;
    for (int i = 0; i < world->held_count; i++) {
        struct sim_held *held = &world->held[i];
        if (held->lock != cell->lock ||
            !was_taken(world, cell, &before, &held->grant->id, held->grant->limit))
            continue;
        held->robbed = true;
        doom(held);
        check_robbed(world, message, &held->grant->id, held->grant->limit, held->asked_t);
    }
    struct sim_foreign *foreign = &world->foreign;
    if (world->has_foreign && foreign->lock == cell->lock && foreign->holds &&
        was_taken(world, cell, &before, &foreign->grant, 0)) {
        foreign->valid_until_t = 0;
        check_robbed(world, message, &foreign->grant, 0, 0);
    }
    for (int i = 0; i < world->caller_count; i++) {
        struct sim_caller *caller = &world->callers[i];
        if (!caller->has_grant || caller->lock != cell->lock ||
            !was_taken(world, cell, &before, &caller->grant, caller->limit))
            continue;
        caller->robbed = true;
        check_robbed(world, message, &caller->grant, caller->limit, caller->asked_t);
    }
}

/* Somebody deletes a lock by hand. */
void sim_check_doom(struct sim_world *world, int lock)
{
    world->by_hand[lock] = true;
    for (int i = 0; i < world->held_count; i++) {
        struct sim_held *held = &world->held[i];
        if (held->lock == lock) doom(held);
    }
}

void sim_check_request(struct sim_client *client, const struct hf_request *request)
{
    struct sim_world *world = client->world;
    if (request->kind == HF_REQUEST_RENEW) {
        const struct hf_lease *lease = request->owner;
        if (lease->is_session) {
            if (lease->state != HF_LEASE_LIVE) sim_fail(world, "I3: a dead session is renewed");
            return;
        }
        const struct hf_grant *grant =
            hf__list_empty(&lease->grants)
                ? NULL
                : HF_CONTAINER(lease->grants.next, struct hf_grant, of_lease);
        /* One that was abandoned in this step may have been due before. */
        if (grant && grant->state != HF_GRANT_HELD && grant->state != HF_GRANT_ADOPTING)
            sim_fail(world, "I3: a lock is renewed after its release began");
    }
}

void sim_check_step(struct sim_world *world, const struct sim_client *client)
{
    for (int i = 0; i < world->held_count; i++) {
        struct sim_held *held = &world->held[i];
        if (held->client != client || held->grant->state != HF_GRANT_HELD) continue;
        int64_t valid_us = held->grant->lease->valid_until_us;
        if (valid_us < held->valid_until_us) sim_fail(world, "I7: a validity shrank");
        held->valid_until_us = valid_us;
        if (!is_live(held)) held->said_zero = true;
        else if (held->said_zero) sim_fail(world, "I3: a lock that had run out is held again");
        bool clean = world->loss_percent + world->slow_percent + world->error_percent == 0;
        if (held->doomed && world->t > held->doomed_by_t && clean &&
            client->paused_until_t <= world->t && is_live(held))
            sim_fail(world, "I5: a lock that was taken away is still held after a lease");
    }
    check_exclusion(world);
    /* Two reads per poll limit and worker, as many judgements; renewals and errands beside them. */
    int64_t seconds = world->t / SIM_SECOND + 10;
    if (client && client->requests > seconds * (60 + 16000 / world->poll_limit_ms) + 600)
        sim_fail(world, "I8: %u requests in %lld s", client->requests, (long long)seconds);
}

static int64_t token_of(struct hf_item item)
{
    int64_t token = 0;
    const struct hf_value *value = hf__item_get_str(item, "token");
    if (value && value->type == HF_N) hf__number_to_int64(value->number, &token);
    return token;
}

/* I2 at its source: a write that grants raises the token above every earlier one. */
void sim_check_write(struct sim_world *world, struct sim_cell *cell, bool had, struct hf_item old)
{
    if (cell->lock < 0 || !cell->exists || world->params.format != &hf__format_holdfast) return;
    const struct hf_value *grant = hf__item_get_str(cell->item, "grant");
    const struct hf_value *grant_before = had ? hf__item_get_str(old, "grant") : NULL;
    const struct hf_value *holders = hf__item_get_str(cell->item, "holders");
    const struct hf_value *holders_before = had ? hf__item_get_str(old, "holders") : NULL;
    size_t count = holders ? holders->list.count : 0;
    size_t count_before = holders_before ? holders_before->list.count : 0;
    bool granted =
        (grant && !(grant_before && hf__value_equal(grant, grant_before))) || count > count_before;
    int64_t token = token_of(cell->item);
    if (had && token < token_of(old)) sim_fail(world, "I2: a write lowers a token");
    if (!granted) return;
    if (grant && grant_before) world->takeovers++;
    if (token <= cell->most_token)
        sim_fail(world, "I2: granted with token %lld after %lld", (long long)token,
                 (long long)cell->most_token);
    cell->most_token = token;
}
