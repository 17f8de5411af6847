/*
 * Looking at locks without taking them: what their records, and the sessions that keep them, say.
 *
 * A machine without I/O, as the core is: records go in, reads of sessions come out, and their
 * answers go in until there are no more. Then each lock has one state, whoever asks: get, list,
 * watch, the service, the command.
 *
 *   free      nobody has it: it was never held, was released, or its holder's session has ended
 *   held      somebody has it, or may have: what cannot be judged counts as held
 *   expired   the leases of all who have it are over, by the store's clock, and nobody has taken it yet
 *   damaged   its record is invalid: nobody takes it, somebody should look
 *
 * Everything is in the arena that it is begun with.
 */
#ifndef HF_LOCK_INSPECTION_H
#define HF_LOCK_INSPECTION_H

#include "lock/core.h"

struct hf_seen_session;
struct hf_seen_lock;

struct hf_inspection {
    const struct hf_core_options *core;
    struct hf_arena *arena;
    struct hf_interval now; /* of the last answer */
    struct hf_seen_lock *locks;
    size_t count, room;
    struct hf_seen_session *sessions;
    size_t session_count, session_room;
    size_t next; /* the session to be read */
};

/* Somebody who has the lock, or waits for it. 0 and empty: not known. */
struct hf_party {
    struct hf_slice owner;
    struct hf_slice instance;
    struct hf_slice session; /* empty: a lease of its own */
    int64_t since_unix_ms;
    int64_t lease_ms;
    int64_t expires_unix_ms;
};

struct hf_view {
    struct hf_slice name;
    const struct hf_record *record;
    enum hf_lock_state state;
    bool shared;
    int64_t holders; /* at least as many as are listed */
    const struct hf_party *held_by;
    size_t held_by_count;
    const struct hf_party *waiting;
    size_t waiting_count;
    /* Of the holder who lasts longest. */
    int64_t lease_ms;
    int64_t expires_unix_ms;
};

void hf__inspection_init(struct hf_inspection *inspection, const struct hf_core_options *core,
                         struct hf_arena *arena);
/* What time it is at the store, by any answer. */
void hf__inspection_time(struct hf_inspection *inspection, const struct hf_answer *answer);
/* One more lock, by its record. */
void hf__inspection_add(struct hf_inspection *inspection, struct hf_slice name, bool has_item,
                        struct hf_item item);
/* An item that was met on the way, and may be a session: it need not be read. */
void hf__inspection_meet(struct hf_inspection *inspection, struct hf_item item);
/* The next read, whose answer is given to hf__inspection_answer; false: there is none. */
bool hf__inspection_next(struct hf_inspection *inspection, struct hf_op *ret);
void hf__inspection_answer(struct hf_inspection *inspection, const struct hf_answer *answer);
/* When nothing is left to be read. */
void hf__inspection_view(const struct hf_inspection *inspection, size_t at, struct hf_view *ret);

#endif
