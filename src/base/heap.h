/*
 * Intrusive binary heap ordered by a 64-bit time: the timers of an event loop.
 *
 * Invariants: heap->nodes[node->index] == node for every node inside, and
 * node->index == HF_HEAP_OUTSIDE for every other one. Only insertion can fail.
 */
#ifndef HF_BASE_HEAP_H
#define HF_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_HEAP_OUTSIDE ((size_t)-1)

struct hf_heap_node {
    int64_t at;
    size_t index;
};

struct hf_heap {
    struct hf_heap_node **nodes;
    size_t count;
    size_t capacity;
};

static inline void hf__heap_node_init(struct hf_heap_node *node)
{
    node->at = 0;
    node->index = HF_HEAP_OUTSIDE;
}

static inline bool hf__heap_contains(const struct hf_heap_node *node)
{
    return node->index != HF_HEAP_OUTSIDE;
}

/* The node that is due first, or NULL. */
static inline struct hf_heap_node *hf__heap_first(const struct hf_heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}

/* Makes room for `count` nodes in total, so that setting them cannot fail. */
bool hf__heap_reserve(struct hf_heap *heap, size_t count);

/* Inserts the node, or moves it if it is inside. False when out of memory (never on a move). */
bool hf__heap_set(struct hf_heap *heap, struct hf_heap_node *node, int64_t at);

/* A node that is not inside is left alone. */
void hf__heap_remove(struct hf_heap *heap, struct hf_heap_node *node);

void hf__heap_free(struct hf_heap *heap);

#endif
