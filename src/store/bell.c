#include "store/bell.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/store.h"

enum {
    SPACING_US = 1000, /* between two hints: a busy file is not heard at every commit */
    NEWS = 8,          /* bytes that carry no lock … */
    MARK = 32,         /* … and may be written while others write those */
};

struct news {
    uint64_t freed;
    uint64_t stamp; /* tells two from each other */
};

void hf__bell_init(struct hf_bell *bell)
{
    *bell = (struct hf_bell){.inotify_fd = -1, .stop_fd = -1};
    hf__list_init(&bell->hints);
    pthread_mutex_init(&bell->mutex, NULL);
}

void hf__bell_tell(struct hf_bell *bell, uint64_t freed)
{
    pthread_mutex_lock(&bell->mutex);
    for (struct hf_list *at = bell->hints.next; at != &bell->hints; at = at->next) {
        struct hf_hint *hint = HF_CONTAINER(at, struct hf_hint, node);
        hint->changed(hint, freed);
    }
    pthread_mutex_unlock(&bell->mutex);
}

void hf__bell_ring(int fd, uint64_t freed)
{
    const struct news news = {freed, (uint64_t)hf__clock_boot_us(&hf__clock_system)};
    ssize_t written = freed ? pwrite(fd, &news, sizeof news, NEWS) : pwrite(fd, "!", 1, MARK);
    (void)written; /* a full disk prevents it: waiters poll anyway */
}

/* What has been freed since the last time; a file of an earlier version says nothing of use. */
static uint64_t freed_since(struct hf_bell *bell)
{
    struct news news;
    if (pread(bell->fd, &news, sizeof news, NEWS) != sizeof news || news.stamp == bell->stamp)
        return 0;
    bell->stamp = news.stamp;
    return news.freed;
}

static bool was_rung(int inotify_fd)
{
    char room[4096];
    return read(inotify_fd, room, sizeof room) > 0;
}

/*
 * All others hear of what was freed a round later, whatever is rung meanwhile: it is seen by then, or
 * rung once more. What is freed at the same time as something else may not be known by its hash; it
 * is heard of like that, too.
 */
static void *hear(void *user)
{
    struct hf_bell *bell = user;
    struct pollfd fds[] = {{.fd = bell->inotify_fd, .events = POLLIN},
                           {.fd = bell->stop_fd, .events = POLLIN}};
    const struct timespec pause = {0, SPACING_US * 1000};
    for (bool owes = false;;) {
        if (poll(fds, 2, owes ? 0 : -1) < 0 && errno != EINTR) break;
        if (fds[1].revents) break;
        bool rung = was_rung(bell->inotify_fd);
        uint64_t freed = rung ? freed_since(bell) : 0;
        if (freed) bell->heard(bell, freed);
        if (owes || (rung && !freed)) bell->heard(bell, 0);
        owes = freed != 0;
        if (rung || owes) nanosleep(&pause, NULL);
    }
    return NULL;
}

/* With the mutex. */
static bool start(struct hf_bell *bell, const char *path, int fd)
{
    bell->fd = fd;
    freed_since(bell);
    bell->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    bell->stop_fd = eventfd(0, EFD_CLOEXEC);
    bell->has_thread = bell->inotify_fd >= 0 && bell->stop_fd >= 0 &&
                       inotify_add_watch(bell->inotify_fd, path, IN_MODIFY) >= 0 &&
                       hf__thread_create(&bell->thread, hear, bell) == 0;
    return bell->has_thread;
}

bool hf__bell_listen(struct hf_bell *bell, const char *path, int fd, struct hf_hint *hint)
{
    pthread_mutex_lock(&bell->mutex);
    bool first = path && bell->inotify_fd < 0 && bell->stop_fd < 0;
    bool heard = !path || (first ? start(bell, path, fd) : bell->has_thread);
    if (heard) hf__list_append(&bell->hints, &hint->node);
    pthread_mutex_unlock(&bell->mutex);
    return heard;
}

void hf__bell_unlisten(struct hf_bell *bell, struct hf_hint *hint)
{
    pthread_mutex_lock(&bell->mutex);
    hf__list_remove(&hint->node);
    pthread_mutex_unlock(&bell->mutex);
}

void hf__bell_stop(struct hf_bell *bell)
{
    const uint64_t one = 1;
    if (bell->has_thread) {
        while (write(bell->stop_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(bell->thread, NULL);
        bell->has_thread = false;
    }
}

void hf__bell_free(struct hf_bell *bell)
{
    hf__bell_stop(bell);
    if (bell->inotify_fd >= 0) close(bell->inotify_fd);
    if (bell->stop_fd >= 0) close(bell->stop_fd);
    pthread_mutex_destroy(&bell->mutex);
}
