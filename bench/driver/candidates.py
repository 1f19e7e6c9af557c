# SPDX-License-Identifier: Apache-2.0
"""What is compared: the raw loopback, the peers at their best settings, and spanwire.

Every client connection goes to a candidate's own client-facing address and is
redirected from there by the same nftables chain, the raw one straight to the
server, so that all pay the same for connection tracking and translation.
"""
import os
import re
import shutil
import subprocess
import time

from . import procs
from .procs import LoadError
from .sandbox import MARK

SERVER = "127.1.0.9"
ECHO, SINK, CONNECT = 9000, 9001, 9002
TRUST_DOMAIN = "cluster.local"


class Candidate:
    """One contestant: `name`, the address clients dial, and how to start its processes."""

    connect = False  # clients speak HTTP/1.1 CONNECT first
    peer = True

    def __init__(self, ctx, index):
        self.ctx = ctx
        self.addr = f"127.1.1.{index}"
        self.base = 10000 + 20 * index  # its block of ports
        self.sides = []                 # Popen, client side first
        self.cpus = None

    def available(self):
        """None, or the reason this candidate cannot take part."""
        return None

    def rules(self):
        raise NotImplementedError

    def start(self):
        pass

    def stop(self):
        for p in self.sides:
            procs.stop(p)
        self.sides = []

    def pids(self, side=None):
        chosen = self.sides if side is None else [self.sides[side]]
        return [pid for p in chosen for pid in procs.group_pids(p.pid)]

    def target(self, kind):
        """(address, port, CONNECT authority or None) for kind 'echo' or 'sink'."""
        direct = not self.ctx.box.redirects
        if self.connect:
            host, port = self._listening("connect") if direct else (self.addr, CONNECT)
            return host, port, f"{kind}.bench:80"
        host, port = self._listening(kind) if direct else \
            (self.addr, ECHO if kind == "echo" else SINK)
        return host, port, None

    def _listening(self, kind):
        return "127.0.0.1", self.base + {"echo": 0, "sink": 1, "connect": 2}[kind]


class Raw(Candidate):
    peer = False

    def __init__(self, ctx, index, name="raw", connect=False):
        super().__init__(ctx, index)
        self.name = name
        self.connect = connect

    def _listening(self, kind):
        return SERVER, {"echo": ECHO, "sink": SINK, "connect": CONNECT}[kind]

    def rules(self):
        return [(self.addr, p, SERVER, p) for p in (ECHO, SINK, CONNECT)]


class Peer(Candidate):
    """A program of the distribution with one configuration file per side in bench/peers/."""

    def __init__(self, ctx, index, name, program, files, connect=False):
        super().__init__(ctx, index)
        self.name = name
        self.program = program
        self.files = files
        self.connect = connect
        self.places = {"NEAR": "127.0.0.1", "FAR": "127.0.0.1", "SERVER": SERVER}

    def available(self):
        if not find_program(self.program):
            return f"{self.program} is not installed"
        return None

    def rules(self):
        if self.connect:
            return [(self.addr, CONNECT, *self._listening("connect"))]
        return [(self.addr, ECHO, *self._listening("echo")),
                (self.addr, SINK, *self._listening("sink"))]

    def _values(self):
        b = self.base
        return {"DIR": self.ctx.dir, "TLS": self.ctx.tls_dir(), **self.places,
                "ECHO": ECHO, "SINK": SINK, "CONNECT": CONNECT,
                "PORT_ECHO": b, "PORT_SINK": b + 1, "PORT_CONNECT": b + 2,
                "TLS_ECHO": b + 10, "TLS_SINK": b + 11, "TLS_CONNECT": b + 12}

    def command(self, file):
        """Fills in the template and returns the command line that runs it."""
        with open(os.path.join(self.ctx.here, "peers", file), encoding="ascii") as f:
            text = re.sub(r"@([A-Z_]+)@", lambda m: str(self._values()[m.group(1)]), f.read())
        path = os.path.join(self.ctx.dir, f"{self.name}-{file}")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        exe = find_program(self.program)
        if self.program == "haproxy":
            return [exe, "-db", "-f", path]
        if self.program == "nginx":
            return [exe, "-c", path, "-e", os.path.join(self.ctx.dir, "nginx-early.log")]
        if self.program == "nghttpx":
            return [exe] + [l for l in text.splitlines() if l and not l.startswith("#")]
        return [exe, path]

    def start(self):
        # The far side first: the near one may probe it.
        started = []
        for i, file in reversed(list(enumerate(self.files))):
            log = os.path.join(self.ctx.dir, f"{self.name}-{i}.log")
            p = procs.spawn(self.ctx.box.pin(self.command(file), self.cpus), log)
            started.insert(0, p)
            self.sides = started
            kind = "connect" if self.connect else "echo"
            port = self._listening(kind)[1] + (0 if i == 0 else 10)
            try:
                procs.wait_accepting(p, "127.0.0.1", port)
            except LoadError as e:
                raise LoadError(f"{e}; it said: {tail(log)}") from None

    def port(self, kind):
        return self._listening(kind)[1]

    def ready_port(self):
        return "127.0.0.1", self._listening("connect" if self.connect else "echo")[1]


class NodePass(Candidate):
    """spanwire as a plain relay: the destination is in no mesh, bytes pass through."""

    peer = False

    def __init__(self, ctx, index, name="spanwire", ip="127.0.0.1", extra=()):
        super().__init__(ctx, index)
        self.name = name
        self.ip = ip
        self.extra = list(extra)

    def available(self):
        return node_unavailable(self.ctx)

    def rules(self):
        return [(self.addr, p, self.ip, 15001) for p in (ECHO, SINK)]

    def command(self):
        yaml = write_yaml(self.ctx, self.name, [workload("bench", self.ip, "TCP")])
        return node_command(self.ctx, self.ip, "bench", yaml) + self.extra

    def start(self):
        self.sides = [start_node(self, self.command(), self.ip, 15001)]

    def ready_port(self):
        return self.ip, 15001


class NodePair(Candidate):
    """Two spanwire processes: outbound on ip_a, inbound on ip_b, HBONE between them."""

    peer = False

    def __init__(self, ctx, index, name, ip_a, ip_b, workers=1, extra=()):
        super().__init__(ctx, index)
        self.name = name
        self.workers = workers
        self.addr = ip_b  # what the application dials is the address of the far workload
        self.ip_a, self.ip_b = ip_a, ip_b
        self.extra = list(extra)

    def available(self):
        return node_unavailable(self.ctx)

    def rules(self):
        return [(self.ip_b, p, self.ip_a, 15001) for p in (ECHO, SINK)]

    def start(self):
        yaml = write_yaml(self.ctx, self.name, [workload("bench", self.ip_a, "HBONE"),
                                                workload("server", self.ip_b, "HBONE")])
        for name, ip, port in (("server", self.ip_b, 15008), ("bench", self.ip_a, 15001)):
            argv = node_command(self.ctx, ip, name, yaml, self.workers) + self.extra
            self.sides.insert(0, start_node(self, argv, ip, port))


def find_program(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin")


def node_unavailable(ctx):
    if not os.access(ctx.binary, os.X_OK):
        return f"{os.path.relpath(ctx.binary)} is not built"
    if not ctx.box.redirects:
        return "no redirection here"
    if not ctx.ca_dir():
        return "spanwire cert ca failed: " + ctx.ca_error
    return None


def workload(name, ip, protocol):
    return (f"- uid: Kubernetes//Pod/default/{name}\n  name: {name}\n  namespace: default\n"
            f"  serviceAccount: {name}\n  trustDomain: {TRUST_DOMAIN}\n"
            f"  node: node-{name}\n  workloadIps: [\"{ip}\"]\n  protocol: {protocol}\n"
            "  services: {}\n")


def write_yaml(ctx, name, workloads):
    path = os.path.join(ctx.dir, f"{name}.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write("workloads:\n" + "".join(workloads))
    return path


def node_command(ctx, ip, name, yaml, workers=1):
    return [ctx.binary, "node", "--mode", "dedicated", "--workload", f"default/{name}/{name}",
            "--listen-ip", ip, "--packet-mark", str(MARK), "--local-xds", yaml,
            "--local-ca", ctx.ca_dir(), "--workers", str(workers), "--orig-src", "false",
            "--node-name", f"node-{name}", "--trust-domain", TRUST_DOMAIN,
            "--fast-path", "false", "--admin-addr", f"{ip}:15000", "--stats-addr", f"{ip}:15020",
            "--ready-addr", f"{ip}:15021"]


def start_node(cand, argv, ip, port):
    """Starts one node; its log goes nowhere, but is asked for again when it fails to start."""
    p = procs.spawn(cand.ctx.box.pin(argv, cand.cpus), None)
    try:
        procs.wait_accepting(p, ip, port)
    except LoadError as e:
        procs.stop(p)
        log = os.path.join(cand.ctx.dir, f"{cand.name}.log")
        again = procs.spawn(argv, log)
        time.sleep(0.5)
        procs.stop(again)
        raise LoadError(f"{e}; it said: {tail(log)}") from None
    return p


def tail(log):
    with open(log, encoding="utf-8", errors="replace") as f:
        return " | ".join(f.read().strip().splitlines()[-3:])[:400]


def make_tls(directory):
    """One P-256 CA and one leaf for both sides of every peer.

    openssl, not `spanwire cert`: nghttpx insists on a host name in the certificate.
    """
    os.makedirs(directory, exist_ok=True)

    def ossl(*args):
        done = subprocess.run(["openssl", *args], cwd=directory, capture_output=True, text=True,
                              timeout=30)
        if done.returncode != 0:
            raise LoadError("openssl: " + done.stderr.strip()[:200])

    with open(os.path.join(directory, "ext"), "w", encoding="ascii") as f:
        f.write("basicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature\n"
                "extendedKeyUsage=serverAuth,clientAuth\n"
                "subjectAltName=DNS:bench.local,IP:127.0.0.1,"
                f"URI:spiffe://{TRUST_DOMAIN}/ns/default/sa/bench\n")
    ossl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "30", "-subj", "/O=bench root", "-keyout", "ca.key", "-out", "ca.crt")
    ossl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=bench.local", "-keyout", "bench.key", "-out", "bench.csr")
    ossl("x509", "-req", "-in", "bench.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
         "-CAcreateserial", "-days", "30", "-extfile", "ext", "-out", "bench.crt")
    with open(os.path.join(directory, "bench.pem"), "w", encoding="ascii") as out:
        for part in ("bench.crt", "bench.key"):
            with open(os.path.join(directory, part), encoding="ascii") as f:
                out.write(f.read())
