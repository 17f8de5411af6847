"""Callers who are not let in, however often they ask."""
import base64
import json
import os
import time

from crowd import Pace, address
from ground import request

FLOOD_PER_SECOND = 1000  # each costs the service a hash, or the check of a signature
JWT_PER_SECOND = 200
CONNECTIONS = 20
FILL_SECONDS = 3  # until a second's worth of --rate, or a log of 1 MiB, is used up


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def flood(on, requests, per_second, *allowed):
    """One request at a time on each of a few connections."""
    peers = [on.crowd.join(address(i % 8)) for i in range(CONNECTIONS)]
    pace, sent = Pace(per_second), 0
    while on.time_left() > 0:
        pace.wait()
        peers[sent % len(peers)].send(requests(sent))
        sent += 1
        on.crowd.turn()
    on.crowd.run(20, lambda: sum(len(peer.statuses) for peer in peers) >= sent)
    return on.expect_statuses(peers, *allowed, least=sent)


def repeated_claims(on):
    """The claims of a JWT, each 18 times, and other JWTs that are not well-formed."""
    head, claims, signature = on.target.good_jwt.split(".")
    texts = ["{" + ",".join([claim] * 18) + "}" for claim in ['"aud":"a"', '"aud":["a"]', '"sub":"a"', '"exp":1']]
    texts += [json.dumps({"aud": [str(i) for i in range(17)]}), '{"aud":' * 500,
              "{" + ",".join(f'"{i}":0' for i in range(900)) + "}", "[]", "null", ""]
    wrong = [f"{head}.{base64url(text.encode())}.{signature}" for text in texts]
    wrong += [f"{head}.{claims}.", f"{head}.{claims}", "..", "." * 5000, f"{head}.{claims}.{signature[:-6]}AAAAAA",
              base64url(b'{"alg":"none"}') + f".{claims}."]
    wrong = [request("GET", "/v2/whoami", token) for token in wrong]
    flood(on, lambda number: wrong[number % len(wrong)], JWT_PER_SECOND, 401)
    answer = on.ask("GET", "/v2/whoami", on.target.good_jwt)
    on.expect(answer.status == 200, f"a good JWT got {answer}")


def token_flood(on):
    """Tokens that nobody gave out: random ones, and JWTs with a signature that must be checked."""
    head, claims, signature = on.target.good_jwt.split(".")

    def ask(number):
        if number % 5:
            return request("GET", "/v2/locks", os.urandom(16).hex())
        return request("GET", "/v2/locks", f"{head}.{claims}.{base64url(os.urandom(64))}")
    flood(on, ask, FLOOD_PER_SECOND, 401)


def unknown_keys(on):
    """JWTs that name keys nobody has heard of: the issuer is not asked for each of them, and no caller waits for it."""
    _, claims, signature = on.target.good_jwt.split(".")
    pace, number = Pace(JWT_PER_SECOND), 0
    while on.time_left() > 0:
        pace.wait()
        head = base64url(json.dumps({"alg": "ES256", "typ": "JWT", "kid": f"k{number}"}).encode())
        if number < on.limit // 2:
            peer = on.crowd.join(address(number % 8))
            number += 1
            peer.send(request("GET", "/v2/whoami", f"{head}.{claims}.{signature}"))
        on.crowd.turn()
    peers = list(on.crowd.peers)
    on.crowd.run(30, lambda: all(peer.statuses for peer in peers))
    on.expect_statuses(peers, 401, 503, least=number)


def strangers(on):
    """Calls without a token, more than --rate allows: those who are let in have that for themselves."""
    on.take(FILL_SECONDS)
    asked = request("POST", "/v2/locks/x/acquire", None, b"{}")
    seen = flood(on, lambda number: asked, FLOOD_PER_SECOND * 3 // 2, 401, 429)
    on.note(f"401: {seen.get(401, 0)}, 429: {seen.get(429, 0)}")
    on.expect(seen.get(429, 0) > 0, "a flood of strangers was never told to slow down")


def rate_of_one(on):
    """One caller who is let in, and asks for more than --rate-per-caller: the rest of --rate is others'."""
    on.take(FILL_SECONDS)
    asked = request("GET", "/v2/locks/x", on.mallory())
    seen = flood(on, lambda number: asked, FLOOD_PER_SECOND, 404, 429)
    on.note(f"404: {seen.get(404, 0)}, 429: {seen.get(429, 0)}")
    on.expect(seen.get(429, 0) > 0, "a caller beyond its rate was never told to slow down")


def unread_log(on):
    """Nobody reads the service's standard error: it is filled, and then some."""
    on.take(FILL_SECONDS)
    asked = request("GET", "/v2/locks/" + "n" * 1000, on.mallory())
    flood(on, lambda number: asked, FLOOD_PER_SECOND, 404)
    dropped, end = 0, time.monotonic() + 5
    while not dropped and time.monotonic() < end:
        dropped = on.metric("log_lines_dropped_total")
    on.note(f"{dropped:.0f} lines dropped")
    on.expect(dropped > 100, "the log was not filled")
