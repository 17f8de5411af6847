/*
 * A service's events as hints for waiters: a stream that is kept open while anybody listens, on the
 * loop of its store.
 *
 * Invariants
 * E1  Whenever the stream breaks or begins, listeners get a hint: events may have been missed.
 * E2  While it is broken they get hints from time to time, so that waiting does not depend on it.
 */
#ifndef HF_STORE_HEARING_H
#define HF_STORE_HEARING_H

#include "store/access.h"
#include "store/bell.h"

struct hf_hearing {
    struct hf_loop *loop;
    struct hf_http *http;
    const struct hf_access *access;
    struct hf_bell bell; /* whom to tell */
    struct hf_task begin;
    bool posted; /* guarded by the bell's mutex */

    /* The loop's own. */
    struct hf_timer timer;
    bool has_timer;
    bool is_open;
    bool streams; /* an event has come since it was opened */
    int failures;
    struct hf_arena arena;
    struct hf_http_request request;
    char line[8192]; /* the beginning of the line that is coming in */
    size_t line_len;
    bool is_worth; /* what the event that is coming in tells … */
    /* … and who wants to know more of it: `event` is its JSON. On the loop's thread. NULL: nobody. */
    void (*heard)(struct hf_hearing *hearing, struct hf_slice event);
};

/* Before the loop runs. */
bool hf__hearing_init(struct hf_hearing *hearing, struct hf_loop *loop, struct hf_http *http,
                      const struct hf_access *access);
/* On the loop's thread, before the http client is closed. */
void hf__hearing_end(struct hf_hearing *hearing);
/* When the loop has stopped. */
void hf__hearing_free(struct hf_hearing *hearing);

/* On the loop's thread: opens the stream, for `heard`. */
void hf__hearing_begin(struct hf_hearing *hearing);

bool hf__hearing_listen(struct hf_hearing *hearing, struct hf_hint *hint);
void hf__hearing_unlisten(struct hf_hearing *hearing, struct hf_hint *hint);

#endif
