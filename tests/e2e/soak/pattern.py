# SPDX-License-Identifier: Apache-2.0
"""Streams of bytes that both ends know: each block of 64 KiB is another piece of one random text."""
import hashlib

MIB, BLOCK = 1 << 20, 1 << 16
_TEXT = memoryview(hashlib.shake_256(b"soak").digest(MIB) * 2)


def _block(seed, index):
    at = (seed * 65537 + index * 257) % MIB
    return _TEXT[at:at + BLOCK]


def blocks(seed, total):
    """The stream of a seed, block by block."""
    for index in range((total + BLOCK - 1) // BLOCK):
        yield _block(seed, index)[:total - index * BLOCK]


class Check:
    """Compares what arrives with the stream of a seed, byte for byte."""

    def __init__(self, seed):
        self.seed = seed
        self.at = 0

    def feed(self, data):
        data = memoryview(data)
        while data:
            index, begin = divmod(self.at, BLOCK)
            want = _block(self.seed, index)[begin:begin + len(data)]
            got = data[:len(want)]
            if got != want:
                bad = next(i for i, (a, b) in enumerate(zip(got, want)) if a != b)
                raise ValueError(f"stream {self.seed}: wrong byte at {self.at + bad}")
            self.at += len(want)
            data = data[len(want):]

    def complete(self, total):
        if self.at != total:
            raise ValueError(f"stream {self.seed}: {self.at} of {total} bytes arrived")
