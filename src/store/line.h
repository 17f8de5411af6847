/*
 * The line: the order in which the processes that have a file open wait for a lock. It is a hint,
 * and the kernel alone keeps it: a waiter locks one byte of PATH-open, far beyond its end. The
 * offset of that byte tells which lock it waits for, and since when. A process is first in line if
 * no other has locked an earlier byte of the lock's range.
 *
 * Nothing is written and nobody is woken when a waiter joins or leaves; a process that ends has
 * left. No call blocks. Locks whose names have the same hash share a line, which costs them time,
 * and nothing else.
 */
#ifndef HF_STORE_LINE_H
#define HF_STORE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* Joins as one that waits since `since_us`, by any clock that all have; returns its place, 0: none. */
int64_t hf__line_join(int fd, struct hf_slice name, int64_t since_us);
void hf__line_leave(int fd, int64_t place);
/* Whether no other process is ahead of this place; of 0: whether none waits. */
bool hf__line_is_first(int fd, struct hf_slice name, int64_t place);
/* How many places others have; counts up to `most`. */
size_t hf__line_count(int fd, struct hf_slice name, size_t most);

#endif
