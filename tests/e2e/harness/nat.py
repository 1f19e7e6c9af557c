# SPDX-License-Identifier: Apache-2.0
"""A world with homes behind routers of every kind, IPv4 and IPv6.

    relay       198.51.100.2   2001:db8:1::2    public; 198.51.100.3 as well
    KIND-SIDE   198.51.100.x   2001:db8:1::x    a router, and behind it
    in-KIND-SIDE  10.x.0.2     2001:db8:x::2    a machine

Kinds of routers:
    open        forwards everything, maps nothing
    restricted  masquerades and keeps ports (Linux does while they do not clash), lets in only answers: what ordinary
                routers do (endpoint-independent mapping, address- and port-dependent filtering)
    symmetric   the same, with another port for every destination
IPv6 is never mapped; all but 'open' let in only answers.
"""
import socket
import struct

from .netns import NetNs, _quiet
from .wait import guard

KINDS = ("open", "restricted", "symmetric")
RELAY, MIRROR, RELAY6 = "198.51.100.2", "198.51.100.3", "2001:db8:1::2"

_RULES = """
table inet nat {{
    chain out {{ type nat hook postrouting priority 100; oifname "eth0" meta nfproto ipv4 masquerade {how}; }}
    chain through {{
        type filter hook forward priority 0; policy drop;
        iifname "lan" accept
        ct state established,related accept
    }}
    chain self {{
        type filter hook input priority 0; policy accept;
        iifname "eth0" meta l4proto {{ tcp, udp }} ct state new drop
    }}
}}
"""


class World:
    """The public net is a bridge in the test's own namespace."""

    def __init__(self, sides=("a", "b"), kinds=KINDS):
        self.here = NetNs("world", "/proc/self/ns/net")
        self.here.ip("link set lo up", "link add world type bridge", "link set world up")
        self.all, self.links, self.number = {}, [], {}
        self._public("relay", RELAY, RELAY6).ip(f"addr add {MIRROR}/24 dev eth0")
        n = 10
        for side in sides:
            for kind in kinds:
                self._home(f"{kind}-{side}", n, kind)
                n += 1
        for name, ns in self.all.items():
            if not name.startswith("in-"):
                ns.ip(*(f"route add 10.{k}.0.0/24 via 198.51.100.{k}" for who, k in self.number.items() if who != name),
                      *(f"-6 route add 2001:db8:{k}::/64 via 2001:db8:1::{k}"
                        for who, k in self.number.items() if who != name))

    def _add(self, name):
        ns = NetNs(name)
        _quiet(ns)
        self.all[name] = ns
        return ns

    def _public(self, name, ip4, ip6):
        ns = self._add(name)
        link = f"w{len(self.links)}"
        self.links.append(link)
        self.here.ip(f"link add {link} type veth peer name eth0 netns {name}", f"link set {link} master world up")
        ns.ip("link set eth0 up", f"addr add {ip4}/24 dev eth0", f"-6 addr add {ip6}/64 dev eth0 nodad")
        return ns

    def _home(self, name, k, kind):
        router = self._public(name, f"198.51.100.{k}", f"2001:db8:1::{k}")
        inner = self._add(f"in-{name}")
        self.number[name] = k
        router.ip(f"link add lan type veth peer name eth0 netns in-{name}", "link set lan up",
                  f"addr add 10.{k}.0.1/24 dev lan", f"-6 addr add 2001:db8:{k}::1/64 dev lan nodad")
        inner.ip("link set eth0 up", f"addr add 10.{k}.0.2/24 dev eth0", f"route add default via 10.{k}.0.1",
                 f"-6 addr add 2001:db8:{k}::2/64 dev eth0 nodad", f"-6 route add default via 2001:db8:{k}::1")
        self.filter(name, kind)

    def filter(self, name, kind):
        """Makes the router one of another kind; what it knew is forgotten."""
        router = self.all[name]
        router.run("nft", "flush", "ruleset")
        if kind != "open":
            router.run("nft", "-f", "-", stdin=_RULES.format(how="fully-random" if kind == "symmetric" else ""))

    def __getitem__(self, name):
        return self.all[name]

    def public(self, name):
        return f"198.51.100.{self.number[name]}"

    def delete(self):
        self.here.ip(*(f"link del {link}" for link in self.links), "link del world")
        for ns in self.all.values():
            ns.delete()


def forget_flows(ns):
    """What 'conntrack -F' does: NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE without a tuple."""
    with ns.entered(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as s:
        s.settimeout(guard(5))
        s.send(struct.pack("=IHHIIBBH", 20, 0x102, 5, 1, 0, socket.AF_INET, 0, 0))
        answer = s.recv(4096)
        assert struct.unpack_from("=Hxxxxxxxxxxi", answer, 4)[1] == 0, answer


def renumber(ns, old, new):
    ns.ip(f"addr del {old}/24 dev eth0", f"addr add {new}/24 dev eth0")
    forget_flows(ns)
