# SPDX-License-Identifier: Apache-2.0
"""Defects that were found once and must not come back; each test names what went wrong."""
import contextlib
import os
import resource
import socket
import time

import pytest
from harness import traffic
from harness.hbone_peer import App, GatewayApp, H2Peer, PeerGone, SockTransport
from harness.mesh import PORT
from harness.wait import stays, until
from test_waypoint import VIP, at, two_networks

# Freed memory is overwritten, so that using it shows in a plain build too.
PERTURB = {"MALLOC_PERTURB_": "165"}


# -- connections being set up -----------------------------------------------------------------

@pytest.mark.parametrize("answer", ["refusal", "end"])
def test_reload_takes_the_local_workload_away_during_a_handshake(mesh, answer):
    """The record that the waiting connection was accepted for is gone when the peer goes on."""
    node = mesh.shared("node1", env=PERTURB)
    stalled = mesh.hold(mesh.p2, 15008)
    sock = mesh.connect(mesh.c1, mesh.p2)
    sock.sendall(b"x")
    conn = mesh.keep(stalled.take())
    record = mesh.world.workloads.pop("c1")
    mesh.apply()
    stalled.stop()
    if answer == "end":
        conn.close()
    else:
        peer = mesh.keep(H2Peer(SockTransport(conn), mesh.server_context(mesh.p2.identity),
                                server_side=True))
        with contextlib.suppress(PeerGone):
            peer.open()
            peer.wait(lambda: peer.streams or traffic.ended(sock), what="the node to go on")
            for stream in peer.streams.values():
                App(status=503).request(peer, stream)
    until(lambda: traffic.ended(sock), 5, "the connection to be refused")
    assert node.alive
    conn.close()
    mesh.world.workloads["c1"] = record
    mesh.apply()
    mesh.hbone_server(mesh.p2)
    mesh.roundtrip(mesh.c1, mesh.p2)


class ResetApp(App):
    def request(self, peer, stream):
        peer.rst(stream)


@pytest.mark.parametrize("failure", ["status", "reset", "inner identity"])
def test_double_hbone_goes_on_to_the_second_gateway(mesh, failure):
    """The remains of the first attempt must not be touched by the second."""
    inner_id = "spiffe://cluster.local/ns/default/sa/far"
    two_networks(mesh, [inner_id])
    mesh.world.workloads["w2"]["network"] = "remote"
    mesh.world.workload("far2", [], network="remote", networkGateway=at(f"remote/{mesh.w2.ip4}"),
                        uid="remote//Pod/default/far2", clusterId="remote")
    mesh.world.service("far", [f"local/{VIP}"], {80: PORT}, ["far1", "far2"],
                       subjectAltNames=[inner_id])
    node = mesh.shared("node1", "--network", "local", env=PERTURB)
    thief = mesh.server_context("spiffe://cluster.local/ns/default/sa/thief")
    bad = mesh.hbone_server(mesh.q2, {"status": lambda: App(status=503), "reset": ResetApp,
                                      "inner identity": lambda: GatewayApp(thief)}[failure]())
    mesh.hbone_server(mesh.w2, GatewayApp(mesh.server_context(inner_id)))
    for _ in range(20):
        with traffic.connect(mesh.c1, (VIP, 80)) as sock:
            traffic.echo_once(sock, 1000)
            traffic.echo_once(sock, 1000)
    assert bad.streams, "the failing gateway was never drawn"
    dead = mesh.carriers(mesh.c1, mesh.q2)
    assert dead and dead <= node.open_sockets()
    bad.stop()
    until(lambda: not dead & node.open_sockets(), what="the node to see the end")
    mesh.roundtrip(mesh.c1, VIP, 80)
    assert node.alive


def test_retry_does_not_draw_a_dead_weighted_waypoint_again(mesh):
    """One of two weighted waypoints is down: every connection finds the other one."""
    mesh.world.service("web", [VIP], {80: PORT}, ["s2"],
                       weightedWaypoints=[{"destination": at(mesh.w2.ip4), "weight": 1},
                                          {"destination": at(mesh.q2.ip4), "weight": 1}])
    node = mesh.shared("node1")
    alive = mesh.hbone_server(mesh.w2)
    for _ in range(20):
        mesh.roundtrip(mesh.c1, VIP, 80)
    assert [s.authority for s in alive.streams] == [f"{VIP}:80"] * 20
    until(lambda: [e for e in node.access(direction="outbound") if e.get("error")],
          what="the dead waypoint to be drawn")


@pytest.mark.parametrize("endpoints", [1, 2])
def test_exhausted_retry_is_logged_and_counted_once(mesh, endpoints):
    """One record per attempt, and none for having nobody left to try."""
    names = ["p2", "q2"][:endpoints]
    mesh.world.service("web", [VIP], {80: PORT}, names)
    node = mesh.shared("node1")
    assert mesh.refused(mesh.c1, VIP, 80)
    lines = node.wait_access(endpoints, direction="outbound")
    stays(lambda: len(node.access()) == endpoints, 0.2, "one line per attempt")
    assert sorted(e["dst.workload"] for e in lines) == names
    assert all(e["error"] for e in lines)
    metrics = node.metrics()
    for name in ("opened", "closed"):
        assert metrics.sum(f"istio_tcp_connections_{name}_total", reporter="source") == endpoints
    assert metrics.sum("spanwire_refusals_total") == endpoints
    assert metrics.sum("spanwire_refusals_total", reason="no_route") == 0


def test_on_demand_resolution_is_counted(mesh):
    mesh.world.workload("named", [], hostname="localhost", protocol="TCP")
    mesh.world.service("web", [VIP], {80: PORT}, ["named"])
    node = mesh.shared("node1")
    for _ in range(3):
        mesh.refused(mesh.c1, VIP, 80)
    found = node.metrics().find("istio_on_demand_dns_total")
    assert [(labels["hostname"], labels["source_workload"], n) for labels, n in found] \
        == [("localhost", "c1", 3)]


# -- what must be refused ---------------------------------------------------------------------

@pytest.mark.parametrize("service", ["foreign", "headless"])
def test_waypoint_is_not_bypassed_by_a_service_name(mesh, service):
    """A name in the CONNECT, of somebody else's service or of one without an address."""
    mesh.world.workloads["s2"]["waypoint"] = at(mesh.w2.ip4)
    mesh.world.service("foreign", ["10.96.0.77"], {80: PORT}, ["c1"])
    mesh.world.service("headless", [], {80: PORT}, ["s2"])
    mesh.shared("node2")
    app = mesh.echo(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    assert peer.tunnel(f"{service}.default.svc.cluster.local:80").status == 401
    assert app.accepted == 0


@pytest.mark.parametrize("fast", ["true", "false"])
def test_fast_path_refuses_what_the_tunnel_would(mesh, fast):
    """Both ends on one node, but in different trust domains."""
    record = mesh.world.workloads["c1"]
    record["trustDomain"] = "elsewhere.example"
    node = mesh.shared("node1", "--fast-path", fast)
    app = mesh.echo(mesh.s1)
    assert mesh.refused(mesh.c1, mesh.s1)
    assert app.accepted == 0
    assert node.metrics().sum("spanwire_fast_path_connections_total") == 0
    record["trustDomain"] = "cluster.local"
    mesh.apply()
    mesh.roundtrip(mesh.c1, mesh.s1)
    assert node.metrics().sum("spanwire_fast_path_connections_total") == (fast == "true")


# -- reload -----------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["removed", "in place"])
def test_half_written_configuration_is_not_loaded(mesh, how):
    """The policies come last: the file without them is valid and allows everything."""
    mesh.world.policy("nobody", "Allow", [])
    _, node2 = mesh.both()
    app = mesh.echo(mesh.s2)
    assert mesh.refused(mesh.c1, mesh.s2)
    mesh.world.revision += 1
    text = mesh.world.text()
    cut = text.index("policies:")
    if how == "removed":
        os.unlink(mesh.world.path)
    with open(mesh.world.path, "w", encoding="utf-8") as f:
        f.write(text[:cut])
        f.flush()
        # Whatever else happens in the directory is no reason to look.
        mesh.world.path.with_suffix(".other").touch()
        stays(lambda: mesh.refused(mesh.c1, mesh.s2), 0.4, "denied traffic stays denied")
        f.write(text[cut:])
    until(lambda: node2.loaded(mesh.world.marker), 5, "the whole file")
    assert mesh.refused(mesh.c1, mesh.s2)
    assert app.accepted == 0
    mesh.world.policies.clear()
    mesh.apply()
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_emptied_file_keeps_the_previous_configuration(mesh):
    mesh.world.policy("nobody", "Allow", [])
    node1, node2 = mesh.both()
    app = mesh.echo(mesh.s2)
    mesh.world.path.write_text("", encoding="utf-8")
    for node in (node1, node2):
        until(lambda n=node: n.metrics().sum("spanwire_config_reloads_total", result="failed"),
              5, "a failed reload to be counted")
        assert node.loaded(mesh.world.marker)
    assert mesh.refused(mesh.c1, mesh.s2)
    assert app.accepted == 0
    mesh.world.policies.clear()
    mesh.apply()
    mesh.roundtrip(mesh.c1, mesh.s2)


# -- resources of the pod and of the node -----------------------------------------------------

def test_plaintext_inbound_leaves_ports_to_the_servers_of_the_pod(mesh):
    """Our sockets to the application have ports of the pod: a server may listen on them."""
    mesh.shared("node2")
    app = mesh.echo(mesh.s2)
    for _ in range(200):
        traffic.echo_once(mesh.connect(mesh.u1, mesh.s2), 8)
    assert app.peer_ips() == {mesh.u1.ip4}
    taken = []
    for _, port in app.peers:
        with mesh.s2.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("0.0.0.0", port))
                server.listen()
            except OSError:
                taken.append(port)
    assert taken == []


def test_waiting_connections_are_bounded_by_themselves(mesh):
    """The many that are served are no reason to turn away one that waits for its workload."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096:
        pytest.skip("needs 4096 descriptors")
    record = mesh.world.workloads.pop("t2")
    mesh.shared("node2", "--workers", "1")
    mesh.echo(mesh.t2)
    served = mesh.hold(mesh.s2)
    for _ in range(1100):
        mesh.connect(mesh.u1, mesh.s2)
    until(lambda: served.accepted == 1100, what="all of them to be served")
    for _ in range(5):
        began = time.monotonic()
        late = mesh.connect(mesh.u1, mesh.t2)
        late.sendall(b"late")
        time.sleep(0.2)
        mesh.world.workloads["t2"] = record
        mesh.apply()
        try:
            got = late.recv(4)
        except ConnectionResetError:
            got = b""
        if got or time.monotonic() - began < 5:  # it may wait for five seconds: were we in time?
            break
        del mesh.world.workloads["t2"]
        mesh.apply()
    assert got == b"late"


@pytest.mark.parametrize("client", ["c1", "c2"], ids=["tunnel", "same-node"])
def test_endpoint_without_an_application_is_passed_over(mesh, client):
    """Half of the connections failed with one of two endpoints refusing: no byte had moved, so the other takes them."""
    mesh.world.service("pair", ["10.96.1.1"], {80: PORT}, ["s2", "t2"])
    mesh.both()
    mesh.echo(mesh.s2)
    for _ in range(20):
        mesh.roundtrip(mesh.pods[client], "10.96.1.1", 80)


@pytest.mark.parametrize("client", ["c1", "c2"], ids=["tunnel", "same-node"])
def test_service_without_any_application(mesh, client):
    mesh.world.service("pair", ["10.96.1.1"], {80: PORT}, ["s2", "t2"])
    node1, node2 = mesh.both()
    assert mesh.refused(mesh.pods[client], "10.96.1.1", 80)
    lines = (node1 if client == "c1" else node2).wait_access(n=2, message="connection complete", direction="outbound")
    assert {line["dst.workload"] for line in lines} == {"s2", "t2"} and all("503" in line["error"] for line in lines)
