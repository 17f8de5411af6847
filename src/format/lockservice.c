/*
 * lockservice: LockServiceCentral's records. A lock is "namespace:lockName", and
 * held up to and including the second `expiry`.
 *
 *   lockId S · namespace S · lockName S · owner S · instanceId S ·
 *   leaseDuration N (s) · expiry N (epoch s; also the table's TTL)
 *
 * Invariants
 * J1  The instance id is the grant, so no two grants share one.
 * J2  `expiry` is the version: two writes of one grant in the same second cannot be told apart, and
 *     need not be, since the holder is judged by it.
 */
#include "format/keyed.h"

enum { NAME_LEAST = 3, NAME_MOST = 64 };

static const char *const own_names[] = {"namespace",     "lockName", "owner", "instanceId",
                                        "leaseDuration", "expiry",   NULL};

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret)
{
    (void)layout, (void)arena;
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return;
    ret->item = item;
    int64_t expiry_s, lease_s;
    struct hf_slice instance;
    if (!hf__item_text(item, "owner", &ret->owner)) hf__record_damage(ret, "owner");
    else if (!hf__item_text(item, "instanceId", &instance) || instance.len == 0)
        hf__record_damage(ret, "instanceId");
    else if (!hf__item_int(item, "expiry", 0, &expiry_s) || expiry_s > INT64_MAX / 4000)
        hf__record_damage(ret, "expiry");
    if (ret->damaged) return;
    ret->exclusive = true;
    ret->holder.grant = ret->identity = instance;
    ret->liveness = (struct hf_liveness){
        .id = instance, .version = instance, .expires_unix_ms = expiry_s * 1000 + 999};
    if (hf__item_int(item, "leaseDuration", 1, &lease_s) && lease_s <= HF_LEASE_MAX_MS / 1000)
        ret->liveness.lease_ms = lease_s * 1000;
}

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

/* Whole seconds, to the holder's side. */
static int64_t lease_s(const struct hf_claim *claim)
{
    return (claim->lease_ms + 999) / 1000;
}

static int64_t expiry_s(int64_t expires_unix_ms)
{
    return (expires_unix_ms + 999) / 1000;
}

static const struct hf_condition *expiry_is(struct hf_arena *arena, int64_t expires_unix_ms)
{
    return hf__cond_compare(arena, "expiry", HF_EQ, hf__n(arena, expiry_s(expires_unix_ms)));
}

/* Ours, with the expiry that was written last or, if a renewal is undecided, with its. */
static const struct hf_condition *mine(struct hf_arena *arena, const struct hf_claim *claim,
                                       int64_t expires_unix_ms)
{
    const struct hf_condition *expiry = expiry_is(arena, expires_unix_ms);
    if (claim->pending)
        expiry = hf__cond_or(arena, expiry, expiry_is(arena, claim->pending_unix_ms));
    return hf__cond_and(arena, hf__cond_compare(arena, "owner", HF_EQ, hf__s(claim->owner)),
                        hf__cond_and(arena,
                                     hf__cond_compare(arena, "instanceId", HF_EQ,
                                                      hf__s(hf__id_text(arena, &claim->grant))),
                                     expiry));
}

static void put(const struct hf_layout *layout, struct hf_arena *arena,
                const struct hf_claim *claim, const struct hf_condition *condition,
                struct hf_op *ret)
{
    const char *colon = memchr(claim->name.ptr, ':', claim->name.len);
    size_t len = colon ? (size_t)(colon - claim->name.ptr) : claim->name.len;
    struct hf_slice first = hf__slice(claim->name.ptr, len);
    struct hf_slice second = hf__slice_skip(claim->name, colon ? len + 1 : len);
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "namespace", hf__s(hf__arena_copy(arena, first)));
    item = hf__item_set(arena, item, "lockName", hf__s(hf__arena_copy(arena, second)));
    item = hf__item_set(arena, item, "owner", hf__s(claim->owner));
    item = hf__item_set(arena, item, "instanceId", hf__s(hf__id_text(arena, &claim->grant)));
    item = hf__item_set(arena, item, "leaseDuration", hf__n(arena, lease_s(claim)));
    item = hf__item_set(arena, item, "expiry", hf__n(arena, expiry_s(claim->expires_unix_ms)));
    hf__keyed_put(layout, arena, claim->name, item, condition, ret);
}

static void acquire(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    (void)seen;
    const struct hf_condition *expired = hf__cond_compare(
        arena, "expiry", HF_LT, hf__n(arena, (claim->now_unix_ms - claim->skew_ms) / 1000));
    put(layout, arena, claim,
        claim->only_if_exists ? expired
                              : hf__cond_or(arena, hf__keyed_absent(layout, arena), expired),
        ret);
}

static void take(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    put(layout, arena, claim,
        hf__cond_and(arena, hf__keyed_same(arena, "expiry", seen->item),
                     hf__cond_and(arena, hf__keyed_same(arena, "owner", seen->item),
                                  hf__keyed_same(arena, "instanceId", seen->item))),
        ret);
}

static void renew(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(arena, claim, claim->before_unix_ms), ret);
    hf__update_set(arena, update, "leaseDuration", hf__n(arena, lease_s(claim)));
    hf__update_set(arena, update, "expiry", hf__n(arena, expiry_s(claim->expires_unix_ms)));
}

static void release(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    hf__keyed_delete(layout, arena, claim->name, mine(arena, claim, claim->expires_unix_ms), ret);
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    return record->exclusive && hf__id_is(&claim->grant, record->holder.grant);
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    if (!holds(record, claim)) return false;
    claim->owner = record->owner;
    claim->lease_ms = record->liveness.lease_ms;
    claim->expires_unix_ms = record->liveness.expires_unix_ms / 1000 * 1000; /* as it was written */
    return true;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    return record->liveness.expires_unix_ms / 1000 == expiry_s(claim->expires_unix_ms);
}

static void force(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret)
{
    (void)seen;
    hf__keyed_delete(layout, arena, how->name,
                     hf__cond_compare(arena, "instanceId", HF_EQ, hf__s(how->grant)), ret);
}

static bool is_part(struct hf_slice part)
{
    if (part.len < NAME_LEAST || part.len > NAME_MOST) return false;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';
        if (!good) return false;
    }
    return true;
}

static const char *refuses_name(struct hf_slice name)
{
    const char *colon = name.len ? memchr(name.ptr, ':', name.len) : NULL;
    size_t len = colon ? (size_t)(colon - name.ptr) : 0;
    if (!colon || !is_part(hf__slice(name.ptr, len)) || !is_part(hf__slice_skip(name, len + 1)))
        return "this format requires NAMESPACE:NAME, each of 3 to 64 letters, digits, _ or -";
    return NULL;
}

const struct hf_format hf__format_lockservice = {
    .name = "lockservice",
    .default_key = "lockId",
    .can = HF_CAN_EXPIRE | HF_CAN_RENEW | HF_CAN_FORCE | HF_NEEDS_CLOCK,
    .ttl_name = "expiry",
    .read = read_lock,
    .parse = parse,
    .acquire = acquire,
    .take = take,
    .renew = renew,
    .release = release,
    .holds = holds,
    .at_version = at_version,
    .adopt = adopt,
    .force = force,
    .name_of = hf__keyed_name_of,
    .refuses_name = refuses_name,
    .own_names = own_names,
};
