"""What the tests of the service share: starting it, and talking to it."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

for number in [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]:
    signal.signal(number, signal.SIG_DFL)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST_COMMAND", os.path.join(ROOT, "build/dev/src/holdfast")))
DYNAMODB = os.environ.get("HOLDFAST_TEST_STORE", "").startswith("dynamodb:")
ENOUGH = 60  # seconds; a test that waits so long has failed


def wait_until(condition, seconds=ENOUGH, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.text = body.decode()

    @property
    def json(self):
        return json.loads(self.text)

    def __getitem__(self, name):
        return self.json[name]

    def __repr__(self):
        return f"{self.status} {self.text.strip()}"


class Service:
    """One that runs, on a port of its own."""

    def __init__(self, store, *args, env=None, command="serve", wait=True, listen="127.0.0.1:0"):
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("HOLDFAST_", "XDG_", "JWT_", "LOCKER_"))}
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        self.env.update(env or {})
        self.log = tempfile.TemporaryFile("w+")
        arguments = [HOLDFAST]
        if store:
            arguments += ["--store", store]
        self.args = arguments + [command, "--listen", listen, *args]
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env=self.env, text=True)
        if wait:
            line = self.process.stdout.readline()
            found = re.search(r"on (https?)://(?:127\.0\.0\.1|localhost|0\.0\.0\.0):(\d+)/", line)
            if not found:
                self.process.wait(timeout=ENOUGH)
                raise AssertionError(f"the service did not start: {line}{self.errors()}")
            self.port = int(found.group(2))

    def errors(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def lines(self, event="request"):
        """Of the log, about this."""
        lines = [json.loads(line) for line in self.errors().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def connect(self, timeout=ENOUGH):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def call(self, method, path, body=None, headers=None, timeout=ENOUGH, connection=None, raw=None):
        own = connection is None
        connection = connection or self.connect(timeout)
        headers = dict(headers or {})
        if body is not None:
            raw = json.dumps(body)
        if raw is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=raw, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, body, **more)

    def metric(self, name):
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(f"holdfast_{name} "):
                return float(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=ENOUGH)
        self.process.stdout.close()
        return code

    def kill(self):
        with contextlib.suppress(Exception):
            self.process.kill()
        with contextlib.suppress(Exception):
            self.process.wait(timeout=10)
        with contextlib.suppress(Exception):
            self.process.stdout.close()
        self.log.close()


def parked(port, path, body, headers=None):
    """A POST that is sent, and whose answer is not read yet."""
    connection = socket.create_connection(("127.0.0.1", port))
    text = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
             f"Content-Length: {len(text)}", *(headers or []), "", ""]
    connection.sendall("\r\n".join(lines).encode() + text)
    return connection


def read_answer(connection, timeout=ENOUGH):
    """The status and the JSON of an answer with a length."""
    connection.settimeout(timeout)
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            raise AssertionError(f"no answer: {data!r}")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
    while len(rest) < length:
        rest += connection.recv(65536)
    return int(head.split()[1]), json.loads(rest[:length])


class Listener:
    """Follows events in a thread of its own."""

    def __init__(self, service, path="/v2/events", headers=None):
        self.events = []
        self.ids = []
        self.connection = service.connect()
        self.connection.request("GET", path, headers=headers or {})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.status
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        kind = "message"
        with contextlib.suppress(Exception):
            for line in self.response:
                line = line.decode().rstrip("\n")
                if line.startswith("id: "):
                    self.ids.append(line[4:])
                elif line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    event = json.loads(line[6:])
                    if kind != "message":
                        event["type"] = kind
                    self.events.append(event)
                    kind = "message"

    def wait_for(self, **wanted):
        def found():
            return any(all(event.get(name) == value for name, value in wanted.items()) for event in self.events)

        try:
            wait_until(found, what=f"event {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there were {self.events}") from None
        return next(event for event in self.events
                    if all(event.get(name) == value for name, value in wanted.items()))

    def close(self):
        with contextlib.suppress(Exception):
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.thread.join(timeout=10)


class ServiceTest(unittest.TestCase):
    """A directory and a store of its own for each test."""

    maxDiff = None

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = self.directory.name
        self.store = f"file:{self.path}/locks.db"
        if DYNAMODB:
            name = "t" + uuid.uuid4().hex
            self.store = re.sub(r"^dynamodb://[^?]*", f"dynamodb://{name}", os.environ["HOLDFAST_TEST_STORE"])

    def create_table(self, *options):
        if DYNAMODB:
            subprocess.run([HOLDFAST, "--store", self.store, *options, "table", "create", "-q"], check=True,
                           env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"})

    def start(self, *args, store=None, **more):
        service = Service(store or self.store, *args, **more)
        self.addCleanup(service.kill)
        self.addCleanup(self.check_end, service)
        return service

    def check_end(self, service):
        """Stopped as usual, it ends well: nothing is left over, and no sanitizer has complained."""
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGTERM)
            code = service.process.wait(timeout=ENOUGH)
            self.assertEqual(code, 0, service.errors()[-6000:])
        found = [line for line in service.errors().splitlines() if "Sanitizer" in line or "runtime error" in line]
        self.assertEqual(found, [], service.errors()[-6000:])

    def command(self, *args):
        """The holdfast command on the same store."""
        return subprocess.run([HOLDFAST, "--store", self.store, *args], capture_output=True, text=True,
                              timeout=ENOUGH, env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"})


def main():
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
