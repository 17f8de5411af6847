/*
 * fail-open and fail-closed: the npm client dynamodb-lock-client's records.
 *
 *   <key> S, N or B · <sort key> S · owner S · guid B (64 bytes, new with every
 *   sign of life) · and for fail-open fencingToken N · leaseDurationMs N ·
 *   lockAcquiredTimeUnixMs N (where local time is trusted) · readers M (ours only)
 *
 * Invariants
 * U1  A guid is made from the id of its write and the grant. A program that knows the grant
 *     recognizes all guids of it, whichever program wrote them; a writer recognizes its own; nobody
 *     can derive the grant from a guid.
 * U2  A fail-open record stays after its release, with a lease of 1 ms and a guid that no grant has
 *     (so that no renewal revives it), and its token grows by one with each grant.
 * U3  Readers share a record that looks to all others like one ordinary lock: `readers` maps each
 *     one's grant to its last write, its owner and its lease, and every sign of life of any of them
 *     makes a new guid. leaseDurationMs is at least the longest of their leases, which do not grow,
 *     and lockAcquiredTimeUnixMs never goes back, however late a write arrives. A reader that dies
 *     stays in the map until all have gone.
 * U4  A fail-closed lock has no lease: it stays until it is released with its guid, or by an
 *     operator.
 */
#include "format/keyed.h"
#include "format/mutant.h"

enum { GUID_BYTES = 64, RELEASED_MS = 1 };

static const char *const own_names[] = {
    "owner", "guid", "fencingToken", "leaseDurationMs", "lockAcquiredTimeUnixMs", "readers", NULL};

/*
 * U1: the write's id, 128 bits that only id and grant together determine, and bits to fill the
 * guid.
 */
static void guid_bytes(const struct hf_id *grant, const struct hf_id *by,
                       unsigned char ret[GUID_BYTES])
{
    uint64_t words[GUID_BYTES / 8];
    uint64_t write = hf__id_fold(by, 0);
    memcpy(words, by->bytes, sizeof by->bytes);
    words[2] = hf__id_fold(grant, write);
    words[3] = hf__id_fold(grant, ~write);
    for (unsigned i = 4; i < GUID_BYTES / 8; i++) words[i] = hf__id_fold(by, i);
    memcpy(ret, words, GUID_BYTES);
}

static struct hf_value guid_of(struct hf_arena *arena, const struct hf_id *grant,
                               const struct hf_id *by)
{
    unsigned char *bytes = hf__arena_alloc(arena, GUID_BYTES);
    if (!bytes) return hf__b(HF_LIT("?"));
    guid_bytes(grant, by, bytes);
    return hf__b(hf__slice((const char *)bytes, GUID_BYTES));
}

/* One that no grant has (U2). */
static struct hf_value guid_of_nobody(struct hf_arena *arena, int64_t token)
{
    struct hf_id nobody = {{0}}, by = {{0}};
    memcpy(by.bytes, &token, sizeof token);
    return guid_of(arena, &nobody, &by);
}

static bool guid_is(struct hf_slice guid, const struct hf_id *grant, const struct hf_id *by)
{
    unsigned char bytes[GUID_BYTES];
    guid_bytes(grant, by, bytes);
    return hf__slice_eq(guid, hf__slice((const char *)bytes, GUID_BYTES));
}

/* The write that made this guid; false if the grant has no such guid. */
static bool guid_parse(struct hf_slice guid, const struct hf_id *grant, struct hf_id *ret_by)
{
    if (guid.len != GUID_BYTES) return false;
    memcpy(ret_by->bytes, guid.ptr, sizeof ret_by->bytes);
    return guid_is(guid, grant, ret_by);
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
    /* A heartbeat keeps the token; each reader that joins makes a new one. */
    ret->identity = hf__arena_printf(arena, "%lld", (long long)ret->token);
    ret->liveness.lease_ms = lease_ms;
    if (layout->trust_clock && hf__item_int(item, "lockAcquiredTimeUnixMs", 1, &acquired_ms) &&
        acquired_ms < INT64_MAX / 4000)
        ret->liveness.expires_unix_ms = acquired_ms + lease_ms;
}

static void parse_closed(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                         struct hf_item item, struct hf_record *ret)
{
    (void)layout, (void)arena;
    if (!parse_common(has_item, item, ret)) return;
    ret->exclusive = true;
    ret->identity = ret->holder.grant;
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

/* The entry of one reader in `readers`. */
static struct hf_value reader_value(struct hf_arena *arena, const struct hf_claim *claim)
{
    struct hf_value reader = {.type = HF_M};
    struct hf_slice by = hf__id_text(arena, &claim->by);
    reader.map = hf__item_set(arena, reader.map, "by", hf__s(by));
    reader.map = hf__item_set(arena, reader.map, "lease", hf__n(arena, claim->lease_ms));
    reader.map = hf__item_set(arena, reader.map, "owner", hf__s(claim->owner));
    return reader;
}

static struct hf_value only_reader(struct hf_arena *arena, const struct hf_claim *claim)
{
    struct hf_value reader = reader_value(arena, claim);
    struct hf_value readers = {.type = HF_M};
    readers.map = hf__item_with(arena, readers.map, hf__id_text(arena, &claim->grant), &reader);
    return readers;
}

static void put_open(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, int64_t token,
                     const struct hf_condition *condition, struct hf_op *ret)
{
    struct hf_item item = claim->extra;
    item = hf__item_set(arena, item, "owner", hf__s(claim->owner));
    item = hf__item_set(arena, item, "guid", guid_of(arena, &claim->grant, &claim->by));
    item = hf__item_set(arena, item, "fencingToken", hf__n(arena, token));
    item = hf__item_set(arena, item, "leaseDurationMs", hf__n(arena, claim->lease_ms));
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

static const struct hf_condition *written_by(struct hf_arena *arena, const struct hf_claim *claim,
                                             const struct hf_id *by)
{
    struct hf_path path = hf__path_below(arena, reader_path(arena, claim), HF_LIT("by"));
    struct hf_operand operands[2] = {
        hf__operand_path(path),
        hf__operand_value(hf__s(hf__id_text(arena, by))),
    };
    return hf__cond(arena, HF_EQ, operands, 2);
}

/*
 * The reader has an entry, as this write left it or, if a renewal is undecided, as that one does.
 */
static const struct hf_condition *reader_is(struct hf_arena *arena, const struct hf_claim *claim,
                                            const struct hf_id *by)
{
    const struct hf_condition *written = written_by(arena, claim, by);
    if (!claim->pending) return written;
    return hf__cond_or(arena, written, written_by(arena, claim, &claim->pending_by));
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

/* A renewal by one of several readers. */
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
                                      .left = hf__term_value(arena, reader_value(arena, claim))});
    if (!HF_BUG(READER_KEEPS_GUID))
        hf__update_set(arena, update, "guid", guid_of(arena, &claim->grant, &claim->by));
    if (token) hf__update_set(arena, update, "fencingToken", hf__n(arena, token));
    if (token) hf__update_set(arena, update, "owner", hf__s(claim->owner));
    if (lease_ms) hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, lease_ms));
    if (has_time) hf__update_set(arena, update, "lockAcquiredTimeUnixMs", acquired(arena, claim));
}

/* Joins the present readers. Each join makes a new token, so two cannot succeed at once. */
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

/* The last reader to leave says so; one that was the last without knowing it retires the lock. */
static void leave(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition = reader_is(arena, claim, &claim->by);
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

/* The record's entry of a reader; false if it has none. */
static bool reader_parse(const struct hf_record *record, const struct hf_id *grant,
                         struct hf_claim *ret)
{
    const struct hf_value *readers = hf__item_get_str(record->item, "readers");
    if (!record->readers || !readers) return false;
    for (size_t i = 0; i < readers->map.count; i++) {
        const struct hf_attr *reader = &readers->map.attrs[i];
        if (!hf__id_is(grant, reader->name)) continue;
        struct hf_slice by;
        return reader->value.type == HF_M && hf__item_text(reader->value.map, "by", &by) &&
               hf__id_parse(by, &ret->by) &&
               hf__item_text(reader->value.map, "owner", &ret->owner) &&
               hf__item_int(reader->value.map, "lease", 1, &ret->lease_ms);
    }
    return false;
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
    put_open(layout, arena, claim, next_token(layout, seen), condition, ret);
}

static void take_open(const struct hf_layout *layout, struct hf_arena *arena,
                      const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    put_open(layout, arena, claim, next_token(layout, seen), as_seen(arena, seen->item), ret);
}

static const struct hf_condition *has_guid(struct hf_arena *arena, const struct hf_claim *claim,
                                           const struct hf_id *by)
{
    return hf__cond_compare(arena, "guid", HF_EQ, guid_of(arena, &claim->grant, by));
}

/* Ours, as this write made it or, if a renewal is undecided, as that one makes it. */
static const struct hf_condition *mine(const struct hf_layout *layout, struct hf_arena *arena,
                                       const struct hf_claim *claim, const struct hf_id *by)
{
    const struct hf_condition *guid = has_guid(arena, claim, by);
    if (claim->pending) guid = hf__cond_or(arena, guid, has_guid(arena, claim, &claim->pending_by));
    return hf__cond_and(arena, hf__keyed_exists(layout, arena), guid);
}

static void renew_open(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_claim *claim, struct hf_op *ret)
{
    if (claim->limit > 0) {
        show_reader(layout, arena, claim, reader_is(arena, claim, &claim->before_by), 0, 0, ret);
        return;
    }
    /* An update, so that attributes written by others stay. */
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(layout, arena, claim, &claim->before_by), ret);
    hf__update_set(arena, update, "guid", guid_of(arena, &claim->grant, &claim->by));
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
    struct hf_update *update =
        hf__keyed_update(layout, arena, claim->name, mine(layout, arena, claim, &claim->by), ret);
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
    if (!HF_BUG(RENEW_RELEASED))
        hf__update_set(arena, update, "guid", guid_of_nobody(arena, claim->token));
}

static bool adopt_reader(const struct hf_record *record, struct hf_claim *claim)
{
    struct hf_claim reader;
    if (!reader_parse(record, &claim->grant, &reader)) return false;
    claim->by = reader.by;
    claim->owner = reader.owner;
    claim->lease_ms = reader.lease_ms;
    claim->last = record->readers == 1;
    claim->token = record->token;
    /* The latest sign of life of all readers, plus this reader's lease. */
    const struct hf_liveness *all = &record->liveness;
    claim->expires_unix_ms =
        all->expires_unix_ms ? all->expires_unix_ms - all->lease_ms + claim->lease_ms : 0;
    return true;
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    struct hf_id by;
    if (claim->limit > 0) return adopt_reader(record, claim);
    if (!record->exclusive || record->readers ||
        !guid_parse(record->holder.grant, &claim->grant, &by))
        return false;
    claim->by = by;
    claim->owner = record->owner;
    claim->token = record->token;
    claim->lease_ms = record->liveness.lease_ms;
    claim->expires_unix_ms = record->liveness.expires_unix_ms;
    return true;
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    struct hf_claim seen = {.grant = claim->grant, .limit = claim->limit};
    return adopt(record, &seen);
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    struct hf_claim seen = {.grant = claim->grant, .limit = claim->limit};
    return adopt(record, &seen) && hf__id_eq(&seen.by, &claim->by);
}

static void force_open(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_record *seen, const struct hf_forcing *how,
                       struct hf_op *ret)
{
    /* By its token, which heartbeats keep. Its guid must not renew it any more. */
    struct hf_update *update = hf__keyed_update(
        layout, arena, how->name, hf__keyed_same(arena, "fencingToken", seen->item), ret);
    hf__update_set(arena, update, "leaseDurationMs", hf__n(arena, RELEASED_MS));
    hf__update_set(arena, update, "guid", guid_of_nobody(arena, seen->token));
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
    item = hf__item_set(arena, item, "guid", guid_of(arena, &claim->grant, &claim->by));
    hf__keyed_put(layout, arena, claim->name, item, hf__keyed_absent(layout, arena), ret);
}

static void release_closed(const struct hf_layout *layout, struct hf_arena *arena,
                           const struct hf_claim *claim, struct hf_op *ret)
{
    hf__keyed_delete(layout, arena, claim->name, has_guid(arena, claim, &claim->by), ret);
}

static void force_closed(const struct hf_layout *layout, struct hf_arena *arena,
                         const struct hf_record *seen, const struct hf_forcing *how,
                         struct hf_op *ret)
{
    (void)seen;
    hf__keyed_delete(layout, arena, how->name,
                     hf__cond_compare(arena, "guid", HF_EQ, hf__b(how->grant)), ret);
}

static const struct hf_share_format shares = {.retire = retire};

const struct hf_format hf__format_fail_open = {
    .name = "fail-open",
    .default_key = "key",
    .can = HF_CAN_TOKEN | HF_CAN_EXPIRE | HF_CAN_OBSERVE | HF_CAN_RENEW | HF_CAN_FORCE |
           HF_CAN_SORT | HF_CAN_KEY_TYPES | HF_CAN_SHARE | HF_NAMES_WRITES,
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
