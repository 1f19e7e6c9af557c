# SPDX-License-Identifier: Apache-2.0
"""Our xDS server with resources from files, and as much of protobuf's wire format as that takes."""
import pathlib
import subprocess

TYPE = "type.googleapis.com/"
SECRET = TYPE + "envoy.extensions.transport_sockets.tls.v3.Secret"
LISTENER = TYPE + "envoy.config.listener.v3.Listener"
CLUSTER = TYPE + "envoy.config.cluster.v3.Cluster"
ENDPOINT = TYPE + "envoy.config.endpoint.v3.ClusterLoadAssignment"
ROUTE = TYPE + "envoy.config.route.v3.RouteConfiguration"


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message that hold bytes, in order: (number, bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            _, at = _varint(data, at)
        elif key & 7 in (1, 5):
            at += 8 if key & 7 == 1 else 4
        else:
            n, at = _varint(data, at)
            yield key >> 3, data[at:at + n]
            at += n


def field(number, value):
    """One field that holds bytes."""
    out = bytearray([number << 3 | 2])
    n = len(value)
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n]) + value


def first(data, number):
    return next((v for n, v in fields(data) if n == number), None)


def read_response(path):
    """{(type, name): encoded resource} of a file with a DiscoveryResponse."""
    found = {}
    for number, one in fields(pathlib.Path(path).read_bytes()):
        if number == 2:
            kind, value = first(one, 1).decode(), first(one, 2) or b""
            found[kind, (first(value, 1) or b"").decode()] = value
    return found


def secret(name, chain=None, key=None, roots=None):
    """An encoded Secret: a certificate with its key, or roots."""
    out = field(1, name.encode())
    if roots:
        return out + field(4, field(1, field(2, roots)))
    return out + field(2, field(1, field(2, chain)) + field(2, field(2, key)))


class Feed:
    """tests/tools/xds_server: what it serves is what the last call said."""

    def __init__(self, binary):
        program = pathlib.Path(binary).resolve().parent / "tests" / "tools" / "xds_server"
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.have = {}

    def _say(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def serve(self, resources):
        """{(type, name): encoded resource}: all there is from now on."""
        lines = [f"del {t} {n}\n" for t, n in self.have if (t, n) not in resources]
        lines += [f"set {t} {n} {v.hex()}\n" for (t, n), v in resources.items() if self.have.get((t, n)) != v]
        self.have = dict(resources)
        self._say("".join(lines) + "commit\n")
        assert self.process.stdout.readline().startswith("committed")

    def status(self):
        """A dictionary per subscription; what was refused is at the end of its line."""
        self._say("status\n")
        told = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "end":
            assert line or self.process.poll() is None, "the xDS server is gone"
            if not line.startswith("node="):
                told[-1]["nack"] += "\n" + line  # reasons may have several lines
                continue
            head, _, nack = line.partition(" nack=")
            told.append({**dict(w.split("=", 1) for w in head.split(" ")), "nack": nack})
        return told

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(40) == 0
