#include "service/http/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "service/api/event.h"
#include "service/http/server.h"
#include "service/http/tls.h"
#include "service/service.h"

enum {
    READ_MOST = 16 * 1024, /* at a time */
    KEPT_ROOM = 4096,      /* between two requests */
    PIECE = 4096,          /* of a stream */
    EMPTY_LINES_MOST = 4,
};

enum exchange_state { RUNNING, SUSPENDED, READY };

/* ---- bytes ---- */

static ssize_t receive(struct hf_connection *connection, void *room, size_t size)
{
    if (connection->tls) return hf__tls_receive(connection->tls, room, size);
    return recv(connection->watch.fd, room, size, 0);
}

/* What is left to send, in one call if it can be. */
static ssize_t send_some(struct hf_connection *connection)
{
    struct hf_slice first = hf__slice_skip(hf__buf_view(&connection->out), connection->out_at);
    if (connection->tls) {
        struct hf_slice next = first.len ? first : connection->body;
        return hf__tls_send(connection->tls, next.ptr, next.len);
    }
    struct iovec pieces[2] = {{(void *)(uintptr_t)first.ptr, first.len},
                              {(void *)(uintptr_t)connection->body.ptr, connection->body.len}};
    struct msghdr message = {.msg_iov = first.len ? pieces : pieces + 1,
                             .msg_iovlen = (first.len ? 1u : 0u) + (connection->body.len ? 1 : 0)};
    return sendmsg(connection->watch.fd, &message, MSG_NOSIGNAL);
}

static bool has_unsent(const struct hf_connection *connection)
{
    return connection->out_at < connection->out.len || connection->body.len > 0;
}

/* True: all of it has been sent, or nothing can be. */
static bool flush(struct hf_connection *connection)
{
    while (has_unsent(connection) && !connection->broken) {
        if (!connection->writable) return false;
        ssize_t sent = send_some(connection);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) connection->writable = false;
        else if (sent < 0) connection->broken = true;
        else {
            size_t of_out = connection->out.len - connection->out_at;
            if ((size_t)sent < of_out) of_out = (size_t)sent;
            connection->out_at += of_out;
            connection->body = hf__slice_skip(connection->body, (size_t)sent - of_out);
        }
    }
    return true;
}

static struct hf_slice unread(const struct hf_connection *connection)
{
    return hf__slice_skip(hf__buf_view(&connection->in), connection->in_at);
}

static void take(struct hf_connection *connection, size_t size)
{
    connection->in_at += size;
    if (connection->in_at < connection->in.len) return;
    connection->in_at = 0;
    if (connection->in.cap > KEPT_ROOM) hf__buf_free(&connection->in);
    else hf__buf_clear(&connection->in);
}

/* ---- exchanges ---- */

static void resume_here(struct hf_task *task);

static enum hf_method method_of(const char *method)
{
    static const struct {
        const char *name;
        enum hf_method method;
    } methods[] = {{"GET", HF_METHOD_GET},
                   {"HEAD", HF_METHOD_GET},
                   {"POST", HF_METHOD_POST},
                   {"DELETE", HF_METHOD_DELETE}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(method, methods[i].name) == 0) return methods[i].method;
    }
    return HF_METHOD_OTHER;
}

static struct hf_exchange *exchange_new(struct hf_connection *connection)
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
    exchange->resume.run = resume_here;
    hf__list_init(&exchange->resume.node);
    hf__buf_init(&exchange->body, HF_BODY_MAX);
    hf__buf_init(&exchange->answer, HF_ANSWER_MAX);
    connection->exchange = exchange;
    return exchange;
}

/* What it counts for, in all and at its address. */
static void count_body(struct hf_exchange *exchange, int64_t more)
{
    exchange->service->body_bytes += more;
    exchange->connection->address->body_bytes += more;
    exchange->kept += more;
}

static void count_answer(struct hf_exchange *exchange, int64_t more)
{
    exchange->service->answer_bytes += more;
    exchange->connection->address->answer_bytes += more;
    exchange->sending += more;
}

static void exchange_free(struct hf_exchange *exchange)
{
    count_body(exchange, -exchange->kept);
    count_answer(exchange, -exchange->sending);
    hf__buf_free(&exchange->body);
    hf__buf_free(&exchange->answer);
    hf__caller_free(&exchange->caller);
    hf__arena_free(&exchange->arena);
    hf__free(exchange);
}

/* Its answer has left, or could not. */
static void complete(struct hf_connection *connection, bool received)
{
    struct hf_exchange *exchange = connection->exchange;
    struct hf_service *service = exchange->service;
    connection->exchange = NULL;
    if (exchange->stream) hf__stream_close(exchange->stream);
    if (exchange->finished) exchange->finished(exchange, received);
    int64_t took_us = hf__service_now_us(service) - exchange->began_us;
    hf__metric_request(&service->metrics, exchange->route ? exchange->route - hf__routes : -1,
                       exchange->status, took_us);
    hf__access_log(exchange, took_us, received);
    __atomic_fetch_sub(&service->busy, 1, __ATOMIC_RELEASE);
    exchange_free(exchange);
}

/* ---- whose turn it is ---- */

static void turn_to(struct hf_connection *connection, enum hf_connection_state state)
{
    bool ours = state == HF_CONNECTION_WORKING || state == HF_CONNECTION_STREAMING;
    connection->state = state;
    connection->since_us = ours ? -1 : hf__service_now_us(connection->server->service);
    connection->excused = false;
}

void hf__connection_close(struct hf_connection *connection)
{
    if (connection->state == HF_CONNECTION_CLOSED) return;
    struct hf_exchange *exchange = connection->exchange;
    connection->state = HF_CONNECTION_CLOSED;
    if (exchange && exchange->begun) complete(connection, false);
    else if (exchange) exchange_free(exchange);
    connection->exchange = NULL;
    hf__server_forget(connection->server, connection);
}

/* The next request may come, or the end. */
static void finish(struct hf_connection *connection)
{
    complete(connection, !connection->broken);
    if (connection->closes && unread(connection).len > 0) connection->lingers = true;
    hf__buf_clear(&connection->out);
    connection->out_at = 0;
    if (connection->broken || (connection->closes && !connection->lingers)) {
        if (connection->tls && !connection->broken) hf__tls_bye(connection->tls);
        hf__connection_close(connection);
    } else if (connection->lingers) {
        if (connection->tls) hf__tls_bye(connection->tls);
        shutdown(connection->watch.fd, SHUT_WR);
        hf__buf_free(&connection->in);
        connection->in_at = 0;
        connection->readable = true;
        turn_to(connection, HF_CONNECTION_LINGERING);
        hf__server_ready(connection->server, connection);
    } else {
        turn_to(connection, HF_CONNECTION_READING);
        if (connection->readable || connection->hung_up)
            hf__server_ready(connection->server, connection);
    }
}

/* ---- answering ---- */

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

/* Small answers are always sent; of large ones there may be too many. */
static bool has_room(struct hf_exchange *exchange, int64_t size)
{
    if (size <= HF_SMALL) return true;
    count_answer(exchange, size);
    if (exchange->service->answer_bytes <= HF_ANSWERS_MAX &&
        exchange->connection->address->answer_bytes <= HF_ANSWERS_MAX_TO_ADDRESS)
        return true;
    count_answer(exchange, -size);
    return false;
}

/* The body; it may turn out that there is another answer to give. */
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
        /* Whatever was to be said may have been said of a part of the request. */
        exchange->status = 503;
        exchange->retry_after_s = 1;
        exchange->content_type = NULL;
        exchange->is_static = false;
        return HF_LIT("{\"error\":\"no-memory\",\"message\":\"out of memory\"}\n");
    }
    return hf__buf_view(&exchange->answer);
}

static void put_field(struct hf_buf *out, const char *name, const char *value)
{
    if (!value) return;
    hf__buf_str(out, name);
    hf__buf_add(out, ": ", 2);
    hf__buf_str(out, value);
    hf__buf_add(out, "\r\n", 2);
}

static void put_number(struct hf_buf *out, const char *name, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    put_field(out, name, text);
}

static void put_head(struct hf_connection *connection, struct hf_exchange *exchange, size_t size)
{
    struct hf_buf *out = &connection->out;
    char line[64];
    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", exchange->status,
             phrase_of(exchange->status));
    hf__buf_str(out, line);
    put_field(out, "Date", hf__server_date(connection->server));
    put_field(out, "Content-Type",
              exchange->content_type ? exchange->content_type : "application/json");
    put_field(out, "Cache-Control", exchange->is_static ? "no-cache" : "no-store");
    put_field(out, "X-Content-Type-Options", "nosniff");
    if (exchange->is_static) {
        put_field(out, "Content-Security-Policy", HF_PAGE_POLICY);
        put_field(out, "Referrer-Policy", "no-referrer");
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

static void respond(struct hf_exchange *exchange)
{
    struct hf_connection *connection = exchange->connection;
    bool draining = __atomic_load_n(&exchange->service->draining, __ATOMIC_RELAXED);
    if (draining && !connection->closes) connection->lingers = true;
    if (exchange->stream && exchange->head->is_old) connection->closes = true;
    connection->body = settle_body(exchange);
    put_head(connection, exchange, connection->body.len);
    if (exchange->is_head_only) connection->body = HF_LIT("");
    if (connection->tls && connection->body.len <= PIECE) { /* one record, not two */
        hf__buf_slice(&connection->out, connection->body);
        connection->body = HF_LIT("");
    }
    if (connection->out.failed) connection->broken = true; /* an answer without its head is none */
    turn_to(connection, exchange->stream && !exchange->is_head_only ? HF_CONNECTION_STREAMING
                                                                    : HF_CONNECTION_WRITING);
}

/* ---- a route has it ---- */

static void tell_gone(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    if (!connection->hung_up || !exchange || !exchange->gone || exchange->was_told_gone) return;
    exchange->was_told_gone = true;
    exchange->gone(exchange);
}

/* Whatever has to be done is done here; then it is answered, or waits. */
static void proceed(struct hf_exchange *exchange)
{
    while (__atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE) == READY && exchange->again) {
        void (*go)(struct hf_exchange * exchange) = exchange->again;
        exchange->again = NULL;
        __atomic_store_n(&exchange->state, RUNNING, __ATOMIC_RELEASE);
        go(exchange);
    }
    int expected = RUNNING;
    if (__atomic_compare_exchange_n(&exchange->state, &expected, SUSPENDED, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        exchange->connection->suspended = true;
        tell_gone(exchange->connection);
    } else if (exchange->again) {
        proceed(exchange);
    } else {
        respond(exchange);
    }
}

/* On the loop: its state has changed while it was suspended. */
static void resume_here(struct hf_task *task)
{
    struct hf_exchange *exchange = HF_CONTAINER(task, struct hf_exchange, resume);
    struct hf_connection *connection = exchange->connection;
    connection->suspended = false;
    if (connection->state == HF_CONNECTION_WORKING) proceed(exchange);
    hf__server_ready(connection->server, connection);
}

/* From any thread; once for each time it was suspended. */
static void resume(struct hf_exchange *exchange)
{
    struct hf_loop *loop = exchange->service->loop;
    if (hf__loop_is_here(loop)) resume_here(&exchange->resume);
    else hf__loop_post(loop, &exchange->resume);
}

void hf__exchange_done(struct hf_exchange *exchange)
{
    if (__atomic_exchange_n(&exchange->state, READY, __ATOMIC_ACQ_REL) == SUSPENDED)
        resume(exchange);
}

void hf__exchange_again(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange))
{
    exchange->again = go;
    hf__exchange_done(exchange);
}

/* A stream has something to say. From any thread. */
void hf__exchange_wake(struct hf_exchange *exchange)
{
    int state = __atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE);
    for (;;) {
        int next = state == SUSPENDED ? RUNNING : READY;
        if (__atomic_compare_exchange_n(&exchange->state, &state, next, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            break;
    }
    if (state == SUSPENDED) resume(exchange);
}

/* The next piece of a stream. False: there is none now. */
static bool read_stream(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    struct hf_buf *out = &connection->out;
    char room[PIECE];
    hf__buf_clear(out);
    connection->out_at = 0;
    __atomic_store_n(&exchange->state, RUNNING, __ATOMIC_RELEASE);
    ssize_t got = hf__stream_read(exchange->stream, room, sizeof room);
    if (got == 0) {
        int expected = RUNNING;
        if (!__atomic_compare_exchange_n(&exchange->state, &expected, SUSPENDED, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true; /* woken meanwhile: again */
        connection->suspended = true;
        tell_gone(connection);
        return false;
    }
    bool chunked = !exchange->head->is_old;
    if (got < 0) {
        if (chunked) hf__buf_str(out, "0\r\n\r\n");
        turn_to(connection, HF_CONNECTION_WRITING);
        return true;
    }
    if (chunked) hf__buf_printf(out, "%zx\r\n", (size_t)got);
    hf__buf_add(out, room, (size_t)got);
    if (chunked) hf__buf_str(out, "\r\n");
    if (out->failed) connection->broken = true;
    return true;
}

/* False: it waits for the caller, or for something to say. */
static bool stream(struct hf_connection *connection)
{
    if (connection->suspended || !flush(connection)) return false;
    if (!connection->broken) return read_stream(connection);
    turn_to(connection, HF_CONNECTION_WRITING); /* which ends it */
    return true;
}

/* ---- requests ---- */

static void begin(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    exchange->begun = true;
    __atomic_fetch_add(&exchange->service->busy, 1, __ATOMIC_RELAXED);
    turn_to(connection, HF_CONNECTION_WORKING);
}

/* It is answered before it has come in whole (N4). */
static void refuse(struct hf_connection *connection, int status, const char *name,
                   const char *message)
{
    struct hf_exchange *exchange = connection->exchange;
    connection->lingers = true;
    hf__buf_free(&exchange->body);
    count_body(exchange, -exchange->kept);
    begin(connection);
    hf__answer_error(exchange, status, name, "%s", message);
    proceed(exchange);
}

static void refuse_too_large(struct hf_connection *connection)
{
    char message[64];
    snprintf(message, sizeof message, "a body has at most %d bytes", HF_BODY_MAX);
    refuse(connection, 413, "too-large", message);
}

/* False: it was refused. */
static bool keep(struct hf_connection *connection, struct hf_slice bytes)
{
    struct hf_exchange *exchange = connection->exchange;
    const struct hf_service *service = exchange->service;
    if (exchange->body.len + bytes.len > HF_BODY_MAX) {
        refuse_too_large(connection);
        return false;
    }
    hf__buf_slice(&exchange->body, bytes);
    int64_t counted = (int64_t)exchange->body.len - HF_SMALL;
    if (counted > exchange->kept) count_body(exchange, counted - exchange->kept);
    if (exchange->kept == 0 || (service->body_bytes <= HF_BODIES_MAX &&
                                connection->address->body_bytes <= HF_BODIES_MAX_OF_ADDRESS))
        return true;
    hf__count(&exchange->service->metrics.refused_limit);
    exchange->retry_after_s = 1;
    refuse(connection, 503, "too-many-bodies", "too many requests are being received; try again");
    return false;
}

/* True: it is complete. */
static bool read_chunks(struct hf_connection *connection)
{
    struct hf_slice bytes = unread(connection), data;
    size_t had = bytes.len;
    enum hf_chunks_result result;
    while ((result = hf__chunks_next(&connection->chunks, &bytes, &data)) == HF_CHUNKS_DATA)
        if (!keep(connection, data)) return false;
    take(connection, had - bytes.len);
    if (result == HF_CHUNKS_BAD)
        refuse(connection, 400, "invalid", "the body's chunks are malformed");
    else if (result == HF_CHUNKS_MORE && connection->chunks.left > HF_BODY_MAX)
        refuse_too_large(connection);
    return result == HF_CHUNKS_END;
}

static bool read_body(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    if (exchange->head->chunked) return read_chunks(connection);
    struct hf_slice bytes = unread(connection);
    size_t left = (size_t)exchange->head->length - exchange->body.len;
    if (bytes.len > left) bytes.len = left;
    if (bytes.len > 0 && !keep(connection, bytes)) return false;
    take(connection, bytes.len);
    return exchange->body.failed || bytes.len == left;
}

/* The head has come in; false: it was refused, or there is no memory. */
static bool read_head(struct hf_connection *connection, size_t size)
{
    struct hf_exchange *exchange = exchange_new(connection);
    if (!exchange) {
        hf__connection_close(connection);
        return false;
    }
    const char *why;
    struct hf_slice bytes = unread(connection);
    char *text = size ? hf__arena_alloc(&exchange->arena, size) : NULL;
    connection->scanned = 0;
    connection->chunks = (struct hf_chunks){0};
    if (size == 0) {
        bool in_line = !memchr(bytes.ptr, '\n', bytes.len);
        take(connection, bytes.len);
        refuse(connection, in_line ? 414 : 431, in_line ? "path-too-long" : "headers-too-large",
               in_line ? "the request line is too long" : "the headers are too large");
        return false;
    }
    if (!text) {
        refuse(connection, 503, "no-memory", "out of memory");
        return false;
    }
    memcpy(text, bytes.ptr, size);
    take(connection, size);
    struct hf_head parsed;
    int status = hf__head_parse(text, size, &parsed, &why);
    if (status != 0) {
        refuse(connection, status, status == 431 ? "headers-too-large" : "invalid", why);
        return false;
    }
    size_t head_size = offsetof(struct hf_head, fields) + parsed.count * sizeof(struct hf_field);
    struct hf_head *head = hf__arena_alloc(&exchange->arena, head_size);
    if (!head) {
        refuse(connection, 503, "no-memory", "out of memory");
        return false;
    }
    memcpy(head, &parsed, head_size); /* without the room for others */
    exchange->head = head;
    exchange->method = method_of(head->method);
    exchange->is_head_only = strcmp(head->method, "HEAD") == 0;
    exchange->path = hf__slice_str(head->path);
    connection->closes = head->closes;
    if (head->length < 0 && !head->chunked) head->length = 0;
    if (head->length > HF_BODY_MAX) {
        refuse_too_large(connection);
        return false;
    }
    if (head->expects && !head->is_old && unread(connection).len == 0 &&
        (head->chunked || head->length > 0)) {
        hf__buf_str(&connection->out, "HTTP/1.1 100 Continue\r\n\r\n");
        flush(connection);
    }
    return true;
}

/* True: the state has changed, and there may be more to do. */
static bool read_request(struct hf_connection *connection)
{
    if (!connection->exchange) {
        struct hf_slice bytes = unread(connection);
        for (int i = 0; i < EMPTY_LINES_MOST && bytes.len >= 2 && memcmp(bytes.ptr, "\r\n", 2) == 0;
             i++) {
            take(connection, 2);
            bytes = unread(connection);
        }
        if (bytes.len == 0) connection->scanned = 0;
        size_t size = bytes.len ? hf__head_end(bytes, &connection->scanned) : 0;
        bool too_long = size > HF_HEADERS_MAX || (size == 0 && bytes.len >= HF_HEADERS_MAX);
        if (size == 0 && !too_long) {
            if (connection->ended) hf__connection_close(connection);
            return false;
        }
        if (!read_head(connection, too_long ? 0 : size)) return true;
    }
    if (!read_body(connection)) {
        if (connection->state != HF_CONNECTION_READING) return true; /* refused */
        if (connection->ended) hf__connection_close(connection);
        return false;
    }
    struct hf_exchange *exchange = connection->exchange;
    begin(connection);
    if (exchange->body.failed) connection->lingers = true; /* the rest of it has not been read */
    if (exchange->body.failed || exchange->arena.failed)
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
    else hf__route(exchange);
    proceed(exchange);
    return true;
}

void hf__connection_advance(struct hf_connection *connection)
{
    for (;;) {
        switch (connection->state) {
        case HF_CONNECTION_READING:
            flush(connection); /* 100 Continue, if it did not fit */
            if (!read_request(connection)) return;
            break;
        case HF_CONNECTION_WRITING:
            if (!flush(connection)) return;
            finish(connection);
            break;
        case HF_CONNECTION_STREAMING:
            if (!stream(connection)) return;
            break;
        case HF_CONNECTION_SHAKING:
        case HF_CONNECTION_WORKING:
        case HF_CONNECTION_LINGERING:
        case HF_CONNECTION_CLOSED: return;
        }
    }
}

/* ---- what comes in ---- */

/* Room for more, without what has been taken. */
static char *make_room(struct hf_connection *connection)
{
    struct hf_buf *in = &connection->in;
    if (connection->in_at > 0) {
        memmove(in->data, in->data + connection->in_at, in->len - connection->in_at);
        in->len -= connection->in_at;
        connection->in_at = 0;
    }
    /* A connection that has sent nothing yet costs little. */
    size_t wanted = in->cap == 0 ? 1024 : READ_MOST;
    return hf__buf_reserve(in, wanted) ? in->data + in->len : NULL;
}

static void read_in(struct hf_connection *connection)
{
    char *room = make_room(connection);
    if (!room) {
        hf__connection_close(connection);
        return;
    }
    size_t size = connection->in.cap - connection->in.len;
    if (size > READ_MOST) size = READ_MOST;
    ssize_t got = receive(connection, room, size);
    if (got > 0) {
        connection->in.len += (size_t)got;
        /* Less than there was room for: that was all, unless the end follows it. */
        connection->readable = (size_t)got == size || connection->hung_up || connection->tls;
        if (connection->readable) hf__server_ready(connection->server, connection);
    } else if (got == 0) {
        connection->ended = connection->hung_up = true;
        connection->readable = false;
    } else if (errno == EAGAIN) {
        connection->readable = false;
    } else if (errno == EINTR) {
        hf__server_ready(connection->server, connection);
    } else {
        hf__connection_close(connection);
    }
}

/* N4. */
static void throw_away(struct hf_connection *connection)
{
    char room[READ_MOST];
    ssize_t got = recv(connection->watch.fd, room, sizeof room, 0);
    if (got > 0) connection->thrown_away += (size_t)got;
    connection->readable = got > 0;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) ||
        connection->thrown_away > HF_BODY_PATIENCE)
        hf__connection_close(connection);
    else if (connection->readable) hf__server_ready(connection->server, connection);
}

static void shake(struct hf_connection *connection)
{
    int result = hf__tls_shake(connection->tls);
    if (result < 0) {
        hf__connection_close(connection);
    } else if (result > 0) {
        turn_to(connection, HF_CONNECTION_READING);
        read_in(connection);
    }
}

void hf__connection_receive(struct hf_connection *connection)
{
    switch (connection->state) {
    case HF_CONNECTION_SHAKING: shake(connection); break;
    case HF_CONNECTION_READING:
        if (connection->readable) read_in(connection);
        break;
    case HF_CONNECTION_LINGERING:
        if (connection->readable) throw_away(connection);
        break;
    case HF_CONNECTION_WORKING:
    case HF_CONNECTION_STREAMING:
        if (connection->suspended) tell_gone(connection);
        break;
    case HF_CONNECTION_WRITING:
    case HF_CONNECTION_CLOSED: break;
    }
}

static void on_ready(struct hf_watch *watch, uint32_t events)
{
    struct hf_connection *connection = HF_CONTAINER(watch, struct hf_connection, watch);
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->readable = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) connection->writable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->hung_up = true;
    hf__server_ready(connection->server, connection);
}

/* ---- life ---- */

struct hf_connection *hf__connection_new(struct hf_server *server, int fd,
                                         struct hf_address *address, bool for_operators)
{
    struct hf_connection *connection = hf__calloc(1, sizeof *connection);
    struct hf_tls *tls = for_operators ? NULL : server->service->tls;
    if (!connection) {
        close(fd);
        return NULL;
    }
    connection->watch = (struct hf_watch){fd, on_ready};
    connection->server = server;
    connection->address = address;
    connection->for_operators = for_operators;
    connection->writable = connection->readable = true;
    hf__list_init(&connection->node);
    hf__list_init(&connection->ready);
    hf__list_init(&connection->now);
    hf__buf_init(&connection->in, HF_HEADERS_MAX + 2 * READ_MOST);
    hf__buf_init(&connection->out, 2 * PIECE);
    turn_to(connection, tls ? HF_CONNECTION_SHAKING : HF_CONNECTION_READING);
    /* By edges: nothing has to be told to the kernel again. */
    if ((tls && !(connection->tls = hf__tls_open(tls, fd))) ||
        !hf__loop_watch(server->service->loop, &connection->watch,
                        EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, true)) {
        hf__connection_free(connection);
        return NULL;
    }
    return connection;
}

void hf__connection_free(struct hf_connection *connection)
{
    if (connection->tls) hf__tls_close(connection->tls);
    close(connection->watch.fd);
    hf__buf_free(&connection->in);
    hf__buf_free(&connection->out);
    hf__free(connection);
}

bool hf__connection_drop(struct hf_connection *connection)
{
    bool takes = connection->state == HF_CONNECTION_WRITING;
    struct pollfd ready = {.fd = connection->watch.fd, .events = takes ? POLLOUT : POLLIN};
    bool waits_for_us = poll(&ready, 1, 0) == 1 && ready.revents == ready.events;
    if (waits_for_us && !connection->excused) {
        connection->excused = true;
        connection->readable = connection->writable = true;
        hf__server_ready(connection->server, connection);
        return false;
    }
    connection->broken = true;
    hf__connection_close(connection);
    return true;
}

/* ---- what routes ask ---- */

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
