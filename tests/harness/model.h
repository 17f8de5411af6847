/*
 * Items, conditions and updates for tests: written as text, or generated from a
 * seed. What cannot be parsed fails the running test.
 */
#ifndef HF_TEST_MODEL_H
#define HF_TEST_MODEL_H

#include "harness/test.h"
#include "item/op.h"

/* {"n":{"N":"1"}} */
struct hf_item hf_test_item(struct hf_arena *arena, const char *json);
struct hf_value hf_test_value(struct hf_arena *arena, const char *json);

/* An expression over plain names; `values` is the JSON of its :placeholders, or NULL. */
const struct hf_condition *hf_test_condition(struct hf_arena *arena, const char *text,
                                             const char *values);
const struct hf_update *hf_test_update(struct hf_arena *arena, const char *text,
                                       const char *values);
const struct hf_projection *hf_test_projection(struct hf_arena *arena, const char *text);

/* The item as JSON text with attributes sorted by name: comparable with strcmp. */
const char *hf_test_show(struct hf_arena *arena, struct hf_item item);

/* Generated, small, and valid for DynamoDB. Attribute names come from a handful. */
struct hf_value hf_test_gen_value(struct hf_rng *rng, struct hf_arena *arena, int depth);
struct hf_item hf_test_gen_item(struct hf_rng *rng, struct hf_arena *arena);
const struct hf_condition *hf_test_gen_condition(struct hf_rng *rng, struct hf_arena *arena,
                                                 int depth);
const struct hf_update *hf_test_gen_update(struct hf_rng *rng, struct hf_arena *arena);
const struct hf_projection *hf_test_gen_projection(struct hf_rng *rng, struct hf_arena *arena);

#endif
