#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "store/place.h"
#include "wire/item_json.h"

enum {
    APPLICATION_ID = 0x68666474, /* "hfdt" */
    SCHEMA_VERSION = 2,
    SPIN_US = 150,
    LONGEST_PAUSE_US = 8000,
    LOG_BYTE = 3, /* of PATH-open; see timeline.c and line.c for others */
    SHORT_LOG = 256 * 1024,
    LOG_ROOM = 250 * 1024, /* of a log: still a short one */
};

/*
 * pk and sk hold the key in a form whose bytes sort as the key does; a table
 * without a sort key has an empty sk. The item is DynamoDB JSON, so that the
 * sqlite3 shell can show it. `expires` is the TTL attribute's value while TTL
 * is on.
 *
 * An entry of a secondary index is the second key of an item (ik, isk) and the
 * item's own; the item itself is stored once. `spec` tells the indexes of a
 * table, as JSON, and is empty for a table without any. `tokens` are those of
 * transactions, for ten minutes. `chores` is work that is not finished yet
 * (execute_chore.c).
 */
static const char schema[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE tables("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " hash_name TEXT NOT NULL, hash_type TEXT NOT NULL,"
    " range_name TEXT NOT NULL, range_type TEXT NOT NULL,"
    " read_units INTEGER NOT NULL, write_units INTEGER NOT NULL,"
    " ttl_attribute TEXT NOT NULL, created_unix_ms INTEGER NOT NULL);"
    "CREATE TABLE items("
    " table_id INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,"
    " expires INTEGER, item TEXT NOT NULL,"
    " PRIMARY KEY(table_id, pk, sk)) WITHOUT ROWID;"
    "CREATE INDEX items_expiry ON items(expires) WHERE expires IS NOT NULL;";

/* What the second version has added; files of the first are brought up to it when opened. */
static const char second_version[] =
    "ALTER TABLE tables ADD COLUMN spec TEXT NOT NULL DEFAULT '';"
    "CREATE TABLE entries("
    " table_id INTEGER NOT NULL, slot INTEGER NOT NULL, ik BLOB NOT NULL, isk BLOB NOT NULL,"
    " pk BLOB NOT NULL, sk BLOB NOT NULL,"
    " PRIMARY KEY(table_id, slot, ik, isk, pk, sk)) WITHOUT ROWID;"
    "CREATE TABLE tokens("
    " token TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, made_unix_ms INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE chores("
    " id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, table_id INTEGER NOT NULL,"
    " slot INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL);";

#define TABLE_COLUMNS                                                                              \
    "id, name, hash_name, hash_type, range_name, range_type, read_units, write_units,"             \
    " ttl_attribute, created_unix_ms, spec"

static const char *const texts[HF_SQL_COUNT] = {
    [HF_SQL_BEGIN_READ] = "BEGIN",
    [HF_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [HF_SQL_COMMIT] = "COMMIT",
    [HF_SQL_ROLLBACK] = "ROLLBACK",
    [HF_SQL_SAVEPOINT] = "SAVEPOINT op",
    [HF_SQL_ROLLBACK_TO] = "ROLLBACK TO op",
    [HF_SQL_RELEASE] = "RELEASE op",
    [HF_SQL_TABLE] = "SELECT " TABLE_COLUMNS " FROM tables WHERE name = ?1",
    [HF_SQL_TABLE_NAME] = "SELECT name FROM tables WHERE id = ?1",
    [HF_SQL_TABLE_LIST] = "SELECT name FROM tables WHERE name > ?1 ORDER BY name LIMIT ?2",
    [HF_SQL_TABLE_INSERT] =
        "INSERT INTO tables(name, hash_name, hash_type, range_name, range_type, read_units,"
        " write_units, ttl_attribute, created_unix_ms, spec)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', ?8, ?9)",
    [HF_SQL_TABLE_DELETE] = "DELETE FROM tables WHERE id = ?1",
    [HF_SQL_TABLE_COUNT] =
        "SELECT count(*), coalesce(sum(length(item)), 0) FROM items WHERE table_id = ?1",
    [HF_SQL_TABLE_COUNT_SOME] =
        "SELECT count(*), -1 FROM (SELECT 1 FROM items WHERE table_id = ?1 LIMIT ?2)",
    /* Each _SOME deletes the first ?2 rows if there are more, and otherwise none. */
    [HF_SQL_TABLE_ITEMS_SOME] =
        "DELETE FROM items WHERE table_id = ?1 AND (pk, sk) <"
        " (SELECT pk, sk FROM items WHERE table_id = ?1 ORDER BY pk, sk LIMIT 1 OFFSET ?2)",
    [HF_SQL_TABLE_ITEMS_DELETE] = "DELETE FROM items WHERE table_id = ?1",
    [HF_SQL_TABLE_ENTRIES_SOME] =
        "DELETE FROM entries WHERE table_id = ?1 AND (slot, ik, isk, pk, sk) <"
        " (SELECT slot, ik, isk, pk, sk FROM entries WHERE table_id = ?1"
        " ORDER BY slot, ik, isk, pk, sk LIMIT 1 OFFSET ?2)",
    [HF_SQL_TABLE_ENTRIES_DELETE] = "DELETE FROM entries WHERE table_id = ?1",
    [HF_SQL_UNITS_SET] = "UPDATE tables SET read_units = ?2, write_units = ?3 WHERE id = ?1",
    [HF_SQL_SPEC_SET] = "UPDATE tables SET spec = ?2 WHERE id = ?1",
    [HF_SQL_TTL_SET] = "UPDATE tables SET ttl_attribute = ?2 WHERE id = ?1",
    [HF_SQL_EXPIRY_SET] =
        "UPDATE items SET expires = ?4 WHERE table_id = ?1 AND pk = ?2 AND sk = ?3",
    [HF_SQL_ITEM_GET] = "SELECT item FROM items WHERE table_id = ?1 AND pk = ?2 AND sk = ?3",
    [HF_SQL_ITEM_INSERT] =
        "INSERT INTO items(table_id, pk, sk, expires, item) VALUES (?1, ?2, ?3, ?4, ?5)",
    [HF_SQL_ITEM_REPLACE] =
        "UPDATE items SET expires = ?4, item = ?5 WHERE table_id = ?1 AND pk = ?2 AND sk = ?3",
    [HF_SQL_ITEM_DELETE] = "DELETE FROM items WHERE table_id = ?1 AND pk = ?2 AND sk = ?3",
    [HF_SQL_QUERY_UP] =
        "SELECT item, pk, sk FROM items WHERE table_id = ?1 AND pk = ?2 AND sk >= ?3"
        " AND sk < ?4 ORDER BY sk",
    [HF_SQL_QUERY_DOWN] = "SELECT item, pk, sk FROM items WHERE table_id = ?1 AND pk = ?2"
                          " AND sk >= ?3 AND sk < ?4 ORDER BY sk DESC",
    [HF_SQL_SCAN] = "SELECT item, pk, sk FROM items WHERE table_id = ?1 AND (pk, sk) > (?2, ?3)"
                    " ORDER BY pk, sk",
    [HF_SQL_ENTRY_INSERT] = "INSERT OR REPLACE INTO entries(table_id, slot, ik, isk, pk, sk)"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [HF_SQL_ENTRY_DELETE] =
        "DELETE FROM entries WHERE table_id = ?1 AND slot = ?2 AND ik = ?3 AND isk = ?4"
        " AND pk = ?5 AND sk = ?6",
    [HF_SQL_ENTRY_COUNT] = "SELECT count(*) FROM"
                           " (SELECT 1 FROM entries WHERE table_id = ?1 AND slot = ?3 LIMIT ?2)",
    [HF_SQL_ENTRIES_SOME] =
        "DELETE FROM entries WHERE table_id = ?1 AND slot = ?3 AND (ik, isk, pk, sk) <"
        " (SELECT ik, isk, pk, sk FROM entries WHERE table_id = ?1 AND slot = ?3"
        " ORDER BY ik, isk, pk, sk LIMIT 1 OFFSET ?2)",
    [HF_SQL_ENTRIES_DELETE] = "DELETE FROM entries WHERE table_id = ?1 AND slot = ?3",
    /* ?4 and ?5 bound the sort key; ?6 to ?8 are the entry to continue after. */
    [HF_SQL_INDEX_QUERY_UP] =
        "SELECT i.item, i.pk, i.sk, e.ik, e.isk FROM entries e CROSS JOIN items i"
        " ON i.table_id = e.table_id AND i.pk = e.pk AND i.sk = e.sk"
        " WHERE e.table_id = ?1 AND e.slot = ?2 AND e.ik = ?3 AND e.isk < ?5"
        " AND (e.isk, e.pk, e.sk) > (?6, ?7, ?8) AND e.isk >= ?4 ORDER BY e.isk, e.pk, e.sk",
    [HF_SQL_INDEX_QUERY_DOWN] =
        "SELECT i.item, i.pk, i.sk, e.ik, e.isk FROM entries e CROSS JOIN items i"
        " ON i.table_id = e.table_id AND i.pk = e.pk AND i.sk = e.sk"
        " WHERE e.table_id = ?1 AND e.slot = ?2 AND e.ik = ?3 AND e.isk >= ?4"
        " AND (e.isk, e.pk, e.sk) < (?6, ?7, ?8) AND e.isk < ?5"
        " ORDER BY e.isk DESC, e.pk DESC, e.sk DESC",
    [HF_SQL_INDEX_SCAN] =
        "SELECT i.item, i.pk, i.sk, e.ik, e.isk FROM entries e CROSS JOIN items i"
        " ON i.table_id = e.table_id AND i.pk = e.pk AND i.sk = e.sk"
        " WHERE e.table_id = ?1 AND e.slot = ?2 AND (e.ik, e.isk, e.pk, e.sk) > (?3, ?4, ?5, ?6)"
        " ORDER BY e.ik, e.isk, e.pk, e.sk",
    [HF_SQL_TOKEN_GET] = "SELECT fingerprint FROM tokens WHERE token = ?1 AND made_unix_ms > ?2",
    [HF_SQL_TOKEN_INSERT] =
        "INSERT OR REPLACE INTO tokens(token, fingerprint, made_unix_ms) VALUES (?1, ?2, ?3)",
    [HF_SQL_TOKENS_DELETE] = "DELETE FROM tokens WHERE made_unix_ms <= ?1",
    [HF_SQL_CHORE_GET] =
        "SELECT id, kind, table_id, slot, pk, sk FROM chores WHERE id > ?1 ORDER BY id LIMIT 1",
    [HF_SQL_CHORE_INSERT] =
        "INSERT INTO chores(kind, table_id, slot, pk, sk) VALUES (?1, ?2, ?3, ?4, ?5)",
    [HF_SQL_CHORE_MOVE] = "UPDATE chores SET pk = ?2, sk = ?3 WHERE id = ?1",
    [HF_SQL_CHORE_DELETE] = "DELETE FROM chores WHERE id = ?1",
    [HF_SQL_CHORE_SLOT] = "SELECT coalesce(max(slot), -1) FROM chores WHERE table_id = ?1",
    [HF_SQL_SWEEP] =
        "SELECT t.name, i.item, i.pk, i.sk FROM items i JOIN tables t ON t.id = i.table_id"
        " WHERE i.expires IS NOT NULL AND i.expires < ?1 AND i.expires > ?2 LIMIT ?3",
    [HF_SQL_META_GET] = "SELECT value FROM meta WHERE name = ?1",
    [HF_SQL_META_SET] = "INSERT OR REPLACE INTO meta(name, value) VALUES (?1, ?2)",
    [HF_SQL_META_RAISE] = "UPDATE meta SET value = max(value, ?2) WHERE name = ?1",
};

/* ---- the log ---- */

/* A byte of PATH-open that no other lock covers; it belongs to this open file. */
static bool lock_log(struct hf_database *db, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = LOG_BYTE, .l_len = 1};
    if (fcntl(db->lock_fd, F_OFD_SETLK, &lock) != 0) return false;
    db->has_log = type != F_UNLCK;
    return true;
}

/* ---- errors ---- */

/* The error of SQLite or the system as one of our codes. */
static int error_code(int sqlite_code, int system_errno)
{
    if (system_errno == ENOSPC || system_errno == EDQUOT) return HF_ERR_FULL;
    if (system_errno == EROFS || system_errno == EACCES || system_errno == EPERM)
        return HF_ERR_READ_ONLY;
    switch (sqlite_code & 0xff) {
    case SQLITE_FULL: return HF_ERR_FULL;
    case SQLITE_READONLY:
    case SQLITE_PERM: return HF_ERR_READ_ONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT: return HF_ERR_DAMAGED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return HF_ERR_BUSY;
    case SQLITE_NOMEM: return HF_ERR_NO_MEMORY;
    default: return HF_ERR_IO;
    }
}

static const char *advice(int code)
{
    switch (code) {
    case HF_ERR_FULL: return "; free space on its file system";
    case HF_ERR_READ_ONLY: return "; make the file and its directory writable for this user";
    case HF_ERR_DAMAGED: return "; restore it from a backup, or move it away to start anew";
    case HF_ERR_BUSY: return "; another process keeps it locked";
    default: return "";
    }
}

int hf__database_error(struct hf_database *db, const char *doing, struct hf_error *reterr)
{
    int sqlite_code = sqlite3_extended_errcode(db->handle);
    int primary = sqlite_code & 0xff;
    bool asks_system = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
    int system_errno = asks_system ? sqlite3_system_errno(db->handle) : 0;
    int code = error_code(sqlite_code, system_errno);
    return hf__error_set(reterr, code, "cannot %s %s: %s%s%s%s", doing, db->name,
                         sqlite3_errmsg(db->handle), system_errno ? ": " : "",
                         system_errno ? strerror(system_errno) : "", advice(code));
}

static int refuse(struct hf_database *db, const char *why, struct hf_error *reterr)
{
    return hf__error_set(reterr, HF_ERR_DAMAGED,
                         "%s %s; it was left as it is. Choose another path for the store", db->name,
                         why);
}

/* ---- statements ---- */

sqlite3_stmt *hf__database_prepare(struct hf_database *db, enum hf_statement which,
                                   struct hf_error *reterr)
{
    sqlite3_stmt **statement = &db->statements[which];
    if (*statement) {
        sqlite3_reset(*statement);
        sqlite3_clear_bindings(*statement);
        return *statement;
    }
    int result = sqlite3_prepare_v3(db->handle, texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                    statement, NULL);
    if (result == SQLITE_OK) return *statement;
    hf__database_error(db, "read", reterr);
    return NULL;
}

void hf__database_warm_up(struct hf_database *db)
{
    static const enum hf_statement used[] = {
        HF_SQL_BEGIN_READ, HF_SQL_BEGIN_WRITE, HF_SQL_COMMIT,
        HF_SQL_ROLLBACK,   HF_SQL_TABLE,       HF_SQL_ITEM_GET,
        HF_SQL_META_RAISE, HF_SQL_ITEM_INSERT, HF_SQL_ITEM_REPLACE,
    };
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        hf__database_prepare(db, used[i], NULL); /* or later */
}

int hf__database_step(struct hf_database *db, sqlite3_stmt *statement, struct hf_error *reterr)
{
    int result = sqlite3_step(statement);
    if (result == SQLITE_DONE || result == SQLITE_ROW) {
        sqlite3_reset(statement);
        return 0;
    }
    int code = hf__database_error(db, "write to", reterr);
    sqlite3_reset(statement);
    return code;
}

int hf__database_run(struct hf_database *db, enum hf_statement which, struct hf_error *reterr)
{
    sqlite3_stmt *statement = hf__database_prepare(db, which, reterr);
    if (!statement) return reterr ? reterr->code : HF_ERR_IO;
    return hf__database_step(db, statement, reterr);
}

void hf__database_forget(struct hf_database *db)
{
    db->table = (struct hf_table){0};
    hf__arena_reset(&db->table_memory);
}

void hf__database_rollback(struct hf_database *db)
{
    if (!sqlite3_get_autocommit(db->handle)) hf__database_run(db, HF_SQL_ROLLBACK, NULL);
    if (db->has_log) lock_log(db, F_UNLCK);
}

void hf__bind_blob(sqlite3_stmt *statement, int index, struct hf_slice bytes)
{
    sqlite3_bind_blob64(statement, index, bytes.ptr ? bytes.ptr : "", bytes.len, SQLITE_STATIC);
}

void hf__bind_text(sqlite3_stmt *statement, int index, struct hf_slice text)
{
    sqlite3_bind_text64(statement, index, text.ptr ? text.ptr : "", text.len, SQLITE_STATIC,
                        SQLITE_UTF8);
}

struct hf_slice hf__column(sqlite3_stmt *statement, int index)
{
    const char *bytes = sqlite3_column_blob(statement, index);
    return hf__slice(bytes, (size_t)sqlite3_column_bytes(statement, index));
}

/* ---- opening ---- */

/*
 * SQLite's own busy handler sleeps for up to 100 ms and starves writers. This one looks again and
 * again for as long as a release takes, then after 50 to 250 µs. Hundreds of waiters would leave no
 * time to the process that they wait for, so the pauses grow to some milliseconds.
 */
static int wait_for_lock(void *user, int count)
{
    struct hf_database *db = user;
    int64_t now = hf__clock_boot_us(&hf__clock_system);
    if (count == 0) db->busy_since_us = now;
    int most_ms = db->patience_ms ? db->patience_ms : db->busy_timeout_ms;
    if (now - db->busy_since_us > (int64_t)most_ms * 1000) return 0;
    if (now - db->busy_since_us < SPIN_US) {
        sched_yield();
        return 1;
    }
    int64_t longest_us = 200 + (now - db->busy_since_us) / 16;
    if (longest_us > LONGEST_PAUSE_US) longest_us = LONGEST_PAUSE_US;
    usleep((useconds_t)(50 + hf__random_u64() % (uint64_t)longest_us));
    return 1;
}

static int exec(struct hf_database *db, const char *sql, const char *doing, struct hf_error *reterr)
{
    if (sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK) return 0;
    return hf__database_error(db, doing, reterr);
}

/* The first column of the first row as a number. */
static int ask(struct hf_database *db, const char *sql, int64_t *ret, struct hf_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) result = sqlite3_step(statement);
    int code = 0;
    if (result == SQLITE_ROW) *ret = sqlite3_column_int64(statement, 0);
    else code = hf__database_error(db, "open", reterr);
    sqlite3_finalize(statement);
    return code;
}

struct marks {
    int64_t objects, application, version;
};

/* All three from one moment: another process may be creating the file. */
static int read_marks(struct hf_database *db, struct marks *ret, struct hf_error *reterr)
{
    bool own = sqlite3_get_autocommit(db->handle);
    int code = own ? exec(db, "BEGIN", "open", reterr) : 0;
    if (code == 0) code = ask(db, "SELECT count(*) FROM sqlite_master", &ret->objects, reterr);
    if (code == 0) code = ask(db, "PRAGMA application_id", &ret->application, reterr);
    if (code == 0) code = ask(db, "PRAGMA user_version", &ret->version, reterr);
    bool not_a_database = code == HF_ERR_DAMAGED && sqlite3_errcode(db->handle) == SQLITE_NOTADB;
    if (own && !sqlite3_get_autocommit(db->handle)) {
        int back = exec(db, "ROLLBACK", "open", code == 0 ? reterr : NULL);
        if (code == 0) code = back;
    }
    return not_a_database ? refuse(db, "is not a holdfast store", reterr) : code;
}

/* What must be done to a file before it is used. */
enum age { CURRENT, EMPTY, OLD };

static int inspect(struct hf_database *db, enum age *ret, struct hf_error *reterr)
{
    struct marks marks = {0};
    int code = read_marks(db, &marks, reterr);
    if (code != 0) return code;
    bool empty = marks.objects == 0 && marks.application == 0 && marks.version == 0;
    *ret = empty ? EMPTY : marks.version == SCHEMA_VERSION ? CURRENT : OLD;
    if (empty) return 0;
    if (marks.application != APPLICATION_ID)
        return refuse(db, "is a database of another program", reterr);
    if (marks.version > SCHEMA_VERSION)
        return refuse(db, "was written by a newer holdfast, which has changed its layout", reterr);
    if (marks.version < 1) return refuse(db, "has an unknown schema version", reterr);
    return 0;
}

/*
 * The schema is created in rollback mode, in one transaction, before the switch
 * to WAL: so the main file identifies itself from its first moment on. An old
 * file is brought up to this version in one transaction, too; processes of the
 * version before that have it open go on.
 */
static int create_schema(struct hf_database *db, struct hf_error *reterr)
{
    char sql[128];
    enum age age = CURRENT;
    int code = exec(db, "BEGIN EXCLUSIVE", "open", reterr);
    if (code == 0) code = inspect(db, &age, reterr); /* another process may have been faster */
    if (code == 0 && age == EMPTY) code = exec(db, schema, "write to", reterr);
    if (code == 0 && age != CURRENT) {
        snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                 APPLICATION_ID, SCHEMA_VERSION);
        code = exec(db, second_version, "write to", reterr);
        if (code == 0) code = exec(db, sql, "write to", reterr);
    }
    if (code == 0) return exec(db, "COMMIT", "write to", reterr);
    if (!sqlite3_get_autocommit(db->handle)) exec(db, "ROLLBACK", "close", NULL);
    return code;
}

static int connect_to(struct hf_database *db, const char *path, bool create,
                      struct hf_error *reterr)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (create ? SQLITE_OPEN_CREATE : 0);
    if (sqlite3_open_v2(path ? path : ":memory:", &db->handle, flags, NULL) != SQLITE_OK) {
        if (!db->handle) return hf__error_no_memory(reterr);
        return hf__database_error(db, "open", reterr);
    }
    sqlite3_busy_handler(db->handle, wait_for_lock, db);
    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return hf__error_set(reterr, HF_ERR_READ_ONLY, "cannot write to %s%s", db->name,
                             advice(HF_ERR_READ_ONLY));
    return 0;
}

/* Another process may be about to switch to WAL or to checkpoint: those answers pass. */
static int configure(struct hf_database *db, struct hf_error *reterr)
{
    static const char settings[] = "PRAGMA journal_mode = WAL;"
                                   "PRAGMA synchronous = FULL;"
                                   "PRAGMA wal_autocheckpoint = 0;" /* see keep_log_short */
                                   "PRAGMA temp_store = MEMORY;"
                                   "PRAGMA trusted_schema = OFF;";
    return exec(db, settings, "open", reterr);
}

static int try_connection(struct hf_database *db, const char *path, bool create,
                          struct hf_error *reterr)
{
    enum age age = CURRENT;
    int code = connect_to(db, path, create, reterr);
    if (code == 0 && create) code = inspect(db, &age, reterr);
    if (code == 0 && age != CURRENT) code = create_schema(db, reterr);
    if (code == 0) code = configure(db, reterr);
    return code;
}

/*
 * While another process creates the file, switches it to WAL or recovers it,
 * SQLite may answer "busy" without asking our handler: so the whole is tried
 * again until the time is over.
 */
static int open_connection(struct hf_database *db, const char *path, bool create,
                           struct hf_error *reterr)
{
    int64_t deadline_us =
        hf__clock_boot_us(&hf__clock_system) + (int64_t)db->busy_timeout_ms * 1000;
    for (;;) {
        int code = try_connection(db, path, create, reterr);
        if (code != HF_ERR_BUSY || hf__clock_boot_us(&hf__clock_system) > deadline_us) return code;
        sqlite3_close(db->handle);
        db->handle = NULL;
        usleep((useconds_t)(500 + hf__random_u64() % 2000));
    }
}

bool hf__database_has_moved(struct hf_database *db)
{
    int moved = 0;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved;
}

/* Changes with every commit, by whomever. If it is not known, nothing can be remembered. */
static unsigned version_of(struct hf_database *db)
{
    unsigned version = 0;
    int result = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    if (result != SQLITE_OK) hf__recall_clear(db->recall);
    return version;
}

int hf__database_begin_write(struct hf_database *db, struct hf_error *reterr)
{
    int code = hf__database_run(db, HF_SQL_BEGIN_WRITE, reterr);
    if (code == 0) hf__recall_begin(db->recall, version_of(db));
    if (code != 0 || db->lock_fd < 0) return code;
    for (int count = 0; !lock_log(db, F_WRLCK); count++) {
        if (wait_for_lock(db, count)) continue;
        hf__database_rollback(db);
        return hf__error_set(reterr, HF_ERR_BUSY,
                             "cannot write to %s: another process keeps it locked", db->name);
    }
    return 0;
}

int hf__database_commit(struct hf_database *db, struct hf_error *reterr)
{
    int code = hf__database_run(db, HF_SQL_COMMIT, reterr);
    if (code == 0) hf__recall_commit(db->recall, version_of(db));
    return code;
}

void hf__database_checkpoint(struct hf_database *db)
{
    bool had_log = db->has_log;
    if (db->lock_fd >= 0 && !had_log && !lock_log(db, F_WRLCK)) return;
    sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (db->has_log && !had_log) lock_log(db, F_UNLCK);
}

int hf__database_set_durable(struct hf_database *db, bool durable, struct hf_error *reterr)
{
    if (db->is_lax == !durable) return 0;
    int code = exec(db, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                    "write to", reterr);
    if (code == 0) db->is_lax = !durable;
    return code;
}

/* NULL: there is none yet. */
static sqlite3_file *log_of(const struct hf_database *db)
{
    sqlite3_file *log = NULL;
    int result = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    return result == SQLITE_OK && log && log->pMethods ? log : NULL;
}

int hf__database_sync(struct hf_database *db, struct hf_error *reterr)
{
    sqlite3_file *log = log_of(db);
    int result = SQLITE_IOERR_FSYNC;
    if (log) result = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    if (result == SQLITE_OK) return 0;
    return hf__error_set(reterr, HF_ERR_IO, "cannot sync the log of %s: %s", db->name,
                         sqlite3_errstr(result));
}

/* Whether the log is there, and ends before its room does; where it ends. */
static bool lacks_room(sqlite3_file *log, sqlite3_int64 *ret_size)
{
    return log && log->pMethods->xFileSize(log, ret_size) == SQLITE_OK && *ret_size > 0 &&
           *ret_size < LOG_ROOM;
}

/*
 * Only within a write transaction nobody else appends to the log. Zeros are no frames to those who
 * read it.
 */
void hf__database_make_room(struct hf_database *db)
{
    static const char zeros[16 * 1024];
    sqlite3_file *log = log_of(db);
    sqlite3_int64 at = 0;
    struct hf_error ignored;
    if (db->lock_fd < 0 || !lacks_room(log, &at)) return;
    if (hf__database_begin_write(db, &ignored) != 0) return;
    int result = lacks_room(log, &at) ? SQLITE_OK : SQLITE_DONE;
    while (result == SQLITE_OK && at < LOG_ROOM) {
        int size = at + (int)sizeof zeros > LOG_ROOM ? (int)(LOG_ROOM - at) : (int)sizeof zeros;
        result = log->pMethods->xWrite(log, zeros, size, at);
        at += size;
    }
    hf__database_rollback(db);
}

/* How many pages the log may have: a megabyte, or four times the data, and 16 MB at most. */
static int64_t log_limit(const struct hf_database *db)
{
    enum { LEAST = 256, MOST = 4000, PAGE = 4096, TIMES = 4 };
    struct stat info;
    const char *file = sqlite3_db_filename(db->handle, "main");
    int64_t limit = file && stat(file, &info) == 0 ? TIMES * (info.st_size / PAGE) : LEAST;
    return limit < LEAST ? LEAST : limit > MOST ? MOST : limit;
}

/*
 * After each commit. A long log means few checkpoints, but it must not fill a small volume that has
 * little data. A log that has been moved into the file can begin again when nobody reads it, which
 * with many readers may take a while. So this is not tried after every commit; and if the log has
 * grown to twice its size, readers are kept out for a moment.
 */
static int keep_log_short(void *user, sqlite3 *handle, const char *name, int pages)
{
    enum { EVERY = 256, PATIENCE_MS = 50 };
    struct hf_database *db = user;
    (void)name;
    if (db->lock_fd < 0) return SQLITE_OK; /* the file is still being opened */
    if (pages < db->tried) db->tried = 0;  /* it has begun again */
    if (pages < db->tried + EVERY) return SQLITE_OK;
    int64_t limit = log_limit(db);
    if (pages < limit) return SQLITE_OK;
    db->tried = pages;
    if (pages < 2 * limit) {
        hf__database_checkpoint(db);
        return SQLITE_OK;
    }
    db->patience_ms = PATIENCE_MS;
    sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    db->patience_ms = 0;
    return SQLITE_OK;
}

int hf__database_open(struct hf_database *db, const char *path, const struct hf_clock *clock,
                      int busy_timeout_ms, struct hf_error *reterr)
{
    *db = (struct hf_database){.clock = clock, .busy_timeout_ms = busy_timeout_ms, .lock_fd = -1};
    hf__buf_init(&db->scratch, HF_ITEM_JSON_MAX);
    db->name = hf__strdup(path ? path : "memory:");
    db->recall = hf__recall_new();
    int code = db->name ? 0 : hf__error_no_memory(reterr);
    if (code == 0 && path) code = hf__place_prepare(path, reterr);
    if (code == 0) code = open_connection(db, path, true, reterr);
    if (code != 0) hf__database_close(db);
    else if (path) sqlite3_wal_hook(db->handle, keep_log_short, db);
    return code;
}

int hf__database_reopen(struct hf_database *db, const struct hf_database *first,
                        struct hf_error *reterr)
{
    *db = (struct hf_database){
        .clock = first->clock, .busy_timeout_ms = first->busy_timeout_ms, .lock_fd = -1};
    hf__buf_init(&db->scratch, HF_ITEM_JSON_MAX);
    db->name = hf__strdup(first->name);
    /*
     * By its own name: the process may have changed its directory since, and links may lead
     * elsewhere.
     */
    const char *file = sqlite3_db_filename(first->handle, "main");
    int code = db->name ? open_connection(db, file, false, reterr) : hf__error_no_memory(reterr);
    if (code != 0) hf__database_close(db);
    return code;
}

/*
 * The last process to close a file would move the whole log into it, which takes several syncs. A
 * short log can stay for the next process that opens the file: a short-lived command should not pay
 * for that each time.
 */
static void leave_short_log(struct hf_database *db)
{
    char path[4096];
    struct stat info;
    if (!db->handle || !db->name) return;
    const char *file = sqlite3_db_filename(db->handle, "main"); /* not a link to it */
    int len = snprintf(path, sizeof path, "%s-wal", file ? file : "");
    if (len < (int)sizeof path && stat(path, &info) == 0 && info.st_size < SHORT_LOG)
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

void hf__database_close(struct hf_database *db)
{
    leave_short_log(db);
    for (int i = 0; i < HF_SQL_COUNT; i++) sqlite3_finalize(db->statements[i]);
    sqlite3_close(db->handle);
    hf__arena_free(&db->table_memory);
    hf__buf_free(&db->scratch);
    hf__recall_free(db->recall);
    hf__free(db->name);
    *db = (struct hf_database){0};
}
