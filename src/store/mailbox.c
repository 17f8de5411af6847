#include "store/mailbox.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/store.h"

/*
 * QUIET -> RUNG by the thread that rings, which then writes to the descriptor; -> QUIET by
 * hf__mailbox_run, after it has emptied the descriptor and before it looks for calls. So there is
 * one write for many rings, and none is lost. The write may come late: then it wakes the owner once
 * for nothing. No mutex is held across it, and nothing waits for it: the owner that it wakes may
 * take the processor.
 *
 * QUIET or RUNG -> ATTENDED or MISSED by the owner, ATTENDED -> MISSED by a thread that rings,
 * which costs no system call; -> ATTENDED by hf__mailbox_run. The owner goes away from ATTENDED
 * only.
 */
enum { QUIET, RUNG, ATTENDED, MISSED };

static bool turn(struct hf_mailbox *mailbox, int from, int to)
{
    return __atomic_compare_exchange_n(&mailbox->bell, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

int hf__mailbox_open(struct hf_mailbox *mailbox, struct hf_error *reterr)
{
    *mailbox = (struct hf_mailbox){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    hf__list_init(&mailbox->calls);
    if (mailbox->fd < 0)
        return hf__error_set(reterr, HF_ERR_IO, "no descriptor is left: %s", strerror(errno));
    if (pthread_mutex_init(&mailbox->mutex, NULL) == 0) return 0;
    close(mailbox->fd);
    return hf__error_no_memory(reterr);
}

void hf__mailbox_hold(struct hf_mailbox *mailbox)
{
    __atomic_fetch_add(&mailbox->held, 1, __ATOMIC_RELAXED);
}

void hf__mailbox_let_go(struct hf_mailbox *mailbox)
{
    __atomic_fetch_sub(&mailbox->held, 1, __ATOMIC_RELEASE);
}

void hf__mailbox_close(struct hf_mailbox *mailbox)
{
    while (__atomic_load_n(&mailbox->held, __ATOMIC_ACQUIRE) > 0) sched_yield();
    pthread_mutex_destroy(&mailbox->mutex);
    close(mailbox->fd);
}

void hf__mailbox_put(struct hf_mailbox *mailbox, struct hf_call *call)
{
    pthread_mutex_lock(&mailbox->mutex);
    hf__list_append(&mailbox->calls, &call->node);
    pthread_mutex_unlock(&mailbox->mutex);
}

void hf__mailbox_ring(struct hf_mailbox *mailbox)
{
    const uint64_t one = 1;
    while (!turn(mailbox, QUIET, RUNG)) {
        int bell = __atomic_load_n(&mailbox->bell, __ATOMIC_ACQUIRE);
        if (bell == RUNG || bell == MISSED || turn(mailbox, ATTENDED, MISSED)) return;
    }
    ssize_t written = write(mailbox->fd, &one, sizeof one);
    (void)written; /* a full counter wakes just as well */
}

void hf__mailbox_hush(struct hf_mailbox *mailbox)
{
    uint64_t rings;
    ssize_t got = read(mailbox->fd, &rings, sizeof rings);
    (void)got;
}

void hf__mailbox_abandon(struct hf_mailbox *mailbox)
{
    __atomic_store_n(&mailbox->bell, QUIET, __ATOMIC_RELEASE);
    hf__mailbox_ring(mailbox);
}

void hf__mailbox_attend(struct hf_mailbox *mailbox)
{
    if (!turn(mailbox, RUNG, MISSED)) turn(mailbox, QUIET, ATTENDED);
}

bool hf__mailbox_leave(struct hf_mailbox *mailbox)
{
    turn(mailbox, ATTENDED, QUIET);
    return __atomic_load_n(&mailbox->bell, __ATOMIC_ACQUIRE) != MISSED;
}

void hf__mailbox_run(struct hf_mailbox *mailbox)
{
    struct hf_list calls;
    hf__list_init(&calls);
    int bell = __atomic_load_n(&mailbox->bell, __ATOMIC_ACQUIRE);
    if (bell == QUIET || bell == RUNG) {
        hf__mailbox_hush(mailbox);
        turn(mailbox, RUNG, QUIET);
    } else {
        turn(mailbox, MISSED, ATTENDED);
    }
    pthread_mutex_lock(&mailbox->mutex);
    hf__list_splice(&calls, &mailbox->calls);
    pthread_mutex_unlock(&mailbox->mutex);
    for (struct hf_list *node; (node = hf__list_pop(&calls)) != NULL;) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        call->done(call);
    }
}
