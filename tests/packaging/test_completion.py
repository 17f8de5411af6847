"""The shells complete command lines as a person types them: bash and zsh on a terminal, fish by asking it.

Each case is what is typed before TAB, and what the line is afterwards; every case has one answer, which the shell
inserts. HOLDFAST_COMMAND names the command.
"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST_COMMAND", os.path.join(ROOT, "build/release/src/holdfast")))
ENOUGH = 20  # seconds

CASES = [
    ("holdfast el", "elect"),
    ("holdfast help doc", "doctor"),
    ("holdfast run -n j", "job-one"),
    ("holdfast run j", "job-one"),
    ("holdfast run -n --lease 5s j", "job-one"),
    ("holdfast -o json get j", "job-one"),
    ("holdfast acquire -w 5s j", "job-one"),
    ("holdfast watch j", "job-one"),
    ("holdfast elect j", "job-one"),
    ("holdfast get team:", "team:nightly"),
    ("holdfast get --store file:OTHER el", "elsewhere"),
    ("holdfast release --force --reason x j", "job-one"),
    ("holdfast list --prefix j", "job-one"),
    ("holdfast run --nonb", "--nonblock"),
    ("holdfast run job-one --kill", "--kill-after"),
    ("holdfast serve --metrics", "--metrics-listen"),
    ("holdfast serve --v1", "--v1-table"),
    ("holdfast --hold", "--hold-on-unavailable"),
    ("holdfast --format aw", "awslabs"),
    ("holdfast --format=aw", "--format=awslabs"),
    ("holdfast --store file:tok", "file:tokens.txt"),
    ("holdfast --store dyn", "dynamodb://"),
    ("holdfast -o js", "json"),
    ("holdfast --color al", "always"),
    ("holdfast table cr", "create"),
    ("holdfast table create --billing pro", "provisioned"),
    ("holdfast serve --tokens tok", "tokens.txt"),
    ("holdfast --config conf", "config.ini"),
    ("holdfast run job-one -- ca tok", "tokens.txt"),
    ("holdfast run job-one -- hold-other-pro", "hold-other-program"),
    ("holdfast run -n job-one hold-other-pro", "hold-other-program"),
]


class Shell:
    """An interactive shell on a terminal. After TAB, Ctrl-T writes the line to a file."""

    def __init__(self, argv, setup, directory, environment):
        self.line = os.path.join(directory, "line")
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(argv[0], argv, environment)
        self.type(setup.replace("FILE", self.line) + "\n")
        self.type("echo re''ady\n")
        self.read_until(b"ready\r\n")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, what=None):
        end, seen = time.monotonic() + ENOUGH, b""
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.02)[0]:
                seen += os.read(self.terminal, 65536)
            if (what and what in seen) or (not what and os.path.exists(self.line)):
                return seen
        raise AssertionError(f"the shell does not answer: {seen.decode(errors='replace')}")

    def complete(self, text):
        if os.path.exists(self.line):
            os.unlink(self.line)
        self.type("\x15" + text + "\t\x14")
        self.read_until()
        with open(self.line) as file:
            return file.read()

    def close(self):
        os.close(self.terminal)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keeper = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.keeper.cleanup)
        cls.directory = cls.keeper.name
        programs = os.path.join(cls.directory, "bin")
        os.mkdir(programs)
        os.symlink(HOLDFAST, os.path.join(programs, "holdfast"))
        os.symlink("/bin/true", os.path.join(programs, "hold-other-program"))
        cls.environment = {
            "PATH": programs + ":/usr/bin:/bin", "HOME": cls.directory, "TERM": "dumb", "LC_ALL": "C.UTF-8",
            "HOLDFAST_STORE": f"file:{cls.directory}/locks.db", "INPUTRC": "/dev/null", "PS1": "$ ",
        }
        for name in ("tokens.txt", "config.ini"):
            with open(os.path.join(cls.directory, name), "w"):
                pass
        for lock in ("job-one", "team:nightly"):
            cls.acquire(lock)
        cls.other = os.path.join(cls.directory, "other.db")
        cls.acquire("elsewhere", "--store", "file:" + cls.other)

    @classmethod
    def acquire(cls, lock, *options):
        subprocess.run([HOLDFAST, *options, "-q", "acquire", "--lease", "10m", lock], env=cls.environment, check=True,
                       stdout=subprocess.DEVNULL)

    def on_terminal(self, argv, setup):
        shell = Shell(argv, setup, self.directory, self.environment)
        self.addCleanup(shell.close)
        for line, answer in CASES:
            line = line.replace("OTHER", self.other)
            with self.subTest(line):
                before, _, _ = line.rpartition(" ")
                self.assertEqual(shell.complete(line).replace("\\", "").rstrip(" ="), f"{before} {answer}")

    BASH = f". {ROOT}/completions/holdfast.bash; bind 'set bell-style none'; " + (
        """bind -x '"\\C-t": printf %s "$READLINE_LINE" >FILE.new; mv FILE.new FILE'""")

    def test_bash(self):
        self.on_terminal(["bash", "--norc", "-i"], self.BASH)

    @unittest.skipUnless(os.path.exists("/usr/share/bash-completion/bash_completion"), "bash-completion is missing")
    def test_bash_with_bash_completion(self):
        self.on_terminal(["bash", "--norc", "-i"], ". /usr/share/bash-completion/bash_completion; " + self.BASH)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is missing")
    def test_zsh(self):
        functions = os.path.join(self.directory, "functions")
        os.mkdir(functions)
        os.symlink(f"{ROOT}/completions/holdfast.zsh", f"{functions}/_holdfast")
        self.on_terminal(["zsh", "-f", "-i"], f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; "
                         "put() { print -rn -- $BUFFER >FILE.new; mv FILE.new FILE }; zle -N put; bindkey -e; "
                         "bindkey '^T' put; bindkey '^U' kill-whole-line")

    @unittest.skipUnless(shutil.which("fish"), "fish is missing")
    def test_fish(self):
        for line, answer in CASES:
            line = line.replace("OTHER", self.other)
            with self.subTest(line):
                said = subprocess.run(
                    ["fish", "--no-config", "-c", f"source {ROOT}/completions/holdfast.fish; complete -C {line!r}"],
                    env=self.environment, cwd=self.directory, stdout=subprocess.PIPE, text=True, check=True).stdout
                self.assertEqual([offer.split("\t")[0] for offer in said.splitlines()], [answer])


if __name__ == "__main__":
    sys.argv[0] = "completion"
    unittest.main()
