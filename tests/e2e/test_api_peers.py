# SPDX-License-Identifier: Apache-2.0
"""What control planes of others need of the API: tokens that name pod and node, both spellings of the core version."""
import base64
import json

import pytest
from harness import rights as rt
from harness.control import Control
from harness.wait import GUARD, until

NS = "/api/v1/namespaces/default"
EXTRA = "authentication.kubernetes.io/"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("peers"))
    rt.make(server, f"{NS}/serviceaccounts", {"metadata": {"name": "robot"}})
    yield server
    server.close()


def pod(api, name, node=None, **meta):
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    if node:
        spec["nodeName"] = node
    return rt.make(api, f"{NS}/pods", {"metadata": {"name": name, **meta}, "spec": spec})


def bound(api, name):
    return rt.token_of(api, "default", "robot", boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": name})


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def review(api, token):
    answer = api.post("/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})
    assert answer.status == 201, answer
    return answer.json["status"]


def uid_of(api, path):
    return api.get(path).json["metadata"]["uid"]


def test_a_review_names_pod_and_node(api):
    rt.make(api, "/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod(api, "p1", node="n1")
    token = bound(api, "p1")
    pod_uid, node_uid = uid_of(api, f"{NS}/pods/p1"), uid_of(api, "/api/v1/nodes/n1")
    claims = claims_of(token)
    assert claims["kubernetes.io"]["pod"] == {"name": "p1", "uid": pod_uid}
    assert claims["kubernetes.io"]["node"] == {"name": "n1", "uid": node_uid}
    status = review(api, token)
    assert status["authenticated"] and status["user"]["username"] == "system:serviceaccount:default:robot"
    assert status["user"]["extra"] == {
        EXTRA + "credential-id": ["JTI=" + claims["jti"]],
        EXTRA + "node-name": ["n1"], EXTRA + "node-uid": [node_uid],
        EXTRA + "pod-name": ["p1"], EXTRA + "pod-uid": [pod_uid]}


def test_the_token_outlives_the_node_object_and_ends_with_the_pod(api):
    rt.make(api, "/api/v1/nodes", {"metadata": {"name": "n2"}})
    pod(api, "p2", node="n2")
    token = bound(api, "p2")
    assert api.delete("/api/v1/nodes/n2").status == 200
    assert review(api, token)["authenticated"]
    assert api.delete(f"{NS}/pods/p2").status == 200
    assert review(api, token) == {"user": {}, "error": "invalid bearer token"}
    pod(api, "p2", node="n2")  # another one of that name
    assert "error" in review(api, token)


def test_a_pod_without_node_or_on_an_unknown_one(api):
    pod(api, "p3")
    extra = review(api, bound(api, "p3"))["user"]["extra"]
    assert EXTRA + "node-name" not in extra and extra[EXTRA + "pod-name"] == ["p3"]
    pod(api, "p4", node="nowhere")
    extra = review(api, bound(api, "p4"))["user"]["extra"]
    assert extra[EXTRA + "node-name"] == ["nowhere"] and EXTRA + "node-uid" not in extra


def test_a_terminating_pod_keeps_its_identity(api):
    pod(api, "p5", finalizers=["example.com/hold"])
    token = bound(api, "p5")
    api.delete(f"{NS}/pods/p5")
    assert api.get(f"{NS}/pods/p5").json["metadata"]["deletionTimestamp"]
    assert review(api, token)["authenticated"]
    assert api.patch(f"{NS}/pods/p5", {"metadata": {"finalizers": None}}).status == 200
    until(lambda: "error" in review(api, token), GUARD, "the end of the token")


def test_a_token_of_a_node_names_it(api):
    rt.make(api, "/api/v1/nodes", {"metadata": {"name": "n6"}})
    token = rt.token_of(api, "default", "robot", boundObjectRef={"kind": "Node", "apiVersion": "v1", "name": "n6"})
    extra = review(api, token)["user"]["extra"]
    assert extra[EXTRA + "node-uid"] == [uid_of(api, "/api/v1/nodes/n6")]
    assert EXTRA + "pod-name" not in extra
    api.delete("/api/v1/nodes/n6")
    assert "error" in review(api, token)


# --- "/v1" -----------------------------------------------------------------------------------

def config_map(name, version, **data):
    return {"apiVersion": version, "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_the_core_version_with_an_empty_group(api):
    cms = f"{NS}/configmaps"
    applied = api.patch(f"{cms}/a", config_map("a", "/v1", x="1"), kind="apply", query="?fieldManager=istio")
    assert applied.status == 201 and applied.json["apiVersion"] == "v1", applied
    assert [m["apiVersion"] for m in applied.json["metadata"]["managedFields"]] == ["v1"]
    again = api.patch(f"{cms}/a", config_map("a", "/v1", x="2"), kind="apply", query="?fieldManager=istio")
    assert again.status == 200 and again.json["data"] == {"x": "2"}
    assert api.post(cms, config_map("b", "/v1", x="1")).json["apiVersion"] == "v1"
    assert api.put(f"{cms}/b", config_map("b", "/v1", x="2")).json["data"] == {"x": "2"}
    for kind in ("merge", "strategic"):
        assert api.patch(f"{cms}/b", {"apiVersion": "/v1", "data": {kind: "3"}}, kind=kind).status == 200
    assert api.patch(f"{cms}/b", [{"op": "replace", "path": "/apiVersion", "value": "/v1"}], kind="json").status == 200
    assert api.get(f"{cms}/b").json["data"] == {"x": "2", "merge": "3", "strategic": "3"}


@pytest.mark.parametrize("version", ["//v1", "/", "/v2", "/apps/v1"])
def test_other_spellings_are_refused(api, version):
    answer = api.patch(f"{NS}/configmaps/c", config_map("c", version), kind="apply", query="?fieldManager=x")
    assert answer.status == 400, answer
    assert api.post(f"{NS}/configmaps", config_map("c", version)).status == 400


def test_status_by_apply_with_an_empty_group(api):
    ports = [{"port": 80}]
    rt.make(api, f"{NS}/services", {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    status = {"conditions": [{"type": "istio.io/WaypointBound", "status": "True", "reason": "WaypointAccepted",
                              "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    answer = api.patch(f"{NS}/services/s/status", {
        "apiVersion": "/v1", "kind": "Service", "metadata": {"name": "s"}, "status": status}, kind="apply",
        query="?fieldManager=istio-ambient-service&force=true")
    assert answer.status == 200, answer
    assert answer.json["status"]["conditions"] == status["conditions"]
