# SPDX-License-Identifier: Apache-2.0
"""The edge of the gateway: session tickets, PROXY headers, certificates told, ports, pings."""
import hashlib
import json
import re
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until

FORWARD = [{"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "60s"}}]
PROXY = [{"name": "envoy.filters.listener.proxy_protocol", "typed_config": {
    "@type": gw.TYPE + "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"}}]
ASK = b"GET /size/4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def start(binary, where, listeners):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin = gw.Origin()
    gate = gw.Gateway(binary, where, [*listeners, gw.cluster("origin", [origin.port])])
    return gate, origin


def s_client(port, version, *args):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version,
                           "-ign_eof", *args], input=ASK, capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def checked(cert, key, roots, **extra):
    """A TLS socket that wants client certificates from these roots."""
    s = gw.tls_socket(cert, key, require_client_certificate=True, **extra)
    s["typed_config"]["common_tls_context"]["validation_context"] = {"trusted_ca": {"filename": roots}}
    return s


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_ticket_opens_its_own_listener_only(binary, tmp_path, version):
    ports = [gw.free_port() for _ in range(4)]
    cert, key = gw.make_cert(tmp_path)
    mine, mine_key = gw.make_cert(tmp_path, "client.test")
    other, _ = gw.make_cert(tmp_path, "stranger.test")
    chain = {"filters": [gw.hcm(FORWARD)]}
    sockets = [gw.tls_socket(cert, key), gw.tls_socket(cert, key), checked(cert, key, mine),
               checked(cert, key, other)]
    gate, origin = start(binary, tmp_path, [
        gw.listener(f"l{i}", p, [{**chain, "transport_socket": s}])
        for i, (p, s) in enumerate(zip(ports, sockets))])
    ticket, proved = str(tmp_path / "ticket"), str(tmp_path / "proved")
    me = ("-cert", mine, "-key", mine_key)
    assert "HTTP/1.1 200 OK" in s_client(ports[0], version, "-sess_out", ticket)
    assert "HTTP/1.1 200 OK" in s_client(ports[2], version, "-sess_out", proved, *me)
    # Where it came from: resumed, as often as one likes, and served.
    for _ in range(4):
        out = s_client(ports[0], version, "-sess_in", ticket)
        assert "Reused, TLSv1" in out and "HTTP/1.1 200 OK" in out, out
    # The certificate of the first handshake still counts, so none is needed again.
    out = s_client(ports[2], version, "-sess_in", proved)
    assert "Reused, TLSv1" in out and "HTTP/1.1 200 OK" in out, out
    # Elsewhere: a full handshake, by the rules of that place.
    out = s_client(ports[1], version, "-sess_in", ticket)
    assert "New, TLSv1" in out and "HTTP/1.1 200 OK" in out, out
    for port, which in ((ports[2], ticket), (ports[3], proved), (ports[3], ticket)):
        out = s_client(port, version, "-sess_in", which)
        assert "HTTP/1.1" not in out and "Reused" not in out, out
    gate.stop()
    origin.close()


def test_tickets_switched_off_and_bad_keys(binary, tmp_path):
    port, versions = gw.free_port(), gw.free_port()
    cert, key = gw.make_cert(tmp_path)
    old = gw.tls_socket(cert, key)
    old["typed_config"]["common_tls_context"]["tls_params"] = {
        "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_2"}
    gate, origin = start(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(FORWARD)], "transport_socket": gw.tls_socket(
            cert, key, disable_stateless_session_resumption=True)}]),
        gw.listener("v", versions, [{"filters": [gw.hcm(FORWARD)], "transport_socket": old}])])
    for version in ("-tls1_2", "-tls1_3"):
        ticket = tmp_path / f"t{version}"
        assert "HTTP/1.1 200 OK" in s_client(port, version, "-sess_out", str(ticket))
        if ticket.exists():
            assert "Reused" not in s_client(port, version, "-sess_in", str(ticket))
    assert "HTTP/1.1 200 OK" in s_client(versions, "-tls1_2")
    assert "HTTP/1.1 200" not in s_client(versions, "-tls1_3"), "above the maximum"
    gate.stop()
    origin.close()


def talk(port, first, ask=b"GET /headers HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", tls=False):
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as s:
        s.sendall(first)
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            s = context.wrap_socket(s, server_hostname="localhost")
        s.sendall(ask)
        got = b""
        try:
            while (piece := s.recv(65536)):
                got += piece
        except (ConnectionError, ssl.SSLError):
            pass
        s.close()
        return got


def v2(src, dst, command=0x21, more=b""):
    body = socket.inet_aton(src[0]) + socket.inet_aton(dst[0]) + struct.pack(">HH", src[1], dst[1]) + more
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([command, 0x11]) + struct.pack(">H", len(body)) + body


def test_proxy_headers(binary, tmp_path):
    plain, tls, loose = gw.free_port(), gw.free_port(), gw.free_port()
    cert, key = gw.make_cert(tmp_path)
    chain = {"filters": [gw.hcm(FORWARD, use_remote_address=True)]}
    either = [{"name": "p", "typed_config": {
        **PROXY[0]["typed_config"], "allow_requests_without_proxy_protocol": True}}]
    gate, origin = start(binary, tmp_path, [
        gw.listener("plain", plain, [chain], listener_filters=PROXY),
        gw.listener("tls", tls, [{**chain, "transport_socket": gw.tls_socket(cert, key)}],
                    listener_filters=PROXY),
        gw.listener("loose", loose, [chain], listener_filters=either)])
    v1 = b"PROXY TCP4 192.0.2.7 192.0.2.8 4000 443\r\n"
    bin2 = v2(("192.0.2.7", 4000), ("192.0.2.8", 443), more=b"\x04\0\x02ab")
    for port in (plain, tls, loose):
        for head in (v1, bin2):
            got = talk(port, head, tls=port == tls)
            assert got.startswith(b"HTTP/1.1 200") and b"192.0.2.7" in got, (got, gate.log()[-2000:])
    for head in (b"PROXY UNKNOWN\r\n", v2(("192.0.2.7", 1), ("192.0.2.8", 2), command=0x20)):
        got = talk(plain, head)
        assert got.startswith(b"HTTP/1.1 200") and b"127.0.0.1" in got, got
    for head in (b"", b"PROXY TCP4 192.0.2.7 192.0.2.8 4000 443\n", b"PROXY TCP4 x y 1 2\r\n",
                 bin2[:12] + b"\x31" + bin2[13:], bin2[:13] + b"\x12" + bin2[14:]):
        assert talk(plain, head) == b"", head
    assert talk(loose, b"").startswith(b"HTTP/1.1 200")
    assert talk(loose, b"PROXY TCP4 x y 1 2\r\n") == b""
    gate.stop()
    origin.close()


@pytest.mark.parametrize("mode", ["SANITIZE", "FORWARD_ONLY", "APPEND_FORWARD", "SANITIZE_SET",
                                  "ALWAYS_FORWARD_ONLY"])
def test_forwarded_client_certificates(binary, tmp_path, mode):
    port, open_ = gw.free_port(), gw.free_port()
    cert, key = gw.make_cert(tmp_path)
    mine, mine_key = gw.make_cert(tmp_path, "client.test")
    chain = {"filters": [gw.hcm(FORWARD, forward_client_cert_details=mode)]}
    gate, origin = start(binary, tmp_path, [
        gw.listener("l", port, [{**chain, "transport_socket": checked(cert, key, mine)}]),
        gw.listener("open", open_, [chain])])
    der = ssl.PEM_cert_to_DER_cert(open(mine, encoding="ascii").read())
    own = "Hash=" + hashlib.sha256(der).hexdigest()
    said = ("-H", "x-forwarded-client-cert: Hash=theirs")

    def seen(*args):
        out = subprocess.run(["curl", "-sSkf", "--max-time", "60", *args], capture_output=True, check=False)
        assert out.returncode == 0 and out.stdout, (out, gate.log()[-4000:])
        return json.loads(out.stdout)["headers"].get("x-forwarded-client-cert", "")

    want = {"SANITIZE": ("", ""), "FORWARD_ONLY": ("Hash=theirs", ""), "SANITIZE_SET": (own, own),
            "APPEND_FORWARD": ("Hash=theirs, " + own, own), "ALWAYS_FORWARD_ONLY": ("Hash=theirs", "")}
    me = ("--cert", mine, "--key", mine_key, f"https://127.0.0.1:{port}/x")
    assert (seen(*said, *me), seen(*me)) == want[mode]
    trusted = mode == "ALWAYS_FORWARD_ONLY"
    assert seen(*said, f"http://127.0.0.1:{open_}/x") == ("Hash=theirs" if trusted else "")
    gate.stop()
    origin.close()


def test_early_hints_are_passed_on(binary, tmp_path):
    port = gw.free_port()
    gate, origin = start(binary, tmp_path, [gw.listener("l", port, [{"filters": [gw.hcm(FORWARD)]}])])
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    url = f"http://127.0.0.1:{port}/raw/{(hints * 2 + answer).hex()}"
    for args, first in ((["--http1.1"], "HTTP/1.1 103"), (["--http2-prior-knowledge"], "HTTP/2 103")):
        out = subprocess.run(["curl", "-sSi", "--max-time", "60", *args, url], capture_output=True,
                             check=True).stdout.decode()
        assert out.count(first) == 2 and out.count("</a.css>; rel=preload") == 2, out
        assert "connection: x" not in out.lower() and out.endswith("ok") and " 200" in out, out
    flood = f"http://127.0.0.1:{port}/raw/{(hints * 300 + answer).hex()}"
    out = subprocess.run(["curl", "-sSi", "--max-time", "60", flood], capture_output=True, check=True)
    assert out.stdout.count(b"103") < 20 and out.stdout.endswith(b"ok")
    gate.stop()
    origin.close()


def test_a_silent_client_does_not_answer_pings(binary, tmp_path):
    port = gw.free_port()
    alive = {"http2_protocol_options": {"connection_keepalive": {"interval": "0.2s", "timeout": "0.3s"}}}
    gate, origin = start(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(FORWARD, **alive)]}])])
    begin, got = time.monotonic(), b""  # before the gateway's clock starts
    with socket.create_connection(("127.0.0.1", port), timeout=GUARD) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        try:
            while (piece := s.recv(65536)):
                got += piece
        except ConnectionError:
            pass
        assert b"\0\0\x08\x06\0\0\0\0\0" in got, "a PING came"
        assert 0.3 < time.monotonic() - begin
    gate.stop()
    origin.close()


def readiness(gate):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{gate.ready_port}/healthz/ready", timeout=GUARD) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def serves(port):
    try:
        return talk(port, b"").startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def test_a_port_that_is_taken(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port, free = gw.Origin(), gw.free_port(), gw.free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        gate = gw.Gateway(binary, tmp_path, [
            gw.listener("taken", port, [{"filters": [gw.hcm(FORWARD)]}]),
            gw.listener("free", free, [{"filters": [gw.hcm(FORWARD)]}]),
            gw.cluster("origin", [origin.port])], wait=False)
        until(lambda: serves(free))
        code, text = readiness(gate)
        assert code != 200 and "listener taken" in text, (code, text)
    until(lambda: serves(port))
    until(lambda: readiness(gate)[0] == 200)
    with socket.create_server(("127.0.0.1", 0)) as later:  # what comes then takes nothing from the others
        gate.apply([gw.listener("free", free, [{"filters": [gw.hcm(FORWARD)]}]),
                    gw.listener("later", later.getsockname()[1], [{"filters": [gw.hcm(FORWARD)]}]),
                    gw.cluster("origin", [origin.port])])
        until(lambda: re.search(r"listener.*'later'.*cannot bind", gate.log()))
        until(lambda: readiness(gate)[0] != 200)
        assert serves(free)

        def unbound():
            with urllib.request.urlopen(f"http://127.0.0.1:{gate.stats_port}/metrics", timeout=GUARD) as page:
                return b"\nspanwire_gateway_sockets_unbound 2\n" in page.read()
        until(unbound)  # one worker may be later than the other
    gate.stop()
    origin.close()
