/*
 * One connection: requests come in, are handed to their routes, and are answered, one after the
 * other. All of it on the service's loop.
 *
 * Invariants
 * N1  A request is bounded before it is looked at: head, body, time.
 * N2  While a request is being worked on nothing more is read: a caller that sends faster than it is
 *     answered waits. What it hangs up is noticed all the same.
 * N3  A connection whose exchange a route has stays until that is answered.
 * N4  A caller that is refused in the middle of its request gets the answer: what it still sends is
 *     read and thrown away for a while, since a connection that is closed with unread bytes takes
 *     the answer with it.
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
    HF_CONNECTION_SHAKING, /* hands, by TLS */
    HF_CONNECTION_READING,
    HF_CONNECTION_WORKING, /* a route has the exchange */
    HF_CONNECTION_WRITING,
    HF_CONNECTION_STREAMING, /* the answer does not end */
    HF_CONNECTION_LINGERING, /* N4 */
    HF_CONNECTION_CLOSED,
};

struct hf_connection {
    struct hf_watch watch;
    struct hf_list node;  /* of all, or of those that are to be freed */
    struct hf_list ready; /* there is something to do in the next round … */
    struct hf_list now;   /* … or in this one */
    struct hf_list turn;  /* while it is the caller's; see hf__server_await */
    struct hf_server *server;
    struct hf_address *address;
    void *tls; /* NULL: plain */
    enum hf_connection_state state;
    bool for_operators;
    bool readable; /* as far as is known, as are the following */
    bool writable;
    bool hung_up;   /* the caller sends nothing more … */
    bool ended;     /* … and that has been read */
    bool broken;    /* nothing can be sent */
    bool excused;   /* late, but we were, too: once */
    bool lingers;   /* after this answer (N4) */
    bool closes;    /* after this answer */
    bool has_more;  /* a request may have come in behind the last one */
    bool suspended; /* its exchange waits for hf__exchange_done, or a stream for something to say */
    int64_t since_us; /* when the caller's turn began */
    struct hf_buf in; /* what has come in … */
    size_t in_at;     /* … and so much of it has been taken */
    size_t scanned;   /* for the end of a head */
    size_t thrown_away;
    struct hf_chunks chunks;
    struct hf_exchange *exchange; /* NULL: no head has come in */
    struct hf_buf out;            /* the head of the answer, or a piece of a stream … */
    size_t out_at;                /* … and so much of it has been sent */
    struct hf_slice body;         /* what follows */
};

/* The descriptor is the connection's, also if it cannot be made. */
struct hf_connection *hf__connection_new(struct hf_server *server, int fd,
                                         struct hf_address *address, bool for_operators);
/* A long body is coming in, or a long answer going out. */
bool hf__connection_is_long(const struct hf_connection *connection);
/* Reads what there is. Before anything is worked on: see hf__store_cork. */
void hf__connection_receive(struct hf_connection *connection);
/* Does what can be done without waiting. */
void hf__connection_advance(struct hf_connection *connection);
/* Its time is up. False: not yet, since it is we who have not read or written. */
bool hf__connection_drop(struct hf_connection *connection);
/* It is not to be used any more; freed at the end of the round. */
void hf__connection_close(struct hf_connection *connection);
void hf__connection_free(struct hf_connection *connection);

enum { HF_PIECE = 4096 }; /* of a stream */

/* ---- exchange.c ---- */

struct hf_head;
/* The connection's; `resume` is called on the loop when it goes on. NULL: out of memory. */
struct hf_exchange *hf__exchange_new(struct hf_connection *connection,
                                     void (*resume)(struct hf_task *task));
/* Its head has been parsed. */
void hf__exchange_set_head(struct hf_exchange *exchange, const struct hf_head *head);
/* What it takes of the budgets, in all and at its address. */
void hf__exchange_count_body(struct hf_exchange *exchange, int64_t more);
void hf__exchange_count_answer(struct hf_exchange *exchange, int64_t more);
/* It has ended. A long one is freed later, by the second. */
void hf__exchange_free(struct hf_exchange *exchange);
void hf__exchange_destroy(struct hf_exchange *exchange);

/* ---- response.c ---- */

/* Puts the answer where it is sent from; it may turn out to be another one. */
void hf__response_put(struct hf_connection *connection, struct hf_exchange *exchange);

#endif
