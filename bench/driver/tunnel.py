# SPDX-License-Identifier: Apache-2.0
"""Suite `tunnel`: TCP in, QUIC between two processes that know each other by key, TCP out.

On the loopback, with its large packets: beside ngtcp2's own client and server (stream to stream:
they have no TCP at either end, which favours them), HAProxy and nginx as plain relays, which encrypt
nothing, and for a footnote iroh inside Node.js. Native iroh endpoints are peers on a link with
packets of 1,500 bytes: link.py.
"""
import os
import re
import socket
import subprocess
import tempfile
import time

from . import link
from . import measure as m
from . import procs
from .candidates import ECHO, SERVER, SINK, Candidate, Raw, find_program
from .procs import LoadError

NODE_ID = re.compile(r"\b([0-9a-f]{64})\b")
IDLE_TUNNELS = 1000


def clients_dir(ctx):
    return os.path.join(os.path.dirname(ctx.here), "tests", "e2e", "clients")


def wait_line(path, pattern, p, secs=10.0):
    end = time.monotonic() + secs
    while time.monotonic() < end:
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                found = re.search(pattern, f.read())
        except OSError:
            found = None
        if found:
            return found
        if p.poll() is not None:
            break
        time.sleep(0.02)
    with open(path, encoding="utf-8", errors="replace") as f:
        raise LoadError(f"did not say {pattern!r}; it said: {f.read()[-300:]}")


class Spanwire(Candidate):
    """`spanwire sidecar` and `spanwire connector run`, one QUIC connection between them."""

    peer = False
    connect = True

    def __init__(self, ctx, index, name="spanwire", bind="127.0.0.1", place="", inside=()):
        super().__init__(ctx, index)
        self.name = name
        self.bind = bind
        self.place = place  # more about where the device is
        self.inside = list(inside)  # the command that runs the device elsewhere
        self.header = None

    def available(self):
        return None if os.access(self.ctx.binary, os.X_OK) else "spanwire is not built"

    def rules(self):
        return []

    def target(self, kind):
        return "127.0.0.1", self.base, f"{SERVER}:{ECHO if kind == 'echo' else SINK}"

    def _path(self, name):
        return os.path.join(self.ctx.dir, f"{self.name}-{name}")

    def start(self):
        device = procs.spawn(self.ctx.box.pin([
            *self.inside, self.ctx.binary, "connector", "run", "--standalone", "--data", self._path("device"),
            "--bind", f"{self.bind}:{self.base + 1}", "--allow", f"{SERVER}:{ECHO}",
            "--allow", f"{SERVER}:{SINK}", "--open", "--admin-addr", f"127.0.0.1:{self.base + 2}",
            "--log-level", "info,access=off"], self.cpus), self._path("device.log"))
        self.sides = [device]
        node = wait_line(self._path("device.log"), NODE_ID, device).group(1)
        self.header = f"x-iroh-endpoint-id: {node}"
        sidecar = procs.spawn(self.ctx.box.pin([
            self.ctx.binary, "sidecar", "--listen", f"127.0.0.1:{self.base}", "--key-file",
            self._path("sidecar.key"), "--peer", f"{node}={self.bind}:{self.base + 1}{self.place}",
            "--admin-addr", f"127.0.0.1:{self.base + 3}", "--stats-addr", f"127.0.0.1:{self.base + 4}",
            "--ready-addr", f"127.0.0.1:{self.base + 5}", "--log-level", "info,access=off"],
            self.cpus), self._path("sidecar.log"))
        self.sides.insert(0, sidecar)
        procs.wait_accepting(sidecar, "127.0.0.1", self.base)


class Iroh(Candidate):
    """Two Node.js processes with the real iroh between them: most of their time is JavaScript's."""

    name = "iroh-node"

    def available(self):
        if not find_program("node"):
            return "node is not installed"
        if not os.path.isdir(os.path.join(clients_dir(self.ctx), "node_modules/@number0/iroh")):
            return "npm's @number0/iroh is not installed (make test does it)"
        return None

    def rules(self):
        return []

    def target(self, kind):
        return "127.0.0.1", self.base + (0 if kind == "echo" else 1), None

    def start(self):
        env = {**os.environ, "NODE_NO_WARNINGS": "1", "SPANWIRE_CLIENTS": clients_dir(self.ctx)}
        script = os.path.join(self.ctx.here, "peers", "iroh-tunnel.mjs")
        for kind, port, at in (("echo", ECHO, self.base), ("sink", SINK, self.base + 1)):
            log = os.path.join(self.ctx.dir, f"iroh-{kind}.log")
            exit_ = procs.spawn(self.ctx.box.pin(
                [find_program("node"), script, "exit", f"{SERVER}:{port}"], self.cpus), log, env=env)
            self.sides.append(exit_)
            node, address = wait_line(log, r"([0-9a-f]{64}) (127\.[\d.]+:\d+)", exit_).groups()
            entry = procs.spawn(self.ctx.box.pin(
                [find_program("node"), script, "entry", f"127.0.0.1:{at}", node, address],
                self.cpus), log, env=env)
            self.sides.insert(0, entry)
            procs.wait_accepting(entry, "127.0.0.1", at)


class Ngtcp2(Candidate):
    """ngtcp2's own HTTP/3 tools: a file from memory to /dev/null, one stream."""

    name = "ngtcp2"
    MB = 400

    def available(self):
        if not find_program("gtlsserver") or not find_program("gtlsclient"):
            return "ngtcp2-client and ngtcp2-server are not installed"
        return None

    def rules(self):
        return []

    def start(self):
        self.root = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        with open(os.path.join(self.root, "file"), "wb") as f:
            f.truncate(self.MB * 1_000_000)
        tls = self.ctx.tls_dir()
        log = os.path.join(self.ctx.dir, "gtlsserver.log")
        server = procs.spawn(self.ctx.box.pin([
            find_program("gtlsserver"), "-q", "-d", self.root, "--max-stream-data-bidi-local=16M",
            "--max-data=64M", "--max-window=64M", "--max-stream-window=64M", "--no-quic-dump",
            "--no-http-dump", "127.0.0.1", str(self.base), os.path.join(tls, "bench.key"),
            os.path.join(tls, "bench.crt")], self.cpus), log)
        self.sides = [server]
        time.sleep(0.3)
        if server.poll() is not None:
            raise LoadError("gtlsserver ended: " + open(log, encoding="utf-8").read()[-300:])

    def stop(self):
        super().stop()
        if getattr(self, "root", None):
            subprocess.run(["rm", "-rf", self.root], check=False)

    def fetch(self):
        """Bits per second, the handshake of one connection included (1 ms in about a second)."""
        argv = self.ctx.box.pin([
            find_program("gtlsclient"), "-q", "--exit-on-all-streams-close", "--no-quic-dump",
            "--no-http-dump", "--max-data=64M", "--max-stream-data-bidi-local=64M",
            "--max-window=64M", "--max-stream-window=64M", "127.0.0.1", str(self.base),
            f"https://127.0.0.1:{self.base}/file"], self.cpus)
        begin = time.monotonic()
        done = subprocess.run(argv, capture_output=True, timeout=60)
        took = time.monotonic() - begin
        if done.returncode:
            raise LoadError(f"gtlsclient ended with {done.returncode}: {done.stderr[-200:]}")
        return {"gbps": round(self.MB * 8e6 / took / 1e9, 3), "secs": round(took, 3)}


def throughput(ctx, cand):
    return cand.fetch() if isinstance(cand, Ngtcp2) else m.bulk(ctx, cand)


def ratio(ctx, name, data, what, ours, theirs, void):
    a, b = m.series(data, ours, what), m.series(data, theirs, what)
    if a and b:
        ctx.result["ratios"][name] = {"rounds": m.apply(lambda x, y: x / y, a, b), "void": void,
                                      "per_peer": {}}


def run_tunnel(ctx, field_type, relays):
    field = field_type(ctx, "tunnel")
    field.add(Raw)
    field.add_peers(relays)
    if ctx.wants("iroh-node", "node"):
        field.add(Iroh)
    if ctx.wants("ngtcp2", "ngtcp2"):
        field.add(Ngtcp2)
    field.add(Spanwire)
    # Packets as on a real network: with a relay in sight they stay at 1,452 bytes.
    field.add(Spanwire, name="spanwire-1452", place=",relay=http://127.0.0.1:9/")
    with field:
        with_tcp = [n for n in field.names() if n not in ("ngtcp2", "spanwire-1452")]
        data = field.measure("bulk", "gbps", lambda c: throughput(ctx, c))
        void = field.out["bulk"]["void"]
        for peer in ("ngtcp2", "iroh-node", *relays):
            ratio(ctx, f"tunnel.bulk_{peer}", data, "gbps", "spanwire", peer, void)
        ratio(ctx, "tunnel.bulk_1452", data, "gbps", "spanwire-1452", "ngtcp2", void)
        data = field.measure("rtt", "p50_us", lambda c: m.rtt(ctx, c), with_tcp)
        void = field.out["rtt"]["void"]
        for peer in ("iroh-node", *relays):
            ratio(ctx, f"tunnel.rtt_{peer}", data, "p50_us", "spanwire", peer, void)
        data = field.measure("streams", "rate", lambda c: m.cps(ctx, c), with_tcp)
        void = field.out["streams"]["void"]
        for peer in ("iroh-node", *relays):
            ratio(ctx, f"tunnel.streams_{peer}", data, "rate", "spanwire", peer, void)
    link.run_link(ctx, field_type, Spanwire)
    try:
        live_tunnels(ctx)
    except LoadError as e:
        ctx.note(f"tunnel memory: {e}")


class Farm:
    """A thousand devices, each with a key and a socket of its own, in one process."""

    def __init__(self, ctx, count):
        tool = os.path.join(os.path.dirname(ctx.binary), "tests", "tools", "qdevice")
        if not os.access(tool, os.X_OK):
            raise LoadError("tests/tools/qdevice is not built")
        log = os.path.join(ctx.dir, "farm.log")
        self.input, keep = os.pipe()  # it ends when its input does
        with open(log, "wb") as out:
            self.p = subprocess.Popen([tool, os.path.join(ctx.dir, "farm.key"), "--more",
                                       str(count - 1)], stdin=self.input, stdout=out, stderr=out)
        os.close(self.input)
        self.keep = keep
        wait_line(log, rf"(?s)(?:[^\n]*\n){{{count}}}", self.p, 60)
        with open(log, encoding="ascii") as f:
            self.nodes = [line.split() for line in f.read().splitlines()[:count]]

    def close(self):
        os.close(self.keep)
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()


def open_tunnel(port, node):
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    to = f"{SERVER}:{ECHO}"
    s.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nx-iroh-endpoint-id: {node}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(4096)
        if not got:
            raise LoadError(f"no answer: {head[:200]}")
        head += got
    if not head.startswith(b"HTTP/1.1 200"):
        raise LoadError(f"refused: {head[:200]}")
    s.sendall(b"x")
    if s.recv(1) != b"x":
        raise LoadError("no echo")
    return s


def live_tunnels(ctx, count=IDLE_TUNNELS):
    """Memory of a sidecar with one live tunnel to each of many devices, and of many on one."""
    out = ctx.result["suites"]["tunnel"].setdefault("memory", {})
    farm = Farm(ctx, count)
    port, held = 14990, []
    argv = [ctx.binary, "sidecar", "--listen", f"127.0.0.1:{port}", "--key-file",
            os.path.join(ctx.dir, "many.key"), "--admin-addr", "127.0.0.1:0", "--stats-addr",
            "127.0.0.1:0", "--ready-addr", "127.0.0.1:0", "--max-nodes", str(count + 16),
            "--log-level", "warn"]
    for node, at in farm.nodes:
        argv += ["--peer", f"{node}={at}"]
    p = procs.spawn(argv, os.path.join(ctx.dir, "many.log"))
    try:
        procs.wait_accepting(p, "127.0.0.1", port)
        rss0, private0 = procs.memory_kb([p.pid])
        for node, _ in farm.nodes:
            held.append(open_tunnel(port, node))
        time.sleep(2)
        rss, private = procs.memory_kb([p.pid])
        out["connections"] = {"tunnels": count, "rss_mb": round(rss / 1024, 1),
                              "kb_each": round((private - private0) / count, 2)}
        ctx.result["absolutes"]["tunnel.live_rss_mb"] = [round(rss / 1024, 1)]
        ctx.result["absolutes"]["tunnel.conn_kb"] = [round((private - private0) / count, 2)]
        for _ in range(count):
            held.append(open_tunnel(port, farm.nodes[0][0]))
        time.sleep(2)
        more = procs.memory_kb([p.pid])[1]
        out["streams"] = {"tunnels": count, "kb_each": round((more - private) / count, 2)}
        ctx.result["absolutes"]["tunnel.stream_kb"] = [round((more - private) / count, 2)]
        out["start_rss_mb"] = round(rss0 / 1024, 1)
    finally:
        for s in held:
            s.close()
        procs.stop(p)
        farm.close()
