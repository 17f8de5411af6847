"""Many connections in one thread. What an attacker does itself must cost little: it is the service that is to be short
of something, not the processors that both of them share."""
import contextlib
import re
import selectors
import socket
import time

STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
CONNECT_SECONDS = 10
AT_ONCE = 1 << 14  # a kernel without preemption gives nobody else the processor within a call


def address(number):
    """127.0.0.1 is of those who behave."""
    return f"127.0.0.{number + 2}"


class Pace:
    """At most N a second; what is late is made up for by 50 ms at most."""

    def __init__(self, per_second):
        self.step, self.due = 1 / per_second, time.monotonic()

    def wait(self):
        now = time.monotonic()
        if self.due > now + 0.002:
            time.sleep(self.due - now)
        self.due = max(self.due + self.step, now - 0.05)


class Peer:
    """A connection: what it has still to send, and the statuses that came back."""

    def __init__(self, crowd, source, small):
        self.crowd, self.out, self.tail, self.ended, self.reads = crowd, memoryview(b""), b"", False, True
        self.statuses, self.received = [], 0
        self.mask = 0
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((source, 0))
        self.socket.settimeout(CONNECT_SECONDS)
        self.socket.connect(("127.0.0.1", crowd.port))
        self.socket.setblocking(False)

    def send(self, data):
        self.out = memoryview(bytes(self.out) + data if self.out else data)
        self.flush()

    def flush(self):
        while self.out and not self.ended:
            try:
                self.out = self.out[self.socket.send(self.out[:AT_ONCE]):]
            except BlockingIOError:
                break
            except OSError:
                self.end_sending()
        self.crowd.watch(self)

    def end_sending(self):
        """The other side takes no more; what it has said may still be there to read."""
        self.out = memoryview(b"")
        if not self.reads:
            self.ended = True

    def read(self):
        try:
            data = self.socket.recv(AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ended = True
            self.crowd.watch(self)
            return
        self.received += len(data)
        text = self.tail + data
        self.statuses += [int(found) for found in STATUS.findall(text)]
        self.tail = text[-12:]  # one byte less than a match

    def close(self, reset=False):
        self.ended = True
        self.crowd.watch(self)
        if reset:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()
        self.crowd.peers.discard(self)


class Crowd:
    def __init__(self, port):
        self.port, self.peers = port, set()
        self.selector = selectors.DefaultSelector()

    def join(self, source=address(0), data=b"", reads=True, small=False):
        """A connection more; None: it was refused."""
        try:
            peer = Peer(self, source, small)
        except OSError:
            return None
        peer.reads = reads
        self.peers.add(peer)
        peer.send(data)
        return peer

    def watch(self, peer):
        mask = 0
        if not peer.ended:
            mask = (selectors.EVENT_READ if peer.reads else 0) | (selectors.EVENT_WRITE if peer.out else 0)
        if mask == peer.mask:
            return
        if peer.mask and mask:
            self.selector.modify(peer.socket, mask, peer)
        elif mask:
            self.selector.register(peer.socket, mask, peer)
        else:
            self.selector.unregister(peer.socket)
        peer.mask = mask

    def turn(self, seconds=0.0):
        for key, mask in self.selector.select(seconds):
            if mask & selectors.EVENT_WRITE:
                key.data.flush()
            if mask & selectors.EVENT_READ:
                key.data.read()

    def run(self, seconds, until=None):
        """For so long, or until something holds; whether it does."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if until and until():
                return True
            if self.selector.get_map():
                self.turn(min(left, 0.05))
            else:
                time.sleep(min(left, 0.05))
        return bool(until and until())

    def close(self):
        for peer in list(self.peers):
            peer.close()
        self.selector.close()
