#include "cli/terminal.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/logger.h"

enum { LINE_MAX_BYTES = 512 };

bool terminal_colors(const char *when)
{
    if (strcmp(when, "always") == 0) return true;
    if (strcmp(when, "never") == 0) return false;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

const char *style_on(bool colors, enum style style)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    return colors ? codes[style] : "";
}

const char *style_off(bool colors)
{
    return colors ? "\033[0m" : "";
}

/* ---- standard error ---- */

static pthread_mutex_t say_mutex = PTHREAD_MUTEX_INITIALIZER;
enum { PATIENCE_MS = 1000 };
static bool progress_is_shown;

/* At most PIPE_BUF bytes: a pipe that can be written takes them all at once. With the mutex. */
static void write_now(const char *text, size_t len)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (len > PIPE_BUF) len = PIPE_BUF;
    if (poll(&fd, 1, PATIENCE_MS) != 1 || !(fd.revents & POLLOUT)) return;
    ssize_t done = write(STDERR_FILENO, text, len);
    (void)done;
}

/* Control bytes become ?. */
static size_t copy_safely(char *ret, size_t size, const char *text)
{
    size_t len = 0;
    for (const char *at = text; *at && len + 1 < size; at++) {
        unsigned char c = (unsigned char)*at;
        bool c1 = c == 0xc2 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xa0;
        ret[len++] = (char)(c < 0x20 || c == 0x7f || c1 ? '?' : c);
        if (c1) at++;
    }
    ret[len] = '\0';
    return len;
}

void say_whole(const char *line)
{
    char newline = '\n';
    struct iovec parts[] = {{(void *)(uintptr_t)line, strlen(line)}, {&newline, 1}};
    pthread_mutex_lock(&say_mutex);
    ssize_t written = writev(STDERR_FILENO, parts, 2);
    (void)written; /* the reader has gone */
    pthread_mutex_unlock(&say_mutex);
}

static void say(const char *prefix, const char *text)
{
    char line[8192]; /* JSON is never cut: every byte of its message may be escaped */
    pthread_mutex_lock(&say_mutex);
    size_t len =
        (size_t)snprintf(line, sizeof line, "%s%s", progress_is_shown ? "\r\033[K" : "", prefix);
    progress_is_shown = false;
    len += copy_safely(line + len, sizeof line - len - 1, text);
    if (logger_is_running()) {
        pthread_mutex_unlock(&say_mutex);
        logger_put(line);
        return;
    }
    line[len++] = '\n';
    write_now(line, len);
    pthread_mutex_unlock(&say_mutex);
}

void say_line(const char *text)
{
    say("holdfast: ", text);
}

void say_plainly(const char *text)
{
    say("", text);
}

void print_safely(FILE *to, const char *text)
{
    char safe[1024];
    while (*text) {
        size_t len = strlen(text);
        if (len > sizeof safe / 2) { /* not in the middle of a character */
            len = sizeof safe / 2;
            while (len > 1 && ((unsigned char)text[len] & 0xc0) == 0x80) len--;
        }
        char part[sizeof safe];
        memcpy(part, text, len);
        part[len] = '\0';
        copy_safely(safe, sizeof safe, part);
        fputs(safe, to);
        text += len;
    }
}

void progress_show(const char *format, ...)
{
    char line[LINE_MAX_BYTES], safe[LINE_MAX_BYTES + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    struct winsize size;
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
                       ? (size_t)size.ws_col - 1
                       : 79;
    size_t columns = 0, at = 0;
    for (; line[at]; at++) { /* never in the middle of a character */
        bool begins = ((unsigned char)line[at] & 0xc0) != 0x80;
        if (begins && columns++ == width) break;
    }
    line[at] = '\0';
    pthread_mutex_lock(&say_mutex);
    size_t len = (size_t)snprintf(safe, sizeof safe, "\r\033[K");
    len += copy_safely(safe + len, sizeof safe - len, line);
    write_now(safe, len);
    progress_is_shown = true;
    pthread_mutex_unlock(&say_mutex);
}

void progress_clear(void)
{
    pthread_mutex_lock(&say_mutex);
    if (progress_is_shown) write_now("\r\033[K", 4);
    progress_is_shown = false;
    pthread_mutex_unlock(&say_mutex);
}
