/*
 * Records: a store for clients that run the protocol themselves, on machines that cannot reach the
 * table (--store https://…). They send DynamoDB's requests, for one table, and are not trusted:
 * format/remote.h defines what they see and how they may change it.
 *
 * A write is executed by the service. It reads the record, computes and judges the result of the
 * client's write, and writes that result on the condition that the record is still as it was read.
 * Otherwise it starts again. So a write takes effect at one moment, or not at all, as if the store
 * had executed it.
 */
#include <stdio.h>
#include <string.h>

#include "format/remote.h"
#include "service/api/event.h"
#include "service/service.h"
#include "wire/answer.h"
#include "wire/request.h"

enum {
    ROUNDS_MOST = 100, /* other clients may keep changing the same record */
    PAGE = 1000,       /* items, after a smaller page had nothing to show */
    PAGES_MOST = 32,   /* … in a row with nothing to show */
};

struct visit {
    enum hf_op_kind kind;
    struct hf_op op; /* as the client sent it */
    struct hf_op own;
    struct hf_remote remote;
    int rounds;
};

static const struct hf_layout *layout_of(const struct hf_exchange *exchange)
{
    return hf__client_layout(exchange->service->client);
}

/* Without authentication a caller is whoever it claims to be. */
static struct hf_slice owner_of(const struct hf_exchange *exchange)
{
    if (hf__auth_is_disabled(exchange->service->auth)) return HF_LIT("");
    return hf__slice_str(exchange->caller.owner);
}

/* ---- answering ---- */

static void give(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    const struct visit *visit = exchange->user;
    exchange->content_type = "application/x-amz-json-1.0";
    exchange->tells_owner = true;
    if (answer->code != 0) exchange->error = hf_error_name(answer->code);
    hf__buf_clear(&exchange->answer);
    exchange->status =
        hf__answer_write(&(struct hf_op){.kind = visit->kind}, answer, &exchange->answer);
    hf__exchange_done(exchange);
}

static void fail(struct hf_exchange *exchange, int code, const char *message)
{
    struct hf_answer answer = {.code = code};
    hf__error_set(&answer.error, code, "%s", message);
    give(exchange, &answer);
}

static struct hf_item view(struct hf_exchange *exchange, struct hf_item item)
{
    return hf__remote_view(layout_of(exchange), &exchange->arena, owner_of(exchange), item);
}

/* ---- reading ---- */

/* The service starts to observe a holder when a client reads it, not when one wants its lock. */
static void observe(struct hf_exchange *exchange, struct hf_item item)
{
    const struct hf_layout *layout = layout_of(exchange);
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    struct hf_liveness liveness = {0};
    struct hf_slice id;
    if (!key || key->type != HF_S) return;
    if (hf__remote_is_session(key->bytes, &id)) {
        struct hf_session_record session;
        hf__format_holdfast.sessions->parse(layout, &exchange->arena, true, item, &session);
        if (!session.damaged) liveness = session.liveness;
    } else {
        struct hf_record record;
        hf__format_holdfast.parse(layout, &exchange->arena, true, item, &record);
        if (record.exclusive) liveness = record.liveness;
    }
    if (liveness.lease_ms) hf__client_finds_dead(exchange->service->client, &liveness);
}

static void got(struct hf_exchange *exchange, const struct hf_answer *given)
{
    struct hf_answer answer = *given;
    if (answer.has_item) observe(exchange, answer.item);
    exchange->store_time = given->store;
    if (answer.has_item) answer.item = view(exchange, answer.item);
    give(exchange, &answer);
}

/* Whether a client that lists all items may see this one. */
static bool is_shown(struct hf_exchange *exchange, struct hf_item item)
{
    const struct hf_value *key = hf__item_get(item, layout_of(exchange)->key_name);
    const struct hf_value *owner = hf__item_get_str(item, "owner");
    struct hf_slice id;
    if (!key || key->type != HF_S) return false;
    if (!hf__remote_is_session(key->bytes, &id))
        return hf__may(exchange, HF_RIGHT_READ, key->bytes);
    struct hf_slice own = owner_of(exchange);
    return own.len == 0 || (owner && owner->type == HF_S && hf__slice_eq(owner->bytes, own));
}

static struct hf_item key_of(struct hf_exchange *exchange, struct hf_item item)
{
    struct hf_attr *attr = hf__arena_zalloc(&exchange->arena, 1, sizeof *attr);
    const struct hf_value *key = hf__item_get(item, layout_of(exchange)->key_name);
    if (!attr || !key) return (struct hf_item){0};
    *attr = (struct hf_attr){layout_of(exchange)->key_name, *key};
    return (struct hf_item){attr, 1};
}

/* A page may end at an item hidden from the client: its cursor is the last item shown. */
static void listed(struct hf_exchange *exchange, const struct hf_answer *given)
{
    struct visit *visit = exchange->user;
    struct hf_answer answer = *given;
    struct hf_item *shown = hf__arena_zalloc(&exchange->arena, given->count + 1, sizeof *shown);
    struct hf_item last = {0};
    if (given->code != 0 || !shown) {
        give(exchange, given);
        return;
    }
    exchange->store_time = given->store;
    answer.count = 0;
    for (size_t i = 0; i < given->count; i++) {
        if (!is_shown(exchange, given->items[i])) continue;
        last = key_of(exchange, given->items[i]);
        shown[answer.count++] = view(exchange, given->items[i]);
    }
    if (answer.count == 0 && given->last_key.count > 0) {
        visit->own.start_key = given->last_key;
        visit->own.limit = visit->own.limit < PAGE ? PAGE : visit->own.limit;
        if (++visit->rounds < PAGES_MOST) hf__exchange_run(exchange, &visit->own, listed);
        else
            fail(exchange, HF_ERR_THROTTLED,
                 "too many records in a row are hidden from you; try again");
        return;
    }
    answer.items = shown;
    answer.scanned = (int64_t)answer.count;
    if (given->last_key.count > 0) answer.last_key = last;
    give(exchange, &answer);
}

/* ---- writing ---- */

static void look(struct hf_exchange *exchange);

/* Reports the change to listeners. */
static void tell(struct hf_exchange *exchange)
{
    const struct visit *visit = exchange->user;
    const struct hf_remote *remote = &visit->remote;
    struct hf_record before, after;
    struct hf_slice id;
    if (hf__remote_is_session(remote->key, &id)) return;
    hf__format_holdfast.parse(remote->layout, &exchange->arena, remote->exists, remote->item,
                              &before);
    hf__format_holdfast.parse(remote->layout, &exchange->arena, remote->stays, remote->changed,
                              &after);
    bool joined = after.member_count > before.member_count;
    bool left = after.member_count < before.member_count;
    bool granted = joined || (after.exclusive && !hf__slice_eq(after.identity, before.identity));
    bool forced =
        !hf__slice_eq(before.forced, after.forced) && before.exclusive && !after.exclusive;
    bool released = left || (before.exclusive && !after.exclusive);
    bool renewed = !granted && after.exclusive &&
                   !hf__slice_eq(before.liveness.version, after.liveness.version);
    struct hf_arena *arena = &exchange->arena;
    const char *type = granted    ? "granted"
                       : forced   ? "forced"
                       : released ? "released"
                       : renewed  ? "renewed"
                                  : NULL;
    if (!type) return;
    if (forced) exchange->operation = "ForceRelease"; /* for the log */
    exchange->token = after.token;
    hf__event(exchange->service->events,
              &(struct hf_change){
                  .type = type,
                  .lock = exchange->lock,
                  .owner = hf__arena_str(arena, after.owner),
                  .instance = after.instance.len ? hf__arena_str(arena, after.instance) : NULL,
                  .token = after.token,
                  .shared = joined || left,
                  .reason = forced ? hf__arena_str(arena, after.forced_reason) : NULL,
                  .by = forced ? hf__arena_str(arena, after.forced_by) : NULL,
                  .lease_ms = after.liveness.lease_ms,
                  .expires_unix_ms = after.liveness.expires_unix_ms,
              });
}

static void wrote(struct hf_exchange *exchange, const struct hf_answer *given)
{
    struct visit *visit = exchange->user;
    const struct hf_remote *remote = &visit->remote;
    struct hf_answer answer = {.code = given->code, .error = given->error};
    if (given->code == HF_ERR_CONDITION) { /* it has changed since it was read */
        if (++visit->rounds < ROUNDS_MOST) look(exchange);
        else fail(exchange, HF_ERR_THROTTLED, "other clients keep changing this record; try again");
        return;
    }
    exchange->store_time = given->store;
    if (given->code == 0) {
        tell(exchange);
        if (visit->op.returns == HF_RETURN_ALL_NEW && remote->stays) {
            answer.has_item = true;
            answer.item = view(exchange, remote->changed);
        } else if (visit->op.returns == HF_RETURN_ALL_OLD && remote->exists) {
            answer.has_item = true;
            answer.item = view(exchange, remote->item);
        }
    }
    give(exchange, &answer);
}

static void refuse(struct hf_exchange *exchange)
{
    const struct visit *visit = exchange->user;
    struct hf_answer answer = {.code = HF_ERR_CONDITION};
    hf__error_set(&answer.error, HF_ERR_CONDITION, "The conditional request failed");
    if (visit->op.old_on_failure && visit->remote.exists) {
        answer.has_item = true;
        answer.item = view(exchange, visit->remote.item);
    }
    give(exchange, &answer);
}

static void judge(struct hf_exchange *exchange);

static void met(struct hf_exchange *exchange, const struct hf_answer *given, bool is_session)
{
    struct hf_remote *remote = &((struct visit *)exchange->user)->remote;
    if (given->code != 0) {
        give(exchange, given);
        return;
    }
    hf__remote_learn(remote, is_session, given->has_item, given->item);
    judge(exchange);
}

static void met_session(struct hf_exchange *exchange, const struct hf_answer *given)
{
    met(exchange, given, true);
}

static void met_lock(struct hf_exchange *exchange, const struct hf_answer *given)
{
    met(exchange, given, false);
}

static void deny(struct hf_exchange *exchange, const char *why)
{
    char message[200];
    hf__count(&exchange->service->metrics.refused_auth);
    snprintf(message, sizeof message, "permission denied by the service: %s", why);
    snprintf(exchange->detail, sizeof exchange->detail, "%s", message);
    fail(exchange, HF_ERR_DENIED, message);
}

/* Reads a record that the judge needs. */
static void meet(struct hf_exchange *exchange, bool is_session)
{
    struct hf_remote *remote = &((struct visit *)exchange->user)->remote;
    struct hf_arena *arena = &exchange->arena;
    struct hf_slice key =
        is_session ? hf__remote_session_key(arena, remote->wanted) : remote->wanted;
    struct hf_op read;
    if (!is_session) {
        remote->may_lock = hf__may(exchange, HF_RIGHT_LOCK, key);
        remote->may_force = hf__may(exchange, HF_RIGHT_FORCE, key);
        if (hf__format_holdfast.refuses_name(key) || !(remote->may_lock || remote->may_force)) {
            deny(exchange, "permission denied for this lock");
            return;
        }
    }
    hf__format_holdfast.read(remote->layout, arena, key, &read);
    hf__exchange_run(exchange, &read, is_session ? met_session : met_lock);
}

static void judge(struct hf_exchange *exchange)
{
    struct visit *visit = exchange->user;
    struct hf_remote *remote = &visit->remote;
    struct hf_arena *arena = &exchange->arena;
    switch (hf__remote_judge(remote)) {
    case HF_REMOTE_CHANGES: break;
    case HF_REMOTE_REFUSED: refuse(exchange); return;
    case HF_REMOTE_DENIED: deny(exchange, remote->why); return;
    case HF_REMOTE_NEEDS_SESSION: meet(exchange, true); return;
    case HF_REMOTE_NEEDS_LOCK: meet(exchange, false); return;
    case HF_REMOTE_NO_MEMORY: fail(exchange, HF_ERR_NO_MEMORY, "out of memory"); return;
    }
    hf__remote_write(remote, &visit->own);
    struct hf_error error;
    int code = arena->failed ? HF_ERR_NO_MEMORY : hf__op_check(&visit->own, &error);
    if (code != 0) fail(exchange, code, arena->failed ? "out of memory" : error.message);
    else hf__exchange_run(exchange, &visit->own, wrote);
}

static void looked(struct hf_exchange *exchange, const struct hf_answer *given)
{
    struct hf_remote *remote = &((struct visit *)exchange->user)->remote;
    if (given->code != 0) {
        give(exchange, given);
        return;
    }
    remote->exists = given->has_item;
    remote->item = given->has_item ? given->item : (struct hf_item){0};
    remote->now = exchange->store_time = given->store;
    memset(remote->sessions, 0, sizeof remote->sessions);
    remote->lock = (struct hf_remote_fact){0};
    judge(exchange);
}

static void look(struct hf_exchange *exchange)
{
    const struct visit *visit = exchange->user;
    struct hf_op read;
    hf__format_holdfast.read(visit->remote.layout, &exchange->arena, visit->remote.key, &read);
    hf__exchange_run(exchange, &read, looked);
}

/* ---- requests ---- */

/* The only attribute of the key; false: the key is that of another table. */
static bool take_key(struct hf_exchange *exchange, const struct hf_op *op, struct hf_slice *ret)
{
    const struct hf_value *key = hf__item_get(op->key, layout_of(exchange)->key_name);
    if (op->key.count != 1 || !key || key->type != HF_S) return false;
    *ret = key->bytes;
    return true;
}

static bool finds_dead(void *user, const struct hf_liveness *liveness)
{
    return hf__client_finds_dead(user, liveness);
}

static void run_on_key(struct hf_exchange *exchange)
{
    struct visit *visit = exchange->user;
    struct hf_service *service = exchange->service;
    const struct hf_layout *layout = layout_of(exchange);
    bool writes = hf__op_is_write(&visit->op);
    struct hf_slice key, id = HF_LIT("");
    if (!take_key(exchange, &visit->op, &key)) {
        fail(exchange, HF_ERR_VALIDATION, "The provided key element does not match the schema");
        return;
    }
    bool is_session = hf__remote_is_session(key, &id);
    const char *wrong = is_session ? NULL : hf__format_holdfast.refuses_name(key);
    if (!wrong && memchr(key.ptr, '\0', key.len)) wrong = "a lock name must not contain NUL";
    if (wrong) {
        fail(exchange, HF_ERR_VALIDATION, wrong);
        return;
    }
    if (!is_session) exchange->lock = hf__arena_str(&exchange->arena, key);
    bool may_lock = is_session || hf__may(exchange, HF_RIGHT_LOCK, key);
    bool may_force = !is_session && hf__may(exchange, HF_RIGHT_FORCE, key);
    if (writes && !may_lock && !may_force) {
        deny(exchange, "permission denied for this lock");
        return;
    }
    if (!is_session && !writes && !hf__may(exchange, HF_RIGHT_READ, key)) {
        give(exchange, &(struct hf_answer){0}); /* as if it did not exist */
        return;
    }
    if (!writes) {
        hf__format_holdfast.read(layout, &exchange->arena, key, &visit->own);
        hf__exchange_run(exchange, &visit->own, got);
        return;
    }
    visit->remote = (struct hf_remote){
        .layout = layout,
        .arena = &exchange->arena,
        .owner = owner_of(exchange),
        .may_lock = may_lock,
        .may_force = may_force,
        .data_max = service->limits.per_caller[HF_BUDGET_DATA],
        .lease_max_ms = exchange->caller.admin ? 0 : service->limits.lease_ms,
        .finds_dead = finds_dead,
        .user = service->client,
        .op = &visit->op,
        .key = key,
    };
    look(exchange);
}

void hf__v2_records(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    struct hf_slice target = hf__slice_str(hf__exchange_header(exchange, "X-Amz-Target"));
    struct visit *visit = hf__arena_zalloc(&exchange->arena, 1, sizeof *visit);
    struct hf_error error;
    exchange->user = visit;
    if (!visit) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    if (strcmp(service->format, "holdfast") != 0) {
        hf__answer_error(
            exchange, 404, "no-such-path",
            "this service uses the table format %s; only one with \"holdfast\" can serve as "
            "a store for clients",
            service->format);
        return;
    }
    if (!hf__request_kind(target, &visit->kind)) {
        hf__answer_error(exchange, 400, "invalid", "X-Amz-Target: missing or unknown");
        return;
    }
    exchange->operation = hf__op_names[visit->kind];
    int code = hf__request_read(&exchange->arena, visit->kind, hf__buf_view(&exchange->body),
                                &visit->op, &error);
    if (code == 0) code = hf__op_check(&visit->op, &error);
    if (code != 0) {
        fail(exchange, code, error.message);
        return;
    }
    visit->own = (struct hf_op){.kind = visit->kind, .table = layout_of(exchange)->table};
    switch (visit->kind) {
    case HF_GET_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: run_on_key(exchange); return;
    case HF_SCAN:
        visit->own.consistent = true;
        visit->own.has_limit = visit->op.has_limit;
        visit->own.limit = visit->op.limit;
        visit->own.start_key = visit->op.start_key;
        hf__exchange_run(exchange, &visit->own, listed);
        return;
    case HF_DESCRIBE_TABLE:
    case HF_DESCRIBE_TTL: hf__exchange_run(exchange, &visit->own, got); return;
    default: deny(exchange, "the table belongs to the service"); return;
    }
}
