# SPDX-License-Identifier: Apache-2.0
"""Reads along between two parts that speak HTTP over mutual TLS: ends the one connection, makes the other, and tells of
each message with its fields before it is passed on, so that what one caused always comes after it."""
import contextlib
import select
import socket
import ssl

import hpack
import hyperframe.frame

from .serve import Server
from .wait import GUARD, SLOW

PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def context(ca, cert, key, alpn, server=False):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    c.load_verify_locations(str(ca))
    c.load_cert_chain(str(cert), str(key))
    c.verify_mode = ssl.CERT_REQUIRED
    if alpn:
        c.set_alpn_protocols(alpn)
    return c


class _Reader:
    """The frames of one direction: told(stream, fields or None, data or None, end)."""

    def __init__(self, skip, told):
        self.data, self.skip, self.told = b"", skip, told
        self.decoder, self.block = hpack.Decoder(), None

    def feed(self, data):
        self.data += data
        if self.skip:
            if len(self.data) < self.skip:
                return
            self.data, self.skip = self.data[self.skip:], 0
        while len(self.data) >= 9:
            frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(self.data[:9]))
            if len(self.data) < 9 + length:
                return
            frame.parse_body(memoryview(self.data[9:9 + length]))
            self.data = self.data[9 + length:]
            self._frame(frame)

    def _frame(self, frame):
        if isinstance(frame, hyperframe.frame.DataFrame):
            self.told(frame.stream_id, None, frame.data, "END_STREAM" in frame.flags)
        elif isinstance(frame, hyperframe.frame.HeadersFrame):
            self.block = [bytes(frame.data), "END_STREAM" in frame.flags]
        elif isinstance(frame, hyperframe.frame.ContinuationFrame):
            self.block[0] += frame.data
        else:
            return
        if self.block and "END_HEADERS" in frame.flags:
            (block, end), self.block = self.block, None
            self.told(frame.stream_id, self.decoder.decode(block), None, end)


class _Plain:
    """The same for HTTP/1.1; bodies have a length."""

    def __init__(self, told):
        self.data, self.told, self.count = b"", told, 0

    def feed(self, data):
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, rest = self.data.split(b"\r\n\r\n", 1)
            start, *lines = head.decode().split("\r\n")
            fields = [tuple(line.split(": ", 1)) for line in lines]
            length = int(next((v for k, v in fields if k.lower() == "content-length"), 0))
            if len(rest) < length:
                return
            one, two = start.split()[:2]
            first = [(":status", two)] if one.startswith("HTTP/") else [(":method", one), (":path", two)]
            self.count += 1
            self.told(self.count, first + fields, rest[:length], True)
            self.data = rest[length:]


class Tap(Server):
    """
    Listens with the files 'server' (authority, chain, key) and dials 'to' with those of 'client', as whom it calls
    'name'; both in namespace 'ns'. 'tell' gets (request or answer, fields, body) of each message, and of tunnels how
    they begin; streams whose path is in 'deaf' are passed on only.
    """

    def __init__(self, ns, host, to, server, client, name, tell, deaf):
        self.ns, self.to, self.client, self.name = ns, to, client, name
        self.context = context(*server, ["h2", "http/1.1"], server=True)
        self.tell, self.deaf = tell, deaf
        with ns.entered():
            super().__init__(host=host)

    def _serve(self, conn):
        with contextlib.suppress(OSError), conn, self.context.wrap_socket(conn, server_side=True) as inner:
            with self.ns.entered():
                raw = socket.create_connection(self.to, GUARD * SLOW)
            form = inner.selected_alpn_protocol()
            outward = context(*self.client, [form] if form else None)
            with raw, outward.wrap_socket(raw, server_hostname=self.name) as outer:
                self._pass(inner, outer, form == "h2")

    def _pass(self, inner, outer, h2):
        asked, answered, over, tunnels = {}, {}, set(), set()

        def told(at, kind, stream, fields, data, end):
            if fields is not None and stream not in at:
                names = dict(fields)
                at[stream] = [fields, b""]
                if kind == "request" and names.get(":path") in self.deaf:
                    over.add(stream)
                elif names.get(":method") == "CONNECT":
                    tunnels.add(stream)
            if stream in over:
                return
            if data:
                at[stream][1] += data
            if stream in tunnels and fields is not None:
                self.tell(kind, fields, b"")
            elif stream not in tunnels and end:
                self.tell(kind, *at[stream])

        def request(*a):
            told(asked, "request", *a)

        def answer(*a):
            told(answered, "answer", *a)
        readers = {inner: _Reader(PREFACE, request) if h2 else _Plain(request),
                   outer: _Reader(0, answer) if h2 else _Plain(answer)}
        other = {inner: outer, outer: inner}
        while True:
            ready = [s for s in other if s.pending()] or select.select(list(other), [], [])[0]
            for s in ready:
                data = s.recv(65536)
                if not data:
                    return
                readers[s].feed(data)
                other[s].sendall(data)
