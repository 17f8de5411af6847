#!/usr/bin/env python3
"""Three services on one table: any of them serves any call of v2, whatever ends them."""
import os
import random
import signal
import threading
import time

import harness
from harness import ENOUGH, ServiceTest, wait_until

CALLERS = int(os.environ.get("HOLDFAST_FLEET_CALLERS", 12))
SECONDS = float(os.environ.get("HOLDFAST_FLEET_SECONDS", 15))
# On DynamoDB another service takes a session up only if two seconds and more are left: its hosts' clocks may differ.
LEASE = 10000 if harness.DYNAMODB else 4000


class Any(ServiceTest):
    def setUp(self):
        super().setUp()
        self.create_table()
        self.a, self.b, self.c = self.services = [self.start() for _ in range(3)]

    def restart(self, index, how):
        service = self.services[index]
        service.process.send_signal(how)
        service.process.wait(timeout=ENOUGH)
        if how == signal.SIGTERM:
            self.assertEqual(service.process.returncode, 0, service.errors()[-2000:])
        self.services[index] = self.start(listen=f"127.0.0.1:{service.port}")
        return self.services[index]


class Sessions(Any):
    def open(self, service, lease_ms=LEASE):
        answer = service.post("/v2/sessions", {"lease_ms": lease_ms})
        self.assertEqual(answer.status, 200, answer)
        return answer["session"]

    def test_any_service_renews_uses_and_ends_a_session(self):
        session = self.open(self.a)
        lock = self.b.post("/v2/locks/one/acquire", {"session": session})
        self.assertEqual((lock.status, lock["session"], lock["lease_ms"]), (200, session, LEASE), lock)
        place = self.c.post("/v2/locks/pool/acquire", {"session": session, "limit": 1})
        self.assertEqual((place.status, place["mode"], place["limit"]), (200, "shared", 1), place)
        for service in self.services:
            renewed = service.post(f"/v2/sessions/{session}/renew")
            self.assertEqual((renewed.status, renewed["lease_ms"]), (200, LEASE), renewed)
            self.assertGreater(renewed["left_ms"], LEASE * 0.9)
            shown = service.get(f"/v2/sessions/{session}")
            self.assertEqual((shown.status, shown["session"], shown["owner"]), (200, session, "anonymous"), shown)
        again = self.a.post("/v2/locks/one/renew", {"grant": lock["grant"]})
        self.assertEqual((again.status, again["token"], again["mode"]), (200, lock["token"], "exclusive"), again)
        shared = self.b.post("/v2/locks/pool/renew", {"grant": place["grant"]})
        self.assertEqual((shared.status, shared["mode"], shared["limit"]), (200, "shared", 1), shared)
        self.assertEqual(self.c.post("/v2/locks/one/acquire", {}).status, 423)
        released = self.c.post("/v2/locks/one/release", {"grant": lock["grant"]})
        self.assertEqual(released.status, 200, released)
        self.assertEqual(self.b.post("/v2/locks/one/renew", {"grant": lock["grant"]}).status, 409)
        left = self.a.post("/v2/locks/pool/release", {"grant": place["grant"]})
        self.assertEqual(left.status, 200, left)
        kept = self.a.post("/v2/locks/two/acquire", {"session": session})
        self.assertEqual(kept.status, 200, kept)
        self.assertEqual(self.b.post(f"/v2/sessions/{session}/end").status, 200)
        for service in self.services:
            self.assertEqual(service.get(f"/v2/sessions/{session}").status, 410)
            self.assertEqual(service.post(f"/v2/sessions/{session}/renew").status, 410)
            refused = service.post("/v2/locks/three/acquire", {"session": session})
            self.assertEqual((refused.status, refused["error"]), (410, "session-ended"), refused)
        self.assertEqual(self.c.post("/v2/locks/two/acquire", {}).status, 200, "it was its session's")

    def test_whose_it_is_and_which_instance_is_known_everywhere(self):
        answer = self.a.post("/v2/sessions", {"lease_ms": LEASE, "instance": "pod-7"})
        renewed = self.b.post(f"/v2/sessions/{answer['session']}/renew")
        self.assertEqual((renewed.status, renewed["owner"], renewed["instance"]), (200, "anonymous", "pod-7"), renewed)
        lock = self.c.post("/v2/locks/job/acquire", {"session": answer["session"]})
        self.assertEqual(lock.status, 200, lock)
        self.assertEqual(self.a.get("/v2/locks/job")["instance"], "pod-7")

    def test_a_writer_that_waited_at_a_dead_service_keeps_nobody_out(self):
        readers, writer = self.open(self.b, 20000), self.open(self.a)
        reader = self.b.post("/v2/locks/doc/acquire", {"session": readers, "mode": "shared"})
        self.assertEqual(reader.status, 200, reader)
        waiting = harness.parked(self.a.port, "/v2/locks/doc/acquire", {"session": writer, "wait_ms": 50000})
        wait_until(lambda: self.c.get("/v2/locks/doc").json.get("waiting"), what="its intent")
        self.restart(0, signal.SIGKILL)
        waiting.close()

        def gets_in():
            self.assertEqual(self.c.post(f"/v2/sessions/{writer}/renew").status, 200)
            return self.b.post("/v2/locks/doc/acquire", {"session": readers, "mode": "shared", "wait_ms": 300}).status == 200

        wait_until(gets_in, what="another reader")

    def test_a_service_forgets_what_was_released_elsewhere(self):
        session = self.open(self.a, 20000)
        for i in range(60):
            lock = self.a.post(f"/v2/locks/job-{i % 4}/acquire", {"session": session})
            self.assertEqual(lock.status, 200, lock)
            self.assertEqual(self.b.post(f"/v2/locks/job-{i % 4}/release", {"grant": lock["grant"]}).status, 200)
        self.assertLessEqual(self.a.metric("locks_held"), 4)

        def renewed():
            self.assertEqual(self.a.post(f"/v2/sessions/{session}/renew").status, 200)
            return self.a.metric("locks_held") == 0

        wait_until(renewed, what="that it knows of all releases")

    def test_a_session_that_was_forgotten_here_is_taken_up_again(self):
        lease = 8000 if harness.DYNAMODB else 1500
        session = self.open(self.a, lease)
        self.assertEqual(self.b.post("/v2/locks/kept/acquire", {"session": session}).status, 200)
        end = time.monotonic() + lease / 1000 + 0.5
        while time.monotonic() < end:  # only through A
            self.assertEqual(self.a.post(f"/v2/sessions/{session}/renew").status, 200)
            self.b.get("/metrics")
            time.sleep(0.2)
        self.assertEqual(self.b.metric("locks_held"), 0, "its locks are A's to know now")
        lock = self.b.post("/v2/locks/job/acquire", {"session": session})
        self.assertEqual(lock.status, 200, lock)
        self.assertEqual(self.c.post("/v2/locks/kept/acquire", {}).status, 423)

    def test_the_lease_of_a_session_is_its_own_everywhere(self):
        session = self.open(self.a)
        grant = {"grant": self.a.post("/v2/locks/job/acquire", {"session": session})["grant"]}
        for _ in range(2):
            self.assertEqual(self.b.post("/v2/locks/job/renew", {**grant, "lease_ms": 3600000}).status, 400)
            self.assertEqual(self.b.post("/v2/locks/job/renew", grant)["lease_ms"], LEASE)
        self.assertEqual(self.a.get(f"/v2/sessions/{session}")["lease_ms"], LEASE)

    def test_a_session_outlives_its_service(self):
        for how in [signal.SIGKILL, signal.SIGTERM]:
            session = self.open(self.a, 20000)
            name = f"kept-{how.name}"
            lock = self.a.post(f"/v2/locks/{name}/acquire", {"session": session})
            self.assertEqual(lock.status, 200, lock)
            self.a = self.restart(0, how)
            self.assertEqual(self.a.post(f"/v2/sessions/{session}/renew").status, 200)
            again = self.a.post(f"/v2/locks/{name}/renew", {"grant": lock["grant"]})
            self.assertEqual((again.status, again["token"]), (200, lock["token"]), again)
            self.assertEqual(self.b.post(f"/v2/locks/{name}/acquire", {}).status, 423)
            self.assertEqual(self.a.post(f"/v2/sessions/{session}/end").status, 200)
            self.assertEqual(self.b.post(f"/v2/locks/{name}/acquire", {}).status, 200)

    def test_a_session_that_is_renewed_elsewhere_keeps_its_locks_here(self):
        session = self.open(self.a, 1500 if not harness.DYNAMODB else 8000)
        lock = self.a.post("/v2/locks/job/acquire", {"session": session})
        self.assertEqual(lock.status, 200, lock)
        end = time.monotonic() + (9 if harness.DYNAMODB else 4)
        while time.monotonic() < end:  # for longer than its lease, through another service
            self.assertEqual(self.b.post(f"/v2/sessions/{session}/renew").status, 200)
            time.sleep(0.3)
        self.assertEqual(self.c.post("/v2/locks/job/acquire", {}).status, 423)
        again = self.a.post("/v2/locks/job/renew", {"grant": lock["grant"]})
        self.assertEqual((again.status, again["token"]), (200, lock["token"]), again)
        # Nobody renews it any more.
        wait_until(lambda: self.c.post("/v2/locks/job/acquire", {}).status == 200, what="the lock")
        self.assertEqual(self.a.post(f"/v2/sessions/{session}/renew").status, 410)

    def test_a_session_is_its_owners(self):
        tokens = os.path.join(self.path, "tokens")
        with open(tokens, "w") as file:
            file.write("alice-alice-alice-alice-alice-1 alice\nbobby-bobby-bobby-bobby-bobby-1 bob\n")
        one, two = self.start("--tokens", tokens), self.start("--tokens", tokens)
        alice, bob = ({"Authorization": f"Bearer {name}-{name}-{name}-{name}-{name}-1"} for name in ["alice", "bobby"])
        session = one.post("/v2/sessions", {}, headers=alice)["session"]
        grant = one.post("/v2/locks/hers/acquire", {"session": session, "mode": "shared"}, headers=alice)["grant"]
        self.assertEqual(two.post(f"/v2/sessions/{session}/renew", headers=bob).status, 410)
        self.assertEqual(two.get(f"/v2/sessions/{session}", headers=bob).status, 410)
        self.assertEqual(two.post(f"/v2/sessions/{session}/end", headers=bob).status, 410)
        self.assertEqual(two.post("/v2/locks/x/acquire", {"session": session}, headers=bob).status, 410)
        for call in ["renew", "release"]:
            answer = two.post(f"/v2/locks/hers/{call}", {"grant": grant}, headers=bob)
            self.assertEqual((answer.status, answer["error"]), (409, "lost"), answer)
        self.assertEqual(two.post(f"/v2/sessions/{session}/renew", headers=alice).status, 200)
        self.assertEqual(two.post("/v2/locks/hers/release", {"grant": grant}, headers=alice).status, 200)
        # What others see of it is not what opens it.
        one.post("/v2/locks/seen/acquire", {"session": session}, headers=alice)
        shown = two.get("/v2/locks/seen", headers=alice)["held_by"][0]["session"]
        self.assertNotEqual(shown, session)
        self.assertEqual(two.post(f"/v2/sessions/{shown}/renew", headers=alice).status, 410)


class Limits(ServiceTest):
    def test_sessions_that_were_opened_elsewhere_count(self):
        self.create_table()
        a, b = self.start(), self.start("--max-sessions-per-caller", "2")
        sessions = [a.post("/v2/sessions", {"lease_ms": 20000})["session"] for _ in range(3)]
        statuses = [b.post(f"/v2/sessions/{session}/renew").status for session in sessions]
        self.assertEqual(statuses, [200, 200, 429])


class Repeated(Any):
    def test_the_same_call_elsewhere_gets_the_same_grant(self):
        body = {"idempotency_key": "k1", "lease_ms": 20000}
        first = self.a.post("/v2/locks/job/acquire", body)
        self.assertEqual(first.status, 200, first)
        for service in [self.b, self.c, self.restart(0, signal.SIGKILL)]:
            again = service.post("/v2/locks/job/acquire", body)
            self.assertEqual((again.status, again["grant"], again["token"], again["repeated"]),
                             (200, first["grant"], first["token"], True), again)
        self.assertEqual(self.b.post("/v2/locks/job/acquire", {"idempotency_key": "k2"}).status, 423)
        self.assertEqual(self.c.post("/v2/locks/job/release", {"grant": first["grant"]}).status, 200)
        anew = self.b.post("/v2/locks/job/acquire", body)
        self.assertEqual(anew.status, 200, anew)
        self.assertGreater(anew["token"], first["token"])
        self.assertNotEqual(anew["grant"], first["grant"])

    def test_a_key_is_its_owners_and_its_locks(self):
        body = {"idempotency_key": "k", "lease_ms": 20000}
        one = self.a.post("/v2/locks/one/acquire", body)
        two = self.b.post("/v2/locks/two/acquire", body)
        self.assertEqual((one.status, two.status), (200, 200))
        self.assertNotEqual(one["grant"], two["grant"])


class Beliefs:
    """What callers were told: no two of them hold one lock, except as readers, and tokens grow."""

    def __init__(self):
        self.mutex, self.holders, self.tokens, self.broken = threading.Lock(), {}, {}, []

    def others(self, name, caller, now, shared):
        """Who else is inside, beside whom this one must not be."""
        return [(other, until - now) for other, (is_shared, until) in self.holders.setdefault(name, {}).items()
                if other != caller and until > now and not (shared and is_shared)]

    def granted(self, name, caller, answer, now, shared):
        with self.mutex:
            for other, left in self.others(name, caller, now, shared):
                self.broken.append(f"{name}: {caller} got it while {other} had {left:.3f} s left")
            if not shared and answer["token"] <= self.tokens.get(name, 0):
                self.broken.append(f"{name}: token {answer['token']} after {self.tokens[name]}")
            self.tokens[name] = max(answer["token"], self.tokens.get(name, 0))
            self.holders[name][caller] = (shared, now + answer["left_ms"] / 1000)

    def extended(self, name, caller, answer, now):
        with self.mutex:
            shared, until = self.holders.get(name, {}).get(caller, (False, 0))
            for other, _ in self.others(name, caller, now, shared):
                self.broken.append(f"{name}: {caller} was told it has it, and {other} was")
            self.holders[name][caller] = (shared, max(until, now + answer["left_ms"] / 1000))

    def let_go(self, name, caller):
        with self.mutex:
            self.holders.get(name, {}).pop(caller, None)


class Caller(threading.Thread):
    """Acquires, renews and releases, in a session or not, each time through another service."""

    def __init__(self, test, number):
        super().__init__(daemon=True)
        self.test, self.number, self.dice = test, number, random.Random(number)
        self.session, self.done, self.strange, self.longest = None, 0, [], 0

    def call(self, path, body=None):
        """With retries: an error must not last."""
        since = time.monotonic()
        while not self.test.over.is_set():
            service = self.test.services[self.dice.randrange(3)]
            try:
                answer = service.post(path, body, timeout=1.5)
                if answer.status < 500 and answer.status not in (429, 499):
                    return answer, time.monotonic()
            except Exception:
                pass
            self.longest = max(self.longest, time.monotonic() - since)
            time.sleep(0.02)
        return None, 0

    def work(self):
        test, name = self.test, f"lock-{self.dice.randrange(3)}"
        if self.number % 2 and not self.session:
            answer, _ = self.call("/v2/sessions", {"lease_ms": LEASE})
            self.session = answer["session"] if answer and answer.status == 200 else None
        body = {"wait_ms": 500, "idempotency_key": f"{self.number}-{self.dice.random()}"}
        shared = bool(self.session) and self.dice.random() < 0.4
        if shared:
            body["mode"] = "shared"
        body.update({"session": self.session} if self.session else {"lease_ms": LEASE})
        answer, now = self.call(f"/v2/locks/{name}/acquire", body)
        if not answer or answer.status in (409, 423):
            return
        if answer.status == 410:
            self.session = None
            return
        if answer.status != 200:
            self.strange.append(answer)
            return
        test.beliefs.granted(name, self.number, answer, now, shared)
        grant = {"grant": answer["grant"]}
        for _ in range(self.dice.randrange(4)):
            time.sleep(self.dice.uniform(0, 0.1))
            answer, now = self.call(f"/v2/locks/{name}/renew", grant)
            if not answer:
                return
            if answer.status != 200:
                test.beliefs.let_go(name, self.number)
                if answer.status not in (409, 410):
                    self.strange.append(answer)
                return
            test.beliefs.extended(name, self.number, answer, now)
        test.beliefs.let_go(name, self.number)
        answer, _ = self.call(f"/v2/locks/{name}/release", grant)
        if answer and answer.status not in (200, 409):
            self.strange.append(answer)
        self.done += 1
        if self.session and self.dice.random() < 0.1:
            self.call(f"/v2/sessions/{self.session}/end")
            self.session = None

    def run(self):
        while not self.test.over.is_set():
            self.work()


class Torment(Any):
    def test_no_two_callers_hold_a_lock(self):
        self.over, self.beliefs = threading.Event(), Beliefs()
        callers = [Caller(self, number) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        dice, end = random.Random(11), time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.3, 1.2))
            index = dice.randrange(3)
            how = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
            if how == signal.SIGSTOP:
                service = self.services[index]
                service.process.send_signal(how)
                time.sleep(LEASE / 1000 + 0.5)
                service.process.send_signal(signal.SIGCONT)
            else:
                self.restart(index, how)
        self.over.set()
        for caller in callers:
            caller.join(timeout=ENOUGH)
        self.assertEqual(self.beliefs.broken, [])
        self.assertEqual([answer for caller in callers for answer in caller.strange], [])
        done = [caller.done for caller in callers]
        self.assertGreater(min(done), 0, done)
        self.assertGreater(sum(done), 2 * CALLERS, done)
        print(f"{sum(done)} locks held; the longest time with errors only: {max(one.longest for one in callers):.1f} s")


if __name__ == "__main__":
    harness.main()
