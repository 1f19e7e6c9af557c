# SPDX-License-Identifier: Apache-2.0
"""
deploy/kubernetes and the Helm chart: an API takes what they make, both make the same, pods have no more privileges and
accounts no more rights than they need.
"""
import json
import re
import struct
import subprocess
import sys
import tarfile

import pytest
import yaml
from harness import deploy
from harness import rights as rt
from harness.cni import Rig
from harness.control import Control, need_kubectl
from harness.deploy import NAMESPACE, ROOT
from harness.wait import until

RBAC = ROOT / "deploy/kubernetes/rbac.yaml"
POLICY = ROOT / "deploy/kubernetes/cni-policy.yaml"
# Who may what: (verb, group, resource[/subresource]) beside what every authenticated user may.
CNI = {("list", "", "namespaces"), ("watch", "", "namespaces"), ("list", "", "pods"), ("watch", "", "pods"),
       ("patch", "", "pods/status"), ("create", "", "events"), ("patch", "", "events")}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate", "bind")
RESOURCES = {"": ("pods", "pods/status", "pods/exec", "pods/eviction", "pods/ephemeralcontainers", "nodes", "nodes/proxy",
                  "secrets", "configmaps", "services", "services/status", "serviceaccounts", "serviceaccounts/token",
                  "namespaces", "events", "endpoints"),
             "apps": ("deployments", "daemonsets", "replicasets"), "coordination.k8s.io": ("leases",),
             "rbac.authorization.k8s.io": ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
             "authentication.k8s.io": ("tokenreviews",), "authorization.k8s.io": ("subjectaccessreviews",),
             "gateway.networking.k8s.io": ("gateways", "httproutes", "gatewayclasses"),
             "security.istio.io": ("authorizationpolicies", "peerauthentications"), "networking.istio.io": ("serviceentries",),
             "admissionregistration.k8s.io": ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
             "apiextensions.k8s.io": ("customresourcedefinitions",), "spanwire.dev": ("claims",)}
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture(scope="module", name="api")
def _api(binary, tmp_path_factory):
    where = tmp_path_factory.mktemp("deploy")
    api = Control(binary, where, "--gateway", "false", "--connector", "false", "--relaxed-sync")
    for doc in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
        apply(api, doc)
    yield api
    api.close()


def apply(api, obj):
    top = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
    inside = f"/namespaces/{obj['metadata']['namespace']}" if "namespace" in obj["metadata"] else ""
    plural = re.sub("y$", "ie", obj["kind"].lower()) + "s"
    answer = api.patch(f"{top}{inside}/{plural}/{obj['metadata']['name']}", obj, kind="apply",
                       query="?fieldManager=deploy&force=true")
    assert answer.status in (200, 201), answer


# --- the objects ---

def dry_run(api, objects):
    """The API's own judgement, with defaults, validation and admission; nothing is stored."""
    said = api.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(objects))
    return [line for line in said.splitlines() if "server dry run" in line]


def test_an_api_takes_the_manifests(api):
    need_kubectl()
    objects = deploy.kustomized()
    assert len(dry_run(api, objects)) == len(objects)
    kinds = {(o["kind"], o["metadata"]["name"]) for o in objects}
    assert {("Deployment", "spanwire-control"), ("Deployment", "spanwire-gateway"), ("DaemonSet", "spanwire-node"),
            ("DaemonSet", "spanwire-cni")} <= kinds


def test_an_api_takes_the_chart(api):
    need_kubectl()
    link = deploy.component_flags("link")
    for flags in ((), ("--set", "mesh.enabled=false"), ("--set", "gateway.enabled=false"), deploy.component_flags("join", "link"),
                  ("--set", "control.persistence.enabled=true"),
                  ("--set", "mesh.enabled=false,gateway.enabled=false", *link)):
        objects = deploy.rendered(*flags)
        assert len(dry_run(api, objects)) == len(objects)


def said_of(api, objects, *flags):
    """{object: what 'kubectl apply' says of it}"""
    said = api.kubectl("apply", *flags, "-f", "-", stdin=yaml.safe_dump_all(objects))
    return dict(re.match(r"(\S+) (\S+)", line).groups() for line in said.splitlines())


def test_helm_template_piped_into_kubectl_apply(binary, tmp_path):
    """As people do it, without server-side apply: on an API that has none of it, over what is applied, and a changed one."""
    need_kubectl()
    api = Control(binary, tmp_path, "--gateway", "false", "--connector", "false", "--relaxed-sync")
    try:
        rt.namespace(api, NAMESPACE)
        flags = deploy.component_flags("join", "link")
        objects = deploy.rendered(*flags)
        dry = said_of(api, objects, "--dry-run=server")
        assert len(dry) == len(objects) and set(dry.values()) == {"created"}, dry
        assert said_of(api, objects, "--dry-run=server") == dry, "nothing was stored"
        assert said_of(api, objects) == dry
        same = said_of(api, objects, "--dry-run=server")
        assert not {name: said for name, said in same.items() if said != "unchanged"}
        changed = deploy.rendered(*flags, "--set", "image.tag=v8,node.extraArgs={--log-level=debug}")
        again = said_of(api, changed, "--dry-run=server")
        moved = {name for name, said in again.items() if said == "configured"}
        assert moved == {"deployment.apps/spanwire-control", "deployment.apps/spanwire-gateway", "deployment.apps/spanwire-link",
                         "daemonset.apps/spanwire-node", "daemonset.apps/spanwire-cni"}, again
    finally:
        api.close()


@pytest.mark.parametrize("components", [(), ("join",), ("link",), ("join", "link")], ids="+".join)
def test_chart_and_manifests_are_the_same(tmp_path, components):
    chart = deploy.by_key(deploy.rendered("--set", "namespace.create=true", *deploy.component_flags(*components)))
    manifests = deploy.by_key(deploy.overlaid(tmp_path, *components))
    assert set(chart) == set(manifests)
    for which, obj in manifests.items():
        assert chart[which] == obj, which


def test_what_precedes_the_removal(api):
    """The same objects of chart and manifests; only Helm itself gets them, for kubectl would run the Job at once."""
    assert not any("uninstall" in name for _, _, name in deploy.by_key(deploy.rendered()))
    hooks = [o for o in deploy.rendered(api=api) if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    assert {o["metadata"]["annotations"]["helm.sh/hook"] for o in hooks} == {"pre-delete"}
    weights = {o["kind"]: int(o["metadata"]["annotations"]["helm.sh/hook-weight"]) for o in hooks}
    assert max(weights, key=weights.get) == "Job" and weights["Role"] < weights["RoleBinding"] < 0
    chart = deploy.by_key([deploy.without_hooks(o) for o in hooks])
    manifests = deploy.by_key(deploy.kustomized(deploy.MANIFESTS / "uninstall"))
    assert set(chart) == set(manifests)
    for which, obj in manifests.items():
        assert chart[which] == obj, which
    assert len(dry_run(api, list(manifests.values()))) == len(manifests)
    off = deploy.rendered("--set", "uninstall.enabled=false", api=api)
    assert not any("uninstall" in o["metadata"]["name"] for o in off)
    job, = (o for o in deploy.rendered("--set", "uninstall.keepSecrets=true", api=api) if o["kind"] == "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["uninstall", "--keep-secrets"]
    assert not deploy.violations(job["spec"]["template"]["spec"])


def test_values_of_the_chart():
    off = deploy.by_key(deploy.rendered("--set", "mesh.enabled=false"))
    assert not any("node" in name or "cni" in name or "mesh" in name for _, _, name in off)
    off = deploy.by_key(deploy.rendered("--set", "gateway.enabled=false"))
    assert not any("gateway" in name or kind == "GatewayClass" for kind, _, name in off)
    objects = deploy.rendered(
        "--set", "image.repository=r.example/sw,image.tag=v7,image.pullPolicy=Never,control.replicas=3,mesh.trustDomain=td.example",
        "--set", "istio.clusterId=east,mesh.revision=blue,node.nodeSelector.disk=ssd,node.rollingUpdate.maxSurge=25%",
        "--set", "node.tolerations=null,cni.priorityClassName=mine,gateway.resources.limits.memory=1Gi,imagePullSecrets[0].name=k",
        "--set", "cni.binDir=/usr/lib/cni,cni.confName=10-x.conflist,cni.excludeNamespaces={kube-system,ops}")
    made, pods = deploy.by_key(objects), deploy.pods(objects)
    for template in pods.values():
        container = template["spec"]["containers"][0]
        assert (container["image"], container["imagePullPolicy"]) == ("r.example/sw:v7", "Never")
        assert template["spec"]["imagePullSecrets"] == [{"name": "k"}]
    args = {name: t["spec"]["containers"][0]["args"] for name, t in pods.items()}
    assert {"--trust-domain=td.example", "--cluster-id=east", "--mesh-revision=blue"} <= set(args["spanwire-control"])
    assert {"--trust-domain=td.example", "--cluster-id=east"} <= set(args["spanwire-node"])
    assert {"--cni-conf-name=10-x.conflist", "--exclude-namespace=kube-system", "--exclude-namespace=ops"} <= set(
        args["spanwire-cni"])
    assert made["Deployment", NAMESPACE, "spanwire-control"]["spec"]["replicas"] == 3
    node = made["DaemonSet", NAMESPACE, "spanwire-node"]["spec"]
    assert node["updateStrategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    assert node["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "disk": "ssd"}
    assert "tolerations" not in node["template"]["spec"]
    cni = pods["spanwire-cni"]["spec"]
    assert cni["priorityClassName"] == "mine"
    assert {"name": "bin", "hostPath": {"path": "/usr/lib/cni", "type": "Directory"}} in cni["volumes"]
    assert pods["spanwire-gateway"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}


def test_values_that_yaml_reads_otherwise(tmp_path):
    """Helm makes floats of the numbers of a values file; texts may hold what means something in YAML."""
    values = tmp_path / "values.yaml"
    values.write_text("image: {tag: 20260101}\nmesh: {revision: 12345678, trustDomain: 'a: b # c'}\n"
                      "istio: {clusterId: 123456789012}\nnode: {terminationGracePeriodSeconds: 3600000}\n"
                      "gateway: {className: 'true', addresses: '*=0.0.0.0', extraArgs: ['--x=y: z', 5000000, true]}\n"
                      "cni: {confName: '10: x', binDir: '/a: b'}\n")
    objects = deploy.rendered("--values", str(values))
    pods = deploy.pods(objects)
    assert ("GatewayClass", None, "true") in {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects}
    assert {t["spec"]["containers"][0]["image"] for t in pods.values()} == {"spanwire:20260101"}
    args = {name: t["spec"]["containers"][0]["args"] for name, t in pods.items()}
    assert all(isinstance(a, str) for words in args.values() for a in words), args
    assert {"--cluster-id=123456789012", "--mesh-revision=12345678", "--trust-domain=a: b # c",
            "--gateway-addresses=*=0.0.0.0"} <= set(args["spanwire-control"])
    assert {"--cluster-id=123456789012", "--grace-period=3600000"} <= set(args["spanwire-node"])
    assert pods["spanwire-node"]["spec"]["terminationGracePeriodSeconds"] == 3600000
    assert "--cni-conf-name=10: x" in args["spanwire-cni"]
    assert args["spanwire-gateway"][-3:] == ["--x=y: z", "5000000", "true"]
    values.write_text("control: {persistence: {enabled: true, storageClassName: 2024, size: 67108864}}\n")
    [claim] = [o for o in deploy.rendered("--values", str(values)) if o["kind"] == "PersistentVolumeClaim"]
    assert claim["spec"]["storageClassName"] == "2024" and claim["spec"]["resources"]["requests"]["storage"] == "67108864"
    objects = deploy.rendered("--namespace", "123", "--set", "namespace.create=true,link.enabled=true")
    said = [m["namespace"] for o in objects for m in (o["metadata"], *o.get("subjects", ())) if "namespace" in m]
    assert set(said) == {"123"} and "123" in [o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"]
    assert "gateway.service.ports is empty" in deploy.refused("--set-json", "gateway.service.ports=[]")


def test_values_of_links_and_joining_machines():
    # Off unless asked for, with every right.
    off = deploy.by_key(deploy.rendered())
    assert not any("link" in name or "join" in name for _, _, name in off)
    for flags, why in ((["join.enabled=true"], "join.enabled needs join.address"),
                       (["join.enabled=true", "join.address=a.example:1", "mesh.enabled=false"], "join.enabled needs mesh.enabled")):
        assert why in deploy.refused("--set", ",".join(flags)), flags
    objects = deploy.rendered(
        "--set", "image.tag=v7,imagePullSecrets[0].name=k,link.enabled=true,link.replicas=3,link.resources.limits.memory=1Gi",
        "--set", "link.service.type=NodePort,link.service.port=4443,link.nodeSelector.edge=yes,link.priorityClassName=mine",
        "--set", "link.tolerations[0].operator=Exists,link.extraArgs={--log-level=debug}",
        "--set", "control.replicas=5,control.extraArgs={--link-ports=20000-20100}")
    made, pods = deploy.by_key(objects), deploy.pods(objects)
    assert made["Deployment", NAMESPACE, "spanwire-link"]["spec"]["replicas"] == 3
    # A token's one use is remembered by the replica that saw it.
    assert made["Deployment", NAMESPACE, "spanwire-control"]["spec"]["replicas"] == 1
    service = made["Service", NAMESPACE, "clusterlink"]["spec"]
    assert (service["type"], service["ports"]) == ("NodePort", [{"name": "peers", "port": 4443, "targetPort": 4443}])
    spec = pods["spanwire-link"]["spec"]
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"edge": "yes"}, "mine")
    assert (spec["tolerations"], spec["imagePullSecrets"]) == ([{"operator": "Exists"}], [{"name": "k"}])
    [container] = spec["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("spanwire:v7", {"memory": "1Gi"})
    # Those of the user are last: they count.
    assert container["args"][-1] == "--log-level=debug"
    assert pods["spanwire-control"]["spec"]["containers"][0]["args"][-1] == "--link-ports=20000-20100"


def test_the_chart_keeps_to_its_namespace():
    """In another one than that of the manifests nothing names theirs."""
    done = deploy.run_helm("template", "x", str(deploy.CHART), "--namespace", "elsewhere", *deploy.component_flags("join", "link"))
    assert done.returncode == 0 and NAMESPACE not in done.stdout, done
    objects = deploy.parse(done.stdout)
    assert {o["metadata"].get("namespace", "elsewhere") for o in objects} == {"elsewhere"}


# --- privileges ---

def test_control_and_gateway_are_restricted():
    pods = deploy.pods(deploy.kustomized())
    for name in ("spanwire-control", "spanwire-gateway"):
        assert not deploy.violations(pods[name]["spec"]), name
    assert deploy.violations(pods["spanwire-cni"]["spec"])


def test_node_and_agent_have_exactly_their_capabilities():
    pods = deploy.pods(deploy.kustomized())
    for name, wanted in (("spanwire-node", {"SYS_ADMIN", "NET_ADMIN"}),
                         ("spanwire-cni", {"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE"})):
        spec = pods[name]["spec"]
        assert not any(spec.get(f) for f in ("hostNetwork", "hostPID", "hostIPC")), name
        context = spec["containers"][0]["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"] and set(context["capabilities"]["add"]) == wanted
        assert not context.get("privileged") and context["readOnlyRootFilesystem"]
        assert spec["priorityClassName"] == "system-node-critical"
    # A justification stands beside each of them.
    for name in ("node", "cni"):
        lines = (ROOT / f"deploy/kubernetes/{name}.yaml").read_text(encoding="utf-8").splitlines()
        for i, line in enumerate(lines):
            if line.strip() in ("- SYS_ADMIN", "- NET_ADMIN", "- SYS_PTRACE"):
                assert lines[i - 1].strip().startswith("#"), line


def test_node_gets_revocation_lists_and_keeps_its_state():
    """By a ConfigMap that need not be there; and on the host, or a reboot would take what the node knew."""
    for spec in (deploy.pods(deploy.kustomized())["spanwire-node"]["spec"], deploy.pods(deploy.rendered())["spanwire-node"]["spec"]):
        volumes = {v["name"]: v for v in spec["volumes"]}
        [container] = spec["containers"]
        mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
        assert "--crl=/var/run/secrets/spanwire/crl/ca-crl.pem" in container["args"]
        crl = mounts["/var/run/secrets/spanwire/crl"]
        assert crl["readOnly"] and volumes[crl["name"]]["configMap"] == {"name": "istio-ca-crl", "optional": True}
        [state] = [a.split("=")[1] for a in container["args"] if a.startswith("--state-dir=")]
        assert volumes[mounts[state]["name"]]["hostPath"] == {"path": "/var/lib/spanwire/node", "type": "DirectoryOrCreate"}


def test_records_of_control_on_a_volume():
    """Off unless asked for, with one replica; a claim of the chart's own, or one that is there."""
    def control(*flags):
        made = deploy.by_key(deploy.rendered(*flags))
        spec = made["Deployment", NAMESPACE, "spanwire-control"]["spec"]
        [run] = [v for v in spec["template"]["spec"]["volumes"] if v["name"] == "run"]
        return made, spec, run
    made, spec, run = control()
    assert "emptyDir" in run and not any(kind == "PersistentVolumeClaim" for kind, _, _ in made)
    made, spec, run = control("--set", "control.persistence.enabled=true,control.persistence.storageClassName=fast")
    assert run["persistentVolumeClaim"] == {"claimName": "spanwire-control"} and spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"} and spec["template"]["spec"]["securityContext"] == {"fsGroup": 65532}
    claim = made["PersistentVolumeClaim", NAMESPACE, "spanwire-control"]
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "64Mi"}}}
    assert not deploy.violations(spec["template"]["spec"])
    made, spec, run = control("--set", "control.persistence.enabled=true,control.persistence.existingClaim=mine")
    assert run["persistentVolumeClaim"] == {"claimName": "mine"}
    assert not any(kind == "PersistentVolumeClaim" for kind, _, _ in made)


# --- rights ---

def allowed(caller, namespace):
    out = set()
    for group, resources in RESOURCES.items():
        for resource in resources:
            name, _, sub = resource.partition("/")
            out |= {(verb, group, resource) for verb in VERBS
                    if caller.may(verb, name, group, namespace=namespace, sub=sub)}
    return out


@pytest.mark.parametrize("account,rights", [("spanwire-node", set()), ("spanwire-gateway", set()), ("spanwire-cni", CNI)])
def test_an_account_may_nothing_else(api, account, rights):
    caller = rt.Caller(api, rt.token_of(api, NAMESPACE, account))
    for namespace in (NAMESPACE, "kube-system", "default"):
        assert allowed(caller, namespace) == rights, namespace


def attempts(account):
    """What somebody who took the account's token would try."""
    return {
        "read secrets": ("GET", "/api/v1/secrets", None),
        "read the CA": ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/istio-ca-secret", None),
        "start a pod": ("POST", "/api/v1/namespaces/default/pods", {**POD, "metadata": {"name": "mine"}}),
        "delete a pod": ("DELETE", "/api/v1/namespaces/default/pods/web", None),
        "change a pod": ("PATCH", "/api/v1/namespaces/default/pods/web", {"metadata": {"labels": {"a": "b"}}}),
        "token of control": ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/spanwire-control/token", {}),
        "token of a node proxy": ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/spanwire-node/token", {}),
        "drop a policy": ("DELETE", "/apis/security.istio.io/v1/namespaces/default/authorizationpolicies/p", None),
        "bind cluster-admin": ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "mine"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                                                     "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]}),
        "change its DaemonSet": ("PATCH", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{account}", {"spec": {}}),
        "enrol a namespace": ("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {
            "istio.io/dataplane-mode": "none"}}}),
        "put other roots": ("PATCH", "/api/v1/namespaces/default/configmaps/istio-ca-root-cert", {"data": {"x": "y"}}),
        "review a token": ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    }


@pytest.mark.parametrize("account", ["spanwire-node", "spanwire-gateway", "spanwire-cni"])
def test_attempts_of_an_account_are_refused(api, account):
    rt.make(api, "/api/v1/namespaces/default/pods", {**POD, "metadata": {"name": "web"}})
    caller = rt.Caller(api, rt.token_of(api, NAMESPACE, account))
    for name, (method, path, body) in attempts(account).items():
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
        answer = caller.request(method, path, body, headers)
        assert answer.status == 403, (name, answer)


def test_attempts_of_control_are_refused(api):
    """Beside the rights that test_control_rights.py sees used: Secrets by name and the roots' ConfigMaps alone."""
    caller = rt.Caller(api, rt.token_of(api, NAMESPACE, "spanwire-control"))
    for verb, resource, kw in (("get", "secrets", {"name": "other"}), ("update", "secrets", {"name": "spanwire-xds"}),
                               ("update", "secrets", {"name": "cacerts"}),
                               ("delete", "secrets", {}), ("patch", "configmaps", {"name": "other"}),
                               ("create", "pods", {}), ("delete", "pods", {}), ("patch", "pods", {}),
                               ("get", "secrets", {"name": "istio-ca-secret", "namespace": "default"}),
                               ("create", "secrets", {"namespace": "default"}), ("impersonate", "users", {}),
                               ("create", "serviceaccounts", {"sub": "token"})):
        assert not caller.may(verb, resource, **{"namespace": NAMESPACE, **kw}), (verb, resource, kw)
    for verb, resource, kw in (("watch", "secrets", {"name": "cacerts"}), ("create", "secrets", {}),
                               ("update", "secrets", {"name": "istio-ca-secret"}),
                               ("patch", "configmaps", {"name": "istio-ca-root-cert", "namespace": "default"})):
        assert caller.may(verb, resource, **{"namespace": NAMESPACE, **kw}), (verb, resource, kw)


class Agent:
    """A node agent with the account of the manifests, and the audit log of its API."""

    def __init__(self, mesh, binary, where):
        self.audit = where / "audit"
        self.audit.touch()
        self.api = Control(binary, where / "control", "--gateway=false", "--connector=false", "--audit-log", str(self.audit))
        for path in (RBAC, POLICY):
            for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                apply(self.api, doc)
        self.rig = Rig(mesh, binary, where, api=self.api)
        self.token = self._token()
        config = yaml.safe_load(self.api.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": self.token}
        (where / "cni.kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.process = self.rig.start("--kubeconfig", str(where / "cni.kubeconfig"), "--daemonset", "spanwire-cni",
                                      "--pod-namespace", NAMESPACE, "--wait", "1s")

    def _token(self):
        """Bound to a pod on the node, as a kubelet asks for it."""
        pod = self.api.post(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": {"name": "spanwire-cni-1"}, "spec": {
            "serviceAccountName": "spanwire-cni", "nodeName": self.rig.node.name, "containers": [{"name": "c", "image": "i"}]}})
        assert pod.status == 201, pod
        return rt.token_of(self.api, NAMESPACE, "spanwire-cni", boundObjectRef={
            "apiVersion": "v1", "kind": "Pod", "name": "spanwire-cni-1", "uid": pod.json["metadata"]["uid"]})

    def requests(self):
        """(path, status) of what it asked for."""
        lines = [json.loads(line) for line in self.audit.read_text(encoding="utf-8").splitlines(keepends=True)
                 if line.endswith("\n")]
        return [(e["path"], e["code"]) for e in lines if e["user"] == f"system:serviceaccount:{NAMESPACE}:spanwire-cni"]

    def enrolled(self, name, host):
        box = self.rig.pod(name, host)
        self.rig.running(box)
        self.rig.add(box)
        self.rig.enabled(box)
        return box

    def close(self):
        self.rig.close()
        self.api.close()


@pytest.fixture(name="agent")
def _agent(mesh, binary, tmp_path):
    one = Agent(mesh, binary, tmp_path)
    yield one
    one.close()


def test_the_agent_needs_no_more_than_its_account_may(agent):
    """A pod joins and leaves, its start fails with an Event, the agent asks for its DaemonSet: nothing is refused."""
    rig = agent.rig
    box = rig.pod("web", 61)
    rig.running(box)
    status, _ = rig.call("ADD", box, timeout="2s")  # no node proxy: an Event says so
    assert status != 0
    until(lambda: rig.events(box), what="the Event")
    rig.proxy()
    rig.add(box)
    rig.enabled(box)
    rig.label("/api/v1/namespaces/shop", {"istio.io/dataplane-mode": None})
    until(lambda: rig.annotation(box) is None, what="the annotation to go")
    agent.process.signal(15)
    assert agent.process.wait() == 0, agent.process.log()[-3000:]
    asked = agent.requests()
    assert any("daemonsets" in path for path, _ in asked) and any("/status" in path for path, _ in asked)
    assert not [a for a in asked if a[1] == 403] and "orbidden" not in agent.process.log()


def test_an_agent_writes_one_annotation_to_pods_of_its_node(agent):
    """Whatever else goes with a pod's status is refused: addresses, conditions, labels, pods of other nodes."""
    caller = rt.Caller(agent.api, agent.token)
    top = "/api/v1/namespaces/shop/pods"
    for name, node in (("near", agent.rig.node.name), ("far", "elsewhere")):
        assert agent.api.post(top, {"metadata": {"name": name, "annotations": {"a": "b"}}, "spec": {
            "nodeName": node, "containers": [{"name": "c", "image": "i"}]}}).status == 201
    note = {"metadata": {"annotations": {"ambient.istio.io/redirection": "enabled"}}}
    assert caller.patch(f"{top}/near/status", note).status == 200
    assert caller.patch(f"{top}/near/status", {"metadata": {"annotations": {"ambient.istio.io/redirection": None}}}).status == 200
    for name, body, why in (
            ("far", note, "pods of its own node only"), ("near", {"metadata": {"labels": {"app": "db"}}}, "labels"),
            ("near", {"metadata": {"annotations": {"x": "y"}}}, "and no other"),
            ("near", {"metadata": {"annotations": {"a": None}}}, "and no other"),
            ("near", {"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}, "the status of a pod"),
            ("near", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "the status of a pod")):
        answer = caller.patch(f"{top}/{name}/status", body)
        assert answer.status == 403 and why in answer.message, (name, body, answer)
    unbound = rt.Caller(agent.api, rt.token_of(agent.api, NAMESPACE, "spanwire-cni"))
    assert unbound.patch(f"{top}/near/status", note).status == 403


def test_rights_that_go_before_the_account_are_an_uninstallation(agent):
    """As Helm deletes: the DaemonSet, its bindings, the account at last."""
    agent.rig.proxy()
    box = agent.enrolled("web", 61)
    top = "/apis/rbac.authorization.k8s.io/v1"
    for path in (f"{top}/namespaces/{NAMESPACE}/rolebindings/spanwire-cni", f"{top}/clusterrolebindings/spanwire-cni"):
        assert agent.api.delete(path).status == 200
    agent.process.signal(15)
    until(lambda: [a for a in agent.requests() if "daemonsets" in a[0] and a[1] == 403], what="the refusal")
    assert box.rules() and agent.process.alive
    assert agent.api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/spanwire-cni").status == 200
    assert agent.process.wait() == 0
    assert box.untouched() and not agent.rig.host_rules() and not (agent.rig.bin / "spanwire-cni").exists()
    assert not [p for p in (agent.rig.dir / "run").rglob("*") if not p.is_dir()]


def test_rights_that_are_missing_are_no_uninstallation(agent):
    agent.rig.proxy()
    box = agent.enrolled("web", 61)
    top = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings/spanwire-cni"
    assert agent.api.delete(top).status == 200
    agent.process.signal(15)
    assert agent.process.wait() == 0
    assert box.rules() and agent.rig.host_rules() and (agent.rig.bin / "spanwire-cni").exists()


# --- removed ---

UNINSTALL = ROOT / "deploy/kubernetes/uninstall/rbac.yaml"
# What control makes: (path of the list, name); the last ones are of somebody else.
MADE = [(f"/api/v1/namespaces/{NAMESPACE}/secrets", name) for name in ("spanwire-xds", "istio-ca-secret")] + [
    (f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", name) for name in ("spanwire-mesh", "spanwire-planes-1a2b")] + [
    (f"/api/v1/namespaces/{NAMESPACE}/configmaps", name) for name in ("spanwire-xds", "spanwire-relays", "spanwire-join")] + [
    (f"/api/v1/namespaces/{ns}/configmaps", name) for ns in ("shop", "default") for name in ("istio-ca-root-cert", "istio-ca-crl")]
OTHERS = [(f"/api/v1/namespaces/{NAMESPACE}/secrets", "cacerts"), ("/api/v1/namespaces/other/configmaps", "istio-ca-root-cert"),
          ("/api/v1/namespaces/shop/configmaps", "mine"), (f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", "other")]


def _uninstall(agent, binary, where, *flags):
    """'spanwire uninstall' with the rights of the manifests."""
    config = yaml.safe_load(agent.api.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": rt.token_of(agent.api, NAMESPACE, "spanwire-uninstall")}
    (where / "uninstall.kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
    return subprocess.Popen([binary, "uninstall", "--namespace", NAMESPACE, "--kubeconfig", str(where / "uninstall.kubeconfig"),
                             *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(name="whole")
def _whole(agent):
    """The agent as a pod of its DaemonSet, control as a Deployment, and what it makes."""
    api = agent.api
    for doc in yaml.safe_load_all(UNINSTALL.read_text(encoding="utf-8")):
        apply(api, doc)
    rt.namespace(api, "other")
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    top = f"/apis/apps/v1/namespaces/{NAMESPACE}"
    rt.make(api, f"{top}/deployments", {"metadata": {"name": "spanwire-control"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}}, "template": template}})
    made = rt.make(api, f"{top}/daemonsets", {"metadata": {"name": "spanwire-cni"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}}, "template": template}})
    agent.pod = f"/api/v1/namespaces/{NAMESPACE}/pods/spanwire-cni-1"
    # The finalizer stands for the kubelet, which lets a pod go when its processes have ended.
    assert api.patch(agent.pod, {"metadata": {"finalizers": ["test.example/kubelet"], "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "spanwire-cni", "uid": made.json["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True}]}}).status == 200
    for path, name in MADE + OTHERS:
        ours = {} if (path, name) in OTHERS else {"app.kubernetes.io/managed-by": "spanwire"}
        rt.make(api, path, {"metadata": {"name": name, "labels": ours}})
    yield agent


def _there(api, things):
    return [(path, name) for path, name in things if api.get(f"{path}/{name}").status == 200]


@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep-secrets"])
def test_uninstall_leaves_nothing_that_control_and_agents_made(whole, binary, tmp_path, keep):
    whole.rig.proxy()
    box = whole.enrolled("web", 61)
    run = _uninstall(whole, binary, tmp_path, *(["--keep-secrets"] if keep else []))
    until(lambda: "deletionTimestamp" in whole.api.get(whole.pod).json["metadata"], what="the agent's pod to be deleted")
    assert run.poll() is None and len(_there(whole.api, MADE)) == len(MADE), "the agents first"
    whole.process.signal(15)
    assert whole.process.wait() == 0
    assert box.untouched() and whole.rig.annotation(box) is None
    assert whole.api.patch(whole.pod, {"metadata": {"finalizers": None}}).status == 200
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, (out, err)
    left = [m for m in MADE if "/secrets" in m[0]] if keep else []
    assert _there(whole.api, MADE) == left and _there(whole.api, OTHERS) == OTHERS
    assert [p for p, _ in whole.requests() if p.endswith("daemonsets/spanwire-cni")]
    # Again, with nothing there.
    again = _uninstall(whole, binary, tmp_path)
    assert again.communicate(timeout=60)[1] == "" and again.returncode == 0
    assert _there(whole.api, MADE) == [] and _there(whole.api, OTHERS) == OTHERS


def test_uninstall_deletes_nothing_while_an_agent_does_not_end(whole, binary, tmp_path):
    run = _uninstall(whole, binary, tmp_path, "--timeout", "2s")
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1 and "DaemonSet spanwire-cni: its pods have not ended in time" in err, (out, err)
    assert _there(whole.api, MADE) == MADE


def test_helm_uninstall_waits_for_its_job(binary, tmp_path):
    """What a cluster's Job controller does is done here; Helm deletes the rest, and what the Job needed."""
    api = Control(binary, tmp_path / "control", "--gateway", "false", "--connector", "false", "--relaxed-sync")
    try:
        deploy.install(api, tmp_path)
        for ns in ("shop", "other"):
            rt.namespace(api, ns)
        for path, name in MADE:
            rt.make(api, path, {"metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "spanwire"}}})
        helm = subprocess.Popen([deploy.need_helm(), "uninstall", "spanwire", "--namespace", NAMESPACE], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KUBECONFIG": str(api.kubeconfig)})
        job = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/spanwire-uninstall"
        until(lambda: api.get(job).status == 200, what="the Job")
        account = api.get(job).json["spec"]["template"]["spec"]["serviceAccountName"]
        config = yaml.safe_load(api.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": rt.token_of(api, NAMESPACE, account)}
        (tmp_path / "job.kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
        assert helm.poll() is None and api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/spanwire-cni").status == 200
        subprocess.run([binary, "uninstall", "--namespace", NAMESPACE, "--kubeconfig", str(tmp_path / "job.kubeconfig")],
                       check=True, capture_output=True, timeout=60)
        assert _there(api, MADE) == [] and helm.poll() is None
        assert api.patch(job + "/status", {"status": {"succeeded": 1, "conditions": [
            {"type": "Complete", "status": "True"}]}}).status == 200
        said = helm.communicate(timeout=60)[0]
        assert helm.returncode == 0, said
        left = [name for _, kind, name in re.findall(r"((\S+)/(\S*spanwire\S*))", api.kubectl(
            "get", "serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,deployments,daemonsets,jobs,secrets,"
            "configmaps", "-A", "-o", "name")) if kind]
        assert left == [], left
    finally:
        api.close()


# --- image and plugin ---

def test_the_plugin_needs_nothing_of_the_host(binary, tmp_path):
    """It answers in a root directory that has nothing else: no libraries, no loader."""
    plugin = tmp_path / "spanwire-cni"
    plugin.write_bytes((ROOT / binary).parent.joinpath("spanwire-cni").read_bytes())
    plugin.chmod(0o755)
    if _wants_loader(plugin.read_bytes()):
        assert _sanitized(binary)
        pytest.skip("with sanitizers the plugin is not linked statically")
    done = subprocess.run(["/usr/sbin/chroot", str(tmp_path), "/spanwire-cni"], input='{"cniVersion": "1.0.0"}', capture_output=True,
                          text=True, check=False, env={"CNI_COMMAND": "VERSION"})
    assert done.returncode == 0 and "1.1.0" in json.loads(done.stdout)["supportedVersions"], done


def _wants_loader(elf):
    """A 64-bit program with a segment PT_INTERP (3)."""
    [table], (size, n) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, table + i * size)[0] == 3 for i in range(n))


def _sanitized(binary):
    return "__asan" in subprocess.run(["nm", "-D", str(binary)], capture_output=True, text=True, check=False).stdout


def test_an_image_has_what_it_runs(binary, tmp_path):
    """The same files make the same archive, and the program runs with the image's files alone."""
    out = [tmp_path / name for name in ("one.tar", "two.tar")]
    for path in out:
        subprocess.run([sys.executable, ROOT / "tools/image", "--build", (ROOT / binary).parent, "--name", "spanwire:t", path],
                       check=True, capture_output=True)
    assert out[0].read_bytes() == out[1].read_bytes()
    with tarfile.open(out[0]) as tar:
        manifest, = json.load(tar.extractfile("manifest.json"))
        config = json.load(tar.extractfile(manifest["Config"]))
        with tarfile.open(fileobj=tar.extractfile(manifest["Layers"][0])) as layer:
            layer.extractall(tmp_path / "root")
    assert manifest["RepoTags"] == ["spanwire:t"] and config["config"]["User"] == "65532"
    done = subprocess.run(["/usr/sbin/chroot", str(tmp_path / "root"), *config["config"]["Entrypoint"], "version"], capture_output=True,
                          text=True, check=False)
    assert "spanwire" in done.stdout, done
    if not _sanitized(binary):  # LeakSanitizer ends with an error where there is no /proc, which also has its options
        assert done.returncode == 0 and not done.stderr, done
    for tool in ("nft", "ip"):
        done = subprocess.run(["/usr/sbin/chroot", str(tmp_path / "root"), f"/usr/sbin/{tool}", "-V"], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done
    assert not (tmp_path / "root/bin/sh").exists()
