# SPDX-License-Identifier: Apache-2.0
"""A server of the test's own namespace, reached from another."""
import contextlib
import socket
import threading

from . import traffic


class Forward(traffic.HandlerServer):
    """The API on a namespace's loopback, where only the test's own has it."""

    def __init__(self, ns, port):
        self.port = port
        super().__init__(ns, ("127.0.0.1", port), self._both)

    def _both(self, sock, _peer):
        sock.settimeout(None)
        with socket.create_connection(("127.0.0.1", self.port)) as up:
            back = threading.Thread(target=_copy, args=(up, sock), daemon=True)
            back.start()
            _copy(sock, up)
            back.join()


def _copy(source, to):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)
