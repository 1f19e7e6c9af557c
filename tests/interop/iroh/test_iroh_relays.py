# SPDX-License-Identifier: Apache-2.0
"""Relays: our endpoints through the real iroh-relay, native endpoints through ours, and relays that die."""
import contextlib
import socket
import time

import pytest
from harness.device import Device
from harness.ports import free_port
from harness.relay import Relay
from harness.sidecar import Sidecar
from harness.wait import GUARD, SLOW, until
from native import SILENCE, IrohRelay, Native, Store, certificate, digest, download, upload

SIZE = 64  # MiB


class OurRelay(Relay):
    """With the same handles as IrohRelay."""

    def __init__(self, binary, directory, tls=None):
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(binary, str(directory), tls=tls and [str(f) for f in tls])

    @property
    def url(self):
        return f"https://{self.host}:{self.tls_port}/" if self.tls_port else super().url

    def kill(self):
        self.p.kill()
        self.p.wait()

    def close(self):
        self.stop()
        assert "Sanitizer" not in self.said()


def make_relay(whose, binary, interop_dir, where, tls):
    if whose == "iroh-relay":
        return IrohRelay(interop_dir, where, tls=tls)
    return OurRelay(binary, where, tls=tls)


@pytest.fixture
def make(binary, interop_dir, tmp_path):
    """make(whose, https): a relay, and the flag with its certificate for our and for native endpoints."""
    with contextlib.ExitStack() as made:
        def fn(whose, https=False):
            tls = certificate(tmp_path / whose, "127.0.0.1") if https else None
            r = made.enter_context(contextlib.closing(make_relay(whose, binary, interop_dir, tmp_path / whose, tls)))
            return r, ["--relay-ca", str(tls[0])] if tls else [], ["--ca", str(tls[0])] if tls else []
        yield fn


@pytest.fixture
def store():
    with contextlib.closing(Store()) as s:
        yield s


class Pair:
    """A dialler and a device, each ours or native, that know nothing of each other but the relay."""

    def __init__(self, binary, interop_dir, where, relay, kinds, port):
        (r, ours, native), (dialler, device) = relay, kinds
        self.port, self.parts = port, contextlib.ExitStack()
        options = ["--relay", r.url, "--qad-port", 0, "--relay-only", *native]
        if device == "ours":
            d = Device(binary, where / "d", "/does/not/exist", "--standalone", "--open", "--relay", r.url, *ours,
                       "--allow", f"127.0.0.1:{port}")
            self.parts.callback(d.stop)
            until(lambda: d.status()["relay"]["up"], what="the device's relay")
        else:
            d = self.parts.enter_context(Native(interop_dir, "device", bind=None, options=options))
            while not d.event("addrs")["addrs"]:  # has no home relay yet
                pass
        self.id, place = d.id, f"{d.id}=relay={r.url}"
        if dialler == "ours":
            self.sidecar = Sidecar(binary, where / "s", "--relay", r.url, *ours, "--peer", place).wait_ready()
            self.parts.callback(self.sidecar.close)
        else:
            self.sidecar, self.at = None, free_port()
            edge = self.parts.enter_context(Native(interop_dir, "edge", place, "--tcp",
                                                   f"127.0.0.1:{self.at}=127.0.0.1:{port}", bind=None, options=options))
            edge.event("ready")

    def tunnel(self):
        if self.sidecar:
            t = self.sidecar.tunnel(self.id, f"127.0.0.1:{self.port}")
            assert t.status == 200, (t.status, t.reason)
            return t.sock
        s = socket.create_connection(("127.0.0.1", self.at), timeout=GUARD * SLOW)
        s.settimeout(GUARD * SLOW)
        return s

    def close(self):
        self.parts.close()


KINDS = [("ours", "ours"), ("ours", "native"), ("native", "ours"), ("native", "native")]


@pytest.mark.parametrize("kinds", KINDS, ids="-to-".join)
@pytest.mark.parametrize("https", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("whose", ["iroh-relay", "our relay"])
def test_bytes_through_a_relay(binary, interop_dir, tmp_path, make, store, whose, https, kinds):
    with contextlib.closing(Pair(binary, interop_dir, tmp_path, make(whose, https), kinds, store.port)) as pair:
        with pair.tunnel() as s:
            assert download(s, SIZE) == digest(SIZE)
        with pair.tunnel() as s:
            assert upload(s, SIZE) == digest(SIZE)


@pytest.mark.parametrize("kinds", KINDS, ids="-to-".join)
@pytest.mark.parametrize("whose", ["iroh-relay", "our relay"])
def test_a_relay_is_killed_and_comes_back(binary, interop_dir, tmp_path, make, echo, whose, kinds):
    """An open tunnel lives through it: what was sent while there was no relay arrives afterwards."""
    relay = make(whose)
    with contextlib.closing(Pair(binary, interop_dir, tmp_path, relay, kinds, echo.port)) as pair:
        with pair.tunnel() as s:
            s.sendall(b"before")
            assert s.recv(6) == b"before"
            relay[0].kill()
            s.sendall(b"meanwhile")
            relay[0].start()
            assert s.recv(9) == b"meanwhile"
        with pair.tunnel() as s:
            s.sendall(b"after")
            assert s.recv(5) == b"after"


@pytest.mark.parametrize("whose", ["iroh-relay", "our relay"])
def test_a_direct_path_needs_no_relay(binary, interop_dir, tmp_path, make, echo, whose):
    """A native device that is reached directly and by a relay: the relay dies, and nothing happens."""
    relay, _, _ = make(whose)
    with Native(interop_dir, "device", options=["--relay", relay.url, "--qad-port", 0]) as d:
        while not any(a.startswith("relay=") for a in d.event("addrs")["addrs"]):
            pass
        s = Sidecar(binary, tmp_path / "s", "--relay", relay.url, "--peer",
                    f"{d.id}={d.addrs[0]},relay={relay.url}").wait_ready()
        t = s.tunnel(d.id, f"127.0.0.1:{echo.port}")
        assert t.status == 200 and not d.event("accepted")["paths"][0]["relay"]
        relay.kill()
        t.sock.sendall(b"direct")
        assert t.recv(6) == b"direct"
        t.close()
        s.close()


def test_silence_at_relays(binary, interop_dir, tmp_path, make, echo):
    """Tunnels without a byte for 65 s through either relay, all pairings at once."""
    relays = [make("iroh-relay", https=True), make("our relay", https=True)]
    with contextlib.ExitStack() as open_:
        tunnels = []
        for i, relay in enumerate(relays):
            for kinds in KINDS:
                where = tmp_path / f"{i}-{'-'.join(kinds)}"
                pair = open_.enter_context(contextlib.closing(Pair(binary, interop_dir, where, relay, kinds, echo.port)))
                tunnels.append(open_.enter_context(pair.tunnel()))
        for s in tunnels:
            s.sendall(b"before")
            assert s.recv(6) == b"before"
        time.sleep(SILENCE)
        for s in tunnels:
            s.sendall(b"after")
            assert s.recv(5) == b"after"
