/* The parts of an item that an answer should have. */
#ifndef HF_ITEM_PROJECTION_H
#define HF_ITEM_PROJECTION_H

#include "item/path.h"
#include "item/update.h"

struct hf_projection {
    const struct hf_path *paths;
    size_t count;
};

/* The item cut down to the paths; what is not there is left out. */
struct hf_item hf__projection_apply(struct hf_arena *arena, const struct hf_projection *projection,
                                    struct hf_item item);

/* No path may overlap or conflict with another. */
int hf__projection_check(const struct hf_projection *projection, struct hf_error *reterr);

/*
 * The attributes of an item that an update writes, whole, where its path exists
 * in the item: what UPDATED_OLD and UPDATED_NEW show.
 */
struct hf_item hf__touched_attributes(struct hf_arena *arena, const struct hf_update *update,
                                      struct hf_item item);

bool hf__projection_equal(const struct hf_projection *a, const struct hf_projection *b);

#endif
