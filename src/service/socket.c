#include "service/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "service/metric.h"

enum { EVENTS = 256, SWEEP_MS = 500 };

static void hung_up(struct hf_sockets *sockets, struct hf_socket *socket)
{
    struct hf_exchange *exchange = socket->parked;
    if (!exchange) return;
    socket->parked = NULL;
    epoll_ctl(sockets->epoll_fd, EPOLL_CTL_DEL, socket->fd, NULL);
    exchange->parked = false;
    exchange->gone(exchange);
}

/* Which parking of which descriptor: both may have changed since the kernel told us. */
static uint64_t ticket(const struct hf_socket *socket)
{
    return (uint64_t)socket->parking << 32 | (uint32_t)socket->fd;
}

static struct hf_socket *find(const struct hf_sockets *sockets, uint64_t wanted)
{
    size_t fd = (uint32_t)wanted;
    struct hf_socket *socket = fd < sockets->by_fd_size ? sockets->by_fd[fd] : NULL;
    return socket && ticket(socket) == wanted ? socket : NULL;
}

/* Whether what it is late with lies with us: there is something to read, or room to write. */
static bool is_our_fault(const struct hf_socket *socket)
{
    bool takes = __atomic_load_n(&socket->turn, __ATOMIC_RELAXED) == HF_TURN_TO_TAKE;
    struct pollfd ready = {.fd = socket->fd, .events = takes ? POLLOUT : POLLIN};
    return poll(&ready, 1, 0) == 1 && ready.revents == ready.events;
}

static void sweep(struct hf_sockets *sockets)
{
    int64_t now_us = hf__clock_boot_us(&hf__clock_system);
    for (struct hf_list *at = sockets->all.next; at != &sockets->all; at = at->next) {
        struct hf_socket *socket = HF_CONTAINER(at, struct hf_socket, node);
        int64_t since_us = __atomic_load_n(&socket->since_us, __ATOMIC_RELAXED);
        if (since_us < 0 || now_us - since_us < sockets->late_us || is_our_fault(socket)) continue;
        shutdown(socket->fd, SHUT_RDWR); /* the server notices, and closes it */
        __atomic_store_n(&socket->since_us, now_us, __ATOMIC_RELAXED);
        hf__count(sockets->dropped);
    }
}

static void *watch(void *user)
{
    struct hf_sockets *sockets = user;
    struct epoll_event events[EVENTS];
    int64_t swept_us = 0;
    for (bool stop = false; !stop;) {
        int count = epoll_wait(sockets->epoll_fd, events, EVENTS, SWEEP_MS);
        pthread_mutex_lock(&sockets->mutex);
        for (int i = 0; i < count; i++) {
            struct hf_socket *socket = find(sockets, events[i].data.u64);
            if (socket) hung_up(sockets, socket);
        }
        int64_t now_us = hf__clock_boot_us(&hf__clock_system);
        if (now_us - swept_us >= SWEEP_MS * 1000) {
            sweep(sockets);
            swept_us = now_us;
        }
        stop = sockets->stopping;
        pthread_mutex_unlock(&sockets->mutex);
    }
    return NULL;
}

int hf__sockets_start(struct hf_sockets *sockets, int64_t late_ms, uint64_t *dropped,
                      struct hf_error *reterr)
{
    *sockets = (struct hf_sockets){.late_us = late_ms * 1000, .dropped = dropped};
    hf__list_init(&sockets->all);
    pthread_mutex_init(&sockets->mutex, NULL);
    sockets->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    sockets->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    if (sockets->epoll_fd < 0 || sockets->wake_fd < 0 ||
        epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, sockets->wake_fd, &event) != 0 ||
        hf__thread_create(&sockets->thread, watch, sockets) != 0) {
        hf__error_set(reterr, HF_ERR_NO_MEMORY, "cannot watch connections: %s", strerror(errno));
        hf__sockets_stop(sockets);
        return HF_ERR_NO_MEMORY;
    }
    sockets->has_thread = true;
    return 0;
}

void hf__sockets_stop(struct hf_sockets *sockets)
{
    if (sockets->has_thread) {
        uint64_t one = 1;
        pthread_mutex_lock(&sockets->mutex);
        sockets->stopping = true;
        pthread_mutex_unlock(&sockets->mutex);
        if (write(sockets->wake_fd, &one, sizeof one) < 0) {
        } /* it wakes by itself, too */
        pthread_join(sockets->thread, NULL);
    }
    if (sockets->epoll_fd >= 0) close(sockets->epoll_fd);
    if (sockets->wake_fd >= 0) close(sockets->wake_fd);
    hf__free(sockets->by_fd);
    pthread_mutex_destroy(&sockets->mutex);
}

/* With the mutex. */
static bool enter(struct hf_sockets *sockets, struct hf_socket *socket)
{
    size_t fd = (size_t)socket->fd;
    if (fd >= sockets->by_fd_size) {
        size_t size = sockets->by_fd_size ? sockets->by_fd_size * 2 : 1024;
        while (size <= fd) size *= 2;
        struct hf_socket **grown = hf__realloc(sockets->by_fd, size * sizeof(struct hf_socket *));
        if (!grown) return false;
        memset(grown + sockets->by_fd_size, 0,
               (size - sockets->by_fd_size) * sizeof(struct hf_socket *));
        sockets->by_fd = grown;
        sockets->by_fd_size = size;
    }
    sockets->by_fd[fd] = socket;
    hf__list_append(&sockets->all, &socket->node);
    return true;
}

struct hf_socket *hf__socket_add(struct hf_sockets *sockets, int fd)
{
    struct hf_socket *socket = hf__calloc(1, sizeof *socket);
    if (!socket) return NULL;
    socket->fd = fd;
    socket->since_us = hf__clock_boot_us(&hf__clock_system);
    pthread_mutex_lock(&sockets->mutex);
    bool entered = enter(sockets, socket);
    pthread_mutex_unlock(&sockets->mutex);
    if (entered) return socket;
    hf__free(socket);
    return NULL;
}

void hf__socket_remove(struct hf_sockets *sockets, struct hf_socket *socket)
{
    if (!socket) return;
    pthread_mutex_lock(&sockets->mutex);
    hf__list_remove(&socket->node);
    sockets->by_fd[socket->fd] = NULL;
    pthread_mutex_unlock(&sockets->mutex);
    hf__free(socket);
}

void hf__socket_turn(struct hf_socket *socket, enum hf_turn turn)
{
    if (!socket) return;
    int64_t since_us = turn == HF_TURN_OURS ? -1 : hf__clock_boot_us(&hf__clock_system);
    __atomic_store_n(&socket->turn, turn, __ATOMIC_RELAXED);
    __atomic_store_n(&socket->since_us, since_us, __ATOMIC_RELAXED);
}

void hf__socket_park(struct hf_sockets *sockets, struct hf_exchange *exchange)
{
    struct hf_socket *socket = exchange->socket;
    if (!socket) return;
    pthread_mutex_lock(&sockets->mutex);
    socket->parking++;
    struct epoll_event event = {.events = EPOLLRDHUP, .data.u64 = ticket(socket)};
    if (epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, socket->fd, &event) == 0) {
        socket->parked = exchange;
        exchange->parked = true;
    }
    pthread_mutex_unlock(&sockets->mutex);
}

void hf__socket_unpark(struct hf_sockets *sockets, struct hf_exchange *exchange)
{
    if (!exchange->gone) return; /* it was never parked */
    pthread_mutex_lock(&sockets->mutex);
    if (exchange->parked) {
        exchange->parked = false;
        exchange->socket->parked = NULL;
        epoll_ctl(sockets->epoll_fd, EPOLL_CTL_DEL, exchange->socket->fd, NULL);
    }
    pthread_mutex_unlock(&sockets->mutex);
}
