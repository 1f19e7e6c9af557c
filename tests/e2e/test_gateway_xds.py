# SPDX-License-Identifier: Apache-2.0
"""The gateway as a delta ADS client: warming, endpoint changes, refusals, a server that goes away."""
import http.client
import pathlib
import re
import subprocess

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until

CDS = gw.TYPE + "envoy.config.cluster.v3.Cluster"
EDS = gw.TYPE + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LDS = gw.TYPE + "envoy.config.listener.v3.Listener"
RDS = gw.TYPE + "envoy.config.route.v3.RouteConfiguration"


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field of a message, by hand: what we send must not come from the code under test."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def socket_address(port):
    return field(1, field(2, "127.0.0.1") + field(3, port))


def any_of(kind, value):
    return field(1, gw.TYPE + kind) + field(2, value)


def listener(name, port, table):
    router = field(1, "router") + field(4, any_of("envoy.extensions.filters.http.router.v3.Router", b""))
    hcm = field(2, "s") + field(3, field(2, table)) + field(5, router)
    chain = field(3, field(1, "hcm") + field(4, field(1, gw.HCM) + field(2, hcm)))
    return field(1, name) + field(2, socket_address(port)) + field(3, chain)


def table(name, cluster):
    route = field(1, field(1, "/")) + field(2, field(1, cluster))
    return field(1, name) + field(2, field(1, "all") + field(2, "*") + field(3, route))


def eds_cluster(name):
    return field(1, name) + field(2, 3) + field(3, field(1, field(3, b"")))


def assignment(name, *ports):
    hosts = b"".join(field(2, field(1, field(1, socket_address(p)))) for p in ports)
    return field(1, name) + field(2, hosts)


class Server:
    def __init__(self, binary):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        program = pathlib.Path(binary).resolve().parent / "tests" / "tools" / "xds_server"
        self.process = subprocess.Popen([program, "--ack-timeout-ms", "500"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def commit(self, *changes):
        for kind, name, value in changes:
            line = f"set {kind} {name} {value.hex()}" if value is not None else f"del {kind} {name}"
            self.process.stdin.write(line + "\n")
        self.process.stdin.write("commit\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def status(self):
        self.process.stdin.write("status\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline().strip()) != "end":
            lines.append(line)
        return lines

    def close(self):
        self.process.stdin.close()
        self.process.wait(GUARD)


class XdsGateway(gw.Gateway):
    """The same program with its resources from a server."""

    def __init__(self, binary, where, port):
        self.ready_port, self.admin_port, self.stats_port = gw.free_port(), gw.free_port(), gw.free_port()
        self.log_path = where / "gateway.log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [binary, "gateway", "--xds-addr", f"127.0.0.1:{port}", "--xds-node-id", "gw-7",
                 "--workers", "2", "--admin-addr", f"127.0.0.1:{self.admin_port}", "--stats-addr",
                 f"127.0.0.1:{self.stats_port}", "--ready-addr", f"127.0.0.1:{self.ready_port}", "--drain-time", "2s"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def get(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        c.request("GET", "/echo")
        r = c.getresponse()
        r.read()
        return r.status
    except OSError:
        return None
    finally:
        c.close()


@pytest.fixture(name="server")
def _server(binary):
    s = Server(binary)
    yield s
    s.close()


def test_a_gateway_lives_from_its_server(binary, server, tmp_path):
    one, two = gw.Origin(), gw.Origin()
    port = gw.free_port()
    g = XdsGateway(binary, tmp_path, server.port)
    # The listener waits for its routes, the cluster for its endpoints.
    server.commit((CDS, "c", eds_cluster("c")), (LDS, "l", listener("l", port, "t")))
    until(lambda: len(server.status()) >= 4)
    assert get(port) is None
    server.commit((EDS, "c", assignment("c", one.port)), (RDS, "t", table("t", "c")))
    until(lambda: get(port) == 200)
    g.wait_ready()
    assert any("node=gw-7" in line for line in server.status())
    # Endpoints move.
    server.commit((EDS, "c", assignment("c", two.port)))
    def moved():
        """For both workers: which of them takes a connection is the kernel's choice."""
        before = one.requests
        assert [get(port) for _ in range(10)] == [200] * 10
        return one.requests == before and two.requests > 0
    until(moved, what="the new endpoint")
    # A refusal says why and changes nothing.
    server.commit((RDS, "t", field(1, "t") + field(2, field(1, "no domains"))))
    until(lambda: any("domains is empty" in line for line in server.status()))
    assert get(port) == 200
    # Routes go to nowhere, and back.
    for cluster, status in (("unknown", 503), ("c", 200)):
        server.commit((RDS, "t", table("t", cluster)))
        until(lambda s=status: [get(port) for _ in range(10)] == [s] * 10, what=f"routes to {cluster}")
    # Without its server it goes on.
    server.process.kill()
    until(lambda: re.search("ADS stream closed", g.log()))
    for _ in range(5):
        assert get(port) == 200
    g.stop()
    one.close()
    two.close()
