# SPDX-License-Identifier: Apache-2.0
"""Sites that are linked: each a machine with its own control plane and data plane, on one network.

    sitea    198.51.100.1    spanwire control --link-listen 127.0.0.1:4444, spanwire link on 4443
    siteb    198.51.100.2    the same
    ...

Clients of a site are addresses of its machine, 10.7.N.5 and up; the first has a Pod. Its services listen on 10.8.N.1.
Neither is routed between the machines. The network is a bridge in the test's own namespace.
"""
import contextlib
import json
import re
import signal
import socket

from .control import Control
from .link import Importer
from .link_control import API, Fabric
from .link_control import Site as Objects
from .metrics import Metrics
from .netns import NetNs, _quiet, plugged
from .node import _SANITIZER, Process
from .serve import Each
from .tap import context
from .traffic import http
from .wait import GUARD, SLOW, until

LISTEN, CONTROL = 4443, 4444
ADMIN, STATS = ("127.0.0.1", 15000), ("127.0.0.1", 15020)


class Plane(Process):
    """'spanwire link' of a site; 'control' is the port it asks at."""

    def __init__(self, binary, site, control=CONTROL, workers=2, flags=()):
        self.ns = site.ns
        super().__init__(site.ns, [
            binary, "link", "--control", f"127.0.0.1:{control}", "--site", str(site.site), "--workers", str(workers),
            "--drain-time", "1s", "--listen", f"{site.ip4}:{LISTEN}", "--listen", f"[{site.ip6}]:{LISTEN}",
            "--admin-addr", "127.0.0.1:15000", "--stats-addr", "127.0.0.1:15020", "--ready-addr", "127.0.0.1:15021",
            "--log-level", "debug", *flags], site.where / "link.log")
        self.wait_log(r"\tready, listening")

    def wait_log(self, pattern):
        def there():
            assert self.alive, f"link ended:\n{self.log()[-3000:]}"
            return re.search(pattern, self.log())
        return until(there, what=f"'{pattern}' in {self.log_path}")

    def metrics(self):
        return Metrics(http(self.ns, STATS, "/metrics")[2].decode())

    def dump(self):
        return json.loads(http(self.ns, ADMIN, "/config_dump")[2])

    def close(self):
        self.signal(signal.SIGTERM)
        status = self.wait()
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]
        assert status in (0, -signal.SIGKILL), f"link ended with {status}:\n{self.log()[-3000:]}"


class Site(Objects):
    """One site; its data plane, 'link', is there after start()."""

    def __init__(self, world, name, index, flags=(), fabric=None):
        self.world, self.index, self.where = world, index, world.where / name
        self.ns = world.machine(name, index)
        self.ip4, self.ip6 = f"198.51.100.{index}", f"2001:db8::{index}"
        self.inside = f"10.8.{index}.1"
        self.ns.ip(*(f"addr add {a}/32 dev lo" for a in (self.inside, self.client(), self.client(1))))
        self.fabric_dir = (fabric or world.fabric).peer(name, where=self.where / "fabric")
        control = Control(world.binary, self.where / "control", "--link-listen", f"127.0.0.1:{CONTROL}",
                          "--link-fabric", str(self.fabric_dir), "--xds-listen", "127.0.0.1:0", "--link-export-host",
                          self.inside, "--link-export-host", self.ip6, "--link-address", self.ip4,
                          "--log-level", "debug", *flags, port=6443, ns=self.ns)
        self.link = None
        super().__init__(control, control.data / "link-site", name)
        self.add_pod("client", self.client())

    def crash(self):
        """All of it is gone at once, for good."""
        self.link.kill()
        self.control.kill()
        self.world.sites.remove(self)

    def client(self, n=0):
        return f"10.7.{self.index}.{5 + n}"

    def add_pod(self, name, address, **labels):
        self.pod(name, address, {"app": name, **labels})

    def start(self, **kw):
        """Starts the data plane."""
        self.link = Plane(self.world.binary, self, **kw)
        return self

    def peer(self, other, *ends, name=None):
        """Another site, reached at its own gateway or at these (host, port)."""
        ends = ends or ((other.ip4, LISTEN),)
        self.put("peers", "Peer", name or other.name, {"gateways": [{"host": h, "port": p} for h, p in ends]},
                 "clusterlink-system")

    def export(self, name, port, host=None, labels=None):
        self.put("exports", "Export", name, {"host": host or self.inside, "port": port}, labels=labels)

    def imported(self, name, *sources, scheme="static"):
        """Imports a service of these sites and returns the port where it is; data plane and control plane know it."""
        self.imports(name, *((s.name, name) for s in sources), scheme=scheme)
        return self.imported_port(name)

    def imported_port(self, name):
        def leased():
            found = self.control.get(f"{API}/namespaces/default/imports/{name}").json
            return found["spec"].get("targetPort")
        port = until(leased, what=f"a port for {name}")
        until(lambda: self.listens(port), what=f"{name} to listen")
        return port

    def listens(self, port):
        """Without a connection: it would be authorised."""
        return self.ns.run("ss", "-ltnH", f"sport = :{port}")

    def dial(self, port, n=0):
        """A connection of client n to an import."""
        with self.ns.entered():
            return socket.create_connection((self.ip4, port), GUARD * SLOW, source_address=(self.client(n), 0))

    def serve(self, app, host=None):
        """A service inside the site; the port."""
        with self.ns.entered():
            s = Each(app, host=host or self.inside)
        self.world.stack.callback(s.close)
        return s.port

    def metric(self, name, **labels):
        """Of the control plane."""
        return Metrics(self.control.get("/metrics").body.decode()).sum(name, **labels)


class Foreign(Importer):
    """A peer without a site, that asks at the gateway of one: 'files' is what Fabric.peer made."""

    def __init__(self, files, site):
        self.context = context(files / "ca.pem", files / "cert.pem", files / "key.pem", None)
        self.site, self.target, self.port = site, site.name, LISTEN

    def connect(self):
        with self.site.ns.entered():
            raw = socket.create_connection((self.site.ip4, LISTEN), GUARD * SLOW)
        return self.context.wrap_socket(raw, server_hostname=self.target)


class World:
    """The network, the fabric's authority, and the sites on it."""

    def __init__(self, binary, where):
        self.binary, self.where = binary, where
        self.fabric = Fabric(where / "fabric")
        self.stack = contextlib.ExitStack()
        self.sites = []
        self.here = NetNs("sites", "/proc/self/ns/net")
        self.here.ip("link set lo up", "link add sites type bridge", "link set sites up")
        self.stack.callback(self.here.ip, "link del sites")

    def machine(self, name, index):
        ns = NetNs(name)
        self.stack.callback(ns.delete)
        _quiet(ns)
        self.here.ip(f"link add s-{name} type veth peer name eth0 netns {name}", f"link set s-{name} master sites up")
        self.stack.callback(self.here.ip, f"link del s-{name}")
        ns.ip("link set eth0 up", f"addr add 198.51.100.{index}/24 dev eth0",
              f"addr add 2001:db8::{index}/64 dev eth0 nodad")
        plugged(ns)
        return ns

    def site(self, name, start=True, **kw):
        site = Site(self, name, len(self.sites) + 1, **kw)
        self.sites.append(site)
        return site.start() if start else site

    def three(self):
        """Three sites that know each other and allow everything."""
        sites = [self.site(name) for name in ("sitea", "siteb", "sitec")]
        for s in sites:
            for other in sites:
                if other is not s:
                    s.peer(other)
            s.policy("all")
        return sites

    def close(self):
        """Ends everything and looks at how it ended."""
        try:
            for s in self.sites:
                if s.link:
                    s.link.close()
            for s in self.sites:
                s.control.close()
        finally:
            for s in self.sites:
                for p in (s.link, s.control):
                    if p and p.alive:
                        p.kill()
            self.stack.close()
