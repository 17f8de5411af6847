"""Clients that mean harm, or know no better, while a well-behaved one is served."""
import contextlib
import http.client
import os
import random
import re
import socket
import subprocess
import threading
import time

import harness
from harness import ServiceTest, parked, wait_until

GOOD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Hostile(ServiceTest):
    def setUp(self):
        super().setUp()
        self.create_table()
        self.service = self.start("--client-timeout", "2s", "--max-connections", "600")
        self.sockets = []
        self.stop = threading.Event()
        self.failures = []
        self.rounds = 0
        self.good = threading.Thread(target=self.behave)
        self.good.start()

    def tearDown(self):
        wait_until(lambda: self.rounds > 3 or self.failures, what="service for who behaves")
        self.stop.set()
        self.good.join(timeout=30)
        for one in self.sockets:
            one.close()
        self.assertEqual(self.failures, [])
        self.assertIsNone(self.service.process.poll(), self.service.errors()[-2000:])

    def behave(self):
        """Takes and releases a lock, over and over; nothing of it may fail."""
        while not self.stop.is_set():
            try:
                answer = self.service.post("/v2/locks/good/acquire", {"wait_ms": 20000}, timeout=30)
                if answer.status == 200:
                    answer = self.service.post("/v2/locks/good/release", {"grant": answer["grant"]}, timeout=30)
                if answer.status != 200:
                    self.failures.append(repr(answer))
                self.rounds += 1
            except Exception as error:
                self.failures.append(repr(error))
            time.sleep(0.05)

    def connect(self, source="127.0.0.1"):
        one = socket.create_connection(("127.0.0.1", self.service.port), timeout=20, source_address=(source, 0))
        self.sockets.append(one)
        return one

    def read(self, one):
        """All that comes until the connection ends."""
        data = b""
        with contextlib.suppress(OSError):
            while more := one.recv(65536):
                data += more
        return data

    def run_for(self, seconds, step):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step()

    def test_slow_senders_are_dropped(self):
        slow = [self.connect() for _ in range(100)]
        for one in slow:
            one.sendall(b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n")

        def drip():
            for one in slow:
                try:
                    one.sendall(b"X-Slow: yes\r\n")
                except OSError:
                    pass
            time.sleep(0.3)
        self.run_for(4, drip)
        wait_until(lambda: self.service.metric("dropped_slow_total") >= 100)
        bodies = [self.connect() for _ in range(50)]
        for one in bodies:
            one.sendall(b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        wait_until(lambda: self.service.metric("dropped_slow_total") >= 150)
        self.assertEqual(self.service.get("/v2/locks/x").status, 404)

    def test_slow_readers_are_dropped(self):
        for i in range(300):
            self.service.post(f"/v2/locks/n{i:03}/acquire", {"data": "x" * 3000})
        readers = []
        for _ in range(20):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", self.service.port))
            one.sendall(b"GET /v2/locks?limit=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 40)
            self.sockets.append(one)
            readers.append(one)
        wait_until(lambda: self.service.metric("dropped_slow_total") >= 20)

    def test_garbage_and_oversized_requests(self):
        chance = random.Random(7)

        def throw():
            one = self.connect()
            kind = chance.randrange(6)
            data = [bytes(chance.randrange(256) for _ in range(chance.randrange(1, 2000))),
                    b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
                    b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
                    b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
                    b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\n",
                    ][kind]
            try:
                one.sendall(data)
                one.settimeout(0.05)
                one.recv(1000)
            except OSError:
                pass
            one.close()
            self.sockets.remove(one)
        self.run_for(4, throw)

    def test_endless_bodies_without_a_length(self):
        one = self.connect()
        one.sendall(b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(17):
            one.sendall(chunk)
        answer = self.read(one)  # before the body has ended
        self.assertIn(b"HTTP/1.1 413 ", answer)
        self.assertIn(b'"error":"too-large"', answer)

    def test_bodies_that_are_too_large_are_refused_at_their_header(self):
        for size in [1048577, 16777216]:
            many = [self.connect() for _ in range(40)]
            for one in many:
                one.sendall(b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size)
            for one in many:
                self.assertIn(b"HTTP/1.1 413 ", self.read(one))

    def test_bodies_of_one_address_have_a_budget(self):
        """And those who call from elsewhere do not notice."""
        body = b" " * (1048576 - 1)
        answers = []

        def send():
            one = self.connect("127.0.0.2")
            with contextlib.suppress(OSError):
                one.sendall(b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                            b"Content-Type: application/json\r\nContent-Length: 1048576\r\n\r\n" + body)
            answers.append(self.read(one))
        threads = [threading.Thread(target=send) for _ in range(80)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        refused = [answer for answer in answers if answer]
        self.assertGreater(len(refused), 10)
        for answer in refused:
            self.assertIn(b"HTTP/1.1 503 ", answer)
            self.assertIn(b"Retry-After: 1\r\n", answer)

    def test_pipelined_requests_are_answered_in_order(self):
        one = self.connect()
        one.sendall(GOOD * 200 + b"GET /v2/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        data = b""
        while True:
            more = one.recv(65536)
            if not more:
                break
            data += more
        self.assertEqual(data.count(b"HTTP/1.1 200"), 200)
        self.assertGreater(data.rindex(b"HTTP/1.1 404"), data.rindex(b"HTTP/1.1 200"))

    def test_half_closed_connections_get_their_answer(self):
        for _ in range(50):
            one = self.connect()
            one.sendall(GOOD)
            one.shutdown(socket.SHUT_WR)
            self.assertIn(b"200", one.recv(1000))

    def test_too_many_connections_do_not_shut_out_who_is_inside(self):
        inside = self.service.connect()
        self.assertEqual(self.service.get("/healthz", connection=inside).status, 200)
        many = []
        for _ in range(500):
            one = socket.create_connection(("127.0.0.1", self.service.port), timeout=20)
            many.append(one)
        self.assertEqual(self.service.get("/healthz", connection=inside).status, 200)
        for one in many:
            one.close()

    def test_waiters_that_come_and_go(self):
        grant = self.service.post("/v2/locks/held/acquire", {"lease_ms": 60000})["grant"]

        def come_and_go():
            waiting = [parked(self.service.port, "/v2/locks/held/acquire", {"wait_ms": 60000}) for _ in range(50)]
            for one in waiting:
                one.close()
        self.run_for(3, come_and_go)
        wait_until(lambda: self.service.metric("waiters") <= 1)
        answer = self.service.post("/v2/locks/held/release", {"grant": grant})
        self.assertEqual(answer.status, 200)
        wait_until(lambda: not self.service.get("/v2/locks/held")["held"], what="a free lock")


class Stopping(ServiceTest):
    """Whoever is late, or comes at the last moment, does not keep the service from ending well."""

    def test_callers_that_do_not_read_are_not_waited_for(self):
        service = self.start("--drain", "1s")
        one = socket.socket()
        self.addCleanup(one.close)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", service.port))
        one.sendall(b"GET /openapi.yaml HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)
        time.sleep(0.3)
        self.assertEqual(service.stop(), 0, service.errors()[-2000:])

    def test_requests_that_come_in_while_it_ends(self):
        """They are answered or refused; nothing of them is left with the store when it closes."""
        body = (b'{"TableName":"locks","Item":{"key":{"S":"x"}}}')
        call = (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\n"
                b"X-Amz-Target: DynamoDB_20120810.PutItem\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        chunk = (b"POST /v2/locks/y/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                 + b"1\r\n \r\n" * 2000)
        for _ in range(6):
            service = self.start()
            idle = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(100)]
            for one in idle[:4]:
                one.sendall(chunk)  # unfinished
            threading.Timer(0.03, service.process.terminate).start()
            for one in idle[4:]:
                with contextlib.suppress(OSError):
                    one.sendall(call)
                time.sleep(0.0006)
            self.assertEqual(service.process.wait(timeout=60), 0, service.errors()[-3000:])
            for one in idle:
                one.close()

    def test_what_is_refused_early_does_not_tell_secrets(self):
        service = self.start()
        for request in [b"Content-Length: 9999999\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"]:
            with socket.create_connection(("127.0.0.1", service.port), timeout=20) as one:
                one.sendall(b"POST /v2/sessions/5ec3e7/renew HTTP/1.1\r\nHost: 127.0.0.1\r\n" + request)
                self.assertRegex(one.recv(1000), rb"HTTP/1.1 4(00|13) ")
        wait_until(lambda: len(service.lines()) >= 2, what="the log")
        self.assertNotIn("5ec3e7", service.errors())


class Unread(ServiceTest):
    def test_a_log_that_nobody_reads_holds_nobody_up(self):
        self.create_table()
        reader, writer = os.pipe()
        service = subprocess.Popen([harness.HOLDFAST, "--store", self.store, "serve", "--listen", "127.0.0.1:0"],
                                   stdout=subprocess.PIPE, stderr=writer, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(service.kill)
        os.close(writer)
        port = int(service.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

        def get(path):
            connection.request("GET", path)
            return connection.getresponse().read().decode()

        def dropped():
            return int(re.search(r"^holdfast_log_lines_dropped_total (\d+)$", get("/metrics"), re.M).group(1))
        for _ in range(2500):
            get("/v2/locks/" + "n" * 1000)
        self.assertGreater(dropped(), 100)
        with open(reader, "rb", buffering=0) as log:
            service.terminate()
            lines = b"".join(iter(lambda: log.read(65536), b""))
        self.assertEqual(service.wait(timeout=harness.ENOUGH), 0)
        self.assertIn(b"log lines were dropped", lines)
        service.stdout.close()


if __name__ == "__main__":
    harness.main()
