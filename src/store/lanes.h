/*
 * Calls that wait for a thread of the embedded engine, in lanes that are served in turn: whoever has
 * many calls under way, or long ones, delays the others by one of them at a time. Lane 0 is the
 * protocol's, whose calls keep leases; the service puts each caller's into another one.
 *
 * The caller has a mutex. Calls of one lane stay in their order.
 */
#ifndef HF_STORE_LANES_H
#define HF_STORE_LANES_H

#include "store/store.h"

enum { HF_LANES = 64 };

struct hf_lanes {
    struct hf_list at[HF_LANES];
    unsigned next; /* whose turn it is */
    size_t count;
};

void hf__lanes_init(struct hf_lanes *lanes);
void hf__lanes_add(struct hf_lanes *lanes, struct hf_call *call);
/* The next one, or NULL; `own_first`: one of lane 0, if there is any. */
struct hf_call *hf__lanes_take(struct hf_lanes *lanes, bool own_first);
/* Before all others of their lanes: calls that were taken, in the order in which they were. */
void hf__lanes_put_back(struct hf_lanes *lanes, struct hf_list *calls);
/* The call with this id, which stays; NULL: it is not here. */
struct hf_call *hf__lanes_find(struct hf_lanes *lanes, uint64_t id);

#endif
