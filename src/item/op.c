#include "item/op.h"

const char *const hf__op_names[HF_OP_KINDS] = {
    [HF_GET_ITEM] = "GetItem",
    [HF_PUT_ITEM] = "PutItem",
    [HF_UPDATE_ITEM] = "UpdateItem",
    [HF_DELETE_ITEM] = "DeleteItem",
    [HF_QUERY] = "Query",
    [HF_SCAN] = "Scan",
    [HF_CREATE_TABLE] = "CreateTable",
    [HF_DESCRIBE_TABLE] = "DescribeTable",
    [HF_DELETE_TABLE] = "DeleteTable",
    [HF_LIST_TABLES] = "ListTables",
    [HF_UPDATE_TTL] = "UpdateTimeToLive",
    [HF_DESCRIBE_TTL] = "DescribeTimeToLive",
    [HF_CONDITION_CHECK] = "ConditionCheck",
    [HF_BATCH_GET] = "BatchGetItem",
    [HF_BATCH_WRITE] = "BatchWriteItem",
    [HF_TRANSACT_GET] = "TransactGetItems",
    [HF_TRANSACT_WRITE] = "TransactWriteItems",
    [HF_UPDATE_TABLE] = "UpdateTable",
    [HF_TAG] = "TagResource",
    [HF_UNTAG] = "UntagResource",
    [HF_LIST_TAGS] = "ListTagsOfResource",
};

const char *const hf__returns_names[HF_RETURNS_COUNT] = {
    [HF_RETURN_NONE] = "NONE",
    [HF_RETURN_ALL_OLD] = "ALL_OLD",
    [HF_RETURN_ALL_NEW] = "ALL_NEW",
    [HF_RETURN_UPDATED_OLD] = "UPDATED_OLD",
    [HF_RETURN_UPDATED_NEW] = "UPDATED_NEW",
};

const char *const hf__select_names[HF_SELECTS] = {
    [HF_SELECT_DEFAULT] = "",
    [HF_SELECT_ALL] = "ALL_ATTRIBUTES",
    [HF_SELECT_PROJECTED] = "ALL_PROJECTED_ATTRIBUTES",
    [HF_SELECT_SPECIFIC] = "SPECIFIC_ATTRIBUTES",
    [HF_SELECT_COUNT] = "COUNT",
};

const char *const hf__capacity_names[HF_CAPACITY_WISHES] = {
    [HF_CAPACITY_NONE] = "NONE",
    [HF_CAPACITY_TOTAL] = "TOTAL",
    [HF_CAPACITY_INDEXES] = "INDEXES",
};

bool hf__op_is_write(const struct hf_op *op)
{
    switch (op->kind) {
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN:
    case HF_DESCRIBE_TABLE:
    case HF_LIST_TABLES:
    case HF_DESCRIBE_TTL:
    case HF_BATCH_GET:
    case HF_TRANSACT_GET:
    case HF_LIST_TAGS: return false;
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TTL:
    case HF_CONDITION_CHECK:
    case HF_BATCH_WRITE:
    case HF_TRANSACT_WRITE:
    case HF_UPDATE_TABLE:
    case HF_TAG:
    case HF_UNTAG: break;
    }
    return true;
}

bool hf__op_has_parts(enum hf_op_kind kind)
{
    return kind >= HF_BATCH_GET && kind <= HF_TRANSACT_WRITE;
}

bool hf__op_is_repeatable(const struct hf_op *op)
{
    /* The second time the old item is another one. */
    if (op->returns == HF_RETURN_ALL_OLD || op->returns == HF_RETURN_UPDATED_OLD) return false;
    if (op->kind == HF_TRANSACT_WRITE && op->token.len == 0) return false;
    return op->kind != HF_UPDATE_ITEM || !op->update || hf__update_is_repeatable(op->update);
}

static int invalid(struct hf_error *reterr, const char *text)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION, "%s", text);
}

enum { NAME_LEAST = 3, NAME_MOST = 255 };

int hf__table_name_check(struct hf_slice name, struct hf_error *reterr)
{
    if (name.len >= NAME_LEAST && name.len <= NAME_MOST && hf__is_table_text(name)) return 0;
    return invalid(reterr,
                   "Invalid table/index name.  Table/index names must be between 3 and 255 "
                   "characters long, and may contain only the characters a-z, A-Z, 0-9, '_', "
                   "'-', and '.'");
}

/* Only a new table needs a name of three characters: no other is there to be found. */
int hf__op_check_table(const struct hf_op *op, struct hf_error *reterr)
{
    bool is_new = op->kind == HF_CREATE_TABLE;
    size_t least = is_new ? NAME_LEAST : 1;
    if (op->kind == HF_LIST_TABLES || hf__op_has_parts(op->kind)) return 0;
    if (!op->table.ptr)
        return invalid(reterr,
                       is_new ? "The parameter 'TableName' is required but was not present in the "
                                "request"
                              : "1 validation error detected: Value null at 'tableName' failed to "
                                "satisfy constraint: Member must not be null");
    const char *constraint = NULL;
    if (op->table.len < least)
        constraint = is_new ? "Member must have length greater than or equal to 3"
                            : "Member must have length greater than or equal to 1";
    else if (op->table.len > NAME_MOST)
        constraint = "Member must have length less than or equal to 255";
    else if (!hf__is_table_text(op->table))
        constraint = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+";
    if (!constraint) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "1 validation error detected: Value '%.*s' at 'tableName' failed to "
                         "satisfy constraint: %s",
                         HF_FMT(op->table), constraint);
}

static int check_returns(const struct hf_op *op, struct hf_error *reterr)
{
    if (op->kind == HF_UPDATE_ITEM || op->returns <= HF_RETURN_ALL_OLD) return 0;
    return invalid(reterr, "Return values set to invalid value");
}

static int check_put(const struct hf_op *op, struct hf_error *reterr)
{
    int code = hf__item_check(op->item, reterr);
    if (code == 0 && hf__item_size(op->item) > HF_ITEM_MAX_SIZE)
        return invalid(reterr, "Item size has exceeded the maximum allowed size");
    return code;
}

static int check_one_write(const struct hf_op *op, struct hf_error *reterr)
{
    int code = check_returns(op, reterr);
    if (code == 0) code = hf__item_check(op->key, reterr);
    if (code == 0 && op->condition)
        code = hf__condition_check(op->condition, "ConditionExpression", reterr);
    if (code == 0 && op->kind == HF_UPDATE_ITEM && op->update)
        code = hf__update_check(op->update, reterr);
    if (code == 0 && op->kind == HF_PUT_ITEM) code = check_put(op, reterr);
    return code;
}

/* Query has its own spelling of this. */
static int check_limit(const struct hf_op *op, struct hf_error *reterr)
{
    bool small = op->has_limit && op->limit < 1;
    bool large = op->kind == HF_LIST_TABLES && op->has_limit && op->limit > 100;
    if (!small && !large) return 0;
    if (op->kind == HF_QUERY)
        return invalid(reterr, "1 validation error detected: Value at 'Limit' failed to satisfy "
                               "constraint: Member must have value greater than or equal to 1");
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "1 validation error detected: Value '%lld' at 'limit' failed to satisfy "
                         "constraint: Member must have value %s than or equal to %d",
                         (long long)op->limit, small ? "greater" : "less", small ? 1 : 100);
}

static int check_select(const struct hf_op *op, struct hf_error *reterr)
{
    if (op->projection && op->select != HF_SELECT_DEFAULT && op->select != HF_SELECT_SPECIFIC)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION, "Cannot specify the %s when choosing to get %s",
            op->is_legacy ? "AttributesToGet" : "ProjectionExpression",
            op->select == HF_SELECT_COUNT ? "only the Count" : hf__select_names[op->select]);
    if (op->select == HF_SELECT_SPECIFIC && !op->projection)
        return invalid(reterr, "Must specify the AttributesToGet or ProjectionExpression when "
                               "choosing to get SPECIFIC_ATTRIBUTES");
    if (op->select == HF_SELECT_PROJECTED && !op->index.ptr)
        return invalid(reterr, "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an "
                               "IndexName");
    return 0;
}

static int check_segment(const struct hf_op *op, struct hf_error *reterr)
{
    enum { MOST = 1000000 };
    if (op->segments == 0 && op->segment == 0) return 0;
    if (op->segments < 1 || op->segments > MOST)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '%lld' at 'totalSegments' failed to satisfy "
            "constraint: Member must have value %s than or equal to %d",
            (long long)op->segments, op->segments < 1 ? "greater" : "less",
            op->segments < 1 ? 1 : MOST);
    if (op->segment < 0)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '%lld' at 'segment' failed to satisfy "
            "constraint: Member must have value greater than or equal to 0",
            (long long)op->segment);
    if (op->segment >= op->segments)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "The Segment parameter is zero-based and must be less than parameter "
                             "TotalSegments: Segment: %lld is not less than TotalSegments: %lld",
                             (long long)op->segment, (long long)op->segments);
    return 0;
}

static int check_where(const struct hf_op *op, struct hf_error *reterr)
{
    if (!op->where)
        return invalid(reterr,
                       "Either the KeyConditions or KeyConditionExpression parameter must be "
                       "specified in the request.");
    struct hf_arena arena = {0};
    const struct hf_condition *tree = hf__key_condition_tree(&arena, op->where);
    int code = arena.failed ? hf__error_no_memory(reterr)
                            : hf__condition_check(tree, "KeyConditionExpression", reterr);
    hf__arena_free(&arena);
    return code;
}

static int check_read(const struct hf_op *op, struct hf_error *reterr)
{
    int code = check_limit(op, reterr);
    if (code == 0) code = hf__item_check(op->key, reterr);
    if (code == 0) code = check_segment(op, reterr);
    if (code == 0) code = check_select(op, reterr);
    if (code == 0 && op->projection) code = hf__projection_check(op->projection, reterr);
    if (code == 0 && op->filter) code = hf__condition_check(op->filter, "FilterExpression", reterr);
    if (code == 0 && op->kind == HF_QUERY) code = check_where(op, reterr);
    return code;
}

/* ---- tables ---- */

static int check_create(const struct hf_op *op, struct hf_error *reterr)
{
    bool on_demand = op->read_units == 0 && op->write_units == 0;
    int code = hf__schema_check(&op->schema, reterr);
    if (code != 0 || !op->wishes) return code;
    return hf__indexes_check(op->wishes->indexes, &op->schema, on_demand, reterr);
}

static int check_table_update(const struct hf_op *op, struct hf_error *reterr)
{
    const struct hf_table_wishes *wishes = op->wishes;
    if (!wishes || (!wishes->has_billing && !wishes->has_protection && wishes->change_count == 0))
        return invalid(reterr, "At least one of ProvisionedThroughput, BillingMode, "
                               "UpdateStreamEnabled, GlobalSecondaryIndexUpdates or "
                               "SSESpecification or ReplicaUpdates is required");
    size_t online = 0;
    if (wishes->change_count > HF_GLOBAL_INDEXES_MOST)
        return invalid(reterr, "One or more parameter values were invalid: GlobalSecondaryIndex "
                               "count exceeds the per-table limit of 20");
    for (size_t i = 0; i < wishes->change_count; i++) {
        online += wishes->changes[i].kind != HF_INDEX_UPDATE;
        for (size_t j = 0; j < i; j++)
            if (hf__slice_eq(wishes->changes[i].index.name, wishes->changes[j].index.name))
                return hf__error_set(
                    reterr, HF_ERR_VALIDATION,
                    "One or more parameter values were invalid: Only one global secondary "
                    "index update per index is allowed simultaneously. Index: %.*s",
                    HF_FMT(wishes->changes[i].index.name));
    }
    if (online > 1)
        return hf__error_set(
            reterr, HF_ERR_LIMIT,
            "Subscriber limit exceeded: Only 1 online index can be created or deleted "
            "simultaneously per table");
    return 0;
}

static int check_tags(const struct hf_op *op, struct hf_error *reterr)
{
    enum { KEY = 128, VALUE = 256 };
    struct hf_item tags = op->wishes ? op->wishes->tags : (struct hf_item){0};
    if (tags.count > HF_TAGS_MOST || (op->wishes && op->wishes->tag_key_count > HF_TAGS_MOST))
        return invalid(reterr, "One or more parameter values were invalid: Too many tags: more "
                               "than 50");
    for (size_t i = 0; i < tags.count; i++) {
        const struct hf_attr *tag = &tags.attrs[i];
        if (tag->name.len < 1 || tag->name.len > KEY || tag->value.bytes.len > VALUE)
            return invalid(reterr,
                           "One or more parameter values were invalid: a tag's key must have 1 to "
                           "128 characters, and its value at most 256");
    }
    return 0;
}

/* ---- several in one ---- */

static bool same_target(const struct hf_op *a, const struct hf_op *b)
{
    return hf__slice_eq(a->table, b->table) && a->kind != HF_PUT_ITEM && b->kind != HF_PUT_ITEM &&
           hf__item_equal(a->key, b->key);
}

/* None, or too many. What was sent is not repeated in full. */
static int refuse_count(const struct hf_op *op, size_t most, struct hf_error *reterr)
{
    bool none = op->part_count == 0;
    if (none && op->kind < HF_TRANSACT_GET)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "The requestItems parameter is required for %s",
                             hf__op_names[op->kind]);
    if (op->kind == HF_BATCH_GET)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value at 'RequestItems.%.*s.member.Keys' "
            "failed to satisfy constraint: Member must have length less than or "
            "equal to %zu",
            HF_FMT(op->parts[0].table), most);
    if (op->kind == HF_BATCH_WRITE)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "1 validation error detected: Value '{%.*s=[...]}' at 'requestItems' failed to satisfy "
            "constraint: Map value must satisfy constraint: [Member must have length less than or "
            "equal to %zu, Member must have length greater than or equal to 1]",
            HF_FMT(op->parts[0].table), most);
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "1 validation error detected: Value '[%s]' at 'transactItems' failed to "
                         "satisfy constraint: Member must have length %s than or equal to %zu",
                         none ? "" : "...", none ? "greater" : "less", none ? 1 : most);
}

/*
 * Puts name their item by its key attributes, which only the engine knows: it compares those.
 */
static int check_parts(const struct hf_op *op, struct hf_error *reterr)
{
    static const struct {
        size_t most;
        const char *duplicate;
    } rules[HF_OP_KINDS] = {
        [HF_BATCH_GET] = {HF_BATCH_GET_MOST, "Provided list of item keys contains duplicates"},
        [HF_BATCH_WRITE] = {HF_BATCH_WRITE_MOST, "Provided list of item keys contains duplicates"},
        [HF_TRANSACT_GET] = {HF_TRANSACT_MOST,
                             "Transaction request cannot include multiple operations on one item"},
        [HF_TRANSACT_WRITE] = {HF_TRANSACT_MOST,
                               "Transaction request cannot include multiple operations on one "
                               "item"},
    };
    if (op->part_count < 1 || op->part_count > rules[op->kind].most)
        return refuse_count(op, rules[op->kind].most, reterr);
    for (size_t i = 0; i < op->part_count; i++) {
        int code = hf__op_check(&op->parts[i], reterr);
        if (code != 0) return code;
        for (size_t j = 0; j < i; j++)
            if (same_target(&op->parts[i], &op->parts[j]))
                return invalid(reterr, rules[op->kind].duplicate);
    }
    if (op->token.len > 36)
        return invalid(reterr, "1 validation error detected: Value at 'clientRequestToken' failed "
                               "to satisfy constraint: Member must have length less than or equal "
                               "to 36");
    return 0;
}

int hf__op_check(const struct hf_op *op, struct hf_error *reterr)
{
    int code = hf__op_check_table(op, reterr);
    if (code != 0) return code;
    switch (op->kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
    case HF_CONDITION_CHECK: return check_one_write(op, reterr);
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN: return check_read(op, reterr);
    case HF_LIST_TABLES: return check_limit(op, reterr);
    case HF_CREATE_TABLE:
        code = check_create(op, reterr);
        return code ? code : check_tags(op, reterr);
    case HF_UPDATE_TABLE: return check_table_update(op, reterr);
    case HF_BATCH_GET:
    case HF_BATCH_WRITE:
    case HF_TRANSACT_GET:
    case HF_TRANSACT_WRITE: return check_parts(op, reterr);
    case HF_TAG:
    case HF_UNTAG: return check_tags(op, reterr);
    case HF_UPDATE_TTL:
        if (op->ttl_attribute.len >= 1 && op->ttl_attribute.len <= 255) return 0;
        return invalid(reterr, "TimeToLiveSpecification: AttributeName must have 1 to 255 bytes");
    case HF_DESCRIBE_TABLE:
    case HF_DELETE_TABLE:
    case HF_DESCRIBE_TTL:
    case HF_LIST_TAGS: break;
    }
    return 0;
}

/* ---- comparing ---- */

static bool changes_equal(const struct hf_table_wishes *a, const struct hf_table_wishes *b)
{
    if (a->change_count != b->change_count) return false;
    for (size_t i = 0; i < a->change_count; i++)
        if (a->changes[i].kind != b->changes[i].kind ||
            !hf__indexes_equal((struct hf_indexes){&a->changes[i].index, 1},
                               (struct hf_indexes){&b->changes[i].index, 1}))
            return false;
    return true;
}

static bool wishes_equal(const struct hf_table_wishes *a, const struct hf_table_wishes *b)
{
    static const struct hf_table_wishes none;
    if (!a) a = &none;
    if (!b) b = &none;
    return hf__indexes_equal(a->indexes, b->indexes) && changes_equal(a, b) &&
           a->has_billing == b->has_billing && a->has_protection == b->has_protection &&
           a->protection == b->protection && hf__item_equal(a->tags, b->tags) &&
           a->tag_key_count == b->tag_key_count;
}

static bool parts_equal(const struct hf_op *a, const struct hf_op *b)
{
    if (a->part_count != b->part_count) return false;
    for (size_t i = 0; i < a->part_count; i++)
        if (!hf__op_equal(&a->parts[i], &b->parts[i])) return false;
    return true;
}

bool hf__op_equal(const struct hf_op *a, const struct hf_op *b)
{
    return a->kind == b->kind && hf__slice_eq(a->table, b->table) &&
           hf__item_equal(a->key, b->key) && hf__item_equal(a->item, b->item) &&
           hf__condition_equal(a->condition, b->condition) &&
           hf__update_equal(a->update, b->update) && a->returns == b->returns &&
           a->old_on_failure == b->old_on_failure && a->consistent == b->consistent &&
           hf__projection_equal(a->projection, b->projection) &&
           hf__key_condition_equal(a->where, b->where) &&
           hf__condition_equal(a->filter, b->filter) && a->backward == b->backward &&
           a->has_limit == b->has_limit && a->limit == b->limit &&
           hf__item_equal(a->start_key, b->start_key) &&
           hf__slice_eq(a->start_table, b->start_table) &&
           hf__schema_equal(&a->schema, &b->schema) && a->read_units == b->read_units &&
           a->write_units == b->write_units && a->ttl_enabled == b->ttl_enabled &&
           hf__slice_eq(a->ttl_attribute, b->ttl_attribute) && hf__slice_eq(a->index, b->index) &&
           a->select == b->select && a->segment == b->segment && a->segments == b->segments &&
           hf__slice_eq(a->token, b->token) && a->capacity == b->capacity &&
           a->collection_metrics == b->collection_metrics && wishes_equal(a->wishes, b->wishes) &&
           parts_equal(a, b);
}
