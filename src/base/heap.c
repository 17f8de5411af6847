#include "base/heap.h"

#include "base/alloc.h"

static void place(struct hf_heap *heap, struct hf_heap_node *node, size_t index)
{
    heap->nodes[index] = node;
    node->index = index;
}

static void sift_up(struct hf_heap *heap, struct hf_heap_node *node)
{
    size_t index = node->index;
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (heap->nodes[parent]->at <= node->at) break;
        place(heap, heap->nodes[parent], index);
        index = parent;
    }
    place(heap, node, index);
}

static void sift_down(struct hf_heap *heap, struct hf_heap_node *node)
{
    size_t index = node->index;
    for (;;) {
        size_t child = index * 2 + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && heap->nodes[child + 1]->at < heap->nodes[child]->at) child++;
        if (node->at <= heap->nodes[child]->at) break;
        place(heap, heap->nodes[child], index);
        index = child;
    }
    place(heap, node, index);
}

bool hf__heap_reserve(struct hf_heap *heap, size_t count)
{
    if (count <= heap->capacity) return true;
    size_t capacity = heap->capacity ? heap->capacity * 2 : 16;
    while (capacity < count) capacity *= 2;
    void *nodes = hf__realloc(heap->nodes, capacity * sizeof(struct hf_heap_node *));
    if (!nodes) return false;
    heap->nodes = nodes;
    heap->capacity = capacity;
    return true;
}

bool hf__heap_set(struct hf_heap *heap, struct hf_heap_node *node, int64_t at)
{
    if (!hf__heap_contains(node)) {
        if (!hf__heap_reserve(heap, heap->count + 1)) return false;
        place(heap, node, heap->count++);
    }
    node->at = at;
    sift_up(heap, node);
    sift_down(heap, node);
    return true;
}

void hf__heap_remove(struct hf_heap *heap, struct hf_heap_node *node)
{
    if (!hf__heap_contains(node)) return;
    struct hf_heap_node *last = heap->nodes[--heap->count];
    if (last != node) {
        place(heap, last, node->index);
        sift_up(heap, last);
        sift_down(heap, last);
    }
    node->index = HF_HEAP_OUTSIDE;
}

void hf__heap_free(struct hf_heap *heap)
{
    hf__free(heap->nodes);
    *heap = (struct hf_heap){0};
}
