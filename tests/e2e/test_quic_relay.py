# SPDX-License-Identifier: Apache-2.0
"""Paths: by relay, from relay to direct and back, with ourselves and with the real iroh."""
import contextlib
import hmac
import os
import socket
import subprocess
import time

import pytest
from harness import netns
from harness.ports import free_port
from harness.quicpeer import Iroh, Ours
from harness.wait import until

BULK = 20_000_000


class Relay:
    """spanwire relay on a port of its own, which can be stopped and started again."""

    def __init__(self, binary):
        self.binary = binary
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.proc = None
        self.start()

    def start(self):
        self.proc = subprocess.Popen([self.binary, "relay", "--open", "--listen", f"127.0.0.1:{self.port}", "--admin-addr",
                                      "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, what="the relay answers")

    def _answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self):
        self.proc.kill()
        self.proc.wait()


@pytest.fixture
def relay(binary):
    r = Relay(binary)
    yield r
    r.stop()


def directly(peer, n):
    """An echo by the direct path; a peer that stood still is asked by the relay meanwhile."""
    until(lambda: peer.echo(n)["path"] == "direct", what="the direct path")


def comes_directly(peer, event):
    """
    At once, as a rule: the relay takes longer than a packet. When both lay there before somebody looked, the relay's may
    have been first, and the connection moves.
    """
    if peer.event(event)["path"] != "direct":
        peer.event("path", path="direct")


@pytest.mark.tsan
def test_two_of_ours_by_relay(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, [], relay.url)
        assert a.event("ready")["path"] == "relay"
        assert b.event("accepted")["path"] == "relay"
        assert a.echo(BULK)["path"] == "relay"


def test_from_relay_to_direct_when_an_address_is_learnt(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, [], relay.url)
        assert a.event("ready")["path"] == "relay"
        a.tell(f"echo {BULK}")
        a.tell(f"more {b.addrs[0]}")
        a.events_of({"event": "path", "path": "direct"}, {"event": "echo", "ok": True})
        b.event("path", path="direct")
        directly(a, BULK)


def test_an_address_that_does_not_answer_costs_nothing(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, ["127.0.0.1:9", "127.0.0.9:9"], relay.url)
        assert a.event("ready")["path"] == "relay"
        for _ in range(5):
            assert a.echo(300_000)["path"] == "relay"
            time.sleep(0.3)
        a.tell(f"more {b.addrs[0]}")
        a.event("path", path="direct")
        a.echo(300_000)


def test_direct_wins_when_both_are_known(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, b.addrs, relay.url)
        comes_directly(a, "ready")
        comes_directly(b, "accepted")
        directly(a, BULK)


def test_back_to_the_relay_when_the_direct_path_dies(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, b.addrs, relay.url)
        comes_directly(a, "ready")
        a.echo(1000)
        port = b.addrs[0].split(":")[1]
        netns.run("nft", "add", "table", "inet", "cut")
        try:
            netns.run("nft", "add", "chain", "inet", "cut", "in", "{ type filter hook input priority 0 ; }")
            netns.run("nft", "add", "rule", "inet", "cut", "in", "udp", "dport", port, "drop")
            netns.run("nft", "add", "rule", "inet", "cut", "in", "udp", "sport", port, "drop")
            a.tell("echo 2000000")
            a.event("path", path="relay")
            assert a.event("echo")["ok"]
        finally:
            netns.run("nft", "delete", "table", "inet", "cut")
        # And to the direct path again, when it works.
        a.event("path", path="direct")
        a.echo(1000)


def test_a_path_that_takes_less_than_it_did(binary):
    """Large packets vanish without a word, small ones go on: a transfer must not hang for ever."""
    with Ours(binary) as a, Ours(binary) as b:
        a.dial(b, b.addrs)
        a.event("ready")
        a.echo(BULK)
        netns.run("ip", "link", "set", "lo", "mtu", "1280")
        try:
            a.echo(BULK)
            a.echo(BULK)
        finally:
            netns.run("ip", "link", "set", "lo", "mtu", "65536")


def test_a_connection_survives_its_relay(binary, relay):
    with Ours(binary) as a, Ours(binary, relay=relay.url) as b:
        b.event("relay", up=True)
        a.dial(b, [], relay.url)
        a.event("ready")
        a.echo(100_000)
        relay.stop()
        b.event("relay", up=False)
        a.tell("echo 100000")
        time.sleep(1)
        relay.start()
        b.event("relay", up=True)
        assert a.event("echo")["ok"]
        a.echo(100_000)


def test_we_dial_iroh_by_relay_and_move(binary, relay):
    with Ours(binary) as ours, Iroh(relay=relay.url) as iroh:
        ours.dial(iroh, [], relay.url)
        assert ours.event("ready")["path"] == "relay"
        assert ours.echo(1_000_000)["path"] == "relay"
        ours.tell(f"more {iroh.addrs[0]}")
        ours.event("path", path="direct")
        for _ in range(3):
            directly(ours, 1_000_000)
        ours.tell("close 9")
        assert "9" in iroh.event("closed")["why"]


def test_iroh_moves_under_load(binary, relay):
    with Ours(binary) as ours, Iroh(relay=relay.url) as iroh:
        ours.dial(iroh, [], relay.url)
        assert ours.event("ready")["path"] == "relay"
        ours.tell("echo 3000000")
        ours.tell(f"more {iroh.addrs[0]}")
        ours.events_of({"event": "path", "path": "direct"}, {"event": "echo", "ok": True})
        ours.echo(100_000)


def test_iroh_dials_us_by_relay(binary, relay):
    with Ours(binary, relay=relay.url) as ours, Iroh(relay=relay.url) as iroh:
        ours.event("relay", up=True)
        iroh.dial(ours, [], relay=relay.url)
        accepted = ours.event("accepted")
        assert accepted["path"] == "relay" and accepted["peer"] == iroh.id
        iroh.event("ready")
        iroh.echo(1_000_000)


def test_iroh_that_knows_both_comes_directly(binary, relay):
    with Ours(binary, relay=relay.url) as ours, Iroh(relay=relay.url) as iroh:
        ours.event("relay", up=True)
        iroh.dial(ours, ours.addrs, relay=relay.url)
        comes_directly(ours, "accepted")
        iroh.event("ready")
        iroh.echo(1_000_000)


def test_a_native_peer_is_left_alone(binary, relay):
    """It gets a few datagrams of no flow, and is moved as ever: by an address that somebody names."""
    with Ours(binary, probes=1) as ours, Iroh(relay=relay.url) as iroh:
        ours.dial(iroh, [], relay.url)
        ours.event("ready", path="relay")
        assert ours.echo(1_000_000)["path"] == "relay"
        ours.tell(f"more {iroh.addrs[0]}")
        ours.event("path", path="direct")
        directly(ours, 1_000_000)
        ours.tell("stats")
        assert ours.event("stats")["probes_sent"] == 0


def test_who_asks_gets_no_more_than_it_sent(binary):
    """The wire format once more, by another hand. Only who knows the NodeID is answered, with as many bytes."""
    with Ours(binary, probes=1) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        host, port = a.addrs[0].split(":")
        s.connect((host, int(port)))
        s.settimeout(20)
        tx = os.urandom(12)

        def question(node):
            head = bytes([0x10, 1]) + bytes(8) + tx + bytes(2)
            head += bytes(tx[i % 12] for i in range(18))  # no address, masked
            key = hmac.digest(b"spanwire ask", node, "sha256")
            return head + hmac.digest(key, head, "sha256")[:16]
        ours = bytes.fromhex(a.id)
        for wrong in (question(bytes(32)), question(ours)[:-1], question(ours) + b"x"):
            s.send(wrong)
        asked = question(ours)
        s.send(asked)
        while (answer := s.recv(2048))[0] != 0x11:  # a stateless reset for each of the others, as for any packet
            assert len(answer) < len(asked)
        assert len(answer) == len(asked) == 58 and answer[10:22] == tx
        seen = bytes(b ^ tx[i % 12] for i, b in enumerate(answer[24:42]))
        assert answer[22] == 4 and (socket.inet_ntoa(seen[2:6]), int.from_bytes(seen[:2], "big")) == s.getsockname()
        a.tell("stats")
        assert a.event("stats")["probes_sent"] == 1


def test_two_of_ours_tell_each_other_where_they_are(binary, relay):
    """Nobody names an address: the ends exchange theirs over the relay, and the transfer under way moves."""
    with Ours(binary, probes=1) as a, Ours(binary, relay=relay.url, probes=1) as b:
        b.event("relay", up=True)
        a.dial(b, [], relay.url)
        a.event("ready", path="relay")
        a.tell(f"echo {BULK}")
        a.events_of({"event": "path", "path": "direct"}, {"event": "echo", "ok": True})
        b.event("path", path="direct")
        directly(a, BULK)
