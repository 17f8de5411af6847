import software.amazon.awssdk.enhanced.dynamodb.extensions.annotations.DynamoDbVersionAttribute;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbBean;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbPartitionKey;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbSecondaryPartitionKey;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbSortKey;

/** What the enhanced client maps to an item: a version guards each write. */
@DynamoDbBean
public class Task {
    private String team;
    private Integer id;
    private String owner;
    private Integer version;

    static Task of(String team, int id, String owner) {
        Task task = new Task();
        task.team = team;
        task.id = id;
        task.owner = owner;
        return task;
    }

    @DynamoDbPartitionKey
    public String getTeam() { return team; }
    public void setTeam(String team) { this.team = team; }

    @DynamoDbSortKey
    public Integer getId() { return id; }
    public void setId(Integer id) { this.id = id; }

    @DynamoDbSecondaryPartitionKey(indexNames = "by-owner")
    public String getOwner() { return owner; }
    public void setOwner(String owner) { this.owner = owner; }

    @DynamoDbVersionAttribute
    public Integer getVersion() { return version; }
    public void setVersion(Integer version) { this.version = version; }
}
