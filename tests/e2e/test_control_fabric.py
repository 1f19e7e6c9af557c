# SPDX-License-Identifier: Apache-2.0
"""The fabric's own kinds: there from the first start, faithful to upstream, and the user's when he wants them."""
import json
import pathlib
import shutil

import pytest
import yaml
from harness.control import Control, cpu_s, find_gateway_api, needs_kubectl
from harness.wait import GUARD, SLOW, until

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMAS = sorted((TOP / "schemas").glob("*/*.yaml"))
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABEL, REVISION = "spanwire.dev/fabric", "spanwire.dev/revision"

GW = "gateway.networking.k8s.io/v1"
DATUM = "networking.datumapis.com/v1alpha1"
LINK = "clusterlink.net/v1alpha1"
SECURITY, NETWORKING = "security.istio.io/v1", "networking.istio.io/v1"

PARENT = [{"name": "gw"}]
BACKEND = [{"backendRefs": [{"name": "svc", "port": 80}]}]
LISTENER = {"name": "http", "port": 80, "protocol": "HTTP"}
POLICY = {"action": "allow", "from": [{"workloadSelector": {}}], "to": [{"workloadSelector": {}}]}
KEY = {"type": "PublicKey", "publicKey": {"id": "ab" * 32, "homeRelay": "https://relay.example.net/",
                                          "addresses": [{"address": "2001:db8::1", "port": 4433}]}}

# kind -> (apiVersion, plural, cluster-wide, a valid spec)
VALID = {
    "GatewayClass": (GW, "gatewayclasses", True, {"controllerName": "spanwire.dev/gateway"}),
    "Gateway": (GW, "gateways", False, {"gatewayClassName": "c", "listeners": [LISTENER]}),
    "ListenerSet": (GW, "listenersets", False, {"parentRef": {"name": "gw"}, "listeners": [LISTENER]}),
    "HTTPRoute": (GW, "httproutes", False, {"parentRefs": PARENT, "rules": BACKEND}),
    "GRPCRoute": (GW, "grpcroutes", False, {"parentRefs": PARENT, "rules": BACKEND}),
    "TLSRoute": (GW, "tlsroutes", False, {"parentRefs": PARENT, "hostnames": ["a.example.com"], "rules": BACKEND}),
    "TCPRoute": (GW, "tcproutes", False, {"parentRefs": PARENT, "rules": BACKEND}),
    "UDPRoute": (GW, "udproutes", False, {"parentRefs": PARENT, "rules": BACKEND}),
    "ReferenceGrant": (GW, "referencegrants", False, {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "a"}],
        "to": [{"group": "", "kind": "Service"}]}),
    "BackendTLSPolicy": (GW, "backendtlspolicies", False, {
        "targetRefs": [{"group": "", "kind": "Service", "name": "svc"}],
        "validation": {"hostname": "svc.example.com", "wellKnownCACertificates": "System"}}),
    "Connector": (DATUM, "connectors", False, {"connectorClassName": "datum-connect"}),
    "ConnectorClass": (DATUM, "connectorclasses", True, {}),
    "ConnectorAdvertisement": (DATUM, "connectoradvertisements", False, {
        "connectorRef": {"name": "laptop"}, "layer4": [{"name": "web", "services": [
            {"address": "*.lan.example", "ports": [{"name": "http", "port": 80}]}]}]}),
    "HTTPProxy": ("networking.datumapis.com/v1alpha", "httpproxies", False, {
        "rules": [{"backends": [{"endpoint": "http://localhost:8080", "connector": {"name": "laptop"}}]}]}),
    "Peer": (LINK, "peers", False, {"gateways": [{"host": "203.0.113.7", "port": 443}]}),
    "Export": (LINK, "exports", False, {"port": 5432}),
    "Instance": (LINK, "instances", False, {"dataplane": {"type": "go"}, "peerLabels": {"zone": "a"}}),
    "Import": (LINK, "imports", False, {"port": 5432, "sources": [
        {"peer": "east", "exportName": "db", "exportNamespace": "default"}]}),
    "AccessPolicy": (LINK, "accesspolicies", False, POLICY),
    "PrivilegedAccessPolicy": (LINK, "privilegedaccesspolicies", True, POLICY),
    "AuthorizationPolicy": (SECURITY, "authorizationpolicies", False, {
        "action": "DENY", "rules": [{"from": [{"source": {"namespaces": ["x"]}}]}]}),
    "Claim": ("spanwire.dev/v1alpha1", "claims", True, {"type": "Hostname", "value": "a.test", "holder": {
        "kind": "HTTPProxy", "namespace": "shop", "name": "web", "uid": "1", "resourceVersion": "1"}}),
    "PeerAuthentication": (SECURITY, "peerauthentications", False, {"mtls": {"mode": "STRICT"}}),
    "ServiceEntry": (NETWORKING, "serviceentries", False, {
        "hosts": ["api.example.com"], "location": "MESH_EXTERNAL", "resolution": "DNS",
        "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}]}),
    "WorkloadEntry": (NETWORKING, "workloadentries", False, {"address": "192.0.2.9", "serviceAccount": "vm"}),
}


def rule(**more):
    return {"rules": [{**VALID["HTTPProxy"][3]["rules"][0], **more}]}


# kind, what replaces the valid spec's members, part of the answer
INVALID = [
    ("GatewayClass", {"controllerName": "no slash"}, "spec.controllerName"),
    ("Gateway", {"listeners": [LISTENER, LISTENER]}, "Duplicate value"),
    ("Gateway", {"listeners": [{**LISTENER, "tls": {}}]}, "tls must not be specified for protocols"),
    ("Gateway", {"listeners": [{**LISTENER, "port": 0}]}, "spec.listeners[0].port"),
    ("ListenerSet", {"listeners": [{**LISTENER, "protocol": "TCP", "hostname": "a.b"}]},
     "hostname must not be specified for protocols ['TCP', 'UDP']"),
    ("HTTPRoute", {"rules": [{"filters": [{"type": "RequestRedirect", "requestRedirect": {}}], **BACKEND[0]}]},
     "RequestRedirect filter must not be used together with backendRefs"),
    ("HTTPRoute", {"rules": [{"matches": [{"path": {"type": "Sideways", "value": "/"}}]}]}, "Unsupported value"),
    ("GRPCRoute", {"rules": [{"filters": [{"type": "RequestMirror"}]}]},
     "filter.requestMirror must be specified for RequestMirror filter.type"),
    ("TLSRoute", {"hostnames": ["192.0.2.1"]}, "Hostnames cannot contain an IP"),
    ("TCPRoute", {"rules": []}, "spec.rules"),
    ("UDPRoute", {"rules": BACKEND * 17}, "spec.rules"),
    ("ReferenceGrant", {"from": []}, "spec.from"),
    ("BackendTLSPolicy", {"validation": {"hostname": "a.b"}},
     "must specify either CACertificateRefs or WellKnownCACertificates"),
    ("Connector", {"connectorClassName": ""}, "spec.connectorClassName"),
    ("ConnectorClass", {"controllerName": ""}, "spec.controllerName"),
    ("ConnectorAdvertisement", {"layer4": [{"name": "x", "services": []}]}, "should have at least 1 items"),
    ("ConnectorAdvertisement", {"layer4": [{"name": "x", "services": [
        {"address": "a", "ports": [{"name": "p", "port": 1, "protocol": "SCTP"}]}]}]}, "Unsupported value"),
    ("HTTPProxy", {"rules": [{}]}, "a backend is required unless a RequestRedirect filter is used"),
    ("HTTPProxy", rule(backends=[{"connector": {"name": "laptop"}}]), "endpoint is required unless instance is set"),
    ("HTTPProxy", rule(backends=[{"endpoint": "http://u:p@host"}]), "rules[0].backends[0].endpoint"),
    ("HTTPProxy", {"hostnames": ["*.example.com"], **rule()}, "wildcard hostnames are not supported"),
    ("HTTPProxy", rule(filters=[{"type": "URLRewrite", "urlRewrite": {"hostname": "a"}}] * 2),
     "URLRewrite filter cannot be repeated"),
    ("Peer", {"gateways": [{"host": "a"}]}, "spec.gateways[0].port: Required value"),
    ("Export", {"port": "http"}, "spec.port"),
    ("Instance", {"dataplane": {"replicas": 11}}, "spec.dataplane.replicas"),
    ("Instance", {"ingress": {"type": "HostPort"}}, "Unsupported value"),
    ("Import", {"sources": None}, "spec.sources"),
    ("AccessPolicy", {"action": None}, "spec.action"),
    ("PrivilegedAccessPolicy", {"to": "all"}, "spec.to"),
    ("AuthorizationPolicy", {"action": "PERHAPS"}, "Unsupported value"),
    ("AuthorizationPolicy", {"action": "DENY", "rules": None}, "DENY and CUSTOM need rules"),
    ("AuthorizationPolicy", {"action": "DENY", "rules": []}, "DENY and CUSTOM need rules"),
    ("AuthorizationPolicy", {"action": "CUSTOM", "rules": [{}]}, "CUSTOM needs provider.name"),
    ("AuthorizationPolicy", {"action": "CUSTOM", "rules": [{}], "provider": {"name": ""}}, "CUSTOM needs provider.name"),
    ("AuthorizationPolicy", {"action": "ALLOW", "provider": {"name": "x"}}, "provider is for CUSTOM only"),
    ("AuthorizationPolicy", {"action": "CUSTOM", "provider": {"name": "x"}}, "CUSTOM cannot match identities"),
    ("AuthorizationPolicy", {"rules": [{"when": [{"key": "source.colour", "values": ["x"]}]}]}, "rules[0].when[0].key"),
    ("AuthorizationPolicy", {"rules": [{"when": [{"key": "source.ip"}]}]}, "rules[0].when[0]"),
    ("AuthorizationPolicy", {"selector": {}, "targetRefs": [{"kind": "Service", "name": "a"}]},
     "only one of targetRefs or selector can be set"),
    ("AuthorizationPolicy", {"rules": [{"from": [{"source": {"serviceAccounts": ["a"], "principals": ["b"]}}]}]},
     "Cannot set serviceAccounts with namespaces or principals"),
    ("Claim", {"type": "Colour", "value": "80", "holder": {
        "kind": "HTTPProxy", "namespace": "shop", "name": "web", "uid": "1", "resourceVersion": "1"}}, "Unsupported value"),
    ("Claim", {"type": "Key", "value": "ab", "holder": {"kind": "Connector"}}, "spec.holder.uid"),
    ("PeerAuthentication", {"mtls": {"mode": "LAX"}}, "Unsupported value"),
    ("PeerAuthentication", {"portLevelMtls": {"80": {"mode": "DISABLE"}}}, "portLevelMtls requires selector"),
    ("PeerAuthentication", {"selector": {"matchLabels": {"a": "b"}}, "portLevelMtls": {"70000": {}}},
     "port must be between 1-65535"),
    ("ServiceEntry", {"hosts": ["*"]}, "hostname cannot be wildcard"),
    ("ServiceEntry", {"addresses": ["10.0.0.0/8"]}, "CIDR addresses are allowed only for NONE/STATIC"),
    ("WorkloadEntry", {"address": None}, "Address is required"),
    ("WorkloadEntry", {"address": "unix://relative"}, "UDS must be an absolute path or abstract socket"),
]


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("fabric"))
    yield server
    server.close()


def make(kind, name, spec, **over):
    version, plural, wide, _ = VALID[kind]
    path = f"/apis/{version}/" + ("" if wide else "namespaces/default/") + plural
    spec = {k: v for k, v in {**spec, **over}.items() if v is not None}
    return path, {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def plain(schema):
    """A schema without its descriptions."""
    out = {k: v for k, v in schema.items() if k != "description"}
    for k in ("items", "additionalProperties"):
        if isinstance(out.get(k), dict):
            out[k] = plain(out[k])
    if "properties" in out:
        out["properties"] = {k: plain(v) for k, v in out["properties"].items()}
    return out


def test_all_are_there_and_established(api):
    crds = {c["metadata"]["name"]: c for c in api.get(CRDS).json["items"]}
    assert len(SCHEMAS) == len(VALID) == 25
    for f in SCHEMAS:
        want = yaml.safe_load(f.read_text())
        assert want["metadata"]["name"] == f"{f.stem}.{f.parent.name}"
        got = crds[want["metadata"]["name"]]
        assert got["metadata"]["labels"][LABEL] == "true"
        assert int(got["metadata"]["annotations"][REVISION]) >= 1
        states = {c["type"]: c["status"] for c in got["status"]["conditions"]}
        approved = {"KubernetesAPIApprovalPolicyConformant": "True"} if f.parent.name.endswith(".k8s.io") else {}
        assert states == {"Established": "True", "NamesAccepted": "True", **approved}
        assert [(m["manager"], m["operation"]) for m in got["metadata"]["managedFields"]
                if "subresource" not in m] == [("kubectl", "Apply")]
        want["spec"]["conversion"] = {"strategy": "None"}
        assert got["spec"] == want["spec"]


def test_descriptions(api):
    """Every kind and its spec say what they are for, in one line each."""
    for f in SCHEMAS:
        for version in yaml.safe_load(f.read_text())["spec"]["versions"]:
            root = version["schema"]["openAPIV3Schema"]
            for text in (root["description"], root["properties"]["spec"]["description"]):
                assert text.endswith(".") and len(text) < 110 and "\n" not in text


@pytest.mark.parametrize("kind", VALID)
def test_valid(api, kind):
    path, obj = make(kind, "valid", VALID[kind][3])
    answer = api.post(path + "?fieldValidation=Strict", obj)
    assert answer.status == 201, answer
    assert api.delete(f"{path}/valid").status == 200


@pytest.mark.parametrize("kind,over,message", INVALID, ids=lambda v: v if isinstance(v, str) else "")
def test_invalid(api, kind, over, message):
    path, obj = make(kind, "invalid", VALID[kind][3], **over)
    answer = api.post(path, obj)
    assert answer.status == 422, answer
    assert message in answer.message, answer


def test_rules_on_names(api):
    for kind, good, bad, message in (("Import", "a" * 63, "a" * 64, "import name cannot exceed 63 chars"),
                                     ("HTTPProxy", "a-b", "a.b", "name must be a DNS-1123 label")):
        path, obj = make(kind, bad, VALID[kind][3])
        answer = api.post(path, obj)
        assert answer.status == 422 and message in answer.message, answer
        path, obj = make(kind, good, VALID[kind][3])
        assert api.post(path, obj).status == 201
        assert api.delete(f"{path}/{good}").status == 200


def test_connector_status(api):
    path, obj = make("Connector", "status", VALID["Connector"][3])
    answer = api.post(path, obj)
    assert answer.json["status"]["conditions"][0]["reason"] == "Pending"
    for details, message in (({**KEY, "publicKey": {**KEY["publicKey"], "addresses": [{"address": "a", "port": 1}]}},
                              "Must be an IP address."),
                             ({**KEY, "publicKey": {**KEY["publicKey"], "homeRelay": "relay"}}, "Must be a URL."),
                             ({"type": "PublicKey"}, "publicKey field must be specified if the type is PublicKey"),
                             ({"type": "Pigeon"}, "Unsupported value")):
        answer = api.patch(f"{path}/status/status", {"status": {"connectionDetails": details}})
        assert answer.status == 422 and message in answer.message, answer
    answer = api.patch(f"{path}/status/status", {"status": {"connectionDetails": KEY}})
    assert answer.status == 200, answer
    assert answer.json["status"]["connectionDetails"]["publicKey"]["discoveryMode"] == "DNS"
    for key, n in (("ab" * 32, 1), ("cd" * 32, 0)):
        found = api.get(f"{path}?fieldSelector=status.connectionDetails.publicKey.id%3D{key}")
        assert len(found.json["items"]) == n


def test_defaults(api):
    for kind, where, want in (("Import", ("lbScheme",), "round-robin"),
                              ("ConnectorClass", ("controllerName",), "networking.datumapis.com/datum-connect"),
                              ("HTTPProxy", ("rules", 0, "matches"), [{"path": {"type": "PathPrefix", "value": "/"}}]),
                              ("Gateway", ("listeners", 0, "allowedRoutes"), {"namespaces": {"from": "Same"}})):
        path, obj = make(kind, "defaults", VALID[kind][3])
        value = api.post(path + "?dryRun=All", obj).json["spec"]
        for step in where:
            value = value[step]
        assert value == want


@pytest.mark.parametrize("path", [p for p in SCHEMAS if p.parent.name in GW], ids=lambda p: p.stem)
def test_same_as_upstream(path):
    """The Gateway API's kinds differ from the experimental channel in descriptions only."""
    top = find_gateway_api()
    upstream = pathlib.Path(top or "/nonexistent").parent / "experimental" / f"{path.parent.name}_{path.name}"
    if not upstream.exists():
        pytest.skip("no upstream copy here")
    ours, theirs = (yaml.safe_load(p.read_text()) for p in (path, upstream))
    assert ours["metadata"] == theirs["metadata"]
    for crd in (ours, theirs):
        for v in crd["spec"]["versions"]:
            v["schema"]["openAPIV3Schema"] = plain(v["schema"]["openAPIV3Schema"])
    assert ours["spec"] == theirs["spec"]


def test_same_as_clusterlink():
    """ClusterLink's kinds differ from upstream's in descriptions and printer columns only."""
    upstream = sorted((TOP.parent / "shared/data/crds/clusterlink").glob("*.yaml"))
    if not upstream:
        pytest.skip("no copy of ClusterLink's CRDs here")
    for theirs in upstream:
        path = TOP / "schemas/clusterlink.net" / theirs.name.split("_")[1]
        ours, want = (yaml.safe_load(p.read_text())["spec"] for p in (path, theirs))
        for crd in (ours, want):
            for v in crd["versions"]:
                v["schema"]["openAPIV3Schema"] = plain(v["schema"]["openAPIV3Schema"])
                v.pop("additionalPrinterColumns", None)
        assert ours == want, path.name


@needs_kubectl
def test_upstream_on_top(binary, tmp_path):
    """kubectl replaces our kinds without a conflict; they are the user's from then on."""
    top = find_gateway_api()
    if not top:
        pytest.skip("no copy of the Gateway API CRDs here (set GATEWAY_API)")
    server = Control(binary, tmp_path)
    path, route = make("HTTPRoute", "before", VALID["HTTPRoute"][3])
    assert server.post(path, route).status == 201
    out = server.kubectl("apply", "--server-side", "-f", top)
    assert "httproutes.gateway.networking.k8s.io serverside-applied" in out
    crd = server.get(f"{CRDS}/httproutes.gateway.networking.k8s.io").json
    assert crd["metadata"]["annotations"]["gateway.networking.k8s.io/channel"] == "standard"
    assert LABEL not in crd["metadata"].get("labels", {}) and REVISION not in crd["metadata"]["annotations"]
    assert "retry" not in json.dumps(crd["spec"])
    generation = crd["metadata"]["generation"]
    route["metadata"]["name"] = "after"
    server.kubectl("create", "-f", "-", stdin=json.dumps(route))
    server.kubectl("apply", "-f", "-", stdin=json.dumps({**route, "metadata": {"name": "applied"}}))
    assert "before" in server.kubectl("get", "httproutes")
    server.restart(kill=False)
    crd = server.get(f"{CRDS}/httproutes.gateway.networking.k8s.io").json
    assert crd["metadata"]["generation"] == generation
    assert crd["metadata"]["annotations"]["gateway.networking.k8s.io/channel"] == "standard"
    server.close()


def aged(server, name):
    """Makes one of our kinds look like that of an older program; the spec loses its columns."""
    crd = server.get(f"{CRDS}/{name}").json
    for key in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        crd["metadata"].pop(key)
    crd.pop("status")
    crd["metadata"]["annotations"][REVISION] = "0"
    for version in crd["spec"]["versions"]:
        version.pop("additionalPrinterColumns", None)
    answer = server.patch(f"{CRDS}/{name}", crd, kind="apply", query="?fieldManager=kubectl")
    assert answer.status == 200, answer


def test_later_starts(binary, tmp_path):
    """Missing kinds come back, old ones of ours are renewed, those a user touched stay."""
    server = Control(binary, tmp_path)
    old, mine, gone, unmarked = (f"{n}.gateway.networking.k8s.io" for n in
                                 ("gateways", "httproutes", "tcproutes", "udproutes"))
    for name in (old, mine, unmarked):
        aged(server, name)
    assert server.patch(f"{CRDS}/{mine}", {"metadata": {"annotations": {"x": "y"}}}).status == 200
    assert server.patch(f"{CRDS}/{unmarked}", {"metadata": {"labels": {LABEL: None}}}).status == 200
    assert server.delete(f"{CRDS}/{gone}").status == 200
    until(lambda: server.get(f"{CRDS}/{gone}").status == 404, GUARD, "the kind to go")
    untouched = server.get(f"{CRDS}/peers.clusterlink.net").json
    server.restart(kill=False)
    crds = {c["metadata"]["name"]: c for c in server.get(CRDS).json["items"]}
    columns = {n: "additionalPrinterColumns" in crds[n]["spec"]["versions"][0] for n in (old, mine, gone, unmarked)}
    assert columns == {old: True, mine: False, gone: True, unmarked: False}
    assert crds[old]["metadata"]["annotations"][REVISION] != "0"
    assert crds["peers.clusterlink.net"]["metadata"]["resourceVersion"] == untouched["metadata"]["resourceVersion"]
    server.close()


def test_not_wanted(binary, tmp_path):
    server = Control(binary, tmp_path, "--fabric-kinds", "false")
    assert server.get(CRDS).json["items"] == []
    server.close()


def test_start_is_quick(binary, tmp_path):
    """Best of some: the kinds may not cost the start more than 0.3 s of a processor."""
    def best(*flags):
        times = []
        for i in range(3):
            where = tmp_path / f"{len(flags)}-{i}"
            server = Control(binary, where, *flags)
            times.append(cpu_s(server.pid))
            server.close()
            shutil.rmtree(where)
        print(times)
        return min(times)
    assert best() - best("--fabric-kinds=false") < 0.3 * SLOW
