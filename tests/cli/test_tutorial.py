#!/usr/bin/env python3
"""The pages do what they say: their commands are typed into a shell, and what they show is what comes."""
import os
import re
import socket
import subprocess
import threading
import unittest

from harness import DYNAMODB, ENOUGH, HOLDFAST, ROOT, CommandTest, main

END = "-- end of a command --"
COMMANDS = "run acquire renew release get list watch elect table doctor bench serve".split()


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
class Pages(CommandTest):
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

    def follow(self, page, least):
        port, late, count = free_port(), [], 0
        for command, shown in read(os.path.join(ROOT, "docs", page)):
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
        self.assertGreater(count, least)
        self.shell.stdin.close()
        self.assertEqual(self.shell.wait(ENOUGH), 0)

    def test_tutorial(self):
        self.follow("TUTORIAL.md", 20)

    def test_operations(self):
        self.follow("OPERATIONS.md", 20)

    def test_recipes(self):
        self.follow("RECIPES.md", 20)


class Options(CommandTest):
    """What cannot be run here (a cloud, another machine) at least has options that there are."""

    def test_all_that_the_pages_use_are_known(self):
        pages = [os.path.join(ROOT, "README.md")]
        pages += sorted(os.path.join(ROOT, "docs", name) for name in os.listdir(os.path.join(ROOT, "docs"))
                        if name.endswith(".md"))
        known, used = {}, 0
        for page in pages:
            with open(page) as file:
                text = file.read().replace("\\\n", " ")
            for line in re.findall(r"^(?:    |\$ |> ).*", text, re.M):
                for command in re.findall(r"\bholdfast (?!-sim)([^|;&#`)]*)", line):
                    words = command.split(" -- ")[0].split()
                    names = [word for word in words if word in COMMANDS]
                    name = names[0] if names else None
                    if name not in known:
                        known[name] = self.run_ok(*([name] if name else []), "--help")
                    everywhere = known.setdefault(None, self.run_ok("--help"))
                    for option in re.findall(r"(?<!\S)(--[a-z0-9-]+)", " ".join(words)):
                        used += 1
                        self.assertTrue(option in known[name] or option in everywhere, f"{page}: {line.strip()}: {option}")
        self.assertGreater(used, 10)


if __name__ == "__main__":
    main()
