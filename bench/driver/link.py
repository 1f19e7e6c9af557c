# SPDX-License-Identifier: Apache-2.0
"""The part of suite `tunnel` on a link with packets of 1,500 bytes, beside native iroh endpoints.

Client and entry are in the namespace of the run, exit and server in another one; the wire between
them is a veth pair. Everything shares the CPU of the run as elsewhere. The native pair is the
program of tests/interop/iroh: its leanest forwarders (`iroh`), and both roles of iroh-proxy-utils
(`iroh-proxy`), which speak the protocol our own pair speaks.
"""
import json
import os
import re
import subprocess
import time

from . import measure as m
from . import procs
from .candidates import CONNECT, ECHO, SERVER, SINK, Candidate, Raw
from .procs import LoadError
from .sandbox import run_quiet

HERE, THERE = "10.77.0.1", "10.77.0.2"
IDLE_TUNNELS = 1000
FLOORS = ("hop", "packets")
STARTED = re.compile(r'\{[^\n]*"event":"start"[^\n]*\}')


def native_binary(ctx):
    """The program of tests/interop/iroh, built by `make interop` or given."""
    return os.environ.get("NATIVE_IROH_BIN") or os.path.join(os.path.dirname(ctx.binary), "interop", "iroh", "native")


class Link:
    """The namespace at the other end of a veth pair, with a server of its own."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.server = None
        holder = ["unshare", "-n", "sleep", "100000"]
        self.holder = procs.spawn(holder, None)
        self.inside = ["nsenter", "-t", str(self.holder.pid), "-n"]

    def __enter__(self):
        own = os.stat("/proc/self/ns/net").st_ino
        end = time.monotonic() + 5
        while os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino == own:
            if time.monotonic() > end:
                raise LoadError("no second network namespace")
            time.sleep(0.01)
        for argv in (["ip", "link", "add", "link0", "mtu", "1500", "type", "veth", "peer", "name", "link1", "mtu", "1500",
                      "netns", str(self.holder.pid)],
                     ["ip", "addr", "add", f"{HERE}/24", "dev", "link0"], ["ip", "link", "set", "link0", "up"],
                     [*self.inside, "ip", "addr", "add", f"{THERE}/24", "dev", "link1"],
                     [*self.inside, "ip", "link", "set", "link1", "up"]):
            done = run_quiet(argv)
            if done.returncode:
                raise LoadError(f"no veth pair: {done.stderr.strip()[:200]}")
        self.ctx.box.prepare_loopback(self.inside)
        self.serve()
        return self

    def serve(self, cpus=None):
        """Starts the server, or starts it again on other CPUs."""
        if self.server:
            procs.stop(self.server)
        argv = [self.ctx.load, "serve", "--echo", f"0.0.0.0:{ECHO}", "--sink", f"0.0.0.0:{SINK}",
                "--connect-server", f"0.0.0.0:{CONNECT}", "--procs", "1"]
        self.server = procs.spawn(self.ctx.box.pin([*self.inside, *argv], cpus), os.path.join(self.ctx.dir, "there.log"))
        procs.wait_accepting(self.server, THERE, ECHO)

    def __exit__(self, *exc):
        if self.server:
            procs.stop(self.server)
        procs.stop(self.holder)  # takes the namespace and the pair with it


class RawLink(Raw):
    """TCP over the link, nothing between."""

    def target(self, kind):
        return THERE, ECHO if kind == "echo" else SINK, None

    def rules(self):
        return []


class Hop(Raw):
    """A TCP connection on the loopback of the run: a tunnel has one at each end."""

    def target(self, kind):
        return SERVER, ECHO if kind == "echo" else SINK, None

    def rules(self):
        return []


class Packets(Candidate):
    """The packets of a tunnel over the link without a protocol in them: bench/packets.c."""

    name = "packets"
    peer = False

    def __init__(self, ctx, index, link):
        super().__init__(ctx, index)
        self.link = link
        self.tool = os.path.join(os.path.dirname(ctx.binary), "bench", "packets")

    def available(self):
        return None if os.access(self.tool, os.X_OK) else "bench/packets is not built"

    def rules(self):
        return []

    def bulk(self):
        argv = [self.tool, HERE, THERE, str(self.ctx.secs), f"/proc/{self.link.holder.pid}/ns/net"]
        done = subprocess.run(self.ctx.box.pin(argv), capture_output=True, text=True, timeout=self.ctx.secs + 15)
        if done.returncode:
            raise LoadError(f"packets: {done.stderr.strip()[-200:]} {done.stdout.strip()[-200:]}")
        return json.loads(done.stdout)


def started(log, p):
    """What an endpoint says of itself: (id, address)."""
    end = time.monotonic() + 10
    while time.monotonic() < end and p.poll() is None:
        with open(log, encoding="utf-8", errors="replace") as f:
            found = STARTED.search(f.read())
        if found:
            said = json.loads(found.group(0))
            return said["id"], said["addrs"][0]
        time.sleep(0.02)
    with open(log, encoding="utf-8", errors="replace") as f:
        raise LoadError(f"the native endpoint did not start: {f.read()[-300:]}")


class NativePair(Candidate):
    """Two native endpoints, a connection between them for each of the two servers."""

    threads = 0  # of each: everything on one, the best there is on one CPU

    def __init__(self, ctx, index, link, name):
        super().__init__(ctx, index)
        self.link, self.name = link, name

    def available(self):
        if not os.access(native_binary(self.ctx), os.X_OK):
            return "the native endpoints are not built (make interop does it), NATIVE_IROH_BIN is not set"
        return None

    def rules(self):
        return []

    def target(self, kind):
        return "127.0.0.1", self.base + (0 if kind == "echo" else 1), None

    def _spawn(self, log, inside, *args):
        argv = [*inside, native_binary(self.ctx), "--threads", str(self.threads), "--streams", "4096", *args]
        return procs.spawn(self.ctx.box.pin(argv, self.cpus), os.path.join(self.ctx.dir, log))

    def _exit(self):
        return ["exit", f"{SERVER}:{ECHO}", f"{SERVER}:{SINK}"]

    def _entry(self, node):
        return ["entry", node, f"127.0.0.1:{self.base}", f"127.0.0.1:{self.base + 1}"]

    def start(self):
        log = f"{self.name}-exit-{self.base}.log"  # of this pair alone: its first line is what is looked for
        far = self._spawn(log, self.link.inside, "--bind", f"{THERE}:0", *self._exit())
        self.sides = [far]
        node = "=".join(started(os.path.join(self.ctx.dir, log), far))
        near = self._spawn(f"{self.name}-entry-{self.base}.log", [], "--bind", f"{HERE}:0", *self._entry(node))
        self.sides = [near, far]
        procs.wait_accepting(near, "127.0.0.1", self.base + 1)


class ProxyPair(NativePair):
    """iroh-proxy-utils: a CONNECT on each stream, as our own pair speaks it."""

    def _exit(self):
        return ["device"]

    def _entry(self, node):
        return ["edge", node, "--tcp", f"127.0.0.1:{self.base}={SERVER}:{ECHO}",
                "--tcp", f"127.0.0.1:{self.base + 1}={SERVER}:{SINK}"]


def cpu_per_gib(r):
    """Of both sides, seconds."""
    if r.get("cpu_s") and r.get("total_bytes"):
        r["cpu_per_gib"] = round(r["cpu_s"] * (1 << 30) / r["total_bytes"], 4)
    return r


def record(ctx, name, data, key, peers, void, better=max, beside=()):
    """Ours against the better of the native pairs, round by round; those in 'beside' are only shown."""
    ours = m.series(data, "spanwire", key)
    columns = {p: m.series(data, p, key) for p in (*peers, *beside) if p in data}
    judged = [columns[p] for p in peers if p in columns]
    if not judged or not any(ours):
        return
    best = m.best(judged, better is max)
    ctx.result["ratios"][name] = {
        "rounds": m.apply(lambda a, b: a / b, ours, best), "void": void,
        "per_peer": {p: m.apply(lambda a, b: a / b, ours, c) for p, c in columns.items()}}


def idle_streams(ctx, cand, out):
    """User memory of both sides per tunnel that had one byte and idles."""
    before = procs.memory_kb(cand.pids())[1]
    with procs.Holder(m.load_argv(ctx, cand, "idle", "echo", "--conns", str(IDLE_TUNNELS))) as held:
        time.sleep(1)
        rss, after = procs.memory_kb(cand.pids())
    if held["failed"]:
        ctx.note(f"link memory: {cand.name}: {held['failed']} of {IDLE_TUNNELS} tunnels failed")
    out[cand.name] = {"kb_each": round((after - before) / max(1, held["conns"]), 2), "held": held["conns"],
                      "rss_mb": round(rss / 1024, 1)}


def line_up(ctx, field_type, spanwire, link, first):
    """The candidates, and which of them are native."""
    field = field_type(ctx, "tunnel", first=first)
    field.add(RawLink)
    natives = []
    for name, make in (("iroh", NativePair), ("iroh-proxy", ProxyPair)):
        if ctx.wants(name, "iroh"):
            field.add(make, link, name)
            natives.append(name)
    field.add(spanwire, bind=THERE, inside=link.inside)
    return field, natives


def one_bulk(ctx, cand, conns, cpus):
    return cand.bulk() if isinstance(cand, Packets) else cpu_per_gib(m.bulk(ctx, cand, conns=conns, cpus=cpus))


def record_ceiling(ctx, data, natives, void):
    """What a tunnel would reach whose QUIC costs nothing: a hop of TCP at each end, packets between them."""
    costs = m.apply(lambda hop, packets: 1 / (2 / hop + 1 / packets), m.series(data, "hop", "gbps"),
                    m.series(data, "packets", "gbps"))
    ctx.result["absolutes"]["tunnel.bulk_ceiling_gbps"] = costs
    columns = [m.series(data, n, "gbps") for n in natives if n in data]
    if columns:
        ctx.result["ratios"]["tunnel.bulk_ceiling_native"] = {
            "rounds": m.apply(lambda a, b: a / b, costs, m.best(columns, True)), "void": void, "per_peer": {}}


def measure_bulk(ctx, field, natives, tail="", cpus=None):
    for what, conns in (("bulk", 1), ("bulk8", 8)):
        title = f"link {what}{tail.replace('_', ' ')}"
        names = [n for n in field.names() if conns == 1 or n not in FLOORS]
        data = field.measure(title, "gbps", lambda c, n=conns: one_bulk(ctx, c, n, cpus), names)
        field.out[title]["view"] = "link"
        void = field.out[title]["void"]
        record(ctx, f"tunnel.{what}{tail}_native", data, "gbps", natives, void)
        record(ctx, f"tunnel.{what}_cpu{tail}_native", data, "cpu_per_gib", natives, void, min)
        if all(n in data for n in FLOORS):
            record_ceiling(ctx, data, natives, void)


def run_shipped(ctx, field_type, spanwire, link):
    """As users run it: every CPU for everybody, a worker for each in the native runtime, ours by default."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        ctx.note("tunnel: one CPU, so nothing is measured as shipped")
        return
    where = ",".join(map(str, cpus))
    field, natives = line_up(ctx, field_type, spanwire, link, 60)
    for cand in field.cands:
        cand.cpus = where
        cand.threads = len(cpus)
    link.serve(where)
    with field:
        measure_bulk(ctx, field, natives, "_shipped", where)


def run_on(ctx, field_type, spanwire, link):
    field, natives = line_up(ctx, field_type, spanwire, link, 40)  # the candidates of the loopback have the first ports
    field.add(Hop, "hop")
    field.add(Packets, link)
    with field:
        measure_bulk(ctx, field, natives)
        tunnels = [n for n in field.names() if n not in FLOORS]
        data = field.measure("link rtt", "p50_us", lambda c: m.rtt(ctx, c), tunnels)
        record(ctx, "tunnel.rtt_native", data, "p50_us", natives, field.out["link rtt"]["void"], min)
        # Clients of this one have loopback addresses, which do not pass the link: no 'raw'.
        pairs = [n for n in tunnels if n != "raw"]
        data = field.measure("link streams", "rate", lambda c: m.cps(ctx, c), pairs)
        # The lean pair opens a stream and is done; a tunnel of ours and of iroh-proxy-utils is asked for and answered.
        record(ctx, "tunnel.streams_native", data, "rate", ["iroh-proxy"], field.out["link streams"]["void"],
               beside=["iroh"])
        memory = field.out.setdefault("link memory", {})
        for cand in field.pick(*pairs):
            try:
                idle_streams(ctx, cand, memory)
            except LoadError as e:
                ctx.note(f"link memory: {cand.name}: {e}")


def run_link(ctx, field_type, spanwire):
    if ctx.box.namespace == "none":
        ctx.note("tunnel: no own network namespace, so no link with packets of 1,500 bytes")
        return
    try:
        with Link(ctx) as link:
            run_on(ctx, field_type, spanwire, link)
            run_shipped(ctx, field_type, spanwire, link)
    except LoadError as e:
        ctx.note(f"tunnel: link: {e}")
