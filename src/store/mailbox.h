/*
 * Where calls come back to, for whoever has a loop of their own.
 *
 * A call that names a mailbox is put there by the store instead of being called back on a thread of
 * the store. The descriptor becomes readable, once for as many as come together; hf__mailbox_run
 * then calls all of them back, on the thread that runs it.
 */
#ifndef HF_STORE_MAILBOX_H
#define HF_STORE_MAILBOX_H

#include <pthread.h>

#include "base/error.h"
#include "base/list.h"

struct hf_call;

struct hf_mailbox {
    pthread_mutex_t mutex;
    struct hf_list calls;
    bool rung;
    int fd; /* an eventfd */
};

int hf__mailbox_open(struct hf_mailbox *mailbox, struct hf_error *reterr);
/* Nothing may be on its way to it. */
void hf__mailbox_close(struct hf_mailbox *mailbox);

/* From any thread: puts a call in, and says nothing yet. */
void hf__mailbox_put(struct hf_mailbox *mailbox, struct hf_call *call);
/* From any thread: the descriptor becomes readable, whether or not there are calls. */
void hf__mailbox_ring(struct hf_mailbox *mailbox);

/* Calls back whatever is in it. */
void hf__mailbox_run(struct hf_mailbox *mailbox);

#endif
