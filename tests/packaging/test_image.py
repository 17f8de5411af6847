"""The Dockerfile, as far as it can be checked without an engine: the packages that it names are those that are needed,
a container without settings says what is missing, and the health check tells a ready service from others.
HOLDFAST_COMMAND names the command.
"""
import json
import os
import re
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST_COMMAND", os.path.join(ROOT, "build/release/src/holdfast")))
SERVICE = os.path.join(os.path.dirname(HOLDFAST), "holdfast-serve")


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


def packages(stage):
    """Those that a stage installs."""
    words = re.search(r"apt-get install -y --no-install-recommends (.*?)&&", stage, re.S).group(1)
    return set(words.replace("\\", " ").split())


class Image(unittest.TestCase):
    def setUp(self):
        self.builder, self.image = read("Dockerfile").split("\nFROM ")[1:]
        self.environment = dict(word.split("=", 1) for word in re.search(r"(?m)^ENV (.*)", self.image).group(1).split())

    def test_builder_has_what_a_build_needs(self):
        needed = re.search(r"build_packages=\((.*?)\)", read("tools/setup"), re.S).group(1).split()
        self.assertEqual(packages(self.builder), set(needed))

    def test_image_has_the_libraries(self):
        for program in (HOLDFAST, SERVICE):
            headers = subprocess.check_output(["readelf", "-d", program], text=True)
            for library in re.findall(r"\(NEEDED\).*\[(.*)\]", headers):
                owner = subprocess.check_output(["dpkg", "-S", f"*/{library}"], text=True).split(":")[0]
                if owner != "libc6":
                    self.assertIn(owner, packages(self.image))

    def test_without_settings_it_says_what_is_missing(self):
        entry = json.loads(re.search(r"(?m)^ENTRYPOINT (.*)", self.image).group(1))
        arguments = json.loads(re.search(r"(?m)^CMD (.*)", self.image).group(1))
        self.assertEqual(entry, ["/usr/bin/holdfast"])
        with tempfile.TemporaryDirectory() as directory:
            process = subprocess.run([HOLDFAST, *arguments], cwd=directory, capture_output=True, text=True,
                                     env={**self.environment, "HOLDFAST_STORE": f"file:{directory}/locks.db"}, timeout=60)
        self.assertEqual(process.returncode, 64)
        self.assertRegex(process.stderr, "refusing to listen on 0.0.0.0:8080 without authentication; use --tokens")

    def test_health_check(self):
        command = json.loads(re.search(r"(?m)^HEALTHCHECK .*?CMD (\[.*\])", self.image).group(1))
        self.assertIn("/8080;", command[-1])
        with tempfile.TemporaryDirectory() as directory, socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]

            def healthy():
                check = [word.replace("/8080;", f"/{port};") for word in command]
                return subprocess.run(check, capture_output=True, timeout=10).returncode == 0

            self.assertFalse(healthy())
            silent.close()
            server = subprocess.Popen([HOLDFAST, "serve", "--store", f"file:{directory}/locks.db", "--listen",
                                       f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                end = time.monotonic() + 30
                while not healthy():
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.1)
            finally:
                server.terminate()
                server.wait()
            self.assertFalse(healthy())


if __name__ == "__main__":
    unittest.main()
