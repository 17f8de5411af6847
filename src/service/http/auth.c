/*
 * Authenticating callers. Tried in this order: a bearer token (one of a file, or a JWT), a client
 * certificate; with authentication disabled every caller is "anonymous".
 *
 * Invariants
 * A1  Secrets are compared by their SHA-256, in constant time, all of them every time.
 * A2  A verified JWT is remembered until it expires or the keys change, never longer.
 * A3  Keys are fetched by a thread of its own: at intervals, and when a well-formed token names an
 *     unknown one, but not more often than every few seconds. No other caller waits for that.
 */
#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/thread.h"
#include "runtime/http.h"
#include "service/http/access_key.h"
#include "service/http/jwt.h"
#include "service/http/tls.h"
#include "service/service.h"

enum {
    TOKENS_MOST = 1000,
    TOKEN_LEAST = 16,
    LINE_MOST = 1024,
    CACHE = 1024,
    OWNER_MOST = 512,
    GRANTED_MOST = 1024, /* bytes of rights that are remembered */
    REFETCH_S = 10,
    RETRY_S = 2, /* while there are no keys at all */
    PENDING_MOST = 1000,
    REFRESH_S = 300,
    FETCH_MS = 5000,
    FETCH_MOST = 256 * 1024,
};

struct token {
    unsigned char digest[SHA256_DIGEST_SIZE];
    char *owner;
    bool admin;
};

struct tokens {
    size_t count;
    struct token at[TOKENS_MOST];
};

struct remembered {
    unsigned char digest[SHA256_DIGEST_SIZE];
    int64_t until_s; /* 0: empty */
    bool admin;
    uint64_t claims;
    char granted[GRANTED_MOST]; /* lines */
    char owner[OWNER_MOST + 1];
};

struct hf_auth {
    struct hf_auth_options options;
    struct hf_service *service;
    struct hf_arena arena;
    struct hf_claim_test admin_claim;
    struct hf_jwt_rules rules;
    bool jwt; /* issuer or key set are given */

    pthread_mutex_t mutex;
    struct tokens *tokens;
    struct hf_rules *access; /* the rules file; NULL: none */
    struct hf_access_keys *access_keys;
    struct hf_jwks *keys;
    int64_t fetched_s;      /* the last attempt; our clock */
    struct hf_list pending; /* checks that wait for newer keys */
    size_t pending_count;
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread;
    bool stopping; /* atomic, for the fetch under way */
    struct remembered *cache;
};

static void digest_of(struct hf_slice text, unsigned char ret[SHA256_DIGEST_SIZE])
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, text.len, (const uint8_t *)text.ptr);
    sha256_digest(&context, SHA256_DIGEST_SIZE, ret);
}

static int64_t wall_s(const struct hf_auth *auth)
{
    return hf__clock_wall_us(auth->service->store->clock) / 1000000;
}

static int64_t boot_s(const struct hf_auth *auth)
{
    return hf__service_now_us(auth->service) / 1000000;
}

/* ---- administrators ---- */

static bool is_admin(const struct hf_auth *auth, const char *owner)
{
    struct hf_slice rest = hf__slice_str(auth->options.admins);
    while (rest.len > 0) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.ptr) : rest.len;
        if (hf__slice_is(hf__slice(rest.ptr, len), owner)) return true;
        rest = hf__slice_skip(rest, comma ? len + 1 : len);
    }
    return false;
}

/* ---- tokens in a file ---- */

static void tokens_free(struct tokens *tokens)
{
    if (!tokens) return;
    for (size_t i = 0; i < tokens->count; i++) hf__free(tokens->at[i].owner);
    hf__free(tokens);
}

/* TOKEN OWNER [admin]; the token itself, or sha256:HEX. */
static int take_token(struct tokens *tokens, char *line, struct hf_error *reterr)
{
    char *rest = line, *word[3] = {0};
    for (int i = 0; i < 3; i++) word[i] = strtok_r(i ? NULL : line, " \t\r\n", &rest);
    if (!word[0] || word[0][0] == '#') return 0;
    if (!word[1] || (word[2] && strcmp(word[2], "admin") != 0) || strtok_r(NULL, " \t\r\n", &rest))
        return hf__error_set(reterr, HF_ERR_INVALID, "expected TOKEN OWNER, or TOKEN OWNER admin");
    if (tokens->count == TOKENS_MOST)
        return hf__error_set(reterr, HF_ERR_LIMIT, "more than %d tokens", TOKENS_MOST);
    struct token *token = &tokens->at[tokens->count];
    if (strncmp(word[0], "sha256:", 7) == 0) {
        const char *hex = word[0] + 7;
        if (strlen(hex) != sizeof token->digest * 2)
            return hf__error_set(reterr, HF_ERR_INVALID,
                                 "sha256: must be followed by 64 hex digits");
        for (size_t i = 0; i < sizeof token->digest; i++) {
            int high = hf__hex_value(hex[2 * i]), low = hf__hex_value(hex[2 * i + 1]);
            if (high < 0 || low < 0)
                return hf__error_set(reterr, HF_ERR_INVALID,
                                     "sha256: must be followed by 64 hex digits");
            token->digest[i] = (unsigned char)(high << 4 | low);
        }
    } else {
        if (strlen(word[0]) < TOKEN_LEAST)
            return hf__error_set(reterr, HF_ERR_INVALID, "a token must have at least %d characters",
                                 TOKEN_LEAST);
        digest_of(hf__slice_str(word[0]), token->digest);
    }
    if (strlen(word[1]) > OWNER_MOST || !hf__utf8_valid(hf__slice_str(word[1])))
        return hf__error_set(reterr, HF_ERR_INVALID, "an owner must have at most %d bytes",
                             OWNER_MOST);
    token->owner = hf__strdup(word[1]);
    token->admin = word[2];
    if (!token->owner) return hf__error_no_memory(reterr);
    tokens->count++;
    return 0;
}

static int load_tokens(const char *path, struct tokens **ret, struct hf_error *reterr)
{
    FILE *file = fopen(path, "re");
    char line[LINE_MOST];
    if (!file)
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, strerror(errno));
    struct tokens *tokens = hf__calloc(1, sizeof *tokens);
    int code = tokens ? 0 : hf__error_no_memory(reterr);
    for (int number = 1; code == 0 && fgets(line, sizeof line, file); number++) {
        if (!strchr(line, '\n') && !feof(file))
            code = hf__error_set(reterr, HF_ERR_LIMIT, "the line is too long");
        else code = take_token(tokens, line, reterr);
        if (code != 0) hf__error_prefix(reterr, "%s:%d", path, number);
    }
    fclose(file);
    memset(line, 0, sizeof line);
    if (code == 0 && tokens->count == 0)
        code = hf__error_set(reterr, HF_ERR_INVALID, "%s has no tokens", path);
    if (code == 0) *ret = tokens;
    else tokens_free(tokens);
    return code;
}

/* A1. With the mutex. */
static const struct token *find_token(const struct tokens *tokens, const unsigned char *digest)
{
    const struct token *found = NULL;
    for (size_t i = 0; tokens && i < tokens->count; i++) {
        if (memeql_sec(tokens->at[i].digest, digest, SHA256_DIGEST_SIZE)) found = &tokens->at[i];
    }
    return found;
}

/* ---- rights ---- */

static int load_rules(const char *path, struct hf_rules **ret, struct hf_error *reterr)
{
    struct hf_buf text;
    char part[4096];
    FILE *file = fopen(path, "re");
    if (!file)
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, strerror(errno));
    hf__buf_init(&text, HF_RULES_MAX_SIZE + 1);
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) hf__buf_add(&text, part, got);
    int code = ferror(file) ? hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s", path) : 0;
    fclose(file);
    if (code == 0 && text.failed && text.len < HF_RULES_MAX_SIZE / 2)
        code = hf__error_no_memory(reterr);
    if (code == 0 && text.failed)
        code = hf__error_set(reterr, HF_ERR_LIMIT, "%s has more than %d bytes", path,
                             HF_RULES_MAX_SIZE);
    if (code == 0) code = hf__rules_parse(hf__buf_view(&text), path, ret, reterr);
    hf__buf_free(&text);
    return code;
}

static int load_access_keys(const struct hf_auth_options *options, struct hf_access_keys **ret,
                            struct hf_error *reterr)
{
    return hf__access_keys_load(options->access_keys_file, options->access_key_id,
                                options->secret_access_key, ret, reterr);
}

/* A caller keeps the rules under which it was authenticated. */
static void take_rules(struct hf_auth *auth, struct hf_caller *caller)
{
    if (caller->rules) return;
    pthread_mutex_lock(&auth->mutex);
    caller->rules = hf__rules_ref(auth->access);
    pthread_mutex_unlock(&auth->mutex);
}

void hf__caller_free(struct hf_caller *caller)
{
    hf__rules_unref(caller->rules);
    hf__rules_unref(caller->granted);
    caller->rules = caller->granted = NULL;
}

static bool may(const struct hf_exchange *exchange, enum hf_right right, bool is_table,
                struct hf_slice name)
{
    const struct hf_caller *caller = &exchange->caller;
    const struct hf_who who = {caller->owner, caller->certificate, caller->access_key,
                               caller->claims};
    if (caller->admin) return true;
    if (!hf__auth_has_rules(exchange->service->auth))
        return !is_table && (right == HF_RIGHT_READ || right == HF_RIGHT_LOCK);
    return hf__rules_allow(caller->rules, &who, right, is_table, name) ||
           hf__rules_allow(caller->granted, &who, right, is_table, name);
}

bool hf__auth_has_rules(const struct hf_auth *auth)
{
    return auth->options.rules_file || auth->options.rights_claim;
}

struct hf_access_keys *hf__auth_access_keys(struct hf_auth *auth)
{
    pthread_mutex_lock(&auth->mutex);
    struct hf_access_keys *keys = hf__access_keys_ref(auth->access_keys);
    pthread_mutex_unlock(&auth->mutex);
    return keys;
}

void hf__auth_by_key(struct hf_exchange *exchange, const char *access_key)
{
    struct hf_auth *auth = exchange->service->auth;
    exchange->caller = (struct hf_caller){
        .owner = access_key, .access_key = access_key, .admin = !hf__auth_has_rules(auth)};
    take_rules(auth, &exchange->caller);
}

bool hf__may(const struct hf_exchange *exchange, enum hf_right right, struct hf_slice lock)
{
    return may(exchange, right, false, lock);
}

bool hf__may_table(const struct hf_exchange *exchange, enum hf_right right, struct hf_slice table)
{
    return may(exchange, right, true, table);
}

/* ---- key sets ---- */

static int fetch(struct hf_auth *auth, const char *url, struct hf_buf *ret, struct hf_error *reterr)
{
    struct hf_http_request request = {.method = "GET",
                                      .url = url,
                                      .connect_timeout_ms = FETCH_MS,
                                      .timeout_ms = FETCH_MS,
                                      .limit = FETCH_MOST,
                                      .no_proxy =
                                          strncmp(url, "http://", 7) == 0, /* on this machine */
                                      .stop = &auth->stopping};
    int code = 0;
    hf__http_fetch(&request, auth->service->store->clock);
    if (request.answer.failed && request.answer.len < FETCH_MOST / 2)
        code = hf__error_no_memory(reterr);
    else if (request.outcome != HF_HTTP_ANSWERED)
        code = hf__error_set(reterr, HF_ERR_UNREACHABLE, "%s: %s", url, request.error.message);
    else if (request.status != 200)
        code = hf__error_set(reterr, HF_ERR_UNREACHABLE, "%s answered with status %d", url,
                             request.status);
    else hf__buf_slice(ret, hf__buf_view(&request.answer));
    if (code == 0 && ret->failed) code = hf__error_no_memory(reterr);
    hf__http_request_free(&request);
    return code;
}

/* Only over TLS, unless it stays on this machine. */
static int check_url(const char *url, struct hf_error *reterr)
{
    static const char *const good[] = {
        "https://",          "http://127.0.0.1:", "http://127.0.0.1/",
        "http://localhost:", "http://localhost/", "http://[::1]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (strncmp(url, good[i], strlen(good[i])) == 0) return 0;
    }
    return hf__error_set(
        reterr, HF_ERR_INVALID,
        "%.200s: keys must be fetched over https:// (http:// only from this machine)", url);
}

/* OpenID discovery gives the address of the keys. */
static int discover(struct hf_auth *auth, struct hf_arena *arena, const char **ret,
                    struct hf_error *reterr)
{
    const char *issuer = auth->options.issuer;
    size_t len = strlen(issuer);
    while (len > 0 && issuer[len - 1] == '/') len--;
    const char *url =
        hf__arena_printf(arena, "%.*s/.well-known/openid-configuration", (int)len, issuer).ptr;
    struct hf_buf document;
    struct hf_json_reader json;
    struct hf_slice key, says = {0}, jwks = {0};
    hf__buf_init(&document, FETCH_MOST);
    int code = fetch(auth, url, &document, reterr);
    if (code == 0) {
        hf__json_reader_init(&json, hf__arena_copy(arena, hf__buf_view(&document)), FETCH_MOST,
                             arena);
        hf__json_object(&json);
        while (hf__json_key(&json, &key)) {
            if (hf__slice_is(key, "issuer")) hf__json_string(&json, &says);
            else if (hf__slice_is(key, "jwks_uri")) hf__json_string(&json, &jwks);
            else hf__json_skip(&json);
        }
        if (hf__json_finish(&json) != 0 || jwks.len == 0)
            code = hf__error_set(reterr, HF_ERR_BAD_ANSWER, "%s has no jwks_uri", url);
        else if (!hf__slice_is(says, issuer))
            code = hf__error_set(reterr, HF_ERR_BAD_ANSWER, "%s names another issuer", url);
        else *ret = hf__arena_str(arena, jwks);
        if (code == 0 && !*ret) code = hf__error_no_memory(reterr);
        if (code == 0) code = check_url(*ret, reterr);
    }
    hf__buf_free(&document);
    return code;
}

/* Waits. If there is no new set, the present one stays in use. */
static int fetch_keys(struct hf_auth *auth, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_buf document;
    struct hf_jwks *keys = NULL;
    const char *url = auth->options.jwks_url;
    int code = 0;
    hf__buf_init(&document, FETCH_MOST);
    if (!url) code = discover(auth, &arena, &url, reterr);
    if (code == 0) code = fetch(auth, url, &document, reterr);
    if (code == 0) code = hf__jwks_parse(hf__buf_view(&document), &keys, reterr);
    if (code == 0 && hf__jwks_count(keys) == 0)
        code = hf__error_set(reterr, HF_ERR_BAD_ANSWER, "%s has no usable key", url);
    hf__buf_free(&document);
    hf__arena_free(&arena);
    pthread_mutex_lock(&auth->mutex);
    auth->fetched_s = boot_s(auth);
    if (code == 0) {
        struct hf_jwks *old = auth->keys;
        auth->keys = keys;
        keys = old;
        memset(auth->cache, 0, CACHE * sizeof *auth->cache); /* A2 */
    }
    pthread_mutex_unlock(&auth->mutex);
    hf__jwks_unref(keys);
    if (code != 0)
        hf__log(&auth->service->log, HF_LOG_WARN, "cannot fetch keys: %s", reterr->message);
    return code;
}

/* ---- JWTs ---- */

static struct remembered *place_of(struct hf_auth *auth, const unsigned char *digest)
{
    size_t at = (size_t)digest[0] | (size_t)digest[1] << 8;
    return &auth->cache[at % CACHE];
}

static int take_granted(struct hf_caller *caller, const struct hf_slice *rights, size_t count,
                        struct hf_error *reterr)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = hf__rules_add(&caller->granted, rights[i], reterr);
    if (code != 0) hf__error_prefix(reterr, "the token's rights");
    return code;
}

/* As lines; false: too long to remember. */
static bool join(const struct hf_jwt *jwt, char ret[GRANTED_MOST])
{
    size_t len = 0;
    for (size_t i = 0; i < jwt->right_count; i++) {
        if (len + jwt->rights[i].len + 2 > GRANTED_MOST) return false;
        memcpy(ret + len, jwt->rights[i].ptr, jwt->rights[i].len);
        len += jwt->rights[i].len;
        ret[len++] = '\n';
    }
    ret[len] = '\0';
    return true;
}

static void split_lines(struct hf_slice text, struct hf_slice ret[HF_JWT_RIGHTS], size_t *ret_count)
{
    *ret_count = 0;
    while (text.len > 0 && *ret_count < HF_JWT_RIGHTS) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline ? (size_t)(newline - text.ptr) : text.len;
        ret[(*ret_count)++] = hf__slice(text.ptr, len);
        text = hf__slice_skip(text, newline ? len + 1 : len);
    }
}

/* HF_ERR_ABSENT: it may be valid with newer keys. */
static int verify(struct hf_exchange *exchange, struct hf_auth *auth, struct hf_slice token,
                  const unsigned char *digest, struct hf_error *reterr)
{
    struct hf_jwt jwt;
    struct hf_jwt_wants wants = {.admin = auth->admin_claim,
                                 .rights_claim = hf__slice_str(auth->options.rights_claim)};
    take_rules(auth, &exchange->caller);
    wants.claims = hf__rules_claims(exchange->caller.rules, &wants.claim_count);
    int code = hf__jwt_parse(&exchange->arena, token, &wants, &jwt, reterr);
    if (code == 0) code = hf__jwt_check(&jwt, &auth->rules, wall_s(auth), reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&auth->mutex);
    struct hf_jwks *keys = hf__jwks_ref(auth->keys);
    pthread_mutex_unlock(&auth->mutex);
    code = hf__jwks_verify(keys, &jwt, reterr); /* slow, so the mutex is not held */
    pthread_mutex_lock(&auth->mutex);
    struct remembered *place = place_of(auth, digest);
    char granted[GRANTED_MOST];
    bool may_remember = keys == auth->keys && exchange->caller.rules == auth->access; /* A2 */
    if (code == 0 && may_remember && join(&jwt, granted)) {
        memcpy(place->granted, granted, sizeof granted);
        place->claims = jwt.claims;
        place->until_s = jwt.expires_s + auth->rules.leeway_s;
        memcpy(place->digest, digest, SHA256_DIGEST_SIZE);
        memcpy(place->owner, jwt.subject.ptr, jwt.subject.len);
        place->owner[jwt.subject.len] = '\0';
        place->admin = jwt.has_admin_claim || is_admin(auth, place->owner);
    }
    pthread_mutex_unlock(&auth->mutex);
    hf__jwks_unref(keys);
    if (code != 0) return code;
    exchange->caller.owner = hf__arena_str(&exchange->arena, jwt.subject);
    exchange->caller.admin = jwt.has_admin_claim;
    exchange->caller.claims = jwt.claims;
    exchange->caller.until_s = jwt.expires_s + auth->rules.leeway_s;
    if (!exchange->caller.owner) return hf__error_no_memory(reterr);
    exchange->caller.admin |= is_admin(auth, exchange->caller.owner);
    return take_granted(&exchange->caller, jwt.rights, jwt.right_count, reterr);
}

static bool remembers(struct hf_exchange *exchange, struct hf_auth *auth,
                      const unsigned char *digest)
{
    pthread_mutex_lock(&auth->mutex);
    const struct remembered *place = place_of(auth, digest);
    bool good =
        place->until_s > wall_s(auth) && memeql_sec(place->digest, digest, SHA256_DIGEST_SIZE);
    struct hf_caller *caller = &exchange->caller;
    struct hf_slice rights[HF_JWT_RIGHTS];
    size_t count = 0;
    if (good) {
        caller->owner = hf__arena_str(&exchange->arena, hf__slice_str(place->owner));
        caller->admin = place->admin;
        caller->claims = place->claims;
        caller->until_s = place->until_s;
        caller->rules = hf__rules_ref(auth->access);
        split_lines(hf__arena_copy(&exchange->arena, hf__slice_str(place->granted)), rights,
                    &count);
        good = caller->owner && !exchange->arena.failed;
    }
    pthread_mutex_unlock(&auth->mutex);
    struct hf_error ignored;
    return good && take_granted(caller, rights, count, &ignored) == 0;
}

/* ---- one call ---- */

struct check {
    struct hf_list node;
    struct hf_exchange *exchange;
    struct hf_slice token;
    unsigned char digest[SHA256_DIGEST_SIZE];
    hf_auth_fn then;
    int code;
    struct hf_error error;
};

static void conclude(struct hf_exchange *exchange, hf_auth_fn then, int code,
                     const struct hf_error *error)
{
    bool later = code == HF_ERR_UNREACHABLE || code == HF_ERR_NO_MEMORY;
    enum hf_auth_result result = code == 0 ? HF_AUTH_OK
                                 : later   ? HF_AUTH_UNAVAILABLE
                                           : HF_AUTH_REFUSED;
    if (code != 0) {
        hf__caller_free(&exchange->caller);
        exchange->caller = (struct hf_caller){.owner = ""};
    }
    then(exchange, result, code == 0 ? "" : error->message);
}

/* On the loop again. */
static void go_on(struct hf_exchange *exchange)
{
    struct check *check = exchange->user;
    exchange->user = NULL;
    conclude(exchange, check->then, check->code, &check->error);
}

static int64_t next_fetch_s(const struct hf_auth *auth)
{
    if (!auth->fetched_s) return 0;
    return auth->fetched_s + (auth->keys ? REFETCH_S : RETRY_S);
}

/* Waits for newer keys if they can be fetched now; otherwise the present ones decide. */
static bool wait_for_keys(struct hf_auth *auth, struct check *check)
{
    pthread_mutex_lock(&auth->mutex);
    bool waits =
        boot_s(auth) >= next_fetch_s(auth) && auth->pending_count < PENDING_MOST && !auth->stopping;
    if (waits) {
        check->exchange->user = check;
        hf__list_append(&auth->pending, &check->node);
        auth->pending_count++;
        pthread_cond_signal(&auth->wake);
    }
    pthread_mutex_unlock(&auth->mutex);
    return waits;
}

static bool has_keys(struct hf_auth *auth)
{
    pthread_mutex_lock(&auth->mutex);
    bool has = auth->keys;
    pthread_mutex_unlock(&auth->mutex);
    return has;
}

/* Decides by the present keys. */
static void decide(struct hf_auth *auth, struct check *check)
{
    check->code = verify(check->exchange, auth, check->token, check->digest, &check->error);
    if (check->code == HF_ERR_ABSENT && !has_keys(auth))
        check->code = hf__error_set(&check->error, HF_ERR_UNREACHABLE,
                                    "the issuer's keys are not available at the moment");
}

static void serve_pending(struct hf_auth *auth)
{
    for (;;) {
        pthread_mutex_lock(&auth->mutex);
        struct hf_list *node = hf__list_pop(&auth->pending);
        if (node) auth->pending_count--;
        pthread_mutex_unlock(&auth->mutex);
        if (!node) return;
        struct check *check = HF_CONTAINER(node, struct check, node);
        decide(auth, check);
        hf__exchange_again(check->exchange, go_on);
    }
}

/* A3. */
static void *keep_keys(void *user)
{
    struct hf_auth *auth = user;
    struct hf_error error;
    pthread_mutex_lock(&auth->mutex);
    while (!auth->stopping) {
        int64_t now_s = boot_s(auth);
        bool asked = !hf__list_empty(&auth->pending) && now_s >= next_fetch_s(auth);
        bool old = now_s - auth->fetched_s >= REFRESH_S;
        pthread_mutex_unlock(&auth->mutex);
        if (asked || old) fetch_keys(auth, &error);
        serve_pending(auth);
        pthread_mutex_lock(&auth->mutex);
        struct timespec until = hf__deadline_in(1000);
        if (!auth->stopping && hf__list_empty(&auth->pending))
            pthread_cond_timedwait(&auth->wake, &auth->mutex, &until);
    }
    pthread_mutex_unlock(&auth->mutex);
    serve_pending(auth);
    return NULL;
}

static void check_token(struct hf_exchange *exchange, struct hf_auth *auth, struct hf_slice token,
                        hf_auth_fn then)
{
    struct check *check = hf__arena_zalloc(&exchange->arena, 1, sizeof *check);
    if (!check) {
        then(exchange, HF_AUTH_UNAVAILABLE, "out of memory");
        return;
    }
    *check = (struct check){.exchange = exchange, .token = token, .then = then};
    hf__list_init(&check->node);
    digest_of(token, check->digest);
    pthread_mutex_lock(&auth->mutex);
    const struct token *found = find_token(auth->tokens, check->digest);
    if (found) {
        exchange->caller.owner = hf__arena_str(&exchange->arena, hf__slice_str(found->owner));
        exchange->caller.admin = found->admin || is_admin(auth, found->owner);
    }
    pthread_mutex_unlock(&auth->mutex);
    if (found && exchange->caller.owner) {
        take_rules(auth, &exchange->caller);
        then(exchange, HF_AUTH_OK, "");
        return;
    }
    if (!auth->jwt) {
        then(exchange, HF_AUTH_REFUSED, "unknown token");
        return;
    }
    if (remembers(exchange, auth, check->digest)) {
        then(exchange, HF_AUTH_OK, "");
        return;
    }
    decide(auth, check);
    /* Well-formed, in time, for us, but signed with an unknown key. */
    bool unknown = check->code == HF_ERR_ABSENT || check->code == HF_ERR_UNREACHABLE;
    if (unknown && wait_for_keys(auth, check)) return;
    conclude(exchange, then, check->code, &check->error);
}

bool hf__auth_is_disabled(const struct hf_auth *auth)
{
    return auth->options.disabled;
}

void hf__auth_check(struct hf_exchange *exchange, hf_auth_fn then)
{
    struct hf_auth *auth = exchange->service->auth;
    struct hf_error error = {0};
    if (auth->options.disabled) {
        exchange->caller = (struct hf_caller){.owner = "anonymous", .admin = true};
        then(exchange, HF_AUTH_OK, "");
        return;
    }
    const char *header = hf__exchange_header(exchange, "Authorization");
    if (header && strncasecmp(header, "Bearer ", 7) == 0) {
        header += 7;
        while (*header == ' ') header++;
        check_token(exchange, auth, hf__slice_str(header), then);
        return;
    }
    if (auth->options.certificates) {
        const char *name;
        int code = hf__tls_caller(hf__exchange_tls(exchange), &exchange->arena, &name, &error);
        if (code == 0 && name)
            exchange->caller = (struct hf_caller){
                .owner = name, .admin = is_admin(auth, name), .certificate = name};
        if (code == 0 && name) take_rules(auth, &exchange->caller);
        if (code != 0 || name) {
            conclude(exchange, then, code, &error);
            return;
        }
    }
    then(exchange, HF_AUTH_MISSING,
         header ? "invalid Authorization header: expected Bearer and a token"
                : "missing bearer token");
}

/* ---- life ---- */

static const char *keep(struct hf_auth *auth, const char *text)
{
    return text && *text ? hf__arena_str(&auth->arena, hf__slice_str(text)) : NULL;
}

int hf__auth_start(const struct hf_auth_options *given, struct hf_service *service,
                   struct hf_auth **ret, struct hf_error *reterr)
{
    struct hf_auth *auth = hf__calloc(1, sizeof *auth);
    if (!auth) return hf__error_no_memory(reterr);
    auth->service = service;
    auth->options = *given;
    auth->options.issuer = keep(auth, given->issuer);
    auth->options.jwks_url = keep(auth, given->jwks_url);
    auth->options.audience = keep(auth, given->audience);
    auth->options.tokens_file = keep(auth, given->tokens_file);
    auth->options.admins = keep(auth, given->admins);
    auth->options.rules_file = keep(auth, given->rules_file);
    auth->options.rights_claim = keep(auth, given->rights_claim);
    auth->options.access_keys_file = keep(auth, given->access_keys_file);
    auth->options.access_key_id = keep(auth, given->access_key_id);
    auth->options.secret_access_key = keep(auth, given->secret_access_key);
    const char *claim =
        keep(auth, given->admin_claim ? given->admin_claim : "scope=holdfast:admin");
    const char *equals = claim ? strchr(claim, '=') : NULL;
    pthread_mutex_init(&auth->mutex, NULL);
    hf__cond_init(&auth->wake);
    hf__list_init(&auth->pending);
    auth->cache = hf__calloc(CACHE, sizeof *auth->cache);
    int code = auth->cache && !auth->arena.failed ? 0 : hf__error_no_memory(reterr);
    if (code == 0 && (!equals || equals == claim || !equals[1]))
        code = hf__error_set(reterr, HF_ERR_INVALID, "invalid admin claim: expected NAME=VALUE");
    if (code == 0) {
        auth->admin_claim.name = hf__slice(claim, (size_t)(equals - claim));
        auth->admin_claim.value = hf__slice_str(equals + 1);
    }
    auth->rules = (struct hf_jwt_rules){hf__slice_str(auth->options.issuer),
                                        hf__slice_str(auth->options.audience), given->leeway_s};
    auth->jwt = auth->options.issuer || auth->options.jwks_url;
    if (code == 0 && auth->options.jwks_url) code = check_url(auth->options.jwks_url, reterr);
    if (code == 0 && auth->options.issuer && !auth->options.jwks_url)
        code = check_url(auth->options.issuer, reterr);
    if (code == 0 && auth->options.tokens_file)
        code = load_tokens(auth->options.tokens_file, &auth->tokens, reterr);
    if (code == 0 && auth->options.rules_file)
        code = load_rules(auth->options.rules_file, &auth->access, reterr);
    if (code == 0) code = load_access_keys(&auth->options, &auth->access_keys, reterr);
    if (code != 0) {
        hf__auth_stop(auth);
        return code;
    }
    struct hf_error why;
    if (auth->jwt && !given->disabled) {
        fetch_keys(auth, &why); /* or when the first caller needs them */
        auth->has_thread = hf__thread_create(&auth->thread, keep_keys, auth) == 0;
        if (!auth->has_thread) {
            hf__auth_stop(auth);
            return hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot start a thread");
        }
    }
    *ret = auth;
    return 0;
}

void hf__auth_cut_short(struct hf_auth *auth)
{
    pthread_mutex_lock(&auth->mutex);
    __atomic_store_n(&auth->stopping, true, __ATOMIC_RELAXED);
    pthread_cond_signal(&auth->wake);
    pthread_mutex_unlock(&auth->mutex);
}

int hf__auth_check_files(const struct hf_auth_options *options, struct hf_error *reterr)
{
    struct tokens *tokens = NULL;
    struct hf_rules *rules = NULL;
    struct hf_access_keys *access_keys = NULL;
    int code = options->tokens_file ? load_tokens(options->tokens_file, &tokens, reterr) : 0;
    if (code == 0 && options->rules_file) code = load_rules(options->rules_file, &rules, reterr);
    if (code == 0) code = load_access_keys(options, &access_keys, reterr);
    tokens_free(tokens);
    hf__rules_unref(rules);
    hf__access_keys_unref(access_keys);
    return code;
}

int hf__auth_reload(struct hf_auth *auth, struct hf_error *reterr)
{
    struct tokens *tokens = NULL, *old_tokens;
    struct hf_rules *rules = NULL, *old_rules;
    struct hf_access_keys *access_keys = NULL, *old_access_keys;
    int code = 0;
    if (auth->options.tokens_file) code = load_tokens(auth->options.tokens_file, &tokens, reterr);
    if (code == 0 && auth->options.rules_file)
        code = load_rules(auth->options.rules_file, &rules, reterr);
    if (code == 0) code = load_access_keys(&auth->options, &access_keys, reterr);
    if (code != 0) {
        tokens_free(tokens);
        hf__rules_unref(rules);
        return code;
    }
    pthread_mutex_lock(&auth->mutex);
    old_tokens = auth->tokens;
    old_rules = auth->access;
    old_access_keys = auth->access_keys;
    auth->tokens = tokens;
    auth->access = rules;
    auth->access_keys = access_keys;
    memset(auth->cache, 0, CACHE * sizeof *auth->cache); /* the rules number the claims */
    pthread_mutex_unlock(&auth->mutex);
    tokens_free(old_tokens);
    hf__rules_unref(old_rules);
    hf__access_keys_unref(old_access_keys);
    return auth->jwt && !auth->options.disabled ? fetch_keys(auth, reterr) : 0;
}

void hf__auth_stop(struct hf_auth *auth)
{
    if (!auth) return;
    if (auth->has_thread) {
        hf__auth_cut_short(auth);
        pthread_join(auth->thread, NULL);
    }
    tokens_free(auth->tokens);
    hf__rules_unref(auth->access);
    hf__access_keys_unref(auth->access_keys);
    hf__jwks_unref(auth->keys);
    hf__free(auth->cache);
    pthread_mutex_destroy(&auth->mutex);
    pthread_cond_destroy(&auth->wake);
    hf__arena_free(&auth->arena);
    hf__free(auth);
}
