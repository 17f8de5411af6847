/*
 * Fencing a write in SQLite: the row remembers the largest token that wrote it,
 * and refuses smaller ones. Whoever lost the lock without noticing cannot
 * overwrite what came later. Usage: fence_sqlite STORE-URL DATABASE
 */
#include <holdfast.h>
#include <sqlite3.h>
#include <stdio.h>

/* True if the write was let through. */
static int write_fenced(sqlite3 *db, const char *value, long long token)
{
    sqlite3_stmt *statement;
    int done = 0;
    if (sqlite3_prepare_v2(db,
                           "INSERT INTO settings (name, value, token) VALUES ('mode', ?1, ?2) "
                           "ON CONFLICT (name) DO UPDATE SET value = ?1, token = ?2 "
                           "WHERE token <= ?2",
                           -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, value, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, token);
        done = sqlite3_step(statement) == SQLITE_DONE && sqlite3_changes(db) == 1;
    }
    sqlite3_finalize(statement);
    return done;
}

int main(int argc, char **argv)
{
    struct hf_error error;
    struct hf_client *client;
    struct hf_client_options options = {.size = sizeof options};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    sqlite3 *db;
    if (sqlite3_open(argc > 2 ? argv[2] : ":memory:", &db) != SQLITE_OK ||
        sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS settings (name PRIMARY KEY, value, token)",
                     NULL, NULL, NULL) != SQLITE_OK ||
        hf_client_new(&options, &client, &error) != 0)
        return 1;
    long long tokens[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        struct hf_lock *lock;
        if (hf_acquire(client, "settings", 5000, NULL, &lock, &error) != 0) return 1;
        tokens[i] = hf_lock_token(lock);
        hf_release(lock, NULL, NULL);
        hf_lock_unref(lock);
    }
    /* The second holder writes; then the first one wakes up from a long pause and tries to. */
    int second = write_fenced(db, "new", tokens[1]);
    int first = write_fenced(db, "old", tokens[0]);
    printf("token %lld: %s\ntoken %lld: %s\n", tokens[1], second ? "written" : "refused", tokens[0],
           first ? "written" : "refused");
    sqlite3_close(db);
    return hf_client_close(client, 0) != 0 || !second || first;
}
