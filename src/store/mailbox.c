#include "store/mailbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/store.h"

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

void hf__mailbox_close(struct hf_mailbox *mailbox)
{
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
    pthread_mutex_lock(&mailbox->mutex);
    bool first = !mailbox->rung;
    mailbox->rung = true;
    /* Under the mutex: its owner may close it as soon as the last call has come back. */
    if (first && write(mailbox->fd, &one, sizeof one) < 0) mailbox->rung = false;
    pthread_mutex_unlock(&mailbox->mutex);
}

void hf__mailbox_run(struct hf_mailbox *mailbox)
{
    struct hf_list calls;
    uint64_t rings;
    hf__list_init(&calls);
    pthread_mutex_lock(&mailbox->mutex);
    if (mailbox->rung && read(mailbox->fd, &rings, sizeof rings) < 0) rings = 0;
    mailbox->rung = false;
    hf__list_splice(&calls, &mailbox->calls);
    pthread_mutex_unlock(&mailbox->mutex);
    for (struct hf_list *node; (node = hf__list_pop(&calls)) != NULL;) {
        struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
        call->done(call);
    }
}
