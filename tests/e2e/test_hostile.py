# SPDX-License-Identifier: Apache-2.0
"""Peers that misbehave. Whatever they do, the node neither dies nor grows nor stops serving."""
import os
import socket
import struct
import time

import pytest
from harness import traffic
from harness.hbone_peer import PeerGone, Settings
from harness.mesh import PORT
from harness.wait import SANITIZED, until
from hpack import Encoder
from hyperframe.frame import (ContinuationFrame, DataFrame, GoAwayFrame, HeadersFrame,
                              PingFrame, PriorityFrame, PushPromiseFrame, RstStreamFrame,
                              SettingsFrame, WindowUpdateFrame)

GROWTH_KB = 64 * 1024


@pytest.fixture
def target(mesh):
    """The node under attack; afterwards it must serve as before, within its memory."""
    mesh.node = mesh.shared("node2")
    mesh.app = mesh.echo(mesh.s2)
    mesh.authority = f"{mesh.s2.ip4}:{PORT}"
    mesh.roundtrip(mesh.u1, mesh.s2)
    before = mesh.node.rss_kb()
    yield mesh
    assert mesh.node.alive, mesh.node.log()[-3000:]
    peer = mesh.hbone(mesh.s2)
    stream = peer.tunnel(mesh.authority)
    assert stream.status == 200
    peer.echo(stream)
    if not SANITIZED:
        grown = mesh.node.rss_kb() - before
        assert grown < GROWTH_KB, f"grew by {grown} KiB"


def drive(peer, frames, chunk=64):
    """Sends prepared bytes until they are out or the node has had enough of us."""
    if peer.scan is None:
        peer.go_raw()
    try:
        for i in range(0, len(frames), chunk):
            peer.raw(b"".join(frames[i:i + chunk]))
            peer.pump(0)
            if peer.gone:
                break
    except (PeerGone, TimeoutError, OSError):
        pass
    return peer


def ended_by_node(peer):
    try:
        peer.wait(lambda: peer.goaway is not None or peer.gone)
    except (PeerGone, OSError):
        pass
    return peer.gone or peer.goaway is not None


def head(encoder, authority):
    return encoder.encode([(":method", "CONNECT"), (":authority", authority)])


def headers_frame(sid, block, *flags):
    frame = HeadersFrame(sid, block)
    for flag in flags:
        frame.flags.add(flag)
    return frame.serialize()


@pytest.mark.tsan
def test_rapid_reset(target):
    """Open and reset thousands of streams: the connection is ended, the rest is served."""
    peer = target.hbone(target.s2)
    encoder = Encoder()
    frames = []
    for i in range(5000):
        sid = 2 * i + 1
        frames.append(headers_frame(sid, head(encoder, target.authority), "END_HEADERS"))
        frames.append(RstStreamFrame(sid, error_code=8).serialize())
    drive(peer, frames)
    assert ended_by_node(peer), "a flood of resets must end the connection"
    assert target.app.accepted < 1500, "most of them must never reach the application"


def test_rapid_reset_leaves_no_connections_behind(target):
    peer = target.hbone(target.s2)
    for _ in range(15):
        stream = peer.connect(target.authority)
        peer.rst(stream)
    peer.close()
    until(lambda: not target.app.conns, 5, "connections to the application to end")


@pytest.mark.tsan
def test_continuation_flood(target):
    """HEADERS that never end."""
    peer = target.hbone(target.s2)
    encoder = Encoder()
    frames = [headers_frame(1, head(encoder, target.authority))]
    filler = encoder.encode([("x-filler", "y" * 4000)], huffman=False)
    frames += [ContinuationFrame(1, filler).serialize()] * 8000
    drive(peer, frames)
    assert ended_by_node(peer)
    assert target.app.accepted == 1


def test_empty_continuation_flood(target):
    peer = target.hbone(target.s2)
    frames = [headers_frame(1, head(Encoder(), target.authority))]
    frames += [ContinuationFrame(1, b"").serialize()] * 50000
    drive(peer, frames, 1000)
    assert ended_by_node(peer)
    assert target.app.accepted == 1


def test_oversized_headers(target):
    """Above MAX_HEADER_LIST_SIZE (65536): refused, by status, reset or end of connection."""
    peer = target.hbone(target.s2)
    encoder = Encoder()
    block = encoder.encode([(":method", "CONNECT"), (":authority", target.authority)] +
                           [(f"x-{i}", "z" * 1000) for i in range(100)], huffman=False)
    parts = [block[i:i + 16000] for i in range(0, len(block), 16000)]
    frames = [headers_frame(1, parts[0])]
    frames += [ContinuationFrame(1, p).serialize() for p in parts[1:-1]]
    last = ContinuationFrame(1, parts[-1])
    last.flags.add("END_HEADERS")
    frames.append(last.serialize())
    drive(peer, frames)
    stream = peer._stream(1)
    try:
        peer.wait(lambda: stream.status or stream.reset is not None or peer.goaway)
    except PeerGone:
        pass
    assert stream.status != 200
    assert target.app.accepted == 1


def test_header_bomb(target):
    """A small block that expands: a long value kept in the table and named many times."""
    peer = target.hbone(target.s2)
    encoder = Encoder()
    first = encoder.encode([(":method", "CONNECT"), (":authority", target.authority),
                            ("x-bomb", "b" * 3900)])
    frames = [headers_frame(1, first, "END_HEADERS")]
    block = encoder.encode([(":method", "CONNECT"), (":authority", target.authority)] +
                           [("x-bomb", "b" * 3900)] * 4000)
    assert len(block) < 16384
    frames.append(headers_frame(3, block, "END_HEADERS"))
    drive(peer, frames)
    stream = peer._stream(3)
    try:
        peer.wait(lambda: stream.status or stream.reset is not None or peer.goaway)
    except PeerGone:
        pass
    assert stream.status != 200


def test_settings_flood(target):
    peer = target.hbone(target.s2)
    frame = SettingsFrame(0, settings={Settings.INITIAL_WINDOW_SIZE: 65535}).serialize()
    drive(peer, [frame] * 50000, 500)


@pytest.mark.tsan
def test_ping_flood_without_reading(target):
    """Answers nobody reads must not pile up."""
    peer = target.hbone(target.s2)
    frame = PingFrame(0, b"12345678").serialize()
    deadline = time.monotonic() + 3
    sent = 0
    try:
        while time.monotonic() < deadline and sent < 2_000_000:
            peer.raw(frame * 2000, timeout=0.5)
            sent += 2000
    except (PeerGone, TimeoutError, OSError):
        pass


def test_window_update_flood(target):
    peer = target.hbone(target.s2)
    drive(peer, [WindowUpdateFrame(0, window_increment=1).serialize()] * 50000, 1000)


def test_window_overflow(target):
    peer = target.hbone(target.s2)
    stream = peer.tunnel(target.authority)
    drive(peer, [WindowUpdateFrame(stream.id, window_increment=2**31 - 1).serialize()] * 2)
    try:
        peer.wait(lambda: stream.reset is not None or peer.goaway)
    except PeerGone:
        pass
    assert stream.reset == 3 or peer.goaway or peer.gone, "FLOW_CONTROL_ERROR"


def test_empty_data_flood(target):
    peer = target.hbone(target.s2)
    stream = peer.tunnel(target.authority)
    drive(peer, [DataFrame(stream.id, b"").serialize()] * 50000, 1000)


def test_more_data_than_the_window_allows(target):
    """A sender that ignores flow control is cut off."""
    hold = target.hold(target.s2, 9100)
    peer = target.hbone(target.s2)
    stream = peer.tunnel(f"{target.s2.ip4}:9100")
    target.keep(hold.take())
    frame = DataFrame(stream.id, b"d" * (1 << 20)).serialize()
    drive(peer, [frame] * 64, 1)
    try:
        peer.wait(lambda: stream.reset is not None or peer.goaway)
    except PeerGone:
        pass
    assert stream.reset is not None or peer.goaway or peer.gone


def test_priority_and_unknown_frames_are_ignored(target):
    peer = target.hbone(target.s2)
    stream = peer.tunnel(target.authority)
    unknown = struct.pack("!HBBBI", 0, 4, 0xEE, 0, 0) + b"spam"
    peer.raw(PriorityFrame(stream.id, depends_on=0, stream_weight=3).serialize() + unknown)
    peer.echo(stream)


def test_priority_flood(target):
    peer = target.hbone(target.s2)
    drive(peer, [PriorityFrame(2 * i + 1, depends_on=0).serialize() for i in range(50000)], 1000)


def test_more_streams_than_allowed(target):
    """Beyond 200 streams at once: the surplus is refused, or the whole connection is."""
    peer = target.hbone(target.s2)
    peer.ping()
    encoder = Encoder()
    ids = range(1, 521, 2)
    drive(peer, [headers_frame(sid, head(encoder, target.authority), "END_HEADERS")
                 for sid in ids], 20)
    streams = [peer._stream(sid) for sid in ids]
    try:
        peer.wait(lambda: peer.goaway or all(s.status or s.reset is not None for s in streams))
    except PeerGone:
        pass
    assert sum(1 for s in streams if s.status == 200) <= 200
    assert target.app.accepted <= 201


def test_push_promise_from_a_client(target):
    peer = target.hbone(target.s2)
    stream = peer.tunnel(target.authority)
    push = PushPromiseFrame(stream.id, 2, head(Encoder(), target.authority))
    push.flags.add("END_HEADERS")
    drive(peer, [push.serialize()])
    assert ended_by_node(peer)


@pytest.mark.parametrize("frame", [
    struct.pack("!HBBBI", 0, 5, 4, 0, 0) + b"12345",                          # SETTINGS, length 5
    struct.pack("!HBBBI", 0, 3, 6, 0, 0) + b"abc",                            # PING, length 3
    struct.pack("!HBBBI", 0, 4, 8, 0, 0) + b"\0\0\0\0",                       # WINDOW_UPDATE 0
    struct.pack("!HBBBI", 0, 1, 0, 0, 0) + b"x",                              # DATA on stream 0
    struct.pack("!HBBBI", 0x7fff, 0xff, 0, 0, 1),                             # a frame of 8 MiB
    struct.pack("!HBBBI", 0, 1, 0, 8, 1) + b"\xff",                           # padding too long
    struct.pack("!HBBBI", 0, 2, 1, 4, 2) + b"\x82\x84",                       # even stream id
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10,
    bytes(range(256)) * 40,
], ids=["settings", "ping", "window0", "data0", "huge", "padding", "even", "http1", "garbage"])
def test_malformed_frames_end_the_connection(target, frame):
    peer = target.hbone(target.s2)
    peer.ping()
    drive(peer, [frame])
    if frame.startswith(b"\x7f"):
        drive(peer, [b"x" * 65536] * 200, 4)
    assert ended_by_node(peer)


def test_random_bytes_inside_tls(target):
    for seed in range(20):
        peer = target.hbone(target.s2)
        drive(peer, [os.urandom(50 + seed * 40)])
        peer.close()


def test_tls_garbage(target):
    """Not TLS at all, TLS cut short, and TLS that never comes."""
    for payload in (b"", b"\x16\x03\x01", b"\x16\x03\x01\xff\xff" + b"x" * 70000,
                    b"GET / HTTP/1.1\r\n\r\n", os.urandom(1000)):
        sock = target.connect(target.p1, target.s2, 15008)
        try:
            sock.sendall(payload)
        except OSError:
            pass
        sock.close()


def test_silent_connections_do_not_block_others(target):
    """Handshakes that never begin, half a hello, and prefaces that never come."""
    for i in range(100):
        sock = target.connect(target.p1, target.s2, 15008)
        if i % 2:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
    peers = [target.hbone(target.s2) for _ in range(3)]
    for peer in peers:
        assert peer.tunnel(target.authority).status == 200


@pytest.mark.tsan
def test_peer_that_never_reads(target):
    """It asks for everything and takes nothing: memory stays bounded."""
    big = target.serve(target.s2, traffic.download_handler(256 << 20), 9200)
    peer = target.hbone(target.s2)
    before = target.node.rss_kb()
    for _ in range(8):
        peer.connect(f"{target.s2.ip4}:9200")
    until(lambda: big.accepted == 8, 5)
    time.sleep(0.7)
    if not SANITIZED:
        assert target.node.rss_kb() - before < GROWTH_KB


def test_abrupt_ends(target):
    """Connections cut at every stage."""
    for i in range(40):
        peer = target.hbone(target.s2)
        if i % 4 > 0:
            stream = peer.connect(target.authority)
        if i % 4 > 1:
            peer.wait_status(stream)
        if i % 4 > 2:
            peer.send(stream, os.urandom(5000))
        if i % 2:
            traffic.reset(peer.transport.sock)
        else:
            peer.transport.sock.close()
    until(lambda: not target.app.conns, 5, "connections to the application to end")


def test_request_flood_with_refusals(target):
    """Thousands of refused requests on one connection."""
    peer = target.hbone(target.s2)
    for _ in range(20):
        streams = [peer.connect("10.9.9.9:1") for _ in range(100)]
        for s in streams:
            peer.wait(lambda s=s: s.finished or s.status is not None)
        assert all(s.status == 400 for s in streams)


def test_goaway_from_a_client_lets_streams_finish(target):
    peer = target.hbone(target.s2)
    stream = peer.tunnel(target.authority)
    peer.raw(GoAwayFrame(0, last_stream_id=0).serialize())
    peer.echo(stream)


# -- hostile servers, seen from our client side -----------------------------------------------

@pytest.fixture
def client(mesh):
    mesh.node = mesh.shared("node1")
    mesh.echo(mesh.u2, 8181)
    yield mesh
    assert mesh.node.alive
    mesh.roundtrip(mesh.c1, mesh.u2, 8181)


class Script:
    """An HBONE server app that answers each request with prepared bytes."""

    def __init__(self, *frames):
        self.frames = frames

    def request(self, peer, stream):
        for frame in self.frames:
            peer.raw(frame(stream.id) if callable(frame) else frame)

    def data(self, peer, stream):
        stream.take()

    def end(self, peer, stream):
        pass

    reset = end

    def closed(self, peer):
        pass


def response(sid, headers, *flags):
    return headers_frame(sid, Encoder().encode(headers), "END_HEADERS", *flags)


@pytest.mark.parametrize("name, frames", {
    "no status": [lambda s: response(s, [("x", "y")])],
    "bad status": [lambda s: response(s, [(":status", "abc")])],
    "data first": [lambda s: DataFrame(s, b"early").serialize()],
    "informational only": [lambda s: response(s, [(":status", "100")]),
                           lambda s: RstStreamFrame(s, error_code=2).serialize()],
    "redirect": [lambda s: response(s, [(":status", "302"), ("location", "/")], "END_STREAM")],
    "reset": [lambda s: RstStreamFrame(s, error_code=7).serialize()],
    "http/1": [b"HTTP/1.1 200 OK\r\n\r\n"],
    "garbage": [os.urandom(3000)],
    "huge header": [lambda s: response(s, [(":status", "200"), ("x", "y" * 15900)]),
                    lambda s: RstStreamFrame(s, error_code=2).serialize()],
    "goaway": [GoAwayFrame(0, last_stream_id=0, error_code=1).serialize()],
    "push": [struct.pack("!HBBBI", 0, 6, 5, 4, 1) + b"\0\0\0\x02\x82\x84"],
}.items())
def test_servers_that_answer_nonsense(client, name, frames):
    client.hbone_server(client.p2, Script(*frames))
    assert client.refused(client.c1, client.p2, 80), name


def test_server_that_resets_every_stream(client):
    server = client.hbone_server(client.p2, Script(
        lambda s: RstStreamFrame(s, error_code=11).serialize()))
    for _ in range(30):
        client.refused(client.c1, client.p2, 80)
    assert server.accepted < 40


def test_server_that_floods_pings(client):
    frame = PingFrame(0, b"12345678").serialize()
    client.hbone_server(client.p2, Script(lambda s: response(s, [(":status", "200")]),
                                          frame * 3000))
    sock = client.connect(client.c1, client.p2, 80)
    time.sleep(0.3)
    sock.close()


def test_server_that_accepts_and_says_nothing(client):
    """TCP is accepted, TLS never comes: the client's connection ends at the connect timeout, ten seconds."""
    client.hold(client.p2, 15008)
    start = time.monotonic()
    assert client.refused(client.c1, client.p2, 80)
    assert time.monotonic() - start > 9, "it has to have that time"
    line = client.node.wait_access(direction="outbound")[-1]
    assert "timed out" in line["error"], line


def test_plain_listener_survives_port_scans(mesh):
    """Half-open and instantly closed connections to every port of the proxy."""
    node = mesh.shared("node2")
    app = mesh.echo(mesh.s2)
    for _ in range(50):
        for port in (15001, 15006, 15008, PORT):
            sock = mesh.p1.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, traffic.RST_ON_CLOSE)
            try:
                sock.connect((mesh.s2.ip4, port))
            except BlockingIOError:
                pass
            sock.close()
    until(lambda: not app.conns, 5)
    mesh.roundtrip(mesh.u1, mesh.s2)
    until(lambda: node.open_fds() < 200, 5, "descriptors to be given back")
