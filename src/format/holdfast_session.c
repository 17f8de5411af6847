/*
 * Sessions of the native format: one record keeps any number of locks alive.
 *
 *   key S = holdfast:session:<id> · owner, instance S · version, lease, expires N · by S ·
 *   asked SS · revoked SS · ttl N · ended N (then nothing else counts)
 *
 * Invariants
 * N1  An id is never used again: a session that was ended stays ended for all
 *     its locks.
 * N2  Only programs that act for its owner change `version`, and `by` names the write; others may
 *     add to asked and revoked, and delete the record as they saw it.
 * N3  A session that several services act for is not deleted when its caller ends it, but marked as
 *     ended until its ttl. Otherwise a late copy of its creation would bring it back for all of them.
 */
#include "format/holdfast.h"
#include "format/mutant.h"

static struct hf_slice key_of(struct hf_arena *arena, struct hf_slice session)
{
    return hf__arena_printf(arena, HF_SESSION_PREFIX "%.*s", HF_FMT(session));
}

static void read_session(const struct hf_layout *layout, struct hf_arena *arena,
                         struct hf_slice session, struct hf_op *ret)
{
    hf__keyed_get(layout, arena, key_of(arena, session), ret);
    if (HF_BUG(STALE_READS)) ret->consistent = false;
}

static struct hf_values members_of(struct hf_item item, const char *name)
{
    const struct hf_value *set = hf__item_get_str(item, name);
    return set && set->type == HF_SS ? set->list : (struct hf_values){0};
}

/* N3. An attribute of that name alone ends nobody's session. */
bool hf__session_is_buried(struct hf_item item)
{
    struct hf_slice by;
    int64_t ended;
    return hf__item_int(item, "ended", 1, &ended) && hf__item_text(item, "by", &by) &&
           hf__slice_is(by, "ended");
}

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_session_record *ret)
{
    *ret = (struct hf_session_record){.exists = has_item && !hf__session_is_buried(item)};
    if (!ret->exists) return;
    ret->item = item;
    hf__item_text(item, "owner", &ret->owner);
    hf__item_text(item, "instance", &ret->instance);
    ret->asked = members_of(item, "asked");
    ret->revoked = members_of(item, "revoked");
    hf__holdfast_by(item, &ret->by);
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    struct hf_slice prefix = HF_LIT(HF_SESSION_PREFIX);
    ret->damaged = !key || key->type != HF_S || !hf__slice_starts(key->bytes, prefix) ||
                   !hf__holdfast_liveness(arena, item, hf__slice_skip(key->bytes, prefix.len),
                                          &ret->liveness, &ret->version_number);
}

static void write_session(struct hf_arena *arena, const struct hf_session_claim *claim,
                          struct hf_update *update)
{
    hf__update_set(arena, update, "owner", hf__s(claim->owner));
    if (claim->instance.len) hf__update_set(arena, update, "instance", hf__s(claim->instance));
    hf__update_set(arena, update, "version", hf__n(arena, claim->version));
    hf__update_set(arena, update, "by", hf__s(hf__id_text(arena, &claim->by)));
    hf__update_set(arena, update, "lease", hf__n(arena, claim->lease_ms));
    if (claim->expires_unix_ms)
        hf__update_set(arena, update, "expires", hf__n(arena, claim->expires_unix_ms));
    else hf__update_remove(arena, update, "expires");
    if (claim->ttl_unix_s) hf__update_set(arena, update, "ttl", hf__n(arena, claim->ttl_unix_s));
    else hf__update_remove(arena, update, "ttl");
}

static void create(const struct hf_layout *layout, struct hf_arena *arena,
                   const struct hf_session_claim *claim, struct hf_op *ret)
{
    struct hf_slice key = key_of(arena, hf__id_text(arena, &claim->id));
    const struct hf_condition *absent = hf__cond_absent(arena, "version");
    write_session(arena, claim, hf__keyed_update(layout, arena, key, absent, ret));
}

static void renew(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_session_claim *claim, struct hf_op *ret)
{
    struct hf_slice key = key_of(arena, hf__id_text(arena, &claim->id));
    const struct hf_condition *at = hf__holdfast_made(arena, claim->version - 1, &claim->before_by);
    write_session(arena, claim, hf__keyed_update(layout, arena, key, at, ret));
}

static void end(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                const struct hf_session_record *seen, struct hf_op *ret)
{
    const struct hf_condition *condition = hf__cond_exists(arena, "version");
    if (seen && !HF_BUG(END_WITHOUT_VERSION)) condition = hf__holdfast_as_seen(arena, seen->item);
    hf__keyed_delete(layout, arena, key_of(arena, session), condition, ret);
}

/* Neither a renewal nor a creation that is still on its way meets its condition then. */
static void bury(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_session_claim *claim, struct hf_op *ret)
{
    struct hf_slice key = key_of(arena, hf__id_text(arena, &claim->id));
    const struct hf_condition *at = hf__holdfast_made(arena, claim->version, &claim->by);
    struct hf_update *update = hf__keyed_update(layout, arena, key, at, ret);
    hf__update_set(arena, update, "ended", hf__n(arena, 1));
    hf__update_set(arena, update, "by", hf__s(HF_LIT("ended")));
    hf__update_set(arena, update, "expires", hf__n(arena, 1)); /* for those who do not know N3 */
    hf__update_remove(arena, update, "asked");
    hf__update_remove(arena, update, "revoked");
    if (claim->ttl_unix_s) hf__update_set(arena, update, "ttl", hf__n(arena, claim->ttl_unix_s));
}

static void add(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                const char *set, struct hf_slice errand, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, key_of(arena, session),
                                                hf__cond_exists(arena, "version"), ret);
    hf__update_add_to(arena, update, set, hf__holdfast_set_of(arena, errand));
}

static void ask(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                struct hf_slice errand, struct hf_op *ret)
{
    add(layout, arena, session, "asked", errand, ret);
}

static void revoke(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                   struct hf_slice errand, struct hf_op *ret)
{
    add(layout, arena, session, "revoked", errand, ret);
}

static void clear(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                  struct hf_values asked, struct hf_values revoked, struct hf_op *ret)
{
    struct hf_update *update = hf__keyed_update(layout, arena, key_of(arena, session),
                                                hf__cond_exists(arena, "version"), ret);
    if (asked.count)
        hf__update_delete_from(arena, update, "asked", hf__list(HF_SS, asked.at, asked.count));
    if (revoked.count)
        hf__update_delete_from(arena, update, "revoked",
                               hf__list(HF_SS, revoked.at, revoked.count));
}

static bool sweep(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                  int64_t now_unix_s, struct hf_op *ret)
{
    struct hf_session_record seen;
    int64_t ttl_unix_s;
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    bool is_due = hf__item_int(item, "ttl", 1, &ttl_unix_s) && ttl_unix_s <= now_unix_s;
    if (!is_due || !key || key->type != HF_S) return false;
    parse(layout, arena, true, item, &seen);
    if (!seen.exists && hf__slice_starts(key->bytes, HF_LIT(HF_SESSION_PREFIX))) {
        hf__keyed_delete(layout, arena, key->bytes, hf__cond_exists(arena, "ended"), ret);
        return true;
    }
    if (seen.damaged || !seen.exists) return false;
    end(layout, arena, seen.liveness.id, &seen, ret);
    return true;
}

const struct hf_session_format hf__holdfast_sessions = {
    .sweep = sweep,
    .read = read_session,
    .parse = parse,
    .create = create,
    .renew = renew,
    .end = end,
    .bury = bury,
    .ask = ask,
    .revoke = revoke,
    .clear = clear,
};
