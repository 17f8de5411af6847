/*
 * The library on a real store: memory:, or what HOLDFAST_TEST_STORE names.
 * What depends on time passing is tested in virtual time (tests/lock) and in the
 * simulator; here leases are short, and nothing asserts how long it took.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "harness/served.h"
#include "harness/test.h"
#include "holdfast.h"

enum { LEASE_MS = 2000, ENOUGH_MS = 20000 };

static struct hf_store *store;
static char table[64];
static struct hf_error error;

static const char *url(void)
{
    static char text[512];
    const char *given = getenv("HOLDFAST_TEST_STORE");
    if (!given) given = "memory:";
    if (strcmp(given, "file:") == 0)
        snprintf(text, sizeof text, "file:%s/locks.db", hf_test_directory());
    else snprintf(text, sizeof text, "%s", given);
    return text;
}

static void open_store(void)
{
    char id[HF_ID_SIZE];
    hf__random_id(id);
    snprintf(table, sizeof table, "t%s", id);
    if (hf_store_open(hf_test_is_served() ? hf_test_serve() : url(), NULL, NULL, &store, &error) !=
        0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
}

static void close_store(void)
{
    hf_store_close(store);
    store = NULL;
    hf_test_serve_no_more();
}

static struct hf_client_options defaults(const char *owner)
{
    return (struct hf_client_options){
        .size = sizeof(struct hf_client_options),
        .store = store,
        .table = table,
        .owner = owner,
        .lease_ms = LEASE_MS,
        .poll_limit_ms = 50,
        .create_table = true,
    };
}

static struct hf_client *client_with(const struct hf_client_options *options)
{
    struct hf_client *client = NULL;
    if (hf_client_new(options, &client, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return client;
}

static struct hf_client *new_client(const char *owner)
{
    struct hf_client_options options = defaults(owner);
    return client_with(&options);
}

static struct hf_lock *lock_of(struct hf_client *client, const char *name,
                               const struct hf_acquire_options *options)
{
    struct hf_lock *lock = NULL;
    if (hf_acquire(client, name, ENOUGH_MS, options, &lock, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return lock;
}

static void release(struct hf_lock *lock)
{
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    hf_lock_unref(lock);
}

/* What callbacks say, for the thread that waits for it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int warnings, finals;
static enum hf_event_type last_type;
static enum hf_reason last_reason;
static char last_detail[256];

static void on_event(void *user, const struct hf_event *event)
{
    (void)user;
    pthread_mutex_lock(&mutex);
    if (event->type == HF_EVENT_WARNING) {
        warnings++;
    } else {
        finals++;
        last_type = event->type;
        last_reason = event->reason;
        snprintf(last_detail, sizeof last_detail, "%s", event->detail ? event->detail : "");
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void reset_events(void)
{
    pthread_mutex_lock(&mutex);
    warnings = finals = 0;
    last_detail[0] = '\0';
    pthread_mutex_unlock(&mutex);
}

static void await(const int *counter, int least)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&mutex);
    while (*counter < least && pthread_cond_timedwait(&changed, &mutex, &until) == 0) continue;
    int got = *counter;
    pthread_mutex_unlock(&mutex);
    CHECK(got >= least);
}

static const struct hf_acquire_options with_events = {
    .size = sizeof(struct hf_acquire_options),
    .on_event = on_event,
};

/* ---- */

TEST(a_lock_is_held_until_it_is_released)
{
    CHECK_STR(hf_version(), HF_VERSION_STRING);
    open_store();
    struct hf_client *client = new_client("alice");
    struct hf_lock *lock = lock_of(client, "job", NULL);
    CHECK(hf_lock_is_held(lock));
    CHECK(hf_lock_left_ms(lock) > 0 && hf_lock_left_ms(lock) < LEASE_MS);
    CHECK(hf_lock_token(lock) > 0);
    CHECK_STR(hf_lock_name(lock), "job");
    CHECK_STR(hf_lock_owner(lock), "alice");
    CHECK_INT(hf_lock_reason(lock), HF_REASON_NONE);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    CHECK(!hf_lock_is_held(lock));
    CHECK_INT(hf_lock_reason(lock), HF_REASON_RELEASED);
    CHECK_INT(hf_release(lock, NULL, &error), HF_ERR_LOST);
    hf_lock_unref(lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(another_client_is_told_who_holds_it)
{
    open_store();
    struct hf_client *alice = new_client("alice"), *bob = new_client("bob");
    struct hf_lock *lock = lock_of(alice, "job", NULL), *other = NULL;
    CHECK_INT(hf_acquire(bob, "job", 0, NULL, &other, &error), HF_ERR_HELD);
    CHECK(strstr(error.message, "alice"));
    CHECK_INT(hf_acquire(bob, "job", 100, NULL, &other, &error), HF_ERR_TIMED_OUT);
    CHECK(strstr(error.message, "alice"));
    int64_t token = hf_lock_token(lock);
    release(lock);
    other = lock_of(bob, "job", NULL);
    CHECK(hf_lock_token(other) > token);
    release(other);
    CHECK_INT(hf_client_close(alice, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(a_lock_that_is_not_renewed_passes_to_whoever_waits)
{
    open_store();
    struct hf_client_options options = defaults("forgetful");
    options.heartbeat_ms = HF_NONE;
    options.warn_ms = LEASE_MS / 4;
    options.lease_ms = 1000;
    options.request_timeout_ms = 500;
    struct hf_client *forgetful = client_with(&options), *bob = new_client("bob");
    reset_events();
    struct hf_lock *lock = lock_of(forgetful, "job", &with_events);
    CHECK_INT(hf_lock_renew(lock, &error), 0);
    struct hf_lock *other = lock_of(bob, "job", NULL);
    CHECK(hf_lock_token(other) > hf_lock_token(lock));
    await(&finals, 1);
    CHECK(warnings >= 1);
    CHECK_INT(last_type, HF_EVENT_LOST);
    CHECK_INT(last_reason, HF_REASON_EXPIRED);
    CHECK(!hf_lock_is_held(lock));
    CHECK_INT(hf_lock_extend(lock, 1, &error), HF_ERR_LOST);
    hf_lock_unref(lock);
    release(other);
    CHECK_INT(hf_client_close(forgetful, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    CHECK_INT(finals, 1);
    close_store();
}

TEST(heartbeats_keep_it_past_its_lease)
{
    open_store();
    struct hf_client_options options = defaults("alice");
    options.lease_ms = 1200;
    struct hf_client *alice = client_with(&options);
    options.session = HF_SESSION_ON;
    options.owner = "with session";
    struct hf_client *with_session = client_with(&options);
    struct hf_lock *own = lock_of(alice, "own", NULL);
    struct hf_lock *kept = lock_of(with_session, "kept", NULL);
    /* Somebody who waits for longer than the lease, and in vain. */
    struct hf_client *bob = new_client("bob");
    struct hf_lock *other;
    CHECK_INT(hf_acquire(bob, "own", 2000, NULL, &other, &error), HF_ERR_TIMED_OUT);
    CHECK_INT(hf_acquire(bob, "kept", 2000, NULL, &other, &error), HF_ERR_TIMED_OUT);
    CHECK(hf_lock_is_held(own));
    CHECK(hf_lock_is_held(kept));
    release(own);
    release(kept);
    CHECK_INT(hf_client_close(alice, 0), 0);
    CHECK_INT(hf_client_close(with_session, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(a_lock_can_be_made_to_last)
{
    open_store();
    struct hf_client *client = new_client("alice");
    struct hf_lock *lock = lock_of(client, "job", NULL);
    CHECK_INT(hf_lock_extend(lock, 60000, &error), 0);
    CHECK(hf_lock_left_ms(lock) > 50000);
    CHECK_INT(hf_lock_extend(lock, 10, &error), 0);
    CHECK_INT(hf_lock_extend(lock, -1, &error), HF_ERR_INVALID);
    release(lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(readers_share_and_a_writer_does_not)
{
    open_store();
    struct hf_client *alice = new_client("alice"), *bob = new_client("bob");
    const struct hf_acquire_options shared = {.size = sizeof shared, .shared = true};
    struct hf_lock *a = lock_of(alice, "doc", &shared), *b = lock_of(bob, "doc", &shared);
    struct hf_lock *a2 = lock_of(alice, "doc", &shared), *writer = NULL;
    CHECK(hf_lock_token(b) > hf_lock_token(a));
    CHECK_INT(hf_acquire(alice, "doc", 0, NULL, &writer, &error), HF_ERR_HELD);
    struct hf_lock_info *info;
    CHECK_INT(hf_get(bob, "doc", &info, &error), 0);
    CHECK(info->held && info->shared);
    CHECK_INT(info->holders, 3);
    CHECK_INT(info->limit, 0);
    hf_lock_info_free(info);
    release(a);
    release(a2);
    release(b);
    writer = lock_of(alice, "doc", NULL);
    CHECK_INT(hf_acquire(bob, "doc", 0, &shared, &b, &error), HF_ERR_HELD);
    release(writer);
    CHECK_INT(hf_client_close(alice, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(a_semaphore_admits_as_many_as_its_limit)
{
    open_store();
    struct hf_client *alice = new_client("alice"), *bob = new_client("bob");
    const struct hf_acquire_options two = {.size = sizeof two, .limit = 2};
    const struct hf_acquire_options three = {.size = sizeof three, .limit = 3};
    struct hf_lock *a = lock_of(alice, "pool", &two), *b = lock_of(bob, "pool", &two), *c = NULL;
    CHECK_INT(hf_acquire(bob, "pool", 0, &two, &c, &error), HF_ERR_HELD);
    CHECK_INT(hf_acquire(bob, "pool", 0, &three, &c, &error), HF_ERR_OTHER_LIMIT);
    release(a);
    c = lock_of(bob, "pool", &two);
    release(b);
    release(c);
    c = lock_of(bob, "pool", &three);
    release(c);
    CHECK_INT(hf_client_close(alice, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(data_is_stored_with_the_lock)
{
    open_store();
    struct hf_client *client = new_client("alice");
    const struct hf_attribute attributes[] = {{"purpose", "a test"}};
    struct hf_acquire_options options = {
        .size = sizeof options,
        .data = "one",
        .data_size = 3,
        .attributes = attributes,
        .attribute_count = 1,
    };
    size_t size;
    struct hf_lock *lock = lock_of(client, "job", &options);
    CHECK_SLICE(hf__slice(hf_lock_data(lock, &size), 3), HF_LIT("one"));
    CHECK_INT(size, 3);
    CHECK_INT(hf_lock_set_data(lock, "second", 6, &error), 0);
    struct hf_lock_info *info;
    CHECK_INT(hf_get(client, "job", &info, &error), 0);
    CHECK_SLICE(hf__slice(info->data, info->data_size), HF_LIT("second"));
    CHECK_STR(info->owner, "alice");
    CHECK_INT(info->token, hf_lock_token(lock));
    CHECK(info->held && info->expires_unix_ms > 0 && info->since_unix_ms > 0);
    hf_lock_info_free(info);
    const struct hf_release_options last = {.size = sizeof last, .data = "last", .data_size = 4};
    CHECK_INT(hf_release(lock, &last, &error), 0);
    hf_lock_unref(lock);
    options.keep_data = true;
    lock = lock_of(client, "job", &options);
    CHECK_SLICE(hf__slice(hf_lock_data(lock, &size), 4), HF_LIT("last"));
    release(lock);
    const struct hf_acquire_options keep = {.size = sizeof keep, .keep_data = true};
    lock = lock_of(client, "job", &keep);
    CHECK_SLICE(hf__slice(hf_lock_data(lock, &size), 4), HF_LIT("last"));
    release(lock);
    lock = lock_of(client, "job", NULL); /* nobody's data is taken for another's */
    CHECK(!hf_lock_data(lock, NULL));
    CHECK_INT(hf_lock_set_data(lock, "third", 5, &error), 0);
    CHECK_INT(hf_lock_set_data(lock, NULL, 0, &error), 0);
    CHECK(!hf_lock_data(lock, NULL));
    release(lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(only_if_exists_and_reentrant)
{
    open_store();
    struct hf_client *client = new_client("alice");
    const struct hf_acquire_options existing = {.size = sizeof existing, .only_if_exists = true};
    const struct hf_acquire_options again = {.size = sizeof again, .reentrant = true};
    struct hf_lock *lock, *second;
    CHECK_INT(hf_acquire(client, "job", 0, &existing, &lock, &error), HF_ERR_ABSENT);
    release(lock_of(client, "job", NULL));
    release(lock_of(client, "job", &existing));
    lock = lock_of(client, "job", &again);
    CHECK_INT(hf_acquire(client, "job", 0, &again, &second, &error), 0);
    CHECK(lock == second);
    CHECK_INT(hf_acquire(client, "job", 0, NULL, &second, &error), HF_ERR_HELD);
    release(lock);
    CHECK(hf_lock_is_held(lock));
    release(lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(an_operator_can_take_it_away)
{
    open_store();
    struct hf_client_options options = defaults("holder");
    struct hf_client *boss = new_client("boss");
    const enum hf_session_mode modes[] = {HF_SESSION_OFF, HF_SESSION_ON};
    for (int i = 0; i < 2; i++) {
        options.session = modes[i];
        struct hf_client *holder = client_with(&options);
        reset_events();
        struct hf_lock *lock = lock_of(holder, "job", &with_events);
        CHECK_INT(hf_force_release(boss, "job", "", 0, &error), HF_ERR_INVALID);
        CHECK_INT(hf_force_release(boss, "job", "it hangs", 0, &error), 0);
        await(&finals, 1);
        CHECK_INT(last_reason, HF_REASON_FORCED);
        CHECK_STR(last_detail, "by boss: it hangs");
        struct hf_lock_info *info;
        CHECK_INT(hf_get(boss, "job", &info, &error), 0);
        CHECK(!info->held);
        CHECK_STR(info->forced_by, "boss");
        CHECK_STR(info->forced_reason, "it hangs");
        hf_lock_info_free(info);
        struct hf_lock *next = lock_of(boss, "job", NULL);
        CHECK(hf_lock_token(next) > hf_lock_token(lock));
        release(next);
        hf_lock_unref(lock);
        CHECK_INT(hf_force_release(boss, "job", "again", 0, &error), HF_ERR_ABSENT);
        CHECK_INT(hf_client_close(holder, 0), 0);
    }
    CHECK_INT(hf_client_close(boss, 0), 0);
    close_store();
}

TEST(locks_are_listed_in_pages)
{
    enum { LOCKS = 23 };
    open_store();
    struct hf_client_options options = defaults("alice");
    options.session = HF_SESSION_ON;
    struct hf_client *client = client_with(&options);
    struct hf_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d", i % 2 ? "odd" : "even", i);
        locks[i] = lock_of(client, name, NULL);
    }
    release(locks[0]);
    struct hf_list_options how = {
        .size = sizeof how, .prefix = "even/", .limit = 5, .held_only = true};
    int found = 0, pages = 0;
    struct hf_list_page *page = NULL;
    do {
        struct hf_list_page *next;
        how.cursor = page ? page->cursor : NULL;
        CHECK_INT(hf_list(client, &how, &next, &error), 0);
        hf_list_page_free(page);
        page = next;
        for (size_t i = 0; i < page->count; i++) {
            CHECK(strncmp(page->locks[i].name, "even/", 5) == 0);
            CHECK(page->locks[i].held);
            found++;
        }
        CHECK(++pages < 100);
    } while (page->cursor);
    hf_list_page_free(page);
    CHECK_INT(found, (LOCKS + 1) / 2 - 1);
    for (int i = 1; i < LOCKS; i++) hf_lock_unref(locks[i]);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

static int seen_held, seen_free;

static void on_change(void *user, const struct hf_lock_info *info)
{
    (void)user;
    pthread_mutex_lock(&mutex);
    if (info->held) seen_held++;
    else seen_free++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

TEST(a_watcher_sees_it_come_and_go)
{
    open_store();
    seen_held = seen_free = 0;
    struct hf_client *alice = new_client("alice"), *bob = new_client("bob");
    struct hf_watcher *watcher;
    CHECK_INT(hf_watch(bob, "job", 20, on_change, NULL, &watcher, &error), 0);
    await(&seen_free, 1);
    struct hf_lock *lock = lock_of(alice, "job", NULL);
    await(&seen_held, 1);
    release(lock);
    await(&seen_free, 2);
    hf_watch_stop(watcher);
    CHECK_INT(hf_client_close(alice, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

static int leads[2], lost[2], others;
static char leader_data[32];

static void on_leadership(void *user, enum hf_leadership state, const struct hf_lock_info *info)
{
    int who = (int)(intptr_t)user;
    pthread_mutex_lock(&mutex);
    if (state == HF_LEADER_SELF) leads[who]++;
    if (state == HF_LEADER_LOST) lost[who]++;
    if (state == HF_LEADER_OTHER) {
        others++;
        snprintf(leader_data, sizeof leader_data, "%.*s", (int)info->data_size,
                 info->data ? (const char *)info->data : "");
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

TEST(one_candidate_leads_and_the_next_follows)
{
    open_store();
    memset(leads, 0, sizeof leads);
    memset(lost, 0, sizeof lost);
    others = 0;
    struct hf_client *clients[2] = {new_client("alice"), new_client("bob")};
    struct hf_election *elections[2];
    for (int i = 0; i < 2; i++) {
        struct hf_elect_options options = {
            .size = sizeof options,
            .data = i ? "bob:80" : "alice:80",
            .data_size = i ? 6 : 8,
            .changed = on_leadership,
            .user = (void *)(intptr_t)i,
        };
        CHECK_INT(hf_elect(clients[i], "boss", &options, &elections[i], &error), 0);
        if (i == 0) await(&leads[0], 1);
    }
    CHECK(hf_election_is_leader(elections[0]));
    int64_t token = hf_election_token(elections[0]);
    await(&others, 1);
    CHECK_STR(leader_data, "alice:80");
    CHECK(!hf_election_is_leader(elections[1]));
    CHECK_INT(hf_election_resign(elections[0], &error), 0);
    await(&leads[1], 1);
    CHECK(hf_election_token(elections[1]) > token);
    /* Whoever is deposed hears of it, and runs again. */
    CHECK_INT(hf_force_release(clients[0], "boss", "a revolution", 0, &error), 0);
    await(&lost[1], 1);
    await(&leads[1], 2);
    CHECK_INT(hf_election_resign(elections[1], &error), 0);
    for (int i = 0; i < 2; i++) CHECK_INT(hf_client_close(clients[i], 0), 0);
    close_store();
}

static int results[3];
static struct hf_lock *async_lock;

static void on_acquired(void *user, int code, struct hf_lock *lock, const struct hf_error *why)
{
    (void)user, (void)why;
    pthread_mutex_lock(&mutex);
    async_lock = lock;
    results[code == 0 ? 0 : code == HF_ERR_CANCELLED ? 1 : 2]++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

TEST(acquiring_without_waiting_ends_in_one_call_back)
{
    open_store();
    memset(results, 0, sizeof results);
    struct hf_client *client = new_client("alice");
    struct hf_acquisition *acquisition;
    CHECK_INT(hf_acquire_async(client, "job", HF_FOREVER, NULL, on_acquired, NULL, NULL, &error),
              0);
    await(&results[0], 1);
    struct hf_lock *first = async_lock;
    CHECK_INT(
        hf_acquire_async(client, "job", HF_FOREVER, NULL, on_acquired, NULL, &acquisition, &error),
        0);
    hf_acquisition_cancel(acquisition);
    await(&results[1], 1);
    hf_acquisition_cancel(acquisition);
    hf_acquisition_free(acquisition);
    /* A release in the process wakes the next in line. */
    CHECK_INT(hf_acquire_async(client, "job", HF_FOREVER, NULL, on_acquired, NULL, NULL, &error),
              0);
    release(first);
    await(&results[0], 2);
    CHECK(hf_lock_is_held(async_lock));
    release(async_lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    CHECK_INT(results[0] + results[1] + results[2], 3);
    close_store();
}

static int waits_seen, result_seen, waits_after_result;
static char waits_for[64];

static void on_wait(void *user, const struct hf_wait *wait)
{
    (void)user;
    pthread_mutex_lock(&mutex);
    if (wait->owner) waits_seen++; /* the first may come before the store has answered */
    if (result_seen) waits_after_result++;
    if (wait->owner) snprintf(waits_for, sizeof waits_for, "%s by %s", wait->name, wait->owner);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void *let_go_when_waited_for(void *lock)
{
    await(&waits_seen, 1);
    hf_release(lock, NULL, NULL);
    return NULL;
}

TEST(a_wait_is_told_who_is_in_the_way)
{
    open_store();
    struct hf_client *first = new_client("first"), *second = new_client("second");
    struct hf_lock *held = lock_of(first, "job", NULL), *got;
    const struct hf_acquire_options how = {.size = sizeof how, .on_wait = on_wait};
    pthread_t other;
    waits_seen = result_seen = waits_after_result = 0;
    CHECK_INT(pthread_create(&other, NULL, let_go_when_waited_for, held), 0);
    CHECK_INT(hf_acquire(second, "job", HF_FOREVER, &how, &got, &error), 0);
    pthread_mutex_lock(&mutex);
    result_seen = 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
    CHECK_STR(waits_for, "job by first");
    hf_lock_unref(held);
    release(got);
    hf_client_close(first, 0);
    hf_client_close(second, 0);
    CHECK_INT(waits_after_result, 0);
    close_store();
}

static int in_callback_code;

static void blocks(void *user, const struct hf_event *event)
{
    struct hf_lock *lock;
    in_callback_code = hf_acquire(user, "other", 0, NULL, &lock, NULL);
    on_event(NULL, event);
}

TEST(waiting_inside_a_callback_is_refused)
{
    open_store();
    reset_events();
    struct hf_client *client = new_client("alice");
    const struct hf_acquire_options options = {
        .size = sizeof options, .on_event = blocks, .user = client};
    struct hf_lock *lock = lock_of(client, "job", &options);
    release(lock);
    await(&finals, 1);
    CHECK_INT(in_callback_code, HF_ERR_IN_CALLBACK);
    CHECK_INT(last_type, HF_EVENT_RELEASED);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(closing_releases_everything_and_wakes_everybody)
{
    enum { LOCKS = 300 };
    open_store();
    reset_events();
    memset(results, 0, sizeof results);
    struct hf_client *client = new_client("alice"), *bob = new_client("bob");
    struct hf_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "job%d", i);
        locks[i] = lock_of(client, name, &with_events);
    }
    CHECK_INT(hf_acquire_async(client, "job0", HF_FOREVER, NULL, on_acquired, NULL, NULL, &error),
              0);
    CHECK_INT(hf_client_close(client, 60000), 0);
    CHECK_INT(results[2], 1);
    CHECK_INT(finals, LOCKS);
    CHECK_INT(last_reason, HF_REASON_CLOSED);
    for (int i = 0; i < LOCKS; i++) {
        CHECK(!hf_lock_is_held(locks[i]));
        hf_lock_unref(locks[i]);
    }
    struct hf_lock *lock;
    CHECK_INT(hf_acquire(bob, "job7", 0, NULL, &lock, &error), 0);
    release(lock);
    /* Nothing is left of the session either. */
    struct hf_list_page *page;
    struct hf_list_options how = {.size = sizeof how, .limit = 1000, .held_only = true};
    CHECK_INT(hf_list(bob, &how, &page, &error), 0);
    CHECK_INT(page->count, 0);
    hf_list_page_free(page);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(a_handle_that_goes_leaves_the_lock_to_expire)
{
    open_store();
    reset_events();
    struct hf_client_options options = defaults("alice");
    options.lease_ms = 400;
    struct hf_client *client = client_with(&options), *bob = new_client("bob");
    struct hf_lock *lock = lock_of(client, "job", &with_events);
    hf_lock_unref(hf_lock_ref(lock));
    CHECK(hf_lock_is_held(lock));
    hf_lock_unref(lock);
    await(&finals, 1);
    release(lock_of(bob, "job", NULL));
    options.session = HF_SESSION_ON;
    struct hf_client *with_session = client_with(&options);
    hf_lock_unref(lock_of(with_session, "kept", &with_events));
    await(&finals, 2);
    CHECK_INT(last_reason, HF_REASON_ABANDONED);
    release(lock_of(bob, "kept", NULL));
    CHECK_INT(hf_client_close(client, 0), 0);
    CHECK_INT(hf_client_close(with_session, 0), 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
    close_store();
}

TEST(options_that_make_no_sense_are_refused)
{
    static const struct {
        struct hf_client_options options;
        const char *says;
    } rows[] = {
        {{.lease_ms = 10}, "lease of 10 ms"},
        {{.lease_ms = 1000, .heartbeat_ms = 501}, "at most half"},
        {{.heartbeat_ms = -5}, "is invalid"},
        {{.lease_ms = 1000, .warn_ms = 1000}, "between the heartbeat"},
        {{.lease_ms = 1000, .warn_ms = 200}, "between the heartbeat"},
        {{.request_timeout_ms = 30000}, "shorter than the lease"},
        {{.poll_limit_ms = -1}, "poll limit"},
        {{.skew_ms = -2}, "skew"},
        {{.drift_per_mille = 900}, "drift"},
        {{.session = HF_SESSION_ON, .heartbeat_ms = HF_NONE}, "needs heartbeats"},
        {{.owner = ""}, "owner"},
        {{.owner = "\xff"}, "owner"},
        {{.keep_s = 10}, "an hour"},
        {{.format = "papyrus"}, "unknown table format"},
        {{.table = "no such name!"}, "able"},
        {{.key_name = ""}, "key name"},
        {{.store_url = "ftp://x"}, "is not a store"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hf_test_note("row %zu", i);
        struct hf_client_options options = rows[i].options;
        struct hf_client *client;
        options.size = sizeof options;
        if (!options.store_url) options.store_url = "memory:";
        CHECK(hf_client_new(&options, &client, &error) < 0);
        if (!strstr(error.message, rows[i].says))
            hf_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message,
                         rows[i].says);
    }
    struct hf_client_options nothing = {.size = sizeof nothing};
    struct hf_client *client;
    CHECK_INT(hf_client_new(&nothing, &client, &error), HF_ERR_INVALID);
}

TEST(wishes_that_make_no_sense_are_refused)
{
    static const struct hf_attribute reserved = {"token", "1"};
    static const struct {
        const char *name;
        struct hf_acquire_options options;
        int64_t timeout_ms;
        int code;
    } rows[] = {
        {"", {0}, 0, HF_ERR_INVALID},
        {"holdfast:x", {0}, 0, HF_ERR_INVALID},
        {"\xc3", {0}, 0, HF_ERR_INVALID},
        {"x", {0}, -1, HF_ERR_INVALID},
        {"x", {.lease_ms = 10}, 0, HF_ERR_INVALID},
        {"x", {.lease_ms = 600}, 0, HF_ERR_INVALID},
        {"x", {.warn_ms = LEASE_MS}, 0, HF_ERR_INVALID},
        {"x", {.limit = -1}, 0, HF_ERR_INVALID},
        {"x", {.shared = true, .lease_ms = 5000}, 0, HF_ERR_INVALID},
        {"x", {.data_size = 3}, 0, HF_ERR_INVALID},
        {"x", {.data = "", .data_size = 1 << 20}, 0, HF_ERR_LIMIT},
        {"x", {.attributes = &reserved, .attribute_count = 1}, 0, HF_ERR_INVALID},
    };
    open_store();
    struct hf_client *client = new_client("alice");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hf_test_note("row %zu", i);
        struct hf_acquire_options options = rows[i].options;
        struct hf_lock *lock;
        options.size = sizeof options;
        CHECK_INT(hf_acquire(client, rows[i].name, rows[i].timeout_ms, &options, &lock, &error),
                  rows[i].code);
        CHECK(error.message[0]);
    }
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(a_child_of_fork_is_told_to_make_its_own)
{
    open_store();
    struct hf_client *client = new_client("alice");
    struct hf_lock *lock = lock_of(client, "job", NULL);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct hf_lock *other;
        bool good = hf_acquire(client, "x", 0, NULL, &other, NULL) == HF_ERR_FORKED &&
                    !hf_lock_is_held(lock) && hf_release(lock, NULL, NULL) == HF_ERR_FORKED &&
                    hf_client_close(client, 0) == HF_ERR_FORKED;
        hf_lock_unref(lock);
        _exit(good ? 0 : 1);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    CHECK(hf_lock_is_held(lock));
    release(lock);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

TEST(tables_are_made_described_and_checked)
{
    if (hf_test_is_served()) hf_test_skip("its table is its own");
    open_store();
    struct hf_client_options options = defaults("alice");
    options.create_table = false;
    struct hf_client *client = client_with(&options);
    struct hf_table_status status;
    struct hf_lock *lock;
    CHECK_INT(hf_table_describe(client, &status, &error), 0);
    bool dynamodb = strncmp(url(), "dynamodb:", 9) == 0;
    CHECK(status.exists != dynamodb); /* the embedded engine has made its own */
    if (dynamodb) {
        CHECK_INT(hf_table_check(client, &error), HF_ERR_NO_TABLE);
        CHECK_INT(hf_acquire(client, "job", HF_FOREVER, NULL, &lock, &error), HF_ERR_NO_TABLE);
    }
    CHECK_INT(hf_table_create(client, NULL, &error), 0);
    CHECK_INT(hf_table_create(client, NULL, &error), 0);
    CHECK_INT(hf_table_check(client, &error), 0);
    CHECK_INT(hf_table_describe(client, &status, &error), 0);
    CHECK(status.exists && status.active && status.key_fits && status.ttl_enabled);
    struct hf_store_info *info;
    int64_t lo_us, hi_us, deleted = -1;
    CHECK_INT(hf_store_describe(client, &info, &error), 0);
    CHECK_STR(info->kind, dynamodb ? "dynamodb" : strncmp(url(), "file:", 5) ? "memory" : "file");
    CHECK(!dynamodb || (info->credentials[0] && strncmp(info->key_id, "****", 4) == 0));
    hf_store_info_free(info);
    CHECK_INT(hf_store_time(client, &lo_us, &hi_us, &error), 0);
    CHECK(lo_us <= hi_us && hi_us - lo_us < 10000000);
    CHECK_INT(hf_acquire(client, "job", HF_FOREVER, NULL, &lock, &error), 0);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    hf_lock_unref(lock);
    CHECK_INT(hf_table_sweep(client, &deleted, &error), 0);
    CHECK_INT(deleted, 0); /* nothing is that old */
    const struct hf_table_options half = {.size = sizeof half, .read_units = 1};
    CHECK_INT(hf_table_create(client, &half, &error), HF_ERR_INVALID);
    options.key_name = "other";
    struct hf_client *other = client_with(&options);
    CHECK_INT(hf_table_check(other, &error), HF_ERR_INVALID);
    CHECK_INT(hf_client_close(other, 0), 0);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

/* ---- many threads ---- */

enum { THREADS = 8, ROUNDS = 40 };
static int inside, overlaps, total;

static void *contend(void *user)
{
    struct hf_client *client = user;
    for (int i = 0; i < ROUNDS; i++) {
        struct hf_lock *lock;
        if (hf_acquire(client, "counter", HF_FOREVER, NULL, &lock, NULL) != 0)
            return (void *)"acquire";
        if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1)
            __atomic_add_fetch(&overlaps, 1, __ATOMIC_SEQ_CST);
        total++; /* guarded by the lock alone */
        __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        if (hf_release(lock, NULL, NULL) != 0) return (void *)"release";
        hf_lock_unref(lock);
    }
    return NULL;
}

TEST(threads_of_two_clients_exclude_each_other)
{
    open_store();
    inside = overlaps = total = 0;
    struct hf_client *clients[2] = {new_client("alice"), new_client("bob")};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, contend, clients[i % 2]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed) hf_test_fail(__FILE__, __LINE__, "%s", (const char *)failed);
    }
    CHECK_INT(overlaps, 0);
    CHECK_INT(total, THREADS * ROUNDS);
    for (int i = 0; i < 2; i++) CHECK_INT(hf_client_close(clients[i], 0), 0);
    close_store();
}

/* ---- leaving ---- */

static void *bother(void *user)
{
    struct hf_client *client = user;
    for (int i = 0; i < 100000; i++) {
        struct hf_lock *lock;
        struct hf_lock_info *info;
        struct hf_list_page *page;
        struct hf_table_status status;
        int code = hf_get(client, "job", &info, NULL);
        if (code == 0) hf_lock_info_free(info);
        if (code != HF_ERR_CLOSED) code = hf_list(client, NULL, &page, NULL);
        if (code == 0) hf_list_page_free(page);
        if (code != HF_ERR_CLOSED) code = hf_table_describe(client, &status, NULL);
        if (code != HF_ERR_CLOSED) code = hf_acquire(client, "job", 5000, NULL, &lock, NULL);
        if (code == 0) {
            hf_lock_extend(lock, 1000, NULL);
            hf_release(lock, NULL, NULL);
            hf_lock_unref(lock);
        }
        if (code == HF_ERR_CLOSED) return NULL;
    }
    return user;
}

TEST(closing_while_others_are_busy_is_safe)
{
    enum { BUSY = 4, TIMES = 5 };
    open_store();
    for (int i = 0; i < TIMES; i++) {
        struct hf_client *client = new_client("alice");
        pthread_t threads[BUSY];
        struct hf_lock *handle = lock_of(client, "kept", NULL); /* keeps the client's memory */
        for (int k = 0; k < BUSY; k++)
            CHECK_INT(pthread_create(&threads[k], NULL, bother, client), 0);
        struct timespec a_moment = {.tv_nsec = 20000000};
        nanosleep(&a_moment, NULL);
        hf_client_close(client, 5000);
        for (int k = 0; k < BUSY; k++) {
            void *endless;
            pthread_join(threads[k], &endless);
            CHECK(!endless);
        }
        CHECK_INT(hf_lock_reason(handle), HF_REASON_CLOSED);
        hf_lock_unref(handle);
    }
    close_store();
}

static void unref_on_warning(void *user, const struct hf_event *event)
{
    (void)user;
    if (event->type == HF_EVENT_WARNING) hf_lock_unref(event->lock);
    on_event(NULL, event);
}

TEST(a_warning_may_end_the_lock)
{
    open_store();
    reset_events();
    struct hf_client_options options = defaults("alice");
    options.heartbeat_ms = HF_NONE;
    options.lease_ms = 500;
    options.warn_ms = 50;
    struct hf_client *client = client_with(&options);
    const struct hf_acquire_options unref = {.size = sizeof unref, .on_event = unref_on_warning};
    lock_of(client, "job", &unref);
    await(&finals, 1);
    CHECK_INT(last_reason, HF_REASON_ABANDONED);
    CHECK_INT(hf_client_close(client, 0), 0);
    close_store();
}

/* ---- memory ---- */

static void use_everything(struct hf_client *client)
{
    const struct hf_acquire_options options[] = {
        {.size = sizeof options[0], .data = "x", .data_size = 1, .on_event = on_event},
        {.size = sizeof options[0], .limit = 2, .on_event = on_event},
    };
    struct hf_lock *lock;
    struct hf_lock_info *info;
    struct hf_list_page *page;
    struct hf_watcher *watcher;
    struct hf_election *election;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        if (hf_acquire(client, "job", 3000, &options[i], &lock, &error) != 0) continue;
        hf_lock_set_data(lock, "yes", 3, &error);
        hf_lock_extend(lock, 3000, &error);
        if (hf_get(client, "job", &info, &error) == 0) hf_lock_info_free(info);
        hf_release(lock, NULL, &error);
        hf_lock_unref(lock);
    }
    if (hf_list(client, NULL, &page, &error) == 0) hf_list_page_free(page);
    if (hf_watch(client, "job", 1, on_change, NULL, &watcher, &error) == 0) hf_watch_stop(watcher);
    const struct hf_elect_options campaign = {
        .size = sizeof campaign, .data = "me", .data_size = 2};
    if (hf_elect(client, "boss", &campaign, &election, &error) == 0)
        CHECK_INT(hf_election_resign(election, &error), 0);
}

static void short_of_memory(void)
{
    struct hf_client_options options = {
        .size = sizeof options, .store_url = "memory:", .lease_ms = 2000, .owner = "alice"};
    struct hf_client *client;
    error.message[0] = '\0';
    if (hf_client_new(&options, &client, &error) != 0) {
        CHECK(error.code == HF_ERR_NO_MEMORY || error.message[0]);
        return;
    }
    use_everything(client);
    hf_client_close(client, 5000);
}

TEST(every_allocation_may_fail)
{
    if (getenv("HOLDFAST_TEST_STORE")) hf_test_skip("memory: is enough");
    CHECK(hf_test_torture(short_of_memory) > 100);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_lock_is_held_until_it_is_released),
        RUN(another_client_is_told_who_holds_it),
        RUN(a_lock_that_is_not_renewed_passes_to_whoever_waits),
        RUN(heartbeats_keep_it_past_its_lease),
        RUN(a_lock_can_be_made_to_last),
        RUN(readers_share_and_a_writer_does_not),
        RUN(a_semaphore_admits_as_many_as_its_limit),
        RUN(data_is_stored_with_the_lock),
        RUN(only_if_exists_and_reentrant),
        RUN(an_operator_can_take_it_away),
        RUN(locks_are_listed_in_pages),
        RUN(a_watcher_sees_it_come_and_go),
        RUN(one_candidate_leads_and_the_next_follows),
        RUN(a_wait_is_told_who_is_in_the_way),
        RUN(acquiring_without_waiting_ends_in_one_call_back),
        RUN(waiting_inside_a_callback_is_refused),
        RUN(closing_releases_everything_and_wakes_everybody),
        RUN(a_handle_that_goes_leaves_the_lock_to_expire),
        RUN(options_that_make_no_sense_are_refused),
        RUN(wishes_that_make_no_sense_are_refused),
        RUN(a_child_of_fork_is_told_to_make_its_own),
        RUN(tables_are_made_described_and_checked),
        RUN(threads_of_two_clients_exclude_each_other),
        RUN(closing_while_others_are_busy_is_safe),
        RUN(a_warning_may_end_the_lock),
        RUN(every_allocation_may_fail),
    };
    return RUN_TESTS(tests);
}
