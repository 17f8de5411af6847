#include "cli/wake.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int wanted[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                             SIGUSR2, SIGCHLD, SIGTSTP, SIGCONT, SIGWINCH};

/* Of the process, like the signals themselves. */
static int signal_fd = -1, event_fd = -1, watched_fd = -1;
static sigset_t old_mask;
static int last_code;

static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void wake_init(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    signal(SIGCHLD, SIG_DFL); /* if ignored, children would vanish unnoticed */
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        /* Signals that our caller ignores (nohup) stay ignored, by us and by the child. */
        if (!is_ignored(wanted[i])) sigaddset(&mask, wanted[i]);
    }
    sigset_t blocked = mask;
    sigaddset(&blocked, SIGTTOU); /* for taking the terminal back */
    sigprocmask(SIG_BLOCK, &blocked, &old_mask);
    signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_fd < 0 || event_fd < 0) {
        perror("holdfast");
        exit(71); /* EX_OSERR */
    }
}

void wake_die_of(int number)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, number);
    fflush(NULL);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
}

void wake_let_signals_end(void)
{
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
}

const sigset_t *wake_old_mask(void)
{
    return &old_mask;
}

void wake_up(void)
{
    const uint64_t one = 1;
    ssize_t done = write(event_fd, &one, sizeof one);
    (void)done; /* if it is full, we are woken anyway */
}

void wake_watch(int fd)
{
    watched_fd = fd;
}

int wake_wait(int64_t timeout_ms)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN},
                           {.fd = event_fd, .events = POLLIN},
                           {.fd = watched_fd, .events = POLLIN}};
    int timeout = timeout_ms < 0 ? -1 : timeout_ms > 3600000 ? 3600000 : (int)timeout_ms;
    int ready = poll(fds, 3, timeout);
    if (ready <= 0) return -1;
    struct signalfd_siginfo info;
    uint64_t count;
    if ((fds[0].revents & POLLIN) && read(signal_fd, &info, sizeof info) == sizeof info) {
        last_code = info.ssi_code;
        return (int)info.ssi_signo;
    }
    if ((fds[1].revents & POLLIN) && read(event_fd, &count, sizeof count) == sizeof count) return 0;
    return fds[2].revents ? 0 : -1;
}

bool wake_was_terminal(void)
{
    return last_code == SI_KERNEL;
}

bool wake_is_end(int signal)
{
    return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
}
