# SPDX-License-Identifier: Apache-2.0
"""
What roles and credentials are worth: labels that pass rules on, streams whose credential goes, the least credential of
every role, data planes that see their own Gateways only, bundled roles in old data, and who the audit log names.
"""
import base64
import copy
import json
import os
import pathlib
import stat
import time

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from harness import fabric as fb
from harness import rights as rt
from harness.control import Control, Watch
from harness.gateway import free_port
from harness.rights import RBAC
from harness.wait import GUARD, until
from harness.xds_client import (CDS, EDS, LDS, PERMISSION_DENIED, RDS, SDS, UNAUTHENTICATED, Xds)

ROLES = f"{RBAC}/clusterroles"
TO_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"
NOTE = "spanwire.dev/bundled-rules"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
SECRET_RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}


def audit_of(api):
    return [json.loads(line) for line in (api.dir / "audit").read_text(encoding="utf-8").splitlines(keepends=True)
            if line.endswith("\n")]


@pytest.fixture(scope="module", name="api")
def _api(binary, tmp_path_factory):
    where = tmp_path_factory.mktemp("trust-roles")
    (where / "audit").touch()
    api = Control(binary, where, "--gateway", "false", "--connector", "false", "--relaxed-sync", "--audit-log",
                  str(where / "audit"))
    rt.namespace(api, "team")
    yield api
    api.close()


# --- labels ---

@pytest.fixture(scope="module", name="labeller")
def _labeller(api):
    """He may write cluster roles, and holds no right to Secrets."""
    caller = rt.account(api, "team", "labeller")
    rt.cluster_role(api, "role-writers", [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
         "verbs": ["get", "list", "create", "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])
    rt.bind(api, "team", "labeller", "role-writers", everywhere=True)
    rt.cluster_role(api, "secret-readers", [SECRET_RULE])
    rt.make(api, ROLES, {"metadata": {"name": "ops"}, "rules": [],
                         "aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [
                             {"key": "team", "operator": "In", "values": ["ops", "sre"]}]}]}})
    return caller


def labels_of(api, role):
    return api.get(f"{ROLES}/{role}").json["metadata"].get("labels", {})


def put_label(caller, role, key, value):
    obj = caller.get(f"{ROLES}/{role}").json
    obj["metadata"].setdefault("labels", {})[key] = value
    return caller.put(f"{ROLES}/{role}", obj)


LABEL_ATTEMPTS = {
    "merge patch": lambda c, r, k, v: c.patch(f"{ROLES}/{r}", {"metadata": {"labels": {k: v}}}),
    "json patch": lambda c, r, k, v: c.patch(f"{ROLES}/{r}", [
        {"op": "add", "path": "/metadata/labels", "value": {k: v}}], "json"),
    "apply": lambda c, r, k, v: c.patch(f"{ROLES}/{r}?fieldManager=x&force=true", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": r, "labels": {k: v}}}, "apply"),
    "update": put_label,
}


@pytest.mark.parametrize("how", LABEL_ATTEMPTS)
@pytest.mark.parametrize("role, key, value", [("cluster-admin", TO_VIEW, "true"), ("secret-readers", TO_VIEW, "true"),
                                              ("secret-readers", "team", "sre"), ("edit", TO_VIEW, "true")])
def test_a_label_does_not_pass_on_what_one_does_not_hold(api, labeller, how, role, key, value):
    answer = LABEL_ATTEMPTS[how](labeller, role, key, value)
    assert answer.status == 403 and "not currently held" in answer.json["message"], answer
    assert labels_of(api, role).get(key) != value


def test_cluster_admin_does_not_flow_into_view(api, labeller):
    viewer = rt.account(api, "team", "viewer")
    rt.bind(api, "team", "viewer", "view")
    rt.make(api, "/api/v1/namespaces/team/secrets", {"metadata": {"name": "pin"}, "data": {"pin": rt.b64("1234")}})
    until(lambda: viewer.get("/api/v1/namespaces/team/configmaps").status == 200, GUARD, "the viewer's rights")
    labeller.patch(f"{ROLES}/cluster-admin", {"metadata": {"labels": {TO_VIEW: "true"}}})
    # What follows is ordered behind it: the controller that aggregates has seen both.
    rt.cluster_role(api, "view-more", [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}],
                    {TO_VIEW: "true"})
    until(lambda: any("example.com" in r.get("apiGroups", []) for r in api.get(f"{ROLES}/view").json["rules"]), GUARD,
          "the aggregated rules")
    assert viewer.get("/api/v1/namespaces/team/secrets/pin").status == 403
    assert "escalation" in api.get("/metrics").body.decode()
    until(lambda: "may not write clusterroles 'cluster-admin'" in api.log(), GUARD, "the reason in the log")


def test_new_roles_and_named_escalation_do_not_get_round_it(api, labeller):
    """Whoever may escalate one role of his own does not thereby write into 'view'."""
    rt.cluster_role(api, "escalate-mine", [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
                                            "resourceNames": ["mine", "held"], "verbs": ["escalate"]}])
    rt.bind(api, "team", "labeller", "escalate-mine", everywhere=True)
    mine = {"metadata": {"name": "mine"}, "rules": [SECRET_RULE]}
    until(lambda: labeller.may("escalate", "clusterroles", "rbac.authorization.k8s.io", "", "mine"), GUARD, "the right")
    labelled = {**mine, "metadata": {"name": "mine", "labels": {TO_VIEW: "true"}}}
    assert labeller.post(ROLES, labelled).status == 403
    assert labeller.post(ROLES, mine).status == 201
    assert labeller.patch(f"{ROLES}/mine", {"metadata": {"labels": {TO_VIEW: "true"}}}).status == 403
    # In two steps: an empty role gets the label, then the rules.
    assert labeller.post(ROLES, {"metadata": {"name": "held", "labels": {TO_VIEW: "true"}}, "rules": []}).status == 201
    assert labeller.patch(f"{ROLES}/held", {"rules": [SECRET_RULE]}).status == 403
    # With the label and without the rules in one, to get them back by aggregation.
    assert labeller.patch(f"{ROLES}/edit", {"rules": [], "metadata": {"labels": {TO_VIEW: "true"}}}).status == 403


def test_labels_that_pass_on_what_one_holds_are_fine(api, labeller):
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    rt.cluster_role(api, "config-readers", [rule])
    assert labeller.patch(f"{ROLES}/config-readers", {"metadata": {"labels": {TO_VIEW: "true"}}}).status == 200
    # Labels that select nothing are nobody's business.
    assert labeller.patch(f"{ROLES}/secret-readers", {"metadata": {"labels": {"colour": "red"}}}).status == 200
    rt.cluster_role(api, "escalate-view", [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
                                            "resourceNames": ["view", "edit", "admin"], "verbs": ["escalate"]}])
    chief = rt.account(api, "team", "chief")
    rt.bind(api, "team", "chief", "role-writers", everywhere=True)
    rt.bind(api, "team", "chief", "escalate-view", everywhere=True)
    until(lambda: chief.may("escalate", "clusterroles", "rbac.authorization.k8s.io", "", "view"), GUARD, "the right")
    assert chief.patch(f"{ROLES}/secret-readers", {"metadata": {"labels": {TO_VIEW: "true"}}}).status == 200
    assert chief.patch(f"{ROLES}/secret-readers", {"metadata": {"labels": {TO_VIEW: None}}}).status == 200


# --- audit ---

def test_the_audit_log_names_both_users(api):
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "devs"}
    api.get("/api/v1/namespaces/team/configmaps?who=both", headers=headers)
    api.get("/api/v1/namespaces/team/configmaps?who=one")

    def seen():
        return [e for e in audit_of(api) if e["path"] == "/api/v1/namespaces/team/configmaps"
                and e.get("impersonatedUser") == "jane"]
    entry = until(seen, GUARD, "the line")[0]
    assert entry["user"] == "kubernetes-admin" and "devs" in entry["impersonatedGroups"], entry
    plain = [e for e in audit_of(api) if e["user"] == "kubernetes-admin" and "impersonatedUser" not in e]
    assert plain


# --- credentials that go ---

def watch_as(caller, path):
    c = caller.control.connection(context=caller.bare)
    c.request("GET", path, headers={"Authorization": f"Bearer {caller.token}"})
    return c, c.getresponse()


def ends(answer):
    """The last events of a watch that ends by itself."""
    lines = [json.loads(line) for line in iter(answer.readline, b"")]
    return lines


WATCHED = "/api/v1/namespaces/team/configmaps?watch=true&allowWatchBookmarks=true"


def account_goes(api):
    caller = rt.account(api, "team", "leaver")
    rt.bind(api, "team", "leaver", "view")
    return caller, lambda: api.delete("/api/v1/namespaces/team/serviceaccounts/leaver")


def secret_goes(api):
    rt.account(api, "team", "bound")
    rt.bind(api, "team", "bound", "view")
    rt.make(api, "/api/v1/namespaces/team/secrets", {"metadata": {"name": "leash"}})
    token = rt.token_of(api, "team", "bound", boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "leash"})
    return rt.Caller(api, token), lambda: api.delete("/api/v1/namespaces/team/secrets/leash")


def binding_goes(api):
    caller = rt.account(api, "team", "demoted")
    rt.bind(api, "team", "demoted", "view")
    return caller, lambda: api.delete(f"{RBAC}/namespaces/team/rolebindings/demoted-view")


def secret_token_goes(api):
    """The old kind, kept in a Secret."""
    rt.account(api, "team", "keeper")
    rt.bind(api, "team", "keeper", "view")
    rt.make(api, "/api/v1/namespaces/team/secrets", {
        "metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "keeper"}},
        "type": "kubernetes.io/service-account-token"})
    data = until(lambda: api.get("/api/v1/namespaces/team/secrets/kept").json.get("data", {}).get("token"), GUARD, "it")
    return rt.Caller(api, base64.b64decode(data).decode()), lambda: api.delete("/api/v1/namespaces/team/secrets/kept")


def impersonation_goes(api):
    caller = rt.account(api, "team", "actor")
    return caller, lambda: api.delete("/api/v1/namespaces/team/serviceaccounts/actor")


@pytest.mark.parametrize("how", [account_goes, secret_goes, binding_goes, secret_token_goes])
def test_a_watch_ends_with_its_credential(api, how):
    caller, revoke = how(api)
    until(lambda: caller.get("/api/v1/namespaces/team/configmaps").status == 200, GUARD, "the right")
    c, answer = watch_as(caller, WATCHED)
    other, still = watch_as(rt.account(api, "team", "viewer"), WATCHED)
    rt.bind(api, "team", "viewer", "view")
    assert answer.status == 200
    assert revoke().status in (200, 202)
    events = ends(answer)  # the read times out unless it ends
    assert events[-1]["type"] == "ERROR" and events[-1]["object"]["code"] == 401, events[-1]
    assert caller.get("/api/v1/namespaces/team/configmaps").status in (401, 403)
    c.close()
    until(lambda: "revoked\"} 0" not in api.get("/metrics").body.decode(), GUARD, "the counter")
    del still
    other.close()


def test_other_watches_go_on(api):
    caller, revoke = account_goes(api)
    stays = Watch(api.connection(), WATCHED + "&labelSelector=x%3Dy")
    c, answer = watch_as(caller, WATCHED)
    revoke()
    ends(answer)
    c.close()
    api.post("/api/v1/namespaces/team/configmaps", {"metadata": {"name": f"n{time.monotonic_ns()}", "labels": {"x": "y"}}})
    assert next(e for e in stays if e["type"] != "BOOKMARK")["type"] == "ADDED"
    stays.close()


def short_token(api, ns, name, seconds):
    """A token that ends soon, signed with the server's own key: nobody gets one for less than ten minutes."""
    whole = rt.token_of(api, ns, name)
    head, claims, _ = whole.split(".")
    claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    claims["exp"] = int(time.time()) + seconds

    def b64(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    text = head + "." + b64(json.dumps(claims).encode())
    key = serialization.load_pem_private_key((api.data / "pki/token.key").read_bytes(), None)
    r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return text + "." + b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def test_a_watch_ends_with_the_time_of_its_token(api):
    rt.account(api, "team", "brief")
    rt.bind(api, "team", "brief", "view")
    caller = rt.Caller(api, short_token(api, "team", "brief", 3))
    c, answer = watch_as(caller, WATCHED)
    assert answer.status == 200
    ends(answer)  # the read times out unless it ends
    assert caller.get("/api/v1/namespaces/team/configmaps").status == 401
    c.close()


# --- bundled roles ---

def test_bundled_roles_are_brought_up_to_date(binary, tmp_path):
    api = Control(binary, tmp_path, "--gateway", "false", "--connector", "false")
    try:
        mine = {"apiGroups": ["example.com"], "resources": ["mine"], "verbs": ["get"]}
        old = {"apiGroups": ["example.com"], "resources": ["retired"], "verbs": ["delete"]}
        for name in ("system:aggregate-to-edit", "system:aggregate-to-view"):
            role = api.get(f"{ROLES}/{name}").json
            bundled = copy.deepcopy(role["rules"])
            role["rules"] = [*bundled[1:], old, mine]
            role["metadata"]["annotations"][NOTE] = json.dumps([*bundled, old])
            if name.endswith("view"):
                role["metadata"]["annotations"][AUTOUPDATE] = "false"
            assert api.put(f"{ROLES}/{name}", role).status == 200
        binding = api.get(f"{RBAC}/clusterrolebindings/system:discovery").json
        theirs = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "robots"}
        binding["subjects"] = [theirs]
        assert api.put(f"{RBAC}/clusterrolebindings/system:discovery", binding).status == 200
        # From before roles had notes: a rule that an older release delivered is known by itself.
        until_restart = api.get(f"{ROLES}/system:basic-user").json
        del until_restart["metadata"]["annotations"]
        until_restart["rules"] = until_restart["rules"][:1] + [mine]
        assert api.put(f"{ROLES}/system:basic-user", until_restart).status == 200
        api.restart(kill=False)
        rules = api.get(f"{ROLES}/system:aggregate-to-edit").json["rules"]
        assert mine in rules and old not in rules and all(rule in rules for rule in
                                                          json.loads(api.get(f"{ROLES}/system:aggregate-to-edit").json[
                                                              "metadata"]["annotations"][NOTE]))
        assert old in api.get(f"{ROLES}/system:aggregate-to-view").json["rules"]
        subjects = [s["name"] for s in api.get(f"{RBAC}/clusterrolebindings/system:discovery").json["subjects"]]
        assert sorted(subjects) == ["robots", "system:authenticated"]
        basic = api.get(f"{ROLES}/system:basic-user").json
        assert len(basic["rules"]) == 3 and mine in basic["rules"] and basic["metadata"]["annotations"][NOTE]
        version = basic["metadata"]["resourceVersion"]
        api.restart(kill=False)  # and nothing more
        assert api.get(f"{ROLES}/system:basic-user").json["metadata"]["resourceVersion"] == version
    finally:
        api.close()


def test_the_devices_role_is_brought_up_to_date(binary, tmp_path):
    api = Control(binary, tmp_path, "--gateway", "false", "--xds-listen", f"127.0.0.1:{free_port()}")
    try:
        at = f"{ROLES}/spanwire-connector"
        role = until(lambda: api.get(at).status == 200 and api.get(at).json, GUARD, "the role")
        bundled = json.loads(role["metadata"]["annotations"][NOTE])
        # As releases before the note left it.
        wide = {"apiGroups": ["networking.datumapis.com"], "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
                "resources": ["connectors", "connectoradvertisements", "httpproxies"]}
        mine = {"apiGroups": ["example.com"], "resources": ["mine"], "verbs": ["get"]}
        role["rules"] = [wide, mine]
        del role["metadata"]["annotations"]
        assert api.put(at, role).status == 200

        def current():
            rules = api.get(at).json["rules"]
            return mine in rules and all(r in rules for r in bundled) and (wide in bundled or wide not in rules)
        until(current, GUARD, "the role as it is delivered")
    finally:
        api.close()


# --- every role its own credential ---

class Running(Control):
    """The API of somebody else's process."""

    def __init__(self, data, port):  # pylint: disable=super-init-not-called
        self.data, self.port, self.kubeconfig, self._context = data, port, data / "admin.kubeconfig", None


SECRETS = "/api/v1/secrets"
FORBIDDEN_TO_ROLES = [
    ("GET", SECRETS), ("GET", "/api/v1/namespaces/kube-system/configmaps"), ("GET", "/metrics"), ("GET", "/debug/xds"),
    ("GET", f"{ROLES}/cluster-admin"), ("DELETE", f"{ROLES}/view"), ("GET", "/api/v1/namespaces/spanwire-system/serviceaccounts"),
    ("POST", "/api/v1/namespaces/spanwire-system/serviceaccounts/spanwire-control/token"),
    ("DELETE", "/apis/networking.datumapis.com/v1alpha1/namespaces/default/connectors/demo2"),
]


def writes_its_own_map_only(api, sidecar):
    """Of the ConfigMaps beside it, the list of relays is what it obeys: not what it writes."""
    maps = "/api/v1/namespaces/spanwire-system/configmaps"
    until(lambda: api.get(f"{maps}/spanwire-relays").status == 200, 10)
    before = api.get(f"{maps}/spanwire-relays").json["data"]
    for name in ("spanwire-relays", "spanwire-xds", "spanwire-other"):
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"relays": "https://evil.test/"}}
        told = sidecar.patch(f"{maps}/{name}?fieldManager=x&force=true", whole, "apply")
        assert told.status == 403 and "control plane" in told.message, told
        if name != "spanwire-relays":
            continue
        told = sidecar.patch(f"{maps}/{name}", {"data": {"relays": "https://evil.test/"}})
        assert told.status == 403 and "control plane" in told.message, told
    assert sidecar.post(maps, {"metadata": {"name": "other"}}).status == 403
    assert api.get(f"{maps}/spanwire-relays").json["data"] == before
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway-x"}, "data": {"id": "x"}}
    assert sidecar.patch(f"{maps}/gateway-x?fieldManager=x&force=true", own, "apply").status == 201
    assert api.delete(f"{maps}/gateway-x").status == 200


def test_up_gives_every_role_its_own_credential(topology, binary, tmp_path):
    from test_up import Up
    del topology
    u = Up(binary, tmp_path, "--demo")
    try:
        until(u.serves, 30, "the demo")
        for role, pid in u.children().items():
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
            assert "admin.kubeconfig" not in command and "pki/admin" not in command, (role, command)
        files = sorted((u.data / "roles").iterdir())
        assert [f.name for f in files if f.suffix == ".token"] == [
            "control.token", "demo.token", "gateway.token", "relay.token", "sidecar.token"]
        for f in files:
            assert stat.S_IMODE(f.stat().st_mode) == 0o600, f
        api = Running(u.data, u.api)
        tokens = {f.stem: f.read_text(encoding="ascii") for f in files if f.suffix == ".token"}
        for role in ("gateway", "relay", "sidecar", "demo"):
            caller = rt.Caller(api, tokens[role])
            for method, path in FORBIDDEN_TO_ROLES:
                answer = caller.request(method, path, {} if method == "POST" else None)
                assert answer.status == 403, (role, method, path, answer)
        control = rt.Caller(api, tokens["control"])
        assert control.get(f"{RBAC}/clusterrolebindings").status == 403
        assert control.post(f"{RBAC}/clusterrolebindings", {}).status == 403
        assert control.delete(f"{ROLES}/view").status == 403
        assert control.post(ROLES, {"metadata": {"name": "all"}, "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}).status == 403
        assert control.get("/apis/apps/v1/deployments").status == 403
        sidecar = rt.Caller(api, tokens["sidecar"])
        assert sidecar.get("/apis/networking.datumapis.com/v1alpha1/connectors").status == 200
        writes_its_own_map_only(api, sidecar)
        # A role that is started anew finds its credential, and nobody is refused anything he uses.
        os.kill(u.children()["gateway"], 9)
        until(u.serves, 30, "the demo again")
        logs = {f.name: f.read_text(encoding="utf-8", errors="replace") for f in (u.data / "log").glob("*.log")}
        for name, log in logs.items():
            for word in ("cannot list resource", "is forbidden", "forbidden=", "no admin token"):
                assert word not in log, (name, log[-3000:])
    finally:
        u.stop()


# --- xDS ---

API = "/apis/gateway.networking.k8s.io/v1"


@pytest.fixture(scope="module", name="world")
def _world(binary, tmp_path_factory):
    """Two tenants with a Gateway each on the same sockets, and an Ingress."""
    where = tmp_path_factory.mktemp("trust-xds")
    fabric = fb.Fabric(binary, where)
    port, tls = free_port(), free_port()
    for ns in ("red", "blue"):
        api = fabric.control
        rt.namespace(api, ns)
        cert, key = fb.make_cert(where, f"{ns}.example", [f"{ns}.example"])
        rt.make(api, f"/api/v1/namespaces/{ns}/secrets", {
            "metadata": {"name": "web"}, "type": "kubernetes.io/tls",
            "data": {"tls.crt": base64.b64encode(pathlib.Path(cert).read_bytes()).decode(),
                     "tls.key": base64.b64encode(pathlib.Path(key).read_bytes()).decode()}})
        rt.make(api, f"/api/v1/namespaces/{ns}/services", {
            "metadata": {"name": f"{ns}-app"}, "spec": {"ports": [{"name": "main", "port": 80}]}})
        rt.make(api, f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", {
            "metadata": {"name": f"{ns}-app-1", "labels": {"kubernetes.io/service-name": f"{ns}-app"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": True}}],
            "ports": [{"name": "main", "port": 8080}]})
        rt.make(api, f"{API}/namespaces/{ns}/gateways", {
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "edge"}, "spec": {"gatewayClassName": "spanwire", "listeners": [
                {"name": "http", "protocol": "HTTP", "port": port, "hostname": f"{ns}.example"},
                {"name": "https", "protocol": "HTTPS", "port": tls, "hostname": f"{ns}.example",
                 "tls": {"certificateRefs": [{"name": "web"}]}}]}})
        rt.make(api, f"{API}/namespaces/{ns}/httproutes", {
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "web"}, "spec": {"parentRefs": [{"name": "edge"}], "rules": [
                {"backendRefs": [{"name": f"{ns}-app", "port": 80}]}]}})
        rt.account(api, "default", f"{ns}-plane")
        rt.cluster_role(api, f"{ns}-plane", [{"nonResourceURLs": [f"/xds/{ns}/edge"], "verbs": ["get"]}])
        rt.bind(api, "default", f"{ns}-plane", f"{ns}-plane", everywhere=True)
    yield fabric
    fabric.close()


def all_of(world, token, wait_for=b""):
    """Asks for everything, by wildcard and by the names the resources have; the stream stays open."""
    x = Xds(world.xds_port, world.ca, token)
    x.send(CDS, ["*"])
    x.send(LDS, ["*"])
    names = ["cert/red/web", "cert/blue/web", "*"]
    x.send(SDS, names)
    x.send(EDS, ["red/red-app/80", "blue/blue-app/80", "*"])
    x.send(RDS, ["*"])
    until(lambda: not x.read(0.05) or (x.names(LDS) and x.names(RDS) and x.names(SDS) and wait_for in x.text()), GUARD,
          "the configuration")
    for _ in range(10):
        x.read(0.05)
    return x


@pytest.mark.parametrize("ns, other", [("red", "blue"), ("blue", "red")])
def test_a_data_plane_gets_its_own_gateways_only(world, ns, other):
    x = all_of(world, rt.token_of(world.control, "default", f"{ns}-plane"), f"{ns}-app".encode())
    assert x.status is None, (x.status, x.why)
    text = x.text()
    assert f"{ns}.example".encode() in text and f"{ns}-app".encode() in text
    assert f"{other}.example".encode() not in text and f"{other}-app".encode() not in text, x.have
    assert x.names(SDS) == [f"cert/{ns}/web"] and text.count(b"PRIVATE KEY-----") == 2  # one: its begin and its end
    assert not [n for kind in x.have for n in x.names(kind) if other in n], x.have
    until(lambda: x.read(0.05) is not True or x.names(EDS) == [f"{ns}/{ns}-app/80"], GUARD, "its endpoints")
    assert x.names(EDS) == [f"{ns}/{ns}-app/80"]
    x.close()


def test_what_a_node_says_of_itself_is_no_identity(world):
    token = rt.token_of(world.control, "default", "red-plane")
    for node in ("blue", "blue/edge", "edge", "system:masters", "*"):
        x = Xds(world.xds_port, world.ca, token, node=node)
        x.send(SDS, ["cert/blue/web", "cert/red/web"])
        until(lambda x=x: not x.read(0.05) or x.names(SDS), GUARD, "an answer")
        assert x.names(SDS) == ["cert/red/web"]
        x.close()


def test_a_view_cannot_be_asked_for_by_its_type(world):
    token = rt.token_of(world.control, "default", "red-plane")
    for kind in ("0#" + SDS, "#" + SDS, "view"):
        x = Xds(world.xds_port, world.ca, token)
        x.send(kind, ["*", "cert/blue/web"])
        for _ in range(10):
            x.read(0.05)
        assert b"PRIVATE" not in x.text() and b"blue" not in x.text()
        x.close()


def test_a_client_of_all_gets_all(world):
    x = all_of(world, world.token.read_text(encoding="ascii"), b"blue-app")
    until(lambda: not x.read(0.05) or {"cert/blue/web", "cert/red/web"} <= set(x.names(SDS)), GUARD, "both")
    assert {"cert/blue/web", "cert/red/web"} <= set(x.names(SDS))
    x.close()


def refused(world, token):
    x = Xds(world.xds_port, world.ca, token)
    x.send(LDS, ["*"])
    until(lambda: not x.read(0.05), GUARD, "a refusal")
    x.close()
    return x


def test_strangers_are_refused_with_a_reason(world):
    stranger = rt.account(world.control, "default", "stranger")
    x = refused(world, stranger.token)
    assert x.status == PERMISSION_DENIED and "may not get /xds" in x.why.replace("%2F", "/"), (x.status, x.why)
    assert refused(world, "a.b.c").status == UNAUTHENTICATED
    assert refused(world, None).status == UNAUTHENTICATED
    until(lambda: 'spanwire_xds_refusals{reason="forbidden"}' in world.control.get("/metrics").body.decode().replace("_total", ""),
          GUARD, "the counter")
    until(lambda: "may not get /xds" in world.control.log(), GUARD, "the reason in the log")


def test_rights_that_come_and_go_reach_open_streams(world):
    """A second Gateway appears in the stream, and goes with the right; with the last right the stream ends."""
    api = world.control
    token = rt.account(api, "default", "roaming").token
    rt.bind(api, "default", "roaming", "red-plane", everywhere=True)
    until(lambda: all_of(world, token).status is None, GUARD, "the first right")
    x = all_of(world, token, b"red-app")
    assert x.names(SDS) == ["cert/red/web"], (x.status, x.why)
    rt.bind(api, "default", "roaming", "blue-plane", everywhere=True)
    until(lambda: x.read(0.05) and x.names(SDS) == ["cert/blue/web", "cert/red/web"], GUARD, "the second one")
    assert api.delete(f"{RBAC}/clusterrolebindings/roaming-red-plane").status == 200
    until(lambda: x.read(0.05) and x.names(SDS) == ["cert/blue/web"], GUARD, "the second one alone")
    until(lambda: x.read(0.05) and b"red-app" not in x.text(), GUARD, "the end of all that was for the first one")
    assert api.delete(f"{RBAC}/clusterrolebindings/roaming-blue-plane").status == 200
    until(lambda: not x.read(0.05), GUARD, "the end")
    assert x.status == PERMISSION_DENIED, (x.status, x.why)
    x.close()


@pytest.mark.parametrize("how", ["account", "secret", "time"])
def test_an_xds_stream_ends_with_its_credential(world, how):
    api = world.control
    rt.account(api, "default", f"plane-{how}")
    rt.bind(api, "default", f"plane-{how}", "data-planes", everywhere=True)
    token = rt.token_of(api, "default", f"plane-{how}")
    if how == "secret":
        rt.make(api, "/api/v1/namespaces/default/secrets", {"metadata": {"name": "leash"}})
        token = rt.token_of(api, "default", f"plane-{how}",
                            boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "leash"})
    elif how == "time":
        token = short_token(api, "default", f"plane-{how}", 4)
    x = all_of(world, token)
    assert x.status is None, (x.status, x.why)
    if how == "account":
        api.delete(f"/api/v1/namespaces/default/serviceaccounts/plane-{how}")
    elif how == "secret":
        api.delete("/api/v1/namespaces/default/secrets/leash")
    until(lambda: not x.read(0.05), GUARD, "the end of the stream")
    assert x.status == UNAUTHENTICATED, (x.status, x.why)
    x.close()


def test_our_gateway_serves_its_own_and_says_so(world):
    """A restricted data plane programs its own Gateway, and leaves the other one pending."""
    world.token, everything = world.dir / "red-token", world.token
    world.token.write_text(rt.token_of(world.control, "default", "red-plane"), encoding="ascii")
    g = world.start_gateway()
    try:
        def conditions(ns):
            status = world.control.get(f"{API}/namespaces/{ns}/gateways/edge").json.get("status", {})
            return {c["status"] for entry in status.get("listeners", []) for c in entry["conditions"]
                    if c["type"] == "Programmed"}
        until(lambda: conditions("red") == {"True"}, 60, "the red Gateway to be programmed")
        # Who served both before is remembered for a while.
        until(lambda: "True" not in conditions("blue"), 60, "the blue one to be pending")
        assert conditions("red") == {"True"}
    finally:
        world.token = everything
        g.stop()
