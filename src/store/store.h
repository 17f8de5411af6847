/*
 * A store: tables of items, changed by single conditional writes.
 *
 * Two engines implement this interface, and a caller cannot tell which one it talks to: the
 * embedded one (file:PATH, memory:) and DynamoDB (dynamodb://TABLE?region=…&endpoint=…), whose
 * requests a holdfast service takes, too (https://HOST).
 *
 * Rules
 * S1  hf__store_submit may be called from any thread. It does not block, and it
 *     does not call `done` itself.
 * S2  `done` is called exactly once, with no lock held: on a thread of the store, or, if the call
 *     names a mailbox, by the thread that runs that mailbox. It must not block and must not close
 *     the store; it may submit, but not in answer to HF_ERR_CANCELLED: a store that is being closed
 *     gives that answer to everything, and closes when nothing more comes.
 * S3  Until `done` is called the call, its arena and all that the operation
 *     points to belong to the store. After that they are the caller's again.
 * S4  A write whose outcome is not known completes with HF_ERR_OUTCOME_UNKNOWN.
 *     Every other error means that nothing was written. A condition that failed
 *     after an earlier send of the same write may have landed is such an unknown
 *     outcome; the item it saw is in the answer if it was asked for.
 * S5  An operation whose arena failed is refused with HF_ERR_NO_MEMORY, so that
 *     a condition lost for want of memory never becomes an unconditional write.
 */
#ifndef HF_STORE_STORE_H
#define HF_STORE_STORE_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "item/op.h"
#include "store/mailbox.h"

struct hf_store;
struct hf_call;

typedef void (*hf_call_fn)(struct hf_call *call);

/* One operation on its way. Zero it, then set the first four members, and the next two if wanted. */
struct hf_call {
    struct hf_op op;
    struct hf_arena *arena; /* for the answer; usually the operation's own */
    hf_call_fn done;
    void *user;
    struct hf_mailbox *mailbox; /* NULL: `done` is called by the store */
    /* Calls of other lanes need not wait for this one's (lanes.h); 0: the protocol's. */
    unsigned lane;

    struct hf_answer answer; /* when done */

    /* The store's. */
    uint64_t id;
    struct hf_list node;
    bool cancelled;
};

/* For callers that wait for something to change; see hf__store_listen. */
struct hf_hint {
    struct hf_list node;
    /*
     * `freed` 0: something may have changed. Otherwise an op that `frees` it is about to be seen, or
     * is seen already; a hint of 0 follows. It may submit calls here, but not wait for them.
     */
    void (*changed)(struct hf_hint *hint, uint64_t freed);
};

struct hf_store_options {
    struct hf_log log;
    const struct hf_clock *clock; /* NULL: the system's */
    /* Pairs of name and value, NULL-terminated, which stay until the store is closed; NULL:
     * getenv(). */
    const char *const *environment;
    const char *access_key_id; /* explicit AWS credentials; NULL: found as AWS's clients do */
    const char *secret_access_key;
    const char *session_token;
    const char *token_file; /* for a service; NULL: as the URL or HOLDFAST_TOKEN_FILE says */
    const char *ca_file;    /* … to trust instead of the system's */
    const char *cert_file;  /* … of the client */
    const char *key_file;
    int request_timeout_ms; /* one attempt over the network; 0: 3000 */
    int connect_timeout_ms; /* 0: 1000 */
    int busy_timeout_ms;    /* waiting for another process's write to a file; 0: 5000 */
    int sweep_period_ms;    /* between TTL sweeps of the embedded engine; 0: 60000 */
};

/* NULL options are the defaults. */
int hf__store_open(const char *url, const struct hf_store_options *options, struct hf_store **ret,
                   struct hf_error *reterr);

/* Outstanding calls are cancelled and completed before this returns. */
void hf__store_close(struct hf_store *store);

/* The table that the URL names; "locks" where it names none. */
struct hf_slice hf__store_table(const struct hf_store *store);

/* Where it is, and by whose credentials it is asked. Waits for those. */
int hf__store_describe(struct hf_store *store, struct hf_store_info *ret, struct hf_error *reterr);

/* Starts a call; returns its id, for cancelling. Ids are never used again. */
uint64_t hf__store_submit(struct hf_store *store, struct hf_call *call);

/*
 * Gets an item, or queries for a few, on this thread, if the engine can do so in a moment and without
 * waiting for others: `done` is then called before this returns. False: nothing happened; submit it.
 */
bool hf__store_read_here(struct hf_store *store, struct hf_call *call);

/*
 * Asks for an early end: the call completes soon, with HF_ERR_CANCELLED if it
 * had no effect, HF_ERR_OUTCOME_UNKNOWN if that is not known, or with its
 * answer. An id that is not outstanding is ignored.
 */
void hf__store_cancel(struct hf_store *store, uint64_t id);

/*
 * Paused, the engine begins nothing, and this returns when nothing is under way that others would
 * have to wait for; after two seconds at most. Resumed, it continues.
 */
void hf__store_pause(struct hf_store *store, bool paused);

/*
 * Corked, the engine may wait for more before it begins anything, and may let the reads that this
 * thread does here share one look at the file: for one thread that submits several calls one after
 * the other, and uncorks it soon. It uncorks before it waits for anything, and before any caller
 * can ask for something newer: requests that come in while it is corked are not read from here.
 */
void hf__store_cork(struct hf_store *store, bool corked);

/*
 * From now on `changed` is called when something in the store may have changed, by any process: on
 * a thread of the store, one call at a time. It must not block, nor call this. It is a hint: it may
 * be late, spurious or missing; only latency may depend on it. False: this store gives none.
 */
bool hf__store_listen(struct hf_store *store, struct hf_hint *hint);
/* When this returns, it is not and will not be called. */
void hf__store_unlisten(struct hf_store *store, struct hf_hint *hint);

/* The file of the line in which processes wait for this store's locks (line.h); -1: there is none. */
int hf__store_line(const struct hf_store *store);

/* Submits and waits. Not from within `done`. Returns call->answer.code. */
int hf__store_run(struct hf_store *store, struct hf_call *call);

/* The store's own clock, where it is on this machine; 0: it is elsewhere. */
int64_t hf__store_now_unix_us(const struct hf_store *store);

/* ---- for the engines ---- */

/* Hands a call back (S2). */
void hf__call_done(struct hf_store *store, struct hf_call *call);
/*
 * The same for several: their mailbox rings once, at the end. `last` is NULL at the beginning, and
 * the end is a call that is NULL.
 */
void hf__call_done_of_many(struct hf_store *store, struct hf_call *call, struct hf_mailbox **last);

struct hf_store_engine {
    void (*submit)(struct hf_store *store, struct hf_call *call);
    bool (*read_here)(struct hf_store *store, struct hf_call *call); /* NULL: never */
    int64_t (*now_unix_us)(const struct hf_store *store);            /* NULL: not known */
    void (*cancel)(struct hf_store *store, uint64_t id);
    void (*pause)(struct hf_store *store, bool paused); /* NULL: nobody waits for us */
    void (*cork)(struct hf_store *store, bool corked);  /* NULL: it begins at once */
    bool (*listen)(struct hf_store *store,
                   struct hf_hint *hint); /* NULL: there is nothing to hear */
    void (*unlisten)(struct hf_store *store, struct hf_hint *hint);
    int (*line)(const struct hf_store *store); /* NULL: there is none */
    void (*close)(struct hf_store *store);
    int (*describe)(struct hf_store *store, struct hf_store_info *ret, struct hf_error *reterr);
};

struct hf_store {
    const struct hf_store_engine *engine;
    const struct hf_clock *clock;
    struct hf_log log;
    char *table;
    pid_t pid;     /* whose it is */
    bool embedded; /* tables are made without ado */
    bool served;   /* a service's: it has one table, in the native format */
    /* Sees every call when it is done, on whatever thread; NULL: nobody does. Set before use. */
    void (*observe)(void *user, const struct hf_call *call);
    void *observe_user;
    uint64_t last_id; /* atomic */
};

#endif
