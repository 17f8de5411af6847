/*
 * The server: its ports, its connections, and the rounds in which they, the client and the store are
 * served, on one loop.
 *
 * A round reads what has come in on all connections that are ready; then it hands the store's
 * answers to the client, works on the requests, and gives the store what came of them, together. So
 * a round costs one wake-up of the store's writer and one of the loop, however many requests it has,
 * and all reads of a round share one look at the file: it begins after the last of them had come in.
 */
#ifndef HF_SERVICE_HTTP_SERVER_H
#define HF_SERVICE_HTTP_SERVER_H

#include "base/error.h"
#include "base/text.h"
#include "service/http/connection.h"

struct hf_service;

/* A port, and who comes in there. */
struct hf_gate {
    struct hf_watch watch; /* fd -1: there is none */
    struct hf_server *server;
    bool for_operators;
    bool watched;
    unsigned connections;
    unsigned most;
    unsigned most_per_address; /* 0: no limit */
};

struct hf_server {
    struct hf_service *service;
    struct hf_gate gate;
    struct hf_gate operators;
    struct hf_addresses addresses;
    struct hf_list connections;
    struct hf_list awaited;   /* those whose turn it is, the longest waited for first; … */
    struct hf_list lingering; /* … and those that are only listened to */
    struct hf_list ready;
    struct hf_list later;   /* likewise, but long: some in each round */
    struct hf_list leaving; /* likewise, but nobody waits for them */
    struct hf_list spent;   /* long exchanges that have ended */
    struct hf_list dead;
    unsigned dead_count;
    struct hf_timer round;
    struct hf_timer sweep;
    struct hf_watch client;
    struct hf_sleeper sleeper;
    bool in_round;
    int64_t late_us;
    int64_t date_s;
    char date[HF_HTTP_DATE_SIZE];
};

struct hf_server_options {
    int listen_fd;  /* the server's, if it starts */
    int metrics_fd; /* likewise, for what operators ask; 0: it has no port of its own */
};
int hf__server_start(struct hf_service *service, const struct hf_server_options *options,
                     struct hf_server **ret, struct hf_error *reterr);
/* Whether what operators ask has a port of its own. */
bool hf__server_has_operators(const struct hf_server *server);
/* No new connections, but those of operators. */
void hf__server_quiesce(struct hf_server *server);
/* Callers who do not read their answers are not waited for any longer. */
void hf__server_cut_short(struct hf_server *server);
/*
 * No connections; the client is driven on. False: an exchange is still at a route, or at the store,
 * and nothing has happened.
 */
bool hf__server_close(struct hf_server *server);
void hf__server_stop(struct hf_server *server);

/* ---- for connections ---- */

/* There is something to do for it in the next round. */
void hf__server_ready(struct hf_server *server, struct hf_connection *connection);
/* It is the caller's turn, from now on. */
void hf__server_await(struct hf_server *server, struct hf_connection *connection, bool lingers);
/* It has been closed. */
void hf__server_forget(struct hf_server *server, struct hf_connection *connection);
/* It has ended, and is long: giving a megabyte back to the kernel takes 0.1 ms. */
void hf__server_free_later(struct hf_server *server, struct hf_exchange *exchange);
/* As in the header of that name: the store's time, if it says it. */
const char *hf__server_date(struct hf_server *server);

#endif
