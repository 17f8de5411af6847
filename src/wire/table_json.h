/*
 * Tables as DynamoDB describes them, and the part of a description that the embedded engine keeps
 * beside a table's key.
 */
#ifndef HF_WIRE_TABLE_JSON_H
#define HF_WIRE_TABLE_JSON_H

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "item/op.h"

/* The account and the region of a server that is in neither. */
#define HF_ARN_PREFIX "arn:aws:dynamodb:local:000000000000:table/"

/* A TableDescription. */
void hf__json_put_table(struct hf_json_writer *w, const struct hf_table_info *table);
bool hf__json_read_table(struct hf_json_reader *r, struct hf_table_info *ret);

/* [{"Key":…,"Value":…},…], in requests and in answers. */
void hf__json_put_tags(struct hf_json_writer *w, struct hf_item tags);
bool hf__json_read_tags(struct hf_json_reader *r, struct hf_item *ret);

/* The name of the table that a name or an ARN means. */
struct hf_slice hf__table_of_arn(struct hf_slice text);

/* What a table has beyond its key. A table with nothing of it has the empty text. */
struct hf_table_spec {
    struct hf_indexes indexes;
    bool is_protected;
    struct hf_item tags;
};

void hf__table_spec_write(const struct hf_table_spec *spec, const struct hf_key_schema *schema,
                          struct hf_buf *ret);
int hf__table_spec_read(struct hf_arena *arena, struct hf_slice text, struct hf_table_spec *ret,
                        struct hf_error *reterr);

#endif
