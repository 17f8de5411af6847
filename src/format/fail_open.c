/*
 * fail-open and fail-closed: the npm client dynamodb-lock-client's records.
 *
 *   <key> S, N or B · <sort key> S · owner S · guid B (64 bytes, new with every
 *   sign of life) · and for fail-open fencingToken N · leaseDurationMs N ·
 *   lockAcquiredTimeUnixMs N (where local time is trusted) · readers M (ours only)
 *
 * Invariants
 * U1  A guid is derived from the grant and its version, so a write that landed
 *     unheard is recognized.
 * U2  A fail-open record stays after its release, with a lease of 1 ms, and its
 *     token grows by one with each grant.
 * U3  Readers share a record that looks to all others like one ordinary lock: `readers` maps each
 *     one's grant to its version, and every sign of life of any of them makes a new guid.
 *     leaseDurationMs is at least the longest of their leases, and lockAcquiredTimeUnixMs never
 *     goes back, however late a write arrives. Who dies stays in the map until all have gone.
 * U4  A fail-closed lock has no lease: it stays until its guid releases it, or a
 *     person does.
 */
#include "format/keyed.h"
#include "format/mutant.h"

enum { GUID_BYTES = 64, RELEASED_MS = 1 };

static const char *const own_names[] = {
    "owner", "guid", "fencingToken", "leaseDurationMs", "lockAcquiredTimeUnixMs", "readers", NULL};

static void guid_bytes(const struct hf_id *grant, int64_t version, unsigned char ret[GUID_BYTES])
{
    for (unsigned i = 0; i < GUID_BYTES / 16; i++) hf__derive(grant, version, i, ret + i * 16);
}

static struct hf_value guid_of(struct hf_arena *arena, const struct hf_id *grant, int64_t version)
{
    unsigned char *bytes = hf__arena_alloc(arena, GUID_BYTES);
    if (!bytes) return hf__b(HF_LIT("?"));
    guid_bytes(grant, version, bytes);
    return hf__b(hf__slice((const char *)bytes, GUID_BYTES));
}

static bool parse_common(bool has_item, struct hf_item item, struct hf_record *ret)
{
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return false;
    ret->item = item;
    hf__item_text(item, "owner", &ret->owner);
    struct hf_slice guid;
    if (!hf__item_bytes(item, "guid", &guid) || guid.len == 0 || guid.len > GUID_BYTES) {
        hf__record_damage(ret, "guid");
        return false;
    }
    ret->holder.grant = ret->liveness.id = ret->liveness.version = guid;
    return true;
}

static void parse_open(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                       struct hf_item item, struct hf_record *ret)
{
    (void)arena;
    int64_t lease_ms, acquired_ms;
    if (!parse_common(has_item, item, ret)) return;
    if (!hf__item_int(item, "leaseDurationMs", 0, &lease_ms) || lease_ms > HF_LEASE_MAX_MS)
        hf__record_damage(ret, "leaseDurationMs");
    else if (!hf__item_int(item, "fencingToken", 0, &ret->token))
        hf__record_damage(ret, "fencingToken");
    if (ret->damaged) return;
    const struct hf_value *readers = hf__item_get_str(item, "readers");
    bool shared = readers && readers->type == HF_M;
    ret->retired = lease_ms <= RELEASED_MS; /* U2 */
    if (ret->retired || (shared && readers->map.count == 0)) return;
    ret->exclusive = true;
    ret->readers = shared ? (int64_t)readers->map.count : 0;
    ret->liveness.lease_ms = lease_ms;
    if (layout->trust_clock && hf__item_int(item, "lockAcquiredTimeUnixMs", 1, &acquired_ms) &&
        acquired_ms < INT64_MAX / 4000)
        ret->liveness.expires_unix_ms = acquired_ms + lease_ms;
}

static void parse_closed(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                         struct hf_item item, struct hf_record *ret)
{
    (void)layout, (void)arena;
    if (parse_common(has_item, item, ret)) ret->exclusive = true;
}

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

static int64_t next_token(const struct hf_layout *layout, const struct hf_record *seen)
{
    (void)layout;
    return seen && seen->exists ? seen->token + 1 : 1;
}

/* ---- fail-open ---- */

static struct hf_value acquired(struct hf_arena *arena, const struct hf_claim *claim)
{
    return hf__n(arena, claim->expires_unix_ms - claim->lease_ms);
}

static struct hf_value only_reader(struct hf_arena *arena, const struct hf_claim *claim)
{
    struct hf_value version = hf__n(arena, 1);
    struct hf_slice grant = hf__id_text(arena, &claim->grant);
    struct hf_value readers = {.type = HF_M};
    readers.map = hf__item_with(arena, readers.map, grant, &version);
    return readers;
}

static void put_open(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, int64_t version, int64_t token, int64_t lease_ms,
                     const struct hf_condition *condition, struct hf_op *ret)
{
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "owner", hf__s(claim->owner));
    item = hf__item_set(arena, item, "guid", guid_of(arena, &claim->grant, version));
    item = hf__item_set(arena, item, "fencingToken", hf__n(arena, token));
    item = hf__item_set(arena, item, "leaseDurationMs", hf__n(arena, lease_ms));
    if (layout->trust_clock && claim->expires_unix_ms)
        item = hf__item_set(arena, item, "lockAcquiredTimeUnixMs", acquired(arena, claim));
    if (claim->limit > 0) item = hf__item_set(arena, item, "readers", only_reader(arena, claim));
    hf__keyed_put(layout, arena, claim->name, item, condition, ret);
}

static const struct hf_condition *as_seen(struct hf_arena *arena, struct hf_item seen)
{
    return hf__cond_and(arena, hf__keyed_same(arena, "guid", seen),
                        hf__keyed_same(arena, "fencingToken", seen));
}

/* ---- readers (U3) ---- */

static struct hf_path reader_path(struct hf_arena *arena, const struct hf_claim *claim)
{
    return hf__path_in(arena, "readers", hf__id_text(arena, &claim->grant));
}

/* A reader is inside; with a version, as it was when it had that one. */
static const struct hf_condition *reader_is(struct hf_arena *arena, const struct hf_claim *claim,
                                            int64_t version)
{
    struct hf_operand operands[2] = {
        hf__operand_path(reader_path(arena, claim)),
        hf__operand_value(hf__n(arena, version)),
    };
    return version ? hf__cond(arena, HF_EQ, operands, 2) : hf__cond(arena, HF_EXISTS, operands, 1);
}

static const struct hf_condition *readers_count(struct hf_arena *arena, int64_t count)
{
    struct hf_operand operands[2] = {
        hf__operand_path(hf__path(arena, HF_LIT("readers"))),
        hf__operand_value(hf__n(arena, count)),
    };
    operands[0].is_size = true;
    return hf__cond(arena, HF_EQ, operands, 2);
}

/* A sign of life of one of many. */
static void show_reader(const struct hf_layout *layout, struct hf_arena *arena,
                        const struct hf_claim *claim, const struct hf_condition *condition,
                        int64_t token, int64_t lease_ms, struct hf_op *ret)
{
    bool has_time = layout->trust_clock && claim->expires_unix_ms;
    if (has_time && !HF_BUG(READER_BACKDATES))
        condition =
            hf__cond_and(arena, condition,
                         hf__cond_or(arena, hf__cond_absent(arena, "lockAcquiredTimeUnixMs"),
                                     hf__cond_compare(arena, "lockAcquiredTimeUnixMs", HF_LE,
                                                      acquired(arena, claim))));
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    hf__update_add(arena, update,
                   (struct hf_action){.kind = HF_SET,
                                      .path = reader_path(arena, claim),
                                      .left = hf__term_value(arena, hf__n(arena, claim->version))});
    if (!HF_BUG(READER_KEEPS_GUID))
        hf__update_set(arena, update, "guid", guid_of(arena, &claim->grant, claim->version));
    if (token) hf__update_set(arena, update, "fencingToken", hf__n(arena, token));
    if (token) hf__update_set(arena, update, "owner", hf__s(claim->owner));
    if (lease_ms) hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, lease_ms));
    if (has_time) hf__update_set(arena, update, "lockAcquiredTimeUnixMs", acquired(arena, claim));
}

/* Comes in beside those who are inside. Each who does makes a new token: two cannot at once. */
static void join(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    int64_t longest_ms = seen->liveness.lease_ms;
    if (claim->lease_ms > longest_ms || HF_BUG(JOIN_SHORTENS)) longest_ms = claim->lease_ms;
    const struct hf_condition *condition =
        hf__cond_and(arena, hf__cond_exists(arena, "readers"),
                     hf__keyed_same(arena, "fencingToken", seen->item));
    show_reader(layout, arena, claim, condition, next_token(layout, seen), longest_ms, ret);
}

/* The last one out says so; who was the last without knowing it retires the lock. */
static void leave(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition = reader_is(arena, claim, 0);
    if (claim->last) condition = hf__cond_and(arena, condition, readers_count(arena, 1));
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    if (claim->last) {
        hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
        hf__update_remove(arena, update, "readers");
    } else {
        hf__update_add(arena, update,
                       (struct hf_action){.kind = HF_REMOVE, .path = reader_path(arena, claim)});
    }
}

static void retire(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   int64_t ttl_unix_s, struct hf_op *ret)
{
    (void)ttl_unix_s;
    struct hf_update *update = hf__keyed_update(layout, arena, name, readers_count(arena, 0), ret);
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
    hf__update_remove(arena, update, "readers");
}

static int64_t reader_version(const struct hf_record *record, const struct hf_claim *claim)
{
    int64_t version = 0;
    const struct hf_value *readers = hf__item_get_str(record->item, "readers");
    if (!record->readers || !readers) return 0;
    for (size_t i = 0; i < readers->map.count; i++) {
        const struct hf_attr *reader = &readers->map.attrs[i];
        if (!hf__id_is(&claim->grant, reader->name)) continue;
        if (reader->value.type != HF_N || !hf__number_to_int64(reader->value.number, &version))
            return 0;
    }
    return version;
}

/* ---- alone ---- */

static void acquire_open(const struct hf_layout *layout, struct hf_arena *arena,
                         const struct hf_claim *claim, const struct hf_record *seen,
                         struct hf_op *ret)
{
    const struct hf_condition *condition = hf__keyed_absent(layout, arena);
    if (claim->limit > 0 && seen && seen->readers > 0) {
        join(layout, arena, claim, seen, ret);
        return;
    }
    if (seen && seen->exists) condition = as_seen(arena, seen->item);
    else if (claim->only_if_exists)
        condition = hf__cond_and(arena, condition, hf__keyed_exists(layout, arena));
    put_open(layout, arena, claim, 1, next_token(layout, seen), claim->lease_ms, condition, ret);
}

static void take_open(const struct hf_layout *layout, struct hf_arena *arena,
                      const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    put_open(layout, arena, claim, 1, next_token(layout, seen), claim->lease_ms,
             as_seen(arena, seen->item), ret);
}

static const struct hf_condition *guid_is(struct hf_arena *arena, const struct hf_claim *claim,
                                          int64_t version)
{
    return hf__cond_compare(arena, "guid", HF_EQ, guid_of(arena, &claim->grant, version));
}

/* Ours, at this version or, if a renewal is undecided, at the next. */
static const struct hf_condition *mine(const struct hf_layout *layout, struct hf_arena *arena,
                                       const struct hf_claim *claim, int64_t version)
{
    const struct hf_condition *guid = guid_is(arena, claim, version);
    if (claim->pending) guid = hf__cond_or(arena, guid, guid_is(arena, claim, version + 1));
    return hf__cond_and(arena, hf__keyed_exists(layout, arena), guid);
}

static void renew_open(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_claim *claim, struct hf_op *ret)
{
    if (claim->limit > 0) {
        show_reader(layout, arena, claim, reader_is(arena, claim, claim->version - 1), 0, 0, ret);
        return;
    }
    /* An update, so that what others wrote beside it stays. */
    struct hf_update *update = hf__keyed_update(
        layout, arena, claim->name, mine(layout, arena, claim, claim->version - 1), ret);
    hf__update_set(arena, update, "guid", guid_of(arena, &claim->grant, claim->version));
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, claim->lease_ms));
    if (layout->trust_clock && claim->expires_unix_ms)
        hf__update_set(arena, update, "lockAcquiredTimeUnixMs", acquired(arena, claim));
}

static void release_open(const struct hf_layout *layout, struct hf_arena *arena,
                         const struct hf_claim *claim, struct hf_op *ret)
{
    if (claim->limit > 0) {
        leave(layout, arena, claim, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(layout, arena, claim, claim->version), ret);
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
}

static bool is_version(const struct hf_record *record, const struct hf_claim *claim,
                       int64_t version)
{
    unsigned char bytes[GUID_BYTES];
    guid_bytes(&claim->grant, version, bytes);
    return record->exclusive &&
           hf__slice_eq(record->holder.grant, hf__slice((const char *)bytes, GUID_BYTES));
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    if (claim->limit > 0) return reader_version(record, claim) > 0;
    return is_version(record, claim, claim->version) ||
           is_version(record, claim, claim->version + 1);
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    if (claim->limit > 0) {
        claim->last = record->readers == 1;
        claim->version = reader_version(record, claim);
        return claim->version > 0;
    }
    for (claim->version = 1; claim->version <= HF_VERSIONS_SOUGHT; claim->version++) {
        if (is_version(record, claim, claim->version)) return true;
    }
    return false;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    if (claim->limit > 0) return reader_version(record, claim) >= claim->version;
    return is_version(record, claim, claim->version);
}

static void force_open(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_record *seen, struct hf_slice name, struct hf_slice grant,
                       struct hf_slice by, struct hf_slice reason, int64_t ttl_unix_s,
                       bool note_only, struct hf_op *ret)
{
    (void)by, (void)reason, (void)ttl_unix_s, (void)note_only, (void)grant;
    /* The guid of the dead one must not renew it: it gets one that nobody has. */
    struct hf_update *update =
        hf__keyed_update(layout, arena, name, as_seen(arena, seen->item), ret);
    struct hf_id nobody = {{0}};
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
    hf__update_set(arena, update, "guid", guid_of(arena, &nobody, seen->token));
    hf__update_count(arena, update, "fencingToken", 0, 1);
    hf__update_remove(arena, update, "readers");
}

/* ---- fail-closed ---- */

static void acquire_closed(const struct hf_layout *layout, struct hf_arena *arena,
                           const struct hf_claim *claim, const struct hf_record *seen,
                           struct hf_op *ret)
{
    (void)seen;
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "owner", hf__s(claim->owner));
    item = hf__item_set(arena, item, "guid", guid_of(arena, &claim->grant, 1));
    hf__keyed_put(layout, arena, claim->name, item, hf__keyed_absent(layout, arena), ret);
}

static void release_closed(const struct hf_layout *layout, struct hf_arena *arena,
                           const struct hf_claim *claim, struct hf_op *ret)
{
    hf__keyed_delete(layout, arena, claim->name, guid_is(arena, claim, 1), ret);
}

static void force_closed(const struct hf_layout *layout, struct hf_arena *arena,
                         const struct hf_record *seen, struct hf_slice name, struct hf_slice grant,
                         struct hf_slice by, struct hf_slice reason, int64_t ttl_unix_s,
                         bool note_only, struct hf_op *ret)
{
    (void)by, (void)reason, (void)ttl_unix_s, (void)note_only, (void)seen;
    hf__keyed_delete(layout, arena, name, hf__cond_compare(arena, "guid", HF_EQ, hf__b(grant)),
                     ret);
}

static const struct hf_share_format shares = {.retire = retire};

const struct hf_format hf__format_fail_open = {
    .name = "fail-open",
    .default_key = "key",
    .can = HF_CAN_TOKEN | HF_CAN_EXPIRE | HF_CAN_OBSERVE | HF_CAN_RENEW | HF_CAN_FORCE |
           HF_CAN_SORT | HF_CAN_KEY_TYPES | HF_CAN_SHARE,
    .shares = &shares,
    .read = read_lock,
    .parse = parse_open,
    .acquire = acquire_open,
    .next_token = next_token,
    .take = take_open,
    .renew = renew_open,
    .release = release_open,
    .holds = holds,
    .at_version = at_version,
    .adopt = adopt,
    .force = force_open,
    .name_of = hf__keyed_name_of,
    .refuses_name = hf__keyed_refuses_name,
    .own_names = own_names,
};

const struct hf_format hf__format_fail_closed = {
    .name = "fail-closed",
    .default_key = "key",
    .can = HF_CAN_FORCE | HF_CAN_SORT | HF_CAN_KEY_TYPES,
    .read = read_lock,
    .parse = parse_closed,
    .acquire = acquire_closed,
    .release = release_closed,
    .holds = holds,
    .at_version = at_version,
    .adopt = adopt,
    .force = force_closed,
    .name_of = hf__keyed_name_of,
    .refuses_name = hf__keyed_refuses_name,
    .own_names = own_names,
};
