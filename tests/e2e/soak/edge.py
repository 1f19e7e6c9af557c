# SPDX-License-Identifier: Apache-2.0
"""
The edge: 'spanwire up' with a public address, two devices behind NAT, an origin that routes lead to, and the load of the
devices' tunnels: visitor, gateway, sidecar, device, the device's local server. One device has no UDP: its tunnel stays on the
relay.
"""
import contextlib
import http.client
import pathlib
import random
import re
import subprocess
import sys
import time

from harness import town
from harness.control import Control
from harness.node import Process
from harness.wait import until
from soak import client
from soak.tally import PATIENCE

APP = pathlib.Path(__file__).resolve().parent / "app.py"
APP_PORT, PLAIN, SECURE = 3000, 9080, 9443
HELPER = "(app.py)"  # ends the names of processes that are not roles
NO_UDP = """
table ip soak {
    chain out { type filter hook output priority 0; meta l4proto udp drop; }
}
"""
MIB = 1 << 20


class Api(Control):
    """The client half of harness.control.Control, for an API that 'spanwire up' runs."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self._shared = self.context()
        server = re.search(r"server: https://([0-9.]+):(\d+)", kubeconfig.read_text(encoding="utf-8"))
        self.host, self.port = server.group(1), int(server.group(2))

    def connection(self, context=None, timeout=None):
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout or PATIENCE,
                                           context=context or self._shared)


class App(Process):
    """app.py in a namespace."""

    def __init__(self, ns, where, name, address):
        super().__init__(ns, [sys.executable, str(APP), name, address, str(APP_PORT)], where / f"app-{name}.log")
        until(lambda: self.alive and "ready" in self.log(), what=f"app.py {name}: {self.log()[-500:]}")


class Place:
    """Everything on the edge, started; close() ends it in the opposite order."""

    def __init__(self, binary, where, wires):
        self.where, self.wires = where, wires
        self.visitor = wires["visitor"]
        self.closers = []
        self.watched = {}  # role: process id, must live until the end
        self.edge = town.Edge(binary, wires["edge"], where, "--access-log=false")
        self.closers.append(self.edge.stop)
        self.watched["up"] = self.edge.pid
        for role in ("control", "relay", "sidecar", "gateway"):
            self.watched[role] = self.edge.role_pid(role)
        self.api = Api(self.edge.kubeconfig)
        self._app("origin server", self.visitor, town.VISITOR, "origin")
        self.sites = {}  # name of a device: its hostname without and with TLS
        wires["home2"].run("nft", "-f", "-", stdin=NO_UDP)
        for name, home in (("device", "home1"), ("relayed device", "home2")):
            self._device(binary, name, wires[home])

    def _app(self, what, ns, address, name):
        app = App(ns, self.where, name, address)
        self.closers.append(app.kill)
        self.watched[f"{what} {HELPER}"] = app.pid

    def _device(self, binary, name, ns):
        short_name = name.split()[0]
        self._app(f"the {name}'s local server", ns, "127.0.0.1", short_name)
        hostname = f"{short_name}.town.example"
        device = town.Device(binary, ns, self.where, self.edge, short_name, APP_PORT, hostname)
        self.closers.append(device.stop)
        self.watched[f"{name} (expose)"] = device.pid
        self.sites[name] = [client.Site((town.EDGE, town.HTTP), hostname),
                            client.Site((town.EDGE, town.HTTPS), hostname, self.edge.data / "connect-ca/root.crt")]
        for site in self.sites[name]:
            until(lambda s=site: self._served(device, s), 60, f"{hostname} to be served:\n{device.log()[-2000:]}",
                  interval=0.1)

    def _served(self, device, site):
        assert device.alive, f"expose ended:\n{device.log()[-2000:]}"
        try:
            with self.visitor.entered(), contextlib.closing(site.connection()) as c:
                return client.get(c, "/first")[1].startswith(f"{device.name} /first ".encode())
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def close(self):
        faults = []
        for close in reversed(self.closers):
            try:
                close()
            except (AssertionError, OSError, subprocess.SubprocessError) as e:
                faults.append(str(e)[:1500])
        return faults


def short(part, load, site, rate):
    """Small requests over connections that are kept."""
    kept, n = client.KeptAlive(site), 0
    for _ in load.pace(rate):
        n += 1
        with part.operation(f"GET /n/{n}"):
            body = kept.get(f"/n/{n}")
            client.expect(body.rpartition(b" ")[0], f"{site.hostname.split('.')[0]} /n/{n}".encode())
            part.moved(len(body))
    kept.close()


def transfers(part, load, site, way, seconds):
    """One stream after the other that takes about so many seconds, and a short one as fast as it goes."""
    while not load.stop.is_set():
        rate = MIB // 4
        length = min(seconds, max(2.0, load.left()))
        for what, total, limit in ((f"of {length:.0f} s", int(rate * length), rate),
                                   ("of 4 MiB or more", 4 * MIB + random.randrange(MIB), 0)):
            if load.stop.is_set():
                return
            with part.operation(f"{way.__name__} {what}"):
                way(site, random.randrange(1 << 20), total, limit, lambda n: load.aborted() or part.moved(n))
        load.stop.wait(1)


def tunnel(part, load, site):
    """A WebSocket that stays open for the whole run and carries a message a second."""
    ws = client.WebSocket(site)
    try:
        for _ in load.pace(1):
            begin = time.monotonic()
            size = ws.echo(random.choice((20, 1000, 20000)))
            part.ok(time.monotonic() - begin, size)
    finally:
        ws.close()


def start(load, place):
    """Begins the load of the devices' tunnels."""
    ns = place.visitor
    for name, sites in place.sites.items():
        for site in sites:
            kind = "TLS" if site.tls else "plain"
            load.thread(load.part(f"{name} requests, {kind}"), short, load, site, 10, ns=ns)
            for _ in range(4):
                load.thread(load.part(f"{name} WebSockets, {kind}"), tunnel, load, site, ns=ns)
            for way in (client.download, client.upload):
                for seconds in (15, 120):
                    load.thread(load.part(f"{name} {way.__name__}s"), transfers, load, site, way, seconds, ns=ns)
