#include <poll.h>
#include <pthread.h>

#include "harness/test.h"
#include "store/store.h"

enum { THREADS = 4, CALLS = 2000, PATIENCE_MS = 10000 };

struct sender {
    struct hf_mailbox *mailbox;
    pthread_t thread;
    struct hf_call calls[CALLS];
};

static struct sender senders[THREADS];
static int come_back;

static void done(struct hf_call *call)
{
    (void)call;
    come_back++;
}

static void *send_calls(void *user)
{
    struct sender *sender = user;
    hf__mailbox_hold(sender->mailbox);
    for (int i = 0; i < CALLS; i++) {
        sender->calls[i] = (struct hf_call){.done = done};
        hf__mailbox_put(sender->mailbox, &sender->calls[i]);
        hf__mailbox_ring(sender->mailbox);
    }
    hf__mailbox_let_go(sender->mailbox);
    return NULL;
}

/* False: nothing came for so long that a ring must have been lost. */
static bool sleep_until_rung(struct hf_mailbox *mailbox)
{
    struct pollfd ready = {.fd = mailbox->fd, .events = POLLIN};
    return poll(&ready, 1, PATIENCE_MS) == 1;
}

static void start_senders(struct hf_mailbox *mailbox)
{
    CHECK_INT(hf__mailbox_open(mailbox, NULL), 0);
    come_back = 0;
    for (int i = 0; i < THREADS; i++) {
        senders[i].mailbox = mailbox;
        CHECK_INT(pthread_create(&senders[i].thread, NULL, send_calls, &senders[i]), 0);
    }
}

/* At once: those who rang last may not have let go. */
static void stop(struct hf_mailbox *mailbox)
{
    hf__mailbox_close(mailbox);
    for (int i = 0; i < THREADS; i++) pthread_join(senders[i].thread, NULL);
}

TEST(who_sleeps_is_woken_for_every_call)
{
    struct hf_mailbox mailbox;
    start_senders(&mailbox);
    while (come_back < THREADS * CALLS && sleep_until_rung(&mailbox)) hf__mailbox_run(&mailbox);
    CHECK_INT(come_back, THREADS * CALLS);
    stop(&mailbox);
}

TEST(who_attends_need_not_be_woken_until_it_leaves)
{
    struct hf_mailbox mailbox;
    bool woken = true;
    start_senders(&mailbox);
    while (come_back < THREADS * CALLS && woken) {
        hf__mailbox_attend(&mailbox);
        hf__mailbox_run(&mailbox);
        if (come_back == THREADS * CALLS || !hf__mailbox_leave(&mailbox)) continue;
        woken = sleep_until_rung(&mailbox);
        hf__mailbox_hush(&mailbox);
    }
    CHECK_INT(come_back, THREADS * CALLS);
    stop(&mailbox);
}

TEST(a_ring_in_the_owners_presence_costs_nothing)
{
    struct hf_mailbox mailbox;
    struct pollfd ready = {.events = POLLIN};
    CHECK_INT(hf__mailbox_open(&mailbox, NULL), 0);
    ready.fd = mailbox.fd;
    hf__mailbox_attend(&mailbox);
    hf__mailbox_ring(&mailbox);
    CHECK_INT(poll(&ready, 1, 0), 0);
    CHECK(!hf__mailbox_leave(&mailbox)); /* there is something to do */
    hf__mailbox_run(&mailbox);
    CHECK(hf__mailbox_leave(&mailbox));
    hf__mailbox_ring(&mailbox);
    CHECK_INT(poll(&ready, 1, 0), 1);
    hf__mailbox_attend(&mailbox); /* what was rung for before is not forgotten */
    CHECK(!hf__mailbox_leave(&mailbox));
    hf__mailbox_close(&mailbox);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(who_sleeps_is_woken_for_every_call),
        RUN(who_attends_need_not_be_woken_until_it_leaves),
        RUN(a_ring_in_the_owners_presence_costs_nothing),
    };
    return RUN_TESTS(tests);
}
