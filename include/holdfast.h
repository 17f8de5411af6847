/*
 * holdfast: distributed locks on DynamoDB, or on one file.
 *
 * This header is the whole public interface; anything that is not declared here
 * is not API. It is valid C99 and C++.
 *
 * What a lock promises
 *
 *   - While you hold it, nobody else does, provided that the clocks of the
 *     machines run within 0.5 % of true speed and that you call hf_lock_left_ms
 *     (or hf_lock_is_held) before you act. The clocks need not agree on the time.
 *   - Its token is larger than that of every earlier grant of the lock. A
 *     resource that refuses smaller tokens than it has seen is safe whatever
 *     clocks, pauses and networks do.
 *   - It ends with exactly one final event, which gives the reason.
 *
 * What a lock does not promise
 *
 *   - It does not stop you. A process that is paused for longer than its lease
 *     has lost the lock when it wakes up, and knows it only if it asks. There is
 *     always a moment between asking and acting: protect actions that must not
 *     happen twice with the token.
 *   - It does not survive manual changes to the table. Deleting its record, or
 *     releasing it by force, frees the lock while its holder still relies on it,
 *     for up to one lease; deleting a store's file does so for as long as the
 *     file is open.
 *   - Waiting is fair within one client, not between clients.
 *
 * Threads. Every function may be called from any thread at any time, unless its
 * description says otherwise. Callbacks are called on one thread of the client,
 * one at a time, never inside the call that caused them, and with no lock held by
 * the library. They may call every function that does not wait; functions that
 * wait return HF_ERR_IN_CALLBACK there. The library's threads take no signals.
 *
 * Fork. A client belongs to the process that created it. In a child process,
 * every call on it or on its locks returns HF_ERR_FORKED (hf_lock_is_held:
 * false); the parent is not affected. exec() is safe.
 *
 * Outputs. `ret` is written only on success, `reterr` only on failure.
 *
 * Limits. Lock names have 1 to 1024 bytes, owners at most 512, data at most
 * 350 KiB; a lease lasts from 100 ms to a year.
 *
 * Options. Structs of options start with `size`, which is sizeof the struct;
 * zero in any other member selects its default. Text is UTF-8, and is copied.
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

/* The version of the running library, which may be newer than this header: "0.1.0". */
const char *hf_version(void);

/*
 * The list of all errors: X(code, number, name, meaning).
 *
 * Functions return 0 or one of these. Numbers are negative and never change
 * their meaning. HF_ERR_OUTCOME_UNKNOWN is special: the write may or may not
 * have happened. Every other error on a write means that it did not happen.
 */
#define HF_ERRORS(X)                                                                               \
    X(HF_ERR_INVALID, -1, "invalid", "an argument is invalid")                                     \
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
    X(HF_ERR_OTHER_LIMIT, -30, "other-limit", "the lock is shared under another limit")            \
    X(HF_ERR_TRANSACTION, -31, "transaction", "a transaction was cancelled")                       \
    X(HF_ERR_OTHER_REQUEST, -32, "other-request", "the token was used for another request")

enum hf_error_code {
    HF_OK = 0,
#define HF_ERROR_ENUM(code, number, name, meaning) code = number,
    HF_ERRORS(HF_ERROR_ENUM)
#undef HF_ERROR_ENUM
};

/* The short name of a code ("throttled"), for logs and scripts; "ok" for 0, "unknown" otherwise. */
const char *hf_error_name(int code);

/* The meaning of a code in one sentence. */
const char *hf_error_meaning(int code);

/*
 * An error with a message for people: what was being done, to what, and what the
 * store answered. Owned by the caller; functions that take one accept NULL and
 * write it only when they fail.
 */
struct hf_error {
    int code;
    char message[508];
};

/*
 * The list of all reasons why a lock ends: X(constant, number, name, meaning).
 * Every lock ends with exactly one of them.
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

/* The short name of a reason ("taken"), and its meaning in one sentence. */
const char *hf_reason_name(enum hf_reason reason);
const char *hf_reason_meaning(enum hf_reason reason);

enum hf_log_level { HF_LOG_DEBUG = 0, HF_LOG_INFO = 1, HF_LOG_WARN = 2, HF_LOG_ERROR = 3 };

/*
 * Receives one log line, without a newline. It is called on the client's thread or
 * on one of the store's, possibly on several at once, with no lock held. Nothing
 * is renewed until it returns: output that may block (a file, a pipe) should go
 * through a queue. Functions that wait are refused in it, as in every callback.
 * The library itself prints nothing.
 */
typedef void (*hf_log_fn)(void *user, enum hf_log_level level, const char *line);

/* ---- stores ---- */

/*
 * Where locks are kept. A client opens its own store by URL; several clients of one
 * process can share a store (and must, to share memory:).
 *
 *   file:PATH                                   one file, any number of processes
 *   memory:                                     this process only, gone when it ends
 *   https://HOST                                a holdfast service, with a token or a certificate
 *   dynamodb://TABLE?region=R&endpoint=URL      DynamoDB; see docs/STORES.md
 */
struct hf_store;

int hf_store_open(const char *url, hf_log_fn log, void *log_user, struct hf_store **ret,
                  struct hf_error *reterr);

/* All clients of the store must have been closed. NULL is ignored. */
void hf_store_close(struct hf_store *store);

/* ---- clients ---- */

struct hf_client;
struct hf_lock;

#define HF_FOREVER INT64_MAX
#define HF_NONE (-1) /* turns off an option whose 0 means a default */

/* How a lock is kept alive. */
enum hf_session_mode {
    HF_SESSION_AUTO = 0, /* own leases up to `own_leases` locks, a session for more */
    HF_SESSION_ON = 1,   /* one heartbeat for all locks */
    HF_SESSION_OFF = 2   /* a heartbeat per lock; no shared locks */
};

/* How other holders are judged dead. */
enum hf_expiry {
    HF_EXPIRY_BOTH = 0,     /* whichever applies first */
    HF_EXPIRY_OBSERVED = 1, /* the record did not change for its lease, on our clock */
    HF_EXPIRY_CLOCK = 2     /* the record has expired by the store's clock, if it has an expiry */
};

struct hf_client_options {
    size_t size;
    const char *store_url;      /* required, unless `store` is given */
    struct hf_store *store;     /* must stay open until the client is closed */
    const char *format;         /* NULL: "holdfast" */
    const char *table;          /* NULL: the table named in the URL, or "locks" */
    const char *key_name;       /* NULL: the format's ("key") */
    const char *owner;          /* for people; NULL: user@host:pid */
    int64_t lease_ms;           /* 0: 20000 */
    int64_t heartbeat_ms;       /* 0: lease / 4; at most lease / 2; HF_NONE: renew by hand */
    int64_t warn_ms;            /* after the last renewal; 0: 2/3 lease; HF_NONE: no warning */
    int64_t request_timeout_ms; /* 0: lease / 5, at most 3000 */
    int64_t poll_limit_ms;      /* waiting: the longest time between polls; 0: 1000. Ten times as
                                   long on stores that wake waiters (all but dynamodb:) */
    int64_t skew_ms;            /* how far the store's own clocks may differ; 0: 1000; HF_NONE: 0 */
    int drift_per_mille;        /* subtracted from each of our leases; 0: 10 */
    enum hf_expiry expiry;
    enum hf_session_mode session;
    int own_leases;    /* HF_SESSION_AUTO; 0: 4 */
    int64_t keep_s;    /* released records are deleted after this time; 0: 86400; at least 3600 */
    bool create_table; /* if it is missing; file: and memory: always create it */
    hf_log_fn log;
    void *log_user;
    enum hf_log_level log_level; /* the lowest level that is logged */
    /* For tables that other lock clients use, too; docs/FORMATS.md lists the formats for each. */
    const char *sort_key_name; /* NULL: the format's, usually none */
    const char *sort_key;      /* its value, common to all locks of the client */
    char key_type;             /* 'S', 'N' or 'B'; 0: 'S' */
    const char *prefix;        /* of every key; NULL: the format's, usually none */
    bool fencing;              /* dlock: with tokens */
    bool keep_on_release;      /* awslabs, dynamolock: keep the record, marked as released */
    bool trust_clock;          /* fail-open: trust the clocks of all clients */
    bool hold_on_unavailable;  /* awslabs: a 503 counts as a renewal. Weakens the promise: a client
                                  that reaches the store takes the lock while it is held here */
    bool driven;               /* no thread: your event loop calls hf_client_process (see below) */
    /* For a service (https://HOST). NULL: as in the URL (?token-file=…&ca=…&client-cert=…
     * &client-key=…), or HOLDFAST_TOKEN_FILE, HOLDFAST_CA, HOLDFAST_CLIENT_CERT and
     * HOLDFAST_CLIENT_KEY. The token is read anew for each request. */
    const char *token_file;
    const char *ca_file; /* certificates to trust instead of the system's */
    const char *client_cert_file;
    const char *client_key_file;
};

/*
 * Opens the store and starts one thread (and the store's own). Sends nothing to
 * DynamoDB yet, unless create_table is set; hf_table_check does.
 */
int hf_client_new(const struct hf_client_options *options, struct hf_client **ret,
                  struct hf_error *reterr);

/*
 * Ends the client: attempts fail with HF_ERR_CLOSED, all locks are released
 * concurrently, all pending callbacks run, and the client is freed. Waits at most
 * timeout_ms for the store (0: 5000), and then for the requests that it is in the
 * middle of. HF_ERR_OUTCOME_UNKNOWN: the store did not confirm every release; those
 * locks are left to expire. Handles of locks stay valid until they are
 * unreferenced. Not from a callback. NULL is ignored.
 */
int hf_client_close(struct hf_client *client, int64_t timeout_ms);

/*
 * For a program that is about to stop itself (SIGSTOP), or to be frozen: returns when the client
 * has no operation in progress in a file that other processes use, because those would have to wait
 * for it; after two seconds at the latest. The client begins nothing, and renews nothing, until
 * hf_client_resume. Stores that are not files do not need this.
 */
void hf_client_pause(struct hf_client *client);
void hf_client_resume(struct hf_client *client);

/*
 * A client on your own event loop: set `driven`. It then has no thread; timers and callbacks run
 * inside hf_client_process, on the thread that calls it:
 *
 *     struct pollfd ready = {.fd = hf_client_fd(client), .events = POLLIN};
 *     for (;;) {
 *         poll(&ready, 1, (int)hf_client_timeout_ms(client));
 *         hf_client_process(client, NULL);
 *     }
 *
 * hf_client_process sends the heartbeats, so call it in time: when the descriptor is readable, and
 * when the timeout has passed. A loop that is late loses its locks as a stopped process does; the
 * client never reports them as held for longer than they are. Use the client, and the handles of
 * its locks, from the loop's thread. Functions that wait work there as well: they drive the client
 * until they have a result, and run other callbacks meanwhile. In a callback they fail with
 * HF_ERR_IN_CALLBACK, as always.
 */
/* For poll, epoll, libuv, glib …: readable when there is work. -1: the client is not driven. */
int hf_client_fd(const struct hf_client *client);
/* The maximum time to wait for that, never more than a second. -1: the client is not driven. */
int64_t hf_client_timeout_ms(struct hf_client *client);
/* Does all pending work, and runs callbacks. Never waits. */
int hf_client_process(struct hf_client *client, struct hf_error *reterr);

/* The owner from the options, or the generated one. Valid until the client is closed. */
const char *hf_client_owner(const struct hf_client *client);

/* ---- locks ---- */

enum hf_event_type { HF_EVENT_WARNING = 1, HF_EVENT_LOST = 2, HF_EVENT_RELEASED = 3 };

/* LOST and RELEASED are final: exactly one comes, once. Pointers are valid during the call. */
struct hf_event {
    enum hf_event_type type;
    struct hf_lock *lock;
    const char *name;
    int64_t token;
    enum hf_reason reason;
    int cause;          /* the store's error that led to it, or 0 */
    const char *detail; /* who took it, or who forced it and why; NULL: none */
    int64_t left_ms;    /* WARNING: until the lock is lost */
};

typedef void (*hf_event_fn)(void *user, const struct hf_event *event);

/* The progress of a wait. All pointers are valid during the call. */
struct hf_wait {
    const char *name;
    const char *owner;            /* the holder; NULL: not known */
    int64_t holders;              /* 0: not known */
    int64_t since_unix_ms;        /* 0: not known, as in the following */
    int64_t expires_unix_ms;      /* by the store's clock */
    int64_t ahead;                /* acquires of this client that are ahead in the queue */
    bool answered;                /* the store has answered since the wait began */
    int failures;                 /* consecutive requests that the store did not answer */
    int64_t silent_ms;            /* since the first of them was sent */
    const struct hf_error *error; /* of the last of them; NULL: no failures */
    const char *instance;         /* of the owner; NULL: not known */
};

typedef void (*hf_wait_fn)(void *user, const struct hf_wait *wait);

/* A user-defined attribute beside those of the format. */
struct hf_attribute {
    const char *name;
    const char *text;
};

struct hf_acquire_options {
    size_t size;
    bool shared;      /* together with other shared holders */
    int64_t limit;    /* a semaphore: the maximum number of holders; 0: no limit, or exclusive */
    const void *data; /* stored with the lock, for others to see; NULL: none, except that
                         joining a shared lock keeps its data */
    size_t data_size;
    bool keep_data; /* data that is already stored stays, and `data` is not written */
    const struct hf_attribute *attributes;
    size_t attribute_count;
    bool only_if_exists;  /* HF_ERR_ABSENT for a lock that was never held */
    bool reentrant;       /* if this client already holds the lock, return it once more */
    int64_t lease_ms;     /* 0: the client's; otherwise the lock has a lease of its own */
    int64_t warn_ms;      /* 0: the client's */
    hf_event_fn on_event; /* its final call may come after hf_release and hf_lock_unref returned */
    void *user;           /* must stay valid until that call, or until the client is closed */
    const char *owner;    /* on whose behalf it is acquired; NULL: the client's */
    hf_wait_fn on_wait;   /* called with `user` while the acquire waits, whenever something about
                             the wait has changed; never after the result */
    const char *instance; /* which of the owner's programs acquires: host, pod or process, at most
                             128 bytes, shown beside the owner; NULL: none. Native format only */
};

/*
 * Acquires a lock. timeout_ms 0 tries once (HF_ERR_HELD if somebody else holds the
 * lock). HF_FOREVER waits until the lock is granted, the client is closed or a
 * permanent error occurs. Any other timeout ends with HF_ERR_TIMED_OUT. NULL options
 * are the defaults: exclusive. The returned lock has one reference, owned by the
 * caller. Signals do not interrupt the wait; for that, use hf_acquire_async and
 * cancel.
 */
int hf_acquire(struct hf_client *client, const char *name, int64_t timeout_ms,
               const struct hf_acquire_options *options, struct hf_lock **ret,
               struct hf_error *reterr);

/*
 * The same without waiting: `done` is called once, on the client's thread, even if
 * the acquisition is cancelled. `lock` is NULL unless code is 0; `done` then owns the
 * reference. If `ret` is not NULL, free the acquisition, before or after that call.
 */
struct hf_acquisition;
typedef void (*hf_acquired_fn)(void *user, int code, struct hf_lock *lock,
                               const struct hf_error *error);
int hf_acquire_async(struct hf_client *client, const char *name, int64_t timeout_ms,
                     const struct hf_acquire_options *options, hf_acquired_fn done, void *user,
                     struct hf_acquisition **ret, struct hf_error *reterr);
/* The result is then HF_ERR_CANCELLED, unless there already was one. */
void hf_acquisition_cancel(struct hf_acquisition *acquisition);
/* Frees the handle; the acquisition itself goes on. NULL is ignored. */
void hf_acquisition_free(struct hf_acquisition *acquisition);

/* The name of the lock. Valid while there is a reference to the lock. */
const char *hf_lock_name(const struct hf_lock *lock);
/* The owner of the lock. Valid while there is a reference to the lock. */
const char *hf_lock_owner(const struct hf_lock *lock);
/* The fencing token; 0 in a format without tokens. */
int64_t hf_lock_token(const struct hf_lock *lock);
/* How long the lock is certain to be held from now on; 0: no longer held. */
int64_t hf_lock_left_ms(const struct hf_lock *lock);
/* True while hf_lock_left_ms is greater than 0. False for NULL. */
bool hf_lock_is_held(const struct hf_lock *lock);
/* Why the lock ended; HF_REASON_NONE while it is held or being released. */
enum hf_reason hf_lock_reason(const struct hf_lock *lock);
/* The data as it was stored when the lock was granted, or as last set here; NULL: none. */
const void *hf_lock_data(const struct hf_lock *lock, size_t *ret_size);
/* NULL removes the data. Invalidates the pointer that hf_lock_data returned. Waits. */
int hf_lock_set_data(struct hf_lock *lock, const void *data, size_t size, struct hf_error *reterr);

/*
 * Returns when the lock is certain to be held for at least this long from now,
 * renewing it if necessary. A lease that has grown keeps its length; with a session,
 * for all of its locks. HF_ERR_LOST if the lock is lost meanwhile. Waits.
 */
int hf_lock_extend(struct hf_lock *lock, int64_t at_least_ms, struct hf_error *reterr);
/* Renews for a full lease now: a manual heartbeat. Waits. */
int hf_lock_renew(struct hf_lock *lock, struct hf_error *reterr);

struct hf_release_options {
    size_t size;
    const void *data; /* stored as the lock is released; NULL: keep the data that is there */
    size_t data_size;
    bool best_effort; /* a release that the store does not confirm is not an error */
};

/*
 * Releases the lock, which is not held any more from the call on. 0: the store has
 * confirmed; HF_ERR_LOST: the lock was no longer held; HF_ERR_OUTCOME_UNKNOWN: the
 * store did not answer for a lease, and the lock expires by itself. A re-entrant
 * lock must be released as often as it was acquired. The handle stays valid until it
 * is unreferenced. Waits.
 */
int hf_release(struct hf_lock *lock, const struct hf_release_options *options,
               struct hf_error *reterr);
/* The same without waiting: the final event has the result. */
int hf_release_async(struct hf_lock *lock, const struct hf_release_options *options,
                     struct hf_error *reterr);

/* Adds a reference to the lock, and returns the lock. */
struct hf_lock *hf_lock_ref(struct hf_lock *lock);
/*
 * Dropping the last reference to a held lock abandons it: the lock is not renewed any
 * more, and is free for others when its lease has passed, or, if a session kept it,
 * when somebody asks for it. NULL is ignored.
 */
void hf_lock_unref(struct hf_lock *lock);

/* ---- locks without a process ---- */

/*
 * The grant of a lock as text (the lock's name, '#', 32 hex digits), with which any process can
 * renew or release it: for scripts. Acquire the lock with HF_SESSION_OFF, and unreference it
 * without a release; from then on only processes that have the grant renew it. Not for locks that a
 * session keeps (HF_ERR_UNSUPPORTED).
 */
#define HF_GRANT_SIZE 1088
int hf_lock_grant(const struct hf_lock *lock, char ret[HF_GRANT_SIZE], struct hf_error *reterr);

struct hf_grant_status {
    int64_t token;
    int64_t lease_ms;
    int64_t left_ms;         /* how long the lock is certain to be held from now on */
    int64_t expires_unix_ms; /* by the store's clock; 0: not known */
};

/*
 * Renews for a full lease from now, even if the lease has ended, provided that nobody has taken the
 * lock since. lease_ms 0: as long as before (where records do not contain it, in dlock and
 * single-table: the client's lease). A lease never shrinks: a shorter value keeps the old length.
 * HF_ERR_LOST: according to the record, the grant no longer holds the lock. Waits.
 */
int hf_grant_renew(struct hf_client *client, const char *grant, int64_t lease_ms,
                   struct hf_grant_status *ret, struct hf_error *reterr);
/*
 * Releases the lock, for every process that acts for the grant. HF_ERR_LOST as above; in the native
 * format, repeating a release with the same grant succeeds. Waits.
 */
int hf_grant_release(struct hf_client *client, const char *grant, struct hf_error *reterr);

/* ---- inspection ---- */

enum hf_lock_state {
    HF_LOCK_FREE = 0,
    HF_LOCK_HELD = 1,
    HF_LOCK_EXPIRED = 2, /* the last lease has ended and nobody has taken the lock since */
    HF_LOCK_DAMAGED = 3, /* the record is invalid: nobody takes it, an operator should look */
};
/* "free", "held", "expired", "damaged". */
const char *hf_lock_state_name(enum hf_lock_state state);

/* A holder of a lock, or a waiter. */
struct hf_lock_party {
    const char *owner;       /* NULL: not known */
    const char *session;     /* that keeps the lock; NULL: none */
    int64_t since_unix_ms;   /* 0: not known, as in the next two */
    int64_t lease_ms;        /* of a holder */
    int64_t expires_unix_ms; /* of a holder, by the store's clock */
    const char *instance;    /* of the owner; NULL: not known */
};

struct hf_lock_info {
    const char *name;
    bool held; /* or damaged: nobody else can acquire it now */
    bool shared;
    bool damaged;      /* the record is invalid: nobody takes it, an operator should look */
    const char *owner; /* the holder, or the last one; of a shared lock, the one that joined last */
    int64_t token;
    int64_t holders;
    int64_t limit;           /* shared; 0: no limit */
    int64_t since_unix_ms;   /* 0: not known */
    int64_t lease_ms;        /* 0: not known */
    int64_t expires_unix_ms; /* by the store's clock; 0: not known */
    const void *data;
    size_t data_size;
    const char *forced_by; /* who last force-released it, and why; NULL: nobody */
    const char *forced_reason;
    const char *damage;   /* the invalid attribute; NULL: none */
    int64_t waiters;      /* on file: and memory:, of all processes; -1: not known */
    const char *sort_key; /* hf_list, where the table has one; otherwise NULL */
    const struct hf_attribute *attributes; /* text attributes beside the format's */
    size_t attribute_count;
    enum hf_lock_state state;
    const struct hf_lock_party *held_by; /* all holders, as far as known */
    size_t held_by_count;
    const struct hf_lock_party
        *waiting; /* waiters of this client, or a writer waiting for readers */
    size_t waiting_count;
    int64_t now_unix_ms;  /* the store's time when the lock was read; 0: not known */
    const char *instance; /* of the owner; NULL: not known */
};

/* Reads a lock without acquiring it. HF_ERR_ABSENT: never held, or only long ago. Waits. */
int hf_get(struct hf_client *client, const char *name, struct hf_lock_info **ret,
           struct hf_error *reterr);
/* Frees what hf_get returned. NULL is ignored. */
void hf_lock_info_free(struct hf_lock_info *info);

struct hf_list_options {
    size_t size;
    const char *prefix; /* of the names */
    const char *cursor; /* from the previous page; NULL: start at the beginning */
    int limit;          /* locks examined for a page; 0: 100 */
    bool held_only;
    const char *name;  /* only locks with this partition key, under all sort keys */
    bool any_sort_key; /* not only locks under the client's sort key */
};

struct hf_list_page {
    const struct hf_lock_info *locks; /* in no particular order */
    size_t count;
    const char *cursor; /* NULL: this was the last page */
};

/* A page may be empty without being the last. Waits. */
int hf_list(struct hf_client *client, const struct hf_list_options *options,
            struct hf_list_page **ret, struct hf_error *reterr);
/* Frees a page. NULL is ignored. */
void hf_list_page_free(struct hf_list_page *page);

/*
 * Takes a lock away from its holders: for operators. The reason and the client's owner are recorded
 * in the lock. A holder with a session is asked first, and has until its lease ends to comply; a
 * holder with its own lease learns of it at its next heartbeat. HF_ERR_ABSENT: nobody holds the
 * lock. Waits, at most timeout_ms (0: 60000).
 */
int hf_force_release(struct hf_client *client, const char *name, const char *reason,
                     int64_t timeout_ms, struct hf_error *reterr);

/*
 * Calls back with the state of a lock, at once and whenever it has changed. `info` is
 * valid during the call; a lock that does not exist is shown as not held. The lock is
 * polled every interval_ms (0: the client's poll limit); a change that is undone
 * between two polls goes unseen.
 */
struct hf_watcher;
typedef void (*hf_watch_fn)(void *user, const struct hf_lock_info *info);
int hf_watch(struct hf_client *client, const char *name, int64_t interval_ms, hf_watch_fn changed,
             void *user, struct hf_watcher **ret, struct hf_error *reterr);
/* No callback starts after this returns; one may still be running. */
void hf_watch_stop(struct hf_watcher *watcher);

/* ---- leader election ---- */

enum hf_leadership {
    HF_LEADER_SELF = 1,  /* this campaign leads now */
    HF_LEADER_LOST = 2,  /* it no longer leads; it continues to campaign unless it resigned */
    HF_LEADER_OTHER = 3, /* somebody else leads; see `info` */
    HF_LEADER_NONE = 4,  /* nobody leads */
    HF_LEADER_ENDED = 5  /* the campaign has ended: the client is closed, or out of memory */
};

/* `info` is NULL for SELF, LOST and ENDED. */
typedef void (*hf_leadership_fn)(void *user, enum hf_leadership state,
                                 const struct hf_lock_info *info);

struct hf_elect_options {
    size_t size;
    const void *data; /* published by the leader about itself, such as an address */
    size_t data_size;
    int64_t lease_ms;  /* 0: the client's */
    bool observe_only; /* only report who leads */
    hf_leadership_fn changed;
    void *user;
};

struct hf_election;
/* Starts a campaign: leads as soon and as long as possible, whatever errors the store returns. */
int hf_elect(struct hf_client *client, const char *name, const struct hf_elect_options *options,
             struct hf_election **ret, struct hf_error *reterr);
/* True while this campaign is certain to lead; ask before you act. */
bool hf_election_is_leader(const struct hf_election *election);
/* The token of the leadership; 0 if the campaign does not lead. */
int64_t hf_election_token(const struct hf_election *election);
/* Gives up leading and campaigning, and frees the election. Waits; not from a callback. */
int hf_election_resign(struct hf_election *election, struct hf_error *reterr);

/* ---- tables ---- */

struct hf_table_status {
    bool exists;
    bool active;        /* ready for use */
    bool key_fits;      /* its key is the one that the format needs */
    bool ttl_enabled;   /* the table deletes old records itself */
    int64_t item_count; /* may be out of date */
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
/* Reads the state of the client's table; a table that is missing is not an error. Waits. */
int hf_table_describe(struct hf_client *client, struct hf_table_status *ret,
                      struct hf_error *reterr);
/*
 * Deletes what the table's TTL has not deleted yet: records that were released, and sessions that
 * ended, long enough ago that nobody needs them. Waits.
 */
int hf_table_sweep(struct hf_client *client, int64_t *ret_deleted, struct hf_error *reterr);
/* 0 if the table can hold locks; otherwise the message says what to do. */
int hf_table_check(struct hf_client *client, struct hf_error *reterr);

/* ---- for operators ---- */

/*
 * The store's current time as far as it is known: it lies between these two, in unix microseconds.
 * HF_ERR_ABSENT before the store has answered a request.
 */
int hf_store_time(struct hf_client *client, int64_t *ret_lo_unix_us, int64_t *ret_hi_unix_us,
                  struct hf_error *reterr);

struct hf_store_info {
    const char *kind; /* "file", "memory", "dynamodb", "service" */
    char table[256];
    char place[1024]; /* the file, or the endpoint's URL */
    char region[64];
    char credentials[32]; /* their source: "environment", "profile", … */
    char key_id[32];      /* all but the last four characters hidden */
    int64_t key_expires_unix_ms;
};

/* Finds credentials, if the store needs them. Free the result. Waits. */
int hf_store_describe(struct hf_client *client, struct hf_store_info **ret,
                      struct hf_error *reterr);
/* Frees what hf_store_describe returned. NULL is ignored. */
void hf_store_info_free(struct hf_store_info *info);

/* What a table format can do; docs/FORMATS.md. */
struct hf_format_info {
    const char *name;
    const char *key_name;
    bool leases; /* otherwise a lock stays held until it is released */
    bool tokens;
    bool data;
    bool shared;
    bool semaphores;
    bool sessions;
    bool by_observation; /* how other holders are judged dead */
    bool by_clock;
    bool sort_keys;
    bool key_types; /* keys of type N and B */
};
/* The formats by number, from 0; HF_ERR_ABSENT after the last. */
int hf_format_describe(size_t index, struct hf_format_info *ret);

#ifdef __cplusplus
}
#endif
#endif
