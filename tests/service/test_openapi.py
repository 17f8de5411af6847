"""The service does what its OpenAPI document says: schemathesis tries what it can think of."""
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import ROOT, ServiceTest

TOOL = os.path.join(ROOT, "build/servers/openapi/bin/schemathesis")
VALIDATOR = os.path.join(ROOT, "build/servers/openapi/bin/openapi-spec-validator")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance," \
         "response_headers_conformance"


class Document(ServiceTest):
    def check(self, document, *more, checks=CHECKS):
        place = os.path.join(self.path, "openapi.yaml")
        with open(place, "w") as file:
            file.write(document)
        with open(os.path.join(self.path, "schemathesis.toml"), "w") as file: # what it makes may be too large, too
            file.write('[checks]\nnegative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", '
                       '"413", "414", "415", "429"]\n')
        done = subprocess.run(
            [TOOL, "run", place, "--seed", os.environ.get("HOLDFAST_SEED", "1"), "--url", f"http://127.0.0.1:{self.service.port}", "--max-examples", "40",
             "--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "-c", checks, *more],
            capture_output=True, text=True, timeout=300, cwd=self.path)
        lines = [line[:300] for line in done.stdout.splitlines() if line.strip()]
        self.assertEqual(done.returncode, 0, "\n".join(lines[-60:]) + done.stderr[-2000:])

    def test_every_route_is_in_it_and_none_else(self):
        self.service = self.start()
        document = self.service.get("/openapi.yaml").text
        told = {line.strip().rstrip(":") for line in document.splitlines()
                if line.startswith("  /") and line.rstrip().endswith(":")}
        with open(os.path.join(ROOT, "src/service/http/route.c")) as file:
            lines = [line.split('"') for line in file if line.strip().startswith("{HF_METHOD")]
        routes = {line[1] for line in lines} - {"/", "/page.css", "/page.js", "/openapi.yaml"}
        self.assertEqual({path.count("{") for path in told} - {0, 1, 2}, set())
        plain = {"/".join("{}" if part.startswith("{") else part for part in path.split("/")) for path in told}
        self.assertEqual(plain, routes)

    @unittest.skipUnless(os.path.exists(VALIDATOR), "run tools/setup openapi")
    def test_it_is_valid(self):
        self.service = self.start()
        place = os.path.join(self.path, "openapi.yaml")
        with open(place, "w") as file:
            file.write(self.service.get("/openapi.yaml").text)
        done = subprocess.run([VALIDATOR, place], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[:2000])

    @unittest.skipUnless(os.path.exists(TOOL), "run tools/setup openapi")
    def test_it_is_true(self):
        self.service = self.start("--client-timeout", "5s")
        document = self.service.get("/openapi.yaml").text
        self.check(document, "--exclude-path", "/v2/events", "--exclude-path", "/v2/locks/{name}/acquire",
                   checks=CHECKS + ",negative_data_rejection")
        # Nobody here wants to wait for an hour.
        self.check(document.replace("maximum: 3600000", "maximum: 20"), "--include-path", "/v2/locks/{name}/acquire")
        self.assertEqual(self.service.get("/healthz").status, 200)


CLIENTS = os.path.join(ROOT, "tests/service/clients")
PYTHON = os.path.join(ROOT, "build/servers/openapi/bin/python")
GENERATOR = os.path.join(ROOT, "build/servers/openapi/bin/openapi-python-client")
GO_GENERATOR = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.4.1"
GO_RUNTIME = "github.com/oapi-codegen/runtime@v1.1.1"


def go_is_new_enough():
    if not shutil.which("go"):
        return False
    found = re.search(r"go1\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)
    return found and int(found.group(1)) >= 22


class Clients(ServiceTest):
    """What generators make of the document works: acquire, share, renew, release, events."""

    def setUp(self):
        super().setUp()
        self.service = self.start()
        self.url = f"http://127.0.0.1:{self.service.port}"
        self.document = os.path.join(self.path, "openapi.yaml")
        with open(self.document, "w") as file:
            file.write(self.service.get("/openapi.yaml").text)

    def run_it(self, *command, cwd=None, **env):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd or self.path,
                              env={**os.environ, **env})
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])
        return done.stdout

    @unittest.skipUnless(os.path.exists(GENERATOR), "run tools/setup openapi")
    def test_in_python(self):
        self.run_it(GENERATOR, "generate", "--path", self.document, "--output-path", os.path.join(self.path, "generated"),
                    "--meta", "none")
        said = self.run_it(PYTHON, os.path.join(CLIENTS, "use_python.py"), self.url, PYTHONPATH=self.path)
        self.assertEqual(said, "used\n")

    @unittest.skipUnless(go_is_new_enough(), "needs Go 1.22")
    def test_in_go(self):
        place = os.path.join(self.path, "go")
        os.makedirs(os.path.join(place, "api"))
        shutil.copy(os.path.join(CLIENTS, "main.go"), place)
        with open(os.path.join(place, "go.mod"), "w") as file:
            file.write("module clients\n\ngo 1.22\n")
        code = self.run_it("go", "run", GO_GENERATOR, "-generate", "types,client", "-package", "api", self.document)
        with open(os.path.join(place, "api", "api.go"), "w") as file:
            file.write(code)
        self.run_it("go", "get", GO_RUNTIME, cwd=place)
        self.assertEqual(self.run_it("go", "run", ".", self.url, cwd=place), "used\n")


if __name__ == "__main__":
    harness.main()
