#!/usr/bin/env python3
"""The line protocol of `run`, by the service's v1: a service of its own, on the table that is given.

    service.py HOLDFAST lockservice ENDPOINT TABLE OWNER LEASE_MS
"""
import contextlib
import ctypes
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

HOLDFAST, _, ENDPOINT, TABLE, OWNER, LEASE_MS = sys.argv[1:7]
LEASE = int(LEASE_MS) // 1000


def die_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Service:
    def __init__(self):
        env = {**os.environ, "LOCKER_DYNAMODB_TABLENAME": TABLE, "LOCKER_DYNAMODB_REGION": "us-east-1",
               "LOCKER_DYNAMODB_ENDPOINT": ENDPOINT, "LOCKER_DYNAMODB_ACCESSKEYID": "test",
               "LOCKER_DYNAMODB_SECRETACCESSKEY": "test", "AUTHENTICATION_DISABLED": "true"}
        self.process = subprocess.Popen([HOLDFAST, "-q", "serve", "--listen", "127.0.0.1:0"], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_us)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline()).group(1))

    def post(self, name, verb, body):
        space, lock = name.split(":", 1)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", f"/v1/{space}/lock/{lock}/{verb}", json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status


class Locks:
    def __init__(self):
        self.service = Service()
        self.held = {}
        self.mutex = threading.Lock()
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self):
        """A second more every second: what renewing means to v1."""
        while True:
            time.sleep(1)
            with self.mutex:
                held = dict(self.held)
            for name, instance in held.items():
                self.service.post(name, "renew", {"instanceId": instance, "leaseDuration": 1})

    def acquire(self, name, ms):
        instance, end = uuid.uuid4().hex, time.monotonic() + ms / 1000
        while True:
            status = self.service.post(name, "acquire", {"instanceId": instance, "leaseDuration": LEASE})
            if status == 200:
                with self.mutex:
                    self.held[name] = instance
                return "ok 0"
            if status != 423:
                return f"error {status}"
            if time.monotonic() >= end:
                return "held"
            time.sleep(0.05)

    def release(self, name):
        with self.mutex:
            instance = self.held.pop(name, None)
        status = self.service.post(name, "release", {"instanceId": instance})
        return {200: "ok", 423: "lost"}.get(status, f"error {status}")

    def count(self, name, file, ms):
        total, end = 0, time.monotonic() + ms / 1000
        while time.monotonic() < end:
            if self.acquire(name, 200) != "ok 0":
                continue
            with open(file) as old:
                number = int(old.read() or 0)
            with open(file, "w") as new:
                new.write(str(number + 1))
            total += 1
            self.release(name)
        return f"ok {total}"


def main():
    locks = Locks()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        if words[0] == "acquire":
            answer = locks.acquire(words[1], int(words[2]))
        elif words[0] == "release":
            answer = locks.release(words[1])
        elif words[0] == "count":
            answer = locks.count(words[1], words[2], int(words[3]))
        else:
            answer = "error there is no such thing"
        print(answer, flush=True)
    locks.service.process.terminate()


main()
