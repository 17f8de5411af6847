#include "base/json_reader.h"
#include "wire/expr_parse.h"
#include "wire/item_json.h"
#include "wire/request.h"
#include "wire/schema_json.h"

struct reader {
    struct hf_json_reader json;
    struct hf_op *op;
    struct hf_slice condition, update, where, filter, projection; /* texts; ptr NULL: absent */
    struct hf_bindings bindings;
    struct hf_schema_parts schema;
    bool on_demand_mode;
};

typedef void (*member_fn)(struct reader *r);

static void read_table(struct reader *r)
{
    hf__json_string(&r->json, &r->op->table);
}

static void read_key(struct reader *r)
{
    hf__json_read_item(&r->json, &r->op->key);
}

static void read_item(struct reader *r)
{
    hf__json_read_item(&r->json, &r->op->item);
}

static void read_start_key(struct reader *r)
{
    hf__json_read_item(&r->json, &r->op->start_key);
}

static void read_start_table(struct reader *r)
{
    hf__json_string(&r->json, &r->op->start_table);
}

static void read_condition(struct reader *r)
{
    hf__json_string(&r->json, &r->condition);
}

static void read_update(struct reader *r)
{
    hf__json_string(&r->json, &r->update);
}

static void read_where(struct reader *r)
{
    hf__json_string(&r->json, &r->where);
}

static void read_filter(struct reader *r)
{
    hf__json_string(&r->json, &r->filter);
}

static void read_projection(struct reader *r)
{
    hf__json_string(&r->json, &r->projection);
}

static void read_values(struct reader *r)
{
    hf__json_read_item(&r->json, &r->bindings.values);
}

static void read_names(struct reader *r)
{
    struct hf_attr *attrs = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice alias;
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &alias)) {
        attrs = hf__arena_grow(r->json.arena, attrs, count, &capacity, sizeof *attrs);
        if (!attrs) {
            hf__json_no_memory(&r->json);
            return;
        }
        attrs[count].name = alias;
        attrs[count].value.type = HF_S;
        hf__json_string(&r->json, &attrs[count++].value.bytes);
    }
    r->bindings.names = (struct hf_item){attrs, count};
}

static void read_returns(struct reader *r)
{
    struct hf_slice text;
    if (!hf__json_string(&r->json, &text)) return;
    for (int i = 0; i < HF_RETURNS_COUNT; i++) {
        if (!hf__slice_is(text, hf__returns_names[i])) continue;
        r->op->returns = (enum hf_returns)i;
        return;
    }
    hf__json_fail(&r->json, "'%.*s' is not a value of ReturnValues", HF_FMT(text));
}

static void read_old_on_failure(struct reader *r)
{
    struct hf_slice text;
    if (!hf__json_string(&r->json, &text)) return;
    r->op->old_on_failure = hf__slice_is(text, "ALL_OLD");
    if (!r->op->old_on_failure && !hf__slice_is(text, "NONE"))
        hf__json_fail(&r->json, "'%.*s' is not a value of ReturnValuesOnConditionCheckFailure",
                      HF_FMT(text));
}

static void read_consistent(struct reader *r)
{
    hf__json_bool(&r->json, &r->op->consistent);
}

static void read_forward(struct reader *r)
{
    bool forward = true;
    hf__json_bool(&r->json, &forward);
    r->op->backward = !forward;
}

static void read_limit(struct reader *r)
{
    r->op->has_limit = hf__json_int64(&r->json, &r->op->limit);
}

static void read_key_schema(struct reader *r)
{
    hf__json_read_key_schema(&r->json, &r->schema);
}

static void read_definitions(struct reader *r)
{
    hf__json_read_definitions(&r->json, &r->schema);
}

static void read_billing(struct reader *r)
{
    struct hf_slice mode;
    if (!hf__json_string(&r->json, &mode)) return;
    r->on_demand_mode = hf__slice_is(mode, "PAY_PER_REQUEST");
    if (!r->on_demand_mode && !hf__slice_is(mode, "PROVISIONED"))
        hf__json_fail(&r->json, "'%.*s' is not a value of BillingMode", HF_FMT(mode));
}

static void read_throughput(struct reader *r)
{
    struct hf_slice key;
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &key)) {
        if (hf__slice_is(key, "ReadCapacityUnits")) hf__json_int64(&r->json, &r->op->read_units);
        else if (hf__slice_is(key, "WriteCapacityUnits"))
            hf__json_int64(&r->json, &r->op->write_units);
        else hf__json_skip(&r->json);
    }
}

/* Only what is the default anyway. */
static void read_select(struct reader *r)
{
    struct hf_slice text;
    if (!hf__json_string(&r->json, &text)) return;
    if (!hf__slice_is(text, "ALL_ATTRIBUTES") && !hf__slice_is(text, "SPECIFIC_ATTRIBUTES"))
        hf__json_fail(&r->json, "the value %.*s of Select is not supported here", HF_FMT(text));
}

static void read_ttl(struct reader *r)
{
    struct hf_slice key;
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &key)) {
        if (hf__slice_is(key, "Enabled")) hf__json_bool(&r->json, &r->op->ttl_enabled);
        else if (hf__slice_is(key, "AttributeName"))
            hf__json_string(&r->json, &r->op->ttl_attribute);
        else hf__json_skip(&r->json);
    }
}

#define KIND(kind) (1u << (kind))
#define KEYED (KIND(HF_GET_ITEM) | KIND(HF_UPDATE_ITEM) | KIND(HF_DELETE_ITEM))
#define WRITES (KIND(HF_PUT_ITEM) | KIND(HF_UPDATE_ITEM) | KIND(HF_DELETE_ITEM))
#define PAGED (KIND(HF_QUERY) | KIND(HF_SCAN))
#define READS (PAGED | KIND(HF_GET_ITEM))
#define ANY (~0u)

/* The parameters of all requests; one with no reader is legacy and refused. */
static const struct {
    const char *name;
    unsigned kinds;
    member_fn read;
} members[] = {
    {"TableName", ANY & ~KIND(HF_LIST_TABLES), read_table},
    {"Key", KEYED, read_key},
    {"Item", KIND(HF_PUT_ITEM), read_item},
    {"ConditionExpression", WRITES, read_condition},
    {"UpdateExpression", KIND(HF_UPDATE_ITEM), read_update},
    {"KeyConditionExpression", KIND(HF_QUERY), read_where},
    {"FilterExpression", PAGED, read_filter},
    {"ProjectionExpression", READS, read_projection},
    {"ExpressionAttributeNames", READS | WRITES, read_names},
    {"ExpressionAttributeValues", PAGED | WRITES, read_values},
    {"ReturnValues", WRITES, read_returns},
    {"ReturnValuesOnConditionCheckFailure", WRITES, read_old_on_failure},
    {"ConsistentRead", READS, read_consistent},
    {"ScanIndexForward", KIND(HF_QUERY), read_forward},
    {"Limit", PAGED | KIND(HF_LIST_TABLES), read_limit},
    {"ExclusiveStartKey", PAGED, read_start_key},
    {"ExclusiveStartTableName", KIND(HF_LIST_TABLES), read_start_table},
    {"KeySchema", KIND(HF_CREATE_TABLE), read_key_schema},
    {"AttributeDefinitions", KIND(HF_CREATE_TABLE), read_definitions},
    {"BillingMode", KIND(HF_CREATE_TABLE), read_billing},
    {"ProvisionedThroughput", KIND(HF_CREATE_TABLE), read_throughput},
    {"TimeToLiveSpecification", KIND(HF_UPDATE_TTL), read_ttl},
    {"Select", PAGED, read_select},
    {"Expected", WRITES, NULL},
    {"ConditionalOperator", WRITES | PAGED, NULL},
    {"AttributeUpdates", KIND(HF_UPDATE_ITEM), NULL},
    {"KeyConditions", KIND(HF_QUERY), NULL},
    {"QueryFilter", KIND(HF_QUERY), NULL},
    {"ScanFilter", KIND(HF_SCAN), NULL},
    {"AttributesToGet", READS, NULL},
    {"IndexName", PAGED, NULL},
    {"Segment", KIND(HF_SCAN), NULL},
    {"TotalSegments", KIND(HF_SCAN), NULL},
    {"GlobalSecondaryIndexes", KIND(HF_CREATE_TABLE), NULL},
    {"LocalSecondaryIndexes", KIND(HF_CREATE_TABLE), NULL},
};

static void read_member(struct reader *r, struct hf_slice key)
{
    if (hf__json_peek(&r->json) == HF_JSON_NULL) { /* the same as absent */
        hf__json_null(&r->json);
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (!hf__slice_is(key, members[i].name) || !(members[i].kinds & KIND(r->op->kind)))
            continue;
        if (members[i].read) members[i].read(r);
        else hf__json_fail(&r->json, "the parameter %s is not supported here", members[i].name);
        return;
    }
    hf__json_skip(&r->json);
}

static int resolve_schema(struct reader *r, struct hf_error *reterr)
{
    if (r->schema.defined_count != (r->schema.range_name.len ? 2u : 1u))
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "The number of attributes in key schema must match the number of "
                             "attributes defined in attribute definitions.");
    return hf__schema_join(&r->schema, &r->op->schema, reterr);
}

/* Turns the texts of expressions into trees once all placeholders are known. */
static int resolve_expressions(struct reader *r, struct hf_error *reterr)
{
    struct hf_arena *arena = r->json.arena;
    struct hf_bindings *b = &r->bindings;
    b->name_used = hf__arena_zalloc(arena, b->names.count, sizeof *b->name_used);
    b->value_used = hf__arena_zalloc(arena, b->values.count, sizeof *b->value_used);
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    struct hf_projection *projection = hf__arena_zalloc(arena, 1, sizeof *projection);
    struct hf_key_condition *where = hf__arena_zalloc(arena, 1, sizeof *where);
    if (arena->failed) return hf__error_no_memory(reterr);
    const struct hf_condition *tree = NULL;
    int code = hf__bindings_check(b, reterr);
    if (code == 0 && r->condition.ptr)
        code = hf__expr_parse_condition(arena, r->condition, b, "ConditionExpression",
                                        &r->op->condition, reterr);
    if (code == 0 && r->filter.ptr)
        code = hf__expr_parse_condition(arena, r->filter, b, "FilterExpression", &r->op->filter,
                                        reterr);
    if (code == 0 && r->where.ptr) {
        code =
            hf__expr_parse_condition(arena, r->where, b, "KeyConditionExpression", &tree, reterr);
        if (code == 0) code = hf__key_condition_from_tree(tree, where, reterr);
        if (code == 0) r->op->where = where;
    }
    if (code == 0 && r->update.ptr) {
        code = hf__expr_parse_update(arena, r->update, b, update, reterr);
        if (code == 0) r->op->update = update;
    }
    if (code == 0 && r->projection.ptr) {
        code = hf__expr_parse_projection(arena, r->projection, b, projection, reterr);
        if (code == 0) r->op->projection = projection;
    }
    return code == 0 ? hf__bindings_check_used(b, reterr) : code;
}

/* Provisioned unless it says otherwise, as in DynamoDB. */
static int resolve_billing(const struct reader *r, struct hf_error *reterr)
{
    bool units = r->op->read_units > 0 && r->op->write_units > 0;
    bool any = r->op->read_units != 0 || r->op->write_units != 0;
    if (r->on_demand_mode && any)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor "
            "WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST");
    if (!r->on_demand_mode && !units)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "No provisioned throughput specified for the table");
    return 0;
}

int hf__request_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                     struct hf_op *ret, struct hf_error *reterr)
{
    struct hf_op op = {.kind = kind};
    struct reader r = {.op = &op};
    struct hf_slice key;
    hf__json_reader_init(&r.json, body, HF_REQUEST_MAX_SIZE, arena);
    hf__json_object(&r.json);
    while (hf__json_key(&r.json, &key)) read_member(&r, key);
    int code = hf__json_finish(&r.json);
    if (code != 0) return hf__error_set(reterr, code, "%s", r.json.error.message);
    code = resolve_expressions(&r, reterr);
    if (code == 0 && kind == HF_CREATE_TABLE) code = resolve_schema(&r, reterr);
    if (code == 0 && kind == HF_CREATE_TABLE) code = resolve_billing(&r, reterr);
    if (code == 0) *ret = op;
    return code;
}

bool hf__request_kind(struct hf_slice target, enum hf_op_kind *ret)
{
    static const struct hf_slice prefix = {"DynamoDB_20120810.", 18};
    if (!hf__slice_starts(target, prefix)) return false;
    struct hf_slice name = hf__slice(target.ptr + prefix.len, target.len - prefix.len);
    for (int i = 0; i < HF_OP_KINDS; i++) {
        if (!hf__slice_is(name, hf__op_names[i])) continue;
        *ret = (enum hf_op_kind)i;
        return true;
    }
    return false;
}
