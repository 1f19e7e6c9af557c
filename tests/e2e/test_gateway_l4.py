# SPDX-License-Identifier: Apache-2.0
"""TCP, TLS by name, UDP and CONNECT tunnels through the gateway."""
import collections
import hashlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.sidecar import UdpEcho
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

TCP = gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
INSPECTOR = [{"name": "tls_inspector", "typed_config": {
    "@type": gw.TYPE + "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}]
RAW = {"name": "raw", "typed_config": {
    "@type": gw.TYPE + "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"}}


def tcp(cluster=None, **extra):
    where = {"cluster": cluster} if cluster else {}
    return {"filters": [{"name": "tcp", "typed_config": {
        "@type": TCP, "stat_prefix": "t", **where, **extra}}]}


def udp(name, port, idle):
    proxy = gw.TYPE + "envoy.extensions.filters.udp.udp_proxy.v3."
    return {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": name,
            "address": {"socket_address": {"protocol": "UDP", "address": "127.0.0.1", "port_value": port}},
            "listener_filters": [{"name": "udp", "typed_config": {
                "@type": proxy + "UdpProxyConfig", "stat_prefix": "u", "idle_timeout": idle,
                "matcher": {"on_no_match": {"action": {"name": "route", "typed_config": {
                    "@type": proxy + "Route", "cluster": "udp"}}}}}}]}


class TcpServer(Server):
    """Echoes with its name in front; counts; a half-close is answered with a digest."""

    def __init__(self, name, context=None):
        self.name, self.context, self.connections = name, context, 0
        super().__init__()

    def _serve(self, conn):
        try:
            if self.context:
                conn = self.context.wrap_socket(conn, server_side=True)
            self.connections += 1
            with conn:
                conn.sendall(self.name + b"\n")
                sha, n = hashlib.sha256(), 0
                while (data := conn.recv(1 << 16)):
                    sha.update(data)
                    n += len(data)
                    if n < 4096:
                        conn.sendall(data)
                conn.sendall(b"|%d|%s" % (n, sha.hexdigest().encode()))
        except OSError:
            pass


class ConnectProxy(Server):
    """An HTTP/1.1 CONNECT proxy that remembers what it was asked for."""

    def __init__(self):
        self.heads, self.refuse = [], False
        super().__init__()

    def _serve(self, conn):
        f = conn.makefile("rb", buffering=0)
        head = []
        while (line := f.readline()).strip():
            head.append(line.decode().strip())
        if not head:
            return
        self.heads.append(head)
        if self.refuse:
            conn.sendall(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n")
            conn.close()
            return
        host, port = head[0].split()[1].rsplit(":", 1)
        up = socket.create_connection((host, int(port)))
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        def copy(a, b):
            try:
                while (data := a.recv(65536)):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        threading.Thread(target=copy, args=(up, conn), daemon=True).start()
        copy(conn, up)


class Setup:
    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.cert, self.key = gw.make_cert(tmp)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        self.a, self.b = TcpServer(b"a"), TcpServer(b"b")
        self.secure = TcpServer(b"secure", context)
        self.udp = [UdpEcho(lambda data, name=name: name + b":" + data) for name in (b"u1", b"u2")]
        self.proxy, self.origin = ConnectProxy(), gw.Origin()
        self.ports = collections.defaultdict(gw.free_port)
        self.access = tmp / "tcp.log"
        self.gateway = gw.Gateway(binary, tmp, self.resources())

    def resources(self):
        p = self.ports
        log = [{"name": "file", "typed_config": {
            "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": str(self.access), "log_format": {"text_format":
                "%UPSTREAM_CLUSTER% %UPSTREAM_HOST% %BYTES_RECEIVED% %BYTES_SENT% "
                "%RESPONSE_FLAGS% %REQUESTED_SERVER_NAME%\n"}}}]
        return [
            gw.listener("plain", p["plain"], [tcp("a", access_log=log)]),
            gw.listener("weighted", p["weighted"], [tcp(weighted_clusters={"clusters": [
                {"name": "a", "weight": 3}, {"name": "b", "weight": 1},
                {"name": "zero", "weight": 0}]})]),
            gw.listener("nowhere", p["nowhere"], [tcp("undefined")]),
            gw.listener("attempts", p["attempts"], [tcp("flaky", max_connect_attempts=3)]),
            gw.listener("idle", p["idle"], [tcp("a", idle_timeout="0.5s")]),
            gw.listener("byname", p["byname"], [
                {"filter_chain_match": {"server_names": ["through.test"]},
                 **tcp("secure", access_log=log)},
                {"filter_chain_match": {"server_names": ["*.term.test"]}, **tcp("b"),
                 "transport_socket": gw.tls_socket(self.cert, self.key)}],
                listener_filters=INSPECTOR),
            gw.listener("originate", p["originate"], [tcp("tls-up")]),
            udp("udp", p["udp"], "300s"), udp("udp-idle", p["udp-idle"], "0.5s"),
            # Connector tunnels: HTTP -> internal listener -> CONNECT with the endpoint's metadata.
            gw.listener("http", p["http"], [{"filters": [gw.hcm(
                [{"match": {"prefix": "/"}, "route": {"cluster": "tunnel", "timeout": "60s"}}])]}]),
            gw.listener("direct", p["direct"], [tcp("connect-h1", tunneling_config={
                "hostname": f"127.0.0.1:{self.a.port}",
                "headers_to_add": [{"header": {"key": "x-sni", "value": "fixed"}}]})]),
            gw.listener("direct-h2", p["direct-h2"], [tcp("connect-h2", tunneling_config={
                "hostname": f"127.0.0.1:{self.a.port}"})]),
            # Terminates CONNECT over HTTP/2 for the listener above.
            gw.listener("terminate", p["terminate"], [{"filters": [gw.hcm(
                [{"match": {"connect_matcher": {}}, "route": {"cluster": "a", "upgrade_configs": [
                    {"upgrade_type": "CONNECT", "connect_config": {}}]}}],
                http2_protocol_options={"allow_connect": True},
                upgrade_configs=[{"upgrade_type": "CONNECT"}])]}]),
            {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": "tunnels",
             "internal_listener": {}, "filter_chains": [tcp("connect-h1", tunneling_config={
                 "hostname": "%DYNAMIC_METADATA(tunnel:address)%", "headers_to_add": [
                     {"header": {"key": "x-iroh-endpoint-id",
                                 "value": "%DYNAMIC_METADATA(tunnel:endpoint_id)%"}}]})]},
            {"@type": gw.TYPE + "envoy.config.cluster.v3.Cluster", "name": "tunnel",
             "transport_socket": {"name": "internal", "typed_config": {
                 "@type": gw.TYPE + "envoy.extensions.transport_sockets.internal_upstream.v3."
                                    "InternalUpstreamTransport",
                 "passthrough_metadata": [{"kind": {"host": {}}, "name": "tunnel"}],
                 "transport_socket": RAW}},
             "load_assignment": {"cluster_name": "tunnel", "endpoints": [{"lb_endpoints": [
                 {"endpoint": {"address": {"envoy_internal_address": {
                     "server_listener_name": "tunnels", "endpoint_id": "x"}}},
                  "metadata": {"filter_metadata": {"tunnel": {
                      "address": f"127.0.0.1:{self.origin.port}", "endpoint_id": "node-7"}}}}]}]}},
            gw.cluster("a", [self.a.port]), gw.cluster("b", [self.b.port]),
            gw.cluster("zero", [1]), gw.cluster("secure", [self.secure.port]),
            gw.cluster("flaky", [p["dead"], p["dead2"], self.a.port]),
            gw.cluster("udp", [u.port for u in self.udp]),
            gw.cluster("connect-h1", [self.proxy.port]),
            gw.cluster("connect-h2", [p["terminate"]], **gw.h2_options()),
            gw.cluster("tls-up", [self.secure.port], transport_socket={
                "name": "tls", "typed_config": {
                    "@type": gw.UPSTREAM_TLS, "sni": "localhost", "common_tls_context": {
                        "validation_context": {"trusted_ca": {"filename": self.cert},
                                               "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": "localhost"}}]}}}}),
        ]

    def connect(self, name):
        return socket.create_connection(("127.0.0.1", self.ports[name]), timeout=GUARD)


def read_all(s):
    out = b""
    try:
        while (data := s.recv(65536)):
            out += data
    except ConnectionResetError:
        out += b"<reset>"
    return out


@pytest.fixture(scope="module", name="g")
def _g(binary, tmp_path_factory):
    s = Setup(binary, tmp_path_factory.mktemp("l4"))
    yield s
    try:
        s.gateway.stop()
    finally:
        for server in (s.a, s.b, s.secure, *s.udp, s.proxy, s.origin):
            server.close()


def exchange(s, data):
    """Name line, echo of small data, and the digest after our half-close."""
    f = s.makefile("rb")
    name = f.readline().strip()
    s.sendall(data)
    if hasattr(s, "unwrap"):
        got = f.read(len(data)) if len(data) < 4096 else b""
        return name, got, b""
    s.shutdown(socket.SHUT_WR)
    return name, *f.read().split(b"|", 1)


def test_bytes_pass_both_ways_and_ends_travel(g):
    with g.connect("plain") as s:
        name, echo, digest = exchange(s, b"hello")
    assert (name, echo) == (b"a", b"hello")
    assert digest == b"5|" + hashlib.sha256(b"hello").hexdigest().encode()


def test_bulk_arrives_whole(g):
    data = os.urandom(20 << 20)
    with g.connect("plain") as s:
        threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
        out = read_all(s)
    assert out.endswith(b"|%d|%s" % (len(data), hashlib.sha256(data).hexdigest().encode()))


def test_weights(g):
    seen = collections.Counter()
    for _ in range(200):
        with g.connect("weighted") as s:
            seen[s.makefile("rb").readline()] += 1
    assert set(seen) == {b"a\n", b"b\n"} and 120 < seen[b"a\n"] < 180, seen


def test_an_undefined_cluster_closes(g):
    try:
        with g.connect("nowhere") as s:
            assert read_all(s) in (b"", b"<reset>")
    except ConnectionResetError:
        pass  # so soon that connect() saw it


def test_other_hosts_are_tried(g):
    for _ in range(10):
        with g.connect("attempts") as s:
            assert s.makefile("rb").readline() == b"a\n"


def test_idle_connections_end(g):
    start = time.monotonic()  # before the gateway's clock starts
    with g.connect("idle") as s:
        assert read_all(s) in (b"a\n", b"a\n<reset>", b"", b"<reset>")  # the host may be slower than that
        assert 0.4 < time.monotonic() - start


def tls_client(g, name, port="byname"):
    context = ssl.create_default_context(cafile=g.cert)
    context.check_hostname = False
    return context.wrap_socket(g.connect(port), server_hostname=name)


def test_tls_passes_through_by_name(g):
    before = g.secure.connections
    with tls_client(g, "through.test") as s:
        assert exchange(s, b"inside")[:2] == (b"secure", b"inside")
    assert g.secure.connections == before + 1


def test_tls_ends_here_by_name(g):
    with tls_client(g, "x.term.test") as s:
        assert exchange(s, b"plain behind")[:2] == (b"b", b"plain behind")


def test_unknown_names_are_closed(g):
    with pytest.raises((ssl.SSLError, ConnectionResetError, OSError)):
        tls_client(g, "other.test")
    with g.connect("byname") as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert read_all(s) in (b"", b"<reset>")


def test_tls_begins_here(g):
    with g.connect("originate") as s:
        name, echo, digest = exchange(s, b"to tls")
    assert (name, echo) == (b"secure", b"to tls") and digest.startswith(b"6|")


def test_udp_sessions(g):
    names = set()
    for _ in range(8):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(GUARD)
            s.connect(("127.0.0.1", g.ports["udp"]))
            got = set()
            for i in range(5):
                s.send(b"d%d" % i)
                name, data = s.recv(65535).split(b":")
                got.add(name)
                assert data == b"d%d" % i
            assert len(got) == 1  # one client, one host
            names |= got
            big = os.urandom(20000)
            s.send(big)
            assert s.recv(65535).endswith(big)
    assert names == {b"u1", b"u2"}


def test_udp_sessions_end(g):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(GUARD)
        s.connect(("127.0.0.1", g.ports["udp-idle"]))

        def from_where():
            """The sockets that the hosts got datagrams from, with that of another one."""
            s.send(b"1")
            s.recv(100)
            return set().union(*(u.peers for u in g.udp))

        def another():
            time.sleep(1.2)
            return from_where() > first  # another socket: another session
        first = from_where()
        until(another, what="the session to end")


def test_a_connection_goes_through_a_tunnel(g):
    with g.connect("direct") as s:
        name, echo, digest = exchange(s, b"tunnelled")
    assert (name, echo) == (b"a", b"tunnelled") and digest.startswith(b"9|")
    assert g.proxy.heads[-1][0] == f"CONNECT 127.0.0.1:{g.a.port} HTTP/1.1"
    assert "x-sni: fixed" in g.proxy.heads[-1]


def test_a_connection_goes_through_an_h2_tunnel(g):
    with g.connect("direct-h2") as s:
        name, echo, digest = exchange(s, b"h2 tunnel")
    assert (name, echo) == (b"a", b"h2 tunnel") and digest.startswith(b"9|")


@pytest.mark.parametrize("port", ["plain", "originate", "direct", "direct-h2"])
def test_a_client_may_end_its_side_at_once(g, port):
    """As `nc -N host < /dev/null` to a server that speaks first: the half-close comes before the way is open."""
    for _ in range(5):
        with g.connect(port) as s:
            s.shutdown(socket.SHUT_WR)
            out = read_all(s)
        assert out.endswith(b"\n|0|" + hashlib.sha256().hexdigest().encode()), out


def test_http_reaches_a_connector_through_the_internal_listener(g):
    c = http.client.HTTPConnection("127.0.0.1", g.ports["http"], timeout=GUARD)
    for i in range(3):
        c.request("POST", f"/echo/{i}", body=b"x" * 1000, headers={"Host": "device.test"})
        r = c.getresponse()
        told = json.loads(r.read())
        assert r.status == 200
        assert told["target"] == f"/echo/{i}" and told["headers"]["host"] == "device.test"
    head = g.proxy.heads[-1]
    assert head[0] == f"CONNECT 127.0.0.1:{g.origin.port} HTTP/1.1"
    assert "x-iroh-endpoint-id: node-7" in head
    g.proxy.refuse = True
    try:
        c2 = http.client.HTTPConnection("127.0.0.1", g.ports["http"], timeout=GUARD)
        statuses = set()
        for _ in range(4):  # a kept tunnel may serve one more
            c2.request("GET", "/close")
            r = c2.getresponse()
            r.read()
            statuses.add(r.status)
        assert 403 in statuses, statuses  # what the proxy on the way said
    finally:
        g.proxy.refuse = False


def test_the_log_tells(g):
    with g.connect("plain") as s:
        exchange(s, b"logged")
    def lines():
        return g.access.read_text(encoding="utf-8").splitlines()
    until(lambda: any(x.startswith(f"a 127.0.0.1:{g.a.port} 6 ") for x in lines()), 10, g.access)
    until(lambda: any(x.startswith("secure ") and x.endswith(" through.test") for x in lines()))


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("drain", ["120s", "1s"])
def test_zz_a_drain_lets_tunnels_go_on_until_the_deadline(binary, tmp_path, drain):
    server = TcpServer(b"d")
    port = gw.free_port()
    one = gw.Gateway(binary, tmp_path, [gw.listener("plain", port, [tcp("d")]),
                                        gw.cluster("d", [server.port])], drain=drain)
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as s:
        assert s.recv(10) == b"d\n"
        one.process.terminate()
        if drain == "1s":
            assert read_all(s) in (b"", b"<reset>")
        else:
            until(lambda: not listening(port), what="the drain to begin")
            s.sendall(b"still")
            assert s.recv(10) == b"still"
    one.stop()
    server.close()
