import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.dynamodb2.DynamoDBLockProvider;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.dynamodb.model.KeyType;

/** ShedLock with its DynamoDB provider. */
final class Shedlock {
    private static final String TABLE = "shedlock";
    private static final DynamoDbClient client = DynamoDbClient.create();

    private static LockConfiguration lock(String name, Duration atMost) {
        return new LockConfiguration(Instant.now(), name, atMost, Duration.ZERO);
    }

    public static void main(String[] args) {
        LockProvider first = new DynamoDBLockProvider(client, TABLE), second = new DynamoDBLockProvider(client, TABLE);
        Cases.test("create its table", () -> {
            client.createTable(r -> r.tableName(TABLE).billingMode(BillingMode.PAY_PER_REQUEST)
                .keySchema(k -> k.attributeName("_id").keyType(KeyType.HASH))
                .attributeDefinitions(a -> a.attributeName("_id").attributeType("S")));
            client.waiter().waitUntilTableExists(r -> r.tableName(TABLE));
        });
        Cases.test("one holder at a time", () -> {
            SimpleLock held = first.lock(lock("nightly", Duration.ofMinutes(1))).orElseThrow();
            Cases.same(second.lock(lock("nightly", Duration.ofMinutes(1))), Optional.empty());
            held.unlock();
            Cases.same(second.lock(lock("nightly", Duration.ofMinutes(1))).isPresent(), true);
            Cases.same(first.lock(lock("nightly", Duration.ofMinutes(1))), Optional.empty());
        });
        Cases.test("takeover when expired", () -> {
            Cases.same(first.lock(lock("hourly", Duration.ofMillis(1))).isPresent(), true);
            Thread.sleep(5);
            Cases.same(second.lock(lock("hourly", Duration.ofMinutes(1))).isPresent(), true);
            Cases.same(first.lock(lock("hourly", Duration.ofMinutes(1))), Optional.empty());
        });
        Cases.finish();
    }
}
