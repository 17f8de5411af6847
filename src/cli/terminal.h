/* Terminals: colours, and a progress line that is overwritten. */
#ifndef HF_CLI_TERMINAL_H
#define HF_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARN, STYLE_BAD };

/* Whether to colour standard output; "auto": if it is a terminal, and NO_COLOR is not set. */
bool terminal_colors(const char *when);

/* Text in a style, if there are colours; the caller prints the text between the two. */
const char *style_on(bool colors, enum style style);
const char *style_off(bool colors);

/*
 * A line on standard error, from any thread. A slow reader does not block it for long: what cannot
 * be written within a second is dropped. While the logger runs, the line is queued there.
 */
void say_line(const char *text);
/* The same without the prefix "holdfast: ". */
void say_plainly(const char *text);
/* A whole line for a program that reads the log; waits until it is written. */
void say_whole(const char *line);

/* Control bytes are shown as ?; the width is that of the text. */
void print_safely(FILE *to, const char *text);

/* A line on standard error that replaces the previous one; cut to the terminal's width. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_clear(void);

#endif
