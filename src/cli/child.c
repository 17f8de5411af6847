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

/* Between vfork and exec, in our memory: nothing but system calls. */
static void become(char *const *argv, char *const *environment, const struct child *child,
                   pid_t parent, int report)
{
    if (child->own_group) setpgid(0, 0);
    if (child->has_terminal) tcsetpgrp(child->terminal, getpid()); /* SIGTTOU is blocked still */
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
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    bool foreground = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    bool owns_terminal = foreground && getpid() == getpgrp() && isatty(STDOUT_FILENO);
    *child = (struct child){.has_terminal = owns_terminal,
                            .had_terminal = owns_terminal,
                            .own_group = owns_terminal || !foreground,
                            .terminal = terminal};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
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
    if (got != sizeof error) { /* it was executed */
        parent_of(child->pid, &child->began);
        return 0;
    }
    waitpid(child->pid, NULL, 0);
    child->is_over = true;
    child_end(child);
    return error;
}

bool child_is_foreground(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    bool foreground = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    if (terminal >= 0) close(terminal);
    return foreground;
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

/* Those who are older than the child are not of it: children of whatever was exec'ed into us. */
static bool came_of(pid_t pid, const struct child *child)
{
    enum { DEEPEST = 1000 };
    unsigned long long began = 0;
    for (int i = 0; i < DEEPEST && pid > 1; i++) {
        pid = parent_of(pid, &began);
        if (pid == 0 || began < child->began) return false;
        if (pid == getpid()) return true;
    }
    return false;
}

void child_kill_all(const struct child *child)
{
    enum { ROUNDS = 16 }; /* what forks while we look is found in the next one */
    if (child->own_group) kill(-child->pid, SIGKILL);
    if (!child->is_over) kill(child->pid, SIGKILL);
    bool found = true;
    for (int round = 0; round < ROUNDS && found; round++) {
        DIR *directory = opendir("/proc");
        const struct dirent *entry;
        found = false;
        while (directory && (entry = readdir(directory))) {
            int64_t pid;
            if (!hf__parse_int64(hf__slice_str(entry->d_name), &pid)) continue;
            if (!came_of((pid_t)pid, child)) continue;
            found = kill((pid_t)pid, SIGKILL) == 0 || found;
        }
        if (directory) closedir(directory);
    }
}

/* ---- the terminal ---- */

bool child_take_terminal(struct child *child)
{
    if (!child->own_group || child->terminal < 0 || tcgetpgrp(child->terminal) != getpgrp())
        return false;
    child->has_terminal = true;
    child_continue(child);
    return true;
}

void child_continue(struct child *child)
{
    if (child->has_terminal) tcsetpgrp(child->terminal, child->pid);
    child->is_stopped = child->is_suspended = false;
    child_signal(child, SIGCONT);
}

void child_end(struct child *child)
{
    if (child->has_terminal) tcsetpgrp(child->terminal, getpgrp());
    child->has_terminal = false;
    if (child->is_over && child->terminal >= 0) {
        close(child->terminal);
        child->terminal = -1;
    }
}

int child_exit_code(const struct child *child)
{
    if (WIFEXITED(child->status)) return WEXITSTATUS(child->status);
    return 128 + (WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0);
}
