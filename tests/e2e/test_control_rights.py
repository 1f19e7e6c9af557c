# SPDX-License-Identifier: Apache-2.0
"""
deploy/kubernetes/rbac.yaml has what 'control --in-cluster' needs and nothing else: a cluster's audit log says what was
used while a bit of everything was done, and each right that is taken away is missed.
"""
import contextlib
import copy
import json
import pathlib
import re

import pytest
import yaml
from harness import fabric as fb
from harness import gateway as gw
from harness.control import Control, _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, until

RBAC = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes/rbac.yaml"
USER = "system:serviceaccount:spanwire-system:spanwire-control"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/edge-sw"
ROOT_CERT = "/api/v1/namespaces/spanwire-system/configmaps/spanwire-xds"
API = "/apis/gateway.networking.k8s.io/v1"
# A cluster asks for it besides 'patch' when an apply makes the object; the audit log has the one request.
BY_APPLY = {("create", "", "serviceaccounts"), ("create", "", "configmaps"), ("create", "spanwire.dev", "claims")}
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
CLAIMS = "/apis/spanwire.dev/v1alpha1/claims"
UPDATE_SECRETS = ("update", "", "secrets")
DELETE_CLAIMS = ("delete", "spanwire.dev", "claims")
# Kinds this cluster does not have: routes may end at them where there are any.
ABSENT = {(v, group, r) for group, r in (("networking.datumapis.com", "connectors"), ("networking.datumapis.com", "connectoradvertisements"),
                                         ("clusterlink.net", "imports")) for v in ("list", "watch")}


def by_listing(right):
    """A cluster that cannot stream what there is with a watch is listed first; this one can."""
    return right[0] == "list"


def rights(docs):
    """What the control plane's roles grant, one by one."""
    return {(verb, group, resource) for d in docs
            if d["kind"] in ("ClusterRole", "Role") and d["metadata"]["name"].startswith("spanwire-control")
            for rule in d["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
            for verb in rule["verbs"]}


def without(docs, right):
    """The same roles less one right."""
    verb, group, resource = right
    out = copy.deepcopy(docs)
    for d in out:
        if d["kind"] not in ("ClusterRole", "Role") or not d["metadata"]["name"].startswith("spanwire-control"):
            continue
        d["rules"] = [{"apiGroups": [g], "resources": [r], "verbs": [v for v in rule["verbs"]
                                                                       if (v, g, r) != right]}
                      for rule in d["rules"] for g in rule["apiGroups"] for r in rule["resources"]]
        d["rules"] = [r for r in d["rules"] if r["verbs"]]
    assert rights(out) == rights(docs) - {(verb, group, resource)}
    return out


class Cluster:
    """An API that keeps an audit log, and a control plane elsewhere with the rights of a service account."""

    def __init__(self, binary, where):
        self.binary, self.where = binary, where
        self.audit = where / "audit"
        self.audit.touch()
        self.api = Control(binary, where / "api", "--gateway", "false", "--connector", "false", "--relaxed-sync",
                           "--audit-log", str(self.audit))
        self.docs = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
        self.runs, self.ca = 0, where / "ca.crt"
        self.grant(self.docs)
        kubeconfig = yaml.safe_load(self.api.kubeconfig.read_text(encoding="utf-8"))
        kubeconfig["users"][0]["user"] = {"token": self.token("spanwire-control")}
        (where / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        (where / "token").write_text(self.token("spanwire-gateway"), encoding="ascii")

    def token(self, account):
        answer = self.api.post(f"/api/v1/namespaces/spanwire-system/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def apply(self, obj, manager="test"):
        meta, top = obj["metadata"], "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
        inside = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        kind = obj["kind"].lower()
        plural = {"gatewayclass": "gatewayclasses", "ingress": "ingresses", "ingressclass": "ingressclasses",
                  "backendtlspolicy": "backendtlspolicies", "serviceentry": "serviceentries",
                  "workloadentry": "workloadentries", "authorizationpolicy": "authorizationpolicies"}.get(kind, kind + "s")
        answer = self.api.patch(f"{top}{inside}/{plural}/{meta['name']}", obj, kind="apply",
                                query=f"?fieldManager={manager}&force=true")
        assert answer.status in (200, 201), answer

    def grant(self, docs):
        for d in docs:
            self.apply(d, "deploy")

    def control(self, gateway=True, mesh=True):
        """A control plane that has come up."""
        self.runs += 1
        name = f"c{self.runs}"
        self.xds_port = gw.free_port()
        flags = ["--mesh-listen", "127.0.0.1:0", "--ca-secret", "--mesh-root-namespace", "spanwire-system", "--data",
                 str(self.where / name)] if mesh else ["--mesh", "false"]
        self.process = Process(_Here(), [
            self.binary, "control", "--kubeconfig", str(self.where / "kubeconfig"), "--xds-secret", "spanwire-xds",
            "--xds-listen", f"127.0.0.1:{self.xds_port}", "--admin-addr", "127.0.0.1:0", "--lease-namespace",
            "spanwire-system", "--identity", name, "--gateway-addresses", "127.0.0.1=127.0.0.1",
            "--gateway-port-offset", "0", "--connector", "false", "--gateway", str(gateway).lower(), *flags],
            self.where / f"{name}.log")
        return self.process

    def root(self):
        """The root certificate of the xDS server, once it is there."""
        data = self.get(ROOT_CERT).get("data")
        if data:
            self.ca.write_text(data["ca.crt"], encoding="ascii")
        return data

    def stop(self):
        self.process.signal(15)
        assert self.process.wait(GUARD) == 0, self.process.log()[-3000:]
        found = _SANITIZER.search(self.process.log())
        assert not found, self.process.log()[found.start():][:4000]

    def used(self, refused=False):
        """(verb, group, resource[/sub]) of what the control plane asked for; only what was refused if so wished."""
        out = set()
        for line in self.audit.read_text(encoding="utf-8").splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # it is being written
            e = json.loads(line)
            m = re.match(r"/apis?/(?:(?P<group>[^/]+\.[^/]+|coordination|apps|batch)/)?v[^/]+/(?:namespaces/[^/]+/(?=[^/]))?"
                         r"(?P<resource>[^/?]+)(?:/[^/?]+(?:/(?P<sub>[^/?]+))?)?", e["path"])
            if e["user"] != USER or not m or (refused and e["code"] != 403):
                continue
            resource = m["resource"] + (f"/{m['sub']}" if m["sub"] else "")
            verb = "watch" if e["verb"] == "list" and "watch=" in e["path"] else e["verb"]
            out.add((verb, m["group"] or "", resource))
        return out

    def plane(self):
        """What a data plane wants to know of the control plane."""
        class Plane:
            xds_port, ca, token = self.xds_port, self.ca, self.where / "token"
        return Plane

    def forget(self):
        """Everything the control plane has written before, and what the log has of it."""
        for top in ("gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes", "listenersets",
                    "backendtlspolicies"):
            self.api.delete(f"{API}/namespaces/default/{top}")
        self.api.delete(INGRESSES)
        self.api.delete("/api/v1/namespaces/default/services")
        for top in ("serviceentries", "workloadentries"):
            self.api.delete(f"/apis/networking.istio.io/v1/namespaces/default/{top}")
        self.api.delete("/apis/security.istio.io/v1/namespaces/default/authorizationpolicies")
        self.api.delete(CLAIMS)
        self.api.delete(ACCOUNT)
        self.api.delete(ROOT_CERT)
        self.api.delete("/api/v1/namespaces/spanwire-system/secrets/spanwire-xds")
        self.api.delete("/api/v1/namespaces/spanwire-system/secrets/istio-ca-secret")
        for ns in ("default", "spanwire-system", "kube-system"):
            self.api.delete(f"/api/v1/namespaces/{ns}/configmaps/istio-ca-root-cert")
        self.api.delete("/apis/coordination.k8s.io/v1/namespaces/spanwire-system/leases")
        self.api.patch(f"{API}/gatewayclasses/sw", {"metadata": {"finalizers": None}})
        self.api.delete(f"{API}/gatewayclasses/sw")
        self.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "sw"},
                    "spec": {"controllerName": "spanwire.dev/gateway"}})
        self.audit.write_text("", encoding="utf-8")

    def get(self, path):
        answer = self.api.get(path)
        return answer.json if answer.status == 200 else {}

    def close(self):
        self.api.close()


def tell_twice(c):
    """A route that is bad, good, and bad again: its Event is written, then counted."""
    bad = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "twice", "namespace": "default"},
           "spec": {"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [{"name": "nowhere", "port": 80}]}]}}
    good = copy.deepcopy(bad)
    good["spec"]["rules"][0]["backendRefs"][0]["name"] = "web"

    def events():
        return [e for e in c.get("/api/v1/namespaces/default/events").get("items", []) if e["involvedObject"]["name"] == "twice"]
    before = {e["metadata"]["uid"] for e in events()}
    c.apply(bad)
    until(lambda: {e["metadata"]["uid"] for e in events() if e["type"] == "Warning"} - before, GUARD, "the Event")
    c.apply(good)
    until(lambda: {e["metadata"]["uid"] for e in events() if e["type"] == "Normal"} - before, GUARD, "the recovery")
    c.apply(bad)


def give_host_back(c):
    """The Ingress goes once its status and its claim are written."""
    until(lambda: c.get(CLAIMS)["items"] and c.get(f"{INGRESSES}/i").get("status", {}).get("loadBalancer"), GUARD, "the claim")
    assert c.api.delete(f"{INGRESSES}/i").status == 200


def rotate(c):
    """A step of a rotation of the mesh's root, once there is one."""
    path = "/api/v1/namespaces/spanwire-system/secrets/istio-ca-secret"
    until(lambda: c.get(path), GUARD, "the CA of the mesh")
    assert c.api.patch(path, {"metadata": {"annotations": {"spanwire.dev/rotate-root": "now"}}}).status == 200


def gateway(name, listeners, **spec):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"gatewayClassName": "sw", "listeners": listeners,
                     "allowedListeners": {"namespaces": {"from": "Same"}}, **spec}}


def some_of_everything():
    """Objects of all kinds that get a status."""
    def thing(kind, name, spec):
        return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
                "metadata": {"name": name, "namespace": "default"}, "spec": spec}

    def route(kind, section, **more):
        return thing(kind, kind.lower(), {"parentRefs": [{"name": "edge", "sectionName": section}], **more,
                                          "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]})
    ports = {p: gw.free_port() for p in ("HTTP", "TLS", "TCP", "UDP", "set")}
    listeners = [{"name": p.lower(), "protocol": p, "port": ports[p]} for p in ("HTTP", "TCP", "UDP")]
    listeners.append({"name": "tls", "protocol": "TLS", "port": ports["TLS"], "tls": {"mode": "Passthrough"}})
    bound = {"labels": {"istio.io/use-waypoint": "nowhere"}, "namespace": "default"}
    out = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", **bound},
            "spec": {"ports": [{"name": "main", "port": 80}]}},
           gateway("edge", listeners, infrastructure={"labels": {"team": "one"}})]
    out += [route("HTTPRoute", "http"), route("GRPCRoute", "http"), route("TCPRoute", "tcp"), route("UDPRoute", "udp"),
            route("TLSRoute", "tls", hostnames=["tls.example"])]
    out += [thing("ListenerSet", "more", {"parentRef": {"name": "edge"}, "listeners": [
        {"name": "more", "protocol": "HTTP", "port": ports["set"]}]}),
        thing("BackendTLSPolicy", "p", {"targetRefs": [{"group": "", "kind": "Service", "name": "web"}], "validation": {
            "hostname": "web.example", "wellKnownCACertificates": "System"}}),
        {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "sw"},
         "spec": {"controller": "spanwire.dev/ingress"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i", "namespace": "default"},
         "spec": {"ingressClassName": "sw", "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}]
    out += [{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "e", **bound},
             "spec": {"hosts": ["e.example"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}},
            {"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": {"name": "w", **bound},
             "spec": {"address": "192.0.2.1"}},
            {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {
                "name": "a", "namespace": "default"}, "spec": {}}]
    return out


@pytest.fixture(scope="module", name="c")
def _c(binary, tmp_path_factory):
    cluster = Cluster(binary, tmp_path_factory.mktemp("rights"))
    yield cluster
    cluster.close()


def test_every_right_is_used_and_none_is_missing(c):
    c.forget()
    c.control()
    objects = some_of_everything()
    for o in objects:
        c.apply(o)
    until(lambda: c.get(ACCOUNT), GUARD, "the account of the Gateway")
    edge = next(o for o in objects if o["kind"] == "Gateway")
    edge["spec"]["infrastructure"]["labels"]["team"] = "two"
    c.apply(edge)
    until(lambda: c.get(ACCOUNT)["metadata"]["labels"].get("team") == "two", GUARD, "the label's change")
    until(c.root, GUARD, "the certificate of xDS")
    plane = fb.XdsGateway(c.binary, c.where, c.plane())
    del edge["spec"]["infrastructure"]
    c.apply(edge)
    until(lambda: not c.get(ACCOUNT), GUARD, "the account to go")
    tell_twice(c)
    until(lambda: ("patch", "", "events") in c.used(), GUARD, "the repetition")
    give_host_back(c)
    until(lambda: DELETE_CLAIMS in c.used(), GUARD, "the claim to go")
    rotate(c)
    until(lambda: UPDATE_SECRETS in c.used(), GUARD, "a root to be announced")
    statuses = {r for r in rights(c.docs) if r[2].endswith("/status")}
    try:
        until(lambda: statuses <= c.used(), GUARD, "every status to be written")
    finally:
        plane.stop()
        c.stop()
    # A watch is in the log when the server has seen its end.
    want = {r for r in rights(c.docs) - BY_APPLY - ABSENT if not by_listing(r)}
    with contextlib.suppress(AssertionError):  # the next line says more
        until(lambda: want <= c.used(), GUARD)
    assert not want - c.used(), "never used"
    assert not c.used() - rights(c.docs) - ABSENT, "used without a right"
    assert not c.used(refused=True)


@pytest.mark.parametrize("part", ["gateway", "mesh"])
def test_half_of_it_needs_half_of_the_rights(c, part):
    """Without gateways, or without the mesh, the ClusterRole for them may be left out."""
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/spanwire-control-{part}"
    c.forget()
    assert c.api.delete(role).status == 200
    process = c.control(**{part: False})
    try:
        until(lambda: "ready" in re.findall(r"\tcontrol\t(.*)", process.log()), GUARD, "the control plane to be ready")
        assert not c.used(refused=True) and "orbidden" not in process.log()
    finally:
        c.stop()
        c.grant(c.docs)


def one_by_one():
    docs = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
    return sorted(r for r in rights(docs) - BY_APPLY - ABSENT if not by_listing(r))


@pytest.mark.parametrize("right", one_by_one(), ids="-".join)
def test_a_right_that_is_gone_is_missed_aloud(c, right):
    """The request is made, and a line says that it was refused."""
    c.grant(without(c.docs, right))
    c.forget()
    objects = some_of_everything()
    process, plane = c.control(), None
    try:
        for o in objects:
            c.apply(o)
        if "reviews" in right[2]:
            until(c.root, GUARD, "the certificate of xDS")
            plane = fb.XdsGateway(c.binary, c.where, c.plane(), wait=False)
        if right == UPDATE_SECRETS:
            rotate(c)
        if right == DELETE_CLAIMS:
            give_host_back(c)
        if right[0] == "delete":
            until(lambda: c.get(ACCOUNT), GUARD, "the account of the Gateway")
            c.apply({**objects[1], "spec": {k: v for k, v in objects[1]["spec"].items() if k != "infrastructure"}})
        if right == ("delete", "coordination.k8s.io", "leases"):  # of a replica that died
            c.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {
                "name": "spanwire-planes-dead", "namespace": "spanwire-system",
                "labels": {"spanwire.dev/component": "data-planes"}}, "spec": {"leaseDurationSeconds": 1}})
        if right == ("patch", "", "events"):
            tell_twice(c)
        until(lambda: right in c.used(refused=True), GUARD, "the refusal")
        until(lambda: "orbidden" in process.log(), GUARD, "a line about it")
    finally:
        if plane:
            plane.kill()
        c.stop()
        c.grant(c.docs)
