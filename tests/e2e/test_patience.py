# SPDX-License-Identifier: Apache-2.0
"""Tunnels to devices through times without a packet, without a stream, and with another public address."""
import concurrent.futures
import hashlib
import re
import signal
import subprocess
import threading
import time

import pytest
from harness.nat import forget_flows, renumber
from harness.ports import free_port
from harness.sidecar import IrohDevice, QDevice, Sidecar
from harness.town import EDGE, HTTP, ROUTER, Device, Site, digest
from harness.wait import GUARD, guard, until

SILENCES = (5, 10, 20)
BLOCK = 16384


class Silence:
    """Drops every packet from and to UDP ports of this namespace, while asked to."""

    def __init__(self):
        self._nft("add table inet silence", "add chain inet silence out { type filter hook output priority 0; }",
                  "add set inet silence ports { type inet_service; }",
                  "add rule inet silence out udp dport @ports drop", "add rule inet silence out udp sport @ports drop")

    @staticmethod
    def _nft(*lines):
        subprocess.run(["nft", "-f", "-"], input="\n".join(lines) + "\n", text=True, check=True)

    def begin(self, port):
        self._nft(f"add element inet silence ports {{ {port} }}")

    def end(self, port):
        self._nft(f"delete element inet silence ports {{ {port} }}")

    def close(self):
        self._nft("delete table inet silence")


@pytest.fixture
def silence(topology):
    del topology  # the namespace is ours
    s = Silence()
    yield s
    s.close()


class Flow:
    """Bytes through an echo, all the time; what comes back is what was sent."""

    def __init__(self, tunnel):
        self.tunnel, self.sent, self.got = tunnel, hashlib.sha256(), hashlib.sha256()
        self.n_sent = self.n_got = 0
        self.over = threading.Event()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self._send, self._recv)]
        for t in self.threads:
            t.start()

    def _send(self):
        block = hashlib.shake_256(str(id(self)).encode()).digest(BLOCK)
        while not self.over.is_set():
            self.tunnel.sock.sendall(block)
            self.sent.update(block)
            self.n_sent += BLOCK
            time.sleep(0.01)
        self.tunnel.sock.shutdown(1)

    def _recv(self):
        while part := self.tunnel.recv(BLOCK):
            self.got.update(part)
            self.n_got += len(part)

    def more(self):
        """Waits until bytes that are sent from now on come back."""
        n = self.n_sent + BLOCK
        until(lambda: self.n_got > n, what=f"{n} bytes, of which came {self.n_got}")

    def end(self):
        self.over.set()
        for t in self.threads:
            t.join(60)
        assert self.n_got == self.n_sent and self.got.digest() == self.sent.digest()


def test_tunnels_outlive_silence(binary, tmp_path, silence, echo):
    """As long as with the iroh of others: twenty seconds without a packet, idle, while bytes flow, and for new calls."""
    ports = {n: free_port() for n in SILENCES}
    devices = {n: QDevice(binary, tmp_path / f"key{n}", "--bind", f"127.0.0.1:{ports[n]}") for n in SILENCES}
    flags = [x for d in devices.values() for x in ("--peer", d.peer)]
    s = Sidecar(binary, tmp_path / "s", *flags).wait_ready()
    target = f"127.0.0.1:{echo.port}"
    failed = []

    def one(n):
        try:
            idle, busy = s.tunnel(devices[n].id, target), s.tunnel(devices[n].id, target)
            assert idle.status == busy.status == 200
            flow = Flow(busy)
            flow.more()
            silence.begin(ports[n])
            time.sleep(n)
            silence.end(ports[n])
            flow.more()
            idle.sock.sendall(b"still there")
            assert idle.recv(11) == b"still there"
            until(lambda: s.tunnel(devices[n].id, target).status == 200, what=f"a new tunnel after {n} s")
            flow.end()
            idle.close()
        except BaseException as e:  # pylint: disable=broad-except
            failed.append(f"{n} s: {e!r}")
    threads = [threading.Thread(target=one, args=(n,)) for n in SILENCES]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, f"{failed}\n{s.log()[-4000:]}"
    assert s.metrics().sum("iroh_gateway_iroh_connections_closed_error_total") == 0, s.log()[-4000:]
    s.close()
    for d in devices.values():
        d.close()


# ---- another public address ----

FORWARD = """
insert rule ip town in ct status dnat accept
table ip forwarded {
    chain pre { type nat hook prerouting priority -100; iifname "eth0" fib daddr type local meta l4proto udp dnat to 192.168.7.2; }
}
"""
MIB = 48
MOVED = "203.0.113.31"


@pytest.fixture(scope="module")
def home(town, edge, binary, tmp_path_factory):
    """A device behind the router that lets gateways in, and its web server."""
    town["router"].run("nft", "-f", "-", stdin=FORWARD)
    site = Site(town["home1"], "inside")
    d = Device(binary, town["home1"], tmp_path_factory.mktemp("home"), edge, "inside", site.port, "inside.town.example",
               "--no-verify", "--log-level", "debug")
    until(lambda: "http://inside.town.example" in d.log(), 15, f"the URL; log: {d.log()}")
    yield d
    d.stop()
    site.close()
    town["router"].run("nft", "delete table ip forwarded")


def curl(town, path, *flags):
    with town["visitor"].entered():
        return subprocess.Popen(["curl", "-fsS", "-m", str(guard(60)), *flags, "--resolve",
                                 f"inside.town.example:{HTTP}:{EDGE}", f"http://inside.town.example:{HTTP}{path}"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("relayed", [False, True], ids=["direct", "relay"])
def test_a_transfer_goes_on_from_another_public_address(town, edge, home, relayed):
    """The router gets another address, and knows nothing of what came in before; nobody's own address changed."""
    router = town["router"]
    if relayed:
        router.run("nft", "flush table ip forwarded")
        forget_flows(router)

    def logs():
        return f"{edge.role_log('sidecar')[-4000:]}\n{home.log()[-4000:]}"
    until(lambda: curl(town, "/first").wait() == 0, what=logs)
    if not relayed:
        until(lambda: re.search("gateway .* (connected, directly|changed to direct)", home.log()), what=logs)
    c = curl(town, f"/big/{MIB}", "--limit-rate", "12M")
    got, n, moved = hashlib.sha256(), 0, False
    try:
        while part := c.stdout.read(1 << 16):
            got.update(part)
            before, n = n, n + len(part)
            if before < 12 << 20 <= n:
                renumber(router, ROUTER, MOVED)
                moved = True
    finally:
        error = c.stderr.read().decode()
        status = c.wait()
        if moved:
            renumber(router, MOVED, ROUTER)
    assert status == 0, f"{error} after {n} bytes\n{logs()}"
    assert n == MIB << 20 and got.hexdigest() == digest(MIB), logs()


# ---- no more streams ----

def test_a_device_without_free_streams(binary, tmp_path, echo):
    """The iroh of others allows a hundred: further tunnels get another connection."""
    with IrohDevice() as d:
        s = Sidecar(binary, tmp_path / "s", "--peer", d.peer).wait_ready()
        target = f"127.0.0.1:{echo.port}"
        first = [s.tunnel(d.id, target) for _ in range(100)]
        more = [s.tunnel(d.id, target) for _ in range(8)]
        assert {t.status for t in (*first, *more)} == {200}
        assert s.metrics().sum("iroh_gateway_tunnel_connectivity_events_total", event="full") == 1
        for t in (first[0], first[-1], more[-1]):
            t.sock.sendall(b"here")
            assert t.recv(4) == b"here"
        for t in (*first, *more):
            t.close()
        s.close()


def test_a_wait_for_a_stream_ends_with_the_answer_timeout(binary, tmp_path, echo):
    """Also of requests that came while the device was dialled: a dial may take ten minutes here."""
    streams, conns = 2, 4
    full = streams * conns
    d = QDevice(binary, tmp_path / "key", "--streams", str(streams))
    s = Sidecar(binary, tmp_path / "s", "--peer", d.peer, "--dial-timeout", "600s", "--answer-timeout", "6s").wait_ready()
    target = f"127.0.0.1:{echo.port}"
    asked = []

    def ask(what, *args):
        asked.append(pool.submit(what, d.id, *args))
        until(lambda: s.metrics().sum("iroh_gateway_requests_accepted_total") == len(asked))
    with concurrent.futures.ThreadPoolExecutor(full + 2) as pool:
        d.proc.send_signal(signal.SIGSTOP)
        try:
            for _ in range(full):
                ask(s.tunnel, target)
            ask(s.tunnel, target)
            ask(s.request, echo.port)
        finally:
            d.proc.send_signal(signal.SIGCONT)
        try:
            answers = [f.result(guard(GUARD)) for f in asked]
            for a in answers:
                a.close()
        finally:
            s.close()  # what still waits ends
    assert [(a.status, a.reason) for a in answers[:full]] == [(200, None)] * full, s.log()[-4000:]
    assert [(a.status, a.reason) for a in answers[full:]] == [(503, "no_stream")] * 2, s.log()[-4000:]
    d.close()
