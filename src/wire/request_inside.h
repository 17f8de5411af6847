/* Shared by the readers of requests. Private to request_read.c, request_table.c, request_many.c. */
#ifndef HF_WIRE_REQUEST_INSIDE_H
#define HF_WIRE_REQUEST_INSIDE_H

#include "wire/expr_parse.h"
#include "wire/legacy.h"
#include "wire/request.h"
#include "wire/schema_json.h"

/* One request, or one part of a request of several, while it is being read. */
struct hf_request {
    struct hf_json_reader *json;
    struct hf_op *op;
    const char *place; /* of a part, as in messages: "transactItems.1.member.put."; or "" */
    struct hf_slice condition, update, where, filter, projection; /* texts; ptr NULL: absent */
    struct hf_bindings bindings;
    bool has_names, has_values, has_key, has_item;
    struct hf_legacy_tests expected, key_conditions, legacy_filter;
    struct hf_legacy_changes changes;
    struct hf_projection attributes; /* AttributesToGet */
    struct hf_slice conditional_operator;
    bool has_segment, has_segments;
    bool is_foreign;                    /* the ARN is of another account or region */
    struct hf_definitions *definitions; /* of a table; NULL: none */
    struct hf_table_wishes wishes;
    bool has_billing, has_units, on_demand;
    const struct hf_item *keys; /* of one table in BatchGetItem */
    size_t key_count;
    bool any_attributes, any_projection; /* … of any of its tables */
};

typedef void (*hf_member_fn)(struct hf_request *r);

/* The members of an object, which is a request of its own or a part of one. */
int hf__request_read_object(struct hf_json_reader *json, const char *place, struct hf_op *op,
                            struct hf_request *r, struct hf_error *reterr);

/* request_table.c */
void hf__request_read_key_schema(struct hf_request *r);
void hf__request_read_definitions(struct hf_request *r);
void hf__request_read_billing(struct hf_request *r);
void hf__request_read_throughput(struct hf_request *r);
void hf__request_read_local_indexes(struct hf_request *r);
void hf__request_read_global_indexes(struct hf_request *r);
void hf__request_read_index_updates(struct hf_request *r);
void hf__request_read_protection(struct hf_request *r);
void hf__request_read_stream(struct hf_request *r);
void hf__request_read_tags(struct hf_request *r);
void hf__request_read_tag_keys(struct hf_request *r);
int hf__request_resolve_table(struct hf_request *r, struct hf_error *reterr);

/* request_many.c */
void hf__request_read_keys(struct hf_request *r);
void hf__request_read_batch(struct hf_request *r);
void hf__request_read_transaction(struct hf_request *r);

#endif
