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
    THROWN_MOST = 64 * 1024,
    SEND_MOST = 32 * 1024, /* of one answer, while others wait */
    KEPT_ROOM = 4096,      /* between two requests */
    EMPTY_LINES_MOST = 4,
};

enum exchange_state { RUNNING, SUSPENDED, READY };

/* ---- bytes ---- */

static ssize_t receive(struct hf_connection *connection, void *room, size_t size)
{
    if (connection->tls) return hf__tls_receive(connection->tls, room, size);
    return recv(connection->watch.fd, room, size, 0);
}

/* Sends some of the rest, in one call if possible. */
static ssize_t send_some(struct hf_connection *connection)
{
    struct hf_slice first = hf__slice_skip(hf__buf_view(&connection->out), connection->out_at);
    struct hf_slice then = connection->body;
    if (then.len > SEND_MOST) then.len = SEND_MOST;
    if (connection->tls) {
        struct hf_slice next = first.len ? first : then;
        return hf__tls_send(connection->tls, next.ptr, next.len);
    }
    struct iovec pieces[2] = {{(void *)(uintptr_t)first.ptr, first.len},
                              {(void *)(uintptr_t)then.ptr, then.len}};
    struct msghdr message = {.msg_iov = first.len ? pieces : pieces + 1,
                             .msg_iovlen = (first.len ? 1u : 0u) + (then.len ? 1 : 0)};
    return sendmsg(connection->watch.fd, &message, MSG_NOSIGNAL);
}

static bool has_unsent(const struct hf_connection *connection)
{
    return connection->out_at < connection->out.len || connection->body.len > 0;
}

/* True: all has been sent, or nothing can be. Of a long answer it sends a part, then others have
 * their turn. */
static bool flush(struct hf_connection *connection)
{
    size_t all = 0;
    while (has_unsent(connection) && !connection->broken) {
        if (!connection->writable) return false;
        if (all >= SEND_MOST) {
            hf__server_ready(connection->server, connection);
            return false;
        }
        ssize_t sent = send_some(connection);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) connection->writable = false;
        else if (sent < 0) connection->broken = true;
        else {
            size_t of_out = connection->out.len - connection->out_at;
            if ((size_t)sent < of_out) of_out = (size_t)sent;
            all += (size_t)sent;
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

/* Its answer was sent, or could not be. */
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
    hf__exchange_free(exchange);
}

/* ---- waiting for the caller, or working ---- */

static void await(struct hf_connection *connection)
{
    connection->since_us = hf__service_now_us(connection->server->service);
    hf__server_await(connection->server, connection, connection->state == HF_CONNECTION_LINGERING);
}

static void turn_to(struct hf_connection *connection, enum hf_connection_state state)
{
    bool ours = state == HF_CONNECTION_WORKING || state == HF_CONNECTION_STREAMING;
    connection->state = state;
    connection->excused = false;
    if (ours) hf__list_remove(&connection->turn);
    else await(connection);
}

void hf__connection_close(struct hf_connection *connection)
{
    if (connection->state == HF_CONNECTION_CLOSED) return;
    struct hf_exchange *exchange = connection->exchange;
    connection->state = HF_CONNECTION_CLOSED;
    if (exchange && exchange->begun) complete(connection, false);
    else if (exchange) hf__exchange_free(exchange);
    connection->exchange = NULL;
    hf__server_forget(connection->server, connection);
}

/* Prepares for the next request, or ends the connection. */
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
        connection->has_more = unread(connection).len > 0;
        if (connection->readable || connection->hung_up || connection->has_more)
            hf__server_ready(connection->server, connection);
    }
}

/* ---- answering ---- */

static bool read_stream(struct hf_connection *connection);

static void respond(struct hf_exchange *exchange)
{
    struct hf_connection *connection = exchange->connection;
    bool draining = __atomic_load_n(&exchange->service->draining, __ATOMIC_RELAXED);
    if (draining && !connection->closes) connection->lingers = true;
    if (exchange->stream && exchange->head->is_old) connection->closes = true;
    hf__response_put(connection, exchange);
    bool streams = exchange->stream && !exchange->is_head_only;
    turn_to(connection, streams ? HF_CONNECTION_STREAMING : HF_CONNECTION_WRITING);
    if (streams && !connection->broken) read_stream(connection); /* sent together with the head */
}

/* ---- at a route ---- */

static void tell_gone(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    if (!connection->hung_up || !exchange || !exchange->gone || exchange->was_told_gone) return;
    exchange->was_told_gone = true;
    exchange->gone(exchange);
}

/* Runs pending steps; then it is answered, or waits. */
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

/* A stream has news. From any thread. */
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

/* Adds the next piece of a stream to the output. False: there is none now. */
static bool read_stream(struct hf_connection *connection)
{
    struct hf_exchange *exchange = connection->exchange;
    struct hf_buf *out = &connection->out;
    char room[HF_PIECE];
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

/* False: it waits for the caller, or for news. */
static bool stream(struct hf_connection *connection)
{
    if (!flush(connection) || connection->suspended) return false;
    hf__buf_clear(&connection->out);
    connection->out_at = 0;
    if (!connection->broken) return read_stream(connection);
    turn_to(connection, HF_CONNECTION_WRITING); /* this ends it */
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

/* Answers before the whole request has been received (N4). */
static void refuse(struct hf_connection *connection, int status, const char *name,
                   const char *message)
{
    struct hf_exchange *exchange = connection->exchange;
    connection->lingers = true;
    hf__buf_free(&exchange->body);
    hf__exchange_count_body(exchange, -exchange->kept);
    begin(connection);
    hf__answer_error(exchange, status, name, "%s", message);
    proceed(exchange);
}

static void refuse_too_large(struct hf_connection *connection)
{
    char message[64];
    snprintf(message, sizeof message, "a body must have at most %zu bytes",
             connection->exchange->body_most);
    refuse(connection, 413, "too-large", message);
}

/* Reserves much at once: growing in small steps is slower than reading. Pages that are not written
 * to cost nothing. */
static void reserve_body(struct hf_exchange *exchange, size_t least)
{
    struct hf_buf *body = &exchange->body;
    if (least <= body->cap) return;
    size_t all = exchange->head->chunked ? exchange->body_most : (size_t)exchange->head->length;
    size_t wanted = least < HF_BODY_MAX ? HF_BODY_MAX : 2 * least;
    if (wanted > all) wanted = all;
    hf__buf_reserve(body, wanted - body->len);
}

/* False: it was refused. */
static bool keep(struct hf_connection *connection, struct hf_slice bytes)
{
    struct hf_exchange *exchange = connection->exchange;
    const struct hf_service *service = exchange->service;
    if (exchange->body.len + bytes.len > exchange->body_most) {
        refuse_too_large(connection);
        return false;
    }
    if (exchange->body.len + bytes.len > HF_SMALL)
        reserve_body(exchange, exchange->body.len + bytes.len);
    hf__buf_slice(&exchange->body, bytes);
    int64_t counted = (int64_t)exchange->body.len - HF_SMALL;
    if (counted > exchange->kept) hf__exchange_count_body(exchange, counted - exchange->kept);
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
    else if (result == HF_CHUNKS_MORE &&
             connection->chunks.left > (int64_t)connection->exchange->body_most)
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

/* The head has been received; false: it was refused, or there is no memory. */
static bool read_head(struct hf_connection *connection, size_t size)
{
    struct hf_exchange *exchange = hf__exchange_new(connection, resume_here);
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
    memcpy(head, &parsed, head_size); /* without unused fields */
    hf__exchange_set_head(exchange, head);
    connection->closes = head->closes;
    if (head->length < 0 && !head->chunked) head->length = 0;
    if (head->length > (int64_t)exchange->body_most) {
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

bool hf__connection_is_long(const struct hf_connection *connection)
{
    if (connection->state == HF_CONNECTION_WRITING) return connection->body.len > SEND_MOST;
    return connection->state == HF_CONNECTION_READING && connection->exchange &&
           connection->exchange->body.len > HF_SMALL;
}

void hf__connection_advance(struct hf_connection *connection)
{
    for (;;) {
        switch (connection->state) {
        case HF_CONNECTION_READING:
            flush(connection); /* 100 Continue, if it did not fit */
            connection->has_more = false;
            if (read_request(connection)) {
                if (connection->state != HF_CONNECTION_WRITING) break;
                hf__server_send_soon(connection->server, connection);
                return;
            }
            if (connection->state == HF_CONNECTION_READING && connection->readable)
                hf__server_ready(connection->server, connection);
            return;
        case HF_CONNECTION_WRITING:
            if (flush(connection)) finish(connection);
            return; /* the next request is left to the next round */
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

/* ---- receiving ---- */

/* Makes room for more input, and drops what has been used. */
static char *make_room(struct hf_connection *connection)
{
    struct hf_buf *in = &connection->in;
    if (connection->in_at > 0) {
        memmove(in->data, in->data + connection->in_at, in->len - connection->in_at);
        in->len -= connection->in_at;
        connection->in_at = 0;
    }
    /* A connection that has sent nothing yet takes little memory. */
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
        /* Less than the room: that was all, unless the end of input follows. */
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

/* N4. For TCP the kernel does not even copy the data. */
static void throw_away(struct hf_connection *connection)
{
    char room[THROWN_MOST];
    ssize_t got = recv(connection->watch.fd, room, sizeof room, MSG_TRUNC);
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
        if (connection->readable && !connection->has_more) read_in(connection);
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
    hf__list_init(&connection->turn);
    hf__buf_init(&connection->in, HF_HEADERS_MAX + 2 * READ_MOST);
    hf__buf_init(&connection->out, 2 * HF_PIECE);
    turn_to(connection, tls ? HF_CONNECTION_SHAKING : HF_CONNECTION_READING);
    /* Edge-triggered: nothing has to be changed in the kernel later. */
    if ((tls && !(connection->tls = hf__tls_open(tls, fd))) ||
        !hf__loop_watch(server->service->loop, &connection->watch,
                        EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, true)) {
        hf__list_remove(&connection->turn);
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
        await(connection);
        hf__server_ready(connection->server, connection);
        return false;
    }
    connection->broken = true;
    hf__connection_close(connection);
    return true;
}
