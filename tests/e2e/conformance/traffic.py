# SPDX-License-Identifier: Apache-2.0
"""Requests through the gateway and what is expected of the answers."""
import contextlib
import http.client
import json
import re
import socket
import ssl
import tempfile
import time
import urllib.parse

import h2.config
import h2.connection
import h2.events
from harness.wait import SLOW

CONSECUTIVE = 3  # good answers in a row
PATIENCE = 60.0
REQUEST_TIMEOUT = 40.0
WELL_KNOWN = {"http": 80, "https": 443}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = [(k.lower(), v) for k, v in headers]

    def header(self, name):
        """All values joined, None when there is none."""
        found = [v for k, v in self.headers if k == name.lower()]
        return ",".join(found) if found else None

    @property
    def echo(self):
        return json.loads(self.body)


def eventually(attempt, what, consecutive=CONSECUTIVE, patience=PATIENCE):
    """attempt() has to succeed several times in a row; its last complaint is the failure."""
    end = time.monotonic() + patience * SLOW
    good, pause, value = 0, 0.005, None
    while good < consecutive:
        try:
            value = attempt()
            good += 1
        except (AssertionError, OSError, http.client.HTTPException, ValueError, KeyError) as e:
            good = 0
            if time.monotonic() > end:
                raise AssertionError(f"{what}: {type(e).__name__}: {e}") from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
    return value


# --- TLS ---
class Tls:
    """How to speak TLS: which name to ask for, whom to trust, whom to be."""

    def __init__(self, sni, server=None, client=None, alpn=("http/1.1",)):
        self.sni, self.server, self.client, self.alpn = sni, server, client, alpn

    def wrap(self, sock):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(list(self.alpn))
        if self.client:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as f:
                f.write(self.client.cert_pem + self.client.key_pem)
                f.flush()
                context.load_cert_chain(f.name)
        wrapped = context.wrap_socket(sock, server_hostname=self.sni)
        if self.server:
            # The very certificate: stricter than a chain, and wildcards like *.org need no opinion.
            assert wrapped.getpeercert(True) == self.server.der, f"another certificate for {self.sni}"
        return wrapped


def connect(addr, tls=None, timeout=REQUEST_TIMEOUT):
    sock = socket.create_connection(addr, timeout=timeout * SLOW)
    if not tls:
        return sock
    try:
        return tls.wrap(sock)
    except BaseException:
        sock.close()
        raise


# --- HTTP ---
def send(addr, path="/", method="GET", host=None, headers=None, tls=None, link=None, timeout=REQUEST_TIMEOUT):
    """One HTTP/1.1 request; `link` is a connection to use again."""
    conn = link or http.client.HTTPConnection(*addr)
    try:
        if conn.sock is None:
            conn.sock = connect(addr, tls, timeout)
        conn.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        default = addr[0] if addr[1] in WELL_KNOWN.values() else f"{addr[0]}:{addr[1]}"
        conn.putheader("Host", host or default)
        for k, v in (headers or {}).items():
            conn.putheader(k, v)
        if method in ("POST", "PUT", "PATCH"):
            conn.putheader("Content-Length", "0")
        conn.endheaders()
        got = conn.getresponse()
        return Answer(got.status, got.getheaders(), got.read())
    finally:
        if link is None:
            conn.close()


def send_h2(addr, path, host, tls=None):
    """One HTTP/2 request on a connection of its own."""
    with contextlib.closing(connect(addr, tls)) as sock:
        if tls:
            assert sock.selected_alpn_protocol() == "h2", "no HTTP/2 by ALPN"
        conn = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        conn.initiate_connection()
        conn.send_headers(1, [(":method", "GET"), (":scheme", "https" if tls else "http"),
                              (":authority", host), (":path", path)], end_stream=True)
        sock.sendall(conn.data_to_send())
        status, headers, body = None, [], b""
        while True:
            data = sock.recv(65536)
            assert data, "the connection ended before the answer"
            for event in conn.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    headers = [(k, v) for k, v in event.headers if k[0] != ":"]
                    status = int(dict(event.headers)[":status"])
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                    conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    raise AssertionError(f"{event}")
                elif isinstance(event, h2.events.StreamEnded):
                    return Answer(status, headers, body)
            sock.sendall(conn.data_to_send())


def _squeeze(text):
    return re.sub(r"\s", "", text)


def is_backend(pod, name):
    return re.fullmatch(rf"{re.escape(name)}-[0-9a-z]+-[0-9a-z]+", pod) is not None


def check_echo(answer, wanted):
    """What the backend says it saw."""
    echo = answer.echo
    if wanted.get("backend"):
        assert is_backend(echo["pod"], wanted["backend"]), f"{echo['pod']} answered"
    assert echo["namespace"] == wanted["namespace"], echo["namespace"]
    assert echo["path"] == wanted["path"], f"the backend saw the path {echo['path']}"
    assert echo["method"] == wanted["method"], f"the backend saw the method {echo['method']}"
    if wanted.get("seen_host"):
        assert echo["host"] == wanted["seen_host"], f"the backend saw the host {echo['host']}"
    seen = {k.lower(): ",".join(v) for k, v in echo["headers"].items()}
    for name, value in wanted["seen"].items():
        got = seen.get(name.lower())
        assert got is not None and _squeeze(got) == _squeeze(value), f"the backend saw {name}: {got}"
    for name in wanted["unseen"]:
        assert name.lower() not in seen, f"the backend saw {name}: {seen[name.lower()]}"
    if wanted.get("sni"):
        assert (echo.get("tls") or {}).get("serverName") == wanted["sni"], f"TLS of the backend: {echo.get('tls')}"
    if wanted.get("proto"):
        assert echo["proto"] == wanted["proto"], f"the backend saw {echo['proto']}"


def check_redirect(answer, redirect, scheme, addr, path):
    """Scheme, host and path left out are those of the request; a port left out may be the scheme's."""
    place = urllib.parse.urlsplit(answer.header("location") or "")
    want = {"scheme": scheme, "host": addr[0], "path": path, "port": None, **redirect}
    assert place.scheme == want["scheme"], f"Location {place.geturl()}"
    assert place.hostname == want["host"], f"Location {place.geturl()}"
    assert place.path == want["path"], f"Location {place.geturl()}"
    allowed = (None, WELL_KNOWN[want["scheme"]]) if want["port"] is None else (want["port"],)
    assert place.port in allowed, f"Location {place.geturl()}"


class Expect:
    """
    One request with its expected answer. By default a GET of / is answered with 200 by some pod
    of the infra namespace that saw the request as it was sent.
    """

    def __init__(self, path="/", method="GET", host=None, headers=None, tls=None, h2c=False, status=200, backend=None,
                 namespace="gateway-conformance-infra", echo=None, seen_path=None, seen_host=None, seen=None,
                 unseen=(), sni=None, proto=None, answer=None, answer_absent=(), redirect=None):
        self.request = {"path": path, "method": method, "host": host, "headers": headers, "tls": tls}
        self.h2 = h2c or bool(tls and "h2" in tls.alpn)
        self.statuses = status if isinstance(status, tuple) else (status,)
        self.echoed = echo if echo is not None else self.statuses == (200,)
        self.wanted = {"backend": backend, "namespace": namespace, "path": seen_path or path, "method": method,
                       "seen_host": seen_host or host, "unseen": unseen, "sni": sni, "proto": proto,
                       "seen": (headers or {}) if seen is None else seen}
        self.answer, self.answer_absent, self.redirect = answer or {}, answer_absent, redirect

    def __str__(self):
        r = self.request
        return f"{r['method']} {r['host'] or ''}{r['path']} {r['headers'] or ''}"

    def attempt(self, addr):
        r = self.request
        got = send_h2(addr, r["path"], r["host"], r["tls"]) if self.h2 else send(addr, **r)
        assert got.status in self.statuses, f"status {got.status}, expected {self.statuses}: {got.body[:200]!r}"
        if self.echoed:
            check_echo(got, self.wanted)
        for name, values in self.answer.items():
            have = got.header(name)
            values = values if isinstance(values, tuple) else (values,)
            assert have is not None and _squeeze(have) in [_squeeze(v) for v in values], f"answer has {name}: {have}"
        for name in self.answer_absent:
            assert got.header(name) is None, f"answer has {name}: {got.header(name)}"
        if self.redirect is not None:
            check_redirect(got, self.redirect, "https" if r["tls"] else "http",
                           (r["host"] or addr[0], addr[1]), r["path"])
        return got

    def run(self, addr):
        return eventually(lambda: self.attempt(addr), str(self))


# --- connections ---
def tcp_line(addr, word, tls=None):
    """The answer of the TCP echo server to one line."""
    with contextlib.closing(connect(addr, tls)) as sock, sock.makefile("rb") as f:
        assert f.readline() == b"Gateway API Test TCP Server\n", "no greeting"
        sock.sendall(word.encode() + b"\n")
        line = f.readline()
        assert line, f"no answer to {word}"
        return line.decode().strip()


def tcp_context(addr, tls=None):
    return json.loads(tcp_line(addr, "TEST", tls))


def cut_off(addr, tls=None):
    """The connection has to end, or not begin, without a byte of an answer."""
    try:
        with contextlib.closing(connect(addr, tls, 20)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if tls else b"TEST\n")
            got = sock.recv(4096)
    except socket.timeout:
        raise AssertionError("the connection stays open") from None
    except OSError:
        return
    assert not got, f"got {got[:100]!r}"


def udp_ask(addr, data, timeout=2.0):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect(addr)
        sock.send(data)
        return sock.recv(4096)


def udp_context(addr, timeout=2.0):
    got = json.loads(udp_ask(addr, b"hello", timeout))
    assert got["request"] == "hello", got
    return got
