/*
 * Locks on behalf of others: the calls that the service needs beyond the public interface.
 *
 * One client takes locks for any number of callers, each with its own owner, and in sessions of
 * their own. Nothing here waits; a call that takes time calls back on the client's thread, once.
 */
#ifndef HF_CLIENT_ON_BEHALF_H
#define HF_CLIENT_ON_BEHALF_H

#include "client/client.h"
#include "lock/inspection.h"

typedef void (*hf_done_fn)(void *user, int code, const struct hf_error *error);

/*
 * A session that its user renews and closes. The user holds a reference until hf__session_unref.
 * `done` tells when it can be used; the user keeps the reference even if that is an error.
 */
struct hf_session;
int hf__session_open(struct hf_client *client, const struct hf_session_want *want, hf_done_fn done,
                     void *user, struct hf_session **ret, struct hf_error *reterr);
/* Renews it by a full lease from now. HF_ERR_LOST: it has ended. */
int hf__session_renew(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr);
/* Releases its locks, and ends it. */
int hf__session_close(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr);
/* How long it is certain to last; 0: it has ended, or another service has to be asked. */
int64_t hf__session_left_ms(const struct hf_session *session);
/*
 * Takes up a session that another process opened, or this one before a restart, by its secret, and
 * renews it. An empty owner: anybody's. HF_ERR_LOST: there is none of that owner.
 */
int hf__session_adopt(struct hf_client *client, const struct hf_id *secret, const char *owner,
                      hf_done_fn done, void *user, struct hf_session **ret,
                      struct hf_error *reterr);
/* The texts are valid until the session is unreferenced. */
void hf__session_status(const struct hf_session *session, struct hf_session_facts *ret);
void hf__session_unref(struct hf_session *session);

/* Releases a lock that no caller was told of, unless another service has renewed it since. */
void hf__lock_give_back(struct hf_lock *lock);
/* HF_ERR_HELD: by an earlier call with the same identity, with this grant; NULL: by another. */
const struct hf_id *hf__acquisition_repeats(const struct hf_acquisition *acquisition);

/* The lock ends with its session. `session` may be NULL. */
int hf__acquire_in(struct hf_client *client, const struct hf_session *session,
                   const struct hf_acquire_call *call, struct hf_acquisition **ret,
                   struct hf_error *reterr);

/* Renews it by a full lease from now; lease_ms 0: as before. A lease never shrinks. */
int hf__lock_renew_async(struct hf_lock *lock, int64_t lease_ms, hf_done_fn done, void *user,
                         struct hf_error *reterr);

/* The holder that blocked an acquire ending in HF_ERR_HELD or HF_ERR_TIMED_OUT; NULL: not known. */
const struct hf_wait *hf__acquisition_blocked_by(const struct hf_acquisition *acquisition);

struct hf_lock_status {
    int64_t token;
    int64_t lease_ms;
    int64_t left_ms; /* 0: no longer held */
    int64_t since_unix_ms;
    int64_t expires_unix_ms; /* 0: not known */
    struct hf_id grant;
    int64_t limit;   /* 0: exclusive */
    bool in_session; /* a session keeps it */
    bool taken_over; /* from a holder that was found dead */
    bool lacks_data; /* out of memory for its data */
    char instance[HF_INSTANCE_MAX + 1];
};
void hf__lock_status(const struct hf_lock *lock, struct hf_lock_status *ret);

/* hf_force_release in the name of `by`; HF_ERR_ABSENT: it is not held. */
struct hf_force_call {
    const char *name;
    const char *by;
    const char *reason;
    int64_t timeout_ms;
};
int hf__force_async(struct hf_client *client, const struct hf_force_call *call, hf_done_fn done,
                    void *user, struct hf_error *reterr);

/* Parses a grant without its lock's name, in any spelling. False: invalid. */
bool hf__grant_parse(struct hf_slice text, struct hf_by_grant *ret);
/*
 * Takes up and renews a grant of another process, or from before a restart; `done` gets a
 * handle as if it had been acquired here.
 */
struct hf_adopt_call {
    const struct hf_by_grant *which;
    int64_t lease_ms; /* 0: as before */
    hf_acquired_fn done;
    void *user;
    hf_event_fn on_event; /* of the lock … */
    void *lock_user;      /* … and its user */
};
int hf__adopt_async(struct hf_client *client, const struct hf_adopt_call *call,
                    struct hf_error *reterr);
/* `already`: it had been released before. */
typedef void (*hf_released_fn)(void *user, int code, bool already, const struct hf_error *error);
/* Releases by grant, storing data with the release; NULL: the stored data stays. */
int hf__release_by_grant_async(struct hf_client *client, const struct hf_by_grant *which,
                               const void *data, size_t size, hf_released_fn done, void *user,
                               struct hf_error *reterr);

/* Enters the client; NULL: it did not, and the error says why. */
struct hf_async *hf__async_begin(struct hf_client *client, hf_done_fn done, void *user,
                                 struct hf_error *reterr);

/* Others may now renew and release its locks by their grants. Call before the first lock. */
void hf__client_by_grant(struct hf_client *client);

/* Another service says that this lock may have changed. From any thread. */
void hf__client_hint(struct hf_client *client, struct hf_slice name);

/* Of a driven client: calls to the store that name it are answered on the driving thread. */
struct hf_mailbox *hf__client_mailbox(struct hf_client *client);

/* Begins the inspection of one lock: `ret_op` reads its record, which is to be added then. */
void hf__client_inspect(struct hf_client *client, struct hf_arena *arena, struct hf_slice name,
                        struct hf_inspection *ret, struct hf_op *ret_op);
/* … and ends it: the result, with the waiters in this client. NULL: out of memory. */
struct hf_lock_info *hf__inspected(struct hf_client *client,
                                   const struct hf_inspection *inspection);

/* hf_list; the callee owns the page. */
typedef void (*hf_listed_fn)(void *user, int code, struct hf_list_page *page,
                             const struct hf_error *error);
int hf__list_async(struct hf_client *client, const struct hf_list_options *options,
                   hf_listed_fn done, void *user, struct hf_error *reterr);

/* The format of the client's records. It never changes. */
const struct hf_format *hf__client_format(const struct hf_client *client);
const struct hf_layout *hf__client_layout(const struct hf_client *client);
/* Whether this client would take a lock from a holder with these signs of life. */
bool hf__client_finds_dead(struct hf_client *client, const struct hf_liveness *liveness);

/* The number of attempts on the lock here. */
size_t hf__client_queue(struct hf_client *client, const char *name);
/* Refuses all waiters, since the client is being closed. */
void hf__client_refuse_waiters(struct hf_client *client);
/* All work under way ends soon, nothing new begins; the client exists until it is closed. */
void hf__client_cut_short(struct hf_client *client);
/* Leaves all locks and sessions held until their leases end. Call before hf_client_close. */
void hf__client_leave_locks(struct hf_client *client);

#endif
