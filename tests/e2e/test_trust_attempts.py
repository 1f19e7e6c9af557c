# SPDX-License-Identifier: Apache-2.0
"""
What a device's credential and a namespace's editor try outside of their own: none of it succeeds, and nothing that is
others' has changed afterwards. A few things that they are for do succeed.
"""
import json
import subprocess

import pytest
import yaml
from harness import fabric as fb
from harness import rights as rt
from harness.rights import RBAC
from harness.wait import GUARD, until
from harness.xds_client import LDS, PERMISSION_DENIED, SDS, Xds

HOME, AWAY = "home", "away"  # theirs, and another team's
CORE, DATUM = "/api/v1", "/apis/networking.datumapis.com/v1alpha1"
PROXIES = "/apis/networking.datumapis.com/v1alpha"
GW, APPS = "/apis/gateway.networking.k8s.io/v1", "/apis/apps/v1"
LEASES, NET = "/apis/coordination.k8s.io/v1", "/apis/networking.k8s.io/v1"
DISCOVERY, BATCH = "/apis/discovery.k8s.io/v1", "/apis/batch/v1"
HOOKS, CRDS = "/apis/admissionregistration.k8s.io/v1", "/apis/apiextensions.k8s.io/v1"
AUTHN, AUTHZ = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
ISTIO, SECURITY = "/apis/networking.istio.io/v1", "/apis/security.istio.io/v1"
LINK = "/apis/clusterlink.net/v1alpha1"
GROUP = "networking.datumapis.com"
KEY = "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
EXT = "/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify"


def at(top, ns, *rest):
    return "/".join([top, "namespaces", ns, *rest])


def obj(api, kind, name, **more):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


def connector(name, class_name="datum-connect"):
    return obj(f"{GROUP}/v1alpha1", "Connector", name, spec={"connectorClassName": class_name})


def proxy(name, host, endpoint="http://192.0.2.9:80", device=None):
    backend = {"endpoint": endpoint, **({"connector": {"name": device}} if device else {})}
    return obj(f"{GROUP}/v1alpha", "HTTPProxy", name, spec={"hostnames": [host], "rules": [{"backends": [backend]}]})


def advert(name, of):
    return obj(f"{GROUP}/v1alpha1", "ConnectorAdvertisement", name, spec={
        "connectorRef": {"name": of}, "layer4": [{"name": "x", "services": [
            {"address": "10.0.0.1", "ports": [{"name": "p", "port": 22, "protocol": "TCP"}]}]}]})


def details(key):
    return {"status": {"connectionDetails": {"type": "PublicKey", "publicKey": {
        "id": key, "discoveryMode": "DNS", "addresses": [{"address": "192.0.2.66", "port": 4433}]}}}}


def role(name, *rules):
    return obj("rbac.authorization.k8s.io/v1", "Role", name, rules=list(rules))


def binding(name, to, account, kind="ClusterRole", of="ClusterRoleBinding", ns=HOME):
    return obj("rbac.authorization.k8s.io/v1", of, name,
               roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": to},
               subjects=[{"kind": "ServiceAccount", "name": account, "namespace": ns}])


ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
TOKEN = obj("authentication.k8s.io/v1", "TokenRequest", "", spec={"expirationSeconds": 3600})
TOKEN.pop("metadata")
POD = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
AS = "impersonate"
HOOK = {"webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://192.0.2.1/"}, "sideEffects": "None",
                      "admissionReviewVersions": ["v1"], "rules": [
                          {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}]}

# name: (method, path, body or headers). What is done with it is in attempt().
BOTH = {
    # Another namespace.
    "list others' secrets": ("GET", at(CORE, AWAY, "secrets"), None),
    "get another's secret": ("GET", at(CORE, AWAY, "secrets/gem"), None),
    "list others' configmaps": ("GET", at(CORE, AWAY, "configmaps"), None),
    "write another's configmap": ("PATCH", at(CORE, AWAY, "configmaps/notes"), {"data": {"a": "stolen"}}),
    "list all secrets": ("GET", f"{CORE}/secrets", None),
    "watch all secrets": ("GET", f"{CORE}/secrets?watch=true", None),
    "delete another's lease": ("DELETE", at(LEASES, AWAY, "leases/far"), None),
    "renew another's lease": ("PATCH", at(LEASES, AWAY, "leases/held"), {"spec": {"holderIdentity": "me"}}),
    "take a lease of the control plane": ("PATCH", at(LEASES, "kube-system", "leases/spanwire-gateway"),
                                          {"spec": {"holderIdentity": "me"}}),
    "token of another's account": ("POST", at(CORE, AWAY, "serviceaccounts/worker/token"), TOKEN),
    "token of the control plane": ("POST", at(CORE, "spanwire-system", "serviceaccounts/spanwire-control/token"), TOKEN),
    "delete another's connector": ("DELETE", at(DATUM, AWAY, "connectors/far"), None),
    "copy a key into another's status": ("PATCH", at(DATUM, AWAY, "connectors/far/status"), details(KEY)),
    "take over another's proxy": ("PATCH", at(PROXIES, AWAY, "httpproxies/site"), {"spec": {"rules": []}}),
    # The cluster.
    "list nodes": ("GET", f"{CORE}/nodes", None),
    "nodes/proxy": ("GET", f"{CORE}/nodes/n1/proxy/logs", None),
    "make a namespace": ("POST", f"{CORE}/namespaces", obj("v1", "Namespace", "mine")),
    "delete a namespace": ("DELETE", f"{CORE}/namespaces/{AWAY}", None),
    "make a CRD": ("POST", f"{CRDS}/customresourcedefinitions", {}),
    "change a CRD": ("PATCH", f"{CRDS}/customresourcedefinitions/gateways.gateway.networking.k8s.io", {"spec": {}}),
    "list APIServices": ("GET", "/apis/apiregistration.k8s.io/v1/apiservices", None),
    "make a validating webhook": ("POST", f"{HOOKS}/validatingwebhookconfigurations",
                                  {"metadata": {"name": "spy"}, **HOOK}),
    "make a mutating webhook": ("POST", f"{HOOKS}/mutatingwebhookconfigurations", {"metadata": {"name": "spy"}, **HOOK}),
    "list admission policies": ("GET", f"{HOOKS}/validatingadmissionpolicies", None),
    "delete admission policies": ("DELETE", f"{HOOKS}/validatingadmissionpolicies", None),
    "read cluster roles": ("GET", f"{RBAC}/clusterroles", None),
    "label cluster-admin": ("PATCH", f"{RBAC}/clusterroles/cluster-admin",
                            {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}}),
    "bind cluster-admin": ("POST", f"{RBAC}/clusterrolebindings", binding("mine", "cluster-admin", "mine")),
    "bind admin at home": ("POST", at(RBAC, HOME, "rolebindings"), binding("mine", "admin", "mine", of="RoleBinding")),
    "a role at home with all": ("POST", at(RBAC, HOME, "roles"), role("mine", ALL)),
    "escalate": ("PATCH", f"{RBAC}/clusterroles/spanwire-connector", {"rules": [ALL]}),
    "make a gateway class": ("POST", f"{GW}/gatewayclasses", obj("gateway.networking.k8s.io/v1", "GatewayClass", "mine",
                                                                 spec={"controllerName": "spanwire.dev/gateway"})),
    # The mesh, links between clusters, and who joins.
    "a service of all": ("POST", at(ISTIO, HOME, "serviceentries"), obj("networking.istio.io/v1", "ServiceEntry", "mine", spec={
        "hosts": ["site.example"], "addresses": ["10.0.0.0/8"], "resolution": "NONE"})),
    "another's address": ("POST", at(ISTIO, HOME, "workloadentries"), obj("networking.istio.io/v1", "WorkloadEntry", "mine", spec={
        "address": "10.0.0.1", "serviceAccount": "worker"})),
    "an identity elsewhere": ("POST", at(ISTIO, AWAY, "workloadentries"), obj("networking.istio.io/v1", "WorkloadEntry", "mine", spec={
        "address": "10.0.0.1", "serviceAccount": "worker"})),
    "a policy of the mesh": ("POST", at(SECURITY, "istio-system", "authorizationpolicies"), obj(
        "security.istio.io/v1", "AuthorizationPolicy", "mine", spec={"action": "DENY", "rules": [{}]})),
    "a policy elsewhere": ("POST", at(SECURITY, AWAY, "authorizationpolicies"), obj(
        "security.istio.io/v1", "AuthorizationPolicy", "mine", spec={"rules": [{}]})),
    "plain text for all": ("POST", at(SECURITY, "istio-system", "peerauthentications"), obj(
        "security.istio.io/v1", "PeerAuthentication", "default", spec={"mtls": {"mode": "DISABLE"}})),
    "another cluster": ("POST", at(CORE, "istio-system", "secrets"), {
        "metadata": {"name": "far", "labels": {"istio/multiCluster": "true"}}, "data": {"far": rt.b64("kind: Config")}}),
    "the mesh's authority": ("GET", at(CORE, "istio-system", "secrets/cacerts"), None),
    "another authority": ("POST", at(CORE, "istio-system", "secrets"), obj("v1", "Secret", "cacerts", data={"ca-key.pem": ""})),
    "a peer": ("POST", at(LINK, "clusterlink-system", "peers"), obj("clusterlink.net/v1alpha1", "Peer", "mine", spec={
        "gateways": [{"host": "127.0.0.1", "port": 15000}]})),
    "a peer at home": ("POST", at(LINK, HOME, "peers"), obj("clusterlink.net/v1alpha1", "Peer", "mine", spec={
        "gateways": [{"host": "169.254.169.254", "port": 80}]})),
    "a policy above all": ("POST", f"{LINK}/privilegedaccesspolicies", obj("clusterlink.net/v1alpha1", "PrivilegedAccessPolicy", "mine",
                                                                          spec={"action": "allow", "from": [{}], "to": [{}]})),
    "an export of another's": ("POST", at(LINK, AWAY, "exports"), obj("clusterlink.net/v1alpha1", "Export", "app", spec={"port": 80})),
    "the state of an import": ("PATCH", at(LINK, HOME, "imports/mine/status"), {"status": {"conditions": [
        {"type": "ImportTargetPortValid", "status": "True"}]}}),
    "the key of links": ("GET", at(CORE, "clusterlink-system", "secrets"), None),
    "a code for a peer": ("POST", at(CORE, "spanwire-system", "secrets"), {
        "metadata": {"name": "join-x", "labels": {"spanwire.dev/join": "peer"}}, "type": "spanwire.dev/join"}),
    "a code for another's account": ("POST", at(CORE, AWAY, "secrets"), {
        "metadata": {"name": "join-x", "labels": {"spanwire.dev/join": "node"}}, "type": "spanwire.dev/join"}),
    "who joined": ("GET", f"{CORE}/secrets?labelSelector=spanwire.dev/join", None),
    # Being somebody else.
    "be the administrator": (AS, at(CORE, AWAY, "secrets"), {"Impersonate-User": "kubernetes-admin"}),
    "be a master": (AS, at(CORE, AWAY, "secrets"), {"Impersonate-User": "me", "Impersonate-Group": "system:masters"}),
    "be another's account": (AS, at(CORE, AWAY, "secrets"),
                             {"Impersonate-User": f"system:serviceaccount:{AWAY}:worker"}),
    "be oneself with an extra": (AS, at(CORE, HOME, "configmaps"),
                                 {"Impersonate-User": "me", "Impersonate-Extra-Scopes": "all"}),
    "be oneself with a uid": (AS, at(CORE, HOME, "configmaps"), {"Impersonate-User": "me", "Impersonate-Uid": "1"}),
    "review tokens": ("POST", f"{AUTHN}/tokenreviews", obj("authentication.k8s.io/v1", "TokenReview", "",
                                                            spec={"token": "x"})),
    "review others' access": ("POST", f"{AUTHZ}/subjectaccessreviews", obj(
        "authorization.k8s.io/v1", "SubjectAccessReview", "",
        spec={"user": "jane", "resourceAttributes": {"verb": "get", "resource": "secrets"}})),
    # No resources.
    "metrics": ("GET", "/metrics", None),
    "data planes": ("GET", "/debug/xds", None),
    "logs": ("GET", "/logs/", None),
    "pprof": ("GET", "/debug/pprof/", None),
    "xDS by the API": ("GET", "/xds", None),
    "xDS": ("xds", LDS, ["*"]),
    "another's key by xDS": ("xds", SDS, [f"cert/{AWAY}/web"]),
    "the hooks of Envoy Gateway": ("grpc", EXT, None),
}

DEVICE = {
    # At home: what is not a device's business.
    "secrets at home": ("GET", at(CORE, HOME, "secrets"), None),
    "configmaps at home": ("POST", at(CORE, HOME, "configmaps"), obj("v1", "ConfigMap", "mine")),
    "token of itself": ("POST", at(CORE, HOME, "serviceaccounts/mine/token"), TOKEN),
    "a pod": ("POST", at(CORE, HOME, "pods"), obj("v1", "Pod", "mine", **POD)),
    "a service": ("POST", at(CORE, HOME, "services"), obj("v1", "Service", "mine", spec={"ports": [{"port": 80}]})),
    "an endpoint slice": ("POST", at(DISCOVERY, HOME, "endpointslices"), obj(
        "discovery.k8s.io/v1", "EndpointSlice", "mine", addressType="IPv4", endpoints=[])),
    "a gateway": ("POST", at(GW, HOME, "gateways"), obj("gateway.networking.k8s.io/v1", "Gateway", "mine", spec={
        "gatewayClassName": "spanwire", "listeners": [{"name": "x", "port": 80, "protocol": "HTTP"}]})),
    "a route": ("POST", at(GW, HOME, "httproutes"), obj("gateway.networking.k8s.io/v1", "HTTPRoute", "mine", spec={})),
    "an event": ("POST", at(CORE, HOME, "events"), obj("v1", "Event", "mine")),
    "a proxy's status": ("PATCH", at(PROXIES, HOME, "httpproxies/theirs/status"), {"status": {"hostnames": ["x"]}}),
    "a class": ("POST", f"{DATUM}/connectorclasses", obj(f"{GROUP}/v1alpha1", "ConnectorClass", "mine",
                                                         spec={"controllerName": "x.example/y"})),
    # At home: another device's.
    "another device's connector": ("DELETE", at(DATUM, HOME, "connectors/theirs"), None),
    "another device's status": ("PATCH", at(DATUM, HOME, "connectors/theirs/status"), details(KEY)),
    "another device's advertisement": ("PATCH", at(DATUM, HOME, "connectoradvertisements/theirs"), {"spec": {
        "connectorRef": {"name": "mine"}}}),
    "another device's proxy": ("PATCH", at(PROXIES, HOME, "httpproxies/theirs"), {"spec": {"hostnames": ["x.example"]}}),
    "deletes another device's proxy": ("DELETE", at(PROXIES, HOME, "httpproxies/theirs"), None),
    "another device's lease": ("PATCH", at(LEASES, HOME, "leases/theirs"), {"spec": {"holderIdentity": "me"}}),
    "a gateway's identity": ("POST", at(CORE, "spanwire-system", "configmaps"), {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"id": KEY},
        "metadata": {"name": "gateway-x", "labels": {"spanwire.dev/gateway-identity": "true"}}}),
}

EDIT = {
    "Endpoints": ("POST", at(CORE, HOME, "endpoints"), obj("v1", "Endpoints", "app", subsets=[
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}])),
    "Endpoints by patch": ("PATCH", at(CORE, HOME, "endpoints/app"), {"subsets": []}),
    "an endpoint slice": DEVICE["an endpoint slice"],
    "a pod elsewhere": ("POST", at(CORE, AWAY, "pods"), obj("v1", "Pod", "mine", **POD)),
    "a deployment elsewhere": ("GET", at(APPS, AWAY, "deployments"), None),
    "a job elsewhere": ("GET", at(BATCH, AWAY, "jobs"), None),
    "an ingress elsewhere": ("POST", at(NET, AWAY, "ingresses"), obj("networking.k8s.io/v1", "Ingress", "mine")),
    "an account elsewhere": ("POST", at(CORE, AWAY, "serviceaccounts"), obj("v1", "ServiceAccount", "mine")),
    "an event elsewhere": ("POST", at(CORE, AWAY, "events"), obj("v1", "Event", "mine")),
    "the token Secret of another's account": ("POST", at(CORE, AWAY, "secrets"), {
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "worker"}},
        "type": "kubernetes.io/service-account-token"}),
    "a service's status": ("PATCH", at(CORE, HOME, "services/app/status"), {"status": {"loadBalancer": {
        "ingress": [{"ip": "192.0.2.1"}]}}}),
    "an ingress's status": ("PATCH", at(NET, HOME, "ingresses/web/status"), {"status": {"loadBalancer": {
        "ingress": [{"ip": "192.0.2.1"}]}}}),
    "a gateway": DEVICE["a gateway"],
    "a proxy": ("POST", at(PROXIES, HOME, "httpproxies"), proxy("mine", "site.example")),
    "a connector": ("POST", at(DATUM, HOME, "connectors"), connector("mine-too")),
    "its own namespace": ("PATCH", f"{CORE}/namespaces/{HOME}", {"metadata": {"labels": {"a": "b"}}}),
    "ends its own namespace": ("DELETE", f"{CORE}/namespaces/{HOME}", None),
    "a volume": ("GET", f"{CORE}/persistentvolumes", None),
    "a quota": ("DELETE", at(CORE, HOME, "resourcequotas/all"), None),
    "pods/exec elsewhere": ("POST", at(CORE, AWAY, "pods/p/exec"), {}),
}


class World:
    def __init__(self, binary, where):
        self.fabric = fb.Fabric(binary, where, "--target-domain", "connect.test")
        self.api = api = self.fabric.control
        for ns in (HOME, AWAY):
            rt.namespace(api, ns)
        until(lambda: api.get(f"{RBAC}/clusterroles/spanwire-connector").status == 200, GUARD, "the device's role")
        rt.make(api, at(CORE, AWAY, "secrets"), obj("v1", "Secret", "gem", data={"gem": rt.b64("ruby")}))
        rt.make(api, at(CORE, AWAY, "configmaps"), obj("v1", "ConfigMap", "notes", data={"a": "b"}))
        rt.make(api, at(CORE, AWAY, "serviceaccounts"), obj("v1", "ServiceAccount", "worker"))
        rt.make(api, at(LEASES, AWAY, "leases"), obj("coordination.k8s.io/v1", "Lease", "held",
                                                     spec={"holderIdentity": "them"}))
        rt.make(api, at(CORE, HOME, "secrets"), obj("v1", "Secret", "own", data={"a": rt.b64("b")}))
        for ns, name in ((AWAY, "far"), (HOME, "theirs")):
            rt.make(api, at(DATUM, ns, "connectors"), connector(name))
            rt.make(api, at(DATUM, ns, "connectoradvertisements"), advert(name, name))
        rt.make(api, at(PROXIES, AWAY, "httpproxies"), proxy("site", "site.example"))
        rt.make(api, at(PROXIES, HOME, "httpproxies"), proxy("theirs", "theirs.example", device="theirs"))
        for ns, name in ((AWAY, "far"), (HOME, "theirs")):
            until(lambda p=at(LEASES, ns, f"leases/{name}"): api.get(p).status == 200, GUARD, "a device's Lease")
        self.binary, self._device = binary, None
        self.edit = rt.account(api, HOME, "editor")
        rt.bind(api, HOME, "editor", "edit")
        until(lambda: self.edit.get(at(CORE, HOME, "secrets/own")).status == 200, GUARD, "the aggregated roles")
        until(lambda: api.get(at(PROXIES, AWAY, "httpproxies/site")).json.get("status", {}).get("conditions"), GUARD,
              "the first judgement of the proxy")
        self.before = self.others()

    @property
    def device(self):
        """The credential of a device 'mine', made as spanwire-connector(8) says."""
        if not self._device:
            out = subprocess.run([self.binary, "connector", "role", "--name", "mine", "--namespace", HOME],
                                 capture_output=True, text=True, check=True).stdout
            tops = {"ServiceAccount": CORE, "Role": RBAC, "RoleBinding": RBAC}
            for doc in yaml.safe_load_all(out):
                rt.make(self.api, at(tops[doc["kind"]], HOME, doc["kind"].lower() + "s"), doc)
            self._device = rt.Caller(self.api, rt.token_of(self.api, HOME, "mine"))
        return self._device

    def others(self):
        """Everything that is not theirs and stays as it is by itself: the objects without what others keep writing."""
        paths = [at(CORE, AWAY, p) for p in ("secrets/gem", "configmaps/notes", "serviceaccounts/worker")]
        paths += [at(LEASES, AWAY, "leases/held"), at(DATUM, AWAY, "connectors/far"), at(DATUM, HOME, "connectors/theirs"),
                  at(DATUM, HOME, "connectoradvertisements/theirs"), at(PROXIES, AWAY, "httpproxies/site"),
                  at(PROXIES, HOME, "httpproxies/theirs"), f"{RBAC}/clusterroles/cluster-admin"]
        out = {}
        for path in paths:
            answer = self.api.get(path)
            assert answer.status == 200, (path, answer)
            o = answer.json
            out[path] = (o["metadata"]["uid"], o["metadata"].get("labels"), o.get("spec"), o.get("data"), o.get("rules"),
                         json.dumps(o.get("status", {}).get("connectionDetails")))
        return out

    def xds(self, token, kind, names, path=None):
        x = Xds(self.fabric.xds_port, self.fabric.ca, token, **({"path": path} if path else {}))
        x.send(kind, names)
        until(lambda: not x.read(0.05), GUARD, "the end of the stream")
        x.close()
        return x

    def attempt(self, caller, how):
        """None: it was refused; else what came of it."""
        method, path, body = how
        if method == "xds":
            x = self.xds(caller.token, path, body)
            return None if x.status == PERMISSION_DENIED and not x.have else (x.status, x.why, x.have)
        if method == "grpc":
            x = self.xds(caller.token, LDS, [], path)
            return None if x.status in (PERMISSION_DENIED, 16) and not x.have else (x.status, x.why)
        if method == AS:
            answer = caller.get(path, headers=body)
        elif method == "PATCH":
            answer = caller.patch(path, body)
        else:
            answer = caller.request(method, path, body)
        return None if answer.status in (401, 403) else answer

    def close(self):
        self.fabric.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("attempts"))
    yield world
    world.close()


DEVICE_ATTEMPTS = {**BOTH, **DEVICE}
EDIT_ATTEMPTS = {**BOTH, **EDIT}


def test_there_are_enough_of_them():
    assert len(DEVICE_ATTEMPTS) >= 60 and len(EDIT_ATTEMPTS) >= 40, (len(DEVICE_ATTEMPTS), len(EDIT_ATTEMPTS))


@pytest.mark.parametrize("what", DEVICE_ATTEMPTS)
def test_a_device_cannot(w, what):
    assert w.attempt(w.device, DEVICE_ATTEMPTS[what]) is None


@pytest.mark.parametrize("what", EDIT_ATTEMPTS)
def test_an_editor_cannot(w, what):
    assert w.attempt(w.edit, EDIT_ATTEMPTS[what]) is None


def test_nothing_of_the_others_has_changed(w):
    assert w.others() == w.before


def apply(caller, path, o):
    """Made by server-side apply, which rights by name cover."""
    return caller.patch(f"{path}/{o['metadata']['name']}?fieldManager=device&force=true", o, "apply")


def test_a_device_does_its_own(w):
    d = w.device
    assert apply(d, at(DATUM, HOME, "connectors"), connector("mine")).status in (200, 201)
    assert d.get(at(DATUM, HOME, "connectors/mine")).status == 200
    other = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert d.patch(at(DATUM, HOME, "connectors/mine/status"), details(other)).status == 200
    assert apply(d, at(DATUM, HOME, "connectoradvertisements"), advert("mine", "mine")).status in (200, 201)
    assert apply(d, at(PROXIES, HOME, "httpproxies"), proxy("mine", "mine.example", device="mine")).status in (200, 201)
    lease = at(LEASES, HOME, "leases/mine")
    until(lambda: d.get(lease).status == 200, GUARD, "its Lease")
    assert d.patch(lease, {"spec": {"holderIdentity": "mine"}}).status == 200
    assert d.post(f"{AUTHN}/selfsubjectreviews", obj("authentication.k8s.io/v1", "SelfSubjectReview", "")).status == 201


def test_an_editor_does_its_own(w):
    e = w.edit
    assert e.post(at(CORE, HOME, "configmaps"), obj("v1", "ConfigMap", "notes")).status in (201, 409)
    assert e.get(at(CORE, HOME, "secrets/own")).status == 200
    assert e.post(at(CORE, HOME, "pods"), obj("v1", "Pod", "worker", **POD)).status in (201, 409)
    assert e.post(at(CORE, HOME, "serviceaccounts/editor/token"), TOKEN).status == 201
    assert e.get("/healthz").status == 200


def test_a_device_does_not_get_a_name_that_another_holds(w):
    """The hostname of a live proxy, claimed by the device's own."""
    mine = at(PROXIES, HOME, "httpproxies/mine")
    answer = apply(w.device, at(PROXIES, HOME, "httpproxies"), proxy("mine", "site.example", device="mine"))
    assert answer.status in (200, 201, 403), answer
    until(lambda: w.api.get(mine).json.get("status", {}).get("conditions"), GUARD, "a judgement")
    held = w.api.get(at(PROXIES, AWAY, "httpproxies/site")).json["status"].get("hostnames", [])
    taken = w.api.get(mine).json["status"].get("hostnames", [])
    assert "site.example" in held and "site.example" not in taken, (held, taken)


def test_a_copied_key_gives_nothing(w):
    """A Connector with the key of another one in its status does not become Ready by it."""
    apply(w.device, at(DATUM, HOME, "connectors"), connector("mine"))
    w.device.patch(at(DATUM, HOME, "connectors/mine/status"), details(KEY))
    conditions = until(lambda: w.api.get(at(DATUM, HOME, "connectors/mine")).json.get("status", {}).get("conditions"),
                       GUARD, "a judgement")
    assert not [c for c in conditions if c["type"] == "Ready" and c["status"] == "True"], conditions
