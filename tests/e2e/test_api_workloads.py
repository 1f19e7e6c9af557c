# SPDX-License-Identifier: Apache-2.0
"""Deployments, ReplicaSets and DaemonSets: kept and checked as Kubernetes does, run by somebody else."""
import pytest
from harness.control import Control, needs_kubectl
from harness.wait import until

TOP = "/apis/apps/v1"
ALL = TOP + "/namespaces/default/deployments"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("workloads"), "--gateway=false")
    yield server
    server.close()


def workload(kind, name, **spec):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
                     "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]}}, **spec}}


def test_discovery(api):
    found = {r["name"]: r for r in api.get(TOP).json["resources"]}
    assert set(found) == {"deployments", "deployments/scale", "deployments/status", "daemonsets",
                          "daemonsets/status", "replicasets", "replicasets/scale", "replicasets/status",
                          "statefulsets", "statefulsets/scale", "statefulsets/status"}
    assert found["deployments"]["shortNames"] == ["deploy"] and found["deployments"]["categories"] == ["all"]
    assert (found["deployments/scale"]["group"], found["deployments/scale"]["kind"]) == ("autoscaling", "Scale")


def test_notes_come_with_the_status_of_pods_and_nodes(api):
    """As in Kubernetes: whoever may write pods/status may annotate pods, and needs no right to pods."""
    pod = {"metadata": {"name": "noted", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for top, body in (("/api/v1/namespaces/default/pods", pod), ("/api/v1/nodes", {"metadata": {"name": "noted"}})):
        assert api.post(top, body).status == 201
        told = api.patch(f"{top}/noted/status", {"metadata": {"annotations": {"x": "y"}, "finalizers": ["a.b/c"]},
                                                 "spec": {"nodeName": "n", "unschedulable": True}})
        assert told.status == 200 and told.json["metadata"]["annotations"] == {"x": "y"}, told
        assert told.json["metadata"]["finalizers"] == ["a.b/c"] and not set(told.json["spec"]) & {"nodeName", "unschedulable"}
        told = api.patch(f"{top}/noted/status", {"metadata": {"annotations": {"x": None}, "finalizers": None, "labels": {"a": "2"}}})
        assert not told.json["metadata"].get("annotations") and told.json["metadata"]["labels"]["a"] == "2", told
    assert api.post(ALL, workload("Deployment", "noted")).status == 201
    told = api.patch(f"{ALL}/noted/status", {"metadata": {"annotations": {"x": "y"}, "labels": {"a": "2"}}})
    assert told.status == 200 and told.json["metadata"]["annotations"] == {"x": "y"}, told
    assert "a" not in told.json["metadata"].get("labels", {}), told


def test_life(api):
    obj = {**workload("Deployment", "life"), "status": {"replicas": 9}}
    answer = api.post(ALL, obj)
    assert answer.status == 201, answer
    new = answer.json
    assert new["status"] == {} and new["metadata"]["generation"] == 1 and new["spec"]["replicas"] == 1
    # Each door moves its own part.
    status = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}
    told = api.patch(f"{ALL}/life/status", {"spec": {"replicas": 5}, "status": status})
    assert told.status == 200 and told.json["status"] == status and told.json["spec"]["replicas"] == 1, told
    told = api.patch(f"{ALL}/life", {"spec": {"replicas": 2}, "status": {"replicas": 7}}).json
    assert (told["spec"]["replicas"], told["status"], told["metadata"]["generation"]) == (2, status, 2)
    told = api.patch(f"{ALL}/life", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert told.status == 422 and "spec.selector: Invalid value" in told.message, told
    assert "field is immutable" in told.message and "does not match template `labels`" in told.message


def test_scale(api):
    assert api.post(ALL, workload("Deployment", "scaled")).status == 201
    got = api.get(f"{ALL}/scaled/scale").json
    assert got["kind"] == "Scale" and got["spec"] == {"replicas": 1}
    assert got["status"] == {"replicas": 0, "selector": "app=scaled"}
    got["spec"]["replicas"] = 4
    told = api.put(f"{ALL}/scaled/scale", got)
    assert told.status == 200 and told.json["spec"] == {"replicas": 4}, told
    now = api.get(f"{ALL}/scaled").json
    assert now["spec"]["replicas"] == 4 and now["metadata"]["generation"] == 2


def test_pods_go_with_their_owner(api):
    owner = api.post(ALL, workload("Deployment", "owner")).json["metadata"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "owned", "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": owner["uid"]}]},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]}}
    pods = "/api/v1/namespaces/default/pods"
    assert api.post(pods, pod).status == 201
    api.delete(f"{ALL}/owner")
    until(lambda: api.get(f"{pods}/owned").status == 404 or
          api.get(f"{pods}/owned").json["metadata"].get("deletionTimestamp"), 10, "the pod to go")


def test_roles(api):
    def verbs(role, resource):
        rules = api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").json["rules"] or []
        return {v for r in rules if "apps" in r["apiGroups"] and resource in r["resources"] for v in r["verbs"]}
    until(lambda: verbs("view", "deployments") == {"get", "list", "watch"}, 10, "view")
    until(lambda: {"create", "get", "patch"} <= verbs("edit", "deployments"), 10, "edit")
    assert not verbs("view", "secrets")


@needs_kubectl
def test_kubectl(api):
    api.kubectl("create", "deployment", "shop", "--image=example.com/shop:2", "--replicas=3")
    api.patch(f"{ALL}/shop/status", {"status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}})
    head, row = api.kubectl("get", "deploy", "shop", "-o", "wide").splitlines()
    assert head.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row.split()[:4] == ["shop", "2/3", "3", "1"]
    assert row.split()[5:] == ["shop", "example.com/shop:2", "app=shop"]
    assert api.kubectl("scale", "deployment/shop", "--replicas=5") == "deployment.apps/shop scaled\n"
    assert api.get(f"{ALL}/shop").json["spec"]["replicas"] == 5
    api.kubectl("set", "image", "deployment/shop", "shop=example.com/shop:3")
    told = " ".join(api.kubectl("describe", "deployment", "shop").split())
    for text in ("Replicas: 5 desired | 3 updated", "StrategyType: RollingUpdate", "Image: example.com/shop:3"):
        assert text in told, told
    where = f"{TOP}/namespaces/default/"
    assert api.post(where + "daemonsets", workload("DaemonSet", "every")).status == 201
    assert api.post(where + "replicasets", workload("ReplicaSet", "some", replicas=2)).status == 201
    head, row = api.kubectl("get", "ds", "every").splitlines()
    assert head.split() == ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE", "SELECTOR", "AGE"]
    assert row.split()[:7] == ["every", "0", "0", "0", "0", "0", "<none>"]
    head, row = api.kubectl("get", "rs", "some").splitlines()
    assert head.split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"] and row.split()[:4] == ["some", "2", "0", "0"]
