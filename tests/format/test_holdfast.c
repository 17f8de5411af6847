/* The native format: what is written, and what is read out of what others wrote. */
#include "format/format.h"
#include "harness/model.h"

static const struct hf_layout layout = {
    .table = {"locks", 5}, .key_name = {"key", 3}, .keep_s = 86400};
static const struct hf_format *const format = &hf__format_holdfast;
static struct hf_arena arena;

#define GRANT "0102030405060708090a0b0c0d0e0f10"
#define WRITE "f0e0d0c0b0a090807060504030201000"
#define SESSION "a1a2a3a4a5a6a7a8a9aaabacadaeafb0"

static struct hf_id id_of(const char *text)
{
    struct hf_id id;
    CHECK(hf__id_parse(hf__slice_str(text), &id));
    return id;
}

static struct hf_claim claim_of(void)
{
    return (struct hf_claim){
        .name = HF_LIT("job"),
        .owner = HF_LIT("alice"),
        .grant = id_of(GRANT),
        .by = id_of(WRITE),
        .version = 1,
        .lease_ms = 20000,
        .expires_unix_ms = 1790000020000,
        .since_unix_ms = 1790000000000,
        .token_start = 1790000000000000,
    };
}

/* What the operation makes of an item, or "refused". */
static const char *apply(const struct hf_op *op, const char *before)
{
    struct hf_item item = before ? hf_test_item(&arena, before) : (struct hf_item){0};
    struct hf_error error;
    CHECK_INT(hf__op_check(op, &error), 0);
    CHECK(op->old_on_failure);
    if (!hf__condition_holds(op->condition, item)) return "refused";
    if (op->kind == HF_DELETE_ITEM) return "deleted";
    struct hf_item updated;
    CHECK_INT(hf__update_apply(&arena, op->update, before ? item : op->key, &updated, &error), 0);
    return hf_test_show(&arena, updated);
}

#define OWN                                                                                          \
    "{\"by\":{\"S\":\"" WRITE                                                                        \
    "\"},\"expires\":{\"N\":\"1790000020000\"},\"grant\":{\"S\":\"" GRANT                            \
    "\"},\"key\":{\"S\":\"job\"},\"lease\":{\"N\":\"20000\"},\"owner\":{\"S\":\"alice\"},"           \
    "\"since\":{\"N\":\"1790000000000\"},\"token\":{\"N\":\"1790000000000001\"},\"version\":{\"N\":" \
    "\"1\"}}"

TEST(a_free_lock_is_written_whole)
{
    struct hf_claim claim = claim_of();
    struct hf_op op;
    format->acquire(&layout, &arena, &claim, NULL, &op);
    CHECK_STR(apply(&op, NULL), OWN);
    CHECK_STR(apply(&op, OWN), "refused");
    CHECK_STR(apply(&op, "{\"key\":{\"S\":\"job\"},\"holders\":{\"SS\":[\"x\"]}}"), "refused");
    /* Nothing of an earlier holder is left standing; the token goes on from where it was. */
    CHECK_STR(apply(&op, "{\"key\":{\"S\":\"job\"},\"session\":{\"S\":\"s\"},\"ttl\":{\"N\":\"5\"},"
                         "\"limit\":{\"N\":\"2\"},\"token\":{\"N\":\"1790000000000000\"}}"),
              OWN);
    hf__arena_free(&arena);
}

TEST(a_session_holder_leaves_no_lease_in_the_lock)
{
    struct hf_claim claim = claim_of();
    struct hf_id session = id_of(SESSION);
    struct hf_op op;
    claim.session = &session;
    format->acquire(&layout, &arena, &claim, NULL, &op);
    const char *item = apply(&op, NULL);
    CHECK(strstr(item, "\"session\":{\"S\":\"" SESSION "\"}"));
    CHECK(!strstr(item, "version") && !strstr(item, "lease") && !strstr(item, "expires"));
    hf__arena_free(&arena);
}

TEST(what_was_written_is_read_back)
{
    struct hf_record record;
    struct hf_claim claim = claim_of();
    format->parse(&layout, &arena, true, hf_test_item(&arena, OWN), &record);
    CHECK(record.exclusive && !record.damaged);
    CHECK_SLICE(record.owner, HF_LIT("alice"));
    CHECK_SLICE(record.holder.grant, HF_LIT(GRANT));
    CHECK_INT(record.token, 1790000000000001);
    CHECK_INT(record.liveness.lease_ms, 20000);
    CHECK_INT(record.liveness.expires_unix_ms, 1790000020000);
    CHECK(format->holds(&record, &claim));
    claim.grant.bytes[0] ^= 1;
    CHECK(!format->holds(&record, &claim));
    hf__arena_free(&arena);
}

TEST(a_renewal_and_a_takeover_depend_on_what_was_seen)
{
    struct hf_claim claim = claim_of();
    struct hf_record record;
    struct hf_op op;
    claim.version = 2;
    claim.before_by = claim.by;
    claim.by = id_of(SESSION);
    format->renew(&layout, &arena, &claim, &op);
    const char *renewed = apply(&op, OWN);
    CHECK(strstr(renewed, "\"version\":{\"N\":\"2\"}"));
    CHECK_STR(apply(&op, renewed), "refused"); /* a second copy does nothing */
    format->parse(&layout, &arena, true, hf_test_item(&arena, OWN), &record);
    claim = claim_of();
    claim.grant = id_of(SESSION);
    claim.owner = HF_LIT("bob");
    format->take(&layout, &arena, &claim, &record, &op);
    CHECK_STR(apply(&op, renewed), "refused"); /* it is alive after all */
    const char *taken = apply(&op, OWN);
    CHECK(strstr(taken, "\"owner\":{\"S\":\"bob\"}"));
    CHECK(strstr(taken, "\"token\":{\"N\":\"1790000000000002\"}"));
    hf__arena_free(&arena);
}

TEST(a_release_keeps_the_token_and_the_data)
{
    struct hf_claim claim = claim_of();
    struct hf_op op;
    claim.ttl_unix_s = 1790086400;
    claim.is_wanted = true;
    format->release(&layout, &arena, &claim, &op);
    CHECK_STR(apply(&op, OWN),
              "{\"key\":{\"S\":\"job\"},\"owner\":{\"S\":\"alice\"},\"released\":{\"S\":\"" GRANT
              "\"},\"since\":{\"N\":"
              "\"1790000000000\"},\"token\":{\"N\":\"1790000000000001\"},\"ttl\":{"
              "\"N\":\"1790086400\"}}");
    claim.version = 2; /* somebody else renewed it before, and may again */
    format->release(&layout, &arena, &claim, &op);
    CHECK_STR(apply(&op, OWN), "refused");
    claim = claim_of();
    claim.grant.bytes[3] ^= 1;
    format->release(&layout, &arena, &claim, &op);
    CHECK_STR(apply(&op, OWN), "refused");
    hf__arena_free(&arena);
}

TEST(a_sweep_takes_only_what_is_as_it_was_seen)
{
    const char *released =
        "{\"key\":{\"S\":\"job\"},\"token\":{\"N\":\"7\"},\"ttl\":{\"N\":\"9\"}}";
    struct hf_record record;
    struct hf_op op;
    format->parse(&layout, &arena, true, hf_test_item(&arena, released), &record);
    format->sweep(&layout, &arena, HF_LIT("job"), &record, &op);
    CHECK_STR(apply(&op, released), "deleted");
    CHECK_STR(apply(&op, "{\"key\":{\"S\":\"job\"},\"token\":{\"N\":\"8\"}}"), "refused");
    CHECK_STR(
        apply(&op, "{\"key\":{\"S\":\"job\"},\"token\":{\"N\":\"7\"},\"grant\":{\"S\":\"g\"}}"),
        "refused");
    CHECK_STR(
        apply(&op,
              "{\"key\":{\"S\":\"job\"},\"token\":{\"N\":\"7\"},\"holders\":{\"SS\":[\"g\"]}}"),
        "refused");
    hf__arena_free(&arena);
}

TEST(sharing_counts_and_agrees_on_the_limit)
{
    struct hf_claim claim = claim_of();
    struct hf_id session = id_of(SESSION);
    struct hf_op op;
    claim.session = &session;
    claim.limit = 2;
    format->acquire(&layout, &arena, &claim, NULL, &op);
    const char *one = apply(&op, "{\"key\":{\"S\":\"job\"},\"ttl\":{\"N\":\"5\"}}");
    CHECK(strstr(one, SESSION "/" GRANT));
    CHECK(!strstr(one, "ttl"));
    static const struct {
        const char *item;
        bool admits;
    } rows[] = {
        {"{\"holders\":{\"SS\":[\"a\"]},\"limit\":{\"N\":\"2\"}}", true},
        {"{\"holders\":{\"SS\":[\"a\",\"b\"]},\"limit\":{\"N\":\"2\"}}", false},
        {"{\"holders\":{\"SS\":[\"a\"]},\"limit\":{\"N\":\"3\"}}", false},
        {"{\"holders\":{\"SS\":[\"a\"]}}", false},
        {"{\"grant\":{\"S\":\"g\"}}", false},
        {"{\"intent\":{\"S\":\"i\"}}", false},
        {"{\"limit\":{\"N\":\"3\"}}", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hf_test_note("row %zu", i);
        CHECK((strcmp(apply(&op, rows[i].item), "refused") != 0) == rows[i].admits);
    }
    /* The last one out sets the ttl, and only the last one. */
    claim.last = true;
    claim.ttl_unix_s = 99;
    format->release(&layout, &arena, &claim, &op);
    const char *left = apply(&op, one);
    CHECK(strstr(left, "ttl") && !strstr(left, "holders"));
    CHECK_STR(apply(&op, "{\"holders\":{\"SS\":[\"" SESSION "/" GRANT "\",\"b\"]}}"), "refused");
    claim.last = false;
    format->release(&layout, &arena, &claim, &op);
    CHECK_STR(apply(&op, "{\"holders\":{\"SS\":[\"" SESSION "/" GRANT "\",\"b\"]}}"),
              "{\"holders\":{\"SS\":[\"b\"]}}");
    hf__arena_free(&arena);
}

TEST(names_that_cannot_be_locks_are_refused)
{
    char longest[HF_LOCK_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    CHECK(!format->refuses_name(hf__slice(longest, HF_LOCK_NAME_MAX)));
    CHECK(format->refuses_name(hf__slice(longest, HF_LOCK_NAME_MAX + 1)));
    CHECK(format->refuses_name(HF_LIT("")));
    CHECK(format->refuses_name(HF_LIT("holdfast:session:x")));
    CHECK(format->refuses_name(HF_LIT("\xff")));
    CHECK(!format->refuses_name(HF_LIT("Kundenauftr\xc3\xa4ge/42 \n")));
    CHECK(hf__format_refuses_extra(format, &layout, HF_LIT("key")));
    CHECK(hf__format_refuses_extra(format, &layout, HF_LIT("token")));
    CHECK(hf__format_refuses_extra(format, &layout, HF_LIT("forced")));
    CHECK(!hf__format_refuses_extra(format, &layout, HF_LIT("purpose")));
}

TEST(what_a_session_is_asked_for_survives_any_name)
{
    static const struct hf_slice names[] = {
        {"job", 3}, {"a/b/c", 5}, {"with\x1f separators\x1f", 17}, {"/", 1}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        hf_test_note("row %zu", i);
        struct hf_errand_text text;
        struct hf_slice by, reason;
        struct hf_slice asked = hf__errand_print(&arena, 's', HF_LIT(GRANT), names[i]);
        CHECK(hf__errand_parse(asked, &text));
        CHECK_INT(text.kind, 's');
        CHECK_SLICE(text.grant, HF_LIT(GRANT));
        CHECK_SLICE(text.name, names[i]);
        struct hf_slice order = hf__revocation_print(&arena, 'x', HF_LIT(GRANT), names[i],
                                                     HF_LIT("bo\x1fss"), HF_LIT("why: not"));
        CHECK(hf__revocation_parse(order, &text, &by, &reason));
        CHECK_SLICE(text.name, names[i]);
        CHECK_SLICE(by, HF_LIT("bo ss"));
        CHECK_SLICE(reason, HF_LIT("why: not"));
    }
    static const char *const bad[] = {"",
                                      "x",
                                      "x/" GRANT,
                                      "x/" GRANT "/",
                                      "y/" GRANT "/job",
                                      "x-" GRANT "/job",
                                      "x/" GRANT "-job"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_errand_text text;
        hf_test_note("bad %zu", i);
        CHECK(!hf__errand_parse(hf__slice_str(bad[i]), &text));
    }
    hf__arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_free_lock_is_written_whole),
        RUN(a_session_holder_leaves_no_lease_in_the_lock),
        RUN(what_was_written_is_read_back),
        RUN(a_renewal_and_a_takeover_depend_on_what_was_seen),
        RUN(a_release_keeps_the_token_and_the_data),
        RUN(a_sweep_takes_only_what_is_as_it_was_seen),
        RUN(sharing_counts_and_agrees_on_the_limit),
        RUN(names_that_cannot_be_locks_are_refused),
        RUN(what_a_session_is_asked_for_survives_any_name),
    };
    return RUN_TESTS(tests);
}
