/*
 * The whole service, on a store in memory: bytes in at a socket. Whatever comes, it answers or
 * closes, and goes on.
 */
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "service/serve.h"

enum { PATIENCE_MS = 5 };

static struct sockaddr_in address;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct hf_service *service;
    struct hf_error error;
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(listen(fd, 64) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    const struct hf_serve_options options = {.store_url = "memory:",
                                             .client.lease_ms = 1000,
                                             .listen_fd = fd,
                                             .authentication_disabled = true};
    MUST(hf__service_start(&options, &service, &error) == 0);
    return 0;
}

static void read_some(int fd)
{
    char room[4096];
    for (int i = 0; i < 64; i++) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, PATIENCE_MS) <= 0) return; /* it waits for more, or parks */
        if (recv(fd, room, sizeof room, 0) <= 0) return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct linger hard = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    if (send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size) {
        shutdown(fd, SHUT_WR);
        read_some(fd);
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard); /* no port waits for ever */
    close(fd);
    return 0;
}
