#include "cli/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct serve_options, member)

static const struct option options[] = {
    {"listen", 0, OPTION_TEXT, "ADDRESS:PORT", AT(listen),
     "where to listen (default: 127.0.0.1:8080)"},
    {"metrics-listen", 0, OPTION_TEXT, "ADDRESS:PORT", AT(metrics_listen),
     "separate port for /metrics, /healthz and /readyz, without TLS"},
    {"tls-cert", 0, OPTION_TEXT, "FILE", AT(tls_cert), "certificate chain, PEM"},
    {"tls-key", 0, OPTION_TEXT, "FILE", AT(tls_key), "private key of the certificate, PEM"},
    {"client-ca", 0, OPTION_TEXT, "FILE", AT(client_ca),
     "callers may use certificates signed by it; the common name is the owner"},
    {"tokens", 0, OPTION_TEXT, "FILE", AT(tokens),
     "bearer tokens: lines of TOKEN OWNER, or TOKEN OWNER admin"},
    {"jwt-issuer", 0, OPTION_TEXT, "URL", AT(jwt_issuer),
     "JWTs of this issuer; finds its keys by OpenID discovery"},
    {"jwt-jwks", 0, OPTION_TEXT, "URL", AT(jwt_jwks), "URL of the key set, instead of discovery"},
    {"jwt-audience", 0, OPTION_TEXT, "TEXT", AT(jwt_audience), "audience that a JWT must have"},
    {"jwt-leeway", 0, OPTION_DURATION, "DUR", AT(jwt_leeway_ms),
     "how far the issuer's clock may be off (default: 60s)"},
    {"admin", 0, OPTION_TEXT, "OWNERS", AT(admins), "comma-separated owners who may force-release"},
    {"admin-claim", 0, OPTION_TEXT, "NAME=VALUE", AT(admin_claim),
     "claim of JWTs whose callers may force-release, too (default: scope=holdfast:admin)"},
    {"rules", 0, OPTION_TEXT, "FILE", AT(rules), "access rules: lines of WHO RIGHTS NAME…"},
    {"rights-claim", 0, OPTION_TEXT, "NAME", AT(rights_claim),
     "claim of a JWT that contains rights: RIGHTS NAME…"},
    {"access-keys", 0, OPTION_TEXT, "FILE", AT(access_keys),
     "keys that sign calls of the DynamoDB API: lines of ACCESS_KEY_ID SECRET"},
    {"check", 0, OPTION_FLAG, NULL, AT(check), "check settings and files, then exit"},
    {"no-auth", 0, OPTION_FLAG, NULL, AT(no_auth),
     "allow everything to every caller, even from other machines"},
    {"allow-host", 0, OPTION_TEXT, "NAMES", AT(allow_host),
     "without authentication: comma-separated host names that requests may use; * for any"},
    {"v1-table", 0, OPTION_TEXT, "NAME", AT(v1_table),
     "table of v1's locks (default: lockservice; with --format lockservice, the store's)"},
    {"threads", 0, OPTION_NUMBER, "N", AT(threads),
     "no effect: one loop serves all connections; accepted for older configurations"},
    {"max-connections", 0, OPTION_NUMBER, "N", AT(max_connections),
     "connections at a time (default: 10000)"},
    {"max-connections-per-address", 0, OPTION_NUMBER, "N", AT(max_connections_per_address),
     "likewise, per address (default: no limit; beyond this machine 1000)"},
    {"max-waiters", 0, OPTION_NUMBER, "N", AT(max_waiters), "acquires at a time (default: 10000)"},
    {"max-waiters-per-caller", 0, OPTION_NUMBER, "N", AT(max_waiters_per_caller),
     "likewise, per owner (default: no limit; beyond this machine 1000)"},
    {"max-sessions", 0, OPTION_NUMBER, "N", AT(max_sessions),
     "sessions at a time (default: 10000)"},
    {"max-sessions-per-caller", 0, OPTION_NUMBER, "N", AT(max_sessions_per_caller),
     "likewise, per owner (default: no limit; beyond this machine 1000)"},
    {"max-streams-per-caller", 0, OPTION_NUMBER, "N", AT(max_streams_per_caller),
     "event streams per owner (default: no limit; beyond this machine 100)"},
    {"max-locks-per-caller", 0, OPTION_NUMBER, "N", AT(max_locks_per_caller),
     "locks held or requested, per owner (default: no limit; beyond this machine 100000)"},
    {"max-data-per-caller", 0, OPTION_NUMBER, "BYTES", AT(max_data_per_caller),
     "data stored with those locks (default: no limit; beyond this machine 64 MiB)"},
    {"max-lease", 0, OPTION_DURATION, "DUR", AT(max_lease_ms),
     "longest lease of callers who are not administrators (default: 24h)"},
    {"rate", 0, OPTION_NUMBER, "N", AT(rate), "requests per second (default: no limit)"},
    {"rate-per-caller", 0, OPTION_NUMBER, "N", AT(rate_per_caller), "likewise, per owner"},
    {"client-timeout", 0, OPTION_DURATION, "DUR", AT(client_timeout_ms),
     "time for a request to arrive, and for its answer to be read (default: 30s)"},
    {"look", 0, OPTION_DURATION, "DUR", AT(look_ms),
     "how often the table is polled for events (default: 1s, DynamoDB 5s)"},
    {"peer", 0, OPTION_TEXT, "URLS", AT(peers),
     "comma-separated URLs of other services on the same table, to hear of releases at once"},
    {"advertise", 0, OPTION_TEXT, "URL", AT(advertise),
     "URL of this service, kept in the table so that such services find each other"},
    {"peer-token-file", 0, OPTION_TEXT, "FILE", AT(peer_token_file),
     "bearer token for those services; its owner needs the right to read all locks"},
    {"peer-ca", 0, OPTION_TEXT, "FILE", AT(peer_ca),
     "certificate authority of those services, instead of the system's"},
    {"drain", 0, OPTION_DURATION, "DUR", AT(drain_ms),
     "time for requests in progress to finish when stopped (default: 10s)"},
    {0},
};

/* LockServiceCentral's names of these options. */
static const struct {
    const char *variable;
    const char *option;
} other_names[] = {
    {"JWT_ISSUER", "jwt-issuer"},
    {"JWT_JWKS", "jwt-jwks"},
    {"JWT_AUDIENCE", "jwt-audience"},
    {"AUTHENTICATION_DISABLED", "no-auth"},
};

static bool is_given(const struct option *option, const void *at)
{
    const char *place = (const char *)at + option->offset;
    switch (option->kind) {
    case OPTION_FLAG: return *(const bool *)place;
    case OPTION_TEXT: return *(const char *const *)place != NULL;
    default: return *(const int64_t *)place != 0;
    }
}

static int set(const struct option *option, void *at, const char *name, const char *value,
               struct hf_error *reterr)
{
    if (!value || !*value || is_given(option, at)) return 0;
    bool no = strcmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcmp(value, "no") == 0;
    bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0 || strcmp(value, "yes") == 0;
    int code = 0;
    if (option->kind == OPTION_FLAG && no) {
        if (option->offset == AT(no_auth)) ((struct serve_options *)at)->auth_wanted = true;
        return 0;
    }
    if (option->kind == OPTION_FLAG && !yes)
        code = hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid value \"%.64s\": expected true or false", value);
    else code = option_set_value(option, at, option->kind == OPTION_FLAG ? NULL : value, reterr);
    if (code == 0 && option->offset == AT(no_auth))
        ((struct serve_options *)at)->no_auth_by =
            strncmp(name, "HOLDFAST_", 9) == 0 ? "HOLDFAST_NO_AUTH" : "AUTHENTICATION_DISABLED";
    if (code != 0) hf__error_prefix(reterr, "%s", name);
    return code;
}

/* HOLDFAST_TLS_CERT for --tls-cert, and so on. */
static int from_environment(struct serve_options *given, struct hf_error *reterr)
{
    int code = 0;
    for (const struct option *option = options; option->name && code == 0; option++) {
        char name[64] = "HOLDFAST_";
        size_t len = strlen(name);
        for (const char *at = option->name; *at && len + 1 < sizeof name; at++)
            name[len++] = (char)(*at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? *at - 32 : *at);
        name[len] = '\0';
        code = set(option, given, name, getenv(name), reterr);
        for (size_t i = 0; i < sizeof other_names / sizeof other_names[0] && code == 0; i++) {
            if (strcmp(other_names[i].option, option->name) == 0)
                code = set(option, given, other_names[i].variable, getenv(other_names[i].variable),
                           reterr);
        }
    }
    return code;
}

static int serve(struct cli *cli, void *at)
{
    struct serve_options *given = at;
    struct hf_error error;
    if (!cli_words(cli, 0, 0, "serve takes no arguments")) return EXIT_USAGE;
    if (from_environment(given, &error) != 0) return cli_usage("%s", error.message);
    if (!given->tls_cert != !given->tls_key)
        return cli_usage("use both --tls-cert and --tls-key, or neither");
    if (given->client_ca && !given->tls_cert)
        return cli_usage("--client-ca needs TLS; use --tls-cert and --tls-key");
    if (!given->listen) given->listen = "127.0.0.1:8080";
    return serve_run(cli, given);
}

const struct command command_serve = {
    .name = "serve",
    .summary = "run the lock service: HTTP APIs, live page, metrics",
    .synopsis = "serve [--listen ADDRESS:PORT] [OPTION…]",
    .text =
        "Serves locks over HTTP, on one port: v2 (/v2/locks, see /openapi.yaml), v1\n"
        "(LockServiceCentral's), the DynamoDB API (on a file store), a live page (/), metrics\n"
        "(/metrics), /healthz and /readyz.\n\n"
        "Beyond this machine it listens only with authentication: --tokens, --jwt-issuer,\n"
        "--jwt-jwks, --client-ca or, for the DynamoDB API alone, --access-keys; or with --no-auth.\n"
        "Each option is also a variable:\n"
        "HOLDFAST_TLS_CERT for --tls-cert. LockServiceCentral's JWT_ISSUER, JWT_JWKS,\n"
        "JWT_AUDIENCE, AUTHENTICATION_DISABLED and LOCKER_DYNAMODB_… work too.\n\n"
        "One line of JSON per request goes to standard error; with --quiet, failures only.\n"
        "SIGTERM stops it: waiting callers are refused, locks stay held. SIGHUP reads\n"
        "certificates, tokens, rules and keys again. A socket from systemd is used if there is one.",
    .examples = "  holdfast serve\n"
                "  holdfast serve --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem \\\n"
                "      --tokens tokens.txt\n"
                "  curl -X POST localhost:8080/v2/locks/nightly-report/acquire",
    .options = options,
    .options_size = sizeof(struct serve_options),
    .run = serve,
};
