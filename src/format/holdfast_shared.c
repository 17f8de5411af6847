/*
 * Shared locks and semaphores of the native format: `holders` is the set of "session/grant" of all
 * holders, `intent` the same of a waiting writer.
 *
 * Invariants
 * R1  A member always has a session: a set cannot hold leases.
 * R2  A new member has the same limit as the present ones.
 * R3  A member joins only if there is no intent; a client that finds one judges its session first.
 */
#include "format/holdfast.h"
#include "format/mutant.h"

struct hf_slice hf__holdfast_member(struct hf_arena *arena, const struct hf_claim *claim)
{
    struct hf_slice session = hf__id_text(arena, claim->session);
    struct hf_slice grant = hf__id_text(arena, &claim->grant);
    return hf__arena_printf(arena, "%.*s/%.*s", HF_FMT(session), HF_FMT(grant));
}

struct hf_value hf__holdfast_set_of(struct hf_arena *arena, struct hf_slice member)
{
    struct hf_value *value = hf__arena_alloc(arena, sizeof *value);
    if (!value) return hf__list(HF_SS, NULL, 0);
    *value = hf__s(member);
    return hf__list(HF_SS, value, 1);
}

const struct hf_condition *hf__holdfast_contains(struct hf_arena *arena, const char *set,
                                                 struct hf_slice member)
{
    struct hf_operand operands[2] = {
        hf__operand_path(hf__path(arena, hf__slice_str(set))),
        hf__operand_value(hf__s(member)),
    };
    return hf__cond(arena, HF_CONTAINS, operands, 2);
}

/* size(holders) OP :count */
static const struct hf_condition *holders_size(struct hf_arena *arena, enum hf_condition_op op,
                                               int64_t count)
{
    struct hf_operand operands[2] = {
        hf__operand_path(hf__path(arena, HF_LIT("holders"))),
        hf__operand_value(hf__n(arena, count)),
    };
    operands[0].is_size = true;
    return hf__cond(arena, op, operands, 2);
}

void hf__holdfast_write_member(struct hf_arena *arena, const struct hf_claim *claim,
                               struct hf_update *update)
{
    hf__holdfast_write_common(arena, claim, update);
    hf__update_set(arena, update, "limit", hf__n(arena, claim->limit));
    if (!HF_BUG(SHARED_KEEPS_TTL)) hf__update_remove(arena, update, "ttl");
    hf__update_add_to(arena, update, "holders",
                      hf__holdfast_set_of(arena, hf__holdfast_member(arena, claim)));
}

void hf__holdfast_join(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_value limit = hf__n(arena, claim->limit);
    const struct hf_condition *room =
        hf__cond_or(arena, hf__cond_absent(arena, "holders"),
                    hf__cond_and(arena, hf__cond_compare(arena, "limit", HF_EQ, limit),
                                 holders_size(arena, HF_LT, claim->limit)));
    const struct hf_condition *condition = hf__cond_and(
        arena,
        hf__cond_and(arena, hf__cond_absent(arena, "grant"), hf__cond_absent(arena, "intent")),
        room);
    if (claim->only_if_exists)
        condition = hf__cond_and(arena, condition, hf__keyed_exists(layout, arena));
    hf__holdfast_write_member(arena, claim,
                              hf__keyed_update(layout, arena, claim->name, condition, ret));
}

static void resolve(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_slice member = hf__holdfast_member(arena, claim);
    struct hf_update *update = hf__keyed_update(
        layout, arena, claim->name, hf__holdfast_contains(arena, "holders", member), ret);
    hf__update_count(arena, update, "token", claim->token_start, 1);
}

static void leave(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                  struct hf_slice member, struct hf_op *ret)
{
    struct hf_update *update =
        hf__keyed_update(layout, arena, name, hf__holdfast_contains(arena, "holders", member), ret);
    hf__update_delete_from(arena, update, "holders", hf__holdfast_set_of(arena, member));
}

/*
 * The last holder to leave sets the ttl (H4), on the condition that it is alone; a release that
 * turns out not to be the last is sent again as a plain one.
 */
void hf__holdfast_leave(const struct hf_layout *layout, struct hf_arena *arena,
                        const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_slice member = hf__holdfast_member(arena, claim);
    const struct hf_condition *condition = hf__holdfast_contains(arena, "holders", member);
    if (claim->last) condition = hf__cond_and(arena, condition, holders_size(arena, HF_EQ, 1));
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    hf__update_delete_from(arena, update, "holders", hf__holdfast_set_of(arena, member));
    if (claim->last && claim->ttl_unix_s)
        hf__update_set(arena, update, "ttl", hf__n(arena, claim->ttl_unix_s));
}

static void retire(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   int64_t ttl_unix_s, struct hf_op *ret)
{
    const struct hf_condition *condition = hf__cond_and(
        arena, hf__keyed_exists(layout, arena),
        hf__cond_and(arena, hf__cond_absent(arena, "grant"), hf__cond_absent(arena, "holders")));
    struct hf_update *update = hf__keyed_update(layout, arena, name, condition, ret);
    hf__update_set(arena, update, "ttl", hf__n(arena, ttl_unix_s));
}

static void declare(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                    struct hf_slice member, struct hf_op *ret)
{
    const struct hf_condition *condition =
        hf__cond_and(arena, hf__cond_exists(arena, "holders"), hf__cond_absent(arena, "intent"));
    struct hf_update *update = hf__keyed_update(layout, arena, name, condition, ret);
    hf__update_set(arena, update, "intent", hf__s(member));
}

static void withdraw(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                     struct hf_slice member, struct hf_op *ret)
{
    const struct hf_condition *condition = hf__cond_compare(arena, "intent", HF_EQ, hf__s(member));
    struct hf_update *update = hf__keyed_update(layout, arena, name, condition, ret);
    hf__update_remove(arena, update, "intent");
}

const struct hf_share_format hf__holdfast_shares = {
    .resolve = resolve,
    .reap = leave,
    .retire = retire,
    .declare = declare,
    .withdraw = withdraw,
};
