# SPDX-License-Identifier: Apache-2.0
"""Deadlines hold for the whole request, however many attempts it takes."""
import socket
import struct
import subprocess
import threading

import pytest
from harness import gateway as gw
from harness.h2raw import frame
from harness.serve import Server
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

AUTHZ = gw.TYPE + "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
LATE = 6 * SLOW  # seconds until an answer comes that no deadline prevents


class Moody(Server):
    """HTTP/1.1, connections are kept. 'moods' says what happens to the next requests, then all hang."""

    def __init__(self):
        self.moods = []
        self.asked = 0
        self.cut = 0  # requests that were given up while they hung
        self.end = threading.Event()
        super().__init__()

    def close(self):
        self.end.set()
        super().close()

    def _serve(self, conn):
        try:
            with conn, conn.makefile("rb") as f:
                while f.readline():
                    length = 0
                    while (header := f.readline().strip()):
                        if header.lower().startswith(b"content-length:"):
                            length = int(header.split(b":")[1])
                    f.read(length)
                    if not self._answer(conn):
                        return
        except OSError:
            pass

    def _answer(self, conn):
        self.asked += 1
        mood = self.moods.pop(0) if self.moods else "hang"
        if mood == "die":
            return False
        if mood == "hang":
            conn.settimeout(LATE)
            try:
                gone = not conn.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                gone = False
            except OSError:
                gone = True
            self.cut += gone
            if gone or self.end.is_set():
                return False
            conn.settimeout(None)
        status = b"503 X" if mood == "503" else b"200 OK"
        conn.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
        return True


class MoodyH2(Moody):
    """The same over HTTP/2, one stream after the other; 'die' refuses the stream."""

    def _serve(self, conn):
        try:
            with conn, conn.makefile("rb") as f:
                f.read(24)
                conn.sendall(frame(4, 0, 0) + frame(4, 1, 0))
                while len(at := f.read(9)) == 9:
                    f.read(int.from_bytes(at[:3], "big"))
                    stream = int.from_bytes(at[5:9], "big")
                    if at[3] == 1:
                        self._answer_stream(conn, stream)
        except OSError:
            pass

    def _answer_stream(self, conn, stream):
        self.asked += 1
        mood = self.moods.pop(0) if self.moods else "hang"
        if mood == "die":
            conn.sendall(frame(3, 0, stream, struct.pack(">I", 7)))
        elif mood == "hang":
            late = threading.Timer(LATE, self._late, (conn, stream))
            late.daemon = True
            late.start()
        else:
            conn.sendall(frame(1, 5, stream, b"\x88" if mood == "ok" else b"\x0c\x03503"))

    @staticmethod
    def _late(conn, stream):
        try:
            conn.sendall(frame(1, 5, stream, b"\x88"))
        except OSError:
            pass


def limits(**extra):
    return {"retry_policy": {"retry_on": "5xx,reset", "num_retries": 3,
                             "retry_back_off": {"base_interval": "0.002s", "max_interval": "0.01s"}}, **extra}


class World:
    """One worker, a route for each kind of limit."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.h1, self.h2, self.copy, self.judge = Moody(), MoodyH2(), Moody(), Moody()
        self.port, self.asking, self.slow = gw.free_port(), gw.free_port(), gw.free_port()
        routes = []
        for kind in ("h1", "h2"):
            routes += [
                {"match": {"prefix": f"/{kind}/request"}, "route": limits(cluster=kind, timeout="1s")},
                {"match": {"prefix": f"/{kind}/plain"}, "route": {"cluster": kind, "timeout": "1s"}},
                {"match": {"prefix": f"/{kind}/idle"},
                 "route": limits(cluster=kind, timeout="0s", idle_timeout="1s")},
                {"match": {"prefix": f"/{kind}/longest"},
                 "route": limits(cluster=kind, timeout="0s",
                                 max_stream_duration={"max_stream_duration": "1s"})}]
        routes.append({"match": {"prefix": "/copy"}, "route": {
            "cluster": "h1", "timeout": "1s", "request_mirror_policies": [{"cluster": "copy"}]}})
        asked = gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "h1"}}])
        slow = gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "h1"}}], request_timeout="1s",
                      stream_idle_timeout="0s")
        for manager, more in ((asked, {}), (slow, {"with_request_body": {"max_request_bytes": 1000}})):
            manager["typed_config"]["http_filters"].insert(0, {"name": "authz", "typed_config": {
                "@type": AUTHZ, "http_service": {"server_uri": {
                    "uri": "http://judge", "cluster": "judge", "timeout": "1s"}}, **more}})
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("l", self.port, [{"filters": [gw.hcm(routes)]}]),
            gw.listener("asking", self.asking, [{"filters": [asked]}]),
            gw.listener("slow", self.slow, [{"filters": [slow]}]),
            gw.cluster("h1", [self.h1.port]), gw.cluster("copy", [self.copy.port]),
            gw.cluster("judge", [self.judge.port]), gw.cluster("h2", [self.h2.port], **gw.h2_options())], workers=1)

    def get(self, path, port=None):
        return subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time",
                               str(GUARD * SLOW), f"http://127.0.0.1:{port or self.port}{path}"],
                              stdout=subprocess.PIPE, check=False, text=True).stdout

    def close(self):
        try:
            self.gateway.stop()
        finally:
            for s in (self.h1, self.h2, self.copy, self.judge):
                s.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("timeouts"))
    yield world
    world.close()


def test_the_whole_request_must_come_in_time_while_a_filter_waits_for_its_body(w):
    """The first test: no timer of an exchange before it runs."""
    with socket.create_connection(("127.0.0.1", w.slow), timeout=GUARD * SLOW) as s:
        s.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf")
        assert s.makefile("rb").readline().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("kind", ["h1", "h2"])
@pytest.mark.parametrize("limit, status", [("request", "504"), ("idle", "408"), ("longest", "504")])
def test_a_limit_holds_after_a_retry(w, kind, limit, status):
    up = getattr(w, kind)
    before = up.asked
    up.moods = ["503"]
    assert w.get(f"/{kind}/{limit}") == status
    assert up.asked == before + 2


@pytest.mark.parametrize("kind", ["h1", "h2"])
def test_the_request_timeout_holds_after_a_repeated_request(w, kind):
    """Its kept connection had ended (HTTP/1.1), the stream was refused (HTTP/2): it is sent once more."""
    up = getattr(w, kind)
    up.moods = ["ok"]
    assert w.get(f"/{kind}/plain") == "200"
    before = up.asked
    up.moods = ["die"]
    assert w.get(f"/{kind}/plain") == "504"
    assert up.asked == before + 2


def test_the_timeout_of_a_copy_holds_after_a_repeated_request(w):
    w.h1.moods = ["ok"]
    w.copy.moods = ["ok"]
    assert w.get("/copy") == "200"
    until(lambda: w.copy.asked == 1, GUARD, "the copy")
    before = w.copy.cut
    w.h1.moods = ["ok"]
    w.copy.moods = ["die"]
    assert w.get("/copy") == "200"
    until(lambda: w.copy.asked == 3, GUARD, "the copy to be sent again")
    until(lambda: w.copy.cut > before, what="the copy to be given up")


def test_the_timeout_of_a_question_holds_after_a_repeated_request(w):
    w.h1.moods = ["ok"]
    w.judge.moods = ["ok"]
    assert w.get("/", w.asking) == "200"
    w.h1.moods = ["ok"]
    w.judge.moods = ["die"]
    assert w.get("/", w.asking) == "403"  # not answered in time: refused
    w.h1.moods = []
