/* Private to the files of an attempt: attempt.c, queue.c, rival.c, hint.c, turn.c and report.c. */
#ifndef HF_LOCK_ATTEMPT_H
#define HF_LOCK_ATTEMPT_H

#include "lock/inside.h"

/* Whether the caller wants an answer at once. */
bool hf__attempt_is_try(const struct hf_attempt *attempt);
/* A reader that joins readers who keep their own leases. */
bool hf__attempt_joins(const struct hf_attempt *attempt);
bool hf__attempt_wants_session(const struct hf_attempt *attempt);
/* The live session that will keep the lock; NULL: it is being created, or has ended. */
struct hf_lease *hf__attempt_session(struct hf_core *core, const struct hf_attempt *attempt,
                                     int64_t now_us);

/* A request of the attempt, which has one at a time. NULL: it retries later. */
struct hf_request *hf__attempt_request(struct hf_core *core, struct hf_attempt *attempt,
                                       enum hf_request_kind kind, hf_request_fn done,
                                       int64_t now_us);

/* Handles the answers that are alike for every step. True: the step continues. */
bool hf__attempt_step(struct hf_core *core, struct hf_attempt *attempt, struct hf_request *request,
                      const struct hf_answer *answer, int64_t now_us);
/* The same for steps that read again after an unknown outcome. */
bool hf__attempt_decided_step(struct hf_core *core, struct hf_attempt *attempt,
                              struct hf_request *request, const struct hf_answer *answer,
                              int64_t now_us);
/* The store has granted or refused the request. */
bool hf__answer_decided(const struct hf_answer *answer);

/* Waits until then, or for a hint. */
void hf__attempt_sleep(struct hf_core *core, struct hf_attempt *attempt, int64_t at_us);
/* The next step. Each may end the attempt. */
void hf__attempt_go(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
void hf__attempt_try(struct hf_core *core, struct hf_attempt *attempt, bool take, int64_t now_us);
void hf__attempt_wait(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
void hf__attempt_retry(struct hf_core *core, struct hf_attempt *attempt,
                       const struct hf_answer *answer, int64_t now_us);
void hf__attempt_retry_for_memory(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
void hf__attempt_end(struct hf_core *core, struct hf_attempt *attempt, int code, const char *why,
                     int64_t now_us);

/* Lists all rivals in the attempt's record. False when out of memory. */
bool hf__rivals_list(struct hf_attempt *attempt);
/* Examines the rivals that are left, then acts. */
void hf__rivals_examine(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);

/* ---- attempt.c and queue.c ---- */

/* Reports the result, once (A5). */
void hf__attempt_finish(struct hf_core *core, struct hf_attempt *attempt, int code, int64_t now_us);
/* The lock is held; the message names the holder. */
void hf__attempt_fail_held(struct hf_core *core, struct hf_attempt *attempt, int code,
                           int64_t now_us);
void hf__attempt_ring(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us);
void hf__attempt_destroy(struct hf_core *core, struct hf_attempt *attempt);

/* ---- hint.c ---- */

/* Adds it to, or removes it from, the waiting attempts. */
void hf__attempt_set_waiting(struct hf_core *core, struct hf_attempt *attempt, bool waits);
/* Makes it poll soon. */
void hf__attempt_hint(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
/* It has read the record. */
void hf__attempt_noticed(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);
/* Whether polling may rely on hints. */
bool hf__hints_are_trusted(const struct hf_core *core, int64_t now_us);

/* ---- turn.c ---- */

/* It waits: it joins the line. */
void hf__turn_queue(struct hf_core *core, struct hf_attempt *attempt);
void hf__turn_leave(struct hf_core *core, struct hf_attempt *attempt);
bool hf__turn_is_ours(const struct hf_core *core, const struct hf_attempt *attempt);
/* When it looks by itself at what those ahead of it may have left alone. */
int64_t hf__turn_patience_us(struct hf_core *core, int64_t now_us);
/* Whether it lets others go first, for now, before it tries; it has then joined the line. */
bool hf__turn_yields(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us);

/* ---- report.c ---- */

/* Remembers its blocker, if known. */
void hf__attempt_note_blocker(const struct hf_core *core, struct hf_attempt *attempt);
/* Its wait may have changed. */
void hf__attempt_report(struct hf_core *core, struct hf_attempt *attempt);
/* The same for all attempts that wait for the lock here. */
void hf__name_report(struct hf_core *core, const struct hf_name *name);

void hf__name_refuse_tries(struct hf_core *core, struct hf_name *name, int64_t now_us);

#endif
