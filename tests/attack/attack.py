#!/usr/bin/env python3
"""Hostile clients against the service, while a well-behaved caller is measured: attack.py --command PATH --caller PATH

Each attack runs in a process of its own, at low priority, and checks how it is answered. Meanwhile the caller
acquires, renews and releases locks at a fixed rate, and keeps some. It must not see an error, nor lose a lock; its p99
may not be more than three times its quiet p99, the median of several quiet phases of the same run (two attacks have
bounds of their own, see attacks.py). The memory of the service has a bound for each attack, and comes back within a
minute of the last.

The store is a file in memory: it is the service that is measured, not a disk that others use, too.

A phase that is too slow is repeated, TRIES times at most: this machine has other things to do, but it has not always.
"""
import argparse
import contextlib
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import ground  # noqa: E402
from attacks import ATTACKS, SETTINGS  # noqa: E402
from caller import Caller  # noqa: E402
from target import GOOD, Target  # noqa: E402

MIB = 1 << 20
TRIES = 5
SETTLE_SECONDS = 15  # for the service to notice that the attacker has hung up
MEMORY_MOST = 1024 * MIB  # resident, whatever happens; each attack has a bound of its own (attacks.py)
BACK_SECONDS = 60  # for memory to come back ...
BACK_WITHIN = 32 * MIB  # ... to this much more than at the start
ATTACK_MOST_SECONDS = 180  # for one attack; it is ended then, and has failed

# limit: see Target. Sanitizers and valgrind get a tenth of everything.
TIMED = {"limit": 1000, "rate": 160, "timeout": 2}
UNTIMED = {"limit": 100, "rate": 20, "timeout": 3}


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True, help="the holdfast command")
    parser.add_argument("--caller", required=True, help="the well-behaved caller, built from caller.c")
    parser.add_argument("--only", action="append", metavar="NAME", help="this attack; may be repeated")
    parser.add_argument("--short", action="store_true", help="shorter phases, for CI")
    parser.add_argument("--no-timing", action="store_true",
                        help="smaller attacks; times and memory are not judged: for sanitizers and valgrind")
    parser.add_argument("--under", default="", metavar="COMMAND", help="run the service under this, e.g. valgrind")
    parser.add_argument("--list", action="store_true", help="print the names of the attacks")
    return parser.parse_args()


class Row:
    """What is known of one attack when it is over."""

    def __init__(self, attack):
        self.attack, self.complaints, self.notes = attack, [], []
        self.quiet = self.phase = None
        self.peak = 0

    def print(self):
        mark = "FAIL" if self.complaints else "ok"
        times = " " * 46
        if self.phase and self.quiet:
            p50, p99 = self.quiet
            times = (f"{p50:>7.2f} {p99:>7.2f} {self.phase.p50_ms:>8.2f} {self.phase.p99_ms:>7.2f}"
                     f" {self.phase.p99_ms / max(p99, 0.001):>6.2f}")
        print(f"{self.attack.name:<22} {times} {self.peak / MIB:>7.0f}  {mark:<4} {'; '.join(self.notes)}")
        for complaint in self.complaints:
            print(f"    {complaint}")
        sys.stdout.flush()


class Siege:
    """One service, its caller, and the attacks on it."""

    def __init__(self, args, setting, cleanup):
        self.args, self.timing = args, not args.no_timing
        self.size = UNTIMED if args.no_timing else TIMED
        self.quiet_seconds, self.attack_seconds = (0.8, 2) if args.short else (3, 10)
        if args.no_timing:
            self.quiet_seconds, self.attack_seconds = 0.2, self.attack_seconds / 4
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-attack-", dir=memory()))
        self.target = Target(os.path.abspath(args.command), directory, cleanup, args.under.split(),
                             self.size["limit"], **{"timeout": f"{self.size['timeout']}s", **SETTINGS[setting]})
        self.target.good_jwt = self.target.issuer.token(exp=int(time.time()) + 3600)
        self.caller = Caller(args.caller, self.target.port, GOOD, self.size["rate"], cleanup)
        self.quiet_phases = []
        self.after = Row(Named("after: " + setting))
        time.sleep(self.quiet_seconds)
        self.caller.phase()
        if self.timing:
            for _ in range(3):
                self.measure_quiet()
        self.start_memory = self.target.memory()

    def measure_quiet(self, joins=True):
        self.caller.phase(joins)
        time.sleep(self.quiet_seconds)
        self.quiet_phases.append(self.caller.phase(joins))

    def quiet(self):
        """The median of the quiet phases: p50 and p99, in ms."""
        return (statistics.median(phase.p50_ms for phase in self.quiet_phases),
                statistics.median(phase.p99_ms for phase in self.quiet_phases))

    def run(self, attack):
        row = Row(attack)
        complaints = []
        for attempt in range(TRIES if self.timing else 1):
            complaints = self.try_once(row, attempt)
            if row.complaints or not complaints:
                break
        row.complaints += complaints
        row.print()
        return row

    def try_once(self, row, attempt):
        """Complaints about time, which may be the machine's; others are added to the row."""
        attack, target = row.attack, self.target
        if self.timing:
            self.measure_quiet(attack.joins)
        else:
            self.quiet_phases.append(self.caller.phase(attack.joins))
        before = target.reset_peak()
        asked = target.issuer.asked
        began = time.monotonic()
        complaints, notes = fork(attack, ground.Ground(target, self.attack_seconds, self.size["timeout"], attempt,
                                                       self.args.short))
        phase = self.caller.phase()
        took = time.monotonic() - began
        if not row.phase or phase.p99_ms < row.phase.p99_ms:
            row.phase = phase
        row.notes, row.peak = notes, max(row.peak, target.peak)
        row.complaints += complaints
        self.judge_phase(row, phase)
        if not target.settles(SETTLE_SECONDS):
            row.complaints.append(f"connections of the attacker are still there after {SETTLE_SECONDS} s")
        if target.issuer.asked - asked > 2 + took / 5:
            row.complaints.append(f"the issuer was asked {target.issuer.asked - asked} times in {took:.0f} s")
        if not target.alive():
            raise SystemExit(f"attack: {attack.name}: the service died: {target.end()[0]}")
        if not self.timing:
            return []
        if target.peak - before > attack.memory:
            row.complaints.append(f"grew by {(target.peak - before) / MIB:.0f} MiB, at most {attack.memory / MIB:.0f}")
        if target.peak > MEMORY_MOST:
            row.complaints.append(f"{target.peak / MIB:.0f} MiB resident, at most {MEMORY_MOST / MIB:.0f}")
        row.quiet = p50, p99 = self.quiet()
        slow = []
        if phase.p99_ms > attack.p99 * p99:
            slow.append(f"p99 {phase.p99_ms:.2f} ms, quiet {p99:.2f} ms: more than {attack.p99} times")
        if attack.p50 and phase.p50_ms > attack.p50 * p50:
            slow.append(f"p50 {phase.p50_ms:.2f} ms, quiet {p50:.2f} ms: more than {attack.p50} times")
        return slow

    def judge_phase(self, row, phase):
        if phase.errors or phase.lost:
            row.complaints.append(f"the well-behaved caller had {phase.errors} errors, and lost {phase.lost} locks:\n"
                                  + "    " + phase.said.replace("\n", "\n    "))
        if phase.requests == 0:
            row.complaints.append("the well-behaved caller was not served at all")

    def lift(self):
        """The attacks are over: the locks are still there, and memory is to come back while others are attacked."""
        time.sleep(self.quiet_seconds)
        self.judge_phase(self.after, self.caller.phase())
        last = self.caller.end()
        if last.errors or last.lost or not last.kept:
            self.after.complaints.append(f"of {last.kept} kept locks, {last.lost} were lost; {last.errors} errors: "
                                         + last.said)
        self.target.await_memory(self.start_memory + BACK_WITHIN)

    def end(self):
        """Memory has come back, and the service ends as it should."""
        row, target = self.after, self.target
        if self.timing:
            took = target.memory_back_in(BACK_SECONDS)
            row.peak = target.memory()
            row.notes.append(f"{self.start_memory / MIB:.0f} MiB at the start, {row.peak / MIB:.0f} MiB now")
            if took is None:
                row.complaints.append(f"{row.peak / MIB:.0f} MiB resident {BACK_SECONDS} s after the last attack, "
                                      f"{self.start_memory / MIB:.0f} at the start")
            else:
                row.notes.append(f"back in {took:.0f} s")
        row.complaints += target.end()
        row.print()
        return row


def memory():
    """Where files are in memory: a disk that others use, too, is slow now and then, whoever attacks whom."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Named:
    def __init__(self, name):
        self.name = name


def fork(attack, on):
    """The attack, in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run():
        theirs.send(on.run(attack))
        os._exit(0)  # what belongs to the parent is not cleaned up here
    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        if not ours.poll(ATTACK_MOST_SECONDS):
            return [f"the attack did not end in {ATTACK_MOST_SECONDS} s"], []
        return ours.recv()
    except EOFError:
        return ["the attacker died"], []
    finally:
        process.kill()
        process.join()


def main():
    args = options()
    if args.list:
        print("\n".join(attack.name for attack in ATTACKS))
        return 0
    wanted = [attack for attack in ATTACKS if not args.only or attack.name in args.only]
    if not wanted or len(wanted) < len(set(args.only or [])):
        raise SystemExit("attack: no such attack; --list names them")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{'attack':<22} {'quiet p50/p99 ms':>15} {'attack p50/p99 ms':>16}  ratio     MiB")
    rows, sieges = [], []
    with contextlib.ExitStack() as stack:
        stack.addCleanup = stack.callback
        for setting in SETTINGS:
            attacks = [attack for attack in wanted if attack.setting == setting]
            if attacks:
                sieges.append(Siege(args, setting, stack))
                rows += [sieges[-1].run(attack) for attack in attacks]
                sieges[-1].lift()
        rows += [siege.end() for siege in sieges]
    failed = sum(bool(row.complaints) for row in rows)
    print(f"attack: {len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
