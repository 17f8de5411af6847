"""The policies in packaging/aws allow what each role sends in each table format, and nothing else; and the templates
make the tables that the command would create.

A service on a file speaks DynamoDB's API and logs each operation: each role is played in each format, and the
operations are compared with packaging/aws/actions.json. HOLDFAST_COMMAND names the command. Needs PyYAML and
python-hcl2.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import hcl2
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST_COMMAND", os.path.join(ROOT, "build/release/src/holdfast")))

ENOUGH = 60  # seconds
FORMATS = ["holdfast", "awslabs", "dynamolock", "dlock", "lockservice", "single-table", "fail-open", "fail-closed"]

# What the roles below do not come to send.
NOT_PLAYED = {
    ("holdfast", "operator"): {"dynamodb:DeleteItem"},  # table sweep, of records that were released a day ago
}


class Store:
    """A service on a file, as DynamoDB, for one table format."""

    def __init__(self, format):
        self.format = format
        self.directory = tempfile.TemporaryDirectory()
        self.log = os.path.join(self.directory.name, "log")
        self.at = 0
        self.server = subprocess.Popen(
            [HOLDFAST, "serve", "--store", f"file:{self.directory.name}/locks.db", "--listen", "127.0.0.1:0"],
            stderr=open(self.log, "w"), stdout=subprocess.DEVNULL)
        self.port = address_in(self.log)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": self.directory.name, "AWS_ACCESS_KEY_ID": "none",
                            "AWS_SECRET_ACCESS_KEY": "none", "HOLDFAST_FORMAT": format,
                            "HOLDFAST_TABLE": "team-locks",
                            "HOLDFAST_STORE": f"dynamodb://locks?region=r&endpoint=http://127.0.0.1:{self.port}"}
        if format in ("dlock", "lockservice", "single-table"):
            self.environment["HOLDFAST_SKEW"] = "100ms"  # or a dead holder is judged late

    def close(self):
        self.server.terminate()
        self.server.wait()
        self.directory.cleanup()

    def text(self):
        with open(self.log) as file:
            return file.read()

    def run(self, *arguments, expect=(0,)):
        process = subprocess.run([HOLDFAST, *arguments], env=self.environment, capture_output=True, text=True,
                                 timeout=ENOUGH)
        assert process.returncode in expect, (self.format, arguments, process.returncode, process.stderr)
        return process.stdout.strip()

    def start(self, *arguments):
        return subprocess.Popen([HOLDFAST, *arguments], env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def until_held(self, name):
        end = time.monotonic() + ENOUGH
        while '"held":true' not in self.run("-o", "json", "get", name, expect=(0, 1)):
            assert time.monotonic() < end, f"{name} is not held"
            time.sleep(0.05)

    def operations(self):
        """Those since the last call. The log is written by a thread: a request of our own marks its end."""
        mark = f"mark-{time.monotonic_ns()}"
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"GET /v2/locks/{mark} HTTP/1.0\r\n\r\n".encode())
            connection.recv(1000)
        end = time.monotonic() + ENOUGH
        while mark not in (text := self.text()[self.at :]):
            assert time.monotonic() < end
            time.sleep(0.02)
        self.at += len(text)
        return {"dynamodb:" + name for name in re.findall(r'"operation":"([A-Za-z]+)"', text)}


# ---- the roles ----


def play_creator(store):
    store.run("table", "create")


def play_holder(store):
    """Everything that takes, keeps and releases locks."""
    leases = store.format != "fail-closed"
    store.run("run", "team:job", "--", "true")
    store.run("run", "team:job", "--", "true")  # on the record that the first one left, if it left one
    grant = store.run("acquire", "-q", "team:granted")
    store.run("run", "-n", "team:granted", "--", "true", expect=(1,))
    if leases:
        store.run("renew", grant)
    store.run("release", grant)
    if leases:
        store.run("--lease", "1s", "run", "team:renewed", "--", "sleep", "1")
        store.run("acquire", "-q", "--lease", "1s", "team:dead")
        store.run("run", "-w", "30s", "team:dead", "--", "true")
        store.run("--lease", "2s", "elect", "team:leader", "--", "true")
    if store.format in ("holdfast", "fail-open"):
        store.run("run", "-s", "team:read", "--", "true")
    if store.format == "holdfast":
        store.run("run", "--limit", "2", "team:seats", "--", "true")
        dead = store.start("run", "-s", "--lease", "1s", "team:shared", "--", "sleep", "30")
        store.until_held("team:shared")
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        store.run("run", "-w", "30s", "team:shared", "--", "true")
    if store.format in ("awslabs", "dynamolock"):
        store.run("--keep-on-release", "run", "team:kept", "--", "true")
        store.run("run", "--data", "text", "team:kept", "--", "true")
    if store.format == "dlock":
        store.run("--fencing", "run", "team:fenced", "--", "true")
    if store.format == "fail-open":
        store.run("--trust-clock", "run", "team:trusted", "--", "true")


def play_observer(store):
    store.run("get", "team:job", expect=(0, 1))
    store.run("list", "--all")
    store.run("list", "--key", "team:job")
    store.run("watch", "-n", "1", "team:job")


def play_operator(store):
    """Observes, force-releases, and looks after the table."""
    play_observer(store)
    store.run("release", "--force", "--reason", "a test", "team:forced")
    if store.format == "holdfast":
        store.run("release", "--force", "--reason", "a test", "team:crowd")
    if store.format == "dlock":
        store.run("--fencing", "release", "--force", "--reason", "a test", "team:crowd")
    store.run("table", "check")
    store.run("table", "describe")
    store.run("table", "sweep", expect=(0, 64))


def play_service(store):
    """A service whose store is the table."""
    log = os.path.join(store.directory.name, "service.log")
    more = ["--advertise", "http://127.0.0.1:1"] if store.format == "holdfast" else []
    service = subprocess.Popen([HOLDFAST, "serve", "--listen", "127.0.0.1:0", *more], env=store.environment,
                               stderr=open(log, "w"), stdout=subprocess.DEVNULL)
    try:
        port = address_in(log)

        def call(method, path, body=None, statuses=(200,)):
            status, text = request(port, method, path, body, {"Content-Type": "application/json"} if body is not None else {})
            assert status in statuses, (store.format, path, status, text)
            return text

        call("GET", "/readyz")
        grant = json.loads(call("POST", "/v2/locks/team:served/acquire", {}))["grant"]
        if store.format != "fail-closed":
            call("POST", "/v2/locks/team:served/renew", {"grant": grant})
        call("POST", "/v2/locks/team:served/release", {"grant": grant})
        call("GET", "/v2/locks/team:job", statuses=(200, 404))
        call("GET", "/v2/locks")
        if store.format == "holdfast":
            session = json.loads(call("POST", "/v2/sessions", {"lease_ms": 10000}))["session"]
            call("POST", "/v2/locks/team:kept/acquire", {"session": session, "mode": "shared"})
            call("POST", f"/v2/sessions/{session}/renew", {})
            call("POST", f"/v2/sessions/{session}/end", {})
    finally:
        service.terminate()
        service.wait()


def request(port, method, path, body, headers):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ENOUGH)) as connection:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def address_in(log):
    """The port in the line that a service logs when it has started."""
    end = time.monotonic() + ENOUGH
    while time.monotonic() < end:
        with open(log) as file:
            found = re.search(r'"event":"start".*?"address":"127.0.0.1:(\d+)"', file.read())
        if found:
            return int(found.group(1))
        time.sleep(0.02)
    raise AssertionError("the service does not start")


def describe(store):
    """The key, the sort key and the attribute of time to live of the table."""
    def ask(operation):
        headers = {"X-Amz-Target": "DynamoDB_20120810." + operation, "Content-Type": "application/x-amz-json-1.0"}
        return json.loads(request(store.port, "POST", "/", {"TableName": "team-locks"}, headers)[1])
    keys = {key["KeyType"]: key["AttributeName"] for key in ask("DescribeTable")["Table"]["KeySchema"]}
    return keys["HASH"], keys.get("RANGE"), ask("DescribeTimeToLive")["TimeToLiveDescription"].get("AttributeName")


def measure(format):
    """role -> actions; and the layout of the table"""
    store, found = Store(format), {}
    try:
        for role, play in (("creator", play_creator), ("holder", play_holder), ("observer", play_observer),
                           ("service", play_service)):
            store.operations()
            play(store)
            found[role] = store.operations()
        store.run("acquire", "-q", "team:forced")
        if format == "dlock":
            store.run("--fencing", "acquire", "-q", "team:crowd")
        crowd = store.start("run", "-s", "--lease", "2s", "team:crowd", "--", "sleep", "30") if format == "holdfast" else None
        if crowd:
            store.until_held("team:crowd")
            crowd.send_signal(signal.SIGKILL)
            crowd.wait()
        store.operations()
        play_operator(store)
        found["operator"] = store.operations()
        found["layout"] = describe(store)
    finally:
        store.close()
    return found


class Template(yaml.SafeLoader):
    """Reads CloudFormation's functions as their arguments."""


Template.add_multi_constructor("!", lambda loader, tag, node: (
    loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else
    loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else
    loader.construct_mapping(node, deep=True)))


def unquoted(value):
    return value.strip('"') if isinstance(value, str) else value


class Policies(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        aws = os.path.join(ROOT, "packaging", "aws")
        with open(f"{aws}/actions.json") as file:
            cls.actions = json.load(file)
        with open(f"{aws}/holdfast.yaml") as file:
            cls.template = yaml.load(file, Template)
        with open(f"{aws}/holdfast.tf") as file:
            cls.module = hcl2.load(file)
        with concurrent.futures.ThreadPoolExecutor(len(FORMATS)) as pool:
            cls.measured = dict(zip(FORMATS, pool.map(measure, FORMATS)))

    def test_allow_what_each_role_sends_and_nothing_else(self):
        self.assertEqual(sorted(self.actions), sorted(FORMATS))
        for format, roles in self.actions.items():
            for role, actions in roles.items():
                with self.subTest(f"{role} of {format}"):
                    sent = self.measured[format][role] | NOT_PLAYED.get((format, role), set())
                    self.assertEqual(sorted(sent), actions)

    def test_a_service_needs_a_holder_and_an_observer(self):
        for format, found in self.measured.items():
            with self.subTest(format):
                allowed = set(self.actions[format]["holder"]) | set(self.actions[format]["observer"])
                self.assertLessEqual(found["service"], allowed)

    def test_creating_a_table_needs(self):
        sent = set().union(*(found["creator"] for found in self.measured.values()))
        self.assertEqual(sorted(sent), ["dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive",
                                        "dynamodb:UpdateTimeToLive"])

    def test_cloudformation(self):
        maps = self.template["Mappings"]
        self.assertEqual(sorted(self.template["Parameters"]["Format"]["AllowedValues"]), sorted(FORMATS))
        for format, roles in self.actions.items():
            with self.subTest(format):
                self.assertEqual(maps["Holder"][format]["Actions"], roles["holder"])
                self.assertEqual(maps["Operator"][format]["Actions"], roles["operator"])
                statement = self.template["Resources"]["Observer"]["Properties"]["PolicyDocument"]["Statement"][0]
                self.assertEqual(statement["Action"], roles["observer"])
                layout = maps["Layout"][format]
                self.assertEqual([None if layout[part] == "none" else layout[part]
                                  for part in ("Key", "SortKey", "TimeToLive")], list(self.measured[format]["layout"]))

    def test_terraform(self):
        layouts = self.module["locals"][0]["layouts"]
        self.assertEqual(sorted(unquoted(name) for name in layouts if name != "__is_block__"), sorted(FORMATS))
        for format, layout in layouts.items():
            with self.subTest(format):
                self.assertEqual([unquoted(layout[part]) for part in ("key", "sort_key", "ttl")],
                                 list(self.measured[unquoted(format)]["layout"]))


if __name__ == "__main__":
    unittest.main()
