import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.ConditionalCheckFailedException;

/** lockservice and single-table: the requests of docs/FORMATS.md, by the official SDK. */
final class Plain implements Line.Client {
    private final DynamoDbClient db;
    private final boolean service;
    private final String table;
    private final String owner;
    private final long leaseSeconds;
    private final Map<String, String> held = new HashMap<>();

    Plain(DynamoDbClient db, String[] args) {
        this.db = db;
        service = args[0].equals("lockservice");
        table = args[2];
        owner = args[3];
        leaseSeconds = Long.parseLong(args[4]) / 1000;
        if (service) {
            ScheduledExecutorService heart = Executors.newSingleThreadScheduledExecutor();
            heart.scheduleAtFixedRate(this::renewAll, 700, 700, TimeUnit.MILLISECONDS);
        }
    }

    private static AttributeValue text(String value) {
        return AttributeValue.builder().s(value).build();
    }

    private static AttributeValue number(long value) {
        return AttributeValue.builder().n(Long.toString(value)).build();
    }

    private Map<String, AttributeValue> key(String name) {
        return service ? Map.of("lockId", text(name)) : Map.of("PK", text("LOCK#" + name), "SK", text("LOCK"));
    }

    private boolean tryOnce(String name) {
        Instant now = Instant.now().truncatedTo(ChronoUnit.SECONDS);
        Instant end = now.plusSeconds(leaseSeconds);
        String id = service ? UUID.randomUUID().toString() : owner + "_" + System.nanoTime();
        Map<String, AttributeValue> item = new HashMap<>(key(name));
        String condition;
        Map<String, AttributeValue> values;
        Map<String, String> names = null;
        if (service) {
            String[] parts = name.split(":", 2);
            item.put("namespace", text(parts[0]));
            item.put("lockName", text(parts[1]));
            item.put("owner", text(owner));
            item.put("instanceId", text(id));
            item.put("leaseDuration", number(leaseSeconds));
            item.put("expiry", number(end.getEpochSecond()));
            condition = "attribute_not_exists(lockId) OR expiry < :now OR (#o = :o AND instanceId = :i)";
            names = Map.of("#o", "owner");
            values = Map.of(":now", number(now.getEpochSecond()), ":o", text(owner), ":i", text(id));
        } else {
            item.put("LockID", text(id));
            item.put("Owner", text(owner));
            item.put("AcquiredAt", text(now.toString()));
            item.put("ExpiresAt", text(end.toString()));
            item.put("TTL", number(end.getEpochSecond()));
            condition = "attribute_not_exists(PK) OR ExpiresAt < :now";
            values = Map.of(":now", text(now.toString()));
        }
        Map<String, String> aliases = names;
        try {
            db.putItem(b -> b.tableName(table).item(item).conditionExpression(condition)
                .expressionAttributeNames(aliases).expressionAttributeValues(values));
        } catch (ConditionalCheckFailedException e) {
            return false;
        }
        synchronized (held) {
            held.put(name, id);
        }
        return true;
    }

    private void renewAll() {
        synchronized (held) {
            for (Map.Entry<String, String> lock : held.entrySet()) {
                try {
                    db.updateItem(b -> b.tableName(table).key(key(lock.getKey()))
                        .updateExpression("SET leaseDuration = leaseDuration + :s, expiry = expiry + :s")
                        .conditionExpression(
                            "attribute_exists(lockId) AND expiry >= :now AND #o = :o AND instanceId = :i")
                        .expressionAttributeNames(Map.of("#o", "owner"))
                        .expressionAttributeValues(Map.of(":s", number(1), ":o", text(owner),
                            ":now", number(Instant.now().getEpochSecond()), ":i", text(lock.getValue()))));
                } catch (ConditionalCheckFailedException e) {
                    // lost; its release says so
                }
            }
        }
    }

    @Override
    public String acquire(String name, long ms, String data, String purpose) throws InterruptedException {
        for (long end = System.nanoTime() + ms * 1000000;; Thread.sleep(100)) {
            if (tryOnce(name)) return "ok 0";
            if (System.nanoTime() >= end) return "held";
        }
    }

    @Override
    public String release(String name) {
        synchronized (held) {
            String id = held.remove(name);
            if (id == null) return "lost";
            String mine = service ? "#o = :o AND instanceId = :i" : "#o = :o AND LockID = :i";
            try {
                db.deleteItem(b -> b.tableName(table).key(key(name)).conditionExpression(mine)
                    .expressionAttributeNames(Map.of("#o", service ? "owner" : "Owner"))
                    .expressionAttributeValues(Map.of(":o", text(owner), ":i", text(id))));
                return "ok";
            } catch (ConditionalCheckFailedException e) {
                return "lost";
            }
        }
    }

    @Override
    public String data(String name) {
        return "error no data";
    }

    @Override
    public String purpose(String name) {
        return "error no attributes";
    }
}
