/*
 * awslabs and dynamolock: the Amazon DynamoDB Lock Client's records, and those of
 * its port to Go, which differ in how a lease is spelt.
 *
 *   <key> S · <sort key> S · ownerName S · leaseDuration S ·
 *   recordVersionNumber S (new with every sign of life) · isReleased S "1"
 *   (released and kept) · data B
 *
 * Invariants
 * W1  A record version is made from the grant and the id of its write. A program that knows the
 *     grant recognizes all versions of it, whichever program wrote them; a writer recognizes its
 *     own; nobody can derive the grant from a version.
 * W2  Both spellings of a lease are read; each format writes its own.
 * W3  A released record keeps its version, so every write of a holder also
 *     depends on its not being released.
 */
#include "base/random.h"
#include "format/duration.h"
#include "format/keyed.h"
#include "format/mutant.h"

static const char *const own_names[] = {"ownerName",  "leaseDuration", "recordVersionNumber",
                                        "isReleased", "data",          NULL};

/*
 * W1: 32 bits that all versions of the grant share, 48 of the write's id, and 42 that only grant
 * and id together determine. (Six bits of a random UUID are not random.)
 */
enum { SHARED_BYTES = 4, SHARED_TEXT = 2 * SHARED_BYTES };
static const unsigned char write_at[] = {4, 5, 7, 9, 10, 11};
static const unsigned char proof_at[] = {6, 8, 12, 13, 14, 15};
enum { WRITE_BYTES = sizeof write_at };

static void version_print(const struct hf_id *grant, const struct hf_id *by, char ret[HF_UUID_SIZE])
{
    unsigned char bytes[16];
    uint64_t write = 0, shared = hf__id_fold(grant, 0);
    for (size_t i = 0; i < SHARED_BYTES; i++) bytes[i] = (unsigned char)(shared >> 8 * i);
    for (size_t i = 0; i < WRITE_BYTES; i++) {
        bytes[write_at[i]] = by->bytes[i];
        write = write << 8 | by->bytes[i];
    }
    uint64_t proof = hf__id_fold(grant, write + 1);
    for (size_t i = 0; i < sizeof proof_at; i++)
        bytes[proof_at[i]] = (unsigned char)(proof >> 8 * i);
    hf__uuid4_from(bytes, ret);
}

/* The write that made this version; false if the grant has no such version. */
static bool version_parse(struct hf_slice text, const struct hf_id *grant, struct hf_id *ret_by)
{
    char hex[HF_UUID_SIZE], whole[HF_UUID_SIZE];
    size_t len = 0;
    if (text.len != HF_UUID_SIZE - 1) return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '-') hex[len++] = text.ptr[i];
    }
    struct hf_id bytes, by = {{0}};
    if (!hf__id_parse(hf__slice(hex, len), &bytes)) return false;
    for (size_t i = 0; i < WRITE_BYTES; i++) by.bytes[i] = bytes.bytes[write_at[i]];
    version_print(grant, &by, whole);
    if (!hf__slice_is(text, whole)) return false;
    *ret_by = by;
    return true;
}

static struct hf_slice version_text(struct hf_arena *arena, const struct hf_id *grant,
                                    const struct hf_id *by)
{
    char *text = hf__arena_alloc(arena, HF_UUID_SIZE);
    if (!text) return HF_LIT("");
    version_print(grant, by, text);
    return hf__slice(text, HF_UUID_SIZE - 1);
}

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret)
{
    (void)layout, (void)arena;
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return;
    ret->item = item;
    struct hf_slice released, lease, version;
    hf__item_text(item, "ownerName", &ret->owner);
    ret->has_data = hf__item_bytes(item, "data", &ret->data);
    const struct hf_value *mark = hf__item_get_str(item, "isReleased");
    if (mark) {
        if (!hf__item_text(item, "isReleased", &released) || !hf__slice_is(released, "1"))
            hf__record_damage(ret, "isReleased");
        return;
    }
    if (!hf__item_text(item, "recordVersionNumber", &version) || version.len == 0 ||
        version.len > 64)
        hf__record_damage(ret, "recordVersionNumber");
    else if (!hf__item_text(item, "leaseDuration", &lease) ||
             !hf__duration_parse(lease, &ret->liveness.lease_ms))
        hf__record_damage(ret, "leaseDuration");
    if (ret->damaged) return;
    ret->exclusive = true;
    ret->holder.grant = ret->liveness.id = ret->liveness.version = version;
    if (version.len >= SHARED_TEXT) ret->identity = hf__slice(version.ptr, SHARED_TEXT);
}

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

/* ---- writing; `spell` is what the two formats differ in ---- */

typedef struct hf_slice (*spell_fn)(struct hf_arena *arena, int64_t ms);

static void write_record(const struct hf_layout *layout, struct hf_arena *arena,
                         const struct hf_claim *claim, const struct hf_condition *condition,
                         spell_fn spell, struct hf_op *ret)
{
    struct hf_value owner = hf__s(claim->owner);
    struct hf_value lease = hf__s(spell(arena, claim->lease_ms));
    struct hf_value version = hf__s(version_text(arena, &claim->grant, &claim->by));
    if (!claim->keep_data) { /* a put replaces the whole item */
        struct hf_item item = claim->extra;
        item = hf__item_set(arena, item, "ownerName", owner);
        item = hf__item_set(arena, item, "leaseDuration", lease);
        item = hf__item_set(arena, item, "recordVersionNumber", version);
        if (claim->has_data) item = hf__item_set(arena, item, "data", hf__b(claim->data));
        hf__keyed_put(layout, arena, claim->name, item, condition, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    hf__update_set(arena, update, "ownerName", owner);
    hf__update_set(arena, update, "leaseDuration", lease);
    hf__update_set(arena, update, "recordVersionNumber", version);
    hf__update_remove(arena, update, "isReleased");
    for (size_t i = 0; i < claim->extra.count; i++) {
        hf__update_add(
            arena, update,
            (struct hf_action){.kind = HF_SET,
                               .path = hf__path(arena, claim->extra.attrs[i].name),
                               .left = hf__term_value(arena, claim->extra.attrs[i].value)});
    }
    if (claim->has_data) {
        struct hf_term *stored = hf__arena_zalloc(arena, 1, sizeof *stored);
        if (!stored) return;
        stored->kind = HF_TERM_IF_NOT_EXISTS;
        stored->path = hf__path(arena, HF_LIT("data"));
        stored->first = hf__term_value(arena, hf__b(claim->data));
        hf__update_add(arena, update,
                       (struct hf_action){.kind = HF_SET,
                                          .path = hf__path(arena, HF_LIT("data")),
                                          .left = stored});
    }
}

static void acquire_as(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_claim *claim, spell_fn spell, struct hf_op *ret)
{
    const struct hf_condition *released =
        hf__cond_compare(arena, "isReleased", HF_EQ, hf__s_str("1"));
    const struct hf_condition *condition =
        claim->only_if_exists ? hf__cond_and(arena, hf__keyed_exists(layout, arena), released)
                              : hf__cond_or(arena, hf__keyed_absent(layout, arena), released);
    write_record(layout, arena, claim, condition, spell, ret);
}

static const struct hf_condition *version_is(struct hf_arena *arena, struct hf_slice version)
{
    return hf__cond_compare(arena, "recordVersionNumber", HF_EQ, hf__s(version));
}

static void take_as(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, spell_fn spell,
                    struct hf_op *ret)
{
    const struct hf_condition *condition =
        hf__cond_and(arena, hf__keyed_exists(layout, arena), version_is(arena, seen->holder.grant));
    write_record(layout, arena, claim, condition, spell, ret);
}

/* Ours (W3), as this write made it or, if a renewal is undecided, as that one makes it. */
static const struct hf_condition *mine(const struct hf_layout *layout, struct hf_arena *arena,
                                       const struct hf_claim *claim, const struct hf_id *by)
{
    const struct hf_condition *versions = version_is(arena, version_text(arena, &claim->grant, by));
    if (claim->pending)
        versions =
            hf__cond_or(arena, versions,
                        version_is(arena, version_text(arena, &claim->grant, &claim->pending_by)));
    const struct hf_condition *held = hf__cond_and(
        arena, versions, hf__cond_compare(arena, "ownerName", HF_EQ, hf__s(claim->owner)));
    if (!HF_BUG(RENEW_RELEASED))
        held = hf__cond_and(arena, held, hf__cond_absent(arena, "isReleased"));
    return hf__cond_and(arena, hf__keyed_exists(layout, arena), held);
}

static void renew_as(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, spell_fn spell, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name,
                                                mine(layout, arena, claim, &claim->before_by), ret);
    hf__update_set(arena, update, "leaseDuration", hf__s(spell(arena, claim->lease_ms)));
    hf__update_set(arena, update, "recordVersionNumber",
                   hf__s(version_text(arena, &claim->grant, &claim->by)));
}

static void release(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition = mine(layout, arena, claim, &claim->by);
    if (!layout->keep_on_release) {
        hf__keyed_delete(layout, arena, claim->name, condition, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    hf__update_set(arena, update, "isReleased", hf__s_str("1"));
    if (claim->has_data) hf__update_set(arena, update, "data", hf__b(claim->data));
}

static void set_data(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, struct hf_op *ret)
{
    struct hf_update *update =
        hf__keyed_update(layout, arena, claim->name, mine(layout, arena, claim, &claim->by), ret);
    if (claim->has_data) hf__update_set(arena, update, "data", hf__b(claim->data));
    else hf__update_remove(arena, update, "data");
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    struct hf_id by;
    return record->exclusive && version_parse(record->holder.grant, &claim->grant, &by);
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    struct hf_id by;
    if (!record->exclusive || !version_parse(record->holder.grant, &claim->grant, &by))
        return false;
    claim->by = by;
    claim->owner = record->owner;
    claim->lease_ms = record->liveness.lease_ms;
    return true;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    char text[HF_UUID_SIZE];
    version_print(&claim->grant, &claim->by, text);
    return record->exclusive && hf__slice_is(record->holder.grant, text);
}

static void force(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret)
{
    (void)seen;
    hf__keyed_delete(layout, arena, how->name, version_is(arena, how->grant), ret);
}

/* ---- the two ---- */

#define SPELT(format, spell)                                                                       \
    static void format##_acquire(const struct hf_layout *layout, struct hf_arena *arena,           \
                                 const struct hf_claim *claim, const struct hf_record *seen,       \
                                 struct hf_op *ret)                                                \
    {                                                                                              \
        (void)seen;                                                                                \
        acquire_as(layout, arena, claim, spell, ret);                                              \
    }                                                                                              \
    static void format##_take(const struct hf_layout *layout, struct hf_arena *arena,              \
                              const struct hf_claim *claim, const struct hf_record *seen,          \
                              struct hf_op *ret)                                                   \
    {                                                                                              \
        take_as(layout, arena, claim, seen, spell, ret);                                           \
    }                                                                                              \
    static void format##_renew(const struct hf_layout *layout, struct hf_arena *arena,             \
                               const struct hf_claim *claim, struct hf_op *ret)                    \
    {                                                                                              \
        renew_as(layout, arena, claim, spell, ret);                                                \
    }

SPELT(awslabs, hf__duration_print_ms)
SPELT(dynamolock, hf__duration_print_go)

#define FORMAT(format, more)                                                                       \
    {                                                                                              \
        .name = #format, .default_key = "key",                                                     \
        .can = HF_CAN_DATA | HF_CAN_OBSERVE | HF_CAN_RENEW | HF_CAN_FORCE | HF_CAN_SORT |          \
               HF_NAMES_WRITES | HF_HEARTBEAT_RENAMES | (more),                                    \
        .read = read_lock, .parse = parse, .acquire = format##_acquire, .take = format##_take,     \
        .renew = format##_renew, .release = release, .set_data = set_data, .holds = holds,         \
        .at_version = at_version, .adopt = adopt, .force = force, .name_of = hf__keyed_name_of,    \
        .refuses_name = hf__keyed_refuses_name, .own_names = own_names,                            \
    }

const struct hf_format hf__format_awslabs = FORMAT(awslabs, HF_CAN_HOLD_ON);
const struct hf_format hf__format_dynamolock = FORMAT(dynamolock, 0);
