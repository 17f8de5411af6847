#include "cli/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/wake.h"

extern char **environ;

/* ---- files ---- */

enum { FILES_MOST = 64 };

/* In ascending order, beginning with standard error. */
static unsigned inherited[FILES_MOST] = {STDERR_FILENO};
static int inherited_count = 1;

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

void child_remember_files(void)
{
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

/* Libraries do not mark all of theirs. */
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

static bool is_overridden(const char *entry, const struct child_variable *variables)
{
    for (; variables->name; variables++) {
        size_t len = strlen(variables->name);
        if (strncmp(entry, variables->name, len) == 0 && entry[len] == '=') return true;
    }
    return false;
}

/* A copy: the library's threads may look at ours. */
static char **environment_with(const struct child_variable *variables, struct hf_arena *arena)
{
    size_t count = 0, at = 0;
    for (const struct child_variable *v = variables; v->name; v++) count++;
    for (char **entry = environ; entry && *entry; entry++) count++;
    char **all = hf__arena_zalloc(arena, count + 1, sizeof *all);
    if (!all) return NULL;
    for (const struct child_variable *v = variables; v->name; v++) {
        if (!v->value) continue;
        struct hf_slice text = hf__arena_printf(arena, "%s=%s", v->name, v->value);
        if (!text.ptr) return NULL;
        all[at++] = (char *)text.ptr;
    }
    for (char **entry = environ; entry && *entry; entry++) {
        if (!is_overridden(*entry, variables)) all[at++] = *entry;
    }
    return all;
}

/* ---- life ---- */

/* The parent of a process, and when it began (clock ticks since boot); 0: it is gone. */
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
    parent_of(pid, &began);
    return began;
}

/* Between vfork and exec, in our memory: nothing but system calls. */
static void become(char *const *argv, char *const *environment, const struct child *child,
                   pid_t parent, int report)
{
    if (child->own_group) setpgid(0, 0);
    int terminal = child->takes_terminal ? open("/dev/tty", O_RDWR | O_CLOEXEC) : -1;
    if (terminal >= 0) tcsetpgrp(terminal, getpid()); /* SIGTTOU is blocked still */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int error = getppid() == parent ? 0 : ESRCH;
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, wake_old_mask(), NULL);
    keep_own_files();
    if (error == 0) {
        execvpe(argv[0], argv, environment);
        error = errno;
    }
    ssize_t told = write(report, &error, sizeof error);
    (void)told;
    _exit(127);
}

int child_start(struct child *child, char *const *argv, const struct child_variable *variables,
                struct hf_arena *arena)
{
    int report[2], error = 0;
    char **environment = environment_with(variables, arena);
    if (!environment) return ENOMEM;
    if (pipe2(report, O_CLOEXEC) != 0) return errno;
    pid_t parent = getpid();
    child->pid = vfork(); /* copying our page tables takes longer than all the rest */
    if (child->pid == 0) {
        become(argv, environment, child, parent, report[1]);
    }
    int forked = errno;
    close(report[1]);
    if (child->pid < 0) {
        close(report[0]);
        return forked;
    }
    if (child->own_group) setpgid(child->pid, child->pid); /* whoever is first */
    ssize_t got;
    do got = read(report[0], &error, sizeof error);
    while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got != sizeof error) return 0; /* it was executed */
    waitpid(child->pid, NULL, 0);
    child->is_over = true;
    return error;
}

void child_signal(const struct child *child, int signal)
{
    if (child->is_over && !child->own_group) return;
    kill(child->own_group ? -child->pid : child->pid, signal);
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

/* One look at all that came of a process. */
struct hunt {
    int alive;   /* and found */
    bool denied; /* one may not be killed */
    bool blind;  /* the kernel does not tell whose children are whose */
};

static void hunt_children(struct hunt *hunt, pid_t pid, unsigned long long not_before, int depth);

static void hunt_one(struct hunt *hunt, pid_t pid, unsigned long long not_before, int depth)
{
    unsigned long long began = 0;
    if (parent_of(pid, &began) == 0 || began < not_before) return;
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

/* Where the kernel does not list children: every process, by its parents. */
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
 * The children of who was killed become the root's: they are found in the next round, and so is
 * what forks while we look.
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
