#!/usr/bin/env python3
"""Sends generated requests to the service's DynamoDB API and to DynamoDB Local, and compares the answers.

    differential.py --command COMMAND [--cases N] [--seed N]       starts both; run it under with-dynamodb-local
    differential.py --ours URL --theirs URL [--cases N] [--seed N]

An answer is its status, error type, message and body. Masked are times, ids, and account and region in ARNs; in no
particular order are members of sets, items of a Scan, items with equal keys in an index, and names in a message's
braces. Pages of a Scan or of an index are followed and compared as a whole. After each write, the tables and indexes
are compared too, and brought back in step where they differ. Differences that explained.py explains are counted, all
others are printed, by kind. The result is 1 if there are any.
"""
import argparse
import collections
import copy
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
from typing import NamedTuple

import explained
from generator import TABLES, WRITES, Generator

HEADERS = {"Content-Type": "application/x-amz-json-1.0",
           "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, "
                            "SignedHeaders=host, Signature=0"}
PAGES = 40  # at most, of one request


class Answer(NamedTuple):
    status: int
    type: str
    message: str
    body: object  # without type and message

    def __str__(self):
        rest = "" if self.body == {} and self.type else json.dumps(self.body, ensure_ascii=False)
        return f"{self.status} {self.type + ': ' if self.type else ''}{self.message or ''} {rest}".rstrip()


class Server:
    def __init__(self, url):
        self.address = urllib.parse.urlparse(url)
        self.connection = None

    def send(self, operation, body):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        for last in (False, True):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=60)
                self.connection.request("POST", "/", text,
                                        {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"})
                answer = self.connection.getresponse()
                return read_answer(answer.status, answer.read())
            except (http.client.HTTPException, OSError):
                self.connection = None
                if last:
                    raise

    def must(self, operation, body):
        answer = self.send(operation, body)
        if answer.status != 200:
            raise SystemExit(f"differential: {self.address.geturl()}: {operation} {json.dumps(body)}: {answer}")
        return answer.body


def read_answer(status, text):
    try:
        body = json.loads(text)
    except ValueError:
        return Answer(status, "", text.decode(errors="replace")[:200], {})
    if status == 200 or not isinstance(body, dict):
        return Answer(status, "", "", body)
    message = body.pop("message", None) or body.pop("Message", None) or ""
    return Answer(status, body.pop("__type", "").rpartition("#")[2], message, body)


# Masking, and order where there is none.

def order(value):
    return json.dumps(value, sort_keys=True)


def masked(value, name=""):
    if isinstance(value, dict):
        return {key: masked(below, key) for key, below in value.items()}
    if isinstance(value, list):
        entries = [masked(below) for below in value]
        if name == "ConsumedCapacity":
            return sorted(entries, key=lambda entry: entry.get("TableName", ""))
        if name in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
            return sorted(entries, key=lambda entry: entry.get("IndexName", ""))
        return sorted(entries, key=order) if name in ("SS", "NS", "BS", "AttributeDefinitions") else entries
    if name.endswith("DateTime") or name == "TableId":
        return "…"
    if isinstance(value, str) and value.startswith("arn:"):
        return re.sub(r"^(arn:aws:dynamodb):[^:]*:[^:]*:", r"\1:…:", value)
    return value


def sorted_braces(message):
    return re.sub(r"([{\[])([^{}\[\]]*)([}\]])", lambda found: found[1] + ", ".join(
        sorted(re.split(r",\s*", found[2]))) + found[3], message)


def unordered(operation, body):
    """The body of a success, with lists in a fixed order where DynamoDB documents none."""
    if operation == "BatchGetItem" and isinstance(body.get("Responses"), dict):
        body["Responses"] = {name: sorted(items, key=order) for name, items in body["Responses"].items()}
    return body


def ties_sorted(items, attribute):
    """Items of an index in their order, except those whose range key is equal or not shown."""
    groups = []
    for item in items:
        value = order(item.get(attribute))
        if not groups or groups[-1][0] != value:
            groups.append((value, []))
        groups[-1][1].append(item)
    return [item for _, group in groups for item in sorted(group, key=order)]


def walk(server, operation, body, first):
    """All pages of all segments of a Scan or of a Query on an index, as one body."""
    total = body.get("TotalSegments")
    if isinstance(total, int) and total > 8:
        return {}
    result = {"Items": [], "Count": 0, "ScannedCount": 0, "pages": 0, "empty": 0, "keys": set(), "units": 0}
    for segment in range(total) if isinstance(total, int) else [None]:
        page, request = first, dict(body)
        if segment is not None:
            request["Segment"] = segment
            page = server.send(operation, request)
        while page.status == 200 and result["pages"] < PAGES:
            last = page.body.get("LastEvaluatedKey")
            result["pages"] += 1
            result["empty"] += page.body.get("ScannedCount") == 0
            result["Items"] += page.body.get("Items", [])
            result["Count"] += page.body.get("Count", 0)
            result["ScannedCount"] += page.body.get("ScannedCount", 0)
            result["units"] += page.body.get("ConsumedCapacity", {}).get("CapacityUnits", 0)
            result["members"] = sorted(set(page.body) - {"LastEvaluatedKey"})
            if not last:
                break
            result["keys"].add(tuple(sorted(last)))
            page = server.send(operation, {**request, "ExclusiveStartKey": last})
    result["keys"] = sorted(result["keys"])
    if isinstance(total, int):
        del result["empty"]  # which segment has which items is not documented
    return result


def comparable(server, operation, body, answer):
    if answer.status != 200:
        return answer._replace(message=sorted_braces(answer.message), body=masked(answer.body))
    if isinstance(body, bytes):
        return answer._replace(body={})
    index = body.get("IndexName")
    if operation == "Scan" or operation == "Query" and index:
        result = masked(walk(server, operation, body, answer))
        ranges = [table.indexes[index].range for table in TABLES
                  if table.name == body["TableName"] and index in table.indexes]
        result["Items"] = (ties_sorted(result["Items"], ranges[0]) if operation == "Query" and ranges and ranges[0]
                           else sorted(result["Items"], key=order))
        return answer._replace(body=result)
    return answer._replace(body=masked(unordered(operation, answer.body)))


# Both servers.

class Difference(NamedTuple):
    operation: str
    request: object
    ours: Answer
    theirs: Answer

    def kind(self):
        """What differences of the same origin have in common."""
        if self.ours.status == self.theirs.status == 200:
            return f"{self.operation}: {', '.join(sorted(set(places(self.ours.body, self.theirs.body)))[:4])}"
        return f"{self.operation}: {outline(self.ours)} | {outline(self.theirs)}"


def outline(answer):
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|[:#]\w+|\b\d+\b", "…", answer.message)
    return f"{answer.status} {answer.type} {text}".rstrip()


def fault(answer):
    """The outline, whatever the operator, the type and the parameter."""
    return re.sub(r"\b(?:[A-Z][A-Z_]*|\w+Expression)\b", "…", outline(answer))


def places(ours, theirs, path=""):
    """Paths at which two bodies differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            if name not in ours or name not in theirs:
                yield f"{path}.{name} only {'theirs' if name in theirs else 'ours'}"
            else:
                yield from places(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for pair in zip(ours, theirs):
            yield from places(*pair, path + "[]")
    elif ours != theirs:
        yield path or "."


class Pair:
    """Our server and theirs, in step."""

    def __init__(self, ours, theirs):
        self.ours = Server(ours)
        self.theirs = Server(theirs)
        self.common = set()  # faults that both have reported
        for server in (self.ours, self.theirs):
            for name in server.must("ListTables", {})["TableNames"]:
                self.drop(server, name)
            for table in TABLES:
                server.must("CreateTable", table.creation())

    @staticmethod
    def drop(server, name):
        server.send("UpdateTable", {"TableName": name, "DeletionProtectionEnabled": False})
        server.send("DeleteTable", {"TableName": name})

    def compare(self, operation, body):
        """Sends a request to both; returns the difference, or none."""
        answers = [comparable(server, operation, body, server.send(operation, body))
                   for server in (self.ours, self.theirs)]
        if answers[0] != answers[1]:
            return Difference(operation, body, *answers)
        if answers[0].status != 200:
            self.common.add(fault(answers[0]))
        return None

    def knows(self, answer, side):
        """Whether an error is one that both servers report. If each reports another, a request has several faults."""
        text = f"{answer.status} {answer.type}: {answer.message}"
        return 400 <= answer.status < 500 and (fault(answer) in self.common or explained.is_worded(text, side))

    def contents(self, server, table, index=None):
        body = {"TableName": table.name, **({"IndexName": index} if index else {"ConsistentRead": True})}
        return {order([item.get(name) for name in table.key]): item
                for item in masked(server.must("Scan", body)["Items"])}

    def check(self, operation, body):
        """Compares the tables that a write may have changed; returns what differs, after putting it right."""
        text = body.decode(errors="replace") if isinstance(body, bytes) else json.dumps(body)
        difference = None
        for table in TABLES:
            if f'"{table.name}"' not in text:
                continue
            for index in (None, *table.indexes):
                ours, theirs = (self.contents(server, table, index) for server in (self.ours, self.theirs))
                if ours != theirs:
                    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
                    self.restore(table, names)
                    answers = [Answer(0, "", f"{index or 'table'} after the write",
                                      [side.get(name) for name in names]) for side in (ours, theirs)]
                    difference = difference or Difference(operation, body, *answers)
        return difference

    def restore(self, table, names):
        """Gives our item to theirs; where that is impossible, neither has it any more."""
        for name in names:
            key = dict(zip(table.key, json.loads(name)))
            found = self.ours.must("GetItem", {"TableName": table.name, "Key": key, "ConsistentRead": True})
            for server in (self.ours, self.theirs):
                server.must("DeleteItem", {"TableName": table.name, "Key": key})
            if "Item" in found:
                put = {"TableName": table.name, "Item": found["Item"]}
                if any(server.send("PutItem", put).status != 200 for server in (self.ours, self.theirs)):
                    for server in (self.ours, self.theirs):
                        server.must("DeleteItem", {"TableName": table.name, "Key": key})

    def settle(self, name):
        """Waits until neither server changes the indexes of a table any more."""
        for server in (self.ours, self.theirs):
            for _ in range(500):
                table = server.send("DescribeTable", {"TableName": name}).body.get("Table", {})
                if all(index["IndexStatus"] == "ACTIVE" for index in table.get("GlobalSecondaryIndexes", [])):
                    break
                time.sleep(0.02)

    def run(self, steps, faults):
        """Yields the differences of one case, each with its explanation or none."""
        for operation, body in steps:
            difference = self.compare(operation, body)
            name = difference and explained.explain(difference, faults)
            if difference:
                yield difference, name
            if operation in WRITES:
                changed = self.check(operation, body)
                if changed and (difference is None or difference.ours.status == difference.theirs.status == 200):
                    yield changed, explained.explain(changed, faults)
            if operation == "UpdateTable" and isinstance(body, dict) and "GlobalSecondaryIndexUpdates" in body:
                self.settle(body.get("TableName"))
            if difference and operation.endswith("Table") and (
                    name is None or difference.ours.status != difference.theirs.status):
                break  # what follows would differ for the same reason
        if len(steps) > 1:
            for server in (self.ours, self.theirs):
                for name in server.must("ListTables", {})["TableNames"]:
                    if name not in {table.name for table in TABLES}:
                        self.drop(server, name)

    def probe(self, difference):
        """Leaves out one member after the other: without one of several faults, both may report another."""
        if not isinstance(difference.request, dict):
            return
        for _, _, path in list(Generator.nodes(difference.request)):
            if len(path) > 4:
                continue
            trial = copy.deepcopy(difference.request)
            node = trial
            for name in path[:-1]:
                node = node[name]
            del node[path[-1]]
            self.compare(difference.operation, trial)
            if difference.operation in WRITES:
                self.check(difference.operation, trial)

    def shrink(self, difference):
        """The smallest part of a request that still differs in the same way, found by leaving out members."""
        kind, request = difference.kind(), difference.request
        if difference.ours.status == 0 or not isinstance(request, dict):
            return difference
        smaller = True
        while smaller:
            smaller = False
            for container, key, path in list(Generator.nodes(request)):
                if len(path) > 4:
                    continue
                trial = copy.deepcopy(request)
                node = trial
                for name in path[:-1]:
                    node = node[name]
                del node[path[-1]]
                again = self.compare(difference.operation, trial)
                if difference.operation in WRITES:
                    self.check(difference.operation, trial)
                if again and again.kind() == kind:
                    difference, request, smaller = again, trial, True
                    break
        return difference


# The run.

def run(pair, cases, seed):
    """Returns the numbers of explained differences by name, and the unexplained ones by kind."""
    generator = Generator(seed)
    known, found, unknown = collections.Counter(), [], collections.defaultdict(list)
    for _ in range(cases):
        steps, faults = generator.case()
        for difference, name in pair.run(steps, faults):
            if name:
                known[name] += 1
            else:
                found.append(difference)
    for difference in found:
        sides = [(difference.ours, "ours"), (difference.theirs, "theirs")]
        if all(400 <= answer.status < 500 for answer, _ in sides) and not all(pair.knows(*side) for side in sides):
            pair.probe(difference)
        if all(pair.knows(*side) for side in sides):
            known["several faults in one request: the order of checks is not documented"] += 1
        else:
            unknown[difference.kind()].append(difference)
    return known, unknown


def brief(value):
    return re.sub(r"(.)\1{50,}", r"\1…\1", str(value))[:1500]


def report(pair, cases, known, unknown):
    for name, count in known.most_common():
        print(f"explained {count:5} {name}")
    for kind, differences in sorted(unknown.items(), key=lambda entry: -len(entry[1])):
        example = differences[0] if kind.startswith(("CreateTable", "UpdateTable")) else pair.shrink(differences[0])
        request = example.request if isinstance(example.request, bytes) else json.dumps(
            example.request, ensure_ascii=False)
        print(f"\n{len(differences)} × {brief(kind)}\n  request {example.operation} {brief(request)}\n"
              f"  ours    {brief(example.ours)}\n  theirs  {brief(example.theirs)}")
    count = sum(map(len, unknown.values()))
    print(f"differential: {cases} cases, {sum(known.values())} explained, {count} unexplained")
    return 1 if count else 0


def serve(command, directory):
    """Starts holdfast serve on a fresh file; returns its process and URL."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "AWS_", "XDG_"))}
    process = subprocess.Popen(
        [command, "-q", "--store", f"file:{directory}/locks.db", "serve", "--listen", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**kept, "HOME": directory})
    found = re.search(r"on (http://127\.0\.0\.1:\d+)/", process.stdout.readline())
    if not found:
        raise SystemExit("differential: the service did not start")
    return process, found.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", help="the holdfast command, of which a service is started")
    parser.add_argument("--ours", help="URL of the service")
    parser.add_argument("--theirs", help="URL of DynamoDB Local (default: that of HOLDFAST_TEST_STORE)")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    theirs = options.theirs or os.environ.get("HOLDFAST_TEST_STORE", "").rpartition("endpoint=")[2]
    if not theirs or bool(options.command) == bool(options.ours):
        parser.error("give --command or --ours, and --theirs unless with-dynamodb-local runs this")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        process, ours = serve(options.command, directory) if options.command else (None, options.ours)
        try:
            pair = Pair(ours, theirs)
            known, unknown = run(pair, options.cases, options.seed)
            print(f"seed {options.seed}, {time.monotonic() - began:.0f} s")
            return report(pair, options.cases, known, unknown)
        finally:
            if process:
                process.terminate()
                process.wait(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
