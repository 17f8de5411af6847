/*
 * Clients of a service: how they see the records of the native format, and how they may change
 * them. Pure.
 *
 * Such a client runs the whole protocol itself, and its requests are those of any client: reads and
 * single conditional writes. But it is not trusted. The service reads the record, works out the
 * result of the client's write, and lets it pass only if that is a step of the protocol which this
 * client may take.
 *
 * Rules
 * R1  Grants are secrets, and are masked in everything that clients are shown (hf__id_mask). A
 *     client that names a grant in the condition of its write has shown that it knows it.
 * R2  A holder is displaced only when the service itself finds it dead, or its session is gone.
 * R3  A token is one more than the last one. Where there was none it is the store's time, as the
 *     service knows it; and the service determines how long the record of a free lock stays.
 * R4  Within a grant, only clients that know it change anything but `intent` and, with the right to
 *     do so, the attributes about a forced release. Versions go up by one, and leases only grow.
 * R5  A session belongs to its owner: only clients of that owner renew or end it while it lives,
 *     and take over what it has left behind. They trust each other with that. Other clients may ask
 *     it for a lock that they may take. An id is bound to its owner (hf__id_bind), so nobody else
 *     can bring back a session that has ended.
 * R6  `owner` and `forced_by` are the client's name as the service knows it.
 */
#ifndef HF_FORMAT_REMOTE_H
#define HF_FORMAT_REMOTE_H

#include "format/format.h"

enum hf_remote_verdict {
    HF_REMOTE_CHANGES, /* `changed` is what is to be written, if the record is still `item` */
    HF_REMOTE_REFUSED, /* the write's own condition does not hold, or somebody is still alive */
    HF_REMOTE_DENIED,  /* `why` */
    HF_REMOTE_NEEDS_SESSION, /* the session `wanted`, to judge it */
    HF_REMOTE_NEEDS_LOCK,    /* the lock `wanted`, likewise */
    HF_REMOTE_NO_MEMORY,
};

/* A record that was read because it was wanted. */
struct hf_remote_fact {
    struct hf_slice about; /* empty: nothing yet */
    bool exists;
    struct hf_item item;
};
enum { HF_REMOTE_SESSIONS = 2 }; /* as many as one write can depend on */

/* One write of such a client. */
struct hf_remote {
    const struct hf_layout *layout;
    struct hf_arena *arena;
    struct hf_slice owner;  /* its name; empty: as it says itself, trusted like all others (R5) */
    bool may_lock;          /* this lock, or the one that `wanted` named; … */
    bool may_force;         /* … and take it away from others */
    int64_t data_max;       /* bytes; 0: any */
    int64_t lease_max_ms;   /* 0: any */
    struct hf_interval now; /* the store's time */
    /* Whether the service would take a lock from this holder. */
    bool (*finds_dead)(void *user, const struct hf_liveness *liveness);
    void *user;
    const struct hf_op *op; /* UPDATE or DELETE, on this key: */
    struct hf_slice key;
    bool exists; /* as the store has it */
    struct hf_item item;
    struct hf_remote_fact sessions[HF_REMOTE_SESSIONS];
    struct hf_remote_fact lock;

    struct hf_slice wanted;
    const char *why;
    struct hf_error error; /* of an update that cannot be applied */
    bool stays;            /* false: it is deleted */
    struct hf_item changed;
};

enum hf_remote_verdict hf__remote_judge(struct hf_remote *remote);
/* The wanted record has been read; then the write is judged again. */
void hf__remote_learn(struct hf_remote *remote, bool is_session, bool exists, struct hf_item item);

/*
 * The write that turns the record into `changed`, if it is still as it was judged. It names only
 * what is changed, so that what others add meanwhile stays.
 */
void hf__remote_write(const struct hf_remote *remote, struct hf_op *ret);

/* An item as such a client is shown it. */
struct hf_item hf__remote_view(const struct hf_layout *layout, struct hf_arena *arena,
                               struct hf_slice owner, struct hf_item item);

/* Whether a key is a session's, and of what id. */
bool hf__remote_is_session(struct hf_slice key, struct hf_slice *ret_id);
struct hf_slice hf__remote_session_key(struct hf_arena *arena, struct hf_slice id);

#endif
