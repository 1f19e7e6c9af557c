# SPDX-License-Identifier: Apache-2.0
"""QUIC version 1 as an attacker writes it: first packets with any identifiers, and what comes back (RFC 9000, 9001)."""
import os
import select
import socket
import struct
import time

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .wait import GUARD, SLOW, until

SALT = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
INITIAL, HANDSHAKE, RETRY = 0, 2, 3


def _hmac(key, data):
    h = hmac.HMAC(key, hashes.SHA256())
    h.update(data)
    return h.finalize()


def _label(secret, label, n):
    full = b"tls13 " + label.encode()
    return _hmac(secret, struct.pack(">HB", n, len(full)) + full + b"\0\x01")[:n]


class Keys:
    """Protection of a client's Initial packets, which anybody can compute."""

    def __init__(self, dcid):
        secret = _label(_hmac(SALT, dcid), "client in", 32)
        self.aead = AESGCM(_label(secret, "quic key", 16))
        self.iv = _label(secret, "quic iv", 12)
        self.hp = Cipher(algorithms.AES(_label(secret, "quic hp", 16)), modes.ECB())

    def nonce(self, number):
        return bytes(a ^ b for a, b in zip(self.iv, number.to_bytes(12, "big")))

    def mask(self, sample):
        return self.hp.encryptor().update(sample)


def varint(n):
    if n < 64:
        return bytes([n])
    return struct.pack(">H", 0x4000 | n) if n < 16384 else struct.pack(">I", 0x80000000 | n)


def read_varint(p, at):
    size = 1 << (p[at] >> 6)
    return int.from_bytes(p[at:at + size], "big") & ((1 << (8 * size - 2)) - 1), at + size


def initial(dcid, scid, payload, token=b"", number=0, version=1, size=1200):
    """A protected Initial, padded to size."""
    head = bytes([0xC3]) + struct.pack(">I", version) + bytes([len(dcid)]) + dcid + bytes([len(scid)]) + scid
    head += varint(len(token)) + token
    payload = payload.ljust(max(4, size - len(head) - 2 - 4 - 16), b"\0")
    head += struct.pack(">H", 0x4000 | (4 + len(payload) + 16)) + number.to_bytes(4, "big")
    keys = Keys(dcid)
    sealed = keys.aead.encrypt(keys.nonce(number), payload, head)
    mask = keys.mask(sealed[:16])
    out = bytearray(head + sealed)
    out[0] ^= mask[0] & 0x0F
    for i in range(4):
        out[len(head) - 4 + i] ^= mask[1 + i]
    return bytes(out)


def open_initial(p):
    """(dcid, scid, plain payload) of the first packet of a client's first datagram."""
    at = 6 + p[5]
    dcid, scid = p[6:at], p[at + 1:at + 1 + p[at]]
    at += 1 + p[at]
    n, at = read_varint(p, at)
    length, at = read_varint(p, at + n)
    keys = Keys(dcid)
    mask = keys.mask(p[at + 4:at + 20])
    head = bytearray(p[:at + 4])
    head[0] ^= mask[0] & 0x0F
    size = (head[0] & 3) + 1
    head = head[:at + size]
    for i in range(size):
        head[at + i] ^= mask[1 + i]
    number = int.from_bytes(head[at:], "big")
    return dcid, scid, keys.aead.decrypt(keys.nonce(number), p[at + size:at + length], bytes(head))


def kind(p):
    """What a datagram begins with: 'initial', 'handshake', 'retry', 'versions', 'short'."""
    if not p[0] & 0x80:
        return "short"
    if p[1:5] == bytes(4):
        return "versions"
    return {INITIAL: "initial", HANDSHAKE: "handshake", RETRY: "retry"}.get(p[0] >> 4 & 3, "0rtt")


def retry(p):
    """(scid, token) of a Retry."""
    at = 6 + p[5]
    n = p[at]
    return p[at + 1:at + 1 + n], p[at + 1 + n:-16]


class Hello:
    """What an honest client begins with, taken from one that dialled us in vain."""

    def __init__(self, peer, alpn, node):
        with socket.socket(type=socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", 0))
            s.settimeout(GUARD * SLOW)
            peer.dial(None, [f"127.0.0.1:{s.getsockname()[1]}"], alpn=alpn, node=node)
            _, self.scid, payload = open_initial(s.recv(65536))
        assert payload[:2] == b"\x06\0", "a CRYPTO frame from the beginning"
        n, at = read_varint(payload, 2)
        self.payload = payload[:at + n]  # without the padding

    def first(self, dcid=None, token=b"", **kw):
        return initial(dcid or os.urandom(18), self.scid, self.payload, token, **kw)


class Ports:
    """Many addresses of one attacker."""

    def __init__(self, to, n):
        self.to = to
        self.socks = []
        for _ in range(n):
            s = socket.socket(type=socket.SOCK_DGRAM)
            s.setblocking(False)
            s.connect(to)
            self.socks.append(s)
        self.sent = dict.fromkeys(self.socks, 0)
        self.got = dict.fromkeys(self.socks, 0)

    def send(self, i, data):
        s = self.socks[i % len(self.socks)]
        try:
            s.send(data)
            self.sent[s] += len(data)
        except OSError:
            pass  # the queue is full, or nobody is there any more: as on any network

    def read(self, seconds):
        """What arrives within the time: [(index of the port, datagram)]."""
        out = []
        end = time.monotonic() + seconds
        index = {s: i for i, s in enumerate(self.socks)}
        while (left := end - time.monotonic()) > 0:
            poll = select.poll()
            for s in self.socks:
                poll.register(s, select.POLLIN)
            by_fd = {s.fileno(): s for s in self.socks}
            for fd, _ in poll.poll(left * 1000):
                s = by_fd[fd]
                try:
                    while True:
                        p = s.recv(65536)
                        self.got[s] += len(p)
                        out.append((index[s], p))
                except OSError:
                    pass
        return out

    def flood(self, make, seen, what):
        """
        Rounds of make(i), one for each port, until seen(what came back so far) holds. How many of them the other side takes
        at all, how long it needs and when it answers is the machine's business.
        """
        got, sent = [], 0

        def enough():
            nonlocal sent
            for _ in self.socks:
                self.send(sent, make(sent))
                sent += 1
            got.extend(self.read(0.02))
            return seen(got)
        until(enough, GUARD, what)
        return got

    def close(self):
        for s in self.socks:
            s.close()
