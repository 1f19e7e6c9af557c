# SPDX-License-Identifier: Apache-2.0
"""A body that is still arriving while the gateway waits before its next attempt reaches the next host whole."""
import http.client
import socket
import struct
import time

import pytest
from harness import fabric as fb
from harness.serve import Server
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

PIECES = [b"one " * 200, b"two " * 300, b"three " * 400, b"four " * 100]


class Fickle(Server):
    """Breaks the first connection that asks for /retry as soon as it has the head; then answers with what it got."""

    def __init__(self):
        self.broken = 0
        super().__init__()

    def _serve(self, conn):
        with conn, conn.makefile("rb") as f:
            line = f.readline()
            length = 0
            chunked = False
            while (header := f.readline()) not in (b"\r\n", b""):
                name, _, value = header.decode().partition(":")
                if name.lower() == "content-length":
                    length = int(value)
                chunked |= name.lower() == "transfer-encoding"
            if b" /retry" in line and not self.broken:
                self.broken += 1
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            body = b""
            while chunked and (n := int(f.readline(), 16)):
                body += f.read(n)
                f.readline()
            body += f.read(length)
            conn.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture(scope="module", name="world")
def _world(binary, tmp_path_factory):
    f = fb.Fabric(binary, tmp_path_factory.mktemp("retry"), "--gateway-port-offset", "8000")
    backend = Fickle()
    f.service("web", [backend.port])
    f.gateway_object("edge", [("http", "HTTP", 80)])
    rule = fb.prefix("/", fb.to("web"))
    rule["retry"] = {"attempts": 3, "codes": [503], "backoff": "400ms"}
    f.apply(fb.route("all", "edge", [rule]))
    f.start_gateway()
    f.programmed("edge")

    def serves():
        c = http.client.HTTPConnection("127.0.0.1", 8080, timeout=GUARD)
        try:
            c.request("GET", "/")
            return c.getresponse().status == 200
        except OSError:
            return False
        finally:
            c.close()
    until(serves, 15, "the route")
    yield backend
    f.close()
    backend.close()


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_in_pieces_over_a_retry(world, chunked):
    world.broken = 0
    whole = b"".join(PIECES)
    c = http.client.HTTPConnection("127.0.0.1", 8080, timeout=GUARD)
    c.putrequest("POST", "/retry")
    if chunked:
        c.putheader("transfer-encoding", "chunked")
    else:
        c.putheader("content-length", str(len(whole)))
    c.endheaders()
    for piece in PIECES:
        c.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        time.sleep(0.1)
    if chunked:
        c.send(b"0\r\n\r\n")
    r = c.getresponse()
    assert (r.status, r.read()) == (200, whole)
    assert world.broken == 1
    c.close()
