/* The service, for the command that runs it. */
#ifndef HF_SERVICE_SERVE_H
#define HF_SERVICE_SERVE_H

#include "holdfast.h"

struct hf_service;

struct hf_serve_options {
    const char *store_url;
    const char *access_key_id; /* of the store; NULL: found in the same way as AWS's clients do */
    const char *secret_access_key;
    struct hf_client_options client; /* format, table, keys, times; not store, owner, sessions */
    const char *v1_table;            /* NULL: the client's (format lockservice) or "lockservice" */
    int listen_fd;
    int metrics_fd; /* serves only /metrics, /healthz and /readyz, without TLS; 0: on listen_fd */
    const char *allowed_hosts; /* without authentication: accepted host names; NULL: none */
    int64_t look_ms;           /* polls for event listeners; 0: 1000, with DynamoDB 5000 */

    /* Other services on the same table, which tell each other what was released (api/peer.h). */
    const char *peers;           /* URLs, comma-separated; NULL: none */
    const char *advertise;       /* the URL at which those find this one; NULL: it is not told */
    const char *peer_token_file; /* what this service shows them; NULL: nothing */
    const char *peer_ca;         /* to trust instead of the system's; NULL: the system's */

    /* TLS: PEM files; NULL: none. */
    const char *tls_certificate;
    const char *tls_key;
    const char *client_ca;

    /* Authentication. */
    bool authentication_disabled; /* without it and the following, all callers are refused */
    const char *jwt_issuer;
    const char *jwt_jwks;
    const char *jwt_audience;
    const char *tokens_file;
    const char *admins;
    const char *admin_claim;
    const char *rules_file;   /* rules.h; NULL: every caller may read and lock everything */
    const char *rights_claim; /* the claim of a JWT that contains rights */
    int64_t leeway_s;         /* 0: 60 */

    /* Callers of the DynamoDB API: SigV4 keys; NULL: those that the rest of the service admits. */
    const char *access_keys_file;
    const char *dynamodb_key_id;
    const char *dynamodb_secret;

    /* Limits; 0: the default. */
    int64_t max_connections;             /* 10000 */
    int64_t max_connections_per_address; /* none */
    int64_t max_waiters;                 /* 10000 */
    int64_t max_waiters_per_caller;      /* none */
    int64_t max_sessions;                /* 10000 */
    int64_t max_sessions_per_caller;     /* none, like the following */
    int64_t max_streams_per_caller;
    int64_t max_locks_per_caller;
    int64_t max_data_per_caller; /* bytes */
    int64_t max_lease_ms;        /* of callers that are not administrators; a day */
    int64_t rate_per_caller;     /* none */
    int64_t rate;                /* none */
    int64_t request_timeout_ms;  /* 30000 */

    hf_log_fn log;
    void *log_user;
    enum hf_log_level log_level;
    void (*access)(void *user, const char *line); /* NULL: no log of requests */
    void *access_user;
    bool access_failures_only;
    const uint64_t *log_dropped; /* lines dropped from the log; atomic; NULL: none */
};

int hf__service_start(const struct hf_serve_options *options, struct hf_service **ret,
                      struct hf_error *reterr);
/* Whether the files named can be used; nothing is started. */
int hf__service_check(const struct hf_serve_options *options, struct hf_error *reterr);
/* Reads certificates, tokens, rules and keys again; on failure the present ones stay in use. */
int hf__service_reload(struct hf_service *service, struct hf_error *reterr);
/*
 * Accepts nothing more; answers waiting callers; gives requests under way drain_ms to end. Locks
 * that were granted stay held. False: some requests did not end; end the process.
 */
bool hf__service_stop(struct hf_service *service, int64_t drain_ms);

#endif
