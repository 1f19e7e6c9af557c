# SPDX-License-Identifier: Apache-2.0
"""The suites of `bench/run`. Each fills ctx.result and leaves no process behind."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from . import api
from . import distance
from . import l7
from . import linksites
from . import measure as m
from . import mesh
from . import pods
from . import procs
from . import propagate
from . import relay
from . import sites
from . import tunnel
from .candidates import NodePair, NodePass, Peer, Raw, find_program
from .procs import LoadError

IDLE_PASS, IDLE_TUNNELS = 2500, 1000
BURST, BURST_PAUSE = 32, 0.02
NEW_CONNECTION_EACH = ["--pool-max-streams", "1", "--pool-unused-release", "1ms"]

PEERS = {
    "haproxy": ("haproxy", ["haproxy-tcp.cfg"], False),
    "haproxy-default": ("haproxy", ["haproxy-tcp-default.cfg"], False),
    "nginx": ("nginx", ["nginx-stream.conf"], False),
    "haproxy-connect": ("haproxy", ["haproxy-connect-a.cfg", "haproxy-connect-b.cfg"], True),
    "nghttpx": ("nghttpx", ["nghttpx-a.args", "nghttpx-b.args"], True),
    "stunnel": ("stunnel", ["stunnel-a.conf", "stunnel-b.conf"], False),
    "haproxy-mtls": ("haproxy", ["haproxy-mtls-a.cfg", "haproxy-mtls-b.cfg"], False),
    "nginx-mtls": ("nginx", ["nginx-mtls-a.conf", "nginx-mtls-b.conf"], False),
}
RELAYS = ["haproxy", "nginx"]
SHOWN_RELAYS = ["haproxy", "haproxy-default", "nginx"]
STOCK_RELAYS = ["haproxy-default", "nginx"]  # splice as it comes, see README
TUNNELS = ["haproxy-connect", "nghttpx"]  # what HBONE is compared with
MTLS = ["nginx-mtls", "haproxy-mtls", "stunnel"]

ABSENT = {"h2o": "2.2.5 has neither a CONNECT handler nor an HTTP/2 upstream, so it can be "
                 "neither side of the pair"}


class Field:
    """The candidates of one suite, started together; a missing one is reported, never passed."""

    def __init__(self, ctx, suite, first=1):
        self.ctx = ctx
        self.cands = []
        self.out = ctx.result["suites"].setdefault(suite, {"absent": {}})
        self._index = first

    def add(self, make, *args, **kw):
        cand = make(self.ctx, self._index, *args, **kw)
        self._index += 1
        reason = cand.available()
        if reason:
            self.out["absent"][cand.name] = reason
        else:
            self.cands.append(cand)
        return cand

    def add_peers(self, names):
        for name in names:
            program, files, connect = PEERS[name]
            if self.ctx.wants(name, program):
                self.add(Peer, name, program, files, connect=connect)

    def __enter__(self):
        self.ctx.box.set_redirects([r for c in self.cands for r in c.rules()])
        for c in list(self.cands):
            try:
                c.start()
            except LoadError as e:
                c.stop()
                self.cands.remove(c)
                self.out["absent"][c.name] = f"did not start: {e}"
                self.ctx.note(f"{c.name} did not start: {e}")
        return self

    def __exit__(self, *exc):
        for c in self.cands:
            c.stop()

    def names(self):
        return [c.name for c in self.cands]

    def pick(self, *names):
        return [c for c in self.cands if c.name in names]

    def measure(self, what, key, fn, names=None, slices=1):
        cands = self.cands if names is None else self.pick(*names)
        self.ctx.say(f"  {what}: {', '.join(c.name for c in cands)}")
        data = m.rounds(self.ctx, cands, fn, slices)
        raw = "raw" if "raw" in data else None
        self.out[what] = {"key": key, "rounds": data,
                          "connect": [c.name for c in cands if c.connect],
                          "void": m.void_rounds(data, key) if raw else []}
        if len(self.out[what]["void"]) > m.MAX_VOID_ROUNDS:
            self.ctx.note(f"{what}: {len(self.out[what]['void'])} void rounds, the run is void")
            self.out[what]["void_run"] = True
        return data


def record_ratio(ctx, name, ours, peers, higher, void):
    """Stores the round ratios of our column against the best of the peers' columns."""
    if not peers or not ours or not any(v is not None for v in ours):
        return
    against = m.best(list(peers.values()), higher)
    ratio = m.apply(lambda a, b: a / b, ours, against)
    ctx.result["ratios"][name] = {
        "rounds": ratio, "void": void,
        "per_peer": {p: m.apply(lambda a, b: a / b, ours, col) for p, col in peers.items()},
    }


def columns(data, names, fn):
    return {n: fn(n) for n in names if n in data}


def bulk_ratios(ctx, field, what, suite, peers):
    got = field.out[what]
    data, void = got["rounds"], got["void"]
    raw = m.series(data, "raw", "gbps")

    def marg(n):
        return m.apply(m.marginal, m.series(data, n, "gbps"), raw)

    def plain(n):
        return m.series(data, n, "gbps")

    def percore(n):
        return m.series(data, n, "per_core")

    tail = what.removeprefix("bulk")
    for key, fn in (("bulk", plain), ("marginal", marg), ("percore", percore)):
        record_ratio(ctx, f"{suite}.{key}{tail}", fn("spanwire"), columns(data, peers, fn), True,
                     void)


def rtt_ratios(ctx, field, suite, peers):
    got = field.out["rtt"]
    data = got["rounds"]
    for pct in ("p50", "p99"):
        raw = m.series(data, "raw", pct + "_us")

        def added(n, pct=pct, raw=raw):
            return m.apply(lambda a, b: a - b, m.series(data, n, pct + "_us"), raw)

        name = f"{suite}.rtt_added" + ("" if pct == "p50" else "_p99")
        record_ratio(ctx, name, added("spanwire"), columns(data, peers, added), False, got["void"])


def stock_ratio(ctx, field):
    """Marginal throughput against relays whose splice pipes have the size they come with."""
    got = field.out["bulk"]
    data = got["rounds"]
    raw = m.series(data, "raw", "gbps")

    def marg(n):
        return m.apply(m.marginal, m.series(data, n, "gbps"), raw)

    record_ratio(ctx, "pass.marginal_stock", marg("spanwire"), columns(data, STOCK_RELAYS, marg),
                 True, got["void"])


def run_pass(ctx):
    field = Field(ctx, "pass")
    field.add(Raw)
    field.add_peers(SHOWN_RELAYS)
    field.add(NodePass)
    quiet = field.add(NodePass, name="spanwire-warn", ip="127.0.0.8",
                      extra=["--log-level", "warn"])
    with field:
        main = [n for n in field.names() if n != quiet.name]
        field.measure("bulk", "gbps", lambda c: m.bulk(ctx, c), main)
        bulk_ratios(ctx, field, "bulk", "pass", SHOWN_RELAYS)
        stock_ratio(ctx, field)
        field.measure("rtt", "p50_us", lambda c: m.rtt(ctx, c), main)
        rtt_ratios(ctx, field, "pass", RELAYS)
        data = field.measure("cps", "rate", lambda c: m.cps(ctx, c))
        peers = columns(data, RELAYS, lambda n: m.series(data, n, "rate"))
        # No peer writes a line per connection: the limit compares equal work.
        for name, who in (("pass.cps", quiet.name), ("pass.cps_logged", "spanwire")):
            record_ratio(ctx, name, m.series(data, who, "rate"), peers, True,
                         field.out["cps"]["void"])


def tunnel_ratios(ctx, field):
    """Ours speaks no prelude; it is charged what the prelude costs on the raw loopback."""
    got = field.out["tunnels"]
    data = got["rounds"]
    rate = {n: m.series(data, n, "rate") for n in data}
    ours = "spanwire-warn"  # no peer writes a line per connection: equal work
    if ours not in data or "raw-connect" not in data:
        return
    charged = m.apply(lambda t, raw, rawc: 1 / (1 / t - 1 / raw + 1 / rawc),
                      rate[ours], rate["raw"], rate["raw-connect"])
    peers = columns(data, TUNNELS, lambda n: rate[n])
    record_ratio(ctx, "hbone.tunnels", charged, peers, True, got["void"])
    record_ratio(ctx, "hbone.tunnels_plain", rate[ours], peers, True, got["void"])
    record_ratio(ctx, "hbone.tunnels_logged", rate["spanwire"], peers, True, got["void"])


def run_hbone(ctx):
    field = Field(ctx, "hbone")
    field.add(Raw)
    field.add(Raw, name="raw-connect", connect=True)
    field.add_peers(TUNNELS + ["stunnel", "haproxy-mtls"])
    field.add(NodePair, "spanwire", "127.0.0.2", "127.0.0.3")
    quiet = field.add(NodePair, "spanwire-warn", "127.0.0.6", "127.0.0.7",
                      extra=["--log-level", "warn"])
    field.out["absent"].update(ABSENT)
    with field:
        main = [n for n in field.names() if n not in ("raw-connect", quiet.name)]
        field.measure("bulk", "gbps", lambda c: m.bulk(ctx, c), main)
        bulk_ratios(ctx, field, "bulk", "hbone", TUNNELS)
        field.measure("bulk16", "gbps", lambda c: m.bulk(ctx, c, conns=16), main)
        bulk_ratios(ctx, field, "bulk16", "hbone", TUNNELS)
        field.measure("rtt", "p50_us", lambda c: m.rtt(ctx, c), main)
        rtt_ratios(ctx, field, "hbone", TUNNELS)
        field.measure("tunnels", "rate", lambda c: m.cps(ctx, c),
                      ["raw", "raw-connect", *TUNNELS, "spanwire", quiet.name])
        tunnel_ratios(ctx, field)
    run_scale(ctx)


LINK_PEERS = ["haproxy-mtls", "stunnel"]


def run_link(ctx):
    parts = ctx.link.split(",") if ctx.link else ["loopback", "sites", "imports"]
    if "loopback" in parts:
        run_link_loopback(ctx)
    if {"sites", "imports"} & set(parts):
        linksites.run_sites(ctx, Field, record_ratio, PEERS, parts)


def run_link_loopback(ctx):
    """Two sites: HAProxy and stunnel make a TLS connection for each, as ClusterLink's data planes do."""
    field = Field(ctx, "link")
    field.add(Raw)
    field.add_peers(LINK_PEERS)
    field.add(sites.LinkPair)
    quiet = field.add(sites.LinkPair, "spanwire-warn", extra=["--log-level", "warn"])
    with field:
        main = [n for n in field.names() if n != quiet.name]
        field.measure("bulk", "gbps", lambda c: m.bulk(ctx, c), main)
        bulk_ratios(ctx, field, "bulk", "link", LINK_PEERS)
        field.measure("rtt", "p50_us", lambda c: m.rtt(ctx, c), main)
        rtt_ratios(ctx, field, "link", LINK_PEERS)
        data = field.measure("cps", "rate", lambda c: m.cps(ctx, c))
        peers = columns(data, LINK_PEERS, lambda n: m.series(data, n, "rate"))
        for name, who in (("link.cps", quiet.name), ("link.cps_logged", "spanwire")):
            record_ratio(ctx, name, m.series(data, who, "rate"), peers, True, field.out["cps"]["void"])


def run_scale(ctx):
    """One identity pair, 16 connections: one core with one worker, then two with two."""
    cpus = ctx.two_cpus()
    field = Field(ctx, "scale")
    if not cpus:
        field.out["absent"]["all"] = "fewer than two CPUs"
        return
    field.add(Raw)
    field.add(NodePair, "1 core, 1 worker", "127.0.0.10", "127.0.0.11")
    wide = field.add(NodePair, "2 cores, 2 workers", "127.0.0.12", "127.0.0.13", workers=2)
    half = field.add(NodePair, "2 cores, 1 worker", "127.0.0.14", "127.0.0.15")
    wide.cpus = half.cpus = cpus
    if len(field.cands) < 2:
        return

    def one(cand):
        two = cand in (wide, half)
        ctx.start_server(cpus if two else None, 2 if two else 1)
        return m.bulk(ctx, cand, conns=16, nprocs=2 if two else 1, cpus=cpus if two else None)

    with field:
        data = field.measure("bulk16", "gbps", one)
    ctx.start_server()
    single, double = (m.series(data, n, "gbps") for n in ("1 core, 1 worker", "2 cores, 2 workers"))
    if single and double:
        ctx.result["ratios"]["hbone.scale"] = {
            "rounds": m.apply(lambda a, b: a / (2 * b), double, single),
            "void": field.out["bulk16"]["void"], "per_peer": {}}


def run_handshake(ctx):
    """Each tunnel makes its own mTLS connection; bursts keep a pool from reusing one."""
    field = Field(ctx, "handshake")
    field.add(Raw)
    field.add_peers(MTLS)
    field.add(NodePair, "spanwire", "127.0.0.4", "127.0.0.5", extra=NEW_CONNECTION_EACH)
    with field:
        data = field.measure("rate", "rate", lambda c: m.cps(ctx, c, BURST, BURST_PAUSE))
        for r in data.get("spanwire", []):
            # client to A, A to B, B to server: fewer opens mean that the pool was used.
            if "opens_per_conn" in r and r["opens_per_conn"] < 2.95:
                ctx.note(f"handshake: only {r['opens_per_conn']} connections per tunnel, "
                         "the pool reused some: round dropped")
                r["rate_pooled"] = r.pop("rate")
    void = field.out["rate"]["void"]
    for name, key, higher in (("rate", "rate", True), ("cpu", "cpu_us_per_conn", False)):
        record_ratio(ctx, f"handshake.{name}", m.series(data, "spanwire", key),
                     columns(data, MTLS, lambda n, key=key: m.series(data, n, key)), higher, void)


def idle_cost(ctx, cand, conns):
    """(KB per connection and side, connections held). A warm-up first fills the free lists."""
    procs.run_load(m.load_argv(ctx, cand, "cps", "echo", "--secs", "0.2"), 20)
    time.sleep(0.5)
    sides = range(len(cand.sides))
    before = [procs.memory_kb(cand.pids(i))[1] for i in sides]
    argv = m.load_argv(ctx, cand, "idle", "echo", "--conns", str(conns))
    with procs.Holder(argv) as held:
        time.sleep(1.0)
        after = [procs.memory_kb(cand.pids(i))[1] for i in sides]
    if held["failed"]:
        ctx.note(f"{cand.name}: {held['failed']} of {conns} idle connections failed")
    return [round((a - b) / held["conns"], 3) for a, b in zip(after, before)], held["conns"]


def mem_group(ctx, what, conns, peers, ours):
    field = Field(ctx, "mem")
    field.add_peers(peers)
    field.add(*ours[0], **ours[1])
    table = field.out.setdefault(what, {})
    with field:
        for c in list(field.cands):
            try:
                kb, held = idle_cost(ctx, c, conns)
            except LoadError as e:
                ctx.note(f"mem {what}: {c.name}: {e}")
                continue
            table[c.name] = {"kb_per_conn": kb, "conns": held}
            if c.name == "spanwire":
                for side, value in zip("ab", kb) if len(kb) == 2 else [("", kb[0])]:
                    ctx.result["absolutes"][f"mem.{what}{'_' if side else ''}{side}_kb"] = [value]


def tls_alone(ctx):
    """TLS without HTTP/2: connections made in memory by a small program of our own."""
    tool = os.path.join(os.path.dirname(ctx.binary), "bench", "tlsmem")
    if not os.access(tool, os.X_OK):
        ctx.note("mem tls: bench/tlsmem is not built (meson configure -Dbench=true)")
        return
    done = subprocess.run([tool], capture_output=True, text=True, timeout=60, check=True)
    ctx.result["absolutes"]["mem.tls_kb"] = [round(json.loads(done.stdout)["bytes"] / 1024, 2)]


def run_mem(ctx):
    mem_group(ctx, "pass", IDLE_PASS, RELAYS, ((NodePass,), {}))
    mem_group(ctx, "stream", IDLE_TUNNELS, TUNNELS,
              ((NodePair, "spanwire", "127.0.0.2", "127.0.0.3"),
               {"extra": ["--pool-max-streams", "1000"]}))
    tls_alone(ctx)
    mem_group(ctx, "hbone", IDLE_TUNNELS, MTLS,
              ((NodePair, "spanwire", "127.0.0.4", "127.0.0.5"),
               {"extra": ["--pool-max-streams", "1"]}))


def start_one(ctx, cand, argv):
    """Time to first accept over the rounds, then resident memory of a fresh process."""
    host, port = cand.ready_port()
    ms = []
    for _ in range(ctx.rounds):
        r = procs.run_load([ctx.load, "start", "--to", f"{host}:{port}", "--", *argv], 20)
        ms.append(r["ms"])
    p = procs.spawn(argv, None)
    try:
        procs.wait_accepting(p, host, port)
        time.sleep(0.5)
        rss, private = procs.memory_kb(procs.group_pids(p.pid))
    finally:
        procs.stop(p)
    return {"ms": ms, "rss_mb": round(rss / 1024, 2), "private_mb": round(private / 1024, 2)}


def run_start(ctx):
    field = Field(ctx, "start")
    field.add_peers(["haproxy", "nginx", "nghttpx"])
    field.add(NodePass)
    ctx.box.set_redirects([])
    for c in field.cands:
        try:
            argv = c.command(*c.files[:1]) if isinstance(c, Peer) else c.command()
            field.out[c.name] = start_one(ctx, c, argv)
        except LoadError as e:
            ctx.note(f"start: {c.name}: {e}")
            continue
        if c.name == "spanwire":
            ctx.result["absolutes"]["start.ms"] = field.out[c.name]["ms"]
            ctx.result["absolutes"]["start.rss_mb"] = [field.out[c.name]["rss_mb"]]


def library_bytes(path):
    done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=20)
    libs = {w for line in done.stdout.splitlines() for w in line.split() if w.startswith("/")}
    return sum(os.path.getsize(os.path.realpath(lib)) for lib in libs if os.path.exists(lib))


def run_size(ctx):
    out = ctx.result["suites"].setdefault("size", {"absent": {}})
    paths = {n: find_program(n) for n in ("haproxy", "nginx", "nghttpx", "h2o", "stunnel")}
    paths["spanwire"] = ctx.binary if os.access(ctx.binary, os.X_OK) else None
    for name, path in paths.items():
        if not path:
            out["absent"][name] = "not there"
            continue
        with tempfile.TemporaryDirectory(dir=ctx.dir) as tmp:
            copy = os.path.join(tmp, "x")
            shutil.copy(os.path.realpath(path), copy)
            subprocess.run(["strip", copy], capture_output=True, timeout=30)
            out[name] = {"mb": round(os.path.getsize(copy) / 1e6, 3),
                         "libs_mb": round(library_bytes(path) / 1e6, 2)}
    if "spanwire" in out:
        ctx.result["absolutes"]["size.mb"] = [out["spanwire"]["mb"]]


def run_floors(ctx):
    """What nothing can beat: the loopback itself and the primitives of the TLS library."""
    field = Field(ctx, "floors")
    field.add(Raw)
    field.add(Raw, name="raw-connect", connect=True)
    direct = field.add(Raw, name="raw-direct")
    direct.target = lambda kind: (*direct._listening(kind), None)
    with field:
        field.measure("bulk", "gbps", lambda c: m.bulk(ctx, c), ["raw", "raw-direct"])
        field.measure("bulk16", "gbps", lambda c: m.bulk(ctx, c, conns=16), ["raw", "raw-direct"])
        field.measure("rtt", "p50_us", lambda c: m.rtt(ctx, c), ["raw", "raw-direct"])
        field.measure("cps", "rate", lambda c: m.cps(ctx, c))
    if os.access(ctx.floor_tool, os.X_OK):
        done = subprocess.run(ctx.box.pin([ctx.floor_tool]), capture_output=True, text=True,
                              timeout=60)
        field.out["aead"] = done.stdout.strip().splitlines()
    speed = ["openssl", "speed", "-seconds", "1", "ecdsap256", "ecdhx25519"]
    done = subprocess.run(ctx.box.pin(speed), capture_output=True, text=True, timeout=60)
    field.out["openssl"] = [l for l in done.stdout.splitlines() if "bits" in l or "op/s" in l]


def run_api(ctx):
    api.run_api(ctx, Field)


def run_l7(ctx):
    l7.run_l7(ctx, Field)


def run_relay(ctx):
    relay.run(ctx, ctx.result["suites"].setdefault("relay", {"absent": {}}))


def run_tunnel(ctx):
    tunnel.run_tunnel(ctx, Field, RELAYS)


def run_mesh(ctx):
    parts = ctx.mesh.split(",") if ctx.mesh else ["push", "node", "pods"]
    if "push" in parts:
        mesh.run_mesh(ctx)
    if "node" in parts:
        mesh.run_nodes(ctx)
    if "pods" not in parts:
        return
    try:
        pods.run_pods(ctx, Field, record_ratio)
    except LoadError as e:
        ctx.note(f"mesh pods: {e}")


SUITES = {"pass": run_pass, "hbone": run_hbone, "link": run_link, "handshake": run_handshake, "mem": run_mem,
          "l7": run_l7, "propagate": propagate.run_propagate, "api": run_api, "tunnel": run_tunnel,
          "relay": run_relay, "distance": distance.run_distance, "mesh": run_mesh,
          "start": run_start, "size": run_size, "floors": run_floors}
ONLY_WHEN_ASKED = {"distance"}  # a quarter of an hour by itself
