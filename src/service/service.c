#include "service/service.h"
#include "service/http/server.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread.h"
#include "format/keyed.h"
#include "service/api/event.h"
#include "service/api/grant.h"
#include "service/api/peer.h"
#include "service/api/session.h"
#include "service/http/tls.h"
#include "service/serve.h"
#include "store/lanes.h"

enum {
    CONNECTIONS = 10000,
    WAITERS = 10000,
    SESSIONS = 10000,
    REQUEST_MS = 30000,
    LEASE_MOST_MS = 24 * 3600 * 1000,
    LOOK_MS = 1000,
    LOOK_DYNAMODB_MS = 5000,
    LEEWAY_S = 60,
    TIME_IS_FRESH_US = 10 * 1000000,
    CUT_SHORT_MS = 15000,
    CLOSE_MS = 2000,
};

/* ---- the store ---- */

int64_t hf__service_now_us(const struct hf_service *service)
{
    return hf__clock_boot_us(service->store->clock);
}

struct hf_interval hf__service_time(struct hf_service *service)
{
    int64_t now_us = hf__service_now_us(service);
    pthread_mutex_lock(&service->time_mutex);
    struct hf_interval now = hf__store_time_at(&service->store_time, now_us);
    pthread_mutex_unlock(&service->time_mutex);
    return now;
}

bool hf__service_time_is_fresh(struct hf_service *service)
{
    int64_t now_us = hf__service_now_us(service);
    pthread_mutex_lock(&service->time_mutex);
    bool fresh =
        service->store_time.known && now_us - service->store_time.as_of_boot_us <= TIME_IS_FRESH_US;
    pthread_mutex_unlock(&service->time_mutex);
    return fresh;
}

/* Observes every call, including the client's: its duration, and the store's time. */
static void observe(void *user, const struct hf_call *call)
{
    struct hf_service *service = user;
    const struct hf_answer *answer = &call->answer;
    int64_t took_us = answer->received_boot_us - answer->first_sent_boot_us;
    bool failed = answer->code != 0 && answer->code != HF_ERR_CONDITION;
    hf__observe(&service->metrics.store, took_us);
    hf__metric_store(&service->metrics, took_us, failed, answer->received_boot_us);
    if (failed) hf__count(&service->metrics.store_errors);
    if (answer->code == HF_ERR_FULL) __atomic_store_n(&service->full, true, __ATOMIC_RELAXED);
    if (!answer->store.known) return;
    pthread_mutex_lock(&service->time_mutex);
    hf__store_time_report(&service->store_time, answer->store.lo_unix_us, answer->store.hi_unix_us,
                          answer->received_boot_us, answer->received_boot_us);
    pthread_mutex_unlock(&service->time_mutex);
}

struct exchange_call {
    struct hf_list node;
    struct hf_call call;
    struct hf_exchange *exchange;
    hf_exchange_fn then;
};

static void ran(struct hf_call *call)
{
    struct exchange_call *at = call->user;
    struct hf_service *service = at->exchange->service;
    pthread_mutex_lock(&service->calls_mutex);
    hf__list_remove(&at->node);
    pthread_mutex_unlock(&service->calls_mutex);
    at->then(at->exchange, &call->answer);
}

/* Callers delay themselves rather than others. */
static unsigned lane_of(const struct hf_exchange *exchange)
{
    uint64_t hash = hf__hash_more(HF_HASH_START, hf__slice_str(exchange->caller.owner));
    return 1 + (unsigned)hf__hash_place(hash, HF_LANES - 1);
}

void hf__exchange_run(struct hf_exchange *exchange, const struct hf_op *op, hf_exchange_fn then)
{
    hf__exchange_run_in(exchange, &exchange->arena, op, then);
}

void hf__exchange_run_in(struct hf_exchange *exchange, struct hf_arena *arena,
                         const struct hf_op *op, hf_exchange_fn then)
{
    struct exchange_call *at = hf__arena_zalloc(&exchange->arena, 1, sizeof *at);
    if (!at) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    at->exchange = exchange;
    at->then = then;
    at->call = (struct hf_call){.op = *op,
                                .arena = arena,
                                .done = ran,
                                .user = at,
                                .lane = lane_of(exchange),
                                .mailbox = hf__client_mailbox(exchange->service->client)};
    struct hf_store *store = exchange->service->store;
    hf__list_init(&at->node);
    if (hf__store_read_here(store, &at->call)) return;
    /* Its id must be set before it can complete, for hf__store_cancel. */
    pthread_mutex_lock(&exchange->service->calls_mutex);
    hf__list_append(&exchange->service->calls, &at->node);
    hf__store_submit(store, &at->call);
    pthread_mutex_unlock(&exchange->service->calls_mutex);
}

/* ---- starting ---- */

static int64_t or_default(int64_t given, int64_t otherwise)
{
    return given > 0 ? given : otherwise;
}

static void set_limits(struct hf_limits *limits, const struct hf_serve_options *options)
{
    *limits = (struct hf_limits){
        .connections = (unsigned)or_default(options->max_connections, CONNECTIONS),
        .connections_per_address = (unsigned)options->max_connections_per_address,
        .waiters = (unsigned)or_default(options->max_waiters, WAITERS),
        .sessions = (unsigned)or_default(options->max_sessions, SESSIONS),
        .per_caller = {[HF_BUDGET_WAITERS] = options->max_waiters_per_caller,
                       [HF_BUDGET_SESSIONS] = options->max_sessions_per_caller,
                       [HF_BUDGET_STREAMS] = options->max_streams_per_caller,
                       [HF_BUDGET_LOCKS] = options->max_locks_per_caller,
                       [HF_BUDGET_DATA] = options->max_data_per_caller},
        .lease_ms = or_default(options->max_lease_ms, LEASE_MOST_MS),
        .rate_per_caller = options->rate_per_caller,
        .rate = options->rate,
        .request_ms = or_default(options->request_timeout_ms, REQUEST_MS),
    };
}

static int check_store_url(const char *url, struct hf_error *reterr)
{
    bool served = url && (strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0);
    if (!served) return 0;
    return hf__error_set(reterr, HF_ERR_INVALID,
                         "a service cannot use another service as its store; use file:PATH or "
                         "dynamodb://TABLE");
}

static int open_store(struct hf_service *service, const struct hf_serve_options *options,
                      struct hf_error *reterr)
{
    const struct hf_store_options store = {
        .log = service->log,
        .access_key_id = options->access_key_id,
        .secret_access_key = options->secret_access_key,
    };
    int code = check_store_url(options->store_url, reterr);
    if (code == 0) code = hf__store_open(options->store_url, &store, &service->store, reterr);
    if (code != 0) return code;
    service->dynamodb = service->store->embedded;
    service->store->observe = observe;
    service->store->observe_user = service;
    return 0;
}

static int open_client(struct hf_service *service, const struct hf_serve_options *options,
                       struct hf_error *reterr)
{
    struct hf_client_options client = options->client;
    client.size = sizeof client;
    client.store_url = NULL;
    client.store = service->store;
    client.heartbeat_ms = HF_NONE; /* callers renew */
    client.warn_ms = HF_NONE;
    client.session = HF_SESSION_OFF;
    client.driven = true;
    bool native = !client.format || strcmp(client.format, "holdfast") == 0;
    if (native && service->store->embedded && client.skew_ms == 0)
        client.skew_ms = HF_NONE; /* there is one clock, and it is ours */
    client.log = service->log.fn;
    client.log_user = service->log.user;
    client.log_level = service->log.least;
    int code = hf_client_new(&client, &service->client, reterr);
    if (code != 0) return code;
    hf__client_by_grant(service->client);
    service->format = hf__client_format(service->client)->name;
    return 0;
}

/* v1's records have a key of their own, so they need their own table, unless the client uses their
 * format. */
static int open_v1(struct hf_service *service, const struct hf_serve_options *options,
                   struct hf_error *reterr)
{
    const struct hf_layout *layout = hf__client_layout(service->client);
    bool same = strcmp(service->format, "lockservice") == 0;
    const char *table = options->v1_table;
    if (!table && same) table = hf__arena_str(&service->arena, layout->table);
    if (!table) table = "lockservice";
    service->v1_table = hf__arena_str(&service->arena, hf__slice_str(table));
    if (!service->v1_table) return hf__error_no_memory(reterr);
    service->v1_own_table = !hf__slice_is(layout->table, table);
    if (!service->v1_own_table && !same)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "v1 cannot use the table \"%s\": v2 keeps locks of the format \"%s\" "
                             "there; give --v1-table, or --format lockservice",
                             table, service->format);
    if (!service->v1_own_table || !service->store->embedded) return 0;
    struct hf_client *client;
    const struct hf_client_options own = {.size = sizeof own,
                                          .store = service->store,
                                          .table = table,
                                          .format = "lockservice",
                                          .create_table = true};
    int code = hf_client_new(&own, &client, reterr);
    if (code == 0) hf_client_close(client, CLOSE_MS);
    return code;
}

/* v1 judges by the store's clock from its first call on. */
static void learn_time(struct hf_service *service)
{
    struct hf_arena arena = {0};
    const struct hf_layout *layout = hf__client_layout(service->client);
    struct hf_call call = {.arena = &arena};
    hf__client_format(service->client)
        ->read(layout, &arena, layout->key_type == HF_N ? HF_LIT("0") : HF_LIT("holdfast-ready"),
               &call.op);
    if (hf__store_run(service->store, &call) != 0)
        hf__log(&service->log, HF_LOG_WARN, "the store is not available yet: %s",
                call.answer.error.message);
    hf__arena_free(&arena);
}

static int start_parts(struct hf_service *service, const struct hf_serve_options *options,
                       struct hf_error *reterr)
{
    const struct hf_auth_options auth = {
        .disabled = options->authentication_disabled,
        .issuer = options->jwt_issuer,
        .jwks_url = options->jwt_jwks,
        .audience = options->jwt_audience,
        .tokens_file = options->tokens_file,
        .admins = options->admins,
        .admin_claim = options->admin_claim,
        .rules_file = options->rules_file,
        .rights_claim = options->rights_claim,
        .access_keys_file = options->access_keys_file,
        .access_key_id = options->dynamodb_key_id,
        .secret_access_key = options->dynamodb_secret,
        .leeway_s = or_default(options->leeway_s, LEEWAY_S),
        .certificates = options->client_ca,
    };
    int64_t look_ms =
        or_default(options->look_ms, service->store->embedded ? LOOK_MS : LOOK_DYNAMODB_MS);
    int code = hf__auth_start(&auth, service, &service->auth, reterr);
    if (code == 0 && options->tls_certificate)
        code = hf__tls_start(options->tls_certificate, options->tls_key, options->client_ca,
                             &service->tls, reterr);
    if (code == 0) code = hf__grants_start(service, reterr);
    if (code == 0) code = hf__sessions_start(service, reterr);
    if (code == 0) code = hf__events_start(service, look_ms, &service->events, reterr);
    return code;
}

static void make_way(void *user)
{
    (void)user;
    hf__thread_make_way();
}

static void dismantle(struct hf_service *service)
{
    hf__peers_stop(service->peers);
    service->peers = NULL;
    hf__server_close(service->server);
    hf__events_halt(service->events);
    if (service->client && service->sessions) hf__sessions_stop(service);
    if (service->client) hf__client_leave_locks(service->client);
    hf__server_stop(service->server);
    if (service->scribe) hf__loop_stop(service->scribe);
    if (service->loop) hf__loop_stop(service->loop);
    if (service->client) hf_client_close(service->client, CLOSE_MS);
    hf__events_stop(service->events); /* the last locks have ended */
    hf__grants_stop(service);
    hf__auth_stop(service->auth);
    hf__tls_stop(service->tls);
    if (service->store) hf__store_close(service->store);
    pthread_mutex_destroy(&service->time_mutex);
    pthread_mutex_destroy(&service->calls_mutex);
    pthread_mutex_destroy(&service->rates.mutex);
    hf__arena_free(&service->arena);
    hf__free(service);
}

int hf__service_start(const struct hf_serve_options *options, struct hf_service **ret,
                      struct hf_error *reterr)
{
    struct hf_service *service = hf__calloc(1, sizeof *service);
    if (!service) return hf__error_no_memory(reterr);
    service->log = (struct hf_log){options->log, options->log_user, options->log_level};
    service->access = options->access;
    service->access_user = options->access_user;
    service->access_failures_only = options->access_failures_only;
    static const uint64_t none;
    service->log_dropped = options->log_dropped ? options->log_dropped : &none;
    hf__random_bytes(service->rates.key, sizeof service->rates.key);
    if (options->allowed_hosts)
        service->allowed_hosts =
            hf__arena_str(&service->arena, hf__slice_str(options->allowed_hosts));
    service->started_unix_s = hf__clock_wall_us(&hf__clock_system) / 1000000;
    pthread_mutex_init(&service->time_mutex, NULL);
    pthread_mutex_init(&service->calls_mutex, NULL);
    hf__list_init(&service->calls);
    pthread_mutex_init(&service->rates.mutex, NULL);
    set_limits(&service->limits, options);
    const struct hf_server_options server = {
        .listen_fd = options->listen_fd,
        .metrics_fd = options->metrics_fd,
    };
    int code = service->arena.failed ? hf__error_no_memory(reterr) : 0;
    if (code == 0) code = open_store(service, options, reterr);
    if (code == 0) code = hf__loop_new(service->store->clock, &service->loop, reterr);
    if (code == 0) code = hf__loop_new(service->store->clock, &service->scribe, reterr);
    if (code == 0) code = hf__loop_start(service->scribe, reterr);
    if (code == 0) hf__loop_call(service->scribe, make_way, NULL);
    if (code == 0) code = open_client(service, options, reterr);
    if (code == 0) code = open_v1(service, options, reterr);
    if (code == 0) code = start_parts(service, options, reterr);
    if (code == 0) learn_time(service);
    if (code == 0) code = hf__peers_start(service, options, &service->peers, reterr);
    if (code == 0) code = hf__server_start(service, &server, &service->server, reterr);
    if (code != 0) {
        dismantle(service);
        return code;
    }
    *ret = service;
    return 0;
}

int hf__service_reload(struct hf_service *service, struct hf_error *reterr)
{
    int code = service->tls ? hf__tls_reload(service->tls, reterr) : 0;
    if (code == 0) code = hf__auth_reload(service->auth, reterr);
    /* Rights to hear of events may have changed. */
    if (code == 0 && !hf__auth_is_disabled(service->auth))
        hf__events_end_streams(service->events, "reload");
    return code;
}

int hf__service_check(const struct hf_serve_options *options, struct hf_error *reterr)
{
    const struct hf_auth_options auth = {.tokens_file = options->tokens_file,
                                         .rules_file = options->rules_file,
                                         .access_keys_file = options->access_keys_file};
    struct hf_tls *tls = NULL;
    int code = check_store_url(options->store_url, reterr);
    if (code == 0) code = hf__auth_check_files(&auth, reterr);
    if (code == 0 && options->tls_certificate)
        code = hf__tls_start(options->tls_certificate, options->tls_key, options->client_ca, &tls,
                             reterr);
    hf__tls_stop(tls);
    return code;
}

/* ---- stopping ---- */

static void nap(int ms)
{
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

/* Only the loop can tell whether nothing is under way: a request may just have arrived. */
static bool close_when_idle(struct hf_service *service, int64_t ms)
{
    int64_t until_us = hf__service_now_us(service) + ms * 1000;
    for (;;) {
        bool busy = __atomic_load_n(&service->busy, __ATOMIC_ACQUIRE) > 0;
        if (!busy && hf__server_close(service->server)) return true;
        if (hf__service_now_us(service) >= until_us) return false;
        nap(5);
    }
}

/* Cuts short all work that is under way: at the store, at an issuer of keys, in the client. */
static void cut_short(struct hf_service *service)
{
    hf__server_cut_short(service->server);
    hf__auth_cut_short(service->auth);
    hf__client_cut_short(service->client);
    pthread_mutex_lock(&service->calls_mutex);
    for (struct hf_list *at = service->calls.next; at != &service->calls; at = at->next)
        hf__store_cancel(service->store, HF_CONTAINER(at, struct exchange_call, node)->call.id);
    pthread_mutex_unlock(&service->calls_mutex);
}

bool hf__service_stop(struct hf_service *service, int64_t drain_ms)
{
    __atomic_store_n(&service->draining, 1, __ATOMIC_RELAXED);
    hf__server_quiesce(service->server);
    hf__events_drain(service->events);
    hf__client_refuse_waiters(service->client);
    /* Idle connections are closed with the server; the others are answered first. */
    if (!close_when_idle(service, drain_ms)) {
        cut_short(service);
        if (!close_when_idle(service, CUT_SHORT_MS)) {
            hf__log(&service->log, HF_LOG_ERROR, "%d requests did not end; abandoning them",
                    __atomic_load_n(&service->busy, __ATOMIC_RELAXED));
            return false;
        }
    }
    dismantle(service);
    return true;
}
