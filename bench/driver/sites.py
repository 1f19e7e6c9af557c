# SPDX-License-Identifier: Apache-2.0
"""Suite `link`: two data planes of links, each with a control plane of its own that says yes to everything
(bench/linkcontrol.c), beside HAProxy and stunnel with mutual TLS between two processes."""
import os
import shutil

from . import procs
from .candidates import ECHO, SERVER, SINK, Candidate
from .procs import LoadError

NAME = "bench.local"  # of the certificate both sites have


def control_tool(ctx):
    return os.path.join(os.path.dirname(ctx.binary), "bench", "linkcontrol")


class LinkPair(Candidate):
    """The importing site's listeners are dialled, the exporting site dials the server."""

    peer = False

    def __init__(self, ctx, index, name="spanwire", extra=()):
        super().__init__(ctx, index)
        self.name = name
        self.extra = list(extra)
        self.controls = []

    def available(self):
        if not os.access(control_tool(self.ctx), os.X_OK):
            return "bench/linkcontrol is not built (meson configure -Dbench=true)"
        return None

    def rules(self):
        return [(self.addr, ECHO, *self._listening("echo")), (self.addr, SINK, *self._listening("sink"))]

    def site(self):
        """The directory a data plane reads its site's certificate from."""
        where = os.path.join(self.ctx.dir, f"{self.name}-site")
        os.makedirs(where, exist_ok=True)
        for source, name in (("ca.crt", "ca.pem"), ("bench.crt", "dataplane.pem"), ("bench.key", "dataplane.key")):
            shutil.copy(os.path.join(self.ctx.tls_dir(), source), os.path.join(where, name))
        return where

    def start_site(self, offset, resources, wait):
        control, external, admin = (self.base + offset + i for i in (0, 1, 2))
        argv = [control_tool(self.ctx), f"127.0.0.1:{control}", self.ctx.tls_dir(), *resources]
        log = os.path.join(self.ctx.dir, f"{self.name}-control.log")
        self.controls.append(procs.spawn(self.ctx.box.pin(argv, self.cpus), log))
        procs.wait_accepting(self.controls[-1], "127.0.0.1", control)
        argv = [self.ctx.binary, "link", "--control", f"127.0.0.1:{control}", "--control-name", NAME,
                "--site", self.site(), "--listen", f"127.0.0.1:{external}", "--import-address", "127.0.0.1",
                "--workers", "1", "--upstream-allow", "127.0.0.0/8",
                "--admin-addr", f"127.0.0.1:{admin}", "--stats-addr", f"127.0.0.1:{admin + 1}",
                "--ready-addr", f"127.0.0.1:{admin + 2}", *self.extra]
        log = os.path.join(self.ctx.dir, f"{self.name}-{offset}.log") if "warn" in self.extra else None
        p = procs.spawn(self.ctx.box.pin(argv, self.cpus), log)
        self.sides.insert(0, p)
        try:
            procs.wait_accepting(p, "127.0.0.1", wait or external)
        except LoadError as e:
            raise LoadError(f"{e}: spanwire link does not listen") from None
        return external

    def start(self):
        exports = [f"export:bench/echo={SERVER}:{ECHO}", f"export:bench/sink={SERVER}:{SINK}"]
        external = self.start_site(4, exports, None)
        echo, sink = (self._listening(k)[1] for k in ("echo", "sink"))
        imports = [f"import:bench/echo={echo}", f"import:bench/sink={sink}"]
        self.start_site(10, [*imports, f"peer:{NAME}=127.0.0.1:{external}"], echo)

    def stop(self):
        super().stop()
        for p in self.controls:
            procs.stop(p)
        self.controls = []
