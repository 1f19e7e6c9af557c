# SPDX-License-Identifier: Apache-2.0
"""One measurement of one candidate, rounds over all of them, and what follows from both."""
import statistics
import time

from . import procs
from .procs import LoadError
from .sandbox import active_opens

PAUSE = 0.3         # between measurements, for buffers and timers to drain
COUNTED = ("n", "cpu_s")
VOID_DEVIATION = 0.15
MAX_VOID_ROUNDS = 2
IDLE_SIDE = 0.1     # of a pair's CPU time: less, and the traffic went around that side
SOURCE_NET = "127.0.9.1"  # clients of the connection test come from .2 to .240


def load_argv(ctx, cand, mode, kind, *extra, cpus=None):
    host, port, authority = cand.target(kind)
    argv = [*getattr(cand, "client_inside", ()), ctx.load, mode, "--to", f"{host}:{port}", *extra]
    if authority:
        argv += ["--connect", authority]
        if getattr(cand, "header", None):
            argv += ["--header", cand.header]
    return ctx.box.pin(argv, cpus)


def timed(ctx, cand, argv, secs):
    """Runs a load and adds the CPU time the candidate's processes spent meanwhile."""
    sides = [cand.pids(i) for i in range(len(cand.sides))]
    before = [procs.cpu_seconds(pids) for pids in sides]
    opens = active_opens()
    result = procs.run_load(argv, secs * 4 + 15)
    result["opens"] = active_opens() - opens
    spent = [procs.cpu_seconds(pids) - b for pids, b in zip(sides, before)]
    if spent:
        result["cpu_s"] = round(sum(spent), 5)
        result["cpu_sides_s"] = [round(s, 5) for s in spent]
    if len(spent) == 2 and min(spent) < IDLE_SIDE * sum(spent):
        # A pair whose one side idles was bypassed: its speed is not a tunnel's.
        raise LoadError(f"one side of the pair did nothing (CPU {result['cpu_sides_s']} s)")
    return result


def bulk(ctx, cand, conns=1, nprocs=1, cpus=None):
    argv = load_argv(ctx, cand, "src", "sink", "--secs", str(ctx.secs), "--conns", str(conns),
                     "--procs", str(nprocs), cpus=cpus)
    r = timed(ctx, cand, argv, ctx.secs)
    if r.get("cpu_s"):
        r["per_core"] = round(r["total_bytes"] * 8 / 1e9 / r["cpu_s"], 3)
    return r


def rtt(ctx, cand):
    return timed(ctx, cand, load_argv(ctx, cand, "rtt", "echo", "--secs", str(ctx.secs)), ctx.secs)


def cps(ctx, cand, burst=0, pause=0.0, source=SOURCE_NET):
    extra = ["--secs", str(ctx.secs), *(["--source", source] if source else [])]
    if burst:
        extra += ["--burst", str(burst), "--pause", str(pause)]
    r = timed(ctx, cand, load_argv(ctx, cand, "cps", "echo", *extra), ctx.secs)
    r["opens_per_conn"] = round(r["opens"] / r["n"], 3)
    if r.get("cpu_s"):
        r["cpu_us_per_conn"] = round(r["cpu_s"] * 1e6 / r["n"], 1)
    return r


def merge(pieces):
    """One result of the slices of a round: sums of what was counted, medians of the rest."""
    failed = [p for p in pieces if "error" in p]
    if len(pieces) == 1 or failed:
        return (failed or pieces)[0]
    out = {}
    for key, value in pieces[0].items():
        values = [p.get(key) for p in pieces]
        if not isinstance(value, (int, float)) or None in values:
            out[key] = value
        else:
            out[key] = sum(values) if key in COUNTED else statistics.median(values)
    return out


def rounds(ctx, cands, fn, slices=1):
    """Interleaves: every round runs every candidate once, starting one further each time.

    With slices they take turns that often within each round, for figures that the machine's
    moods of a second or two would otherwise decide."""
    out = {c.name: [] for c in cands}
    for r in range(ctx.rounds):
        pieces = {c.name: [] for c in cands}
        for s in range(slices):
            k = (r + s) % len(cands)
            for c in cands[k:] + cands[:k]:
                try:
                    value = fn(c)
                except LoadError as e:
                    value = {"error": str(e)}
                    ctx.note(f"{c.name}: {e}")
                pieces[c.name].append(value)
                time.sleep(PAUSE / slices)
        for name, got in pieces.items():
            out[name].append(merge(got))
    return out


def series(data, name, key):
    """The values of one candidate, None where a round failed."""
    return [v.get(key) for v in data.get(name, [])]


def void_rounds(data, key, raw="raw"):
    """Rounds whose raw loopback is too far from its median to compare anything with."""
    values = series(data, raw, key)
    good = [v for v in values if v]
    if not good:
        return list(range(len(values)))
    mid = statistics.median(good)
    return [i for i, v in enumerate(values) if not v or abs(v - mid) > VOID_DEVIATION * mid]


def summary(values, skip=()):
    kept = [v for i, v in enumerate(values) if v is not None and i not in skip]
    if not kept:
        return None
    return {"median": statistics.median(kept), "min": min(kept), "max": max(kept), "n": len(kept)}


def apply(fn, *columns):
    """Row-wise fn over columns; None where an input is missing or the result is senseless."""
    out = []
    for row in zip(*columns):
        if any(v is None for v in row):
            out.append(None)
            continue
        try:
            out.append(fn(*row))
        except ZeroDivisionError:
            out.append(None)
    return out


def marginal(t, raw):
    """What one unit of CPU could do if only the proxy's own cost counted."""
    cost = 1 / t - 1 / raw
    return 1 / cost if cost > 0 else None


def best(columns, higher):
    """Row-wise best of several peers, ignoring those that failed in a row."""
    pick = max if higher else min
    return [pick([v for v in row if v is not None], default=None) for row in zip(*columns)]
