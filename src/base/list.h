/*
 * Intrusive doubly linked list. The head is a node of its own; an element
 * embeds a node and is found again with HF_CONTAINER. No memory, no errors.
 */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hf_list {
    struct hf_list *next;
    struct hf_list *prev;
};

#define HF_CONTAINER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void hf__list_init(struct hf_list *list)
{
    list->next = list->prev = list;
}

static inline bool hf__list_empty(const struct hf_list *list)
{
    return list->next == list;
}

static inline void hf__list_append(struct hf_list *list, struct hf_list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

static inline void hf__list_prepend(struct hf_list *list, struct hf_list *node)
{
    hf__list_append(list->next, node);
}

/* Leaves the node pointing to itself, so that removing it twice is harmless. */
static inline void hf__list_remove(struct hf_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hf__list_init(node);
}

/* The first node, taken out; NULL when empty. */
static inline struct hf_list *hf__list_pop(struct hf_list *list)
{
    if (hf__list_empty(list)) return NULL;
    struct hf_list *node = list->next;
    hf__list_remove(node);
    return node;
}

/* Moves everything from one list to the end of another. */
static inline void hf__list_splice(struct hf_list *to, struct hf_list *from)
{
    if (hf__list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    hf__list_init(from);
}

#endif
