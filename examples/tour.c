/*
 * A tour of the store: one table, conditional writes, on whatever store is named.
 *
 *     tour [STORE-URL]        the default is memory:
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"
#include "wire/item_json.h"

static struct hf_store *store;
static struct hf_arena arena;

static void show_item(const char *label, struct hf_item item)
{
    struct hf_buf json;
    hf__buf_init(&json, HF_ITEM_JSON_MAX);
    hf__item_to_json(item, &json);
    const char *text = hf__buf_cstr(&json);
    printf("    %s %s\n", label, text ? text : "(out of memory)");
    hf__buf_free(&json);
}

/* Runs one operation and says what came of it. */
static int run(const char *what, struct hf_op op)
{
    struct hf_call call = {.op = op, .arena = &arena};
    op.table = call.op.table = hf__store_table(store);
    int code = hf__store_run(store, &call);
    printf("%-46s %s\n", what, code == 0 ? "ok" : hf_error_name(code));
    if (code != 0) printf("    %s\n", call.answer.error.message);
    if (call.answer.has_item) show_item(code == 0 ? "now" : "because it is", call.answer.item);
    return code;
}

/* DynamoDB makes a table in its own time; the embedded engine at once. */
static bool wait_for_table(void)
{
    for (int i = 0; i < 120; i++) {
        struct hf_call call = {.arena = &arena};
        call.op = (struct hf_op){.kind = HF_DESCRIBE_TABLE, .table = hf__store_table(store)};
        if (hf__store_run(store, &call) == 0 && hf__slice_is(call.answer.table.status, "ACTIVE"))
            return true;
        sleep(1);
    }
    return false;
}

/* Takes the lock "nightly-report" if nobody holds it: one conditional write. */
static struct hf_op take(struct hf_update *update, struct hf_attr *key, const char *owner)
{
    *key = (struct hf_attr){HF_LIT("key"), hf__s_str("nightly-report")};
    hf__update_set(&arena, update, "owner", hf__s_str(owner));
    hf__update_count(&arena, update, "token", 0, 1);
    return (struct hf_op){
        .kind = HF_UPDATE_ITEM,
        .key = {key, 1},
        .update = update,
        .condition = hf__cond_absent(&arena, "owner"),
        .returns = HF_RETURN_ALL_NEW,
        .old_on_failure = true,
    };
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "memory:";
    if (argc > 2 || url[0] == '-') {
        fprintf(stderr,
                "usage: tour [STORE-URL]   such as file:/tmp/try.db; the default is memory:\n");
        return 64;
    }
    struct hf_error error;
    struct hf_attr keys[3];
    struct hf_update updates[3] = {{0}};
    if (hf__store_open(url, NULL, &store, &error) != 0) {
        fprintf(stderr, "tour: %s\n", error.message);
        return EXIT_FAILURE;
    }
    printf("A tour of the store %s, table %.*s\n\n", url, HF_FMT(hf__store_table(store)));
    struct hf_op create = {.kind = HF_CREATE_TABLE,
                           .schema = {.hash_name = HF_LIT("key"), .hash_type = HF_S}};
    int code = run("create the table", create);
    if ((code == 0 || code == HF_ERR_TABLE_IN_USE) && wait_for_table()) {
        struct hf_op let_go = {.kind = HF_UPDATE_ITEM, .key = {&keys[0], 1}, .update = &updates[2]};
        hf__update_remove(&arena, &updates[2], "owner");
        run("alice takes the lock nightly-report", take(&updates[0], &keys[0], "alice"));
        code = run("bob tries the same", take(&updates[1], &keys[1], "bob"));
        run("alice lets go", let_go);
        code = code == HF_ERR_CONDITION
                   ? run("bob tries again", take(&(struct hf_update){0}, &keys[2], "bob"))
                   : HF_ERR_STORE;
        run("bob lets go", let_go);
        printf(
            "\nThe token grew with every grant: a resource that refuses smaller ones is safe.\n");
    }
    hf__store_close(store);
    hf__arena_free(&arena);
    return code == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
