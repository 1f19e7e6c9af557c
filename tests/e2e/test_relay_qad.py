# SPDX-License-Identifier: Apache-2.0
"""QUIC address discovery at the relay: clients learn the address they are seen at."""
import json
import os
import re
import select
import socket
import subprocess

from harness.fabric import make_cert
from harness.ports import free_port
from harness.quicpeer import Ours
from harness.relay import Client
from harness.wait import guard, until

from test_relay import BUILD

PEER = os.path.join(BUILD, "tests/unit/quic/qad_peer")


class Peer:
    """A client with a UDP socket of its own; events are read as they come."""

    def __init__(self, relay, **options):
        argv = [PEER, f"relay={relay}", *(f"{k}={v}" for k, v in options.items())]
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        out, err = self.p.communicate(timeout=guard(20))
        assert self.p.returncode == 0 and "Sanitizer" not in err, out + err

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def event(self):
        ready, _, _ = select.select([self.p.stdout], [], [], guard(20))
        assert ready, "nothing was said"
        line = self.p.stdout.readline()
        assert line, self.p.stderr.read()
        return json.loads(line)

    def observed(self, host="127.0.0.1"):
        e = self.event()
        assert e["event"] == "observed", e
        assert e["address"] == f"{host}:{e['local'].rsplit(':', 1)[1]}", e
        return e["address"]


def announced(relay, **kw):
    """(port, digest) of the answer to the upgrade; None: nothing is said."""
    c = Client(relay, **kw)
    head = c.upgrade()
    c.s.close()
    found = re.search(r"X-Spanwire-Qad: (\d+)(?: ([0-9a-f]{64}))?\r", head + "\r\n")
    return (int(found.group(1)), found.group(2)) if found else None


def test_a_plain_relay_announces_its_certificate(make_relay):
    r = make_relay()
    port, pin = announced(r)
    at = f"127.0.0.1:{port}"
    with Peer(at, pin=pin) as p:
        first = p.observed()
        p.tell("rebind")  # what a NAT does that forgot its mapping
        p.tell("probe")
        assert p.observed() != first
    wrong = ("0" if pin[0] != "0" else "1") + pin[1:]
    with Peer(at, pin=wrong) as p:
        assert p.event() == {"event": "ended", "why": "certificate is not the one the relay announced"}
    until(lambda: r.metric("relay_qad_reports") == 2 and r.metric("relay_qad_connections_closed") == 1, what="two reports")
    until(lambda: r.metric("relay_qad_errored") == 1, what="the refusal of the other certificate")
    assert r.metric("relay_qad_incoming") == 2


def test_it_shows_the_certificate_of_https_and_a_new_one(make_relay, tmp_path):
    cert, key = make_cert(tmp_path, "first", ["localhost"])
    r = make_relay("--qad-listen", "127.0.0.1:0", tls=(cert, key))
    port, pin = announced(r)
    assert pin is None
    at = f"127.0.0.1:{port}"
    old = tmp_path / "old.crt"
    old.write_bytes(open(cert, "rb").read())
    with Peer(at, host="127.0.0.1", ca=cert) as p:
        p.observed()
        new_cert, new_key = make_cert(tmp_path, "second", ["localhost"])
        os.replace(new_key, key)
        os.replace(new_cert, cert)
        until(lambda: "configuration files reloaded" in r.said(), what="the new certificate")
        p.tell("probe")  # who is connected stays; nothing changed, so nothing is said
        p.tell("rebind")
        p.tell("probe")
        p.observed()

    def new():
        with Peer(at, host="localhost", ca=cert) as p:
            return p.event()["event"] == "observed"
    until(new, what="the new certificate in force")
    with Peer(at, host="127.0.0.1", ca=old) as p:
        assert p.event()["event"] == "ended"
    with Peer(at, host="other.example", ca=cert) as p:
        assert "other.example" in p.event()["why"]


def test_ipv6_and_ipv4_at_one_port(make_relay):
    r = make_relay("--qad-listen", "[::]:0")
    port, pin = announced(r)
    with Peer(f"[::1]:{port}", pin=pin) as p:
        p.observed("[::1]")
    with Peer(f"127.0.0.1:{port}", pin=pin) as p:
        p.observed()


def test_two_names_of_one_relay_are_both_answered(make_relay, binary):
    """Both questions go to one address from one socket: the second one's answers were not looked at."""
    r = make_relay()
    with Ours(binary, bind="127.0.0.1:0", probes=1, relay=f"http://127.0.0.1:{r.port}/") as p:
        p.event("mapped")
        p.dial(None, [], f"http://localhost:{r.port}/", node="11" * 32)
        until(lambda: r.metric("relay_qad_connections") == 2, what="the second question")


def test_it_can_be_turned_off(make_relay):
    r = make_relay("--no-qad")
    assert announced(r) is None
    assert "address discovery" not in r.said()


def test_a_port_that_is_taken(make_relay, binary, topology, tmp_path):
    """By default another one is used, which clients are told; one that was asked for by name has to be free."""
    del topology
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = free_port()  # for TCP, too: the relay listens there
    taken.bind(("127.0.0.1", port))
    argv = [binary, "relay", "--open", "--admin-addr", "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr",
            "127.0.0.1:0"]
    done = subprocess.run([*argv, "--listen", "127.0.0.1:0", "--qad-listen", f"127.0.0.1:{port}"], capture_output=True,
                          text=True, timeout=guard(20), check=False)
    assert done.returncode == 1 and f"address discovery: cannot bind UDP 127.0.0.1:{port}" in done.stderr
    with open(tmp_path / "log", "w+", encoding="utf-8") as log, \
            subprocess.Popen([*argv, "--listen", f"127.0.0.1:{port}"], stderr=log) as p:
        try:
            until(lambda: "ready" in (tmp_path / "log").read_text(), what="the relay")
            said = (tmp_path / "log").read_text()
            assert "listening on another port, advertised to clients" in said
        finally:
            p.terminate()
            p.wait(guard(20))
    taken.close()


def test_strangers_cannot_use_it_up(make_relay):
    """First packets of many connections: bounded, answered with Retry, and clients get theirs."""
    r = make_relay("--qad-rate", "2")
    port, pin = announced(r)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", port))
    s.settimeout(guard(5))
    for i in range(500):
        head = b"\xc0\0\0\0\1\x08" + os.urandom(8) + b"\x08" + os.urandom(8) + b"\0\x44\x96"
        s.send(head + bytes(1200 - len(head)))
        if i % 50 == 49:
            until(lambda: r.metric("relay_qad_incoming") + r.metric("relay_qad_retries") >= 1, what="answers")
    until(lambda: r.metric("relay_qad_retries") >= 100, what="Retries")
    assert r.metric("relay_qad_incoming") <= 30
    assert s.recv(2000)[0] & 0xf0 == 0xf0  # Retry
    with Peer(f"127.0.0.1:{port}", pin=pin) as p:
        p.observed()
    c = Client(r).login()
    c.frame(b"\x09abcdefgh")
    assert c.message() == b"\x0aabcdefgh"
