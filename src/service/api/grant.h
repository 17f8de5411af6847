/*
 * What was granted to callers of v2, by grant: the locks that this process keeps an eye on. A grant
 * of an earlier process, or of another service, comes here when it is renewed for the first time.
 * Nothing is answered from here alone: others may act for the same grant.
 *
 * Invariants
 * E1  An entry is in the table from the moment it was granted until the lock's final event.
 * E2  Its lock's handle lasts as long as the entry.
 * E3  A grant that its caller cannot have received is given back.
 */
#ifndef HF_SERVICE_API_GRANT_H
#define HF_SERVICE_API_GRANT_H

#include "service/service.h"

enum { HF_GRANT_HEX = 33 }; /* 32, and an s before those of readers without a session */

struct hf_entry {
    struct hf_entry *next; /* in its bucket */
    struct hf_service *service;
    uint32_t refs;
    bool listed;
    bool shared;
    bool waits;           /* it may have to */
    int told;             /* how many calls were answered with it, and may have heard of it */
    bool given_back;      /* nobody has */
    struct hf_lock *lock; /* NULL: not granted yet */
    struct hf_acquisition *acquisition;
    struct hf_exchange *acquiring;
    struct hf_exchange *releasing;
    struct hf_session_entry *session; /* counted; NULL: none */
    char *name;
    char *owner;
    char *instance;            /* NULL: not said */
    char *key;                 /* idempotency; NULL: none */
    struct hf_list of_session; /* among its session's locks, while it is listed */
    bool counted;              /* among its owner's */
    int64_t data_size;         /* … with so much */
    int64_t limit;
    int64_t asked_us;
    char id[HF_GRANT_HEX + 1];
};

int hf__grants_start(struct hf_service *service, struct hf_error *reterr);
void hf__grants_stop(struct hf_service *service);

struct hf_entry *hf__entry_new(struct hf_service *service, const char *name, const char *owner,
                               const char *key);
void hf__entry_unref(struct hf_entry *entry);
/* Counts it among its owner's; false: there are too many, or too much data with them. */
bool hf__entry_count(struct hf_entry *entry, int64_t data_size);
/* Granted: it can be found from now on. */
void hf__entry_list(struct hf_entry *entry);
void hf__entry_unlist(struct hf_entry *entry);
/*
 * It is about to be told to a caller; false: it cannot be, since it is on its way back. A caller
 * that cannot have received it is taken back: true if it was the last one, and the grant is to be
 * given back. One that has received it keeps it for ever.
 */
bool hf__entry_tell(struct hf_entry *entry);
bool hf__entry_untell(struct hf_entry *entry);
/* A reference, or NULL. */
struct hf_entry *hf__entry_find(struct hf_service *service, const char *id);
/* A key is taken from the beginning of the call; false if somebody else has it. */
bool hf__entry_claim_key(struct hf_entry *entry, struct hf_entry **ret_other);
void hf__entry_drop_key(struct hf_entry *entry);

/* Calls for every listed entry of a session, under the table's mutex. */
void hf__entries_of(struct hf_session_entry *session,
                    void (*call)(void *user, struct hf_entry *entry), void *user);

#endif
