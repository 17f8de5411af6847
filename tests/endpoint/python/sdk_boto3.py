"""boto3: its client, its resource, its paginators and its waiters."""
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import boto3
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

from cases import case, finish, refused, same

TABLE = "boto3-orders"
client = boto3.client("dynamodb")
table = boto3.resource("dynamodb").Table(TABLE)
conflict = client.exceptions.ConditionalCheckFailedException


def plain(**values):
    """An item in the client's notation."""
    return {name: {"N": str(value)} if isinstance(value, int) else {"S": value} for name, value in values.items()}


def indexes():
    found = client.describe_table(TableName=TABLE)["Table"].get("GlobalSecondaryIndexes", [])
    return {index["IndexName"]: index["IndexStatus"] for index in found}


def wait_for(condition, what):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} took more than 30 s")
        time.sleep(0.1)


@case
def create_table_with_indexes():
    types = {"customer": "S", "id": "S", "status": "S", "amount": "N", "day": "S"}
    made = client.create_table(
        TableName=TABLE, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind}
                              for name, kind in types.items()],
        KeySchema=[{"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[{
            "IndexName": "by-status", "Projection": {"ProjectionType": "ALL"},
            "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"},
                          {"AttributeName": "amount", "KeyType": "RANGE"}]}],
        LocalSecondaryIndexes=[{
            "IndexName": "by-day", "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["amount"]},
            "KeySchema": [{"AttributeName": "customer", "KeyType": "HASH"},
                          {"AttributeName": "day", "KeyType": "RANGE"}]}])
    same(made["TableDescription"]["TableName"], TABLE)
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    described = client.describe_table(TableName=TABLE)["Table"]
    same(described["TableStatus"], "ACTIVE")
    same(described["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST")
    same(described["ItemCount"], 0)
    assert described["TableArn"].endswith(f":table/{TABLE}"), described["TableArn"]
    same(indexes(), {"by-status": "ACTIVE"})
    same(described["LocalSecondaryIndexes"][0]["Projection"]["NonKeyAttributes"], ["amount"])
    assert TABLE in [name for page in client.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 1})
                     for name in page["TableNames"]]
    refused(client.exceptions.ResourceInUseException, client.create_table, TableName=TABLE,
            BillingMode="PAY_PER_REQUEST", AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}])


@case
def put_get_update_delete_with_conditions():
    item = {"customer": "ann", "id": "1", "status": "open", "amount": Decimal("12.50"), "tags": {"a", "b"},
            "image": b"\x00\xff", "nested": {"list": [1, None, True, "x"]}}
    table.put_item(Item=item, ConditionExpression=Attr("id").not_exists())
    error = refused(conflict, table.put_item, Item={"customer": "ann", "id": "1"},
                    ConditionExpression=Attr("id").not_exists(), ReturnValuesOnConditionCheckFailure="ALL_OLD")
    same(error.response["Item"]["status"], {"S": "open"})  # not converted, not even by the resource
    same(error.response["Error"]["Message"], "The conditional request failed")
    got = table.get_item(Key={"customer": "ann", "id": "1"}, ConsistentRead=True)["Item"]
    same({**got, "image": got["image"].value}, item)
    same(table.get_item(Key={"customer": "ann", "id": "1"}, ProjectionExpression="nested.#l[3], amount",
                        ExpressionAttributeNames={"#l": "list"})["Item"],
         {"nested": {"list": ["x"]}, "amount": Decimal("12.5")})
    got = table.update_item(
        Key={"customer": "ann", "id": "1"}, ReturnValues="ALL_NEW", ConditionExpression=Attr("status").eq("open"),
        UpdateExpression="SET #s = :paid, nested.#l[0] = nested.#l[0] + :one, seen = if_not_exists(seen, :one) "
                         "REMOVE image ADD amount :one DELETE tags :a",
        ExpressionAttributeNames={"#s": "status", "#l": "list"},
        ExpressionAttributeValues={":paid": "paid", ":one": 1, ":a": {"a"}})["Attributes"]
    same(got, {"customer": "ann", "id": "1", "status": "paid", "amount": Decimal("13.5"), "tags": {"b"}, "seen": 1,
               "nested": {"list": [2, None, True, "x"]}})
    error = refused(conflict, table.delete_item, Key={"customer": "ann", "id": "1"},
                    ConditionExpression=Attr("amount").lt(10), ReturnValuesOnConditionCheckFailure="ALL_OLD")
    same(error.response["Item"]["amount"], {"N": "13.5"})
    answer = table.delete_item(Key={"customer": "ann", "id": "1"}, ReturnValues="ALL_OLD",
                               ReturnConsumedCapacity="TOTAL")
    same(answer["Attributes"]["status"], "paid")
    same(answer["ConsumedCapacity"]["TableName"], TABLE)
    assert "Item" not in table.get_item(Key={"customer": "ann", "id": "1"})


@case
def batch_write_and_get():
    with table.batch_writer() as batch:
        for n in range(60):
            batch.put_item(Item={"customer": f"c{n % 3}", "id": f"{n:02}", "status": "open" if n % 2 else "paid",
                                 "amount": n, "day": f"2026-01-{n // 3 + 1:02}"})
    keys = [{"customer": f"c{n % 3}", "id": f"{n:02}"} for n in range(0, 80, 2)]
    answer = boto3.resource("dynamodb").batch_get_item(RequestItems={TABLE: {"Keys": keys, "ConsistentRead": True}})
    same(answer["UnprocessedKeys"], {})
    same(sorted(item["amount"] for item in answer["Responses"][TABLE]), list(range(0, 60, 2)))
    same(refused(ClientError, client.batch_get_item, RequestItems={TABLE: {"Keys": [plain(customer="a", id="1")] * 2}})
         .response["Error"]["Code"], "ValidationException")


@case
def query_indexes_page_by_page():
    pages = list(client.get_paginator("query").paginate(
        TableName=TABLE, IndexName="by-status", KeyConditionExpression="#s = :open AND amount BETWEEN :low AND :high",
        ExpressionAttributeNames={"#s": "status"}, ScanIndexForward=False, PaginationConfig={"PageSize": 4},
        ExpressionAttributeValues={":open": {"S": "open"}, ":low": {"N": "10"}, ":high": {"N": "50"}}))
    same([int(item["amount"]["N"]) for page in pages for item in page["Items"]], list(range(49, 10, -2)))
    assert len(pages) >= 5, len(pages)
    found, start = [], {}
    while True:
        page = table.query(IndexName="by-day", Limit=3,
                           KeyConditionExpression=Key("customer").eq("c1") & Key("day").begins_with("2026-01-1"),
                           FilterExpression=Attr("amount").gte(30), **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        same(sorted(page["LastEvaluatedKey"]), ["customer", "day", "id"])
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    same([item["amount"] for item in found], list(range(31, 57, 3)))
    same(sorted(found[0]), ["amount", "customer", "day", "id"])
    count = table.query(IndexName="by-status", Select="COUNT", KeyConditionExpression=Key("status").eq("paid"))
    same((count["Count"], "Items" in count), (30, False))


@case
def scan_in_parallel_segments():
    def segment(n):
        pages = client.get_paginator("scan").paginate(TableName=TABLE, Segment=n, TotalSegments=4, Limit=5)
        return [item["amount"]["N"] for page in pages for item in page["Items"]]

    with ThreadPoolExecutor(4) as pool:
        found = sum(pool.map(segment, range(4)), [])
    same(sorted(map(int, found)), list(range(60)))
    same(table.scan(IndexName="by-status", FilterExpression=Attr("amount").gte(50))["Count"], 10)


@case
def transactions():
    put = {"Put": {"TableName": TABLE, "Item": plain(customer="tx", id="1", amount=1),
                   "ConditionExpression": "attribute_not_exists(id)"}}
    add = {"Update": {"TableName": TABLE, "Key": plain(customer="tx", id="2"), "UpdateExpression": "ADD amount :n",
                      "ExpressionAttributeValues": {":n": {"N": "5"}}}}
    check = {"ConditionCheck": {"TableName": TABLE, "Key": plain(customer="c0", id="00"),
                                "ConditionExpression": "attribute_exists(id)"}}
    for _ in range(2):  # the second is the same request, and changes nothing
        client.transact_write_items(TransactItems=[put, add, check], ClientRequestToken="boto3-once")
    refused(client.exceptions.IdempotentParameterMismatchException, client.transact_write_items,
            TransactItems=[add], ClientRequestToken="boto3-once")
    put["Put"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    error = refused(client.exceptions.TransactionCanceledException, client.transact_write_items,
                    TransactItems=[add, put])
    same([reason["Code"] for reason in error.response["CancellationReasons"]], ["None", "ConditionalCheckFailed"])
    same(error.response["CancellationReasons"][1]["Item"], plain(customer="tx", id="1", amount=1))
    answer = client.transact_get_items(TransactItems=[
        {"Get": {"TableName": TABLE, "Key": plain(customer="tx", id=n)}} for n in "123"])
    same([one.get("Item", {}).get("amount") for one in answer["Responses"]], [{"N": "1"}, {"N": "5"}, None])


@case
def time_to_live():
    same(client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]["TimeToLiveStatus"], "DISABLED")
    client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
    found = client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    assert found["TimeToLiveStatus"] in ("ENABLING", "ENABLED"), found
    same(found["AttributeName"], "expires")


@case
def update_table_adds_and_deletes_an_index():
    client.update_table(
        TableName=TABLE, AttributeDefinitions=[{"AttributeName": "day", "AttributeType": "S"},
                                               {"AttributeName": "id", "AttributeType": "S"}],
        GlobalSecondaryIndexUpdates=[{"Create": {
            "IndexName": "all-days", "Projection": {"ProjectionType": "KEYS_ONLY"},
            "KeySchema": [{"AttributeName": "day", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}]}}])
    wait_for(lambda: indexes().get("all-days") == "ACTIVE", "the backfill")
    found = table.query(IndexName="all-days", KeyConditionExpression=Key("day").eq("2026-01-02"))["Items"]
    same([item["id"] for item in found], ["03", "04", "05"])
    same(sorted(found[0]), ["customer", "day", "id"])
    client.update_table(TableName=TABLE, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "all-days"}}])
    wait_for(lambda: indexes() == {"by-status": "ACTIVE"}, "deleting the index")


@case
def delete_table_unless_protected():
    client.update_table(TableName=TABLE, DeletionProtectionEnabled=True)
    same(refused(ClientError, client.delete_table, TableName=TABLE).response["Error"]["Code"], "ValidationException")
    client.update_table(TableName=TABLE, DeletionProtectionEnabled=False)
    client.delete_table(TableName=TABLE)
    client.get_waiter("table_not_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    refused(client.exceptions.ResourceNotFoundException, client.describe_table, TableName=TABLE)


finish()
