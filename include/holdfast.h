/*
 * holdfast: distributed locks on DynamoDB, or on one file.
 *
 * This header is the whole public interface; what is not here is not API. It is
 * C99 and C++ clean.
 *
 * What a lock promises
 *
 *   - While it is held, nobody else holds it: as long as the clocks of the
 *     machines run within 0.5 % of true speed, and you ask hf_lock_left_ms (or
 *     hf_lock_is_held) before you act. The clocks need not agree on the time.
 *   - Its token is larger than that of every earlier grant of the lock. A
 *     resource that refuses smaller tokens than it has seen is safe whatever
 *     clocks, pauses and networks do.
 *   - It ends with exactly one final event, which says why.
 *
 * What a lock does not promise
 *
 *   - It does not stop you. A process that is paused for longer than its lease
 *     has lost the lock when it wakes up, and knows it only if it asks. Between
 *     asking and acting there is always a moment: what must not happen twice,
 *     guard with the token.
 *   - It does not survive a hand in the table. Who deletes its record, or
 *     releases it by force, frees it while its holder still believes in it, for
 *     up to one lease; who deletes a store's file, for as long as it is open.
 *   - Waiting is fair within one client, not between clients.
 *
 * Threads. Every function may be called from any thread at any time, unless it
 * says otherwise. Callbacks are called on one thread of the client, one at a
 * time, never inside the call that caused them, and with nothing locked. They
 * may call everything that does not wait; what waits returns HF_ERR_IN_CALLBACK
 * there.
 *
 * Fork. A client belongs to the process that made it. In a child every call on
 * it, or on its locks, returns HF_ERR_FORKED (hf_lock_is_held: false); the
 * parent goes on undisturbed. exec() is no problem.
 *
 * Outputs (ret, reterr) are written only on success, and on failure,
 * respectively. The library's threads take no signals.
 *
 * Limits. Lock names have 1 to 1024 bytes, owners 512, data 350 KiB; a lease lasts
 * from 100 ms to a year.
 *
 * Options. Structs of options start with `size`, which is sizeof of the struct;
 * zero everywhere else is the default. Text is UTF-8, and copied.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION_STRING "0.1.0"

/* Of the library that is running, which may be newer than this header: "0.1.0". */
const char *hf_version(void);

/*
 * Every error, once: X(code, number, name, meaning).
 *
 * Functions return 0 or one of these. Numbers are negative and never change
 * their meaning. HF_ERR_OUTCOME_UNKNOWN is special: the write may or may not
 * have happened. Every other error on a write means that it did not happen.
 */
#define HF_ERRORS(X)                                                                               \
    X(HF_ERR_INVALID, -1, "invalid", "an argument does not make sense")                            \
    X(HF_ERR_NO_MEMORY, -2, "no-memory", "out of memory")                                          \
    X(HF_ERR_CONDITION, -3, "condition", "the condition of a write did not hold")                  \
    X(HF_ERR_VALIDATION, -4, "validation", "the store refused the request as malformed")           \
    X(HF_ERR_NO_TABLE, -5, "no-table", "the table does not exist")                                 \
    X(HF_ERR_TABLE_IN_USE, -6, "table-in-use", "the table exists already or is being changed")     \
    X(HF_ERR_THROTTLED, -7, "throttled", "the store asks for fewer requests")                      \
    X(HF_ERR_DENIED, -8, "denied", "the credentials do not permit this")                           \
    X(HF_ERR_CREDENTIALS, -9, "credentials", "no usable credentials were found")                   \
    X(HF_ERR_UNREACHABLE, -10, "unreachable", "the store could not be reached")                    \
    X(HF_ERR_OUTCOME_UNKNOWN, -11, "outcome-unknown", "a write was sent and its fate is unknown")  \
    X(HF_ERR_CANCELLED, -12, "cancelled", "cancelled before it was done")                          \
    X(HF_ERR_BAD_ANSWER, -13, "bad-answer", "the store's answer is invalid")                       \
    X(HF_ERR_STORE, -14, "store", "the store failed on its own side")                              \
    X(HF_ERR_DAMAGED, -15, "damaged", "the file is damaged or belongs to another program")         \
    X(HF_ERR_FULL, -16, "full", "no space is left for the file")                                   \
    X(HF_ERR_READ_ONLY, -17, "read-only", "the file or its directory cannot be written")           \
    X(HF_ERR_BUSY, -18, "busy", "another process kept the file locked for too long")               \
    X(HF_ERR_IO, -19, "io", "reading or writing failed")                                           \
    X(HF_ERR_SYNTAX, -20, "syntax", "a text could not be parsed")                                  \
    X(HF_ERR_LIMIT, -21, "limit", "a size or count limit was exceeded")                            \
    X(HF_ERR_HELD, -22, "held", "somebody else holds the lock")                                    \
    X(HF_ERR_TIMED_OUT, -23, "timed-out", "the lock was not free in time")                         \
    X(HF_ERR_LOST, -24, "lost", "the lock is no longer held")                                      \
    X(HF_ERR_CLOSED, -25, "closed", "the client is closed or being closed")                        \
    X(HF_ERR_FORKED, -26, "forked", "the client belongs to the parent process")                    \
    X(HF_ERR_IN_CALLBACK, -27, "in-callback", "a call that waits was made inside a callback")      \
    X(HF_ERR_UNSUPPORTED, -28, "unsupported", "the table format cannot do this")                   \
    X(HF_ERR_ABSENT, -29, "absent", "there is no such lock")                                       \
    X(HF_ERR_OTHER_LIMIT, -30, "other-limit", "the lock is shared under another limit")

enum hf_error_code {
    HF_OK = 0,
#define HF_ERROR_ENUM(code, number, name, meaning) code = number,
    HF_ERRORS(HF_ERROR_ENUM)
#undef HF_ERROR_ENUM
};

/* The short name of a code ("throttled"), for logs and scripts; "ok" for 0, "unknown" otherwise. */
const char *hf_error_name(int code);

/* One sentence on what a code means. */
const char *hf_error_meaning(int code);

/*
 * An error with a message a person can act on: what was being done, to what,
 * and what the store answered. Owned by the caller; functions that take one
 * accept NULL and write it only when they fail.
 */
struct hf_error {
    int code;
    char message[508];
};

/*
 * Why a lock ended, once: X(constant, number, name, meaning). Every lock ends
 * with exactly one of them.
 */
#define HF_REASONS(X)                                                                              \
    X(HF_REASON_NONE, 0, "none", "the lock has not ended")                                         \
    X(HF_REASON_RELEASED, 1, "released", "released as asked")                                      \
    X(HF_REASON_UNCONFIRMED, 2, "unconfirmed", "released, but the store did not confirm it")       \
    X(HF_REASON_CLOSED, 3, "closed", "released because the client was closed")                     \
    X(HF_REASON_ABANDONED, 4, "abandoned", "the last reference went while it was held")            \
    X(HF_REASON_EXPIRED, 5, "expired", "the lease ended before it was renewed")                    \
    X(HF_REASON_UNREACHABLE, 6, "unreachable", "the lease ended while the store did not answer")   \
    X(HF_REASON_TAKEN, 7, "taken", "somebody else holds it now")                                   \
    X(HF_REASON_DELETED, 8, "deleted", "its record was deleted or changed by hand")                \
    X(HF_REASON_FORCED, 9, "forced", "an operator released it by force")                           \
    X(HF_REASON_SESSION_ENDED, 10, "session-ended", "its session was ended or deleted by others")  \
    X(HF_REASON_STORE_LOST, 11, "store-lost", "the store was damaged, deleted or replaced")

enum hf_reason {
#define HF_REASON_ENUM(code, number, name, meaning) code = number,
    HF_REASONS(HF_REASON_ENUM)
#undef HF_REASON_ENUM
        HF_REASON_COUNT
};

/* The short name of a reason ("taken"), and a sentence on it. */
const char *hf_reason_name(enum hf_reason reason);
const char *hf_reason_meaning(enum hf_reason reason);

enum hf_log_level { HF_LOG_DEBUG = 0, HF_LOG_INFO = 1, HF_LOG_WARN = 2, HF_LOG_ERROR = 3 };

/*
 * Receives one line, without a newline. It is called on the client's thread or on
 * one of the store's, possibly on several at once, with no lock held. While it
 * does not return nothing is renewed: what may block (a file, a pipe) belongs
 * behind a queue. Calls that wait are refused in it, as in every callback. The
 * library itself prints nothing.
 */
typedef void (*hf_log_fn)(void *user, enum hf_log_level level, const char *line);

/* ---- stores ---- */

/*
 * Where locks are kept. A client opens its own by URL; several clients of one
 * process can share one (and must, to share memory:).
 *
 *   file:PATH                                   one file, any number of processes
 *   memory:                                     this process only, gone at its end
 *   https://HOST                                a holdfast service, with a token or a certificate
 *   dynamodb://TABLE?region=R&endpoint=URL      DynamoDB; see docs/STORES.md
 */
struct hf_store;

int hf_store_open(const char *url, hf_log_fn log, void *log_user, struct hf_store **ret,
                  struct hf_error *reterr);

/* All clients of the store must be closed. NULL is ignored. */
void hf_store_close(struct hf_store *store);

/* ---- clients ---- */

struct hf_client;
struct hf_lock;

#define HF_FOREVER INT64_MAX
#define HF_NONE (-1) /* where an option's 0 means a default and the thing itself is not wanted */

/* How a lock is kept alive. */
enum hf_session_mode {
    HF_SESSION_AUTO = 0, /* own leases up to `own_leases` locks, a session for more */
    HF_SESSION_ON = 1,   /* one heartbeat for all locks */
    HF_SESSION_OFF = 2   /* a heartbeat per lock; no shared locks */
};

/* How other holders are found dead. */
enum hf_expiry {
    HF_EXPIRY_BOTH = 0,     /* whichever says so first */
    HF_EXPIRY_OBSERVED = 1, /* their record did not change for their lease, on our clock */
    HF_EXPIRY_CLOCK = 2     /* it has expired by the store's clock, if it says when */
};

struct hf_client_options {
    size_t size;
    const char *store_url;      /* required, unless `store` is given */
    struct hf_store *store;     /* stays open until the client is closed */
    const char *format;         /* NULL: "holdfast" */
    const char *table;          /* NULL: the one that the URL names, or "locks" */
    const char *key_name;       /* NULL: the format's ("key") */
    const char *owner;          /* for people; NULL: user@host:pid */
    int64_t lease_ms;           /* 0: 20000 */
    int64_t heartbeat_ms;       /* 0: lease / 4; at most lease / 2; HF_NONE: renew by hand */
    int64_t warn_ms;            /* warn so long after the last renewal; 0: 2/3 lease; HF_NONE */
    int64_t request_timeout_ms; /* 0: lease / 5, at most 3000 */
    int64_t poll_limit_ms;      /* waiting: the longest time between looks; 0: 1000. Ten times as
                                   long on stores that wake waiters (file:, memory:) */
    int64_t skew_ms;            /* how far the store's own clocks may differ; 0: 1000; HF_NONE */
    int drift_per_mille;        /* taken off every lease of ours; 0: 10 */
    enum hf_expiry expiry;
    enum hf_session_mode session;
    int own_leases;    /* HF_SESSION_AUTO; 0: 4 */
    int64_t keep_s;    /* released records are deleted after this; 0: 86400, at least 3600 */
    bool create_table; /* if it is missing; file: and memory: always do */
    hf_log_fn log;
    void *log_user;
    enum hf_log_level log_level; /* the least one that is logged */
    /* For tables that other lock clients use too; docs/FORMATS.md says which format takes what. */
    const char *sort_key_name; /* NULL: the format's, usually none */
    const char *sort_key;      /* its value, the same for all locks of the client */
    char key_type;             /* 'S', 'N' or 'B'; 0: 'S' */
    const char *prefix;        /* of every key; NULL: the format's, usually none */
    bool fencing;              /* dlock: with tokens */
    bool keep_on_release;      /* awslabs, dynamolock: keep the record, marked as released */
    bool trust_clock;          /* fail-open: trust the clocks of all clients */
    bool hold_on_unavailable;  /* awslabs: a 503 counts as a renewal. Weakens the promise: whoever
                                  still reaches the store takes the lock while it is held here */
    bool driven;               /* no thread: your event loop calls hf_client_process, see below */
    /* For a service (https://HOST). NULL: as the URL says (?token-file=…&ca=…&client-cert=…
     * &client-key=…), or HOLDFAST_TOKEN_FILE, HOLDFAST_CA, HOLDFAST_CLIENT_CERT and
     * HOLDFAST_CLIENT_KEY. The token is read anew for each request. */
    const char *token_file;
    const char *ca_file; /* to trust instead of the system's */
    const char *client_cert_file;
    const char *client_key_file;
};

/*
 * Opens the store and starts one thread (and the store's own). DynamoDB is not
 * asked anything yet, unless create_table is set: hf_table_check does.
 */
int hf_client_new(const struct hf_client_options *options, struct hf_client **ret,
                  struct hf_error *reterr);

/*
 * Ends the client: attempts fail with HF_ERR_CLOSED, all locks are released
 * concurrently, callbacks are run to the end, and then the client is gone.
 * Waits at most timeout_ms for the store (0: 5000), and then for the requests that
 * it is in the middle of. HF_ERR_OUTCOME_UNKNOWN: it did not confirm every
 * release; those locks are left to expire. Handles of locks stay valid until they
 * are unreferenced. Not from a callback. NULL is ignored.
 */
int hf_client_close(struct hf_client *client, int64_t timeout_ms);

/*
 * For a program that is about to stop itself (SIGSTOP), or to be frozen: returns when nothing of it
 * is under way in a file that other processes use, which would have to wait for it; at most after
 * two seconds. Nothing is begun, and nothing renewed, until hf_client_resume. Stores that are not
 * files need none of it.
 */
void hf_client_pause(struct hf_client *client);
void hf_client_resume(struct hf_client *client);

/*
 * A client on your own event loop: set `driven`. It has no thread then; alarms and callbacks run
 * inside hf_client_process, on the thread that calls it:
 *
 *     struct pollfd ready = {.fd = hf_client_fd(client), .events = POLLIN};
 *     for (;;) {
 *         poll(&ready, 1, (int)hf_client_timeout_ms(client));
 *         hf_client_process(client, NULL);
 *     }
 *
 * Heartbeats are sent by it, so call it in time: when the descriptor is readable, and when the
 * time-out has passed. A loop that is late loses its locks as a stopped process does; it never
 * believes to have them for longer than they are its own. Use the client, and the handles of its
 * locks, from the loop's thread. Calls that wait work there, too: they drive the client until they
 * have a result, and run other callbacks meanwhile. From a callback they fail with
 * HF_ERR_IN_CALLBACK, as ever.
 */
/* For poll, epoll, libuv, glib …: readable when there is something to do. -1: it is not driven. */
int hf_client_fd(const struct hf_client *client);
/* How long to wait for that at most; never more than a second. -1: it is not driven. */
int64_t hf_client_timeout_ms(struct hf_client *client);
/* Does what is to be done, and runs callbacks. Never waits. */
int hf_client_process(struct hf_client *client, struct hf_error *reterr);

/* As given, or made up. Lasts as long as the client. */
const char *hf_client_owner(const struct hf_client *client);

/* ---- locks ---- */

enum hf_event_type { HF_EVENT_WARNING = 1, HF_EVENT_LOST = 2, HF_EVENT_RELEASED = 3 };

/* LOST and RELEASED are final: one of them comes, once. All pointers last for the call. */
struct hf_event {
    enum hf_event_type type;
    struct hf_lock *lock;
    const char *name;
    int64_t token;
    enum hf_reason reason;
    int cause;          /* the store's error behind the reason, or 0 */
    const char *detail; /* who took it, who forced it and why; NULL: nothing to add */
    int64_t left_ms;    /* WARNING: until the lock is lost */
};

typedef void (*hf_event_fn)(void *user, const struct hf_event *event);

/* How a wait stands. All pointers last for the call. */
struct hf_wait {
    const char *name;
    const char *owner;            /* who holds the lock; NULL: not known */
    int64_t holders;              /* 0: not known */
    int64_t since_unix_ms;        /* 0: not known, as in the following */
    int64_t expires_unix_ms;      /* by the store's clock */
    int64_t ahead;                /* acquires of this client that come first */
    bool answered;                /* the store has answered since the wait began */
    int failures;                 /* requests in a row that the store did not answer */
    int64_t silent_ms;            /* since the first of them was sent */
    const struct hf_error *error; /* the last of them; NULL: there are none */
    const char *instance;         /* of the owner; NULL: not known */
};

typedef void (*hf_wait_fn)(void *user, const struct hf_wait *wait);

/* An attribute of one's own beside those of the format. */
struct hf_attribute {
    const char *name;
    const char *text;
};

struct hf_acquire_options {
    size_t size;
    bool shared;      /* together with other shared holders */
    int64_t limit;    /* a semaphore: at most so many hold it; 0: no limit, or exclusive */
    const void *data; /* stored with the lock, for others to see; NULL: none, but a
                         shared lock that one joins keeps what is there */
    size_t data_size;
    bool keep_data; /* data that is stored already stays, and `data` is not written */
    const struct hf_attribute *attributes;
    size_t attribute_count;
    bool only_if_exists;  /* HF_ERR_ABSENT for a lock that was never held */
    bool reentrant;       /* if this client holds it already, return that lock once more */
    int64_t lease_ms;     /* 0: the client's; otherwise the lock keeps a lease of its own */
    int64_t warn_ms;      /* 0: the client's */
    hf_event_fn on_event; /* its final call may come after hf_release and hf_lock_unref returned */
    void *user;           /* stays until that call, or until the client is closed */
    const char *owner;    /* whom the lock is for; NULL: the client's */
    hf_wait_fn on_wait;   /* called with `user` while the acquire waits, whenever something about it
                             has changed; never after its result */
    const char *instance; /* which of the owner's programs it is: host, pod or process, at most 128
                             bytes, shown beside the owner; NULL: not said. Native format only */
};

/*
 * Acquires a lock. timeout_ms 0 tries once (HF_ERR_HELD if somebody has it),
 * HF_FOREVER waits until it is granted, the client is closed or something is
 * wrong for good; otherwise HF_ERR_TIMED_OUT comes in time. NULL options are
 * the defaults: exclusive. The lock has one reference, the caller's. Signals do
 * not interrupt it; for that, use hf_acquire_async and cancel.
 */
int hf_acquire(struct hf_client *client, const char *name, int64_t timeout_ms,
               const struct hf_acquire_options *options, struct hf_lock **ret,
               struct hf_error *reterr);

/*
 * The same without waiting: `done` is called once, on the client's thread, also
 * if it is cancelled. `lock` is NULL unless code is 0, and then the callee's.
 * With `ret`, the acquisition is to be freed, before or after that.
 */
struct hf_acquisition;
typedef void (*hf_acquired_fn)(void *user, int code, struct hf_lock *lock,
                               const struct hf_error *error);
int hf_acquire_async(struct hf_client *client, const char *name, int64_t timeout_ms,
                     const struct hf_acquire_options *options, hf_acquired_fn done, void *user,
                     struct hf_acquisition **ret, struct hf_error *reterr);
/* The result is HF_ERR_CANCELLED, unless there was one already. */
void hf_acquisition_cancel(struct hf_acquisition *acquisition);
void hf_acquisition_free(struct hf_acquisition *acquisition);

const char *hf_lock_name(const struct hf_lock *lock);
const char *hf_lock_owner(const struct hf_lock *lock);
/* The fencing token; 0 in a format that has none. */
int64_t hf_lock_token(const struct hf_lock *lock);
/* How long the lock is certain to be held from now on; 0: not any more. */
int64_t hf_lock_left_ms(const struct hf_lock *lock);
bool hf_lock_is_held(const struct hf_lock *lock);
/* Why it ended; HF_REASON_NONE while it is held or being released. */
enum hf_reason hf_lock_reason(const struct hf_lock *lock);
/* The data as it was stored when the lock was granted, or as last set here; NULL: none. */
const void *hf_lock_data(const struct hf_lock *lock, size_t *ret_size);
/* NULL removes it. The pointer that hf_lock_data gave is void after this. Waits. */
int hf_lock_set_data(struct hf_lock *lock, const void *data, size_t size, struct hf_error *reterr);

/*
 * Returns when the lock is certain for at least this long from now, renewing it
 * if need be. A lease that grows stays as long; with a session, for all of its
 * locks. HF_ERR_LOST if it is lost meanwhile. Waits.
 */
int hf_lock_extend(struct hf_lock *lock, int64_t at_least_ms, struct hf_error *reterr);
/* Renews by a full lease now: the heartbeat by hand. Waits. */
int hf_lock_renew(struct hf_lock *lock, struct hf_error *reterr);

struct hf_release_options {
    size_t size;
    const void *data; /* stored as the lock is released; NULL: leave what is there */
    size_t data_size;
    bool best_effort; /* a release that the store does not confirm is no error */
};

/*
 * Releases. From the call on the lock is not held. 0: the store has confirmed;
 * HF_ERR_LOST: it was not held any more; HF_ERR_OUTCOME_UNKNOWN: the store did
 * not answer for a lease, the lock expires by itself. A re-entrant lock is
 * released by as many calls as acquires. The handle stays until it is
 * unreferenced. Waits.
 */
int hf_release(struct hf_lock *lock, const struct hf_release_options *options,
               struct hf_error *reterr);
/* The same without waiting: the final event says how it went. */
int hf_release_async(struct hf_lock *lock, const struct hf_release_options *options,
                     struct hf_error *reterr);

struct hf_lock *hf_lock_ref(struct hf_lock *lock);
/*
 * The last one of a held lock abandons it: it is renewed no more, and free for
 * others when its lease has passed, or, where a session kept it, when somebody
 * asks for it. NULL is ignored.
 */
void hf_lock_unref(struct hf_lock *lock);

/* ---- locks without a process ---- */

/*
 * The grant of a lock as text (the lock's name, '#', 32 hex digits), by which any process renews
 * or releases it: for scripts. Take the lock with HF_SESSION_OFF, and unreference it without
 * releasing it; from then on nobody renews it but who has the grant. Not for locks that a session
 * keeps (HF_ERR_UNSUPPORTED).
 */
#define HF_GRANT_SIZE 1088
int hf_lock_grant(const struct hf_lock *lock, char ret[HF_GRANT_SIZE], struct hf_error *reterr);

struct hf_grant_status {
    int64_t token;
    int64_t lease_ms;
    int64_t left_ms;         /* how long it is certain to be held from now on */
    int64_t expires_unix_ms; /* by the store's clock; 0: not known */
};

/*
 * Renews by a full lease from now, also one that has ended, if nobody has taken the lock since.
 * lease_ms 0: as long as before (where records do not tell, in dlock and single-table: the client's
 * lease). A lease never shrinks: a shorter one is as long as before. HF_ERR_LOST: the record says
 * that the grant does not hold the lock any more. Waits.
 */
int hf_grant_renew(struct hf_client *client, const char *grant, int64_t lease_ms,
                   struct hf_grant_status *ret, struct hf_error *reterr);
/*
 * Ends it for everybody who acts for the grant. HF_ERR_LOST as above; a native lock that this grant
 * has released before counts as released. Waits.
 */
int hf_grant_release(struct hf_client *client, const char *grant, struct hf_error *reterr);

/* ---- looking ---- */

enum hf_lock_state {
    HF_LOCK_FREE = 0,
    HF_LOCK_HELD = 1,
    HF_LOCK_EXPIRED = 2, /* nobody has taken it since its last lease ended: free for the taking */
    HF_LOCK_DAMAGED = 3, /* its record is invalid: nobody takes it, somebody should look */
};
/* "free", "held", "expired", "damaged". */
const char *hf_lock_state_name(enum hf_lock_state state);

/* Somebody who holds a lock, or waits for it. */
struct hf_lock_party {
    const char *owner;       /* NULL: not known */
    const char *session;     /* that keeps it; NULL: none */
    int64_t since_unix_ms;   /* 0: not known, as in the following */
    int64_t lease_ms;        /* of a holder */
    int64_t expires_unix_ms; /* of a holder, by the store's clock */
    const char *instance;    /* of the owner; NULL: not known */
};

struct hf_lock_info {
    const char *name;
    bool held; /* or damaged: nobody else gets it now */
    bool shared;
    bool damaged;      /* the record is invalid: nobody takes it, somebody should look */
    const char *owner; /* who holds it, or held it last; of a shared one, who came last */
    int64_t token;
    int64_t holders;
    int64_t limit;           /* shared; 0: no limit */
    int64_t since_unix_ms;   /* 0: not known */
    int64_t lease_ms;        /* 0: not known */
    int64_t expires_unix_ms; /* by the store's clock; 0: not known */
    const void *data;
    size_t data_size;
    const char *forced_by; /* who released it by force last, and why; NULL: nobody */
    const char *forced_reason;
    const char *damage;   /* the attribute that is invalid; NULL: none */
    int64_t waiters;      /* those who are known to wait: in this client, or for readers to leave */
    const char *sort_key; /* hf_list, where the table has one; otherwise NULL */
    const struct hf_attribute *attributes; /* those beside the format's that are text */
    size_t attribute_count;
    enum hf_lock_state state;
    const struct hf_lock_party *held_by; /* all holders, as far as they are known */
    size_t held_by_count;
    const struct hf_lock_party *waiting; /* those of `waiters` that are known by more */
    size_t waiting_count;
    int64_t now_unix_ms;  /* the store's time when it was looked at; 0: not known */
    const char *instance; /* of the owner; NULL: not known */
};

/* Who holds it, without acquiring. HF_ERR_ABSENT: never held, or long ago. Waits. */
int hf_get(struct hf_client *client, const char *name, struct hf_lock_info **ret,
           struct hf_error *reterr);
void hf_lock_info_free(struct hf_lock_info *info);

struct hf_list_options {
    size_t size;
    const char *prefix; /* of the names */
    const char *cursor; /* the page before said where to go on; NULL: at the beginning */
    int limit;          /* locks looked at for a page; 0: 100 */
    bool held_only;
    const char *name;  /* the locks with this partition key, under all sort keys */
    bool any_sort_key; /* not only those under the client's */
};

struct hf_list_page {
    const struct hf_lock_info *locks; /* in no particular order */
    size_t count;
    const char *cursor; /* NULL: this was the last page */
};

/* A page may be empty and yet not the last. Waits. */
int hf_list(struct hf_client *client, const struct hf_list_options *options,
            struct hf_list_page **ret, struct hf_error *reterr);
void hf_list_page_free(struct hf_list_page *page);

/*
 * Takes a lock away from whoever holds it, for an operator who knows better.
 * The reason and the client's owner are recorded in the lock. A holder with a
 * session is asked first and gets until it has obeyed or its lease has ended;
 * one with its own lease hears of it at its next heartbeat. HF_ERR_ABSENT:
 * nobody holds it. Waits, at most timeout_ms (0: 60000).
 */
int hf_force_release(struct hf_client *client, const char *name, const char *reason,
                     int64_t timeout_ms, struct hf_error *reterr);

/*
 * Calls back with the state of a lock, at once and whenever it has changed.
 * `info` lasts for the call; a lock that does not exist is shown as not held.
 * Looks every interval_ms (0: the client's poll limit); what happens in between
 * and is undone again goes unseen.
 */
struct hf_watcher;
typedef void (*hf_watch_fn)(void *user, const struct hf_lock_info *info);
int hf_watch(struct hf_client *client, const char *name, int64_t interval_ms, hf_watch_fn changed,
             void *user, struct hf_watcher **ret, struct hf_error *reterr);
/* No call comes after this returns, except one that runs at this moment. */
void hf_watch_stop(struct hf_watcher *watcher);

/* ---- leader election ---- */

enum hf_leadership {
    HF_LEADER_SELF = 1,  /* this campaign leads now */
    HF_LEADER_LOST = 2,  /* it does not lead any more; it goes on campaigning unless it resigned */
    HF_LEADER_OTHER = 3, /* somebody else leads, as `info` says */
    HF_LEADER_NONE = 4,  /* nobody leads */
    HF_LEADER_ENDED = 5  /* the campaign is over: the client is closed, or out of memory */
};

/* `info` is NULL for SELF, LOST and ENDED. */
typedef void (*hf_leadership_fn)(void *user, enum hf_leadership state,
                                 const struct hf_lock_info *info);

struct hf_elect_options {
    size_t size;
    const void *data; /* what a leader says of itself: an address, say */
    size_t data_size;
    int64_t lease_ms;  /* 0: the client's */
    bool observe_only; /* only report who leads */
    hf_leadership_fn changed;
    void *user;
};

struct hf_election;
/* Starts a campaign: leads as soon as and as long as possible, whatever the store says meanwhile.
 */
int hf_elect(struct hf_client *client, const char *name, const struct hf_elect_options *options,
             struct hf_election **ret, struct hf_error *reterr);
/* True while this campaign is certain to lead; ask before you act. */
bool hf_election_is_leader(const struct hf_election *election);
/* The token of the leadership; 0 if it does not lead. */
int64_t hf_election_token(const struct hf_election *election);
/* Gives up leading and campaigning, and frees the election. Waits; not from a callback. */
int hf_election_resign(struct hf_election *election, struct hf_error *reterr);

/* ---- tables ---- */

struct hf_table_status {
    bool exists;
    bool active;        /* ready for use */
    bool key_fits;      /* its key is what the format needs */
    bool ttl_enabled;   /* old records are deleted by the table itself */
    int64_t item_count; /* may lag behind */
};

struct hf_table_options {
    size_t size;
    int64_t read_units; /* provisioned capacity; both 0: on demand */
    int64_t write_units;
};

/*
 * Creates the client's table if it is missing, waits until it is ready, and enables its TTL. NULL
 * options: on demand.
 */
int hf_table_create(struct hf_client *client, const struct hf_table_options *options,
                    struct hf_error *reterr);
int hf_table_describe(struct hf_client *client, struct hf_table_status *ret,
                      struct hf_error *reterr);
/*
 * Deletes what the table's TTL has not deleted yet: records that were released, and sessions that
 * ended, so long ago that nobody needs them. Waits.
 */
int hf_table_sweep(struct hf_client *client, int64_t *ret_deleted, struct hf_error *reterr);
/* 0 if locks can be kept in it; otherwise the message says what to do. */
int hf_table_check(struct hf_client *client, struct hf_error *reterr);

/* ---- for those who look after it ---- */

/*
 * The store's time now, as far as it is known: between these two, unix microseconds. HF_ERR_ABSENT
 * before the store has been asked anything.
 */
int hf_store_time(struct hf_client *client, int64_t *ret_lo_unix_us, int64_t *ret_hi_unix_us,
                  struct hf_error *reterr);

struct hf_store_info {
    const char *kind; /* "file", "memory", "dynamodb", "service" */
    char table[256];
    char place[1024]; /* the file, or the endpoint's URL */
    char region[64];
    char credentials[32]; /* where they were found: "environment", "profile", … */
    char key_id[32];      /* all but its last four characters hidden */
    int64_t key_expires_unix_ms;
};

/* Finds credentials, if they are needed. To be freed. Waits. */
int hf_store_describe(struct hf_client *client, struct hf_store_info **ret,
                      struct hf_error *reterr);
void hf_store_info_free(struct hf_store_info *info);

/* What a table format can do; docs/FORMATS.md. */
struct hf_format_info {
    const char *name;
    const char *key_name;
    bool leases; /* otherwise a lock stays until it is released */
    bool tokens;
    bool data;
    bool shared;
    bool semaphores;
    bool sessions;
    bool by_observation; /* how others are found dead */
    bool by_clock;
    bool sort_keys;
    bool key_types; /* keys of type N and B */
};
/* The formats by number, from 0; HF_ERR_ABSENT behind the last. */
int hf_format_describe(size_t index, struct hf_format_info *ret);

#ifdef __cplusplus
}
#endif
#endif
