# SPDX-License-Identifier: Apache-2.0
"""
Clients that are not ours, the whole way: objects of the Gateway API into the control plane, xDS from it to the gateway,
traffic through that to servers of another make.
"""
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.serve import Each
from harness.sidecar import Echo, UdpEcho
from harness.wait import GUARD, SLOW, until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"


class Servers:
    """gRPC and WebSocket servers in Node.js."""

    def __init__(self):
        self.proc = subprocess.Popen(["node", str(CLIENTS / "gateway_servers.mjs")], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        line = self.proc.stdout.readline()
        assert line, "run tools/setup test first?"
        self.ports = json.loads(line)

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(GUARD)


def tls_echo(cert, key):
    """Ends TLS itself and says which name was asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    asked = threading.local()  # a thread per connection
    context.sni_callback = lambda s, name, _: setattr(asked, "name", name)

    def serve(conn):
        with context.wrap_socket(conn, server_side=True) as s:
            s.sendall(f"{asked.name}:".encode() + s.recv(1000))
    return Each(serve)


def passes(port, pair):
    context = ssl.create_default_context(cafile=pair[0])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as s, \
                context.wrap_socket(s, server_hostname="own.test") as t:
            t.sendall(b"hello")
            return t.recv(100) == b"own.test:hello"
    except OSError:
        return False


class PageOrigin(http.server.BaseHTTPRequestHandler):
    """What the browser gets, and what it reports."""
    reports = []
    protocol_version = "HTTP/1.1"
    PAGE = b"""<!doctype html><meta charset=utf-8><title>before</title>
<link rel=stylesheet href=/style.css><body><p id=out>not run</p><script src=/script.js></script>"""
    SCRIPT = b"""
(async () => {
  const parts = await Promise.all([...Array(20).keys()].map((i) => fetch('/part/' + i).then((r) => r.text())));
  const entries = [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')];
  const told = { parts: parts.join(','), protocols: [...new Set(entries.map((e) => e.nextHopProtocol))],
    colour: getComputedStyle(document.body).color, secure: isSecureContext };
  const r = await fetch('/report', { method: 'POST', body: JSON.stringify(told) });
  document.title = 'after';
  document.getElementById('out').textContent = 'ran ' + r.status;
})();
"""

    def do_GET(self):
        body, kind = {"/": (self.PAGE, "text/html"), "/script.js": (self.SCRIPT, "text/javascript"),
                      "/style.css": (b"body { color: rgb(1, 2, 3) }", "text/css")}.get(
                          self.path, (self.path.rsplit("/", 1)[-1].encode(), "text/plain"))
        self._send(body, kind)

    def do_POST(self):
        self.reports.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self._send(b"thanks", "text/plain")

    def _send(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class World:
    """Every protocol the Gateway API has, on one gateway."""

    def __init__(self, binary, tmp):
        self.fabric = f = fb.Fabric(binary, tmp)
        self.tmp = tmp
        self.origin, self.servers = gw.Origin(), Servers()
        self.page = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PageOrigin)
        threading.Thread(target=self.page.serve_forever, daemon=True).start()
        self.a = fb.make_cert(tmp, "a.test", ["grpc.test"])
        self.b = fb.make_cert(tmp, "b.test")
        self.own = fb.make_cert(tmp, "own.test")
        self.tls_server, self.tcp_server = tls_echo(*self.own), Echo()
        self.udp_server = UdpEcho(lambda data: b"re:" + data)
        self.http, self.https, self.through, self.tcp, self.udp = (gw.free_port() for _ in range(5))
        f.secret("a", *self.a)
        f.secret("b", *self.b)
        self.objects()
        self.gateway = f.start_gateway()
        f.programmed("edge")
        self.complete()

    def complete(self):
        """Routes, endpoints and certificates come in any order: one request of each kind is served."""
        def status(host, path, tls, method="GET"):
            connection = http.client.HTTPConnection("127.0.0.1", self.https if tls else self.http, timeout=GUARD)
            try:
                connection.connect()
                if tls:
                    context = ssl.create_default_context(cafile=tls[0])
                    connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
                kind = {"Content-Type": "application/grpc", "TE": "trailers"} if method == "POST" else {}
                connection.request(method, path, headers={"Host": host, **kind})
                return connection.getresponse().status
            except OSError:
                return None
            finally:
                connection.close()

        def echoed(kind, port):
            try:
                with socket.socket(socket.AF_INET, kind) as s:
                    s.settimeout(2)
                    s.connect(("127.0.0.1", port))
                    s.sendall(b"x")
                    return s.recv(10).endswith(b"x")
            except OSError:
                return False
        for host, path, tls, method in (
                ("plain.test", "/echo", None, "GET"), ("b.test", "/echo", self.b, "GET"), ("a.test", "/", self.a, "GET"),
                ("plain.test", "/ws", None, "GET"), ("a.test", "/ws", self.a, "GET"),
                ("grpc.test", "/test.Shop/Unary", None, "POST"), ("grpc.test", "/test.Shop/Unary", self.a, "POST")):
            until(lambda a=(host, path, tls, method): status(*a) not in (None, 404, 500, 503), what=f"{host}{path}")
        until(lambda: echoed(socket.SOCK_STREAM, self.tcp), what="TCP")
        until(lambda: echoed(socket.SOCK_DGRAM, self.udp), what="UDP")
        until(lambda: passes(self.through, self.own), what="TLS that is passed on")

    def objects(self):
        f = self.fabric

        def term(name):
            return {"tls": {"mode": "Terminate", "certificateRefs": [{"name": name}]}}
        f.service("web", [self.origin.port])
        f.service("page", [self.page.server_port])
        f.service("shop", [self.servers.ports["grpc"]], app="kubernetes.io/h2c")
        f.service("chat", [self.servers.ports["ws"]], app="kubernetes.io/ws")
        f.service("own", [self.tls_server.port], port=443)
        f.service("bytes", [self.tcp_server.port], port=7)
        f.service("packets", [self.udp_server.port], port=7, protocol="UDP")
        f.gateway_object("edge", [
            ("http", "HTTP", self.http),
            ("a", "HTTPS", self.https, {"hostname": "a.test", **term("a")}),
            ("g", "HTTPS", self.https, {"hostname": "grpc.test", **term("a")}),
            ("b", "HTTPS", self.https, {"hostname": "b.test", **term("b")}),
            ("through", "TLS", self.through, {"tls": {"mode": "Passthrough"}}),
            ("tcp", "TCP", self.tcp), ("udp", "UDP", self.udp)])
        f.apply(
            fb.route("web", "edge", [fb.prefix("/", fb.to("web"))], hosts=["b.test", "plain.test"]),
            fb.route("page", "edge", [fb.prefix("/", fb.to("page"))], hosts=["a.test"], section="a"),
            fb.route("chat", "edge", [fb.prefix("/ws", fb.to("chat"))], hosts=["a.test", "plain.test"]),
            fb.route("shop", "edge", [{"matches": [{"method": {"service": "test.Shop"}}],
                                       "backendRefs": [fb.to("shop")]}], kind="GRPCRoute", hosts=["grpc.test"]),
            fb.route("own", "edge", [{"backendRefs": [fb.to("own", 443)]}], kind="TLSRoute", hosts=["own.test"],
                     section="through"),
            fb.route("bytes", "edge", [{"backendRefs": [fb.to("bytes", 7)]}], kind="TCPRoute", section="tcp"),
            fb.route("packets", "edge", [{"backendRefs": [fb.to("packets", 7)]}], kind="UDPRoute", section="udp"))

    def close(self):
        try:
            self.fabric.close()
        finally:
            self.servers.close()
            self.origin.close()
            self.page.shutdown()
            self.page.server_close()
            for s in (self.tls_server, self.tcp_server, self.udp_server):
                s.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("clients"))
    yield world
    world.close()


def curl(w, *args, host="b.test", tls=True):
    port = w.https if tls else w.http
    ca = {"a.test": w.a, "grpc.test": w.a, "b.test": w.b}.get(host, w.a)[0]
    done = subprocess.run(["curl", "-sS", "--max-time", "60", "--cacert", ca, "--resolve", f"{host}:{port}:127.0.0.1",
                           *args], capture_output=True, check=False)
    assert done.returncode == 0, (args, done.stderr.decode())
    return done.stdout


WAYS = {
    "h1": (["--http1.1"], False, "1.1"), "h2c": (["--http2-prior-knowledge"], False, "2"),
    "h1-tls": (["--http1.1"], True, "1.1"), "h2-tls13": (["--http2", "--tlsv1.3"], True, "2"),
    "h2-tls12": (["--http2", "--tls-max", "1.2"], True, "2"), "h1-tls12": (["--http1.1", "--tls-max", "1.2"], True, "1.1"),
}


@pytest.mark.parametrize("way", WAYS)
def test_curl(w, way):
    args, tls, version = WAYS[way]
    host = "b.test" if tls else "plain.test"
    url = f"{'https' if tls else 'http'}://{host}:{w.https if tls else w.http}"
    out = curl(w, *args, "-w", "\n%{http_version} %{http_code}", url + "/echo?a=b", host=host, tls=tls)
    body, tail = out.decode().rsplit("\n", 1)
    told = json.loads(body)
    assert tail == f"{version} 200"
    assert told["target"] == "/echo?a=b" and told["headers"]["x-forwarded-proto"] == url.split(":")[0]
    if way != "h2c":  # curl 7.88 cannot use such a connection twice, whoever serves
        out = curl(w, *args, "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ",
                   *[f"{url}/size/{n}" for n in (10, 20, 30)], host=host, tls=tls)
        assert out.split() == [b"1", b"0", b"0"]
    blob = w.tmp / "blob"
    blob.write_bytes(os.urandom(2_000_000))
    digest = subprocess.run(["sha256sum", blob], capture_output=True, check=True).stdout.split()[0].decode()
    assert curl(w, *args, "-T", str(blob), url + "/sha", host=host, tls=tls).decode() == f"{digest} 2000000"


def test_an_unknown_host_is_404_and_another_listeners_host_421(w):
    assert curl(w, "-o", "/dev/null", "-w", "%{http_code}", f"http://nobody.test:{w.http}/", host="nobody.test",
                tls=False) == b"404"
    # A connection for b.test that asks for a.test (RFC 9110 15.5.20).
    assert curl(w, "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: a.test", f"https://b.test:{w.https}/") == b"421"


@pytest.mark.parametrize("url", ["http://127.0.0.1:{http}", "https://127.0.0.1:{https}"])
def test_nghttp(w, url):
    url = url.format(http=w.http, https=w.https)
    name = "b.test" if url.startswith("https") else "plain.test"  # nghttp asks for a certificate of that name, too
    out = subprocess.run(["nghttp", "-nv", "-H", f":authority: {name}", "-m", "20", url + "/size/5", url + "/chunked"],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.count(":status: 200") == 40 and out.count("x-sum: 42") == 20
    assert "SETTINGS_MAX_CONCURRENT_STREAMS" in out


@pytest.mark.parametrize("tls", [False, True])
def test_h2load(w, tls):
    n = fb.scale(20000)
    url = f"https://b.test:{w.https}" if tls else f"http://plain.test:{w.http}"
    out = subprocess.run(["h2load", "-n", str(n), "-c", "20", "-m", "10", "--connect-to",
                          f"127.0.0.1:{w.https if tls else w.http}", url + "/size/1000"], capture_output=True, text=True,
                         check=True, timeout=180 * SLOW).stdout
    assert f"{n} succeeded, 0 failed, 0 errored, 0 timeout" in out, out
    assert f"status codes: {n} 2xx" in out
    out = subprocess.run(["h2load", "--h1", "-n", str(n // 4), "-c", "20", "--connect-to",
                          f"127.0.0.1:{w.https if tls else w.http}", url + "/size/1000"], capture_output=True, text=True,
                         check=True, timeout=180 * SLOW).stdout
    assert f"{n // 4} succeeded, 0 failed" in out, out


def node(script, *args):
    done = subprocess.run(["node", str(CLIENTS / script), *args], capture_output=True, text=True,
                          timeout=180 * SLOW, check=False)
    got = {line["op"]: line["got"] for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, f"{done.stderr[-2000:]}\nuntil then: {got}"
    return got


@pytest.mark.parametrize("tls", [False, True])
def test_grpc(w, tls):
    args = [f"127.0.0.1:{w.https}", w.a[0], "grpc.test"] if tls else [f"127.0.0.1:{w.http}"]
    got = node("gateway_grpc.mjs", *args)
    assert got["unary"] == {"code": 0, "text": "hello", "saw": "metadata passes", "sawBin": "0080ff", "end": "here",
                            "endBin": "01ff00"}
    assert got["error"]["code"] == 5 and got["error"]["text"] == "nothing there: \u00fc" and got["error"]["why"] == "told"
    assert got["every_code"] == list(range(1, 17))
    assert got["no_method"] == 12
    assert got["deadline"] == {"code": 4, "began": True, "cancelled": True}
    assert got["upload"] == "200 4000000"
    assert got["download"] == {"count": 300, "wrong": 0, "code": 0, "trailer": "300"}
    assert got["chat"] == ["re:one", "re:two", "re:three", 0]
    assert got["cancel"] == 1
    assert got["large"] == 3000000
    assert got["parallel"] == 300


@pytest.mark.parametrize("tls", [False, True])
def test_websocket(w, tls):
    if tls:
        got = node("gateway_ws.mjs", f"wss://127.0.0.1:{w.https}", w.a[0], "a.test")
        host = "a.test"
    else:
        got = node("gateway_ws.mjs", f"ws://127.0.0.1:{w.http}", "", "plain.test")
        host = "plain.test"
    assert got["greeting"]["url"] == "/ws?x=1" and got["greeting"]["protocol"] == "chat"
    assert got["greeting"]["host"].split(":")[0] == host
    assert got["text"] == ["h\u00e9llo \U0001f30d", [1000, "bye"]]
    assert got["binary"] and got["large"] and got["many"] == 500
    assert got["pings"] == ["to you", "pong how are you"]
    assert got["close_codes"] == [[c, "as asked"] for c in (1000, 1001, 1011, 3000, 4321)]
    assert got["vanish"] == 1006
    assert "200" in got["refused"] or "404" in got["refused"]


@pytest.mark.parametrize("tls", [False, True])
def test_websocket_in_a_stream_of_http2(w, tls):
    """RFC 8441, with Node.js as the client."""
    at = [f"https://127.0.0.1:{w.https}", "/ws?x=1", "a.test", w.a[0]] if tls else \
        [f"http://127.0.0.1:{w.http}", "/ws?x=1", "plain.test"]
    done = subprocess.run(["node", str(CLIENTS / "ws_over_h2.mjs"), *at], capture_output=True, text=True, timeout=90,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    greeting, echoed = json.loads(done.stdout)
    assert json.loads(greeting)["url"] == "/ws?x=1" and echoed == "hello from a stream"


def s_client(w, *args, name="a.test", data=b"", port=None):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port or w.https}",
                           *(["-servername", name] if name else ["-noservername"]), *args],
                          input=data, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def test_s_client_certificate_by_name(w):
    for name, cert in (("a.test", w.a), ("grpc.test", w.a), ("b.test", w.b), ("B.TEST", w.b)):
        rc, out = s_client(w, "-CAfile", cert[0], "-verify_return_error", "-verify_hostname", name.lower(), name=name)
        assert rc == 0 and "Verify return code: 0 (ok)" in out, out
    for name in ("c.test", "", "x.a.test"):
        rc, out = s_client(w, name=name)
        assert "BEGIN CERTIFICATE" not in out, f"{name}: nobody serves that name"


def test_s_client_alpn_and_versions(w):
    for offer, want in (("h2", "h2"), ("http/1.1", "http/1.1"), ("h2,http/1.1", "h2"), ("http/1.1,h2", "h2")):
        rc, out = s_client(w, "-alpn", offer)
        assert rc == 0 and f"ALPN protocol: {want}" in out, out
    rc, out = s_client(w)
    assert rc == 0 and "No ALPN negotiated" in out
    for flag, want in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
        rc, out = s_client(w, flag, "-ign_eof", data=b"GET /x HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n", name="b.test")
        assert rc == 0 and f"New, {want}" in out and "HTTP/1.1 200 OK" in out, out
    for flag in ("-tls1", "-tls1_1"):
        rc, out = s_client(w, flag, "-cipher", "ALL:@SECLEVEL=0")
        assert rc != 0 and "BEGIN CERTIFICATE" not in out, out
    rc, out = s_client(w, "-alpn", "spdy/1")
    assert rc != 0 or "No ALPN negotiated" in out


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_s_client_resumes_by_ticket(w, version):
    ticket = w.tmp / f"session{version}"
    ask = b"GET /x HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n"
    rc, out = s_client(w, version, "-sess_out", str(ticket), "-ign_eof", data=ask, name="b.test")
    assert rc == 0 and ticket.exists(), out
    resumed = 0
    for _ in range(6):  # by either worker
        rc, out = s_client(w, version, "-sess_in", str(ticket), "-ign_eof", data=ask, name="b.test")
        assert rc == 0 and "HTTP/1.1 200 OK" in out, out
        resumed += "Reused, TLSv1" in out
    assert resumed == 6, f"{resumed} of 6 resumed"


def test_tls_passes_through_by_name(w):
    assert passes(w.through, w.own)
    rc, out = s_client(w, name="other.test", port=w.through)
    assert "BEGIN CERTIFICATE" not in out


def test_tcp(w):
    blob = os.urandom(3_000_000)
    with socket.create_connection(("127.0.0.1", w.tcp), timeout=GUARD) as s:
        sender = threading.Thread(target=lambda: (s.sendall(blob), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b""
        while (piece := s.recv(65536)):
            got += piece
        sender.join()
    assert got == blob


def test_udp(w):
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
    for i, s in enumerate(socks):
        s.settimeout(GUARD)
        s.connect(("127.0.0.1", w.udp))
        for j in range(5):
            s.send(b"%d/%d" % (i, j))
            assert s.recv(1000) == b"re:%d/%d" % (i, j)
    big = os.urandom(1400)
    socks[0].send(big)
    assert socks[0].recv(2000) == b"re:" + big
    for s in socks:
        s.close()


def test_chromium_runs_a_page_over_http2(w):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("NO BROWSER: install chromium to run this test")
    PageOrigin.reports.clear()
    pin = subprocess.run(
        f"openssl x509 -in {w.a[0]} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary"
        " | openssl enc -base64", shell=True, capture_output=True, check=True, text=True).stdout.strip()
    profile = w.tmp / "profile"
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         f"--user-data-dir={profile}", f"--ignore-certificate-errors-spki-list={pin}",
         f"--host-resolver-rules=MAP a.test:443 127.0.0.1:{w.https}", "--virtual-time-budget=10000", "--timeout=120000",
         "--dump-dom", "https://a.test/"], capture_output=True, text=True, timeout=180 * SLOW, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(w.tmp), "LANG": "C.UTF-8"})
    until(lambda: PageOrigin.reports, 5, f"the page to report: {done.stdout[-800:]}\n{done.stderr[-1500:]}")
    told = PageOrigin.reports[0]
    assert told["parts"] == ",".join(str(i) for i in range(20))
    assert told["protocols"] == ["h2"], told
    assert told["colour"] == "rgb(1, 2, 3)" and told["secure"]
    assert "ran 200" in done.stdout, done.stdout


def test_zz_everybody_acknowledged(w):
    def clients():
        return json.loads(w.fabric.control.get("/debug/xds").body)["clients"]
    until(lambda: (seen := clients()) and not any(c["pending"] for c in seen), what="the last acknowledgement")
    seen = clients()
    assert all(c["nacks"] == 0 for c in seen), seen
    kinds = {re.sub(r".*\.", "", c["type"]) for c in seen}
    assert kinds == {"Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration", "Secret"}
