/*
 * Parameters from before expressions: Expected, AttributeUpdates, KeyConditions, QueryFilter,
 * ScanFilter, AttributesToGet. They are translated into the conditions, updates and projections
 * that expressions have, so nothing after this file knows of them. Error texts are DynamoDB's.
 */
#ifndef HF_WIRE_LEGACY_H
#define HF_WIRE_LEGACY_H

#include "base/json_reader.h"
#include "item/condition.h"
#include "item/key_condition.h"
#include "item/projection.h"
#include "item/update.h"

/* How many attributes each of them may name. DynamoDB tells no limit. */
enum { HF_LEGACY_MOST = 1000 };

/* One attribute of Expected, KeyConditions, QueryFilter or ScanFilter, as it was sent. */
struct hf_legacy_test {
    struct hf_slice name;
    struct hf_slice comparison; /* ptr NULL: none */
    bool has_exists, exists;
    bool has_value, has_list;
    struct hf_value value;
    struct hf_values list;
};

struct hf_legacy_tests {
    const struct hf_legacy_test *at;
    size_t count;
    bool given;
};

struct hf_legacy_change {
    struct hf_slice name;
    struct hf_slice action; /* ptr NULL: PUT */
    bool has_value;
    struct hf_value value;
};

struct hf_legacy_changes {
    const struct hf_legacy_change *at;
    size_t count;
    bool given;
};

/* A boolean; old clients send it as a text. */
bool hf__json_read_flag(struct hf_json_reader *r, bool *ret);

bool hf__json_read_tests(struct hf_json_reader *r, struct hf_legacy_tests *ret);
bool hf__json_read_changes(struct hf_json_reader *r, struct hf_legacy_changes *ret);
bool hf__json_read_attributes(struct hf_json_reader *r, struct hf_projection *ret);

/* `expected`: the tests are those of Expected, which may have Exists and Value. */
int hf__legacy_condition(struct hf_arena *arena, const struct hf_legacy_tests *tests, bool any,
                         bool expected, const struct hf_condition **ret, struct hf_error *reterr);
int hf__legacy_key_condition(const struct hf_legacy_tests *tests, struct hf_key_condition *ret,
                             struct hf_error *reterr);
int hf__legacy_update(struct hf_arena *arena, const struct hf_legacy_changes *changes,
                      struct hf_update *ret, struct hf_error *reterr);

#endif
