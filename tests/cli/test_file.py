#!/usr/bin/env python3
"""A store in a file: clocks that disagree, files that go away, links, mounts, and volumes that fill."""
import contextlib
import datetime
import functools
import http.client
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from harness import DYNAMODB, ENOUGH, HOLDFAST, CommandTest, main, read, wait_until

HOUR, YEAR = 3600, 365 * 86400
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BIND = 'mount --bind "$0" "$1" && shift && exec "$@"'
# What a busy machine may need between two readings of a clock, in seconds.
SLACK = 30

# Moves the wall clock of whoever loads it by FAKE_WALL_STEP seconds, and calls every file system FAKE_FS_TYPE.
SHIM = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ret)
{
    const char *step = getenv("FAKE_WALL_STEP");
    int result = (int)syscall(SYS_clock_gettime, id, ret);
    if (result == 0 && step && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) ret->tv_sec += atol(step);
    return result;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret) *ret = now.tv_sec;
    return now.tv_sec;
}

static int named(int result, __fsword_t *type)
{
    const char *fake = getenv("FAKE_FS_TYPE");
    if (result == 0 && fake) *type = (__fsword_t)strtoul(fake, NULL, 0);
    return result;
}

int statfs(const char *path, struct statfs *ret) { return named((int)syscall(SYS_statfs, path, ret), &ret->f_type); }
int fstatfs(int fd, struct statfs *ret) { return named((int)syscall(SYS_fstatfs, fd, ret), &ret->f_type); }
int statfs64(const char *path, struct statfs64 *ret)
{
    return named((int)syscall(SYS_statfs, path, ret), &ret->f_type);
}
int fstatfs64(int fd, struct statfs64 *ret) { return named((int)syscall(SYS_fstatfs, fd, ret), &ret->f_type); }
"""

# Writes down when it lived.
LIVES = """
import sys, time
with open(sys.argv[1], 'w') as log:
    while True:
        log.write('%f\\n' % time.clock_gettime(time.CLOCK_BOOTTIME))
        log.flush()
        time.sleep(0.01)
"""

# Fills the log of a store as one does who never copies it back, and dies.
HOGS = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('PRAGMA wal_autocheckpoint = 0')
try:
    for i in range(10000):
        database.execute("INSERT OR REPLACE INTO meta(name, value) VALUES ('test', ?)", [i])
except sqlite3.OperationalError as error:
    print(error, flush=True)
os._exit(0)
"""


def boot_now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@functools.lru_cache
def can(*command):
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    return False


def can_mount():
    return can("unshare", "-m", "sh", "-c", f"mount --bind /dev/null {BOOT_ID}")


def can_move_time():
    return can_mount() and can("unshare", "-m", "--time", "--boottime", "1000", "true")


def can_compile():
    return shutil.which("cc") is not None and can("sh", "-c", "echo 'int f(void);' | cc -x c -fsyntax-only -")


needs_mounts = unittest.skipUnless(can_mount(), "needs root, unshare(1) and mounts")
needs_time_namespaces = unittest.skipUnless(can_move_time(), "needs root and time namespaces")
needs_compiler = unittest.skipUnless(can_compile(), "needs cc")


class Service:
    """holdfast serve, wherever it is started."""

    def __init__(self, test, *arguments, **options):
        self.log = tempfile.TemporaryFile("w+")
        test.addCleanup(self.log.close)
        self.process = test.start("serve", "-q", "--listen", "127.0.0.1:0", *arguments, stderr=self.log, **options)
        found = re.search(r"on http://127\.0\.0\.1:(\d+)/", self.process.stdout.readline())
        if not found:
            self.log.seek(0)
            raise AssertionError(f"the service did not start: {self.log.read()}")
        self.port = int(found[1])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ENOUGH)
        test.addCleanup(self.connection.close)

    def call(self, method, path, body=None):
        """Status and JSON."""
        self.connection.request(method, path, body=None if body is None else json.dumps(body),
                                headers={"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def acquire(self, name="job", **body):
        return self.call("POST", f"/v2/locks/{name}/acquire", body)

    def release(self, name, grant):
        return self.call("POST", f"/v2/locks/{name}/release", {"grant": grant})

    def ready(self):
        return self.call("GET", "/readyz")


@unittest.skipIf(DYNAMODB, "this is about files")
class FileTest(CommandTest):
    """Processes that see the machine differently, on one file."""

    def start(self, *arguments, inside=(), env=None, **options):
        """Inside: words before the command, which put it somewhere else."""
        if not inside:
            return super().start(*arguments, env=env, **options)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([*inside, HOLDFAST, *arguments], env={**self.env, **(env or {})}, text=True,
                                   **options)
        self.processes.append(process)
        return process

    def shim(self):
        """A library to be preloaded."""
        path = os.path.join(self.path, "shim.so")
        if not os.path.exists(path):
            with open(path + ".c", "w") as file:
                file.write(SHIM)
            subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", path, path + ".c"], check=True)
        return path

    def preloaded(self, **variables):
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return ["env", f"LD_PRELOAD={self.shim()}", f"ASAN_OPTIONS={options}",
                *[f"{name}={value}" for name, value in variables.items()]]

    def elsewhere(self, identity=None, step=0, boottime=None):
        """A place where the machine has another identity of its boot, and another wall clock."""
        if identity is None:
            identity = f"{uuid.uuid4()}\n"
        path = os.path.join(self.path, "boot-" + uuid.uuid4().hex)
        with open(path, "w") as file:
            file.write(identity)
        space = ["unshare", "-m"]
        if boottime is not None:
            space += ["--time", "--boottime", str(boottime)]
        return [*space, "sh", "-c", BIND, path, BOOT_ID, *self.preloaded(FAKE_WALL_STEP=step)]

    def holder(self, name="job", *options, seconds=120, inside=()):
        mark = os.path.join(self.path, "mark-" + uuid.uuid4().hex)
        process = self.start("run", *options, name, "--", "sh", "-c", f"echo $$ >{mark}; exec sleep {seconds}",
                             inside=inside)
        wait_until(lambda: read(mark).endswith("\n") or process.poll() is not None, what="the lock")
        self.assertIsNone(process.poll(), "the holder has ended")
        return process

    def check_kept_out(self, *arguments, inside=(), holder=None):
        """What was tried did not get the lock, and whoever holds it was not disturbed."""
        code, out, err = self.run_it(*arguments, "--", "echo", "mine too", inside=inside)
        self.assertEqual((code, out), (1, ""), f"two hold the lock; {err}")
        if holder:
            self.assertIsNone(holder.poll(), "the holder has ended")

    def check_refused(self, says, store, **options):
        code, out, err = self.run_it("--store", f"file:{store}", "run", "-n", "job", "--", "echo", "in", **options)
        self.assertNotEqual(code, 0, f"{store} was opened: {out}")
        self.assertIn(code, [64, 69], err)
        self.assertEqual(out, "")
        self.assertRegex(err, re.compile(says, re.I))

    def store_time(self, name, **options):
        """The store's time as a process sees it, in seconds: a first token begins with it."""
        out = self.run_ok("run", "-n", name, "--", "sh", "-c", "echo $HOLDFAST_TOKEN", **options)
        return int(out) / 1e6


@needs_mounts
@needs_compiler
class WallClocks(FileTest):
    """Processes that do not agree on what time it is, nor on which boot of which machine this is."""

    def test_the_wall_clock_is_really_another(self):
        """The other tests mean nothing unless this passes."""
        at = self.store_time("job", inside=self.elsewhere(step=HOUR))
        self.assertAlmostEqual(at, time.time() + HOUR, delta=SLACK)

    def exclude(self, holder_inside, other_inside, *form, lease="20s"):
        """One who lives and holds the lock is not overtaken."""
        self.env["HOLDFAST_STORE"] = f"file:{self.path}/{uuid.uuid4().hex}.db"
        name = "jobs:nightly" if "lockservice" in form else "job"
        form = [*(["--format", *form] if form else []), *(["--lease", lease] if lease else [])]
        self.run_ok(*form, "table", "create", "-q", inside=holder_inside)
        holder = self.holder(name, *form, inside=holder_inside)
        self.check_kept_out(*form, "run", "-n", name, inside=other_inside, holder=holder)
        self.end(holder)

    def test_a_clock_ahead(self):
        self.exclude((), self.elsewhere(step=HOUR))

    def test_a_clock_ahead_without_identity(self):
        self.exclude((), self.elsewhere(identity="", step=HOUR))

    def test_a_holder_whose_clock_is_behind(self):
        self.exclude(self.elsewhere(step=-HOUR), ())

    def test_a_holder_whose_clock_is_behind_without_identity(self):
        self.exclude(self.elsewhere(identity="", step=-HOUR), ())

    def test_a_step_where_nobody_has_an_identity(self):
        self.exclude(self.elsewhere(identity=""), self.elsewhere(identity="", step=HOUR))

    def test_a_clock_behind_and_a_holder_whose_clock_is_ahead(self):
        self.exclude((), self.elsewhere(step=-HOUR))
        self.exclude(self.elsewhere(step=HOUR), ())

    def test_a_step_of_the_wall_clock_alone(self):
        self.exclude((), self.preloaded(FAKE_WALL_STEP=HOUR))
        self.exclude((), self.preloaded(FAKE_WALL_STEP=-HOUR))
        self.exclude(self.preloaded(FAKE_WALL_STEP=-HOUR), ())

    def test_dlock(self):
        self.exclude((), self.elsewhere(step=HOUR), "dlock")

    def test_dlock_and_a_holder_whose_clock_is_behind(self):
        self.exclude(self.elsewhere(step=-HOUR), (), "dlock")

    def test_dlock_with_fencing(self):
        self.exclude((), self.elsewhere(step=HOUR), "dlock", "--fencing")

    def test_lockservice(self):
        self.exclude((), self.elsewhere(step=HOUR), "lockservice")

    def test_single_table(self):
        self.exclude((), self.elsewhere(step=HOUR), "single-table")

    def test_fail_open_that_trusts_the_clock(self):
        self.exclude((), self.elsewhere(step=HOUR), "fail-open", "--trust-clock")

    def test_formats_that_observe(self):
        for form in ["awslabs", "dynamolock", "fail-open", "fail-closed"]:
            with self.subTest(form):
                self.exclude((), self.elsewhere(step=HOUR), form, lease="" if form == "fail-closed" else "20s")

    def test_whoever_waits_for_longer_than_a_lease(self):
        holder = self.holder("job", "--lease", "4s")
        self.check_kept_out("run", "-w", "6s", "job", inside=self.elsewhere(step=HOUR), holder=holder)

    def test_a_dead_holder_is_followed_all_the_same(self):
        """A lease is waited for, by one's own clock."""
        for step in [HOUR, -HOUR]:
            holder = self.holder("job", "--lease", "2s")
            holder.kill()
            self.run_ok("run", "-w", "30s", "job", "true", inside=self.elsewhere(step=step))

    def test_one_who_has_only_looked_moves_nobody(self):
        """Whoever opens the file next, with everything right, must not find the holder dead."""
        holder = self.holder("job", "--lease", "20s")
        self.run_it("get", "job", inside=self.elsewhere(step=HOUR))
        self.check_kept_out("run", "-n", "job", holder=holder)

    def test_one_who_has_only_looked_without_identity_moves_nobody(self):
        holder = self.holder("job", "--lease", "20s")
        self.run_it("get", "job", inside=self.elsewhere(identity="", step=HOUR))
        self.check_kept_out("run", "-n", "job", holder=holder)

    def test_a_lock_is_shown_as_held(self):
        self.holder("job", "--lease", "20s")
        shown = json.loads(self.run_ok("get", "job", "-o", "json", inside=self.elsewhere(step=HOUR)))
        self.assertEqual(shown["state"], "held")

    @needs_time_namespaces
    def test_another_time_namespace(self):
        """Its boot clock is another one: the offset of the others means nothing there."""
        self.exclude((), self.elsewhere(boottime=500000))
        self.exclude(self.elsewhere(boottime=500000), ())

    @needs_time_namespaces
    def test_another_time_namespace_with_a_clock_ahead(self):
        self.exclude((), self.elsewhere(boottime=500000, step=HOUR))

    # ---- services ----

    def services(self):
        """One as usual; one whose clock is ahead."""
        return Service(self), Service(self, inside=self.elsewhere(step=HOUR))

    def test_two_services(self):
        usual, ahead = self.services()
        status, grant = usual.acquire(lease_ms=20000)
        self.assertEqual(status, 200, grant)
        status, answer = ahead.acquire(lease_ms=20000)
        self.assertEqual(status, 423, f"two hold the lock: {grant}, {answer}")
        status, answer = usual.call("POST", "/v2/locks/job/renew", {"grant": grant["grant"]})
        self.assertEqual(status, 200, answer)

    def test_two_services_of_which_the_first_is_behind(self):
        behind = Service(self, inside=self.elsewhere(step=-HOUR))
        usual = Service(self)
        status, grant = behind.acquire(lease_ms=20000)
        self.assertEqual(status, 200, grant)
        status, answer = usual.acquire(lease_ms=20000)
        self.assertEqual(status, 423, f"two hold the lock: {grant}, {answer}")

    def test_two_services_by_v1(self):
        usual, ahead = self.services()
        path = "/v1/jobs/lock/nightly/acquire"
        status, first = usual.call("POST", path, {"instanceId": "host-1", "leaseDuration": 60})
        self.assertEqual((status, first["success"]), (200, True), first)
        status, second = ahead.call("POST", path, {"instanceId": "host-2", "leaseDuration": 60})
        self.assertNotEqual(status, 200, f"two hold the lock: {first}, {second}")

    def test_two_services_by_the_dynamodb_api(self):
        usual, ahead = self.services()
        self.env.update(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y", AWS_EC2_METADATA_DISABLED="true")
        stores = [f"dynamodb://locks?region=x&endpoint=http://127.0.0.1:{service.port}" for service in [usual, ahead]]
        holder = self.holder("job", "--store", stores[0], "--lease", "20s")
        self.check_kept_out("--store", stores[1], "run", "-n", "job", holder=holder)


@needs_mounts
@needs_compiler
class WithoutAProcess(FileTest):
    """A grant whose lease lasts, and nobody has the file open."""

    def test_a_clock_ahead(self):
        self.run_ok("acquire", "-q", "--lease", "1m", "job")
        self.check_kept_out("run", "-n", "job", inside=self.elsewhere(step=HOUR))

    def test_a_clock_ahead_without_identity(self):
        self.run_ok("acquire", "-q", "--lease", "1m", "job")
        self.check_kept_out("run", "-n", "job", inside=self.elsewhere(identity="", step=HOUR))

    def test_a_clock_that_was_behind(self):
        self.run_ok("acquire", "-q", "--lease", "1m", "job", inside=self.elsewhere(step=-HOUR))
        self.check_kept_out("run", "-n", "job")


@needs_mounts
@needs_compiler
class FarAhead(FileTest):
    """A file that was made while the wall clock was a year ahead."""

    def test_the_time_comes_back(self):
        """Nobody lives who has seen that time, the machine was started anew, and its clock is right now."""
        self.run_ok("run", "job", "true", inside=self.elsewhere(step=YEAR))
        self.run_ok("get", "job", inside=self.elsewhere())
        place = self.elsewhere()
        self.holder("job", "--lease", "30s", inside=place)
        shown = json.loads(self.run_ok("get", "job", "-o", "json", inside=place))
        for name in ["since", "expires"]:
            at = datetime.datetime.fromisoformat(shown[name].replace("Z", "+00:00")).timestamp()
            self.assertAlmostEqual(at, time.time(), delta=HOUR, msg=f"{name} is {shown[name]}")

    def test_tokens_do_not_go_back_with_it(self):
        first = int(self.run_ok("run", "job", "-c", "echo $HOLDFAST_TOKEN", inside=self.elsewhere(step=YEAR)))
        second = int(self.run_ok("run", "job", "-c", "echo $HOLDFAST_TOKEN", inside=self.elsewhere()))
        self.assertGreater(second, first)


class Gone(FileTest):
    """The file is deleted or replaced while somebody uses it."""

    LEASE = 3

    def setUp(self):
        super().setUp()
        self.room = os.path.join(self.path, "room")
        os.mkdir(self.room)
        self.file = os.path.join(self.room, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"

    def delete(self, *suffixes):
        for suffix in suffixes or ["", "-wal", "-shm"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file + suffix)

    def another(self):
        """A store like ours, of one file."""
        path = os.path.join(self.path, "other.db")
        self.run_ok("--store", f"file:{path}", "run", "job", "true")
        database = sqlite3.connect(path)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        return path

    @contextlib.contextmanager
    def stopped(self, says):
        """What is done inside makes a holder stop its command before the lease ends."""
        log = os.path.join(self.path, "lived")
        process = self.start("--lease", f"{self.LEASE}s", "run", "job", "--", sys.executable, "-c", LIVES, log)
        wait_until(lambda: read(log).count("\n") > 1)
        yield
        done = boot_now()

        def last_sign():
            return float(read(log).rpartition("\n")[0].splitlines()[-1])  # another line may be half written

        while boot_now() < last_sign() + 1:
            if last_sign() > done + 2.5 * self.LEASE:
                self.fail(f"the command still runs, {last_sign() - done:.1f} s later, with a lease of {self.LEASE} s")
            time.sleep(0.05)
        _, err = process.communicate(timeout=ENOUGH)
        self.assertEqual(process.returncode, 75, err)
        self.assertRegex(err, says)
        self.assertLess(last_sign(), done + self.LEASE, err)

    def test_all_of_it_is_deleted(self):
        with self.stopped("was deleted"):
            self.delete()

    def test_only_the_file_itself_is_deleted(self):
        with self.stopped("was deleted"):
            self.delete("")

    def test_only_what_belongs_to_it_is_deleted(self):
        """Whoever comes next would not see what is in the log."""
        with self.stopped("was deleted"):
            self.delete("-wal", "-shm")

    def test_all_of_it_is_deleted_and_made_anew(self):
        with self.stopped("was (deleted|replaced)"):
            self.delete()
            self.run_ok("run", "-n", "other", "true")

    def test_another_one_is_moved_over_it(self):
        other = self.another()
        with self.stopped("was replaced"):
            os.rename(other, self.file)

    def test_a_copy_is_moved_over_it(self):
        """As an editor does it, or a restore from a backup."""
        with self.stopped("was replaced"):
            shutil.copy(self.file, self.file + ".new")
            os.rename(self.file + ".new", self.file)

    def test_its_directory_is_renamed(self):
        with self.stopped("was (deleted|replaced|moved)"):
            os.rename(self.room, self.room + ".old")

    def test_its_directory_is_renamed_and_made_anew(self):
        with self.stopped("was (deleted|replaced|moved)"):
            os.rename(self.room, self.room + ".old")
            os.mkdir(self.room)
            self.run_ok("run", "-n", "other", "true")

    def test_all_of_it_is_deleted_behind_a_symbolic_link(self):
        link = os.path.join(self.path, "link.db")
        os.symlink("room/locks.db", link)
        self.env["HOLDFAST_STORE"] = f"file:{link}"
        with self.stopped("was deleted"):
            self.delete()

    def test_a_waiter_gets_nothing_of_a_deleted_file(self):
        """Whoever opens it by its name would not see that grant."""
        holder = self.holder("job", "--lease", "2s")
        waiter = self.start("--lease", "2s", "run", "-w", "8s", "job", "--", "echo", "mine")
        time.sleep(0.5)
        self.assertIsNone(waiter.poll())
        self.delete()
        holder.kill()
        out, err = waiter.communicate(timeout=ENOUGH)
        self.assertEqual(out, "", "a lock in a file that nobody else can see")
        self.assertEqual(waiter.returncode, 69, err)
        self.assertIn("was deleted", err)

    def test_what_does_no_harm_disturbs_nobody(self):
        holder = self.holder("job", "--lease", "6s")
        shutil.copy(self.file, self.file + ".copy")
        os.utime(self.file)
        os.chmod(self.file, 0o640)
        self.run_ok("run", "other", "true")
        database = sqlite3.connect(self.file, timeout=10, isolation_level=None)
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        os.rename(self.file + ".copy", self.file + ".elsewhere")
        time.sleep(7)
        self.assertIsNone(holder.poll())
        self.assertEqual(self.end(holder), 128 + signal.SIGTERM)

    # ---- the service ----

    def check_service(self, says, change):
        service = Service(self)
        status, grant = service.acquire(lease_ms=20000)
        self.assertEqual(status, 200, grant)
        self.assertEqual(service.ready()[0], 200)
        self.assertEqual(service.call("GET", "/v2/locks/job")[0], 200)
        change()
        wait_until(lambda: service.ready()[0] != 200, seconds=5, what="that it is not ready any more")
        status, answer = service.ready()
        self.assertEqual(status, 503, answer)
        self.assertRegex(answer["message"], says)
        status, answer = service.acquire("other")
        self.assertGreaterEqual(status, 500, f"written to a file that nobody else can see: {answer}")
        self.assertRegex(answer["message"], says)

    def test_a_service_whose_file_is_deleted(self):
        self.check_service("was deleted", self.delete)

    def test_a_service_whose_file_is_replaced(self):
        other = self.another()
        self.check_service("was replaced", lambda: os.rename(other, self.file))

    def test_a_service_whose_directory_is_renamed(self):
        self.check_service("was (deleted|replaced|moved)", lambda: os.rename(self.room, self.room + ".old"))

    def test_a_renewal_by_a_service_whose_file_is_deleted(self):
        """It is answered before the lease has passed: the file does not come back."""
        service = Service(self)
        status, grant = service.acquire(lease_ms=8000)
        self.assertEqual(status, 200, grant)
        self.delete()
        service.connection.sock.settimeout(8)
        try:
            status, answer = service.call("POST", "/v2/locks/job/renew", {"grant": grant["grant"]})
        except TimeoutError:
            self.fail("the renewal was not answered in 8 s")
        self.assertGreaterEqual(status, 500, f"written to a file that nobody else can see: {answer}")
        self.assertIn("was deleted", answer["message"])

    def test_what_a_service_reads_is_not_another_file(self):
        """Its readers may open the file later than its writer."""
        other = self.another()
        service = Service(self)
        status, grant = service.acquire(lease_ms=20000)
        self.assertEqual(status, 200, grant)
        self.delete()
        os.rename(other, self.file)
        for path in ["/v2/locks/job", "/v2/locks"]:
            status, answer = service.call("GET", path)
            self.assertGreaterEqual(status, 500, f"read from another file than was written to: {answer}")
            self.assertRegex(answer["message"], "was (deleted|replaced)")

    def test_writes_to_a_deleted_file_fail_at_once(self):
        """Also if nobody asks whether the service is ready."""
        service = Service(self)
        self.assertEqual(service.acquire()[0], 200)
        self.delete()
        status, answer = service.acquire("other")
        self.assertGreaterEqual(status, 500, f"written to a file that nobody else can see: {answer}")
        self.assertIn("was deleted", answer["message"])


class Names(FileTest):
    """Two names of one file."""

    def setUp(self):
        super().setUp()
        self.here, self.there = os.path.join(self.path, "here"), os.path.join(self.path, "there")
        os.mkdir(self.here)
        os.mkdir(self.there)
        self.file = os.path.join(self.here, "locks.db")
        self.other = os.path.join(self.there, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"

    def check_excludes(self, other, **options):
        """Both ways."""
        holder = self.holder("job", "--lease", "20s")
        self.check_kept_out("--store", f"file:{other}", "run", "-n", "job", holder=holder, **options)
        self.end(holder)
        holder = self.holder("job", "--lease", "20s", "--store", f"file:{other}", **options)
        self.check_kept_out("run", "-n", "job", holder=holder)
        self.end(holder)

    def bound(self, source, target):
        return ["unshare", "-m", "sh", "-c", BIND, source, target]

    @needs_mounts
    def test_a_mount_of_the_file_alone_is_refused(self):
        """Its log would lie in another directory there."""
        self.run_ok("run", "job", "true")
        open(self.other, "w").close()
        self.check_refused("mount.*directory", self.other, inside=self.bound(self.file, self.other))

    @needs_mounts
    def test_a_mount_of_an_empty_file_is_refused(self):
        """As Docker and Kubernetes make one."""
        for path in [self.file, self.other]:
            open(path, "w").close()
        self.check_refused("mount.*directory", self.other, inside=self.bound(self.file, self.other))
        self.assertEqual(os.listdir(self.there), ["locks.db"])

    @needs_mounts
    def test_a_mount_of_the_file_over_itself_is_refused(self):
        self.run_ok("run", "job", "true")
        self.check_refused("mount.*directory", self.file, inside=self.bound(self.file, self.file))

    @needs_mounts
    def test_a_mount_of_the_file_by_a_symbolic_link_is_refused(self):
        self.run_ok("run", "job", "true")
        open(self.other, "w").close()
        link = os.path.join(self.path, "link.db")
        os.symlink("there/locks.db", link)
        self.check_refused("mount.*directory", link, inside=self.bound(self.file, self.other))

    @needs_mounts
    def test_a_mount_of_the_directory_is_fine(self):
        self.run_ok("run", "job", "true")
        self.check_excludes(self.other, inside=self.bound(self.here, self.there))

    def test_a_hard_link_is_refused(self):
        self.run_ok("run", "job", "true")
        os.link(self.file, self.other)
        for path in [self.file, self.other]:
            self.check_refused("hard link", path)
        os.unlink(self.other)
        self.run_ok("run", "-n", "job", "true")

    def test_a_hard_link_in_the_same_directory_is_refused(self):
        self.run_ok("run", "job", "true")
        os.link(self.file, self.file + ".2")
        self.check_refused("hard link", self.file + ".2")

    def test_a_symbolic_link_is_fine(self):
        self.run_ok("run", "job", "true")
        os.symlink("../here/locks.db", self.other)
        self.check_excludes(self.other)
        self.assertEqual(os.listdir(self.there), ["locks.db"])

    def test_a_symbolic_link_to_the_directory_is_fine(self):
        self.run_ok("run", "job", "true")
        os.symlink("here", os.path.join(self.path, "link"))
        self.check_excludes(os.path.join(self.path, "link", "locks.db"))


@needs_compiler
class FileSystems(FileTest):
    """Those that cannot lock or share memory between machines."""

    def check_kind(self, magic, says):
        with self.subTest(says):
            self.check_refused(rf"\b({says})\b", self.file, inside=self.preloaded(FAKE_FS_TYPE=magic))
            self.assertEqual(os.path.exists(self.file), False, "it was made all the same")

    def test_nfs_is_refused(self):
        self.check_kind(0x6969, "NFS")

    def test_smb_is_refused(self):
        for magic in [0x517B, 0xFF534D42, 0xFE534D42]:
            self.check_kind(magic, "SMB|CIFS")

    def test_9p_is_refused(self):
        self.check_kind(0x01021997, "9p")

    def test_fuse_is_refused(self):
        """sshfs, gluster and virtiofs all say so; so do some that would do."""
        self.check_kind(0x65735546, "FUSE")

    def test_other_network_file_systems_are_refused(self):
        for magic, says in [(0x00C36400, "Ceph"), (0x5346414F, "AFS"), (0x6B414653, "AFS"), (0x73757245, "Coda"),
                            (0x0BD00BD0, "Lustre")]:
            self.check_kind(magic, says)

    def test_a_file_that_was_there_already_is_refused(self):
        self.run_ok("run", "job", "true")
        self.check_refused(r"\bNFS\b", self.file, inside=self.preloaded(FAKE_FS_TYPE=0x6969))

    def test_those_of_one_machine_are_fine(self):
        for name, magic in [("ext4", 0xEF53), ("xfs", 0x58465342), ("btrfs", 0x9123683E), ("tmpfs", 0x01021994),
                            ("overlay", 0x794C7630), ("zfs", 0x2FC12FC1), ("f2fs", 0xF2F52010)]:
            with self.subTest(name):
                self.run_ok("run", "-n", "job", "true", inside=self.preloaded(FAKE_FS_TYPE=magic))


class Permissions(FileTest):
    """What is made is for its owner only."""

    def check_modes(self, path):
        holder = self.holder()
        for suffix in ["", "-wal", "-shm"]:
            self.assertEqual(oct(os.stat(path + suffix).st_mode & 0o777), oct(0o600), path + suffix)
        self.end(holder)

    def setUp(self):
        super().setUp()
        self.addCleanup(os.umask, os.umask(0o022))

    def test_a_new_file(self):
        self.check_modes(self.file)

    def test_a_symbolic_link_that_leads_nowhere_yet(self):
        target = os.path.join(self.path, "target.db")
        os.symlink("target.db", self.file)
        self.check_modes(target)

    def test_a_link_to_a_link_that_leads_nowhere_yet(self):
        room, target = os.path.join(self.path, "room"), os.path.join(self.path, "target.db")
        os.mkdir(room)
        os.symlink(target, os.path.join(room, "second"))
        os.symlink("room/second", self.file)
        self.check_modes(target)

    def test_a_link_into_a_directory_that_is_missing(self):
        os.symlink("missing/target.db", self.file)
        code, _, err = self.run_it("run", "job", "true")
        self.assertEqual(code, 69, err)
        self.assertIn("directory", err)
        self.assertEqual(os.listdir(self.path), ["locks.db"])

    def test_a_link_to_itself(self):
        os.symlink("locks.db", self.file)
        code, _, err = self.run_it("run", "job", "true")
        self.assertIn(code, [64, 69], err)


class SmallVolume(FileTest):
    """Little space, and little data."""

    SIZE = 2 << 20

    def volume(self):
        """A file system of its own, that lasts as long as its keeper. Words that lead there; its path from here."""
        room = os.path.join(self.path, "volume")
        os.mkdir(room)
        keeper = subprocess.Popen(["unshare", "-m", "sh", "-c",
                                   'mount -t tmpfs -o size="$0" none "$1" && echo ready && exec sleep 300',
                                   str(self.SIZE), room], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.processes.append(keeper)
        self.assertEqual(keeper.stdout.readline(), "ready\n")
        self.file = os.path.join(room, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"
        return ["nsenter", "-t", str(keeper.pid), "-m"], f"/proc/{keeper.pid}/root{room}"

    def fill(self, path):
        """Leaves not a byte."""
        with open(path, "wb", buffering=0) as file:
            for size in [65536, 4096, 1]:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def pairs(self, service, count):
        """Acquires and releases."""
        for i in range(count):
            name = f"job-{i % 8}"
            status, grant = service.acquire(name)
            self.assertEqual(status, 200, f"acquire {i + 1} of {count}: {grant}")
            status, answer = service.release(name, grant["grant"])
            self.assertEqual(status, 200, f"release {i + 1} of {count}: {answer}")

    def test_the_log_stays_small(self):
        """What the store takes is bounded by its data, not by what was done."""
        service = Service(self)
        self.pairs(service, 300)
        sizes = {suffix: os.path.getsize(self.file + suffix) for suffix in ["", "-wal", "-shm"]}
        self.assertLess(sum(sizes.values()), self.SIZE, sizes)

    @needs_mounts
    def test_thousands_of_writes(self):
        inside, _ = self.volume()
        service = Service(self, inside=inside)
        self.pairs(service, 1500)
        service.process.kill()
        service.process.wait(ENOUGH)
        self.pairs(Service(self, inside=inside), 200)

    @needs_mounts
    def test_thousands_of_renewals(self):
        inside, _ = self.volume()
        service = Service(self, inside=inside)
        service.connection.timeout = 8  # seconds
        status, grant = service.acquire(lease_ms=8000)
        self.assertEqual(status, 200, grant)
        for i in range(1500):
            try:
                status, answer = service.call("POST", "/v2/locks/job/renew", {"grant": grant["grant"]})
            except TimeoutError:
                self.fail(f"renewal {i + 1} was not answered in {service.connection.timeout} s")
            self.assertEqual(status, 200, f"renewal {i + 1}: {answer}")

    @needs_mounts
    def test_a_log_that_has_filled_the_volume(self):
        """An older holdfast has left it behind, or one that was killed."""
        inside, _ = self.volume()
        self.run_ok("run", "job", "true", inside=inside)
        hog = subprocess.run([*inside, sys.executable, "-c", HOGS, self.file], capture_output=True, text=True,
                             timeout=ENOUGH)
        self.assertIn("full", hog.stdout, hog.stderr)
        self.pairs(Service(self, inside=inside), 1)

    @needs_mounts
    def test_a_log_that_has_filled_the_volume_and_the_command(self):
        inside, _ = self.volume()
        self.run_ok("run", "job", "true", inside=inside)
        hog = subprocess.run([*inside, sys.executable, "-c", HOGS, self.file], capture_output=True, text=True,
                             timeout=ENOUGH)
        self.assertIn("full", hog.stdout, hog.stderr)
        self.run_ok("run", "-n", "job", "true", inside=inside)

    @needs_mounts
    def test_somebody_else_fills_the_volume_for_a_while(self):
        inside, outside = self.volume()
        service = Service(self, inside=inside)
        self.pairs(service, 3)
        self.assertEqual(service.ready()[0], 200)
        for round in range(2):
            filler = os.path.join(outside, "filler")
            self.fill(filler)
            # Data that is new needs space that is not there.
            for i in range(50):
                status, answer = service.acquire(f"new-{round}-{i}", data="x" * 50000)
                if status != 200:
                    break
            self.assertEqual((status, answer["error"]), (507, "full"), answer)
            wait_until(lambda: service.ready()[0] != 200, seconds=5, what="that a full store is not ready")
            status, answer = service.ready()
            self.assertEqual(status, 503, answer)
            self.assertRegex(answer["message"], "full|space")
            os.unlink(filler)
            self.pairs(service, 3)
            wait_until(lambda: service.ready()[0] == 200, seconds=5, what="that it is ready again")

    @needs_mounts
    def test_it_is_ready_again_without_a_write_of_ours(self):
        """Whoever balances load sends nobody to a service that is not ready."""
        inside, outside = self.volume()
        service = Service(self, inside=inside)
        self.pairs(service, 3)
        filler = os.path.join(outside, "filler")
        self.fill(filler)
        for i in range(50):
            if service.acquire(f"new-{i}", data="x" * 50000)[0] != 200:
                break
        wait_until(lambda: service.ready()[0] == 503, seconds=5, what="that a full store is not ready")
        os.unlink(filler)
        wait_until(lambda: service.ready()[0] == 200, seconds=5, what="that it is ready again")
        self.pairs(service, 3)


class Killed(FileTest):
    """What was granted stays granted."""

    def test_the_command(self):
        holder = self.holder("job", "--lease", "1m")
        before = self.run_json("get", "job")
        holder.kill()
        holder.wait(ENOUGH)
        after = self.run_json("get", "job")
        for one in [before, before["held_by"][0], after, after["held_by"][0]]:
            del one["left_ms"]
        self.assertEqual(after, before)
        self.check_kept_out("run", "-n", "job")

    def test_the_service(self):
        service = Service(self)
        status, grant = service.acquire(lease_ms=60000)
        self.assertEqual(status, 200, grant)
        service.process.kill()
        service.process.wait(ENOUGH)
        service = Service(self)
        self.assertEqual(service.acquire()[0], 423)
        self.assertEqual(service.call("GET", "/v2/locks/job")[1]["token"], grant["token"])
        status, answer = service.call("POST", "/v2/locks/job/renew", {"grant": grant["grant"]})
        self.assertEqual(status, 200, answer)


@needs_mounts
@needs_compiler
class Together(FileTest):
    """Two open a new file at the same moment."""

    ROUNDS = 20

    def begin(self, name, inside):
        """Waits for a line, takes a lock, and keeps it until the next line."""
        process = subprocess.Popen([*inside, "sh", "-c", 'read line; exec "$@"', "sh", HOLDFAST, "run", "-n", name,
                                    "--", "sh", "-c", "echo $HOLDFAST_TOKEN; read line; exit 0"],
                                   env=self.env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def open_both(self, *places):
        """What each of them takes for the store's time; both live until both have said it."""
        both = [self.begin(f"job-{i}", place) for i, place in enumerate(places)]
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in both]
        for process, line in zip(both, lines):
            _, err = process.communicate("\n", timeout=ENOUGH)
            self.assertEqual(process.returncode, 0, err)
            self.assertNotEqual(line, "", err)
        return [int(line) / 1e6 for line in lines]

    def meta(self):
        database = sqlite3.connect(self.file)
        rows = dict(database.execute("SELECT name, value FROM meta"))
        database.close()
        return rows

    def rounds(self, *steps):
        places = [self.elsewhere(step=step) for step in steps]
        for i in range(self.ROUNDS):
            self.file = os.path.join(self.path, f"locks-{i}.db")
            self.env["HOLDFAST_STORE"] = f"file:{self.file}"
            first, second = self.open_both(*places)
            self.assertAlmostEqual(first, second, delta=SLACK, msg=f"round {i + 1}: {self.meta()}")

    def test_they_agree_on_the_time(self):
        self.rounds(0, 0)

    def test_they_agree_on_the_time_though_their_clocks_do_not(self):
        self.rounds(0, HOUR)


if __name__ == "__main__":
    main()
