"""Clients that mean harm, or know no better, while a well-behaved one is served."""
import random
import socket
import threading
import time
import unittest

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

    def connect(self):
        one = socket.create_connection(("127.0.0.1", self.service.port), timeout=20)
        self.sockets.append(one)
        return one

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
        try:
            for _ in range(64):
                one.sendall(chunk)
            one.sendall(b"0\r\n\r\n")
            answer = one.recv(1000)
        except OSError:
            answer = b""
        self.assertTrue(answer == b"" or b" 413 " in answer, answer)

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


if __name__ == "__main__":
    harness.main()
