#!/usr/bin/env python3
"""Three services on one file behind a balancer: any of them serves any call of a store's client, whatever ends them."""
import os
import random
import signal
import socket
import socketserver
import subprocess
import threading
import time

import harness
from harness import ENOUGH, HOLDFAST, ServiceTest

WORKERS = 6
SECONDS = float(os.environ.get("HOLDFAST_FLEET_SECONDS", 20))

# Reads, dwells and writes: two at a time would lose an increment.
JOB = """
value=$(cat {path}/value)
sleep 0.0$((RANDOM % 3))1
echo $((value + 1)) >{path}/value
echo x >>{path}/done
"""


class Balancer(socketserver.ThreadingTCPServer):
    """One connection after the other, to the next service that takes it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self):
        self.backends, self.turn = [], 0
        super().__init__(("127.0.0.1", 0), Pipe)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def connect(self):
        for _ in range(len(self.backends)):
            self.turn += 1
            try:
                return socket.create_connection(("127.0.0.1", self.backends[self.turn % len(self.backends)]), timeout=1)
            except OSError:
                pass
        return None


class Pipe(socketserver.BaseRequestHandler):
    def handle(self):
        other = self.server.connect()
        if not other:
            return
        other.settimeout(None)
        threading.Thread(target=self.pass_on, args=(other, self.request), daemon=True).start()
        self.pass_on(self.request, other)

    @staticmethod
    def pass_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in [source, target]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Fleet(ServiceTest):
    def setUp(self):
        super().setUp()
        self.balancer = Balancer()
        self.addCleanup(self.balancer.server_close)
        self.addCleanup(self.balancer.shutdown)
        self.services = [self.start() for _ in range(3)]
        self.balancer.backends = [service.port for service in self.services]
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XDG_"))}
        self.env.update(HOME=self.path, HOLDFAST_STORE=f"http://127.0.0.1:{self.balancer.port}", HOLDFAST_LEASE="3s")

    def read(self, name):
        with open(os.path.join(self.path, name)) as file:
            return file.read()

    def work(self):
        """Runs the job over and over; what was lost or not acquired is tried again."""
        codes = {}
        while not self.over.is_set():
            done = subprocess.run([HOLDFAST, "-q", "run", "-w", "20s", "counter", "--", "bash", "-c",
                                   JOB.format(path=self.path)], env=self.env, capture_output=True, text=True,
                                  timeout=ENOUGH * 2)
            codes[done.returncode] = codes.get(done.returncode, 0) + 1
            if done.returncode not in (0, 1, 69, 75, 143):
                self.strange.append(done)
        self.codes.append(codes)

    def torment(self, dice):
        """One of them is killed, stopped for longer than a lease, or drained; another one takes its place."""
        index = dice.randrange(3)
        service = self.services[index]
        how = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
        service.process.send_signal(how)
        if how == signal.SIGSTOP:
            time.sleep(3.5)
            service.process.send_signal(signal.SIGCONT)
            return
        service.process.wait(timeout=ENOUGH)
        if how == signal.SIGTERM:
            self.assertEqual(service.process.returncode, 0)
        self.services[index] = self.start(listen=f"127.0.0.1:{service.port}")

    def test_no_increment_is_lost(self):
        with open(os.path.join(self.path, "value"), "w") as file:
            file.write("0\n")
        self.over, self.strange, self.codes = threading.Event(), [], []
        dice = random.Random(7)
        workers = [threading.Thread(target=self.work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.2, 1.5))
            self.torment(dice)
        self.over.set()
        for worker in workers:
            worker.join(timeout=ENOUGH * 2)
        self.assertEqual(self.strange, [])
        increments = self.read("done").count("x")
        self.assertEqual(int(self.read("value")), increments, self.codes)
        self.assertGreater(increments, 20, self.codes)

    def test_a_lock_is_kept_and_handed_over_by_whichever_is_there(self):
        holder = subprocess.Popen([HOLDFAST, "run", "job", "--", "sh", "-c", "echo in; sleep 6; echo out"], text=True,
                                  env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), "in\n")
        for index in range(3):  # all in turn
            port = self.services[index].port
            self.services[index].process.send_signal(signal.SIGTERM)
            self.assertEqual(self.services[index].process.wait(timeout=ENOUGH), 0)
            self.services[index] = self.start(listen=f"127.0.0.1:{port}")
        waiter = subprocess.Popen([HOLDFAST, "run", "job", "echo", "next"], env=self.env, stdout=subprocess.PIPE, text=True)
        self.assertEqual(holder.communicate(timeout=ENOUGH)[0], "out\n")
        self.assertEqual(holder.returncode, 0)
        self.assertEqual(waiter.communicate(timeout=ENOUGH)[0], "next\n")





if __name__ == "__main__":
    harness.main()
