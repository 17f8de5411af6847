import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * Clients written in Java behind the line protocol of the interoperability test (see ../run):
 * Line awslabs|lockservice|single-table ENDPOINT TABLE OWNER LEASE_MS [OPTION...]
 */
public final class Line {
    /** Acquire answers "ok TOKEN", "held" or "error ...". */
    interface Client {
        String acquire(String name, long ms, String data, String purpose) throws Exception;

        String release(String name) throws Exception;

        String data(String name);

        String purpose(String name);
    }

    private static String count(Client client, String name, Path path, long ms) throws Exception {
        long done = 0;
        for (long end = System.nanoTime() + ms * 1000000; System.nanoTime() < end;) {
            String got = client.acquire(name, 5000, null, null);
            if (got.equals("held")) continue;
            if (!got.startsWith("ok")) return got;
            long value = Long.parseLong(Files.readString(path).trim());
            Thread.sleep(3);
            Files.writeString(path, (value + 1) + "\n");
            done++;
            client.release(name);
            Thread.sleep(3);
        }
        return "ok " + done;
    }

    private static String obey(Client client, String[] words) {
        try {
            switch (words[0]) {
                case "acquire":
                    return client.acquire(words[1], Long.parseLong(words[2]),
                        words.length > 3 ? words[3] : null, words.length > 4 ? words[4] : null);
                case "release":
                    return client.release(words[1]);
                case "data":
                    return client.data(words[1]);
                case "purpose":
                    return client.purpose(words[1]);
                case "count":
                    return count(client, words[1], Path.of(words[2]), Long.parseLong(words[3]));
                default:
                    return "error unknown command " + words[0];
            }
        } catch (Exception e) {
            return "error " + e;
        }
    }

    public static void main(String[] args) throws Exception {
        DynamoDbClient db = DynamoDbClient.builder()
            .endpointOverride(URI.create(args[1]))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test")))
            .build();
        Client client = args[0].equals("awslabs") ? new Theirs(db, args) : new Plain(db, args);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null && !line.equals("quit");) {
            System.out.println(obey(client, line.split(" ")));
        }
        System.exit(0);
    }
}
