# SPDX-License-Identifier: Apache-2.0
"""As much of RFC 6455 as two ends need that send each other short binary messages."""
import base64
import hashlib
import os

CLOSE = b"\x88\x00"


def accept(key):
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def _masked(data, mask):
    return bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def frame(message, mask=False):
    """One binary frame of at most 65,535 bytes; clients mask theirs."""
    size = len(message)
    head = bytes([0x82, (0x80 if mask else 0) | (size if size < 126 else 126)])
    head += b"" if size < 126 else size.to_bytes(2, "big")
    if not mask:
        return head + message
    key = os.urandom(4)
    return head + key + _masked(message, key)


def _exactly(file, n):
    data = file.read(n)
    if len(data) != n:
        raise EOFError(f"WebSocket cut: {len(data)} of {n} bytes")
    return data


def receive(file):
    """The next message; None when the peer closes."""
    first, second = _exactly(file, 2)
    size = second & 0x7F
    size = int.from_bytes(_exactly(file, 2), "big") if size == 126 else size
    key = _exactly(file, 4) if second & 0x80 else None
    data = _exactly(file, size)
    if first & 0x0F == 8:
        return None
    if first != 0x82:
        raise ValueError(f"WebSocket frame begins with {first:#x}")
    return _masked(data, key) if key else data
