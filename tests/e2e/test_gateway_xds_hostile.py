# SPDX-License-Identifier: Apache-2.0
"""A management server that misbehaves: the gateway serves what it has, and takes good answers afterwards."""
import os
import pathlib
import struct
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, SLOW, until
from test_gateway_xds import CDS, EDS, LDS, RDS, XdsGateway, assignment, eds_cluster, field, get, listener, table

MIB = 1 << 20


def frame(message, flags=0, length=None):
    return struct.pack(">BI", flags, len(message) if length is None else length) + message


def response(kind, resources, nonce, removed=()):
    """A DeltaDiscoveryResponse; resources are (name, bytes)."""
    out = [field(1, "v"), field(4, kind), field(5, nonce)]
    out += [field(2, field(1, nonce) + field(2, field(1, kind) + field(2, value)) + field(3, name))
            for name, value in resources]
    out += [field(6, name) for name in removed]
    return b"".join(out)


def type_of(request):
    """The type a DeltaDiscoveryRequest is about, and whether it refuses (error_detail, field 7)."""
    at, kind, nack = 0, None, False
    while at < len(request):
        key, n, shift = request[at], 0, 0
        at += 1
        while True:
            n |= (request[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not request[at - 1] & 128:
                break
        if key & 7 == 0:
            continue
        if key >> 3 == 2:
            kind = request[at:at + n].decode()
        nack = nack or key >> 3 == 7
        at += n
    return kind, nack


class Peer:
    """One connection of the gateway, from the side of the server."""

    def __init__(self, sock):
        self.sock, self.stream, self.buffer, self.requests, self.nonces = sock, None, b"", [], 0
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def read(self, seconds=0.05):
        """Takes what has come; False at the end of the connection."""
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(65536)
        except TimeoutError:
            return True
        if not data:
            return False
        for e in self.h2.receive_data(data):
            if isinstance(e, h2.events.RequestReceived):
                self.stream = e.stream_id
            elif isinstance(e, h2.events.DataReceived):
                self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                self.buffer += e.data
            elif isinstance(e, (h2.events.ConnectionTerminated, h2.events.StreamReset)):
                return False
        while len(self.buffer) >= 5 and len(self.buffer) >= 5 + (n := struct.unpack(">I", self.buffer[1:5])[0]):
            self.requests.append(type_of(self.buffer[5:5 + n]))
            self.buffer = self.buffer[5 + n:]
        self.sock.settimeout(GUARD * SLOW)
        self.flush()
        return True

    def headers(self, status="200", kind="application/grpc", end=False):
        self.h2.send_headers(self.stream, [(":status", status), ("content-type", kind)], end_stream=end)
        self.flush()

    def send(self, data):
        """As much as the gateway's windows take; False when it left."""
        end = time.monotonic() + GUARD * SLOW
        while data and time.monotonic() < end:
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size, len(data))
            if room <= 0:
                if not self.read():
                    return False
                continue
            self.h2.send_data(self.stream, data[:room])
            data = data[room:]
            self.flush()
        return not data

    def answer(self, kind, resources, removed=()):
        self.nonces += 1
        return self.send(frame(response(kind, resources, f"n{self.nonces}", removed)))

    def wait_stream(self):
        while not self.requests:
            if not self.read():
                return False
        return True

    def raw(self, data):
        self.sock.sendall(data)


class Misleader(Server):
    """Serves a good configuration, unless the next connections are to be treated otherwise."""

    def __init__(self, good):
        self.good, self.evil, self.misled, self.followed, self.closed = good, None, 0, 0, False
        self.kick = threading.Event()
        super().__init__()

    def _serve(self, sock):
        with sock:
            sock.settimeout(GUARD * SLOW)
            try:
                evil = self.evil
                if evil:
                    self.misled += 1
                    evil(sock)
                else:
                    self.behave(Peer(sock))
            except (OSError, ValueError, h2.exceptions.ProtocolError):
                pass

    def behave(self, peer):
        """Each type once, then silence, until it is kicked."""
        told = set()
        begun = False
        while not self.closed and not self.kick.is_set() and peer.read():
            if peer.stream and not begun:
                peer.headers()
                begun = True
            for kind, _ in peer.requests:
                if kind not in told:
                    told.add(kind)
                    peer.answer(kind, self.good.get(kind, []))
                    self.followed += len(told) == len(self.good)
            peer.requests.clear()

    def mislead(self, how, times=1):
        """The connections from now on are treated so; returns after some."""
        before = self.misled
        self.evil = how
        self.kick.set()
        until(lambda: self.misled >= before + times, 40)

    def heal(self):
        """Good again; returns when the gateway asked for everything and was told."""
        before = self.followed
        self.evil = None
        self.kick.clear()
        until(lambda: self.followed > before, 60)

    def close(self):
        self.closed = True
        self.kick.set()
        super().close()


def good_set(port, origin):
    return {CDS: [("c", eds_cluster("c"))], EDS: [("c", assignment("c", origin))],
            LDS: [("l", listener("l", port, "t"))], RDS: [("t", table("t", "c"))]}


def stream(then):
    """A way to treat a connection: a proper beginning, and then this."""
    def treat(sock):
        peer = Peer(sock)
        if peer.wait_stream():
            then(peer)
            end = time.monotonic() + 0.3
            while time.monotonic() < end and peer.read():
                pass
    return treat


def begun(then):
    def treat(peer):
        peer.headers()
        then(peer)
    return stream(treat)


def silent(sock):
    time.sleep(0.5)
    sock.close()


def flood(data, seconds=0.5):
    def treat(peer):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            peer.raw(data)
    return treat


def updates(peer):
    """Without end, and the answers are never read."""
    end = time.monotonic() + 1
    for i in range(20000):
        if not peer.answer(CDS, [("c", eds_cluster("c")), (f"x{i % 50}", eds_cluster(f"x{i % 50}"))]) or time.monotonic() > end:
            return


def refused_for_ever(peer):
    """The same bad listener after every refusal, at once."""
    bad = [("l", field(1, "l") + field(2, b"\x0a\x00"))]
    end = time.monotonic() + 1
    peer.answer(LDS, bad)
    while time.monotonic() < end and peer.read():
        for kind, nack in peer.requests:
            if kind == LDS and nack:
                peer.answer(LDS, bad)
        peer.requests.clear()


def many(n):
    return lambda peer: peer.answer(CDS, [("c", eds_cluster("c"))] + [(f"m{i}", eds_cluster(f"m{i}")) for i in range(n)])


def odd_answers(peer):
    for kind, resources, removed in (
            ("type.googleapis.com/no.such.Type", [("a", b"x")], []), ("", [("a", b"")], []),
            (CDS, [("other", eds_cluster("c"))], []), (CDS, [("", eds_cluster(""))], []),
            (LDS, [("l2", eds_cluster("l2"))], []), (EDS, [("nobody-asked", assignment("nobody-asked", 1))], []),
            (CDS, [("n" * 100000, eds_cluster("n" * 100000))], []), (RDS, [("t", b"\xff" * 100)], []),
            (CDS, [], ["never-there", "", "x" * 100000]), (RDS, [("t", b"")], [])):
        if not peer.answer(kind, resources, removed):
            return


def h2_frame(kind, flags, sid, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", sid) + payload


WAYS = {
    "garbage": lambda s: s.sendall(b"\x00\xff" * 5000),
    "an HTTP/1.1 answer": lambda s: s.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "silence": silent,
    "closed at once": lambda s: None,
    "status 500": stream(lambda p: p.headers("500", "text/html", True)),
    "another content type": stream(lambda p: p.headers(kind="text/html") or p.send(b"<html>" * 100)),
    "DATA before HEADERS": stream(lambda p: p.raw(h2_frame(0, 0, 1, b"xxxxx"))),
    "a message of 4 GiB": begun(lambda p: p.send(frame(b"x" * 1000, length=0xFFFFFFFF))),
    "a message over the limit": begun(lambda p: p.send(frame(b"\0" * (65 * MIB)))),
    "a compressed message": begun(lambda p: p.send(frame(b"\x1f\x8b", flags=1))),
    "no protobuf": begun(lambda p: p.send(frame(b"\xff" * 1000))),
    "nested without end": begun(lambda p: p.send(frame(b"\x12\xff\xff\xff\x7f" * 1000))),
    "an endless header block": stream(lambda p: p.raw(h2_frame(1, 0, 1, b"\x88")) or flood(
        h2_frame(9, 0, 1, b"\x40\x01a\x7f\x80\x7e" + b"b" * 16000))(p)),
    "PINGs": begun(flood(h2_frame(6, 0, 0, b"12345678") * 1000)),
    "SETTINGS": begun(flood(h2_frame(4, 0, 0, b"\0\4\0\0\xff\xff") * 1000)),
    "empty DATA": begun(flood(h2_frame(0, 0, 1) * 1000)),
    "odd answers": begun(odd_answers),
    "refused for ever": begun(refused_for_ever),
    "updates without end": begun(updates),
    "half a message": begun(lambda p: p.send(frame(b"\x0a\x01v", length=1000))),
}


@pytest.fixture(name="w")
def _w(binary, tmp_path):
    origin, port = gw.Origin(), gw.free_port()
    server = Misleader(good_set(port, origin.port))
    gate = XdsGateway(binary, tmp_path, server.port)
    until(lambda: get(port) == 200, 20)
    server.gate, server.serving = gate, port
    yield server
    server.close()
    gate.stop()
    origin.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_misbehaves(w, way):
    w.mislead(WAYS[way])
    for _ in range(5):  # meanwhile
        assert get(w.serving) == 200
        time.sleep(0.05)
    second = gw.Origin()
    w.good[EDS] = [("c", assignment("c", second.port))]
    w.heal()
    until(lambda: get(w.serving) == 200 and second.requests > 0)
    second.close()


def worked(gate):
    """The processor time of each thread that serves, in seconds: how busy the machine is does not matter to it."""
    out = {}
    for task in pathlib.Path(f"/proc/{gate.process.pid}/task").iterdir():
        name = (task / "comm").read_text(encoding="ascii").strip()
        if name.startswith("sw-worker-"):
            words = (task / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            out[name] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return out


def test_100000_clusters_do_not_stop_traffic(w):
    before = worked(w.gate)
    w.mislead(begun(many(100000)))
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert get(w.serving) == 200
        time.sleep(0.01)
    # What a worker does for the change is what its clients wait at most.
    spent = {name: worked(w.gate)[name] - n for name, n in before.items()}
    assert len(spent) == 2 and max(spent.values()) < 1.5 * SLOW, spent
    print(spent)
    assert w.gate.rss_kib() < 1000 * 1024
    w.heal()
