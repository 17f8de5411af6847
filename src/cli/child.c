#include "cli/child.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cli/wake.h"

extern char **environ;

/* ---- files ---- */

enum { FILES_MOST = 64 };

/* In ascending order, beginning with standard error. */
static unsigned inherited[FILES_MOST] = {STDERR_FILENO};
static int inherited_count = 1;
static bool pipes_are_ignored; /* by the program that started us */
static int policy, niceness;
static struct sched_param priority;

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

void child_remember(void)
{
    struct sigaction action;
    pipes_are_ignored = sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    policy = sched_getscheduler(0);
    sched_getparam(0, &priority);
    niceness = getpriority(PRIO_PROCESS, 0);
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (directory && inherited_count < FILES_MOST && (entry = readdir(directory))) {
        int64_t fd;
        if (!hf__parse_int64(hf__slice_str(entry->d_name), &fd) || fd <= STDERR_FILENO) continue;
        if (fd != dirfd(directory)) inherited[inherited_count++] = (unsigned)fd;
    }
    if (directory) closedir(directory);
    qsort(inherited, (size_t)inherited_count, sizeof inherited[0], compare);
}

/* Libraries do not mark all of their files as close-on-exec. */
static void keep_own_files(void)
{
    for (int i = 0; i < inherited_count; i++) {
        unsigned first = inherited[i] + 1;
        unsigned last = i + 1 < inherited_count ? inherited[i + 1] - 1 : ~0u;
        bool knows = i + 1 < inherited_count || inherited_count < FILES_MOST;
        if (knows && first <= last) close_range(first, last, CLOSE_RANGE_CLOEXEC);
    }
}

/* ---- variables ---- */

static bool is_overridden(const char *entry)
{
    return strncmp(entry, "HOLDFAST_LOCK=", 14) == 0 ||
           strncmp(entry, "HOLDFAST_OWNER=", 15) == 0 || strncmp(entry, "HOLDFAST_TOKEN=", 15) == 0;
}

/* The token is first, since formats without tokens set no variable, not even to 0. */
static char **environment_with(struct child_orders *orders)
{
    size_t count = 4, at = 0;
    for (char **entry = environ; entry && *entry; entry++) count++;
    char **all = hf__calloc(count, sizeof *all);
    if (!all) return NULL;
    all[at++] = orders->token;
    all[at++] = orders->lock;
    all[at++] = orders->owner;
    for (char **entry = environ; entry && *entry; entry++)
        if (!is_overridden(*entry)) all[at++] = *entry;
    return all;
}

/* ---- life ---- */

/* The parent of a process, and its start (clock ticks since boot); 0: it has ended. */
static pid_t parent_of(pid_t pid, unsigned long long *ret_began)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    if (got <= 0) return 0;
    text[got] = '\0';
    const char *at = strrchr(text, ')'); /* the name may contain anything */
    int parent = 0;
    char state = 'Z';
    int found =
        at ? sscanf(at + 1,
                    " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                    "%*d %llu",
                    &state, &parent, ret_began)
           : 0;
    return found == 3 && state != 'Z' ? parent : 0;
}

unsigned long long child_began(pid_t pid)
{
    unsigned long long began = 0;
    return parent_of(pid, &began) ? began : 0;
}

pid_t child_parent(pid_t pid)
{
    unsigned long long began;
    return parent_of(pid, &began);
}

/* As we were started with them; signals stay blocked. */
static void restore_settings(void)
{
    signal(SIGPIPE, pipes_are_ignored ? SIG_IGN : SIG_DFL);
    if (policy >= 0 && sched_getscheduler(0) != policy) sched_setscheduler(0, policy, &priority);
    if (getpriority(PRIO_PROCESS, 0) != niceness) setpriority(PRIO_PROCESS, 0, niceness);
}

/* A parent that ends, or has no use for us, closes its end. */
static void wait_for_orders(int fd, struct child_orders *ret)
{
    ssize_t got;
    while ((got = read(fd, ret, sizeof *ret)) < 0 && errno == EINTR) {
    }
    if (got != (ssize_t)sizeof *ret) _exit(127);
}

/*
 * What execvpe would find; "" if that is left to it. To look whether a file is there takes a fraction
 * of the time that it takes to try to execute it.
 */
static const char *find_program(const char *name)
{
    static char program[PATH_MAX];
    struct stat info;
    size_t size = strlen(name) + 1;
    const char *path = strchr(name, '/') || size == 1 ? NULL : getenv("PATH");
    for (const char *end; path; path = *end ? end + 1 : NULL) {
        end = strchrnul(path, ':');
        size_t len = (size_t)(end - path);
        if (len + 1 + size > sizeof program) break;
        memcpy(program, path, len);
        if (len > 0) program[len++] = '/'; /* an empty entry is this directory */
        memcpy(program + len, name, size);
        if (access(program, X_OK) == 0 && stat(program, &info) == 0 && S_ISREG(info.st_mode))
            return program;
    }
    return "";
}

/* What has come while it waited for its orders was not for the command. */
static void forget_signals(void)
{
    const struct timespec now = {0};
    sigset_t all;
    sigfillset(&all);
    while (sigtimedwait(&all, NULL, &now) > 0) continue;
}

/* Between fork and exec. What does not depend on the orders is done before they come. */
static void become(char *const *argv, pid_t parent, int orders_fd, int report)
{
    static struct child_orders orders;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int error = getppid() == parent ? 0 : ESRCH;
    restore_settings();
    keep_own_files();
    char **environment = environment_with(&orders);
    if (!environment) error = ENOMEM;
    execve("", argv, environ); /* fails; its code is in memory now, */
    find_program(argv[0]);     /* and what this looks at in the kernel's cache */
    forget_signals();
    wait_for_orders(orders_fd, &orders);
    forget_signals();
    if (orders.own_group) setpgid(0, 0);
    int terminal = orders.takes_terminal ? open("/dev/tty", O_RDWR | O_CLOEXEC) : -1;
    if (terminal >= 0) tcsetpgrp(terminal, getpid()); /* SIGTTOU is blocked still */
    sigprocmask(SIG_SETMASK, wake_old_mask(), NULL);
    if (error == 0) {
        if (!orders.has_token) environment++;
        execve(find_program(argv[0]), argv, environment);
        execvpe(argv[0], argv, environment);
        error = errno;
    }
    ssize_t told = write(report, &error, sizeof error);
    (void)told;
    _exit(127);
}

/* Orders are at most PIPE_BUF bytes: they are written as a whole, and read as a whole. */
static_assert(sizeof(struct child_orders) <= 4096, "larger than PIPE_BUF");

/* Not vfork: the killer must not wait for a program that takes long to be executed. */
int child_prepare(struct child *child, char *const *argv)
{
    int orders[2], report[2];
    *child = (struct child){.orders_fd = -1, .report_fd = -1, .is_over = true};
    if (pipe2(orders, O_CLOEXEC) != 0) return errno;
    int error = pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0 ? errno : 0;
    pid_t parent = getpid();
    if (error == 0) {
        child->pid = fork();
        error = errno;
        if (child->pid == 0) {
            close(orders[1]);
            become(argv, parent, orders[0], report[1]);
        }
        close(report[1]);
        if (child->pid < 0) close(report[0]);
    }
    close(orders[0]);
    if (child->pid > 0) {
        child->orders_fd = orders[1];
        child->report_fd = report[0];
        child->is_over = false;
        return 0;
    }
    close(orders[1]);
    return error;
}

static void close_both(struct child *child)
{
    if (child->orders_fd >= 0) close(child->orders_fd);
    if (child->report_fd >= 0) close(child->report_fd);
    child->orders_fd = child->report_fd = -1;
}

void child_discard(struct child *child)
{
    close_both(child);
    if (child->is_over) return;
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    child->is_over = true;
}

int child_start(struct child *child, const struct child_orders *orders)
{
    child->own_group = orders->own_group;
    /* The child does the same; either may be first. */
    if (orders->own_group) setpgid(child->pid, child->pid);
    ssize_t told = write(child->orders_fd, orders, sizeof *orders);
    int error = told == (ssize_t)sizeof *orders ? 0 : errno;
    if (error != 0) { /* it was killed while it waited */
        child_discard(child);
        return error;
    }
    close(child->orders_fd);
    child->orders_fd = -1;
    return 0;
}

bool child_has_started(struct child *child, int *ret_error)
{
    int error = 0;
    *ret_error = 0;
    if (child->report_fd < 0) return true;
    ssize_t got = read(child->report_fd, &error, sizeof error);
    if (got < 0) return false; /* neither, so far */
    close(child->report_fd);
    child->report_fd = -1;
    if (got == sizeof error) *ret_error = error;
    return true;
}

void child_signal(const struct child *child, int signal)
{
    if (child->is_over && !child->own_group) return;
    kill(child->own_group ? -child->pid : child->pid, signal);
}

int child_unstop(const struct child *child)
{
    siginfo_t info = {0};
    bool told = waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid;
    if (told) kill(child->pid, SIGCONT);
    return told ? info.si_status : 0;
}

void child_look(struct child *child)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (pid < 0 && errno == ECHILD) child->is_over = true;
        if (pid <= 0) return;
        if (pid != child->pid) continue; /* an orphan that we have adopted */
        if (WIFSTOPPED(status)) {
            child->is_stopped = true;
            child->is_suspended = WSTOPSIG(status) != SIGSTOP;
        } else if (WIFCONTINUED(status)) {
            child->is_stopped = child->is_suspended = false;
        } else {
            child->is_over = true;
            child->status = status;
        }
    }
}

/* ---- killing ---- */

enum { SPARED_MOST = 64 };

/* Children that this process had before: those of the program that exec'ed into it. */
static pid_t spared[SPARED_MOST];
static int spared_count;

static bool is_spared(pid_t pid)
{
    for (int i = 0; i < spared_count; i++)
        if (spared[i] == pid) return true;
    return false;
}

bool child_spare_others(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    int pid;
    spared_count = 0;
    while (file && spared_count < SPARED_MOST && fscanf(file, "%d", &pid) == 1)
        spared[spared_count++] = pid;
    if (file) fclose(file);
    return file || child_began(getpid()) != 0;
}

/* One search for all descendants of a process. */
struct hunt {
    int alive;   /* and found */
    bool denied; /* one may not be killed */
    bool blind;  /* the kernel does not list children */
};

static void hunt_children(struct hunt *hunt, pid_t pid, unsigned long long not_before, int depth);

static void hunt_one(struct hunt *hunt, pid_t pid, unsigned long long not_before, int depth)
{
    unsigned long long began = 0;
    bool is_seen = parent_of(pid, &began) != 0;
    bool may_not = !is_seen && kill(pid, 0) != 0 && errno == EPERM; /* hidden, and another user's */
    if ((!is_seen && !may_not) || (is_seen && began < not_before)) return;
    if (depth == 0 && is_spared(pid)) return;
    hunt->alive++;
    if (kill(pid, SIGKILL) != 0 && errno == EPERM) hunt->denied = true;
    hunt_children(hunt, pid, 0, depth + 1);
}

/* "12 345 6 ": as the kernel lists them. */
static void hunt_list(struct hunt *hunt, const char *path, unsigned long long not_before, int depth)
{
    FILE *file = fopen(path, "re");
    int pid;
    if (!file) {
        hunt->blind |= errno == ENOENT && depth == 0;
        return;
    }
    while (fscanf(file, "%d", &pid) == 1) hunt_one(hunt, pid, not_before, depth);
    fclose(file);
}

static void hunt_children(struct hunt *hunt, pid_t pid, unsigned long long not_before, int depth)
{
    enum { DEEPEST = 200 }; /* each level has two files open */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = depth < DEEPEST ? opendir(path) : NULL;
    const struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, entry->d_name);
        hunt_list(hunt, path, not_before, depth);
    }
    if (threads) closedir(threads);
}

/* Where the kernel does not list children: checks every process by its ancestors. */
static bool is_of(pid_t pid, const struct brood *brood)
{
    enum { DEEPEST = 1000 };
    unsigned long long began = 0;
    for (int i = 0; i < DEEPEST && pid > 1; i++) {
        pid = parent_of(pid, &began);
        if (pid == brood->root) return began >= brood->not_before;
        if (pid == 0) return false;
    }
    return false;
}

static void hunt_everywhere(struct hunt *hunt, const struct brood *brood)
{
    DIR *directory = opendir("/proc");
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        int64_t pid;
        if (!hf__parse_int64(hf__slice_str(entry->d_name), &pid)) continue;
        if (!is_of((pid_t)pid, brood)) continue;
        hunt->alive++;
        if (kill((pid_t)pid, SIGKILL) != 0 && errno == EPERM) hunt->denied = true;
    }
    if (directory) closedir(directory);
}

/*
 * The children of a killed process become the root's: the next round finds them, as well as those
 * forked during this one.
 */
int child_kill_brood(const struct brood *brood, bool *ret_denied)
{
    enum { ROUNDS = 8 };
    struct hunt hunt = {.alive = 1};
    *ret_denied = false;
    for (int round = 0; round < ROUNDS && hunt.alive > 0; round++) {
        hunt = (struct hunt){0};
        hunt_children(&hunt, brood->root, brood->not_before, 0);
        if (hunt.blind) hunt_everywhere(&hunt, brood);
        *ret_denied |= hunt.denied;
    }
    return hunt.alive;
}

int child_exit_code(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    return 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}
