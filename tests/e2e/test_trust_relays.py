# SPDX-License-Identifier: Apache-2.0
"""Relays that others name: whether they are dialled, who gets the token, and whose challenges are signed."""
import contextlib
import os
import socket
import ssl
import struct
import subprocess

import pytest
from harness.control import Control, loopback_up
from harness.device import GROUP, Device, advertise
from harness.relay import Client, Relay
from harness.serve import Server
from harness.sidecar import Sidecar, TxtServer, z32
from harness.wait import until

TOKEN = "the-token-of-the-genuine-relay"
NODE = "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
FIELD = "x-iroh-relay-client-auth-v1"


class Hostile(Server):
    """
    A relay that keeps what clients show it. With 'behind', a genuine relay, it logs in there as its clients: their token,
    and the genuine relay's challenge for them to sign.
    """

    def __init__(self, tls=None, behind=None, redirect=None):
        self.tls, self.behind, self.redirect = tls, behind, redirect
        self.heads = []   # dictionaries of fields
        self.proofs = []  # keys that signed a challenge
        self.took = []    # keys we are logged in as at the genuine relay
        super().__init__()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/"

    @property
    def tokens(self):
        return [h["authorization"] for h in self.heads if "authorization" in h]

    def _serve(self, conn):
        with contextlib.suppress(OSError, EOFError, AssertionError):
            if self.tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*self.tls)
                conn = context.wrap_socket(conn, server_side=True)
            self._relay(conn)
        with contextlib.suppress(OSError):
            conn.close()

    def _relay(self, conn):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._some(conn)
        lines = data.decode("latin1").split("\r\n")
        if lines[0].split()[1] != "/relay":  # devices ask for their address, too
            conn.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        head = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if ":" in line)}
        self.heads.append(head)
        if self.redirect:
            conn.sendall(f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {self.redirect}relay\r\n"
                         "Content-Length: 0\r\n\r\n".encode())
            conn.recv(1)
            return
        accept = subprocess.run(["openssl", "dgst", "-sha1", "-binary"], capture_output=True, check=True, input=(
            head["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).stdout
        conn.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      f"Sec-WebSocket-Accept: {_base64(accept)}\r\nSec-WebSocket-Protocol: iroh-relay-v2\r\n\r\n").encode())
        other = Client(self.behind) if self.behind else None
        challenge = os.urandom(16)
        if other:
            token = f"Authorization: {head['authorization']}\r\n" if "authorization" in head else ""
            other.upgrade(fields=token)
            challenge = other.message(0)[1:]
        conn.sendall(b"\x82\x11\x00" + challenge)
        answer = self._frame(conn)
        assert answer[0] == 1
        self.proofs.append(answer[1:33].hex())
        if other:
            other.frame(answer)
            if other.message() == b"\x02":
                self.took.append(answer[1:33].hex())
        conn.sendall(b"\x82\x01\x02")
        while True:
            self._frame(conn)

    @staticmethod
    def _some(conn, n=65536):
        got = conn.recv(n)
        if not got:
            raise EOFError
        return got

    def _frame(self, conn):
        def exactly(n):
            data = b""
            while len(data) < n:
                data += self._some(conn, n - len(data))
            return data
        n = exactly(2)[1] & 0x7F
        if n == 126:
            n = struct.unpack(">H", exactly(2))[0]
        mask, data = exactly(4), exactly(n)
        return bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def _base64(data):
    return subprocess.run(["openssl", "base64", "-A"], input=data, capture_output=True, check=True).stdout.decode()


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """(certificate, key) for 127.0.0.1, and the file that trusts it."""
    d = tmp_path_factory.mktemp("pki")
    cert, key = str(d / "r.crt"), str(d / "r.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    key, "-out", cert, "-days", "2", "-subj", "/CN=r", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def token(tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


@pytest.fixture(scope="module")
def genuine(binary, pki, token, tmp_path_factory):
    loopback_up()
    r = Relay(binary, tmp_path_factory.mktemp("genuine"), "--token-file", token, tls=pki)
    yield r
    assert r.stop() == 0


@pytest.fixture
def hostile():
    made = []

    def make(**kw):
        made.append(Hostile(**kw))
        return made[-1]
    yield make
    for h in made:
        h.close()


@pytest.fixture
def sidecar(binary, genuine, pki, token, tmp_path):
    """With the genuine relay at home and its token; a DNS server says where NODE is."""
    made = []

    def make(*flags, where=None, relay=None, **kw):
        dns = TxtServer({f"_iroh.{z32(NODE)}.nodes.example": [f"relay={where}"]} if where else {})
        made.append(dns)
        s = Sidecar(binary, tmp_path / "s", "--relay", relay or f"https://127.0.0.1:{genuine.tls_port}/", "--relay-ca", pki[0],
                    "--relay-token-file", token, "--dns-origin", "nodes.example", "--dns-resolver",
                    f"127.0.0.1:{dns.port}", "--dial-timeout", "2s", *flags, **kw)
        made.append(s)
        return s.wait_ready()
    yield make
    for m in made:
        m.close()


def refused(s, reason):
    return s.metrics().sum("spanwire_refusals_total", reason=reason)


def test_a_relay_of_a_dns_record_is_not_dialled(sidecar, hostile, genuine, pki):
    for tls in (None, pki):
        h = hostile(tls=tls, behind=genuine)
        s = sidecar(where=h.url)
        assert s.tunnel(NODE, "127.0.0.1:1").status == 504
        assert (h.took, h.proofs, h.tokens, h.accepted) == ([], [], [], 0)
        until(lambda: refused(s, "relay_not_listed") >= 1)
        until(lambda: f"relay {h.url} of node" in s.log() and "not on the list" in s.log())
        s.close()


@pytest.fixture(scope="module")
def control(binary, tmp_path_factory):
    c = Control(binary, tmp_path_factory.mktemp("control"), "--connector-lease", "10s")
    yield c
    c.close()


def test_a_relay_of_a_tenants_device_is_not_dialled(binary, control, sidecar, hostile, genuine, tmp_path, web):
    """All the attack needs is a device of one's own with a relay of one's own."""
    h = hostile(behind=genuine)
    s = sidecar(kubeconfig=control.kubeconfig)
    d = Device(binary, tmp_path / "d", control.kubeconfig, "--name", "bait", "--relay", h.url)
    d.wait_live(20)
    advertise(control, "bait", "bait", ("127.0.0.1", web.port))
    until(lambda: control.get(f"{GROUP}/connectors/bait").json["status"]["connectionDetails"]["publicKey"]["homeRelay"] == h.url)

    def ok():
        a = s.request(d.id, web.port, "/hello")
        a.close()
        return a.status == 200
    until(ok, 20, "the device to be reached directly")
    assert s.id not in h.took and s.id not in h.proofs and h.tokens == []
    until(lambda: refused(s, "relay_not_listed") >= 1)
    d.stop()


def test_a_listed_relay_gets_neither_the_token_nor_an_answer_for_another(sidecar, hostile, genuine, pki):
    h = hostile(tls=pki, behind=genuine)
    s = sidecar("--relay-allow", h.url, where=h.url)
    assert s.tunnel(NODE, "127.0.0.1:1").status == 504
    until(lambda: refused(s, "relay_challenge") >= 1)
    until(lambda: "challenge refused, another relay could use the answer" in s.log())
    assert refused(s, "relay_token_withheld") >= 1 and "token withheld: the token is for another relay" in s.log()
    assert h.heads and (h.tokens, h.proofs, h.took) == ([], [], [])
    # The proof it did get is of that connection, and the genuine relay sees that.
    context = ssl.create_default_context(cafile=pki[0])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", genuine.tls_port)),
                             server_hostname="127.0.0.1") as raw:
        c = Client(genuine, sock=raw)
        head = c.upgrade(fields=f"Authorization: Bearer {TOKEN}\r\n{FIELD}: {h.heads[0][FIELD]}\r\n")
        assert head.startswith("HTTP/1.1 101 ") and c.message()[0] == 0
    until(lambda: genuine.metric("refusals", reason="proof") >= 1)


def test_a_challenge_over_tls_is_signed_only_where_that_was_asked_for(sidecar, hostile, pki):
    h = hostile(tls=pki)
    s = sidecar("--relay-sign-challenges", relay=h.url)
    until(lambda: h.proofs == [s.id])


def test_no_token_without_tls(sidecar, hostile):
    h = hostile()
    s = sidecar(relay=h.url)
    until(lambda: s.id in h.proofs)
    assert h.tokens == []
    until(lambda: refused(s, "relay_token_withheld") >= 1)
    until(lambda: "token withheld: the URL is not https" in s.log())


def test_no_token_for_a_wrong_certificate(sidecar, hostile, tmp_path):
    cert, key = str(tmp_path / "x.crt"), str(tmp_path / "x.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    key, "-out", cert, "-days", "2", "-subj", "/CN=r", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    h = hostile(tls=(cert, key))
    sidecar(relay=h.url)
    until(lambda: h.accepted >= 3)
    assert h.heads == []


def test_redirects_lead_nowhere(sidecar, hostile, pki):
    second = hostile(tls=pki)
    first = hostile(tls=pki, redirect=second.url)
    sidecar(relay=first.url)
    until(lambda: len(first.heads) >= 2)
    assert second.accepted == 0


def test_the_genuine_relay_gets_its_token_and_a_proof_of_the_connection(sidecar, genuine):
    s = sidecar()
    until(lambda: "connected" in "".join(x for x in s.log().splitlines() if f"relay https://127.0.0.1:{genuine.tls_port}/" in x))
    assert refused(s, "relay_token_withheld") == 0 and refused(s, "relay_challenge") == 0


def test_relays_of_the_control_plane_are_allowed(binary, hostile, pki, tmp_path, sidecar):
    """Its own ConfigMap names them; one of the same name elsewhere does not count."""
    ours, theirs = hostile(tls=pki), hostile(tls=pki)
    c = Control(binary, tmp_path / "c", "--relay-url", ours.url)
    c.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}})
    path = "/api/v1/namespaces/spanwire-system/configmaps/spanwire-relays"
    until(lambda: c.get(path).status == 200 and c.get(path).json["data"] == {"urls": ours.url})
    r = c.post("/api/v1/namespaces/tenant/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "spanwire-relays"}, "data": {"urls": theirs.url}})
    assert r.status == 201
    s = sidecar(where=ours.url, kubeconfig=c.kubeconfig)
    until(lambda: "the control plane allows 1 relays" in s.log())
    s.tunnel(NODE, "127.0.0.1:1")
    until(lambda: ours.heads)
    assert refused(s, "relay_not_listed") == 0 and theirs.accepted == 0 and ours.tokens == []
    # Somebody's change does not last.
    assert c.patch(path, {"data": {"urls": theirs.url}}).status == 200
    until(lambda: c.get(path).json["data"] == {"urls": ours.url})
    s.close()
    c.close()


def test_a_device_and_the_relay_of_its_annotation(binary, control, hostile, genuine, pki, token, tmp_path):
    """Whoever may write the Connector chooses the relay; so the token stays here, and only TLS or this machine will do."""
    plain, tls = hostile(behind=genuine), hostile(tls=pki, behind=genuine)
    d = Device(binary, tmp_path / "d", control.kubeconfig, "--name", "told", "--relay-ca", pki[0], "--relay-token-file", token)
    d.wait_live(20)

    def annotate(url):
        assert control.patch(f"{GROUP}/connectors/told", {"metadata": {"annotations": {"spanwire.dev/relay": url}}}).status == 200
    annotate(f"http://localhost:{plain.port}/")
    until(lambda: "of the Connector's annotation refused" in d.log())
    assert d.metric("spanwire_refusals") >= 1
    annotate(tls.url)
    until(lambda: tls.heads and "challenge refused" in d.log())
    assert tls.tokens == [] and tls.proofs == [] and plain.accepted == 0
    d.stop()
