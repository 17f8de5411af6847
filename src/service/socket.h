/*
 * The connections of the server: which are late, and whose caller has hung up.
 *
 * A connection has a limited time to bring a request, and as long to take its answer; after that it
 * is shut down, unless the service itself has not read or written what it could. While its request
 * is being worked on no time counts, and it is watched for a hang-up if a route wants to know.
 */
#ifndef HF_SERVICE_SOCKET_H
#define HF_SERVICE_SOCKET_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include "service/exchange.h"

enum hf_turn {
    HF_TURN_TO_ASK, /* the caller's: a request is to come in */
    HF_TURN_OURS,
    HF_TURN_TO_TAKE, /* the caller's: there is an answer */
};

struct hf_socket {
    struct hf_list node;
    int fd;
    uint32_t parking; /* which one: an event of an earlier one is void */
    int64_t since_us; /* atomic: when what it is late with began; -1: it is our turn */
    int turn;         /* atomic: enum hf_turn */
    struct hf_exchange *parked;
};

struct hf_sockets {
    pthread_mutex_t mutex;
    struct hf_list all;
    struct hf_socket **by_fd;
    size_t by_fd_size;
    int epoll_fd;
    int wake_fd;
    int64_t late_us;
    uint64_t *dropped; /* counts */
    pthread_t thread;
    bool has_thread;
    bool stopping;
};

int hf__sockets_start(struct hf_sockets *sockets, int64_t late_ms, uint64_t *dropped,
                      struct hf_error *reterr);
/* All connections must be gone. */
void hf__sockets_stop(struct hf_sockets *sockets);
struct hf_socket *hf__socket_add(struct hf_sockets *sockets, int fd);
void hf__socket_remove(struct hf_sockets *sockets, struct hf_socket *socket);
/* Whose turn it is. */
void hf__socket_turn(struct hf_socket *socket, enum hf_turn turn);
/* From now on, until unparked, exchange->gone is called when the caller hangs up. */
void hf__socket_park(struct hf_sockets *sockets, struct hf_exchange *exchange);
void hf__socket_unpark(struct hf_sockets *sockets, struct hf_exchange *exchange);

#endif
