/* Secondary indexes: a second key of a table's items, and the attributes that it shows. */
#ifndef HF_ITEM_INDEX_H
#define HF_ITEM_INDEX_H

#include "item/key.h"

enum hf_project { HF_PROJECT_ALL, HF_PROJECT_KEYS_ONLY, HF_PROJECT_INCLUDE };
enum { HF_PROJECTS = HF_PROJECT_INCLUDE + 1 };
extern const char *const hf__project_names[HF_PROJECTS];

enum { HF_GLOBAL_INDEXES_MOST = 20, HF_LOCAL_INDEXES_MOST = 5, HF_INCLUDED_MOST = 100 };

struct hf_index {
    struct hf_slice name;
    bool global;
    struct hf_key_schema schema;
    enum hf_project project;
    const struct hf_slice *included; /* INCLUDE: attributes besides the keys */
    size_t included_count;
    int64_t read_units; /* global: provisioned; both 0: on demand */
    int64_t write_units;
    int64_t slot; /* its number within its table: the embedded engine's */
    bool filling; /* items from before it are still being entered: it cannot be read */
};

struct hf_indexes {
    const struct hf_index *at;
    size_t count;
};

const struct hf_index *hf__index_find(struct hf_indexes indexes, struct hf_slice name);

/* Refuses the indexes of a new table. Names, keys, projections, numbers; DynamoDB's texts. */
int hf__indexes_check(struct hf_indexes indexes, const struct hf_key_schema *table, bool on_demand,
                      struct hf_error *reterr);

/* Key attributes of an index that an item has must fit; it need not have them. */
int hf__index_check_item(const struct hf_index *index, struct hf_item item,
                         struct hf_error *reterr);

/* Whether an item appears in the index: it has all its key attributes. */
bool hf__index_has(const struct hf_index *index, struct hf_item item);

/* Whether the index itself has the attribute: a key of the index or of the table, or projected. */
bool hf__index_shows(const struct hf_index *index, const struct hf_key_schema *table,
                     struct hf_slice name);

/* The part of an item that the index has. */
struct hf_item hf__index_project(struct hf_arena *arena, const struct hf_index *index,
                                 const struct hf_key_schema *table, struct hf_item item);

/* The key attributes of the index and of the table: what a page continues after. */
struct hf_item hf__index_key_of(struct hf_arena *arena, const struct hf_index *index,
                                const struct hf_key_schema *table, struct hf_item item);

/* Whether a start key has exactly those, of their types. */
bool hf__index_key_fits(const struct hf_index *index, const struct hf_key_schema *table,
                        struct hf_item key);

bool hf__indexes_equal(struct hf_indexes a, struct hf_indexes b);

#endif
