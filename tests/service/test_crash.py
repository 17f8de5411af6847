"""kill -9, again and again, under load: what was granted stays granted, and tokens never go back."""
import contextlib
import os
import random
import threading
import time
import unittest

import harness
from harness import Service, ServiceTest, wait_until

KILLS = int(os.environ.get("HOLDFAST_KILLS", "100"))
LOCKS, CLIENTS, LEASE_MS = 24, 8, 1500


class Crash(ServiceTest):
    """Clients note what they were told, on one clock; nobody may be told two things at once."""

    def setUp(self):
        super().setUp()
        self.mutex = threading.Lock()
        self.stop = threading.Event()
        self.grants = {f"job-{i}": [] for i in range(LOCKS)}  # (token, from, until)
        self.problems = []
        self.service = None

    def work(self, seed):
        chance = random.Random(seed)
        while not self.stop.is_set():
            name = f"job-{chance.randrange(LOCKS)}"
            service = self.service
            try:
                sent = time.monotonic()
                answer = service.post(f"/v2/locks/{name}/acquire",
                                      {"wait_ms": chance.choice([0, 200]), "lease_ms": LEASE_MS}, timeout=5)
                received = time.monotonic()
                if answer.status != 200:
                    continue
                # From the moment we knew of it until the time it said is certain, and no longer.
                note = [answer["token"], received, received + answer["left_ms"] / 1000]
                with self.mutex:
                    self.grants[name].append(note)
                time.sleep(chance.random() * 0.1)
                if chance.random() < 0.8:
                    with self.mutex:
                        note[2] = min(note[2], time.monotonic())
                    self.service.post(f"/v2/locks/{name}/release", {"grant": answer["grant"]}, timeout=5)
            except Exception:
                time.sleep(0.01)

    def begin(self):
        service = Service(self.store, "-q")
        self.addCleanup(service.kill)
        self.service = service
        return service

    def test_a_hundred_times(self):
        self.begin()
        threads = [threading.Thread(target=self.work, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                time.sleep(random.random() * 0.2)
                self.service.process.kill()
                self.service.process.wait()
                self.service.process.stdout.close()
                self.begin()
            time.sleep(0.5)
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(timeout=30)
        total = 0
        for name, notes in self.grants.items():
            total += len(notes)
            notes.sort(key=lambda note: note[1])
            for before, after in zip(notes, notes[1:]):
                self.assertGreater(after[0], before[0], f"{name}: a token went back")
                self.assertLessEqual(before[2], after[1], f"{name}: granted while {before[0]} was held")
        print(f"{KILLS} kills, {total} grants")
        self.assertGreater(total, KILLS)


if __name__ == "__main__":
    harness.main()
