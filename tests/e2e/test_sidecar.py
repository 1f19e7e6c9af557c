# SPDX-License-Identifier: Apache-2.0
"""The sidecar: what a gateway may say to it, what reaches a device, and what failures look like."""
import base64
import hashlib
import os
import random
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

import pytest
from harness import netns
from harness.control import Control, _Here
from harness.device import Device, advertise
from harness.node import Process
from harness.sidecar import Answer, Echo, H2Gateway, QDevice, Sidecar, TxtServer, UdpEcho, capsule, free_port, z32
from harness.wait import SLOW, guard, until


@pytest.fixture(scope="module")
def device(binary, tmp_path_factory):
    d = QDevice(binary, tmp_path_factory.mktemp("device") / "key")
    yield d
    d.close()


@pytest.fixture(scope="module")
def sidecar(binary, device, tmp_path_factory):
    s = Sidecar(binary, tmp_path_factory.mktemp("sidecar"), "--peer", device.peer).wait_ready()
    yield s
    s.close()


@pytest.fixture
def h2(sidecar):
    with H2Gateway(sidecar.path) as g:
        yield g


# ---- tunnels ----

@pytest.mark.tsan
def test_a_tunnel_carries_bytes_and_half_closes(sidecar, device, echo):
    t = sidecar.tunnel(device.id, f"127.0.0.1:{echo.port}")
    assert t.status == 200 and t.line == "HTTP/1.1 200 Connection Established"
    t.sock.sendall(b"ping")
    assert t.recv(4) == b"ping"
    t.sock.sendall(b"last words")
    t.sock.shutdown(socket.SHUT_WR)
    assert t.all() == b"last words"
    device.said(f"tcp CONNECT 127.0.0.1:{echo.port}  200 in=14 out=14 ok")


def test_what_comes_with_the_connect_is_not_lost(sidecar, device, echo):
    t = sidecar.ask(f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1\nhost: x\nx-iroh-endpoint-id: {device.id}\n", b"early")
    assert t.status == 200
    assert t.recv(5) == b"early"
    t.close()


def test_an_end_that_comes_before_the_answer(binary, device, tmp_path):
    # More than is read with the head, so that the end waits in the socket behind bytes.
    def count(s):
        n = 0
        while part := s.recv(1 << 16):
            n += len(part)
        s.sendall(str(n).encode())

    origin, port = Echo(count), free_port()
    s = Sidecar(binary, tmp_path / "side", "--peer", device.peer, listen=f"127.0.0.1:{port}").wait_ready()
    sock = socket.create_connection(("127.0.0.1", port), 60 * SLOW)
    sock.sendall(f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\nhost: x\r\nx-iroh-endpoint-id: {device.id}\r\n\r\n"
                 .encode() + bytes(100000))
    sock.shutdown(socket.SHUT_WR)
    t = Answer(sock)
    assert t.status == 200
    assert t.all() == b"100000"
    t.close()
    s.close()
    origin.close()


def test_the_connect_of_envoy_over_http1(sidecar, device, echo):
    # As tcp_proxy with tunneling_config writes it for an HTTP/1.1 cluster.
    t = sidecar.ask(f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1\nhost: 127.0.0.1:{echo.port}\n"
                    f"x-iroh-endpoint-id: {device.id}\nx-request-id: 5f0d6f2e-2a5c-4ae5-b2a5-b7d0d8a8a8b1\n")
    assert t.status == 200
    t.sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert t.recv(18) == b"GET / HTTP/1.1\r\n\r\n"
    t.close()


def test_the_connect_of_envoy_over_http2(h2, device, echo):
    stream, status, fields = h2.open({":method": "CONNECT", ":authority": f"127.0.0.1:{echo.port}",
                                      "x-iroh-endpoint-id": device.id, "x-request-id": "1"})
    assert status == 200 and set(fields) == {":status"}
    h2.send(stream, "ping")
    assert h2.recv(stream, 4) == "ping"
    h2.send(stream, "bye", end=True)
    assert h2.recv(stream) == "bye"
    assert h2.event("closed", id=stream)["code"] == 0


def test_ipv6_targets_keep_their_brackets(sidecar, device):
    e = Echo(host="::1")
    t = sidecar.tunnel(device.id, f"[::1]:{e.port}")
    assert t.status == 200
    t.sock.sendall(b"x")
    assert t.recv(1) == b"x"
    t.close()
    device.said(f"CONNECT ::1:{e.port}")
    e.close()


@pytest.mark.tsan
def test_a_hundred_streams_share_one_connection(binary, device, echo, tmp_path):
    s = Sidecar(binary, tmp_path / "s", "--peer", device.peer).wait_ready()
    with H2Gateway(s.path) as g:
        ids = [g.open({":method": "CONNECT", ":authority": f"127.0.0.1:{echo.port}", "x-iroh-endpoint-id": device.id},
                      wait=False) for _ in range(100)]
        for i in ids:
            assert g.answer(i)[1] == 200
            g.send(i, f"stream {i:3}", end=True)
        for i in ids:
            assert g.recv(i) == f"stream {i:3}"
    until(lambda: s.metrics().sum("iroh_gateway_requests_accepted_h2_connect_total") == 100)
    assert s.metrics().sum("iroh_gateway_iroh_connections_opened_total") == 1
    s.close()


@pytest.mark.parametrize("version", [1, 2])
def test_bulk_both_ways(sidecar, device, h2, echo, version):
    data = random.Random(1).randbytes(8 << 20)
    if version == 2:
        stream = h2.tunnel(device.id, f"127.0.0.1:{echo.port}")
        half = data[:2 << 20].decode("latin1")
        h2.send(stream, half, end=True)
        assert h2.recv(stream) == half
        return
    t = sidecar.tunnel(device.id, f"127.0.0.1:{echo.port}")
    assert t.status == 200

    def send():
        t.sock.sendall(data)
        t.sock.shutdown(socket.SHUT_WR)
    threading.Thread(target=send, daemon=True).start()
    assert hashlib.sha256(t.all()).digest() == hashlib.sha256(data).digest()


def test_a_slow_reader_slows_its_own_stream_only(sidecar, device, echo):
    flood = Echo(lambda s: [s.sendall(bytes(1 << 16)) for _ in range(1600)])  # 100 MiB, if anybody reads
    slow = sidecar.tunnel(device.id, f"127.0.0.1:{flood.port}")
    assert slow.status == 200
    until(lambda: sidecar.metrics().sum("spanwire_quic_buffered_bytes") > 0, what="the slow one to be waited for")
    time.sleep(0.5)
    quick = sidecar.tunnel(device.id, f"127.0.0.1:{echo.port}")
    for i in range(20):  # would wait for ever
        quick.sock.sendall(b"%4d" % i)
        assert quick.recv(4) == b"%4d" % i
    assert sidecar.rss_kb() < 64 * 1024 * SLOW
    assert len(slow.all()) == 100 << 20
    quick.close()
    flood.close()


def test_a_reset_origin_resets_the_tunnel(sidecar, device):
    def reset(s):
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    e = Echo(reset)
    t = sidecar.tunnel(device.id, f"127.0.0.1:{e.port}")
    t.sock.sendall(b"x")
    with pytest.raises(OSError):
        if not t.sock.recv(1):
            raise OSError("ended")  # Unix sockets cannot show a reset
    e.close()


# ---- ordinary requests ----

def headers_server():
    """Sends back the head it got."""
    def serve(s):
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(65536)
        head = head.split(b"\r\n\r\n")[0]
        s.sendall(b"HTTP/1.1 200 OK\r\nx-origin: 1\r\ncontent-length: %d\r\n\r\n" % len(head) + head)
    return Echo(serve)


def test_the_contract_stays_between_gateway_and_sidecar(sidecar, device):
    e = headers_server()
    a = sidecar.request(device.id, e.port, "/a?b=c", extra="X-Custom: 1\nte: trailers\nkeep-alive: 5\n"
                        "datum-target-proto: http\nx-forwarded-host: forged\n")
    assert a.status == 200 and a.fields["x-origin"] == "1"
    lines = a.body().decode().split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    got = dict(line.split(": ", 1) for line in lines[1:])
    assert got == {"host": f"127.0.0.1:{e.port}", "x-custom": "1", "x-forwarded-host": "app.example"}
    a.close()
    e.close()


def test_the_older_names_count_outside_of_connect(sidecar, device):
    e = headers_server()
    a = sidecar.ask(f"GET / HTTP/1.1\nhost: h\ndatum-node-id: {device.id}\ndatum-target-host: 127.0.0.1\n"
                    f"datum-target-port: {e.port}\n")
    assert a.status == 200 and b"datum" not in a.body()
    a.close()
    a = sidecar.ask(f"CONNECT 127.0.0.1:{e.port} HTTP/1.1\nhost: h\ndatum-node-id: {device.id}\n")
    assert a.status == 400 and a.reason == "missing_header_node_id"
    e.close()


def test_names_may_be_given_aliases(binary, device, tmp_path, echo):
    s = Sidecar(binary, tmp_path / "s", "--peer", device.peer, "--header-alias", "x-iroh-endpoint-id=x-node").wait_ready()
    a = s.ask(f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1\nhost: h\nx-node: {device.id}\n")
    assert a.status == 200
    a.close()
    s.close()


def test_keep_alive_and_base32_ids(sidecar, device, web):
    b32 = base64.b32encode(bytes.fromhex(device.id)).decode().rstrip("=")
    s = sidecar.connect()
    for node in (device.id, b32, b32.lower()):
        s.sendall(f"GET /hello HTTP/1.1\r\nhost: h\r\nx-iroh-endpoint-id: {node}\r\nx-datum-target-host: 127.0.0.1\r\n"
                  f"x-datum-target-port: {web.port}\r\n\r\n".encode())
        a = Answer(s)
        assert a.status == 200 and a.body() == b"hello /hello"
    s.close()


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_arrives_without_its_framing(sidecar, device, chunked):
    got = {}

    def serve(s):
        f = s.makefile("rb")
        head = {}
        f.readline()
        while (line := f.readline().strip()):
            k, v = line.decode().lower().split(": ", 1)
            head[k] = v
        body = b""
        if head.get("transfer-encoding") == "chunked":
            while (n := int(f.readline(), 16)):
                body += f.read(n)
                f.readline()
        else:
            body = f.read(int(head["content-length"]))
        got["digest"] = hashlib.sha256(body).hexdigest()
        s.sendall(b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n")
    e = Echo(serve)
    data = random.Random(2).randbytes(10_000_000)
    framed = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (data[i:i + 77_777] for i in range(0, len(data), 77_777)))
    a = sidecar.request(device.id, e.port, "/up", "POST", "transfer-encoding: chunked\n" if chunked
                        else f"content-length: {len(data)}\n", framed + b"0\r\n\r\n" if chunked else data)
    assert a.status == 201
    assert a.body() == b"done"
    assert got["digest"] == hashlib.sha256(data).hexdigest()
    a.close()
    e.close()


def test_http2_requests_and_curl(sidecar, device, web, h2):
    common = ["curl", "-s", "-m", str(guard(20)), "--unix-socket", sidecar.path, "-H", f"x-iroh-endpoint-id: {device.id}",
              "-H", "x-datum-target-host: 127.0.0.1", "-H", f"x-datum-target-port: {web.port}"]
    for flags in (["--http1.1"], ["--http2-prior-knowledge"]):
        r = subprocess.run([*common, *flags, "http://app/big"], capture_output=True, check=True)
        assert r.stdout == bytes(range(256)) * 20000
        r = subprocess.run([*common, *flags, "--data-binary", "@-", "http://app/"], input=b"z" * 300_000,
                           capture_output=True, check=True)
        assert r.stdout == b"z" * 300_000
        r = subprocess.run([*common, *flags, "-I", "http://app/hello"], capture_output=True, check=True)
        assert b"200" in r.stdout.split(b"\r\n")[0]
    stream, status, fields = h2.open({":path": "/hello", "x-iroh-endpoint-id": device.id, "x-datum-target-host":
                                      "127.0.0.1", "x-datum-target-port": str(web.port)}, end=True)
    assert status == 200 and fields["content-length"] == "12"
    assert h2.recv(stream) == "hello /hello"


# ---- upgrades ----

def websocket_server():
    def serve(s):
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(65536)
        assert b"upgrade: websocket" in head.lower()
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  b"Sec-WebSocket-Accept: x\r\n\r\nhello")
        Echo.echo(s)
    return Echo(serve)


def test_websocket_over_http1(sidecar, device):
    e = websocket_server()
    a = sidecar.request(device.id, e.port, "/chat", extra="Connection: keep-alive, Upgrade\nUpgrade: websocket\n"
                        "Sec-WebSocket-Key: k\nSec-WebSocket-Version: 13\n")
    assert a.status == 101 and a.fields["upgrade"] == "websocket" and a.fields["sec-websocket-accept"] == "x"
    assert a.recv(5) == b"hello"
    a.sock.sendall(b"frames")
    assert a.recv(6) == b"frames"
    a.sock.shutdown(socket.SHUT_WR)
    assert a.all() == b""
    e.close()


def test_websocket_over_http2(h2, device):
    e = websocket_server()
    assert h2.seen[0]["extended"]
    stream, status, fields = h2.open({":method": "CONNECT", ":protocol": "websocket", ":scheme": "http",
                                      ":authority": "app", ":path": "/chat", "x-iroh-endpoint-id": device.id,
                                      "x-datum-target-host": "127.0.0.1", "x-datum-target-port": str(e.port)})
    assert status == 200 and "upgrade" not in fields and fields["sec-websocket-accept"] == "x"
    assert h2.recv(stream, 5) == "hello"
    h2.send(stream, "frames", end=True)
    assert h2.recv(stream) == "frames"
    e.close()


# ---- UDP ----

def masque(host, port):
    return f"/.well-known/masque/udp/{host}/{port}/"


@pytest.mark.tsan
def test_udp_over_http1(sidecar, device):
    u = UdpEcho()
    a = sidecar.ask(f"GET {masque('127.0.0.1', u.port)} HTTP/1.1\nhost: proxy\nx-iroh-endpoint-id: {device.id}\n"
                    "connection: upgrade\nupgrade: connect-udp\ncapsule-protocol: ?1\n")
    assert a.status == 101 and a.fields["upgrade"] == "connect-udp" and a.fields["capsule-protocol"] == "?1"
    a.sock.sendall(capsule(b"hi"))
    assert a.recv(5) == b"\x00\x03\x00hi"
    a.sock.sendall(capsule(b"dropped", context=2) + capsule(b"dropped", kind=0x29) + capsule(b"") + capsule(b"1"))
    assert a.recv(3 + 4) == capsule(b"") + capsule(b"1")
    big = random.Random(3).randbytes(65507)
    a.sock.sendall(capsule(big))
    assert a.recv(len(capsule(big))) == capsule(big)
    assert u.got == [b"hi", b"", b"1", big]
    a.close()
    u.close()


def test_udp_over_http2_asks_a_resolver(h2, device):
    def resolver(query):  # answers any question for an A record
        return query[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + query[12:] + \
            b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x07"
    u = UdpEcho(resolver, host="::1")
    stream, status, fields = h2.open({":method": "CONNECT", ":protocol": "connect-udp", ":scheme": "https",
                                      ":authority": "proxy", ":path": masque("%3A%3A1", u.port),
                                      "capsule-protocol": "?1", "x-iroh-endpoint-id": device.id})
    assert status == 200 and fields["capsule-protocol"] == "?1"
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01"
    h2.send(stream, capsule(query).decode("latin1"))
    answer = h2.recv(stream, len(query) + 16 + 3).encode("latin1")
    assert answer[3:5] == b"\x12\x34" and answer.endswith(bytes([192, 0, 2, 7]))
    h2.send(stream, "", end=True)
    device.said(f"udp GET ::1:{u.port}")
    u.close()


def test_udp_in_quic_datagrams(binary, device, tmp_path):
    u = UdpEcho()
    s = Sidecar(binary, tmp_path / "s", "--peer", device.peer, "--udp-datagrams").wait_ready()
    a = s.ask(f"GET {masque('127.0.0.1', u.port)} HTTP/1.1\nhost: proxy\nx-iroh-endpoint-id: {device.id}\n"
              "connection: upgrade\nupgrade: connect-udp\n")
    assert a.status == 101
    for n in (0, 1, 100, 1000):
        a.sock.sendall(capsule(b"d" * n))
        assert a.recv(len(capsule(b"d" * n))) == capsule(b"d" * n)
    a.sock.sendall(capsule(b"b" * 20000) + capsule(b"after"))  # there in a capsule, back it is too large
    assert a.recv(len(capsule(b"after"))) == capsule(b"after")
    assert u.got[-2:] == [b"b" * 20000, b"after"]
    a.sock.shutdown(socket.SHUT_WR)
    assert a.all() == b""
    with H2Gateway(s.path) as g:
        stream, status, _ = g.open({":method": "CONNECT", ":protocol": "connect-udp", ":scheme": "https",
                                    ":authority": "proxy", ":path": masque("127.0.0.1", u.port),
                                    "x-iroh-endpoint-id": device.id})
        assert status == 200
        g.send(stream, capsule(b"over h2").decode("latin1"))
        assert g.recv(stream, 10).encode("latin1") == capsule(b"over h2")
        g.send(stream, "", end=True)
        assert g.recv(stream) == ""
    s.close()
    u.close()


def test_a_bad_capsule_ends_its_stream(sidecar, device):
    u = UdpEcho()
    a = sidecar.ask(f"GET {masque('127.0.0.1', u.port)} HTTP/1.1\nhost: proxy\nx-iroh-endpoint-id: {device.id}\n"
                    "connection: upgrade\nupgrade: connect-udp\n")
    assert a.status == 101
    a.sock.sendall(b"\x00\x80\x01\x00\x00" + bytes(100))
    try:
        assert a.all() == b""
    except OSError:
        pass
    device.said("bad_capsule")
    u.close()


# ---- refusals ----

def test_refusals(sidecar, device):
    node = f"x-iroh-endpoint-id: {device.id}\n"
    target = "x-datum-target-host: a\nx-datum-target-port: 80\n"
    cases = [
        ("CONNECT a:1 HTTP/1.1\nhost: a\n", 400, "missing_header_node_id"),
        ("CONNECT a:1 HTTP/1.1\nhost: a\nx-iroh-endpoint-id: \n", 400, "invalid_endpoint_id"),
        (f"CONNECT a:1 HTTP/1.1\nhost: a\nx-iroh-endpoint-id: {device.id.upper()}\n", 400, "invalid_endpoint_id"),
        (f"CONNECT a:1 HTTP/1.1\nhost: a\nx-iroh-endpoint-id: {device.id[:-1]}\n", 400, "invalid_endpoint_id"),
        (f"CONNECT a:1 HTTP/1.1\nhost: a\n{node}{node}", 400, "invalid_endpoint_id"),
        (f"CONNECT a HTTP/1.1\nhost: a\n{node}", 400, "bad_request"),
        (f"GET / HTTP/1.1\nhost: a\n{node}", 400, "missing_header"),
        (f"GET / HTTP/1.1\nhost: a\n{node}x-datum-target-host: a\nx-datum-target-port: 65536\n", 400,
         "invalid_target_port"),
        (f"GET / HTTP/1.1\nhost: a\n{node}x-datum-target-host: a\nx-datum-target-port: 0\n", 400, "invalid_target_port"),
        (f"GET / HTTP/1.1\nhost: a\n{node}x-datum-target-host: a/b\nx-datum-target-port: 1\n", 400,
         "invalid_target_host"),
        (f"GET /{'a' * 7900} HTTP/1.1\nhost: a\n{node}{target}x: {'y' * 600}\n", 431, "head_too_large"),
        (f"GET /x HTTP/1.1\nhost: a\n{node}connection: upgrade\nupgrade: connect-udp\n", 404, "invalid_udp_path"),
        (f"GET {masque('a', 0)} HTTP/1.1\nhost: a\n{node}connection: upgrade\nupgrade: connect-udp\n", 404,
         "invalid_udp_path"),
        ("GET / HTTP/1.1\nhost: a\nhost: b\n", 400, "bad_request"),
        (f"CONNECT 127.0.0.1:{free_port()} HTTP/1.1\nhost: a\n{node}", 502, "origin_unreachable"),
    ]
    for head, status, reason in cases:
        a = sidecar.ask(head)
        assert (a.status, a.reason) == (status, reason), head
        if status != 502:
            assert a.fields["proxy-status"].startswith("spanwire; error=http_request_error; details=")
        a.close()
    for reason in ("missing_header_node_id", "invalid_endpoint_id", "invalid_target_port", "missing_header"):
        until(lambda: sidecar.metrics().sum("iroh_gateway_denied_requests_total", reason=reason) > 0)
    until(lambda: sidecar.metrics().sum("iroh_gateway_error_responses_by_status_total", status="400") > 0)


def test_refusals_over_http2(h2, device):
    for headers, status, reason in (
            ({":method": "CONNECT", ":authority": "a:1"}, 400, "missing_header_node_id"),
            ({":method": "CONNECT", ":authority": "a", "x-iroh-endpoint-id": device.id}, 400, "invalid_target"),
            ({":method": "CONNECT", ":authority": f"127.0.0.1:{free_port()}", "x-iroh-endpoint-id": device.id}, 502,
             "origin_unreachable")):
        _, got, fields = h2.open(headers)
        assert (got, fields["x-spanwire-reason"]) == (status, reason)


def test_a_target_the_device_does_not_allow(binary, tmp_path, echo):
    d = QDevice(binary, tmp_path / "key", "--allow", "127.0.0.1:9")
    s = Sidecar(binary, tmp_path / "s", "--peer", d.peer).wait_ready()
    t = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
    assert (t.status, t.reason, t.body()) == (403, "not_advertised", b"")
    assert "not_advertised" in d.said("403") and echo.accepted == 0
    until(lambda: "status=403" in s.log() and "reason=not_advertised" in s.log(), 5, "a line about it")
    a = s.request(d.id, echo.port)
    assert (a.status, a.reason) == (403, "not_advertised")
    until(lambda: s.metrics().sum("iroh_gateway_error_responses_by_status_total", status="403") == 2)
    s.close()
    d.close()


def dials_failed(s):
    return s.metrics().sum("iroh_gateway_tunnel_connectivity_events_total", event="dial_failed")


def test_an_unknown_node_is_one_dial_and_504(binary, tmp_path):
    silent = socket.socket(type=socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    d = QDevice(binary, tmp_path / "key")
    d.close()  # its key is good, but nobody is there
    s = Sidecar(binary, tmp_path / "s", "--peer", f"{d.id}=127.0.0.1:{silent.getsockname()[1]}",
                "--dial-timeout", "4s").wait_ready()  # all of them have to ask before it is over
    socks = [s.connect() for _ in range(10)]
    for sock in socks:
        sock.sendall(f"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\nx-iroh-endpoint-id: {d.id}\r\n\r\n".encode())
    answers = [Answer(sock) for sock in socks]
    assert {(a.status, a.reason) for a in answers} == {(504, "dial_timeout")}
    until(lambda: s.metrics().sum("iroh_gateway_upstream_failures_total", **{"class": "dial_timeout"}) == 10)
    assert dials_failed(s) == 1
    s.close()
    silent.close()


def test_a_node_that_admits_others_only(binary, tmp_path):
    d = QDevice(binary, tmp_path / "key", "--peer", "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f")
    s = Sidecar(binary, tmp_path / "s", "--peer", d.peer).wait_ready()
    t = s.tunnel(d.id, "127.0.0.1:9")
    assert (t.status, t.reason) == (403, "not_admitted")
    s.close()
    d.close()


def test_another_key_at_the_address(binary, device, tmp_path):
    d = QDevice(binary, tmp_path / "key")
    d.close()
    s = Sidecar(binary, tmp_path / "s", "--peer", f"{d.id}={device.addr}", "--dial-timeout", "2s").wait_ready()
    t = s.tunnel(d.id, "127.0.0.1:9")
    assert t.status in (502, 504) and t.reason in ("wrong_identity", "dial_failed", "dial_timeout", "not_admitted")
    s.close()


def test_a_device_that_dies_and_comes_back(binary, tmp_path, echo):
    port = free_port()
    d = QDevice(binary, tmp_path / "key", "--bind", f"127.0.0.1:{port}")
    s = Sidecar(binary, tmp_path / "s", "--peer", d.peer, "--dial-timeout", "5s").wait_ready()
    t = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
    assert t.status == 200
    d.kill()

    # Nobody says so: a request that is not even confirmed tells.
    def fails():
        a = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
        assert (a.status, a.reason) == (504, "dial_timeout")
        return dials_failed(s)
    before = fails()
    until(lambda: "dialling a new connection for new requests" in s.log())

    # And the ones behind it do not dial again, if they come within two seconds.
    def remembered():
        nonlocal before
        before, last = fails(), before
        return before == last
    until(remembered, what="a failure to be remembered")
    d2 = QDevice(binary, tmp_path / "key", "--bind", f"127.0.0.1:{port}")
    assert d2.id == d.id
    until(lambda: s.tunnel(d.id, f"127.0.0.1:{echo.port}").status == 200, 10, "the device to be reached again")
    # Restarted so quickly that nobody noticed: the request itself finds out, and is served.
    d2.kill()
    d2 = QDevice(binary, tmp_path / "key", "--bind", f"127.0.0.1:{port}")
    assert s.tunnel(d.id, f"127.0.0.1:{echo.port}").status == 200
    t.close()
    d2.close()
    s.close()


# ---- where nodes are ----

def test_nodes_are_found_by_dns(binary, device, tmp_path, echo):
    name = f"_iroh.{z32(device.id)}.nodes.example"
    dns = TxtServer({name: ["addr=" + device.addr]})
    s = Sidecar(binary, tmp_path / "s", "--dns-origin", "nodes.example", "--dns-resolver",
                f"127.0.0.1:{dns.port}", "--node-idle", "100ms").wait_ready()
    for i in range(1, 4):
        t = s.tunnel(device.id, f"127.0.0.1:{echo.port}")
        assert t.status == 200
        t.close()
        until(lambda: s.metrics().sum("iroh_gateway_iroh_connections_closed_idle_total") == i)
        asked = dns.all_asked()
        if i == 1:
            first = asked  # more than one where we answered late
    assert set(first) == {name} and asked == first, "dialled anew, but not asked for anew"
    unknown = "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
    t = s.tunnel(unknown, "a:1")
    assert (t.status, t.reason) == (504, "unknown_node")
    s.close()
    dns.close()


@pytest.fixture(scope="module")
def control(binary, tmp_path_factory):
    c = Control(binary, tmp_path_factory.mktemp("control"), "--connector-lease", "10s")
    yield c
    c.close()


def test_the_control_plane_tells_where_a_device_is(binary, control, tmp_path, web):
    s = Sidecar(binary, tmp_path / "s", kubeconfig=control.kubeconfig).wait_ready()
    until(lambda: "registered with the control plane" in s.log(), 10)
    found = control.get(f"/api/v1/namespaces/spanwire-system/configmaps/gateway-{s.id[:10]}").json
    assert found["metadata"]["labels"]["spanwire.dev/gateway-identity"] == "true"
    assert found["data"]["id"] == s.id and found["data"]["addresses"].startswith("127.0.0.1:")
    unknown = "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
    t = s.tunnel(unknown, "a:1")
    assert (t.status, t.reason) == (504, "unknown_node")

    d = Device(binary, tmp_path / "d", control.kubeconfig, "--name", "laptop")
    d.wait_live(20)
    node = d.id
    advertise(control, "laptop", "laptop", ("127.0.0.1", web.port))

    def asks(port=web.port):
        a = s.request(node, port, "/hello")
        a.close()
        return a.status, a.reason
    until(lambda: asks()[0] == 200, 20, "the device to be reached")
    until(lambda: asks(free_port())[0] == 403)
    d.stop()
    until(lambda: asks() == (503, "offline"), 20, "the Lease to be given back")
    d = Device(binary, tmp_path / "d", control.kubeconfig, "--name", "laptop")
    until(lambda: asks()[0] == 200, 20, "the device to be back")
    d.stop()
    s.close()


@pytest.mark.tsan
def test_the_same_inside_a_gateway(binary, device, tmp_path, echo):
    (tmp_path / "xds").mkdir()
    path = str(tmp_path / "s.sock")
    common = [a for name in ("admin", "stats", "ready") for a in (f"--{name}-addr", f"127.0.0.1:{free_port()}",
                                                                  f"--sidecar-{name}-addr", f"127.0.0.1:{free_port()}")]
    g = Process(_Here(), [binary, "gateway", "--xds-dir", str(tmp_path / "xds"), "--workers", "1", *common,
                          "--sidecar-listen", path, f"--sidecar-peer={device.peer}", "--sidecar-key-file",
                          str(tmp_path / "key"), "--sidecar-bind", "127.0.0.1:0"], tmp_path / "log")
    until(lambda: "\tsidecar\tready" in g.log() or not g.alive, 10, "the sidecar to be ready")
    s = Sidecar.__new__(Sidecar)
    s.path = path
    t = s.tunnel(device.id, f"127.0.0.1:{echo.port}")
    assert t.status == 200
    t.sock.sendall(b"x")
    assert t.recv(1) == b"x"
    t.close()
    g.signal(signal.SIGTERM)
    assert g.wait(20) == 0, g.log()
    assert not os.path.exists(path)
    r = subprocess.run([binary, "gateway", "--xds-dir", str(tmp_path / "xds"), *common, "--sidecar-listen", "0.0.0.0:1",
                        "--sidecar-key-file", str(tmp_path / "key")], capture_output=True, text=True, timeout=guard(20))
    assert r.returncode == 1 and "sidecar" in r.stderr and "loopback" in r.stderr


# ---- listeners and life ----

def test_it_listens_to_neighbours_only(binary, tmp_path):
    for flags in (["--listen", "0.0.0.0:0"], ["--listen", "[::]:0"], ["--listen", "10.1.2.3:80"],
                  ["--listen", "0.0.0.0:0", "--allow-remote"], []):
        r = subprocess.run([binary, "sidecar", "--key-file", str(tmp_path / "k"), *flags], capture_output=True, text=True,
                           timeout=guard(20))
        assert r.returncode == 1
        assert "loopback" in r.stderr or "--listen is needed" in r.stderr


@pytest.fixture
def another_address():
    netns.run("ip", "addr", "add", "10.98.0.1/32", "dev", "lo")
    yield "10.98.0.1"
    netns.run("ip", "addr", "del", "10.98.0.1/32", "dev", "lo")


def test_remote_gateways_need_a_certificate(binary, device, tmp_path, web, another_address):
    d = tmp_path

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=d)
    for ca in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{ca}.key",
                "-out", f"{ca}.crt", "-subj", f"/CN={ca}", "-days", "2")
    for name, ca, usage in (("server", "ca", "serverAuth"), ("client", "ca", "clientAuth"),
                            ("stranger", "other", "clientAuth")):
        (d / "ext").write_text(f"subjectAltName=IP:{another_address}\nextendedKeyUsage={usage}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
                "csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", "csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-out",
                f"{name}.crt", "-days", "2", "-extfile", "ext")
    port = free_port()
    s = Sidecar(binary, d / "s", "--peer", device.peer, "--allow-remote", "--tls-cert", str(d / "server.crt"), "--tls-key",
                str(d / "server.key"), "--tls-ca", str(d / "ca.crt"), listen=f"{another_address}:{port}").wait_ready()

    def curl(*flags):
        r = subprocess.run(["curl", "-s", "-m", str(guard(10)), "--http2", "--cacert", "ca.crt", "-o", "/dev/null", "-w", "%{http_code}",
                            "-H", f"x-iroh-endpoint-id: {device.id}", "-H", "x-datum-target-host: 127.0.0.1", "-H",
                            f"x-datum-target-port: {web.port}", *flags], capture_output=True, text=True, cwd=d, check=False)
        return r.stdout
    url = f"https://{another_address}:{port}/hello"
    assert curl("--cert", "client.crt", "--key", "client.key", url) == "200"
    assert curl(url) == "403"
    assert curl("--cert", "stranger.crt", "--key", "stranger.key", url) in ("403", "000")
    assert curl(f"http://{another_address}:{port}/hello") == "000"
    s.close()


def test_socket_and_key_are_private(sidecar):
    assert stat.S_IMODE(os.stat(sidecar.path).st_mode) == 0o660
    key = os.path.join(os.path.dirname(sidecar.path), "key")
    assert os.path.getsize(key) == 32 and stat.S_IMODE(os.stat(key).st_mode) == 0o600


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(binary, device, tmp_path):
    s = Sidecar(binary, tmp_path / "a", "--peer", device.peer).wait_ready()
    first = s.id
    r = subprocess.run([binary, "sidecar", "--listen", s.path, "--key-file", str(tmp_path / "k")], capture_output=True,
                       text=True, timeout=guard(20))
    assert r.returncode == 1
    s.kill()
    assert os.path.exists(s.path)
    s = Sidecar(binary, tmp_path / "a", "--peer", device.peer).wait_ready()
    assert s.id == first
    s.close()
    assert not os.path.exists(s.path)


def test_a_request_that_runs_outlives_sigterm(binary, device, tmp_path, echo):
    s = Sidecar(binary, tmp_path / "s", "--peer", device.peer, "--drain-time", "60s").wait_ready()
    t = s.tunnel(device.id, f"127.0.0.1:{echo.port}")
    idle = s.connect()
    time.sleep(0.1)
    s.signal(signal.SIGTERM)
    until(lambda: "draining" in s.log(), 5)
    t.sock.sendall(b"still here")
    assert t.recv(10) == b"still here"

    def refused():
        try:
            s.connect().close()
        except OSError:
            return True
        return False
    until(refused, what="nobody new to be let in")
    t.sock.sendall(b"and again")
    assert t.recv(9) == b"and again"
    t.close()
    assert s.wait(10) == 0
    idle.close()


def test_idle_connections_to_nodes_are_closed(binary, device, tmp_path, echo):
    s = Sidecar(binary, tmp_path / "s", "--peer", device.peer, "--node-idle", "300ms").wait_ready()
    t = s.tunnel(device.id, f"127.0.0.1:{echo.port}")
    t.close()
    until(lambda: s.metrics().sum("iroh_gateway_iroh_connections_closed_idle_total") == 1, 5)
    until(lambda: s.metrics().sum("iroh_gateway_quic_connections_current") == 0)
    assert s.tunnel(device.id, f"127.0.0.1:{echo.port}").status == 200
    s.close()


def test_nonsense_on_the_socket(sidecar, device, web):
    rng = random.Random(7)
    for i in range(60):
        s = sidecar.connect()
        s.settimeout(0.5 * SLOW)
        lead = [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT ", b"GET / HTTP/1.1\r\n"][i % 4]
        try:
            s.sendall(lead + rng.randbytes(rng.randrange(1, 400)))
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        s.close()
    a = sidecar.request(device.id, web.port, "/hello")
    assert a.status == 200
    a.close()
