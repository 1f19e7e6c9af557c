# SPDX-License-Identifier: Apache-2.0
"""
A node of a real cluster as a process tree: containerd, kubelet and kube-proxy in mount, UTS, IPC, network, pid and cgroup
namespaces of their own. What is on its disk stays over a reboot; the rest ends with its first process.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import yaml
from harness import netns
from harness.control import _Here
from harness.node import Process
from harness.wait import until

CGROUPS = pathlib.Path("/sys/fs/cgroup")
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
# What a kubelet insists on and a namespace may not set: {file below /proc/sys: value}.
SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
BRIDGE = "nodes"
HUB = "10.90.0.1"
POD_CIDR, SERVICE_CIDR = "10.244.0.0/16", "10.96.0.0/16"
# On the node. /run is a tmpfs, as everywhere; these two are on its disk.
CNI_BIN, CNI_CONF = "/run/cni/bin", "/run/cni/net.d"
START = 180  # seconds, of a machine that is busy with more than this

SETUP = """
set -e
hostname {name}
umount -l /sys
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
for c in {controllers}; do mkdir /sys/fs/cgroup/$c; mount -t cgroup -o $c cgroup /sys/fs/cgroup/$c; done
mkdir /sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
mount -t tmpfs tmpfs /run
mkdir -p /run/cni /run/netns
mount --bind {disk}/cni /run/cni
mkdir -p {disk}/state /var/lib/spanwire
mount --bind {disk}/state /var/lib/spanwire
for s in {sysctls}; do mount --bind {disk}/sysctl/$(basename $s) /proc/sys/$s; done
mount --make-rshared /
ip link set lo up
ip link set eth0 up
ip addr add {ip}/24 dev eth0
ip route add default via {hub}
sysctl -qw net.ipv4.ip_forward=1
"""


def available():
    """Why nodes cannot be made here; empty: they can."""
    missing = [c for c in CONTROLLERS if not (CGROUPS / c / "cgroup.procs").exists()]
    if missing:
        return f"no cgroup v1 controllers {', '.join(missing)} below {CGROUPS}"
    return "" if os.geteuid() == 0 else "not root"


def sweep():
    """Removes the cgroups of runs that were killed."""
    for group in CGROUPS.glob("*/spanwire-n*-*"):
        if not os.path.exists(f"/proc/{group.name.rpartition('-')[2]}"):
            _removed(group)


class KubeNode:
    def __init__(self, cluster, index):
        self.cluster, self.index, self.name = cluster, index, f"n{index}"
        self.ip, self.subnet = f"10.90.0.{10 + index}", f"10.244.{index}.0/24"
        self.disk = cluster.dir / self.name
        self.init = self.pid = None
        self.processes = []
        self.boots = 0
        self._write_disk()
        self.boot()

    # -- its disk -----------------------------------------------------------------------------
    def _write(self, name, value):
        path = self.disk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else yaml.safe_dump(value), encoding="utf-8")
        return path

    def _write_disk(self):
        peer = self.cluster.peer / "debian"
        for name, value in SYSCTLS.items():
            self._write(f"sysctl/{os.path.basename(name)}", value + "\n")
        (self.disk / "cni/bin").mkdir(parents=True)
        for plugin in ("ptp", "host-local", "portmap", "loopback"):
            os.symlink(peer / "usr/lib/cni" / plugin, self.disk / "cni/bin" / plugin)
        self._write("cni/net.d/10-net.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "net", "plugins": [
                {"type": "ptp", "ipMasq": False, "ipam": {
                    "type": "host-local", "dataDir": "/run/cni-state", "ranges": [[{"subnet": self.subnet}]],
                    "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        self._write("containerd.toml", f"""
version = 2
root = "{self.disk}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_BIN}"
conf_dir = "{CNI_CONF}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{peer}/usr/bin/runc"
""")
        self._write("kubelet.yaml", {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False},
                               "x509": {"clientCAFile": str(self.cluster.api.dir / "ca.crt")}},
            "authorization": {"mode": "AlwaysAllow"}, "cgroupDriver": "cgroupfs", "failCgroupV1": False, "failSwapOn": False,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "clusterDNS": [HUB],
            "clusterDomain": "cluster.local", "featureGates": {"KubeletInUserNamespace": True},
            "evictionHard": {k: "0%" for k in ("memory.available", "nodefs.available", "nodefs.inodesFree",
                                               "imagefs.available", "imagefs.inodesFree")},
            "imageGCHighThresholdPercent": 100, "makeIPTablesUtilChains": False, "enforceNodeAllocatable": ["none"],
            "maxPods": 250, "podLogsDir": str(self.disk / "logs"), "volumePluginDir": str(self.disk / "plugins"),
            "serializeImagePulls": False, "resolvConf": "", "localStorageCapacityIsolation": False})
        self._write("kube-proxy.yaml", {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
            "clientConnection": {"kubeconfig": str(self.cluster.node_config)}, "clusterCIDR": POD_CIDR,
            "hostnameOverride": self.name, "conntrack": {"maxPerCore": 0, "min": 0}})

    # -- running ------------------------------------------------------------------------------
    def _groups(self):
        return [CGROUPS / c / f"spanwire-{self.name}-{os.getpid()}" for c in (*CONTROLLERS, "systemd")]

    def _inside(self, *argv):
        """The command in the node's cgroups, then its namespaces."""
        join = "; ".join(f"echo $$ > {g}/cgroup.procs" for g in self._groups())
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", "--"] if self.pid else []
        return ["sh", "-c", join + '; exec "$@"', "sh", *enter, *map(str, argv)]

    def run(self, *argv, check=True):
        done = subprocess.run(self._inside(*argv), capture_output=True, text=True, check=False, env=self.env())
        assert done.returncode == 0 or not check, f"{self.name}: {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def env(self):
        debian = self.cluster.peer / "debian"
        libraries = f"{debian}/usr/lib/x86_64-linux-gnu"
        return {"PATH": f"{debian}/usr/sbin:{debian}/usr/bin:{debian}/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                "LD_LIBRARY_PATH": libraries, "XTABLES_LIBDIR": f"{libraries}/xtables"}

    def _start(self, name, *argv):
        process = Process(_Here(), self._inside(*argv), str(self.disk / f"{name}.log"), env=self.env())
        self.processes.append(process)
        return process

    def boot(self):
        self.boots += 1
        for group in self._groups():
            group.mkdir(exist_ok=True)
            if "cpuset" in str(group):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (group / name).write_text((group.parent / name).read_text(encoding="ascii"), encoding="ascii")
        self.init = self._start("init", "unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork",
                                "--kill-child=KILL", "--mount-proc", self.cluster.peer / "pause")
        children = f"/proc/{self.init.pid}/task/{self.init.pid}/children"

        def child():
            with open(children, encoding="ascii") as f:
                pids = f.read().split()
            # It has a /proc of its own once its namespaces are complete.
            return pids and os.readlink(f"/proc/{pids[0]}/exe").endswith("pause") and int(pids[0])
        self.pid = until(child, START, f"the first process of {self.name}")
        netns.run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        netns.run("ip", "link", "set", self.name, "master", BRIDGE, "up")
        self.run("sh", "-c", SETUP.format(name=self.name, disk=self.disk, ip=self.ip, hub=HUB,
                                          controllers=" ".join(CONTROLLERS), sysctls=" ".join(SYSCTLS)))
        for other in range(1, self.cluster.size + 1):
            if other != self.index:
                self.run("ip", "route", "add", f"10.244.{other}.0/24", "via", f"10.90.0.{10 + other}")
        netns.run("ip", "route", "replace", self.subnet, "via", self.ip)
        self._start("containerd", "containerd", "--config", self.disk / "containerd.toml")
        until(lambda: "pong" in self.ctr("version", check=False) or "Server" in self.ctr("version", check=False), START,
              f"containerd of {self.name}")
        for archive in self.cluster.images:
            self.ctr("images", "import", archive)
        self._start("kubelet", self.cluster.peer / "kubelet", "--config", self.disk / "kubelet.yaml", "--kubeconfig",
                    self.cluster.node_config, "--root-dir", self.disk / "kubelet", "--cert-dir", self.disk / "pki",
                    "--hostname-override", self.name, "--node-ip", self.ip, "--v", "2")
        self._start("kube-proxy", self.cluster.peer / "kube-proxy", "--config", self.disk / "kube-proxy.yaml")

    def ctr(self, *argv, check=True):
        return self.run("ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", *argv, check=check)

    def cut(self):
        """Power off: everything of the node ends at once. Its disk stays."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait(START)
        self.processes, self.pid = [], None
        netns.run("ip", "link", "del", self.name, check=False)
        for group in self._groups():
            until(lambda g=group: _removed(g), START, f"the cgroups of {self.name}")

    def log(self, name):
        return (self.disk / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def tables(self):
        """The nftables tables of the host."""
        return self.run("nft", "list", "tables")


def _removed(group):
    """A cgroup goes when its last process is collected."""
    for top, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(top)
        except OSError:
            return False
    return True
