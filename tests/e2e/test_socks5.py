# SPDX-License-Identifier: Apache-2.0
"""SOCKS5 on 15080: the same decisions as captured traffic, asked for explicitly."""
import contextlib
import os
import socket
import struct

import pytest
from harness import traffic
from harness.mesh import PORT
from harness.wait import until

CONNECT, V4, NAME, V6 = 1, 1, 3, 4


@pytest.fixture
def socks(mesh):
    mesh.node1, mesh.node2 = mesh.both("--socks5")
    mesh.app = mesh.echo(mesh.s2)
    return mesh


def dial(mesh):
    return mesh.connect(mesh.c1, "127.0.0.1", 15080)


def greet(mesh, methods=b"\0"):
    sock = dial(mesh)
    sock.sendall(bytes([5, len(methods)]) + methods)
    return sock, traffic.read_exact(sock, 2)


def ask(sock, kind, address, port, command=CONNECT):
    sock.sendall(bytes([5, command, 0, kind]) + address + struct.pack("!H", port))


def reply(sock):
    """The reply code; the bound address is read and dropped."""
    head = traffic.read_exact(sock, 4)
    assert head[0] == 5 and head[2] == 0
    size = {V4: 4, V6: 16}[head[3]] if head[3] != NAME else traffic.read_exact(sock, 1)[0]
    traffic.read_exact(sock, size + 2)
    return head[1]


@pytest.mark.tsan
def test_ipv4_through_the_tunnel(socks):
    sock, answer = greet(socks)
    assert answer == b"\5\0"
    ask(sock, V4, socket.inet_aton(socks.s2.ip4), PORT)
    assert reply(sock) == 0
    traffic.echo_once(sock, 5000)
    sock.close()
    line = socks.node1.wait_access(direction="outbound")[-1]
    assert line["dst.hbone_addr"] == f"{socks.s2.ip4}:{PORT}"
    assert line["src.identity"] == socks.c1.identity


def test_ipv6(socks):
    socks.echo(socks.s2, ip=socks.s2.ip6)
    sock, _ = greet(socks)
    ask(sock, V6, socket.inet_pton(socket.AF_INET6, socks.s2.ip6), PORT)
    assert reply(sock) == 0
    traffic.echo_once(sock)


def test_data_sent_along_with_the_request(socks):
    """A client that does not wait for answers."""
    sock = dial(socks)
    data = os.urandom(40)
    sock.sendall(b"\5\1\0" + bytes([5, CONNECT, 0, V4]) + socket.inet_aton(socks.s2.ip4) +
                 struct.pack("!H", PORT) + data)
    assert traffic.read_exact(sock, 2) == b"\5\0"
    assert reply(sock) == 0
    assert traffic.read_exact(sock, 40) == data


def test_request_byte_by_byte(socks):
    sock = dial(socks)
    for b in b"\5\2\0\2":
        sock.sendall(bytes([b]))
    assert traffic.read_exact(sock, 2) == b"\5\0"
    for b in bytes([5, CONNECT, 0, V4]) + socket.inet_aton(socks.s2.ip4) + \
            struct.pack("!H", PORT):
        sock.sendall(bytes([b]))
    assert reply(sock) == 0
    traffic.echo_once(sock)


def test_failure_is_said_instead_of_success(socks):
    """The reference answers success before it dials; we answer what happened."""
    sock, _ = greet(socks)
    ask(sock, V4, socket.inet_aton(socks.u2.ip4), 9999)
    assert reply(sock) != 0
    assert sock.recv(1) == b""


def test_domain_is_resolved_or_refused(socks):
    """Names need the DNS proxy; without it the answer is a refusal, never silence."""
    sock, _ = greet(socks)
    name = b"nobody.example"
    ask(sock, NAME, bytes([len(name)]) + name, 80)
    assert reply(sock) in (4, 7, 8)
    until(lambda: traffic.ended(sock), 5)


@pytest.mark.parametrize("command", [2, 3, 9])
def test_other_commands(socks, command):
    sock, _ = greet(socks)
    ask(sock, V4, socket.inet_aton(socks.s2.ip4), PORT, command)
    assert reply(sock) == 7
    until(lambda: traffic.ended(sock), 5)


def test_no_acceptable_method(socks):
    sock = dial(socks)
    sock.sendall(b"\5\1\2")
    answer = sock.recv(2)
    assert answer in (b"\5\xff", b"")
    until(lambda: traffic.ended(sock), 5)


@pytest.mark.parametrize("payload", [
    b"\4\1\0\x50\x0a\0\2\3\0", b"GET / HTTP/1.1\r\n\r\n", b"\5\0", b"\5\1\0\5\1\0\7zzzz",
    b"\5\1\0\5\1\0\3\0\0\x50", os.urandom(300), b"\5\1\0\5\1\1\1\0\0\0\0\0\0"])
def test_garbage(socks, payload):
    sock = dial(socks)
    sock.sendall(payload)
    with contextlib.suppress(OSError):  # it may have been refused already
        sock.shutdown(socket.SHUT_WR)
    until(lambda: _drained(sock), what="the connection to end")
    assert socks.app.accepted == 0
    sock, _ = greet(socks)
    ask(sock, V4, socket.inet_aton(socks.s2.ip4), PORT)
    assert reply(sock) == 0


def _drained(sock):
    sock.settimeout(0.05)
    try:
        return sock.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("port", [15001, 15006, 15008, 15080])
def test_own_ports_are_refused(socks, port):
    sock, _ = greet(socks)
    ask(sock, V4, socket.inet_aton("127.0.0.1"), port)
    try:
        assert reply(sock) != 0
    except (EOFError, ConnectionResetError):
        pass


def test_off_by_default(mesh):
    mesh.shared("node1")
    with pytest.raises(ConnectionRefusedError):
        traffic.connect(mesh.c1, ("127.0.0.1", 15080))


def test_loopback_only(socks):
    assert socks.refused(socks.u1, socks.c1, 15080)
