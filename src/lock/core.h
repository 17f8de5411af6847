/*
 * The protocol of one client, as a state machine: an event and the time go in,
 * requests and news come out. No I/O, no clock, no thread, no global state; the
 * library drives it from sockets, the simulator from a seed. What it remembers is
 * its own (state.h).
 *
 * Nouns
 *   name     a lock name that this client holds or wants, with its queue
 *   attempt  one acquire on its way (attempt.c; its rivals: rival.c; its turn: queue.c)
 *   grant    one lock that is held, until its final event (grant.c)
 *   lease    keeps grants alive: one grant's own lease, or a session (lease.c)
 *   adoption taking up a grant that another process acquired, from its record (adopt.c)
 *   errand   a conditional write that must get done, and is repeated (errand.c)
 *   force    an operator's release of a lock that another client holds (force.c)
 *   report   the state of a wait, for the waiting caller (report.c)
 *   turn     which of the processes that wait for a lock goes first (turn.c)
 *
 * Invariants
 * C1  Time first: every input runs all alarms that are due before it is handled.
 *     So an answer that arrives after a lease has ended cannot revive it.
 * C2  A lease is counted from before the first send of the write that was
 *     confirmed, less the margin. A challenger counts from after its read.
 * C3  An object reports its end exactly once: an attempt in `finished`, a grant
 *     in `events`, a job in `jobs`. Nothing of it is sent after that, except to
 *     give back what may still arrive.
 * C4  Every request that is handed out gets exactly one answer, even after its
 *     owner has ended.
 * C5  Ending and reporting need no memory: all that they need was allocated when
 *     the object was made. A request that cannot be built counts as one that
 *     failed, and is retried.
 * C6  Several actors may act for one grant: other processes that know it, services
 *     on the same table. The record counts, not the last write made here; every
 *     write about a grant names the version that it has seen; a lease only grows;
 *     a write by another actor promises nothing here.
 *
 * Transitions
 *   attempt  QUEUED → SESSION → TRYING ⇄ EXAMINING ⇄ WAITING → over
 *            (hf__attempt_go, hf__attempt_try, hf__rivals_examine, hf__attempt_wait, finish)
 *   grant    [ADOPTING →] HELD → RELEASING or EXPIRING → ENDED
 *            (hf__core_adopt, confirm, hf__core_release, expire, hf__grant_end)
 *   lease    CREATING → LIVE → DEAD     (hf__session_get, confirm, hf__lease_end)
 */
#ifndef HF_LOCK_CORE_H
#define HF_LOCK_CORE_H

#include "base/list.h"
#include "base/log.h"
#include "format/format.h"

#define HF_NEVER INT64_MAX

struct hf_core;
struct hf_attempt;
struct hf_grant;
struct hf_lease;

enum hf_session_use { HF_USE_SESSION_AUTO, HF_USE_SESSION_ALWAYS, HF_USE_SESSION_NEVER };
enum hf_expiry_mode { HF_JUDGE_BOTH, HF_JUDGE_OBSERVED, HF_JUDGE_CLOCK };

/*
 * The line in which processes wait for a lock, where the store has one (turn.c). It may be wrong at
 * any time. No call blocks.
 */
struct hf_line {
    /* Joins as one that waits since then; returns its place, 0: none. */
    int64_t (*join)(void *user, struct hf_slice name, int64_t since_us);
    void (*leave)(void *user, int64_t place);
    /* Whether no other process is ahead of this place; of 0: whether none waits. */
    bool (*is_first)(void *user, struct hf_slice name, int64_t place);
    /* How many other processes wait; NULL: nobody can tell. */
    int64_t (*count)(void *user, struct hf_slice name);
    void *user;
};

struct hf_core_options {
    const struct hf_format *format;
    struct hf_layout layout; /* outlives the core, as does the owner */
    struct hf_slice owner;
    int64_t lease_ms;
    int64_t period_ms; /* 0: heartbeats are off */
    int64_t warn_ms;   /* since the last renewal; 0: no warning */
    int64_t request_timeout_ms;
    int64_t poll_limit_ms;
    int64_t skew_ms;
    int margin_per_mille;
    enum hf_expiry_mode judge;
    enum hf_session_use session;
    size_t own_leases;        /* AUTO: the number of locks that keep their own lease */
    bool hold_on_unavailable; /* K2's exception, for callers that ask for it */
    /*
     * Other actors act for the grants of this client as a matter of course, as callers of services
     * on one table do. So nothing is answered from memory: every question goes to the store,
     * waiters poll it, and a lease that ends here has expired only if the record agrees.
     */
    bool by_grant;
    /* The store announces that something may have changed (hf__core_hint), so waiters poll less. */
    bool hints;
    struct hf_line line; /* without `join`: there is none */
    /* The store executes requests in the order in which they are sent, if they arrive at all. */
    bool ordered;
    uint64_t (*draw)(void *user); /* 64 random bits */
    void *draw_user;
    struct hf_log log;
};

/* ---- requests ---- */

enum hf_request_kind {
    HF_REQUEST_READ,
    HF_REQUEST_TRY,
    HF_REQUEST_TAKE,
    HF_REQUEST_RESOLVE,
    HF_REQUEST_JUDGE, /* reading or ending another client's session */
    HF_REQUEST_REAP,
    HF_REQUEST_INTENT,
    HF_REQUEST_SESSION, /* creating ours */
    HF_REQUEST_RENEW,
    HF_REQUEST_ERRAND,
    HF_REQUEST_ADOPT, /* reading the record of a lock that is acted for by grant */
    HF_REQUEST_FORCE,
};
enum { HF_REQUEST_KINDS = HF_REQUEST_FORCE + 1 };
extern const char *const hf__request_names[HF_REQUEST_KINDS];

struct hf_request {
    struct hf_list node;
    struct hf_arena arena; /* the operation's memory, also for parsing its answer */
    struct hf_op op;
    enum hf_request_kind kind;
    struct hf_slice about; /* the lock or session, for traces; in the arena */

    /* The core's. */
    void (*done)(struct hf_core *core, struct hf_request *request, const struct hf_answer *answer,
                 int64_t now_us);
    void *owner;
};

/* ---- grants ---- */

/* What is known of a lock that is or was held. Texts are valid as long as the grant is. */
struct hf_grant_facts {
    const char *name;
    struct hf_id id;
    int64_t token;
    int64_t since_unix_ms;
    int64_t limit;           /* 0: exclusive */
    int64_t lease_ms;        /* 0: it has ended */
    int64_t expires_unix_ms; /* 0: not known */
    bool held;               /* neither being released nor ended */
    bool in_session;
    bool taken_over; /* from a holder that was found dead */
    bool ended;
    enum hf_reason reason; /* why it ends or has ended */
    int code;              /* the store's error behind the reason, or 0 */
    const char *detail;    /* who took it, or who forced it and why; NULL: nothing to report */
};
void hf__grant_facts(const struct hf_grant *grant, struct hf_grant_facts *ret);
/* How long it is certain to be held; 0: no longer, or not certain. */
int64_t hf__grant_left_us(const struct hf_grant *grant, int64_t now_us);
/* Whether it was acquired again, so that a release only lowers the count. */
bool hf__grant_is_reentered(const struct hf_grant *grant);

/* These never change. */
const char *hf__grant_name(const struct hf_grant *grant);
int64_t hf__grant_token(const struct hf_grant *grant);
/* Who asked for the lock; terminated. */
struct hf_slice hf__grant_owner(const struct hf_core *core, const struct hf_grant *grant);
struct hf_slice hf__grant_instance(const struct hf_grant *grant);

/* The caller's; at first that of the attempt or adoption. */
void *hf__grant_user(const struct hf_grant *grant);
void hf__grant_set_user(struct hf_grant *grant, void *user);

enum { HF_EVENT_IS_WARNING = 1, HF_EVENT_IS_FINAL = 2 };

/* ---- jobs: calls that end with one code ---- */

/* A lease as confirmed by the store. */
struct hf_confirmed {
    int64_t token;
    int64_t lease_ms;
    int64_t valid_until_us;
    int64_t expires_unix_ms; /* 0: not known */
};

struct hf_job {
    struct hf_list node;
    int code;
    struct hf_error error;
    int64_t asked_us;       /* ensure: by_grant, only what was sent after that can answer it */
    int64_t need_until_us;  /* ensure */
    struct hf_grant *grant; /* ensure; in a keeping adoption the result, which the caller owns */
    struct hf_confirmed confirmed; /* of an adoption */
    bool already;                  /* a release by grant: it had been released before */
    bool calls_back;               /* a completion callback is due; no thread waits for it */
    bool looks;                    /* ensure: reading the session's record is enough */
    bool rechecks;                 /* ensure: read the lock's record once its session is renewed */
    /* The core's own continuation; such a job does not appear in `jobs`. */
    void (*then)(struct hf_core *core, struct hf_job *job);
    void *user;
};

/* ---- attempts ---- */

struct hf_want {
    struct hf_slice name;
    int64_t limit;      /* 0: exclusive; HF_READERS_LIMIT: shared */
    int64_t timeout_ms; /* 0: try; HF_NEVER: no limit */
    int64_t lease_ms;   /* 0: the client's; otherwise the lock keeps its own lease */
    int64_t warn_ms;    /* 0: the client's */
    bool has_data;
    bool keep_data;
    struct hf_slice data;
    struct hf_item extra;
    bool only_if_exists;
    bool reentrant;
    bool stubborn;            /* no error ends it: an election campaign */
    bool reports;             /* the caller wants to know how the wait stands (report.c) */
    struct hf_slice owner;    /* empty: the client's */
    struct hf_slice instance; /* empty: not given */
    struct hf_lease *session; /* an opened session that keeps the lock; NULL: by options */
    /*
     * by_grant: identifies the call, which may be repeated at another service. An attempt that
     * finds the lock held by an earlier one of the same identity and owner ends, and reports that
     * grant.
     */
    bool has_call;
    struct hf_id call; /* its first bytes become a part of the grant */
    void *user;
};

/* The state of a wait. The texts are valid until the core's next input. */
struct hf_report {
    struct hf_slice name;
    bool answered;            /* the store has, at least once */
    struct hf_slice owner;    /* of the holder; empty: not known */
    struct hf_slice instance; /* likewise */
    int64_t holders;
    int64_t since_unix_ms;
    int64_t expires_unix_ms;
    int64_t ahead;     /* attempts of this client that are earlier in the queue */
    int64_t silent_us; /* since the store last answered; 0: it answers */
    int failures;
    const struct hf_error *error; /* the last failure; NULL: none */
};

/* What became of an attempt. Valid until it is freed. */
struct hf_outcome {
    int code;
    const struct hf_error *error;
    struct hf_grant *grant; /* code 0 */
    bool again;             /* … a re-entrant acquire of a grant that the caller has already */
    bool has_stored;        /* the data in the record when it was granted … */
    bool lacks_stored;      /* … for which there was no memory */
    struct hf_slice stored;
    bool blocked;                /* HELD, TIMED_OUT: … */
    struct hf_report blocked_by; /* … who was in the way */
    const struct hf_id *repeats; /* HELD: the grant of an earlier call with the same identity */
};

/* ---- the client ---- */

/* NULL: out of memory. */
struct hf_core *hf__core_new(const struct hf_core_options *options);
/* No request may be outstanding. Does not free grants and attempts that were handed out. */
void hf__core_free(struct hf_core *core);

/* What it was made with. The format, the layout and the owner never change. */
const struct hf_core_options *hf__core_options(const struct hf_core *core);
/* What is only known later; see the options. */
void hf__core_set_by_grant(struct hf_core *core, bool ordered);
void hf__core_set_hints(struct hf_core *core, bool hints);
void hf__core_forget_line(struct hf_core *core);

/* The hash of a lock's name, as in an op's `frees`; never 0. */
uint64_t hf__name_hash(struct hf_slice name);

/* Inputs. `now` never goes backwards. */
void hf__core_tick(struct hf_core *core, int64_t now_us);
void hf__core_answer(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us);
/* Whether a holder with these signs of life is dead. The first call begins its observation. */
bool hf__core_finds_dead(struct hf_core *core, const struct hf_liveness *liveness, int64_t now_us);

/*
 * Something in the store may have changed, or not: waiters poll soon. But if `freed` is not 0, only
 * the first waiter for the lock of this hash (hf__name_hash), which is being given up, tries at once.
 */
void hf__core_hint(struct hf_core *core, uint64_t freed, int64_t now_us);
/* The same for one lock. */
void hf__core_hint_name(struct hf_core *core, struct hf_slice name, int64_t now_us);
/* Whether an attempt waits, for which hf__core_hint must be called; if not, this call is enough. */
bool hf__core_heeds_hint(struct hf_core *core);
/* Whether an attempt has ever had to wait: hints would help. */
bool hf__core_wants_hints(const struct hf_core *core);
/* Copies its arguments. The attempt exists until it has been fetched from `finished`. */
int hf__core_acquire(struct hf_core *core, const struct hf_want *want, int64_t now_us,
                     struct hf_attempt **ret, struct hf_error *reterr);
void hf__core_cancel(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);

struct hf_release {
    bool has_data;
    struct hf_slice data;
    enum hf_reason reason; /* RELEASED or CLOSED */
};
/* False if the lock is no longer held. Of a re-entrant lock, only the count goes down. */
bool hf__core_release(struct hf_core *core, struct hf_grant *grant, const struct hf_release *how,
                      int64_t now_us);
/* Releases a lock that nobody was told of, unless another actor has renewed it since. */
bool hf__core_give_back(struct hf_core *core, struct hf_grant *grant, int64_t now_us);
/* Stops tracking a lock without releasing it. */
void hf__core_abandon(struct hf_core *core, struct hf_grant *grant, int64_t now_us);

/* Jobs: each ends in `jobs`. */
void hf__core_ensure(struct hf_core *core, struct hf_grant *grant, int64_t at_least_ms,
                     struct hf_job *job, int64_t now_us);
void hf__core_set_data(struct hf_core *core, struct hf_grant *grant, bool has_data,
                       struct hf_slice data, struct hf_job *job, int64_t now_us);
/*
 * Opened sessions, for callers that take locks on behalf of others. The job ends when the session
 * can be used; a caller that needs it beyond its end counts a reference. Closing releases its
 * locks first. Leaving a session ends it and its locks in memory only: nothing is written.
 */
struct hf_session_want {
    struct hf_slice owner;
    struct hf_slice instance; /* empty: not given */
    int64_t lease_ms;
};
int hf__core_session_open(struct hf_core *core, const struct hf_session_want *want,
                          struct hf_job *job, int64_t now_us, struct hf_lease **ret,
                          struct hf_error *reterr);
void hf__core_session_ensure(struct hf_core *core, struct hf_lease *session, int64_t at_least_ms,
                             struct hf_job *job, int64_t now_us);
void hf__core_session_close(struct hf_core *core, struct hf_lease *session, struct hf_job *job,
                            int64_t now_us);
/*
 * by_grant: takes up a session that was opened by another process, or by this one before it was
 * restarted, and renews it (common.c). The caller gets a reference, whatever comes of the job;
 * HF_ERR_LOST: there is no such session, or it is somebody else's.
 */
int hf__core_session_adopt(struct hf_core *core, const struct hf_id *id, struct hf_slice owner,
                           struct hf_job *job, int64_t now_us, struct hf_lease **ret,
                           struct hf_error *reterr);
void hf__core_leave_all(struct hf_core *core, int64_t now_us);
void hf__lease_ref(struct hf_lease *lease);
void hf__lease_unref(struct hf_core *core, struct hf_lease *lease);

/* What is known of an opened session here; the texts are valid as long as it is. */
struct hf_session_facts {
    struct hf_id secret; /* what its users show; its id follows from it */
    const char *owner;
    const char *instance;
    int64_t lease_ms;
    int64_t left_ms; /* how long it is certain to last */
    bool ended;      /* here; what the record says is another question */
    bool unused;     /* nothing is promised, held or wanted here */
};
void hf__session_facts(const struct hf_lease *session, int64_t now_us,
                       struct hf_session_facts *ret);
/* Of one that was adopted. */
void hf__session_set_secret(struct hf_lease *session, const struct hf_id *secret);
/* The number of attempts on this lock here. */
size_t hf__core_queue(const struct hf_core *core, struct hf_slice name);
/* Walks them, first in line first: `at` is NULL at the start, the result NULL at the end. */
struct hf_attempt *hf__core_next_in_line(const struct hf_core *core, struct hf_slice name,
                                         const struct hf_attempt *at);
struct hf_waiting {
    struct hf_slice owner;
    struct hf_slice instance;
    int64_t began_us;
    const struct hf_id *intent; /* as written into the record; NULL: not written */
};
void hf__attempt_waiting(const struct hf_core *core, const struct hf_attempt *attempt,
                         struct hf_waiting *ret);

/*
 * Acting by grant (adopt.c): for a lock that was acquired by another process, or by this one before
 * it was restarted. HF_ERR_LOST: the record says that the grant does not hold the lock.
 */
struct hf_by_grant {
    struct hf_slice name;
    struct hf_id grant;
    int64_t limit;         /* 0: exclusive; HF_READERS_LIMIT: shared */
    struct hf_slice owner; /* the owner that the record must have; empty: any */
    bool keep;             /* adopt: held here from then on; false: only renewed */
    void *user;            /* of a grant that is kept */
};
/*
 * Takes it up and renews it; lease_ms 0: as long as before. A lease never shrinks. What was
 * confirmed is in the job; a grant that is kept is held as if it had been acquired here.
 */
void hf__core_adopt(struct hf_core *core, const struct hf_by_grant *which, int64_t lease_ms,
                    struct hf_job *job, int64_t now_us);
void hf__core_release_by_grant(struct hf_core *core, const struct hf_by_grant *which,
                               const struct hf_release *how, struct hf_job *job, int64_t now_us);

void hf__core_force(struct hf_core *core, struct hf_slice name, struct hf_slice by,
                    struct hf_slice reason, int64_t timeout_ms, struct hf_job *job, int64_t now_us);

/* Releases everything, then ends the session. */
void hf__core_close(struct hf_core *core, int64_t limit_ms, int64_t now_us);
bool hf__core_is_closing(const struct hf_core *core);
bool hf__core_is_closed(const struct hf_core *core);
/* How many locks ended since then without the store's confirmation. */
size_t hf__core_unconfirmed(const struct hf_core *core);

/* Learns the store's time from any answer; returns what is known of it. */
void hf__core_learn_time(struct hf_core *core, const struct hf_answer *answer);
struct hf_interval hf__core_store_time(const struct hf_core *core, int64_t now_us);

/* Ends every attempt with this error. */
void hf__core_refuse(struct hf_core *core, const struct hf_error *error, int64_t now_us);

/* Outputs. NULL when there is nothing (more). */
struct hf_request *hf__core_next_request(struct hf_core *core);
struct hf_attempt *hf__core_next_finished(struct hf_core *core);
/* Attempts whose report has changed. */
struct hf_attempt *hf__core_next_report(struct hf_core *core, int64_t now_us,
                                        struct hf_report *ret);
/* Sets which of HF_EVENT_IS_…, one at a time. */
struct hf_grant *hf__core_next_event(struct hf_core *core, int *ret_which);
struct hf_job *hf__core_next_job(struct hf_core *core);
/* When hf__core_tick is wanted next. */
int64_t hf__core_next_us(const struct hf_core *core);

void *hf__attempt_user(const struct hf_attempt *attempt);
/* Of a fetched attempt. */
void hf__attempt_outcome(const struct hf_attempt *attempt, struct hf_outcome *ret);
/* A fetched attempt; its grant, if any, is the caller's. */
void hf__attempt_free(struct hf_core *core, struct hf_attempt *attempt);
/* An ended grant. */
void hf__grant_free(struct hf_core *core, struct hf_grant *grant);

#endif
