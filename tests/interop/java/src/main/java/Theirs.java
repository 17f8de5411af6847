import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.GetLockOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import com.amazonaws.services.dynamodbv2.ReleaseLockOptions;
import com.amazonaws.services.dynamodbv2.model.LockCurrentlyUnavailableException;
import com.amazonaws.services.dynamodbv2.model.LockNotGrantedException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;

/**
 * The Amazon DynamoDB Lock Client: Line awslabs ENDPOINT TABLE OWNER LEASE_MS [keep] [sort=NAME:VALUE]
 */
public final class Theirs implements Line.Client {
    private final AmazonDynamoDBLockClient client;
    private final Map<String, LockItem> held = new HashMap<>();
    private boolean keep;
    private String sortValue;

    Theirs(DynamoDbClient db, String[] args) {
        long lease = Long.parseLong(args[4]);
        AmazonDynamoDBLockClientOptions.AmazonDynamoDBLockClientOptionsBuilder options =
            AmazonDynamoDBLockClientOptions.builder(db, args[2])
                .withOwnerName(args[3])
                .withTimeUnit(TimeUnit.MILLISECONDS)
                .withLeaseDuration(lease)
                .withHeartbeatPeriod(lease / 4)
                .withCreateHeartbeatBackgroundThread(true)
                .withPartitionKeyName("key");
        for (int i = 5; i < args.length; i++) {
            if (args[i].equals("keep")) keep = true;
            if (args[i].startsWith("sort=")) {
                String[] parts = args[i].substring(5).split(":", 2);
                options.withSortKeyName(parts[0]);
                sortValue = parts[1];
            }
        }
        client = new AmazonDynamoDBLockClient(options.build());
    }

    @Override
    public String acquire(String name, long ms, String data, String purpose) throws InterruptedException {
        AcquireLockOptions.AcquireLockOptionsBuilder options = AcquireLockOptions.builder(name)
            .withTimeUnit(TimeUnit.MILLISECONDS)
            .withRefreshPeriod(100L)
            .withAdditionalTimeToWaitForLock(ms)
            .withDeleteLockOnRelease(!keep);
        if (ms == 0) options.withShouldSkipBlockingWait(true);
        if (sortValue != null) options.withSortKey(sortValue);
        if (data != null) options.withData(ByteBuffer.wrap(data.getBytes(StandardCharsets.UTF_8)));
        if (purpose != null) {
            options.withAdditionalAttributes(Map.of("purpose", AttributeValue.builder().s(purpose).build()));
        }
        try {
            held.put(name, client.acquireLock(options.build()));
            return "ok 0";
        } catch (LockNotGrantedException | LockCurrentlyUnavailableException e) {
            return "held";
        }
    }

    @Override
    public String release(String name) {
        LockItem lock = held.remove(name);
        if (lock == null) return "lost";
        return client.releaseLock(ReleaseLockOptions.builder(lock).withDeleteLock(!keep).build()) ? "ok" : "lost";
    }

    private Optional<LockItem> get(String name) {
        GetLockOptions.GetLockOptionsBuilder options = GetLockOptions.builder(name);
        if (sortValue != null) options.withSortKey(sortValue);
        return client.getLockFromDynamoDB(options.build());
    }

    @Override
    public String purpose(String name) {
        return "ok " + get(name).map(l -> l.getAdditionalAttributes().get("purpose"))
            .map(AttributeValue::s).orElse("");
    }

    @Override
    public String data(String name) {
        Optional<LockItem> lock = get(name);
        return "ok " + lock.flatMap(LockItem::getData)
            .map(d -> StandardCharsets.UTF_8.decode(d.duplicate()).toString()).orElse("");
    }
}
