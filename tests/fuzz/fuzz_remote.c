/*
 * Writes of clients that a service does not trust. Input: a record and a request, a line each.
 *
 * The client knows no grant of the record's (none of its texts may be in the request), its owner has
 * no session, nobody is found dead, and it may not force. So whatever it sends, who holds the lock,
 * until when, and under which token, stays as it is; and a free lock's token goes up by one or not at
 * all.
 */
#include <string.h>

#include "format/remote.h"
#include "fuzz.h"
#include "wire/item_json.h"
#include "wire/request.h"

static const struct hf_layout layout = {
    .table = {"locks", 5}, .key_name = {"key", 3}, .keep_s = 86400};

static bool finds_dead(void *user, const struct hf_liveness *liveness)
{
    (void)user;
    (void)liveness;
    return false;
}

static bool has(struct hf_slice text, struct hf_slice part)
{
    return part.len > 0 && memmem(text.ptr, text.len, part.ptr, part.len) != NULL;
}

/* Whether the request could have been made by somebody who knows a secret of the record's. */
static bool knows(struct hf_slice request, struct hf_item item)
{
    static const char *const names[] = {"grant", "intent", "forced", "released"};
    const struct hf_value *holders = hf__item_get_str(item, "holders");
    for (size_t i = 0; i < 4; i++) {
        const struct hf_value *value = hf__item_get_str(item, names[i]);
        if (value && value->type == HF_S && has(request, value->bytes)) return true;
    }
    for (size_t i = 0; holders && holders->type == HF_SS && i < holders->list.count; i++)
        if (has(request, holders->list.at[i].bytes)) return true;
    return memchr(request.ptr, '\\', request.len) != NULL; /* however it is spelt */
}

static bool is_same(struct hf_item before, struct hf_item after, const char *name)
{
    const struct hf_value *one = hf__item_get_str(before, name);
    const struct hf_value *other = hf__item_get_str(after, name);
    return one && other ? hf__value_equal(one, other) : !one && !other;
}

static void check(const struct hf_remote *remote)
{
    static const char *const kept[] = {"grant", "session", "version", "by",
                                       "lease", "expires", "token"};
    struct hf_record before, after;
    struct hf_arena *arena = remote->arena;
    hf__format_holdfast.parse(&layout, arena, remote->exists, remote->item, &before);
    hf__format_holdfast.parse(&layout, arena, remote->stays, remote->changed, &after);
    MUST(remote->stays);
    MUST(!before.damaged && !after.damaged);
    MUST(after.member_count >= before.member_count);
    MUST(after.member_count <= before.member_count + 1);
    for (size_t i = 0; before.exclusive && i < sizeof kept / sizeof kept[0]; i++)
        MUST(is_same(remote->item, remote->changed, kept[i]));
    int64_t step = after.token - before.token;
    MUST(!hf__item_get_str(remote->item, "token") || step == 0 || step == 1);
    bool gained =
        (after.exclusive && !before.exclusive) || after.member_count > before.member_count;
    if (gained) MUST(hf__slice_is(after.owner, "bob"));
    struct hf_op write;
    struct hf_error error;
    hf__remote_write(remote, &write);
    if (!arena->failed) MUST(write.condition && hf__condition_holds(write.condition, remote->item));
    struct hf_item written;
    if (!arena->failed &&
        hf__update_apply(arena, write.update, remote->exists ? remote->item : write.key, &written,
                         &error) == 0)
        MUST(hf__item_equal(written, remote->changed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_slice all = hf__slice((const char *)data, size);
    const char *newline = size ? memchr(all.ptr, '\n', all.len) : NULL;
    struct hf_item item = {0};
    struct hf_op op;
    struct hf_error error;
    if (!newline) return 0;
    struct hf_slice record = hf__slice(all.ptr, (size_t)(newline - all.ptr));
    struct hf_slice request = hf__slice_skip(all, record.len + 1);
    bool exists = record.len > 0;
    bool good = (!exists || hf__item_from_json(&arena, record, &item, &error) == 0) &&
                hf__request_read(&arena, HF_UPDATE_ITEM, request, &op, &error) == 0 &&
                hf__op_check(&op, &error) == 0 && op.key.count == 1;
    const struct hf_value *key = good ? hf__item_get_str(op.key, "key") : NULL;
    struct hf_slice session;
    if (good && exists) item = hf__item_with(&arena, item, HF_LIT("key"), key);
    if (!good || !key || key->type != HF_S || hf__remote_is_session(key->bytes, &session) ||
        knows(request, item)) {
        hf__arena_free(&arena);
        return 0;
    }
    struct hf_remote remote = {
        .layout = &layout,
        .arena = &arena,
        .owner = HF_LIT("bob"),
        .now = {true, 1790000000000000, 1790000000000000},
        .may_lock = true,
        .lease_max_ms = 60000,
        .finds_dead = finds_dead,
        .op = &op,
        .key = key->bytes,
        .exists = exists,
        .item = item,
    };
    static const struct hf_attr others[] = {{{"owner", 5}, {HF_S, .bytes = {"alice", 5}}}};
    enum hf_remote_verdict verdict = HF_REMOTE_DENIED;
    for (int i = 0; i < 4; i++) {
        verdict = hf__remote_judge(&remote);
        if (verdict != HF_REMOTE_NEEDS_SESSION) break;
        hf__remote_learn(&remote, true, true, (struct hf_item){others, 1});
    }
    MUST(verdict != HF_REMOTE_NEEDS_SESSION && verdict != HF_REMOTE_NEEDS_LOCK);
    if (verdict == HF_REMOTE_CHANGES) check(&remote);
    hf__arena_free(&arena);
    return 0;
}
