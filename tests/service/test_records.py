#!/usr/bin/env python3
"""A store behind the service: the command on other machines (--store https://…), and what it cannot do there."""
import json
import os
import signal
import subprocess
import unittest

import harness
from harness import ENOUGH, HOLDFAST, wait_until
from test_auth import Tls, bearer
from test_rules import TOKENS, RulesTest


class Guest(RulesTest):
    """The command as different people, through the service."""

    def run_as(self, service, who, *args, start=False, **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XDG_"))}
        env.update(HOME=self.path, HOLDFAST_STORE=f"http://127.0.0.1:{service.port}", AWS_EC2_METADATA_DISABLED="true")
        if who:
            file = os.path.join(self.path, who + ".token")
            with open(file, "w") as out:
                out.write(TOKENS[who] + "\n")
            env["HOLDFAST_TOKEN_FILE"] = file
        arguments = [HOLDFAST, *args]
        if start:
            process = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            return process
        return subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=ENOUGH)

    def send(self, service, who, operation, key, **more):
        """A request by hand."""
        body = {"TableName": "locks", "Key": {"key": {"S": key}}, **more}
        answer = service.call("POST", "/v2/records", body, headers={
            **bearer(TOKENS[who]), "X-Amz-Target": f"DynamoDB_20120810.{operation}"})
        return answer.status, json.loads(answer.text)


class Commands(Guest):
    RULES = "owner:alice read,lock jobs/*\nowner:bob read,lock jobs/b*\nowner:ops force jobs/*\n"

    def test_exclude_each_other_and_are_told_apart(self):
        service = self.serve()
        holder = self.run_as(service, "alice", "run", "jobs/b", "--", "sh", "-c", "echo in; sleep 100", start=True)
        self.assertEqual(holder.stdout.readline(), "in\n")
        busy = self.run_as(service, "bob", "run", "-n", "jobs/b", "true")
        self.assertEqual(busy.returncode, 1)
        seen = json.loads(self.run_as(service, "bob", "get", "jobs/b", "-o", "json").stdout)
        self.assertEqual((seen["owner"], seen["state"]), ("alice", "held"))
        self.assertIn("@", seen["instance"])
        waiter = self.run_as(service, "bob", "run", "jobs/b", "echo", "next", start=True)
        wait_until(lambda: service.metric("streams") == 1, what="a waiter that listens")
        holder.kill()  # its guard ends the command, and releases nothing
        self.assertEqual(waiter.communicate(timeout=ENOUGH)[0], "next\n")

    def test_hand_over_within_the_service_too(self):
        service = self.serve()
        grant = service.post("/v2/locks/jobs%2Fb/acquire", {"lease_ms": 600000}, headers=bearer(TOKENS["alice"]))
        waiter = self.run_as(service, "bob", "run", "jobs/b", "echo", "next", start=True)
        wait_until(lambda: service.metric("streams") == 1, what="a waiter that listens")
        service.post("/v2/locks/jobs%2Fb/release", {"grant": grant["grant"]}, headers=bearer(TOKENS["alice"]))
        self.assertEqual(waiter.communicate(timeout=ENOUGH)[0], "next\n")
        holder = self.run_as(service, "bob", "run", "jobs/b", "--", "sh", "-c", "echo in; sleep 100", start=True)
        self.assertEqual(holder.stdout.readline(), "in\n")
        self.assertEqual(service.post("/v2/locks/jobs%2Fb/acquire", {}, headers=bearer(TOKENS["alice"])).status, 423)
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(service.post("/v2/locks/jobs%2Fb/acquire", {"wait_ms": 30000},
                                      headers=bearer(TOKENS["alice"])).status, 200)

    def test_sessions_shared_locks_and_elections_work(self):
        service = self.serve()
        readers = [self.run_as(service, "alice", "run", "-s", "jobs/r", "--", "sh", "-c", "echo in; sleep 100",
                               start=True) for _ in range(2)]
        for reader in readers:
            self.assertEqual(reader.stdout.readline(), "in\n")
        self.assertEqual(self.run_as(service, "alice", "run", "-n", "jobs/r", "true").returncode, 1)
        leader = self.run_as(service, "alice", "elect", "jobs/l", "--", "sh", "-c", "echo leads; sleep 100", start=True)
        self.assertRegex(leader.stdout.readline(), "this one")
        self.assertEqual(leader.stdout.readline(), "leads\n")

    def test_do_what_their_rights_allow_and_no_more(self):
        service = self.serve()
        self.assertEqual(self.run_as(service, "alice", "run", "jobs/a", "true").returncode, 0)
        denied = self.run_as(service, "bob", "run", "jobs/a", "true")
        self.assertEqual(denied.returncode, 69)
        self.assertIn("permission denied for this lock", denied.stderr)
        self.assertNotIn("jobs/a", self.run_as(service, "bob", "list", "--all").stdout)
        self.assertIn("jobs/a", self.run_as(service, "alice", "list", "--all").stdout)
        grant = self.run_as(service, "alice", "acquire", "jobs/b", "-q").stdout.strip()
        self.assertEqual(self.run_as(service, "bob", "release", "--force", "--reason", "x", "jobs/b").returncode, 69)
        self.assertEqual(self.run_as(service, "alice", "renew", grant).returncode, 0)
        self.assertEqual(self.run_as(service, "ops", "run", "-n", "jobs/c", "true").returncode, 69)  # may force, not lock
        forced = self.run_as(service, "ops", "release", "--force", "--reason", "stuck", "jobs/b")
        self.assertEqual(forced.returncode, 0, forced.stderr)
        self.assertEqual(self.run_as(service, "alice", "renew", grant).returncode, 75)
        self.assertIn('"operation":"ForceRelease"', service.errors())
        seen = json.loads(self.run_as(service, "alice", "get", "jobs/b", "-o", "json").stdout)
        self.assertEqual((seen["state"], seen["forced_by"], seen["forced_reason"]), ("free", "ops", "stuck"))

    def test_strangers_are_told_what_is_missing(self):
        service = self.serve()
        for args, message in [([], "--token-file"), (["--token-file", "/nowhere"], "cannot read the token file"),
                              (["--format", "awslabs"], "in the format")]:
            done = self.run_as(service, None, *args, "run", "jobs/a", "true")
            self.assertIn(done.returncode, (64, 69))
            self.assertIn(message, done.stderr)
        elsewhere = self.run_as(service, "alice", "--store", "http://locks.example.com", "run", "x", "true")
        self.assertIn("use https://locks.example.com", elsewhere.stderr)

    def test_a_service_is_no_store_for_a_service(self):
        service = self.serve()
        done = self.run_as(service, "alice", "serve", "--listen", "127.0.0.1:0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("use file:PATH", done.stderr)

    def test_outlive_the_service(self):
        service = self.serve()
        holder = self.run_as(service, "alice", "--lease", "6s", "run", "jobs/b", "--", "sh", "-c",
                             "echo in; sleep 9; echo out", start=True)
        self.assertEqual(holder.stdout.readline(), "in\n")
        service.process.kill()
        service.process.wait()
        self.serve(listen=f"127.0.0.1:{service.port}")
        self.assertEqual(holder.communicate(timeout=ENOUGH)[0], "out\n")
        self.assertEqual(holder.returncode, 0)


class Forgers(Guest):
    RULES = "owner:alice read,lock *\nowner:bob read,lock *\n"

    def hold(self, service, name):
        """Alice's lock; its grant."""
        return self.run_as(service, "alice", "acquire", name, "--lease", "60s", "-q").stdout.strip().split("#")[1]

    def test_see_no_grant(self):
        service = self.serve()
        grant = self.hold(service, "job")
        for operation, more in [("GetItem", {}), ("Scan", {})]:
            status, said = self.send(service, "bob", operation, "job", **more)
            self.assertEqual(status, 200)
            self.assertNotIn(grant, json.dumps(said))
        self.assertNotIn(grant, service.errors())

    def test_cannot_take_release_or_prolong_what_is_held(self):
        service = self.serve()
        self.hold(service, "job")
        mask = self.send(service, "bob", "GetItem", "job")[1]["Item"]["grant"]["S"]
        self.assertTrue(mask.startswith("~"))
        names, held = {"#g": "grant"}, {":g": {"S": mask}}
        for update in ["REMOVE #g, version, lease, expires", "SET #g = :g, expires = lease"]:
            status, said = self.send(service, "bob", "UpdateItem", "job", ConditionExpression="#g = :g",
                                     UpdateExpression=update, ExpressionAttributeNames=names,
                                     ExpressionAttributeValues=held)
            self.assertEqual(status, 400)
            self.assertRegex(said["__type"], "AccessDenied|Validation")
        for operation in ["DeleteItem", "PutItem", "DeleteTable", "CreateTable", "UpdateTimeToLive"]:
            self.assertEqual(self.send(service, "bob", operation, "job")[0], 400, operation)
        seen = json.loads(self.run_as(service, "bob", "get", "job", "-o", "json").stdout)
        self.assertEqual((seen["state"], seen["owner"]), ("held", "alice"))

    def test_the_table_is_the_services_own(self):
        service = self.serve()
        self.hold(service, "job")
        body = {"TableName": "another", "Key": {"key": {"S": "job"}}}
        answer = service.call("POST", "/v2/records", body, headers={
            **bearer(TOKENS["bob"]), "X-Amz-Target": "DynamoDB_20120810.GetItem"})
        self.assertEqual(json.loads(answer.text)["Item"]["owner"], {"S": "alice"})
        other = self.start("--tokens", self.tokens, store=f"file:{self.path}/other.db", env={"HOLDFAST_FORMAT": "dlock"})
        self.assertEqual(other.call("POST", "/v2/records", body, headers={
            **bearer(TOKENS["bob"]), "X-Amz-Target": "DynamoDB_20120810.GetItem"}).status, 404)


class Secured(Tls):
    """With certificates."""

    def run_it(self, service, *args):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XDG_"))}
        env["HOME"] = self.path
        return subprocess.run([HOLDFAST, "--store", f"https://localhost:{service.port}", *args], env=env, text=True,
                              capture_output=True, timeout=ENOUGH)

    def test_ones_own_authority_is_trusted_and_no_other(self):
        service = self.serve()
        own = ["--ca", self.file("server.pem")]
        self.assertEqual(self.run_it(service, *own, "run", "job", "echo", "in").stdout, "in\n")
        strange = self.run_it(service, "run", "-n", "job", "true")
        self.assertEqual(strange.returncode, 69)
        self.assertIn("certificate", strange.stderr.lower())

    def test_a_certificate_says_who_one_is(self):
        self.make_certificate("ca", "authority")
        self.make_certificate("alice", "alice", "authority", "clientAuth")
        service = self.serve("--client-ca", self.file("authority.pem"))
        own = ["--ca", self.file("server.pem")]
        self.assertEqual(self.run_it(service, *own, "run", "-n", "job", "true").returncode, 69)
        own += ["--client-cert", self.file("alice.pem"), "--client-key", self.file("alice.key")]
        self.assertEqual(self.run_it(service, *own, "acquire", "job", "-q").returncode, 0)
        self.assertEqual(json.loads(self.run_it(service, *own, "get", "job", "-o", "json").stdout)["owner"], "alice")


for inherited in [name for name in dir(Tls) if name.startswith("test_")]:
    setattr(Secured, inherited, None)  # they are in test_auth


del Tls, RulesTest, Guest  # what is only the ground for others


if __name__ == "__main__":
    harness.main()
