# SPDX-License-Identifier: Apache-2.0
"""
Links and joining machines on a cluster: control planes with the accounts of deploy/kubernetes and the components link and
join, or those of the chart, and nothing else. Two sites are linked, a machine joins, and rights that are not needed are not
there.
"""
import contextlib
import json
import re
import socket
import types

import pytest
import yaml
from harness import deploy
from harness import rights as rt
from harness.control import Control, _Here, need_kubectl
from harness.deploy import NAMESPACE
from harness.join import ENTRIES, Fabric, words
from harness.link import Link
from harness.link_control import API, Site
from harness.link_control import Fabric as Authority
from harness.node import _SANITIZER, Process
from harness.ports import free_port
from harness.serve import Each
from harness.wait import GUARD, until
from test_deploy import apply, dry_run

RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
USER = f"system:serviceaccount:{NAMESPACE}:spanwire-control"


class Place:
    """A cluster that keeps an audit log, a control plane with the account of the manifests, and a data plane."""

    def __init__(self, binary, where, authority, name, stack, *components, chart=False):
        self.name, self.gateway = name, free_port()
        self.audit = where / "audit"
        where.mkdir()
        self.audit.touch()
        self.api = Control(binary, where / "api", "--gateway=false", "--connector=false", "--relaxed-sync", "--audit-log",
                           str(self.audit))
        stack.callback(self.api.close)
        self.grant(where, components, chart)
        self.caller = rt.Caller(self.api, rt.token_of(self.api, NAMESPACE, "spanwire-control"))
        config = yaml.safe_load(self.api.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": self.caller.token}
        (where / "kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
        files = authority.peer(name, where=where / "fabric")
        self.secret("cl-peer", {part: (files / part).read_text() for part in ("ca.pem", "cert.pem", "key.pem")})
        join = ["--join-address", f"127.0.0.1:{free_port()}"] if "join" in components else []
        at = join[1] if join else "127.0.0.1:0"
        self.process = Process(_Here(), [
            binary, "control", "--kubeconfig", str(where / "kubeconfig"), "--lease-namespace", NAMESPACE, "--identity", name,
            "--data", str(where / "data"), "--xds-secret", "spanwire-xds", "--admin-addr", "127.0.0.1:0", "--connector=false",
            "--gateway=false", "--mesh-listen", at, "--ca-secret", "--mesh-root-namespace", NAMESPACE, "--link-listen",
            "127.0.0.1:0", "--link-namespace", NAMESPACE, "--upstream-allow", "127.0.0.0/8", "--link-export-host",
            "127.0.0.1", *join], where / "control.log")
        stack.callback(self.stop)
        port = int(until(lambda: re.findall(r"links on 127\.0\.0\.1:(\d+)", self.log()), what="links")[-1])
        self.site = Site.__new__(Site)
        self.site.control, self.site.name = self.api, name
        self.link = Link(binary, types.SimpleNamespace(where=where / "data/link-site", port=port), port=self.gateway, wait=False)
        stack.callback(self.link.stop, None)

    def grant(self, where, components, chart):
        """Rights by 'helm install', or by the manifests; where there is no Helm, with the label that it writes."""
        if chart and deploy.find_helm():
            deploy.install(self.api, where, "--set", "gateway.enabled=false", *deploy.component_flags(*components))
            return
        for o in deploy.overlaid(where / "overlay", *components):
            if o["kind"] in RIGHTS and not o["metadata"]["name"].startswith("spanwire-control-gateway"):
                if chart:
                    o["metadata"].setdefault("labels", {})["app.kubernetes.io/managed-by"] = "Helm"
                apply(self.api, o)

    def log(self):
        return self.process.log()

    def secret(self, name, data):
        rt.make(self.api, f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": name}, "stringData": data})

    def peer(self, other):
        self.site.put("peers", "Peer", other.name, {"gateways": [{"host": "127.0.0.1", "port": other.gateway}]}, NAMESPACE)

    def refused(self):
        """What the control plane asked for and was refused."""
        lines = [json.loads(x) for x in self.audit.read_text(encoding="utf-8").splitlines(keepends=True) if x.endswith("\n")]
        return {(e["verb"], e["path"]) for e in lines if e["user"] == USER and e["code"] == 403}

    def stop(self):
        if self.process.alive:
            self.process.signal(15)
            assert self.process.wait(GUARD) == 0, self.log()[-3000:]
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]


@pytest.fixture
def places(binary, tmp_path):
    need_kubectl()
    authority = Authority(tmp_path / "authority")
    with contextlib.ExitStack() as stack:
        yield [Place(binary, tmp_path / name, authority, name, stack, *parts, chart=chart)
               for name, parts, chart in (("east", ("link", "join"), False), ("west", ("link",), True))]


def echo(s):
    while data := s.recv(4096):
        s.sendall(data)


def test_a_link_and_a_machine_with_the_rights_of_the_manifests(places, binary, tmp_path):
    east, west = places
    west.peer(east)
    east.peer(west)
    service = Each(echo)
    with contextlib.closing(service):
        east.site.put("exports", "Export", "web", {"host": "127.0.0.1", "port": service.port})
        west.site.put("imports", "Import", "web", {
            "port": 80, "sources": [{"peer": "east", "exportName": "web", "exportNamespace": "default"}]})
        for place in places:
            place.site.policy("all")

        def imported():
            return west.api.get(f"{API}/namespaces/default/imports/web").json

        def valid():
            conditions = imported().get("status", {}).get("conditions", ())
            return len(conditions) == 2 and all(c["status"] == "True" for c in conditions)
        until(valid, what=f"the Import: {west.log()[-1500:]}")
        # As ClusterLink has it on a cluster: a name in the Import's namespace that leads to data planes in that of the system.
        user = west.api.get("/api/v1/namespaces/default/services/web").json["spec"]
        assert user["type"] == "ExternalName" and user["externalName"].endswith(f".{NAMESPACE}.svc.cluster.local")
        port = imported()["spec"]["targetPort"]

        def answered():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(b"hello")
                return s.recv(5) == b"hello"
            return False
        until(answered, what=f"an answer through both sites: {west.log()[-1500:]}")
        reachable = f"{API}/namespaces/{NAMESPACE}/peers/east"
        until(lambda: any(c["status"] == "True" for c in west.api.get(reachable).json.get("status", {}).get("conditions", ())),
              what="the heartbeat in the Peer's status")
        assert west.api.delete(f"{API}/namespaces/default/imports/web").status == 200
        until(lambda: west.api.get("/api/v1/namespaces/default/services/web").status == 404, what="the Service to go")
    # A machine joins by a code, renews and leaves.
    rt.namespace(east.api, "shop")
    run = types.SimpleNamespace(binary=binary)
    done = Fabric.command(run, "token", "create", "--name", "vm", "--namespace", "shop", "--address", "192.0.2.7",
                          "--kubeconfig", str(east.api.kubeconfig))
    [line] = done.stdout.splitlines()
    Fabric.command(run, *words(line), "--state", str(tmp_path / "vm"), "--wait", "20s", "--no-run")
    entry = f"{ENTRIES.format('shop')}/vm"
    assert east.api.get(entry).json["spec"]["address"] == "192.0.2.7"
    Fabric.command(run, "join", "--state", str(tmp_path / "vm"), "--renew")
    Fabric.command(run, "join", "--state", str(tmp_path / "vm"), "--leave")
    until(lambda: east.api.get(entry).status == 404, what="the entry to go")
    for place in places:
        assert not place.refused(), place.name
        assert "orbidden" not in place.log(), place.log()[-3000:]


def test_rights_that_are_not_needed_are_not_there(places):
    east, west = places
    rt.namespace(west.api, "shop")
    rt.make(west.api, "/api/v1/namespaces/shop/secrets", {"metadata": {"name": "theirs"}, "stringData": {"a": "b"}})
    for path in ("/api/v1/secrets", "/api/v1/namespaces/shop/secrets", "/api/v1/namespaces/shop/secrets/theirs",
                 f"/api/v1/namespaces/{NAMESPACE}/secrets", f"/api/v1/namespaces/{NAMESPACE}/secrets/spanwire-link-site"):
        assert west.caller.get(path).status == 403, path
    jwk = f"/api/v1/namespaces/{NAMESPACE}/secrets?fieldSelector=metadata.name%3Djwk"
    until(lambda: west.caller.get(jwk).json.get("items"), what="the key of tokens, made by control")
    group = "clusterlink.net"
    for place in places:
        for verb, resource, kw in (("create", "imports", {"group": group}), ("delete", "imports", {"group": group}),
                                   ("create", "accesspolicies", {"group": group}), ("patch", "accesspolicies", {"group": group}),
                                   ("patch", "peers", {"group": group}), ("patch", "exports", {"group": group}),
                                   ("create", "clusterroles", {"group": "rbac.authorization.k8s.io"}),
                                   ("create", "serviceaccounts", {"sub": "token"}), ("create", "namespaces", {}),
                                   ("delete", "pods", {}), ("create", "pods", {}), ("update", "services", {}),
                                   ("delete", "workloadentries", {"group": "networking.istio.io"})):
            assert not place.caller.may(verb, resource, **kw), (place.name, verb, resource, kw)
        link = rt.Caller(place.api, rt.token_of(place.api, NAMESPACE, "spanwire-link"))
        assert link.get(f"{API}/namespaces/default/imports").status == 403
    assert east.caller.may("patch", "secrets", namespace="shop") and not east.caller.may("create", "secrets", namespace="shop")


def test_an_api_takes_the_components(binary, tmp_path):
    need_kubectl()
    api = Control(binary, tmp_path / "api", "--gateway=false", "--connector=false", "--relaxed-sync")
    with contextlib.closing(api):
        apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        objects = deploy.overlaid(tmp_path / "overlay", "link", "join")
        assert len(dry_run(api, objects)) == len(objects)
    pods = deploy.pods(objects)
    assert not deploy.violations(pods["spanwire-link"]["spec"]) and not deploy.violations(pods["spanwire-control"]["spec"])
    # The data plane has no token, no key but its own.
    spec = pods["spanwire-link"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert [i["key"] for i in spec["volumes"][0]["secret"]["items"]] == ["ca.pem", "dataplane.pem", "dataplane.key"]
