/*
 * single-table: a lock among an application's own items.
 *
 *   PK S = LOCK#<name> · SK S = LOCK · LockID S (owner_unix-nanoseconds) · Owner S ·
 *   AcquiredAt, ExpiresAt S (RFC 3339, whole seconds, Z) · TTL N (epoch s)
 *
 * Invariants
 * P1  We write UTC. Moments with an offset are read, and never compared as text.
 * P2  The nanoseconds of a LockID are the grant's, so no two grants share one.
 * P3  `ExpiresAt` is the version: two writes of one grant in the same second cannot
 *     be told apart, and need not be, since the holder is judged by it.
 */
#include <stdio.h>

#include "base/text.h"
#include "format/keyed.h"

static const char *const own_names[] = {"LockID", "Owner", "AcquiredAt", "ExpiresAt", "TTL", NULL};

static struct hf_slice moment(struct hf_arena *arena, int64_t unix_s)
{
    int64_t year;
    int month, day;
    int64_t days = unix_s / 86400, rest = unix_s % 86400;
    hf__date_from_days(days, &year, &month, &day);
    return hf__arena_printf(arena, "%04lld-%02d-%02dT%02d:%02d:%02dZ", (long long)year, month, day,
                            (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
}

/* 19 digits, as a time in our century has. */
static unsigned long long grant_number(const struct hf_claim *claim)
{
    return 1000000000000000000u + hf__id_fold(&claim->grant, 0) % 900000000000000000u;
}

static struct hf_slice lock_id(struct hf_arena *arena, const struct hf_claim *claim)
{
    return hf__arena_printf(arena, "%.*s_%llu", HF_FMT(claim->owner), grant_number(claim));
}

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret)
{
    (void)layout, (void)arena;
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return;
    ret->item = item;
    struct hf_slice id, expires, acquired;
    int64_t expires_ms;
    if (!hf__item_text(item, "LockID", &id) || id.len == 0) hf__record_damage(ret, "LockID");
    else if (!hf__item_text(item, "Owner", &ret->owner)) hf__record_damage(ret, "Owner");
    else if (!hf__item_text(item, "ExpiresAt", &expires) ||
             !hf__parse_rfc3339(expires, &expires_ms) || expires_ms <= 0)
        hf__record_damage(ret, "ExpiresAt");
    if (ret->damaged) return;
    if (hf__item_text(item, "AcquiredAt", &acquired))
        hf__parse_rfc3339(acquired, &ret->since_unix_ms);
    ret->exclusive = true;
    ret->holder.grant = ret->identity = id;
    /* Held up to and including that second: expired if that lies before now. */
    ret->liveness =
        (struct hf_liveness){.id = id, .version = id, .expires_unix_ms = expires_ms + 999};
}

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

static int64_t expires_s(int64_t expires_unix_ms)
{
    return (expires_unix_ms + 999) / 1000;
}

static void put(const struct hf_layout *layout, struct hf_arena *arena,
                const struct hf_claim *claim, const struct hf_condition *condition,
                struct hf_op *ret)
{
    int64_t until_s = expires_s(claim->expires_unix_ms);
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "LockID", hf__s(lock_id(arena, claim)));
    item = hf__item_set(arena, item, "Owner", hf__s(claim->owner));
    item = hf__item_set(arena, item, "AcquiredAt", hf__s(moment(arena, claim->now_unix_ms / 1000)));
    item = hf__item_set(arena, item, "ExpiresAt", hf__s(moment(arena, until_s)));
    item = hf__item_set(arena, item, "TTL", hf__n(arena, until_s));
    hf__keyed_put(layout, arena, claim->name, item, condition, ret);
}

static void acquire(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    (void)seen;
    /* P1: of two texts in UTC the smaller one is earlier. */
    struct hf_operand in_utc[2] = {
        hf__operand_path(hf__path(arena, HF_LIT("ExpiresAt"))),
        hf__operand_value(hf__s_str("Z")),
    };
    const struct hf_condition *expired = hf__cond_and(
        arena,
        hf__cond_compare(arena, "ExpiresAt", HF_LT,
                         hf__s(moment(arena, (claim->now_unix_ms - claim->skew_ms) / 1000))),
        hf__cond(arena, HF_CONTAINS, in_utc, 2));
    put(layout, arena, claim,
        claim->only_if_exists ? expired
                              : hf__cond_or(arena, hf__keyed_absent(layout, arena), expired),
        ret);
}

static void take(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    put(layout, arena, claim,
        hf__cond_and(arena, hf__keyed_same(arena, "LockID", seen->item),
                     hf__keyed_same(arena, "ExpiresAt", seen->item)),
        ret);
}

static const struct hf_condition *expires_at(struct hf_arena *arena, int64_t expires_unix_ms)
{
    struct hf_slice at = moment(arena, expires_s(expires_unix_ms));
    return hf__cond_compare(arena, "ExpiresAt", HF_EQ, hf__s(at));
}

/* Ours, with the expiry that was written last or, if a renewal is undecided, with its. */
static const struct hf_condition *mine(struct hf_arena *arena, const struct hf_claim *claim,
                                       int64_t expires_unix_ms)
{
    const struct hf_condition *expiry = expires_at(arena, expires_unix_ms);
    if (claim->pending)
        expiry = hf__cond_or(arena, expiry, expires_at(arena, claim->pending_unix_ms));
    return hf__cond_and(
        arena, hf__cond_compare(arena, "LockID", HF_EQ, hf__s(lock_id(arena, claim))),
        hf__cond_and(arena, hf__cond_compare(arena, "Owner", HF_EQ, hf__s(claim->owner)), expiry));
}

static void renew(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(arena, claim, claim->before_unix_ms), ret);
    int64_t until_s = expires_s(claim->expires_unix_ms);
    hf__update_set(arena, update, "ExpiresAt", hf__s(moment(arena, until_s)));
    hf__update_set(arena, update, "TTL", hf__n(arena, until_s));
}

static void release(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    hf__keyed_delete(layout, arena, claim->name, mine(arena, claim, claim->expires_unix_ms), ret);
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    char number[24];
    struct hf_slice id = record->holder.grant;
    int len = snprintf(number, sizeof number, "_%llu", grant_number(claim));
    if (!record->exclusive || id.len <= (size_t)len) return false;
    struct hf_slice owner = hf__slice(id.ptr, id.len - (size_t)len);
    return hf__slice_is(hf__slice_skip(id, owner.len), number) &&
           hf__slice_eq(owner, record->owner);
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    if (!holds(record, claim)) return false;
    claim->owner = record->owner;
    claim->since_unix_ms = record->since_unix_ms;
    claim->lease_ms = 0;
    claim->expires_unix_ms = record->liveness.expires_unix_ms / 1000 * 1000; /* as it was written */
    return true;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    return record->liveness.expires_unix_ms / 1000 == expires_s(claim->expires_unix_ms);
}

static void force(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret)
{
    (void)seen;
    hf__keyed_delete(layout, arena, how->name,
                     hf__cond_compare(arena, "LockID", HF_EQ, hf__s(how->grant)), ret);
}

const struct hf_format hf__format_single_table = {
    .name = "single-table",
    .default_key = "PK",
    .default_prefix = "LOCK#",
    .default_sort = "SK",
    .default_sort_value = "LOCK",
    .can = HF_CAN_EXPIRE | HF_CAN_RENEW | HF_CAN_FORCE | HF_CAN_SORT | HF_NEEDS_CLOCK,
    .ttl_name = "TTL",
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
    .refuses_name = hf__keyed_refuses_name,
    .own_names = own_names,
};
