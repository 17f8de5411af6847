"""Who may come in: tokens, JWTs, client certificates; TLS."""
import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

import harness
from harness import DYNAMODB, ENOUGH, Service, ServiceTest, wait_until

CAROL = "carol-0123456789abcdef"
ALICE, ROOT_TOKEN = "alice-0123456789abcdef", "root-0123456789abcdef"


def openssl(*args, data=None):
    return subprocess.run(["openssl", *args], input=data, capture_output=True, check=True).stdout


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Key:
    """A signing key, made by openssl: the service's arithmetic is not checked by itself."""

    KINDS = {"RS256": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
             "ES256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
             "EdDSA": ["-algorithm", "ED25519"]}

    def __init__(self, directory, kid, algorithm, bits=None):
        self.kid, self.algorithm = kid, algorithm
        self.file = os.path.join(directory, kid + ".pem")
        options = list(self.KINDS[algorithm])
        if bits:
            options[-1] = f"rsa_keygen_bits:{bits}"
        openssl("genpkey", *options, "-out", self.file)
        der = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")
        if algorithm == "RS256":
            text = openssl("rsa", "-in", self.file, "-noout", "-modulus").decode()
            modulus = bytes.fromhex(text.strip().split("=")[1])
            self.jwk = {"kty": "RSA", "n": base64url(modulus), "e": "AQAB"}
        elif algorithm == "ES256":
            self.jwk = {"kty": "EC", "crv": "P-256", "x": base64url(der[-64:-32]), "y": base64url(der[-32:])}
        else:
            self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64url(der[-32:])}
        self.jwk.update(kid=kid, use="sig")

    def signature(self, data):
        if self.algorithm == "EdDSA":
            place = self.file + ".data"
            with open(place, "wb") as file:
                file.write(data)
            return openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.file, "-in", place)
        made = openssl("dgst", "-sha256", "-sign", self.file, data=data)
        if self.algorithm == "RS256":
            return made
        numbers, at = [], 2
        for _ in range(2):
            length = made[at + 1]
            numbers.append(made[at + 2:at + 2 + length].lstrip(b"\0").rjust(32, b"\0"))
            at += 2 + length
        return b"".join(numbers)

    def token(self, header=None, signature=None, **claims):
        now = int(time.time())
        claims = {"iss": "issuer", "sub": "alice", "aud": "locks", "exp": now + 600, "iat": now, **claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "typ": "JWT", "kid": self.kid, **(header or {})}
        header = {name: value for name, value in header.items() if value is not None}
        signed = base64url(json.dumps(header).encode()) + "." + base64url(json.dumps(claims).encode())
        if signature is None:
            signature = self.signature(signed.encode())
        return signed + "." + base64url(signature)


class Issuer:
    """Gives out key sets, and counts how often it is asked."""

    def __init__(self, test):
        outer = self
        self.keys, self.asked, self.broken = [], 0, False

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                body = json.dumps({"keys": [key.jwk for key in outer.keys]})
                if self.path.startswith("/.well-known/"):
                    body = json.dumps({"issuer": outer.url, "jwks_uri": outer.url + "/keys"})
                self.send_response(500 if outer.broken else 200)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


class Tokens(ServiceTest):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.path, "tokens")
        digest = hashlib.sha256(b"carol-0123456789abcdef").hexdigest()
        self.write(f"# who may come in\n{ALICE} alice\n{ROOT_TOKEN} root admin\nsha256:{digest} carol\n")
        self.service = self.start("--tokens", self.file)

    def write(self, text):
        with open(self.file, "w") as file:
            file.write(text)

    def test_only_known_tokens_come_in(self):
        for headers in [{}, bearer("nonsense"), bearer(""), {"Authorization": "Basic YTpi"}, bearer(ALICE + "x"),
                        bearer(ALICE[:-1])]:
            for path in ["/v2/locks", "/v1/space/lock/name", "/v2/events"]:
                answer = self.service.get(path, headers=headers)
                self.assertEqual(answer.status, 401, (headers, path))
                self.assertIn("Bearer", answer.headers["WWW-Authenticate"])
        answer = self.service.post("/v2/locks/job/acquire", headers=bearer(ALICE))
        self.assertEqual((answer.status, answer["owner"]), (200, "alice"))
        answer = self.service.get("/v2/whoami", headers=bearer("carol-0123456789abcdef"))
        self.assertEqual((answer["owner"], answer["admin"]), ("carol", False))

    def test_what_says_nothing_is_open(self):
        for path in ["/", "/healthz", "/readyz", "/metrics", "/openapi.yaml"]:
            self.assertEqual(self.service.get(path).status, 200, path)

    def test_force_is_for_administrators(self):
        self.service.post("/v2/locks/job/acquire", headers=bearer(ALICE))
        body = {"reason": "because"}
        self.assertEqual(self.service.post("/v2/locks/job/force-release", body, headers=bearer(ALICE)).status, 403)
        answer = self.service.post("/v2/locks/job/force-release", body, headers=bearer(ROOT_TOKEN))
        self.assertEqual((answer.status, answer["by"]), (200, "root"))

    def test_one_callers_grant_is_not_anothers(self):
        grant = self.service.post("/v2/locks/job/acquire", headers=bearer(ALICE))["grant"]
        for verb in ["renew", "release"]:
            answer = self.service.post(f"/v2/locks/job/{verb}", {"grant": grant}, headers=bearer(ROOT_TOKEN))
            self.assertEqual(answer.status, 409)
        session = self.service.post("/v2/sessions", headers=bearer(ALICE))["session"]
        self.assertEqual(self.service.get(f"/v2/sessions/{session}", headers=bearer(CAROL)).status, 410)
        self.assertEqual(self.service.post("/v2/locks/job/release", {"grant": grant}, headers=bearer(ALICE)).status, 200)

    def test_the_dynamodb_api_is_for_administrators(self):
        target = {"X-Amz-Target": "DynamoDB_20120810.ListTables"}
        for headers, status in [({}, 400), (bearer(ALICE), 400), (bearer(ROOT_TOKEN), 200)]:
            self.assertEqual(self.service.post("/", {}, headers={**target, **headers}).status, status)

    def test_a_hangup_reads_the_file_again(self):
        self.write("dave-0123456789abcdef dave\n")
        self.service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.service.get("/v2/whoami", headers=bearer("dave-0123456789abcdef")).status == 200)
        self.assertEqual(self.service.get("/v2/whoami", headers=bearer(ALICE)).status, 401)
        self.write("too-short\n")
        self.service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "expected TOKEN OWNER" in self.service.errors())
        self.assertEqual(self.service.get("/v2/whoami", headers=bearer("dave-0123456789abcdef")).status, 200)

    def test_tokens_are_not_in_the_log(self):
        self.service.get("/v2/locks", headers=bearer(ALICE))
        self.service.get("/v2/locks", headers=bearer("wrong-token-0123456789"))
        wait_until(lambda: len(self.service.lines()) >= 2)
        self.assertNotIn(ALICE, self.service.errors())
        self.assertNotIn("wrong-token", self.service.errors())

    def test_bad_files_are_refused_by_line(self):
        for text, words in [("", "no tokens"), ("short a\n", ":1"), (f"{ALICE}\n", ":1"),
                            (f"# x\n{ALICE} a b c\n", ":2"), ("sha256:12 a\n", "64 hex"), ("x" * 2000 + " a\n", "too long")]:
            self.write(text)
            done = subprocess.run([harness.HOLDFAST, "--store", self.store, "serve", "--listen", "127.0.0.1:0",
                                   "--tokens", self.file], capture_output=True, text=True, timeout=20)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


class Jwt(ServiceTest):
    def setUp(self):
        super().setUp()
        self.issuer = Issuer(self)
        self.keys = {name: Key(self.path, "k-" + name, name) for name in Key.KINDS}
        self.issuer.keys = list(self.keys.values())
        self.service = self.start("--jwt-issuer", self.issuer.url, "--jwt-audience", "locks", "--jwt-leeway", "30s")
        self.key = self.keys["ES256"]

    def make(self, key=None, **more):
        return (key or self.key).token(**{"iss": self.issuer.url, **more})

    def ask(self, token):
        return self.service.get("/v2/whoami", headers=bearer(token))

    def test_three_algorithms_by_discovery(self):
        for key in self.keys.values():
            answer = self.ask(self.make(key, sub="bob"))
            self.assertEqual((answer.status, answer["owner"], answer["admin"]), (200, "bob", False), key.algorithm)
        answer = self.service.post("/v1/space/lock/name/acquire", {"instanceId": "one", "leaseDuration": 9},
                                   headers=bearer(self.make(sub="bob")))
        self.assertEqual(answer["owner"], "bob")

    def test_claims_are_checked_with_leeway(self):
        now = int(time.time())
        for claims, status in [
                ({"exp": now - 10}, 200), ({"exp": now - 60}, 401), ({"exp": None}, 401), ({"exp": "soon"}, 401),
                ({"nbf": now + 10}, 200), ({"nbf": now + 60}, 401), ({"iat": now + 60}, 401),
                ({"iss": "http://elsewhere"}, 401), ({"iss": None}, 401), ({"aud": "other"}, 401), ({"aud": None}, 401),
                ({"aud": ["x", "locks"]}, 200), ({"aud": []}, 401), ({"aud": 5}, 401), ({"sub": None}, 401),
                ({"sub": ""}, 401), ({"sub": "x" * 513}, 401), ({"sub": 7}, 401), ({"sub": "x" * 512}, 200)]:
            self.assertEqual(self.ask(self.make(**claims)).status, status, claims)

    def test_a_token_for_somebody_else_needs_an_audience_that_is_ours(self):
        for args, claims, status in [
                ([], {"aud": None}, 200), ([], {"aud": "locks"}, 401), ([], {"aud": []}, 401),
                (["--jwt-audience", "*"], {"aud": "any"}, 200), (["--jwt-audience", "*"], {"aud": None}, 200)]:
            service = self.start("--jwt-issuer", self.issuer.url, *args)
            answer = service.get("/v2/whoami", headers=bearer(self.make(**claims)))
            self.assertEqual(answer.status, status, (args, claims))
            if status == 401:
                self.assertIn("--jwt-audience", answer["message"])
            service.stop()

    def test_keys_of_this_machine_do_not_come_by_a_proxy(self):
        service = self.start("--jwt-issuer", self.issuer.url, "--jwt-audience", "locks",
                             env={"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"})
        self.assertEqual(service.get("/v2/whoami", headers=bearer(self.make())).status, 200)

    def test_what_is_no_jwt_is_not_called_malformed(self):
        answer = self.ask("a-token-that-was-revoked-yesterday")
        self.assertEqual((answer.status, answer["message"]), (401, "unknown token, and not a JWT"))

    def test_claims_that_repeat_are_refused(self):
        head, _, signature = self.make().split(".")
        for claims in ['"aud":"a"', '"aud":["a"]', '"sub":"a"']:
            claims = base64url(("{" + ",".join([claims] * 18) + "}").encode())
            self.assertEqual(self.ask(f"{head}.{claims}.{signature}").status, 401)
        many = base64url(json.dumps({"aud": [str(i) for i in range(17)]}).encode())
        self.assertEqual(self.ask(f"{head}.{many}.{signature}").status, 401)
        self.assertIsNone(self.service.process.poll())

    def test_signatures_are_checked(self):
        good = self.make()
        head, claims, signature = good.split(".")
        other = base64url(json.dumps({"iss": self.issuer.url, "sub": "root", "aud": "locks",
                                      "exp": int(time.time()) + 600}).encode())
        none = base64url(json.dumps({"alg": "none", "kid": self.key.kid}).encode())
        hmac = base64url(json.dumps({"alg": "HS256", "kid": self.key.kid}).encode())
        stranger = Key(self.path, self.key.kid + "x", "ES256")
        stranger.kid = self.key.kid
        for token in [f"{head}.{other}.{signature}", f"{none}.{claims}.", f"{none}.{claims}.{signature}",
                      f"{hmac}.{claims}.{signature}", f"{head}.{claims}.{signature[:-4]}AAAA", f"{head}.{claims}",
                      f"{head}.{claims}.", f"{good}.{signature}", good + "=", "a.b.c", "..", self.make(stranger),
                      self.make(header={"alg": "RS256"}), self.make(header={"alg": "EdDSA"}),
                      self.make(header={"crit": ["exp"]}), self.make(header={"alg": ["ES256"]}),
                      self.make(signature=b"\0" * 64)]:
            self.assertEqual(self.ask(token).status, 401, token)
        self.assertEqual(self.ask(good).status, 200)

    def test_without_a_key_id_any_key_of_the_kind_will_do(self):
        self.assertEqual(self.ask(self.make(header={"kid": None})).status, 200)

    def test_keys_rotate_and_strangers_do_not_make_us_ask_for_ever(self):
        self.assertEqual(self.ask(self.make()).status, 200)
        fresh = Key(self.path, "fresh", "ES256")
        for _ in range(20):
            self.assertEqual(self.ask(self.make(fresh, sub=os.urandom(4).hex())).status, 401)
        self.assertLessEqual(self.issuer.asked, 6)
        self.issuer.keys = [fresh]
        wait_until(lambda: self.ask(self.make(fresh, sub=os.urandom(4).hex())).status == 200)
        self.assertEqual(self.ask(self.make()).status, 401, "the old key is gone, also for tokens that were known")

    def test_a_hangup_fetches_the_keys(self):
        fresh = Key(self.path, "fresh", "EdDSA")
        self.issuer.keys.append(fresh)
        self.service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.ask(self.make(fresh)).status == 200)

    def test_administrators_by_claim(self):
        for claims, admin in [({"scope": "read holdfast:admin"}, True), ({"scope": ["holdfast:admin"]}, True),
                              ({"scope": "holdfast:administrator"}, False), ({"scope": {}}, False), ({}, False)]:
            self.assertEqual(self.ask(self.make(**claims))["admin"], admin, claims)

    def test_weak_keys_are_passed_over(self):
        weak = Key(self.path, "weak", "RS256", bits=1024)
        self.issuer.keys = [weak, self.key]
        self.service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in self.service.errors() or self.issuer.asked >= 4)
        self.assertEqual(self.ask(self.make(weak)).status, 401)
        self.assertEqual(self.ask(self.make()).status, 200)

    def test_an_issuer_that_is_down_is_503_until_it_is_up(self):
        self.issuer.broken = True
        service = self.start("--jwt-jwks", self.issuer.url + "/keys", "--jwt-audience", "locks")
        answer = service.get("/v2/whoami", headers=bearer(self.make()))
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
        self.issuer.broken = False
        wait_until(lambda: service.get("/v2/whoami", headers=bearer(self.make())).status == 200)


class Tls(ServiceTest):
    def setUp(self):
        super().setUp()
        self.make_certificate("localhost", "server")

    def make_certificate(self, name, file, authority=None, purpose=None):
        key, certificate = [os.path.join(self.path, f"{file}.{end}") for end in ["key", "pem"]]
        arguments = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                     "-out", certificate, "-days", "2", "-subj", f"/CN={name}"]
        if authority:
            arguments += ["-CA", os.path.join(self.path, authority + ".pem"),
                          "-CAkey", os.path.join(self.path, authority + ".key")]
        if name == "localhost":
            arguments += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        if file == "authority" or file == "stranger":
            arguments += ["-addext", "basicConstraints=critical,CA:true"]
        else:
            arguments += ["-addext", "basicConstraints=critical,CA:false"]
        if purpose:
            arguments += ["-addext", f"extendedKeyUsage={purpose}"]
        openssl(*arguments)
        return certificate, key

    def file(self, name):
        return os.path.join(self.path, name)

    def serve(self, *more):
        return self.start("--tls-cert", self.file("server.pem"), "--tls-key", self.file("server.key"), *more)

    def fetch(self, service, path, client=None):
        context = ssl.create_default_context(cafile=self.file("server.pem"))
        if client:
            context.load_cert_chain(self.file(client + ".pem"), self.file(client + ".key"))
        connection = http.client.HTTPSConnection("localhost", service.port, context=context, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), connection.sock.getpeercert()["serialNumber"]
        finally:
            connection.close()

    def test_certificates_are_replaced_while_it_runs(self):
        service = self.serve()
        status, _, first = self.fetch(service, "/v2/locks")
        self.assertEqual(status, 200)
        self.make_certificate("localhost", "server")
        service.process.send_signal(signal.SIGHUP)

        def renewed():
            try:
                return self.fetch(service, "/v2/locks")[2] != first
            except ssl.SSLError:
                return False
        wait_until(renewed, what="the new certificate")
        with open(self.file("server.pem"), "w") as file:
            file.write("nonsense")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "not a PEM certificate" in service.errors())
        self.assertIsNone(service.process.poll())

    def test_client_certificates(self):
        self.make_certificate("ca", "authority")
        self.make_certificate("alice", "alice", "authority")
        self.make_certificate("root", "root", "authority")
        self.make_certificate("ca", "stranger")
        self.make_certificate("mallory", "mallory", "stranger")
        service = self.serve("--client-ca", self.file("authority.pem"), "--admin", "root,boss")
        self.assertEqual(self.fetch(service, "/v2/whoami")[0], 401)
        status, who, _ = self.fetch(service, "/v2/whoami", "alice")
        self.assertEqual((status, who["owner"], who["admin"]), (200, "alice", False))
        self.assertTrue(self.fetch(service, "/v2/whoami", "root")[1]["admin"])
        self.make_certificate("carol", "carol", "authority", "clientAuth")
        self.assertEqual(self.fetch(service, "/v2/whoami", "carol")[1]["owner"], "carol")
        self.make_certificate("web", "web", "authority", "serverAuth")  # a server's, of the same authority
        with contextlib.suppress(ssl.SSLError, OSError):
            self.assertEqual(self.fetch(service, "/v2/whoami", "web")[0], 401)
        with self.assertRaises((AssertionError, ssl.SSLError, OSError)):
            self.assertEqual(self.fetch(service, "/v2/whoami", "mallory")[0], 200)

    def test_plain_http_on_a_tls_port_gets_nothing(self):
        service = self.serve()
        with self.assertRaises((OSError, http.client.HTTPException)):
            service.get("/v2/locks", timeout=5)
        self.assertEqual(self.fetch(service, "/healthz")[0], 200)

    def test_a_key_that_does_not_belong_is_refused(self):
        self.make_certificate("other", "other")
        done = subprocess.run([harness.HOLDFAST, "--store", self.store, "serve", "--listen", "127.0.0.1:0", "--tls-cert",
                               self.file("server.pem"), "--tls-key", self.file("other.key")],
                              capture_output=True, text=True, timeout=20)
        self.assertIn("do not match", done.stderr)


class Rates(ServiceTest):
    def test_a_caller_that_asks_too_often_is_told_to_slow_down(self):
        service = self.start("--rate-per-caller", "5")
        connection = service.connect()
        statuses = [service.get("/v2/whoami", connection=connection).status for _ in range(30)]
        self.assertIn(429, statuses)
        self.assertEqual(statuses[0], 200)
        wait_until(lambda: service.get("/v2/whoami").status == 200)

    def test_waiters_are_limited(self):
        service = self.start("--max-waiters", "2")
        service.post("/v2/locks/job/acquire")
        waiting = [harness.parked(service.port, "/v2/locks/job/acquire", {"wait_ms": 60000}) for _ in range(2)]
        wait_until(lambda: service.metric("waiters") == 2)
        answer = service.post("/v2/locks/job/acquire", {"wait_ms": 60000})
        self.assertEqual((answer.status, answer["error"]), (429, "too-many-waiters"))
        for connection in waiting:
            connection.close()
        wait_until(lambda: service.metric("waiters") == 0)

    def test_waiters_of_one_caller_are_limited(self):
        service = self.start("--max-waiters-per-caller", "1")
        service.post("/v2/locks/job/acquire")
        with harness.parked(service.port, "/v2/locks/job/acquire", {"wait_ms": 60000}):
            wait_until(lambda: service.metric("waiters") == 1)
            self.assertEqual(service.post("/v2/locks/job/acquire", {"wait_ms": 60000}).status, 429)

    def test_every_call_that_reaches_the_store_counts(self):
        service = self.start("--rate", "5")
        target = {"X-Amz-Target": "DynamoDB_20120810.ListTables"}
        statuses = {service.post("/", {}, headers=target).status for _ in range(30)}
        self.assertEqual(statuses, {200, 400})

    def test_sessions_are_limited(self):
        service = self.start("--max-sessions", "1")
        first = service.post("/v2/sessions")["session"]
        self.assertEqual(service.post("/v2/sessions").status, 429)
        service.post(f"/v2/sessions/{first}/end")
        self.assertEqual(service.post("/v2/sessions").status, 200)


    def test_calls_that_are_not_let_in_take_nothing_from_those_that_are(self):
        tokens = os.path.join(self.path, "tokens")
        with open(tokens, "w") as file:
            file.write("0123456789abcdef alice\n")
        service = self.start("--tokens", tokens, "--rate", "40")
        refused = [service.get("/v2/locks").status for _ in range(60)]
        self.assertIn(429, refused)
        self.assertEqual(service.get("/v2/whoami", headers=bearer("0123456789abcdef")).status, 200)

    def test_failed_signatures_are_counted_and_limited(self):
        if DYNAMODB:
            self.skipTest("the DynamoDB API is served on a file store")
        service = self.start("--rate-per-caller", "20", env={"HOLDFAST_DYNAMODB_ACCESS_KEY_ID": "id",
                                                             "HOLDFAST_DYNAMODB_SECRET_ACCESS_KEY": "secret"})
        call = {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Authorization": "AWS4-HMAC-SHA256 nonsense"}
        kinds = [service.post("/", {}, headers=call)["__type"].split("#")[1] for _ in range(60)]
        self.assertIn("ThrottlingException", kinds)
        self.assertGreaterEqual(service.metric("refused_auth_total"), 1)


class Budgets(ServiceTest):
    """What one caller may have at a time."""

    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.path, "tokens")
        with open(self.file, "w") as file:
            file.write(f"{ALICE} alice\n{CAROL} carol\n{ROOT_TOKEN} root admin\n")

    def serve(self, *options):
        return self.start("--tokens", self.file, *options)

    def refused(self, service, path, body, name, who=ALICE):
        answer = service.post(path, body, headers=bearer(who))
        self.assertEqual((answer.status, answer["error"]), (429, name), answer)
        self.assertIn("Retry-After", answer.headers)

    def test_sessions(self):
        service = self.serve("--max-sessions-per-caller", "2")
        mine = [service.post("/v2/sessions", {}, headers=bearer(ALICE))["session"] for _ in range(2)]
        self.refused(service, "/v2/sessions", {}, "too-many-sessions")
        self.assertEqual(service.post("/v2/sessions", {}, headers=bearer(CAROL)).status, 200)
        self.assertEqual(service.post(f"/v2/sessions/{mine[0]}/end", {}, headers=bearer(ALICE)).status, 200)
        self.assertEqual(service.post("/v2/sessions", {}, headers=bearer(ALICE)).status, 200)

    def test_locks_and_their_data(self):
        service = self.serve("--max-locks-per-caller", "2", "--max-data-per-caller", "1000")
        def acquire(name, who=ALICE, **more):
            return service.post(f"/v2/locks/{name}/acquire", more, headers=bearer(who))
        first = acquire("one", data="x" * 600)
        self.assertEqual(first.status, 200)
        self.refused(service, "/v2/locks/two/acquire", {"data": "x" * 600}, "too-many-locks")
        self.assertEqual(acquire("two").status, 200)
        self.refused(service, "/v2/locks/three/acquire", {}, "too-many-locks")
        self.assertEqual(acquire("three", CAROL).status, 200)
        self.assertEqual(acquire("two").status, 429)
        answer = service.post("/v2/locks/one/release", {"grant": first["grant"]}, headers=bearer(ALICE))
        self.assertEqual(answer.status, 200)
        wait_until(lambda: acquire("four").status == 200, what="room again")

    def test_streams(self):
        service = self.serve("--max-streams-per-caller", "1")
        connection = service.connect()
        connection.request("GET", "/v2/events", headers=bearer(ALICE))
        self.assertEqual(connection.getresponse().status, 200)
        answer = service.get("/v2/events", headers=bearer(ALICE))
        self.assertEqual((answer.status, answer["error"]), (429, "too-many-streams"))
        connection.close()

        def again():
            other = service.connect()
            other.request("GET", "/v2/events", headers=bearer(ALICE))
            status = other.getresponse().status
            other.close()
            return status == 200
        wait_until(again, what="a stream after the first one has gone")

    def test_leases(self):
        service = self.serve("--max-lease", "1m")
        for path, body in [("/v2/locks/a/acquire", {"lease_ms": 60001}), ("/v2/sessions", {"lease_ms": 60001})]:
            answer = service.post(path, body, headers=bearer(ALICE))
            self.assertEqual((answer.status, answer["error"]), (400, "invalid"))
            self.assertIn("--max-lease", answer["message"])
            self.assertEqual(service.post(path, {"lease_ms": 60000}, headers=bearer(ALICE)).status, 200)
        answer = service.post("/v2/locks/b/acquire", {"lease_ms": 3600000}, headers=bearer(ROOT_TOKEN))
        self.assertEqual(answer.status, 200)

    def test_administrators_list_and_end_sessions(self):
        service = self.serve()
        session = service.post("/v2/sessions", {"lease_ms": 60000}, headers=bearer(ALICE))["session"]
        held = service.post("/v2/locks/a/acquire", {"session": session}, headers=bearer(ALICE))
        self.assertEqual(held.status, 200)
        def sessions(who):
            return [(found["session"], found["owner"], found["locks"])
                    for found in service.get("/v2/sessions", headers=bearer(who))["sessions"]]
        self.assertEqual(sessions(ALICE), [(session, "alice", ["a"])])
        self.assertEqual(sessions(ROOT_TOKEN), [(session, "alice", ["a"])])
        self.assertEqual(sessions(CAROL), [])
        for call, who, status in [("end", CAROL, 410), ("renew", ROOT_TOKEN, 410), ("end", ROOT_TOKEN, 200)]:
            answer = service.post(f"/v2/sessions/{session}/{call}", {}, headers=bearer(who))
            self.assertEqual(answer.status, status, (call, answer))
        self.assertEqual(sessions(ROOT_TOKEN), [])
        answer = service.post("/v2/locks/a/renew", {"grant": held["grant"]}, headers=bearer(ALICE))
        self.assertIn(answer.status, (409, 410))


class Settings(ServiceTest):
    """What contradicts itself does not start."""

    def refused(self, *args, env=None):
        service = Service("memory:", *args, env=env, wait=False)
        code = service.process.wait(timeout=ENOUGH)
        service.process.stdout.close()
        self.assertEqual(code, 64)
        return service.errors()

    def test_an_empty_secret_is_no_secret(self):
        for name in ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY"]:
            env = {"HOLDFAST_DYNAMODB_ACCESS_KEY_ID": "id", "HOLDFAST_DYNAMODB_SECRET_ACCESS_KEY": "secret",
                   f"HOLDFAST_DYNAMODB_{name}": ""}
            self.assertIn(f"HOLDFAST_DYNAMODB_{name} is empty", self.refused(env=env))

    def test_everybody_and_not_everybody(self):
        for args, env, names in [
                (["--no-auth", "--tokens", "x"], {}, ["--no-auth", "--tokens"]),
                (["--tokens", "x"], {"AUTHENTICATION_DISABLED": "true"}, ["AUTHENTICATION_DISABLED", "--tokens"]),
                (["--jwt-issuer", "https://x"], {"HOLDFAST_NO_AUTH": "1"}, ["HOLDFAST_NO_AUTH", "--jwt-issuer"]),
                (["--no-auth"], {"JWT_JWKS": "https://x"}, ["--no-auth", "--jwt-jwks"]),
                (["--no-auth", "--client-ca", "x", "--tls-cert", "y", "--tls-key", "z"], {},
                 ["--no-auth", "--client-ca"])]:
            errors = self.refused(*args, env=env)
            for name in names:
                self.assertIn(name, errors)


class Operators(ServiceTest):
    """--metrics-listen: what operators ask has a port of its own."""

    PATHS = ["/metrics", "/healthz", "/readyz"]

    def ask(self, path, method="GET"):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ENOUGH)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def begin(self, *args):
        self.service = self.start("--metrics-listen", "127.0.0.1:0", *args)
        line = self.service.process.stdout.readline()
        self.port = int(re.search(r"on http://127\.0\.0\.1:(\d+)/metrics", line).group(1))

    def test_each_port_answers_what_is_its_own(self):
        self.begin()
        for path in self.PATHS:
            self.assertEqual(self.ask(path)[0], 200, path)
            self.assertEqual(self.service.get(path).status, 404, path)
        for path in ["/", "/page.js", "/v2/locks", "/v2/whoami", "/openapi.yaml", "/v1/a/lock/b"]:
            self.assertEqual(self.ask(path)[0], 404, path)
        self.assertEqual(self.ask("/", "POST")[0], 404)
        self.assertEqual(self.service.post("/v2/locks/job/acquire").status, 200)
        self.assertIn('holdfast_requests_total{route="v2.acquire"', self.ask("/metrics")[1])

    def test_it_goes_on_while_the_service_drains(self):
        self.begin("--drain", "20s")
        self.service.post("/v2/locks/job/acquire", {"data": "x" * 300000})
        with contextlib.closing(socket.socket()) as slow:  # an answer that nobody takes is under way until then
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", self.service.port))
            slow.sendall(b"GET /v2/locks/job HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)

            def answered():
                found = re.search(r'requests_total{route="v2.get"[^}]*} (\d+)', self.ask("/metrics")[1])
                return int(found.group(1)) if found else 0

            def is_stuck():
                before = answered()
                time.sleep(0.3)
                return 0 < before == answered()

            wait_until(is_stuck)
            self.assertLess(answered(), 50)
            self.assertEqual(self.ask("/readyz")[0], 200)
            self.service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: self.ask("/readyz")[0] == 503, what="503")
        self.assertEqual(self.service.stop(), 0)

    def test_addresses_that_cannot_be_used(self):
        for address in ["nonsense", "127.0.0.1:99999"]:
            for check in [[], ["--check"]]:
                service = Service("memory:", "--metrics-listen", address, *check, wait=False)
                self.assertEqual(service.process.wait(timeout=ENOUGH), 64)
                service.process.stdout.close()
                self.assertIn("--metrics-listen", service.errors())
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
            service = Service("memory:", "--metrics-listen", f"127.0.0.1:{taken.getsockname()[1]}", wait=False)
            self.assertNotEqual(service.process.wait(timeout=ENOUGH), 0)
            service.process.stdout.close()
            self.assertIn("choose another port with --metrics-listen", service.errors())


class Names(ServiceTest):
    """DNS rebinding: without authentication the service answers to names that it was told of."""

    def status(self, service, host):
        return service.get("/v2/locks", headers={"Host": host}).status

    def test_addresses_and_names_that_it_was_told_of(self):
        for args, names in [([], []), (["--allow-host", "locks,Locks.example.com"], ["locks", "locks.example.com"])]:
            service = self.start("--no-auth", *args)
            for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "10.1.2.3:8080", "[::1]", "[fe80::1]:80", *names]:
                self.assertEqual(self.status(service, host), 200, host)
            for host in ["evil.example.com", "localhost.evil.example.com", "127.0.0.1.evil.example.com", "", "1.2.3",
                         "[evil]", *([] if names else ["locks"])]:
                self.assertEqual(self.status(service, host), 403, host)
        service = self.start("--no-auth", "--allow-host", "*")
        self.assertEqual(self.status(service, "anything.example.com"), 200)


class Wanted(ServiceTest):
    def test_authentication_that_is_wanted_and_not_configured_lets_nobody_in(self):
        service = self.start(env={"AUTHENTICATION_DISABLED": "false"})
        answer = service.post("/v1/space/lock/name/acquire", {"instanceId": "one", "leaseDuration": 9})
        self.assertEqual((answer.status, answer["message"]), (401, "Unauthorized"))
        self.assertEqual(service.get("/v2/locks").status, 401)


class Signed(ServiceTest):
    """The DynamoDB API with keys of its own: our own client signs, and is let in."""

    def test_signatures_are_checked_if_keys_are_set(self):
        service = self.start(env={"HOLDFAST_DYNAMODB_ACCESS_KEY_ID": "AKIDHOLDFAST",
                                  "HOLDFAST_DYNAMODB_SECRET_ACCESS_KEY": "sesame"})
        store = f"dynamodb://remote?region=us-east-1&endpoint=http://127.0.0.1:{service.port}"

        def run(key, secret):
            env = {**os.environ, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret,
                   "AWS_EC2_METADATA_DISABLED": "true"}
            return subprocess.run([harness.HOLDFAST, "--store", store, "table", "create", "-q"], env=env,
                                  capture_output=True, text=True, timeout=60)
        for key, secret in [("AKIDHOLDFAST", "wrong"), ("AKIDSTRANGER", "sesame")]:
            self.assertNotEqual(run(key, secret).returncode, 0)
        good = run("AKIDHOLDFAST", "sesame")
        self.assertEqual(good.returncode, 0, good.stderr)
        answer = service.post("/", {}, headers={"X-Amz-Target": "DynamoDB_20120810.ListTables"})
        self.assertEqual(answer.status, 400)


if __name__ == "__main__":
    harness.main()
