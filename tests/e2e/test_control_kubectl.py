# SPDX-License-Identifier: Apache-2.0
"""The everyday life with an unmodified kubectl."""
import json
import os
import re

import pytest
from harness import control
from harness.wait import until


@pytest.fixture(scope="module")
def k(binary, tmp_path_factory):
    control.need_kubectl()
    server = control.Control(binary, tmp_path_factory.mktemp("kubectl"))
    server.install_lab_crds()
    yield server
    server.close()


def widget(name, **spec):
    return json.dumps({"apiVersion": "lab.example.com/v1", "kind": "Widget", "metadata": {"name": name},
                       "spec": {"size": 1, **spec}})


def test_apply_twice_and_server_side(k):
    assert "created" in k.kubectl("apply", "-f", "-", stdin=widget("a"))
    assert "unchanged" in k.kubectl("apply", "-f", "-", stdin=widget("a"))
    assert "configured" in k.kubectl("apply", "-f", "-", stdin=widget("a", color="red"))
    # Moving from client-side to server-side apply takes over what was applied before.
    assert "serverside-applied" in k.kubectl("apply", "--server-side", "-f", "-", stdin=widget("a", color="green"))
    clash = k.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=widget("a", color="blue"),
                      check=False)
    assert clash.returncode and 'conflict with "kubectl"' in clash.stderr
    k.kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-",
              stdin=widget("a", color="blue"))


def test_edit(k):
    k.kubectl("create", "configmap", "ed", "--from-literal=a=before")
    out = k.kubectl("edit", "configmap", "ed", env={"EDITOR": "sed -i s/before/after/"})
    assert "edited" in out
    assert k.kubectl("get", "cm", "ed", "-o", "jsonpath={.data.a}") == "after"


def test_describe(k):
    k.kubectl("apply", "-f", "-", stdin=widget("d"))
    uid = k.kubectl("get", "widget", "d", "-o", "jsonpath={.metadata.uid}")
    k.kubectl("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "d.1"}, "reason": "Seen", "message": "hello there",
        "type": "Normal", "involvedObject": {"apiVersion": "lab.example.com/v1", "kind": "Widget", "name": "d",
                                             "namespace": "default", "uid": uid}}))
    out = k.kubectl("describe", "widget", "d")
    assert "hello there" in out and "Size:" in out
    assert "No resource quota." in k.kubectl("describe", "namespace", "default")


def test_wait_and_watch(k):
    k.kubectl("apply", "-f", "-", stdin=widget("w"))
    late = k.kubectl("wait", "--for=condition=Ready", "widget/w", "--timeout=1s", check=False)
    assert late.returncode and "timed out" in late.stderr
    k.kubectl("patch", "widget", "w", "--subresource=status", "--type=merge", "-p",
              '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}')
    assert "condition met" in k.kubectl("wait", "--for=condition=Ready", "widget/w", "--timeout=120s")


def test_explain_and_api_resources(k):
    assert "size" in k.kubectl("explain", "widget.spec")
    out = k.kubectl("api-resources", "--api-group=lab.example.com", "-o", "name")
    assert "widgets.lab.example.com" in out


def test_tokens_and_access(k):
    k.kubectl("create", "serviceaccount", "robot")
    token = k.kubectl("create", "token", "robot")
    assert token.count(".") == 2
    who = k.kubectl("auth", "can-i", "get", "secrets", "--as=system:serviceaccount:default:robot", check=False)
    assert who.stdout.strip() == "no" and who.returncode == 1
    k.kubectl("create", "role", "r", "--verb=get", "--resource=secrets")
    k.kubectl("create", "rolebinding", "rb", "--role=r", "--serviceaccount=default:robot")
    assert k.kubectl("auth", "can-i", "get", "secrets", "--as=system:serviceaccount:default:robot").strip() == "yes"


def test_secret_tls(k):
    top = control.SCENARIOS / "fixtures"
    k.kubectl("create", "secret", "tls", "t", f"--cert={top}/tls-a.crt", f"--key={top}/tls-a.key")
    assert k.kubectl("get", "secret", "t", "-o", "jsonpath={.type}") == "kubernetes.io/tls"


def test_cascades(k):
    for policy in ("background", "foreground", "orphan"):
        k.kubectl("create", "configmap", f"o-{policy}")
        uid = k.kubectl("get", "cm", f"o-{policy}", "-o", "jsonpath={.metadata.uid}")
        k.kubectl("create", "-f", "-", stdin=json.dumps({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{policy}", "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o-{policy}", "uid": uid, "blockOwnerDeletion": True}]}}))
        k.kubectl("delete", "cm", f"o-{policy}", f"--cascade={policy}")
        gone = ["get", "cm", f"c-{policy}", "--ignore-not-found", "-o", "name"]
        if policy == "orphan":
            assert k.kubectl(*gone).strip()
        else:
            until(lambda: not k.kubectl(*gone).strip(), 10)


def test_restart_under_a_watching_client(k):
    """kubectl's watch ends with the server; the next one goes on and misses nothing."""
    rv = json.loads(k.kubectl("get", "--raw", "/api/v1/namespaces/default/secrets"))["metadata"]["resourceVersion"]
    k.kubectl("create", "secret", "generic", "before")
    k.restart(kill=True)
    k.kubectl("create", "secret", "generic", "after")
    out = k.kubectl("get", "--raw", f"/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1&resourceVersion={rv}")
    assert re.findall(r'"name":"(before|after)"', out) == ["before", "after"]


CRDS = control.find_gateway_api()
CONFORMANCE = os.path.join(os.path.dirname(os.path.dirname(CRDS)), "conformance", "tests") if CRDS else ""


@pytest.fixture
def bare(binary, tmp_path):
    """A server that has upstream's files instead of the fabric's kinds."""
    if not CRDS:
        pytest.skip("no copy of the Gateway API CRDs here (set GATEWAY_API)")
    control.need_kubectl()
    c = control.Control(binary, tmp_path / "bare", "--fabric-kinds=false")
    try:
        out = c.kubectl("apply", "-f", CRDS)
        assert out.count("created") >= 12, out
        c.kubectl("wait", "--for=condition=Established", "crd/httproutes.gateway.networking.k8s.io", "--timeout=120s")
        yield c
    finally:
        c.close()


def test_gateway_api(bare):
    """Upstream's rules hold."""
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "h"},
             "spec": {"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/a//b"}}]}]}}
    bad = bare.kubectl("apply", "-f", "-", stdin=json.dumps(route), check=False)
    assert "must not contain '//' when type one of ['Exact', 'PathPrefix']" in bad.stderr
    route["spec"]["rules"][0]["matches"][0]["path"]["value"] = "/a/b"
    assert "created" in bare.kubectl("apply", "-f", "-", stdin=json.dumps(route))


@pytest.mark.skipif(not os.path.isdir(CONFORMANCE), reason="no copy of the Gateway API's conformance tests here")
def test_gateway_api_conformance_objects(bare):
    """All objects of the upstream tests that only use kinds we serve."""
    refused = []
    for ns in ("gateway-conformance-infra", "gateway-conformance-app-backend", "gateway-conformance-web-backend"):
        bare.kubectl("create", "namespace", ns)
    for name in sorted(os.listdir(CONFORMANCE)):
        if not name.startswith(("httproute-", "grpcroute-")) or name == "httproute-retry.yaml":
            continue
        text = (open(os.path.join(CONFORMANCE, name), encoding="utf-8").read()
                .replace("{GATEWAY_CLASS_NAME}", "x"))
        if "kind: Deployment" in text:
            continue
        done = bare.kubectl("apply", "--server-side", "-f", "-", stdin=text, check=False)
        if done.returncode and "namespaces" not in done.stderr:
            refused.append((name, done.stderr[:300]))
    assert not refused
