# SPDX-License-Identifier: Apache-2.0
"""Native iroh endpoints with iroh-proxy-utils in both roles: our sidecar to its device, its edge to our connector."""
import concurrent.futures
import contextlib
import socket
import threading
import time

import pytest
from harness.control import Control
from harness.device import Device
from harness.ports import free_port
from harness.sidecar import Answer, Sidecar, TxtServer, z32
from harness.wait import GUARD, SLOW, until
from native import SILENCE, WS, WS_ACCEPT, Native, Origin, Store, digest, download, frame, upload

GIB = 1024
SOMEBODY = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"


@pytest.fixture(scope="module")
def gib():
    return digest(GIB)


@pytest.fixture
def store():
    with contextlib.closing(Store()) as s:
        yield s


@pytest.fixture
def origin():
    with contextlib.closing(Origin()) as o:
        yield o


class Theirs:
    """Our sidecar before a native device: how a client gets a tunnel or asks for a page."""

    opening = threading.Semaphore(200)
    at_once = 200  # it allows a hundred streams on a connection

    def __init__(self, binary, interop_dir, where, *flags, **device):
        self.device = Native(interop_dir, "device", **device)
        self.sidecar = Sidecar(binary, where / "s", "--peer", self.device.peer, *flags).wait_ready()

    def tunnel(self, port):
        t = self.sidecar.tunnel(self.device.id, f"127.0.0.1:{port}")
        assert t.status == 200, (t.status, t.reason)
        assert not t.rest
        return t.sock

    def request(self, method, path, port, fields=""):
        s = self.sidecar.connect()
        s.sendall((f"{method} {path} HTTP/1.1\r\nhost: app.example\r\nx-iroh-endpoint-id: {self.device.id}\r\n"
                   f"x-datum-target-host: 127.0.0.1\r\nx-datum-target-port: {port}\r\n{fields}\r\n").encode())
        return s

    def close(self):
        self.sidecar.close()
        self.device.close()


class Ours:
    """A native edge before our connector. TCP listeners belong to one destination each."""

    opening = threading.Semaphore(50)  # the pool of iroh-util 0.6.0 hangs when more than 100 wait for a connection
    at_once = 200

    def __init__(self, binary, interop_dir, where, *ports):
        allow = [f for p in ports for f in ("--allow", f"127.0.0.1:{p}")]
        self.device = Device(binary, where / "d", "/does/not/exist", "--standalone", "--open", *allow)
        self.at = {p: free_port() for p in ports}
        self.http = free_port()
        tcp = [f for p, at in self.at.items() for f in ("--tcp", f"127.0.0.1:{at}=127.0.0.1:{p}")]
        self.edge = Native(interop_dir, "edge", f"{self.device.id}={self.device.addrs()[0]}", *tcp, "--http",
                           f"127.0.0.1:{self.http}")
        self.edge.event("ready")

    def tunnel(self, port):
        return self._connect(self.at[port])

    def _connect(self, port):
        s = socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW)
        s.settimeout(GUARD * SLOW)
        return s

    def request(self, method, path, port, fields=""):
        s = self._connect(self.http)
        s.sendall(f"{method} http://127.0.0.1:{port}{path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{fields}\r\n".encode())
        return s

    def close(self):
        self.edge.close()
        self.device.stop()
        self.device.check()


@pytest.fixture(params=["native device", "native edge"])
def pair(request, binary, interop_dir, tmp_path, echo, store, origin):
    if request.param == "native device":
        p = Theirs(binary, interop_dir, tmp_path)
    else:
        p = Ours(binary, interop_dir, tmp_path, echo.port, store.port, origin.port)
    with contextlib.closing(p):
        yield p


# ---- bytes ----

def test_a_gibibyte_each_way(pair, store, gib):
    with pair.tunnel(store.port) as s:
        assert download(s, GIB) == gib
    with pair.tunnel(store.port) as s:
        assert upload(s, GIB) == gib


def test_two_hundred_tunnels(pair, echo):
    is_open, enough = set(), threading.Event()

    def one(i):
        data = f"tunnel {i} ".encode() * 2000
        with pair.opening:
            s = pair.tunnel(echo.port)
            s.sendall(data)
            got = s.recv(1)
        with s:
            is_open.add(i)
            if len(is_open) >= pair.at_once:
                enough.set()
            assert enough.wait(GUARD * SLOW), f"only {len(is_open)} open"
            s.shutdown(socket.SHUT_WR)
            while part := s.recv(1 << 16):
                got += part
            return got == data
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        assert all(pool.map(one, range(200)))
    if isinstance(pair, Theirs):
        assert 2 <= pair.sidecar.metrics().sum("iroh_gateway_iroh_connections_opened_total") <= 4


# ---- HTTP ----

def test_put(pair, origin):
    body = b"".join(bytes([i % 251]) * 1000 for i in range(3000))
    with pair.request("PUT", "/file", origin.port, f"content-length: {len(body)}\r\n") as s:
        s.sendall(body)
        a = Answer(s)
        assert a.status == 201
        n, sha = a.body().decode().split()
    with pair.request("PUT", "/file", origin.port, "transfer-encoding: chunked\r\n") as s:
        for i in range(0, len(body), 70_000):
            part = body[i:i + 70_000]
            s.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        a = Answer(s)
        assert a.status == 201 and a.body().decode().split() == [n, sha] == [str(len(body)), sha]


def test_events_arrive_one_by_one(pair, origin):
    with pair.request("GET", "/events", origin.port, "accept: text/event-stream\r\n") as s:
        a = Answer(s)
        assert a.status == 200 and a.fields["content-type"] == "text/event-stream"
        got = a.rest
        for i in range(5):
            while f"data: event {i}\n\n".encode() not in got:
                part = s.recv(65536)
                assert part, got
                got += part
            origin.next.release()  # the next is sent only when this one is here


def test_websocket(pair, origin):
    with pair.request("GET", "/ws", origin.port, WS) as s:
        a = Answer(s)
        assert a.status == 101 and a.fields["sec-websocket-accept"] == WS_ACCEPT
        for i in range(20):
            text = f"message {i}".encode()
            s.sendall(frame(text))
            assert a.recv(2 + len(text)) == bytes([0x81, len(text)]) + text
        s.sendall(b"\x88\x80\0\0\0\0")
        assert a.recv(2) == b"\x88\0"


# ---- refusals ----

def test_a_native_device_refuses(binary, interop_dir, tmp_path, echo):
    with Native(interop_dir, "device", "--deny", 9) as d:
        s = Sidecar(binary, tmp_path / "s", "--peer", d.peer).wait_ready()
        t = s.tunnel(d.id, "127.0.0.1:9")
        assert (t.status, t.reason) == (403, "refused_by_node")
        assert s.tunnel(d.id, "127.0.0.1:1").status == 502
        assert s.tunnel(d.id, f"127.0.0.1:{echo.port}").status == 200
        s.close()


def test_our_connector_refuses_a_native_edge(binary, interop_dir, tmp_path, echo):
    allowed = Ours(binary, interop_dir, tmp_path, echo.port)
    with contextlib.closing(allowed):
        with allowed.request("GET", "/", 9) as s:
            assert Answer(s).status == 403
        with allowed.tunnel(echo.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"


def test_wrong_key_and_protocol_of_a_device(binary, interop_dir, tmp_path):
    with Native(interop_dir, "device", "--alpn", "something/else") as d, Native(interop_dir, "device") as there:
        s = Sidecar(binary, tmp_path / "s", "--peer", d.peer, "--peer", f"{SOMEBODY}={there.addrs[0]}",
                    "--dial-timeout", "60s").wait_ready()
        t = s.tunnel(d.id, "127.0.0.1:9")
        assert (t.status, t.reason) == (403, "not_admitted")
        t = s.tunnel(SOMEBODY, "127.0.0.1:9")
        assert (t.status, t.reason) == (502, "wrong_identity")
        s.close()


def test_wrong_key_and_protocol_of_a_dialler(binary, interop_dir, tmp_path, echo):
    ours = Ours(binary, interop_dir, tmp_path, echo.port)
    with contextlib.closing(ours), Native(interop_dir, "peer") as p:
        at = ours.device.addrs()[0]
        e = p.dial(f"{ours.device.id}={at}", "something/else")
        assert e["event"] == "error" and "error 120" in e["why"], e  # no_application_protocol
        e = p.dial(f"{SOMEBODY}={at}", "iroh-http-proxy/1")
        assert e["event"] == "error" and "invalid peer certificate" in e["why"], e  # its own verdict on our key
        assert p.dial(f"{ours.device.id}={at}", "iroh-http-proxy/1")["event"] == "ready"


# ---- discovery ----

def test_our_sidecar_finds_a_native_device_by_dns(binary, interop_dir, tmp_path, echo):
    with Native(interop_dir, "device") as d:
        dns = TxtServer({f"_iroh.{z32(d.id)}.nodes.example": [f"addr={d.addrs[0]}"]})
        s = Sidecar(binary, tmp_path / "s", "--dns-origin", "nodes.example", "--dns-resolver",
                    f"127.0.0.1:{dns.port}").wait_ready()
        assert s.tunnel(d.id, f"127.0.0.1:{echo.port}").status == 200
        s.close()
        dns.close()


def test_a_native_edge_finds_our_connector_by_dns(binary, interop_dir, tmp_path, echo):
    """The records are those that our control plane publishes."""
    port, at = free_port(), free_port()
    control = Control(binary, tmp_path / "c", "--dns-zone", "nodes.example", "--dns-listen", f"127.0.0.1:{port}")
    d = Device(binary, tmp_path / "d", control.kubeconfig, "--open", "--allow", f"127.0.0.1:{echo.port}")
    d.wait_live()
    options = ["--dns", f"127.0.0.1:{port}", "--origin", "nodes.example"]
    with Native(interop_dir, "edge", d.id, "--tcp", f"127.0.0.1:{at}=127.0.0.1:{echo.port}", options=options) as edge:
        edge.event("ready")

        def found():
            with socket.create_connection(("127.0.0.1", at), timeout=GUARD * SLOW) as s:
                s.sendall(b"found")
                return s.recv(5) == b"found"
        until(found, what="the records to be published")
    d.stop()
    control.close()


# ---- restarts ----

def test_a_native_device_restarts(binary, interop_dir, tmp_path, echo):
    """The old connection gets no answer any more: the next tunnel does not wait for it."""
    port = free_port()
    device = {"bind": f"127.0.0.1:{port}", "options": ["--key", "11" * 32]}
    d = Native(interop_dir, "device", **device)
    s = Sidecar(binary, tmp_path / "s", "--peer", f"{d.id}=127.0.0.1:{port}").wait_ready()
    old = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
    assert old.status == 200
    d.kill()
    with Native(interop_dir, "device", **device) as d:
        new = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
        assert new.status == 200, (new.status, new.reason)
        new.sock.sendall(b"again")
        assert new.recv(5) == b"again"
        assert old.sock.recv(1) == b""
        new.close()
        s.close()


# ---- silence ----

def test_silence(binary, interop_dir, tmp_path, echo):
    """Tunnels and connections without a byte for 65 s, in both roles at once."""
    theirs = Theirs(binary, interop_dir, tmp_path / "a")
    ours = Ours(binary, interop_dir, tmp_path / "b", echo.port)
    with contextlib.closing(theirs), contextlib.closing(ours), theirs.tunnel(echo.port) as a, \
            ours.tunnel(echo.port) as b:
        for s in (a, b):
            s.sendall(b"before")
            assert s.recv(6) == b"before"
        time.sleep(SILENCE)
        for s in (a, b):
            s.sendall(b"after")
            assert s.recv(5) == b"after"
        accepted = [e for e in theirs.device.seen + list(theirs.device.events.queue) if e["event"] == "accepted"]
        assert len(accepted) == 1
