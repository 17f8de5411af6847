#include <nettle/sha2.h>
#include <stdlib.h>

#include "wire/item_json.h"
#include "wire/request_inside.h"
#include "wire/table_json.h"

static void read_table(struct hf_request *r)
{
    if (hf__json_string(r->json, &r->op->table)) r->op->table = hf__table_of_arn(r->op->table);
}

/* Of operations on tags, which take ARNs only, as they are in descriptions. */
static void read_resource(struct hf_request *r)
{
    struct hf_slice arn;
    if (!hf__json_string(r->json, &arn)) return;
    r->op->table = hf__table_of_arn(arn);
    r->is_foreign = !hf__slice_starts(arn, hf__slice_str(HF_ARN_PREFIX));
    if (r->op->table.ptr == arn.ptr)
        hf__json_refuse(r->json, "Invalid TableArn: Invalid ResourceArn provided as input %.*s",
                        HF_FMT(arn));
}

static void read_key(struct hf_request *r)
{
    r->has_key = hf__json_read_item(r->json, &r->op->key);
}

static void read_item(struct hf_request *r)
{
    r->has_item = hf__json_read_item(r->json, &r->op->item);
}

static void read_start_key(struct hf_request *r)
{
    hf__json_read_item(r->json, &r->op->start_key);
    if (!r->json->failed && r->op->start_key.count == 0)
        hf__json_refuse(r->json, "The provided starting key is invalid");
}

static void read_start_table(struct hf_request *r)
{
    hf__json_string(r->json, &r->op->start_table);
}

static void read_condition(struct hf_request *r)
{
    hf__json_string(r->json, &r->condition);
}

static void read_update(struct hf_request *r)
{
    hf__json_string(r->json, &r->update);
}

static void read_where(struct hf_request *r)
{
    hf__json_string(r->json, &r->where);
}

static void read_filter(struct hf_request *r)
{
    hf__json_string(r->json, &r->filter);
}

static void read_projection(struct hf_request *r)
{
    hf__json_string(r->json, &r->projection);
}

static void read_values(struct hf_request *r)
{
    struct hf_attr *attrs = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice name;
    r->has_values = true;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &name)) {
        attrs = hf__arena_grow(r->json->arena, attrs, count, &capacity, sizeof *attrs);
        if (!attrs) {
            hf__json_no_memory(r->json);
            return;
        }
        attrs[count].name = name;
        hf__json_read_value(r->json, &attrs[count++].value);
        struct hf_error why = r->json->error;
        if (r->json->failed && why.code == HF_ERR_VALIDATION)
            hf__error_set(&r->json->error, HF_ERR_VALIDATION,
                          "ExpressionAttributeValues contains invalid value: %s for key %.*s",
                          why.message, HF_FMT(name));
    }
    r->bindings.values = (struct hf_item){attrs, count};
}

static void read_names(struct hf_request *r)
{
    struct hf_attr *attrs = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice alias;
    r->has_names = true;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &alias)) {
        attrs = hf__arena_grow(r->json->arena, attrs, count, &capacity, sizeof *attrs);
        if (!attrs) {
            hf__json_no_memory(r->json);
            return;
        }
        attrs[count].name = alias;
        attrs[count].value.type = HF_S;
        hf__json_string(r->json, &attrs[count++].value.bytes);
    }
    r->bindings.names = (struct hf_item){attrs, count};
}

/* The place of a text in a table of names; noted with DynamoDB's words if it is not there. */
static bool read_choice(struct hf_request *r, const char *const *names, int count,
                        const char *where, const char *set, int *ret)
{
    struct hf_slice text;
    if (!hf__json_string(r->json, &text)) return false;
    for (int i = 0; i < count; i++) {
        if (!names[i][0] || !hf__slice_is(text, names[i])) continue;
        *ret = i;
        return true;
    }
    hf__json_note(r->json,
                  "Value '%.*s' at '%s%s' failed to satisfy constraint: Member must satisfy enum "
                  "value set: [%s]",
                  HF_FMT(text), r->place, where, set);
    return false;
}

static void read_returns(struct hf_request *r)
{
    int choice;
    if (read_choice(r, hf__returns_names, HF_RETURNS_COUNT, "returnValues",
                    "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW", &choice))
        r->op->returns = (enum hf_returns)choice;
}

static void read_old_on_failure(struct hf_request *r)
{
    static const char *const names[] = {"NONE", "ALL_OLD"};
    int choice;
    if (read_choice(r, names, 2, "returnValuesOnConditionCheckFailure", "ALL_OLD, NONE", &choice))
        r->op->old_on_failure = choice == 1;
}

static void read_consistent(struct hf_request *r)
{
    hf__json_read_flag(r->json, &r->op->consistent);
}

static void read_forward(struct hf_request *r)
{
    bool forward = true;
    hf__json_read_flag(r->json, &forward);
    r->op->backward = !forward;
}

static void read_limit(struct hf_request *r)
{
    r->op->has_limit = hf__json_int64(r->json, &r->op->limit);
}

static void read_index(struct hf_request *r)
{
    hf__json_string(r->json, &r->op->index);
}

static void read_select(struct hf_request *r)
{
    int choice;
    if (read_choice(r, hf__select_names, HF_SELECTS, "select",
                    "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES",
                    &choice))
        r->op->select = (enum hf_select)choice;
}

static void read_segment(struct hf_request *r)
{
    r->has_segment = hf__json_int64(r->json, &r->op->segment);
}

static void read_segments(struct hf_request *r)
{
    r->has_segments = hf__json_int64(r->json, &r->op->segments);
}

static void read_capacity(struct hf_request *r)
{
    int choice;
    if (read_choice(r, hf__capacity_names, HF_CAPACITY_WISHES, "returnConsumedCapacity",
                    "INDEXES, TOTAL, NONE", &choice))
        r->op->capacity = (enum hf_capacity_wish)choice;
}

static void read_metrics(struct hf_request *r)
{
    static const char *const names[] = {"NONE", "SIZE"};
    int choice;
    if (read_choice(r, names, 2, "returnItemCollectionMetrics", "SIZE, NONE", &choice))
        r->op->collection_metrics = choice == 1;
}

static void read_token(struct hf_request *r)
{
    hf__json_string(r->json, &r->op->token);
}

static void read_expected(struct hf_request *r)
{
    hf__json_read_tests(r->json, &r->expected);
}

static void read_key_conditions(struct hf_request *r)
{
    hf__json_read_tests(r->json, &r->key_conditions);
}

static void read_legacy_filter(struct hf_request *r)
{
    hf__json_read_tests(r->json, &r->legacy_filter);
}

static void read_changes(struct hf_request *r)
{
    hf__json_read_changes(r->json, &r->changes);
}

static void read_attributes(struct hf_request *r)
{
    hf__json_read_attributes(r->json, &r->attributes);
}

static void read_conditional_operator(struct hf_request *r)
{
    static const char *const names[] = {"OR", "AND"};
    int choice;
    if (read_choice(r, names, 2, "conditionalOperator", "OR, AND", &choice))
        r->conditional_operator = hf__slice_str(names[choice]);
}

static void read_ttl(struct hf_request *r)
{
    struct hf_slice key;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &key)) {
        if (hf__slice_is(key, "Enabled")) hf__json_bool(r->json, &r->op->ttl_enabled);
        else if (hf__slice_is(key, "AttributeName"))
            hf__json_string(r->json, &r->op->ttl_attribute);
        else hf__json_skip(r->json);
    }
}

#define KIND(kind) (1u << (kind))
#define KEYED                                                                                      \
    (KIND(HF_GET_ITEM) | KIND(HF_UPDATE_ITEM) | KIND(HF_DELETE_ITEM) | KIND(HF_CONDITION_CHECK))
#define CHANGES (KIND(HF_PUT_ITEM) | KIND(HF_UPDATE_ITEM) | KIND(HF_DELETE_ITEM))
#define WRITES (CHANGES | KIND(HF_CONDITION_CHECK))
#define PAGED (KIND(HF_QUERY) | KIND(HF_SCAN))
#define READS (PAGED | KIND(HF_GET_ITEM))
#define BATCHES (KIND(HF_BATCH_GET) | KIND(HF_BATCH_WRITE))
#define TRANSACTIONS (KIND(HF_TRANSACT_GET) | KIND(HF_TRANSACT_WRITE))
#define TABLE_CHANGES (KIND(HF_CREATE_TABLE) | KIND(HF_UPDATE_TABLE))
#define TAGS (KIND(HF_TAG) | KIND(HF_UNTAG) | KIND(HF_LIST_TAGS))
#define ANY (~0u)

/* The parameters of all requests. Those that are not here are ignored. */
static const struct {
    const char *name;
    unsigned kinds;
    hf_member_fn read;
} members[] = {
    {"TableName", ANY & ~(KIND(HF_LIST_TABLES) | BATCHES | TRANSACTIONS | TAGS), read_table},
    {"Key", KEYED, read_key},
    {"Item", KIND(HF_PUT_ITEM), read_item},
    {"ConditionExpression", WRITES, read_condition},
    {"UpdateExpression", KIND(HF_UPDATE_ITEM), read_update},
    {"KeyConditionExpression", KIND(HF_QUERY), read_where},
    {"FilterExpression", PAGED, read_filter},
    {"ProjectionExpression", READS, read_projection},
    {"ExpressionAttributeNames", READS | WRITES, read_names},
    {"ExpressionAttributeValues", PAGED | WRITES, read_values},
    {"ReturnValues", CHANGES, read_returns},
    {"ReturnValuesOnConditionCheckFailure", WRITES, read_old_on_failure},
    {"ReturnConsumedCapacity", READS | CHANGES | BATCHES | TRANSACTIONS, read_capacity},
    {"ReturnItemCollectionMetrics", CHANGES | KIND(HF_BATCH_WRITE) | KIND(HF_TRANSACT_WRITE),
     read_metrics},
    {"ConsistentRead", READS, read_consistent},
    {"ScanIndexForward", KIND(HF_QUERY), read_forward},
    {"Limit", PAGED | KIND(HF_LIST_TABLES), read_limit},
    {"ExclusiveStartKey", PAGED, read_start_key},
    {"ExclusiveStartTableName", KIND(HF_LIST_TABLES), read_start_table},
    {"IndexName", PAGED, read_index},
    {"Select", PAGED, read_select},
    {"Segment", KIND(HF_SCAN), read_segment},
    {"TotalSegments", KIND(HF_SCAN), read_segments},
    {"Keys", KIND(HF_GET_ITEM), hf__request_read_keys},
    {"RequestItems", BATCHES, hf__request_read_batch},
    {"TransactItems", TRANSACTIONS, hf__request_read_transaction},
    {"ClientRequestToken", KIND(HF_TRANSACT_WRITE), read_token},
    {"Expected", CHANGES, read_expected},
    {"ConditionalOperator", CHANGES | PAGED, read_conditional_operator},
    {"AttributeUpdates", KIND(HF_UPDATE_ITEM), read_changes},
    {"KeyConditions", KIND(HF_QUERY), read_key_conditions},
    {"QueryFilter", KIND(HF_QUERY), read_legacy_filter},
    {"ScanFilter", KIND(HF_SCAN), read_legacy_filter},
    {"AttributesToGet", READS, read_attributes},
    {"KeySchema", KIND(HF_CREATE_TABLE), hf__request_read_key_schema},
    {"AttributeDefinitions", TABLE_CHANGES, hf__request_read_definitions},
    {"BillingMode", TABLE_CHANGES, hf__request_read_billing},
    {"ProvisionedThroughput", TABLE_CHANGES, hf__request_read_throughput},
    {"LocalSecondaryIndexes", KIND(HF_CREATE_TABLE), hf__request_read_local_indexes},
    {"GlobalSecondaryIndexes", KIND(HF_CREATE_TABLE), hf__request_read_global_indexes},
    {"GlobalSecondaryIndexUpdates", KIND(HF_UPDATE_TABLE), hf__request_read_index_updates},
    {"DeletionProtectionEnabled", TABLE_CHANGES, hf__request_read_protection},
    {"StreamSpecification", TABLE_CHANGES, hf__request_read_stream},
    {"Tags", KIND(HF_CREATE_TABLE) | KIND(HF_TAG), hf__request_read_tags},
    {"TagKeys", KIND(HF_UNTAG), hf__request_read_tag_keys},
    {"ResourceArn", TAGS, read_resource},
    {"TimeToLiveSpecification", KIND(HF_UPDATE_TTL), read_ttl},
};

static void read_member(struct hf_request *r, struct hf_slice key)
{
    if (hf__json_peek(r->json) == HF_JSON_NULL) { /* the same as absent */
        hf__json_null(r->json);
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (!hf__slice_is(key, members[i].name) || !(members[i].kinds & KIND(r->op->kind)))
            continue;
        members[i].read(r);
        return;
    }
    hf__json_skip(r->json);
}

/* ---- joining what the members say ---- */

static bool has_legacy(const struct hf_request *r)
{
    return r->changes.given || r->expected.given || r->legacy_filter.given ||
           r->key_conditions.given || r->attributes.count > 0 || r->conditional_operator.ptr;
}

struct named {
    const char *name;
    bool given;
};

static const char *list_names(struct hf_arena *arena, const struct named *at, size_t count)
{
    struct hf_slice text = HF_LIT("");
    for (size_t i = 0; i < count; i++)
        if (at[i].given)
            text =
                hf__arena_printf(arena, "%.*s%s%s", HF_FMT(text), text.len ? ", " : "", at[i].name);
    return text.len ? text.ptr : "";
}

/* A request speaks in expressions or in legacy parameters, not in both. */
static int check_mixture(const struct hf_request *r, struct hf_error *reterr)
{
    bool any =
        r->projection.ptr || r->filter.ptr || r->update.ptr || r->condition.ptr || r->where.ptr;
    if (r->has_names && !any)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "ExpressionAttributeNames can only be specified when using "
                             "expressions");
    if (!any || !has_legacy(r)) return 0;
    const struct named legacy[] = {
        {"AttributesToGet", r->attributes.count > 0},
        {r->op->kind == HF_QUERY ? "QueryFilter" : "ScanFilter", r->legacy_filter.given},
        {"AttributeUpdates", r->changes.given},
        {"Expected", r->expected.given},
        {"ConditionalOperator", r->conditional_operator.ptr != NULL},
        {"KeyConditions", r->key_conditions.given && r->where.ptr}};
    const struct named expressions[] = {{"ProjectionExpression", r->projection.ptr != NULL},
                                        {"FilterExpression", r->filter.ptr != NULL},
                                        {"UpdateExpression", r->update.ptr != NULL},
                                        {"ConditionExpression", r->condition.ptr != NULL},
                                        {"KeyConditionExpression", r->where.ptr != NULL}};
    struct hf_arena *arena = r->json->arena;
    const char *olds = list_names(arena, legacy, sizeof legacy / sizeof legacy[0]);
    if (olds[0] == '\0') return 0; /* KeyConditions alone goes with other expressions */
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Can not use both expression and non-expression parameters in the same request: "
        "Non-expression parameters: {%s} Expression parameters: {%s}",
        olds, list_names(arena, expressions, sizeof expressions / sizeof expressions[0]));
}

/* Values need an expression that can use them. */
static int check_values(const struct hf_request *r, struct hf_error *reterr)
{
    static const char *const users[HF_OP_KINDS] = {
        [HF_PUT_ITEM] = "ConditionExpression is",
        [HF_DELETE_ITEM] = "ConditionExpression is",
        [HF_CONDITION_CHECK] = "ConditionExpression is",
        [HF_UPDATE_ITEM] = "UpdateExpression and ConditionExpression are",
        [HF_SCAN] = "FilterExpression is",
        [HF_QUERY] = "FilterExpression and KeyConditionExpression are",
    };
    bool used = r->condition.ptr || r->update.ptr || r->where.ptr || r->filter.ptr;
    if (r->has_names && r->bindings.names.count == 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "ExpressionAttributeNames must not be empty");
    if (r->has_values && used && r->bindings.values.count == 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "ExpressionAttributeValues must not be empty");
    if (!r->has_values || used) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "ExpressionAttributeValues can only be specified when using expressions: "
                         "%s null",
                         users[r->op->kind]);
}

static int check_segments(const struct hf_request *r, struct hf_error *reterr)
{
    if (r->has_segment == r->has_segments) {
        if (!r->has_segment || r->op->segments > 0) return 0;
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "1 validation error detected: Value '%lld' at 'totalSegments' failed "
                             "to satisfy constraint: Member must have value greater than or equal "
                             "to 1",
                             (long long)r->op->segments);
    }
    return hf__error_set(
        reterr, HF_ERR_VALIDATION, "%s",
        r->has_segment ? "The TotalSegments parameter is required but was not present in the "
                         "request when Segment parameter is present"
                       : "The Segment parameter is required but was not present in the request "
                         "when parameter TotalSegments is present");
}

static int check_conditional_operator(const struct hf_request *r, struct hf_error *reterr)
{
    if (!r->conditional_operator.ptr) return 0;
    size_t count = r->expected.count + r->legacy_filter.count;
    if (count > 1) return 0;
    if (count == 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "ConditionalOperator cannot be used without Filter or Expected");
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "ConditionalOperator can only be used when Filter or Expected has two or "
                         "more elements");
}

/* Turns the texts of expressions into trees once all placeholders are known. */
static int resolve_expressions(struct hf_request *r, struct hf_error *reterr)
{
    struct hf_arena *arena = r->json->arena;
    struct hf_bindings *b = &r->bindings;
    b->name_used = hf__arena_zalloc(arena, b->names.count, sizeof *b->name_used);
    b->value_used = hf__arena_zalloc(arena, b->values.count, sizeof *b->value_used);
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    struct hf_projection *projection = hf__arena_zalloc(arena, 1, sizeof *projection);
    struct hf_key_condition *where = hf__arena_zalloc(arena, 1, sizeof *where);
    if (arena->failed) return hf__error_no_memory(reterr);
    const struct hf_condition *tree = NULL;
    int code = hf__bindings_check(b, reterr);
    if (code == 0 && r->update.ptr) {
        code = hf__expr_parse_update(arena, r->update, b, update, reterr);
        if (code == 0) r->op->update = update;
    }
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
    if (code == 0 && r->projection.ptr) {
        code = hf__expr_parse_projection(arena, r->projection, b, projection, reterr);
        if (code == 0) r->op->projection = projection;
    }
    return code == 0 ? hf__bindings_check_used(b, reterr) : code;
}

static int resolve_legacy(struct hf_request *r, struct hf_error *reterr)
{
    struct hf_arena *arena = r->json->arena;
    bool any = hf__slice_is(r->conditional_operator, "OR");
    struct hf_key_condition *where = hf__arena_zalloc(arena, 1, sizeof *where);
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    struct hf_projection *projection = hf__arena_zalloc(arena, 1, sizeof *projection);
    if (arena->failed) return hf__error_no_memory(reterr);
    int code = check_conditional_operator(r, reterr);
    if (code == 0 && r->changes.given) {
        code = hf__legacy_update(arena, &r->changes, update, reterr);
        if (code == 0) r->op->update = update;
    }
    if (code == 0 && r->expected.given)
        code = hf__legacy_condition(arena, &r->expected, any, true, &r->op->condition, reterr);
    if (code == 0 && r->legacy_filter.given)
        code = hf__legacy_condition(arena, &r->legacy_filter, any, false, &r->op->filter, reterr);
    r->op->is_legacy |= r->legacy_filter.given || r->attributes.count > 0;
    if (code == 0 && r->key_conditions.given) {
        code = hf__legacy_key_condition(&r->key_conditions, where, reterr);
        if (code == 0) r->op->where = where;
    }
    if (code == 0 && r->attributes.count > 0) {
        *projection = r->attributes;
        r->op->projection = projection;
    }
    return code;
}

static int resolve(struct hf_request *r, struct hf_error *reterr)
{
    struct hf_op *op = r->op;
    int code = check_mixture(r, reterr);
    if (code == 0) code = check_values(r, reterr);
    if (code == 0) code = check_segments(r, reterr);
    if (code == 0) code = resolve_expressions(r, reterr);
    if (code == 0 && has_legacy(r)) code = resolve_legacy(r, reterr);
    if (code == 0 && (op->kind == HF_CREATE_TABLE || op->kind == HF_UPDATE_TABLE))
        code = hf__request_resolve_table(r, reterr);
    if (code != 0 || !(KIND(op->kind) & (TABLE_CHANGES | TAGS))) return code;
    struct hf_table_wishes *wishes = hf__arena_zalloc(r->json->arena, 1, sizeof *wishes);
    if (!wishes) return hf__error_no_memory(reterr);
    *wishes = r->wishes;
    op->wishes = wishes;
    return 0;
}

static void note_missing(const struct hf_request *r)
{
    bool put = r->op->kind == HF_PUT_ITEM;
    bool missing = put ? !r->has_item : (KIND(r->op->kind) & KEYED) && !r->has_key;
    if (missing)
        hf__json_note(r->json,
                      "Value null at '%s' failed to satisfy constraint: Member must not be null",
                      put ? "item" : "key");
}

/* A table's name that is not one is reported alone, all other violations together. */
static int check_constraints(const struct hf_request *r, struct hf_error *reterr)
{
    note_missing(r);
    int code = hf__op_check_table(r->op, reterr);
    if (code == 0 && r->is_foreign)
        return hf__error_set(reterr, HF_ERR_DENIED, "the resource is not of this service: %s",
                             "its ARN must begin with " HF_ARN_PREFIX);
    if (code != 0 || r->json->note_count == 0) return code;
    return hf__error_set(reterr, HF_ERR_VALIDATION, "%zu validation error%s detected: %.*s",
                         r->json->note_count, r->json->note_count > 1 ? "s" : "",
                         HF_FMT(r->json->notes));
}

int hf__request_read_object(struct hf_json_reader *json, const char *place, struct hf_op *op,
                            struct hf_request *r, struct hf_error *reterr)
{
    struct hf_slice key;
    bool is_part = place[0] != '\0';
    *r = (struct hf_request){.json = json, .op = op, .place = place};
    hf__json_object(json);
    while (hf__json_key(json, &key)) read_member(r, key);
    if (json->failed) return hf__error_set(reterr, json->error.code, "%s", json->error.message);
    int code = is_part ? 0 : check_constraints(r, reterr);
    return code == 0 ? resolve(r, reterr) : code;
}

/*
 * A hash of what a transaction does: some clients send the members of a repeated call in another
 * order. So it is taken of the request as we would write it; of a very long one, as it was sent.
 */
static int take_fingerprint(struct hf_arena *arena, struct hf_slice body, struct hf_op *op,
                            struct hf_error *reterr)
{
    enum { LONGEST = 2 * HF_REQUEST_MAX_SIZE };
    struct hf_op canonical = *op;
    uint8_t *digest = hf__arena_alloc(arena, SHA256_DIGEST_SIZE);
    struct sha256_ctx hash;
    struct hf_buf text;
    if (!digest) return hf__error_no_memory(reterr);
    canonical.capacity = HF_CAPACITY_NONE;
    canonical.collection_metrics = false;
    hf__buf_init(&text, LONGEST);
    int code = hf__request_write_in_order(arena, &canonical, &text, reterr);
    if (code != HF_ERR_NO_MEMORY) {
        struct hf_slice hashed = code == 0 ? hf__buf_view(&text) : body;
        sha256_init(&hash);
        sha256_update(&hash, hashed.len, (const uint8_t *)hashed.ptr);
        sha256_digest(&hash, SHA256_DIGEST_SIZE, digest);
        op->fingerprint = hf__slice((const char *)digest, SHA256_DIGEST_SIZE);
        code = 0;
    }
    hf__buf_free(&text);
    return code;
}

int hf__request_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                     struct hf_op *ret, struct hf_error *reterr)
{
    struct hf_op op = {.kind = kind};
    struct hf_json_reader json;
    struct hf_request r;
    hf__json_reader_init(&json, body, HF_REQUEST_MAX_SIZE, arena);
    int code = hf__request_read_object(&json, "", &op, &r, reterr);
    if (json.failed || code == 0) {
        int finished = hf__json_finish(&json);
        if (finished != 0) return hf__error_set(reterr, finished, "%s", json.error.message);
    }
    if (code == 0 && op.token.len > 0) code = take_fingerprint(arena, body, &op, reterr);
    if (code == 0) *ret = op;
    return code;
}

bool hf__request_kind(struct hf_slice target, enum hf_op_kind *ret)
{
    static const struct hf_slice prefix = {"DynamoDB_20120810.", 18};
    if (!hf__slice_starts(target, prefix)) return false;
    struct hf_slice name = hf__slice(target.ptr + prefix.len, target.len - prefix.len);
    for (int i = 0; i < HF_OP_KINDS; i++) {
        if (i == HF_CONDITION_CHECK || !hf__slice_is(name, hf__op_names[i])) continue;
        *ret = (enum hf_op_kind)i;
        return true;
    }
    return false;
}
