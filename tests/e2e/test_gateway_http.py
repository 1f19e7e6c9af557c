# SPDX-License-Identifier: Apache-2.0
"""HTTP through the gateway: both versions on both sides, and everything a client may do wrong."""
import hashlib
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

FORWARD = [{"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "60s"}}]


class Setup:
    """One gateway with a plain and a TLS port, and a second one that speaks HTTP/2 to the first."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.binary, self.tmp = binary, tmp
        self.origin = gw.Origin()
        self.plain, self.tls, self.h2up, self.hasty = (gw.free_port() for _ in range(4))
        self.cert, self.key = gw.make_cert(tmp)
        self.cert2, self.key2 = gw.make_cert(tmp, "other.test")
        self.gateway = gw.Gateway(binary, tmp, self.resources())

    def resources(self):
        options = {"http_protocol_options": {"accept_http_10": True, "enable_trailers": True},
                   "http2_protocol_options": {"allow_connect": True, "max_concurrent_streams": 64}}
        chain = {"filters": [gw.hcm(FORWARD, **options)]}
        hasty = {"common_http_protocol_options": {"idle_timeout": "3s"}, "request_headers_timeout": "1s"}
        return [
            gw.listener("plain", self.plain, [chain]),
            gw.listener("hasty", self.hasty, [{"filters": [gw.hcm(FORWARD, **options, **hasty)]}]),
            gw.listener("tls", self.tls, [
                {"filter_chain_match": {"server_names": ["other.test"]}, **chain,
                 "transport_socket": gw.tls_socket(self.cert2, self.key2)},
                {**chain, "transport_socket": gw.tls_socket(self.cert, self.key)}],
                listener_filters=[{"name": "envoy.filters.listener.tls_inspector", "typed_config": {
                    "@type": gw.TYPE + "envoy.extensions.filters.listener.tls_inspector.v3."
                                       "TlsInspector"}}]),
            gw.listener("h2up", self.h2up, [{"filters": [gw.hcm(
                [{"match": {"prefix": "/"}, "route": {"cluster": "self", "timeout": "60s"}}],
                **options)]}]),
            gw.cluster("origin", [self.origin.port]),
            gw.cluster("self", [self.plain], **gw.h2_options()),
        ]

    def connect(self, port=None, source="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", port or self.plain), timeout=GUARD, source_address=(source, 0))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def raw(self, data, port=None, half=False):
        """Everything the gateway answers until it closes."""
        with self.connect(port) as s:
            try:
                s.sendall(data)
                if half:
                    s.shutdown(socket.SHUT_WR)
            except ConnectionError:
                pass  # it had enough of it
            return read_all(s)


def read_all(s):
    """To the end; one that does not come is a failure."""
    out = b""
    s.settimeout(GUARD)
    try:
        while (piece := s.recv(65536)):
            out += piece
    except ConnectionResetError:
        pass
    return out


def read_response(f):
    """One response from a file-like socket: status, headers, body."""
    status = int(f.readline().split()[1])
    headers = {}
    while (line := f.readline().strip()):
        k, v = line.decode("latin-1").split(":", 1)
        headers[k.lower()] = v.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while (size := int(f.readline().split(b";")[0], 16)):
            body += f.read(size)
            f.readline()
        while (line := f.readline().strip()):
            k, v = line.decode().split(":", 1)
            headers["trailer:" + k] = v.strip()
    else:
        body = f.read(int(headers.get("content-length", 0)))
    return status, headers, body


@pytest.fixture(scope="module", name="g")
def _g(binary, tmp_path_factory):
    s = Setup(binary, tmp_path_factory.mktemp("gateway"))
    yield s
    s.gateway.stop()
    s.origin.close()


def curl(*args, check=True):
    done = subprocess.run(["curl", "-sS", "--max-time", "60", *args], capture_output=True,
                          check=False)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return done.stdout


VERSIONS = {
    "h1": lambda g: (["--http1.1"], f"http://127.0.0.1:{g.plain}"),
    "h2c": lambda g: (["--http2-prior-knowledge"], f"http://127.0.0.1:{g.plain}"),
    "h1-tls13": lambda g: (["-k", "--http1.1"], f"https://127.0.0.1:{g.tls}"),
    "h2-tls13": lambda g: (["-k", "--http2"], f"https://127.0.0.1:{g.tls}"),
    "h2-tls12": lambda g: (["-k", "--http2", "--tls-max", "1.2"], f"https://127.0.0.1:{g.tls}"),
    "h1-to-h2": lambda g: (["--http1.1"], f"http://127.0.0.1:{g.h2up}"),
    "h2-to-h2": lambda g: (["--http2-prior-knowledge"], f"http://127.0.0.1:{g.h2up}"),
}


@pytest.fixture(params=VERSIONS, name="way")
def _way(request, g):
    return VERSIONS[request.param](g)


def test_a_request_arrives_clean(g, way):
    args, url = way
    out = curl(*args, "-H", "Connection: keep-alive, x-hop", "-H", "X-Hop: 1", "-H", "Keep-Alive: 5",
               "-H", "Proxy-Connection: x", "-H", "X-Envoy-Internal: true", "-H", "X-Keep: 1",
               "-H", "Forwarded: for=1.2.3.4", "-H", "Cookie: a=1; b=2", url + "/echo?q=1")
    told = json.loads(out)
    h = told["headers"]
    assert told["target"] == "/echo?q=1"
    assert h["host"] == url.split("//")[1]
    assert "127.0.0.1" in h["x-forwarded-for"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", h["x-request-id"])
    assert h["x-forwarded-proto"] == url.split(":")[0]
    assert "via" not in h
    ours = ", for=127.0.0.1;proto=" + url.split(":")[0]  # twice where two gateways stand in a row
    assert h["forwarded"].startswith("for=1.2.3.4" + ours) and h["forwarded"].count("for=") <= 3, h["forwarded"]
    assert h["x-keep"] == "1" and h["cookie"] == "a=1; b=2"
    for name in ("connection", "keep-alive", "proxy-connection", "x-envoy-internal"):
        assert name not in h, name
    if "--http1.1" in args:
        assert "x-hop" not in h


def test_bodies_both_ways(way):
    args, url = way
    for n in (0, 1, 1000, 100_000, 3_000_000):
        body = gw.pattern(n)
        assert curl(*args, f"{url}/size/{n}") == body
        want = f"{hashlib.sha256(body).hexdigest()} {n}"
        out = subprocess.run(["curl", "-sS", *args, "--max-time", "60", "--data-binary", "@-",
                              "-H", "Content-Type: x/y", f"{url}/sha"], input=body,
                             capture_output=True, check=True).stdout.decode()
        assert out == want
        out = subprocess.run(["curl", "-sS", *args, "--max-time", "60", "-T", "-", f"{url}/sha"],
                             input=body, capture_output=True, check=True).stdout.decode()
        assert out == want, "without a length"


def test_methods_and_statuses(way):
    args, url = way
    head = curl(*args, "-I", url + "/size/1234").decode().lower()
    assert "content-length: 1234" in head and " 200" in head
    for status in ("204", "304", "404", "503"):
        out = curl(*args, "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                   f"{url}/status/{status}").decode()
        assert out == f"{status} {0 if status in ('204', '304') else 3}"
    assert json.loads(curl(*args, "-X", "DELETE", url + "/echo"))["method"] == "DELETE"


def test_upstream_that_closes_without_answer_is_503(way):
    args, url = way
    assert curl(*args, "-o", "/dev/null", "-w", "%{http_code}", url + "/close") == b"503"


def test_100_continue(g):
    with g.connect() as s:
        s.sendall(b"POST /sha HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        f = s.makefile("rb")
        assert f.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert f.readline() == b"\r\n"
        s.sendall(b"abc")
        status, _, body = read_response(f)
        assert status == 200 and body.endswith(b" 3")


def test_pipelining_keeps_order(g):
    with g.connect() as s:
        s.sendall(b"".join(b"GET /size/%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(1, 60)))
        f = s.makefile("rb")
        for n in range(1, 60):
            status, _, body = read_response(f)
            assert (status, body) == (200, gw.pattern(n))


def test_trailers_pass_in_both_directions(g):
    with g.connect() as s:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"3\r\nabc\r\n0\r\nx-check: 7\r\n\r\n")
        _, _, body = read_response(s.makefile("rb"))
        assert json.loads(body)["headers"][":trailers"] == {"x-check": "7"}
    with g.connect() as s:
        s.sendall(b"GET /chunked HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n")
        _, headers, body = read_response(s.makefile("rb"))
        assert body == b"hello world" and headers["trailer:x-sum"] == "42"
    for port in (g.plain, g.h2up):
        out = subprocess.run(["nghttp", "-v", f"http://127.0.0.1:{port}/chunked"],
                             capture_output=True, check=True).stdout.decode()
        assert "x-sum: 42" in out


def test_http10(g):
    out = g.raw(b"GET /size/5 HTTP/1.0\r\nHost: a\r\n\r\n")
    assert out.startswith(b"HTTP/1.1 200") and out.endswith(gw.pattern(5))
    out = g.raw(b"GET /chunked HTTP/1.0\r\nHost: a\r\n\r\n")
    assert b"chunked" not in out.lower() and out.endswith(b"hello world")


def ws_request(path=b"/ws"):
    return (b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n")


@pytest.mark.parametrize("port", ["plain", "h2up"])
def test_websocket_tunnel(g, port):
    with g.connect(getattr(g, port)) as s:
        s.sendall(ws_request())
        f = s.makefile("rb")
        assert b"101" in f.readline()
        head = b""
        while (line := f.readline()).strip():
            head += line.lower()
        assert b"upgrade: websocket" in head and b"sec-websocket-accept: x" in head
        blob = os.urandom(300_000)
        sender = threading.Thread(target=lambda: s.sendall(blob))
        sender.start()
        assert f.read(len(blob)) == blob
        sender.join()
        s.shutdown(socket.SHUT_WR)
        assert f.read() == b"bye"


def test_websocket_refused_upstream_stays_http(g):
    with g.connect() as s:
        s.sendall(ws_request(b"/size/4") + b"GET /size/5 HTTP/1.1\r\nHost: a\r\n\r\n")
        f = s.makefile("rb")
        assert read_response(f)[2] == gw.pattern(4)
        assert read_response(f)[2] == gw.pattern(5)


@pytest.mark.parametrize("fields", [b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Upgrade: websocket\r\n", b""])
def test_an_upgrade_to_something_else_is_502(g, fields):
    answer = b"HTTP/1.1 101 Switching Protocols\r\n" + fields + b"\r\n"
    with g.connect() as s:
        s.sendall(ws_request(b"/raw/" + answer.hex().encode() + b"/end") + b"bytes of the new protocol")
        assert read_response(s.makefile("rb"))[0] == 502


def test_certificate_by_name(g):
    for name, want in (("other.test", "other.test"), ("localhost", "localhost"), (None, "localhost")):
        context = ssl.create_default_context(cafile=g.cert if want == "localhost" else g.cert2)
        context.check_hostname = False
        with g.connect(g.tls) as s, context.wrap_socket(s, server_hostname=name) as t:
            names = [v for _, v in t.getpeercert()["subjectAltName"]]
            assert want in names


def test_client_certificates(binary, tmp_path):
    origin, port = gw.Origin(), gw.free_port()
    cert, key = gw.make_cert(tmp_path)
    mine, mine_key = gw.make_cert(tmp_path, "client.test")
    other, other_key = gw.make_cert(tmp_path, "stranger.test")
    socket_ = gw.tls_socket(cert, key, require_client_certificate=True)
    socket_["typed_config"]["common_tls_context"]["validation_context"] = {
        "trusted_ca": {"filename": mine}}
    gate = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(FORWARD)], "transport_socket": socket_}]),
        gw.cluster("origin", [origin.port])])
    url = f"https://127.0.0.1:{port}/size/4"
    assert curl("-k", "--cert", mine, "--key", mine_key, url) == gw.pattern(4)
    for args in ([], ["--cert", other, "--key", other_key]):
        done = subprocess.run(["curl", "-sSk", "--max-time", "60", *args, url], capture_output=True,
                              check=False)
        assert done.returncode != 0 and done.stdout == b""
    gate.stop()
    origin.close()


def test_connections_are_reused(g):
    before = g.origin.connections
    with g.connect() as s:
        f = s.makefile("rb")
        for _ in range(50):
            s.sendall(b"GET /size/10 HTTP/1.1\r\nHost: a\r\n\r\n")
            read_response(f)
    assert g.origin.connections - before <= 1


def test_stale_upstream_connection_is_retried(g):
    g.origin.limit = 1
    try:
        for _ in range(20):
            assert curl(f"http://127.0.0.1:{g.plain}/size/7") == gw.pattern(7)
    finally:
        g.origin.limit = 0


SMUGGLING = {
    "cl-te": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te-te": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "te-space": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "te-x": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te-list": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "te-10": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-cl": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "cl-list": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na",
    "cl-plus": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
    "cl-negative": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na",
    "bare-lf": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare-lf-field": b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "bare-cr": b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz: 1\r\n\r\n",
    "obs-fold": b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
    "space-first": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "no-host": b"GET / HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "bad-host": b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "nul": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "bad-version": b"GET / HTTP/1.7\r\nHost: a\r\n\r\n",
    "http09": b"GET /\r\n\r\n",
    "space-target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "huge-line": b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "huge-field": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"b" * 70000 + b"\r\n\r\n",
    "many-fields": b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    "absolute-host-differs": b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect-body": b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc",
}

BAD_CHUNKS = {
    "size": b"xyz\r\n", "negative": b"-1\r\n", "space": b"5 \r\nhello\r\n", "0x": b"0x5\r\nhello\r\n",
    "overflow": b"fffffffffffffffff\r\n", "no-crlf": b"5\r\nhelloXX0\r\n\r\n", "lf": b"5\nhello\n0\n\n",
    "trailer-cl": b"0\r\nContent-Length: 5\r\n\r\n", "ext": b"5;" + b"a" * 5000 + b"\r\nhello\r\n",
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_smuggling_is_refused(g, name):
    before = g.origin.requests
    out = g.raw(SMUGGLING[name] + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
    assert re.match(rb"HTTP/1\.1 (4\d\d|501|505) ", out), out[:80]
    assert out.count(b"HTTP/1.1") == 1, "nothing after it is looked at"
    assert g.origin.requests == before


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_bad_chunks_are_refused(g, name):
    head = b"POST /sha HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    out = g.raw(head + BAD_CHUNKS[name] + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
    assert re.match(rb"HTTP/1\.1 4\d\d ", out), out[:80]
    assert not any(b"smuggled" in h for h in g.origin.heads)


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\nX: y\n\n", b"HTTP/3.0 200 OK\r\n\r\n", b"garbage\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
])
def test_bad_answers_become_502(g, answer):
    out = curl("-o", "/dev/null", "-w", "%{http_code}",
               f"http://127.0.0.1:{g.plain}/raw/{answer.hex()}")
    assert out == b"502"


def test_cut_answer_is_not_completed(g):
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc".hex()
    for args in (["--http1.1"], ["--http2-prior-knowledge"]):
        done = subprocess.run(["curl", "-sS", *args, f"http://127.0.0.1:{g.plain}/raw/{short}/end"],
                              capture_output=True, check=False)
        assert done.returncode != 0


def test_slow_head_is_cut_off(g):
    """Who has another patience is served meanwhile, however slow."""
    with g.connect() as calm, g.connect(g.hasty) as s:
        for c in (calm, s):
            c.sendall(b"GET /size/1 HTTP/1.1\r\nHost: a\r\n")
        for _ in range(25):
            try:
                s.sendall(b"X: y\r\n")
            except OSError:
                break
            time.sleep(0.1)
        assert b" 408 " in read_all(s)
        calm.sendall(b"\r\n")
        assert read_response(calm.makefile("rb"))[0] == 200


def test_idle_connection_is_closed(g):
    start = time.monotonic()  # before the gateway's clock starts
    with g.connect(g.hasty) as s:
        assert read_all(s) == b""
        assert 2 < time.monotonic() - start


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
# :method GET, :scheme http, :path /, :authority a
HEAD = b"\x82\x86\x84\x41\x01a"


def goaway_code(out):
    at = 0
    while at + 9 <= len(out):
        n = int.from_bytes(out[at:at + 3], "big")
        if out[at + 3] == 7:
            return int.from_bytes(out[at + 13:at + 17], "big")
        at += 9 + n
    return None


FLOODS = {
    "rapid-reset": b"".join(frame(1, 5, 1 + 2 * i, HEAD) + frame(3, 0, 1 + 2 * i, b"\0\0\0\x08")
                            for i in range(5000)),
    "settings": frame(4, 0, 0) * 50000,
    "ping": frame(6, 0, 0, b"12345678") * 50000,
    "empty-data": frame(1, 4, 1, HEAD) + frame(0, 0, 1) * 5000,
    "continuation": frame(1, 0, 1, HEAD) + frame(9, 0, 1, b"\x40\x01x\x01y" * 200) * 3000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_http2_floods_end_the_connection(g, name):
    before = g.gateway.rss_kib()
    with g.connect(source="127.66.0.1") as s:  # what it does is held against its address
        try:
            s.sendall(PREFACE)
            s.sendall(FLOODS[name])
        except ConnectionError:
            pass
        out = read_all(s)
    assert goaway_code(out) != 0
    assert g.gateway.rss_kib() - before < 64 * 1024
    assert curl(f"http://127.0.0.1:{g.plain}/size/3") == gw.pattern(3)


def test_slow_reader_costs_bounded_memory(g):
    before = g.gateway.rss_kib()
    socks = []
    for _ in range(10):
        s = g.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"GET /size/20000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        socks.append(s)
    time.sleep(1.5)
    grown = g.gateway.rss_kib() - before
    for s in socks:
        s.close()
    assert grown < 12 * 1024, grown


def test_tls_garbage_and_plain_on_tls(g):
    for junk in (b"\x16\x03\x01\xff\xff" + b"a" * 100, os.urandom(500), b"GET / HTTP/1.1\r\n\r\n",
                 b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"):
        g.raw(junk, g.tls, half=True)
    assert curl("-k", f"https://127.0.0.1:{g.tls}/size/3") == gw.pattern(3)


class Load:
    """Clients that count every request that did not get its answer."""

    def __init__(self, port, clients=16, versions=("1", "2")):
        self.stop, self.done, self.failed = False, 0, []
        self.port = port
        self.threads = [threading.Thread(target=self._h1, daemon=True) for _ in range(clients)]
        for t in self.threads:
            t.start()

    def _h1(self):
        f = s = None
        while not self.stop:
            fresh = s is None
            try:
                if fresh:
                    s = socket.create_connection(("127.0.0.1", self.port), timeout=2 * GUARD)
                    f = s.makefile("rb")
                s.sendall(b"GET /size/100 HTTP/1.1\r\nHost: a\r\n\r\n")
                status, headers, body = read_response(f)
                assert status == 200 and len(body) == 100, status
                self.done += 1
                if headers.get("connection") == "close":
                    s = s.close()
            except (OSError, AssertionError, IndexError, ValueError) as e:
                # A server may end an idle connection just when it is used again: a client that
                # reuses one repeats the request (RFC 9112 9.3.1). On a fresh one it is a failure.
                if fresh:
                    self.failed.append(repr(e))
                s = s.close() if s else None

    def end(self):
        try:
            until(lambda: self.done > 500 or self.failed, 20, "500 requests")
        finally:
            self.stop = True
            for t in self.threads:
                t.join(2 * GUARD)


def test_reload_under_load(g):
    load = Load(g.plain)
    resources = g.resources()
    for i in range(60):
        changed = json.loads(json.dumps(resources))
        table = changed[0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
        table["virtual_hosts"][0]["routes"].insert(0, {
            "match": {"path": f"/never/{i}"}, "direct_response": {"status": 418}})
        g.gateway.apply(changed)
        time.sleep(0.03)
    g.gateway.apply(resources)
    time.sleep(0.3)
    load.end()
    assert not load.failed, load.failed[:3]


def serving(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_drain_says_close_and_goaway(binary, tmp_path):
    origin, port = gw.Origin(), gw.free_port()
    gate = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(FORWARD)]}]),
        gw.cluster("origin", [origin.port])], drain="120s")
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as busy, \
            socket.create_connection(("127.0.0.1", port), timeout=GUARD) as h2:
        h2.sendall(PREFACE)
        assert h2.recv(1)  # it speaks
        busy.sendall(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: origin.requests == 1, 10, "the request")
        gate.process.terminate()
        until(lambda: not serving(port), what="the port to be closed")
        origin.release.set()
        status, headers, _ = read_response(busy.makefile("rb"))
        assert status == 200 and headers["connection"] == "close"
        assert goaway_code(b"\0" + read_all(h2)) == 0
    gate.stop()
    origin.close()


def test_hot_restart_loses_nothing(binary, tmp_path):
    origin, port = gw.Origin(), gw.free_port()
    resources = [gw.listener("l", port, [{"filters": [gw.hcm(FORWARD)]}]),
                 gw.cluster("origin", [origin.port])]
    gate = gw.Gateway(binary, tmp_path, resources)
    load = Load(port)
    try:
        for _ in range(3):
            time.sleep(0.3)
            successor = gw.Gateway(binary, tmp_path, None)
            gate.stop()
            gate = successor
    finally:
        load.end()
    gate.stop()
    origin.close()
    assert not load.failed, load.failed[:3]
