#include "format/remote.h"

#include "format/remote_inside.h"

enum {
    MEMBERS_MOST = 1000,      /* of one lock: each of them is masked, for each request */
    EXTRAS_MOST = 32,         /* attributes that the format has no name for … */
    EXTRAS_SIZE_MOST = 16384, /* … which stay, whoever has the lock */
};

enum hf_remote_verdict hf__remote_deny(struct hf_remote *remote, const char *why)
{
    remote->why = why;
    return HF_REMOTE_DENIED;
}

bool hf__remote_same(const struct hf_remote *remote, const char *name)
{
    const struct hf_value *before = hf__attr(remote->item, name),
                          *after = hf__attr(remote->changed, name);
    return before && after ? hf__value_equal(before, after) : !before && !after;
}

static bool is_listed(const char *const *names, struct hf_slice name)
{
    for (; *names; names++)
        if (hf__slice_is(name, *names)) return true;
    return false;
}

/* Nothing but these attributes is changed; `extra`: and what the format has no name for. */
bool hf__remote_changes_only(const struct hf_remote *remote, const char *const *names, bool extra)
{
    const struct hf_item both[] = {remote->item, remote->changed};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < both[i].count; k++) {
            struct hf_slice name = both[i].attrs[k].name;
            const struct hf_value *other = hf__item_get(both[1 - i], name);
            if (other && hf__value_equal(other, &both[i].attrs[k].value)) continue;
            if (hf__slice_eq(name, remote->layout->key_name) && !other && i == 1) continue;
            if (is_listed(names, name)) continue;
            if (extra && !is_listed(hf__format_holdfast.own_names, name) &&
                !hf__slice_eq(name, remote->layout->key_name))
                continue;
            return false;
        }
    }
    return true;
}

/* R2. */
static enum hf_remote_verdict is_over(struct hf_remote *remote, struct hf_slice id)
{
    struct hf_liveness liveness;
    int64_t version;
    bool dead = hf__holdfast_liveness(remote->arena, remote->item, id, &liveness, &version) &&
                remote->finds_dead(remote->user, &liveness);
    return dead ? HF_REMOTE_CHANGES : HF_REMOTE_REFUSED;
}

/* What is known of a session; NULL: it has to be read. */
static const struct hf_remote_fact *find_session(struct hf_remote *remote, struct hf_slice id)
{
    for (size_t i = 0; i < HF_REMOTE_SESSIONS; i++)
        if (hf__slice_eq(remote->sessions[i].about, id)) return &remote->sessions[i];
    remote->wanted = id;
    return NULL;
}

static enum hf_remote_verdict is_gone(struct hf_remote *remote, struct hf_slice session)
{
    const struct hf_remote_fact *fact = session.len ? find_session(remote, session) : NULL;
    if (!session.len) return HF_REMOTE_REFUSED;
    if (!fact) return HF_REMOTE_NEEDS_SESSION;
    return fact->exists ? HF_REMOTE_REFUSED : HF_REMOTE_CHANGES;
}

static bool is_own(const struct hf_remote *remote, const struct hf_remote_fact *session)
{
    return session && session->exists && hf__remote_is_owners(remote->owner, session->item);
}

/* A client knows which grants and intents of its own sessions are orphans, and may remove them. */
static enum hf_remote_verdict is_gone_or_own(struct hf_remote *remote, struct hf_slice session)
{
    enum hf_remote_verdict verdict = is_gone(remote, session);
    bool own = verdict == HF_REMOTE_REFUSED && session.len &&
               is_own(remote, find_session(remote, session));
    return own ? HF_REMOTE_CHANGES : verdict;
}

static enum hf_remote_verdict is_dead(struct hf_remote *remote)
{
    struct hf_slice session = hf__attr_text(remote->item, "session");
    if (!session.len) return is_over(remote, hf__attr_text(remote->item, "grant"));
    return is_gone_or_own(remote, session);
}

/* A client that gets the lock clears the intent: its own, or that of a client that is gone. */
static enum hf_remote_verdict may_clear_intent(struct hf_remote *remote)
{
    struct hf_slice intent = hf__attr_text(remote->item, "intent");
    struct hf_holder parsed;
    if (hf__remote_same(remote, "intent") || hf__remote_shows(remote->op->condition, intent))
        return HF_REMOTE_CHANGES;
    if (hf__attr(remote->changed, "intent") || !hf__holdfast_member_parse(intent, &parsed))
        return hf__remote_deny(remote, "somebody else waits for this lock");
    if (hf__slice_eq(parsed.session, hf__attr_text(remote->changed, "session")))
        return HF_REMOTE_CHANGES;
    enum hf_remote_verdict verdict = is_gone(remote, parsed.session);
    bool own = verdict == HF_REMOTE_REFUSED && is_own(remote, find_session(remote, parsed.session));
    return own ? HF_REMOTE_CHANGES : verdict;
}

void hf__remote_learn(struct hf_remote *remote, bool is_session, bool exists, struct hf_item item)
{
    struct hf_remote_fact *fact = &remote->lock;
    if (is_session)
        fact = remote->sessions[0].about.len ? &remote->sessions[1] : &remote->sessions[0];
    if (is_session && hf__session_is_buried(item)) exists = false;
    *fact = (struct hf_remote_fact){remote->wanted, exists, item};
}

/* R3. Where there was no token, the service determines the first. */
static bool counts(struct hf_remote *remote)
{
    int64_t before, after;
    if (!hf__item_int(remote->changed, "token", 1, &after)) return false;
    if (hf__attr(remote->item, "token"))
        return hf__item_int(remote->item, "token", 0, &before) && after - 1 == before;
    int64_t start = remote->now.known ? remote->now.lo_unix_us : 0;
    remote->changed =
        hf__item_set(remote->arena, remote->changed, "token", hf__n(remote->arena, start + 1));
    return true;
}

/* The service determines how long the record of a free lock stays. */
static void set_ttl(struct hf_remote *remote)
{
    int64_t ttl_s = remote->now.lo_unix_us / 1000000 + remote->layout->keep_s;
    if (remote->now.known && hf__attr(remote->changed, "ttl") && !hf__remote_same(remote, "ttl"))
        remote->changed =
            hf__item_set(remote->arena, remote->changed, "ttl", hf__n(remote->arena, ttl_s));
}

/* A version with its lease, of a lock or a session; `had_ms` is what it has had already. */
const char *hf__remote_find_fault_in_lease(const struct hf_remote *remote, int64_t had_ms)
{
    struct hf_id by;
    int64_t version = hf__attr_int(remote->changed, "version"),
            lease_ms = hf__attr_int(remote->changed, "lease"),
            most_ms = remote->lease_max_ms > had_ms ? remote->lease_max_ms : had_ms;
    if (version < 1 || !hf__id_parse(hf__attr_text(remote->changed, "by"), &by) || lease_ms < 1 ||
        lease_ms > HF_LEASE_MAX_MS)
        return "its lease is malformed";
    if (remote->lease_max_ms && lease_ms > most_ms) return "its lease is longer than allowed";
    return NULL;
}

/*
 * Its writer may know the store's time badly; in any case the lease began before it arrived here.
 */
static void trim_expiry(struct hf_remote *remote)
{
    int64_t latest_ms = remote->now.hi_unix_us / 1000 + 1 + hf__attr_int(remote->changed, "lease");
    if (remote->now.known && hf__attr_int(remote->changed, "expires") > latest_ms)
        remote->changed = hf__item_set(remote->arena, remote->changed, "expires",
                                       hf__n(remote->arena, latest_ms));
}

/* R4: from one version to the next, by somebody who may. */
const char *hf__remote_find_fault_in_renewal(const struct hf_remote *remote)
{
    if (hf__attr_int(remote->changed, "version") != hf__attr_int(remote->item, "version") + 1)
        return "its version does not follow the last one";
    /* An expiry may be earlier than the last: by then its writer knows the store's time better. */
    int64_t had_ms = hf__attr_int(remote->item, "lease");
    if (hf__attr_int(remote->changed, "lease") < had_ms) return "a lease never shrinks";
    return hf__remote_find_fault_in_lease(remote, had_ms);
}

/* R6: what the client calls itself tells its programs apart. */
void hf__remote_set_owner(struct hf_remote *remote)
{
    if (remote->owner.len == 0) return;
    struct hf_slice given = hf__attr_text(remote->changed, "owner");
    bool tells = given.len && !hf__slice_eq(given, remote->owner);
    if (given.len > HF_INSTANCE_MAX) {
        given.len = HF_INSTANCE_MAX;
        while (given.len && (given.ptr[given.len] & 0xc0) == 0x80)
            given.len--; /* whole characters */
    }
    if (tells && given.len && !hf__attr_text(remote->changed, "instance").len)
        remote->changed = hf__attr_with_text(remote->arena, remote->changed, "instance", given);
    remote->changed = hf__attr_with_text(remote->arena, remote->changed, "owner", remote->owner);
}

/* The attributes that a grant writes for people and their programs. */
static const char *find_fault_in_words(const struct hf_remote *remote)
{
    const struct hf_item item = remote->changed;
    const struct hf_value *instance = hf__attr(item, "instance"), *data = hf__attr(item, "data"),
                          *since = hf__attr(item, "since"), *owner = hf__attr(item, "owner");
    size_t extras = 0, size = 0;
    if (!owner || owner->type != HF_S || owner->bytes.len > HF_OWNER_MAX)
        return "its owner is malformed";
    if (instance && (instance->type != HF_S || instance->bytes.len > HF_INSTANCE_MAX))
        return "its instance is malformed";
    if ((data && data->type != HF_B) || (since && since->type != HF_N))
        return "its data is malformed";
    if (data && remote->data_max && (int64_t)data->bytes.len > remote->data_max)
        return "it has more data than allowed";
    for (size_t i = 0; i < item.count; i++) {
        const struct hf_attr *attr = &item.attrs[i];
        if (is_listed(hf__format_holdfast.own_names, attr->name) ||
            hf__slice_eq(attr->name, remote->layout->key_name))
            continue;
        extras++;
        size += attr->name.len + hf__value_size(&attr->value);
    }
    return extras > EXTRAS_MOST || size > EXTRAS_SIZE_MOST ? "it has too many other attributes"
                                                           : NULL;
}

static enum hf_remote_verdict join(struct hf_remote *remote, struct hf_slice member);

/* A new holder has the lock alone, or as the first of several. */
static enum hf_remote_verdict grant(struct hf_remote *remote, struct hf_difference members)
{
    static const char *const names[] = {"token",   "owner", "instance", "grant",   "session",
                                        "version", "by",    "lease",    "expires", "since",
                                        "data",    "limit", "ttl",      "intent",  NULL};
    struct hf_slice id = hf__attr_text(remote->changed, "grant");
    struct hf_id parsed;
    if (hf__attr(remote->item, "grant")) {
        enum hf_remote_verdict verdict = is_dead(remote);
        if (verdict != HF_REMOTE_CHANGES) return verdict;
    }
    if (!hf__attr(remote->changed, "grant")) return join(remote, members.new);
    if (hf__attr(remote->item, "holders") || hf__attr(remote->changed, "holders"))
        return hf__remote_deny(remote, "others share this lock");
    if (!hf__id_parse(id, &parsed)) return hf__remote_deny(remote, "its grant is malformed");
    if (!counts(remote)) return hf__remote_deny(remote, "its token does not follow the last one");
    if (hf__attr(remote->changed, "ttl") || hf__attr(remote->changed, "limit") ||
        !hf__remote_changes_only(remote, names, true))
        return hf__remote_deny(remote, "an acquire changes nothing else");
    enum hf_remote_verdict clears = may_clear_intent(remote);
    if (clears != HF_REMOTE_CHANGES) return clears;
    struct hf_slice session = hf__attr_text(remote->changed, "session");
    const char *fault = NULL;
    if (session.len) {
        if (session.len != HF_GRANT_TEXT || hf__attr(remote->changed, "version") ||
            hf__attr(remote->changed, "by") || hf__attr(remote->changed, "lease") ||
            hf__attr(remote->changed, "expires"))
            fault = "its session is malformed";
    } else {
        fault = hf__attr(remote->changed, "session") ? "its session is malformed"
                                                     : hf__remote_find_fault_in_lease(remote, 0);
    }
    if (!fault) fault = find_fault_in_words(remote);
    if (fault) return hf__remote_deny(remote, fault);
    hf__remote_set_owner(remote);
    return HF_REMOTE_CHANGES;
}

static enum hf_remote_verdict join(struct hf_remote *remote, struct hf_slice member)
{
    static const char *const names[] = {"token", "owner", "instance", "since", "data",
                                        "limit", "ttl",   "holders",  NULL};
    static const char *const takes[] = {"token",   "owner", "instance", "since",   "data",
                                        "limit",   "ttl",   "holders",  "grant",   "session",
                                        "version", "by",    "lease",    "expires", NULL};
    struct hf_values inside = hf__attr_holders(remote->item);
    struct hf_holder parsed;
    struct hf_id id;
    int64_t limit;
    if (!hf__holdfast_member_parse(member, &parsed) || !hf__id_parse(parsed.grant, &id))
        return hf__remote_deny(remote, "its grant is malformed");
    if (hf__attr(remote->item, "intent"))
        return hf__remote_deny(remote, "somebody waits for this lock");
    if (!hf__item_int(remote->changed, "limit", 1, &limit) ||
        (inside.count > 0 && (!hf__remote_same(remote, "limit") || (int64_t)inside.count >= limit)))
        return hf__remote_deny(remote, "there is no room for another one");
    if (inside.count >= MEMBERS_MOST)
        return hf__remote_deny(remote, "more than 1000 share it already");
    if (!counts(remote)) return hf__remote_deny(remote, "its token does not follow the last one");
    bool took = hf__attr(remote->item, "grant") != NULL;
    if (hf__attr(remote->changed, "ttl") ||
        !hf__remote_changes_only(remote, took ? takes : names, true))
        return hf__remote_deny(remote, "an acquire changes nothing else");
    const char *fault = find_fault_in_words(remote);
    if (fault) return hf__remote_deny(remote, fault);
    hf__remote_set_owner(remote);
    return HF_REMOTE_CHANGES;
}

/* The same grant as before. */
static enum hf_remote_verdict keep(struct hf_remote *remote)
{
    static const char *const names[] = {"version", "by",        "lease",         "expires", "data",
                                        "forced",  "forced_by", "forced_reason", NULL};
    bool knows = hf__remote_shows(remote->op->condition, hf__attr_text(remote->item, "grant"));
    bool forces = !hf__remote_same(remote, "forced") || !hf__remote_same(remote, "forced_by") ||
                  !hf__remote_same(remote, "forced_reason");
    bool renews = !hf__remote_same(remote, "version") || !hf__remote_same(remote, "by") ||
                  !hf__remote_same(remote, "lease") || !hf__remote_same(remote, "expires");
    if (!hf__remote_changes_only(remote, names, false))
        return hf__remote_deny(remote, "a held lock cannot be changed in this way");
    if (forces && !remote->may_force) return hf__remote_deny(remote, "forcing it is not allowed");
    if ((renews || !hf__remote_same(remote, "data")) && !knows)
        return hf__remote_deny(remote, "the grant is not this client's");
    const char *fault = renews ? hf__remote_find_fault_in_renewal(remote) : NULL;
    return fault ? hf__remote_deny(remote, fault) : HF_REMOTE_CHANGES;
}

/* The lock has no holder any more. */
static enum hf_remote_verdict release(struct hf_remote *remote)
{
    static const char *const names[] = {"grant",   "session", "version",  "by",   "lease",
                                        "expires", "ttl",     "released", "data", NULL};
    static const char *const forced[] = {"grant",  "session",   "version",       "by",
                                         "lease",  "expires",   "ttl",           "token",
                                         "forced", "forced_by", "forced_reason", NULL};
    struct hf_slice had = hf__attr_text(remote->item, "grant"),
                    said = hf__attr_text(remote->changed, "released");
    bool left = hf__attr(remote->changed, "session") || hf__attr(remote->changed, "version") ||
                hf__attr(remote->changed, "by") || hf__attr(remote->changed, "lease") ||
                hf__attr(remote->changed, "expires");
    if (left) return hf__remote_deny(remote, "a release removes the lease");
    if (!hf__remote_same(remote, "token")) {
        if (!remote->may_force) return hf__remote_deny(remote, "forcing it is not allowed");
        if (!counts(remote) || !hf__slice_eq(hf__attr_text(remote->changed, "forced"), had) ||
            !hf__remote_changes_only(remote, forced, false))
            return hf__remote_deny(remote, "a forced release changes nothing else");
        return HF_REMOTE_CHANGES;
    }
    if (!hf__remote_shows(remote->op->condition, had))
        return hf__remote_deny(remote, "the grant is not this client's");
    if (!hf__remote_same(remote, "released") && !hf__slice_eq(said, had))
        return hf__remote_deny(remote, "another grant was released");
    return hf__remote_changes_only(remote, names, false)
               ? HF_REMOTE_CHANGES
               : hf__remote_deny(remote, "a release changes nothing else");
}

static bool knows_a_member(const struct hf_remote *remote)
{
    struct hf_values inside = hf__attr_holders(remote->item);
    for (size_t i = 0; i < inside.count; i++)
        if (hf__remote_shows(remote->op->condition, inside.at[i].bytes)) return true;
    return false;
}

/* One of several leaves, or is found dead. */
static enum hf_remote_verdict leave(struct hf_remote *remote, struct hf_slice member)
{
    static const char *const names[] = {"holders", "ttl", NULL};
    struct hf_holder parsed;
    if (!hf__remote_changes_only(remote, names, false) ||
        (hf__attr(remote->changed, "holders") && !hf__remote_same(remote, "ttl")))
        return hf__remote_deny(remote, "a release changes nothing else");
    if (hf__remote_shows(remote->op->condition, member) || remote->may_force)
        return HF_REMOTE_CHANGES;
    if (!hf__holdfast_member_parse(member, &parsed))
        return hf__remote_deny(remote, "the grant is not this client's");
    return is_gone_or_own(remote, parsed.session);
}

/* A writer begins to wait for readers to leave, or stops waiting. */
static enum hf_remote_verdict intend(struct hf_remote *remote)
{
    static const char *const names[] = {"intent", NULL};
    struct hf_slice before = hf__attr_text(remote->item, "intent");
    struct hf_holder parsed;
    struct hf_id id;
    if (!hf__remote_changes_only(remote, names, false))
        return hf__remote_deny(remote, "an intent changes nothing else");
    if (hf__attr(remote->item, "intent") && hf__attr(remote->changed, "intent"))
        return hf__remote_deny(remote, "somebody else waits for this lock");
    if (hf__attr(remote->changed, "intent")) {
        bool good = hf__attr(remote->item, "holders") &&
                    hf__holdfast_member_parse(hf__attr_text(remote->changed, "intent"), &parsed) &&
                    hf__id_parse(parsed.grant, &id);
        return good ? HF_REMOTE_CHANGES : hf__remote_deny(remote, "its intent is malformed");
    }
    if (hf__remote_shows(remote->op->condition, before)) return HF_REMOTE_CHANGES;
    if (!hf__holdfast_member_parse(before, &parsed))
        return hf__remote_deny(remote, "the intent is not this client's");
    return is_gone_or_own(remote, parsed.session);
}

/* Neither the grant nor the holders change. */
static enum hf_remote_verdict annotate(struct hf_remote *remote)
{
    static const char *const inside[] = {"token", "data", NULL};
    static const char *const noted[] = {"forced", "forced_by", "forced_reason", NULL};
    static const char *const retired[] = {"ttl", NULL};
    static const char *const nothing[] = {NULL};
    bool free = !hf__attr(remote->item, "holders");
    if (remote->exists && hf__remote_changes_only(remote, nothing, false)) return HF_REMOTE_CHANGES;
    if (!hf__remote_same(remote, "intent")) return intend(remote);
    if (hf__remote_changes_only(remote, noted, false))
        return remote->may_force ? HF_REMOTE_CHANGES
                                 : hf__remote_deny(remote, "forcing it is not allowed");
    if (free && hf__remote_changes_only(remote, retired, false)) return HF_REMOTE_CHANGES;
    if (!free && hf__remote_changes_only(remote, inside, false)) {
        if (!knows_a_member(remote))
            return hf__remote_deny(remote, "the grant is not this client's");
        return hf__remote_same(remote, "token") || counts(remote)
                   ? HF_REMOTE_CHANGES
                   : hf__remote_deny(remote, "its token does not follow the last one");
    }
    return hf__remote_deny(remote, "not a step of the protocol");
}

/* All that a client may do whose only right is to take locks away. */
static bool is_force(const struct hf_remote *remote, const struct hf_record *before,
                     const struct hf_record *after)
{
    bool notes = !hf__remote_same(remote, "forced") || !hf__remote_same(remote, "forced_by") ||
                 !hf__remote_same(remote, "forced_reason");
    bool frees = before->exclusive && !after->exclusive && after->member_count == 0 &&
                 !hf__remote_same(remote, "token");
    bool gains = (after->exclusive && !hf__remote_same(remote, "grant")) ||
                 after->member_count > before->member_count;
    return !gains && (notes || frees || after->member_count < before->member_count);
}

/* `view` is the record to which the client's write was applied. */
static enum hf_remote_verdict judge_lock(struct hf_remote *remote, struct hf_item view)
{
    struct hf_record before, after;
    struct hf_difference members = hf__remote_compare(remote->arena, hf__attr_holders(view),
                                                      hf__attr_holders(remote->changed));
    if (members.added + members.removed > 1)
        return hf__remote_deny(remote, "a write may change only one holder");
    /* A copy of an acquire: its member is there already, behind a mask. */
    struct hf_value joins = hf__s(members.new);
    bool again = members.added && hf__values_contain(hf__attr_holders(remote->item), &joins);
    if (again) members.added = 0;
    if (members.removed) members.gone = hf__remote_unmask_member(remote, members.gone);
    hf__remote_unmask(remote, view);
    const struct hf_value *set = hf__attr(remote->changed, "holders");
    if (!set || set->type == HF_SS)
        remote->changed = hf__remote_replace(remote->arena, remote->changed, "holders",
                                             hf__attr_holders(remote->item), members);
    hf__format_holdfast.parse(remote->layout, remote->arena, remote->exists, remote->item, &before);
    hf__format_holdfast.parse(remote->layout, remote->arena, true, remote->changed, &after);
    if (before.damaged) return hf__remote_deny(remote, "its record is damaged");
    if (after.damaged || after.strange_intent)
        return hf__remote_deny(remote, "the record would be damaged");
    if (!remote->may_lock && !is_force(remote, &before, &after))
        return hf__remote_deny(remote, "permission denied for this lock");
    bool stays = before.exclusive && after.exclusive && hf__remote_same(remote, "grant");
    if (stays && !hf__remote_same(remote, "intent")) return intend(remote);
    if (stays) return keep(remote);
    if (after.exclusive || (before.exclusive && members.added)) return grant(remote, members);
    if (before.exclusive) return release(remote);
    if (members.added || again) return join(remote, members.new);
    if (members.removed) return leave(remote, members.gone);
    return annotate(remote);
}

static enum hf_remote_verdict judge_deletion(struct hf_remote *remote, struct hf_slice session)
{
    if (!session.len) return hf__remote_deny(remote, "records of locks are swept by the service");
    if (hf__remote_is_owners(remote->owner, remote->item)) return HF_REMOTE_CHANGES;
    return is_over(remote, session);
}

/* Replaces values that the service knows better than the client. */
static void settle(struct hf_remote *remote, bool is_session)
{
    if (!hf__remote_same(remote, "expires")) trim_expiry(remote);
    if (is_session) return;
    set_ttl(remote);
    if (remote->owner.len && hf__attr(remote->changed, "forced_by") &&
        (!hf__remote_same(remote, "forced") || !hf__remote_same(remote, "forced_by") ||
         !hf__remote_same(remote, "forced_reason")))
        remote->changed =
            hf__attr_with_text(remote->arena, remote->changed, "forced_by", remote->owner);
}

enum hf_remote_verdict hf__remote_judge(struct hf_remote *remote)
{
    const struct hf_op *op = remote->op;
    struct hf_slice session = HF_LIT("");
    bool is_session = hf__remote_is_session(remote->key, &session);
    struct hf_item view = is_session
                              ? hf__remote_view_session(remote->arena, remote->owner, remote->item)
                              : hf__remote_view_lock(remote->arena, op->condition, remote->item);
    enum hf_remote_verdict verdict;
    if (!op->condition) return hf__remote_deny(remote, "a write without a condition");
    if (!hf__condition_holds(op->condition, view)) return HF_REMOTE_REFUSED;
    remote->stays = op->kind == HF_UPDATE_ITEM;
    remote->changed = (struct hf_item){0};
    if (!remote->stays) {
        verdict = remote->exists ? judge_deletion(remote, session) : HF_REMOTE_REFUSED;
    } else {
        struct hf_item start = remote->exists ? view : op->key;
        if (hf__update_apply(remote->arena, op->update, start, &remote->changed, &remote->error) !=
            0)
            return remote->error.code == HF_ERR_NO_MEMORY
                       ? HF_REMOTE_NO_MEMORY
                       : hf__remote_deny(remote, remote->error.message);
        verdict = is_session ? hf__remote_judge_session(remote, session) : judge_lock(remote, view);
        if (verdict == HF_REMOTE_CHANGES) settle(remote, is_session);
    }
    return remote->arena->failed ? HF_REMOTE_NO_MEMORY : verdict;
}

/* Everything that the protocol depends on is still as it was judged. */
static const struct hf_condition *is_unchanged(const struct hf_remote *remote)
{
    static const char *const others[] = {"asked", "revoked", NULL}; /* of sessions */
    const char *const *const lists[] = {hf__format_holdfast.own_names, others};
    struct hf_arena *arena = remote->arena;
    if (!remote->exists) return hf__keyed_absent(remote->layout, arena);
    const struct hf_condition *condition = hf__keyed_exists(remote->layout, arena);
    for (size_t i = 0; i < 2; i++)
        for (const char *const *name = lists[i]; *name; name++)
            condition = hf__cond_and(arena, condition, hf__keyed_same(arena, *name, remote->item));
    return condition;
}

void hf__remote_write(const struct hf_remote *remote, struct hf_op *ret)
{
    struct hf_arena *arena = remote->arena;
    const struct hf_condition *unchanged = is_unchanged(remote);
    if (!remote->stays) {
        hf__keyed_delete(remote->layout, arena, remote->key, unchanged, ret);
        return;
    }
    struct hf_update *update = hf__keyed_update(remote->layout, arena, remote->key, unchanged, ret);
    for (size_t i = 0; i < remote->changed.count; i++) {
        const struct hf_attr *attr = &remote->changed.attrs[i];
        const struct hf_value *before = hf__item_get(remote->item, attr->name);
        if (hf__slice_eq(attr->name, remote->layout->key_name) ||
            (before && hf__value_equal(before, &attr->value)))
            continue;
        hf__update_add(arena, update,
                       (struct hf_action){.kind = HF_SET,
                                          .path = hf__path(arena, attr->name),
                                          .left = hf__term_value(arena, attr->value)});
    }
    for (size_t i = 0; i < remote->item.count; i++) {
        struct hf_slice name = remote->item.attrs[i].name;
        if (!hf__item_get(remote->changed, name))
            hf__update_add(arena, update,
                           (struct hf_action){.kind = HF_REMOVE, .path = hf__path(arena, name)});
    }
}
