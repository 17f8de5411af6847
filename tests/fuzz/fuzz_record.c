/*
 * Records that others wrote, and what they ask a session for: whatever an item
 * holds, it is read without a crash, and nobody who stands in it is overlooked.
 */
#include "format/format.h"
#include "fuzz.h"
#include "wire/item_json.h"

static const struct hf_layout layout = {
    .table = {"locks", 5}, .key_name = {"key", 3}, .keep_s = 86400};

/* The native format: an attribute that says "held" is never taken for a free lock. */
static void look_at_native(struct hf_arena *arena, struct hf_item item)
{
    struct hf_record record;
    hf__format_holdfast.parse(&layout, arena, true, item, &record);
    if (hf__item_get_str(item, "grant") || hf__item_get_str(item, "holders"))
        MUST(hf__record_is_held(&record));
}

/* Every format: what would take a lock over depends on the record as it was seen. */
static void look_at_record(struct hf_arena *arena, const struct hf_format *format,
                           struct hf_item item)
{
    struct hf_layout its = layout;
    its.key_name = hf__slice_str(format->default_key);
    its.fencing = its.trust_clock = true;
    struct hf_record record;
    format->parse(&its, arena, true, item, &record);
    MUST(record.exists);
    MUST(!(record.exclusive && record.member_count > 0));
    MUST(!(record.damaged && (record.exclusive || record.member_count > 0)));
    MUST(record.liveness.lease_ms >= 0 && record.liveness.lease_ms <= HF_LEASE_MAX_MS);
    if (!record.exclusive) return;
    MUST(record.holder.grant.len > 0);
    struct hf_claim claim = {.name = HF_LIT("abc:def"), .owner = HF_LIT("fuzz"), .version = 1};
    struct hf_op op;
    struct hf_error error;
    claim.lease_ms = 1000;
    claim.expires_unix_ms = 1790000000000;
    claim.now_unix_ms = 1790000000000;
    if (!format->take) return;
    format->take(&its, arena, &claim, &record, &op);
    MUST(op.condition && hf__op_check(&op, &error) == 0);
    struct hf_item none = {0};
    MUST(!hf__condition_holds(op.condition, none));
    const struct hf_value *key = hf__item_get(item, its.key_name);
    if (key) MUST(hf__condition_holds(op.condition, item));
}

static void look_at_session(struct hf_arena *arena, struct hf_item item)
{
    struct hf_session_record session;
    struct hf_errand_text text;
    struct hf_slice by, reason;
    hf__format_holdfast.sessions->parse(&layout, arena, true, item, &session);
    MUST(session.exists != hf__session_is_buried(item));
    if (session.exists && !session.damaged)
        MUST(session.liveness.lease_ms > 0 && session.version_number > 0);
    for (size_t i = 0; i < session.asked.count; i++) {
        if (hf__errand_parse(session.asked.at[i].bytes, &text))
            MUST(hf__slice_eq(hf__errand_print(arena, text.kind, text.grant, text.name),
                              session.asked.at[i].bytes));
    }
    for (size_t i = 0; i < session.revoked.count; i++)
        hf__revocation_parse(session.revoked.at[i].bytes, &text, &by, &reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_item item;
    struct hf_error error;
    if (hf__item_from_json(&arena, hf__slice((const char *)data, size), &item, &error) == 0 &&
        hf__item_check(item, &error) == 0) {
        look_at_native(&arena, item);
        for (size_t i = 0; i < HF_FORMATS; i++) look_at_record(&arena, hf__format_at(i), item);
        look_at_session(&arena, item);
    }
    hf__arena_free(&arena);
    return 0;
}
