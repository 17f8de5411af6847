"""Bodies that are too large, and bodies that never end."""
from crowd import Pace, address
from ground import request

MIB = 1 << 20
SAID = 16 * MIB
ALL_MIB, ADDRESS_MIB = 512, 64  # of all bodies that are being received, and of one address
BODIES_PER_SECOND = 400


def one_byte_short(on):
    """32 bodies of 16 MiB that lack their last byte. Each is refused; others' calls with a body are not."""
    body = b" " * (SAID - 1)
    head = request("POST", "/v2/locks/x/acquire", on.mallory(), b"", length=SAID)
    peers = [on.crowd.join(address(0), head + body) for _ in range(32)]
    on.expect_room_for_bodies(100000)
    on.crowd.run(10, lambda: all(peer.statuses or peer.ended for peer in peers))
    on.expect_statuses(peers, 413, least=len(peers))
    on.rest()


def hold_bodies(on, addresses, each, size=MIB):
    """Bodies of which the last byte never comes."""
    data = request("POST", "/v2/locks/x/acquire", None, b"", length=size) + b" " * (size - 1)
    pace, peers = Pace(BODIES_PER_SECOND), []
    for _ in range(each):
        for number in range(addresses):
            pace.wait()
            peer = on.crowd.join(address(number), data)
            if peer:
                peers.append(peer)
            on.crowd.turn()
    on.crowd.run(0.2)
    return peers


def unfinished(on):
    """From one address, more than it may have: the rest is refused."""
    peers = hold_bodies(on, 1, ADDRESS_MIB * 5 // 4)
    on.rest()
    on.crowd.run(10, lambda: sum(bool(peer.statuses) for peer in peers) >= ADDRESS_MIB // 8)
    refused = on.expect_statuses(peers, 503, least=ADDRESS_MIB // 8)
    on.note(f"{sum(refused.values())} refused")
    on.expect_room_for_bodies(100000)


def unfinished_everywhere(on):
    """From many addresses, each within its share, together more than all may have; smaller ones fill what is left."""
    addresses = ALL_MIB // ADDRESS_MIB + 1
    peers = hold_bodies(on, addresses, ADDRESS_MIB)
    for size in [65536, 4096, 256, 16]:  # each fills what the one before has left
        peers += hold_bodies(on, addresses, 2, size)
    on.expect_room_for_bodies(100)
    on.rest()
    refused = on.expect_statuses(peers, 503, least=0)
    on.note(f"{sum(refused.values())} refused")
