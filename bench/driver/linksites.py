# SPDX-License-Identifier: Apache-2.0
"""The part of suite `link` with whole sites: a control plane and a data plane each, beside ClusterLink's (CLUSTERLINK_DIR).

Each candidate has namespaces on one bridge: a client and a server, a data plane and a control plane of either site. The
client is east and imports, the server is west. Same certificates (P-256) for all, logs at `warn`, one CPU. Control planes,
ours and ClusterLink's, work on an API of another process, which is not counted; `spanwire-embedded` is both in one.
"""
import json
import os
import shutil
import subprocess
import time

from . import api
from . import l7
from . import measure as m
from . import pods
from . import procs
from .candidates import ECHO, SINK, Peer, tail
from .procs import LoadError
from .propagate import Client

BRIDGE, GATE, NET = "linkbr0", "10.79.0.254", "10.79"
API_PORT, CONTROL_PORT, EXTERNAL_PORT = 6443, 4444, 4443
SYSTEM, GROUP = "clusterlink-system", "clusterlink.net"
TOP = f"/apis/{GROUP}/v1alpha1"
IMPORTS_S = 1200
REAL = ["clusterlink-go", "clusterlink-envoy"]
PEERS = ["haproxy-mtls", "stunnel"]


class Authority:
    """A P-256 CA and what it signs; files NAME.pem, followed by the CA, and NAME.key."""

    def __init__(self, directory, name):
        os.makedirs(directory, exist_ok=True)
        self.dir = directory
        self._run("req", "-x509", *self._key(), "-days", "30", "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.pem")

    @staticmethod
    def _key():
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"

    def _run(self, *args):
        done = subprocess.run(["openssl", *args], cwd=self.dir, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise LoadError("openssl: " + done.stderr.strip()[:200])

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name):
        with open(self.path("ext"), "w", encoding="ascii") as f:
            f.write(f"extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=DNS:{name}\n")
        self._run("req", *self._key(), "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "csr")
        self._run("x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
                  "-extfile", "ext", "-out", f"{name}.pem")
        with open(self.path("ca.pem"), encoding="ascii") as ca, open(self.path(f"{name}.pem"), "a", encoding="ascii") as f:
            f.write(ca.read())


class Api(api.Control):
    """`spanwire control` in a namespace of its own: the API of a site, and with `links` its control plane."""

    name, port = "site", API_PORT

    def __init__(self, ctx, pod, directory, links=()):
        super().__init__(ctx, 0)
        self.pod, self.host, self.dir, self.links = pod, pod.ip, directory, list(links)
        self.client = None

    def command(self):
        return [*self.pod.inside, self.ctx.binary, "control", "--data", self.dir + "/data", "--listen",
                f"{self.host}:{self.port}", "--gateway=false", "--connector=false", "--log-level", "warn", *self.links]

    def file(self, name):
        return os.path.join(self.dir, name)

    def start(self):
        os.makedirs(self.dir)
        self.p = procs.spawn(self.ctx.box.pin(self.command()), self.dir + ".log")
        self.p.log = self.dir + ".log"
        try:
            procs.wait_accepting(self.p, self.host, self.port, self.ready_s)
        except LoadError as e:
            raise LoadError(f"{e}; it said: {tail(self.p.log)}") from None
        self.settle()
        self.client = Client(self)
        self.make("/api/v1/namespaces", {"metadata": {"name": SYSTEM}})

    def make(self, path, body):
        """Made, or there already."""
        status, data = self.client.request("POST", path, body)
        if status not in (200, 201, 409):
            raise LoadError(f"POST {path}: {status} {data[:200]!r}")
        return data

    def put(self, kind, plural, name, spec, namespace="default"):
        self.make(f"{TOP}/namespaces/{namespace}/{plural}", {
            "apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec})

    def offer(self, name, host, port):
        self.put("Export", "exports", name, {"host": host, "port": port})

    def wants(self, name, peer, export=None):
        self.put("Import", "imports", name, {"port": 80, "sources": [
            {"peer": peer, "exportName": export or name, "exportNamespace": "default"}]})

    def client_pod(self, ip):
        top = "/api/v1/namespaces/default/pods"
        self.make(top, {"metadata": {"name": "client", "labels": {"app": "client"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]}})
        status, data = self.client.request("PATCH", f"{top}/client/status", {"status": {
            "podIP": ip, "podIPs": [{"ip": ip}], "phase": "Running"}}, "application/merge-patch+json")
        if status != 200:
            raise LoadError(f"status of the client's pod: {status} {data[:200]!r}")

    def token(self):
        """Of somebody who may do everything."""
        self.make(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", {"metadata": {"name": "bench"}})
        self.make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": SYSTEM}]})
        made = self.make(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/bench/token", {"spec": {"expirationSeconds": 7200}})
        return json.loads(made)["status"]["token"]

    def target_port(self, name):
        status, data = self.client.request("GET", f"{TOP}/namespaces/default/imports/{name}")
        return json.loads(data)["spec"].get("targetPort") if status == 200 else None


def wait_for(what, fn, secs=30.0):
    end = time.monotonic() + secs
    while True:
        got = fn()
        if got:
            return got
        if time.monotonic() > end:
            raise LoadError(f"no {what} within {secs:g} s")
        time.sleep(0.05)


def listening(pid):
    """TCP ports that listen in the namespace of a process."""
    ports = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{name}", encoding="ascii") as f:
            rows = [line.split() for line in f][1:]
        ports |= {r[1].rpartition(":")[2] for r in rows if r[3] == "0A"}
    return ports


class SitePair(pods.PodPair):
    """Client and server; the base class has nothing in between."""

    net, bridge, gate = NET, BRIDGE, GATE

    def __init__(self, ctx, index):
        super().__init__(ctx, index, None)
        self.others = []

    def machine(self, name, last):
        pod = pods.Pod(self.ctx, f"{name}{self.index}", f"{NET}.{self.index}.{last}", BRIDGE, GATE)
        self.others.append(pod)
        return pod

    def start_side(self, argv, name, env=None):
        log = os.path.join(self.ctx.dir, f"{self.name}-{name}.log")
        p = procs.spawn(self.ctx.box.pin(argv, self.cpus), log, env=env)
        p.log = log
        return p

    def stop(self):
        super().stop()
        for pod in self.others:
            pod.close()
        self.others = []


class PlainPeer(SitePair):
    """HAProxy or stunnel in the places of the two data planes."""

    peer = True

    def __init__(self, ctx, index, name, program, files):
        super().__init__(ctx, index)
        self.name = name
        self.inner = Peer(ctx, index, name, program, files)

    def available(self):
        return self.inner.available()

    def target(self, kind):
        return self.near.ip, self.inner.port(kind), None

    def proxies(self):
        super().proxies()
        self.near, far = self.machine("n", 3), self.machine("f", 4)
        self.inner.places = {"NEAR": self.near.ip, "FAR": far.ip, "SERVER": self.b.ip}
        a, b = self.inner.files
        self.sides = [self.start_side([*pod.inside, *self.inner.command(f)], f) for pod, f in ((far, b), (self.near, a))][::-1]


class Site:
    """East or west of a candidate."""

    def __init__(self, pair, name, last):
        self.pair, self.name = pair, name
        self.control = pair.machine(f"c{name[0]}", last)
        self.plane = pair.machine(f"d{name[0]}", last + 1)
        self.dir = os.path.join(pair.ctx.dir, f"{pair.name}-{pair.index}-{name}")
        self.api = self.control_process = self.plane_process = None

    def meet(self, other):
        self.api.put("Peer", "peers", other.name, {"gateways": [{"host": other.plane.ip, "port": EXTERNAL_PORT}]}, SYSTEM)
        any_ = [{"workloadSelector": {}}]
        self.api.put("AccessPolicy", "accesspolicies", "all", {"action": "allow", "from": any_, "to": any_})

    def processes(self):
        return [self.plane_process, self.control_process]


class SpanwireSites(SitePair):
    """`spanwire control` and `spanwire link` on both sides; the API is a process of its own, as for ClusterLink."""

    name, form = "spanwire", "spanwire"

    def __init__(self, ctx, index, fabric):
        super().__init__(ctx, index)
        self.fabric = fabric
        self.ports = {}
        self.east = self.west = None

    def target(self, kind):
        return self.east.plane.ip, self.ports[kind], None

    def site_dir(self, site):
        return site.dir + "-site"

    def links(self, site):
        """Options of a control plane with links."""
        where = site.dir + "-fabric"
        os.makedirs(where)
        self.peer_files(site, where)
        return ["--link-listen", f"{site.control.ip}:{CONTROL_PORT}", "--link-fabric", where, "--link-site",
                self.site_dir(site), "--link-export-host", f"{NET}.0.0/16", "--upstream-allow", f"{NET}.0.0/16",
                "--link-address", site.plane.ip]

    def peer_files(self, site, where):
        for source, name in (("ca.pem", "ca.pem"), (f"{site.name}.pem", "cert.pem"), (f"{site.name}.key", "key.pem")):
            shutil.copy(self.fabric.path(source), os.path.join(where, name))

    def start_control(self, site):
        site.api = Api(self.ctx, site.control, site.dir)
        site.api.start()
        argv = [*site.control.inside, self.ctx.binary, "control", "--kubeconfig", site.api.file("data/admin.kubeconfig"),
                "--data", site.dir + "-own", "--gateway=false", "--connector=false", "--log-level", "warn", *self.links(site)]
        site.control_process = self.start_side(argv, f"{site.name}-control")
        self.wait_control(site)

    def wait_control(self, site):
        try:
            procs.wait_accepting(site.control_process, site.control.ip, CONTROL_PORT, 30.0)
        except LoadError as e:
            raise LoadError(f"{e}; it said: {tail(site.control_process.log)}") from None
        wait_for("certificates of the site", lambda: os.path.exists(os.path.join(self.site_dir(site), "dataplane.key")))

    def start_plane(self, site):
        return [self.ctx.binary, "link", "--control", f"{site.control.ip}:{CONTROL_PORT}", "--site", self.site_dir(site),
                "--listen", f"0.0.0.0:{EXTERNAL_PORT}", "--upstream-allow", f"{NET}.0.0/16", "--workers", "1",
                "--stats-addr", "127.0.0.1:15020", "--ready-addr", "127.0.0.1:15021", "--log-level", "warn"]

    def proxies(self):
        super().proxies()
        self.east, self.west = Site(self, "east", 3), Site(self, "west", 5)
        for site, other in ((self.west, self.east), (self.east, self.west)):
            self.start_control(site)
            site.meet(other)
            site.plane_process = self.start_side([*site.plane.inside, *self.start_plane(site)], f"{site.name}-plane")
        self.sides = [p for site in (self.east, self.west) for p in site.processes()]
        self.east.api.client_pod(self.a.ip)
        for name, port in (("echo", ECHO), ("sink", SINK)):
            self.west.api.offer(name, self.b.ip, port)
            self.east.api.wants(name, "west")
            self.ports[name] = wait_for(f"port of {name}", lambda n=name: self.east.api.target_port(n))

    def stop(self):
        super().stop()
        for site in (self.east, self.west):
            if site and site.api:
                site.api.stop()


class EmbeddedSites(SpanwireSites):
    """The same with the API and the control plane in one process, both counted."""

    name = "spanwire-embedded"

    def start_control(self, site):
        site.api = Api(self.ctx, site.control, site.dir, self.links(site))
        site.api.start()
        site.control_process = site.api.p
        self.wait_control(site)


class ClusterLinkSites(SpanwireSites):
    """cl-controlplane and one of the data planes, as they are, on an embedded API."""

    peer, form = True, "clusterlink"

    def __init__(self, ctx, index, fabric, plane):
        super().__init__(ctx, index, fabric)
        self.name = f"clusterlink-{plane}"
        self.program = {"go": "cl-go-dataplane", "envoy": "cl-dataplane"}[plane]
        self.envoy = l7.find_envoy(ctx) if plane == "envoy" else None
        self.wants_envoy = plane == "envoy"

    def available(self):
        where = os.environ.get("CLUSTERLINK_DIR")
        if not where:
            return "CLUSTERLINK_DIR is not set"
        for name in ("cl-controlplane", self.program):
            if not os.access(os.path.join(where, name), os.X_OK):
                return f"CLUSTERLINK_DIR has no {name}"
        if self.wants_envoy and not self.envoy:
            return "no Envoy: set ENVOY_BIN, or let tools/interop clusterlink fetch one"
        return None if self.ctx.box.namespace == "own" else "needs root for its mounts"

    def files(self, site):
        """What is mounted into ClusterLink's pods, and for linkask."""
        root = site.dir + "-root"
        account = os.path.join(root, "secrets/kubernetes.io/serviceaccount")
        for d in ("ssl/certs/clink", "ssl/key", "bin", account, self.site_dir(site)):
            os.makedirs(os.path.join(root, d))
        own = Authority(site.dir + "-ca", "cl-ca")
        for name in ("cl-controlplane", "cl-dataplane"):
            own.issue(name)
            shutil.copy(own.path(f"{name}.pem"), f"{root}/ssl/certs/clink-{name[3:]}.pem")
            shutil.copy(own.path(f"{name}.key"), f"{root}/ssl/key/clink-{name[3:]}.pem")
        shutil.copy(own.path("ca.pem"), f"{root}/ssl/certs/clink_ca.pem")
        for source, name in (("ca.pem", "ca.pem"), ("cl-dataplane.pem", "dataplane.pem"),
                             ("cl-dataplane.key", "dataplane.key")):
            shutil.copy(own.path(source), os.path.join(self.site_dir(site), name))
        self.peer_files(site, f"{root}/ssl/certs/clink")
        shutil.copy(site.api.file("certificate-authority"), os.path.join(account, "ca.crt"))
        for name, text in (("namespace", SYSTEM), ("token", site.api.token())):
            with open(os.path.join(account, name), "w", encoding="ascii") as f:
                f.write(text)
        if self.envoy:
            os.symlink(os.path.realpath(self.envoy), f"{root}/bin/envoy")
        return root

    def container(self, site, program, *flags):
        script = os.path.join(self.ctx.here, "..", "tests", "interop", "clusterlink", "container")
        return ["unshare", "--mount", "--propagation", "slave", script, site.dir + "-root",
                os.path.join(os.environ["CLUSTERLINK_DIR"], program), "--log-level", "warn", *flags]

    def start_control(self, site):
        site.api = Api(self.ctx, site.control, site.dir)
        site.api.start()
        self.files(site)
        argv = [*site.control.inside, *self.container(site, "cl-controlplane")]
        site.control_process = self.start_side(argv, f"{site.name}-control", {
            "PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": site.control.ip, "KUBERNETES_SERVICE_PORT": str(API_PORT),
            "CL_NAMESPACE": SYSTEM})
        procs.wait_accepting(site.control_process, site.control.ip, CONTROL_PORT, 30.0)

    def start_plane(self, site):
        return self.container(site, self.program, "--controlplane-host", site.control.ip)


def ask(ctx, cand):
    """Questions about an import to the importing site's control plane, through both sites."""
    tool = os.path.join(os.path.dirname(ctx.binary), "bench", "linkask")
    argv = [*cand.east.plane.inside, tool, f"{cand.east.control.ip}:{CONTROL_PORT}", cand.site_dir(cand.east), cand.form,
            cand.a.ip, "default/echo", str(ctx.secs)]
    r = m.timed(ctx, cand, ctx.box.pin(argv), ctx.secs)
    r["cpu_us_each"] = round(r["cpu_s"] * 1e6 / r["n"], 1)
    return r


def site_memory(ctx, field):
    """Of a site: half of what both need, after the load, and with idle connections."""
    out = field.out.setdefault("sites memory", {})
    for cand in field.cands:
        if not cand.sides:
            continue
        rss = procs.memory_kb(cand.pids())[0]
        try:
            pods.idle_memory(ctx, cand, out)
        except LoadError as e:
            ctx.note(f"link sites: memory: {cand.name}: {e}")
            continue
        out[cand.name] = {k: round(v / 2, 2) if k.endswith("_mb") else v for k, v in out[cand.name].items()}
        out[cand.name]["rss_mb"] = round(rss / 2048, 1)


def used_mb(p):
    return procs.memory_kb(procs.group_pids(p.pid))[1] / 1024


class ManyImports:
    """What so many Imports add to the importing site's control plane and data plane."""

    def __init__(self, cand, number):
        self.site, self.name, self.number = cand.east, cand.name, number
        self.before = [used_mb(p) for p in self.site.processes()]
        self.there = self.listeners()
        self.start = time.monotonic()
        for i in range(number):
            self.site.api.wants(f"more-{i}", "west", "echo")

    def listeners(self):
        return len(listening(self.site.plane.holder.pid))

    def served(self):
        """Nearly all: ClusterLink leases ports that its own programs have."""
        return self.listeners() - self.there >= 0.99 * self.number

    def result(self, took):
        plane, control = (used_mb(p) - b for p, b in zip(self.site.processes(), self.before))
        return {"control_mb": round(control, 2), "plane_mb": round(plane, 2), "both_mb": round(control + plane, 2),
                "kb_each": round((control + plane) * 1024 / self.number, 2), "serving_s": round(took, 1),
                "listeners": self.listeners() - self.there}


def imports_memory(ctx, cands, out):
    """All at once: cl-controlplane asks its API only so often, and takes most of a second for each."""
    waiting, done = [ManyImports(c, ctx.link_imports) for c in cands], {}
    end = time.monotonic() + IMPORTS_S
    while waiting and time.monotonic() < end:
        for w in [w for w in waiting if w.served()]:
            waiting.remove(w)
            done[w] = time.monotonic() - w.start
        time.sleep(0.1)
    for w in waiting:
        ctx.note(f"link sites: {w.name}: only {w.listeners() - w.there} of {w.number} imports served after {IMPORTS_S} s")
    time.sleep(3)  # garbage is collected, or not
    for w, took in done.items():
        out[w.name] = w.result(took)


def ratios(ctx, record, field, name, what, key, against, higher=True):
    got = field.out[what]
    data = got["rounds"]
    record(ctx, name, m.series(data, "spanwire", key), {p: m.series(data, p, key) for p in against if p in data}, higher,
           got["void"])


def memory_ratio(ctx, record, name, table, key):
    peers = {p: [table[p][key]] for p in REAL if p in table}
    if "spanwire" in table:
        record(ctx, name, [table["spanwire"][key]], peers, False, [])


def measure_sites(ctx, field, record):
    field.measure("sites bulk", "gbps", lambda c: m.bulk(ctx, c))
    ratios(ctx, record, field, "link.sites_bulk", "sites bulk", "gbps", [*PEERS, *REAL])
    field.measure("sites rtt", "p50_us", lambda c: m.rtt(ctx, c))
    field.measure("sites cps", "rate", lambda c: m.cps(ctx, c, source=None))
    ratios(ctx, record, field, "link.sites_cps", "sites cps", "rate", PEERS)
    ratios(ctx, record, field, "link.sites_cps_clusterlink", "sites cps", "rate", REAL)
    ratios(ctx, record, field, "link.sites_cpu_clusterlink", "sites cps", "cpu_us_per_conn", REAL, False)
    whole = [c.name for c in field.cands if isinstance(c, SpanwireSites)]
    data = field.measure("sites authorise", "p50_us", lambda c: ask(ctx, c), whole)
    field.out["sites authorise"]["view"] = "ask"
    for pct in ("p50", "p99"):
        ratios(ctx, record, field, f"link.authorise_{pct}_clusterlink", "sites authorise", f"{pct}_us", REAL, False)
        ctx.result["absolutes"][f"link.authorise_{pct}_us"] = m.series(data, "spanwire", f"{pct}_us")
    site_memory(ctx, field)
    memory_ratio(ctx, record, "link.site_memory_clusterlink", field.out["sites memory"], "rss_mb")


def measure_imports(ctx, field, record):
    imports = field.out.setdefault("imports", {})
    ctx.say(f"  {ctx.link_imports} imports: {', '.join(field.names())}")
    imports_memory(ctx, field.cands, imports)
    memory_ratio(ctx, record, "link.imports_memory_clusterlink", imports, "both_mb")
    if "spanwire" in imports:
        ctx.result["absolutes"]["link.imports_mb"] = [imports["spanwire"]["both_mb"]]


def add_sites(ctx, field, fabric):
    field.add(SpanwireSites, fabric)
    field.add(EmbeddedSites, fabric)
    for plane in ("go", "envoy"):
        if ctx.wants(f"clusterlink-{plane}", "clusterlink"):
            field.add(ClusterLinkSites, fabric, plane)


def run_sites(ctx, field_type, record, peers, parts):
    """`sites`, `imports` or both, each with sites of its own."""
    if ctx.box.namespace == "none":
        ctx.note("link sites: no own network namespace")
        return
    with pods.bridge(BRIDGE, GATE):
        fabric = Authority(os.path.join(ctx.dir, "link-fabric"), "fabric")
        for name in ("east", "west"):
            fabric.issue(name)
        if "sites" in parts:
            field = field_type(ctx, "link", first=120)
            field.add(SitePair)
            for name in PEERS:
                program, files, _ = peers[name]
                if ctx.wants(name, program):
                    field.add(PlainPeer, name, program, files)
            add_sites(ctx, field, fabric)
            with field:
                measure_sites(ctx, field, record)
        if "imports" in parts:
            field = field_type(ctx, "link", first=140)
            add_sites(ctx, field, fabric)
            with field:
                measure_imports(ctx, field, record)
