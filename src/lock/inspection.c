#include "lock/inspection.h"

#include "lock/inside.h"

/* At most this number is read per inspection; locks of further sessions count as held. */
enum { SESSIONS_READ = 64 };

struct hf_seen_session {
    struct hf_slice id;
    bool wanted; /* it keeps a holder or a waiter */
    bool known;
    struct hf_session_record record;
};

struct hf_seen_lock {
    struct hf_slice name;
    struct hf_record record;
};

void hf__inspection_init(struct hf_inspection *inspection, const struct hf_core_options *core,
                         struct hf_arena *arena)
{
    *inspection = (struct hf_inspection){.core = core, .arena = arena};
}

void hf__inspection_time(struct hf_inspection *inspection, const struct hf_answer *answer)
{
    if (answer->store.known) inspection->now = answer->store;
}

/* ---- sessions ---- */

static struct hf_seen_session *find(const struct hf_inspection *inspection, struct hf_slice id)
{
    for (size_t i = 0; i < inspection->session_count; i++)
        if (hf__slice_eq(inspection->sessions[i].id, id)) return &inspection->sessions[i];
    return NULL;
}

static struct hf_seen_session *find_or_add(struct hf_inspection *inspection, struct hf_slice id)
{
    struct hf_seen_session *found = find(inspection, id);
    if (found || inspection->session_count == SESSIONS_READ) return found;
    struct hf_seen_session *grown =
        hf__arena_grow(inspection->arena, inspection->sessions, inspection->session_count,
                       &inspection->session_room, sizeof *grown);
    if (!grown) return NULL;
    inspection->sessions = grown;
    found = &grown[inspection->session_count++];
    *found = (struct hf_seen_session){.id = id};
    return found;
}

static void want(struct hf_inspection *inspection, struct hf_slice id)
{
    if (id.len == 0 || !inspection->core->format->sessions) return;
    struct hf_seen_session *session = find_or_add(inspection, id);
    if (session) session->wanted = true;
}

void hf__inspection_meet(struct hf_inspection *inspection, struct hf_item item)
{
    const struct hf_core_options *core = inspection->core;
    struct hf_session_record record;
    if (!core->format->sessions) return;
    core->format->sessions->parse(&core->layout, inspection->arena, true, item, &record);
    if (record.damaged) return;
    struct hf_seen_session *session = find_or_add(inspection, record.liveness.id);
    if (!session) return;
    session->record = record;
    session->known = true;
}

bool hf__inspection_next(struct hf_inspection *inspection, struct hf_op *ret)
{
    const struct hf_core_options *core = inspection->core;
    for (; inspection->next < inspection->session_count; inspection->next++) {
        const struct hf_seen_session *session = &inspection->sessions[inspection->next];
        if (!session->wanted || session->known) continue;
        core->format->sessions->read(&core->layout, inspection->arena, session->id, ret);
        return true;
    }
    return false;
}

void hf__inspection_answer(struct hf_inspection *inspection, const struct hf_answer *answer)
{
    const struct hf_core_options *core = inspection->core;
    struct hf_seen_session *session = &inspection->sessions[inspection->next++];
    core->format->sessions->parse(&core->layout, inspection->arena, answer->has_item, answer->item,
                                  &session->record);
    session->known = true;
    hf__inspection_time(inspection, answer);
}

/* ---- locks ---- */

void hf__inspection_add(struct hf_inspection *inspection, struct hf_slice name, bool has_item,
                        struct hf_item item)
{
    const struct hf_core_options *core = inspection->core;
    struct hf_seen_lock *grown = hf__arena_grow(
        inspection->arena, inspection->locks, inspection->count, &inspection->room, sizeof *grown);
    if (!grown) return;
    inspection->locks = grown;
    struct hf_seen_lock *lock = &grown[inspection->count++];
    *lock = (struct hf_seen_lock){.name = name};
    core->format->parse(&core->layout, inspection->arena, has_item, item, &lock->record);
    const struct hf_record *record = &lock->record;
    if (record->exclusive) want(inspection, record->holder.session);
    for (size_t i = 0; i < record->member_count; i++) want(inspection, record->members[i].session);
    if (record->has_intent) want(inspection, record->intent.session);
}

/* False: the party is gone, with its session. */
static bool meet_party(const struct hf_inspection *inspection, const struct hf_record *record,
                       const struct hf_holder *holder, struct hf_party *ret)
{
    *ret = (struct hf_party){.session = holder->session};
    if (holder->session.len == 0) return true;
    const struct hf_seen_session *session = find(inspection, holder->session);
    if (holder == &record->holder) ret->owner = record->owner;
    if (!session || !session->known) return true;
    if (!session->record.exists) return false;
    if (session->record.owner.len > 0 && ret->owner.len == 0) ret->owner = session->record.owner;
    ret->instance = session->record.instance;
    if (session->record.damaged) return true;
    ret->lease_ms = session->record.liveness.lease_ms;
    ret->expires_unix_ms = session->record.liveness.expires_unix_ms;
    return true;
}

static size_t meet_holders(const struct hf_inspection *inspection, const struct hf_record *record,
                           struct hf_party *ret)
{
    size_t count = 0;
    if (record->exclusive && meet_party(inspection, record, &record->holder, &ret[count])) {
        struct hf_party *party = &ret[count++];
        party->owner = record->owner;
        if (record->instance.len > 0) party->instance = record->instance;
        party->since_unix_ms = record->since_unix_ms;
        if (party->session.len == 0) {
            party->lease_ms = record->liveness.lease_ms;
            party->expires_unix_ms = record->liveness.expires_unix_ms;
        }
    }
    for (size_t i = 0; i < record->member_count; i++)
        count += meet_party(inspection, record, &record->members[i], &ret[count]);
    return count;
}

static bool is_over(const struct hf_inspection *inspection, const struct hf_party *party)
{
    return inspection->now.known && party->expires_unix_ms > 0 &&
           party->expires_unix_ms * 1000 <= inspection->now.lo_unix_us;
}

static enum hf_lock_state judge(const struct hf_inspection *inspection, const struct hf_view *view)
{
    if (view->record->damaged) return HF_LOCK_DAMAGED;
    if (view->held_by_count == 0) return HF_LOCK_FREE;
    for (size_t i = 0; i < view->held_by_count; i++)
        if (!is_over(inspection, &view->held_by[i])) return HF_LOCK_HELD;
    return HF_LOCK_EXPIRED;
}

void hf__inspection_view(const struct hf_inspection *inspection, size_t at, struct hf_view *ret)
{
    const struct hf_seen_lock *lock = &inspection->locks[at];
    const struct hf_record *record = &lock->record;
    size_t most = (record->exclusive ? 1 : 0) + record->member_count + 1;
    struct hf_party *parties = hf__arena_zalloc(inspection->arena, most, sizeof *parties);
    *ret = (struct hf_view){
        .name = lock->name,
        .record = record,
        .shared = record->member_count > 0 || record->readers > 0,
    };
    if (parties) { /* otherwise the arena has failed, and says so */
        ret->held_by = parties;
        ret->held_by_count = meet_holders(inspection, record, parties);
        struct hf_party *waiting = &parties[ret->held_by_count];
        if (record->has_intent && meet_party(inspection, record, &record->intent, waiting)) {
            ret->waiting = waiting;
            ret->waiting_count = 1;
        }
    }
    ret->holders = record->readers > 0 && ret->held_by_count > 0 ? record->readers
                                                                 : (int64_t)ret->held_by_count;
    ret->state = judge(inspection, ret);
    for (size_t i = 0; i < ret->held_by_count; i++) {
        const struct hf_party *party = &ret->held_by[i];
        if (party->expires_unix_ms == 0) { /* may last longer than all others */
            ret->expires_unix_ms = 0;
            ret->lease_ms = party->lease_ms;
            break;
        }
        if (party->expires_unix_ms < ret->expires_unix_ms) continue;
        ret->expires_unix_ms = party->expires_unix_ms;
        ret->lease_ms = party->lease_ms;
    }
}
