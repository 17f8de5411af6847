"""v2: everything, over HTTP."""
import base64
import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
import unittest
import uuid

import harness
from harness import DYNAMODB, Listener, ServiceTest, parked, read_answer, wait_until


class V2Test(ServiceTest):
    def setUp(self):
        super().setUp()
        self.create_table()
        self.service = self.start()

    def acquire(self, name, **body):
        return self.service.post(f"/v2/locks/{name}/acquire", body)

    def release(self, name, grant, **body):
        return self.service.post(f"/v2/locks/{name}/release", {"grant": grant, **body})

    def renew(self, name, grant, **body):
        return self.service.post(f"/v2/locks/{name}/renew", {"grant": grant, **body})

    def session(self, **body):
        return self.service.post("/v2/sessions", body)["session"]


class Locks(V2Test):
    def test_a_grant_says_all_that_its_holder_needs(self):
        answer = self.acquire("job", lease_ms=30000)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer["name"], "job")
        self.assertEqual(answer["owner"], "anonymous")
        self.assertEqual(answer["mode"], "exclusive")
        self.assertEqual(answer["lease_ms"], 30000)
        self.assertTrue(20000 < answer["left_ms"] <= 29400, answer)
        self.assertGreater(answer["token"], 10**15)
        self.assertRegex(answer["grant"], r"^[0-9a-f]{32}$")
        self.assertEqual(answer.headers["Content-Type"], "application/json")

    def test_without_a_body_the_defaults_are_taken(self):
        answer = self.service.post("/v2/locks/job/acquire")
        self.assertEqual((answer.status, answer["lease_ms"]), (200, 20000))

    def test_a_held_lock_is_refused_at_once_or_after_the_wait(self):
        self.acquire("job")
        answer = self.acquire("job")
        self.assertEqual((answer.status, answer["error"]), (423, "held"))
        answer = self.acquire("job", wait_ms=200)
        self.assertEqual((answer.status, answer["error"]), (423, "timed-out"))

    def test_tokens_grow(self):
        tokens = []
        for _ in range(5):
            answer = self.acquire("job")
            tokens.append(answer["token"])
            self.assertEqual(self.release("job", answer["grant"]).json, {"name": "job", "released": True})
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_renew_lengthens_and_release_ends_it(self):
        grant = self.acquire("job", lease_ms=5000)["grant"]
        answer = self.renew("job", grant, lease_ms=60000)
        self.assertEqual((answer.status, answer["lease_ms"] >= 60000), (200, True), answer)
        self.assertGreater(answer["left_ms"], 50000)
        self.assertEqual(self.release("job", grant).status, 200)
        answer = self.renew("job", grant)
        self.assertEqual((answer.status, answer["error"]), (409, "lost"))
        answer = self.release("job", grant)  # again, as after a lost answer
        self.assertEqual((answer.status, answer["released"]), (200, True))

    def test_a_lease_that_ends_frees_the_lock(self):
        grant = self.acquire("job", lease_ms=300)["grant"]
        answer = self.acquire("job", wait_ms=20000)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.renew("job", grant).status, 409)

    def test_anothers_grant_and_nonsense_are_lost(self):
        self.acquire("job")
        for grant in ["0" * 32, "nonsense", "#"]:
            self.assertEqual(self.renew("job", grant).status, 409, grant)
            self.assertEqual(self.release("job", grant).status, 409, grant)

    def test_data_is_kept_and_shown(self):
        grant = self.acquire("job", data="héllo")["grant"]
        self.assertEqual(self.service.get("/v2/locks/job")["data"], "héllo")
        self.release("job", grant, data="done")
        self.assertEqual(self.service.get("/v2/locks/job")["data"], "done")
        answer = self.acquire("job", keep_data=True)
        self.assertEqual(answer["data"], "done")
        self.release("job", answer["grant"])
        answer = self.acquire("job")  # what another one said of itself is not this one's
        self.assertNotIn("data", answer.json)
        self.release("job", answer["grant"])
        self.assertNotIn("data", self.service.get("/v2/locks/job").json)
        answer = self.acquire("job", data_base64=base64.b64encode(b"\xff\x00").decode())
        self.assertEqual(base64.b64decode(answer["data_base64"]), b"\xff\x00")

    def test_attributes_stand_beside_the_lock(self):
        self.acquire("job", attributes={"color": "red"})
        self.assertEqual(self.service.get("/v2/locks/job")["attributes"], {"color": "red"})

    def test_a_release_may_store_as_much_as_an_acquire(self):
        grant = self.acquire("job", data="x" * 300000)["grant"]
        self.assertEqual(self.release("job", grant, data="y" * 300000).status, 200)
        self.assertEqual(self.service.get("/v2/locks/job")["data"], "y" * 300000)
        answer = self.service.post("/v2/sessions", {"instance": "x" * 70000})
        self.assertEqual((answer.status, answer["error"]), (413, "too-large"))

    def test_who_tries_behind_a_waiter_is_told_who_holds_the_lock(self):
        held = self.command("-q", "--owner", "carol", "acquire", "-n", "--lease", "60s", "job").stdout.strip()
        waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 1, what="a waiter")
        wait_until(lambda: self.acquire("job").json.get("owner") == "carol", what="the owner")
        answer = self.acquire("job")
        self.assertEqual((answer.status, answer["owner"], answer["waiters"]), (423, "carol", 1))
        self.assertIn("held by carol", answer["message"])
        waiting.close()
        self.command("release", held)

    def test_unknown_query_parameters_are_refused(self):
        for path, name in [("/v2/locks?prefx=a", "prefx"), ("/v2/locks?prefix=a&x", "x"),
                           ("/v2/locks/job?prefix=a", "prefix"),
                           ("/v2/events?foo=1", "foo"), ("/v2/whoami?a=b", "a")]:
            answer = self.service.get(path)
            self.assertEqual((answer.status, answer["message"]), (400, f'unknown query parameter "{name}"'), path)
        self.assertEqual(self.service.get("/v2/locks?prefix=a&limit=3&held=true&cursor=").status, 200)

    def test_an_instance_is_shown_beside_its_owner(self):
        grant = self.acquire("job", instance="pod-7/42", lease_ms=60000)["grant"]
        answer = self.service.get("/v2/locks/job")
        self.assertEqual((answer["instance"], answer["held_by"][0]["instance"]), ("pod-7/42", "pod-7/42"))
        self.assertEqual(self.service.get("/v2/locks")["locks"][0]["instance"], "pod-7/42")
        answer = self.acquire("job", instance="pod-8")
        self.assertEqual((answer.status, answer["owner"], answer["instance"]), (423, "anonymous", "pod-7/42"))
        self.assertIn("held by anonymous (pod-7/42)", answer["message"])
        self.assertEqual((answer["waiters"], answer["holders"]), (0, 1))
        self.assertTrue(0 < answer["left_ms"] <= 61000)
        self.assertEqual(self.release("job", grant).status, 200)
        self.assertNotIn("instance", self.acquire("job").json)  # nor is it inherited
        self.assertNotIn("instance", self.service.get("/v2/locks/job").json)
        self.assertEqual(self.acquire("x", instance="a" * 129).status, 400)
        self.assertEqual(self.acquire("x", instance="").status, 400)
        self.service.stop()
        lines = [line for line in self.service.lines() if line.get("instance")]
        self.assertEqual([line["instance"] for line in lines[:2]], ["pod-7/42", "pod-8"])

    def test_a_session_has_an_instance_for_its_locks(self):
        session = self.service.post("/v2/sessions", {"lease_ms": 60000, "instance": "pod-9"})
        self.assertEqual(session["instance"], "pod-9")
        self.acquire("doc", mode="shared", session=session["session"])
        self.assertEqual(self.service.get("/v2/locks/doc")["held_by"][0]["instance"], "pod-9")
        self.acquire("job", session=session["session"])
        self.assertEqual(self.service.get("/v2/locks/job")["instance"], "pod-9")
        self.assertEqual(self.service.get("/v2/sessions")["sessions"][0]["instance"], "pod-9")

    def test_get_shows_who_holds_it_and_never_the_grant(self):
        granted = self.acquire("job")
        answer = self.service.get("/v2/locks/job")
        self.assertEqual(answer.status, 200)
        self.assertEqual((answer["held"], answer["owner"], answer["token"]), (True, "anonymous", granted["token"]))
        self.assertNotIn(granted["grant"], answer.text)
        self.assertTrue(0 < answer["left_ms"] <= 22000)
        self.release("job", granted["grant"])
        self.assertFalse(self.service.get("/v2/locks/job")["held"])
        answer = self.service.get("/v2/locks/never")
        self.assertEqual((answer.status, answer["error"]), (404, "absent"))

    def test_names_are_free_text_in_the_path(self):
        for name in ["a/b", "ü", "with space", "100%", "a+b", "x" * 1024]:
            path = "/v2/locks/" + "".join(f"%{byte:02X}" for byte in name.encode())
            answer = self.service.post(path + "/acquire")
            self.assertEqual((answer.status, answer["name"]), (200, name))
            self.assertEqual(self.service.get(path)["name"], name)
        for path in ["/v2/locks/%ff/acquire", "/v2/locks/%zz/acquire", "/v2/locks/%00/acquire",
                     "/v2/locks/holdfast:session:x/acquire", "/v2/locks/" + "x" * 1025 + "/acquire"]:
            self.assertEqual(self.service.post(path).status, 400, path)

    def test_list_by_prefix_in_pages(self):
        names = [f"{kind}-{i}" for kind in "ab" for i in range(12)]
        for name in names:
            self.acquire(name)
        found, cursor = [], ""
        for _ in range(100):
            page = self.service.get(f"/v2/locks?prefix=a-&limit=5&cursor={cursor}").json
            found += [lock["name"] for lock in page["locks"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        self.assertEqual(sorted(found), sorted(names[:12]))
        for query in ["limit=0", "limit=x", "limit=1001", "held=maybe", "cursor=nonsense"]:
            self.assertEqual(self.service.get("/v2/locks?" + query).status, 400, query)

    def test_list_can_leave_out_what_is_free(self):
        self.release("free", self.acquire("free")["grant"])
        self.acquire("held")
        self.assertEqual([lock["name"] for lock in self.service.get("/v2/locks?held=true").json["locks"]], ["held"])

    def test_bad_bodies_name_the_field(self):
        for path, body, field in [
                ("acquire", {"wait_ms": -1}, "wait_ms"), ("acquire", {"wait_ms": 10**9}, "wait_ms"),
                ("acquire", {"wait_ms": "1"}, "wait_ms"), ("acquire", {"lease_ms": 99}, "lease_ms"),
                ("acquire", {"lease_ms": 1e18}, "lease_ms"), ("acquire", {"mode": "odd"}, "mode"),
                ("acquire", {"limit": 0}, "limit"), ("acquire", {"data": 5}, "data"),
                ("acquire", {"data": "a", "data_base64": "YQ=="}, "data_base64"),
                ("acquire", {"data_base64": "?"}, "data_base64"), ("acquire", {"mode": "exclusive", "limit": 2}, "limit"),
                ("acquire", {"mode": "shared"}, "session"), ("acquire", {"color": "red"}, "color"),
                ("acquire", {"idempotency_key": ""}, "idempotency_key"), ("acquire", {"attributes": []}, "attributes"),
                ("acquire", {"attributes": {"a": 1}}, "attributes"), ("acquire", {"grant": "x"}, "grant"),
                ("renew", {}, "grant"), ("renew", {"grant": "x", "wait_ms": 1}, "wait_ms"), ("release", {}, "grant"),
                ("force-release", {}, "reason"), ("force-release", {"reason": ""}, "reason")]:
            answer = self.service.post(f"/v2/locks/job/{path}", body)
            self.assertEqual(answer.status, 400, (path, body, answer))
            self.assertIn(f'"{field}"', answer["message"])
        for raw in ["[]", "{", "5", "{\"wait_ms\":1,\"wait_ms\":2}", "{}x"]:
            self.assertEqual(self.service.post("/v2/locks/job/acquire", raw=raw).status, 400, raw)
        answer = self.service.post("/v2/locks/job/acquire", raw="{}", headers={"Content-Type": "text/plain"})
        self.assertEqual(answer.status, 415)
        self.assertEqual(self.service.get("/v2/locks/job").status, 404, "nothing of it took the lock")

    def test_paths_and_methods_that_are_not(self):
        self.assertEqual(self.service.get("/v2/nothing").status, 404)
        answer = self.service.call("DELETE", "/v2/locks/job")
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET"))
        self.assertEqual(self.service.get("/v2/locks//acquire").status, 404)

    def test_a_repeated_call_gets_the_same_grant(self):
        first = self.acquire("job", idempotency_key="k1")
        again = self.acquire("job", idempotency_key="k1")
        self.assertEqual((again.status, again["grant"], again["token"]), (200, first["grant"], first["token"]))
        self.assertTrue(again["repeated"])
        self.assertEqual(self.acquire("job", idempotency_key="k2").status, 423)
        by_header = self.service.post("/v2/locks/job/acquire", headers={"Idempotency-Key": "k1"})
        self.assertEqual(by_header["grant"], first["grant"])
        self.release("job", first["grant"])
        fresh = self.acquire("job", idempotency_key="k1")
        self.assertNotEqual(fresh["grant"], first["grant"])

    def test_only_if_exists(self):
        answer = self.acquire("job", only_if_exists=True)
        self.assertEqual((answer.status, answer["error"]), (404, "absent"))

    def test_the_command_and_the_service_exclude_each_other(self):
        grant = self.acquire("job")["grant"]
        self.assertEqual(self.command("run", "-n", "job", "true").returncode, 1)
        self.release("job", grant)
        held = self.command("acquire", "-n", "--lease", "60s", "job")
        self.assertEqual(held.returncode, 0, held.stderr)
        self.assertEqual(self.acquire("job").status, 423)

    def test_a_dead_holder_is_taken_over_at_the_first_try_of_whoever_comes_late(self):
        """The first caller's look is remembered for the second: neither waits."""
        self.assertEqual(self.command("acquire", "-n", "--lease", "1s", "job").returncode, 0)
        self.assertEqual(self.acquire("job").status, 423)
        time.sleep(3.2)
        self.assertEqual(self.acquire("job").status, 200)
        self.assertEqual(self.service.metric("takeovers_total"), 1)


class Queues(V2Test):
    def test_first_come_first_served_and_handed_over(self):
        grant = self.acquire("job")["grant"]
        waiting = []
        for i in range(5):
            waiting.append(parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000, "data": str(i)}))
            wait_until(lambda n=i: len(self.service.get("/v2/locks/job").json.get("waiting", [])) == n + 1)
        tokens = []
        for i, connection in enumerate(waiting):
            self.assertEqual(self.release("job", grant).status, 200)
            status, answer = read_answer(connection)
            self.assertEqual((status, answer["data"]), (200, str(i)))
            grant = answer["grant"]
            tokens.append(answer["token"])
            connection.close()
        self.assertEqual(tokens, sorted(set(tokens)))
        self.release("job", grant)

    def test_who_hangs_up_leaves_the_queue_at_once(self):
        grant = self.acquire("job")["grant"]
        first = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        second = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 2)
        first.close()
        wait_until(lambda: self.service.metric("waiters") == 1)
        self.release("job", grant)
        self.assertEqual(read_answer(second)[0], 200)
        second.close()

    def test_a_grant_that_nobody_received_is_given_back(self):
        """Many hang up at the very moment they are served: the lock is never stuck."""
        for _ in range(30):
            grant = self.acquire("job", lease_ms=60000, wait_ms=10000)
            self.assertEqual(grant.status, 200, grant)
            waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000, "lease_ms": 60000})
            wait_until(lambda: self.service.metric("waiters") == 1)
            thread = threading.Thread(target=self.release, args=("job", grant["grant"]))
            thread.start()
            waiting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            waiting.close()
            thread.join()
            last = self.acquire("job", wait_ms=10000)
            if last.status == 200:
                self.release("job", last["grant"])
                continue
            # It was granted, and its answer had left before the hang-up could be known.
            forced = self.service.post("/v2/locks/job/force-release", {"reason": "test"})
            self.assertEqual(forced.status, 200, (last, forced))

    def test_a_release_by_the_command_is_noticed_by_looking(self):
        held = self.command("-q", "acquire", "-n", "--lease", "60s", "job").stdout.strip()
        waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 1)
        self.assertEqual(self.command("release", held).returncode, 0)
        self.assertEqual(read_answer(waiting)[0], 200)
        waiting.close()

    def test_pending_key_is_not_waited_for_twice(self):
        self.acquire("job")
        first = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000, "idempotency_key": "k"})
        wait_until(lambda: self.service.metric("waiters") == 1)
        answer = self.acquire("job", wait_ms=30000, idempotency_key="k")
        self.assertEqual((answer.status, answer["error"]), (409, "in-progress"))
        first.close()


class Sessions(V2Test):
    def test_one_renewal_keeps_many_locks(self):
        session = self.session(lease_ms=30000)
        for i in range(20):
            answer = self.acquire(f"job-{i}", session=session)
            self.assertEqual((answer.status, answer["session"]), (200, session))
        shown = self.service.get(f"/v2/sessions/{session}").json
        self.assertEqual(len(shown["locks"]), 20)
        answer = self.service.post(f"/v2/sessions/{session}/renew")
        self.assertEqual(answer.status, 200, answer)
        self.assertGreater(answer["left_ms"], 20000)
        answer = self.service.post(f"/v2/sessions/{session}/end")
        self.assertEqual((answer.status, answer["ended"]), (200, True))
        self.assertFalse(self.service.get("/v2/locks/job-7")["held"])
        for path in ["", "/renew", "/end"]:
            answer = self.service.call("GET" if path == "" else "POST", f"/v2/sessions/{session}{path}")
            self.assertEqual((answer.status, answer["error"]), (410, "session-ended"))

    def test_a_session_that_is_not_renewed_takes_its_locks_along(self):
        session = self.session(lease_ms=700)
        self.assertEqual(self.acquire("job", session=session).status, 200)
        answer = self.acquire("job", wait_ms=20000)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.acquire("other", session=session).status, 410)

    def test_readers_share_and_writers_wait(self):
        sessions = [self.session(lease_ms=60000) for _ in range(3)]
        grants = [self.acquire("doc", mode="shared", session=session) for session in sessions]
        self.assertEqual([answer.status for answer in grants], [200] * 3)
        self.assertEqual(self.service.get("/v2/locks/doc")["holders"], 3)
        self.assertEqual(self.acquire("doc").status, 423)
        writer = parked(self.service.port, "/v2/locks/doc/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 1)
        for answer in grants:
            self.assertEqual(self.release("doc", answer["grant"]).status, 200)
        status, answer = read_answer(writer)
        self.assertEqual((status, answer["mode"]), (200, "exclusive"))
        writer.close()
        self.assertEqual(self.acquire("doc", mode="shared", session=sessions[0]).status, 423)

    def test_a_semaphore_lets_in_so_many(self):
        session = self.session(lease_ms=60000)
        for status in [200, 200, 423]:
            self.assertEqual(self.acquire("pool", limit=2, session=session).status, status)
        answer = self.acquire("pool", limit=5, session=session)
        self.assertEqual((answer.status, answer["error"]), (409, "other-limit"))

    def test_shared_locks_of_the_command_and_of_the_service(self):
        session = self.session(lease_ms=60000)
        self.assertEqual(self.acquire("doc", mode="shared", session=session).status, 200)
        self.assertEqual(self.command("run", "-n", "-s", "doc", "true").returncode, 0)
        self.assertEqual(self.command("run", "-n", "doc", "true").returncode, 1)

    def test_waiting_in_a_session_and_out_of_it_is_one_queue(self):
        grant = self.acquire("job")["grant"]
        session = self.session(lease_ms=60000)
        first = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000, "session": session})
        wait_until(lambda: self.service.metric("waiters") == 1)
        second = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 2)
        self.release("job", grant)
        status, answer = read_answer(first)
        self.assertEqual((status, answer["session"]), (200, session))
        self.service.post(f"/v2/sessions/{session}/end")
        self.assertEqual(read_answer(second)[0], 200)
        first.close()
        second.close()


class Several(V2Test):
    """Two services on one table, and one that is restarted."""

    def setUp(self):
        super().setUp()
        self.other = self.start()

    def test_a_grant_is_good_everywhere(self):
        granted = self.acquire("job", lease_ms=1500)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            renewed = self.other.post("/v2/locks/job/renew", {"grant": granted["grant"]})
            self.assertEqual((renewed.status, renewed["token"]), (200, granted["token"]), renewed)
            self.assertEqual(self.acquire("job").status, 423)
            time.sleep(0.3)
        self.assertEqual(self.renew("job", granted["grant"]).status, 200)

    def test_what_one_releases_the_other_gives_out(self):
        granted = self.acquire("job", lease_ms=60000)
        released = self.other.post("/v2/locks/job/release", {"grant": granted["grant"], "data": "done"})
        self.assertEqual(released.status, 200)
        self.assertEqual(self.service.get("/v2/locks/job")["data"], "done")
        wait_until(lambda: self.acquire("job").status == 200, seconds=10)

    def test_one_lock_cannot_be_released_in_the_name_of_another(self):
        self.acquire("q")
        grant = self.acquire("q%23x")["grant"]
        for text in [f"x#{grant}", grant.upper() + "x", "s" + grant, " " + grant]:
            self.assertEqual(self.other.post("/v2/locks/q/release", {"grant": text}).status, 409, text)
        self.assertTrue(self.service.get("/v2/locks/q%23x")["held"])


class Force(V2Test):
    def force(self, name):
        return self.service.post(f"/v2/locks/{name}/force-release", {"reason": "its machine burnt"})

    def test_it_takes_the_lock_away_and_is_recorded(self):
        grant = self.acquire("job", lease_ms=60000)["grant"]
        self.assertEqual(self.force("job").json, {"name": "job", "released": True, "by": "anonymous",
                                                  "reason": "its machine burnt"})
        shown = self.service.get("/v2/locks/job").json
        self.assertEqual((shown["held"], shown["forced_by"], shown["forced_reason"]),
                         (False, "anonymous", "its machine burnt"))
        self.assertEqual(self.renew("job", grant).status, 409)
        self.assertEqual(self.acquire("job").status, 200)

    def test_whoever_waits_gets_it(self):
        self.acquire("job", lease_ms=60000)
        waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        wait_until(lambda: self.service.metric("waiters") == 1)
        self.assertEqual(self.force("job").status, 200)
        self.assertEqual(read_answer(waiting)[0], 200)
        waiting.close()

    def test_a_sessions_lock_is_given_up_at_once(self):
        session = self.session(lease_ms=60000)
        self.acquire("job", session=session)
        self.acquire("kept", session=session)
        began = time.monotonic()
        self.assertEqual(self.force("job").status, 200)
        self.assertLess(time.monotonic() - began, 30, "it did not wait for the lease")
        self.assertFalse(self.service.get("/v2/locks/job")["held"])
        self.assertTrue(self.service.get("/v2/locks/kept")["held"])

    def test_of_what_nobody_holds(self):
        answer = self.force("job")
        self.assertEqual((answer.status, answer["error"]), (404, "absent"))


class Events(V2Test):
    def test_what_happens_is_told_as_it_happens(self):
        listener = Listener(self.service)
        self.addCleanup(listener.close)
        grant = self.acquire("job", lease_ms=60000)
        event = listener.wait_for(type="granted", name="job")
        self.assertEqual((event["token"], event["owner"]), (grant["token"], "anonymous"))
        self.renew("job", grant["grant"])
        listener.wait_for(type="renewed", name="job")
        waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 30000})
        listener.wait_for(type="queue", name="job", waiters=1)
        waiting.close()
        listener.wait_for(type="queue", name="job", waiters=0)
        self.release("job", grant["grant"])
        listener.wait_for(type="released", name="job")
        self.acquire("short", lease_ms=300)
        listener.wait_for(type="lost", name="short", reason="expired")
        self.acquire("taken", lease_ms=60000)
        self.service.post("/v2/locks/taken/force-release", {"reason": "why not"})
        event = listener.wait_for(type="forced", name="taken")
        self.assertEqual((event["by"], event["reason"]), ("anonymous", "why not"))

    def test_what_others_do_is_found(self):
        before = self.service.metric("store_seconds_count")
        listener = Listener(self.service)
        self.addCleanup(listener.close)
        # The first look tells nothing: that is how things are. It is over when the second has been made.
        wait_until(lambda: self.service.metric("store_seconds_count") >= before + 2, what="two looks")
        held = self.command("-q", "acquire", "-n", "--lease", "60s", "job").stdout.strip()
        event = listener.wait_for(type="granted", name="job")
        self.assertIn("@", event["owner"])
        self.command("release", held)
        listener.wait_for(type="released", name="job")

    @unittest.skipIf(DYNAMODB, "its pages are of 1 MiB")
    def test_what_others_do_is_found_in_a_large_table(self):
        """More than a page of a list has 200 times: 128 KiB of records."""
        connection = self.service.connect()
        for i in range(210):
            self.service.post(f"/v2/locks/long-{i}/acquire", {"lease_ms": 600000, "data": "x" * 140000},
                              connection=connection)
        before = self.service.metric("store_seconds_count")
        listener = Listener(self.service)
        self.addCleanup(listener.close)
        wait_until(lambda: self.service.metric("store_seconds_count") >= before + 422, what="two looks")
        self.command("-q", "acquire", "-n", "--lease", "60s", "job")
        listener.wait_for(type="granted", name="job")

    def test_a_listener_goes_on_where_it_was_cut_off(self):
        listener = Listener(self.service, "/v2/events?prefix=job")
        self.acquire("job-1")
        self.acquire("other")
        listener.wait_for(type="granted", name="job-1")
        last = listener.ids[-1]
        listener.close()
        self.acquire("job-2")
        self.acquire("job-3")
        again = Listener(self.service, "/v2/events?prefix=job", {"Last-Event-ID": last})
        self.addCleanup(again.close)
        again.wait_for(type="granted", name="job-3")
        self.assertEqual([event["name"] for event in again.events], ["job-2", "job-3"])
        whole = Listener(self.service, "/v2/events?last_event_id=0")
        self.addCleanup(whole.close)
        whole.wait_for(type="granted", name="job-3")
        self.assertEqual([event["name"] for event in whole.events], ["job-1", "other", "job-2", "job-3"])

    def test_ids_of_another_process_mean_that_some_were_missed(self):
        listener = Listener(self.service, headers={"Last-Event-ID": "0123456789abcdef-7"})
        self.addCleanup(listener.close)
        listener.wait_for(type="reset")

    def test_a_listener_that_hangs_up_is_gone(self):
        listener = Listener(self.service)
        wait_until(lambda: self.service.metric("streams") == 1)
        listener.close()
        wait_until(lambda: self.service.metric("streams") == 0)


class Formats(ServiceTest):
    """What another table format makes of it."""

    @unittest.skipIf(DYNAMODB, "the embedded store makes its tables")
    def test_acquire_renew_and_release_in_every_format(self):
        for name, lock in [("awslabs", "job"), ("dynamolock", "job"), ("dlock", "job"), ("lockservice", "team:job"),
                           ("single-table", "job"), ("fail-open", "job"), ("fail-closed", "job")]:
            service = self.start("--format", name, store=f"file:{self.path}/{name}.db")
            granted = service.post(f"/v2/locks/{lock}/acquire")
            self.assertEqual((granted.status, granted["owner"]), (200, "anonymous"), (name, granted))
            shown = service.get(f"/v2/locks/{lock}")
            self.assertEqual((shown["held"], shown["owner"]), (True, "anonymous"), (name, shown))
            for answer in [shown, service.get("/v2/locks")]:
                self.assertNotIn(granted["grant"], answer.text, name)
            self.assertEqual(service.post(f"/v2/locks/{lock}/acquire").status, 423, name)
            if name != "fail-closed":
                renewed = service.post(f"/v2/locks/{lock}/renew", {"grant": granted["grant"]})
                self.assertEqual(renewed.status, 200, (name, renewed))
            again = self.start("--format", name, store=f"file:{self.path}/{name}.db")
            released = again.post(f"/v2/locks/{lock}/release", {"grant": granted["grant"]})
            self.assertEqual(released.status, 200, (name, released))
            wait_until(lambda: again.post(f"/v2/locks/{lock}/acquire", {"wait_ms": 5000}).status == 200)


class Operation(V2Test):
    def test_one_line_per_request_without_secrets(self):
        grant = self.acquire("job")["grant"]
        self.release("job", grant)
        wait_until(lambda: len(self.service.lines()) >= 2)
        lines = self.service.lines()
        self.assertEqual([line["route"] for line in lines], ["v2.acquire", "v2.release"])
        for line in lines:
            self.assertEqual((line["event"], line["status"], line["owner"], line["lock"]),
                             ("request", 200, "anonymous", "job"))
            self.assertGreaterEqual(line["ms"], 0)
        self.assertEqual(lines[0]["grant_hash"], lines[1]["grant_hash"])
        self.assertNotIn(grant, self.service.errors())

    def test_the_log_says_when_it_starts_reloads_and_stops(self):
        self.service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.service.lines("reload"), what="the reload")
        self.service.stop()
        start, stop = self.service.lines("start")[0], self.service.lines("stop")[0]
        self.assertEqual((start["authentication"], start["address"]), ("none", f"127.0.0.1:{self.service.port}"))
        self.assertTrue(start["version"] and start["store"] and stop["time"] >= start["time"])

    def test_probes_are_logged_only_if_they_fail(self):
        for path in ["/healthz", "/readyz", "/metrics", "/v2/whoami"]:
            self.service.get(path)
        wait_until(lambda: self.service.lines(), what="the log")
        self.assertEqual([line["route"] for line in self.service.lines()], ["v2.whoami"])

    @unittest.skipIf(DYNAMODB, "the DynamoDB API is that of the embedded store")
    def test_a_call_of_the_dynamodb_api_logs_its_operation(self):
        self.service.post("/", {}, headers={"X-Amz-Target": "DynamoDB_20120810.ListTables"})
        wait_until(lambda: self.service.lines(), what="the log")
        line = self.service.lines()[0]
        self.assertEqual((line["route"], line["operation"]), ("dynamodb", "ListTables"))
        self.assertNotIn("lock", line)

    def test_metrics_tell_of_the_process(self):
        text = self.service.get("/metrics").text
        found = dict(re.findall(r"^process_(\w+) (\S+)$", text, re.M))
        self.assertLess(abs(float(found["start_time_seconds"]) - time.time()), 60)
        self.assertGreater(float(found["resident_memory_bytes"]), 1 << 20)
        self.assertGreater(float(found["max_fds"]), 100)
        self.assertGreaterEqual(float(found["cpu_seconds_total"]), 0)

    def test_alerts_and_dashboard_know_our_metrics(self):
        self.acquire("job")
        text = self.service.get("/metrics").text
        ours = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
        packaging = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging")
        for path in ["prometheus/holdfast.rules.yaml", "grafana/holdfast.json"]:
            with open(os.path.join(packaging, path)) as file:
                named = set(re.findall(r"\b((?:holdfast|process)_\w+?)(?:_bucket)?\b", file.read()))
            self.assertTrue(named and named <= ours, (path, named - ours))

    def test_metrics_count(self):
        grant = self.acquire("job")["grant"]
        self.acquire("job")
        self.assertEqual(self.service.metric("locks_held"), 1)
        self.release("job", grant)
        self.assertEqual(self.service.metric("locks_held"), 0)
        text = self.service.get("/metrics").text
        for line in ['holdfast_requests_total{route="v2.acquire",status="2xx"} 1',
                     'holdfast_requests_total{route="v2.acquire",status="4xx"} 1',
                     'holdfast_ended_total{reason="released"} 1',
                     'holdfast_request_seconds_count{route="v2.acquire"} 2', "holdfast_grants_total 1"]:
            self.assertIn(line + "\n", text)
        self.assertRegex(text, r"holdfast_store_seconds_count [1-9]")
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) (holdfast|process)_\w+ .+|(holdfast|process)_\w+(\{[^}]*\})? [0-9.e+-]+|.*\+Inf.* \d+)$")

    def test_sigterm_sends_waiters_away_and_leaves_locks_alone(self):
        granted = self.acquire("job", lease_ms=60000)
        session = self.session(lease_ms=60000)
        self.acquire("kept", session=session)
        listener = Listener(self.service)
        waiting = parked(self.service.port, "/v2/locks/job/acquire", {"wait_ms": 60000})
        wait_until(lambda: self.service.metric("waiters") == 1)
        self.service.process.send_signal(signal.SIGTERM)
        status, answer = read_answer(waiting)
        self.assertEqual((status, answer["error"]), (503, "closed"))
        waiting.close()
        self.assertEqual(self.service.process.wait(timeout=20), 0)
        listener.close()
        again = self.start()
        self.assertEqual(again.post("/v2/locks/job/acquire").status, 423)
        self.assertEqual(again.post("/v2/locks/kept/acquire").status, 423)
        renewed = again.post("/v2/locks/job/renew", {"grant": granted["grant"]})
        self.assertEqual((renewed.status, renewed["token"]), (200, granted["token"]), "by its record")
        waiting = parked(again.port, "/v2/locks/job/acquire", {"wait_ms": 60000})
        wait_until(lambda: again.metric("waiters") == 1)
        self.assertEqual(again.post("/v2/locks/job/release", {"grant": granted["grant"]}).status, 200)
        self.assertEqual(read_answer(waiting)[0], 200)
        waiting.close()

    def test_sigterm_cuts_short_what_does_not_end(self):
        if DYNAMODB:
            self.skipTest("once is enough")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            store = f"dynamodb://locks?region=us-east-1&endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
            service = self.start("--drain", "300ms", store=store,
                                 env={"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
            calls = [parked(service.port, "/v2/locks/job/acquire", {"wait_ms": 60000}),
                     parked(service.port, "/v1/space/lock/name/acquire", {"instanceId": "one", "leaseDuration": 9}),
                     parked(service.port, "/v2/locks/job/renew", {"grant": "0" * 32}),
                     parked(service.port, "/v2/sessions", {}),
                     parked(service.port, "/v2/locks/job/force-release", {"reason": "r"})]
            wait_until(lambda: service.metric("waiters") >= 1 and service.metric("connections") >= len(calls))
            time.sleep(0.5)  # until the others wait for the store, too
            service.process.send_signal(signal.SIGTERM)
            for call in calls:
                self.assertGreaterEqual(read_answer(call)[0], 500)
                call.close()
            self.assertEqual(service.process.wait(timeout=30), 0)

    def test_sessions_are_secret(self):
        session = self.session()
        self.service.post(f"/v2/sessions/{session}/renew")
        wait_until(lambda: len(self.service.lines()) >= 2)
        self.assertNotIn(session, self.service.errors())

    def test_health(self):
        self.assertEqual(self.service.get("/healthz").json, {"status": "ok"})
        self.assertEqual(self.service.get("/readyz").json, {"status": "ready"})

    def test_too_large_is_413_and_long_headers_are_refused(self):
        answer = self.service.post("/v2/locks/job/acquire", {"data": "x" * (1 << 20)})
        self.assertEqual(answer.status, 413)
        for length in [str(1 << 30), "99999999999999999999"]:
            with self.assertRaises((OSError, harness.http.client.HTTPException, AssertionError)):
                answer = self.service.post("/v2/locks/job/acquire", raw="{}", headers={"Content-Length": length}, timeout=3)
                self.assertNotIn(answer.status, [400, 413])
        answer = self.service.get("/v2/locks/job", headers={"X-Long": "x" * 40000})
        self.assertIn(answer.status, [400, 413, 431])

    def test_pages_of_other_origins_are_refused(self):
        answer = self.service.post("/v2/locks/job/acquire", headers={"Origin": "http://elsewhere.example"})
        self.assertEqual(answer.status, 403)
        answer = self.service.get("/v2/locks", headers={"Host": "elsewhere.example"})
        self.assertEqual(answer.status, 403)
        own = f"http://127.0.0.1:{self.service.port}"
        self.assertEqual(self.service.post("/v2/locks/job/acquire", headers={"Origin": own}).status, 200)

    def test_the_socket_may_come_from_systemd(self):
        if DYNAMODB:
            self.skipTest("once is enough")
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        script = 'exec 3<&"$1"; export LISTEN_PID=$$ LISTEN_FDS=1; shift; exec "$@"'
        process = harness.subprocess.Popen(
            ["bash", "-c", script, "sh", str(listening.fileno()), harness.HOLDFAST, "--store", self.store, "-q",
             "serve"], pass_fds=[listening.fileno()], stdin=harness.subprocess.DEVNULL)
        listening.close()
        try:
            def ready():
                with contextlib.suppress(OSError):
                    other = harness.http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    other.request("GET", "/healthz")
                    return other.getresponse().status == 200
            wait_until(ready, what="an answer on the socket")
        finally:
            process.terminate()
            self.assertEqual(process.wait(timeout=20), 0)

    def test_refusals_to_start_say_what_to_do(self):
        if DYNAMODB:
            self.skipTest("once is enough")
        for args, words in [
                (["--listen", "0.0.0.0:0"], "--tokens"), (["--listen", "nonsense"], "ADDRESS:PORT"),
                (["--tls-cert", "x"], "--tls-key"), (["--tls-cert", "/no", "--tls-key", "/no"], "/no"),
                (["--tokens", "/no"], "/no"), (["--jwt-jwks", "http://example.com/keys"], "https://"),
                (["--v1-table", "locks"], "--v1-table"), (["word"], "takes no arguments"),
                (["--listen", f"127.0.0.1:{self.service.port}"], "another port")]:
            done = harness.subprocess.run([harness.HOLDFAST, "--store", self.store, "serve", *args],
                                          capture_output=True, text=True, timeout=20)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    harness.main()
