"""The service does what its OpenAPI document says: schemathesis tries what it can think of."""
import os
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


if __name__ == "__main__":
    harness.main()
