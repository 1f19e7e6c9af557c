# SPDX-License-Identifier: Apache-2.0
"""Our QUIC endpoint against the real iroh, by direct address: who dials, who refuses, what arrives."""
import socket
import time

import pytest
from harness.quicpeer import Iroh, Ours
from harness.wait import guard


@pytest.fixture
def ours(binary):
    with Ours(binary) as p:
        yield p


@pytest.fixture
def iroh():
    with Iroh() as p:
        yield p


def test_we_dial(ours, iroh):
    ours.dial(iroh, iroh.addrs)
    ready = ours.event("ready")
    assert ready["peer"] == iroh.id and ready["path"] == "direct"
    assert iroh.event("accepted")["peer"] == ours.id
    ours.echo(5)
    ours.echo(20_000_000)
    ours.tell("close 42")
    assert "42" in iroh.event("closed")["why"]


def test_iroh_dials(ours, iroh):
    iroh.dial(ours, ours.addrs)
    assert ours.event("accepted")["peer"] == iroh.id
    assert iroh.event("ready")["peer"] == ours.id
    for n in (5, 300_000, 20_000_000):
        iroh.echo(n)
    iroh.op("close", code=7)
    closed = ours.event("closed")
    assert (closed["kind"], closed["code"], closed["text"]) == ("app", 7, "told to")


def test_datagrams_both_ways(ours, iroh):
    ours.dial(iroh, iroh.addrs)
    ours.event("ready")
    ours.tell("datagram 1000")
    assert ours.event("datagram")["ok"]
    iroh.dial(ours, ours.addrs)
    iroh.event("ready")
    iroh.op("datagram", bytes=1000)
    assert iroh.event("datagram")["ok"]


def test_iroh_demands_a_retry(ours):
    with Iroh(incoming="retry") as iroh:
        ours.dial(iroh, iroh.addrs)
        iroh.event("retry")
        ours.event("ready")
        ours.echo(100_000)


def test_we_demand_a_retry(binary, iroh):
    # One handshake that will never end is all this endpoint allows: the next has to prove its address.
    with Ours(binary, half_open=1) as ours, Ours(binary) as other, socket.socket(type=socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(guard(10))
        other.dial(ours, [f"127.0.0.1:{s.getsockname()[1]}"])
        first = s.recv(65535)
        host, port = ours.addrs[0].split(":")
        s.sendto(first, (host, int(port)))
        s.recv(65535)
        iroh.dial(ours, ours.addrs)
        iroh.event("ready")
        iroh.echo(100_000)
        ours.tell("stats")
        assert ours.event("stats")["retries"] >= 1  # a packet that was answered late is sent twice


def test_iroh_refuses(ours):
    with Iroh(incoming="refuse") as iroh:
        ours.dial(iroh, iroh.addrs)
        closed = ours.event("closed")
        assert (closed["kind"], closed["code"]) == ("transport", 2)


def test_nobody_answers(binary):
    with Ours(binary, dial=1) as ours, Iroh(incoming="ignore") as iroh:
        ours.dial(iroh, iroh.addrs)
        assert ours.event("closed")["kind"] == "timeout"


def test_wrong_protocol(ours, iroh):
    ours.dial(iroh, iroh.addrs, alpn="other/1")
    closed = ours.event("closed")
    assert (closed["kind"], closed["code"]) == ("transport", 0x178)
    iroh.dial(ours, ours.addrs, alpn="other/1")
    assert iroh.event("error")["op"] == "connect"


def test_wrong_key(ours, iroh):
    somebody = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
    ours.dial(iroh, iroh.addrs, node=somebody)
    assert ours.event("closed")["kind"] == "identity"
    iroh.dial(ours, ours.addrs, node=somebody)
    assert iroh.event("error")["op"] == "connect"


def test_several_addresses_of_one_server(binary, iroh):
    with Ours(binary, bind="0.0.0.0:0") as ours:
        port = ours.addrs[0] if ours.addrs else None
        port = (port or "").rpartition(":")[2] or ours.seen[0]["addrs"][0].rpartition(":")[2]
        iroh.dial(ours, ["127.0.0.1:9", f"127.0.0.1:{port}", f"127.0.0.2:{port}"])
        iroh.event("ready")
        iroh.echo(300_000)
        iroh.op("close", code=0)
        assert ours.event("closed")["kind"] == "app"
        ours.tell("stats")
        assert ours.event("stats")["accepted"] == 1


def test_we_try_several_addresses(ours, iroh):
    ours.dial(iroh, ["127.0.0.1:9", "127.0.0.3:9"] + iroh.addrs)
    assert ours.event("ready")["addr"] == iroh.addrs[0]
    ours.echo(300_000)


def test_idle_connections_stay(binary):
    # Nobody sends anything but the PINGs of every five seconds: our limit is nine, and iroh's is more.
    with Ours(binary, idle=9) as ours, Iroh() as iroh:
        ours.dial(iroh, iroh.addrs)
        iroh.dial(ours, ours.addrs)
        ours.event("ready")
        iroh.event("ready")
        time.sleep(11)
        ours.echo(1000)
        iroh.echo(1000)


def test_many_streams_at_once(ours, iroh):
    ours.dial(iroh, iroh.addrs)
    ours.event("ready")
    for _ in range(50):
        ours.tell("echo 20000")
    for _ in range(50):
        assert ours.event("echo")["ok"]
