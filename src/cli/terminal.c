#include "cli/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512 };

static bool progress_is_shown;

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

void print_safely(FILE *to, const char *text)
{
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        bool c1 = c == 0xc2 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xa0;
        fputc(c < 0x20 || c == 0x7f || c1 ? '?' : c, to);
        if (c1) at++;
    }
}

void progress_show(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
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
    fputs("\r\033[K", stderr);
    print_safely(stderr, line);
    fflush(stderr);
    progress_is_shown = true;
}

void progress_clear(void)
{
    if (!progress_is_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_is_shown = false;
}
