# SPDX-License-Identifier: Apache-2.0
"""Health checks of every kind, circuit limits, and the numbers that tell about both."""
import re
import socket
import socketserver
import subprocess
import threading
import urllib.request

import h2.config
import h2.connection
import h2.events
import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, until
from test_gateway_upstream_tls import URI, Ca, TlsServer, sans, upstream


class HttpServer:
    """Plain HTTP/1.1 on TCP or a Unix socket; remembers the Host of each request."""

    def __init__(self, path=None):
        self.hosts, self.attempts, self.healthy = [], [], True
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while (first := self.rfile.readline()):
                    while (line := self.rfile.readline().strip()):
                        if line.lower().startswith(b"host:"):
                            outer.hosts.append(line.split(b":", 1)[1].strip().decode())
                        if line.lower().startswith(b"x-envoy-attempt-count:"):
                            outer.attempts.append((first.split()[1].decode(), int(line.split(b":")[1])))
                    outer.hold.wait(2 * GUARD)
                    self.wfile.write(b"HTTP/1.1 %d X\r\ncontent-length: 2\r\n\r\nok"
                                     % (200 if outer.healthy else 500))

        kind = socketserver.ThreadingUnixStreamServer if path else socketserver.ThreadingTCPServer
        kind.daemon_threads = True
        self.server = kind(path or ("127.0.0.1", 0), Handler)
        self.port = None if path else self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class GrpcHealth(Server):
    """grpc.health.v1.Health/Check by hand."""

    def __init__(self):
        self.serving, self.seen = True, []
        super().__init__()

    def _serve(self, sock):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        c.initiate_connection()
        sock.sendall(c.data_to_send())
        bodies = {}
        while (data := sock.recv(65536)):
            for e in c.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    self.seen.append({k.decode(): v.decode() for k, v in e.headers})
                    bodies[e.stream_id] = b""
                elif isinstance(e, h2.events.DataReceived):
                    bodies[e.stream_id] += e.data
                elif isinstance(e, h2.events.StreamEnded):
                    self.seen[-1]["body"] = bodies[e.stream_id]
                    c.send_headers(e.stream_id, [(":status", "200"),
                                                 ("content-type", "application/grpc")])
                    c.send_data(e.stream_id, b"\0\0\0\0\2\x08" + (b"\1" if self.serving else b"\2"))
                    c.send_headers(e.stream_id, [("grpc-status", "0")], end_stream=True)
            sock.sendall(c.data_to_send())


def check(patience="30s", **kind):
    """With the default only what a member says takes it out, not how long it takes."""
    return {"health_checks": [{"timeout": patience, "interval": "0.1s", "unhealthy_threshold": 2,
                               "healthy_threshold": 2, **kind}]}


HTTP = {"http_health_check": {"path": "/healthz", "host": "check.test"}}


TALK = {"send": {"text": b"GET / HTTP/1.1\r\n\r\n".hex()}, "receive": [{"text": b"200 OK".hex()}]}


class World:
    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.ca = Ca(tmp, "ca")
        self.pipe = str(tmp / "pipe.sock")
        self.plain, self.unix, self.grpc = HttpServer(), HttpServer(self.pipe), GrpcHealth()
        self.slow = HttpServer()
        self.tls = TlsServer(self.ca.issue(["db.test"], [URI]))
        self.port, self.back = gw.free_port(), gw.free_port()
        self.gateway = gw.Gateway(binary, tmp, self.resources(), workers=1)

    def resources(self):
        ca = {"trusted_ca": {"filename": self.ca.path}}
        clusters = [
            gw.cluster("plain", [self.plain.port], **check(**HTTP)),
            gw.cluster("tls", [self.tls.port], **check(**HTTP),
                       **upstream({**ca, **sans(("URI", URI))}, sni="elsewhere.test")),
            gw.cluster("tls-wrong", [self.tls.port], **check(**HTTP),
                       **upstream({**ca, **sans(("DNS", "bad.test"))}, sni="db.test")),
            gw.cluster("h2", [self.back], **check(**HTTP), **gw.h2_options()),
            gw.cluster("h2-bad", [self.back], **gw.h2_options(), **check(
                http_health_check={"path": "/bad"})),
            gw.cluster("grpc", [self.grpc.port], **gw.h2_options(), **check(
                grpc_health_check={"service_name": "shop", "authority": "grpc.test"})),
            gw.cluster("pipe", [1], **check(**HTTP)),
            gw.cluster("tight", [self.slow.port], circuit_breakers={"thresholds": [
                {"max_connections": 1, "max_pending_requests": 1}]}),
        ]
        good, bad = {**ca, **sans(("URI", URI))}, {**ca, **sans(("DNS", "bad.test"))}
        for name, port, believed, how in (("said", self.tls.port, good, TALK), ("bare", self.tls.port, good, {}),
                                          ("wrong", self.tls.port, bad, {}), ("plain", self.plain.port, good, {})):
            clusters.append(gw.cluster("tcp-tls-" + name, [port], **check("1s", tcp_health_check=how),
                                       **upstream(believed, sni="elsewhere.test")))
        clusters[6]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"] = {
            "pipe": {"path": self.pipe}}
        routes = [{"match": {"prefix": "/" + c["name"] + "/"}, "route": {"cluster": c["name"]}}
                  for c in clusters]
        routes += [
            {"match": {"path": "/short"}, "route": {
                "cluster": "slow", "max_stream_duration": {"max_stream_duration": "0.3s"}}},
            {"match": {"path": "/long"}, "route": {
                "cluster": "slow", "timeout": "0s", "max_stream_duration": {"max_stream_duration": "300s"}}},
            {"match": {"path": "/again"}, "route": {"cluster": "slow", "retry_policy": {
                "retry_on": "5xx", "num_retries": 2}}}]
        clusters.append(gw.cluster("slow", [self.slow.port]))
        front = gw.hcm(routes)
        hosts = front["typed_config"]["route_config"]["virtual_hosts"]
        hosts[0]["include_request_attempt_count"] = True
        return [gw.listener("front", self.port, [{"filters": [front]}]),
                gw.listener("back", self.back, [{"filters": [gw.hcm([
                    {"match": {"path": "/bad"}, "direct_response": {"status": 500}},
                    {"match": {"prefix": "/", "headers": [{"name": ":authority", "string_match": {
                        "exact": "check.test"}}]}, "direct_response": {"status": 200}},
                    {"match": {"prefix": "/"}, "direct_response": {"status": 200}}])]}]), *clusters]

    def page(self, path, port=None):
        url = f"http://127.0.0.1:{port or self.gateway.admin_port}{path}"
        return urllib.request.urlopen(url, timeout=GUARD).read().decode()

    def flags(self, cluster):
        return re.findall(rf"^{cluster}::.*::health_flags::(.*)$", self.page("/clusters"), re.M)

    def ask(self, path):
        with socket.create_connection(("127.0.0.1", self.port), timeout=2 * GUARD) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            return int(s.makefile("rb").readline().split()[1])


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("health"))
    yield w
    w.gateway.stop()


def is_out(w, cluster):
    until(lambda: w.flags(cluster) == ["/failed_active_hc"], 5)


def is_in(w, cluster):
    until(lambda: w.flags(cluster) == ["healthy"], 5)


@pytest.mark.parametrize("name", ["plain", "tls"])
def test_out_and_back_over_http(w, name):
    server = getattr(w, name)
    is_in(w, name)
    server.healthy = False
    is_out(w, name)
    server.healthy = True
    is_in(w, name)
    assert w.ask(f"/{name}/x") == 200


def test_the_host_of_the_check_is_sent(w):
    until(lambda: "check.test" in w.plain.hosts, 5)


def test_a_member_that_is_not_believed_is_out(w):
    is_out(w, "tls-wrong")


def test_bytes_over_tls(w):
    """The handshake is part of the check, and what is said goes through it."""
    is_in(w, "tcp-tls-bare")
    is_in(w, "tcp-tls-said")
    is_out(w, "tcp-tls-wrong")
    is_out(w, "tcp-tls-plain")
    w.tls.healthy = False
    is_out(w, "tcp-tls-said")
    is_in(w, "tcp-tls-bare")
    w.tls.healthy = True
    is_in(w, "tcp-tls-said")


def test_http2(w):
    is_in(w, "h2")
    is_out(w, "h2-bad")


def test_grpc(w):
    is_in(w, "grpc")
    until(lambda: w.grpc.seen and "body" in w.grpc.seen[-1], 5)
    seen = w.grpc.seen[0]
    assert seen[":path"] == "/grpc.health.v1.Health/Check" and seen[":authority"] == "grpc.test"
    assert seen["body"] == b"\0\0\0\0\6\n\4shop"
    w.grpc.serving = False
    is_out(w, "grpc")
    w.grpc.serving = True
    is_in(w, "grpc")


def test_unix_sockets(w):
    is_in(w, "pipe")
    assert w.ask("/pipe/x") == 200


def test_connections_and_waiting_requests_are_limited(w):
    got = []
    w.slow.hold.clear()
    threads = [threading.Thread(target=lambda: got.append(w.ask("/tight/x"))) for _ in range(4)]
    threads[0].start()
    until(lambda: any(path == "/tight/x" for path, _ in w.slow.attempts))  # until then it waits, too
    for t in threads[1:]:
        t.start()
    until(lambda: len(got) == 2, 5)  # one is served, one waits, the rest is refused
    w.slow.hold.set()
    for t in threads:
        t.join()
    assert sorted(got) == [200, 200, 503, 503]
    assert "tight::rq_overflow::2" in w.page("/clusters")


def test_a_stream_lasts_so_long_and_no_longer(w):
    w.slow.hold.clear()
    assert w.ask("/short") == 504
    w.slow.hold.set()
    assert w.ask("/long") == 200


def test_attempts_are_numbered(w):
    w.slow.healthy = False
    assert w.ask("/again") == 500
    w.slow.healthy = True
    assert [n for path, n in w.slow.attempts if path == "/again"] == [1, 2, 3]


def test_the_numbers(w):
    w.ask("/nowhere")
    for series in ('spanwire_gateway_requests_total{listener="front",code_class="2xx"}',
                   'spanwire_gateway_requests_total{listener="front",code_class="5xx"}',
                   'spanwire_gateway_request_duration_seconds_bucket{listener="front",le="0.5"}',
                   'spanwire_gateway_local_replies_total{listener="front",reason="route_not_found"}',
                   'spanwire_gateway_local_replies_total{listener="front",reason="overflow"} 2',
                   'spanwire_gateway_cluster_requests_total{cluster="plain",code_class="2xx"}',
                   'spanwire_gateway_cluster_failures_total{cluster="tight",reason="overflow"} 2',
                   'spanwire_gateway_cluster_members{cluster="tls-wrong",state="failing"} 1',
                   'spanwire_gateway_cluster_connections{cluster="tight"} 1',
                   'spanwire_gateway_connections{listener="front"}'):
        until(lambda s=series: s in w.page("/metrics", w.gateway.stats_port), what=series)
