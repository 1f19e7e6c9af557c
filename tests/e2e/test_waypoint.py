# SPDX-License-Identifier: Apache-2.0
"""Waypoints, sandwiched waypoints, network gateways and double tunnels."""
import collections
import os
import socket
import struct

import pytest
from harness import traffic
from harness.hbone_peer import ForwardApp, GatewayApp
from harness.mesh import PORT
from harness.wait import until
from harness.world import World

VIP, WAYPOINT_VIP = "10.96.0.10", "10.96.0.20"


def at(address, port=15008):
    return {"destination": address if "/" in address else f"/{address}", "hboneMtlsPort": port}


@pytest.fixture
def way(mesh):
    """w2 is a foreign waypoint that echoes and remembers what it was asked."""
    mesh.way = mesh.hbone_server(mesh.w2)
    return mesh


def asked(mesh, server=None):
    return [s.authority for s in (server or mesh.way).streams]


# -- finding the waypoint ---------------------------------------------------------------------

@pytest.mark.tsan
def test_workload_waypoint(way):
    way.world.workloads["s2"]["waypoint"] = at(way.w2.ip4)
    node1, _ = way.both()
    way.roundtrip(way.c1, way.s2)
    assert asked(way) == [f"{way.s2.ip4}:{PORT}"]
    assert way.way.peers[0].peer_identity == way.c1.identity
    line = node1.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{way.w2.ip4}:15008" and line["dst.workload"] == "w2"
    assert line["dst.identity"] == way.w2.identity


def test_service_waypoint(way):
    way.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(way.w2.ip4))
    node1, _ = way.both()
    way.roundtrip(way.c1, VIP, 80)
    assert asked(way) == [f"{VIP}:80"]
    line = node1.wait_access(direction="outbound")[-1]
    assert line["dst.service"] == "web.default.svc.cluster.local"
    assert line["dst.workload"] == "w2"
    assert "host=web.default.svc.cluster.local" in way.way.streams[0].headers["forwarded"]


def test_service_waypoint_given_as_service_address(way):
    way.world.service("waypoint", [WAYPOINT_VIP], {15008: 15008}, ["w2"])
    way.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(WAYPOINT_VIP))
    way.both()
    way.roundtrip(way.c1, VIP, 80)
    assert asked(way) == [f"{VIP}:80"]


def test_service_waypoint_hostname(way):
    way.world.service("waypoint", [WAYPOINT_VIP], {15008: 15008}, ["w2"])
    way.world.service("web", [VIP], {80: PORT}, ["s2"],
                      waypoint=at("default/waypoint.default.svc.cluster.local"))
    way.both()
    way.roundtrip(way.c1, VIP, 80)
    assert asked(way) == [f"{VIP}:80"]


def test_service_waypoint_workload_hostname(way):
    way.world.workloads["w2"]["hostname"] = "waypoint.example.com"
    way.world.service("web", [VIP], {80: PORT}, ["s2"],
                      waypoint=at("default/waypoint.example.com"))
    way.both()
    way.roundtrip(way.c1, VIP, 80)
    assert asked(way) == [f"{VIP}:80"]


def test_service_waypoint_on_another_port(mesh):
    mesh.way = mesh.hbone_server(mesh.w2, port=15018)
    mesh.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(mesh.w2.ip4, 15018))
    mesh.both()
    mesh.roundtrip(mesh.c1, VIP, 80)
    assert asked(mesh) == [f"{VIP}:80"]


def test_waypoint_of_a_service_is_not_used_for_its_pods(way):
    """Addressed by pod address, only the workload's own waypoint counts; and the reverse."""
    way.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(way.w2.ip4))
    way.world.service("bare", ["10.96.0.11"], {80: PORT}, ["t2"])
    way.world.workloads["t2"]["waypoint"] = at(way.w2.ip4)
    way.both("--enforce-waypoint", "false")
    way.echo(way.s2)
    way.echo(way.t2)
    way.roundtrip(way.c1, way.s2)
    way.roundtrip(way.c1, "10.96.0.11", 80)
    assert asked(way) == []


@pytest.mark.parametrize("missing", ["/10.0.2.77", "default/nowhere.example.com"])
def test_unresolvable_waypoint_fails_closed(way, missing):
    way.world.workloads["s2"]["waypoint"] = at(missing)
    way.world.service("web", [VIP], {80: PORT}, ["t2"], waypoint=at(missing))
    node1, _ = way.both()
    servers = [way.echo(way.s2), way.echo(way.t2)]
    assert way.refused(way.c1, way.s2)
    assert way.refused(way.c1, VIP, 80)
    assert [s.accepted for s in servers] == [0, 0]
    assert node1.wait_access(2, direction="outbound")[-1]["error"]


def test_weighted_waypoints(way):
    other = way.hbone_server(way.q2)
    way.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(way.w2.ip4),
                      weightedWaypoints=[{"destination": at(way.w2.ip4), "weight": 80},
                                         {"destination": at(way.q2.ip4), "weight": 20}])
    way.both()
    for _ in range(60):
        way.roundtrip(way.c1, VIP, 80)
    seen = collections.Counter(w2=len(asked(way)), q2=len(asked(way, other)))
    assert sum(seen.values()) == 60
    assert seen["w2"] > seen["q2"] > 0


def test_weighted_waypoints_all_zero_fall_back(way):
    other = way.hbone_server(way.q2)
    way.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(way.w2.ip4),
                      weightedWaypoints=[{"destination": at(way.q2.ip4), "weight": 0}])
    way.both()
    for _ in range(5):
        way.roundtrip(way.c1, VIP, 80)
    assert len(asked(way)) == 5 and not other.streams


def test_waypoint_with_the_wrong_identity(way):
    way.world.workloads["w2"]["serviceAccount"] = "someone-else"
    way.world.workloads["s2"]["waypoint"] = at(way.w2.ip4)
    way.both()
    assert way.refused(way.c1, way.s2)
    assert asked(way) == []


# -- the waypoint's own traffic ---------------------------------------------------------------

def test_waypoint_itself_is_not_sent_to_the_waypoint(mesh):
    """x2 is captured and is the waypoint of s2: its calls go straight to s2."""
    mesh.world.workloads["s2"]["waypoint"] = at(mesh.x2.ip4)
    node1, node2 = mesh.both("--fast-path", "false")
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.x2, mesh.s2)
    line = node2.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{mesh.s2.ip4}:15008"
    assert not node1.access()


@pytest.mark.tsan
def test_enforcement_lets_only_the_waypoint_in(way):
    way.world.workloads["s2"]["waypoint"] = at(way.w2.ip4)
    _, node2 = way.both()
    app = way.echo(way.s2)
    authority = f"{way.s2.ip4}:{PORT}"
    stranger = way.hbone(way.s2)
    assert stranger.tunnel(authority).status == 401
    assert way.refused(way.u1, way.s2), "plaintext does not come from the waypoint either"
    assert app.accepted == 0
    waypoint = way.hbone(way.s2, source=way.w2)
    stream = waypoint.tunnel(authority)
    assert stream.status == 200
    waypoint.echo(stream)
    assert "waypoint" in node2.wait_access(direction="inbound")[0]["error"]


def test_enforcement_can_be_switched_off(way):
    way.world.workloads["s2"]["waypoint"] = at(way.w2.ip4)
    way.both("--enforce-waypoint", "false")
    way.echo(way.s2)
    assert way.hbone(way.s2).tunnel(f"{way.s2.ip4}:{PORT}").status == 200
    way.roundtrip(way.u1, way.s2)


def test_forwarded_source_only_from_waypoints(way):
    way.world.workloads["s2"]["waypoint"] = at(way.w2.ip4)
    way.both()
    s2, t2 = way.echo(way.s2), way.echo(way.t2)
    header = ("forwarded", f'for="{way.c1.ip4}:4242"')
    peer = way.hbone(way.s2, source=way.w2)
    stream = peer.tunnel(f"{way.s2.ip4}:{PORT}", header)
    peer.echo(stream)
    assert s2.peer_ips() == {way.c1.ip4}, "the waypoint may speak for the client"
    peer = way.hbone(way.t2, source=way.w2)
    peer.echo(peer.tunnel(f"{way.t2.ip4}:{PORT}", header))
    assert t2.peer_ips() == {way.w2.ip4}, "w2 is no waypoint of t2"
    peer = way.hbone(way.t2)
    peer.echo(peer.tunnel(f"{way.t2.ip4}:{PORT}", header))
    assert t2.peer_ips() == {way.w2.ip4, way.p1.ip4}


def test_through_a_forwarding_waypoint_end_to_end(mesh):
    """Client node, foreign waypoint, server node: the whole way with real tunnels."""
    class Onward(ForwardApp):
        """Opens its own tunnel to the destination, as a waypoint does."""

        def request(self, peer, stream):
            out = mesh.keep(mesh.hbone(mesh.s2, source=mesh.w2))
            self.out = out
            self.far = out.tunnel(stream.authority, ("forwarded", stream.headers["forwarded"]))
            peer.h2.send_headers(stream.id, [(":status", str(self.far.status))])
            peer.flush()

        def data(self, peer, stream):
            data = stream.take()
            self.out.send(self.far, data)
            peer.send(stream, self.out.recv(self.far, len(data)))

        def end(self, peer, stream):
            peer.end(stream)

    mesh.world.workloads["s2"]["waypoint"] = at(mesh.w2.ip4)
    mesh.both()
    app = mesh.echo(mesh.s2)
    mesh.hbone_server(mesh.w2, Onward(mesh.w2, None))
    mesh.roundtrip(mesh.c1, mesh.s2)
    assert app.peer_ips() == {mesh.c1.ip4}


# -- sandwich ---------------------------------------------------------------------------------

def read_proxy_v2(sock):
    """(source, destination, {TLV type: value}) of a PROXY protocol v2 header."""
    head = traffic.read_exact(sock, 16)
    assert head[:12] == b"\r\n\r\n\0\r\nQUIT\n"
    assert head[12] == 0x21, "version 2, command PROXY"
    size = struct.unpack("!H", head[14:16])[0]
    body = traffic.read_exact(sock, size)
    if head[13] == 0x11:
        src, dst = socket.inet_ntop(socket.AF_INET, body[:4]), \
            socket.inet_ntop(socket.AF_INET, body[4:8])
        ports, rest = struct.unpack("!HH", body[8:12]), body[12:]
    else:
        assert head[13] == 0x21, "TCP over IPv6"
        src, dst = socket.inet_ntop(socket.AF_INET6, body[:16]), \
            socket.inet_ntop(socket.AF_INET6, body[16:32])
        ports, rest = struct.unpack("!HH", body[32:36]), body[36:]
    tlvs = {}
    while rest:
        kind, n = rest[0], struct.unpack("!H", rest[1:3])[0]
        tlvs[kind] = rest[3:3 + n]
        rest = rest[3 + n:]
    return (src, ports[0]), (dst, ports[1]), tlvs


def sandwich(mesh, protocol):
    mesh.world.workloads["x2"]["applicationTunnel"] = {"protocol": protocol, "port": 15088}
    mesh.world.workloads["s2"]["waypoint"] = at(mesh.x2.ip4)
    mesh.world.service("web", [VIP], {80: PORT}, ["s2"], waypoint=at(mesh.x2.ip4))


def onward(mesh, sock, dst):
    """The waypoint's other half: a plain call that its own proxy picks up."""
    with traffic.connect(mesh.x2, dst) as out:
        data = sock.recv(65536)
        out.sendall(data)
        sock.sendall(traffic.read_exact(out, len(data)))


@pytest.mark.tsan
def test_sandwich_waypoint_plain(mesh):
    sandwich(mesh, "NONE")
    mesh.both()
    app = mesh.echo(mesh.s2)
    front = mesh.serve(mesh.x2, lambda sock, _: onward(mesh, sock, (mesh.s2.ip4, PORT)), 15088)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    assert front.peer_ips() == {mesh.c1.ip4}
    assert app.peer_ips() == {mesh.x2.ip4}, "behind the waypoint its address is the source"
    assert not front.errors


@pytest.mark.tsan
@pytest.mark.parametrize("target", ["workload", "service"])
def test_sandwich_waypoint_proxy_protocol(mesh, target):
    sandwich(mesh, "PROXY")
    mesh.both()
    mesh.echo(mesh.s2)
    seen = []

    def front(sock, peer):
        seen.append((peer, *read_proxy_v2(sock)))
        onward(mesh, sock, (mesh.s2.ip4, PORT))
    server = mesh.serve(mesh.x2, front, 15088, ip="127.0.0.1")
    dst = (mesh.s2.ip4, PORT) if target == "workload" else (VIP, 80)
    sock = mesh.connect(mesh.c1, *dst)
    traffic.echo_once(sock)
    assert not server.errors
    peer, src, to, tlvs = seen[0]
    assert peer[0] == "127.0.0.1", "the application tunnel is dialled on loopback"
    assert src[0] == mesh.c1.ip4 and to == dst
    assert tlvs == {0xD0: mesh.c1.identity.encode()}


def test_sandwich_proxy_protocol_on_the_pod_address(mesh):
    sandwich(mesh, "PROXY")
    mesh.both("--localhost-app-tunnel", "false")
    seen = []

    def front(sock, peer):
        seen.append((peer, *read_proxy_v2(sock)))
        sock.sendall(sock.recv(65536))
    mesh.serve(mesh.x2, front, 15088)
    traffic.echo_once(mesh.connect(mesh.c1, mesh.s2))
    assert seen[0][0][0] == mesh.c1.ip4


def test_application_tunnel_with_hostname_authority(mesh):
    """The PROXY header needs an address: one of the service's, with the requested port."""
    sandwich(mesh, "PROXY")
    mesh.world.workloads["x2"]["services"]["default/web.default.svc.cluster.local"] = {80: 80}
    mesh.shared("node2")
    seen = []

    def front(sock, _peer):
        seen.append(read_proxy_v2(sock))
        sock.sendall(b"ok")
    mesh.serve(mesh.x2, front, 15088, ip="127.0.0.1")
    peer = mesh.hbone(mesh.x2)
    stream = peer.tunnel("web.default.svc.cluster.local:80")
    assert stream.status == 200
    assert peer.recv(stream, 2) == b"ok"
    assert seen[0][1] == (VIP, 80)


# -- several networks -------------------------------------------------------------------------

HOST = "far.default.svc.cluster.local"


def two_networks(mesh, sans):
    """c1 lives in 'local'; the service's only endpoint in 'remote', behind the gateway q2."""
    for workload in mesh.world.workloads.values():
        workload["network"] = "local"
    mesh.world.workloads["q2"]["network"] = "remote"
    mesh.world.workload("far1", [], network="remote", networkGateway=at(f"remote/{mesh.q2.ip4}"),
                        uid="remote//Pod/default/far1", clusterId="remote")
    mesh.world.service("far", [f"local/{VIP}"], {80: PORT}, ["far1"], subjectAltNames=sans)


@pytest.mark.tsan
def test_double_hbone1(mesh):
    inner_id = "spiffe://cluster.local/ns/default/sa/far"
    two_networks(mesh, [inner_id])
    node1 = mesh.shared("node1", "--network", "local")
    gateway = GatewayApp(mesh.server_context(inner_id))
    outer = mesh.hbone_server(mesh.q2, gateway)
    sock = mesh.connect(mesh.c1, VIP, 80)
    traffic.echo_once(sock, 100000)
    assert [s.authority for s in outer.streams] == [f"{HOST}:80"]
    inner = gateway.inner[0]
    stream = next(iter(inner.streams.values()))
    assert stream.authority == f"{HOST}:80"
    assert stream.headers["x-forwarded-network"] == "local"
    assert "x-forwarded-network" not in outer.streams[0].headers
    assert inner.peer_identity == outer.peers[0].peer_identity == mesh.c1.identity
    # A second connection shares the outer tunnel's connection, never the inner one.
    traffic.echo_once(mesh.connect(mesh.c1, VIP, 80))
    assert len(gateway.inner) == 2
    sock.close()
    line = node1.wait_access(direction="outbound")[-1]
    assert line["dst.service"] == HOST
    assert line["dst.workload"] == "q2", "an answer without baggage tells nothing of the inner end"


def test_double_hbone_inner_identity_is_checked(mesh):
    two_networks(mesh, ["spiffe://cluster.local/ns/default/sa/far"])
    node1 = mesh.shared("node1", "--network", "local")
    gateway = GatewayApp(mesh.server_context("spiffe://cluster.local/ns/default/sa/thief"))
    mesh.hbone_server(mesh.q2, gateway)
    assert mesh.refused(mesh.c1, VIP, 80)
    assert all(not p.streams for p in gateway.inner)
    line = node1.wait_access(direction="outbound")[-1]
    assert line["error"] and line["dst.workload"] == "q2" and line["dst.identity"] == mesh.q2.identity


def test_double_hbone_without_service_names_fails(mesh):
    """The inner list is the service's names only; empty never matches."""
    two_networks(mesh, [])
    mesh.shared("node1", "--network", "local")
    gateway = GatewayApp(mesh.server_context("spiffe://cluster.local/ns/default/sa/far1"))
    mesh.hbone_server(mesh.q2, gateway)
    assert mesh.refused(mesh.c1, VIP, 80)


def test_double_hbone_gateway_identity_is_checked(mesh):
    two_networks(mesh, ["spiffe://cluster.local/ns/default/sa/far"])
    mesh.shared("node1", "--network", "local")
    outer = mesh.hbone_server(mesh.q2, GatewayApp(mesh.server_context(mesh.q2.identity)),
                              identity="spiffe://cluster.local/ns/default/sa/thief")
    assert mesh.refused(mesh.c1, VIP, 80)
    assert not outer.streams


def test_gateway_must_be_known(mesh):
    two_networks(mesh, ["spiffe://cluster.local/ns/default/sa/far"])
    del mesh.world.workloads["q2"]
    mesh.shared("node1", "--network", "local")
    outer = mesh.hbone_server(mesh.q2)
    assert mesh.refused(mesh.c1, VIP, 80)
    assert outer.accepted == 0


def test_double_hbone2(mesh):
    """The gateway hands the inner tunnel to a real node, which terminates it."""
    two_networks(mesh, [mesh.s2.identity])
    node1 = mesh.shared("node1", "--network", "local")
    far = World(mesh.dir / "far.yaml")
    far.add_pod(mesh.s2, "HBONE", network="remote")
    far.service("far", ["remote/10.97.0.10"], {80: PORT}, ["s2"])
    far.write()
    node2 = mesh.shared("node2", "--network", "remote", "--local-xds", str(far.path),
                        without=("--local-xds",), pods=[mesh.s2])
    mesh.hbone_server(mesh.q2, ForwardApp(mesh.q2, lambda _s: (mesh.s2.ip4, 15008)))
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, VIP, 80)
    traffic.echo_once(sock, 50000)
    sock.close()
    line = node2.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == mesh.c1.identity
    assert line["src.workload"] == "c1", "from the baggage: the address is the gateway's"
    line = node1.wait_access(direction="outbound")[-1]
    assert line["dst.addr"] == f"{mesh.q2.ip4}:15008" and line["dst.hbone_addr"] == f"{HOST}:80"
    assert line["dst.workload"] == "s2" and line["dst.identity"] == mesh.s2.identity
    assert line["bytes_sent"] == line["bytes_recv"] == "50000"
    labels = node1.metrics().find("istio_tcp_connections_closed_total", reporter="source")[0][0]
    assert labels["destination_workload"] == labels["destination_app"] == "s2"
    assert labels["destination_principal"] == mesh.s2.identity
    data = os.urandom(16)
    again = mesh.connect(mesh.c1, VIP, 80)
    again.sendall(data)
    again.shutdown(socket.SHUT_WR)
    assert traffic.read_all(again) == data


def test_other_network_without_a_service(mesh):
    """Only services can be reached across networks."""
    two_networks(mesh, [])
    mesh.world.workloads["u2"].update(network="remote")
    node1 = mesh.shared("node1", "--network", "local")
    app = mesh.echo(mesh.u2)
    # An address of the other network is unknown here: it is passed through, not guessed.
    mesh.roundtrip(mesh.c1, mesh.u2)
    assert app.peer_ips() == {mesh.c1.ip4}
    line = node1.wait_access(direction="outbound")[-1]
    assert line.get("dst.workload") is None


def test_failover_to_the_other_network(mesh):
    """Near endpoints first; when they are gone the gateway is used."""
    inner_id = "spiffe://cluster.local/ns/default/sa/far"
    two_networks(mesh, [inner_id])
    mesh.world.services["default", "far"]["loadBalancer"] = {
        "routingPreferences": ["Network"], "mode": "Failover", "healthPolicy": "OnlyHealthy"}
    mesh.world.workloads["u2"]["services"][f"default/{HOST}"] = {80: PORT}
    mesh.shared("node1", "--network", "local")
    gateway = GatewayApp(mesh.server_context(inner_id))
    outer = mesh.hbone_server(mesh.q2, gateway)
    mesh.echo(mesh.u2)
    for _ in range(5):
        mesh.roundtrip(mesh.c1, VIP, 80)
    assert outer.accepted == 0
    mesh.world.workloads["u2"]["status"] = "Unhealthy"
    mesh.apply()
    mesh.roundtrip(mesh.c1, VIP, 80)
    until(lambda: outer.streams, 5)
