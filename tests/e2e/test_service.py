# SPDX-License-Identifier: Apache-2.0
"""Services: load balancing in all its modes, ports, virtual addresses, retry."""
import collections

import pytest
from harness import traffic
from harness.mesh import PORT

VIP = "10.96.0.10"


@pytest.fixture
def banners(mesh):
    """Every server says who it is."""
    for pod in (mesh.s1, mesh.s2, mesh.t2, mesh.u2):
        for port in (PORT, 8081):
            mesh.echo(pod, port, greeting=f"{pod.name}:{port}".ljust(8).encode())
    return mesh


def who(mesh, src, dst=VIP, port=80):
    with traffic.connect(src, (dst, port)) as sock:
        return traffic.read_exact(sock, 8).decode().strip()


def spread(mesh, n=30, src=None, dst=VIP, port=80):
    return collections.Counter(who(mesh, src or mesh.c1, dst, port) for _ in range(n))


@pytest.mark.tsan
def test_service_loadbalancing(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s1", "s2", "t2", "u2"])
    node1, _ = mesh.both()
    seen = spread(mesh, 60)
    assert set(seen) == {f"{p}:{PORT}" for p in ("s1", "s2", "t2", "u2")}
    line = node1.wait_access(direction="outbound", dst_workload="s2")[-1]
    assert line["dst.service"] == "web.default.svc.cluster.local"
    assert line["dst.hbone_addr"] == f"{mesh.s2.ip4}:{PORT}"


def test_capacity_weighs(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s2", "t2"])
    mesh.world.workloads["s2"]["capacity"] = 9
    mesh.both()
    seen = spread(mesh, 200)
    assert seen[f"s2:{PORT}"] > 140 and seen[f"t2:{PORT}"] > 0  # 180 and 20, more or less


def test_target_port_of_the_service_and_of_the_endpoint(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: 8081}, {"s2": {}})
    mesh.world.service("named", ["10.96.0.11"], {80: 0}, {"s2": {80: PORT}, "t2": {80: 8081},
                                                         "s1": {}})
    mesh.both()
    assert set(spread(mesh, 5)) == {"s2:8081"}
    assert set(spread(mesh, 30, dst="10.96.0.11")) == {f"s2:{PORT}", "t2:8081"}


def test_undeclared_port_has_no_upstream(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s2"])
    node1, _ = mesh.both()
    assert mesh.refused(mesh.c1, VIP, 81)
    assert "no healthy upstream" in node1.wait_access(message="connection failed")[-1]["error"]


def test_service_without_endpoints(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT})
    node1, _ = mesh.both()
    assert mesh.refused(mesh.c1, VIP, 80)
    assert "no healthy upstream" in node1.wait_access(message="connection failed")[-1]["error"]


def test_unhealthy_endpoints(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s2", "t2"])
    mesh.world.workloads["t2"]["status"] = "Unhealthy"
    mesh.both()
    assert set(spread(mesh)) == {f"s2:{PORT}"}
    mesh.world.services["default", "web"]["loadBalancer"] = {
        "routingPreferences": [], "mode": "Standard", "healthPolicy": "AllowAll"}
    mesh.apply()
    assert set(spread(mesh)) == {f"s2:{PORT}", f"t2:{PORT}"}


def test_failover_prefers_the_nearest(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s1", "s2", "t2"], loadBalancer={
        "routingPreferences": ["Node"], "mode": "Failover", "healthPolicy": "OnlyHealthy"})
    mesh.both()
    assert set(spread(mesh)) == {f"s1:{PORT}"}
    assert set(spread(mesh, src=mesh.c2)) == {f"s2:{PORT}", f"t2:{PORT}"}
    mesh.world.workloads["s1"]["status"] = "Unhealthy"
    mesh.apply()
    assert set(spread(mesh)) == {f"s2:{PORT}", f"t2:{PORT}"}


def test_strict_refuses_rather_than_leave(banners):
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["s1", "s2"], loadBalancer={
        "routingPreferences": ["Node"], "mode": "Strict", "healthPolicy": "OnlyHealthy"})
    mesh.both()
    assert set(spread(mesh)) == {f"s1:{PORT}"}
    mesh.world.workloads["s1"]["status"] = "Unhealthy"
    mesh.apply()
    assert mesh.refused(mesh.c1, VIP, 80)


def test_locality_failover(banners):
    mesh = banners
    world = mesh.world
    world.service("web", [VIP], {80: PORT}, ["s1", "s2", "t2"], loadBalancer={
        "routingPreferences": ["Region", "Zone"], "mode": "Failover",
        "healthPolicy": "OnlyHealthy"})
    for name, region, zone in (("c1", "a", "1"), ("s1", "b", "1"), ("s2", "a", "2"),
                               ("t2", "a", "1")):
        world.workloads[name]["locality"] = {"region": region, "zone": zone, "subzone": ""}
    mesh.both()
    assert set(spread(mesh, 15)) == {f"t2:{PORT}"}
    world.workloads["t2"]["status"] = "Unhealthy"
    mesh.apply()
    assert set(spread(mesh, 15)) == {f"s2:{PORT}"}


def test_passthrough_goes_to_the_original_destination(banners):
    mesh = banners
    outside = mesh.topo.outside
    mesh.keep(traffic.EchoServer(outside, (outside.ip4, 80), b"outside "))
    mesh.world.service("ext", [outside.ip4], {80: PORT}, ["s2"], loadBalancer={
        "routingPreferences": [], "mode": "Passthrough", "healthPolicy": "OnlyHealthy"})
    mesh.both()
    assert set(spread(mesh, 3, dst=outside.ip4)) == {"outside"}


def test_cidr_vip_longest_prefix_wins(banners):
    mesh = banners
    mesh.world.service("wide", [], {80: PORT}, ["s2"],
                       cidrVips=[{"network": "", "cidr": "10.97.0.0/16"}])
    mesh.world.service("narrow", [], {80: PORT}, ["t2"],
                       cidrVips=[{"network": "", "cidr": "10.97.8.0/24"}])
    mesh.both()
    assert who(mesh, mesh.c1, "10.97.1.1") == f"s2:{PORT}"
    assert who(mesh, mesh.c1, "10.97.8.77") == f"t2:{PORT}"


def test_namespace_visibility(banners):
    """A service private to another namespace does not exist for this one."""
    mesh = banners
    outside = mesh.topo.outside
    mesh.keep(traffic.EchoServer(outside, (outside.ip4, 80), b"outside "))
    mesh.world.service("priv", [outside.ip4], {80: PORT}, {"s2": {80: PORT}}, namespace="other",
                       visibility="Namespace")
    mesh.both()
    assert who(mesh, mesh.c1, outside.ip4) == "outside"
    mesh.world.services["other", "priv"]["visibility"] = "Public"
    mesh.apply()
    assert who(mesh, mesh.c1, outside.ip4) == f"s2:{PORT}"


def test_shared_vip_prefers_own_namespace(banners):
    mesh = banners
    mesh.world.service("a", [VIP], {80: PORT}, {"t2": {80: PORT}}, namespace="other",
                       canonical=True)
    mesh.world.service("b", [VIP], {80: PORT}, ["s2"])
    mesh.both()
    assert set(spread(mesh, 10)) == {f"s2:{PORT}"}


def test_ipv6_vip(banners):
    mesh = banners
    for pod in (mesh.s2, mesh.t2):
        mesh.echo(pod, ip=pod.ip6, greeting=f"{pod.name}/6".ljust(8).encode())
    mesh.world.service("web", ["fd00:96::10", VIP], {80: PORT}, ["s2", "t2"])
    mesh.both()
    assert set(spread(mesh, 20, dst="fd00:96::10")) == {"s2/6", "t2/6"}
    assert set(spread(mesh, 20)) == {f"s2:{PORT}", f"t2:{PORT}"}


def test_ip_families_of_the_service(banners):
    """A VIP of one family may lead to endpoints of the other only."""
    mesh = banners
    mesh.world.service("web", ["fd00:96::10"], {80: PORT}, ["s2"], ipFamilies="IPv4")
    mesh.both()
    assert who(mesh, mesh.c1, "fd00:96::10") == f"s2:{PORT}"


@pytest.mark.tsan
def test_retry_on_another_endpoint(banners):
    """
    q2 takes no connection on 15008 at all. Whoever is sent there first is sent on to another
    endpoint; the reference would fail it.
    """
    mesh = banners
    mesh.world.service("web", [VIP], {80: PORT}, ["q2", "s2"])
    mesh.both()
    assert set(spread(mesh, 20)) == {f"s2:{PORT}"}


def test_retry_of_plain_endpoints(banners):
    mesh = banners
    mesh.world.workloads["q2"]["protocol"] = "TCP"
    mesh.world.service("web", [VIP], {80: PORT}, ["q2", "u2"])
    mesh.both()
    assert set(spread(mesh, 20)) == {f"u2:{PORT}"}


def test_all_endpoints_down(banners):
    mesh = banners
    mesh.world.workloads["q2"]["protocol"] = mesh.world.workloads["w2"]["protocol"] = "TCP"
    mesh.world.service("web", [VIP], {80: PORT}, ["q2", "w2"])
    node1, _ = mesh.both()
    assert mesh.refused(mesh.c1, VIP, 80)
    assert node1.wait_access(direction="outbound")[-1]["error"]


def test_service_sans_are_accepted(mesh):
    """A server whose certificate carries the service's extra name instead of the workload's."""
    other = "spiffe://cluster.local/ns/other/sa/frontend"
    mesh.world.service("web", [VIP], {80: PORT}, ["p2"])
    mesh.shared("node1")
    mesh.hbone_server(mesh.p2, identity=other)
    assert mesh.refused(mesh.c1, VIP, 80)
    mesh.world.services["default", "web"]["subjectAltNames"] = ["not-a-spiffe-id", other]
    mesh.apply()
    mesh.roundtrip(mesh.c1, VIP, 80)
