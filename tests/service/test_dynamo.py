#!/usr/bin/env python3
"""The DynamoDB API as HTTP: who may call it, what its answers carry, how large requests may be."""
import datetime
import hashlib
import hmac
import json
import os
import re
import signal
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import ServiceTest, wait_until

KEYS = {"AKIDREADER": "reader-secret", "AKIDWRITER": "writer-secret", "AKIDROOT": "root-secret"}
TABLE = {"TableName": "things", "BillingMode": "PAY_PER_REQUEST",
         "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
         "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}


def signature(host, body, target, key, secret, now=None, scope="dynamodb"):
    """The headers of a signed call."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": host, "x-amz-date": stamp, "x-amz-target": target}
    names = ";".join(headers)
    canonical = "\n".join(["POST", "/", "", *(f"{name}:{value}" for name, value in headers.items()), "", names,
                           hashlib.sha256(body).hexdigest()])
    scope = f"{day}/us-east-1/{scope}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    derived = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        derived = hmac.new(derived, part.encode(), hashlib.sha256).digest()
    proof = hmac.new(derived, text.encode(), hashlib.sha256).hexdigest()
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, "
                                        f"Signature={proof}"}


def call(service, operation, body, key=None, secret=None, **more):
    """Signed if there is a key."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    target = f"DynamoDB_20120810.{operation}"
    headers = {"X-Amz-Target": target}
    if key:
        headers = signature(f"127.0.0.1:{service.port}", raw, target, key, secret or KEYS[key], **more)
    return service.call("POST", "/", raw=raw, headers={**headers, "Content-Type": "application/x-amz-json-1.0"})


class Keys(ServiceTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.keys = self.write("keys", *[f"{key} {secret}" for key, secret in KEYS.items()])
        self.rules = self.write("rules", "key:AKIDREADER read table:things", "key:AKIDWRITER write table:things",
                                "key:AKIDROOT admin table:*")

    def write(self, name, *lines):
        path = os.path.join(self.directory.name, name)
        with open(path, "w") as file:
            file.write("\n".join(["# for a test", *lines, ""]))
        return path

    def test_each_key_may_do_what_its_rules_say_on_its_tables(self):
        service = self.start("--access-keys", self.keys, "--rules", self.rules)
        item = {"TableName": "things", "Item": {"id": {"S": "a"}}}
        get = {"TableName": "things", "Key": {"id": {"S": "a"}}}
        for key, create, put, look in [("AKIDREADER", 400, 400, 400), ("AKIDWRITER", 400, 400, 400),
                                       ("AKIDROOT", 200, 200, 200), ("AKIDWRITER", 400, 200, 200),
                                       ("AKIDREADER", 400, 400, 200)]:
            for operation, body, status in [("CreateTable", TABLE, create), ("PutItem", item, put),
                                            ("GetItem", get, look),
                                            ("TransactWriteItems", {"TransactItems": [{"Put": item}]}, put),
                                            ("BatchGetItem", {"RequestItems": {"things": {"Keys": [get["Key"]]}}}, look)]:
                answer = call(service, operation, body, key)
                self.assertEqual(answer.status, status, (key, operation, answer))
        other = {**TABLE, "TableName": "other"}
        self.assertEqual(call(service, "CreateTable", other, "AKIDROOT").status, 200)
        answer = call(service, "TransactWriteItems", {"TransactItems": [
            {"Put": item}, {"Put": {"TableName": "other", "Item": {"id": {"S": "a"}}}}]}, "AKIDWRITER")
        self.assertIn("#AccessDeniedException", answer["__type"])
        self.assertEqual(call(service, "ListTables", {}, "AKIDREADER")["TableNames"], ["things"])
        self.assertLessEqual({"other", "things"}, set(call(service, "ListTables", {}, "AKIDROOT")["TableNames"]))

    def test_a_list_of_tables_shows_nothing_of_others_also_page_by_page(self):
        service = self.start("--access-keys", self.keys, "--rules", self.rules)
        for name in ["aaa", "things", "zzz", *(f"other-{i:03}" for i in range(120))]:
            self.assertEqual(call(service, "CreateTable", {**TABLE, "TableName": name}, "AKIDROOT").status, 200)
        for body in [{}, {"Limit": 1}]:
            answer = call(service, "ListTables", body, "AKIDREADER")
            self.assertEqual((answer["TableNames"], answer.json.get("LastEvaluatedTableName")), (["things"], None))
        names, last = [], None
        for _ in range(200):
            more = {"ExclusiveStartTableName": last} if last else {}
            answer = call(service, "ListTables", {"Limit": 7, **more}, "AKIDROOT")
            names += answer["TableNames"]
            last = answer.json.get("LastEvaluatedTableName")
            if not last:
                break
        self.assertEqual(names, sorted(set(names)))
        self.assertGreaterEqual(len(names), 123)

    def test_callers_do_not_meet_each_others_tokens(self):
        service = self.start("--access-keys", self.keys)
        call(service, "CreateTable", TABLE, "AKIDROOT")
        for key, name in [("AKIDROOT", "a"), ("AKIDWRITER", "b"), ("AKIDROOT", "a")]:
            answer = call(service, "TransactWriteItems", {"ClientRequestToken": "same", "TransactItems": [
                {"Put": {"TableName": "things", "Item": {"id": {"S": name}}}}]}, key)
            self.assertEqual(answer.status, 200, answer)
        answer = call(service, "TransactWriteItems", {"ClientRequestToken": "same", "TransactItems": [
            {"Put": {"TableName": "things", "Item": {"id": {"S": "c"}}}}]}, "AKIDWRITER")
        self.assertIn("#IdempotentParameterMismatchException", answer["__type"])

    def test_without_rules_every_key_may_do_everything_and_other_apis_need_their_own(self):
        service = self.start("--access-keys", self.keys)
        self.assertEqual(call(service, "CreateTable", TABLE, "AKIDREADER").status, 200)
        self.assertEqual(service.get("/v2/locks").status, 401)

    def test_signature_errors_have_their_own_types(self):
        service = self.start("--access-keys", self.keys)
        now = datetime.datetime.now(datetime.timezone.utc)
        cases = [("MissingAuthenticationTokenException", {}),
                 ("UnrecognizedClientException", {"key": "AKIDSTRANGER", "secret": "any-secret"}),
                 ("InvalidSignatureException", {"key": "AKIDROOT", "secret": "wrong-secret"}),
                 ("InvalidSignatureException", {"key": "AKIDROOT", "now": now - datetime.timedelta(minutes=20)}),
                 ("InvalidSignatureException", {"key": "AKIDROOT", "scope": "sqs"})]
        for body in [b"{}", b" " * 200000 + b"{}"]:  # a long one is read beside the loop
            for name, more in cases:
                answer = call(service, "ListTables", body, **more)
                self.assertEqual((answer.status, answer["__type"]), (400, f"com.amazon.coral.service#{name}"), more)
        answer = service.post("/", {}, headers={"X-Amz-Target": "DynamoDB_20120810.ListTables",
                                                "Authorization": "AWS4-HMAC-SHA256 Credential=x"})
        self.assertIn("#IncompleteSignatureException", answer["__type"])
        self.assertEqual(call(service, "ListTables", b" " * 200000 + b"{}", "AKIDROOT").status, 200)

    def test_keys_are_read_again_and_a_bad_file_changes_nothing(self):
        service = self.start("--access-keys", self.keys)
        self.write("keys", "AKIDNEW new-secret-key")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: call(service, "ListTables", {}, "AKIDNEW", "new-secret-key").status == 200, what="the reload")
        self.assertEqual(call(service, "ListTables", {}, "AKIDROOT").status, 400)
        for lines, why in [(["AKIDNEW"], ":2: expected ACCESS_KEY_ID SECRET_ACCESS_KEY"),
                           (["A/B secret-secret"], ":2: an access key id must have"),
                           (["A short"], ":2: a secret access key must have at least 8"),
                           (["A first-secret", "A second-secret"], ":3: the access key A occurs twice"),
                           ([], "has no access keys")]:
            self.write("keys", *lines)
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: why in service.errors(), what=why)
        self.assertEqual(call(service, "ListTables", {}, "AKIDNEW", "new-secret-key").status, 200)


class Answers(ServiceTest):
    def test_every_answer_has_an_id_and_a_checksum(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        call(service, "PutItem", {"TableName": "things", "Item": {"id": {"S": "a"}, "data": {"S": "é" * 100000}}})
        ids = set()
        for operation, body, status in [("ListTables", {}, 200), ("Scan", {"TableName": "things"}, 200),
                                        ("GetItem", {"TableName": "nothing", "Key": {"id": {"S": "a"}}}, 400),
                                        ("GetItem", b"{", 400), ("ListBackups", {}, 400), ("DescribeLimits", {}, 200),
                                        ("DescribeEndpoints", {}, 200), ("PutItem", b"x" * ((16 << 20) + 1), 413)]:
            answer = call(service, operation, body)
            self.assertEqual(answer.status, status, (operation, answer.text[:200]))
            self.assertEqual(int(answer.headers["x-amz-crc32"]), zlib.crc32(answer.text.encode()), operation)
            self.assertRegex(answer.headers["x-amzn-RequestId"], "^[0-9a-f]{32}[0-9]{20}$")
            ids.add(answer.headers["x-amzn-RequestId"])
        self.assertEqual(len(ids), 8)
        self.assertTrue(ids <= {line.get("request_id") for line in service.lines()})
        self.assertNotIn("x-amzn-RequestId", service.get("/healthz").headers)

    def test_operations_that_are_not_served_say_so_as_dynamodb_does(self):
        service = self.start()
        for operation in ["ExecuteStatement", "CreateBackup", "ListGlobalTables", "DescribeStream", "Nonsense", ""]:
            answer = call(service, operation, {})
            self.assertEqual((answer.status, answer["__type"]),
                             (400, "com.amazon.coral.service#UnknownOperationException"))
            self.assertEqual(answer["message"], f"{operation} is not supported by this service")
        stream = {**TABLE, "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}
        self.assertIn("#ValidationException", call(service, "CreateTable", stream)["__type"])


class Tokens(ServiceTest):
    def test_a_repeated_transaction_may_have_its_members_in_another_order(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        for members in [["a", "b"], ["b", "a"]]:
            answer = call(service, "TransactWriteItems", {"ClientRequestToken": "same", "TransactItems": [{"Update": {
                "TableName": "things", "Key": {"id": {"S": "1"}}, "UpdateExpression": "SET m = :m ADD n :one",
                "ExpressionAttributeValues": {":one": {"N": "1"},
                                              ":m": {"M": {name: {"S": name} for name in members}}}}}]})
            self.assertEqual(answer.status, 200, answer)
        item = call(service, "GetItem", {"TableName": "things", "Key": {"id": {"S": "1"}}})["Item"]
        self.assertEqual(item["n"], {"N": "1"})


class Large(ServiceTest):
    def test_requests_have_up_to_sixteen_megabytes(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        # 380 KB as an item, 2.3 MB as JSON.
        item = {"id": {"S": "control"}, "data": {"S": "\x01" * 380000}}
        answer = call(service, "PutItem", {"TableName": "things", "Item": item})
        self.assertEqual(answer.status, 200, answer.text[:200])
        self.assertEqual(call(service, "GetItem", {"TableName": "things", "Key": {"id": {"S": "control"}}})["Item"], item)
        puts = [{"PutRequest": {"Item": {"id": {"S": f"batch-{i}"}, "data": {"S": "x" * 400000}}}} for i in range(25)]
        answer = call(service, "BatchWriteItem", {"RequestItems": {"things": puts}})
        self.assertEqual((answer.status, answer["UnprocessedItems"]), (200, {}))
        keys = [{"id": {"S": f"batch-{i}"}} for i in range(25)]
        answer = call(service, "BatchGetItem", {"RequestItems": {"things": {"Keys": keys}}})
        self.assertEqual(len(answer["Responses"]["things"]), 25)
        parts = [{"Put": {"TableName": "things", "Item": {"id": {"S": f"part-{i}"}, "data": {"S": "y" * 390000}}}}
                 for i in range(11)]
        self.assertEqual(call(service, "TransactWriteItems", {"TransactItems": parts[:10]}).status, 200)
        answer = call(service, "TransactWriteItems", {"TransactItems": parts})
        self.assertIn("4MB", answer["message"])
        self.assertEqual(call(service, "PutItem", b" " * (16 << 20)).status, 400)
        self.assertEqual(call(service, "PutItem", b" " * ((16 << 20) + 1)).status, 413)
        self.assertEqual(service.call("POST", "/v2/locks/a/acquire", raw=b" " * ((1 << 20) + 1)).status, 413)

    def test_a_long_body_in_chunks_arrives_whole(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        body = json.dumps({"TableName": "things", "Item": {"id": {"S": "a"}, "data": {"S": "\x02" * 390000}}}).encode()
        connection = service.connect()
        connection.request("POST", "/", iter([body[i:i + 70000] for i in range(0, len(body), 70000)]), encode_chunked=True,
                           headers={"X-Amz-Target": "DynamoDB_20120810.PutItem", "Transfer-Encoding": "chunked"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def fill(self, service, count, attributes):
        for i in range(count):
            answer = call(service, "PutItem", {"TableName": "things", "Item": {"id": {"S": f"{i:04}"}, **attributes}})
            self.assertEqual(answer.status, 200, answer.text[:200])

    def test_keys_that_were_not_processed_are_a_request_for_the_same_attributes(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        self.fill(service, 45, {"shown": {"S": "x" * 390000}, "hidden": {"S": "secret"}})
        request, got = {"things": {"Keys": [{"id": {"S": f"{i:04}"}} for i in range(45)],
                                   "ProjectionExpression": "#s", "ExpressionAttributeNames": {"#s": "shown"}}}, []
        rounds = 0
        while request and rounds < 10:
            answer = call(service, "BatchGetItem", {"RequestItems": request})
            got += answer["Responses"].get("things", [])
            request = answer["UnprocessedKeys"]
            rounds += 1
        self.assertGreater(rounds, 1)
        self.assertEqual([set(item) for item in got], [{"shown"}] * 45)

    def test_pages_end_and_transactions_are_refused_before_they_take_much_memory(self):
        service = self.start()
        index = {"IndexName": "by-kind", "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
                 "Projection": {"ProjectionType": "KEYS_ONLY"}}
        call(service, "CreateTable", {**TABLE, "GlobalSecondaryIndexes": [index], "AttributeDefinitions": [
            *TABLE["AttributeDefinitions"], {"AttributeName": "kind", "AttributeType": "S"}]})
        self.fill(service, 60, {"kind": {"S": "a"}, "dense": {"L": [{"N": "1"}] * 90000}})
        query = {"TableName": "things", "IndexName": "by-kind", "KeyConditionExpression": "kind = :k",
                 "ExpressionAttributeValues": {":k": {"S": "a"}}}
        count, last = 0, {}
        for _ in range(60):
            answer = call(service, "Query", {**query, **last})
            count += answer["Count"]
            if "LastEvaluatedKey" not in answer.json:
                break
            last = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        self.assertEqual(count, 60)
        gets = [{"Get": {"TableName": "things", "Key": {"id": {"S": f"{i:04}"}}}} for i in range(60)]
        answer = call(service, "TransactGetItems", {"TransactItems": gets})
        self.assertIn("exceeds 4 MB", answer["message"])
        checks = [{"ConditionCheck": {**get["Get"], "ConditionExpression": " OR ".join(["contains(dense, :x)"] * 150),
                                      "ExpressionAttributeValues": {":x": {"N": "2"}}}} for get in gets[:12]]
        answer = call(service, "TransactWriteItems", {"TransactItems": checks})
        self.assertIn("#ValidationException", answer["__type"])
        grow = " , ".join(f"x{i} = list_append(dense, dense)" for i in range(90))
        answer = call(service, "UpdateItem", {**gets[0]["Get"], "UpdateExpression": f"SET {grow}"})
        self.assertIn("size", answer["message"])
        with open(f"/proc/{service.process.pid}/status") as file:
            peak = int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) // 1024
        with open(f"/proc/{service.process.pid}/maps") as file:
            if "san.so" not in file.read():  # sanitizers keep what is freed
                self.assertLess(peak, 300)

    def test_what_was_written_is_told_however_little_room_there_is(self):
        service = self.start()
        call(service, "CreateTable", TABLE)
        self.fill(service, 1, {"data": {"S": "x" * 390000}, "n": {"N": "0"}})
        body = json.dumps({"RequestItems": {"things": {"Keys": [{"id": {"S": "0000"}}]}}})
        slow = []
        for _ in range(140):  # callers who do not read their answers take all the room
            connection = service.connect()
            connection.request("POST", "/", body, {"X-Amz-Target": "DynamoDB_20120810.BatchGetItem"})
            slow.append(connection)
        add = {"TableName": "things", "Key": {"id": {"S": "0000"}}, "UpdateExpression": "ADD n :one",
               "ExpressionAttributeValues": {":one": {"N": "1"}}, "ReturnValues": "ALL_NEW"}
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: call(service, "UpdateItem", add).status, range(96)))
        for connection in slow:
            connection.close()
        wait_until(lambda: call(service, "GetItem", {"TableName": "things", "Key": add["Key"]}).status == 200,
                   what="room")
        item = call(service, "GetItem", {"TableName": "things", "Key": add["Key"]})["Item"]
        self.assertEqual(int(item["n"]["N"]), answers.count(200))

    def test_many_long_requests_at_once_are_served_or_told_to_try_again(self):
        service = self.start()
        call(service, "CreateTable", TABLE)

        def put(i):
            puts = [{"PutRequest": {"Item": {"id": {"S": f"{i}-{j}"}, "data": {"S": "x" * 300000}}}} for j in range(25)]
            answer = call(service, "BatchWriteItem", {"RequestItems": {"things": puts}})
            if answer.status == 503:
                return 503
            return answer.status if answer.status == 200 else re.sub(".*#", "", answer["__type"])
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(put, range(16)))
        self.assertIn(200, results)
        self.assertLessEqual(set(results), {200, 503, "ThrottlingException"})
        self.assertEqual(put("again"), 200)


if __name__ == "__main__":
    harness.main()
