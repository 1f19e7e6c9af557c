# SPDX-License-Identifier: Apache-2.0
"""
Tunnels over a long way: how much is under way at once, which is speed without a clock. The line counts the bytes it
holds; a sender that is held up by a window of its own never fills it.
"""
import hashlib
import os
import re
import threading

import pytest
from harness.line import FAR, NEAR, Line
from harness.node import Process
from harness.serve import Each
from harness.wait import guard, until

KB, MB = 1000, 1000 * 1000
BLOCK = bytes(range(256)) * 1024  # of 256 KiB

pytestmark = pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="no /dev/net/tun")


class Pair:
    """A sidecar at the near end, a device at the far end with a service that takes or gives bytes without an end."""

    def __init__(self, binary, where, line, congestion, relayed):
        self.line = line
        place, flags, self.relay = f"{FAR}:4000", [], None
        if relayed:
            place, flags = f"relay=http://{FAR}:4002/", ["--relay", f"http://{FAR}:4002/"]
            self.relay = Process(line.far, [
                binary, "relay", "--open", "--listen", f"{FAR}:4002", "--admin-addr", "127.0.0.1:0", "--stats-addr",
                "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], where / "relay.log")
            until(lambda: "listening" in self.relay.log(), what="the relay")
        self.sums = {"up": hashlib.sha256(), "down": hashlib.sha256()}
        self.moved = {"up": 0, "down": 0}
        self.over = threading.Event()
        self.taken = threading.Event()
        with line.far.entered():
            self.service = Each(self._serve, host="127.0.0.1")
        self.device = Process(line.far, [
            binary, "connector", "run", "--standalone", "--data", str(where / "device"), "--bind", f"{FAR}:4000",
            "--allow", f"127.0.0.1:{self.service.port}", "--open", "--admin-addr", "127.0.0.1:15060",
            "--congestion", congestion, "--log-level", "debug", *flags], where / "device.log")
        self.id = until(lambda: re.search(r"\b([0-9a-f]{64})\b", self.device.log()), what="the device's key").group(1)
        self.sidecar = Process(line.near, [
            binary, "sidecar", "--listen", "127.0.0.1:4001", "--key-file", str(where / "key"), "--bind", "0.0.0.0:0",
            "--peer", f"{self.id}={place}", "--admin-addr", "127.0.0.1:0", "--stats-addr", "127.0.0.1:0",
            "--ready-addr", "127.0.0.1:0", "--congestion", congestion, "--log-level", "debug"], where / "sidecar.log")
        until(lambda: "\tsidecar\tready" in self.sidecar.log(), what="the sidecar")

    def _give(self, s, name):
        while not self.over.is_set():
            s.sendall(BLOCK)
            self.sums[name].update(BLOCK)

    def _take(self, s, name):
        """What came is what was sent, as far as it goes."""
        expected = hashlib.sha256()
        got = s.recv(1 << 18)
        while got:
            expected.update(got)
            self.moved[name] += len(got)
            got = s.recv(1 << 18)
        self.sums[name] = (self.sums[name], expected)
        self.taken.set()

    def _serve(self, s):
        if s.recv(1) == b"u":
            self._take(s, "up")
        else:
            self._give(s, "down")

    def open(self, first):
        s = self.line.near.socket()
        s.settimeout(guard(60))
        s.connect(("127.0.0.1", 4001))
        to = f"127.0.0.1:{self.service.port}"
        s.sendall(f"CONNECT {to} HTTP/1.1\r\nhost: {to}\r\nx-iroh-endpoint-id: {self.id}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        assert head.startswith(b"HTTP/1.1 200"), head
        s.sendall(first)
        return s

    def run(self, way, check):
        """Moves bytes one way until check() returns, then to the end, and compares what came."""
        s = self.open(b"u" if way == "up" else b"d")
        work = threading.Thread(target=self._give if way == "up" else self._take, args=(s, way), daemon=True)
        work.start()
        try:
            check(way)
        finally:
            self.over.set()
        if way == "up":
            work.join(guard(60))
            s.shutdown(1)
        assert self.taken.wait(guard(60)), "the end did not come"
        s.close()
        sent, came = self.sums[way]
        assert sent.hexdigest() == came.hexdigest()

    def close(self):
        for p in (self.sidecar, self.device, self.relay):
            if p is None:
                continue
            p.signal(15)
            assert p.wait(20) == 0, p.log()[-3000:]
            assert "runtime error" not in p.log() and "AddressSanitizer" not in p.log(), p.log()[-4000:]
        self.service.close()


@pytest.fixture
def pair(binary, tmp_path):
    made = []

    def make(congestion="bbr", relayed=False, **settings):
        line = Line(binary, **settings)
        made.append(line)
        made.append(Pair(binary, tmp_path, line, congestion, relayed))
        return made[1]
    yield make
    for x in reversed(made):
        x.close()


def fills(pair, way, n, what):
    """At some time from now on at least n bytes are under way."""
    direction = {"up": "forth", "down": "back"}[way]
    pair.line.stats()
    seen = []

    def enough():
        seen.append(pair.line.stats()[direction]["peak"])
        return max(seen) >= n
    until(enough, 60, f"{n} bytes under way {what}; most of late: {seen[-20:]}", interval=0.1)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_long_way_is_filled(pair, way):
    """200 ms there and back: a window of 1 MiB would be 42 Mb/s."""
    p = pair(delay=100, rate=200, queue=4000)
    p.run(way, lambda w: fills(p, w, 1800 * KB, "at 200 ms"))


@pytest.mark.parametrize("way", ["up", "down"])
def test_loss_alone_does_not_slow_down(pair, way):
    """1 of 100 packets is lost: cubic is down to 20 KB soon."""
    p = pair(delay=20, rate=100, queue=500, loss=1)

    def check(w):
        until(lambda: p.moved[w] > 4 * MB, what="the first bytes")
        fills(p, w, 200 * KB, "with losses")
    p.run(way, check)


@pytest.mark.parametrize("congestion", ["bbr", "cubic"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_delay_that_rises_under_an_open_tunnel(pair, way, congestion):
    """What was enough at no distance is a trickle at 80 ms: the window must grow with the delay."""
    p = pair(congestion, delay=0, rate=100, queue=1000)

    def check(w):
        for delay, n in ((0, 0), (10, 150 * KB), (40, 500 * KB)):
            p.line.set(delay=delay)
            before = p.moved[w]
            until(lambda: p.moved[w] > before + 2 * MB, what=f"bytes at {2 * delay} ms")
            fills(p, w, n, f"at {2 * delay} ms")
    p.run(way, check)
    sender = p.sidecar if way == "up" else p.device
    until(lambda: "congestion control restarted" in sender.log(), what=sender.log()[-2000:])


def test_a_move_with_packets_under_way(pair):
    """ngtcp2's BBR takes the bandwidth for terabits then, and floods the line: a second move with none heals that."""
    p = pair(delay=20, rate=100, queue=500)

    def check(w):
        until(lambda: p.moved[w] > 4 * MB, what="the first bytes")
        p.line.far.ip("route add 10.99.0.3 dev line")
        p.line.near.ip("addr add 10.99.0.3 dev line", f"route change {FAR} dev line src 10.99.0.3",
                       f"addr del {NEAR} peer {FAR} dev line", f"route replace {FAR} dev line src 10.99.0.3")
        until(lambda: "congestion control restarted" in p.device.log(), what=p.device.log()[-2000:])
        before = p.moved[w]
        until(lambda: p.moved[w] > before + 4 * MB, what="bytes after the move")
    p.run("down", check)


def test_a_window_that_comes_as_one_burst_grows(pair):
    """Through a relay the whole first window comes at once, and the next one a round trip later."""
    p = pair(relayed=True, delay=10, rate=100, queue=500)
    p.run("up", lambda w: fills(p, w, 200 * KB, "through the relay"))
