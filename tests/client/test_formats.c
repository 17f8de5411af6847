/* The library on every format: what each can do works, what it cannot do is refused. */
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "harness/test.h"
#include "holdfast.h"

enum { LEASE_MS = 1500, ENOUGH_MS = 30000 };

static struct hf_error error;
static struct hf_store *store;

struct row {
    const char *format;
    bool fencing, keep, trust_clock, sort;
    char key_type;
    bool token, data, expires;
};

static const struct row rows[] = {
    {.format = "holdfast", .token = true, .data = true, .expires = true},
    {.format = "awslabs", .data = true, .expires = true},
    {.format = "awslabs", .keep = true, .sort = true, .data = true, .expires = true},
    {.format = "dynamolock", .data = true, .expires = true},
    {.format = "dlock", .expires = true},
    {.format = "dlock", .fencing = true, .token = true, .expires = true},
    {.format = "lockservice", .expires = true},
    {.format = "single-table", .expires = true},
    {.format = "fail-open", .token = true, .expires = true},
    {.format = "fail-open", .trust_clock = true, .sort = true, .token = true, .expires = true},
    {.format = "fail-open", .key_type = 'N', .token = true, .expires = true},
    {.format = "fail-closed", .key_type = 'B'},
    {.format = "fail-closed"},
};

static const char *name_for(const struct row *row)
{
    return row->key_type == 'N' ? "42" : "team:nightly";
}

static struct hf_client_options options_for(const struct row *row, const char *table,
                                            const char *owner)
{
    return (struct hf_client_options){
        .size = sizeof(struct hf_client_options),
        .store = store,
        .format = row->format,
        .table = table,
        .owner = owner,
        .lease_ms = LEASE_MS,
        .poll_limit_ms = 50,
        .skew_ms = HF_NONE,
        .create_table = true,
        .fencing = row->fencing,
        .keep_on_release = row->keep,
        .trust_clock = row->trust_clock,
        .key_type = row->key_type,
        .sort_key_name = row->sort ? "range" : NULL,
        .sort_key = row->sort ? "lock" : NULL,
    };
}

static struct hf_client *join(const struct row *row, const char *table, const char *owner,
                              bool heartbeat)
{
    struct hf_client_options options = options_for(row, table, owner);
    if (!heartbeat) options.heartbeat_ms = HF_NONE;
    struct hf_client *client = NULL;
    if (hf_client_new(&options, &client, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return client;
}

static void exclude(const struct row *row, const char *table)
{
    struct hf_client *alice = join(row, table, "alice", true), *bob = join(row, table, "bob", true);
    const char *name = name_for(row);
    struct hf_lock *lock = NULL, *other = NULL;
    struct hf_lock_info *info;
    int64_t token = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(hf_acquire(alice, name, ENOUGH_MS, NULL, &lock, &error), 0);
        CHECK(hf_lock_is_held(lock));
        CHECK((hf_lock_token(lock) > token) == row->token);
        token = hf_lock_token(lock);
        CHECK_INT(hf_acquire(bob, name, 0, NULL, &other, &error), HF_ERR_HELD);
        CHECK_INT(hf_get(bob, name, &info, &error), 0);
        CHECK(info->held && !info->damaged);
        CHECK(info->owner && strncmp(info->owner, "alice", 5) == 0);
        CHECK_INT(info->token, token);
        hf_lock_info_free(info);
        CHECK_INT(hf_release(lock, NULL, &error), 0);
        hf_lock_unref(lock);
    }
    CHECK_INT(hf_acquire(bob, name, ENOUGH_MS, NULL, &other, &error), 0);
    CHECK((hf_lock_token(other) > token) == row->token);
    /* Heartbeats keep it past its lease. */
    CHECK_INT(hf_acquire(alice, name, LEASE_MS * 2, NULL, &lock, &error), HF_ERR_TIMED_OUT);
    CHECK(hf_lock_is_held(other));
    /* An operator can take it away, and its holder hears of it. */
    CHECK_INT(hf_force_release(alice, name, "a test", 0, &error), 0);
    CHECK_INT(hf_acquire(alice, name, ENOUGH_MS, NULL, &lock, &error), 0);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    hf_lock_unref(lock);
    hf_lock_unref(other);
    CHECK_INT(hf_client_close(alice, 0), 0);
    hf_client_close(bob, 0);
}

static void expire(const struct row *row, const char *table)
{
    if (!row->expires) return;
    struct hf_client *silent = join(row, table, "silent", false);
    struct hf_client *bob = join(row, table, "bob", true);
    struct hf_lock *lock, *other;
    CHECK_INT(hf_acquire(silent, name_for(row), ENOUGH_MS, NULL, &lock, &error), 0);
    CHECK_INT(hf_acquire(bob, name_for(row), ENOUGH_MS, NULL, &other, &error), 0);
    CHECK(!hf_lock_is_held(lock));
    CHECK((hf_lock_token(other) > hf_lock_token(lock)) == row->token);
    CHECK_INT(hf_release(other, NULL, &error), 0);
    hf_lock_unref(lock);
    hf_lock_unref(other);
    hf_client_close(silent, 0);
    CHECK_INT(hf_client_close(bob, 0), 0);
}

static void carry_data(const struct row *row, const char *table)
{
    struct hf_client *client = join(row, table, "alice", true);
    const struct hf_attribute extra = {"purpose", "a test"};
    struct hf_acquire_options options = {.size = sizeof options, .data = "one", .data_size = 3};
    struct hf_lock *lock;
    struct hf_lock_info *info;
    options.attributes = &extra;
    options.attribute_count = 1;
    int code = hf_acquire(client, name_for(row), ENOUGH_MS, &options, &lock, &error);
    CHECK_INT(code, row->data ? 0 : HF_ERR_UNSUPPORTED);
    if (code == 0) {
        CHECK_INT(hf_get(client, name_for(row), &info, &error), 0);
        CHECK_SLICE(hf__slice(info->data, info->data_size), HF_LIT("one"));
        hf_lock_info_free(info);
        CHECK_INT(hf_lock_set_data(lock, "two", 3, &error), 0);
        CHECK_INT(hf_release(lock, NULL, &error), 0);
        hf_lock_unref(lock);
    }
    const struct hf_acquire_options shared = {.size = sizeof shared, .shared = true};
    bool shares = strcmp(row->format, "holdfast") == 0 || strcmp(row->format, "fail-open") == 0;
    code = hf_acquire(client, name_for(row), 0, &shared, &lock, &error);
    CHECK_INT(code, shares ? 0 : HF_ERR_UNSUPPORTED);
    if (code == 0) {
        struct hf_client *bob = join(row, table, "bob", true);
        struct hf_lock *other, *none;
        CHECK_INT(hf_acquire(bob, name_for(row), 0, &shared, &other, &error), 0);
        CHECK_INT(hf_acquire(bob, name_for(row), 0, NULL, &none, &error), HF_ERR_HELD);
        CHECK_INT(hf_get(bob, name_for(row), &info, &error), 0);
        CHECK(info->held && info->shared);
        CHECK_INT(info->holders, 2);
        hf_lock_info_free(info);
        CHECK_INT(hf_release(lock, NULL, &error), 0);
        CHECK_INT(hf_acquire(bob, name_for(row), LEASE_MS * 2, NULL, &none, &error),
                  HF_ERR_TIMED_OUT);
        CHECK(hf_lock_is_held(other));
        CHECK_INT(hf_release(other, NULL, &error), 0);
        CHECK_INT(hf_acquire(bob, name_for(row), 0, NULL, &none, &error), 0);
        hf_lock_unref(none);
        hf_lock_unref(other);
        hf_lock_unref(lock);
        hf_client_close(bob, 0);
    }
    CHECK_INT(hf_client_close(client, 0), 0);
}

/* A grant goes from process to process. */
static void hand_on(const struct row *row, const char *table, bool shared)
{
    struct hf_client_options options = options_for(row, table, "alice");
    options.heartbeat_ms = HF_NONE;
    options.session = HF_SESSION_OFF;
    options.lease_ms = 60000;
    options.poll_limit_ms = 50;
    struct hf_client *alice, *bob;
    struct hf_lock *lock;
    char grant[HF_GRANT_SIZE];
    const struct hf_acquire_options how = {.size = sizeof how, .shared = shared};
    CHECK_INT(hf_client_new(&options, &alice, &error), 0);
    CHECK_INT(hf_acquire(alice, name_for(row), ENOUGH_MS, &how, &lock, &error), 0);
    CHECK_INT(hf_lock_grant(lock, grant, &error), 0);
    int64_t token = hf_lock_token(lock);
    hf_lock_unref(lock);
    CHECK_INT(hf_client_close(alice, 0), 0);
    options.owner = "bob";
    CHECK_INT(hf_client_new(&options, &bob, &error), 0);
    CHECK_INT(hf_acquire(bob, name_for(row), 0, NULL, &lock, &error), HF_ERR_HELD);
    struct hf_grant_status status;
    for (int i = 0; i < 3; i++) {
        int code = hf_grant_renew(bob, grant, shared ? 0 : 70000, &status, &error);
        if (code != 0 && row->expires) hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        CHECK_INT(code, row->expires ? 0 : HF_ERR_UNSUPPORTED);
        if (code != 0) break;
        CHECK_INT(status.token, token);
        int64_t least_ms =
            shared ? 60000 : 70000; /* where only an expiry is told, in whole seconds */
        CHECK(status.lease_ms >= least_ms && status.lease_ms <= least_ms + 2500);
        CHECK(status.left_ms > 50000 && status.left_ms <= least_ms + 2500);
    }
    char other[HF_GRANT_SIZE];
    memcpy(other, grant, sizeof other);
    char *digit = strchr(other, '#') + (shared ? 2 : 1);
    *digit = *digit == '0' ? '1' : '0'; /* somebody else's */
    CHECK_INT(hf_grant_release(bob, other, &error), HF_ERR_LOST);
    CHECK_INT(hf_grant_release(bob, grant, &error), 0);
    /* Again, as after a lost answer: the native record tells that it was released. */
    CHECK_INT(hf_grant_release(bob, grant, &error), row == &rows[0] ? 0 : HF_ERR_LOST);
    if (row->expires) CHECK_INT(hf_grant_renew(bob, grant, 0, NULL, &error), HF_ERR_LOST);
    CHECK_INT(hf_grant_release(bob, "nonsense", &error), HF_ERR_INVALID);
    CHECK_INT(hf_acquire(bob, name_for(row), 0, NULL, &lock, &error), 0);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    hf_lock_unref(lock);
    CHECK_INT(hf_client_close(bob, 0), 0);
}

static void hand_on_both(const struct row *row, const char *table)
{
    hand_on(row, table, false);
    if (strcmp(row->format, "fail-open") == 0) hand_on(row, table, true);
}

/* One lock name under several sort keys. */
static void list_sort_keys(const struct row *row, struct hf_client *client, const char *table,
                           const char *name)
{
    struct hf_list_page *page;
    struct hf_lock *lock;
    struct hf_client_options options = options_for(row, table, "bob");
    struct hf_client *other;
    options.sort_key = "other";
    CHECK_INT(hf_client_new(&options, &other, &error), 0);
    CHECK_INT(hf_acquire(other, name, ENOUGH_MS, NULL, &lock, &error), 0);
    struct hf_list_options how = {.size = sizeof how, .name = name};
    CHECK_INT(hf_list(client, &how, &page, &error), 0);
    CHECK_INT(page->count, 2);
    CHECK_STR(page->locks[0].sort_key, "lock");
    CHECK_STR(page->locks[1].sort_key, "other");
    hf_list_page_free(page);
    how.name = NULL;
    CHECK_INT(hf_list(client, &how, &page, &error), 0);
    CHECK_INT(page->count, 1);
    hf_list_page_free(page);
    how.any_sort_key = true;
    CHECK_INT(hf_list(client, &how, &page, &error), 0);
    CHECK_INT(page->count, 2);
    hf_list_page_free(page);
    CHECK_INT(hf_release(lock, NULL, &error), 0);
    hf_lock_unref(lock);
    hf_client_close(other, 0);
}

/* Small pages: every lock comes once. */
static void page_through(const struct row *row, struct hf_client *client)
{
    enum { LOCKS = 5 };
    struct hf_lock *locks[LOCKS];
    char name[32];
    int seen = 0, pages = 0;
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, row->key_type == 'N' ? "1%d" : "page:lock%d", i);
        CHECK_INT(hf_acquire(client, name, ENOUGH_MS, NULL, &locks[i], &error), 0);
    }
    struct hf_list_options how = {.size = sizeof how, .limit = 2};
    how.prefix = row->key_type == 'N' ? "1" : "page:";
    struct hf_list_page *page = NULL, *last = NULL;
    do {
        CHECK_INT(hf_list(client, &how, &page, &error), 0);
        hf_list_page_free(last);
        last = page;
        seen += (int)page->count;
        how.cursor = page->cursor;
    } while (page->cursor && ++pages < 20);
    CHECK_INT(seen, LOCKS);
    hf_list_page_free(last);
    how.cursor = "nonsense";
    CHECK_INT(hf_list(client, &how, &page, &error), HF_ERR_INVALID);
    for (int i = 0; i < LOCKS; i++) hf_lock_unref(locks[i]);
}

static void list(const struct row *row, const char *table)
{
    struct hf_client *client = join(row, table, "alice", true);
    struct hf_lock *lock;
    struct hf_list_page *page;
    const struct hf_list_options held = {.size = sizeof held, .held_only = true};
    const char *name = row->key_type == 'N' ? "-4.5" : "team:other";
    CHECK_INT(hf_acquire(client, name, ENOUGH_MS, NULL, &lock, &error), 0);
    CHECK_INT(hf_list(client, &held, &page, &error), 0);
    CHECK_INT(page->count, 1);
    CHECK_STR(page->locks[0].name, name);
    hf_list_page_free(page);
    if (row->sort) list_sort_keys(row, client, table, name);
    hf_lock_unref(lock);
    page_through(row, client);
    hf_client_close(client, 0);
}

static void led(void *user, enum hf_leadership state, const struct hf_lock_info *info)
{
    (void)info;
    if (state == HF_LEADER_SELF) __atomic_store_n((bool *)user, true, __ATOMIC_RELEASE);
}

/* Also where there are no tokens. */
static void elect(const struct row *row, const char *table)
{
    struct hf_client *client = join(row, table, "alice", true);
    struct hf_election *election;
    bool leads = false;
    const struct hf_elect_options how = {.size = sizeof how, .changed = led, .user = &leads};
    CHECK_INT(hf_elect(client, name_for(row), &how, &election, &error), 0);
    for (int ms = 0; ms < ENOUGH_MS && !__atomic_load_n(&leads, __ATOMIC_ACQUIRE); ms += 5)
        usleep(5000);
    CHECK(hf_election_is_leader(election));
    CHECK_INT(hf_election_token(election) > 0, row->token);
    CHECK_INT(hf_election_resign(election, &error), 0);
    CHECK_INT(hf_client_close(client, 0), 0);
}

static void on_every_format(void (*check)(const struct row *row, const char *table))
{
    const char *given = getenv("HOLDFAST_TEST_STORE");
    CHECK_INT(hf_store_open(given ? given : "memory:", NULL, NULL, &store, &error), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char id[HF_ID_SIZE], table[64];
        hf__random_id(id);
        snprintf(table, sizeof table, "t%s", id);
        hf_test_note("row %zu: %s", i, rows[i].format);
        check(&rows[i], table);
    }
    hf_store_close(store);
}

TEST(every_format_excludes)
{
    on_every_format(exclude);
}

TEST(what_is_not_renewed_expires_unless_it_never_does)
{
    on_every_format(expire);
}

TEST(data_and_sharing_are_there_or_refused)
{
    on_every_format(carry_data);
}

TEST(a_grant_goes_from_process_to_process)
{
    on_every_format(hand_on_both);
}

TEST(every_format_can_elect)
{
    on_every_format(elect);
}

TEST(every_format_can_be_listed)
{
    on_every_format(list);
}

TEST(what_a_format_cannot_do_is_refused)
{
    static const struct {
        struct hf_client_options options;
        const char *says;
    } bad[] = {
        {{.format = "awslabs", .fencing = true}, "no fencing tokens"},
        {{.format = "awslabs", .session = HF_SESSION_ON}, "no sessions"},
        {{.format = "awslabs", .key_type = 'N'}, "no keys other than strings"},
        {{.format = "awslabs", .expiry = HF_EXPIRY_CLOCK}, "no expiry by the clock"},
        {{.format = "dlock", .sort_key_name = "x", .sort_key = "y"}, "no sort keys"},
        {{.format = "dlock", .expiry = HF_EXPIRY_OBSERVED}, "no expiry by observation"},
        {{.format = "awslabs", .sort_key_name = "x"}, "needs a value"},
        {{.format = "holdfast", .prefix = "x"}, "no prefixes"},
        {{.format = "fail-open", .key_type = 'X'}, "S, N or B"},
        {{.format = "dynamolock", .hold_on_unavailable = true}, "outlive an outage"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        hf_test_note("row %zu", i);
        struct hf_client_options options = bad[i].options;
        struct hf_client *client;
        options.size = sizeof options;
        options.store_url = "memory:";
        CHECK(hf_client_new(&options, &client, &error) < 0);
        if (!strstr(error.message, bad[i].says))
            hf_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message,
                         bad[i].says);
    }
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(every_format_can_elect),
        RUN(every_format_excludes),
        RUN(what_is_not_renewed_expires_unless_it_never_does),
        RUN(data_and_sharing_are_there_or_refused),
        RUN(a_grant_goes_from_process_to_process),
        RUN(every_format_can_be_listed),
        RUN(what_a_format_cannot_do_is_refused),
    };
    return RUN_TESTS(tests);
}
