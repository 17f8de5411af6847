/*
 * The well-behaved caller: what the service owes to everybody else while it is under attack.
 *
 *   caller PORT TOKEN RATE
 *
 * WORKERS connections acquire, renew and release a lock each, RATE requests per second together, on
 * a fixed schedule. The first of them connects anew for each lock. One more connection keeps KEPT
 * locks with short leases, and renews them. Each line on standard input ends a phase: one line of
 * JSON on standard output says how it went. "join" begins a phase in which new connections are
 * made, "stay" one in which they are not. At the end of the input all locks are released.
 *
 * Invariants
 * C1  The time of a request counts from when it was sent; from when it was due, if the answer to
 *     the one before it came too late to send it then. A stall is thus seen in full.
 * C2  A request that is not answered when a phase ends counts there, with its age.
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

enum {
    WORKERS = 8,
    KEPT = 8,
    ROOM = 16384,
    SAMPLES_MOST = 1 << 20,
    LEASE_MS = 15000,
    RENEW_EVERY_US = 2000000, /* of each kept lock */
    PATIENCE_US = 30000000,   /* for an answer */
    BEHIND_MOST_US = 5000000, /* what is due longer than that is left out */
    ERRORS_SHOWN = 5,         /* of a phase */
};

enum step { ACQUIRE, RENEW, RELEASE };

struct lock {
    char name[64];
    char grant[80];
    long long token;
};

struct connection {
    int fd; /* -1: none */
    bool key_ring;
    bool busy;
    bool counted; /* its time has been taken at the end of a phase (C2) */
    enum step step;
    int number;
    unsigned generation; /* of its lock: after a failure it takes another one */
    int64_t due_us;
    int64_t began_us;
    struct lock *lock;
    struct lock own;
    size_t len;
    char room[ROOM];
};

static int port, epoll_fd;
static const char *bearer;
static int64_t period_us;
static bool joins = true;
static struct connection workers[WORKERS], key_ring;
static struct lock kept[KEPT];
static int kept_count; /* acquired so far */
static int kept_next;
static uint32_t *samples;
static size_t sample_count, errors, lost;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- what is measured ---- */

static void sample(int64_t took_us)
{
    if (sample_count < SAMPLES_MOST) samples[sample_count++] = (uint32_t)took_us;
}

static void complain(const struct connection *c, const char *what)
{
    static const char *const steps[] = {"acquire", "renew", "release"};
    if (errors++ < ERRORS_SHOWN)
        fprintf(stderr, "caller: %s of %s: %.200s\n", steps[c->step], c->lock->name, what);
}

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static unsigned percentile(unsigned hundredths)
{
    return sample_count ? samples[(sample_count - 1) * hundredths / 100] : 0;
}

static void end_phase(void)
{
    int64_t now = now_us();
    for (int i = 0; i < WORKERS; i++) {
        struct connection *c = &workers[i];
        if (!c->busy || c->counted) continue;
        sample(now - c->began_us);
        c->counted = true;
    }
    qsort(samples, sample_count, sizeof *samples, by_size);
    printf("{\"requests\": %zu, \"p50_us\": %u, \"p99_us\": %u, \"worst_us\": %u, \"errors\": %zu, "
           "\"lost\": %zu, \"kept\": %d}\n",
           sample_count, percentile(50), percentile(99), percentile(100), errors, lost, kept_count);
    fflush(stdout);
    sample_count = errors = lost = 0;
}

/* ---- connections ---- */

static void hang_up(struct connection *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->busy = false;
    c->len = 0;
}

static bool dial(struct connection *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    hang_up(c);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        complain(c, strerror(errno));
        hang_up(c);
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
    return true;
}

/* ---- requests ---- */

static void choose(struct connection *c)
{
    if (!c->key_ring) {
        c->lock = &c->own;
        snprintf(c->own.name, sizeof c->own.name, "good-%d-%u", c->number, c->generation);
        return;
    }
    bool all = kept_count == KEPT;
    int at = all ? kept_next++ % KEPT : kept_count;
    c->lock = &kept[at];
    c->step = all ? RENEW : ACQUIRE;
    snprintf(c->lock->name, sizeof c->lock->name, "kept-%d", at);
}

static size_t build(const struct connection *c, char *ret)
{
    static const char *const verbs[] = {"acquire", "renew", "release"};
    char body[160];
    if (c->step == ACQUIRE) snprintf(body, sizeof body, "{\"lease_ms\":%d}", LEASE_MS);
    else snprintf(body, sizeof body, "{\"grant\":\"%s\"}", c->lock->grant);
    return (size_t)snprintf(ret, ROOM,
                            "POST /v2/locks/%s/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                            "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            c->lock->name, verbs[c->step], bearer, strlen(body), body);
}

static void ask(struct connection *c, int64_t now)
{
    char request[ROOM];
    bool late = now - c->due_us > period_us; /* the one before it was in its way (C1) */
    if (c->key_ring || c->step == ACQUIRE) choose(c);
    c->began_us = late && !c->key_ring ? c->due_us : now;
    c->counted = false;
    c->len = 0;
    bool fresh = c->number == 0 && !c->key_ring && c->step == ACQUIRE && joins;
    if ((c->fd < 0 || fresh) && !dial(c)) return;
    size_t len = build(c, request);
    if (send(c->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        complain(c, strerror(errno));
        hang_up(c);
        return;
    }
    c->busy = true;
}

/* ---- answers ---- */

static bool find_text(const char *body, const char *name, char *ret, size_t size)
{
    const char *found = strstr(body, name);
    if (!found) return false;
    found += strlen(name);
    size_t len = strcspn(found, "\",}");
    if (len == 0 || len >= size) return false;
    memcpy(ret, found, len);
    ret[len] = '\0';
    return true;
}

/* The whole of an answer, at its body; NULL: more is to come. */
static const char *whole_answer(struct connection *c)
{
    c->room[c->len] = '\0';
    char *end = strstr(c->room, "\r\n\r\n"), *length = strcasestr(c->room, "content-length:");
    if (!end || !length || length > end) return NULL;
    size_t want = strtoul(length + 15, NULL, 10);
    return c->len < (size_t)(end + 4 - c->room) + want ? NULL : end + 4;
}

/* A lock that was granted must be granted until it is released, under the same token. */
static bool judge(struct connection *c, const char *body)
{
    char text[32], why[160];
    bool good = strncmp(c->room + 9, "200", 3) == 0;
    bool has_token = find_text(body, "\"token\":", text, sizeof text);
    long long token = has_token ? strtoll(text, NULL, 10) : 0;
    if (good && c->step == ACQUIRE) {
        c->lock->token = token;
        good = token && find_text(body, "\"grant\":\"", c->lock->grant, sizeof c->lock->grant);
    } else if (good && c->step == RENEW) {
        good = token == c->lock->token;
    }
    if (good) return true;
    snprintf(why, sizeof why, "%.3s %.150s", c->room + 9, body);
    why[strcspn(why, "\n")] = '\0';
    complain(c, why);
    if (c->step != ACQUIRE && strncmp(c->room + 9, "409", 3) == 0) lost++;
    if (c->step == RENEW && has_token && token != c->lock->token) lost++;
    return false;
}

static void move_on(struct connection *c, bool good)
{
    if (!c->counted && !c->key_ring) sample(now_us() - c->began_us);
    c->busy = false;
    if (c->key_ring) {
        if (good && c->step == ACQUIRE) kept_count++;
    } else {
        if (!good) c->generation++;
        c->step = good ? (c->step + 1) % 3 : ACQUIRE;
    }
}

static void schedule(struct connection *c, int64_t now)
{
    c->due_us += c->key_ring ? (kept_count < KEPT ? period_us : RENEW_EVERY_US / KEPT) : period_us;
    if (now - c->due_us > BEHIND_MOST_US) c->due_us = now;
}

static void fail(struct connection *c, const char *why)
{
    complain(c, why);
    bool was_busy = c->busy;
    hang_up(c);
    if (was_busy) move_on(c, false);
}

static void readable(struct connection *c)
{
    ssize_t got = recv(c->fd, c->room + c->len, ROOM - 1 - c->len, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        fail(c, got == 0 ? "the service hung up" : strerror(errno));
        return;
    }
    c->len += (size_t)got;
    const char *body = whole_answer(c);
    if (body) {
        bool closes = strcasestr(c->room, "\r\nconnection: close") != NULL;
        bool good = judge(c, body);
        if (closes) hang_up(c);
        move_on(c, good);
    } else if (c->len == ROOM - 1) {
        fail(c, "an answer is too long");
    }
}

/* ---- */

/* When the next one is due, with all that are due sent. */
static int64_t send_due(struct connection *c, int64_t now, int64_t next_us)
{
    if (c->busy && now - c->began_us > PATIENCE_US) fail(c, "no answer");
    if (!c->busy && c->due_us <= now) {
        ask(c, now);
        schedule(c, now);
    }
    return !c->busy && c->due_us < next_us ? c->due_us : next_us;
}

static bool take_commands(void)
{
    char text[64];
    ssize_t got = read(STDIN_FILENO, text, sizeof text);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    for (ssize_t i = 0; i < got; i++) {
        if (text[i] == 'j') joins = true;
        if (text[i] == 's') joins = false;
        if (text[i] == '\n') end_phase();
    }
    return true;
}

static void run(bool (*go_on)(void))
{
    struct epoll_event events[64];
    for (;;) {
        int64_t now = now_us(), next_us = now + 100000;
        for (int i = 0; i < WORKERS; i++) next_us = send_due(&workers[i], now, next_us);
        next_us = send_due(&key_ring, now, next_us);
        int64_t wait_us = next_us - now_us();
        int count = epoll_wait(epoll_fd, events, 64, wait_us > 0 ? (int)(wait_us / 1000 + 1) : 0);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (c && c->fd >= 0) readable(c);
        }
        if (!go_on()) return;
    }
}

/* One request by itself, for the end; false: it failed. */
static bool release_now(struct connection *c, struct lock *lock)
{
    char request[ROOM];
    int64_t until_us = now_us() + PATIENCE_US;
    c->lock = lock;
    c->step = RELEASE;
    c->len = 0;
    if (c->fd < 0 && !dial(c)) return false;
    size_t len = build(c, request);
    if (send(c->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) return false;
    while (now_us() < until_us) {
        ssize_t got = recv(c->fd, c->room + c->len, ROOM - 1 - c->len, 0);
        if (got < 0 && errno == EAGAIN) usleep(1000);
        else if (got <= 0) return false;
        else c->len += (size_t)got;
        const char *body = c->len ? whole_answer(c) : NULL;
        if (body) return judge(c, body);
    }
    return false;
}

static bool is_idle(void)
{
    bool busy = key_ring.busy;
    for (int i = 0; i < WORKERS; i++) {
        busy |= workers[i].busy || workers[i].step != ACQUIRE;
        if (!workers[i].busy && workers[i].step == ACQUIRE) workers[i].due_us = INT64_MAX;
    }
    if (!key_ring.busy) key_ring.due_us = INT64_MAX;
    return !busy;
}

static bool is_busy(void)
{
    return !is_idle();
}

int main(int argc, char **argv)
{
    if (argc != 4) return 64;
    port = (int)strtol(argv[1], NULL, 10);
    bearer = argv[2];
    long rate = strtol(argv[3], NULL, 10);
    if (rate < 1) return 64;
    period_us = (int64_t)WORKERS * 1000000 / rate;
    samples = calloc(SAMPLES_MOST, sizeof *samples);
    epoll_fd = epoll_create1(0);
    if (!samples || epoll_fd < 0) return 1;
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    int64_t now = now_us();
    for (int i = 0; i < WORKERS; i++)
        workers[i] = (struct connection){.fd = -1,
                                         .number = i,
                                         .lock = &workers[i].own,
                                         .due_us = now + i * period_us / WORKERS};
    key_ring = (struct connection){.fd = -1, .key_ring = true, .lock = &kept[0], .due_us = now};
    run(take_commands);
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    run(is_busy);
    for (int i = 0; i < kept_count; i++) {
        if (!release_now(&key_ring, &kept[i])) errors++;
    }
    end_phase();
    return 0;
}
