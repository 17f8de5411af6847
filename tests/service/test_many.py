"""Thousands who wait, each on a connection of its own."""
import json
import os
import resource
import selectors
import socket
import time
import unittest

import harness
from harness import ServiceTest, wait_until

MANY = int(os.environ.get("HOLDFAST_MANY", "5000"))


def resident(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Many(ServiceTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MANY * 2 + 200
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"only {hard} files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        self.create_table()
        self.service = self.start("-q", "--max-connections", str(MANY * 2 + 100), "--max-waiters", str(MANY + 100))
        self.sockets = []
        self.addCleanup(lambda: [one.close() for one in self.sockets])

    def park(self, name_of):
        body = json.dumps({"wait_ms": 600000}).encode()
        for i in range(MANY):
            one = socket.create_connection(("127.0.0.1", self.service.port), timeout=60)
            self.sockets.append(one)
            one.sendall(f"POST /v2/locks/{name_of(i)}/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: self.service.metric("waiters") == MANY, what="all of them waiting")

    def test_all_leave_when_their_clients_hang_up(self):
        self.service.post("/v2/locks/job/acquire", {"lease_ms": 600000})
        before = resident(self.service.process)
        self.park(lambda i: "job")
        print(f"{MANY} waiters: {(resident(self.service.process) - before) / MANY / 1024:.1f} KiB each")
        for one in self.sockets:
            one.close()
        began = time.monotonic()
        wait_until(lambda: self.service.metric("waiters") == 0, what="an empty queue")
        print(f"all left in {time.monotonic() - began:.2f} s")
        self.assertEqual(self.service.metric("given_back_total"), 0)

    def test_all_are_woken_each_by_its_own_lock(self):
        grants = []
        connection = self.service.connect()
        for i in range(MANY):
            answer = self.service.post(f"/v2/locks/job-{i}/acquire", {"lease_ms": 600000}, connection=connection)
            grants.append(answer["grant"])
        self.park(lambda i: f"job-{i}")
        selector = selectors.DefaultSelector()
        for one in self.sockets:
            one.setblocking(False)
            selector.register(one, selectors.EVENT_READ)
        # Released all at once: pipelined on a few connections, so that the wait is not for us.
        began = time.monotonic()
        senders = [socket.create_connection(("127.0.0.1", self.service.port), timeout=120) for _ in range(16)]
        self.sockets += senders
        for at, sender in enumerate(senders):
            request = []
            for i in range(at, MANY, len(senders)):
                body = json.dumps({"grant": grants[i]})
                request.append(f"POST /v2/locks/job-{i}/release HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            sender.sendall("".join(request).encode())
        woken, end = 0, time.monotonic() + 120
        while woken < MANY and time.monotonic() < end:
            for key, _ in selector.select(timeout=5):
                data = key.fileobj.recv(65536)
                self.assertTrue(data.startswith(b"HTTP/1.1 200"), data[:200])
                selector.unregister(key.fileobj)
                woken += 1
        took = time.monotonic() - began
        selector.close()
        self.assertEqual(woken, MANY)
        print(f"{MANY} waiters on {MANY} locks released and woken in {took:.2f} s")


if __name__ == "__main__":
    harness.main()
