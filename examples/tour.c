/*
 * A short tour of the library: two clients, one store, and what they say to
 * each other. Usage: tour [STORE-URL]
 */
#include <holdfast.h>
#include <stdio.h>

static struct hf_error error;

static void say(const char *what, int code)
{
    printf("%-52s %s\n", what, code == 0 ? "ok" : hf_error_name(code));
    if (code != 0) printf("    %s\n", error.message);
}

static void show(struct hf_client *client, const char *name)
{
    struct hf_lock_info *info;
    if (hf_get(client, name, &info, &error) != 0) return;
    printf("    %s: %s", name, info->held ? "held by " : "free, last held by ");
    printf("%s, token %lld", info->owner, (long long)info->token);
    if (info->shared) printf(", %lld together", (long long)info->holders);
    printf("\n");
    hf_lock_info_free(info);
}

static void on_event(void *user, const struct hf_event *event)
{
    printf("    %s hears that %s ended: %s%s%s\n", (const char *)user, event->name,
           hf_reason_meaning(event->reason), event->detail ? ", " : "",
           event->detail ? event->detail : "");
}

static struct hf_client *join(struct hf_store *store, const char *owner)
{
    struct hf_client *client = NULL;
    struct hf_client_options options = {.size = sizeof options, .create_table = true};
    options.store = store;
    options.owner = owner;
    options.lease_ms = 2000;
    options.poll_limit_ms = 50;
    if (hf_client_new(&options, &client, &error) != 0) say(owner, error.code);
    return client;
}

int main(int argc, char **argv)
{
    struct hf_store *store;
    const char *url = argc > 1 ? argv[1] : "memory:";
    if (hf_store_open(url, NULL, NULL, &store, &error) != 0) return say(url, error.code), 1;
    struct hf_client *alice = join(store, "alice"), *bob = join(store, "bob");
    if (!alice || !bob) return 1;

    struct hf_lock *lock = NULL, *other = NULL;
    struct hf_acquire_options with_events = {.size = sizeof with_events};
    with_events.on_event = on_event;
    with_events.user = (void *)"alice";
    int code = hf_acquire(alice, "nightly-report", 0, &with_events, &lock, &error);
    say("alice takes nightly-report", code);
    if (code != 0) return 1;
    show(bob, "nightly-report");
    say("bob tries the same", hf_acquire(bob, "nightly-report", 0, NULL, &other, &error));
    say("an operator takes it away from alice",
        hf_force_release(bob, "nightly-report", "the report hangs", 0, &error));
    say("bob tries again", hf_acquire(bob, "nightly-report", 5000, NULL, &other, &error));
    show(alice, "nightly-report");
    say("alice releases what she has lost", hf_release(lock, NULL, &error));
    hf_lock_unref(lock);
    if (other) {
        say("bob releases", hf_release(other, NULL, &error));
        hf_lock_unref(other);
    }

    struct hf_acquire_options shared = {.size = sizeof shared, .shared = true};
    struct hf_lock *readers[2] = {NULL, NULL};
    say("alice reads the handbook", hf_acquire(alice, "handbook", 0, &shared, &readers[0], &error));
    say("bob reads it too", hf_acquire(bob, "handbook", 0, &shared, &readers[1], &error));
    show(bob, "handbook");
    for (int i = 0; i < 2; i++) {
        if (readers[i]) hf_release(readers[i], NULL, NULL);
        hf_lock_unref(readers[i]);
    }
    code = hf_client_close(alice, 0) + hf_client_close(bob, 0);
    say("both leave", code);
    hf_store_close(store);
    return code != 0;
}
