/*
 * A yardstick for the service: the least that a durable lock server over HTTP can do on SQLite.
 *
 *   floor PORT FILE
 *
 * One network loop, one writer thread; what comes in together is handed over with one wake-up, and
 * comes back with one. Each request is one read and one write in a commit that it shares (WAL,
 * synchronous=FULL). There is no protocol, no check and no error: it answers what v2 answers to
 * acquire and release, so that load.c can drive it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 4096, NAME_MOST = 100, EVENTS = 256 };

struct connection {
    struct connection *next; /* in a batch */
    int fd;
    int len;
    bool releases;
    char name[NAME_MOST + 1];
    char room[ROOM];
};

struct batch {
    struct connection *first;
    struct connection **end;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct batch asked, done;
static bool idle;
static int done_fd;
static sqlite3 *db;
static sqlite3_stmt *get, *put, *begin, *commit;

static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "floor: %s failed: %s\n", what, db ? sqlite3_errmsg(db) : strerror(errno));
    exit(1);
}

/* ---- the writer ---- */

static void step(sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);
    must(result == SQLITE_DONE || result == SQLITE_ROW, "a statement");
    sqlite3_reset(statement);
}

static void write_one(const struct connection *c)
{
    char item[512];
    int len =
        snprintf(item, sizeof item,
                 "{\"key\":{\"S\":\"%s\"},\"token\":{\"N\":\"1794817971145194\"},\"owner\":{\"S\":"
                 "\"anonymous\"},\"grant\":{\"S\":\"ee56801e2c0c7dc46f00dbc38d7d35e3\"},"
                 "\"version\":{\"N\":\"1\"},\"lease\":{\"N\":\"20000\"},\"expires\":{\"N\":"
                 "\"1794817991156\"},\"since\":{\"N\":\"1794817971145\"}}",
                 c->name);
    sqlite3_bind_text(get, 1, c->name, -1, SQLITE_STATIC);
    step(get);
    sqlite3_bind_text(put, 1, c->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(put, 2, item, c->releases ? len / 2 : len, SQLITE_STATIC);
    step(put);
}

static void *write_batches(void *user)
{
    (void)user;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (!asked.first) {
            idle = true;
            pthread_cond_wait(&filled, &mutex);
            idle = false;
        }
        struct batch batch = asked;
        asked = (struct batch){NULL, &asked.first};
        pthread_mutex_unlock(&mutex);
        step(begin);
        for (const struct connection *c = batch.first; c; c = c->next) write_one(c);
        step(commit);
        pthread_mutex_lock(&mutex);
        bool was_empty = !done.first;
        *done.end = batch.first;
        done.end = batch.end;
        pthread_mutex_unlock(&mutex);
        const uint64_t one = 1;
        if (was_empty) must(write(done_fd, &one, sizeof one) > 0, "waking the loop");
    }
    return NULL;
}

static void open_file(const char *path)
{
    must(sqlite3_open(path, &db) == SQLITE_OK, "opening the file");
    must(sqlite3_exec(db,
                      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA "
                      "wal_autocheckpoint=4000; CREATE TABLE IF NOT EXISTS t(k TEXT PRIMARY KEY, v "
                      "TEXT) WITHOUT ROWID",
                      NULL, NULL, NULL) == SQLITE_OK,
         "making the table");
    sqlite3_prepare_v2(db, "SELECT v FROM t WHERE k=?", -1, &get, NULL);
    sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO t VALUES(?,?)", -1, &put, NULL);
    sqlite3_prepare_v2(db, "BEGIN IMMEDIATE", -1, &begin, NULL);
    sqlite3_prepare_v2(db, "COMMIT", -1, &commit, NULL);
}

/* ---- the loop ---- */

static void answer(struct connection *c)
{
    char body[512], text[1024];
    int len = c->releases
                  ? snprintf(body, sizeof body, "{\"name\":\"%s\",\"released\":true}\n", c->name)
                  : snprintf(body, sizeof body,
                             "{\"name\":\"%s\",\"grant\":\"ee56801e2c0c7dc46f00dbc38d7d35e3\","
                             "\"owner\":\"anonymous\",\"mode\":\"exclusive\",\"token\":"
                             "1794817971145194,\"lease_ms\":20000,\"left_ms\":19599,"
                             "\"since_unix_ms\":1794817971145,\"expires_unix_ms\":1794817991156}\n",
                             c->name);
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 2026 08:32:51 GMT\r\nContent-Type: "
                        "application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: "
                        "nosniff\r\nContent-Length: %d\r\n\r\n%s",
                        len, body);
    if (send(c->fd, text, (size_t)size, MSG_NOSIGNAL) < 0) c->len = 0; /* it has hung up */
}

static void answer_all(void)
{
    uint64_t count;
    if (read(done_fd, &count, sizeof count) < 0) return;
    pthread_mutex_lock(&mutex);
    struct connection *c = done.first;
    done = (struct batch){NULL, &done.first};
    pthread_mutex_unlock(&mutex);
    for (struct connection *next; c; c = next) {
        next = c->next;
        answer(c);
    }
}

/* True: a request is complete. */
static bool receive(struct connection *c)
{
    ssize_t got = recv(c->fd, c->room + c->len, (size_t)(ROOM - 1 - c->len), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) close(c->fd);
    if (got <= 0) return false;
    c->len += (int)got;
    c->room[c->len] = '\0';
    const char *end = strstr(c->room, "\r\n\r\n");
    const char *length = strcasestr(c->room, "content-length:");
    int size = length ? (int)strtol(length + 15, NULL, 10) : 0;
    if (!end || c->len < end + 4 + size - c->room) return false;
    const char *name = strstr(c->room, "/v2/locks/"), *slash = name ? strchr(name + 10, '/') : NULL;
    if (!slash || slash - name - 10 > NAME_MOST) return false;
    snprintf(c->name, sizeof c->name, "%.*s", (int)(slash - name - 10), name + 10);
    c->releases = slash[1] == 'r';
    c->len = 0;
    c->next = NULL;
    return true;
}

static void come_in(int listen_fd, int epoll_fd)
{
    const int on = 1;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
    struct connection *c = fd >= 0 ? calloc(1, sizeof *c) : NULL;
    if (!c) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->fd = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void hand_over(struct batch *batch)
{
    if (!batch->first) return;
    pthread_mutex_lock(&mutex);
    *asked.end = batch->first;
    asked.end = batch->end;
    bool wake = idle;
    pthread_mutex_unlock(&mutex);
    if (wake) pthread_cond_signal(&filled);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 64;
    static int listener; /* its address stands for it */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtol(argv[1], NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN};
    pthread_t writer;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
             listen(listener, 512) == 0,
         "listening");
    open_file(argv[2]);
    asked.end = &asked.first;
    done.end = &done.first;
    int epoll_fd = epoll_create1(0);
    done_fd = eventfd(0, EFD_NONBLOCK);
    event.data.ptr = &listener;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    event.data.ptr = &done_fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, done_fd, &event);
    must(pthread_create(&writer, NULL, write_batches, NULL) == 0, "starting the writer");
    for (;;) {
        struct batch batch = {NULL, &batch.first};
        int count = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &listener) {
                come_in(listener, epoll_fd);
            } else if (events[i].data.ptr == &done_fd) {
                answer_all();
            } else if (receive(events[i].data.ptr)) {
                struct connection *c = events[i].data.ptr;
                *batch.end = c;
                batch.end = &c->next;
            }
        }
        hand_over(&batch);
    }
}
