# SPDX-License-Identifier: Apache-2.0
"""Direct paths through NATs: who gets one, how fast, and what becomes of a transfer while the path changes."""
import contextlib
import itertools
import subprocess
import time

import pytest

from harness.nat import KINDS, MIRROR, RELAY, World
from harness.node import Process
from harness.quicpeer import Ours
from harness.wait import SANITIZED, until

PORT = 3340
URL = f"http://{RELAY}:{PORT}/"
BULK = 4_000_000 if SANITIZED else 40_000_000


@pytest.fixture(scope="module")
def world(topology):
    del topology  # the namespaces are made below its private /run
    w = World()
    yield w
    w.delete()


@pytest.fixture(scope="module")
def relay(world, binary, tmp_path_factory):
    """A relay, and a node beside it that tells others which address they come from."""
    p = Process(world["relay"], [binary, "relay", "--open", "--listen", f"{RELAY}:{PORT}", "--admin-addr", "127.0.0.1:0",
                                 "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"],
                tmp_path_factory.mktemp("relay") / "relay.log")
    with peer(world["relay"], binary) as mirror:
        yield mirror
    p.proc.kill()
    p.wait()


@contextlib.contextmanager
def peer(ns, binary, relay=None, port=4433):
    with contextlib.ExitStack() as stack:
        with ns.entered():
            p = stack.enter_context(Ours(binary, bind=f"0.0.0.0:{port}", probes=1, **({"relay": relay} if relay else {})))
        yield p


def learn(p, mirror):
    """What a relay's address discovery does: the node knows what its NAT makes of its address."""
    p.tell(f"open {mirror.id} {RELAY}:4433,{MIRROR}:4433")
    return p.event("mapped")["addrs"]


def outcome(kind_a, kind_b):
    """Whether a direct path can exist."""
    hard = {"restricted": 1, "symmetric": 2}
    return "direct" if hard.get(kind_a, 0) + hard.get(kind_b, 0) < 3 else "relay"


def test_who_reaches_whom(world, relay, binary):
    """Every kind of router before the dialler and before the device, all at once."""
    table = {}
    with contextlib.ExitStack() as stack:
        devices = {k: stack.enter_context(peer(world[f"in-{k}-b"], binary, URL)) for k in KINDS}
        for d in devices.values():
            d.event("relay", up=True)
            learn(d, relay)
        diallers = {}
        for i, (a, b) in enumerate(itertools.product(KINDS, KINDS)):
            p = diallers[a, b] = stack.enter_context(peer(world[f"in-{a}-a"], binary, port=5000 + i))
            learn(p, relay)
            p.began = time.monotonic()
            p.dial(devices[b], [], URL)
        for (a, b), p in diallers.items():
            assert p.event("ready")["path"] == "relay"
            if outcome(a, b) == "direct":
                p.event("path", path="direct")
            else:
                until(lambda p=p: noted(p), what=f"{a} x {b} says that it stays on the relay")
            table[a, b] = time.monotonic() - p.began
        for (a, b), p in diallers.items():
            assert p.echo(100_000)["path"] == outcome(a, b), (a, b, p.seen[-4:])
            print(f"dialler {a:10} device {b:10} {outcome(a, b):6} after {table[a, b] * 1000:6.0f} ms")


def noted(p):
    p.tell("path")
    e = p.event("path")
    assert e["path"] == "relay", e
    return e["note"]
