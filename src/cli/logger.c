#include "cli/logger.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/terminal.h"

enum { ROOM = 1 << 20, STOP_MS = 1000 };

uint64_t logger_dropped;

/* `queue` is filled under the mutex; `writing` belongs to the thread, and the two are swapped. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t filled, written;
    char *queue, *writing;
    size_t len;
    bool started; /* lines are queued, unless … */
    bool paused;
    bool running; /* there is a thread */
    bool stopping, idle, json;
    uint64_t told; /* of logger_dropped */
    char rooms[2][ROOM];
} logger = {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static void write_all(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDERR_FILENO, bytes, len);
        if (done <= 0) return; /* the reader has gone */
        bytes += done;
        len -= (size_t)done;
    }
}

/* With the mutex. */
static bool add(const char *line, size_t len)
{
    if (logger.len + len + 1 > ROOM) return false;
    memcpy(logger.queue + logger.len, line, len);
    logger.queue[logger.len + len] = '\n';
    logger.len += len + 1;
    return true;
}

static void tell_dropped(void)
{
    char line[128];
    uint64_t dropped = __atomic_load_n(&logger_dropped, __ATOMIC_RELAXED);
    if (dropped == logger.told) return;
    int len = snprintf(line, sizeof line,
                       "%s%llu log lines were dropped because they were not read in time%s",
                       logger.json ? "{\"level\":\"warn\",\"event\":\"log\",\"message\":\""
                                   : "holdfast: warning: ",
                       (unsigned long long)(dropped - logger.told), logger.json ? "\"}" : "");
    if (add(line, (size_t)len)) logger.told = dropped;
}

static void *run(void *user)
{
    (void)user;
    pthread_mutex_lock(&logger.mutex);
    for (;;) {
        tell_dropped();
        if (logger.len > 0) {
            char *full = logger.queue;
            size_t len = logger.len;
            logger.queue = logger.writing;
            logger.writing = full;
            logger.len = 0;
            logger.idle = false;
            pthread_mutex_unlock(&logger.mutex);
            write_all(full, len);
            pthread_mutex_lock(&logger.mutex);
            continue;
        }
        logger.idle = true;
        pthread_cond_broadcast(&logger.written);
        if (logger.stopping) break;
        pthread_cond_wait(&logger.filled, &logger.mutex);
    }
    logger.running = false;
    pthread_cond_broadcast(&logger.written);
    pthread_mutex_unlock(&logger.mutex);
    return NULL;
}

void logger_start(bool json)
{
    pthread_mutex_lock(&logger.mutex);
    if (!logger.queue) {
        hf__cond_init(&logger.written);
        logger.queue = logger.rooms[0];
        logger.writing = logger.rooms[1];
    }
    logger.json = json;
    logger.started = true;
    logger.stopping = logger.paused = false;
    pthread_mutex_unlock(&logger.mutex);
}

/* With the mutex. An earlier thread may still be blocked in a write, and will continue. */
static bool has_thread(void)
{
    pthread_t thread;
    if (logger.running) return true;
    logger.running = hf__thread_create(&thread, run, NULL) == 0;
    if (logger.running) pthread_detach(thread); /* it may block in a write for ever */
    return logger.running;
}

bool logger_is_running(void)
{
    pthread_mutex_lock(&logger.mutex);
    bool running = logger.started && !logger.paused;
    pthread_mutex_unlock(&logger.mutex);
    return running;
}

void logger_put(const char *line)
{
    pthread_mutex_lock(&logger.mutex);
    bool queues = logger.started && !logger.paused && has_thread();
    if (queues && !add(line, strlen(line)))
        __atomic_fetch_add(&logger_dropped, 1, __ATOMIC_RELAXED);
    if (queues) pthread_cond_signal(&logger.filled);
    pthread_mutex_unlock(&logger.mutex);
    if (!queues) say_whole(line);
}

void logger_pause(void)
{
    struct timespec until = hf__deadline_in(STOP_MS);
    pthread_mutex_lock(&logger.mutex);
    while (logger.running && !(logger.idle && logger.len == 0))
        if (pthread_cond_timedwait(&logger.written, &logger.mutex, &until) != 0) break;
    logger.paused = true;
    pthread_mutex_unlock(&logger.mutex);
}

void logger_stop(void)
{
    struct timespec until = hf__deadline_in(STOP_MS);
    pthread_mutex_lock(&logger.mutex);
    logger.stopping = true;
    logger.started = false;
    pthread_cond_signal(&logger.filled);
    while (logger.running) {
        if (pthread_cond_timedwait(&logger.written, &logger.mutex, &until) != 0) break;
    }
    pthread_mutex_unlock(&logger.mutex);
}
