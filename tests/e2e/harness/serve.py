# SPDX-License-Identifier: Apache-2.0
"""A server on a loopback port that gives each connection a thread."""
import socket
import threading


class Server:
    """Subclasses say what happens to a connection in _serve(conn)."""

    def __init__(self, backlog=256):
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        raise NotImplementedError
