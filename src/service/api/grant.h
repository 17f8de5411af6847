/*
 * Grants of callers of v2: the locks that this process tracks. A grant of an earlier process, or of
 * another service, is added when it is renewed here for the first time. Nothing is answered from
 * here alone: other actors may serve the same grant.
 *
 * Invariants
 * E1  An entry is in the table from its grant until the lock's final event.
 * E2  Its lock's handle lives as long as the entry.
 * E3  A grant that its caller cannot have received is given back.
 */
#ifndef HF_SERVICE_API_GRANT_H
#define HF_SERVICE_API_GRANT_H

#include "service/service.h"

enum { HF_GRANT_HEX = 33 }; /* 32 digits, after an "s" for readers without a session */

struct hf_entry {
    struct hf_entry *next; /* in its bucket */
    struct hf_service *service;
    uint32_t refs;
    bool listed;
    bool shared;
    bool waits;           /* the acquire may have to wait */
    int told;             /* the number of calls answered with it that may have received it */
    bool repeats;         /* an earlier call got it, through another service */
    bool given_back;      /* no caller has received it */
    struct hf_lock *lock; /* NULL: not granted yet */
    struct hf_acquisition *acquisition;
    struct hf_exchange *acquiring;
    struct hf_exchange *releasing;
    struct hf_session_entry *session; /* counted; NULL: none */
    char *name;
    char *owner;
    char *instance;            /* NULL: not given */
    char *key;                 /* idempotency; NULL: none */
    struct hf_list of_session; /* among its session's locks, while it is listed */
    bool counted;              /* against its owner's budget */
    int64_t data_size;         /* … with this amount of data */
    int64_t limit;
    int64_t asked_us;
    char id[HF_GRANT_HEX + 1];
};

int hf__grants_start(struct hf_service *service, struct hf_error *reterr);
void hf__grants_stop(struct hf_service *service);

struct hf_entry *hf__entry_new(struct hf_service *service, const char *name, const char *owner,
                               const char *key);
void hf__entry_unref(struct hf_entry *entry);
/* Counts it against its owner's budget; false: too many locks, or too much data. */
bool hf__entry_count(struct hf_entry *entry, int64_t data_size);
/* Granted: it can be found from now on. */
void hf__entry_list(struct hf_entry *entry);
void hf__entry_unlist(struct hf_entry *entry);
/*
 * Call tell before answering with the grant; false: it is being given back, do not answer with it.
 * Call untell if the caller cannot have received the answer: true if it was the last such caller,
 * and the grant must be given back. A grant that one caller has received is never given back.
 */
bool hf__entry_tell(struct hf_entry *entry);
bool hf__entry_untell(struct hf_entry *entry);
/* A reference, or NULL. */
struct hf_entry *hf__entry_find(struct hf_service *service, const char *id);
/* Takes the key at the beginning of the call; false if another entry has it. */
bool hf__entry_claim_key(struct hf_entry *entry, struct hf_entry **ret_other);
void hf__entry_drop_key(struct hf_entry *entry);

/* Calls the function for every listed entry of a session, with the table's mutex. */
void hf__entries_of(struct hf_session_entry *session,
                    void (*call)(void *user, struct hf_entry *entry), void *user);

#endif
