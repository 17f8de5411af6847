/* Locks on behalf of others, in virtual time: sessions that somebody opens, owners per lock. */
#include "harness/rig.h"

extern const struct hf_format hf__format_awslabs;

static struct rig rig;
static struct rig_client *const a = &rig.clients[0], *const b = &rig.clients[1];

/* As in the service: only its callers renew. Nothing is known of the store yet. */
static void start_unheard(const struct hf_format *format)
{
    struct hf_core_options options = rig_defaults();
    if (format) options.format = format;
    options.period_ms = options.warn_ms = 0;
    options.session = HF_USE_SESSION_NEVER;
    options.by_grant = true;
    rig_init(&rig);
    for (int i = 0; i < 2; i++) CHECK_INT(rig_add(&rig, &options), i);
}

static void start(const struct hf_format *format)
{
    start_unheard(format);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(rig_acquire(&rig, i, "warm-up", 0, 0), 0);
        rig_settle(&rig);
        rig_release(&rig, i, rig.clients[i].last_grant);
        rig_settle(&rig);
        rig_forget_counts(&rig, i);
        rig.clients[i].finals = 0;
    }
}

static struct hf_lease *open_session(struct hf_job *job, int64_t lease_ms)
{
    struct hf_lease *session;
    unsigned jobs = a->jobs;
    CHECK_INT(hf__core_session_open(
                  a->core,
                  &(struct hf_session_want){.owner = HF_LIT("alice"), .lease_ms = lease_ms}, job,
                  rig.now_us, &session, NULL),
              0);
    rig_settle(&rig);
    CHECK_INT(a->jobs, jobs + 1);
    CHECK_INT(a->last_job, 0);
    return session;
}

static void want(struct hf_want given)
{
    struct hf_attempt *attempt;
    a->last_code = 1;
    a->last_grant = NULL;
    CHECK_INT(hf__core_acquire(a->core, &given, rig.now_us, &attempt, NULL), 0);
    rig_settle(&rig);
}

static struct hf_grant *take_in(struct hf_lease *session, const char *name, int64_t limit)
{
    want((struct hf_want){.name = hf__slice_str(name), .limit = limit, .session = session});
    CHECK_INT(a->last_code, 0);
    return a->last_grant;
}

static int try_as_other(const char *name)
{
    CHECK_INT(rig_acquire(&rig, 1, name, 0, 0), 0);
    rig_settle(&rig);
    return b->last_code;
}

TEST(a_session_that_nobody_renews_takes_its_locks_along)
{
    struct hf_job job = {0};
    start(NULL);
    struct hf_lease *session = open_session(&job, 3000);
    take_in(session, "one", 0);
    take_in(session, "two", 0);
    rig_run(&rig, 2900);
    CHECK_INT(a->finals, 0);
    CHECK_INT(try_as_other("one"), HF_ERR_HELD);
    rig_run(&rig, 100);
    CHECK_INT(a->finals, 2);
    CHECK_INT(a->last_reason, HF_REASON_EXPIRED);
    CHECK_INT(try_as_other("one"), 0); /* its record was deleted: nobody need wait */
    rig_free(&rig);
}

TEST(one_request_renews_any_number_of_locks)
{
    struct hf_job opening = {0}, renewal[20] = {0};
    start(NULL);
    struct hf_lease *session = open_session(&opening, 3000);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "job-%d", i);
        take_in(session, name, 0);
    }
    rig_forget_counts(&rig, 0);
    for (int i = 0; i < 20; i++) {
        rig_run(&rig, 1000);
        hf__core_session_ensure(a->core, session, 2900, &renewal[i], rig.now_us);
        rig_settle(&rig);
        CHECK_INT(a->last_job, 0);
    }
    CHECK_INT(a->requests[HF_REQUEST_RENEW], 20);
    CHECK_INT(a->finals, 0);
    rig_free(&rig);
}

TEST(closing_releases_and_hands_over)
{
    struct hf_job opening = {0}, closing = {0};
    struct hf_arena arena = {0};
    char key[64] = "holdfast:session:";
    start(NULL);
    struct hf_lease *session = open_session(&opening, 3000);
    struct hf_slice id = hf__id_text(&arena, &session->id);
    snprintf(key + strlen(key), sizeof key - strlen(key), "%.*s", HF_FMT(id));
    take_in(session, "job", 0);
    take_in(session, "other", 0);
    CHECK(strstr(rig_show(&rig, &arena, key), "alice"));
    CHECK_INT(rig_acquire(&rig, 0, "job", HF_NEVER, 0), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, 1); /* waits */
    rig_forget_counts(&rig, 0);
    hf__core_session_close(a->core, session, &closing, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->last_job, 0);
    CHECK_INT(a->finals, 2);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->requests[HF_REQUEST_READ] + a->requests[HF_REQUEST_JUDGE], 0); /* no poll */
    CHECK(strstr(rig_show(&rig, &arena, key), "ended")); /* no late copy brings it back */
    CHECK_INT(try_as_other("other"), 0);
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(readers_of_several_sessions_share_and_a_semaphore_counts_them)
{
    struct hf_job jobs[3] = {0};
    start(NULL);
    struct hf_lease *sessions[3];
    for (int i = 0; i < 3; i++) {
        sessions[i] = open_session(&jobs[i], 60000);
        take_in(sessions[i], "doc", HF_READERS_LIMIT);
    }
    CHECK_INT(try_as_other("doc"), HF_ERR_HELD);
    take_in(sessions[0], "pool", 2);
    take_in(sessions[1], "pool", 2);
    want((struct hf_want){.name = HF_LIT("pool"), .limit = 2, .session = sessions[2]});
    CHECK_INT(a->last_code, HF_ERR_HELD);
    rig_free(&rig);
}

TEST(an_ended_session_takes_no_more_locks)
{
    struct hf_job opening = {0}, again = {0};
    start(NULL);
    struct hf_lease *session = open_session(&opening, 1000);
    session->refs++;
    rig_run(&rig, 1000);
    want((struct hf_want){.name = HF_LIT("job"), .session = session});
    CHECK_INT(a->last_code, HF_ERR_LOST);
    hf__core_session_ensure(a->core, session, 900, &again, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->last_job, HF_ERR_LOST);
    hf__lease_unref(a->core, session);
    rig_free(&rig);
}

TEST(what_is_left_stays_held_until_its_lease_ends)
{
    struct hf_job opening = {0};
    start(NULL);
    struct hf_lease *session = open_session(&opening, 3000);
    take_in(session, "kept", 0);
    want((struct hf_want){.name = HF_LIT("own"), .lease_ms = 3000});
    CHECK_INT(a->last_code, 0);
    hf__core_leave_all(a->core, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->finals, 2);
    CHECK_INT(a->last_reason, HF_REASON_ABANDONED);
    hf__core_close(a->core, 5000, rig.now_us);
    rig_settle(&rig);
    CHECK(a->core->closed);
    a->dead = true;
    rig_run(&rig, 2500);
    CHECK_INT(try_as_other("kept"), HF_ERR_HELD);
    CHECK_INT(try_as_other("own"), HF_ERR_HELD);
    rig_run(&rig, 2500);
    CHECK_INT(try_as_other("kept"), 0);
    CHECK_INT(try_as_other("own"), 0);
    rig_free(&rig);
}

TEST(a_job_of_a_session_ends_also_when_the_client_does)
{
    struct hf_job opening = {0};
    struct hf_lease *session;
    start(NULL);
    a->cut_off = true;
    CHECK_INT(hf__core_session_open(
                  a->core, &(struct hf_session_want){.owner = HF_LIT("alice"), .lease_ms = 3000},
                  &opening, rig.now_us, &session, NULL),
              0);
    hf__core_close(a->core, 100, rig.now_us);
    rig_run(&rig, 5000);
    CHECK_INT(a->jobs, 1);
    CHECK(a->last_job != 0);
    rig_free(&rig);
}

TEST(whose_it_is_stands_in_the_record_and_in_what_is_asked_of_it)
{
    struct hf_arena arena = {0};
    start(&hf__format_awslabs); /* its releases and renewals name the owner */
    want((struct hf_want){.name = HF_LIT("job"), .lease_ms = 3000, .owner = HF_LIT("carol")});
    CHECK_INT(a->last_code, 0);
    CHECK(strstr(rig_show(&rig, &arena, "job"), "\"ownerName\":{\"S\":\"carol\"}"));
    struct hf_job renewal = {0};
    rig_run(&rig, 1000);
    hf__core_ensure(a->core, a->last_grant, 2900, &renewal, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->last_job, 0);
    CHECK(strstr(rig_show(&rig, &arena, "job"), "carol"));
    rig_release(&rig, 0, a->last_grant);
    rig_settle(&rig);
    CHECK_INT(a->last_reason, HF_REASON_RELEASED);
    CHECK_STR(rig_show(&rig, &arena, "job"), "");
    want((struct hf_want){.name = HF_LIT("job"), .lease_ms = 3000, .owner = HF_LIT("dave")});
    want((struct hf_want){.name = HF_LIT("job")});
    CHECK_INT(a->last_code, HF_ERR_HELD);
    CHECK(strstr(a->last_error.message, "dave"));
    rig_run(&rig, 3000);
    CHECK_INT(a->last_reason, HF_REASON_EXPIRED);
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(a_grant_that_others_renewed_is_not_given_back)
{
    struct hf_arena arena = {0};
    start(NULL);
    want((struct hf_want){.name = HF_LIT("job"), .lease_ms = 3000});
    const char *item = rig_show(&rig, &arena, "job");
    char renewed[2048];
    const char *version = strstr(item, "\"version\":{\"N\":\"1\"}");
    CHECK(version);
    snprintf(renewed, sizeof renewed, "%.*s\"version\":{\"N\":\"2\"}%s", (int)(version - item),
             item, version + strlen("\"version\":{\"N\":\"1\"}"));
    rig_put(&rig, "job", renewed); /* by its grant, through another process */
    rig_run(&rig, 3000);
    CHECK_INT(a->finals, 1);
    CHECK(strstr(rig_show(&rig, &arena, "job"), "\"grant\""));
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(a_release_elsewhere_is_noticed_when_somebody_asks)
{
    start(NULL);
    want((struct hf_want){.name = HF_LIT("job"), .lease_ms = 60000});
    rig_put(&rig, "job", NULL);
    want((struct hf_want){.name = HF_LIT("job")});
    CHECK_INT(a->last_code, 0); /* the store is asked, not what is remembered */
    rig_free(&rig);
}

TEST(a_lock_that_comes_while_its_session_is_closed_is_given_back)
{
    struct hf_job opening = {0}, closing = {0};
    struct hf_attempt *attempt;
    start(NULL);
    struct hf_lease *session = open_session(&opening, 60000);
    struct hf_want given = {.name = HF_LIT("job"), .timeout_ms = 5000, .session = session};
    CHECK_INT(hf__core_acquire(a->core, &given, rig.now_us, &attempt, NULL), 0);
    hf__core_session_close(a->core, session, &closing, rig.now_us); /* its write is on the way */
    rig_run(&rig, 5000);
    CHECK(a->last_code != 0);
    CHECK_INT(a->last_job, 0);
    CHECK_INT(try_as_other("job"), 0);
    rig_free(&rig);
}

TEST(a_session_can_be_taken_up_elsewhere_even_if_opening_it_is_the_first_request)
{
    struct hf_job opening = {0}, adopting = {0};
    struct hf_lease *session, *adopted;
    start_unheard(NULL);
    session = open_session(&opening, 3000);
    CHECK_INT(a->requests[HF_REQUEST_SESSION], 1);
    CHECK(session->expires_unix_ms > 0 || session->pending_expires_unix_ms > 0);
    CHECK_INT(hf__core_session_adopt(b->core, &session->id, HF_LIT("alice"), &adopting, rig.now_us,
                                     &adopted, NULL),
              0);
    rig_settle(&rig);
    CHECK_INT(b->last_job, 0);
    CHECK(adopted->valid_until_us > rig.now_us + 2900 * 1000);
    hf__lease_unref(b->core, adopted);
    rig_free(&rig);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_session_that_nobody_renews_takes_its_locks_along),
        RUN(one_request_renews_any_number_of_locks),
        RUN(closing_releases_and_hands_over),
        RUN(readers_of_several_sessions_share_and_a_semaphore_counts_them),
        RUN(an_ended_session_takes_no_more_locks),
        RUN(what_is_left_stays_held_until_its_lease_ends),
        RUN(a_job_of_a_session_ends_also_when_the_client_does),
        RUN(whose_it_is_stands_in_the_record_and_in_what_is_asked_of_it),
        RUN(a_grant_that_others_renewed_is_not_given_back),
        RUN(a_release_elsewhere_is_noticed_when_somebody_asks),
        RUN(a_lock_that_comes_while_its_session_is_closed_is_given_back),
        RUN(a_session_can_be_taken_up_elsewhere_even_if_opening_it_is_the_first_request),
    };
    return RUN_TESTS(tests);
}
