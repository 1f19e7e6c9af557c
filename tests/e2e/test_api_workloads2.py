# SPDX-License-Identifier: Apache-2.0
"""StatefulSets, Jobs, CronJobs, ReplicationControllers, volumes and autoscaling/v1, kept as Kubernetes keeps them."""
import pytest
from harness.control import Control, find_kubectl
from harness.wait import until

APPS, BATCH, CORE = "/apis/apps/v1", "/apis/batch/v1", "/api/v1"
NS = "/namespaces/default/"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "example.com/i:1"}]}}
ONCE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", **TEMPLATE["spec"]}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("workloads2"), "--gateway=false")
    yield server
    server.close()


@pytest.fixture(scope="module")
def kubectl(api):
    if not find_kubectl():
        pytest.skip("NO KUBECTL ON THIS MACHINE: nothing is driven with it")
    return api.kubectl


def made(api, path, obj):
    answer = api.post(path, obj)
    assert answer.status == 201, answer
    return answer.json


def cells(api, path):
    table = api.get(path, headers=TABLE).json
    names = [c["name"] for c in table["columnDefinitions"]]
    return names, {r["cells"][0]: r["cells"] for r in table["rows"]}


@pytest.mark.parametrize("group,name,short", [
    (APPS, "statefulsets", "sts"), (CORE, "replicationcontrollers", "rc"), (CORE, "persistentvolumeclaims", "pvc"),
    (CORE, "persistentvolumes", "pv"), (BATCH, "cronjobs", "cj"), (BATCH, "jobs", None),
    ("/apis/autoscaling/v1", "horizontalpodautoscalers", "hpa")])
def test_discovery(api, group, name, short):
    found = {r["name"]: r for r in api.get(group).json["resources"]}
    assert found[name].get("shortNames") == ([short] if short else None)
    assert f"{name}/status" in found
    volumes = name.startswith("persistent")
    assert found[name].get("categories") == (None if volumes else ["all"])
    assert (f"{name}/scale" in found) == (name in ("statefulsets", "replicationcontrollers"))


def test_stateful_set(api):
    path = APPS + NS + "statefulsets"
    obj = made(api, path, {"metadata": {"name": "s"}, "spec": {
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE,
        "volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
                                  "spec": CLAIM}]}})
    assert obj["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert obj["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert obj["spec"]["volumeClaimTemplates"][0]["status"] == {"phase": "Pending"}
    assert obj["status"] == {"availableReplicas": 0, "replicas": 0}
    assert "enableServiceLinks" not in obj["spec"]["template"]["spec"]
    assert api.patch(f"{path}/s/scale", {"spec": {"replicas": 4}}).json["spec"] == {"replicas": 4}
    refused = api.patch(f"{path}/s", {"spec": {"serviceName": "other"}})
    assert refused.status == 422 and "updates to statefulset spec for fields other than" in refused.message
    assert cells(api, path)[1]["s"][:2] == ["s", "0/4"]


def test_job(api):
    path = BATCH + NS + "jobs"
    job = made(api, path, {"metadata": {"name": "j"}, "spec": {"template": ONCE}})
    uid = job["metadata"]["uid"]
    spec = job["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert {k: spec[k] for k in ("backoffLimit", "completions", "parallelism", "completionMode", "suspend")} == {
        "backoffLimit": 6, "completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "suspend": False}
    assert job["status"] == {} and job["metadata"]["generation"] == 1
    names, rows = cells(api, path)
    assert names == ["Name", "Status", "Completions", "Duration", "Age", "Containers", "Images", "Selector"]
    assert rows["j"][:4] == ["j", "Running", "0/1", ""]
    # Whoever runs it says how it went, through the status.
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1,
            "startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:01:30Z"}
    assert api.patch(f"{path}/j/status", {"status": done}).status == 200
    assert cells(api, path)[1]["j"][1:4] == ["Complete", "1/1", "90s"]
    assert "field is immutable" in api.patch(f"{path}/j", {"spec": {"completions": 5}}).message
    refused = api.post(path, {"metadata": {"name": "bad"}, "spec": {"template": TEMPLATE}})
    assert refused.status == 422
    assert 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"' in refused.message


def test_pods_of_a_job_stay_unless_asked(api):
    path = BATCH + NS + "jobs"
    job = made(api, path, {"metadata": {"name": "gone"}, "spec": {"template": ONCE}})
    pod = made(api, CORE + NS + "pods", {"metadata": {"name": "left", "ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": job["metadata"]["uid"]}]}, **{
            "spec": ONCE["spec"]}})
    told = api.delete(f"{path}/gone")
    assert told.status == 200 and "child pods are preserved by default" in told.headers["Warning"]
    until(lambda: api.get(f"{path}/gone").status == 404, 10, "the Job to go")
    left = api.get(CORE + NS + "pods/left").json
    assert left["metadata"]["uid"] == pod["metadata"]["uid"] and "ownerReferences" not in left["metadata"]


def test_cron_job(api):
    path = BATCH + NS + "cronjobs"
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": ONCE}}}
    job = made(api, path, {"metadata": {"name": "c"}, "spec": spec})
    assert (job["spec"]["concurrencyPolicy"], job["spec"]["successfulJobsHistoryLimit"]) == ("Allow", 3)
    assert cells(api, path)[1]["c"][:6] == ["c", "*/5 * * * *", "<none>", "False", 0, "<none>"]
    refused = api.post(path, {"metadata": {"name": "bad"}, "spec": {**spec, "schedule": "often"}})
    assert refused.status == 422 and "expected exactly 5 fields, found 1: [often]" in refused.message


def test_replication_controller(api):
    path = CORE + NS + "replicationcontrollers"
    rc = made(api, path, {"metadata": {"name": "r"}, "spec": {"template": TEMPLATE}})
    assert rc["spec"]["selector"] == {"a": "b"} and rc["metadata"]["labels"] == {"a": "b"}
    assert api.get(f"{path}/r/scale").json["status"] == {"replicas": 0, "selector": "a=b"}
    refused = api.post(path, {"metadata": {"name": "bad"}, "spec": {"selector": {"x": "y"}, "template": TEMPLATE}})
    assert refused.status == 422 and "`selector` does not match template `labels`" in refused.message


def test_volumes(api):
    claims, volumes = CORE + NS + "persistentvolumeclaims", CORE + "/persistentvolumes"
    assert made(api, claims, {"metadata": {"name": "p"}, "spec": CLAIM})["status"] == {"phase": "Pending"}
    volume = {**CLAIM, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    del volume["resources"]
    assert made(api, volumes, {"metadata": {"name": "v"}, "spec": volume})["spec"]["volumeMode"] == "Filesystem"
    assert cells(api, volumes)[1]["v"][:5] == ["v", "1Gi", "RWO", "Retain", "Pending"]
    # Whoever binds names the volume once; nothing else of the spec moves.
    assert api.patch(f"{claims}/p", {"spec": {"volumeName": "v"}}).status == 200
    refused = api.patch(f"{claims}/p", {"spec": {"accessModes": ["ReadWriteMany"]}})
    assert refused.status == 422 and "spec is immutable after creation" in refused.message
    refused = api.post(claims, {"metadata": {"name": "bad"}, "spec": {}})
    assert "at least 1 access mode is required" in refused.message
    assert "spec.resources[storage]: Required value" in refused.message


def test_both_versions_of_an_autoscaler(api):
    v1, v2 = (f"/apis/autoscaling/{v}{NS}horizontalpodautoscalers" for v in ("v1", "v2"))
    old = made(api, v1, {"metadata": {"name": "old"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET,
                                                              "targetCPUUtilizationPercentage": 50}})
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    assert api.get(f"{v2}/old").json["spec"]["metrics"] == [cpu]
    pods = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
    made(api, v2, {"metadata": {"name": "new"}, "spec": {
        "maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": [pods, cpu],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}})
    seen = api.get(f"{v1}/new").json
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 50 and "metrics" not in seen["spec"]
    # A change through v1 loses nothing that v1 has no field for.
    assert api.patch(f"{v1}/new", {"spec": {"targetCPUUtilizationPercentage": 70}}).status == 200
    now = api.get(f"{v2}/new").json
    assert now["spec"]["metrics"][0] == pods
    assert now["spec"]["metrics"][1]["resource"]["target"]["averageUtilization"] == 70
    assert now["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 60
    assert "annotations" not in now["metadata"]
    assert cells(api, v2)[1]["new"][1:4] == ["Deployment/d", "<unknown>/5, cpu: <unknown>/70%", "1"]
    assert cells(api, v1)[1]["old"][2] == "cpu: <unknown>/50%"
    assert len(api.get(f"{v1}").json["items"]) == len(api.get(f"{v2}").json["items"]) == 2


def test_roles(api):
    def verbs(role, group, resource):
        rules = api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").json["rules"] or []
        return {v for r in rules if group in r["apiGroups"] and resource in r["resources"] for v in r["verbs"]}
    for group, resource in (("apps", "statefulsets"), ("batch", "jobs"), ("batch", "cronjobs"),
                            ("autoscaling", "horizontalpodautoscalers"), ("", "persistentvolumeclaims"),
                            ("", "replicationcontrollers"), ("", "pods")):
        until(lambda g=group, r=resource: verbs("view", g, r) == {"get", "list", "watch"}, 10, f"view {resource}")
        until(lambda g=group, r=resource: {"create", "get", "patch"} <= verbs("edit", g, r), 10, f"edit {resource}")


def test_an_older_role_gets_new_rules_and_keeps_its_own(api):
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregate-to-view"
    own = {"apiGroups": ["x.example.com"], "resources": ["ys"], "verbs": ["get"]}
    assert api.patch(path, {"rules": [own]}).status == 200
    api.restart()
    until(lambda: len(api.get(path).json["rules"]) > 5, 10, "rules to come back")
    assert own in api.get(path).json["rules"]


# --- with kubectl ----------------------------------------------------------------------------

def test_kubectl_prunes(api, kubectl, tmp_path):
    """The kinds kubectl looks for when it prunes without being told which."""
    def manifest(names):
        docs = [f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {n}, labels: {{app: prune}}}}\n" for n in names]
        job = ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: prune-job, labels: {app: prune}}\n"
               "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.com/i}]}}}\n")
        return "---\n".join(docs + ([job] if "b" in names else []))
    kubectl("apply", "--prune", "-l", "app=prune", "-f", "-", stdin=manifest(["prune-a", "b"]))
    out = kubectl("apply", "--prune", "-l", "app=prune", "-f", "-", stdin=manifest(["prune-a"]))
    assert "configmap/b pruned" in out and "job.batch/prune-job pruned" in out
    assert kubectl("get", "cm", "prune-a", "-o", "name").strip() == "configmap/prune-a"


def test_kubectl_knows_them(api, kubectl):
    kubectl("create", "job", "kj", "--image=example.com/i")
    kubectl("create", "cronjob", "kc", "--image=example.com/i", "--schedule=@daily")
    kubectl("scale", "sts/s", "--replicas=2")
    assert "kj" in kubectl("get", "jobs,cj,sts,rc,pvc,pv,hpa")
    assert "completions" in kubectl("explain", "job.spec")
    assert "job.batch/kj" in kubectl("get", "all", "-o", "name")
    kubectl("delete", "job/kj", "cronjob/kc")
