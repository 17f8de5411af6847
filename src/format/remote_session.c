/* How remote clients may change sessions (R5). */
#include "format/remote_inside.h"

enum { ASKED_MOST = 256 }; /* of one session, at a time */

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
            !hf__slice_eq(hf__remote_mask(remote->arena, holder->grant), errand->grant))
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
    struct hf_values had = hf__attr_set(remote->item, name);
    struct hf_errand_text errand;
    struct hf_slice by, reason, raw;
    bool parsed = revokes ? hf__revocation_parse(text, &errand, &by, &reason)
                          : hf__errand_parse(text, &errand);
    if (!parsed || had.count >= ASKED_MOST)
        return hf__remote_deny(remote, "it is asked for too much");
    if (!hf__remote_changes_only(remote, names, false))
        return hf__remote_deny(remote, "asking changes nothing else");
    remote->wanted = errand.name;
    if (!hf__slice_eq(remote->lock.about, errand.name)) return HF_REMOTE_NEEDS_LOCK;
    if (revokes && !remote->may_force) return hf__remote_deny(remote, "forcing it is not allowed");
    if (!revokes && !remote->may_lock)
        return hf__remote_deny(remote, "permission denied for this lock");
    if (!find_errand(remote, session, &errand, &raw)) return HF_REMOTE_REFUSED;
    struct hf_difference one = {.added = 1};
    if (remote->owner.len) by = remote->owner;
    one.new = revokes
                  ? hf__revocation_print(remote->arena, errand.kind, raw, errand.name, by, reason)
                  : hf__errand_print(remote->arena, errand.kind, raw, errand.name);
    for (size_t i = 0; i < had.count; i++)
        if (hf__slice_eq(had.at[i].bytes, one.new)) one.added = 0;
    remote->changed = hf__remote_replace(remote->arena, remote->changed, name, had, one);
    return HF_REMOTE_CHANGES;
}

enum hf_remote_verdict hf__remote_judge_session(struct hf_remote *remote, struct hf_slice session)
{
    static const char *const names[] = {"owner", "instance", "version", "by",
                                        "lease", "expires",  "ttl",     NULL};
    static const char *const cleared[] = {"asked", "revoked", NULL};
    static const char *const sets[] = {"asked", "revoked"};
    struct hf_id id;
    bool own = hf__remote_is_owners(remote->owner, remote->item);
    struct hf_item view = hf__remote_view_session(remote->arena, remote->owner, remote->item);
    if (!hf__id_parse(session, &id)) return hf__remote_deny(remote, "no session has this name");
    struct hf_difference differences[2] = {{0}};
    for (size_t i = 0; i < 2; i++) {
        const struct hf_value *hidden = hf__attr(remote->item, sets[i]);
        differences[i] = hf__remote_compare(remote->arena, hf__attr_set(view, sets[i]),
                                            hf__attr_set(remote->changed, sets[i]));
        /* The client does not change what it does not see. */
        if (!own)
            remote->changed =
                hf__item_with(remote->arena, remote->changed, hf__slice_str(sets[i]), hidden);
    }
    for (size_t i = 0; i < 2 && remote->exists; i++) {
        if (differences[i].added > 1)
            return hf__remote_deny(remote, "a write may change only one holder");
        if (differences[i].added && !differences[i].removed)
            return ask(remote, session, sets[i], differences[i].new);
    }
    if (!remote->exists) {
        struct hf_id owner;
        hf__id_of_owner(remote->owner, &owner);
        const char *fault = hf__remote_changes_only(remote, names, false)
                                ? hf__remote_find_fault_in_lease(remote, 0)
                                : "a session has nothing else";
        if (remote->owner.len && !hf__id_is_bound(&id, &owner))
            fault = "its id is not one of this caller's";
        if (fault) return hf__remote_deny(remote, fault);
        hf__remote_set_owner(remote);
        return HF_REMOTE_CHANGES;
    }
    if (!own) return hf__remote_deny(remote, "the session is not this client's");
    if (hf__remote_changes_only(remote, cleared, false)) return HF_REMOTE_CHANGES;
    hf__remote_set_owner(remote);
    const char *fault = hf__remote_changes_only(remote, names, false)
                            ? hf__remote_find_fault_in_renewal(remote)
                            : "a session has nothing else";
    return fault ? hf__remote_deny(remote, fault) : HF_REMOTE_CHANGES;
}
