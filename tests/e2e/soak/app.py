#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The web server that the load asks for: app.py NAME ADDRESS PORT, a process of its own.

    GET  /stream/SEED/BYTES/RATE   a stream of pattern.py, at most RATE bytes a second (0: any)
    POST /check/SEED               compares the body with such a stream: 'same N'
    GET  /ws                       a WebSocket that sends back every message
    GET  /...                      'NAME PATH HOST'
"""
import http.server
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

from soak import websocket  # noqa: E402
from soak.pattern import Check, blocks  # noqa: E402


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    name = "?"

    def log_message(self, *args):
        del args

    def _answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # noqa: N802
        parts = self.path.split("/")
        if parts[1] == "stream":
            self._stream(*map(int, parts[2:5]))
        elif parts[1] == "ws":
            self._websocket()
        else:
            self._answer(f"{self.name} {self.path} {self.headers['Host']}\n".encode())

    def _stream(self, seed, total, rate):
        self.send_response(200)
        self.send_header("Content-Length", str(total))
        self.end_headers()
        begin, sent = time.monotonic(), 0
        for block in blocks(seed, total):
            self.wfile.write(block)
            self.wfile.flush()
            sent += len(block)
            if rate:
                time.sleep(max(0.0, begin + sent / rate - time.monotonic()))

    def do_POST(self):  # noqa: N802
        left, check = int(self.headers["Content-Length"]), Check(int(self.path.split("/")[2]))
        try:
            while left:
                piece = self.rfile.read1(min(left, 1 << 16))
                if not piece:
                    raise ValueError(f"body cut after {check.at} bytes")
                check.feed(piece)
                left -= len(piece)
        except ValueError as e:
            self.close_connection = True
            self._answer(str(e).encode(), 400)
        else:
            self._answer(f"same {check.at}".encode())

    def _websocket(self):
        self.close_connection = True
        self.connection.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            f"{websocket.accept(self.headers['Sec-WebSocket-Key'])}\r\n\r\n".encode())
        while (message := websocket.receive(self.rfile)) is not None:
            self.connection.sendall(websocket.frame(message))
        self.connection.sendall(websocket.CLOSE)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        """A client that leaves is the client's to report."""


def main():
    Handler.name = sys.argv[1]
    Server.address_family = socket.AF_INET
    server = Server((sys.argv[2], int(sys.argv[3])), Handler)
    print("ready", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
