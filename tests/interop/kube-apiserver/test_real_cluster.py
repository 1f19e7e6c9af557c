# SPDX-License-Identifier: Apache-2.0
"""
'spanwire control' and 'spanwire gateway' on a real kube-apiserver with the rights of deploy/kubernetes: older bundles of the
Gateway API, what is missing is said, revoked data planes are shut out, and 'spanwire status' finds the control planes.
"""
import copy
import http.client
import http.server
import json
import re
import subprocess
import threading

import pytest
import yaml
from conformance.suite import DataPlane
from harness.netns import run
from harness.ports import free_port
from harness.wait import GUARD, until
from real_api import NAMESPACE, RBAC, ROOT, RealApi
from replicas import SECRET, Replica, Service

BUNDLES = ROOT.parent / "shared/data/crds"
POOL, BACKEND, PAGES = "10.80.0.0/24", "10.80.0.50", "10.80.0.60"
GROUP = "gateway.networking.k8s.io"
SLOWLY = 60  # a real API server takes its time


class Backend(http.server.ThreadingHTTPServer):
    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass
        super().__init__((BACKEND, 0), Handler)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class World:
    """A cluster, its replicas and a data plane that reaches them through a Service."""

    def __init__(self, binary, where, peer):
        run("ip", "link", "set", "lo", "up")
        run("ip", "route", "replace", "local", POOL, "dev", "lo")
        self.binary, self.where = binary, where
        self.api = RealApi(peer, where / "api")
        self.api.apply_file(RBAC)
        self.replicas, self.plane, self.service, self.backend = [], None, None, Backend()

    def bundle(self, top):
        """The definitions of a bundle; returns {kind: newest version served}."""
        served = {}
        for path in sorted(top.glob("*.yaml")):
            self.api.apply_file(path)
            crd = next((d for d in yaml.safe_load_all(path.read_text(encoding="utf-8"))
                        if d and d["kind"] == "CustomResourceDefinition"), None)
            if not crd:
                continue
            names = [v["name"] for v in crd["spec"]["versions"] if v["served"]]
            served[crd["spec"]["names"]["kind"]] = "v1" if "v1" in names else names[-1]
            where = f"/apis/{crd['spec']['group']}/{names[0]}/{crd['spec']['names']['plural']}"
            until(lambda where=where: self.api.get(where).status == 200, SLOWLY, where)
        return served

    def replica(self, name="one", *flags):
        config = self.api.kubeconfig_of("spanwire-control", self.where / f"{name}.kubeconfig")
        r = Replica(self.binary, self.where, name, config, "--gateway-addresses", "127.0.0.1=127.0.0.1",
                    "--gateway-port-offset", "0", *flags)
        self.replicas.append(r)
        return r

    def data_plane(self):
        for r in self.replicas:
            until(r.ready, SLOWLY, f"{r.name} to be ready: {r.page('/ready')}")
        root = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SECRET}").json["data"]["ca.crt"]
        (self.where / "ca.crt").write_text(root, encoding="ascii")
        (self.where / "token").write_text(self.api.token("spanwire-gateway"), encoding="ascii")
        self.service = Service(self.replicas)
        self.plane = DataPlane(self.binary, self.where, None, self.service.address, ca=self.where / "ca.crt",
                               token=self.where / "token")
        until(lambda: any(r.clients() for r in self.replicas), SLOWLY, "the stream of the data plane")

    def routes(self, served, listeners):
        """A route of each kind that is served to a Service of another namespace; {listener: port} in."""
        def thing(kind, name, spec, namespace="default", version="v1"):
            return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name, "namespace": namespace},
                    "spec": spec}

        def route(kind):
            return thing(kind, kind.lower(), {
                "parentRefs": [{"name": "edge", "sectionName": kind.lower()}],
                "rules": [{"backendRefs": [{"name": "web", "namespace": "back", "port": 80}]}]}, version=served[kind])
        protocols = {"HTTPRoute": "HTTP", "TCPRoute": "TCP"}
        self.api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "back"}})
        self.api.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "back"},
             "spec": {"ports": [{"name": "main", "port": 80}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
             "metadata": {"name": "web-1", "namespace": "back", "labels": {"kubernetes.io/service-name": "web"}},
             "ports": [{"name": "main", "port": self.backend.port}],
             "endpoints": [{"addresses": [BACKEND], "conditions": {"ready": True}}]},
            {"apiVersion": f"{GROUP}/v1", "kind": "GatewayClass", "metadata": {"name": "sw"},
             "spec": {"controllerName": "spanwire.dev/gateway"}},
            thing("Gateway", "edge", {"gatewayClassName": "sw", "listeners": [
                {"name": k.lower(), "protocol": protocols[k], "port": port} for k, port in listeners.items()]}),
            *(route(kind) for kind in listeners),
            thing("ReferenceGrant", "g", {
                "from": [{"group": GROUP, "kind": k, "namespace": "default"} for k in listeners],
                "to": [{"group": "", "kind": "Service"}]}, "back", served["ReferenceGrant"]))

    def features(self):
        status = self.api.get(f"/apis/{GROUP}/v1/gatewayclasses/sw").json.get("status", {})
        return {f["name"] for f in status.get("supportedFeatures", ())}

    def condition(self, name):
        status = self.api.get(f"/apis/{GROUP}/v1/gatewayclasses/sw").json.get("status", {})
        return next((c for c in status.get("conditions", ()) if c["type"] == name), {}).get("status")

    def close(self):
        if self.plane:
            self.plane.signal(15)
            assert self.plane.wait(GUARD) == 0, self.plane.log()[-3000:]
        if self.service:
            self.service.close()
        for r in self.replicas:
            r.stop()
        self.backend.close()
        self.api.close()


@pytest.fixture(name="world")
def _world(binary, tmp_path, interop_dir, topology):
    del topology
    one = World(binary, tmp_path, interop_dir)
    yield one
    one.close()


def asks(port):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        link.request("GET", "/")
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        link.close()


@pytest.mark.parametrize("bundle", ["1.2.1/standard", "1.2.1/experimental", "1.5.1/standard", "1.5.1/experimental"])
def test_real_older_bundle_serves_traffic(world, bundle):
    top = BUNDLES / f"gateway-api-{bundle}"
    if not top.is_dir():
        pytest.skip(f"no definitions of bundle {bundle}")
    served = world.bundle(top)
    listeners = {k: free_port() for k in ("HTTPRoute", "TCPRoute") if k in served}
    world.routes(served, listeners)
    r = world.replica()
    world.data_plane()
    for kind, port in listeners.items():
        until(lambda port=port: asks(port) == 200, SLOWLY, f"traffic of the {kind} in {served[kind]}")
        path = f"/apis/{GROUP}/{served[kind]}/namespaces/default/{kind.lower()}s/{kind.lower()}"
        until(lambda path=path: {c["status"] for p in world.api.get(path).json.get("status", {}).get("parents", ())
                                 for c in p["conditions"]} == {"True"}, SLOWLY, f"the status of the {kind}")
    until(lambda: world.condition("SupportedVersion") == "True", SLOWLY, "the class's condition")
    claimed = {f for f in world.features() if f in ("TCPRoute", "UDPRoute", "TLSRoute", "ListenerSet", "BackendTLSPolicy")}
    assert claimed <= set(served), (claimed, served)
    # Statuses with fields that the older schema does not have are not written over and over.
    until(lambda: json.loads(r.page("/debug/xds")[1])["controllers"]["gateway"]["leading"], SLOWLY, "the lead")
    assert "write rate limit reached" not in r.log() and "orbidden" not in r.log(), r.log()[-3000:]


def test_real_newer_bundle_is_picked_up(world):
    """Definitions are installed, then upgraded, under a control plane that runs."""
    old, new = BUNDLES / "gateway-api-1.2.1/experimental", ROOT / "schemas" / GROUP
    if not old.is_dir():
        pytest.skip("no definitions of bundle 1.2.1")
    r = world.replica()
    until(lambda: "does not serve" in r.page("/ready")[1], SLOWLY, "words about the kinds")
    served = world.bundle(old)
    until(r.ready, SLOWLY, "the control plane to be ready")
    listeners = {"TCPRoute": free_port()}
    world.routes(served, listeners)
    world.data_plane()
    until(lambda: asks(listeners["TCPRoute"]) == 200, SLOWLY, "traffic")
    assert "ListenerSet" not in world.features()
    served = world.bundle(new)
    assert served["TCPRoute"] == "v1"
    until(lambda: "ListenerSet" in world.features(), 2 * SLOWLY, "the feature of the new kind")
    assert asks(listeners["TCPRoute"]) == 200


def test_real_ready_names_the_missing_rights(world):
    world.bundle(ROOT / "schemas" / GROUP)
    docs = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
    less = copy.deepcopy(docs)
    for doc in less:
        if doc["kind"] == "ClusterRole" and doc["metadata"]["name"] == "spanwire-control":
            for rule in doc["rules"]:
                rule["resources"] = [x for x in rule["resources"] if x not in ("secrets", "httproutes")]
    world.api.apply(*less)
    r = world.replica()
    until(lambda: all(w in r.page("/ready")[1] for w in ("missing rights", "secrets", f"httproutes.{GROUP}")), SLOWLY,
          "words about the rights")
    assert r.page("/ready")[0] == 500
    lines = until(lambda: [x for x in r.log().splitlines() if "forbidden=" in x], SLOWLY, "the warning")
    assert len(lines) == 1 and "secrets" in lines[0] and "httproutes" in lines[0], lines
    world.api.apply(*docs)
    until(r.ready, 2 * SLOWLY, "the control plane to be ready")


@pytest.mark.parametrize("how", ["account", "binding"])
def test_real_revoked_data_plane_is_shut_out(world, how):
    world.bundle(ROOT / "schemas" / GROUP)
    r = world.replica("one", "--xds-review", "1s")
    world.data_plane()
    if how == "account":
        world.api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/spanwire-gateway")
    else:
        world.api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/spanwire-data-plane")
    until(lambda: "closing the stream of client" in r.log(), SLOWLY, "the end of the stream")
    lines = r.log().splitlines()
    at = next(i for i, line in enumerate(lines) if "is no longer valid" in line)
    assert "closing the stream of client" in lines[at + 1], lines[at:at + 3]
    until(lambda: not r.clients(), SLOWLY, "no stream")


def test_real_status_asks_the_pods_of_the_control_plane(world):
    """Through the API server's proxy: both replicas, the data plane of one of them, and the Gateway."""
    served = world.bundle(ROOT / "schemas" / GROUP)
    world.routes(served, {"HTTPRoute": free_port()})
    for name in ("one", "two"):
        port = free_port()
        world.replica(name, "--pages-addr", f"{PAGES}:{port}")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "spanwire-control"}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "control", "image": "spanwire", "ports": [
                {"name": "pages", "containerPort": port}]}]}}
        world.api.apply(pod)
        answer = world.api.patch(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status", {"status": {
            "phase": "Running", "podIP": PAGES, "podIPs": [{"ip": PAGES}]}})
        assert answer.status == 200, answer
    world.data_plane()

    def status(*flags):
        return subprocess.run([world.binary, "status", "--kubeconfig", str(world.api.kubeconfig), *flags],
                              capture_output=True, text=True, check=False, timeout=60)
    until(lambda: status().returncode == 0, SLOWLY, f"everything in order: {status()}")
    text = status().stdout
    assert re.search(r"default +edge +127.0.0.1 +yes", text) and "ACKED" in text, text
    told = json.loads(status("--json", "true").stdout)
    assert {r["name"] for r in told["replicas"]} == {"one", "two"} and not [r for r in told["replicas"] if "error" in r]
    assert [r["controllers"]["gateway"]["leading"] for r in told["replicas"]].count(True) == 1
    assert {c["replica"] for c in told["clients"]} <= {"one", "two"} and told["clients"]


def test_real_manifests_are_accepted(world):
    """deploy/kubernetes as it is, by strict validation."""
    world.bundle(ROOT / "schemas" / GROUP)
    world.api.kubectl("apply", "--server-side", "--validate=strict", "-k", ROOT / "deploy/kubernetes")
    args = [a for d in yaml.safe_load_all((ROOT / "deploy/kubernetes/control.yaml").read_text(encoding="utf-8"))
            if d["kind"] == "Deployment" for a in d["spec"]["template"]["spec"]["containers"][0]["args"]]
    # The options exist: the command goes on to look for the pod's own account.
    done = subprocess.run([world.binary, *args], capture_output=True, text=True, check=False, timeout=60,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and "cluster" in done.stderr, done
