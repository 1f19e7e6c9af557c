# SPDX-License-Identifier: Apache-2.0
"""Direct paths through NATs: who gets one, how fast, and what becomes of a transfer while the path changes."""
import contextlib
import itertools
import time

import pytest

from harness.nat import KINDS, MIRROR, RELAY, RELAY6, World, forget_flows, renumber
from harness.node import Process
from harness.quicpeer import Ours
from harness.wait import SANITIZED, SLOW, until

PORT = 3340
URL, URL6 = f"http://{RELAY}:{PORT}/", f"http://[{RELAY6}]:{PORT}/"
DIRECT = 2 * SLOW  # seconds at most until a direct path is in use, where 0.2 are usual
BULK = 4_000_000 if SANITIZED else 40_000_000
NEW = "198.51.100.77"  # of a router


@pytest.fixture(scope="module")
def world(topology):
    del topology  # the namespaces are made below its private /run
    w = World()
    yield w
    w.delete()


@pytest.fixture(scope="module")
def relay(world, binary, tmp_path_factory):
    """A relay, and a node beside it that tells others which address they come from."""
    p = Process(world["relay"], [binary, "relay", "--open", "--listen", f"[::]:{PORT}", "--admin-addr", "127.0.0.1:0",
                                 "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"],
                tmp_path_factory.mktemp("relay") / "relay.log")
    with peer(world["relay"], binary) as mirror:
        yield mirror
    p.proc.kill()
    p.wait()


@contextlib.contextmanager
def peer(ns, binary, relay=None, port=4433, host="0.0.0.0"):
    with contextlib.ExitStack() as stack:
        with ns.entered():
            p = stack.enter_context(Ours(binary, bind=f"{host}:{port}", probes=1, **({"relay": relay} if relay else {})))
        yield p


def learn(p, mirror):
    """Two more observers besides the relay: a NAT that maps by destination is found out."""
    p.tell(f"open {mirror.id} {RELAY}:4433,{MIRROR}:4433")
    p.event("mapped")


def outcome(kind_a, kind_b):
    """Whether a direct path can exist."""
    hard = {"restricted": 1, "symmetric": 2}
    return "direct" if hard.get(kind_a, 0) + hard.get(kind_b, 0) < 3 else "relay"


def test_who_reaches_whom(world, relay, binary, record_property):
    """Every kind of router before the dialler and before the device, all at once."""
    table = {}
    ports = itertools.count(5000)
    with contextlib.ExitStack() as stack:
        devices = {k: stack.enter_context(peer(world[f"in-{k}-b"], binary, URL)) for k in KINDS}
        for d in devices.values():
            d.event("relay", up=True)
            learn(d, relay)

        def dialler(a, b):
            p = stack.enter_context(peer(world[f"in-{a}-a"], binary, port=next(ports)))
            learn(p, relay)
            p.began = time.monotonic()
            p.dial(devices[b], [], URL)
            return p

        def direct_after(p):
            assert p.event("ready")["path"] == "relay"
            return p.event("path", path="direct")["at"] - p.began
        diallers = {(a, b): dialler(a, b) for a, b in itertools.product(KINDS, KINDS)}
        for (a, b), p in diallers.items():
            if outcome(a, b) == "direct":
                table[a, b] = direct_after(p), ""
            else:
                assert p.event("ready")["path"] == "relay"
                why = "both NATs are" if a == b else "our NAT is" if a == "symmetric" else "the peer's NAT is"
                until(lambda p=p, why=why: note(p).startswith(why), what=f"{a} x {b} says why it stays on the relay")
                table[a, b] = 0, note(p)
        for (a, b), p in diallers.items():
            assert p.echo(100_000)["path"] == outcome(a, b), (a, b, p.seen[-4:])
        # A machine with other work may stop one of them for a while; not twice in a row.
        for (a, b), (after, _) in table.items():
            for _ in range(2):
                if after > DIRECT:
                    after = direct_after(dialler(a, b))
            table[a, b] = after, table[a, b][1]
    record_property("shows", "\n".join(
        f"dialler {a:10} device {b:10} {outcome(a, b):6} {why or f'after {after * 1000:.0f} ms'}"
        for (a, b), (after, why) in sorted(table.items())))
    late = {pair: f"{after:.1f} s" for pair, (after, _) in table.items() if after > DIRECT}
    assert not late, f"direct, but after {late}"


def note(p):
    """Why the connection stays on the relay; empty: it is still probing."""
    p.tell("path")
    e = p.event("path")
    assert e["path"] == "relay", e
    return e["note"]


@pytest.fixture
def pair(world, relay, binary):
    """A dialler and a device, each behind an ordinary router, connected through the relay."""
    for router in ("restricted-a", "restricted-b"):
        forget_flows(world[router])  # a flow of an earlier test would give this device another public port
    with peer(world["in-restricted-b"], binary, URL) as device, peer(world["in-restricted-a"], binary) as dialler:
        # Here nobody but the relay's address discovery tells them how they look from outside.
        assert device.event("mapped")["addrs"] == [f"{world.public('restricted-b')}:4433"]
        dialler.dial(device, [], URL)
        assert dialler.event("ready")["path"] == "relay"
        yield dialler, device


CUT = """
table inet cut {
    chain every { type filter hook forward priority -10; meta l4proto udp drop; }
}
"""


class Flow:
    """One transfer that is under way until it is told to end."""

    def __init__(self, p):
        self.p = p
        p.tell("flow")
        self.more()

    def got(self):
        self.p.tell("got")
        return self.p.event("got")["bytes"]

    def more(self):
        """More than can have been on its way before."""
        n = self.got() + BULK
        until(lambda: self.got() > n, what=lambda: f"{n} bytes; seen {self.p.seen[-8:]}")

    def moves(self, device, router):
        """Begun on the relay: to a direct path, back when that dies, and to the direct path again."""
        for p in (self.p, device):
            p.event("path", path="direct")
        self.more()
        with cut(router):
            self.p.event("path", path="relay")
            self.more()
        self.p.event("path", path="direct")
        self.more()
        self.end()

    def end(self):
        assert not [e for e in self.p.seen if e["event"] == "closed"], self.p.seen
        self.p.tell("end")
        e = self.p.event("echo")
        assert e["ok"] and e["bytes"] > 0, e


@contextlib.contextmanager
def cut(router):
    router.run("nft", "-f", "-", stdin=CUT)
    try:
        yield
    finally:
        router.run("nft", "delete table inet cut")


def test_a_transfer_goes_on_while_the_path_changes(world, relay, binary):
    del relay
    router = world["restricted-b"]
    with peer(world["in-restricted-b"], binary, URL) as device, peer(world["in-restricted-a"], binary) as dialler:
        device.event("mapped")
        with cut(router):
            dialler.dial(device, [], URL)
            assert dialler.event("ready")["path"] == "relay"
            flow = Flow(dialler)
        flow.moves(device, router)


def test_a_machine_that_gets_another_address(world, pair):
    """First the device's, then its router's: the connection is the same, and direct again, under one transfer."""
    dialler, device = pair
    home, router = world["in-restricted-b"], world["restricted-b"]
    own = world.public("restricted-b")
    dialler.event("path", path="direct")
    flow = Flow(dialler)
    home.ip("addr del 10.14.0.2/24 dev eth0", "addr add 10.14.0.77/24 dev eth0", "route replace default via 10.14.0.1")
    try:
        device.tell("network")
        flow.more()
        until(lambda: dialler.echo(1000)["path"] == "direct", what="a direct path with the device's new address")
        # Nobody behind the router is told of this one.
        renumber(router, own, NEW)
        try:
            flow.more()
            until(lambda: dialler.echo(1000)["path"] == "direct", what="a direct path with the router's new address")
            flow.more()
            flow.end()
        finally:
            renumber(router, NEW, own)
    finally:
        home.ip("addr flush dev eth0 scope global", "addr add 10.14.0.2/24 dev eth0", "route replace default via 10.14.0.1",
                "-6 addr add 2001:db8:14::2/64 dev eth0 nodad", "-6 route replace default via 2001:db8:14::1")

@pytest.mark.parametrize("gap", (0.01, 0.5))
def test_a_transfer_survives_a_flapping_network(pair, gap):
    """Both ends hear of a changed network again and again; each change costs connection IDs, and there are few."""
    dialler, device = pair
    dialler.event("path", path="direct")
    dialler.tell(f"echo {6 * BULK}")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        dialler.tell("network")
        device.tell("network")
        time.sleep(gap)
    e = dialler.event("echo")
    assert e["ok"] and e["bytes"] == 6 * BULK, dialler.seen[-4:]
    # Changes in a row count as one: 3 s with pauses that double.
    dialler.tell("stats")
    assert dialler.event("stats")["migrations"] < 40, dialler.seen[-4:]
    until(lambda: dialler.echo(1000)["path"] == "direct", what="a direct path after the storm")
    assert not [e for e in dialler.seen + device.seen if e["event"] == "closed"]


def test_ipv6_through_two_firewalls(world, relay, binary):
    """Nothing is mapped, and only answers are let in. Both machines have interfaces that lead nowhere, too."""
    del relay
    homes = world["in-restricted-a"], world["in-symmetric-b"]
    for i, ns in enumerate(homes):
        ns.ip("link add nowhere type bridge", "link set nowhere up", f"-6 addr add fd00:{i}::1/64 dev nowhere nodad",
              f"-6 addr add 2001:db8:99:{i}::1/64 dev nowhere nodad")
    try:
        with peer(homes[1], binary, URL, 4466, "[::]") as device, peer(homes[0], binary, port=4466, host="[::]") as a:
            device.event("relay", up=True)
            a.dial(device, [], URL)
            e = a.event("path", path="direct")
            assert e["addr"] == f"[2001:db8:{world.number['symmetric-b']}::2]:4466", e
            assert a.echo(1_000_000)["path"] == "direct"
    finally:
        for ns in homes:
            ns.ip("link del nowhere")


@pytest.fixture
def ipv6_homes(world):
    """Two machines that have no IPv4 at all, behind firewalls."""
    names = "restricted-a", "symmetric-b"
    for name in names:
        world[f"in-{name}"].ip(f"addr del 10.{world.number[name]}.0.2/24 dev eth0")
    yield [world[f"in-{name}"] for name in names]
    for name in names:
        k = world.number[name]
        world[f"in-{name}"].ip(f"addr add 10.{k}.0.2/24 dev eth0", f"route add default via 10.{k}.0.1")


def test_ipv6_alone(world, relay, binary, ipv6_homes):
    """The relay by IPv6: it says which address it sees, carries the connection at first, and again when the path is cut."""
    del relay
    own = f"[2001:db8:{world.number['symmetric-b']}::2]:4455"
    with peer(ipv6_homes[1], binary, URL6, 4455, "[::]") as device, peer(ipv6_homes[0], binary, port=4455, host="[::]") as a:
        device.events_of({"event": "relay", "up": True}, {"event": "mapped", "addrs": [own]})
        router = world["symmetric-b"]
        with cut(router):
            a.dial(device, [], URL6)
            assert a.event("ready")["path"] == "relay"
            flow = Flow(a)
        flow.moves(device, router)
        assert {e["addr"] for e in a.seen if e["event"] == "path" and e["path"] == "direct"} == {own}


def test_another_direct_path_before_the_relay(world, relay, binary):
    """The device has two interfaces; the one in use is cut off, the connection goes on by the other."""
    del relay
    home, router = world["in-open-b"], world["open-b"]
    router.ip("link add lan2 type veth peer name eth1 netns in-open-b", "link set lan2 up", "addr add 10.77.0.1/24 dev lan2")
    home.ip("link set eth1 up", "addr add 10.77.0.2/24 dev eth1")
    for name in ("relay", "open-a", "restricted-a", "symmetric-a"):
        world[name].ip(f"route add 10.77.0.0/24 via {world.public('open-b')}")
    try:
        with peer(home, binary, URL, 4477) as device, peer(world["in-open-a"], binary, port=4477) as a:
            device.event("relay", up=True)
            a.dial(device, [], URL)
            used = a.event("path", path="direct")["addr"].split(":")[0]
            router.run("nft", "-f", "-", stdin=CUT.replace("meta l4proto udp", f"ip daddr {used} meta l4proto udp"))
            a.tell("echo 1000000")
            e = a.event("path")
            assert e["path"] == "direct" and not e["addr"].startswith(used), e
            assert a.event("echo")["ok"]
            router.run("nft", "delete table inet cut")
    finally:
        router.ip("link del lan2")
