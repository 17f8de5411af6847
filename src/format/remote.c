#include "format/remote.h"

#include <stdlib.h>
#include <string.h>

#include "format/holdfast.h"

enum {
    ASKED_MOST = 256,         /* of one session, at a time */
    MEMBERS_MOST = 1000,      /* of one lock: each of them is masked, for each request */
    EXTRAS_MOST = 32,         /* attributes that the format has no name for … */
    EXTRAS_SIZE_MOST = 16384, /* … which stay, whoever has the lock */
};

static const struct hf_value *get(struct hf_item item, const char *name)
{
    return hf__item_get_str(item, name);
}

static struct hf_slice text_of(struct hf_item item, const char *name)
{
    struct hf_slice text = HF_LIT("");
    hf__item_text(item, name, &text);
    return text;
}

static int64_t int_of(struct hf_item item, const char *name)
{
    int64_t number = 0;
    hf__item_int(item, name, 0, &number);
    return number;
}

static struct hf_values set_of(struct hf_item item, const char *name)
{
    const struct hf_value *set = get(item, name);
    return set && set->type == HF_SS ? set->list : (struct hf_values){0};
}

static struct hf_values holders_of(struct hf_item item)
{
    return set_of(item, "holders");
}

static struct hf_item with_text(struct hf_arena *arena, struct hf_item item, const char *name,
                                struct hf_slice text)
{
    return hf__item_set(arena, item, name, hf__s(text));
}

/* ---- keys ---- */

bool hf__remote_is_session(struct hf_slice key, struct hf_slice *ret_id)
{
    struct hf_slice prefix = HF_LIT(HF_SESSION_PREFIX);
    if (!hf__slice_starts(key, prefix)) return false;
    *ret_id = hf__slice_skip(key, prefix.len);
    return true;
}

struct hf_slice hf__remote_session_key(struct hf_arena *arena, struct hf_slice id)
{
    return hf__arena_printf(arena, HF_SESSION_PREFIX "%.*s", HF_FMT(id));
}

/* ---- secrets (R1) ---- */

/* Whether this text is among the condition's values: then the client knows it. */
static bool shows(const struct hf_condition *condition, struct hf_slice text)
{
    if (!condition) return false;
    if (condition->op == HF_AND || condition->op == HF_OR || condition->op == HF_NOT)
        return shows(condition->left, text) || shows(condition->right, text);
    for (size_t i = 0; i < condition->count; i++) {
        const struct hf_operand *operand = &condition->operands[i];
        if (!operand->is_path && operand->value.type == HF_S &&
            hf__slice_eq(operand->value.bytes, text))
            return true;
    }
    return false;
}

/* "grant" and "session/grant" with the grant masked; what is neither is nobody's secret. */
static struct hf_slice mask(struct hf_arena *arena, struct hf_slice text)
{
    struct hf_holder holder = {.grant = text};
    struct hf_id id;
    char masked[HF_GRANT_TEXT + 1];
    hf__holdfast_member_parse(text, &holder);
    if (!hf__id_parse(holder.grant, &id)) return text;
    hf__id_mask(&id, masked);
    char *copy = hf__arena_str(arena, text);
    if (!copy) return HF_LIT("");
    memcpy(copy + text.len - HF_GRANT_TEXT, masked, HF_GRANT_TEXT);
    return hf__slice(copy, text.len);
}

static struct hf_slice mask_unless_shown(struct hf_arena *arena,
                                         const struct hf_condition *condition, struct hf_slice text)
{
    return shows(condition, text) ? text : mask(arena, text);
}

static const char *const secrets[] = {"grant", "intent", "forced", "released"};
enum { SECRETS = sizeof secrets / sizeof secrets[0] };

static struct hf_item view_lock(struct hf_arena *arena, const struct hf_condition *condition,
                                struct hf_item item)
{
    struct hf_values holders = holders_of(item);
    for (size_t i = 0; i < SECRETS; i++) {
        struct hf_slice text;
        if (hf__item_text(item, secrets[i], &text))
            item = with_text(arena, item, secrets[i], mask_unless_shown(arena, condition, text));
    }
    if (holders.count == 0) return item;
    struct hf_value *masked = hf__arena_zalloc(arena, holders.count, sizeof *masked);
    for (size_t i = 0; masked && i < holders.count; i++)
        masked[i] = hf__s(mask_unless_shown(arena, condition, holders.at[i].bytes));
    return masked ? hf__item_set(arena, item, "holders", hf__list(HF_SS, masked, holders.count))
                  : item;
}

static bool is_owners(struct hf_slice owner, struct hf_item session)
{
    return owner.len == 0 || hf__slice_eq(text_of(session, "owner"), owner);
}

/* What a session is asked for are grants: only its owner sees them. */
static struct hf_item view_session(struct hf_arena *arena, struct hf_slice owner,
                                   struct hf_item item)
{
    if (is_owners(owner, item)) return item;
    item = hf__item_with(arena, item, HF_LIT("asked"), NULL);
    return hf__item_with(arena, item, HF_LIT("revoked"), NULL);
}

struct hf_item hf__remote_view(const struct hf_layout *layout, struct hf_arena *arena,
                               struct hf_slice owner, struct hf_item item)
{
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    struct hf_slice id;
    if (key && key->type == HF_S && hf__remote_is_session(key->bytes, &id))
        return view_session(arena, owner, item);
    return view_lock(arena, NULL, item);
}

/* The member that a mask stands for; the text itself if it is none's. */
static struct hf_slice unmask_member(const struct hf_remote *remote, struct hf_slice text)
{
    struct hf_values holders = holders_of(remote->item);
    for (size_t i = 0; i < holders.count; i++)
        if (hf__slice_eq(mask(remote->arena, holders.at[i].bytes), text))
            return holders.at[i].bytes;
    return text;
}

/* What is forced away is a grant of this record. */
static struct hf_slice unmask_forced(const struct hf_remote *remote, struct hf_slice text)
{
    struct hf_values holders = holders_of(remote->item);
    struct hf_slice grant = text_of(remote->item, "grant");
    if (grant.len && hf__slice_eq(mask(remote->arena, grant), text)) return grant;
    for (size_t i = 0; i < holders.count; i++) {
        struct hf_holder member;
        if (hf__holdfast_member_parse(holders.at[i].bytes, &member) &&
            hf__slice_eq(mask(remote->arena, member.grant), text))
            return member.grant;
    }
    return text;
}

/* What the client left as it saw it stays what it is. */
static void unmask(struct hf_remote *remote, struct hf_item view)
{
    for (size_t i = 0; i < SECRETS; i++) {
        struct hf_slice text, before = text_of(view, secrets[i]);
        if (!hf__item_text(remote->changed, secrets[i], &text)) continue;
        struct hf_slice raw = text;
        if (before.len && hf__slice_eq(text, before)) raw = text_of(remote->item, secrets[i]);
        else if (strcmp(secrets[i], "forced") == 0) raw = unmask_forced(remote, text);
        remote->changed = with_text(remote->arena, remote->changed, secrets[i], raw);
    }
}

/* ---- sets ---- */

static int by_order(const void *a, const void *b)
{
    return hf__value_order(a, b);
}

static struct hf_values sorted(struct hf_arena *arena, struct hf_values set)
{
    if (set.count == 0 || hf__values_sorted(set)) return set;
    struct hf_value *copy = hf__arena_alloc(arena, set.count * sizeof *copy);
    if (!copy) return (struct hf_values){0};
    memcpy(copy, set.at, set.count * sizeof *copy);
    qsort(copy, set.count, sizeof *copy, by_order);
    return (struct hf_values){copy, set.count};
}

/* How two sets of texts differ; of several that are new or gone, one of them. */
struct difference {
    size_t added, removed;
    struct hf_slice new, gone;
};

static struct difference compare(struct hf_arena *arena, struct hf_values before,
                                 struct hf_values after)
{
    struct difference ret = {0};
    struct hf_values old = sorted(arena, before), next = sorted(arena, after);
    size_t i = 0, k = 0;
    while (i < old.count || k < next.count) {
        int order = i == old.count    ? 1
                    : k == next.count ? -1
                                      : hf__value_order(&old.at[i], &next.at[k]);
        if (order < 0) {
            ret.removed++;
            ret.gone = old.at[i].bytes;
        } else if (order > 0) {
            ret.added++;
            ret.new = next.at[k].bytes;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return ret;
}

/* The set without what is gone, and with what is new; removed if nothing is left. */
static struct hf_item replace(struct hf_arena *arena, struct hf_item item, const char *name,
                              struct hf_values set, struct difference difference)
{
    struct hf_value *values = hf__arena_zalloc(arena, set.count + 1, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; values && i < set.count; i++)
        if (!difference.removed || !hf__slice_eq(set.at[i].bytes, difference.gone))
            values[count++] = set.at[i];
    if (values && difference.added) values[count++] = hf__s(difference.new);
    struct hf_value value = hf__list(HF_SS, values, count);
    return hf__item_with(arena, item, hf__slice_str(name), count ? &value : NULL);
}

/* ---- judging ---- */

static enum hf_remote_verdict deny(struct hf_remote *remote, const char *why)
{
    remote->why = why;
    return HF_REMOTE_DENIED;
}

static bool same(const struct hf_remote *remote, const char *name)
{
    const struct hf_value *before = get(remote->item, name), *after = get(remote->changed, name);
    return before && after ? hf__value_equal(before, after) : !before && !after;
}

static bool is_listed(const char *const *names, struct hf_slice name)
{
    for (; *names; names++)
        if (hf__slice_is(name, *names)) return true;
    return false;
}

/* Nothing but these attributes is changed; `extra`: and what the format has no name for. */
static bool changes_only(const struct hf_remote *remote, const char *const *names, bool extra)
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
    return session && session->exists && is_owners(remote->owner, session->item);
}

/* What a session of this client's owner has left standing is taken over at once. */
static enum hf_remote_verdict is_dead(struct hf_remote *remote)
{
    struct hf_slice session = text_of(remote->item, "session");
    if (!session.len) return is_over(remote, text_of(remote->item, "grant"));
    enum hf_remote_verdict verdict = is_gone(remote, session);
    bool own = verdict == HF_REMOTE_REFUSED && is_own(remote, find_session(remote, session));
    return own ? HF_REMOTE_CHANGES : verdict;
}

/* Who gets the lock clears the intent that it had: one of its own, or of somebody who is gone. */
static enum hf_remote_verdict may_clear_intent(struct hf_remote *remote)
{
    struct hf_slice intent = text_of(remote->item, "intent");
    struct hf_holder parsed;
    if (same(remote, "intent") || shows(remote->op->condition, intent)) return HF_REMOTE_CHANGES;
    if (get(remote->changed, "intent") || !hf__holdfast_member_parse(intent, &parsed))
        return deny(remote, "somebody else waits for this lock");
    if (hf__slice_eq(parsed.session, text_of(remote->changed, "session"))) return HF_REMOTE_CHANGES;
    enum hf_remote_verdict verdict = is_gone(remote, parsed.session);
    bool own = verdict == HF_REMOTE_REFUSED && is_own(remote, find_session(remote, parsed.session));
    return own ? HF_REMOTE_CHANGES : verdict;
}

void hf__remote_learn(struct hf_remote *remote, bool is_session, bool exists, struct hf_item item)
{
    struct hf_remote_fact *fact = &remote->lock;
    if (is_session)
        fact = remote->sessions[0].about.len ? &remote->sessions[1] : &remote->sessions[0];
    *fact = (struct hf_remote_fact){remote->wanted, exists, item};
}

/* R3. Where there was none, it is the service that says which is the first. */
static bool counts(struct hf_remote *remote)
{
    int64_t before, after;
    if (!hf__item_int(remote->changed, "token", 1, &after)) return false;
    if (get(remote->item, "token"))
        return hf__item_int(remote->item, "token", 0, &before) && after - 1 == before;
    int64_t start = remote->now.known ? remote->now.lo_unix_us : 0;
    remote->changed =
        hf__item_set(remote->arena, remote->changed, "token", hf__n(remote->arena, start + 1));
    return true;
}

/* How long a record stays when nobody has the lock is the service's to say. */
static void set_ttl(struct hf_remote *remote)
{
    int64_t ttl_s = remote->now.lo_unix_us / 1000000 + remote->layout->keep_s;
    if (remote->now.known && get(remote->changed, "ttl") && !same(remote, "ttl"))
        remote->changed =
            hf__item_set(remote->arena, remote->changed, "ttl", hf__n(remote->arena, ttl_s));
}

/* A version with its lease, of a lock or a session; `had_ms` is what it has had already. */
static const char *find_fault_in_lease(const struct hf_remote *remote, int64_t had_ms)
{
    struct hf_id by;
    int64_t version = int_of(remote->changed, "version"),
            lease_ms = int_of(remote->changed, "lease"),
            most_ms = remote->lease_max_ms > had_ms ? remote->lease_max_ms : had_ms;
    if (version < 1 || !hf__id_parse(text_of(remote->changed, "by"), &by) || lease_ms < 1 ||
        lease_ms > HF_LEASE_MAX_MS)
        return "its lease is malformed";
    if (remote->lease_max_ms && lease_ms > most_ms) return "its lease is longer than allowed";
    return NULL;
}

/* Its writer may know the store's time badly; the lease began before it came here, in any case. */
static void trim_expiry(struct hf_remote *remote)
{
    int64_t latest_ms = remote->now.hi_unix_us / 1000 + 1 + int_of(remote->changed, "lease");
    if (remote->now.known && int_of(remote->changed, "expires") > latest_ms)
        remote->changed = hf__item_set(remote->arena, remote->changed, "expires",
                                       hf__n(remote->arena, latest_ms));
}

/* R4: from one version to the next, by somebody who may. */
static const char *find_fault_in_renewal(const struct hf_remote *remote)
{
    if (int_of(remote->changed, "version") != int_of(remote->item, "version") + 1)
        return "its version does not follow the last one";
    /* An expiry may be earlier than the last: by then its writer knows the store's time better. */
    int64_t had_ms = int_of(remote->item, "lease");
    if (int_of(remote->changed, "lease") < had_ms) return "a lease never shrinks";
    return find_fault_in_lease(remote, had_ms);
}

/* R6: what the client calls itself tells its programs apart. */
static void set_owner(struct hf_remote *remote)
{
    if (remote->owner.len == 0) return;
    struct hf_slice given = text_of(remote->changed, "owner");
    bool tells = given.len && !hf__slice_eq(given, remote->owner);
    if (given.len > HF_INSTANCE_MAX) {
        given.len = HF_INSTANCE_MAX;
        while (given.len && (given.ptr[given.len] & 0xc0) == 0x80)
            given.len--; /* whole characters */
    }
    if (tells && given.len && !text_of(remote->changed, "instance").len)
        remote->changed = with_text(remote->arena, remote->changed, "instance", given);
    remote->changed = with_text(remote->arena, remote->changed, "owner", remote->owner);
}

/* What a grant writes for people and their programs. */
static const char *find_fault_in_words(const struct hf_remote *remote)
{
    const struct hf_item item = remote->changed;
    const struct hf_value *instance = get(item, "instance"), *data = get(item, "data"),
                          *since = get(item, "since"), *owner = get(item, "owner");
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

/* Somebody new has the lock to himself, or as the first of several. */
static enum hf_remote_verdict grant(struct hf_remote *remote, struct difference members)
{
    static const char *const names[] = {"token",   "owner", "instance", "grant",   "session",
                                        "version", "by",    "lease",    "expires", "since",
                                        "data",    "limit", "ttl",      "intent",  NULL};
    struct hf_slice id = text_of(remote->changed, "grant");
    struct hf_id parsed;
    if (get(remote->item, "grant")) {
        enum hf_remote_verdict verdict = is_dead(remote);
        if (verdict != HF_REMOTE_CHANGES) return verdict;
    }
    if (!get(remote->changed, "grant")) return join(remote, members.new);
    if (get(remote->item, "holders") || get(remote->changed, "holders"))
        return deny(remote, "others share this lock");
    if (!hf__id_parse(id, &parsed)) return deny(remote, "its grant is malformed");
    if (!counts(remote)) return deny(remote, "its token does not follow the last one");
    if (get(remote->changed, "ttl") || get(remote->changed, "limit") ||
        !changes_only(remote, names, true))
        return deny(remote, "an acquire changes nothing else");
    enum hf_remote_verdict clears = may_clear_intent(remote);
    if (clears != HF_REMOTE_CHANGES) return clears;
    struct hf_slice session = text_of(remote->changed, "session");
    const char *fault = NULL;
    if (session.len) {
        if (session.len != HF_GRANT_TEXT || get(remote->changed, "version") ||
            get(remote->changed, "by") || get(remote->changed, "lease") ||
            get(remote->changed, "expires"))
            fault = "its session is malformed";
    } else {
        fault = get(remote->changed, "session") ? "its session is malformed"
                                                : find_fault_in_lease(remote, 0);
    }
    if (!fault) fault = find_fault_in_words(remote);
    if (fault) return deny(remote, fault);
    set_owner(remote);
    return HF_REMOTE_CHANGES;
}

static enum hf_remote_verdict join(struct hf_remote *remote, struct hf_slice member)
{
    static const char *const names[] = {"token", "owner", "instance", "since", "data",
                                        "limit", "ttl",   "holders",  NULL};
    static const char *const takes[] = {"token",   "owner", "instance", "since",   "data",
                                        "limit",   "ttl",   "holders",  "grant",   "session",
                                        "version", "by",    "lease",    "expires", NULL};
    struct hf_values inside = holders_of(remote->item);
    struct hf_holder parsed;
    struct hf_id id;
    int64_t limit;
    if (!hf__holdfast_member_parse(member, &parsed) || !hf__id_parse(parsed.grant, &id))
        return deny(remote, "its grant is malformed");
    if (get(remote->item, "intent")) return deny(remote, "somebody waits for this lock");
    if (!hf__item_int(remote->changed, "limit", 1, &limit) ||
        (inside.count > 0 && (!same(remote, "limit") || (int64_t)inside.count >= limit)))
        return deny(remote, "there is no room for another one");
    if (inside.count >= MEMBERS_MOST) return deny(remote, "more than 1000 share it already");
    if (!counts(remote)) return deny(remote, "its token does not follow the last one");
    bool took = get(remote->item, "grant") != NULL;
    if (get(remote->changed, "ttl") || !changes_only(remote, took ? takes : names, true))
        return deny(remote, "an acquire changes nothing else");
    const char *fault = find_fault_in_words(remote);
    if (fault) return deny(remote, fault);
    set_owner(remote);
    return HF_REMOTE_CHANGES;
}

/* The same grant as before. */
static enum hf_remote_verdict keep(struct hf_remote *remote)
{
    static const char *const names[] = {"version", "by",        "lease",         "expires", "data",
                                        "forced",  "forced_by", "forced_reason", NULL};
    bool knows = shows(remote->op->condition, text_of(remote->item, "grant"));
    bool forces =
        !same(remote, "forced") || !same(remote, "forced_by") || !same(remote, "forced_reason");
    bool renews = !same(remote, "version") || !same(remote, "by") || !same(remote, "lease") ||
                  !same(remote, "expires");
    if (!changes_only(remote, names, false))
        return deny(remote, "a lock that is held cannot be changed so");
    if (forces && !remote->may_force) return deny(remote, "forcing it is not allowed");
    if ((renews || !same(remote, "data")) && !knows)
        return deny(remote, "the grant is not this client's");
    const char *fault = renews ? find_fault_in_renewal(remote) : NULL;
    return fault ? deny(remote, fault) : HF_REMOTE_CHANGES;
}

/* Nobody has it any more. */
static enum hf_remote_verdict release(struct hf_remote *remote)
{
    static const char *const names[] = {"grant",   "session", "version",  "by",   "lease",
                                        "expires", "ttl",     "released", "data", NULL};
    static const char *const forced[] = {"grant",  "session",   "version",       "by",
                                         "lease",  "expires",   "ttl",           "token",
                                         "forced", "forced_by", "forced_reason", NULL};
    struct hf_slice had = text_of(remote->item, "grant"),
                    said = text_of(remote->changed, "released");
    bool left = get(remote->changed, "session") || get(remote->changed, "version") ||
                get(remote->changed, "by") || get(remote->changed, "lease") ||
                get(remote->changed, "expires");
    if (left) return deny(remote, "a release removes the lease");
    if (!same(remote, "token")) {
        if (!remote->may_force) return deny(remote, "forcing it is not allowed");
        if (!counts(remote) || !hf__slice_eq(text_of(remote->changed, "forced"), had) ||
            !changes_only(remote, forced, false))
            return deny(remote, "a forced release changes nothing else");
        return HF_REMOTE_CHANGES;
    }
    if (!shows(remote->op->condition, had)) return deny(remote, "the grant is not this client's");
    if (!same(remote, "released") && !hf__slice_eq(said, had))
        return deny(remote, "what was released is another grant");
    return changes_only(remote, names, false) ? HF_REMOTE_CHANGES
                                              : deny(remote, "a release changes nothing else");
}

static bool knows_a_member(const struct hf_remote *remote)
{
    struct hf_values inside = holders_of(remote->item);
    for (size_t i = 0; i < inside.count; i++)
        if (shows(remote->op->condition, inside.at[i].bytes)) return true;
    return false;
}

/* One of several leaves, or is found dead. */
static enum hf_remote_verdict leave(struct hf_remote *remote, struct hf_slice member)
{
    static const char *const names[] = {"holders", "ttl", NULL};
    struct hf_holder parsed;
    if (!changes_only(remote, names, false) ||
        (get(remote->changed, "holders") && !same(remote, "ttl")))
        return deny(remote, "a release changes nothing else");
    if (shows(remote->op->condition, member) || remote->may_force) return HF_REMOTE_CHANGES;
    if (!hf__holdfast_member_parse(member, &parsed))
        return deny(remote, "the grant is not this client's");
    return is_gone(remote, parsed.session);
}

/* Who waits for readers to leave, and who does not any more. */
static enum hf_remote_verdict intend(struct hf_remote *remote)
{
    static const char *const names[] = {"intent", NULL};
    struct hf_slice before = text_of(remote->item, "intent");
    struct hf_holder parsed;
    struct hf_id id;
    if (!changes_only(remote, names, false)) return deny(remote, "an intent changes nothing else");
    if (get(remote->item, "intent") && get(remote->changed, "intent"))
        return deny(remote, "somebody else waits for this lock");
    if (get(remote->changed, "intent")) {
        bool good = get(remote->item, "holders") &&
                    hf__holdfast_member_parse(text_of(remote->changed, "intent"), &parsed) &&
                    hf__id_parse(parsed.grant, &id);
        return good ? HF_REMOTE_CHANGES : deny(remote, "its intent is malformed");
    }
    if (shows(remote->op->condition, before)) return HF_REMOTE_CHANGES;
    if (!hf__holdfast_member_parse(before, &parsed))
        return deny(remote, "the intent is not this client's");
    return is_gone(remote, parsed.session);
}

/* Neither a grant, nor who is inside, is changed. */
static enum hf_remote_verdict annotate(struct hf_remote *remote)
{
    static const char *const inside[] = {"token", "data", NULL};
    static const char *const noted[] = {"forced", "forced_by", "forced_reason", NULL};
    static const char *const retired[] = {"ttl", NULL};
    static const char *const nothing[] = {NULL};
    bool free = !get(remote->item, "holders");
    if (remote->exists && changes_only(remote, nothing, false)) return HF_REMOTE_CHANGES;
    if (!same(remote, "intent")) return intend(remote);
    if (changes_only(remote, noted, false))
        return remote->may_force ? HF_REMOTE_CHANGES : deny(remote, "forcing it is not allowed");
    if (free && changes_only(remote, retired, false)) return HF_REMOTE_CHANGES;
    if (!free && changes_only(remote, inside, false)) {
        if (!knows_a_member(remote)) return deny(remote, "the grant is not this client's");
        return same(remote, "token") || counts(remote)
                   ? HF_REMOTE_CHANGES
                   : deny(remote, "its token does not follow the last one");
    }
    return deny(remote, "this is no step of the protocol");
}

/* All that those may do who may only take locks away. */
static bool is_force(const struct hf_remote *remote, const struct hf_record *before,
                     const struct hf_record *after)
{
    bool notes =
        !same(remote, "forced") || !same(remote, "forced_by") || !same(remote, "forced_reason");
    bool frees = before->exclusive && !after->exclusive && after->member_count == 0 &&
                 !same(remote, "token");
    bool gains =
        (after->exclusive && !same(remote, "grant")) || after->member_count > before->member_count;
    return !gains && (notes || frees || after->member_count < before->member_count);
}

/* `view` is what the client's write was worked out on. */
static enum hf_remote_verdict judge_lock(struct hf_remote *remote, struct hf_item view)
{
    struct hf_record before, after;
    struct difference members =
        compare(remote->arena, holders_of(view), holders_of(remote->changed));
    if (members.added + members.removed > 1) return deny(remote, "one at a time");
    /* A copy of an acquire: its member is there already, behind a mask. */
    struct hf_value joins = hf__s(members.new);
    bool again = members.added && hf__values_contain(holders_of(remote->item), &joins);
    if (again) members.added = 0;
    if (members.removed) members.gone = unmask_member(remote, members.gone);
    unmask(remote, view);
    const struct hf_value *set = get(remote->changed, "holders");
    if (!set || set->type == HF_SS)
        remote->changed =
            replace(remote->arena, remote->changed, "holders", holders_of(remote->item), members);
    hf__format_holdfast.parse(remote->layout, remote->arena, remote->exists, remote->item, &before);
    hf__format_holdfast.parse(remote->layout, remote->arena, true, remote->changed, &after);
    if (before.damaged) return deny(remote, "its record is damaged");
    if (after.damaged || after.strange_intent) return deny(remote, "the record would be damaged");
    if (!remote->may_lock && !is_force(remote, &before, &after))
        return deny(remote, "this lock is not yours to take");
    bool stays = before.exclusive && after.exclusive && same(remote, "grant");
    if (stays && !same(remote, "intent")) return intend(remote);
    if (stays) return keep(remote);
    if (after.exclusive || (before.exclusive && members.added)) return grant(remote, members);
    if (before.exclusive) return release(remote);
    if (members.added || again) return join(remote, members.new);
    if (members.removed) return leave(remote, members.gone);
    return annotate(remote);
}

/* ---- sessions (R5) ---- */

/* The secret that the mask of an errand stands for, if the lock is this session's. */
static bool find_errand(const struct hf_remote *remote, struct hf_slice session,
                        const struct hf_errand_text *errand, struct hf_slice *ret)
{
    struct hf_record record;
    hf__format_holdfast.parse(remote->layout, remote->arena, remote->lock.exists, remote->lock.item,
                              &record);
    const struct hf_holder *kinds[] = {record.exclusive ? &record.holder : NULL,
                                       record.has_intent ? &record.intent : NULL};
    for (size_t i = 0; i < 2 + record.member_count; i++) {
        const struct hf_holder *holder = i < 2 ? kinds[i] : &record.members[i - 2];
        if (!holder || !hf__slice_eq(holder->session, session)) continue;
        if (!hf__slice_eq(holder->grant, errand->grant) &&
            !hf__slice_eq(mask(remote->arena, holder->grant), errand->grant))
            continue;
        *ret = holder->grant;
        return true;
    }
    return false;
}

/* One more in `name`: a lock that somebody else waits for, or that is taken away. */
static enum hf_remote_verdict ask(struct hf_remote *remote, struct hf_slice session,
                                  const char *name, struct hf_slice text)
{
    const char *const names[] = {name, NULL};
    bool revokes = name[0] == 'r';
    struct hf_values had = set_of(remote->item, name);
    struct hf_errand_text errand;
    struct hf_slice by, reason, raw;
    bool parsed = revokes ? hf__revocation_parse(text, &errand, &by, &reason)
                          : hf__errand_parse(text, &errand);
    if (!parsed || had.count >= ASKED_MOST) return deny(remote, "it is asked for too much");
    if (!changes_only(remote, names, false)) return deny(remote, "asking changes nothing else");
    remote->wanted = errand.name;
    if (!hf__slice_eq(remote->lock.about, errand.name)) return HF_REMOTE_NEEDS_LOCK;
    if (revokes && !remote->may_force) return deny(remote, "forcing it is not allowed");
    if (!revokes && !remote->may_lock) return deny(remote, "this lock is not yours to take");
    if (!find_errand(remote, session, &errand, &raw)) return HF_REMOTE_REFUSED;
    struct difference one = {.added = 1};
    if (remote->owner.len) by = remote->owner;
    one.new = revokes
                  ? hf__revocation_print(remote->arena, errand.kind, raw, errand.name, by, reason)
                  : hf__errand_print(remote->arena, errand.kind, raw, errand.name);
    for (size_t i = 0; i < had.count; i++)
        if (hf__slice_eq(had.at[i].bytes, one.new)) one.added = 0;
    remote->changed = replace(remote->arena, remote->changed, name, had, one);
    return HF_REMOTE_CHANGES;
}

static enum hf_remote_verdict judge_session(struct hf_remote *remote, struct hf_slice session)
{
    static const char *const names[] = {"owner", "instance", "version", "by",
                                        "lease", "expires",  "ttl",     NULL};
    static const char *const cleared[] = {"asked", "revoked", NULL};
    static const char *const sets[] = {"asked", "revoked"};
    struct hf_id id;
    bool own = is_owners(remote->owner, remote->item);
    struct hf_item view = view_session(remote->arena, remote->owner, remote->item);
    if (!hf__id_parse(session, &id)) return deny(remote, "no session has this name");
    struct difference differences[2] = {{0}};
    for (size_t i = 0; i < 2; i++) {
        const struct hf_value *hidden = get(remote->item, sets[i]);
        differences[i] =
            compare(remote->arena, set_of(view, sets[i]), set_of(remote->changed, sets[i]));
        /* What the client does not see, it does not change. */
        if (!own)
            remote->changed =
                hf__item_with(remote->arena, remote->changed, hf__slice_str(sets[i]), hidden);
    }
    for (size_t i = 0; i < 2 && remote->exists; i++) {
        if (differences[i].added > 1) return deny(remote, "one at a time");
        if (differences[i].added && !differences[i].removed)
            return ask(remote, session, sets[i], differences[i].new);
    }
    if (!remote->exists) {
        struct hf_id owner;
        hf__id_of_owner(remote->owner, &owner);
        const char *fault = changes_only(remote, names, false) ? find_fault_in_lease(remote, 0)
                                                               : "a session has nothing else";
        if (remote->owner.len && !hf__id_is_bound(&id, &owner))
            fault = "its id is not one of this caller's";
        if (fault) return deny(remote, fault);
        set_owner(remote);
        return HF_REMOTE_CHANGES;
    }
    if (!own) return deny(remote, "the session is not this client's");
    if (changes_only(remote, cleared, false)) return HF_REMOTE_CHANGES;
    set_owner(remote);
    const char *fault = changes_only(remote, names, false) ? find_fault_in_renewal(remote)
                                                           : "a session has nothing else";
    return fault ? deny(remote, fault) : HF_REMOTE_CHANGES;
}

static enum hf_remote_verdict judge_deletion(struct hf_remote *remote, struct hf_slice session)
{
    if (!session.len) return deny(remote, "records of locks are swept by the service");
    if (is_owners(remote->owner, remote->item)) return HF_REMOTE_CHANGES;
    return is_over(remote, session);
}

/* What the service knows better than the client. */
static void settle(struct hf_remote *remote, bool is_session)
{
    if (!same(remote, "expires")) trim_expiry(remote);
    if (is_session) return;
    set_ttl(remote);
    if (remote->owner.len && get(remote->changed, "forced_by") &&
        (!same(remote, "forced") || !same(remote, "forced_by") || !same(remote, "forced_reason")))
        remote->changed = with_text(remote->arena, remote->changed, "forced_by", remote->owner);
}

enum hf_remote_verdict hf__remote_judge(struct hf_remote *remote)
{
    const struct hf_op *op = remote->op;
    struct hf_slice session = HF_LIT("");
    bool is_session = hf__remote_is_session(remote->key, &session);
    struct hf_item view = is_session ? view_session(remote->arena, remote->owner, remote->item)
                                     : view_lock(remote->arena, op->condition, remote->item);
    enum hf_remote_verdict verdict;
    if (!op->condition) return deny(remote, "a write without a condition");
    if (!hf__condition_holds(op->condition, view)) return HF_REMOTE_REFUSED;
    remote->stays = op->kind == HF_UPDATE_ITEM;
    remote->changed = (struct hf_item){0};
    if (!remote->stays) {
        verdict = remote->exists ? judge_deletion(remote, session) : HF_REMOTE_REFUSED;
    } else {
        struct hf_item start = remote->exists ? view : op->key;
        if (hf__update_apply(remote->arena, op->update, start, &remote->changed, &remote->error) !=
            0)
            return remote->error.code == HF_ERR_NO_MEMORY ? HF_REMOTE_NO_MEMORY
                                                          : deny(remote, remote->error.message);
        verdict = is_session ? judge_session(remote, session) : judge_lock(remote, view);
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
