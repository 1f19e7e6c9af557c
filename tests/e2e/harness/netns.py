# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and the topology the system tests run in.

Everything lives below one private network and mount namespace that the test process enters
before the first test (see conftest.py), so nothing outlives it and nothing outside is touched.
A socket belongs to the namespace it was created in, so the test process itself speaks from
inside any pod: it enters the namespace, creates the socket and returns.
"""
import contextlib
import ctypes
import os
import socket
import subprocess
import threading

from .wait import guard, until

CLONE_NEWNET = 0x40000000
RUN_NETNS = "/run/netns"
OUTBOUND, INBOUND_PLAIN, INBOUND_HBONE, SOCKS5 = 15001, 15006, 15008, 15080

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))


def run(*argv, stdin=None, check=True):
    """Runs a command to its end and returns its output; raises with its words when it fails."""
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=guard(60), check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stdout.strip()}")
    return done.stdout


class NetNs:
    """One network namespace, reachable by name and path."""

    def __init__(self, name, path=None):
        self.name = name
        if path is None:
            path = f"{RUN_NETNS}/{name}"
            run("ip", "netns", "add", name)
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is inside this namespace during the block."""
        home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net",
                       os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(self.fd)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(home)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM, proto=0):
        with self.entered():
            return socket.socket(family, kind, proto)

    def ip(self, *lines):
        """Arguments of ip(8), one command each; those starting with -6 go in a second batch."""
        with self.entered():
            for flag in ("", "-6"):
                batch = [line.removeprefix("-6 ") for line in lines
                         if line.startswith("-6 ") == bool(flag)]
                if batch:
                    run("ip", *flag.split(), "-batch", "-", stdin="\n".join(batch) + "\n")

    def run(self, *argv, **kw):
        with self.entered():
            return run(*argv, **kw)

    def sysctl(self, **values):
        """Keys use __ for / because they are keyword arguments."""
        with self.entered():
            for key, value in values.items():
                with open("/proc/sys/net/" + key.replace("__", "/"), "w", encoding="ascii") as f:
                    f.write(str(value))

    def delete(self):
        os.close(self.fd)
        run("ip", "netns", "del", self.name, check=False)


class Pod(NetNs):
    """A workload's namespace; 'captured' means its traffic is redirected to the proxy."""

    def __init__(self, node, name, host, captured):
        super().__init__(name)
        self.node = node
        self.captured = captured
        self.ip4 = f"10.0.{node.index}.{host}"
        self.ip6 = f"fd00:10:{node.index}::{host}"
        self.workload = f"default/{name}/{name}"
        self.identity = f"spiffe://cluster.local/ns/default/sa/{name}"


class NodeNs(NetNs):
    """A machine: forwards between its pods and the fabric."""

    def __init__(self, name, index):
        super().__init__(name)
        self.index = index
        self.ip4 = f"172.172.0.{index}"
        self.ip6 = f"fd00:172::{index}"
        self.pods = {}


def plugged(ns, dev="eth0"):
    """
    Waits until the kernel has taken note of a cable that has been put in. That is a job of its own, up to a second
    later: before, there is no link-local address, routes are marked as down, and bridges pass nothing on.
    """
    until(lambda: "state UP" in ns.run("ip", "link", "show", "dev", dev), what=f"{dev} in {ns.name} to be up")
    ns.ip(f"link set {dev} up")  # changes nothing, but waits for whoever is at work there


def _quiet(ns):
    ns.sysctl(ipv4__conf__all__rp_filter=0, ipv4__conf__default__rp_filter=0,
              ipv4__ip_forward=1, ipv6__conf__all__forwarding=1,
              ipv6__conf__all__accept_dad=0, ipv6__conf__default__accept_dad=0,
              ipv6__conf__all__disable_ipv6=0, ipv6__conf__default__disable_ipv6=0)
    ns.ip("link set lo up")


def new_bridge(name):
    """The ip command for a bridge that keeps its hardware address. Without one of its own a bridge takes the lowest of
    its ports, and with each port that comes or goes its neighbours may send to the former address for ten seconds."""
    return f"link add {name} address 02:00:00:00:00:01 type bridge"


class Topology:
    """The fabric (this process's own namespace) with a bridge, nodes, pods and an outsider."""

    def __init__(self):
        self.fabric = NetNs("fabric", "/proc/self/ns/net")
        _quiet(self.fabric)
        self.fabric.ip(new_bridge("br0"), "link set br0 up",
                       "addr add 172.172.0.254/16 dev br0",
                       "addr add fd00:172::fe/64 dev br0 nodad")
        self.nodes = {}
        self.pods = {}
        self.outside = None

    def _plug(self, ns, *lines):
        self.fabric.ip(f"link add {ns.name} type veth peer name eth0 netns {ns.name}",
                       f"link set {ns.name} master br0 up")
        ns.ip("link set eth0 up", *lines)

    def add_node(self, name):
        node = NodeNs(name, len(self.nodes) + 1)
        _quiet(node)
        self._plug(node, f"addr add {node.ip4}/16 dev eth0",
                   f"addr add {node.ip6}/64 dev eth0 nodad",
                   new_bridge("pods"), "link set pods up",
                   f"addr add 10.0.{node.index}.1/24 dev pods",
                   f"addr add fd00:10:{node.index}::1/64 dev pods nodad")
        for other in self.nodes.values():
            for a, b in ((node, other), (other, node)):
                a.ip(f"route add 10.0.{b.index}.0/24 via {b.ip4}",
                     f"-6 route add fd00:10:{b.index}::/64 via {b.ip6}")
        self.nodes[name] = node
        return node

    def add_pod(self, node, name, host, captured):
        pod = Pod(node, name, host, captured)
        _quiet(pod)
        node.ip(f"link add {name} type veth peer name eth0 netns {name}",
                f"link set {name} master pods up")
        pod.ip("link set eth0 up", f"addr add {pod.ip4}/24 dev eth0",
               f"addr add {pod.ip6}/64 dev eth0 nodad",
               f"route add default via 10.0.{node.index}.1",
               f"-6 route add default via fd00:10:{node.index}::1")
        pod.run("nft", "-f", "-", stdin=PROBE_RULES)
        node.pods[name] = pod
        self.pods[name] = pod
        return pod

    def add_outside(self):
        """A machine that is not in the mesh but can route to the pods. The last one: waits for all the cables."""
        out = NetNs("outside")
        out.ip4, out.ip6 = "172.172.1.1", "fd00:172::101"
        _quiet(out)
        self._plug(out, f"addr add {out.ip4}/16 dev eth0", f"addr add {out.ip6}/64 dev eth0 nodad")
        for n in self.nodes.values():
            out.ip(f"route add 10.0.{n.index}.0/24 via {n.ip4}",
                   f"-6 route add fd00:10:{n.index}::/64 via {n.ip6}")
        self.outside = out
        for ns in (*self.nodes.values(), *self.pods.values(), out):
            plugged(ns)
        return out

    def delete(self):
        for ns in [*self.pods.values(), *self.nodes.values(), self.outside]:
            if ns is not None:
                ns.delete()


# Counts connection attempts arriving at a pod's HBONE port, whoever makes them.
PROBE_RULES = """
table inet e2e_probe {
    counter hbone_syn { }
    chain in {
        type filter hook prerouting priority -400; policy accept;
        tcp dport 15008 tcp flags & (syn | ack) == syn counter name hbone_syn
    }
    chain out {
        type filter hook output priority -400; policy accept;
        oifname "lo" tcp dport 15008 tcp flags & (syn | ack) == syn counter name hbone_syn
    }
}
"""


def hbone_syns(pod):
    """How many TCP connections were attempted to this pod's port 15008 since it was made."""
    out = pod.run("nft", "list", "counter", "inet", "e2e_probe", "hbone_syn")
    return int(out.split("packets")[1].split()[0])


# The rules of a captured pod, kept here so that the suite can run (and be checked) without
# 'spanwire cni redirect': SPANWIRE_E2E_REDIRECT=script selects them.
CAPTURE_RULES = """
table inet istio-ambient-mangle {
    chain prerouting {
        type filter hook prerouting priority -150; policy accept;
        meta mark & 0xfff == 0x539 ct mark set ct mark & 0xfffff000 | 0x111
    }
    chain output {
        type route hook output priority -150; policy accept;
        ct mark & 0xfff == 0x111 meta mark set ct mark
    }
}
table inet istio-ambient-nat {
    chain prerouting {
        type nat hook prerouting priority -100; policy accept;
        ip daddr != 127.0.0.1 tcp dport != 15008 meta mark & 0xfff != 0x539 redirect to :15006
        ip6 daddr != ::1 tcp dport != 15008 meta mark & 0xfff != 0x539 redirect to :15006
    }
    chain output {
        type nat hook output priority -100; policy accept;
        meta l4proto tcp meta mark & 0xfff == 0x111 accept
        oifname "lo" ip daddr != 127.0.0.1 accept
        oifname "lo" ip6 daddr != ::1 accept
        ip daddr != 127.0.0.1 meta l4proto tcp meta mark & 0xfff != 0x539 redirect to :15001
        ip6 daddr != ::1 meta l4proto tcp meta mark & 0xfff != 0x539 redirect to :15001
    }
}
"""

# What the reference's dedicated-mode tests use: only what leaves the pod is captured.
OUTBOUND_ONLY_RULES = """
table inet e2e_outbound {
    chain output {
        type nat hook output priority -100; policy accept;
        oifname "lo" accept
        meta l4proto tcp meta mark & 0xfff != 0x539 redirect to :15001
    }
}
"""


def capture_by_script(pod):
    pod.run("nft", "-f", "-", stdin=CAPTURE_RULES)
    pod.ip("rule add fwmark 0x111/0xfff pref 32764 lookup 100",
           "route add local default dev lo table 100",
           "-6 rule add fwmark 0x111/0xfff pref 32764 lookup 100",
           "-6 route add local default dev lo table 100")
