"""The service under attack: started on a free port of this machine, watched, and stopped by its own process."""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "service"))
import harness  # noqa: E402
import test_auth  # noqa: E402

START_SECONDS = 60
STOP_SECONDS = 60
WATCH_SECONDS = 0.05
CALM_CONNECTIONS = 20

GOOD, WITNESS, MALLORY = "alice-0123456789abcdef", "bob-0123456789abcdef", "mallory-{}-0123456789abcdef"
ADMIN = "carol-0123456789abcdef"
MALLORIES = 10


class Issuer:
    """Signs a JWT, and serves its key; counts how often it is asked for it."""

    def __init__(self, directory, cleanup):
        self.issuer = test_auth.Issuer(cleanup)
        self.key = test_auth.Key(directory, "key", "ES256")
        self.issuer.keys = [self.key]
        self.url = self.issuer.url + "/keys"

    @property
    def asked(self):
        return self.issuer.asked

    def token(self, **more):
        return self.key.token(**more)


def write_rules(directory):
    """Everybody may have locks; hostile callers have tables of their own, too."""
    path = os.path.join(directory, "rules")
    with open(path, "w") as file:
        file.write("* read,lock,force *\n")
        file.writelines(f"owner:mallory-{i} read,write table:mallory-*\n" for i in range(MALLORIES))
    return path


class Target(harness.Service):
    """`limit` is the share of one caller, and of one address, in connections, waiters, sessions and streams."""

    def __init__(self, command, directory, cleanup, under=(), limit=1000, timeout="3s", options=(), stalled_log=False,
                 tables=False):
        self.limit, self.stalled = limit, None
        self.issuer = Issuer(directory, cleanup)
        tokens = os.path.join(directory, "tokens")
        with open(tokens, "w") as file:
            file.write(f"{GOOD} alice\n{WITNESS} bob\n{ADMIN} carol admin\n")
            for i in range(MALLORIES):
                file.write(f"{MALLORY.format(i)} mallory-{i}\n")
        self.args = [*under, command, "--store", f"file:{directory}/locks.db", "serve", "--listen", "127.0.0.1:0",
                     "--tokens", tokens, "--jwt-jwks", self.issuer.url, "--jwt-audience", "locks",
                     "--client-timeout", timeout, "--max-connections", str(10 * limit),
                     "--max-waiters", str(10 * limit), "--max-sessions", str(10 * limit)]
        for what in ["connections-per-address", "waiters-per-caller", "sessions-per-caller", "streams-per-caller"]:
            self.args += [f"--max-{what}", str(limit)]
        self.args += ["--max-locks-per-caller", "100000", "--max-data-per-caller", str(64 << 20), *options]
        if tables:
            self.args += ["--rules", write_rules(directory)]
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("HOLDFAST_", "XDG_", "JWT_", "LOCKER_"))}
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        self.log = tempfile.TemporaryFile("w+")
        errors = self.log
        if stalled_log:
            self.stalled, errors = os.pipe()
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
                                        env=self.env, text=True)
        if stalled_log:
            os.close(errors)
        cleanup.addCleanup(self.kill)
        self.port = self.read_port()
        self.await_readiness()
        self.peak, self.peak_mutex = 0, threading.Lock()
        self.wanted = self.wanted_at = self.back_at = None
        self.watching = True
        threading.Thread(target=self.watch, daemon=True).start()

    def read_port(self):
        timer = threading.Timer(START_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        found = re.search(r"on http://127\.0\.0\.1:(\d+)/", line)
        if not found:
            raise SystemExit(f"attack: the service did not start: {line}{self.errors()[-2000:]}")
        return int(found.group(1))

    def await_readiness(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.get("/readyz", timeout=START_SECONDS).status == 200:
                return
            time.sleep(0.05)
        raise SystemExit(f"attack: the service is not ready after {START_SECONDS} s")

    def memory(self):
        """Resident, in bytes."""
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def watch(self):
        while self.watching:
            with self.peak_mutex:
                self.peak = max(self.peak, self.memory())
            if self.wanted and not self.back_at and self.memory() <= self.wanted:
                self.back_at = time.monotonic()
            time.sleep(WATCH_SECONDS)

    def reset_peak(self):
        with self.peak_mutex:
            self.peak = self.memory()
        return self.peak

    def await_memory(self, most):
        """From now on: when does it need no more than that?"""
        self.wanted_at, self.wanted = time.monotonic(), most

    def memory_back_in(self, seconds):
        """How long that took; None: longer."""
        while not self.back_at and time.monotonic() < self.wanted_at + seconds:
            time.sleep(WATCH_SECONDS)
        return self.back_at - self.wanted_at if self.back_at else None

    def settles(self, seconds):
        """Whether it comes to have no more connections than the well-behaved caller needs, and no streams."""
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            if self.metric("connections") <= CALM_CONNECTIONS and self.metric("streams") == 0:
                return True
            time.sleep(0.1)
        return not self.alive()

    def alive(self):
        return self.process.poll() is None

    def drain_log(self):
        """Reads what nobody has read: a pipe that stays full would hold up nothing but the last lines."""
        def read():
            with open(self.stalled, "rb", buffering=0) as pipe:
                while pipe.read(65536):
                    pass
        threading.Thread(target=read, daemon=True).start()

    def end(self):
        """Stops it; what was wrong with how it ended, if anything."""
        self.watching = False
        if self.stalled is not None:
            self.drain_log()
        if not self.alive():
            return [f"the service died with {self.process.returncode}: {self.errors()[-3000:]}"]
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return [f"the service did not stop in {STOP_SECONDS} s"]
        text = self.errors()
        if code != 0 or re.search(r"Sanitizer|runtime error|^==\d+== ", text, re.M):
            lines = [line for line in text.splitlines() if not line.startswith("{")]
            return [f"the service ended with {code}: " + "\n".join(lines)[-4000:]]
        return []
