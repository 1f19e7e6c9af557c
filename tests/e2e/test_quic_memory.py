# SPDX-License-Identifier: Apache-2.0
"""Hundreds of streams whose reader does not read: bounded memory on both sides, and nobody else notices."""
import contextlib
import hashlib
import os
import re
import socket
import threading

import pytest

from harness.device import Device
from harness.sidecar import Echo, Sidecar
from harness.wait import SANITIZED, SLOW, until

STREAMS = 60 if SANITIZED else 500
BULK = 4 << 20 if SANITIZED else 64 << 20
LIMIT = 16  # MiB, --max-buffered


def flood(s):
    """Sends for as long as somebody takes it, with little of its own in the kernel."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    data = bytes(1 << 16)
    while True:
        s.sendall(data)


def download(s):
    part = bytes(1 << 18)
    for _ in range(BULK // len(part)):
        s.sendall(part)


def upload(s):
    left = BULK
    while left and (part := s.recv(1 << 18)):
        left -= len(part)
    s.sendall(b"all" if left == 0 else b"cut")


def digest(s):
    seen = hashlib.sha256()
    while part := s.recv(1 << 18):
        seen.update(part)
    s.sendall(seen.digest())


class Town:
    def __init__(self, binary, directory):
        self.gone = threading.Event()
        self.tunnels = []
        self.origins = {"flood": Echo(flood), "deaf": Echo(lambda s: self.gone.wait(600 * SLOW)),
                        "download": Echo(download), "upload": Echo(upload), "digest": Echo(digest)}
        self.origins["deaf"].sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)  # of those it accepts
        allow = [x for o in self.origins.values() for x in ("--allow", f"127.0.0.1:{o.port}")]
        self.device = Device(binary, directory / "device", "/does/not/exist", "--standalone", "--open", *allow,
                             "--max-buffered", str(LIMIT))
        self.sidecar = Sidecar(binary, directory / "side", "--peer", f"{self.device.id}={self.device.addrs()[0]}",
                               "--max-buffered", str(LIMIT)).wait_ready()

    def tunnel(self, kind):
        t = self.sidecar.tunnel(self.device.id, f"127.0.0.1:{self.origins[kind].port}")
        assert t.status == 200
        self.tunnels.append(t)
        return t

    def bulk(self, kind):
        """BULK bytes by a stream of the same connection; it would wait for ever if the others had its credit."""
        t = self.tunnel(kind)
        if kind == "upload":
            part = bytes(1 << 18)
            for _ in range(BULK // len(part)):
                t.sock.sendall(part)
            assert t.recv(3) == b"all"
        else:
            got = len(t.rest)
            while part := t.sock.recv(1 << 18):
                got += len(part)
            assert got == BULK
        t.close()

    def rss_mb(self):
        return self.device.rss_kb() / 1024, self.sidecar.rss_kb() / 1024

    def buffered(self):
        """Bytes, of the device and of the sidecar."""
        return (self.device.metric("spanwire_quic_buffered_bytes"),
                self.sidecar.metrics().sum("spanwire_quic_buffered_bytes"))

    def hang_up(self):
        self.gone.set()
        for t in self.tunnels:
            t.close()

    def close(self):
        self.hang_up()
        self.sidecar.close()
        self.device.stop()
        self.device.check()
        for o in self.origins.values():
            o.close()


@pytest.fixture
def town(topology, binary, tmp_path):
    del topology
    t = Town(binary, tmp_path)
    yield t
    t.close()


def steady(town, pour=lambda: False):
    """What is held, once it does not change any more and pour() finds no room for more."""
    seen = [None]

    def same():
        took = pour()
        before, seen[0] = seen[0], town.buffered()
        return seen[0] if not took and seen[0] == before and sum(before) > 0 else None
    return until(same, 20, "streams to fill up", 0.15)


def within_bounds(town, before, held):
    grown = [now - then for now, then in zip(town.rss_mb(), before)]
    for side, bytes_held in zip(("device", "sidecar"), held):
        assert bytes_held <= (LIMIT << 20) + STREAMS * (96 << 10), f"{side}: {held}"
    assert SANITIZED or all(g < LIMIT + STREAMS * 96 / 1024 for g in grown), f"{grown} MB more, {held} bytes"


def fill(town, tunnels):
    """Writes until none takes more."""
    part = bytes(1 << 18)

    def pour():
        took = False
        for t in tunnels:
            with contextlib.suppress(BlockingIOError):
                while t.sock.send(part):
                    took = True
        return took
    return steady(town, pour)


def test_clients_that_do_not_read(town):
    town.bulk("download")
    before = town.rss_mb()
    for _ in range(STREAMS):
        town.tunnel("flood")
    # The device comes to the mark where it begins to look at who reads.
    until(lambda: town.buffered()[0] > LIMIT << 17)
    within_bounds(town, before, steady(town))
    until(lambda: re.search(r'spanwire_connector_quic_events_total{event="held_back"} [1-9]', town.device.get("metrics")))
    until(lambda: SANITIZED or town.sidecar.metrics().sum("iroh_gateway_streams_held_back_total") > 0)
    town.bulk("download")
    town.hang_up()
    until(lambda: town.device.status()["exchanges"]["active"] == 0, 20, "them to go")
    until(lambda: sum(town.buffered()) == 0, 10, "nothing to be held")


def test_origins_that_do_not_read(town):
    town.bulk("upload")
    before = town.rss_mb()
    slow = [town.tunnel("deaf") for _ in range(STREAMS // 5)]  # the kernel takes megabytes of each
    for t in slow:
        t.sock.setblocking(False)
    within_bounds(town, before, fill(town, slow))
    town.bulk("upload")
    town.hang_up()
    until(lambda: sum(town.buffered()) == 0, 20, "nothing to be held")


def test_what_comes_with_a_connect_waits_for_room(town):
    slow = [town.tunnel("deaf") for _ in range(STREAMS // 5)]
    for t in slow:
        t.sock.setblocking(False)
    fill(town, slow)
    target = f"127.0.0.1:{town.origins['digest'].port}"
    for _ in range(5):
        early = os.urandom(60000)  # more than a stream may hold when all of them together hold too much
        t = town.sidecar.ask(f"CONNECT {target} HTTP/1.1\nhost: {target}\nx-iroh-endpoint-id: {town.device.id}\n", early)
        assert t.status == 200
        late = os.urandom(200000)
        t.sock.sendall(late)
        t.sock.shutdown(socket.SHUT_WR)
        assert t.all() == hashlib.sha256(early + late).digest()
        t.close()
