# SPDX-License-Identifier: Apache-2.0
"""A resolver for the DNS proxy to ask: UDP and TCP in a namespace, and it keeps what it was asked."""
import ipaddress
import socket
import struct
import threading

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
A, TXT, AAAA = 1, 16, 28


def question(data):
    """(name, type, end of the question) of a message."""
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels), struct.unpack(">H", data[at + 1:at + 3])[0], at + 5


class Resolver:
    """'known' maps names to lists of addresses or of texts, to a number (an rcode), or to "SILENT", "TRASH" (answers
    with another id, another question and no sense before the right one) or "LONG" (truncated by UDP)."""

    def __init__(self, ns, ip, **known):
        self.ip, self.known, self.asked, self.updates, self.crashes = ip, dict(known), [], [], []
        self.udp = ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((ip, 53))
        self.tcp = ns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((ip, 53))
        self.tcp.listen(64)
        self.threads = [threading.Thread(target=self._guarded, args=(f,), daemon=True)
                        for f in (self._serve_udp, self._serve_tcp)]
        for t in self.threads:
            t.start()

    def names(self, how=None):
        return [name for name, kind, by, _ in list(self.asked) if how in (None, by)]

    def _guarded(self, fn):
        try:
            fn()
        except OSError:
            pass
        except Exception as err:  # pylint: disable=broad-except
            self.crashes.append(repr(err))

    def _serve_udp(self):
        while True:
            data, peer = self.udp.recvfrom(65535)
            if not data:
                return
            for answer in self._answers(data, "udp", peer):
                self.udp.sendto(answer, peer)

    def _serve_tcp(self):
        while True:
            conn, peer = self.tcp.accept()
            with conn:
                head = conn.recv(2, socket.MSG_WAITALL)
                if len(head) < 2:
                    continue
                data = conn.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL)
                for answer in self._answers(data, "tcp", peer):
                    conn.sendall(struct.pack(">H", len(answer)) + answer)

    def _answers(self, data, how, peer):
        flags, = struct.unpack(">H", data[2:4])
        if flags >> 11 & 15:  # an update, say
            self.updates.append(data)
            yield data[:2] + struct.pack(">HHHHH", 0x8000 | flags & 0x7800, 0, 0, 0, 0)
            return
        name, kind, end = question(data)
        self.asked.append((name, kind, how, peer))
        found = self.known.get(name.lower(), NXDOMAIN)
        if found == "SILENT":
            return
        good = self._message(data, end, kind, found, how)
        if found == "TRASH":
            good = self._message(data, end, kind, ["192.0.2.77"], how)
            yield bytes([data[0] ^ 255]) + good[1:]
            yield good[:12] + b"\x04evil" + good[12:]
            yield b"nonsense"
        yield good

    @staticmethod
    def _message(data, end, kind, found, how):
        code, records, tc = NOERROR, [], 0
        if isinstance(found, int):
            code = found
        elif found == "LONG":
            tc = 0x0200 if how == "udp" else 0
            records = [] if tc else [bytes([200]) + bytes([65 + i % 26]) * 200 for i in range(20)]
        elif isinstance(found, list) and kind == TXT:
            records = [bytes([len(t)]) + t.encode() for t in found]
        elif isinstance(found, list):
            packed = [ipaddress.ip_address(a).packed for a in found]
            records = [r for r in packed if len(r) == {A: 4, AAAA: 16}.get(kind)]
        head = data[:2] + struct.pack(">HHHHH", 0x8480 | tc | code, 1, len(records), 0, 0)
        return head + data[12:end] + b"".join(struct.pack(">HHHIH", 0xc00c, kind, 1, 60, len(r)) + r for r in records)

    def stop(self):
        self.tcp.shutdown(socket.SHUT_RDWR)
        try:
            self.udp.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not connected; the reader is woken all the same
        for t in self.threads:
            t.join()
        self.udp.close()
        self.tcp.close()
