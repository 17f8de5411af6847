/* Clients that come through a service: what they see, and what they may not do. */
#include "format/remote.h"
#include "harness/model.h"

#define GRANT "0102030405060708090a0b0c0d0e0f10"
#define OTHER "1112131415161718191a1b1c1d1e1f20"
#define WRITE "f0e0d0c0b0a090807060504030201000"
#define NEXT "f1e1d1c1b1a191817161514131211101"
#define SESSION "a1a2a3a4a5a6a7a8a9aaabacadaeafb0"
#define MEMBER SESSION "/" GRANT
#define NEW_MEMBER SESSION "/" OTHER

#define NOW_US ((int64_t)1790000000000000)

static const struct hf_layout layout = {
    .table = {"locks", 5}, .key_name = {"key", 3}, .keep_s = 86400};
static struct hf_arena arena;

/* What is known of the world, and of who asks. */
static struct {
    bool dead;
    bool session_exists;
    const char *session_owner;
    const char *lock; /* of an errand */
    const char *owner;
    bool may_not_lock;
    bool may_force;
    int64_t lease_max_ms;
} world;

static void begin(void)
{
    memset(&world, 0, sizeof world);
    world.owner = "bob";
    world.session_exists = true;
    world.session_owner = "alice";
}

static bool finds_dead(void *user, const struct hf_liveness *liveness)
{
    (void)user;
    CHECK(liveness->lease_ms > 0);
    return world.dead;
}

static char *mask_of(const char *grant)
{
    static char text[HF_GRANT_TEXT + 1];
    struct hf_id id;
    CHECK(hf__id_parse(hf__slice_str(grant), &id));
    hf__id_mask(&id, text);
    return text;
}

static struct hf_remote remote;

static const char *run(const char *key, const char *before, struct hf_op *op)
{
    static const char *const verdicts[] = {"changes", "refused", "denied"};
    char session[512];
    remote = (struct hf_remote){
        .layout = &layout,
        .arena = &arena,
        .owner = hf__slice_str(world.owner),
        .may_lock = !world.may_not_lock,
        .may_force = world.may_force,
        .lease_max_ms = world.lease_max_ms,
        .now = {true, NOW_US, NOW_US},
        .finds_dead = finds_dead,
        .op = op,
        .key = hf__slice_str(key),
        .exists = before != NULL,
        .item = before ? hf_test_item(&arena, before) : (struct hf_item){0},
    };
    for (int i = 0; i < 4; i++) {
        enum hf_remote_verdict verdict = hf__remote_judge(&remote);
        if (verdict == HF_REMOTE_NEEDS_SESSION) {
            snprintf(session, sizeof session,
                     "{\"key\":{\"S\":\"holdfast:session:x\"},\"owner\":{\"S\":\"%s\"}}",
                     world.session_owner);
            hf__remote_learn(&remote, true, world.session_exists,
                             world.session_exists ? hf_test_item(&arena, session)
                                                  : (struct hf_item){0});
        } else if (verdict == HF_REMOTE_NEEDS_LOCK) {
            hf__remote_learn(&remote, false, world.lock != NULL,
                             world.lock ? hf_test_item(&arena, world.lock) : (struct hf_item){0});
        } else {
            CHECK(verdict <= HF_REMOTE_DENIED);
            return verdicts[verdict];
        }
    }
    return "it wants to know more and more";
}

#define LOCK(more) "{\"key\":{\"S\":\"job\"},\"token\":{\"N\":\"7\"}" more "}"
#define FREE LOCK("")
#define OWN                                                                                        \
    LOCK(",\"owner\":{\"S\":\"alice\"},\"grant\":{\"S\":\"" GRANT                                  \
         "\"},\"version\":{\"N\":\"3\"},\"by\":{\"S\":\"" WRITE                                    \
         "\"},\"lease\":{\"N\":\"20000\"},\"expires\":{\"N\":\"1790000010000\"}")
#define IN_SESSION                                                                                 \
    LOCK(",\"owner\":{\"S\":\"alice\"},\"grant\":{\"S\":\"" GRANT                                  \
         "\"},\"session\":{\"S\":\"" SESSION "\"}")
#define SHARED                                                                                     \
    LOCK(",\"owner\":{\"S\":\"alice\"},\"limit\":{\"N\":\"2\"},\"holders\":{\"SS\":[\"" MEMBER     \
         "\"]}")
#define WITH_INTENT                                                                                \
    LOCK(",\"limit\":{\"N\":\"2\"},\"holders\":{\"SS\":[\"" MEMBER                                 \
         "\"]},\"intent\":{\"S\":\"" MEMBER "\"}")

/* ---- what is sent ---- */

static struct hf_claim claim_of(const char *grant)
{
    struct hf_claim claim = {
        .name = HF_LIT("job"),
        .owner = HF_LIT("bob@host"),
        .version = 1,
        .lease_ms = 20000,
        .expires_unix_ms = NOW_US / 1000 + 20000,
        .token_start = NOW_US,
    };
    CHECK(hf__id_parse(hf__slice_str(grant), &claim.grant));
    CHECK(hf__id_parse(HF_LIT(NEXT), &claim.by));
    return claim;
}

static const char *acquire(const char *before, const struct hf_claim *claim)
{
    struct hf_op op;
    hf__format_holdfast.acquire(&layout, &arena, claim, NULL, &op);
    return run("job", before, &op);
}

/* From its holder, as the client sees it. */
static const char *take(const char *before, const struct hf_claim *claim)
{
    struct hf_record seen;
    struct hf_op op;
    struct hf_item shown =
        hf__remote_view(&layout, &arena, hf__slice_str(world.owner), hf_test_item(&arena, before));
    hf__format_holdfast.parse(&layout, &arena, true, shown, &seen);
    hf__format_holdfast.take(&layout, &arena, claim, &seen, &op);
    return run("job", before, &op);
}

static struct hf_claim renewal_of(const char *grant)
{
    struct hf_claim claim = claim_of(grant);
    claim.version = 4;
    CHECK(hf__id_parse(HF_LIT(WRITE), &claim.before_by));
    return claim;
}

static const char *renew(const char *before, const struct hf_claim *claim)
{
    struct hf_op op;
    hf__format_holdfast.renew(&layout, &arena, claim, &op);
    return run("job", before, &op);
}

/* Whatever the update, on this condition. */
static struct hf_update update;

static const char *change(const char *before, const struct hf_condition *condition)
{
    const struct hf_op op = {.kind = HF_UPDATE_ITEM,
                             .table = layout.table,
                             .key = hf_test_item(&arena, "{\"key\":{\"S\":\"job\"}}"),
                             .condition = condition,
                             .update = &update};
    struct hf_op copy = op;
    const char *verdict = run("job", before, &copy);
    update = (struct hf_update){0};
    return verdict;
}

static const struct hf_condition *grant_is(const char *text)
{
    return hf__cond_compare(&arena, "grant", HF_EQ, hf__s_str(text));
}

static void set(const char *name, const char *text)
{
    hf__update_set(&arena, &update, name, hf__s_str(text));
}

static void set_number(const char *name, int64_t number)
{
    hf__update_set(&arena, &update, name, hf__n(&arena, number));
}

static void free_it(void)
{
    static const char *const names[] = {"grant", "session", "version", "by", "lease", "expires"};
    for (size_t i = 0; i < 6; i++) hf__update_remove(&arena, &update, names[i]);
}

static const char *shown(const char *name)
{
    const struct hf_value *value = hf__item_get_str(remote.changed, name);
    if (!value) return "";
    if (value->type == HF_S) return hf__arena_str(&arena, value->bytes);
    return hf_test_show(&arena, remote.changed);
}

static int64_t number(const char *name)
{
    int64_t number = -1;
    const struct hf_value *value = hf__item_get_str(remote.changed, name);
    CHECK(value && value->type == HF_N && hf__number_to_int64(value->number, &number));
    return number;
}

/* ---- secrets ---- */

TEST(grants_are_masked_and_their_holders_recognize_them)
{
    begin();
    struct hf_id own, other;
    CHECK(hf__id_parse(HF_LIT(GRANT), &own) && hf__id_parse(HF_LIT(OTHER), &other));
    struct hf_item item =
        hf__remote_view(&layout, &arena, HF_LIT("bob"), hf_test_item(&arena, OWN));
    struct hf_slice grant = hf__item_get_str(item, "grant")->bytes;
    CHECK_STR(hf__arena_str(&arena, grant), mask_of(GRANT));
    CHECK(hf__id_is(&own, grant));
    CHECK(!hf__id_is(&other, grant));
    CHECK(!strstr(hf_test_show(&arena, item), GRANT));
    const char *const items[] = {
        IN_SESSION, SHARED, WITH_INTENT,
        LOCK(",\"released\":{\"S\":\"" GRANT "\"},\"forced\":{\"S\":\"" GRANT "\"}")};
    for (size_t i = 0; i < 4; i++) {
        item = hf__remote_view(&layout, &arena, HF_LIT("bob"), hf_test_item(&arena, items[i]));
        CHECK(!strstr(hf_test_show(&arena, item), GRANT));
    }
    hf__arena_free(&arena);
}

TEST(a_condition_tells_nothing_about_a_grant)
{
    begin();
    const struct hf_operand starts[] = {hf__operand_path(hf__path(&arena, HF_LIT("grant"))),
                                        hf__operand_value(hf__s_str("0"))};
    CHECK_STR(change(OWN, hf__cond(&arena, HF_BEGINS_WITH, starts, 2)), "refused");
    CHECK_STR(change(OWN, hf__cond_compare(&arena, "grant", HF_LT, hf__s_str("1"))), "refused");
    const struct hf_operand inside[] = {hf__operand_path(hf__path(&arena, HF_LIT("holders"))),
                                        hf__operand_value(hf__s_str(SESSION "/" OTHER))};
    CHECK_STR(change(SHARED, hf__cond(&arena, HF_CONTAINS, inside, 2)), "refused");
    hf__arena_free(&arena);
}

/* ---- taking ---- */

TEST(a_free_lock_is_taken_in_the_callers_name)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(acquire(FREE, &claim), "changes");
    CHECK_STR(shown("owner"), "bob");
    CHECK_STR(shown("instance"), "bob@host");
    CHECK_STR(shown("grant"), OTHER);
    CHECK_STR(acquire(NULL, &claim), "changes");
    CHECK_STR(acquire(OWN, &claim), "refused");
    CHECK_STR(acquire(SHARED, &claim), "refused");
    hf__arena_free(&arena);
}

TEST(an_expiry_is_no_later_than_the_lease)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    claim.expires_unix_ms += 100000000;
    CHECK_STR(acquire(FREE, &claim), "changes");
    CHECK(number("expires") <= NOW_US / 1000 + 20001);
    hf__arena_free(&arena);
}

TEST(a_token_is_not_forged)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    const int64_t starts[] = {INT64_MAX / 2, 0, NOW_US - 59000000};
    for (size_t i = 0; i < 3; i++) { /* it is the service that says which is the first */
        claim.token_start = starts[i];
        CHECK_STR(acquire(NULL, &claim), "changes");
        CHECK_INT(number("token"), NOW_US + 1);
        CHECK_STR(acquire(FREE, &claim), "changes");
        CHECK_INT(number("token"), 8);
    }
    set("grant", OTHER);
    set("owner", "bob");
    set_number("token", 9);
    set_number("version", 1);
    set("by", NEXT);
    set_number("lease", 20000);
    CHECK_STR(change(FREE, hf__cond_absent(&arena, "grant")), "denied");
    hf__arena_free(&arena);
}

TEST(a_record_stays_as_long_as_the_service_says)
{
    begin();
    set_number("ttl", 1);
    CHECK_STR(change(FREE, hf__cond_exists(&arena, "key")), "changes");
    CHECK_INT(number("ttl"), NOW_US / 1000000 + layout.keep_s);
    free_it();
    set_number("ttl", NOW_US / 1000000);
    CHECK_STR(change(OWN, grant_is(GRANT)), "changes");
    CHECK_INT(number("ttl"), NOW_US / 1000000 + layout.keep_s);
    hf__arena_free(&arena);
}

TEST(a_lease_has_a_limit)
{
    begin();
    world.lease_max_ms = 10000;
    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(acquire(FREE, &claim), "denied");
    world.dead = true;
    CHECK_STR(take(OWN, &claim), "denied"); /* whatever the one before had */
    claim.lease_ms = 10000;
    CHECK_STR(take(OWN, &claim), "changes");
    CHECK_STR(acquire(FREE, &claim), "changes");
    claim = renewal_of(GRANT);
    CHECK_STR(renew(OWN, &claim), "changes"); /* its own it keeps */
    hf__arena_free(&arena);
}

TEST(a_holder_is_displaced_when_the_service_finds_it_dead)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(take(OWN, &claim), "refused");
    CHECK_STR(take(IN_SESSION, &claim), "refused");
    world.dead = true;
    CHECK_STR(take(OWN, &claim), "changes");
    CHECK_STR(take(IN_SESSION, &claim), "refused"); /* it is the session that has to go */
    world.session_exists = false;
    CHECK_STR(take(IN_SESSION, &claim), "changes");
    CHECK_STR(shown("grant"), OTHER);
    hf__arena_free(&arena);
}

TEST(what_ones_own_session_has_left_is_taken_over)
{
    begin();
    world.session_owner = "bob";
    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(take(IN_SESSION, &claim), "changes");
    hf__arena_free(&arena);
}

TEST(a_lock_that_is_held_is_not_taken_by_any_other_way)
{
    begin();
    /* By its mask, which everybody sees; by saying only that it is held; by a grant that is made up. */
    const struct hf_condition *const conditions[] = {
        grant_is(mask_of(GRANT)), hf__cond_exists(&arena, "grant"), hf__cond_exists(&arena, "key")};
    for (size_t i = 0; i < 3; i++) {
        free_it();
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set("owner", "bob");
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set("grant", OTHER);
        CHECK_STR(change(OWN, conditions[i]), "refused");
        set_number("token", 5);
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set_number("expires", 1);
        CHECK_STR(change(OWN, conditions[i]), "denied");
        hf__update_set(&arena, &update, "data", hf__b(HF_LIT("x")));
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set("session", SESSION);
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set_number("grant", 5);
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set_number("ttl", 1);
        CHECK_STR(change(OWN, conditions[i]), "denied");
        set("anything", "else");
        CHECK_STR(change(OWN, conditions[i]), "denied");
    }
    free_it();
    CHECK_STR(change(OWN, NULL), "denied");
    struct hf_op op = {.kind = HF_DELETE_ITEM,
                       .table = layout.table,
                       .key = hf_test_item(&arena, "{\"key\":{\"S\":\"job\"}}"),
                       .condition = hf__cond_exists(&arena, "key")};
    CHECK_STR(run("job", OWN, &op), "denied");
    CHECK_STR(run("job", FREE, &op), "denied");
    hf__arena_free(&arena);
}

/* ---- keeping and releasing ---- */

TEST(those_who_know_the_grant_renew_and_release)
{
    begin();
    struct hf_claim claim = renewal_of(GRANT);
    CHECK_STR(renew(OWN, &claim), "changes");
    CHECK_STR(shown("grant"), GRANT);
    CHECK_STR(shown("owner"), "alice");
    claim.lease_ms = 10;
    CHECK_STR(renew(OWN, &claim), "denied");
    claim = renewal_of(OTHER);
    CHECK_STR(renew(OWN, &claim), "refused");
    free_it();
    set("released", GRANT);
    CHECK_STR(change(OWN, grant_is(GRANT)), "changes");
    free_it();
    set("released", OTHER);
    CHECK_STR(change(OWN, grant_is(GRANT)), "denied");
    free_it();
    set_number("token", 6);
    CHECK_STR(change(OWN, grant_is(GRANT)), "denied");
    hf__arena_free(&arena);
}

TEST(forcing_takes_the_right_to_do_so)
{
    begin();
    const char *const wants[] = {"denied", "changes"};
    for (int i = 0; i < 2; i++) {
        world.may_force = i == 1;
        struct hf_record seen;
        struct hf_op op;
        struct hf_item view =
            hf__remote_view(&layout, &arena, HF_LIT("bob"), hf_test_item(&arena, OWN));
        hf__format_holdfast.parse(&layout, &arena, true, view, &seen);
        const struct hf_forcing how = {.name = HF_LIT("job"),
                                       .grant = seen.holder.grant,
                                       .by = HF_LIT("bob"),
                                       .reason = HF_LIT("because")};
        hf__format_holdfast.force(&layout, &arena, &seen, &how, &op);
        CHECK_STR(run("job", OWN, &op), wants[i]);
    }
    CHECK_STR(shown("forced"), GRANT); /* its holder recognizes it */
    world.may_not_lock = true;         /* whoever may only force takes nothing for himself */
    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(acquire(FREE, &claim), "denied");
    world.dead = true;
    CHECK_STR(take(OWN, &claim), "denied");
    claim = renewal_of(GRANT);
    CHECK_STR(renew(OWN, &claim), "denied");
    set("forced", mask_of(GRANT));
    set("forced_by", "carol");
    set("forced_reason", "because");
    CHECK_STR(change(OWN, grant_is(mask_of(GRANT))), "changes");
    CHECK_STR(shown("forced_by"), "bob");
    hf__arena_free(&arena);
}

/* ---- sharing ---- */

TEST(sharing_keeps_to_the_limit)
{
    begin();
    struct hf_id session;
    CHECK(hf__id_parse(HF_LIT(SESSION), &session));
    struct hf_claim claim = claim_of(OTHER);
    claim.session = &session;
    claim.limit = 2;
    CHECK_STR(acquire(SHARED, &claim), "changes");
    CHECK(strstr(shown("holders"), MEMBER) && strstr(shown("holders"), SESSION "/" OTHER));
    claim.limit = 3;
    CHECK_STR(acquire(SHARED, &claim), "refused");
    CHECK_STR(acquire(WITH_INTENT, &claim), "refused");
    /* The condition is the client's: what it leaves out is seen to. */
    hf__update_count(&arena, &update, "token", 0, 1);
    set("owner", "bob");
    set_number("limit", 3);
    hf__update_add_to(&arena, &update, "holders",
                      hf_test_value(&arena, "{\"SS\":[\"" SESSION "/" OTHER "\"]}"));
    CHECK_STR(change(SHARED, hf__cond_exists(&arena, "key")), "denied");
    hf__arena_free(&arena);
}

TEST(a_copy_of_an_acquire_does_not_come_in_twice)
{
    begin();
    struct hf_id session;
    CHECK(hf__id_parse(HF_LIT(SESSION), &session));
    struct hf_claim claim = claim_of(GRANT);
    claim.session = &session;
    claim.limit = 2;
    CHECK_STR(acquire(SHARED, &claim), "changes");
    CHECK_INT(hf__item_get_str(remote.changed, "holders")->list.count, 1);
    hf__arena_free(&arena);
}

TEST(nobody_puts_others_out)
{
    begin();
    const struct hf_condition *any = hf__cond_exists(&arena, "key");
    char masked[80], member[200];
    snprintf(masked, sizeof masked, "%s/%s", SESSION, mask_of(GRANT));
    snprintf(member, sizeof member, "{\"SS\":[\"%s\"]}", masked);
    hf__update_delete_from(&arena, &update, "holders", hf_test_value(&arena, member));
    CHECK_STR(change(SHARED, any), "refused"); /* its session lives */
    hf__update_remove(&arena, &update, "holders");
    CHECK_STR(change(SHARED, any), "refused");
    world.session_exists = false;
    hf__update_delete_from(&arena, &update, "holders", hf_test_value(&arena, member));
    CHECK_STR(change(SHARED, any), "changes");
    world.session_exists = true;
    hf__update_delete_from(&arena, &update, "holders",
                           hf_test_value(&arena, "{\"SS\":[\"" MEMBER "\"]}"));
    const struct hf_operand inside[] = {hf__operand_path(hf__path(&arena, HF_LIT("holders"))),
                                        hf__operand_value(hf__s_str(MEMBER))};
    CHECK_STR(change(SHARED, hf__cond(&arena, HF_CONTAINS, inside, 2)), "changes"); /* he himself */
    hf__update_remove(&arena, &update, "intent");
    CHECK_STR(change(WITH_INTENT, any), "refused");
    set("intent", SESSION "/" OTHER);
    CHECK_STR(change(WITH_INTENT, any), "denied");
    set("intent", SESSION "/" OTHER);
    CHECK_STR(change(SHARED, any), "changes");
    hf__arena_free(&arena);
}

/* ---- sessions ---- */

#define SESSION_KEY "holdfast:session:" SESSION
#define A_SESSION                                                                                  \
    "{\"key\":{\"S\":\"" SESSION_KEY                                                               \
    "\"},\"owner\":{\"S\":\"alice\"},\"version\":{\"N\":\"3\"},\"by\":{"                           \
    "\"S\":\"" WRITE                                                                               \
    "\"},\"lease\":{\"N\":\"20000\"},\"expires\":{\"N\":\"1790000010000\"},\"asked\":{"            \
    "\"SS\":[\"x/" OTHER "/other\"]}}"

static const char *renew_session(const char *before, int64_t version)
{
    struct hf_session_claim claim = {.owner = HF_LIT("bob"), .version = version, .lease_ms = 20000};
    struct hf_op op;
    CHECK(hf__id_parse(HF_LIT(SESSION), &claim.id) && hf__id_parse(HF_LIT(NEXT), &claim.by) &&
          hf__id_parse(HF_LIT(WRITE), &claim.before_by));
    hf__format_holdfast.sessions->renew(&layout, &arena, &claim, &op);
    return run(SESSION_KEY, before, &op);
}

static const char *create_session(const struct hf_id *id)
{
    struct hf_session_claim claim = {
        .id = *id, .owner = HF_LIT("x"), .version = 1, .lease_ms = 20000};
    struct hf_op op;
    CHECK(hf__id_parse(HF_LIT(NEXT), &claim.by));
    hf__format_holdfast.sessions->create(&layout, &arena, &claim, &op);
    struct hf_slice key = hf__item_get_str(op.key, "key")->bytes;
    return run(hf__arena_str(&arena, key), NULL, &op);
}

TEST(a_session_is_its_owners)
{
    begin();
    struct hf_op end;
    struct hf_session_record seen;
    CHECK_STR(renew_session(A_SESSION, 4), "denied");
    hf__format_holdfast.sessions->end(&layout, &arena, HF_LIT(SESSION), NULL, &end);
    CHECK_STR(run(SESSION_KEY, A_SESSION, &end), "refused");
    hf__format_holdfast.sessions->parse(&layout, &arena, true, hf_test_item(&arena, A_SESSION),
                                        &seen);
    hf__format_holdfast.sessions->end(&layout, &arena, HF_LIT(SESSION), &seen, &end);
    CHECK_STR(run(SESSION_KEY, A_SESSION, &end), "refused");
    world.dead = true;
    CHECK_STR(run(SESSION_KEY, A_SESSION, &end), "changes");
    CHECK(!remote.stays);
    world.dead = false;
    world.owner = "alice";
    CHECK_STR(renew_session(A_SESSION, 4), "changes");
    CHECK(strstr(shown("asked"), OTHER));
    CHECK_STR(run(SESSION_KEY, A_SESSION, &end), "changes");
    world.owner = ""; /* no authentication: everybody is trusted */
    CHECK_STR(renew_session(A_SESSION, 4), "changes");
    hf__arena_free(&arena);
}

TEST(a_session_is_asked_for_its_locks_and_nothing_else)
{
    begin();
    struct hf_op op;
    char errand[128];
    struct hf_item view =
        hf__remote_view(&layout, &arena, HF_LIT("bob"), hf_test_item(&arena, A_SESSION));
    CHECK(!hf__item_get_str(view, "asked"));
    snprintf(errand, sizeof errand, "x/%s/job", mask_of(GRANT));
    hf__format_holdfast.sessions->ask(&layout, &arena, HF_LIT(SESSION), hf__slice_str(errand), &op);
    CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "refused"); /* there is no such lock */
    world.lock = IN_SESSION;
    CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "changes");
    CHECK(strstr(shown("asked"), "x/" GRANT "/job") && strstr(shown("asked"), "x/" OTHER "/other"));
    world.lock = OWN; /* it is not this session's */
    CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "refused");
    world.lock = IN_SESSION;
    snprintf(errand, sizeof errand, "x/%s/job", OTHER);
    hf__format_holdfast.sessions->ask(&layout, &arena, HF_LIT(SESSION), hf__slice_str(errand), &op);
    CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "refused");
    hf__format_holdfast.sessions->ask(&layout, &arena, HF_LIT(SESSION), HF_LIT("junk"), &op);
    CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "denied");
    hf__arena_free(&arena);
}

TEST(nobody_brings_back_a_session_that_has_ended)
{
    begin();
    struct hf_id id, owner;
    CHECK(hf__id_parse(HF_LIT(SESSION), &id));
    hf__id_of_owner(HF_LIT("alice"), &owner);
    hf__id_bind(&id, &owner);
    CHECK(hf__id_is_bound(&id, &owner));
    hf__id_of_owner(HF_LIT("bob"), &owner);
    CHECK(!hf__id_is_bound(&id, &owner));
    CHECK_STR(create_session(&id), "denied");
    world.owner = "alice";
    CHECK_STR(create_session(&id), "changes");
    world.owner = "";
    CHECK_STR(create_session(&id), "changes");
    hf__arena_free(&arena);
}

TEST(asking_for_a_lock_changes_nothing_else_of_ones_own_session)
{
    begin();
    world.owner = "alice";
    world.lock = IN_SESSION;
    const struct {
        const char *name;
        struct hf_value value;
    } more[] = {{"lease", hf__n(&arena, 31536000000)},
                {"version", hf__n(&arena, 1000000)},
                {"owner", hf__s_str("carol")},
                {"expires", hf__map((struct hf_item){0})}};
    for (size_t i = 0; i < 4; i++) {
        struct hf_op op;
        hf__format_holdfast.sessions->ask(&layout, &arena, HF_LIT(SESSION),
                                          HF_LIT("x/" GRANT "/job"), &op);
        struct hf_update both = *op.update;
        hf__update_set(&arena, &both, more[i].name, more[i].value);
        op.update = &both;
        CHECK_STR(run(SESSION_KEY, A_SESSION, &op), "denied");
    }
    hf__arena_free(&arena);
}

TEST(a_lock_is_not_made_unusable)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    struct hf_attr *attrs = hf__arena_zalloc(&arena, 40, sizeof *attrs);
    for (int i = 0; i < 40; i++)
        attrs[i] = (struct hf_attr){hf__arena_printf(&arena, "extra%d", i), hf__s_str("x")};
    claim.extra = (struct hf_item){attrs, 20};
    CHECK_STR(acquire(FREE, &claim), "changes");
    claim.extra.count = 40;
    CHECK_STR(acquire(FREE, &claim), "denied");
    char *large = hf__arena_zalloc(&arena, 1, 20000);
    memset(large, 'x', 20000);
    attrs[0].value = hf__s(hf__slice(large, 20000));
    claim.extra.count = 1;
    CHECK_STR(acquire(FREE, &claim), "denied");
    hf__arena_free(&arena);
}

TEST(a_grant_is_not_taken_by_its_mask)
{
    begin();
    struct hf_claim claim = claim_of(OTHER);
    struct hf_op op;
    hf__format_holdfast.acquire(&layout, &arena, &claim, NULL, &op);
    struct hf_update with = *op.update;
    hf__update_set(&arena, &with, "grant", hf__s_str(mask_of(GRANT)));
    op.update = &with;
    CHECK_STR(run("job", LOCK(",\"forced\":{\"S\":\"" GRANT "\"}"), &op), "denied");
    hf__arena_free(&arena);
}

TEST(what_others_do_meanwhile_is_not_undone)
{
    begin();
    struct hf_op write;
    world.owner = "alice";
    CHECK_STR(renew_session(A_SESSION, 4), "changes");
    hf__remote_write(&remote, &write);
    struct hf_item same = hf_test_item(&arena, A_SESSION), other = same;
    CHECK(hf__condition_holds(write.condition, same));
    /* Somebody wants a lock of it back: then the renewal has to be judged again. */
    const struct hf_value revoked = hf_test_value(&arena, "{\"SS\":[\"x\"]}");
    other = hf__item_with(&arena, other, HF_LIT("revoked"), &revoked);
    CHECK(!hf__condition_holds(write.condition, other));
    other = hf__item_with(&arena, same, HF_LIT("asked"), NULL);
    CHECK(!hf__condition_holds(write.condition, other));
    /* It says what changes, and nothing else. */
    struct hf_item written;
    struct hf_error error;
    const struct hf_value extra = hf__s_str("x");
    other = hf__item_with(&arena, same, HF_LIT("extra"), &extra);
    CHECK_INT(hf__update_apply(&arena, write.update, other, &written, &error), 0);
    CHECK(hf__item_get_str(written, "extra") && hf__item_get_str(written, "asked"));

    struct hf_claim claim = claim_of(OTHER);
    CHECK_STR(acquire(NULL, &claim), "changes");
    hf__remote_write(&remote, &write);
    CHECK(hf__condition_holds(write.condition, (struct hf_item){0}));
    CHECK(!hf__condition_holds(write.condition, hf_test_item(&arena, FREE)));
    hf__arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(grants_are_masked_and_their_holders_recognize_them),
        RUN(a_condition_tells_nothing_about_a_grant),
        RUN(a_free_lock_is_taken_in_the_callers_name),
        RUN(an_expiry_is_no_later_than_the_lease),
        RUN(a_token_is_not_forged),
        RUN(a_record_stays_as_long_as_the_service_says),
        RUN(a_lease_has_a_limit),
        RUN(a_holder_is_displaced_when_the_service_finds_it_dead),
        RUN(what_ones_own_session_has_left_is_taken_over),
        RUN(a_lock_that_is_held_is_not_taken_by_any_other_way),
        RUN(those_who_know_the_grant_renew_and_release),
        RUN(forcing_takes_the_right_to_do_so),
        RUN(sharing_keeps_to_the_limit),
        RUN(a_copy_of_an_acquire_does_not_come_in_twice),
        RUN(nobody_puts_others_out),
        RUN(a_session_is_its_owners),
        RUN(a_session_is_asked_for_its_locks_and_nothing_else),
        RUN(nobody_brings_back_a_session_that_has_ended),
        RUN(asking_for_a_lock_changes_nothing_else_of_ones_own_session),
        RUN(a_lock_is_not_made_unusable),
        RUN(a_grant_is_not_taken_by_its_mask),
        RUN(what_others_do_meanwhile_is_not_undone),
    };
    return RUN_TESTS(tests);
}
