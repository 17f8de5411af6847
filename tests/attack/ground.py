"""What an attack stands on: where the service is, how much time there is, and what was not as it should be."""
import contextlib
import json
import os
import resource
import signal
import time

from crowd import Crowd, Pace, address
from target import MALLORIES, MALLORY, WITNESS

FILES = 20000
REQUEST_SECONDS = 60


def request(method, path, token=None, body=None, headers=(), length=None):
    """As bytes. With `length` the body that follows may be another one than was said."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    if body is not None:
        lines.append("Content-Type: application/json")
    if body is not None or length is not None:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


class Ground:
    """`limit` is the share of one caller, and of one address; `attempt` counts repetitions."""

    def __init__(self, target, seconds, timeout_seconds, attempt, short):
        self.target, self.port, self.limit = target, target.port, target.limit
        self.seconds, self.timeout_seconds, self.attempt, self.short = seconds, timeout_seconds, attempt, short
        self.until = self.crowd = None  # see run
        self.complaints, self.notes, self.witness = [], [], WITNESS

    def expect(self, good, message):
        if not good:
            self.complaints.append(message)

    def note(self, text):
        self.notes.append(text)

    def expect_statuses(self, peers, *allowed, least=1):
        """Each of them was answered, `least` times in all, and in one of these ways."""
        seen = {}
        for peer in peers:
            for status in peer.statuses:
                seen[status] = seen.get(status, 0) + 1
        other = {status: count for status, count in seen.items() if status not in allowed}
        self.expect(not other, f"answered {other}, expected {allowed}")
        self.expect(sum(seen.values()) >= least, f"{sum(seen.values())} answers, expected {least}")
        return seen

    def take(self, seconds):
        """It needs that much time to take effect, however short the phases are."""
        self.until = max(self.until, time.monotonic() + seconds)

    def time_left(self):
        return self.until - time.monotonic()

    def rest(self):
        self.crowd.run(self.time_left())

    def mallory(self, number=0):
        """A hostile caller who is let in; another one each time, since what the last one took may still be its."""
        return MALLORY.format((number + 3 * self.attempt) % MALLORIES)

    def ask(self, method, path, token=WITNESS, body=None):
        """A call of somebody else, who must be served."""
        return self.target.call(method, path, body, headers={"Authorization": f"Bearer {token}"},
                                timeout=REQUEST_SECONDS)

    def expect_room_for_bodies(self, size):
        body = {"lease_ms": 1000, "data": "x" * size}
        answer = self.ask("POST", f"/v2/locks/body-{os.getpid()}/acquire", body=body)
        self.expect(answer.status == 200, f"a call of somebody else with a body of {size} bytes got {answer}")

    def metric(self, name):
        return self.target.metric(name)

    def throw(self, requests, per_second, *allowed):
        """Each request on a connection of its own, over and over until time is up; all are answered so. They may have
        names, for the complaints."""
        names = list(requests) if isinstance(requests, dict) else [f"request {i}" for i in range(len(requests))]
        requests = list(requests.values()) if isinstance(requests, dict) else requests
        pace, thrown, other, old = Pace(per_second), 0, {}, []
        while self.time_left() > 0 or thrown < len(requests):
            pace.wait()
            peer = self.crowd.join(address(thrown % 8), requests[thrown % len(requests)])
            thrown += 1
            if peer:
                peer.kind = names[(thrown - 1) % len(requests)]
                old.append(peer)
            self.crowd.turn()
            while len(old) > 100 or (old and old[0].ended):
                self.settle(old.pop(0), allowed, other)
        self.crowd.run(self.timeout_seconds + 5, lambda: all(peer.statuses or peer.ended for peer in old))
        for peer in old:
            self.settle(peer, allowed, other)
        self.expect(not other, f"answered {other}, expected {allowed}")
        return thrown

    def settle(self, peer, allowed, other):
        for status in peer.statuses or ["none"]:
            if status not in allowed:
                name = f"{peer.kind}: {status}"
                other[name] = other.get(name, 0) + 1
        peer.close()

    def run(self, attack):
        """In the process of the attacker; (complaints, notes)."""
        stand_back()
        self.until = time.monotonic() + self.seconds
        self.crowd = Crowd(self.port)
        with contextlib.closing(self.crowd):
            try:
                attack.run(self)
            except Exception as error:
                self.complaints.append(f"{type(error).__name__}: {error}")
        return self.complaints, self.notes


def stand_back():
    """For the process of an attacker, which would have the processors of another machine: it runs where the service
    and its callers leave one idle, and makes way for them at once."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    for number in [signal.SIGINT, signal.SIGTERM]:
        signal.signal(number, signal.SIG_DFL)
