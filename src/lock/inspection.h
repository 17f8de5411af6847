/*
 * Inspecting locks without taking them, by their records and the sessions that keep them.
 *
 * A machine without I/O, like the core: records go in, reads of sessions come out, and their
 * answers go in until there are no more. Then each lock has one state, the same for every user:
 * get, list, watch, the service, the command.
 *
 *   free      it has no holder: never held, released, or its holder's session has ended
 *   held      it has a holder, or may have: a holder that cannot be judged counts
 *   expired   by the store's clock the leases of all its holders have expired; not taken over yet
 *   damaged   its record is invalid: no client takes it, and an operator should inspect it
 *
 * All memory comes from the arena given to hf__inspection_init.
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

/* A holder of the lock, or a waiter. 0 and empty: not known. */
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
    int64_t holders; /* at least the number of parties listed */
    const struct hf_party *held_by;
    size_t held_by_count;
    const struct hf_party *waiting;
    size_t waiting_count;
    /* Of the holder whose lease ends last. */
    int64_t lease_ms;
    int64_t expires_unix_ms;
};

void hf__inspection_init(struct hf_inspection *inspection, const struct hf_core_options *core,
                         struct hf_arena *arena);
/* Takes the store's time from an answer. */
void hf__inspection_time(struct hf_inspection *inspection, const struct hf_answer *answer);
/* Adds a lock, by its record. */
void hf__inspection_add(struct hf_inspection *inspection, struct hf_slice name, bool has_item,
                        struct hf_item item);
/* Offers an item found by the way: if it is a session's record, that one is not read again. */
void hf__inspection_meet(struct hf_inspection *inspection, struct hf_item item);
/* The next read, whose answer is given to hf__inspection_answer; false: there is none. */
bool hf__inspection_next(struct hf_inspection *inspection, struct hf_op *ret);
void hf__inspection_answer(struct hf_inspection *inspection, const struct hf_answer *answer);
/* Call when nothing is left to read. */
void hf__inspection_view(const struct hf_inspection *inspection, size_t at, struct hf_view *ret);

#endif
