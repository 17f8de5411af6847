/* The client's table: creating it, checking it, and explaining what is wrong with it. */
#include <time.h>

#include "client/client.h"

enum { LOOKS = 300, LOOK_EVERY_MS = 200 };

static int describe(struct hf_client *client, struct hf_arena *arena, struct hf_call *call,
                    struct hf_error *reterr)
{
    *call = (struct hf_call){.arena = arena};
    call->op.kind = HF_DESCRIBE_TABLE;
    call->op.table = hf__core_options(client->core)->layout.table;
    return hf__client_run(client, call, reterr);
}

static bool is_active(const struct hf_table_info *info)
{
    return hf__slice_is(info->status, "ACTIVE") || hf__slice_is(info->status, "UPDATING");
}

static struct hf_slice ttl_name(const struct hf_client *client)
{
    return hf__slice_str(hf__core_options(client->core)->format->ttl_name);
}

static bool key_fits(const struct hf_client *client, const struct hf_table_info *info)
{
    const struct hf_layout *layout = &hf__core_options(client->core)->layout;
    return hf__slice_eq(info->schema.hash_name, layout->key_name) &&
           info->schema.hash_type == layout->key_type &&
           hf__slice_eq(info->schema.range_name, layout->sort_name) &&
           (!hf__schema_has_range(&info->schema) || info->schema.range_type == HF_S);
}

static int describe_table(struct hf_client *client, struct hf_table_status *ret,
                          struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_call call;
    struct hf_error error;
    struct hf_table_status status = {0};
    int code = describe(client, &arena, &call, &error);
    if (code == HF_ERR_NO_TABLE) {
        *ret = status;
        hf__arena_free(&arena);
        return 0;
    }
    if (code == 0) {
        status.exists = true;
        status.active = is_active(&call.answer.table);
        status.key_fits = key_fits(client, &call.answer.table);
        status.item_count = call.answer.table.item_count;
        call = (struct hf_call){.arena = &arena};
        call.op.kind = HF_DESCRIBE_TTL;
        call.op.table = hf__core_options(client->core)->layout.table;
        code = hf__client_run(client, &call, &error);
        status.ttl_enabled = code == 0 &&
                             hf__slice_starts(call.answer.ttl_status, HF_LIT("ENABL")) &&
                             hf__slice_eq(call.answer.ttl_attribute, ttl_name(client));
        if (code == HF_ERR_DENIED) code = 0; /* a client that may not ask can still lock */
    }
    if (code == 0) *ret = status;
    else if (reterr) *reterr = error;
    hf__arena_free(&arena);
    return code;
}

static int check_table(struct hf_client *client, struct hf_error *reterr)
{
    struct hf_table_status status;
    struct hf_slice table = hf__core_options(client->core)->layout.table;
    struct hf_slice key = hf__core_options(client->core)->layout.key_name;
    int code = describe_table(client, &status, reterr);
    if (code != 0) return code;
    if (!status.exists)
        return hf__error_set(reterr, HF_ERR_NO_TABLE, "there is no table \"%.*s\"", HF_FMT(table));
    if (!status.key_fits)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "the key of table \"%.*s\" is not what the format needs (\"%.*s\"); "
                             "use another table, or name its key with --key-name",
                             HF_FMT(table), HF_FMT(key));
    if (!status.active)
        return hf__error_set(reterr, HF_ERR_TABLE_IN_USE, "table \"%.*s\" is not ready yet",
                             HF_FMT(table));
    return 0;
}

static int wait_until_active(struct hf_client *client, struct hf_error *reterr)
{
    for (int i = 0; i < LOOKS; i++) {
        int code = check_table(client, reterr);
        if (code != HF_ERR_TABLE_IN_USE && code != HF_ERR_NO_TABLE) return code;
        struct timespec nap = {.tv_nsec = (long)LOOK_EVERY_MS * 1000000};
        nanosleep(&nap, NULL);
    }
    return hf__error_set(reterr, HF_ERR_TIMED_OUT,
                         "the table did not become ready within a minute");
}

static int enable_ttl(struct hf_client *client, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_call call = {.arena = &arena};
    call.op.kind = HF_UPDATE_TTL;
    call.op.table = hf__core_options(client->core)->layout.table;
    call.op.ttl_enabled = true;
    call.op.ttl_attribute = ttl_name(client);
    int code = hf__client_run(client, &call, reterr);
    hf__arena_free(&arena);
    return code;
}

static int create_table(struct hf_client *client, const struct hf_table_options *options,
                        struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_call call = {.arena = &arena};
    call.op.kind = HF_CREATE_TABLE;
    call.op.table = hf__core_options(client->core)->layout.table;
    call.op.schema = (struct hf_key_schema){
        .hash_name = hf__core_options(client->core)->layout.key_name,
        .hash_type = hf__core_options(client->core)->layout.key_type,
        .range_name = hf__core_options(client->core)->layout.sort_name,
        .range_type = HF_S,
    };
    call.op.read_units = options->read_units;
    call.op.write_units = options->write_units;
    int code = hf__client_run(client, &call, reterr);
    hf__arena_free(&arena);
    /* An earlier copy of the request may have created it. */
    if (code != 0 && code != HF_ERR_TABLE_IN_USE && code != HF_ERR_OUTCOME_UNKNOWN) return code;
    code = wait_until_active(client, reterr);
    struct hf_table_status status;
    if (code == 0) code = describe_table(client, &status, reterr);
    if (code == 0 && !status.ttl_enabled && ttl_name(client).len > 0) {
        code = enable_ttl(client, reterr);
        /* Another client may be doing the same. */
        if (code == HF_ERR_VALIDATION) {
            code = describe_table(client, &status, reterr);
            if (code == 0 && !status.ttl_enabled)
                code = hf__error_set(reterr, HF_ERR_VALIDATION,
                                     "the table's time to live could not be enabled");
        }
    }
    return code;
}

int hf__table_ensure(struct hf_client *client, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_call call;
    struct hf_error error;
    int code = describe(client, &arena, &call, &error);
    bool ready = code == 0 && is_active(&call.answer.table);
    hf__arena_free(&arena);
    if (ready) return 0;
    if (code != 0 && code != HF_ERR_NO_TABLE) {
        if (reterr) *reterr = error;
        return code;
    }
    const struct hf_table_options on_demand = {.size = sizeof on_demand};
    return create_table(client, &on_demand, reterr);
}

/* The public calls hold the client while they wait. */

int hf_table_describe(struct hf_client *client, struct hf_table_status *ret,
                      struct hf_error *reterr)
{
    if (!ret) return hf__error_set(reterr, HF_ERR_INVALID, "the pointer for the answer is NULL");
    int code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    code = describe_table(client, ret, reterr);
    hf__client_let_go(client);
    return code;
}

int hf_table_check(struct hf_client *client, struct hf_error *reterr)
{
    int code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    code = check_table(client, reterr);
    hf__client_let_go(client);
    return code;
}

int hf_table_create(struct hf_client *client, const struct hf_table_options *given,
                    struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_table_options, options, given);
    if (options.read_units < 0 || options.write_units < 0 ||
        (options.read_units == 0) != (options.write_units == 0))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "provisioned capacity needs read and write units, both positive");
    int code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    code = create_table(client, &options, reterr);
    hf__client_let_go(client);
    return code;
}

/* ---- sweeping ---- */

/* The operation that deletes an expired item; false if the item has not expired. */
static bool is_over(struct hf_client *client, struct hf_arena *arena, struct hf_item item,
                    int64_t now_unix_s, struct hf_op *ret)
{
    const struct hf_core_options *core = hf__core_options(client->core);
    const struct hf_format *format = core->format;
    struct hf_slice name;
    if (format->name_of(&core->layout, arena, item, &name)) {
        struct hf_record record;
        format->parse(&core->layout, arena, true, item, &record);
        if (hf__record_is_held(&record) || !record.ttl_unix_s || record.ttl_unix_s > now_unix_s)
            return false;
        format->sweep(&core->layout, arena, name, &record, ret);
        return true;
    }
    return format->sessions && format->sessions->sweep(&core->layout, arena, item, now_unix_s, ret);
}

static int sweep_page(struct hf_client *client, struct hf_call *scan, struct hf_arena *arena,
                      int64_t *deleted, struct hf_error *reterr)
{
    int code = hf__client_run(client, scan, reterr);
    int64_t now_s = scan->answer.store.lo_unix_us / 1000000;
    if (code == 0 && !scan->answer.store.known)
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the store does not report its time");
    for (size_t i = 0; code == 0 && i < scan->answer.count; i++) {
        struct hf_call call = {.arena = arena};
        if (!is_over(client, arena, scan->answer.items[i], now_s, &call.op)) continue;
        code = hf__client_run(client, &call, reterr);
        if (code == 0) ++*deleted;
        if (code == HF_ERR_CONDITION) code = 0; /* the lock is in use again */
    }
    return code;
}

int hf_table_sweep(struct hf_client *client, int64_t *ret_deleted, struct hf_error *reterr)
{
    int code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    struct hf_arena key = {0};
    struct hf_item start = {0};
    int64_t deleted = 0;
    if (!hf__core_options(client->core)->format->sweep)
        code = hf__error_set(reterr, HF_ERR_UNSUPPORTED,
                             "there is nothing to sweep: records of the format \"%s\" are deleted "
                             "when they are released, or stay for good",
                             hf__core_options(client->core)->format->name);
    for (bool more = true; code == 0 && more;) {
        struct hf_arena page = {0};
        struct hf_call scan = {.arena = &page};
        scan.op.kind = HF_SCAN;
        scan.op.table = hf__core_options(client->core)->layout.table;
        scan.op.consistent = true;
        scan.op.start_key = start;
        code = sweep_page(client, &scan, &page, &deleted, reterr);
        more = scan.answer.last_key.count > 0;
        struct hf_arena next = {0};
        if (code == 0 && more) start = hf__item_copy(&next, scan.answer.last_key);
        if (code == 0 && next.failed) code = hf__error_no_memory(reterr);
        hf__arena_free(&key);
        key = next;
        hf__arena_free(&page);
    }
    hf__arena_free(&key);
    hf__client_let_go(client);
    if (code == 0 && ret_deleted) *ret_deleted = deleted;
    return code;
}
