# SPDX-License-Identifier: Apache-2.0
"""
The protocol between a node agent and a node proxy, spoken by hand in both roles: packets over a Unix socket, protobuf
written and read by field numbers, network namespaces as descriptors. Nothing of the product is used here.
"""
import array
import contextlib
import os
import socket

from .wait import GUARD, guard

PACKET_MAX = 1024


def _varint(n):
    out = b""
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def put(field, value):
    """A length-delimited field."""
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return n, at


def fields(data):
    """{number: last value} of a message; varints as numbers, the others as bytes."""
    out, at = {}, 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert tag & 7 == 0, f"wire type {tag & 7}"
        out[tag >> 3] = value
    return out


HELLO = b"\x08\x01"
ACK = put(1, b"")
SNAPSHOT = put(3, b"")


def add(uid, name, namespace="default", account=None):
    info = put(1, name) + put(2, namespace) + put(3, account or name)
    return put(1, put(1, uid) + put(2, info))


def keep(uid):
    return put(5, put(1, uid))


def delete(uid):
    return put(2, put(2, uid))


def nack(text):
    return put(1, put(1, text))


def send(sock, data, *fds):
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], control)


def receive(sock):
    """(packet, descriptors); b"" at the end."""
    data, control, flags, _ = sock.recvmsg(PACKET_MAX, socket.CMSG_SPACE(8 * 4))
    assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "packet does not fit"
    fds = array.array("i")
    for level, kind, payload in control:
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        fds.frombytes(payload)
    return data, list(fds)


class Agent:
    """The node agent's side: listens, and speaks with one proxy at a time."""

    def __init__(self, path):
        self.path = str(path)
        self.conn = None
        self.listener = None
        self.listen()

    def listen(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.settimeout(guard(GUARD))
        self.listener.bind(self.path)
        self.listener.listen(8)

    def accept(self):
        """The next proxy that says hello."""
        if self.conn:
            self.conn.close()
        self.conn, _ = self.listener.accept()
        self.conn.settimeout(guard(GUARD))
        data, fds = receive(self.conn)
        assert data == HELLO and not fds, (data, fds)
        return self

    def ask(self, data, *fds):
        """Sends a request and returns the error of its acknowledgement ('' for success)."""
        send(self.conn, data, *fds)
        answer, extra = receive(self.conn)
        assert not extra
        assert set(fields(answer)) == {1}, answer
        return fields(fields(answer)[1]).get(1, b"").decode()

    def add(self, pod, uid=None):
        return self.ask(add(uid or f"uid-{pod.name}", pod.name), pod.fd)

    def delete(self, uid):
        return self.ask(delete(uid))

    def snapshot(self, *pods):
        """All pods, and that there are no more."""
        for pod in pods:
            assert self.add(pod) == ""
        assert self.ask(SNAPSHOT) == ""

    def ended(self):
        """True when the proxy closes the connection."""
        data, _ = receive(self.conn)
        return data == b""

    def close(self):
        for s in (self.conn, self.listener):
            if s:
                s.close()
        self.conn = self.listener = None


class Proxy:
    """The node proxy's side: connects, says hello and answers requests."""

    def __init__(self, path, hello=HELLO):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(guard(GUARD))
        self.sock.connect(str(path))
        self.seen = []
        if hello is not None:
            self.sock.send(hello)

    def next(self, answer=ACK):
        """
        The next request, answered: ('add', uid, (namespace, name, account), descriptors), ('del', uid), ('keep', uid),
        ('snapshot',), or None at the end.
        """
        data, fds = receive(self.sock)
        if not data:
            return None
        if answer is not None:
            self.sock.send(answer)
        (kind, body), = fields(data).items()
        body = fields(body)
        if kind == 1:
            info = {k: v.decode() for k, v in fields(body[2]).items()}
            got = ("add", body[1].decode(), (info[2], info[1], info[3]), fds)
        else:
            assert not fds
            got = {2: lambda: ("del", body[2].decode()), 3: lambda: ("snapshot",),
                   5: lambda: ("keep", body[1].decode())}[kind]()
        self.seen.append(got)
        return got

    def until_snapshot(self):
        """Everything up to the snapshot's end, by uid."""
        out = {}
        while (got := self.next())[0] != "snapshot":
            out[got[1]] = got
        return out

    def close(self):
        for got in self.seen:
            for fd in got[3] if got[0] == "add" else ():
                os.close(fd)
        self.seen = []
        self.sock.close()
