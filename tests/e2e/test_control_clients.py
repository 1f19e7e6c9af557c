# SPDX-License-Identifier: Apache-2.0
"""
The API through the clients people have: the same operations with python3-kubernetes and with npm's
@kubernetes/client-node, which must be told the same, and kubectl beyond the recorded scenarios.
"""
import json
import os
import pathlib
import re
import subprocess
import textwrap

import pytest
from harness.control import Control, find_kubectl, need_kubectl
from harness.wait import SLOW, until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
DRIVERS = {"python": ["/usr/bin/python3", str(CLIENTS / "operations.py")],
           "node": ["node", str(CLIENTS / "operations.mjs")]}
CONFLICT, INVALID, MISSING = [409, "Conflict"], [422, "Invalid"], [404, "NotFound"]
EXPECTED = {
    "namespace": {"phase": "Active", "label": True, "listed": True},
    "create": {"data": {"a": "1"}, "uid": 36, "again": [409, "AlreadyExists"], "version": True, "bad": INVALID},
    "get": {"data": {"a": "1"}, "missing": MISSING, "listed": True, "everywhere": True},
    "replace": {"data": {"a": "2"}, "newer": True, "stale": CONFLICT},
    "patch_json": {"data": {"a": "2", "c": "3"}, "test": INVALID},
    "patch_merge": {"data": {"b": "1", "c": "3"}},
    "patch_strategic": {"added": [["a", 80], ["b", 81]], "removed": [["b", 81]]},
    "apply": {"same": True, "forced": {"a": "2"}, "managers": ["two/Apply"],
              "conflict": [409, 'Apply failed with 1 conflict: conflict with "one": .data.a', ".data.a"]},
    "delete": {"Background": [True, True], "Foreground": [True, True], "Orphan": [True, None], "body": True,
               "uid": CONFLICT},
    "delete_collection": {"left": ["collection-1", "collection-3"]},
    "watch": {"events": [["ADDED", "0"], ["MODIFIED", "1"], ["MODIFIED", "2"], ["DELETED", "2"]]},
    "custom_objects": {"spec": {"size": 3, "color": "blue"}, "status_ignored": True, "bad": INVALID,
                       "status": [3, 2, 1], "patched": [5, 2, 2], "replaced": [{"size": 6, "color": "blue"}, 3],
                       "listed": 1, "deleted": MISSING, "crd": True},
    "token": {"user": True, "refused": [403, "Forbidden"], "authenticated": True, "version": "1", "expires": True},
    "access": {"me": True, "before": False, "after": True, "bob": False, "rules": True},
    "selectors": {"equal": ["sel-0"], "in": ["sel-0", "sel-2"], "not": ["sel-2", "sel-3"], "absent": ["sel-3"],
                  "field": ["sel-2"], "both": ["sel-1", "sel-2"], "bad": [400, "BadRequest"],
                  "bad_field": [400, "BadRequest"]},
    "paging": {"sizes": [10, 10, 5], "versions": 1, "all": True, "bad": [400, "BadRequest"]},
    "secrets": {"type": "Opaque", "data": {"a": "aGVsbG8=", "b": "AP8="}, "string": None, "blob": {"x": "AP8="},
                "bad": 400, "tls": INVALID, "locked": True, "change": INVALID},
    "leases": {"holder": "you", "ms": 1714979289123, "stale": CONFLICT},
    "events": {"found": [["new", "hi", "example.com/c"]], "note": "hello"},
    "dry_run": {"name": "dry", "stored": MISSING},
    "informer": {"log": [["add", "inf-0", "0"], ["add", "inf-1", "0"], ["update", "inf-0", "1"],
                         ["update", "inf-0", "2"], ["update", "inf-0", "3"], ["delete", "inf-0", "3"]],
                 "cache": {"inf-1": "0"}},
    "namespace_goes": {"gone": True},
}


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("clients"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def outcomes(api):
    """What each client was told, by operation. A client that is not there is a failure: set-up brings both."""
    cache = {}

    def run(client):
        if client not in cache:
            done = subprocess.run([*DRIVERS[client], str(api.kubeconfig), "via-" + client], capture_output=True,
                                  text=True, timeout=600 * SLOW, check=False)
            assert done.returncode == 0, f"run tools/setup test first?\n{done.stderr[-3000:]}"
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            cache[client] = {line["op"]: line["got"] for line in lines}
        return cache[client]
    return run


@pytest.mark.parametrize("op", EXPECTED)
@pytest.mark.parametrize("client", DRIVERS)
def test_same_for_every_client(outcomes, client, op):
    got = outcomes(client)[op]
    assert "error" not in got, got["error"]
    assert got == EXPECTED[op]


def test_no_operation_is_forgotten(outcomes):
    for client in DRIVERS:
        assert set(outcomes(client)) == set(EXPECTED)


# --- kubectl -------------------------------------------------------------------------------

class Kubectl:
    """kubectl in a namespace of its own, with files beside it."""

    def __init__(self, api, namespace, directory):
        self.api, self.ns, self.dir = api, namespace, directory
        api.kubectl("create", "namespace", namespace)

    def __call__(self, *argv, **kw):
        return self.api.kubectl("-n", self.ns, *argv, **kw)

    def file(self, name, text):
        path = self.dir / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def script(self, name, text):
        path = self.file(name, "#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def value(self, what, path):
        return self("get", *what.split("/"), "-o", "jsonpath={" + path + "}")


@pytest.fixture
def k(api, request, tmp_path):
    need_kubectl()
    return Kubectl(api, re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-")[:60], tmp_path)


@pytest.fixture(scope="module")
def widgets(api):
    need_kubectl()
    api.install_lab_crds()
    api.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")


MAP = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: m, labels: {app: x}}
    data: {a: "%s"}
    """


def test_kubectl_apply_twice(k):
    first = k.file("1.yaml", MAP % 1)
    assert k("apply", "-f", first) == "configmap/m created\n"
    assert k("apply", "-f", first) == "configmap/m unchanged\n"
    assert k("apply", "-f", k.file("2.yaml", MAP % 2)) == "configmap/m configured\n"
    assert k.value("configmap/m", ".data.a") == "2"


def test_kubectl_server_side_apply_twice_and_conflict(k):
    first, second = k.file("1.yaml", MAP % 1), k.file("2.yaml", MAP % 2)
    for _ in range(2):
        assert k("apply", "--server-side", "--field-manager=one", "-f", first) == "configmap/m serverside-applied\n"
    clash = k("apply", "--server-side", "--field-manager=two", "-f", second, check=False)
    assert clash.returncode == 1 and 'Apply failed with 1 conflict: conflict with "one": .data.a' in clash.stderr
    assert k.value("configmap/m", ".data.a") == "1"
    k("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", second)
    assert k.value("configmap/m", ".data.a") == "2"


def test_kubectl_edit(k):
    k("apply", "-f", k.file("1.yaml", MAP % 1))
    editor = k.script("editor", 'sed -i "s/a: \\"1\\"/a: edited/" "$1"\n')
    assert k("edit", "configmap", "m", env={"KUBE_EDITOR": editor}) == "configmap/m edited\n"
    assert k.value("configmap/m", ".data.a") == "edited"
    idle = k("edit", "configmap", "m", env={"KUBE_EDITOR": "true"}, check=False)
    assert "Edit cancelled, no changes made" in idle.stdout + idle.stderr
    # What the server refuses comes back to the editor with the reason; the second time it gives up.
    rename = k.script("rename", 'sed -i "s/name: m$/name: other/" "$1"\n')
    refused = k("edit", "configmap", "m", env={"KUBE_EDITOR": rename}, check=False)
    assert refused.returncode == 1


def test_kubectl_edit_custom_object(k, widgets):
    del widgets
    k("create", "-f", "-", stdin='{"apiVersion":"lab.example.com/v1","kind":"Widget","metadata":{"name":"w"},'
                                 '"spec":{"size":1}}')
    editor = k.script("editor", 'sed -i "s/size: 1/size: 2/" "$1"\n')
    k("edit", "widget", "w", env={"KUBE_EDITOR": editor})
    assert k.value("widget/w", ".spec.size") == "2"
    assert k.value("widget/w", ".metadata.generation") == "2"


def test_kubectl_diff(k):
    first, second = k.file("1.yaml", MAP % 1), k.file("2.yaml", MAP % 2)
    k("apply", "-f", first)
    assert k("diff", "-f", first) == ""
    for flags in ([], ["--server-side", "--force-conflicts"]):
        done = k("diff", *flags, "-f", second, check=False)
        assert done.returncode == 1 and '-  a: "1"' in done.stdout and '+  a: "2"' in done.stdout
    assert k.value("configmap/m", ".data.a") == "1"


def test_kubectl_wait(k, widgets):
    del widgets
    k("create", "-f", "-", stdin='{"apiVersion":"lab.example.com/v1","kind":"Widget","metadata":{"name":"w"},'
                                 '"spec":{"size":1}}')
    late = k("wait", "widget/w", "--for=jsonpath={.status.phase}=Done", "--timeout=0.3s", check=False)
    assert late.returncode == 1 and "timed out waiting for the condition" in late.stderr
    waiter = subprocess.Popen([find_kubectl(), "--kubeconfig", str(k.api.kubeconfig), "-n", k.ns, "wait", "widget/w",
                               "--for=condition=Ready", "--timeout=120s"], stdout=subprocess.PIPE, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(k.dir)})
    try:
        k("patch", "widget", "w", "--subresource=status", "--type=merge", "-p", json.dumps({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "Fine", "message": "",
             "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}))
        assert waiter.communicate(timeout=180 * SLOW)[0] == "widget.lab.example.com/w condition met\n"
    finally:
        waiter.kill()
        waiter.wait()
    k("delete", "widget", "w", "--wait=false")
    k("wait", "widget/w", "--for=delete", "--timeout=120s")


def test_kubectl_explain(k, widgets):
    del widgets
    text = k("explain", "widget.spec.size")
    assert "KIND:       Widget" in text and "FIELD: size <integer>" in text
    assert "FIELD: data <map[string]string>" in k("explain", "configmap.data")
    assert "ports" in k("explain", "service.spec", "--recursive")


def test_kubectl_auth_and_tokens(k):
    assert k("auth", "can-i", "create", "gateways") == "yes\n"
    k("create", "serviceaccount", "robot")
    me = f"system:serviceaccount:{k.ns}:robot"
    done = k("auth", "can-i", "list", "secrets", "--as", me, check=False)
    assert done.returncode == 1 and done.stdout == "no\n"
    k("create", "role", "reader", "--verb=list,get", "--resource=secrets")
    k("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={k.ns}:robot")
    token = k("create", "token", "robot", "--duration=20m").strip()
    assert token.count(".") == 2
    with_token = ["--kubeconfig", "/dev/null", "--server", f"https://127.0.0.1:{k.api.port}", "--token", token,
                  "--certificate-authority", k.file("ca.pem", k.api._secret("certificate-authority-data").decode())]
    assert k(*with_token, "auth", "can-i", "list", "secrets") == "yes\n"
    assert me in k(*with_token, "auth", "whoami")
    refused = k(*with_token, "get", "configmaps", check=False)
    assert refused.returncode == 1 and f'User "{me}" cannot list resource "configmaps"' in refused.stderr
    assert "secrets" in k(*with_token, "auth", "can-i", "--list")
    bound = k("create", "token", "robot", "--bound-object-kind=Secret", "--bound-object-name=none", check=False)
    assert bound.returncode == 1


def test_kubectl_secret_tls(k):
    key, cert = str(k.dir / "k.pem"), str(k.dir / "c.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-subj", "/CN=x", "-days", "2"], check=True, capture_output=True)
    assert k("create", "secret", "tls", "t", "--cert", cert, "--key", key) == "secret/t created\n"
    assert k.value("secret/t", ".type") == "kubernetes.io/tls"
    assert "tls.crt:  " in k("describe", "secret", "t")


def test_kubectl_kustomize(k):
    k.file("m.yaml", MAP % 1)
    k.file("kustomization.yaml", f"""\
        namespace: {k.ns}
        namePrefix: pre-
        resources: [m.yaml]
        configMapGenerator: [{{name: made, literals: [x=1]}}]
        secretGenerator: [{{name: s, literals: [p=q]}}]
        labels: [{{pairs: {{team: a}}}}]
        """)
    text = k.api.kubectl("kustomize", str(k.dir))
    out = k("apply", "-f", "-", stdin=text)
    assert "configmap/pre-m created" in out and out.count("created") == 3
    assert k("apply", "-k", str(k.dir)).count("unchanged") == 3
    assert len(k("get", "configmap,secret", "-l", "team=a", "-o", "name").split()) == 3


def test_kubectl_get_watch(k):
    log = k.dir / "watch"
    with open(log, "wb") as out:
        watcher = subprocess.Popen([find_kubectl(), "--kubeconfig", str(k.api.kubeconfig), "-n", k.ns, "get",
                                    "configmaps", "-l", "app=x", "-w", "--output-watch-events"], stdout=out,
                                   env={"PATH": os.environ["PATH"], "HOME": str(k.dir)})
    try:
        k("apply", "-f", k.file("1.yaml", MAP % 1))
        until(lambda: "ADDED" in log.read_text(), 15, "the first line of -w")
        k("patch", "configmap", "m", "--type=merge", "-p", '{"data":{"b":"2"}}')
        k("delete", "configmap", "m")
        until(lambda: "DELETED" in log.read_text(), 15, "the last line of -w")
    finally:
        watcher.kill()
        watcher.wait()
    rows = [re.split(r" +", line)[:3] for line in log.read_text().splitlines()]
    assert rows == [["EVENT", "NAME", "DATA"], ["ADDED", "m", "1"], ["MODIFIED", "m", "2"], ["DELETED", "m", "2"]]


def test_kubectl_describe_label_annotate(k):
    k("apply", "-f", k.file("1.yaml", MAP % 1))
    assert k("label", "configmap", "m", "tier=front") == "configmap/m labeled\n"
    twice = k("label", "configmap", "m", "tier=back", check=False)
    assert twice.returncode == 1 and "--overwrite is false" in twice.stderr
    k("label", "configmap", "m", "--overwrite", "tier=back", "app-")
    assert k("annotate", "configmap", "m", "note=hello world") == "configmap/m annotated\n"
    text = k("describe", "configmap", "m")
    assert "Labels:       tier=back\n" in text and "note: hello world" in text and "\na:\n----\n1\n" in text
    k("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Tested", "message": "for describe",
        "type": "Normal", "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "namespace": k.ns,
                                             "uid": k.value("configmap/m", ".metadata.uid")}}))
    assert "for describe" in k("describe", "configmap", "m")
    assert "for describe" in k("events", "--for", "configmap/m")
    assert "Status:       Active" in k("describe", "namespace", k.ns)


def test_kubectl_patch_kinds(k):
    k("create", "service", "clusterip", "s", "--tcp=80:8080", "--clusterip=None")
    k("patch", "service", "s", "-p", '{"spec":{"ports":[{"name":"more","port":81}]}}')
    assert k.value("service/s", ".spec.ports[*].port") == "81 80"
    k("patch", "service", "s", "--type=merge", "-p", '{"spec":{"ports":[{"name":"only","port":82}]}}')
    k("patch", "service", "s", "--type=json", "-p", '[{"op":"replace","path":"/spec/ports/0/port","value":83}]')
    assert k.value("service/s", ".spec.ports[*].port") == "83"


def test_kubectl_outputs(k):
    k("apply", "-f", k.file("1.yaml", MAP % 1))
    wide = k("get", "configmap", "m", "-o", "wide").split()
    assert wide[:3] == ["NAME", "DATA", "AGE"] and wide[3:5] == ["m", "1"]
    yaml = k("get", "configmap", "m", "-o", "yaml")
    assert yaml.startswith("apiVersion: v1\ndata:\n  a: \"1\"\nkind: ConfigMap\n") and "managedFields" not in yaml
    assert "managedFields" in k("get", "configmap", "m", "-o", "yaml", "--show-managed-fields")
    resources = k("api-resources", "--namespaced=true", "-o", "name").split()
    assert {"configmaps", "secrets", "leases.coordination.k8s.io", "rolebindings.rbac.authorization.k8s.io"} \
        <= set(resources)


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_kubectl_delete_cascade(k, cascade):
    k("create", "configmap", "owner")
    uid = k.value("configmap/owner", ".metadata.uid")
    k("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}]}}))
    assert k("delete", "configmap", "owner", f"--cascade={cascade}") == 'configmap "owner" deleted\n'
    there = f"/api/v1/namespaces/{k.ns}/configmaps/child"
    if cascade == "orphan":
        assert "ownerReferences" not in k.api.get(there).json["metadata"]
    else:
        until(lambda: k.api.get(there).status == 404, 10, "the child to go")
