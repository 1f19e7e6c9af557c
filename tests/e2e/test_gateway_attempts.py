# SPDX-License-Identifier: Apache-2.0
"""What the gateway sends a second time, what it never does, and that copies and later attempts are whole."""
import http.client
import http.server
import os
import signal
import socket
import struct
import subprocess
import threading

import pytest
from harness import gateway as gw
from harness.serve import Server
from harness.wait import SLOW, until

pytestmark = pytest.mark.tsan

AUTHZ = gw.TYPE + "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"


class Fickle(Server):
    """
    HTTP/1.1 with connections that are kept. /die is read whole and not answered, /ws refuses the first of its
    upgrades with 503 and takes the next, anything else is answered with 200 and the length of its body.
    """

    def __init__(self):
        self.deaths = 0
        self.upgrades = 0
        self.bodies = []
        self.heads = []
        self.together = threading.Barrier(3)
        self.conns = []
        self.forgotten = set()  # connections that end when something comes, as behind a balancer that forgot them
        super().__init__()

    def hang_up(self, word=b""):
        """Ends all connections, with a last word, and is sure that the other ends have heard of it."""
        for c in self.conns:
            try:
                c.sendall(word)
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.conns.clear()

    def _serve(self, conn):
        self.conns.append(conn)
        try:
            with conn, conn.makefile("rb") as f:
                while self._one(conn, f):
                    pass
        except (OSError, ValueError):
            pass

    def _one(self, conn, f):
        line = f.readline()
        if not line or conn in self.forgotten:
            return False
        fields = {}
        while (header := f.readline().strip()):
            name, _, value = header.decode().partition(":")
            fields[name.lower()] = value.strip()
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while (n := int(f.readline(), 16)):
                body += f.read(n)
                f.readline()
            f.readline()
        body += f.read(int(fields.get("content-length", 0)))
        self.heads.append((line, fields))
        if b" /die" in line:
            self.deaths += 1
            return False
        if b" /ws" in line:
            self.upgrades += 1
            if self.upgrades % 2:
                conn.sendall(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")
                return True
            conn.sendall(b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            while (data := f.read1(65536)):
                conn.sendall(data.upper())
            return False
        if b" /together" in line:
            self.together.wait(30 * SLOW)
        self.bodies.append(body)
        conn.sendall(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n")
        return True


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class FickleH2(Server):
    """Answers the first stream of a connection; closes when it has the next one whole. Or begins an answer only."""

    def __init__(self):
        self.deaths = 0
        self.begin = False
        self.polite = False  # says first which streams it has taken
        super().__init__()

    def _serve(self, conn):
        served = 0
        try:
            with conn, conn.makefile("rb") as f:
                f.read(24)
                conn.sendall(frame(4, 0, 0) + frame(4, 1, 0))
                while len(at := f.read(9)) == 9:
                    f.read(int.from_bytes(at[:3], "big"))
                    if at[3] > 1 or not at[4] & 1:
                        continue
                    if self.begin:
                        conn.sendall(frame(1, 4, int.from_bytes(at[5:9], "big"), b"\x88"))
                        continue
                    if served:
                        self.deaths += 1
                        if self.polite:
                            conn.sendall(frame(7, 0, 0, struct.pack(">II", 1, 0)))
                        return
                    served += 1
                    conn.sendall(frame(1, 5, int.from_bytes(at[5:9], "big"), b"\x88"))
        except OSError:
            pass


class Shy(Server):
    """Answers one request of a connection with 200, and ends when the next one comes."""

    def __init__(self):
        self.asked = 0
        super().__init__()

    def _serve(self, conn):
        with conn, conn.makefile("rb") as f:
            for answer in (b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n", b""):
                if not f.readline():
                    return
                while f.readline().strip():
                    pass
                self.asked += 1
                conn.sendall(answer)


class Guard(http.server.BaseHTTPRequestHandler):
    """Lets everything pass once it is told to."""
    protocol_version = "HTTP/1.1"
    asked = threading.Event()
    go = threading.Event()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.set()
        self.go.wait(30 * SLOW)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def ask(manager, cluster):
    """Puts a question to the cluster before everything else."""
    manager["typed_config"]["http_filters"].insert(0, {"name": "authz", "typed_config": {
        "@type": AUTHZ, "http_service": {"server_uri": {
            "uri": "http://guard", "cluster": cluster, "timeout": "60s"}}}})


class World:
    """One worker: the connection that served one request is the one for the next."""

    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.h1, self.h2, self.shadow = Fickle(), FickleH2(), Fickle()
        self.guard = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
        threading.Thread(target=self.guard.serve_forever, daemon=True).start()
        self.shy = Shy()
        self.port, self.guarded, self.shyly = gw.free_port(), gw.free_port(), gw.free_port()
        retry = {"retry_on": "retriable-status-codes", "retriable_status_codes": [503], "num_retries": 2}
        plain = gw.hcm([
            {"match": {"prefix": "/ws"}, "route": {"cluster": "h1", "retry_policy": retry}},
            {"match": {"prefix": "/h2"}, "route": {"cluster": "h2", "prefix_rewrite": "/"}},
            {"match": {"prefix": "/"}, "route": {"cluster": "h1"}}])
        mirrored = gw.hcm([{"match": {"prefix": "/"}, "route": {
            "cluster": "h1", "request_mirror_policies": [{"cluster": "shadow"}]}}])
        ask(mirrored, "guard")
        shyly = gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "h1"}}])
        ask(shyly, "shy")
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("l", self.port, [{"filters": [plain]}]),
            gw.listener("guarded", self.guarded, [{"filters": [mirrored]}]),
            gw.listener("shyly", self.shyly, [{"filters": [shyly]}]), gw.cluster("shy", [self.shy.port]),
            gw.cluster("h1", [self.h1.port]), gw.cluster("shadow", [self.shadow.port]),
            gw.cluster("guard", [self.guard.server_port]),
            gw.cluster("h2", [self.h2.port], **gw.h2_options())], workers=1)

    def connect(self, port=None):
        return http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=40 * SLOW)

    def ask(self, method, path, body=None, port=None):
        c = self.connect(port)
        c.request(method, path, body)
        status = c.getresponse().status
        c.close()
        return status

    def close(self):
        try:
            self.gateway.stop()
        finally:
            for s in (self.h1, self.h2, self.shadow, self.shy):
                s.close()
            self.guard.shutdown()
            self.guard.server_close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("attempts"))
    yield world
    world.close()


@pytest.mark.parametrize("method, times", [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1),
                                           ("LOCK", 1)])
@pytest.mark.parametrize("kind", ["h1", "h2"])
def test_only_what_may_be_done_twice_is_sent_twice(w, kind, method, times):
    """A used connection that ends without an answer may have been idle too long; its server may also have acted."""
    up, path = (w.h1, "/die") if kind == "h1" else (w.h2, "/h2")
    assert w.ask("GET", "/ok" if kind == "h1" else "/h2") == 200
    before = up.deaths
    status = w.ask(method, path, b"pay 10" if method != "GET" else None)
    if kind == "h2" and times == 2:
        assert status == 200  # the first stream of a new connection
        times = 1
    else:
        assert status == 503
    assert up.deaths - before == times


def test_what_was_not_taken_is_sent_again(w):
    """An HTTP/2 server that leaves says which streams it has looked at: the others are anybody's, even a POST."""
    w.h2.polite = True
    try:
        assert w.ask("GET", "/h2") == 200
        before = w.h2.deaths
        assert w.ask("POST", "/h2", b"pay 10") == 200
        assert w.h2.deaths == before + 1
    finally:
        w.h2.polite = False


@pytest.mark.parametrize("word", [b"", b"HTTP/1.1 408 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"],
                         ids=["silent", "408"])
def test_a_connection_that_ended_before_is_not_used(w, word):
    """Though the gateway learns of that end and of the request at the same time: nothing has to be sent twice."""
    assert w.ask("GET", "/ok") == 200
    clients = [w.connect() for _ in range(8)]
    for c in clients:
        c.connect()
    for c in clients:
        w.h1.bodies.clear()
        c.request("POST", "/ok", b"first")
        assert c.getresponse().read() == b""
        os.kill(w.gateway.process.pid, signal.SIGSTOP)
        until(lambda: os.waitid(os.P_PID, w.gateway.process.pid, os.WSTOPPED | os.WNOHANG), interval=0.001)
        c.request("POST", "/ok", b"second")
        w.h1.hang_up(word)
        os.kill(w.gateway.process.pid, signal.SIGCONT)
        r = c.getresponse()
        assert (r.status, r.read()) == (200, b"")
        assert w.h1.bodies == [b"first", b"second"]
        c.close()


def test_a_request_that_kills_does_not_go_from_connection_to_connection(w):
    """However many connections wait in the pool."""
    kept = [threading.Thread(target=w.ask, args=("GET", "/together")) for _ in range(3)]
    for t in kept:
        t.start()
    for t in kept:
        t.join()
    before = w.h1.deaths
    assert w.ask("GET", "/die") == 503
    assert w.h1.deaths - before == 2


def test_a_second_attempt_does_not_meet_another_dead_connection(w):
    """Where one connection of the pool is dead, the others mostly are, too: the request gets a new one."""
    kept = [threading.Thread(target=w.ask, args=("GET", "/together")) for _ in range(3)]
    for t in kept:
        t.start()
    for t in kept:
        t.join()
    w.h1.forgotten = set(w.h1.conns)
    try:
        assert w.ask("GET", "/ok") == 200
        assert w.ask("GET", "/ok") == 200
    finally:
        w.h1.forgotten = set()
        w.h1.hang_up()


def test_an_upgrade_that_is_tried_again_is_open_both_ways(w):
    w.h1.upgrades = 0
    with socket.create_connection(("127.0.0.1", w.port), timeout=40 * SLOW) as s:
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        f = s.makefile("rb")
        assert f.readline().startswith(b"HTTP/1.1 101 ")
        while f.readline().strip():
            pass
        s.sendall(b"hello")
        assert f.read(5) == b"HELLO"
        s.shutdown(socket.SHUT_WR)
        assert f.read() == b""
    assert w.h1.upgrades == 2


@pytest.mark.parametrize("late", [b"", b"and the rest"], ids=["whole", "in-two-parts"])
def test_a_mirror_gets_what_came_while_the_request_waited(w, late):
    """The body arrives while authorisation is asked for: the copy begins after that and has it all the same."""
    Guard.go.clear()
    Guard.asked.clear()
    w.shadow.bodies.clear()
    w.h1.bodies.clear()
    body = b"x" * 5000
    c = w.connect(w.guarded)
    c.putrequest("POST", "/copy")
    c.putheader("content-length", str(len(body + late)))
    c.endheaders(body)
    assert Guard.asked.wait(40 * SLOW)
    assert w.ask("GET", "/ok") == 200  # the body was read before that
    Guard.go.set()
    if late:
        c.send(late)
    assert c.getresponse().status == 200
    c.close()
    until(lambda: w.shadow.bodies, 10, "the copy")
    assert w.h1.bodies == [b"", body + late] and w.shadow.bodies == [body + late]


@pytest.mark.parametrize("method, length", [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", None),
                                            ("DELETE", None)])
@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_requests_without_a_body_say_so_where_one_is_usual(w, version, method, length):
    """Servers answer a POST that says nothing of its length with 411."""
    subprocess.run(["curl", "-sSf", "--max-time", "40", version, "-X", method, "-o", "/dev/null",
                    f"http://127.0.0.1:{w.port}/none"], check=True)
    line, fields = w.h1.heads[-1]
    assert line.split()[0] == method.encode() and fields.get("content-length") == length
    assert "transfer-encoding" not in fields


def test_the_head_of_an_answer_does_not_wait_for_its_body(w):
    """From one HTTP/2 connection to another, on which nothing else happens."""
    w.h2.begin = True
    text = b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in (
        (b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/h2"), (b":authority", b"a")))
    try:
        with socket.create_connection(("127.0.0.1", w.port), timeout=40 * SLOW) as s, s.makefile("rb") as f:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))

            def kind():
                at = f.read(9)
                f.read(int.from_bytes(at[:3], "big"))
                return at[3], at[4]
            while kind() != (4, 1):  # the greeting is over when our settings are acknowledged
                pass
            s.sendall(frame(4, 1, 0) + frame(6, 0, 0, b"quiet..."))
            while kind() != (6, 1):
                pass
            s.sendall(frame(1, 5, 1, text))
            while kind()[0] != 1:
                pass
    finally:
        w.h2.begin = False


def test_questions_are_asked_again(w):
    """Whether a POST is allowed may be asked twice, though it may not be done twice."""
    assert [w.ask("POST", "/ok", b"x", w.shyly) for _ in range(4)] == [200] * 4
    assert w.shy.asked > 4
