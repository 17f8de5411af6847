/*
 * The library's own view of a client: the protocol core, the store that serves
 * it, and the thread that drives both. That is the client's own thread, or the
 * event loop of its user (`driven`), which calls hf_client_process.
 *
 * Invariants
 * L1  `mutex` guards everything below it, the core included. It is never held
 *     while a callback runs (the log's is one), nor during any wait except for
 *     a condition.
 * L2  The core is fed with a clock that is read under the mutex: time never goes
 *     backwards.
 * L3  After every input the core is drained: requests are submitted, waiters
 *     woken, callbacks queued.
 * L4  Callbacks run on the client's thread only, in the order in which their
 *     causes happened; of a driven client, on the thread that processes it.
 * L5  The client is freed with its last reference: the user's, one per lock
 *     handle, one per waiting call.
 */
#ifndef HF_CLIENT_CLIENT_H
#define HF_CLIENT_CLIENT_H

#include <pthread.h>
#include <sys/types.h>

#include "base/clock.h"
#include "lock/core.h"
#include "store/store.h"

/* Work for the client's thread, done without the mutex. */
struct hf_chore {
    struct hf_list node; /* empty: not queued */
    void (*run)(struct hf_client *client, struct hf_chore *chore);
};

/* A job of the core that calls back (on_behalf.c). */
struct hf_async {
    struct hf_job job;
    struct hf_chore chore;
    void (*done)(void *user, int code, const struct hf_error *error);
    struct hf_lock *lock;   /* of an adoption, made in advance … */
    hf_acquired_fn adopted; /* … which calls this instead */
    void (*released)(void *user, int code, bool already, const struct hf_error *error);
    void *user;
};

/* A waiting call; on its caller's stack. */
struct hf_waiter {
    struct hf_list node;
    pthread_cond_t cond;
    const void *about;
    bool done;
};

/* A job of the core with a waiting caller; on the caller's stack. */
struct hf_job_call {
    struct hf_job job;
    struct hf_waiter waiter;
    const struct hf_clock *clock; /* the client's; the client may be gone when the job has ended */
};

/* An operation at the store. `done` is called with the mutex held. */
struct hf_client_call {
    struct hf_call call; /* op and arena are the caller's */
    struct hf_list node;
    struct hf_client *client;
    uint64_t id;
    void (*done)(struct hf_client *client, struct hf_client_call *call);
};

struct hf_client {
    uint64_t process;
    struct hf_arena arena; /* texts of the options */
    struct hf_store *store;
    bool owns_store;
    const struct hf_clock *clock;
    struct hf_log log;
    bool driven;
    pthread_t thread;          /* its own, or the one that drives it */
    struct hf_mailbox mailbox; /* of a driven client: answers of the store */
    struct hf_hint hint;       /* from the store … */
    struct hf_chore listen;    /* … which is asked for them once an attempt has to wait */

    pthread_mutex_t mutex;
    pthread_cond_t wake; /* of the thread */
    struct hf_core *core;
    struct hf_list chores;
    struct hf_list waiters;
    struct hf_list calls;    /* at the store */
    struct hf_list watchers; /* watch.c */
    int lines;               /* of the log, queued among the chores */
    uint32_t refs;
    bool has_thread;
    bool listens;    /* it has asked for hints */
    bool hears;      /* the store gives them */
    bool hinted;     /* something may have changed */
    uint64_t freed;  /* … and this may be free soon; 0: nothing is known to be */
    bool processing; /* a driven client's callbacks are running */
    bool stopping;   /* the thread is ending */
    bool closed;     /* nothing is submitted any more */
    bool woken;
    int64_t nap_until_us; /* when the thread, not woken, will look at the clock again */
};

/* ---- client.c ---- */

/* Checks the process and locks the mutex. On failure fills the error and does not lock. */
int hf__client_enter(struct hf_client *client, struct hf_error *reterr);
/* The same for calls that wait. */
int hf__client_enter_waiting(struct hf_client *client, struct hf_error *reterr);
/* Drains and unlocks. */
void hf__client_leave(struct hf_client *client);
bool hf__client_is_ours(const struct hf_client *client);
/* For a call of several steps that wait: the client exists until it is let go. */
int hf__client_hold(struct hf_client *client, struct hf_error *reterr);
void hf__client_let_go(struct hf_client *client);
int64_t hf__client_now_us(const struct hf_client *client);
void hf__client_ref(struct hf_client *client);
/* Call with the mutex held; it is released. */
void hf__client_unref_unlock(struct hf_client *client);
void hf__client_chore(struct hf_client *client, struct hf_chore *chore);

/* Hands an operation to the store; only while the client is not `closed`. */
void hf__client_submit(struct hf_client *client, struct hf_client_call *call);
/* Whether this is the thread that callbacks run on. */
bool hf__client_is_thread(const struct hf_client *client);

/*
 * Waiting, under the mutex. A waiter holds a reference to the client: after
 * hf__waiter_wait, leave by hf__client_unref_unlock.
 */
int hf__waiter_init(struct hf_client *client, struct hf_waiter *waiter, const void *about,
                    struct hf_error *reterr);
void hf__waiter_wait(struct hf_client *client, struct hf_waiter *waiter);
void hf__waiter_wake(struct hf_waiter *waiter);
/* Wakes all waiters for this. */
void hf__client_wake_all(struct hf_client *client, const void *about);

/* Returns when all callbacks that were queued or running have ended. Call it neither from a
 * callback nor with the mutex. */
void hf__client_settle(struct hf_client *client);

/* Runs one operation on the store, which retries by itself. Waits. */
int hf__client_run(struct hf_client *client, struct hf_call *call, struct hf_error *reterr);

/* ---- on_behalf.c ---- */

/* Its job has ended: queues the callback. */
void hf__async_done(struct hf_client *client, struct hf_async *async);

/* ---- options.c ---- */

/* Fills in the defaults and checks them; texts go to the arena. */
int hf__client_options(const struct hf_client_options *given, struct hf_arena *arena,
                       struct hf_core_options *ret, struct hf_error *reterr);
/* Copies options of the size that the caller was compiled with; false if `size` is not set. */
bool hf__options_copy(void *ret, size_t ret_size, const void *given);
#define HF_OPTIONS(type, name, given)                                                              \
    type name;                                                                                     \
    if (!hf__options_copy(&name, sizeof name, given))                                              \
    return hf__error_set(reterr, HF_ERR_INVALID, "set `size` to the size of the options")

/* ---- lock.c ---- */

/* Enters the client; then pass the job to the core. */
int hf__job_begin(struct hf_client *client, struct hf_job_call *call, struct hf_error *reterr);
/* Leaves the client. The job has ended when this returns, whatever the core does with it. */
int hf__job_finish(struct hf_client *client, struct hf_job_call *call, struct hf_error *reterr);

/* How long a lease of this length is certain to last when it has just been renewed. */
int64_t hf__whole_ms(const struct hf_client *client, int64_t lease_ms);

struct hf_lock {
    struct hf_chore events; /* queued for delivery */
    struct hf_client *client;
    struct hf_grant *grant;
    hf_event_fn on_event;
    void *user;
    void *data;
    uint32_t data_size;
    uint32_t refs;   /* users; and one until the final event has been delivered */
    uint8_t told;    /* HF_EVENT_IS_… to deliver */
    bool lacks_data; /* out of memory for the data in the record */
};

struct hf_lock *hf__lock_new(struct hf_client *client, const struct hf_acquire_options *options);
/* Frees a lock that was never granted. */
void hf__lock_drop(struct hf_lock *lock);
/* News about a grant, from the core. */
void hf__lock_news(struct hf_client *client, struct hf_grant *grant, int which);

/* ---- acquire.c ---- */

/* hf_acquire_async, with internal options. */
struct hf_acquire_call {
    const char *name;
    int64_t timeout_ms;
    const struct hf_acquire_options *options;
    hf_acquired_fn done;
    void *user;
    bool stubborn;            /* continues whatever the store answers */
    struct hf_lease *session; /* an opened one; NULL: by the client's options */
    const struct hf_id *id;   /* of a call that may be repeated; NULL: none */
};
int hf__acquire_async(struct hf_client *client, const struct hf_acquire_call *call,
                      struct hf_acquisition **ret, struct hf_error *reterr);
void hf__acquire_finished(struct hf_client *client, struct hf_attempt *attempt);
void hf__acquire_report(struct hf_client *client, struct hf_attempt *attempt,
                        const struct hf_report *report);
/* NULL once it has a result. */
struct hf_attempt *hf__acquisition_attempt(const struct hf_acquisition *acquisition);

/* ---- watch.c ---- */

/* Starts the reads that are due. */
void hf__watchers_run(struct hf_client *client, int64_t now_us);
int64_t hf__watchers_next_us(const struct hf_client *client);
void hf__watchers_close(struct hf_client *client);

/* ---- inspect.c ---- */

/* Of the first lock inspected, with its waiters in this client. With the mutex. */
struct hf_inspection;
struct hf_lock_info *hf__info_new(struct hf_client *client, const struct hf_inspection *inspection);
/* The same in the caller's memory: its size without the struct, for texts, and its contents. */
struct hf_view;
size_t hf__info_size(const struct hf_core *core, const struct hf_view *view);
void hf__info_fill(struct hf_lock_info *info, char **texts, const struct hf_core *core,
                   const struct hf_inspection *inspection, const struct hf_view *view,
                   int64_t now_us);

/* ---- table.c ---- */

int hf__table_ensure(struct hf_client *client, struct hf_error *reterr);

#endif
