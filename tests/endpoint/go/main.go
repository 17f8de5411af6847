// The AWS SDK for Go v2: its client, its expression builder, paginators and waiters.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

type order struct {
	Customer string   `dynamodbav:"customer"`
	ID       int      `dynamodbav:"id"`
	State    string   `dynamodbav:"state,omitempty"`
	Amount   int      `dynamodbav:"amount,omitempty"`
	Title    string   `dynamodbav:"title,omitempty"`
	Tags     []string `dynamodbav:"tags,omitempty,stringset"`
}

var (
	table  = aws.String("go-orders")
	ctx    = context.Background()
	client = dynamodb.New(dynamodb.Options{
		Region:       os.Getenv("AWS_REGION"),
		BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Credentials: credentials.NewStaticCredentialsProvider(
			os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
	})
)

func key(customer string, id int) item {
	return item{"customer": &types.AttributeValueMemberS{Value: customer},
		"id": &types.AttributeValueMemberN{Value: strconv.Itoa(id)}}
}

func encode(o order) item { return must(attributevalue.MarshalMap(o)) }

func orders(items []item) (found []order) {
	check(attributevalue.UnmarshalListOfMaps(items, &found))
	return found
}

func ids(items []item) []int {
	found := []int{}
	for _, o := range orders(items) {
		found = append(found, o.ID)
	}
	return found
}

func keys(hash string, rest ...string) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}}
	for n := range rest {
		schema = append(schema, types.KeySchemaElement{AttributeName: &rest[n], KeyType: types.KeyTypeRange})
	}
	return schema
}

func indexes() map[string]types.IndexStatus {
	found := map[string]types.IndexStatus{}
	for _, index := range must(client.DescribeTable(ctx,
		&dynamodb.DescribeTableInput{TableName: table})).Table.GlobalSecondaryIndexes {
		found[*index.IndexName] = index.IndexStatus
	}
	return found
}

func main() {
	test("create table with indexes", createTable)
	test("put, get, update, delete with conditions", items)
	test("batch write and get", batches)
	test("query indexes page by page", queries)
	test("scan in parallel segments", scans)
	test("transactions", transactions)
	test("time to live", timeToLive)
	test("update table adds and deletes an index", updateTable)
	test("delete table", deleteTable)
	os.Exit(status)
}

func createTable() {
	attribute := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	must(client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: table, KeySchema: keys("customer", "id"),
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5),
			WriteCapacityUnits: aws.Int64(5)},
		AttributeDefinitions: []types.AttributeDefinition{attribute("customer", "S"), attribute("id", "N"),
			attribute("state", "S"),
			attribute("amount", "N"), attribute("title", "S")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by-state"), KeySchema: keys("state", "amount"),
			Projection: &types.Projection{ProjectionType: "ALL"},
			ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5),
				WriteCapacityUnits: aws.Int64(5)}}},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{{
			IndexName: aws.String("by-title"), KeySchema: keys("customer", "title"),
			Projection: &types.Projection{ProjectionType: "KEYS_ONLY"}}},
	}))
	waiter := dynamodb.NewTableExistsWaiter(client,
		func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second })
	made := must(waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: table}, 30*time.Second)).Table
	same(*made.ProvisionedThroughput.ReadCapacityUnits, int64(5))
	same(indexes(), map[string]types.IndexStatus{"by-state": "ACTIVE"})
	if made.TableArn == nil || made.CreationDateTime == nil || made.ItemCount == nil {
		panic("TableArn, CreationDateTime or ItemCount is missing")
	}
}

func items() {
	first := order{"ann", 1, "open", 5, "chair", []string{"new", "oak"}}
	absent := must(expression.NewBuilder().WithCondition(expression.AttributeNotExists(expression.Name("id"))).Build())
	put := &dynamodb.PutItemInput{TableName: table, Item: encode(first), ConditionExpression: absent.Condition(),
		ExpressionAttributeNames: absent.Names(), ReturnValuesOnConditionCheckFailure: "ALL_OLD"}
	must(client.PutItem(ctx, put))
	conflict := refused[*types.ConditionalCheckFailedException](client.PutItem(ctx, put))
	same(orders([]item{conflict.Item}), []order{first})
	got := must(client.GetItem(ctx,
		&dynamodb.GetItemInput{TableName: table, Key: key("ann", 1), ConsistentRead: aws.Bool(true)}))
	same(orders([]item{got.Item}), []order{first})

	state, amount, tags := expression.Name("state"), expression.Name("amount"), expression.Name("tags")
	change := must(expression.NewBuilder().
		WithUpdate(expression.Set(state, expression.Value("paid")).Add(amount, expression.Value(2)).Remove(tags)).
		WithCondition(state.Equal(expression.Value("open")).And(tags.Contains("oak"))).Build())
	update := &dynamodb.UpdateItemInput{TableName: table, Key: key("ann", 1), UpdateExpression: change.Update(),
		ConditionExpression:      change.Condition(),
		ExpressionAttributeNames: change.Names(), ExpressionAttributeValues: change.Values(), ReturnValues: "ALL_NEW"}
	same(orders([]item{must(client.UpdateItem(ctx, update)).Attributes}), []order{{"ann", 1, "paid", 7, "chair", nil}})
	refused[*types.ConditionalCheckFailedException](client.UpdateItem(ctx, update))
	deleted := must(client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: table, Key: key("ann", 1),
		ReturnValues: "ALL_OLD", ReturnConsumedCapacity: "TOTAL"}))
	same(orders([]item{deleted.Attributes})[0].Amount, 7)
	same(*deleted.ConsumedCapacity.TableName, *table)
}

func batches() {
	for first := 0; first < 50; first += 25 {
		writes := []types.WriteRequest{}
		for _, n := range sequence(first, first+25, 1) {
			o := order{fmt.Sprintf("c%d", n%2), n, "open", n, fmt.Sprintf("t%02d", 99-n), nil}
			if n%5 == 0 {
				o.State = "paid"
			}
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: encode(o)}})
		}
		answer := must(client.BatchWriteItem(ctx,
			&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*table: writes}}))
		same(len(answer.UnprocessedItems), 0)
	}
	wanted := types.KeysAndAttributes{}
	for n := 0; n < 60; n++ {
		wanted.Keys = append(wanted.Keys, key(fmt.Sprintf("c%d", n%2), n))
	}
	answer := must(client.BatchGetItem(ctx,
		&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*table: wanted}}))
	found := ids(answer.Responses[*table])
	sort.Ints(found)
	same(found, sequence(0, 50, 1))
}

func query(index string, condition expression.KeyConditionBuilder, forward bool) []int {
	built := must(expression.NewBuilder().WithKeyCondition(condition).Build())
	pages := dynamodb.NewQueryPaginator(client,
		&dynamodb.QueryInput{TableName: table, IndexName: &index, Limit: aws.Int32(3), ScanIndexForward: &forward,
			KeyConditionExpression: built.KeyCondition(), ExpressionAttributeNames: built.Names(),
			ExpressionAttributeValues: built.Values()})
	found := []int{}
	for pages.HasMorePages() {
		found = append(found, ids(must(pages.NextPage(ctx)).Items)...)
	}
	return found
}

func queries() {
	paid := expression.Key("state").Equal(expression.Value("paid"))
	same(query("by-state", paid.And(expression.Key("amount").GreaterThan(expression.Value(5))), false),
		sequence(45, 5, -5))
	first := expression.Key("customer").Equal(expression.Value("c1"))
	same(query("by-title", first.And(expression.Key("title").BeginsWith("t8")), true),
		sequence(19, 9, -2))
}

func scans() {
	var all sync.WaitGroup
	found := make([][]int, 4)
	errs := make([]error, 4)
	for n := range found {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: table, Limit: aws.Int32(7),
				Segment: aws.Int32(int32(n)), TotalSegments: aws.Int32(4)})
			for pages.HasMorePages() && errs[n] == nil {
				var page *dynamodb.ScanOutput
				if page, errs[n] = pages.NextPage(ctx); errs[n] == nil {
					found[n] = append(found[n], ids(page.Items)...)
				}
			}
		}(n)
	}
	all.Wait()
	together := []int{}
	for n := range found {
		check(errs[n])
		together = append(together, found[n]...)
	}
	sort.Ints(together)
	same(together, sequence(0, 50, 1))
}

func transactions() {
	put := types.TransactWriteItem{Put: &types.Put{TableName: table, Item: key("tx", 1),
		ConditionExpression:                 aws.String("attribute_not_exists(id)"),
		ReturnValuesOnConditionCheckFailure: "ALL_OLD"}}
	add := types.TransactWriteItem{Update: &types.Update{TableName: table, Key: key("tx", 2),
		UpdateExpression:          aws.String("ADD amount :n"),
		ExpressionAttributeValues: item{":n": &types.AttributeValueMemberN{Value: "1"}}}}
	exists := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: table, Key: key("c0", 0),
		ConditionExpression: aws.String("attribute_exists(id)")}}
	write := func(token string, items ...types.TransactWriteItem) (*dynamodb.TransactWriteItemsOutput, error) {
		return client.TransactWriteItems(ctx,
			&dynamodb.TransactWriteItemsInput{TransactItems: items, ClientRequestToken: &token})
	}
	for n := 0; n < 10; n++ { // the same request changes nothing, in whatever order Go sends the members of a map
		must(write("go-once", put, add, exists))
	}
	refused[*types.IdempotentParameterMismatchException](write("go-once", add))
	cancelled := refused[*types.TransactionCanceledException](write("go-again", add, put, exists))
	codes := []string{}
	for _, reason := range cancelled.CancellationReasons {
		codes = append(codes, *reason.Code)
	}
	same(codes, []string{"None", "ConditionalCheckFailed", "None"})
	same(cancelled.ErrorMessage(), "Transaction cancelled, please refer cancellation reasons for specific reasons "+
		"[None, ConditionalCheckFailed, None]")
	same(cancelled.CancellationReasons[1].Item, key("tx", 1))
	gets := []types.TransactGetItem{}
	for n := 1; n <= 3; n++ {
		gets = append(gets, types.TransactGetItem{Get: &types.Get{TableName: table, Key: key("tx", n)}})
	}
	got := must(client.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: gets})).Responses
	same(got[1].Item["amount"], types.AttributeValue(&types.AttributeValueMemberN{Value: "1"}))
	same([]int{len(got[0].Item), len(got[1].Item), len(got[2].Item)}, []int{2, 3, 0})
}

func timeToLive() {
	must(client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{Enabled: aws.Bool(true),
			AttributeName: aws.String("expires")}}))
	found := must(client.DescribeTimeToLive(ctx,
		&dynamodb.DescribeTimeToLiveInput{TableName: table})).TimeToLiveDescription
	same(*found.AttributeName, "expires")
}

func updateTable() {
	must(client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("title"), AttributeType: "S"}},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: aws.String("all-titles"), KeySchema: keys("title"),
			Projection: &types.Projection{ProjectionType: "KEYS_ONLY"},
			ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1),
				WriteCapacityUnits: aws.Int64(1)}}}}}))
	waitFor("the backfill", func() bool { return indexes()["all-titles"] == "ACTIVE" })
	same(query("all-titles", expression.Key("title").Equal(expression.Value("t90")), true), []int{9})
	must(client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: table,
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{
			{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("all-titles")}}}}))
	waitFor("deleting the index", func() bool { return len(indexes()) == 1 })
}

func deleteTable() {
	must(client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: table}))
	waiter := dynamodb.NewTableNotExistsWaiter(client,
		func(o *dynamodb.TableNotExistsWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second })
	check(waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: table}, 30*time.Second))
	refused[*types.ResourceNotFoundException](client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: table}))
}
