#include "service/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "service/service.h"

enum {
    SWEEP_US = 500000,
    SWEEP_ON_US = 2000, /* while there is more to drop */
    LINGER_US = 5000000,
    /* Events that come in crowds are handled in portions, so that requests need not wait. */
    ACCEPTS_MOST = 16,
    DROPS_MOST = 16,
    LEAVERS_MOST = 8,
    FREED_LEAST = 8,
    LATER_SHARE = 8, /* one long one for this number of short ones, and at least one */
    SENT_TOGETHER = 8,
    OPERATORS = 100, /* connections */
    OPERATORS_OF_ADDRESS = 50,
};

/* ---- time ---- */

/*
 * Clients of the DynamoDB API learn the store's time from it: it is the engine's time, which may
 * differ from the wall clock.
 */
const char *hf__server_date(struct hf_server *server)
{
    const struct hf_store *store = server->service->store;
    int64_t now_us = hf__store_now_unix_us(store);
    if (!now_us) now_us = hf__clock_wall_us(store->clock);
    int64_t now_s = now_us / 1000000;
    if (now_s != server->date_s) {
        server->date_s = now_s;
        hf__print_http_date(now_s, server->date);
    }
    return server->date;
}

/* ---- rounds ---- */

static void begin_soon(struct hf_server *server)
{
    if (!server->in_round) hf__loop_timer_set(server->service->loop, &server->round, 0);
}

/* Short requests do not wait for long bodies and answers, nor for cleaning up. */
static struct hf_list *list_for(struct hf_server *server, const struct hf_connection *connection)
{
    if (connection->hung_up || connection->state == HF_CONNECTION_LINGERING)
        return &server->leaving;
    return hf__connection_is_long(connection) ? &server->later : &server->ready;
}

void hf__server_ready(struct hf_server *server, struct hf_connection *connection)
{
    if (connection->state == HF_CONNECTION_CLOSED || !hf__list_empty(&connection->ready)) return;
    hf__list_append(list_for(server, connection), &connection->ready);
    begin_soon(server);
}

/* Returns the number moved. */
static int move(struct hf_list *to, struct hf_list *from, int most)
{
    struct hf_list *node;
    int moved = 0;
    for (; moved < most && (node = hf__list_pop(from)) != NULL; moved++) hf__list_append(to, node);
    return moved;
}

/* The work of a round: all that is ready, and some of what can wait. */
static void take_ready(struct hf_server *server, struct hf_list *ret)
{
    int count = move(ret, &server->ready, INT_MAX);
    move(ret, &server->later, 1 + count / LATER_SHARE);
    move(ret, &server->leaving, LEAVERS_MOST);
}

void hf__server_free_later(struct hf_server *server, struct hf_exchange *exchange)
{
    hf__list_append(&server->spent, &exchange->spent);
    begin_soon(server);
}

/* A long exchange takes many rounds to receive: freeing one per round is enough. False: none. */
static bool free_spent(struct hf_server *server)
{
    struct hf_list *node = hf__list_pop(&server->spent);
    if (node) hf__exchange_destroy(HF_CONTAINER(node, struct hf_exchange, spent));
    return node != NULL;
}

static void free_dead(struct hf_server *server, unsigned most)
{
    struct hf_list *node;
    for (unsigned i = 0; i < most && (node = hf__list_pop(&server->dead)) != NULL; i++) {
        hf__connection_free(HF_CONTAINER(node, struct hf_connection, node));
        server->dead_count--;
    }
}

static void free_all(struct hf_server *server)
{
    free_dead(server, UINT_MAX);
    while (free_spent(server)) continue;
}

void hf__server_send_soon(struct hf_server *server, struct hf_connection *connection)
{
    hf__list_append(&server->unsent, &connection->now);
    server->unsent_count++;
}

/*
 * Answers that took no waiting. Several at once, since what the first one wakes up stays awake for the
 * others: to wake somebody takes as long as to send.
 */
static void send_unsent(struct hf_server *server)
{
    server->unsent_count = 0;
    for (struct hf_list *node; (node = hf__list_pop(&server->unsent)) != NULL;)
        hf__connection_advance(HF_CONTAINER(node, struct hf_connection, now));
}

/* Sends the answers of this round; connections with more to read wait for the next. */
static void send_answers(struct hf_server *server)
{
    struct hf_list answered;
    hf__list_init(&answered);
    hf__list_splice(&answered, &server->ready);
    for (struct hf_list *node; (node = hf__list_pop(&answered)) != NULL;) {
        struct hf_connection *connection = HF_CONTAINER(node, struct hf_connection, ready);
        if (connection->state != HF_CONNECTION_READING) hf__connection_advance(connection);
        bool reads = connection->state == HF_CONNECTION_READING ||
                     connection->state == HF_CONNECTION_LINGERING;
        if (reads && (connection->readable || connection->has_more || connection->ended))
            hf__server_ready(server, connection);
    }
}

static void run_round(struct hf_timer *timer)
{
    struct hf_server *server = HF_CONTAINER(timer, struct hf_server, round);
    struct hf_service *service = server->service;
    struct hf_list come_in, now;
    hf__list_init(&come_in);
    hf__list_init(&now);
    server->in_round = true;
    take_ready(server, &come_in);
    for (struct hf_list *node; (node = hf__list_pop(&come_in)) != NULL;) {
        struct hf_connection *connection = HF_CONTAINER(node, struct hf_connection, ready);
        hf__connection_receive(connection);
        if (connection->state != HF_CONNECTION_CLOSED) hf__list_append(&now, &connection->now);
    }
    hf__store_cork(service->store, true);
    hf_client_process(service->client, NULL);
    for (struct hf_list *node; (node = hf__list_pop(&now)) != NULL;) {
        hf__connection_advance(HF_CONTAINER(node, struct hf_connection, now));
        if (server->unsent_count >= SENT_TOGETHER) send_unsent(server);
    }
    send_unsent(server);
    send_answers(server);
    hf__store_cork(service->store, false);
    free_dead(server, FREED_LEAST + server->dead_count / 8); /* so that they do not pile up */
    free_spent(server);
    server->in_round = false;
    /* Only long ones are left: let the store's writer run before our time slice is used up. */
    if (hf__list_empty(&server->ready) && !hf__list_empty(&server->later)) sched_yield();
    bool idle = hf__list_empty(&server->ready) && hf__list_empty(&server->later) &&
                hf__list_empty(&server->leaving) && hf__list_empty(&server->dead) &&
                hf__list_empty(&server->spent);
    int64_t ms = idle ? hf_client_timeout_ms(service->client) : 0;
    hf__loop_timer_set(service->loop, timer, hf__loop_now_us(service->loop) + ms * 1000);
}

static void client_ready(struct hf_watch *watch, uint32_t events)
{
    struct hf_server *server = HF_CONTAINER(watch, struct hf_server, client);
    (void)events;
    hf__mailbox_hush(hf__client_mailbox(server->service->client));
    begin_soon(server);
}

/* The store's answers need not wake the loop while it is awake. */
static bool may_sleep(struct hf_sleeper *sleeper)
{
    struct hf_server *server = HF_CONTAINER(sleeper, struct hf_server, sleeper);
    bool may = hf__mailbox_leave(hf__client_mailbox(server->service->client));
    if (!may) begin_soon(server);
    return may;
}

static void woke(struct hf_sleeper *sleeper)
{
    struct hf_server *server = HF_CONTAINER(sleeper, struct hf_server, sleeper);
    hf__mailbox_attend(hf__client_mailbox(server->service->client));
}

/* ---- connections ---- */

static void open_gate(struct hf_gate *gate)
{
    if (gate->watched || gate->watch.fd < 0 || gate->connections >= gate->most) return;
    gate->watched = hf__loop_watch(gate->server->service->loop, &gate->watch, EPOLLIN, true);
}

static void shut_gate(struct hf_gate *gate)
{
    if (gate->watched) hf__loop_unwatch(gate->server->service->loop, &gate->watch);
    gate->watched = false;
}

void hf__server_forget(struct hf_server *server, struct hf_connection *connection)
{
    struct hf_gate *gate = connection->for_operators ? &server->operators : &server->gate;
    hf__loop_unwatch(server->service->loop, &connection->watch);
    hf__list_remove(&connection->ready);
    hf__list_remove(&connection->now);
    hf__list_remove(&connection->turn);
    hf__list_remove(&connection->node);
    hf__list_append(&server->dead, &connection->node);
    server->dead_count++;
    hf__address_leave(&server->addresses, connection->address);
    connection->address = NULL;
    gate->connections--;
    hf__gauge(&server->service->metrics.connections, -1);
    begin_soon(server);
}

static void print_address(const struct sockaddr_storage *address, char ret[HF_ADDRESS_SIZE])
{
    const void *bytes = NULL;
    if (address->ss_family == AF_INET) bytes = &((const struct sockaddr_in *)address)->sin_addr;
    if (address->ss_family == AF_INET6) bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (!bytes || !inet_ntop(address->ss_family, bytes, ret, HF_ADDRESS_SIZE))
        memcpy(ret, "unix", sizeof "unix");
}

static void admit(struct hf_gate *gate, int fd, const struct sockaddr_storage *from)
{
    struct hf_server *server = gate->server;
    char text[HF_ADDRESS_SIZE];
    const int on = 1;
    print_address(from, text);
    struct hf_address *address = hf__address_enter(&server->addresses, text);
    if (!address) {
        close(fd);
        return;
    }
    bool too_many = gate->most_per_address && address->connections > gate->most_per_address;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct hf_connection *connection =
        too_many ? NULL : hf__connection_new(server, fd, address, gate->for_operators);
    if (too_many) close(fd);
    if (!connection) {
        hf__address_leave(&server->addresses, address);
        return;
    }
    gate->connections++;
    hf__list_append(&server->connections, &connection->node);
    hf__gauge(&server->service->metrics.connections, 1);
}

static void come_in(struct hf_watch *watch, uint32_t events)
{
    struct hf_gate *gate = HF_CONTAINER(watch, struct hf_gate, watch);
    (void)events;
    for (int i = 0; i < ACCEPTS_MOST && gate->connections < gate->most; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(watch->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(gate, fd, &from);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN) shut_gate(gate); /* no descriptors: the sweep opens it again */
        return;
    }
    if (gate->connections >= gate->most) shut_gate(gate); /* further ones wait in the backlog */
}

void hf__server_await(struct hf_server *server, struct hf_connection *connection, bool lingers)
{
    hf__list_remove(&connection->turn);
    hf__list_append(lingers ? &server->lingering : &server->awaited, &connection->turn);
}

/* The connection waited for longest, if that is too long; the list is in the order of time. */
static struct hf_connection *find_late(const struct hf_list *list, int64_t since_us)
{
    if (hf__list_empty(list)) return NULL;
    struct hf_connection *first = HF_CONTAINER(list->next, struct hf_connection, turn);
    return first->since_us <= since_us ? first : NULL;
}

/* True: there may be more. */
static bool drop_late(struct hf_server *server)
{
    struct hf_service *service = server->service;
    int64_t now_us = hf__service_now_us(service);
    struct hf_connection *late;
    int dropped = 0;
    for (; dropped < DROPS_MOST; dropped++) {
        if (!(late = find_late(&server->lingering, now_us - LINGER_US))) break;
        hf__connection_close(late);
    }
    for (; dropped < DROPS_MOST; dropped++) {
        if (!(late = find_late(&server->awaited, now_us - server->late_us))) break;
        if (hf__connection_drop(late)) hf__count(&service->metrics.dropped_slow);
    }
    return dropped == DROPS_MOST;
}

static void sweep(struct hf_timer *timer)
{
    struct hf_server *server = HF_CONTAINER(timer, struct hf_server, sweep);
    struct hf_loop *loop = server->service->loop;
    int64_t again_us = drop_late(server) ? SWEEP_ON_US : SWEEP_US;
    open_gate(&server->gate);
    open_gate(&server->operators);
    hf__loop_timer_set(loop, timer, hf__loop_now_us(loop) + again_us);
}

/* ---- life ---- */

static void begin_rounds(void *user)
{
    struct hf_server *server = user;
    struct hf_loop *loop = server->service->loop;
    server->client = (struct hf_watch){hf_client_fd(server->service->client), client_ready};
    hf__loop_watch(loop, &server->client, EPOLLIN, true);
    server->sleeper = (struct hf_sleeper){may_sleep, woke};
    hf__loop_set_sleeper(loop, &server->sleeper);
    open_gate(&server->gate);
    open_gate(&server->operators);
    hf__loop_timer_set(loop, &server->round, 0);
    hf__loop_timer_set(loop, &server->sweep, hf__loop_now_us(loop) + SWEEP_US);
}

static void end_rounds(void *user)
{
    struct hf_server *server = user;
    hf__loop_set_sleeper(server->service->loop, NULL);
    hf__mailbox_abandon(hf__client_mailbox(server->service->client));
    hf__loop_unwatch(server->service->loop, &server->client);
    hf__loop_timer_done(server->service->loop, &server->round);
    hf__loop_timer_done(server->service->loop, &server->sweep);
    free_all(server);
}

/*
 * The kernel doubles a process's table of descriptors when it is full; with several threads that
 * takes 10 ms and more, during which accept does not return. So the table is made large at once.
 */
static void make_room_for_descriptors(const struct hf_server *server)
{
    enum { OTHERS = 512 }; /* files, timers, and connections that are closed a moment later */
    int highest = (int)(server->gate.most + server->operators.most) + OTHERS;
    int fd = fcntl(server->gate.watch.fd, F_DUPFD_CLOEXEC, highest);
    if (fd >= 0) close(fd);
}

static void set_gate(struct hf_gate *gate, struct hf_server *server, int fd)
{
    *gate = (struct hf_gate){.server = server, .watch = {fd, come_in}};
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int hf__server_start(struct hf_service *service, const struct hf_server_options *options,
                     struct hf_server **ret, struct hf_error *reterr)
{
    struct hf_server *server = hf__calloc(1, sizeof *server);
    if (!server) return hf__error_no_memory(reterr);
    server->service = service;
    server->late_us = service->limits.request_ms * 1000;
    hf__random_id(server->id);
    memcpy(server->addresses.key, service->rates.key, sizeof server->addresses.key);
    hf__list_init(&server->connections);
    hf__list_init(&server->awaited);
    hf__list_init(&server->lingering);
    hf__list_init(&server->ready);
    hf__list_init(&server->later);
    hf__list_init(&server->leaving);
    hf__list_init(&server->unsent);
    hf__list_init(&server->spent);
    hf__list_init(&server->dead);
    set_gate(&server->gate, server, options->listen_fd);
    set_gate(&server->operators, server, options->metrics_fd > 0 ? options->metrics_fd : -1);
    server->gate.most = service->limits.connections;
    server->gate.most_per_address = service->limits.connections_per_address;
    server->operators.for_operators = true;
    server->operators.most = OPERATORS;
    server->operators.most_per_address = OPERATORS_OF_ADDRESS;
    make_room_for_descriptors(server);
    bool has_round = hf__loop_timer_init(service->loop, &server->round, run_round);
    if (!has_round || !hf__loop_timer_init(service->loop, &server->sweep, sweep)) {
        if (has_round) hf__loop_timer_done(service->loop, &server->round);
        hf__free(server);
        return hf__error_no_memory(reterr);
    }
    *ret = service->server = server; /* before the first request */
    hf__loop_call(service->loop, begin_rounds, server);
    int code = hf__loop_start(service->loop, reterr);
    if (code == 0) return 0;
    shut_gate(&server->gate);
    shut_gate(&server->operators);
    server->gate.watch.fd = server->operators.watch.fd = -1; /* the caller's, then */
    hf__server_close(server);
    hf__server_stop(server);
    service->server = *ret = NULL;
    return code;
}

bool hf__server_has_operators(const struct hf_server *server)
{
    return server->operators.watch.fd >= 0;
}

static void close_listener(struct hf_gate *gate)
{
    shut_gate(gate);
    if (gate->watch.fd >= 0) close(gate->watch.fd);
    gate->watch.fd = -1;
}

static void quiesce(void *user)
{
    struct hf_server *server = user;
    close_listener(&server->gate); /* new callers are refused at once, and can go elsewhere */
    server->gate.most = 0;
}

/* Whether a route, the store or another thread still has its exchange. */
static bool is_at_work(const struct hf_connection *connection)
{
    return connection->exchange && connection->exchange->begun &&
           (connection->state == HF_CONNECTION_WORKING || connection->suspended);
}

struct closing {
    struct hf_server *server;
    bool closed;
};

/* On the loop, where nothing can start between the check and the end. */
static void close_all(void *user)
{
    struct closing *closing = user;
    struct hf_server *server = closing->server;
    for (struct hf_list *at = server->connections.next; at != &server->connections; at = at->next)
        if (is_at_work(HF_CONTAINER(at, struct hf_connection, node))) return;
    closing->closed = true;
    close_listener(&server->gate);
    close_listener(&server->operators);
    while (!hf__list_empty(&server->connections))
        hf__connection_close(HF_CONTAINER(server->connections.next, struct hf_connection, node));
    free_all(server);
}

void hf__server_quiesce(struct hf_server *server)
{
    hf__loop_call(server->service->loop, quiesce, server);
}

static void end_late(void *user)
{
    struct hf_server *server = user;
    for (struct hf_list *at = server->connections.next, *next; at != &server->connections;
         at = next) {
        struct hf_connection *connection = HF_CONTAINER(at, struct hf_connection, node);
        next = at->next;
        bool answered = connection->state == HF_CONNECTION_WRITING ||
                        (connection->state == HF_CONNECTION_STREAMING && !connection->suspended);
        if (!answered) continue;
        connection->broken = true;
        hf__connection_close(connection);
    }
}

void hf__server_cut_short(struct hf_server *server)
{
    hf__loop_call(server->service->loop, end_late, server);
}

bool hf__server_close(struct hf_server *server)
{
    struct closing closing = {.server = server};
    if (!server) return true;
    hf__loop_call(server->service->loop, close_all, &closing);
    return closing.closed;
}

void hf__server_stop(struct hf_server *server)
{
    if (!server) return;
    hf__loop_call(server->service->loop, end_rounds, server);
    hf__free(server);
}
