/*
 * A lock on libuv's loop: a poll handle for the client's descriptor, a timer for its next deadline.
 * Usage: loop_uv STORE-URL
 */
#include <holdfast.h>
#include <stdio.h>
#include <uv.h>

static struct hf_client *client;
static uv_poll_t ready;
static uv_timer_t deadline;
static uv_timer_t work;
static struct hf_lock *held;

static void turn(void);

static void on_ready(uv_poll_t *handle, int status, int events)
{
    (void)handle, (void)status, (void)events;
    turn();
}

static void on_deadline(uv_timer_t *timer)
{
    (void)timer;
    turn();
}

/* Whatever woke us: the client does what is due, and says when to come again. */
static void turn(void)
{
    hf_client_process(client, NULL);
    if (uv_is_closing((uv_handle_t *)&deadline)) return;
    uv_timer_start(&deadline, on_deadline, (uint64_t)hf_client_timeout_ms(client), 0);
}

static void end(void)
{
    uv_close((uv_handle_t *)&ready, NULL);
    uv_close((uv_handle_t *)&deadline, NULL);
    uv_close((uv_handle_t *)&work, NULL);
}

static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    printf("%s: %s\n", event->name, hf_reason_meaning(event->reason));
    if (event->type != HF_EVENT_WARNING) end();
}

static void on_work_done(uv_timer_t *timer)
{
    (void)timer;
    hf_release_async(held, NULL, NULL);
    hf_lock_unref(held);
    turn(); /* what was begun outside of it is sent, and may have set a new deadline */
}

static void acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *error)
{
    (void)user;
    if (code != 0) {
        fprintf(stderr, "%s\n", error->message);
        end();
        return;
    }
    printf("%s: ours, with token %lld\n", hf_lock_name(lock), (long long)hf_lock_token(lock));
    held = lock;
    uv_timer_start(&work, on_work_done, 50, 0); /* it is renewed meanwhile, if need be */
}

int main(int argc, char **argv)
{
    struct hf_error error;
    struct hf_client_options options = {.size = sizeof options, .driven = true};
    struct hf_acquire_options how = {.size = sizeof how, .on_event = on_event};
    uv_loop_t *loop = uv_default_loop();
    options.store_url = argc > 1 ? argv[1] : "memory:";
    if (hf_client_new(&options, &client, &error) != 0 ||
        hf_acquire_async(client, "uv", 10000, &how, acquired, NULL, NULL, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    uv_poll_init(loop, &ready, hf_client_fd(client));
    uv_timer_init(loop, &deadline);
    uv_timer_init(loop, &work);
    uv_poll_start(&ready, UV_READABLE, on_ready);
    turn();
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    return hf_client_close(client, 0) == 0 ? 0 : 1;
}
