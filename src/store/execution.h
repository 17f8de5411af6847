/*
 * Shared by the parts of the executor: one operation under way. Private to
 * execute.c and execute_*.c.
 */
#ifndef HF_STORE_EXECUTION_H
#define HF_STORE_EXECUTION_H

#include "item/op.h"
#include "store/database.h"

/* More than any key can have, so that the bytes 0xff stand above all of them. */
enum { HF_HIGHEST_KEY_SIZE = HF_HASH_KEY_MAX_SIZE + 1 };

/*
 * What an operation has cost so far, all its parts together. Others wait meanwhile, so what would go
 * on for long ends early: a page, a batch, or, with an error, a transaction.
 */
struct hf_effort {
    const struct hf_arena *kept; /* the answer's */
    size_t kept_before;
    size_t loaded; /* the sizes of items */
    size_t
        looked; /* bytes of JSON, each again for every comparison that it is looked through for */
};

struct hf_execution {
    struct hf_database *db;
    const struct hf_op *op;
    struct hf_arena *arena;
    struct hf_answer *answer;
    struct hf_error *error; /* &answer->error */
    int64_t now_unix_us;
    struct hf_table table;
    bool found;           /* the item was there: it is replaced, not inserted */
    struct hf_slice json; /* of the item that was read last */
    struct hf_effort *effort;
    struct hf_capacity *spent;            /* NULL: nobody wants to know */
    struct hf_index_units *spent_indexes; /* … of each index of the table */
};

/* A key's two columns. */
struct hf_columns {
    struct hf_slice pk;
    struct hf_slice sk;
};

/* execute.c */
/* Counts an item that the operation looks at, which has so many bytes of JSON. */
void hf__x_effort(struct hf_execution *x, size_t json_size, struct hf_item item);
/* Whether it has read and compared, or has kept, so much that it had better end here. */
bool hf__x_is_tired(const struct hf_execution *x);
bool hf__x_is_full(const struct hf_execution *x);

/* execute_table.c */
int hf__x_find_table(struct hf_execution *x);
/* In the answer's arena, which outlives the connection's memory of the table. */
struct hf_key_schema hf__x_copy_schema(struct hf_execution *x);
int hf__x_create_table(struct hf_execution *x);
int hf__x_describe_table(struct hf_execution *x);
int hf__x_delete_table(struct hf_execution *x);
int hf__x_list_tables(struct hf_execution *x);
int hf__x_update_table(struct hf_execution *x);
int hf__x_tag(struct hf_execution *x);
int hf__x_untag(struct hf_execution *x);
int hf__x_list_tags(struct hf_execution *x);
/* The index at this slot can be read from now on. */
int hf__x_index_is_filled(struct hf_execution *x, int64_t slot);

/* execute_ttl.c */
int hf__x_update_ttl(struct hf_execution *x);
int hf__x_describe_ttl(struct hf_execution *x);

/* execute_item.c */
struct hf_slice hf__x_sortable(struct hf_execution *x, const struct hf_value *value);
int hf__x_columns(struct hf_execution *x, struct hf_item item, struct hf_columns *ret);
/* A statement whose first three parameters are the table and the key. */
sqlite3_stmt *hf__x_prepare(struct hf_execution *x, enum hf_statement which,
                            const struct hf_columns *key);
int hf__x_item(struct hf_execution *x, sqlite3_stmt *row, struct hf_item *ret);
/* The error of a read that is too long for this connection. */
int hf__x_decline(struct hf_execution *x);
bool hf__x_expiry(const struct hf_execution *x, struct hf_item item, int64_t *ret);
int hf__x_get_item(struct hf_execution *x);
int hf__x_put_item(struct hf_execution *x);
int hf__x_update_item(struct hf_execution *x);
int hf__x_delete_item(struct hf_execution *x);
int hf__x_check_condition(struct hf_execution *x);
/* Deletes an item and its entries in indexes. */
int hf__x_erase(struct hf_execution *x, const struct hf_columns *key, struct hf_item old);

/* `expires` NULL: never. */
int hf__x_set_expiry(struct hf_execution *x, const struct hf_columns *key, const int64_t *expires);

/* execute_chore.c */
enum hf_chore_kind {                    /* kept in files */
                     HF_CHORE_FILL = 1, /* an index, with all items of its table */
                     HF_CHORE_EMPTY,    /* the place of an index that was deleted */
                     HF_CHORE_DROP,     /* what is left of a table that was deleted */
                     HF_CHORE_EXPIRY, /* compute `expires` by a TTL attribute that was just named */
};
/* Does the first portion; if there is more, the rest follows. */
int hf__x_begin_chore(struct hf_execution *x, enum hf_chore_kind kind, int64_t slot,
                      bool *ret_more);
/* A slot of the table that no chore is about, and none above it. */
int hf__x_first_slot(struct hf_execution *x, int64_t *ret);

/* execute_index.c */
/* The key of an item in an index, which it has. */
void hf__x_index_columns(struct hf_execution *x, const struct hf_index *index, struct hf_item item,
                         struct hf_columns *ret);
/* Before a write: the item fits all indexes of its table. */
int hf__x_check_indexes(struct hf_execution *x, struct hf_item item);
/* After a write: entries follow the item; NULL: there was none, or is none any more. */
int hf__x_change_entries(struct hf_execution *x, const struct hf_columns *key,
                         const struct hf_item *old, const struct hf_item *new);
/* Enters an item into a new index, unless it does not fit. */
int hf__x_enter(struct hf_execution *x, const struct hf_index *index, const struct hf_columns *key,
                struct hf_item item);

/* execute_many.c */
int hf__x_many(struct hf_execution *x);

/* execute_capacity.c */
int hf__x_count_begin(struct hf_execution *x);
/* A read of so many bytes, of the table or, with a name, of an index. */
void hf__x_count_read(struct hf_execution *x, const struct hf_index *index, size_t size);
void hf__x_count_write(struct hf_execution *x, const struct hf_item *old,
                       const struct hf_item *new);
/* Joins what the parts of an operation consumed, by table. */
void hf__x_count_together(struct hf_execution *x, int times);

/* execute_page.c */
int hf__x_query(struct hf_execution *x);
int hf__x_scan(struct hf_execution *x);

#endif
