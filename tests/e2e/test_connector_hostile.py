# SPDX-License-Identifier: Apache-2.0
"""Attacks on the ways to a device: its QUIC endpoint, its streams, the relay, the sidecar's socket."""
import contextlib
import os
import random
import re
import socket
import ssl
import struct
import time

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError

from harness.device import Device
from harness.fabric import make_cert
from harness.quicpeer import Ours
from harness.quicraw import Hello, Ports, initial, kind, retry
from harness.relay import Client
from harness.sidecar import Echo, QDevice, Sidecar
from harness.wait import SANITIZED, SLOW, guard, until

ALPN = "iroh-http-proxy/1"
FIRST = 1200  # the smallest datagram a client may begin with


def labelled(text, name, **labels):
    """The sum over the lines of a metric that have these labels."""
    out = 0.0
    for line in text.splitlines():
        if re.match(rf"{name}(_total)?(\{{|\s)", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
            out += float(line.rsplit(" ", 1)[1])
    return out


def rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def bounded(pid, before, by):
    """Memory grew by no more than so many MB. Sanitizers have their own ideas of memory."""
    grown = rss_mb(pid) - before
    assert SANITIZED or grown < by, f"{before:.0f} MB and {grown:.0f} more"


# ---- the device's endpoint ----

OTHER = "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"  # the key of nobody here


class Target:
    """A device that admits everybody, and an honest visitor of it."""

    def __init__(self, binary, directory, web, *flags):
        self.binary, self.web = binary, web
        self.device = Device(binary, directory, "/does/not/exist", "--standalone", "--open", "--allow",
                             f"127.0.0.1:{web.port}", "--log-level", "info", *flags)
        self.addr = self.device.addrs()[0]
        self.at = ("127.0.0.1", int(self.addr.rsplit(":", 1)[1]))
        self.pid = self.device.pid

    def dialler(self):
        return Ours(self.binary, dial=int(guard(10)))

    def hello(self, peer):
        return Hello(peer, ALPN, self.device.id)

    def dial(self, peer):
        peer.dial(None, [self.addr], alpn=ALPN, node=self.device.id)
        return peer.event("ready")

    def honest(self):
        with self.dialler() as p:
            self.dial(p)

    def event(self, event):
        return labelled(self.device.get("metrics"), "spanwire_connector_quic_events", event=event)

    def refusals(self, reason):
        return labelled(self.device.get("metrics"), "spanwire_refusals", reason=reason)

    def exchanges(self, result):
        return labelled(self.device.get("metrics"), "spanwire_connector_exchanges", result=result)

    def active(self):
        return self.device.status()["exchanges"]["active"]


@pytest.fixture
def target(topology, binary, tmp_path, web):
    del topology
    t = Target(binary, tmp_path / "device", web)
    yield t
    t.device.stop()
    t.device.check()


@pytest.fixture
def ports(target):
    made = []

    def fn(n):
        made.append(Ports(target.at, n))
        return made[-1]
    yield fn
    for p in made:
        p.close()


def amplified(p):
    """Ports that were sent more than three times what they sent, without having proved their address."""
    return [(p.sent[s], p.got[s]) for s in p.socks if p.got[s] > 3 * p.sent[s]]


def retried(answers):
    return [(i, d) for i, d in answers if kind(d) == "retry"]


def test_strangers_do_not_fill_the_log(topology, binary, tmp_path, web):
    """Whoever finds the port can prove a key of its own: a burst of lines, then ten a second. The metric counts each."""
    del topology
    t = Target(binary, tmp_path / "device", web, "--open=false", "--allow-gateway", OTHER)
    with t.dialler() as peer:
        for _ in range(150):
            peer.dial(None, [t.addr], alpn=ALPN, node=t.device.id)
            peer.event("closed")
    assert t.refusals("unknown_gateway") == 150
    for text in ("connection refused\treason=", "refused node"):
        assert 10 < t.device.log().count(text) < 140, text
    t.device.stop()
    t.device.check()


def test_a_flood_of_first_packets_meets_a_retry(target, ports):
    before = rss_mb(target.pid)
    p = ports(300)
    with target.dialler() as peer:
        hello = target.hello(peer)
        p.flood(lambda i: hello.first(), lambda got: retried(got) and target.event("retry") > 500, "addresses to be doubted")
        target.dial(peer)
    p.read(0.5)
    assert not amplified(p)
    until(lambda: "requiring address validation" in target.device.log(), 5, "a line about it")
    bounded(target.pid, before, 30)


def test_a_flood_that_proves_its_addresses_does_not_shut_others_out(target, ports):
    """More than may be connected at all, from addresses that are real: the oldest handshakes make room."""
    before = rss_mb(target.pid)
    p = ports(200)
    proved = 0
    with target.dialler() as peer:
        hello = target.hello(peer)

        def made_room():
            nonlocal proved
            for i in range(200):
                p.send(i, hello.first())
            for i, d in retried(p.read(0.1)):
                scid, token = retry(d)
                p.send(i, hello.first(dcid=scid, token=token))
                proved += 1
            return proved > 800 and target.event("failed") > 500
        until(made_room, what="the oldest to make room")
        target.dial(peer)
    target.honest()
    until(lambda: target.event("accepted") >= 2)
    bounded(target.pid, before, 100)


def test_first_packets_that_fail_meet_a_retry_too(target, ports):
    before = rss_mb(target.pid)
    p = ports(100)
    rng = random.Random(3)

    def first(i):
        # CRYPTO frames with nonsense, unknown frames, no frames at all
        body = [b"\x06\x00\x40\x64" + rng.randbytes(100), b"\x3f" + rng.randbytes(60), b""][i % 3]
        return initial(rng.randbytes(8 + i % 13), rng.randbytes(i % 21), body)
    p.flood(first, lambda got: retried(got) and target.event("retry") > 200 and target.event("failed") > 0,
            "addresses to be doubted")
    p.read(0.5)
    assert not amplified(p)
    target.honest()
    bounded(target.pid, before, 30)


def test_noise(target, ports):
    p = ports(20)
    rng = random.Random(11)
    head = bytes([0xC3]) + struct.pack(">I", 1) + b"\x08" + bytes(8) + b"\x08" + bytes(8)
    before = target.event("dropped")

    def noise(i):
        size = rng.choice([1, 5, 20, 21, 40, 1199, 1200, 1252, 9000])
        forms = (
            rng.randbytes(size),
            head[:1 + i % len(head)],  # cut anywhere
            bytes([0x40 | rng.randrange(64)]) + rng.randbytes(size),
            bytes([0xC0 | rng.randrange(64)]) + struct.pack(">I", rng.randrange(1 << 32)) + rng.randbytes(FIRST),
            (head + rng.randbytes(FIRST))[:size],
            head[:5] + bytes([rng.randrange(21, 256)]) + rng.randbytes(FIRST),  # IDs longer than allowed
        )
        return forms[i % len(forms)]
    for i in range(2000):
        p.send(i, noise(i))
    for i in range(20):
        p.send(i, rng.randbytes(65507))
    p.read(0.5)
    assert not amplified(p)
    p.flood(noise, lambda got: target.event("dropped") > before + 500, "noise to be dropped")
    assert not amplified(p)
    assert target.event("accepted") == 0
    target.honest()


@pytest.mark.parametrize("size", [FIRST, 1199])
def test_silence_after_the_first_packet_gets_three_times_its_size(target, ports, size):
    """The server's first flight is repeated, but never beyond the bound of RFC 9000, 8.1."""
    p = ports(1)
    with target.dialler() as peer:
        p.send(0, target.hello(peer).first(size=size))
        if size >= FIRST:
            until(lambda: p.read(0.1), what="the server's first flight")
        p.read(2.5)
    s = p.socks[0]
    assert p.sent[s] == size
    if size < FIRST:
        assert p.got[s] == 0
    else:
        assert 0 < p.got[s] <= 3 * size


def test_a_stolen_token_proves_nothing(target, ports):
    """A Retry token is good for the address it was sent to."""
    p = ports(120)
    with target.dialler() as peer:
        hello = target.hello(peer)
        got = p.flood(lambda i: hello.first(), retried, "an address to be doubted")
        _, d = retried(got)[-1]
        scid, token = retry(d)
        target.dial(peer)  # so that all that was sent before is done with
        before = target.event("dropped")
        thief = ports(1)
        thief.send(0, hello.first(dcid=scid, token=token))
        until(lambda: target.event("dropped") == before + 1, what="the thief to be ignored")
        assert not thief.read(0.3)


# ---- streams of a gateway that was admitted ----

def count(peer):
    peer.tell("count")
    return peer.event("count")


def test_ten_thousand_streams_that_say_next_to_nothing(target):
    before = rss_mb(target.pid)
    limit = 4096 + 4096 // 8 + 16
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(target.dialler()) for _ in range(10)]
        for p in peers:
            target.dial(p)
        opened = 0

        def refused():
            """They are opened again where the first were given up for their heads before the last had come."""
            nonlocal opened
            for i, p in enumerate(peers):
                # a letter; a head that begins and never ends
                p.tell("hold 1024 " + ("G" if i % 2 else f"CONNECT 127.0.0.1:{target.web.port} HTTP/1.1\\r\\nhost:"))
            opened += 10240
            until(lambda: sum(count(p)["opened"] for p in peers) == opened, what="the streams to be opened")
            assert target.active() <= limit
            return target.refusals("too_many_streams") > 4000
        until(refused, what="streams to be reset")
        assert target.active() <= limit
        bounded(target.pid, before, 50)
        until(lambda: target.active() == 0, 25, "heads to time out")
        assert target.exchanges("head_timeout") >= 4096
        until(lambda: "streams are reset" in target.device.log(), 5, "a line about it")
        until(lambda: "reason=head_timeout" in target.device.log(), 5, "lines about them")
        target.honest()


def ask(target, peer_args=()):
    """One honest request on a connection of its own; what came back, in bytes."""
    with Ours(target.binary, *peer_args) as p:
        target.dial(p)
        host = f"127.0.0.1:{target.web.port}"
        p.tell(f"hold 1 GET http://{host}/hello HTTP/1.1\\r\\nhost: {host}\\r\\n\\r\\n")
        return until(lambda: count(p)["bytes"], what="an answer")


@pytest.mark.tsan
def test_streams_given_up_in_a_loop(target):
    with target.dialler() as p:
        target.dial(p)
        p.tell(f"churn 20000 GET http://127.0.0.1:{target.web.port}/hello")
        e = p.event("closed")
        assert e["kind"] == "transport" and "resets" in e["text"]
    until(lambda: "too many reset streams" in target.device.log(), 5, "a line about it")
    until(lambda: target.event("stream_reset") >= 1000)
    assert ask(target) > 50


def test_streams_held_and_dropped_again_and_again(target):
    before = rss_mb(target.pid)
    with target.dialler() as p:
        target.dial(p)
        for _ in range(5):
            p.tell(f"hold 150 CONNECT 127.0.0.1:{target.web.port} HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n")
            until(lambda: target.active() >= 150, 10, "tunnels")
            p.tell("drop")
            until(lambda: target.active() == 0, 10, "them to go")
    bounded(target.pid, before, 30)
    until(lambda: target.device.open_fds() < 60, 5, "sockets to be closed")
    assert ask(target) > 50


def test_huge_heads(target):
    with target.dialler() as p:
        target.dial(p)
        p.tell("hold 50 GET http://a/ HTTP/1.1\\r\\nx: " + "y" * 9000)
        until(lambda: target.device.status()["exchanges"]["malformed"] == 50, 10, "the refusals")
        assert until(lambda: count(p)["bytes"] >= 50 * 50, 5, "50 answers")
        until(lambda: "refused with 431: head_too_large" in target.device.log(), 5, "lines about them")
    assert ask(target) > 50


def test_readers_that_do_not_read(target):
    """What is sent and not taken waits in the origin; in the device no more than a stream may have under way, 1 MiB."""
    host = f"127.0.0.1:{target.web.port}"
    with target.dialler() as p:
        target.dial(p)
        before = rss_mb(target.pid)
        p.tell(f"deaf 100 GET http://{host}/big HTTP/1.1\\r\\nhost: {host}\\r\\n\\r\\n")
        until(lambda: target.active() == 100, 20, "the exchanges")
        time.sleep(1)
        bounded(target.pid, before, 110)
        assert ask(target) > 50
        p.tell("drop")
        until(lambda: target.active() == 0, 20, "them to go")


# ---- the relay ----

def well(r):
    """Two honest clients reach each other."""
    a, b = Client(r).login(), Client(r).login()
    a.send(b.id, b"hello")
    assert b.message(6)[34:] == b"hello"
    a.close()
    b.close()


def test_a_thousand_half_open_connections_at_the_relay(make_relay):
    r = make_relay("--establish-timeout", f"{6 * int(SLOW)}s")
    before = rss_mb(r.p.pid)
    idle = []
    for i in range(1000):
        s = socket.create_connection((r.host, r.port))
        # nothing, half a head, or a WebSocket that never proves its key
        with contextlib.suppress(OSError):  # of one that was sent away before we came to it
            if i % 3 == 1:
                s.sendall(b"GET /relay HTTP/1.1\r\nHost: x\r\nUpgr")
            elif i % 3 == 2:
                s.sendall(Client(r, sock=s).request())
        idle.append(s)
    well(r)
    bounded(r.p.pid, before, 30)
    until(lambda: r.metric("refusals", reason="timeout") >= 1000, 10, "them to be sent away")
    until(lambda: "not established in time" in r.said(), 5, "lines about them")
    for s in idle:
        s.close()
    well(r)


def test_slow_tls_at_the_relay(make_relay, tmp_path):
    cert, key = make_cert(tmp_path, "r")
    r = make_relay("--establish-timeout", f"{6 * int(SLOW)}s", tls=(cert, key))
    slow = []
    for i in range(200):
        s = socket.create_connection((r.host, r.tls_port))
        with contextlib.suppress(OSError):  # of one that was sent away before we came to it
            s.sendall(b"\x16\x03\x01\x02\x00\x01\x00"[:1 + i % 7])
        slow.append(s)
    junk = socket.create_connection((r.host, r.tls_port))
    junk.sendall(os.urandom(4000))
    context = ssl.create_default_context(cafile=cert)
    raw = socket.create_connection((r.host, r.tls_port))
    c = Client(r, sock=context.wrap_socket(raw, server_hostname="127.0.0.1")).login()

    def served():
        """Also what keeps it: one that says nothing for long is asked, and has to answer."""
        c.frame(b"\x09abcdefgh")
        return c.message(10) == b"\x0aabcdefgh"
    until(lambda: served() and r.metric("refusals", reason="timeout") >= 200, 10, "them to be sent away", interval=0.2)
    for s in (*slow, junk):
        s.close()
    assert served()


def raw_frame(first, length, payload=b"", mask=True):
    """A frame whose header says what it likes."""
    bit = 0x80 if mask else 0
    return bytes([first]) + (bytes([bit | 127]) + struct.pack(">Q", length) if length > 65535 else
                             bytes([bit | 126]) + struct.pack(">H", length) if length > 125 else
                             bytes([bit | length])) + (bytes(4) if mask else b"") + payload


BAD_FRAMES = {
    "reserved bit": (raw_frame(0xC2, 9, b"\x09abcdefgh"), 1002),
    "reserved opcode": (raw_frame(0x83, 1, b"x"), 1002),
    "reserved control": (raw_frame(0x8B, 1, b"x"), 1002),
    "long ping": (raw_frame(0x89, 126, bytes(126)), 1002),
    "ping in pieces": (raw_frame(0x09, 1, b"x"), 1002),
    "continues nothing": (raw_frame(0x80, 1, b"x"), 1002),
    "begins twice": (raw_frame(0x02, 1, b"\x04") + raw_frame(0x82, 1, b"x"), 1002),
    "not masked": (raw_frame(0x82, 9, b"\x09abcdefgh", mask=False), 1002),
    "endless": (raw_frame(0x82, 1 << 40), 1009),
    "negative": (raw_frame(0x82, (1 << 63) + 5), None),
    "grows": (raw_frame(0x02, 60000, b"\x04" + bytes(59999)) + raw_frame(0x80, 60000, bytes(60000)), 1009),
    "type unknown": (raw_frame(0x82, 40, b"\x63" + bytes(39)), 1002),
    "type of two bytes": (raw_frame(0x82, 40, b"\x40\x04" + bytes(38)), None),
    "ping too short": (raw_frame(0x82, 8, b"\x09abcdefg"), 1002),
    "send without id": (raw_frame(0x82, 32, b"\x04" + bytes(31)), 1002),
    "a server's frame": (raw_frame(0x82, 35, b"\x06" + bytes(33) + b"x"), 1002),
    "somebody is gone": (raw_frame(0x82, 33, b"\x08" + bytes(32)), 1002),
}


def test_frames_that_end_a_connection(make_relay):
    r = make_relay()
    witness = Client(r).login()
    for n, (name, (data, code)) in enumerate(BAD_FRAMES.items(), 1):
        c = Client(r).login()
        c.s.sendall(data)
        got = c.close_code()
        assert got is not None and code in (None, got), f"{name}: {got}"
        until(lambda: r.metric("refusals", reason="protocol") == n, 5, name)
        c.close()
    witness.frame(b"\x09abcdefgh")
    assert witness.message(10) == b"\x0aabcdefgh"


@pytest.mark.tsan
def test_a_client_cannot_be_another(make_relay):
    """The relay says who sent a packet; an answer to one challenge is none to another."""
    r = make_relay()
    a, b = Client(r).login(), Client(r).login()
    victim = Client(r).login()
    a.send(b.id, victim.id + b"\x00I am the victim")  # a second id in the payload
    got = b.message(6)
    assert got[1:33] == a.id and got[34:] == victim.id + b"\x00I am the victim"
    # The proof of the victim, heard elsewhere, on a connection of one's own.
    spy = Client(r)
    spy.upgrade()
    spy.message()
    other = Client(r)
    other.upgrade()
    other.message()
    other.id = victim.id
    other.frame(b"\x01" + victim.id + b"\x40" + victim.key.sign(os.urandom(32)))
    assert other.message()[0] == 3 and other.close_code() == 1008
    # A key of small order, which any signature would fit.
    spy.frame(b"\x01" + bytes([1]) + bytes(31) + b"\x40" + bytes(64))
    assert spy.close_code() == 1008
    until(lambda: r.metric("refusals", reason="denied") == 2, 5)
    b.send(victim.id, b"still you")
    assert victim.message(6)[34:] == b"still you"


def test_a_client_that_is_flooded_costs_a_queue(make_relay):
    r = make_relay("--write-timeout", "60s", "--queue", 64)
    before = rss_mb(r.p.pid)
    victim = Client(r).login()
    victim.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    bullies = [Client(r).login() for _ in range(3)]
    data = bytes(60000)
    for _ in range(400):
        for b in bullies:
            b.send(victim.id, data)
    until(lambda: r.metric("relay_send_packets_dropped", reason="queue") > 500, 20, "frames to be dropped")
    bounded(r.p.pid, before, 30)
    well(r)
    bullies[0].frame(b"\x09abcdefgh")
    assert bullies[0].message(10) == b"\x0aabcdefgh"
    until(lambda: victim.message(6)[1:33] in {b.id for b in bullies}, 5)


# ---- the sidecar's socket ----

@pytest.fixture
def device(topology, binary, tmp_path):
    del topology
    d = QDevice(binary, tmp_path / "devkey")
    yield d
    d.close()


@pytest.fixture
def sidecar(binary, device, tmp_path):
    made = []

    def fn(*flags):
        made.append(Sidecar(binary, tmp_path / f"side{len(made)}", "--peer", device.peer, *flags).wait_ready())
        return made[-1]
    yield fn
    for s in made:
        s.close()


SMUGGLED = {
    "two framings": "content-length: 5\r\ntransfer-encoding: chunked\r\n",
    "two lengths": "content-length: 5\r\ncontent-length: 6\r\n",
    "a list of lengths": "content-length: 5, 6\r\n",
    "a signed length": "content-length: +5\r\n",
    "a length with letters": "content-length: 5x\r\n",
    "a huge length": "content-length: 99999999999999999999\r\n",
    "another coding": "transfer-encoding: xchunked\r\n",
    "chunked in the middle": "transfer-encoding: chunked, identity\r\n",
    "chunked twice": "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "a space before the colon": "content-length : 5\r\n",
    "a folded line": "x: a\r\n content-length: 5\r\n",
    "a bare line feed": "x: a\ncontent-length: 5\r\n",
    "a bare return": "x: a\rcontent-length: 5\r\n",
    "a zero byte": "x: a\0b\r\n",
    "a name that is none": "x y: a\r\n",
    "no name": ": a\r\n",
}


def status_of(sock, data):
    """Sends; the status of the answer, 0 for none; and whether the connection was closed after it."""
    with contextlib.suppress(OSError):
        sock.sendall(data)
    got = b""
    with contextlib.suppress(OSError):
        while part := sock.recv(65536):
            got += part
    assert len(re.findall(rb"HTTP/1\.1 \d\d\d ", got)) <= 1, got
    return int(got.split(b" ")[1]) if got else 0


@pytest.mark.tsan
def test_smuggling_forms_at_the_sidecar(sidecar, device, web):
    s = sidecar()
    inner = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
    for name, fields in SMUGGLED.items():
        head = (f"POST /outer HTTP/1.1\r\nhost: a\r\nx-iroh-endpoint-id: {device.id}\r\n"
                f"x-datum-target-host: 127.0.0.1\r\nx-datum-target-port: {web.port}\r\n{fields}\r\n0\r\n\r\n{inner}")
        sock = s.connect()
        status = status_of(sock, head.encode("latin1"))
        assert status in (400, 501), f"{name}: {status}"
        sock.close()
    for name, line in {"two spaces": "GET  / HTTP/1.1", "no version": "GET /", "another version": "GET / HTTP/1.2",
                       "a tab": "GET\t/ HTTP/1.1", "an old version": "GET / HTTP/0.9", "lower case": "get / http/1.1",
                       }.items():
        sock = s.connect()
        status = status_of(sock, f"{line}\r\nhost: a\r\nx-iroh-endpoint-id: {device.id}\r\n"
                                 f"x-datum-target-host: 127.0.0.1\r\nx-datum-target-port: {web.port}\r\n\r\n".encode())
        assert status in (400, 501, 505), f"{name}: {status}"
        sock.close()
    assert not device.lines, device.lines
    until(lambda: s.metrics().sum("iroh_gateway_denied_requests_total") >= len(SMUGGLED))
    a = s.request(device.id, web.port, "/hello")
    assert a.status == 200 and a.body() == b"hello /hello"
    a.close()


def test_connect_to_authorities_that_are_none(sidecar, device):
    s = sidecar()
    bad = ["a", "a:", ":80", "a:0", "a:65536", "a:-1", "a:+80", "a:8 0", "a:80/x", "a:80?x", "a:80#x", "u@a:80",
           "u:p@a:80", "http://a:80", "//a:80", "/", "*", "[::1]", "[::1:80", "::1:80", "[::1]x:80", "[1.2.3.4]:80",
           "[]:80", "a:080x", "a%00b:80", "a\x01b:80", "a,b:80", "a\\b:80", "[fe80::1%25eth0]:80", "a" * 300 + ":80"]
    before = s.metrics().sum("iroh_gateway_denied_requests_total")
    for target in bad:
        a = s.ask(f"CONNECT {target} HTTP/1.1\nhost: x\nx-iroh-endpoint-id: {device.id}\n")
        assert a.status == 400, (target, a.line)
        a.close()
    assert not device.lines, device.lines
    until(lambda: s.metrics().sum("iroh_gateway_denied_requests_total") == before + len(bad))


def patient(s):
    """A connection; a full queue of the listener is waited for."""
    def try_it():
        with contextlib.suppress(BlockingIOError):
            return s.connect()
    return until(try_it, 10, "room in the queue")


def test_thousands_of_idle_clients_of_the_sidecar(sidecar, device, web):
    s = sidecar("--max-clients", "2000")
    before = rss_mb(s.pid)
    echo = Echo()
    tunnels = [s.tunnel(device.id, f"127.0.0.1:{echo.port}") for _ in range(300)]
    assert {t.status for t in tunnels} == {200}
    idle = []

    def refused():
        """They come again where the first were sent away for their slowness before the last had come."""
        while idle:
            idle.pop().close()
        for i in range(2500):
            c = patient(s)
            with contextlib.suppress(OSError):  # those beyond the limit are closed at once
                c.sendall([b"", b"G", b"CONNECT a:1 HTTP/1.1\r\nhost: "][i % 3] if i % 3 else b"")
            idle.append(c)
        return s.metrics().sum("iroh_gateway_denied_requests_total", reason="too_many_clients") >= 800
    until(refused)
    until(lambda: "too_many_clients" in s.log(), 5, "lines about them")
    bounded(s.pid, before, 50)
    for t in (tunnels[0], tunnels[-1]):
        t.sock.sendall(b"alive")
        assert t.recv(5) == b"alive"
    for c in idle:
        c.close()
    for t in tunnels:
        t.close()

    def served():
        with contextlib.suppress(AssertionError, OSError):
            return s.request(device.id, web.port, "/hello").status == 200
        return False
    until(served, 10, "room again")
    echo.close()


@pytest.mark.tsan
def test_http2_streams_given_up_in_a_loop_at_the_sidecar(sidecar, device, web):
    s = sidecar()
    before = rss_mb(s.pid)
    fields = [(":method", "CONNECT"), (":authority", f"127.0.0.1:{web.port}"), ("x-iroh-endpoint-id", device.id)]
    sock = s.connect()
    h2 = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
    h2.initiate_connection()
    ended = False
    for i in range(4000):
        stream = h2.get_next_available_stream_id()
        h2.send_headers(stream, fields)
        h2.reset_stream(stream, 8)
        if i % 50 == 0:
            try:
                sock.sendall(h2.data_to_send())
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while data := sock.recv(65536):
                        h2.receive_data(data)
                    ended = True
                sock.settimeout(guard(20))
            except (OSError, ProtocolError):
                ended = True
        if ended:
            break
    with contextlib.suppress(ConnectionError):
        while not ended and sock.recv(65536):  # a time-out: there is no budget of streams given up
            pass
    sock.close()
    bounded(s.pid, before, 30)
    a = s.request(device.id, web.port, "/hello")
    assert a.status == 200 and a.body() == b"hello /hello"
    a.close()
    until(lambda: s.metrics().sum("iroh_gateway_quic_connections_current") <= 1, 5, "one connection to the device")


def test_a_device_that_talks_nonsense(topology, binary, tmp_path):
    """It sends back what it gets: a request where an answer belongs."""
    del topology
    with Ours(binary, alpn=ALPN) as mirror:
        s = Sidecar(binary, tmp_path / "side", "--peer", f"{mirror.id}={mirror.addrs[0]}").wait_ready()
        for _ in range(20):
            a = s.tunnel(mirror.id, "127.0.0.1:1")
            assert a.status == 502 and a.reason, a.line
            a.close()
            a = s.request(mirror.id, 1, method="POST", extra="content-length: 5\n", body=b"hello")
            assert a.status == 502, a.line
            a.close()
        until(lambda: s.metrics().sum("iroh_gateway_error_responses_by_status_total", status="502") == 40)
        s.close()


def test_a_head_that_never_ends_at_the_sidecar(sidecar):
    s = sidecar()
    start = time.monotonic()
    slow = [s.connect() for _ in range(50)]
    for c in slow:
        c.sendall(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\nx: ")
    got = b""
    while part := slow[0].recv(1000):
        got += part
    assert time.monotonic() - start > 5
    assert got == b"" or got.startswith(b"HTTP/1.1 408 "), got
    for c in slow:
        c.close()
