# SPDX-License-Identifier: Apache-2.0
"""Suite `relay`: packets between clients of `spanwire relay`, and what idle clients cost it.

The peer is the relay of the crate iroh-relay, built by `make interop`: the same load on both, one
after the other in every round. Without it the figures are absolute.
"""
import json
import os
import subprocess
import time

from . import measure as m
from . import procs
from .procs import LoadError

IDLE_CLIENTS = 10_000
PORT = 21900
PEER = "iroh-relay, "
# clients, bytes of a message, bytes of a datagram in it. iroh's endpoints send ten datagrams at once.
SHAPES = {"batches": (1, 60_000, 1200), "8 pairs": (8, 60_000, 1200), "batches of 10": (1, 12_000, 1200),
          "single datagrams": (1, 1200, 0)}


def start(ctx, tls):
    argv = [ctx.binary, "relay", "--open", "--rate-limit", "0", "--listen", f"127.0.0.1:{PORT}", "--workers", "1", "--admin-addr",
            f"127.0.0.1:{PORT + 2}", "--stats-addr", f"127.0.0.1:{PORT + 3}", "--ready-addr",
            f"127.0.0.1:{PORT + 4}", "--tls-listen", f"127.0.0.1:{PORT + 1}",
            "--cert", os.path.join(tls, "relay.crt"), "--key", os.path.join(tls, "relay.key")]
    p = procs.spawn(ctx.box.pin(argv), os.path.join(ctx.dir, "relay.log"))
    procs.wait_accepting(p, "127.0.0.1", PORT)
    return p


def native_binary(ctx):
    return os.environ.get("NATIVE_IROH_RELAY") or os.path.join(os.path.dirname(ctx.binary), "interop", "iroh", "bin",
                                                               "iroh-relay")


def start_native(ctx, tls):
    """iroh-relay serves packets on one of its two ports: with a certificate only by HTTPS."""
    started = []
    for https, port in ((False, PORT + 10), (True, PORT + 11)):
        config = f'enable_metrics = false\nhttp_bind_addr = "127.0.0.1:{port + https * 10}"\n'
        if https:
            config += (f'[tls]\nhttps_bind_addr = "127.0.0.1:{port}"\nhostname = "127.0.0.1"\n'
                       f'cert_mode = "Manual"\nmanual_cert_path = "{tls}/relay.crt"\n'
                       f'manual_key_path = "{tls}/relay.key"\n')
        path = os.path.join(ctx.dir, f"iroh-relay-{port}.toml")
        with open(path, "w", encoding="ascii") as f:
            f.write(config)
        argv = [native_binary(ctx), *([] if https else ["--dev"]), "--config-path", path]
        started.append(procs.spawn(ctx.box.pin(argv), os.path.join(ctx.dir, f"iroh-relay-{port}.log")))
        procs.wait_accepting(started[-1], "127.0.0.1", port)
    return started


def certificate(ctx):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", os.path.join(ctx.dir, "relay.key"), "-out",
                    os.path.join(ctx.dir, "relay.crt"), "-days", "2", "-subj", "/CN=relay",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return ctx.dir


def load(ctx, tool, *args, cpus=None):
    done = subprocess.run(ctx.box.pin([tool, *map(str, args)], cpus), capture_output=True, text=True,
                          env={**os.environ, "RELAY_CA": os.path.join(ctx.dir, "relay.crt")},
                          timeout=60 + ctx.secs)
    if done.returncode:
        raise LoadError(done.stderr.strip()[-200:])
    return json.loads(done.stdout.splitlines()[-1])


def bulk(ctx, tool, url, shape, pids, cpus=None):
    before = procs.cpu_seconds(pids)
    got = load(ctx, tool, "bulk", url, ctx.secs, *shape, cpus=cpus)
    cpu = procs.cpu_seconds(pids) - before
    # The load begins 0.2 s before its window; the CPU time covers both.
    got["per_core"] = got["gbps"] * (got["secs"] + 0.2) / cpu if cpu else None
    return got


def moving(ctx, tool, relays, out):
    """relays: name for the table, '' for ours -> (process, port) of http and of https."""
    cpus = ctx.two_cpus()
    shapes = [(what, shape, None) for what, shape in SHAPES.items()]
    if cpus:
        # The relay has its core for itself: what it carries is its own speed, not that of its clients.
        shapes += [(f"{what}, own core", shape, cpus.split(",")[0]) for what, shape in SHAPES.items()]
    for k, scheme in enumerate(("http", "https")):
        for what, shape, cpu in shapes:
            for _ in range(ctx.rounds):
                for name, at in relays.items():
                    p, port = at[k]
                    got = bulk(ctx, tool, f"{scheme}://127.0.0.1:{port}", shape, procs.group_pids(p.pid), cpu)
                    out.setdefault(f"{name}{what}, {scheme}", []).append(got)
        for _ in range(ctx.rounds):
            for name, at in relays.items():
                got = load(ctx, tool, "ping", f"{scheme}://127.0.0.1:{at[k][1]}", ctx.secs)
                out.setdefault(f"{name}round trip, {scheme}", []).append(got)


def ratios(ctx, out):
    """Ours against iroh-relay, round by round."""
    for name, what, key in (("relay.bulk_native", "batches of 10, own core, http", "gbps"),
                            ("relay.bulk_tls_native", "batches of 10, own core, https", "gbps"),
                            ("relay.batches_native", "batches, own core, http", "gbps"),
                            ("relay.batches_tls_native", "batches, own core, https", "gbps"),
                            ("relay.pairs_native", "8 pairs, own core, http", "gbps"),
                            ("relay.single_native", "single datagrams, own core, http", "gbps"),
                            ("relay.shared_native", "batches, http", "gbps"),
                            ("relay.core_native", "batches, http", "per_core"),
                            ("relay.rtt_native", "round trip, http", "p50_us")):
        theirs = [r[key] for r in out.get(PEER + what, [])]
        if theirs:
            ours = [r[key] for r in out[what]]
            ctx.result["ratios"][name] = {"rounds": m.apply(lambda a, b: a / b, ours, theirs), "void": [],
                                          "per_peer": {}}


def idle(ctx, tool, p, scheme, port):
    pids = procs.group_pids(p.pid)
    _, before = procs.memory_kb(pids)
    env = {**os.environ, "RELAY_CA": os.path.join(ctx.dir, "relay.crt")}
    started = time.monotonic()
    with subprocess.Popen([tool, "idle", f"{scheme}://127.0.0.1:{port}", str(IDLE_CLIENTS)], env=env,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        try:
            up = json.loads(clients.stdout.readline())["up"]
            took = time.monotonic() - started
            time.sleep(1)
            rss, private = procs.memory_kb(pids)
        finally:
            clients.stdin.close()
            clients.wait(60)
    if up != IDLE_CLIENTS:
        raise LoadError(f"only {up} of {IDLE_CLIENTS} clients came up")
    return {"clients": up, "rss_mb": round(rss / 1024, 1), "kb_each": round((private - before) / up, 2),
            "per_s": round(up / took)}


def run(ctx, out):
    tool = os.path.join(os.path.dirname(ctx.binary), "tests", "tools", "relay_load")
    if not os.access(tool, os.X_OK):
        out["absent"]["relay_load"] = "not built"
        return
    tls = certificate(ctx)
    for scheme, port in (("http", PORT), ("https", PORT + 1)):
        p = start(ctx, tls)  # a fresh one: memory that was used before would hide what clients cost
        try:
            out[f"idle, {scheme}"] = idle(ctx, tool, p, scheme, port)
        finally:
            procs.stop(p)
    p = start(ctx, tls)
    relays, native = {"": ((p, PORT), (p, PORT + 1))}, []
    if not os.access(native_binary(ctx), os.X_OK):
        out["absent"]["iroh-relay"] = "not built (make interop does it), NATIVE_IROH_RELAY is not set"
    elif ctx.wants("iroh-relay", "iroh-relay"):
        native = start_native(ctx, tls)
        relays[PEER] = tuple(zip(native, (PORT + 10, PORT + 11)))
    try:
        moving(ctx, tool, relays, out)
    finally:
        for q in (p, *native):
            procs.stop(q)
    ratios(ctx, out)
    record = ctx.result["absolutes"]
    record["relay.idle_kb"] = [out["idle, http"]["kb_each"]]
    record["relay.idle_tls_kb"] = [out["idle, https"]["kb_each"]]
    record["relay.idle_rss_mb"] = [out["idle, http"]["rss_mb"]]
    record["relay.gbps"] = [r["gbps"] for r in out["batches, http"]]
    record["relay.core_gbps"] = [r["per_core"] for r in out["batches, http"]]
    record["relay.rtt_us"] = [r["p50_us"] for r in out["round trip, http"]]
