#!/usr/bin/env python3
"""Who may do what on which names: --rules, and rights in a token."""
import os
import signal
import time
import unittest

import harness
from harness import DYNAMODB, ENOUGH, Service, ServiceTest, wait_until
from test_auth import Issuer, Key, bearer

TOKENS = {name: f"{name}-0123456789abcdef" for name in ["alice", "bob", "ops", "root", "nobody"]}


class RulesTest(ServiceTest):
    RULES = """
        # who          may               on
        owner:alice    read,lock         jobs/* deploy     # and nothing else
        owner:bob      read              jobs/*
        owner:ops      force             jobs/*
        *              read              public/*
    """

    def setUp(self):
        super().setUp()
        self.tokens = os.path.join(self.path, "tokens")
        with open(self.tokens, "w") as file:
            for name, token in TOKENS.items():
                file.write(f"{token} {name}{' admin' if name == 'root' else ''}\n")
        self.rules = os.path.join(self.path, "rules")
        self.write(self.RULES)

    def write(self, text):
        with open(self.rules, "w") as file:
            file.write(text)

    def serve(self, *more, **others):
        return self.start("--tokens", self.tokens, "--rules", self.rules, *more, **others)

    def call(self, service, who, method, path, body=None):
        return service.call(method, path, body, headers=bearer(TOKENS[who]))

    def acquire(self, service, who, name):
        return self.call(service, who, "POST", f"/v2/locks/{name}/acquire", {})


class Locks(RulesTest):
    def test_acquire_needs_the_right_to_lock(self):
        service = self.serve()
        for who, name, status in [
                ("alice", "jobs%2Fa", 200), ("alice", "deploy", 200), ("alice", "deploy2", 403), ("alice", "jobs", 403),
                ("alice", "public%2Fx", 403), ("bob", "jobs%2Fb", 403), ("ops", "jobs%2Fb", 403),
                ("nobody", "jobs%2Fb", 403), ("root", "anything", 200)]:
            answer = self.acquire(service, who, name)
            self.assertEqual(answer.status, status, (who, name, answer))
            if status == 403:
                self.assertEqual(answer["error"], "forbidden")

    def test_what_may_not_be_read_is_as_if_it_were_not_there(self):
        service = self.serve()
        for name in ["jobs%2Fa", "secret", "public%2Fx"]:
            self.assertEqual(self.acquire(service, "root", name).status, 200)
        for who, names in [("alice", ["jobs/a", "public/x"]), ("bob", ["jobs/a", "public/x"]), ("nobody", ["public/x"]),
                           ("ops", ["jobs/a", "public/x"]), ("root", ["jobs/a", "public/x", "secret"])]:
            found = self.call(service, who, "GET", "/v2/locks")["locks"]
            self.assertEqual(sorted(lock["name"] for lock in found), names, who)
        hidden = self.call(service, "alice", "GET", "/v2/locks/secret")
        absent = self.call(service, "alice", "GET", "/v2/locks/there-is-none")
        self.assertEqual((hidden.status, hidden.json), (absent.status, absent.json))
        self.assertEqual(hidden.status, 404)
        # Nor does a refusal tell.
        hidden = self.acquire(service, "alice", "secret")
        absent = self.acquire(service, "alice", "there-is-none")
        self.assertEqual((hidden.status, hidden.json), (absent.status, absent.json))

    def test_nobody_finds_out_by_releasing_who_holds_what_they_may_not_read(self):
        service = self.serve()
        self.assertEqual(self.acquire(service, "root", "secret").status, 200)
        for verb in ["release", "renew"]:
            body = {"grant": "0" * 32}
            hidden = self.call(service, "alice", "POST", f"/v2/locks/secret/{verb}", body)
            absent = self.call(service, "alice", "POST", f"/v2/locks/there-is-none/{verb}", body)
            self.assertEqual((hidden.status, hidden.json), (absent.status, absent.json), verb)
            self.assertNotIn("root", hidden.text)

    def test_force_under_a_prefix(self):
        service = self.serve()
        for name in ["jobs%2Fa", "secret"]:
            self.assertEqual(self.acquire(service, "root", name).status, 200)
        body = {"reason": "it hangs"}
        for who, name, status in [("alice", "jobs%2Fa", 403), ("bob", "jobs%2Fa", 403), ("ops", "secret", 403),
                                  ("ops", "jobs%2Fa", 200), ("root", "secret", 200)]:
            answer = self.call(service, who, "POST", f"/v2/locks/{name}/force-release", body)
            self.assertEqual(answer.status, status, (who, name, answer))

    def test_who_may_not_lock_any_more_may_still_let_go(self):
        service = self.serve()
        grant = self.acquire(service, "alice", "deploy")["grant"]
        self.write("owner:alice read *")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "were read again" in service.errors(), what="the reload")
        for call, status in [("renew", 403), ("release", 200)]:
            answer = self.call(service, "alice", "POST", f"/v2/locks/deploy/{call}", {"grant": grant})
            self.assertEqual(answer.status, status, (call, answer))

    def test_v1(self):
        self.write("owner:alice lock jobs:*\nowner:bob read jobs:a*")
        service = self.serve()
        body = {"instanceId": "one", "leaseDuration": 60}
        for who, path, call, status in [
                ("alice", "jobs/lock/abc", "acquire", 200), ("alice", "other/lock/abc", "acquire", 403),
                ("bob", "jobs/lock/abc", "acquire", 403), ("bob", "jobs/lock/abc", "renew", 403),
                ("alice", "jobs/lock/abc", "renew", 200)]:
            answer = self.call(service, who, "POST", f"/v1/{path}/{call}", body)
            self.assertEqual(answer.status, status, (who, path, call, answer))
        names = {"namespace": "jobs", "lockName": "abc"}
        self.assertIn("owner", self.call(service, "bob", "GET", "/v1/jobs/lock/abc").json)
        self.assertEqual(self.call(service, "nobody", "GET", "/v1/jobs/lock/abc").json, names)
        self.assertEqual(self.call(service, "nobody", "POST", "/v1/jobs/lock/abc/release",
                                   {"instanceId": "one"}).status, 403)


class Events(RulesTest):
    def listen(self, service, who):
        connection = service.connect(20)
        connection.request("GET", "/v2/events", headers=bearer(TOKENS[who]))
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.addCleanup(connection.close)
        return answer

    def read_until(self, answer, word):
        lines = []
        for _ in range(1000):
            line = answer.readline().decode()
            if not line:
                break
            lines.append(line)
            if word in line:
                return lines
        raise AssertionError(f"{word} did not come: {lines}")

    def test_only_what_may_be_read_is_heard(self):
        service = self.serve()
        stream = self.listen(service, "bob")
        for name in ["secret", "jobs%2Fa", "hidden", "jobs%2Flast"]:
            self.assertEqual(self.acquire(service, "root", name).status, 200)
        text = "".join(self.read_until(stream, "jobs/last"))
        self.assertIn("jobs/a", text)
        self.assertNotIn("secret", text)
        self.assertNotIn("hidden", text)
        self.assertNotIn("reset", text)

    def test_a_stream_ends_when_rights_may_have_changed(self):
        service = self.serve()
        stream = self.listen(service, "bob")
        wait_until(lambda: service.metric("streams") == 1, what="the stream")
        self.write("owner:alice read *")
        service.process.send_signal(signal.SIGHUP)
        lines = self.read_until(stream, "reload")
        self.assertIn("event: end\n", lines)
        self.assertEqual(stream.read(), b"\n")


@unittest.skipIf(DYNAMODB, "the DynamoDB API is served on a file store")
class Tables(RulesTest):
    RULES = """
        owner:alice    read,write   table:mine* table:locks
        owner:bob      read         table:mine
        owner:ops      admin        table:ops*
        owner:alice    lock         *
    """

    def table(self, service, who, operation, body):
        return service.post("/", body, headers={**bearer(TOKENS[who]), "X-Amz-Target": f"DynamoDB_20120810.{operation}"})

    def test_each_table_has_its_rights(self):
        service = self.serve()
        schema = {"AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
                  "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
        item, key = {"Item": {"key": {"S": "a"}}}, {"Key": {"key": {"S": "a"}}}
        for who, operation, body, status in [
                ("alice", "CreateTable", {**schema, "TableName": "mine"}, 400),
                ("root", "CreateTable", {**schema, "TableName": "mine"}, 200),
                ("ops", "CreateTable", {**schema, "TableName": "ops1"}, 200),
                ("ops", "CreateTable", {**schema, "TableName": "other"}, 400),
                ("alice", "PutItem", {**item, "TableName": "mine"}, 200),
                ("alice", "PutItem", {**item, "TableName": "ops1"}, 400),
                ("bob", "PutItem", {**item, "TableName": "mine"}, 400),
                ("bob", "GetItem", {**key, "TableName": "mine"}, 200),
                ("bob", "Scan", {"TableName": "mine"}, 200),
                ("nobody", "GetItem", {**key, "TableName": "mine"}, 400),
                ("nobody", "DescribeTable", {"TableName": "mine"}, 400),
                ("bob", "DeleteItem", {**key, "TableName": "mine"}, 400),
                ("alice", "DeleteTable", {"TableName": "mine"}, 400)]:
            answer = self.table(service, who, operation, body)
            self.assertEqual(answer.status, status, (who, operation, answer))
            if status == 400:
                self.assertIn("AccessDenied", answer["__type"])
        for who, names in [("alice", ["locks", "mine"]), ("bob", ["mine"]), ("ops", ["ops1"]), ("nobody", [])]:
            found = [name for name in self.table(service, who, "ListTables", {})["TableNames"] if name != "lockservice"]
            self.assertEqual(found, names, who)


class Claims(ServiceTest):
    def setUp(self):
        super().setUp()
        self.key = Key(self.path, "one", "ES256")
        self.issuer = Issuer(self)
        self.issuer.keys = [self.key]
        self.rules = os.path.join(self.path, "rules")
        with open(self.rules, "w") as file:
            file.write("claim:groups=ops read,lock,force ops/*\nclaim:team=blue read,lock blue/*\n")

    def token(self, **claims):
        return self.key.token(**{"iss": self.issuer.url, "sub": "eve", "aud": None, **claims})

    def acquire(self, service, token, name):
        return service.post(f"/v2/locks/{name}/acquire", {}, headers=bearer(token)).status

    def test_rules_by_claim(self):
        service = self.start("--jwt-issuer", self.issuer.url, "--rules", self.rules)
        for claims, name, status in [
                ({"groups": ["dev", "ops"]}, "ops%2Fa", 200), ({"groups": "dev ops"}, "ops%2Fb", 200),
                ({"groups": ["dev"]}, "ops%2Fc", 403), ({"groups": "opsy"}, "ops%2Fc", 403), ({}, "ops%2Fc", 403),
                ({"team": "blue"}, "blue%2Fa", 200), ({"team": "blue"}, "ops%2Fc", 403),
                ({"groups": 5}, "ops%2Fc", 403)]:
            token = self.token(**claims)
            for _ in range(2):  # by signature, and remembered
                got = self.acquire(service, token, name)
                self.assertIn(got, [status, 423] if status == 200 else [status], (claims, name))

    def test_rights_in_the_token(self):
        service = self.start("--jwt-issuer", self.issuer.url, "--rights-claim", "rights")
        for rights, name, status in [
                (["read,lock jobs/*", "read *"], "jobs%2Fa", 200), ("lock deploy", "deploy", 200),
                (["read *"], "jobs%2Fb", 403), ([], "jobs%2Fb", 403), (None, "jobs%2Fb", 403),
                (["fly jobs/*"], "jobs%2Fb", 401), (["lock"], "jobs%2Fb", 401),
                (["lock " + "x" * 2000, "lock jobs/*"], "jobs%2Fc", 200)]:
            claims = {} if rights is None else {"rights": rights}
            token = self.token(**claims)
            for _ in range(2):
                got = self.acquire(service, token, name)
                self.assertIn(got, [status, 423] if status == 200 else [status], (rights, name))

    def test_a_stream_ends_with_its_token(self):
        service = self.start("--jwt-issuer", self.issuer.url, "--jwt-leeway", "1s", "--look", "200ms")
        token = self.token(exp=int(time.time()) + 2)
        connection = service.connect(ENOUGH)
        connection.request("GET", "/v2/events", headers=bearer(token))
        answer = connection.getresponse()
        self.assertIn(b'event: end\ndata: {"reason":"token-expired"}', answer.read())
        connection.close()


class Files(RulesTest):
    def check(self, *more):
        service = Service("memory:", "--tokens", self.tokens, "--rules", self.rules, "--check", *more, wait=False)
        out, _ = service.process.communicate(timeout=ENOUGH)
        return service.process.returncode, out + service.errors()

    def test_a_good_file_is_good(self):
        self.assertEqual(self.check(), (0, "the settings are valid\n"))

    def test_errors_name_file_and_line(self):
        for text, word in [
                ("owner:a lock", "missing names"), ("owner:a", "missing rights"), ("a lock *", "invalid caller"),
                ("owner: lock *", "invalid caller"), ("owner:a fly *", "unknown right"), ("owner:a lock, *", "after the comma"),
                ("owner:a lock a*b", "at the end"), ("claim:x lock *", "claim:NAME=VALUE"), ("* write jobs", "tables"),
                ("* lock table:x", "a table has"), ("* read table:", "missing table name")]:
            self.write(f"# fine\n\nowner:a read *\n{text}\n")
            code, errors = self.check()
            self.assertEqual(code, 64, text)
            self.assertIn(f"{self.rules}:4: ", errors)
            self.assertIn(word, errors)

    def test_a_file_that_is_bad_at_a_hangup_changes_nothing(self):
        service = self.serve()
        self.write("nonsense")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: f"{self.rules}:1" in service.errors(), what="the error")
        self.assertEqual(self.acquire(service, "alice", "deploy").status, 200)

    def test_rules_need_callers_who_are_known(self):
        for args in [["--rules", self.rules], ["--no-auth", "--rules", self.rules], ["--rights-claim", "x"],
                     ["--tokens", self.tokens, "--rights-claim", "x"]]:
            service = Service("memory:", *args, "--check", wait=False)
            service.process.communicate(timeout=ENOUGH)
            self.assertEqual(service.process.returncode, 64, args)

    def test_without_rules_all_is_as_it_was(self):
        service = self.start("--tokens", self.tokens)
        self.assertEqual(self.acquire(service, "nobody", "anything").status, 200)
        answer = self.call(service, "nobody", "POST", "/v2/locks/anything/force-release", {"reason": "x"})
        self.assertEqual(answer.status, 403)


if __name__ == "__main__":
    harness.main()
