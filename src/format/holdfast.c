/*
 * The native format: one record per lock, one string key.
 *
 *   key S · token N · owner S · instance S · grant S (held exclusively) · session S, or
 *   version, lease, expires N and by S (own lease) · holders SS · limit N ·
 *   intent S · since N · data B · ttl N · released S · forced, forced_by,
 *   forced_reason S
 *
 * Invariants
 * H1  `grant` exists iff the lock is held exclusively, `holders` iff it is
 *     shared, and never both.
 * H2  Every write that grants sets or removes each of session, version, by, lease and expires:
 *     nothing of an earlier holder remains.
 * H3  `token` only grows, and stays when the lock is released.
 * H4  `ttl` exists only while nobody holds the lock.
 * H5  `by` names the write that made the version. Several programs may act for one grant, and a
 *     late copy of its acquire may begin its versions anew: a number alone does not identify the
 *     write. So everything that depends on a version depends on both.
 * H6  `released` is the grant that was last released by its holder, not one that expired: a
 *     repeated release succeeds, and is not told that the lock was lost.
 */
#include "format/holdfast.h"

#include "base/text.h"
#include "format/mutant.h"

/* ---- reading ---- */

void hf__holdfast_by(struct hf_item item, struct hf_id *ret)
{
    struct hf_slice by;
    if (!hf__item_text(item, "by", &by) || !hf__id_parse(by, ret)) *ret = (struct hf_id){{0}};
}

const struct hf_condition *hf__holdfast_made(struct hf_arena *arena, int64_t version,
                                             const struct hf_id *by)
{
    static const struct hf_id nobody;
    const struct hf_condition *write =
        hf__cond_compare(arena, "by", HF_EQ, hf__s(hf__id_text(arena, by)));
    if (hf__id_eq(by, &nobody)) write = hf__cond_or(arena, write, hf__cond_absent(arena, "by"));
    return hf__cond_and(arena, hf__cond_compare(arena, "version", HF_EQ, hf__n(arena, version)),
                        write);
}

const struct hf_condition *hf__holdfast_as_seen(struct hf_arena *arena, struct hf_item seen)
{
    return hf__cond_and(arena, hf__keyed_same(arena, "version", seen),
                        hf__keyed_same(arena, "by", seen));
}

bool hf__holdfast_liveness(struct hf_arena *arena, struct hf_item item, struct hf_slice id,
                           struct hf_liveness *ret, int64_t *ret_version)
{
    int64_t version, lease_ms, expires_unix_ms;
    if (!hf__item_int(item, "version", 1, &version)) return false;
    if (!hf__item_int(item, "lease", 1, &lease_ms) || lease_ms > HF_LEASE_MAX_MS) return false;
    /* An invalid expiry counts as missing: the record can still be observed. */
    if (!hf__item_int(item, "expires", 1, &expires_unix_ms)) expires_unix_ms = 0;
    struct {
        int64_t version;
        struct hf_id by; /* H5 */
    } *made = hf__arena_alloc(arena, sizeof *made);
    if (!made) return false;
    made->version = version;
    hf__holdfast_by(item, &made->by);
    *ret = (struct hf_liveness){
        .id = id,
        .version = hf__slice((const char *)made, sizeof *made),
        .lease_ms = lease_ms,
        .expires_unix_ms = expires_unix_ms,
    };
    *ret_version = version;
    return true;
}

bool hf__holdfast_member_parse(struct hf_slice text, struct hf_holder *ret)
{
    if (text.len != 2 * HF_GRANT_TEXT + 1 || text.ptr[HF_GRANT_TEXT] != '/') return false;
    *ret = (struct hf_holder){
        .session = hf__slice(text.ptr, HF_GRANT_TEXT),
        .grant = hf__slice(text.ptr + HF_GRANT_TEXT + 1, HF_GRANT_TEXT),
        .member = text,
    };
    return true;
}

/* False if it is held in a way that cannot be parsed. */
static bool parse_exclusive(struct hf_arena *arena, struct hf_record *record)
{
    const struct hf_value *grant = hf__item_get_str(record->item, "grant");
    if (!grant) return true;
    record->damage = "grant";
    if (grant->type != HF_S || grant->bytes.len == 0) return false;
    record->damage = "holders";
    if (hf__item_get_str(record->item, "holders")) return false; /* H1 */
    record->holder = (struct hf_holder){.grant = grant->bytes};
    const struct hf_value *session = hf__item_get_str(record->item, "session");
    if (session) {
        record->damage = "session";
        if (session->type != HF_S || session->bytes.len != HF_GRANT_TEXT) return false;
        record->holder.session = session->bytes;
    } else {
        int64_t version;
        record->damage = hf__item_int(record->item, "version", 1, &version) ? "lease" : "version";
        if (!hf__holdfast_liveness(arena, record->item, grant->bytes, &record->liveness, &version))
            return false;
    }
    record->exclusive = true;
    record->identity = grant->bytes;
    record->damage = NULL;
    return true;
}

static bool parse_members(struct hf_arena *arena, struct hf_record *record)
{
    const struct hf_value *holders = hf__item_get_str(record->item, "holders");
    if (!holders) return true;
    if (holders->type != HF_SS || holders->list.count == 0) return false;
    if (!hf__item_int(record->item, "limit", 1, &record->limit)) return false;
    struct hf_holder *members =
        hf__arena_zalloc(arena, holders->list.count, sizeof(struct hf_holder));
    if (!members) return false;
    for (size_t i = 0; i < holders->list.count; i++) {
        struct hf_slice text = holders->list.at[i].bytes;
        if (hf__holdfast_member_parse(text, &members[i])) continue;
        /* A member without a session cannot be judged, and stays. */
        members[i] = (struct hf_holder){.grant = text, .member = text};
    }
    record->members = members;
    record->member_count = holders->list.count;
    return true;
}

static void parse(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret)
{
    (void)layout;
    *ret = (struct hf_record){.exists = has_item};
    if (!has_item) return;
    ret->item = item;
    hf__item_text(item, "owner", &ret->owner);
    hf__item_text(item, "instance", &ret->instance);
    hf__item_text(item, "forced", &ret->forced);
    hf__item_text(item, "forced_by", &ret->forced_by);
    hf__item_text(item, "forced_reason", &ret->forced_reason);
    hf__item_text(item, "released", &ret->released);
    hf__item_int(item, "token", 0, &ret->token);
    hf__item_int(item, "since", 1, &ret->since_unix_ms);
    ret->retired = hf__item_int(item, "ttl", 1, &ret->ttl_unix_s);
    const struct hf_value *data = hf__item_get_str(item, "data");
    if (data && data->type == HF_B) {
        ret->has_data = true;
        ret->data = data->bytes;
    }
    const struct hf_value *intent = hf__item_get_str(item, "intent");
    if (intent && intent->type == HF_S)
        ret->has_intent = hf__holdfast_member_parse(intent->bytes, &ret->intent);
    ret->strange_intent = intent && !ret->has_intent;
    if (!parse_exclusive(arena, ret) || !parse_members(arena, ret)) {
        hf__record_damage(ret, ret->damage ? ret->damage : "holders");
        ret->exclusive = false;
        ret->member_count = 0;
    }
}

/* ---- building ---- */

static void read_lock(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      struct hf_op *ret)
{
    hf__keyed_get(layout, arena, name, ret);
}

static const struct hf_condition *grant_is(struct hf_arena *arena, struct hf_slice grant)
{
    return hf__cond_compare(arena, "grant", HF_EQ, hf__s(grant));
}

/* H2. */
static void write_lease(struct hf_arena *arena, const struct hf_claim *claim,
                        struct hf_update *update)
{
    if (claim->session) {
        hf__update_set(arena, update, "session", hf__s(hf__id_text(arena, claim->session)));
        hf__update_remove(arena, update, "version");
        hf__update_remove(arena, update, "by");
        hf__update_remove(arena, update, "lease");
        hf__update_remove(arena, update, "expires");
        return;
    }
    hf__update_remove(arena, update, "session");
    hf__update_set(arena, update, "version", hf__n(arena, claim->version));
    hf__update_set(arena, update, "by", hf__s(hf__id_text(arena, &claim->by)));
    hf__update_set(arena, update, "lease", hf__n(arena, claim->lease_ms));
    if (claim->expires_unix_ms)
        hf__update_set(arena, update, "expires", hf__n(arena, claim->expires_unix_ms));
    else hf__update_remove(arena, update, "expires");
}

/* Data written by a holder is not kept for the next one, unless that one asks for it. */
static void drop_data(struct hf_arena *arena, const struct hf_claim *claim,
                      struct hf_update *update)
{
    if (!claim->has_data && !claim->keep_data) hf__update_remove(arena, update, "data");
}

static void write_data(struct hf_arena *arena, const struct hf_claim *claim,
                       struct hf_update *update)
{
    if (!claim->has_data) return;
    struct hf_value data = hf__b(claim->data);
    if (!claim->keep_data) {
        hf__update_set(arena, update, "data", data);
        return;
    }
    struct hf_term *stored = hf__arena_zalloc(arena, 1, sizeof *stored);
    if (!stored) return;
    stored->kind = HF_TERM_IF_NOT_EXISTS;
    stored->path = hf__path(arena, HF_LIT("data"));
    stored->first = hf__term_value(arena, data);
    hf__update_add(arena, update,
                   (struct hf_action){
                       .kind = HF_SET, .path = hf__path(arena, HF_LIT("data")), .left = stored});
}

void hf__holdfast_write_common(struct hf_arena *arena, const struct hf_claim *claim,
                               struct hf_update *update)
{
    hf__update_count(arena, update, "token", claim->token_start, 1);
    hf__update_set(arena, update, "owner", hf__s(claim->owner));
    if (claim->instance.len) hf__update_set(arena, update, "instance", hf__s(claim->instance));
    else hf__update_remove(arena, update, "instance");
    if (claim->since_unix_ms)
        hf__update_set(arena, update, "since", hf__n(arena, claim->since_unix_ms));
    else hf__update_remove(arena, update, "since");
    write_data(arena, claim, update);
    for (size_t i = 0; i < claim->extra.count; i++) {
        const struct hf_attr *attr = &claim->extra.attrs[i];
        hf__update_add(arena, update,
                       (struct hf_action){.kind = HF_SET,
                                          .path = hf__path(arena, attr->name),
                                          .left = hf__term_value(arena, attr->value)});
    }
}

static void write_grant(struct hf_arena *arena, const struct hf_claim *claim,
                        struct hf_update *update)
{
    hf__holdfast_write_common(arena, claim, update);
    drop_data(arena, claim, update);
    hf__update_set(arena, update, "grant", hf__s(hf__id_text(arena, &claim->grant)));
    write_lease(arena, claim, update);
    hf__update_remove(arena, update, "limit");
    hf__update_remove(arena, update, "ttl");
    if (claim->intent) hf__update_remove(arena, update, "intent");
}

/* The attributes that are removed with the holder. */
static void write_free(struct hf_arena *arena, int64_t ttl_unix_s, struct hf_update *update)
{
    static const char *const names[] = {"grant", "session", "version", "by", "lease", "expires"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        hf__update_remove(arena, update, names[i]);
    if (ttl_unix_s) hf__update_set(arena, update, "ttl", hf__n(arena, ttl_unix_s));
}

static void acquire(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    (void)seen; /* what matters is in the condition */
    if (claim->limit > 0) {
        hf__holdfast_join(layout, arena, claim, ret);
        return;
    }
    const struct hf_condition *condition = hf__cond_absent(arena, "grant");
    if (HF_BUG(OR_MINE)) {
        condition = hf__cond_or(arena, condition,
                                hf__cond_compare(arena, "owner", HF_EQ, hf__s(claim->owner)));
    }
    condition = hf__cond_and(arena, condition, hf__cond_absent(arena, "holders"));
    if (claim->only_if_exists)
        condition = hf__cond_and(arena, condition, hf__keyed_exists(layout, arena));
    write_grant(arena, claim, hf__keyed_update(layout, arena, claim->name, condition, ret));
}

static void take(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret)
{
    const struct hf_condition *condition = grant_is(arena, seen->holder.grant);
    if (seen->holder.session.len == 0 && !HF_BUG(TAKE_WITHOUT_VERSION))
        condition = hf__cond_and(arena, condition, hf__holdfast_as_seen(arena, seen->item));
    if (claim->limit > 0) /* R3 of holdfast_shared.c */
        condition = hf__cond_and(arena, condition, hf__cond_absent(arena, "intent"));
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    if (claim->limit == 0) {
        write_grant(arena, claim, update);
    } else {
        write_free(arena, 0, update);
        drop_data(arena, claim, update);
        hf__holdfast_write_member(arena, claim, update);
    }
}

static void renew(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition =
        hf__cond_and(arena, grant_is(arena, hf__id_text(arena, &claim->grant)),
                     hf__holdfast_made(arena, claim->version - 1, &claim->before_by));
    write_lease(arena, claim, hf__keyed_update(layout, arena, claim->name, condition, ret));
}

/* As it was last confirmed or, if a renewal is undecided, as that one makes it. */
static const struct hf_condition *version_is(struct hf_arena *arena, const struct hf_claim *claim)
{
    const struct hf_condition *version = hf__holdfast_made(arena, claim->version, &claim->by);
    if (!claim->pending) return version;
    return hf__cond_or(arena, version,
                       hf__holdfast_made(arena, claim->version + 1, &claim->pending_by));
}

static void release(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret)
{
    if (claim->limit > 0) {
        hf__holdfast_leave(layout, arena, claim, ret);
        return;
    }
    struct hf_slice grant = hf__id_text(arena, &claim->grant);
    const struct hf_condition *condition = grant_is(arena, grant);
    if (!claim->session) condition = hf__cond_and(arena, condition, version_is(arena, claim));
    if (HF_BUG(RELEASE_ANY)) condition = hf__cond_exists(arena, "grant");
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    write_free(arena, claim->ttl_unix_s, update);
    if (claim->is_wanted) hf__update_set(arena, update, "released", hf__s(grant));
    write_data(arena, claim, update);
}

static void set_data(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, struct hf_op *ret)
{
    const struct hf_condition *condition =
        claim->limit > 0
            ? hf__holdfast_contains(arena, "holders", hf__holdfast_member(arena, claim))
            : grant_is(arena, hf__id_text(arena, &claim->grant));
    struct hf_update *update = hf__keyed_update(layout, arena, claim->name, condition, ret);
    if (claim->has_data) hf__update_set(arena, update, "data", hf__b(claim->data));
    else hf__update_remove(arena, update, "data");
}

static bool holds(const struct hf_record *record, const struct hf_claim *claim)
{
    if (claim->limit == 0)
        return record->exclusive && hf__id_is(&claim->grant, record->holder.grant);
    for (size_t i = 0; i < record->member_count; i++) {
        if (hf__id_is(&claim->grant, record->members[i].grant)) return true;
    }
    return false;
}

static bool adopt(const struct hf_record *record, struct hf_claim *claim)
{
    if (!holds(record, claim)) return false;
    claim->owner = record->owner;
    claim->instance = record->instance;
    claim->token = record->token;
    claim->since_unix_ms = record->since_unix_ms;
    claim->lease_ms = record->liveness.lease_ms;
    claim->expires_unix_ms = record->liveness.expires_unix_ms;
    claim->version = 0;
    hf__item_int(record->item, "version", 1, &claim->version);
    hf__holdfast_by(record->item, &claim->by);
    return true;
}

static bool at_version(const struct hf_record *record, const struct hf_claim *claim)
{
    struct hf_id by;
    hf__holdfast_by(record->item, &by);
    return hf__id_eq(&by, &claim->by);
}

static void force(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret)
{
    const struct hf_condition *condition =
        seen->exclusive ? grant_is(arena, seen->holder.grant) : hf__cond_exists(arena, "holders");
    struct hf_update *update = hf__keyed_update(layout, arena, how->name, condition, ret);
    hf__update_set(arena, update, "forced", hf__s(how->grant));
    hf__update_set(arena, update, "forced_by", hf__s(how->by));
    hf__update_set(arena, update, "forced_reason", hf__s(how->reason));
    if (how->note_only) return;
    hf__update_count(arena, update, "token", 0, 1);
    write_free(arena, how->ttl_unix_s, update);
}

static void sweep(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                  const struct hf_record *seen, struct hf_op *ret)
{
    const struct hf_value *token = hf__item_get_str(seen->item, "token");
    const struct hf_condition *unchanged =
        token ? hf__cond_compare(arena, "token", HF_EQ, *token) : hf__cond_absent(arena, "token");
    const struct hf_condition *condition = hf__cond_and(
        arena, unchanged,
        hf__cond_and(arena, hf__cond_absent(arena, "grant"), hf__cond_absent(arena, "holders")));
    hf__keyed_delete(layout, arena, name, condition, ret);
}

static bool name_of(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                    struct hf_slice *ret)
{
    (void)arena;
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    if (!key || key->type != HF_S || key->bytes.len == 0) return false;
    if (hf__slice_starts(key->bytes, HF_LIT("holdfast:"))) return false;
    *ret = key->bytes;
    return true;
}

static const char *refuses_name(struct hf_slice name)
{
    if (name.len == 0) return "a lock name must not be empty";
    if (name.len > HF_LOCK_NAME_MAX) return "a lock name has at most 1024 bytes";
    if (!hf__utf8_valid(name)) return "a lock name is UTF-8 text";
    if (hf__slice_starts(name, HF_LIT("holdfast:")))
        return "lock names that begin with \"holdfast:\" are reserved";
    return NULL;
}

static const char *const own_names[] = {
    "token", "owner",    "instance", "grant",     "session",       "version", "by",
    "lease", "expires",  "ttl",      "holders",   "limit",         "intent",  "since",
    "data",  "released", "forced",   "forced_by", "forced_reason", NULL};

const struct hf_format hf__format_holdfast = {
    .name = "holdfast",
    .default_key = "key",
    .can = HF_CAN_TOKEN | HF_CAN_SESSION | HF_CAN_SHARE | HF_CAN_DATA | HF_CAN_EXPIRE |
           HF_CAN_OBSERVE | HF_CAN_RENEW | HF_CAN_FORCE | HF_WANTS_CLOCK | HF_NAMES_WRITES,
    .ttl_name = "ttl",
    .read = read_lock,
    .parse = parse,
    .acquire = acquire,
    .take = take,
    .renew = renew,
    .release = release,
    .set_data = set_data,
    .holds = holds,
    .at_version = at_version,
    .adopt = adopt,
    .force = force,
    .sweep = sweep,
    .name_of = name_of,
    .refuses_name = refuses_name,
    .own_names = own_names,
    .sessions = &hf__holdfast_sessions,
    .shares = &hf__holdfast_shares,
};
