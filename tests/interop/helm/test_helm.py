# SPDX-License-Identifier: Apache-2.0
"""
Helm 3 and Helm 4 with the embedded API: install with CRDs, hooks and workload kinds, upgrade, a refused upgrade,
rollback, uninstall, waits, ownership and conflicts; what Helm says and what the API then holds.
"""
import json
import os
import subprocess

import pytest
from harness.control import Control, need_kubectl
from harness.wait import GUARD, until

CHART = {
    "Chart.yaml": "{apiVersion: v2, name: app, version: 1.0.0, appVersion: '1'}\n",
    "values.yaml": "replicas: 1\ncolour: green\nbad: false\n",
    "crds/widgets.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.helm.example.com}
spec:
  group: helm.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}
""",
    "templates/all.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config, labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}}
data: {colour: {{ .Values.colour | quote }}, revision: "{{ .Release.Revision }}"}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: app, image: "app:{{ .Chart.AppVersion }}"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ .Release.Name }}-db}
spec:
  serviceName: {{ .Release.Name }}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{ .Release.Name }}-files}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: {{ .Release.Name }}}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ .Release.Name }}}, maxReplicas: 3}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: {{ .Release.Name }}}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: {{ .Release.Name }}, port: 80}]}]}
---
apiVersion: helm.example.com/v1
kind: Widget
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ if .Values.bad }}0{{ else }}3{{ end }}}
""",
    "templates/hook.yaml": """
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-prepare
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec: {template: {spec: {restartPolicy: Never, containers: [{name: prepare, image: "prepare:1"}]}}}
""",
}
KINDS = "configmap,service,deployment,statefulset,pvc,hpa,httproute,widget"


@pytest.fixture(scope="module", name="api")
def _api(binary, tmp_path_factory):
    need_kubectl()
    api = Control(binary, tmp_path_factory.mktemp("helm"))
    yield api
    api.close()


@pytest.fixture(scope="module", name="chart")
def _chart(tmp_path_factory):
    return write_chart(tmp_path_factory.mktemp("chart") / "app", CHART)


def write_chart(top, files):
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


class Helm:
    def __init__(self, major, api, home):
        self.major, self.api = major, api
        self.binary = os.path.join(os.environ["INTEROP_DIR"], f"helm{major}")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(api.kubeconfig)}
        self.namespace = f"helm{major}"
        api.kubectl("create", "namespace", self.namespace, check=False)

    def __call__(self, *argv, check=True):
        done = subprocess.run([self.binary, *argv, "--namespace", self.namespace], env=self.env, capture_output=True,
                              text=True, timeout=4 * GUARD, check=False)
        if check:
            assert done.returncode == 0, f"helm {argv}: {done.stdout}{done.stderr}"
            return done.stdout
        return done

    def revisions(self):
        return [(int(r["revision"]), r["status"]) for r in json.loads(self("history", "app", "-o", "json"))]

    def kubectl(self, *argv, **kw):
        return self.api.kubectl("--namespace", self.namespace, *argv, **kw)


@pytest.fixture(params=[3, 4], ids=["helm3", "helm4"], name="helm")
def _helm(request, api, tmp_path):
    return Helm(request.param, api, tmp_path)


def ended(kind):
    """The status a cluster's Job controller would write; the API stores Jobs and runs none."""
    extra = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    return {"status": {"succeeded" if kind == "Complete" else "failed": 1, "conditions": [
        {"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} for name in (extra, kind)]}}


def while_it_waits(helm, argv, target, status):
    """Runs Helm, writes 'status' to the object it waits for, and returns Helm's exit status and output."""
    child = subprocess.Popen([helm.binary, *argv, "--namespace", helm.namespace, "--timeout", "120s"], env=helm.env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: child.poll() is not None or
              helm.kubectl("get", target, check=False).returncode == 0, what=f"{target}, or Helm to end")
        assert child.poll() is None, f"helm {argv} waited for nothing: {child.communicate()[0]}"
        helm.kubectl("patch", target, "--subresource=status", "--type=merge", "-p", json.dumps(status))
        out = child.communicate(timeout=4 * GUARD)[0]
    finally:
        child.kill()
    return child.returncode, out


def with_hook(helm, *argv):
    status, out = while_it_waits(helm, argv, "job/app-prepare", ended("Complete"))
    assert status == 0, f"helm {argv}: {out}"
    return out


def test_a_release_from_install_to_uninstall(helm, chart):
    """One release: install, no change, upgrade, an upgrade the API refuses, rollback, uninstall."""
    helm.namespace = f"release{helm.major}"
    assert "STATUS: deployed" in with_hook(helm, "install", "app", str(chart), "--create-namespace")
    assert json.loads(helm("list", "-o", "json"))[0]["status"] == "deployed"
    names = helm.kubectl("get", KINDS, "-o", "name").split()
    assert len([n for n in names if "app" in n]) == 8, names
    assert helm.kubectl("get", "job", "-o", "name") == ""  # hook-succeeded deletes it

    with_hook(helm, "upgrade", "app", str(chart), "--set", "colour=blue,replicas=2", "--wait=false"
              if helm.major == 3 else "--wait=hookOnly")
    assert helm.kubectl("get", "configmap", "app-config", "-o", "jsonpath={.data.colour} {.data.revision}") == "blue 2"
    assert helm.kubectl("get", "deployment", "app", "-o", "jsonpath={.spec.replicas}") == "2"

    refused = helm("upgrade", "app", str(chart), "--set", "bad=true", "--no-hooks", check=False)
    assert refused.returncode != 0 and "spec.size" in refused.stderr, refused
    assert dict(helm.revisions())[3] == "failed"
    assert helm.kubectl("get", "widget", "app", "-o", "jsonpath={.spec.size}") == "3"

    helm("rollback", "app", "1", "--no-hooks")
    assert helm.kubectl("get", "configmap", "app-config", "-o", "jsonpath={.data.colour} {.data.revision}") == "green 1"
    assert helm.kubectl("get", "deployment", "app", "-o", "jsonpath={.spec.replicas}") == "1"
    assert dict(helm.revisions())[4] == "deployed"

    manifest = helm("get", "manifest", "app")
    assert "kind: StatefulSet" in manifest
    helm("uninstall", "app")
    assert not [n for n in helm.kubectl("get", KINDS, "-o", "name").split() if "app" in n]
    assert json.loads(helm("list", "-a", "-o", "json") if helm.major == 3 else helm("list", "-o", "json")) == []


def test_a_dry_run_on_the_server_changes_nothing(helm, chart):
    helm.api.kubectl("apply", "-f", "-", stdin=CHART["crds/widgets.yaml"])  # a dry run installs no CRD
    helm.api.kubectl("wait", "--for=condition=Established", "crd/widgets.helm.example.com")
    out = helm("install", "try", str(chart), "--dry-run=server", "--no-hooks")
    assert "kind: Deployment" in out
    assert "try" not in helm.kubectl("get", KINDS, "-o", "name")


SLOW_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: slow}
spec:
  serviceName: slow
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec: {containers: [{name: app, image: "app:1"}]}
"""


def test_it_waits_until_a_set_is_ready(helm, tmp_path):
    """Helm 3 polls, Helm 4 watches; both decide by the status, whose observedGeneration must be the generation."""
    chart = write_chart(tmp_path / "slow", {"Chart.yaml": CHART["Chart.yaml"], "templates/set.yaml": SLOW_SET})
    ready = {"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
                        "currentReplicas": 1, "availableReplicas": 1, "currentRevision": "slow-1",
                        "updateRevision": "slow-1"}}
    status, out = while_it_waits(helm, ["install", "slow", str(chart), "--wait"], "statefulset/slow", ready)
    assert status == 0 and "STATUS: deployed" in out, out
    helm("uninstall", "slow", "--wait")
    assert helm.kubectl("get", "statefulset", "slow", check=False).returncode != 0


def test_a_failed_hook_fails_the_release(helm, chart):
    status, out = while_it_waits(helm, ["install", "sad", str(chart)], "job/sad-prepare", ended("Failed"))
    assert status != 0 and "pre-install" in out, out
    assert json.loads(helm("list", "--failed", "-o", "json"))[0]["name"] == "sad"
    assert "sad" not in helm.kubectl("get", KINDS, "-o", "name")
    helm("uninstall", "sad", "--no-hooks")


def test_an_object_of_another_owner_stays_as_it_is(helm, chart):
    """Helm refuses to adopt an object without its labels; with them it takes it over."""
    helm.kubectl("create", "configmap", "mine-config", "--from-literal=colour=red")
    refused = helm("install", "mine", str(chart), "--no-hooks", check=False)
    assert refused.returncode != 0 and "cannot be imported into the current release" in refused.stderr, refused
    assert helm.kubectl("get", "configmap", "mine-config", "-o", "jsonpath={.data.colour}") == "red"
    force = ["--force-conflicts"] if helm.major == 4 else []  # kubectl owns the field
    helm("install", "mine", str(chart), "--no-hooks", "--take-ownership", *force)
    assert helm.kubectl("get", "configmap", "mine-config", "-o", "jsonpath={.data.colour}") == "green"
    helm("uninstall", "mine", "--no-hooks")
    assert helm.kubectl("get", "configmap", "mine-config", check=False).returncode != 0


def test_helm_4_finds_conflicts(api, chart, tmp_path):
    """Helm 4 applies on the server: a field another manager owns is a conflict it reports and can force."""
    helm = Helm(4, api, tmp_path)
    helm("install", "both", str(chart), "--no-hooks")
    helm.kubectl("patch", "deployment", "both", "--type=merge", "-p", '{"spec": {"replicas": 5}}',
                 "--field-manager=scaler")
    refused = helm("upgrade", "both", str(chart), "--no-hooks", "--set", "replicas=2", check=False)
    assert refused.returncode != 0 and 'conflict with "scaler"' in refused.stderr, refused
    helm("upgrade", "both", str(chart), "--no-hooks", "--set", "replicas=2", "--force-conflicts")
    assert helm.kubectl("get", "deployment", "both", "-o", "jsonpath={.spec.replicas}") == "2"
    helm("uninstall", "both", "--no-hooks")


ASKS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: asks}
data:
  uid: {{ (lookup "v1" "Namespace" "" "default").metadata.uid | quote }}
  nothing: {{ lookup "v1" "Secret" "default" "no-such" | len | quote }}
  routes: {{ .Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/HTTPRoute" | quote }}
  pies: {{ .Capabilities.APIVersions.Has "example.com/v1/Pie" | quote }}
  version: {{ .Capabilities.KubeVersion.Version | quote }}
"""
TEST_POD = """
apiVersion: v1
kind: Pod
metadata: {name: asks-test, annotations: {helm.sh/hook: test}}
spec: {restartPolicy: Never, containers: [{name: test, image: "test:1"}]}
"""


def test_templates_ask_the_api_and_its_tests_run(helm, tmp_path):
    """lookup and Capabilities, which Helm fills from the API's discovery; 'helm test' waits for the phase of a Pod."""
    chart = write_chart(tmp_path / "asks", {"Chart.yaml": CHART["Chart.yaml"], "templates/asks.yaml": ASKS,
                                            "templates/tests/pod.yaml": TEST_POD})
    helm("install", "asks", str(chart))
    data = json.loads(helm.kubectl("get", "configmap", "asks", "-o", "json"))["data"]
    version = helm.api.get("/version").json["gitVersion"]
    uid = helm.api.get("/api/v1/namespaces/default").json["metadata"]["uid"]
    assert data == {"uid": uid, "nothing": "0", "routes": "true", "pies": "false", "version": version}
    done = {"status": {"phase": "Succeeded"}}
    status, out = while_it_waits(helm, ["test", "asks"], "pod/asks-test", done)
    assert status == 0 and "Succeeded" in out, out
    helm("uninstall", "asks")
