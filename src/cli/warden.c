#include "cli/warden.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/child.h"

enum {
    AGAIN_US = 50 * 1000, /* between two tries to kill */
    LATE_TIMES = 4,       /* the margin, as a multiple of the latest wake-up */
};

enum order_kind { RUN, SIGNAL, CONTINUE, TERMINATE };

struct order {
    enum order_kind kind;
    int signal;
    struct warden_plan plan;
    struct child_orders orders;
};

/* Shared by the two processes. */
struct page {
    int64_t until_us; /* atomic */
    int64_t seen_us;  /* atomic: when the warden last ran */
};

static int64_t now_us(void)
{
    return hf__clock_boot_us(&hf__clock_system);
}

/* ---- the warden's process ---- */

struct warden {
    int socket, signals, timer;
    struct page *page;
    char *const *argv;
    struct child child;
    struct warden_plan plan;
    bool running;    /* a command, or its descendants while they are being killed */
    bool starting;   /* it has not been executed yet */
    bool left_alone; /* holdfast is gone */
    bool terminating, killing, denied_told, stop_told;
    bool end_told, end_due; /* its end was, or must be, reported */
    int64_t kill_at_us;
    int64_t ends_us; /* of the lease, as known when the command was told to end */
    int64_t due_us;  /* the time that the timer is set to */
    int64_t late_us; /* the latest wake-up so far */
    sigset_t due;    /* signals for the command, which is not executed yet */
};

/* A reader that does not read them must not block the warden. */
static bool report(const struct warden *w, enum warden_news news, int value)
{
    const struct warden_report what = {.news = news,
                                       .value = value,
                                       .left_ms = (w->ends_us - now_us()) / 1000,
                                       .terminated = w->terminating};
    return send(w->socket, &what, sizeof what, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof what;
}

/* W2. For late wake-ups, margin and kill_after take at most half of the lease. */
static int64_t margin_us(const struct warden *w)
{
    int64_t margin = LATE_TIMES * w->late_us, most = w->plan.lease_us / 4;
    int64_t room = w->plan.lease_us / 2 - w->plan.kill_after_us;
    if (most > room) most = room;
    if (margin > most) margin = most;
    return margin > w->plan.margin_us ? margin : w->plan.margin_us;
}

/* The last report about a command; repeated until there is room for it. */
static void tell_end(struct warden *w)
{
    if (!w->end_told) w->end_told = report(w, WARDEN_ENDED, w->child.status);
    w->end_due = !w->end_told && !w->left_alone;
}

/* The process that waits for its orders may have been killed or stopped; then there is another. */
static int start_child(struct warden *w, const struct child_orders *orders)
{
    child_look(&w->child);
    if (w->child.orders_fd >= 0 && (w->child.is_over || w->child.is_stopped))
        child_discard(&w->child);
    bool waits = !w->child.is_over && w->child.orders_fd >= 0;
    if (waits && child_start(&w->child, orders) == 0) return 0;
    int error = child_prepare(&w->child, w->argv);
    return error == 0 ? child_start(&w->child, orders) : error;
}

static void start(struct warden *w, const struct order *order)
{
    w->plan = order->plan;
    w->terminating = w->killing = w->denied_told = w->stop_told = false;
    w->end_told = w->end_due = false;
    sigemptyset(&w->due);
    /* In its own group the warden is not stopped together with holdfast. But a command that shares
     * holdfast's group must have its parent there, or the kernel takes it for a job of a shell. */
    if (order->orders.own_group) setpgid(0, 0);
    w->ends_us = __atomic_load_n(&w->page->until_us, __ATOMIC_RELAXED);
    int error = now_us() >= w->ends_us - margin_us(w) ? ETIME : start_child(w, &order->orders);
    w->running = w->starting = error == 0;
    if (error != 0) report(w, WARDEN_NOT_STARTED, error);
}

/* It was executed, or could not be. */
static void look_at_start(struct warden *w)
{
    int error;
    if (!w->starting || !child_has_started(&w->child, &error)) return;
    w->starting = false;
    if (error == 0) {
        report(w, WARDEN_STARTED, w->child.pid);
        for (int signal = 1; signal < NSIG; signal++)
            if (sigismember(&w->due, signal) == 1) child_signal(&w->child, signal);
        return;
    }
    w->running = false;
    waitpid(w->child.pid, NULL, 0);
    w->child.is_over = true;
    report(w, WARDEN_NOT_STARTED, error);
}

/* It has not been executed yet, so there is nothing to end: it must not start. */
static void stop_start(struct warden *w)
{
    int error;
    kill(w->child.pid, SIGKILL);
    w->starting = w->running = false;
    report(w, WARDEN_NOT_STARTED, ETIME);
    waitpid(w->child.pid, NULL, 0); /* it may take long to wake up and die */
    w->child.is_over = true;
    child_has_started(&w->child, &error);
}

static void go_on(struct warden *w)
{
    w->stop_told = false;
    w->child.is_stopped = w->child.is_suspended = false;
    child_signal(&w->child, SIGCONT);
}

static void terminate(struct warden *w)
{
    int64_t now = now_us(), last_us = w->ends_us - margin_us(w);
    w->terminating = true;
    w->kill_at_us = now + w->plan.kill_after_us;
    if (w->kill_at_us > last_us) w->kill_at_us = last_us;
    child_signal(&w->child, SIGTERM);
    if (w->child.is_stopped && w->kill_at_us > now) go_on(w);
    report(w, WARDEN_TERMINATED, 0);
}

/* W4. A process that cannot be killed blocks only the warden. */
static void kill_all(struct warden *w)
{
    const struct brood brood = {.root = getpid()};
    bool denied = false, first = !w->killing;
    w->killing = true;
    if (first) { /* at once, before searching */
        if (w->child.own_group) kill(-w->child.pid, SIGKILL);
        if (!w->child.is_over && kill(w->child.pid, SIGKILL) == 0) report(w, WARDEN_KILLED, 0);
    }
    int alive = child_kill_brood(&brood, &denied);
    child_look(&w->child);
    if (denied && !w->denied_told) report(w, WARDEN_DENIED, 0);
    w->denied_told |= denied;
    w->running = !w->child.is_over || alive > 0;
    if (w->child.is_over && (alive == 0 || denied)) tell_end(w);
}

/* Does what is due; returns the time of the next action. */
static int64_t act(struct warden *w)
{
    int64_t now = now_us();
    __atomic_store_n(&w->page->seen_us, now, __ATOMIC_RELAXED);
    if (w->end_due) tell_end(w);
    if (!w->running) return w->end_due ? now + AGAIN_US : INT64_MAX;
    if (!w->terminating) w->ends_us = __atomic_load_n(&w->page->until_us, __ATOMIC_RELAXED);
    int64_t term_at_us = w->ends_us - margin_us(w) - w->plan.kill_after_us;
    if (w->starting) {
        int64_t last_us = w->ends_us - margin_us(w), look_us = now + w->plan.lease_us / 8;
        if (now < last_us && !w->left_alone && !w->terminating)
            return look_us < last_us ? look_us : last_us;
        look_at_start(w); /* it may have been executed just now */
        if (w->starting) stop_start(w);
        if (!w->running) return INT64_MAX;
        if (w->terminating) terminate(w);
    }
    if (w->child.is_over && !w->terminating) {
        w->running = false;
        tell_end(w);
        return w->end_due ? now + AGAIN_US : INT64_MAX;
    }
    if (!w->terminating && !w->left_alone && now >= term_at_us) terminate(w);
    bool is_time = w->left_alone || (w->terminating && (now >= w->kill_at_us || w->child.is_over));
    if (is_time || w->killing) {
        kill_all(w);
        return w->running || w->end_due ? now_us() + AGAIN_US : INT64_MAX;
    }
    if (w->terminating) return w->kill_at_us;
    /* Also to measure how late wake-ups are. */
    int64_t look_us = now + w->plan.lease_us / 8;
    return look_us < term_at_us ? look_us : term_at_us;
}

static void set_timer(struct warden *w, int64_t at_us)
{
    struct itimerspec at = {0};
    w->due_us = at_us;
    if (at_us != INT64_MAX) {
        if (at_us < 1) at_us = 1; /* 0 means never */
        at.it_value.tv_sec = at_us / 1000000;
        at.it_value.tv_nsec = at_us % 1000000 * 1000;
    }
    timerfd_settime(w->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void obey(struct warden *w, const struct order *order)
{
    switch (order->kind) {
    case RUN: start(w, order); break;
    case SIGNAL:
        if (w->starting) sigaddset(&w->due, order->signal);
        else child_signal(&w->child, order->signal);
        break;
    case CONTINUE: go_on(w); break;
    case TERMINATE:
        if (w->starting) w->terminating = true;
        else if (w->running && !w->terminating) terminate(w);
        break;
    }
}

static void listen_to_holdfast(struct warden *w)
{
    struct order order;
    ssize_t got = recv(w->socket, &order, sizeof order, MSG_DONTWAIT);
    if (got == (ssize_t)sizeof order) obey(w, &order);
    else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) w->left_alone = true;
}

static void look_after_child(struct warden *w)
{
    struct signalfd_siginfo info;
    while (read(w->signals, &info, sizeof info) == sizeof info) {
    }
    if (w->starting) look_at_start(w);
    if (w->starting) {
        int stop = child_unstop(&w->child);
        /* The terminal's is for the command, too; in our own group holdfast passes it on. */
        if (stop && stop != SIGSTOP && w->child.own_group) sigaddset(&w->due, stop);
        return;
    }
    child_look(&w->child);
    bool is_stopped = w->running && w->child.is_suspended && !w->child.is_over;
    if (is_stopped && !w->stop_told) w->stop_told = report(w, WARDEN_STOPPED, 0);
    if (!is_stopped && w->stop_told) w->stop_told = !report(w, WARDEN_CONTINUED, 0);
}

static void note_lateness(struct warden *w)
{
    uint64_t count;
    if (read(w->timer, &count, sizeof count) != sizeof count) return;
    int64_t late = now_us() - w->due_us;
    w->late_us -= w->late_us / 8; /* older lateness counts less */
    if (late > w->late_us) w->late_us = late;
}

/* Raises our priority, if permitted; the command does not inherit it. */
static void take_precedence(void)
{
    const struct sched_param least = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &least);
}

static void be_warden(int socket, struct page *page, char *const *argv)
{
    struct warden w = {.socket = socket, .page = page, .argv = argv};
    sigset_t all, children;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    prctl(PR_SET_NAME, "hf-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    take_precedence();
    w.signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    w.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w.signals < 0 || w.timer < 0) _exit(1);
    child_prepare(&w.child, argv); /* if it cannot, it is tried again with the order to run */
    while (w.running || !w.left_alone) {
        set_timer(&w, act(&w));
        if (!w.running && w.left_alone) break;
        struct pollfd fds[] = {{.fd = w.timer, .events = POLLIN},
                               {.fd = w.signals, .events = POLLIN},
                               {.fd = w.left_alone ? -1 : w.socket, .events = POLLIN},
                               {.fd = w.starting ? w.child.report_fd : -1, .events = POLLIN}};
        if (poll(fds, 4, -1) < 0) continue;
        if (fds[0].revents) note_lateness(&w);
        if (fds[3].revents) look_at_start(&w);
        if (fds[1].revents || w.running) look_after_child(&w);
        if (fds[2].revents) listen_to_holdfast(&w);
    }
    if (w.child.orders_fd >= 0) child_discard(&w.child);
    _exit(0);
}

/* ---- our side ---- */

static struct {
    int socket;
    pid_t pid; /* 0: there is none */
    bool gone_told;
    unsigned long long began;
    struct page *page;
} us = {.socket = -1};

int warden_start(char *const *argv)
{
    int ends[2];
    if (!child_spare_others()) return ENOSYS;
    if (us.socket >= 0) close(us.socket);
    us.socket = -1;
    us.gone_told = false;
    us.page =
        mmap(NULL, sizeof *us.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (us.page == MAP_FAILED) return errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* if the warden is killed, its children become ours */
    us.pid = fork();
    if (us.pid == 0) {
        close(ends[0]);
        be_warden(ends[1], us.page, argv);
    }
    int error = errno;
    close(ends[1]);
    if (us.pid < 0) {
        us.pid = 0;
        close(ends[0]);
        return error;
    }
    us.socket = ends[0];
    us.began = child_began(us.pid);
    return 0;
}

int warden_fd(void)
{
    return us.socket;
}

static void tell(const struct order *order)
{
    ssize_t sent = send(us.socket, order, sizeof *order, MSG_NOSIGNAL);
    (void)sent; /* it is gone: its end will be reported */
}

void warden_run(const struct warden_plan *plan, const char *lock, const char *owner,
                const char *token)
{
    struct order order = {.kind = RUN, .plan = *plan};
    struct child_orders *orders = &order.orders;
    orders->own_group = plan->own_group;
    orders->takes_terminal = plan->takes_terminal;
    orders->has_token = token != NULL;
    snprintf(orders->token, sizeof orders->token, "HOLDFAST_TOKEN=%s", token ? token : "");
    snprintf(orders->lock, sizeof orders->lock, "HOLDFAST_LOCK=%s", lock);
    snprintf(orders->owner, sizeof orders->owner, "HOLDFAST_OWNER=%s", owner);
    __atomic_store_n(&us.page->until_us, plan->until_us, __ATOMIC_RELAXED);
    __atomic_store_n(&us.page->seen_us, now_us(), __ATOMIC_RELAXED);
    tell(&order);
}

void warden_extend(int64_t until_us)
{
    if (until_us > warden_until_us())
        __atomic_store_n(&us.page->until_us, until_us, __ATOMIC_RELAXED);
}

int64_t warden_until_us(void)
{
    return __atomic_load_n(&us.page->until_us, __ATOMIC_RELAXED);
}

void warden_signal(int signal)
{
    const struct order order = {.kind = SIGNAL, .signal = signal};
    tell(&order);
}

void warden_continue(void)
{
    const struct order order = {.kind = CONTINUE};
    tell(&order);
}

void warden_terminate(void)
{
    const struct order order = {.kind = TERMINATE};
    tell(&order);
}

int64_t warden_idle_us(void)
{
    return now_us() - __atomic_load_n(&us.page->seen_us, __ATOMIC_RELAXED);
}

void warden_remind(void)
{
    kill(us.pid, SIGCONT);
}

bool warden_is_gone(void)
{
    return us.gone_told;
}

bool warden_next(struct warden_report *ret)
{
    ssize_t got = recv(us.socket, ret, sizeof *ret, MSG_DONTWAIT);
    if (got == (ssize_t)sizeof *ret) return true;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    *ret = (struct warden_report){.news = WARDEN_GONE};
    bool first = !us.gone_told;
    us.gone_told = true;
    return first;
}

void warden_kill_all(void)
{
    const struct brood brood = {getpid(), us.began};
    bool denied;
    kill(us.pid, SIGKILL);
    child_kill_brood(&brood, &denied);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    } /* reaps adopted processes */
}

void warden_end(void)
{
    enum { LOOKS = 1000 };
    const struct timespec nap = {.tv_nsec = 1000000};
    if (us.pid == 0) return;
    close(us.socket);
    us.socket = -1;
    for (int i = 0; i < LOOKS && waitpid(us.pid, NULL, WNOHANG) == 0; i++) nanosleep(&nap, NULL);
    us.pid = 0;
}
