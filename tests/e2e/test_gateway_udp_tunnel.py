# SPDX-License-Identifier: Apache-2.0
"""Datagrams of clients through CONNECT-UDP (RFC 9298) to a proxy that is not always kind."""
import re
import socket
import struct
import threading
import time
import urllib.request

import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

UDP = gw.TYPE + "envoy.extensions.filters.udp.udp_proxy."


def varint(n):
    return bytes([n]) if n < 64 else struct.pack("!H", n | 0x4000) if n < 16384 else struct.pack("!I", n | 0x80000000)


def capsule(payload, kind=0, context=b"\0"):
    return varint(kind) + varint(len(context + payload)) + context + payload


class Proxy(Server):
    """Speaks HTTP/1.1 and echoes UDP payloads; `how` says what it does to the next tunnels."""

    def __init__(self):
        self.how, self.heads, self.payloads = "echo", [], []
        self.go = threading.Event()  # clear: no tunnel is answered
        self.go.set()
        self.open = []
        super().__init__(2048)

    def _serve(self, conn):
        try:
            with conn:
                self._tunnel(conn, conn.makefile("rb"))
        except (OSError, AssertionError, TypeError, IndexError):
            pass

    def _tunnel(self, conn, f):
        head = []
        while (line := f.readline().decode().strip()):
            head.append(line)
        if not head:
            return
        self.heads.append(head)
        self.go.wait(2 * GUARD * SLOW)
        if self.how == "refuse":
            conn.sendall(b"HTTP/1.1 403 Forbidden\r\nx-spanwire-reason: denied\r\ncontent-length: 0\r\n\r\n")
            return
        if self.how == "hang":
            f.read()
            return
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: connect-udp\r\n"
                     b"capsule-protocol: ?1\r\n\r\n")
        self.open.append(conn)
        if self.how == "garbage":
            conn.sendall(b"\0\xbf\xff\xff\xff" + bytes(4096))  # a datagram of a gigabyte
        if self.how == "close":
            return
        while True:
            payload = self._read(f)
            if payload is None:
                return
            self.payloads.append(payload)
            # Other contexts and unknown capsules are for nobody.
            conn.sendall(capsule(b"not for you", context=b"\2") + capsule(b"unknown", kind=0x1f))
            for piece in (capsule(payload)[:3], capsule(payload)[3:]):
                conn.sendall(piece)

    @staticmethod
    def _read(f):
        kind = f.read(1)
        if not kind:
            return None
        assert kind == b"\0"
        first = f.read(1)
        size = 1 << (first[0] >> 6)
        n = int.from_bytes(bytes([first[0] & 0x3f]) + f.read(size - 1), "big")
        value = f.read(n)
        assert value[:1] == b"\0"
        return value[1:]


def listener(port, idle="300s", **tunnel):
    return {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": "udp",
            "address": {"socket_address": {"protocol": "UDP", "address": "127.0.0.1", "port_value": port}},
            "listener_filters": [{"name": "udp", "typed_config": {
                "@type": UDP + "v3.UdpProxyConfig", "stat_prefix": "u", "idle_timeout": idle,
                "matcher": {"on_no_match": {"action": {"name": "route", "typed_config": {
                    "@type": UDP + "v3.Route", "cluster": "proxy"}}}},
                "session_filters": [{"name": "capsules", "typed_config": {
                    "@type": UDP + "session.http_capsule.v3.FilterConfig"}}],
                "tunneling_config": {
                    "proxy_host": "proxy.test", "target_host": "fd00::7", "default_target_port": 53,
                    "headers_to_add": [{"header": {"key": "x-iroh-endpoint-id", "value": "node-7"}}],
                    "buffer_options": {"max_buffered_datagrams": 4, "max_buffered_bytes": 9000}, **tunnel}}}]}


class Setup:
    def __init__(self, binary, tmp, **more):
        self.proxy, self.port = Proxy(), gw.free_port()
        self.gateway = gw.Gateway(binary, tmp, self.resources(**more))

    def resources(self, **tunnel):
        return [listener(self.port, **tunnel), gw.cluster("proxy", [self.proxy.port], circuit_breakers={
            "thresholds": [{"max_connections": 65536, "max_requests": 65536}]})]

    def client(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(GUARD * SLOW)
        s.connect(("127.0.0.1", self.port))
        return s

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.gateway.stats_port}/metrics", timeout=GUARD) as r:
            return r.read().decode()

    def refused(self, reason):
        text = self.metrics()
        return sum(float(n) for n in re.findall(
            rf'spanwire_gateway_connections_refused_total\{{[^}}]*reason="{reason}"[^}}]*\}} ([0-9.]+)', text))


@pytest.fixture(name="g")
def _g(binary, tmp_path):
    s = Setup(binary, tmp_path)
    yield s
    s.gateway.stop()


def test_payloads_of_every_size_pass(g):
    with g.client() as c:
        for n in (0, 1, 62, 63, 64, 1200, 16000, 16381, 16382, 40000, 65507):
            data = bytes(i * 7 & 255 for i in range(n))
            c.send(data)
            assert c.recv(65536) == data
    head = g.proxy.heads[0]
    assert head[0] == "GET /.well-known/masque/udp/fd00%3A%3A7/53/ HTTP/1.1"
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:])}
    assert fields == {"host": "proxy.test", "connection": "upgrade", "upgrade": "connect-udp",
                      "capsule-protocol": "?1", "x-iroh-endpoint-id": "node-7"}
    assert len(g.proxy.heads) == 1


def test_every_client_has_a_tunnel_of_its_own(g):
    clients = [g.client() for _ in range(200)]
    for i, c in enumerate(clients):
        c.send(b"from %d" % i)
    for i, c in enumerate(clients):
        assert c.recv(100) == b"from %d" % i
        c.close()
    assert len(g.proxy.heads) == 200


def test_what_comes_before_the_tunnel_stands_waits_within_limits(g):
    g.proxy.go.clear()
    with g.client() as c:
        for i in range(10):
            c.send(b"%d" % i)
        until(lambda: g.refused("udp_tunnel_full") == 6, what="six to be too many")
        g.proxy.go.set()
        assert [c.recv(100) for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        c.send(b"later")
        assert c.recv(100) == b"later"
    assert g.refused("udp_tunnel_full") == 6 and len(g.proxy.heads) == 1


def test_a_refusal_is_said_once_and_asked_again_later(g):
    """Not for every datagram, but once in a second."""
    g.proxy.how = "refuse"
    with g.client() as c:
        start = time.monotonic()
        for _ in range(50):
            c.send(b"x")
            time.sleep(0.01)
        until(lambda: g.refused("udp_tunnel_refused") >= 1, 5, "the refusal")
        assert len(g.proxy.heads) <= 1 + (time.monotonic() - start), g.proxy.heads
        until(lambda: "no tunnel for 127.0.0.1" in g.gateway.log() and "answered 403, denied" in g.gateway.log(), 5)
        g.proxy.how = "echo"

        def answered():
            c.settimeout(0.1)
            c.send(b"y")
            try:
                return c.recv(100) == b"y"
            except TimeoutError:
                return False
        until(answered, 5, "the tunnel after the refusal")


@pytest.mark.parametrize("how,reason", [("garbage", "udp_bad_capsule"), ("close", None)])
def test_a_broken_tunnel_is_made_anew(g, how, reason):
    g.proxy.how = how
    with g.client() as c:
        c.send(b"1")
        if reason:
            until(lambda: g.refused(reason) == 1, 5, reason)
        else:
            until(lambda: g.proxy.heads, 5)
        g.proxy.how = "echo"

        def answered():
            c.settimeout(0.1)
            c.send(b"2")
            try:
                return c.recv(100) == b"2"
            except TimeoutError:
                return False
        until(answered, 5, "another tunnel")


def test_the_proxy_is_away(g):
    g.proxy.close()
    with g.client() as c:
        c.send(b"1")
        until(lambda: g.refused("udp_tunnel_failed") == 1, 5, "the failure")
        until(lambda: "no tunnel for" in g.gateway.log(), 5)


@pytest.fixture(name="hasty")
def _hasty(binary, tmp_path):
    s = Setup(binary, tmp_path, idle="1s")
    yield s
    s.gateway.stop()


def test_idle_sessions_end(hasty):
    with hasty.client() as c:
        for n in (1, 2):
            c.send(b"%d" % n)
            assert c.recv(100) == b"%d" % n
            until(lambda n=n: hasty.proxy.open[n - 1].fileno() < 0, what="the idle session's end")
        assert len(hasty.proxy.heads) == 2


def test_sessions_of_changed_targets_end(g):
    """Nobody goes on to the old one."""
    with g.client() as c:
        c.send(b"1")
        assert c.recv(100) == b"1"
        g.gateway.apply(g.resources(default_target_port=54))

        def moved():
            c.settimeout(0.2)
            c.send(b"3")
            try:
                c.recv(100)
            except TimeoutError:  # it was on the old way
                return False
            return "/54/" in g.proxy.heads[-1][0]
        until(moved, 10, "the new target")


def test_it_ends_in_the_middle_of_everything(g):
    clients = [g.client() for _ in range(50)]
    for i, c in enumerate(clients):
        g.proxy.how = ("echo", "hang", "refuse")[i % 3]
        c.send(b"x")
        time.sleep(0.002)
    for c in clients:
        c.close()


def test_more_clients_than_tunnels(g):
    """The ones used longest ago make room (1,024 for each of two workers); the newest are served."""
    clients = []
    for i in range(2400):
        clients.append(g.client())
        clients[-1].send(b"x")
        if i % 100 == 99:  # as fast as the proxy can
            assert clients[-1].recv(100) == b"x"
    sessions = [int(float(n)) for n in re.findall(r'spanwire_gateway_connections\{listener="udp"\} ([0-9.]+)',
                                                 g.metrics())]
    assert 1024 <= sum(sessions) <= 2048, sessions
    for c in clients:
        c.close()


@pytest.mark.parametrize("change,why", [
    ({"use_post": True}, "use_post is not supported"),
    ({"default_target_port": 0}, "not a port"),
    ({"proxy_host": ""}, "proxy_host or target_host missing"),
])
def test_what_cannot_be_is_refused(g, change, why):
    g.gateway.apply(g.resources(**change))
    until(lambda: why in g.gateway.log(), 10, g.gateway.log()[-2000:])
    with g.client() as c:
        c.send(b"still")
        assert c.recv(100) == b"still"
