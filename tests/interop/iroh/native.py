# SPDX-License-Identifier: Apache-2.0
"""The real iroh as programs: endpoints (src/main.rs), and the relay of the crate iroh-relay."""
import base64
import contextlib
import hashlib
import random
import signal
import socket
import struct
import subprocess
import threading

from harness.control import _Here
from harness.node import Process
from harness.ports import free_port
from harness.quicpeer import Peer
from harness.serve import Each
from harness.wait import GUARD, SLOW, guard, until

MIB = 1 << 20
SILENCE = 65  # seconds: longer than any idle timeout of either side (30 s)


class Native(Peer):
    """A role of the program 'native'; 'options' are the endpoint's."""

    def __init__(self, interop_dir, role, *args, ns=None, bind="127.0.0.1:0", options=()):
        where = ["--bind", bind] if bind else []
        with ns.entered() if ns else contextlib.nullcontext():
            super().__init__(["setpriv", "--pdeathsig", "KILL", str(interop_dir / "native"), *where,
                              *map(str, options), role, *map(str, args)])
        self.role = role

    @property
    def peer(self):
        return f"{self.id}={','.join(self.addrs)}"

    def path(self, want, seconds=60):
        """The next path that is selected and fits."""
        while True:
            e = self.event("path", seconds, kind="selected")
            if want(e["addr"]):
                return e["addr"]

    def dial(self, places, *alpn):
        """'ready', or 'error' with the reason."""
        self.tell(" ".join(["dial", places, *alpn]))
        while True:
            e = self.event(None, 60)
            if e["event"] in ("ready", "error"):
                return e

    def echo(self, n, seconds=120):
        self.tell(f"echo {n}")
        return self._echoed(n, seconds)

    def close(self):
        if self.role == "peer":
            return super().close()
        self.proc.terminate()
        assert self.proc.wait(GUARD * SLOW) == 0
        return None

    def kill(self):
        self.proc.kill()
        self.proc.wait()


class IrohRelay(Process):
    """The real relay: plain HTTP, or with a certificate HTTPS and address discovery."""

    def __init__(self, interop_dir, directory, host="127.0.0.1", tls=None, ns=None, port=None):
        directory.mkdir(parents=True, exist_ok=True)
        self.host, self.port, self.qad_port = host, port or free_port(), free_port()
        self.tls_port = free_port()
        self.argv = [str(interop_dir / "bin/iroh-relay")]
        config = f'enable_metrics = false\nhttp_bind_addr = "{host}:{self.port}"\n'
        if tls:
            config += ("enable_quic_addr_discovery = true\n[tls]\n"
                       f'https_bind_addr = "{host}:{self.tls_port}"\nquic_bind_addr = "{host}:{self.qad_port}"\n'
                       f'hostname = "{host}"\ncert_mode = "Manual"\n'
                       f'manual_cert_path = "{tls[0]}"\nmanual_key_path = "{tls[1]}"\n')
        else:
            self.argv.append("--dev")
        (directory / "relay.toml").write_text(config, encoding="ascii")
        self.argv += ["--config-path", str(directory / "relay.toml")]
        self.url = f"https://{host}:{self.tls_port}/" if tls else f"http://{host}:{self.port}/"
        self.ns, self.log_file = ns or _Here(), directory / "relay.log"
        self.start()

    def start(self):
        super().__init__(self.ns, self.argv, self.log_file, env={"RUST_LOG": "info"})
        until(self._up, 30, "iroh-relay to accept")

    def _up(self):
        assert self.alive, self.log()[-2000:]
        port = self.tls_port if self.url.startswith("https") else self.port
        with self.ns.entered(), contextlib.suppress(OSError):
            socket.create_connection((self.host, port), timeout=1).close()
            return True
        return False

    def close(self):
        if self.alive:
            self.signal(signal.SIGINT)
            self.wait(20)


def certificate(directory, host):
    """(certificate, key) for an address, signed by itself."""
    directory.mkdir(parents=True, exist_ok=True)
    crt, key = directory / "relay.crt", directory / "relay.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=relay", "-addext", f"subjectAltName=IP:{host}", "-addext",
                    "basicConstraints=critical,CA:false", "-keyout", str(key), "-out", str(crt)],
                   check=True, capture_output=True)
    return crt, key


_BLOCK = random.Random(5).randbytes(MIB)


def pieces(mib):
    """MiBs of which no two are alike."""
    for i in range(mib):
        yield struct.pack("!Q", i) + _BLOCK[8:]


def digest(mib):
    h = hashlib.sha1()
    for p in pieces(mib):
        h.update(p)
    return h.hexdigest()


class Store(Each):
    """A TCP server: 'get MIB' is answered with that many, 'put MIB' with the digest of what follows."""

    def __init__(self):
        super().__init__(self.serve)

    @staticmethod
    def serve(s):
        f = s.makefile("rb", buffering=MIB)
        verb, mib = f.readline().split()
        if verb == b"get":
            for p in pieces(int(mib)):
                s.sendall(p)
        else:
            s.sendall(received(f.read1, int(mib) * MIB).encode() + b"\n")
        s.shutdown(socket.SHUT_WR)


def received(read, n):
    h = hashlib.sha1()
    while n:
        part = read(min(n, MIB))
        assert part, f"ended {n} bytes early"
        h.update(part)
        n -= len(part)
    return h.hexdigest()


def download(sock, mib):
    sock.sendall(f"get {mib}\n".encode())
    got = received(sock.recv, mib * MIB)
    assert sock.recv(1) == b""
    return got


def upload(sock, mib):
    sock.sendall(f"put {mib}\n".encode())
    for p in pieces(mib):
        sock.sendall(p)
    with sock.makefile("rb") as f:
        return f.readline().decode().strip()


class Origin(Each):
    """A web server for what proxies get wrong: PUT of any length, events as they happen, WebSocket."""

    def __init__(self):
        self.next = threading.Semaphore(0)  # released when an event has arrived
        super().__init__(self.serve)

    def serve(self, s):
        f = s.makefile("rb")
        while line := f.readline():
            method, path, _ = line.decode().split(" ", 2)
            fields = {}
            while (line := f.readline().strip()):
                name, value = line.decode().split(":", 1)
                fields[name.lower()] = value.strip()
            getattr(self, method.lower() + path.replace("/", "_"))(s, f, fields)
            if "upgrade" in fields:
                return

    @staticmethod
    def put_file(s, f, fields):
        if fields.get("transfer-encoding") == "chunked":
            total, h = 0, hashlib.sha1()
            while n := int(f.readline(), 16):
                total += n
                h.update(f.read(n))
                f.readline()
            f.readline()
            text = f"{total} {h.hexdigest()}"
        else:
            n = int(fields["content-length"])
            text = f"{n} {received(f.read1, n)}"
        s.sendall(f"HTTP/1.1 201 Created\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())

    def get_events(self, s, f, fields):
        del f, fields
        s.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for i in range(5):
            text = f"id: {i}\ndata: event {i}\n\n".encode()
            s.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            assert self.next.acquire(timeout=guard(30)), f"event {i} did not arrive while the answer was open"
        s.sendall(b"0\r\n\r\n")

    @staticmethod
    def get_ws(s, f, fields):
        accept = hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert fields["upgrade"].lower() == "websocket" and fields["sec-websocket-version"] == "13"
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                  b"sec-websocket-accept: " + base64.b64encode(accept) + b"\r\n\r\n")
        while (head := f.read(2)) and head[0] == 0x81:
            n = head[1] & 0x7F
            mask, data = f.read(4), f.read(n)
            text = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            s.sendall(bytes([0x81, n]) + text)
        s.sendall(b"\x88\0")
        s.shutdown(socket.SHUT_WR)


def frame(text, mask=b"\x01\x02\x03\x04"):
    """A text message of a WebSocket client."""
    return bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text))


WS = ("connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
      "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
WS_ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

