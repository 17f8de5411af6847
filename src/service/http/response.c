/* An answer as it is sent: its status, its headers, and its body. */
#include <stdio.h>

#include "base/crc32.h"
#include "service/http/connection.h"
#include "service/http/server.h"
#include "service/service.h"

static const char *phrase_of(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {{200, "OK"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {406, "Not Acceptable"},
                   {409, "Conflict"},
                   {410, "Gone"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {423, "Locked"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {499, "Client Closed Request"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"},
                   {507, "Insufficient Storage"}};
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].status == status) return phrases[i].phrase;
    return "Unknown";
}

/* Small answers are always sent, and those that are owed; large ones only within a limit. */
static bool has_room(struct hf_exchange *exchange, int64_t size)
{
    if (size <= HF_SMALL || hf__exchange_reserve(exchange, size)) return true;
    if (exchange->is_owed) hf__exchange_count_answer(exchange, size);
    return exchange->is_owed;
}

/* The body; an error may replace it. */
static struct hf_slice settle_body(struct hf_exchange *exchange)
{
    if (exchange->stream) return HF_LIT("");
    if (exchange->fixed.len) return exchange->fixed;
    if (!has_room(exchange, (int64_t)exchange->answer.len)) {
        hf__buf_free(&exchange->answer);
        hf__count(&exchange->service->metrics.refused_limit);
        exchange->status = 503;
        exchange->retry_after_s = 1;
        return HF_LIT(
            "{\"error\":\"overloaded\",\"message\":\"too many answers are being sent\"}\n");
    }
    if (exchange->answer.failed && exchange->answer.len > HF_ANSWER_MAX / 2) {
        exchange->status = 500;
        return HF_LIT("{\"error\":\"limit\",\"message\":\"the answer is too large\"}\n");
    }
    if (exchange->answer.failed || exchange->arena.failed) {
        /* The answer may have been made from a part of the request only. */
        exchange->status = 503;
        exchange->retry_after_s = 1;
        exchange->content_type = NULL;
        exchange->is_static = false;
        return HF_LIT("{\"error\":\"no-memory\",\"message\":\"out of memory\"}\n");
    }
    return hf__buf_view(&exchange->answer);
}

static inline void put_field(struct hf_buf *out, const char *name, const char *value)
{
    if (!value) return;
    hf__buf_str(out, name);
    hf__buf_add(out, ": ", 2);
    hf__buf_str(out, value);
    hf__buf_add(out, "\r\n", 2);
}

static inline void put_number(struct hf_buf *out, const char *name, int64_t number)
{
    hf__buf_str(out, name);
    hf__buf_add(out, ": ", 2);
    hf__buf_int64(out, number);
    hf__buf_add(out, "\r\n", 2);
}

static void put_head(struct hf_connection *connection, struct hf_exchange *exchange, size_t size)
{
    struct hf_buf *out = &connection->out;
    char line[64];
    hf__buf_str(out, "HTTP/1.1 ");
    hf__buf_int64(out, exchange->status);
    hf__buf_char(out, ' ');
    hf__buf_str(out, phrase_of(exchange->status));
    hf__buf_add(out, "\r\n", 2);
    put_field(out, "Date", hf__server_date(connection->server));
    put_field(out, "Content-Type",
              exchange->content_type ? exchange->content_type : "application/json");
    put_field(out, "Cache-Control", exchange->is_static ? "no-cache" : "no-store");
    put_field(out, "X-Content-Type-Options", "nosniff");
    if (exchange->is_static) {
        put_field(out, "Content-Security-Policy", HF_PAGE_POLICY);
        put_field(out, "Referrer-Policy", "no-referrer");
    }
    if (exchange->store_time.known) { /* more precise than Date, and the store's own */
        snprintf(line, sizeof line, "%lld %lld", (long long)exchange->store_time.lo_unix_us,
                 (long long)exchange->store_time.hi_unix_us);
        put_field(out, "X-Holdfast-Time", line);
    }
    if (exchange->tells_owner && !hf__auth_is_disabled(exchange->service->auth)) {
        struct hf_id owner;
        hf__id_of_owner(hf__slice_str(exchange->caller.owner), &owner);
        hf__hex_encode(owner.bytes, sizeof owner.bytes, line);
        put_field(out, "X-Holdfast-Owner", line);
    }
    if (exchange->request_id) {
        const struct hf_slice body = connection->body;
        bool known = exchange->has_checksum && body.ptr == exchange->answer.data;
        put_field(out, "x-amzn-RequestId", exchange->request_id);
        put_number(out, "x-amz-crc32", known ? exchange->checksum : hf__crc32(body.ptr, body.len));
    }
    put_field(out, "Allow", exchange->allow);
    put_field(out, "WWW-Authenticate", exchange->challenge ? "Bearer realm=\"holdfast\"" : NULL);
    if (exchange->retry_after_s) put_number(out, "Retry-After", exchange->retry_after_s);
    bool is_old = exchange->head && exchange->head->is_old;
    if (connection->closes || connection->lingers) put_field(out, "Connection", "close");
    else if (is_old) put_field(out, "Connection", "keep-alive");
    if (!exchange->stream) put_number(out, "Content-Length", (int64_t)size);
    else if (!is_old) put_field(out, "Transfer-Encoding", "chunked");
    hf__buf_add(out, "\r\n", 2);
}

void hf__response_put(struct hf_connection *connection, struct hf_exchange *exchange)
{
    connection->body = settle_body(exchange);
    put_head(connection, exchange, connection->body.len);
    if (exchange->is_head_only) connection->body = HF_LIT("");
    if (connection->tls && connection->body.len <= HF_PIECE) { /* one record, not two */
        hf__buf_slice(&connection->out, connection->body);
        connection->body = HF_LIT("");
    }
    if (connection->out.failed) connection->broken = true; /* no answer without its head */
}
