# SPDX-License-Identifier: Apache-2.0
"""The part of suite `mesh` between pods, beside ztunnel: the same redirection, authority, file and cipher for both.

Each candidate has two pods, network namespaces on one bridge, with the rules of `spanwire cni redirect` in them; a
process of it in each, dedicated, with one worker; the client in the first pod, the server in the second. Certificates
come from `spanwire control`. ztunnel prefers AES-256-GCM and has no switch for it: ours is held to the same, and runs a
second time as it is (`spanwire-aes128`).
"""
import contextlib
import json
import os
import re
import subprocess
import time

from . import api
from . import measure as m
from . import procs
from .candidates import ECHO, SINK, TRUST_DOMAIN, Candidate, tail, workload, write_yaml
from .procs import LoadError
from .propagate import Client
from .sandbox import MARK, run_quiet

BRIDGE, GATE, MESH_PORT = "meshbr0", "10.78.0.254", 15012
IDLE_TUNNELS = 1000
ONLY_256 = "[overrides]\ntls-disabled-cipher = AES-128-GCM\n"


def must(argv, what):
    done = run_quiet(argv)
    if done.returncode:
        raise LoadError(f"{what}: {(done.stderr or done.stdout).strip()[:300]}")


@contextlib.contextmanager
def bridge(name, gate):
    """A bridge that the pods of a part are on, with the address that they have as their gateway."""
    for argv in (["ip", "link", "add", name, "address", "02:00:00:00:00:01", "type", "bridge"], ["ip", "addr", "add", f"{gate}/16", "dev", name],
                 ["ip", "link", "set", name, "up"]):
        must(argv, "no bridge")
    try:
        yield
    finally:
        run_quiet(["ip", "link", "del", name])


class Authority(api.Control):
    """`spanwire control` as the certificate authority, reached over the bridge."""

    name = "mesh-authority"

    def __init__(self, ctx):
        super().__init__(ctx, 0)
        self.client = None

    def command(self):
        return [self.ctx.binary, "control", "--data", self.dir + "/data", "--listen", f"127.0.0.1:{self.port}",
                "--gateway=false", "--connector=false", "--mesh-listen", f"{GATE}:{MESH_PORT}", "--mesh-name", GATE]

    def file(self, name):
        return os.path.join(self.dir, name)

    def start(self):
        super().start()
        self.client = Client(self)
        self.root = os.path.join(self.dir, "data", "mesh-ca", "root.crt")

    def token(self, name):
        """Of the account of a pod, bound to it."""
        top = "/api/v1/namespaces/default"
        self.client.create(f"{top}/serviceaccounts", {"metadata": {"name": name}})
        pod = json.loads(self.client.create(f"{top}/pods", {"metadata": {"name": name}, "spec": {
            "serviceAccountName": name, "nodeName": f"node-{name}", "containers": [{"name": "c", "image": "i"}]}}))
        made = json.loads(self.client.create(f"{top}/serviceaccounts/{name}/token", {"spec": {
            "audiences": ["istio-ca"], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name,
                                                          "uid": pod["metadata"]["uid"]}}}))
        path = os.path.join(self.dir, f"{name}.token")
        with open(path, "w", encoding="ascii") as f:
            f.write(made["status"]["token"])
        return path


class Pod:
    """A network namespace on the bridge, with cubic for all its connections whatever the machine prefers."""

    def __init__(self, ctx, name, ip, on=BRIDGE, gate=GATE):
        self.ctx, self.name, self.ip = ctx, name, ip
        own = os.stat("/proc/self/ns/net").st_ino
        self.holder = procs.spawn(["unshare", "-n", "sleep", "100000"], None)
        self.inside = ["nsenter", "-t", str(self.holder.pid), "-n"]
        end = time.monotonic() + 5
        while os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino == own and time.monotonic() < end:
            time.sleep(0.01)
        near = ".".join(ip.split(".")[:2]) + ".0.0/16"
        for argv in (["ip", "link", "add", f"v-{name}", "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid)],
                     ["ip", "link", "set", f"v-{name}", "master", on, "up"],
                     [*self.inside, "ip", "link", "set", "lo", "up"], [*self.inside, "ip", "link", "set", "eth0", "up"],
                     [*self.inside, "ip", "addr", "add", f"{ip}/16", "dev", "eth0"],
                     # By routes: a machine may allow no namespace to choose cubic for itself.
                     [*self.inside, "ip", "route", "replace", near, "dev", "eth0", "proto", "kernel", "scope", "link",
                      "src", ip, "congctl", "cubic"],
                     # What the proxy sends to the server in its own pod goes here.
                     [*self.inside, "ip", "route", "change", "local", ip, "dev", "eth0", "proto", "kernel", "scope", "host",
                      "src", ip, "table", "local", "congctl", "cubic"],
                     [*self.inside, "ip", "route", "add", "default", "via", gate, "congctl", "cubic"]):
            must(argv, f"no pod {name}")

    def redirect(self):
        must([self.ctx.binary, "cni", "redirect", "apply", "--netns", f"/proc/{self.holder.pid}/ns/net"], "no redirection")

    def close(self):
        procs.stop(self.holder)


class PodPair(Candidate):
    """Two pods and what runs in them; the base class has nothing in between."""

    peer, name = False, "raw"
    net, bridge, gate = "10.78", BRIDGE, GATE

    def __init__(self, ctx, index, authority):
        super().__init__(ctx, index)
        self.authority, self.index = authority, index
        self.a = self.b = self.server = None
        self.client_inside = []

    def rules(self):
        return []

    def target(self, kind):
        return self.b.ip, ECHO if kind == "echo" else SINK, None

    def start(self):
        self.a, self.b = (Pod(self.ctx, f"{n}{self.index}", f"{self.net}.{self.index}.{i}", self.bridge, self.gate)
                          for i, n in ((1, "a"), (2, "b")))
        self.client_inside = self.a.inside
        argv = [*self.b.inside, self.ctx.load, "serve", "--echo", f"0.0.0.0:{ECHO}", "--sink", f"0.0.0.0:{SINK}", "--procs", "1"]
        self.server = procs.spawn(self.ctx.box.pin(argv), os.path.join(self.ctx.dir, f"{self.name}-server.log"))
        self.proxies()
        self.reach()

    def proxies(self):
        pass

    def reach(self):
        """Until a connection passes from the one pod to the server in the other."""
        end = time.monotonic() + 20
        while True:
            try:
                procs.run_load(m.load_argv(self.ctx, self, "cps", "echo", "--secs", "0.1"), 20)
                return
            except LoadError as e:
                if time.monotonic() > end:
                    logs = " | ".join(tail(p.log) for p in self.sides if getattr(p, "log", None))
                    raise LoadError(f"nothing passes: {e}; {logs}") from None
                time.sleep(0.2)

    def stop(self):
        super().stop()
        if self.server:
            procs.stop(self.server)
        for pod in (self.a, self.b):
            if pod:
                pod.close()


class SpanwirePods(PodPair):
    """`spanwire node`, dedicated, in both pods."""

    name, only_256 = "spanwire", True
    protocol = "HBONE"

    def argv(self):
        return [self.ctx.binary, "node"]

    def environment(self, pod, token, yaml):
        """What both programs read alike."""
        out = {"PATH": os.environ["PATH"], "PROXY_MODE": "dedicated", "PACKET_MARK": str(MARK), "XDS_ADDRESS": "",
               "LOCAL_XDS_PATH": yaml, "PROXY_WORKLOAD_INFO": f"default/{pod.name}/{pod.name}", "NODE_NAME": f"node-{pod.name}",
               "CA_ADDRESS": f"https://{GATE}:{MESH_PORT}", "CA_ROOT_CA": self.authority.root, "AUTH_TOKEN": token,
               "ZTUNNEL_WORKER_THREADS": "1", "ENABLE_ORIG_SRC": "false", "RUST_LOG": "warn",
               "ISTIO_META_DNS_CAPTURE": "false", "CLUSTER_ID": "Kubernetes"}
        if self.only_256:
            path = os.path.join(self.ctx.dir, "only-aes256.conf")
            with open(path, "w", encoding="ascii") as f:
                f.write(ONLY_256)
            out["GNUTLS_SYSTEM_PRIORITY_FILE"] = path
        return out

    def proxies(self):
        yaml = write_yaml(self.ctx, f"{self.name}-pods", [workload(p.name, p.ip, self.protocol) for p in (self.a, self.b)])
        for pod in (self.b, self.a):
            token = self.authority.token(pod.name)
            pod.redirect()
            log = os.path.join(self.ctx.dir, f"{self.name}-{pod.name}.log")
            p = procs.spawn(self.ctx.box.pin([*pod.inside, *self.argv()], self.cpus), log,
                            env=self.environment(pod, token, yaml))
            p.log = log
            self.sides.insert(0, p)


class DefaultPods(SpanwirePods):
    name, only_256 = "spanwire-aes128", False


class PlainPods(SpanwirePods):
    """The same three TCP connections with nothing encrypted and nothing copied: what no pair of proxies can pass."""

    name, protocol = "spanwire-plain", "TCP"


class ZtunnelPods(SpanwirePods):
    peer, name, only_256 = True, "ztunnel", False

    def available(self):
        binary = os.environ.get("ZTUNNEL_BIN")
        return None if binary and os.access(binary, os.X_OK) else "ZTUNNEL_BIN is not set"

    def argv(self):
        return [os.environ["ZTUNNEL_BIN"], "proxy", "ztunnel"]


def idle_memory(ctx, cand, out):
    """Private memory of both processes: fresh, and with idle tunnels."""
    pids = cand.pids()
    before = procs.memory_kb(pids)[1]
    argv = m.load_argv(ctx, cand, "idle", "echo", "--conns", str(IDLE_TUNNELS))
    with procs.Holder(argv) as held:
        time.sleep(1.0)
        after = procs.memory_kb(pids)[1]
    if held["failed"]:
        ctx.note(f"mesh pods: {cand.name}: {held['failed']} of {IDLE_TUNNELS} tunnels failed")
    out[cand.name] = {"before_mb": round(before / 1024, 2), "with_mb": round(after / 1024, 2),
                      "kb_each": round((after - before) / max(1, held["conns"]), 2), "held": held["conns"]}


def ratio(ctx, record, field, what, key):
    data = field.out[what]["rounds"]
    void = field.out[what]["void"]
    for ours, more in (("spanwire", ""), ("spanwire-aes128", "_aes128")):
        record(ctx, f"mesh.{what.removeprefix('pods ')}{more}", m.series(data, ours, key),
               {"ztunnel": m.series(data, "ztunnel", key)}, True, void)


def added(ctx, record, field, ours="spanwire", gate="mesh.rtt_added"):
    got = field.out["pods rtt"]
    data = got["rounds"]
    raw = m.series(data, "raw", "p50_us")

    def more(name):
        return m.apply(lambda a, b: a - b, m.series(data, name, "p50_us"), raw)
    record(ctx, gate, more(ours), {"ztunnel": more("ztunnel")}, False, got["void"])


# ---- what a proxy that costs nothing could reach ----

def aead_gbps(ctx):
    """How fast the best library seals and opens each byte once with AES-256-GCM on the CPU of the run; and the lines."""
    if not os.access(ctx.floor_tool, os.X_OK):
        raise LoadError("bench/aead is not built (meson configure -Dbench=true)")
    done = subprocess.run(ctx.box.pin([ctx.floor_tool, "256"]), capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.strip().splitlines()
    cost = {}
    for library, speed in re.findall(r"^(\S+)\s+16384 B\s+([\d.]+) GB/s", done.stdout, re.M):
        cost[library] = cost.get(library, 0) + 1 / (8 * float(speed))  # one line for sealing, one for opening
    if not cost:
        raise LoadError(f"bench/aead says nothing: {done.stderr.strip()[:200]}")
    return 1 / min(cost.values()), lines


def bulk_ceiling(ctx, field, record, what, crypto):
    """Three spliced connections, and the cipher once at each end, all on one CPU: their times add up."""
    got = field.out[what]
    ours = m.apply(lambda plain: 1 / (1 / plain + 1 / crypto), m.series(got["rounds"], "spanwire-plain", "gbps"))
    record(ctx, f"mesh.{what.removeprefix('pods ')}_ceiling", ours, {"ztunnel": m.series(got["rounds"], "ztunnel", "gbps")},
           True, got["void"])


def ceilings(ctx, field, record):
    try:
        crypto, field.out["aead"] = aead_gbps(ctx)
    except LoadError as e:
        ctx.note(f"mesh pods: no ceiling of bulk: {e}")
    else:
        bulk_ceiling(ctx, field, record, "pods bulk", crypto)
        bulk_ceiling(ctx, field, record, "pods bulk16", crypto)
    got = field.out["pods cps"]
    record(ctx, "mesh.cps_ceiling", m.apply(lambda raw: raw / 2, m.series(got["rounds"], "raw", "rate")),
           {"ztunnel": m.series(got["rounds"], "ztunnel", "rate")}, True, got["void"])
    added(ctx, record, field, "spanwire-plain", "mesh.rtt_ceiling")


def measure_pods(ctx, field, record):
    for what, conns in (("pods bulk", 1), ("pods bulk16", 16)):
        field.measure(what, "gbps", lambda c, n=conns: m.bulk(ctx, c, conns=n))
        ratio(ctx, record, field, what, "gbps")
    field.measure("pods rtt", "p50_us", lambda c: m.rtt(ctx, c))
    added(ctx, record, field)
    field.measure("pods cps", "rate", lambda c: m.cps(ctx, c, source=None))
    ratio(ctx, record, field, "pods cps", "rate")
    ceilings(ctx, field, record)
    memory = field.out.setdefault("pods memory", {})
    for cand in field.cands:
        if cand.sides:
            try:
                idle_memory(ctx, cand, memory)
            except LoadError as e:
                ctx.note(f"mesh pods: memory: {cand.name}: {e}")
    if {"spanwire", "ztunnel"} <= set(memory):
        record(ctx, "mesh.memory", [memory["spanwire"]["with_mb"]], {"ztunnel": [memory["ztunnel"]["with_mb"]]}, False, [])


def run_pods(ctx, field_type, record):
    if ctx.box.namespace == "none":
        ctx.note("mesh pods: no own network namespace")
        return
    authority = Authority(ctx)
    with bridge(BRIDGE, GATE):
        try:
            authority.start()
            field = field_type(ctx, "mesh", first=90)
            for kind in (PodPair, SpanwirePods, DefaultPods, PlainPods, ZtunnelPods):
                field.add(kind, authority)
            with field:
                measure_pods(ctx, field, record)
        finally:
            authority.stop()
