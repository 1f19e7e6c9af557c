# SPDX-License-Identifier: Apache-2.0
"""The tunnel protocol with the real iroh (npm) at one end: our sidecar to its device, its gateway to our device."""
import random
import signal
import socket
import threading

import pytest
from harness.control import _Here
from harness.device import Edge
from harness.node import Process
from harness.sidecar import H2Gateway, IrohDevice, QDevice, Sidecar, free_port
from harness.wait import until


# ---- our sidecar, a device of the real iroh ----

@pytest.fixture
def pair(binary, tmp_path):
    with IrohDevice(deny=9) as d:
        s = Sidecar(binary, tmp_path / "s", "--peer", d.peer).wait_ready()
        yield s, d
        s.close()


def test_a_tunnel_to_a_real_device(pair, echo):
    s, d = pair
    t = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
    assert t.status == 200
    assert d.event("accepted")["peer"] == s.id
    head = d.event("head")
    assert head["line"] == f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1"
    assert head["fields"] == {"host": f"127.0.0.1:{echo.port}"}
    data = random.Random(1).randbytes(3 << 20)
    t.sock.sendall(b"ping")
    assert t.recv(4) == b"ping"
    threading.Thread(target=lambda: (t.sock.sendall(data), t.sock.shutdown(socket.SHUT_WR)), daemon=True).start()
    assert t.all() == data


def test_requests_to_a_real_device(pair, web):
    s, d = pair
    a = s.request(d.id, web.port, "/hello?x=1", extra="accept: */*\n")
    assert a.status == 200 and a.body() == b"hello /hello?x=1"
    head = d.event("head")
    assert head["line"] == f"GET http://127.0.0.1:{web.port}/hello?x=1 HTTP/1.1"
    assert head["fields"] == {"host": f"127.0.0.1:{web.port}", "accept": "*/*", "x-forwarded-host": "app.example"}
    a = s.request(d.id, web.port, "/", "POST", "content-length: 100000\n", b"p" * 100000)
    assert a.status == 200 and a.body() == b"p" * 100000
    a = s.request(d.id, web.port, "/big")
    assert a.body() == bytes(range(256)) * 20000


def test_a_real_device_refuses(pair, echo):
    s, d = pair
    t = s.tunnel(d.id, "127.0.0.1:9")
    assert t.status == 403 and t.reason == "refused_by_node" and t.body() == b""
    t = s.tunnel(d.id, "127.0.0.1:1")
    assert t.status == 502
    assert s.tunnel(d.id, f"127.0.0.1:{echo.port}").status == 200


def test_forty_streams_of_http2_on_one_connection_to_a_real_device(pair, echo):
    s, d = pair
    with H2Gateway(s.path) as g:
        ids = [g.open({":method": "CONNECT", ":authority": f"127.0.0.1:{echo.port}", "x-iroh-endpoint-id": d.id},
                      wait=False) for _ in range(40)]
        for i in ids:
            assert g.answer(i)[1] == 200
            g.send(i, f"stream {i}", end=True)
        for i in ids:
            assert g.recv(i) == f"stream {i}"
    assert sum(e["event"] == "accepted" for e in d.seen + list(d.events.queue)) == 1


def test_more_streams_than_a_real_device_allows_at_once(pair, echo):
    """It allows a hundred on a connection: the others, open at the same time, get another one."""
    s, d = pair
    with H2Gateway(s.path) as g:
        ids = [g.open({":method": "CONNECT", ":authority": f"127.0.0.1:{echo.port}", "x-iroh-endpoint-id": d.id},
                      wait=False) for _ in range(130)]
        for i in ids:
            assert g.answer(i)[1] == 200
        for i in ids:
            g.send(i, "x", end=True)
            assert g.recv(i) == "x"
    assert 2 <= s.metrics().sum("iroh_gateway_iroh_connections_opened_total") <= 4


def test_another_protocol_and_another_key(binary, tmp_path):
    with IrohDevice(alpn="something/else") as d, IrohDevice() as other, IrohDevice() as there:
        s = Sidecar(binary, tmp_path / "s", "--peer", d.peer, "--peer", f"{other.id}={there.addrs[0]}",
                    "--dial-timeout", "60s").wait_ready()
        t = s.tunnel(d.id, "127.0.0.1:9")
        assert (t.status, t.reason) == (403, "not_admitted")
        t = s.tunnel(other.id, "127.0.0.1:9")
        assert (t.status, t.reason) == (502, "wrong_identity")
        s.close()


# ---- a gateway of the real iroh, our device ----

@pytest.fixture
def device(binary, tmp_path):
    d = QDevice(binary, tmp_path / "key")
    d.addrs = lambda: [d.addr]
    yield d
    d.close()


def test_a_real_gateway_through_our_device(device, web, echo):
    with Edge() as edge:
        edge.connect(device)
        status, e = edge.ask(f"GET http://127.0.0.1:{web.port}/hello HTTP/1.1\r\nhost: 127.0.0.1:{web.port}\r\n\r\n")
        assert status == 200 and e["text"].endswith("hello /hello")
        stream = edge.tunnel("127.0.0.1", echo.port)
        edge.send(stream, "over the tunnel", fin=True)
        assert edge.recv(stream, 15) == "over the tunnel"
        until(lambda: any("in=15 out=15 ok" in x for x in device.lines), 5)
        status, e = edge.ask(f"GET http://127.0.0.1:{web.port}/big HTTP/1.1\r\nhost: 127.0.0.1:{web.port}\r\n\r\n", 60)
        assert status == 200 and e["bytes"] > 256 * 20000


def test_hostile_heads_of_a_real_gateway(device, echo):
    with Edge() as edge:
        edge.connect(device)
        for text, status in (("GET / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
                             ("CONNECT 127.0.0.1:99999 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
                             (f"CONNECT a:1 HTTP/1.1\r\nhost: a\r\nx: {'y' * 8200}\r\n\r\n", 431),
                             ("\x16\x03\x01\x00\x05hello\r\n\r\n", 400)):
            assert edge.ask(text)[0] == status, text[:40]
        stream = edge.tunnel("127.0.0.1", echo.port)  # the connection is as good as before
        edge.send(stream, "x", fin=True)
        assert edge.recv(stream, 1) == "x"


# ---- through our relay ----

@pytest.fixture
def relay(binary, tmp_path):
    port = free_port()
    p = Process(_Here(), [binary, "relay", "--open", "--listen", f"127.0.0.1:{port}", "--admin-addr", f"127.0.0.1:{free_port()}",
                          "--stats-addr", f"127.0.0.1:{free_port()}", "--ready-addr", f"127.0.0.1:{free_port()}"],
                tmp_path / "relay.log")
    until(lambda: "ready" in p.log() or not p.alive, 10, "the relay")
    assert p.alive, p.log()
    yield f"http://127.0.0.1:{port}"
    p.signal(signal.SIGTERM)
    assert p.wait(20) == 0, p.log()


def test_our_sidecar_reaches_a_real_device_through_the_relay(binary, relay, tmp_path, echo):
    with IrohDevice(relay=relay) as d:
        s = Sidecar(binary, tmp_path / "s", "--relay", relay, "--peer", f"{d.id}=relay={relay}").wait_ready()
        t = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
        assert t.status == 200
        t.sock.sendall(b"r" * 300_000)
        t.sock.shutdown(socket.SHUT_WR)
        assert t.all() == b"r" * 300_000
        s.close()


def test_a_real_gateway_reaches_our_device_through_the_relay(binary, relay, tmp_path, echo):
    d = QDevice(binary, tmp_path / "key", "--relay", relay)
    d.addrs = lambda: []
    with Edge(relay=relay) as edge:
        edge.connect(d, relay=relay)
        stream = edge.tunnel("127.0.0.1", echo.port)
        edge.send(stream, "relayed", fin=True)
        assert edge.recv(stream, 7) == "relayed"
    d.close()
