# SPDX-License-Identifier: Apache-2.0
"""Many connections that send requests one after the other and count every one that got no good answer."""
import collections
import multiprocessing
import random
import selectors
import socket
import time

from .wait import GUARD, SLOW

DRAINED = 0.9  # seconds; a gateway that ends keeps a connection a second between requests, then lets it go


class _Client:
    """One connection at a time; every fourth client makes a new one for each request."""

    def __init__(self, load, keep):
        self.load, self.keep = load, keep
        self.sock, self.busy = None, False
        self.used = self.since = self.before = 0
        self.got = self.path = b""

    def left(self):
        """The server closed the connection, and nobody has looked at it since."""
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def begin(self):
        if self.sock is not None and self.left():
            self.end()
        self.used += 1
        self.before, self.got, self.since, self.busy = self.since, b"", time.monotonic(), True
        self.path = random.choice(self.load.paths)
        try:
            if self.sock is None:
                self.used = 1
                self.sock = socket.create_connection(self.load.address, timeout=GUARD * SLOW)
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sock.setblocking(False)
                self.load.selector.register(self.sock, selectors.EVENT_READ, self)
            self.sock.send(b"GET %s HTTP/1.1\r\nHost: load.test\r\n\r\n" % self.path)
        except OSError as e:
            self.fail(repr(e))

    def end(self):
        if self.sock is not None:
            try:
                self.load.selector.unregister(self.sock)
            except KeyError:
                pass
            self.sock.close()
        self.sock = None

    def rest(self):
        self.busy = False
        self.load.resting.append((time.monotonic() + self.load.pause, self))

    def fail(self, why):
        text = (f"{self.path.decode()}: {why} (use {self.used} of its connection, "
                f"{time.monotonic() - self.load.start:.3f} s after the start, got {self.got[:80]!r})")
        # A server may end an idle connection just as it is used again; whoever reuses one repeats
        # the request (RFC 9112 9.3.1). Told apart, because a careful server does not let it happen: only who was
        # silent for as long as a connection is kept has to put up with it, as clients that were stopped are.
        raced = self.used > 1 and not self.got and why != "silence"
        if raced and self.since - self.before >= DRAINED:
            self.load.late += 1
        else:
            (self.load.raced if raced else self.load.failed).append(text)
        self.end()
        self.rest()

    def readable(self):
        try:
            piece = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as e:
            piece, why = b"", repr(e)
        else:
            why = "closed"
        if not self.busy:  # closed while nothing was asked: as it may be
            self.end()
        elif not piece:
            self.fail(why)
        else:
            self.got += piece
            self.parse()

    def parse(self):
        head, found, body = self.got.partition(b"\r\n\r\n")
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15:].split(b"\r\n")[0]) if at >= 0 else 0
        if not found or len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.fail(head.split(b"\r\n")[0].decode())
            return
        self.load.done += 1
        self.load.names[body.decode()] += 1
        if not self.keep or b"connection: close" in lower:
            self.end()
        self.rest()


class _Loop:
    def __init__(self, address, paths, clients, pause):
        self.address, self.paths, self.pause = address, [p.encode() for p in paths], pause
        self.selector = selectors.DefaultSelector()
        self.done, self.late, self.failed, self.raced = 0, 0, [], []
        self.names = collections.Counter()
        self.start = time.monotonic()
        self.clients = [_Client(self, keep=i % 4 != 0) for i in range(clients)]
        # Spread over the pause, or they would all go in step.
        self.resting = collections.deque((self.start + pause * i / clients, c) for i, c in enumerate(self.clients))

    def report(self):
        return {"done": self.done, "failed": self.failed[:20], "n_failed": len(self.failed), "raced": self.raced[:20],
                "n_raced": len(self.raced), "late": self.late, "names": dict(self.names)}

    def run(self, pipe):
        stopping = False
        while not stopping or any(c.busy for c in self.clients):
            if pipe.poll():
                stopping = pipe.recv() == "stop"
                if not stopping:
                    pipe.send(self.report())
            now = time.monotonic()
            while self.resting and self.resting[0][0] <= now and not stopping:
                self.resting.popleft()[1].begin()
            for key, _ in self.selector.select(0.002):
                key.data.readable()
            for c in self.clients:
                if c.busy and now - c.since > 2 * GUARD * SLOW:
                    c.fail("silence")
        pipe.send(self.report())


def _child(pipe, args):
    _Loop(*args).run(pipe)


class Load:
    """The clients, in a process of their own. with Load(...) as load: ...; then load.good()."""

    def __init__(self, port, paths, clients=200, pause=0.05):
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.proc = context.Process(target=_child, args=(other, (("127.0.0.1", port), paths, clients, pause)),
                                    daemon=True)
        self.proc.start()
        self.result = None

    def now(self):
        self.pipe.send("report")
        return self.pipe.recv()

    def more(self, n, seconds=2 * GUARD):
        """Waits until n further requests were answered (or failed)."""
        first = self.now()
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            r = self.now()
            if r["done"] + r["n_failed"] + r["n_raced"] - first["done"] - first["n_failed"] - first["n_raced"] >= n:
                return
            time.sleep(0.02)
        raise AssertionError(f"the load stands still: {self.now()}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.result is None:
            try:
                self.pipe.send("stop")
                self.result = self.pipe.recv()
            except (EOFError, OSError):
                self.result = {"n_failed": 1, "failed": ["the load ended by itself"], "done": 0, "n_raced": 0}
        self.proc.join(GUARD)
        self.proc.kill()

    def good(self, at_least=100):
        r = self.result
        assert r["n_failed"] == 0, f"{r['n_failed']} of {r['done']} failed: {r['failed'][:5]}"
        assert r["n_raced"] == 0, f"{r['n_raced']} of {r['done']} lost with their connection: {r['raced'][:5]}"
        assert r["done"] >= at_least, r
        return r
