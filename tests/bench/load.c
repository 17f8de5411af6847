/*
 * A load: so many connections, each with one request under way, on one thread.
 *
 *   load PORT KIND CONNECTIONS SECONDS [PATH]
 *   load PORT call CONNECTIONS SECONDS OPERATION BODY ITEMS
 *
 * KIND: get (PATH), v1, v2 (acquire and release of a lock per connection), redis (SET NX PX and a
 * script that deletes it), etcd (its lock API, through its JSON gateway), dynamodb (a conditional
 * PutItem and a DeleteItem in the table "bench"). Prints one line of JSON: operations (a pair is one)
 * per second, and the time of a pair.
 *
 * call: an operation of the DynamoDB API. In its body, @ is the connection, and ~ one of so many items
 * by chance.
 *
 * handover: all connections want one lock of v2, and wait for it. The time is from when a release
 * was sent until the next one has its answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MOST = 1024, ROOM = 16384, SAMPLES_MOST = 1 << 22 };

struct connection {
    int fd;
    int number;
    int step; /* 0: acquire, 1: release */
    int64_t began_us;
    size_t len;
    char secret[256]; /* of what was granted */
    char room[ROOM];
};

static const char *kind, *path = "/";
static char lease[64]; /* etcd's */
static const char *operation, *template;
static unsigned long items = 1;
static struct connection connections[CONNECTIONS_MOST];
static uint32_t *samples;
static size_t sample_count, errors;
static bool counting;
static int64_t released_us; /* handover */

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool is(const char *name)
{
    return strcmp(kind, name) == 0;
}

static int steps(void)
{
    return is("get") || is("call") ? 1 : 2;
}

/* ---- requests ---- */

static size_t http_post(char *ret, const char *where, const char *body)
{
    return (size_t)snprintf(ret, ROOM,
                            "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                            "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                            where, strlen(body), body);
}

static void base64(const char *text, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i += 3) {
        unsigned bits = (unsigned char)text[i] << 16;
        if (i + 1 < len) bits |= (unsigned)(unsigned char)text[i + 1] << 8;
        if (i + 2 < len) bits |= (unsigned char)text[i + 2];
        *ret++ = digits[bits >> 18];
        *ret++ = digits[bits >> 12 & 63];
        *ret++ = i + 1 < len ? digits[bits >> 6 & 63] : '=';
        *ret++ = i + 2 < len ? digits[bits & 63] : '=';
    }
    *ret = '\0';
}

static size_t dynamodb_post(char *ret, const char *target, const char *body)
{
    return (size_t)snprintf(
        ret, ROOM,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Target: DynamoDB_20120810.%s\r\nX-Amz-Date: 20260101T000000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/"
        "aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=00\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        target, strlen(body), body);
}

static size_t build_call(const struct connection *c, char *ret)
{
    static char body[ROOM / 2];
    static unsigned long chance = 1;
    size_t len = 0;
    for (const char *at = template; *at && len < sizeof body - 64; at++) {
        chance = chance * 6364136223846793005UL + 1442695040888963407UL;
        if (*at == '@') len += (size_t)sprintf(body + len, "%d-%d", (int)getpid(), c->number);
        else if (*at == '~') len += (size_t)sprintf(body + len, "%08lu", (chance >> 33) % items);
        else body[len++] = *at;
    }
    body[len] = '\0';
    return dynamodb_post(ret, operation, body);
}

static size_t build(const struct connection *c, char *ret)
{
    char where[256], body[512], name[64], encoded[128];
    if (is("get"))
        return (size_t)snprintf(ret, ROOM, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    if (is("v1")) {
        snprintf(where, sizeof where, "/v1/bench/lock/job-%d-%d/%s", (int)getpid(), c->number,
                 c->step ? "release" : "acquire");
        snprintf(body, sizeof body,
                 c->step ? "{\"instanceId\":\"instance-%d\"}"
                         : "{\"instanceId\":\"instance-%d\",\"leaseDuration\":60}",
                 c->number);
        return http_post(ret, where, body);
    }
    if (is("v2")) {
        snprintf(where, sizeof where, "/v2/locks/job-%d-%d/%s", (int)getpid(), c->number,
                 c->step ? "release" : "acquire");
        if (c->step) snprintf(body, sizeof body, "{\"grant\":\"%s\"}", c->secret);
        else snprintf(body, sizeof body, "{\"lease_ms\":60000}");
        return http_post(ret, where, body);
    }
    if (is("handover")) {
        snprintf(where, sizeof where, "/v2/locks/handover-%d/%s", (int)getpid(),
                 c->step ? "release" : "acquire");
        if (c->step) snprintf(body, sizeof body, "{\"grant\":\"%s\"}", c->secret);
        else snprintf(body, sizeof body, "{\"lease_ms\":60000,\"wait_ms\":60000}");
        return http_post(ret, where, body);
    }
    if (is("dynamodb")) {
        snprintf(body, sizeof body,
                 c->step ? "{\"TableName\":\"bench\",\"Key\":{\"key\":{\"S\":\"job-%d-%d\"}}}"
                         : "{\"TableName\":\"bench\",\"Item\":{\"key\":{\"S\":\"job-%d-%d\"},"
                           "\"owner\":{\"S\":\"somebody\"},\"lease\":{\"N\":\"20000\"}},"
                           "\"ConditionExpression\":\"attribute_not_exists(#k)\","
                           "\"ExpressionAttributeNames\":{\"#k\":\"key\"}}",
                 (int)getpid(), c->number);
        return dynamodb_post(ret, c->step ? "DeleteItem" : "PutItem", body);
    }
    if (is("call")) return build_call(c, ret);
    if (is("etcd")) {
        snprintf(name, sizeof name, "job-%d-%d", (int)getpid(), c->number);
        base64(name, encoded);
        if (c->step) snprintf(body, sizeof body, "{\"key\":\"%s\"}", c->secret);
        else snprintf(body, sizeof body, "{\"name\":\"%s\",\"lease\":\"%s\"}", encoded, lease);
        return http_post(ret, c->step ? "/v3/lock/unlock" : "/v3/lock/lock", body);
    }
    static const char script[] =
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 "
        "end";
    snprintf(name, sizeof name, "job-%d-%d", (int)getpid(), c->number);
    if (c->step)
        return (size_t)snprintf(ret, ROOM,
                                "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$5\r\n"
                                "token\r\n",
                                sizeof script - 1, script, strlen(name), name);
    return (size_t)snprintf(ret, ROOM,
                            "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$5\r\ntoken\r\n$2\r\nNX\r\n$2\r\n"
                            "PX\r\n$5\r\n60000\r\n",
                            strlen(name), name);
}

/* ---- answers ---- */

static void keep_secret(struct connection *c, const char *body, const char *name)
{
    const char *found = strstr(body, name);
    if (!found) return;
    found += strlen(name);
    while (*found == ' ' || *found == ':' || *found == '"') found++;
    size_t len = strcspn(found, "\"");
    if (len < sizeof c->secret) snprintf(c->secret, sizeof c->secret, "%.*s", (int)len, found);
}

/* 0: more is to come; 1: good; -1: bad. */
static int http_answer(struct connection *c)
{
    c->room[c->len] = '\0';
    char *end = strstr(c->room, "\r\n\r\n");
    if (!end) return 0;
    char *length = strcasestr(c->room, "content-length:");
    char *chunked = strcasestr(c->room, "transfer-encoding: chunked");
    if (length && length < end) {
        size_t want = strtoul(length + 15, NULL, 10);
        if (c->len < (size_t)(end + 4 - c->room) + want) return 0;
    } else if (chunked && chunked < end) {
        if (!strstr(end, "\r\n0\r\n\r\n")) return 0;
    }
    if (strncmp(c->room + 9, "200", 3) != 0) return -1;
    if ((is("v2") || is("handover")) && c->step == 0) keep_secret(c, end, "\"grant\"");
    if (is("etcd") && c->step == 0) keep_secret(c, end, "\"key\"");
    return 1;
}

static int redis_answer(struct connection *c)
{
    if (c->len < 3 || memcmp(c->room + c->len - 2, "\r\n", 2) != 0) return 0;
    return c->room[0] == '+' || (c->room[0] == ':' && c->room[1] == '1') ? 1 : -1;
}

static void send_next(struct connection *c)
{
    char request[ROOM];
    size_t len = build(c, request);
    c->len = 0;
    if (c->step == 0) c->began_us = now_us();
    else released_us = now_us();
    if (send(c->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        perror("send");
        exit(1);
    }
}

static void readable(struct connection *c)
{
    ssize_t got = recv(c->fd, c->room + c->len, ROOM - 1 - c->len, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        fprintf(stderr, "load: the server hung up\n");
        exit(1);
    }
    c->len += (size_t)got;
    int answer = is("redis") ? redis_answer(c) : http_answer(c);
    if (answer == 0) return;
    if (answer < 0) {
        if (errors++ == 0) fprintf(stderr, "load: %.300s\n", c->room);
        if (errors > 1000) exit(1);
    }
    c->step = (c->step + 1) % steps();
    if (is("handover") && c->step == 1 && released_us) c->began_us = released_us;
    if (c->step == (is("handover") ? 1 : 0) && counting && sample_count < SAMPLES_MOST)
        samples[sample_count++] = (uint32_t)(now_us() - c->began_us);
    send_next(c);
}

/* ---- */

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void run_until(int epoll_fd, int64_t end_us)
{
    struct epoll_event events[256];
    while (now_us() < end_us) {
        int count = epoll_wait(epoll_fd, events, 256, 100);
        for (int i = 0; i < count; i++) readable(events[i].data.ptr);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) return 64;
    int port = (int)strtol(argv[1], NULL, 10), count = (int)strtol(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    kind = argv[2];
    if (argc > 5) path = argv[5];
    if (is("call")) {
        if (argc < 8) return 64;
        operation = argv[5];
        template = argv[6];
        items = strtoul(argv[7], NULL, 10);
        if (items == 0 || strlen(template) > ROOM / 4) return 64;
    }
    if (argc > 5 && is("etcd")) snprintf(lease, sizeof lease, "%s", argv[5]);
    if (count < 1 || count > CONNECTIONS_MOST) return 64;
    samples = calloc(SAMPLES_MOST, sizeof *samples);
    int epoll_fd = epoll_create1(0);
    if (!samples || epoll_fd < 0) return 1;
    for (int i = 0; i < count; i++) {
        struct connection *c = &connections[i];
        c->fd = connect_to(port);
        c->number = i;
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
        send_next(c);
    }
    run_until(epoll_fd, now_us() + 200000); /* warm */
    counting = true;
    int64_t began_us = now_us();
    run_until(epoll_fd, began_us + (int64_t)(seconds * 1e6));
    double took = (double)(now_us() - began_us) / 1e6;
    if (sample_count == 0) return 1;
    qsort(samples, sample_count, sizeof *samples, by_size);
    printf("{\"per_second\": %.0f, \"p50_us\": %u, \"p99_us\": %u, \"errors\": %zu}\n",
           (double)sample_count / took, samples[sample_count / 2],
           samples[sample_count - 1 - sample_count / 100], errors);
    return 0;
}
