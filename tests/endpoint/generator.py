"""Generates requests of the DynamoDB API from a seed: valid, nearly valid and hostile ones.

They use a few small tables and few keys, so that items collide. A case is a list of steps, each an operation and its
body: a JSON value, or bytes that need not be JSON. Its faults are the number of deliberate mistakes in it.
"""
import copy
import json
import random
import re
import uuid
from typing import NamedTuple

BAD_NAMES = ["", "ab", "nope", "a b c", "x" * 256, "hash/x", None, 7]
ENUMS = {"ReturnValues": ["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"],
         "ReturnConsumedCapacity": ["NONE", "TOTAL", "INDEXES"], "ReturnItemCollectionMetrics": ["NONE", "SIZE"],
         "ReturnValuesOnConditionCheckFailure": ["NONE", "ALL_OLD"], "ConditionalOperator": ["AND", "OR"],
         "Select": ["ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"]}
OPERATORS = {"EQ": 1, "NE": 1, "LE": 1, "LT": 1, "GE": 1, "GT": 1, "BEGINS_WITH": 1, "CONTAINS": 1, "NOT_CONTAINS": 1,
             "NULL": 0, "NOT_NULL": 0, "IN": 2, "BETWEEN": 2}
ATTRIBUTES = {"a": "S", "b": "N", "c": "*", "g": "S", "n": "N", "l": "S", "m": "M", "li": "L", "ss": "SS", "ns": "NS",
              "name": "S"}  # and their usual types; "name" is a reserved word
EXPRESSIONS = ["ConditionExpression", "UpdateExpression", "ProjectionExpression", "FilterExpression",
               "KeyConditionExpression"]
WRITES = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"]


class Index(NamedTuple):
    hash: str
    range: str
    projection: str
    local: bool = False
    included: tuple = ()


class Table(NamedTuple):
    name: str
    key: dict  # attribute names, hash first, and their types
    indexes: dict = {}

    def creation(self):
        """The body of the CreateTable request."""
        types = dict(self.key)
        lists = {"LocalSecondaryIndexes": [], "GlobalSecondaryIndexes": []}
        for name, index in self.indexes.items():
            names = [attribute for attribute in (index.hash, index.range) if attribute]
            types.update({attribute: types.get(attribute, ATTRIBUTES.get(attribute)) for attribute in names})
            projection = {"ProjectionType": index.projection}
            if index.included:
                projection["NonKeyAttributes"] = list(index.included)
            lists["LocalSecondaryIndexes" if index.local else "GlobalSecondaryIndexes"].append(
                {"IndexName": name, "KeySchema": schema(names), "Projection": projection})
        return {"TableName": self.name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema(list(self.key)),
                "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
                **{member: entries for member, entries in lists.items() if entries}}


def schema(names):
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ["HASH", "RANGE"])]


TABLES = [
    Table("hash", {"k": "S"}),
    Table("text", {"k": "S", "r": "S"}),
    Table("number", {"k": "S", "r": "N"}),
    Table("binary", {"k": "N", "r": "B"}),
    Table("indexed", {"k": "S", "r": "N"}, {
        "by-g": Index("g", "n", "ALL"), "by-g-keys": Index("g", None, "KEYS_ONLY"),
        "by-n": Index("n", "k", "INCLUDE", included=("a", "b")), "by-l": Index("k", "l", "ALL", True),
        "by-l-keys": Index("k", "l", "KEYS_ONLY", True), "by-l-a": Index("k", "l", "INCLUDE", True, ("a",))}),
    Table("thin", {"k": "B"}, {"by-g": Index("g", "k", "KEYS_ONLY")}),
]


class Placeholders:
    """The expression attribute names and values of one request, or of one action in it."""

    def __init__(self, rnd):
        self.rnd = rnd
        self.names = {}
        self.values = {}
        self.taken = set()  # attributes that the expression may not name again

    def name(self, attribute):
        if attribute != "name" and self.rnd.random() < 0.7:
            return attribute
        self.names["#" + attribute] = attribute
        return "#" + attribute

    def value(self, value):
        name = f":v{len(self.values)}"
        self.values[name] = value
        return name

    def into(self, body):
        if self.names:
            body["ExpressionAttributeNames"] = self.names
        if self.values:
            body["ExpressionAttributeValues"] = self.values
        return body


class Generator:
    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.scratch = 0
        self.run = uuid.uuid4().hex[:8]  # in tokens, which servers remember for ten minutes

    def one_of(self, *choices):
        return self.rnd.choice(choices)

    def maybe(self, chance):
        return self.rnd.random() < chance

    # Values, keys and items.

    def scalar(self, kind):
        if kind == "S":
            return {"S": self.one_of("x", "y", "xy", "z", "é")}
        if kind == "N":
            return {"N": self.one_of("0", "1", "2", "-1", "1.5", "10", "1.50", "1e2", "-0.5")}
        return {"B": self.one_of("AA==", "AQ==", "AAE=")}

    def value(self, kind="*", depth=0):
        if kind == "*":
            kind = self.one_of("S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", *(["L", "M"] if depth < 2 else []))
        if kind == "BOOL":
            return {"BOOL": self.maybe(0.5)}
        if kind == "NULL":
            return {"NULL": True}
        if kind == "L":
            return {"L": [self.value(depth=depth + 1) for _ in range(self.rnd.randrange(3))]}
        if kind == "M":
            return {"M": {name: self.value(self.one_of("N", "S", "*"), depth + 1)
                          for name in self.rnd.sample(["i", "j", "k"], self.rnd.randrange(3))}}
        if kind in ("SS", "NS", "BS"):
            pool = {"SS": ["x", "y", "z", ""], "NS": ["1", "2", "1.5", "-1"], "BS": ["AA==", "AQ=="]}[kind]
            return {kind: self.rnd.sample(pool, self.rnd.randint(1, 2))}
        if kind == "S" and self.maybe(0.1):
            return {"S": self.one_of("", "a longer text", "x" * 2500)}
        return self.scalar(kind)

    def key(self, table):
        return {name: {kind: self.scalar(kind)[kind] if kind != "S" or name != "k" else self.one_of("x", "y")}
                for name, kind in table.key.items()}

    def item(self, table):
        item = self.key(table)
        keys = {name for index in table.indexes.values() for name in (index.hash, index.range)}
        for name, kind in ATTRIBUTES.items():
            if self.maybe(0.35):
                item[name] = self.scalar(kind) if name in keys else self.value(kind if self.maybe(0.85) else "*")
        return item

    # Expressions.

    def path(self, places, once=False):
        names = [*ATTRIBUTES, "zz", "k", "r"]
        if once:
            names = [name for name in names[:-2] if name not in places.taken or self.maybe(0.02)]
        attribute = self.rnd.choice(names)
        if once:
            places.taken.add(attribute)
        text = places.name(attribute)
        if attribute in ("m", "c") and self.maybe(0.5):
            return text + "." + self.one_of("i", "j")
        if attribute == "li" and self.maybe(0.6):
            return text + self.one_of("[0]", "[1]", "[7]")
        return text

    def operand(self, places):
        if self.maybe(0.1):
            return f"size({self.path(places)})"
        if self.maybe(0.5):
            return self.path(places)
        return places.value(self.value(self.one_of("S", "N", "*")))

    def condition(self, places, depth=0):
        chance = self.rnd.random()
        if depth < 3 and chance < 0.3:
            left, right = self.condition(places, depth + 1), self.condition(places, depth + 1)
            return f"{left} {self.one_of('AND', 'OR', 'and')} {right}"
        if depth < 3 and chance < 0.4:
            return f"{self.one_of('NOT ', '')}({self.condition(places, depth + 1)})"
        if chance < 0.6:
            return f"{self.path(places)} {self.one_of('=', '<>', '<', '<=', '>', '>=')} {self.operand(places)}"
        if chance < 0.75:
            return f"{self.one_of('attribute_exists', 'attribute_not_exists')}({self.path(places)})"
        if chance < 0.8:
            kind = self.one_of("S", "N", "SS", "M", "L", "BOOL", "X")
            return f"attribute_type({self.path(places)}, {places.value({'S': kind})})"
        if chance < 0.88:
            value = places.value(self.value(self.one_of("S", "N", "*")))
            return f"{self.one_of('begins_with', 'contains')}({self.path(places)}, {value})"
        kind = self.one_of("S", "N")
        if chance < 0.94:
            low, high = sorted((self.scalar(kind) for _ in "ab"), key=lambda v: (float(v["N"]) if "N" in v else v["S"]))
            return f"{self.operand(places)} BETWEEN {places.value(low)} AND {places.value(high)}"
        return f"{self.operand(places)} IN ({', '.join(self.operand(places) for _ in range(self.rnd.randint(1, 3)))})"

    def assignment(self, places):
        path, chance = self.path(places, once=True), self.rnd.random()
        if chance < 0.4:
            return f"{path} = {places.value(self.value())}"
        if chance < 0.6:
            left = self.one_of("{path}", "{value}", "if_not_exists({path}, {value})", "({path})")
            left = left.format(path=path, value=places.value(self.value("N")) if "{value}" in left else "")
            return f"{path} = {left} {self.one_of('+', '-')} {places.value(self.value('N'))}"
        if chance < 0.75:
            return f"{path} = list_append({self.path(places)}, {places.value(self.value('L'))})"
        if chance < 0.9:
            return f"{path} = if_not_exists({self.path(places)}, {places.value(self.value())})"
        return f"{path} = {self.path(places)}"

    def update(self, places):
        sections = []
        for word in self.rnd.sample(["SET", "REMOVE", "ADD", "DELETE"], self.one_of(1, 1, 1, 2, 3)):
            entries = []
            for _ in range(self.one_of(1, 1, 2)):
                if word == "SET":
                    entries.append(self.assignment(places))
                elif word == "REMOVE":
                    entries.append(self.path(places, once=True))
                else:
                    kind = self.one_of("SS", "NS") if word == "DELETE" else self.one_of("N", "N", "SS", "NS")
                    fitting = {"SS": "ss", "NS": "ns", "N": self.one_of("b", "n")}[kind]
                    path = fitting if self.maybe(0.8) and fitting not in places.taken else self.path(places, once=True)
                    places.taken.add(path)
                    entries.append(f"{path} {places.value(self.value(kind))}")
            sections.append(f"{word} {', '.join(entries)}")
        return " ".join(sections)

    def projection(self, places, names=None):
        if names:
            return ", ".join(places.name(name) for name in self.rnd.sample(names, min(2, len(names))))
        return ", ".join(self.path(places, once=True) for _ in range(self.rnd.randint(1, 3)))

    # Legacy parameters.

    def comparison(self, kind="*", operators=tuple(OPERATORS)):
        operator = self.one_of(*operators)
        values = [self.value(kind) for _ in range(OPERATORS[operator])]
        return {"ComparisonOperator": operator, **({"AttributeValueList": values} if values else {})}

    def comparisons(self):
        names = self.rnd.sample(list(ATTRIBUTES), self.one_of(1, 1, 2))
        return {name: self.comparison(self.one_of(ATTRIBUTES[name], "*")) for name in names}

    def expected(self):
        entries = self.comparisons()
        for name in entries:
            if self.maybe(0.5):
                entries[name] = self.one_of({"Exists": False}, {"Value": self.value(ATTRIBUTES[name])})
        return entries

    def legacy_updates(self):
        updates = {}
        for name in self.rnd.sample(list(ATTRIBUTES), self.one_of(1, 2)):
            action = self.one_of("PUT", "ADD", "DELETE")
            kind = {"PUT": "*", "ADD": self.one_of("N", "SS", "L"), "DELETE": "SS"}[action]
            updates[name] = {"Action": action, "Value": self.value(kind)}
            if action == "DELETE" and self.maybe(0.6):
                del updates[name]["Value"]
        return updates

    # Requests on items.

    def options(self, body, names):
        for name in names:
            if self.maybe(0.3):
                body[name] = self.one_of(*ENUMS[name])
        return body

    def write(self, operation, table, within=False):
        """A Put, Update, Delete or ConditionCheck, alone or within a transaction."""
        places = Placeholders(self.rnd)
        body = {"TableName": table.name}
        body.update({"Item": self.item(table)} if operation == "Put" else {"Key": self.key(table)})
        legacy = not within and self.maybe(0.25)
        if operation == "Update" and (within or self.maybe(0.95)):
            body.update({"AttributeUpdates": self.legacy_updates()} if legacy else
                        {"UpdateExpression": self.update(places)})
        if operation == "ConditionCheck" or self.maybe(0.3):
            if legacy:
                body["Expected"] = self.expected()
                if len(body["Expected"]) > 1 and self.maybe(0.5):
                    body["ConditionalOperator"] = self.one_of("AND", "OR")
            else:
                body["ConditionExpression"] = self.condition(places)
        names = ["ReturnValuesOnConditionCheckFailure"]
        if not within:
            names += ["ReturnConsumedCapacity", "ReturnItemCollectionMetrics"]
            if self.maybe(0.4):
                body["ReturnValues"] = self.one_of(*ENUMS["ReturnValues"][:5 if operation == "Update" else 2])
        return self.options(places.into(body), names)

    def get(self, table, within=False):
        places = Placeholders(self.rnd)
        body = {"TableName": table.name, "Key": self.key(table)}
        if self.maybe(0.4):
            body["ProjectionExpression"] = self.projection(places)
        elif not within and self.maybe(0.3):
            body["AttributesToGet"] = self.rnd.sample(list(ATTRIBUTES), 2)
        if not within:
            self.options(body, ["ReturnConsumedCapacity"])
            if self.maybe(0.3):
                body["ConsistentRead"] = self.maybe(0.7)
        return places.into(body)

    def reading(self, table, places, legacy, filter_name):
        """The members that Query and Scan share."""
        body = {"TableName": table.name}
        index = None
        if table.indexes and self.maybe(0.7):
            body["IndexName"] = self.one_of(*table.indexes)
            index = table.indexes[body["IndexName"]]
        if self.maybe(0.3):
            body["Limit"] = self.rnd.randint(1, 4)
        if self.maybe(0.3):
            body["Select"] = self.one_of(*ENUMS["Select"])
        if self.maybe(0.9 if body.get("Select") == "SPECIFIC_ATTRIBUTES" else 0.05 if "Select" in body else 0.3):
            names = index and index.projection != "ALL" and not index.local and self.maybe(0.7) and [
                *table.key, *index.included]
            if legacy:
                body["AttributesToGet"] = self.rnd.sample(names or list(ATTRIBUTES), 1)
            else:
                body["ProjectionExpression"] = self.projection(places, names)
        if self.maybe(0.3):
            if legacy:
                body[filter_name] = self.comparisons()
                if len(body[filter_name]) > 1 and self.maybe(0.5):
                    body["ConditionalOperator"] = self.one_of("AND", "OR")
            else:
                body["FilterExpression"] = self.condition(places)
        if self.maybe(0.3 if index is None or index.local else 0.05):
            body["ConsistentRead"] = True
        return index, self.options(body, ["ReturnConsumedCapacity"])

    def query(self, table):
        places, legacy = Placeholders(self.rnd), self.maybe(0.25)
        index, body = self.reading(table, places, legacy, "QueryFilter")
        types = {**ATTRIBUTES, **table.key}
        first, second = (index.hash, index.range) if index else (list(table.key) + [None])[:2]
        hash_value = self.key(table)["k"] if first == "k" else self.scalar(types[first])
        second = second if second and self.maybe(0.5) else None
        if legacy:
            body["KeyConditions"] = {first: {"ComparisonOperator": "EQ", "AttributeValueList": [hash_value]}}
            if second:
                body["KeyConditions"][second] = self.comparison(
                    types[second], ["EQ", "LE", "LT", "GE", "GT", "BETWEEN", "BEGINS_WITH"])
        else:
            text = [f"{places.name(first)} = {places.value(hash_value)}"]
            if second:
                name, values = places.name(second), [places.value(self.scalar(types[second]))]
                shape = self.one_of("{0} {2} {1}", "{0} {2} {1}", "{0} BETWEEN {1} AND {3}", "begins_with({0}, {1})")
                if "{3}" in shape:
                    values.append(places.value(self.scalar(types[second])))
                text.append(shape.format(name, values[0], self.one_of("=", "<", "<=", ">", ">="), values[-1]))
                self.rnd.shuffle(text)
            body["KeyConditionExpression"] = " AND ".join(f"({part})" if self.maybe(0.1) else part for part in text)
        if self.maybe(0.3):
            body["ScanIndexForward"] = self.maybe(0.3)
        if index is None and self.maybe(0.15):
            body["ExclusiveStartKey"] = {**self.key(table), first: hash_value}
        return places.into(body)

    def scan(self, table):
        places, legacy = Placeholders(self.rnd), self.maybe(0.25)
        _, body = self.reading(table, places, legacy, "ScanFilter")
        if self.maybe(0.2):
            body["TotalSegments"] = self.rnd.randint(1, 4)
            body["Segment"] = self.rnd.randrange(body["TotalSegments"])
        return places.into(body)

    def batch_write(self):
        tables = self.rnd.sample(TABLES, self.one_of(1, 1, 2))
        requests = {}
        for table in tables:
            keys = {json.dumps(self.key(table)): None for _ in range(self.rnd.randint(1, 4))}
            requests[table.name] = [
                {"DeleteRequest": {"Key": json.loads(key)}} if self.maybe(0.3) else
                {"PutRequest": {"Item": {**self.item(table), **json.loads(key)}}} for key in keys]
        return self.options({"RequestItems": requests}, ["ReturnConsumedCapacity", "ReturnItemCollectionMetrics"])

    def batch_get(self):
        requests = {}
        for table in self.rnd.sample(TABLES, self.one_of(1, 1, 2)):
            entry = self.get(table)
            keys = {json.dumps(self.key(table)): None for _ in range(self.rnd.randint(1, 4))}
            kept = ("ProjectionExpression", "AttributesToGet", "ConsistentRead", "ExpressionAttributeNames")
            requests[table.name] = {"Keys": [json.loads(key) for key in keys],
                                    **{name: entry[name] for name in kept if name in entry}}
        return self.options({"RequestItems": requests}, ["ReturnConsumedCapacity"])

    def transact_write(self):
        actions = {}
        for _ in range(self.rnd.randint(1, 4)):
            operation = self.one_of("Put", "Put", "Update", "Delete", "ConditionCheck")
            table = self.rnd.choice(TABLES)
            action = self.write(operation, table, within=True)
            source = action.get("Item") or action["Key"]
            actions[table.name + json.dumps([source[name] for name in table.key])] = {operation: action}
        body = {"TransactItems": list(actions.values())}
        if self.maybe(0.15):
            body["ClientRequestToken"] = f"{self.run}-{self.rnd.randrange(5)}"
        return self.options(body, ["ReturnConsumedCapacity", "ReturnItemCollectionMetrics"])

    def transact_get(self):
        gets = [self.get(self.rnd.choice(TABLES), within=True) for _ in range(self.rnd.randint(1, 4))]
        unique = {json.dumps([get["TableName"], get["Key"]]): {"Get": get} for get in gets}
        return self.options({"TransactItems": list(unique.values())}, ["ReturnConsumedCapacity"])

    # Requests on tables: a table of its own for each case.

    def throughput(self):
        return {"ReadCapacityUnits": self.rnd.randint(1, 3), "WriteCapacityUnits": self.rnd.randint(1, 3)}

    def creation(self, name):
        table = Table(name, {"k": self.one_of("S", "N", "B"), **({"r": "N"} if self.maybe(0.6) else {})},
                      {f"index-{i}": Index("g", self.one_of(None, "n"), self.one_of("ALL", "KEYS_ONLY"))
                       for i in range(self.one_of(0, 1, 2))})
        if "r" in table.key and self.maybe(0.4):
            table.indexes["local"] = Index("k", "l", "INCLUDE", True, ("a", "b"))
        body = table.creation()
        if self.maybe(0.5):
            body.update(BillingMode="PROVISIONED", ProvisionedThroughput=self.throughput())
            for index in body.get("GlobalSecondaryIndexes", []):
                index["ProvisionedThroughput"] = self.throughput()
        if self.maybe(0.2):
            body["DeletionProtectionEnabled"] = self.maybe(0.5)
        return table, body

    def table_update(self, table):
        body = {"TableName": table.name}
        kind = self.one_of("throughput", "billing", "protection", "create", "create", "delete", "nothing")
        if kind == "throughput":
            body["ProvisionedThroughput"] = self.throughput()
        elif kind == "billing":
            body["BillingMode"] = self.one_of("PAY_PER_REQUEST", "PROVISIONED")
            if body["BillingMode"] == "PROVISIONED":
                body["ProvisionedThroughput"] = self.throughput()
        elif kind == "protection":
            body["DeletionProtectionEnabled"] = self.maybe(0.5)
        elif kind == "create":
            body["AttributeDefinitions"] = [{"AttributeName": "b", "AttributeType": self.one_of("N", "N", "S")}]
            body["GlobalSecondaryIndexUpdates"] = [{"Create": {
                "IndexName": self.one_of("new", "index-0"), "KeySchema": schema(["b"]),
                "Projection": {"ProjectionType": self.one_of("ALL", "KEYS_ONLY")},
                **({"ProvisionedThroughput": self.throughput()} if self.maybe(0.5) else {})}}]
        elif kind == "delete":
            body["GlobalSecondaryIndexUpdates"] = [{"Delete": {"IndexName": self.one_of("index-0", "new", "none")}}]
        return body

    def table_steps(self):
        self.scratch += 1
        table, body = self.creation(f"scratch-{self.scratch}")
        name = {"TableName": table.name}
        steps = [("CreateTable", body)]
        steps += [("PutItem", {**name, "Item": self.item(table)}) for _ in range(self.rnd.randrange(3))]
        for _ in range(self.rnd.randint(1, 3)):
            steps.append(self.one_of(
                ("DescribeTable", name), *[("UpdateTable", self.table_update(table)) for _ in range(5)],
                ("DescribeTimeToLive", name),
                ("UpdateTimeToLive", {**name, "TimeToLiveSpecification": {
                    "Enabled": self.maybe(0.6), "AttributeName": self.one_of("ttl", "n")}}),
                ("ListTables", {"Limit": self.rnd.randint(1, 9)}), ("ListTables", {}), ("DescribeLimits", {}),
                ("Scan", {**name, "IndexName": self.one_of("index-0", "new", "local")})))
        return steps + [("DescribeTable", name), ("DeleteTable", name)]

    # Cases.

    def steps(self):
        table = self.rnd.choice(TABLES + [TABLES[4]])
        kind = self.rnd.choices(
            ["Put", "Update", "Delete", "GetItem", "Query", "Scan", "BatchWriteItem", "BatchGetItem",
             "TransactWriteItems", "TransactGetItems", "tables"], [18, 20, 5, 5, 15, 8, 6, 5, 8, 4, 5])[0]
        if kind in ("Put", "Update", "Delete"):
            return [(kind + "Item", self.write(kind, table))]
        if kind == "tables":
            return self.table_steps()
        return [(kind, {"GetItem": lambda: self.get(table), "Query": lambda: self.query(table),
                        "Scan": lambda: self.scan(table), "BatchWriteItem": self.batch_write,
                        "BatchGetItem": self.batch_get, "TransactWriteItems": self.transact_write,
                        "TransactGetItems": self.transact_get}[kind]())]

    def case(self):
        """Returns the steps, and the number of faults in them."""
        steps = copy.deepcopy(self.steps())
        faults = self.rnd.choices([0, 1, 2], [65, 28, 7])[0]
        if faults:
            at = self.rnd.randrange(len(steps) - 1) if len(steps) > 1 else 0
            operation, body = steps[at]
            for _ in range(faults):
                operation, body = self.spoil(operation, body)
            steps[at] = (operation, body)
        return steps, faults

    # Faults.

    def spoil(self, operation, body):
        if not isinstance(body, dict):
            return operation, body
        ways = [self.spoil_member, self.spoil_node, self.spoil_value, self.spoil_key, self.spoil_expression,
                self.spoil_expression, self.spoil_placeholders, self.spoil_number, self.spoil_mixture]
        if self.maybe(0.04):
            return self.one_of("Nope", "", "ListBackups", "ExecuteStatement"), body
        if self.maybe(0.04):
            text = json.dumps(body).encode()
            cut = self.rnd.randrange(len(text))
            return operation, self.one_of(text[:cut], text[:cut] + b"\xff" + text[cut:], text + b"x", b"", b"[]", b"null")
        for way in self.rnd.sample(ways, len(ways)):
            if way(body):
                break
        return operation, body

    @staticmethod
    def nodes(value, path=()):
        """All (container, key, path) below this value."""
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, below in entries:
            yield value, key, path + (key,)
            yield from Generator.nodes(below, path + (key,))

    def pick(self, body, fits):
        found = [(container, key) for container, key, path in self.nodes(body) if fits(container[key], key, path)]
        return self.rnd.choice(found) if found else (None, None)

    def spoil_member(self, body):
        container, key = self.pick(body, lambda value, key, path: key in ENUMS or key in ("TableName", "IndexName"))
        if container is None or self.maybe(0.3):
            container, key = body, self.rnd.choice(list(body) or ["TableName"])
            container.pop(key, None)
        else:
            container[key] = self.one_of(*BAD_NAMES) if key not in ENUMS else self.one_of("WRONG", "", "none", 1)
        return True

    def spoil_node(self, body):
        container, key = self.pick(body, lambda value, key, path: True)
        if container is not None:
            container[key] = self.one_of(None, 1, True, "word", [], {}, [{}], {"S": "x"}, -1, 1e30)
        return container is not None

    def spoil_value(self, body):
        container, key = self.pick(body, lambda value, key, path: is_value(value))
        if container is not None:
            deep = {"S": "x"}
            for _ in range(33):
                deep = {"L": [deep]}
            container[key] = self.one_of(
                {"N": "abc"}, {"N": ""}, {"N": "1e400"}, {"N": "1" * 39}, {"N": " 1"}, {}, {"S": "x", "N": "1"},
                {"SS": []}, {"NS": []}, {"SS": ["x", "x"]}, {"NS": ["1", "1.0"]}, {"BS": ["AA==", "AA=="]},
                {"NULL": False}, {"X": "x"}, {"M": {"": {"S": "x"}}}, {"L": [{}]}, deep, {"S": ""}, {"B": "!"})
        return container is not None

    def spoil_key(self, body):
        container, key = self.pick(body, lambda value, key, path: key in ("Key", "Item", "ExclusiveStartKey") or
                                   len(path) > 1 and path[-2] == "Keys")
        if container is None or not isinstance(container[key], dict) or not container[key]:
            return False
        names, entry = [name for name in container[key] if name in ("k", "r", "g", "n", "l")], container[key]
        name = self.rnd.choice(names or list(entry))
        way = self.rnd.randrange(5)
        if way == 0:
            del entry[name]
        elif way == 1:
            entry["extra"] = {"S": "x"}
        elif way == 2:
            entry[name] = self.value(self.one_of("S", "N", "B", "BOOL", "SS", "L"))
        elif way == 3:
            entry[name] = self.one_of({"S": ""}, {"B": ""})
        else:
            entry[name] = {"S": "x" * self.one_of(1024, 1025, 2048, 2049)}
        return True

    def spoil_expression(self, body):
        container, key = self.pick(body, lambda value, key, path: key in EXPRESSIONS and isinstance(value, str))
        if container is None:
            return False
        tokens = re.findall(r"\s+|[\w#:]+|.", container[key]) or [""]
        at = self.rnd.randrange(len(tokens))
        way = self.rnd.randrange(4)
        if way == 0:
            del tokens[at]
        elif way == 1:
            tokens.insert(at, tokens[at])
        elif way == 2:
            tokens[at] = self.one_of("name", "size", "=", "(", ")", ",", "AND", ":none", "#none", "k", "5", "'x'", "!")
        else:
            tokens = [self.one_of("", " ", "".join(tokens[:at]), "".join(tokens[at:]), "k.x = k", "x" * 4097)]
        container[key] = "".join(tokens)
        return True

    def spoil_placeholders(self, body):
        container, key = self.pick(body, lambda value, key, path: key in (
            "ExpressionAttributeNames", "ExpressionAttributeValues") and isinstance(value, dict))
        if container is None:
            return False
        places, names = container[key], key == "ExpressionAttributeNames"
        way = self.rnd.randrange(4)
        if way == 0 and places:
            del places[self.rnd.choice(list(places))]
        elif way == 1:
            places["#unused" if names else ":unused"] = "unused" if names else {"S": "x"}
        elif way == 2:
            places["bad"] = "bad" if names else {"S": "x"}
        else:
            container[key] = {}
        return True

    def spoil_number(self, body):
        container, key = self.pick(body, lambda value, key, path: key in ("Limit", "Segment", "TotalSegments") or
                                   isinstance(key, str) and key.endswith("CapacityUnits"))
        if container is not None:
            container[key] = self.one_of(0, -1, 1000001, 1.5, "1", 10 ** 12)
        return container is not None

    def spoil_mixture(self, body):
        if "Key" not in body and "Item" not in body and "KeyConditions" not in body:
            return False
        more = [{"ConditionExpression": "attribute_exists(k)"}, {"Expected": {"zz": {"Exists": False}}},
                {"AttributesToGet": ["a"]}, {"AttributesToGet": ["a", "a"]}, {"ProjectionExpression": "a"},
                {"AttributeUpdates": {"a": {"Value": {"S": "x"}}}}, {"ConditionalOperator": "OR"},
                {"UpdateExpression": "REMOVE zz"}, {"FilterExpression": "attribute_exists(k)"}]
        body.update(self.rnd.choice(more))
        return True


def is_value(value):
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in (
        "S", "N", "B", "SS", "NS", "BS", "L", "M", "BOOL", "NULL")
