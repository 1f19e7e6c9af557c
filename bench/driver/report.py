# SPDX-License-Identifier: Apache-2.0
"""Gates and the readable table. Everything here is computed from the result alone."""
import math

from . import measure as m

ROUND_QUORUM = 0.8  # a gate needs the median and four rounds of five


def passes(value, limit, better):
    return value >= limit if better == "higher" else value <= limit


def judge(values, void, limit, better):
    """'pass', 'fail', or '-' when there is nothing to judge or to reach."""
    kept = [v for i, v in enumerate(values) if v is not None and i not in void]
    if limit is None or not kept:
        return "-"
    good = sum(passes(v, limit, better) for v in kept)
    ok = passes(m.summary(kept)["median"], limit, better) and \
        good >= math.ceil(ROUND_QUORUM * len(kept) - 1e-9)
    return "pass" if ok else "fail"


def evaluate(result, gates, ran):
    """One line per gate of the suites that ran; a gate without a value is 'absent'."""
    out = []
    for name, gate in gates.items():
        suite = name.split(".")[0]
        if suite not in ran:
            continue
        got = result["ratios"].get(name)
        values = got["rounds"] if got else result["absolutes"].get(name, [])
        void = got["void"] if got else []
        s = m.summary(values, void)
        # More void rounds than the rule allows: the numbers are shown but prove nothing.
        unusable = len(void) > m.MAX_VOID_ROUNDS
        line = {"gate": name, "what": gate["what"], "must": gate["must"],
                "moonshot": gate["moonshot"], "better": gate["better"], "value": s}
        for level in ("must", "moonshot"):
            verdict = judge(values, void, gate[level], gate["better"]) if s else "absent"
            line[level + "_verdict"] = "void" if unusable and s else verdict
        out.append(line)
    return out


def fmt(x):
    if x is None:
        return "-"
    if abs(x) >= 1000:
        return f"{x:,.0f}"
    if abs(x) >= 100:
        return f"{x:.0f}"
    return f"{x:.1f}" if abs(x) >= 20 else f"{x:.2f}"


def spread(s):
    if not s:
        return "-"
    if s["n"] == 1:
        return fmt(s["median"])
    return f"{fmt(s['median'])} [{fmt(s['min'])}..{fmt(s['max'])}]"


def table(head, rows, left=(0,)):
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    lines = []
    for r in [head, ["-" * w for w in widths], *rows]:
        cells = [str(c).ljust(w) if i in left else str(c).rjust(w)
                 for i, (c, w) in enumerate(zip(r, widths))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def measure_rows(got, extra):
    data, void, key = got["rounds"], got["void"], got["key"]
    rows = []
    for name in data:
        # A candidate whose clients speak the prelude is held against the raw that does too.
        base = "raw-connect" if name in got["connect"] and "raw-connect" in data else "raw"
        raw = m.series(data, base, key)
        values = m.series(data, name, key)
        row = [name, spread(m.summary(values, void))]
        for column in extra:
            row.append(spread(m.summary(column(data, name, raw), void)))
        rows.append(row)
    return rows


def col(key):
    return lambda data, name, raw: m.series(data, name, key)


def share(key):
    return lambda data, name, raw: m.apply(lambda a, b: a / b, m.series(data, name, key), raw)


def marginal(key):
    def fn(data, name, raw):
        if name.startswith("raw"):
            return [None]
        return m.apply(m.marginal, m.series(data, name, key), raw)
    return fn


def added(key, raw_key):
    def fn(data, name, raw):
        if name == "raw":
            return [None]
        return m.apply(lambda a, b: a - b, m.series(data, name, key),
                       m.series(data, "raw", raw_key))
    return fn


VIEWS = {
    "scale": (["Gb/s", "per proxy core"], [col("per_core")]),
    "gbps": (["Gb/s", "share of raw", "marginal", "per proxy core"],
             [share("gbps"), marginal("gbps"), col("per_core")]),
    "link": (["Gb/s", "share of raw", "per proxy core", "CPU s per GiB"],
             [share("gbps"), col("per_core"), col("cpu_per_gib")]),
    "p50_us": (["p50 us", "p99 us", "added p50", "added p99"],
               [col("p99_us"), added("p50_us", "p50_us"), added("p99_us", "p99_us")]),
    "rate": (["per second", "share of raw", "marginal", "p50 us", "proxy CPU us", "opens each"],
             [share("rate"), marginal("rate"), col("p50_us"), col("cpu_us_per_conn"),
              col("opens_per_conn")]),
    "ask": (["p50 us", "p99 us", "per second", "CPU us each"], [col("p99_us"), col("rate"), col("cpu_us_each")]),
    "per_s": (["per second", "p50 us", "p99 us", "server CPU us"],
              [col("p50_us"), col("p99_us"), col("cpu_us")]),
    "last_p50_us": (["last p50 us", "last p99 us", "any p50 us", "any p99 us", "write p50 us",
                     "changes/s"],
                    [col("last_p99_us"), col("p50_us"), col("p99_us"), col("ack_p50_us"),
                     col("changes_s")]),
    "deliveries_s": (["deliveries/s", "per server core", "changes/s", "last p99 us"],
                     [col("per_core"), col("changes_s"), col("last_p99_us")]),
    "p99_ms": (["worst p99 ms", "healthz p99", "lease p99", "get p99", "largest ms", "probes", "times"],
               [col("healthz_ms"), col("lease_ms"), col("get_ms"), col("max_ms"), col("probes"), col("times")]),
    "cpu_us_per_conn": (["proxy CPU us", "connections"], [col("n")]),
    "rss_mb": (["RSS MB", "private MB", "bytes each", "filled/s"],
               [col("private_mb"), col("bytes_each"), col("rate")]),
}


def relay_text(out):
    def cells(rows, *keys):
        return [spread(m.summary([r[k] for r in rows])) for k in keys]

    moved = [[k, *cells(v, "gbps", "per_core")] for k, v in out.items()
             if isinstance(v, list) and v and "gbps" in v[0]]
    trips = [[k, *cells(v, "p50_us", "p99_us")] for k, v in out.items() if "round trip" in k]
    idle = [[k, *(fmt(v[x]) for x in ("clients", "kb_each", "rss_mb", "per_s"))]
            for k, v in out.items() if k.startswith("idle")]
    tables = [(["relay", "Gb/s", "per relay core"], moved), (["relay", "p50 us", "p99 us"], trips),
              (["relay", "clients", "KB each", "RSS MB", "connected/s"], idle)]
    return [table(head, rows) for head, rows in tables if rows]


def distance_text(out):
    def mbps(values):
        return spread(m.summary([v for v in values if v is not None]))

    def rows(part, flows):
        return [[line, name, *(mbps(got.get(f, [])) for f in flows)]
                for line, row in out.get(part, {}).items() for name, got in row.items()]

    flows = ("up 1", "down 1", "up 8", "down 8")
    keys = ("mbps", "cpu_per_gib", "p50_us", "rate", "new_p50_us", "kb_each", "held")
    costs = [[name, "", *(spread(m.summary([r.get(k) for r in got])) for k in keys)]
             for name, got in out.get("tunnels", {}).items()]
    rising = [[name, way, *(fmt((got or {}).get(k)) for k in ("0 ms", "20 ms", "80 ms"))]
              for name, ways in out.get("rising", {}).items() for way, got in ways.items()]
    shares = [[pair, *(mbps([both[i] for both in got if both]) for i in (0, 1))]
              for pair, got in out.get("shares", {}).items()]
    tables = [(["Mb/s", "", *flows], rows("speeds", flows)), (["by relay, Mb/s", "", *flows[:2]], rows("relayed", flows[:2])),
              (["line of 80 ms", "", "Mb/s", "CPU s per GiB", "p50 us", "new tunnels/s", "each us", "KB each", "held"], costs),
              (["one tunnel, Mb/s", "", "0 ms", "20 ms", "80 ms"], rising),
              (["Mb/s of 100", "first", "second"], shares)]
    return [table(head, body, left=(0, 1)) for head, body in tables if body]


def link_text(out):
    tables = []
    if out.get("sites memory"):
        rows = [[c, *(fmt(r[k]) for k in ("rss_mb", "before_mb", "with_mb", "kb_each", "held"))]
                for c, r in out["sites memory"].items()]
        tables.append("link sites memory, one site\n" + table(["candidate", "RSS MB", "private MB", "with connections", "KB each",
                                                              "held"], rows))
    if out.get("imports"):
        rows = [[c, *(fmt(r[k]) for k in ("control_mb", "plane_mb", "both_mb", "kb_each", "serving_s", "listeners"))]
                for c, r in out["imports"].items()]
        tables.append("link imports, what they add to a site\n" + table(["candidate", "control MB", "data plane MB", "both", "KB each",
                                                                 "serving after s", "listeners"], rows))
    return tables


def suite_text(name, out):
    parts = []
    for what, got in out.items():
        if isinstance(got, dict) and "rounds" in got:
            head, extra = VIEWS["scale" if name == "scale" else got.get("view", got["key"])]
            void = f"   (void rounds: {len(got['void'])})" if got["void"] else ""
            parts.append(f"{name} {what}{void}\n" +
                         table(["candidate", *head], measure_rows(got, extra)))
    if name == "mem":
        for what in ("pass", "stream", "hbone"):
            rows = [[c, " + ".join(fmt(v) for v in r["kb_per_conn"]), r["conns"]]
                    for c, r in out.get(what, {}).items()]
            if rows:
                head = ["candidate", "KB each (A + B)", "held"]
                parts.append(f"mem {what}\n" + table(head, rows))
    if name == "tunnel" and out.get("link memory"):
        rows = [[c, *(fmt(r[k]) for k in ("kb_each", "rss_mb", "held"))] for c, r in out["link memory"].items()]
        parts.append("tunnel link memory\n" + table(["candidate", "KB each", "RSS MB", "held"], rows))
    if name == "link":
        parts += link_text(out)
    if name == "mesh" and out.get("pods memory"):
        rows = [[c, *(fmt(r[k]) for k in ("before_mb", "with_mb", "kb_each", "held"))] for c, r in out["pods memory"].items()]
        parts.append("mesh pods memory\n" + table(["candidate", "private MB", "with tunnels", "KB each", "held"], rows))
    if name == "mesh":
        keys = ("index_mb", "index_pod_us", "cache_mb", "first_push_ms", "first_push_mb", "change_ms", "change_cpu_ms")
        rows = [[k, *(fmt(r.get(x)) for x in keys)] for k, r in out.items() if "change_ms" in r]
        if rows:
            parts.append("mesh\n" + table(["", "index MB", "one pod us", "resources MB", "first push ms", "and MB",
                                           "change ms", "CPU ms"], rows))
        keys = ("node_ms", "node_ready_ms", "node_cpu_ms", "node_rss_mb", "node_private_mb", "node_more_rss_mb", "node_bytes_each")
        rows = [[k, *(fmt(r[x]) for x in keys)] for k, r in out.items() if "node_ms" in r]
        if rows:
            parts.append("mesh node\n" + table(["", "holds all ms", "ready ms", "CPU ms", "RSS MB", "private MB", "more RSS MB",
                                                "bytes each"], rows))
    if name == "l7" and out.get("memory"):
        rows = [[c, *(fmt(r.get(k)) for k in ("plain", "tls", "h2", "rss_mb"))]
                for c, r in out["memory"].items()]
        parts.append("l7 memory\n" + table(["candidate", "plain KB", "TLS KB", "HTTP/2 KB",
                                            "RSS MB after the load"], rows))
    if name == "propagate":
        keys = ("routes", "written_ms", "after_ms", "all_ms", "wrong", "control_mb", "gateway_mb")
        rows = [[k, *(fmt(r[x]) for x in keys[1:])] for k, r in out.items() if "all_ms" in r]
        if rows:
            parts.append("propagate at once\n" + table(
                ["routes", "written, ms", "then serving, ms", "together", "wrong answers",
                 "control MB", "gateway MB"], rows))
        rows = [[k, *(fmt(r[x]) for x in ("p50_ms", "p99_ms", "max_ms", "ack_p50_ms", "wrong"))]
                for k, r in out.items() if "p50_ms" in r]
        if rows:
            parts.append("propagate one by one\n" + table(
                ["", "p50 ms", "p99 ms", "max ms", "write p50 ms", "wrong answers"], rows))
    if name == "relay":
        parts += relay_text(out)
    if name == "distance":
        parts += distance_text(out)
    if name == "start":
        rows = [[c, spread(m.summary(r["ms"])), r["rss_mb"], r["private_mb"]]
                for c, r in out.items() if c != "absent"]
        parts.append("start\n" + table(["program", "to accept, ms", "RSS MB", "private MB"], rows))
    if name == "size":
        rows = [[c, r["mb"], r["libs_mb"]] for c, r in out.items() if c != "absent"]
        parts.append("size\n" + table(["program", "stripped MB", "libraries MB"], rows))
    for key in ("aead", "openssl"):
        if out.get(key):
            parts.append(f"{name} {key}\n" + "\n".join("  " + l for l in out[key]))
    for who, why in out["absent"].items():
        parts.append(f"  absent: {who}: {why}")
    return "\n".join(parts)


def ratios_text(result):
    rows = []
    for name, got in result["ratios"].items():
        peers = ", ".join(f"{p} {fmt(m.summary(c, got['void'])['median'])}"
                          for p, c in got["per_peer"].items() if m.summary(c, got["void"]))
        rows.append([name, spread(m.summary(got["rounds"], got["void"])), peers])
    return "ratios (spanwire against the best peer, then against each)\n" + \
        table(["ratio", "median [min..max]", "each"], rows, left=(0, 2)) if rows else ""


def gates_text(gates):
    rows = []
    for g in gates:
        sign = ">=" if g["better"] == "higher" else "<="
        limits = [f"{sign} {g[k]:g}" if g[k] is not None else "-" for k in ("must", "moonshot")]
        rows.append([g["gate"], spread(g["value"]), limits[0], g["must_verdict"], limits[1],
                     g["moonshot_verdict"]])
    return "gates\n" + table(["gate", "value", "Must", "", "Moonshot", ""], rows) if rows else ""


def render(result):
    host = result["host"]
    parts = [f"{result['when']}  {host['cpu']}, {host['cpus']} CPUs, Linux {host['kernel']}, "
             f"load {host['load']}; CPU {result['settings']['cpu']}, "
             f"{result['settings']['rounds']} rounds of {result['settings']['secs']} s, "
             f"namespace {result['settings']['namespace']}, "
             f"{'SCHED_RR' if result['settings']['realtime'] else 'normal scheduling'}"]
    parts += [suite_text(n, out) for n, out in result["suites"].items()]
    parts += [ratios_text(result), gates_text(result["gates"])]
    if result["notes"]:
        parts.append("notes\n" + "\n".join(f"  {n}" for n in result["notes"]))
    return "\n\n".join(p for p in parts if p) + "\n"
