#include "store/lanes.h"

void hf__lanes_init(struct hf_lanes *lanes)
{
    *lanes = (struct hf_lanes){0};
    for (size_t i = 0; i < HF_LANES; i++) hf__list_init(&lanes->at[i]);
}

void hf__lanes_add(struct hf_lanes *lanes, struct hf_call *call)
{
    hf__list_append(&lanes->at[call->lane % HF_LANES], &call->node);
    lanes->count++;
}

static struct hf_call *pop(struct hf_lanes *lanes, unsigned lane)
{
    struct hf_list *node = hf__list_pop(&lanes->at[lane]);
    if (!node) return NULL;
    lanes->count--;
    return HF_CONTAINER(node, struct hf_call, node);
}

struct hf_call *hf__lanes_take(struct hf_lanes *lanes, bool own_first)
{
    if (lanes->count == 0) return NULL;
    struct hf_call *call = own_first ? pop(lanes, 0) : NULL;
    while (!call) {
        unsigned lane = lanes->next;
        lanes->next = (lanes->next + 1) % HF_LANES;
        call = pop(lanes, lane);
    }
    return call;
}

void hf__lanes_put_back(struct hf_lanes *lanes, struct hf_list *calls)
{
    while (!hf__list_empty(calls)) {
        struct hf_list *last = calls->prev;
        const struct hf_call *call = HF_CONTAINER(last, struct hf_call, node);
        hf__list_remove(last);
        hf__list_prepend(&lanes->at[call->lane % HF_LANES], last);
        lanes->count++;
    }
}

struct hf_call *hf__lanes_find(struct hf_lanes *lanes, uint64_t id)
{
    for (size_t i = 0; i < HF_LANES && lanes->count > 0; i++) {
        struct hf_list *calls = &lanes->at[i];
        for (struct hf_list *node = calls->next; node != calls; node = node->next) {
            struct hf_call *call = HF_CONTAINER(node, struct hf_call, node);
            if (call->id == id) return call;
        }
    }
    return NULL;
}
