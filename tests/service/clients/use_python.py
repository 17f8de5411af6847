"""The client that openapi-python-client makes of /openapi.yaml, used: use_python.py URL; the package is `generated`."""
import sys

from generated import Client
from generated.api.locks import acquire, get, release, renew
from generated.api.sessions import end_session, open_session
from generated.models import (AcquireBody, AcquireBodyMode, Grant, Held, OpenSessionBody, ReleaseBody, Released,
                              RenewBody)

client = Client(base_url=sys.argv[1])

grant = acquire.sync("job", client=client, body=AcquireBody(lease_ms=60000, data="hello", instance="python"))
assert isinstance(grant, Grant) and grant.token > 1 << 32, grant
held = acquire.sync("job", client=client, body=AcquireBody())
assert isinstance(held, Held) and held.owner == grant.owner and held.instance == "python", held
again = renew.sync("job", client=client, body=RenewBody(grant=grant.grant))
assert isinstance(again, Grant) and again.token == grant.token, again
lock = get.sync("job", client=client)
assert lock.held and lock.data == "hello" and lock.held_by[0].instance == "python", lock
assert isinstance(release.sync("job", client=client, body=ReleaseBody(grant=grant.grant)), Released)

sessions = [open_session.sync(client=client, body=OpenSessionBody(lease_ms=60000)).session for _ in range(2)]
for session in sessions:
    shared = acquire.sync("doc", client=client, body=AcquireBody(mode=AcquireBodyMode.SHARED, session=session))
    assert isinstance(shared, Grant) and shared.mode == "shared", shared
assert get.sync("doc", client=client).holders == 2
for session in sessions:
    assert end_session.sync_detailed(session, client=client).status_code == 200

with client.get_httpx_client().stream("GET", "/v2/events", params={"last_event_id": "0"}) as stream:
    for line in stream.iter_lines():
        if line.startswith("data:") and '"granted"' in line and '"job"' in line:
            break
    else:
        raise SystemExit("no event tells of the grant")
print("used")
