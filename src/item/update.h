/*
 * Updates: the changes that an UpdateItem makes to an item. SET, REMOVE, ADD
 * and DELETE on document paths, all right-hand sides read from the item as it
 * was before.
 */
#ifndef HF_ITEM_UPDATE_H
#define HF_ITEM_UPDATE_H

#include "base/arena.h"
#include "base/error.h"
#include "item/path.h"
#include "item/value.h"

enum hf_action_kind { HF_SET, HF_REMOVE, HF_ADD, HF_DELETE };
enum { HF_ACTION_KINDS = HF_DELETE + 1 };
extern const char *const hf__action_names[HF_ACTION_KINDS];

enum hf_term_kind { HF_TERM_PATH, HF_TERM_VALUE, HF_TERM_IF_NOT_EXISTS, HF_TERM_LIST_APPEND };

struct hf_term {
    enum hf_term_kind kind;
    struct hf_path path;         /* PATH, IF_NOT_EXISTS */
    struct hf_value value;       /* VALUE */
    const struct hf_term *first; /* IF_NOT_EXISTS: otherwise; LIST_APPEND: front */
    const struct hf_term *second;
};

struct hf_action {
    enum hf_action_kind kind;
    struct hf_path path;
    char sign;                  /* SET: '+', '-', or 0 when there is only the left term */
    const struct hf_term *left; /* SET */
    const struct hf_term *right;
    struct hf_value value; /* ADD, DELETE */
};

struct hf_update {
    struct hf_action *actions;
    size_t count;
    size_t capacity;
    bool is_legacy; /* it was AttributeUpdates, which have their own words for a wrong type */
};

/* Builders; `update` starts zeroed and grows in the arena. NULL, as of a failed arena, is ignored.
 */
void hf__update_add(struct hf_arena *arena, struct hf_update *update, struct hf_action action);
void hf__update_set(struct hf_arena *arena, struct hf_update *update, const char *name,
                    struct hf_value value);
void hf__update_remove(struct hf_arena *arena, struct hf_update *update, const char *name);
/* name := if_not_exists(name, start) + by */
void hf__update_count(struct hf_arena *arena, struct hf_update *update, const char *name,
                      int64_t start, int64_t by);
void hf__update_add_to(struct hf_arena *arena, struct hf_update *update, const char *name,
                       struct hf_value value);
void hf__update_delete_from(struct hf_arena *arena, struct hf_update *update, const char *name,
                            struct hf_value value);

const struct hf_term *hf__term_value(struct hf_arena *arena, struct hf_value value);

/* The updated item, sharing what did not change. DynamoDB's error texts. */
int hf__update_apply(struct hf_arena *arena, const struct hf_update *update, struct hf_item item,
                     struct hf_item *ret, struct hf_error *reterr);

/* Refuses what DynamoDB refuses before it looks at any item. */
int hf__update_check(const struct hf_update *update, struct hf_error *reterr);

bool hf__update_equal(const struct hf_update *a, const struct hf_update *b);

/*
 * Whether doing it twice in a row is the same as doing it once: false where a
 * number is counted up or a list is appended to.
 */
bool hf__update_is_repeatable(const struct hf_update *update);

#endif
