/*
 * The DynamoDB API, on the embedded engine: for programs written for DynamoDB, such as the original
 * lock clients.
 */
#include <string.h>

#include "service/service.h"
#include "wire/answer.h"
#include "wire/request.h"
#include "wire/sigv4.h"

static void fail(struct hf_exchange *exchange, int code, const char *message)
{
    struct hf_answer answer = {.code = code};
    hf__error_set(&answer.error, code, "%s", message);
    exchange->content_type = "application/x-amz-json-1.0";
    exchange->error = hf_error_name(code);
    hf__buf_clear(&exchange->answer);
    exchange->status = hf__answer_write(HF_GET_ITEM, &answer, &exchange->answer);
    hf__exchange_done(exchange);
}

struct call {
    enum hf_op_kind kind;
};

/* The right needed for this operation on a table. */
static enum hf_right right_for(enum hf_op_kind kind)
{
    switch (kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: return HF_RIGHT_WRITE;
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TTL: return HF_RIGHT_ADMIN;
    default: return HF_RIGHT_READ;
    }
}

/* Removes the names that the caller may not read. */
static void hide_tables(struct hf_exchange *exchange, struct hf_answer *answer)
{
    struct hf_slice *seen =
        hf__arena_zalloc(&exchange->arena, answer->table_count + 1, sizeof *seen);
    size_t count = 0;
    for (size_t i = 0; seen && i < answer->table_count; i++)
        if (hf__may_table(exchange, HF_RIGHT_READ, answer->tables[i]))
            seen[count++] = answer->tables[i];
    answer->tables = seen;
    answer->table_count = count;
}

static void ran(struct hf_exchange *exchange, const struct hf_answer *given)
{
    const struct call *call = exchange->user;
    struct hf_answer shown = *given, *answer = &shown;
    if (answer->code == 0 && call->kind == HF_LIST_TABLES) hide_tables(exchange, answer);
    exchange->content_type = "application/x-amz-json-1.0";
    hf__buf_clear(&exchange->answer);
    if (answer->code != 0) exchange->error = hf_error_name(answer->code);
    exchange->status = hf__answer_write(call->kind, answer, &exchange->answer);
    hf__exchange_done(exchange);
}

static void run(struct hf_exchange *exchange)
{
    if (!hf__limit_allows(exchange->service, exchange->caller.owner)) {
        hf__count(&exchange->service->metrics.refused_limit);
        fail(exchange, HF_ERR_THROTTLED, "more requests per second than this service allows");
        return;
    }
    struct hf_slice target = hf__slice_str(hf__exchange_header(exchange, "X-Amz-Target"));
    struct call *call = hf__arena_zalloc(&exchange->arena, 1, sizeof *call);
    struct hf_op op;
    struct hf_error error;
    if (!call) {
        fail(exchange, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    if (!hf__request_kind(target, &call->kind)) {
        exchange->content_type = "application/x-amz-json-1.0";
        exchange->error = "validation";
        exchange->status = 400;
        hf__buf_str(&exchange->answer,
                    "{\"__type\":\"com.amazon.coral.service#UnknownOperationException\","
                    "\"message\":\"holdfast does not implement this operation\"}");
        hf__exchange_done(exchange);
        return;
    }
    exchange->operation = hf__op_names[call->kind];
    int code =
        hf__request_read(&exchange->arena, call->kind, hf__buf_view(&exchange->body), &op, &error);
    if (code == 0) code = hf__op_check(&op, &error);
    if (code != 0) {
        fail(exchange, code, error.message);
        return;
    }
    if (call->kind != HF_LIST_TABLES && !hf__may_table(exchange, right_for(call->kind), op.table)) {
        hf__count(&exchange->service->metrics.refused_auth);
        fail(exchange, HF_ERR_DENIED, "permission denied by the rules of this service");
        return;
    }
    exchange->user = call;
    hf__exchange_run(exchange, &op, ran);
}

static void refuse(struct hf_exchange *exchange, const char *why)
{
    struct hf_service *service = exchange->service;
    if (!hf__limit_allows_refused(service, exchange->remote)) {
        hf__count(&service->metrics.refused_limit);
        fail(exchange, HF_ERR_THROTTLED, "too many unauthenticated calls from this address");
        return;
    }
    hf__count(&service->metrics.refused_auth);
    fail(exchange, HF_ERR_DENIED, why);
}

/* Without its own keys it admits the callers that the rest of the service admits. */
static void authenticated(struct hf_exchange *exchange, enum hf_auth_result result, const char *why)
{
    (void)why;
    if (result == HF_AUTH_OK &&
        (exchange->caller.admin || hf__auth_has_rules(exchange->service->auth)))
        run(exchange);
    else if (result == HF_AUTH_OK)
        refuse(exchange, "only an administrator may use the DynamoDB API");
    else refuse(exchange, "the request is not authenticated");
}

static bool secret_of(void *user, struct hf_slice access_key_id, struct hf_slice *ret_secret)
{
    const struct hf_service *service = user;
    if (!hf__slice_is(access_key_id, service->access_key_id)) return false;
    *ret_secret = hf__slice_str(service->secret_access_key);
    return true;
}

static bool is_signed(struct hf_exchange *exchange, struct hf_error *reterr)
{
    enum { HEADERS = 64 };
    struct hf_header headers[HEADERS];
    const struct hf_sigv4_request request = {
        .method = HF_LIT("POST"),
        .path = HF_LIT("/"),
        .headers = headers,
        .header_count = hf__exchange_headers(exchange, headers, HEADERS),
        .body = hf__buf_view(&exchange->body),
    };
    /* Clients sign with their wall clock, or with what they have learnt from our Date. */
    struct hf_service *service = exchange->service;
    const int64_t clocks_us[] = {hf__store_now_unix_us(service->store),
                                 hf__clock_wall_us(service->store->clock)};
    for (size_t i = 0; i < sizeof clocks_us / sizeof clocks_us[0]; i++) {
        if (hf__sigv4_verify(&request, HF_LIT("dynamodb"), clocks_us[i] / 1000000, secret_of,
                             service, reterr) == 0)
            return true;
    }
    return false;
}

void hf__dynamo_call(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    if (!service->dynamodb || !hf__exchange_header(exchange, "X-Amz-Target")) {
        hf__answer_error(exchange, 404, "no-such-path",
                         service->dynamodb ? "X-Amz-Target: missing; this is the DynamoDB API"
                                           : "the DynamoDB API is served on a file store");
        return;
    }
    if (!service->access_key_id) {
        hf__auth_check(exchange, authenticated);
        return;
    }
    struct hf_error error;
    exchange->caller.owner = service->access_key_id;
    if (!is_signed(exchange, &error)) {
        if (error.code == HF_ERR_NO_MEMORY) {
            fail(exchange, error.code, error.message);
            return;
        }
        refuse(exchange, error.message);
        return;
    }
    hf__auth_by_key(exchange, service->access_key_id);
    run(exchange);
}
