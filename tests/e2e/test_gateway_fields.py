# SPDX-License-Identifier: Apache-2.0
"""xDS fields with an effect that shows only in the life of connections and in the pace of health checks."""
import socket
import subprocess
import urllib.error
import urllib.request

import h2.config
import h2.connection
import h2.events
import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, until

LONG = "3600s"


class H2Origin(Server):
    """Answers each request at once; 'accepted' counts the connections."""

    def _serve(self, conn):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        c.initiate_connection()
        with conn:
            conn.sendall(c.data_to_send())
            while (data := conn.recv(65536)):
                for e in c.receive_data(data):
                    if isinstance(e, h2.events.RequestReceived):
                        c.send_headers(e.stream_id, [(":status", "200")], end_stream=True)
                conn.sendall(c.data_to_send())


class Client:
    """An HTTP/2 connection without TLS that counts GOAWAY frames."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), GUARD)
        self.c = h2.connection.H2Connection()
        self.c.initiate_connection()
        self.next, self.buf, self.goaways, self.ended = 1, b"", [], set()

    def ask(self):
        stream, self.next = self.next, self.next + 2
        try:
            self.c.send_headers(stream, [(":method", "GET"), (":path", "/echo"), (":authority", "x"),
                                         (":scheme", "http")], end_stream=True)
            self.sock.sendall(self.c.data_to_send())
        except OSError:
            return False
        while stream not in self.ended:
            if not self.read():
                return False
        return True

    def read(self):
        """By hand: the library refuses to go on after the first GOAWAY."""
        try:
            data = self.sock.recv(65536)
        except OSError:
            return False
        self.buf += data
        while len(self.buf) >= 9 + (n := int.from_bytes(self.buf[:3], "big")) and len(self.buf) >= 9:
            kind, flags, stream = self.buf[3], self.buf[4], int.from_bytes(self.buf[5:9], "big")
            if kind == 7:
                self.goaways.append(int.from_bytes(self.buf[9:13], "big"))
            elif kind in (0, 1) and flags & 1:
                self.ended.add(stream)
            self.buf = self.buf[9 + n:]
        return bool(data)


def aged(**extra):
    options = {"@type": gw.TYPE + gw.HTTP_OPTIONS, "common_http_protocol_options": {"max_connection_duration": "0.001s"},
               **extra}
    return {"typed_extension_protocol_options": {gw.HTTP_OPTIONS: options}}


def common(**options):
    return {"typed_extension_protocol_options": {gw.HTTP_OPTIONS: {
        "@type": gw.TYPE + gw.HTTP_OPTIONS, "common_http_protocol_options": options,
        "explicit_http_config": {"http_protocol_options": {}}}}}


def check(**extra):
    return {"health_checks": [{"timeout": LONG, "interval": "0.02s", "unhealthy_threshold": 2, "healthy_threshold": 2,
                               "http_health_check": {"path": "/echo"}, **extra}]}


class World:
    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.origins = {n: gw.Origin() for n in ("kept", "aged", "often", "seldom")}
        self.origins |= {n: H2Origin() for n in ("kept2", "aged2")}
        at = {n: [o.port] for n, o in self.origins.items()}
        self.port, self.slow, self.quick = gw.free_port(), gw.free_port(), gw.free_port()
        routes = [{"match": {"path": f"/{n}"}, "route": {"cluster": n, "prefix_rewrite": "/echo"}} for n in at]
        routes.append({"match": {"path": "/brief"}, "route": {
            "cluster": "brief", "prefix_rewrite": "/hold", "timeout": "0s"}})
        last = {"common_http_protocol_options": {"max_requests_per_connection": 1}}
        echo = [{"match": {"prefix": "/"}, "route": {"cluster": "kept"}}]
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("l", self.port, [{"filters": [gw.hcm(routes)]}]),
            gw.listener("slow", self.slow, [{"filters": [gw.hcm(echo, drain_timeout=LONG, **last)]}]),
            gw.listener("quick", self.quick, [{"filters": [gw.hcm(echo, **last)]}]),
            gw.cluster("kept", at["kept"]), gw.cluster("aged", at["aged"], **aged()),
            gw.cluster("brief", at["kept"], **common(max_stream_duration="0.1s")),
            gw.cluster("counted", at["kept"], **common(max_headers_count=10)),
            gw.cluster("kept2", at["kept2"], **gw.h2_options()),
            gw.cluster("aged2", at["aged2"], **aged(explicit_http_config={"http2_protocol_options": {}})),
            gw.cluster("often", at["often"], **check()),
            gw.cluster("seldom", at["seldom"], **check(no_traffic_interval=LONG))], workers=1)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=GUARD) as r:
            return r.status

    def close(self):
        try:
            self.gateway.stop()
        finally:
            for o in self.origins.values():
                o.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("fields"))
    yield world
    world.close()


@pytest.mark.parametrize("version", ("", "2"))
def test_max_connection_duration_ends_upstream_connections(w, version):
    """A request takes longer than the millisecond, so each has a connection of its own."""
    before = {n: w.origins[n + version].accepted for n in ("kept", "aged")}
    for _ in range(5):
        assert w.get("kept" + version) == w.get("aged" + version) == 200
    assert w.origins["kept" + version].accepted - before["kept"] <= 1
    assert w.origins["aged" + version].accepted - before["aged"] >= 3


def test_options_of_listeners_on_clusters(w):
    """The message is the same for both: what a cluster does not honour is refused there."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        w.get("brief")
    assert refused.value.code == 504
    assert any("'counted'" in line and "max_headers_count" in line for line in w.gateway.log().splitlines())


def test_no_traffic_interval_paces_checks_until_the_first_request(w):
    until(lambda: w.origins["often"].requests > 20, what="20 checks at the short interval")
    assert w.origins["seldom"].requests == 1


def test_drain_timeout_keeps_a_connection_open_for_new_streams(w):
    slow, quick = Client(w.slow), Client(w.quick)
    assert slow.ask() and quick.ask()
    while quick.read():
        pass
    assert len(quick.goaways) == 2
    assert slow.ask(), "the connection with the long drain_timeout is closed"
    assert len(slow.goaways) == 1
    slow.sock.close()
    quick.sock.close()


# ---- algorithms of TLS ----

ECDSA_256 = "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.fixture(scope="module", name="tls")
def _tls(binary, tmp_path_factory):
    """A listener for each of: all algorithms, AES-256 alone, P-256 alone."""
    where = tmp_path_factory.mktemp("tls")
    pair = gw.make_cert(where)
    ports = {name: gw.free_port() for name in ("all", "suite", "curve")}
    params = {"all": {}, "suite": {"cipher_suites": [ECDSA_256]}, "curve": {"ecdh_curves": ["P-256"]}}
    chains = {}
    for name, p in params.items():
        socket_ = gw.tls_socket(*pair)
        socket_["typed_config"]["common_tls_context"]["tls_params"] = p
        chains[name] = {"transport_socket": socket_, "filters": [gw.hcm([{
            "match": {"prefix": "/"}, "direct_response": {"status": 204}}])]}
    g = gw.Gateway(binary, where, [gw.listener(n, ports[n], [chains[n]]) for n in params], workers=1)
    yield ports
    g.stop()


def s_client(port, *flags):
    """(the handshake was made, the cipher and the group)"""
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *flags], input=b"",
                          capture_output=True, timeout=GUARD, check=False)
    out = (done.stdout + done.stderr).decode()
    return done.returncode == 0 and "Cipher is (NONE)" not in out, out


@pytest.mark.parametrize("port, flags, made", [
    ("all", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], True),
    ("suite", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], False),
    ("suite", ["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], False),
    ("suite", ["-tls1_2", "-cipher", ECDSA_256], True),
    ("suite", ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"], False),
    ("suite", ["-tls1_3"], True),
    ("all", ["-tls1_3", "-groups", "X25519"], True),
    ("curve", ["-tls1_3", "-groups", "X25519"], False),
    ("curve", ["-tls1_3", "-groups", "X25519:P-256"], True),
    ("curve", ["-tls1_2", "-groups", "X25519"], False),
    ("curve", ["-tls1_2", "-groups", "P-256"], True),
])
def test_lists_of_ciphers_and_groups_are_kept(tls, port, flags, made):
    got, out = s_client(tls[port], *flags)
    assert got == made, out
    if got and port == "suite":
        assert "AES256-GCM-SHA384" in out or "AES_256_GCM_SHA384" in out


# ---- sockets ----

def test_keep_alive_of_a_listener_is_set(binary, tmp_path):
    """As Contour writes it; the kernel shows the timer of an idle connection. A change takes effect, too."""
    port = gw.free_port()
    options = [{"level": 1, "name": 9, "int_value": 1}, {"level": 6, "name": 4, "int_value": 45}]
    routes = [{"match": {"prefix": "/"}, "direct_response": {"status": 204}}]
    def resources(**extra):
        return [gw.listener("l", port, [{"filters": [gw.hcm(routes)]}], **extra)]

    def timer():
        with socket.create_connection(("127.0.0.1", port), GUARD) as s:
            s.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert s.recv(4096).startswith(b"HTTP/1.1 204 ")
            ends = f"( sport = :{port} and dport = :{s.getsockname()[1]} )"
            lines = subprocess.run(["ss", "-tno", "state", "established", ends],
                                   capture_output=True, text=True, check=True).stdout
        return "timer:(keepalive,4" in lines

    g = gw.Gateway(binary, tmp_path, resources(socket_options=options), workers=1)
    try:
        assert timer()
        g.apply(resources())
        until(lambda: not timer(), what="a connection without keep-alive")
        g.apply(resources(socket_options=options))
        until(timer, what="the keep-alive timer")
    finally:
        g.stop()


# ---- fields that are refused ----

def test_a_field_that_is_not_read_is_refused_with_the_reason(binary, tmp_path):
    """The listener before it serves on; the line of the log has path and reason, the metric counts."""
    port = gw.free_port()
    routes = [{"match": {"prefix": "/"}, "direct_response": {"status": 204}}]
    good = gw.listener("l", port, [{"filters": [gw.hcm(routes)]}])
    g = gw.Gateway(binary, tmp_path, [good], workers=1)
    try:
        routes = [{"match": {"prefix": "/"}, "route": {"cluster": "c", "retry_policy": {
            "retry_on": "5xx", "retriable_headers": [{"name": "x-again", "present_match": True}]}}}]
        g.apply([gw.listener("l", port, [{"filters": [gw.hcm(routes)]}])])
        until(lambda: "retry_policy.retriable_headers is not supported: headers of a response do not lead to retries"
              in g.log(), what="the reason in the log")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=GUARD) as r:
            assert r.status == 204
    finally:
        g.stop()
