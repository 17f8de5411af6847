/* Shared by remote.c, remote_view.c and remote_session.c, and private to them. */
#ifndef HF_FORMAT_REMOTE_INSIDE_H
#define HF_FORMAT_REMOTE_INSIDE_H

#include "format/holdfast.h"
#include "format/remote.h"

/* ---- attributes; what is missing, or of another type, is empty or 0 ---- */

static inline const struct hf_value *hf__attr(struct hf_item item, const char *name)
{
    return hf__item_get_str(item, name);
}

static inline struct hf_slice hf__attr_text(struct hf_item item, const char *name)
{
    struct hf_slice text = HF_LIT("");
    hf__item_text(item, name, &text);
    return text;
}

static inline int64_t hf__attr_int(struct hf_item item, const char *name)
{
    int64_t number = 0;
    hf__item_int(item, name, 0, &number);
    return number;
}

static inline struct hf_values hf__attr_set(struct hf_item item, const char *name)
{
    const struct hf_value *set = hf__attr(item, name);
    return set && set->type == HF_SS ? set->list : (struct hf_values){0};
}

static inline struct hf_values hf__attr_holders(struct hf_item item)
{
    return hf__attr_set(item, "holders");
}

static inline struct hf_item hf__attr_with_text(struct hf_arena *arena, struct hf_item item,
                                                const char *name, struct hf_slice text)
{
    return hf__item_set(arena, item, name, hf__s(text));
}

/* ---- remote_view.c ---- */

/* Whether this text is among the condition's values: then the client knows it. */
bool hf__remote_shows(const struct hf_condition *condition, struct hf_slice text);
/* "grant" and "session/grant" with the grant masked; other texts contain no secret. */
struct hf_slice hf__remote_mask(struct hf_arena *arena, struct hf_slice text);
/* A record as the client sees it: it sees the grants that it shows in `condition`. */
struct hf_item hf__remote_view_lock(struct hf_arena *arena, const struct hf_condition *condition,
                                    struct hf_item item);
struct hf_item hf__remote_view_session(struct hf_arena *arena, struct hf_slice owner,
                                       struct hf_item item);
bool hf__remote_is_owners(struct hf_slice owner, struct hf_item session);
/* The member that a mask stands for; the text itself if there is none. */
struct hf_slice hf__remote_unmask_member(const struct hf_remote *remote, struct hf_slice text);
/* Values that the client left as it saw them stay as they are. */
void hf__remote_unmask(struct hf_remote *remote, struct hf_item view);

/* How two sets of texts differ; of several that are new or gone, one of them. */
struct hf_difference {
    size_t added, removed;
    struct hf_slice new, gone;
};

struct hf_difference hf__remote_compare(struct hf_arena *arena, struct hf_values before,
                                        struct hf_values after);
/* The set without what is gone, and with what is new; removed if nothing is left. */
struct hf_item hf__remote_replace(struct hf_arena *arena, struct hf_item item, const char *name,
                                  struct hf_values set, struct hf_difference difference);

/* ---- remote.c ---- */

enum hf_remote_verdict hf__remote_deny(struct hf_remote *remote, const char *why);
/* Whether the attribute stays as it is. */
bool hf__remote_same(const struct hf_remote *remote, const char *name);
/* Nothing but these attributes is changed; `extra`: and what the format has no name for. */
bool hf__remote_changes_only(const struct hf_remote *remote, const char *const *names, bool extra);
/* A version with its lease, of a lock or a session; `had_ms` is the lease that it had before. */
const char *hf__remote_find_fault_in_lease(const struct hf_remote *remote, int64_t had_ms);
/* R4: from one version to the next, by a client that may do so. */
const char *hf__remote_find_fault_in_renewal(const struct hf_remote *remote);
/* R6: the name that a client gives itself tells programs of one owner apart. */
void hf__remote_set_owner(struct hf_remote *remote);

/* ---- remote_session.c ---- */

enum hf_remote_verdict hf__remote_judge_session(struct hf_remote *remote, struct hf_slice session);

#endif
