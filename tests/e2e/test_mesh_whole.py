# SPDX-License-Identifier: Apache-2.0
"""
The whole mesh with no file but objects: the embedded API, its control plane and certificate authority, an agent and a
node proxy on each of two nodes, pods attached by the plugin.
"""
import pytest
from harness import traffic
from harness.cni import MODE, Rig
from harness.control import Control
from harness.mesh import PORT
from harness.ports import free_port
from harness.wait import until

CONTROL = "172.172.0.254"
POLICIES = "/apis/security.istio.io/v1/namespaces/shop"


class Node(Rig):
    """A node whose proxy knows what the control plane says, and nothing else."""

    def known(self, box):
        pass

    def up(self, port, directory):
        """The proxy runs as a pod of its node, with a token bound to it."""
        name = f"ztunnel-{self.node.name}"
        path = "/api/v1/namespaces/istio-system"
        a = self.api.post(f"{path}/pods", {"metadata": {"name": name}, "spec": {
            "serviceAccountName": "ztunnel", "nodeName": self.node.name, "containers": [{"name": "z", "image": "z"}]}})
        assert a.status == 201, a
        token = self.api.post(f"{path}/serviceaccounts/ztunnel/token", {"spec": {
            "audiences": ["istio-ca"], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name,
                                                          "uid": a.json["metadata"]["uid"]}}})
        assert token.status == 201, token
        secret = directory / f"{name}.token"
        secret.write_text(token.json["status"]["token"], encoding="ascii")
        self.start()
        root = str(self.api.data / "mesh-ca" / "root.crt")
        self.z = self.proxy("--xds-address", f"https://{CONTROL}:{port}", "--xds-root", root, "--ca-address",
                            f"https://{CONTROL}:{port}", "--ca-root", root, "--auth-token", str(secret),
                            without=("--local-xds", "--local-ca"),
                            env={"POD_NAME": name, "POD_NAMESPACE": "istio-system"})
        return self

    def join(self, name, host, **kw):
        """A pod that the runtime made, attached and running."""
        self.api.post("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": name}})
        box = self.pod(name, host, **kw)
        self.running(box)
        self.add(box)
        self.enabled(box)
        return box


class Whole:
    def __init__(self, mesh, binary, directory):
        self.mesh, self.dir = mesh, directory
        port = free_port()
        self.api = Control(binary, directory / "control", "--gateway=false", "--connector=false", "--mesh-listen",
                           f"{CONTROL}:{port}", "--mesh-name", CONTROL)
        for ns, labels in (("istio-system", {}), ("shop", {MODE: "ambient"})):
            assert self.api.post("/api/v1/namespaces", {"metadata": {"name": ns, "labels": labels}}).status == 201
        self.api.post("/api/v1/namespaces/istio-system/serviceaccounts", {"metadata": {"name": "ztunnel"}})
        self.nodes = [Node(mesh, binary, directory, name, self.api) for name in ("node1", "node2")]
        for n in self.nodes:
            n.up(port, directory)

    def close(self):
        for n in self.nodes:
            n.close()
        self.api.close()


@pytest.fixture
def whole(mesh, binary, tmp_path):
    w = Whole(mesh, binary, tmp_path)
    yield w
    w.close()


def served(mesh, box, to, port=PORT):
    try:
        mesh.roundtrip(box, to, port, 5)
        return True
    except (OSError, EOFError):
        return False


def test_pods_of_two_nodes_by_objects_alone(whole):
    mesh, (one, two) = whole.mesh, whole.nodes
    web, db = one.join("web", 71), two.join("db", 72, labels={"app": "db"})
    mesh.echo(db)
    until(lambda: served(mesh, web, db), what="web to reach db")
    line = one.z.wait_access(direction="outbound")[-1]
    assert line["src.identity"] == "spiffe://cluster.local/ns/shop/sa/web", line
    assert line["dst.identity"] == "spiffe://cluster.local/ns/shop/sa/db", line
    line = two.z.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == "spiffe://cluster.local/ns/shop/sa/web", line

    # A Service with a selector: slices, addresses and ports follow from the objects.
    a = whole.api.post("/api/v1/namespaces/shop/services", {"metadata": {"name": "db"}, "spec": {
        "selector": {"app": "db"}, "ports": [{"port": 80, "targetPort": PORT}]}})
    assert a.status == 201, a
    vip = a.json["spec"]["clusterIP"]
    until(lambda: served(mesh, web, vip, 80), what="the Service to be served")

    # Policies change live, for open connections too.
    kept = mesh.connect(web, db)
    traffic.echo_once(kept)
    deny = {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "no-web"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}, "action": "DENY",
                     "rules": [{"from": [{"source": {"principals": ["cluster.local/ns/shop/sa/web"]}}]}]}}
    assert whole.api.post(f"{POLICIES}/authorizationpolicies", deny).status == 201
    until(lambda: not served(mesh, web, db), what="the policy to be enforced")
    assert traffic.ended(kept)
    assert whole.api.delete(f"{POLICIES}/authorizationpolicies/no-web").status == 200
    until(lambda: served(mesh, web, db), what="the policy to be gone")

    # Plain text from outside of the mesh, until it is STRICT.
    until(lambda: served(mesh, mesh.topo.outside, db), what="plain text to be let in")
    strict = {"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": {"name": "default"},
              "spec": {"mtls": {"mode": "STRICT"}}}
    assert whole.api.post(f"{POLICIES}/peerauthentications", strict).status == 201
    until(lambda: not served(mesh, mesh.topo.outside, db), what="STRICT to be enforced")
    assert served(mesh, web, db)

    # The control plane is killed: what is open goes on, new connections are served; back again it is obeyed.
    kept = mesh.connect(web, db)
    traffic.echo_once(kept)
    whole.api.stop(kill=True)
    traffic.echo_once(kept)
    assert served(mesh, web, db)
    whole.api.restart()
    assert whole.api.delete(f"{POLICIES}/peerauthentications/default").status == 200
    until(lambda: served(mesh, mesh.topo.outside, db), what="plain text to be let in again")
    traffic.echo_once(kept)


def test_churn_breaks_nothing_unrelated(whole):
    mesh, (one, two) = whole.mesh, whole.nodes
    web, db = one.join("web", 71), two.join("db", 72)
    mesh.echo(db)
    until(lambda: served(mesh, web, db), what="web to reach db")
    kept = [mesh.connect(web, db) for _ in range(100)]
    for sock in kept:
        traffic.echo_once(sock)
    path = "/api/v1/namespaces/shop/pods"
    for i in range(500):
        a = whole.api.post(path, {"metadata": {"name": f"p{i}"}, "spec": {
            "nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}]}})
        assert a.status == 201, a
        ip = f"10.9.{i // 250}.{i % 250 + 1}"
        a = whole.api.patch(f"{path}/p{i}/status", {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}})
        assert a.status == 200, a
        if i >= 50:
            assert whole.api.delete(f"{path}/p{i - 50}?gracePeriodSeconds=0").status == 200
        if i % 50 == 0:
            traffic.echo_once(kept[i % 100])
    until(lambda: {w["name"] for w in one.z.config_dump()["workloads"] if w["name"].startswith("p")}
          == {f"p{i}" for i in range(450, 500)}, what="the node to know who is left")
    for sock in kept:
        traffic.echo_once(sock)
