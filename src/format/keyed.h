/*
 * Shared by the formats: operations on the item with a lock's key, attributes by type, ids that are
 * derived.
 */
#ifndef HF_FORMAT_KEYED_H
#define HF_FORMAT_KEYED_H

#include "format/format.h"

/* The key of a lock: prefix and name in the key's type, and the sort key if there is one. */
struct hf_item hf__keyed_key(const struct hf_layout *layout, struct hf_arena *arena,
                             struct hf_slice name);
void hf__keyed_get(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   struct hf_op *ret);
/* The whole item; the key is added. */
void hf__keyed_put(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   struct hf_item item, const struct hf_condition *condition, struct hf_op *ret);
struct hf_update *hf__keyed_update(const struct hf_layout *layout, struct hf_arena *arena,
                                   struct hf_slice name, const struct hf_condition *condition,
                                   struct hf_op *ret);
void hf__keyed_delete(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      const struct hf_condition *condition, struct hf_op *ret);

const struct hf_condition *hf__keyed_absent(const struct hf_layout *layout, struct hf_arena *arena);
const struct hf_condition *hf__keyed_exists(const struct hf_layout *layout, struct hf_arena *arena);

/* The attribute is as it was seen; absent if it was. */
const struct hf_condition *hf__keyed_same(struct hf_arena *arena, const char *name,
                                          struct hf_item seen);

struct hf_item hf__item_set(struct hf_arena *arena, struct hf_item item, const char *name,
                            struct hf_value value);
struct hf_item hf__item_set_all(struct hf_arena *arena, struct hf_item item, struct hf_item extra);

/*
 * 64 of the id's 128 bits, mixed with a salt: a program that knows the id recognizes it, and nobody
 * can derive the id from it.
 */
uint64_t hf__id_fold(const struct hf_id *id, uint64_t salt);

bool hf__keyed_name_of(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                       struct hf_slice *ret);

/* A key as text: numbers in decimal, bytes that are not text in hex after 0x. */
struct hf_slice hf__key_text(struct hf_arena *arena, const struct hf_value *key);
const char *hf__keyed_refuses_name(struct hf_slice name);

/* Attributes by type; false if there is none, or of another type or out of range. */
bool hf__item_text(struct hf_item item, const char *name, struct hf_slice *ret);
bool hf__item_int(struct hf_item item, const char *name, int64_t least, int64_t *ret);
bool hf__item_bytes(struct hf_item item, const char *name, struct hf_slice *ret);

#endif
