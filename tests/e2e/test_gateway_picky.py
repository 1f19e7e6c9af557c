# SPDX-License-Identifier: Apache-2.0
"""What picky clients and servers look at: lists of fields, names in queries, FIN, ALPN, stream numbers, paths."""
import http.client
import json
import socket
import ssl
import subprocess

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.h2raw import frame
from harness.serve import Server
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

FORMAT = '"%REQ(:PATH)%" "%REQ(USER-AGENT)%" "%REQ(X-ODD)%"\n'
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Hanging(Server):
    """Reads a head and never answers; counts the connections that were given up."""

    def __init__(self):
        self.asked = self.left = 0
        super().__init__()

    def _serve(self, conn):
        with conn, conn.makefile("rb") as f:
            length = 0
            while (line := f.readline().strip().lower()):
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            f.read(length)
            self.asked += 1
            try:
                f.read(1)
            except OSError:
                pass
            self.left += 1


def block(path=b"/echo", method=b"GET", more=()):
    """A header block without compression."""
    fields = ((b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"), *more)
    return b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in fields)


class H2:
    """A client that sends what it is told to."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW)
        self.file = self.sock.makefile("rb")
        self.sock.sendall(PREFACE + frame(4, 0, 0) + frame(4, 1, 0))

    def send(self, *frames):
        self.sock.sendall(b"".join(frames))

    def next(self, *kinds):
        """The next frame of such a kind: kind, flags, stream, payload. None at the end."""
        while True:
            at = self.file.read(9)
            if len(at) < 9:
                return None
            payload = self.file.read(int.from_bytes(at[:3], "big"))
            if at[3] in kinds:
                return at[3], at[4], int.from_bytes(at[5:9], "big"), payload

    def ended(self):
        """The code of the GOAWAY that ends the connection."""
        kind, _, _, payload = self.next(7)
        assert kind == 7
        return int.from_bytes(payload[4:8], "big")

    def head(self, stream):
        while (got := self.next(1, 3)):
            if got[2] == stream:
                return got[0], int.from_bytes(got[3], "big") if got[0] == 3 else None
        return None

    def whole(self, stream):
        """Reads to the end of an answer."""
        while (got := self.next(0, 1)):
            if got[2] == stream and got[1] & 1:
                return True
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()


class World:
    """One gateway with a listener for each kind of connection manager."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.origin, self.hanging = gw.Origin(), Hanging()
        self.cert, self.key = gw.make_cert(tmp)
        self.plain, self.via, self.old, self.tls = (gw.free_port() for _ in range(4))
        self.access = tmp / "access.log"
        log = [{"name": "file", "typed_config": {
            "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": str(self.access),
            "log_format": {"text_format_source": {"inline_string": FORMAT}}}}]
        routes = [
            {"match": {"prefix": "/hang"}, "route": {"cluster": "hanging"}},
            {"match": {"prefix": "/q", "query_parameters": [
                {"name": "a b", "string_match": {"exact": "1 2"}}]}, "route": {
                    "cluster": "origin", "prefix_rewrite": "/echo"}},
            {"match": {"prefix": "/q"}, "direct_response": {"status": 418}},
            {"match": {"prefix": "/no"}, "direct_response": {"status": 404}},
            {"match": {"prefix": "/"}, "route": {"cluster": "origin"}}]
        old = {"accept_http_10": True, "default_host_for_http_10": "old.test"}
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("plain", self.plain, [{"filters": [gw.hcm(routes, access_log=log)]}]),
            gw.listener("via", self.via, [{"filters": [gw.hcm(routes, via="1.1 edge")]}]),
            gw.listener("old", self.old, [{"filters": [gw.hcm(routes, http_protocol_options=old)]}]),
            gw.listener("tls", self.tls, [{"filters": [gw.hcm(routes)], "transport_socket": gw.tls_socket(
                self.cert, self.key)}]),
            gw.cluster("origin", [self.origin.port]), gw.cluster("hanging", [self.hanging.port])], workers=1)

    def raw(self, data, port=None):
        with socket.create_connection(("127.0.0.1", port or self.plain), timeout=GUARD * SLOW) as s:
            s.sendall(data)
            with s.makefile("rb") as f:
                return f.read()

    def get(self, path, fields=b"", port=None):
        out = self.raw(b"GET " + path + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" + fields + b"\r\n", port)
        head, _, body = out.partition(b"\r\n\r\n")
        return int(head.split()[1]), head, body

    def close(self):
        try:
            self.gateway.stop()
        finally:
            self.origin.close()
            self.hanging.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("picky"))
    yield world
    world.close()


def sent(w, name):
    """Values of the fields of that name in the last request, in order."""
    lines = [line.split(b":", 1) for line in w.origin.heads[-1].splitlines()[1:]]
    return [v.strip().decode() for n, v in lines if n.strip().lower() == name]


SEVERAL = ((b"X-Forwarded-For", b"1.1.1.1"), (b"Forwarded", b"for=1.1.1.1"), (b"x-between", b"1"),
           (b"x-forwarded-for", b""), (b"X-FORWARDED-FOR", b"2.2.2.2, 3.3.3.3"), (b"forwarded", b"for=2.2.2.2;by=x"))


@pytest.mark.parametrize("version", [1, 2])
def test_several_lists_of_addresses_become_one(w, version):
    """Whoever reads the first or the last field only finds all of it, and us at the end."""
    if version == 1:
        assert w.get(b"/echo", b"".join(n + b": " + v + b"\r\n" for n, v in SEVERAL))[0] == 200
    else:
        with H2(w.plain) as c:
            c.send(frame(1, 5, 1, block(more=[(n.lower(), v) for n, v in SEVERAL])))
            assert c.head(1)[0] == 1
    assert sent(w, b"x-forwarded-for") == ["1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"]
    assert sent(w, b"forwarded") == ["for=1.1.1.1, for=2.2.2.2;by=x, for=127.0.0.1;proto=http"]
    assert sent(w, b"x-between") == ["1"]


@pytest.mark.parametrize("query, status", [(b"a%20b=1+2", 200), (b"a+b=1%202", 200), (b"%61+%62=1+2", 200),
                                           (b"x=y&a%20b=1+2", 200), (b"a%2520b=1+2", 418), (b"a%2b=1+2", 418),
                                           (b"a%20=1+2", 418), (b"a%20bc=1+2", 418), (b"a%zzb=1+2", 418)])
def test_names_in_queries_are_decoded_like_their_values(w, query, status):
    assert w.get(b"/q?" + query)[0] == status


def test_via_only_where_it_is_configured(w):
    _, head, _ = w.get(b"/echo", b"via: 1.0 a\r\nvia: 1.1 b\r\n")
    assert sent(w, b"via") == ["1.0 a", "1.1 b"] and b"via:" not in head.lower()
    _, head, _ = w.get(b"/echo", b"via: 1.0 a\r\nvia: 1.1 b\r\n", w.via)
    assert sent(w, b"via") == ["1.0 a, 1.1 b, 1.1 edge"] and b"\r\nvia: 1.1 edge" in head


def test_http10_with_a_default_host(w):
    assert b" 426 " in w.raw(b"GET /echo HTTP/1.0\r\nhost: a\r\n\r\n").splitlines()[0]
    assert b" 200 " in w.raw(b"GET /echo HTTP/1.0\r\n\r\n", w.old).splitlines()[0]
    assert sent(w, b"host") == ["old.test"]
    assert b" 200 " in w.raw(b"GET /echo HTTP/1.0\r\nhost: own.test\r\n\r\n", w.old).splitlines()[0]
    assert sent(w, b"host") == ["own.test"]
    with socket.create_connection(("127.0.0.1", w.old), timeout=GUARD * SLOW) as s, s.makefile("rb") as f:
        for _ in range(2):
            s.sendall(b"GET /size/3 HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            while (line := f.readline().strip().lower()):
                assert line != b"connection: close"
            assert f.read(3) == gw.pattern(3)
    assert b" 400 " in w.raw(b"GET /echo HTTP/1.1\r\n\r\n", w.old).splitlines()[0]


def test_text_logs_cannot_be_forged(w):
    assert w.get(b"/echo?log", b'user-agent: a" "-" b\\" \r\nx-odd: tab\there\r\n')[0] == 200
    until(lambda: w.access.exists() and "/echo?log" in w.access.read_text(encoding="utf-8"), what="the log")
    line = [at for at in w.access.read_text(encoding="utf-8").splitlines() if "/echo?log" in at][0]
    assert line == r'"/echo?log" "a\" \"-\" b\\\"" "tab\there"'
    assert [json.loads(f'"{part}"') for part in line[1:-1].split('" "')] == ["/echo?log", 'a" "-" b\\"', "tab\there"]


@pytest.mark.parametrize("request_", [b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n",
                                      b"POST /hang HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"],
                         ids=["without-body", "with-body"])
def test_a_client_that_leaves_is_not_worked_for(w, request_):
    asked, left = w.hanging.asked, w.hanging.left
    with socket.create_connection(("127.0.0.1", w.plain), timeout=GUARD * SLOW) as s:
        s.sendall(request_)
        until(lambda: w.hanging.asked > asked, what="the request to arrive")
        assert w.hanging.left == left
        s.shutdown(socket.SHUT_WR)
        until(lambda: w.hanging.left > left, what="the request to be cancelled")
        assert s.recv(1) == b""


def test_what_was_answered_is_delivered_to_a_client_that_stopped_sending(w):
    with socket.create_connection(("127.0.0.1", w.plain), timeout=GUARD * SLOW) as s:
        s.sendall(b"GET /no HTTP/1.1\r\nhost: a\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        with s.makefile("rb") as f:
            assert b" 404 " in f.read().splitlines()[0]


def offer(port, protocols, cafile=None):
    context = ssl.create_default_context(cafile=cafile)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW) as s:
        with context.wrap_socket(s, server_hostname="localhost") as t:
            return t.selected_alpn_protocol()


def refuses_unknown_protocols(port):
    for protocols in (["foo"], ["acme-tls/1", "spdy/3"]):
        with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
            offer(port, protocols)
    assert offer(port, ["foo", "http/1.1"]) == "http/1.1"
    assert offer(port, ["http/1.1", "h2"]) in ("h2", "http/1.1")
    assert offer(port, None) is None


def test_only_unknown_protocols_are_refused_by_name(w):
    refuses_unknown_protocols(w.tls)


def test_a_stream_number_that_was_skipped_ends_the_connection(w):
    for first, then in ((5, 3), (5, 1), (3, 1), (9, 7)):
        with H2(w.plain) as c:
            c.send(frame(1, 5, first, block()))
            assert c.head(first)[0] == 1
            c.send(frame(1, 5, then, block()))
            assert c.ended() == 1  # PROTOCOL_ERROR


def test_a_stream_that_ended_is_not_begun_again(w):
    with H2(w.plain) as c:
        for stream in (1, 3):
            c.send(frame(1, 5, stream, block()))
            assert c.whole(stream)
        c.send(frame(1, 5, 1, block()))
        assert c.ended() == 5  # STREAM_CLOSED


def test_trailers_for_a_stream_that_was_answered_early_do_no_harm(w):
    """They were on their way when the answer came; the connection goes on."""
    with H2(w.plain) as c:
        for stream in range(1, 81, 2):
            c.send(frame(1, 4, stream, block(b"/no", b"POST")))
            assert c.head(stream)[0] == 1
            c.send(frame(0, 0, stream, b"late"), frame(1, 5, stream, b"\0\x01x\x01y"))
        c.send(frame(1, 5, 81, block()))
        assert c.head(81)[0] == 1


def test_paths_of_http2_have_the_characters_of_http1(w):
    for byte in range(256):
        path = b"/no/" + bytes([byte]) + b"x"
        h1 = byte not in (10, 13) and w.get(path)[0] == 404
        with H2(w.plain) as c:
            c.send(frame(1, 5, 1, block(path)))
            kind, code = c.head(1)
        assert (kind, code) == ((1, None) if h1 else (3, 1)), byte
        assert h1 == (0x20 < byte < 0x7f and chr(byte) not in '"#<>\\'), byte


def test_switches_of_the_control_plane(binary, tmp_path):
    origin = gw.Origin()
    for options, status, via in (((), 426, []), (("--gateway-http10", "--gateway-via", "1.1 edge"), 200, ["1.1 edge"])):
        where = tmp_path / f"w{status}"
        where.mkdir()
        f = fb.Fabric(binary, where, "--gateway-port-offset", "8000", *options)
        try:
            f.service("web", [origin.port])
            f.gateway_object("edge", [("http", "HTTP", 80)])
            f.apply(fb.route("all", "edge", [fb.prefix("/", fb.to("web"))]))
            f.start_gateway()
            f.programmed("edge")

            def ask():
                c = http.client.HTTPConnection("127.0.0.1", 8080, timeout=GUARD)
                try:
                    c.request("GET", "/echo")
                    return c.getresponse().status == 200
                except OSError:
                    return False
                finally:
                    c.close()
            until(ask, what="the route")
            with socket.create_connection(("127.0.0.1", 8080), timeout=GUARD * SLOW) as s, s.makefile("rb") as answer:
                s.sendall(b"GET /echo HTTP/1.0\r\nhost: a\r\n\r\n")
                head = answer.read().split(b"\r\n\r\n")[0].decode().lower().splitlines()
            assert head[0].split()[1] == str(status)
            assert [line.split(": ")[1] for line in head if line.startswith("via:")] == via
            refuses_unknown_protocols(f.control.port)
        finally:
            f.close()
    origin.close()
    assert subprocess.run([binary, "control", "--data", str(tmp_path / "bad"), "--gateway-via", "a\nb"],
                          timeout=GUARD * SLOW, capture_output=True, check=False).returncode != 0
