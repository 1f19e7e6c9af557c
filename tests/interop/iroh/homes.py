# SPDX-License-Identifier: Apache-2.0
"""Two homes behind a NAT router each, and a public machine for the relay:

    pub    203.0.113.10
    natA   203.0.113.31    masquerades 192.168.31.0/24; nothing new comes in
    homeA  192.168.31.2
    natB   203.0.113.32    masquerades 192.168.32.0/24
    homeB  192.168.32.2

The kernel keeps the port of a mapping where it can, so mappings are endpoint-independent as those of ordinary
routers; with 'symmetric' each destination sees a port of its own. Filtering is by address and port.
"""
from harness.netns import NetNs, _quiet, plugged

PUB = "203.0.113.10"
PUBLIC = {"natA": "203.0.113.31", "natB": "203.0.113.32"}
RULES = """
table ip home {{
    chain out {{ type nat hook postrouting priority 100; oifname "eth0" masquerade{how}; }}
    chain in {{
        type filter hook forward priority 0; policy drop;
        iifname "lan" accept
        ct state established,related accept
    }}
    chain self {{ type filter hook input priority 0; policy accept; iifname "eth0" ct state new drop; }}
}}
"""


class Homes:
    def __init__(self, symmetric=()):
        self.here = NetNs("street", "/proc/self/ns/net")
        self.here.ip("link set lo up", "link add street type bridge", "link set street up")
        self.all = {}
        self._public("pub", PUB)
        for nat, address in PUBLIC.items():
            router, net = self._public(nat, address), f"192.168.{address.rpartition('.')[2]}"
            home = self._add("home" + nat[-1])
            router.ip(f"link add lan type veth peer name eth0 netns {home.name}", "link set lan up",
                      f"addr add {net}.1/24 dev lan")
            router.run("nft", "-f", "-", stdin=RULES.format(how=" fully-random" if nat in symmetric else ""))
            home.ip("link set eth0 up", f"addr add {net}.2/24 dev eth0", f"route add default via {net}.1")
        for ns in self.all.values():
            plugged(ns)

    def _add(self, name):
        ns = self.all[name] = NetNs(name)
        _quiet(ns)
        return ns

    def _public(self, name, address):
        ns = self._add(name)
        self.here.ip(f"link add s-{name} type veth peer name eth0 netns {name}", f"link set s-{name} master street up")
        ns.ip("link set eth0 up", f"addr add {address}/24 dev eth0")
        return ns

    def __getitem__(self, name):
        return self.all[name]

    def delete(self):
        # The kernel takes a namespace apart later: with the wires in it the next would find their names taken.
        self.here.ip(*(f"link del s-{name}" for name in ("pub", *PUBLIC)), "link del street")
        for ns in self.all.values():
            ns.delete()
