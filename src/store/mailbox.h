/*
 * Where calls come back to, for a caller with a loop of its own.
 *
 * A call that names a mailbox is put there by the store instead of being called back on a thread of
 * the store. The descriptor becomes readable, once for all that come together; hf__mailbox_run then
 * calls all of them back, on the thread that runs it.
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
    int bell; /* atomic: see mailbox.c */
    int held; /* atomic */
    int fd;   /* an eventfd */
};

int hf__mailbox_open(struct hf_mailbox *mailbox, struct hf_error *reterr);
/* Nothing may be on its way to it but what is held. */
void hf__mailbox_close(struct hf_mailbox *mailbox);

/*
 * Its owner may close it as soon as the last call has come back, which may be before the ring: so a
 * thread that puts calls in holds it until after that.
 */
void hf__mailbox_hold(struct hf_mailbox *mailbox);
void hf__mailbox_let_go(struct hf_mailbox *mailbox);

/* From any thread: puts a call in, and says nothing yet. */
void hf__mailbox_put(struct hf_mailbox *mailbox, struct hf_call *call);
/* From any thread: the descriptor becomes readable, whether or not there are calls. */
void hf__mailbox_ring(struct hf_mailbox *mailbox);

/*
 * For an owner that looks into it again before it sleeps: from now on it need not be woken. Before
 * it sleeps it leaves; false: not yet, there is something in it. Such an owner empties the
 * descriptor itself when that is readable.
 */
void hf__mailbox_hush(struct hf_mailbox *mailbox);
/* It no longer attends: the next thread that runs the mailbox is woken in any case. */
void hf__mailbox_abandon(struct hf_mailbox *mailbox);
void hf__mailbox_attend(struct hf_mailbox *mailbox);
bool hf__mailbox_leave(struct hf_mailbox *mailbox);

/* Calls back whatever is in it. */
void hf__mailbox_run(struct hf_mailbox *mailbox);

#endif
