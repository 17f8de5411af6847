/*
 * The service in front of the store, for clients that are not trusted with it (format/remote.h). To
 * those who keep to the protocol it must make no difference: whatever they send is let through, or
 * refused as the store itself might have refused it.
 */
#include "format/remote.h"

#include <string.h>

#include "sim.h"

/* Who the service says it is: the same in all its lives. */
static struct hf_slice principal_of(const struct sim_client *client)
{
    if (client->world->one_owner) return HF_LIT("everybody");
    return hf__arena_printf(&client->world->arena, "client%d", client->index);
}

static void show(const struct sim_client *client, struct hf_answer *answer)
{
    struct sim_world *world = client->world;
    if (answer->has_item)
        answer->item =
            hf__remote_view(&world->layout, &world->arena, principal_of(client), answer->item);
}

static enum hf_remote_verdict judge(struct sim_world *world, struct hf_remote *remote)
{
    enum { FACTS_MOST = 4 };
    enum hf_remote_verdict verdict = HF_REMOTE_DENIED;
    for (int i = 0; i < FACTS_MOST; i++) {
        verdict = hf__remote_judge(remote);
        bool is_session = verdict == HF_REMOTE_NEEDS_SESSION;
        if (!is_session && verdict != HF_REMOTE_NEEDS_LOCK) break;
        const struct sim_cell *cell =
            sim_cell(world, is_session ? hf__remote_session_key(&world->arena, remote->wanted)
                                       : remote->wanted);
        hf__remote_learn(remote, is_session, cell->exists, cell->item);
    }
    return verdict;
}

/* The service sees every change, and has the fastest clock. */
struct watch {
    const struct sim_world *world;
    const struct sim_cell *cell;
    int64_t now_us;
};

static bool finds_dead(void *user, const struct hf_liveness *liveness)
{
    const struct watch *watch = user;
    int64_t seen_us = (watch->world->t - watch->cell->changed_t) / 1000 * 1005;
    bool expired = liveness->expires_unix_ms &&
                   (liveness->expires_unix_ms + watch->world->skew_ms) * 1000 < watch->now_us;
    return expired || seen_us >= liveness->lease_ms * 1000;
}

/*
 * A sweep is the service's own business, what was meddled with by hand may be anything, and a client
 * that has not heard yet who it is cannot make a session of that owner's.
 */
static bool may_be_denied(const struct hf_remote *remote, const struct sim_world *world,
                          const struct sim_cell *cell)
{
    struct hf_slice text;
    struct hf_id id, owner;
    hf__id_of_owner(remote->owner, &owner);
    bool unbound = hf__remote_is_session(cell->key, &text) && hf__id_parse(text, &id) &&
                   !hf__id_is_bound(&id, &owner);
    return remote->op->kind == HF_DELETE_ITEM || unbound ||
           (cell->lock >= 0 && world->by_hand[cell->lock]);
}

/* What a session is asked for, or to give back, is taken away by nobody but itself. */
static void check_kept(struct sim_world *world, const struct hf_op *op, struct hf_item before,
                       struct hf_item after)
{
    static const char *const names[] = {"asked", "revoked"};
    for (size_t i = 0; i < op->update->count; i++)
        if (op->update->actions[i].kind == HF_DELETE) return; /* it clears them */
    for (size_t i = 0; i < 2; i++) {
        const struct hf_value *had = hf__item_get_str(before, names[i]);
        const struct hf_value *has = hf__item_get_str(after, names[i]);
        for (size_t k = 0; had && k < had->list.count; k++)
            if (!has || !hf__values_contain(has->list, &had->list.at[k]))
                sim_fail(world, "the service loses what a session is %s for", names[i]);
    }
}

void sim_remote_apply(struct sim_client *client, const struct hf_op *op, int host,
                      struct hf_answer *answer)
{
    struct sim_world *world = client->world;
    struct sim_cell *cell = sim_cell_of(world, op);
    int64_t now_us = world->t + world->host_offset_us[host];
    *answer = (struct hf_answer){0};
    struct hf_id id;
    hf__id_of_owner(principal_of(client), &id);
    answer->principal = hf__id_text(&world->arena, &id);
    if (op->kind == HF_GET_ITEM) {
        answer->has_item = cell->exists;
        answer->item = cell->item;
        show(client, answer);
        return;
    }
    struct watch watch = {world, cell, now_us};
    struct hf_remote remote = {
        .layout = &world->layout,
        .arena = &world->arena,
        .owner = principal_of(client),
        .may_lock = true,
        .may_force = true,
        .now = {true, now_us, now_us},
        .finds_dead = finds_dead,
        .user = &watch,
        .op = op,
        .key = cell->key,
        .exists = cell->exists,
        .item = cell->item,
    };
    /* It may have read the record before the last change, and writes after it. */
    bool late = sim_chance(world, 30);
    if (late) {
        remote.exists = cell->past_exists[0];
        remote.item = cell->past[0];
    }
    enum hf_remote_verdict verdict = judge(world, &remote);
    struct hf_op write;
    if (verdict == HF_REMOTE_CHANGES) hf__remote_write(&remote, &write);
    if (late &&
        (verdict != HF_REMOTE_CHANGES || !hf__condition_holds(write.condition, cell->item))) {
        remote.exists = cell->exists;
        remote.item = cell->item;
        memset(remote.sessions, 0, sizeof remote.sessions);
        remote.lock = (struct hf_remote_fact){0};
        verdict = judge(world, &remote);
        if (verdict == HF_REMOTE_CHANGES) hf__remote_write(&remote, &write);
    }
    if (verdict == HF_REMOTE_DENIED && !may_be_denied(&remote, world, cell))
        sim_fail(world, "the service denies %s a step of the protocol: %s", client->owner,
                 remote.why);
    if (verdict != HF_REMOTE_CHANGES) {
        answer->code = hf__error_set(
            &answer->error, verdict == HF_REMOTE_REFUSED ? HF_ERR_CONDITION : HF_ERR_DENIED,
            "refused");
        answer->has_item = verdict == HF_REMOTE_REFUSED && op->old_on_failure && cell->exists;
        answer->item = cell->item;
        show(client, answer);
        return;
    }
    struct hf_slice principal = answer->principal;
    struct hf_item before = cell->item;
    sim_table_apply(world, &write, answer);
    if (remote.stays && cell->exists) check_kept(world, op, before, cell->item);
    if (answer->code != 0) sim_fail(world, "the service's own write is refused");
    answer->principal = principal;
    answer->has_item = remote.stays && op->returns == HF_RETURN_ALL_NEW;
    answer->item = cell->item;
    show(client, answer);
}
