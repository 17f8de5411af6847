/*
 * Lines for standard error that nobody waits for: a bounded queue, written by a thread of its own.
 * A reader that stalls holds up that thread and nobody else; lines that do not fit are dropped and
 * counted, and the count is written when there is room again.
 */
#ifndef HF_CLI_LOGGER_H
#define HF_CLI_LOGGER_H

#include <stdbool.h>
#include <stdint.h>

/* 0, or -1: no thread could be started, and lines are written at once. `json`: how to say that lines
 * were dropped. */
int logger_start(bool json);
bool logger_is_running(void);
/* From any thread. The line has no newline. */
void logger_put(const char *line);
/* How many lines were dropped so far; atomic. */
extern uint64_t logger_dropped;
/* Writes what is queued, if that can be done within a second. May be started again. */
void logger_stop(void);

#endif
