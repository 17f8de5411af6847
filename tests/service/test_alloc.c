/*
 * The service when memory runs out. Every route, with the n-th allocation failing, for n = 1, 2, … until the request
 * needs fewer: once alone, and once with every allocation after it failing too. Then, with memory again:
 *
 * M1  The service has answered, or closed the connection; nothing crashed, and it serves the next request.
 * M2  An answer of success is the answer that would have been given with memory, and is true: what was granted can be
 *     renewed, what was released is free, what was written is there.
 * M3  Any other answer says that the service failed (5xx), not that the caller did. Nobody holds a lock by it: others
 *     get the lock, long before the lease would end.
 * M4  When the service has stopped nothing is left allocated.
 *
 * The service has threads, and which allocation is the n-th is not quite the same each time: so there is one request
 * under way at a time, and a few n more are tried when the first needs no failure.
 */
#include <ctype.h>
#include <dirent.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <sched.h>
#include <stdarg.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "base/text.h"
#include "client/on_behalf.h"
#include "harness/stub.h"
#include "wire/sigv4.h"

enum {
    ALLOCATIONS_MOST = 5000,
    CLEAN_ENOUGH = 3,
    EACH_UNTIL = 20,
    LEASE_MS = 600000,
    HANDED_ON_MS = 2000,
    NAME = 128
};

#define ALICE "alice-0123456789"
#define BOB "bob-0123456789abc" /* an administrator */
#define CAROL "carol-0123456789"
#define ACCESS_KEY "AKIDEXAMPLE"
#define SECRET_KEY "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

/* ---- complaints ---- */

static int complaints, shown;

/* All of a route's are told; then its test fails. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    enum { SHOWN = 20 };
    complaints++;
    if (++shown > SHOWN) return;
    va_start(args, format);
    fprintf(stderr, "  ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

/* GMP, by which gnutls verifies signatures, ends the process when it gets no memory. */
static bool is_beyond_us(const char *scenario)
{
#ifdef HF_TEST_MALLOC
    return strstr(scenario, "JWT");
#else
    (void)scenario;
    return false;
#endif
}

/* ---- the service ---- */

enum config { WITH_TOKENS, WITH_RULES, WITH_KEYS };

static struct hf_service *service;
static struct hf_stub *issuer;
static gnutls_privkey_t key;
static char key_set[512];

static void ignore(void *user, const char *line)
{
    (void)user;
    CHECK(line[0] == '{');
}

static void ignore_log(void *user, enum hf_log_level level, const char *line)
{
    (void)user, (void)level;
    CHECK(line);
}

static void give_keys(void *user, const struct hf_stub_request *request,
                      struct hf_stub_answer *answer)
{
    (void)user, (void)request;
    snprintf(answer->body, sizeof answer->body, "%s", key_set);
}

static const char *file_with(const char *name, const char *text)
{
    static char paths[4][300];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", hf_test_directory(), name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

static struct hf_serve_options options_for(enum config config)
{
    struct hf_serve_options options = {
        .store_url = "memory:",
        .client.lease_ms = LEASE_MS,
        .look_ms = 200,
        .tokens_file = file_with("tokens", ALICE " alice\n" BOB " bob admin\n" CAROL
                                                 " carol\n# nobody else\n"),
        .jwt_jwks = hf_stub_url(issuer),
        .jwt_audience = "here",
        .allowed_hosts = "locks.example",
        .admins = "root,toor",
        .log = ignore_log,
        .log_level = HF_LOG_DEBUG,
        .access = ignore,
        .listen_fd = -1,
    };
    if (config == WITH_RULES) {
        options.rules_file =
            file_with("rules", "# who may\nowner:alice read,lock lock-*\nowner:bob admin *\n"
                               "owner:carol read,lock lock-*\nclaim:groups=ops read,lock lock-*\n"
                               "key:" ACCESS_KEY " read,write table:*\n");
        options.rights_claim = "may";
    }
    if (config == WITH_KEYS) {
        options.dynamodb_key_id = ACCESS_KEY;
        options.dynamodb_secret = SECRET_KEY;
    }
    return options;
}

static void serve(enum config config)
{
    struct hf_error error;
    struct hf_serve_options options = options_for(config);
    options.listen_fd = ask_listen();
    if (hf__service_start(&options, &service, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

static void stop_serving(void)
{
    CHECK(hf__service_stop(service, 1000));
    service = NULL;
}

/* Nothing is under way any more. */
static void settle(void)
{
    int64_t until_ms = ask_now_ms() + ASK_ENOUGH_MS;
    while (__atomic_load_n(&service->busy, __ATOMIC_ACQUIRE) > 0 ||
           __atomic_load_n(&service->metrics.connections, __ATOMIC_ACQUIRE) > 0) {
        if (ask_now_ms() > until_ms)
            hf_test_fail(__FILE__, __LINE__, "a request does not end: busy %d, connections %d",
                         service->busy, (int)service->metrics.connections);
        sched_yield();
    }
}

/* ---- tokens of an issuer ---- */

static void base64url(const void *bytes, size_t size, char *ret, size_t room)
{
    CHECK(HF_BASE64_SIZE(size) <= room);
    hf__base64_encode(bytes, size, ret);
    for (char *at = ret; *at; at++) {
        if (*at == '+') *at = '-';
        if (*at == '/') *at = '_';
        if (*at == '=') *at-- = '\0';
    }
}

static void make_key(void)
{
    gnutls_datum_t x;
    char text[64];
    CHECK(gnutls_privkey_init(&key) == 0);
    CHECK(gnutls_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519,
                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519), 0) == 0);
    CHECK(gnutls_privkey_export_ecc_raw2(key, NULL, &x, NULL, NULL, 0) == 0);
    base64url(x.data, x.size, text, sizeof text);
    gnutls_free(x.data);
    snprintf(
        key_set, sizeof key_set,
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"one\",\"use\":\"sig\",\"x\":\"%s\"}]}",
        text);
    issuer = hf_stub_start(give_keys, NULL, false);
}

/* Another one each time: one that was seen before is remembered. */
static const char *new_jwt(const char *claims)
{
    static char token[1024];
    static int serial;
    char text[512];
    gnutls_datum_t signature;
    static const char header[] = "{\"alg\":\"EdDSA\",\"kid\":\"one\",\"typ\":\"JWT\"}";
    base64url(header, strlen(header), token, sizeof token);
    snprintf(text, sizeof text,
             "{\"sub\":\"alice\",\"aud\":\"here\",\"jti\":\"%d\",\"exp\":%lld%s}", serial++,
             (long long)(hf__clock_wall_us(&hf__clock_system) / 1000000 + 3600), claims);
    size_t len = strlen(token);
    token[len++] = '.';
    base64url(text, strlen(text), token + len, sizeof token - len);
    const gnutls_datum_t to_sign = {(unsigned char *)token, (unsigned)strlen(token)};
    CHECK(gnutls_privkey_sign_data2(key, GNUTLS_SIGN_EDDSA_ED25519, 0, &to_sign, &signature) == 0);
    len = strlen(token);
    token[len++] = '.';
    base64url(signature.data, signature.size, token + len, sizeof token - len);
    gnutls_free(signature.data);
    return token;
}

/* ---- requests ---- */

static struct reply last; /* of `call` */

__attribute__((format(printf, 4, 5))) static int call(const char *token, const char *method,
                                                      const char *path, const char *format, ...)
{
    static struct request request;
    va_list args;
    request = (struct request){.method = method, .token = token};
    snprintf(request.path, sizeof request.path, "%s", path);
    va_start(args, format);
    vsnprintf(request.body, sizeof request.body, format, args);
    va_end(args);
    ask(&request, &last);
    return last.status;
}

/* The text of a member, "" if there is none. */
static void member(const struct reply *reply, const char *name, char *ret, size_t size)
{
    char start[NAME];
    snprintf(start, sizeof start, "\"%s\":\"", name);
    const char *at = strstr(reply->body, start);
    ret[0] = '\0';
    if (at) snprintf(ret, size, "%.*s", (int)strcspn(at + strlen(start), "\""), at + strlen(start));
}

static bool is_uuid(const char *at)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    for (size_t i = 0; form[i]; i++)
        if (form[i] == '-' ? at[i] != '-' : !isxdigit((unsigned char)at[i])) return false;
    return true;
}

/* What does not depend on the time and on chance: ids and numbers are left out. */
static void shape_of(const char *at, char *ret, size_t size)
{
    enum { UUID = 36 };
    size_t len = 0;
    while (*at && len + 1 < size) {
        size_t run = is_uuid(at) ? UUID : strspn(at, "0123456789abcdef");
        bool id = run >= 16 || (run > 0 && run == strspn(at, "0123456789"));
        ret[len++] = id ? '#' : *at;
        at += id ? run : 1;
    }
    ret[len] = '\0';
}

/* ---- one try ---- */

struct trial {
    const char *what;
    size_t n;
    struct request request;
    struct reply reply;
    bool failed; /* an allocation did, of whoever's */
    char lock[NAME];
    char grant[NAME];
    char other[NAME]; /* another grant, or a session */
};

static struct trial trial;

static void disarm(void)
{
    hf_alloc_fail_at(0);
}

/* With memory again: another owner gets the lock, long before a lease would end. */
static void becomes_free(void)
{
    char path[NAME * 2], grant[NAME];
    snprintf(path, sizeof path, "/v2/locks/%s/acquire", trial.lock);
    if (call(CAROL, "POST", path, "{\"wait_ms\":%d}", HANDED_ON_MS) != 200) {
        complain("%s, allocation %zu: answered %d %.80s; the lock is not free afterwards: %d %s",
                 trial.what, trial.n, trial.reply.status, trial.reply.body, last.status, last.body);
        return;
    }
    member(&last, "grant", grant, sizeof grant);
    snprintf(path, sizeof path, "/v2/locks/%s/release", trial.lock);
    CHECK_INT(call(CAROL, "POST", path, "{\"grant\":\"%s\"}", grant), 200);
}

static void renew_works(const char *grant)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/renew", trial.lock);
    if (call(ALICE, "POST", path, "{\"grant\":\"%s\"}", grant) != 200)
        complain("%s, allocation %zu: answered %d; renewing the lock afterwards: %d %s", trial.what,
                 trial.n, trial.reply.status, last.status, last.body);
}

static void release_works(const char *grant)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/release", trial.lock);
    if (call(ALICE, "POST", path, "{\"grant\":\"%s\"}", grant) != 200)
        complain("%s, allocation %zu: answered %d; releasing the lock afterwards: %d %s",
                 trial.what, trial.n, trial.reply.status, last.status, last.body);
}

static void acquire_first(const char *token, const char *more, char ret_grant[NAME])
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/acquire", trial.lock);
    if (call(token, "POST", path, "{%s}", more) != 200)
        hf_test_fail(__FILE__, __LINE__, "%d %s", last.status, last.body);
    member(&last, "grant", ret_grant, NAME);
}

static void open_session_first(char ret[NAME])
{
    CHECK_INT(call(ALICE, "POST", "/v2/sessions", "{\"lease_ms\":%d}", LEASE_MS), 200);
    member(&last, "session", ret, NAME);
}

static void end_session(const char *session)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/sessions/%s/end", session);
    call(ALICE, "POST", path, "%s", "");
}

static void end_other(void)
{
    end_session(trial.other);
    becomes_free();
}

/* ---- requests that acquire ---- */

__attribute__((format(printf, 2, 3))) static void post_lock(const char *what, const char *format,
                                                            ...)
{
    va_list args;
    trial.request.method = "POST";
    trial.request.token = ALICE;
    snprintf(trial.request.path, sizeof trial.request.path, "/v2/locks/%s/%s", trial.lock, what);
    va_start(args, format);
    vsnprintf(trial.request.body, sizeof trial.request.body, format, args);
    va_end(args);
}

static void acquire(void)
{
    post_lock("acquire", "%s", "");
}

static void acquire_by_jwt(void)
{
    acquire();
    trial.request.token =
        new_jwt(",\"groups\":[\"dev\",\"ops\"],\"may\":[\"read,lock lock-*\"],\"scope\":\"a b\"");
}

static void acquire_with_much(void)
{
    post_lock(
        "acquire",
        "{\"data_base64\":\"AP8B/w==\",\"attributes\":{\"why\":\"test \\u00e9\",\"where\":\"here\"},"
        "\"lease_ms\":500000,\"keep_data\":true,\"wait_ms\":0}");
}

static void acquire_with_key(void)
{
    post_lock("acquire", "{\"idempotency_key\":\"%s\"}", trial.lock);
}

static void acquire_with_key_again(void)
{
    char more[NAME * 2];
    snprintf(more, sizeof more, "\"idempotency_key\":\"%s\"", trial.lock);
    acquire_first(ALICE, more, trial.grant);
    acquire_with_key();
}

static void acquire_held(void)
{
    acquire_first(CAROL, "", trial.other);
    acquire();
}

static void acquire_in_session(void)
{
    open_session_first(trial.other);
    post_lock("acquire", "{\"session\":\"%s\"}", trial.other);
}

static void acquire_shared(void)
{
    open_session_first(trial.other);
    post_lock("acquire", "{\"session\":\"%s\",\"mode\":\"shared\"}", trial.other);
}

static void acquire_semaphore(void)
{
    open_session_first(trial.other);
    post_lock("acquire", "{\"session\":\"%s\",\"limit\":2,\"data\":\"seat\"}", trial.other);
}

/* M2, M3. */
static void check_grant(void)
{
    char grant[NAME];
    if (trial.reply.status == 200) {
        member(&trial.reply, "grant", grant, sizeof grant);
        renew_works(grant);
        release_works(grant);
    }
    becomes_free();
}

/* What is the session's cannot be renewed alone, but is released alone. */
static void check_grant_in_session(void)
{
    char grant[NAME];
    if (trial.reply.status == 200) {
        member(&trial.reply, "grant", grant, sizeof grant);
        renew_works(grant);
        release_works(grant);
    }
    becomes_free();
    end_session(trial.other);
}

/* The same once more gets the lock, whatever became of the first. */
static void check_grant_with_key(void)
{
    char grant[NAME] = "";
    for (int i = 0; i < 100 && !*grant; i++) {
        struct request again = trial.request;
        ask(&again, &last);
        if (last.status == 200) member(&last, "grant", grant, sizeof grant);
        else ask_nap(10);
    }
    if (!*grant)
        complain("%s, allocation %zu: answered %d; the same again: %d %s", trial.what, trial.n,
                 trial.reply.status, last.status, last.body);
    renew_works(grant);
    release_works(grant);
    becomes_free();
}

/* The first grant is not lost with the second answer. */
static void check_grant_again(void)
{
    char grant[NAME];
    member(&trial.reply, "grant", grant, sizeof grant);
    if (trial.reply.status == 200 && strcmp(grant, trial.grant) != 0)
        complain("%s, allocation %zu: another grant", trial.what, trial.n);
    renew_works(trial.grant);
    release_works(trial.grant);
    becomes_free();
}

static void check_held(void)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/release", trial.lock);
    CHECK_INT(call(CAROL, "POST", path, "{\"grant\":\"%s\"}", trial.other), 200);
    becomes_free();
}

/* ---- waiting ---- */

/* What is tried again until there is memory gets some after a while. */
static void ask_for_a_while(const struct request *request, struct reply *ret)
{
    enum { SHORT_MS = 20 };
    int fd = ask_connect();
    CHECK(fd >= 0);
    ask_send(fd, request);
    if (!ask_is_readable(fd, SHORT_MS)) disarm();
    ask_read(fd, ret);
    close(fd);
}

static void release_until_done(const char *token, const char *grant)
{
    static struct request request;
    request = (struct request){.method = "POST", .token = token};
    snprintf(request.path, sizeof request.path, "/v2/locks/%s/release", trial.lock);
    snprintf(request.body, sizeof request.body, "{\"grant\":\"%s\"}", grant);
    for (int i = 0; i < 100; i++) {
        ask_for_a_while(&request, &last);
        if (last.status == 200) return;
        disarm();
    }
    complain("%s, allocation %zu: the holder cannot release: %d %s", trial.what, trial.n,
             last.status, last.body);
}

static void prepare_wait(void)
{
    acquire_first(CAROL, "", trial.other);
    post_lock("acquire", "{\"wait_ms\":%d}", HANDED_ON_MS);
}

static bool is_parked(int fd)
{
    for (int i = 0; i < 1000; i++) {
        if (ask_is_readable(fd, 1)) return false;
        if (__atomic_load_n(&service->metrics.waiters, __ATOMIC_ACQUIRE) > 0) return true;
    }
    return false;
}

static void run_wait(void)
{
    int fd = ask_connect();
    ask_send(fd, &trial.request);
    is_parked(fd);
    release_until_done(CAROL, trial.other);
    ask_read(fd, &trial.reply);
    close(fd);
}

static void run_hang_up(void)
{
    int fd = ask_connect();
    ask_send(fd, &trial.request);
    is_parked(fd);
    close(fd);
    settle();
    disarm();
    release_until_done(CAROL, trial.other);
    trial.reply.status = 0;
}

/* ---- requests about a grant ---- */

static void renew(void)
{
    acquire_first(ALICE, "\"data\":\"written\"", trial.grant);
    post_lock("renew", "{\"grant\":\"%s\",\"lease_ms\":%d}", trial.grant, LEASE_MS);
}

static void release(void)
{
    acquire_first(ALICE, "", trial.grant);
    post_lock("release", "{\"grant\":\"%s\",\"data\":\"left behind\"}", trial.grant);
}

static void check_renewed(void)
{
    renew_works(trial.grant);
    release_works(trial.grant);
    becomes_free();
}

/* A release that failed can be repeated; one that did not is not undone by that. */
static void check_released(void)
{
    if (trial.reply.status != 200) release_works(trial.grant);
    becomes_free();
}

/* A lock that another process has taken, of which the service knows what the record says. */
static void acquire_elsewhere(void)
{
    const struct hf_client_options options = {.size = sizeof options,
                                              .store = service->store,
                                              .owner = "alice",
                                              .lease_ms = LEASE_MS,
                                              .heartbeat_ms = HF_NONE,
                                              .warn_ms = HF_NONE,
                                              .skew_ms = HF_NONE,
                                              .session = HF_SESSION_OFF};
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    char grant[HF_GRANT_SIZE];
    if (hf_client_new(&options, &client, &error) != 0 ||
        hf_acquire(client, trial.lock, 0, NULL, &lock, &error) != 0 ||
        hf_lock_grant(lock, grant, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    snprintf(trial.grant, sizeof trial.grant, "%s", strrchr(grant, '#') + 1);
    hf__client_leave_locks(client);
    hf_lock_unref(lock);
    hf_client_close(client, 1000);
}

static void renew_elsewhere(void)
{
    acquire_elsewhere();
    post_lock("renew", "{\"grant\":\"%s\",\"lease_ms\":%d}", trial.grant, LEASE_MS);
}

static void release_elsewhere(void)
{
    acquire_elsewhere();
    post_lock("release", "{\"grant\":\"%s\"}", trial.grant);
}

static void force(void)
{
    acquire_first(ALICE, "", trial.grant);
    post_lock("force-release", "{\"reason\":\"a test\"}");
    trial.request.token = BOB;
}

/* Either it is still held, or it was taken away. */
static void check_forced(void)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/force-release", trial.lock);
    if (trial.reply.status != 200) {
        int status = call(BOB, "POST", path, "{\"reason\":\"a test\"}");
        if (status != 200 && status != 404)
            complain("%s, allocation %zu: forcing again: %d %s", trial.what, trial.n, status,
                     last.body);
    }
    becomes_free();
}

/* ---- looking ---- */

__attribute__((format(printf, 1, 2))) static void get(const char *format, ...)
{
    va_list args;
    trial.request.method = "GET";
    trial.request.token = ALICE;
    va_start(args, format);
    vsnprintf(trial.request.path, sizeof trial.request.path, format, args);
    va_end(args);
}

static void get_lock(void)
{
    acquire_first(ALICE, "\"data_base64\":\"AP8B/w==\",\"attributes\":{\"why\":\"test\"}",
                  trial.grant);
    get("/v2/locks/%s", trial.lock);
}

static void get_lock_of_session(void)
{
    char more[NAME * 2];
    open_session_first(trial.other);
    snprintf(more, sizeof more, "\"session\":\"%s\"", trial.other);
    acquire_first(ALICE, more, trial.grant);
    get("/v2/locks/%s", trial.lock);
}

static void list_locks(void)
{
    snprintf(trial.lock, sizeof trial.lock, "lock-0"); /* more records take more memory */
    acquire_first(ALICE, "\"data_base64\":\"AP8B/w==\",\"attributes\":{\"why\":\"test\"}",
                  trial.grant);
    get("/v2/locks?prefix=%s&held=true&limit=1000", trial.lock);
}

static void release_after(void)
{
    release_works(trial.grant);
}

/* ---- sessions ---- */

static void post_session(const char *what)
{
    char more[NAME * 2];
    open_session_first(trial.other);
    snprintf(more, sizeof more, "\"session\":\"%s\"", trial.other);
    acquire_first(ALICE, more, trial.grant);
    trial.request.method = "POST";
    trial.request.token = ALICE;
    snprintf(trial.request.path, sizeof trial.request.path, "/v2/sessions/%s%s", trial.other, what);
}

static void session_open(void)
{
    trial.request.method = "POST";
    trial.request.token = ALICE;
    snprintf(trial.request.path, sizeof trial.request.path, "/v2/sessions");
    snprintf(trial.request.body, sizeof trial.request.body, "{\"lease_ms\":%d}", LEASE_MS);
}

static void session_get(void)
{
    post_session("");
    trial.request.method = "GET";
}

static void session_list(void)
{
    post_session("");
    get("/v2/sessions");
}

static void session_renew(void)
{
    post_session("/renew");
}

static void session_end(void)
{
    post_session("/end");
}

/* One that nobody knows does not stay. */
static void check_session_open(void)
{
    char session[NAME], path[NAME * 2];
    if (trial.reply.status == 200) {
        member(&trial.reply, "session", session, sizeof session);
        snprintf(path, sizeof path, "/v2/sessions/%s/renew", session);
        if (call(ALICE, "POST", path, "%s", "") != 200)
            complain("%s, allocation %zu: renewing the session: %d %s", trial.what, trial.n,
                     last.status, last.body);
        end_session(session);
    }
    for (int i = 0; i < 50; i++) {
        CHECK_INT(call(ALICE, "GET", "/v2/sessions", "%s", ""), 200);
        if (strstr(last.body, "\"count\":0")) return;
        ask_nap(1);
    }
    complain("%s, allocation %zu: answered %d %.80s; a session stays that nobody was told of",
             trial.what, trial.n, trial.reply.status, trial.reply.body);
    member(&last, "session", session, sizeof session);
    end_session(session);
}

static void check_session_lives(void)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/sessions/%s/renew", trial.other);
    if (call(ALICE, "POST", path, "%s", "") != 200)
        complain("%s, allocation %zu: renewing the session: %d %s", trial.what, trial.n,
                 last.status, last.body);
    end_other();
}

/* ---- v1 ---- */

static void v1(const char *method, const char *what, const char *body)
{
    trial.request.method = method;
    trial.request.token = ALICE;
    snprintf(trial.request.path, sizeof trial.request.path, "/v1/space/lock/%s%s", trial.lock,
             what);
    snprintf(trial.request.body, sizeof trial.request.body, "%s", body);
}

static int v1_call(const char *token, const char *what, const char *body)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v1/space/lock/%s/%s", trial.lock, what);
    return call(token, "POST", path, "%s", body);
}

static const char v1_lease[] = "{\"instanceId\":\"one\",\"leaseDuration\":600}";
static const char v1_instance[] = "{\"instanceId\":\"one\"}";

static void v1_get(void)
{
    CHECK_INT(v1_call(ALICE, "acquire", v1_lease), 200);
    v1("GET", "", "");
}

static void v1_acquire(void)
{
    v1("POST", "/acquire", v1_lease);
}

static void v1_options(void)
{
    v1("OPTIONS", "", "");
}

static void v1_action_options(void)
{
    v1("OPTIONS", "/acquire", "");
}

static void v1_renew(void)
{
    CHECK_INT(v1_call(ALICE, "acquire", v1_lease), 200);
    v1("POST", "/renew", v1_lease);
}

static void v1_release(void)
{
    CHECK_INT(v1_call(ALICE, "acquire", v1_lease), 200);
    v1("POST", "/release", v1_instance);
}

static void v1_free(void)
{
    if (v1_call(CAROL, "acquire", v1_lease) != 200)
        complain("%s, allocation %zu: answered %d; not free afterwards: %d %s", trial.what, trial.n,
                 trial.reply.status, last.status, last.body);
    v1_call(CAROL, "release", v1_instance);
}

/* Who was not told that it has it may ask again: the same instance is let in. */
static void v1_check_held(void)
{
    if (trial.reply.status != 200 && v1_call(ALICE, "acquire", v1_lease) != 200)
        complain("%s, allocation %zu: answered %d; the same again: %d %s", trial.what, trial.n,
                 trial.reply.status, last.status, last.body);
    if (v1_call(ALICE, "renew", v1_lease) != 200)
        complain("%s, allocation %zu: answered %d; not held afterwards: %d %s", trial.what, trial.n,
                 trial.reply.status, last.status, last.body);
    v1_call(ALICE, "release", v1_instance);
    v1_free();
}

static void v1_check_released(void)
{
    if (trial.reply.status != 200) v1_call(ALICE, "release", v1_instance);
    v1_free();
}

/* ---- events ---- */

enum { STREAM = 64 * 1024 };
static char stream_text[STREAM];

/* What has come, without the chunks' sizes; false: the stream has ended. */
static bool read_stream(int fd, size_t *len, int ms)
{
    static char room[STREAM];
    static size_t raw;
    if (*len == 0) raw = 0;
    if (!ask_is_readable(fd, ms)) return true;
    ssize_t got = recv(fd, room + raw, sizeof room - 1 - raw, 0);
    if (got <= 0) return false;
    raw += (size_t)got;
    room[raw] = '\0';
    char *at = strstr(room, "\r\n\r\n");
    *len = 0;
    stream_text[0] = '\0';
    if (!at) return true;
    at += 4;
    while (at < room + raw) {
        char *end;
        size_t size = strtoul(at, &end, 16);
        if (end == at || size == 0 || end + 2 + size > room + raw) break;
        memcpy(stream_text + *len, end + 2, size);
        *len += size;
        stream_text[*len] = '\0';
        at = end + 2 + size + 2;
    }
    if (*len == 0) *len = 1; /* its head is there */
    return true;
}

/* Every line is of a kind that a stream has. */
static bool is_well_formed(const char *text)
{
    static const char *const starts[] = {"retry: 2000\n", "id: ", "data: {",
                                         "event: ",       ":\n",  "\n"};
    while (*text && strchr(text, '\n')) {
        bool good = false;
        for (size_t i = 0; i < COUNT_OF(starts); i++)
            good |= strncmp(text, starts[i], strlen(starts[i])) == 0;
        if (!good) return false;
        text = strchr(text, '\n') + 1;
    }
    return true;
}

static void events(void)
{
    size_t len = strlen(trial.lock);
    memset(trial.lock + len, 'x', sizeof trial.lock - 1 - len); /* more than a first buffer takes */
    get("/v2/events?prefix=%s", trial.lock);
}

static bool stream_says(void)
{
    char granted[NAME * 2];
    snprintf(granted, sizeof granted, "\"granted\",\"name\":\"%s\"", trial.lock);
    return strstr(stream_text, granted) || strstr(stream_text, "event: reset");
}

/* A stream is told of what happens, or that it has missed something; or it is ended. */
static void run_events(void)
{
    int fd = ask_connect();
    size_t len = 0;
    bool open = true;
    stream_text[0] = '\0';
    trial.reply.status = 0;
    ask_send(fd, &trial.request);
    for (int i = 0; i < 200 && open && len == 0; i++) open = read_stream(fd, &len, 50);
    if (open && service->metrics.streams == 0) { /* refused */
        close(fd);
        return;
    }
    CHECK(!open || len > 0);
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/acquire", trial.lock);
    bool acquired = open && call(ALICE, "POST", path, "%s", "") == 200;
    if (open && !acquired) {
        disarm();
        becomes_free();
        acquired = call(ALICE, "POST", path, "%s", "") == 200;
    }
    for (int i = 0; i < 60 && open && acquired && !stream_says(); i++)
        open = read_stream(fd, &len, 50);
    if (open && acquired && !stream_says())
        complain("%s, allocation %zu: the stream lives, but neither an event nor a reset came: %s",
                 trial.what, trial.n, stream_text);
    if (!is_well_formed(stream_text))
        complain("%s, allocation %zu: not an event stream: %s", trial.what, trial.n, stream_text);
    if (open) trial.reply.status = 200;
    close(fd);
    disarm();
    settle();
    CHECK_INT(service->metrics.streams, 0);
    if (acquired) {
        snprintf(path, sizeof path, "/v2/locks/%s/force-release", trial.lock);
        CHECK_INT(call(BOB, "POST", path, "{\"reason\":\"a test\"}"), 200);
    }
}

/* ---- the DynamoDB API ---- */

__attribute__((format(printf, 2, 3))) static void dynamo(const char *target, const char *format,
                                                         ...)
{
    va_list args;
    trial.request.method = "POST";
    trial.request.token = BOB;
    snprintf(trial.request.path, sizeof trial.request.path, "/");
    snprintf(trial.request.headers, sizeof trial.request.headers,
             "X-Amz-Target: DynamoDB_20120810.%s\r\nContent-Type: application/x-amz-json-1.0\r\n",
             target);
    va_start(args, format);
    vsnprintf(trial.request.body, sizeof trial.request.body, format, args);
    va_end(args);
}

static int dynamo_call(const char *target, const char *body)
{
    static struct request kept;
    kept = trial.request;
    dynamo(target, "%s", body);
    ask(&trial.request, &last);
    trial.request = kept;
    return last.status;
}

static const char table_text[] =
    "{\"TableName\":\"%s\",\"AttributeDefinitions\":[{\"AttributeName\":\"id\","
    "\"AttributeType\":\"S\"}],\"KeySchema\":[{\"AttributeName\":\"id\",\"KeyType\":"
    "\"HASH\"}],\"BillingMode\":\"PAY_PER_REQUEST\"}";

static void make_table(void)
{
    char body[512];
    snprintf(body, sizeof body, table_text, trial.lock);
    CHECK_INT(dynamo_call("CreateTable", body), 200);
}

static void put_first(void)
{
    char body[512];
    make_table();
    snprintf(body, sizeof body,
             "{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"one\"},\"count\":{\"N\":\"5\"}}}",
             trial.lock);
    CHECK_INT(dynamo_call("PutItem", body), 200);
}

static void drop_table(void)
{
    char body[256];
    snprintf(body, sizeof body, "{\"TableName\":\"%s\"}", trial.lock);
    dynamo_call("DeleteTable", body);
}

static void create_table(void)
{
    dynamo("CreateTable", table_text, trial.lock);
}

static void describe_table(void)
{
    make_table();
    dynamo("DescribeTable", "{\"TableName\":\"%s\"}", trial.lock);
}

static void delete_table(void)
{
    make_table();
    dynamo("DeleteTable", "{\"TableName\":\"%s\"}", trial.lock);
}

static void list_tables(void)
{
    dynamo("ListTables", "{}");
}

static void put_item(void)
{
    make_table();
    dynamo(
        "PutItem",
        "{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"one\"},\"list\":{\"L\":[{\"N\":\"1.50\"},{\"BOOL\":true},"
        "{\"M\":{\"a\":{\"B\":\"AAEC\"}}}]}},\"ConditionExpression\":\"attribute_not_exists(#k) OR #l < :n\","
        "\"ExpressionAttributeNames\":{\"#k\":\"id\",\"#l\":\"later\"},"
        "\"ExpressionAttributeValues\":{\":n\":{\"N\":\"7\"}}}",
        trial.lock);
}

static void get_item(void)
{
    put_first();
    dynamo("GetItem",
           "{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}},\"ConsistentRead\":true}",
           trial.lock);
}

static void update_item(void)
{
    put_first();
    dynamo(
        "UpdateItem",
        "{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}},\"UpdateExpression\":\"SET #c = #c + :one, z = :z\","
        "\"ExpressionAttributeNames\":{\"#c\":\"count\"},\"ExpressionAttributeValues\":{\":one\":{\"N\":\"1\"},"
        "\":z\":{\"S\":\"here\"}},\"ReturnValues\":\"ALL_NEW\"}",
        trial.lock);
}

static void delete_item(void)
{
    put_first();
    dynamo("DeleteItem",
           "{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}},\"ReturnValues\":\"ALL_OLD\"}",
           trial.lock);
}

static void query(void)
{
    put_first();
    dynamo(
        "Query",
        "{\"TableName\":\"%s\",\"KeyConditionExpression\":\"id = :id\",\"ExpressionAttributeValues\":{\":id\":"
        "{\"S\":\"one\"}}}",
        trial.lock);
}

static void scan(void)
{
    put_first();
    dynamo(
        "Scan",
        "{\"TableName\":\"%s\",\"FilterExpression\":\"#c > :n\",\"ExpressionAttributeNames\":{\"#c\":"
        "\"count\"},\"ExpressionAttributeValues\":{\":n\":{\"N\":\"1\"}}}",
        trial.lock);
}

static void unknown_target(void)
{
    dynamo("ExecuteStatement", "{}");
}

/* A table with an index "by" on the attribute g, and an item in it. */
static void make_indexed(void)
{
    char body[1024];
    snprintf(
        body, sizeof body,
        "{\"TableName\":\"%s\",\"AttributeDefinitions\":[{\"AttributeName\":\"id\",\"AttributeType\":\"S\"},"
        "{\"AttributeName\":\"g\",\"AttributeType\":\"S\"}],\"KeySchema\":[{\"AttributeName\":\"id\","
        "\"KeyType\":\"HASH\"}],\"BillingMode\":\"PAY_PER_REQUEST\",\"GlobalSecondaryIndexes\":[{"
        "\"IndexName\":\"by-id\",\"KeySchema\":[{\"AttributeName\":\"g\",\"KeyType\":\"HASH\"}],"
        "\"Projection\":{\"ProjectionType\":\"ALL\"}}]}",
        trial.lock);
    CHECK_INT(dynamo_call("CreateTable", body), 200);
    snprintf(body, sizeof body,
             "{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"one\"},\"g\":{\"S\":\"old\"}}}",
             trial.lock);
    CHECK_INT(dynamo_call("PutItem", body), 200);
}

static void query_index(void)
{
    make_indexed();
    dynamo(
        "Query",
        "{\"TableName\":\"%s\",\"IndexName\":\"by-id\",\"KeyConditions\":{\"g\":{\"ComparisonOperator\":\"EQ\","
        "\"AttributeValueList\":[{\"S\":\"old\"}]}},\"ReturnConsumedCapacity\":\"INDEXES\"}",
        trial.lock);
}

static void put_expected(void)
{
    make_indexed();
    dynamo(
        "PutItem",
        "{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"one\"},\"g\":{\"S\":\"new\"}},\"Expected\":{\"g\":{"
        "\"Value\":{\"S\":\"old\"}}},\"ReturnItemCollectionMetrics\":\"SIZE\"}",
        trial.lock);
}

static void batch_get(void)
{
    make_indexed();
    dynamo(
        "BatchGetItem",
        "{\"RequestItems\":{\"%s\":{\"Keys\":[{\"id\":{\"S\":\"one\"}},{\"id\":{\"S\":\"two\"}}]}}}",
        trial.lock);
}

static void batch_write(void)
{
    make_indexed();
    dynamo("BatchWriteItem",
           "{\"RequestItems\":{\"%s\":[{\"DeleteRequest\":{\"Key\":{\"id\":{\"S\":\"one\"}}}},"
           "{\"PutRequest\":{\"Item\":{\"id\":{\"S\":\"two\"},\"g\":{\"S\":\"new\"}}}}]}}",
           trial.lock);
}

static void transact_get(void)
{
    make_indexed();
    dynamo(
        "TransactGetItems",
        "{\"TransactItems\":[{\"Get\":{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}}}}]}",
        trial.lock);
}

static void transact_write(void)
{
    make_indexed();
    dynamo(
        "TransactWriteItems",
        "{\"ClientRequestToken\":\"%s\",\"TransactItems\":[{\"Update\":{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":"
        "\"one\"}},\"UpdateExpression\":\"SET g = :g\",\"ExpressionAttributeValues\":{\":g\":{\"S\":\"new\"}}}},"
        "{\"Put\":{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"two\"},\"g\":{\"S\":\"new\"}}}}]}",
        trial.lock, trial.lock, trial.lock);
}

static void transact_refused(void)
{
    make_indexed();
    dynamo(
        "TransactWriteItems",
        "{\"TransactItems\":[{\"Put\":{\"TableName\":\"%s\",\"Item\":{\"id\":{\"S\":\"two\"},\"g\":{\"S\":"
        "\"new\"}}}},{\"ConditionCheck\":{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}},"
        "\"ConditionExpression\":\"attribute_not_exists(id)\",\"ReturnValuesOnConditionCheckFailure\":"
        "\"ALL_OLD\"}}]}",
        trial.lock, trial.lock);
}

static void update_table(void)
{
    put_first();
    dynamo(
        "UpdateTable",
        "{\"TableName\":\"%s\",\"AttributeDefinitions\":[{\"AttributeName\":\"count\",\"AttributeType\":\"N\"}],"
        "\"GlobalSecondaryIndexUpdates\":[{\"Create\":{\"IndexName\":\"by-id\",\"KeySchema\":[{\"AttributeName\":"
        "\"count\",\"KeyType\":\"HASH\"}],\"Projection\":{\"ProjectionType\":\"KEYS_ONLY\"}}}]}",
        trial.lock);
}

static void tag_table(void)
{
    make_table();
    dynamo(
        "TagResource",
        "{\"ResourceArn\":\"arn:aws:dynamodb:local:000000000000:table/%s\",\"Tags\":[{\"Key\":\"team\","
        "\"Value\":\"locks\"}]}",
        trial.lock);
}

static void list_tags(void)
{
    make_table();
    dynamo("ListTagsOfResource",
           "{\"ResourceArn\":\"arn:aws:dynamodb:local:000000000000:table/%s\"}", trial.lock);
}

/* Whether a write that was answered is there, and one that was refused is whole or not at all. */
static void check_item(const char *part)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"TableName\":\"%s\",\"Key\":{\"id\":{\"S\":\"one\"}},\"ConsistentRead\":true}",
             trial.lock);
    CHECK_INT(dynamo_call("GetItem", body), 200);
    if (trial.reply.status == 200 && !strstr(last.body, part))
        complain("%s, allocation %zu: answered 200, and is not there: %s", trial.what, trial.n,
                 last.body);
    drop_table();
}

static void check_put(void)
{
    check_item("AAEC");
}

static void check_update(void)
{
    check_item("here");
}

static void check_delete(void)
{
    check_item("{}");
}

static int count_items(const char *where)
{
    char body[512];
    snprintf(body, sizeof body, "{\"TableName\":\"%s\",\"Select\":\"COUNT\"%s}", trial.lock, where);
    CHECK_INT(dynamo_call(strstr(where, "Key") ? "Query" : "Scan", body), 200);
    const char *at = strstr(last.body, "\"Count\":");
    CHECK(at);
    return atoi(at + strlen("\"Count\":"));
}

/*
 * All of a write or nothing: so many items in the table before and after it, and so many in the
 * index under the new key.
 */
static void check_whole(int before, int after, int in_index)
{
    int items = count_items("");
    int old =
        count_items(",\"IndexName\":\"by-id\",\"KeyConditions\":{\"g\":{\"ComparisonOperator\":"
                    "\"EQ\",\"AttributeValueList\":[{\"S\":\"old\"}]}}");
    int new =
        count_items(",\"IndexName\":\"by-id\",\"KeyConditions\":{\"g\":{\"ComparisonOperator\":"
                    "\"EQ\",\"AttributeValueList\":[{\"S\":\"new\"}]}}");
    bool done = items == after && old == 0 && new == in_index;
    bool undone = items == before && old == 1 && new == 0;
    if (trial.reply.status == 200 ? !done : !done && !undone)
        complain("%s, allocation %zu: answered %d, and there are %d items; in the index %d and %d",
                 trial.what, trial.n, trial.reply.status, items, old, new);
    drop_table();
}

static void check_put_expected(void)
{
    check_whole(1, 1, 1);
}

static void check_batch_write(void)
{
    check_whole(1, 1, 1);
}

static void check_transact_write(void)
{
    check_whole(1, 2, 2);
}

static void check_transact_refused(void)
{
    if (count_items("") != 1)
        complain("%s, allocation %zu: a part was carried out", trial.what, trial.n);
    drop_table();
}

/* The index has the item if it is there. */
static void check_update_table(void)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"TableName\":\"%s\",\"IndexName\":\"by-id\",\"Select\":\"COUNT\"}", trial.lock);
    int status = dynamo_call("Scan", body);
    if (status == 200 ? !strstr(last.body, "\"Count\":1") : trial.reply.status == 200)
        complain("%s, allocation %zu: answered %d, and the index: %d %s", trial.what, trial.n,
                 trial.reply.status, status, last.body);
    drop_table();
}

/* Signed as the AWS clients do. */
static void sign(void)
{
    static struct hf_sigv4_key cache;
    static char date[HF_AMZ_DATE_SIZE];
    char target[128];
    int64_t now_s = hf__clock_wall_us(&hf__clock_system) / 1000000;
    hf__amz_date(now_s, date);
    const char *name = strstr(trial.request.headers, "X-Amz-Target: ") + 14;
    snprintf(target, sizeof target, "%.*s", (int)strcspn(name, "\r"), name);
    const struct hf_header headers[] = {
        {HF_LIT("content-type"), HF_LIT("application/x-amz-json-1.0")},
        {HF_LIT("host"), HF_LIT("localhost")},
        {HF_LIT("x-amz-date"), hf__slice_str(date)},
        {HF_LIT("x-amz-target"), hf__slice_str(target)}};
    const struct hf_sigv4_request request = {.method = HF_LIT("POST"),
                                             .path = HF_LIT("/"),
                                             .headers = headers,
                                             .header_count = COUNT_OF(headers),
                                             .body = hf__slice_str(trial.request.body)};
    const struct hf_sigv4_scope scope = {HF_LIT("us-east-1"), HF_LIT("dynamodb"), now_s};
    struct hf_buf value;
    hf__buf_init(&value, 4096);
    hf__sigv4_authorization(&request, &scope, HF_LIT(ACCESS_KEY), HF_LIT(SECRET_KEY), &cache,
                            &value);
    size_t len = strlen(trial.request.headers);
    snprintf(trial.request.headers + len, sizeof trial.request.headers - len,
             "X-Amz-Date: %s\r\nAuthorization: %s\r\n", date, hf__buf_cstr(&value));
    hf__buf_free(&value);
    trial.request.token = NULL;
}

static void list_tables_signed(void)
{
    list_tables();
    sign();
}

static void list_tables_forged(void)
{
    list_tables();
    sign();
    snprintf(trial.request.body, sizeof trial.request.body, "{ }");
}

/* ---- records ---- */

static void records(const char *operation, const char *more)
{
    trial.request.method = "POST";
    trial.request.token = ALICE;
    snprintf(trial.request.path, sizeof trial.request.path, "/v2/records");
    snprintf(trial.request.headers, sizeof trial.request.headers,
             "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n",
             operation);
    snprintf(trial.request.body, sizeof trial.request.body,
             "{\"TableName\":\"locks\",\"Key\":{\"key\":{\"S\":\"%s\"}}%s}", trial.lock, more);
}

static void records_get(void)
{
    char path[NAME * 2];
    snprintf(path, sizeof path, "/v2/locks/%s/acquire", trial.lock);
    CHECK_INT(call(ALICE, "POST", path, "%s", "{}"), 200);
    records("GetItem", "");
}

static void records_scan(void)
{
    records("Scan", ",\"Limit\":1");
}

static const char records_takes[] =
    ",\"ConditionExpression\":\"attribute_not_exists(#g) AND attribute_not_exists(holders)\","
    "\"UpdateExpression\":\"SET #t = if_not_exists(#t, :s) + :one, #o = :o, #g = :g, #v = :one, "
    "#b = :g, lease = :l\",\"ExpressionAttributeNames\":{\"#g\":\"grant\",\"#t\":\"token\","
    "\"#o\":\"owner\",\"#v\":\"version\",\"#b\":\"by\"},\"ExpressionAttributeValues\":{\":s\":"
    "{\"N\":\"0\"},\":one\":{\"N\":\"1\"},\":o\":{\"S\":\"me\"},\":g\":{\"S\":"
    "\"0102030405060708090a0b0c0d0e0f10\"},\":l\":{\"N\":\"20000\"}},\"ReturnValues\":\"ALL_NEW\"";

static void records_acquire(void)
{
    records("UpdateItem", records_takes);
}

static void records_refused(void)
{
    records_get();
    records("UpdateItem", records_takes);
}

/* ---- everything else ---- */

static void page(void)
{
    get("/");
    trial.request.token = NULL;
}

static void page_style(void)
{
    get("/page.css");
}

static void page_script(void)
{
    get("/page.js");
}

static void openapi(void)
{
    get("/openapi.yaml");
}

static void metrics(void)
{
    get("/metrics");
}

static void healthz(void)
{
    get("/healthz");
}

static void readyz(void)
{
    get("/readyz");
    __atomic_store_n(&service->ready_us, 0, __ATOMIC_RELAXED); /* it asks the store */
}

static void whoami(void)
{
    get("/v2/whoami");
}

static void whoami_by_jwt(void)
{
    whoami();
    trial.request.token = new_jwt(",\"scope\":\"x holdfast:admin\",\"may\":\"read public*\"");
}

/* Its token has been seen before. */
static void whoami_by_known_jwt(void)
{
    whoami_by_jwt();
    CHECK_INT(call(trial.request.token, "GET", "/v2/whoami", "%s", ""), 200);
}

static void jwt_for_others(void)
{
    whoami();
    trial.request.token = new_jwt(",\"aud\":\"there\"");
}

static void jwt_forged(void)
{
    static char token[1024];
    whoami();
    snprintf(token, sizeof token, "%s", new_jwt(""));
    char *at = strrchr(token, '.') + 5;
    *at = *at == 'A' ? 'B' : 'A';
    trial.request.token = token;
}

static void token_unknown(void)
{
    whoami();
    trial.request.token = "mallory-0123456789";
}

static void token_missing(void)
{
    whoami();
    trial.request.token = NULL;
}

static void path_unknown(void)
{
    get("/v2/nothing/here");
}

static void path_escaped(void)
{
    get("/v2/locks/absent%%2F%%C3%%A9");
}

static void path_malformed(void)
{
    get("/v2/locks/%%zz");
}

static void method_wrong(void)
{
    get("/v2/locks/%s/acquire", trial.lock);
}

static void body_malformed(void)
{
    post_lock("acquire", "{\"wait_ms\":}");
}

static void body_refused(void)
{
    post_lock("acquire", "{\"lease_ms\":1}");
}

static void body_large(void)
{
    post_lock("acquire", "%s", "");
    snprintf(trial.request.headers, sizeof trial.request.headers, "Content-Length: 99999999\r\n");
    trial.request.method = "PUT"; /* which gets no length of its own */
}

static void v1_refused(void)
{
    v1("POST", "/acquire", "{\"instanceId\":5,\"leaseDuration\":\"long\"}");
}

static void forbidden(void)
{
    post_lock("force-release", "{\"reason\":\"mine\"}");
}

struct scenario {
    const char *name;
    int status; /* with memory */
    void (*prepare)(void);
    void (*check)(void);
    void (*run)(void); /* NULL: the request is sent, and its answer read */
    bool varies;       /* its answer is not the same each time */
    enum config config;
};

static const struct scenario scenarios[] = {
    {"v1.get", 200, v1_get, .check = v1_check_held},
    {"v1.acquire", 200, v1_acquire, .check = v1_check_held},
    {"v1.renew", 200, v1_renew, .check = v1_check_held},
    {"v1.release", 200, v1_release, .check = v1_check_released},
    {"v1.get.options", 200, .prepare = v1_options},
    {"v1.acquire.options", 200, .prepare = v1_action_options},
    {"v1.renew.options", 200, .prepare = v1_action_options},
    {"v1.release.options", 200, .prepare = v1_action_options},
    {"v1.acquire refused", 400, .prepare = v1_refused},
    {"v2.acquire", 200, acquire, .check = check_grant},
    {"v2.acquire by JWT", 200, acquire_by_jwt, .check = check_grant, .config = WITH_RULES},
    {"v2.acquire with data and attributes", 200, acquire_with_much, .check = check_grant},
    {"v2.acquire with a key", 200, acquire_with_key, .check = check_grant_with_key},
    {"v2.acquire with a key again", 200, acquire_with_key_again, .check = check_grant_again},
    {"v2.acquire, held", 423, acquire_held, .check = check_held},
    {"v2.acquire in a session", 200, acquire_in_session, .check = check_grant_in_session},
    {"v2.acquire shared", 200, acquire_shared, .check = check_grant_in_session},
    {"v2.acquire a place", 200, acquire_semaphore, .check = check_grant_in_session},
    {"v2.acquire, waiting", 200, prepare_wait, .check = check_grant, .run = run_wait},
    {"v2.acquire, hung up", 0, prepare_wait, .check = becomes_free, .run = run_hang_up},
    {"v2.acquire malformed", 400, body_malformed, .check = becomes_free},
    {"v2.acquire refused", 400, body_refused, .check = becomes_free},
    {"v2.acquire too large", 413, body_large, .check = becomes_free},
    {"v2.renew", 200, renew, .check = check_renewed},
    {"v2.renew by record", 200, renew_elsewhere, .check = check_renewed},
    {"v2.release", 200, release, .check = check_released},
    {"v2.release by record", 200, release_elsewhere, .check = check_released},
    {"v2.force-release", 200, force, .check = check_forced},
    {"v2.force-release forbidden", 403, .prepare = forbidden},
    {"v2.get", 200, get_lock, .check = release_after},
    {"v2.get of a session's", 200, get_lock_of_session, .check = end_other},
    {"v2.list", 200, list_locks, .check = release_after},
    {"v2.session.open", 200, session_open, .check = check_session_open},
    {"v2.session.get", 200, session_get, .check = check_session_lives},
    {"v2.session.list", 200, session_list, .check = check_session_lives},
    {"v2.session.renew", 200, session_renew, .check = check_session_lives},
    {"v2.session.end", 200, session_end, .check = end_other},
    {"v2.events", 200, events, .run = run_events, .varies = true},
    {"v2.records", 200, .prepare = records_get},
    {"v2.records, a page", 200, records_scan, .varies = true},
    {"v2.records, an acquire", 200, .prepare = records_acquire},
    {"v2.records, an acquire with rules", 200, records_acquire, .config = WITH_RULES},
    {"v2.records, refused", 400, .prepare = records_refused},
    {"v2.whoami", 200, .prepare = whoami},
    {"v2.whoami by JWT", 200, .prepare = whoami_by_jwt},
    {"v2.whoami by JWT and rules", 200, whoami_by_jwt, .config = WITH_RULES},
    {"v2.whoami by known JWT", 200, whoami_by_known_jwt, .config = WITH_RULES},
    {"v2.whoami by JWT for others", 401, .prepare = jwt_for_others},
    {"v2.whoami by forged JWT", 401, .prepare = jwt_forged},
    {"v2.whoami by unknown token", 401, .prepare = token_unknown},
    {"v2.whoami without token", 401, .prepare = token_missing},
    {"CreateTable", 200, create_table, .check = drop_table},
    {"DescribeTable", 200, describe_table, .check = drop_table},
    {"DeleteTable", 200, delete_table, .check = drop_table},
    {"ListTables", 200, .prepare = list_tables},
    {"PutItem", 200, put_item, .check = check_put},
    {"GetItem", 200, get_item, .check = drop_table},
    {"UpdateItem", 200, update_item, .check = check_update},
    {"DeleteItem", 200, delete_item, .check = check_delete},
    {"Query", 200, query, .check = drop_table},
    {"Scan", 200, scan, .check = drop_table},
    {"Query on an index", 200, query_index, .check = drop_table},
    {"PutItem expected", 200, put_expected, .check = check_put_expected},
    {"BatchGetItem", 200, batch_get, .check = drop_table},
    {"BatchWriteItem", 200, batch_write, .check = check_batch_write},
    {"TransactGetItems", 200, transact_get, .check = drop_table},
    {"TransactWriteItems", 200, transact_write, .check = check_transact_write},
    {"TransactWriteItems refused", 400, transact_refused, .check = check_transact_refused},
    {"UpdateTable", 200, update_table, .check = check_update_table},
    {"TagResource", 200, tag_table, .check = drop_table},
    {"ListTagsOfResource", 200, list_tags, .check = drop_table},
    {"ExecuteStatement", 400, .prepare = unknown_target},
    {"ListTables signed", 200, list_tables_signed, .config = WITH_KEYS},
    {"ListTables forged", 400, list_tables_forged, .config = WITH_KEYS},
    {"page", 200, .prepare = page},
    {"page.style", 200, .prepare = page_style},
    {"page.script", 200, .prepare = page_script},
    {"openapi", 200, .prepare = openapi},
    {"metrics", 200, metrics, .varies = true},
    {"healthz", 200, .prepare = healthz},
    {"readyz", 200, .prepare = readyz},
    {"unknown path", 404, .prepare = path_unknown},
    {"escaped path", 404, .prepare = path_escaped},
    {"malformed path", 400, .prepare = path_malformed},
    {"wrong method", 405, .prepare = method_wrong},
};

/* ---- the torture ---- */

static void run_request(void)
{
    ask_for_a_while(&trial.request, &trial.reply);
}

static void try_once(const struct scenario *scenario, size_t n, void (*arm)(size_t n))
{
    static int serial;
    trial = (struct trial){.what = scenario->name, .n = n};
    snprintf(trial.lock, sizeof trial.lock, "lock-%d", serial++);
    hf_test_note("%s, allocation %zu", scenario->name, n);
    scenario->prepare();
    settle();
    arm(n);
    if (scenario->run) scenario->run();
    else run_request();
    if (trial.reply.status != ASK_HANGS) settle();
    disarm();
    trial.failed = hf_alloc_has_failed();
}

static char wanted_head[4096];

/* M2, M3. */
static void judge(const struct scenario *scenario, const char *wanted)
{
    static char shape[ASK_BODY];
    int status = trial.reply.status;
    if (status == ASK_HANGS) {
        complain("%s, allocation %zu: neither answers nor closes", scenario->name, trial.n);
        return;
    }
    if (status == scenario->status) {
        shape_of(trial.reply.body, shape, sizeof shape);
        if (!scenario->varies && status != 0 && strcmp(shape, wanted) != 0)
            complain("%s, allocation %zu: answered %d, but not the same:\n    %.300s\n    %.300s",
                     scenario->name, trial.n, status, trial.reply.body, wanted);
        shape_of(trial.reply.head, shape, sizeof shape);
        if (!scenario->run && strcmp(shape, wanted_head) != 0)
            complain("%s, allocation %zu: other headers:\n%s", scenario->name, trial.n,
                     trial.reply.head);
    } else if (!trial.failed) {
        complain("%s: nothing failed, and it answered %d %.200s", scenario->name, status,
                 trial.reply.body);
    } else if (status != 0 && status < 500) {
        complain("%s, allocation %zu: blames the caller: %d %.200s", scenario->name, trial.n,
                 status, trial.reply.body);
    }
    if (scenario->check) scenario->check();
    CHECK_INT(call(ALICE, "GET", "/v2/whoami", "%s", ""), 200);
}

static size_t torture(const struct scenario *scenario, void (*arm)(size_t n))
{
    static char wanted[ASK_BODY];
    int clean = 0;
    size_t n = 0, blocks = hf_alloc_live();
    shown = 0;
    serve(scenario->config);
    try_once(scenario, 0, arm);
    if (trial.reply.status != scenario->status)
        hf_test_fail(__FILE__, __LINE__, "%d %s", trial.reply.status, trial.reply.body);
    shape_of(trial.reply.body, wanted, sizeof wanted);
    shape_of(trial.reply.head, wanted_head, sizeof wanted_head);
    judge(scenario, wanted);
    while (clean < CLEAN_ENOUGH && n < ALLOCATIONS_MOST && trial.reply.status != ASK_HANGS) {
        n += arm == hf_alloc_fail_at || n < EACH_UNTIL ? 1 : 2; /* all after it fail as well */
        try_once(scenario, n, arm);
        clean = trial.failed ? 0 : clean + 1;
        judge(scenario, wanted);
    }
    if (n == ALLOCATIONS_MOST)
        complain("%s: more than %d allocations", scenario->name, ALLOCATIONS_MOST);
    stop_serving();
    if (hf_alloc_live() != blocks)
        complain("%s: %zu blocks leaked", scenario->name, hf_alloc_live() - blocks);
    return n - (size_t)clean;
}

/* Those whose names begin with this, or all others. */
static void run_scenarios(void (*arm)(size_t n), bool acquiring)
{
    static const char acquire_name[] = "v2.acquire";
    const char *only = getenv("HOLDFAST_ALLOC_ONLY"); /* one of them, and how long it takes */
    complaints = 0;
    for (size_t i = 0; i < COUNT_OF(scenarios); i++) {
        const char *name = scenarios[i].name;
        if ((strncmp(name, acquire_name, strlen(acquire_name)) == 0) != acquiring) continue;
        if ((only && strcmp(only, name) != 0) || is_beyond_us(name)) continue;
        int64_t began_ms = ask_now_ms();
        size_t count = torture(&scenarios[i], arm);
        if (only)
            printf("%s: %zu allocations, %lld ms\n", name, count,
                   (long long)(ask_now_ms() - began_ms));
    }
    if (complaints > 0) hf_test_fail(__FILE__, __LINE__, "%d complaints", complaints);
}

TEST(one_allocation_of_an_acquire_fails)
{
    run_scenarios(hf_alloc_fail_at, true);
}

TEST(one_allocation_of_another_request_fails)
{
    run_scenarios(hf_alloc_fail_at, false);
}

TEST(memory_runs_out_while_acquiring)
{
    run_scenarios(hf_alloc_fail_from, true);
}

TEST(memory_runs_out_in_another_request)
{
    run_scenarios(hf_alloc_fail_from, false);
}

TEST(every_route_is_tried)
{
    for (size_t i = 0; i < hf__route_count; i++) {
        const char *name = hf__routes[i].name;
        bool found = strcmp(name, "dynamodb") == 0;
        for (size_t j = 0; j < COUNT_OF(scenarios); j++)
            found |= strcmp(scenarios[j].name, name) == 0;
        if (!found) hf_test_fail(__FILE__, __LINE__, "no scenario for %s", name);
    }
}

/* ---- starting ---- */

static int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* The issuer is of this process, too, and closes its end of a connection when it notices. */
static bool descriptors_come_back_to(int wanted)
{
    for (int i = 0; i < 2000 && descriptors() != wanted; i++) usleep(1000);
    return descriptors() == wanted;
}

/* It starts, or says that there is no memory, and nothing is left of it. */
static void start_without_memory(enum config config, void (*arm)(size_t n))
{
    struct hf_serve_options options = options_for(config);
    bool done = false;
#ifdef HF_TEST_MALLOC
    options.jwt_jwks = NULL; /* the issuer is of this process, too, and needs memory */
#endif
    serve(config); /* the issuer keeps a descriptor since it was first asked */
    stop_serving();
    int before = descriptors();
    complaints = 0;
    for (size_t n = 1; !done && n < ALLOCATIONS_MOST; n++) {
        struct hf_error error = {0};
        size_t blocks = hf_alloc_live();
        hf_test_note("starting, allocation %zu", n);
        options.listen_fd = ask_listen();
        arm(n);
        int code = hf__service_start(&options, &service, &error);
        done = !hf_alloc_has_failed();
        disarm();
        if (code == 0) stop_serving();
        else close(options.listen_fd); /* which is the caller's then */
        if (code != 0 && done) complain("starting: %s", error.message);
        if (code != 0 && code != HF_ERR_NO_MEMORY && !strstr(error.message, "out of memory") &&
            !strstr(error.message, "Cannot allocate memory"))
            complain("starting, allocation %zu: %d %s", n, code, error.message);
        if (hf_alloc_live() != blocks)
            complain("starting, allocation %zu: %zu blocks leaked (%s)", n,
                     hf_alloc_live() - blocks, code ? error.message : "started");
        if (!descriptors_come_back_to(before))
            complain("starting, allocation %zu: descriptors leaked", n), before = descriptors();
    }
    if (complaints > 0) hf_test_fail(__FILE__, __LINE__, "%d complaints", complaints);
}

TEST(it_starts_or_says_why)
{
    start_without_memory(WITH_RULES, hf_alloc_fail_at);
}

TEST(it_says_why_when_memory_runs_out)
{
    start_without_memory(WITH_KEYS, hf_alloc_fail_from);
}

/* What is in use stays when its files cannot be read. */
TEST(it_reloads_or_says_why)
{
    bool done = false;
    struct hf_error error;
    serve(WITH_RULES);
    complaints = 0;
    for (size_t n = 1; !done && n < ALLOCATIONS_MOST; n++) {
        hf_test_note("reloading, allocation %zu", n);
        hf_alloc_fail_at(n);
        int code = hf__service_reload(service, &error);
        done = !hf_alloc_has_failed();
        disarm();
        if (code != 0 && code != HF_ERR_NO_MEMORY)
            complain("reloading, allocation %zu: %d %s", n, code, error.message);
        if (call(ALICE, "GET", "/v2/locks/lock-x", "%s", "") != 404 ||
            call(ALICE, "GET", "/v2/whoami", "%s", "") != 200)
            complain("reloading, allocation %zu: afterwards %d %s", n, last.status, last.body);
    }
    stop_serving();
    if (complaints > 0) hf_test_fail(__FILE__, __LINE__, "%d complaints", complaints);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(every_route_is_tried),
        RUN(it_starts_or_says_why),
        RUN(it_says_why_when_memory_runs_out),
        RUN(it_reloads_or_says_why),
        RUN(one_allocation_of_an_acquire_fails),
        RUN(one_allocation_of_another_request_fails),
        RUN(memory_runs_out_while_acquiring),
        RUN(memory_runs_out_in_another_request),
    };
    make_key();
    int code = RUN_TESTS(tests);
    hf_stub_stop(issuer);
    gnutls_privkey_deinit(key);
    return code;
}
