# SPDX-License-Identifier: Apache-2.0
"""
Clients, upstreams and a guard that leave at any point, while the configuration changes under them:
nothing is used after it ended (sanitizers see that), and in the end nothing is left over.
"""
import random
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import h2.config
import h2.connection
import h2.exceptions
import pytest
from harness import gateway as gw
from harness.metrics import Metrics
from harness.wait import until

pytestmark = pytest.mark.tsan

AUTHZ = gw.TYPE + "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
AUTHZ_ROUTE = AUTHZ + "PerRoute"
PATHS = ["/echo", "/slow/3", "/slow/30", "/close", "/size/70000", "/size/1000000", "/chunked", "/ws",
         "/status/503", "/raw/48545450", "/raw/58", "/sha", "/tunnel", "/tunnel"]
SECONDS = 5


class Guard(gw.Origin):
    """Says yes or no, late, not at all, or too much."""

    def _answer(self, conn, f, method, target, headers):
        for _ in self._body(f, headers):
            pass
        how = random.random()
        if how < 0.15:
            return False
        if how < 0.5:
            time.sleep(random.random() * 0.03)
        if how > 0.9:
            self._send(conn, method, b"x" * random.choice([0, 10, 200000]), random.choice(["401", "302", "500"]))
        else:
            self._send(conn, method, b"")
        return True


class Proxy(gw.Origin):
    """Refuses tunnels, with a reason, late, or by leaving."""

    def _answer(self, conn, f, method, target, headers):
        if random.random() < 0.2:
            return False
        time.sleep(random.random() * 0.02)
        conn.sendall(b"HTTP/1.1 %d X\r\nx-spanwire-reason: denied\r\nproxy-status: p\r\ncontent-length: 0\r\n\r\n"
                     % random.choice([403, 502, 504, 418]))
        return True


def tunnel(rng, proxy):
    """Requests to /tunnel go through an internal listener and a CONNECT."""
    raw = {"name": "raw", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"}}
    internal = {"envoy_internal_address": {"server_listener_name": "tunnels",
                                           "endpoint_id": rng.choice("xyz")}}
    return [gw.cluster("proxy", [proxy.port]),
            {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": "tunnels", "internal_listener": {},
             "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
                 "@type": gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t",
                 "cluster": "proxy", "tunneling_config": {"hostname": "device:1"}}}]}]},
            {"@type": gw.TYPE + "envoy.config.cluster.v3.Cluster", "name": "tunnel",
             "transport_socket": {"name": "internal", "typed_config": {
                 "@type": gw.TYPE + "envoy.extensions.transport_sockets.internal_upstream.v3."
                                    "InternalUpstreamTransport", "transport_socket": raw}},
             "load_assignment": {"cluster_name": "tunnel", "endpoints": [
                 {"lb_endpoints": [{"endpoint": {"address": internal}}]}]}}]


def resources(rng, port, origin, guard, proxy):
    filters = [{"name": "authz", "typed_config": {
        "@type": AUTHZ, "failure_mode_allow": rng.random() < 0.5,
        "http_service": {"server_uri": {"uri": "http://guard", "cluster": "guard", "timeout": "0.02s"}},
        **({"with_request_body": {"max_request_bytes": 20000, "allow_partial_message": True}}
           if rng.random() < 0.5 else {})}}] if rng.random() < 0.8 else []
    router = [{"name": "envoy.filters.http.router", "typed_config": {"@type": gw.ROUTER}}]
    action = {"cluster": "origin", "timeout": rng.choice(["0.01s", "0.1s", "5s"]), "retry_policy": {
        "retry_on": "5xx,reset,connect-failure", "num_retries": 2, "per_try_timeout": "0.05s"}}
    if rng.random() < 0.5:
        action["request_mirror_policies"] = [{"cluster": rng.choice(["guard", "origin", "dead"])}]
    route = {"match": {"prefix": "/"}, "route": action}
    if filters and rng.random() < 0.3:
        route["typed_per_filter_config"] = {"authz": {"@type": AUTHZ_ROUTE, "disabled": True}}
    through = {"match": {"prefix": "/tunnel"}, "route": {"cluster": "tunnel", "timeout": "1s"}}
    out = [gw.cluster("dead", [9]), gw.cluster("guard", [guard.port])]
    if rng.random() < 0.8:
        out += tunnel(rng, proxy)
    if rng.random() < 0.9:
        out.append(gw.cluster("origin", rng.choice([[origin.port], [origin.port, 9]])))
    if rng.random() < 0.85:
        out.append(gw.listener("l", port, [{"filters": [gw.hcm(
            [through, route], http_filters=filters + router, drain_timeout="0.1s",
            stream_idle_timeout=rng.choice(["0.05s", "5s"]))]}]))
    return out


def leave(rng, s):
    if rng.random() < 0.5:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif rng.random() < 0.3:
        s.shutdown(socket.SHUT_WR)
        time.sleep(rng.random() * 0.02)


def http1(rng, port):
    """A few requests at once, maybe not whole, and only a part of the answers is read."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
        out = b""
        for _ in range(rng.randint(1, 6)):
            n = rng.choice([0, 0, 0, 10, 5000, 30000])
            upgrade = b"connection: upgrade\r\nupgrade: websocket\r\n" if rng.random() < 0.1 else b""
            out += b"%s %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n%s\r\n" % (
                b"POST" if n else b"GET", rng.choice(PATHS).encode(), n, upgrade) + b"b" * n
        cut = rng.choice([len(out), len(out), rng.randint(0, len(out))])
        at = rng.randint(0, cut)
        s.sendall(out[:at])
        time.sleep(rng.choice([0, 0.001, 0.02]))
        s.sendall(out[at:cut])
        s.settimeout(rng.choice([0.001, 0.02, 0.2]))
        for _ in range(rng.choice([0, 1, 20])):
            if not s.recv(65536):
                break
        leave(rng, s)


def http2(rng, port):
    conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    conn.initiate_connection()
    with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
        for _ in range(rng.randint(1, 20)):
            i, n = conn.get_next_available_stream_id(), rng.choice([0, 0, 10, 5000])
            conn.send_headers(i, [(":method", "POST" if n else "GET"), (":scheme", "http"),
                                  (":authority", "a"), (":path", rng.choice(PATHS))], end_stream=n == 0)
            if n and conn.local_flow_control_window(i) >= n:
                conn.send_data(i, b"b" * n, end_stream=rng.random() < 0.7)
            if rng.random() < 0.1:
                s.sendall(conn.data_to_send())
                time.sleep(0.002)
            if rng.random() < 0.1:
                conn.reset_stream(i)
        s.sendall(conn.data_to_send())
        s.settimeout(rng.choice([0.001, 0.02, 0.2]))
        for _ in range(rng.choice([0, 1, 20])):
            data = s.recv(65536)
            if not data:
                break
            conn.receive_data(data)
            s.sendall(conn.data_to_send())
        leave(rng, s)


class Client(threading.Thread):
    def __init__(self, seed, port, how):
        super().__init__(daemon=True)
        self.rng, self.port, self.how = random.Random(seed), port, how
        self.stop, self.n = False, 0

    def run(self):
        while not self.stop:
            try:
                self.how(self.rng, self.port)
            except (OSError, h2.exceptions.ProtocolError):
                pass
            self.n += 1


def metrics(gateway):
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.stats_port}/metrics", timeout=60) as r:
        return Metrics(r.read().decode())


def gauge(gateway, name):
    """The sum over all labels; the family must be there."""
    m = metrics(gateway)
    assert m.find(name), m.text
    return m.sum(name)


def test_everybody_leaves_at_any_point(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    origin, guard, proxy, port = gw.Origin(), Guard(), Proxy(), gw.free_port()
    gateway = gw.Gateway(binary, tmp_path, resources(rng, port, origin, guard, proxy), drain="1s")
    clients = [Client(seed + i, port, [http1, http2][i % 2]) for i in range(6)]
    for c in clients:
        c.start()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            gateway.apply(resources(rng, port, origin, guard, proxy))
            time.sleep(rng.choice([0.01, 0.05, 0.2]))
            assert gateway.process.poll() is None, f"seed {seed}\n" + gateway.log()[-5000:]
    finally:
        for c in clients:
            c.stop = True
        for c in clients:
            c.join(60)
    gateway.apply([gw.cluster("last", [origin.port]), gw.listener("l", port, [{"filters": [gw.hcm(
        [{"match": {"prefix": "/"}, "route": {"cluster": "last"}}])]}])])
    # Any of the configurations before may answer as well; the last one alone counts under this name.
    until(lambda: answers(port) and used(gateway, "last"), 60, "the last configuration serves")
    for name in ("spanwire_gateway_connections", "spanwire_gateway_cluster_active_requests"):
        until(lambda n=name: gauge(gateway, n) == 0, 60, f"{name} is 0, seed {seed}")
    assert all(c.n for c in clients)
    gateway.stop()
    origin.close()
    guard.close()
    proxy.close()


def used(gateway, cluster):
    return metrics(gateway).find("spanwire_gateway_cluster_active_requests", cluster=cluster)


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/echo", timeout=20) as r:
            return r.status == 200
    except OSError:
        return False


class Held(gw.Origin):
    """Answers to /held come when the test says so."""

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()
        super().__init__()

    def _answer(self, conn, f, method, target, headers):
        if target == "/held":
            self.asked.set()
            assert self.go.wait(60)
        return super()._answer(conn, f, method, "/echo", headers)


def test_a_cluster_that_goes_leaves_its_counts(binary, tmp_path):
    """Also those of requests that end after it went, and also when nobody read the metrics before."""
    origin, port = Held(), gw.free_port()

    def config(cluster):
        return [gw.cluster(cluster, [origin.port]), gw.listener("l", port, [{"filters": [gw.hcm(
            [{"match": {"prefix": "/"}, "route": {"cluster": cluster}}])]}])]

    def answered(cluster):
        return metrics(gateway).sum("spanwire_gateway_cluster_requests_total", cluster=cluster, code_class="2xx")
    gateway = gw.Gateway(binary, tmp_path, config("before"))
    until(lambda: answers(port), 60, "the first configuration serves")
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(b"GET /held HTTP/1.1\r\nhost: a\r\n\r\n")
        assert origin.asked.wait(60)
        gateway.apply(config("after"))
        until(lambda: answers(port) and used(gateway, "after"), 60, "the second configuration serves")
        early = answered("before")
        assert early >= 1 and not used(gateway, "before")
        origin.go.set()
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    until(lambda: answered("before") == early + 1, 60, "the request that was under way is counted")
    gateway.stop()
    origin.close()
