# SPDX-License-Identifier: Apache-2.0
"""'spanwire sidecar', a device without a control plane (tests/tools/qdevice.c), and the gateway's side of a sidecar."""
import json
import os
import pathlib
import queue
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request

from .control import _Here
from .metrics import Metrics
from .node import _SANITIZER, Process
from .ports import free_port
from .quicpeer import CLIENTS, SECONDS, Peer
from .serve import Each
from .wait import GUARD, SLOW, until


class QDevice:
    """Serves the tunnel protocol; 'lines' holds what it said of each exchange."""

    def __init__(self, binary, key, *flags):
        program = pathlib.Path(binary).parent / "tests/tools/qdevice"
        self.key = key
        self.errors = open(str(key) + ".err", "ab")
        self.proc = subprocess.Popen([str(program), str(key), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=self.errors, text=True)
        first = self.proc.stdout.readline().split()
        assert len(first) == 2, pathlib.Path(str(key) + ".err").read_text(encoding="utf-8")
        self.id, self.addr = first
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.lines.append(line.strip())

    @property
    def peer(self):
        return f"{self.id}={self.addr}"

    def said(self, text, seconds=5):
        return until(lambda: [x for x in self.lines if text in x], seconds, f"'{text}' in {self.lines}")[-1]

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def close(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            assert self.proc.wait(GUARD * SLOW) == 0
        self.errors.close()
        text = pathlib.Path(str(self.key) + ".err").read_text(encoding="utf-8", errors="replace")
        assert not _SANITIZER.search(text), text[-4000:]


class IrohDevice(Peer):
    """A device of another make: the real iroh serving the protocol (clients/tunnel_device.mjs)."""

    def __init__(self, **options):
        super().__init__(["node", str(CLIENTS / "tunnel_device.mjs"), json.dumps(options)])

    @property
    def peer(self):
        return f"{self.id}={','.join(self.addrs)}"


class Sidecar(Process):
    def __init__(self, binary, directory, *flags, listen=None, kubeconfig=None, ns=None, bind="127.0.0.1:0"):
        directory.mkdir(parents=True, exist_ok=True)
        self.path = str(directory / "s.sock")
        self.stats = ("127.0.0.1", free_port())
        self.ready = ("127.0.0.1", free_port())
        argv = [binary, "sidecar", "--listen", listen or self.path, "--key-file", str(directory / "key"),
                "--bind", bind, "--admin-addr", f"127.0.0.1:{free_port()}",
                "--stats-addr", f"127.0.0.1:{self.stats[1]}", "--ready-addr", f"127.0.0.1:{self.ready[1]}",
                "--log-level", "debug", *flags]
        if kubeconfig:
            argv += ["--kubeconfig", str(kubeconfig)]
        log = directory / "log"
        self.mark = log.stat().st_size if log.exists() else 0  # of runs before
        super().__init__(ns or _Here(), argv, log)

    def log(self):
        return super().log()[self.mark:]

    def wait_ready(self):
        def up():
            assert self.alive, self.log()[-3000:]
            return "\tsidecar\tready" in self.log()
        until(up, 10, "the sidecar to be ready")
        return self

    @property
    def id(self):
        return re.search(r"node id ([0-9a-f]{64})", self.log()).group(1)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.stats[1]}/metrics", timeout=GUARD * SLOW) as r:
            return Metrics(r.read().decode())

    def close(self):
        if self.alive:
            self.signal(signal.SIGTERM)
            assert self.wait(20) == 0, self.log()[-3000:]
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]

    # ---- the gateway's side, HTTP/1.1 ----

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(GUARD * SLOW)
        s.connect(self.path)
        return s

    def ask(self, head, body=b""):
        """One request on a connection of its own: an Answer; the connection stays open behind it."""
        s = self.connect()
        s.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        return Answer(s)

    def tunnel(self, node, target, extra=""):
        return self.ask(f"CONNECT {target} HTTP/1.1\nhost: {target}\nx-iroh-endpoint-id: {node}\n{extra}")

    def request(self, node, port, path="/", method="GET", extra="", body=b"", host="127.0.0.1"):
        return self.ask(f"{method} {path} HTTP/1.1\nhost: app.example\nx-iroh-endpoint-id: {node}\n"
                        f"x-datum-target-host: {host}\nx-datum-target-port: {port}\n{extra}", body)


class Answer:
    """Reads a head; the body on demand."""

    def __init__(self, sock):
        self.sock = sock
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            part = sock.recv(65536)
            assert part, f"closed in the head: {self.rest!r}"
            self.rest += part
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode("latin1").split("\r\n")
        self.line = lines[0]
        self.status = int(lines[0].split(" ")[1])
        self.fields = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            self.fields.setdefault(name.lower(), value.strip())

    @property
    def reason(self):
        return self.fields.get("x-spanwire-reason")

    def recv(self, n):
        while len(self.rest) < n:
            part = self.sock.recv(1 << 16)
            if not part:
                break
            self.rest += part
        got, self.rest = self.rest[:n], self.rest[n:]
        return got

    def body(self):
        if "content-length" in self.fields:
            return self.recv(int(self.fields["content-length"]))
        if self.fields.get("transfer-encoding") == "chunked":
            out = b""
            while True:
                line = b""
                while not line.endswith(b"\r\n"):
                    c = self.recv(1)
                    assert c, "cut in a chunk"
                    line += c
                n = int(line, 16)
                out += self.recv(n)
                assert self.recv(2) == b"\r\n"
                if n == 0:
                    return out
        return self.all()

    def all(self):
        """Everything up to the end."""
        out = [self.rest]
        self.rest = b""
        while part := self.sock.recv(1 << 18):
            out.append(part)
        return b"".join(out)

    def close(self):
        self.sock.close()


class H2Gateway(Peer):
    """HTTP/2 with prior knowledge on one connection (clients/sidecar_h2.mjs)."""

    def __init__(self, path):
        self.kept = []
        super().__init__(["node", str(CLIENTS / "sidecar_h2.mjs"), path])
        self.asked = 0

    def event(self, name, seconds=SECONDS, **fields):
        """As Peer's, but streams answer in any order: what is passed over is found later."""
        deadline = time.monotonic() + seconds * SLOW
        while True:
            for e in self.kept:
                if e["event"] == name and all(e.get(k) == v for k, v in fields.items()):
                    self.kept.remove(e)
                    return e
            try:
                e = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no '{name}' {fields}; there is {self.kept[-8:]}") from None
            assert e["event"] != "end", f"ended while '{name}' was awaited; there is {self.kept[-8:]}"
            self.seen.append(e)
            self.kept.append(e)

    def open(self, headers, text=None, end=False, wait=True):
        """Opens a stream; its id. With 'wait' until it is answered: (id, status, fields)."""
        self.asked += 1
        self.tell(json.dumps({"op": "open", "id": self.asked, "headers": headers, "text": text, "end": end}))
        return self.answer(self.asked) if wait else self.asked

    def answer(self, stream, seconds=SECONDS):
        e = self.event("answer", seconds, id=stream)
        return stream, e["headers"][":status"], e["headers"]

    def send(self, stream, text, end=False):
        self.tell(json.dumps({"op": "send", "id": stream, "text": text, "end": end}))

    def recv(self, stream, n=None):
        """n bytes, or all up to the end."""
        self.tell(json.dumps({"op": "recv", "id": stream, "n": n}))
        return self.event("got", id=stream)["text"]

    def tunnel(self, node, target):
        stream, status, _ = self.open({":method": "CONNECT", ":authority": target, "x-iroh-endpoint-id": node})
        assert status == 200
        return stream


class Echo(Each):
    """A TCP server that sends back what it gets, and its end; or does what 'serve' says with a connection."""

    def __init__(self, serve=None, **kw):
        super().__init__(serve or self.echo, **kw)

    @staticmethod
    def echo(s):
        while part := s.recv(1 << 16):
            s.sendall(part)
        s.shutdown(socket.SHUT_WR)


class UdpEcho:
    def __init__(self, answer=lambda data: data, host="127.0.0.1"):
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.sock.bind((host, 0))
        self.port = self.sock.getsockname()[1]
        self.answer = answer
        self.got = []
        self.peers = set()
        self.ends, self.end = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while self.ends not in select.select([self.sock, self.ends], [], [])[0]:
            data, who = self.sock.recvfrom(65535)
            self.got.append(data)
            self.peers.add(who)
            self.sock.sendto(self.answer(data), who)

    def close(self):
        os.write(self.end, b"x")
        self._thread.join(10)
        self.sock.close()
        os.close(self.end)
        os.close(self.ends)


ZBASE = "ybndrfg8ejkmcpqxot1uwisza345h769"


def z32(hexid):
    bits = "".join(f"{b:08b}" for b in bytes.fromhex(hexid)).ljust(260, "0")
    return "".join(ZBASE[int(bits[i:i + 5], 2)] for i in range(0, 260, 5))


class TxtServer(UdpEcho):
    """Answers TXT questions from a dictionary of names; counts them."""

    def __init__(self, records):
        self.records = records
        self.asked = []
        super().__init__(self.reply)

    def all_asked(self):
        """The names of all questions that were sent up to now: they come in their order."""
        with socket.socket(type=socket.SOCK_DGRAM) as c:
            c.sendto(bytes(12) + b"\x04mark\0" + bytes(4), ("127.0.0.1", self.port))
            until(lambda: "mark" in self.asked)
        self.asked.remove("mark")
        return list(self.asked)

    def reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        name = ".".join(labels)
        self.asked.append(name)
        question = query[12:at + 5]
        texts = self.records.get(name, [])
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if texts else 0x8183, 1, len(texts), 0, 0)
        return head + question + b"".join(b"\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x3c" +
                                          struct.pack("!HB", len(t) + 1, len(t)) + t.encode() for t in texts)


def varint(n):
    if n < 64:
        return bytes([n])
    if n < 16384:
        return (n | 0x4000).to_bytes(2, "big")
    return (n | 0x80000000).to_bytes(4, "big")


def capsule(payload, context=0, kind=0):
    value = varint(context) + payload
    return varint(kind) + varint(len(value)) + value
