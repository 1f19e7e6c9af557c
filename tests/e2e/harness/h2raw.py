# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 byte by byte, for peers that do what a library would not."""
import struct


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
