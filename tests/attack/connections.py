"""Connections that are opened, and not used as they should be."""
from crowd import Pace, address
from ground import request

DRIP_SECONDS = 0.5
OPEN_PER_SECOND = 1000  # connections; more would measure who gets the processor
LISTS, LISTS_PER_SECOND = 300, 20


def open_many(on, count, first=0, data=b"", reads=True, small=False):
    """From as many addresses as it takes."""
    pace, peers = Pace(OPEN_PER_SECOND), []
    for i in range(count):
        pace.wait()
        peer = on.crowd.join(address(first + i // on.limit), data, reads, small)
        if peer:
            peers.append(peer)
        if i % 50 == 0:
            on.crowd.turn()
    return peers


def slow_senders(on):
    """Requests that arrive byte by byte, the header of some and the body of others."""
    count, dropped = on.limit // 3, on.metric("dropped_slow_total")
    heads = open_many(on, count, data=b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    bodies = open_many(on, count, 1, data=request("POST", "/v2/locks/x/acquire", on.mallory(), length=1000) + b"{")

    def drip():
        for peer in heads + bodies:
            if not peer.ended:
                peer.send(b" ")
        return all(peer.ended for peer in heads + bodies)
    for _ in range(int((on.timeout_seconds * 2 + 10) / DRIP_SECONDS)):
        if drip():
            break
        on.crowd.run(DRIP_SECONDS)
    on.rest()
    left = sum(not peer.ended for peer in heads + bodies)
    on.expect(left == 0, f"{left} of {2 * count} slow senders still have their connection")
    on.expect(on.metric("dropped_slow_total") - dropped >= 2 * count * 0.9, "slow senders were not counted as such")


LONG = "/v2/locks/long"


def store(on):
    """A lock whose record is read by an answer of 900 KB: each byte of its data is escaped."""
    data = {"lease_ms": 60000, "data": "\1" * 150000}
    peer = on.crowd.join(address(0), request("POST", f"{LONG}/acquire", on.mallory(), data))
    on.crowd.run(30, lambda: peer.statuses or peer.ended)
    on.expect(set(peer.statuses) <= {200, 423}, f"a lock with data was answered {set(peer.statuses)}")
    peer.close()


def slow_readers(on):
    """Answers of 900 KB that nobody takes, and lists."""
    store(on)
    count, dropped, pace = on.limit // 20, on.metric("dropped_slow_total"), Pace(LISTS_PER_SECOND)
    asked = request("GET", LONG, on.mallory()) * 4 + request("GET", "/v2/locks", on.mallory())
    for i in range(count):
        pace.wait()
        on.crowd.join(address(i % 8), asked, reads=False, small=True)
    on.rest()
    on.crowd.run(on.timeout_seconds * 2 + 10, lambda: on.metric("dropped_slow_total") - dropped >= count * 0.9)
    left = count - (on.metric("dropped_slow_total") - dropped)
    on.expect(left <= count * 0.1, f"{left:.0f} of {count} who do not read their answer still have their connection")


def long_looks(on):
    """A thousand ask for 900 KB at once, and read it: what is being written counts, not only what is being sent."""
    store(on)
    asked = request("GET", LONG, on.mallory())
    peers = open_many(on, on.limit, data=asked)
    on.crowd.run(30, lambda: all(peer.statuses or peer.ended for peer in peers))
    seen = on.expect_statuses(peers, 200, 503, least=len(peers))
    on.note(f"{seen.get(503, 0)} refused")
    on.rest()


def walk_outs(on):
    """Callers who connect for one request each: however many leave, others of their address get in."""
    ask, number, peers, lost = request("GET", "/v2/whoami", on.mallory(), headers=["Connection: close"]), 0, [], 0
    pace = Pace(2000 / (on.limit // 5))
    while on.time_left() > 0:
        pace.wait()
        peers = [on.crowd.join(address(0), ask) for _ in range(on.limit // 5)]
        on.crowd.run(5, lambda: all(not peer or peer.ended for peer in peers))
        lost += sum(not peer or peer.statuses != [200] for peer in peers)
        number += len(peers)
        for peer in peers:
            if peer:
                peer.close()
    on.expect(lost == 0, f"{lost} of {number} were not answered")
    on.note(f"{number} came and went")


def greedy_readers(on):
    """One caller asks for 300 answers of 900 KB, more than the service keeps for all answers, and takes none."""
    store(on)
    asked = request("GET", LONG, on.mallory()) * 4  # the first may fit into the buffers of the connection
    pace = Pace(LISTS_PER_SECOND)
    for _ in range(min(on.limit, LISTS)):
        pace.wait()
        on.crowd.join(address(0), asked, reads=False, small=True)
    answer = on.ask("GET", "/v2/whoami")
    on.expect(answer.status == 200, f"another caller got {answer}")
    on.rest()


def idle(on):
    """Connections on which nothing is asked, a tenth more than one address may have."""
    open_many(on, on.limit)
    more = [peer for peer in (on.crowd.join(address(0)) for _ in range(on.limit // 10)) if peer]
    on.crowd.run(5, lambda: all(peer.ended for peer in more))
    on.expect(all(peer.ended for peer in more), "one address has more connections than it may")
    on.rest()


def half_open(on):
    """Requests that are begun and never ended, from one address, and half-closed connections."""
    peers = open_many(on, on.limit // 2, data=b"POST /v2/locks/x/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
    closed = open_many(on, on.limit // 4, 1, data=request("GET", "/healthz"))
    for peer in closed:
        peer.socket.shutdown(1)
    on.crowd.run(10, lambda: all(peer.statuses for peer in closed))
    on.expect_statuses(closed, 200, least=len(closed))
    on.rest()
    on.crowd.run(on.timeout_seconds * 2 + 10, lambda: all(peer.ended for peer in peers))
    left = sum(not peer.ended for peer in peers)
    on.expect(left == 0, f"{left} half-open connections are still there")


def all_connections(on):
    """Idle connections from ten addresses, to the limit of all: whoever is inside must be served."""
    on.note(f"{len(open_many(on, on.limit * 10))} connected")
    on.rest()


def churn(on):
    """Connections that come and go: reset with half a request, with a whole one, while they wait for a lock."""
    on.ask("POST", "/v2/locks/churned/acquire", on.mallory(), {"lease_ms": 20000})
    wait = request("POST", "/v2/locks/churned/acquire", on.mallory(1), {"wait_ms": 60000})
    ask = request("GET", "/v2/locks/churned", on.mallory(1))
    pace, kinds, recent = Pace(500), [ask[:40], ask, wait], []
    number = 0
    while on.time_left() > 0:
        pace.wait()
        peer = on.crowd.join(address(number % 8), kinds[number % 3], reads=False)
        number += 1
        if peer:
            recent.append(peer)
        if len(recent) > 20:
            recent.pop(0).close(reset=number % 2 == 0)
    for peer in recent:
        peer.close(reset=True)
    on.crowd.run(15, lambda: on.metric("waiters") <= on.limit // 100 + 1)
    waiting = on.metric("waiters")
    on.expect(waiting <= on.limit // 100 + 1, f"{waiting} waiters have hung up and still wait")


def listen(on, count):
    """Event streams that are opened and never read."""
    pace = Pace(OPEN_PER_SECOND)
    for i in range(count):
        pace.wait()
        share = i // (on.limit - on.limit // 10)
        on.crowd.join(address(share), request("GET", "/v2/events", on.mallory(share)), reads=False, small=True)
    on.crowd.run(20, lambda: on.metric("streams") >= count)
    opened = on.metric("streams")
    on.expect(opened >= count, f"{opened} of {count} streams are open")
    on.crowd.run(on.seconds)


def streams_1000(on):
    listen(on, on.limit)


def streams_9000(on):
    listen(on, on.limit * 9)
