/* Attribute values and items as DynamoDB JSON: {"owner":{"S":"me"},"n":{"N":"7"}}. */
#ifndef HF_WIRE_ITEM_JSON_H
#define HF_WIRE_ITEM_JSON_H

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "item/value.h"

/*
 * Read from the current position. Strings may point into the document, which
 * must outlive the item. False with the reader failed; a fault that DynamoDB
 * reports as a validation error has that code.
 */
bool hf__json_read_value(struct hf_json_reader *r, struct hf_value *ret);
bool hf__json_read_item(struct hf_json_reader *r, struct hf_item *ret);

void hf__json_put_value(struct hf_json_writer *w, const struct hf_value *value);
void hf__json_put_item(struct hf_json_writer *w, struct hf_item item);

/* A whole document that is one item. */
int hf__item_from_json(struct hf_arena *arena, struct hf_slice document, struct hf_item *ret,
                       struct hf_error *reterr);
void hf__item_to_json(struct hf_item item, struct hf_buf *ret);

/* The longest document an item within DynamoDB's limits can take: large numbers are written out. */
enum { HF_ITEM_JSON_MAX = 32 * 1024 * 1024 };

#endif
