/*
 * Sessions of callers: one renewal for any number of locks. A session belongs to the table: any
 * service on it serves a caller that shows the session's id and has the same owner. The id is a
 * secret; what the table has is a hash of it. An entry here is what this process knows of one.
 */
#ifndef HF_SERVICE_API_SESSION_H
#define HF_SERVICE_API_SESSION_H

#include "service/service.h"

struct hf_session_entry {
    struct hf_session_entry *next;
    uint32_t refs;
    struct hf_service *service;
    struct hf_session *session;
    char *owner;
    char *instance;       /* NULL: not given */
    bool counted;         /* among its owner's: it was opened here */
    struct hf_list locks; /* guarded by the grants' mutex (grant.c) */
    char id[33];
};

int hf__sessions_start(struct hf_service *service, struct hf_error *reterr);
void hf__sessions_stop(struct hf_service *service);
/* The session of this owner (NULL: of any) with this id, live or not; a reference, or NULL. */
struct hf_session_entry *hf__session_entry_find(struct hf_service *service, const char *id,
                                                const char *owner);
/* Removes sessions that have ended. */
void hf__sessions_sweep(struct hf_service *service);
/* It has ended here: it is no longer found. */
void hf__session_entry_unlist(struct hf_session_entry *entry);
/* The same, at most once per second, since any caller may cause it. */
void hf__sessions_sweep_at_times(struct hf_service *service);
void hf__session_entry_unref(struct hf_session_entry *entry);
/*
 * Looks for a session that is not known here in the table, and renews it; the call then continues
 * with `then`, which finds the session. Answers 410 if there is none. An empty `owner`: any.
 */
void hf__session_adopt_for(struct hf_exchange *exchange, const char *id, const char *owner,
                           void (*then)(struct hf_exchange *exchange));

#endif
