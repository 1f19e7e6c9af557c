# SPDX-License-Identifier: Apache-2.0
"""Suite `distance`: the connector tunnel over a line of 20, 80 and 200 ms that loses packets (bench/line.c).

Two namespaces with nothing between them but the line. The sidecar and the client are at the near
end, the device and its service at the far end, the relay beside the device. Every measurement has
processes and a connection of its own and counts from the first byte on: starting up is part of it.

Peers: native iroh endpoints that forward TCP connections (`NATIVE_IROH_BIN`, see README), and the
kernel's TCP without any proxy or encryption, with cubic and with BBR.
"""
import json
import os
import re
import subprocess
import sys
import time

from . import link
from . import measure as m
from . import procs
from .procs import LoadError

NEAR, FAR = "10.99.0.1", "10.99.0.2"
SERVICE, TUNNEL, LISTEN, RELAY = 7000, 7001, 7002, 7003
RATE = 300  # Mb/s
SECS = 6.0
ROUND_TRIPS, LOSSES = (20, 80, 200), (0, 0.1, 1)
SHARED_RATE, SHARED_RTT, SHARED_SECS = 100, 40, 12.0
WAIT = 20.0


def bdp_kb(rate, rtt):
    return rate * rtt / 8


class Child:
    """A program in a namespace that answers every line with a line."""

    def __init__(self, ns, argv, env=None):
        self.p = subprocess.Popen(["nsenter", f"--net={ns}", *argv], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        if self.p.stdout.readline() != "ready\n":
            self.p.kill()
            raise LoadError(f"{argv[1:4]} did not start")

    def ask(self, text=""):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def close(self):
        if self.p.poll() is None:
            self.p.stdin.close()
            try:
                self.p.wait(5)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()


class World:
    """The namespaces, held by a process each, the line and the service."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.tool = os.path.join(os.path.dirname(ctx.binary), "tests", "tools", "line")
        self.holders = [procs.spawn(["unshare", "-n", "sleep", "infinity"], None) for _ in range(2)]
        own = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + WAIT
        self.near, self.far = (f"/proc/{p.pid}/ns/net" for p in self.holders)
        while own in (os.readlink(self.near), os.readlink(self.far)) and time.monotonic() < end:
            time.sleep(0.01)
        self.line = self.service = None

    def inside(self, ns, *argv):
        return ["nsenter", f"--net={ns}", *argv]

    def ip(self, ns, text):
        done = subprocess.run(self.inside(ns, "ip", *text.split()), capture_output=True, text=True, timeout=15)
        if done.returncode:
            raise LoadError(f"ip {text}: {done.stderr.strip()}")

    def lay(self, **settings):
        """A new line, with nothing in it."""
        self.cut()
        argv = [self.tool, self.near, self.far]
        for key, value in settings.items():
            argv += [key, str(value)]
        chrt = ["chrt", "-r", "2"] if self.ctx.box.realtime else []
        self.line = Child("/proc/self/ns/net", chrt + argv)
        for ns, own, other in ((self.near, NEAR, FAR), (self.far, FAR, NEAR)):
            self.ip(ns, "link set lo up")
            self.ip(ns, f"addr add {own} peer {other} dev line")
            self.ip(ns, "link set line txqueuelen 5000 up")
        self.service = self.flow(self.far, "serve", SERVICE)

    def flow(self, ns, *argv, congestion=None):
        program = os.path.join(self.ctx.here, "driver", "flow.py")
        return Child(ns, [sys.executable, program, *map(str, argv)],
                     {"CONGESTION": congestion} if congestion else None)

    def cut(self):
        for c in (self.service, self.line):
            if c:
                c.close()
        self.service = self.line = None

    def close(self):
        self.cut()
        for p in self.holders:
            procs.stop(p)


class Way:
    """One way to bring bytes over the line; 'index' keeps two of them apart."""

    def __init__(self, world, index=0):
        self.w, self.ctx, self.index, self.procs = world, world.ctx, index, []

    def path(self, name):
        return os.path.join(self.ctx.dir, f"distance-{self.index}-{name}")

    def spawn(self, ns, name, *argv):
        log = self.path(name + ".log")
        if os.path.exists(log):
            os.unlink(log)
        p = procs.spawn(self.w.inside(ns, *argv), log)
        self.procs.append(p)
        return p, log

    def said(self, p, log, pattern):
        end = time.monotonic() + WAIT
        while time.monotonic() < end and p.poll() is None:
            with open(log, encoding="utf-8", errors="replace") as f:
                found = re.search(pattern, f.read())
            if found:
                return found
            time.sleep(0.02)
        with open(log, encoding="utf-8", errors="replace") as f:
            raise LoadError(f"did not say {pattern!r}: {f.read()[-300:]}")

    def stop(self):
        while self.procs:
            procs.stop(self.procs.pop())


class Tcp(Way):
    def __init__(self, world, congestion, index=0):
        super().__init__(world, index)
        self.congestion, self.port = congestion, SERVICE

    def start(self):
        pass

    def open(self, way, streams):
        if way == "down":
            raise LoadError("plain TCP is measured one way")
        return self.w.flow(self.w.near, way, FAR, self.port, streams, congestion=self.congestion)


class Spanwire(Way):
    def __init__(self, world, congestion="bbr", relay=False, index=0):
        super().__init__(world, index)
        self.congestion, self.relay = congestion, relay

    def start(self):
        k, b = 10 * self.index, self.ctx.binary
        place, extra = f"{FAR}:{TUNNEL + k}", []
        if self.relay:
            url = f"http://{FAR}:{RELAY}"
            p, log = self.spawn(self.w.far, "relay", b, "relay", "--open", "--rate-limit", "0", "--listen",
                                f"{FAR}:{RELAY}", "--workers", "1", "--admin-addr", "127.0.0.1:0", "--stats-addr",
                                "127.0.0.1:0", "--ready-addr", "127.0.0.1:0")
            self.said(p, log, "ready|listening")
            place, extra = f"relay={url}/", ["--relay", url + "/"]
        p, log = self.spawn(self.w.far, "device", b, "connector", "run", "--standalone", "--data", self.path("device"),
                            "--bind", f"{FAR}:{TUNNEL + k}", "--allow", f"127.0.0.1:{SERVICE}", "--open",
                            "--admin-addr", "127.0.0.1:0", "--congestion", self.congestion, *extra)
        node = self.said(p, log, r"\b([0-9a-f]{64})\b").group(1)
        if self.relay:
            self.said(p, log, "relay")
            time.sleep(0.5)
        p, log = self.spawn(self.w.near, "sidecar", b, "sidecar", "--listen", f"127.0.0.1:{LISTEN + k}", "--key-file",
                            self.path("key"), "--bind", f"{NEAR}:0", "--peer", f"{node}={place}", "--admin-addr",
                            "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0",
                            "--congestion", self.congestion)
        self.said(p, log, "\tsidecar\tready")
        self.header = f"x-iroh-endpoint-id: {node}"

    def open(self, way, streams):
        return self.w.flow(self.w.near, way, "127.0.0.1", LISTEN + 10 * self.index, streams,
                           f"127.0.0.1:{SERVICE}", self.header)


class Native(Way):
    def start(self):
        native = link.native_binary(self.ctx)
        k = 10 * self.index
        p, log = self.spawn(self.w.far, "exit", native, "--bind", f"{FAR}:{TUNNEL + k}", "exit",
                            f"127.0.0.1:{SERVICE}")
        node = self.said(p, log, r'"id":\s*"([0-9a-f]{64})"').group(1)
        p, log = self.spawn(self.w.near, "entry", native, "--bind", f"{NEAR}:0", "entry",
                            f"{node}={FAR}:{TUNNEL + k}", f"127.0.0.1:{LISTEN + k}")
        self.said(p, log, '"start"')
        time.sleep(0.5)

    def open(self, way, streams):
        return self.w.flow(self.w.near, way, "127.0.0.1", LISTEN + 10 * self.index, streams)


def receiver(world, flow, way):
    return world.service if way == "up" else flow


def transfer(world, way_type, way, streams, secs):
    """Mb/s from the first byte on."""
    w = way_type()
    try:
        w.start()
        before = int(world.service.ask())
        flow = w.open(way, streams)
        try:
            end = receiver(world, flow, way)
            time.sleep(secs)
            got = int(end.ask()) - (before if way == "up" else 0)
        finally:
            flow.close()
        return round(got * 8 / secs / 1e6, 1)
    finally:
        w.stop()


def attempt(ctx, what, fn):
    try:
        return fn()
    except (LoadError, ValueError, BrokenPipeError) as e:
        ctx.note(f"distance: {what}: {e}")
        return None


def speeds(ctx, world, ways, secs, out):
    for rtt in ROUND_TRIPS:
        for loss in LOSSES:
            row = out.setdefault(f"{rtt} ms, {loss:g} %", {})
            for way, streams in (("up", 1), ("down", 1), ("down", 8)):
                for name, make in ways.items():
                    if name.startswith("tcp") and (way, streams) != ("up", 1):
                        continue
                    world.lay(delay=rtt / 2, rate=RATE, queue=bdp_kb(RATE, rtt), loss=loss)
                    rate = attempt(ctx, name, lambda: transfer(world, make, way, streams, secs))
                    row.setdefault(name, {}).setdefault(f"{way} {streams}", []).append(rate)
            ctx.say(f"  {rtt} ms, {loss:g} %: " + json.dumps(row))


def relayed(ctx, world, secs, out):
    for rtt, loss in ((80, 0), (80, 1)):
        row = out.setdefault(f"{rtt} ms, {loss:g} %, relay", {})
        for way in ("up", "down"):
            world.lay(delay=rtt / 2, rate=RATE, queue=bdp_kb(RATE, rtt), loss=loss)
            rate = attempt(ctx, "relay", lambda: transfer(world, lambda: Spanwire(world, relay=True), way, 1, secs))
            row.setdefault("spanwire", {}).setdefault(f"{way} 1", []).append(rate)
        ctx.say(f"  {rtt} ms, {loss:g} %, relay: " + json.dumps(row))


def rising(ctx, world, ways, secs, out):
    """One tunnel while the delay rises: Mb/s in the second half of each phase."""
    for name, make in ways.items():
        for way in ("up", "down"):
            world.lay(delay=0, rate=RATE, queue=bdp_kb(RATE, 80))
            out.setdefault(name, {})[way] = attempt(ctx, name, lambda: phases(world, make(), way, secs))
        ctx.say(f"  rising delay: {name}: {json.dumps(out[name])}")


def phases(world, w, way, secs):
    try:
        w.start()
        flow = w.open(way, 1)
        end, rates = receiver(world, flow, way), {}
        for rtt in (0, 20, 80):
            world.line.ask(f"delay {rtt / 2}")
            time.sleep(secs / 2)
            before = int(end.ask())
            time.sleep(secs / 2)
            rates[f"{rtt} ms"] = round((int(end.ask()) - before) * 16 / secs / 1e6, 1)
        flow.close()
        return rates
    finally:
        w.stop()


def shares(ctx, world, pairs, out):
    """Two flows through one bottleneck, queues of one and four bandwidth-delay products."""
    for a, b in pairs:
        for products in (1, 4):
            world.lay(delay=SHARED_RTT / 2, rate=SHARED_RATE, queue=products * bdp_kb(SHARED_RATE, SHARED_RTT))
            both = attempt(ctx, "shares", lambda: share(world, a, b))
            out[f"{a} and {b}, queue {products}"] = both
            ctx.say(f"  {a} and {b}, queue {products}: {json.dumps(both)}")


def maker(world, name, index):
    kinds = {"tcp-cubic": lambda: Tcp(world, "cubic", index), "tcp-bbr": lambda: Tcp(world, "bbr", index),
             "native": lambda: Native(world, index), "spanwire": lambda: Spanwire(world, index=index),
             "spanwire-cubic": lambda: Spanwire(world, "cubic", index=index)}
    return kinds[name]


def share(world, a, b):
    """Mb/s of each, both the same way; plain TCP has a service of its own."""
    ways = [maker(world, name, k)() for k, name in enumerate((a, b))]
    with_tcp = any(isinstance(w, Tcp) for w in ways)
    opened, ends = [], []
    try:
        for k, w in enumerate(ways):
            w.start()
            if isinstance(w, Tcp):
                w.port = SERVICE + 20 + k
                ends.append(world.flow(world.far, "serve", w.port))
                opened += [w.open("up", 1), ends[-1]]
            else:
                opened.append(w.open("up" if with_tcp else "down", 1))
                ends.append(world.service if with_tcp else opened[-1])
            time.sleep(3)  # the second one is through its slow start when counting begins
        before = [int(e.ask()) for e in ends]
        time.sleep(SHARED_SECS)
        return [round((int(e.ask()) - n) * 8 / SHARED_SECS / 1e6, 1) for e, n in zip(ends, before)]
    finally:
        for f in opened:
            f.close()
        for w in ways:
            w.stop()


def record(ctx, out):
    """Ours against native, every distance, loss and direction: the least favourable one is judged."""
    for kind, pick in (("clean", lambda k: k.endswith(", 0 %")), ("lossy", lambda k: not k.endswith(", 0 %"))):
        rounds = []
        for key, row in out["speeds"].items():
            ours, theirs = row.get("spanwire", {}), row.get("native", {})
            for flow in ours:
                pairs = zip(ours[flow], theirs.get(flow, []))
                if pick(key):
                    rounds += [a / b for a, b in pairs if a and b]
        if rounds:
            ctx.result["ratios"][f"distance.{kind}"] = {"rounds": [min(rounds)], "void": [], "per_peer": {}}
            ctx.result["ratios"][f"distance.{kind}_median"] = {
                "rounds": [m.summary(rounds)["median"]], "void": [], "per_peer": {}}


def run_distance(ctx):
    out = ctx.result["suites"].setdefault("distance", {"absent": {}})
    native = link.native_binary(ctx)
    if not os.access("/dev/net/tun", os.W_OK):
        out["absent"]["line"] = "no /dev/net/tun"
        return
    world = World(ctx)
    names = ["spanwire", "native", "tcp-cubic", "tcp-bbr"]
    if not os.access(native, os.X_OK):
        out["absent"]["native"] = "not built (make interop does it), NATIVE_IROH_BIN is not set"
        names.remove("native")
    ways = {n: maker(world, n, 0) for n in names if n == "spanwire" or ctx.wants(n, n)}
    secs = max(SECS, ctx.secs)
    pairs = [("spanwire", "spanwire"), ("spanwire", "spanwire-cubic"), ("spanwire", "tcp-bbr"),
             ("spanwire", "tcp-cubic"), ("tcp-bbr", "tcp-cubic")]
    if "native" in ways:
        pairs += [("spanwire", "native"), ("native", "native")]
    try:
        out["speeds"] = {}
        for _ in range(ctx.rounds):
            speeds(ctx, world, ways, secs, out["speeds"])
            relayed(ctx, world, secs, out["speeds"])
        rising(ctx, world, {n: w for n, w in ways.items() if not n.startswith("tcp")}, secs, out.setdefault("rising", {}))
        shares(ctx, world, pairs, out.setdefault("shares", {}))
        record(ctx, out)
    finally:
        world.close()
