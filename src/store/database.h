/*
 * One connection to the embedded engine's SQLite file: opening with all checks,
 * prepared statements, errors that name the file.
 *
 * The file belongs to holdfast if its application id says so. A file that is
 * anything else (another program's database, a text, a newer holdfast's) is
 * refused before a single byte of it is changed.
 */
#ifndef HF_STORE_DATABASE_H
#define HF_STORE_DATABASE_H

#include <sqlite3.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/slice.h"
#include "item/key.h"
#include "store/recall.h"
#include "wire/table_json.h"

enum hf_statement {
    HF_SQL_BEGIN_READ,
    HF_SQL_BEGIN_WRITE,
    HF_SQL_COMMIT,
    HF_SQL_ROLLBACK,
    HF_SQL_SAVEPOINT,
    HF_SQL_ROLLBACK_TO,
    HF_SQL_RELEASE,
    HF_SQL_TABLE,
    HF_SQL_TABLE_NAME,
    HF_SQL_TABLE_LIST,
    HF_SQL_TABLE_INSERT,
    HF_SQL_TABLE_DELETE,
    HF_SQL_TABLE_COUNT,
    HF_SQL_TABLE_COUNT_SOME,
    HF_SQL_TABLE_ITEMS_SOME,
    HF_SQL_TABLE_ITEMS_DELETE,
    HF_SQL_TABLE_ENTRIES_SOME,
    HF_SQL_TABLE_ENTRIES_DELETE,
    HF_SQL_UNITS_SET,
    HF_SQL_SPEC_SET,
    HF_SQL_TTL_SET,
    HF_SQL_EXPIRY_SET,
    HF_SQL_ITEM_GET,
    HF_SQL_ITEM_INSERT,
    HF_SQL_ITEM_REPLACE,
    HF_SQL_ITEM_DELETE,
    HF_SQL_QUERY_UP,
    HF_SQL_QUERY_DOWN,
    HF_SQL_SCAN,
    HF_SQL_ENTRY_INSERT,
    HF_SQL_ENTRY_DELETE,
    HF_SQL_ENTRY_COUNT,
    HF_SQL_ENTRIES_SOME,
    HF_SQL_ENTRIES_DELETE,
    HF_SQL_INDEX_QUERY_UP,
    HF_SQL_INDEX_QUERY_DOWN,
    HF_SQL_INDEX_SCAN,
    HF_SQL_TOKEN_GET,
    HF_SQL_TOKEN_INSERT,
    HF_SQL_TOKENS_DELETE,
    HF_SQL_CHORE_GET,
    HF_SQL_CHORE_INSERT,
    HF_SQL_CHORE_MOVE,
    HF_SQL_CHORE_DELETE,
    HF_SQL_CHORE_SLOT,
    HF_SQL_SWEEP,
    HF_SQL_META_GET,
    HF_SQL_META_SET,
    HF_SQL_META_RAISE,
};
enum { HF_SQL_COUNT = HF_SQL_META_RAISE + 1 };

struct hf_table {
    int64_t id; /* 0: none */
    struct hf_slice name;
    struct hf_key_schema schema;
    bool on_demand;
    int64_t read_units;
    int64_t write_units;
    struct hf_slice ttl_attribute; /* empty: TTL is off */
    int64_t created_unix_ms;
    struct hf_table_spec spec;
};

struct hf_database {
    sqlite3 *handle;
    char *name; /* the path, or "memory:"; for messages */
    sqlite3_stmt *statements[HF_SQL_COUNT];
    const struct hf_clock *clock;
    int busy_timeout_ms;
    int64_t busy_since_us;
    struct hf_table table; /* the last one used, for the rest of a transaction */
    struct hf_arena table_memory;
    struct hf_buf scratch;    /* for an item's JSON */
    struct hf_recall *recall; /* the writer's; NULL: it remembers nothing */
    size_t longest;           /* a read here: bytes of items, as JSON; 0: any */
    bool declined;            /* one was longer, and was not done */
    bool is_lax;              /* commits are not durable by themselves */
    bool has_chores;          /* there may be some; the writer's */
    bool has_log;             /* it may move the log into the file: lock_fd is locked */
    int lock_fd;              /* the writer's: of a file, to keep other processes out; -1: none */
    int patience_ms;          /* instead of the time-out, for a moment; 0: none */
    int64_t tried;            /* the length of the log when it was last moved into the file */
    int64_t chore_after;      /* chores up to this id cannot be done */
};

/*
 * Opens a file, creating it (mode 0600) when it is missing or empty. A path of
 * NULL is a database in memory. On failure nothing is left open. This connection
 * is the one that writes: it keeps the log short in relation to the data.
 */
int hf__database_open(struct hf_database *db, const char *path, const struct hf_clock *clock,
                      int busy_timeout_ms, struct hf_error *reterr);

/* Another connection to a file that is open already. */
int hf__database_reopen(struct hf_database *db, const struct hf_database *first,
                        struct hf_error *reterr);

void hf__database_close(struct hf_database *db);

/* The prepared statement, reset and without bindings; NULL with the error set. */
sqlite3_stmt *hf__database_prepare(struct hf_database *db, enum hf_statement which,
                                   struct hf_error *reterr);

/*
 * Lengthens a log that is shorter than usual, so that commits need not: they take a third less time
 * where the size of the file stays as it is. The caller syncs it.
 */
void hf__database_make_room(struct hf_database *db);

/* Prepares what reads or writes an item, so that the first one takes no longer than others. */
void hf__database_warm_up(struct hf_database *db);

/* Runs a statement that returns no rows. */
int hf__database_step(struct hf_database *db, sqlite3_stmt *statement, struct hf_error *reterr);
int hf__database_run(struct hf_database *db, enum hf_statement which, struct hf_error *reterr);

/* Forgets the table that was used last: another process may change it between transactions. */
void hf__database_forget(struct hf_database *db);

/* Whether its path leads to another file by now, or to none. */
bool hf__database_has_moved(struct hf_database *db);

/*
 * Begins a transaction that writes, and keeps other processes from moving the log into the file until
 * it ends. Up to SQLite 3.51.2 a log that is begun anew while it is being moved can lose commits
 * (sqlite.org/wal.html, "The WAL-Reset Bug"). So the log is moved only here: after a commit, by the
 * only process that may write at that moment.
 */
int hf__database_begin_write(struct hf_database *db, struct hf_error *reterr);
/* What is remembered outlives the transaction only if it ends with this. */
int hf__database_commit(struct hf_database *db, struct hf_error *reterr);

/* Moves the log into the file as far as nobody reads it, so that its room can be used again. */
void hf__database_checkpoint(struct hf_database *db);

/*
 * Whether a commit is durable when it returns, as usual; otherwise others see it at once, and
 * hf__database_sync makes it durable. Not within a transaction.
 */
int hf__database_set_durable(struct hf_database *db, bool durable, struct hf_error *reterr);
int hf__database_sync(struct hf_database *db, struct hf_error *reterr);

/* Ends a transaction that is open; harmless when none is. */
void hf__database_rollback(struct hf_database *db);

/* The connection's last error as one of ours, naming the file. `doing` completes "cannot …". */
int hf__database_error(struct hf_database *db, const char *doing, struct hf_error *reterr);

void hf__bind_blob(sqlite3_stmt *statement, int index, struct hf_slice bytes);
void hf__bind_text(sqlite3_stmt *statement, int index, struct hf_slice text);

/* A column's bytes; valid until the next step. */
struct hf_slice hf__column(sqlite3_stmt *statement, int index);

#endif
