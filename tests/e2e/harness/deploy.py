# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes and deploy/helm: the objects they make, and what Pod Security says of their pods."""
import functools
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from .control import need_kubectl

ROOT = pathlib.Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/spanwire"
NAMESPACE = "spanwire-system"
NO_HELM = "NO HELM ON THIS MACHINE (Debian 12 has none; tools/fetch-helm says why it cannot be had): the chart is not rendered"


@functools.lru_cache(None)
def find_helm():
    """$HELM, one on PATH, what tools/setup fetched, or what tools/interop built; None: there is none."""
    build = os.environ.get("SPANWIRE_BUILD", ROOT / "build")
    built = [os.path.join(build, "interop", name) for name in ("helm/helm4", "helm/helm3", "kubernetes/helm")]
    for path in (os.environ.get("HELM"), shutil.which("helm"), str(ROOT / "tests/e2e/helm/helm"), *built):
        if path and os.access(path, os.X_OK):
            return path
    return None


def need_helm():
    path = find_helm()
    if not path:
        pytest.skip(NO_HELM)
    return path


def parse(text):
    return [d for d in yaml.safe_load_all(text) if d]


def kustomized(top=MANIFESTS):
    """The objects of a kustomization, in its order."""
    return parse(subprocess.run([need_kubectl(), "kustomize", str(top)], capture_output=True, text=True,
                                check=True).stdout)


def overlaid(where, *components):
    """The objects of a kustomization in 'where' that has our manifests and these components of them."""
    def path(name=""):
        return os.path.relpath(MANIFESTS / name, where)
    where.mkdir(parents=True, exist_ok=True)
    (where / "kustomization.yaml").write_text(yaml.safe_dump({
        "resources": [path()], "components": [path(c) for c in components]}), encoding="utf-8")
    return kustomized(where)


def component_flags(*components):
    """Flags of Helm for the chart's counterparts of kustomize components, as these are when nothing is patched."""
    values = {"link": "link.enabled=true", "join": "join.enabled=true,join.address=control.example.com:15011"}
    return [x for c in components for x in ("--set", values[c])]


def without_hooks(obj):
    """The object of the chart without what makes it a hook of Helm."""
    notes = {k: v for k, v in obj["metadata"].get("annotations", {}).items() if not k.startswith("helm.sh/")}
    meta = {k: v for k, v in obj["metadata"].items() if k != "annotations"}
    return {**obj, "metadata": {**meta, **({"annotations": notes} if notes else {})}}


def run_helm(*argv, helm=None, env=None):
    return subprocess.run([helm or need_helm(), *argv], capture_output=True, text=True, check=False, env=env)


def rendered(*flags, helm=None, api=None):
    """The objects of the chart; with an API as Helm itself makes them, with its hooks."""
    asked, env = [], None
    if api:
        asked, env = ["--dry-run=server"], {"PATH": os.environ["PATH"], "HOME": str(api.dir), "KUBECONFIG": str(api.kubeconfig)}
    done = run_helm("template", "spanwire", str(CHART), "--namespace", NAMESPACE, *asked, *flags, helm=helm, env=env)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


def refused(*flags):
    """What Helm says of values with which the chart cannot be rendered."""
    done = run_helm("template", "spanwire", str(CHART), "--namespace", NAMESPACE, *flags)
    assert done.returncode != 0, done.stdout
    return done.stderr


def install(api, home, *flags):
    """'helm install' into an API, which stores the objects and runs no pods."""
    done = run_helm("install", "spanwire", str(CHART), "--namespace", NAMESPACE, "--create-namespace", *flags,
                    env={"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(api.kubeconfig)})
    assert done.returncode == 0, done.stdout + done.stderr


def key(obj):
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def by_key(objects):
    out = {key(o): o for o in objects}
    assert len(out) == len(objects), "an object twice"
    return out


def pods(objects):
    """{name: pod template} of Deployments and DaemonSets."""
    return {o["metadata"]["name"]: o["spec"]["template"] for o in objects if o["kind"] in ("Deployment", "DaemonSet")}


RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
                      "secret"}


def violations(spec):
    """What of a pod's spec the restricted profile of the Pod Security Standards forbids, and a writable root."""
    found = [f"{field} is set" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    for volume in spec.get("volumes", ()):
        found += [f"volume {volume['name']}: {kind}" for kind in volume if kind not in RESTRICTED_VOLUMES | {"name"}]
    for container in spec.get("initContainers", []) + spec["containers"]:
        context = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        capabilities = context.get("capabilities", {})
        wanted = [("privileged", context.get("privileged", False), False),
                  ("allowPrivilegeEscalation", context.get("allowPrivilegeEscalation"), False),
                  ("runAsNonRoot", context.get("runAsNonRoot"), True),
                  ("runAsUser", context.get("runAsUser", 1) > 0, True),
                  ("capabilities.drop", capabilities.get("drop"), ["ALL"]),
                  ("capabilities.add", set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"}, True),
                  ("seccompProfile", context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"), True),
                  ("hostPort", any(p.get("hostPort") for p in container.get("ports", ())), False),
                  ("readOnlyRootFilesystem", context.get("readOnlyRootFilesystem"), True)]
        found += [f"{container['name']}: {what} is {value}" for what, value, want in wanted if value != want]
    return found
