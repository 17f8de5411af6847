/*
 * Locks on behalf of others: what the service needs beyond the public interface.
 *
 * One client takes locks for any number of callers, each under its own name, and in sessions of
 * their own. Nothing here waits; what takes time calls back on the client's thread, once.
 */
#ifndef HF_CLIENT_ON_BEHALF_H
#define HF_CLIENT_ON_BEHALF_H

#include "client/client.h"
#include "lock/inspection.h"

typedef void (*hf_done_fn)(void *user, int code, const struct hf_error *error);

/*
 * A session that its user renews and closes by hand. Referenced by whoever opened it, until
 * unreferenced. `done` tells when it can be used; the session is `ret`'s whatever it says.
 */
struct hf_session;
int hf__session_open(struct hf_client *client, const struct hf_session_want *want, hf_done_fn done,
                     void *user, struct hf_session **ret, struct hf_error *reterr);
/* By a full lease from now. HF_ERR_LOST: it has ended. */
int hf__session_renew(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr);
/* Releases its locks, and ends it. */
int hf__session_close(struct hf_session *session, hf_done_fn done, void *user,
                      struct hf_error *reterr);
/* How long it is certain to last; 0: it has ended. */
int64_t hf__session_left_ms(const struct hf_session *session);
void hf__session_unref(struct hf_session *session);

/* hf_acquire_async; a session's lock goes with it. `session` may be NULL. */
int hf__acquire_in(struct hf_session *session, struct hf_client *client, const char *name,
                   int64_t timeout_ms, const struct hf_acquire_options *options,
                   hf_acquired_fn done, void *user, struct hf_acquisition **ret,
                   struct hf_error *reterr);

/* By a full lease from now; lease_ms 0: as long as before. A lease never shrinks. */
int hf__lock_renew_async(struct hf_lock *lock, int64_t lease_ms, hf_done_fn done, void *user,
                         struct hf_error *reterr);

/* Who was in the way of an acquire that ended with HF_ERR_HELD or HF_ERR_TIMED_OUT; NULL: not known. */
const struct hf_wait *hf__acquisition_blocked_by(const struct hf_acquisition *acquisition);

struct hf_lock_status {
    int64_t token;
    int64_t lease_ms;
    int64_t left_ms; /* 0: not held any more */
    int64_t since_unix_ms;
    int64_t expires_unix_ms; /* 0: not known */
    struct hf_id grant;
    bool taken_over; /* from somebody who was found dead */
    bool lacks_data; /* there was no memory for its data */
    char instance[HF_INSTANCE_MAX + 1];
};
void hf__lock_status(const struct hf_lock *lock, struct hf_lock_status *ret);

/* hf_force_release in somebody's name; HF_ERR_ABSENT: nobody holds it. */
int hf__force_async(struct hf_client *client, const char *name, const char *by, const char *reason,
                    int64_t timeout_ms, hf_done_fn done, void *user, struct hf_error *reterr);

/* A grant without its lock's name, in any spelling. False: it is none. */
bool hf__grant_parse(struct hf_slice text, struct hf_by_grant *ret);
/*
 * A grant of another process, or from before a restart, is taken up and renewed; `done` gets a
 * handle as if it had been acquired here.
 */
int hf__adopt_async(struct hf_client *client, const struct hf_by_grant *which, int64_t lease_ms,
                    hf_event_fn on_event, void *lock_user, hf_acquired_fn done, void *user,
                    struct hf_error *reterr);
/* `already`: it had been released before. */
typedef void (*hf_released_fn)(void *user, int code, bool already, const struct hf_error *error);
/* Releases one, with data that is stored as it is released; NULL: what is there stays. */
int hf__release_by_grant_async(struct hf_client *client, const struct hf_by_grant *which,
                               const void *data, size_t size, hf_released_fn done, void *user,
                               struct hf_error *reterr);

/* Enters the client; NULL: it has not, and the error says why. */
struct hf_async *hf__async_begin(struct hf_client *client, hf_done_fn done, void *user,
                                 struct hf_error *reterr);

/* From now on others may renew and release its locks by their grants. Before the first of them. */
void hf__client_by_grant(struct hf_client *client);

/* Of a driven client: calls at the store that name it come back on the thread that drives. */
struct hf_mailbox *hf__client_mailbox(struct hf_client *client);

/* The inspection of one lock is begun: `ret_op` reads its record, which is then added to it. */
void hf__client_inspect(struct hf_client *client, struct hf_arena *arena, struct hf_slice name,
                        struct hf_inspection *ret, struct hf_op *ret_op);
/* … and has ended: the result, with whoever waits for it here. NULL: out of memory. */
struct hf_lock_info *hf__inspected(struct hf_client *client,
                                   const struct hf_inspection *inspection);

/* hf_list; the page is the callee's. */
typedef void (*hf_listed_fn)(void *user, int code, struct hf_list_page *page,
                             const struct hf_error *error);
int hf__list_async(struct hf_client *client, const struct hf_list_options *options,
                   hf_listed_fn done, void *user, struct hf_error *reterr);

/* What the client's records look like. It never changes. */
const struct hf_format *hf__client_format(const struct hf_client *client);
const struct hf_layout *hf__client_layout(const struct hf_client *client);
/* Whether this client would take a lock from a holder with these signs of life. */
bool hf__client_finds_dead(struct hf_client *client, const struct hf_liveness *liveness);

/* How many wait for the lock here. */
size_t hf__client_queue(struct hf_client *client, const char *name);
/* Whoever waits is told that the client is being closed. */
void hf__client_refuse_waiters(struct hf_client *client);
/* Everything that is under way ends soon, nothing new begins; the client stays until it is closed.
 */
void hf__client_cut_short(struct hf_client *client);
/* Every lock and session is left as it is: held until its lease ends. Before hf_client_close. */
void hf__client_leave_locks(struct hf_client *client);

#endif
