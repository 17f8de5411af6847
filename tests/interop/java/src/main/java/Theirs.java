import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.GetLockOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import com.amazonaws.services.dynamodbv2.ReleaseLockOptions;
import com.amazonaws.services.dynamodbv2.model.LockCurrentlyUnavailableException;
import com.amazonaws.services.dynamodbv2.model.LockNotGrantedException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * The Amazon DynamoDB Lock Client behind the line protocol of the interoperability test (see ../run):
 * Theirs awslabs ENDPOINT TABLE OWNER LEASE_MS [keep] [sort=NAME:VALUE]
 */
public final class Theirs {
    private final AmazonDynamoDBLockClient client;
    private final Map<String, LockItem> held = new HashMap<>();
    private boolean keep;
    private String sortValue;

    private Theirs(String[] args) {
        DynamoDbClient db = DynamoDbClient.builder()
            .endpointOverride(URI.create(args[1]))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test")))
            .build();
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

    private String acquire(String name, long ms, String data) throws InterruptedException {
        AcquireLockOptions.AcquireLockOptionsBuilder options = AcquireLockOptions.builder(name)
            .withTimeUnit(TimeUnit.MILLISECONDS)
            .withRefreshPeriod(100L)
            .withAdditionalTimeToWaitForLock(ms)
            .withDeleteLockOnRelease(!keep);
        if (ms == 0) options.withShouldSkipBlockingWait(true);
        if (sortValue != null) options.withSortKey(sortValue);
        if (data != null) options.withData(ByteBuffer.wrap(data.getBytes(StandardCharsets.UTF_8)));
        try {
            held.put(name, client.acquireLock(options.build()));
            return "ok 0";
        } catch (LockNotGrantedException | LockCurrentlyUnavailableException e) {
            return "held";
        }
    }

    private String release(String name) {
        LockItem lock = held.remove(name);
        if (lock == null) return "lost";
        return client.releaseLock(ReleaseLockOptions.builder(lock).withDeleteLock(!keep).build()) ? "ok" : "lost";
    }

    private String data(String name) {
        GetLockOptions.GetLockOptionsBuilder options = GetLockOptions.builder(name);
        if (sortValue != null) options.withSortKey(sortValue);
        Optional<LockItem> lock = client.getLockFromDynamoDB(options.build());
        return "ok " + lock.flatMap(LockItem::getData)
            .map(d -> StandardCharsets.UTF_8.decode(d.duplicate()).toString()).orElse("");
    }

    private String count(String name, Path path, long ms) throws Exception {
        long done = 0;
        for (long end = System.nanoTime() + ms * 1000000; System.nanoTime() < end;) {
            String got = acquire(name, 5000, null);
            if (got.equals("held")) continue;
            long value = Long.parseLong(Files.readString(path).trim());
            Thread.sleep(3);
            Files.writeString(path, (value + 1) + "\n");
            done++;
            release(name);
            Thread.sleep(3);
        }
        return "ok " + done;
    }

    private String obey(String[] words) {
        try {
            switch (words[0]) {
                case "acquire":
                    return acquire(words[1], Long.parseLong(words[2]), words.length > 3 ? words[3] : null);
                case "release":
                    return release(words[1]);
                case "data":
                    return data(words[1]);
                case "count":
                    return count(words[1], Path.of(words[2]), Long.parseLong(words[3]));
                default:
                    return "error unknown command " + words[0];
            }
        } catch (Exception e) {
            return "error " + e;
        }
    }

    public static void main(String[] args) throws Exception {
        Theirs theirs = new Theirs(args);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null && !line.equals("quit");) {
            System.out.println(theirs.obey(line.split(" ")));
        }
        System.exit(0);
    }
}
