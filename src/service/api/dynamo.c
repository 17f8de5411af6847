/*
 * The DynamoDB API, on the embedded engine. A call takes four steps: its caller is identified, its
 * body is read, the operation is run, the answer is written. Long bodies and answers are read and
 * written beside the loop.
 */
#include "base/crc32.h"
#include "base/json_writer.h"
#include "service/http/access_key.h"
#include "service/service.h"
#include "wire/answer.h"
#include "wire/request.h"

struct call {
    struct hf_access_keys *keys; /* while the signature is checked */
    struct hf_sigv4_verdict verdict;
    struct hf_op op;
    struct hf_arena data; /* the answer's, until it has been written */
    const struct hf_answer *answer;
    struct hf_slice *tables; /* LIST_TABLES: what the caller may see, so far */
    size_t table_count, table_capacity;
    int code; /* of the step beside the loop */
    struct hf_error error;
};

/* ---- errors ---- */

static void fail(struct hf_exchange *exchange, int code, const char *message)
{
    struct hf_answer answer = {.code = code};
    hf__error_set(&answer.error, code, "%s", message);
    exchange->content_type = "application/x-amz-json-1.0";
    exchange->error = hf_error_name(code);
    hf__buf_clear(&exchange->answer);
    exchange->status = hf__answer_write(&(struct hf_op){0}, &answer, &exchange->answer);
    hf__exchange_done(exchange);
}

/* With an exception that has no code of ours. */
static void fail_as(struct hf_exchange *exchange, const char *exception, int code,
                    const char *message)
{
    exchange->content_type = "application/x-amz-json-1.0";
    exchange->error = hf_error_name(code);
    hf__buf_clear(&exchange->answer);
    exchange->status = hf__answer_write_exception(exception, message, &exchange->answer);
    hf__exchange_done(exchange);
}

static void refuse(struct hf_exchange *exchange, const char *exception, const char *why)
{
    struct hf_service *service = exchange->service;
    if (!hf__limit_allows_refused(service, exchange->remote)) {
        hf__count(&service->metrics.refused_limit);
        fail(exchange, HF_ERR_THROTTLED, "too many unauthenticated calls from this address");
        return;
    }
    hf__count(&service->metrics.refused_auth);
    fail_as(exchange, exception, HF_ERR_DENIED, why);
}

static void overloaded(struct hf_exchange *exchange)
{
    hf__count(&exchange->service->metrics.refused_limit);
    fail(exchange, HF_ERR_THROTTLED, "too many long requests are being served; try again");
}

/* Does a step here or, if it is long, beside the loop; `then` follows on the loop. */
static void do_step(struct hf_exchange *exchange, bool is_long,
                    void (*step)(struct hf_exchange *exchange),
                    void (*step_aside)(struct hf_exchange *exchange),
                    void (*then)(struct hf_exchange *exchange))
{
    if (is_long) {
        hf__exchange_aside(exchange, step_aside);
        return;
    }
    step(exchange);
    then(exchange);
}

/* ---- the answer ---- */

static void write_answer(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    exchange->content_type = "application/x-amz-json-1.0";
    hf__buf_clear(&exchange->answer);
    if (call->answer->code != 0) exchange->error = hf_error_name(call->answer->code);
    exchange->status = hf__answer_write(&call->op, call->answer, &exchange->answer);
    hf__arena_free(&call->data);
}

static void write_aside(struct hf_exchange *exchange)
{
    write_answer(exchange);
    exchange->checksum = hf__crc32(exchange->answer.data, exchange->answer.len);
    exchange->has_checksum = true;
    hf__exchange_done(exchange);
}

/*
 * A write that was carried out is told, whatever room its answer takes: callers who are asked to try
 * again would write twice. It was not begun without any room.
 */
static void ran(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    struct call *call = exchange->user;
    call->answer = answer;
    bool is_long = answer->size > HF_SMALL;
    exchange->is_owed = hf__op_is_write(&call->op) && answer->code == 0;
    bool has_room =
        !is_long || hf__exchange_reserve_long(exchange, answer->size) || exchange->is_owed;
    if (has_room) do_step(exchange, is_long, write_answer, write_aside, hf__exchange_done);
    else overloaded(exchange);
}

/* ---- listing tables ---- */

static void list_more(struct hf_exchange *exchange);

static void fail_list(struct hf_exchange *exchange)
{
    fail(exchange, HF_ERR_NO_MEMORY, "out of memory");
}

/*
 * Names that the caller may not read are left out, also as the place to go on from. One more than
 * wanted shows whether there are more.
 */
static void listed(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    enum { MOST = 100 };
    struct call *call = exchange->user;
    size_t wanted = call->op.has_limit ? (size_t)call->op.limit : MOST;
    if (answer->code != 0) {
        ran(exchange, answer);
        return;
    }
    for (size_t i = 0; i < answer->table_count && call->table_count <= wanted; i++) {
        if (!hf__may_table(exchange, HF_RIGHT_READ, answer->tables[i])) continue;
        call->tables = hf__arena_grow(&call->data, call->tables, call->table_count,
                                      &call->table_capacity, sizeof *call->tables);
        if (!call->tables) {
            fail_list(exchange);
            return;
        }
        call->tables[call->table_count++] = answer->tables[i];
    }
    if (answer->last_table.len > 0 && call->table_count <= wanted) {
        call->op.start_table = answer->last_table;
        list_more(exchange);
        return;
    }
    struct hf_answer *whole = hf__arena_zalloc(&call->data, 1, sizeof *whole);
    if (!whole) {
        fail_list(exchange);
        return;
    }
    *whole = *answer;
    bool more = call->table_count > wanted;
    whole->tables = call->tables;
    whole->table_count = more ? wanted : call->table_count;
    whole->last_table = more ? call->tables[wanted - 1] : hf__slice(NULL, 0);
    ran(exchange, whole);
}

static void list_more(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    struct hf_op page = call->op;
    page.has_limit = false;
    hf__exchange_run_in(exchange, &call->data, &page, listed);
}

/* ---- the operation ---- */

/* The right needed for this operation on a table. */
static enum hf_right right_for(enum hf_op_kind kind)
{
    switch (kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: return HF_RIGHT_WRITE;
    case HF_CREATE_TABLE:
    case HF_UPDATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TTL:
    case HF_TAG:
    case HF_UNTAG: return HF_RIGHT_ADMIN;
    default: return HF_RIGHT_READ;
    }
}

/* Whether the caller may do all parts of the operation, each on its table. */
static bool may_run(struct hf_exchange *exchange, const struct hf_op *op)
{
    if (op->kind == HF_LIST_TABLES) return true;
    if (!hf__op_has_parts(op->kind)) return hf__may_table(exchange, right_for(op->kind), op->table);
    for (size_t i = 0; i < op->part_count; i++)
        if (!hf__may_table(exchange, right_for(op->parts[i].kind), op->parts[i].table))
            return false;
    return true;
}

static bool has_long_answer(const struct hf_op *op)
{
    bool shows = op->returns != HF_RETURN_NONE || op->old_on_failure;
    return hf__op_is_write(op) && (shows || op->kind == HF_TRANSACT_WRITE);
}

static void free_data(struct hf_exchange *exchange, bool received)
{
    struct call *call = exchange->user;
    (void)received;
    hf__arena_free(&call->data);
}

static void perform(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    call->op.caller = hf__slice_str(exchange->caller.owner);
    call->op.takes_json = true;
    exchange->finished = free_data;
    if (call->code != 0) {
        fail(exchange, call->code, call->error.message);
    } else if (!may_run(exchange, &call->op)) {
        hf__count(&exchange->service->metrics.refused_auth);
        fail(exchange, HF_ERR_DENIED, "permission denied by the rules of this service");
    } else if (has_long_answer(&call->op) && !hf__exchange_has_room(exchange)) {
        overloaded(exchange);
    } else if (call->op.kind == HF_LIST_TABLES) {
        list_more(exchange);
    } else {
        hf__exchange_run_in(exchange, &call->data, &call->op, ran);
    }
}

/* ---- the body ---- */

static void read_body(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    call->code = hf__request_read(&exchange->arena, call->op.kind, hf__buf_view(&exchange->body),
                                  &call->op, &call->error);
    if (call->code == 0) call->code = hf__op_check(&call->op, &call->error);
}

static void read_aside(struct hf_exchange *exchange)
{
    read_body(exchange);
    hf__exchange_again(exchange, perform);
}

/* The address that the caller has used, as that of the only server. */
static void tell_endpoint(struct hf_exchange *exchange)
{
    struct hf_json_writer json;
    const char *host = hf__exchange_header(exchange, "Host");
    hf__json_writer_init(&json, &exchange->answer);
    hf__json_open(&json, '{');
    hf__json_put_name(&json, "Endpoints");
    hf__json_open(&json, '[');
    hf__json_open(&json, '{');
    hf__put_text(&json, "Address", host ? host : "");
    hf__put_number(&json, "CachePeriodInMinutes", 1440);
    hf__json_close(&json, '}');
    hf__json_close(&json, ']');
    hf__json_close(&json, '}');
}

static void tell_limits(struct hf_exchange *exchange)
{
    hf__buf_str(&exchange->answer,
                "{\"AccountMaxReadCapacityUnits\":80000,\"AccountMaxWriteCapacityUnits\":80000,"
                "\"TableMaxReadCapacityUnits\":40000,\"TableMaxWriteCapacityUnits\":40000}");
}

/* Operations that need no table. */
static bool tell_about_service(struct hf_exchange *exchange, struct hf_slice target)
{
    static const struct {
        const char *target, *name;
        void (*tell)(struct hf_exchange *exchange);
    } operations[] = {
        {"DynamoDB_20120810.DescribeLimits", "DescribeLimits", tell_limits},
        {"DynamoDB_20120810.DescribeEndpoints", "DescribeEndpoints", tell_endpoint},
    };
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (!hf__slice_is(target, operations[i].target)) continue;
        exchange->operation = operations[i].name;
        exchange->content_type = "application/x-amz-json-1.0";
        exchange->status = 200;
        operations[i].tell(exchange);
        hf__exchange_done(exchange);
        return true;
    }
    return false;
}

static void refuse_operation(struct hf_exchange *exchange, struct hf_slice target)
{
    enum { SHOWN = 100 };
    const char *dot = memchr(target.ptr, '.', target.len);
    struct hf_slice name = dot ? hf__slice_skip(target, (size_t)(dot - target.ptr) + 1) : target;
    if (name.len > SHOWN) name.len = SHOWN;
    struct hf_error error;
    hf__error_set(&error, HF_ERR_INVALID, "%.*s is not supported by this service", HF_FMT(name));
    fail_as(exchange, "UnknownOperationException", HF_ERR_VALIDATION, error.message);
}

/* The caller is known, and may call. */
static void admitted(struct hf_exchange *exchange)
{
    struct hf_slice target = hf__slice_str(hf__exchange_header(exchange, "X-Amz-Target"));
    struct call *call = exchange->user;
    bool is_long = exchange->body.len > HF_SMALL;
    if (!hf__limit_allows(exchange->service, exchange->caller.owner)) {
        hf__count(&exchange->service->metrics.refused_limit);
        fail(exchange, HF_ERR_THROTTLED, "too many requests");
        return;
    }
    if (tell_about_service(exchange, target)) return;
    if (!hf__request_kind(target, &call->op.kind)) {
        refuse_operation(exchange, target);
        return;
    }
    exchange->operation = hf__op_names[call->op.kind];
    if (is_long && !hf__exchange_reserve_reading(exchange)) overloaded(exchange);
    else do_step(exchange, is_long, read_body, read_aside, perform);
}

/* ---- the caller ---- */

/* Without keys of its own it admits the callers that the rest of the service admits. */
static void authenticated(struct hf_exchange *exchange, enum hf_auth_result result, const char *why)
{
    (void)why;
    if (result != HF_AUTH_OK) {
        refuse(exchange, "AccessDeniedException", "the request is not authenticated");
        return;
    }
    if (!exchange->caller.admin && !hf__auth_has_rules(exchange->service->auth)) {
        refuse(exchange, "AccessDeniedException", "only an administrator may use the DynamoDB API");
        return;
    }
    exchange->user = hf__arena_zalloc(&exchange->arena, 1, sizeof(struct call));
    if (exchange->user) admitted(exchange);
    else fail(exchange, HF_ERR_NO_MEMORY, "out of memory");
}

static bool secret_of(void *user, struct hf_slice access_key_id, struct hf_slice *ret_secret)
{
    return hf__access_keys_find(user, access_key_id, ret_secret);
}

static void verify(struct hf_exchange *exchange)
{
    enum { HEADERS = 64 };
    struct call *call = exchange->user;
    struct hf_header headers[HEADERS];
    const struct hf_sigv4_request request = {
        .method = HF_LIT("POST"),
        .path = HF_LIT("/"),
        .headers = headers,
        .header_count = hf__exchange_headers(exchange, headers, HEADERS),
        .body = hf__buf_view(&exchange->body),
    };
    struct hf_sigv4_check check = {
        .service = HF_LIT("dynamodb"), .secret_of = secret_of, .user = call->keys};
    /* Clients sign with their wall clock, or with what they have learnt from our Date. */
    const struct hf_store *store = exchange->service->store;
    const int64_t clocks_us[] = {hf__store_now_unix_us(store), hf__clock_wall_us(store->clock)};
    call->code = HF_ERR_DENIED;
    for (size_t i = 0; i < sizeof clocks_us / sizeof clocks_us[0] && call->code != 0; i++) {
        check.now_unix_s = clocks_us[i] / 1000000;
        call->code = hf__sigv4_verify(&request, &check, &call->verdict, &call->error);
    }
    hf__access_keys_unref(call->keys);
    call->keys = NULL;
}

static void verified(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    if (call->code == HF_ERR_DENIED) {
        refuse(exchange, hf__sigv4_exceptions[call->verdict.fault], call->error.message);
        return;
    }
    const char *id =
        call->code == 0 ? hf__arena_str(&exchange->arena, call->verdict.access_key_id) : NULL;
    if (!id) {
        fail(exchange, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    hf__auth_by_key(exchange, id);
    admitted(exchange);
}

static void verify_aside(struct hf_exchange *exchange)
{
    verify(exchange);
    hf__exchange_again(exchange, verified);
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
    struct hf_access_keys *keys = hf__auth_access_keys(service->auth);
    if (!keys) {
        hf__auth_check(exchange, authenticated);
        return;
    }
    struct call *call = hf__arena_zalloc(&exchange->arena, 1, sizeof *call);
    if (!call) {
        hf__access_keys_unref(keys);
        fail(exchange, HF_ERR_NO_MEMORY, "out of memory");
        return;
    }
    call->keys = keys;
    exchange->user = call;
    do_step(exchange, exchange->body.len > HF_SMALL, verify, verify_aside, verified);
}
