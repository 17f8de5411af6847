/* Primary keys: their names in a table, and their values in an item. */
#ifndef HF_ITEM_KEY_H
#define HF_ITEM_KEY_H

#include "base/error.h"
#include "item/value.h"

struct hf_key_schema {
    struct hf_slice hash_name;
    enum hf_type hash_type;
    struct hf_slice range_name; /* empty: none */
    enum hf_type range_type;
};

static inline bool hf__schema_has_range(const struct hf_key_schema *schema)
{
    return schema->range_name.len > 0;
}

bool hf__schema_equal(const struct hf_key_schema *a, const struct hf_key_schema *b);

/* Whether names of tables and indexes may have all these characters. */
bool hf__is_table_text(struct hf_slice name);

bool hf__schema_is_key_name(const struct hf_key_schema *schema, struct hf_slice name);

/* The schema of a new table must be valid. */
int hf__schema_check(const struct hf_key_schema *schema, struct hf_error *reterr);

/* A key given by itself: exactly the schema's attributes, of its types and within its limits. */
int hf__key_check(const struct hf_key_schema *schema, struct hf_item key, struct hf_error *reterr);

/* The key attributes of a whole item are there and fit. */
int hf__key_check_item(const struct hf_key_schema *schema, struct hf_item item,
                       struct hf_error *reterr);

/* The key of an item that was checked. */
struct hf_item hf__key_of(struct hf_arena *arena, const struct hf_key_schema *schema,
                          struct hf_item item);

#endif
