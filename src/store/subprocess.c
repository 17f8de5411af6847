#include "store/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_WORDS = 256, POLL_MS = 5 };

/* Takes one word off a command line into `to`. False on an unbalanced quote. */
static bool take_word(const char **line, char **to)
{
    char quote = '\0';
    for (; **line; (*line)++) {
        char c = **line;
        if (!quote && (c == ' ' || c == '\t')) break;
        if (quote == c) quote = '\0';
        else if (!quote && (c == '\'' || c == '"')) quote = c;
        else if (c == '\\' && quote != '\'' && (*line)[1]) *(*to)++ = *++(*line);
        else *(*to)++ = c;
    }
    *(*to)++ = '\0';
    return !quote;
}

char **hf__split_command(struct hf_arena *arena, const char *line)
{
    char **words = hf__arena_zalloc(arena, MAX_WORDS + 1, sizeof *words);
    char *text = hf__arena_alloc(arena, strlen(line) * 2 + 2);
    if (!words || !text) return NULL;
    size_t count = 0;
    for (;;) {
        while (*line == ' ' || *line == '\t') line++;
        if (!*line) break;
        if (count == MAX_WORDS) return NULL;
        words[count++] = text;
        if (!take_word(&line, &text)) return NULL;
    }
    return count ? words : NULL;
}

/* Waits for a child; kills it when its time is over. False: it had to be killed. */
static bool wait_for(pid_t pid, int timeout_ms, const bool *stop, int *ret_status)
{
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    for (int waited = 0; waited < timeout_ms; waited += POLL_MS) {
        if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) break;
        pid_t ended = waitpid(pid, ret_status, WNOHANG);
        if (ended == pid) return true;
        if (ended < 0 && errno == ECHILD) { /* the program ignores SIGCHLD: its status is lost */
            *ret_status = 0;
            return true;
        }
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, ret_status, 0);
    return false;
}

/* Our threads block all signals; a program expects to hear them. */
static int start(char *const *argv, int out, int err, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, broken_pipe;
    sigemptyset(&none);
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    int result = posix_spawnp(ret, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return result;
}

/* What was written into a memory file. */
static int collect(struct hf_arena *arena, int fd, size_t limit, struct hf_slice *ret)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || (size_t)size > limit) return HF_ERR_LIMIT;
    char *text = hf__arena_alloc(arena, (size_t)size + 1);
    if (!text) return HF_ERR_NO_MEMORY;
    ssize_t got = pread(fd, text, (size_t)size, 0);
    *ret = hf__slice(text, got > 0 ? (size_t)got : 0);
    return 0;
}

static int explain(struct hf_arena *arena, const char *program, int status, int err,
                   struct hf_error *reterr)
{
    struct hf_slice text = {0};
    collect(arena, err, 1 << 20, &text);
    const char *newline = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    if (newline) text.len = (size_t)(newline - text.ptr);
    if (WIFSIGNALED(status))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s was ended by signal %d", program,
                             WTERMSIG(status));
    return hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s ended with status %d%s%.*s", program,
                         WEXITSTATUS(status), text.len ? ": " : "", HF_FMT(text));
}

int hf__subprocess_run(struct hf_arena *arena, char *const *argv, int timeout_ms, const bool *stop,
                       size_t limit, struct hf_slice *ret, struct hf_error *reterr)
{
    int out = memfd_create("output", MFD_CLOEXEC), err = memfd_create("errors", MFD_CLOEXEC);
    int code = 0, status = 0;
    pid_t pid;
    int failure = out < 0 || err < 0 ? errno : start(argv, out, err, &pid);
    if (failure != 0)
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "cannot run %s: %s", argv[0],
                             strerror(failure));
    else if (!wait_for(pid, timeout_ms, stop, &status))
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s did not end within %d ms", argv[0],
                             timeout_ms);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        code = explain(arena, argv[0], status, err, reterr);
    else if (collect(arena, out, limit, ret) != 0)
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s printed more than %zu bytes", argv[0],
                             limit);
    if (out >= 0) close(out);
    if (err >= 0) close(err);
    return code;
}
