# SPDX-License-Identifier: Apache-2.0
"""Many connections served with few system calls: nothing is lost, doubled or given to another."""
import ctypes
import os
import pathlib
import select
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until

CLIENTS, ROUNDS, BODY = 24, 4, 3000
MANY = 400  # more than a turn of the loop looks at
PIPELINED = 1, 2, 4, 40, 1  # requests of one write, in each round


def body(i):
    return (f"answer for client {i:02d}; " * BODY)[:BODY]


@pytest.fixture(params=["true", "false"], ids=["io_uring", "plain calls"], name="g")
def _g(request, binary, tmp_path, monkeypatch):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    monkeypatch.setenv("SPANWIRE_IO_URING", request.param)
    cert, key = gw.make_cert(tmp_path)
    origin = gw.Origin()
    routes = [{"match": {"path": f"/{i}"},
               "direct_response": {"status": 200, "body": {"inline_string": body(i)}}}
              for i in range(CLIENTS)]
    routes.append({"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "60s"}})
    chain = {"filters": [gw.hcm(routes)]}
    ports = [gw.free_port() for _ in range(3)]
    hasty = {"filters": [gw.hcm(routes, common_http_protocol_options={"idle_timeout": "1s"})]}
    gateway = gw.Gateway(binary, tmp_path, [
        gw.listener("plain", ports[0], [chain]),
        gw.listener("tls", ports[1], [{**chain, "transport_socket": gw.tls_socket(cert, key)}]),
        gw.listener("hasty", ports[2], [hasty]),
        gw.cluster("origin", [origin.port])], workers=1)
    gateway.ring = request.param == "true"
    gateway.ports = dict(zip(("plain", "tls", "hasty"), ports))
    yield gateway
    gateway.stop()
    origin.close()


def test_the_log_and_a_gauge_say_which_calls_are_made(g):
    def scraped(value):
        page = subprocess.run(["curl", "-s", f"http://127.0.0.1:{g.stats_port}/metrics"], capture_output=True, text=True,
                              check=True).stdout
        return f"\nspanwire_gateway_io_uring {value}" in page

    ring = allowed() and g.ring
    until(lambda: ("io_uring batching enabled" if ring else "io_uring batching disabled: ") in g.log())
    until(lambda: scraped(int(ring)))
    if not g.ring:
        assert "--io-uring is false" in g.log()


def connect(g, kind):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # answers have to wait
    s.settimeout(GUARD)
    s.connect(("127.0.0.1", g.ports[kind]))
    if kind == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        s = context.wrap_socket(s)
    return s


def at_once(g, sends):
    """Everything is there when the gateway looks next."""
    os.kill(g.process.pid, signal.SIGSTOP)
    for s, data in sends:
        s.sendall(data)
    time.sleep(0.05)
    os.kill(g.process.pid, signal.SIGCONT)


def read_answer(f):
    assert f.readline().startswith(b"HTTP/1.1 200"), "an answer is out of step"
    length = 0
    while (line := f.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return f.read(length)


def has_ring(g):
    fds = f"/proc/{g.process.pid}/fd"
    return any("io_uring" in os.readlink(f"{fds}/{n}") for n in os.listdir(fds))


def allowed():
    """Does this kernel let us have one? io_uring_setup has one number everywhere."""
    fd = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_everybody_gets_their_own_answers(g, kind):
    clients = [connect(g, kind) for _ in range(CLIENTS)]
    files = [s.makefile("rb") for s in clients]
    for n in PIPELINED:
        at_once(g, [(s, f"GET /{i} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * n)
                    for i, s in enumerate(clients)])
        for i, f in enumerate(files):
            for _ in range(n):
                assert read_answer(f) == body(i).encode()
    if allowed():
        assert has_ring(g) == g.ring
    for s, f in zip(clients, files):
        f.close()
        s.close()


def test_through_an_origin_while_others_vanish(g):
    """Clients that reset between their request and its answer take nobody with them."""
    for round_ in range(ROUNDS):
        clients = [connect(g, "plain") for _ in range(CLIENTS)]
        at_once(g, [(s, f"GET /size/{1000 + i} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    for i, s in enumerate(clients)])
        for s in clients[round_ % 3::3]:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        for i, s in enumerate(clients):
            if s.fileno() < 0:
                continue
            with s, s.makefile("rb") as f:
                assert read_answer(f) == gw.pattern(1000 + i)
    assert g.process.poll() is None


def test_requests_that_came_in_time_are_served(g):
    """The process itself stood still for longer than a connection may idle: that is not its clients' fault."""
    clients = [connect(g, "hasty") for _ in range(MANY)]
    ask = b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n"
    at_once(g, [(s, ask) for s in clients])
    asked = []
    for s in clients:
        with s.makefile("rb") as f:
            assert read_answer(f) == body(0).encode()
    os.kill(g.process.pid, signal.SIGSTOP)
    stat = f"/proc/{g.process.pid}/stat"
    until(lambda: pathlib.Path(stat).read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "T")
    for s in clients:
        if select.select([s], [], [], 0)[0]:  # already closed: we were too slow for that
            s.close()
        else:
            s.sendall(ask)
            asked.append(s)
    time.sleep(1.3)
    os.kill(g.process.pid, signal.SIGCONT)
    for s in asked:
        with s, s.makefile("rb") as f:
            assert read_answer(f) == body(0).encode()
