# SPDX-License-Identifier: Apache-2.0
"""The relay: real iroh endpoints, a client written from the protocol, our own client, and abuse."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest

from harness import netns
from harness.fabric import make_cert
from harness.relay import Client, Relay, http
from harness.wait import guard, stays, until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
BUILD = os.environ.get("SPANWIRE_BUILD", CLIENTS.parent.parent.parent / "build")
LOAD = os.path.join(BUILD, "tests/tools/relay_load")
IROH = CLIENTS / "node_modules/@number0/iroh"


@pytest.fixture(scope="module")
def relay(topology, binary, tmp_path_factory):
    del topology
    r = Relay(binary, tmp_path_factory.mktemp("relay"))
    yield r
    assert r.stop() == 0
    assert "Sanitizer" not in r.said()


def two(relay, **kw):
    return Client(relay).login(**kw), Client(relay).login(**kw)


# ---- pages ----

def test_pages(relay):
    head, body = http(relay.host, relay.port, "/ping")
    assert head.startswith("HTTP/1.1 200 ") and "Access-Control-Allow-Origin: *" in head and body == ""
    assert json.loads(http(relay.host, relay.port, "/healthz")[1])["status"] == "ok"
    head, body = http(relay.host, relay.port, "/generate_204", "X-Iroh-Challenge: ts_a.b-c\r\n")
    assert head.startswith("HTTP/1.1 204 ") and "X-Iroh-Response: response ts_a.b-c" in head
    head, _ = http(relay.host, relay.port, "/generate_204", "X-Iroh-Challenge: a b\r\n")
    assert "X-Iroh-Response" not in head
    assert json.loads(http(relay.host, relay.port, "/observed")[1])["address"].startswith("127.0.0.1:")
    for page in ("/", "/index.html", "/robots.txt"):
        assert http(relay.host, relay.port, page)[0].startswith("HTTP/1.1 200 ")
    assert http(relay.host, relay.port, "/x")[0].startswith("HTTP/1.1 404 ")
    assert http(relay.host, relay.port, "/ping", method="DELETE")[0].startswith("HTTP/1.1 405 ")


# ---- the upgrade ----

@pytest.mark.parametrize("kw", [
    {"version": "12"}, {"key": "short"}, {"protocols": "chat"},
    {"fields": "X-Iroh-Relay-Client-Auth-V1: nonsense\r\n"},
], ids=["version", "key", "protocol", "auth header"])
def test_upgrades_that_are_refused(relay, kw):
    c = Client(relay)
    head = c.upgrade(**kw)
    assert head.startswith("HTTP/1.1 400 ")
    assert ("Sec-WebSocket-Version: 13" in head) == ("version" in kw)


def test_bytes_before_the_answer_are_refused(relay):
    before = relay.metric("refusals", reason="upgrade")
    c = Client(relay)
    c.s.sendall(c.request() + b"\x82\x80\0\0\0\0")
    assert c.head().startswith("HTTP/1.1 400 ")
    until(lambda: relay.metric("refusals", reason="upgrade") == before + 1)
    until(lambda: "bytes before the upgrade was answered" in relay.said())


def test_versions(relay):
    assert "Sec-WebSocket-Protocol: iroh-relay-v2" in Client(relay).upgrade()
    assert "Sec-WebSocket-Protocol: iroh-relay-v1" in Client(relay).upgrade(protocols="iroh-relay-v1, x")


# ---- proof ----

def test_a_wrong_signature_is_denied(relay):
    c = Client(relay)
    c.upgrade()
    assert c.message()[0] == 0
    c.answer(bytes(16))
    assert c.message() == b"\x03\x11signature invalid"
    assert c.close_code() == 1008
    until(lambda: "signature invalid" in relay.said())


def test_nothing_else_is_heard_before_the_proof(relay):
    c = Client(relay)
    c.upgrade()
    c.message()
    c.frame(b"\x09" + b"12345678")
    assert c.close_code() == 1002


def test_a_client_that_says_nothing_is_sent_away(make_relay):
    r = make_relay("--establish-timeout", "4s")  # we have to come to the upgrade in time
    silent = socket.create_connection((r.host, r.port))
    silent.settimeout(guard(10))
    c = Client(r)
    c.upgrade()
    c.message()
    assert silent.recv(100) == b""
    assert c.close_code() == 1008
    until(lambda: r.metric("refusals", reason="timeout") == 2)


# ---- traffic ----

def test_datagrams_batches_and_pings(relay):
    a, b = two(relay)
    a.send(b.id, b"hello", ecn=3)
    assert b.message() == b"\x06" + a.id + b"\x03hello"
    b.send(a.id, b"x" * 2500, ecn=1, segment=1200)
    assert a.message() == b"\x07" + b.id + b"\x01" + struct.pack(">H", 1200) + b"x" * 2500
    a.frame(b"\x09abcdefgh")
    assert a.message() == b"\x0aabcdefgh"
    big = os.urandom(65536 - 35)
    a.send(b.id, big, segment=1400)
    assert b.message()[36:] == big


def test_unknown_destinations_are_dropped_silently(relay):
    a, b = two(relay)
    before = relay.metric("relay_send_packets_dropped", reason="unknown")
    a.send(os.urandom(32), b"into the void")
    a.send(bytes(32), b"and to nobody")
    a.send(b.id, b"still here")
    assert b.message(6)[34:] == b"still here"
    until(lambda: relay.metric("relay_send_packets_dropped", reason="unknown") == before + 2)


def test_a_message_in_fragments_and_a_text(relay):
    a, b = two(relay)
    frame = b"\x04" + b.id + b"\x00" + b"in pieces"
    a.frame(frame[:5], fin=False)
    a.frame(b"hm", op=1 + 8)
    a.frame(frame[5:], op=0)
    assert b.message()[34:] == b"in pieces"
    a.frame(b"text is skipped", op=1)
    a.send(b.id, b"next")
    assert b.message()[34:] == b"next"


@pytest.mark.parametrize("what,code", [("unknown", 1002), ("direction", 1002), ("large", 1009),
                                       ("unmasked", 1002), ("again", 1002), ("empty", 1002)])
def test_what_ends_a_connection(relay, what, code):
    a, b = two(relay)
    before = relay.metric("refusals", reason="protocol")
    if what == "unknown":
        a.frame(b"\x2a\x00")
    elif what == "direction":
        a.frame(b"\x06" + b.id + b"\x00x")
    elif what == "large":
        a.frame(b"\x04" + b.id + bytes(70000))
    elif what == "unmasked":
        a.frame(b"\x09" + bytes(8), mask=b"")
    elif what == "again":
        a.frame(b"\x01" + a.id + b"\x40" + bytes(64))
    else:
        a.frame(b"")
    assert a.close_code() == code
    until(lambda: relay.metric("refusals", reason="protocol") == before + 1)
    b.frame(b"\x09abcdefgh")
    assert b.message() == b"\x0aabcdefgh"


@pytest.mark.tsan
def test_those_it_sent_to_hear_that_it_went(relay):
    a, b = two(relay)
    c = Client(relay).login()
    a.send(b.id, b"1")
    a.send(c.id, b"2")
    assert b.message(6) and c.message(6)
    a.close()
    assert b.message() == b"\x08" + a.id
    assert c.message() == b"\x08" + a.id


@pytest.mark.tsan
def test_the_newest_connection_of_an_id_has_the_traffic(relay):
    seed = os.urandom(32)
    peer = Client(relay).login()
    old = Client(relay, seed).login()
    new = Client(relay, seed).login()
    assert old.message() == b"\x0d\x01"
    peer.send(new.id, b"to the new one")
    assert new.message(6)[34:] == b"to the new one"
    old.send(peer.id, b"may still send")
    assert peer.message(6)[34:] == b"may still send"
    new.close()
    assert old.message() == b"\x0d\x00"
    peer.send(old.id, b"back again")
    assert old.message(6)[34:] == b"back again"


def test_version_1_says_it_in_words(relay):
    seed = os.urandom(32)
    old = Client(relay, seed).login(protocols="iroh-relay-v1")
    Client(relay, seed).login()
    p = old.message()
    assert p[0] == 11 and b"same id" in p
    assert old.message() == b"\x0b"


def test_a_client_that_does_not_read_is_dropped_for_and_then_disconnected(make_relay):
    r = make_relay("--write-timeout", "5s", "--queue", "64")  # the queue has to be full before that is over
    a, b = two(r)
    b.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(600):
        a.send(b.id, bytes(60000))
    until(lambda: r.metric("relay_send_packets_dropped", reason="queue") > 0, 10)
    until(lambda: r.metric("relay_clients") == 1, 10)
    until(lambda: r.metric("refusals", reason="write_timeout") == 1)
    a.frame(b"\x09abcdefgh")
    assert a.message(10) == b"\x0aabcdefgh"


def test_a_client_that_asks_and_does_not_read_is_ended(make_relay):
    r = make_relay("--write-timeout", "30s")
    a, b = two(r)
    pings = b"\x82\x89\0\0\0\0\x09abcdefgh" * 65536
    with contextlib.suppress(OSError):
        for _ in range(60):
            a.s.sendall(pings)
    until(lambda: r.metric("refusals", reason="flood") == 1)
    until(lambda: r.metric("relay_clients") == 1)
    b.frame(b"\x09abcdefgh")
    assert b.message(10) == b"\x0aabcdefgh"


def test_rate_limit_slows_reading_and_says_so_once(make_relay):
    r = make_relay("--rate-limit", 200_000, "--rate-burst", 20_000)
    a, b = two(r)
    start = time.monotonic()
    for _ in range(20):
        a.send(b.id, bytes(10_000))
    for _ in range(20):
        b.message(6)
    assert time.monotonic() - start > 0.5
    a.frame(b"\x09abcdefgh")
    assert a.message() == b"\x0d\x02"
    assert a.message() == b"\x0aabcdefgh"
    until(lambda: r.metric("relay_conns_rx_ratelimited") == 1)
    assert r.metric("relay_send_packets_dropped", reason="queue") == 0


# ---- access ----

def admitted(r, seed):
    """Logs in as soon as every worker has the new lists; they get them one after the other."""
    def try_it():
        with contextlib.suppress(AssertionError):
            return Client(r, seed).login()
    until(try_it, what="the id to be admitted")
    for _ in range(8):
        Client(r, seed).login().close()


def denied(r, c, **kw):
    c.upgrade(**kw)
    c.answer(c.message()[1:])
    p = c.message()
    assert p[0] == 3, p
    return p[2:].decode()


def logged(relay, why):
    """A line says which client was rejected, and why."""
    def text():
        return pathlib.Path(relay.log).read_text()
    until(lambda: re.search(rf"refused \(denied\): 127\.0\.0\.1:\d+ [0-9a-f]{{64}}: {why}", text()), what=lambda: text()[-2000:])


@pytest.mark.tsan
def test_lists_of_ids_and_their_change(make_relay, tmp_path):
    allow, deny = tmp_path / "allow", tmp_path / "deny"
    seeds = [os.urandom(32) for _ in range(3)]
    probe = type("R", (), {"host": "127.0.0.1", "port": 0})
    ids = [Client(probe, s, socket.socket()).id.hex() for s in seeds]
    allow.write_text(f"# ours\n{ids[0]}\n{ids[1]}\n")
    deny.write_text(ids[1] + "\n")
    r = make_relay("--allow-file", allow, "--deny-file", deny)
    a = Client(r, seeds[0]).login()
    assert denied(r, Client(r, seeds[1])) == "id is denied"
    assert denied(r, Client(r, seeds[2])) == "id is not allowed"
    deny.write_text(ids[0] + "\n")
    assert a.close_code() == 1008
    admitted(r, seeds[1])
    deny.write_text("not an id\n")
    until(lambda: "deny:1" in r.said())
    for _ in range(4):
        Client(r, seeds[1]).login()


def test_tokens(make_relay, tmp_path):
    (tmp_path / "tokens").write_text("one\ntwo words\n")
    cert, key = make_cert(tmp_path, "relay")
    r = make_relay("--token-file", tmp_path / "tokens", tls=(cert, key))
    Client(r).login(fields="Authorization: Bearer one\r\n")
    Client(r).login(path="/relay?token=two%20words")
    assert denied(r, Client(r)) == "not authorized"
    assert denied(r, Client(r), fields="Authorization: Bearer on\r\n") == "not authorized"
    until(lambda: r.metric("refusals", reason="denied") == 2)
    logged(r, "no token")
    logged(r, "wrong token")
    done = subprocess.run([LOAD, "bulk", f"https://127.0.0.1:{r.tls_port}/", "0.2"],
                          env={**os.environ, "RELAY_TOKEN": "one", "RELAY_CA": cert}, capture_output=True, text=True, timeout=guard(60), check=True)
    assert json.loads(done.stdout)["wrong"] == 0


def test_access_by_question(make_relay, tmp_path):
    """The client learns that it may not connect, the log why: 'no', no answer, no token to ask with."""
    import http.server
    import threading
    seen = []
    token = tmp_path / "token"
    token.write_text("ask\n")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.headers["X-Iroh-Endpoint-Id"] == self.headers["X-Iroh-NodeId"]
            assert self.headers["Authorization"] == "Bearer ask"
            seen.append(self.headers["X-Iroh-Endpoint-Id"])
            body = b"true" if self.headers["X-Iroh-NodeId"] in allowed else b"false"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    r = make_relay("--access-url", f"http://127.0.0.1:{server.server_port}/may", "--access-token-file", token)
    yes = Client(r)
    allowed = {yes.id.hex()}
    try:
        yes.login()
        assert denied(r, Client(r)) == "not authorized"
        logged(r, "--access-url: answer 200 without 'true'")
    finally:
        server.shutdown()
        server.server_close()
    assert denied(r, Client(r)) == "not authorized"
    logged(r, "--access-url: .*Connection refused")
    token.unlink()
    assert denied(r, Client(r)) == "not authorized"
    logged(r, "--access-token-file: ")
    assert seen[0] == yes.id.hex()


def test_lists_that_change_while_the_access_url_is_asked(make_relay, tmp_path):
    """A key that was denied meanwhile does not come in by an older question."""
    import http.server
    import threading
    deny = tmp_path / "deny"
    deny.write_text("")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            deny.write_text(self.headers["X-Iroh-Endpoint-Id"] + "\n")
            until(lambda: "configuration files reloaded" in pathlib.Path(r.log).read_text())
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    r = make_relay("--access-url", f"http://127.0.0.1:{server.server_port}/may", "--deny-file", deny)
    try:
        assert denied(r, Client(r)) == "id is denied"
    finally:
        server.shutdown()
        server.server_close()


def test_max_clients(make_relay):
    r = make_relay("--max-clients", 2)
    a, b = two(r)
    c = Client(r)
    assert c.s.recv(100) == b""
    until(lambda: r.metric("refusals", reason="max_clients") == 1)
    a.close()
    until(lambda: r.metric("relay_clients") == 1)

    def room():
        with contextlib.suppress(AssertionError, OSError):
            return Client(r).login()
    until(room)
    b.frame(b"\x09abcdefgh")
    assert b.message() == b"\x0aabcdefgh"


def test_strangers_lock_nobody_out(make_relay):
    """As many connections as there may be that prove nothing, or keys that may not be here: devices get in all the same."""
    r = make_relay("--max-clients", 20)
    a = Client(r).login()
    idle = []
    for i in range(40):
        s = socket.create_connection((r.host, r.port))
        idle.append(s)
        if i % 2:
            s.sendall(Client(r, sock=s).request())
    b = Client(r).login()
    a.frame(b"\x09abcdefgh")
    assert a.message() == b"\x0aabcdefgh"
    b.frame(b"\x09abcdefgh")
    assert b.message() == b"\x0aabcdefgh"
    until(lambda: r.metric("refusals", reason="evicted") >= 22)
    assert r.metric("refusals", reason="max_clients") == 0
    for s in idle:
        s.close()


def test_refused_strangers_lock_nobody_out(make_relay):
    """Refused connections stay for the peer to read why, and strangers do not close theirs: devices get in meanwhile."""
    r = make_relay("--max-clients", 20)
    a = Client(r).login()
    refused = []
    for _ in range(40):
        s = socket.create_connection((r.host, r.port))
        s.sendall(b"no request\r\n\r\n")
        refused.append(s)
    until(lambda: r.metric("refusals", reason="http") >= 19)
    b = Client(r).login()
    for c in (a, b):
        c.frame(b"\x09abcdefgh")
        assert c.message() == b"\x0aabcdefgh"
    assert r.metric("refusals", reason="max_clients") == 0
    for s in refused:
        s.close()


def test_refusals_do_not_fill_the_log(make_relay):
    """Strangers get a burst of lines and then ten a second; those with a proved key have lines of their own."""
    r = make_relay("--workers", 1)
    for _ in range(150):
        with socket.create_connection((r.host, r.port)) as s:
            s.sendall(b"no request\r\n\r\n")
            s.recv(1000)
    assert r.metric("refusals", reason="http") == 150
    c = Client(r).login()
    c.frame(b"\x00")
    until(lambda: "refused (protocol)" in r.said())
    assert r.said().count("refused (http)") < 140
    time.sleep(0.2)
    with socket.create_connection((r.host, r.port)) as s:
        s.sendall(b"no request\r\n\r\n")
        s.recv(1000)
    until(lambda: "suppressed_lines" in r.said())


def test_strangers_of_other_workers_make_room(make_relay):
    """A worker that has nobody to close has a worker close one that has: each client comes to a worker that it cannot choose."""
    r = make_relay("--max-clients", 6, "--workers", 8)
    idle = [socket.create_connection((r.host, r.port)) for _ in range(6)]
    until(lambda: r.metric("relay_http_connections") == 6)
    for _ in range(24):
        idle.append(socket.create_connection((r.host, r.port)))
        assert http(r.host, r.port, "/ping")[0].startswith("HTTP/1.1 200 ")
    assert r.metric("refusals", reason="max_clients") == 0
    for s in idle:
        s.close()


# ---- the end ----

@pytest.mark.tsan
def test_drain_tells_everybody(make_relay):
    r = make_relay()
    a, b = two(r)
    r.p.send_signal(signal.SIGTERM)
    p = a.message()
    assert p[0] == 12 and len(p) == 9
    assert a.close_code() == 1001
    assert b.message()[0] == 12
    b.close()
    a.close()
    assert r.p.wait(guard(10)) == 0


@pytest.mark.parametrize("args,words", [
    ([], "one of --listen and --tls-listen"),
    (["--tls-listen", "127.0.0.1:0"], "--tls-listen needs --cert and --key"),
    (["--listen", "192.0.2.1:80", "--open"], "192.0.2.1:80"),
    (["--listen", "127.0.0.1:0"], "no access rule"),
    (["--listen", "127.0.0.1:0", "--deny-file", "/dev/null"], "no access rule"),
    (["--listen", "127.0.0.1:0", "--kubeconfig", "/nonexistent"], "/nonexistent"),
    (["--listen", "127.0.0.1:0", "--open", "--qad-listen", "192.0.2.1:7842"], "192.0.2.1:7842"),
    (["--listen", "127.0.0.1:0", "--allow-file", "/nonexistent"], "/nonexistent"),
    (["--listen", "127.0.0.1:0", "--access-url", "ftp://x"], "--access-url"),
    (["--listen", "127.0.0.1:0", "--access-url", "http://x", "--access-token-file", "/nonexistent"], "--access-token-file"),
])
def test_it_does_not_start(topology, binary, args, words):
    del topology
    done = subprocess.run([binary, "relay", *args, "--stats-addr", "127.0.0.1:0", "--ready-addr",
                           "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"], capture_output=True, text=True,
                          timeout=guard(20), check=False)
    assert done.returncode == 1
    assert words in done.stderr and "Sanitizer" not in done.stderr


# ---- our own client ----

def load(*args, **env):
    done = subprocess.run([LOAD, *map(str, args)], env={**os.environ, **env}, capture_output=True,
                          text=True, timeout=guard(120), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def moves(url, seconds, pairs, **env):
    """A megabyte, none of it wrong; in as many runs as the machine needs for it."""
    total = 0

    def enough():
        nonlocal total
        got = load("bulk", url, seconds, pairs, **env)
        assert got["wrong"] == 0 and got["lost"] == 0, got
        total += got["bytes"]
        return total > 1_000_000
    until(enough)


@pytest.mark.tsan
def test_our_client_moves_packets(relay):
    moves(relay.url, 0.5, 4)


def test_tls_and_a_new_certificate(make_relay, tmp_path):
    cert, key = make_cert(tmp_path, "first")
    r = make_relay(tls=(cert, key))
    url = f"https://127.0.0.1:{r.tls_port}/"
    moves(url, 0.3, 2, RELAY_CA=cert)
    new_cert, new_key = make_cert(tmp_path, "second")
    shutil.copy(new_key, key)
    shutil.copy(new_cert, cert)
    until(lambda: "configuration files reloaded" in r.said())
    want = ssl.PEM_cert_to_DER_cert(pathlib.Path(new_cert).read_text(encoding="ascii"))

    def shown():
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", r.tls_port)))
    until(lambda: all(shown() == want for _ in range(8)), what="every worker to have it")
    until(lambda: load("ping", url, 0.2, RELAY_CA=new_cert)["n"] > 0)
    curl = subprocess.run(["curl", "-s", "--cacert", new_cert, "-i", url + "ping"],
                          capture_output=True, text=True, timeout=guard(20), check=True)
    assert "Strict-Transport-Security" in curl.stdout


def test_many_idle_clients_cost_little(make_relay):
    r = make_relay()
    n = 1000
    with subprocess.Popen([LOAD, "idle", r.url, str(n)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as p:
        assert json.loads(p.stdout.readline()) == {"up": n, "lost": 0}
        until(lambda: r.metric("relay_clients") == n)
        p.stdin.close()
        assert json.loads(p.stdout.readline()) == {"up": n, "lost": 0}
    until(lambda: r.metric("relay_clients") == 0)


# ---- the real iroh ----

needs_iroh = pytest.mark.skipif(not IROH.exists(), reason="npm's @number0/iroh is not installed")


def iroh(*args, ns=None, **env):
    argv = ["node", str(CLIENTS / "iroh_relay.mjs"), *map(str, args)]
    if ns:
        argv = ["ip", "netns", "exec", ns, *argv]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=CLIENTS,
                            env={**os.environ, **env})


def say(p):
    return json.loads(p.stdout.readline() or '{"what": "end"}')


@needs_iroh
def test_iroh_recovers_when_the_relay_was_killed(make_relay):
    r = make_relay()
    with iroh("pair", r.url, 300_000, STAY_MS="600000") as p:
        try:
            assert say(p)["ok"], "online"
            got = say(p)
            # By the relay at first; on one machine they soon find a direct path as well.
            assert got["ok"] and got["bytes"] == 300_000 and any(got["relay"])
            r.stop(signal.SIGKILL)
            time.sleep(0.5)
            r.start()
            until(lambda: r.metric("relay_clients") == 2, 40)
            p.send_signal(signal.SIGUSR1)
            got = say(p)
            assert got.get("ok") and got["bytes"] == 300_000, got
        finally:
            p.kill()


@needs_iroh
def test_iroh_sees_its_token_checked(make_relay, tmp_path):
    (tmp_path / "tokens").write_text("sesame\n")
    r = make_relay("--token-file", tmp_path / "tokens")
    with iroh("pair", r.url, 1000, RELAY_TOKEN="sesame") as p:
        assert say(p)["ok"]
        assert say(p)["ok"]
        p.kill()


@pytest.fixture
def islands():
    """Two namespaces that reach this one, and each other not at all."""
    made = []
    for i in (1, 2):
        name = f"island{i}"
        netns.run("ip", "netns", "add", name)
        netns.run("ip", "link", "add", f"isl{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
        netns.run("ip", "addr", "add", f"10.99.{i}.1/24", "dev", f"isl{i}")
        netns.run("ip", "link", "set", f"isl{i}", "up")
        for words in (["addr", "add", f"10.99.{i}.2/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                      ["link", "set", "lo", "up"], ["route", "add", "10.98.0.1", "via", f"10.99.{i}.1"]):
            netns.run("ip", "-n", name, *words)
        made.append(name)
    netns.run("ip", "addr", "add", "10.98.0.1/32", "dev", "lo")
    yield made
    netns.run("ip", "addr", "del", "10.98.0.1/32", "dev", "lo")
    for name in made:
        netns.run("ip", "netns", "del", name)


@needs_iroh
def test_iroh_moves_bytes_by_the_relay_alone(make_relay, islands):
    r = make_relay(host="10.98.0.1")
    with iroh("serve", r.url, ns=islands[0], STAY_MS="600000") as server:
        try:
            ident = say(server)
            assert ident["what"] == "serving"
            with iroh("dial", r.url, 3_000_000, ident["id"], ns=islands[1]) as client:
                got = say(client)
                assert got.get("ok") and got["bytes"] == 3_000_000, got
                client.kill()
        finally:
            server.kill()
    # Both ways, and nothing but by us.
    until(lambda: r.metric("relay_bytes_sent") > 6_000_000)
    stays(lambda: r.p.poll() is None, 0.1)
