# SPDX-License-Identifier: Apache-2.0
"""A server on a loopback port that gives each connection a thread."""
import socket
import sys
import threading
import time

from .wait import GUARD


def waiting_at_closed(patience=10.0):
    """The threads that are in accept() of a socket that was closed meanwhile, and stay there."""
    deadline = time.monotonic() + patience
    while (left := _waiting_at_closed()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _waiting_at_closed():
    frames = sys._current_frames()  # no other way to see what a thread does
    left = []
    for t in threading.enumerate():
        at = frames.get(t.ident)
        if at and at.f_code.co_name == "accept" and isinstance(s := at.f_locals.get("self"), socket.socket) \
                and s.fileno() < 0:
            left.append(t.name)
    return left


class Server:
    """Subclasses say what happens to a connection in _serve(conn)."""

    def __init__(self, backlog=256, host="127.0.0.1", refuse=False):
        """refuse: connections are refused until listen() is called."""
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((host, 0))
        self.port = self.sock.getsockname()[1]
        self.accepted = 0
        self._backlog = backlog
        self._thread = threading.Thread(target=self._accept, daemon=True)
        if not refuse:
            self.listen()

    def listen(self):
        self.sock.listen(self._backlog)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        raise NotImplementedError

    def close(self):
        """
        Closing alone would leave the thread in accept(), and when the kernel restarts that call, it waits at
        whatever has the number of the descriptor by then: the connections of another test's server.
        """
        if self.sock.fileno() >= 0:
            if self._thread.ident:
                self.sock.shutdown(socket.SHUT_RDWR)
                self._thread.join(GUARD)
            self.sock.close()


class Each(Server):
    """Calls serve(conn) for each connection and closes it."""

    def __init__(self, serve, **kw):
        self._each = serve
        super().__init__(**kw)

    def _serve(self, conn):
        with conn:
            try:
                self._each(conn)
            except OSError:
                pass
