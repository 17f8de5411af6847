/* Runs a program without a shell and collects what it prints. */
#ifndef HF_STORE_SUBPROCESS_H
#define HF_STORE_SUBPROCESS_H

#include "base/arena.h"
#include "base/error.h"

/*
 * Splits a command line as a shell would (blanks, quotes, backslashes, nothing
 * else). NULL-terminated; NULL on unbalanced quotes, an empty line or want of memory.
 */
char **hf__split_command(struct hf_arena *arena, const char *line);

/*
 * Runs it with the process's environment, standard input empty. Its standard
 * output goes to the arena. An exit status that is not 0, or more than
 * timeout_ms, is an error with the first line of its standard error. It is also
 * ended when `stop` (atomic, may be NULL) becomes true.
 */
int hf__subprocess_run(struct hf_arena *arena, char *const *argv, int timeout_ms, const bool *stop,
                       size_t limit, struct hf_slice *ret, struct hf_error *reterr);

#endif
