"""dynamolock from PyPI, on boto 2: writes with Expected and AttributeUpdates.

It is written for Python 2. tools/setup translates its syntax; two names that its libraries expect are defined here.
"""
import builtins
import collections
import collections.abc
import logging
import threading
from datetime import timedelta
from urllib.parse import urlsplit

builtins.long = int
collections.Mapping = collections.abc.Mapping
from boto.dynamodb2.fields import HashKey
from boto.dynamodb2.layer1 import DynamoDBConnection
from boto.dynamodb2.table import Table
from dynamolock import DynamoDBLockClient, DynamoDBLockPolicy

from cases import URL, case, finish, same

logging.disable()  # it logs each refused write as an exception
TABLE = "pypi-dynamolock"
connection = DynamoDBConnection(host=urlsplit(URL).hostname, port=urlsplit(URL).port, is_secure=False)
connection.auth_service_name = "dynamodb"  # otherwise boto 2 signs for a service named after the host, which is "127"
policy = DynamoDBLockPolicy(acquire_timeout=timedelta(milliseconds=100), retry_period=timedelta(0),
                            lock_duration=timedelta(milliseconds=800))


def contender():
    return DynamoDBLockClient(table=Table(TABLE, connection=connection), policy=policy)


@case
def create_its_table():
    Table.create(TABLE, schema=[HashKey("N")], throughput={"read": 1, "write": 1}, connection=connection)
    same(connection.describe_table(TABLE)["Table"]["TableStatus"], "ACTIVE")


@case
def one_holder_at_a_time():
    first, second = contender(), contender()
    held = first.acquire_lock("nightly")
    assert held, "the first could not acquire a free lock"
    done = threading.Event()

    def renew():
        while not done.wait(0.2):
            first.touch_lock(first.locks["nightly"])

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        same(second.acquire_lock("nightly"), None)
    finally:
        done.set()
        renewing.join()
    same(first.does_lock_exist("nightly"), True)
    same(first.release_lock(held), False)  # of an old version
    same(first.release_lock(first.locks["nightly"]), True)
    assert second.acquire_lock("nightly"), "the second could not acquire a released lock"
    same(second.release_lock(second.locks["nightly"], delete=False), True)
    assert first.acquire_lock("nightly"), "the first could not acquire a lock that was released, but not deleted"


@case
def takeover_when_expired():
    assert contender().acquire_lock("hourly")
    assert contender().acquire_lock("hourly"), "a lock that nobody renews was not taken over"


@case
def delete_its_table():
    same(Table(TABLE, connection=connection).delete(), True)


finish()
