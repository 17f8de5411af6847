"""What the tests of the command share: running it, with a terminal and without."""
import contextlib
import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

# Whoever started us in the background ignores some; what we start shall not.
for number in [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
               signal.SIGCHLD]:
    signal.signal(number, signal.SIG_DFL)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST_COMMAND", os.path.join(ROOT, "build/dev/src/holdfast")))
DYNAMODB = os.environ.get("HOLDFAST_TEST_STORE", "").startswith("dynamodb:")
SERVED = bool(os.environ.get("HOLDFAST_TEST_SERVED"))  # on a service, which each test has for itself
ELSEWHERE = DYNAMODB or SERVED
of_tables = unittest.skipIf(SERVED, "a service has one table, of its own")
ENOUGH = 60  # seconds; a test that waits so long has failed


def wait_until(condition, seconds=ENOUGH, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")


def exit_code(status):
    """As a shell sees it: a death by signal is 128 and its number."""
    return 128 - status if status < 0 else status


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


class CommandTest(unittest.TestCase):
    """A directory and a store of its own for each test."""

    maxDiff = None

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = self.directory.name
        self.processes = []
        self.addCleanup(self.end_all)
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith("HOLDFAST_") and not name.startswith("XDG_")}
        self.env["HOME"] = self.path
        self.file = os.path.join(self.path, "locks.db")
        if DYNAMODB:
            base = os.environ["HOLDFAST_TEST_STORE"]
            name = "t" + uuid.uuid4().hex
            self.env["HOLDFAST_STORE"] = re.sub(r"^dynamodb://[^?]*", f"dynamodb://{name}", base)
            self.run_ok("table", "create", "-q")
        elif SERVED:
            self.serve()
        else:
            self.env["HOLDFAST_STORE"] = f"file:{self.file}"

    def serve(self):
        """A service on the test's own file, which trusts everybody who can reach it."""
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"
        self.service = self.start("serve", "--listen", "127.0.0.1:0", stderr=subprocess.DEVNULL)
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", self.service.stdout.readline())
        self.assertTrue(found, "the service did not start")
        self.env["HOLDFAST_STORE"] = found.group(1)

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            with contextlib.suppress(Exception):
                process.communicate(timeout=10)
            for stream in [process.stdin, process.stdout, process.stderr]:
                with contextlib.suppress(Exception):
                    stream.close()

    # ---- without a terminal ----

    def start(self, *arguments, env=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([HOLDFAST, *arguments], env={**self.env, **(env or {})}, text=True,
                                   **options)
        self.processes.append(process)
        return process

    def run_it(self, *arguments, input=None, **options):
        """Exit code, standard output, standard error."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, err = process.communicate(input, timeout=ENOUGH)
        return process.returncode, out, err

    def run_ok(self, *arguments, **options):
        code, out, err = self.run_it(*arguments, **options)
        self.assertEqual(code, 0, f"{arguments}: {err}")
        return out

    def run_json(self, *arguments):
        return json.loads(self.run_ok(*arguments, "-o", "json"))

    def state(self, name):
        return self.run_json("get", name)["state"]

    def holder(self, name="job", *options, seconds=120):
        """A process that holds a lock until it is ended."""
        mark = os.path.join(self.path, "mark-" + uuid.uuid4().hex)
        process = self.start("run", *options, name, "--", "sh", "-c", f"echo $$ >{mark}; exec sleep {seconds}")
        wait_until(lambda: read(mark).endswith("\n"), what="the lock")
        process.child = int(read(mark))
        return process

    def end(self, process, how=signal.SIGTERM):
        process.send_signal(how)
        return exit_code(process.wait(ENOUGH))

    # ---- the store cannot be used ----

    @contextlib.contextmanager
    def outage(self):
        """Nobody can write to the file while this lasts."""
        database = sqlite3.connect(self.file, timeout=10, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            database.execute("ROLLBACK")
            database.close()


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, test, arguments, env=None, program=HOLDFAST):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(program, [program, *arguments], {**test.env, "TERM": "xterm", **(env or {})})
            finally:
                os._exit(127)
        self.text = ""
        test.addCleanup(self.close)

    def pump(self, seconds=0.1):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if ready:
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                return False
        return True

    def expect(self, pattern, seconds=ENOUGH):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            if time.monotonic() > end or (not self.pump() and not re.search(pattern, self.text)):
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
        found = re.search(pattern, self.text)
        self.text = self.text[found.end():]
        return found

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, seconds=ENOUGH):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return exit_code(os.waitstatus_to_exitcode(status))
        raise AssertionError(f"still there: {self.text!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def main():
    if DYNAMODB and "AWS_EC2_METADATA_DISABLED" not in os.environ:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    if not os.access(HOLDFAST, os.X_OK):
        sys.exit(f"there is no {HOLDFAST}; set HOLDFAST_COMMAND")
    unittest.main(verbosity=1)
