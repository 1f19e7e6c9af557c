# SPDX-License-Identifier: Apache-2.0
"""The mesh's control plane: objects applied to the embedded API, read as a node does over delta xDS."""
import ipaddress
import subprocess

import pytest
from harness.control import Control
from harness.gateway import free_port
from harness.wait import GUARD, SLOW, until
from harness.xds_client import URL, Xds

ADDRESS = URL + "istio.workload.Address"
AUTHORIZATION = URL + "istio.security.Authorization"
ISTIO = "networking.istio.io/v1"
UID = "Kubernetes//Pod/shop/web-1"
WEB = "shop/web.shop.svc.cluster.local"
PLURALS = {"Gateway": "gateways", "ServiceEntry": "serviceentries", "WorkloadEntry": "workloadentries",
           "EndpointSlice": "endpointslices", "PeerAuthentication": "peerauthentications",
           "AuthorizationPolicy": "authorizationpolicies"}
# Numbers of istio.workload, by hand: what is read must not come from the code under test.
NAME, ADDRESSES, TUNNEL, ACCOUNT, WAYPOINT, NODE, POLICIES, STATUS, SERVICES, LOCALITY = 1, 3, 5, 7, 8, 9, 16, 17, 22, 24


def decode(data):
    """{number: [value]} of a message; numbers as they are, the rest as bytes."""
    out, at = {}, 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        out.setdefault(key >> 3, []).append(value)
    return out


class Mesh:
    """A control plane and a node's stream."""

    def __init__(self, binary, where, *flags):
        self.port = free_port()
        self.control = Control(binary, where, "--relaxed-sync", "--connector", "false", "--xds-listen",
                               f"127.0.0.1:{self.port}", *flags)
        self.pki = self.control.data / "pki"
        self.x = None

    def connect(self):
        if self.x:
            self.x.close()
        self.x = Xds(self.port, self.pki / "root.crt", (self.pki / "admin.token").read_text(encoding="ascii").strip(),
                     node="ztunnel~10.0.0.1~z.istio-system~istio-system.svc.cluster.local")
        for kind in (ADDRESS, AUTHORIZATION):
            self.x.send(kind)

    def reach(self):
        """A stream with resources: nodes are refused until the control plane has read everything."""
        def served():
            try:
                if not self.x:
                    self.connect()
                return self.have()
            except (AssertionError, OSError):
                self.x = None
                return False
        until(served, GUARD, "a stream that is served")

    def path(self, kind, ns, name, api="v1", sub=""):
        top = "/api/v1" if api == "v1" else f"/apis/{api}"
        space = f"/namespaces/{ns}" if ns else ""
        return f"{top}{space}/{PLURALS.get(kind, kind.lower() + 's')}/{name}{sub}"

    def apply(self, kind, name, ns="shop", api="v1", status=None, labels=None, annotations=None, **rest):
        meta = {"name": name, **({"namespace": ns} if ns else {}), "labels": labels or {}, "annotations": annotations or {}}
        head = {"apiVersion": api, "kind": kind, "metadata": meta}
        for sub, body in (("", rest), *([("/status", {"status": status})] if status else [])):
            answer = self.control.patch(self.path(kind, ns, name, api, sub), {**head, **body}, kind="apply",
                                        query="?fieldManager=test&force=true")
            assert answer.status in (200, 201), answer

    def get(self, kind, ns, name, api="v1"):
        return self.control.get(self.path(kind, ns, name, api)).json

    def condition(self, kind, ns, name, api, which):
        found = [c for c in self.get(kind, ns, name, api).get("status", {}).get("conditions", []) if c["type"] == which]
        return found[0] if found else {}

    def have(self, kind=ADDRESS):
        assert self.x.read(0.02), (self.x.status, self.x.why)
        return self.x.have.get(kind, {})

    def workload(self, name=UID):
        """The fields of a workload, or {}."""
        inside = decode(decode(self.have().get(name, b"")).get(2, [b""])[0])
        return decode(inside[1][0]) if 1 in inside else {}

    def service(self, name=WEB):
        inside = decode(decode(self.have().get(name, b"")).get(2, [b""])[0])
        return decode(inside[2][0]) if 2 in inside else {}

    def close(self):
        if self.x:
            self.x.close()
        self.control.close()


def fill(m):
    """A shop with a pod, a machine, services of all sorts and a waypoint."""
    for ns in ("shop", "istio-system"):
        m.apply("Namespace", ns, None)
    m.apply("Node", "n1", None, labels={"topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1"})
    m.apply("ServiceAccount", "web")
    pod(m, "web-1", "10.0.2.7")
    m.apply("Service", "web", spec={"clusterIP": "10.96.0.10", "selector": {"app": "web"}, "ports": [
        {"name": "http", "port": 80, "targetPort": "web"}]}, labels={"istio.io/use-waypoint": "waypoint"})
    m.apply("Service", "old", spec={"clusterIP": "10.96.0.11", "ports": [{"name": "tcp", "port": 5432}]})
    m.apply("EndpointSlice", "old-1", api="discovery.k8s.io/v1", labels={"kubernetes.io/service-name": "old"},
            addressType="IPv4", ports=[{"name": "tcp", "port": 5433, "protocol": "TCP"}],
            endpoints=[{"addresses": ["192.0.2.9"]}])
    m.apply("ServiceEntry", "away", api=ISTIO, spec={"hosts": ["api.example"], "resolution": "DNS", "ports": [
        {"number": 443, "name": "tls", "protocol": "TLS"}]})
    m.apply("WorkloadEntry", "vm", api=ISTIO, labels={"app": "web"}, spec={"address": "192.0.2.7", "serviceAccount": "web"})


def pod(m, name, ip, **rest):
    m.apply("Pod", name, labels={"app": "web"}, spec={
        "nodeName": "n1", "serviceAccountName": "web", "containers": [
            {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]},
        status={"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]},
        **rest)


@pytest.fixture(scope="module", name="m")
def _m(binary, tmp_path_factory):
    mesh = Mesh(binary, tmp_path_factory.mktemp("mesh"))
    fill(mesh)
    mesh.connect()
    yield mesh
    mesh.close()


def test_a_node_gets_workloads_and_services(m):
    want = {UID, WEB, "shop/old.shop.svc.cluster.local", "shop/api.example",
            "Kubernetes/discovery.k8s.io/EndpointSlice/shop/old-1/192.0.2.9",
            "Kubernetes/networking.istio.io/ServiceEntry/shop/away/api.example",
            "Kubernetes/networking.istio.io/WorkloadEntry/shop/vm"}
    until(lambda: want <= set(m.have()) and m.workload().get(SERVICES), GUARD, "the shop")
    w = m.workload()
    assert w[NAME] == [b"web-1"] and w[ACCOUNT] == [b"web"] and w[NODE] == [b"n1"]
    assert w[ADDRESSES] == [ipaddress.ip_address("10.0.2.7").packed]
    assert STATUS not in w and TUNNEL not in w
    assert decode(w[LOCALITY][0]) == {1: [b"r1"], 2: [b"z1"]}
    services = decode(w[SERVICES][0])
    assert services[1] == [WEB.encode()]
    assert decode(decode(services[2][0])[1][0]) == {1: [80], 2: [8080]}
    assert decode(m.service()[4][0])[2] == [ipaddress.ip_address("10.96.0.10").packed]
    foreign = decode(m.workload("Kubernetes/discovery.k8s.io/EndpointSlice/shop/old-1/192.0.2.9")[SERVICES][0])
    assert decode(decode(foreign[2][0])[1][0]) == {1: [5432], 2: [5433]}
    assert m.workload("Kubernetes/networking.istio.io/WorkloadEntry/shop/vm")[SERVICES]


def test_a_pod_that_changes_is_sent_and_nothing_else(m):
    until(lambda: m.workload(), GUARD, "the pod")
    m.x.have.clear()
    pod(m, "web-1", "10.0.2.7", annotations={"ambient.istio.io/redirection": "enabled"})
    until(lambda: m.workload().get(TUNNEL) == [1], GUARD, "HBONE")
    assert set(m.have()) == {UID}
    m.connect()


def test_pods_come_and_go(m):
    pod(m, "web-2", "10.0.2.8")
    until(lambda: m.workload("Kubernetes//Pod/shop/web-2").get(SERVICES), GUARD, "the second pod")
    assert m.control.delete(m.path("Pod", "shop", "web-2"), {"gracePeriodSeconds": 0}).status in (200, 202)
    until(lambda: "Kubernetes//Pod/shop/web-2" not in m.have(), GUARD, "its removal")


def test_a_crowd_comes_and_goes(m):
    """Pods come and go faster than they are published: the end is what counts."""
    for i in range(150):
        pod(m, f"crowd-{i}", f"10.1.0.{i + 1}")
        if i >= 50:
            gone = m.control.delete(m.path("Pod", "shop", f"crowd-{i - 50}"), {"gracePeriodSeconds": 0})
            assert gone.status in (200, 202)
    want = {f"Kubernetes//Pod/shop/crowd-{i}" for i in range(100, 150)}

    def crowd():
        return {n for n in m.have() if "/crowd-" in n}
    until(lambda: crowd() == want, GUARD, "the last fifty")
    assert all(m.workload(n)[SERVICES] for n in want)
    for i in range(100, 150):
        m.control.delete(m.path("Pod", "shop", f"crowd-{i}"), {"gracePeriodSeconds": 0})
    until(lambda: not crowd(), GUARD, "nobody")


def test_addresses_of_service_entries(m):
    until(lambda: m.get("ServiceEntry", "shop", "away", ISTIO).get("status", {}).get("addresses"), GUARD, "addresses")
    given = m.get("ServiceEntry", "shop", "away", ISTIO)["status"]["addresses"]
    assert [(a["host"], a["value"]) for a in given] == [("api.example", "240.240.0.1"), ("api.example", "2001:2::1")]
    until(lambda: len(m.service("shop/api.example").get(4, [])) == 2, GUARD, "the addresses over xDS")


def test_a_waypoint_and_its_conditions(m):
    def bound():
        return m.condition("Service", "shop", "web", "v1", "istio.io/WaypointBound")
    until(lambda: bound().get("reason") == "WaypointIsNotReady", GUARD, "the condition")
    assert bound()["status"] == "False" and bound()["message"] == 'waypoint "shop/waypoint" is not ready'
    assert 7 not in m.service()
    m.apply("Gateway", "waypoint", api="gateway.networking.k8s.io/v1", spec={
        "gatewayClassName": "istio-waypoint", "listeners": [{"name": "mesh", "port": 15008, "protocol": "HBONE"}]},
        status={"addresses": [{"type": "Hostname", "value": "waypoint.shop.svc.cluster.local"}]})
    until(lambda: 7 in m.service(), GUARD, "the waypoint over xDS")
    at = decode(m.service()[7][0])
    assert decode(at[1][0]) == {1: [b"shop"], 2: [b"waypoint.shop.svc.cluster.local"]} and at[3] == [15008]
    until(lambda: bound().get("status") == "True", GUARD, "the condition")
    assert bound()["message"] == "Successfully attached to waypoint shop/waypoint"
    managers = {f["manager"] for f in m.get("Service", "shop", "web")["metadata"]["managedFields"]}
    assert "istio-ambient-service" in managers


def test_policies_are_listed_and_known(m):
    key = "istio-system/istio_converted_static_strict"
    m.apply("PeerAuthentication", "default", "istio-system", api="security.istio.io/v1", spec={"mtls": {"mode": "STRICT"}})
    until(lambda: key.encode() in m.workload().get(POLICIES, []), GUARD, "the policy in the workload's list")
    until(lambda: key in m.have(AUTHORIZATION), GUARD, "the policy")
    m.apply("AuthorizationPolicy", "friends", api="security.istio.io/v1", spec={
        "selector": {"matchLabels": {"app": "web"}}, "action": "ALLOW",
        "rules": [{"from": [{"source": {"namespaces": ["shop"]}}]}]})
    until(lambda: b"shop/friends" in m.workload().get(POLICIES, []), GUARD, "the second policy in the list")
    assert "shop/friends" in m.have(AUTHORIZATION)
    until(lambda: m.condition("AuthorizationPolicy", "shop", "friends", "security.istio.io/v1", "ZtunnelAccepted").get(
        "status") == "True", GUARD, "its condition")
    assert m.control.delete(m.path("AuthorizationPolicy", "shop", "friends", "security.istio.io/v1")).status == 200
    until(lambda: "shop/friends" not in m.have(AUTHORIZATION), GUARD, "its removal")
    assert b"shop/friends" not in m.workload().get(POLICIES, [])


def test_a_policy_by_trust_domain_is_not_wider_than_written(m):
    m.apply("AuthorizationPolicy", "domains", api="security.istio.io/v1", spec={
        "selector": {"matchLabels": {"app": "web"}}, "action": "ALLOW",
        "rules": [{"from": [{"source": {"namespaces": ["shop"], "trustDomains": ["else.where"]}}]}]})
    source = m.get("AuthorizationPolicy", "shop", "domains", "security.istio.io/v1")["spec"]["rules"][0]["from"][0]["source"]
    assert source == {"namespaces": ["shop"], "trustDomains": ["else.where"]}, "nothing is pruned"
    until(lambda: "shop/domains" in m.have(AUTHORIZATION), GUARD, "the policy")
    assert b"else.where/" in m.have(AUTHORIZATION)["shop/domains"]
    assert m.control.delete(m.path("AuthorizationPolicy", "shop", "domains", "security.istio.io/v1")).status == 200


def test_a_restart_loses_nothing(m):
    until(lambda: m.workload() and WEB in m.have(), GUARD, "the shop")
    before = {n: v for n, v in m.have().items()}
    m.control.restart()
    m.x = None

    def again():
        try:
            if not m.x:
                m.connect()
            return set(m.have()) >= set(before)
        except (AssertionError, OSError):  # refused while it reads: a node comes again
            m.x = None
            return False
    until(again, GUARD, "the same again")
    assert m.have() == before


VISIBILITY = "--mesh-entry-visibility"


def test_entries_are_visible_as_the_labels_of_their_namespace_say(binary, tmp_path):
    """An ordered list, read from the first: hidden ones of a team, the team's own, and for all."""
    m = Mesh(binary, tmp_path, VISIBILITY, "none;team=a,stage in (test, dev)", VISIBILITY, "namespace;team=a")
    try:
        m.apply("Namespace", "shop", None, labels={"team": "a"})
        m.apply("Namespace", "other", None)
        for ns in ("shop", "other"):
            m.apply("ServiceEntry", "e", ns, ISTIO, spec={"hosts": ["h.example"], "addresses": ["240.9.0.1"],
                                                          "ports": [{"number": 80, "name": "http"}]})
        m.reach()

        def seen(ns):
            fields = m.service(f"{ns}/h.example")
            told = m.condition("ServiceEntry", ns, "e", ISTIO, "istio.io/VisibilityApplied")
            return fields and fields.get(14, [0])[0], told.get("reason")

        until(lambda: seen("shop") == (1, "Namespace") and seen("other") == (0, "Public"), GUARD, "both")
        m.apply("Namespace", "shop", None, labels={"team": "a", "stage": "dev"})
        until(lambda: seen("shop") == ({}, None), GUARD, "the entry to be hidden, and its condition to be gone")
        m.apply("Namespace", "shop", None, labels={"team": "b"})
        until(lambda: seen("shop") == (0, "Public"), GUARD, "the entry to be for all")
    finally:
        m.close()


@pytest.mark.parametrize("values, why", [
    (["everybody"], "not one of: unset, public, namespace, none"), (["namespace;a in b"], "a in b"),
    (["unset", "namespace"], "unset stands alone"), (["unset;a=b"], "unset stands alone")])
def test_a_visibility_that_makes_no_sense_is_refused(binary, tmp_path, values, why):
    flags = [word for v in values for word in (VISIBILITY, v)]
    done = subprocess.run([binary, "control", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--mesh-listen",
                           "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=GUARD * SLOW, check=False)
    assert done.returncode != 0 and VISIBILITY in done.stderr and why in done.stderr, done.stderr
