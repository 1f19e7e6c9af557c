# SPDX-License-Identifier: Apache-2.0
"""An operator made with controller-runtime (main.go) as a client of the embedded API, which calls its webhooks."""
import base64
import json
import os

import pytest
from harness import fabric as fb
from harness.control import Control, _Here, need_kubectl
from harness.node import Process
from harness.ports import free_port
from harness.wait import GUARD, until

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.interop.spanwire.dev}
spec:
  group: interop.spanwire.dev
  scope: Namespaced
  names: {plural: gardens, singular: garden, kind: Garden}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {plants: {type: array, items: {type: string}}, fence: {type: string}}
          status: {type: object, properties: {planted: {type: integer}, gardener: {type: string}}}
"""
GARDENS = "/apis/interop.spanwire.dev/v1/namespaces/default/gardens"


def garden(name, plants):
    return {"apiVersion": "interop.spanwire.dev/v1", "kind": "Garden", "metadata": {"name": name},
            "spec": {"plants": plants}}


class World:
    def __init__(self, binary, tmp):
        self.tmp, self.managers = tmp, []
        self.api = Control(binary, tmp)
        self.api.kubectl("apply", "-f", "-", stdin=CRD)
        self.api.kubectl("wait", "--for=condition=Established", "crd/gardens.interop.spanwire.dev")

    def manager(self, name, *flags):
        m = Process(_Here(), [os.path.join(os.environ["INTEROP_DIR"], "manager"), "--kubeconfig-file",
                              str(self.api.kubeconfig), "--name", name, *flags], self.tmp / f"{name}.log")
        self.managers.append(m)
        return m

    def status(self, name):
        return json.loads(self.api.get(f"{GARDENS}/{name}").body).get("status", {})

    def close(self):
        for m in self.managers:
            if m.alive:
                m.proc.kill()
        self.api.close()


@pytest.fixture(name="w")
def _w(binary, tmp_path):
    need_kubectl()
    w = World(binary, tmp_path)
    yield w
    w.close()


def test_a_manager_reconciles(w):
    """Caches, index, server-side apply, status patch, owner references, finalizer and Events."""
    w.manager("one")
    assert w.api.post(GARDENS, garden("rose", ["a", "b", "c"])).status == 201
    until(lambda: w.status("rose").get("planted") == 3, what="three plants")
    w.api.kubectl("delete", "configmap", "rose-b")
    until(lambda: w.api.get("/api/v1/namespaces/default/configmaps/rose-b").status == 200, what="rose-b to come back")
    until(lambda: "Planted" in w.api.kubectl("describe", "garden", "rose"), what="the Event")
    w.api.kubectl("delete", "garden", "rose", "--timeout=60s")
    until(lambda: "rose" not in w.api.kubectl("get", "configmap", "-o", "name"), what="owned objects to be collected")
    assert w.api.get(f"{GARDENS}/rose").status == 404


def test_a_manager_survives_the_api(w):
    """kill -9 of the API under it: watches resume, nothing is missed."""
    one = w.manager("one")
    assert w.api.post(GARDENS, garden("oak", ["a"])).status == 201
    until(lambda: w.status("oak").get("planted") == 1)
    w.api.restart()
    assert w.api.patch(f"{GARDENS}/oak", {"spec": {"plants": ["a", "b"]}}).status == 200
    until(lambda: w.status("oak").get("planted") == 2 or not one.alive, 3 * GUARD, "the second plant")
    if not one.alive:  # a lost election ends a manager by design; its successor goes on
        w.manager("two")
        until(lambda: w.status("oak").get("planted") == 2, 3 * GUARD, "the second plant")


def test_the_second_manager_takes_over(w):
    one = w.manager("one")
    assert w.api.post(GARDENS, garden("elm", ["a"])).status == 201
    until(lambda: w.status("elm").get("gardener") == "one")
    two = w.manager("two")
    one.signal(15)
    one.wait(GUARD)
    assert w.api.patch(f"{GARDENS}/elm", {"spec": {"plants": ["a", "b"]}}).status == 200
    until(lambda: w.status("elm") == {"planted": 2, "gardener": "two"}, what="the second to lead")
    assert two.alive


def webhook(kind, name, port, ca):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [{
        "name": f"{name}.interop.spanwire.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "timeoutSeconds": 5,
        "rules": [{"apiGroups": ["interop.spanwire.dev"], "apiVersions": ["v1"], "resources": ["gardens"],
                   "operations": ["CREATE", "UPDATE"]}],
        "clientConfig": {"url": f"https://localhost:{port}/{name}", "caBundle": base64.b64encode(ca).decode()}}]}


def test_its_webhooks_are_called(w):
    """Validating and mutating webhooks of controller-runtime, and what happens when they are gone."""
    cert, key = fb.make_cert(w.tmp, "localhost")
    certs = w.tmp / "certs"
    certs.mkdir()
    (certs / "tls.crt").write_bytes(open(cert, "rb").read())
    (certs / "tls.key").write_bytes(open(key, "rb").read())
    port = free_port()
    m = w.manager("one", "--webhooks", f"127.0.0.1:{port}", "--cert-dir", str(certs))
    for kind, name in (("ValidatingWebhookConfiguration", "validate"), ("MutatingWebhookConfiguration", "mutate")):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
        assert w.api.post(path, webhook(kind, name, port, open(cert, "rb").read())).status == 201
    until(lambda: w.api.post(GARDENS, garden("fern", ["a"])).status in (201, 409), what="the webhooks to answer")
    assert json.loads(w.api.get(f"{GARDENS}/fern").body)["spec"]["fence"] == "wood"
    answer = w.api.post(GARDENS, garden("moss", ["weed"]))
    assert answer.status == 403 and b"no weeds for" in answer.body, answer.body
    warned = w.api.post(GARDENS, garden("palm", ["a"]))
    assert "water it" in warned.headers.get("Warning", "")
    m.proc.kill()
    m.wait(GUARD)
    answer = w.api.post(GARDENS, garden("late", ["a"]))
    assert answer.status == 500 and b"failed calling webhook" in answer.body, answer.body
    assert w.api.get(f"{GARDENS}/late").status == 404


def test_its_client_gets_the_answers_it_knows(w):
    """probe*.go: errors by their reason, patches, subresources, pages, watches; typed objects go in protobuf."""
    one = w.manager("probe", "--probe")
    assert one.wait(2 * GUARD) == 0, one.log()
    lines = one.log().splitlines()
    assert sum(line.startswith("passed ") for line in lines) >= 36 and "failed " not in one.log(), one.log()
    assert any('unknown field \\"spec.colour\\"' in line for line in lines), one.log()  # a warning the client logs
