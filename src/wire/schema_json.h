/* A table's key as KeySchema and AttributeDefinitions, in requests and in answers. */
#ifndef HF_WIRE_SCHEMA_JSON_H
#define HF_WIRE_SCHEMA_JSON_H

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "item/key.h"

/* Both members, inside an open object. */
void hf__json_put_schema(struct hf_json_writer *w, const struct hf_key_schema *schema);

/* The two members come in any order and speak of the parts in any order: joined afterwards. */
struct hf_schema_parts {
    struct hf_slice hash_name;
    struct hf_slice range_name;
    struct {
        struct hf_slice name;
        struct hf_slice type;
    } defined[32];
    size_t defined_count; /* may exceed the room: then the rest was dropped */
};

bool hf__json_read_key_schema(struct hf_json_reader *r, struct hf_schema_parts *parts);
bool hf__json_read_definitions(struct hf_json_reader *r, struct hf_schema_parts *parts);

/* The joined schema; a part without a definition, or of a type that keys cannot have, is an error.
 */
int hf__schema_join(const struct hf_schema_parts *parts, struct hf_key_schema *ret,
                    struct hf_error *reterr);

#endif
