/*
 * A lock on an event loop of one's own, here a plain poll(2): no thread is made, and callbacks run
 * where the loop runs. Usage: loop_poll STORE-URL
 */
#include <holdfast.h>
#include <poll.h>
#include <stdio.h>

static bool over;

/* The lock has ended, released or lost: nothing that it protects may be touched any more. */
static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    printf("%s: %s\n", event->name, hf_reason_meaning(event->reason));
    if (event->type != HF_EVENT_WARNING) over = true;
}

static void on_wait(void *user, const struct hf_wait *wait)
{
    (void)user;
    if (wait->error) printf("%s: %s\n", wait->name, wait->error->message);
    else if (wait->owner) printf("%s: held by %s\n", wait->name, wait->owner);
}

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    (void)user;
    if (code != 0) {
        fprintf(stderr, "%s\n", error->message);
        over = true;
        return;
    }
    printf("%s: ours, with token %lld\n", hf_lock_name(lock), (long long)hf_lock_token(lock));
    /* The work would go on in the loop; calls that wait are refused in callbacks. */
    hf_release_async(lock, NULL, NULL);
    hf_lock_unref(lock);
}

int main(int argc, char **argv)
{
    struct hf_client *client;
    struct hf_error error;
    struct hf_client_options options = {.size = sizeof options, .driven = true};
    struct hf_acquire_options how = {.size = sizeof how, .on_event = on_event, .on_wait = on_wait};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    if (hf_client_new(&options, &client, &error) != 0 ||
        hf_acquire_async(client, "poll", 10000, &how, acquired, NULL, NULL, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    struct pollfd ready = {.fd = hf_client_fd(client), .events = POLLIN};
    while (!over) { /* beside it, the program's own descriptors and timers */
        poll(&ready, 1, (int)hf_client_timeout_ms(client));
        hf_client_process(client, NULL);
    }
    return hf_client_close(client, 0) == 0 ? 0 : 1;
}
