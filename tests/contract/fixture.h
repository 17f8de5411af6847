/*
 * The contract of store.h runs unchanged on memory:, on file: and on DynamoDB
 * Local: HOLDFAST_TEST_STORE names the store. Every test makes a table of its
 * own and deletes it. Where DynamoDB Local differs from the documented service,
 * the documented behaviour is what is asserted, and a comment says so.
 */
#ifndef HF_CONTRACT_FIXTURE_H
#define HF_CONTRACT_FIXTURE_H

#include "harness/model.h"
#include "store/store.h"

#define KEY(text) "{\"key\":{\"S\":\"" text "\"}}"
#define PAIR(pk, sk) "{\"pk\":{\"S\":\"" pk "\"},\"sk\":{\"N\":\"" sk "\"}}"

/* The usual table, and one with a sort key: "key" S; "pk" S and "sk" N. */
extern const struct hf_key_schema by_key;
extern const struct hf_key_schema by_pair;

/* Of the running test. */
extern struct hf_store *store;
extern struct hf_arena arena;
extern char table[64];

#define RUN_CONTRACT(tests) run_contract(tests, COUNT_OF(tests), argc, argv)
int run_contract(const struct hf_test *tests, size_t count, int argc, char **argv);

struct hf_op new_op(enum hf_op_kind kind);
/* Runs an operation; the answer lives until the test ends. */
struct hf_answer run(struct hf_op op);
struct hf_answer good(struct hf_op op);
void refused(struct hf_op op, int code);
/* In the service's own words; DynamoDB Local has others for some. */
void refused_saying(struct hf_op op, int code, const char *message);
void open_store(void);
void with_table(const struct hf_key_schema *schema);
void with_table_and(const struct hf_key_schema *schema, const struct hf_table_wishes *wishes);
void finish(void);
struct hf_op put_op(const char *item);
void put(const char *item);
struct hf_op get_op(const char *key);
struct hf_op delete_op(const char *key);
struct hf_op update_op(const char *key, const char *text, const char *values);
/* An item's JSON, "" when it does not exist. */
const char *stored(const char *key);
/* An item with more attributes than its key. */
const char *with_key(const char *attributes);

#endif
