/*
 * The items that a connection has written last, as values: so a write that follows another one need
 * not read and parse the item again.
 *
 * Invariants
 * M1  What is found here is what SELECT would return. Within a transaction every write of an item
 *     through this connection is told here, and when one is undone everything is forgotten. (What
 *     is deleted with its table is not told: a table's number is never used again.)
 * M2  It outlives a transaction only if that was committed, and only until another connection
 *     writes. SQLite tells by the same version whether its own pages in memory are out of date.
 * M3  Nothing depends on it: it may forget at any time, and does when memory runs out.
 */
#ifndef HF_STORE_RECALL_H
#define HF_STORE_RECALL_H

#include "item/value.h"

/* An item's place. */
struct hf_recall_key {
    int64_t table_id;
    struct hf_slice pk;
    struct hf_slice sk;
};

struct hf_recall;

/* NULL: out of memory. The other functions accept NULL, which remembers nothing. */
struct hf_recall *hf__recall_new(void);
void hf__recall_free(struct hf_recall *recall);

/* A transaction has begun, on data of this version, or has been committed, and made this version. */
void hf__recall_begin(struct hf_recall *recall, unsigned version);
void hf__recall_commit(struct hf_recall *recall, unsigned version);

/* Copies the item into an arena; false: it is not remembered. */
bool hf__recall_find(struct hf_recall *recall, const struct hf_recall_key *key,
                     struct hf_arena *arena, struct hf_item *ret, size_t *ret_json_len);
/* The item has been written. Long ones are not kept. */
void hf__recall_keep(struct hf_recall *recall, const struct hf_recall_key *key, struct hf_item item,
                     size_t json_len);
/* The item is deleted. */
void hf__recall_drop(struct hf_recall *recall, const struct hf_recall_key *key);
/* Writes were undone. */
void hf__recall_clear(struct hf_recall *recall);

#endif
