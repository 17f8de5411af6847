"""The recipe for boto3 in docs/RECIPES.md, as it stands there, with a lock that is acquired over HTTP."""
import json
import os
import re
import urllib.request

import boto3
from botocore.exceptions import ClientError

from cases import URL, case, finish, refused, same

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
with open(os.path.join(ROOT, "docs", "RECIPES.md"), encoding="utf-8") as page:
    recipe = re.search(r"## Fence a write by a transaction\n.*?```python\n(.*?)```", page.read(), re.DOTALL).group(1)
names = {}
exec(recipe, names)


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


@case
def the_holder_writes_and_nobody_after_it():
    dynamodb = boto3.client("dynamodb")
    dynamodb.create_table(TableName="data", BillingMode="PAY_PER_REQUEST",
                          KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                          AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
    grant = post("/v2/locks/settings/acquire", {"lease_ms": 60000})
    names["write_if_held"](grant["token"], {"id": {"S": "mode"}, "value": {"S": "first"}})
    post("/v2/locks/settings/release", {"grant": grant["grant"]})
    late = {"id": {"S": "mode"}, "value": {"S": "late"}}
    error = refused(ClientError, names["write_if_held"], grant["token"], late)
    same(error.response["Error"]["Code"], "TransactionCanceledException")
    post("/v2/locks/settings/acquire", {"lease_ms": 60000})
    refused(ClientError, names["write_if_held"], grant["token"], late)
    same(dynamodb.get_item(TableName="data", Key={"id": {"S": "mode"}})["Item"]["value"], {"S": "first"})


finish()
