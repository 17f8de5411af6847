/*
 * One operation on a table, and its answer, as they travel between the formats,
 * the stores and the wire.
 *
 * An operation is plain data; everything it points to lives in one arena and
 * stays until the answer has been given. So does the answer.
 */
#ifndef HF_ITEM_OP_H
#define HF_ITEM_OP_H

#include "base/error.h"
#include "base/store_time.h"
#include "item/condition.h"
#include "item/index.h"
#include "item/key.h"
#include "item/key_condition.h"
#include "item/projection.h"
#include "item/update.h"

enum hf_op_kind {
    HF_GET_ITEM,
    HF_PUT_ITEM,
    HF_UPDATE_ITEM,
    HF_DELETE_ITEM,
    HF_QUERY,
    HF_SCAN,
    HF_CREATE_TABLE,
    HF_DESCRIBE_TABLE,
    HF_DELETE_TABLE,
    HF_LIST_TABLES,
    HF_UPDATE_TTL,
    HF_DESCRIBE_TTL,
    HF_CONDITION_CHECK, /* only as a part of TRANSACT_WRITE */
    HF_BATCH_GET,
    HF_BATCH_WRITE,
    HF_TRANSACT_GET,
    HF_TRANSACT_WRITE,
    HF_UPDATE_TABLE,
    HF_TAG,
    HF_UNTAG,
    HF_LIST_TAGS,
};
enum { HF_OP_KINDS = HF_LIST_TAGS + 1 };

/* How many parts an operation of several may have, and their size together. */
enum {
    HF_BATCH_GET_MOST = 100,
    HF_BATCH_WRITE_MOST = 25,
    HF_TRANSACT_MOST = 100,
    HF_TRANSACT_MAX_SIZE = 4 * 1024 * 1024,
    HF_BATCH_MAX_SIZE = 16 * 1024 * 1024,
    HF_TAGS_MOST = 50,
};

/* "GetItem", "UpdateTimeToLive", … */
extern const char *const hf__op_names[HF_OP_KINDS];

enum hf_returns {
    HF_RETURN_NONE,
    HF_RETURN_ALL_OLD,
    HF_RETURN_ALL_NEW,
    HF_RETURN_UPDATED_OLD,
    HF_RETURN_UPDATED_NEW,
};
enum { HF_RETURNS_COUNT = HF_RETURN_UPDATED_NEW + 1 };
extern const char *const hf__returns_names[HF_RETURNS_COUNT];

enum hf_select {
    HF_SELECT_DEFAULT,
    HF_SELECT_ALL,
    HF_SELECT_PROJECTED,
    HF_SELECT_SPECIFIC,
    HF_SELECT_COUNT,
};
enum { HF_SELECTS = HF_SELECT_COUNT + 1 };
extern const char *const hf__select_names[HF_SELECTS];

/* How much of the consumed capacity an answer shows. */
enum hf_capacity_wish { HF_CAPACITY_NONE, HF_CAPACITY_TOTAL, HF_CAPACITY_INDEXES };
enum { HF_CAPACITY_WISHES = HF_CAPACITY_INDEXES + 1 };
extern const char *const hf__capacity_names[HF_CAPACITY_WISHES];

/* A change of one index by UPDATE_TABLE. */
enum hf_index_change_kind { HF_INDEX_CREATE, HF_INDEX_UPDATE, HF_INDEX_DELETE };
struct hf_index_change {
    enum hf_index_change_kind kind;
    struct hf_index index; /* UPDATE: name and units; DELETE: its name */
};

/* What CREATE_TABLE, UPDATE_TABLE and the operations on tags say beyond the key. */
struct hf_table_wishes {
    struct hf_indexes indexes;             /* CREATE_TABLE */
    const struct hf_index_change *changes; /* UPDATE_TABLE */
    size_t change_count;
    bool has_billing; /* UPDATE_TABLE: the units of the operation, or on demand */
    bool keeps_mode;  /* … the units only: a table on demand stays so */
    bool has_protection;
    bool protection;                 /* against deletion */
    struct hf_item tags;             /* CREATE_TABLE, TAG: names to S */
    const struct hf_slice *tag_keys; /* UNTAG */
    size_t tag_key_count;
};

struct hf_op {
    enum hf_op_kind kind;
    struct hf_slice table; /* all but LIST_TABLES and the operations of several parts */

    struct hf_item key;                   /* GET, UPDATE, DELETE */
    struct hf_item item;                  /* PUT */
    const struct hf_condition *condition; /* PUT, UPDATE, DELETE; NULL: none */
    const struct hf_update *update;       /* UPDATE; NULL or empty: only create the item */
    enum hf_returns returns;              /* PUT, DELETE: NONE or ALL_OLD; UPDATE: any */
    bool old_on_failure;                  /* a failed condition returns the item it saw */

    bool consistent; /* GET, QUERY, SCAN */
    bool is_legacy;  /* reads: AttributesToGet, QueryFilter or ScanFilter, to name them in errors */
    const struct hf_projection *projection; /* GET, QUERY, SCAN; NULL: everything */
    const struct hf_key_condition *where;   /* QUERY */
    const struct hf_condition *filter;      /* QUERY, SCAN; NULL: none */
    bool backward;                          /* QUERY: descending sort keys */
    bool has_limit;                         /* QUERY, SCAN, LIST_TABLES */
    int64_t limit;                          /* items looked at, at most */
    struct hf_item start_key;               /* QUERY, SCAN: continue after this; empty: begin */
    struct hf_slice start_table;            /* LIST_TABLES: likewise */
    struct hf_slice index;                  /* QUERY, SCAN: ptr NULL: the table itself */
    enum hf_select select;                  /* QUERY, SCAN */
    int64_t segment;                        /* SCAN: one of `segments`; 0 segments: all */
    int64_t segments;

    /* BATCH_…: GET, PUT or DELETE; TRANSACT_…: GET, or writes and CONDITION_CHECK. */
    const struct hf_op *parts;
    size_t part_count;
    struct hf_slice token; /* TRANSACT_WRITE: the same call is carried out once; empty: none */
    struct hf_slice fingerprint; /* … of all that it says */
    struct hf_slice caller;      /* … whose token it is; empty: anybody's */

    enum hf_capacity_wish capacity; /* on items */
    bool collection_metrics;        /* writes: tell the size of the item collection */

    struct hf_key_schema schema;          /* CREATE_TABLE */
    const struct hf_table_wishes *wishes; /* CREATE_TABLE, UPDATE_TABLE, TAG, UNTAG; NULL: none */
    int64_t read_units;                   /* CREATE_TABLE: provisioned; both 0: on demand */
    int64_t write_units;

    bool ttl_enabled;              /* UPDATE_TTL */
    struct hf_slice ttl_attribute; /* UPDATE_TTL */

    /*
     * Not 0: it only gives something up, which others may wait for under this hash. They may see it
     * before it is durable; its own answer still comes after.
     */
    uint64_t frees;

    /* How hard to try; 0 is the store's default. Not part of the request on the wire. */
    int attempts;
    int timeout_ms;
    /* QUERY, SCAN: bytes of items looked at, at most. DynamoDB's own 1 MiB holds in any case. */
    size_t page_bytes;
    /* GET, QUERY, SCAN: whole items may be answered as DynamoDB JSON, if the engine has them so. */
    bool takes_json;
};

struct hf_table_info {
    struct hf_slice name;
    struct hf_slice status; /* "ACTIVE", … */
    struct hf_key_schema schema;
    int64_t item_count; /* may lag behind; -1: not counted */
    int64_t size_bytes; /* likewise */
    bool on_demand;
    int64_t read_units;
    int64_t write_units;
    int64_t created_unix_ms;
    struct hf_indexes indexes;
    const int64_t *index_counts; /* items in each; NULL: not known */
    bool is_protected;           /* against deletion */
    struct hf_slice id;          /* a UUID; empty: not known */
};

/* Units that an operation consumed, in halves: an eventually consistent read costs one. */
struct hf_capacity {
    struct hf_slice table;
    int64_t halves; /* of the table itself */
    bool writes;
    const struct hf_index_units {
        struct hf_slice name;
        bool global;
        int64_t halves;
    } * indexes;
    size_t index_count;
};

/* The answer to an operation. Its kind determines which members are used. */
struct hf_answer {
    int code; /* 0, or error.code */
    struct hf_error error;
    bool at_once; /* refused for its own sake, whatever is stored */

    bool has_item; /* GET: found; writes: what `returns` or `old_on_failure` asked for */
    struct hf_item item;
    struct hf_slice json; /* GET that `takes_json`: the item; ptr NULL: it is in `item` */

    const struct hf_item *items;  /* QUERY, SCAN */
    const struct hf_slice *jsons; /* … that `takes_json`; NULL: they are in `items` */
    size_t count;
    int64_t scanned;
    struct hf_item last_key; /* QUERY, SCAN: not empty when there may be more */

    struct hf_table_info table; /* CREATE_TABLE, DESCRIBE_TABLE, DELETE_TABLE */

    const struct hf_slice *tables; /* LIST_TABLES */
    size_t table_count;
    struct hf_slice last_table; /* not empty when there are more */

    /* BATCH_…, TRANSACT_…: as many as the operation has. A part that was not done has `put_off`. */
    struct hf_answer *parts;
    size_t part_count;
    bool put_off;

    const struct hf_capacity *capacities; /* one for each table */
    size_t capacity_count;
    struct hf_item collection_key; /* of the item collection that was written to; empty: none */

    struct hf_item tags; /* LIST_TAGS */
    size_t size;         /* of the items in it, if the engine knows; 0: small, or unknown */

    struct hf_slice ttl_status; /* UPDATE_TTL, DESCRIBE_TTL: "ENABLED", "DISABLED", … */
    struct hf_slice ttl_attribute;

    /* When, by our boot clock: before the first send, before the last one, after the answer. */
    int64_t first_sent_boot_us;
    int64_t sent_boot_us;
    int64_t received_boot_us;
    int attempts;             /* how often it was sent */
    struct hf_interval store; /* the store's time when the answer was received */
    bool unavailable;         /* the store itself said so (503), at the last send */
    struct hf_slice request_id;
    struct hf_slice principal; /* our identity at a service, as an id; empty: none */
};

bool hf__op_is_write(const struct hf_op *op);

/* Whether it is made of parts, which are operations themselves. */
bool hf__op_has_parts(enum hf_op_kind kind);

/* Whether sending it again after an unknown outcome does no more harm than sending it once. */
bool hf__op_is_repeatable(const struct hf_op *op);

/*
 * Refuses what can be refused without knowing the table: shapes, limits,
 * expressions. The embedded engine and the DynamoDB endpoint check with it;
 * texts are DynamoDB's.
 */
int hf__op_check(const struct hf_op *op, struct hf_error *reterr);

int hf__table_name_check(struct hf_slice name, struct hf_error *reterr);
/* The same for an operation, in DynamoDB's words; those without a table pass. */
int hf__op_check_table(const struct hf_op *op, struct hf_error *reterr);

/* Equal as requests: for tests of the wire. */
bool hf__op_equal(const struct hf_op *a, const struct hf_op *b);

#endif
