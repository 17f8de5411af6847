"""Callers who are let in, and take all they can get."""
from crowd import Pace, address
from ground import request

NAMES, NAMES_SHORT = 100, 30  # times the share of one caller
NAMES_PER_SECOND = 5000
BATCH = 50


def batches(on, requests, connections=4, per_second=NAMES_PER_SECOND):
    """All of them, pipelined on a few connections; how they were answered."""
    peers = [on.crowd.join(address(i)) for i in range(connections)]
    pace = Pace(per_second / BATCH)
    for at in range(0, len(requests), BATCH):
        pace.wait()
        peers[at // BATCH % connections].send(b"".join(requests[at:at + BATCH]))
        on.crowd.turn()
    on.crowd.run(60, lambda: sum(len(peer.statuses) for peer in peers) >= len(requests)
                 or all(peer.ended for peer in peers))
    seen = {}
    for peer in peers:
        for status in peer.statuses:
            seen[status] = seen.get(status, 0) + 1
        peer.close()
    return seen


def expect_share(on, seen, asked, what):
    taken, refused = seen.get(200, 0), seen.get(429, 0)
    on.expect(taken == on.limit and taken + refused == asked,
              f"of {asked} {what} {on.limit} should have been had, the rest refused with 429: {seen}")


def sessions(on):
    """One caller opens all the sessions it can; another one gets its own."""
    asked = on.limit * 5 // 4
    seen = batches(on, [request("POST", "/v2/sessions", on.mallory(), {"lease_ms": 10000})] * asked, per_second=1000)
    expect_share(on, seen, asked, "sessions")
    answer = on.ask("POST", "/v2/sessions", body={"lease_ms": 1000})
    on.expect(answer.status == 200, f"another caller who opens a session got {answer}")
    on.rest()


def waiters(on):
    """One caller waits as often as it can for a lock that is held."""
    on.ask("POST", "/v2/locks/wanted/acquire", on.mallory(1), {"lease_ms": 30000})
    asked = on.limit * 5 // 4
    wait = request("POST", "/v2/locks/wanted/acquire", on.mallory(), {"wait_ms": 60000})
    pace = Pace(1000)
    peers = []
    for i in range(asked):
        pace.wait()
        peers.append(on.crowd.join(address(i % 8), wait))
    on.crowd.run(20, lambda: on.metric("waiters") >= on.limit and sum(bool(peer.statuses) for peer in peers) > 0)
    on.crowd.run(1)
    waiting, refused = on.metric("waiters"), sum(peer.statuses == [429] for peer in peers)
    on.expect(refused == asked - on.limit, f"of {asked} waiters {refused} were refused, expected {asked - on.limit}")
    on.expect(waiting <= on.limit + on.limit // 50, f"{waiting} wait")
    on.ask("POST", "/v2/locks/bobs/acquire", body={"lease_ms": 2000})
    answer = on.ask("POST", "/v2/locks/bobs/acquire", body={"wait_ms": 100})
    on.expect(answer.status == 423, f"another caller who waits got {answer}")
    on.rest()


def streams(on):
    """One caller opens all the streams it can; another one gets its own."""
    asked = on.limit * 5 // 4
    listen = request("GET", "/v2/events", on.mallory())
    pace, peers = Pace(1000), []
    for i in range(asked):
        pace.wait()
        peers.append(on.crowd.join(address(i % 8), listen))
        on.crowd.turn()
    on.crowd.run(20, lambda: all(peer.statuses for peer in peers))
    seen = on.expect_statuses(peers, 200, 429, least=asked)
    expect_share(on, seen, asked, "streams")
    other = on.crowd.join("127.0.0.1", request("GET", "/v2/events", on.witness))
    on.crowd.run(10, lambda: other.statuses)
    on.expect(other.statuses[:1] == [200], f"another caller who listens got {other.statuses}")
    on.rest()


def names(on):
    """One caller locks 100,000 names (30,000 in a short run), 5,000 a second, while somebody listens."""
    listener = on.crowd.join(address(0), request("GET", "/v2/events", on.witness))
    count = on.limit * (NAMES_SHORT if on.short else NAMES)
    seen = batches(on, [request("POST", f"/v2/locks/name-{on.attempt}-{i}/acquire", on.mallory(), {"lease_ms": 10000})
                        for i in range(count)])
    on.expect(seen == {200: count}, f"{count} names were answered {seen}")
    on.expect(not listener.ended, "the listener was cut off")
    on.note(f"{listener.received / 1024:.0f} KiB of events")
