#include "service/http/exchange.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/text.h"
#include "service/http/connection.h"
#include "service/http/server.h"
#include "service/service.h"
#include "wire/request.h"

/* ---- life ---- */

struct hf_exchange *hf__exchange_new(struct hf_connection *connection,
                                     void (*resume)(struct hf_task *task))
{
    struct hf_exchange *exchange = hf__calloc(1, sizeof *exchange);
    if (!exchange) return NULL;
    struct hf_service *service = connection->server->service;
    exchange->service = service;
    exchange->connection = connection;
    exchange->for_operators = connection->for_operators;
    exchange->remote = connection->address->text;
    exchange->method = HF_METHOD_OTHER;
    exchange->path = HF_LIT("");
    exchange->began_us = hf__service_now_us(service);
    exchange->caller.owner = "";
    exchange->resume.run = resume;
    hf__list_init(&exchange->resume.node);
    exchange->body_most = HF_BODY_MAX;
    hf__buf_init(&exchange->body, HF_BODY_MAX);
    hf__buf_init(&exchange->answer, HF_ANSWER_MAX);
    connection->exchange = exchange;
    return exchange;
}

static enum hf_method method_of(const char *method)
{
    static const struct {
        const char *name;
        enum hf_method method;
    } methods[] = {{"GET", HF_METHOD_GET},
                   {"HEAD", HF_METHOD_GET},
                   {"POST", HF_METHOD_POST},
                   {"DELETE", HF_METHOD_DELETE},
                   {"OPTIONS", HF_METHOD_OPTIONS}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(method, methods[i].name) == 0) return methods[i].method;
    }
    return HF_METHOD_OTHER;
}

/* Calls of the DynamoDB API have ids, which SDKs show in their errors. */
static const char *new_request_id(struct hf_exchange *exchange)
{
    struct hf_server *server = exchange->connection->server;
    enum { DIGITS = 20 };
    size_t len = strlen(server->id);
    uint64_t rest = ++server->requests;
    char *text = hf__arena_alloc(&exchange->arena, len + DIGITS + 1);
    if (!text) return NULL;
    memcpy(text, server->id, len);
    for (size_t i = len + DIGITS; i > len; i--, rest /= 10) text[i - 1] = (char)('0' + rest % 10);
    text[len + DIGITS] = '\0';
    return text;
}

static bool is_dynamodb(const struct hf_exchange *exchange)
{
    return exchange->method == HF_METHOD_POST && hf__slice_is(exchange->path, "/") &&
           exchange->service->dynamodb && hf__head_field(exchange->head, "X-Amz-Target");
}

void hf__exchange_set_head(struct hf_exchange *exchange, const struct hf_head *head)
{
    exchange->head = head;
    exchange->method = method_of(head->method);
    exchange->is_head_only = strcmp(head->method, "HEAD") == 0;
    exchange->path = hf__slice_str(head->path);
    if (!is_dynamodb(exchange)) return;
    exchange->request_id = new_request_id(exchange);
    exchange->body_most = HF_REQUEST_MAX_SIZE;
    hf__buf_init(&exchange->body, HF_REQUEST_MAX_SIZE);
}

/* Counts it against the budgets, of the service and of its address. */
void hf__exchange_count_body(struct hf_exchange *exchange, int64_t more)
{
    exchange->service->body_bytes += more;
    exchange->connection->address->body_bytes += more;
    exchange->kept += more;
}

void hf__exchange_count_answer(struct hf_exchange *exchange, int64_t more)
{
    exchange->service->answer_bytes += more;
    exchange->connection->address->answer_bytes += more;
    exchange->sending += more;
}

bool hf__exchange_has_room(const struct hf_exchange *exchange)
{
    return exchange->service->answer_bytes <= HF_ANSWERS_MAX &&
           exchange->connection->address->answer_bytes <= HF_ANSWERS_MAX_TO_ADDRESS;
}

bool hf__exchange_reserve_long(struct hf_exchange *exchange, size_t size)
{
    enum { COPIES = 3 }; /* as read and as written */
    return hf__exchange_reserve(exchange, (int64_t)size * COPIES);
}

bool hf__exchange_reserve(struct hf_exchange *exchange, int64_t size)
{
    hf__exchange_count_answer(exchange, size - exchange->sending);
    if (hf__exchange_has_room(exchange)) return true;
    hf__exchange_count_answer(exchange, -exchange->sending);
    return false;
}

bool hf__exchange_reserve_reading(struct hf_exchange *exchange)
{
    enum { TIMES = 3 }; /* besides the body itself */
    if (exchange->body.len <= HF_BODY_MAX) return true;
    hf__exchange_count_body(exchange, TIMES * (int64_t)exchange->body.len);
    return exchange->service->body_bytes <= HF_BODIES_MAX &&
           exchange->connection->address->body_bytes <= HF_BODIES_MAX_OF_ADDRESS;
}

void hf__answer_overloaded(struct hf_exchange *exchange)
{
    hf__count(&exchange->service->metrics.refused_limit);
    exchange->retry_after_s = 1;
    hf__answer_error(exchange, 503, "overloaded", "too many answers are being sent; try again");
}

/* ---- beside the loop ---- */

static void run_aside(struct hf_task *task)
{
    struct hf_exchange *exchange = HF_CONTAINER(task, struct hf_exchange, scribe);
    exchange->aside(exchange);
}

void hf__exchange_aside(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange))
{
    exchange->aside = go;
    exchange->scribe.run = run_aside;
    hf__list_init(&exchange->scribe.node);
    hf__loop_post(exchange->service->scribe, &exchange->scribe);
}

/* ---- for routes ---- */

const char *hf__exchange_header(struct hf_exchange *exchange, const char *name)
{
    return exchange->head ? hf__head_field(exchange->head, name) : NULL;
}

const char *hf__exchange_query(struct hf_exchange *exchange, const char *name)
{
    const char *at = exchange->head ? exchange->head->query : NULL;
    size_t len = strlen(name);
    while (at && *at) {
        size_t size = strcspn(at, "&");
        if (size >= len && strncmp(at, name, len) == 0 && (size == len || at[len] == '=')) {
            struct hf_slice raw = hf__slice(at + len, size - len), text;
            if (raw.len > 0) raw = hf__slice_skip(raw, 1);
            return hf__percent_decode(&exchange->arena, raw, true, &text) ? text.ptr : "";
        }
        at += size + (at[size] == '&');
    }
    return NULL;
}

size_t hf__exchange_headers(struct hf_exchange *exchange, struct hf_header *ret, size_t most)
{
    const struct hf_head *head = exchange->head;
    size_t count = 0;
    for (; head && count < head->count && count < most; count++) {
        char *lower = hf__arena_str(&exchange->arena, hf__slice_str(head->fields[count].name));
        if (!lower) break;
        for (char *at = lower; *at; at++)
            *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        ret[count] =
            (struct hf_header){hf__slice_str(lower), hf__slice_str(head->fields[count].value)};
    }
    return count;
}

bool hf__exchange_is_gone(struct hf_exchange *exchange)
{
    enum { LONG_US = 100000 };
    const struct hf_connection *connection = exchange->connection;
    char byte;
    if (connection->hung_up) return true;
    if (connection->tls || hf__service_now_us(exchange->service) - exchange->began_us < LONG_US)
        return false;
    return recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void hf__exchange_cut_off(struct hf_exchange *exchange)
{
    shutdown(exchange->connection->watch.fd, SHUT_RDWR); /* the loop notices */
}

void hf__exchange_send_buffer(struct hf_exchange *exchange, int bytes)
{
    setsockopt(exchange->connection->watch.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void *hf__exchange_tls(const struct hf_exchange *exchange)
{
    return exchange->connection->tls;
}

/* ---- the end ---- */

void hf__exchange_free(struct hf_exchange *exchange)
{
    enum { LONG = 128 * 1024 }; /* malloc's threshold: returned to the kernel when it is freed */
    hf__exchange_count_body(exchange, -exchange->kept);
    hf__exchange_count_answer(exchange, -exchange->sending);
    hf__caller_free(&exchange->caller);
    if (exchange->body.cap + exchange->answer.cap >= LONG)
        hf__server_free_later(exchange->connection->server, exchange);
    else hf__exchange_destroy(exchange);
}

void hf__exchange_destroy(struct hf_exchange *exchange)
{
    hf__buf_free(&exchange->body);
    hf__buf_free(&exchange->answer);
    hf__arena_free(&exchange->arena);
    hf__free(exchange);
}
