# SPDX-License-Identifier: Apache-2.0
"""HTTP clients of the load. Sockets belong to the namespace that their thread has entered."""
import http.client
import os
import socket
import ssl
import time

from soak import websocket
from soak.pattern import Check, blocks
from soak.tally import PATIENCE

DRAINED = 0.9  # seconds; a gateway that drains keeps a connection a second between requests, then closes it


class Site:
    """One hostname behind a gateway address; ca: the port speaks TLS."""

    def __init__(self, address, hostname, ca=None):
        self.address, self.hostname = address, hostname
        self.tls = None
        if ca is not None:
            self.tls = ssl.create_default_context(cafile=str(ca))

    def socket(self):
        raw = socket.create_connection(self.address, PATIENCE)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self.tls.wrap_socket(raw, server_hostname=self.hostname) if self.tls else raw
        except BaseException:
            raw.close()
            raise

    def connection(self):
        c = http.client.HTTPConnection(self.hostname, self.address[1], timeout=PATIENCE)
        c.sock = self.socket()
        c.auto_open = 0
        return c

    def host(self):
        """What the server sees in Host."""
        return f"{self.hostname}:{self.address[1]}"


def read(answer, status=200):
    body = answer.read()
    if answer.status != status:
        raise ValueError(f"status {answer.status}, not {status}: {body[:200]!r}")
    return body


def get(connection, path, status=200):
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer, read(answer, status)


def expect(got, want):
    if got != want:
        raise ValueError(f"got {got[:200]!r}, not {want[:200]!r}")


class KeptAlive:
    """Requests on one connection after the other, a new one when the server closes it between two."""

    def __init__(self, site):
        self.site = site
        self.connection = None
        self.used = 0.0

    def get(self, path):
        fresh = self.connection is None
        if fresh:
            self.connection = self.site.connection()
        idle = time.monotonic() - self.used
        try:
            answer, body = get(self.connection, path)
        except Exception as e:
            self.close()
            # A server that drains may close an idle connection while the request is on its way.
            raced = isinstance(e, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError))
            if raced and not fresh and idle >= DRAINED:
                return self.get(path)
            raise
        self.used = time.monotonic()
        if answer.will_close:
            self.close()
        return body

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def download(site, seed, total, rate, moved):
    """A stream that the server sends at a rate."""
    c = site.connection()
    try:
        c.request("GET", f"/stream/{seed}/{total}/{rate}")
        answer, check = c.getresponse(), Check(seed)
        if answer.status != 200:
            read(answer)
        while piece := answer.read1(1 << 16):
            check.feed(piece)
            moved(len(piece))
        check.complete(total)
    finally:
        c.close()


def upload(site, seed, total, rate, moved):
    """A stream sent at a rate, which the server compares."""
    c = site.connection()
    try:
        c.putrequest("POST", f"/check/{seed}")
        c.putheader("Content-Length", str(total))
        c.endheaders()
        begin, sent = time.monotonic(), 0
        for block in blocks(seed, total):
            c.send(block)
            sent += len(block)
            moved(len(block))
            if rate:
                time.sleep(max(0.0, begin + sent / rate - time.monotonic()))
        expect(read(c.getresponse()), b"same %d" % total)
    finally:
        c.close()


class WebSocket:
    def __init__(self, site):
        self.sock = site.socket()
        self.file = self.sock.makefile("rb")
        key = "c29hay1zb2FrLXNvYWstMQ=="
        self.sock.sendall(f"GET /ws HTTP/1.1\r\nHost: {site.host()}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        status, head = self.file.readline(), {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            head[name.lower()] = value.strip()
        if b" 101 " not in status or head.get("sec-websocket-accept") != websocket.accept(key):
            self.close()
            raise ValueError(f"no WebSocket: {status!r} {head}")

    def echo(self, size):
        message = os.urandom(size)
        self.sock.sendall(websocket.frame(message, mask=True))
        back = websocket.receive(self.file)
        if back != message:
            raise ValueError("WebSocket closed by the server" if back is None else "WebSocket message came back changed")
        return size

    def close(self):
        self.file.close()
        self.sock.close()
