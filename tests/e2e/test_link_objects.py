# SPDX-License-Identifier: Apache-2.0
"""The controller of links on the embedded API: what Imports and Exports become, and that nodes of the mesh reach Imports."""
import ipaddress
import json
import os
import pathlib
import signal

import pytest
from harness.control import _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, until
from test_mesh_control import ADDRESSES, SERVICES, Mesh, decode

LINK = "clusterlink.net/v1alpha1"
SYSTEM = "clusterlink-system"
PLANE = "192.0.2.77"


class Link(Process):
    """The controller; a line for each change of its resources."""

    def __init__(self, binary, control, log, *argv):
        path = pathlib.Path(binary).parent / "tests/unit/control/link_driver"
        if not os.access(path, os.X_OK):
            pytest.skip(f"NO LINK TESTS: {path} is not built")
        super().__init__(_Here(), [str(path), str(control.kubeconfig), *argv], log)

    def lines(self, key):
        found = [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if key in line]

    def last(self):
        return (self.lines("clusters") or [{"clusters": [], "listeners": [], "secrets": []}])[-1]

    def end(self):
        self.signal(signal.SIGTERM)
        status = self.wait(GUARD)
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]
        assert status == 0, self.log()[-3000:]


class Site(Mesh):
    """A control plane with its controller of links, and a node's stream."""

    def __init__(self, binary, where, *argv):
        super().__init__(binary, where)
        self.link = Link(binary, self.control, where / "link.log", *argv)

    def path(self, kind, ns, name, api="v1", sub=""):
        plurals = {"AccessPolicy": "accesspolicies"}
        if kind not in plurals:
            return super().path(kind, ns, name, api, sub)
        return f"/apis/{api}/namespaces/{ns}/{plurals[kind]}/{name}{sub}"

    def imports(self, name, ns, **spec):
        self.apply("Import", name, ns, api=LINK, labels=spec.pop("labels", None), spec={
            "port": 80, "lbScheme": "round-robin", "sources": [
                {"peer": "east", "exportName": name, "exportNamespace": ns}], **spec})

    def state(self, kind, ns, name, which):
        return self.condition(kind, ns, name, LINK, which).get("status")

    def gone(self, kind, ns, name, api="v1"):
        return self.control.get(self.path(kind, ns, name, api)).status == 404

    def close(self):
        if self.link.alive:
            self.link.end()
        super().close()


@pytest.fixture
def site(request, binary, tmp_path):
    s = Site(binary, tmp_path, getattr(request, "param", "direct"), PLANE)
    s.apply("Namespace", "shop", None)
    yield s
    s.close()


def valid(s, ns, name, kind="Import"):
    which = ("ExportValid",) if kind == "Export" else ("ImportTargetPortValid", "ImportServiceValid")
    return all(s.state(kind, ns, name, w) == "True" for w in which)


def test_an_import_is_reached_by_its_name(site):
    """A Service in the Import's namespace with data planes as its endpoints: Address resources for nodes and their DNS."""
    site.imports("web", "shop")
    until(lambda: valid(site, "shop", "web"), what="the Import's conditions")
    port = site.get("Import", "shop", "web", LINK)["spec"]["targetPort"]
    assert 1024 <= port < 49152
    assert site.link.last()["listeners"] == ["import-shop/web"]
    svc = site.get("Service", "shop", "web")
    assert svc["spec"]["type"] == "ClusterIP" and "selector" not in svc["spec"], svc
    assert svc["spec"]["ports"][0]["targetPort"] == port
    assert svc["metadata"]["labels"]["clusterlink.net/import-namespace"] == "shop"
    site.connect()
    name = "shop/web.shop.svc.cluster.local"
    until(lambda: site.service(name), what="the Service as a resource of nodes")
    # What a node's DNS answers with: the hostname, and its address.
    assert site.service(name)[3] == [b"web.shop.svc.cluster.local"]
    assert ipaddress.ip_address(decode(site.service(name)[4][0])[2][0]) == ipaddress.ip_address(svc["spec"]["clusterIP"])
    planes = {k: site.workload(k) for k in site.have() if PLANE in k}
    assert len(planes) == 1, sorted(site.have())
    plane = next(iter(planes.values()))
    assert ipaddress.ip_address(plane[ADDRESSES][0]) == ipaddress.ip_address(PLANE)
    of = [decode(v) for v in plane[SERVICES]]
    assert [e[1][0].decode() for e in of] == [name]
    ports = decode(decode(of[0][2][0])[1][0])
    assert (ports[1][0], ports[2][0]) == (80, port)


def test_services_of_imports_are_kept(site):
    """Deleted or edited ones come back, foreign ones are never touched, and all go with the Import."""
    site.apply("Service", "taken", "shop", spec={"ports": [{"port": 1}]})
    before = site.get("Service", "shop", "taken")["metadata"]["resourceVersion"]
    for name in ("web", "taken"):
        site.imports(name, "shop")
    until(lambda: valid(site, "shop", "web"), what="the Import")
    until(lambda: site.state("Import", "shop", "taken", "ImportServiceValid") == "False", what="the conflict")
    assert "managed by ''" in site.condition("Import", "shop", "taken", LINK, "ImportServiceValid")["message"]
    assert site.get("Service", "shop", "taken")["metadata"]["resourceVersion"] == before
    uid = site.get("Service", "shop", "web")["metadata"]["uid"]
    assert site.control.delete("/api/v1/namespaces/shop/services/web").status == 200
    until(lambda: site.get("Service", "shop", "web").get("metadata", {}).get("uid", uid) != uid, what="a new Service")
    assert site.control.patch("/api/v1/namespaces/shop/services/web", {"spec": {"selector": {"app": "mine"}}}).status == 200
    until(lambda: "selector" not in site.get("Service", "shop", "web").get("spec", {"selector": 1}), what="no selector")
    assert site.control.delete("/api/v1/namespaces/shop/services/taken").status == 200
    until(lambda: valid(site, "shop", "taken"), what="the name is free")
    assert site.control.delete(f"/apis/{LINK}/namespaces/shop/imports/web").status == 200
    until(lambda: site.gone("Service", "shop", "web"), what="the Service gone")
    until(lambda: site.link.last()["listeners"] == ["import-shop/taken"], what="one listener left")
    slices = site.control.get("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices").json["items"]
    assert {s["metadata"]["labels"]["kubernetes.io/service-name"] for s in slices} == {"taken"}


@pytest.mark.parametrize("site", ["pair"], indirect=True)
def test_the_pair_of_clusterlink(site):
    """With DNS of a cluster: a Service of the system namespace, and an ExternalName in the Import's."""
    site.imports("iperf3-server", "default")
    until(lambda: valid(site, "default", "iperf3-server"), what="the Import")
    name = "import-iperf3-ser-default-d8454c071f23fa68160b0767f2f60240"
    port = site.get("Import", "default", "iperf3-server", LINK)["spec"]["targetPort"]
    svc = site.get("Service", SYSTEM, name)["spec"]
    assert svc["selector"] == {"app": "cl-dataplane"} and svc["ports"][0]["targetPort"] == port
    user = site.get("Service", "default", "iperf3-server")["spec"]
    assert (user["type"], user["externalName"]) == ("ExternalName", f"{name}.{SYSTEM}.svc.cluster.local")
    assert site.control.delete(f"/apis/{LINK}/namespaces/default/imports/iperf3-server").status == 200
    until(lambda: site.gone("Service", SYSTEM, name) and site.gone("Service", "default", "iperf3-server"), what="both gone")


def test_ports_are_leased_once(site):
    for name in ("one", "two"):
        site.imports(name, "shop", targetPort=3000)
    until(lambda: sorted(str(site.state("Import", "shop", n, "ImportTargetPortValid")) for n in ("one", "two"))
          == ["False", "True"], what="one winner")
    loser = "two" if site.state("Import", "shop", "one", "ImportTargetPortValid") == "True" else "one"
    winner = {"one": "two", "two": "one"}[loser]
    for which in ("ImportTargetPortValid", "ImportServiceValid"):
        assert f"Import '{winner}'" in site.condition("Import", "shop", loser, LINK, which)["message"]
    assert site.gone("Service", "shop", loser)
    site.imports(loser, "shop", targetPort=3001)
    until(lambda: valid(site, "shop", loser), what="another port heals it")
    assert valid(site, "shop", winner)


def test_exports_follow_their_services(site):
    site.apply("Export", "api", "shop", api=LINK, spec={"port": 80})
    site.apply("Export", "metadata", "shop", api=LINK, spec={"port": 80, "host": "169.254.169.254"})
    until(lambda: site.state("Export", "shop", "api", "ExportValid") == "False", what="no Service yet")
    until(lambda: "--link-export-host" in site.condition("Export", "shop", "metadata", LINK, "ExportValid").get("message", ""),
          what="the refusal of a host")
    site.apply("Service", "api", "shop", spec={"ports": [{"port": 80}]})
    until(lambda: valid(site, "shop", "api", "Export"), what="the Export")
    until(lambda: site.link.last()["clusters"] == ["export-shop/api"], what="its cluster, and no other")
    assert site.control.delete("/api/v1/namespaces/shop/services/api").status == 200
    until(lambda: site.state("Export", "shop", "api", "ExportValid") == "False", what="invalid again")
    until(lambda: site.link.last()["clusters"] == [], what="no cluster")


def test_peers_and_policies(site):
    """Heartbeats become status; a policy makes new facts, one that cannot be read an Event."""
    until(lambda: not site.gone("Namespace", None, SYSTEM), what="the system namespace")
    site.apply("Peer", "east", SYSTEM, api=LINK, spec={"gateways": [{"host": "192.0.2.1", "port": 443}]})
    until(lambda: site.state("Peer", SYSTEM, "east", "PeerReachable") == "True", what="the heartbeat's word")
    assert site.get("Peer", SYSTEM, "east", LINK)["status"]["labels"] == {"zone": "a"}
    until(lambda: site.link.last()["clusters"] == ["remote-peer-east"], what="its cluster")
    assert site.link.last()["secrets"] == ["certificate", "validation"]
    first = site.link.lines("facts")[-1]
    everybody = [{"workloadSelector": {}}]
    site.apply("AccessPolicy", "open", "shop", api=LINK, spec={"action": "allow", "from": everybody, "to": everybody})
    until(lambda: site.link.lines("facts")[-1] != first, what="new facts")
    site.apply("AccessPolicy", "bad", "shop", api=LINK, spec={"action": "perhaps", "from": everybody, "to": everybody})
    until(lambda: any(e["reason"] == "InvalidPolicy" for e in
                      site.control.get("/api/v1/namespaces/shop/events").json["items"]), what="an Event about the policy")
