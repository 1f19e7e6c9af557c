# SPDX-License-Identifier: Apache-2.0
"""The xDS server under a large mesh: first push, a node that comes back, one change to 1,000 nodes."""
import json
import os
import subprocess

SIZES = {"1k": 1000, "100k": 100000, "1m": 1000000}
STREAMS = 1000


def run_mesh(ctx):
    tool = os.path.join(os.path.dirname(ctx.binary), "bench", "meshpush")
    if not os.access(tool, os.X_OK):
        ctx.note("mesh: bench/meshpush is not built (meson configure -Dbench=true)")
        return
    out = ctx.result["suites"].setdefault("mesh", {})
    absolutes = ctx.result["absolutes"]
    for name, size in SIZES.items():
        done = subprocess.run([tool, "--tls", str(size), str(STREAMS)], capture_output=True, text=True, timeout=600,
                              check=False)
        if done.returncode:
            ctx.note(f"mesh {name}: {done.stderr.strip()[-200:]}")
            continue
        got = out[name] = json.loads(done.stdout)
        absolutes[f"mesh.change_{name}_ms"] = [got["change_ms"]]
        absolutes[f"mesh.change_{name}_cpu_ms"] = [got["change_cpu_ms"]]
        if size >= 100000:
            absolutes[f"mesh.push_{name}_ms"] = [got["first_push_ms"]]
            absolutes[f"mesh.push_{name}_mb"] = [got["first_push_mb"]]
            absolutes[f"mesh.cache_{name}_mb"] = [got["cache_mb"]]
