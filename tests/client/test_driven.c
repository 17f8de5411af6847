/*
 * A client on a loop of its user's: no thread but this one calls anything back. On memory:, or what
 * HOLDFAST_TEST_STORE names; nothing asserts how long it took.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "harness/served.h"
#include "harness/test.h"
#include "holdfast.h"

enum { LEASE_MS = 1500, ENOUGH_MS = 20000 };

static struct hf_error error;
static pthread_t loop_thread;
static struct hf_client *client;
static struct hf_store *store;
static char table[64];
static int acquired_count, refused_count, warnings, finals, changes, leads;
static struct hf_lock *last_lock;
static enum hf_reason last_reason;

static const char *url(void)
{
    static char text[512];
    const char *given = getenv("HOLDFAST_TEST_STORE");
    if (!given) return "memory:";
    if (strcmp(given, "file:") == 0)
        snprintf(text, sizeof text, "file:%s/locks.db", hf_test_directory());
    else snprintf(text, sizeof text, "%s", given);
    return text;
}

static struct hf_client *new_client(const char *owner, bool driven)
{
    const struct hf_client_options options = {
        .size = sizeof options,
        .store = store,
        .table = table,
        .owner = owner,
        .lease_ms = LEASE_MS,
        .poll_limit_ms = 50,
        .create_table = true,
        .driven = driven,
    };
    struct hf_client *made = NULL;
    if (hf_client_new(&options, &made, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return made;
}

static void begin(void)
{
    char id[HF_ID_SIZE];
    hf__random_id(id);
    snprintf(table, sizeof table, "t%s", id);
    acquired_count = refused_count = warnings = finals = changes = leads = 0;
    last_lock = NULL;
    loop_thread = pthread_self();
    if (hf_store_open(hf_test_is_served() ? hf_test_serve() : url(), NULL, NULL, &store, &error) !=
        0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    client = new_client("alice", true);
}

static void end(void)
{
    CHECK_INT(hf_client_close(client, ENOUGH_MS), 0);
    hf_store_close(store);
    hf_test_serve_no_more();
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The loop: until something has happened so often, or for a while. */
static bool run_until(const int *counter, int least, int64_t ms)
{
    int64_t until_ms = now_ms() + ms;
    while (now_ms() < until_ms && (!counter || *counter < least)) {
        struct pollfd ready = {.fd = hf_client_fd(client), .events = POLLIN};
        int64_t wait_ms = hf_client_timeout_ms(client);
        CHECK(wait_ms >= 0 && wait_ms <= 1000);
        if (wait_ms > ms) wait_ms = ms;
        poll(&ready, 1, (int)wait_ms);
        CHECK_INT(hf_client_process(client, &error), 0);
    }
    return !counter || *counter >= least;
}

static void check_thread(void)
{
    CHECK(pthread_equal(pthread_self(), loop_thread));
}

static void on_acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *why)
{
    (void)user, (void)why;
    check_thread();
    if (code == 0) {
        acquired_count++;
        last_lock = lock;
    } else {
        refused_count++;
    }
}

static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    check_thread();
    if (event->type == HF_EVENT_WARNING) {
        warnings++;
        return;
    }
    finals++;
    last_reason = event->reason;
}

static const struct hf_acquire_options with_events = {
    .size = sizeof(struct hf_acquire_options),
    .on_event = on_event,
};

static struct hf_lock *acquire(const char *name)
{
    int before = acquired_count;
    CHECK_INT(
        hf_acquire_async(client, name, ENOUGH_MS, &with_events, on_acquired, NULL, NULL, &error),
        0);
    CHECK_INT(acquired_count, before); /* nothing is called back but by processing */
    CHECK(run_until(&acquired_count, before + 1, ENOUGH_MS));
    return last_lock;
}

TEST(a_lock_is_acquired_kept_and_released_by_the_loop)
{
    begin();
    struct hf_lock *lock = acquire("job");
    int64_t token = hf_lock_token(lock);
    run_until(NULL, 0, LEASE_MS * 2); /* heartbeats are sent by it */
    CHECK(hf_lock_is_held(lock));
    CHECK_INT(finals, 0);
    CHECK_INT(hf_release_async(lock, NULL, &error), 0);
    CHECK(run_until(&finals, 1, ENOUGH_MS));
    CHECK_INT(last_reason, HF_REASON_RELEASED);
    hf_lock_unref(lock);
    lock = acquire("job");
    CHECK(hf_lock_token(lock) > token);
    hf_lock_unref(lock);
    end();
}

TEST(a_loop_that_stands_still_does_not_believe_to_have_it)
{
    begin();
    struct hf_lock *lock = acquire("job");
    const struct timespec pause = {(LEASE_MS + 500) / 1000, (LEASE_MS + 500) % 1000 * 1000000};
    nanosleep(&pause, NULL);
    CHECK(!hf_lock_is_held(lock));
    CHECK_INT(finals, 0);
    CHECK(run_until(&finals, 1, ENOUGH_MS));
    CHECK(last_reason != HF_REASON_RELEASED);
    hf_lock_unref(lock);
    end();
}

TEST(calls_that_wait_drive_it_meanwhile)
{
    begin();
    struct hf_lock *other = acquire("other");
    struct hf_lock *lock = NULL;
    struct hf_lock_info *info;
    struct hf_list_page *page;
    CHECK_INT(hf_acquire(client, "job", ENOUGH_MS, &with_events, &lock, &error), 0);
    CHECK_INT(hf_lock_extend(lock, 1000, &error), 0);
    CHECK_INT(hf_lock_set_data(lock, "x", 1, &error), 0);
    CHECK_INT(hf_get(client, "job", &info, &error), 0);
    CHECK(info->held);
    hf_lock_info_free(info);
    CHECK_INT(hf_list(client, NULL, &page, &error), 0);
    hf_list_page_free(page);
    CHECK_INT(hf_acquire(client, "job", 0, NULL, &lock, &error), HF_ERR_HELD);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    CHECK_INT(hf_force_release(client, "other", "a test", ENOUGH_MS, &error), 0);
    CHECK(run_until(&finals, 2, ENOUGH_MS));
    hf_lock_unref(lock);
    hf_lock_unref(other);
    end();
}

static int code_inside;

static void wait_inside(void *user, int code, struct hf_lock *lock, const struct hf_error *why)
{
    struct hf_error inside;
    on_acquired(user, code, lock, why);
    code_inside = hf_release(lock, NULL, &inside);
    CHECK_INT(hf_client_process(client, &inside), HF_ERR_IN_CALLBACK);
    CHECK_INT(hf_release_async(lock, NULL, &inside), 0);
}

TEST(waiting_inside_a_callback_is_refused)
{
    begin();
    CHECK_INT(hf_acquire_async(client, "job", 0, &with_events, wait_inside, NULL, NULL, &error), 0);
    CHECK(run_until(&finals, 1, ENOUGH_MS));
    CHECK_INT(code_inside, HF_ERR_IN_CALLBACK);
    hf_lock_unref(last_lock);
    end();
}

static void on_change(void *user, const struct hf_lock_info *info)
{
    (void)user, (void)info;
    check_thread();
    changes++;
}

static void on_leadership(void *user, enum hf_leadership state, const struct hf_lock_info *info)
{
    (void)user, (void)info;
    check_thread();
    if (state == HF_LEADER_SELF) leads++;
}

TEST(watchers_and_elections_run_on_it)
{
    begin();
    struct hf_watcher *watcher;
    struct hf_election *election;
    const struct hf_elect_options campaign = {.size = sizeof campaign, .changed = on_leadership};
    CHECK_INT(hf_watch(client, "boss", 20, on_change, NULL, &watcher, &error), 0);
    CHECK(run_until(&changes, 1, ENOUGH_MS));
    CHECK_INT(hf_elect(client, "boss", &campaign, &election, &error), 0);
    CHECK(run_until(&leads, 1, ENOUGH_MS));
    CHECK(hf_election_is_leader(election));
    CHECK(run_until(&changes, 2, ENOUGH_MS));
    CHECK_INT(hf_election_resign(election, &error), 0);
    hf_watch_stop(watcher);
    end();
}

TEST(whoever_waits_is_woken_by_a_release_elsewhere)
{
    begin();
    struct hf_client *threaded = new_client("bob", false);
    struct hf_lock *lock, *mine;
    CHECK_INT(hf_client_fd(threaded), -1);
    CHECK_INT((int)hf_client_timeout_ms(threaded), -1);
    CHECK_INT(hf_client_process(threaded, &error), HF_ERR_INVALID);
    CHECK_INT(hf_acquire(threaded, "job", ENOUGH_MS, NULL, &lock, &error), 0);
    CHECK_INT(
        hf_acquire_async(client, "job", ENOUGH_MS, &with_events, on_acquired, NULL, NULL, &error),
        0);
    run_until(NULL, 0, 200);
    CHECK_INT(acquired_count, 0);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    CHECK(run_until(&acquired_count, 1, ENOUGH_MS));
    mine = last_lock;
    hf_lock_unref(lock);
    hf_lock_unref(mine);
    CHECK_INT(hf_client_close(threaded, ENOUGH_MS), 0);
    end();
}

TEST(closing_releases_and_calls_back)
{
    begin();
    struct hf_lock *lock = acquire("job");
    struct hf_client *threaded = new_client("bob", false);
    struct hf_lock *theirs;
    CHECK_INT(hf_acquire(threaded, "taken", ENOUGH_MS, NULL, &theirs, &error), 0);
    CHECK_INT(hf_acquire_async(client, "taken", ENOUGH_MS, NULL, on_acquired, NULL, NULL, &error),
              0);
    run_until(NULL, 0, 100);
    CHECK_INT(hf_client_close(client, ENOUGH_MS), 0);
    CHECK_INT(finals, 1);
    CHECK_INT(refused_count, 1);
    CHECK_INT(last_reason, HF_REASON_CLOSED);
    hf_lock_unref(lock);
    CHECK_INT(hf_acquire(threaded, "job", 0, NULL, &lock, &error), 0);
    hf_lock_unref(lock);
    hf_lock_unref(theirs);
    CHECK_INT(hf_client_close(threaded, ENOUGH_MS), 0);
    hf_store_close(store);
}

TEST(a_child_of_fork_is_told_to_make_its_own)
{
    begin();
    pid_t child = fork();
    if (child == 0) {
        bool good =
            hf_client_process(client, &error) == HF_ERR_FORKED && hf_client_fd(client) == -1;
        _exit(good ? 0 : 1);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    hf_lock_unref(acquire("job"));
    end();
}

static void short_of_memory(void)
{
    const struct hf_client_options options = {.size = sizeof options,
                                              .store_url = "memory:",
                                              .lease_ms = 2000,
                                              .owner = "alice",
                                              .driven = true};
    struct hf_lock *lock;
    error.message[0] = '\0';
    if (hf_client_new(&options, &client, &error) != 0) {
        CHECK(error.code == HF_ERR_NO_MEMORY || error.message[0]);
        return;
    }
    acquired_count = refused_count = 0;
    if (hf_acquire_async(client, "job", 0, &with_events, on_acquired, NULL, NULL, &error) == 0) {
        while (acquired_count + refused_count == 0) run_until(NULL, 0, 1);
        if (acquired_count) hf_lock_unref(last_lock);
    }
    if (hf_acquire(client, "other", 0, NULL, &lock, &error) == 0) {
        hf_release(lock, NULL, &error);
        hf_lock_unref(lock);
    }
    hf_client_close(client, 5000);
}

TEST(every_allocation_may_fail)
{
    if (getenv("HOLDFAST_TEST_STORE")) hf_test_skip("memory: is enough");
    loop_thread = pthread_self();
    CHECK(hf_test_torture(short_of_memory) > 30);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_lock_is_acquired_kept_and_released_by_the_loop),
        RUN(a_loop_that_stands_still_does_not_believe_to_have_it),
        RUN(calls_that_wait_drive_it_meanwhile),
        RUN(waiting_inside_a_callback_is_refused),
        RUN(watchers_and_elections_run_on_it),
        RUN(whoever_waits_is_woken_by_a_release_elsewhere),
        RUN(closing_releases_and_calls_back),
        RUN(a_child_of_fork_is_told_to_make_its_own),
        RUN(every_allocation_may_fail),
    };
    return RUN_TESTS(tests);
}
