# SPDX-License-Identifier: Apache-2.0
"""Endpoints that accept no connections: nothing was sent, so another one is asked, and they are set aside."""
import collections
import http.client
import socket
import ssl
import subprocess

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.h2raw import frame
from harness.serve import Each, Server
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

TCP = gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
INSPECTOR = [{"name": "tls_inspector", "typed_config": {
    "@type": gw.TYPE + "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}]
ROUNDS = 12


class Greeter(Server):
    """Says hello when a byte came, with TLS or without."""

    def __init__(self, context=None):
        self.context = context
        super().__init__()

    def _serve(self, conn):
        try:
            if self.context:
                conn = self.context.wrap_socket(conn, server_side=True)
            with conn:
                if conn.recv(1):
                    conn.sendall(b"hello")
        except OSError:
            pass


def serve_h2(conn):
    """200 to every request head, over HTTP/2 without TLS."""
    with conn.makefile("rb") as f:
        f.read(24)
        conn.sendall(frame(4, 0, 0) + frame(4, 1, 0))
        while len(at := f.read(9)) == 9:
            f.read(int.from_bytes(at[:3], "big"))
            if at[3] == 1:
                conn.sendall(frame(1, 5, int.from_bytes(at[5:9], "big"), b"\x88"))


def log_to(path):
    return [{"name": "file", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": str(path),
        "log_format": {"text_format_source": {
            "inline_string": "%RESPONSE_FLAGS% %UPSTREAM_REQUEST_ATTEMPT_COUNT%\n"}}}}]


def tcp(cluster, **extra):
    return {"filters": [{"name": "tcp", "typed_config": {
        "@type": TCP, "stat_prefix": "t", "cluster": cluster, **extra}}]}


def with_priority(c, priority, ports):
    """A cluster with more endpoints of a lower priority."""
    c["load_assignment"]["endpoints"].append({"priority": priority, "lb_endpoints": [
        {"endpoint": {"address": gw.address(p)}} for p in ports]})
    return c


class World:
    """A cluster for each case: what a member learned in one says nothing in another."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.cert, self.key = gw.make_cert(tmp)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        self.ok, self.echo, self.secure = gw.Origin(), Greeter(), Greeter(context)
        self.h2 = Each(serve_h2)
        self.broken = Each(lambda conn: None)  # accepts and closes: no TLS there
        self.dead = [gw.Origin(refuse=True) for _ in range(3)]
        self.late = gw.Origin(refuse=True)
        self.both = [gw.Origin(refuse=True) for _ in range(2)]
        self.ports = collections.defaultdict(gw.free_port)
        self.access, self.tcp_access = tmp / "http.log", tmp / "tcp.log"
        self.gateway = gw.Gateway(binary, tmp, self.resources(), workers=1)

    def resources(self):
        no = [d.port for d in self.dead]
        ok, p = self.ok.port, self.ports
        retry = {"retry_policy": {"retry_on": "connect-failure", "num_retries": 1}}
        ring = {"lb_policy": "RING_HASH"}
        trusts = {"transport_socket": {"name": "tls", "typed_config": {
            "@type": gw.UPSTREAM_TLS, "sni": "localhost", "common_tls_context": {"validation_context": {
                "trusted_ca": {"filename": self.cert}}}}}}
        routes = [{"match": {"prefix": "/ring/"}, "route": {
            "cluster": "ring", "prefix_rewrite": "/echo/", "hash_policy": [{"header": {"header_name": "x-who"}}]}}]
        routes += [{"match": {"prefix": f"/{c}/"}, "route": {"cluster": c, "prefix_rewrite": "/echo/", **more}}
                   for c, more in (("one", {}), ("two", {}), ("prio", {}), ("none", {}), ("none-retry", retry),
                                   ("late", {}), ("both", {}), ("outlier", {}), ("h2", {}))]
        log = {"access_log": log_to(self.tcp_access)}
        return [
            gw.listener("l", p["http"], [{"filters": [gw.hcm(routes, access_log=log_to(self.access))]}]),
            gw.listener("tcp", p["tcp"], [tcp("tcp", **log)]),
            gw.listener("tcp-none", p["tcp-none"], [tcp("tcp-none", **log)]),
            gw.listener("passed", p["passed"], [tcp("tls-passed")], listener_filters=INSPECTOR),
            gw.listener("ended", p["ended"], [{**tcp("tcp-ended"), "transport_socket": gw.tls_socket(
                self.cert, self.key)}]),
            gw.listener("made", p["made"], [tcp("tls-made")]),
            gw.cluster("one", [no[0], ok]), gw.cluster("two", [no[0], no[1], ok]), gw.cluster("ring", [no[0], ok], **ring),
            with_priority(gw.cluster("prio", no[:2]), 1, [ok]),
            gw.cluster("none", no), gw.cluster("none-retry", no[:2]),
            gw.cluster("late", [self.late.port, ok]), gw.cluster("both", [b.port for b in self.both]),
            gw.cluster("outlier", [no[0], ok], outlier_detection={"consecutive_5xx": 1000}),
            gw.cluster("h2", [no[0], self.h2.port], **gw.h2_options()),
            gw.cluster("tcp", [no[0], self.echo.port]), gw.cluster("tcp-ended", [no[0], self.echo.port]),
            gw.cluster("tcp-none", no), gw.cluster("tls-passed", [no[0], self.secure.port]),
            gw.cluster("tls-made", [no[0], self.broken.port, self.secure.port], **trusts)]

    def ask(self, path, method="GET", body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=GUARD * SLOW)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            r.read()
            return r.status
        finally:
            c.close()

    def greet(self, name, tls=False):
        with socket.create_connection(("127.0.0.1", self.ports[name]), timeout=GUARD * SLOW) as s:
            if tls:
                context = ssl.create_default_context(cafile=self.cert)
                s = context.wrap_socket(s, server_hostname="localhost")
            s.sendall(b"x")
            said = b""
            while (data := s.recv(10)):
                said += data
            return said

    def count(self, name, cluster, state=None):
        text = fb._fetch(f"http://127.0.0.1:{self.gateway.stats_port}/metrics")
        want = f'{name}{{cluster="{cluster}"' + (f',state="{state}"' if state else "")
        return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(want))

    def close(self):
        try:
            self.gateway.stop()
        finally:
            for s in (self.h2, self.ok, self.echo, self.secure, self.broken, self.late, *self.dead, *self.both):
                s.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("failover"))
    yield world
    world.close()


@pytest.mark.parametrize("cluster", ["one", "two", "prio", "outlier"])
def test_another_endpoint_is_asked(w, cluster):
    assert [w.ask(f"/{cluster}/") for _ in range(ROUNDS)] == [200] * ROUNDS
    assert w.count("spanwire_gateway_cluster_failovers_total", cluster) > 0
    assert w.count("spanwire_gateway_cluster_retries_total", cluster) == 0


def test_what_may_not_be_done_twice_is_sent_to_another_endpoint_too(w):
    """Nothing of it was sent. Its body waited meanwhile, also one that is too large to be kept."""
    for size in (5, 3_000_000):
        assert [w.ask("/one/", "POST", b"x" * size) for _ in range(4)] == [200] * 4


def test_over_http2(w):
    assert {w.ask("/h2/") for _ in range(ROUNDS)} == {200}


def test_by_consistent_hashing(w):
    """The clients of the endpoint that refuses move, each to the same one."""
    assert {w.ask("/ring/", headers={"x-who": f"client{i}"}) for i in range(ROUNDS)} == {200}


def test_over_tcp(w):
    assert {w.greet("tcp") for _ in range(ROUNDS)} == {b"hello"}
    until(lambda: w.tcp_access.exists() and "- 2\n" in w.tcp_access.read_text(encoding="utf-8"),
          what="a connection of two attempts in the log")


@pytest.mark.parametrize("name", ["passed", "ended"])
def test_over_tls_routes(w, name):
    assert {w.greet(name, tls=True) for _ in range(ROUNDS)} == {b"hello"}


def test_a_failed_handshake_counts_like_a_refused_connection(w):
    assert {w.greet("made") for _ in range(ROUNDS)} == {b"hello"}


def last_line(path):
    return path.read_text(encoding="utf-8").splitlines()[-1] if path.exists() else ""


def test_three_endpoints_are_asked_at_most(w):
    assert w.ask("/none/") == 503
    until(lambda: last_line(w.access) == "UF 3", what="the flags in the log")
    with pytest.raises(ConnectionResetError):
        w.greet("tcp-none")
    until(lambda: last_line(w.tcp_access) == "UF,URX 3", what="the flags in the log")


def test_a_retry_policy_comes_after_all_endpoints_were_asked(w):
    assert w.ask("/none-retry/") == 503
    until(lambda: last_line(w.access) == "UF,URX 3", what="the flags in the log")
    assert w.count("spanwire_gateway_cluster_retries_total", "none-retry") == 1
    assert w.count("spanwire_gateway_cluster_failovers_total", "none-retry") == 1


def test_an_endpoint_that_keeps_refusing_is_set_aside_and_comes_back(w):
    text = f"127.0.0.1:{w.late.port}"

    def flags():
        page = fb._fetch(f"http://127.0.0.1:{w.gateway.admin_port}/clusters")
        return [line.split("::")[-1] for line in page.splitlines() if f"late::{text}::health_flags" in line][0]

    while flags() == "healthy":
        assert w.ask("/late/") == 200
    assert flags() == "/failed_connect"
    assert w.count("spanwire_gateway_cluster_members", "late", "set_aside") == 1
    until(lambda: f"endpoint {text} set aside" in w.gateway.log(), what="the log to say so")
    before = w.count("spanwire_gateway_cluster_failovers_total", "late")
    for _ in range(200):
        assert w.ask("/late/") == 200
    assert w.count("spanwire_gateway_cluster_failovers_total", "late") - before < 50
    w.late.listen()

    def back():
        assert w.ask("/late/") == 200
        return flags() == "healthy"
    until(back, what="the endpoint to come back")
    until(lambda: f"endpoint {text} accepts connections again" in w.gateway.log(), what="the log to say so")
    assert w.gateway.log().count(f"endpoint {text} set aside") == 1
    before = w.late.requests
    assert {w.ask("/late/") for _ in range(ROUNDS)} == {200}
    assert w.late.requests >= before + ROUNDS // 2 - 1


def test_endpoints_are_asked_when_all_are_set_aside(w):
    def aside():
        assert w.ask("/both/") == 503
        return w.count("spanwire_gateway_cluster_members", "both", "set_aside") == 2
    until(aside, what="both to be set aside")
    w.both[0].listen()
    assert [w.ask("/both/") for _ in range(ROUNDS)] == [200] * ROUNDS


def test_outlier_detection_decides_where_it_is_configured(w):
    for _ in range(ROUNDS * 2):
        assert w.ask("/outlier/") == 200
    assert w.count("spanwire_gateway_cluster_members", "outlier", "set_aside") == 0
    assert w.count("spanwire_gateway_cluster_failovers_total", "outlier") >= ROUNDS
