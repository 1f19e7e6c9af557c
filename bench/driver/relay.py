# SPDX-License-Identifier: Apache-2.0
"""Suite `relay`: packets between clients of `spanwire relay`, and what idle clients cost it.

There is no peer: no other relay of this protocol can be installed here. The figures are absolute;
`raw` of the other suites says what the loopback itself carries.
"""
import json
import os
import subprocess
import time

from . import procs
from .procs import LoadError

IDLE_CLIENTS = 10_000
PORT = 21900
# clients, bytes of a message, bytes of a datagram in it
SHAPES = {"batches": (1, 60_000, 1200), "8 pairs": (8, 60_000, 1200), "single datagrams": (1, 1200, 0)}


def start(ctx, tls):
    argv = [ctx.binary, "relay", "--listen", f"127.0.0.1:{PORT}", "--workers", "1", "--admin-addr",
            f"127.0.0.1:{PORT + 2}", "--stats-addr", f"127.0.0.1:{PORT + 3}", "--ready-addr",
            f"127.0.0.1:{PORT + 4}", "--tls-listen", f"127.0.0.1:{PORT + 1}",
            "--cert", os.path.join(tls, "relay.crt"), "--key", os.path.join(tls, "relay.key")]
    p = procs.spawn(ctx.box.pin(argv), os.path.join(ctx.dir, "relay.log"))
    procs.wait_accepting(p, "127.0.0.1", PORT)
    return p


def certificate(ctx):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", os.path.join(ctx.dir, "relay.key"), "-out",
                    os.path.join(ctx.dir, "relay.crt"), "-days", "2", "-subj", "/CN=relay",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return ctx.dir


def load(ctx, tool, *args):
    done = subprocess.run(ctx.box.pin([tool, *map(str, args)]), capture_output=True, text=True,
                          env={**os.environ, "RELAY_CA": os.path.join(ctx.dir, "relay.crt")},
                          timeout=60 + ctx.secs)
    if done.returncode:
        raise LoadError(done.stderr.strip()[-200:])
    return json.loads(done.stdout.splitlines()[-1])


def moving(ctx, tool, p, out):
    pids = procs.group_pids(p.pid)
    for scheme, port in (("http", PORT), ("https", PORT + 1)):
        url = f"{scheme}://127.0.0.1:{port}"
        for what, (pairs, size, segment) in SHAPES.items():
            rows = []
            for _ in range(ctx.rounds):
                before = procs.cpu_seconds(pids)
                got = load(ctx, tool, "bulk", url, ctx.secs, pairs, size, segment)
                cpu = procs.cpu_seconds(pids) - before
                # The load begins 0.2 s before its window; the CPU time covers both.
                got["per_core"] = got["gbps"] * (got["secs"] + 0.2) / cpu if cpu else None
                rows.append(got)
            out[f"{what}, {scheme}"] = rows
        out[f"round trip, {scheme}"] = [load(ctx, tool, "ping", url, ctx.secs) for _ in range(ctx.rounds)]


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
    try:
        moving(ctx, tool, p, out)
    finally:
        procs.stop(p)
    record = ctx.result["absolutes"]
    record["relay.idle_kb"] = [out["idle, http"]["kb_each"]]
    record["relay.idle_tls_kb"] = [out["idle, https"]["kb_each"]]
    record["relay.idle_rss_mb"] = [out["idle, http"]["rss_mb"]]
    record["relay.gbps"] = [r["gbps"] for r in out["batches, http"]]
    record["relay.core_gbps"] = [r["per_core"] for r in out["batches, http"]]
    record["relay.rtt_us"] = [r["p50_us"] for r in out["round trip, http"]]
