/*
 * The lock service: declarations that its parts share.
 *
 * http/   receiving requests and sending answers
 *   server.c      ports and rounds; connection.c: one connection; address.c: totals per address
 *   exchange.c    one request, as routes see it; response.c: its answer, as it is sent
 *   head.c        parses requests; chunks.c: a body in chunks; answer.c: answers in JSON
 *   route.c       paths and routes; limit.c: rates and budgets; access.c: the log
 *   auth.c        callers: tokens, JWTs (jwt.c, jwks.c), certificates (tls.c); rules.c: rights
 * api/    what requests mean
 *   v1.c          LockServiceCentral's API (v1_request.c reads its requests)
 *   v2.c          the full API (v2_request.c); grant.c: grants; session.c; look.c: get and list
 *   event.c       changes of locks, as they happen
 *   records.c     the store of clients on other machines
 *   dynamo.c      the DynamoDB API on the embedded engine
 *   page.c        the page for people, and the documents
 * metric.c      numbers for Prometheus
 */
#ifndef HF_SERVICE_SERVICE_H
#define HF_SERVICE_SERVICE_H

#include <pthread.h>

#include "base/log.h"
#include "client/on_behalf.h"
#include "service/http/exchange.h"
#include "service/http/limit.h"
#include "service/http/rules.h"
#include "service/metric.h"
#include "store/store.h"
#include "wire/sigv4.h"

struct hf_auth;
struct hf_tls;
struct hf_server;
struct hf_grants;
struct hf_sessions;
struct hf_events;

enum {
    HF_BODY_MAX = 1 << 20,
    HF_BODY_PATIENCE = 16 << 20, /* of a body that is too large; read after the answer */
    HF_BODIES_MAX = 512 << 20,   /* of all requests at a time */
    HF_BODIES_MAX_OF_ADDRESS = 64 << 20,
    HF_SMALL = 16 * 1024,       /* up to this size bodies and answers are not counted */
    HF_HEADERS_MAX = 16 * 1024, /* of a request, with its first line */
    HF_ANSWER_MAX = 64 << 20,
    HF_ANSWERS_MAX = 256 << 20, /* of all answers being sent */
    HF_ANSWERS_MAX_TO_ADDRESS = 64 << 20,
};

struct hf_limits {
    unsigned connections;
    unsigned connections_per_address; /* 0: no limit */
    unsigned waiters;
    unsigned sessions;
    int64_t per_caller[HF_BUDGETS]; /* 0: no limit */
    int64_t lease_ms;               /* of callers that are not administrators */
    int64_t rate_per_caller;        /* requests per second; 0: no limit */
    int64_t rate;                   /* of all callers together */
    int64_t request_ms;             /* for a request to arrive, and for its answer to be read */
};

struct hf_service {
    struct hf_log log;
    void (*access)(void *user, const char *line); /* one line of JSON per request; NULL: none */
    void *access_user;
    bool access_failures_only;
    const uint64_t *log_dropped;
    struct hf_limits limits;
    struct hf_store *store;
    struct hf_client *client; /* driven by … */
    struct hf_loop *loop;
    const char *v1_table;
    bool v1_own_table; /* not the table that the client uses */
    bool dynamodb;     /* the store is an embedded engine: its API is served */
    const char *format;
    struct hf_arena arena; /* texts of the options */

    struct hf_metrics metrics;
    struct hf_rates rates;
    struct hf_auth *auth;
    struct hf_tls *tls; /* NULL: no TLS */
    struct hf_server *server;
    struct hf_grants *grants;
    struct hf_sessions *sessions;
    int64_t started_unix_s; /* by the wall clock */
    struct hf_loop *scribe; /* for long bodies and answers (hf__exchange_aside) */
    struct hf_events *events;
    struct hf_peers *peers;    /* NULL: none */
    const char *allowed_hosts; /* accepted host names, comma-separated; NULL: none */
    int draining;              /* atomic */
    int busy;                  /* atomic: exchanges that have begun and are not finished */
    int waiting;               /* atomic: parked acquires */

    pthread_mutex_t calls_mutex;
    struct hf_list calls; /* of exchanges, at the store */
    int64_t body_bytes;   /* used on the loop only: held for requests that are not finished */
    int64_t answer_bytes; /* likewise, of large answers being sent */
    int64_t ready_us;     /* atomic: when the store last answered /readyz */
    bool full;            /* atomic: a write found no space, and there may still be none */

    pthread_mutex_t time_mutex;
    struct hf_store_time store_time; /* for v1 */
};

/* ---- service.c ---- */

/* The store's time now, as far as it is known. */
struct hf_interval hf__service_time(struct hf_service *service);
/* Whether it was learnt recently: the interval widens by a hundredth of its age. */
bool hf__service_time_is_fresh(struct hf_service *service);
int64_t hf__service_now_us(const struct hf_service *service);

/* An operation on the store for an exchange, on its arena; `then` runs on the loop, or at once. */
typedef void (*hf_exchange_fn)(struct hf_exchange *exchange, const struct hf_answer *answer);
void hf__exchange_run(struct hf_exchange *exchange, const struct hf_op *op, hf_exchange_fn then);
/* With the answer in an arena that can be freed before the exchange ends. */
void hf__exchange_run_in(struct hf_exchange *exchange, struct hf_arena *arena,
                         const struct hf_op *op, hf_exchange_fn then);

/* ---- route.c ---- */

enum hf_route_access {
    HF_ACCESS_OPEN,
    HF_ACCESS_CALLER,
    HF_ACCESS_OPERATOR, /* open, and on a port of its own if there is one */
};

struct hf_route {
    enum hf_method method;
    const char *pattern; /* "/v2/locks/{}/acquire"; "{}" is any part */
    const char *name;    /* for metrics and the log */
    enum hf_route_access access;
    void (*run)(struct hf_exchange *exchange);
};
extern const struct hf_route hf__routes[];
extern const size_t hf__route_count;

/* Splits the path, finds its route, and runs it or answers. */
void hf__route(struct hf_exchange *exchange);

/* ---- http/exchange.c ---- */

/* All headers, names in lower case, in the arena; at most `most`. */
size_t hf__exchange_headers(struct hf_exchange *exchange, struct hf_header *ret, size_t most);
/* Whether the caller has hung up. */
bool hf__exchange_is_gone(struct hf_exchange *exchange);
/* Ends its connection, whatever has been sent. */
void hf__exchange_cut_off(struct hf_exchange *exchange);
/* How much the kernel buffers for a caller that does not read. */
void hf__exchange_send_buffer(struct hf_exchange *exchange, int bytes);
/* Its TLS session; NULL: none. */
void *hf__exchange_tls(const struct hf_exchange *exchange);

/* ---- http/access.c ---- */

/* Writes one line of the log. */
void hf__access_log(const struct hf_exchange *exchange, int64_t took_us, bool received);

/* ---- auth.c ---- */

/* Whether the caller has this right on a lock, or a table. Without rules every caller may read and
 * lock, and administrators may do everything. */
bool hf__may(const struct hf_exchange *exchange, enum hf_right right, struct hf_slice lock);
bool hf__may_table(const struct hf_exchange *exchange, enum hf_right right, struct hf_slice table);
/* A reference to the keys of the DynamoDB API's callers; NULL: they need not sign. */
struct hf_access_keys *hf__auth_access_keys(struct hf_auth *auth);
/* The caller has signed with this key. */
void hf__auth_by_key(struct hf_exchange *exchange, const char *access_key);
/* Whether there are rules. */
bool hf__auth_has_rules(const struct hf_auth *auth);
void hf__caller_free(struct hf_caller *caller);

enum hf_auth_result { HF_AUTH_OK, HF_AUTH_MISSING, HF_AUTH_REFUSED, HF_AUTH_UNAVAILABLE };
/* Calls back at once or later, on any thread, once: keys may have to be fetched. */
typedef void (*hf_auth_fn)(struct hf_exchange *exchange, enum hf_auth_result result,
                           const char *why);
void hf__auth_check(struct hf_exchange *exchange, hf_auth_fn then);
bool hf__auth_is_disabled(const struct hf_auth *auth);
struct hf_auth_options {
    bool disabled; /* every caller is "anonymous", and an administrator */
    const char *issuer;
    const char *jwks_url;
    const char *audience;
    const char *tokens_file;
    const char *admins;           /* owners, comma-separated; NULL: none */
    const char *admin_claim;      /* NAME=VALUE of a JWT */
    const char *rules_file;       /* NULL: every caller may read and lock everything */
    const char *rights_claim;     /* the claim of a JWT that contains rights; NULL: none */
    const char *access_keys_file; /* access_key.h; NULL: none … */
    const char *access_key_id;    /* … but perhaps this one */
    const char *secret_access_key;
    int64_t leeway_s;
    bool certificates; /* the TLS layer has checked them */
};
int hf__auth_start(const struct hf_auth_options *options, struct hf_service *service,
                   struct hf_auth **ret, struct hf_error *reterr);
/* Whether the files named can be used. */
int hf__auth_check_files(const struct hf_auth_options *options, struct hf_error *reterr);
int hf__auth_reload(struct hf_auth *auth, struct hf_error *reterr);
/* Answers the callers that wait for keys now. */
void hf__auth_cut_short(struct hf_auth *auth);
void hf__auth_stop(struct hf_auth *auth);

/* ---- routes ---- */

void hf__v1_get(struct hf_exchange *exchange);
void hf__v1_acquire(struct hf_exchange *exchange);
void hf__v1_renew(struct hf_exchange *exchange);
void hf__v1_release(struct hf_exchange *exchange);
void hf__v1_options(struct hf_exchange *exchange);
/* {"message": …, "errorId": …}, as v1's callers expect it. */
void hf__v1_fail(struct hf_exchange *exchange, int status, const char *message);

void hf__v2_acquire(struct hf_exchange *exchange);
void hf__v2_renew(struct hf_exchange *exchange);
void hf__v2_release(struct hf_exchange *exchange);
void hf__v2_get(struct hf_exchange *exchange);
void hf__v2_list(struct hf_exchange *exchange);
void hf__v2_force(struct hf_exchange *exchange);
void hf__v2_session_list(struct hf_exchange *exchange);
void hf__v2_session_open(struct hf_exchange *exchange);
void hf__v2_session_get(struct hf_exchange *exchange);
void hf__v2_session_renew(struct hf_exchange *exchange);
void hf__v2_session_end(struct hf_exchange *exchange);
void hf__v2_events(struct hf_exchange *exchange);
void hf__v2_whoami(struct hf_exchange *exchange);
void hf__v2_records(struct hf_exchange *exchange);

/* The page may load, run and contact only this service. */
#define HF_PAGE_POLICY                                                                             \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
void hf__dynamo_call(struct hf_exchange *exchange);
void hf__page(struct hf_exchange *exchange);
void hf__page_style(struct hf_exchange *exchange);
void hf__page_script(struct hf_exchange *exchange);
void hf__openapi(struct hf_exchange *exchange);
void hf__metrics_page(struct hf_exchange *exchange);
void hf__healthz(struct hf_exchange *exchange);
void hf__readyz(struct hf_exchange *exchange);

#endif
