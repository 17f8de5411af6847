/*
 * dlock: a lock is held until a moment of wall-clock time, and every client allows for clocks that
 * differ by the maximum skew.
 *
 *   key S (prefix + name) · owner S · until N (unix ms) · fencingToken B (big
 *   endian, no leading zero; only with fencing)
 *
 * Invariants
 * D1  The owner's text ends in the grant, so that a record identifies its grant even where two
 *     lockers have the same name. That end is never shown: the grant is a secret.
 * D2  With fencing a record stays after its release (until = 1000), and its token
 *     grows by one with each grant.
 * D3  The clock is the store's: expiries are written from its high end and compared with its low
 *     end.
 * D4  `until` is the version. Two writes of one grant with the same `until` cannot be told apart,
 *     and need not be, since the holder is judged by it.
 */
#include "format/keyed.h"

enum { RELEASED_MS = 1000, TOKEN_BYTES = 8 };

static const char *const own_names[] = {"owner", "until", "fencingToken", NULL};

static struct hf_slice owner_text(struct hf_arena *arena, const struct hf_claim *claim)
{
    struct hf_slice grant = hf__id_text(arena, &claim->grant);
    return hf__arena_printf(arena, "%.*s/%.*s", HF_FMT(claim->owner), HF_FMT(grant));
}

/* Cuts the grant off an owner's text; false if there is none (D1). */
static bool cut_grant(struct hf_slice *owner, struct hf_id *ret)
{
    if (owner->len <= HF_GRANT_TEXT || owner->ptr[owner->len - HF_GRANT_TEXT - 1] != '/' ||
        !hf__id_parse(hf__slice_skip(*owner, owner->len - HF_GRANT_TEXT), ret))
        return false;
    owner->len -= HF_GRANT_TEXT + 1;
    return true;
}

/* False if it is not a number that we can count with. */
static bool token_of(struct hf_item item, int64_t *ret)
{
    struct hf_slice bytes;
    if (!hf__item_bytes(item, "fencingToken", &bytes) || bytes.len == 0 || bytes.len > TOKEN_BYTES)
        return false;
    uint64_t token = 0;
    for (size_t i = 0; i < bytes.len; i++) token = token << 8 | (unsigned char)bytes.ptr[i];
    if (token >= INT64_MAX) return false;
    *ret = (int64_t)token;
    return true;
}

static struct hf_value token_value(struct hf_arena *arena, int64_t token)
{
    char *bytes = hf__arena_alloc(arena, TOKEN_BYTES);
    if (!bytes) return hf__b(HF_LIT("\1"));
    size_t len = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        unsigned char byte = (unsigned char)((uint64_t)token >> shift);
        if (byte || len) bytes[len++] = (char)byte;
    }
    return hf__b(hf__slice(bytes, len));
}

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret)
{
    (void)arena;
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return;
    ret->item = item;
    int64_t until_ms;
    bool has_token = hf__item_get_str(item, "fencingToken");
    if (!hf__item_int(item, "until", 0, &until_ms)) hf__record_damage(ret, "until");
    else if (!hf__item_text(item, "owner", &ret->owner) || ret->owner.len == 0)
        hf__record_damage(ret, "owner");
    else if (has_token && layout->fencing && !token_of(item, &ret->token))
        hf__record_damage(ret, "fencingToken");
    if (ret->damaged) return;
    struct hf_id grant;
    struct hf_slice whole = ret->owner;
    if (cut_grant(&ret->owner, &grant)) ret->identity = whole;
    if (until_ms <= RELEASED_MS) return;
    ret->exclusive = true;
    ret->holder.grant = whole;
    ret->liveness =
        (struct hf_liveness){.id = whole, .version = whole, .expires_unix_ms = until_ms};
}

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

static int64_t next_token(const struct hf_layout *layout, const struct hf_record *seen)
{
    if (!layout->fencing) return 0;
    return seen ? seen->token + 1 : 1;
}

static bool reads_first(const struct hf_layout *layout)
{
    return layout->fencing;
}

static void put(const struct hf_layout *layout, struct hf_arena *arena,
                const struct hf_claim *claim, const struct hf_record *seen,
                const struct hf_condition *condition, struct hf_op *ret)
{
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "owner", hf__s(owner_text(arena, claim)));
    item = hf__item_set(arena, item, "until", hf__n(arena, claim->expires_unix_ms));
    if (layout->fencing)
        item =
            hf__item_set(arena, item, "fencingToken", token_value(arena, next_token(layout, seen)));
    hf__keyed_put(layout, arena, claim->name, item, condition, ret);
}

static const struct hf_condition *as_seen(struct hf_arena *arena, struct hf_item seen)
{
    return hf__cond_and(arena, hf__keyed_same(arena, "until", seen),
                        hf__cond_and(arena, hf__keyed_same(arena, "owner", seen),
                                     hf__keyed_same(arena, "fencingToken", seen)));
}

static void acquire(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    const struct hf_condition *free = hf__keyed_absent(layout, arena);
    if (layout->fencing && seen && seen->exists) free = as_seen(arena, seen->item);
    else if (!layout->fencing)
        free = hf__cond_or(arena, free,
                           hf__cond_compare(arena, "until", HF_LE,
                                            hf__n(arena, claim->now_unix_ms - claim->skew_ms)));
    if (claim->only_if_exists) free = hf__cond_and(arena, free, hf__keyed_exists(layout, arena));
    put(layout, arena, claim, seen, free, ret);
}

static void take(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    put(layout, arena, claim, seen, as_seen(arena, seen->item), ret);
}

/* Ours, with the expiry that was written last or, if a renewal is undecided, with its. */
static const struct hf_condition *mine(struct hf_arena *arena, const struct hf_claim *claim,
                                       int64_t until_ms)
{
    const struct hf_condition *until =
        hf__cond_compare(arena, "until", HF_EQ, hf__n(arena, until_ms));
    if (claim->pending)
        until = hf__cond_or(
            arena, until,
            hf__cond_compare(arena, "until", HF_EQ, hf__n(arena, claim->pending_unix_ms)));
    return hf__cond_and(
        arena, hf__cond_compare(arena, "owner", HF_EQ, hf__s(owner_text(arena, claim))), until);
}

static void renew(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(arena, claim, claim->before_unix_ms), ret);
    hf__update_set(arena, update, "until", hf__n(arena, claim->expires_unix_ms));
}

static void release(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition = mine(arena, claim, claim->expires_unix_ms);
    if (!layout->fencing) {
        hf__keyed_delete(layout, arena, claim->name, condition, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    hf__update_set(arena, update, "until", hf__n(arena, RELEASED_MS));
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    struct hf_id grant;
    struct hf_slice owner = record->holder.grant;
    return record->exclusive && cut_grant(&owner, &grant) && hf__id_eq(&grant, &claim->grant);
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    if (!holds(record, claim)) return false;
    claim->owner = record->owner;
    claim->token = record->token;
    claim->lease_ms = 0;
    claim->expires_unix_ms = record->liveness.expires_unix_ms;
    return true;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    return record->liveness.expires_unix_ms == claim->expires_unix_ms;
}

static void force(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret)
{
    (void)seen;
    const struct hf_condition *held = hf__cond_compare(arena, "owner", HF_EQ, hf__s(how->grant));
    if (!layout->fencing) {
        hf__keyed_delete(layout, arena, how->name, held, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(layout, arena, how->name, held, ret);
    hf__update_set(arena, update, "until", hf__n(arena, RELEASED_MS));
}

const struct hf_format hf__format_dlock = {
    .name = "dlock",
    .default_key = "key",
    .can = HF_CAN_TOKEN | HF_CAN_EXPIRE | HF_CAN_RENEW | HF_CAN_FORCE | HF_NEEDS_CLOCK,
    .skew_ms = 10000,
    .read = read_lock,
    .parse = parse,
    .acquire = acquire,
    .reads_first = reads_first,
    .next_token = next_token,
    .take = take,
    .renew = renew,
    .release = release,
    .holds = holds,
    .at_version = at_version,
    .adopt = adopt,
    .force = force,
    .name_of = hf__keyed_name_of,
    .refuses_name = hf__keyed_refuses_name,
    .own_names = own_names,
};
