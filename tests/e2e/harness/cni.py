# SPDX-License-Identifier: Apache-2.0
"""A node agent beside an embedded API, pods as a runtime makes them, and the plugin as a runtime calls it."""
import json
import os
import pathlib
import re
import socket
import subprocess
import uuid

from . import netns
from .control import Control
from .node import _SANITIZER, Process
from .wait import GUARD, guard, until

ANNOTATION = "ambient.istio.io/redirection"
MODE = "istio.io/dataplane-mode"
BRIDGE = {"type": "bridge", "bridge": "cni0"}


class Sandbox(netns.Pod):
    """A pod as a runtime has just made it: a namespace with an address, nothing else."""

    def __init__(self, rig, node, name, host):
        super().__init__(node, name, host, None)
        netns._quiet(self)
        node.ip(f"link add {name} type veth peer name eth0 netns {name}", f"link set {name} master pods up")
        self.ip("link set eth0 up", f"addr add {self.ip4}/24 dev eth0", f"addr add {self.ip6}/64 dev eth0 nodad",
                f"route add default via 10.0.{node.index}.1", f"-6 route add default via fd00:10:{node.index}::1")
        self.rig = rig
        self.container = f"c-{name}"
        self.uid = None
        netns.plugged(self)
        # An earlier sandbox may have had the address. Its entry alone: sandboxes are made at the same time, and a flush
        # fails when another one has taken an entry away.
        node.ip(f"neigh flush to {self.ip4} dev pods", f"-6 neigh flush to {self.ip6} dev pods")

    def rules(self):
        return "istio-ambient-nat" in self.run("nft", "list", "tables")

    def untouched(self):
        """Nothing of a redirection is left: no table, no routing rule, no route."""
        tables = self.run("nft", "list", "tables")
        rules = self.run("ip", "rule") + self.run("ip", "-6", "rule")
        routes = self.run("ip", "route", "show", "table", "100", check=False)
        return "istio" not in tables and "0x111" not in rules and "local default" not in routes


class Rig:
    """The agent of one node; several may share an API."""

    def __init__(self, mesh, binary, directory, node="node1", api=None):
        self.mesh, self.binary = mesh, binary
        self.dir = pathlib.Path(directory) / f"cni-{node}"
        self.dir.mkdir()
        self.bin, self.conf, self.proc = (self.dir / d for d in ("bin", "net.d", "proc"))
        for d in (self.bin, self.conf, self.proc):
            d.mkdir()
        self.zds, self.plugin_sock = self.dir / "run/zds.sock", self.dir / "run/plugin.sock"
        self.own_api = not api
        self.api = api or Control(binary, self.dir / "control", "--gateway=false", "--connector=false")
        self.node = mesh.topo.nodes[node]
        self.sandboxes = []
        self.agents = []
        self.write_conf("10-net.conflist", {"cniVersion": "1.0.0", "name": "net", "plugins": [BRIDGE]})
        self.namespace("shop", {MODE: "ambient"})

    # -- the agent ----------------------------------------------------------------------------
    def start(self, *flags, wait=True, prefix=()):
        log = self.dir / f"agent{len(self.agents)}.log"
        argv = [*prefix, self.binary, "cni", "agent", "--kubeconfig", str(self.api.kubeconfig), "--node-name", self.node.name,
                "--zds-socket", str(self.zds), "--plugin-socket", str(self.plugin_sock),
                "--run-dir", str(self.dir / "run"), "--cni-bin-dir", str(self.bin), "--cni-conf-dir", str(self.conf),
                "--host-proc", str(self.proc), "--host-netns", self.node.path, "--admin-addr", "127.0.0.1:0", *flags]
        agent = Process(self.mesh.topo.fabric, argv, str(log))
        self.agents.append(agent)
        if wait:
            until(lambda: "pods on node" in agent.log() or not agent.alive, what="the agent to know its pods")
            assert agent.alive, agent.log()
        return agent

    def proxy(self, *flags, **kw):
        """The node proxy of this agent."""
        return self.mesh.shared(self.node.name, "--agent-socket", str(self.zds), *flags, pods=[], **kw)

    # -- the API ------------------------------------------------------------------------------
    def namespace(self, name, labels=None):
        a = self.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        assert a.status in (201, 409), a

    def label(self, path, labels):
        a = self.api.patch(path, {"metadata": {"labels": labels}})
        assert a.status == 200, a

    def pod(self, name, host, namespace="shop", ready=False, labels=None, **spec):
        """A pod's sandbox and its object; 'ready' gives it an address in its status, as a kubelet does later."""
        box = self.sandbox(name, host, namespace)
        self.create(self.manifest(box, labels, **spec))
        box.uid = self.api.get(box.path_api).json["metadata"]["uid"]
        self.known(box)
        if ready:
            self.running(box)
        return box

    def sandbox(self, name, host, namespace="shop"):
        box = Sandbox(self, self.node, name, host)
        self.sandboxes.append(box)
        box.ns = namespace
        box.path_api = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return box

    def manifest(self, box, labels=None, **spec):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": box.name, "namespace": box.ns, "labels": labels or {}},
                "spec": {"nodeName": self.node.name, "serviceAccountName": box.name,
                         "containers": [{"name": "app", "image": "app"}], **spec}}

    def create(self, pod):
        a = self.api.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
        assert a.status == 201, a

    def known(self, box):
        """Puts the pod into the configuration of nodes that have no control plane."""
        self.mesh.world.workload(box.name, [box.ip4, box.ip6], namespace=box.ns, node=self.node.name)
        self.mesh.apply()

    def running(self, box):
        a = self.api.patch(box.path_api + "/status", {"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "podIP": box.ip4, "podIPs": [{"ip": box.ip4}, {"ip": box.ip6}]}})
        assert a.status == 200, a

    def removed(self, box):
        """The runtime removes the sandbox; its name and address are free again."""
        box.delete()
        self.sandboxes.remove(box)

    def annotation(self, box):
        return self.api.get(box.path_api).json["metadata"].get("annotations", {}).get(ANNOTATION)

    def events(self, box):
        return self.events_of(box.ns, box.name)

    def events_of(self, ns, name):
        """(reason, message) of the events of a pod that need not be there."""
        items = self.api.get(f"/api/v1/namespaces/{ns}/events").json["items"]
        return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"] == name]

    def show_process(self, box, pid=None):
        """A process of the pod in the agent's /proc."""
        d = self.proc / str(pid or 1000 + len(list(self.proc.iterdir())))
        (d / "ns").mkdir(parents=True)
        (d / "cgroup").write_text(f"0::/kubepods/burstable/pod{box.uid}/{uuid.uuid4().hex}\n")
        (d / "stat").write_text(f"{d.name} (app) S 1 " + " ".join(["0"] * 17) + f" {d.name} 0\n")
        os.symlink(box.path, d / "ns/net")
        return d

    # -- the runtime --------------------------------------------------------------------------
    def write_conf(self, name, conf):
        tmp = self.conf / (name + ".new")
        tmp.write_text(json.dumps(conf))
        os.replace(tmp, self.conf / name)

    def plugins(self, name="10-net.conflist"):
        with open(self.conf / name, encoding="utf-8") as f:
            return json.load(f)["plugins"]

    def installed(self):
        until(lambda: [p["type"] for p in self.plugins()][-1] == "spanwire-cni", what="the plugin in the chain")
        return self

    def call(self, command, box=None, version="1.0.0", wait=True, timeout=None, **more):
        """Runs the installed plugin for a pod."""
        entry = dict(self.plugins()[-1]) if (self.conf / "10-net.conflist").exists() else {}
        if entry.get("type") != "spanwire-cni":
            entry = {"type": "spanwire-cni", "agentSocket": str(self.plugin_sock)}
        if timeout:
            entry["timeout"] = timeout
        env = {"CNI_COMMAND": command, "CNI_PATH": str(self.bin), "PATH": os.environ["PATH"]}
        conf = {**entry, "cniVersion": version, "name": "net", **more}
        if box:
            env |= {"CNI_CONTAINERID": box.container, "CNI_NETNS": box.path, "CNI_IFNAME": "eth0",
                    "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={box.ns};K8S_POD_NAME={box.name};"
                                f"K8S_POD_UID={box.uid}"}
            conf.setdefault("prevResult", {"cniVersion": version, "interfaces": [{"name": "eth0", "sandbox": box.path}],
                                           "ips": [{"address": f"{box.ip4}/24", "interface": 0}]})
        exe = self.dir / "spanwire-cni"
        if not exe.exists():
            os.symlink(self.binary, exe)
        p = subprocess.Popen([str(exe)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=env)
        p.stdin.write(json.dumps(conf))
        p.stdin.close()
        p.stdin = None
        return self.result(p) if wait else p

    @staticmethod
    def result(p):
        """(exit status, the JSON it printed or None)"""
        out, err = p.communicate(timeout=guard(GUARD * 4))
        assert not _SANITIZER.search(err), err
        return p.returncode, json.loads(out) if out.strip() else None

    def post(self, path, body):
        """A request to the agent as the plugin makes it; the socket, unread."""
        text = json.dumps(body).encode()
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.plugin_sock))
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        return s

    def answers(self):
        """Whether the agent takes requests."""
        try:
            self.post("/status", {}).close()
        except OSError:
            return False
        return True

    def add(self, box, **kw):
        status, out = self.call("ADD", box, **kw)
        assert status == 0, (out, self.agents[-1].log()[-3000:] if self.agents else "")
        return out

    def enabled(self, box):
        until(lambda: self.annotation(box) == "enabled", what=f"the annotation of {box.name}")

    # -- the end ------------------------------------------------------------------------------
    def close(self):
        for a in self.agents:
            if a.alive:
                a.signal(15)
                assert a.wait() == 0, a.log()[-3000:]
            found = _SANITIZER.search(a.log())
            assert not found, a.log()[found.start() - 200:][:5000]
        if self.own_api:
            self.api.close()
        for box in self.sandboxes:
            box.delete()
        self.node.run("nft", "delete", "table", "inet", "spanwire-probes", check=False)

    def host_rules(self):
        return "spanwire-probes" in self.node.run("nft", "list", "tables")

    def log(self):
        return self.agents[-1].log()


def pending_calls(text):
    return re.findall(r"waits: (.*)", text)
