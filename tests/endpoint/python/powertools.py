"""Idempotency of aws-lambda-powertools, with its DynamoDB persistence layer."""
import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (IdempotencyAlreadyInProgressError,
                                                                    IdempotencyValidationError)

from cases import case, finish, refused, same

TABLE = "powertools"
client = boto3.client("dynamodb")
calls = []


def idempotent(function, **config):
    return idempotent_function(data_keyword_argument="order", config=IdempotencyConfig(**config),
                               persistence_store=DynamoDBPersistenceLayer(table_name=TABLE))(function)


def pay(order):
    calls.append(order["id"])
    return {"paid": order["id"], "call": len(calls)}


@case
def create_its_table():
    client.create_table(TableName=TABLE, BillingMode="PAY_PER_REQUEST",
                        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    client.update_time_to_live(TableName=TABLE,
                               TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiration"})


@case
def second_call_returns_the_stored_result():
    same(idempotent(pay)(order={"id": 1}), {"paid": 1, "call": 1})
    same(idempotent(pay)(order={"id": 1}), {"paid": 1, "call": 1})
    same(idempotent(pay)(order={"id": 2}), {"paid": 2, "call": 2})


@case
def call_in_progress_is_refused():
    def nested(order):
        return refused(IdempotencyAlreadyInProgressError, idempotent(nested), order=order) and "refused"

    same(idempotent(nested)(order={"id": 3}), "refused")


@case
def failed_call_can_be_repeated():
    def fail(order):
        raise OSError(order["id"])

    refused(OSError, idempotent(fail), order={"id": 4})
    refused(OSError, idempotent(fail), order={"id": 4})


@case
def changed_payload_is_refused():
    config = {"event_key_jmespath": "id", "payload_validation_jmespath": "amount"}
    first = idempotent(pay, **config)(order={"id": 5, "amount": 10})
    same(idempotent(pay, **config)(order={"id": 5, "amount": 10}), first)
    refused(IdempotencyValidationError, idempotent(pay, **config), order={"id": 5, "amount": 20})


finish()
