#!/usr/bin/env python3
"""Makes vectors.json with botocore's signer: pip install botocore; ./make_vectors.py > vectors.json

Each case has a request, the credentials and the time, and every stage of the
signature. Run once; the result is committed, so that tests need no Python.
"""
import datetime
import json
import sys
from unittest import mock

import botocore
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TARGET = "DynamoDB_20120810."
JSON = "application/x-amz-json-1.0"

CASES = [
    ("get-item", dict(headers={"X-Amz-Target": TARGET + "GetItem", "Content-Type": JSON},
                      data='{"TableName":"locks","Key":{"key":{"S":"a"}}}')),
    ("empty-body", dict(headers={"X-Amz-Target": TARGET + "ListTables", "Content-Type": JSON}, data="")),
    ("utf8-body", dict(headers={"X-Amz-Target": TARGET + "PutItem"}, data='{"k":"\u00e9\U0001f600"}')),
    ("session-token", dict(headers={"X-Amz-Target": TARGET + "Scan"}, data="{}", token="AQoDYXdzEPT//////////wEXAMPLE==")),
    ("other-region", dict(region="eu-central-1", headers={"X-Amz-Target": TARGET + "Query"}, data="{}")),
    ("local-port", dict(url="http://127.0.0.1:8000/", headers={"X-Amz-Target": TARGET + "Query"}, data="{}")),
    ("sts-form", dict(url="https://sts.us-east-1.amazonaws.com/", service="sts",
                      headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
                      data="Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fx&Version=2011-06-15")),
    ("get-with-query", dict(method="GET", url="https://example.us-east-1.amazonaws.com/a/b?z=1&a=2&a=1&empty=",
                            service="service", headers={}, data="")),
    ("encoded-path", dict(method="GET", url="https://example.us-east-1.amazonaws.com/a%20b/~x/%C3%A9",
                          service="service", headers={}, data="")),
    ("blanks-in-header", dict(headers={"X-Amz-Target": "  a   b  ", "X-Custom": "c\td"}, data="{}")),
    ("first-second-of-a-year", dict(time=(2027, 1, 1, 0, 0, 0), headers={}, data="{}")),
    ("leap-day", dict(time=(2028, 2, 29, 23, 59, 59), headers={}, data="{}")),
]


def make(name, case):
    url = case.get("url", "https://dynamodb.us-east-1.amazonaws.com/")
    region = case.get("region", "us-east-1")
    service = case.get("service", "dynamodb")
    time = datetime.datetime(*case.get("time", (2026, 11, 15, 10, 20, 30)), tzinfo=datetime.timezone.utc)
    credentials = Credentials("AKIDEXAMPLE", SECRET, case.get("token"))
    request = AWSRequest(method=case.get("method", "POST"), url=url, headers=case["headers"],
                         data=case["data"].encode())
    signer = SigV4Auth(credentials, service, region)

    class Frozen(datetime.datetime):
        @classmethod
        def utcnow(cls):
            return time.replace(tzinfo=None)

        @classmethod
        def now(cls, tz=None):
            return time if tz else time.replace(tzinfo=None)

    patches = [mock.patch("botocore.auth.datetime.datetime", Frozen)] if hasattr(botocore.auth, "datetime") else []
    if hasattr(botocore.auth, "get_current_datetime"):
        patches = [mock.patch("botocore.auth.get_current_datetime", lambda *a, **k: time.replace(tzinfo=None))]
    for patch in patches:
        patch.start()
    signer.add_auth(request)
    for patch in patches:
        patch.stop()
    canonical = signer.canonical_request(without_authorization(request))
    headers = {k.lower(): v for k, v in signer.headers_to_sign(without_authorization(request)).items()}
    path, _, query = url.split("://", 1)[1].partition("/")[2].partition("?")
    return {
        "name": name,
        "method": request.method,
        "path": "/" + path,
        "query": query,
        "headers": dict(sorted(headers.items())),
        "body": case["data"],
        "region": region,
        "service": service,
        "unix_s": int(time.timestamp()),
        "access_key_id": credentials.access_key,
        "secret": SECRET,
        "canonical_request": canonical,
        "string_to_sign": signer.string_to_sign(without_authorization(request), canonical),
        "authorization": request.headers["Authorization"],
    }


def without_authorization(request):
    copy = AWSRequest(method=request.method, url=request.url, headers=dict(request.headers), data=request.data)
    del copy.headers["Authorization"]
    copy.context.update(request.context)
    return copy


json.dump({"made_with": "botocore " + botocore.__version__, "cases": [make(*case) for case in CASES]},
          sys.stdout, indent=1, ensure_ascii=False)
print()
