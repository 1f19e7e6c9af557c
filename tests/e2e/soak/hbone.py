# SPDX-License-Identifier: Apache-2.0
"""HBONE tunnels between two 'spanwire node's, whose configuration and certificates change under them."""
import contextlib
import os
import random
import threading
import time

from harness import certs, netns, traffic
from harness.mesh import PORT, Mesh
from harness.wait import until
from soak.tally import PATIENCE

# name: (node, last byte of the address); all captured
PODS = {"c1": ("node1", 2), "s1": ("node1", 3), "c2": ("node2", 2), "s2": ("node2", 3)}
WAYS = (("c1", "s2"), ("c2", "s1"))
TTL = "2m"  # certificates are replaced at half of it
DRAIN = 60  # seconds; longer than any connection but those that stay for the whole run


class Nodes:
    """The machines, the pods and a node on each machine."""

    def __init__(self, binary, where):
        self.topology = netns.Topology()
        nodes = {n: self.topology.add_node(n) for n in ("node1", "node2")}
        for name, (node, host) in PODS.items():
            self.topology.add_pod(nodes[node], name, host, "shared")
        self.topology.add_outside()
        self.topology.plain_apps = ()
        for pod in self.topology.pods.values():
            netns.run(binary, "cni", "redirect", "apply", "--netns", pod.path)
        self.mesh = Mesh(self.topology, certs.Authority(binary, where / "ca"), binary, where)
        self.mesh.both("--secret-ttl", TTL, "--drain", "1s")
        for pod in ("s1", "s2"):
            self.mesh.echo(self.mesh.pods[pod])
        self.watched = {n.name: n.pid for n in self.mesh.nodes}

    def close(self):
        faults = []
        try:
            self.mesh.close()
        except AssertionError as e:
            faults.append(str(e)[:1500])
        with contextlib.suppress(OSError, RuntimeError):
            self.topology.delete()
        return faults


def connect(mesh, source, destination):
    return traffic.connect(mesh.pods[source], (mesh.pods[destination].ip4, PORT), PATIENCE)


def new_connections(part, load, mesh, way, rate):
    for _ in load.pace(rate):
        with part.operation(f"new connection {way[0]} to {way[1]}"), connect(mesh, *way) as sock:
            size = random.choice((10, 1000, 100000))
            traffic.echo_once(sock, size)
            part.moved(2 * size)


def kept(part, load, mesh, way):
    """A tunnel that stays open for the whole run and carries a message a second."""
    with connect(mesh, *way) as sock:
        for _ in load.pace(1):
            begin, size = time.monotonic(), random.choice((10, 1000, 50000))
            traffic.echo_once(sock, size)
            part.ok(time.monotonic() - begin, 2 * size)


def reloads(mesh):
    """How many configurations each node has loaded."""
    return [n.metrics().sum("spanwire_config_reloads_total", result="ok") for n in mesh.nodes]


def answers(mesh, address):
    """Whether a connection to a service's address is served; an address that is not known yet leads nowhere."""
    with mesh.pods["c1"].socket() as sock:
        sock.settimeout(5)
        try:
            sock.connect((address, 80))
            traffic.echo_once(sock)
        except OSError:
            return False
    return True


def changes(part, load, mesh, changing):
    """A service gets another address, a policy comes or goes; each change is seen to take effect."""
    number = 0
    for _ in load.pace(0.2):
        number += 1
        with part.operation(f"configuration {number}"), changing:
            before, address = reloads(mesh), f"10.99.0.{number % 200 + 1}"
            mesh.world.service("changing", [address], {80: PORT}, ["s1", "s2"])
            if number % 2:
                mesh.world.match_policy("changing", "Deny", destinationPorts=[number % 1000 + 20000])
            else:
                mesh.world.policies.pop(("default", "changing"), None)
            mesh.world.write()
            until(lambda b=before: all(n > m for n, m in zip(reloads(mesh), b)), PATIENCE, "the nodes to load it")
            until(lambda a=address: answers(mesh, a), PATIENCE, f"{address} to be served")


def hand_overs(part, load, mesh, changing, every):
    """A second process joins node2's ports, takes connections, and drains while they go on."""
    while not load.stop.wait(every) and load.left() > every / 2:
        with part.operation("hand-over of node2"), contextlib.ExitStack() as stack:
            with changing:  # a node that starts or ends does not answer for its configuration
                joined = mesh.shared("node2", "--secret-ttl", TTL, "--drain", f"{DRAIN}s", offset=100)
                mesh.nodes.remove(joined)
            stack.callback(lambda j=joined: j.alive and j.kill())
            socks = [stack.enter_context(connect(mesh, *way)) for way in WAYS for _ in range(4)]
            for sock in socks:
                traffic.echo_once(sock)
            load.stop.wait(min(10, every / 4))
            joined.terminate()
            for _ in range(5):
                for sock in socks:
                    traffic.echo_once(sock)
                load.stop.wait(0.5)
            for sock in socks:
                sock.close()
            joined.finish(DRAIN + PATIENCE)
            os.unlink(joined.log_path)  # the next one has the same name


def start(load, mesh, every):
    """Begins the load of the mesh."""
    changing = threading.Lock()
    for way in WAYS:
        load.thread(load.part("HBONE new connections"), new_connections, load, mesh, way, 5)
        for _ in range(4):
            load.thread(load.part("HBONE kept tunnels"), kept, load, mesh, way)
    load.thread(load.part("node configurations"), changes, load, mesh, changing)
    load.thread(load.part("node hand-overs"), hand_overs, load, mesh, changing, every)
