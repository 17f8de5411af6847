#!/usr/bin/env python3
"""The pages are true: a shell runs the commands of their console blocks and prints the output that they show, and their
C compiles. A command in any other block must be listed here, with the reason why it is not run."""
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import unittest

import harness
from harness import DYNAMODB, ENOUGH, HOLDFAST, ROOT, CommandTest, main

END = "-- end of a command --"
COMMANDS = "run acquire renew release get list watch elect table doctor bench serve".split()
BUILD = os.path.dirname(os.path.dirname(HOLDFAST))
PAGES = ["README.md", "CONTRIBUTING.md"] + sorted(
    os.path.join("docs", name) for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))

# Commands outside of console blocks that this test cannot run: how they begin, and the reason.
NOT_RUN = {
    "make ": "builds and tests for minutes; CI runs these targets, and their names are checked below",
    ".ci/run": "this is CI",
    "sudo ": "changes the machine; tests/package.sh installs into a directory of its own",
    "kubectl ": "needs a cluster; make packaging checks the manifests",
    "cc program.c $(pkg-config --cflags holdfast) -l:libholdfast.a ": "needs an installed library; make deb-test runs it",
    "holdfast-sim --seed 1000000 ": "half a million schedules take minutes",
    "(umask 077; sqlite3 ": "tools/setup does not install sqlite3; the same in Python is run",
    "echo \"store = file:/srv/locks/locks.db\" | sudo ": "changes the machine",
}

# Blocks without commands (figures, files, formulas): how their first lines begin.
TEXTS = {
    "README.md": ["your program    a script", "# /etc/holdfast/config"],
    "docs/ARCHITECTURE.md": ["a program, the command"],
    "docs/COMMAND.md": ["# /etc/holdfast/config", "|------", "holdfast            has the lock", "# crontab",
                        "# a systemd unit"],
    "docs/OPERATIONS.md": ["period  = lease / 4"],
    "docs/PROTOCOL.md": ["1,000,000 schedules"],
    "docs/RECIPES.md": ["env:", "import boto3", "# /etc/cron.d/sync", "# /etc/systemd/system/sync"],
}

# The code around an example in C that is not a whole program.
FRAGMENT = """#include <holdfast.h>
#include <poll.h>
#include <stdio.h>
void example(struct hf_client *client, struct hf_lock *lock, struct hf_error error);
void example(struct hf_client *client, struct hf_lock *lock, struct hf_error error)
{
    (void)client, (void)lock, (void)error;
    %s
}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def read(page):
    with open(os.path.join(ROOT, page)) as file:
        return file.read()


def blocks(page):
    """(kind, lines) for each block: kind is the word after the fence, or "" for a block without one."""
    found, fence, before = [], False, ""
    for line in read(page).splitlines():
        if line.startswith("```"):
            fence = not fence
            if fence:
                found.append((line[3:], []))
        elif fence:
            found[-1][1].append(line)
        elif line.startswith("    ") and before is None:
            found[-1][1].append(line[4:])
            continue
        elif line.startswith("    ") and (not before.strip() or before.startswith("#")):
            found.append(("", [line[4:]]))
            before = None
            continue
        before = line
    return found


def steps(page):
    """(command, lines that it shows) for each command of the console blocks."""
    found = []
    for kind, lines in blocks(page):
        for line in lines if kind == "console" else []:
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> "):
                found[-1] = (found[-1][0] + "\n" + line[2:], [])
            else:
                found[-1][1].append(line)
    return found


def others(page):
    """The commands of blocks that are neither console nor C nor listed in TEXTS."""
    for kind, lines in blocks(page):
        if kind not in ("console", "c") and not lines[0].strip().startswith(tuple(TEXTS.get(page, ()))):
            yield from "\n".join(lines).replace("\\\n", " ").splitlines()


def is_run_elsewhere(command):
    """Commands for AWS, and services, without others beside them; test_commands_for_aws runs them."""
    return (re.match(r"(\w+=\S+ +)*holdfast ", command) and ("dynamodb://" in command or " serve " in command) and
            not re.search(r"[&;|]( |$)", command))


class Values:
    """Text that differs from run to run: ports, … for any text, and hexadecimal digits with … (214ea4e1…) for a value
    that later commands may use. A last line of … stands for any number of lines."""

    def __init__(self):
        self.known, self.ports = {}, {}

    def put(self, command):
        """The command with the known values, and with free ports instead of the page's."""
        for port in re.findall(r"\b(?:808\d|918\d)\b", command):
            self.ports.setdefault(port, str(free_port()))
            command = re.sub(rf"\b{port}\b", self.ports[port], command)
        return re.sub(r"\b[0-9a-f]{4,}…", lambda found: self.known.get(found[0], found[0]), command)

    def fits(self, shown, line):
        names, pattern = [], ""
        for part in re.split(r"(\b[0-9a-f]{4,}…|…)", shown):
            if part == "…":
                pattern += ".*"
            elif part.endswith("…") and part not in self.known:
                names.append(part)
                pattern += "([0-9a-f]+)"
            else:
                pattern += re.escape(self.known.get(part, part))
        for port, other in self.ports.items():
            pattern = re.sub(rf"\b{port}\b", other, pattern)
        found = re.fullmatch(pattern, line)
        if found:
            self.known.update(zip(names, found.groups()))
        return bool(found)


@unittest.skipIf(DYNAMODB, "it brings its own store")
class Pages(CommandTest):
    def setUp(self):
        super().setUp()
        env = {name: value for name, value in self.env.items() if not name.startswith(("HOLDFAST_", "AWS_"))}
        # The library and the simulator of this build; the store and the port of a reader who has set nothing.
        self.values = Values()
        env.update(PATH=":".join([os.path.join(self.path, ".bin"), os.path.dirname(HOLDFAST),
                                  os.path.join(BUILD, "tests"), self.env["PATH"]]),
                   AWS_EC2_METADATA_DISABLED="true", HOLDFAST_STORE=f"file:{self.file}",
                   HOLDFAST_LISTEN=self.values.put("127.0.0.1:8080"),
                   LD_LIBRARY_PATH=os.path.dirname(HOLDFAST), PKG_CONFIG_PATH=os.path.join(self.path, ".bin"))
        self.put_files()
        self.shell = subprocess.Popen(["bash"], env=env, cwd=self.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.processes.append(self.shell)
        self.addCleanup(self.end_what_is_left)

    def put_files(self):
        """The files of a reader: programs to run, curl without a meter (as on a terminal), the library, and a
        compiler, with the flags of this build, since the library may need a sanitizer."""
        os.mkdir(os.path.join(self.path, ".bin"))
        cache = harness.read(os.path.join(BUILD, "CMakeCache.txt"))
        compiler, flags = (re.search(rf"^CMAKE_C_{name}:\w+=(.*)", cache, re.M)[1] for name in ["COMPILER", "FLAGS"])
        package = harness.read(os.path.join(BUILD, "holdfast.pc"))
        package = re.sub("^libdir=.*", f"libdir={os.path.dirname(HOLDFAST)}", package, flags=re.M)
        package = re.sub("^includedir=.*", f"includedir={ROOT}/include", package, flags=re.M)
        for name, text in [("report.sh", "#!/bin/sh\n"), ("sync.sh", "#!/bin/sh\n"), (".curlrc", "silent\n"),
                           (".bin/holdfast.pc", package),
                           (".bin/cc", f"#!/bin/sh\nexec {compiler} {flags} \"$@\"\n")]:
            path = os.path.join(self.path, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)

    def end_what_is_left(self):
        """Kills the services that the page has left in the background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)

    def type(self, command, first=None):
        """The exit code, and the lines that come until the command has ended, or gone into the background and printed
        its first line."""
        timer = threading.Timer(ENOUGH, self.shell.kill)
        timer.start()
        self.shell.stdin.write(f"{command}\necho \"{END} $?\"\n")
        self.shell.stdin.flush()
        lines, code = [], None
        for line in self.shell.stdout:
            line = line.rstrip("\n")
            if line.startswith(END):
                code = int(line[len(END):])
            else:
                lines.append(line)
                if first and self.values.fits(first, line):
                    first = None
            if code is not None and not first:
                break
        timer.cancel()
        return code, lines

    def follow(self, page):
        late = []
        for kind, lines in blocks(page):
            if kind == "c" and "int main(void)" in lines:
                with open(os.path.join(self.path, "job.c"), "w") as file:
                    file.write("\n".join(lines))
        for command, shown in steps(page):
            if re.search(r"&( +#.*)?$", command):  # what it prints may come with the next ones
                late += shown
                code, said = self.type(self.values.put(command), *shown[:1])
                shown = []
            else:
                code, said = self.type(self.values.put(command))
            self.assertEqual(code, 0, f"{command}: {said}")
            for line in said:
                if late and self.values.fits(late[0], line):
                    late.pop(0)
                    continue
                if shown == ["…"]:
                    continue
                self.assertTrue(shown and self.values.fits(shown[0], line), f"{command}: {line!r}, not {shown[:1]}")
                shown = shown[1:]
            self.assertIn(shown, [[], ["…"]], command)
        self.assertEqual(late, [])
        self.shell.stdin.close()
        self.assertEqual(self.shell.wait(ENOUGH), 0)


for name in PAGES:
    if steps(name):
        setattr(Pages, "test_" + re.sub(r"\W", "_", os.path.basename(name)[:-3].lower()),
                lambda self, page=name: self.follow(page))


class Blocks(CommandTest):
    """Everything that is not in a console block."""

    def test_all_blocks_are_found(self):
        for page in PAGES:
            odd = re.search(r"^( +```| *~~~|\t| *<pre).*", read(page), re.M)
            self.assertIsNone(odd, f"{page}: use ``` without indentation: {odd}")
            for kind, lines in blocks(page):
                self.assertTrue(kind == "console" or not any(line.startswith("$ ") for line in lines),
                                f"{page}: {lines[0]}: not a console block")
        self.assertGreater(sum(len(steps(page)) for page in PAGES), 150)

    def test_each_command_is_run_or_listed(self):
        unused = set(NOT_RUN)
        for page in PAGES:
            for command in filter(None, map(str.strip, others(page))):
                reasons = {start for start in NOT_RUN if command.startswith(start)}
                unused -= reasons
                self.assertTrue(reasons or is_run_elsewhere(command),
                                f"{page}: {command}: use a console block, or give a reason in NOT_RUN")
        self.assertEqual(unused, set(), "no page has such a command")

    def test_each_text_is_there(self):
        for page, starts in TEXTS.items():
            firsts = [lines[0].strip() for kind, lines in blocks(page) if kind not in ("console", "c")]
            for start in starts:
                self.assertTrue(any(first.startswith(start) for first in firsts), f"{page} has no block {start!r}")

    def test_settings_are_known(self):
        count = 0
        for lines in (lines for page in PAGES for _, lines in blocks(page) if lines[0] == "# /etc/holdfast/config"):
            path = os.path.join(self.path, "config")
            with open(path, "w") as file:
                file.write("\n".join(lines))
            self.run_ok("--config", path, "list")
            count += 1
        self.assertGreater(count, 0)

    def test_targets_of_make_are_known(self):
        with open(os.path.join(ROOT, "Makefile")) as file:
            targets = set(re.findall(r"^([a-z -]+):(?!=)", file.read(), re.M))
        targets = set(" ".join(targets).split())
        for page in PAGES:
            used = re.findall(r"`make ([^`]+)`", read(page))
            used += [found[1] for found in map(re.compile(r"(?:sudo )?make ([^#&]*)").match, others(page)) if found]
            for target in (word for words in used for word in words.split() if re.fullmatch("[a-z-]+", word)):
                self.assertIn(target, targets, page)

    def test_c_compiles(self):
        count = 0
        for page in PAGES:
            for text in ("\n".join(lines) for kind, lines in blocks(page) if kind == "c"):
                done = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I",
                                       os.path.join(ROOT, "include"), "-x", "c", "-fsyntax-only", "-"],
                                      input=text if "int main(void)" in text else FRAGMENT % text, capture_output=True,
                                      text=True, timeout=ENOUGH)
                self.assertEqual(done.returncode, 0, f"{page}:\n{text}\n{done.stderr}")
                count += 1
        self.assertGreater(count, 2)

    @unittest.skipIf(DYNAMODB, "it brings its own store")
    def test_commands_for_aws(self):
        """A service on this machine takes the place of AWS, and `serve` gets --check."""
        key = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
               "9", "-subj", "/CN=locks", "-keyout", "key.pem", "-out", "cert.pem"]
        subprocess.run(key, cwd=self.path, check=True, capture_output=True, timeout=ENOUGH)
        os.link(os.path.join(self.path, "cert.pem"), os.path.join(self.path, "ca.pem"))
        for name, text in [("tokens", "b1946ac92492d234 web1\n"), ("peer-token", "7c6235b0a00b9d72\n"),
                           ("report.sh", "#!/bin/sh\n")]:
            with open(os.path.join(self.path, name), "w") as file:
                file.write(text)
            os.chmod(os.path.join(self.path, name), 0o700)
        count = 0
        for command in (command for page in PAGES for command in others(page) if is_run_elsewhere(command)):
            command = command.split(" #")[0]
            env = {**self.env, "PATH": os.path.dirname(HOLDFAST) + ":" + self.env["PATH"], "AWS_ACCESS_KEY_ID": "none",
                   "AWS_SECRET_ACCESS_KEY": "none", "AWS_EC2_METADATA_DISABLED": "true"}
            del env["HOLDFAST_STORE"]
            if " serve " in command:
                todo = [command + " --check"]
            else:
                words = shlex.split(command)
                options = words[:next(i for i, word in enumerate(words) if word in COMMANDS)]
                todo = [shlex.join(options + ["table", "create"]), command]
                service = self.start("--store", "memory:", "serve", "--listen", "127.0.0.1:0",
                                     stderr=subprocess.DEVNULL)
                env["AWS_ENDPOINT_URL_DYNAMODB"] = re.search(r"http://[\d.:]+", service.stdout.readline())[0]
            for step in todo:
                done = subprocess.run(["bash", "-c", step], env=env, cwd=self.path, capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=ENOUGH)
                self.assertEqual(done.returncode, 0, f"{step}: {done.stdout}{done.stderr}")
            if " serve " not in command:
                self.end(service)
            count += 1
        self.assertGreater(count, 5)

    def test_options_are_known(self):
        """In prose, in files and in commands that are not run."""
        known, used = {None: self.run_ok("--help")}, 0
        for page in PAGES:
            text = read(page)
            found = re.findall(r"^(?:    |\$ |> ).*", text.replace("\\\n", " "), re.M)
            found += re.findall(r"`(holdfast [^`]*)`", text.replace("\n", " "))
            for line in found:
                for command in re.findall(r"\bholdfast (?!-sim)([^|;&#`)]*)", line):
                    words = command.split(" -- ")[0].split()
                    names = [word for word in words if word in COMMANDS]
                    name = names[0] if names else None
                    if name not in known:
                        known[name] = self.run_ok(name, "--help")
                    for option in re.findall(r"(?<!\S)(--[a-z0-9-]+)", " ".join(words)):
                        used += 1
                        self.assertIn(option, known[name] + known[None], f"{page}: {line.strip()}")
        self.assertGreater(used, 10)


if __name__ == "__main__":
    main()
