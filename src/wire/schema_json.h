/*
 * Keys and indexes of tables as KeySchema, AttributeDefinitions, LocalSecondaryIndexes and
 * GlobalSecondaryIndexes, in requests and in answers.
 */
#ifndef HF_WIRE_SCHEMA_JSON_H
#define HF_WIRE_SCHEMA_JSON_H

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "item/index.h"

/* The types of attributes, which are told apart from the keys that use them. */
struct hf_definitions {
    struct {
        struct hf_slice name;
        struct hf_slice type;
    } at[64];
    size_t count; /* may exceed the room: then the rest was dropped */
};

/* KeySchema, inside an open object. */
void hf__json_put_key_schema(struct hf_json_writer *w, const struct hf_key_schema *schema);
/* AttributeDefinitions: of the table's key and of the indexes', each attribute once. */
void hf__json_put_definitions(struct hf_json_writer *w, const struct hf_key_schema *schema,
                              struct hf_indexes indexes);
/* The members of an index that both requests and answers have, inside its object. */
void hf__json_put_index(struct hf_json_writer *w, const struct hf_index *index);

/* Fill in the names; the types follow from hf__schema_resolve. */
bool hf__json_read_key_schema(struct hf_json_reader *r, struct hf_key_schema *ret);
bool hf__json_read_definitions(struct hf_json_reader *r, struct hf_definitions *ret);
/* One index, of which members that are not known are skipped. */
bool hf__json_read_index(struct hf_json_reader *r, struct hf_index *ret);
/* A list of indexes, appended to those that there are. */
bool hf__json_read_indexes(struct hf_json_reader *r, bool global, struct hf_indexes *list);
bool hf__json_read_units(struct hf_json_reader *r, int64_t *ret_read, int64_t *ret_write);

/* A name without a definition, or of a type that keys cannot have, is an error. */
int hf__schema_resolve(const struct hf_definitions *definitions, struct hf_key_schema *schema,
                       struct hf_error *reterr);

#endif
