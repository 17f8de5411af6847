/*
 * The protocol in virtual time: cores on one small table, a clock that moves
 * when it is told to, and requests that are answered when the test says so.
 */
#ifndef HF_TEST_RIG_H
#define HF_TEST_RIG_H

#include "harness/test.h"
#include "lock/state.h"

enum { RIG_CLIENTS = 3, RIG_BUCKETS = 4096 };

struct rig_cell {
    struct rig_cell *next;
    struct hf_arena arena;
    struct hf_item item;
    size_t key_len;
    char key[];
};

struct rig_client {
    struct hf_core *core;
    bool dead;        /* crashed: nothing of it runs */
    bool cut_off;     /* its requests get no answer: the outcome is unknown */
    bool turned_away; /* … because the store says that it is out of service */
    bool bereft;      /* its store is not the others' any more */
    unsigned requests[HF_REQUEST_KINDS];
    unsigned total;
    unsigned warnings, finals;
    enum hf_reason last_reason;
    char last_detail[128];
    int last_code; /* of the last attempt that finished */
    struct hf_error last_error;
    struct hf_grant *last_grant;
    unsigned finished;
    unsigned jobs;
    int last_job;
    unsigned reports;
    struct hf_report last_report; /* without its owner's text … */
    char last_owner[64];          /* … which is here */
};

struct rig {
    int64_t now_us;
    bool timeless;
    struct rig_cell *cells[RIG_BUCKETS];
    struct rig_client clients[RIG_CLIENTS];
    int client_count;
    uint64_t random;
};

void rig_init(struct rig *rig);
void rig_free(struct rig *rig);
/* NULL options: lease 10 s, period 2.5 s, own leases. The index of the client; -1: no memory. */
int rig_add(struct rig *rig, const struct hf_core_options *options);
struct hf_core_options rig_defaults(void);

/* Lets everything happen that happens now, and answers it at once. */
void rig_settle(struct rig *rig);
/* … and everything until that much later, alarm by alarm. */
void rig_run(struct rig *rig, int64_t ms);

/* Starts an attempt; its result is in last_code when it has one. */
int rig_acquire(struct rig *rig, int client, const char *name, int64_t timeout_ms, int64_t limit);
void rig_release(struct rig *rig, int client, struct hf_grant *grant);

/* Puts an item as somebody else's hand would; NULL deletes it. */
void rig_put(struct rig *rig, const char *key, const char *json);
/* The item as text; "" if there is none. */
const char *rig_show(struct rig *rig, struct hf_arena *arena, const char *key);
void rig_forget_counts(struct rig *rig, int client);

#endif
