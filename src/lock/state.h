/*
 * What a client's protocol remembers: its names, attempts, grants and leases, and itself. Private
 * to `lock`, and to its tests and the simulator, which look inside; core.h is for all others.
 */
#ifndef HF_LOCK_STATE_H
#define HF_LOCK_STATE_H

#include "base/heap.h"
#include "lock/core.h"

struct hf_errand;
struct hf_observation;

/* ---- alarms ---- */

struct hf_alarm {
    struct hf_heap_node node;
    void (*ring)(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);
};

/* ---- names ---- */

struct hf_name {
    struct hf_name *next; /* in its bucket */
    uint32_t refs;        /* grants, attempts, errands */
    uint32_t len;
    bool busy; /* its queue is being served */
    struct hf_list grants;
    struct hf_list attempts; /* first come, first served; only the first one is active */
    char text[];
};

static inline struct hf_slice hf__name_text(const struct hf_name *name)
{
    return hf__slice(name->text, name->len);
}

/* ---- leases ---- */

enum hf_lease_state { HF_LEASE_CREATING, HF_LEASE_LIVE, HF_LEASE_DEAD };

struct hf_lease {
    struct hf_alarm alarm;
    struct hf_list node;   /* core->leases */
    struct hf_list grants; /* exactly one unless this is a session */
    struct hf_list ensures;
    uint32_t refs;
    enum hf_lease_state state;
    bool is_session;
    bool opened;   /* a session that a caller asked for, and renews and closes itself */
    bool leaving;  /* … and has closed: it ends with the last of its locks */
    bool stopped;  /* its grant is being released: no more renewals */
    bool adopting; /* its grant was taken up from the record, and nothing is promised yet */
    bool dormant; /* a common session: nothing is promised here, its record is watched (common.c) */
    bool ending;  /* … and its end has been sent */
    bool others;  /* another actor served its grant, or may have: it may have promised more */
    struct hf_id id;
    struct hf_id secret; /* of an opened session: what its users show; the id follows from it */
    int64_t version;     /* confirmed, or seen in the record; 0: not known yet */
    struct hf_id by;     /* the write that made it */
    int64_t lease_ms;
    int64_t expires_unix_ms;
    int64_t confirmed_us;   /* the send that the validity is counted from */
    int64_t valid_until_us; /* of LIVE; while adopting, when that is given up */
    int64_t wanted_ms;      /* of the next renewal; never less than lease_ms */

    struct hf_list of_opened;   /* core->opened */
    struct hf_list verifying;   /* jobs that are settled by the read in flight */
    uint32_t wanting;           /* attempts that want locks for this session */
    int64_t look_at_us;         /* when its record is to be read; HF_NEVER */
    int64_t give_up_us;         /* dormant: when `ensures` fail */
    struct hf_job *job;         /* of the call that opens, closes or adopts it */
    char *owner;                /* of an opened session … */
    char *instance;             /* … in the same piece of memory */
    struct hf_errand *release;  /* of its grant, waiting for a renewal to come back */
    struct hf_request *request; /* in flight */
    bool pending;               /* version + 1 was sent at least once and is not decided */
    struct hf_id pending_by;    /* its id */
    int64_t pending_sent_us;    /* its first send */
    int64_t pending_lease_ms;
    int64_t pending_expires_unix_ms;
    int64_t renew_at_us;
    int overtaken;         /* renewals in a row that another actor was faster than */
    int late;              /* creations in a row that were confirmed too late to be useful */
    int failures;          /* in a row */
    int64_t failing_us;    /* since when */
    int failure_code;      /* the last one's */
    int64_t warn_least_ms; /* of any grant; HF_NEVER: none */
    bool warned;           /* a holder was warned since the last renewal */
    int64_t idle_us;       /* since when this session has had no locks; 0: it has some */
    uint32_t renewals;     /* for spacing the re-reads */
};

/* ---- grants ---- */

enum hf_grant_state {
    HF_GRANT_HELD,
    HF_GRANT_ADOPTING, /* taken up from its record; not confirmed yet */
    HF_GRANT_EXPIRING, /* by_grant: its time here is up, and the record is being read */
    HF_GRANT_RELEASING,
    HF_GRANT_ENDED,
};

struct hf_grant {
    struct hf_list of_name;
    struct hf_list of_lease;
    struct hf_list event;
    struct hf_list errands; /* errands under way for this grant */
    struct hf_name *name;
    struct hf_lease *lease;
    void *user; /* the caller's */
    struct hf_id id;
    int64_t token;
    int64_t since_unix_ms;
    int32_t limit;    /* 0: exclusive */
    uint32_t entries; /* re-entrant acquires */
    int64_t warn_ms;
    char *detail; /* who took it, or who forced it and why; NULL: nothing to report */
    int16_t code; /* the store's error behind the reason, or 0 */
    uint8_t state;
    uint8_t reason;
    uint8_t pending; /* HF_EVENT_IS_… */
    bool warned;
    bool alone; /* shared: it was the only holder when it was granted */
    bool taken_over;
    bool passing; /* adopted, and let go once it has been renewed */
    uint16_t owner_len;
    uint16_t instance_len;
    char owner[]; /* who asked for it ("": the client's owner), then, after its NUL, the instance */
};

/* ---- attempts ---- */

enum { HF_TRIES_KEPT = 8 };

struct hf_try {
    struct hf_id grant;
    struct hf_id by;          /* of the write */
    struct hf_lease *session; /* NULL: own lease; counted */
    int64_t sent_us;
    int64_t expires_unix_ms;
    int64_t token; /* where the store does not count tokens */
    bool unsure;   /* its outcome is not known */
    bool take;     /* from a holder that was found dead */
};

enum hf_attempt_state {
    HF_ATTEMPT_QUEUED,
    HF_ATTEMPT_SESSION,
    HF_ATTEMPT_TRYING,
    HF_ATTEMPT_EXAMINING,
    HF_ATTEMPT_WAITING,
};

struct hf_rival {
    struct hf_holder holder;
    enum hf_hold kind; /* as in an errand's text */
    bool dead;
    bool done; /* reaped */
};

struct hf_attempt {
    struct hf_alarm alarm;
    struct hf_list of_name;
    struct hf_list of_core; /* waiting for the session, or in `finished` */
    struct hf_name *name;
    struct hf_grant *grant; /* made in advance; the result when code is 0 */
    struct hf_lease *own;   /* likewise, when the lock keeps its own lease */
    struct hf_arena wants;  /* data and extra */
    struct hf_arena round;  /* the record that is being examined */
    struct hf_want want;
    bool has_stored;   /* the data in the record, when granted; in `wants` … */
    bool lacks_stored; /* … for which there was no memory */
    struct hf_slice stored;
    int code; /* the result, when finished */
    struct hf_error error;
    struct hf_report blocked_by; /* HELD, TIMED_OUT: who was in the way; texts in `wants` */

    enum hf_attempt_state state;
    bool over;  /* the result has been reported */
    bool taken; /* … and fetched: the attempt is freed with its last request */
    bool use_session;
    bool read_next; /* the next step is to read, not to try */
    bool heard;     /* the store answered at least once */
    int failures;
    int64_t asked_us;      /* when it was first asked; 0: not yet */
    int64_t silent_us;     /* when the first of the requests in a row that failed was sent */
    struct hf_list report; /* core->reports: there may be news … */
    uint64_t reported;     /* … and this is a hash of the last report */
    int rushes;            /* tries without waiting in between */
    int64_t began_us;
    int64_t deadline_us;
    int64_t poll_ms;
    int64_t wake_us;
    struct hf_list of_waiting; /* core->waiting: in WAITING */
    int64_t looked_us;         /* when it last began to wait */
    uint64_t asked_hints;      /* the number of hints heard when it last asked the store */
    uint64_t seen_hints;       /* … and when it last saw the record … */
    uint64_t seen;             /* … of which this is a hash; 0: not seen yet */
    bool look_again;           /* the lock was released here while its request was out */
    int64_t place;             /* in the line; 0: none */
    int64_t yields_until_us;   /* to those ahead of it in the line; 0: not yet */
    int64_t hint_gap_us;       /* hints do not make it poll again before this time has passed */
    struct hf_request *request;
    struct hf_try tries[HF_TRIES_KEPT]; /* newest last */
    int try_count;
    struct hf_job verify; /* granted: whether its session is still there */
    bool verifies;
    bool repeats;          /* HELD: by an earlier call with the same identity … */
    struct hf_id repeated; /* … with this grant */
    bool has_intent;
    struct hf_id intent;
    struct hf_lease *intent_session; /* counted */

    bool looked;             /* there is a record … */
    struct hf_record record; /* in `round` */
    struct hf_rival *rivals;
    size_t rival_count;
    size_t rival_at;
    int64_t judge_at_us; /* when the next rival could be judged dead */
};

/* ---- the client ---- */

struct hf_core {
    struct hf_core_options options;
    int64_t now_us; /* of the input that is being looked at */
    struct hf_heap alarms;
    size_t alarm_owners;
    struct hf_list requests;
    struct hf_list finished; /* attempts */
    struct hf_list events;   /* grants */
    struct hf_list jobs;
    struct hf_list leases;
    struct hf_list errands;
    struct hf_list spares; /* errands in reserve, so that locks can be given up without memory */
    struct hf_list forces;
    struct hf_list adoptions;
    struct hf_list session_waiters;
    struct hf_list waiting; /* attempts */
    size_t waiting_count;
    uint64_t hints_heard;
    size_t hints_left; /* waiters that have not been told of the last hint yet */
    struct hf_alarm hint_alarm;
    int64_t doubt_until_us; /* until then polling does not rely on hints (H3) */
    size_t places;          /* in lines, of all attempts */
    bool wants_hints;       /* an attempt has had to wait */
    struct hf_list reports; /* attempts */
    size_t reporting_count; /* attempts that are on their way and report */
    struct hf_list opened;  /* sessions */
    struct hf_lease *session;
    struct hf_name **names;
    size_t name_buckets; /* a power of two */
    size_t name_count;
    size_t spare_count;
    size_t own_count; /* locks with their own lease, held or wanted */
    size_t grant_count;
    size_t outstanding; /* requests that are not answered */
    struct hf_store_time store_time;
    bool timeless; /* the store answers without a usable time */
    struct hf_observation *observed;
    bool has_principal;
    struct hf_id principal; /* to whom our sessions are bound, at a service */
    bool has_mark;
    struct hf_id mark; /* by_grant: its last bytes end every grant that is made here */
    struct hf_alarm closing_alarm;
    bool closing;
    bool closed;
    bool in_closing;
    bool ending_session;
    int64_t close_by_us;
    size_t releasing;   /* grants whose release was begun by closing */
    size_t unconfirmed; /* grants that ended unconfirmed since closing began */
};

#endif
