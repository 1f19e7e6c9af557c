# SPDX-License-Identifier: Apache-2.0
"""What TCP can do must survive the way through the proxies: order, half-close, reset."""
import errno
import os
import socket
import threading
import time

import pytest
from harness import traffic
from harness.hbone_peer import ErrorCodes
from harness.mesh import PORT
from harness.wait import GUARD, guard, until

# The ways a connection can take: name -> (client pod, server pod)
PATHS = {
    "tunnel": ("c1", "s2"),
    "fast-path": ("c1", "s1"),
    "plain-in": ("u1", "s2"),
    "plain-out": ("c1", "u2"),
}


@pytest.fixture(params=PATHS)
def path(request, mesh):
    mesh.both()
    client, server = PATHS[request.param]
    return mesh, mesh.pods[client], mesh.pods[server]


def pair(path):
    """The two application ends of one proxied connection."""
    mesh, client, server = path
    hold = mesh.hold(server)
    near = mesh.connect(client, server)
    return near, mesh.keep(hold.take())


@pytest.mark.tsan
def test_server_speaks_first(path):
    mesh, client, server = path
    mesh.echo(server, greeting=b"220 ready\r\n")
    sock = mesh.connect(client, server)
    assert traffic.read_exact(sock, 11) == b"220 ready\r\n"
    traffic.echo_once(sock)


def test_client_half_close(path):
    near, far = pair(path)
    near.sendall(b"question")
    near.shutdown(socket.SHUT_WR)
    assert traffic.read_all(far) == b"question"
    far.sendall(b"late answer" * 1000)
    far.shutdown(socket.SHUT_WR)
    assert traffic.read_all(near) == b"late answer" * 1000


def test_server_half_close(path):
    near, far = pair(path)
    far.sendall(b"banner")
    far.shutdown(socket.SHUT_WR)
    assert traffic.read_all(near) == b"banner"
    near.sendall(b"late question" * 1000)
    near.shutdown(socket.SHUT_WR)
    assert traffic.read_all(far) == b"late question" * 1000


def test_half_closed_connection_stays_open(path):
    """No idle timeout on half-closed connections, and the other direction is not starved."""
    near, far = pair(path)
    near.shutdown(socket.SHUT_WR)
    assert far.recv(1) == b""
    for _ in range(3):
        far.sendall(b"tick")
        assert traffic.read_exact(near, 4) == b"tick"


def _fails_with_reset(sock):
    try:
        while sock.recv(4096):
            pass
        return False
    except ConnectionResetError:
        return True
    except TimeoutError:
        raise
    except OSError as err:
        return err.errno == errno.EPIPE


@pytest.mark.tsan
def test_reset_by_the_client_reaches_the_server(path):
    near, far = pair(path)
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    traffic.reset(near)
    assert _fails_with_reset(far), "the server saw an orderly end instead of a reset"


def test_reset_by_the_server_reaches_the_client(path):
    near, far = pair(path)
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    traffic.reset(far)
    assert _fails_with_reset(near), "the client saw an orderly end instead of a reset"


def test_bytes_before_an_end_are_delivered(path):
    """Close right after writing a lot: everything arrives before the end does."""
    mesh, client, server = path
    size = 3 << 20
    got = []
    done = threading.Event()

    def handler(sock, _peer):
        got.append(traffic.recv_stream(sock))
        done.set()
    mesh.serve(server, handler)
    sock = mesh.connect(client, server)
    crc = traffic.send_stream(sock, size)
    sock.close()
    assert done.wait(guard(GUARD))
    assert got == [(size, crc)]


def test_both_directions_at_once(path):
    mesh, client, server = path
    mesh.echo(server)
    sock = mesh.connect(client, server)
    data = os.urandom(4 << 20)
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    assert traffic.read_exact(sock, len(data)) == data
    sender.join()


def test_single_bytes(path):
    """Small writes are neither delayed nor merged away."""
    mesh, client, server = path
    mesh.echo(server)
    sock = mesh.connect(client, server)
    for i in range(200):
        sock.sendall(bytes([i]))
        assert sock.recv(1) == bytes([i])


# -- the mapping between streams and TCP, seen from a foreign peer --------------------------------

def tunnel_to_app(mesh):
    """A foreign client's stream and the application socket behind our inbound side."""
    mesh.shared("node2")
    hold = mesh.hold(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}")
    assert stream.status == 200
    return peer, stream, mesh.keep(hold.take())


def app_to_tunnel(mesh):
    """An application socket and the stream a foreign server got from our outbound side."""
    mesh.shared("node1")
    server = mesh.hbone_server(mesh.p2)
    sock = mesh.connect(mesh.c1, mesh.p2, 80)
    stream = server.wait_streams(1)[0]
    traffic.echo_once(sock)
    return sock, server, server.peers[0], stream


@pytest.mark.tsan
def test_application_reset_becomes_a_stream_reset(mesh):
    peer, stream, app = tunnel_to_app(mesh)
    traffic.reset(app)
    peer.wait(lambda: stream.finished, what="the end of the stream")
    assert stream.reset not in (None, int(ErrorCodes.NO_ERROR), int(ErrorCodes.CANCEL)), \
        "NO_ERROR and CANCEL mean an orderly end to the reference"


def test_client_reset_becomes_a_stream_reset(mesh):
    sock, server, _peer, stream = app_to_tunnel(mesh)
    traffic.reset(sock)
    server.wait(lambda: stream.finished)
    assert stream.reset not in (None, int(ErrorCodes.NO_ERROR), int(ErrorCodes.CANCEL))


@pytest.mark.parametrize("code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.CONNECT_ERROR])
def test_stream_reset_becomes_a_tcp_reset_at_the_application(mesh, code):
    peer, stream, app = tunnel_to_app(mesh)
    peer.rst(stream, code)
    assert _fails_with_reset(app)


@pytest.mark.parametrize("code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.CONNECT_ERROR])
def test_stream_reset_becomes_a_tcp_reset_at_the_client(mesh, code):
    sock, _server, peer, stream = app_to_tunnel(mesh)
    peer.call(lambda: peer.rst(stream, code))
    assert _fails_with_reset(sock)


@pytest.mark.parametrize("code", [ErrorCodes.NO_ERROR, ErrorCodes.CANCEL])
def test_stream_reset_without_error_is_an_end(mesh, code):
    sock, _server, peer, stream = app_to_tunnel(mesh)
    peer.call(lambda: peer.rst(stream, code))
    assert sock.recv(1) == b""


def test_end_stream_is_a_half_close(mesh):
    peer, stream, app = tunnel_to_app(mesh)
    peer.send(stream, b"last words", end=True)
    assert traffic.read_all(app) == b"last words"
    app.sendall(b"answer")
    assert peer.recv(stream, 6) == b"answer"
    app.shutdown(socket.SHUT_WR)
    peer.wait(lambda: stream.ended)
    assert stream.reset is None


def test_lost_tunnel_ends_its_connections(mesh):
    """The HBONE connection dies without a word: nobody is left hanging."""
    peer, _stream, app = tunnel_to_app(mesh)
    traffic.reset(peer.transport.sock)
    until(lambda: traffic.ended(app), 5, "the application's connection to end")


def test_lost_tunnel_ends_the_clients_connection(mesh):
    sock, _server, peer, _stream = app_to_tunnel(mesh)
    peer.call(lambda: traffic.reset(peer.transport.sock))
    until(lambda: traffic.ended(sock), 5, "the client's connection to end")


# -- keep-alive ---------------------------------------------------------------------------------

def kept_alive(ns, port):
    """Connections of the node's making to a port that have a keep-alive timer running."""
    out = ns.run("ss", "-Htno", "state", "established", "dport", "=", f":{port}")
    return sum("timer:(keepalive" in line for line in out.splitlines())


@pytest.mark.parametrize("way", ["passed through", "inbound"])
def test_connections_that_last_get_a_keepalive(mesh, way):
    """Short ones, of less than half of that time, go without the system calls."""
    flags = ["--keepalive-time", "4s", "--workers", "1"]
    if way == "inbound":
        node, where, target = mesh.shared("node2", *flags), mesh.s2, mesh.s2
        mesh.echo(target)
        began = time.monotonic()
        peer = mesh.hbone(target)
        stream = peer.tunnel(f"{target.ip4}:{PORT}")
        peer.echo(stream)
    else:
        node, where, target = mesh.shared("node1", *flags), mesh.c1, mesh.u2
        mesh.echo(target)
        began = time.monotonic()
        sock = mesh.connect(mesh.c1, target)
        traffic.echo_once(sock)
    at_first = kept_alive(where, PORT)
    if time.monotonic() - began < 1.9:  # else we come too late to see it
        assert at_first == 0
    until(lambda: kept_alive(where, PORT) == 1, what="the keep-alive")
    assert node.alive


def stuff(sock):
    """Sends until nothing is taken for a while."""
    sock.settimeout(0.5)
    try:
        while True:
            sock.send(bytes(1 << 20))
    except socket.timeout:
        return


@pytest.mark.parametrize("reader", ["server", "client"])
def test_readers_that_stall_hold_up_nobody_else(mesh, reader):
    """Nine of them use up the window of the connection between two pods: the next tunnel gets another."""
    node1, _ = mesh.both("--workers", "1")
    hold = mesh.hold(mesh.s2)

    def siblings():
        return node1.metrics().sum("spanwire_pool_stalls_total", result="sibling")
    for i in range(16):  # a busy machine pauses before a window is used up: it takes more of them then
        if i >= 9 and siblings():
            break
        near = mesh.connect(mesh.c1, mesh.s2)
        far = mesh.keep(hold.take())
        stuff(near if reader == "server" else far)
    near = mesh.connect(mesh.c1, mesh.s2)
    far = mesh.keep(hold.take())
    data = os.urandom(300000)
    for src, dst in ((near, far), (far, near)):
        sender = threading.Thread(target=src.sendall, args=(data,))
        sender.start()
        assert traffic.read_exact(dst, len(data)) == data
        sender.join()
    assert siblings() == 1
    node1.wait_log("used up by tunnels whose readers stalled: opening another connection")
