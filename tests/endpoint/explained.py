"""Differences from DynamoDB Local that are right: it differs from the documented service.

Sources: R is AWS's API reference, F is ../shared/aws.md, S is github.com/nubo-db/dynamodb-conformance (601 cases that
were run on DynamoDB itself), A is ScyllaDB's test/alternator (the same tests pass on DynamoDB), D is dynalite's tests
(recorded from DynamoDB), L is DynamoDB Local itself: an internal error, or a contradiction within it.
"""
import copy
import json
import re
from decimal import Decimal
from typing import NamedTuple


class Text(NamedTuple):
    """Errors, or a success, that mean the same: patterns for "STATUS Type: message" of both answers."""
    name: str
    source: str
    ours: str
    theirs: str


V = "400 ValidationException: "
INVALID = V + "One or more parameter values were invalid: "

TEXTS = [
    Text("text of an unknown table", "S: error-messages", "400 ResourceNotFoundException: Requested resource not found.*",
         "400 ResourceNotFoundException: Cannot do operations on a non-existent table"),
    Text("text of a key that does not fit the schema", "S: error-messages/getItem, deleteItem",
         V + "The provided key element does not match the schema",
         V + "(The number of conditions on the keys is invalid|One of the required keys was not given a value"
             "|One or more parameter values were invalid: Type mismatch for key|Invalid attribute value type"
             "|Cannot have null key .*)"),
    Text("text of an item without its key", "D: putItem",
         INVALID + "(Missing the key .* in the item|Type mismatch for key .* expected: .* actual: .*)",
         V + "(One of the required keys was not given a value|One or more parameter values were invalid: Type mismatch "
             "for key|Invalid attribute value type)"),
    Text("text of a wrong type for an index", "A: test_gsi.py, test_gsi_wrong_type_attribute_put",
         INVALID + "Type mismatch for Index Key .* Expected: .* Actual: .* IndexName: .*",
         V + "(One or more parameter values were invalid: Type mismatch for Index Key|Invalid attribute value type)"),
    Text("text of a key that is too long", "D: putItem",
         INVALID + "Size of (hash|range)key has exceeded the maximum size limit of ?(2048|1024) bytes",
         V + "(Hash primary key values must be under 2048 bytes, .*|One or more parameter values were invalid: Size "
             "limit exceeded|(One or more parameter values were invalid: )?Aggregated size of all range keys has exceeded the size "
             "limit of 1024 bytes)"),
    Text("enum values are checked", "S: validation-ordering/putItem, updateItem; A: test_transact.py",
         V + r"\d+ validation errors? detected: .*at '[a-zA-Z0-9.]*(returnConsumedCapacity|returnItemCollectionMetrics"
             "|returnValuesOnConditionCheckFailure|returnValues|tableClass|billingMode)' .*", "(200|400) .*"),
    Text("texts of constraints begin with the number of them",
         "S: error-messages, validation-ordering",
         V + r"\d+ validation errors? detected: .*",
         "(200 .*|400 ResourceNotFoundException: .*|" + V + "(Value .* failed to satisfy constraint: .*"
         "|Invalid table/index name.*|Return values set to invalid value|Select must be .*|Limit must be .*"
         "|Member must .*|(BatchWriteItem|BatchGetItem) .*|Requested resource not found|Get Condition for key .*"
         "|Too many items requested .*|Table read and write throughput .*|No provisioned throughput .*|No .*Schema.*"
         "|One or more keys is not .*|.*KeyType.*|ExclusiveStartTableName .*|.*must be specified.*"
         "|The batch write request list for a table cannot be null or empty.*|Null batch request .*"
         "|Item to put in PutItem cannot be null|Key .* cannot be null|The list of keys in RequestItems .*"
         "|Global Secondary Index's read and write throughput must be .*"
         "|Supplied AttributeValue .*|The number of conditions .*|Cannot have null key .*|.*[Pp]rojection.*))"),
    Text("text of a missing parameter", "S: error-messages/createTable, batchGetItem, scan",
         V + "(The (parameter )?'?[A-Za-z]+'? (parameter )?is required .*|The (Total)?Segments? parameter is .*)",
         V + "(Invalid table/index name.*|Value null at .*|Batch(Get|Write)Item .*|If (total )?segments? .*"
             "|1 validation error detected: Value .* at 'segment' .*|No .*)"),
    Text("DynamoDB Local fails", "L", "(400 (SerializationException|ValidationException|UnknownOperationException): .*"
         "|200 .*)", "500 InternalFailure: .*"),
    Text("DynamoDB Local converts JSON types, and ignores what follows the document", "A: test_manual_requests.py",
         "400 SerializationException: .*",
         "(200 .*|400 (ValidationException|ResourceNotFoundException|ConditionalCheckFailedException): .*)"),
    Text("text of an unknown operation", "D: connection", "400 UnknownOperationException: .*",
         "400 (UnknownOperationException|ValidationException): .*"),
    Text("text of duplicates in a set", "S: error-messages/putItem", INVALID + r"Input collection \[.*\] contains "
         "duplicates.", r"400 ValidationException: (One or more parameter values were invalid: )?Input collection "
         r"(\[.*\] |of type BS )?contains duplicates\.?"),
    Text("text of an UpdateTable without changes", "D: updateTable", V + "At least one of .* is required",
         V + "Nothing to update"),
    Text("empty names or values are checked first, with their own text", "D: query, updateItem",
         V + "Expression(AttributeNames|AttributeValues) must not be empty", V + ".*"),
    Text("text of a key that a query misses", "S: error-messages/query",
         V + "Query condition missed key schema element: .*", V + "Query condition missed key schema element:? ?.*"),
    Text("a segment must not be negative: DynamoDB Local tells the opposite", "L",
         V + "1 validation error detected: Value '.*' at '(segment|totalSegments)' .* greater than or equal to [01]",
         V + "1 validation error detected: Value '.*' at 'segment' .* less than or equal to -?[01]"),
    Text("a path where a key condition wants a value, and a placeholder that nothing uses: two faults", "R: Query",
         V + "Invalid condition in KeyConditionExpression: a key attribute must be compared with a value",
         V + "Value provided in ExpressionAttribute(Names|Values) unused in expressions: .*"),
    Text("any key may start a segment: a page may end with the key of an item of another one", "R: Scan, a page may end "
         "before its limit", "200 .*", V + "The provided starting key is invalid.*"),
    Text("a page may end with the last key of the range, which then continues it", "R: Query, LastEvaluatedKey",
         "200 .*", V + "The provided starting key does not match the range key predicate"),
    Text("the aggregate size of the items of a transaction is limited", "R: TransactWriteItems, TransactGetItems",
         V + "The aggregate size of the items in the transaction exceeds 4 MB", "(200|400) .*"),
    Text("text of units that stay the same", "D: updateTable",
         V + "The provisioned throughput for the table will not change.*",
         V + "The requested throughput value equals the current value"),
    Text("text of attributes that no key has", "D: createTable",
         INVALID + "Number of attributes in KeySchema does not exactly match .*",
         V + "The number of attributes in key schema must match the number of attributes defined .*"),
    Text("text of an unknown comparison", "D: query", V + "1 validation error detected: .*at 'comparisonOperator' .*",
         V + "Comparison type does not exist in DynamoDB"),
    Text("text of an empty key in a batch", "S: error-messages/getItem",
         V + "The provided key element does not match the schema",
         V + "The list of keys in RequestItems for BatchGetItem may not contain null or empty values: .*"),
    Text("units are not limited: they limit nothing here", "R: quotas are an account's", "200 .*",
         V + "Cannot increase provisioned throughput to more than .*"),
    Text("an index is made at once, so a second one can be made", "L",
         "(200 .*|" + V + ".*)", "400 LimitExceededException: Subscriber limit exceeded: Only 1 online index .*"),
    Text("taking elements out of an attribute that is not there changes nothing", "R: UpdateItem, DELETE", "200 .*",
         V + "Updates on index keys must be of the same data type as the key attribute"),
    Text("text of a used token", "R: TransactWriteItems, IdempotentParameterMismatchException",
         "400 IdempotentParameterMismatchException: .*", "400 IdempotentParameterMismatchException: "),
    Text("faults of several actions on an item: their order is not documented", "R: UpdateItem",
         V + "(The provided expression refers to an attribute that does not exist in the item|The document path "
             "provided in the update expression is invalid for update|An operand in the update expression has an "
             "incorrect data type|One or more parameter values were invalid: Type mismatch for Index Key .*)",
         V + "(The provided expression refers to an attribute that does not exist in the item|The document path "
             "provided in the update expression is invalid for update|An operand in the update expression has an "
             "incorrect data type|Updates on index keys must be of the same data type as the key attribute)"),
    Text("an update that makes a key of an index another type is refused", "A: test_gsi.py, "
         "test_gsi_wrong_type_attribute_update", INVALID + "Type mismatch for Index Key .*",
         "(200 .*|" + V + "Updates on index keys must be of the same data type as the key attribute)"),
    Text("units in a table on demand", "R: UpdateTable, BillingMode", INVALID + "(Neither ReadCapacityUnits nor "
         "WriteCapacityUnits can be specified|ProvisionedThroughput should not be specified for index: .*) when "
         "BillingMode is PAY_PER_REQUEST", "200 .*"),
    Text("names of two characters and ARNs are let through to the table", "R: GetItem, TableName has 1 to 1024",
         "400 ResourceNotFoundException: Requested resource not found.*", V + "Invalid table/index name.*"),
    Text("a key that does not fit the schema cancels a transaction", "S: error-messages/transactGetItems",
         "400 TransactionCanceledException: .*",
         "400 (TransactionCanceledException|ValidationException): (The number of conditions on the keys is invalid"
         "|One of the required keys was not given a value|Invalid attribute value type|One or more parameter values "
         "were invalid: Type mismatch for key|The provided expression refers to an attribute that does not exist in the "
         "item)"),
    Text("text of an attribute that is asked for twice", "D: getItem",
         INVALID + "Duplicate value in attribute name: .*", V + "Cannot have two attributes with the same name"),
    Text("text of an expression that is too long", "D: updateItem",
         V + "Invalid .*: Expression size has exceeded the maximum allowed size; expression size: .*",
         V + "Invalid .*: Expression size has exceeded the maximum allowed size;"),
    Text("`size` is a reserved word", "F", V + "Invalid .*: Attribute name is a reserved keyword; reserved keyword: "
         "(?i:size)", ".*"),
    Text("keys that are equal as numbers are the same key", "F", V + "(Provided list of item keys contains duplicates"
         "|Transaction request cannot include multiple operations on one item)", "200 .*"),
    Text("text of a start key that does not fit", "D: query",
         V + "The provided starting key is invalid: .*", V + "Exclusive Start Key must have same size as table's key "
         "schema"),
    Text("texts about values in ExpressionAttributeValues", "S: error-messages/putItem",
         V + "ExpressionAttributeValues contains invalid value: (One or more parameter values were invalid: )?(.*) for key "
             ".*", V + "ExpressionAttributeValues contains invalid value: (One or more parameter values were invalid: )?"
             "(Input collection .*|Empty attribute name) for key .*"),
    Text("text of an attribute that two keys want to be of different types", "A: test_gsi.py",
         INVALID + "Key attribute .* is already defined with another type: .*",
         V + "invalid attribute, SchemaElement redefined should be of same type as previously defined"),
    Text("text of a change of an index without an action", "D: updateTable",
         INVALID + "One of GlobalSecondaryIndexUpdate.Update, .* must not be null",
         V + "Update global secondary index action is null"),
    Text("text of a type that cannot be added to", "D: updateItem; L has another name for it in an empty value",
         INVALID + "ADD action is not supported for the type [A-Z]*",
         INVALID + "ADD action is not supported for the type [A-Z]*"),
    Text("text of a table without units", "D: createTable",
         INVALID + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
         V + "No provisioned throughput specified for the table"),
    Text("text of an index key without a definition", "A: test_gsi.py, test_gsi_missing_attribute_definition",
         INVALID + "Some index key attributes are not defined in AttributeDefinitions. Keys: .*",
         V + "No Attribute Schema Defined"),
    Text("the second of two paths that overlap is the one that overlaps", "D: updateItem; L names another path",
         V + "Invalid [A-Za-z]+: Two document paths overlap with each other; .*",
         V + "Invalid [A-Za-z]+: Two document paths overlap with each other; .*"),
    Text("items of a transaction are checked for duplicates first", "R: TransactWriteItems, cannot target the same item",
         V + "Transaction request cannot include multiple operations on one item",
         "400 TransactionCanceledException: .*"),
    Text("a document that is null", "D: connection; L has an exception of its own",
         "400 SerializationException: .*", "400 InvalidParameterValue: .* was null"),
    Text("text of an empty key of an index", "S: error-messages/putItem; which index is named is not documented",
         V + "One or more parameter values are not valid. .*The AttributeValue for a key attribute cannot contain an "
             "empty (string|binary) value.*",
         V + "One or more parameter values are not valid. A value specified for a secondary index key is not "
             "supported. The AttributeValue for a key attribute cannot contain an empty (string|binary) value.*"),
    Text("an update that makes a key of an index another type, and does not fit, is refused", "A: test_gsi.py",
         V + "Type mismatch for attribute to update",
         V + "Updates on index keys must be of the same data type as the key attribute"),
    Text("numbers in texts are normalised", "F", V + "(.* operator requires .*) operand: AttributeValue: .*",
         V + "(.* operator requires .*) operand: AttributeValue: .*"),
]

# Faults that both servers report, in the same words or not: where one reports one of them and the other another, the
# request has both, and the order of checks is not documented.
FAULTS = [re.compile(pattern) for pattern in [
    V + ".*Select type ALL_ATTRIBUTES is not supported for global secondary index .*",
    V + "Filter Expression can only contain non-primary key attributes: .*",
    V + ".*Secondary index .* does not project one or more filter attributes: .*",
    V + ".*Global secondary index .* does not project .*",
    V + "Invalid [A-Za-z]+: The first operand must be distinct from the remaining operands .*",
    V + "Invalid [A-Za-z]+: Incorrect operand type for operator or function; .*",
    V + "Cannot specify the AttributesToGet when choosing to get .*",
    V + ".*set  may not be empty",
    V + r"\d+ validation errors? detected: Value .* failed to satisfy constraint: .*",
    V + "Provided list of item keys contains duplicates",
    V + "Value provided in ExpressionAttribute(Names|Values) unused in expressions: .*",
    V + ".*ComparisonOperator [A-Z_]* is not valid for [A-Z]* AttributeValue type",
    V + ".*(ADD action|DELETE action with value) is not supported for the type [A-Z]*",
    V + "Empty attribute name",
    V + "Invalid [A-Za-z]+: Invalid attribute type name found; .*",
    V + "Cannot specify the ProjectionExpression when choosing to get .*",
    V + "Nesting Levels have exceeded supported limits.*",
    "400 ConditionalCheckFailedException: .*",
]]


# Rules take both bodies of a success, and change them to what they have in common.

def numbers(request, ours, theirs):
    """Numbers are stored normalised: also in lists, maps and sets, and where an update copies a value. F."""
    def normalise(value, name=""):
        if isinstance(value, dict):
            return {key: normalise(below, key) for key, below in value.items()}
        if isinstance(value, list):
            entries = [normalise(below, "N" if name == "NS" else "") for below in value]
            return sorted(entries) if name == "NS" else entries
        if name == "N" and isinstance(value, str):
            try:
                return format(Decimal(value).normalize() + 0, "f")
            except ArithmeticError:
                return value
        return value
    return normalise(ours), normalise(theirs)


def metrics(request, ours, theirs):
    """ItemCollectionMetrics of tables with local indexes: DynamoDB Local returns none. S: itemCollectionMetrics."""
    for body in (ours, theirs):
        if isinstance(body, dict):
            body.pop("ItemCollectionMetrics", None)
    return ours, theirs


def unasked(request, ours, theirs):
    """ConsumedCapacity is returned when it is asked for. R: ReturnConsumedCapacity, NONE is the default."""
    if isinstance(theirs, dict) and request.get("ReturnConsumedCapacity", "NONE") == "NONE":
        theirs.pop("ConsumedCapacity", None)
    return ours, theirs


def units(request, ours, theirs):
    """Units: an empty page and a missing item cost a minimal read, a transaction costs double, writes in a batch cost
    as much as alone. A: test_returnconsumedcapacity.py; R: TransactWriteItems. DynamoDB Local counts a Scan of an index
    as one of its table, an index that has the item neither before nor after a write, an entry whose numbers are spelled
    in another way as changed, and a read of the table for an item that lacks an attribute which its local index has. It
    divides segments in another way.
    """
    def visit(value):
        for name, below in list(value.items()) if isinstance(value, dict) else enumerate(value):
            if name in ("CapacityUnits", "units"):
                value[name] = "…"
            elif isinstance(below, (dict, list)):
                visit(below)
    writes = any(name in request for name in ("Item", "UpdateExpression", "AttributeUpdates"))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if writes or {"RequestItems", "TransactItems"} & set(request):
            drop_strange_indexes(ours, theirs)
        for body in (ours, theirs):
            if {"RequestItems", "TransactItems"} & set(request) or body.get("empty") or body.get("ScannedCount") == 0:
                visit({"": body.get("ConsumedCapacity", {})})
                body.update({"units": "…"} if "units" in body else {})
            if writes and all("ConsumedCapacity" in body for body in (ours, theirs)) and '"N' in json.dumps(request):
                visit({"": body["ConsumedCapacity"]})
            scans_index = "IndexName" in request and not any("Key" in name for name in request)
            reads_local = str(request.get("IndexName", "")).startswith("by-l") and "ProjectionExpression" in request
            if "units" in body and (scans_index or reads_local or "TotalSegments" in request):
                body["units"] = "…"
            if "pages" in body and "TotalSegments" in request:
                body["pages"] = "…"
    return ours, theirs


def drop_strange_indexes(ours, theirs):
    """Drops the units of indexes that only one of them counts."""
    tables = [body.get("ConsumedCapacity", []) for body in (ours, theirs)]
    tables = [side if isinstance(side, list) else [side] for side in tables]
    for mine, other in zip(*tables):
        for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
            shared = set(mine.get(kind, {})) & set(other.get(kind, {}))
            for side in (mine, other):
                kept = {name: units for name, units in side.pop(kind, {}).items() if name in shared}
                side.update({kind: kept} if kept else {})


def description(request, ours, theirs):
    """TableId, times and sizes in descriptions. R: TableDescription; DynamoDB updates sizes every six hours."""
    def on_demand(table):
        """Then its indexes have no units, either."""
        if table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
            for index in table.get("GlobalSecondaryIndexes", []):
                index.pop("ProvisionedThroughput", None)

    def visit(value):
        if isinstance(value, dict):
            on_demand(value)
            for name in ("TableId", "LastIncreaseDateTime", "LastDecreaseDateTime", "LastUpdateToPayPerRequestDateTime",
                         "TableSizeBytes", "IndexSizeBytes", "ItemCount", "TableClassSummary", "WarmThroughput",
                         "Backfilling", "NumberOfDecreasesToday", "BillingModeSummary", "OnDemandThroughput"):
                value.pop(name, None)
            if "GlobalSecondaryIndexes" in value:
                value["GlobalSecondaryIndexes"] = [index for index in value["GlobalSecondaryIndexes"]
                                                   if index.get("IndexStatus") != "DELETING"]
                if not value["GlobalSecondaryIndexes"]:
                    del value["GlobalSecondaryIndexes"]
            for name in ("TableStatus", "IndexStatus"):
                if name in value:
                    value[name] = "…"
            for below in value.values():
                visit(below)
            if value.get("ProvisionedThroughput") == {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0}:
                del value["ProvisionedThroughput"]
        elif isinstance(value, list):
            for below in value:
                visit(below)
    for body in (ours, theirs):
        if isinstance(body, dict):
            visit(body.get("TableDescription") or body.get("Table"))
    return ours, theirs


def removed(request, ours, theirs):
    """UPDATED_NEW shows no attributes that the update removed. A: test_returnvalues.py, UPDATED_NEW."""
    if isinstance(theirs, dict) and request.get("ReturnValues") == "UPDATED_NEW" and "Attributes" in theirs:
        kept = ours.get("Attributes", {})
        theirs["Attributes"] = {name: value for name, value in theirs["Attributes"].items() if name in kept}
        if not kept:
            ours.pop("Attributes", None)
            theirs.pop("Attributes", None)
    return ours, theirs


def full_page(request, ours, theirs):
    """A page that reached its Limit has a LastEvaluatedKey. R: Query, it does not mean that there is more."""
    if isinstance(ours, dict) and request.get("Limit") == ours.get("ScannedCount"):
        if "LastEvaluatedKey" not in theirs:
            ours.pop("LastEvaluatedKey", None)
    return ours, theirs


def filtered_index(request, ours, theirs):
    """A global index has what it projects, also for the filter of a Scan. R: Scan; DynamoDB Local filters by the table."""
    if "IndexName" in request and {"FilterExpression", "ScanFilter"} & set(request):
        for body in (ours, theirs):
            if isinstance(body, dict) and "pages" in body:
                body.update(Items="…", Count="…")
    return ours, theirs


def default_action(request, ours, theirs):
    """An update without an Action is a PUT. R: AttributeValueUpdate; DynamoDB Local writes nothing."""
    updates = request.get("AttributeUpdates")
    if isinstance(updates, dict) and any(isinstance(one, dict) and one.get("Action") is None for one in updates.values()):
        return "…", "…"
    return ours, theirs


RULES = [numbers, metrics, unasked, units, description, removed, full_page, filtered_index, default_action]


def same_text(ours, theirs):
    """The name of the explanation why two texts differ, if there is one."""
    for text in TEXTS:
        if re.fullmatch(text.ours, ours, re.S) and re.fullmatch(text.theirs, theirs, re.S):
            return text.name
    return None


def is_worded(text, side):
    """Whether a text is one that the other server has, too, in these words or others."""
    if any(pattern.fullmatch(text) for pattern in FAULTS):
        return True
    return any(re.fullmatch(getattr(entry, side), text, re.S) for entry in TEXTS
               if getattr(entry, side).startswith("400 ") and getattr(entry, "theirs").startswith("400 "))


def reasons(difference):
    """Cancelled transactions: the reasons one by one."""
    ours, theirs = (answer.body.get("CancellationReasons", []) for answer in (difference.ours, difference.theirs))
    if difference.theirs.type == "ValidationException" and any(
            reason.get("Message") == difference.theirs.message for reason in ours):
        return "a failure on the item cancels a transaction (R: TransactWriteItems, Cancellation Reasons)"
    if difference.theirs.type != "TransactionCanceledException" or len(ours) != len(theirs):
        return None
    for mine, other in zip(ours, theirs):
        texts = [f"400 ValidationException: {reason.get('Message', '').rstrip('.')}" for reason in (mine, other)]
        items = [numbers({}, reason.get("Item"), None)[0] for reason in (mine, other)]
        if mine["Code"] != other["Code"] or items[0] != items[1] or texts[0] != texts[1] and not same_text(*texts):
            return None
    return "texts of cancellation reasons (S: error-messages/transactWriteItems)"


def explain(difference, faults):
    """The name of the explanation of a difference, or none."""
    ours, theirs = difference.ours, difference.theirs
    if ours.status == theirs.status and ours.status in (0, 200):
        request = difference.request if isinstance(difference.request, dict) else {}
        bodies = copy.deepcopy((ours.body, theirs.body))
        names = []
        for rule in RULES:
            before = json.dumps(bodies)
            bodies = rule(request, *bodies)
            if json.dumps(bodies) != before:
                names.append(rule.__doc__.split(":")[0].split(". ")[0])
            if bodies[0] == bodies[1]:
                return "; ".join(names)
        return None
    name = reasons(difference) if ours.type == "TransactionCanceledException" else None
    texts = [f"{answer.status} {answer.type}: {answer.message}" if answer.type else f"{answer.status} "
             for answer in (ours, theirs)]
    name = name or same_text(*texts)
    if name is None and faults > 1 and 400 <= ours.status < 500 and theirs.status >= 400:
        return "several faults in one request: the order of checks is not documented"
    return name
