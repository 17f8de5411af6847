/*
 * Reading locks. The reads of one lock do not wait: they fetch its record, and the records of the
 * sessions that keep it, so they occupy a thread only while it works.
 */
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/info_json.h"
#include "service/api/lock.h"

enum {
    PAGE = 100,
    PAGE_MOST = 1000,
    NAME_MOST = 1024,
    BODY_MOST = 64 * 1024, /* for calls that have no data to store */
};

/* ---- refusals ---- */

static void answer_absent(struct hf_exchange *exchange)
{
    hf__answer_error(exchange, 404, "absent", "this lock has no record");
}

static void answer_forbidden(struct hf_exchange *exchange)
{
    hf__count(&exchange->service->metrics.refused_auth);
    hf__answer_error(exchange, 403, "forbidden",
                     "permission denied for this lock by the rules of this service");
}

/* ---- requests ---- */

/* A body that is read on another thread. */
struct long_body {
    uint32_t allowed;
    void (*then)(struct hf_exchange *exchange);
    struct hf_v2_body body;
    int code;
    struct hf_error error;
};

static void read_aside(struct hf_exchange *exchange)
{
    struct long_body *read = exchange->read;
    read->code = hf__v2_body(&exchange->arena, hf__buf_view(&exchange->body), read->allowed,
                             &read->body, &read->error);
    hf__exchange_again(exchange, read->then);
}

void hf__v2_read_first(struct hf_exchange *exchange, uint32_t allowed,
                       void (*then)(struct hf_exchange *exchange))
{
    if (exchange->body.len <= HF_SMALL) {
        then(exchange);
        return;
    }
    struct long_body *read = hf__arena_zalloc(&exchange->arena, 1, sizeof *read);
    if (!read) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    read->allowed = allowed;
    read->then = then;
    exchange->read = read;
    hf__exchange_aside(exchange, read_aside);
}

bool hf__v2_read(struct hf_exchange *exchange, uint32_t allowed, struct hf_v2_body *ret)
{
    struct hf_error error;
    const struct long_body *read = exchange->read;
    struct hf_slice text = hf__buf_view(&exchange->body);
    const char *type = hf__exchange_header(exchange, "Content-Type");
    if (text.len > 0 && (!type || strncasecmp(type, "application/json", 16) != 0)) {
        hf__answer_error(exchange, 415, "unsupported-media-type",
                         "Content-Type: a body must be application/json");
        return false;
    }
    bool stores = allowed & (1u << HF_V2_DATA | 1u << HF_V2_ATTRIBUTES);
    if (!stores && text.len > BODY_MOST) {
        hf__answer_error(exchange, 413, "too-large",
                         "the body of this call must have at most %d bytes", BODY_MOST);
        return false;
    }
    int code = read ? read->code : hf__v2_body(&exchange->arena, text, allowed, ret, &error);
    if (read) *ret = read->body;
    if (code == 0) return true;
    hf__answer_failure(exchange, code, read ? &read->error : &error);
    return false;
}

const char *hf__v2_name(struct hf_exchange *exchange, enum hf_right right)
{
    struct hf_slice name = exchange->parts[2];
    const char *refusal = hf__client_format(exchange->service->client)->refuses_name(name);
    exchange->lock = name.ptr;
    if (refusal) {
        hf__answer_error(exchange, 400, "invalid", "the lock's name: %s", refusal);
        return NULL;
    }
    if (!right || hf__may(exchange, right, name)) return name.ptr;
    /* A lock that the caller may not read looks like one without a record. */
    if (right == HF_RIGHT_READ) answer_absent(exchange);
    else answer_forbidden(exchange);
    return NULL;
}

bool hf__v2_lease_is_good(struct hf_exchange *exchange, int64_t lease_ms)
{
    int64_t most_ms = exchange->service->limits.lease_ms;
    if (lease_ms <= most_ms || exchange->caller.admin) return true;
    hf__answer_error(exchange, 400, "invalid", "\"lease_ms\": at most %lld here (--max-lease)",
                     (long long)most_ms);
    return false;
}

int64_t hf__left_for_caller(int64_t left_ms, int64_t lease_ms)
{
    int64_t left = left_ms - (lease_ms + 99) / 100;
    return left > 0 ? left : 0;
}

/* ---- one lock ---- */

struct look {
    struct hf_inspection inspection;
    bool has_record;
    size_t size; /* of the record */
};

static void show(struct hf_exchange *exchange)
{
    struct hf_lock_info *info = exchange->shown;
    struct hf_json_writer json;
    exchange->token = info->token;
    hf__answer_begin(exchange, 200, &json);
    hf__info_put(&json, info, false);
    hf_lock_info_free(info);
    hf__answer_end(exchange, &json);
}

static void answer(struct hf_exchange *exchange)
{
    const struct look *look = exchange->user;
    if (!look->has_record) {
        answer_absent(exchange);
        return;
    }
    bool is_long = look->size > HF_SMALL;
    if (is_long && !hf__exchange_reserve_long(exchange, look->size)) {
        hf__answer_overloaded(exchange);
        return;
    }
    exchange->shown = hf__inspected(exchange->service->client, &look->inspection);
    if (!exchange->shown) hf__answer_error(exchange, 503, "no-memory", "out of memory");
    else if (is_long) hf__exchange_aside(exchange, show);
    else show(exchange);
}

static void got_session(struct hf_exchange *exchange, const struct hf_answer *got);

static void read_on(struct hf_exchange *exchange)
{
    struct look *look = exchange->user;
    struct hf_op op;
    if (hf__inspection_next(&look->inspection, &op)) hf__exchange_run(exchange, &op, got_session);
    else answer(exchange);
}

static void got_session(struct hf_exchange *exchange, const struct hf_answer *got)
{
    struct look *look = exchange->user;
    if (got->code != 0) {
        hf__answer_failure(exchange, got->code, &got->error);
        return;
    }
    hf__inspection_answer(&look->inspection, got);
    read_on(exchange);
}

static void got_record(struct hf_exchange *exchange, const struct hf_answer *got)
{
    struct look *look = exchange->user;
    if (got->code != 0) {
        hf__answer_failure(exchange, got->code, &got->error);
        return;
    }
    look->has_record = got->has_item;
    look->size = hf__item_size(got->item);
    hf__inspection_time(&look->inspection, got);
    hf__inspection_add(&look->inspection, exchange->parts[2], got->has_item, got->item);
    read_on(exchange);
}

void hf__v2_get(struct hf_exchange *exchange)
{
    struct look *look = hf__arena_zalloc(&exchange->arena, 1, sizeof *look);
    struct hf_op op;
    if (!hf__v2_name(exchange, HF_RIGHT_READ)) return;
    if (!look) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    exchange->user = look;
    hf__client_inspect(exchange->service->client, &exchange->arena, exchange->parts[2],
                       &look->inspection, &op);
    hf__exchange_run(exchange, &op, got_record);
}

/* ---- many ---- */

static void show_page(struct hf_exchange *exchange)
{
    struct hf_list_page *page = exchange->shown;
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    hf__json_put_name(&json, "locks");
    hf__json_open(&json, '[');
    for (size_t i = 0; i < page->count; i++) {
        if (!hf__may(exchange, HF_RIGHT_READ, hf__slice_str(page->locks[i].name))) continue;
        hf__json_open(&json, '{');
        hf__info_put(&json, &page->locks[i], false);
        hf__json_close(&json, '}');
    }
    hf__json_close(&json, ']');
    hf__put_text(&json, "cursor", page->cursor);
    hf_list_page_free(page);
    hf__answer_end(exchange, &json);
}

static void listed(void *user, int code, struct hf_list_page *page, const struct hf_error *error)
{
    enum { FEW = 32 };
    struct hf_exchange *exchange = user;
    if (code != 0) {
        hf__answer_failure(exchange, code, error);
        return;
    }
    size_t size = 0;
    for (size_t i = 0; i < page->count; i++) size += page->locks[i].data_size;
    bool is_long = page->count > FEW || size > HF_SMALL;
    if (is_long && !hf__exchange_reserve_long(exchange, size)) {
        hf_list_page_free(page);
        hf__answer_overloaded(exchange);
        return;
    }
    exchange->shown = page;
    if (is_long) hf__exchange_aside(exchange, show_page);
    else show_page(exchange);
}

void hf__v2_list(struct hf_exchange *exchange)
{
    const char *limit = hf__exchange_query(exchange, "limit");
    const char *held = hf__exchange_query(exchange, "held");
    struct hf_error error;
    int64_t number = PAGE;
    if (limit &&
        (!hf__parse_int64(hf__slice_str(limit), &number) || number < 1 || number > PAGE_MOST)) {
        hf__answer_error(exchange, 400, "invalid", "\"limit\": must be between 1 and %d",
                         PAGE_MOST);
        return;
    }
    if (held && strcmp(held, "true") != 0 && strcmp(held, "false") != 0) {
        hf__answer_error(exchange, 400, "invalid", "\"held\": must be true or false");
        return;
    }
    const char *prefix = hf__exchange_query(exchange, "prefix");
    if (prefix && strlen(prefix) > NAME_MOST) {
        hf__answer_error(exchange, 400, "invalid", "\"prefix\": must have at most %d bytes",
                         NAME_MOST);
        return;
    }
    struct hf_list_options options = {
        .size = sizeof options,
        .prefix = prefix,
        .cursor = hf__exchange_query(exchange, "cursor"),
        .limit = (int)number,
        .held_only = held && strcmp(held, "true") == 0,
    };
    if (options.prefix && !*options.prefix) options.prefix = NULL;
    if (options.cursor && !*options.cursor) options.cursor = NULL;
    int code = hf__list_async(exchange->service->client, &options, listed, exchange, &error);
    if (code != 0) hf__answer_failure(exchange, code, &error);
}
