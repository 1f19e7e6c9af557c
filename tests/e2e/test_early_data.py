# SPDX-License-Identifier: Apache-2.0
"""Bytes that travel with the CONNECT instead of waiting for its answer, and what that may cost."""
import contextlib
import socket
import time

import pytest
from harness import traffic
from harness.hbone_peer import App, ErrorCodes
from harness.mesh import PORT
from harness.wait import stays, until

VIP = "10.96.0.9"


class Thinking(App):
    """Answers a CONNECT at once, or, while patient, only when told to."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.patient = False

    def request(self, peer, stream):
        self.asked.append((peer, stream))
        if not self.patient:
            self.answer(peer, stream)

    def answer(self, peer, stream):
        super().request(peer, stream)
        if stream.data:
            super().data(peer, stream)

    def data(self, peer, stream):
        if not self.patient:
            super().data(peer, stream)


@pytest.fixture
def thinking(mesh):
    mesh.node = mesh.shared("node1", "--workers", "1")
    mesh.app = Thinking()
    mesh.hbone_server(mesh.p2, mesh.app)
    return mesh


def speak_first(mesh, dst, port, payload, **kw):
    """A connection whose first bytes are there when the node comes to look at it."""
    with mesh.node.stopped():
        sock = mesh.connect(mesh.c1, dst, port, **kw)
        sock.sendall(payload)
    return sock


def ask(mesh, payload=b"early"):
    """The same to a peer that does not answer yet."""
    seen = len(mesh.app.asked)
    mesh.app.patient = True
    sock = speak_first(mesh, mesh.p2, PORT, payload)
    until(lambda: len(mesh.app.asked) > seen, 5, "the CONNECT")
    return sock, *mesh.app.asked[-1]


@pytest.mark.tsan
def test_first_bytes_go_with_the_connect(thinking):
    thinking.roundtrip(thinking.c1, thinking.p2)
    sock, peer, stream = ask(thinking)
    until(lambda: bytes(stream.data) == b"early", 5, "the bytes ahead of the answer")
    sock.sendall(b" and late")
    stays(lambda: bytes(stream.data) == b"early", 0.3, "only what was there goes ahead")
    thinking.app.patient = False
    peer.call(lambda: thinking.app.answer(peer, stream))
    assert traffic.read_exact(sock, 14) == b"early and late"
    sock.close()
    line = thinking.node.wait_access(direction="outbound", n=2)[-1]
    assert line["bytes_sent"] == "14" and line["bytes_recv"] == "14"


def test_large_first_write_arrives_once_and_in_order(thinking):
    thinking.roundtrip(thinking.c1, thinking.p2)
    data = bytes(range(256)) * 400
    sock, peer, stream = ask(thinking, data)
    until(lambda: len(stream.data), 5, "the bytes ahead of the answer")
    assert len(stream.data) <= 16384, "not more than one frame"
    thinking.app.patient = False
    peer.call(lambda: thinking.app.answer(peer, stream))
    assert traffic.read_exact(sock, len(data)) == data


def test_nothing_goes_ahead_on_a_connection_that_is_not_proven(thinking):
    """The peer may still refuse our certificate: nothing is said to it before it spoke."""
    sock, peer, stream = ask(thinking)
    stays(lambda: not stream.data, 0.3)
    thinking.app.patient = False
    peer.call(lambda: thinking.app.answer(peer, stream))
    assert traffic.read_exact(sock, 5) == b"early"


def test_it_can_be_switched_off(mesh):
    mesh.node = mesh.shared("node1", "--early-data", "false")
    mesh.app = Thinking()
    mesh.hbone_server(mesh.p2, mesh.app)
    mesh.roundtrip(mesh.c1, mesh.p2)
    _, _, stream = ask(mesh)
    stays(lambda: not stream.data, 0.3)


def test_client_that_leaves_before_the_answer(thinking):
    thinking.roundtrip(thinking.c1, thinking.p2)
    sock, peer, stream = ask(thinking)
    traffic.reset(sock)
    thinking.app.patient = False
    peer.call(lambda: thinking.app.answer(peer, stream))
    until(lambda: stream.finished, 5, "the reset to arrive")
    thinking.roundtrip(thinking.c1, thinking.p2)


class Busy(App):
    """Takes the first stream of a connection and refuses the others unread."""

    def __init__(self):
        super().__init__()
        self.refused = 0

    def request(self, peer, stream):
        if len(peer.streams) == 1:
            super().request(peer, stream)
        else:
            self.refused += 1
            peer.rst(stream, ErrorCodes.REFUSED_STREAM)

    def data(self, peer, stream):
        if len(peer.streams) == 1:
            super().data(peer, stream)


def test_refused_bytes_go_to_another_endpoint_once(mesh):
    mesh.node = mesh.shared("node1", "--workers", "1")
    mesh.world.service("web", [VIP], {80: 80}, ["p2", "q2"])
    mesh.apply()
    busy = Busy()
    mesh.hbone_server(mesh.p2, busy)
    mesh.hbone_server(mesh.q2)
    for i in range(64):  # of which at least 16; then until chance has chosen it for a second time
        if i >= 16 and busy.refused:
            break
        with speak_first(mesh, VIP, 80, b"x" * 500) as sock:
            assert traffic.read_exact(sock, 500) == b"x" * 500
            sock.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                assert sock.recv(1) == b"", "every byte came back once"
    assert busy.refused, "the endpoint that refuses was never drawn"


class Forgetful(App):
    """Serves the first stream of a connection; at the second it is gone without a word, as after a restart."""

    def request(self, peer, stream):
        if len(peer.streams) == 1:
            super().request(peer, stream)
        else:
            peer.abort()

    def data(self, peer, stream):
        if len(peer.streams) == 1:
            super().data(peer, stream)


@pytest.mark.tsan
def test_connection_that_was_dead_already(mesh):
    """Nobody has seen a byte yet: what was asked on a pooled connection that is no more is asked on a new one."""
    mesh.node = mesh.shared("node1", "--workers", "1", "--early-data", "false")
    server = mesh.hbone_server(mesh.p2, Forgetful())
    for n in range(1, 6):
        mesh.roundtrip(mesh.c1, mesh.p2)
        assert len(server.peers) == n
    lines = mesh.node.wait_access(5, direction="outbound")
    assert all(line.get("error") is None for line in lines)


def test_bytes_lost_with_their_connection_are_not_sent_twice(mesh):
    """They went ahead, and the peer may have passed them on before it was gone."""
    mesh.node = mesh.shared("node1", "--workers", "1")
    server = mesh.hbone_server(mesh.p2, Forgetful())
    mesh.roundtrip(mesh.c1, mesh.p2)
    with speak_first(mesh, mesh.p2, PORT, b"once") as sock:
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
    assert len(server.peers) == 1
    assert mesh.node.wait_access(2, direction="outbound")[-1]["error"]


class Silent(App):
    """Answers the first stream of a connection and never another one."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def request(self, peer, stream):
        if len(peer.streams) == 1:
            super().request(peer, stream)
        else:
            self.asked.append(stream)

    def data(self, peer, stream):
        if stream not in self.asked:
            super().data(peer, stream)


def moved(server, payload):
    """The streams of a foreign server that brought it these bytes; an echo leaves only their number."""
    return [s for s in server.streams if s.received == len(payload)]


def test_peer_that_never_answers(mesh):
    """
    After 15 seconds a connection that said nothing goes to another endpoint; one whose bytes the
    peer may have passed on ends instead: an application must not see them twice.
    """
    mesh.node = mesh.shared("node1", "--workers", "1")
    silent = Silent()
    mesh.world.service("web", [VIP], {80: 80}, ["p2", "q2"])
    mesh.apply()
    mesh.hbone_server(mesh.p2, silent)
    greeter = mesh.hbone_server(mesh.q2, App(greeting=b"hello"))
    mesh.roundtrip(mesh.c1, mesh.p2, 80)
    began = time.monotonic()
    mute = []
    while not silent.asked and len(mute) < 60:
        mute.append(mesh.connect(mesh.c1, VIP, 80))
        until(lambda: len(silent.asked) + len(greeter.streams) == len(mute), what="an endpoint to be drawn")
    assert silent.asked, "the silent endpoint was never drawn"
    spoken, early = [], 0
    while not early and len(spoken) < 60:
        asked, answered = len(silent.asked), len(moved(greeter, b"once"))
        spoken.append(speak_first(mesh, VIP, 80, b"once"))
        until(lambda: len(silent.asked) > asked or len(moved(greeter, b"once")) > answered, what="a CONNECT")
        early = len(silent.asked) - asked
    assert early, "the silent endpoint was never drawn again"
    until(lambda: silent.asked[-1].data == b"once", what="bytes that go ahead to the silent endpoint")
    for sock in mute:
        assert traffic.read_exact(sock, 5) == b"hello", "moved to the other endpoint"
    assert time.monotonic() - began > 14
    answers = []
    for sock in spoken:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
            answers.append(traffic.read_all(sock))
    assert answers.count(b"helloonce") == len(spoken) - early, "nobody saw them twice"
    assert len(moved(greeter, b"once")) == len(spoken) - early


# -- the accepting side -----------------------------------------------------------------------

@pytest.fixture
def inbound(mesh):
    mesh.node = mesh.shared("node2")
    mesh.authority = f"{mesh.s2.ip4}:{PORT}"
    return mesh


def connect_early(mesh, peer, payload):
    stream = peer.connect(mesh.authority)
    peer.send(stream, payload)
    return stream


def test_early_bytes_reach_the_application(inbound):
    inbound.echo(inbound.s2)
    peer = inbound.hbone(inbound.s2)
    for _ in range(5):
        stream = connect_early(inbound, peer, b"ahead")
        assert peer.recv(stream, 5) == b"ahead"
        assert stream.status == 200


def test_answer_does_not_wait_for_a_silent_application(inbound):
    held = inbound.hold(inbound.s2)
    peer = inbound.hbone(inbound.s2)
    stream = connect_early(inbound, peer, b"ahead")
    peer.wait_status(stream)
    assert stream.status == 200 and not stream.ended
    conn = inbound.keep(held.take())
    assert traffic.read_exact(conn, 5) == b"ahead"


def test_application_that_resets_at_once_is_a_reset_after_the_answer(inbound):
    inbound.serve(inbound.s2, lambda sock, _peer: (sock.recv(5), traffic.reset(sock)))
    peer = inbound.hbone(inbound.s2)
    for _ in range(10):
        stream = connect_early(inbound, peer, b"ahead")
        peer.wait(lambda s=stream: s.finished, what="the end")
        assert stream.status == 200, "a connection that was made is not a refusal"
        assert stream.reset == ErrorCodes.CONNECT_ERROR


def test_early_bytes_to_a_refused_destination(inbound):
    peer = inbound.hbone(inbound.s2)
    stream = connect_early(inbound, peer, b"x" * 60000)
    peer.wait_status(stream)
    assert stream.status == 503
    inbound.echo(inbound.s2)
    stream = peer.tunnel(inbound.authority)
    peer.echo(stream)
