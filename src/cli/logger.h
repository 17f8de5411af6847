/*
 * A log on standard error that blocks no caller: a bounded queue, written by a thread of its own. A
 * reader that stalls blocks only that thread; lines that do not fit are dropped and counted, and
 * the count is written when there is room again.
 */
#ifndef HF_CLI_LOGGER_H
#define HF_CLI_LOGGER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From now on lines are queued. The first one starts the thread; if it cannot be started, lines are
 * written directly. `json`: the format of the line that reports dropped ones.
 */
void logger_start(bool json);
bool logger_is_running(void);
/* From any thread. The line has no newline. */
void logger_put(const char *line);
/* The number of lines dropped so far; atomic. */
extern uint64_t logger_dropped;
/* Writes the queue, if possible within a second. The logger may be started again. */
void logger_stop(void);
/* The same, but the thread stays for the next start: its end would take time. */
void logger_pause(void);

#endif
