"""The well-behaved caller (caller.c), phase by phase."""
import json
import subprocess
import tempfile
import threading

PATIENCE_SECONDS = 120  # for the line that ends a phase


class Phase:
    def __init__(self, line, errors):
        self.requests, self.lost, self.errors = line["requests"], line["lost"], line["errors"]
        self.p50_ms, self.p99_ms, self.worst_ms = [line[f"{name}_us"] / 1000 for name in ["p50", "p99", "worst"]]
        self.kept = line["kept"]
        self.said = errors


class Caller:
    def __init__(self, program, port, token, rate, cleanup):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([program, str(port), token, str(rate)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, text=True)
        cleanup.addCleanup(self.kill)
        self.read_to = 0

    def complaints(self):
        self.said.seek(self.read_to)
        text = self.said.read()
        self.read_to = self.said.tell()
        return text.strip()

    def read(self):
        timer = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            raise SystemExit(f"attack: the well-behaved caller ended: {self.complaints()}")
        return Phase(json.loads(line), self.complaints())

    def phase(self, joins=True):
        """Ends a phase and begins one, in which it makes new connections or not."""
        self.process.stdin.write("join\n" if joins else "stay\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        """Releases all its locks."""
        self.process.stdin.close()
        phase = self.read()
        self.process.wait(timeout=PATIENCE_SECONDS)
        return phase

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for one in [self.process.stdin, self.process.stdout, self.said]:
            one.close()
