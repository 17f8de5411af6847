/* The options of `holdfast serve`. */
#ifndef HF_CLI_SERVE_H
#define HF_CLI_SERVE_H

#include "cli/cli.h"

struct serve_options {
    const char *listen;
    const char *metrics_listen; /* NULL: on the same port */
    const char *tls_cert;
    const char *tls_key;
    const char *client_ca;
    bool no_auth;
    const char *no_auth_by; /* the variable that disables it; NULL: --no-auth */
    bool auth_wanted;       /* AUTHENTICATION_DISABLED=false */
    const char *allow_host;
    const char *tokens;
    const char *jwt_issuer;
    const char *jwt_jwks;
    const char *jwt_audience;
    int64_t jwt_leeway_ms;
    const char *admins;
    const char *admin_claim;
    const char *rules;
    const char *access_keys;
    const char *rights_claim;
    bool check;
    const char *v1_table;
    int64_t threads;
    int64_t max_connections;
    int64_t max_connections_per_address;
    int64_t max_waiters;
    int64_t max_waiters_per_caller;
    int64_t max_sessions;
    int64_t max_sessions_per_caller;
    int64_t max_streams_per_caller;
    int64_t max_locks_per_caller;
    int64_t max_data_per_caller;
    int64_t max_lease_ms;
    int64_t rate;
    int64_t rate_per_caller;
    int64_t client_timeout_ms;
    int64_t look_ms;
    const char *peers;
    const char *advertise;
    const char *peer_token_file;
    const char *peer_ca;
    int64_t drain_ms;
};

/* In this process, or by executing holdfast-serve. */
int serve_run(struct cli *cli, struct serve_options *options);

#endif
