/* How remote clients see records, and the translation of what they write back. */
#include <stdlib.h>
#include <string.h>

#include "format/remote_inside.h"

/* ---- keys ---- */

bool hf__remote_is_session(struct hf_slice key, struct hf_slice *ret_id)
{
    struct hf_slice prefix = HF_LIT(HF_SESSION_PREFIX);
    if (!hf__slice_starts(key, prefix)) return false;
    *ret_id = hf__slice_skip(key, prefix.len);
    return true;
}

struct hf_slice hf__remote_session_key(struct hf_arena *arena, struct hf_slice id)
{
    return hf__arena_printf(arena, HF_SESSION_PREFIX "%.*s", HF_FMT(id));
}

/* ---- secrets (R1) ---- */

/* Whether this text is among the condition's values: then the client knows it. */
bool hf__remote_shows(const struct hf_condition *condition, struct hf_slice text)
{
    if (!condition) return false;
    if (condition->op == HF_AND || condition->op == HF_OR || condition->op == HF_NOT)
        return hf__remote_shows(condition->left, text) || hf__remote_shows(condition->right, text);
    for (size_t i = 0; i < condition->count; i++) {
        const struct hf_operand *operand = &condition->operands[i];
        if (!operand->is_path && operand->value.type == HF_S &&
            hf__slice_eq(operand->value.bytes, text))
            return true;
    }
    return false;
}

/* "grant" and "session/grant" with the grant masked; other texts contain no secret. */
struct hf_slice hf__remote_mask(struct hf_arena *arena, struct hf_slice text)
{
    struct hf_holder holder = {.grant = text};
    struct hf_id id;
    char masked[HF_GRANT_TEXT + 1];
    hf__holdfast_member_parse(text, &holder);
    if (!hf__id_parse(holder.grant, &id)) return text;
    hf__id_mask(&id, masked);
    char *copy = hf__arena_str(arena, text);
    if (!copy) return HF_LIT("");
    memcpy(copy + text.len - HF_GRANT_TEXT, masked, HF_GRANT_TEXT);
    return hf__slice(copy, text.len);
}

static struct hf_slice mask_unless_shown(struct hf_arena *arena,
                                         const struct hf_condition *condition, struct hf_slice text)
{
    return hf__remote_shows(condition, text) ? text : hf__remote_mask(arena, text);
}

static const char *const secrets[] = {"grant", "intent", "forced", "released"};
enum { SECRETS = sizeof secrets / sizeof secrets[0] };

struct hf_item hf__remote_view_lock(struct hf_arena *arena, const struct hf_condition *condition,
                                    struct hf_item item)
{
    struct hf_values holders = hf__attr_holders(item);
    for (size_t i = 0; i < SECRETS; i++) {
        struct hf_slice text;
        if (hf__item_text(item, secrets[i], &text))
            item = hf__attr_with_text(arena, item, secrets[i],
                                      mask_unless_shown(arena, condition, text));
    }
    if (holders.count == 0) return item;
    struct hf_value *masked = hf__arena_zalloc(arena, holders.count, sizeof *masked);
    for (size_t i = 0; masked && i < holders.count; i++)
        masked[i] = hf__s(mask_unless_shown(arena, condition, holders.at[i].bytes));
    return masked ? hf__item_set(arena, item, "holders", hf__list(HF_SS, masked, holders.count))
                  : item;
}

bool hf__remote_is_owners(struct hf_slice owner, struct hf_item session)
{
    return owner.len == 0 || hf__slice_eq(hf__attr_text(session, "owner"), owner);
}

/* `asked` and `revoked` contain grants: only the session's owner sees them. */
struct hf_item hf__remote_view_session(struct hf_arena *arena, struct hf_slice owner,
                                       struct hf_item item)
{
    if (hf__remote_is_owners(owner, item)) return item;
    item = hf__item_with(arena, item, HF_LIT("asked"), NULL);
    return hf__item_with(arena, item, HF_LIT("revoked"), NULL);
}

struct hf_item hf__remote_view(const struct hf_layout *layout, struct hf_arena *arena,
                               struct hf_slice owner, struct hf_item item)
{
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    struct hf_slice id;
    if (key && key->type == HF_S && hf__remote_is_session(key->bytes, &id))
        return hf__remote_view_session(arena, owner, item);
    return hf__remote_view_lock(arena, NULL, item);
}

/* The member that a mask stands for; the text itself if there is none. */
struct hf_slice hf__remote_unmask_member(const struct hf_remote *remote, struct hf_slice text)
{
    struct hf_values holders = hf__attr_holders(remote->item);
    for (size_t i = 0; i < holders.count; i++)
        if (hf__slice_eq(hf__remote_mask(remote->arena, holders.at[i].bytes), text))
            return holders.at[i].bytes;
    return text;
}

/* The grant in `forced` is one of this record. */
static struct hf_slice unmask_forced(const struct hf_remote *remote, struct hf_slice text)
{
    struct hf_values holders = hf__attr_holders(remote->item);
    struct hf_slice grant = hf__attr_text(remote->item, "grant");
    if (grant.len && hf__slice_eq(hf__remote_mask(remote->arena, grant), text)) return grant;
    for (size_t i = 0; i < holders.count; i++) {
        struct hf_holder member;
        if (hf__holdfast_member_parse(holders.at[i].bytes, &member) &&
            hf__slice_eq(hf__remote_mask(remote->arena, member.grant), text))
            return member.grant;
    }
    return text;
}

/* Values that the client left as it saw them stay as they are. */
void hf__remote_unmask(struct hf_remote *remote, struct hf_item view)
{
    for (size_t i = 0; i < SECRETS; i++) {
        struct hf_slice text, before = hf__attr_text(view, secrets[i]);
        if (!hf__item_text(remote->changed, secrets[i], &text)) continue;
        struct hf_slice raw = text;
        if (before.len && hf__slice_eq(text, before)) raw = hf__attr_text(remote->item, secrets[i]);
        else if (strcmp(secrets[i], "forced") == 0) raw = unmask_forced(remote, text);
        remote->changed = hf__attr_with_text(remote->arena, remote->changed, secrets[i], raw);
    }
}

/* ---- sets ---- */

static int by_order(const void *a, const void *b)
{
    return hf__value_order(a, b);
}

static struct hf_values sorted(struct hf_arena *arena, struct hf_values set)
{
    if (set.count == 0 || hf__values_sorted(set)) return set;
    struct hf_value *copy = hf__arena_alloc(arena, set.count * sizeof *copy);
    if (!copy) return (struct hf_values){0};
    memcpy(copy, set.at, set.count * sizeof *copy);
    qsort(copy, set.count, sizeof *copy, by_order);
    return (struct hf_values){copy, set.count};
}

struct hf_difference hf__remote_compare(struct hf_arena *arena, struct hf_values before,
                                        struct hf_values after)
{
    struct hf_difference ret = {0};
    struct hf_values old = sorted(arena, before), next = sorted(arena, after);
    size_t i = 0, k = 0;
    while (i < old.count || k < next.count) {
        int order = i == old.count    ? 1
                    : k == next.count ? -1
                                      : hf__value_order(&old.at[i], &next.at[k]);
        if (order < 0) {
            ret.removed++;
            ret.gone = old.at[i].bytes;
        } else if (order > 0) {
            ret.added++;
            ret.new = next.at[k].bytes;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return ret;
}

/* The set without what is gone, and with what is new; removed if nothing is left. */
struct hf_item hf__remote_replace(struct hf_arena *arena, struct hf_item item, const char *name,
                                  struct hf_values set, struct hf_difference difference)
{
    struct hf_value *values = hf__arena_zalloc(arena, set.count + 1, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; values && i < set.count; i++)
        if (!difference.removed || !hf__slice_eq(set.at[i].bytes, difference.gone))
            values[count++] = set.at[i];
    if (values && difference.added) values[count++] = hf__s(difference.new);
    struct hf_value value = hf__list(HF_SS, values, count);
    return hf__item_with(arena, item, hf__slice_str(name), count ? &value : NULL);
}
