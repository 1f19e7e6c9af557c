# SPDX-License-Identifier: Apache-2.0
"""A relay under test, and a client of it written from the protocol: WebSocket, proof, frames."""
import base64
import hashlib
import os
import signal
import socket
import struct
import subprocess

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .gateway import free_port
from .wait import GUARD, SLOW, until

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
M32 = 0xFFFFFFFF


def _ror(x, n):
    return (x >> n | x << (32 - n)) & M32


def _block(cv, data, flags):
    """BLAKE3 of one block."""
    m = list(struct.unpack("<16I", data.ljust(64, b"\0")))
    s = [*cv, *IV[:4], 0, 0, len(data), flags]

    def mix(a, b, c, d, x, y):
        s[a] = (s[a] + s[b] + x) & M32
        s[d] = _ror(s[d] ^ s[a], 16)
        s[c] = (s[c] + s[d]) & M32
        s[b] = _ror(s[b] ^ s[c], 12)
        s[a] = (s[a] + s[b] + y) & M32
        s[d] = _ror(s[d] ^ s[a], 8)
        s[c] = (s[c] + s[d]) & M32
        s[b] = _ror(s[b] ^ s[c], 7)

    for _ in range(7):
        for i in range(4):
            mix(i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1])
        for i in range(4):
            mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i])
        m = [m[i] for i in ORDER]
    return [s[i] ^ s[i + 8] for i in range(8)]


def digest(challenge):
    key = _block(IV, b"iroh-relay handshake v1 challenge signature", 1 | 2 | 8 | 32)
    return struct.pack("<8I", *_block(key, challenge, 1 | 2 | 8 | 64))


class Relay:
    """`spanwire relay` on loopback ports of its own."""

    def __init__(self, binary, directory, *args, host="127.0.0.1", tls=None, netns=None):
        self.host, self.port, self.tls_port = host, free_port(), None
        self.stats = free_port()
        self.log = os.path.join(directory, f"relay-{self.port}.log")
        self.argv = [*(["ip", "netns", "exec", netns] if netns else []),
                     binary, "relay", "--listen", f"{host}:{self.port}",
                     "--admin-addr", f"127.0.0.1:{free_port()}",
                     "--stats-addr", f"127.0.0.1:{self.stats}",
                     "--ready-addr", f"127.0.0.1:{free_port()}", "--workers", "2", *map(str, args)]
        if not {"--allow-file", "--token-file", "--access-url", "--kubeconfig"} & set(map(str, args)):
            self.argv.append("--open")
        if tls:
            self.tls_port = free_port()
            self.argv += ["--tls-listen", f"{host}:{self.tls_port}", "--cert", tls[0], "--key", tls[1]]
        self.p = None
        self.start()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}/"

    def start(self):
        with open(self.log, "ab") as log:
            at = log.tell()
            self.p = subprocess.Popen(self.argv, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: "ready" in self.said(at) or self.p.poll() is not None, 10, "relay ready")
        assert self.p.poll() is None, self.said(at)

    def said(self, at=0):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            f.seek(at)
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        if self.p.poll() is None:
            self.p.send_signal(sig)
        return self.p.wait(GUARD * SLOW)

    def metric(self, name, **labels):
        text = http(self.host if self.host.startswith("127.") else "127.0.0.1", self.stats, "/metrics")[1]
        want = "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else ""
        for line in text.splitlines():
            if line.startswith((f"spanwire_{name}{want} ", f"spanwire_{name}_total{want} ")):
                return float(line.rsplit(" ", 1)[1])
        return 0.0


def http(host, port, path, fields="", method="GET"):
    """One request on its own connection: (head, body)."""
    with socket.create_connection((host, port), GUARD * SLOW) as s:
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n".encode())
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return head.decode(), body.decode()


class Client:
    """One connection, in small steps so that tests can do each of them wrongly."""

    def __init__(self, relay, seed=None, sock=None):
        seed = seed or os.urandom(32)
        self.key = Ed25519PrivateKey.from_private_bytes(seed)
        self.id = self.key.public_key().public_bytes(serialization.Encoding.Raw,
                                                     serialization.PublicFormat.Raw)
        self.s = sock or socket.create_connection((relay.host, relay.port), GUARD * SLOW)
        self.s.settimeout(GUARD * SLOW)
        self.host = relay.host
        self.buf = b""

    def request(self, protocols="iroh-relay-v2, iroh-relay-v1", version="13", key=None, path="/relay",
                fields=""):
        self.ws_key = key if key is not None else base64.b64encode(os.urandom(16)).decode()
        return (f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: {version}\r\n"
                f"Sec-WebSocket-Key: {self.ws_key}\r\n"
                f"Sec-WebSocket-Protocol: {protocols}\r\n{fields}\r\n").encode()

    def head(self):
        while b"\r\n\r\n" not in self.buf:
            chunk = self.s.recv(65536)
            if not chunk:
                break
            self.buf += chunk
        head, _, self.buf = self.buf.partition(b"\r\n\r\n")
        return head.decode()

    def upgrade(self, **kw):
        self.s.sendall(self.request(**kw))
        head = self.head()
        if head.startswith("HTTP/1.1 101 "):
            want = hashlib.sha1((self.ws_key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            assert f"Sec-WebSocket-Accept: {base64.b64encode(want).decode()}" in head
        return head

    def frame(self, payload, op=2, mask=b"\x01\x80\xfe\x37", fin=True):
        n = len(payload)
        head = bytes([(0x80 if fin else 0) | op])
        bit = 0x80 if mask else 0
        if n < 126:
            head += bytes([bit | n])
        elif n < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", n)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", n)
        if mask:
            whole = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
            payload = (int.from_bytes(payload, "big") ^ whole).to_bytes(n, "big")
        self.s.sendall(head + mask + payload)

    def _need(self, n):
        while len(self.buf) < n:
            chunk = self.s.recv(1 << 18)
            if not chunk:
                raise EOFError
            self.buf += chunk

    def next(self):
        """(opcode, payload) of the next frame; EOFError at the end."""
        self._need(2)
        assert not self.buf[1] & 0x80, "a server does not mask"
        n, at = self.buf[1] & 0x7F, 2
        if n == 126:
            self._need(4)
            n, at = struct.unpack(">H", self.buf[2:4])[0], 4
        elif n == 127:
            self._need(10)
            n, at = struct.unpack(">Q", self.buf[2:10])[0], 10
        self._need(at + n)
        op, payload = self.buf[0] & 15, self.buf[at:at + n]
        self.buf = self.buf[at + n:]
        return op, payload

    def message(self, *types):
        """The next relay message, of one of these types; pings are answered on the way."""
        while True:
            op, p = self.next()
            if op == 8:
                raise EOFError(struct.unpack(">H", p[:2])[0] if p else 1005)
            if op != 2:
                continue
            if p[0] == 9:
                self.frame(b"\x0a" + p[1:])
            elif not types or p[0] in types:
                return p

    def close_code(self):
        """Reads to the end; the code of the close frame, None without one."""
        code = None
        try:
            while True:
                op, p = self.next()
                if op == 8:
                    code = struct.unpack(">H", p[:2])[0]
        except (EOFError, ConnectionError):
            return code

    def answer(self, challenge):
        self.frame(b"\x01" + self.id + b"\x40" + self.key.sign(digest(challenge)))

    def login(self, **kw):
        assert self.upgrade(**kw).startswith("HTTP/1.1 101 ")
        first = self.message()
        assert first[0] == 0 and len(first) == 17
        self.answer(first[1:])
        second = self.message()
        assert second == b"\x02", second
        return self

    def send(self, to, data, ecn=0, segment=None):
        if segment is None:
            self.frame(b"\x04" + to + bytes([ecn]) + data)
        else:
            self.frame(b"\x05" + to + bytes([ecn]) + struct.pack(">H", segment) + data)

    def close(self):
        self.s.close()
