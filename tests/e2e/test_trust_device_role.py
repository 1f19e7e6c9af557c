# SPDX-License-Identifier: Apache-2.0
"""The credential of one device: it does its work as the manual page says, and reaches nothing of others."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from harness.control import Control, find_kubectl, needs_kubectl
from harness.device import Device
from harness.fabric import programmed
from harness.wait import until

DATUM1, DATUM = "/apis/networking.datumapis.com/v1alpha1", "/apis/networking.datumapis.com/v1alpha"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "doc/man/spanwire-connector.8.scd"
NS = "home"


def of(kind, name="", ns=NS, sub=""):
    group = {"leases": "/apis/coordination.k8s.io/v1", "httpproxies": DATUM, "secrets": "/api/v1", "pods": "/api/v1",
             "configmaps": "/api/v1", "services": "/api/v1", "serviceaccounts": "/api/v1", "events": "/api/v1",
             "endpoints": "/api/v1", "roles": RBAC, "rolebindings": RBAC,
             "gateways": "/apis/gateway.networking.k8s.io/v1", "httproutes": "/apis/gateway.networking.k8s.io/v1",
             "endpointslices": "/apis/discovery.k8s.io/v1"}.get(kind, DATUM1)
    return f"{group}/namespaces/{ns}/{kind}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


class Account:
    """Requests with a device's token."""

    def __init__(self, control, token):
        self.control, self.head = control, {"Authorization": f"Bearer {token}"}
        self.plain = control.context(cert=False)

    def get(self, path):
        return self.control.request("GET", path, headers=self.head, context=self.plain)

    def post(self, path, body):
        return self.control.request("POST", path, body, headers=self.head, context=self.plain)

    def put(self, path, body):
        return self.control.request("PUT", path, body, headers=self.head, context=self.plain)

    def delete(self, path):
        return self.control.request("DELETE", path, headers=self.head, context=self.plain)

    def patch(self, path, body, kind="merge"):
        query = "?fieldManager=device&force=true" if kind == "apply" else ""
        return self.control.patch(path, body, kind, query, headers=self.head, context=self.plain)


class World:
    def __init__(self, binary, where):
        self.binary, self.where, self.parts = binary, where, contextlib.ExitStack()
        self.control = self.parts.enter_context(programmed(
            Control, binary, where / "control", "--connector-lease", "10s", "--loopback-endpoints"))
        for ns in (NS, "other"):
            assert self.control.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": ns}}).status == 201

    def close(self):
        self.parts.close()

    def role(self, name, ns=NS):
        """What 'spanwire connector role' prints, applied; the account's token."""
        out = subprocess.run([self.binary, "connector", "role", "--name", name, "--namespace", ns], check=True,
                             capture_output=True, text=True).stdout
        for o in yaml.safe_load_all(out):
            path = of({"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}[o["kind"]],
                      o["metadata"]["name"], o["metadata"]["namespace"])
            answer = self.control.patch(path, o, "apply", "?fieldManager=test")
            assert answer.status in (200, 201), answer
        answer = self.control.post(of("serviceaccounts", name, ns, "token"), {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def kubeconfig(self, name, token, ns=NS):
        base = yaml.safe_load(pathlib.Path(self.control.kubeconfig).read_text(encoding="utf-8"))
        base["users"][0]["user"] = {"token": token}
        base["contexts"][0]["context"]["namespace"] = ns
        path = self.where / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(base), encoding="utf-8")
        return path

    def condition(self, name, kind="Ready", resource="connectors"):
        found = self.control.get(of(resource, name))
        for c in found.json.get("status", {}).get("conditions", []) if found.status == 200 else ():
            if c["type"] == kind:
                return c["status"]
        return None


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("role"))
    yield w
    w.close()


@pytest.fixture(scope="module")
def devices(world, file_web):
    """Two devices of one namespace, each with its own account and a public name; one in another namespace."""
    made = {}
    for name, ns in (("laptop", NS), ("nas", NS), ("far", "other")):
        config = world.kubeconfig(name, world.role(name, ns), ns)
        d = Device(world.binary, world.where / name, config, "--name", name, command=("expose", str(file_web.port)))
        until(lambda d=d: d.alive and re.search(r"^(https?://\S+)  ->  ", d.log(), re.M), what=f"{name}: {d.log()[-800:]}")
        made[name] = d
    yield made
    for d in made.values():
        d.stop()
        d.check()


@pytest.fixture(scope="module")
def laptop(world, devices):
    return Account(world.control, world.role("laptop"))


def test_a_device_works_with_its_own_rights(world, devices):
    """Connector, Lease, status, proof, advertisement, HTTPProxy: all there, by the device's account alone."""
    for name in ("laptop", "nas"):
        until(lambda n=name: world.condition(n) == "True" and world.condition(n, "KeyProved") == "True")
        assert world.condition(name, "Programmed", "httpproxies") == "True"
        assert world.control.get(of("connectoradvertisements", name)).json["spec"]["connectorRef"]["name"] == name
        assert "API refused the request" not in devices[name].log()
        # The controller and the device write the same object under different names.
        until(lambda n=name: "spanwire.dev/gateway-ids" in world.control.get(of("connectors", n)).json["metadata"]["annotations"])


def thing(kind, name, spec, **meta):
    api = "networking.datumapis.com/" + ("v1alpha" if kind == "HTTPProxy" else "v1alpha1")
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def connector(name, class_name="datum-connect", **meta):
    return thing("Connector", name, {"connectorClassName": class_name}, **meta)


def advert(name, to):
    return thing("ConnectorAdvertisement", name, {"connectorRef": {"name": to}, "layer4": [{"name": "default", "services": [
        {"address": "127.0.0.1", "ports": [{"name": "ssh", "port": 22, "protocol": "TCP"}]}]}]})


def proxy(name, *backends, filters=None, **meta):
    rule = {"backends": list(backends)}
    if filters:
        rule["filters"] = filters
    return thing("HTTPProxy", name, {"rules": [rule]}, **meta)


def via(name):
    return {"endpoint": "http://127.0.0.1:22", "connector": {"name": name}}


STATUS = {"status": {"connectionDetails": {"type": "PublicKey", "publicKey": {"id": "0" * 64, "addresses": []}}}}
QUESTION = {"type": "ExternalAuth", "externalAuth": {  # whose answer the client would see
    "protocol": "HTTP", "backendRef": {"name": "internal", "port": 80}, "http": {"path": "/admin"}}}
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "web", "port": 80}}}
OWNER = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y", "blockOwnerDeletion": True}]
OURS = ("connectors", "connectoradvertisements", "httpproxies", "leases")

ATTEMPTS = {
    # Of another device in the namespace, and of one elsewhere.
    **{f"read {k} of {n}": ("get", of(k, n, ns)) for k in OURS for n, ns in (("nas", NS), ("far", "other"))},
    **{f"list {k}{q}": ("get", of(k) + q) for k in OURS for q in ("", "?watch=1", "?fieldSelector=metadata.name%3Dnas")},
    **{f"list {k} everywhere": ("get", of(k).replace(f"/namespaces/{NS}", "")) for k in OURS},
    "list by key": ("get", of("connectors") + "?fieldSelector=status.connectionDetails.publicKey.id%3D" + "0" * 64),
    "list by two names": ("get", of("connectors") + "?fieldSelector=metadata.name%21%3Dlaptop"),
    "list adverts by connector": ("get", of("connectoradvertisements") + "?fieldSelector=spec.connectorRef.name%3Dnas"),
    **{f"patch {k} of nas": ("patch", of(k, "nas"), {"metadata": {"annotations": {"x": "y"}}}) for k in OURS},
    **{f"delete {k} of nas": ("delete", of(k, "nas")) for k in OURS},
    **{f"delete all {k}": ("delete", of(k)) for k in OURS},
    **{f"delete {k} by selector": ("delete", of(k) + "?fieldSelector=metadata.name%3Dlaptop") for k in OURS},
    "status of nas": ("patch", of("connectors", "nas", sub="status"), STATUS),
    "put status of nas": ("put", of("connectors", "nas", sub="status"), {**connector("nas"), **STATUS}),
    "status of an HTTPProxy": ("patch", of("httpproxies", "laptop", sub="status"), {"status": {"canonicalHostname": "x.y"}}),
    "status of an advertisement": ("patch", of("connectoradvertisements", "laptop", sub="status"), {"status": {}}),
    "take the Lease of nas": ("patch", of("leases", "nas"), {"spec": {"holderIdentity": "me"}}),
    # Of other names, by every way that makes something.
    "create a Connector": ("post", of("connectors"), connector("more")),
    "create its own name": ("post", of("connectors"), connector("laptop")),
    "create by generated name": ("post", of("connectors"), {**connector("x"), "metadata": {"generateName": "laptop"}}),
    "apply a Connector": ("apply", of("connectors", "more"), connector("more")),
    "put a Connector": ("put", of("connectors", "more"), connector("more")),
    "apply an HTTPProxy": ("apply", of("httpproxies", "more"), proxy("more", via("laptop"))),
    "apply an advertisement": ("apply", of("connectoradvertisements", "more"), advert("more", "laptop")),
    "apply a Lease": ("apply", of("leases", "more"), {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                                                      "metadata": {"name": "more"}, "spec": {}}),
    "apply in another namespace": ("apply", of("connectors", "laptop", "other"), connector("laptop")),
    # Its own objects, used against others.
    "route to nas": ("apply", of("httpproxies", "laptop"), proxy("laptop", via("nas"))),
    "route by patch": ("patch", of("httpproxies", "laptop"), {"spec": {"rules": [{"backends": [via("nas")]}]}}),
    "route to the inside": ("apply", of("httpproxies", "laptop"), proxy("laptop", {"endpoint": "http://intern.example.com"})),
    "route to an instance": ("apply", of("httpproxies", "laptop"), proxy("laptop", {"instance": {"name": "db", "port": 5432}})),
    "mirror": ("apply", of("httpproxies", "laptop"), proxy("laptop", via("laptop"), filters=[MIRROR])),
    "ask a Service": ("apply", of("httpproxies", "laptop"), proxy("laptop", via("laptop"), filters=[QUESTION])),
    "ask a Service behind a backend": ("apply", of("httpproxies", "laptop"),
                                       proxy("laptop", {**via("laptop"), "filters": [QUESTION]})),
    "hold its HTTPProxy": ("patch", of("httpproxies", "laptop"), {"metadata": {"finalizers": ["example.com/never"]}}),
    "select others": ("patch", of("httpproxies", "laptop"),
                      {"metadata": {"annotations": {"spanwire.dev/connector-selector": "site=home"}}}),
    "advertise for nas": ("apply", of("connectoradvertisements", "laptop"), advert("laptop", "nas")),
    "advertise by patch": ("patch", of("connectoradvertisements", "laptop"), {"spec": {"connectorRef": {"name": "nas"}}}),
    "label its Connector": ("patch", of("connectors", "laptop"), {"metadata": {"labels": {"site": "home"}}}),
    "label by apply": ("apply", of("connectors", "laptop"), connector("laptop", labels={"site": "home"})),
    "label its HTTPProxy": ("patch", of("httpproxies", "laptop"), {"metadata": {"labels": {"app": "x"}}}),
    "own its Connector": ("patch", of("connectors", "laptop"), {"metadata": {"ownerReferences": OWNER}}),
    "another class": ("patch", of("connectors", "laptop"), {"spec": {"connectorClassName": "iroh-quic-tunnel"}}),
    # Everything else.
    **{f"list {k}": ("get", of(k)) for k in ("secrets", "configmaps", "pods", "services", "serviceaccounts", "roles",
                                             "rolebindings", "gateways", "httproutes", "endpointslices", "endpoints", "events")},
    "read the system's ConfigMaps": ("get", of("configmaps", ns="spanwire-system")),
    "name a gateway": ("post", of("configmaps", ns="spanwire-system"), {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway-evil", "labels": {
            "spanwire.dev/gateway-identity": "true"}}, "data": {"id": "0" * 64}}),
    "a certificate": ("get", of("secrets", "laptop-0")),
    "a token of its own": ("post", of("serviceaccounts", "laptop", sub="token"), {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    "a token of nas": ("post", of("serviceaccounts", "nas", sub="token"), {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    "more rights": ("patch", of("roles", "spanwire-device-laptop"), {"rules": []}),
    "bind": ("post", of("rolebindings"), {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {
        "name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "laptop", "namespace": NS}]}),
    "classes": ("patch", f"{DATUM1}/connectorclasses/datum-connect", {"metadata": {"annotations": {
        "spanwire.dev/key-proof": "NotRequired"}}}),
    "the policy": ("delete", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/spanwire-devices"),
    "namespaces": ("get", "/api/v1/namespaces"),
    "metrics": ("get", "/metrics"),
    "configuration": ("get", "/xds"),
}


# RBAC lets these through.
BY_POLICY = {"route to nas", "route by patch", "route to the inside", "route to an instance", "mirror", "ask a Service",
             "ask a Service behind a backend", "hold its HTTPProxy", "select others",
             "advertise for nas", "advertise by patch", "label its Connector", "label by apply", "label its HTTPProxy",
             "own its Connector", "another class"}


def state(world):
    """Of everything that is not the laptop's."""
    out = {}
    for ns in (NS, "other"):
        for kind in ("connectors", "connectoradvertisements", "httpproxies", "roles", "rolebindings", "configmaps"):
            for o in world.control.get(of(kind, ns=ns)).json["items"]:
                out[ns, kind, o["metadata"]["name"]] = o.get("spec", o.get("rules")), o["metadata"].get("labels")
    return out


def test_no_attempt_of_a_device_succeeds(world, devices, laptop):
    assert len(ATTEMPTS) >= 60
    before, done = state(world), []
    for what, (verb, *args) in ATTEMPTS.items():
        answer = laptop.patch(*args, kind="apply") if verb == "apply" else getattr(laptop, verb)(*args)
        # 422: the kind's own rules refused it first; 404 and 405 would say that the way was open.
        if answer.status not in (403, 422) or (what in BY_POLICY and "spanwire-devices" not in answer.message):
            done.append((what, answer))
    assert not done
    assert state(world) == before
    for name in ("laptop", "nas"):
        assert world.condition(name) == "True"


def test_what_is_its_own_it_may_do(world, devices, laptop):
    """The same requests for its own name: the refusals above are not for want of any right."""
    for kind in OURS:
        assert laptop.get(of(kind, "laptop")).status == 200
    for kind in OURS[:3]:
        listed = laptop.get(of(kind) + "?fieldSelector=metadata.name%3Dlaptop")
        assert listed.status == 200 and [o["metadata"]["name"] for o in listed.json["items"]] == ["laptop"]
    assert laptop.patch(of("connectors", "laptop"), {"metadata": {"annotations": {"note": "mine"}}}).status == 200
    assert laptop.patch(of("httpproxies", "laptop"), {"metadata": {"annotations": {"note": "mine"}}}).status == 200


def test_people_and_wide_roles_are_not_limited(world, devices):
    """The policy is for rights by name: an administrator labels, selects and routes as before."""
    c = world.control
    assert c.patch(of("connectors", "nas"), {"metadata": {"labels": {"site": "home"}}}).status == 200
    assert c.patch(of("httpproxies", "people"), proxy("people", via("nas"), labels={"a": "b"}), "apply",
                   "?fieldManager=test").status == 201
    # The ClusterRole of a namespace's owner, bound as the manual page says.
    assert c.post(of("serviceaccounts"), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owner"}}).status == 201
    assert c.post(of("rolebindings"), {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "spanwire-connector"},
        "subjects": [{"kind": "ServiceAccount", "name": "owner", "namespace": NS}]}).status == 201
    token = c.post(of("serviceaccounts", "owner", sub="token"), {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).json["status"]["token"]
    owner = Account(c, token)
    until(lambda: owner.get(of("connectors")).status == 200)
    assert owner.patch(of("httpproxies", "people"), {"metadata": {"labels": {"a": "c"}}}).status == 200
    # Classes are not of a namespace, so it may not read them: it comes up all the same.
    d = Device(world.binary, world.where / "owner", world.kubeconfig("owner", token))
    try:
        name = d.wait_live()["connector"]
        until(lambda: world.condition(name) == "True")
    finally:
        d.stop()
        d.check()
    assert c.delete(of("httpproxies", "people")).status == 200


def test_a_device_without_a_name_says_what_is_missing(world, devices):
    d = Device(world.binary, world.where / "nameless", world.kubeconfig("nameless", world.role("nameless")))
    try:
        until(lambda: "--name is needed" in d.log())
    finally:
        d.stop()


def test_advertisements_of_its_own_name_count(world, devices, file_web):
    """What an administrator puts there is served; one of another name is not seen with such rights."""
    config = world.kubeconfig("plain", world.role("plain"))
    d = Device(world.binary, world.where / "plain", config, "--name", "plain")
    try:
        d.wait_live()
        until(lambda: world.condition("plain") == "True")
        assert world.control.post(of("connectoradvertisements"), advert("plain", "plain")).status == 201
        until(lambda: "22" in str(d.status()["destinations"]))
        # One that has the name and is for another opens nothing here.
        world.control.patch(of("connectoradvertisements", "plain"), {"spec": {"connectorRef": {"name": "nas"}}})
        until(lambda: not d.status()["destinations"])
    finally:
        d.stop()
        d.check()


def test_rm_takes_away_what_was_made(world, devices, file_web):
    config = world.kubeconfig("brief", world.role("brief"))
    d = Device(world.binary, world.where / "brief", config, "--name", "brief", "--rm", command=("expose", str(file_web.port)))
    until(lambda: re.search(r"^(https?://\S+)  ->  ", d.log(), re.M), what="the URL")
    d.stop()
    for kind in OURS[:3]:
        until(lambda k=kind: world.control.get(of(k, "brief")).status == 404, what=f"{kind} to go")


def commands(n):
    """The n-th block of commands of the manual page's section ENROLMENT."""
    section = PAGE.read_text(encoding="utf-8").split("# ENROLMENT\n")[1].split("\n# ")[0]
    return re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)[n]


@needs_kubectl
def test_the_manual_pages_steps(binary, file_web, tmp_path):
    """Typed as they are written, from an empty directory, by an administrator; then on the device."""
    control = Control(binary, tmp_path / "control", "--connector-lease", "10s")
    try:
        where = tmp_path / "admin"
        tools = tmp_path / "bin"
        where.mkdir()
        tools.mkdir()
        (tools / "kubectl").symlink_to(find_kubectl())
        (tools / "spanwire").symlink_to(shutil.which(binary) or os.path.abspath(binary))
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(control.kubeconfig), "HOME": str(where)}
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", commands(0)], cwd=where, env=env, capture_output=True, text=True,
                             check=False)
        assert ran.returncode == 0, ran
        run, expose = commands(1).strip().splitlines()
        assert run.split()[:3] == ["spanwire", "connector", "run"] and expose.split()[:2] == ["spanwire", "expose"]
        d = Device(binary, tmp_path / "device", where / "laptop.kubeconfig", *run.split()[5:])
        try:
            assert d.wait_live()["connector"] == "laptop"
            path = f"{DATUM1}/namespaces/home/connectors/laptop"
            until(lambda: [c["status"] for c in control.get(path).json["status"]["conditions"] if c["type"] == "Ready"] == ["True"])
        finally:
            d.stop()
            d.check()
        text = (where / "laptop.kubeconfig").read_text(encoding="utf-8")
        assert "client-key-data" not in text and (control.data / "pki/admin.token").read_text().strip() not in text
    finally:
        control.close()
