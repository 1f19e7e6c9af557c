# SPDX-License-Identifier: Apache-2.0
"""Tunnels to devices through times without a packet, without a stream, and with another public address."""
import hashlib
import subprocess
import threading
import time

import pytest
from harness.ports import free_port
from harness.sidecar import Echo, QDevice, Sidecar
from harness.wait import until

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
