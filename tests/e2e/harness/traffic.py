# SPDX-License-Identifier: Apache-2.0
"""Applications: small TCP servers and clients that speak from inside a namespace."""
import contextlib
import os
import selectors
import socket
import struct
import threading
import zlib

from .wait import GUARD, guard

RST_ON_CLOSE = struct.pack("ii", 1, 0)
MIB = 1 << 20


def family_of(addr):
    return socket.AF_INET6 if ":" in addr[0] else socket.AF_INET


def listen(ns, addr, backlog=1024):
    sock = ns.socket(family_of(addr))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if ":" in addr[0]:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(addr)
    sock.listen(backlog)
    return sock


def connect(ns, addr, timeout=GUARD, bind=None):
    """A connection whose calls wait for GUARD seconds or more: a time-out of it says that something hangs."""
    sock = ns.socket(family_of(addr))
    try:
        if bind:
            sock.bind(bind)
        sock.settimeout(guard(timeout))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect(addr)
    except BaseException:
        sock.close()
        raise
    return sock


def reset(sock):
    """Closes with a TCP RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
    sock.close()


def read_exact(sock, n):
    out = bytearray()
    while len(out) < n:
        part = sock.recv(min(n - len(out), MIB))
        if not part:
            raise EOFError(f"connection ended after {len(out)} of {n} bytes")
        out += part
    return bytes(out)


def read_all(sock):
    out = bytearray()
    while True:
        part = sock.recv(MIB)
        if not part:
            return bytes(out)
        out += part


def echo_once(sock, size=64):
    """Sends random bytes and checks that exactly they come back."""
    data = os.urandom(size)
    sock.sendall(data)
    back = read_exact(sock, len(data))
    assert back == data, "echo differs from what was sent"


def ended(sock):
    """True when the connection is finished by the other side, with FIN or RST."""
    before = sock.gettimeout()
    sock.settimeout(0.05)
    try:
        return sock.recv(1) == b""
    except (TimeoutError, BlockingIOError):
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(before)


def refused(ns, addr, payload=b"hello", timeout=GUARD):
    """
    True when a connection is not served: it may be accepted (the proxy accepts first), but it
    ends without a byte from a server. A TLS alert is a refusal too.
    """
    try:
        with connect(ns, addr, timeout) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(payload)
            got = sock.recv(16)
            return got == b"" or got.startswith(b"\x15")
    except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
        return True


class Wire:
    """What passes an interface of a namespace from now on."""

    def __init__(self, ns, dev):
        self.sock = ns.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # all protocols
        self.sock.bind((dev, 0))
        self.sock.setblocking(False)

    def seen(self):
        """The TCP ports over IPv4, and the bytes of all frames. What was sent for an answer that came is in them."""
        ports, frames = set(), bytearray()
        while True:
            try:
                frame = self.sock.recv(65535)
            except BlockingIOError:
                return ports, frames
            frames += frame
            if frame[12:14] == b"\x08\x00" and frame[23] == 6:
                ports.add(int.from_bytes(frame[36:38], "big"))
                ports.add(int.from_bytes(frame[34:36], "big"))

    def close(self):
        self.sock.close()


class Server:
    """Base of the servers: a listening socket, a thread, and what was seen."""

    def __init__(self, ns, addr):
        self.addr = addr
        self.sock = listen(ns, addr)
        self.peers = []
        self.stopping = False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @property
    def accepted(self):
        return len(self.peers)

    def peer_ips(self):
        return {p[0] for p in self.peers}

    def serve(self):
        raise NotImplementedError

    def stop(self):
        if self.stopping:
            return
        self.stopping = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(guard(GUARD))
        self.sock.close()


class EchoServer(Server):
    """Echo for any number of connections in one thread; keeps half-closed ones going."""

    HIGH = 1 << 18

    def __init__(self, ns, addr, greeting=b""):
        self.greeting = greeting
        self.conns = {}
        self.sel = selectors.DefaultSelector()
        self.wake_r, self.wake_w = os.pipe()
        super().__init__(ns, addr)

    def serve(self):
        self.sock.setblocking(False)
        self.sel.register(self.sock, selectors.EVENT_READ)
        self.sel.register(self.wake_r, selectors.EVENT_READ)
        while not self.stopping:
            for key, mask in self.sel.select():
                if key.fileobj is self.sock:
                    self._accept()
                elif key.fileobj != self.wake_r:
                    self._serve_one(key.fileobj, key.data, mask)
        for sock in list(self.conns):
            sock.close()
        self.sel.close()

    def _accept(self):
        while True:
            try:
                sock, peer = self.sock.accept()
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            state = {"out": bytearray(self.greeting), "eof": False}
            self.conns[sock] = state
            self.peers.append(peer)
            self.sel.register(sock, selectors.EVENT_READ, state)
            self._serve_one(sock, state, 0)

    def _drop(self, sock):
        self.sel.unregister(sock)
        self.conns.pop(sock, None)
        sock.close()

    def _serve_one(self, sock, state, mask):
        try:
            if mask & selectors.EVENT_READ and not state["eof"]:
                part = sock.recv(1 << 16)
                state["eof"] = not part
                state["out"] += part
            if state["out"]:
                with contextlib.suppress(BlockingIOError):
                    del state["out"][:sock.send(state["out"])]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(sock)
            return
        if state["eof"] and not state["out"]:
            self._drop(sock)
            return
        want = 0
        if not state["eof"] and len(state["out"]) < self.HIGH:
            want |= selectors.EVENT_READ
        if state["out"]:
            want |= selectors.EVENT_WRITE
        self.sel.modify(sock, want, state)

    def stop(self):
        if not self.stopping:
            self.stopping = True
            os.write(self.wake_w, b"x")
            self.thread.join(guard(GUARD))
            self.sock.close()
            os.close(self.wake_w)
            os.close(self.wake_r)


class HandlerServer(Server):
    """Calls handler(sock, peer) in a thread per connection; exceptions are kept."""

    def __init__(self, ns, addr, handler):
        self.handler = handler
        self.errors = []
        self.live = []
        super().__init__(ns, addr)

    def serve(self):
        while not self.stopping:
            try:
                sock, peer = self.sock.accept()
            except OSError:
                return
            self.peers.append(peer)
            self.live.append(sock)
            sock.settimeout(guard(60))
            threading.Thread(target=self._one, args=(sock, peer), daemon=True).start()

    def _one(self, sock, peer):
        try:
            self.handler(sock, peer)
        except Exception as err:  # noqa: BLE001 - kept for the test to look at
            self.errors.append(err)
        finally:
            with contextlib.suppress(OSError):
                sock.close()

    def stop(self):
        super().stop()
        for sock in self.live:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class HoldServer(Server):
    """Accepts and does nothing: the test drives the accepted sockets itself."""

    def __init__(self, ns, addr):
        self.socks = []
        self.ready = threading.Condition()
        super().__init__(ns, addr)

    def serve(self):
        while not self.stopping:
            try:
                sock, peer = self.sock.accept()
            except OSError:
                return
            sock.settimeout(guard(GUARD))
            with self.ready:
                self.peers.append(peer)
                self.socks.append(sock)
                self.ready.notify_all()

    def take(self):
        """The next accepted connection."""
        with self.ready:
            assert self.ready.wait_for(lambda: self.socks, guard(GUARD)), "nobody connected"
            return self.socks.pop(0)

    def stop(self):
        super().stop()
        for sock in self.socks:
            sock.close()


_PATTERN = memoryview(os.urandom(2 * MIB))


def _blocks(total):
    """Blocks of a stream in which every megabyte differs, so lost or swapped ones are seen."""
    step = 0
    while total:
        n = min(total, MIB)
        off = (step * 4099) % MIB
        yield _PATTERN[off:off + n]
        total -= n
        step += 1


def send_stream(sock, total):
    """Sends 'total' bytes and returns their checksum."""
    crc = 0
    for block in _blocks(total):
        crc = zlib.crc32(block, crc)
        sock.sendall(block)
    return crc


def recv_stream(sock):
    """Reads to the end; returns (bytes, checksum)."""
    buf = bytearray(MIB)
    view = memoryview(buf)
    total = crc = 0
    while True:
        n = sock.recv_into(buf)
        if n == 0:
            return total, crc
        crc = zlib.crc32(view[:n], crc)
        total += n


def upload_handler(sock, _peer):
    """Reads everything, then answers with length and checksum: needs half-close to work."""
    total, crc = recv_stream(sock)
    sock.sendall(struct.pack("!QI", total, crc))


def download_handler(total):
    """Sends 'total' bytes at once, then the checksum as the last four bytes."""
    def handler(sock, _peer):
        crc = send_stream(sock, total)
        sock.sendall(struct.pack("!I", crc))
        sock.shutdown(socket.SHUT_WR)
        read_all(sock)
    return handler


def upload(sock, total):
    crc = send_stream(sock, total)
    sock.shutdown(socket.SHUT_WR)
    got, remote = struct.unpack("!QI", read_exact(sock, 12))
    assert (got, remote) == (total, crc), "uploaded bytes arrived changed"


def download(sock, total):
    buf = bytearray(MIB)
    view = memoryview(buf)
    left, crc = total, 0
    while left:
        n = sock.recv_into(view[:min(left, MIB)])
        assert n, f"ended with {left} bytes missing"
        crc = zlib.crc32(view[:n], crc)
        left -= n
    assert struct.unpack("!I", read_exact(sock, 4))[0] == crc, "downloaded bytes arrived changed"
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""


def http(ns, addr, path, method="GET", headers=(), timeout=GUARD):
    """One HTTP/1.1 request; returns (status, headers, body)."""
    import http.client  # local: only this helper needs it
    conn = http.client.HTTPConnection(addr[0], addr[1])
    conn.sock = connect(ns, addr, timeout)
    try:
        conn.request(method, path, headers=dict(headers))
        resp = conn.getresponse()
        return resp.status, dict(resp.getheaders()), resp.read()
    finally:
        conn.close()
