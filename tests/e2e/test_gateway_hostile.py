# SPDX-License-Identifier: Apache-2.0
"""
The gateway under attack: requests that two programs could understand differently (the files in smuggling/), clients
that are slow on purpose, floods, garbage, and very many connections.
"""
import os
import pathlib
import re
import resource
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.control import cpu_s
from harness.wait import GUARD, SANITIZED, SLOW, until

CORPUS = pathlib.Path(__file__).resolve().parent / "smuggling"
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)")
ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "e": "", "\\": "\\", '"': '"'}


class World:
    """Objects -> control plane -> gateway, and beside it a gateway from files with short patience."""

    def __init__(self, binary, tmp, **gateway):
        self.tmp, self.binary = tmp, binary
        self.origin = gw.Origin()
        self.fabric = f = fb.Fabric(binary, tmp)
        self.http, self.https = gw.free_port(), gw.free_port()
        self.cert = fb.make_cert(tmp, "load.test")
        f.secret("cert", *self.cert)
        f.service("web", [self.origin.port])
        f.gateway_object("edge", [("http", "HTTP", self.http), (
            "https", "HTTPS", self.https, {"tls": {"certificateRefs": [{"name": "cert"}]}})])
        f.apply(fb.route("all", "edge", [fb.prefix("/", fb.to("web"))]))
        self.gateway = f.start_gateway(**gateway)
        f.programmed("edge")
        until(self.served, what="the route and its endpoint")

    def connect(self, port=None, source=None):
        s = socket.create_connection(("127.0.0.1", port or self.http), timeout=GUARD * SLOW,
                                     source_address=(source, 0) if source else None)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def served(self, port=None):
        try:
            with self.connect(port) as s:
                s.sendall(b"GET /size/3 HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n")
                return read_all(s).startswith(b"HTTP/1.1 200 ")
        except ConnectionRefusedError:
            return False

    def alive(self, port=None):
        assert self.served(port)

    def close(self):
        self.fabric.close()
        self.origin.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("hostile"))
    yield world
    world.close()


def read_to_end(s, seconds=GUARD * SLOW):
    """What comes until the peer closes, or is silent that long, and whether it closed."""
    out = b""
    s.settimeout(seconds)
    try:
        while (piece := s.recv(65536)):
            out += piece
    except TimeoutError:
        return out, False
    except OSError:
        pass
    return out, True


def read_all(s):
    return read_to_end(s)[0]


# --- requests ---

def unescape(text):
    out = ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else ESCAPES[m[1]], text)
    return out.encode("latin-1")


def expand(line):
    if "@repeat " not in line:
        return unescape(line)
    before, _, rest = line.partition("@repeat ")
    count, _, what = rest.partition(" ")
    return unescape(before) + unescape(what) * int(count)


def load(path):
    head, _, rest = path.read_text(encoding="utf-8").partition("---\n")
    answers = re.search(r"^answer (.*)$", head, re.M)[1].split()
    return answers, "head may pass" in head or "head" in answers, rest.splitlines()


def cases(kind):
    return [pytest.param(p, id=p.stem) for p in sorted((CORPUS / kind).glob("*.txt"))]


NEVER = (b"smuggled", b"x-injected", b"other.test", b"internal.test")


def judge(w, name, may_pass):
    """Nothing of this request (its paths carry its name) came to the backend, or not more than its head."""
    saw = [h for h in list(w.origin.heads) if name in h]
    assert may_pass or not saw, saw
    assert not any(word in head for head in saw for word in NEVER), saw
    assert not any(b"smuggled-" + name in head for head in saw), saw


@pytest.mark.parametrize("path", cases("h1"))
def test_smuggling(w, path):
    answers, may_pass, lines = load(path)
    name = b"h1-" + path.stem.encode() + b"-"
    request = b"".join(expand(x) for x in lines).replace(b"/attack", b"/attack-" + name)
    with w.connect() as s:
        try:
            s.sendall(request + b"GET /smuggled-%s HTTP/1.1\r\nHost: load.test\r\n\r\n" % name)
        except OSError:
            pass  # refused before all of it was sent
        out = read_all(s)
    assert re.match(rb"HTTP/1\.1 (%s) " % "|".join(answers).encode(), out), out[:200]
    assert out.count(b"HTTP/1.1 ") == 1, "nothing behind it is answered"
    judge(w, name, may_pass)


def test_an_upgrade_to_h2c_is_not_passed_on(w):
    mark = len(w.origin.heads)
    with w.connect() as s:
        s.sendall(b"GET /echo HTTP/1.1\r\nHost: load.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                  b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
        s.settimeout(GUARD * SLOW)
        out = s.makefile("rb").readline()
    assert re.match(rb"HTTP/1\.1 (200|400|403) ", out), out
    assert not any(b"h2c" in h.lower() or b"http2-settings" in h.lower() for h in w.origin.heads[mark:])


# --- HTTP/2 by hand ---

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(n, bits):
    most = (1 << bits) - 1
    if n < most:
        return bytes([n])
    out, n = bytes([most]), n - most
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def field(name, value):
    """A literal that is not indexed, without Huffman."""
    return b"\0" + number(len(name), 7) + name + number(len(value), 7) + value


def block(*lines):
    out = b""
    for line in lines:
        at = line.index(": ", 1)
        name, value = line[:at], line[at + 2:]
        times = 1
        if name.startswith("@fields "):
            _, times, name = name.split(" ")
        out += field(unescape(name), expand(value)) * int(times)
    return out


def headers(stream, data, end):
    """HEADERS and as many CONTINUATIONs as it takes."""
    first, rest = data[:16000], data[16000:]
    out = frame(1, (1 if end else 0) | (0 if rest else 4), stream, first)
    while rest:
        piece, rest = rest[:16000], rest[16000:]
        out += frame(9, 0 if rest else 4, stream, piece)
    return out


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)


def frames(data):
    at = 0
    while at + 9 <= len(data) and at + 9 + (n := int.from_bytes(data[at:at + 3], "big")) <= len(data):
        yield data[at + 3], data[at + 4], int.from_bytes(data[at + 5:at + 9], "big"), data[at + 9:at + 9 + n]
        at += 9 + n


def verdict(out, stream):
    """What happened to a stream: 'reset', 'goaway', or a status as text."""
    for kind, _, sid, payload in frames(out):
        if kind == 7 and payload[4:8] != b"\0\0\0\0":
            return "goaway"
        if kind == 3 and sid == stream and payload != b"\0\0\0\0":
            return "reset"
        if kind == 1 and sid == stream:
            static = {0x88: "200", 0x8c: "400", 0x8d: "404"}
            if payload[0] in static:
                return static[payload[0]]
            found = re.search(rb"\x08\x03(\d{3})|\x48\x82(..)|\x08\x82(..)", payload, re.S)
            if found and found[1]:
                return found[1].decode()
            return "headers " + payload[:12].hex()
    return "silence"


def huffman_status(text):
    """'headers HEX' of the few statuses that come Huffman-coded."""
    digits = {"0": "00000", "1": "00001", "2": "00010", "3": "011001", "4": "011010", "5": "011011", "9": "011111"}
    for status in ("400", "403", "404", "405", "413", "421", "431", "501", "503"):
        if all(c in digits for c in status):
            bits = "".join(digits[c] for c in status)
            bits += "1" * (-len(bits) % 8)
            if int(bits, 2).to_bytes(len(bits) // 8, "big").hex() in text:
                return status
    return text


@pytest.mark.parametrize("path", cases("h2"))
def test_smuggling_by_downgrade(w, path):
    answers, may_pass, lines = load(path)
    name = f"h2-{path.stem}-"
    lines = [x.replace("/attack", "/attack-" + name).replace("/smuggled", "/smuggled-" + name) for x in lines]
    fields = [x for x in lines if not x.startswith(("data ", "trailers "))]
    data = [unescape(x[5:]) for x in lines if x.startswith("data ")]
    trailers = [x[9:] for x in lines if x.startswith("trailers ")]
    out = headers(1, block(*fields), not data and not trailers)
    for i, d in enumerate(data):
        out += frame(0, 1 if i == len(data) - 1 and not trailers else 0, 1, d)
    if trailers:
        out += headers(1, block(*trailers), True)
    with w.connect() as s:
        try:
            s.sendall(PREFACE + out)
        except OSError:
            pass
        got = b""
        s.settimeout(GUARD * SLOW)
        while verdict(got, 1) == "silence":
            try:
                piece = s.recv(65536)
            except OSError:
                break
            if not piece:
                break
            got += piece
    told = huffman_status(verdict(got, 1))
    if told == "goaway":
        told = "reset"
    assert told in answers, f"{told}: {got.hex()[:400]}"
    judge(w, name.encode(), may_pass)


def test_after_all_that_it_serves(w):
    w.alive()
    assert w.gateway.alive
    for kind in ("h1", "h2"):  # also what came late
        for path in (CORPUS / kind).glob("*.txt"):
            judge(w, f"{kind}-{path.stem}-".encode(), load(path)[1])


# --- slow on purpose ---

@pytest.fixture(scope="module", name="strict")
def _strict(binary, tmp_path_factory, w):
    """A gateway with little patience."""
    tmp = tmp_path_factory.mktemp("strict")

    class Strict:
        plain, tls, calm, calm_tls = (gw.free_port() for _ in range(4))
    options = {"common_http_protocol_options": {"idle_timeout": "2s"}, "request_headers_timeout": "1s",
               "request_timeout": "2s", "stream_idle_timeout": "2s",
               "http2_protocol_options": {"max_concurrent_streams": 100}}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "60s"}}]
    chain, calm = {"filters": [gw.hcm(routes, **options)]}, {"filters": [gw.hcm(routes)]}
    Strict.gateway = gw.Gateway(binary, tmp, [
        gw.listener("plain", Strict.plain, [chain]),
        gw.listener("tls", Strict.tls, [{**chain, "transport_socket": gw.tls_socket(*w.cert),
                                         "transport_socket_connect_timeout": "1s"}], listener_filters_timeout="1s"),
        gw.listener("calm", Strict.calm, [calm]),  # for honest clients, in the same threads
        gw.listener("calm-tls", Strict.calm_tls, [{**calm, "transport_socket": gw.tls_socket(*w.cert),
                                                   "transport_socket_connect_timeout": "300s"}]),
        gw.cluster("origin", [w.origin.port])])
    yield Strict
    Strict.gateway.stop()


def drip(s, piece, every):
    """Sends a little at a time until the peer has enough; False: it never had."""
    end = time.monotonic() + GUARD * SLOW
    s.setblocking(False)
    while time.monotonic() < end:
        try:
            s.send(piece)
            if s.recv(65536) == b"":
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        time.sleep(every)
    return False


def test_slowloris(w, strict):
    """300 connections that send a field now and then, and one honest client."""
    socks = [w.connect(strict.plain) for _ in range(300)]
    for i, s in enumerate(socks):
        s.sendall(b"GET / HTTP/1.1\r\nHost: load.test\r\n" if i % 2 else b"POST /sha HTTP/1.1\r\nHost: load.test\r\n"
                  b"Content-Length: 1000\r\n\r\n")
        s.setblocking(False)
    start, left = time.monotonic(), set(socks)
    while left and time.monotonic() - start < GUARD * SLOW:
        for s in list(left):
            try:
                s.send(b"X: y\r\n")
                s.recv(1000)
            except BlockingIOError:
                pass
            except OSError:
                left.discard(s)
        w.alive(strict.calm)
        time.sleep(0.1)
    assert not left, f"{len(left)} of 300 still open"
    for s in socks:
        s.close()


def test_slow_starts(w, strict):
    """
    Nothing, half a preface, half a header block, half a handshake, one byte at a time. Where patience is longer, who
    began no later is still heard.
    """
    hello = ssl_hello()
    started = []
    patient = w.connect(strict.calm_tls)
    patient.sendall(hello[:60])
    for port, data in (
            (strict.plain, PREFACE[:10]),
            (strict.plain, PREFACE + frame(1, 0, 1, b"\x82\x86\x84")),  # and never the rest of the block
            *((strict.tls, data) for data in (b"", hello[:3], hello[:60], hello))):
        s = w.connect(port)
        s.sendall(data)
        started.append((s, data))
    with w.connect(strict.tls) as s:
        assert drip(s, b"\x16", 0.1)
    for s, data in started:
        assert read_to_end(s)[1], data[:10]
        s.close()
    with patient:
        patient.sendall(hello[60:])
        assert patient.recv(1) == b"\x16"  # the handshake goes on


def ssl_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="load.test").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


@pytest.mark.parametrize("how", ["h1", "h2", "tls"])
def test_slow_readers_cost_bounded_memory(w, how):
    before = w.gateway.rss_kb()
    socks = []
    for _ in range(20):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(GUARD * SLOW)
        s.connect(("127.0.0.1", w.https if how == "tls" else w.http))
        if how == "tls":
            context = ssl.create_default_context(cafile=w.cert[0])
            s = context.wrap_socket(s, server_hostname="load.test")
        if how == "h2":
            s.sendall(PREFACE + frame(8, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)) + b"".join(
                frame(4, 0, 0, struct.pack(">HI", 4, 0x7fffffff)) if i == 0 else
                headers(2 * i - 1, block(":method: GET", ":scheme: http", ":authority: load.test", ":path: /size/5000000"),
                        True) for i in range(11)))
        else:
            s.sendall(b"GET /size/20000000 HTTP/1.1\r\nHost: load.test\r\n\r\n")
        socks.append(s)
    time.sleep(1)
    grown = w.gateway.rss_kb() - before
    for s in socks:
        s.close()
    print(f"{how}: {grown} kB for 20 slow readers")
    # 200 streams of 5 MB each, or 20 bodies of 20 MB: almost all of it stays with the origin.
    assert SANITIZED or grown < (60 if how == "h2" else 24) * 1024, grown
    w.alive()


# --- floods ---

HEAD = block(":method: GET", ":scheme: http", ":authority: load.test", ":path: /size/10")
POST = block(":method: POST", ":scheme: http", ":authority: load.test", ":path: /sha")


def flood(name, n):
    """Pieces of a flood, endlessly many if wanted."""
    if name == "rapid-reset":
        for i in range(n):
            yield headers(1 + 2 * i, HEAD, True) + frame(3, 0, 1 + 2 * i, b"\0\0\0\x08")
    elif name == "reset-by-window":  # makes the server reset: a window update of nothing
        for i in range(n):
            yield headers(1 + 2 * i, POST, False) + frame(8, 0, 1 + 2 * i, b"\0\0\0\0")
    elif name == "reset-by-data":  # data behind the end
        for i in range(n):
            yield headers(1 + 2 * i, HEAD, True) + frame(0, 0, 1 + 2 * i, b"x")
    elif name == "settings":
        for _ in range(n):
            yield frame(4, 0, 0, struct.pack(">HI", 4, 65535)) * 20
    elif name == "ping":
        for _ in range(n):
            yield frame(6, 0, 0, b"12345678") * 20
    elif name == "priority":
        for i in range(n):
            yield b"".join(frame(2, 0, 1 + 2 * k, b"\0\0\0\0\x10") for k in range(20))
    elif name == "continuation":
        yield frame(1, 0, 1, HEAD)
        for _ in range(n):
            yield frame(9, 0, 1, field(b"x", b"y" * 50) * 200)
    elif name == "continuation-empty":
        yield frame(1, 0, 1, HEAD)
        for _ in range(n):
            yield frame(9, 0, 1) * 50
    elif name == "empty-data":
        yield headers(1, POST, False)
        for _ in range(n):
            yield frame(0, 0, 1) * 50
    elif name == "padding":
        yield headers(1, POST, False)
        for _ in range(n):
            yield frame(0, 8, 1, b"\xff" + b"\0" * 255) * 50
    elif name == "window":
        yield headers(1, POST, False)
        for _ in range(n):
            yield frame(8, 0, 1, b"\0\0\0\x01") * 50
    elif name == "window-overflow":
        yield frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2
    elif name == "hpack-bomb":
        big = b"\x40" + number(1, 7) + b"a" + number(4000, 7) + b"b" * 4000  # indexed once, then one byte each
        for i in range(min(n, 50)):
            yield headers(1 + 2 * i, HEAD + (big if i == 0 else b"") + b"\xbe" * 15000, True)


@pytest.mark.parametrize("name", ["rapid-reset", "reset-by-window", "reset-by-data", "settings", "ping", "priority",
                                  "continuation", "continuation-empty", "empty-data", "padding", "window",
                                  "window-overflow", "hpack-bomb"])
def test_http2_floods(w, name):
    before, sent, ended = w.gateway.rss_kb(), 0, False
    with w.connect(source="127.66.0.4") as s:
        try:
            s.sendall(PREFACE)
            for piece in flood(name, 3000):
                s.sendall(piece)
                sent += 1
        except ConnectionError:
            ended = True
        harmless = name in ("padding", "window", "priority")  # cost next to nothing: may be borne
        got = b""
        if not ended:
            got, ended = read_to_end(s, 0.3 if harmless else GUARD * SLOW)
    codes = [int.from_bytes(p[4:8], "big") for k, _, _, p in frames(got) if k == 7]
    assert ended or harmless, f"{sent} pieces taken: {codes} {len(got)}"
    assert SANITIZED or w.gateway.rss_kb() - before < 48 * 1024
    w.alive()


def test_floods_do_not_stop_others(w):
    """Four attackers that reconnect, while an honest client from elsewhere is served every time."""
    stop = threading.Event()

    def attack(name):
        while not stop.is_set():
            try:
                with w.connect(source="127.66.0.1") as s:
                    s.settimeout(1)
                    s.sendall(PREFACE)
                    for piece in flood(name, 200):
                        s.sendall(piece)
            except OSError:
                pass

    threads = [threading.Thread(target=attack, args=(n,), daemon=True) for n in
               ("rapid-reset", "ping", "continuation", "settings")]
    for t in threads:
        t.start()
    times = []
    try:
        for _ in range(5 if SANITIZED else 30):
            start = time.monotonic()
            w.alive()
            times.append(time.monotonic() - start)
    finally:
        stop.set()
        for t in threads:
            t.join(GUARD * SLOW)
    print(f"worst {1000 * max(times):.0f} ms, median {1000 * sorted(times)[len(times) // 2]:.1f} ms")


def test_resets_of_one_client_do_not_cost_its_address(w):
    """A NAT with an attacker that reconnects and an honest client: the attacker's connections end, the other is served."""
    def ask():
        with w.connect(source="127.66.0.2") as s:
            s.sendall(b"GET /echo HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n")
            return read_all(s).startswith(b"HTTP/1.1 200")

    def attack():
        try:
            with w.connect(source="127.66.0.2") as s:
                s.sendall(PREFACE + b"".join(flood("rapid-reset", 250)))
                read_to_end(s)
        except OSError:
            pass

    def ended():
        return w.gateway.metrics().sum("spanwire_gateway_connections_refused_total", reason="abuse")

    with w.connect(source="127.66.0.2") as patient:  # open before, and never reset anything
        patient.sendall(b"GET /echo HTTP/1.1\r\nHost: load.test\r\n\r\n")
        assert patient.recv(12) == b"HTTP/1.1 200"
        while not ended():
            attack()
        assert all(ask() for _ in range(8))
        for _ in range(20):  # long past the allowance of the address
            attack()
            assert ask()
        patient.sendall(b"GET /echo HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200" in read_all(patient)
    until(lambda: "too many early resets from this address" in w.gateway.log())


def test_answered_streams_excuse_resets(w):
    """What a CDN sends: mostly requests that are answered, and hundreds that visitors cancelled, on one connection."""
    answered = 0
    with w.connect(source="127.66.0.5") as s:
        s.sendall(PREFACE)
        got, ids = b"", iter(range(1, 1 << 20, 2))
        for _ in range(150):
            batch = b"".join(headers(next(ids), HEAD, True) for _ in range(10))
            for _ in range(5):
                i = next(ids)
                batch += headers(i, HEAD, True) + frame(3, 0, i, b"\0\0\0\x08")
            s.sendall(batch)
            answered += 10
            while sum(1 for kind, flags, *_ in frames(got) if kind in (0, 1) and flags & 1) < answered:
                piece = s.recv(65536)
                assert piece, "the connection was closed"
                got += piece
        assert not [p for kind, _, _, p in frames(got) if kind == 7]  # GOAWAY


def test_lists_of_options_cost_linear_time(w):
    """57 KB of Connection or TE beside as many fields as a head may have cost no more than other heads of that size."""
    def cost(lines, n=20):
        head = b"GET /size/1 HTTP/1.1\r\nHost: load.test\r\n" + b"".join(lines) + b"\r\n"
        before = cpu_s(w.gateway.pid)
        for _ in range(n):
            with w.connect(source="127.66.0.6") as s:
                s.sendall(head)
                assert s.recv(12) == b"HTTP/1.1 200"
        return (cpu_s(w.gateway.pid) - before) / n

    options = [b"Connection: " + b",".join(b"n%04d" % i for i in range(k, k + 1300)) + b"\r\n"
               for k in range(0, 9100, 1300)]
    fields = [b"n%04d: v\r\n" % (9500 + i) for i in range(80)]
    te = [b"TE: " + b"," * 600 + b"\r\n" for _ in range(90)]
    plain = cost([b"x-field: " + b"v" * 600 + b"\r\n" for _ in range(90)])
    costs = {"connection": cost(options + fields), "te": cost(te), "plain": plain}
    print({k: f"{1000 * v:.2f} ms" for k, v in costs.items()})
    assert max(costs.values()) < plain + 0.006 * SLOW, costs


# --- descriptors ---

NOFILE = 200


def http1(w, path=b"/size/3"):
    s = w.connect()
    s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: load.test\r\n\r\n")
    assert s.recv(65536).startswith(b"HTTP/1.1 200")
    return s


def http2(w):
    s = w.connect()
    s.sendall(PREFACE + headers(1, HEAD, True))
    got = b""
    while not any(kind in (0, 1) and flags & 1 for kind, flags, *_ in frames(got)):
        got += s.recv(65536)
    return s


def closed(s):
    s.setblocking(False)
    try:
        while s.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("kind", [http1, http2, lambda w: w.connect()], ids=["http1", "http2", "silent"])
def test_idle_connections_make_room_for_new_ones(binary, tmp_path, kind):
    """More keep-alive connections than descriptors: the oldest idle ones are closed, busy and new ones are served."""
    w = World(binary, tmp_path, nofile=NOFILE, workers=1)
    socks = []
    try:
        busy = w.connect()
        busy.sendall(b"POST /sha HTTP/1.1\r\nHost: load.test\r\nContent-Length: 8\r\n\r\nhalf")
        oldest = kind(w)
        socks = [kind(w) for _ in range(2 * NOFILE)]
        w.alive()  # also when nothing but idle ones could make room
        until(lambda: closed(oldest), what="the oldest idle connection to be closed")
        newest = http1(w)
        newest.sendall(b"GET /size/3 HTTP/1.1\r\nHost: load.test\r\n\r\n")
        assert newest.recv(65536).startswith(b"HTTP/1.1 200")
        busy.sendall(b"half")
        assert busy.recv(65536).startswith(b"HTTP/1.1 200")
        gone = [closed(s) for s in socks]
        assert gone == sorted(gone, reverse=True) or kind is not http1, gone  # in the order they became idle
        told = w.gateway.metrics()
        assert told.sum("spanwire_gateway_connections_evicted_total") >= sum(gone) > 0
        until(lambda: "closing idle connections, the longest idle first" in w.gateway.log())
        for s in (busy, oldest, newest):
            s.close()
    finally:
        for s in socks:
            s.close()
        w.close()


# --- garbage ---

def test_tls_garbage(w):
    hello = ssl_hello()
    junk = [os.urandom(n) for n in (1, 5, 100, 17000)]
    junk += [b"\x16\x03\x01\xff\xff" + b"a" * 70000, b"\x16\x03\x01\x00\x00" * 2000, b"\x16\x03\x01\x00\x01\x01" * 5000,
             b"\x17\x03\x03\x00\x10" + b"x" * 16, b"\x15\x03\x03\x00\x02\x02\x28", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x80\x2e\x01\x03\x01" + b"\0" * 40]
    for at in range(5, len(hello), max(1, len(hello) // 40)):  # every part of a real greeting, spoilt
        junk.append(hello[:at] + bytes([hello[at] ^ 0xff]) + hello[at + 1:])
    for cut in (10, 43, 44, 100, len(hello) - 1):
        junk.append(hello[:cut])
    before = w.gateway.rss_kb()
    for data in junk:
        with w.connect(w.https) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            read_all(s)
    # Connections that are cut in the middle of their handshake, many at once.
    for _ in range(5):
        socks = [w.connect(w.https) for _ in range(100)]
        for s in socks:
            s.sendall(hello)
        for s in socks:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        until(lambda: w.gateway.metrics().sum("spanwire_gateway_connections") == 0, what="them to be gone")
    out = subprocess.run(["curl", "-sS", "--cacert", w.cert[0], "--resolve", f"load.test:{w.https}:127.0.0.1",
                          f"https://load.test:{w.https}/size/3"], capture_output=True, check=True).stdout
    assert out == gw.pattern(3)
    assert SANITIZED or w.gateway.rss_kb() - before < 16 * 1024


def test_connections_that_come_and_go(w):
    """Reset at every moment of their life; no descriptor is lost and no request goes on."""
    def counted():
        told = w.gateway.metrics()
        return [told.sum(f"spanwire_gateway_{name}") for name in
                ("connections", "cluster_active_requests", "cluster_connections")]

    def besides():
        """Descriptors that are neither a client's nor a backend's; None while anything is in use."""
        clients, requests, kept = counted()
        fds = w.gateway.open_fds()
        return None if clients or requests or counted()[2] != kept else fds - kept

    w.alive()
    before = until(besides, what="earlier connections to go")
    stages = [b"", b"GET", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET /slow/50 HTTP/1.1\r\nHost: a\r\n\r\n",
              b"POST /sha HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc", PREFACE,
              PREFACE + headers(1, HEAD, True), PREFACE + headers(1, POST, False) + frame(0, 0, 1, b"x" * 1000)]

    def barrage():
        for i in range(fb.scale(800)):
            s = w.connect()
            s.sendall(stages[i % len(stages)])
            if i % 3:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    for _ in range(3):
        barrage()
    until(lambda: (now := besides()) and now <= before + 5, what=f"{before} descriptors besides connections")
    w.alive()


# --- very many ---

def test_fifty_thousand_idle_connections(w):
    """On one gateway where the limit of descriptors allows, else on as many as it takes, all on the same port."""
    wanted = 5000 if SANITIZED else 50000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = hard - 1500
    if room < 3000:
        pytest.skip(f"NO 50,000 CONNECTIONS: a process may have only {hard} descriptors here")
    gateways = [w.gateway] + [w.fabric.start_gateway() for _ in range((wanted - 1) // room)]
    if len(gateways) > 1:
        print(f"a process may have {hard} descriptors: {len(gateways)} gateways share the port")
    w.alive()
    before, holders, left = sum(g.rss_kb() for g in gateways), [], wanted
    program = pathlib.Path(__file__).resolve().parent / "harness" / "hold.py"
    try:
        while left:
            n = min(left, room, 25000)  # and ports of one source address
            holders.append(subprocess.Popen(
                ["/usr/bin/python3", str(program), str(w.http), str(n), f"127.0.1.{len(holders) + 1}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            left -= n
        for h in holders:
            assert h.stdout.readline() == "open\n"
        until(lambda: sum(g.open_fds() for g in gateways) >= wanted, 3 * GUARD, "all to be accepted", 0.3)
        time.sleep(0.2)
        each = 1024 * (sum(g.rss_kb() for g in gateways) - before) / wanted
        print(f"{wanted} idle connections: {each:.0f} bytes each")
        w.alive()
        assert SANITIZED or each < 2000
        for h in holders:  # they are all still good
            h.stdin.write("ask\n")
            h.stdin.flush()
        for h in holders:
            assert h.stdout.readline() == "answered 200\n"
    finally:
        for h in holders:
            h.stdin.close()
        for h in holders:
            h.wait(GUARD * SLOW)
    until(lambda: sum(g.open_fds() for g in gateways) < 500 * len(gateways), 3 * GUARD, "all to be closed", 0.3)
    for g in gateways[1:]:
        g.stop()
    w.alive()
