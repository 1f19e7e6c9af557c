# SPDX-License-Identifier: Apache-2.0
"""The line of suite `distance`, and the ways to bring bytes over it.

Two namespaces with nothing between them but the line (bench/line.c). The sidecar and the client are
at the near end, the device and its service at the far end, the relay beside the device. Both ends
share the CPU of the run as elsewhere; the line has another one where there is one.
"""
import os
import re
import subprocess
import sys
import time

from . import link, procs, relay
from .procs import LoadError

NEAR, FAR = "10.99.0.1", "10.99.0.2"
SERVICE, TUNNEL, LISTEN, RELAY = 7000, 7001, 7002, 7003
WAIT = 20.0


class Child:
    """A program in a namespace that answers every line with a line."""

    def __init__(self, argv, env=None):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **(env or {})})
        if self.p.stdout.readline() != "ready\n":
            self.p.kill()
            raise LoadError(f"{argv[-4:]} did not start")

    def ask(self, text=""):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def close(self):
        if self.p.poll() is None:
            self.p.stdin.close()
            try:
                self.p.wait(5)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()


class World:
    """The namespaces, held by a process each, the line and the service."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.tool = os.path.join(os.path.dirname(ctx.binary), "tests", "tools", "line")
        self.holders = [procs.spawn(["unshare", "-n", "sleep", "infinity"], None) for _ in range(2)]
        own = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + WAIT
        self.near, self.far = (f"/proc/{p.pid}/ns/net" for p in self.holders)
        while own in (os.readlink(self.near), os.readlink(self.far)) and time.monotonic() < end:
            time.sleep(0.01)
        self.line = self.service = None

    def inside(self, ns, *argv):
        """The command line, on the CPU of the run."""
        return ["nsenter", f"--net={ns}", *self.ctx.box.pin(list(argv))]

    def ip(self, ns, text):
        done = subprocess.run(["nsenter", f"--net={ns}", "ip", *text.split()], capture_output=True, text=True, timeout=15)
        if done.returncode:
            raise LoadError(f"ip {text}: {done.stderr.strip()}")

    def lay(self, **settings):
        """A new line, with nothing in it."""
        self.cut()
        argv = [self.tool, self.near, self.far]
        for key, value in settings.items():
            argv += [key, str(value)]
        if self.ctx.box.realtime:
            argv = ["chrt", "-r", "2", *argv]
        cpus = self.ctx.two_cpus()
        self.line = Child(["taskset", "-c", cpus.split(",")[0], *argv] if cpus else argv)
        for ns, own, other in ((self.near, NEAR, FAR), (self.far, FAR, NEAR)):
            self.ip(ns, "link set lo up")
            self.ip(ns, f"addr add {own} peer {other} dev line")
            self.ip(ns, "link set line txqueuelen 5000 up")
        self.service = self.flow(self.far, "serve", SERVICE)

    def flow(self, ns, *argv, congestion=None):
        program = os.path.join(self.ctx.here, "driver", "flow.py")
        return Child(self.inside(ns, sys.executable, program, *map(str, argv)),
                     {"CONGESTION": congestion} if congestion else None)

    def cut(self):
        for c in (self.service, self.line):
            if c:
                c.close()
        self.service = self.line = None

    def close(self):
        self.cut()
        for p in self.holders:
            procs.stop(p)


class Way:
    """One way to bring bytes over the line; 'index' keeps two of them apart.

    The measurements of measure.py take it for a candidate: its processes are 'sides', the relay is none.
    """

    name = ""
    header = None
    relay = False
    port = SERVICE  # of the service

    def __init__(self, world, index=0):
        self.w, self.ctx, self.index, self.procs, self.sides = world, world.ctx, index, [], []
        self.listen = LISTEN + 10 * index
        self.client_inside = ["nsenter", f"--net={world.near}"]

    def path(self, name):
        return os.path.join(self.ctx.dir, f"distance-{self.index}-{name}")

    def spawn(self, ns, name, *argv):
        log = self.path(name + ".log")
        if os.path.exists(log):
            os.unlink(log)
        p = procs.spawn(self.w.inside(ns, *argv), log)
        self.procs.append(p)
        return p, log

    def said(self, p, log, pattern):
        end = time.monotonic() + WAIT
        while time.monotonic() < end and p.poll() is None:
            with open(log, encoding="utf-8", errors="replace") as f:
                found = re.search(pattern, f.read())
            if found:
                return found
            time.sleep(0.02)
        with open(log, encoding="utf-8", errors="replace") as f:
            raise LoadError(f"did not say {pattern!r}: {f.read()[-300:]}")

    def target(self, kind):
        return "127.0.0.1", self.listen, None

    def pids(self, side=None):
        chosen = self.sides if side is None else [self.sides[side]]
        return [pid for p in chosen for pid in procs.group_pids(p.pid)]

    def open(self, way, streams):
        """'streams' flows, 'up' or 'down'."""
        host, port, authority = self.target("")
        asked = [authority, self.header] if authority else []
        return self.w.flow(self.w.near, way, host, port, streams, *asked)

    def stop(self):
        while self.procs:
            procs.stop(self.procs.pop())
        self.sides = []


class Tcp(Way):
    def __init__(self, world, congestion, index=0):
        super().__init__(world, index)
        self.congestion = congestion

    def start(self):
        pass

    def open(self, way, streams):
        if way == "down":
            raise LoadError("plain TCP is measured one way")
        return self.w.flow(self.w.near, way, FAR, self.port, streams, congestion=self.congestion)


class Spanwire(Way):
    name = "spanwire"

    def __init__(self, world, congestion="bbr", relay=False, index=0):
        super().__init__(world, index)
        self.congestion, self.relay = congestion, relay

    def target(self, kind):
        return "127.0.0.1", self.listen, f"127.0.0.1:{self.port}"

    def start(self):
        b = self.ctx.binary
        at = f"{FAR}:{TUNNEL + 10 * self.index}"
        place, extra = at, []
        if self.relay:
            url = f"http://{FAR}:{RELAY}"
            p, log = self.spawn(self.w.far, "relay", b, "relay", "--open", "--rate-limit", "0", "--listen",
                                f"{FAR}:{RELAY}", "--workers", "1", "--admin-addr", "127.0.0.1:0", "--stats-addr",
                                "127.0.0.1:0", "--ready-addr", "127.0.0.1:0")
            self.said(p, log, "ready|listening")
            place, extra = f"relay={url}/", ["--relay", url + "/"]
        device, log = self.spawn(self.w.far, "device", b, "connector", "run", "--standalone", "--data", self.path("device"),
                                 "--bind", at, "--allow", f"127.0.0.1:{self.port}", "--open",
                                 "--admin-addr", "127.0.0.1:0", "--congestion", self.congestion, *extra)
        node = self.said(device, log, r"\b([0-9a-f]{64})\b").group(1)
        if self.relay:
            self.said(device, log, "relay")
            time.sleep(0.5)
        p, log = self.spawn(self.w.near, "sidecar", b, "sidecar", "--listen", f"127.0.0.1:{self.listen}", "--key-file",
                            self.path("key"), "--bind", f"{NEAR}:0", "--peer", f"{node}={place}", "--admin-addr",
                            "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0",
                            "--congestion", self.congestion)
        self.said(p, log, "\tsidecar\tready")
        self.sides = [p, device]
        self.header = f"x-iroh-endpoint-id: {node}"


class Native(Way):
    """Native iroh endpoints: the leanest forwarders, everything of one on a thread as link.py has them."""

    name = "native"
    streams = "4096"

    def __init__(self, world, index=0, relay=False):
        super().__init__(world, index)
        self.relay = relay

    def _spawn(self, ns, log, bind, *args):
        options = ["--bind", bind]
        if self.relay:
            options = ["--relay", f"http://{FAR}:{RELAY}", "--relay-only", "--qad-port", "0"]
        return self.spawn(ns, log, link.native_binary(self.ctx), "--threads", "0", "--streams", self.streams, *options, *args)

    def _exit(self):
        return ["exit", f"127.0.0.1:{self.port}"]

    def _entry(self, node):
        return ["entry", node, f"127.0.0.1:{self.listen}"]

    def start(self):
        at = f"{FAR}:{TUNNEL + 10 * self.index}"
        if self.relay:
            self._start_relay()
        far, log = self._spawn(self.w.far, "exit", at, *self._exit())
        node = self.said(far, log, r'"id":\s*"([0-9a-f]{64})"').group(1)
        if self.relay:
            self.said(far, log, r'"relay=http')
            at = f"relay=http://{FAR}:{RELAY}/"
        near, log = self._spawn(self.w.near, "entry", f"{NEAR}:0", *self._entry(f"{node}={at}"))
        self.said(near, log, '"ready"')
        self.sides = [near, far]

    def _start_relay(self):
        config = self.path("iroh-relay.toml")
        with open(config, "w", encoding="ascii") as f:
            f.write(f'enable_metrics = false\nhttp_bind_addr = "{FAR}:{RELAY}"\n')
        self.spawn(self.w.far, "iroh-relay", relay.native_binary(self.ctx), "--dev", "--config-path", config)
        time.sleep(0.3)


class NativeProxy(Native):
    """iroh-proxy-utils in both roles."""

    name = "native-proxy"

    def _exit(self):
        return ["device"]

    def _entry(self, node):
        return ["edge", node, "--tcp", f"127.0.0.1:{self.listen}=127.0.0.1:{self.port}"]
