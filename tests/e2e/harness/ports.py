# SPDX-License-Identifier: Apache-2.0
"""Port numbers for the servers of a test, each given out once.

They lie below the range the kernel takes the ports of outgoing connections and of 'port 0' from, so nobody
gets one by chance between the moment it is given out here and the moment a server binds it. Processes that
share a network namespace share the numbers too: whoever gives out of a block holds an abstract socket
named after it, which has exactly the reach of a port, and is gone with its process.
"""
import random
import socket

FIRST, LAST, BLOCK = 20000, 31999, 100

_held = []  # the sockets that claim our blocks
_left = []  # ports of these blocks, still to be given out


def _claim():
    """The ports of a block that no other process has."""
    blocks = list(range(FIRST, LAST + 1, BLOCK))
    random.shuffle(blocks)
    for block in blocks:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            s.bind(f"\0spanwire-test-ports-{block}")
        except OSError:
            s.close()
            continue
        _held.append(s)
        return list(range(block, block + BLOCK))
    raise RuntimeError(f"all ports from {FIRST} to {LAST} were given out")


def _unused(port):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as s:
            try:
                s.bind(("", port))
            except OSError:
                return False
    return True


def free_port():
    """A port free for TCP and UDP on every address; never one that was given out before."""
    while True:
        if not _left:
            _left.extend(_claim())
        port = _left.pop(0)
        if _unused(port):
            return port


def free_run(n):
    """The first of n such ports in a row, n at most BLOCK."""
    while True:
        ports = _claim()
        if all(map(_unused, ports[:n])):
            _left.extend(ports[n:])
            return ports[0]
