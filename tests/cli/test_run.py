#!/usr/bin/env python3
"""holdfast run: every option, every exit code, signals, terminals, and a lock that is lost."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from harness import ELSEWHERE, ENOUGH, HOLDFAST, CommandTest, Terminal, exit_code, main, of_tables, read, wait_until


class Runs(CommandTest):
    def test_passes_on_arguments_input_and_exit_code(self):
        code, out, err = self.run_it("run", "job", "--", "sh", "-c", 'cat; echo "$1"; exit 7', "sh", "a b",
                                     input="in\n")
        self.assertEqual((code, out, err), (7, "in\na b\n", ""))

    def test_the_dashes_may_be_left_out(self):
        self.assertEqual(self.run_ok("run", "job", "echo", "-n", "x"), "x")

    @of_tables
    def test_a_format_without_tokens_shows_none(self):
        form = ["--format", "awslabs", "--table", "a" + os.urandom(4).hex()]
        self.run_ok(*form, "table", "create", "-q")
        self.assertEqual(self.run_ok(*form, "run", "job", "-c", "echo ${HOLDFAST_TOKEN-unset}"), "unset\n")

    def test_another_limit_is_a_mistake(self):
        holder = self.holder("job", "--limit", "2")
        code, _, err = self.run_it("run", "-E", "0", "--limit", "3", "job", "true")
        self.assertEqual(code, 64)
        self.assertIn("another limit", err)
        self.end(holder)

    def test_tells_the_command_of_its_lock(self):
        out = self.run_ok("--owner", "alice", "run", "job", "--", "env")
        seen = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("HOLDFAST_"))
        self.assertEqual((seen["HOLDFAST_LOCK"], seen["HOLDFAST_OWNER"]), ("job", "alice"))
        again = self.run_ok("run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
        self.assertGreater(int(again), int(seen["HOLDFAST_TOKEN"]))

    def test_a_death_by_signal_is_128_and_its_number(self):
        code, _, _ = self.run_it("run", "job", "--", "sh", "-c", "kill -USR1 $$")
        self.assertEqual(code, 128 + signal.SIGUSR1)

    def test_what_cannot_be_executed(self):
        code, _, err = self.run_it("run", "job", "--", "/nonexistent/program")
        self.assertEqual(code, 127)
        self.assertIn("/nonexistent/program", err)
        plain = os.path.join(self.path, "plain")
        open(plain, "w").close()
        self.assertEqual(self.run_it("run", "job", "--", plain)[0], 126)
        self.assertEqual(self.state("job"), "free")

    def test_a_shell_command(self):
        self.assertEqual(self.run_ok("run", "-c", "echo $((1+1))", "job"), "2\n")
        self.assertEqual(self.run_ok("run", "job", "-c", "echo $((1+2))"), "3\n")

    def test_the_lock_is_free_afterwards(self):
        self.run_it("run", "job", "--", "sh", "-c", "exit 3")
        self.assertEqual(self.state("job"), "free")

    def test_open_files_are_not_passed_on(self):
        out = self.run_ok("run", "job", "--", "sh", "-c", "ls /proc/$$/fd")
        self.assertEqual(out.split(), ["0", "1", "2"])
        out = subprocess.run(["sh", "-c", f"exec 5<&0; {HOLDFAST} run job -- sh -c 'ls /proc/$$/fd'"],
                             env=self.env, capture_output=True, text=True, timeout=ENOUGH).stdout
        self.assertEqual(out.split(), ["0", "1", "2", "5"])

    def test_data_is_stored(self):
        holder = self.holder("job", "--data", "why: a test")
        self.assertEqual(self.run_json("get", "job")["data"], "why: a test")
        self.end(holder)

    def test_works_as_a_cron_line(self):
        env = {"PATH": "/usr/bin:/bin", "HOME": self.path, "HOLDFAST_STORE": self.env["HOLDFAST_STORE"]}
        env.update({k: v for k, v in self.env.items() if k.startswith("AWS_")})
        done = subprocess.run(["/bin/sh", "-c", f"{HOLDFAST} run -n job -- sh -c 'echo done'"], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done\n", ""))

    def test_does_not_hang_up_on_a_closed_pipe(self):
        done = subprocess.run(["bash", "-c", f"{HOLDFAST} run job -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"],
                              env=self.env, capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual(done.stdout, f"y\n{128 + signal.SIGPIPE}\n")


class Waits(CommandTest):
    def test_not_at_all(self):
        holder = self.holder()
        begin = time.monotonic()
        code, out, err = self.run_it("run", "-n", "job", "--", "echo", "never")
        self.assertEqual((code, out, err), (1, "", ""))
        self.assertEqual(self.run_it("run", "--nonblock", "-E", "9", "job", "true")[0], 9)
        self.assertEqual(self.run_it("run", "-nE0", "job", "true")[0], 0)
        self.assertLess(time.monotonic() - begin, ENOUGH / 2)
        self.end(holder)

    def test_at_most_so_long(self):
        holder = self.holder()
        for wait in ["0.3", "300ms"]:
            begin = time.monotonic()
            code, _, err = self.run_it("run", "-w", wait, "job", "true")
            self.assertEqual((code, err), (1, ""))
            self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        code, _, err = self.run_it("-v", "run", "-w", "100ms", "job", "true")
        self.assertIn("held by", err)
        self.assertIn("; waiting", err)
        self.end(holder)

    def test_until_it_is_free(self):
        holder = self.holder()
        waiter = self.start("run", "job", "echo", "mine")
        time.sleep(0.3)
        self.assertIsNone(waiter.poll())
        self.end(holder)
        self.assertEqual(waiter.communicate(timeout=ENOUGH)[0], "mine\n")

    def test_shared_with_others(self):
        first = self.holder("job", "-s")
        second = self.holder("job", "--shared")
        self.assertEqual(self.run_json("get", "job")["holders"], 2)
        self.assertEqual(self.run_it("run", "-n", "job", "true")[0], 1)
        self.assertEqual(self.run_it("run", "-nx", "job", "true")[0], 1)
        self.end(first)
        self.end(second)
        self.run_ok("run", "-w", "30s", "job", "true")

    def test_a_semaphore(self):
        holders = [self.holder("job", "--limit", "2") for _ in range(2)]
        self.assertEqual(self.run_it("run", "-n", "--limit", "2", "job", "true")[0], 1)
        self.end(holders.pop())
        self.run_ok("run", "-w", "30s", "--limit", "2", "job", "true")
        self.end(holders.pop())

    def test_a_signal_ends_the_waiting_and_leaves_nothing(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            holder = self.holder()
            waiter = self.start("run", "job", "true")
            time.sleep(0.3)
            waiter.send_signal(number)
            self.assertEqual(exit_code(waiter.wait(ENOUGH)), 128 + number)
            self.end(holder)
            self.run_ok("run", "-n", "job", "true")

    def test_a_signal_at_any_moment_leaves_nothing(self):
        for i in range(20):
            process = self.start("run", "job", "--", "sleep", "30")
            time.sleep(i * 0.004)
            process.send_signal(signal.SIGINT)
            # Before the command is there, or after it has begun.
            self.assertEqual(exit_code(process.wait(ENOUGH)), 128 + signal.SIGINT)
        self.run_ok("run", "-n", "job", "true")


class Refuses(CommandTest):
    def test_what_makes_no_sense(self):
        for arguments, says in [
            (["run"], "missing NAME"),
            (["run", "job"], "missing COMMAND"),
            (["run", "-n", "-w", "5", "job", "true"], "mutually exclusive"),
            (["run", "-s", "-x", "job", "true"], "mutually exclusive"),
            (["run", "-x", "--limit", "2", "job", "true"], "mutually exclusive"),
            (["run", "-w", "soon", "job", "true"], "invalid duration"),
            (["run", "-E", "256", "job", "true"], "invalid exit code"),
            (["run", "-u", "job"], "release --force"),
            (["run", "--lease", "10s", "--kill-after", "6s", "job", "true"], "half the lease"),
            (["run", "--nonsense", "job", "true"], "unknown option --nonsense"),
            (["run", "-Z", "job", "true"], "unknown option -Z"),
            (["run", "-w"], "needs a value"),
            (["run", "--nonblock=yes", "job", "true"], "takes no value"),
            (["run", "-c", "true", "job", "true"], "not both"),
            (["run", "--lease", "1ms", "job", "true"], "lease of 1 ms"),
            (["run", "", "true"], "must not be empty"),
            (["run", "holdfast:x", "true"], "reserved"),
            (["run", "--limit", "x", "job", "true"], "invalid number"),
            (["run", "--lease", "0", "job", "true"], "cannot be 0"),
            (["--store", "memory:", "run", "job", "true"], "private to this process"),
            (["--format", "nonsense", "run", "job", "true"], "unknown table format"),
            (["--store", "nonsense:", "run", "job", "true"], "is not a store"),
            (["nonsense"], "unknown command"),
            ([], "no command given"),
        ]:
            code, out, err = self.run_it(*arguments)
            self.assertEqual((code, out), (64, ""), arguments)
            self.assertIn(says, err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_a_store_that_cannot_be_reached(self):
        code, _, err = self.run_it("--store", "dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:1",
                                   "run", "job", "true",
                                   env={"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"})
        self.assertEqual(code, 69, err)
        self.assertIn("127.0.0.1:1", err)
        self.assertEqual(err.count("\n"), 1, err)
        code, _, err = self.run_it("--store", f"file:{self.path}/no/such/file", "run", "job", "true")
        self.assertEqual(code, 69, err)


class Signals(CommandTest):
    def test_are_passed_on(self):
        log = os.path.join(self.path, "log")
        for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"]:
            script = (f"import signal,sys,time\n"
                      f"def f(n, _):\n  open({log!r}, 'a').write('got %d' % n); sys.exit(5)\n"
                      f"signal.signal(signal.SIG{name}, f)\n"
                      f"print('ready', flush=True)\n"
                      f"for _ in range(1200): time.sleep(0.05)\n")  # what comes just before a sleep waits for its end
            process = self.start("run", "job", "--", sys.executable, "-c", script)
            self.assertEqual(process.stdout.readline(), "ready\n")
            number = getattr(signal, "SIG" + name)
            process.send_signal(number)
            self.assertEqual(process.wait(ENOUGH), 5)
            self.assertIn(f"got {number:d}", read(log))

    def test_reach_the_whole_group(self):
        mark = os.path.join(self.path, "mark")
        process = self.start("run", "job", "--", "sh", "-c", f"sleep 300 & echo $! >{mark}; wait")
        wait_until(lambda: read(mark).strip())
        self.assertEqual(self.end(process), 128 + signal.SIGTERM)
        wait_until(lambda: not alive(int(read(mark))), what="the grandchild's end")

    def test_killing_us_kills_the_command(self):
        holder = self.holder()
        holder.kill()
        wait_until(lambda: not alive(holder.child), what="the child's end")

    def test_a_signal_that_was_ignored_stays_ignored(self):
        done = subprocess.run(["sh", "-c", f"trap '' HUP; {HOLDFAST} run job -- sh -c 'kill -HUP $$; echo alive'"],
                              env=self.env, capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual(done.stdout, "alive\n")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split(")")[-1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda n, f: open(sys.argv[1] + '.term', 'a').write('x'))
with open(sys.argv[1], 'w') as log:
    while True:
        log.write('%f\\n' % time.clock_gettime(time.CLOCK_BOOTTIME))
        log.flush()
        time.sleep(0.01)
"""


class Loses(CommandTest):
    def stubborn(self, lease, *options):
        """A command that ignores SIGTERM, and writes down when it lived."""
        log = os.path.join(self.path, "lived")
        process = self.start("--lease", lease, "run", *options, "job", "--", sys.executable, "-c", STUBBORN, log)
        wait_until(lambda: read(log).count("\n") > 1)
        return process, log

    @unittest.skipIf(ELSEWHERE, "the file is what can be cut off here")
    def test_a_child_that_ignores_sigterm_is_killed_before_the_lease_ends(self):
        process, log = self.stubborn("8s", "--kill-after", "1s")
        with self.outage():
            _, err = process.communicate(timeout=ENOUGH)
        self.assertEqual(process.returncode, 75, err)
        term = re.search(r"SIGTERM, (\d+) ms before the lease ends", err)
        kill = re.search(r"SIGKILL, (\d+) ms before the lease ends", err)
        self.assertTrue(term and kill, err)
        self.assertGreater(int(term[1]), int(kill[1]))
        self.assertGreater(int(kill[1]), 0)
        self.assertEqual(read(log + ".term"), "x")
        # Whoever comes next begins after the last sign of life.
        last = float(read(log).splitlines()[-1])
        began = float(self.run_ok("run", "job", sys.executable, "-c",
                                  "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))"))
        self.assertLess(last, began)

    @unittest.skipIf(ELSEWHERE, "the file is what can be cut off here")
    def test_a_child_that_obeys_is_not_killed(self):
        process = self.start("--lease", "8s", "run", "job", "--", "sh", "-c",
                             "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(process.stdout.readline(), "ready\n")
        with self.outage():
            _, err = process.communicate(timeout=ENOUGH)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("SIGTERM", err)
        self.assertNotIn("SIGKILL", err)

    @unittest.skipIf(ELSEWHERE, "the file is what can be cut off here")
    def test_a_short_outage_is_survived(self):
        holder = self.holder("job", "--lease", "8s")
        with self.outage():
            time.sleep(1)
        time.sleep(8)
        self.assertIsNone(holder.poll())
        self.assertEqual(self.end(holder), 128 + signal.SIGTERM)

    def test_a_lock_that_is_taken_away(self):
        process, _ = self.stubborn("8s")
        self.run_ok("--owner", "operator", "release", "--force", "--reason", "a test", "job")
        _, err = process.communicate(timeout=ENOUGH)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("operator", err)
        self.assertIn("a test", err)

    def test_someone_who_sleeps_through_the_end(self):
        process, log = self.stubborn("5s")
        process.send_signal(signal.SIGSTOP)
        os.killpg(os.getpgid(int(child_of(process.pid))), signal.SIGSTOP)
        self.run_ok("run", "job", "true")
        count = read(log).count("\n")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(ENOUGH), 75)
        self.assertLessEqual(read(log).count("\n"), count + 1)

    @unittest.skipIf(ELSEWHERE, "the file is what can be cut off here")
    def test_retry_waits_for_the_store(self):
        self.run_ok("run", "job", "true")  # makes the file
        with self.outage():
            process = self.start("--request-timeout", "300ms", "run", "--retry", "job", "echo", "done")
            self.assertIn("trying again", process.stderr.readline())
        self.assertEqual(process.communicate(timeout=ENOUGH)[0], "done\n")


def child_of(pid):
    return read(f"/proc/{pid}/task/{pid}/children").split()[0]


class WithoutListeners(CommandTest):
    """Nobody reads what it says; it must guard all the same."""

    def test_a_blocked_standard_error_stops_no_kill(self):
        for form in ["sh", "python"]:
            log = os.path.join(self.path, "lived-" + form)
            end, full = os.pipe()
            os.set_blocking(full, False)
            try:
                while True:
                    os.write(full, b"x" * 4096)
            except BlockingIOError:
                pass
            os.set_blocking(full, True)
            command = [sys.executable, "-c", STUBBORN, log] if form == "python" else [
                "sh", "-c", f"while :; do date +%s.%N >>{log}; sleep 0.05; done"]
            process = self.start("--lease", "6s", "run", "job", "--", *command, stderr=full)
            os.close(full)
            wait_until(lambda: read(log).count("\n") > 1)
            self.run_ok("release", "--force", "--reason", "a test", "job")
            self.assertEqual(process.wait(ENOUGH), 75)
            os.close(end)

    def test_older_children_of_whoever_became_us_are_left_alone(self):
        mark = os.path.join(self.path, "mark")
        process = subprocess.Popen(
            ["bash", "-c", f"sleep 60 & echo $! >{mark}; exec {HOLDFAST} --lease 6s run job -- sleep 300"],
            env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        wait_until(lambda: self.state("job") == "held")
        self.run_ok("release", "--force", "--reason", "a test", "job")
        self.assertEqual(process.wait(ENOUGH), 75)
        self.assertTrue(alive(int(read(mark))))
        os.kill(int(read(mark)), signal.SIGKILL)

    def test_signals_that_our_caller_ignores(self):
        def ignore():
            for number in [signal.SIGCHLD, signal.SIGHUP, signal.SIGINT]:
                signal.signal(number, signal.SIG_IGN)
        process = self.start("run", "job", "--", "sh", "-c", "exit 3", preexec_fn=ignore)
        self.assertEqual(process.wait(ENOUGH), 3)
        holder = self.holder()
        process = self.start("run", "-w", "1.5s", "job", "true", preexec_fn=ignore)
        time.sleep(0.3)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(ENOUGH), 1)
        self.end(holder)

    def test_closed_standard_files(self):
        done = subprocess.run(["sh", "-c", f"{HOLDFAST} run job -- true <&- >&- 2>&-; echo $?"], env=self.env,
                              capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual(done.stdout, "0\n")
        done = subprocess.run(["sh", "-c", f"{HOLDFAST} acquire --hold job <&-"], env=self.env,
                              capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual(done.returncode, 0)

    def test_what_the_command_has_left_behind_is_killed(self):
        log = os.path.join(self.path, "lived")
        process = self.start("--lease", "6s", "run", "job", "--", "sh", "-c",
                             f"setsid sh -c 'while :; do echo x >>{log}; sleep 0.05; done' & exec sleep 300")
        wait_until(lambda: read(log).count("\n") > 1)
        self.run_ok("release", "--force", "--reason", "a test", "job")
        self.assertEqual(process.wait(ENOUGH), 75)
        count = read(log).count("\n")
        time.sleep(0.3)
        self.assertLessEqual(read(log).count("\n"), count + 1)


class OnATerminal(CommandTest):
    def test_shows_who_is_in_the_way(self):
        holder = self.holder("job", "--owner", "alice@web1")
        terminal = Terminal(self, ["run", "job", "--", "echo", "mine now"])
        terminal.expect(r"waiting for job; held by alice@web1 for ")
        self.end(holder)
        terminal.expect("mine now")
        self.assertEqual(terminal.wait(), 0)

    def test_says_when_it_gives_up(self):
        holder = self.holder()
        terminal = Terminal(self, ["run", "-w", "3s", "job", "true"])
        terminal.expect(r"at most \d")
        self.assertEqual(terminal.wait(), 1)
        self.end(holder)

    def test_is_quiet_if_asked_to(self):
        holder = self.holder()
        terminal = Terminal(self, ["-q", "run", "-w", "1.5s", "job", "true"])
        self.assertEqual(terminal.wait(), 1)
        self.assertEqual(terminal.text, "")
        self.end(holder)

    def test_the_command_has_the_terminal(self):
        terminal = Terminal(self, ["run", "job", "--", "sh", "-c", "echo ready; read a; echo got $a"])
        terminal.expect("ready")
        terminal.send("hello\n")
        terminal.expect("got hello")
        self.assertEqual(terminal.wait(), 0)

    def test_ctrl_c_ends_the_waiting(self):
        holder = self.holder()
        terminal = Terminal(self, ["run", "job", "true"])
        terminal.expect("waiting")
        terminal.send("\x03")
        self.assertEqual(terminal.wait(), 130)
        self.end(holder)

    def test_ctrl_c_reaches_the_command(self):
        terminal = Terminal(self, ["run", "job", "--", "sh", "-c",
                                   "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.1; done"])
        terminal.expect("ready")
        terminal.send("\x03")
        terminal.expect("interrupted")
        self.assertEqual(terminal.wait(), 4)
        self.assertEqual(self.state("job"), "free")

    def test_ctrl_c_ends_a_script(self):
        script = os.path.join(self.path, "script")
        with open(script, "w") as file:
            file.write(f"for i in 1 2 3; do echo round $i; {HOLDFAST} run job -- sleep 30; done; echo end\n")
        terminal = Terminal(self, [script], program="/bin/bash")
        terminal.expect("round 1")
        time.sleep(0.3)
        terminal.send("\x03")
        self.assertEqual(terminal.wait(), 130)
        self.assertNotIn("round 2", terminal.text)

    def test_ctrl_z_and_fg(self):
        terminal = Terminal(self, ["--norc", "-i"], env={"PS1": "prompt> "}, program="/bin/bash")
        terminal.expect("prompt> ")
        terminal.send(f"{HOLDFAST} run job -- sh -c 'echo ready; read a; echo got $a'\n")
        terminal.expect(r"ready\r\n")
        time.sleep(0.2)
        terminal.send("\x1a")
        terminal.expect(r"Stopped.*run job.*\n")
        terminal.send("fg\n")
        terminal.expect("run job")
        terminal.send("hello\n")
        terminal.expect("got hello")
        terminal.send("exit\n")
        terminal.wait()

    def test_a_command_that_reads_the_terminal_itself(self):
        terminal = Terminal(self, ["--norc", "-i"], env={"PS1": "prompt> "}, program="/bin/bash")
        terminal.expect("prompt> ")
        terminal.send(f"echo in | {HOLDFAST} run job -- sh -c 'echo ready; read a </dev/tty; echo got $a'\n")
        terminal.expect(r"ready\r\n")
        terminal.send("hello\n")
        terminal.expect("got hello")
        terminal.send(f"{HOLDFAST} run job -- sh -c 'echo ready; read a </dev/tty; echo got $a' </dev/null\n")
        terminal.expect(r"ready\r\n")
        terminal.send("again\n")
        terminal.expect("got again")
        terminal.send("exit\n")
        terminal.wait()

    def test_in_a_pipeline(self):
        terminal = Terminal(self, ["--norc", "-i"], env={"PS1": "prompt> "}, program="/bin/bash")
        terminal.expect("prompt> ")
        terminal.send(f"{HOLDFAST} run job -- sh -c 'echo ready; read a; echo got $a' | tr a-z A-Z\n")
        terminal.expect(r"READY\r\n")
        terminal.send("hello\n")
        terminal.expect("GOT HELLO")
        terminal.send("exit\n")
        terminal.wait()


class Many(CommandTest):
    def test_two_hundred_one_at_a_time(self):
        count = int(os.environ.get("HOLDFAST_MANY", "200"))
        log, counter = os.path.join(self.path, "log"), os.path.join(self.path, "counter")
        with open(counter, "w") as file:
            file.write("0\n")
        script = (f"n=$(cat {counter}); mkdir {self.path}/inside || echo overlap >>{log}; "
                  f"echo $((n+1)) >{counter}; rmdir {self.path}/inside")
        everybody = [self.start("--lease", "30s", "run", "-w", "5m", "job", "--", "sh", "-c", script)
                     for _ in range(count)]
        for process in everybody:
            _, err = process.communicate(timeout=300)
            self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(read(log), "")
        self.assertEqual(read(counter), f"{count}\n")


if __name__ == "__main__":
    main()
