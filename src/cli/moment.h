/* Durations and moments as people write and read them. */
#ifndef HF_CLI_MOMENT_H
#define HF_CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { MOMENT_SIZE = 40 };

/* 500ms, 30s, 1.5s, 5m, 1h30m, 2d; a number without a unit is seconds, as in flock(1). At most ten
 * years. */
bool duration_parse(const char *text, int64_t *ret_ms);

/* "850 ms", "12 s", "3m20s", "2h5m", "4d3h": two units at most. */
const char *duration_print(int64_t ms, char ret[MOMENT_SIZE]);

/* 2026-11-16T02:10:05.123Z */
const char *moment_print(int64_t unix_ms, char ret[MOMENT_SIZE]);

int64_t wall_ms(void);
/* Never jumps, and runs on while the machine is suspended. */
int64_t boot_ms(void);

#endif
