# SPDX-License-Identifier: Apache-2.0
"""A real Envoy, started with the bootstrap that 'spanwire envoy bootstrap' prints."""
import json
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

from .control import _Here
from .gateway import free_port
from .node import Process
from .wait import until


def bootstrap(binary, *flags):
    """The text of the product's own bootstrap."""
    done = subprocess.run([binary, "envoy", "bootstrap", *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def validate(envoy, config):
    """Status and what Envoy says about a whole configuration; nothing is served."""
    done = subprocess.run([str(envoy), "--mode", "validate", "-c", str(config), "--disable-hot-restart",
                           "-l", "warning"], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def xds_of(control):
    """Where a control plane serves xDS."""
    return until(lambda: re.findall(r"xDS on (\S+)", control.log()), 10, "the xDS server")[-1]


class Envoy(Process):
    """The process and its admin interface. `config` is the text of its configuration."""

    def __init__(self, envoy, where, config, admin_port, *flags, concurrency=2, drain_s=5):
        self.dir = pathlib.Path(where)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.admin_port = admin_port
        path = self.dir / f"envoy-{admin_port}.yaml"
        path.write_text(config, encoding="utf-8")
        super().__init__(_Here(), [str(envoy), "-c", str(path), "--concurrency", str(concurrency),
                                   "--disable-hot-restart", "--drain-time-s", str(drain_s), "-l", "info", *flags],
                         self.dir / f"envoy-{admin_port}.log")

    @classmethod
    def of_control(cls, envoy, binary, where, control, *flags, delta=True, node="envoy"):
        """Fed by a control plane, over TLS and with its token."""
        admin = free_port()
        text = bootstrap(binary, "--node-id", node, "--xds-addr", xds_of(control),
                         "--ca", str(control.data / "pki/root.crt"),
                         "--token-file", str(control.data / "pki/admin.token"),
                         "--admin", f"127.0.0.1:{admin}")
        if not delta:
            assert text.count("DELTA_GRPC") == 1
            text = text.replace("DELTA_GRPC", "GRPC")
        return cls(envoy, where, text, admin, *flags)

    def admin(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def stats(self, pattern):
        """Counters and gauges whose names match, as numbers."""
        told = json.loads(self.admin(f"/stats?format=json&filter={pattern}"))
        return {s["name"]: s["value"] for s in told["stats"] if "value" in s}

    def rejected(self):
        """How many updates Envoy refused, by kind; empty is good."""
        return {k: v for k, v in self.stats("update_rejected").items() if v}

    def config(self, *resources):
        """The configuration dump, by the type of its parts."""
        told = json.loads(self.admin("/config_dump?include_eds"))
        return {c["@type"].rsplit(".", 1)[-1]: c for c in told["configs"]}

    def wait_ready(self, seconds=20):
        """Its initial configuration is complete."""
        def ready():
            assert self.alive, f"Envoy ended:\n{self.log()[-3000:]}"
            try:
                return self.admin("/ready").strip() == "LIVE"
            except (OSError, urllib.error.URLError):
                return False
        until(ready, seconds, "Envoy to be ready", interval=0.05)

    def stop(self):
        """Ends it; a crash is a failure."""
        assert self.alive, f"Envoy ended by itself:\n{self.log()[-3000:]}"
        self.signal(15)
        assert self.wait(40) == 0, self.log()[-3000:]
