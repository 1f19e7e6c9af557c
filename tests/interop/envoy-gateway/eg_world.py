# SPDX-License-Identifier: Apache-2.0
"""Envoy Gateway as a controller of our API, and the two data planes it may have.

There is no kubelet: what one would do with the Deployment that Envoy Gateway applies is done here.
Volumes become files, the arguments of its container start Envoy, or say what to tell our gateway.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess

import yaml
from harness import gateway as gw
from harness.control import Control, _Here
from harness.envoy import Envoy
from harness.foreign import BACKENDS, backend_address
from harness.node import Process
from harness.wait import GUARD, until

SYSTEM = "envoy-gateway-system"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
XDS_NAME = f"envoy-gateway.{SYSTEM}.svc.cluster.local"
XDS_PORT = 18000
CONFIG = {"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway",
          "gateway": {"controllerName": CONTROLLER}, "logging": {"level": {"default": "info"}},
          "extensionApis": {"enableBackend": True, "enableEnvoyPatchPolicy": True},
          "provider": {"type": "Kubernetes", "kubernetes": {"proxyTopologyInjector": {"disabled": True}}}}


def secret_files(control, name, where, namespace=SYSTEM):
    """A Secret as a volume."""
    where.mkdir(parents=True, exist_ok=True)
    data = control.get(f"/api/v1/namespaces/{namespace}/secrets/{name}").json["data"]
    for key, value in data.items():
        (where / key).write_bytes(base64.b64decode(value))
    return where


class EnvoyGateway(Process):
    """The controller. It wants its certificates in /certs: it gets a root directory of its own."""

    def __init__(self, program, where, control, crds, config=None):
        self.control = control
        self.root = pathlib.Path(where)
        for d in ("certs", "tmp", "var/lib/eg"):
            (self.root / d).mkdir(parents=True)
        try:
            os.link(program, self.root / "envoy-gateway")
        except OSError:
            shutil.copy(program, self.root / "envoy-gateway")
        shutil.copy(control.kubeconfig, self.root / "kubeconfig")
        (self.root / "config.yaml").write_text(yaml.safe_dump({**CONFIG, **(config or {})}), encoding="utf-8")
        self.env = {"KUBECONFIG": "/kubeconfig", "ENVOY_GATEWAY_NAMESPACE": SYSTEM, "HOME": "/tmp"}
        for part in ("gatewayapi-crds.yaml", "generated"):
            control.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crds / part))
        if control.get(f"/api/v1/namespaces/{SYSTEM}").status == 404:
            control.kubectl("create", "namespace", SYSTEM)
        self.run("certgen", "--disable-topology-injector")
        secret_files(control, "envoy-gateway", self.root / "certs")
        self.start()

    def run(self, *argv):
        done = subprocess.run(["chroot", str(self.root), "/envoy-gateway", *argv], capture_output=True, text=True,
                              check=False, timeout=120, env={**os.environ, **self.env})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self):
        log = self.root.parent / "envoy-gateway.log"
        mark = log.stat().st_size if log.exists() else 0  # of the one before
        super().__init__(_Here(), ["chroot", str(self.root), "/envoy-gateway", "server", "--config-path",
                                   "/config.yaml"], log, env=self.env)

        def leads():
            assert self.alive, self.log()[-3000:]
            return self.control.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases").json["items"] \
                and b"started status update handler" in log.read_bytes()[mark:]
        until(leads, 30, "Envoy Gateway to lead")

    def pod(self, gateway):
        """The pod template of a Gateway's data plane (or a class's, where Gateways are merged), once it was written."""
        def find():
            items = self.control.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments").json["items"]
            return [i for i in items if gateway in (i["metadata"]["labels"].get(
                f"gateway.envoyproxy.io/owning-{what}") for what in ("gateway-name", "gatewayclass"))]
        deployment = until(find, 20, f"a Deployment for {gateway}")[0]
        return deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]

    def programmed(self, gateway):
        """What a cloud and the controllers of a cluster would say: an address, a pod that runs."""
        name, _ = self.pod(gateway)
        for path, status in ((f"/api/v1/namespaces/{SYSTEM}/services/{name}",
                              {"loadBalancer": {"ingress": [{"ip": BACKENDS}]}}),
                             (f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}",
                              {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1})):
            until(lambda p=path: self.control.get(p).status == 200, 20, path)
            got = self.control.patch(f"{path}/status", {"status": status})
            assert got.status == 200, got

    def arguments(self, gateway):
        """What the container of the data plane is started with."""
        name, pod = self.pod(gateway)
        argv = next(c for c in pod["containers"] if c["name"] == "envoy")["args"]
        return name, dict(zip(argv[::2], argv[1::2])) if len(argv) % 2 == 0 else _pairs(argv)


def _pairs(argv):
    out = {}
    for i, a in enumerate(argv):
        if a.startswith("--"):
            out[a] = argv[i + 1] if i + 1 < len(argv) and not argv[i + 1].startswith("--") else ""
    return out


class Ours(Process):
    """'spanwire gateway' as that pod."""

    name = "spanwire"

    def __init__(self, binary, where, eg, gateway):
        where.mkdir(parents=True, exist_ok=True)
        certs = secret_files(eg.control, "envoy", where / "certs")
        _, args = eg.arguments(gateway)
        self.admin_port, self.ready_port = gw.free_port(), gw.free_port()
        super().__init__(_Here(), [
            binary, "gateway", "--xds-addr", f"127.0.0.1:{XDS_PORT}", "--xds-server-name", XDS_NAME,
            "--xds-ca", str(certs / "ca.crt"), "--xds-cert", str(certs / "tls.crt"), "--xds-key", str(certs / "tls.key"),
            "--xds-node-cluster", args["--service-cluster"], "--xds-node-id", "pod-1", "--workers", "2",
            "--admin-addr", f"127.0.0.1:{self.admin_port}", "--stats-addr", f"127.0.0.1:{gw.free_port()}",
            "--ready-addr", f"127.0.0.1:{self.ready_port}", "--drain-time", "2s", "--log-level", "debug"],
            where / "gateway.log")

    def ready(self):
        assert self.alive, self.log()[-3000:]
        return re.search(r"gateway\s+ready", self.log())

    def refused(self):
        """Everything that was refused, with the reason."""
        return [line for line in self.log().splitlines() if re.search("' refused: |response for type|keeping the previous version", line)]

    def end(self):
        self.signal(15)
        assert self.wait(GUARD) == 0, self.log()[-3000:]


class Theirs(Envoy):
    """A real Envoy with the bootstrap that Envoy Gateway wrote; only paths and the server's address are this machine's."""

    name = "envoy"

    def __init__(self, envoy, where, eg, gateway):
        where.mkdir(parents=True, exist_ok=True)
        name, args = eg.arguments(gateway)
        certs = secret_files(eg.control, "envoy", where / "certs")
        sds = eg.control.get(f"/api/v1/namespaces/{SYSTEM}/configmaps/{name}").json["data"]
        (where / "sds").mkdir(exist_ok=True)
        for key, text in sds.items():
            (where / "sds" / key).write_text(text.replace('"/certs/', f'"{certs}/'), encoding="utf-8")
        text = args["--config-yaml"].replace("/sds/", f"{where}/sds/").replace(f"{XDS_NAME}.", "127.0.0.1")
        text = text.replace("zone: $(ENVOY_SERVICE_ZONE)", "zone: here")
        config = yaml.safe_load(text)
        config["admin"]["address"]["socket_address"]["port_value"] = admin = gw.free_port()
        # In a pod of its own it would not meet the controller's port for metrics.
        for listener in config["static_resources"].get("listeners", []):
            if "address" in listener:
                listener["address"]["socket_address"]["port_value"] = gw.free_port()
        super().__init__(envoy, where, json.dumps(config), admin, "--service-cluster", args["--service-cluster"],
                         "--service-node", "pod-2")

    def ready(self):
        self.wait_ready(30)
        return True

    def refused(self):
        return [f"{k}: {v}" for k, v in self.rejected().items()]

    def end(self):
        self.stop()


def control_for(binary, where, *flags):
    backend_address()
    return Control(binary, where, *flags)


def apply(control, *objects):
    control.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                    stdin="\n---\n".join(json.dumps(o) for o in objects))


def status(control, plural, name, namespace="default", group="gateway.networking.k8s.io", version="v1"):
    got = control.get(f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")
    return got.json.get("status", {}) if got.status == 200 else {}
