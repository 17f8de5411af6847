/*
 * Looking at locks. One is read without waiting: its record, and the records of the sessions that
 * keep it; so reads cost a thread nothing but their work.
 */
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "service/lock.h"

enum { SESSIONS_READ = 32, PAGE = 100, PAGE_MOST = 1000, NAME_MOST = 1024 };

/* ---- what may not be ---- */

static void answer_absent(struct hf_exchange *exchange)
{
    hf__answer_error(exchange, 404, "absent", "there is no record of this lock");
}

static void answer_forbidden(struct hf_exchange *exchange)
{
    hf__count(&exchange->service->metrics.refused_auth);
    hf__answer_error(exchange, 403, "forbidden",
                     "the rules of this service do not let you do this to this lock");
}

/* ---- requests ---- */

bool hf__v2_read(struct hf_exchange *exchange, uint32_t allowed, struct hf_v2_body *ret)
{
    struct hf_error error;
    struct hf_slice text = hf__buf_view(&exchange->body);
    const char *type = hf__exchange_header(exchange, "Content-Type");
    if (text.len > 0 && (!type || strncasecmp(type, "application/json", 16) != 0)) {
        hf__answer_error(exchange, 415, "unsupported-media-type",
                         "Content-Type: a body must be application/json");
        return false;
    }
    int code = hf__v2_body(&exchange->arena, text, allowed, ret, &error);
    if (code == 0) return true;
    hf__answer_failure(exchange, code, &error);
    return false;
}

const char *hf__v2_name(struct hf_exchange *exchange, enum hf_right right)
{
    struct hf_slice name = exchange->parts[2];
    const char *refusal = exchange->service->client->core.options.format->refuses_name(name);
    exchange->lock = name.ptr;
    if (refusal) {
        hf__answer_error(exchange, 400, "invalid", "the lock's name: %s", refusal);
        return NULL;
    }
    if (!right || hf__may(exchange, right, name)) return name.ptr;
    /* What may not be read is not told apart from what there is not. */
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

/* ---- answers ---- */

static void put_texts(struct hf_json_writer *json, const struct hf_lock_info *info)
{
    if (info->attribute_count == 0) return;
    hf__json_put_name(json, "attributes");
    hf__json_open(json, '{');
    for (size_t i = 0; i < info->attribute_count; i++) {
        hf__json_put_key(json, hf__slice_str(info->attributes[i].name));
        hf__json_put_string(json, hf__slice_str(info->attributes[i].text));
    }
    hf__json_close(json, '}');
}

void hf__put_lock(struct hf_exchange *exchange, struct hf_json_writer *json,
                  const struct hf_lock_info *info)
{
    struct hf_service *service = exchange->service;
    struct hf_interval now = hf__service_time(service);
    hf__put_text(json, "name", info->name);
    hf__put_bool(json, "held", info->held);
    if (info->damaged) hf__put_text(json, "damaged", info->damage);
    if (info->owner) hf__put_text(json, "owner", info->owner);
    if (info->held) hf__put_text(json, "mode", info->shared ? "shared" : "exclusive");
    hf__put_number(json, "token", info->token);
    hf__put_number(json, "holders", info->holders);
    if (info->limit) hf__put_number(json, "limit", info->limit);
    if (info->since_unix_ms) hf__put_number(json, "since_unix_ms", info->since_unix_ms);
    if (info->lease_ms) hf__put_number(json, "lease_ms", info->lease_ms);
    if (info->expires_unix_ms) {
        int64_t left_ms = info->expires_unix_ms - now.lo_unix_us / 1000;
        hf__put_number(json, "expires_unix_ms", info->expires_unix_ms);
        if (now.known && info->held) hf__put_number(json, "left_ms", left_ms > 0 ? left_ms : 0);
        if (now.known && info->held && left_ms <= 0) hf__put_bool(json, "expired", true);
    }
    hf__put_number(json, "waiters",
                   info->waiters + (int64_t)hf__client_queue(service->client, info->name));
    hf__put_data(json, &exchange->arena, info->data, info->data_size);
    if (info->forced_by) hf__put_text(json, "forced_by", info->forced_by);
    if (info->forced_reason) hf__put_text(json, "forced_reason", info->forced_reason);
    put_texts(json, info);
}

/* ---- one lock ---- */

struct look {
    struct hf_record record;
    struct hf_liveness liveness; /* of its latest session */
    bool has_liveness;
    size_t next;  /* the session to read */
    bool is_gone; /* the session that kept it is no more */
};

static void answer(struct hf_exchange *exchange)
{
    const struct look *look = exchange->user;
    const struct hf_core_options *core = &exchange->service->client->core.options;
    struct hf_json_writer json;
    if (!look->record.exists) {
        answer_absent(exchange);
        return;
    }
    const struct hf_liveness *liveness = look->has_liveness       ? &look->liveness
                                         : look->record.exclusive ? &look->record.liveness
                                                                  : NULL;
    struct hf_lock_info *info = hf__info_new(core, exchange->parts[2], &look->record, liveness);
    if (!info) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    if (look->is_gone) { /* whoever asks for it gets it */
        info->held = false;
        info->holders = 0;
    }
    exchange->token = info->token;
    hf__answer_begin(exchange, 200, &json);
    hf__put_lock(exchange, &json, info);
    hf_lock_info_free(info);
    hf__answer_end(exchange, &json);
}

static void read_session(struct hf_exchange *exchange);

static void got_session(struct hf_exchange *exchange, const struct hf_answer *got)
{
    struct look *look = exchange->user;
    const struct hf_core_options *core = &exchange->service->client->core.options;
    struct hf_session_record session;
    if (got->code != 0) {
        hf__answer_failure(exchange, got->code, &got->error);
        return;
    }
    core->format->sessions->parse(&core->layout, &exchange->arena, got->has_item, got->item,
                                  &session);
    if (!session.exists && look->record.exclusive) look->is_gone = true;
    if (session.exists && !session.damaged &&
        session.liveness.expires_unix_ms >= look->liveness.expires_unix_ms) {
        look->liveness = session.liveness;
        look->has_liveness = true;
    }
    read_session(exchange);
}

/* When a session's lock expires stands in the session; of many, in the one that lives longest. */
static void read_session(struct hf_exchange *exchange)
{
    struct look *look = exchange->user;
    const struct hf_core_options *core = &exchange->service->client->core.options;
    const struct hf_record *record = &look->record;
    struct hf_slice id = {0};
    size_t at = look->next++;
    if (record->exclusive && at == 0) id = record->holder.session;
    else if (at < record->member_count && record->member_count <= SESSIONS_READ)
        id = record->members[at].session;
    if (id.len == 0 || !core->format->sessions) {
        answer(exchange);
        return;
    }
    struct hf_op op;
    core->format->sessions->read(&core->layout, &exchange->arena, id, &op);
    hf__exchange_run(exchange, &op, got_session);
}

static void got(struct hf_exchange *exchange, const struct hf_answer *got_it)
{
    struct look *look = exchange->user;
    const struct hf_core_options *core = &exchange->service->client->core.options;
    if (got_it->code != 0) {
        hf__answer_failure(exchange, got_it->code, &got_it->error);
        return;
    }
    core->format->parse(&core->layout, &exchange->arena, got_it->has_item, got_it->item,
                        &look->record);
    read_session(exchange);
}

void hf__v2_get(struct hf_exchange *exchange)
{
    const struct hf_core_options *core = &exchange->service->client->core.options;
    struct look *look = hf__arena_zalloc(&exchange->arena, 1, sizeof *look);
    struct hf_op op;
    if (!hf__v2_name(exchange, HF_RIGHT_READ)) return;
    if (!look) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    exchange->user = look;
    core->format->read(&core->layout, &exchange->arena, exchange->parts[2], &op);
    hf__exchange_run(exchange, &op, got);
}

/* ---- many ---- */

static void list(struct hf_exchange *exchange)
{
    struct hf_list_options *options = exchange->user;
    struct hf_list_page *page;
    struct hf_error error;
    struct hf_json_writer json;
    int code = hf_list(exchange->service->client, options, &page, &error);
    if (code != 0) {
        hf__answer_failure(exchange, code, &error);
        return;
    }
    hf__answer_begin(exchange, 200, &json);
    hf__json_put_name(&json, "locks");
    hf__json_open(&json, '[');
    for (size_t i = 0; i < page->count; i++) {
        if (!hf__may(exchange, HF_RIGHT_READ, hf__slice_str(page->locks[i].name))) continue;
        hf__json_open(&json, '{');
        hf__put_lock(exchange, &json, &page->locks[i]);
        hf__json_close(&json, '}');
    }
    hf__json_close(&json, ']');
    hf__put_text(&json, "cursor", page->cursor);
    hf_list_page_free(page);
    hf__answer_end(exchange, &json);
}

void hf__v2_list(struct hf_exchange *exchange)
{
    const char *limit = hf__exchange_query(exchange, "limit");
    const char *held = hf__exchange_query(exchange, "held");
    struct hf_list_options *options = hf__arena_zalloc(&exchange->arena, 1, sizeof *options);
    int64_t number = PAGE;
    if (!options) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
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
        hf__answer_error(exchange, 400, "invalid", "\"prefix\": has at most %d bytes", NAME_MOST);
        return;
    }
    *options = (struct hf_list_options){
        .size = sizeof *options,
        .prefix = prefix,
        .cursor = hf__exchange_query(exchange, "cursor"),
        .limit = (int)number,
        .held_only = held && strcmp(held, "true") == 0,
    };
    if (options->prefix && !*options->prefix) options->prefix = NULL;
    if (options->cursor && !*options->cursor) options->cursor = NULL;
    exchange->user = options;
    hf__exchange_work(exchange, list);
}
