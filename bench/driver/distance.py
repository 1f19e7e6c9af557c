# SPDX-License-Identifier: Apache-2.0
"""Suite `distance`: the connector tunnel over a line of 20, 80 and 200 ms that loses packets (line.py).

Every transfer has processes and a connection of its own and counts from the first byte on: starting
up is part of it. Peers: native iroh endpoints that forward TCP connections (`NATIVE_IROH_BIN`, see
README), through a relay with the real iroh-relay between them (`NATIVE_IROH_RELAY`), and the
kernel's TCP without any proxy or encryption, with cubic and with BBR.
"""
import contextlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from . import line, link, procs
from . import measure as m
from . import relay as relays
from .procs import LoadError

PARTS = ("speeds", "relay", "tunnels", "rising", "share")  # and "tcp", when it is asked for
RATE = 300  # Mb/s
SECS = 6.0
ROUND_TRIPS, LOSSES = (20, 80, 200), (0, 0.1, 1)
FLOWS = (("up", 1), ("down", 1), ("up", 8), ("down", 8))
RELAYED = ((20, 0), (80, 0), (80, 1), (200, 0))
TUNNELS_RTT, TUNNELS_SECS = 80, 3.0
ECHO_PORT = 7100
IDLE_HOLDERS, IDLE_EACH = 20, 25
SHARED_RATE, SHARED_RTT, SHARED_SECS = 100, 40, 12.0


def bdp_kb(rate, rtt):
    return rate * rtt / 8


def lay(world, rtt, loss):
    world.lay(delay=rtt / 2, rate=RATE, queue=bdp_kb(RATE, rtt), loss=loss)


def secs_at(rtt, secs):
    """Starting up is over after some round trips: short ones need less time."""
    return secs * 2 / 3 if rtt <= 20 else secs


def receiver(world, flow, way):
    return world.service if way == "up" else flow


def moved(world, w, way, streams, secs):
    """A transfer over a way that has started: Mb/s from the first byte on, and what it cost both ends."""
    before, cpu = int(world.service.ask()), procs.cpu_seconds(w.pids())
    flow = w.open(way, streams)
    try:
        end = receiver(world, flow, way)
        time.sleep(secs)
        got = int(end.ask()) - (before if way == "up" else 0)
        cpu = procs.cpu_seconds(w.pids()) - cpu
    finally:
        flow.close()
    return link.cpu_per_gib({"mbps": round(got * 8 / secs / 1e6, 1), "cpu_s": round(cpu, 4), "total_bytes": got})


def transfer(world, make, way, streams, secs):
    """Mb/s of processes that serve nothing else."""
    w = make()
    try:
        w.start()
        return moved(world, w, way, streams, secs)["mbps"]
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
            for way, streams in FLOWS:
                for name, make in ways.items():
                    if name.startswith("tcp") and (way, streams) != ("up", 1):
                        continue
                    lay(world, rtt, loss)
                    rate = attempt(ctx, name, lambda: transfer(world, make, way, streams, secs_at(rtt, secs)))
                    row.setdefault(name, {}).setdefault(f"{way} {streams}", []).append(rate)
            ctx.say(f"  {rtt} ms, {loss:g} %: " + json.dumps(row))


def relayed(ctx, world, ways, secs, out):
    """Everything through a relay beside the device: ours through ours, native through iroh-relay."""
    for rtt, loss in RELAYED:
        row = out.setdefault(f"{rtt} ms, {loss:g} %", {})
        for way in ("up", "down"):
            for name, make in ways.items():
                lay(world, rtt, loss)
                rate = attempt(ctx, f"{name} by relay", lambda: transfer(world, make, way, 1, secs_at(rtt, secs)))
                row.setdefault(name, {}).setdefault(f"{way} 1", []).append(rate)
        ctx.say(f"  {rtt} ms, {loss:g} %, relay: " + json.dumps(row))


def idle_kb(ctx, w):
    """User memory of both ends per tunnel that had one byte and idles; several clients open them at once."""
    holders = [procs.Holder(m.load_argv(ctx, w, "idle", "echo", "--conns", str(IDLE_EACH))) for _ in range(IDLE_HOLDERS)]
    before = procs.memory_kb(w.pids())[1]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(IDLE_HOLDERS) as pool:
        opened = [pool.submit(h.__enter__) for h in holders]
        for h, done in zip(holders, opened):
            done.result()
            stack.push(h)
        time.sleep(1)
        held = sum(done.result()["conns"] for done in opened)
        return {"held": held, "kb_each": round((procs.memory_kb(w.pids())[1] - before) / max(1, held), 2)}


def tunnel_costs(ctx, world, make):
    """Of one way on a line of 80 ms: CPU per GiB, round trip, new tunnels, idle tunnels."""
    lay(world, TUNNELS_RTT, 0)
    echo = procs.spawn(world.inside(world.far, ctx.load, "serve", "--echo", f"127.0.0.1:{ECHO_PORT}", "--procs", "1"), None)
    try:
        w = make()
        try:
            w.start()
            out = moved(world, w, "up", 1, SECS)
        finally:
            w.stop()
        w.port = ECHO_PORT
        try:
            w.start()
            argv = ["--secs", str(TUNNELS_SECS)]
            out["p50_us"] = m.timed(ctx, w, m.load_argv(ctx, w, "rtt", "echo", *argv), TUNNELS_SECS)["p50_us"]
            new = m.timed(ctx, w, m.load_argv(ctx, w, "cps", "echo", *argv), TUNNELS_SECS)
            out.update(rate=new["rate"], new_p50_us=new["p50_us"], **idle_kb(ctx, w))
        finally:
            w.stop()
    finally:
        procs.stop(echo)
    return out


def tunnels(ctx, world, ways, out):
    for name, make in ways.items():
        got = attempt(ctx, f"tunnels of {name}", lambda: tunnel_costs(ctx, world, make))
        out.setdefault(name, []).append(got or {})
        ctx.say(f"  {TUNNELS_RTT} ms, {name}: {json.dumps(got)}")


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
            out.setdefault(f"{a} and {b}, queue {products}", []).append(both)
            ctx.say(f"  {a} and {b}, queue {products}: {json.dumps(both)}")


def maker(world, name, index=0, relay=False):
    kinds = {"tcp-cubic": lambda: line.Tcp(world, "cubic", index), "tcp-bbr": lambda: line.Tcp(world, "bbr", index),
             "native": lambda: line.Native(world, index, relay), "native-proxy": lambda: line.NativeProxy(world, index),
             "spanwire": lambda: line.Spanwire(world, relay=relay, index=index),
             "spanwire-cubic": lambda: line.Spanwire(world, "cubic", index=index)}
    return kinds[name]


def share(world, a, b):
    """Mb/s of each, both the same way; plain TCP has a service of its own."""
    ways = [maker(world, name, k)() for k, name in enumerate((a, b))]
    with_tcp = any(isinstance(w, line.Tcp) for w in ways)
    opened, ends = [], []
    try:
        for k, w in enumerate(ways):
            w.start()
            if isinstance(w, line.Tcp):
                w.port = line.SERVICE + 20 + k
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


def keep(ctx, name, rounds):
    if rounds:
        ctx.result["ratios"][f"distance.{name}"] = {"rounds": rounds, "void": [], "per_peer": {}}


def smaller(shares, pair, queue):
    """Of each round: the part of the flow that got less."""
    return [min(both) / sum(both) if both and any(both) else None for both in shares.get(f"{pair}, queue {queue}", [])]


def record_shares(ctx, shares):
    """A CUBIC flow beside us and beside the kernel's BBR; who gets less beside the kernel's BBR and beside native,
    there against what one native connection leaves another."""
    ours, kernels = (shares.get(f"{a} and tcp-cubic, queue 1", []) for a in ("spanwire", "tcp-bbr"))
    keep(ctx, "share_cubic", [a[1] / b[1] for a, b in zip(ours, kernels) if a and b and b[1]])
    beside = {n: smaller(shares, "spanwire and tcp-bbr", n) for n in (1, 4)}
    keep(ctx, "share_bbr", [min(both) for both in zip(beside[1], beside[4]) if None not in both])
    parts = [m.apply(lambda a, b: a / b, smaller(shares, "spanwire and native", n), smaller(shares, "native and native", n))
             for n in (1, 4)]
    keep(ctx, "share_native", [min(both) for both in zip(*parts) if None not in both])


def cell(ours, theirs):
    """The median of the rounds. One that failed or moved nothing counts as nothing when it is ours; theirs is dropped."""
    rounds = [a / b if a else 0 for a, b in zip(ours, theirs) if b or not a]
    return m.summary(rounds)["median"] if rounds else None


def cells(rows, pick=lambda key: True):
    found = [cell(row["spanwire"][flow], row["native"][flow]) for key, row in rows.items() if pick(key)
             for flow in row.get("spanwire", {}) if flow in row.get("native", {})]
    return [c for c in found if c is not None]


def record(ctx, out):
    """Ours against native, every distance, loss and direction: the least favourable cell is judged."""
    record_shares(ctx, out.get("shares", {}))
    rows = out.get("speeds", {})
    for kind, found in (("clean", cells(rows, lambda key: key.endswith(", 0 %"))),
                        ("lossy", cells(rows, lambda key: not key.endswith(", 0 %"))),
                        ("relayed", cells(out.get("relayed", {})))):
        if found:
            keep(ctx, kind, [min(found)])
            keep(ctx, f"{kind}_median", [m.summary(found)["median"]])
    costs, both = out.get("tunnels", {}), ["native", "native-proxy"]
    if costs:
        link.record(ctx, "distance.cpu_native", costs, "cpu_per_gib", both, [], min)
        link.record(ctx, "distance.rtt_native", costs, "p50_us", both, [], min)
        # As link.py has it: the lean pair asks nobody for a tunnel.
        link.record(ctx, "distance.streams_native", costs, "rate", ["native-proxy"], [], beside=["native"])
        link.record(ctx, "distance.memory_native", costs, "kb_each", both, [], min)


def peers(ctx, out):
    """The names that take part, and whether iroh-relay is there."""
    names = ["spanwire", "native", "native-proxy", "tcp-cubic", "tcp-bbr"]
    if not os.access(link.native_binary(ctx), os.X_OK):
        out["absent"]["native"] = "not built (make interop does it), NATIVE_IROH_BIN is not set"
        names = [n for n in names if not n.startswith("native")]
    with_relay = os.access(relays.native_binary(ctx), os.X_OK)
    if not with_relay:
        out["absent"]["iroh-relay"] = "not built (make interop does it), NATIVE_IROH_RELAY is not set"
    return [n for n in names if n == "spanwire" or ctx.wants(n, n.split("-")[0])], with_relay


def run_distance(ctx):
    out = ctx.result["suites"].setdefault("distance", {"absent": {}})
    if not os.access("/dev/net/tun", os.W_OK):
        out["absent"]["line"] = "no /dev/net/tun"
        return
    parts = ctx.distance.split(",") if ctx.distance else PARTS
    world = line.World(ctx)
    names, with_relay = peers(ctx, out)
    lean = [n for n in ("spanwire", "native") if n in names]
    secs = max(SECS, ctx.secs)
    pairs = [("spanwire", "spanwire"), ("spanwire", "spanwire-cubic"), ("spanwire", "tcp-bbr"),
             ("spanwire", "tcp-cubic"), ("tcp-bbr", "tcp-cubic")]
    if "native" in names:
        pairs += [("spanwire", "native"), ("native", "native")]
    try:
        for _ in range(ctx.rounds if "speeds" in parts else 0):
            speeds(ctx, world, {n: maker(world, n) for n in lean}, secs, out.setdefault("speeds", {}))
        for _ in range(ctx.rounds if "tcp" in parts else 0):
            speeds(ctx, world, {n: maker(world, n) for n in names if "tcp" in n}, secs, out.setdefault("speeds", {}))
        for _ in range(ctx.rounds if "relay" in parts else 0):
            by_relay = [n for n in lean if with_relay or n == "spanwire"]
            relayed(ctx, world, {n: maker(world, n, relay=True) for n in by_relay}, secs, out.setdefault("relayed", {}))
        for _ in range(ctx.rounds if "tunnels" in parts else 0):
            tunnels(ctx, world, {n: maker(world, n) for n in names if "tcp" not in n}, out.setdefault("tunnels", {}))
        if "rising" in parts:
            rising(ctx, world, {n: maker(world, n) for n in lean}, secs, out.setdefault("rising", {}))
        for _ in range(ctx.rounds if "share" in parts else 0):
            shares(ctx, world, pairs, out.setdefault("shares", {}))
        record(ctx, out)
    finally:
        world.close()
