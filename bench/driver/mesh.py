# SPDX-License-Identifier: Apache-2.0
"""A large mesh: the index of its objects; the first push, a return, and one change to 1,000 nodes by the xDS server; and
a `spanwire node` that takes all of it in."""
import contextlib
import json
import os
import re
import select
import socket
import subprocess
import time

from . import procs
from .procs import LoadError

SIZES = {"1k": 1000, "100k": 100000, "1m": 1000000}
STREAMS = 1000
NODE_IP = "127.0.0.78"
NODE_SECS = 300  # a guard
SETTLE_S = 3.0  # the node gives memory back a second after the last large response


def run_index(ctx, size):
    """What pods, their Services and Nodes take in the control plane, without the resources that are served."""
    tool = os.path.join(os.path.dirname(ctx.binary), "bench", "meshbuild")
    done = subprocess.run([tool, str(size)], capture_output=True, text=True, timeout=600, check=False)
    found = re.search(r"apply ([\d.]+) s, flush ([\d.]+) s, ([\d.]+) MiB.*readiness: ([\d.]+) us, .*: ([\d.]+) us",
                      done.stdout, re.S)
    if not found:
        ctx.note(f"mesh index of {size}: {(done.stderr or done.stdout).strip()[-200:]}")
        return {}
    apply_s, flush_s, mib, pod_us, service_us = map(float, found.groups())
    return {"index_cpu_ms": (apply_s + flush_s) * 1000, "index_mb": mib * 1.048576, "index_pod_us": pod_us,
            "index_service_us": service_us}


# ---- a node ----

def free_ports(n):
    """So many ports of NODE_IP that nobody listens on."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in socks:
            s.bind((NODE_IP, 0))
        return [s.getsockname()[1] for s in socks]


class Server:
    """meshpush with real Addresses: its port, the file with its root, and when a node has acknowledged all of them."""

    def __init__(self, ctx, size):
        self.root = os.path.join(ctx.dir, "mesh-root.pem")
        tool = os.path.join(os.path.dirname(ctx.binary), "bench", "meshpush")
        if not os.access(tool, os.X_OK):
            raise LoadError("bench/meshpush is not built (meson configure -Dbench=true)")
        self.p = subprocess.Popen([tool, "--serve", self.root, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        try:
            self.port = self.line()["port"]
        except LoadError:
            self.close()
            raise

    def line(self):
        if not select.select([self.p.stdout], [], [], NODE_SECS)[0]:
            raise LoadError(f"nothing happened for {NODE_SECS} s")
        text = self.p.stdout.readline()
        if not text:
            raise LoadError("meshpush ended")
        return json.loads(text)

    def close(self):
        self.p.stdin.close()
        self.p.wait(60)
        self.p.stdout.close()


def log_ready(p, log):
    """Waits for the line 'ready' in the node's log."""
    end = time.monotonic() + NODE_SECS
    while time.monotonic() < end:
        with open(log, encoding="utf-8") as f:
            if re.search(r"\bready\b.*\bworkloads=\d", f.read()):
                return
        if p.poll() is not None:
            raise LoadError(f"the node ended with status {p.returncode}")
        time.sleep(0.002)
    raise LoadError(f"the node is not ready after {NODE_SECS} s")


def start_node(ctx, server):
    """One `spanwire node` from its start until it is settled: wall and processor time until it holds all, and memory."""
    log, token = (os.path.join(ctx.dir, f"mesh-node.{x}") for x in ("log", "token"))
    admin, stats, ready = free_ports(3)
    with open(token, "w", encoding="ascii") as f:
        f.write("bench")
    with contextlib.suppress(FileNotFoundError):
        os.remove(log)
    argv = [ctx.binary, "node", "--mode", "dedicated", "--workload", "ns-0/app-0/app-0", "--node-name", "node-0",
            "--listen-ip", NODE_IP, "--dns", "false", "--xds-address", f"https://127.0.0.1:{server.port}",
            "--xds-alt-name", "localhost", "--xds-root", server.root, "--auth-token", token,
            "--admin-token-file", os.path.join(ctx.dir, "mesh-node.admin"), "--drain", "1s",
            "--admin-addr", f"{NODE_IP}:{admin}", "--stats-addr", f"{NODE_IP}:{stats}", "--ready-addr", f"{NODE_IP}:{ready}"]
    start = time.monotonic()
    p = procs.spawn(argv, log)
    try:
        log_ready(p, log)
        early = time.monotonic()
        server.line()
        out = {"ms": (time.monotonic() - start) * 1000, "cpu_ms": procs.cpu_seconds([p.pid]) * 1000,
               "ready_ms": (early - start) * 1000}
        time.sleep(SETTLE_S)
        rss, private = procs.memory_kb([p.pid])
        return {**out, "rss_mb": rss * 1024 / 1e6, "private_mb": private * 1024 / 1e6}
    finally:
        procs.stop(p)


def run_node(ctx, size):
    """A node with so many workloads, and what it takes more than one with none."""
    try:
        with contextlib.closing(Server(ctx, 0)) as server:
            empty = start_node(ctx, server)
        with contextlib.closing(Server(ctx, size)) as server:
            full = start_node(ctx, server)
    except LoadError as e:
        ctx.note(f"mesh node of {size}: {e}")
        return {}
    out = {f"node_{k}": round(v, 2) for k, v in full.items()}
    for key in ("rss_mb", "private_mb"):
        out[f"node_more_{key}"] = round(full[key] - empty[key], 2)
    out["node_bytes_each"] = round((full["private_mb"] - empty["private_mb"]) * 1e6 / size, 1)
    return out


def run_nodes(ctx):
    out = ctx.result["suites"].setdefault("mesh", {"absent": {}})
    for name, size in SIZES.items():
        got = run_node(ctx, size)
        out.setdefault(name, {}).update(got)
        if got:
            ctx.result["absolutes"][f"mesh.node_{name}_mb"] = [got["node_rss_mb"]]
            ctx.result["absolutes"][f"mesh.node_{name}_ms"] = [got["node_ms"]]


def run_mesh(ctx):
    tool = os.path.join(os.path.dirname(ctx.binary), "bench", "meshpush")
    if not os.access(tool, os.X_OK):
        ctx.note("mesh: bench/meshpush is not built (meson configure -Dbench=true)")
        return
    out = ctx.result["suites"].setdefault("mesh", {"absent": {}})
    absolutes = ctx.result["absolutes"]
    for name, size in SIZES.items():
        done = subprocess.run([tool, "--tls", str(size), str(STREAMS)], capture_output=True, text=True, timeout=600,
                              check=False)
        if done.returncode:
            ctx.note(f"mesh {name}: {done.stderr.strip()[-200:]}")
            continue
        got = out[name] = {**json.loads(done.stdout), **run_index(ctx, size)}
        absolutes[f"mesh.change_{name}_ms"] = [got["change_ms"]]
        absolutes[f"mesh.change_{name}_cpu_ms"] = [got["change_cpu_ms"]]
        if size >= 100000:
            absolutes[f"mesh.push_{name}_ms"] = [got["first_push_ms"]]
            absolutes[f"mesh.push_{name}_mb"] = [got["first_push_mb"]]
            absolutes[f"mesh.cache_{name}_mb"] = [got["cache_mb"]]
        for key in ("index_mb", "index_pod_us"):
            if key in got:
                absolutes[f"mesh.{key[:-3]}_{name}_{key[-2:]}"] = [got[key]]
