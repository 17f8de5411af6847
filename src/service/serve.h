/* The service, for the command that runs it. */
#ifndef HF_SERVICE_SERVE_H
#define HF_SERVICE_SERVE_H

#include "holdfast.h"

struct hf_service;

struct hf_serve_options {
    const char *store_url;
    const char *access_key_id; /* of the store; NULL: found as AWS's clients do */
    const char *secret_access_key;
    struct hf_client_options client; /* format, table, keys, times; not store, owner, sessions */
    const char *v1_table;            /* NULL: the client's with format lockservice; "lockservice" */
    int listen_fd;
    int metrics_fd; /* /metrics, /healthz, /readyz are there alone, without TLS; 0: with the rest */
    const char *allowed_hosts; /* without authentication: names that it goes by; NULL: none */
    int64_t look_ms;           /* while somebody listens to events; 0: 1000, with DynamoDB 5000 */

    /* TLS: PEM files; NULL: none. */
    const char *tls_certificate;
    const char *tls_key;
    const char *client_ca;

    /* Authentication. */
    bool authentication_disabled; /* otherwise, with none of the following, nobody is let in */
    const char *jwt_issuer;
    const char *jwt_jwks;
    const char *jwt_audience;
    const char *tokens_file;
    const char *admins;
    const char *admin_claim;
    const char *rules_file;   /* rules.h; NULL: everybody may read and lock everything */
    const char *rights_claim; /* of a JWT, which has rights in it */
    int64_t leeway_s;         /* 0: 60 */

    /* Who may use the DynamoDB API: SigV4 keys; NULL: anybody whom the rest lets in. */
    const char *dynamodb_key_id;
    const char *dynamodb_secret;

    /* Limits; 0: the default. */
    int64_t max_connections;             /* 10000 */
    int64_t max_connections_per_address; /* none */
    int64_t max_waiters;                 /* 10000 */
    int64_t max_waiters_per_caller;      /* none */
    int64_t max_sessions;                /* 10000 */
    int64_t max_sessions_per_caller;     /* none, as the following */
    int64_t max_streams_per_caller;
    int64_t max_locks_per_caller;
    int64_t max_data_per_caller; /* bytes */
    int64_t max_lease_ms;        /* of callers who are not administrators; a day */
    int64_t rate_per_caller;     /* none */
    int64_t rate;                /* none */
    int64_t request_timeout_ms;  /* 30000 */

    hf_log_fn log;
    void *log_user;
    enum hf_log_level log_level;
    void (*access)(void *user, const char *line); /* NULL: no log of requests */
    void *access_user;
    bool access_failures_only;
    const uint64_t *log_dropped; /* lines that could not be logged; atomic; NULL: all were */
};

int hf__service_start(const struct hf_serve_options *options, struct hf_service **ret,
                      struct hf_error *reterr);
/* Whether the files that are named can be used; nothing is started. */
int hf__service_check(const struct hf_serve_options *options, struct hf_error *reterr);
/* Certificates, tokens, rules and keys, anew; what cannot be read stays as it is. */
int hf__service_reload(struct hf_service *service, struct hf_error *reterr);
/*
 * Takes no more; answers those who wait; gives what is under way so long to end. Locks that were
 * granted stay as they are. False: some requests did not end; end the process.
 */
bool hf__service_stop(struct hf_service *service, int64_t drain_ms);

#endif
