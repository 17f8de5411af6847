"""The AWS command, as a process per call."""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cases import case, finish, refused, same

TABLE = "cli-orders"
AWS = os.path.join(os.path.dirname(sys.executable), "aws")


class Failed(Exception):
    pass


def aws(command, **options):
    """Calls aws dynamodb COMMAND with --option-name VALUE; values that are not text are sent as JSON."""
    arguments = [AWS, "--output", "json", "dynamodb", *command.split()]
    for name, value in options.items():
        arguments.append("--" + name.replace("_", "-"))
        if value is not True:
            arguments.append(value if isinstance(value, str) else json.dumps(value))
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout) if done.stdout.strip() else {}


def fails(code, command, **options):
    error = str(refused(Failed, aws, command, **options))
    assert f"({code})" in error, error
    return error


def key(customer, number):
    return {"customer": {"S": customer}, "id": {"N": str(number)}}


@case
def create_table_with_indexes():
    aws("create-table", table_name=TABLE, billing_mode="PAY_PER_REQUEST",
        attribute_definitions=[{"AttributeName": name, "AttributeType": kind}
                               for name, kind in [("customer", "S"), ("id", "N"), ("status", "S"), ("day", "S")]],
        key_schema=[{"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
        global_secondary_indexes=[{"IndexName": "by-status", "Projection": {"ProjectionType": "ALL"},
                                   "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}]}],
        local_secondary_indexes=[{"IndexName": "by-day", "Projection": {"ProjectionType": "KEYS_ONLY"},
                                  "KeySchema": [{"AttributeName": "customer", "KeyType": "HASH"},
                                                {"AttributeName": "day", "KeyType": "RANGE"}]}])
    aws("wait table-exists", table_name=TABLE)
    same(aws("describe-table", table_name=TABLE)["Table"]["GlobalSecondaryIndexes"][0]["IndexStatus"], "ACTIVE")
    assert TABLE in aws("list-tables", page_size="1")["TableNames"]


@case
def put_get_update_delete_with_conditions():
    item = {**key("ann", 1), "status": {"S": "open"}, "day": {"S": "2026-01-01"}}
    aws("put-item", table_name=TABLE, item=item, condition_expression="attribute_not_exists(id)")
    error = fails("ConditionalCheckFailedException", "put-item", table_name=TABLE, item=item,
                  condition_expression="attribute_not_exists(id)",
                  return_values_on_condition_check_failure="ALL_OLD")
    assert "The conditional request failed" in error, error
    same(aws("get-item", table_name=TABLE, key=key("ann", 1), consistent_read=True)["Item"], item)
    same(aws("update-item", table_name=TABLE, key=key("ann", 1), update_expression="ADD amount :n",
             return_values="UPDATED_NEW", expression_attribute_values={":n": {"N": "3"}},
             return_consumed_capacity="TOTAL")["Attributes"], {"amount": {"N": "3"}})
    fails("ConditionalCheckFailedException", "delete-item", table_name=TABLE, key=key("ann", 1),
          condition_expression="amount > :n", expression_attribute_values={":n": {"N": "3"}})
    same(aws("delete-item", table_name=TABLE, key=key("ann", 1), return_values="ALL_OLD")["Attributes"]["amount"],
         {"N": "3"})


@case
def batch_write_and_get():
    for first in (0, 20):
        same(aws("batch-write-item", request_items={TABLE: [
            {"PutRequest": {"Item": {**key(f"c{n % 2}", n), "status": {"S": "open" if n % 4 else "paid"},
                                     "day": {"S": f"2026-01-{40 - n:02}"}}}}
            for n in range(first, first + 20)]})["UnprocessedItems"], {})
    got = aws("batch-get-item", request_items={TABLE: {"Keys": [key("c0", n) for n in range(0, 50, 2)]}})
    same(len(got["Responses"][TABLE]), 20)


@case
def query_indexes_page_by_page():
    got = aws("query", table_name=TABLE, index_name="by-day", key_condition_expression="customer = :c AND #d < :d",
              page_size="3", expression_attribute_names={"#d": "day"},
              expression_attribute_values={":c": {"S": "c1"}, ":d": {"S": "2026-01-20"}})
    same([int(item["id"]["N"]) for item in got["Items"]], list(range(39, 20, -2)))
    got = aws("query", table_name=TABLE, index_name="by-status", key_condition_expression="#s = :s", page_size="4",
              select="COUNT",
              expression_attribute_names={"#s": "status"}, expression_attribute_values={":s": {"S": "paid"}})
    same(got["Count"], 10)
    got = aws("query", table_name=TABLE, max_items="2", no_scan_index_forward=True, key_conditions={
        "customer": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "c0"}]}})
    same([int(item["id"]["N"]) for item in got["Items"]], [38, 36])
    assert got["NextToken"]


@case
def scan_in_parallel_segments():
    def segment(n):
        return aws("scan", table_name=TABLE, segment=n, total_segments="2", page_size="7")

    with ThreadPoolExecutor(2) as pool:
        pages = list(pool.map(segment, ["0", "1"]))
    same(sorted(int(item["id"]["N"]) for page in pages for item in page["Items"]), list(range(40)))


@case
def transactions():
    put = {"Put": {"TableName": TABLE, "Item": key("tx", 1), "ConditionExpression": "attribute_not_exists(id)"}}
    for _ in range(2):
        aws("transact-write-items", transact_items=[put], client_request_token="cli-once")
    error = fails("TransactionCanceledException", "transact-write-items",
                  transact_items=[{"Delete": {"TableName": TABLE, "Key": key("tx", 2)}}, put])
    assert "[None, ConditionalCheckFailed]" in error, error
    got = aws("transact-get-items", transact_items=[{"Get": {"TableName": TABLE, "Key": key("tx", n)}} for n in (1, 2)])
    same(got["Responses"], [{"Item": key("tx", 1)}, {}])


@case
def time_to_live():
    aws("update-time-to-live", table_name=TABLE, time_to_live_specification="Enabled=true,AttributeName=expires")
    same(aws("describe-time-to-live", table_name=TABLE)["TimeToLiveDescription"]["AttributeName"], "expires")


@case
def limits():
    assert aws("describe-limits")["TableMaxReadCapacityUnits"] > 0


@case
def tags_and_endpoints():  # DynamoDB Local has neither
    arn = aws("describe-table", table_name=TABLE)["Table"]["TableArn"]
    aws("tag-resource", resource_arn=arn, tags=[{"Key": "team", "Value": "locks"}])
    same(aws("list-tags-of-resource", resource_arn=arn)["Tags"], [{"Key": "team", "Value": "locks"}])
    aws("untag-resource", resource_arn=arn, tag_keys="team")
    same(aws("list-tags-of-resource", resource_arn=arn)["Tags"], [])
    same(len(aws("describe-endpoints")["Endpoints"]), 1)


@case
def update_table_adds_and_deletes_an_index():
    aws("update-table", table_name=TABLE, attribute_definitions="AttributeName=day,AttributeType=S",
        global_secondary_index_updates=[{"Create": {"IndexName": "all-days",
                                                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                                                    "KeySchema": [{"AttributeName": "day", "KeyType": "HASH"}]}}])
    for _ in range(30):
        described = aws("describe-table", table_name=TABLE)["Table"]["GlobalSecondaryIndexes"]
        if all(index["IndexStatus"] == "ACTIVE" for index in described):
            break
    same(aws("query", table_name=TABLE, index_name="all-days", key_condition_expression="#d = :d",
             expression_attribute_names={"#d": "day"},
             expression_attribute_values={":d": {"S": "2026-01-20"}})["Count"], 1)
    aws("update-table", table_name=TABLE, global_secondary_index_updates=[{"Delete": {"IndexName": "all-days"}}])


@case
def delete_table_and_wait():
    aws("delete-table", table_name=TABLE)
    aws("wait table-not-exists", table_name=TABLE)
    fails("ResourceNotFoundException", "describe-table", table_name=TABLE)


finish()
