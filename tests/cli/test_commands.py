#!/usr/bin/env python3
"""Everything but run: grants, looking, elections, tables, settings, doctor, bench, help."""
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import DYNAMODB, ELSEWHERE, ENOUGH, HOLDFAST, CommandTest, Terminal, main, of_tables, read, wait_until

NOBODY = 65534


class Grants(CommandTest):
    def test_go_from_process_to_process(self):
        out = self.run_ok("acquire", "--lease", "1m", "job")
        grant = re.search(r"^grant +(\S+)$", out, re.M)[1]
        token = int(re.search(r"^token +(\d+)$", out, re.M)[1])
        self.assertRegex(out, r"(?m)^expires +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$")
        self.assertEqual(self.run_it("run", "-n", "job", "true")[0], 1)
        self.assertIn(str(token), self.run_ok("renew", grant))
        self.assertEqual(self.run_json("renew", "--lease", "2m", grant)["token"], token)
        self.assertEqual(self.run_json("get", "job")["lease_ms"], 120000)
        self.run_ok("release", grant)
        self.assertEqual(self.state("job"), "free")
        code, _, err = self.run_it("renew", grant)
        self.assertEqual(code, 75)
        self.assertIn("no longer held", err)
        self.run_ok("release", grant)  # again, as after a lost answer
        other = grant[:-1] + ("0" if grant[-1] != "0" else "1")
        code, _, err = self.run_it("release", other)
        self.assertEqual(code, 75)
        self.assertIn("no longer held", err)

    def test_in_a_script(self):
        grant = self.run_ok("acquire", "-q", "job").strip()
        self.assertTrue(re.fullmatch(r"job#[0-9a-f]{32}", grant))
        self.run_ok("release", grant)
        said = self.run_json("acquire", "job", "--data", "x")
        self.assertEqual(sorted(said), ["expires", "grant", "left_ms", "name", "owner", "token"])
        self.run_ok("release", said["grant"])

    def test_a_grant_that_nobody_can_read_is_given_back(self):
        reader, writer = os.pipe()
        os.close(reader)
        process = self.start("acquire", "-q", "--lease", "60s", "job", stdout=writer)
        os.close(writer)
        process.wait(ENOUGH)
        self.assertEqual(self.state("job"), "free")

    def test_hold_reads_what_it_is_given(self):
        with open("/dev/zero") as zeros:
            process = self.start("acquire", "--hold", "job", stdin=zeros)
            process.stdout.readline()
            self.assertEqual(self.end(process), 143)

    def test_expire(self):
        grant = self.run_ok("acquire", "-q", "--lease", "500ms", "job").strip()
        wait_until(lambda: self.state("job") == "expired")
        self.run_ok("renew", grant)  # nobody has taken it
        self.run_ok("run", "job", "true")
        code, _, err = self.run_it("renew", grant)
        self.assertEqual(code, 75, err)

    def test_are_refused(self):
        grant = self.run_ok("acquire", "-q", "job").strip()
        code, out, err = self.run_it("acquire", "-n", "job")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("held by", err)
        for code in [0, 5, 255]:
            self.assertEqual(self.run_it("acquire", "-n", "-E", str(code), "job")[0], code)
        self.assertEqual(self.run_it("acquire", "-n", "-E", "256", "job")[0], 64)
        for words, says in [
            (["renew", "nonsense"], "invalid grant"),
            (["release", "job"], "--force"),
            (["release", "--force", "job"], "requires --reason"),
            (["release", "--reason", "x", grant], "requires --force"),
            (["acquire", "-s", "other"], "--hold"),
            (["acquire"], "name of a lock"),
            (["acquire", "a", "b"], "unexpected argument"),
        ]:
            code, _, err = self.run_it(*words)
            self.assertEqual(code, 64, words)
            self.assertIn(says, err)
        self.run_ok("release", grant)

    def test_may_be_held_until_the_end_of_input(self):
        process = self.start("acquire", "--lease", "4s", "--hold", "job", stdin=subprocess.PIPE)
        self.assertIn("token", process.stdout.readline())
        time.sleep(5)
        self.assertEqual(self.state("job"), "held")
        process.stdin.close()
        self.assertEqual(process.wait(ENOUGH), 0)
        self.assertEqual(self.state("job"), "free")

    def test_shared_ones_need_somebody_who_holds_them(self):
        process = self.start("acquire", "--hold", "-s", "job", stdin=subprocess.PIPE)
        process.stdout.readline()
        self.assertEqual((self.state("job"), self.run_json("get", "job")["mode"]), ("held", "shared"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(ENOUGH), 143)
        self.assertEqual(self.state("job"), "free")

    def test_can_be_taken_away(self):
        grant = self.run_ok("acquire", "-q", "job").strip()
        self.run_ok("--owner", "operator", "release", "--force", "--reason", "web3 is gone", "job")
        said = self.run_json("get", "job")
        self.assertEqual((said["state"], said["forced_by"], said["forced_reason"]),
                         ("free", "operator", "web3 is gone"))
        self.assertIn("by operator: web3 is gone", self.run_ok("get", "job"))
        self.assertEqual(self.run_it("renew", grant)[0], 75)
        self.assertEqual(self.run_it("release", "--force", "--reason", "again", "job")[0], 1)

    @of_tables
    def test_work_with_the_formats_of_others(self):
        for form, name in [("awslabs", "job"), ("fail-open", "job"), ("dlock", "job"),
                           ("lockservice", "team:job"), ("single-table", "job")]:
            options = ["--format", form, "--table", "t-" + form]
            self.run_ok(*options, "table", "create", "-q")
            grant = self.run_ok(*options, "acquire", "-q", "--lease", "1m", name).strip()
            self.run_ok(*options, "renew", "--lease", "2m", grant)
            self.run_ok(*options, "renew", grant)
            self.assertEqual(self.run_it(*options, "run", "-n", name, "true")[0], 1, form)
            self.run_ok(*options, "release", grant)
            self.run_ok(*options, "run", "-n", name, "true")


class Looks(CommandTest):
    def test_waiters_of_other_processes_are_counted_or_not_told(self):
        self.run_ok("acquire", "--lease", "1m", "job")
        waiting = [self.start("run", "job", "true") for _ in range(3)]
        if DYNAMODB or ELSEWHERE:
            self.assertNotIn("waiters", self.run_json("get", "job"))
        else:
            wait_until(lambda: self.run_json("get", "job")["waiters"] == 3, what="three waiters")
            self.end(waiting.pop())
            wait_until(lambda: self.run_json("list")["locks"][0]["waiters"] == 2, what="two waiters")
        for process in waiting:
            self.end(process)

    def test_at_one(self):
        self.assertEqual(self.state("job"), "free")
        self.assertEqual(self.run_it("get", "-q", "job"), (1, "", ""))
        holder = self.holder("job", "--owner", "alice", "--data", "hello")
        self.assertEqual(self.run_it("get", "-q", "job"), (0, "", ""))
        text = self.run_ok("get", "job")
        for line in [r"state +held", r"holder +alice", r"since +20", r"left +\d+ s", r"lease +20 s",
                     r"token +\d+", r"data +hello"]:
            self.assertRegex(text, f"(?m)^{line}")
        said = self.run_json("get", "job")
        self.assertEqual((said["owner"], said["held"], said["holders"], said["data"]), ("alice", True, 1, "hello"))
        self.end(holder)
        said = self.run_json("get", "job")
        self.assertEqual((said["owner"], said["last_owner"], said["since"]), (None, "alice", None))

    def test_at_all(self):
        self.assertEqual(self.run_ok("list"), "")
        self.assertEqual(self.run_json("list"), {"locks": []})
        for name in ["b", "a", "job-1"]:
            self.run_ok("run", name, "true")
        holder = self.holder("job-2", "--owner", "alice")
        lines = self.run_ok("list", "--all").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["NAME", "a", "b", "job-1", "job-2"])
        self.assertRegex(lines[4], r"^job-2 +held +\d+ m?s +\d+ s +\d+ +alice$")
        self.assertEqual(self.run_ok("list", "-q"), "job-2\n")
        self.assertEqual(self.run_ok("list", "-q", "--held"), "job-2\n")
        self.assertEqual(self.run_it("list", "--held", "--all")[0], 64)
        self.assertEqual(self.run_ok("list", "-qa", "--prefix", "job-"), "job-1\njob-2\n")
        said = self.run_json("list", "--all")["locks"]
        self.assertEqual([lock["name"] for lock in said if lock["held"]], ["job-2"])
        self.end(holder)

    def test_at_more_than_a_page(self):
        if DYNAMODB:
            self.skipTest("the same code")
        script = ";".join(f"{HOLDFAST} -q run n{i:04} true" for i in range(20))
        subprocess.run(["sh", "-c", script], env=self.env, timeout=ENOUGH)
        self.assertEqual(len(self.run_ok("list", "-q", "--all").split()), 20)

    @of_tables
    def test_under_sort_keys(self):
        form = ["--format", "awslabs", "--table", "sorted", "--keep-on-release"]
        self.run_ok(*form, "--sort-key", "range=one", "table", "create", "-q")
        self.run_ok(*form, "--sort-key", "range=one", "run", "job", "true")
        self.run_ok(*form, "--sort-key", "range=two", "run", "job", "true")
        self.assertEqual(len(self.run_ok(*form, "--sort-key", "range=one", "list", "-qa").split()), 1)
        said = self.run_json(*form, "--sort-key", "range=one", "list", "--all", "--key", "job")["locks"]
        self.assertEqual([lock["sort_key"] for lock in said], ["one", "two"])

    def test_a_failure_is_json_for_those_who_read_json(self):
        code, out, err = self.run_it("--store", "file:/nonexistent/locks.db", "-o", "json", "get", "job")
        said = json.loads(err)
        self.assertEqual((code, out, said["exit_code"], bool(said["message"])), (69, "", 69, True))
        self.assertNotIn(" ", said["error"])
        code, out, err = self.run_it("-o", "json", "get")
        self.assertEqual((code, json.loads(err)["error"]), (64, "usage"))

    def test_in_colour_only_where_it_is_seen(self):
        holder = self.holder()
        self.assertNotIn("\033", self.run_ok("list"))
        self.assertIn("\033[32m", self.run_ok("--color", "always", "list"))
        terminal = Terminal(self, ["list"])
        terminal.expect(re.escape("\033[32mheld"))
        terminal = Terminal(self, ["list"], env={"NO_COLOR": "1"})
        terminal.wait()
        self.assertNotIn("\033[32m", terminal.text)
        self.end(holder)

    def test_what_others_write_does_nothing_to_the_terminal(self):
        holder = self.holder("job", "--owner", "a\033[2Jb\nc")
        for words in [["get", "job"], ["list"], ["watch", "-n", "1", "job"]]:
            self.assertNotIn("\033", self.run_ok(*words))
        self.assertEqual(self.run_json("get", "job")["owner"], "a\033[2Jb\nc")
        self.end(holder)

    def test_at_changes(self):
        watcher = self.start("watch", "job", "--poll", "50ms", "-o", "json")
        self.assertEqual(json.loads(watcher.stdout.readline())["lock"]["state"], "free")
        holder = self.holder("job", "--owner", "alice")
        said = json.loads(watcher.stdout.readline())
        self.assertEqual((said["lock"]["state"], said["lock"]["owner"]), ("held", "alice"))
        self.end(holder)
        self.assertEqual(json.loads(watcher.stdout.readline())["lock"]["state"], "free")
        self.assertEqual(self.end(watcher, signal.SIGINT), 130)

    def test_at_a_holder_that_dies(self):
        self.run_ok("run", "job-2", "true")  # so that both begin with a line
        watchers = [self.start("watch", "job", "--poll", "50ms"),
                    self.start("watch", "--prefix", "job", "--poll", "50ms")]
        for watcher in watchers:
            self.assertRegex(watcher.stdout.readline(), "free")
        self.run_ok("acquire", "-q", "--lease", "2s", "job")
        for watcher in watchers:
            self.assertRegex(watcher.stdout.readline(), "  held  ")
            self.assertRegex(watcher.stdout.readline(), "  expired  ")
            self.end(watcher)

    def test_at_the_changes_of_many(self):
        self.run_ok("run", "job-1", "true")
        watcher = self.start("watch", "--prefix", "job-", "--poll", "50ms")
        self.assertRegex(watcher.stdout.readline(), r"^20.*Z  job-1  free$")
        holder = self.holder("job-2", "--owner", "alice")
        self.assertRegex(watcher.stdout.readline(), r"^20.*Z  job-2  held  alice  token \d+$")
        self.end(holder)
        self.assertRegex(watcher.stdout.readline(), r"^20.*Z  job-2  free$")
        self.end(watcher)

    def test_at_dead_readers(self):
        holder = self.holder("job", "-s", "--lease", "4s")
        self.assertEqual(self.run_it("get", "-q", "job")[0], 0)
        holder.kill()
        wait_until(lambda: self.state("job") == "expired")
        wait_until(lambda: self.run_it("get", "-q", "job")[0] == 1)

    def test_at_a_store_that_is_not_there(self):
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        for words in [["watch", "job"], ["elect", "job"], ["get", "job"], ["list"]]:
            code, _, err = self.run_it("--store", "dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:1",
                                       *words, env=keys)
            self.assertEqual(code, 69, words)

    def test_options_before_the_command(self):
        self.assertEqual(json.loads(self.run_ok("-qo", "json", "list")), {"locks": []})
        self.assertIn("holdfast ", self.run_ok("list", "--version"))

    def test_into_a_pipe_that_closes(self):
        done = subprocess.run(["bash", "-c", f"{HOLDFAST} list --help | head -n 1"], env=self.env,
                              capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Elects(CommandTest):
    def test_one_leader_and_then_another(self):
        first = self.start("--owner", "alice", "--lease", "6s", "elect", "--data", "10.0.0.7:9000", "leader", "--",
                           "sleep", "300")
        self.assertEqual(first.stdout.readline(), "leader: alice (this one)\n")
        second = self.start("--owner", "bob", "--lease", "6s", "elect", "leader", "--", "sh", "-c",
                            "echo leading; exit 6")
        self.assertEqual(second.stdout.readline(), "leader: alice\n")
        observer = self.start("elect", "leader", "--poll", "100ms")
        self.assertEqual(observer.stdout.readline(), "leader: alice: 10.0.0.7:9000\n")
        first.kill()
        self.assertEqual(second.stdout.readline(), "leader: bob (this one)\n")
        self.assertEqual(second.stdout.readline(), "leading\n")
        self.assertEqual(second.wait(ENOUGH), 6)
        self.end(observer)

    @unittest.skipIf(ELSEWHERE, "the file is what can be cut off here")
    def test_who_loses_campaigns_again(self):
        process = self.start("--owner", "alice", "--lease", "6s", "elect", "leader", "--", "sh", "-c",
                             "echo $HOLDFAST_TOKEN; exec sleep 300")
        self.assertEqual(process.stdout.readline(), "leader: alice (this one)\n")
        token = int(process.stdout.readline())
        with self.outage():
            wait_until(lambda: "SIGTERM" in process.stderr.readline())
        self.assertEqual(process.stdout.readline(), "leader: alice (this one)\n")
        self.assertGreater(int(process.stdout.readline()), token)
        self.assertEqual(self.end(process), 143)


class Settings(CommandTest):
    def owner(self, *options, env=None):
        return self.run_ok(*options, "run", "job", "--", "sh", "-c", "echo $HOLDFAST_OWNER", env=env).strip()

    def test_option_variable_file(self):
        folder = os.path.join(self.path, ".config", "holdfast")
        os.makedirs(folder)
        with open(os.path.join(folder, "config"), "w") as file:
            file.write("# mine\n\nowner = from the file \nlease=30s\n")
        self.assertEqual(self.owner(), "from the file")
        self.assertEqual(self.owner(env={"HOLDFAST_OWNER": "variable"}), "variable")
        self.assertEqual(self.owner("--owner", "option", env={"HOLDFAST_OWNER": "variable"}), "option")
        other = os.path.join(self.path, "other")
        with open(other, "w") as file:
            file.write("owner = from the other\n")
        self.assertEqual(self.owner("--config", other), "from the other")
        with open(other, "w") as file:
            file.write("quiet = true\n")
        self.assertEqual(self.run_ok("--config", other, "get", "job", env={"HOLDFAST_QUIET": "0"})[:5], "state")
        os.makedirs(os.path.join(self.path, "xdg", "holdfast"))
        with open(os.path.join(self.path, "xdg", "holdfast", "config"), "w") as file:
            file.write("owner = xdg")
        self.assertEqual(self.owner(env={"XDG_CONFIG_HOME": os.path.join(self.path, "xdg")}), "xdg")

    def test_mistakes_are_named(self):
        config = os.path.join(self.path, "config")
        for text, says in [("stroe = x", ":1: unknown setting \"stroe\""), ("\nx", ":2: expected NAME = VALUE"),
                           ("lease = soon", "invalid duration"), ("fencing = maybe", "expected true or false"),
                           ("help = true", "unknown setting"), ("owner = \xff\n", "UTF-8"),
                           ("#" * 70000, "longer than")]:
            with open(config, "w", encoding="latin-1") as file:
                file.write(text)
            code, _, err = self.run_it("--config", config, "run", "job", "true")
            self.assertNotEqual(code, 0, text[:20])
            self.assertIn(says, err)
        self.assertEqual(self.run_it("--config", "/nonexistent", "list")[0], 64)
        code, _, err = self.run_it("list", env={"HOLDFAST_LEASE": "x"})
        self.assertEqual(code, 64)
        self.assertIn("HOLDFAST_LEASE", err)
        for words, says in [(["--output", "xml"], "text or json"), (["--color", "blue"], "auto, always"),
                            (["--key-type", "XY"], "S, N or B"), (["--sort-key", "x"], "NAME=VALUE")]:
            code, _, err = self.run_it(*words, "list")
            self.assertEqual(code, 64)
            self.assertIn(says, err)

    @unittest.skipUnless(os.geteuid() == 0, "becoming somebody else takes root")
    @unittest.skipIf(ELSEWHERE, "is about the file")
    def test_the_default_store_is_private(self):
        home = os.path.join(self.path, "home")
        os.mkdir(home)
        os.chown(home, NOBODY, NOBODY)
        os.chmod(self.path, 0o755)
        command = os.path.join(self.path, "holdfast")  # the build directory may not be for everybody
        shutil.copy(HOLDFAST, command)
        env = {"HOME": home, "PATH": os.environ["PATH"]}
        said = subprocess.run([command, "doctor"], env=env, user=NOBODY, group=NOBODY, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=ENOUGH)
        self.assertRegex(said.stdout, r"(?m)^warn  settings .*\(default\), which only this user")
        done = subprocess.run([command, "run", "job", "true"], env=env, user=NOBODY, group=NOBODY,
                              extra_groups=[], capture_output=True, text=True, timeout=ENOUGH)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        folder = os.path.join(home, ".local/state/holdfast")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, "locks.db")).st_mode), 0o600)


class Tables(CommandTest):
    @of_tables
    def test_are_made_and_checked(self):
        if DYNAMODB:
            new = ["--table", "n" + os.urandom(8).hex()]
            code, _, err = self.run_it(*new, "table", "check")
            self.assertEqual(code, 1)
            code, _, err = self.run_it(*new, "run", "job", "true")
            self.assertEqual(code, 69)
            self.assertIn("holdfast table create", err)
            self.assertEqual(self.run_it(*new, "table", "describe")[0], 1)
            self.run_ok(*new, "table", "create", "--billing", "provisioned", "--read-units", "3")
        else:
            new = []
            self.run_ok("table", "create")
        self.run_ok(*new, "table", "check")
        said = self.run_json(*new, "table", "describe")
        self.assertTrue(said["exists"] and said["active"] and said["key_fits"] and said["ttl_enabled"])
        self.assertIn("ttl      on", self.run_ok(*new, "table", "describe"))
        self.assertEqual(self.run_it(*new, "--key-name", "other", "table", "check")[0], 1)
        self.assertEqual(self.run_json(*new, "table", "sweep"), {"deleted": 0})
        for words in [["nonsense"], [], ["create", "--billing", "free"], ["create", "--read-units", "1"]]:
            self.assertEqual(self.run_it("table", *words)[0], 64)
        code, _, err = self.run_it(*new, "--format", "awslabs", "table", "sweep")
        self.assertEqual(code, 64)

    @unittest.skipIf(ELSEWHERE, "needs a hand in the file")
    def test_are_swept(self):
        for name in ["a", "b", "c"]:
            self.run_ok("run", name, "true")
        holder = self.holder("d")
        self.assertEqual(self.run_json("table", "sweep"), {"deleted": 0})
        self.end(holder)


class Denying:
    """In front of a DynamoDB endpoint: denies one operation in the words of AWS, and passes the others on."""

    def __init__(self, port):
        outer = self
        self.denied = None

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                operation = self.headers["X-Amz-Target"].split(".")[1]
                if operation == outer.denied:
                    status, answer = 400, json.dumps({
                        "__type": "com.amazon.coral.service#AccessDeniedException",
                        "Message": "User: arn:aws:iam::1:user/x is not authorized to perform: "
                                   f"dynamodb:{operation} on resource: arn:aws:dynamodb:us-east-1:1:table/locks"}).encode()
                else:
                    behind = http.client.HTTPConnection("127.0.0.1", port, timeout=ENOUGH)
                    names = ["Content-Type", "X-Amz-Target", "X-Amz-Date", "Authorization"]
                    behind.request("POST", "/", body, {name: self.headers[name] for name in names})
                    told = behind.getresponse()
                    status, answer = told.status, told.read()
                    behind.close()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Doctor(CommandTest):
    def test_all_is_well(self):
        code, out, err = self.run_it("doctor")
        self.assertEqual(err, "")
        self.assertLessEqual(code, 1, out)
        for what in ["settings", "format", "store", "table", "ttl", "permissions", "clock", "latency"]:
            self.assertRegex(out, f"(?m)^ok    {what} ")
        if DYNAMODB:
            self.assertRegex(out, r"(?m)^ok    credentials +\*\*\*\*")
            self.assertRegex(out, r"(?m)^ok    endpoint ")
        said = json.loads(self.run_it("doctor", "-o", "json")[1])["checks"]
        self.assertTrue({"check", "verdict", "detail"} == set(said[0]))

    @of_tables
    def test_a_table_of_another_format(self):
        self.run_ok("run", "job", "true")
        code, out, _ = self.run_it("--format", "awslabs", "doctor")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"(?m)^warn  records .*another one")

    @of_tables
    def test_a_format_without_leases(self):
        form = ["--format", "fail-closed", "--table", "closed-" + os.urandom(4).hex()]
        self.run_ok(*form, "table", "create", "-q")
        code, out, err = self.run_it(*form, "doctor")
        self.assertLessEqual(code, 1, out + err)
        self.assertIn("it has no leases", out)
        self.assertEqual(self.run_ok(*form, "list", "-q", "--held"), "")
        said = self.run_json(*form, "acquire", "job")
        self.assertIsNone(said["expires"])
        self.run_ok(*form, "release", said["grant"])

    def test_something_is_wrong(self):
        code, out, _ = self.run_it("--store", "file:/nonexistent/x", "doctor")
        self.assertEqual(code, 2)
        self.assertRegex(out, r"(?m)^fail  store ")
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        code, out, _ = self.run_it("--store", "dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:1",
                                   "doctor", env=keys)
        self.assertEqual(code, 2)
        self.assertRegex(out, r"(?m)^fail  store .*127\.0\.0\.1")
        env = {name: "" for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"]}
        env["AWS_EC2_METADATA_DISABLED"] = "true"
        code, out, _ = self.run_it("--store", "dynamodb://table?region=us-east-1", "doctor", env=env)
        self.assertEqual(code, 2)
        self.assertRegex(out, r"(?m)^fail  credentials ")

    @unittest.skipIf(ELSEWHERE, "has a store of its own")
    def test_the_action_that_was_denied_is_named(self):
        engine = self.start("-q", "serve", "--listen", "127.0.0.1:0")
        port = int(re.search(r":(\d+)/", engine.stdout.readline())[1])
        front = Denying(port)
        self.addCleanup(front.close)
        store = f"dynamodb://locks?region=us-east-1&endpoint=http://127.0.0.1:{front.port}"
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        self.assertEqual(self.run_it("--store", store, "table", "create", "-q", env=keys)[0], 0)
        for denied in ["UpdateItem", "GetItem"]:
            front.denied = denied
            code, out, _ = self.run_it("--store", store, "doctor", env=keys)
            self.assertEqual(code, 2, out)
            self.assertRegex(out, rf"(?m)^fail  permissions .*; allow dynamodb:{denied}$")

    @unittest.skipIf(ELSEWHERE, "is about the file")
    def test_a_file_that_others_can_write(self):
        self.run_ok("run", "job", "true")
        os.chmod(self.file, 0o666)
        code, out, _ = self.run_it("doctor")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"(?m)^warn  file ")


class Bench(CommandTest):
    def test_measures(self):
        said = self.run_json("bench", "-c", "2", "-d", "300ms")
        self.assertEqual(sorted(said), ["handover", "pairs", "takeover"])
        for part in said.values():
            self.assertGreater(part["count"], 0)
            self.assertLessEqual(part["p50_ms"], part["p99_ms"])
        process = self.start("bench", "-d", "60s")
        time.sleep(0.5)
        self.assertEqual(self.end(process, signal.SIGINT), 130)
        out = self.run_ok("bench", "-c", "1", "-d", "200ms")
        self.assertIn("▇", out)


class Help(CommandTest):
    COMMANDS = ["run", "acquire", "renew", "release", "get", "list", "watch", "elect", "table", "doctor", "bench"]

    def test_is_there(self):
        out = self.run_ok("--help")
        for command in self.COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command} ")
            text = self.run_ok(command, "--help")
            self.assertIn(f"Usage: holdfast {command}", text)
            self.assertIn("Examples:", text)
            self.assertEqual(text, self.run_ok("help", command))
            for line in (out + text).splitlines():
                self.assertLessEqual(len(line), 90, line)
        self.assertRegex(self.run_ok("--version"), r"^holdfast \d+\.\d+\.\d+\n$")

    def test_pages_know_every_option(self):
        with tempfile.TemporaryDirectory() as pages:
            root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            subprocess.run([os.path.join(root, "tools", "man"), "--version", "0", "--docdir", "/doc", pages], check=True)
            for command in [""] + self.COMMANDS:
                page = read(os.path.join(pages, f"holdfast-{command}.1".replace("-.", ".")))
                text = re.split("Options.*:", self.run_ok(*command.split(), "--help").split("Examples:")[0])
                for option in re.findall(r"(?m)^ .*--([a-z-]+)", text[1]) if text[1:] else []:
                    self.assertIn('\\-\\-' + option.replace("-", "\\-") + '"', page, command)


if __name__ == "__main__":
    main()
