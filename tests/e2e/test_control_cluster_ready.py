# SPDX-License-Identifier: Apache-2.0
"""
'control --kubeconfig' says what it waits for, reads what an older bundle of the Gateway API serves, shares a CA with the
other replicas, and ends the streams of data planes that are revoked. Another 'spanwire control' is the cluster.
"""
import copy
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import yaml
from harness import fabric as fb
from harness import gateway as gw
from harness.control import Control, _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, SLOW, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas/gateway.networking.k8s.io"
RBAC = ROOT / "deploy/kubernetes/rbac.yaml"
GROUP = "/apis/gateway.networking.k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SYSTEM = "/api/v1/namespaces/spanwire-system"
BUNDLE = "gateway.networking.k8s.io/bundle-version"


class Cluster:
    """An API without controllers, and control planes beside it with a service account's rights or an administrator's."""

    def __init__(self, binary, where, *flags):
        self.binary, self.where = binary, where
        self.api = Control(binary, where / "api", "--gateway", "false", "--connector", "false", "--relaxed-sync",
                           "--loopback-endpoints", *flags)
        self.docs = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
        self.replicas, self.planes = [], []

    def apply(self, obj, path=None):
        meta, top = obj["metadata"], "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
        inside = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        kind = obj["kind"].lower()
        plural = kind + "es" if kind.endswith("ss") else kind + "s"
        answer = self.api.patch(path or f"{top}{inside}/{plural}/{meta['name']}", obj, kind="apply",
                                query="?fieldManager=test&force=true")
        assert answer.status in (200, 201), answer

    def token(self, account):
        answer = self.api.post(f"{SYSTEM}/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def kubeconfig(self, account):
        config = yaml.safe_load(self.api.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": self.token(account)}
        path = self.where / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def grant(self, *refused):
        """The roles of deploy/, less the rights to some resources."""
        for doc in copy.deepcopy(self.docs):
            for rule in doc.get("rules", ()):
                if "resources" in rule:
                    rule["resources"] = [r for r in rule["resources"] if r not in refused] or ["none"]
            self.apply(doc)

    def replica(self, name="one", kubeconfig=None, *flags):
        r = Replica(self.binary, self.where, name, kubeconfig or self.api.kubeconfig, *flags)
        self.replicas.append(r)
        return r

    def plane(self, replica, ca, *flags, wait=True):
        """A data plane with a token of the account in deploy/."""
        class Plane:
            xds_port, token = replica.xds_port, self.where / "token"
        Plane.ca = ca
        Plane.token.write_text(self.token("spanwire-gateway"), encoding="ascii")
        p = fb.XdsGateway(self.binary, self.where, Plane, *flags, wait=wait)
        self.planes.append(p)
        return p

    def schema(self, plural, *versions, served=None, bundle=None):
        """Installs a definition with these versions instead of its own, the first is stored."""
        crd = yaml.safe_load((SCHEMAS / f"{plural}.yaml").read_text(encoding="utf-8"))
        if versions:
            first = next(v for v in crd["spec"]["versions"] if v["storage"])
            crd["spec"]["versions"] = [{**first, "name": v, "served": v in (served or versions), "storage": v == versions[0]}
                                       for v in versions]
        if bundle:
            crd["metadata"]["annotations"][BUNDLE] = bundle
        self.apply(crd, f"{CRDS}/{crd['metadata']['name']}")

    def close(self):
        for p in self.planes:
            if p.alive:
                p.stop()
        for r in self.replicas:
            r.stop()
        self.api.close()


class Replica(Process):
    def __init__(self, binary, where, name, kubeconfig, *flags):
        self.name = name
        self.xds_port, self.admin_port = gw.free_port(), gw.free_port()
        super().__init__(_Here(), [
            binary, "control", "--kubeconfig", str(kubeconfig), "--xds-listen", f"127.0.0.1:{self.xds_port}",
            "--admin-addr", f"127.0.0.1:{self.admin_port}", "--lease-namespace", "spanwire-system", "--identity", name,
            "--gateway-addresses", "127.0.0.1=127.0.0.1", "--gateway-port-offset", "0", "--connector", "false",
            *(flags or ["--data", str(where / name)])], where / f"{name}.log")
        self.ca = where / name / "xds-ca/root.crt"

    def page(self, path, port=None):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.admin_port}{path}", timeout=GUARD * SLOW) as a:
                return a.status, a.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            assert self.alive, self.log()[-3000:]
            return 0, str(e)

    def ready(self):
        return self.page("/ready")[0] == 200

    def waits(self, *words):
        status, text = self.page("/ready")
        return status == 500 and all(w in text for w in words)

    def warnings(self):
        return [line for line in self.log().splitlines() if re.search(r"\bwarn\b", line, re.I)]

    def stop(self):
        if self.alive:
            self.signal(15)
            assert self.wait(GUARD) == 0, self.log()[-3000:]
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]


class Closing:
    """Reads the first bytes of every connection and closes it."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.accepted = self.socket.getsockname()[1], 0
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        return self

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.accepted += 1
            with connection:
                connection.settimeout(GUARD)
                connection.recv(65536)

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(GUARD)


@pytest.fixture(name="cluster")
def _cluster(binary, tmp_path):
    made = []

    def make(*flags):
        made.append(Cluster(binary, tmp_path, *flags))
        return made[0]
    yield make
    for one in made:
        one.close()


# ---- readiness ----

def test_not_ready_while_the_api_is_unreachable(cluster):
    c = cluster()
    c.api.stop()
    r = c.replica()
    until(lambda: r.waits("the API server", "refused"), GUARD, "words about the API")
    until(lambda: [w for w in r.warnings() if "API unreachable" in w], GUARD, "the warning")
    c.api.restart()
    until(r.ready, 2 * GUARD, "the control plane to be ready")
    assert len([w for w in r.warnings() if "API unreachable" in w]) == 1, r.warnings()


def test_not_ready_while_the_api_closes_connections(cluster, tmp_path):
    """As a load balancer without a backend does: it accepts, and closes during the handshake."""
    c = cluster()
    config = yaml.safe_load(c.api.kubeconfig.read_text(encoding="utf-8"))
    with Closing() as server:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.port}"
        path = tmp_path / "closing.kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        r = c.replica("one", path)
        until(lambda: r.waits("the API server", "closed during the TLS handshake"), GUARD, "words about the API")
        until(lambda: [w for w in r.warnings() if "API unreachable" in w], GUARD, "the warning")
        assert server.accepted


def test_not_ready_while_rights_are_missing(cluster):
    """All of them are in the words and in one warning; the control plane goes on when they are granted."""
    c = cluster()
    c.grant("secrets", "httproutes", "namespaces")
    r = c.replica("one", c.kubeconfig("spanwire-control"))
    until(lambda: r.waits("missing rights", "secrets", "namespaces", "httproutes.gateway.networking.k8s.io"), GUARD,
          "words about the rights")
    lines = until(lambda: [w for w in r.warnings() if "forbidden" in w], GUARD, "the warning")
    assert len(lines) == 1, lines
    for name in ("secrets", "namespaces", "httproutes.gateway.networking.k8s.io"):
        assert name in lines[0], lines
    assert not re.search(r"info.*(list|watch) failed", r.log()), r.log()
    c.grant()
    until(r.ready, 4 * GUARD, "the control plane to be ready")


def test_not_ready_while_kinds_are_missing(cluster):
    """Definitions that are installed later are picked up; what is merely absent does not hold it up."""
    c = cluster("--fabric-kinds", "false")
    c.grant()
    r = c.replica()
    until(lambda: r.waits("does not serve", "gatewayclasses.gateway.networking.k8s.io", "httproutes."), GUARD,
          "words about the kinds")
    lines = until(lambda: [w for w in r.warnings() if "not_served" in w], GUARD, "the warning")
    assert len(lines) == 1 and "tcproutes" in lines[0] and "gatewayclasses" in lines[0], lines
    for plural in ("gatewayclasses", "gateways", "httproutes", "referencegrants", "grpcroutes"):
        c.schema(plural)
    until(r.ready, 4 * GUARD, "the control plane to be ready")


# ---- older bundles ----

def features(c):
    return [f["name"] for f in c.api.get(f"{GROUP}/v1/gatewayclasses/sw").json["status"].get("supportedFeatures", ())]


def condition(c, name):
    status = c.api.get(f"{GROUP}/v1/gatewayclasses/sw").json.get("status", {})
    return next((x for x in status.get("conditions", ()) if x["type"] == name), {}).get("status")


def tcp_world(c, version, grant, port, origin):
    """A TCPRoute to a Service of another namespace, which a ReferenceGrant allows."""
    c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "back"}})
    c.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "back"},
             "spec": {"ports": [{"name": "main", "port": 80}]}})
    c.apply({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
             "metadata": {"name": "web-1", "namespace": "back", "labels": {"kubernetes.io/service-name": "web"}},
             "ports": [{"name": "main", "port": origin.port}],
             "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]})
    c.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "sw"},
             "spec": {"controllerName": "spanwire.dev/gateway"}})
    c.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
             "metadata": {"name": "edge", "namespace": "default"},
             "spec": {"gatewayClassName": "sw", "listeners": [{"name": "tcp", "protocol": "TCP", "port": port}]}})
    c.apply({"apiVersion": f"gateway.networking.k8s.io/{version}", "kind": "TCPRoute",
             "metadata": {"name": "t", "namespace": "default"},
             "spec": {"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [
                 {"name": "web", "namespace": "back", "port": 80}]}]}})
    c.apply({"apiVersion": f"gateway.networking.k8s.io/{grant}", "kind": "ReferenceGrant",
             "metadata": {"name": "g", "namespace": "back"},
             "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "default"}],
                      "to": [{"group": "", "kind": "Service"}]}})


def asks(port):
    """A request through the TCP listener; 0 while there is none."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD * SLOW)
    try:
        link.request("GET", "/")
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        link.close()


def route_status(c, version, name="t"):
    parents = c.api.get(f"{GROUP}/{version}/namespaces/default/tcproutes/{name}").json.get("status", {}).get("parents", [])
    return {x["type"]: x["status"] for p in parents for x in p["conditions"]}


def test_older_bundle_is_read_in_the_versions_it_serves(cluster):
    """v1beta1 ReferenceGrants and v1alpha2 TCPRoutes, with statuses; then an upgrade while the control plane runs."""
    c = cluster("--fabric-kinds", "false")
    c.grant()
    for plural in ("gatewayclasses", "gateways", "httproutes", "grpcroutes"):
        c.schema(plural, bundle="v1.2.1")
    c.schema("referencegrants", "v1beta1", bundle="v1.2.1")
    c.schema("tcproutes", "v1alpha2", bundle="v1.2.1")
    port, origin = gw.free_port(), gw.Origin()
    try:
        until(lambda: c.api.get(f"{GROUP}/v1alpha2/tcproutes").status == 200, GUARD, "the kind")
        tcp_world(c, "v1alpha2", "v1beta1", port, origin)
        r = c.replica("one", c.kubeconfig("spanwire-control"))
        until(r.ready, 2 * GUARD, "the control plane to be ready")
        c.plane(r, r.ca)
        until(lambda: asks(port) == 200, 2 * GUARD, "traffic")
        until(lambda: route_status(c, "v1alpha2").get("ResolvedRefs") == "True", GUARD, "the route's status")
        until(lambda: condition(c, "SupportedVersion") == "True", GUARD, "the class's condition")
        assert "TCPRoute" in features(c) and "ReferenceGrant" in features(c)
        assert not {"UDPRoute", "TLSRoute", "ListenerSet", "BackendTLSPolicy"} & set(features(c)), features(c)
        # A newer bundle serves both versions, then only the newer one.
        c.schema("tcproutes", "v1alpha2", "v1", bundle="v1.6.1")
        c.schema("udproutes", bundle="v1.6.1")
        until(lambda: "UDPRoute" in features(c), 4 * GUARD, "the feature of the new kind")
        c.schema("tcproutes", "v1alpha2", "v1", served=["v1"], bundle="v1.6.1")
        c.api.restart(kill=False)  # watches of what is not served any more end
        spec = c.api.get(f"{GROUP}/v1/namespaces/default/tcproutes/t").json["spec"]
        c.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TCPRoute",
                 "metadata": {"name": "again", "namespace": "default"}, "spec": spec})
        until(lambda: route_status(c, "v1", "again").get("Accepted"), 8 * GUARD, "the status of a route in v1")
        assert asks(port) == 200
    finally:
        origin.close()


def test_a_bundle_that_is_too_old_is_not_claimed(cluster):
    c = cluster("--fabric-kinds", "false")
    c.grant()
    for plural in ("gatewayclasses", "gateways", "httproutes"):
        c.schema(plural, bundle="v1.1.0")
    c.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "sw"},
             "spec": {"controllerName": "spanwire.dev/gateway"}})
    r = c.replica()
    until(r.ready, 2 * GUARD, "the control plane to be ready")
    until(lambda: condition(c, "SupportedVersion") == "False", GUARD, "the class's condition")
    assert "TCPRoute" not in features(c) and "HTTPRoute" in features(c)


# ---- the certificate of xDS ----

def sans(port, root):
    """The names in the certificate that a server shows, verified with this root."""
    context = ssl.create_default_context(cadata=root)
    with socket.create_connection(("127.0.0.1", port), GUARD * SLOW) as raw:
        with context.wrap_socket(raw, server_hostname="spanwire-control.spanwire-system.svc") as s:
            return {value for _, value in s.getpeercert()["subjectAltName"]}


def test_replicas_share_a_ca(cluster):
    """Each has a certificate of its own for the Service's names; data planes verify both with the root in the ConfigMap."""
    c = cluster()
    c.grant()
    config = c.kubeconfig("spanwire-control")
    flags = ["--xds-secret", "spanwire-xds", "--name", "spanwire-control.spanwire-system.svc", "--name", "10.1.2.3"]
    both = [c.replica(name, config, *flags) for name in ("one", "two")]
    for r in both:
        until(r.ready, 2 * GUARD, "the control plane to be ready")
    root = c.api.get(f"{SYSTEM}/configmaps/spanwire-xds").json["data"]["ca.crt"]
    for r in both:
        assert {"spanwire-control.spanwire-system.svc", "10.1.2.3", "localhost"} <= sans(r.xds_port, root)
    secret = c.api.get(f"{SYSTEM}/secrets/spanwire-xds").json
    assert secret["type"] == "kubernetes.io/tls" and set(secret["data"]) == {"tls.crt", "tls.key"}
    ca = c.where / "ca.crt"
    ca.write_text(root, encoding="ascii")
    for r in both:
        c.plane(r, ca, "--xds-server-name", "spanwire-control.spanwire-system.svc")
    # A replica that comes later has the same.
    late = c.replica("three", config, *flags)
    until(late.ready, 2 * GUARD, "the third control plane to be ready")
    assert sans(late.xds_port, root)
    assert c.api.get(f"{SYSTEM}/secrets/spanwire-xds").json["data"] == secret["data"]


def test_no_ca_without_the_right_to_its_secret(cluster):
    c = cluster()
    c.grant()
    role = next(d for d in copy.deepcopy(c.docs) if d["kind"] == "Role")
    role["rules"] = [r for r in role["rules"] if "secrets" not in r["resources"]]
    c.apply(role)
    r = c.replica("one", c.kubeconfig("spanwire-control"), "--xds-secret", "spanwire-xds")
    until(lambda: r.waits("CA of the xDS server", "spanwire-system/spanwire-xds", "forbidden"), 2 * GUARD, "words about it")
    c.grant()
    until(r.ready, 2 * GUARD, "the control plane to be ready")


def test_pages_for_probes_are_read_only(cluster):
    c = cluster()
    c.grant()
    port = gw.free_port()
    r = c.replica("one", None, "--data", str(c.where / "one"), "--pages-addr", f"127.0.0.1:{port}")
    until(lambda: r.page("/ready", port)[0] == 200, GUARD, "the control plane to be ready")
    assert "clients" in json.loads(r.page("/debug/xds", port)[1])
    assert "spanwire_" in r.page("/metrics", port)[1]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/logging?level=trace", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=GUARD * SLOW)
    assert refused.value.code == 405


# ---- revocation ----

@pytest.mark.parametrize("how", ["account", "binding"])
def test_a_revoked_data_plane_loses_its_stream(cluster, how):
    """At the review that noticed it: the token's account is gone, or it lost the right."""
    c = cluster()
    c.grant()
    r = c.replica("one", None, "--data", str(c.where / "one"), "--xds-review", "1s")
    until(r.ready, 2 * GUARD, "the control plane to be ready")
    plane = c.plane(r, r.ca)
    until(lambda: json.loads(r.page("/debug/xds")[1])["clients"], GUARD, "the stream")
    if how == "account":
        c.api.delete(f"{SYSTEM}/serviceaccounts/spanwire-gateway")
    else:
        c.api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/spanwire-data-plane")
    until(lambda: "closing the stream of client" in r.log(), 2 * GUARD, "the end of the stream")
    until(lambda: not json.loads(r.page("/debug/xds")[1])["clients"], GUARD, "no stream")
    # Nothing happens between the review's answer and the end of the stream.
    lines = r.log().splitlines()
    at = next(i for i, line in enumerate(lines) if "is no longer valid" in line)
    assert "closing the stream of client" in lines[at + 1], lines[at:at + 3]
    assert plane.alive


# ---- addresses ----

def test_gateway_addresses_may_be_hostnames(cluster):
    c = cluster()
    c.grant()
    origin, port = gw.Origin(), gw.free_port()
    try:
        tcp_world(c, "v1", "v1", port, origin)
        r = c.replica("one", None, "--data", str(c.where / "one"), "--gateway-addresses", "lb.localhost=127.0.0.1")
        until(r.ready, 2 * GUARD, "the control plane to be ready")
        c.plane(r, r.ca)
        until(lambda: c.api.get(f"{GROUP}/v1/namespaces/default/gateways/edge").json.get("status", {}).get("addresses")
              == [{"type": "Hostname", "value": "lb.localhost"}], GUARD, "the address")
        c.api.patch(f"{GROUP}/v1/namespaces/default/gateways/edge",
                    {"spec": {"addresses": [{"type": "Hostname", "value": "lb.localhost"}]}})
        until(lambda: asks(port) == 200, GUARD, "traffic")
    finally:
        origin.close()


# ---- spanwire status ----

def status(c, kubeconfig, *flags):
    return subprocess.run([c.binary, "status", "--kubeconfig", str(kubeconfig), *flags], capture_output=True, text=True,
                          check=False, timeout=60 * SLOW)


def test_status_on_another_cluster(cluster):
    """Gateways of ours with what they lack, by somebody who may read no more than that."""
    c = cluster()
    c.grant()
    origin, port = gw.Origin(), gw.free_port()
    try:
        tcp_world(c, "v1", "v1", port, origin)
        c.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer",
                                                                          "namespace": "spanwire-system"}})
        c.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "viewer"},
                 "rules": [{"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses", "gateways"],
                            "verbs": ["get", "list"]}]})
        c.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "viewer"},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"},
                 "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "spanwire-system"}]})
        viewer = c.kubeconfig("viewer")
        before = status(c, viewer)
        assert before.returncode == 2 and re.search(r"default +edge .* NO ", before.stdout), before
        r = c.replica("one", c.kubeconfig("spanwire-control"))
        until(r.ready, 2 * GUARD, "the control plane to be ready")
        c.plane(r, r.ca)
        until(lambda: re.search(r"default +edge +127.0.0.1 +yes", status(c, viewer).stdout), GUARD, "a Gateway that serves")
        after = status(c, viewer)
        assert "Control planes cannot be found" in after.stdout and "pods" in after.stdout, after
        told = json.loads(status(c, viewer, "--json", "true").stdout)
        assert told["gateways"][0]["programmed"] == "True" and told["replicas"] == []
        c.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody",
                                                                          "namespace": "spanwire-system"}})
        refused = status(c, c.kubeconfig("nobody"))
        assert refused.returncode == 1 and "forbidden" in refused.stderr, refused
    finally:
        origin.close()


def test_a_route_is_written_in_the_version_that_is_served(cluster):
    """A device's TCP service where only v1alpha2 TCPRoutes are: the object made for it says so."""
    c = cluster("--fabric-kinds", "false")
    c.grant()
    for plural in ("gatewayclasses", "gateways", "httproutes", "grpcroutes", "referencegrants"):
        c.schema(plural, bundle="v1.2.1")
    c.schema("tcproutes", "v1alpha2", bundle="v1.2.1")
    for kind in sorted((SCHEMAS.parent / "networking.datumapis.com").glob("*.yaml")) + [SCHEMAS.parent / "spanwire.dev/claims.yaml"]:
        crd = yaml.safe_load(kind.read_text(encoding="utf-8"))
        c.apply(crd, f"{CRDS}/{crd['metadata']['name']}")
    datum = "/apis/networking.datumapis.com/v1alpha/namespaces/default/httpproxies"
    until(lambda: c.api.get(datum).status == 200 and c.api.get(f"{GROUP}/v1alpha2/tcproutes").status == 200, GUARD, "the kinds")
    c.replica("one", None, "--data", str(c.where / "one"), "--connector", "true", "--device-ports", "20000-20009")
    made = c.api.post(datum, {
        "apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy",
        "metadata": {"name": "ssh", "annotations": {"spanwire.dev/layer4": "TCP/20005"}},
        "spec": {"rules": [{"backends": [{"endpoint": "http://127.0.0.1:22", "connector": {"name": "ssh"}}]}]}})
    assert made.status == 201, made
    route = f"{GROUP}/v1alpha2/namespaces/default/tcproutes/ssh"
    until(lambda: c.api.get(route).status == 200, 2 * GUARD, "the route")
    assert c.api.get(route).json["spec"]["rules"][0]["backendRefs"][0]["name"] == "ssh-0-0"
