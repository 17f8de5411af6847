#!/usr/bin/env python3
"""Services on one table tell each other what was released. The table is another service's DynamoDB API."""
import os
import signal
from urllib.parse import quote

import harness
from harness import ServiceTest, parked, read_answer, wait_until

TOKENS = ("alice-alice-alice-alice-alice-1 alice\n"
          "peers-peers-peers-peers-peers-1 peers\n")
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class PeerTest(ServiceTest):
    def setUp(self):
        super().setUp()
        engine = self.start(store=f"file:{self.path}/engine.db")
        self.store = f"dynamodb://locks?region=us-east-1&endpoint=http://127.0.0.1:{engine.port}"
        self.env = KEYS
        self.assertEqual(harness.subprocess.run(
            [harness.HOLDFAST, "--store", self.store, "table", "create", "-q"], env={**os.environ, **KEYS}).returncode, 0)

    def start_one(self, *args, **more):
        """A minute between polls: who hears of a release sooner was told."""
        return self.start("--poll", "60s", *args, env=self.env, **more)

    def start_advertised(self, *args):
        probe = harness.socket.create_server(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        return self.start_one("--advertise", f"http://127.0.0.1:{port}", *args, listen=f"127.0.0.1:{port}")

    def hands_over(self, holder, waiter, name="job", headers=None):
        lock = holder.post(f"/v2/locks/{name}/acquire", {"lease_ms": 300000}, headers=headers)
        self.assertEqual(lock.status, 200, lock)
        lines = [f"{key}: {value}" for key, value in (headers or {}).items()]
        connection = parked(waiter.port, f"/v2/locks/{name}/acquire", {"wait_ms": 50000, "lease_ms": 300000}, lines)
        wait_until(lambda: waiter.get(f"/v2/locks/{name}", headers=headers).json.get("waiting"), what="a waiter")
        harness.time.sleep(0.3)  # the first polls come soon
        self.assertEqual(holder.post(f"/v2/locks/{name}/release", {"grant": lock["grant"]}, headers=headers).status, 200)
        status, answer = read_answer(connection, timeout=20)
        self.assertEqual(status, 200, answer)
        connection.close()
        released = waiter.post(f"/v2/locks/{name}/release", {"grant": answer["grant"]}, headers=headers)
        self.assertEqual(released.status, 200, released)

    def knows(self, service, count):
        wait_until(lambda: service.metric("peers") == count, what=f"{count} peers")


class Named(PeerTest):
    def test_a_release_at_one_wakes_a_waiter_at_the_other(self):
        a = self.start_one()
        b = self.start_one("--peer", f"http://127.0.0.1:{a.port}")
        self.knows(b, 1)
        wait_until(lambda: a.metric("streams") == 1, what="a listener")
        for name in ["job", 'odd "name" \\ é', "x" * 1000]:
            self.hands_over(a, b, quote(name, safe=""))

    def test_one_that_cannot_be_reached_does_no_harm(self):
        a = self.start_one("--peer", "http://127.0.0.1:9,http://localhost:9,http://127.0.0.1:9")
        self.knows(a, 2)
        lock = a.post("/v2/locks/job/acquire", {})
        self.assertEqual(lock.status, 200)

    def test_invalid_ones_are_refused(self):
        for option, value in [("--peer", "ftp://x"), ("--peer", "http://example.com"), ("--peer", "https://a/b"),
                              ("--advertise", "here"), ("--advertise", "https://a?token-file=/etc/hostname"), ("--advertise", "http://example.com:8080")]:
            service = self.start_one(option, value, wait=False)
            self.assertEqual(service.process.wait(timeout=harness.ENOUGH), 64, (option, value))
            self.assertIn(option, service.errors())


class Advertised(PeerTest):
    def test_they_find_each_other_and_forget_those_that_end(self):
        a = self.start_advertised()
        b = self.start_advertised()
        self.knows(b, 1)
        self.knows(a, 1)  # at its next look into the table
        wait_until(lambda: a.metric("streams") == 1 and b.metric("streams") == 1, what="listeners")
        self.hands_over(a, b)
        self.hands_over(b, a)
        b.process.send_signal(signal.SIGTERM)
        self.assertEqual(b.process.wait(timeout=harness.ENOUGH), 0)
        self.knows(a, 0)
        self.assertEqual([lock["name"] for lock in a.get("/v2/locks")["locks"] if ":" in lock["name"]], [])

    def test_they_authenticate_each_other(self):
        tokens, token = os.path.join(self.path, "tokens"), os.path.join(self.path, "token")
        rules = os.path.join(self.path, "rules")
        for path, text in [(tokens, TOKENS), (token, TOKENS.split("\n")[1].split()[0]),
                           (rules, "owner:peers read *\nowner:alice read,lock *\n")]:
            with open(path, "w") as file:
                file.write(text)
        options = ["--tokens", tokens, "--rules", rules, "--peer-token-file", token]
        a, b = self.start_advertised(*options), self.start_advertised(*options)
        wait_until(lambda: a.metric("streams") == 1 and b.metric("streams") == 1, what="listeners")
        self.hands_over(a, b, headers={"Authorization": "Bearer alice-alice-alice-alice-alice-1"})

    def test_strange_entries_do_no_harm(self):
        a = self.start_advertised()
        body = {"TableName": "locks", "Key": {"key": {"S": "holdfast:services"}},
                "UpdateExpression": "SET #a = :a, #b = :b, #c = :c, #d = :d, #e = :e",
                "ExpressionAttributeNames": {"#a": "service-1", "#b": "service-2", "#c": "service-3", "#d": "else",
                                             "#e": "service-4"},
                "ExpressionAttributeValues": {":a": {"N": "1"}, ":b": {"S": "9999999999999 ftp://x"},
                                              ":c": {"S": "soon http://127.0.0.1:9"}, ":d": {"S": "x"},
                                              ":e": {"S": "9999999999999 http://127.0.0.1:9?token-file=/etc/hostname"}}}
        port = int(self.store.rsplit(":", 1)[1])
        connection = harness.http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/", harness.json.dumps(body), {"X-Amz-Target": "DynamoDB_20120810.UpdateItem",
                                                           "Content-Type": "application/x-amz-json-1.0"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        b = self.start_advertised()
        self.knows(b, 1)
        self.knows(a, 1)


if __name__ == "__main__":
    harness.main()
