# SPDX-License-Identifier: Apache-2.0
"""
cert-manager on the embedded API: its chart by Helm, each part with the rights the chart gives it, its issuers, the
certificate of a Gateway by annotation and HTTPS with it, a new one, and its admission webhooks, whose CA its injector
writes into their configurations.
"""
import base64
import json
import os
import socket
import ssl
import subprocess

import pytest
import yaml
from harness import fabric as fb
from harness import gateway as gw
from harness.control import _Here, need_kubectl
from harness.node import Process
from harness.ports import free_port
from harness.wait import GUARD, until

DIR = os.environ.get("INTEROP_DIR", "")
ISSUERS = """
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: self}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: root, namespace: cert-manager}
spec: {isCA: true, commonName: interop, secretName: root, privateKey: {algorithm: ECDSA, size: 256},
       issuerRef: {name: self, kind: ClusterIssuer}}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: ca}
spec: {ca: {secretName: root}}
"""


NAMESPACE = "cert-manager"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


class World:
    """The chart installed, and its three programs, which no cluster is here to start, as one process."""

    def __init__(self, binary, tmp, url):
        need_kubectl()
        self.tmp, self.origin = tmp, gw.Origin()
        self.fabric = fb.Fabric(binary, tmp)
        self.api = self.fabric.control
        self.port = free_port()
        self.install(["--set", f"webhook.url.host=localhost:{self.port}"] if url else [])
        if not url:
            self.endpoint()
        self.manager = Process(_Here(), [
            os.path.join(DIR, "cert-manager"), "--webhook-port", str(self.port), "--webhook-health-port",
            str(free_port()), "--kubeconfig-file", self.rights("cert-manager"), "--webhook-kubeconfig",
            self.rights("cert-manager-webhook"), "--injector-kubeconfig", self.rights("cert-manager-cainjector")],
            tmp / "cert-manager.log")

    def install(self, flags):
        chart = os.path.join(DIR, "deploy", "charts", "cert-manager")
        helm = os.path.join(os.environ["INTEROP_TOP"], "helm", "helm4")
        done = subprocess.run([helm, "install", "cert-manager", chart,
                               "--namespace", NAMESPACE, "--create-namespace", "--set", "crds.enabled=true",
                               "--set", "startupapicheck.enabled=false",
                               "--set", f"global.leaderElection.namespace={NAMESPACE}", "--wait=hookOnly", *flags],
                              env={"HOME": str(self.tmp), "KUBECONFIG": str(self.api.kubeconfig)},
                              capture_output=True, text=True, timeout=4 * GUARD, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self.api.kubectl("wait", "--for=condition=Established", "crd", "--all")

    def endpoint(self):
        """Where the webhook's Service leads to, which a cluster's controllers would write."""
        self.api.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "webhook", "labels": {"kubernetes.io/service-name": "cert-manager-webhook"}},
            "ports": [{"name": "https", "port": self.port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]}))

    def rights(self, account):
        """A kubeconfig with a token of a ServiceAccount of the chart."""
        token = self.api.kubectl("create", "token", account, "-n", NAMESPACE).strip()
        config = yaml.safe_load(self.api.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.tmp / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def issuers(self):
        """Refused until the CA bundle is there, since the webhooks fail closed."""
        last = []

        def applied():
            assert self.manager.alive, self.manager.log()[-3000:]
            last[:] = [self.api.kubectl("apply", "-f", "-", stdin=ISSUERS, check=False)]
            return last[0].returncode == 0
        try:
            until(applied, what="the webhooks to answer")
        except AssertionError as e:
            log = "\n".join(line for line in self.manager.log().splitlines() if "TLS handshake error" not in line)
            raise AssertionError(f"{e}: {last[0].stderr}\n{log[-4000:]}") from e
        self.api.kubectl("wait", "--for=condition=Ready", "clusterissuer/self", "clusterissuer/ca", "--timeout=120s")

    def secret(self, name, key, namespace="default"):
        answer = self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        return base64.b64decode(json.loads(answer.body)["data"][key]) if answer.status == 200 else b""

    def close(self):
        if self.manager.alive:
            self.manager.proc.kill()
        self.fabric.close()
        self.origin.close()


@pytest.fixture(name="world")
def _world(binary, tmp_path):
    worlds = []

    def make(url=False):
        worlds.append(World(binary, tmp_path, url))
        return worlds[-1]
    yield make
    for w in worlds:
        w.close()


def served(w, port, name):
    """The certificate a client sees, verified with cert-manager's root."""
    context = ssl.create_default_context(cadata=w.secret("root", "tls.crt", NAMESPACE).decode())
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as s, \
                context.wrap_socket(s, server_hostname=name) as tls:
            tls.sendall(f"GET /size/3 HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            status = tls.recv(12)
            return tls.getpeercert(True) if status == b"HTTP/1.1 200" else None
    except (OSError, ssl.SSLError):
        return None


def test_a_gateway_gets_its_certificate(world):
    """The annotation on a Gateway makes cert-manager write the Secret of its listener; the gateway serves with it."""
    w = world()
    w.issuers()
    port, f = free_port(), w.fabric
    f.service("web", [w.origin.port])
    f.apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
             "metadata": {"name": "edge", "namespace": "default",
                          "annotations": {"cert-manager.io/cluster-issuer": "ca"}},
             "spec": {"gatewayClassName": "spanwire", "listeners": [
                 {"name": "https", "protocol": "HTTPS", "port": port, "hostname": "app.example",
                  "tls": {"mode": "Terminate", "certificateRefs": [{"name": "app-tls"}]}}]}})
    f.apply(fb.route("all", "edge", [fb.prefix("/", fb.to("web"))]))
    f.start_gateway()
    w.api.kubectl("wait", "--for=create", "certificate/app-tls", "--timeout=120s")
    w.api.kubectl("wait", "--for=condition=Ready", "certificate/app-tls", "--timeout=120s")
    first = until(lambda: served(w, port, "app.example"), what="HTTPS with cert-manager's certificate")
    w.api.kubectl("delete", "secret", "app-tls")  # it is issued again, with a new key
    until(lambda: (served(w, port, "app.example") or first) != first, 2 * GUARD, "the new certificate")
    assert "True" in w.api.kubectl("get", "certificate", "app-tls")  # its printer columns
    assert "Issuing" in w.api.kubectl("describe", "certificate", "app-tls")  # its Events
    assert "forbidden" not in w.manager.log().lower()  # the chart's rights are enough, as in a cluster


def bundles(w):
    """The CA bundles of all its webhooks, decoded."""
    found = []
    for kind in ("validating", "mutating"):
        hooks = w.api.get(f"{HOOKS}/{kind}webhookconfigurations/cert-manager-webhook").json["webhooks"]
        found += [base64.b64decode(h["clientConfig"].get("caBundle", "")) for h in hooks]
    return found


@pytest.mark.parametrize("url", [False, True], ids=["service", "url"])
def test_its_webhooks_are_called(world, url):
    """By the Service's endpoint and by URL; the injector writes the CA bundle; both webhooks decide."""
    w = world(url)
    w.issuers()
    ca = w.secret("cert-manager-webhook-ca", "ca.crt", NAMESPACE)
    assert len(bundles(w)) == 2 and all(b == ca for b in bundles(w)), bundles(w)
    bad = w.api.kubectl("apply", "-f", "-", check=False, stdin="""
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: bad}
spec: {secretName: bad, duration: 1h, renewBefore: 2h, commonName: bad, issuerRef: {name: ca, kind: ClusterIssuer}}
""")
    assert bad.returncode != 0 and 'admission webhook "webhook.cert-manager.io" denied' in bad.stderr, bad.stderr
    request = w.api.get(f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificaterequests").json["items"][0]
    # The mutating webhook writes who asked: the controller's ServiceAccount, as the API knows it.
    assert request["spec"]["username"] == "system:serviceaccount:cert-manager:cert-manager", request
    approved = [c["status"] for c in request["status"]["conditions"] if c["type"] == "Approved"]
    assert approved == ["True"], request
    w.manager.proc.kill()
    w.manager.wait(GUARD)
    late = w.api.kubectl("delete", "clusterissuer", "self", check=False)
    assert late.returncode == 0, late.stderr  # its rules name CREATE and UPDATE only
    late = w.api.kubectl("apply", "-f", "-", stdin=ISSUERS, check=False)
    assert late.returncode != 0 and "failed calling webhook" in late.stderr, late.stderr
