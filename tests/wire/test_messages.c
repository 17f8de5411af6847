/* Requests and answers: what one side writes, the other reads as the same. */
#include "harness/model.h"
#include "wire/answer.h"
#include "wire/request.h"

/* Up to two indexes: a local one and one that is global. */
static struct hf_indexes generate_indexes(struct hf_rng *rng, struct hf_arena *arena)
{
    static const struct hf_slice included[] = {{"a", 1}, {"b", 1}};
    struct hf_index *indexes = hf__arena_zalloc(arena, 2, sizeof *indexes);
    size_t count = 0;
    if (hf_rng_below(rng, 2))
        indexes[count++] = (struct hf_index){.name = HF_LIT("by-time"),
                                             .schema = {.hash_name = HF_LIT("pk"),
                                                        .hash_type = HF_B,
                                                        .range_name = HF_LIT("time"),
                                                        .range_type = HF_N},
                                             .project = HF_PROJECT_KEYS_ONLY};
    if (hf_rng_below(rng, 2))
        indexes[count++] =
            (struct hf_index){.name = HF_LIT("by-owner"),
                              .global = true,
                              .schema = {.hash_name = HF_LIT("owner"), .hash_type = HF_S},
                              .project = HF_PROJECT_INCLUDE,
                              .included = included,
                              .included_count = 2};
    if (count > 0 && indexes[0].schema.hash_type == HF_B && hf_rng_below(rng, 2))
        indexes[0].project = HF_PROJECT_ALL;
    return (struct hf_indexes){indexes, count};
}

static struct hf_op generate_op(struct hf_rng *rng, struct hf_arena *arena, enum hf_op_kind kind);

static struct hf_op generate_part(struct hf_rng *rng, struct hf_arena *arena, enum hf_op_kind whole)
{
    static const enum hf_op_kind writes[] = {HF_PUT_ITEM, HF_DELETE_ITEM, HF_UPDATE_ITEM,
                                             HF_CONDITION_CHECK};
    enum hf_op_kind kind = whole == HF_BATCH_GET || whole == HF_TRANSACT_GET
                               ? HF_GET_ITEM
                               : writes[hf_rng_below(rng, whole == HF_BATCH_WRITE ? 2 : 4)];
    struct hf_op part = generate_op(rng, arena, kind);
    part.capacity = HF_CAPACITY_NONE;
    part.returns = HF_RETURN_NONE;
    if (whole != HF_TRANSACT_WRITE) {
        part.condition = NULL;
        part.old_on_failure = false;
    }
    if (whole == HF_BATCH_GET) {
        part.projection = NULL;
        part.consistent = false;
    }
    if (whole == HF_TRANSACT_WRITE && kind == HF_CONDITION_CHECK && !part.condition)
        part.condition = hf__cond_exists(arena, "key");
    return part;
}

static struct hf_op generate_op(struct hf_rng *rng, struct hf_arena *arena, enum hf_op_kind kind)
{
    struct hf_op op = {.kind = kind};
    if (op.kind != HF_LIST_TABLES && !hf__op_has_parts(op.kind)) op.table = HF_LIT("locks");
    struct hf_attr *key = hf__arena_zalloc(arena, 1, sizeof *key);
    *key = (struct hf_attr){HF_LIT("key"), hf__s_str("k")};
    bool has_key = op.kind == HF_GET_ITEM || op.kind == HF_UPDATE_ITEM ||
                   op.kind == HF_DELETE_ITEM || op.kind == HF_CONDITION_CHECK;
    bool writes_item = op.kind == HF_PUT_ITEM || op.kind == HF_UPDATE_ITEM ||
                       op.kind == HF_DELETE_ITEM || op.kind == HF_CONDITION_CHECK;
    bool paged = op.kind == HF_QUERY || op.kind == HF_SCAN;
    if (has_key) op.key = (struct hf_item){key, 1};
    if (op.kind == HF_PUT_ITEM) op.item = hf_test_gen_item(rng, arena);
    if (op.kind == HF_UPDATE_ITEM) op.update = hf_test_gen_update(rng, arena);
    if (writes_item) {
        if (hf_rng_below(rng, 2)) op.condition = hf_test_gen_condition(rng, arena, 2);
        if (op.kind != HF_CONDITION_CHECK)
            op.returns = (enum hf_returns)hf_rng_below(rng, HF_RETURNS_COUNT);
        op.old_on_failure = hf_rng_below(rng, 2);
    }
    if (paged || op.kind == HF_GET_ITEM) {
        op.consistent = hf_rng_below(rng, 2);
        if (hf_rng_below(rng, 2)) op.projection = hf_test_gen_projection(rng, arena);
    }
    if (op.kind == HF_QUERY) {
        struct hf_key_condition *where = hf__arena_zalloc(arena, 1, sizeof *where);
        where->count = 1 + hf_rng_below(rng, 2);
        where->tests[0] =
            (struct hf_key_test){.name = HF_LIT("pk"), .op = HF_EQ, .low = hf__s_str("p")};
        static const enum hf_condition_op range_ops[] = {HF_EQ, HF_LT,      HF_LE,         HF_GT,
                                                         HF_GE, HF_BETWEEN, HF_BEGINS_WITH};
        where->tests[1] =
            (struct hf_key_test){.name = HF_LIT("sk"),
                                 .op = range_ops[hf_rng_below(rng, COUNT_OF(range_ops))],
                                 .low = hf__n(arena, 1),
                                 .high = hf__n(arena, 2)};
        op.where = where;
        op.backward = hf_rng_below(rng, 2);
    }
    if (paged && hf_rng_below(rng, 2)) op.filter = hf_test_gen_condition(rng, arena, 2);
    if (paged && hf_rng_below(rng, 2)) op.start_key = (struct hf_item){key, 1};
    if (paged || op.kind == HF_LIST_TABLES) op.has_limit = hf_rng_below(rng, 2);
    if (op.has_limit) op.limit = 1 + hf_rng_below(rng, 50);
    if (op.kind == HF_LIST_TABLES && hf_rng_below(rng, 2)) op.start_table = HF_LIT("abc");
    if (op.kind == HF_CREATE_TABLE) {
        op.schema = (struct hf_key_schema){.hash_name = HF_LIT("pk"), .hash_type = HF_B};
        if (hf_rng_below(rng, 2)) {
            op.schema.range_name = HF_LIT("sk");
            op.schema.range_type = HF_N;
        }
        if (hf_rng_below(rng, 2)) op.read_units = op.write_units = 5;
        struct hf_table_wishes *wishes = hf__arena_zalloc(arena, 1, sizeof *wishes);
        if (op.read_units == 0) wishes->indexes = generate_indexes(rng, arena);
        wishes->has_protection = wishes->protection = hf_rng_below(rng, 2);
        op.wishes = wishes;
    }
    if (paged && hf_rng_below(rng, 2)) op.index = HF_LIT("by-owner");
    if (paged && !op.projection && hf_rng_below(rng, 2)) op.select = HF_SELECT_COUNT;
    if (op.kind == HF_SCAN && hf_rng_below(rng, 2)) {
        op.segments = 4;
        op.segment = hf_rng_below(rng, 4);
    }
    if (op.kind <= HF_SCAN || hf__op_has_parts(op.kind))
        op.capacity = (enum hf_capacity_wish)hf_rng_below(rng, HF_CAPACITY_WISHES);
    if (hf__op_has_parts(op.kind)) {
        struct hf_op *parts = hf__arena_zalloc(arena, 3, sizeof *parts);
        op.part_count = 1 + hf_rng_below(rng, 3);
        for (size_t i = 0; i < op.part_count; i++) parts[i] = generate_part(rng, arena, op.kind);
        op.parts = parts;
        if (op.kind == HF_TRANSACT_WRITE && hf_rng_below(rng, 2)) op.token = HF_LIT("once");
    }
    if (op.kind == HF_UPDATE_TABLE) {
        struct hf_table_wishes *wishes = hf__arena_zalloc(arena, 1, sizeof *wishes);
        struct hf_index_change *change = hf__arena_zalloc(arena, 1, sizeof *change);
        struct hf_indexes indexes = generate_indexes(rng, arena);
        if (indexes.count > 0 && indexes.at[indexes.count - 1].global) {
            change->index = indexes.at[indexes.count - 1];
            wishes->changes = change;
            wishes->change_count = 1;
        }
        wishes->has_protection = true;
        op.wishes = wishes;
    }
    if (op.kind == HF_TAG) {
        struct hf_table_wishes *wishes = hf__arena_zalloc(arena, 1, sizeof *wishes);
        wishes->tags = hf_test_item(arena, "{\"team\":{\"S\":\"a\"}}");
        op.wishes = wishes;
    }
    if (op.kind == HF_UPDATE_TTL) {
        op.ttl_attribute = HF_LIT("ttl");
        op.ttl_enabled = hf_rng_below(rng, 2);
    }
    return op;
}

TEST(requests_read_back_as_they_were)
{
    struct hf_rng rng = {21};
    for (int i = 0; i < 10000; i++) {
        struct hf_arena arena = {0};
        struct hf_buf body;
        struct hf_error error = {0};
        enum hf_op_kind kind = (enum hf_op_kind)hf_rng_below(&rng, HF_OP_KINDS);
        if (kind == HF_CONDITION_CHECK) kind = HF_TRANSACT_WRITE; /* is no request by itself */
        struct hf_op op = generate_op(&rng, &arena, kind), back;
        hf__buf_init(&body, HF_REQUEST_MAX_SIZE);
        CHECK_INT(hf__request_write(&arena, &op, &body, &error), 0);
        hf_test_note("%s %.180s", hf__op_names[op.kind], hf__buf_cstr(&body));
        if (hf__request_read(&arena, op.kind, hf__buf_view(&body), &back, &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        CHECK(hf__op_equal(&op, &back));
        hf__buf_free(&body);
        hf__arena_free(&arena);
    }
}

TEST(requests_look_like_dynamodbs)
{
    struct hf_arena arena = {0};
    struct hf_buf body;
    struct hf_update update = {0};
    struct hf_attr key = {HF_LIT("key"), hf__s_str("job")};
    hf__buf_init(&body, HF_REQUEST_MAX_SIZE);
    hf__update_set(&arena, &update, "owner", hf__s_str("me"));
    hf__update_count(&arena, &update, "token", 100, 1);
    hf__update_remove(&arena, &update, "ttl");
    struct hf_op op = {
        .kind = HF_UPDATE_ITEM,
        .table = HF_LIT("locks"),
        .key = {&key, 1},
        .update = &update,
        .condition = hf__cond_and(&arena, hf__cond_absent(&arena, "grant"),
                                  hf__cond_absent(&arena, "holders")),
        .returns = HF_RETURN_ALL_NEW,
        .old_on_failure = true,
    };
    CHECK_INT(hf__request_write(&arena, &op, &body, NULL), 0);
    CHECK_STR(
        hf__buf_cstr(&body),
        "{\"TableName\":\"locks\",\"Key\":{\"key\":{\"S\":\"job\"}},\"UpdateExpression\":\"SET #n0 = :v0, "
        "#n1 = if_not_exists(#n1, :v1) + :v2 REMOVE #n2\",\"ConditionExpression\":"
        "\"attribute_not_exists(#n3) AND attribute_not_exists(#n4)\",\"ReturnValues\":\"ALL_NEW\","
        "\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"ExpressionAttributeNames\":{\"#n0\":\"owner\","
        "\"#n1\":\"token\",\"#n2\":\"ttl\",\"#n3\":\"grant\",\"#n4\":\"holders\"},"
        "\"ExpressionAttributeValues\":{\":v0\":{\"S\":\"me\"},\":v1\":{\"N\":\"100\"},\":v2\":{\"N\":\"1\"}}}");
    hf__buf_free(&body);
    hf__arena_free(&arena);
}

TEST(bad_requests_are_refused)
{
    static const struct {
        enum hf_op_kind kind;
        const char *body, *message;
    } cases[] = {
        {HF_GET_ITEM, "[]", "JSON, byte 0: expected an object"},
        {HF_GET_ITEM, "{\"TableName\":5}", "JSON, byte 13: expected a string"},
        {HF_GET_ITEM, "{\"TableName\":\"t\",\"AttributesToGet\":[\"a\",\"a\"]}",
         "One or more parameter values were invalid: Duplicate value in attribute name: a"},
        {HF_GET_ITEM,
         "{\"TableName\":\"t\",\"Key\":{},\"AttributesToGet\":[\"a\"],\"ProjectionExpression\":\"a\"}",
         "Can not use both expression and non-expression parameters in the same request: "
         "Non-expression parameters: {AttributesToGet} Expression parameters: "
         "{ProjectionExpression}"},
        {HF_SCAN, "{\"TableName\":\"t\",\"Segment\":1}",
         "The TotalSegments parameter is required but was not present in the request when Segment "
         "parameter is present"},
        {HF_TRANSACT_WRITE, "{\"TransactItems\":[{}]}",
         "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request"},
        {HF_PUT_ITEM,
         "{\"TableName\":\"t\",\"Item\":{},\"ExpressionAttributeValues\":{\":x\":{\"S\":\"a\"}}}",
         "ExpressionAttributeValues can only be specified when using expressions: "
         "ConditionExpression is null"},
        {HF_PUT_ITEM,
         "{\"TableName\":\"t\",\"Item\":{},\"ExpressionAttributeNames\":{\"#x\":\"a\"}}",
         "ExpressionAttributeNames can only be specified when using expressions"},
        {HF_PUT_ITEM,
         "{\"TableName\":\"t\",\"Item\":{},\"ConditionExpression\":\"a=:a\",\"ExpressionAttributeValues\":{\"x\":{\"S\":"
         "\"a\"}}}",
         "ExpressionAttributeValues contains invalid key: Syntax error; key: \"x\""},
        {HF_PUT_ITEM, "{\"TableName\":\"t\",\"Item\":{},\"ReturnValues\":\"SOME\"}",
         "1 validation error detected: Value 'SOME' at 'returnValues' failed to satisfy "
         "constraint: Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, "
         "UPDATED_NEW]"},
        {HF_PUT_ITEM,
         "{\"TableName\":\"t\",\"Item\":{},\"ReturnItemCollectionMetrics\":\"X\",\"ReturnValuesOnConditionCheckFailure\":\"Y\"}",
         "2 validation errors detected: Value 'X' at 'returnItemCollectionMetrics' failed to satisfy "
         "constraint: Member must satisfy enum value set: [SIZE, NONE]; Value 'Y' at "
         "'returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum "
         "value set: [ALL_OLD, NONE]"},
        {HF_PUT_ITEM, "{\"TableName\":\"x!\",\"Item\":{},\"ReturnValues\":\"SOME\"}",
         "1 validation error detected: Value 'x!' at 'tableName' failed to satisfy constraint: Member "
         "must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
        {HF_TRANSACT_WRITE,
         "{\"TransactItems\":[{\"Delete\":{\"TableName\":\"t\"}},{\"Put\":{\"Item\":{},"
         "\"ReturnValuesOnConditionCheckFailure\":\"Y\"}}]}",
         "3 validation errors detected: Value null at 'transactItems.1.member.delete.key' failed to "
         "satisfy constraint: Member must not be null; Value 'Y' at "
         "'transactItems.2.member.put.returnValuesOnConditionCheckFailure' failed to satisfy constraint: "
         "Member must satisfy enum value set: [ALL_OLD, NONE]; Value null at "
         "'transactItems.2.member.put.tableName' failed to satisfy constraint: Member must not be null"},
        {HF_CREATE_TABLE, "{\"TableName\":\"table\",\"KeySchema\":[]}",
         "1 validation error detected: Value '[]' at 'keySchema' failed to satisfy constraint: Member "
         "must have length greater than or equal to 1"},
        {HF_CREATE_TABLE,
         "{\"TableName\":\"table\",\"KeySchema\":[{\"AttributeName\":\"pk\",\"KeyType\":\"HASH\"}],\"BillingMode\":\"PAY_PER_"
         "REQUEST\"}",
         "One or more parameter values were invalid: Some index key attributes are not defined in "
         "AttributeDefinitions. Keys: [pk]"},
        {HF_CREATE_TABLE,
         "{\"TableName\":\"table\",\"KeySchema\":[{\"AttributeName\":\"pk\",\"KeyType\":\"HASH\"}],\"AttributeDefinitions\":"
         "[{\"AttributeName\":\"pk\",\"AttributeType\":\"BOOL\"}],\"BillingMode\":\"PAY_PER_REQUEST\"}",
         "1 validation error detected: Value 'BOOL' at 'attributeDefinitions.1.member.attributeType' failed to "
         "satisfy constraint: Member must satisfy enum value set: [B, N, S]"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_error error = {0};
        struct hf_op op;
        hf_test_note("%s", cases[i].body);
        CHECK(hf__request_read(&arena, cases[i].kind, hf__slice_str(cases[i].body), &op, &error) !=
              0);
        CHECK_STR(error.message, cases[i].message);
        hf__arena_free(&arena);
    }
}

TEST(targets_name_operations)
{
    enum hf_op_kind kind;
    CHECK(hf__request_kind(HF_LIT("DynamoDB_20120810.UpdateTimeToLive"), &kind) &&
          kind == HF_UPDATE_TTL);
    CHECK(!hf__request_kind(HF_LIT("DynamoDB_20120810.Nonsense"), &kind));
    CHECK(!hf__request_kind(HF_LIT("GetItem"), &kind));
}

static struct hf_answer generate_answer(struct hf_rng *rng, struct hf_arena *arena,
                                        enum hf_op_kind kind)
{
    struct hf_answer answer = {0};
    struct hf_item *items = hf__arena_zalloc(arena, 3, sizeof *items);
    struct hf_slice *tables = hf__arena_zalloc(arena, 2, sizeof *tables);
    switch (kind) {
    case HF_GET_ITEM:
    case HF_PUT_ITEM:
    case HF_UPDATE_ITEM:
    case HF_DELETE_ITEM:
        answer.has_item = hf_rng_below(rng, 2);
        if (answer.has_item) answer.item = hf_test_gen_item(rng, arena);
        break;
    case HF_QUERY:
    case HF_SCAN:
        answer.items = items;
        answer.count = hf_rng_below(rng, 4);
        for (size_t i = 0; i < answer.count; i++) items[i] = hf_test_gen_item(rng, arena);
        answer.scanned = (int64_t)answer.count + hf_rng_below(rng, 3);
        if (hf_rng_below(rng, 2)) answer.last_key = hf_test_item(arena, "{\"key\":{\"S\":\"z\"}}");
        break;
    case HF_CREATE_TABLE:
    case HF_UPDATE_TABLE:
    case HF_DESCRIBE_TABLE:
    case HF_DELETE_TABLE:
        answer.table = (struct hf_table_info){
            .name = HF_LIT("locks"),
            .status = HF_LIT("ACTIVE"),
            .schema = {.hash_name = HF_LIT("pk"),
                       .hash_type = HF_B,
                       .range_name = HF_LIT("sk"),
                       .range_type = HF_B},
            .item_count = hf_rng_below(rng, 100),
            .on_demand = hf_rng_below(rng, 2),
            .created_unix_ms = 1794738030005 + hf_rng_below(rng, 1000),
            .indexes = generate_indexes(rng, arena),
            .is_protected = hf_rng_below(rng, 2),
        };
        break;
    case HF_LIST_TABLES:
        tables[0] = HF_LIT("abc");
        tables[1] = HF_LIT("def");
        answer.tables = tables;
        answer.table_count = 2;
        if (hf_rng_below(rng, 2)) answer.last_table = HF_LIT("def");
        break;
    case HF_UPDATE_TTL:
    case HF_DESCRIBE_TTL:
        answer.ttl_status = hf_rng_below(rng, 2) ? HF_LIT("ENABLED") : HF_LIT("DISABLED");
        answer.ttl_attribute = HF_LIT("ttl");
        break;
    case HF_TRANSACT_GET:
        answer.part_count = 1 + hf_rng_below(rng, 3);
        answer.parts = hf__arena_zalloc(arena, answer.part_count, sizeof *answer.parts);
        for (size_t i = 0; i < answer.part_count; i++) {
            answer.parts[i].has_item = hf_rng_below(rng, 2);
            if (answer.parts[i].has_item) answer.parts[i].item = hf_test_gen_item(rng, arena);
        }
        break;
    case HF_LIST_TAGS: answer.tags = hf_test_item(arena, "{\"team\":{\"S\":\"a\"}}"); break;
    case HF_CONDITION_CHECK: /* is no request, and batches are written only */
    case HF_BATCH_GET:
    case HF_BATCH_WRITE:
    case HF_TRANSACT_WRITE:
    case HF_TAG:
    case HF_UNTAG: break;
    }
    return answer;
}

TEST(answers_read_back_as_they_were)
{
    struct hf_rng rng = {22};
    for (int i = 0; i < 5000; i++) {
        struct hf_arena arena = {0};
        struct hf_buf body;
        struct hf_error error = {0};
        enum hf_op_kind kind = (enum hf_op_kind)hf_rng_below(&rng, HF_OP_KINDS);
        if (kind == HF_BATCH_GET) kind = HF_TRANSACT_GET;
        struct hf_answer answer = generate_answer(&rng, &arena, kind), back = {0};
        hf__buf_init(&body, HF_ANSWER_MAX_SIZE);
        CHECK_INT(hf__answer_write(&(struct hf_op){.kind = kind}, &answer, &body), 200);
        hf_test_note("%s %.180s", hf__op_names[kind], hf__buf_cstr(&body));
        if (hf__answer_read(&arena, kind, hf__buf_view(&body), &back, &error) != 0)
            hf_test_fail(__FILE__, __LINE__, "%s", error.message);
        CHECK(back.has_item == answer.has_item && hf__item_equal(back.item, answer.item));
        CHECK(back.count == answer.count && back.scanned == answer.scanned);
        for (size_t j = 0; j < answer.count; j++)
            CHECK(hf__item_equal(back.items[j], answer.items[j]));
        CHECK(hf__item_equal(back.last_key, answer.last_key));
        CHECK_SLICE(back.table.name, answer.table.name);
        CHECK_SLICE(back.table.schema.range_name, answer.table.schema.range_name);
        CHECK_INT(back.table.schema.range_type, answer.table.schema.range_type);
        CHECK_INT(back.table.created_unix_ms, answer.table.created_unix_ms);
        CHECK(back.table.on_demand == answer.table.on_demand);
        CHECK_INT(back.table_count, answer.table_count);
        CHECK_SLICE(back.last_table, answer.last_table);
        CHECK_SLICE(back.ttl_status, answer.ttl_status);
        CHECK(hf__indexes_equal(back.table.indexes, answer.table.indexes));
        CHECK(back.table.is_protected == answer.table.is_protected);
        CHECK(hf__item_equal(back.tags, answer.tags));
        CHECK_INT(back.part_count, answer.part_count);
        for (size_t j = 0; j < answer.part_count; j++)
            CHECK(back.parts[j].has_item == answer.parts[j].has_item &&
                  hf__item_equal(back.parts[j].item, answer.parts[j].item));
        hf__buf_free(&body);
        hf__arena_free(&arena);
    }
}

TEST(errors_travel_as_exceptions)
{
    struct hf_arena arena = {0};
    struct hf_buf body;
    hf__buf_init(&body, HF_ANSWER_MAX_SIZE);
    static const int codes[] = {HF_ERR_CONDITION,    HF_ERR_VALIDATION, HF_ERR_NO_TABLE,
                                HF_ERR_TABLE_IN_USE, HF_ERR_THROTTLED,  HF_ERR_DENIED,
                                HF_ERR_STORE};
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct hf_answer answer = {.code = codes[i]}, back = {0};
        const struct hf_exception *exception;
        hf__error_set(&answer.error, codes[i], "what went wrong");
        answer.has_item = codes[i] == HF_ERR_CONDITION;
        if (answer.has_item) answer.item = hf_test_item(&arena, "{\"owner\":{\"S\":\"you\"}}");
        hf__buf_clear(&body);
        int status = hf__answer_write(&(struct hf_op){.kind = HF_PUT_ITEM}, &answer, &body);
        hf__answer_read_error(&arena, status, hf__buf_view(&body), &back, &exception);
        CHECK_INT(back.code, codes[i]);
        CHECK_STR(back.error.message, "what went wrong");
        CHECK(back.has_item == answer.has_item && hf__item_equal(back.item, answer.item));
    }
    hf__buf_free(&body);
    hf__arena_free(&arena);
}

TEST(foreign_errors_are_understood_as_far_as_they_go)
{
    static const struct {
        int status;
        const char *body;
        int code;
        const char *message;
    } cases[] = {
        {400,
         "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ThrottlingException:http://x\",\"Message\":\"slow\"}",
         HF_ERR_THROTTLED, "slow"},
        {400, "{\"__type\":\"ValidationException\",\"message\":null}", HF_ERR_VALIDATION, ""},
        {503, "<html>unavailable</html>", HF_ERR_STORE,
         "HTTP status 503: <html>unavailable</html>"},
        {413, "", HF_ERR_BAD_ANSWER, "HTTP status 413"},
        {400, "{\"__type\":\"a#Strange\",\"message\":\"m\"}", HF_ERR_BAD_ANSWER,
         "HTTP status 400, Strange: m"},
        {400, "{\"__type\":\"a#ConditionalCheckFailedException\",\"Item\":{\"a\":{\"N\":\"x\"}}}",
         HF_ERR_BAD_ANSWER,
         "HTTP status 400: {\"__type\":\"a#ConditionalCheckFailedException\",\"Item\":{\"a\":{\"N\":\"x\"}}}"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hf_arena arena = {0};
        struct hf_answer answer = {0};
        const struct hf_exception *exception;
        hf__answer_read_error(&arena, cases[i].status, hf__slice_str(cases[i].body), &answer,
                              &exception);
        CHECK_INT(answer.code, cases[i].code);
        CHECK_STR(answer.error.message, cases[i].message);
        CHECK(!answer.has_item);
        hf__arena_free(&arena);
    }
}

static void write_and_read(void)
{
    struct hf_arena arena = {0};
    struct hf_buf body;
    struct hf_error error = {0};
    struct hf_op op = {.kind = HF_PUT_ITEM, .table = HF_LIT("locks")}, back;
    struct hf_attr attr = {HF_LIT("key"), hf__s_str("a\nb")};
    op.item = (struct hf_item){&attr, 1};
    op.condition = hf__cond_or(&arena, hf__cond_absent(&arena, "a"), hf__cond_exists(&arena, "b"));
    hf__buf_init(&body, HF_REQUEST_MAX_SIZE);
    int code = arena.failed ? HF_ERR_NO_MEMORY : hf__request_write(&arena, &op, &body, &error);
    if (code == 0) code = hf__request_read(&arena, op.kind, hf__buf_view(&body), &back, &error);
    CHECK((code != 0) == hf_alloc_has_failed());
    hf__buf_free(&body);
    hf__arena_free(&arena);
}

TEST(survives_want_of_memory)
{
    CHECK(hf_test_torture(write_and_read) > 2);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(requests_read_back_as_they_were),
        RUN(requests_look_like_dynamodbs),
        RUN(bad_requests_are_refused),
        RUN(targets_name_operations),
        RUN(answers_read_back_as_they_were),
        RUN(errors_travel_as_exceptions),
        RUN(foreign_errors_are_understood_as_far_as_they_go),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
