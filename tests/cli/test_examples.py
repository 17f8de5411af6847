#!/usr/bin/env python3
"""The shell scripts in examples/ do what they say."""
import os
import signal
import subprocess

from harness import ENOUGH, HOLDFAST, ROOT, CommandTest, main


class Examples(CommandTest):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = os.path.dirname(HOLDFAST) + ":" + self.env["PATH"]

    def script(self, name, **env):
        process = subprocess.Popen([os.path.join(ROOT, "examples", name)], env={**self.env, **env},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.processes.append(process)
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=ENOUGH)
        return process.returncode, out, err

    def test_cron(self):
        code, out, err = self.finish(self.script("cron.sh"))
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^report 20.*token \d+\n$")
        holder = self.holder("nightly-report")
        self.assertEqual(self.finish(self.script("cron.sh")), (0, "", ""))
        self.end(holder)

    def test_deploy(self):
        self.assertEqual(self.finish(self.script("deploy.sh")), (0, "building\nmigrating\ndone\n", ""))
        self.assertEqual(self.state("deploy"), "free")
        self.assertEqual(self.run_json("get", "deploy")["data"], "a deploy")

    def test_leader(self):
        first = self.script("leader.sh", LEASE="6s")
        self.assertIn("(this one)", first.stdout.readline())
        self.assertIn("leading with token", first.stdout.readline())
        second = self.script("leader.sh", LEASE="6s", SECONDS_TO_LEAD="0")
        self.assertIn("leader: ", second.stdout.readline())
        first.kill()
        self.assertIn("(this one)", second.stdout.readline())
        self.assertEqual(second.wait(ENOUGH), 0)


if __name__ == "__main__":
    main()
