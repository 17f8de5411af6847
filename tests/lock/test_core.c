/* The protocol in virtual time. */
#include "harness/model.h"
#include "harness/rig.h"

static struct rig rig;
static struct rig_client *const a = &rig.clients[0], *const b = &rig.clients[1];

static struct hf_core_options with_session(void)
{
    struct hf_core_options options = rig_defaults();
    options.session = HF_USE_SESSION_ALWAYS;
    return options;
}

/* Two clients that have heard of the store's time. */
static void start(const struct hf_core_options *first, const struct hf_core_options *second)
{
    rig_init(&rig);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(rig_add(&rig, i ? second : first), i);
        CHECK_INT(rig_acquire(&rig, i, "warm-up", 0, 0), 0);
        rig_settle(&rig);
        rig_release(&rig, i, rig.clients[i].last_grant);
        rig_settle(&rig);
        rig_forget_counts(&rig, i);
        rig.clients[i].finals = 0;
    }
}

static struct hf_grant *take(int client, const char *name, int64_t limit)
{
    CHECK_INT(rig_acquire(&rig, client, name, 0, limit), 0);
    rig_settle(&rig);
    CHECK_INT(rig.clients[client].last_code, 0);
    return rig.clients[client].last_grant;
}

/* ---- what it costs ---- */

TEST(a_free_lock_costs_one_request_and_its_release_another)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(a->total, 1);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(a->total, 2);
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->last_reason, HF_REASON_RELEASED);
    rig_free(&rig);
}

TEST(the_same_with_a_session_that_lives)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(a->total, 2);
    rig_free(&rig);
}

TEST(ten_thousand_locks_cost_one_request_per_period)
{
    enum { LOCKS = 10000, PERIODS = 40 };
    struct hf_core_options options = with_session();
    start(&options, NULL);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "customer/%d", i);
        take(0, name, 0);
    }
    CHECK_INT(a->total, LOCKS);
    rig_forget_counts(&rig, 0);
    rig_run(&rig, PERIODS * options.period_ms);
    CHECK_INT(a->requests[HF_REQUEST_RENEW], PERIODS);
    /* Beside it, one record is read again every eight periods. */
    CHECK_INT(a->total - a->requests[HF_REQUEST_RENEW], PERIODS / 8);
    CHECK_INT(a->finals, 0);
    rig_free(&rig);
    CHECK_INT(a->finals, LOCKS);
}

TEST(an_own_lease_costs_one_request_per_period)
{
    start(NULL, NULL);
    take(0, "job", 0);
    rig_forget_counts(&rig, 0);
    rig_run(&rig, 25000);
    CHECK_INT(a->total, 10);
    rig_free(&rig);
}

TEST(who_waits_for_somebody_here_asks_the_store_nothing)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 0, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 2000);
    CHECK_INT(a->total, 1);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->total, 3); /* the release and the next one's try: no poll */
    rig_free(&rig);
}

TEST(those_who_wait_here_are_served_in_their_order)
{
    enum { WAITERS = 20 };
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    int order[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        struct hf_want want = {.name = HF_LIT("job"), .timeout_ms = HF_NEVER, .user = &order[i]};
        struct hf_attempt *attempt;
        CHECK_INT(hf__core_acquire(a->core, &want, rig.now_us, &attempt, NULL), 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        rig_release(&rig, 0, grant);
        rig_settle(&rig);
        grant = a->last_grant;
        CHECK(grant->user == &order[i]);
    }
    rig_free(&rig);
}

static size_t requests_of(const struct hf_core *core)
{
    size_t count = 0;
    for (const struct hf_list *at = core->requests.next; at != &core->requests; at = at->next)
        count++;
    return count;
}

/* Both are in one commit then: a handover costs one, not two. */
TEST(on_an_ordered_store_the_next_try_follows_a_release_at_once)
{
    struct hf_core_options options = rig_defaults();
    options.by_grant = options.ordered = true;
    start(&options, &options);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 0, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 5);
    rig_forget_counts(&rig, 0);
    rig_release(&rig, 0, grant);
    CHECK_INT(requests_of(a->core), 2);
    rig_settle(&rig);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->total, 2);
    /* Whoever only tries is not sent after a release that may yet fail. */
    CHECK_INT(rig_acquire(&rig, 0, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, HF_ERR_HELD);
    rig_free(&rig);
}

/* ---- time ---- */

TEST(a_lease_is_lost_in_time_and_only_once)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    a->cut_off = true;
    CHECK_INT(hf__grant_left_us(grant, rig.now_us), 9900000); /* less the margin */
    rig_run(&rig, 5999);
    CHECK_INT(a->warnings, 0);
    rig_run(&rig, 1);
    CHECK_INT(a->warnings, 1);
    rig_run(&rig, 3899);
    CHECK_INT(a->finals, 0);
    rig_run(&rig, 1);
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->last_reason, HF_REASON_UNREACHABLE);
    rig_run(&rig, 60000);
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->warnings, 1);
    rig_free(&rig);
}

TEST(who_sleeps_through_the_end_is_told_on_waking)
{
    start(NULL, NULL);
    take(0, "job", 0);
    rig.now_us += 3600 * (int64_t)1000000; /* nothing ran for an hour */
    rig_run(&rig, 0);
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->last_reason, HF_REASON_EXPIRED);
    rig_free(&rig);
}

TEST(a_confirmation_that_comes_after_the_end_revives_nothing)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    rig.now_us += 2500000;
    hf__core_tick(a->core, rig.now_us);
    struct hf_request *renewal = hf__core_next_request(a->core);
    CHECK(renewal && renewal->kind == HF_REQUEST_RENEW);
    rig.now_us += 7400000;
    CHECK_INT(hf__grant_left_us(grant, rig.now_us), 0);
    struct hf_answer good = {.received_boot_us = rig.now_us};
    hf__core_answer(a->core, renewal, &good, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->finals, 1);
    CHECK_INT(a->last_reason, HF_REASON_EXPIRED);
    rig_free(&rig);
}

TEST(a_dead_holder_is_found_by_observation_after_its_whole_lease)
{
    struct hf_core_options options = rig_defaults();
    options.judge = HF_JUDGE_OBSERVED;
    start(NULL, &options);
    take(0, "job", 0);
    a->dead = true;
    rig_run(&rig, 3000);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 9999);
    CHECK_INT(b->last_code, 1);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(a_dead_holder_is_found_by_the_stores_clock_without_waiting_a_lease)
{
    start(NULL, NULL);
    take(0, "job", 0);
    a->dead = true;
    rig_run(&rig, 20000);
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0); /* a try, and the first one */
    rig_settle(&rig);
    CHECK_INT(b->last_code, 0);
    CHECK_INT(b->total, 2);
    rig_free(&rig);
}

TEST(observations_outlive_attempts)
{
    struct hf_core_options options = rig_defaults();
    options.judge = HF_JUDGE_OBSERVED;
    start(NULL, &options);
    take(0, "job", 0);
    a->dead = true;
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, HF_ERR_HELD);
    rig_run(&rig, 10000);
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(a_dead_sessions_locks_are_all_free_once_it_is_ended)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    take(0, "one", 0);
    take(0, "two", 0);
    a->dead = true;
    rig_run(&rig, 20000);
    CHECK_INT(rig_acquire(&rig, 1, "one", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, 0);
    rig_forget_counts(&rig, 1);
    CHECK_INT(rig_acquire(&rig, 1, "two", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, 0);
    CHECK_INT(b->total, 3); /* try, the session is gone, take over */
    a->dead = false;
    rig_run(&rig, 100);
    CHECK_INT(a->finals, 2);
    rig_free(&rig);
}

/* ---- meddling ---- */

TEST(a_record_that_is_deleted_by_hand_is_noticed)
{
    const struct hf_core_options kinds[] = {rig_defaults(), with_session()};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        start(&kinds[i], NULL);
        take(0, "job", 0);
        rig_put(&rig, "job", NULL);
        rig_run(&rig, 10000);
        CHECK_INT(a->finals, 1);
        CHECK_INT(a->last_reason, HF_REASON_DELETED);
        rig_free(&rig);
    }
}

TEST(a_store_that_was_taken_away_is_noticed_at_the_next_renewal)
{
    const struct hf_core_options kinds[] = {rig_defaults(), with_session()};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        start(&kinds[i], NULL);
        take(0, "job", 0);
        a->bereft = true;
        rig_run(&rig, 3000); /* a period is 2.5 s, the lease 10 s */
        CHECK_INT(a->finals, 1);
        CHECK_INT(a->last_reason, HF_REASON_STORE_LOST);
        CHECK_STR(a->last_detail, "the file was deleted");
        rig_free(&rig);
    }
}

TEST(what_makes_no_sense_is_never_taken_from_anybody)
{
    static const char *const items[] = {
        "{\"grant\":{\"N\":\"1\"}}",
        "{\"grant\":{\"S\":\"\"}}",
        "{\"grant\":{\"S\":\"g\"}}",
        "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1\"}}",
        "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1\"},\"lease\":{\"N\":\"0\"}}",
        "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1\"},\"lease\":{\"N\":\"1E50\"}}",
        "{\"grant\":{\"S\":\"g\"},\"version\":{\"S\":\"1\"},\"lease\":{\"N\":\"1000\"}}",
        "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1.5\"},\"lease\":{\"N\":\"1000\"}}",
        "{\"grant\":{\"S\":\"g\"},\"session\":{\"S\":\"short\"}}",
        "{\"grant\":{\"S\":\"g\"},\"session\":{\"N\":\"5\"}}",
        "{\"grant\":{\"S\":\"g\"},\"holders\":{\"SS\":[\"x\"]}}",
        "{\"holders\":{\"S\":\"x\"}}",
        "{\"holders\":{\"SS\":[\"x\"]}}",
        "{\"holders\":{\"L\":[]},\"limit\":{\"N\":\"3\"}}",
    };
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        for (int64_t limit = 0; limit <= 3; limit += 3) {
            hf_test_note("row %zu, limit %lld", i, (long long)limit);
            struct hf_arena arena = {0};
            start(NULL, NULL);
            rig_put(&rig, "job", items[i]);
            const char *before = rig_show(&rig, &arena, "job");
            CHECK_INT(rig_acquire(&rig, 1, "job", 100000, limit), 0);
            rig_run(&rig, 100001);
            CHECK(b->last_code < 0);
            CHECK_STR(rig_show(&rig, &arena, "job"), before);
            rig_free(&rig);
            hf__arena_free(&arena);
        }
    }
}

TEST(the_attribute_that_makes_no_sense_is_named)
{
    static const struct {
        const struct hf_format *format;
        const char *item, *attribute;
    } rows[] = {
        {&hf__format_holdfast, "{\"grant\":{\"N\":\"1\"}}", "grant"},
        {&hf__format_holdfast, "{\"grant\":{\"S\":\"g\"}}", "version"},
        {&hf__format_holdfast, "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1\"}}", "lease"},
        {&hf__format_holdfast, "{\"grant\":{\"S\":\"g\"},\"session\":{\"N\":\"5\"}}", "session"},
        {&hf__format_holdfast, "{\"holders\":{\"S\":\"x\"}}", "holders"},
        {&hf__format_awslabs, "{\"isReleased\":{\"S\":\"2\"}}", "isReleased"},
        {&hf__format_awslabs, "{\"ownerName\":{\"S\":\"x\"}}", "recordVersionNumber"},
        {&hf__format_dynamolock,
         "{\"recordVersionNumber\":{\"S\":\"v\"},\"leaseDuration\":{\"N\":\"5\"}}",
         "leaseDuration"},
        {&hf__format_dlock, "{\"until\":{\"S\":\"1\"}}", "until"},
        {&hf__format_dlock, "{\"until\":{\"N\":\"9999999999999\"}}", "owner"},
        {&hf__format_fail_open, "{\"guid\":{\"S\":\"x\"}}", "guid"},
        {&hf__format_fail_open, "{\"guid\":{\"B\":\"AAAA\"}}", "leaseDurationMs"},
        {&hf__format_fail_open, "{\"guid\":{\"B\":\"AAAA\"},\"leaseDurationMs\":{\"N\":\"9\"}}",
         "fencingToken"},
        {&hf__format_fail_closed, "{\"owner\":{\"S\":\"x\"}}", "guid"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hf_test_note("row %zu", i);
        struct hf_core_options options = rig_defaults();
        options.format = rows[i].format;
        options.session = HF_USE_SESSION_NEVER;
        start(&options, NULL);
        rig_put(&rig, "job", rows[i].item);
        CHECK_INT(rig_acquire(&rig, 0, "job", 0, 0), 0);
        rig_run(&rig, 1000);
        CHECK_INT(a->last_code, HF_ERR_HELD);
        char expected[64];
        snprintf(expected, sizeof expected, "(attribute \"%s\")", rows[i].attribute);
        if (!strstr(a->last_error.message, expected) || !strstr(a->last_error.message, "\"job\""))
            hf_test_fail(__FILE__, __LINE__, "\"%s\" does not name %s", a->last_error.message,
                         rows[i].attribute);
        rig_free(&rig);
    }
}

TEST(a_member_that_makes_no_sense_stays_inside)
{
    start(NULL, NULL);
    rig_put(&rig, "job", "{\"holders\":{\"SS\":[\"x\"]},\"limit\":{\"N\":\"2\"}}");
    take(1, "job", 2);
    rig_run(&rig, 30000);
    CHECK_INT(b->finals, 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", 60000, 2), 0);
    rig_run(&rig, 60001);
    CHECK_INT(b->last_code, HF_ERR_TIMED_OUT);
    CHECK_INT(rig_acquire(&rig, 1, "job", 60000, 0), 0);
    rig_run(&rig, 60001);
    CHECK_INT(b->last_code, HF_ERR_TIMED_OUT);
    struct hf_arena arena = {0};
    CHECK(strstr(rig_show(&rig, &arena, "job"), "\"x\""));
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(an_expiry_that_makes_no_sense_is_none)
{
    start(NULL, NULL);
    rig_put(&rig, "job",
            "{\"grant\":{\"S\":\"g\"},\"version\":{\"N\":\"1\"},\"lease\":{\"N\":\"5000\"},"
            "\"expires\":{\"N\":\"-7\"}}");
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 4999);
    CHECK_INT(b->last_code, 1);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(an_orphan_of_a_live_session_is_given_back_when_asked_for)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    struct hf_arena arena = {0};
    struct hf_slice session = hf__id_text(&arena, &grant->lease->id);
    char orphan[256];
    snprintf(orphan, sizeof orphan,
             "{\"grant\":{\"S\":\"0123456789abcdef0123456789abcdef\"},\"session\":{\"S\":\"%.*s\"},"
             "\"token\":{\"N\":\"9\"}}",
             HF_FMT(session));
    rig_put(&rig, "lost", orphan);
    CHECK_INT(rig_acquire(&rig, 1, "lost", HF_NEVER, 0), 0);
    rig_run(&rig, 15000); /* asked after a lease, given back within a period */
    CHECK_INT(b->last_code, 0);
    CHECK_INT(a->finals, 0);
    CHECK(!strstr(rig_show(&rig, &arena, "holdfast:session:none"), "asked"));
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(ones_own_orphan_is_taken_at_once)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    struct hf_arena arena = {0};
    struct hf_slice session = hf__id_text(&arena, &grant->lease->id);
    char orphan[256];
    snprintf(
        orphan, sizeof orphan,
        "{\"grant\":{\"S\":\"0123456789abcdef0123456789abcdef\"},\"session\":{\"S\":\"%.*s\"}}",
        HF_FMT(session));
    rig_put(&rig, "lost", orphan);
    take(0, "lost", 0);
    hf__arena_free(&arena);
    rig_free(&rig);
}

/* ---- other formats ---- */

TEST(what_lives_by_clocks_is_not_written_before_one_is_known)
{
    struct hf_core_options options = rig_defaults();
    options.format = &hf__format_fail_open;
    options.layout.trust_clock = true;
    rig_init(&rig);
    CHECK_INT(rig_add(&rig, &options), 0);
    CHECK_INT(rig_acquire(&rig, 0, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, 0);
    struct hf_arena arena = {0};
    CHECK(strstr(rig_show(&rig, &arena, "job"), "lockAcquiredTimeUnixMs"));
    hf__arena_free(&arena);
    rig_free(&rig);
    /* A store without a clock is no place for such locks. */
    rig_init(&rig);
    rig.timeless = true;
    CHECK_INT(rig_add(&rig, &options), 0);
    CHECK_INT(rig_acquire(&rig, 0, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, HF_ERR_UNSUPPORTED);
    rig_free(&rig);
}

TEST(a_record_that_shows_a_holder_is_no_licence_to_take_it)
{
    struct hf_core_options options = rig_defaults();
    options.format = &hf__format_fail_open;
    start(&options, &options);
    take(0, "job", 0);
    /* Two wait; one gives up, which makes the other try without looking. */
    CHECK_INT(rig_acquire(&rig, 1, "job", 3000, 0), 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 9000);
    CHECK_INT(b->core->grant_count, 0);
    CHECK_INT(a->finals, 0);
    rig_free(&rig);
}

/* ---- answers that get lost ---- */

TEST(a_grant_whose_answer_was_lost_is_recognized)
{
    start(NULL, NULL);
    CHECK_INT(rig_acquire(&rig, 0, "job", 5000, 0), 0);
    int64_t sent_us = rig.now_us;
    /* It lands; the answer does not. */
    struct hf_request *request = hf__core_next_request(a->core);
    CHECK_INT(request->kind, HF_REQUEST_TRY);
    struct hf_arena arena = {0};
    struct hf_item item;
    CHECK_INT(hf__update_apply(&arena, request->op.update, request->op.key, &item, NULL), 0);
    rig_put(&rig, "job", hf_test_show(&arena, item));
    rig.now_us += 1000000;
    struct hf_answer lost = {.received_boot_us = rig.now_us};
    lost.code = hf__error_set(&lost.error, HF_ERR_OUTCOME_UNKNOWN, "lost");
    hf__core_answer(a->core, request, &lost, rig.now_us);
    rig_run(&rig, 500);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->last_grant->lease->valid_until_us, sent_us + 9900000);
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(a_cancelled_attempt_gives_back_what_it_got)
{
    start(NULL, NULL);
    struct hf_want want = {.name = HF_LIT("job"), .timeout_ms = HF_NEVER};
    struct hf_attempt *attempt;
    CHECK_INT(hf__core_acquire(a->core, &want, rig.now_us, &attempt, NULL), 0);
    hf__core_cancel(a->core, attempt, rig.now_us); /* the try is on its way */
    rig_settle(&rig);
    CHECK_INT(a->last_code, HF_ERR_CANCELLED);
    take(1, "job", 0);
    CHECK_INT(a->finals, 0);
    rig_free(&rig);
}

TEST(what_awslabs_and_fail_open_give_back_is_free_at_once)
{
    const struct hf_format *formats[] = {&hf__format_awslabs, &hf__format_fail_open};
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        struct hf_core_options options = rig_defaults();
        options.format = formats[i];
        options.session = HF_USE_SESSION_NEVER;
        start(&options, &options);
        struct hf_want want = {.name = HF_LIT("job"), .timeout_ms = HF_NEVER};
        struct hf_attempt *attempt;
        CHECK_INT(hf__core_acquire(a->core, &want, rig.now_us, &attempt, NULL), 0);
        hf__core_cancel(a->core, attempt, rig.now_us);
        rig_settle(&rig);
        take(1, "job", 0);
        rig_free(&rig);
    }
}

TEST(a_lock_may_outlive_an_outage_if_asked_to)
{
    for (int hold = 0; hold < 2; hold++) {
        struct hf_core_options options = rig_defaults();
        options.format = &hf__format_awslabs;
        options.session = HF_USE_SESSION_NEVER;
        options.hold_on_unavailable = hold;
        start(&options, NULL);
        take(0, "job", 0);
        a->turned_away = true;
        rig_run(&rig, 60000);
        CHECK_INT(a->finals, hold ? 0 : 1);
        a->turned_away = false;
        rig_run(&rig, 60000);
        CHECK_INT(a->finals, hold ? 0 : 1);
        a->cut_off = true; /* no answer at all is no outage that anybody vouches for */
        rig_run(&rig, 60000);
        CHECK_INT(a->finals, 1);
        rig_free(&rig);
    }
}

TEST(readers_of_fail_open_look_like_one_lock)
{
    struct hf_core_options options = rig_defaults();
    options.format = &hf__format_fail_open;
    options.session = HF_USE_SESSION_NEVER;
    start(&options, &options);
    struct hf_arena arena = {0};
    struct hf_grant *first = take(0, "job", HF_READERS_LIMIT);
    struct hf_grant *second = take(1, "job", HF_READERS_LIMIT);
    CHECK_INT(first->token, 1);
    CHECK_INT(second->token, 2);
    rig_run(&rig, 60000); /* each keeps its own lease */
    CHECK_INT(a->finals + b->finals, 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, HF_ERR_HELD);
    rig_release(&rig, 0, first);
    rig_settle(&rig);
    CHECK(strstr(rig_show(&rig, &arena, "job"), "\"leaseDurationMs\":{\"N\":\"10000\"}"));
    rig_release(&rig, 1, second);
    rig_settle(&rig);
    const char *left = rig_show(&rig, &arena, "job");
    CHECK(strstr(left, "\"leaseDurationMs\":{\"N\":\"1\"}"));
    CHECK(!strstr(left, "readers"));
    CHECK_INT(take(0, "job", 0)->token, 3);
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(a_writer_of_fail_open_waits_for_the_last_reader)
{
    struct hf_core_options options = rig_defaults();
    options.format = &hf__format_fail_open;
    options.session = HF_USE_SESSION_NEVER;
    start(&options, &options);
    take(0, "job", HF_READERS_LIMIT);
    a->dead = true;
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 9000);
    CHECK_INT(b->last_code, 1); /* none yet */
    rig_run(&rig, 3000);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(a_store_that_does_not_answer_is_an_error_of_its_own)
{
    start(NULL, NULL);
    b->cut_off = true;
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_run(&rig, 10000);
    CHECK_INT(b->last_code, HF_ERR_OUTCOME_UNKNOWN);
    CHECK_INT(rig_acquire(&rig, 1, "job", 3000, 0), 0);
    rig_run(&rig, 10000);
    CHECK_INT(b->last_code, HF_ERR_OUTCOME_UNKNOWN);
    rig_free(&rig);
}

static struct hf_attempt *wait_and_report(int client, const char *name, int64_t timeout_ms)
{
    const struct hf_want want = {
        .name = hf__slice_str(name), .timeout_ms = timeout_ms, .reports = true};
    struct hf_attempt *attempt = NULL;
    struct rig_client *at = &rig.clients[client];
    at->last_code = 1;
    CHECK_INT(hf__core_acquire(at->core, &want, rig.now_us, &attempt, NULL), 0);
    return attempt;
}

TEST(a_wait_reports_how_it_stands)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    wait_and_report(1, "job", HF_NEVER);
    rig_settle(&rig);
    CHECK_INT(b->last_report.holders, 1);
    CHECK_STR(b->last_owner, "tester");
    CHECK_INT(b->last_report.since_unix_ms, grant->since_unix_ms);
    CHECK_INT(b->last_report.ahead, 0);
    CHECK(!b->last_report.error);
    /* The holder's renewals are told; a look that finds nothing new is not. */
    unsigned before = b->reports;
    rig_run(&rig, 2000);
    CHECK_INT(b->reports, before);
    rig_run(&rig, 8000);
    CHECK(b->reports > before && b->reports <= before + 4);
    rig_release(&rig, 0, grant);
    rig_run(&rig, 2000);
    CHECK_INT(b->last_code, 0);
    before = b->reports;
    rig_run(&rig, 10000);
    CHECK_INT(b->reports, before); /* nothing after the result */
    rig_free(&rig);
}

TEST(a_wait_reports_its_place)
{
    start(NULL, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 0, "job", HF_NEVER, 0), 0);
    wait_and_report(0, "job", HF_NEVER);
    rig_settle(&rig);
    CHECK_INT(a->last_report.ahead, 1);
    CHECK_STR(a->last_owner, "tester"); /* held here: known without a look */
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(a->last_report.ahead, 0);
    rig_free(&rig);
}

TEST(a_wait_reports_that_the_store_is_silent_and_that_it_answers_again)
{
    start(NULL, NULL);
    take(0, "job", 0);
    wait_and_report(1, "job", HF_NEVER);
    rig_settle(&rig);
    b->cut_off = true;
    rig_run(&rig, 20000);
    CHECK(b->last_report.failures > 3);
    CHECK(b->last_report.error && b->last_report.error->code == HF_ERR_OUTCOME_UNKNOWN);
    CHECK(b->last_report.silent_us > 10000000);
    b->cut_off = false;
    rig_run(&rig, 3000);
    CHECK_INT(b->last_report.failures, 0);
    CHECK_INT(b->last_report.silent_us, 0);
    CHECK(!b->last_report.error);
    CHECK_INT(b->last_code, 1); /* an outage does not end a wait */
    rig_free(&rig);
}

TEST(a_store_that_never_answers_in_time_is_not_called_a_holder)
{
    start(NULL, NULL);
    b->dead = true; /* its requests are not even answered */
    wait_and_report(1, "job", 1000);
    rig_run(&rig, 500);
    hf__core_tick(b->core, rig.now_us + 600000);
    struct hf_attempt *attempt = hf__core_next_finished(b->core);
    CHECK(attempt);
    CHECK_INT(attempt->code, HF_ERR_UNREACHABLE);
    hf__attempt_free(b->core, attempt);
    rig_free(&rig);
}

TEST(a_hint_saves_a_poll)
{
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    options.poll_limit_ms = 100;
    options.period_ms = 0; /* renewals that nobody hints at would be noticed */
    options.lease_ms = 1000000;
    start(&options, &options);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 9000);
    rig_forget_counts(&rig, 1);
    rig_run(&rig, 10000);
    CHECK(b->total < 40); /* without hints a hundred or two */
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    CHECK_INT(b->last_code, 1);
    hf__core_hint(b->core, 0, rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(a_hint_about_one_lock_is_for_its_waiters)
{
    struct hf_core_options options = rig_defaults();
    options.poll_limit_ms = 600000;
    options.period_ms = 0;
    options.lease_ms = 10000000;
    start(&options, &options);
    struct hf_grant *grants[] = {take(0, "one", 0), take(0, "two", 0)};
    CHECK_INT(rig_acquire(&rig, 1, "one", HF_NEVER, 0), 0);
    CHECK_INT(rig_acquire(&rig, 1, "two", HF_NEVER, 0), 0);
    rig_run(&rig, 3000000); /* they poll once in minutes by now */
    rig_release(&rig, 0, grants[0]);
    rig_settle(&rig);
    rig_forget_counts(&rig, 1);
    hf__core_hint_name(b->core, HF_LIT("two"), rig.now_us);
    hf__core_hint_name(b->core, HF_LIT("three"), rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->total, 1); /* of the one that waits for it */
    CHECK_INT(b->last_code, 1);
    hf__core_hint_name(b->core, HF_LIT("one"), rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

/* ---- turns ---- */

static bool first_in_line;
static int in_line;

static int64_t join_line(void *user, struct hf_slice name, int64_t since_us)
{
    (void)user, (void)name;
    in_line++;
    return since_us;
}

static void leave_line(void *user, int64_t place)
{
    (void)user, (void)place;
    in_line--;
}

static bool is_first_in_line(void *user, struct hf_slice name, int64_t place)
{
    (void)user, (void)name, (void)place;
    return first_in_line;
}

static void start_in_line(bool is_first)
{
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    options.poll_limit_ms = 60000;
    options.period_ms = 0;
    options.lease_ms = 1000000;
    start(&options, NULL);
    b->core->options.hints = true;
    b->core->options.poll_limit_ms = 60000;
    b->core->options.line =
        (struct hf_line){.join = join_line, .leave = leave_line, .is_first = is_first_in_line};
    first_in_line = is_first;
    in_line = 0;
}

TEST(an_attempt_that_is_not_first_in_line_lets_others_go_ahead)
{
    start_in_line(false);
    rig_forget_counts(&rig, 1);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 50);
    CHECK_INT(b->last_code, 1);
    CHECK_INT(b->requests[HF_REQUEST_TRY], 0);
    CHECK_INT(in_line, 1);
    first_in_line = true;
    hf__core_hint(b->core, 0, rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    CHECK_INT(in_line, 0);
    rig_free(&rig);
}

TEST(who_is_first_in_line_tries_for_what_is_being_freed_without_looking)
{
    start_in_line(true);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 500);
    rig_forget_counts(&rig, 1);
    hf__core_hint(b->core, hf__name_hash(HF_LIT("other")), rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->total, 0);
    hf__core_hint(b->core, hf__name_hash(HF_LIT("job")), rig.now_us); /* too early */
    rig_run(&rig, 2);
    CHECK_INT(b->requests[HF_REQUEST_TRY], 1);
    CHECK_INT(b->last_code, 1);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    rig_run(&rig, 20);
    rig_forget_counts(&rig, 1);
    first_in_line = false;
    hf__core_hint(b->core, hf__name_hash(HF_LIT("job")), rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->total, 0); /* whoever is first tries */
    first_in_line = true;
    hf__core_hint(b->core, hf__name_hash(HF_LIT("job")), rig.now_us);
    rig_run(&rig, 2);
    CHECK_INT(b->last_code, 0);
    CHECK_INT(b->requests[HF_REQUEST_READ], 0);
    CHECK_INT(b->requests[HF_REQUEST_TRY], 1);
    rig_free(&rig);
}

TEST(an_attempt_does_not_wait_long_for_those_ahead)
{
    start_in_line(false);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 110); /* they are stopped, or wait for something else */
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(an_attempt_with_little_time_tries_before_it_ends)
{
    start_in_line(false);
    CHECK_INT(rig_acquire(&rig, 1, "job", 20, 0), 0);
    rig_run(&rig, 30);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(an_attempt_that_does_not_wait_takes_what_is_free)
{
    start_in_line(false);
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, 0);
    CHECK_INT(in_line, 0);
    rig_free(&rig);
}

TEST(a_cancelled_wait_leaves_the_line)
{
    start_in_line(true);
    struct hf_attempt *attempt;
    take(0, "job", 0);
    const struct hf_want want = {.name = HF_LIT("job"), .timeout_ms = HF_NEVER};
    CHECK_INT(hf__core_acquire(b->core, &want, rig.now_us, &attempt, NULL), 0);
    rig_settle(&rig);
    CHECK_INT(in_line, 1);
    hf__core_cancel(b->core, attempt, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(in_line, 0);
    rig_free(&rig);
}

TEST(a_hint_reaches_a_crowd_in_turns)
{
    enum { CROWD = 300 };
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    options.poll_limit_ms = 60000;
    options.period_ms = 0; /* nothing but the release changes anything */
    options.lease_ms = 1000000;
    start(&options, &options);
    struct hf_grant *grants[CROWD];
    for (int i = 0; i < CROWD; i++) {
        char name[32];
        snprintf(name, sizeof name, "job-%d", i);
        grants[i] = take(0, name, 0);
        CHECK_INT(rig_acquire(&rig, 1, name, HF_NEVER, 0), 0);
        rig_settle(&rig);
    }
    rig_run(&rig, 200000); /* all of them poll once in minutes by now */
    for (int i = 0; i < CROWD; i += 37) {
        unsigned before = b->finished;
        rig_release(&rig, 0, grants[i]);
        rig_settle(&rig);
        hf__core_hint(b->core, 0, rig.now_us); /* one, and no more */
        rig_run(&rig, 1000);
        CHECK_INT(b->finished, before + 1);
    }
    rig_free(&rig);
}

TEST(a_hint_that_comes_while_a_request_is_out_is_not_forgotten)
{
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    options.poll_limit_ms = 60000;
    start(NULL, &options);
    struct hf_grant *grant = take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 60000);
    b->dead = true; /* its request is sent, and its answer, of before the release, is on its way */
    hf__core_hint(b->core, 0, rig.now_us);
    hf__core_tick(b->core, rig.now_us + 1000);
    struct hf_request *request = hf__core_next_request(b->core);
    CHECK(request && request->kind == HF_REQUEST_READ);
    struct hf_answer answer = {.received_boot_us = rig.now_us + 1000, .has_item = true};
    const char *record = rig_show(&rig, &request->arena, "job");
    answer.item = hf_test_item(&request->arena, record);
    rig_release(&rig, 0, grant);
    rig_settle(&rig);
    rig.now_us += 2000;
    hf__core_hint(b->core, 0, rig.now_us);
    hf__core_answer(b->core, request, &answer, rig.now_us);
    b->dead = false;
    CHECK_INT(b->last_code, 1);
    rig_run(&rig, 50);
    CHECK_INT(b->last_code, 0);
    rig_free(&rig);
}

TEST(who_finds_a_change_that_no_hint_announced_polls_as_ever)
{
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    options.poll_limit_ms = 100;
    start(NULL, &options); /* a renews every 2.5 s, and nobody says so */
    take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 10000);
    rig_forget_counts(&rig, 1);
    rig_run(&rig, 10000);
    CHECK(b->total > 80);
    rig_free(&rig);
}

TEST(a_hint_does_not_take_away_the_deadline_of_who_waits_for_a_session)
{
    struct hf_core_options options = with_session();
    options.hints = true;
    start(&options, &options);
    take(0, "doc", 0);
    CHECK_INT(rig_acquire(&rig, 1, "doc", 60000, HF_READERS_LIMIT), 0);
    b->cut_off = true;
    for (int i = 0; i < 700; i++) {
        rig_run(&rig, 100);
        hf__core_hint(b->core, 0, rig.now_us);
    }
    rig_settle(&rig);
    CHECK(b->last_code != 1);
    CHECK(b->last_code != HF_ERR_TIMED_OUT); /* nobody has said that it is held */
    rig_free(&rig);
}

TEST(silence_is_counted_from_the_request_that_failed)
{
    start(NULL, NULL);
    take(0, "job", 0);
    wait_and_report(1, "job", HF_NEVER);
    rig_settle(&rig);
    b->dead = true; /* stopped, as a laptop is */
    rig_run(&rig, 100000);
    b->dead = false;
    b->cut_off = true;
    rig_run(&rig, 5);
    CHECK(b->last_report.failures >= 1);
    CHECK(b->last_report.silent_us < 1000000);
    rig_free(&rig);
}

/* A file that others are busy with is not read at every commit. */
TEST(hints_for_nothing_cost_little)
{
    struct hf_core_options options = rig_defaults();
    options.hints = true;
    start(NULL, &options);
    take(0, "job", 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", HF_NEVER, 0), 0);
    rig_run(&rig, 1000);
    rig_forget_counts(&rig, 1);
    for (int i = 0; i < 1000; i++) {
        hf__core_hint(b->core, 0, rig.now_us);
        rig_run(&rig, 1);
    }
    CHECK(b->total > 20 && b->total < 80);
    rig_free(&rig);
}

TEST(an_intent_stays_as_long_as_the_wait)
{
    struct hf_core_options options = with_session();
    start(&options, &options);
    take(0, "doc", HF_READERS_LIMIT);
    wait_and_report(1, "doc", HF_NEVER);
    rig_run(&rig, 5000);
    unsigned intents = b->requests[HF_REQUEST_INTENT];
    CHECK_INT(intents, 1);
    rig_run(&rig, 120000);
    CHECK_INT(b->requests[HF_REQUEST_INTENT], intents);
    rig_free(&rig);
}

TEST(what_is_on_the_way_when_a_client_closes_is_given_back)
{
    start(NULL, NULL);
    CHECK_INT(rig_acquire(&rig, 0, "job", HF_NEVER, 0), 0);
    hf__core_close(a->core, 5000, rig.now_us);
    CHECK(!a->core->closed);
    rig_settle(&rig);
    rig_run(&rig, 100);
    CHECK(a->core->closed);
    CHECK_INT(a->last_code, HF_ERR_CLOSED);
    take(1, "job", 0);
    rig_free(&rig);
}

TEST(tokens_grow_even_if_somebody_has_slept_for_days)
{
    start(NULL, NULL);
    rig.now_us += 100 * 86400 * (int64_t)1000000;
    struct hf_grant *grant = take(1, "job", 0);
    int64_t token = grant->token;
    rig_release(&rig, 1, grant);
    rig_settle(&rig);
    rig.now_us += 86400 * (int64_t)1000000;
    rig_put(&rig, "job", NULL); /* the table's TTL */
    CHECK(take(0, "job", 0)->token > token);
    rig_free(&rig);
}

/* ---- jobs ---- */

TEST(who_wants_more_of_a_lock_that_ends_is_told)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    struct hf_grant *grant = take(0, "job", 0);
    struct hf_job job = {0};
    hf__core_ensure(a->core, grant, 60000, &job, rig.now_us);
    hf__core_abandon(a->core, grant, rig.now_us);
    rig_settle(&rig);
    CHECK_INT(a->jobs, 1);
    CHECK_INT(a->last_job, HF_ERR_LOST);
    rig_free(&rig);
}

TEST(an_operator_can_take_many_locks_from_one_session)
{
    enum { LOCKS = 200 };
    struct hf_core_options options = with_session();
    start(&options, NULL);
    static struct hf_job jobs[LOCKS];
    char name[16];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "job%d", i);
        take(0, name, 0);
    }
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "job%d", i);
        jobs[i] = (struct hf_job){0};
        hf__core_force(b->core, hf__slice_str(name), HF_LIT("boss"), HF_LIT("all of them"), 60000,
                       &jobs[i], rig.now_us);
    }
    rig_run(&rig, 2600); /* the next renewal obeys them all */
    CHECK_INT(a->finals, LOCKS);
    CHECK_INT(a->last_reason, HF_REASON_FORCED);
    CHECK_STR(a->last_detail, "by boss: all of them");
    rig_run(&rig, 20000);
    CHECK_INT(b->jobs, LOCKS);
    CHECK_INT(b->last_job, 0);
    rig_free(&rig);
}

TEST(who_observes_many_forgets_none)
{
    enum { LOCKS = 1500 };
    struct hf_core_options options = rig_defaults();
    options.judge = HF_JUDGE_OBSERVED;
    start(NULL, &options);
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "job%d", i);
        take(0, name, 0);
    }
    a->dead = true;
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "job%d", i);
        CHECK_INT(rig_acquire(&rig, 1, name, HF_NEVER, 0), 0);
    }
    rig_run(&rig, 12000);
    CHECK_INT(b->finished, LOCKS + 1); /* and the warm-up */
    rig_free(&rig);
}

TEST(a_reentrant_attempt_that_waited_for_the_first_comes_in_too)
{
    start(NULL, NULL);
    struct hf_attempt *attempts[3];
    struct hf_want want = {.name = HF_LIT("job"), .timeout_ms = 1000, .reentrant = true};
    for (int i = 0; i < 3; i++)
        CHECK_INT(hf__core_acquire(a->core, &want, rig.now_us, &attempts[i], NULL), 0);
    rig_settle(&rig);
    CHECK_INT(a->finished, 4);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->last_grant->entries, 3);
    for (int i = 0; i < 3; i++) rig_release(&rig, 0, a->last_grant);
    rig_settle(&rig);
    CHECK_INT(a->finals, 1);
    rig_free(&rig);
}

/* ---- sharing ---- */

TEST(two_who_try_to_share_at_once_both_come_in)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    CHECK_INT(rig_acquire(&rig, 0, "doc", 0, 5), 0);
    CHECK_INT(rig_acquire(&rig, 0, "doc", 0, 5), 0);
    rig_settle(&rig);
    CHECK_INT(a->finished, 3);
    CHECK_INT(a->last_code, 0);
    CHECK_INT(a->core->grant_count, 2);
    /* Of two who try to have it alone, one does; the other does not wait. */
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    CHECK_INT(rig_acquire(&rig, 1, "job", 0, 0), 0);
    rig_settle(&rig);
    CHECK_INT(b->finished, 3);
    CHECK_INT(b->last_code, HF_ERR_HELD);
    CHECK_INT(b->core->grant_count, 1);
    rig_free(&rig);
}

TEST(an_intent_that_makes_no_sense_is_reported)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    rig_put(&rig, "doc", "{\"intent\":{\"N\":\"5\"}}");
    CHECK_INT(rig_acquire(&rig, 0, "doc", 0, 5), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, HF_ERR_HELD);
    CHECK(strstr(a->last_error.message, "is invalid"));
    take(1, "doc", 0); /* a writer does not mind */
    rig_free(&rig);
}

TEST(a_waiting_writer_keeps_new_readers_out)
{
    struct hf_core_options options = with_session();
    start(&options, &options);
    struct hf_grant *reader = take(0, "doc", HF_READERS_LIMIT);
    CHECK_INT(rig_acquire(&rig, 1, "doc", HF_NEVER, 0), 0);
    rig_run(&rig, 3000);
    CHECK_INT(b->last_code, 1);
    CHECK_INT(rig_acquire(&rig, 0, "doc", 0, HF_READERS_LIMIT), 0);
    rig_settle(&rig);
    CHECK_INT(a->last_code, HF_ERR_HELD);
    rig_release(&rig, 0, reader);
    rig_run(&rig, 1100);
    CHECK_INT(b->last_code, 0);
    rig_release(&rig, 1, b->last_grant);
    rig_settle(&rig);
    take(0, "doc", HF_READERS_LIMIT); /* and no intent is left */
    rig_free(&rig);
}

TEST(dead_members_make_room)
{
    struct hf_core_options options = with_session();
    start(&options, &options);
    take(0, "pool", 2);
    take(0, "pool", 2);
    a->dead = true;
    rig_run(&rig, 30000);
    take(1, "pool", 2);
    take(1, "pool", 2);
    CHECK_INT(rig_acquire(&rig, 1, "pool", 0, 2), 0);
    rig_settle(&rig);
    CHECK_INT(b->last_code, HF_ERR_HELD);
    rig_free(&rig);
}

TEST(the_last_one_out_lets_the_record_go)
{
    struct hf_core_options options = with_session();
    start(&options, &options);
    struct hf_grant *first = take(0, "doc", HF_READERS_LIMIT);
    struct hf_grant *second = take(1, "doc", HF_READERS_LIMIT);
    struct hf_arena arena = {0};
    rig_release(&rig, 0, first);
    rig_settle(&rig);
    CHECK(!strstr(rig_show(&rig, &arena, "doc"), "ttl"));
    rig_release(&rig, 1, second);
    rig_settle(&rig);
    CHECK(!strstr(rig_show(&rig, &arena, "doc"), "holders"));
    CHECK(strstr(rig_show(&rig, &arena, "doc"), "ttl")); /* though it was not alone at first */
    hf__arena_free(&arena);
    rig_free(&rig);
}

TEST(an_idle_session_is_ended)
{
    struct hf_core_options options = with_session();
    start(&options, NULL);
    rig_release(&rig, 0, take(0, "job", 0));
    rig_run(&rig, 30000);
    CHECK(!a->core->session);
    rig_forget_counts(&rig, 0);
    rig_run(&rig, 30000);
    CHECK_INT(a->total, 0);
    take(0, "job", 0);
    rig_free(&rig);
}

/* ---- memory ---- */

static void live_through_it(void)
{
    struct hf_core_options options = rig_defaults();
    options.session = HF_USE_SESSION_AUTO;
    options.own_leases = 1;
    rig_init(&rig);
    if (rig_add(&rig, &options) == 0 && rig_add(&rig, NULL) == 1) {
        unsigned begun = 0;
        begun += rig_acquire(&rig, 0, "one", 3000, 0) == 0;
        begun += rig_acquire(&rig, 0, "two", 3000, 0) == 0;
        begun += rig_acquire(&rig, 0, "doc", 3000, 2) == 0;
        rig_acquire(&rig, 1, "one", 2000, 0);
        rig_run(&rig, 6000);
        if (a->last_grant) rig_release(&rig, 0, a->last_grant);
        struct hf_job job = {0};
        hf__core_force(b->core, HF_LIT("two"), HF_LIT("me"), HF_LIT("why not"), 20000, &job,
                       rig.now_us);
        rig_run(&rig, 20000);
        CHECK(b->jobs == 1);
        CHECK_INT(a->finished, begun);
    }
    rig_free(&rig);
}

TEST(every_allocation_may_fail)
{
    CHECK(hf_test_torture(live_through_it) > 100);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_free_lock_costs_one_request_and_its_release_another),
        RUN(the_same_with_a_session_that_lives),
        RUN(ten_thousand_locks_cost_one_request_per_period),
        RUN(an_own_lease_costs_one_request_per_period),
        RUN(who_waits_for_somebody_here_asks_the_store_nothing),
        RUN(those_who_wait_here_are_served_in_their_order),
        RUN(on_an_ordered_store_the_next_try_follows_a_release_at_once),
        RUN(a_lease_is_lost_in_time_and_only_once),
        RUN(who_sleeps_through_the_end_is_told_on_waking),
        RUN(a_confirmation_that_comes_after_the_end_revives_nothing),
        RUN(a_dead_holder_is_found_by_observation_after_its_whole_lease),
        RUN(a_dead_holder_is_found_by_the_stores_clock_without_waiting_a_lease),
        RUN(observations_outlive_attempts),
        RUN(a_dead_sessions_locks_are_all_free_once_it_is_ended),
        RUN(a_record_that_is_deleted_by_hand_is_noticed),
        RUN(a_store_that_was_taken_away_is_noticed_at_the_next_renewal),
        RUN(what_makes_no_sense_is_never_taken_from_anybody),
        RUN(the_attribute_that_makes_no_sense_is_named),
        RUN(a_member_that_makes_no_sense_stays_inside),
        RUN(an_expiry_that_makes_no_sense_is_none),
        RUN(an_orphan_of_a_live_session_is_given_back_when_asked_for),
        RUN(ones_own_orphan_is_taken_at_once),
        RUN(what_lives_by_clocks_is_not_written_before_one_is_known),
        RUN(a_record_that_shows_a_holder_is_no_licence_to_take_it),
        RUN(a_grant_whose_answer_was_lost_is_recognized),
        RUN(a_cancelled_attempt_gives_back_what_it_got),
        RUN(what_awslabs_and_fail_open_give_back_is_free_at_once),
        RUN(a_lock_may_outlive_an_outage_if_asked_to),
        RUN(readers_of_fail_open_look_like_one_lock),
        RUN(a_writer_of_fail_open_waits_for_the_last_reader),
        RUN(a_store_that_does_not_answer_is_an_error_of_its_own),
        RUN(a_wait_reports_how_it_stands),
        RUN(a_wait_reports_its_place),
        RUN(a_wait_reports_that_the_store_is_silent_and_that_it_answers_again),
        RUN(a_store_that_never_answers_in_time_is_not_called_a_holder),
        RUN(a_hint_saves_a_poll),
        RUN(hints_for_nothing_cost_little),
        RUN(a_hint_about_one_lock_is_for_its_waiters),
        RUN(an_attempt_that_is_not_first_in_line_lets_others_go_ahead),
        RUN(who_is_first_in_line_tries_for_what_is_being_freed_without_looking),
        RUN(an_attempt_does_not_wait_long_for_those_ahead),
        RUN(an_attempt_with_little_time_tries_before_it_ends),
        RUN(an_attempt_that_does_not_wait_takes_what_is_free),
        RUN(a_cancelled_wait_leaves_the_line),
        RUN(a_hint_reaches_a_crowd_in_turns),
        RUN(a_hint_that_comes_while_a_request_is_out_is_not_forgotten),
        RUN(who_finds_a_change_that_no_hint_announced_polls_as_ever),
        RUN(a_hint_does_not_take_away_the_deadline_of_who_waits_for_a_session),
        RUN(silence_is_counted_from_the_request_that_failed),
        RUN(an_intent_stays_as_long_as_the_wait),
        RUN(what_is_on_the_way_when_a_client_closes_is_given_back),
        RUN(tokens_grow_even_if_somebody_has_slept_for_days),
        RUN(who_wants_more_of_a_lock_that_ends_is_told),
        RUN(an_operator_can_take_many_locks_from_one_session),
        RUN(who_observes_many_forgets_none),
        RUN(a_reentrant_attempt_that_waited_for_the_first_comes_in_too),
        RUN(two_who_try_to_share_at_once_both_come_in),
        RUN(an_intent_that_makes_no_sense_is_reported),
        RUN(a_waiting_writer_keeps_new_readers_out),
        RUN(dead_members_make_room),
        RUN(the_last_one_out_lets_the_record_go),
        RUN(an_idle_session_is_ended),
        RUN(every_allocation_may_fail),
    };
    return RUN_TESTS(tests);
}
