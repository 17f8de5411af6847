/*
 * The DynamoDB engine: one event-loop thread, many requests in flight.
 *
 * Life of a transfer, all on the loop's thread:
 *
 *   submit → begin() → [waits for credentials] → send() → on_answer()
 *     on_answer() → finish()                 it is decided
 *                 → retry() → send()         it may be tried again
 *
 * Invariants
 * D1  A write is sent again after an unknown outcome only if doing it twice
 *     does no harm beyond once (hf__op_is_repeatable).
 * D2  Once an outcome was unknown, a failed condition is not a refusal: it may have failed because
 *     of the earlier send. It ends as HF_ERR_OUTCOME_UNKNOWN.
 * D3  first_sent_boot_us is from before the first byte of the first attempt.
 *
 * A holdfast service takes the same requests (`access`). It authenticates us by a token or a
 * certificate instead of a signature, sends its store's time in a header of its own, and sends
 * events.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/crc32.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/http.h"
#include "runtime/loop.h"
#include "store/engines.h"
#include "store/hearing.h"
#include "store/key_ring.h"
#include "store/retry.h"
#include "store/url.h"
#include "wire/answer.h"
#include "wire/request.h"
#include "wire/sigv4.h"

enum {
    CONNECTIONS = 64,
    DEFAULT_TIMEOUT_MS = 3000,
    DEFAULT_CONNECT_TIMEOUT_MS = 1000,
    SKEW_WORTH_CORRECTING_S = 240,
};
#define LATEST_US ((int64_t)1 << 53) /* centuries from now */

struct dynamodb {
    struct hf_store store;
    int timeout_ms;
    int connect_timeout_ms;
    char *ca_file; /* NULL: the system's */
    struct hf_loop *loop;
    struct hf_http *http;
    struct hf_key_ring *key_ring;
    struct hf_access *access; /* NULL: it is DynamoDB */
    struct hf_hearing hearing;

    pthread_mutex_t mutex; /* guards the inbox */
    struct hf_list inbox;
    bool inbox_posted;
    struct hf_task take_inbox;
    bool keeper_posted;
    struct hf_task on_keeper;

    /* The loop's own. */
    struct hf_list transfers;
    struct hf_retry_bucket bucket;
    struct hf_sigv4_key signing_key;
    struct hf_store_time time;
    int64_t skew_s; /* store's clock − ours, once it mattered */
    bool closing;
};

enum state { WAITING_FOR_CREDENTIALS, IN_FLIGHT, WAITING_TO_RETRY };

struct transfer {
    struct hf_list node;
    struct dynamodb *engine;
    struct hf_call *call;
    enum state state;
    struct hf_buf body;
    struct hf_arena headers; /* of one attempt */
    struct hf_http_request http;
    struct hf_timer retry;
    struct hf_credentials *credentials; /* of the attempt in flight */
    bool outcome_unknown;               /* of an earlier attempt, D2 */
    int64_t signed_unix_s;              /* the time in the last signature */
    bool skew_corrected;
    bool asked_for_credentials;
    int retry_cost;

    /* Headers of the answer. */
    bool has_date, has_crc;
    int64_t date_unix_s;
    bool has_time; /* a service's */
    int64_t time_lo_us, time_hi_us;
    uint32_t crc;
    int64_t retry_after_ms;
    char request_id[80];
    char principal[40]; /* our identity at a service */
};

/* ---- ending a transfer ---- */

static void destroy_transfer(struct transfer *t)
{
    hf__list_remove(&t->node);
    hf__loop_timer_done(t->engine->loop, &t->retry);
    hf__http_request_free(&t->http);
    hf__credentials_unref(t->credentials);
    hf__buf_free(&t->body);
    hf__arena_free(&t->headers);
    hf__free(t);
}

/* Completes a call whose answer is filled in. */
static void complete(struct dynamodb *e, struct hf_call *call)
{
    struct hf_answer *answer = &call->answer;
    answer->received_boot_us = hf__loop_now_us(e->loop);
    if (!answer->attempts)
        answer->first_sent_boot_us = answer->sent_boot_us = answer->received_boot_us;
    answer->store = hf__store_time_at(&e->time, answer->received_boot_us);
    hf__call_done(&e->store, call);
}

static void finish(struct transfer *t)
{
    struct hf_call *call = t->call;
    struct dynamodb *e = t->engine;
    struct hf_answer *answer = &call->answer;
    bool was_refused = answer->code != 0 && answer->code != HF_ERR_OUTCOME_UNKNOWN;
    if (t->outcome_unknown && was_refused) { /* D2, and S4 for everything else */
        answer->code = answer->error.code = HF_ERR_OUTCOME_UNKNOWN;
        hf__error_prefix(
            &answer->error,
            "it is not known whether an earlier attempt was carried out; the last one");
    }
    if (t->request_id[0])
        answer->request_id = hf__arena_copy(call->arena, hf__slice_str(t->request_id));
    if (e->access && t->principal[0])
        answer->principal = hf__arena_copy(call->arena, hf__slice_str(t->principal));
    destroy_transfer(t);
    complete(e, call);
}

static void fail_call(struct dynamodb *e, struct hf_call *call, const struct hf_error *error)
{
    call->answer.code = error->code;
    call->answer.error = *error;
    complete(e, call);
}

/* Adds what was being done, to what, and the request's id to an error. */
static void explain(struct transfer *t)
{
    struct hf_error *error = &t->call->answer.error;
    struct hf_error old = *error;
    const struct hf_op *op = &t->call->op;
    hf__error_set(error, old.code, "%.360s (%s%s%.*s%s%s)", old.message, hf__op_names[op->kind],
                  op->table.len ? ", table " : "", HF_FMT(op->table),
                  t->request_id[0] ? ", request id " : "", t->request_id);
}

static void fail(struct transfer *t, int code, const char *message)
{
    struct hf_answer *answer = &t->call->answer;
    answer->code = hf__error_set(&answer->error, code, "%s", message);
    explain(t);
    finish(t);
}

/* ---- sending ---- */

static void on_answer(struct hf_http_request *request);
static void on_header(struct hf_http_request *request, struct hf_slice name, struct hf_slice value);
static void send(struct transfer *t);

static void add_header(struct transfer *t, const char *name, struct hf_slice value)
{
    t->http.headers[t->http.header_count++] =
        hf__arena_printf(&t->headers, "%s: %.*s", name, HF_FMT(value)).ptr;
}

static int64_t signing_time_s(const struct dynamodb *e)
{
    return hf__clock_wall_us(e->store.clock) / 1000000 + e->skew_s;
}

/* Signs the body with the time as the store sees it. */
static void sign(struct transfer *t, const struct hf_identity *identity,
                 const struct hf_http_url *url)
{
    static const struct hf_slice type = {"application/x-amz-json-1.0", 26};
    struct dynamodb *e = t->engine;
    const struct hf_credentials *c = identity->credentials;
    struct hf_slice target =
        hf__arena_printf(&t->headers, "DynamoDB_20120810.%s", hf__op_names[t->call->op.kind]);
    char date[HF_AMZ_DATE_SIZE];
    struct hf_buf authorization;
    struct hf_sigv4_scope scope = {
        .region = hf__slice_str(identity->region),
        .service = HF_LIT("dynamodb"),
        .unix_s = signing_time_s(e),
    };
    t->signed_unix_s = scope.unix_s;
    hf__amz_date(scope.unix_s, date);
    struct hf_header headers[5] = {
        {HF_LIT("content-type"), type},
        {HF_LIT("host"), url->authority},
        {HF_LIT("x-amz-date"), hf__slice_str(date)},
    };
    size_t count = 3;
    if (c->token)
        headers[count++] =
            (struct hf_header){HF_LIT("x-amz-security-token"), hf__slice_str(c->token)};
    headers[count++] = (struct hf_header){HF_LIT("x-amz-target"), target};
    struct hf_sigv4_request request = {.method = HF_LIT("POST"),
                                       .path = url->path,
                                       .headers = headers,
                                       .header_count = count,
                                       .body = hf__buf_view(&t->body)};
    hf__buf_init(&authorization, 64 * 1024);
    hf__sigv4_authorization(&request, &scope, hf__slice_str(c->access_key_id),
                            hf__slice_str(c->secret), &e->signing_key, &authorization);
    t->http.header_count = 0;
    for (size_t i = 0; i < count; i++) add_header(t, headers[i].name.ptr, headers[i].value);
    add_header(t, "Authorization", hf__buf_view(&authorization));
    t->headers.failed |= authorization.failed;
    hf__buf_free(&authorization);
}

/* The headers are there. */
static void dispatch(struct transfer *t, const char *url)
{
    struct dynamodb *e = t->engine;
    struct hf_answer *answer = &t->call->answer;
    int timeout_ms = t->call->op.timeout_ms ? t->call->op.timeout_ms : e->timeout_ms;
    if (t->headers.failed) {
        fail(t, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    t->has_date = t->has_crc = t->has_time = false;
    t->retry_after_ms = 0;
    t->request_id[0] = t->principal[0] = '\0';
    t->http.method = "POST";
    t->http.url = url;
    t->http.body = hf__buf_view(&t->body);
    t->http.timeout_ms = timeout_ms;
    t->http.connect_timeout_ms =
        e->connect_timeout_ms < timeout_ms ? e->connect_timeout_ms : timeout_ms;
    t->http.limit = HF_ANSWER_MAX_SIZE;
    t->http.on_header = on_header;
    t->http.done = on_answer;
    t->http.user = t;
    t->state = IN_FLIGHT;
    hf__http_request_free(&t->http);
    answer->sent_boot_us = hf__loop_now_us(e->loop);
    if (answer->attempts++ == 0) answer->first_sent_boot_us = answer->sent_boot_us;
    answer->unavailable = false;
    hf__http_start(e->http, &t->http);
}

static void sign_and_send(struct transfer *t, const struct hf_identity *identity)
{
    struct hf_http_url url;
    hf__http_url_parse(identity->endpoint, &url, NULL); /* the key_ring checked it */
    hf__arena_reset(&t->headers);
    sign(t, identity, &url);
    hf__credentials_unref(t->credentials);
    t->credentials = identity->credentials;
    t->http.ca_file = t->engine->ca_file;
    dispatch(t, identity->endpoint);
}

static void send_to_service(struct transfer *t)
{
    const struct hf_access *access = t->engine->access;
    struct hf_error error;
    hf__arena_reset(&t->headers);
    t->http.header_count = 0;
    add_header(t, "Content-Type", HF_LIT("application/x-amz-json-1.0"));
    add_header(
        t, "X-Amz-Target",
        hf__arena_printf(&t->headers, "DynamoDB_20120810.%s", hf__op_names[t->call->op.kind]));
    int code = hf__access_prepare(access, &t->headers, &t->http, &error);
    if (code != 0) fail(t, code, error.message);
    else dispatch(t, access->records);
}

static void send(struct transfer *t)
{
    struct hf_identity identity;
    struct hf_error error;
    if (t->engine->access) {
        send_to_service(t);
        return;
    }
    switch (hf__key_ring_get(t->engine->key_ring, &identity, &error)) {
    case HF_KEEPER_READY: sign_and_send(t, &identity); break;
    case HF_KEEPER_WAIT: t->state = WAITING_FOR_CREDENTIALS; break;
    case HF_KEEPER_FAILED: fail(t, error.code, error.message); break;
    }
}

static void on_retry(struct hf_timer *timer)
{
    send(HF_CONTAINER(timer, struct transfer, retry));
}

/* ---- judging an answer ---- */

static void on_header(struct hf_http_request *request, struct hf_slice name, struct hf_slice value)
{
    struct transfer *t = request->user;
    int64_t number;
    char text[32];
    if (name.len >= sizeof text) return;
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    if (strcasecmp(text, "date") == 0) {
        t->has_date = hf__parse_http_date(value, &t->date_unix_s);
    } else if (strcasecmp(text, "x-amz-crc32") == 0) {
        t->has_crc = hf__parse_int64(value, &number) && number >= 0 && number <= UINT32_MAX;
        if (t->has_crc) t->crc = (uint32_t)number;
    } else if (strcasecmp(text, "x-amzn-requestid") == 0) {
        snprintf(t->request_id, sizeof t->request_id, "%.*s", HF_FMT(value));
    } else if (strcasecmp(text, "x-holdfast-time") == 0) {
        const char *space = value.len ? memchr(value.ptr, ' ', value.len) : NULL;
        size_t len = space ? (size_t)(space - value.ptr) : 0;
        t->has_time = space && hf__parse_int64(hf__slice(value.ptr, len), &t->time_lo_us) &&
                      hf__parse_int64(hf__slice_skip(value, len + 1), &t->time_hi_us) &&
                      t->time_lo_us > 0 && t->time_hi_us >= t->time_lo_us &&
                      t->time_hi_us < LATEST_US;
    } else if (strcasecmp(text, "x-holdfast-owner") == 0) {
        snprintf(t->principal, sizeof t->principal, "%.*s", HF_FMT(value));
    } else if (strcasecmp(text, "x-amz-retry-after") == 0) {
        if (hf__parse_int64(value, &number) && number > 0) t->retry_after_ms = number;
    }
}

/* Tries again if attempts and tokens are left; otherwise the answer stands. */
static void retry_or_finish(struct transfer *t, bool throttled)
{
    struct dynamodb *e = t->engine;
    int attempts = t->call->op.attempts ? t->call->op.attempts : HF_RETRY_ATTEMPTS;
    bool may =
        t->call->answer.attempts < attempts && !e->closing && hf__retry_take(&e->bucket, throttled);
    if (!may) {
        explain(t);
        finish(t);
        return;
    }
    int64_t delay_us = hf__retry_delay_us(t->call->answer.attempts, throttled, hf__random_unit(),
                                          t->retry_after_ms);
    t->retry_cost = hf__retry_cost(throttled);
    t->state = WAITING_TO_RETRY;
    t->call->answer.has_item = false;
    hf__loop_timer_set(e->loop, &t->retry, hf__loop_now_us(e->loop) + delay_us);
}

/* The request was sent and its outcome is not known; a read had no effect in any case. */
static void on_lost(struct transfer *t, int code_of_read, const char *why)
{
    struct hf_answer *answer = &t->call->answer;
    char reason[sizeof answer->error.message]; /* `why` may be the message that is replaced */
    snprintf(reason, sizeof reason, "%s", why);
    bool is_write = hf__op_is_write(&t->call->op);
    answer->code = hf__error_set(&answer->error, is_write ? HF_ERR_OUTCOME_UNKNOWN : code_of_read,
                                 "no usable answer from the store: %s", reason);
    t->outcome_unknown |= is_write;
    if (!is_write || hf__op_is_repeatable(&t->call->op)) { /* D1 */
        retry_or_finish(t, false);
        return;
    }
    explain(t);
    finish(t);
}

static void on_success(struct transfer *t, struct hf_slice body)
{
    struct hf_call *call = t->call;
    struct hf_answer *answer = &call->answer;
    struct hf_error error = {0};
    int code = hf__answer_read(call->arena, call->op.kind, body, answer, &error);
    if (code != 0 && hf__op_is_write(&call->op)) { /* it was done; what it returned is not known */
        on_lost(t, HF_ERR_BAD_ANSWER, error.message);
        return;
    }
    answer->code = code;
    answer->error = error;
    if (code == 0) hf__retry_refund(&t->engine->bucket, t->retry_cost);
    else explain(t);
    finish(t);
}

static bool is_far(int64_t seconds)
{
    return seconds <= -SKEW_WORTH_CORRECTING_S || seconds >= SKEW_WORTH_CORRECTING_S;
}

/* A signature that was refused because our clock is off: corrected once, and sent again. */
static bool correct_skew(struct transfer *t)
{
    struct dynamodb *e = t->engine;
    if (t->skew_corrected || !t->has_date || e->access) return false;
    if (!is_far(t->date_unix_s - t->signed_unix_s)) return false;
    t->skew_corrected = true;
    int64_t off = t->date_unix_s - signing_time_s(e);
    if (!is_far(off)) return true; /* another request has corrected it meanwhile */
    e->skew_s += off;
    hf__log(&e->store.log, HF_LOG_WARN,
            "this machine's clock is %lld s off the store's; signing with its time",
            (long long)-e->skew_s);
    return true;
}

static bool renew_credentials(struct transfer *t, struct hf_slice type)
{
    bool expired = t->credentials && hf__slice_is(type, "ExpiredTokenException") &&
                   t->credentials->expires_unix_ms;
    if (!expired || t->asked_for_credentials) return false;
    t->asked_for_credentials = true;
    hf__key_ring_refresh(t->engine->key_ring, t->credentials);
    return true;
}

/* The refusals of a service before it looks at the request itself. */
static void on_turned_away(struct transfer *t)
{
    struct hf_answer *answer = &t->call->answer;
    int status = t->http.status;
    bool throttled = status == 429;
    answer->code = status == 401 || status == 403                    ? HF_ERR_DENIED
                   : throttled                                       ? HF_ERR_THROTTLED
                   : status == 404 || status == 405 || status == 501 ? HF_ERR_INVALID
                                                                     : HF_ERR_STORE;
    if (answer->code == HF_ERR_INVALID)
        hf__error_prefix(&answer->error, "this is not a holdfast service that shares its records");
    if (status == 401 && !t->engine->access->token_file)
        hf__error_prefix(&answer->error, "the service requires a token; set --token-file");
    answer->error.code = answer->code;
    answer->unavailable = status == 503;
    if (throttled || status == 503) retry_or_finish(t, throttled);
    else if (status >= 500) on_lost(t, HF_ERR_STORE, answer->error.message);
    else {
        explain(t);
        finish(t);
    }
}

static void on_refusal(struct transfer *t, struct hf_slice body)
{
    struct hf_call *call = t->call;
    const struct hf_exception *exception;
    hf__answer_read_error(call->arena, t->http.status, body, &call->answer, &exception);
    if (t->engine->access && !exception) {
        on_turned_away(t);
        return;
    }
    struct hf_slice name = hf__slice_str(exception ? exception->name : "");
    bool server_side = t->http.status >= 500;
    call->answer.unavailable = t->http.status == 503;
    if (exception && exception->skew && correct_skew(t)) {
        send(t);
    } else if (renew_credentials(t, name)) {
        send(t);
    } else if (exception && exception->throttle) {
        retry_or_finish(t, true);
    } else if (server_side || (exception && exception->retryable)) {
        /* A 5xx does not tell whether the request was carried out. */
        on_lost(t, HF_ERR_STORE, call->answer.error.message);
    } else {
        explain(t);
        finish(t);
    }
}

static void learn_time(struct transfer *t)
{
    struct dynamodb *e = t->engine;
    if (e->access ? !t->has_time : !t->has_date) return;
    int64_t second = t->date_unix_s * 1000000;
    int64_t lo_us = e->access ? t->time_lo_us : second;
    int64_t hi_us = e->access ? t->time_hi_us : second + 999999;
    bool fits = hf__store_time_report(&e->time, lo_us, hi_us, t->http.sent_boot_us,
                                      t->http.received_boot_us);
    if (!fits)
        hf__log(&e->store.log, HF_LOG_WARN, "the store's clock jumped; measuring its time again");
}

static void on_answer(struct hf_http_request *request)
{
    struct transfer *t = request->user;
    struct hf_answer *answer = &t->call->answer;
    struct hf_slice raw = hf__buf_view(&request->answer);
    if (request->outcome == HF_HTTP_NOT_SENT) {
        answer->code = hf__error_set(&answer->error, HF_ERR_UNREACHABLE, "cannot reach %s: %s",
                                     request->url, request->error.message);
        retry_or_finish(t, false);
        return;
    }
    if (request->outcome == HF_HTTP_LOST) {
        on_lost(t, HF_ERR_UNREACHABLE, request->error.message);
        return;
    }
    learn_time(t);
    if (t->has_crc && hf__crc32(raw.ptr, raw.len) != t->crc) {
        on_lost(t, HF_ERR_BAD_ANSWER, "it arrived damaged (CRC-32 mismatch)");
        return;
    }
    struct hf_slice body = hf__arena_copy(t->call->arena, raw);
    bool may_have_written =
        (request->status == 200 || request->status >= 500) && hf__op_is_write(&t->call->op);
    if (t->call->arena->failed)
        fail(t, may_have_written ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_NO_MEMORY, "out of memory");
    else if (request->status == 200) on_success(t, body);
    else on_refusal(t, body);
}

/* ---- beginning a transfer ---- */

static void begin(struct dynamodb *e, struct hf_call *call)
{
    struct hf_error error = {0};
    if (e->closing) {
        hf__error_set(&error, HF_ERR_CANCELLED, "the store was closed");
        fail_call(e, call, &error);
        return;
    }
    struct transfer *t = call->arena->failed ? NULL : hf__calloc(1, sizeof *t);
    if (!t || !hf__loop_timer_init(e->loop, &t->retry, on_retry)) { /* S5, or want of memory now */
        hf__free(t);
        hf__error_no_memory(&error);
        fail_call(e, call, &error);
        return;
    }
    t->engine = e;
    t->call = call;
    hf__list_append(&e->transfers, &t->node);
    hf__buf_init(&t->body, HF_REQUEST_MAX_SIZE);
    int code = hf__request_write(&t->headers, &call->op, &t->body, &error);
    if (code != 0) fail(t, code, error.message);
    else send(t);
}

/* `ran`: by the task that was posted for it, which may be posted again from now on. */
static void empty_inbox(struct dynamodb *e, bool ran)
{
    struct hf_list calls;
    hf__list_init(&calls);
    pthread_mutex_lock(&e->mutex);
    hf__list_splice(&calls, &e->inbox);
    if (ran) e->inbox_posted = false;
    pthread_mutex_unlock(&e->mutex);
    for (struct hf_list *node; (node = hf__list_pop(&calls)) != NULL;)
        begin(e, HF_CONTAINER(node, struct hf_call, node));
}

static void on_inbox(struct hf_task *task)
{
    empty_inbox(HF_CONTAINER(task, struct dynamodb, take_inbox), true);
}

static void submit(struct hf_store *store, struct hf_call *call)
{
    struct dynamodb *e = (struct dynamodb *)store;
    pthread_mutex_lock(&e->mutex);
    hf__list_append(&e->inbox, &call->node);
    bool post = !e->inbox_posted;
    e->inbox_posted = true;
    pthread_mutex_unlock(&e->mutex);
    if (post) hf__loop_post(e->loop, &e->take_inbox);
}

/* ---- credentials came, or did not ---- */

static void on_keeper_task(struct hf_task *task)
{
    struct dynamodb *e = HF_CONTAINER(task, struct dynamodb, on_keeper);
    pthread_mutex_lock(&e->mutex);
    e->keeper_posted = false;
    pthread_mutex_unlock(&e->mutex);
    for (struct hf_list *node = e->transfers.next, *next; node != &e->transfers; node = next) {
        struct transfer *t = HF_CONTAINER(node, struct transfer, node);
        next = node->next;
        if (t->state == WAITING_FOR_CREDENTIALS) send(t);
    }
}

static void on_keeper_changed(void *user)
{
    struct dynamodb *e = user;
    pthread_mutex_lock(&e->mutex);
    bool post = !e->keeper_posted;
    e->keeper_posted = true;
    pthread_mutex_unlock(&e->mutex);
    if (post) hf__loop_post(e->loop, &e->on_keeper);
}

/* ---- cancelling and closing ---- */

static void cancel_transfer(struct transfer *t, const char *why)
{
    bool is_write = hf__op_is_write(&t->call->op);
    if (t->state == IN_FLIGHT) {
        hf__http_cancel(t->engine->http, &t->http);
        t->outcome_unknown |= is_write && t->http.outcome == HF_HTTP_LOST;
    }
    fail(t, HF_ERR_CANCELLED, why);
}

struct cancellation {
    struct hf_task task;
    struct dynamodb *engine;
    uint64_t id;
};

static void on_cancel(struct hf_task *task)
{
    struct cancellation *c = HF_CONTAINER(task, struct cancellation, task);
    empty_inbox(c->engine, false); /* the call may not have begun */
    for (struct hf_list *node = c->engine->transfers.next; node != &c->engine->transfers;
         node = node->next) {
        struct transfer *t = HF_CONTAINER(node, struct transfer, node);
        if (t->call->id != c->id) continue;
        cancel_transfer(t, "cancelled");
        break;
    }
    hf__free(c);
}

/* Without memory the call runs on. */
static void cancel(struct hf_store *store, uint64_t id)
{
    struct dynamodb *e = (struct dynamodb *)store;
    struct cancellation *c = hf__malloc(sizeof *c);
    if (!c) return;
    *c = (struct cancellation){.task = {.run = on_cancel}, .engine = e, .id = id};
    hf__loop_post(e->loop, &c->task);
}

struct ending {
    struct hf_task task;
    struct dynamodb *engine;
};

static void on_close(struct hf_task *task)
{
    struct dynamodb *e = HF_CONTAINER(task, struct ending, task)->engine;
    e->closing = true;
    while (!hf__list_empty(&e->transfers))
        cancel_transfer(HF_CONTAINER(e->transfers.next, struct transfer, node),
                        "the store was closed");
    if (e->access) hf__hearing_end(&e->hearing);
    if (e->http) hf__http_close(e->http);
    e->http = NULL;
}

/*
 * The key_ring stops first, since it posts to the loop. Tasks run in order: all
 * that was submitted has begun when on_close ends it.
 */
static void close_store(struct hf_store *store)
{
    struct dynamodb *e = (struct dynamodb *)store;
    struct ending ending = {.task = {.run = on_close}, .engine = e};
    if (e->loop) hf__loop_post(e->loop, &ending.task);
    if (e->key_ring) hf__key_ring_stop(e->key_ring);
    if (e->loop) hf__loop_stop(e->loop);
    if (e->key_ring) hf__key_ring_free(e->key_ring);
    if (e->hearing.loop) hf__hearing_free(&e->hearing);
    hf__access_free(e->access);
    pthread_mutex_destroy(&e->mutex);
    explicit_bzero(&e->signing_key, sizeof e->signing_key);
    hf__free(e->store.table);
    hf__free(e->ca_file);
    hf__free(e);
}

static int describe(struct hf_store *store, struct hf_store_info *ret, struct hf_error *reterr)
{
    enum { LOOKS = 600, LOOK_EVERY_MS = 50 };
    struct dynamodb *e = HF_CONTAINER(store, struct dynamodb, store);
    struct hf_identity identity;
    struct hf_error error;
    enum hf_keeper_state state = HF_KEEPER_WAIT;
    for (int i = 0; i < LOOKS && state == HF_KEEPER_WAIT; i++) {
        const struct timespec nap = {.tv_nsec = (long)LOOK_EVERY_MS * 1000000};
        if (i > 0) nanosleep(&nap, NULL);
        state = hf__key_ring_get(e->key_ring, &identity, &error);
    }
    if (state == HF_KEEPER_WAIT)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "the source of the credentials has not answered for half a minute");
    if (state == HF_KEEPER_FAILED) {
        if (reterr) *reterr = error;
        return error.code;
    }
    const struct hf_credentials *found = identity.credentials;
    size_t len = strlen(found->access_key_id), shown = len > 8 ? 4 : 0;
    ret->kind = "dynamodb";
    snprintf(ret->place, sizeof ret->place, "%s", identity.endpoint);
    snprintf(ret->region, sizeof ret->region, "%s", identity.region);
    snprintf(ret->credentials, sizeof ret->credentials, "%s", found->provider);
    snprintf(ret->key_id, sizeof ret->key_id, "****%s", found->access_key_id + len - shown);
    ret->key_expires_unix_ms = found->expires_unix_ms;
    hf__credentials_unref(identity.credentials);
    return 0;
}

static const struct hf_store_engine dynamodb_engine = {
    .submit = submit, .cancel = cancel, .close = close_store, .describe = describe};

/* ---- a service ---- */

static int describe_service(struct hf_store *store, struct hf_store_info *ret,
                            struct hf_error *reterr)
{
    const struct hf_access *access = HF_CONTAINER(store, struct dynamodb, store)->access;
    (void)reterr;
    ret->kind = "service";
    snprintf(ret->place, sizeof ret->place, "%.*s",
             (int)(strlen(access->records) - strlen("/v2/records")), access->records);
    snprintf(ret->credentials, sizeof ret->credentials, "%s",
             access->token_file  ? "token file"
             : access->cert_file ? "certificate"
                                 : "none");
    return 0;
}

static bool listen_to(struct hf_store *store, struct hf_hint *hint)
{
    return hf__hearing_listen(&HF_CONTAINER(store, struct dynamodb, store)->hearing, hint);
}

static void unlisten(struct hf_store *store, struct hf_hint *hint)
{
    hf__hearing_unlisten(&HF_CONTAINER(store, struct dynamodb, store)->hearing, hint);
}

static const struct hf_store_engine service_engine = {.submit = submit,
                                                      .cancel = cancel,
                                                      .listen = listen_to,
                                                      .unlisten = unlisten,
                                                      .close = close_store,
                                                      .describe = describe_service};

/* ---- opening ---- */

static int start_loop(struct dynamodb *e, struct hf_error *reterr)
{
    int code = hf__loop_new(&hf__clock_system, &e->loop, reterr);
    if (code == 0) code = hf__http_open(e->loop, CONNECTIONS, &e->http, reterr);
    if (code == 0 && e->access && !hf__hearing_init(&e->hearing, e->loop, e->http, e->access))
        code = hf__error_no_memory(reterr);
    if (code == 0) code = hf__loop_start(e->loop, reterr);
    return code;
}

static int start(struct dynamodb *e, const struct hf_url *url,
                 const struct hf_store_options *options, struct hf_error *reterr)
{
    struct hf_key_ring_options key_ring = {
        .environment = options->environment,
        .clock = e->store.clock,
        .log = e->store.log,
        .profile = hf__url_get(url, "profile"),
        .region = hf__url_get(url, "region"),
        .endpoint = hf__url_get(url, "endpoint"),
        .access_key_id = options->access_key_id,
        .secret = options->secret_access_key,
        .token = options->session_token,
        .changed = on_keeper_changed,
        .user = e,
    };
    struct hf_http_url endpoint;
    int code = key_ring.region ? hf__region_check(key_ring.region, reterr) : 0;
    if (code != 0) return code;
    const char *ca_file = hf__env_get(options->environment, "AWS_CA_BUNDLE");
    e->ca_file = hf__strdup(ca_file);
    if (ca_file && !e->ca_file) return hf__error_no_memory(reterr);
    code = key_ring.endpoint ? hf__http_url_parse(key_ring.endpoint, &endpoint, reterr) : 0;
    if (code == 0) code = start_loop(e, reterr);
    if (code == 0) code = hf__key_ring_start(&key_ring, &e->key_ring, reterr);
    return code;
}

static struct dynamodb *new_engine(const struct hf_store_options *options)
{
    struct dynamodb *e = hf__calloc(1, sizeof *e);
    if (!e) return NULL;
    pthread_mutex_init(&e->mutex, NULL);
    hf__list_init(&e->inbox);
    hf__list_init(&e->transfers);
    hf__retry_init(&e->bucket);
    e->take_inbox.run = on_inbox;
    e->on_keeper.run = on_keeper_task;
    e->timeout_ms = options->request_timeout_ms ? options->request_timeout_ms : DEFAULT_TIMEOUT_MS;
    e->connect_timeout_ms =
        options->connect_timeout_ms ? options->connect_timeout_ms : DEFAULT_CONNECT_TIMEOUT_MS;
    return e;
}

int hf__dynamodb_open(struct hf_arena *arena, const char *text,
                      const struct hf_store_options *options, struct hf_store **ret,
                      struct hf_error *reterr)
{
    static const char *const known[] = {"region", "endpoint", "profile", NULL};
    struct hf_url url;
    int code = hf__url_parse(arena, text, "dynamodb://", known, &url, reterr);
    if (code != 0) return code;
    struct dynamodb *e = new_engine(options);
    if (!e) return hf__error_no_memory(reterr);
    code = hf__store_init(&e->store, &dynamodb_engine, options, url.path[0] ? url.path : "locks",
                          reterr);
    if (code == 0) code = start(e, &url, options, reterr);
    if (code == 0) *ret = &e->store;
    else close_store(&e->store);
    return code;
}

int hf__service_open(struct hf_arena *arena, const char *text,
                     const struct hf_store_options *options, struct hf_store **ret,
                     struct hf_error *reterr)
{
    struct dynamodb *e = new_engine(options);
    if (!e) return hf__error_no_memory(reterr);
    int code = hf__store_init(&e->store, &service_engine, options, "locks", reterr);
    e->store.served = true;
    if (code == 0) code = hf__access_new(arena, text, options, &e->access, reterr);
    if (code == 0) code = start_loop(e, reterr);
    if (code == 0) *ret = &e->store;
    else close_store(&e->store);
    return code;
}
