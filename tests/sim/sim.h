/*
 * The simulator: the real protocol and the real format on a simulated store,
 * network and clocks, all from one seed.
 *
 * One schedule is one world: a table, a few clients with clocks of their own, a
 * network that loses, repeats and delays, and a checker that looks at every
 * step. Time is virtual and in microseconds; `t` is the true time, which nobody
 * in the world knows.
 */
#ifndef HF_SIM_H
#define HF_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/heap.h"
#include "lock/state.h"

enum {
    SIM_CLIENTS = 8,
    SIM_LOCKS = 3,
    SIM_WORKERS = 3,
    SIM_KEYS = 256,
    SIM_PAST = 4, /* earlier versions of an item, for reads without consistency */
    SIM_HOSTS = 3,
    SIM_GRANTS = 32,
    SIM_RULES = 8,
    SIM_CALLERS = 3,
    SIM_DEAD = 512,
    SIM_FORCES = 64,
    SIM_SECOND = 1000000,
};

enum sim_profile { SIM_DEFAULT, SIM_TIGHT, SIM_LONG };
enum { SIM_PROFILES = SIM_LONG + 1 };
extern const char *const sim_profile_names[SIM_PROFILES];

/* What may go wrong; a set of these is given on the command line. */
enum sim_fault {
    SIM_LOSS = 1 << 0,
    SIM_DUPLICATES = 1 << 1,
    SIM_DELAYS = 1 << 2,
    SIM_PAUSES = 1 << 3,
    SIM_CRASHES = 1 << 4,
    SIM_CANCELS = 1 << 5,
    SIM_CLOCKS = 1 << 6,
    SIM_TTL = 1 << 7,
    SIM_HANDS = 1 << 8, /* deletion by hand and force-release */
    SIM_FOREIGN = 1 << 9,
    SIM_ERRORS = 1 << 10,   /* throttling, 5xx */
    SIM_SERVICES = 1 << 11, /* not a fault: several act for one grant */
    SIM_MEMORY = 1 << 12,
    SIM_REMOTE = 1 << 13, /* not a fault: some come through a service (remote.c) */
    SIM_ALL_FAULTS = (1 << 14) - 1,
};

enum sim_lock_kind { SIM_EXCLUSIVE, SIM_READERS, SIM_SEMAPHORE };

struct sim_params {
    uint64_t seed;
    enum sim_profile profile;
    unsigned faults;
    int client_count; /* 0: chosen by the seed */
    const struct hf_format *format;
    bool fencing, trust_clock, keep_on_release; /* of the layout */
    bool trace;
};

/* Everything that happens is an event at its time. */
struct sim_event {
    struct hf_heap_node node;
    void (*run)(struct sim_event *event);
    struct sim_client *client; /* NULL: the world's */
    uint32_t life;             /* of the client; an event of an earlier life is void */
    void *about;
    int64_t number;
};

struct sim_cell {
    struct hf_slice key;
    bool exists;
    struct hf_item item;
    struct hf_item past[SIM_PAST];
    bool past_exists[SIM_PAST];
    int64_t most_token; /* ever granted */
    int64_t changed_t;
    int lock; /* index, or -1 */
};

struct sim_message {
    struct hf_op op;
    struct hf_request *request;
    struct sim_client *client;
    uint32_t life;
    bool answered; /* the client has been told something */
    int landings;
    int64_t sent_boot_us;
    int64_t answer_delay_us; /* by a rule */
    struct hf_answer answer;
    int host;
};

/* Whose an attempt, a job or a grant is; the first member of each. */
enum sim_user_kind { SIM_WORKER, SIM_CALL, SIM_ENTRY };
struct sim_user {
    enum sim_user_kind kind;
};

struct sim_worker {
    struct sim_user user;
    struct sim_client *client;
    struct hf_attempt *attempt;
    struct hf_grant *grant;
    struct hf_lease *session; /* opened; counted */
    struct hf_job job;
    bool job_running;
    int lock;
    int64_t limit;
    int64_t since_t;
    bool releasing;
};

/* A grant as the checker knows it. */
struct sim_held {
    struct hf_grant *grant;
    struct sim_client *client;
    int lock;
    int64_t valid_until_us;
    bool said_zero;
    int64_t asked_t; /* when it was asked for */
    bool robbed;     /* by force: exclusion is not promised to it */
    bool doomed;     /* taken away by hand: to be noticed by doomed_by_t */
    int64_t doomed_by_t;
};

/* REPEAT: the same acquire again, by its idempotency key. From OPEN on: about a session. */
enum sim_call_kind {
    SIM_CALL_ACQUIRE,
    SIM_CALL_RENEW,
    SIM_CALL_REPEAT,
    SIM_CALL_RELEASE,
    SIM_CALL_OPEN,
    SIM_CALL_RENEW_SESSION,
    SIM_CALL_END_SESSION,
};

/* Somebody for whom several clients act by grant (caller.c). */
struct sim_caller {
    struct sim_world *world;
    int index;
    int64_t clock_ppm;
    bool is_told; /* directed: it does only what it is told */
    int lock;
    int64_t limit;
    int64_t lease_ms;
    bool has_grant;
    bool robbed;
    struct hf_id grant;
    int64_t asked_t;          /* when it was asked for */
    int64_t told_until_us;    /* on its own clock */
    bool has_session;         /* it keeps what is acquired in it, wherever that is */
    bool in_session;          /* the grant is kept by a session … */
    struct hf_id kept_by;     /* … this one */
    struct hf_id session;     /* its secret */
    int64_t session_until_us; /* as it was told, on its own clock */
    bool again;               /* an acquire was not answered: the same call comes again */
    struct hf_id identity;    /* of that call */
    int64_t asked_lease_ms;
    struct sim_call *call;    /* under way */
    struct sim_client *asked; /* who granted the last one, and what it was */
    struct hf_id last;
    int last_lock;
    bool last_in_session;
    struct hf_id last_kept_by;
    int64_t last_limit;
    int64_t thought;
};

/* A forced release, when it first looked, and the exclusive grant that it took away. */
struct sim_force {
    const void *about; /* its owner in the core, and in which life */
    const struct sim_client *client;
    uint32_t life;
    int64_t looked_t; /* the last time before it wrote */
    bool writes;
    bool robs;
    struct hf_id grant;
};

struct sim_client {
    struct sim_world *world;
    int index;
    bool alive;
    bool closing;
    uint32_t life;
    char owner[24];
    struct hf_core *core;
    struct hf_store_time store_time;
    bool hears_time;
    bool by_grant; /* a service: it acts for callers */
    bool remote;   /* it comes through a service */
    struct sim_entry *entries;
    int serving;      /* calls that have not been answered */
    bool fixed_modes; /* directed: the two that follow; otherwise by chance */
    enum hf_session_use session;
    enum hf_expiry_mode judge;
    int64_t clock_offset_us;
    int64_t clock_ppm;
    int64_t paused_until_t;
    int64_t lease_ms;
    int64_t tick_at_us;
    uint32_t requests;
    struct sim_worker workers[SIM_WORKERS];
    int worker_count;
    bool is_probe;
};

struct sim_foreign {
    struct sim_world *world;
    int lock;
    struct hf_id grant;
    int64_t version;
    int64_t seen_version;
    struct hf_id seen_by;
    char seen_grant[HF_GRANT_TEXT];
    int64_t seen_since_t;
    int64_t lease_ms;
    int64_t valid_until_t;
    bool holds;
    bool releasing;
};

/* In a directed schedule: what the network does to certain messages. */
struct sim_rule {
    const struct sim_client *client;
    enum hf_request_kind kind;
    int64_t from_t, until_t; /* of the sending */
    int most;                /* so many messages, then no more */
    bool drop;
    int64_t request_delay_us;
    int64_t answer_delay_us;
    int64_t copy_delay_us; /* a copy arrives after this time; 0: none */
};

struct sim_world {
    struct sim_params params;
    uint64_t rng;
    int64_t t;
    int64_t end_t; /* of the faults */
    bool draining;
    bool one_owner; /* of all who come through a service */
    struct hf_heap events;
    struct hf_arena arena;
    struct hf_layout layout;

    struct sim_cell cells[SIM_KEYS];
    int cell_count;
    int64_t host_offset_us[SIM_HOSTS];

    struct sim_client clients[SIM_CLIENTS];
    int client_count;
    struct sim_caller callers[SIM_CALLERS];
    int caller_count;
    struct sim_foreign foreign;
    bool has_foreign;
    enum sim_lock_kind lock_kinds[SIM_LOCKS];
    int64_t lock_limits[SIM_LOCKS];
    bool by_hand[SIM_LOCKS]; /* somebody meddled: exclusion is not promised */
    int lock_count;
    int loss_percent, duplicate_percent, slow_percent, error_percent;
    int64_t latency_us; /* up to so much, usually */
    int64_t slowest_us;
    int64_t timeout_ms;
    int64_t poll_limit_ms;
    int64_t longest_lease_ms;
    int64_t skew_ms;
    int memory; /* one allocation of the core in so many fails; 0: none */
    int in_flight;
    int waiting; /* attempts without a result */

    struct sim_rule rules[SIM_RULES];
    int rule_count;

    struct sim_held held[SIM_GRANTS];
    int held_count;
    int64_t last_token[SIM_LOCKS];
    struct hf_id given_up[SIM_DEAD]; /* grants that somebody who has them began to release */
    int given_up_count;
    struct hf_id dead[SIM_DEAD]; /* grants that somebody was told are lost or released */
    int dead_count;
    struct hf_id revoked[SIM_DEAD]; /* grants that a session was asked to give back */
    int revoked_count;
    struct sim_force forces[SIM_FORCES];
    int force_count;
    struct hf_item robbed[SIM_FORCES]; /* what records showed before a forced release */
    int robbed_count;
    struct hf_item revived[SIM_FORCES]; /* … after an acquire landed for the second time */
    int revived_count;

    char failure[256];
    uint64_t steps, requests, grants, losses, takeovers;
};

/* world.c */
uint64_t sim_random(struct sim_world *world);
int64_t sim_below(struct sim_world *world, int64_t below);
bool sim_chance(struct sim_world *world, int percent);
struct sim_event *sim_at(struct sim_world *world, int64_t t, struct sim_client *client,
                         void (*run)(struct sim_event *event), void *about);
int64_t sim_boot_us(const struct sim_client *client, int64_t t);
int64_t sim_true_t(const struct sim_client *client, int64_t boot_us);
void sim_trace(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_fail(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Runs events until that time, or until something broke. */
void sim_run_until(struct sim_world *world, int64_t t);
struct sim_world *sim_world_of(const struct sim_event *event);
struct hf_slice sim_lock_name(int lock);
int sim_lock_of(const struct sim_world *world, struct hf_slice key);

/* table.c */
void sim_table_apply(struct sim_world *world, const struct hf_op *op, struct hf_answer *answer);
void sim_table_expire(struct sim_world *world);
/* remote.c: the same, through a service that does not trust the client. */
void sim_remote_apply(struct sim_client *client, const struct hf_op *op, int host,
                      struct hf_answer *answer);
struct sim_cell *sim_cell(struct sim_world *world, struct hf_slice key);
struct sim_cell *sim_cell_of(struct sim_world *world, const struct hf_op *op);
void sim_cell_set(struct sim_world *world, struct sim_cell *cell, bool exists, struct hf_item item);

/* network.c */
void sim_network_send(struct sim_client *client, struct hf_request *request);

/* client.c */
void sim_client_start(struct sim_client *client);
void sim_client_close(struct sim_client *client, int64_t limit_ms);
/* Closes properly, with whatever it holds and wants. */
void sim_client_leave(struct sim_client *client);
void sim_client_left(struct sim_client *client);
void sim_client_crash(struct sim_client *client);
void sim_client_drain(struct sim_client *client);
void sim_client_tick(struct sim_client *client);
void sim_worker_begin(struct sim_worker *worker, int lock, int64_t limit, int64_t timeout_ms,
                      int64_t lease_ms);
void sim_worker_release(struct sim_worker *worker);
void sim_client_work(struct sim_client *client);
void sim_foreign_start(struct sim_world *world);

/* caller.c */
void sim_callers_start(struct sim_world *world, int count);
/* The pieces of directed schedules: one call, and no more interest in its answer. */
void sim_caller_calls(struct sim_caller *caller, enum sim_call_kind kind,
                      struct sim_client *client);
void sim_caller_hangs_up(struct sim_caller *caller);
bool sim_callers_idle(const struct sim_world *world);
bool sim_caller_believes(const struct sim_caller *caller);
void sim_caller_hears(struct sim_world *world, const struct hf_grant *grant, int lock);
void sim_call_acquired(struct sim_client *client, struct hf_attempt *attempt);
void sim_call_done(struct sim_client *client, struct hf_job *job);
void sim_entry_event(struct sim_client *client, struct hf_grant *grant);

/* check.c */
/* Somebody was told that a grant is lost or released (and, from now on, that it is held). */
void sim_check_dead(struct sim_world *world, const struct hf_id *grant);
void sim_check_alive(struct sim_world *world, const struct hf_id *grant, int64_t limit);
/* A write that grants has landed for the second time. */
void sim_check_revived(struct sim_world *world, const struct hf_op *op);
/* Somebody who has the grant begins to release it: nobody counts on it any more. */
void sim_check_given_up(struct sim_world *world, const struct hf_id *grant);
/* Whether it was taken away by force, perhaps before its holder heard of it. */
bool sim_check_is_robbed(struct sim_world *world, const struct hf_id *grant, int64_t limit);
bool sim_check_is_revoked(const struct sim_world *world, const struct hf_id *grant);
/* A forced release reads an item; it sends a write. */
void sim_check_force_looks(struct sim_world *world, const struct sim_message *message);
void sim_check_force_writes(struct sim_world *world, const struct sim_message *message);
/* A forced release has changed an item. */
void sim_check_forced(struct sim_world *world, const struct sim_message *message, bool had,
                      struct hf_item old);
void sim_check_granted(struct sim_client *client, struct hf_grant *grant, int lock,
                       int64_t asked_t);
void sim_check_ended(struct sim_client *client, struct hf_grant *grant);
void sim_check_request(struct sim_client *client, const struct hf_request *request);
void sim_check_step(struct sim_world *world, const struct sim_client *client);
/* The client is gone: what it held ends with it. */
void sim_check_crashed(struct sim_client *client);
void sim_check_doom(struct sim_world *world, int lock);
void sim_check_write(struct sim_world *world, struct sim_cell *cell, bool had, struct hf_item old);

/* schedule.c: one world from beginning to end; false if something broke. */
bool sim_schedule(struct sim_world *world, const struct sim_params *params);
/* directed.c: schedules for what chance finds too rarely. */
int sim_directed_count(void);
const char *sim_directed_name(int which);
bool sim_directed(struct sim_world *world, int which, bool trace, const struct hf_format *format);
/* The pieces that directed schedules are made of. */
void sim_world_init(struct sim_world *world, const struct sim_params *params);
struct sim_client *sim_add_client(struct sim_world *world, int64_t lease_ms, int64_t ppm);

/* memory.c: everything of a schedule is forgotten at once. */
void sim_memory_reset(void);
/* While this is set, one allocation in so many fails; 0: none does. */
void sim_memory_fails(struct sim_world *world, int one_in);

#endif
