# SPDX-License-Identifier: Apache-2.0
"""A large mesh: the index of its objects; the first push, a return, and one change to 1,000 nodes by the xDS server."""
import json
import os
import re
import subprocess

SIZES = {"1k": 1000, "100k": 100000, "1m": 1000000}
STREAMS = 1000


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
