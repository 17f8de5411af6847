"""v1: LockServiceCentral's API, case by case."""
import re
import subprocess
import time
import unittest
import uuid

import harness
from harness import HOLDFAST, ServiceTest, Service

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class V1(ServiceTest):
    def setUp(self):
        super().setUp()
        self.create_table("--format", "lockservice")
        self.service = self.start(store=None, env={"HOLDFAST_FORMAT": "lockservice"})
        self.name = "job-" + uuid.uuid4().hex[:8]
        self.path_of = f"/v1/space_1/lock/{self.name}"

    def acquire(self, instance="one", lease=60):
        return self.service.post(self.path_of + "/acquire", {"instanceId": instance, "leaseDuration": lease})

    def renew(self, instance="one", lease=60):
        return self.service.post(self.path_of + "/renew", {"instanceId": instance, "leaseDuration": lease})

    def release(self, instance="one"):
        return self.service.post(self.path_of + "/release", {"instanceId": instance})

    def names(self):
        return {"namespace": "space_1", "lockName": self.name}

    def refused(self):
        return {"success": False, **self.names()}

    def test_a_lock_that_nobody_holds_is_shown_by_its_names(self):
        answer = self.service.get(self.path_of)
        self.assertEqual((answer.status, answer.json), (200, self.names()))

    def test_acquire_says_what_was_granted(self):
        before = int(time.time())
        answer = self.acquire(lease=30)
        self.assertEqual(answer.status, 200)
        expiry = answer["expiry"]
        self.assertEqual(answer.json, {"success": True, **self.names(), "owner": "anonymous", "instanceId": "one",
                                       "leaseDuration": 30, "expiry": expiry})
        self.assertTrue(before + 29 <= expiry <= time.time() + 33, expiry)

    def test_get_never_shows_the_instance(self):
        granted = self.acquire()
        answer = self.service.get(self.path_of)
        self.assertEqual(answer.json, {**self.names(), "owner": "anonymous", "expiry": granted["expiry"]})

    def test_another_instance_is_refused(self):
        self.acquire("one")
        answer = self.acquire("two")
        self.assertEqual((answer.status, answer.json), (423, self.refused()))

    def test_the_same_instance_acquires_again_and_overwrites_its_lease(self):
        self.acquire("one", 1000)
        answer = self.acquire("one", 30)
        self.assertEqual((answer.status, answer["leaseDuration"]), (200, 30))
        self.assertLess(answer["expiry"], time.time() + 60)

    def test_renew_adds_to_both(self):
        granted = self.acquire("one", 30)
        answer = self.renew("one", 40)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json, {**granted.json, "leaseDuration": 70, "expiry": granted["expiry"] + 40})

    def test_renew_by_another_or_of_nothing_is_refused(self):
        self.assertEqual((self.renew().status, self.renew().json), (423, self.refused()))
        self.acquire("one")
        self.assertEqual((self.renew("two").status, self.renew("two").json), (423, self.refused()))

    def test_release_deletes(self):
        self.acquire()
        answer = self.release()
        self.assertEqual((answer.status, answer.json), (200, {"success": True, **self.names()}))
        self.assertEqual(self.service.get(self.path_of).json, self.names())
        self.assertEqual(self.acquire("two").status, 200)

    def test_release_of_nothing_succeeds_and_of_anothers_is_refused(self):
        self.assertEqual((self.release().status, self.release().json), (200, {"success": True, **self.names()}))
        self.acquire("one")
        answer = self.release("two")
        self.assertEqual((answer.status, answer.json), (423, self.refused()))

    def test_an_expired_lock_is_free(self):
        self.acquire("one", 1)
        harness.wait_until(lambda: "owner" not in self.service.get(self.path_of).json, what="its end")
        self.assertEqual(self.renew("one").status, 423)
        self.assertEqual(self.release("two").json, {"success": True, **self.names()})
        self.assertEqual(self.acquire("two").status, 200)

    def test_names_are_checked_in_the_originals_words(self):
        short = "must be between 3 and 64 characters long"
        odd = "must be alphanumeric with dashes and underscores only"
        for path, detail in [
                ("/v1/ab/lock/good", f"Parameter 'namespace' failed validation: Namespace {short}"),
                ("/v1/good/lock/ab", f"Parameter 'lockName' failed validation: Lock name {short}"),
                ("/v1/good/lock/" + "x" * 65, f"Parameter 'lockName' failed validation: Lock name {short}"),
                ("/v1/good/lock/a.b.c", f"Parameter 'lockName' failed validation: Lock name {odd}"),
                ("/v1/good/lock/a%2Fb", f"Parameter 'lockName' failed validation: Lock name {odd}"),
                ("/v1/go%20od/lock/abc", f"Parameter 'namespace' failed validation: Namespace {odd}")]:
            answer = self.service.get(path)
            self.assertEqual((answer.status, answer.json),
                             (400, {"message": "Validation failed", "details": [detail]}), path)
        self.assertEqual(self.service.get("/v1/ab/lock/a.")["details"],
                         [f"Parameter 'namespace' failed validation: Namespace {short}",
                          f"Parameter 'lockName' failed validation: Lock name {short}",
                          f"Parameter 'lockName' failed validation: Lock name {odd}"])
        self.assertEqual(self.service.get("/v1/" + "n" * 64 + "/lock/" + "l" * 64).status, 200)

    def test_bodies_are_checked_and_the_field_is_named(self):
        good = {"instanceId": "one", "leaseDuration": 5}
        extra = "$: property 'foo' is not defined in the schema and the schema does not allow additional properties"
        for body, detail in [
                ({**good, "foo": 1}, extra),
                ({"leaseDuration": 5}, "instanceId"), ({"instanceId": "one"}, "leaseDuration"),
                ({**good, "instanceId": 5}, "instanceId"),
                ({**good, "instanceId": None}, "instanceId"),
                ({**good, "leaseDuration": "5"}, "leaseDuration"), ({**good, "leaseDuration": 0}, "leaseDuration"),
                ({**good, "leaseDuration": -1}, "leaseDuration"), ({**good, "leaseDuration": 86401}, "leaseDuration"),
                ({**good, "leaseDuration": 1.5}, "leaseDuration"), ({**good, "leaseDuration": 1e30}, "leaseDuration"),
                ({**good, "instanceId": "ab"}, "$.instanceId: must be at least 3 characters long"),
                ({**good, "instanceId": "a" * 65}, "$.instanceId: must be at most 64 characters long"),
                ({**good, "instanceId": "a b c"}, "$.instanceId: does not match the regex pattern ^[a-zA-Z0-9_-]+$"),
                ([], "$"), ("text", "$"), (5, "$")]:
            answer = self.service.post(self.path_of + "/acquire", body)
            self.assertEqual((answer.status, answer.json["message"]), (400, "JSON validation failed"), body)
            self.assertEqual(len(answer.json["details"]), 1)
            self.assertIn(detail, answer.json["details"][0])
        for edge in [1, 86400]:
            self.assertEqual(self.acquire(lease=edge).status, 200)
        for raw in ["60.0", "6e1", "0.6E+2"]:
            answer = self.service.post(self.path_of + "/acquire",
                                       raw='{"instanceId":"one","leaseDuration":%s}' % raw)
            self.assertEqual((answer.status, answer.json["leaseDuration"]), (200, 60), raw)
        for call, body in [("renew", {**good, "instanceId": "a"}), ("release", {"instanceId": "a"})]:
            answer = self.service.post(f"{self.path_of}/{call}", body)
            self.assertEqual((answer.status, answer.json["message"]), (400, "JSON validation failed"), call)

    def test_every_problem_of_a_body_is_told(self):
        answer = self.service.post(self.path_of + "/acquire", {"instanceId": "", "leaseDuration": 0, "foo": 1})
        self.assertEqual(answer.status, 400)
        self.assertEqual(answer.json["details"], [
            "$.instanceId: must be at least 3 characters long",
            "$.instanceId: does not match the regex pattern ^[a-zA-Z0-9_-]+$",
            "$.leaseDuration: must have a minimum value of 1",
            "$: property 'foo' is not defined in the schema and the schema does not allow additional properties"])

    def test_broken_json_is_400_and_any_type_of_content_is_json(self):
        for raw in ["", "{", "{\"instanceId\":}", "nonsense", "{\"instanceId\":\"a\",\"instanceId\":\"b\"}",
                    "{\"instanceId\":\"one\",\"leaseDuration\":5}}"]:
            answer = self.service.post(self.path_of + "/acquire", raw=raw)
            self.assertEqual((answer.status, answer.json["message"]), (400, "JSON validation failed"), raw)
        answer = self.service.post(self.path_of + "/acquire", raw="{\"instanceId\":\"one\",\"leaseDuration\":5}",
                                   headers={"Content-Type": "text/plain"})
        self.assertEqual(answer.status, 200)
        answer = self.service.post(self.path_of + "/acquire", raw="{\"instanceId\":\"one\",\"leaseDuration\":5}",
                                   headers={"Content-Type": "application/json; charset=utf-8"})
        self.assertEqual(answer.status, 200)

    def test_release_takes_no_lease(self):
        answer = self.service.post(self.path_of + "/release", {"instanceId": "one", "leaseDuration": 5})
        self.assertEqual(answer.status, 400)
        self.assertIn("leaseDuration", answer.json["details"][0])

    def test_unknown_paths_and_methods_have_an_error_id(self):
        for method, path, status, message in [
                ("GET", "/v1/nothing", 404, "Resource not found"),
                ("POST", self.path_of + "/steal", 404, "Resource not found"),
                ("GET", self.path_of + "/acquire", 405, "Method not allowed"),
                ("DELETE", self.path_of, 405, "Method not allowed"), ("PUT", self.path_of, 405, "Method not allowed")]:
            answer = self.service.call(method, path)
            self.assertEqual((answer.status, answer.json["message"]), (status, message), path)
            self.assertEqual(set(answer.json), {"message", "errorId"})
            self.assertRegex(answer["errorId"], UUID)

    def test_options_says_what_a_path_has(self):
        for path, allow in [(self.path_of, "GET,HEAD,OPTIONS"), (self.path_of + "/acquire", "POST,OPTIONS"),
                            (self.path_of + "/release", "POST,OPTIONS")]:
            answer = self.service.call("OPTIONS", path)
            self.assertEqual((answer.status, answer.headers["Allow"], answer.text), (200, allow, ""))
        self.assertEqual(self.service.call("OPTIONS", "/v1/nothing").status, 404)

    def test_whoever_takes_no_json_gets_406_and_no_lock(self):
        for accept, status in [("text/html", 406), ("application/json;q=0", 406), ("text/plain, image/*", 406),
                               ("application/json", 200), ("text/html, */*;q=0.1", 200), ("application/*", 200),
                               ("application/problem+json", 200), ("", 200)]:
            answer = self.service.call("GET", self.path_of, headers={"Accept": accept})
            self.assertEqual(answer.status, status, accept)
        body = {"instanceId": "instance-1", "leaseDuration": 60}
        answer = self.service.call("POST", self.path_of + "/acquire", body, headers={"Accept": "text/html"})
        self.assertEqual((answer.status, answer.text), (406, ""))
        self.assertNotIn("owner", self.service.get(self.path_of).json)

    def test_the_librarys_locks_and_the_services_exclude_each_other(self):
        name = f"space_1:{self.name}"
        run = ["--format", "lockservice"]
        self.acquire("one")
        self.assertEqual(self.command(*run, "run", "-n", name, "true").returncode, 1)
        self.release("one")
        self.assertEqual(self.command(*run, "run", "-n", name, "true").returncode, 0)
        grant = self.command(*run, "acquire", "-n", "--lease", "60s", name)
        self.assertEqual(grant.returncode, 0, grant.stderr)
        self.assertEqual(self.acquire("two").status, 423)
        shown = self.service.get(self.path_of).json
        self.assertIn("@", shown["owner"])

    def test_a_damaged_record_is_nobodys_to_take(self):
        self.acquire("one")
        self.damage()
        self.assertEqual(self.acquire("two").status, 423)
        self.assertEqual(self.release("two").status, 423)

    def damage(self):
        if harness.DYNAMODB:
            self.skipTest("by the DynamoDB API of the embedded store")
        key = {"lockId": {"S": f"space_1:{self.name}"}}
        answer = self.service.call(
            "POST", "/", {"TableName": "locks", "Key": key, "UpdateExpression": "SET expiry = :e",
                          "ExpressionAttributeValues": {":e": {"S": "soon"}}},
            headers={"X-Amz-Target": "DynamoDB_20120810.UpdateItem"})
        self.assertEqual(answer.status, 200, answer)


class Beside(ServiceTest):
    @unittest.skipIf(harness.DYNAMODB, "the embedded store makes its tables")
    def test_v1_has_a_table_of_its_own_beside_v2(self):
        service = self.start()
        body = {"instanceId": "one", "leaseDuration": 60}
        self.assertEqual(service.post("/v1/space/lock/name/acquire", body).status, 200)
        self.assertEqual(service.post("/v2/locks/space:name/acquire").status, 200)
        self.assertEqual([lock["name"] for lock in service.get("/v2/locks").json["locks"]], ["space:name"])

    @unittest.skipIf(harness.DYNAMODB, "the embedded store is the endpoint")
    def test_a_store_that_comes_up_late_is_asked_for_its_time_first(self):
        port = harness.socket.socket()  # which keeps the number from others; two may have it until one listens
        self.addCleanup(port.close)
        port.setsockopt(harness.socket.SOL_SOCKET, harness.socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 0))
        number = port.getsockname()[1]
        late = self.start("--format", "lockservice",
                          store=f"dynamodb://locks?region=us-east-1&endpoint=http://127.0.0.1:{number}",
                          env={"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
        self.start("--format", "lockservice", "--listen", f"127.0.0.1:{number}")
        body = {"instanceId": "one", "leaseDuration": 60}
        harness.wait_until(lambda: late.post("/v1/space/lock/name/acquire", body).status == 200)
        answer = late.post("/v1/space/lock/name/acquire", body)
        self.assertGreater(answer["expiry"], time.time())
        answer = late.post("/v1/space/lock/name/acquire", {**body, "instanceId": "two"})
        self.assertEqual(answer.status, 423)

    @unittest.skipUnless(harness.DYNAMODB, "DynamoDB's settings")
    def test_lockservicecentrals_own_settings_are_enough(self):
        self.create_table("--format", "lockservice")
        table = re.match(r"dynamodb://([^?]+)", self.store).group(1)
        endpoint = re.search(r"endpoint=([^&]+)", self.store).group(1)
        service = Service(None, env={"LOCKER_DYNAMODB_TABLENAME": table, "LOCKER_DYNAMODB_REGION": "us-east-1",
                                     "LOCKER_DYNAMODB_ENDPOINT": endpoint, "LOCKER_DYNAMODB_ACCESSKEYID": "local",
                                     "LOCKER_DYNAMODB_SECRETACCESSKEY": "local", "AUTHENTICATION_DISABLED": "true",
                                     "HOME": self.path})
        self.addCleanup(service.kill)
        answer = service.post("/v1/space/lock/name/acquire", {"instanceId": "one", "leaseDuration": 60})
        self.assertEqual(answer.status, 200, answer)
        listed = subprocess.run([HOLDFAST, "--store", self.store, "--format", "lockservice", "list"],
                                capture_output=True, text=True)
        self.assertIn("space:name", listed.stdout)


if __name__ == "__main__":
    harness.main()
