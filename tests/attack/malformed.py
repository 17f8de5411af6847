"""Requests that are wrong: each gets its 4xx, and costs others nothing."""
from crowd import Pace, address
from ground import request

PER_SECOND = 200
LARGE_PER_SECOND = 50  # of those with a body of almost 1 MiB
ACQUIRE = "/v2/locks/x/acquire"
BODY_MOST = 1 << 20
CHUNKED = "Transfer-Encoding: chunked"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunked(on):
    """Bodies in chunks: of one byte, of no size, of too much, with long extensions, with a length beside them."""
    good = b"".join(chunk(bytes([byte])) for byte in b'{"lease_ms": 1000}') + b"0\r\n\r\n"
    begin = request("POST", ACQUIRE, on.mallory(), headers=["Content-Type: application/json", CHUNKED])
    wrong = {"no number": b"zz\r\nxx\r\n", "a huge size": b"FFFFFFFFFFFFFFFFFFFF\r\n", "a negative size": b"-1\r\n",
             "a long extension": b"1;" + b"x" * 20000 + b"\r\n{", "empty lines": b"\r\n\r\n\r\n",
             "a chunk beyond its size": b"5\r\n{\"a\": 1}xxxxxx\r\n"}
    both = request("POST", ACQUIRE, on.mallory(), headers=["Content-Type: application/json", CHUNKED], length=5) + good
    wrong = {name: begin + data for name, data in wrong.items()}
    on.throw({**wrong, "both a length and chunks": both}, PER_SECOND, 400, 413)
    endless = [on.crowd.join(address(i), begin + chunk(b" " * 65536) * 17) for i in range(8)]
    on.crowd.run(10, lambda: all(peer.statuses or peer.ended for peer in endless))
    on.expect_statuses(endless, 413, least=len(endless))
    peer = on.crowd.join(address(0), begin + good)
    on.crowd.run(10, lambda: peer.statuses)
    on.expect_statuses([peer], 200, 423)


def pipelined(on):
    """A hundred requests at a time on each of ten connections, 3,000 a second together."""
    batch = request("GET", "/v2/locks/nobody-has-it", on.mallory()) * 50 + request("GET", "/healthz") * 50
    peers = [on.crowd.join(address(i)) for i in range(10)]
    pace, sent = Pace(30), 0
    while on.time_left() > 0:
        pace.wait()
        peer = peers[sent % len(peers)]
        sent += 1
        peer.send(batch)
        on.crowd.turn()
    on.crowd.run(20, lambda: sum(len(peer.statuses) for peer in peers) == 100 * sent)
    on.expect_statuses(peers, 200, 404, least=100 * sent)
    answers = [status for status in peers[0].statuses[:100]]
    on.expect(answers == [404] * 50 + [200] * 50, "answers are not in the order of their requests")


def oversized(on):
    """Lines, headers and bodies that are too long."""
    on.throw([b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
              b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
              request("POST", ACQUIRE, on.mallory(), b"", length=BODY_MOST + 1),
              request("POST", ACQUIRE, on.mallory(), b"", length=1 << 40),
              request("POST", ACQUIRE, on.mallory(), b"", length=-5),
              request("POST", ACQUIRE, on.mallory(), b"", length=10 ** 30),
              request("GET", "/v2/locks/" + "n" * 1025, on.mallory()),
              request("GET", "/v2/locks?prefix=" + "n" * 4000, on.mallory())],
             PER_SECOND, 400, 413, 414, 431)


def json_bodies(on):
    """Deep ones, and ones that say everything twice: almost 1 MiB each."""
    many = ",".join(f'"k{i}":""' for i in range(70000))
    texts = [b"[" * 1000000, b'{"data":' * 120000, b'{"attributes":' + b'{"a":' * 190000,
             b'{"attributes":{' + b",".join([b'"a":"b"'] * 100000) + b"}}",
             b"{" + b",".join([b'"lease_ms":1000'] * 60000) + b"}",
             b'{"attributes":{' + many.encode() + b"}}",
             b'{"lease_ms":' + b"9" * 1000000 + b"}", b'{"lease_ms":1e' + b"9" * 1000000 + b"}",
             b'{"data":"' + b"\\u0000" * 160000, b" " * 1000000]
    requests = [request("POST", ACQUIRE, on.mallory(), text) for text in texts]
    requests += [request("POST", "/v1/space/lock/name/acquire", on.mallory(), text) for text in texts[:5]]
    on.throw(requests, LARGE_PER_SECOND, 400)


def invalid_utf8(on):
    """In paths, queries, headers and bodies."""
    on.throw([request("POST", "/v2/locks/%ff%fe/acquire", on.mallory(), b"{}"),
              request("POST", "/v2/locks/%c0%af/acquire", on.mallory(), b"{}"),
              request("POST", "/v2/locks/a%00b/acquire", on.mallory(), b"{}"),
              request("GET", "/v2/locks/%ed%a0%80", on.mallory()),
              request("POST", ACQUIRE, on.mallory(), b'{"data":"\xff\xfe"}'),
              request("POST", ACQUIRE, on.mallory(), b'{"data":"\\ud800"}'),
              request("POST", ACQUIRE, on.mallory(), b'{"\xc3\x28":1}'),
              request("POST", "/v1/space/lock/%ff/acquire", on.mallory(), b'{"instanceId":"\xff","leaseDuration":9}'),
              request("GET", "/v2/locks", "\xff\xfe\xfd-0123456789abcdef"),
              request("GET", "/\xff\xfe")],
             PER_SECOND, 400, 401, 404)


def header_flood(on):
    """Thousands of headers, long ones, broken ones; and requests with all the header that is allowed."""
    many = [f"X-{i}: y" for i in range(4000)]
    on.throw([request("GET", "/v2/locks/nothing", on.mallory(), headers=many),
              request("GET", "/v2/locks/nothing", on.mallory(), headers=["X: y"] * 8000),
              request("GET", "/v2/locks/nothing", on.mallory(), headers=["X: " + "y" * 16384]),
              request("GET", "/v2/locks/nothing", "t" * 20000),
              request("GET", "/v2/locks/nothing", "t" * 12000),
              request("GET", "/v2/locks/nothing", on.mallory(), headers=["X: " + "y" * 12000]),
              b"GET /v2/locks/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b": \r\n" * 100 + b"\r\n",
              b"GET /v2/locks/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b" folded\r\n" * 100 + b"\r\n",
              b"GET /v2/locks/nothing\r\n\r\n", b"\r\n" * 10000, b"\0" * 20000],
             PER_SECOND, 400, 401, 404, 414, 431)
