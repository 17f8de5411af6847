/*
 * The server: its ports, its connections, and the rounds in which they, the client and the store
 * are served, on one loop.
 *
 * A round reads from all connections that are ready; then it hands the store's answers to the
 * client, processes the requests, and submits the resulting operations to the store together. So a
 * round costs one wake-up of the store's writer and one of the loop, however many requests it has,
 * and all reads of a round share one read of the file, which begins after the last of them arrived.
 */
#ifndef HF_SERVICE_HTTP_SERVER_H
#define HF_SERVICE_HTTP_SERVER_H

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "service/http/connection.h"

struct hf_service;

/* A port, and its connections. */
struct hf_gate {
    struct hf_watch watch; /* fd -1: none */
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
    struct hf_list awaited;   /* waiting for their callers, the longest first; … */
    struct hf_list lingering; /* … and those whose input is discarded (N4) */
    struct hf_list ready;
    struct hf_list later;   /* ready, but long: some in each round */
    struct hf_list leaving; /* ready, but their callers do not wait */
    struct hf_list unsent;  /* answered in this round */
    unsigned unsent_count;
    struct hf_list spent; /* long exchanges that have ended */
    struct hf_list dead;
    unsigned dead_count;
    struct hf_timer round;
    struct hf_timer sweep;
    struct hf_watch client;
    struct hf_sleeper sleeper;
    bool in_round;
    char id[HF_ID_SIZE]; /* for ids of requests */
    uint64_t requests;   /* that have one */
    int64_t late_us;
    int64_t date_s;
    char date[HF_HTTP_DATE_SIZE];
};

struct hf_server_options {
    int listen_fd;  /* owned by the server, if it starts */
    int metrics_fd; /* likewise, for operators' requests; 0: no port of its own */
};
int hf__server_start(struct hf_service *service, const struct hf_server_options *options,
                     struct hf_server **ret, struct hf_error *reterr);
/* Whether operators' requests have a port of their own. */
bool hf__server_has_operators(const struct hf_server *server);
/* Accepts no new connections, except from operators. */
void hf__server_quiesce(struct hf_server *server);
/* No longer waits for callers that do not read their answers. */
void hf__server_cut_short(struct hf_server *server);
/*
 * Closes all connections; the client is still driven. False: an exchange is still at a route, or at
 * the store, and nothing was closed.
 */
bool hf__server_close(struct hf_server *server);
void hf__server_stop(struct hf_server *server);

/* ---- for connections ---- */

/* There is work for it in the next round. */
void hf__server_ready(struct hf_server *server, struct hf_connection *connection);
/* It has an answer, to be sent in this round. */
void hf__server_send_soon(struct hf_server *server, struct hf_connection *connection);
/* It waits for the caller, from now on. */
void hf__server_await(struct hf_server *server, struct hf_connection *connection, bool lingers);
/* It has been closed. */
void hf__server_forget(struct hf_server *server, struct hf_connection *connection);
/* It has ended, and is long: returning a megabyte to the kernel takes 0.1 ms. */
void hf__server_free_later(struct hf_server *server, struct hf_exchange *exchange);
/* For the Date header: the store's time, if it reports one. */
const char *hf__server_date(struct hf_server *server);

#endif
