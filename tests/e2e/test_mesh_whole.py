# SPDX-License-Identifier: Apache-2.0
"""
The whole mesh with no file but objects: the embedded API, its control plane and certificate authority, an agent and a
node proxy on each of two nodes, pods attached by the plugin.
"""
import contextlib
import json
import shutil
import subprocess
from concurrent import futures

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from harness import traffic
from harness.cni import MODE, Rig
from harness.control import Control, find_kubectl, need_kubectl
from harness.dns import KDIG
from harness.mesh import PORT
from harness.mesh_port import UNAUTHENTICATED, answers, ask
from harness.ports import free_port
from harness.resolver import Resolver
from harness.wait import GUARD, SLOW, until
from test_lifecycle import LONG, Load
from test_mesh_authority import aged_root
from test_mesh_ca import certificates, parsed
from test_mesh_dns import ask as dig
from test_mesh_dns import records

CONTROL = "172.172.0.254"
SHOP = "svc.cluster.local"
SECRET = b"open-sesame-" * 20
SECURITY = "security.istio.io/v1"


def path_of(api, version, kind, name, namespace):
    """The path of an object, by what the API says of its kind."""
    top = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    [r] = [r for r in api.get(top).json["resources"] if r["kind"] == kind and "/" not in r["name"]]
    return f"{top}/namespaces/{namespace}/{r['name']}/{name}" if r["namespaced"] else f"{top}/{r['name']}/{name}"


def apply(api, *objects):
    """As users do: manifests and kubectl. Where there is none, the requests that it would make."""
    if find_kubectl():
        api.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in objects))
        return
    for o in objects:
        path = path_of(api, o["apiVersion"], o["kind"], o["metadata"]["name"], o["metadata"].get("namespace"))
        a = api.patch(path, o, "apply", "?fieldManager=kubectl")
        assert a.status in (200, 201), a


def remove(api, version, kind, name, *flags):
    """An object of the shop."""
    if find_kubectl():
        api.kubectl("delete", "-n", "shop", kind.lower(), name, *flags)
        return
    a = api.delete(f"{path_of(api, version, kind, name, 'shop')}?gracePeriodSeconds=0")
    assert a.status == 200, a


def named(version, kind, name, namespace="shop", **fields):
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields}


class Node(Rig):
    """A node whose proxy knows what the control plane says, and nothing else."""

    def known(self, box):
        pass

    def create(self, *objects):
        apply(self.api, *objects)

    def crowd(self, names, host, account):
        """Many pods at once, with addresses from 'host' on, made as a controller makes them: kubectl would take longer
        than all else here."""
        def make(i):
            box = self.sandbox(names[i], host + i)
            super(Node, self).create(self.manifest(box, serviceAccountName=account))
            box.uid = self.api.get(box.path_api).json["metadata"]["uid"]
            return box
        with futures.ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(make, range(len(names))))

    def up(self, whole):
        """The proxy runs as a pod of its node, with a token bound to it and the roots of a ConfigMap."""
        name = f"ztunnel-{self.node.name}"
        path = "/api/v1/namespaces/istio-system"
        self.create(named("v1", "Pod", name, "istio-system", spec={
            "serviceAccountName": "ztunnel", "nodeName": self.node.name, "containers": [{"name": "z", "image": "z"}]}))
        uid = self.api.get(f"{path}/pods/{name}").json["metadata"]["uid"]
        token = self.api.post(f"{path}/serviceaccounts/ztunnel/token", {"spec": {
            "audiences": ["istio-ca"], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name,
                                                          "uid": uid}}})
        assert token.status == 201, token
        self.token = whole.dir / f"{name}.token"
        self.token.write_text(token.json["status"]["token"], encoding="ascii")
        self.start()
        self.settings = ["--xds-address", f"https://{CONTROL}:{whole.port}", "--xds-root", str(whole.roots),
                         "--ca-address", f"https://{CONTROL}:{whole.port}", "--ca-root", str(whole.roots),
                         "--auth-token", str(self.token), *whole.node_flags]
        self.z = self.another()
        return self

    def another(self, **kw):
        """A process of the proxy, which takes over from one that runs."""
        return self.proxy(*self.settings, without=("--local-xds", "--local-ca"), env={
            "POD_NAME": f"ztunnel-{self.node.name}", "POD_NAMESPACE": "istio-system"}, **kw)

    def join(self, name, host, **kw):
        """A pod that the runtime made, attached and running."""
        self.create(named("v1", "ServiceAccount", name))
        box = self.pod(name, host, **kw)
        self.running(box)
        self.add(box)
        self.enabled(box)
        return box


class Whole:
    def __init__(self, mesh, binary, directory, *flags, node_flags=(), nodes=("node1", "node2")):
        self.mesh, self.dir, self.node_flags = mesh, directory, node_flags
        self.port = free_port()
        self.api = Control(binary, directory / "control", "--gateway=false", "--connector=false", "--mesh-listen",
                           f"{CONTROL}:{self.port}", "--mesh-name", CONTROL, *flags)
        shop = named("v1", "Namespace", "shop", None)
        shop["metadata"]["labels"] = {MODE: "ambient"}
        self.apply(named("v1", "Namespace", "istio-system", None), shop,
                   named("v1", "ServiceAccount", "ztunnel", "istio-system"))
        self.roots = directory / "root-cert.pem"
        until(self.mount_roots, what="the roots in a ConfigMap")
        self.nodes = [Node(mesh, binary, directory, name, self.api) for name in nodes]
        for n in self.nodes:
            n.up(self)

    def mount_roots(self):
        """As a kubelet mounts the ConfigMap; returns how many roots there are."""
        a = self.api.get("/api/v1/namespaces/istio-system/configmaps/istio-ca-root-cert")
        if a.status != 200:
            return 0
        text = a.json["data"]["root-cert.pem"]
        if not self.roots.exists() or self.roots.read_text() != text:
            new = self.dir / "root-cert.new"
            new.write_text(text)
            new.rename(self.roots)
        return text.count("BEGIN CERTIFICATE")

    def mount_crl(self, where):
        """An optional ConfigMap as a kubelet mounts it: an empty directory until there is one, then links to it."""
        a = self.api.get("/api/v1/namespaces/istio-system/configmaps/istio-ca-crl")
        where.mkdir(exist_ok=True)
        if a.status != 200 or (where / "..data").exists():
            return a.status == 200
        (where / "..1").mkdir()
        for name, text in a.json["data"].items():
            (where / "..1" / name).write_text(text)
        (where / "..data_tmp").symlink_to("..1")
        (where / "..data_tmp").rename(where / "..data")
        for name in a.json["data"]:
            (where / name).symlink_to(f"..data/{name}")
        return True

    def apply(self, *objects):
        apply(self.api, *objects)

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


def synced(node):
    return node.z.metrics().sum("spanwire_xds_connected") == 1


def test_pods_of_two_nodes_by_objects_alone(whole):
    mesh, (one, two) = whole.mesh, whole.nodes
    web, db = one.join("web", 71), two.join("db", 72, labels={"app": "db"})
    mesh.echo(db)
    until(lambda: served(mesh, web, db), what="web to reach db")
    wire = mesh.keep(traffic.Wire(mesh.topo.fabric, "node2"))
    with traffic.connect(web, (db.ip4, PORT)) as sock:
        sock.sendall(SECRET)
        assert traffic.read_exact(sock, len(SECRET)) == SECRET
    ports, seen = wire.seen()
    assert 15008 in ports and PORT not in ports and SECRET[:12] not in seen
    line = one.z.wait_access(direction="outbound")[-1]
    assert line["src.identity"] == "spiffe://cluster.local/ns/shop/sa/web", line
    assert line["dst.identity"] == "spiffe://cluster.local/ns/shop/sa/db", line
    line = two.z.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == "spiffe://cluster.local/ns/shop/sa/web", line

    # A Service with a selector: slices, addresses and ports follow from the objects.
    whole.apply(named("v1", "Service", "db", spec={"selector": {"app": "db"}, "ports": [{"port": 80, "targetPort": PORT}]}))
    vip = whole.api.get("/api/v1/namespaces/shop/services/db").json["spec"]["clusterIP"]
    until(lambda: served(mesh, web, vip, 80), what="the Service to be served")

    # Policies change live, for open connections too.
    kept = mesh.connect(web, db)
    traffic.echo_once(kept)
    whole.apply(named(SECURITY, "AuthorizationPolicy", "no-web", spec={
        "selector": {"matchLabels": {"app": "db"}}, "action": "DENY",
        "rules": [{"from": [{"source": {"principals": ["cluster.local/ns/shop/sa/web"]}}]}]}))
    until(lambda: not served(mesh, web, db), what="the policy to be enforced")
    assert traffic.ended(kept)
    remove(whole.api, SECURITY, "AuthorizationPolicy", "no-web")
    until(lambda: served(mesh, web, db), what="the policy to be gone")

    # Plain text from outside of the mesh, until it is STRICT.
    until(lambda: served(mesh, mesh.topo.outside, db), what="plain text to be let in")
    whole.apply(named(SECURITY, "PeerAuthentication", "default", spec={"mtls": {"mode": "STRICT"}}))
    until(lambda: not served(mesh, mesh.topo.outside, db), what="STRICT to be enforced")
    assert served(mesh, web, db)

    # The control plane is killed: what is open goes on, new connections are served; back again it is obeyed.
    kept = mesh.connect(web, db)
    traffic.echo_once(kept)
    load = Load(mesh, web, db)
    try:
        load.more()
        whole.api.stop(kill=True)
        until(lambda: not any(synced(n) for n in whole.nodes), what="the nodes to see the loss")
        load.more(100)
        traffic.echo_once(kept)
        whole.api.restart()
        until(lambda: all(synced(n) for n in whole.nodes), what="the nodes to be connected again")
        load.more(100)
    finally:
        load.stop()
    assert load.errors == []
    remove(whole.api, SECURITY, "PeerAuthentication", "default")
    until(lambda: served(mesh, mesh.topo.outside, db), what="plain text to be let in again")
    traffic.echo_once(kept)


def test_churn_breaks_nothing_unrelated(whole):
    """500 pods are attached, used and deleted beside 100 connections; addresses are used again by the next ones."""
    mesh, (one, two) = whole.mesh, whole.nodes
    web, db = one.join("web", 71), two.join("db", 72)
    mesh.echo(db)
    until(lambda: served(mesh, web, db), what="web to reach db")
    kept = [mesh.connect(web, db) for _ in range(100)]
    for sock in kept:
        traffic.echo_once(sock)
    whole.apply(named("v1", "ServiceAccount", "crowd"))
    for batch in range(20):
        node = whole.nodes[batch % 2]
        boxes = node.crowd([f"p{batch}-{i}" for i in range(25)], 100, "crowd")
        calls = [node.call("ADD", box, wait=False) for box in boxes]
        assert [node.result(c)[0] for c in calls] == [0] * 25, node.log()[-3000:]
        for box in boxes:
            node.running(box)
        box = boxes[batch]
        server = traffic.EchoServer(box, (box.ip4, PORT))
        until(lambda b=box: served(mesh, web, b), what=f"web to reach {box.name}")
        server.stop()
        one.z.wait_access(direction="outbound", **{"src.workload": "web", "dst.workload": box.name})
        for sock in kept[batch::20]:
            traffic.echo_once(sock)
        for box in boxes:
            assert whole.api.delete(f"{box.path_api}?gracePeriodSeconds=0").status == 200
        calls = [node.call("DEL", box, wait=False) for box in boxes]
        assert [node.result(c)[0] for c in calls] == [0] * 25, node.log()[-3000:]
        for box in boxes:
            node.removed(box)
    for node in whole.nodes:
        until(lambda z=node.z: not [w for w in z.config_dump()["workloads"] if w["name"].startswith("p")],
              what="the proxy to have no pod of the crowd")
    for sock in kept:
        traffic.echo_once(sock)


def certificate(node, box):
    return certificates(node)[f"spiffe://cluster.local/ns/shop/sa/{box.name}"]


def chained(node, box, root):
    """The certificate of a pod is signed by this root."""
    leaf = parsed(certificate(node, box)["certChain"][0])
    with contextlib.suppress(InvalidSignature):
        root.public_key().verify(leaf.signature, leaf.tbs_certificate_bytes, ec.ECDSA(leaf.signature_hash_algorithm))
        return True
    return False


def test_root_and_node_change_under_traffic(mesh, binary, tmp_path):
    """
    A root near its end is followed by a second one without a command: announced, used, and the first forgotten by
    command; then a node's process is replaced. No connection fails.
    """
    old = aged_root(tmp_path / "ca")
    whole = Whole(mesh, binary, tmp_path, "--ca-dir", str(tmp_path / "ca"), "--ca-rotate-wait", "30s",
                  node_flags=("--secret-ttl", "16s", "--drain", LONG))
    load = None
    try:
        one, two = whole.nodes
        web, db = one.join("web", 71), two.join("db", 72)
        mesh.echo(db)
        until(lambda: served(mesh, web, db), what="web to reach db")
        kept = mesh.connect(web, db)
        traffic.echo_once(kept)
        load = Load(mesh, web, db)
        load.more()
        ca = tmp_path / "ca"

        def rotate(*flags):
            return subprocess.run([binary, "cert", "rotate", "--dir", str(ca), *flags], check=True, text=True,
                                  capture_output=True, timeout=GUARD * SLOW).stdout
        until(lambda: whole.mount_roots() == 2, what="both roots in the ConfigMap")
        until(lambda: (ca / "root.crt").read_text() != old, 60, "the new root to sign")
        new = x509.load_pem_x509_certificate((ca / "root.crt").read_bytes())
        until(lambda: chained(one.z, web, new) and chained(two.z, db, new), what="certificates of the new root")
        load.more()
        assert rotate("--now") == "forget\n"
        until(lambda: whole.mount_roots() == 1, what="the old root to be forgotten")
        until(lambda: all(len(certificate(n.z, p)["rootCerts"]) == 1 for n, p in ((one, web), (two, db))),
              what="the nodes to forget it, too")
        load.more()
        traffic.echo_once(kept)

        gone = two.z
        two.z = two.another(offset=100)
        load.more(10)
        gone.terminate()  # the pooled tunnel of the other node is told to go
        load.more(50)
        until(lambda: two.z.access(direction="inbound"), what="the new process to serve")
        load.stop()
        assert load.errors == []
        traffic.echo_once(kept)
        kept.close()
        assert gone.wait(GUARD) == 0
        assert served(mesh, web, db)
    finally:
        if load:
            load.stop()
        whole.close()


def test_nodes_on_demand(mesh, binary, tmp_path):
    """Nodes that know what they asked for: pods and Services when they are used, callers when they call, and nothing
    of what is gone."""
    whole = Whole(mesh, binary, tmp_path, node_flags=("--xds-on-demand", "true", "--dns", "false"))
    try:
        one, two = whole.nodes
        web, db, unused = one.join("web", 71), two.join("db", 72, labels={"app": "db"}), two.join("unused", 73)
        whole.apply(*(named("v1", "Service", name, spec={"selector": {"app": app}, "ports": [{"port": 80, "targetPort": PORT}]})
                      for name, app in (("db", "db"), ("other", "other"))))
        vip = whole.api.get("/api/v1/namespaces/shop/services/db").json["spec"]["clusterIP"]

        def known(node):
            dump = node.z.config_dump()
            return ({w["name"] for w in dump["workloads"] if w["namespace"] == "shop"},
                    {s["name"] for s in dump["services"] if s["namespace"] == "shop"})
        until(lambda: known(one) == ({"web"}, set()) and known(two) == ({"db", "unused"}, set()),
              what="each node to know its own pods alone")
        mesh.echo(db)
        mesh.echo(web)
        # A Service, with its endpoints, by its address.
        until(lambda: served(mesh, web, vip, 80), what="the Service to be served")
        assert known(one) == ({"web", "db"}, {"db"})
        line = one.z.wait_access(direction="outbound")[-1]
        assert line["dst.identity"] == "spiffe://cluster.local/ns/shop/sa/db", line
        # The caller, which its node does not know, by name in the log of the callee's node.
        line = two.z.wait_access(direction="inbound")[-1]
        assert line["src.workload"] == "web" and line["src.identity"].endswith("/sa/web"), line
        # A pod, by its address; and a caller that no control plane knows.
        assert served(mesh, unused, web)
        assert "unused" in known(one)[0]
        assert served(mesh, mesh.topo.outside, db)
        # Policies hold for all that.
        whole.apply(named(SECURITY, "AuthorizationPolicy", "no-web", spec={
            "selector": {"matchLabels": {"app": "db"}}, "action": "DENY",
            "rules": [{"from": [{"source": {"principals": ["cluster.local/ns/shop/sa/web"]}}]}]}))
        until(lambda: not served(mesh, web, vip, 80), what="the policy to be enforced")
        assert served(mesh, unused, db)
        remove(whole.api, SECURITY, "AuthorizationPolicy", "no-web")
        until(lambda: served(mesh, web, vip, 80), what="the policy to be gone")
        # The pod is deleted; another has its address, and an identity of its own.
        remove(whole.api, "v1", "Pod", "db", "--force", "--grace-period=0", "--wait=false")
        assert two.call("DEL", db)[0] == 0
        two.removed(db)
        until(lambda: "db" not in known(one)[0], what="the pod to be forgotten")
        assert not served(mesh, web, vip, 80)
        again = two.join("again", 72, labels={"app": "db"})
        mesh.echo(again)
        until(lambda: served(mesh, web, vip, 80), what="the Service to be served by the new pod")
        assert known(one)[0] >= {"web", "again"} and "other" not in known(one)[1]
        line = one.z.wait_access(direction="outbound", **{"dst.workload": "again"})[-1]
        assert line["dst.identity"] == "spiffe://cluster.local/ns/shop/sa/again", line
    finally:
        whole.close()


def test_waypoint_labels_change_live(mesh, binary, tmp_path):
    """By kubectl: a Service's traffic goes through the waypoint that a label names, and past it without."""
    need_kubectl()
    shutil.copytree(mesh.ca.dir, tmp_path / "ca")  # so that a foreign waypoint can have a certificate
    whole = Whole(mesh, binary, tmp_path, "--ca-dir", str(tmp_path / "ca"))
    try:
        one, two = whole.nodes
        web, db = one.join("web", 71), two.join("db", 72, labels={"app": "db"})
        mesh.echo(db)
        way = mesh.hbone_server(mesh.w2, identity="spiffe://cluster.local/ns/shop/sa/way")
        meta = {"namespace": "shop"}
        whole.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "way", **meta}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "way", **meta, "labels": {
                "gateway.networking.k8s.io/gateway-name": "way", MODE: "none"}},
             "spec": {"serviceAccountName": "way", "nodeName": "node2", "containers": [{"name": "c", "image": "i"}]}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", **meta}, "spec": {
                "selector": {"app": "db"}, "ports": [{"port": 80, "targetPort": PORT}]}},
            {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "way", **meta},
             "spec": {"gatewayClassName": "istio-waypoint",
                      "listeners": [{"name": "mesh", "port": 15008, "protocol": "HBONE"}]}})
        status = {"phase": "Running", "podIP": mesh.w2.ip4, "podIPs": [{"ip": mesh.w2.ip4}],
                  "conditions": [{"type": "Ready", "status": "True"}]}
        a = whole.api.patch("/api/v1/namespaces/shop/pods/way/status", {"status": status})
        assert a.status == 200, a
        a = whole.api.patch("/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/way/status",
                            {"status": {"addresses": [{"type": "IPAddress", "value": mesh.w2.ip4}]}})
        assert a.status == 200, a
        vip = whole.api.get("/api/v1/namespaces/shop/services/db").json["spec"]["clusterIP"]
        until(lambda: served(mesh, web, vip, 80), what="the Service to be served")
        assert not way.streams

        def through():
            before = len(way.streams)
            return served(mesh, web, vip, 80) and len(way.streams) > before
        kept = mesh.connect(web, vip, 80)
        traffic.echo_once(kept)
        whole.api.kubectl("label", "-n", "shop", "service", "db", "istio.io/use-waypoint=way")
        until(through, what="traffic through the waypoint")
        assert way.streams[-1].authority == f"{vip}:80"
        traffic.echo_once(kept)
        whole.api.kubectl("label", "-n", "shop", "service", "db", "istio.io/use-waypoint=none", "--overwrite")
        until(lambda: not through() and served(mesh, web, vip, 80), what="traffic past the waypoint")
        whole.api.kubectl("label", "namespace", "shop", "istio.io/use-waypoint=way")
        whole.api.kubectl("label", "-n", "shop", "service", "db", "istio.io/use-waypoint-")
        until(through, what="traffic through the namespace's waypoint")
        whole.api.kubectl("label", "namespace", "shop", "istio.io/use-waypoint-")
        until(lambda: not through() and served(mesh, web, vip, 80), what="traffic past the waypoint again")
        traffic.echo_once(kept)

        # One that is not there: past it, or not at all where the namespace says so.
        def told(reason):
            items = whole.api.get("/api/v1/namespaces/shop/events").json["items"]
            return [e for e in items if e["reason"] == reason and e["involvedObject"]["name"] == "db"]
        whole.api.kubectl("label", "-n", "shop", "service", "db", "istio.io/use-waypoint=absent")
        until(lambda: told("WaypointBypassed"), what="an Event about the way past it")
        assert served(mesh, web, vip, 80)
        whole.api.kubectl("label", "namespace", "shop", "spanwire.dev/hold-for-waypoint=true")
        until(lambda: not served(mesh, web, vip, 80), what="traffic to be held")
        until(lambda: told("WaypointHoldsTraffic"), what="an Event about that")
        metrics = whole.api.get("/metrics").body.decode()
        assert 'spanwire_mesh_waypointless_services{traffic="held"} 1' in metrics, metrics
        whole.api.kubectl("label", "-n", "shop", "service", "db", "istio.io/use-waypoint=way", "--overwrite")
        until(through, what="traffic through the waypoint that is there")
    finally:
        whole.close()


def test_a_revoked_certificate_is_refused_by_every_node(mesh, binary, tmp_path):
    """A list beside the CA gets to the ConfigMap, the nodes' volume, and the connections of the pod it names."""
    shutil.copytree(mesh.ca.dir, tmp_path / "ca")
    volume = tmp_path / "crl"
    volume.mkdir()
    whole = Whole(mesh, binary, tmp_path, "--ca-dir", str(tmp_path / "ca"),
                  node_flags=("--crl", str(volume / "ca-crl.pem")))
    try:
        one, two = whole.nodes
        web, other, db = one.join("web", 71), one.join("other", 73), two.join("db", 72)
        mesh.echo(db)
        until(lambda: served(mesh, web, db) and served(mesh, other, db), what="both to reach db")
        kept, unrelated = mesh.connect(web, db), mesh.connect(other, db)
        for sock in (kept, unrelated):
            traffic.echo_once(sock)
        assert not whole.mount_crl(volume), "a list without anything revoked"
        serial = int(certificate(one.z, web)["certChain"][0]["serialNumber"])
        (tmp_path / "ca/ca-crl.new").write_bytes(mesh.ca.crl(serial))
        (tmp_path / "ca/ca-crl.new").rename(tmp_path / "ca/ca-crl.pem")
        until(lambda: whole.mount_crl(volume), what="the list in a ConfigMap")
        until(lambda: traffic.ended(kept), what="the end of the revoked pod's connection")
        assert not served(mesh, web, db)
        two.z.wait_log("peer certificate has been revoked")
        traffic.echo_once(unrelated)
        assert served(mesh, other, db)
    finally:
        whole.close()


def test_a_node_does_not_get_the_identity_of_another_nodes_pod(whole, tmp_path):
    one, two = whole.nodes
    one.join("web", 71)
    two.join("db", 72)
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)], check=True)
    csr = subprocess.run(["openssl", "req", "-new", "-key", str(key), "-subj", "/"], check=True, capture_output=True,
                         text=True).stdout

    def sign(node, account):
        step = {"do": "sign", "csr": csr, "ttl": 600, "token": node.token.read_text(),
                "identity": f"spiffe://cluster.local/ns/shop/sa/{account}"}
        [got] = answers(ask(f"{CONTROL}:{whole.port}", whole.roots, [step]), 1)
        return got["code"]
    assert sign(one, "web") == 0 and sign(two, "db") == 0
    assert sign(one, "db") == UNAUTHENTICATED and sign(two, "web") == UNAUTHENTICATED
    assert "no pod with that identity runs on its node 'node1'" in whole.api.log()


@pytest.mark.skipif(not KDIG, reason="kdig is not installed")
def test_names_of_objects(mesh, binary, tmp_path):
    """What Services and ServiceEntries make of the rows of the node's DNS proxy, asked by kdig in a pod."""
    resolver = mesh.keep(Resolver(mesh.u2, mesh.u2.ip4, **{"outside.example.net": ["198.51.100.1"],
                                                           "passed.example.com": ["198.51.100.2"]}))
    conf = tmp_path / "resolv.conf"
    conf.write_text(f"nameserver {mesh.u2.ip4}\n")
    whole = Whole(mesh, binary, tmp_path, node_flags=("--dns-resolv-conf", str(conf)))
    try:
        web = whole.nodes[0].join("web", 71, labels={"app": "web"})
        other = whole.nodes[1].join("other", 72, labels={"app": "web"})
        services = "/api/v1/namespaces/shop/services"
        entries = "/apis/networking.istio.io/v1/namespaces/shop/serviceentries"
        port = [{"port": 80, "targetPort": PORT}]
        made = {}
        for name, spec in (("web", {}), ("crowd", {"clusterIP": "None"})):
            a = whole.api.post(services, {"metadata": {"name": name}, "spec": {
                "selector": {"app": "web"}, "ports": port, **spec}})
            assert a.status == 201, a
            made[name] = a.json["spec"]["clusterIP"]
        for name, spec in (("fixed", {"hosts": ["fixed.example.com"], "addresses": ["240.9.0.1"]}),
                           ("given", {"hosts": ["given.example.com"]}),
                           ("wild", {"hosts": ["*.wild.example.com"], "addresses": ["240.9.0.2"]}),
                           ("passed", {"hosts": ["passed.example.com"], "resolution": "NONE"})):
            a = whole.api.post(entries, {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
                                         "metadata": {"name": name}, "spec": {
                "resolution": "DNS", "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}], **spec}})
            assert a.status == 201, a
        vip = made["web"]
        given = until(lambda: whole.api.get(f"{entries}/given").json.get("status", {}).get("addresses"), GUARD,
                      "an address of the entry")
        four = [g["value"] for g in given if "." in g["value"]]

        def say(name, kind="A", *more):
            reply = dig(web, name + ".", kind, *more)
            return reply.status, records(reply, kind), records(reply, "CNAME")

        rows = [
            (f"web.shop.{SHOP}", [vip], []), ("web", [vip], []), ("web.shop", [vip], []), ("web.shop.svc", [vip], []),
            (f"crowd.shop.{SHOP}", sorted([web.ip4, other.ip4]), []),
            ("fixed.example.com", ["240.9.0.1"], []), ("given.example.com", four, []),
            ("a.wild.example.com", ["240.9.0.2"], []),
            (f"fixed.example.com.shop.{SHOP}", ["240.9.0.1"], ["fixed.example.com."]),
            (f"fixed.example.com.{SHOP}", ["240.9.0.1"], ["fixed.example.com."]),
            ("fixed.example.com.cluster.local", ["240.9.0.1"], ["fixed.example.com."]),
            ("outside.example.net", ["198.51.100.1"], []), ("passed.example.com", ["198.51.100.2"], []),
        ]
        for name, want, cname in rows:
            until(lambda n=name, w=want, c=cname: say(n) == ("NOERROR", w, c), GUARD, f"{name} as {want}")
        assert say("web", "A", "+tcp") == ("NOERROR", [vip], [])
        assert say(f"web.shop.{SHOP}", "AAAA") == ("NOERROR", [], [])
        assert not {"web", "fixed.example.com", f"web.shop.{SHOP}"} & set(resolver.names())
        # A name goes with its object, and then belongs to the resolver.
        assert whole.api.delete(f"{entries}/fixed").status == 200
        until(lambda: say("fixed.example.com")[1] == [], GUARD, "the name to be gone")
        assert "fixed.example.com" in resolver.names()
    finally:
        whole.close()


def test_status_shows_what_nodes_acknowledged(whole, binary):
    """Without a gateway, too: a line for each type of each node, when it was sent last, and the exit status."""
    def status(*flags):
        return subprocess.run([binary, "status", "--kubeconfig", str(whole.api.kubeconfig), *flags], text=True,
                              capture_output=True, timeout=GUARD * SLOW, check=False)

    def settled():
        done = status()
        lines = [line.split() for line in done.stdout.splitlines()]
        rows = [r for r in lines if r and r[0].startswith("ztunnel~")]
        return done.returncode == 0 and len(rows) == 4 and lines[0], rows
    until(lambda: settled()[0], what="both nodes to have both types")
    head, rows = settled()
    assert head[:8] == ["NODE", "ADDRESS", "TYPE", "STATE", "VERSION", "ACKS", "NACKS", "PUSHED"]
    assert sorted(r[2] for r in rows) == ["Address", "Address", "Authorization", "Authorization"]
    assert all(r[3] == "ACKED" and r[7][-1] in "smh" for r in rows), rows
    clients = json.loads(status("--json").stdout)["clients"]
    assert all(c["pushedSeconds"] <= c["connectedSeconds"] + 1 for c in clients)
