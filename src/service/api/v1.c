/*
 * LockServiceCentral's API, on its own records: single conditional writes, like those of the
 * original, so that both can serve one table.
 *
 * Times are whole seconds of the store's clock: the high end of its interval when a lease is
 * written, the low end when one is judged.
 */
#include "service/api/v1.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/random.h"
#include "format/keyed.h"
#include "service/api/event.h"
#include "service/service.h"

struct call {
    struct hf_slice space, name, id; /* "space:name" */
    struct hf_v1_body body;
    struct hf_layout layout;
    int64_t expiry_s;
    int tries;
    void (*again)(struct hf_exchange *exchange);
};

void hf__v1_options(struct hf_exchange *exchange)
{
    enum { OF_A_LOCK = 4 }; /* parts of the path; with an action one more */
    exchange->allow = exchange->part_count == OF_A_LOCK ? "GET,HEAD,OPTIONS" : "POST,OPTIONS";
    exchange->status = 200;
    hf__exchange_done(exchange);
}

/* ---- answers ---- */

void hf__v1_fail(struct hf_exchange *exchange, int status, const char *message)
{
    char id[HF_UUID_SIZE];
    struct hf_json_writer json;
    hf__uuid4(id);
    if (!exchange->error) exchange->error = message;
    hf__answer_begin(exchange, status, &json);
    hf__put_text(&json, "message", message);
    hf__put_text(&json, "errorId", id);
    hf__answer_end(exchange, &json);
}

static void refuse(struct hf_exchange *exchange, const char *message, const char *const *details,
                   size_t count)
{
    struct hf_json_writer json;
    exchange->error = "invalid";
    hf__answer_begin(exchange, 400, &json);
    hf__put_text(&json, "message", message);
    hf__json_put_name(&json, "details");
    hf__json_open(&json, '[');
    for (size_t i = 0; i < count; i++) hf__json_put_string(&json, hf__slice_str(details[i]));
    hf__json_close(&json, ']');
    hf__answer_end(exchange, &json);
}

static void put_names(struct hf_json_writer *json, const struct call *call)
{
    hf__json_put_name(json, "namespace");
    hf__json_put_string(json, call->space);
    hf__json_put_name(json, "lockName");
    hf__json_put_string(json, call->name);
}

static void answer_result(struct hf_exchange *exchange, bool success)
{
    struct hf_json_writer json;
    if (!success) exchange->error = "held";
    hf__answer_begin(exchange, success ? 200 : 423, &json);
    hf__put_bool(&json, "success", success);
    put_names(&json, exchange->user);
    hf__answer_end(exchange, &json);
}

static void answer_lease(struct hf_exchange *exchange, int64_t lease_s, int64_t expiry_s)
{
    const struct call *call = exchange->user;
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    hf__put_bool(&json, "success", true);
    put_names(&json, call);
    hf__put_text(&json, "owner", exchange->caller.owner);
    hf__json_put_name(&json, "instanceId");
    hf__json_put_string(&json, call->body.instance_id);
    hf__put_number(&json, "leaseDuration", lease_s);
    hf__put_number(&json, "expiry", expiry_s);
    hf__answer_end(exchange, &json);
}

static void answer_failure(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    exchange->error = hf_error_name(answer->code);
    snprintf(exchange->detail, sizeof exchange->detail, "%.*s", HF_LOG_ERROR_MAX - 1,
             answer->error.message);
    hf__log(&exchange->service->log, HF_LOG_ERROR, "v1: %s", answer->error.message);
    hf__v1_fail(exchange, 500, "Internal server error");
}

static void answer_free(struct hf_exchange *exchange)
{
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    put_names(&json, exchange->user);
    hf__answer_end(exchange, &json);
}

/* ---- shared steps ---- */

/* NULL: it was refused, and has been answered. */
static struct call *begin(struct hf_exchange *exchange, bool has_body, bool wants_lease,
                          enum hf_right right)
{
    struct call *call = hf__arena_zalloc(&exchange->arena, 1, sizeof *call);
    if (!call) {
        hf__v1_fail(exchange, 500, "Internal server error");
        return NULL;
    }
    exchange->user = call;
    call->space = exchange->parts[1];
    call->name = exchange->parts[3];
    struct hf_v1_problems problems;
    hf__v1_path(&exchange->arena, call->space, call->name, &problems);
    if (problems.count > 0) {
        refuse(exchange, "Validation failed", problems.at, problems.count);
        return NULL;
    }
    if (has_body)
        hf__v1_body(&exchange->arena, hf__buf_view(&exchange->body), wants_lease, &call->body,
                    &problems);
    if (problems.count > 0) {
        refuse(exchange, "JSON validation failed", problems.at, problems.count);
        return NULL;
    }
    call->id =
        hf__arena_printf(&exchange->arena, "%.*s:%.*s", HF_FMT(call->space), HF_FMT(call->name));
    exchange->lock = call->id.ptr;
    if (!hf__may(exchange, right, call->id)) {
        hf__count(&exchange->service->metrics.refused_auth);
        if (right == HF_RIGHT_READ) answer_free(exchange); /* as if there were no record */
        else hf__v1_fail(exchange, 403, "Forbidden");
        return NULL;
    }
    call->layout = (struct hf_layout){.table = hf__slice_str(exchange->service->v1_table),
                                      .key_name = HF_LIT("lockId")};
    return call;
}

static int64_t low_s(struct hf_service *service)
{
    struct hf_interval now = hf__service_time(service);
    return now.known ? now.lo_unix_us / 1000000 : 0;
}

/* Call only when the time is known. */
static int64_t high_s(struct hf_service *service)
{
    struct hf_interval now = hf__service_time(service);
    return now.hi_unix_us / 1000000;
}

static void heard(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    struct call *call = exchange->user;
    if (answer->code != 0) answer_failure(exchange, answer);
    else if (!hf__service_time(exchange->service).known)
        hf__v1_fail(exchange, 500, "Internal server error");
    else call->again(exchange);
}

/* Times are the store's: if it is not known, or not recent, it is read first. */
static void in_time(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange))
{
    struct call *call = exchange->user;
    struct hf_op op;
    call->again = go;
    if (hf__service_time_is_fresh(exchange->service)) {
        go(exchange);
        return;
    }
    hf__keyed_get(&call->layout, &exchange->arena, call->id, &op);
    hf__exchange_run(exchange, &op, heard);
}

static const struct hf_condition *is_mine(struct hf_exchange *exchange)
{
    const struct call *call = exchange->user;
    struct hf_arena *arena = &exchange->arena;
    return hf__cond_and(
        arena,
        hf__cond_compare(arena, "owner", HF_EQ, hf__s(hf__slice_str(exchange->caller.owner))),
        hf__cond_compare(arena, "instanceId", HF_EQ, hf__s(call->body.instance_id)));
}

/* A damaged lock counts as held: no caller takes it, and an operator should inspect it. */
static bool is_expired(struct hf_service *service, struct hf_item item)
{
    int64_t expiry_s;
    return hf__item_int(item, "expiry", 0, &expiry_s) && expiry_s < low_s(service);
}

static void tell(struct hf_exchange *exchange, const char *what, int64_t expiry_s)
{
    const struct call *call = exchange->user;
    hf__event(exchange->service->events,
              &(struct hf_change){.type = what,
                                  .lock = call->id.ptr,
                                  .owner = exchange->caller.owner,
                                  .expires_unix_ms = expiry_s ? expiry_s * 1000 + 999 : 0,
                                  .api = "v1"});
}

/* ---- GET ---- */

static void got(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    struct hf_json_writer json;
    struct hf_slice owner;
    int64_t expiry_s;
    if (answer->code != 0) {
        answer_failure(exchange, answer);
        return;
    }
    hf__answer_begin(exchange, 200, &json);
    put_names(&json, exchange->user);
    if (answer->has_item && !is_expired(exchange->service, answer->item) &&
        hf__item_text(answer->item, "owner", &owner)) {
        hf__json_put_name(&json, "owner");
        hf__json_put_string(&json, owner);
        if (hf__item_int(answer->item, "expiry", 0, &expiry_s))
            hf__put_number(&json, "expiry", expiry_s);
    }
    hf__answer_end(exchange, &json);
}

void hf__v1_get(struct hf_exchange *exchange)
{
    struct call *call = begin(exchange, false, false, HF_RIGHT_READ);
    struct hf_op op;
    if (!call) return;
    hf__keyed_get(&call->layout, &exchange->arena, call->id, &op);
    hf__exchange_run(exchange, &op, got);
}

/* ---- acquire ---- */

enum { TRIES = 4 };

static void acquired(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    struct call *call = exchange->user;
    /* The same owner and instance may acquire again: a write of unknown outcome is repeated. */
    if (answer->code == HF_ERR_OUTCOME_UNKNOWN && !answer->has_item && ++call->tries < TRIES) {
        call->again(exchange);
    } else if (answer->code == 0) {
        tell(exchange, "granted", call->expiry_s);
        answer_lease(exchange, call->body.lease_s, call->expiry_s);
    } else if (answer->code == HF_ERR_CONDITION || answer->has_item) {
        answer_result(exchange, false);
    } else {
        answer_failure(exchange, answer);
    }
}

static void send_acquire(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    struct hf_service *service = exchange->service;
    struct hf_arena *arena = &exchange->arena;
    struct hf_item item = {0};
    struct hf_op op;
    call->expiry_s = high_s(service) + call->body.lease_s;
    item = hf__item_set(arena, item, "namespace", hf__s(call->space));
    item = hf__item_set(arena, item, "lockName", hf__s(call->name));
    item = hf__item_set(arena, item, "owner", hf__s(hf__slice_str(exchange->caller.owner)));
    item = hf__item_set(arena, item, "instanceId", hf__s(call->body.instance_id));
    item = hf__item_set(arena, item, "leaseDuration", hf__n(arena, call->body.lease_s));
    item = hf__item_set(arena, item, "expiry", hf__n(arena, call->expiry_s));
    const struct hf_condition *free =
        hf__cond_or(arena, hf__keyed_absent(&call->layout, arena),
                    hf__cond_compare(arena, "expiry", HF_LT, hf__n(arena, low_s(service))));
    hf__keyed_put(&call->layout, arena, call->id, item, hf__cond_or(arena, free, is_mine(exchange)),
                  &op);
    hf__exchange_run(exchange, &op, acquired);
}

void hf__v1_acquire(struct hf_exchange *exchange)
{
    struct call *call = begin(exchange, true, true, HF_RIGHT_LOCK);
    if (call) in_time(exchange, send_acquire);
}

/* ---- renew ---- */

static void renewed(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    int64_t lease_s, expiry_s;
    if (answer->code == HF_ERR_CONDITION) {
        answer_result(exchange, false);
    } else if (answer->code != 0 || !hf__item_int(answer->item, "leaseDuration", 0, &lease_s) ||
               !hf__item_int(answer->item, "expiry", 0, &expiry_s)) {
        answer_failure(exchange, answer);
    } else {
        tell(exchange, "renewed", expiry_s);
        answer_lease(exchange, lease_s, expiry_s);
    }
}

static void send_renewal(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    struct hf_arena *arena = &exchange->arena;
    struct hf_op op;
    const struct hf_condition *held = hf__cond_and(
        arena, hf__keyed_exists(&call->layout, arena),
        hf__cond_compare(arena, "expiry", HF_GE, hf__n(arena, low_s(exchange->service))));
    struct hf_update *update = hf__keyed_update(&call->layout, arena, call->id,
                                                hf__cond_and(arena, held, is_mine(exchange)), &op);
    hf__update_count(arena, update, "leaseDuration", 0, call->body.lease_s);
    hf__update_count(arena, update, "expiry", 0, call->body.lease_s);
    hf__exchange_run(exchange, &op, renewed);
}

void hf__v1_renew(struct hf_exchange *exchange)
{
    if (begin(exchange, true, true, HF_RIGHT_LOCK)) in_time(exchange, send_renewal);
}

/* ---- release ---- */

static void released(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    struct call *call = exchange->user;
    if (answer->code == HF_ERR_OUTCOME_UNKNOWN && !answer->has_item && ++call->tries < TRIES) {
        call->again(exchange);
    } else if (answer->code == 0) {
        tell(exchange, "released", 0);
        answer_result(exchange, true);
    } else if (answer->code == HF_ERR_CONDITION || answer->has_item) {
        /* An earlier copy may have landed, and another caller may hold it by now. */
        bool gone = !answer->has_item || is_expired(exchange->service, answer->item) ||
                    answer->code == HF_ERR_OUTCOME_UNKNOWN || call->tries > 0;
        answer_result(exchange, gone);
    } else {
        answer_failure(exchange, answer);
    }
}

static void send_release(struct hf_exchange *exchange)
{
    struct call *call = exchange->user;
    struct hf_op op;
    hf__keyed_delete(&call->layout, &exchange->arena, call->id, is_mine(exchange), &op);
    hf__exchange_run(exchange, &op, released);
}

void hf__v1_release(struct hf_exchange *exchange)
{
    if (begin(exchange, true, false, HF_RIGHT_LOCK)) in_time(exchange, send_release);
}
