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
};

const char *const hf__returns_names[HF_RETURNS_COUNT] = {
    [HF_RETURN_NONE] = "NONE",
    [HF_RETURN_ALL_OLD] = "ALL_OLD",
    [HF_RETURN_ALL_NEW] = "ALL_NEW",
    [HF_RETURN_UPDATED_OLD] = "UPDATED_OLD",
    [HF_RETURN_UPDATED_NEW] = "UPDATED_NEW",
};

bool hf__op_is_write(const struct hf_op *op)
{
    switch (op->kind) {
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN:
    case HF_DESCRIBE_TABLE:
    case HF_LIST_TABLES:
    case HF_DESCRIBE_TTL: return false;
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
    case HF_CREATE_TABLE:
    case HF_DELETE_TABLE:
    case HF_UPDATE_TTL: break;
    }
    return true;
}

bool hf__op_is_repeatable(const struct hf_op *op)
{
    /* The second time the old item is another one. */
    if (op->returns == HF_RETURN_ALL_OLD || op->returns == HF_RETURN_UPDATED_OLD) return false;
    return op->kind != HF_UPDATE_ITEM || !op->update || hf__update_is_repeatable(op->update);
}

static int invalid(struct hf_error *reterr, const char *text)
{
    return hf__error_set(reterr, HF_ERR_VALIDATION, "%s", text);
}

int hf__table_name_check(struct hf_slice name, struct hf_error *reterr)
{
    bool good = name.len >= 3 && name.len <= 255;
    for (size_t i = 0; i < name.len && good; i++) {
        char c = name.ptr[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
    }
    if (good) return 0;
    if (!name.ptr)
        return invalid(reterr, "1 validation error detected: Value null at 'tableName' failed to "
                               "satisfy constraint: Member must not be null");
    return invalid(reterr,
                   "Invalid table/index name.  Table/index names must be between 3 and 255 "
                   "characters long, and may contain only the characters a-z, A-Z, 0-9, '_', "
                   "'-', and '.'");
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

static int check_write(const struct hf_op *op, struct hf_error *reterr)
{
    int code = check_returns(op, reterr);
    if (code == 0 && op->condition)
        code = hf__condition_check(op->condition, "ConditionExpression", reterr);
    if (code == 0 && op->kind == HF_UPDATE_ITEM && op->update)
        code = hf__update_check(op->update, reterr);
    if (code == 0 && op->kind == HF_PUT_ITEM) code = check_put(op, reterr);
    return code;
}

static int check_read(const struct hf_op *op, struct hf_error *reterr)
{
    int code = 0;
    if (op->has_limit && op->limit < 1)
        return invalid(reterr, "1 validation error detected: Value at 'limit' failed to satisfy "
                               "constraint: Member must have value greater than or equal to 1");
    if (op->kind == HF_LIST_TABLES && op->has_limit && op->limit > 100)
        return invalid(reterr, "1 validation error detected: Value at 'limit' failed to satisfy "
                               "constraint: Member must have value less than or equal to 100");
    if (op->projection) code = hf__projection_check(op->projection, reterr);
    if (code == 0 && op->filter) code = hf__condition_check(op->filter, "FilterExpression", reterr);
    if (code == 0 && op->kind == HF_QUERY && !op->where)
        return invalid(reterr,
                       "Either the KeyConditions or KeyConditionExpression parameter must be "
                       "specified in the request.");
    if (code == 0 && op->where) {
        struct hf_arena arena = {0};
        const struct hf_condition *tree = hf__key_condition_tree(&arena, op->where);
        code = arena.failed ? hf__error_no_memory(reterr)
                            : hf__condition_check(tree, "KeyConditionExpression", reterr);
        hf__arena_free(&arena);
    }
    return code;
}

int hf__op_check(const struct hf_op *op, struct hf_error *reterr)
{
    int code = op->kind == HF_LIST_TABLES ? 0 : hf__table_name_check(op->table, reterr);
    if (code != 0) return code;
    switch (op->kind) {
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM: return check_write(op, reterr);
    case HF_GET_ITEM:
    case HF_QUERY:
    case HF_SCAN:
    case HF_LIST_TABLES: return check_read(op, reterr);
    case HF_CREATE_TABLE: return hf__schema_check(&op->schema, reterr);
    case HF_UPDATE_TTL:
        if (op->ttl_attribute.len >= 1 && op->ttl_attribute.len <= 255) return 0;
        return invalid(reterr, "TimeToLiveSpecification: AttributeName must have 1 to 255 bytes");
    case HF_DESCRIBE_TABLE:
    case HF_DELETE_TABLE:
    case HF_DESCRIBE_TTL: break;
    }
    return 0;
}

static bool schema_equal(const struct hf_key_schema *a, const struct hf_key_schema *b)
{
    bool range = hf__schema_has_range(a);
    return hf__slice_eq(a->hash_name, b->hash_name) && a->hash_type == b->hash_type &&
           range == hf__schema_has_range(b) &&
           (!range ||
            (hf__slice_eq(a->range_name, b->range_name) && a->range_type == b->range_type));
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
           hf__slice_eq(a->start_table, b->start_table) && schema_equal(&a->schema, &b->schema) &&
           a->read_units == b->read_units && a->write_units == b->write_units &&
           a->ttl_enabled == b->ttl_enabled && hf__slice_eq(a->ttl_attribute, b->ttl_attribute);
}
