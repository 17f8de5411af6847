/*
 * One connection: it reads requests, hands them to their routes and sends the answers, one at a
 * time. All of it on the service's loop.
 *
 * Invariants
 * N1  A request is bounded before it is parsed: head, body, time.
 * N2  While a request is being processed nothing more is read: a caller that sends faster than it
 *     is answered waits. If it hangs up, that is noticed all the same.
 * N3  A connection whose exchange is at a route exists until that is answered.
 * N4  A caller that is refused in the middle of its request gets the answer: what it still sends is
 *     read and discarded for a while, since closing a connection with unread bytes would discard
 *     the answer as well.
 */
#ifndef HF_SERVICE_HTTP_CONNECTION_H
#define HF_SERVICE_HTTP_CONNECTION_H

#include "base/buf.h"
#include "runtime/loop.h"
#include "service/http/address.h"
#include "service/http/chunks.h"

struct hf_exchange;
struct hf_server;

enum hf_connection_state {
    HF_CONNECTION_SHAKING, /* the TLS handshake */
    HF_CONNECTION_READING,
    HF_CONNECTION_WORKING, /* a route has the exchange */
    HF_CONNECTION_WRITING,
    HF_CONNECTION_STREAMING, /* the answer has no end */
    HF_CONNECTION_LINGERING, /* N4 */
    HF_CONNECTION_CLOSED,
};

struct hf_connection {
    struct hf_watch watch;
    struct hf_list node;  /* of all connections, or of those to be freed */
    struct hf_list ready; /* there is work for the next round … */
    struct hf_list now;   /* … or in this one */
    struct hf_list turn;  /* while waiting for the caller; see hf__server_await */
    struct hf_server *server;
    struct hf_address *address;
    void *tls; /* NULL: no TLS */
    enum hf_connection_state state;
    bool for_operators;
    bool readable; /* as far as is known, like the following */
    bool writable;
    bool hung_up;     /* the caller sends nothing more … */
    bool ended;       /* … and that has been read */
    bool broken;      /* nothing can be sent */
    bool excused;     /* late, but so was the service: excused once */
    bool lingers;     /* after this answer (N4) */
    bool closes;      /* after this answer */
    bool has_more;    /* another request may have been received after the last one */
    bool suspended;   /* its exchange waits for hf__exchange_done, or its stream for an event */
    int64_t since_us; /* when waiting for the caller began */
    struct hf_buf in; /* bytes received … */
    size_t in_at;     /* … of which these have been used */
    size_t scanned;   /* bytes searched for the end of a head */
    size_t thrown_away;
    struct hf_chunks chunks;
    struct hf_exchange *exchange; /* NULL: no head has been received */
    struct hf_buf out;            /* the head of the answer, or a piece of a stream … */
    size_t out_at;                /* … of which these bytes have been sent */
    struct hf_slice body;         /* the rest of the answer */
};

/* Owns the descriptor, even on failure. */
struct hf_connection *hf__connection_new(struct hf_server *server, int fd,
                                         struct hf_address *address, bool for_operators);
/* A long body is being received, or a long answer sent. */
bool hf__connection_is_long(const struct hf_connection *connection);
/* Reads what has arrived. Call before any request is processed: see hf__store_cork. */
void hf__connection_receive(struct hf_connection *connection);
/* Does all that is possible without waiting. */
void hf__connection_advance(struct hf_connection *connection);
/* Its time is up. False: not yet, since the service has not read or written. */
bool hf__connection_drop(struct hf_connection *connection);
/* Do not use it afterwards; it is freed at the end of the round. */
void hf__connection_close(struct hf_connection *connection);
void hf__connection_free(struct hf_connection *connection);

enum { HF_PIECE = 4096 }; /* of a stream */

/* ---- exchange.c ---- */

struct hf_head;
/* Owned by the connection; `resume` is called on the loop to continue. NULL: out of memory. */
struct hf_exchange *hf__exchange_new(struct hf_connection *connection,
                                     void (*resume)(struct hf_task *task));
/* Its head has been parsed. */
void hf__exchange_set_head(struct hf_exchange *exchange, const struct hf_head *head);
/* Counts it against the budgets, of the service and of its address. */
void hf__exchange_count_body(struct hf_exchange *exchange, int64_t more);
void hf__exchange_count_answer(struct hf_exchange *exchange, int64_t more);
/* It has ended. Long ones are freed later, by the second function. */
void hf__exchange_free(struct hf_exchange *exchange);
void hf__exchange_destroy(struct hf_exchange *exchange);

/* ---- response.c ---- */

/* Prepares the answer for sending; an error may replace it. */
void hf__response_put(struct hf_connection *connection, struct hf_exchange *exchange);

#endif
