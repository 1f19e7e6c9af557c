# SPDX-License-Identifier: Apache-2.0
"""Istio's own programs beside the embedded API: istiod, ztunnel, and the node agent with its plugin."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess

from harness import traffic
from harness.cni import Rig
from harness.control import _Here
from harness.forward import Forward
from harness.node import Node, Process
from harness.ports import free_port
from harness.wait import GUARD, guard, until

CONTROL = "172.172.0.254"
NAME = "istiod.istio-system.svc"
VARIABLES = {"istiod": "ISTIOD_BIN", "ztunnel": "ZTUNNEL_BIN", "install-cni": "ISTIO_CNI_BIN"}


def missing(*names):
    """The variables that are not set, of these programs."""
    return [VARIABLES[n] for n in names if not os.environ.get(VARIABLES[n])]


def program(name):
    return os.environ[VARIABLES[name]]


class Istiod(Process):
    """The control plane: xDS and the certificate authority on one port of the fabric."""

    def __init__(self, api, directory, ca_dir, port, config=""):
        self.api, self.dir, self.port, self.ca_dir = api, pathlib.Path(directory), port, ca_dir
        self.web, self.plain = free_port(), free_port()
        self.dir.mkdir(exist_ok=True)
        (self.dir / "mesh.yaml").write_text("trustDomain: cluster.local\nrootNamespace: istio-system\n" + config, encoding="ascii")
        self.start()

    def start(self):
        argv = [program("istiod"), "discovery", "--kubeconfig", str(self.api.kubeconfig), "--meshConfig",
                str(self.dir / "mesh.yaml"), "--httpAddr", f"127.0.0.1:{self.web}", "--grpcAddr",
                f"127.0.0.1:{self.plain}", "--secureGRPCAddr", f"{CONTROL}:{self.port}", "--httpsAddr",
                f"127.0.0.1:{free_port()}", "--monitoringAddr", f"127.0.0.1:{free_port()}", "--ctrlz_port",
                str(free_port()), "--shutdownDuration", "1s"]
        super().__init__(_Here(), argv, str(self.dir / "istiod.log"), env={
            "PILOT_ENABLE_AMBIENT": "true", "POD_NAMESPACE": "istio-system", "POD_NAME": "istiod-0", "REVISION": "default",
            "CLUSTER_ID": "Kubernetes", "CA_TRUSTED_NODE_ACCOUNTS": "istio-system/ztunnel", "HOME": str(self.dir),
            "ROOT_CA_DIR": str(self.ca_dir), "ISTIO_MULTIROOT_MESH": "true", "ISTIOD_CUSTOM_HOST": NAME})
        until(self.ready, GUARD * 2, "istiod to be ready")

    def ready(self):
        assert self.alive, f"istiod ended:\n{self.log()[-4000:]}"
        try:
            return self.debug("/ready")[0] == 200
        except OSError:
            return False

    def debug(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.web, timeout=guard(GUARD))
        with contextlib.closing(c):
            c.request("GET", path)
            answer = c.getresponse()
            return answer.status, answer.read()

    def restart(self):
        self.kill()
        self.start()

    def close(self):
        self.signal(signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            self.wait()
        self.kill()


class Ztunnel(Node):
    """The node proxy, in a node's namespace, with the admin ports and the words in its log that ours has too."""

    def __init__(self, ns, name, log_path, env):
        self.ns, self.name = ns, name
        self.admin_addr, self.stats_addr, self.ready_addr = (("127.0.0.1", p) for p in (15000, 15020, 15021))
        self.expect_status, self.killed = 0, False
        self.env = {"PROXY_MODE": "shared", "CLUSTER_ID": "Kubernetes", "ISTIO_META_DNS_CAPTURE": "true",
                    "CONNECTION_TERMINATION_DEADLINE": "1s", "ZTUNNEL_WORKER_THREADS": "2", "RUST_LOG": "info", **env}
        Process.__init__(self, ns, [program("ztunnel"), "proxy", "ztunnel"], log_path, self.env)

    def wait_ready(self, timeout=GUARD):
        def ready():
            assert self.alive, f"ztunnel ended:\n{self.log()[-3000:]}"
            try:
                return self.ready()[0] == 200
            except OSError:
                return False
        until(ready, timeout, f"ztunnel on {self.name}")
        return self

    def config_dump(self):
        status, body = self.admin("/config_dump")
        assert status == 200, body
        return json.loads(body)


# What a container of the node agent has of its host: a /proc with a kubelet, with the pods' processes and with a first
# process in the host's network namespace; the namespaces of pods; the runtime's directories.
CONTAINER = """
set -eu
root=$1 work=$2 bin=$3
mount -t tmpfs tmpfs "$root"
for d in usr bin sbin lib lib64 etc dev proc; do
    if [ -L "/$d" ]; then cp -P "/$d" "$root/$d"; elif [ -e "/$d" ]; then
        mkdir "$root/$d"; mount --rbind "/$d" "$root/$d"; fi
done
mkdir -p "$root/host/proc" "$root/host/run/netns" "$root/host/opt/cni/bin" "$root/host/etc/cni/net.d" "$root/run/netns"
mkdir -p "$root/opt/cni/bin" "$root/tmp" "$root$work" "$root/var/run/secrets/kubernetes.io/serviceaccount"
mount --rbind "$work" "$root$work"
mount --bind "$work/proc" "$root/host/proc"
mount --rbind /run/netns "$root/run/netns"
mount --rbind /run/netns "$root/host/run/netns"
mount --bind "$work/bin" "$root/host/opt/cni/bin"
mount --bind "$work/net.d" "$root/host/etc/cni/net.d"
mount --bind "$work/source" "$root/opt/cni/bin"
mount --bind "$work/account" "$root/var/run/secrets/kubernetes.io/serviceaccount"
mkdir "$root/istio" && mount --bind "$bin" "$root/istio"
exec chroot "$root" /istio/install-cni --log_output_level=default:info
"""

SELECTORS = """
- podSelector: {matchLabels: {istio.io/dataplane-mode: ambient}}
- podSelector: {matchExpressions: [{key: istio.io/dataplane-mode, operator: NotIn, values: [none]}]}
  namespaceSelector: {matchLabels: {istio.io/dataplane-mode: ambient}}
"""


class IstioRig(Rig):
    """A node whose agent and plugin are Istio's."""

    def start(self, *flags, wait=True):
        assert not flags
        if not self.agents:
            self.forward = self.mesh.keep(Forward(self.node, self.api.port))
            self._container()
        log = self.dir / f"agent{len(self.agents)}.log"
        env = {"AMBIENT_ENABLED": "true", "AMBIENT_ENABLEMENT_SELECTOR": SELECTORS, "AMBIENT_DNS_CAPTURE": "true",
               "AMBIENT_IPV6": "true", "NATIVE_NFTABLES": "true", "REPAIR_ENABLED": "false", "NODE_NAME": self.node.name,
               "KUBERNETES_NODE_NAME": self.node.name, "POD_NAME": f"istio-cni-node-{self.node.name}",
               "POD_NAMESPACE": "istio-system", "EXCLUDE_NAMESPACES": "kube-system", "CHAINED_CNI_PLUGIN": "true",
               "CNI_AGENT_RUN_DIR": str(self.dir / "run"), "ZTUNNEL_UDS_ADDRESS": str(self.zds),
               "KUBECONFIG": str(self.dir / "admin.kubeconfig"), "ALLOW_SWITCH_TO_HOST_NS": "true",
               "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.api.port),
               "AMBIENT_RECONCILE_POD_RULES_ON_STARTUP": "true", "HOME": "/tmp"}
        bin_dir = str(pathlib.Path(program("install-cni")).resolve().parent)
        argv = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", CONTAINER, "container", str(self.dir / "root"),
                str(self.dir), bin_dir]
        agent = Process(self.node, argv, str(log), env)
        self.agents.append(agent)
        if wait:
            until(lambda: self._up(agent), what=f"Istio's agent on {self.node.name}")
        return agent

    def _container(self):
        """What is mounted from the host, and the account of the agent's pod."""
        for d in ("root", "run", "source", "proc/1/ns", "proc/2"):
            (self.dir / d).mkdir(parents=True, exist_ok=True)
        plugin = pathlib.Path(program("install-cni")).resolve().parent / "istio-cni"
        shutil.copy(plugin, self.dir / "source")
        os.symlink(self.node.path, self.proc / "1/ns/net")
        for name, text in (("comm", "kubelet\n"), ("cmdline", "/usr/bin/kubelet\0"), ("status", "Name:\tkubelet\nUid:\t0\t0\t0\t0\n")):
            (self.proc / "2" / name).write_text(text, encoding="ascii")
        account = self.dir / "account"
        account.mkdir()
        shutil.copy(self.api.kubeconfig, self.dir / "admin.kubeconfig")
        (account / "ca.crt").write_bytes(self.api._secret("certificate-authority-data"))
        (account / "namespace").write_text("istio-system", encoding="ascii")
        (account / "token").write_text(self.token("istio-cni"), encoding="ascii")

    def token(self, name):
        """Of a service account that may do what the chart's may."""
        path = "/api/v1/namespaces/istio-system"
        self.api.post(f"{path}/serviceaccounts", {"metadata": {"name": name}})
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rules = [{"apiGroups": [""], "resources": ["pods", "nodes", "namespaces"], "verbs": ["get", "list", "watch"]}]
        self.api.post(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        self.api.post(f"{rbac}/clusterrolebindings", {
            "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "istio-system"}]})
        a = self.api.post(f"{path}/serviceaccounts/{name}/token", {"spec": {}})
        assert a.status == 201, a
        return a.json["status"]["token"]

    def _up(self, agent):
        assert agent.alive, f"the agent ended:\n{agent.log()[-4000:]}"
        try:
            return traffic.http(self.node, ("127.0.0.1", 8000), "/readyz")[0] == 200
        except OSError:
            return False

    def pod(self, name, *args, **kw):
        """Its process is how an agent that restarts finds its namespace again."""
        box = super().pod(name, *args, **kw)
        box.process = self.show_process(box)
        return box

    def call(self, command, box=None, version="1.0.0", wait=True, timeout=None, **more):
        """Runs the plugin that the agent has installed, as a runtime does."""
        entry = next(p for p in self.plugins() if p["type"] == "istio-cni")
        env = {"CNI_COMMAND": command, "CNI_PATH": str(self.bin), "PATH": os.environ["PATH"], "CNI_CONTAINERID": box.container,
               "CNI_NETNS": box.path, "CNI_IFNAME": "eth0",
               "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={box.ns};K8S_POD_NAME={box.name};K8S_POD_UID={box.uid}"}
        ips = [{"address": f"{box.ip4}/24", "interface": 0}, {"address": f"{box.ip6}/64", "interface": 0}]
        conf = {**entry, "cniVersion": version, "name": "net", **more, "prevResult": {
            "cniVersion": version, "interfaces": [{"name": "eth0", "sandbox": box.path}], "ips": ips}}
        if command == "DEL":
            shutil.rmtree(box.process)
        done = subprocess.run([str(self.bin / "istio-cni")], input=json.dumps(conf), capture_output=True, text=True, env=env,
                              timeout=timeout or guard(GUARD), check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr

    def close(self):
        for a in self.agents:
            a.signal(signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                a.wait()
            a.kill()
        self.agents.clear()
        super().close()
