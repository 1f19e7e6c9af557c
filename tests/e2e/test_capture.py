# SPDX-License-Identifier: Apache-2.0
"""Which path a connection takes: captured or not, near or far, in both modes of the node."""
import socket

import pytest
from harness import netns, traffic
from harness.mesh import PORT
from harness.netns import hbone_syns
from harness.wait import until


class Side:
    """The pods that play the parts in one mode."""

    def __init__(self, mesh, mode):
        self.mesh, self.mode = mesh, mode
        if mode == "shared":
            self.client, self.near, self.far = mesh.c1, mesh.s1, mesh.s2
            self.node1, self.node2 = mesh.both()
            self.client_node = self.near_node = self.node1
            self.far_node = self.node2
        else:
            self.client, self.near, self.far = mesh.d1, mesh.e1, mesh.d2
            self.client_node = mesh.dedicated(mesh.d1)
            self.near_node = mesh.dedicated(mesh.e1)
            self.far_node = mesh.dedicated(mesh.d2)


@pytest.fixture(params=["shared", "dedicated"])
def side(request, mesh):
    return Side(mesh, request.param)


def check_pair(side, server_pod, server_node):
    """A tunnelled connection as both sides log it."""
    out = side.client_node.wait_access(message="connection complete", direction="outbound")[-1]
    inb = server_node.wait_access(message="connection complete", direction="inbound")[-1]
    for line in (out, inb):
        assert line["src.identity"] == side.client.identity
        assert line["dst.identity"] == server_pod.identity
        assert line["src.workload"] == side.client.name
        assert line["dst.workload"] == server_pod.name
        assert line.get("error") is None
    assert out["dst.hbone_addr"] == f"{server_pod.ip4}:{PORT}"
    assert out["src.addr"].startswith(side.client.ip4 + ":")
    return out, inb


@pytest.mark.tsan
def test_local_captured(side):
    server = side.mesh.echo(side.near)
    side.mesh.roundtrip(side.client, side.near)
    assert server.peer_ips() == {side.client.ip4}, "the server must see the client's address"
    check_pair(side, side.near, side.near_node)


def test_server_uncaptured(side):
    server = side.mesh.echo(side.mesh.u2)
    side.mesh.roundtrip(side.client, side.mesh.u2)
    assert server.peer_ips() == {side.client.ip4}
    line = side.client_node.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{side.mesh.u2.ip4}:{PORT}"
    assert line["dst.workload"] == "u2"
    for absent in ("dst.hbone_addr", "src.identity", "dst.identity"):
        assert line.get(absent) is None, f"{absent} belongs to tunnels only"


def test_client_uncaptured(side):
    server = side.mesh.echo(side.far)
    side.mesh.roundtrip(side.mesh.u1, side.far)
    assert server.peer_ips() == {side.mesh.u1.ip4}
    line = side.far_node.wait_access(direction="inbound")[-1]
    assert line["src.addr"].startswith(side.mesh.u1.ip4 + ":")
    assert line["dst.addr"] == f"{side.far.ip4}:{PORT}"
    assert line["src.workload"] == "u1" and line.get("src.identity") is None


@pytest.mark.tsan
def test_cross_node_captured(side):
    server = side.mesh.echo(side.far)
    before = hbone_syns(side.far)
    side.mesh.roundtrip(side.client, side.far)
    assert server.peer_ips() == {side.client.ip4}
    assert hbone_syns(side.far) == before + 1
    out, inb = check_pair(side, side.far, side.far_node)
    assert out["dst.addr"] == inb["dst.addr"] == f"{side.far.ip4}:15008"
    assert inb["dst.hbone_addr"] == f"{side.far.ip4}:{PORT}"


def test_client_outside_the_mesh(side):
    server = side.mesh.echo(side.far)
    outside = side.mesh.topo.outside
    side.mesh.roundtrip(outside, side.far)
    assert server.peer_ips() == {outside.ip4}


def test_server_outside_the_mesh(side):
    """An unknown address is passed through unmodified."""
    outside = side.mesh.topo.outside
    server = side.mesh.keep(traffic.EchoServer(outside, (outside.ip4, 7777)))
    side.mesh.roundtrip(side.client, outside.ip4, 7777)
    assert server.peer_ips() == {side.client.ip4}
    line = side.client_node.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{outside.ip4}:7777"
    assert line.get("dst.workload") is None


def test_ipv6(side):
    mesh = side.mesh
    server = mesh.echo(side.far, ip=side.far.ip6)
    mesh.echo(mesh.u2, ip=mesh.u2.ip6)
    mesh.roundtrip(side.client, side.far.ip6)
    assert server.peer_ips() == {side.client.ip6}
    line = side.client_node.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"[{side.far.ip6}]:15008"
    assert line["dst.hbone_addr"] == f"[{side.far.ip6}]:{PORT}"
    mesh.roundtrip(side.client, mesh.u2.ip6)
    mesh.roundtrip(mesh.u1, side.far.ip6)
    assert side.mesh.u1.ip6 in server.peer_ips()


def test_dedicated_with_outbound_redirection_only(mesh):
    """The reference's own set-up for one workload: inbound reaches the application directly."""
    mesh.u1.run("nft", "-f", "-", stdin=netns.OUTBOUND_ONLY_RULES)
    try:
        mesh.world.workloads["u1"]["protocol"] = "HBONE"
        client = mesh.dedicated(mesh.u1, "--orig-src", "false")
        mesh.shared("node2")
        mesh.echo(mesh.s2)
        mesh.echo(mesh.u1, 9191)
        mesh.roundtrip(mesh.u1, mesh.s2)
        client.wait_access(direction="outbound", dst_hbone_addr=f"{mesh.s2.ip4}:{PORT}")
        mesh.roundtrip(mesh.p1, mesh.u1, 9191)
        mesh.roundtrip(mesh.u1, mesh.u1, 9191)
    finally:
        mesh.u1.run("nft", "delete", "table", "inet", "e2e_outbound")


def test_pod_calls_itself_without_the_proxy(mesh):
    node = mesh.shared("node1")
    mesh.echo(mesh.c1)
    mesh.echo(mesh.c1, 8081, ip="127.0.0.1")
    mesh.roundtrip(mesh.c1, mesh.c1)
    mesh.roundtrip(mesh.c1, "127.0.0.1", 8081)
    # What passes the proxy comes to its log later; a connection that does, and comes last, says that all is there.
    mesh.echo(mesh.s1)
    mesh.roundtrip(mesh.c1, mesh.s1)
    node.wait_access(2)
    assert {(e["direction"], e["dst.workload"]) for e in node.access()} == {("inbound", "s1"), ("outbound", "s1")}
    assert len(node.access()) == 2


@pytest.mark.tsan
def test_same_node_fast_path_stays_in_the_process(mesh):
    node = mesh.shared("node1")
    server = mesh.echo(mesh.s1)
    before = hbone_syns(mesh.s1), hbone_syns(mesh.c1)
    for _ in range(5):
        mesh.roundtrip(mesh.c1, mesh.s1)
    assert (hbone_syns(mesh.s1), hbone_syns(mesh.c1)) == before, "nothing may reach port 15008"
    assert server.peer_ips() == {mesh.c1.ip4}
    # The same logs and counters as if it had gone over the wire.
    node.wait_access(5, direction="outbound", src_identity=mesh.c1.identity,
                     dst_identity=mesh.s1.identity)
    node.wait_access(5, direction="inbound", src_identity=mesh.c1.identity,
                     dst_identity=mesh.s1.identity)
    metrics = node.metrics()
    for reporter in ("source", "destination"):
        assert metrics.sum("istio_tcp_connections_opened_total", reporter=reporter,
                           connection_security_policy="mutual_tls") == 5
    assert metrics.sum("spanwire_fast_path_connections_total") == 5


def test_fast_path_can_be_switched_off(mesh):
    mesh.shared("node1", "--fast-path", "false")
    mesh.echo(mesh.s1)
    before = hbone_syns(mesh.s1)
    mesh.roundtrip(mesh.c1, mesh.s1)
    assert hbone_syns(mesh.s1) == before + 1


def test_fast_path_obeys_policy(mesh):
    mesh.world.match_policy("no-c1", "Deny", principals=[{"Exact": mesh.c1.identity[9:]}])
    node = mesh.shared("node1")
    server = mesh.echo(mesh.s1)
    assert mesh.refused(mesh.c1, mesh.s1)
    assert server.accepted == 0
    until(lambda: node.metrics().sum("istio_tcp_connections_closed_total", reporter="destination",
                                     response_flags="DENY") == 1, what="the refusal to be counted")


def test_nothing_readable_on_the_wire(mesh):
    """Between nodes only TLS to port 15008 is seen; the application's bytes are not."""
    mesh.both()
    mesh.echo(mesh.s2, 9443)
    wire = mesh.keep(traffic.Wire(mesh.topo.fabric, "node2"))
    secret = b"open-sesame-" * 20
    with traffic.connect(mesh.c1, (mesh.s2.ip4, 9443)) as sock:
        sock.sendall(secret)
        assert traffic.read_exact(sock, len(secret)) == secret
    ports, frames = wire.seen()
    assert 15008 in ports and 9443 not in ports
    assert b"open-sesame" not in frames


def test_host_network_workload_is_not_found_by_address(mesh):
    """It shares the node's address, so the address says nothing about it: pass through."""
    node2 = mesh.topo.nodes["node2"]
    mesh.world.workload("hostnet", [node2.ip4], networkMode="HostNetwork", node="node2")
    node = mesh.shared("node1")
    mesh.keep(traffic.EchoServer(node2, (node2.ip4, 7700)))
    mesh.roundtrip(mesh.c1, node2.ip4, 7700)
    line = node.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{node2.ip4}:7700"
    assert line.get("dst.workload") is None


def test_server_refuses(mesh):
    """Nothing listens: the tunnel answers 503 and the client's connection ends."""
    node1, node2 = mesh.both()
    assert mesh.refused(mesh.c1, mesh.s2, 9999)
    assert mesh.refused(mesh.u1, mesh.s2, 9999)
    error = node1.wait_access(direction="outbound")[-1]
    assert "503" in error["error"]
    node2.wait_access(2, direction="inbound")
    flags = node2.metrics().find("istio_tcp_connections_closed_total", reporter="destination",
                                 response_flags="CONNECT")
    assert sum(v for _, v in flags) == 2


@pytest.mark.parametrize("src, dst, port", [
    # to our own ports, directly or by way of another pod
    ("c1", "127.0.0.1", 15001), ("c1", "127.0.0.1", 15006), ("c1", "127.0.0.1", 15008),
    ("c1", "c1", 15001), ("c1", "c1", 15006),
    ("c1", "s1", 15001), ("c1", "s1", 15006), ("c1", "s1", 15008),
    ("c1", "s2", 15001), ("c1", "s2", 15006), ("c1", "s2", 15008),
    ("u1", "s2", 15001), ("u1", "s2", 15006),
    ("u1", "c1", 15001), ("u1", "c1", 15006),
])
def test_malicious_calls(mesh, src, dst, port):
    """Calls to the proxy's own ports end; they neither loop nor reach anybody."""
    node1, node2 = mesh.both()
    target = dst if "." in dst else mesh.pods[dst].ip4
    assert traffic.refused(mesh.pods[src], (target, port), payload=b"GET / HTTP/1.0\r\n\r\n")
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    for node in (node1, node2):
        # A loop would have left a long trail before it ended.
        assert len(node.access()) < 8
        assert node.open_fds() < 200


def test_direct_connection_to_the_outbound_port_is_no_open_proxy(mesh):
    """Without redirection the 'original destination' is the listener itself: refused."""
    node = mesh.shared("node1")
    # u1 is not captured; at c1 the call is redirected to 15006 like any other.
    assert mesh.refused(mesh.u1, mesh.c1, 15001)
    until(lambda: node.access(message="connection failed"), 5, "the refusal in the log")


@pytest.mark.tsan
def test_many_pods_keep_their_own_identity(mesh):
    """One process, several namespaces: each connection carries the identity it came from."""
    mesh.both()
    server = mesh.hbone_server(mesh.p2)
    mesh.world.workloads["p2"]["protocol"] = "HBONE"
    for pod in (mesh.c1, mesh.s1, mesh.c2, mesh.s2, mesh.t2):
        mesh.roundtrip(pod, mesh.p2, PORT)
    seen = {p.peer_identity for p in server.peers}
    assert seen == {p.identity for p in (mesh.c1, mesh.s1, mesh.c2, mesh.s2, mesh.t2)}
