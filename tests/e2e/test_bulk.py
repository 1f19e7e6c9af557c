# SPDX-License-Identifier: Apache-2.0
"""Volume: a gigabyte each way, thousands of connections, readers that stop reading."""
import selectors
import socket
import threading
import time

import pytest
from harness import traffic
from harness.mesh import PORT
from harness.wait import GUARD, SANITIZED, SLOW, guard, until

GIB = (64 << 20) if SANITIZED else (1 << 30)
CONNECTIONS = 200 if SANITIZED else 2000
GROWTH_KB = 64 * 1024

ROUTES = {"tunnel": ("c1", "s2"), "fast-path": ("c1", "s1"), "plain-in": ("u1", "s2"),
          "plain-out": ("c1", "u2")}


def bulk(mesh, client, server, total):
    mesh.serve(server, traffic.upload_handler, 9001)
    mesh.serve(server, traffic.download_handler(total), 9002)
    traffic.upload(mesh.connect(client, server, 9001), total)
    traffic.download(mesh.connect(client, server, 9002), total)


@pytest.mark.parametrize("aead", ["auto", "gnutls"])
def test_a_gigabyte_each_way_through_the_tunnel(mesh, aead):
    node1, node2 = mesh.both("--aead", aead)
    bulk(mesh, mesh.c1, mesh.s2, GIB)
    out = node1.wait_access(2, direction="outbound")
    assert {int(e["bytes_sent"]) for e in out} == {GIB, 0}
    assert {int(e["bytes_recv"]) for e in out} == {12, GIB + 4}
    inb = node2.wait_access(2, direction="inbound")
    assert {int(e["bytes_recv"]) for e in inb} == {GIB, 0}
    assert node2.metrics().sum("istio_tcp_received_bytes_total", reporter="destination") == GIB


@pytest.mark.parametrize("route", ["fast-path", "plain-in", "plain-out"])
def test_bulk_on_the_other_routes(mesh, route):
    client, server = ROUTES[route]
    mesh.both()
    bulk(mesh, mesh.pods[client], mesh.pods[server], GIB // 4)


@pytest.mark.tsan
def test_bulk_quickly(mesh):
    """The small sibling of the gigabyte, for builds where a gigabyte takes minutes."""
    mesh.both()
    bulk(mesh, mesh.c1, mesh.s2, 16 << 20)


def test_different_aead_on_the_two_sides(mesh):
    mesh.shared("node1", "--aead", "gnutls")
    mesh.shared("node2", "--aead", "auto")
    bulk(mesh, mesh.c1, mesh.s2, GIB // 8)


def test_parallel_streams_do_not_mix(mesh):
    mesh.both()
    mesh.serve(mesh.s2, traffic.upload_handler, 9001)
    errors = []

    def one(size):
        try:
            with traffic.connect(mesh.c1, (mesh.s2.ip4, 9001)) as sock:
                traffic.upload(sock, size)
        except Exception as err:  # noqa: BLE001 - reported below
            errors.append(err)
    threads = [threading.Thread(target=one, args=((8 << 20) + i * 1001,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def open_many(mesh, client, addr, count):
    """Opens 'count' connections at once and echoes on all of them; returns the sockets."""
    sel = selectors.DefaultSelector()
    socks = []
    with client.entered():
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            try:
                sock.connect(addr)
            except BlockingIOError:
                pass
            socks.append(mesh.keep(sock))
    for i, sock in enumerate(socks):
        sel.register(sock, selectors.EVENT_WRITE, (i, b"%08d" % i))
    waiting = len(socks)
    while waiting:
        ready = sel.select(guard(GUARD))
        assert ready, f"{waiting} of {count} connections unanswered"
        for key, mask in ready:
            sock, (i, want) = key.fileobj, key.data
            if mask & selectors.EVENT_WRITE:
                sock.send(want)
                sel.modify(sock, selectors.EVENT_READ, key.data)
            else:
                got = sock.recv(64)
                assert got == want, f"connection {i} got {got!r}"
                sel.unregister(sock)
                waiting -= 1
    sel.close()
    return socks


@pytest.mark.parametrize("route", ROUTES)
def test_thousands_of_connections(mesh, route):
    client, server = ROUTES[route]
    node1, node2 = mesh.both()
    app = mesh.echo(mesh.pods[server])
    idle = node1.rss_kb(), node2.rss_kb()
    socks = open_many(mesh, mesh.pods[client], (mesh.pods[server].ip4, PORT), CONNECTIONS)
    assert len(app.conns) == CONNECTIONS
    if not SANITIZED:
        for node, before in zip((node1, node2), idle):
            per = (node.rss_kb() - before) / CONNECTIONS
            assert per < 16, f"{node.name}: {per:.1f} KiB per connection"
    for i in range(0, CONNECTIONS, max(1, CONNECTIONS // 50)):
        socks[i].settimeout(guard(GUARD))
        traffic.echo_once(socks[i])
    for sock in socks:
        sock.close()
    until(lambda: not app.conns, 10, "all connections to end")
    until(lambda: max(node1.open_fds(), node2.open_fds()) < 300, 10, "descriptors to return")
    metrics = (node2 if client == "u1" else node1).metrics()
    opened = metrics.sum("istio_tcp_connections_opened_total")
    assert opened >= CONNECTIONS
    assert metrics.sum("istio_tcp_connections_failed_total") == 0


def test_connection_churn(mesh):
    """Short connections one after the other, on several threads: none fails, none stays."""
    node1, node2 = mesh.both()
    app = mesh.echo(mesh.s2)
    errors = []
    count = 40 if SANITIZED else 250

    def churn():
        try:
            for _ in range(count):
                mesh.roundtrip(mesh.c1, mesh.s2)
        except Exception as err:  # noqa: BLE001 - reported below
            errors.append(err)
    threads = [threading.Thread(target=churn) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert app.accepted == 4 * count
    until(lambda: len(node2.access(direction="inbound")) == 4 * count, interval=0.1)
    until(lambda: max(node1.open_fds(), node2.open_fds()) < 300, what="descriptors to return")


def push_until_stuck(sock, limit):
    """Sends without anybody reading, until nothing has moved for a while."""
    sock.setblocking(False)
    block = bytes(1 << 18)
    sent, last = 0, time.monotonic()
    while sent < limit and time.monotonic() - last < 0.7 * SLOW:
        try:
            sent += sock.send(block)
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.005)
    return sent


@pytest.mark.tsan
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_slow_reader(mesh, route, direction):
    """A gigabyte is pushed at a reader that has stopped: the sender stops too, memory is kept."""
    client, server = ROUTES[route]
    nodes = mesh.both()
    hold = mesh.hold(mesh.pods[server])
    near = mesh.connect(mesh.pods[client], mesh.pods[server])
    far = mesh.keep(hold.take())
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    before = [n.rss_kb() for n in nodes]
    sender, reader = (near, far) if direction == "up" else (far, near)
    sent = push_until_stuck(sender, 1 << 30)
    assert sent < 256 << 20, "nothing stopped the sender"
    if not SANITIZED:
        for node, kb in zip(nodes, before):
            assert node.rss_kb() - kb < GROWTH_KB, f"{node.name} grew"
    # The reader wakes up: every byte is still there.
    sender.setblocking(True)
    closer = threading.Thread(target=lambda: sender.shutdown(socket.SHUT_WR))
    closer.start()
    reader.settimeout(guard(GUARD))
    assert traffic.recv_stream(reader)[0] == sent
    closer.join()


def test_stuck_streams_leave_room_for_others(mesh):
    """Three stopped readers on a shared connection do not starve a fourth connection."""
    nodes = mesh.both("--workers", "1")
    mesh.echo(mesh.s2, 8081)
    hold = mesh.hold(mesh.s2)
    for _ in range(3):
        sock = mesh.connect(mesh.c1, mesh.s2)
        mesh.keep(hold.take())
        push_until_stuck(sock, 64 << 20)
    for _ in range(5):
        mesh.roundtrip(mesh.c1, mesh.s2, 8081)
    if not SANITIZED:
        assert max(n.rss_kb() for n in nodes) < 256 * 1024
