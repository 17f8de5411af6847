/* What a terminal can do: colours, and one line that is written again and again. */
#ifndef HF_CLI_TERMINAL_H
#define HF_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARN, STYLE_BAD };

/* Whether to colour standard output; "auto": if it is a terminal, and NO_COLOR is not set. */
bool terminal_colors(const char *when);

/* Text in a style, if there are colours; the caller prints what comes between. */
const char *style_on(bool colors, enum style style);
const char *style_off(bool colors);

/*
 * A line on standard error, from any thread. Nobody waits for long for whoever reads it: what cannot
 * be written within a second is dropped; while the logger runs it is left to that.
 */
void say_line(const char *text);
/* The same without our name before it. */
void say_plainly(const char *text);
/* A whole line for a program that reads our log; waits for it to be read. */
void say_whole(const char *line);

/* Bytes that would do something to a terminal are shown as ?; the width is that of the text. */
void print_safely(FILE *to, const char *text);

/* A line on standard error that replaces the one before; cut to the terminal's width. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_clear(void);

#endif
