# SPDX-License-Identifier: Apache-2.0
"""Built-in kinds as their users meet them: what is filled in, what is refused and how, what goes with what."""
import base64
import json

import pytest
from harness import control
from harness.control import Control, config_map
from harness.wait import GUARD, until

NS = "/api/v1/namespaces/default/"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("builtin2"))
    yield server
    server.close()


def service(name, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def made(api, path, obj):
    answer = api.post(path, obj)
    assert answer.status == 201, answer
    return answer.json


def refused(answer, *texts):
    assert answer.status == 422, answer
    for text in texts:
        assert text in answer.message, answer.message


def warnings(answer):
    return answer.headers.get_all("Warning") or []


# --- Services ---

def test_addresses_are_given_and_taken_back(api):
    one = made(api, NS + "services", service("one", ports=[{"port": 80}]))["spec"]
    assert one["clusterIP"].startswith("10.") and one["clusterIPs"] == [one["clusterIP"]]
    assert one["ipFamilies"] == ["IPv4"] and one["ipFamilyPolicy"] == "SingleStack"
    # The address is one Service's only, until that one goes.
    refused(api.post(NS + "services", service("two", clusterIP=one["clusterIP"], ports=[{"port": 80}])),
            f"failed to allocate IP {one['clusterIP']}: provided IP is already allocated")
    assert api.delete(NS + "services/one").status == 200
    made(api, NS + "services", service("two", clusterIP=one["clusterIP"], ports=[{"port": 80}]))
    # A dry run takes nothing.
    dry = api.post(NS + "services?dryRun=All", service("dry", type="NodePort", ports=[{"port": 80, "nodePort": 30700}]))
    assert dry.status == 201 and dry.json["spec"]["clusterIP"]
    made(api, NS + "services", service("three", type="NodePort", ports=[{"port": 80, "nodePort": 30700}]))
    refused(api.post(NS + "services", service("four", type="NodePort", ports=[{"port": 80, "nodePort": 30700}])),
            "spec.ports[0].nodePort: Invalid value: 30700: provided port is already allocated")
    # A second one of the same name asks for what the first one has: that is found first.
    refused(api.post(NS + "services", service("three", type="NodePort", ports=[{"port": 80, "nodePort": 30700}])),
            "provided port is already allocated")
    for name in ("two", "three"):
        api.delete(NS + "services/" + name)


def test_addresses_survive_a_restart(binary, tmp_path):
    server = Control(binary, tmp_path / "again")
    try:
        ip = made(server, NS + "services", service("kept", ports=[{"port": 80}]))["spec"]["clusterIP"]
        server.restart()
        refused(server.post(NS + "services", service("other", clusterIP=ip, ports=[{"port": 80}])), "already allocated")
    finally:
        server.close()


def test_many_services_have_different_addresses(api):
    ips, ports = set(), set()
    for i in range(40):
        spec = made(api, NS + "services", service(f"many{i}", type="NodePort", ports=[{"port": 80}]))["spec"]
        ips.add(spec["clusterIP"])
        ports.add(spec["ports"][0]["nodePort"])
    assert len(ips) == 40 and len(ports) == 40
    for i in range(40):
        api.delete(NS + f"services/many{i}")


def test_type_changes(api):
    made(api, NS + "services", service("t", ports=[{"port": 80}]))
    url = NS + "services/t"
    spec = api.patch(url, {"spec": {"type": "NodePort"}}).json["spec"]
    assert spec["ports"][0]["nodePort"] >= 30000 and spec["externalTrafficPolicy"] == "Cluster"
    ip, port = spec["clusterIP"], spec["ports"][0]["nodePort"]
    # A PUT that does not mention what was given keeps it.
    spec = api.put(url, service("t", type="NodePort", ports=[{"port": 81}])).json["spec"]
    assert spec["clusterIP"] == ip and spec["ports"][0]["nodePort"] == port
    spec = api.patch(url, {"spec": {"type": "ClusterIP"}}).json["spec"]
    assert "nodePort" not in spec["ports"][0] and "externalTrafficPolicy" not in spec
    spec = api.patch(url, {"spec": {"type": "ExternalName", "externalName": "a.example."}}).json["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(spec)
    assert spec["externalName"] == "a.example."
    answer = api.patch(url, {"spec": {"type": "ClusterIP"}})
    assert answer.json["spec"]["clusterIP"]
    assert any("externalName is ignored" in w for w in warnings(answer)), warnings(answer)
    refused(api.patch(url, {"spec": {"clusterIP": "10.96.1.2"}}), "spec.clusterIPs[0]: Invalid value:",
            "may not change once set")
    api.delete(url)


def test_load_balancer_status(api):
    made(api, NS + "services", {**service("lb", type="LoadBalancer", ports=[{"port": 80}]),
                                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    assert api.get(NS + "services/lb").json["status"] == {"loadBalancer": {}}
    done = api.patch(NS + "services/lb/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    assert done.json["status"]["loadBalancer"]["ingress"] == [{"ip": "192.0.2.1", "ipMode": "VIP"}]
    refused(api.patch(NS + "services/lb/status", {"status": {"loadBalancer": {"ingress": [{"hostname": "192.0.2.1"}]}}}),
            "must be a DNS name, not an IP address")
    # The status goes with the type.
    done = api.patch(NS + "services/lb", {"spec": {"type": "ClusterIP"}})
    assert done.json["status"] == {"loadBalancer": {}}
    api.delete(NS + "services/lb")


def test_nobody_owns_what_the_server_gave(api):
    answer = api.post(NS + "services?fieldManager=me", service("own", type="NodePort", ports=[{"port": 80}]))
    (entry,) = answer.json["metadata"]["managedFields"]
    assert set(entry["fieldsV1"]["f:spec"]) == {
        "f:externalTrafficPolicy", "f:internalTrafficPolicy", "f:ports", "f:sessionAffinity", "f:type"}
    applied = api.patch(NS + "services/ssa", service("ssa", type="NodePort", ports=[{"port": 80}]), kind="apply",
                        query="?fieldManager=a")
    again = api.patch(NS + "services/ssa", service("ssa", type="NodePort", ports=[{"port": 80}]), kind="apply",
                      query="?fieldManager=a")
    assert applied.status == 201 and again.status == 200
    assert applied.json["metadata"]["resourceVersion"] == again.json["metadata"]["resourceVersion"]
    for name in ("own", "ssa"):
        api.delete(NS + "services/" + name)


# --- token Secrets ---

def token_secret(name, account):
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}}}


def test_token_secrets(api):
    uid = made(api, NS + "serviceaccounts", {"metadata": {"name": "robot"}})["metadata"]["uid"]
    made(api, NS + "secrets", token_secret("robot-token", "robot"))
    made(api, NS + "secrets", token_secret("orphan-token", "nobody"))
    data = until(lambda: api.get(NS + "secrets/robot-token").json.get("data"), 5, "the token")
    assert set(data) == {"ca.crt", "namespace", "token"}
    assert base64.b64decode(data["namespace"]) == b"default"
    assert b"BEGIN CERTIFICATE" in base64.b64decode(data["ca.crt"])
    notes = api.get(NS + "secrets/robot-token").json["metadata"]["annotations"]
    assert notes["kubernetes.io/service-account.uid"] == uid
    token = base64.b64decode(data["token"]).decode()
    me = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, context=api.context(cert=False),
                  headers={"Authorization": "Bearer " + token})
    assert me.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    assert me.json["status"]["userInfo"]["uid"] == uid
    until(lambda: api.get(NS + "secrets/orphan-token").status == 404, 5, "the Secret without account to go")
    # With the account go its tokens; they are not believed any more.
    api.delete(NS + "serviceaccounts/robot")
    until(lambda: api.get(NS + "secrets/robot-token").status == 404, 5, "the token to go")
    gone = api.get("/api/v1/namespaces", context=api.context(cert=False), headers={"Authorization": "Bearer " + token})
    assert gone.status == 401


def test_a_token_is_good_only_as_long_as_its_secret(api):
    made(api, NS + "serviceaccounts", {"metadata": {"name": "brief"}})
    made(api, NS + "secrets", token_secret("brief-token", "brief"))
    data = until(lambda: api.get(NS + "secrets/brief-token").json.get("data"), 5, "the token")
    auth = {"Authorization": "Bearer " + base64.b64decode(data["token"]).decode()}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert api.post(path, {}, context=api.context(cert=False), headers=auth).status == 201
    api.delete(NS + "secrets/brief-token")
    assert api.post(path, {}, context=api.context(cert=False), headers=auth).status == 401


# --- Endpoints ---

def test_endpoints(api):
    obj = {"metadata": {"name": "e"}, "subsets": [{
        "addresses": [{"ip": ip} for ip in ("192.0.2.3", "192.0.2.1", "192.0.2.2", "2001:db8::1")],
        "ports": [{"port": 80}]}]}
    answer = api.post(NS + "endpoints", obj)
    assert answer.status == 201
    assert warnings(answer) == ['299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"']
    assert answer.json["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    table = api.get(NS + "endpoints", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Endpoints", "Age"]
    assert table["rows"][0]["cells"][1] == "192.0.2.1:80,192.0.2.2:80,192.0.2.3:80 + 1 more..."
    node = json.loads(json.dumps(answer.json))
    node["subsets"][0]["addresses"][0]["nodeName"] = "n1"
    assert api.put(NS + "endpoints/e", node).status == 200
    node["subsets"][0]["addresses"][0]["nodeName"] = "n2"
    del node["metadata"]["resourceVersion"]
    refused(api.put(NS + "endpoints/e", node), "Cannot change NodeName for 192.0.2.1 to n2")
    # A PUT of a missing one makes it.
    assert api.put(NS + "endpoints/new", {"metadata": {"name": "new"}}).status == 201


# --- Namespaces ---

def test_namespace_says_what_it_waits_for(api):
    made(api, "/api/v1/namespaces", {"metadata": {"name": "slow"}})
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made(api, "/api/v1/namespaces/slow/configmaps", held)
    api.delete("/api/v1/namespaces/slow")

    def conditions():
        found = api.get("/api/v1/namespaces/slow").json["status"].get("conditions")
        return {c["type"]: c for c in found or []}

    def count():
        return conditions().get("NamespaceContentRemaining", {}).get("message")
    want = "Some resources are remaining: configmaps. has 1 resource instances"
    until(lambda: count() == want, GUARD, "all the rest to go")
    seen = conditions()
    assert [(t, c["status"], c["reason"]) for t, c in seen.items()] == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain"),
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain")]
    assert seen["NamespaceFinalizersRemaining"]["message"] == \
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    api.patch("/api/v1/namespaces/slow/configmaps/held", {"metadata": {"finalizers": None}})
    until(lambda: api.get("/api/v1/namespaces/slow").status == 404, 5, "the namespace to go")


def test_finalize_and_status_of_a_namespace(api):
    obj = made(api, "/api/v1/namespaces", {"metadata": {"name": "fin"}})
    # The main door leaves both alone.
    plain = api.put("/api/v1/namespaces/fin", {"metadata": {"name": "fin", "labels": {"a": "b"}}}).json
    assert plain["spec"] == {"finalizers": ["kubernetes"]} and plain["status"] == {"phase": "Active"}
    (entry,) = [m for m in obj["metadata"]["managedFields"]]
    assert set(entry["fieldsV1"]) == {"f:metadata"}
    refused(api.patch("/api/v1/namespaces/fin/status", {"status": {"phase": "Terminating"}}),
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
    done = api.put("/api/v1/namespaces/fin/finalize", {"metadata": {"name": "fin"}, "spec": {}})
    assert done.status == 200 and done.json["spec"] == {}
    api.delete("/api/v1/namespaces/fin")
    assert api.get("/api/v1/namespaces/fin").status == 404


# --- the rest ---

def test_events_of_the_newer_group_do_not_change(api):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    made(api, path, {"metadata": {"name": "ev"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
                     "reason": "r", "action": "a", "reportingController": "example.com/c", "reportingInstance": "i",
                     "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}})
    refused(api.patch(path + "/ev", {"note": "n"}), 'message: Invalid value: "n": field is immutable')
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert api.patch(path + "/ev", {"series": series}).json["series"] == series
    # The older shape may be changed at will.
    assert api.patch(NS + "events/ev", {"message": "m"}).status == 200


def test_pods(api):
    pod = made(api, NS + "pods", {"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "a", "image": "x:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"name": "b", "image": "y", "env": [{"name": "K", "value": "v"}]}]}})
    assert pod["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert [c["imagePullPolicy"] for c in pod["spec"]["containers"]] == ["IfNotPresent", "Always"]
    assert pod["spec"]["serviceAccountName"] == "default" and len(pod["spec"]["tolerations"]) == 2
    # Containers merge by name, and their images may change; nothing else may.
    done = api.patch(NS + "pods/p", {"spec": {"containers": [{"name": "b", "image": "y:2"}]}}, kind="strategic")
    assert [c["image"] for c in done.json["spec"]["containers"]] == ["x:1", "y:2"]
    refused(api.patch(NS + "pods/p", {"spec": {"nodeName": "n"}}), "spec: Forbidden: pod updates may not change fields")
    assert api.patch(NS + "pods/p/status", {"status": {"podIP": "192.0.2.9"}}).json["status"]["podIP"] == "192.0.2.9"
    assert api.patch(NS + "pods/p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    api.delete(NS + "pods/p")


def test_metadata_by_the_door_of_the_status(api):
    """Node agents annotate pods by pods/status, whose right they have. Owners of a pod and a spec are not for it."""
    made(api, NS + "pods", {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "a", "image": "x:1"}]}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
    done = api.patch(NS + "pods/p/status", {
        "metadata": {"annotations": {"k": "v"}, "labels": {"c": "d"}, "ownerReferences": [owner], "uid": None},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}).json
    assert done["metadata"]["annotations"] == {"k": "v"} and done["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert "ownerReferences" not in done["metadata"] and "nodeName" not in done["spec"] and done["metadata"]["uid"]
    assert done["status"]["phase"] == "Running"
    done = api.patch(NS + "pods/p/status", {"metadata": {"annotations": {"k": None}}}).json
    assert not done["metadata"].get("annotations")
    api.delete(NS + "pods/p")
    apps = "/apis/apps/v1/namespaces/default/deployments"
    made(api, apps, {"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "a", "image": "x:1"}]}}}})
    done = api.patch(apps + "/d/status", {"metadata": {"annotations": {"k": "v"}, "labels": {"c": "d"}}}).json["metadata"]
    assert done["labels"] == {"a": "b"} and done["annotations"]["k"] == "v" and done["generation"] == 1
    api.delete(apps + "/d")
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = api.get(crds).json["items"][0]["metadata"]["name"]
    done = api.patch(f"{crds}/{name}/status", {"metadata": {"annotations": {"k": "v"}}}).json["metadata"]
    assert "k" not in done.get("annotations", {})


@control.needs_kubectl
def test_with_kubectl(api):
    api.kubectl("create", "service", "nodeport", "web", "--tcp=80:8080", "--node-port=30801")
    again = api.kubectl("create", "service", "nodeport", "web2", "--tcp=80", "--node-port=30801", check=False)
    assert "nodePort: Invalid value: 30801: provided port is already allocated" in again.stderr
    row = api.kubectl("get", "service", "web", "--no-headers").split()
    assert row[1] == "NodePort" and row[4] == "80:30801/TCP"
    api.kubectl("expose", "service", "web", "--name=exposed", "--port=81")
    assert "IP Families:" in api.kubectl("describe", "service", "exposed")
    api.kubectl("run", "nginx", "--image=nginx", "--port=80")
    api.kubectl("set", "image", "pod/nginx", "nginx=nginx:2")
    assert api.kubectl("get", "pod", "nginx", "-o", "jsonpath={.spec.containers[0].image}") == "nginx:2"
    role = api.kubectl("create", "-f", "-", check=False, stdin=json.dumps({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "agg"},
        "aggregationRule": {}}))
    assert "at least one clusterRoleSelector required if aggregationRule is non-nil" in role.stderr
