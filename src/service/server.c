/*
 * HTTP, by libmicrohttpd, on the service's loop: what comes in is read, worked on and answered in
 * rounds of one thread, which drives the client, too. A connection whose request is being worked on
 * is suspended, and resumed by whoever answers.
 *
 * With several threads, and for operators, libmicrohttpd has threads of its own; the loop drives the
 * client alone then.
 *
 * Invariants
 * V1  A request is bounded before it is looked at: body, headers, connections, time.
 * V2  A suspended connection is resumed exactly once for each time it was suspended.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "service/event.h"
#include "service/intake.h"
#include "service/service.h"
#include "service/socket.h"
#include "service/tls.h"

enum { IDLE_S = 75, STACK = 256 * 1024, OPERATORS = 100 /* connections */ };

enum state { RUNNING, SUSPENDED, READY };

/* A port, and who comes in there. */
struct gate {
    struct hf_server *server;
    struct MHD_Daemon *daemon; /* NULL: there is none */
    bool for_operators;
    bool on_loop; /* otherwise on threads of its own */
};

struct hf_server {
    struct hf_service *service;
    struct gate gate;
    struct gate operators;
    struct hf_sockets sockets;
    int listen_fd; /* after quiesce; -1 */
    struct hf_timer round;
    struct hf_watch requests;
    struct hf_watch locks;
};

/* ---- the exchange ---- */

static void resume_here(struct hf_task *task);
static void uncount_answer(struct hf_exchange *exchange);

static enum hf_method method_of(const char *method)
{
    static const struct {
        const char *name;
        enum hf_method method;
    } methods[] = {{"GET", HF_METHOD_GET},
                   {"HEAD", HF_METHOD_GET},
                   {"POST", HF_METHOD_POST},
                   {"DELETE", HF_METHOD_DELETE}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(method, methods[i].name) == 0) return methods[i].method;
    }
    return HF_METHOD_OTHER;
}

static void remote_of(struct MHD_Connection *connection, char *ret, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const void *bytes = NULL;
    ret[0] = '\0';
    if (address && address->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)address)->sin_addr;
    if (address && address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (bytes) inet_ntop(address->sa_family, bytes, ret, (socklen_t)size);
    else snprintf(ret, size, "unix");
}

static struct hf_exchange *exchange_new(struct hf_service *service,
                                        struct MHD_Connection *connection, const char *url,
                                        const char *method)
{
    struct hf_exchange *exchange = hf__calloc(1, sizeof *exchange);
    if (!exchange) return NULL;
    const union MHD_ConnectionInfo *context =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange->service = service;
    exchange->connection = connection;
    exchange->socket = context ? context->socket_context : NULL;
    exchange->method = method_of(method);
    exchange->path = hf__arena_copy(&exchange->arena, hf__slice_str(url));
    exchange->began_us = hf__service_now_us(service);
    exchange->caller.owner = "";
    exchange->resume.run = resume_here;
    hf__list_init(&exchange->resume.node);
    remote_of(connection, exchange->remote, sizeof exchange->remote);
    hf__buf_init(&exchange->body, HF_BODY_MAX);
    hf__buf_init(&exchange->answer, HF_ANSWER_MAX);
    return exchange;
}

const char *hf__exchange_header(struct hf_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *hf__exchange_query(struct hf_exchange *exchange, const char *name)
{
    const char *raw =
        MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
    struct hf_slice text;
    if (!raw) return NULL;
    return hf__percent_decode(&exchange->arena, hf__slice_str(raw), true, &text) ? text.ptr : "";
}

struct headers {
    struct hf_exchange *exchange;
    struct hf_header *at;
    size_t count;
    size_t most;
};

static enum MHD_Result take_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct headers *headers = user;
    (void)kind;
    if (headers->count == headers->most) return MHD_NO;
    char *lower = hf__arena_str(&headers->exchange->arena, hf__slice_str(name));
    if (!lower) return MHD_NO;
    for (char *at = lower; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    headers->at[headers->count++] =
        (struct hf_header){hf__slice_str(lower), hf__slice_str(value ? value : "")};
    return MHD_YES;
}

size_t hf__exchange_headers(struct hf_exchange *exchange, struct hf_header *ret, size_t most)
{
    struct headers headers = {exchange, ret, 0, most};
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, take_header, &headers);
    return headers.count;
}

/* ---- the log ---- */

static void put_time(struct hf_json_writer *json)
{
    char text[64];
    int64_t us = hf__clock_wall_us(&hf__clock_system), year;
    int month, day;
    hf__date_from_days(us / 86400000000, &year, &month, &day);
    int64_t in_day = us % 86400000000;
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, month, day,
             (int)(in_day / 3600000000), (int)(in_day / 60000000 % 60),
             (int)(in_day / 1000000 % 60), (int)(in_day / 1000 % 1000));
    hf__put_text(json, "time", text);
}

static void put_ms(struct hf_json_writer *json, int64_t us)
{
    char text[32];
    snprintf(text, sizeof text, "%lld.%03d", (long long)(us / 1000), (int)(us % 1000));
    hf__json_put_name(json, "ms");
    hf__json_put_raw(json, hf__slice_str(text));
}

/* One line per request. Secrets are not in it: of a grant, a hash. */
static void log_line(const struct hf_exchange *exchange, int64_t took_us, bool received)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "OTHER"};
    struct hf_service *service = exchange->service;
    struct hf_json_writer json;
    struct hf_buf line;
    if (!service->access || (service->access_failures_only && exchange->status < 500)) return;
    hf__buf_init(&line, 16 * 1024);
    hf__json_writer_init(&json, &line);
    hf__json_open(&json, '{');
    put_time(&json);
    hf__put_text(&json, "level", exchange->status >= 500 ? "error" : "info");
    hf__put_text(&json, "event", "request");
    hf__put_text(&json, "method", methods[exchange->method]);
    hf__put_text(&json, "route", exchange->route ? exchange->route->name : "none");
    bool secret = exchange->part_count > 1 && hf__slice_is(exchange->parts[1], "sessions");
    if (!secret && hf__utf8_valid(exchange->path) && exchange->path.len <= 2048)
        hf__put_text(&json, "path", exchange->path.ptr);
    hf__put_number(&json, "status", exchange->status);
    put_ms(&json, took_us);
    hf__put_text(&json, "remote", exchange->remote);
    if (*exchange->caller.owner) hf__put_text(&json, "owner", exchange->caller.owner);
    if (exchange->lock) hf__put_text(&json, "lock", exchange->lock);
    if (exchange->token) hf__put_number(&json, "token", exchange->token);
    if (*exchange->grant_hash) hf__put_text(&json, "grant_hash", exchange->grant_hash);
    if (exchange->error) hf__put_text(&json, "error", exchange->error);
    if (*exchange->detail && hf__utf8_valid(hf__slice_str(exchange->detail)))
        hf__put_text(&json, "detail", exchange->detail);
    if (!received) hf__put_bool(&json, "received", false);
    hf__json_close(&json, '}');
    if (!line.failed) service->access(service->access_user, hf__buf_cstr(&line));
    hf__buf_free(&line);
}

static void completed(void *user, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode how)
{
    struct gate *gate = user;
    struct hf_server *server = gate->server;
    struct hf_service *service = server->service;
    struct hf_exchange *exchange = *state;
    (void)connection;
    if (!exchange) return;
    *state = NULL;
    bool received = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    hf__socket_unpark(&server->sockets, exchange);
    if (exchange->stream) hf__stream_close(exchange->stream);
    if (exchange->finished) exchange->finished(exchange, received);
    hf__socket_turn(exchange->socket, HF_TURN_TO_ASK);
    int64_t took_us = hf__service_now_us(service) - exchange->began_us;
    hf__metric_request(&service->metrics, exchange->route ? exchange->route - hf__routes : -1,
                       exchange->status, took_us);
    if (exchange->begun) {
        log_line(exchange, took_us, received);
        __atomic_fetch_sub(&service->busy, 1, __ATOMIC_RELEASE);
    } else if (exchange->cut_off) {
        log_line(exchange, took_us, received);
    }
    hf__intake_done(exchange);
    uncount_answer(exchange);
    hf__buf_free(&exchange->body);
    hf__buf_free(&exchange->answer);
    hf__caller_free(&exchange->caller);
    hf__arena_free(&exchange->arena);
    hf__free(exchange);
}

/* ---- answering ---- */

static void resume_here(struct hf_task *task)
{
    struct hf_exchange *exchange = HF_CONTAINER(task, struct hf_exchange, resume);
    struct hf_server *server = exchange->service->server;
    MHD_resume_connection(exchange->connection);
    hf__loop_timer_set(exchange->service->loop, &server->round, 0);
}

/* From any thread; once for each time it was suspended (V2). */
static void resume(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    bool on_loop = !exchange->for_operators && service->server->gate.on_loop;
    if (!on_loop) MHD_resume_connection(exchange->connection);
    else if (hf__loop_is_here(service->loop)) resume_here(&exchange->resume);
    else hf__loop_post(service->loop, &exchange->resume);
}

void hf__exchange_done(struct hf_exchange *exchange)
{
    if (__atomic_exchange_n(&exchange->state, READY, __ATOMIC_ACQ_REL) == SUSPENDED)
        resume(exchange);
}

void hf__exchange_again(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange))
{
    exchange->again = go;
    if (__atomic_exchange_n(&exchange->state, READY, __ATOMIC_ACQ_REL) == SUSPENDED)
        resume(exchange);
}

bool hf__exchange_is_gone(struct hf_exchange *exchange)
{
    char byte;
    if (!exchange->socket) return false;
    ssize_t got = recv(exchange->socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0;
}

void hf__exchange_cut_off(struct hf_exchange *exchange)
{
    if (exchange->socket) shutdown(exchange->socket->fd, SHUT_RDWR);
}

void hf__exchange_send_buffer(struct hf_exchange *exchange, int bytes)
{
    if (exchange->socket)
        setsockopt(exchange->socket->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* A stream has something to say. From any thread. */
void hf__exchange_wake(struct hf_exchange *exchange)
{
    int state = __atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE);
    for (;;) {
        int next = state == SUSPENDED ? RUNNING : READY;
        if (__atomic_compare_exchange_n(&exchange->state, &state, next, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            break;
    }
    if (state == SUSPENDED) resume(exchange);
}

static ssize_t read_stream(void *user, uint64_t position, char *room, size_t size)
{
    struct hf_exchange *exchange = user;
    (void)position;
    __atomic_store_n(&exchange->state, RUNNING, __ATOMIC_RELEASE);
    ssize_t got = hf__stream_read(exchange->stream, room, size);
    if (got > 0) return got;
    if (got < 0) return MHD_CONTENT_READER_END_OF_STREAM;
    MHD_suspend_connection(exchange->connection);
    int expected = RUNNING;
    if (!__atomic_compare_exchange_n(&exchange->state, &expected, SUSPENDED, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        MHD_resume_connection(exchange->connection);
    return 0;
}

static int64_t *answers_to(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    return &service
                ->answer_bytes_to[hf__limit_place(service, exchange->remote, HF_ADDRESS_BUCKETS)];
}

static void uncount_answer(struct hf_exchange *exchange)
{
    __atomic_sub_fetch(&exchange->service->answer_bytes, exchange->sending, __ATOMIC_RELAXED);
    __atomic_sub_fetch(answers_to(exchange), exchange->sending, __ATOMIC_RELAXED);
    exchange->sending = 0;
}

/* False: there are too many large ones. Small ones are always sent. */
static bool count_answer(struct hf_exchange *exchange, int64_t size)
{
    if (size <= HF_SMALL) return true;
    exchange->sending = size;
    int64_t all = __atomic_add_fetch(&exchange->service->answer_bytes, size, __ATOMIC_RELAXED);
    int64_t own = __atomic_add_fetch(answers_to(exchange), size, __ATOMIC_RELAXED);
    if (all <= HF_ANSWERS_MAX && own <= HF_ANSWERS_MAX_TO_ADDRESS) return true;
    uncount_answer(exchange);
    return false;
}

static struct MHD_Response *response_of(struct hf_exchange *exchange)
{
    if (exchange->stream)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, exchange,
                                                 NULL);
    struct hf_slice bytes = exchange->fixed.len ? exchange->fixed : hf__buf_view(&exchange->answer);
    if (!exchange->fixed.len && !count_answer(exchange, (int64_t)bytes.len)) {
        hf__buf_free(&exchange->answer);
        hf__count(&exchange->service->metrics.refused_limit);
        exchange->status = 503;
        exchange->retry_after_s = 1;
        bytes =
            HF_LIT("{\"error\":\"overloaded\",\"message\":\"too many answers are being sent\"}\n");
    } else if (exchange->answer.failed && exchange->answer.len > HF_ANSWER_MAX / 2) {
        exchange->status = 500;
        bytes = HF_LIT("{\"error\":\"limit\",\"message\":\"the answer is too large\"}\n");
    } else if (exchange->answer.failed || exchange->arena.failed) {
        /* Whatever was to be said may have been said of a part of the request. */
        exchange->status = 503;
        exchange->retry_after_s = 1;
        exchange->content_type = NULL;
        exchange->is_static = false;
        bytes = HF_LIT("{\"error\":\"no-memory\",\"message\":\"out of memory\"}\n");
    }
    /* They live as long as the exchange, which outlives its response. */
    return MHD_create_response_from_buffer(bytes.len, (void *)(uintptr_t)bytes.ptr,
                                           MHD_RESPMEM_PERSISTENT);
}

/*
 * Clients of the DynamoDB API learn the store's time from it: it is the engine's, which need not be
 * the wall clock's.
 */
static bool add_date(const struct hf_service *service, struct MHD_Response *response)
{
    char date[HF_HTTP_DATE_SIZE];
    int64_t now_us = hf__store_now_unix_us(service->store);
    if (!now_us) now_us = hf__clock_wall_us(service->store->clock);
    hf__print_http_date(now_us / 1000000, date);
    return MHD_add_response_header(response, "Date", date) == MHD_YES;
}

/* False: out of memory. An answer without its headers is another answer. */
static bool add_headers(const struct hf_exchange *exchange, struct MHD_Response *response)
{
    const struct hf_service *service = exchange->service;
    char seconds[16];
    bool closes = __atomic_load_n(&service->draining, __ATOMIC_RELAXED) || exchange->too_large ||
                  exchange->two_lengths;
    snprintf(seconds, sizeof seconds, "%d", exchange->retry_after_s);
    const struct {
        const char *name;
        const char *value; /* NULL: not this time */
    } headers[] = {
        {"Content-Type", exchange->content_type ? exchange->content_type : "application/json"},
        {"Cache-Control", exchange->is_static ? "no-cache" : "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", exchange->is_static ? HF_PAGE_POLICY : NULL},
        {"Referrer-Policy", exchange->is_static ? "no-referrer" : NULL},
        {"Allow", exchange->allow},
        {"WWW-Authenticate", exchange->challenge ? "Bearer realm=\"holdfast\"" : NULL},
        {"Retry-After", exchange->retry_after_s ? seconds : NULL},
        {"Connection", closes ? "close" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (!headers[i].value) continue;
        if (MHD_add_response_header(response, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    }
    return add_date(service, response);
}

static enum MHD_Result respond(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    struct MHD_Response *response = response_of(exchange);
    if (!response || !add_headers(exchange, response)) {
        if (response) MHD_destroy_response(response);
        return MHD_NO;
    }
    struct hf_sockets *sockets = &service->server->sockets;
    if (exchange->stream) {
        hf__socket_park(sockets, exchange);
    } else {
        hf__socket_unpark(sockets, exchange);
        hf__socket_turn(exchange->socket, HF_TURN_TO_TAKE);
    }
    enum MHD_Result result =
        MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- requests ---- */

/* Whatever has to be done is done here; then it is answered, or waits. */
static enum MHD_Result proceed(struct hf_exchange *exchange)
{
    struct hf_server *server = exchange->service->server;
    while (__atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE) == READY && exchange->again) {
        void (*go)(struct hf_exchange * exchange) = exchange->again;
        exchange->again = NULL;
        __atomic_store_n(&exchange->state, RUNNING, __ATOMIC_RELEASE);
        go(exchange);
    }
    if (__atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE) == READY) return respond(exchange);
    MHD_suspend_connection(exchange->connection);
    if (exchange->gone) hf__socket_park(&server->sockets, exchange);
    int expected = RUNNING;
    if (!__atomic_compare_exchange_n(&exchange->state, &expected, SUSPENDED, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        MHD_resume_connection(exchange->connection);
    return MHD_YES;
}

static enum MHD_Result begin(struct hf_exchange *exchange)
{
    exchange->begun = true;
    __atomic_fetch_add(&exchange->service->busy, 1, __ATOMIC_RELAXED);
    hf__socket_turn(exchange->socket, HF_TURN_OURS);
    if (exchange->two_lengths) {
        hf__answer_error(exchange, 400, "invalid",
                         "Content-Length and Transfer-Encoding: send one of them");
    } else if (exchange->arena.failed ||
               (exchange->body.failed && exchange->received <= HF_BODY_MAX)) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
    } else if (exchange->too_large || exchange->body.failed) {
        exchange->too_large = true;
        hf__answer_error(exchange, 413, "too-large", "a body has at most %d bytes", HF_BODY_MAX);
    } else {
        hf__route(exchange);
    }
    return proceed(exchange);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct gate *gate = user;
    struct hf_exchange *exchange = *state;
    (void)version;
    if (!exchange) {
        exchange = exchange_new(gate->server->service, connection, url, method);
        if (!exchange) return MHD_NO;
        exchange->for_operators = gate->for_operators;
        *state = exchange;
        return hf__intake_begin(exchange) ? MHD_YES : begin(exchange); /* before it is all sent */
    }
    if (exchange->begun)
        return __atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE) == READY ? proceed(exchange)
                                                                            : MHD_YES;
    if (*upload_size > 0) {
        bool good = hf__intake_add(exchange, upload, *upload_size);
        *upload_size = 0;
        return good ? MHD_YES : MHD_NO;
    }
    return exchange->cut_off ? MHD_NO : begin(exchange);
}

static void notified(void *user, struct MHD_Connection *connection, void **context,
                     enum MHD_ConnectionNotificationCode what)
{
    struct gate *gate = user;
    struct hf_server *server = gate->server;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info ? hf__socket_add(&server->sockets, info->connect_fd) : NULL;
        /* Nobody would see that it is slow, or has hung up. */
        if (info && !*context) shutdown(info->connect_fd, SHUT_RDWR);
        hf__gauge(&server->service->metrics.connections, 1);
    } else {
        hf__socket_remove(&server->sockets, *context);
        *context = NULL;
        hf__gauge(&server->service->metrics.connections, -1);
    }
}

/* Paths and queries are decoded by us: a lock's name may have a slash. */
static size_t leave_escaped(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user, (void)connection;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void log_server(void *user, const char *format,
                                                             va_list args)
{
    struct gate *gate = user;
    char line[512];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    hf__log(&gate->server->service->log, HF_LOG_DEBUG, "http: %s", line);
}

/* ---- life ---- */

struct gate_options {
    int listen_fd;
    unsigned threads;
    unsigned connections;
    unsigned connections_per_address; /* 0: no limit */
    struct hf_tls *tls;               /* NULL: plain */
};

static int open_gate(struct gate *gate, const struct gate_options *options, struct hf_error *reterr)
{
    unsigned flags = MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     MHD_USE_SUPPRESS_DATE_NO_CLOCK; /* add_date */
    flags |= gate->on_loop ? MHD_USE_EPOLL : MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC;
    struct MHD_OptionItem secure[HF_TLS_OPTIONS] = {{MHD_OPTION_END, 0, NULL}};
    if (options->tls) {
        flags |= MHD_USE_TLS;
        hf__tls_options(options->tls, secure);
    }
    errno = 0;
    gate->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, handle, gate, MHD_OPTION_EXTERNAL_LOGGER, log_server, gate,
        MHD_OPTION_LISTEN_SOCKET, options->listen_fd, MHD_OPTION_THREAD_POOL_SIZE,
        gate->on_loop ? 0 : options->threads, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK,
        MHD_OPTION_CONNECTION_LIMIT, options->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        options->connections_per_address, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HF_HEADERS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)1024, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_COMPLETED, completed, gate, MHD_OPTION_NOTIFY_CONNECTION, notified, gate,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_ARRAY, secure, MHD_OPTION_END);
    if (gate->daemon) return 0;
    if (errno == ENOMEM) return hf__error_no_memory(reterr);
    return hf__error_set(reterr, HF_ERR_IO, "the HTTP server could not be started%s",
                         options->tls ? "; do the certificate and the key belong together?" : "");
}

/* ---- the loop ---- */

/* One round: the store's answers, what is due, requests; then the store is given what came of it. */
static void run_round(struct hf_timer *timer)
{
    struct hf_server *server = HF_CONTAINER(timer, struct hf_server, round);
    struct hf_service *service = server->service;
    struct MHD_Daemon *daemon = server->gate.on_loop ? server->gate.daemon : NULL;
    MHD_UNSIGNED_LONG_LONG http_ms;
    hf__store_cork(service->store, true);
    hf_client_process(service->client, NULL);
    if (daemon) MHD_run(daemon);
    hf__store_cork(service->store, false);
    int64_t ms = hf_client_timeout_ms(service->client);
    if (daemon && MHD_get_timeout(daemon, &http_ms) == MHD_YES && (int64_t)http_ms < ms)
        ms = (int64_t)http_ms;
    hf__loop_timer_set(service->loop, timer, hf__loop_now_us(service->loop) + ms * 1000);
}

/* A round is due; after all descriptors have been looked at. */
static void requests_ready(struct hf_watch *watch, uint32_t events)
{
    struct hf_server *server = HF_CONTAINER(watch, struct hf_server, requests);
    (void)events;
    hf__loop_timer_set(server->service->loop, &server->round, 0);
}

static void locks_ready(struct hf_watch *watch, uint32_t events)
{
    struct hf_server *server = HF_CONTAINER(watch, struct hf_server, locks);
    (void)events;
    hf__loop_timer_set(server->service->loop, &server->round, 0);
}

static void begin_rounds(void *user)
{
    struct hf_server *server = user;
    struct hf_loop *loop = server->service->loop;
    server->locks = (struct hf_watch){hf_client_fd(server->service->client), locks_ready};
    hf__loop_watch(loop, &server->locks, EPOLLIN, true);
    if (server->gate.on_loop) {
        const union MHD_DaemonInfo *info =
            MHD_get_daemon_info(server->gate.daemon, MHD_DAEMON_INFO_EPOLL_FD);
        server->requests = (struct hf_watch){info->epoll_fd, requests_ready};
        hf__loop_watch(loop, &server->requests, EPOLLIN, true);
    }
    hf__loop_timer_set(loop, &server->round, 0);
}

static void quiesce(void *user)
{
    struct hf_server *server = user;
    server->listen_fd = MHD_quiesce_daemon(server->gate.daemon);
}

/* The client is driven on. */
static void close_gate(void *user)
{
    struct hf_server *server = user;
    if (server->gate.on_loop) hf__loop_unwatch(server->service->loop, &server->requests);
    MHD_stop_daemon(server->gate.daemon);
    server->gate.daemon = NULL;
    server->gate.on_loop = false;
}

static void end_rounds(void *user)
{
    struct hf_server *server = user;
    hf__loop_unwatch(server->service->loop, &server->locks);
    hf__loop_timer_done(server->service->loop, &server->round);
}

int hf__server_start(struct hf_service *service, const struct hf_server_options *options,
                     struct hf_server **ret, struct hf_error *reterr)
{
    struct hf_server *server = hf__calloc(1, sizeof *server);
    if (!server) return hf__error_no_memory(reterr);
    server->service = service;
    server->listen_fd = -1;
    server->gate = (struct gate){.server = server, .on_loop = options->threads == 1};
    server->operators = (struct gate){.server = server, .for_operators = true};
    int code = hf__sockets_start(&server->sockets, service->limits.request_ms,
                                 &service->metrics.dropped_slow, reterr);
    if (code == 0 && !hf__loop_timer_init(service->loop, &server->round, run_round)) {
        hf__sockets_stop(&server->sockets);
        code = hf__error_no_memory(reterr);
    }
    if (code != 0) {
        hf__free(server);
        return code;
    }
    *ret = service->server = server; /* before the first request */
    const struct gate_options operators = {
        .listen_fd = options->metrics_fd, .threads = 1, .connections = OPERATORS};
    const struct gate_options gate = {
        .listen_fd = options->listen_fd,
        .threads = (unsigned)options->threads,
        .connections = service->limits.connections,
        .connections_per_address = service->limits.connections_per_address,
        .tls = service->tls,
    };
    if (options->metrics_fd > 0) code = open_gate(&server->operators, &operators, reterr);
    if (code == 0) code = open_gate(&server->gate, &gate, reterr);
    if (code == 0) hf__loop_call(service->loop, begin_rounds, server);
    if (code == 0) code = hf__loop_start(service->loop, reterr);
    if (code == 0) return 0;
    hf__server_close(server);
    hf__server_stop(server);
    service->server = *ret = NULL;
    return code;
}

bool hf__server_has_operators(const struct hf_server *server)
{
    return server->operators.daemon != NULL;
}

void hf__server_quiesce(struct hf_server *server)
{
    hf__loop_call(server->service->loop, quiesce, server);
}

void hf__server_close(struct hf_server *server)
{
    if (!server) return;
    if (server->gate.daemon) hf__loop_call(server->service->loop, close_gate, server);
    if (server->operators.daemon) MHD_stop_daemon(server->operators.daemon);
    server->operators.daemon = NULL;
}

void hf__server_stop(struct hf_server *server)
{
    if (!server) return;
    hf__loop_call(server->service->loop, end_rounds, server);
    hf__sockets_stop(&server->sockets);
    if (server->listen_fd >= 0) close(server->listen_fd);
    hf__free(server);
}
