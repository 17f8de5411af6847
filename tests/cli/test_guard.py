#!/usr/bin/env python3
"""The guard of holdfast run: whatever happens to us, the command is gone before its lease ends.

What lived how long is written down by the command itself: witness.c, below, appends the time to a file every 5 ms.
When a lease ends is read in the record. Without arguments all classes run, several at a time, but for UnderLoad, which wants the
machine for itself.
"""
import concurrent.futures
import contextlib
import glob
import json
import os
import pty
import random
import re
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import harness
from harness import DYNAMODB, ENOUGH, HOLDFAST, CommandTest, Terminal, exit_code, read, wait_until

SOON = 6  # seconds; less than any lease here that nobody ends
NOBODY = 65534

# witness LOG FLAGS: lives, and writes down when; at most LONGEST_S.
#   n  SIGTERM is noted in LOG.term, and not obeyed
#   o  SIGTERM is noted in LOG.term, and obeyed
#   g  starts another one, in its process group: LOG.group
#   s  starts another one, in a session of its own: LOG.session
#   d  starts another one, which nobody is the parent of: LOG.daemon
#   r  becomes root
#   x  ends with 7 as soon as those that it starts have begun
# It ends with 3 if there is LOG.end, and becomes nobody if there is LOG.drop. Those that it starts note SIGTERM.
WITNESS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_S = 60, NOBODY = 65534 };

static volatile sig_atomic_t told;

static void on_term(int number)
{
    (void)number;
    told = 1;
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void append(const char *log, const char *ending, long long number)
{
    char path[4096], line[32];
    snprintf(path, sizeof path, "%s%s", log, ending);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int len = snprintf(line, sizeof line, "%lld\n", number);
    if (fd < 0 || write(fd, line, (size_t)len) != len) exit(99);
    close(fd);
}

static int is_there(const char *log, const char *ending)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", log, ending);
    return access(path, F_OK) == 0;
}

static void live(const char *log, int notes, int obeys)
{
    long long end_us = now_us() + LONGEST_S * 1000000LL;
    if (notes || obeys) sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    append(log, ".pid", getpid());
    int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644), dropped = 0;
    if (fd < 0) exit(99);
    for (;;) {
        char line[32];
        long long now = now_us();
        int len = snprintf(line, sizeof line, "%lld\n", now);
        if (write(fd, line, (size_t)len) != len || now > end_us) exit(98);
        if (told) append(log, ".term", now);
        if (told && obeys) exit(0);
        told = 0;
        if (is_there(log, ".end")) exit(3);
        if (!dropped && is_there(log, ".drop")) {
            dropped = 1;
            if (setresuid(NOBODY, NOBODY, NOBODY) != 0) exit(97);
        }
        nap();
    }
}

static void start(const char *log, char how)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", log,
             how == 'g' ? "group" : how == 's' ? "session" : "daemon");
    pid_t pid = fork();
    if (pid < 0) exit(96);
    if (pid == 0) {
        if (how != 'g') setsid();
        if (how == 'd' && fork() != 0) _exit(0);
        live(path, 1, 0);
    }
    if (how == 'd') waitpid(pid, NULL, 0);
    while (!is_there(path, "")) nap();
}

int main(int argc, char **argv)
{
    const char *log = argc > 1 ? argv[1] : "", *flags = argc > 2 ? argv[2] : "";
    if (strchr(flags, 'r') && setresuid(0, 0, 0) != 0) return 95;
    for (const char *flag = flags; *flag; flag++)
        if (strchr("gsd", *flag)) start(log, *flag);
    if (strchr(flags, 'x')) return 7;
    live(log, strchr(flags, 'n') != NULL, strchr(flags, 'o') != NULL);
}
"""

KINDS = {"g": ".group", "s": ".session", "d": ".daemon"}
on_file = unittest.skipIf(DYNAMODB, "the file is what can be cut off here")


def boot():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stat_of(pid, thread=None):
    """State, parent, group, session … of a process or of one of its threads; none if it is gone."""
    text = read_proc(f"/proc/{pid}/task/{thread}/stat" if thread else f"/proc/{pid}/stat")
    return text.split(")")[-1].split()


def read_proc(path):
    try:
        return read(path)
    except (ProcessLookupError, NotADirectoryError):
        return ""


def alive(pid):
    stat = stat_of(pid)
    return bool(stat) and stat[0] not in "ZX"


def threads_of(pid):
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def is_stopped(pid):
    """All of it, not only the thread that was first."""
    states = [stat_of(pid, thread)[:1] for thread in threads_of(pid)]
    return bool(states) and all(state == ["T"] for state in states)


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class GuardTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tools = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.tools.cleanup)
        os.chmod(cls.tools.name, 0o755)
        cls.witness = os.path.join(cls.tools.name, "witness")
        built = subprocess.run(["cc", "-O1", "-o", cls.witness, "-x", "c", "-"], input=WITNESS, text=True,
                               stderr=subprocess.PIPE, check=False)
        if built.returncode != 0:
            raise AssertionError(built.stderr)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_witnesses)

    def end_witnesses(self):
        for path in glob.glob(f"{self.path}/*.pid"):
            pid = int(read(path).split()[0])
            if read_proc(f"/proc/{pid}/comm") == "witness\n":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def terminal(self, arguments, **options):
        terminal = Terminal(self, arguments, **options)
        self.addCleanup(self.end_session, terminal)
        return terminal

    def end_session(self, terminal):
        """What is stopped would stay."""
        for pid in all_pids() if terminal.pid else []:
            if stat_of(pid)[3:4] == [str(terminal.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # ---- commands that write down when they lived ----

    def log(self, name):
        return os.path.join(self.path, "lived-" + name[:40])

    def logs(self, name, flags=""):
        """Of the command, and of all that comes of it."""
        own = [] if "x" in flags else [self.log(name)]
        return own + [self.log(name) + KINDS[flag] for flag in flags if flag in KINDS]

    def pid(self, log):
        return int(read(log + ".pid"))

    def command(self, name, flags=""):
        return ["run", name, "--", self.witness, self.log(name), flags]

    def wait_for(self, name, flags=""):
        for log in self.logs(name, flags):
            wait_until(lambda log=log: read(log).count("\n") > 1, 30, f"a sign of life in {log}")

    def guarded(self, name="job", flags="", lease="4s", **options):
        """A holdfast whose command lives."""
        process = self.start("--lease", lease, *self.command(name, flags), **options)
        process.name, process.flags = name, flags
        self.wait_for(name, flags)
        return process

    def last(self, log):
        return int(read(log).rpartition("\n")[0].rpartition("\n")[2]) / 1e6

    def lives_on(self, log):
        count = read(log).count("\n")
        wait_until(lambda: read(log).count("\n") > count + 2, SOON, f"another sign of life in {log}")

    def survivors(self, process):
        return [log for log in self.logs(process.name, process.flags) if alive(self.pid(log))]

    # ---- records ----

    def lease_end(self, name="job"):
        """By the boot clock, which a file's clock is; None if nobody holds the lock."""
        database = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=10)
        try:
            offset_us = database.execute("select value from meta where name = 'clock_offset_us'").fetchone()[0]
            items = [json.loads(row[0]) for row in database.execute("select item from items")]
        finally:
            database.close()
        for item in items:
            if item.get("key", {}).get("S") == name and "expires" in item:
                return int(item["expires"]["N"]) / 1e3 - offset_us / 1e6
        return None

    def is_renewed(self, name="job", times=2, seconds=SOON):
        for _ in range(times):
            end = self.lease_end(name)
            self.assertIsNotNone(end)
            wait_until(lambda end=end: (self.lease_end(name) or 0) > end, seconds, "a renewal")

    def late(self, processes, ends):
        """Waits for all leases to end, or all commands; says which of them were seen alive afterwards."""
        def is_over():
            return all(boot() > ends[process.name] + 0.3 or not self.survivors(process) for process in processes)
        wait_until(is_over, max(ends.values()) - boot() + 10, "the end of the leases")
        found = []
        for process in processes:
            for log in self.logs(process.name, process.flags):
                after = self.last(log) - ends[process.name]
                if after >= 0:
                    found.append(f"{os.path.basename(log)} lived {after * 1000:.0f} ms after its lease ended"
                                 f"{', and lives on' if alive(self.pid(log)) else ''}")
        return found

    def check_outage(self, processes):
        """Nobody can write to the store any more: all commands must be gone when their leases end."""
        with self.outage():
            ends = {process.name: self.lease_end(process.name) for process in processes}
            self.assertNotIn(None, ends.values())
            self.assertEqual(self.late(processes, ends), [])


# ---- a file system that does not take anything ----

class Frozen:
    """A small file system that can be frozen: who writes to it waits until it is thawed, and no signal wakes him."""

    def __init__(self, test):
        self.path = os.path.join(test.path, "frozen")
        image = os.path.join(test.path, "image")
        if os.geteuid() != 0:
            test.skipTest("only root can mount a file system to freeze")
        os.mkdir(self.path)
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        for command in [["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, self.path]]:
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError as error:
                test.skipTest(str(error))
            if done.returncode != 0:
                test.skipTest(f"no file system to freeze here: {done.stderr.strip()}")
        test.addCleanup(self.unmount)

    def unmount(self):
        subprocess.run(["umount", "-l", self.path], check=True)

    @contextlib.contextmanager
    def freeze(self):
        """It thaws also if this test is killed: then the pipe has an end."""
        script = 'fsfreeze -f "$1" && echo frozen && read line; fsfreeze -u "$1"'
        ice = subprocess.Popen(["sh", "-c", script, "sh", self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)

        def thaw():
            if not ice.stdin.closed:
                ice.stdin.close()
                ice.wait(10)
                ice.stdout.close()
        try:
            if ice.stdout.readline() != "frozen\n":
                raise unittest.SkipTest("this file system cannot be frozen")
            yield thaw
        finally:
            thaw()


def fill(fd, sizes=(4096, 100, 1)):
    """Until it takes nothing more; whoever moves the bytes on is given the time to."""
    os.set_blocking(fd, False)
    for size in sizes:
        for _ in range(5):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(fd, b"x" * size)
            time.sleep(0.02)
    os.set_blocking(fd, True)


def can_be_written(fd):
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return poll.poll(0) == [(fd, select.POLLOUT)]


class BlockedStandardError(GuardTest):
    """Who cannot say that he kills must kill all the same."""

    @on_file
    def test_a_frozen_file_stops_no_kill(self):
        frozen = Frozen(self)
        with open(os.path.join(frozen.path, "log"), "w") as log:
            processes = [
                self.guarded("ignores", "n", stderr=log),
                # It obeys, what it has started does not.
                self.guarded("handles", "os", stderr=log),
            ]
        with frozen.freeze():
            self.check_outage(processes)
        for process in processes:
            self.assertEqual(process.wait(ENOUGH), 75)

    @on_file
    def test_a_frozen_file_stops_no_kill_of_a_lock_that_is_taken_away(self):
        frozen = Frozen(self)
        with open(os.path.join(frozen.path, "log"), "w") as log:
            process = self.guarded("job", "ns", lease="6s", stderr=log)
        end = self.lease_end()
        with frozen.freeze():
            self.run_ok("release", "--force", "--reason", "a test", "job")
            self.assertEqual(self.late([process], {"job": end}), [])
        self.assertEqual(process.wait(ENOUGH), 75)

    def unread(self):
        """A terminal that nobody reads."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        return master, slave

    @on_file
    def test_a_terminal_that_is_nearly_full_stops_no_kill(self):
        # It says that it can be written, and takes half a message; the rest must wait.
        master, slave = self.unread()
        process = self.guarded("n" * 900, "n", stderr=slave)  # makes a long message
        fill(slave, [100, 1])
        for _ in range(1000):
            if can_be_written(slave):
                break
            os.read(master, 100)
            time.sleep(0.02)
        self.assertTrue(can_be_written(slave))
        os.close(slave)
        self.check_outage([process])
        self.drain(master, process)

    def drain(self, master, process):
        end = time.monotonic() + ENOUGH
        while process.poll() is None and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    os.read(master, 65536)
        self.assertEqual(process.poll(), 75)

    @on_file
    def test_pipes_and_terminals_that_are_full_stop_no_kill(self):
        end, pipe = os.pipe()
        self.addCleanup(os.close, end)
        _, full = self.unread()
        _, stopped = self.unread()
        processes = [self.guarded(name, flags, stderr=fd)
                     for name, fd in [("pipe", pipe), ("full", full), ("stopped", stopped)]
                     for name, flags in [(name + "-ignores", "n"), (name + "-handles", "os")]]
        fill(pipe)
        fill(full)
        termios.tcflow(stopped, termios.TCOOFF)  # as Ctrl-S does
        for fd in [pipe, full, stopped]:
            self.assertFalse(can_be_written(fd))
            os.close(fd)
        self.check_outage(processes)
        for process in processes:
            self.assertEqual(process.wait(ENOUGH), 75)


class BlockedStore(GuardTest):
    """Beside finding 1: who renews never comes back, and whoever waits for him must not be the guard."""

    @on_file
    def test_a_store_that_hangs_stops_no_kill(self):
        frozen = Frozen(self)
        self.file = os.path.join(frozen.path, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"
        process = self.guarded("job", "ns", lease="4s")
        self.is_renewed(times=1)
        with frozen.freeze():
            # Nothing can be read there now; this is later than the record says.
            self.assertEqual(self.late([process], {"job": boot() + 4}), [])
        self.assertEqual(process.wait(ENOUGH), 75)


class Stopped(GuardTest):
    """Holdfast is stopped, and its command is not."""

    @on_file
    def test_the_command_ends_before_its_lease_though_holdfast_is_stopped(self):
        process = self.guarded("job", "ngsd")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid), SOON, "the stop")
        self.assertEqual(self.late([process], {"job": self.lease_end()}), [])
        self.assertTrue(is_stopped(process.pid))
        for log in [self.log("job"), self.log("job") + ".group"]:
            self.assertNotEqual(read(log + ".term"), "", f"{log} got no SIGTERM")
            self.assertLess(int(read(log + ".term").split()[0]) / 1e6, self.last(log))
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(ENOUGH), 75)

    @on_file
    def test_a_command_that_obeys_is_given_the_time_to(self):
        process = self.guarded("job", "os")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid), SOON, "the stop")
        self.assertEqual(self.late([process], {"job": self.lease_end()}), [])
        self.assertNotEqual(read(self.log("job") + ".term"), "", "it got no SIGTERM")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(ENOUGH), 75)

    @on_file
    def test_a_short_stop_is_survived(self):
        process = self.guarded("job", "n", lease="8s")
        self.is_renewed(times=1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        self.is_renewed(times=2)
        self.assertEqual(read(self.log("job") + ".term"), "")
        self.lives_on(self.log("job"))
        with open(self.log("job") + ".end", "w"):
            self.assertEqual(process.wait(ENOUGH), 3)


class Killed(GuardTest):
    """Holdfast is killed, and all that came of its command is, too."""

    def check_killed(self, process):
        process.kill()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.survivors(process), SOON)
        self.assertEqual([os.path.basename(log) for log in self.survivors(process)], [])

    def test_the_command_and_what_it_has_started_are_killed(self):
        self.check_killed(self.guarded("job", "ng", lease="20s"))

    def test_what_has_left_for_a_session_of_its_own_is_killed(self):
        self.check_killed(self.guarded("job", "ns", lease="20s"))

    def test_what_has_become_a_daemon_is_killed(self):
        self.check_killed(self.guarded("job", "nd", lease="20s"))

    def test_what_has_lost_its_parent_is_killed(self):
        # The command is not the parent: that has ended before.
        log = self.log("job")
        process = self.start("--lease", "20s", "run", "job", "--", "sh", "-c",
                             f"{self.witness} {log} xgsd; exec {self.witness} {log} n")
        process.name, process.flags = "job", "ngsd"
        self.wait_for("job", "ngsd")
        self.check_killed(process)


@on_file
@unittest.skipIf(os.geteuid() != 0, "only root can become somebody else")
class BecameRoot(GuardTest):
    """A command that cannot be killed is not said to have been."""

    def setUp(self):
        super().setUp()
        for path in [self.path, self.tools.name]:
            if os.statvfs(path).f_flag & os.ST_NOSUID:
                self.skipTest(f"{path} has no set-uid programs")
        self.as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        done = subprocess.run([*self.as_nobody, HOLDFAST, "--version"], env=self.env, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"nobody cannot run {HOLDFAST}: {done.stderr}")
        os.chown(self.path, NOBODY, NOBODY)
        os.chown(self.witness, 0, 0)
        os.chmod(self.witness, 0o4755)
        self.err = os.path.join(self.path, "err")

    def unkillable(self):
        with open(self.err, "w") as err:
            process = subprocess.Popen([*self.as_nobody, HOLDFAST, "--lease", "4s", *self.command("job", "rn")],
                                       env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=err)
        self.processes.append(process)
        self.wait_for("job")
        self.assertEqual(os.stat(f"/proc/{self.pid(self.log('job'))}").st_uid, 0)
        self.assertEqual(os.stat(f"/proc/{process.pid}").st_uid, NOBODY)
        return process

    def check_told(self, process):
        with contextlib.suppress(AssertionError):
            wait_until(lambda: "cannot be killed" in read(self.err) or process.poll() is not None, 8)
        self.assertIn("cannot be killed", read(self.err))
        time.sleep(0.5)
        self.assertIsNone(process.poll(), "it waits for the command")
        self.assertTrue(alive(self.pid(self.log("job"))))
        self.assertNotIn("gets SIGKILL", read(self.err))
        self.assertNotIn("was killed", read(self.err))

    def check_ends(self, process):
        open(self.log("job") + ".end", "w").close()
        self.assertEqual(process.wait(SOON), 75, read(self.err))
        self.assertNotIn("was killed", read(self.err))

    def test_it_is_told_when_the_lock_is_taken_away(self):
        process = self.unkillable()
        self.run_ok("release", "--force", "--reason", "a test", "job")
        self.check_told(process)
        self.check_ends(process)

    def test_it_is_told_when_the_store_is_away(self):
        process = self.unkillable()
        with self.outage():
            self.check_told(process)
        self.check_ends(process)

    def test_it_is_tried_again_and_again(self):
        process = self.unkillable()
        self.run_ok("release", "--force", "--reason", "a test", "job")
        wait_until(lambda: re.search("cannot be killed|SIGKILL", read(self.err)), 8, "an attempt to kill")
        time.sleep(0.5)
        self.assertTrue(alive(self.pid(self.log("job"))))
        open(self.log("job") + ".drop", "w").close()  # from now on it can be killed
        wait_until(lambda: not alive(self.pid(self.log("job"))), SOON, "its end")
        self.assertEqual(process.wait(SOON), 75, read(self.err))


class WithoutJobControl(GuardTest):
    """Nobody would say fg."""

    def stopped_in(self, terminal):
        """What is stopped of the terminal's session."""
        stats = {pid: stat_of(pid) for pid in all_pids()}
        return [pid for pid, stat in stats.items() if stat[:1] == ["T"] and stat[3:4] == [str(terminal.pid)]]

    def ctrl_z(self, terminal):
        """Each time the command goes on soon."""
        log = self.log("job")
        for _ in range(3):
            time.sleep(0.2)
            terminal.send("\x1a")
            time.sleep(1)  # to stop, and to go on
            count = read(log).count("\n")
            with contextlib.suppress(AssertionError):
                wait_until(lambda count=count: read(log).count("\n") > count + 2, SOON)
            stopped = [(pid, read_proc(f"/proc/{pid}/comm").strip()) for pid in self.stopped_in(terminal)]
            self.assertEqual(stopped, [], "stopped, and nobody lets them go on")
            terminal.pump()
            self.assertGreater(read(log).count("\n"), count + 2, f"the command does not go on: {terminal.text!r}")
        if not DYNAMODB:
            self.is_renewed(times=1)
        open(log + ".end", "w").close()
        self.assertEqual(terminal.wait(), 3)
        self.assertEqual(self.state("job"), "free")

    def test_ctrl_z_stops_nothing_if_holdfast_leads_the_session(self):
        terminal = self.terminal(["--lease", "16s", *self.command("job")])
        self.wait_for("job")
        self.ctrl_z(terminal)

    def test_ctrl_z_stops_nothing_if_a_shell_without_job_control_leads_the_session(self):
        terminal = self.terminal(["-c", '"$@"; exit $?', "sh", HOLDFAST, "--lease", "16s", *self.command("job")],
                                 program="/bin/sh")
        self.wait_for("job")
        self.ctrl_z(terminal)

    def test_ctrl_z_stops_nothing_if_who_started_holdfast_has_gone(self):
        # It has a group of its own, as a job has, but nobody of its session is its parent.
        script = ("import os, sys, time\n"
                  "end, begin = os.pipe()\n"
                  "if os.fork() == 0:\n"
                  "  pid = os.fork()\n"
                  "  if pid == 0:\n"
                  "    os.setpgid(0, 0)\n"
                  "    os.read(end, 1)\n"
                  "    os.execv(sys.argv[1], sys.argv[1:])\n"
                  "  os.setpgid(pid, pid)\n"
                  "  os.tcsetpgrp(0, pid)\n"
                  "  os._exit(0)\n"
                  "os.wait()\n"
                  "os.write(begin, b'x')\n"
                  "while not os.path.exists(sys.argv[-2] + '.end'): time.sleep(0.05)\n"
                  "time.sleep(1)\n"
                  "sys.exit(3)\n")
        terminal = self.terminal(["-c", script, HOLDFAST, "--lease", "16s", *self.command("job")],
                                 program=sys.executable)
        self.wait_for("job")
        self.ctrl_z(terminal)


class WithJobControl(GuardTest):
    """Who can say fg has the terminal, and nobody else has to wait for it."""

    def shell(self, *words):
        terminal = self.terminal(["--norc", "-i"], env={"PS1": "prompt> "}, program="/bin/bash")
        terminal.expect("prompt> ")
        terminal.send(" ".join(words) + "\n")
        return terminal

    def holdfast_of(self, name):
        """The process that has the command; the command may be its grandchild."""
        pid = self.pid(self.log(name))
        for _ in range(5):
            pid = int(stat_of(pid)[1])
            if read_proc(f"/proc/{pid}/comm") == "holdfast\n":
                return pid
        raise AssertionError("no holdfast above the command")

    def test_ctrl_z_stops_all_and_fg_lets_it_go_on(self):
        terminal = self.shell(HOLDFAST, "--lease", "20s", *self.command("job"))
        self.wait_for("job")
        log, holdfast = self.log("job"), self.holdfast_of("job")
        for _ in range(3):
            terminal.send("\x1a")
            terminal.expect("Stopped")
            terminal.expect("prompt> ")
            wait_until(lambda: is_stopped(holdfast) and is_stopped(self.pid(log)), SOON, "the stop")
            terminal.send("fg\n")
            self.lives_on(log)
        open(log + ".end", "w").close()
        terminal.expect("prompt> ")
        terminal.send("echo code $?\n")
        terminal.expect("code 3")
        terminal.send("exit\n")
        terminal.wait()

    def probe(self):
        """Somebody else wants to write."""
        database = sqlite3.connect(self.file, timeout=2, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            raise AssertionError(f"somebody else cannot write while holdfast is stopped: {error}") from None
        finally:
            database.close()

    @on_file
    def test_nobody_waits_for_who_was_stopped_in_a_write(self):
        # The store takes no bytes for a moment, so that a renewal is under way when Ctrl-Z comes.
        frozen = Frozen(self)
        self.file = os.path.join(frozen.path, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"
        terminal = self.shell(HOLDFAST, "--lease", "8s", *self.command("job"))
        self.wait_for("job")
        holdfast = self.holdfast_of("job")
        self.is_renewed(times=1)
        with frozen.freeze() as thaw:
            wait_until(lambda: any(stat_of(holdfast, thread)[:1] == ["D"] for thread in threads_of(holdfast)), SOON,
                       "a renewal that is under way")
            terminal.send("\x1a")
            wait_until(lambda: stat_of(self.pid(self.log("job")))[0] == "T", SOON, "the command's stop")
            time.sleep(0.3)
            thaw()
        terminal.expect("Stopped", SOON)
        wait_until(lambda: is_stopped(holdfast), SOON, "the stop")
        self.probe()
        terminal.send("fg\n")
        self.lives_on(self.log("job"))
        self.is_renewed(times=1)

    @on_file
    def test_nobody_waits_for_who_was_stopped_while_he_took_the_lock(self):
        # The same for who waits for the lock, of a holder who is dead.
        frozen = Frozen(self)
        self.file = os.path.join(frozen.path, "locks.db")
        self.env["HOLDFAST_STORE"] = f"file:{self.file}"
        holder = self.guarded("job", lease="4s")
        terminal = self.shell(HOLDFAST, "--lease", "8s", "run", "job", "echo", "it-is-ours")

        def waiters():
            return [pid for pid in all_pids() if "it-is-ours" in read_proc(f"/proc/{pid}/cmdline") and
                    read_proc(f"/proc/{stat_of(pid)[1]}/comm") == "bash\n"]

        wait_until(waiters, SOON, "who waits")
        [waiter] = waiters()
        time.sleep(1)  # it has looked, and sleeps
        holder.kill()
        with frozen.freeze() as thaw:
            wait_until(lambda: any(stat_of(waiter, thread)[:1] == ["D"] for thread in threads_of(waiter)), 2 * SOON,
                       "a takeover that is under way")
            terminal.send("\x1a")
            time.sleep(0.5)
            thaw()
        terminal.expect("Stopped", SOON)
        wait_until(lambda: is_stopped(waiter), SOON, "the stop")
        self.probe()
        terminal.send("fg\n")
        terminal.expect("it-is-ours\r\n", SOON)

    @on_file
    def test_nobody_waits_for_who_is_stopped_again_and_again(self):
        # As above, by chance: several that renew often are stopped at any moment.
        names, rounds = [f"job-{i}" for i in range(6)], 0
        jobs = {name: self.shell(HOLDFAST, "--lease", "500ms", *self.command(name)) for name in names}
        for name in names:
            self.wait_for(name)
        holdfasts = {name: self.holdfast_of(name) for name in names}
        end = time.monotonic() + 10
        while time.monotonic() < end and jobs:
            for terminal in jobs.values():
                terminal.send("\x1a")
            stopped = {}
            for name, terminal in jobs.items():
                with contextlib.suppress(AssertionError):  # who is too slow loses his lock, and ends
                    terminal.expect("Stopped", 2)
                    wait_until(lambda name=name: is_stopped(holdfasts[name]), 1)
                    stopped[name] = terminal
            self.probe()
            rounds += 1
            jobs = {}
            for name, terminal in stopped.items():
                terminal.send("fg\n")
            for name, terminal in stopped.items():
                with contextlib.suppress(AssertionError):
                    count = read(self.log(name)).count("\n")
                    wait_until(lambda name=name, count=count: read(self.log(name)).count("\n") > count + 2, 1)
                    jobs[name] = terminal
            time.sleep(random.uniform(0, 0.125))  # a heartbeat
        if rounds < 3:
            self.skipTest("too slow: all have lost their locks")


class UnderLoad(GuardTest):
    """Everybody wants the processors, and the guard must have one in time. Slow; run it alone."""

    COUNT = 8

    @contextlib.contextmanager
    def crowd(self, count, *command, **options):
        """While this lasts, so many of these run."""
        started = []
        try:
            for _ in range(count):
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **options))
            yield
        finally:
            for process in started:
                process.kill()
            for process in started:
                process.wait()

    def check_load(self, flags, apart=True, nice=0):
        """`apart`: each has a session of its own, which some kernels share the processors among."""
        processes = [self.start("--lease", "2s", *self.command(f"job-{i}", flags), start_new_session=apart,
                                preexec_fn=lambda: os.nice(nice)) for i in range(self.COUNT)]
        for i, process in enumerate(processes):
            process.name, process.flags = f"job-{i}", flags
            self.wait_for(process.name, flags)
        # They do not go on for ever if this test is killed.
        busy = ["sh", "-c", "ulimit -t 10; while :; do :; done"]
        with self.crowd(10 * os.cpu_count(), *busy, start_new_session=apart), self.outage():
            ends = {process.name: self.lease_end(process.name) for process in processes}
            processes = [process for process in processes if ends[process.name]]
            # Who was too slow before has lost his lock before.
            self.assertGreaterEqual(len(processes), self.COUNT // 2)
            late = self.late(processes, {process.name: ends[process.name] for process in processes})
        self.assertEqual(late, [])
        for process in processes:
            self.assertEqual(process.wait(ENOUGH), 75)

    @on_file
    def test_the_command_is_gone_before_its_lease_ends(self):
        self.check_load("n")

    @on_file
    def test_what_has_left_the_command_is_gone_before_its_lease_ends(self):
        # It must be found among many that have nothing to do with it.
        with self.crowd(500, "sleep", "60"):
            self.check_load("nsd")

    @on_file
    def test_a_command_of_low_priority_is_gone_before_its_lease_ends(self):
        self.check_load("n", apart=False, nice=19)


class AsBefore(GuardTest):
    """What must not change."""

    def test_what_a_command_leaves_behind_goes_on(self):
        process = self.guarded("job", "xgsd", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual(process.wait(SOON), 7)
        self.assertEqual(self.state("job"), "free")
        time.sleep(0.5)
        for log in self.logs("job", "xgsd"):
            self.assertTrue(alive(self.pid(log)), log)
            self.assertEqual(read(log + ".term"), "")
            self.lives_on(log)

    def test_a_command_that_is_killed_is_137(self):
        process = self.guarded("job", "gsd", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        os.kill(self.pid(self.log("job")), signal.SIGKILL)
        self.assertEqual(exit_code(process.wait(SOON)), 137)
        self.assertEqual(self.state("job"), "free")
        for log in self.logs("job", "gsd")[1:]:
            self.assertTrue(alive(self.pid(log)), log)
            self.lives_on(log)
        self.end_witnesses()
        self.assertEqual(process.stderr.read(), "")

    def test_codes_and_signals(self):
        for script, code in [("exit 0", 0), ("exit 75", 75), ("kill -TERM $$", 143), ("kill -KILL $$", 137),
                             ("kill -SEGV $$", 139), ("(sleep 0.3; kill -CONT $$) & kill -STOP $$; exit 4", 4)]:
            got, _, err = self.run_it("run", "job", "--", "sh", "-c", script)
            self.assertEqual((exit_code(got), err), (code, ""), script)

    @on_file
    def test_a_command_that_is_stopped_alone_keeps_its_lock(self):
        process = self.guarded("job", "", lease="4s")
        command = self.pid(self.log("job"))
        began = boot()
        os.kill(command, signal.SIGSTOP)
        wait_until(lambda: is_stopped(command), SOON, "the stop")
        self.is_renewed(times=4)
        wait_until(lambda: boot() > began + 5)
        self.assertFalse(is_stopped(process.pid))
        self.assertGreater(self.lease_end(), boot())
        self.assertTrue(is_stopped(command))
        os.kill(command, signal.SIGCONT)
        self.lives_on(self.log("job"))
        self.assertEqual(self.end(process), 143)


class TheGuardItself(GuardTest):
    """Hf-guard, which stands between holdfast and the command."""

    def guard_of(self, process):
        found = [pid for pid in all_pids() if stat_of(pid)[1:2] == [str(process.pid)] and
                 read_proc(f"/proc/{pid}/comm") == "hf-guard\n"]
        self.assertEqual(len(found), 1, "holdfast has no child that is called hf-guard")
        return found[0]

    def test_is_the_parent_of_the_command(self):
        process = self.guarded("job")
        self.assertEqual(stat_of(self.pid(self.log("job")))[1], str(self.guard_of(process)))
        self.assertEqual(self.end(process), 143)

    def test_ends_with_holdfast(self):
        process = self.guarded("job")
        guard = self.guard_of(process)
        self.assertEqual(self.end(process), 143)
        self.assertFalse(alive(guard))
        process = self.guarded("other")
        guard = self.guard_of(process)
        process.kill()
        wait_until(lambda: not alive(guard), SOON, "the guard's end")

    def test_if_it_is_killed_so_is_the_command(self):
        with open(os.path.join(self.path, "err"), "w") as err:
            process = self.guarded("job", "ngsd", lease="20s", stderr=err)
        guard = self.guard_of(process)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not self.survivors(process), SOON, "the end of all")
        self.assertIn(exit_code(process.wait(SOON)), (75, 137))
        self.assertNotEqual(read(err.name), "")
        self.assertEqual(self.state("job"), "free")

    def prepared(self, process):
        """The process that will execute the command, forked while the lock is waited for."""
        parents = {pid: stat_of(pid)[1:2] for pid in all_pids()}
        return [pid for pid, parent in parents.items() if parent and parents.get(int(parent[0])) == [str(process.pid)]]

    @on_file
    def test_who_waits_for_orders_may_be_killed_or_stopped_and_goes_with_holdfast(self):
        holder = self.guarded("job")
        out = os.path.join(self.path, "out")
        processes = []
        for _ in range(3):
            with open(out, "a") as file:
                processes.append(self.start("run", "job", "--", "sh", "-c", "echo $HOLDFAST_LOCK", stdout=file))
        wait_until(lambda: all(map(self.prepared, processes)), SOON, "processes that wait for their orders")
        killed, stopped, ended = processes
        os.kill(self.prepared(killed)[0], signal.SIGKILL)
        os.kill(self.prepared(stopped)[0], signal.SIGSTOP)
        [prepared] = self.prepared(ended)
        ended.terminate()
        self.assertEqual(exit_code(ended.wait(SOON)), 143)
        wait_until(lambda: not alive(prepared), SOON, "its end")
        self.assertEqual(self.end(holder), 143)
        self.assertEqual(killed.wait(SOON), 0)
        self.assertEqual(stopped.wait(SOON), 0)
        self.assertEqual(read(out), "job\njob\n")

    @on_file
    def test_signals_before_it_has_the_lock_are_not_the_commands(self):
        for number in [signal.SIGUSR1, signal.SIGTSTP]:
            holder = self.guarded(number.name)
            process = self.start("run", number.name, "--", "echo", "ran", start_new_session=True)
            wait_until(lambda: self.prepared(process), SOON, "the process that waits for its orders")  # pylint: disable=W0640
            os.kill(self.prepared(process)[0], number)
            self.assertEqual(self.end(holder), 143)
            out, _ = process.communicate(timeout=SOON)
            self.assertEqual((process.returncode, out), (0, "ran\n"))

    @on_file
    def test_the_command_is_what_path_leads_to_when_it_starts(self):
        def install(directory, text):
            os.makedirs(os.path.join(self.path, directory), exist_ok=True)
            tool = os.path.join(self.path, directory, "tool")
            with open(tool + ".new", "w") as file:
                file.write(f"#!/bin/sh\necho {text}\n")
            os.chmod(tool + ".new", 0o755)
            os.rename(tool + ".new", tool)

        install("old", "old")
        os.makedirs(os.path.join(self.path, "new"))
        env = {"PATH": f"{self.path}/new:{self.path}/old:{os.environ['PATH']}"}
        holder = self.guarded("job")
        process = self.start("run", "job", "--", "tool", env=env)
        wait_until(lambda: self.prepared(process), SOON, "the process that waits for its orders")
        install("new", "new")
        self.assertEqual(self.end(holder), 143)
        self.assertEqual(process.communicate(timeout=SOON)[0], "new\n")
        install("here", "here")
        for path in [f":{self.path}/old", f"{self.path}/none::{self.path}/old"]:  # an empty entry is this directory
            process = self.start("run", "job", "--", "tool", env={"PATH": path}, cwd=os.path.join(self.path, "here"))
            self.assertEqual(process.communicate(timeout=SOON)[0], "here\n")

    @on_file
    def test_if_it_is_stopped_holdfast_kills(self):
        process = self.guarded("job", "ngsd")
        os.kill(self.guard_of(process), signal.SIGSTOP)
        self.check_outage([process])
        self.assertEqual(process.wait(SOON), 75)


    @on_file
    def test_if_it_is_stopped_while_all_is_well_it_is_made_to_go_on(self):
        process = self.start("--lease", "2s", "run", "job", "--", "sleep", "3")
        wait_until(lambda: self.state("job") == "held", SOON, "the lock")
        os.kill(self.guard_of(process), signal.SIGSTOP)
        self.assertEqual(process.wait(SOON * 2), 0)

    @on_file
    def test_an_election_goes_on_after_it(self):
        started = os.path.join(self.path, "started")
        process = self.start("--lease", "2s", "elect", "job", "--", "sh", "-c", f"echo now >> {started}; exec sleep 60")
        wait_until(lambda: read(started) == "now\n", SOON, "the first term")
        guard = self.guard_of(process)
        with self.outage():
            for _ in range(100):  # it is made to go on, and stopped again
                with contextlib.suppress(ProcessLookupError):
                    os.kill(guard, signal.SIGSTOP)
                time.sleep(0.04)
        with contextlib.suppress(ProcessLookupError):
            os.kill(guard, signal.SIGCONT)
        wait_until(lambda: read(started) == "now\nnow\n", SOON * 3, "the second term")
        self.assertEqual(self.end(process), 143)

    @on_file
    def test_what_it_has_to_say_is_said_when_there_is_room(self):
        process = self.guarded("job", "", lease="30s")
        command = self.pid(self.log("job"))
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(400):
            os.kill(command, signal.SIGTSTP)
            time.sleep(0.002)
            os.kill(command, signal.SIGCONT)
        os.kill(command, signal.SIGKILL)
        wait_until(lambda: not alive(command), SOON, "the command's end")
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(exit_code(process.wait(SOON * 2)), 137)


class AsTheCallerIs(GuardTest):
    """The command gets what holdfast was given."""

    def test_nice_and_signals(self):
        ignores = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_IGN); "
        for before, after, out in [
                (["nice", "-n", "7"], ["nice"], "7\n"),
                (["chrt", "-b", "0"], ["sh", "-c", "chrt -p $$ | head -1 | grep -o SCHED_.*"], "SCHED_BATCH\n"),
                ([sys.executable, "-c", ignores + "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"],
                 ["sh", "-c", "awk '/SigIgn/ {print substr($2, 13)}' /proc/self/status"], "1000\n")]:
            done = subprocess.run([*before, HOLDFAST, "run", "job", "--", *after], env=self.env, capture_output=True,
                                  text=True, timeout=ENOUGH, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, out), (before, done.stderr))

    def test_children_that_were_there_before_live_on(self):
        note = os.path.join(self.path, "older")
        process = subprocess.Popen(["sh", "-c", f'sleep 77 & echo $! > {note}; exec "$0" "$@"', HOLDFAST, "run", "job",
                                    "--", "sleep", "60"], env=self.env, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        wait_until(lambda: self.state("job") == "held", SOON, "the lock")
        older = int(read(note))
        guards = [pid for pid in all_pids() if stat_of(pid)[1:2] == [str(process.pid)] and
                  read_proc(f"/proc/{pid}/comm") == "hf-guard\n"]
        os.kill(guards[0], signal.SIGKILL)
        self.assertEqual(exit_code(process.wait(SOON)), 137)
        self.assertTrue(alive(older))
        os.kill(older, signal.SIGKILL)

    def test_without_proc_nothing_is_started(self):
        done = subprocess.run(["unshare", "-m", "sh", "-c", 'umount -l /proc; exec "$@"', "sh", HOLDFAST, "run", "job",
                               "--", "true"], env=self.env, capture_output=True, text=True, timeout=ENOUGH, check=False)
        if "unshare" in done.stderr or "umount" in done.stderr:
            self.skipTest("needs mounts")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/proc", done.stderr)


def run_class(name):
    return subprocess.run([sys.executable, "-W", "ignore", __file__, name], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def main():
    """Each class in a process of its own, several at a time: they mostly wait for leases to end."""
    classes = [name for name, value in globals().items() if isinstance(value, type) and
               issubclass(value, GuardTest) and value not in (GuardTest, UnderLoad)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run_class, classes))
    for result in results:
        print(result.stdout, end="")
    sys.exit(0 if all(result.returncode == 0 for result in results) else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        harness.main()
    main()
