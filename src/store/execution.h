/*
 * Shared by the parts of the executor: one operation under way. Private to
 * execute.c, execute_table.c, execute_item.c and execute_page.c.
 */
#ifndef HF_STORE_EXECUTION_H
#define HF_STORE_EXECUTION_H

#include "item/op.h"
#include "store/database.h"

/* More than any key can have, so that the bytes 0xff stand above all of them. */
enum { HF_HIGHEST_KEY_SIZE = HF_HASH_KEY_MAX_SIZE + 1 };

struct hf_execution {
    struct hf_database *db;
    const struct hf_op *op;
    struct hf_arena *arena;
    struct hf_answer *answer;
    struct hf_error *error; /* &answer->error */
    int64_t now_unix_us;
    struct hf_table table;
    bool found; /* the item was there: it is replaced, not inserted */
};

/* A key's two columns. */
struct hf_columns {
    struct hf_slice pk;
    struct hf_slice sk;
};

/* execute_table.c */
int hf__x_find_table(struct hf_execution *x);
/* In the answer's arena, which outlives the connection's memory of the table. */
struct hf_key_schema hf__x_copy_schema(struct hf_execution *x);
int hf__x_create_table(struct hf_execution *x);
int hf__x_describe_table(struct hf_execution *x);
int hf__x_delete_table(struct hf_execution *x);
int hf__x_list_tables(struct hf_execution *x);
int hf__x_update_ttl(struct hf_execution *x);
int hf__x_describe_ttl(struct hf_execution *x);

/* execute_item.c */
struct hf_slice hf__x_sortable(struct hf_execution *x, const struct hf_value *value);
int hf__x_columns(struct hf_execution *x, struct hf_item item, struct hf_columns *ret);
/* A statement whose first three parameters are the table and the key. */
sqlite3_stmt *hf__x_prepare(struct hf_execution *x, enum hf_statement which,
                            const struct hf_columns *key);
int hf__x_item(struct hf_execution *x, sqlite3_stmt *row, struct hf_item *ret);
bool hf__x_expiry(const struct hf_execution *x, struct hf_item item, int64_t *ret);
int hf__x_get_item(struct hf_execution *x);
int hf__x_put_item(struct hf_execution *x);
int hf__x_update_item(struct hf_execution *x);
int hf__x_delete_item(struct hf_execution *x);

/* execute_page.c */
int hf__x_query(struct hf_execution *x);
int hf__x_scan(struct hf_execution *x);

#endif
