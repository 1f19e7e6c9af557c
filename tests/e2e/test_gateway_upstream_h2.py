# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 upstreams that break the protocol: the request ends at once, the next one is served, the gateway lives."""
import concurrent.futures
import contextlib
import pathlib
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, SLOW, until

REFUSED = (b"HTTP/1.1 502 ", b"HTTP/1.1 503 ")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A literal that is not indexed, without Huffman; short ones only."""
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(stream, *fields, end=False, status=b"200"):
    lines = [field(b":status", status), *(field(*f) for f in fields)]
    return frame(1, 5 if end else 4, stream, b"".join(lines))


def data(stream, payload, end=True):
    return frame(0, 1 if end else 0, stream, payload)


def push(s):
    asked = b"".join(field(*f) for f in ((b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"),
                                         (b":authority", b"a")))
    return frame(5, 4, s, struct.pack(">I", 2) + asked) + head(s) + data(s, b"ok")


# What the upstream says on stream s.
BROKEN = {
    "data-before-head": lambda s: data(s, b"x", False) + head(s) + data(s, b"ok"),
    "push": push,
    "stream-nobody-opened": lambda s: head(s + 2, end=True) + head(s) + data(s, b"ok"),
    "even-stream": lambda s: head(2, end=True) + head(s) + data(s, b"ok"),
    "window-overflow": lambda s: frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2 + head(s) + data(s, b"ok"),
    "stream-window-overflow": lambda s: frame(8, 0, s, b"\x7f\xff\xff\xff") * 2 + head(s) + data(s, b"ok"),
    "settings-window": lambda s: frame(4, 0, 0, struct.pack(">HI", 4, 0xffffffff)) + head(s) + data(s, b"ok"),
    "settings-flood": lambda s: frame(4, 0, 0, struct.pack(">HI", 3, 100)) * 20000 + head(s) + data(s, b"ok"),
    "hpack": lambda s: frame(1, 5, s, b"\xff" * 6),
    "padding": lambda s: frame(1, 4 | 8, s, b"\xff" + field(b":status", b"200")),
    "http1": lambda s: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "value-crlf": lambda s: head(s, (b"x", b"a\r\nset-cookie: evil=1")) + data(s, b"ok"),
    "name-crlf": lambda s: head(s, (b"x: a\r\ny", b"a")) + data(s, b"ok"),
    "transfer-encoding": lambda s: head(s, (b"transfer-encoding", b"chunked")) + data(s, b"0\r\n\r\n"),
    "length-twice": lambda s: head(s, (b"content-length", b"2"), (b"content-length", b"2")) + data(s, b"ok"),
    "no-status": lambda s: frame(1, 4, s, field(b"x", b"y")) + data(s, b"ok"),
    "informed-and-ended": lambda s: head(s, status=b"103", end=True),
    "reset": lambda s: frame(3, 0, s, b"\0\0\0\x02"),
    "goaway": lambda s: frame(7, 0, 0, struct.pack(">II", 0, 0)),
}
# Too late for another answer: the client's connection is cut, so that it takes the rest for no whole.
CUT = {
    "length-short": lambda s: head(s, (b"content-length", b"9")) + data(s, b"ok"),
    "length-long": lambda s: head(s, (b"content-length", b"1")) + data(s, b"okok"),
    "trailer-status": lambda s: head(s) + data(s, b"ok", False) + head(s, end=True),
    "trailer-crlf": lambda s: head(s) + data(s, b"ok", False) + frame(1, 5, s, field(b"x", b"a\r\nb: c")),
    "frame-too-large": lambda s: head(s) + data(s, b"x" * 20000),
    "reset-behind-head": lambda s: head(s) + data(s, b"ok", False) + frame(3, 0, s, b"\0\0\0\x02"),
}


class Upstream(Server):
    """Speaks just enough HTTP/2 to answer each HEADERS with whatever `say` makes of its stream."""

    def __init__(self):
        self.say = None
        super().__init__(64)

    def _serve(self, conn):
        try:
            with conn, conn.makefile("rb") as f:
                f.read(24)
                conn.sendall(frame(4, 0, 0) + frame(4, 1, 0))
                while len(at := f.read(9)) == 9:
                    f.read(int.from_bytes(at[:3], "big"))
                    if at[3] == 1:
                        conn.sendall(self.say(int.from_bytes(at[5:9], "big")))
        except OSError:
            pass


class World:
    """A gateway in front of such an upstream. No timeout: what hangs, hangs for ever."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.up, self.port = Upstream(), gw.free_port()
        self.gateway = gw.Gateway(binary, pathlib.Path(tmp), [
            gw.listener("l", self.port, [{"filters": [gw.hcm([
                {"match": {"prefix": "/"}, "route": {"cluster": "up", "timeout": "0s"}}])]}]),
            gw.cluster("up", [self.up.port], **gw.h2_options())], workers=1)

    def ask(self, say):
        self.up.say = say
        out = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=GUARD * SLOW) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            try:
                while (piece := s.recv(65536)):
                    out += piece
            except ConnectionResetError:
                out += b"<reset>"
        return out

    def serves(self):
        out = self.ask(lambda s: head(s) + data(s, b"ok"))
        assert out.startswith(b"HTTP/1.1 200 ") and out.endswith(b"2\r\nok\r\n0\r\n\r\n"), out


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("h2up"))
    yield world
    world.gateway.stop()
    world.up.close()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_is_refused(w, name):
    for _ in range(2):
        out = w.ask(BROKEN[name])
        assert out.startswith(REFUSED) and b"evil" not in out, out
    w.serves()


@pytest.mark.parametrize("name", CUT)
def test_an_answer_that_goes_wrong_later_is_cut(w, name):
    out = w.ask(CUT[name])
    assert not out.endswith(b"0\r\n\r\n") and b"b: c" not in out, out
    w.serves()


def test_others_of_the_connection_are_not_left_waiting(w):
    """Two requests on one connection to the upstream; the second answer breaks it for both."""
    told = []
    first = threading.Event()

    def say(s):
        if not first.is_set():
            first.set()
            return b""
        return BROKEN["data-before-head"](s)

    def early():
        told.append(w.ask(say))

    thread = threading.Thread(target=early)
    thread.start()
    assert first.wait(GUARD * SLOW)
    told.append(w.ask(say))
    thread.join(GUARD * SLOW)
    assert len(told) == 2 and all(t.startswith(REFUSED) for t in told), told
    w.serves()


class Either(Upstream):
    """HTTPS, HTTP/2 or HTTP/1.1 by ALPN: `h2` is what it offers from now on."""

    def __init__(self, tmp):
        self.context = {}
        for alpn in ("h2", "http/1.1"):
            self.context[alpn] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context[alpn].load_cert_chain(*gw.make_cert(tmp))
            self.context[alpn].set_alpn_protocols([alpn])
        self.offer, self.told, self.open = "h2", [], []
        super().__init__()

    def _serve(self, conn):
        alpn = self.offer
        try:
            conn = self.context[alpn].wrap_socket(conn, server_side=True)
        except (OSError, ssl.SSLError):
            return
        self.told.append(conn.selected_alpn_protocol())
        self.open.append(conn)
        if alpn == "h2":
            super()._serve(conn)
            return
        with conn, conn.makefile("rb") as f:
            while f.readline():
                while f.readline().strip():
                    pass
                time.sleep(0.2)
                conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


def test_an_upstream_may_stop_speaking_http2(binary, tmp_path):
    """By ALPN: what the last connection agreed on is no promise for the next one."""
    up, port = Either(tmp_path), gw.free_port()
    options = {"typed_extension_protocol_options": {gw.HTTP_OPTIONS: {
        "@type": gw.TYPE + gw.HTTP_OPTIONS, "auto_config": {}}}}
    options["transport_socket"] = {"name": "tls", "typed_config": {
        "@type": gw.UPSTREAM_TLS, "common_tls_context": {}}}
    gateway = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm([
            {"match": {"prefix": "/"}, "route": {"cluster": "up", "timeout": "60s"}}])]}]),
        gw.cluster("up", [up.port], **options)], workers=1)

    def ask(_=None):
        with socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return s.makefile("rb").readline()[:12]

    try:
        up.say = lambda s: head(s) + data(s, b"ok")
        assert ask() == b"HTTP/1.1 200"
        up.offer = "http/1.1"
        up.open.pop().shutdown(socket.SHUT_RDWR)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # together: each gets a connection
            assert set(pool.map(ask, range(4))) == {b"HTTP/1.1 200"}, gateway.log()[-2000:]
        assert up.told[:2] == ["h2", "http/1.1"] and len(up.told) > 2, up.told
        up.offer = "h2"
        for s in up.open:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        until(lambda: ask() == b"HTTP/1.1 200" and up.told[-1] == "h2", GUARD)
    finally:
        gateway.stop()
        up.close()
