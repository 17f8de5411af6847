#include "service/intake.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/text.h"
#include "service/socket.h"

/*
 * libmicrohttpd takes no answer in the middle of a body. So it is written past it, and what the
 * caller still sends is read and thrown away for a while: a connection that is closed with unread
 * data takes the answer with it.
 */
static void last_word(struct hf_exchange *exchange, int status, const char *phrase,
                      const char *headers, const char *body)
{
    char text[512];
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                       "%sConnection: close\r\n\r\n%s",
                       status, phrase, strlen(body), headers, body);
    const union MHD_ConnectionInfo *secure =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    exchange->status = status;
    exchange->cut_off = true;
    hf__buf_free(&exchange->body);
    hf__intake_done(exchange);
    if (exchange->service->tls) {
        if (!secure || !secure->tls_session) return;
        gnutls_record_send(secure->tls_session, text, (size_t)len);
        gnutls_bye(secure->tls_session, GNUTLS_SHUT_WR);
    } else if (exchange->socket &&
               send(exchange->socket->fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == len) {
        shutdown(exchange->socket->fd, SHUT_WR);
    }
}

static int64_t *of_address(struct hf_exchange *exchange)
{
    struct hf_service *service = exchange->service;
    return &service->body_bytes_of[hf__limit_place(service, exchange->remote, HF_ADDRESS_BUCKETS)];
}

static bool keep(struct hf_exchange *exchange)
{
    size_t counted = exchange->received > HF_SMALL ? exchange->received - HF_SMALL : 0;
    int64_t more = (int64_t)(counted - exchange->kept); /* `received` has grown already */
    exchange->kept = counted;
    if (more == 0) return true;
    int64_t all = __atomic_add_fetch(&exchange->service->body_bytes, more, __ATOMIC_RELAXED);
    int64_t own = __atomic_add_fetch(of_address(exchange), more, __ATOMIC_RELAXED);
    return all <= HF_BODIES_MAX && own <= HF_BODIES_MAX_OF_ADDRESS;
}

void hf__intake_done(struct hf_exchange *exchange)
{
    int64_t kept = (int64_t)exchange->kept;
    exchange->kept = 0;
    if (kept == 0) return;
    __atomic_fetch_sub(&exchange->service->body_bytes, kept, __ATOMIC_RELAXED);
    __atomic_fetch_sub(of_address(exchange), kept, __ATOMIC_RELAXED);
}

static void refuse_too_large(struct hf_exchange *exchange)
{
    exchange->error = "too-large";
    last_word(exchange, 413, "Content Too Large", "",
              "{\"error\":\"too-large\",\"message\":\"a body has at most 1048576 bytes\"}\n");
}

bool hf__intake_begin(struct hf_exchange *exchange)
{
    int64_t length;
    const char *text = hf__exchange_header(exchange, "Content-Length");
    exchange->two_lengths = text && hf__exchange_header(exchange, "Transfer-Encoding");
    if (exchange->two_lengths) return false;
    if (!text || !hf__parse_int64(hf__slice_str(text), &length) || length <= HF_BODY_MAX)
        return true;
    exchange->too_large = length > HF_BODY_PATIENCE;
    if (exchange->too_large) return false;
    refuse_too_large(exchange);
    return true;
}

bool hf__intake_add(struct hf_exchange *exchange, const char *bytes, size_t size)
{
    exchange->received += size;
    if (exchange->cut_off) return exchange->received <= HF_BODY_PATIENCE;
    if (exchange->received > HF_BODY_MAX) {
        refuse_too_large(exchange);
    } else if (!keep(exchange)) {
        hf__count(&exchange->service->metrics.refused_limit);
        exchange->error = "too-many-bodies";
        last_word(exchange, 503, "Service Unavailable", "Retry-After: 1\r\n",
                  "{\"error\":\"too-many-bodies\",\"message\":\"too many requests are being "
                  "received; try again\"}\n");
    } else {
        hf__buf_add(&exchange->body, bytes, size);
    }
    return true;
}
