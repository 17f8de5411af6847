/* The service in this process: listening, stopping, logging. */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/logger.h"
#include "cli/moment.h"
#include "cli/serve.h"
#include "cli/terminal.h"
#include "cli/wake.h"
#include "service/serve.h"

enum { BACKLOG = 4096, FIRST_PASSED_FD = 3, DRAIN_MS = 10000 };

/* ---- listening ---- */

struct listener {
    int fd;
    bool local;
    char address[128]; /* for people: host:port */
};

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_UNIX) return true;
    if (address->ss_family == AF_INET) {
        uint32_t host = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
        return host >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static void describe(struct listener *listener)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[64], port[16];
    snprintf(listener->address, sizeof listener->address, "?");
    listener->local = false;
    if (getsockname(listener->fd, (struct sockaddr *)&address, &size) != 0) return;
    listener->local = is_loopback(&address);
    if (getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool six = address.ss_family == AF_INET6;
    snprintf(listener->address, sizeof listener->address, "%s%s%s:%s", six ? "[" : "", host,
             six ? "]" : "", port);
}

/* A socket that systemd has opened for us; -1: none. */
static int passed_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t number;
    if (!pid || !count || !hf__parse_int64(hf__slice_str(pid), &number) || number != getpid())
        return -1;
    if (!hf__parse_int64(hf__slice_str(count), &number) || number < 1) return -1;
    return FIRST_PASSED_FD;
}

/* The caller frees the result. */
static int resolve(const char *option, const char *text, struct addrinfo **ret,
                   struct hf_error *reterr)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    int64_t port;
    bool good_port =
        colon && hf__parse_int64(hf__slice_str(colon + 1), &port) && port >= 0 && port <= 65535;
    if (!colon || len >= sizeof host || !good_port)
        return hf__error_set(
            reterr, HF_ERR_INVALID,
            "%s: invalid address \"%.100s\": expected ADDRESS:PORT, such as 127.0.0.1:8080", option,
            text);
    snprintf(host, sizeof host, "%.*s", (int)len, text);
    char *name = host;
    if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        name++;
    }
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int wrong = getaddrinfo(*name ? name : NULL, colon + 1, &hints, ret);
    if (wrong == 0 && *ret) return 0;
    return hf__error_set(reterr, HF_ERR_INVALID, "%s %.100s: %s", option, text,
                         gai_strerror(wrong));
}

static int listen_on(const char *option, const char *text, struct listener *ret,
                     struct hf_error *reterr)
{
    struct addrinfo *found = NULL;
    int code = resolve(option, text, &found, reterr);
    if (code != 0 || !found) return code;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool good =
        fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    int failed = errno;
    freeaddrinfo(found);
    if (!good) {
        if (fd >= 0) close(fd);
        bool taken = failed == EADDRINUSE;
        return hf__error_set(reterr, HF_ERR_IO, "cannot listen on %.100s: %s%s%s", text,
                             strerror(failed), taken ? "; choose another port with " : "",
                             taken ? option : "");
    }
    ret->fd = fd;
    return 0;
}

/* Each connection needs a descriptor. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- messages ---- */

/* To the service manager, as systemd expects it. */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@') address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (sendto(fd, state, strlen(state), 0, (struct sockaddr *)&address, size) < 0) {
    } /* the manager is gone */
    close(fd);
}

/* One line: the event, and pairs of names and texts up to NULL. */
static void log_event(enum hf_log_level level, const char *event, const char *const *more)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct hf_json_writer json;
    struct hf_buf line;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    hf__buf_init(&line, 8192);
    hf__json_writer_init(&json, &line);
    hf__json_open(&json, '{');
    json_moment(&json, "time", now.tv_sec * 1000 + now.tv_nsec / 1000000);
    json_text(&json, "level", levels[level]);
    json_text(&json, "event", event);
    for (; more[0]; more += 2)
        json_text(&json, more[0], hf__utf8_valid(hf__slice_str(more[1])) ? more[1] : "?");
    hf__json_close(&json, '}');
    if (!line.failed) logger_put(hf__buf_cstr(&line));
    hf__buf_free(&line);
}

static void log_json(void *user, enum hf_log_level level, const char *text)
{
    (void)user;
    log_event(level, "log", (const char *const[]){"message", text, NULL});
}

static void log_request(void *user, const char *line)
{
    (void)user;
    logger_put(line);
}

/* ---- settings of LockServiceCentral ---- */

static int locker_store(struct cli *cli, struct hf_serve_options *options, struct hf_error *reterr)
{
    const char *table = getenv("LOCKER_DYNAMODB_TABLENAME");
    const char *region = getenv("LOCKER_DYNAMODB_REGION");
    const char *endpoint = getenv("LOCKER_DYNAMODB_ENDPOINT");
    options->access_key_id = getenv("LOCKER_DYNAMODB_ACCESSKEYID");
    options->secret_access_key = getenv("LOCKER_DYNAMODB_SECRETACCESSKEY");
    bool named = (table && *table) || (region && *region) || (endpoint && *endpoint);
    if (!named || strcmp(cli->settings.store_from, "default") != 0) return 0;
    struct hf_buf url, encoded;
    hf__buf_init(&url, 4096);
    hf__buf_init(&encoded, 2048);
    hf__buf_printf(&url, "dynamodb://%s", table && *table ? table : "locks");
    const char *mark = "?";
    if (region && *region) {
        hf__buf_printf(&url, "%sregion=%s", mark, region);
        mark = "&";
    }
    if (endpoint && *endpoint) {
        hf__percent_encode(hf__slice_str(endpoint), false, &encoded);
        hf__buf_printf(&url, "%sendpoint=%s", mark, hf__buf_cstr(&encoded));
    }
    cli->settings.store = hf__arena_str(&cli->arena, hf__buf_view(&url));
    cli->settings.store_from = "LOCKER_DYNAMODB_…";
    if (!cli->settings.format) cli->settings.format = "lockservice";
    hf__buf_free(&url);
    hf__buf_free(&encoded);
    return cli->settings.store ? 0 : hf__error_no_memory(reterr);
}

/* ---- running ---- */

static int64_t or_beyond(int64_t given, int64_t otherwise, bool beyond)
{
    return given > 0 ? given : beyond ? otherwise : 0;
}

/*
 * Each round of the loop frees what it allocated. So event.c trims the heap at intervals, not in
 * each round, and in portions (the kernel takes 0.1 ms for a megabyte). Long bodies and answers
 * come from the heap as well: mapping and unmapping pages for each of them would block all threads.
 */
static void keep_the_heap(void)
{
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
}

static int fill(struct cli *cli, const struct serve_options *given, const struct listener *listener,
                struct hf_serve_options *ret, struct hf_error *reterr)
{
    bool beyond = !listener->local; /* other machines can reach it */
    bool has_auth = given->tokens || given->jwt_issuer || given->jwt_jwks || given->client_ca ||
                    given->access_keys;
    *ret = (struct hf_serve_options){
        .v1_table = given->v1_table,
        .listen_fd = listener->fd,
        .allowed_hosts = given->allow_host,
        .look_ms = given->look_ms,
        .peers = given->peers,
        .advertise = given->advertise,
        .peer_token_file = given->peer_token_file,
        .peer_ca = given->peer_ca,
        .tls_certificate = given->tls_cert,
        .tls_key = given->tls_key,
        .client_ca = given->client_ca,
        .authentication_disabled = given->no_auth || (!has_auth && !given->auth_wanted),
        .jwt_issuer = given->jwt_issuer,
        .jwt_jwks = given->jwt_jwks,
        .jwt_audience = given->jwt_audience,
        .tokens_file = given->tokens,
        .admins = given->admins,
        .admin_claim = given->admin_claim,
        .rules_file = given->rules,
        .rights_claim = given->rights_claim,
        .leeway_s = given->jwt_leeway_ms / 1000,
        .access_keys_file = given->access_keys,
        .dynamodb_key_id = getenv("HOLDFAST_DYNAMODB_ACCESS_KEY_ID"),
        .dynamodb_secret = getenv("HOLDFAST_DYNAMODB_SECRET_ACCESS_KEY"),
        .max_connections = given->max_connections,
        .max_connections_per_address = or_beyond(given->max_connections_per_address, 1000, beyond),
        .max_waiters = given->max_waiters,
        .max_waiters_per_caller = or_beyond(given->max_waiters_per_caller, 1000, beyond),
        .max_sessions = given->max_sessions,
        .max_sessions_per_caller = or_beyond(given->max_sessions_per_caller, 1000, beyond),
        .max_streams_per_caller = or_beyond(given->max_streams_per_caller, 100, beyond),
        .max_locks_per_caller = or_beyond(given->max_locks_per_caller, 100000, beyond),
        .max_data_per_caller = or_beyond(given->max_data_per_caller, 64 << 20, beyond),
        .max_lease_ms = given->max_lease_ms,
        .rate_per_caller = given->rate_per_caller,
        .rate = given->rate,
        .request_timeout_ms = given->client_timeout_ms,
        .log = log_json,
        .log_level = cli->settings.verbose ? HF_LOG_DEBUG : HF_LOG_WARN,
        .access = log_request,
        .access_failures_only = cli->settings.quiet,
        .log_dropped = &logger_dropped,
    };
    if (has_auth && given->no_auth)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "%s disables authentication and %s requires it; give one of them",
                             given->no_auth_by ? given->no_auth_by : "--no-auth",
                             given->tokens       ? "--tokens"
                             : given->jwt_issuer ? "--jwt-issuer"
                             : given->jwt_jwks   ? "--jwt-jwks"
                             : given->client_ca  ? "--client-ca"
                                                 : "--access-keys");
    if (!has_auth && !given->no_auth && !given->auth_wanted && !listener->local)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "refusing to listen on %s without authentication; use --tokens, "
                             "--jwt-issuer, --jwt-jwks, --client-ca, --access-keys or --no-auth",
                             listener->address);
    if (!has_auth && !given->no_auth &&
        (given->jwt_audience || given->admins || given->admin_claim))
        return hf__error_set(
            reterr, HF_ERR_INVALID,
            "--jwt-audience, --admin and --admin-claim need authentication; use --tokens, "
            "--jwt-issuer, --jwt-jwks or --client-ca");
    if (!has_auth && (given->rules || given->rights_claim))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "%s needs authentication; use --tokens, --jwt-issuer, --jwt-jwks, "
                             "--client-ca or --access-keys",
                             given->rules ? "--rules" : "--rights-claim");
    if (given->rights_claim && !given->jwt_issuer && !given->jwt_jwks)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "--rights-claim needs JWTs; use --jwt-issuer or --jwt-jwks");
    if ((ret->dynamodb_key_id && !*ret->dynamodb_key_id) ||
        (ret->dynamodb_secret && !*ret->dynamodb_secret))
        return hf__error_set(
            reterr, HF_ERR_INVALID, "HOLDFAST_DYNAMODB_%s is empty: set it, or unset it",
            ret->dynamodb_key_id && !*ret->dynamodb_key_id ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY");
    if (!ret->dynamodb_key_id != !ret->dynamodb_secret)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "set HOLDFAST_DYNAMODB_ACCESS_KEY_ID and "
                             "HOLDFAST_DYNAMODB_SECRET_ACCESS_KEY, or neither");
    int code = locker_store(cli, ret, reterr);
    if (code != 0) return code;
    const struct client_use use = {.create_table = false};
    code = cli_client_options(cli, &use, &ret->client, reterr);
    ret->store_url = cli->settings.store;
    return code;
}

static void wait_for_end(struct hf_service *service)
{
    for (;;) {
        struct hf_error error;
        int signal = wake_wait(WAKE_NEVER);
        if (signal == SIGHUP) {
            notify("RELOADING=1");
            int code = hf__service_reload(service, &error);
            log_event(code == 0 ? HF_LOG_INFO : HF_LOG_ERROR, "reload",
                      (const char *const[]){
                          "message",
                          code == 0 ? "certificates, tokens, rules and keys were read again"
                                    : error.message,
                          NULL});
            notify("READY=1");
        } else if (signal > 0 && wake_is_end(signal)) {
            return;
        }
    }
}

/* --check: checks all that is possible without starting anything. */
static int check(struct cli *cli, struct serve_options *given)
{
    struct listener listener = {.fd = -1};
    struct hf_serve_options options;
    struct addrinfo *found = NULL;
    struct hf_error error;
    int code = 0;
    if (given->metrics_listen)
        code = resolve("--metrics-listen", given->metrics_listen, &found, &error);
    if (found) freeaddrinfo(found);
    found = NULL;
    if (code == 0) code = resolve("--listen", given->listen, &found, &error);
    if (code == 0 && found) {
        struct sockaddr_storage address = {0};
        memcpy(&address, found->ai_addr, found->ai_addrlen);
        listener.local = is_loopback(&address);
        snprintf(listener.address, sizeof listener.address, "%s", given->listen);
        freeaddrinfo(found);
        code = fill(cli, given, &listener, &options, &error);
    }
    if (code == 0) code = hf__service_check(&options, &error);
    if (code != 0) return cli_fail(cli, &error);
    puts("the settings are valid");
    return 0;
}

int serve_run(struct cli *cli, struct serve_options *given)
{
    if (given->check) return check(cli, given);
    struct listener listener = {.fd = passed_socket()}, metrics = {.fd = 0};
    struct hf_serve_options options;
    struct hf_service *service;
    struct hf_error error;
    allow_many_files();
    keep_the_heap();
    int code = listener.fd >= 0 ? 0 : listen_on("--listen", given->listen, &listener, &error);
    if (code == 0 && given->metrics_listen)
        code = listen_on("--metrics-listen", given->metrics_listen, &metrics, &error);
    if (code != 0) return cli_fail(cli, &error);
    describe(&listener);
    code = fill(cli, given, &listener, &options, &error);
    options.metrics_fd = metrics.fd;
    if (code == 0) logger_start(true);
    if (code == 0) code = hf__service_start(&options, &service, &error);
    if (code != 0) {
        int exit_code = cli_fail(cli, &error);
        logger_stop();
        return exit_code;
    }
    printf("listening on %s://%s/%s, store %s\n", given->tls_cert ? "https" : "http",
           listener.address, options.authentication_disabled ? " (no authentication)" : "",
           cli->settings.store);
    if (metrics.fd > 0) {
        describe(&metrics);
        printf("listening on http://%s/metrics, /healthz and /readyz\n", metrics.address);
    }
    fflush(stdout);
    if (!cli->settings.quiet)
        log_event(HF_LOG_INFO, "start",
                  (const char *const[]){
                      "version", HF_VERSION_STRING, "store", cli->settings.store, "address",
                      listener.address, "tls", given->tls_cert ? "yes" : "no", "authentication",
                      options.authentication_disabled ? "none" : "required", NULL});
    notify("READY=1");
    wait_for_end(service);
    notify("STOPPING=1");
    if (!cli->settings.quiet)
        log_event(
            HF_LOG_INFO, "stop",
            (const char *const[]){
                "message", "accepting no new requests; requests in progress are answered", NULL});
    bool ended = hf__service_stop(service, given->drain_ms ? given->drain_ms : DRAIN_MS);
    logger_stop();
    if (!ended) _exit(EXIT_INTERNAL);
    return 0;
}
