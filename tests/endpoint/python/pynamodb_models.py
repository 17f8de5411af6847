"""pynamodb: models with indexes, conditions, batches and transactions."""
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from pynamodb.attributes import (ListAttribute, MapAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute,
                                 VersionAttribute)
from pynamodb.connection import Connection
from pynamodb.exceptions import DoesNotExist, PutError, TableError, TransactWriteError, UpdateError
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, IncludeProjection, LocalSecondaryIndex
from pynamodb.models import Model
from pynamodb.transactions import TransactGet, TransactWrite

from cases import URL, case, finish, refused, same


class ByState(GlobalSecondaryIndex):
    class Meta:
        index_name = "by-state"
        projection = AllProjection()

    state = UnicodeAttribute(hash_key=True)
    price = NumberAttribute(range_key=True)


class ByName(LocalSecondaryIndex):
    class Meta:
        index_name = "by-name"
        projection = IncludeProjection(["price"])

    shop = UnicodeAttribute(hash_key=True)
    title = UnicodeAttribute(range_key=True)


class Article(Model):
    class Meta:
        table_name = "pynamodb-articles"
        host = URL
        billing_mode = "PAY_PER_REQUEST"

    shop = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    title = UnicodeAttribute(null=True)
    state = UnicodeAttribute(default="new")
    price = NumberAttribute(default=0)
    notes = ListAttribute(null=True)
    size = MapAttribute(null=True)
    expires = TTLAttribute(null=True)
    by_state = ByState()
    by_name = ByName()


class Counter(Model):
    class Meta:
        table_name = "pynamodb-counters"
        host = URL
        read_capacity_units = write_capacity_units = 1

    name = UnicodeAttribute(hash_key=True)
    value = NumberAttribute(default=0)
    version = VersionAttribute()


@case
def create_tables():
    for model in (Article, Counter):
        assert not model.exists()
        model.create_table(wait=True)
        assert model.exists()
    described = Article.describe_table()
    same(described["TableStatus"], "ACTIVE")
    same(described["GlobalSecondaryIndexes"][0]["IndexName"], "by-state")


@case
def save_get_update_delete_with_conditions():
    article = Article("a", 1, title="chair", notes=["oak", {"legs": 4}], size={"height": 90}, expires=timedelta(days=1))
    article.save(Article.number.does_not_exist())
    error = refused(PutError, article.save, Article.number.does_not_exist())
    same(error.cause_response_code, "ConditionalCheckFailedException")
    got = Article.get("a", 1, consistent_read=True)
    same((got.notes[1]["legs"], got.size["height"], got.state), (4, 90, "new"))
    got.update([Article.price.set(Article.price + 5), Article.notes.set(Article.notes.append(["new"])),
                Article.size.remove()],
               condition=Article.state.is_in("new", "old"))
    same((got.price, len(got.notes), got.size), (5, 3, None))
    refused(UpdateError, got.update, [Article.price.add(1)],
            condition=(Article.price > 5) | Article.title.startswith("x"))
    got.delete(condition=Article.title.contains("hair"))
    refused(DoesNotExist, Article.get, "a", 1)


@case
def optimistic_locking_by_version():
    Counter("c").save()
    one, other = Counter.get("c"), Counter.get("c")
    one.update([Counter.value.add(1)])
    same((one.value, one.version), (1, 2))
    same(refused(UpdateError, other.update, [Counter.value.add(1)]).cause_response_code,
         "ConditionalCheckFailedException")
    other.refresh()
    other.save()
    same(Counter.get("c").version, 3)


@case
def batch_write_and_get():
    with Article.batch_write() as batch:
        for n in range(40):
            batch.save(Article(f"s{n % 2}", n, title=f"t{99 - n}", state="old" if n % 4 else "new", price=n))
    found = list(Article.batch_get([(f"s{n % 2}", n) for n in range(50)]))
    same(sorted(int(article.number) for article in found), list(range(40)))


@case
def query_indexes_page_by_page():
    found = Article.by_state.query("new", ByState.price >= 8, scan_index_forward=False, page_size=2)
    same([int(article.number) for article in found], list(range(36, 7, -4)))
    found = Article.by_name.query("s1", ByName.title.between("t70", "t80"), page_size=2)
    same([int(article.price) for article in found], list(range(29, 18, -2)))
    found = Article.query("s0", filter_condition=Article.price < 10, limit=3)
    same([int(article.number) for article in found], [0, 2, 4])
    same(found.last_evaluated_key, {"shop": {"S": "s0"}, "number": {"N": "4"}})
    same(Article.count("s0", Article.number > 30), 4)


@case
def scan_in_parallel_segments():
    def segment(n):
        return [int(article.number) for article in Article.scan(segment=n, total_segments=3, page_size=5)]

    with ThreadPoolExecutor(3) as pool:
        found = sum(pool.map(segment, range(3)), [])
    same(sorted(found), list(range(40)))


@case
def transactions():
    connection = Connection(host=URL)
    for _ in range(2):  # the second is the same request, and changes nothing
        with TransactWrite(connection=connection, client_request_token="pynamodb-once") as transaction:
            transaction.save(Counter("t", value=1))
            transaction.update(Article("s0", 0), [Article.price.add(100)])
            transaction.condition_check(Article, "s1", 1, Article.state == "old")

    def fails():
        with TransactWrite(connection=connection) as transaction:
            transaction.delete(Article("s0", 0))
            transaction.condition_check(Article, "s1", 1, Article.state == "new")

    error = refused(TransactWriteError, fails)
    same([reason and reason.code for reason in error.cancellation_reasons],
         ["ConditionalCheckFailed", None])  # it sends checks first
    with TransactGet(connection=connection) as transaction:
        counter, article = transaction.get(Counter, "t"), transaction.get(Article, "s0", 0)
    same((counter.get().value, article.get().price), (1, 100))


@case
def time_to_live():
    described = Connection(host=URL).client.describe_time_to_live(TableName=Article.Meta.table_name)
    same(described["TimeToLiveDescription"]["AttributeName"], "expires")  # enabled by create_table
    error = refused(TableError, Article.update_ttl, ignore_update_ttl_errors=False)
    assert "TimeToLive is already enabled" in str(error), error


@case
def delete_tables():
    for model in (Article, Counter):
        model.delete_table()
        assert not model.exists()


finish()
