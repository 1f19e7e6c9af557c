# SPDX-License-Identifier: Apache-2.0
"""One test's mesh: the shared topology plus the nodes, servers and sockets the test makes."""
import contextlib
import os
import pathlib
import re

from . import certs, hbone_peer, traffic
from .node import Node
from .wait import GUARD, until
from .world import World

PORT = 8080  # where test applications listen unless a test says otherwise


class Mesh:
    def __init__(self, topology, authority, binary, directory):
        self.topo = topology
        self.ca = authority
        self.binary = binary
        self.dir = pathlib.Path(directory)
        self.world = World(self.dir / "local.yaml")
        self.nodes = []
        self._close = []
        self.pods = topology.pods
        for pod in topology.pods.values():
            plain = pod.name in topology.plain_apps
            self.world.add_pod(pod, "TCP" if plain else "HBONE")

    def __getattr__(self, name):
        """mesh.c1 is the pod c1."""
        try:
            return self.__dict__["pods"][name]
        except KeyError:
            raise AttributeError(name) from None

    # -- nodes --------------------------------------------------------------------------------
    def _log_path(self, name):
        n = sum(1 for x in self.nodes if x.name == name)
        return str(self.dir / (f"{name}.log" if n == 0 else f"{name}.{n + 1}.log"))

    def _spawn(self, ns, name, flags, wait=True, **kw):
        if self.world.revision == 0:
            self.world.write()
        base = ["--local-xds", str(self.world.path), "--local-ca", str(self.ca.dir)]
        for key, value in (("--drain", "1s"), ("--workers", "2")):
            if key not in flags:
                base += [key, value]
        drop = kw.pop("without", ())
        for key in drop:
            at = base.index(key)
            del base[at:at + 2]
        node = Node(self.binary, ns, name, self._log_path(name), base + list(flags), **kw)
        self.nodes.append(node)
        return node.wait_ready() if wait else node

    def shared(self, name, *flags, pods=None, **kw):
        """A shared-mode node for the captured pods of a node namespace."""
        ns = self.topo.nodes[name]
        if pods is None:
            pods = [p for p in ns.pods.values() if p.captured == "shared"]
        args = ["--mode", "shared", "--node-name", name]
        for pod in pods:
            args += ["--pod", f"{pod.workload}={pod.path}"]
        return self._spawn(ns, name, args + list(flags), **kw)

    def both(self, *flags, **kw):
        return self.shared("node1", *flags, **kw), self.shared("node2", *flags, **kw)

    def dedicated(self, pod, *flags, **kw):
        """A dedicated node inside the pod's own namespace."""
        args = ["--mode", "dedicated", "--workload", pod.workload, "--node-name", pod.node.name,
                "--packet-mark", "1337"]
        return self._spawn(pod, pod.name, args + list(flags), **kw)

    def apply(self):
        """Writes the configuration and waits until every running node has loaded it."""
        self.world.write()
        for node in self.nodes:
            if node.alive:
                until(lambda n=node: n.loaded(self.world.marker), GUARD,
                      f"{node.name} to load {self.world.marker}:\n{node.log()[-2000:]}")

    # -- traffic ------------------------------------------------------------------------------
    def keep(self, thing):
        """Closes or stops a thing at the end of the test."""
        self._close.append(thing)
        return thing

    def echo(self, pod, port=PORT, greeting=b"", ip=None):
        return self.keep(traffic.EchoServer(pod, (ip or pod.ip4, port), greeting))

    def hold(self, pod, port=PORT, ip=None):
        return self.keep(traffic.HoldServer(pod, (ip or pod.ip4, port)))

    def serve(self, pod, handler, port=PORT, ip=None):
        return self.keep(traffic.HandlerServer(pod, (ip or pod.ip4, port), handler))

    def connect(self, ns, dst, port=PORT, timeout=GUARD, bind=None):
        ip = dst if isinstance(dst, str) else dst.ip4
        return self.keep(traffic.connect(ns, (ip, port), timeout, bind))

    def roundtrip(self, ns, dst, port=PORT, timeout=GUARD):
        """A connection that must be served by an echo server; closed afterwards."""
        ip = dst if isinstance(dst, str) else dst.ip4
        with traffic.connect(ns, (ip, port), timeout) as sock:
            traffic.echo_once(sock)

    def refused(self, ns, dst, port=PORT, timeout=GUARD):
        ip = dst if isinstance(dst, str) else dst.ip4
        return traffic.refused(ns, (ip, port), timeout=timeout)

    def carriers(self, source, dst, port=15008):
        """The connections from a pod to an HBONE port, named as in Process.open_sockets()."""
        out = source.run("ss", "-Htne", "dst", dst.ip4, "dport", "=", f":{port}")
        return {f"socket:[{ino}]" for ino in re.findall(r" ino:(\d+)", out)}

    # -- foreign peers ------------------------------------------------------------------------
    def client_context(self, identity="spiffe://cluster.local/ns/default/sa/p1", **kw):
        return certs.client_context(self.ca, self.ca.issue(identity), **kw)

    def server_context(self, identity, **kw):
        return certs.server_context(self.ca, self.ca.issue(identity), **kw)

    def hbone(self, pod, source=None, identity=None, ip=None, **kw):
        """An HBONE client from an uncaptured pod to a pod's port 15008."""
        source = source or self.pods["p1"]
        context = self.client_context(identity or source.identity)
        return self.keep(hbone_peer.hbone_client(source, (ip or pod.ip4, 15008), context, **kw))

    def hbone_server(self, pod, app=None, identity=None, context=None, port=15008, **kw):
        """A foreign HBONE server in an uncaptured pod."""
        context = context or self.server_context(identity or pod.identity)
        return self.keep(hbone_peer.HboneServer(pod, (pod.ip4, port), context, app, **kw))

    # -- the end ------------------------------------------------------------------------------
    def close(self):
        for thing in reversed(self._close):
            with contextlib.suppress(OSError):
                (thing.stop if hasattr(thing, "stop") else thing.close)()
        failures = [f"foreign peer: {c}" for t in self._close for c in getattr(t, "crashes", ())]
        for node in self.nodes:
            if node.alive:
                node.terminate()
        for node in self.nodes:
            try:
                node.finish()
            except AssertionError as err:
                failures.append(str(err))
        assert not failures, "\n".join(failures)

    def report(self):
        """The end of every log, for a failed test."""
        out = []
        for node in self.nodes:
            text = node.log()
            out.append((f"log of {node.name} ({os.path.basename(node.log_path)})",
                        "\n".join(text.splitlines()[-15:])[-5000:]))
        return out


__all__ = ["Mesh", "PORT"]
