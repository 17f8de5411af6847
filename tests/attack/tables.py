"""Callers who may use tables of their own, and do so as dearly as they can."""
import json

from crowd import address
from ground import request
from target import ADMIN

ITEMS, ITEM_BYTES = 2000, 1000
SCANNERS, WRITERS = 40, 16
BATCH, TRANSACTION = 25, 100
ATTACK_SECONDS = 2  # at least, after its tables have been filled


def call(token, operation, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request("POST", "/", token, body, [f"X-Amz-Target: DynamoDB_20120810.{operation}"])


def name_of(on, what):
    return f"mallory-{what}-{on.attempt}"


def creation(name):
    return {"TableName": name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}]}


def item(number, size=ITEM_BYTES):
    return {"k": {"S": f"{number:08}"}, "color": {"S": "red" if number % 2 else "blue"}, "data": {"S": "x" * size},
            "list": {"L": [{"N": str(i)} for i in range(20)]}}


def ask(on, requests):
    """One after the other, on one connection."""
    peer = on.crowd.join(address(0))
    for count, one in enumerate(requests):
        peer.send(one)
        on.crowd.run(60, lambda: len(peer.statuses) > count or peer.ended)
    on.expect(len(peer.statuses) == len(requests) and set(peer.statuses) == {200},
              f"{len(requests)} calls were answered {peer.statuses[-5:]}")
    peer.close()


def filled(on, what):
    """A table with items; its name."""
    name = name_of(on, what)
    puts = [[{"PutRequest": {"Item": item(i)}} for i in range(first, first + BATCH)] for first in range(0, ITEMS, BATCH)]
    ask(on, [call(ADMIN, "CreateTable", creation(name))]
        + [call(on.mallory(), "BatchWriteItem", {"RequestItems": {name: batch}}) for batch in puts])
    return name


def over_and_over(on, peers, requests, allowed):
    """Each of them sends one request after the other, as soon as it is answered."""
    on.take(ATTACK_SECONDS)
    sent = dict.fromkeys(peers, 0)
    while on.time_left() > 0:
        for number, peer in enumerate(peers):
            if not peer.ended and len(peer.statuses) >= sent[peer]:
                peer.send(requests[(number + sent[peer]) % len(requests)])
                sent[peer] += 1
        on.crowd.turn(0.01)
    on.crowd.run(30, lambda: all(peer.ended or len(peer.statuses) >= sent[peer] for peer in peers))
    seen = on.expect_statuses(peers, 200, *allowed)
    on.expect(200 in seen, "no call was served")
    on.expect(all(len(peer.statuses) == sent[peer] for peer in peers), "not all calls were answered")
    on.note(f"{seen.get(200, 0)} calls were served, {sum(seen.values()) - seen.get(200, 0)} refused")


def dear_scans(on):
    """40 connections of four callers read all of a table, with filters that are as dear as they may be."""
    name = filled(on, "scans")
    filters = " OR ".join(f"contains(#l, :v{i})" for i in range(100))
    dear = {"TableName": name, "FilterExpression": filters, "ExpressionAttributeNames": {"#l": "list"},
            "ExpressionAttributeValues": {f":v{i}": {"N": str(100 + i)} for i in range(100)}}
    peers = [on.crowd.join(address(i % 4)) for i in range(SCANNERS)]
    over_and_over(on, peers, [call(on.mallory(), "Scan", dear)], [400])


def long_writes(on):
    """16 connections write as much as a request may: transactions of 100 items, batches of 25 items of 100 KB."""
    name = name_of(on, "writes")
    ask(on, [call(ADMIN, "CreateTable", creation(name))])
    many = {"TransactItems": [{"Put": {"TableName": name, "Item": item(i)}} for i in range(TRANSACTION)]}
    large = {"RequestItems": {name: [{"PutRequest": {"Item": item(i, 100000)}} for i in range(BATCH)]}}
    peers = [on.crowd.join(address(i % 4)) for i in range(WRITERS)]
    over_and_over(on, peers, [call(on.mallory(), "TransactWriteItems", many), call(on.mallory(), "BatchWriteItem", large)], [400])


def whole_tables(on):
    """An administrator makes and deletes indexes and tables, as often as possible."""
    name = filled(on, "indexes")
    index = {"IndexName": "colors", "KeySchema": [{"AttributeName": "color", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    requests = [
        call(ADMIN, "UpdateTable", {"TableName": name, "GlobalSecondaryIndexUpdates": [{"Create": index}],
                                 "AttributeDefinitions": [{"AttributeName": "color", "AttributeType": "S"}]}),
        call(ADMIN, "DescribeTable", {"TableName": name}),
        call(ADMIN, "UpdateTable", {"TableName": name, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "colors"}}]}),
        call(ADMIN, "CreateTable", creation(name + "-more")),
        call(ADMIN, "DeleteTable", {"TableName": name + "-more"}),
        call(ADMIN, "ListTables", {}),
    ]
    peers = [on.crowd.join(address(i)) for i in range(8)]
    over_and_over(on, peers, requests, [400])


def dear_requests(on):
    """Requests that cost most before anything is read: the longest expressions, deep and wide items, 4 MB of them."""
    name = name_of(on, "requests")
    ask(on, [call(ADMIN, "CreateTable", creation(name))])
    long = " AND ".join(["(a = :a OR b = :b)"] * 200)
    deep = {"S": "x"}
    for _ in range(31):
        deep = {"L": [deep, {"S": "y"}]}
    wide = {f"attribute-{i:05}": {"N": "123456789012345678901234567890"} for i in range(5000)}
    values = {":a": {"S": "a"}, ":b": {"S": "b"}}
    requests = [
        call(on.mallory(), "PutItem", {"TableName": name, "Item": {"k": {"S": "1"}, **wide}}),
        call(on.mallory(), "PutItem", {"TableName": name, "Item": {"k": {"S": "1"}, "deep": deep}, "ConditionExpression": long,
                             "ExpressionAttributeValues": values}),
        call(on.mallory(), "TransactWriteItems", {"TransactItems": [
            {"ConditionCheck": {"TableName": name, "Key": {"k": {"S": str(i)}}, "ConditionExpression": long,
                                "ExpressionAttributeValues": values}} for i in range(100)]}),
        call(on.mallory(), "BatchGetItem", {"RequestItems": {name: {"Keys": [{"k": {"S": str(i)}} for i in range(100)]}}}),
        call(on.mallory(), "PutItem", b'{"TableName":"' + name.encode() + b'","Item":{"k":{"S":"1"},"l":{"L":['
             + b'{"NULL":true},' * 250000 + b'{"NULL":true}]}}}'),
    ]
    peers = [on.crowd.join(address(i % 4)) for i in range(16)]
    over_and_over(on, peers, requests, [400, 413, 503])
