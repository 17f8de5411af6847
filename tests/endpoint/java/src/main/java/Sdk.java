import static software.amazon.awssdk.enhanced.dynamodb.model.QueryConditional.keyEqualTo;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbEnhancedClient;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbTable;
import software.amazon.awssdk.enhanced.dynamodb.Expression;
import software.amazon.awssdk.enhanced.dynamodb.TableSchema;
import software.amazon.awssdk.enhanced.dynamodb.model.TransactWriteItemsEnhancedRequest;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.*;

/** The AWS SDK for Java v2: its client, waiters and paginators, and the enhanced client on top. */
final class Sdk {
    private static final String TABLE = "java-orders";
    private static final DynamoDbClient client = DynamoDbClient.create(); // all settings are in the environment

    private static AttributeValue text(String value) {
        return AttributeValue.fromS(value);
    }

    private static AttributeValue number(int value) {
        return AttributeValue.fromN(Integer.toString(value));
    }

    private static Map<String, AttributeValue> key(String customer, int id) {
        return Map.of("customer", text(customer), "id", number(id));
    }

    private static List<Integer> ids(Iterable<Map<String, AttributeValue>> items) {
        List<Integer> found = new ArrayList<>();
        items.forEach(item -> found.add(Integer.parseInt(item.get("id").n())));
        return found;
    }

    private static KeySchemaElement[] keys(String... names) {
        return IntStream.range(0, names.length)
            .mapToObj(n -> KeySchemaElement.builder().attributeName(names[n])
                .keyType(n == 0 ? KeyType.HASH : KeyType.RANGE).build())
            .toArray(KeySchemaElement[]::new);
    }

    private static Projection projection(ProjectionType type) {
        return Projection.builder().projectionType(type).build();
    }

    private static Map<String, String> indexes() {
        return client.describeTable(r -> r.tableName(TABLE)).table().globalSecondaryIndexes().stream()
            .collect(Collectors.toMap(index -> index.indexName(), index -> index.indexStatusAsString()));
    }

    public static void main(String[] args) {
        Cases.test("create table with indexes", Sdk::createTable);
        Cases.test("put, get, update, delete with conditions", Sdk::items);
        Cases.test("batch write and get", Sdk::batches);
        Cases.test("query indexes page by page", Sdk::queries);
        Cases.test("scan in parallel segments", Sdk::scan);
        Cases.test("transactions", Sdk::transactions);
        Cases.test("enhanced client", Sdk::enhanced);
        Cases.test("time to live", Sdk::timeToLive);
        Cases.test("update table adds and deletes an index", Sdk::updateTable);
        Cases.test("delete table", Sdk::deleteTable);
        Cases.finish();
    }

    private static void createTable() {
        Map<String, String> types = Map.of("customer", "S", "id", "N", "state", "S", "amount", "N", "title", "S");
        List<AttributeDefinition> attributes = types.entrySet().stream()
            .map(one -> AttributeDefinition.builder().attributeName(one.getKey()).attributeType(one.getValue()).build())
            .collect(Collectors.toList());
        client.createTable(r -> r.tableName(TABLE).billingMode(BillingMode.PAY_PER_REQUEST)
            .attributeDefinitions(attributes)
            .keySchema(keys("customer", "id"))
            .globalSecondaryIndexes(i -> i.indexName("by-state").keySchema(keys("state", "amount"))
                .projection(projection(ProjectionType.ALL)))
            .localSecondaryIndexes(i -> i.indexName("by-title").keySchema(keys("customer", "title"))
                .projection(projection(ProjectionType.KEYS_ONLY))));
        TableDescription made = client.waiter().waitUntilTableExists(r -> r.tableName(TABLE)).matched().response()
            .get().table();
        Cases.same(made.tableStatus(), TableStatus.ACTIVE);
        Cases.same(indexes(), Map.of("by-state", "ACTIVE"));
    }

    private static void items() {
        Map<String, AttributeValue> item = Map.of("customer", text("ann"), "id", number(1), "state", text("open"),
            "amount", number(5),
            "nested", AttributeValue.fromM(Map.of("list",
                AttributeValue.fromL(List.of(AttributeValue.fromBool(true), AttributeValue.fromNul(true))))),
            "words", AttributeValue.fromSs(List.of("a", "b")));
        PutItemRequest put = PutItemRequest.builder().tableName(TABLE).item(item)
            .conditionExpression("attribute_not_exists(id)")
            .returnValuesOnConditionCheckFailure("ALL_OLD").build();
        client.putItem(put);
        Cases.same(Cases.refused(ConditionalCheckFailedException.class, () -> client.putItem(put)).item(), item);
        Cases.same(client.getItem(r -> r.tableName(TABLE).key(key("ann", 1)).consistentRead(true)).item(), item);
        UpdateItemRequest update = UpdateItemRequest.builder().tableName(TABLE).key(key("ann", 1))
            .returnValues(ReturnValue.UPDATED_NEW)
            .updateExpression("SET #s = :paid, amount = amount + :one REMOVE nested").conditionExpression("#s = :open")
            .expressionAttributeNames(Map.of("#s", "state"))
            .expressionAttributeValues(Map.of(":paid", text("paid"), ":open", text("open"), ":one", number(1))).build();
        Cases.same(client.updateItem(update).attributes(), Map.of("state", text("paid"), "amount", number(6)));
        Cases.refused(ConditionalCheckFailedException.class, () -> client.updateItem(update));
        DeleteItemResponse deleted = client.deleteItem(r -> r.tableName(TABLE).key(key("ann", 1))
            .returnValues(ReturnValue.ALL_OLD)
            .conditionExpression("amount > :five").expressionAttributeValues(Map.of(":five", number(5)))
            .returnConsumedCapacity(ReturnConsumedCapacity.TOTAL));
        Cases.same(deleted.attributes().get("state"), text("paid"));
        Cases.same(deleted.consumedCapacity().tableName(), TABLE);
        Cases.same(client.getItem(r -> r.tableName(TABLE).key(key("ann", 1))).hasItem(), false);
    }

    private static void batches() {
        for (int first : new int[] {0, 25}) {
            List<WriteRequest> writes = Cases.numbers(first, first + 25, 1).stream()
            .map(n -> WriteRequest.builder().putRequest(p -> p.item(
                Map.of("customer", text("c" + n % 2), "id", number(n), "state", text(n % 5 == 0 ? "paid" : "open"),
                    "amount", number(n),
                    "title", text("t" + (99 - n))))).build()).collect(Collectors.toList());
            Cases.same(client.batchWriteItem(r -> r.requestItems(Map.of(TABLE, writes))).unprocessedItems(), Map.of());
        }
        List<Map<String, AttributeValue>> wanted = Cases.numbers(0, 60, 1).stream().map(n -> key("c" + n % 2, n))
            .collect(Collectors.toList());
        List<Integer> found = ids(client.batchGetItem(r -> r.requestItems(Map.of(TABLE, KeysAndAttributes.builder()
            .keys(wanted).build())))
            .responses().get(TABLE));
        Collections.sort(found);
        Cases.same(found, Cases.numbers(0, 50, 1));
    }

    private static void queries() {
        Cases.same(ids(client.queryPaginator(r -> r.tableName(TABLE).indexName("by-state").limit(3)
            .scanIndexForward(false)
            .keyConditionExpression("#s = :paid AND amount > :five").expressionAttributeNames(Map.of("#s", "state"))
            .expressionAttributeValues(Map.of(":paid", text("paid"), ":five", number(5)))).items()),
                Cases.numbers(45, 5, -5));
        Cases.same(ids(client.queryPaginator(r -> r.tableName(TABLE).indexName("by-title").limit(2)
            .keyConditionExpression("customer = :c AND begins_with(title, :t8)")
            .expressionAttributeValues(Map.of(":c", text("c1"), ":t8", text("t8")))).items()),
                Cases.numbers(19, 10, -2));
        Cases.same(client.query(r -> r.tableName(TABLE).select(Select.COUNT)
            .keyConditions(Map.of("customer", Condition.builder()
            .comparisonOperator(ComparisonOperator.EQ).attributeValueList(text("c0")).build()))).count(), 25);
    }

    private static void scan() {
        List<Integer> found = IntStream.range(0, 4).parallel().boxed().flatMap(n ->
            ids(client.scanPaginator(r -> r.tableName(TABLE).segment(n).totalSegments(4).limit(5)).items()).stream())
            .sorted().collect(Collectors.toList());
        Cases.same(found, Cases.numbers(0, 50, 1));
    }

    private static void transactions() {
        TransactWriteItem put = TransactWriteItem.builder().put(p -> p.tableName(TABLE).item(key("tx", 1))
            .conditionExpression("attribute_not_exists(id)").returnValuesOnConditionCheckFailure("ALL_OLD")).build();
        TransactWriteItem add = TransactWriteItem.builder().update(u -> u.tableName(TABLE).key(key("tx", 2))
            .updateExpression("ADD amount :n").expressionAttributeValues(Map.of(":n", number(1)))).build();
        TransactWriteItem exists = TransactWriteItem.builder().conditionCheck(c -> c.tableName(TABLE).key(key("c0", 0))
            .conditionExpression("attribute_exists(id)")).build();
        for (int n = 0; n < 2; n++) // the second is the same request, and changes nothing
            client.transactWriteItems(r -> r.transactItems(put, add, exists).clientRequestToken("java-once"));
        Cases.refused(IdempotentParameterMismatchException.class,
            () -> client.transactWriteItems(r -> r.transactItems(add).clientRequestToken("java-once")));
        List<CancellationReason> reasons = Cases.refused(TransactionCanceledException.class,
            () -> client.transactWriteItems(r -> r.transactItems(add, put, exists))).cancellationReasons();
        Cases.same(reasons.stream().map(CancellationReason::code).collect(Collectors.toList()),
            List.of("None", "ConditionalCheckFailed", "None"));
        Cases.same(reasons.get(1).item(), key("tx", 1));
        List<ItemResponse> got = client.transactGetItems(r -> r.transactItems(Cases.numbers(1, 4, 1).stream()
            .map(n -> TransactGetItem.builder().get(g -> g.tableName(TABLE).key(key("tx", n))).build())
                .collect(Collectors.toList()))).responses();
        Cases.same(got.get(1).item().get("amount"), number(1));
        Cases.same(got.stream().map(one -> one.item().size()).collect(Collectors.toList()), List.of(2, 3, 0));
    }

    private static void enhanced() {
        DynamoDbEnhancedClient mapper = DynamoDbEnhancedClient.builder().dynamoDbClient(client).build();
        DynamoDbTable<Task> tasks = mapper.table("java-tasks", TableSchema.fromBean(Task.class));
        tasks.createTable();
        client.waiter().waitUntilTableExists(r -> r.tableName("java-tasks"));
        Task first = tasks.updateItem(Task.of("a", 1, "ann"));
        Cases.same(first.getVersion(), 1);
        tasks.updateItem(first);
        Cases.refused(ConditionalCheckFailedException.class,
            () -> tasks.updateItem(first)); // its version is no longer the current one
        mapper.transactWriteItems(TransactWriteItemsEnhancedRequest.builder().addPutItem(tasks, Task.of("b", 2, "ann"))
            .addConditionCheck(tasks, c -> c.key(k -> k.partitionValue("a").sortValue(1))
                .conditionExpression(Expression.builder().expression("attribute_exists(id)").build())).build());
        Cases.same(tasks.index("by-owner").query(keyEqualTo(k -> k.partitionValue("ann"))).stream()
            .flatMap(page -> page.items().stream())
            .map(Task::getTeam).sorted().collect(Collectors.toList()), List.of("a", "b"));
        tasks.deleteTable();
    }

    private static void timeToLive() {
        client.updateTimeToLive(r -> r.tableName(TABLE)
            .timeToLiveSpecification(t -> t.enabled(true).attributeName("expires")));
        Cases.same(client.describeTimeToLive(r -> r.tableName(TABLE)).timeToLiveDescription().attributeName(),
            "expires");
    }

    private static void updateTable() throws Exception {
        client.updateTable(r -> r.tableName(TABLE)
            .attributeDefinitions(a -> a.attributeName("title").attributeType("S"))
            .globalSecondaryIndexUpdates(u -> u.create(c -> c.indexName("all-titles").keySchema(keys("title"))
                .projection(projection(ProjectionType.KEYS_ONLY)))));
        Cases.waitFor("the backfill", () -> "ACTIVE".equals(indexes().get("all-titles")));
        Cases.same(ids(client.query(r -> r.tableName(TABLE).indexName("all-titles").keyConditionExpression("title = :t")
            .expressionAttributeValues(Map.of(":t", text("t90")))).items()), List.of(9));
        client.updateTable(r -> r.tableName(TABLE)
            .globalSecondaryIndexUpdates(u -> u.delete(d -> d.indexName("all-titles"))));
        Cases.waitFor("deleting the index", () -> indexes().size() == 1);
    }

    private static void deleteTable() {
        client.deleteTable(r -> r.tableName(TABLE));
        client.waiter().waitUntilTableNotExists(r -> r.tableName(TABLE));
        Cases.refused(ResourceNotFoundException.class, () -> client.describeTable(r -> r.tableName(TABLE)));
    }
}
