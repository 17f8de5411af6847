#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_un address;

int ask_listen(void)
{
    static int serial;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/%d", hf_test_directory(), serial++);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 64) == 0);
    return fd;
}

int64_t ask_now_ms(void)
{
    return hf__clock_boot_us(&hf__clock_system) / 1000;
}

void ask_nap(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

int ask_connect(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

void ask_send(int fd, const struct request *request)
{
    static char text[ASK_REQUEST];
    size_t size = strlen(request->body);
    int len = snprintf(
        text, sizeof text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s", request->method,
        request->path, request->token ? "Authorization: Bearer " : "",
        request->token ? request->token : "", request->token ? "\r\n" : "", request->headers);
    CHECK(len > 0 && (size_t)len + size + 200 < sizeof text);
    if (!strstr(request->headers, "Content-Type:") && size > 0)
        len +=
            snprintf(text + len, sizeof text - (size_t)len, "Content-Type: application/json\r\n");
    if (size > 0 || strcmp(request->method, "POST") == 0)
        len += snprintf(text + len, sizeof text - (size_t)len, "Content-Length: %zu\r\n", size);
    len += snprintf(text + len, sizeof text - (size_t)len, "Connection: close\r\n\r\n%s",
                    request->body);
    /* A service that has closed is noticed when the answer is read. */
    for (ssize_t at = 0; at < len;) {
        ssize_t sent = send(fd, text + at, (size_t)(len - at), MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += sent;
    }
}

bool ask_is_readable(int fd, int ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, ms) > 0;
}

void ask_read(int fd, struct reply *ret)
{
    static char text[ASK_BODY + sizeof ret->head];
    size_t len = 0;
    ret->status = 0;
    ret->size = 0;
    ret->head[0] = ret->body[0] = '\0';
    for (;;) {
        if (!ask_is_readable(fd, ASK_ENOUGH_MS)) {
            ret->status = ASK_HANGS;
            return;
        }
        ssize_t got = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (got <= 0) break;
        len += (size_t)got;
        CHECK(len < sizeof text - 1);
    }
    text[len] = '\0';
    char *body = strstr(text, "\r\n\r\n");
    int status;
    if (!body || sscanf(text, "HTTP/1.1 %d", &status) != 1) return;
    body += 4;
    size_t head = (size_t)(body - text), size = len - head;
    CHECK(head < sizeof ret->head);
    memcpy(ret->head, text, head);
    ret->head[head] = '\0';
    const char *says = strstr(ret->head, "Content-Length: ");
    if (says && (size_t)strtoull(says + 16, NULL, 10) != size) return; /* cut */
    memcpy(ret->body, body, size + 1);
    ret->size = size;
    ret->status = status;
}

void ask(const struct request *request, struct reply *ret)
{
    int fd = ask_connect();
    if (fd < 0) hf_test_fail(__FILE__, __LINE__, "cannot connect: %s", strerror(errno));
    ask_send(fd, request);
    ask_read(fd, ret);
    close(fd);
}
