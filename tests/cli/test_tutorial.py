#!/usr/bin/env python3
"""docs/TUTORIAL.md does what it says: its commands are typed into a shell, and what it shows is what comes."""
import os
import re
import socket
import subprocess
import threading
import unittest

from harness import DYNAMODB, ENOUGH, HOLDFAST, ROOT, CommandTest, main

END = "-- end of a command --"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def read(path):
    """(command, lines that it shows) for each command of the console blocks."""
    steps = []
    with open(path) as file:
        text = file.read()
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.startswith("> "):
                steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
            else:
                steps[-1][1].append(line)
    return steps


def fits(shown, line):
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line)


@unittest.skipIf(DYNAMODB, "it brings its own store")
class Tutorial(CommandTest):
    def setUp(self):
        super().setUp()
        env = {name: value for name, value in self.env.items() if not name.startswith(("HOLDFAST_", "AWS_"))}
        env.update(PATH=os.path.dirname(HOLDFAST) + ":" + self.env["PATH"], AWS_EC2_METADATA_DISABLED="true")
        self.shell = subprocess.Popen(["bash"], env=env, cwd=self.path, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(self.shell)

    def type(self, command):
        """The lines that come until the command has ended, or gone into the background."""
        timer = threading.Timer(ENOUGH, self.shell.kill)
        timer.start()
        self.shell.stdin.write(f"{command}\necho '{END}'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.rstrip("\n") == END:
                break
            lines.append(line.rstrip("\n"))
        timer.cancel()
        return lines

    def test_every_command_shows_what_the_page_says(self):
        port, late, count = free_port(), [], 0
        for command, shown in read(os.path.join(ROOT, "docs", "TUTORIAL.md")):
            said = self.type(command.replace("8080", str(port)))
            count += 1
            if command.endswith("&"):  # what it prints may come with the next ones
                late += shown
                shown = []
            for line in said:
                if late and fits(late[0], line):
                    late.pop(0)
                    continue
                self.assertTrue(shown and fits(shown[0], line), f"{command}: {line!r}, not {shown[:1]}")
                shown = shown[1:]
            self.assertEqual(shown, [], command)
        self.assertEqual(late, [])
        self.assertGreater(count, 20)
        self.shell.stdin.close()
        self.assertEqual(self.shell.wait(ENOUGH), 0)


if __name__ == "__main__":
    main()
