/*
 * A lock on systemd's event loop (sd-event): an I/O source for the client's descriptor, a time
 * source for its next deadline. Usage: loop_systemd STORE-URL
 */
#include <holdfast.h>
#include <stdio.h>
#include <systemd/sd-event.h>
#include <time.h>

static struct hf_client *client;
static sd_event *loop;
static sd_event_source *deadline;

/* Whatever woke us: the client does what is due, and says when to come again. */
static void turn(void)
{
    hf_client_process(client, NULL);
    sd_event_source_set_time_relative(deadline, (uint64_t)hf_client_timeout_ms(client) * 1000);
    sd_event_source_set_enabled(deadline, SD_EVENT_ONESHOT);
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *user)
{
    (void)source, (void)fd, (void)events, (void)user;
    turn();
    return 0;
}

static int on_deadline(sd_event_source *source, uint64_t now_us, void *user)
{
    (void)source, (void)now_us, (void)user;
    turn();
    return 0;
}

static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    printf("%s: %s\n", event->name, hf_reason_meaning(event->reason));
    if (event->type != HF_EVENT_WARNING) sd_event_exit(loop, 0);
}

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    (void)user;
    if (code != 0) {
        fprintf(stderr, "%s\n", error->message);
        sd_event_exit(loop, 1);
        return;
    }
    printf("%s: ours, with token %lld\n", hf_lock_name(lock), (long long)hf_lock_token(lock));
    hf_release_async(lock, NULL, NULL);
    hf_lock_unref(lock);
}

int main(int argc, char **argv)
{
    struct hf_error error;
    struct hf_client_options options = {.size = sizeof options, .driven = true};
    struct hf_acquire_options how = {.size = sizeof how, .on_event = on_event};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    if (hf_client_new(&options, &client, &error) != 0 ||
        hf_acquire_async(client, "systemd", 10000, &how, acquired, NULL, NULL, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (sd_event_default(&loop) < 0 ||
        sd_event_add_io(loop, NULL, hf_client_fd(client), EPOLLIN, on_ready, NULL) < 0 ||
        sd_event_add_time_relative(loop, &deadline, CLOCK_BOOTTIME, 0, 1000, on_deadline, NULL) < 0)
        return 1;
    int code = sd_event_loop(loop);
    sd_event_source_unref(deadline);
    sd_event_unref(loop);
    return hf_client_close(client, 0) == 0 ? code : 1;
}
