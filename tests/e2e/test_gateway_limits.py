# SPDX-License-Identifier: Apache-2.0
"""What the control plane sets for every listener, limits of the data plane, and ports that are bound elsewhere."""
import http.client
import pathlib
import socket
import ssl
import subprocess
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.serve import Each
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
INFO = """
import http2 from 'node:http2';
const server = http2.createServer();
server.on('stream', (s, h) => {
  if (h[':path'].startsWith('/hints')) s.additionalHeaders({ ':status': 103, link: '</a.css>; rel=preload' });
  s.respond({ ':status': 200 });
  s.end('done');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
"""


class World:
    def __init__(self, binary, tmp):
        self.fabric = f = fb.Fabric(binary, tmp, "--gateway-port-offset", "8000")
        self.origin = gw.Origin()
        self.info = subprocess.Popen(["node", "--input-type=module", "-e", INFO], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        f.service("web", [self.origin.port])
        f.service("info", [int(self.info.stdout.readline())], app="kubernetes.io/h2c")
        f.gateway_object("edge", [("http", "HTTP", 80), ("other", "HTTP", 9090)])

        def away(at, **redirect):
            return {"matches": [{"path": {"type": "PathPrefix", "value": at}}],
                    "filters": [{"type": "RequestRedirect", "requestRedirect": redirect}]}
        f.apply(fb.route("all", "edge", [
            away("/host", hostname="new.test"), away("/scheme", scheme="https"), away("/port", port=8443),
            away("/path", path={"type": "ReplaceFullPath", "replaceFullPath": "/there"}),
            fb.prefix("/info", fb.to("info")), fb.prefix("/hints", fb.to("info")), fb.prefix("/", fb.to("web"))]))
        self.gateway = f.start_gateway()
        f.programmed("edge")
        for path, port in (("/echo", 8080), ("/info", 8080), ("/echo", 9090)):
            until(lambda a=path, p=port: self.ask(a, p)[0] == 200, 15, f"{path} on port {port}")

    def ask(self, path, port=8080, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
        try:
            c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            r.read()
            return r.status, r.headers
        except ConnectionRefusedError:
            return None, {}
        finally:
            c.close()

    def close(self):
        try:
            self.fabric.close()
        finally:
            self.origin.close()
            self.info.stdin.close()
            self.info.wait(GUARD)


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("limits"))
    yield world
    world.close()


@pytest.mark.parametrize("path,port,host,location", [
    # Port 80 is bound on 8080: clients that were mapped there never hear of it.
    ("/host/x", 8080, "a.test", "http://new.test/host/x"),
    ("/scheme/x", 8080, "a.test", "https://a.test/scheme/x"),
    ("/port/x", 8080, "a.test", "http://a.test:8443/port/x"),
    ("/path/x", 8080, "a.test", "http://a.test/there"),
    # Who names the port it is bound on keeps it where nothing else is said, and loses it with the scheme.
    ("/host/x", 8080, "a.test:8080", "http://new.test/host/x"),
    ("/scheme/x", 8080, "a.test:8080", "https://a.test/scheme/x"),
    ("/path/x", 8080, "a.test:8080", "http://a.test:8080/there"),
    # A port of its own is shown.
    ("/host/x", 9090, "a.test:9090", "http://new.test:9090/host/x"),
    ("/scheme/x", 9090, "a.test:9090", "https://a.test/scheme/x"),
    ("/path/x", 9090, "a.test:9090", "http://a.test:9090/there"),
])
def test_redirects_speak_of_the_listeners_port(w, path, port, host, location):
    status, headers = w.ask(path, port, Host=host)
    assert (status, headers["location"]) == (302, location)


def test_a_slow_head_is_given_ten_seconds(w):
    start = time.monotonic()  # before the gateway's clock starts
    with socket.create_connection(("127.0.0.1", 8080), GUARD) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        try:
            while time.monotonic() < start + 2 * GUARD * SLOW:
                s.sendall(b"X-A: b\r\n")
                s.settimeout(0.5)
                try:
                    got = s.recv(4096)
                    break
                except TimeoutError:
                    continue
            else:
                got = None
        except OSError:
            got = b""
    took = time.monotonic() - start
    assert got is not None and 8 < took, (got, took)
    assert not got or got.startswith(b"HTTP/1.1 408"), got


def test_methods_have_an_end(w):
    assert w.ask("/echo", method="M" * 32)[0] == 200
    assert w.ask("/echo", method="M" * 33)[0] == 501
    until(lambda: w.gateway.metrics().sum("spanwire_gateway_local_replies_total", reason="method_too_long") >= 1)


def test_interim_answers_of_http2_upstreams_pass(w):
    def raw(path):
        with socket.create_connection(("127.0.0.1", 8080), GUARD) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            got = b""
            while (piece := s.recv(65536)):
                got += piece
            return got
    got = raw("/hints")
    first, rest = got.split(b"\r\n\r\n", 1)
    assert first.startswith(b"HTTP/1.1 103") and b"</a.css>; rel=preload" in first, got
    assert rest.startswith(b"HTTP/1.1 200") and b"done" in rest
    assert raw("/info").startswith(b"HTTP/1.1 200")
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-D-", "http://127.0.0.1:8080/hints"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert "HTTP/2 103" in done.stdout and done.stdout.rstrip().endswith("done"), done


@pytest.mark.parametrize("most,version", [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3"), ("TLS_AUTO", "TLSv1.3")])
def test_newest_tls_version_toward_upstreams(binary, tmp_path, most, version):
    cert, key = gw.make_cert(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    seen = []

    def serve(conn):
        with context.wrap_socket(conn, server_side=True) as s:
            seen.append(s.version())
            s.recv(65536)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    server = Each(serve)
    port = gw.free_port()
    up = {"transport_socket": {"name": "tls", "typed_config": {
        "@type": gw.UPSTREAM_TLS, "sni": "localhost", "common_tls_context": {
            "tls_params": {"tls_maximum_protocol_version": most},
            "validation_context": {"trusted_ca": {"filename": cert}}}}}}
    g = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "up"}}])]}]),
        gw.cluster("up", [server.port], **up)])
    try:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
        c.request("GET", "/")
        assert c.getresponse().status == 200
        assert seen == [version]
    finally:
        g.stop()
        server.close()


def test_help_is_in_whole_lines(binary):
    """The table of options has no line ends of its own: they are the help's to set."""
    done = subprocess.run([binary, "gateway", "--help"], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "--xds-ca" in line)
    text = " ".join(line.strip() for line in lines[at:at + 5])
    assert "the connection is plain HTTP/2, which is allowed" in text, text


def test_access_log_lines_that_are_lost_are_counted_and_said(binary, tmp_path):
    """A full disk costs lines, never requests."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port = gw.Origin(), gw.free_port()
    log = {"name": "file", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/dev/full"}}
    g = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm([
            {"match": {"prefix": "/"}, "route": {"cluster": "origin"}}], access_log=[log])]}]),
        gw.cluster("origin", [origin.port])])

    def lost():
        return fb._fetch(f"http://127.0.0.1:{g.stats_port}/metrics")
    try:
        for _ in range(5):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
            c.request("GET", "/size/3")
            assert c.getresponse().status == 200
            c.close()
        until(lambda: "spanwire_gateway_access_log_lost_total 5\n" in lost(), 5, "five lines to be counted")
        until(lambda: "cannot write access log '/dev/full', dropping lines" in g.log(), 5, "the loss to be told")
        assert g.log().count("dropping lines") == 1, g.log()
    finally:
        g.stop()
        origin.close()


FRAMING = [{"header": {"key": k, "value": v}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"} for k, v in (
    ("Content-Length", "5"), ("transfer-encoding", "chunked"), ("connection", "x-kept"), ("x-kept", "1"))]


def test_headers_that_frame_messages_are_not_for_routes(binary, tmp_path):
    """A second length would let two programs disagree about where the next message begins."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port = gw.Origin(), gw.free_port()

    def resources(**extra):
        return [gw.listener("l", port, [{"filters": [gw.hcm([
            {"match": {"prefix": "/"}, "route": {"cluster": "origin", **extra},
             "request_headers_to_add": FRAMING, "response_headers_to_add": FRAMING}])]}]),
                gw.cluster("origin", [origin.port])]

    g = gw.Gateway(binary, tmp_path, resources())
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW) as s:
            s.sendall(b"POST /sha HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
            told = b""
            while (piece := s.recv(65536)):
                told += piece
        for head in (told.partition(b"\r\n\r\n")[0].lower(), origin.heads[-1].lower()):
            assert head.count(b"\r\ncontent-length: ") == 1 and b"transfer-encoding" not in head, head
            assert b"\r\nx-kept: 1" in head and b"connection: x-kept" not in head, head
        assert told.endswith(b" 3"), told  # the origin got the body as it was
        for bad in ({"prefix_rewrite": "/a b"}, {"prefix_rewrite": "/a HTTP/1.1\r\nx: y"}, {"regex_rewrite": {
                "pattern": {"regex": "^/.*$"}, "substitution": "/a\r\nx: y"}}):
            before = g.log().count(" refused: ")
            g.apply(resources(**bad))
            until(lambda: g.log().count(" refused: ") > before, 5, f"{bad} to be refused")
    finally:
        g.stop()
        origin.close()


def test_heads_may_be_as_large_as_the_listener_allows(binary, tmp_path):
    origin, port = gw.Origin(), gw.free_port()
    gate = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(
            [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}], max_request_headers_kb=4096)]}]),
        gw.cluster("origin", [origin.port])], workers=1)
    for lines, status in ((48, b"200"), (80, b"431")):
        head = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 60000) for i in range(lines))
        with socket.create_connection(("127.0.0.1", port), GUARD) as s:
            s.sendall(b"GET /size/4 HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n")
            assert s.recv(4096).split()[1] == status, lines
    assert len(origin.heads[-1]) > 48 * 60000
    gate.stop()
    origin.close()
