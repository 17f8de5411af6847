"""One lock, one truth: the command, the service and the library's struct say the same by the same names."""
import json
import os
import re
import subprocess
import unittest

import harness
from harness import ENOUGH, ROOT, Service, ServiceTest, wait_until

DERIVED = {"mode", "last_owner", "left_ms", "data_base64"}  # of other members of the struct
FOR_PEOPLE = {"since", "expires"}  # which only the command prints
PASSING = {"left_ms"}


def fields(struct):
    with open(os.path.join(ROOT, "include", "holdfast.h")) as file:
        body = re.search(r"struct %s \{(.*?)\n\};" % struct, file.read(), re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return {re.split(r"[\s*]+", line.strip())[-1] for line in body.split(";") if line.strip()}


def without(value, names):
    if isinstance(value, list):
        return [without(one, names) for one in value]
    if isinstance(value, dict):
        return {name: without(one, names) for name, one in value.items() if name not in names and one is not None}
    return value


class States(ServiceTest):
    def setUp(self):
        super().setUp()
        self.store = f"file:{self.path}/locks.db"
        self.service = Service(self.store)
        self.addCleanup(self.service.kill)

    def command(self, *args):
        done = subprocess.run([harness.HOLDFAST, "--store", self.store, "-o", "json", *args], capture_output=True,
                              text=True, timeout=ENOUGH)
        return json.loads(done.stdout)

    def holder(self, name, *options):
        """A process that holds a lock, and can be killed."""
        process = subprocess.Popen([harness.HOLDFAST, "--store", self.store, "--lease", "1s", "--owner", "carol", "run",
                                    *options, name, "--", "sleep", "60"], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: self.command("get", name)["state"] == "held")
        return process

    def same(self, name, state):
        """What everybody says of a lock; `state` is expected."""
        ours = self.command("get", name)
        theirs = self.service.get(f"/v2/locks/{name}").json
        self.assertEqual(without(ours, PASSING | FOR_PEOPLE), without(theirs, PASSING))
        self.assertEqual(theirs["state"], state)
        self.assertEqual(theirs["held"], state in ("held", "damaged"))
        known = fields("hf_lock_info")
        self.assertLessEqual(set(ours) - FOR_PEOPLE - DERIVED, known)
        for party in theirs.get("held_by", []) + theirs.get("waiting", []):
            self.assertLessEqual(set(party) - DERIVED, fields("hf_lock_party"))
        for listed in [self.command("list", "--all")["locks"], self.service.get("/v2/locks").json["locks"]]:
            found = [lock for lock in listed if lock["name"] == name]
            self.assertEqual(len(found), 1)
            self.assertEqual(without(found[0], PASSING | FOR_PEOPLE), without(theirs, PASSING))
        held = [lock["name"] for lock in self.service.get("/v2/locks?held=true").json["locks"]]
        self.assertEqual(name in held, theirs["held"])
        self.assertEqual(subprocess.run([harness.HOLDFAST, "--store", self.store, "-q", "get", name]).returncode,
                         0 if theirs["held"] else 1)
        return theirs

    def test_held_and_released(self):
        body = {"lease_ms": 60000, "data": "x", "attributes": {"site": "eu"}}
        grant = self.service.post("/v2/locks/job/acquire", body)["grant"]
        lock = self.same("job", "held")
        self.assertEqual((lock["owner"], lock["holders"], lock["mode"]), ("anonymous", 1, "exclusive"))
        self.assertEqual([party["owner"] for party in lock["held_by"]], ["anonymous"])
        self.service.post("/v2/locks/job/release", {"grant": grant})
        lock = self.same("job", "free")
        self.assertEqual((lock.get("owner"), lock["last_owner"], lock["holders"]), (None, "anonymous", 0))
        self.assertNotIn("held_by", lock)

    def test_expired(self):
        self.holder("job").kill()
        wait_until(lambda: self.command("get", "job")["state"] != "held")
        lock = self.same("job", "expired")
        self.assertEqual((lock["owner"], lock["left_ms"], lock["holders"]), ("carol", 0, 1))

    def test_a_session_keeps_it_and_is_gone(self):
        session = self.service.post("/v2/sessions", {"lease_ms": 60000})["session"]
        self.service.post("/v2/locks/job/acquire", {"session": session})
        lock = self.same("job", "held")
        self.assertGreater(lock["left_ms"], 0)
        kept_by = lock["held_by"][0]["session"]
        self.assertNotEqual(kept_by, session)  # what stands in the table gives nobody any power here
        key = json.dumps({"key": {"S": f"holdfast:session:{kept_by}"}})
        answer = self.service.call("POST", "/", raw=f'{{"TableName":"locks","Key":{key}}}',
                                   headers={"X-Amz-Target": "DynamoDB_20120810.DeleteItem",
                                            "Content-Type": "application/x-amz-json-1.0"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.same("job", "free")["last_owner"], "anonymous")

    def test_shared(self):
        for _ in range(2):
            session = self.service.post("/v2/sessions", {"lease_ms": 60000})["session"]
            self.service.post("/v2/locks/job/acquire", {"session": session, "mode": "shared"})
        holder = self.holder("job", "--shared")
        lock = self.same("job", "held")
        self.assertEqual((lock["holders"], lock["mode"]), (3, "shared"))
        self.assertEqual(sorted(party["owner"] for party in lock["held_by"]), ["anonymous", "anonymous", "carol"])
        holder.kill()
        wait_until(lambda: any(party.get("left_ms") == 0 for party in self.command("get", "job")["held_by"]))
        self.same("job", "held")  # the others are alive

    def test_damaged(self):
        item = json.dumps({"key": {"S": "job"}, "grant": {"S": "x"}, "lease": {"S": "nonsense"}, "token": {"N": "1"}})
        answer = self.service.call("POST", "/", raw=f'{{"TableName":"locks","Item":{item}}}',
                                   headers={"X-Amz-Target": "DynamoDB_20120810.PutItem",
                                            "Content-Type": "application/x-amz-json-1.0"})
        self.assertEqual(answer.status, 200, answer)
        lock = self.same("job", "damaged")
        self.assertTrue(lock["damage"])

    def test_those_who_wait_here_are_named(self):
        self.service.post("/v2/locks/job/acquire", {"lease_ms": 60000})
        waiter = self.service.connect()
        self.addCleanup(waiter.close)
        waiter.request("POST", "/v2/locks/job/acquire", body='{"wait_ms": 60000}',
                       headers={"Content-Type": "application/json"})
        wait_until(lambda: self.service.get("/v2/locks/job")["waiters"] == 1)
        waiting = self.service.get("/v2/locks/job")["waiting"]
        self.assertEqual([party["owner"] for party in waiting], ["anonymous"])
        self.assertGreater(waiting[0]["since_unix_ms"], 0)

    def test_watch_and_events_tell_when_it_expires(self):
        holder = self.holder("job")
        events = self.service.connect()
        self.addCleanup(events.close)
        events.request("GET", "/v2/events?prefix=job")
        stream = events.getresponse()
        watch = subprocess.Popen([harness.HOLDFAST, "--store", self.store, "-o", "json", "--poll", "50ms", "watch", "-n", "2",
                                  "job"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.assertEqual(json.loads(watch.stdout.readline())["lock"]["state"], "held")
        wait_until(lambda: b"data" in stream.readline() or True)
        holder.kill()
        self.assertEqual(json.loads(watch.stdout.readline())["lock"]["state"], "expired")
        for _ in range(1000):
            line = stream.readline().decode()
            if line.startswith("data: ") and json.loads(line[6:]).get("type") == "expired":
                return
        self.fail("no event")


if __name__ == "__main__":
    unittest.main()
