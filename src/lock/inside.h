/* Shared by the files of the protocol, and private to them. */
#ifndef HF_LOCK_INSIDE_H
#define HF_LOCK_INSIDE_H

#include "base/alloc.h"
#include "format/mutant.h"
#include "lock/state.h"

enum { HF_PATIENCE = 4 }; /* how long an adoption may take, in request time-outs */

/* ---- core.c ---- */

/* What an answer means for its request. */
enum hf_answer_class {
    HF_ANSWER_OK,
    HF_ANSWER_REFUSED, /* the condition failed; the answer has the item, if there is one */
    HF_ANSWER_UNSURE,  /* the write may have happened */
    HF_ANSWER_FAILED,  /* nothing happened; worth a retry */
    HF_ANSWER_FATAL,   /* nothing happened, and never will */
};
enum hf_answer_class hf__classify(const struct hf_answer *answer);

bool hf__alarm_init(struct hf_core *core, struct hf_alarm *alarm,
                    void (*ring)(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us));
void hf__alarm_done(struct hf_core *core, struct hf_alarm *alarm);
/* HF_NEVER clears it. */
void hf__alarm_set(struct hf_core *core, struct hf_alarm *alarm, int64_t at_us);

typedef void (*hf_request_fn)(struct hf_core *core, struct hf_request *request,
                              const struct hf_answer *answer, int64_t now_us);
/* NULL when out of memory. Fill op, then send or drop it. */
struct hf_request *hf__request_new(struct hf_core *core, enum hf_request_kind kind,
                                   struct hf_slice about, hf_request_fn done, void *owner);
void hf__request_send(struct hf_core *core, struct hf_request *request);

void hf__new_id(struct hf_core *core, struct hf_id *ret);
/*
 * The id of a grant or an intent. Where several services act for a session, it tells which of them
 * made it, and for which call (`want`; NULL: none).
 */
void hf__new_grant_id(struct hf_core *core, const struct hf_want *want, struct hf_id *ret);
bool hf__grant_is_marked(const struct hf_core *core, struct hf_slice grant);
bool hf__grant_is_of_call(const struct hf_want *want, struct hf_slice grant);
/* In [0, below). */
int64_t hf__random_below(struct hf_core *core, int64_t below);
/* The delay after this number of failures in a row. */
int64_t hf__backoff_us(struct hf_core *core, int failures, int64_t most_us);
/* … before retrying a write that another actor was faster at; zero the first time. */
int64_t hf__yield_us(struct hf_core *core, int overtaken);

struct hf_name *hf__name_get(struct hf_core *core, struct hf_slice text);
struct hf_name *hf__name_find(const struct hf_core *core, struct hf_slice text);
void hf__name_unref(struct hf_core *core, struct hf_name *name);
/* The exclusive grant of this client, held or being released; or NULL. */
struct hf_grant *hf__name_exclusive(const struct hf_name *name);
/* Whether this client holds, or is about to hold, the grant with this id. */
bool hf__name_cares_for(const struct hf_name *name, struct hf_slice grant);

/* Takes off the holder's share of the clocks' uncertainty. */
int64_t hf__valid_until_us(const struct hf_core *core, int64_t sent_us, int64_t lease_ms);
/* The latest moment at which a lease that begins now ends by the store's clock; 0: not known. */
int64_t hf__expires_unix_ms(const struct hf_core *core, int64_t now_us, int64_t lease_ms);
/* When a record that is released now may be deleted; 0: never. */
int64_t hf__ttl_unix_s(const struct hf_core *core, int64_t now_us, int64_t after_ms);

/* ---- observation.c ---- */

struct hf_verdict {
    bool dead;
    int64_t judge_at_us; /* when it could be found dead, if nothing changes; HF_NEVER */
};
/* Judges a holder whose sign of life was just read. */
struct hf_verdict hf__judge(struct hf_core *core, const struct hf_liveness *liveness,
                            int64_t now_us);
/* Whether this grant has been in the way long enough to be an orphan; true once per lease. */
bool hf__worth_asking(struct hf_core *core, struct hf_slice grant, int64_t lease_ms,
                      int64_t now_us);
bool hf__observations_init(struct hf_core *core);
void hf__observations_free(struct hf_core *core);

/* ---- lease.c ---- */

/* Why a reader's lease does not grow: waiters go by the one lease in the record of all readers. */
#define HF_FIXED_LEASE "a shared lock of this format keeps the lease that it was acquired with"

struct hf_lease *hf__lease_new(struct hf_core *core, bool is_session);
/* Starts keeping the lease: the write that made it, `by`, was first sent at sent_us. */
void hf__lease_begin(struct hf_core *core, struct hf_lease *lease, const struct hf_id *by,
                     int64_t sent_us, int64_t now_us);
/* Sends a renewal at once, unless one is in flight. */
void hf__lease_renew(struct hf_core *core, struct hf_lease *lease, int64_t now_us);
void hf__lease_end(struct hf_core *core, struct hf_lease *lease, enum hf_reason reason, int code,
                   const char *detail, int64_t now_us);
/* Fails the jobs that wait for this grant's renewal; NULL: for any grant of the lease. */
void hf__ensures_fail(struct hf_core *core, struct hf_lease *lease, const struct hf_grant *grant,
                      int code, enum hf_reason reason);
/* Completes the jobs that a confirmed renewal satisfies. */
void hf__ensures_settle(struct hf_core *core, struct hf_lease *lease, int64_t now_us);
void hf__ensure(struct hf_core *core, struct hf_lease *lease, int64_t at_least_ms,
                struct hf_job *job, int64_t now_us);
/* Adopts the version of the record, which promises nothing here (K5). */
void hf__lease_overtaken(struct hf_core *core, struct hf_lease *lease, const struct hf_claim *seen,
                         int64_t now_us);
/* The pending renewal has landed. */
void hf__lease_confirm(struct hf_core *core, struct hf_lease *lease, int64_t now_us);
void hf__lease_send_renewal(struct hf_core *core, struct hf_lease *lease, int64_t now_us);
void hf__lease_give_back_all(struct hf_core *core, const struct hf_lease *lease, int64_t now_us);
void hf__lease_schedule(struct hf_core *core, struct hf_lease *lease, int64_t now_us);
/* Adds a grant, and schedules its warning. */
void hf__lease_add(struct hf_core *core, struct hf_lease *lease, struct hf_grant *grant,
                   int64_t now_us);

/* ---- session.c ---- */

/* The live session; NULL: one is being created, and then session_waiters are called. */
struct hf_lease *hf__session_get(struct hf_core *core, int64_t now_us);
struct hf_lease *hf__session_find(const struct hf_core *core, struct hf_slice id);
/* The alarm of a session that is being created. */
void hf__session_retry(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* Obeys what other clients wrote into the record. */
void hf__session_heard(struct hf_core *core, struct hf_lease *session,
                       const struct hf_session_record *record, int64_t now_us);
/* Checks from time to time whether locks are still in their records. */
void hf__session_recheck(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* The last lock of a closed session has ended. */
void hf__session_left(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* Sets the owner of an opened session. False: out of memory. */
bool hf__session_name(struct hf_lease *session, struct hf_slice owner, struct hf_slice instance);
/* Deletes the record of a session of this client, whatever its version. */
void hf__session_drop(struct hf_core *core, const struct hf_id *id, int64_t now_us);

/* ---- common.c ---- */

/* Whether other services may serve this session, too. */
static inline bool hf__session_is_common(const struct hf_core *core, const struct hf_lease *lease)
{
    return lease->opened && core->options.by_grant;
}

/* The validity promised here has ended; another service may have promised more. */
void hf__session_lapse(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* The alarm of a dormant session. */
void hf__session_doze(struct hf_core *core, struct hf_lease *session, int64_t now_us);
void hf__session_look(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* Its record is gone. */
void hf__session_gone(struct hf_core *core, struct hf_lease *session, int64_t now_us);
/* The job ends once the session's record has been read after this call, and the session lasts. */
void hf__session_verify(struct hf_core *core, struct hf_lease *session, struct hf_job *job,
                        int64_t now_us);

/* ---- grant.c ---- */

/* In no list yet, with room for owner_room bytes of owner. NULL when out of memory. */
struct hf_grant *hf__grant_new(size_t owner_room);
void hf__grant_claim(const struct hf_core *core, const struct hf_grant *grant,
                     struct hf_claim *ret);
/* The final event. `detail` is copied. */
void hf__grant_end(struct hf_core *core, struct hf_grant *grant, enum hf_reason reason, int code,
                   const char *detail, int64_t now_us);
void hf__grant_warn(struct hf_core *core, struct hf_grant *grant);
/* The grant's session was renewed: the job ends when the lock's record has been read, too. */
void hf__grant_recheck(struct hf_core *core, struct hf_job *job, int64_t now_us);
/* The record no longer contains the grant, and says why. */
void hf__grant_end_as(struct hf_core *core, struct hf_grant *grant, const struct hf_record *record,
                      int64_t now_us);
/* The same as an error, for a grant that is not held here. */
void hf__explain_lost(const struct hf_record *record, const struct hf_id *grant,
                      struct hf_error *ret);

/* ---- adopt.c ---- */

/* The first renewal of an adopted grant has been confirmed. */
void hf__adopted(struct hf_core *core, struct hf_grant *grant, int64_t now_us);
/* It ended before that. Reports, and frees the grant. */
void hf__adoption_failed(struct hf_core *core, struct hf_grant *grant, struct hf_job *job);
void hf__adoptions_fail(struct hf_core *core, int64_t now_us);
/* The holder with this grant, if a session keeps it that this client may serve; or NULL. */
const struct hf_holder *hf__holder_in_session(const struct hf_core *core,
                                              const struct hf_record *record,
                                              const struct hf_id *grant, int64_t *ret_limit);
/* NULL: this record's holder can be acted for by grant. */
const char *hf__refuses_by_grant(const struct hf_record *record, const struct hf_claim *claim,
                                 struct hf_slice owner, int *ret_code);

/* ---- attempt.c ---- */

void hf__attempt_session_ready(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
void hf__attempt_fail(struct hf_core *core, struct hf_attempt *attempt,
                      const struct hf_error *error, int64_t now_us);
/* Creating the session that it waits for has failed; that is retried. */
void hf__attempt_session_fails(struct hf_core *core, struct hf_attempt *attempt,
                               const struct hf_error *error);
/* Tells waiters of a hint (hint.c). */
void hf__hints_pass_on(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);
/* A release has been sent: the first in line may send its try right after it. */
void hf__name_follow(struct hf_core *core, struct hf_name *name, int64_t now_us);
/* Lets the first in line proceed at once. */
void hf__name_advance(struct hf_core *core, struct hf_name *name, int64_t now_us);

/* ---- errand.c ---- */

enum hf_errand_kind {
    HF_ERRAND_RELEASE,   /* of a grant: a final event follows */
    HF_ERRAND_BY_GRANT,  /* a release of a grant that is not held here: a job */
    HF_ERRAND_EXPIRE,    /* of a grant whose time here is up: a final event follows */
    HF_ERRAND_GIVE_BACK, /* of a grant that no caller here wants */
    HF_ERRAND_RETIRE,    /* sets the ttl of a shared lock that has no holder left */
    HF_ERRAND_WITHDRAW,  /* an intent */
    HF_ERRAND_ASK,
    HF_ERRAND_CLEAR,
    HF_ERRAND_END_SESSION,
    HF_ERRAND_DATA,
    HF_ERRAND_RECHECK,
};

struct hf_errand {
    struct hf_alarm alarm;
    struct hf_list node;
    enum hf_errand_kind kind;
    struct hf_request *request;
    struct hf_arena arena;  /* memory of the texts and sets below */
    struct hf_name *name;   /* counted; NULL for sessions */
    struct hf_grant *grant; /* RELEASE, EXPIRE, DATA, RECHECK */
    struct hf_list of_grant;
    struct hf_job *job; /* DATA, BY_GRANT */
    bool known;         /* BY_GRANT: the claim is filled from the record */
    bool of_session;    /* BY_GRANT: kept by a session, whose owner is being read */
    bool looks;         /* EXPIRE: it only reads, since other actors serve the grant as well */
    bool buries;        /* END_SESSION: no late copy of its creation may bring it back */
    struct hf_claim claim;
    struct hf_id session;   /* claim.session points here */
    char owner[64];         /* claim.owner, if it fits */
    struct hf_slice text;   /* ASK */
    struct hf_slice target; /* ASK, CLEAR, END_SESSION: the session; WITHDRAW: the member;
                               BY_GRANT: the owner it must be */
    struct hf_values asked; /* CLEAR */
    struct hf_values revoked;
    int failures;
    int overtaken; /* how often another actor has changed the version first */
    int64_t give_up_us;
    bool sent; /* an earlier copy may have landed */
};

/* A few are made in advance: giving up a lock must not fail for want of memory (C5). */
bool hf__errands_init(struct hf_core *core);
void hf__errands_free(struct hf_core *core);
/* NULL when out of memory. Fill it, then start it; it frees itself. */
struct hf_errand *hf__errand_new(struct hf_core *core, enum hf_errand_kind kind,
                                 struct hf_name *name);
struct hf_errand *hf__errand_for(struct hf_core *core, enum hf_errand_kind kind,
                                 struct hf_grant *grant);
void hf__errand_start(struct hf_core *core, struct hf_errand *errand, int64_t patience_ms,
                      int64_t now_us);
void hf__errand_free(struct hf_core *core, struct hf_errand *errand);
/* Ends the errands of a grant that has ended in another way. */
void hf__errands_forget(struct hf_core *core, struct hf_grant *grant);
/* Fails the errands that a caller waits for: the client is closed. */
void hf__errands_fail(struct hf_core *core, int64_t now_us);
/*
 * Gives back a grant or an intent that may be in the record as the claim has it. One that another
 * actor has renewed since is left alone. Best effort. kind: as in an errand's text.
 */
void hf__give_back(struct hf_core *core, struct hf_name *name, enum hf_hold kind,
                   const struct hf_claim *claim, int64_t now_us);

/* ---- force.c ---- */

void hf__forces_fail(struct hf_core *core, int64_t now_us);

/* Ends a job. */
void hf__job_done(struct hf_core *core, struct hf_job *job, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
