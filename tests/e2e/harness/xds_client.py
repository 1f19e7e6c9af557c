# SPDX-License-Identifier: Apache-2.0
"""A client of the xDS server, message by message: delta ADS over TLS with a bearer token."""
import socket
import ssl
import struct

import h2.config
import h2.connection
import h2.events

from .wait import GUARD, SLOW

URL = "type.googleapis.com/"
LDS = URL + "envoy.config.listener.v3.Listener"
RDS = URL + "envoy.config.route.v3.RouteConfiguration"
CDS = URL + "envoy.config.cluster.v3.Cluster"
EDS = URL + "envoy.config.endpoint.v3.ClusterLoadAssignment"
SDS = URL + "envoy.extensions.transport_sockets.tls.v3.Secret"
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
PERMISSION_DENIED, UNAUTHENTICATED = 7, 16


def _varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _fields(data):
    """(number, bytes) of a message that has nothing but strings, bytes, messages and varints."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 128:
                return n
    while at < len(data):
        key = varint()
        n = varint()
        if key & 7 == 2:
            yield key >> 3, data[at:at + n]
            at += n


class Xds:
    """One stream. 'have' is what the server has told, by type and name; 'status' and 'why' how it has ended."""

    def __init__(self, port, ca, token, node="test", path=ADS):
        """Without TLS where there is no 'ca'."""
        self.s = socket.create_connection(("127.0.0.1", port), GUARD * SLOW)
        if ca:
            context = ssl.create_default_context(cafile=str(ca))
            context.set_alpn_protocols(["h2"])
            self.s = context.wrap_socket(self.s, server_hostname="127.0.0.1")
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.c.initiate_connection()
        self.have, self.status, self.why, self.buffer, self.node, self.answers = {}, None, None, b"", node, 0
        heads = [(":method", "POST"), (":path", path), (":scheme", "https"), (":authority", "xds"),
                 ("content-type", "application/grpc"), ("te", "trailers")]
        self.c.send_headers(1, heads + ([("authorization", f"Bearer {token}")] if token else []))
        self.s.sendall(self.c.data_to_send())

    def send(self, kind, names=(), nonce=""):
        node = _field(1, _field(1, self.node) + _field(2, self.node))
        message = node + _field(2, kind) + b"".join(_field(3, n) for n in names)
        message += _field(6, nonce) if nonce else b""
        if self.status is None:
            self.c.send_data(1, struct.pack(">BI", 0, len(message)) + message)
            self.s.sendall(self.c.data_to_send())

    def _message(self, data):
        kind = nonce = ""
        changes, gone = {}, []
        for number, value in _fields(data):
            if number == 2:
                inside = dict(_fields(value))
                changes[inside.get(3, b"").decode()] = inside.get(2, b"")
            elif number == 4:
                kind = value.decode()
            elif number == 5:
                nonce = value.decode()
            elif number == 6:
                gone.append(value.decode())
        have = self.have.setdefault(kind, {})
        have.update(changes)
        for name in gone:
            have.pop(name, None)
        self.answers += 1
        self.send(kind, nonce=nonce)

    def read(self, seconds=0.1):
        """Takes what has come; False once the stream has ended."""
        self.s.settimeout(seconds)
        try:
            data = self.s.recv(65536)
        except TimeoutError:
            return self.status is None
        if not data and self.status is None:
            self.status, self.why = -1, "the connection was closed"
        for event in self.c.receive_data(data) if data else []:
            if isinstance(event, h2.events.DataReceived):
                self.c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.buffer += event.data
            elif isinstance(event, (h2.events.TrailersReceived, h2.events.ResponseReceived)):
                heads = dict(event.headers)
                if "grpc-status" in heads:
                    self.status, self.why = int(heads["grpc-status"]), heads.get("grpc-message", "")
            elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)) and self.status is None:
                self.status, self.why = -1, "reset"
        while len(self.buffer) >= 5 and len(self.buffer) >= 5 + struct.unpack(">I", self.buffer[1:5])[0]:
            n = struct.unpack(">I", self.buffer[1:5])[0]
            message, self.buffer = self.buffer[5:5 + n], self.buffer[5 + n:]
            self._message(message)
        out = self.c.data_to_send()
        if out:
            try:
                self.s.sendall(out)
            except OSError:
                pass
        return self.status is None

    def names(self, kind):
        return sorted(self.have.get(kind, {}))

    def text(self):
        """Everything it was told, as bytes to look for something in."""
        return b"".join(v for t in self.have.values() for v in t.values())

    def close(self):
        self.s.close()
