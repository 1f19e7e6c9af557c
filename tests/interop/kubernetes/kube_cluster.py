# SPDX-License-Identifier: Apache-2.0
"""
A real cluster on one machine: etcd, kube-apiserver, kube-controller-manager and kube-scheduler in the namespace of the
tests, two nodes (kube_node.py), a name server that knows the Services, and images that were made here.
"""
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

import yaml
from harness import netns
from harness.control import _Here
from harness.deploy import CHART, ROOT
from harness.node import Process
from harness.ports import free_port
from harness.resolver import NXDOMAIN, Resolver
from harness.wait import until
from kube_node import BRIDGE, HUB, SERVICE_CIDR, START, KubeNode, sweep

sys.path.insert(0, str(ROOT / "tests/interop/kube-apiserver"))
from real_api import NAMESPACE, RealApi, _certificate  # noqa: E402

SCHEMAS = [ROOT / "schemas" / group for group in ("gateway.networking.k8s.io", "networking.istio.io", "security.istio.io",
                                                  "spanwire.dev")]


class Api(RealApi):
    """As it is in a cluster: kubelets are asked for logs, pods have accounts, the Service 'kubernetes' leads here."""

    def _certificates(self):
        super()._certificates()
        _certificate(self.dir, "server", "/CN=kube-apiserver", "ca", f"IP:127.0.0.1,IP:{HUB},IP:10.96.0.1,"
                     "DNS:localhost,DNS:kubernetes.default.svc")

    def _command(self):
        argv = super()._command()
        for flag in ("--endpoint-reconciler-type", "--disable-admission-plugins", "--bind-address", "--advertise-address",
                     "--service-cluster-ip-range"):
            at = argv.index(flag)
            del argv[at:at + 2]
        return [*argv, "--bind-address", "0.0.0.0", "--advertise-address", HUB, "--service-cluster-ip-range", SERVICE_CIDR,
                "--allow-privileged", "--kubelet-client-certificate", f"{self.dir}/admin.crt", "--kubelet-client-key",
                f"{self.dir}/admin.key", "--kubelet-preferred-address-types", "InternalIP"]


class Names:
    """Addresses of Services, for the name server."""

    def __init__(self, api):
        self.api = api

    def get(self, name, default=NXDOMAIN):
        found = re.fullmatch(r"([^.]+)\.([^.]+)\.svc\.cluster\.local", name)
        answer = found and self.api.get(f"/api/v1/namespaces/{found[2]}/services/{found[1]}")
        if not answer or answer.status != 200:
            return default
        return [answer.json["spec"]["clusterIP"]]


class Wire:
    """TCP segments between nodes, as the first node's cable shows them: (address, port) of both ends."""

    def __init__(self):
        # All protocols: those of one are seen only after the bridge has taken its frames.
        self.seen, self.socket = set(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind(("n1", 0))
        self.socket.settimeout(0.5)
        self.over = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while not self.over:
            try:
                frame = self.socket.recv(65535)
            except TimeoutError:
                continue
            if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 6:
                continue
            at = 14 + (frame[14] & 15) * 4
            ports = struct.unpack(">HH", frame[at:at + 4])
            self.seen.add(tuple(zip((socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])), ports)))

    def between(self, ips):
        """Pairs of ports between these addresses."""
        return {(a[1], b[1]) for a, b in set(self.seen) if a[0] in ips and b[0] in ips}

    def close(self):
        self.over = True
        self.thread.join()
        self.socket.close()


class Cluster:
    size = 2

    def __init__(self, peer, where, build):
        self.peer, self.dir, self.build = pathlib.Path(peer), pathlib.Path(where), pathlib.Path(build)
        self.nodes, self.processes, self.images, self.names = [], [], [], None
        sweep()
        netns.run("ip", *netns.new_bridge(BRIDGE).split())
        netns.run("ip", "addr", "add", f"{HUB}/24", "dev", BRIDGE)
        netns.run("ip", "link", "set", BRIDGE, "up")
        netns.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.api = Api(self.peer.parent / "kube-apiserver", self.dir / "api")
        self.node_config = self.dir / "node.kubeconfig"
        config = yaml.safe_load(self.api.kubeconfig.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://{HUB}:{self.api.port}"
        self.node_config.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.names = Resolver(_Sockets(), HUB)
        self.names.known = Names(self.api)
        self._manage()
        self._make_images()
        self.nodes = [KubeNode(self, i + 1) for i in range(self.size)]
        until(lambda: self.ready() == {n.name for n in self.nodes}, START, "the nodes to be ready")

    def _manage(self):
        config = ["--kubeconfig", str(self.api.kubeconfig), "--authentication-kubeconfig", str(self.api.kubeconfig),
                  "--authorization-kubeconfig", str(self.api.kubeconfig), "--leader-elect=false", "--bind-address", "127.0.0.1"]
        for name, more in (("kube-controller-manager", [
                "--service-account-private-key-file", f"{self.api.dir}/accounts.key", "--root-ca-file",
                f"{self.api.dir}/ca.crt", "--use-service-account-credentials=false", "--node-monitor-grace-period=20s",
                "--node-monitor-period=2s"]), ("kube-scheduler", [])):
            self.processes.append(Process(_Here(), [str(self.peer / name), *config, "--secure-port", str(free_port()), *more],
                                          str(self.dir / f"{name}.log")))

    def _make_images(self):
        """Ours as tools/image makes it, the pods' program and the first process of a pod."""
        def image(name, *argv):
            path = self.dir / f"{name}.tar"
            subprocess.run([sys.executable, ROOT / "tools/image", *argv, "--name", f"docker.io/library/{name}:1", path],
                           check=True, capture_output=True)
            self.images.append(path)
        image("spanwire", "--build", self.build)
        for name in ("pause", "app"):
            image(name, "--only", f"{self.peer / name}=/{name}")

    # -- what there is ------------------------------------------------------------------------
    def kubectl(self, *argv, **kw):
        return self.api.kubectl(*argv, **kw)

    def ready(self):
        items = self.api.get("/api/v1/nodes").json["items"]
        return {i["metadata"]["name"] for i in items for c in i["status"].get("conditions", ())
                if c["type"] == "Ready" and c["status"] == "True"}

    def pods(self, namespace, selector="", going=False):
        """Pods, also those that are being deleted if so wished."""
        path = f"/api/v1/namespaces/{namespace}/pods" + (f"?labelSelector={selector}" if selector else "")
        return [p for p in self.api.get(path).json["items"] if going or "deletionTimestamp" not in p["metadata"]]

    def rolled(self, *what, namespace):
        for one in what:
            self.kubectl("-n", namespace, "rollout", "status", one, f"--timeout={START}s", timeout=START + 30)

    def helm(self, *argv, check=True):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.dir), "KUBECONFIG": str(self.api.kubeconfig)}
        done = subprocess.run([str(self.peer / "helm"), *argv, "--namespace", NAMESPACE], capture_output=True, text=True,
                              check=False, env=env, timeout=2 * START)
        assert done.returncode == 0 or not check, f"helm {argv}\n{done.stdout}{done.stderr}\n{self.story()}"
        return done

    def install(self, *flags):
        """The kinds, the namespace, and the chart with the image that was made here."""
        for top in SCHEMAS:
            self.api.apply_file(top)
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {
            "pod-security.kubernetes.io/enforce": "privileged"}}})
        self.helm("upgrade", "--install", "spanwire", str(CHART), *self.values(), *flags)

    def values(self):
        return ["--set", "image.repository=docker.io/library/spanwire,image.tag=1,image.pullPolicy=Never",
                "--set", "gateway.service.type=ClusterIP,gateway.addresses=10.90.0.100=0.0.0.0",
                "--set", "cni.binDir=/run/cni/bin,cni.confDir=/run/cni/net.d"]

    def installed(self):
        self.rolled("deployment/spanwire-control", "deployment/spanwire-gateway", "daemonset/spanwire-node",
                    "daemonset/spanwire-cni", namespace=NAMESPACE)

    def logs(self, pod, namespace=NAMESPACE, *flags):
        return self.kubectl("-n", namespace, "logs", pod, *flags, check=False).stdout

    def node_proxy(self, node):
        """The name of the node proxy's pod on a node."""
        names = [p["metadata"]["name"] for p in self.pods(NAMESPACE, "app.kubernetes.io/name=spanwire-node")
                 if p["spec"].get("nodeName") == node]
        return names[-1]

    def story(self):
        """For failures: pods, events and the ends of our logs."""
        out = [self.kubectl("get", "pods", "-A", "-o", "wide", check=False).stdout,
               self.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", check=False).stdout[-6000:]]
        for pod in self.pods(NAMESPACE):
            name = pod["metadata"]["name"]
            out.append(f"--- {name}\n{self.logs(name, NAMESPACE, '--tail=25')}")
        return "\n".join(out)

    def close(self):
        for node in self.nodes:
            node.cut()
        for process in self.processes:
            process.kill()
        if self.names:
            self.names.stop()
        self.api.close()


class _Sockets:
    """Sockets of the namespace the tests run in."""

    @staticmethod
    def socket(family, kind):
        return socket.socket(family, kind)


def access(text):
    """Lines of a node proxy's access log as dictionaries."""
    out = []
    for line in text.splitlines():
        if "\taccess\t" in line:
            out.append({k: v.strip('"') for k, v in re.findall(r'(\S+?)=("(?:[^"\\]|\\.)*"|\S+)', line)})
    return out
