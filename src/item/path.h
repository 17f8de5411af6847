/* Document paths: a.b[3].c */
#ifndef HF_ITEM_PATH_H
#define HF_ITEM_PATH_H

#include "base/arena.h"
#include "base/error.h"
#include "item/value.h"

enum { HF_PATH_MAX_PARTS = 32, HF_PATH_TEXT_SIZE = 256 };

struct hf_path_part {
    bool is_index;
    uint32_t index;
    struct hf_slice name; /* unless is_index */
};

/* The first part is always a name. */
struct hf_path {
    const struct hf_path_part *parts;
    size_t count;
};

/* The path to a top-level attribute. */
struct hf_path hf__path(struct hf_arena *arena, struct hf_slice name);

/* The path to an entry of a map. */
struct hf_path hf__path_in(struct hf_arena *arena, const char *map, struct hf_slice name);

/* … and to a named member of that entry. */
struct hf_path hf__path_below(struct hf_arena *arena, struct hf_path path, struct hf_slice name);

/* The value at the path, or NULL. */
const struct hf_value *hf__path_get(struct hf_item item, struct hf_path path);

bool hf__path_equal(struct hf_path a, struct hf_path b);

/* Names bytewise, indexes by number, a path before what lies below it. */
int hf__path_order(struct hf_path a, struct hf_path b);

/* "[a, b, [3]]", as DynamoDB's messages show a path; cut if it does not fit. */
const char *hf__path_show(struct hf_path path, char ret[HF_PATH_TEXT_SIZE]);

/*
 * Two paths of one expression may not overlap (one leads through the other) nor
 * conflict (one takes a map where the other takes a list). `where` names the
 * expression in the message.
 */
int hf__paths_check(struct hf_path a, struct hf_path b, const char *where, struct hf_error *reterr);
/* The same for each two of many. */
typedef struct hf_path (*hf_nth_path_fn)(const void *user, size_t n);
int hf__paths_check_all(const void *user, hf_nth_path_fn nth, size_t count, const char *where,
                        struct hf_error *reterr);

#endif
