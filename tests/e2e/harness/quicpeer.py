# SPDX-License-Identifier: Apache-2.0
"""QUIC endpoints as programs: ours (tests/e2e/drivers/quic_peer.c) and a real iroh (clients/iroh_peer.mjs)."""
import json
import pathlib
import queue
import subprocess
import threading
import time

from .wait import SLOW

CLIENTS = pathlib.Path(__file__).resolve().parent.parent / "clients"
ALPN = "spanwire-test/1"
SECONDS = 60  # between two events, of a program that hangs


class Peer:
    """A program that says one JSON object per line and takes commands on its standard input."""

    def __init__(self, args):
        self.proc = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seen = []
        self.events = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        start = self.event("start")
        self.id = start["id"]
        self.addrs = [a for a in start["addrs"] if a.startswith(("127.", "10."))]

    def _read(self):
        for line in self.proc.stdout:
            self.events.put({**json.loads(line), "at": time.monotonic()})
        self.events.put({"event": "end"})

    def event(self, name, seconds=SECONDS, **fields):
        """The next event of this name, None for any (and with these fields); others before it are kept in 'seen'."""
        while True:
            try:
                e = self.events.get(timeout=seconds * SLOW)
            except queue.Empty:
                raise AssertionError(f"no '{name}' within {seconds * SLOW:g} s; seen {self.seen[-8:]}") from None
            self.seen.append(e)
            if name in (None, e["event"]) and e["event"] != "end" and all(e.get(k) == v for k, v in fields.items()):
                return e
            assert e["event"] != "end", f"ended while '{name}' was awaited; seen {self.seen[-8:]}"

    def events_of(self, *wanted, seconds=SECONDS):
        """The next event of each kind, given as a name or as fields, in whatever order they come."""
        left = [{"event": w} if isinstance(w, str) else w for w in wanted]
        while left:
            e = self.event(None, seconds)
            left = [w for w in left if any(e.get(k) != v for k, v in w.items())]

    def _echoed(self, n, seconds):
        e = self.event("echo", seconds)
        if not e["ok"]:  # the connection says why after its streams
            self.event("closed")
        assert e["ok"] and e["bytes"] == n, self.seen[-4:]
        return e

    def tell(self, line):
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()

    def close(self):
        self.proc.stdin.close()
        try:
            code = self.proc.wait(SECONDS * SLOW)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise
        assert code == 0, f"ended with {code}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.proc.kill()
            self.proc.wait()
        else:
            self.close()


class Ours(Peer):
    """quic_peer of the build under test."""

    def __init__(self, binary, **options):
        program = pathlib.Path(binary).parent / "tests/unit/quic/quic_peer"
        super().__init__([str(program)] + [f"{k.replace('_', '-')}={v}" for k, v in options.items()])

    def dial(self, peer, addrs, relay="", alpn=ALPN, node=None):
        self.tell(f"dial {node or peer.id} {alpn} {','.join(addrs) or '-'}{' ' + relay if relay else ''}")

    def echo(self, n, seconds=SECONDS):
        self.tell(f"echo {n}")
        return self._echoed(n, seconds)


class Iroh(Peer):
    """The npm package."""

    def __init__(self, **options):
        super().__init__(["node", str(CLIENTS / "iroh_peer.mjs"), json.dumps(options)])

    def dial(self, peer, addrs, relay=None, alpn=ALPN, node=None):
        self.tell(json.dumps({"op": "connect", "peer": node or peer.id, "addrs": addrs, "relay": relay,
                              "alpn": alpn}))

    def op(self, op, **fields):
        self.tell(json.dumps({"op": op, **fields}))

    def echo(self, n, seconds=SECONDS):
        self.op("echo", bytes=n)
        return self._echoed(n, seconds)
