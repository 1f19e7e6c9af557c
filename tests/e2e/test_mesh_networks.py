# SPDX-License-Identifier: Apache-2.0
"""
Two clusters on two networks that reach each other through an east-west gateway only, by objects alone: each has an
embedded API and a control plane of its own, both authorities have one root.

The gateway is foreign: it ends the outer tunnel, looks the service up by its authority and passes bytes on to port 15008
of an endpoint, without touching the TLS inside.
"""
import base64
import contextlib
import json
import shutil

import pytest
from harness.control import need_kubectl
from harness.hbone_peer import ForwardApp
from harness.mesh import PORT
from harness.wait import until
from test_mesh_whole import Whole, served

GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces/istio-system/gateways"
HOST = "db.shop.svc.cluster.local:80"

WALL = """
table inet e2e_wall {
    set doors { type ipv4_addr; }
    chain forward {
        type filter hook forward priority 0; policy accept;
        ct state established,related accept
        ip daddr @doors tcp dport 15008 accept
        ip saddr 10.0.1.0/24 ip daddr 10.0.2.0/24 reject
        ip saddr 10.0.2.0/24 ip daddr 10.0.1.0/24 reject
    }
}
"""


@contextlib.contextmanager
def walled(mesh, *doors):
    """Nothing passes between the nodes' pods but to the doors."""
    nodes = [mesh.topo.nodes[n] for n in ("node1", "node2")]
    try:
        for n in nodes:
            n.run("nft", "-f", "-", stdin=WALL)
            n.run("nft", "add", "element", "inet", "e2e_wall", "doors", "{" + ",".join(d.ip4 for d in doors) + "}")
        yield
    finally:
        for n in nodes:
            n.run("nft", "delete", "table", "inet", "e2e_wall", check=False)


def metadata(name, network=None, **labels):
    if network:
        labels["topology.istio.io/network"] = network
    return {"name": name, "namespace": "istio-system", "labels": labels}


class Cluster(Whole):
    def __init__(self, mesh, binary, directory, node, network):
        self.name, self.network = f"c-{network}", network
        directory.mkdir()
        shutil.copytree(mesh.ca.dir, directory / "ca")
        super().__init__(mesh, binary, directory, "--ca-dir", str(directory / "ca"), "--cluster-id", self.name,
                         "--mesh-clusters", node_flags=("--network", network, "--cluster-id", self.name), nodes=(node,))
        self.node = self.nodes[0]
        self.api.kubectl("label", "namespace", "istio-system", f"topology.istio.io/network={network}")

    def service(self, **labels):
        self.apply({"apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": "db", "namespace": "shop", "labels": labels},
                    "spec": {"selector": {"app": "db"}, "ports": [{"port": 80, "targetPort": PORT}]}})
        return self.api.get("/api/v1/namespaces/shop/services/db").json["spec"]["clusterIP"]

    def gateway(self, name, cls, network, *addresses):
        """A Gateway that says it is there, as whoever deployed it does."""
        tls = {"tls": {"mode": "Terminate", "options": {"gateway.istio.io/tls-terminate-mode": "ISTIO_MUTUAL"}}}
        self.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                    "metadata": metadata(name, network) | {"annotations": {"gateway.istio.io/service-account": "ew"}},
                    "spec": {"gatewayClassName": cls,
                             "listeners": [{"name": "mesh", "port": 15008, "protocol": "HBONE", **tls}]}})
        self.addresses(name, *addresses)

    def addresses(self, name, *addresses):
        a = self.api.patch(f"{GATEWAYS}/{name}/status", {"status": {
            "addresses": [{"type": "IPAddress", "value": x} for x in addresses]}})
        assert a.status == 200, a

    def knows(self, other):
        """A remote secret, as 'istioctl create-remote-secret' writes it."""
        config = base64.b64encode(other.api.kubeconfig.read_bytes()).decode()
        self.apply({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {other.name: config},
                    "metadata": metadata("remote", **{"istio/multiCluster": "true"})})

    def metric(self, kind):
        text = self.api.get("/metrics").body.decode()
        found = [line for line in text.splitlines() if line.startswith(f'spanwire_mesh_objects{{kind="{kind}"}}')]
        return int(found[0].split()[-1]) if found else None


@pytest.fixture
def two(mesh, binary, tmp_path):
    need_kubectl()
    clusters = []
    with walled(mesh, mesh.w2, mesh.q2):
        try:
            clusters.append(Cluster(mesh, binary, tmp_path / "east", "node1", "n1"))
            clusters.append(Cluster(mesh, binary, tmp_path / "west", "node2", "n2"))
            yield clusters
        finally:
            for c in clusters:
                c.close()


def door(mesh, at, target, app=None):
    """An east-west gateway in front of one endpoint."""
    def where(stream):
        if stream.authority != HOST:
            raise OSError(f"no service {stream.authority}")
        return (target.ip4, 15008)
    at.ip("neigh flush dev eth0")  # an earlier pod may have had the address
    return mesh.hbone_server(at, app or ForwardApp(at, where),
                             identity="spiffe://cluster.local/ns/istio-system/sa/ew")


def refusals(node):
    return [e["error"] for e in node.z.access(direction="outbound") if e.get("error")]


def test_two_clusters_by_objects_alone(mesh, two):
    east, west = two
    web, db = east.node.join("web", 71), west.node.join("db", 72, labels={"app": "db"})
    mesh.echo(db)
    first = door(mesh, mesh.w2, db)
    assert not served(mesh, web, db), "the networks route to each other"
    vip = east.service(**{"istio.io/global": "true"})
    west.service(**{"istio.io/global": "true"})
    west.gateway("ew", "istio-east-west", "n2", mesh.w2.ip4)
    assert not served(mesh, web, vip, 80)
    east.knows(west)
    until(lambda: served(mesh, web, vip, 80), what="web to reach db through the gateway")
    assert {s.authority for s in first.streams} == {HOST}
    line = west.node.z.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == "spiffe://cluster.local/ns/shop/sa/web", line
    assert line["dst.service"] == "db.shop.svc.cluster.local", line
    assert east.metric("clusters") == 1 and east.metric("remote_workloads") >= 1
    assert east.metric("networks_without_gateway") == 0

    # A second gateway; the first one dies.
    west.addresses("ew", mesh.w2.ip4, mesh.q2.ip4)
    second = door(mesh, mesh.q2, db)

    def through_second():
        return served(mesh, web, vip, 80) and second.streams
    until(through_second, what="the second gateway to be used")
    first.stop()
    for _ in range(10):
        mesh.roundtrip(web, vip, 80)

    # Endpoints of both sides: those of the own network too.
    near = east.node.join("near", 73, labels={"app": "db"})
    mesh.echo(near)
    until(lambda: served(mesh, web, vip, 80) and any(
        e["dst.workload"] == "near" for e in east.node.z.access(direction="outbound") if not e.get("error")),
        what="the endpoint of the own network")
    seen = len(second.streams)
    until(lambda: served(mesh, web, vip, 80) and len(second.streams) > seen, what="the far one again")
    east.api.delete("/api/v1/namespaces/shop/pods/near")

    # No gateway any more, and the reason is said on both sides.
    west.addresses("ew")
    until(lambda: east.metric("networks_without_gateway") == 1, what="the control plane to see it")
    until(lambda: mesh.refused(web, vip, 80), what="the connection to be refused")
    until(lambda: any("no healthy upstream" in e for e in refusals(east.node)), what="the reason")
    west.addresses("ew", mesh.q2.ip4)
    until(lambda: served(mesh, web, vip, 80), what="the gateway to be back")

    # Not GLOBAL there: nobody here sees it. Then the cluster leaves.
    west.service(**{"istio.io/global": "false"})
    until(lambda: not served(mesh, web, vip, 80), what="a LOCAL service to be out of sight")
    west.service(**{"istio.io/global": "true"})
    until(lambda: served(mesh, web, vip, 80), what="a GLOBAL service")
    east.api.delete("/api/v1/namespaces/istio-system/secrets/remote")
    until(lambda: not served(mesh, web, vip, 80), what="the cluster to be gone")
    assert east.metric("clusters") == 0


def test_a_workload_of_another_network_by_an_entry(mesh, two):
    """No other cluster is read: a WorkloadEntry says where, a Gateway of class istio-remote says through what."""
    east, west = two
    web, db = east.node.join("web", 71), west.node.join("db", 72, labels={"app": "db"})
    mesh.echo(db)
    west.service()
    vip = east.service()
    east.apply({"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry",
                "metadata": {"name": "db", "namespace": "shop", "labels": {"app": "db"}},
                "spec": {"address": db.ip4, "network": "n2", "serviceAccount": "db"}})
    until(lambda: mesh.refused(web, vip, 80) and any("on another network without a gateway" in e
                                                     for e in refusals(east.node)), what="the reason")
    east.gateway("far", "istio-remote", "n2", mesh.w2.ip4)
    gate = door(mesh, mesh.w2, db)
    until(lambda: served(mesh, web, vip, 80), what="web to reach db through the gateway")
    assert {s.authority for s in gate.streams} == {HOST}
    until(lambda: any(e.get("dst.service") == "db.shop.svc.cluster.local" and not e.get("error")
                      for e in east.node.z.access(direction="outbound")), what="the line of the connection")

    # Another account than the entry's is not the service.
    a = east.api.patch("/apis/networking.istio.io/v1/namespaces/shop/workloadentries/db",
                       {"spec": {"serviceAccount": "other"}})
    assert a.status == 200, a
    until(lambda: mesh.refused(web, vip, 80), what="the wrong identity to be refused")
    # Nor is a gateway of another account the gateway.
    a = east.api.patch("/apis/networking.istio.io/v1/namespaces/shop/workloadentries/db",
                       {"spec": {"serviceAccount": "db"}})
    until(lambda: served(mesh, web, vip, 80), what="the right one again")
    a = east.api.patch(f"{GATEWAYS}/far", {"metadata": {"annotations": {"gateway.istio.io/service-account": "else"}}})
    assert a.status == 200, a
    until(lambda: mesh.refused(web, vip, 80), what="the wrong gateway to be refused")


@pytest.mark.parametrize("config,reason", [
    ("nonsense", "c-n2"), ("files", "names files"), ("itself", "this cluster"), ("gone", None)])
def test_secrets_that_name_no_cluster(mesh, two, config, reason):
    """Refused with a line and a count; what else is there goes on."""
    east, west = two
    web, near = east.node.join("web", 71), east.node.join("near", 73, labels={"app": "db"})
    mesh.echo(near)
    vip = east.service(**{"istio.io/global": "true"})
    text = west.api.kubeconfig.read_text()
    key = "c-n1" if config == "itself" else "c-n2"
    if config == "nonsense":
        text = "{"
    elif config == "files":
        text = json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                           "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                           "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                           "users": [{"name": "u", "user": {"tokenFile": "/etc/passwd"}}]})
    elif config == "gone":
        west.api.close()
    east.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("remote", **{"istio/multiCluster": "true"}),
                "data": {key: base64.b64encode(text.encode()).decode()}})
    if reason:
        until(lambda: reason in east.api.log() and 'spanwire_mesh_refusals_total{what="cluster"} 1' in
              east.api.get("/metrics").body.decode(), what="the refusal")
    until(lambda: served(mesh, web, vip, 80), what="the own cluster's service")


