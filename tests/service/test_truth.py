"""What a caller was told is so: no two hold a lock at a time, whichever services and commands they go through.

A caller may believe in its lock for left_ms from the moment before it asked. Each row is a bug that once broke
this, or hid it. A and B are two services on one store.
"""
import base64
import concurrent.futures
import contextlib
import email.utils
import fcntl
import functools
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
import uuid

import harness
from harness import DYNAMODB, HOLDFAST, Listener, ServiceTest, parked, read_answer, wait_until

BRIEF_SKEW = ("--skew", "100ms")
FORMATS = {
    "holdfast": (),
    "awslabs": (),
    "dynamolock": (),
    "dlock": BRIEF_SKEW,
    "lockservice": BRIEF_SKEW,
    "single-table": BRIEF_SKEW,
    "fail-open": (),
}
ALICE, BOB = ({"Authorization": f"Bearer {name}-0123456789abcdef"} for name in ["alice", "bob"])


class Holder:
    """One caller, its grant, and until when it was told that it holds the lock."""

    def __init__(self, lock, headers=None):
        self.lock = lock
        self.headers = headers
        self.grant = None
        self.until = 0

    def ask(self, service, verb, **body):
        began = time.monotonic()
        answer = service.post(f"/v2/locks/{self.lock}/{verb}", body, headers=self.headers)
        if answer.status == 200 and verb != "release":
            self.until = max(self.until, began + answer["left_ms"] / 1000)
            self.grant = self.grant or answer["grant"]
        return answer

    def acquire(self, service, **body):
        return self.ask(service, "acquire", **body)

    def renew(self, service, **body):
        return self.ask(service, "renew", **{"grant": self.grant, **body})

    def release(self, service):
        return self.ask(service, "release", grant=self.grant)


class Taker:
    """Another caller: it tries to acquire the lock until it gets it."""

    def __init__(self, service, lock, seconds=20):
        self.holder = Holder(lock)
        self.granted = None
        self.end = time.monotonic() + seconds
        self.thread = threading.Thread(target=self.run, args=(service,), daemon=True)
        self.thread.start()

    def run(self, service):
        with contextlib.suppress(OSError, harness.http.client.HTTPException):
            while time.monotonic() < self.end:
                if self.holder.acquire(service, lease_ms=10000).status == 200:
                    self.granted = time.monotonic()
                    return
                time.sleep(0.05)

    def join(self, timeout=harness.ENOUGH):
        self.thread.join(timeout)
        return self.granted


class Case:
    """Services on one store of one format."""

    def __init__(self, test, name, options, count, arguments):
        self.test = test
        self.name = name
        self.lock = "team:job"
        self.options = ("--format", name, *options)
        test.create_table(*self.options)
        self.store = test.store
        with open(f"{test.path}/tokens", "w", encoding="ascii") as file:
            file.write("alice-0123456789abcdef alice\nbob-0123456789abcdef bob\n")
        self.arguments = [*self.options, *(argument.format(path=test.path) for argument in arguments)]
        self.services = [self.start() for _ in range(count)]
        self.a, self.b = (self.services * 2)[:2]

    def start(self, **more):
        return self.test.start(*self.arguments, **{"store": self.store, **more})

    def start_slow(self, **seconds):
        """One more service on the same table, to which these calls of the DynamoDB API take so long."""
        return self.start_behind(Slow(self.test, self.dynamo_place()[1], seconds))

    def start_behind(self, slow):
        table, _ = self.dynamo_place()
        return self.start(store=f"dynamodb://{table}?region=us-east-1&endpoint=http://127.0.0.1:{slow.port}",
                          env={"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})

    def command(self, *words):
        return subprocess.run([HOLDFAST, "--store", self.store, *self.options, *words], capture_output=True, text=True,
                              timeout=harness.ENOUGH, env=self.a.env)

    def holder(self, service=None, lock=None, headers=None, **body):
        """One that has acquired the lock at A."""
        holder = Holder(lock or self.lock, headers)
        answer = holder.acquire(service or self.a, **body)
        self.equal(answer.status, 200, answer)
        return holder

    def equal(self, *both_and_why):
        self.test.assertEqual(*both_and_why)

    def check_taker(self, taker, *holders):
        """Another has got the lock, and not before all that were told that they hold it had stopped believing so."""
        granted = taker.join()
        self.test.assertIsNotNone(granted, "nobody ever gets the lock")
        early = max(holder.until for holder in holders) - granted
        self.test.assertLessEqual(early, 0, f"another holds the lock {early:.2f} s before the first was told to stop")

    def check_held(self, service, lock=None, seconds=3):
        """Nobody else gets it for so long."""
        began = time.monotonic()
        granted = Taker(service, lock or self.lock, seconds).join()
        if granted:
            self.test.fail(f"another has got the lock that is held, after {granted - began:.2f} s")

    def dynamo_place(self):
        """The table, and the port at which it is to be had by the DynamoDB API: A's, or DynamoDB Local's."""
        if not DYNAMODB:
            return "locks", self.a.port
        table, port = re.match(r"dynamodb://([^?]*).*:(\d+)", self.store).groups()
        return table, int(port)

    def dynamo(self, target, **body):
        table, port = self.dynamo_place()
        status, _, text = call_dynamo(port, {**DYNAMO_HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{target}"},
                                      json.dumps({"TableName": table, **body}))
        self.equal(status, 200, text)
        return json.loads(text)


DYNAMO_HEADERS = {  # DynamoDB Local believes every signature
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, "
                     "Signature=0",
}


def call_dynamo(port, headers, body):
    connection = harness.http.client.HTTPConnection("127.0.0.1", port, timeout=harness.ENOUGH)
    try:
        connection.request("POST", "/", body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


class Slow:
    """Stands between a service and a table: calls that are named take a moment, in which others come first.

    While `cut` is a function, the answer to a write is not delivered: it is called instead, and the connection closed.
    """

    def __init__(self, test, port, seconds=()):
        outer, seconds = self, dict(seconds)
        self.cut = None
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                target = self.headers["X-Amz-Target"].partition(".")[2]
                outer.seen.append(target)
                time.sleep(seconds.get(target, 0))
                status, headers, text = call_dynamo(port, dict(self.headers), body)
                if outer.cut and target in ("UpdateItem", "DeleteItem"):
                    cut, outer.cut = outer.cut, None
                    cut()
                    self.close_connection = True
                    return
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "content-length", "keep-alive", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                with contextlib.suppress(OSError):  # who asked may have given up
                    self.end_headers()
                    self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


def cases(*names, count=2, arguments=(), **options):
    """Runs a test for each of these formats, side by side, each on a store and services of its own."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            opened = []
            for name in names or FORMATS:
                ServiceTest.setUp(self)
                more = options.get(name.replace("-", "_"), ())
                opened.append(Case(self, name, (*FORMATS[name], *more), count, arguments))
            with concurrent.futures.ThreadPoolExecutor(len(opened)) as pool:
                futures = [pool.submit(test, self, case) for case in opened]
            for case, future in zip(opened, futures):
                with self.subTest(format=case.name):
                    future.result()
        return run
    return decorate


def sleep_until(moment):
    time.sleep(max(0, moment - time.monotonic()))


class Renewals(ServiceTest):
    @cases()
    def test_row_01_a_renewal_that_is_confirmed_is_in_the_record(self, case):
        began = time.monotonic()
        first = case.holder(lease_ms=3000)
        case.equal(first.renew(case.b, lease_ms=3000).status, 200)
        taker = Taker(case.b, case.lock)
        sleep_until(began + 2)
        answer = first.renew(case.a, lease_ms=3000)
        case.check_taker(taker, first)
        case.equal(answer.status, 200, answer)

    @cases("holdfast", "awslabs", "lockservice", "single-table", "fail-open", count=3)
    def test_row_01_of_renewals_that_race_each_is_in_the_record(self, case):
        locks = [f"{case.lock}-{i}" for i in range(10)]
        holders = [case.holder(lock=lock, lease_ms=2000) for lock in locks]
        both = threading.Barrier(2)

        def renew(service, lease_ms):
            for holder in holders:
                both.wait(timeout=harness.ENOUGH)
                holder.renew(service, lease_ms=lease_ms)

        threads = [threading.Thread(target=renew, args=pair) for pair in [(case.b, 2000), (case.services[2], 6000)]]
        for thread in threads:
            thread.start()
        takers = [Taker(case.b, lock) for lock in locks]
        for waited in threads + takers:
            waited.join(timeout=harness.ENOUGH)
        for taker, holder in zip(takers, holders):
            case.check_taker(taker, holder)

    @cases()
    def test_row_03_a_lease_does_not_shrink_by_a_renewal_at_another_service(self, case):
        first = case.holder(lease_ms=60000)
        answer = first.renew(case.b, lease_ms=500)
        case.check_held(case.b)
        case.equal((answer.status, answer["left_ms"] > 50000), (200, True), answer)

    @cases()
    def test_row_03_a_lease_does_not_shrink_by_a_renewal_of_the_command(self, case):
        first = case.holder(lease_ms=60000)
        done = case.command("-o", "json", "renew", "--lease", "500ms", f"{case.lock}#{first.grant}")
        case.equal(done.returncode, 0, done.stderr)
        case.check_held(case.b)
        self.assertGreater(json.loads(done.stdout)["left_ms"], 50000)

    @cases()
    def test_row_03_a_lease_does_not_shrink_by_a_grant_in_upper_case(self, case):
        first = case.holder(lease_ms=60000)
        answer = first.renew(case.a, grant=first.grant.upper(), lease_ms=500)
        case.check_held(case.b)
        case.check_held(case.a, seconds=0.2)
        if answer.status == 200:
            self.assertGreater(answer["left_ms"], 50000)

    @cases("awslabs", "fail-open", awslabs=("--keep-on-release",))
    def test_row_08_what_was_released_elsewhere_is_not_renewed(self, case):
        first = case.holder(lease_ms=60000)
        case.equal(first.release(case.b).status, 200)
        answer = first.renew(case.a)
        case.equal((answer.status, answer.json.get("error")), (409, "lost"), answer)
        wait_until(lambda: Holder(case.lock).acquire(case.b).status == 200, 10, "another's acquire")
        case.equal(first.renew(case.a).status, 409)

    @cases("fail-open")
    def test_row_09_a_readers_longer_lease_is_in_the_record(self, case):
        first = case.holder(mode="shared", lease_ms=2000)
        writer = Taker(case.b, case.lock)
        lease_ms = 2000
        for _ in range(60):
            lease_ms += lease_ms // 100
            first.renew(case.a, lease_ms=lease_ms)
        case.check_taker(writer, first)

    @cases("dlock", "single-table")
    def test_row_11_after_a_restart_a_renewal_needs_no_lease(self, case):
        first = case.holder(lease_ms=60000)
        case.a.stop()
        answer = first.renew(case.start())
        case.equal(answer.status, 200, answer)
        self.assertGreater(first.until, time.monotonic())

    @cases()
    def test_row_20_a_grant_is_renewed_wherever_it_was_renewed_before(self, case):
        first = case.holder(lease_ms=3000)
        answers = [first.renew(service, lease_ms=3000) for service in [case.b, case.b, case.a, case.b, case.a]]
        case.equal([answer.status for answer in answers], [200] * 5, answers)

    @cases()
    def test_row_20_lost_is_final(self, case):
        first = case.holder(lease_ms=3000)
        statuses = [first.renew(service, lease_ms=3000).status for service in [case.b, case.b] + [case.a] * 4]
        lost = statuses.index(409) if 409 in statuses else len(statuses)
        self.assertNotIn(200, statuses[lost:], f"a grant that was lost is renewed: {statuses}")

    @cases()
    def test_row_20_a_grant_that_is_renewed_elsewhere_is_not_told_to_be_lost(self, case):
        listener = Listener(case.a)
        self.addCleanup(listener.close)
        first = case.holder(lease_ms=1500)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            answer = first.renew(case.b, lease_ms=1500)
            case.equal(answer.status, 200, answer)
            time.sleep(0.5)
        case.equal([event for event in listener.events if event["type"] == "lost"], [])


class Ends(ServiceTest):
    @cases()
    def test_row_02_a_repeated_call_does_not_get_what_was_released_elsewhere(self, case):
        first = case.holder(lease_ms=60000, idempotency_key="k")
        case.equal(first.release(case.b).status, 200)
        other = case.holder(case.b, lease_ms=60000)
        again = Holder(case.lock).acquire(case.a, lease_ms=60000, idempotency_key="k")
        self.assertNotEqual((again.status, again.json.get("grant")), (200, first.grant), again)
        self.assertNotEqual(again.status, 200, f"another holds it: {again}")
        case.equal(other.renew(case.b).status, 200)

    @cases("holdfast", "awslabs", "dlock", "lockservice", "single-table", count=1)
    def test_row_04_a_process_that_was_stopped_does_not_release_what_another_renews(self, case):
        """Nobody reads what it prints, so it stands between acquiring and its end; a page of the pipe is the grant."""
        lock, full = '"' * 900, b""
        if case.name == "lockservice":  # whose names are short, and whose records have the grant
            lock, full = case.lock, b"." * 4096
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.write(write, full)
        began = time.monotonic()
        process = subprocess.Popen([HOLDFAST, "--store", case.store, *case.options, "--owner", '"' * 500, "-o", "json",
                                    "acquire", "-n", "--lease", "2s", lock], stdout=write, env=case.a.env)
        os.close(write)
        watchdog = threading.Timer(harness.ENOUGH, process.kill)  # which ends every read
        watchdog.start()
        try:
            printed = b""
            if full:
                def item():
                    found = case.dynamo("GetItem", Key={"lockId": {"S": lock}}, ConsistentRead=True).get("Item")
                    return found and found["instanceId"]["S"]
                wait_until(item, 20, "the record")
                grant = f"{lock}#{item()}"
            else:
                while not (found := re.search(rb"#[0-9a-f]{32}", printed)):
                    some = os.read(read, 16)  # the page stays, and so it cannot print the rest
                    self.assertTrue(some, f"no grant: {printed}")
                    printed += some
                grant = lock + found.group(0).decode()
            process.send_signal(signal.SIGSTOP)
            done = case.command("renew", "--lease", "30s", grant)
            case.equal(done.returncode, 0, done.stderr)
            sleep_until(began + 3)
            process.send_signal(signal.SIGCONT)
            time.sleep(1)
            self.check_still_held(case, lock, "the process that was stopped has released it")
        finally:
            process.send_signal(signal.SIGCONT)
            while os.read(read, 65536):
                pass
            os.close(read)
            process.wait(timeout=harness.ENOUGH)
            watchdog.cancel()
        self.check_still_held(case, lock, "the process has released it at its end")

    def check_still_held(self, case, lock, why):
        self.assertEqual(case.command("get", "-q", lock).returncode, 0, why)
        self.assertEqual(case.command("acquire", "-n", lock).returncode, 1, why)

    @cases()
    def test_row_21_a_release_whose_answer_is_lost_is_a_release(self, case):
        """Also if another has the lock by the time it is sent again."""
        case.holder(lock=f"{case.lock}-2")  # which makes the table
        slow = Slow(case.test, case.dynamo_place()[1])
        behind = case.start_behind(slow)
        first = case.holder(behind, lease_ms=60000)
        slow.cut = lambda: case.equal(Holder(case.lock).acquire(case.b, lease_ms=60000).status, 200)
        answer = first.release(behind)
        self.assertIsNone(slow.cut, "no answer was lost")
        case.equal((answer.status, answer.json.get("released")), (200, True), answer)

    @cases("lockservice")
    def test_row_21_a_release_through_v1_whose_answer_is_lost_is_a_release(self, case):
        slow = Slow(case.test, case.dynamo_place()[1])
        behind = case.start_behind(slow)
        path = "/v1/team/lock/job"
        body = {"instanceId": "first", "leaseDuration": 60}
        case.equal(behind.post(f"{path}/acquire", body).status, 200)
        slow.cut = lambda: case.equal(case.b.post(f"{path}/acquire", {**body, "instanceId": "second"}).status, 200)
        answer = behind.post(f"{path}/release", {"instanceId": "first"})
        self.assertIsNone(slow.cut, "no answer was lost")
        case.equal((answer.status, answer["success"]), (200, True), answer)

    @cases("lockservice", count=1)
    def test_row_18_after_a_while_v1_asks_for_the_time_again(self, case):
        """What is known of the store's time gets less exact with age, and a lease would last longer."""
        def calls():
            return case.a.metric("store_seconds_count")
        case.equal(case.a.post("/v1/team/lock/job/acquire", {"instanceId": "one", "leaseDuration": 1}).status, 200)
        time.sleep(11)
        before = calls()
        case.equal(case.a.post("/v1/team/lock/job/acquire", {"instanceId": "one", "leaseDuration": 1}).status, 200)
        case.equal(calls() - before, 2, "a read, and the write")

    @cases()
    def test_row_13_what_was_renewed_elsewhere_is_released_here(self, case):
        first = case.holder(lease_ms=60000)
        for _ in range(2):
            case.equal(first.renew(case.b, lease_ms=60000).status, 200)
        answer = first.release(case.a)
        case.equal(answer.status, 200, answer)
        wait_until(lambda: Holder(case.lock).acquire(case.b).status == 200, 5, "an acquire after the release")

    def check_waiter(self, case, end):
        first = case.holder(lease_ms=60000)
        waiting = parked(case.a.port, f"/v2/locks/{case.lock}/acquire", {"wait_ms": 8000})
        wait_until(lambda: case.a.metric("waiters") == 1)
        case.equal(end(first).status, 200)
        status, answer = read_answer(waiting)
        waiting.close()
        case.equal(status, 200, answer)

    @cases()
    def test_row_14_who_waits_here_gets_what_is_released_elsewhere(self, case):
        self.check_waiter(case, lambda first: first.release(case.b))

    @cases()
    def test_row_14_who_waits_here_gets_what_is_forced_elsewhere(self, case):
        self.check_waiter(case, lambda first: case.b.post(f"/v2/locks/{case.lock}/force-release", {"reason": "test"}))

    @cases("fail-open", arguments=("--tokens", "{path}/tokens"))
    def test_row_12_readers_release_their_own_and_nobody_elses(self, case):
        readers = [case.holder(headers=headers, mode="shared", lease_ms=60000) for headers in [ALICE, BOB]]
        for reader, other in [readers, readers[::-1]]:
            answer = case.b.post(f"/v2/locks/{case.lock}/release", {"grant": other.grant}, headers=reader.headers)
            self.assertIn(answer.status, [403, 409], f"a reader has released another's: {answer}")
        for reader in readers:
            answer = reader.release(case.b)
            case.equal(answer.status, 200, answer)
        wait_until(lambda: Holder(case.lock, ALICE).acquire(case.b).status == 200, 5, "a writer's acquire")


class Force(ServiceTest):
    @cases("awslabs", "lockservice", "single-table", "fail-open")
    def test_row_07_one_force_makes_way_for_one(self, case):
        case.holder(lock=f"{case.lock}-2")  # which makes the table
        forcing = case.start_slow(GetItem=0.7)
        case.holder(forcing, lease_ms=60000)
        waiting = [parked(service.port, f"/v2/locks/{case.lock}/acquire", {"wait_ms": 6000, "lease_ms": 20000})
                   for service in case.services * 3]
        for service in case.services:
            wait_until(lambda at=service: at.metric("waiters") == 3, what="six waiters")
        forced = forcing.post(f"/v2/locks/{case.lock}/force-release", {"reason": "test"})
        case.equal(forced.status, 200, forced)
        statuses = sorted(read_answer(connection)[0] for connection in waiting)
        for connection in waiting:
            connection.close()
        case.equal(statuses, [200] + [423] * 5, "of those who waited")
        case.equal(forcing.post(f"/v2/locks/{case.lock}/acquire").status, 423, "the lock of who came in is free")


    @cases("fail-open")
    def test_readers_who_come_later_are_not_forced(self, case):
        case.holder(lock=f"{case.lock}-2")  # which makes the table
        slow = Slow(case.test, case.dynamo_place()[1], {"UpdateItem": 1})
        forcing = case.start_behind(slow)
        first = case.holder(case.b, mode="shared", lease_ms=20000)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            forcing.post(f"/v2/locks/{case.lock}/force-release", {"reason": "test"})))
        thread.start()
        wait_until(lambda: "UpdateItem" in slow.seen, what="its write on the way")
        case.equal(first.release(case.b).status, 200)
        later = case.holder(case.b, mode="shared", lease_ms=20000)
        thread.join(timeout=harness.ENOUGH)
        case.equal(later.renew(case.b).status, 200, answers)

    @cases("fail-open", count=1)
    def test_all_readers_here_hear_of_a_force(self, case):
        listener = Listener(case.a)
        self.addCleanup(listener.close)
        readers = [case.holder(mode="shared", lease_ms=20000) for _ in range(3)]
        case.equal(case.a.post(f"/v2/locks/{case.lock}/force-release", {"reason": "test"}).status, 200)
        for reader in readers:
            case.equal(reader.renew(case.a).status, 409)
        case.equal(case.a.metric("locks_held"), 0)


class Truth(ServiceTest):
    """What is said of an end is what has happened."""

    @cases("holdfast")
    def test_a_late_release_of_what_expired_is_not_a_release(self, case):
        listener = Listener(case.a)
        self.addCleanup(listener.close)
        first = case.holder(lease_ms=500)
        listener.wait_for(type="lost", reason="expired")
        case.holder(case.b, lease_ms=20000)
        for service in case.services:
            answer = first.release(service)
            case.equal((answer.status, answer["error"]), (409, "lost"), answer)
        case.equal([event for event in listener.events if event["type"] == "released"], [])

    @cases("holdfast", "awslabs", arguments=("--lease", "1500ms"))
    def test_what_was_released_elsewhere_is_not_lost(self, case):
        listener = Listener(case.b)
        self.addCleanup(listener.close)
        first = case.holder(lease_ms=1500)
        case.equal(first.renew(case.b).status, 200)
        case.equal(first.release(case.a).status, 200)
        second = case.holder()
        case.equal(second.release(case.a).status, 200)
        case.holder(lease_ms=20000)
        wait_until(lambda: case.b.metric("locks_held") == 0)
        case.equal([event for event in listener.events if event["type"] == "lost"], [])

    @cases("holdfast", count=2, arguments=("--lease", "1s"))
    def test_a_service_without_its_store_says_nothing_of_what_is_renewed_elsewhere(self, case):
        case.holder(lock=f"{case.lock}-2")  # which makes the table
        slow = Slow(case.test, case.dynamo_place()[1])
        behind = case.start_behind(slow)
        listener = Listener(behind)
        self.addCleanup(listener.close)
        first = case.holder(behind, lease_ms=1000)
        slow.server.shutdown()
        for _ in range(10):
            case.equal(first.renew(case.b).status, 200)
            time.sleep(0.4)
        case.equal([event for event in listener.events if event["type"] == "lost"], [])

    @cases("fail-open", "awslabs", count=1)
    def test_a_grant_is_not_to_be_found_in_the_record(self, case):
        first = case.holder(lease_ms=60000)
        item = case.dynamo("GetItem", Key={"key": {"S": case.lock}}, ConsistentRead=True)["Item"]
        shown = item["guid"]["B"] if "guid" in item else item["recordVersionNumber"]["S"].replace("-", "")
        shown = base64.b64decode(shown).hex() if "guid" in item else shown
        for at in range(0, 32, 8):
            self.assertNotIn(first.grant[at:at + 8], shown)


class Words(ServiceTest):
    @cases(arguments=("--look", "300ms"))
    def test_row_10_a_grant_is_shown_to_its_holder_alone(self, case):
        listeners = [Listener(service) for service in case.services]
        for listener in listeners:
            self.addCleanup(listener.close)
        time.sleep(0.7)
        path = f"/v2/locks/{case.lock}"
        first = case.holder(lease_ms=1000)
        taker = Taker(case.b, case.lock)
        self.assertIsNotNone(taker.join(), "nobody gets what has expired")
        texts = {"an acquire at A": case.a.post(f"{path}/acquire"), "an acquire at B": case.b.post(f"{path}/acquire"),
                 "an acquire that waits": case.a.post(f"{path}/acquire", {"wait_ms": 300}),
                 "a renewal of the lost grant": first.renew(case.a),
                 "a renewal of the lost grant at B": first.renew(case.b),
                 "get": case.a.get(path), "list": case.b.get("/v2/locks")}
        for words in [("get", case.lock), ("get", "-o", "json", case.lock), ("list", "--all"), ("list", "--all", "-o", "json"),
                      ("acquire", "-n", case.lock), ("renew", f"{case.lock}#{first.grant}")]:
            done = case.command(*words)
            texts["holdfast " + " ".join(words[:3])] = done.stdout + done.stderr
        time.sleep(0.7)
        texts["events at A"], texts["events at B"] = (json.dumps(listener.events) for listener in listeners)
        texts["log of A"], texts["log of B"] = (service.errors() for service in case.services)
        case.equal("; ".join(where for where, text in texts.items() if taker.holder.grant in repr(text)), "")

    @cases("holdfast", count=1)
    def test_row_19_a_record_that_makes_no_sense_kills_nobody(self, case):
        session, grant = uuid.uuid4().hex, uuid.uuid4().hex
        case.holder(lock="other")  # which makes the table
        case.dynamo("PutItem", Item={"key": {"S": "odd"}, "owner": {"S": "anonymous"}, "token": {"N": "7"},
                                     "version": {"N": "1"}, "lease": {"N": "60000"}, "limit": {"N": "1"},
                                     "holders": {"SS": [f"{session}/{grant}"]}})
        done = case.command("release", f"odd#s{grant}")
        with self.subTest("command"):
            self.assertGreaterEqual(done.returncode, 0, "the command died of a signal")
        for verb in ["renew", "release"]:
            try:
                status = case.a.post(f"/v2/locks/odd/{verb}", {"grant": "s" + grant}).status
            except (OSError, harness.http.client.HTTPException):
                status = f"none; the service ended with {case.a.process.wait(timeout=10)}"
            self.assertIn(status, range(400, 500), verb)


class Sessions(ServiceTest):
    @cases("holdfast", count=1, arguments=("--drain", "1s"))
    def test_row_16_a_semaphore_of_sessions_is_forced(self, case):
        for _ in range(5):  # of fewer it may meet each in its turn by chance
            session = case.a.post("/v2/sessions", {"lease_ms": 60000})["session"]
            case.holder(lock="pool", session=session, limit=5)
        status, answer = self.answer_in_time(case.a, "/v2/locks/pool/force-release", {"reason": "test"})
        case.equal(status, 200, answer)
        shown = case.a.get("/v2/locks/pool")
        self.assertFalse(shown.json.get("held"), shown)

    @cases("holdfast", count=1, arguments=("--drain", "1s"))
    def test_row_17_a_session_that_is_over_before_it_is_stored_is_answered(self, case):
        case.holder()  # which makes the table
        slow = case.start_slow(PutItem=0.3, UpdateItem=0.3)
        status, answer = self.answer_in_time(slow, "/v2/sessions", {"lease_ms": 100})
        self.assertNotEqual((status, answer.get("left_ms")), (200, 0), answer)

    def answer_in_time(self, service, path, body, seconds=20):
        connection = parked(service.port, path, body)
        try:
            return read_answer(connection, seconds)
        except TimeoutError:
            self.fail(f"POST {path} is not answered in {seconds} s")
        finally:
            connection.close()

    @cases("holdfast")
    def test_row_21_who_waits_in_a_session_that_ends_is_told_so(self, case):
        for holds in case.services:
            lock = f"{case.lock}-{holds.port}"
            case.holder(holds, lock=lock, lease_ms=60000)
            session = case.a.post("/v2/sessions", {"lease_ms": 1500})["session"]
            answer = case.a.post(f"/v2/locks/{lock}/acquire", {"wait_ms": 10000, "session": session})
            with self.subTest(held_at="A" if holds is case.a else "B"):
                case.equal((answer.status, answer["error"]), (410, "session-ended"), answer)


@unittest.skipIf(DYNAMODB, "the clock of a file store")
class Clock(ServiceTest):
    """The file's clock is an hour off: it was set when the machine's was wrong."""

    def setUp(self):
        super().setUp()
        self.command("list")

    def begin(self, hours):
        database = sqlite3.connect(f"{self.path}/locks.db")
        with database:
            changed = database.execute("update meta set value = value + ? where name in "
                                       "('clock_offset_us', 'clock_last_us')", (hours * 3600 * 10**6,))
            self.assertEqual(changed.rowcount, 2)
        database.close()
        service = self.start()
        now_ms = service.get("/v2/whoami")["now_unix_ms"]
        self.assertAlmostEqual(now_ms / 1000 - time.time(), hours * 3600, delta=60)
        return service, now_ms / 1000

    def through_dynamodb(self, service, *words):
        store = f"dynamodb://locks?region=us-east-1&endpoint=http://127.0.0.1:{service.port}"
        return subprocess.run([HOLDFAST, "--store", store, *words], capture_output=True, text=True,
                              timeout=harness.ENOUGH,
                              env={**service.env, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})

    def check_date(self, hours):
        service, now = self.begin(hours)
        answer = service.call("POST", "/", raw="{}", headers={"X-Amz-Target": "DynamoDB_20120810.ListTables"})
        self.assertEqual(answer.status, 200, answer)
        date = email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()
        self.assertAlmostEqual(date, now, delta=2, msg="Date of the DynamoDB API, and the engine's time")

    def check_exclusion(self, hours):
        service, _ = self.begin(hours)
        self.assertEqual(service.post("/v2/locks/ours/acquire", {"lease_ms": 60000}).status, 200)
        done = self.through_dynamodb(service, "acquire", "-n", "ours")
        self.assertEqual(done.returncode, 1, f"the service's lock was taken: {done.stdout}{done.stderr}")
        done = self.through_dynamodb(service, "acquire", "-n", "--lease", "60s", "theirs")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = service.post("/v2/locks/theirs/acquire")
        self.assertEqual(answer.status, 423, f"a client's lock was taken: {answer}")

    def test_row_06_the_dynamodb_api_tells_the_time_of_a_clock_that_is_ahead(self):
        self.check_date(1)

    def test_row_06_the_dynamodb_api_tells_the_time_of_a_clock_that_is_behind(self):
        self.check_date(-1)

    def test_row_06_the_service_and_clients_of_its_dynamodb_api_exclude_each_other_ahead(self):
        self.check_exclusion(1)

    def test_row_06_the_service_and_clients_of_its_dynamodb_api_exclude_each_other_behind(self):
        self.check_exclusion(-1)


def run_class(name):
    return subprocess.run([sys.executable, "-W", "ignore", __file__, name], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def main():
    """Each class in a process of its own, several at a time: they mostly wait for leases to end."""
    classes = [name for name, value in globals().items() if isinstance(value, type) and
               issubclass(value, ServiceTest) and value is not ServiceTest]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run_class, classes))
    for result in results:
        print(result.stdout, end="")
    sys.exit(0 if all(result.returncode == 0 for result in results) else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        harness.main()
    main()
