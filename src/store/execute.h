/* One operation on one connection: DynamoDB's behaviour over SQLite. */
#ifndef HF_STORE_EXECUTE_H
#define HF_STORE_EXECUTE_H

#include "item/op.h"
#include "store/database.h"

/*
 * Does what the operation says, inside the transaction that the caller has
 * begun, and fills the answer's code, error and content. Nothing is written
 * when the code is not 0.
 */
void hf__execute(struct hf_database *db, const struct hf_op *op, struct hf_arena *arena,
                 int64_t now_unix_us, struct hf_answer *answer);

/*
 * The writer's own work, each inside a transaction that the caller has begun; some of it, and
 * whether there may be more.
 *
 * Deletes items whose TTL lies before `now`, and not more than five years before, as DynamoDB does.
 */
int hf__execute_sweep(struct hf_database *db, int64_t now_unix_us, bool *ret_more,
                      struct hf_error *reterr);
/* Goes on with what operations on whole tables have left to do. */
bool hf__execute_has_chores(struct hf_database *db);
int hf__execute_chore(struct hf_database *db, int64_t now_unix_us, bool *ret_more,
                      struct hf_error *reterr);

#endif
