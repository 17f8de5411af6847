#!/usr/bin/env python3
"""What DynamoDB's store asks besides the table may stall: names, credentials, clocks. Locks outlive that.

The table is that of a service of our own, which speaks DynamoDB's API.
"""
import concurrent.futures
import contextlib
import email.utils
import http.client
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import harness
from harness import DYNAMODB, ENOUGH, CommandTest, read, wait_until

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class Server:
    """Answers HTTP on a port of its own; `answer` is a function of a request: status, headers, body, or None."""

    def __init__(self, test, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, text = answer(self) or (500, {}, b"")
                with contextlib.suppress(OSError):  # who asked may have given up
                    self.send_response_only(status)
                    for name, value in {**headers, "Content-Length": str(len(text))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(text)

            do_GET = do_POST

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


class Between:
    """Stands between the store and the table."""

    def __init__(self, test, port):
        self.table_port = port
        self.lock = threading.Lock()
        self.writes = 0         # that were answered
        self.closes = False     # each connection, after its answer
        self.held = None        # an event that the next write waits for
        self.arrived = threading.Event()  # that write
        self.port = Server(test, self.answer).port

    def answer(self, request):
        is_write = request.headers["X-Amz-Target"].endswith((".UpdateItem", ".PutItem"))
        with self.lock:
            held = self.held if is_write else None
            self.held = None if held else self.held
        if held:
            self.arrived.set()
            held.wait(ENOUGH)
        connection = http.client.HTTPConnection("127.0.0.1", self.table_port, timeout=ENOUGH)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
            connection.request("POST", "/", body=request.body, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        headers = {name: value for name, value in answer.getheaders()
                   if name.lower() not in ("connection", "content-length", "keep-alive", "transfer-encoding")}
        if self.closes:
            headers["Connection"] = "close"
        with self.lock:
            self.writes += is_write
        return answer.status, headers, text


@unittest.skipIf(DYNAMODB, "on a service of our own")
class StallTest(CommandTest):
    def setUp(self):
        super().setUp()
        for name in list(self.env):
            if name.startswith("AWS_") or name.lower().endswith("_proxy"):
                del self.env[name]
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        service = self.start("--store", "memory:", "serve", "--listen", "127.0.0.1:0", stderr=subprocess.DEVNULL)
        self.table_port = self.port_of(service)
        self.between = Between(self, self.table_port)
        self.use("127.0.0.1", self.table_port)
        self.run_ok("table", "create", "-q", env=KEYS)
        self.use("127.0.0.1", self.between.port)
        self.finish = self.at("finish")

    def at(self, name):
        return os.path.join(self.path, name)

    def use(self, host, port):
        self.env["HOLDFAST_STORE"] = f"dynamodb://locks?region=us-east-1&endpoint=http://{host}:{port}"

    def port_of(self, service):
        line = service.stdout.readline()
        found = re.search(r"on http://127\.0\.0\.1:(\d+)/", line)
        self.assertTrue(found, f"the service did not start: {line!r}")
        return int(found[1])

    def configure(self, text):
        os.mkdir(self.at(".aws"))
        with open(self.at(".aws/config"), "w", encoding="ascii") as file:
            file.write(text)

    def process(self, *lines):
        """A script that prints keys."""
        path = self.at("keys")
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(lines))
        os.chmod(path, 0o755)
        self.configure(f"[default]\ncredential_process = {path}\n")

    def runner(self, lease):
        """A command under a lock, until `finish` is there."""
        mark = self.at("mark")
        process = self.start("--lease", lease, "run", "job", "--", "sh", "-c",
                             f"echo >{mark}; while [ ! -e {self.finish} ]; do sleep 0.1; done")
        wait_until(lambda: read(mark) or process.poll() is not None, what="the lock")
        return process

    def check_end(self, process):
        """Nothing was lost."""
        touch(self.finish)
        _, err = process.communicate(timeout=ENOUGH)
        self.assertEqual(process.returncode, 0, err)


def touch(path):
    open(path, "w", encoding="ascii").close()


# A name that is 127.0.0.1, unless `stall` is there: then asking for it takes half a minute, and fails. Once
# `forget` is there, what libcurl knows of names is too old for it: it keeps them for a minute by time().
NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_there(const char *variable)
{
    const char *path = getenv(variable);
    return path && access(path, F_OK) == 0;
}

int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "table.test") != 0) return real(name, port, hints, ret);
    FILE *log = fopen(getenv("NAMES_LOG"), "a");
    int stalls = is_there("NAMES_STALL");
    if (log) fputs(stalls ? "stalled\n" : "answered\n", log);
    if (log) fclose(log);
    if (!stalls) return real("127.0.0.1", port, hints, ret);
    sleep(30);
    return EAI_AGAIN;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t result = now.tv_sec + (is_there("NAMES_FORGET") ? 3600 : 0);
    if (ret) *ret = result;
    return result;
}
"""


class Names(StallTest):
    """The name server is down."""

    def setUp(self):
        super().setUp()
        with open(self.at("names.c"), "w", encoding="ascii") as file:
            file.write(NAMES)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.at("names.so"), self.at("names.c"), "-ldl"], check=True,
                       timeout=ENOUGH)
        self.stall, self.forget, self.log = self.at("stall"), self.at("forget"), self.at("log")
        self.use("table.test", self.between.port)
        self.env.update(KEYS, LD_PRELOAD=self.at("names.so"), NAMES_STALL=self.stall, NAMES_FORGET=self.forget,
                        NAMES_LOG=self.log)
        options = self.env.get("ASAN_OPTIONS")
        self.env["ASAN_OPTIONS"] = (options + ":" if options else "") + "verify_asan_link_order=0"

    def begin_stall(self):
        touch(self.stall)
        touch(self.forget)

    def is_stalled(self):
        return "stalled" in read(self.log)

    def check_soon(self, process, code, otherwise):
        """It ends before a question that stalls does: 10 s for the release and 5 s for closing are its own."""
        err = ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=25)
        self.assertEqual(process.returncode, code, err or otherwise)

    def test_a_request_that_needs_a_name_times_out(self):
        self.begin_stall()
        process = self.start("run", "job", "--", "true")
        self.check_soon(process, 69, "a request waits for a name, whatever its time-out")

    def test_one_question_that_stalls_does_not_cost_the_lock(self):
        process = self.runner("8s")
        self.begin_stall()
        self.between.closes = True  # so that the name is asked for again
        writes = self.between.writes
        wait_until(lambda: self.is_stalled() or self.between.writes > writes + 3 or process.poll() is not None,
                   what="a question")
        os.remove(self.stall)  # who asks again gets an answer
        writes = self.between.writes
        wait_until(lambda: self.between.writes >= writes + 3 or process.poll() is not None, 20,
                   "a renewal after the question that stalls")
        self.check_end(process)

    def test_closing_does_not_wait_for_a_name(self):
        self.between.closes = True
        process = self.start("run", "job", "--", "touch", self.forget, self.stall)
        self.check_soon(process, 0, "closing waits for a name")

    def test_requests_on_live_connections_go_on_while_another_needs_a_name(self):
        service = self.start("serve", "--listen", "127.0.0.1:0", "--drain", "1s", stderr=subprocess.DEVNULL)
        port = self.port_of(service)
        status, answer = post(port, "/v2/locks/job/acquire", b'{"lease_ms": 6000}')
        self.assertEqual(status, 200, answer)
        grant = re.search(rb'"grant": *("[^"]*")', answer)[1]
        renewal = b'{"lease_ms": 6000, "grant": ' + grant + b"}"
        for _ in range(2):
            self.assertEqual(post(port, "/v2/locks/job/renew", renewal)[0], 200)
        # A renewal has the only connection; who comes meanwhile needs another one.
        self.begin_stall()
        go_on = self.between.held = threading.Event()
        self.addCleanup(go_on.set)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(post, port, "/v2/locks/job/renew", renewal)
            self.assertTrue(self.between.arrived.wait(ENOUGH))
            other = pool.submit(post, port, "/v2/locks/other/acquire", b"{}")
            wait_until(lambda: self.is_stalled() or other.done(), what="a question")
            go_on.set()
            self.assertEqual(first.result()[0], 200)
            for _ in range(16):  # the stalled one would time out meanwhile
                status, answer = post(port, "/v2/locks/job/renew", renewal, 6)
                self.assertEqual(status, 200, answer)
                time.sleep(0.25)
            self.assertNotEqual(other.result()[0], 0, "the other request is not answered")


def post(port, path, body, seconds=20):
    """The status and the body; 0: there was no answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except TimeoutError:
        return 0, f"no answer in {seconds} s"
    finally:
        connection.close()


def in_utc(seconds, form="%Y-%m-%dT%H:%M:%SZ"):
    """So many seconds from now."""
    return time.strftime(form, time.gmtime(time.time() + seconds))


LIFE = 28  # seconds, of short-lived keys; they are refreshed when half of it is over


class Credentials(StallTest):
    """The second answer of their source does not come; the first ones are good for a while yet."""

    def check_lock_is_kept(self, is_asked_again, lease):
        process = self.runner(f"{lease}s")
        wait_until(lambda: is_asked_again() or process.poll() is not None, 25, "a refresh")
        end = time.monotonic() + lease + 2
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.1)
        self.check_end(process)

    def test_a_process_that_stalls(self):
        calls = self.at("calls")
        self.process("#!/bin/sh", f"echo >>{calls}", f"[ $(wc -l <{calls}) -eq 1 ] || exec sleep 60",
                     f"end=$(date -u -d '+{LIFE} seconds' +%Y-%m-%dT%H:%M:%SZ)",
                     """echo '{"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "test",'""",
                     """echo '"Expiration": "'$end'"}'\n""")
        self.check_lock_is_kept(lambda: read(calls).count("\n") > 1, 6)

    def test_a_server_that_stalls(self):
        calls, over = [], threading.Event()
        self.addCleanup(over.set)

        def answer(_):
            calls.append(None)
            if len(calls) > 1:
                over.wait(ENOUGH)
                return None
            return 200, {}, (f'{{"AccessKeyId": "test", "SecretAccessKey": "test", "Token": "test", '
                             f'"Expiration": "{in_utc(LIFE)}"}}').encode()

        self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"http://127.0.0.1:{Server(self, answer).port}/keys"
        # It is given up after 5 s, so that a lease must be shorter to be lost by that.
        self.check_lock_is_kept(lambda: len(calls) > 1, 5)


class CredentialProcess(StallTest):
    def test_has_the_signals_that_we_were_started_with(self):
        seen = self.at("seen")
        self.process(f"#!{sys.executable}", f"""
with open("/proc/self/status") as status, open({seen!r}, "w") as seen:
    seen.writelines(line for line in status if line.startswith("SigBlk"))
print('{{"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "test"}}')
""")
        for words in [["list"], ["run", "job", "--", "true"]]:
            self.run_ok(*words, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []))
            with self.subTest(command=words[0]):
                self.assertEqual(read(seen).split(), ["SigBlk:", "0" * 16])
            os.remove(seen)


class Clock(StallTest):
    """This machine's clock and that of STS differ."""

    ROLE = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>test</AccessKeyId><SecretAccessKey>test</SecretAccessKey><SessionToken>test</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""

    def check(self, hours, code, message):
        """STS is so many hours ahead, and refuses with this what is signed five minutes off its own time."""
        signed = []

        def answer(request):
            now = time.time() + hours * 3600
            date = {"Date": email.utils.formatdate(now, usegmt=True), "Content-Type": "text/xml"}
            signed.append(request.headers["X-Amz-Date"])
            moment = time.strptime(signed[-1] + " UTC", "%Y%m%dT%H%M%SZ %Z")
            if abs(now - email.utils.mktime_tz((*moment[:9], 0))) < 300:
                return 200, date, self.ROLE
            return 403, date, (f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender'
                               f"</Type><Code>{code}</Code><Message>{message}: {signed[-1]} is not near "
                               f"{in_utc(hours * 3600, '%Y%m%dT%H%M%SZ')}</Message></Error></ErrorResponse>").encode()

        server = Server(self, answer)
        code, _, err = self.run_it("list", env={"AWS_PROFILE": "role", "AWS_REGION": "us-east-1",
                                                "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{server.port}"})
        self.assertEqual((code, len(signed)), (0, 2), err)

    def test_a_role_is_assumed_by_the_time_of_sts(self):
        self.configure("[profile role]\nrole_arn = arn:aws:iam::123456789012:role/test\nsource_profile = keys\n"
                       "[profile keys]\naws_access_key_id = test\naws_secret_access_key = test\n")
        for hours, code, message in [(1, "SignatureDoesNotMatch", "Signature expired"),
                                     (-1, "SignatureDoesNotMatch", "Signature not yet current"),
                                     (1, "RequestExpired", "Request has expired")]:
            with self.subTest(hours=hours, code=code):
                self.check(hours, code, message)


def run_test(name):
    return subprocess.run([sys.executable, "-W", "ignore", __file__, name], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def main():
    """Each test in a process of its own, all at a time: they mostly wait."""
    names = [f"{name}.{test}" for name, value in list(globals().items())
             if isinstance(value, type) and issubclass(value, StallTest) and value is not StallTest
             for test in unittest.TestLoader().getTestCaseNames(value)]
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        results = list(pool.map(run_test, names))
    for result in results:
        print(result.stdout, end="")
    sys.exit(0 if all(result.returncode == 0 for result in results) else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        harness.main()
    main()
