/*
 * Sessions of callers: one renewal for any number of locks. A session lives in this process. Its id
 * is a secret of the caller; it is unknown to other services, and after a restart.
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
    char *instance; /* NULL: not given */
    int64_t lease_ms;
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
/* The same, at most once per second, since any caller may cause it. */
void hf__sessions_sweep_at_times(struct hf_service *service);
void hf__session_entry_unref(struct hf_session_entry *entry);

#endif
