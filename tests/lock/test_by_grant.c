/*
 * Several act for one grant, in virtual time: two services on one table, and a command that was
 * given the grant. Each test runs for every format that has leases.
 */
#include "harness/rig.h"

static struct rig rig;
static struct rig_client *const a = &rig.clients[0], *const b = &rig.clients[1],
                                *const c = &rig.clients[2];
static const struct hf_format *format;
static struct hf_job job;

enum { LEASE_MS = 10000 };

/* a and b are services: nobody renews but those who are told to. c is a process of its own. */
static void start(void)
{
    struct hf_core_options options = rig_defaults();
    options.format = format;
    options.layout.prefix = hf__slice_str(format->default_prefix);
    options.layout.sort_name = hf__slice_str(format->default_sort);
    options.layout.sort_value = hf__slice_str(format->default_sort_value);
    options.layout.keep_on_release = true;
    options.lease_ms = LEASE_MS;
    options.period_ms = options.warn_ms = 0;
    options.session = HF_USE_SESSION_NEVER;
    rig_init(&rig);
    for (int i = 0; i < 3; i++) {
        options.by_grant = i < 2;
        CHECK_INT(rig_add(&rig, &options), i);
    }
}

static struct hf_by_grant which(const struct hf_grant *grant, bool keep)
{
    return (struct hf_by_grant){
        .name = HF_LIT("space:job"), .grant = grant->id, .limit = grant->limit, .keep = keep};
}

static struct hf_grant *acquire(int client, int64_t limit)
{
    rig.clients[client].last_code = 1;
    CHECK_INT(rig_acquire(&rig, client, "space:job", 0, limit), 0);
    rig_settle(&rig);
    CHECK_INT(rig.clients[client].last_code, 0);
    return rig.clients[client].last_grant;
}

/* The code; what was confirmed is in `job`. */
static int renew_at(struct rig_client *client, const struct hf_grant *grant, int64_t lease_ms)
{
    struct hf_by_grant by = which(grant, client != c);
    job = (struct hf_job){0};
    client->last_job = 1;
    hf__core_adopt(client->core, &by, lease_ms, &job, rig.now_us);
    rig_run(&rig, 50);
    return client->last_job;
}

static int renew_own(struct rig_client *client, struct hf_grant *grant)
{
    job = (struct hf_job){0};
    client->last_job = 1;
    hf__core_ensure(client->core, grant, 0, &job, rig.now_us);
    rig_run(&rig, 50);
    return client->last_job;
}

static int release_at(struct rig_client *client, const struct hf_grant *grant)
{
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    struct hf_by_grant by = which(grant, false);
    job = (struct hf_job){0};
    client->last_job = 1;
    hf__core_release_by_grant(client->core, &by, &how, &job, rig.now_us);
    rig_run(&rig, 50);
    return client->last_job;
}

static int try_at(int client)
{
    rig.clients[client].last_code = 1;
    CHECK_INT(rig_acquire(&rig, client, "space:job", 0, 0), 0);
    rig_settle(&rig);
    return rig.clients[client].last_code;
}

static void renewed_here_and_there(void)
{
    struct hf_grant *grant = acquire(0, 0);
    CHECK_INT(renew_at(b, grant, 0), 0);
    rig_run(&rig, LEASE_MS / 2);
    CHECK_INT(renew_own(a, grant), 0);
    /* It was written, and not only believed: b does not give the lock away before a's time is up.
     */
    int64_t left_ms = hf__grant_left_us(grant, rig.now_us) / 1000;
    CHECK(left_ms > LEASE_MS * 9 / 10);
    rig_run(&rig, left_ms - 10);
    CHECK_INT(try_at(1), HF_ERR_HELD);
}

static void overtaken_twice_is_not_lost(void)
{
    struct hf_grant *grant = acquire(0, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(renew_at(b, grant, 0), 0);
        rig_run(&rig, 1500);
    }
    CHECK_INT(renew_own(a, grant), 0);
    CHECK_INT(a->finals, 0);
}

static void a_shorter_lease_shortens_nothing(void)
{
    struct hf_grant *grant = acquire(0, 0);
    int64_t left_ms = hf__grant_left_us(grant, rig.now_us) / 1000;
    CHECK_INT(renew_at(c, grant, 500), 0);
    rig_run(&rig, left_ms - 10);
    CHECK_INT(try_at(1), HF_ERR_HELD);
}

static void what_others_renewed_is_not_given_back(void)
{
    struct hf_grant *grant = acquire(2, 0); /* by a process that then stops */
    c->dead = true;
    rig_run(&rig, LEASE_MS / 2);
    CHECK_INT(renew_at(a, grant, 3 * LEASE_MS), 0);
    rig_run(&rig, LEASE_MS);
    c->dead = false;
    rig_run(&rig, 100);
    CHECK_INT(c->last_reason, HF_REASON_EXPIRED);
    CHECK_INT(try_at(1), HF_ERR_HELD);
}

static void a_service_says_nothing_of_what_is_renewed_elsewhere(void)
{
    const struct hf_grant copy = *acquire(0, 0);
    for (int i = 0; i < 6; i++) {
        rig_run(&rig, LEASE_MS / 3);
        CHECK_INT(renew_at(c, &copy, 0), 0);
    }
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->last_reason, HF_REASON_ABANDONED);
}

static void released_elsewhere_whatever_the_version(void)
{
    struct hf_grant *grant = acquire(0, 0);
    CHECK_INT(renew_at(b, grant, 0), 0);
    rig_run(&rig, 1500);
    CHECK_INT(renew_at(c, grant, 0), 0);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(a->last_reason, HF_REASON_RELEASED);
    CHECK_INT(try_at(1), 0);
}

static void a_release_is_final(void)
{
    struct hf_grant *grant = acquire(0, 0);
    const struct hf_grant copy = *grant;
    CHECK_INT(release_at(b, grant), 0);
    CHECK_INT(renew_at(c, &copy, 0), HF_ERR_LOST);
    CHECK_INT(renew_own(a, grant), HF_ERR_LOST);
    CHECK_INT(try_at(1), 0);
    CHECK_INT(renew_at(c, &copy, 0), HF_ERR_LOST);
    bool remembers = format == &hf__format_holdfast;
    CHECK_INT(release_at(b, &copy), remembers ? 0 : HF_ERR_LOST); /* again, its answer was lost */
}

static void somebody_elses_grant_does_nothing(void)
{
    struct hf_grant other = *acquire(0, 0);
    other.id.bytes[3] ^= 1;
    CHECK_INT(renew_at(b, &other, 0), HF_ERR_LOST);
    CHECK_INT(release_at(b, &other), HF_ERR_LOST);
    struct hf_by_grant by = which(a->last_grant, true);
    by.owner = HF_LIT("mallory");
    hf__core_adopt(b->core, &by, 0, &job, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(b->last_job, HF_ERR_LOST);
    CHECK_INT(try_at(1), HF_ERR_HELD);
}

static void waiters_hear_of_a_release_elsewhere(void)
{
    struct hf_grant *grant = acquire(0, 0);
    a->last_code = 1;
    CHECK_INT(rig_acquire(&rig, 0, "space:job", HF_NEVER, 0), 0);
    rig_run(&rig, 1500);
    CHECK_INT(a->last_code, 1);
    CHECK_INT(release_at(b, grant), 0);
    rig_run(&rig, 3000);
    CHECK_INT(a->last_code, 0);
}

static void a_lost_answer_is_resolved(void)
{
    struct hf_grant *grant = acquire(0, 0);
    struct hf_by_grant by = which(grant, true);
    job = (struct hf_job){0};
    b->last_job = 1;
    hf__core_adopt(b->core, &by, 0, &job, rig.now_us);
    b->cut_off = true;
    rig_run(&rig, 300);
    b->cut_off = false;
    rig_run(&rig, 4000);
    CHECK_INT(b->last_job, 0);
    /* Counted from the first send, not from the last. */
    CHECK(job.confirmed.valid_until_us <= rig.now_us - 4000 * 1000 + LEASE_MS * 1000);
}

static void only_the_one_who_was_found_is_forced(void)
{
    struct hf_grant *grant = acquire(0, 0);
    CHECK_INT(rig_acquire(&rig, 2, "space:job", HF_NEVER, 0), 0);
    c->last_code = 1;
    job = (struct hf_job){0};
    hf__core_force(b->core, HF_LIT("space:job"), HF_LIT("operator"), HF_LIT("a test"), 60000, &job,
                   rig.now_us);
    rig_run(&rig, 5000);
    CHECK_INT(b->last_job, 0);
    CHECK_INT(c->last_code, 0);
    CHECK_INT(renew_own(c, c->last_grant), 0);
    CHECK_INT(renew_at(a, grant, 0), HF_ERR_LOST);
    CHECK_INT(c->finals, 0);
}

static void readers_keep_their_lease(void)
{
    if (!(format->can & HF_CAN_SHARE) || format->sessions) return;
    struct hf_grant *grant = acquire(0, HF_READERS_LIMIT);
    CHECK_INT(renew_at(b, grant, LEASE_MS + 100), HF_ERR_UNSUPPORTED);
    CHECK_INT(renew_at(b, grant, LEASE_MS), 0);
    job = (struct hf_job){0};
    hf__core_ensure(a->core, grant, LEASE_MS - 10, &job, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->last_job, HF_ERR_UNSUPPORTED); /* with its margin that is longer than the lease */
    CHECK_INT(release_at(c, grant), 0);
    CHECK_INT(try_at(1), 0);
}

static void for_all_formats(void (*test)(void))
{
    for (size_t i = 0; i < HF_FORMATS; i++) {
        format = hf__format_at(i);
        if (!(format->can & HF_CAN_RENEW)) continue;
        start();
        test();
        rig_free(&rig);
    }
}

#define FOR_ALL_FORMATS(name)                                                                      \
    TEST(by_grant_##name)                                                                          \
    {                                                                                              \
        for_all_formats(name);                                                                     \
    }
FOR_ALL_FORMATS(renewed_here_and_there)
FOR_ALL_FORMATS(overtaken_twice_is_not_lost)
FOR_ALL_FORMATS(a_shorter_lease_shortens_nothing)
FOR_ALL_FORMATS(what_others_renewed_is_not_given_back)
FOR_ALL_FORMATS(a_service_says_nothing_of_what_is_renewed_elsewhere)
FOR_ALL_FORMATS(released_elsewhere_whatever_the_version)
FOR_ALL_FORMATS(a_release_is_final)
FOR_ALL_FORMATS(somebody_elses_grant_does_nothing)
FOR_ALL_FORMATS(waiters_hear_of_a_release_elsewhere)
FOR_ALL_FORMATS(a_lost_answer_is_resolved)
FOR_ALL_FORMATS(only_the_one_who_was_found_is_forced)
FOR_ALL_FORMATS(readers_keep_their_lease)

static void live_through_it(void)
{
    struct hf_core_options options = rig_defaults();
    options.period_ms = options.warn_ms = 0;
    options.by_grant = true;
    options.session = HF_USE_SESSION_NEVER;
    rig_init(&rig);
    if (rig_add(&rig, &options) == 0 && rig_add(&rig, &options) == 1 &&
        rig_acquire(&rig, 0, "space:job", 3000, 0) == 0) {
        struct hf_job jobs[4] = {0};
        const struct hf_release how = {.reason = HF_REASON_RELEASED};
        rig_run(&rig, 3000);
        if (a->last_grant) {
            const struct hf_grant copy = *a->last_grant;
            struct hf_by_grant by = which(&copy, true);
            hf__core_adopt(b->core, &by, 20000, &jobs[0], rig.now_us);
            rig_run(&rig, 3000);
            by.keep = false;
            hf__core_adopt(b->core, &by, 0, &jobs[1], rig.now_us);
            hf__core_force(a->core, HF_LIT("space:other"), HF_LIT("me"), HF_LIT("why"), 3000,
                           &jobs[2], rig.now_us);
            rig_run(&rig, 9000); /* what a had is over, and b keeps it */
            hf__core_release_by_grant(b->core, &by, &how, &jobs[3], rig.now_us);
            rig_run(&rig, 60000);
            CHECK_INT(b->jobs, 3);
            CHECK_INT(a->jobs, 1);
        }
    }
    rig_free(&rig);
}

TEST(every_allocation_may_fail)
{
    hf_test_torture(live_through_it);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(by_grant_renewed_here_and_there),
        RUN(by_grant_overtaken_twice_is_not_lost),
        RUN(by_grant_a_shorter_lease_shortens_nothing),
        RUN(by_grant_what_others_renewed_is_not_given_back),
        RUN(by_grant_a_service_says_nothing_of_what_is_renewed_elsewhere),
        RUN(by_grant_released_elsewhere_whatever_the_version),
        RUN(by_grant_a_release_is_final),
        RUN(by_grant_somebody_elses_grant_does_nothing),
        RUN(by_grant_waiters_hear_of_a_release_elsewhere),
        RUN(by_grant_a_lost_answer_is_resolved),
        RUN(by_grant_only_the_one_who_was_found_is_forced),
        RUN(by_grant_readers_keep_their_lease),
        RUN(every_allocation_may_fail),
    };
    return RUN_TESTS(tests);
}
