"""dynamo-lock from PyPI: reads with AttributesToGet, writes with conditions."""
from boto3 import client
from dynamo_lock import LockerClient

from cases import case, finish, same

TABLE = "pypi-dynamo-lock"
first, second = LockerClient(TABLE), LockerClient(TABLE)


@case
def create_its_table():
    first.create_lock_table()
    client("dynamodb").get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 30})


@case
def one_holder_at_a_time():
    same(first.acquire("nightly", 60000), True)
    same(second.acquire("nightly", 60000), False)
    first.release("nightly")
    same(first.locked, False)
    same(second.acquire("nightly", 60000), True)


@case
def takeover_when_expired():
    same(first.acquire("hourly", -1), True)
    same(second.acquire("hourly", 60000), True)
    first.release("hourly")  # no longer its own, so this must not delete it
    same(first.acquire("hourly", 60000), False)


@case
def delete_its_table():
    first.delete_lock_table()


finish()
