# SPDX-License-Identifier: Apache-2.0
"""Whom the gateway believes behind it, and which clients it believes: names, pins, authorities, dates."""
import base64
import datetime
import hashlib
import ipaddress
import re
import socket
import ssl
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from harness import gateway as gw
from harness.serve import Server
from harness.wait import GUARD, until

URI = "spiffe://td.example/ns/shop/sa/db"


class Ca:
    def __init__(self, where, name):
        self.where, self.name, self.count = where, name, 0
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.utcnow()
        self.cert = (x509.CertificateBuilder().subject_name(self.subject).issuer_name(self.subject)
                     .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
                     .not_valid_before(now - datetime.timedelta(days=2))
                     .not_valid_after(now + datetime.timedelta(days=2))
                     .add_extension(x509.BasicConstraints(True, None), True)
                     .sign(self.key, hashes.SHA256()))
        self.path = str(where / f"{name}.crt")
        self._write(self.path, self.cert)

    @staticmethod
    def _write(path, cert):
        with open(path, "wb") as f:
            f.write(cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, dns=(), uris=(), ips=(), days=1):
        """Paths of a certificate and its key; days < 0: expired."""
        self.count += 1
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.utcnow()
        names = ([x509.DNSName(d) for d in dns] + [x509.UniformResourceIdentifier(u) for u in uris]
                 + [x509.IPAddress(ipaddress.ip_address(i)) for i in ips])
        b = (x509.CertificateBuilder().issuer_name(self.subject)
             .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf")]))
             .public_key(key.public_key()).serial_number(x509.random_serial_number())
             .not_valid_before(now - datetime.timedelta(days=1, hours=2))
             .not_valid_after(now + datetime.timedelta(days=days, hours=-1))
             .add_extension(x509.BasicConstraints(False, None), True)
             .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH,
                                                   ExtendedKeyUsageOID.CLIENT_AUTH]), False))
        if names:
            b = b.add_extension(x509.SubjectAlternativeName(names), False)
        cert = b.sign(self.key, hashes.SHA256())
        base = self.where / f"{self.name}-{self.count}"
        self._write(f"{base}.crt", cert)
        with open(f"{base}.key", "wb") as f:
            f.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.NoEncryption()))
        return f"{base}.crt", f"{base}.key"


def pin(crt):
    with open(crt, "rb") as f:
        cert = x509.load_pem_x509_certificate(f.read())
    der = cert.public_key().public_bytes(serialization.Encoding.DER,
                                         serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def fingerprint(crt, colons=False):
    with open(crt, "rb") as f:
        h = x509.load_pem_x509_certificate(f.read()).fingerprint(hashes.SHA256()).hex()
    return ":".join(h[i:i + 2] for i in range(0, 64, 2)) if colons else h


class TlsServer(Server):
    """Answers every request with the server name of its connection, and counts those that came."""

    def __init__(self, pair, client_ca=None):
        self.names, self.requests, self.healthy = [], 0, True
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.sni_callback = lambda s, name, c: self.names.append(name)
        if client_ca:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        super().__init__()

    def _serve(self, conn):
        try:
            with self.context.wrap_socket(conn, server_side=True) as s:
                f = s.makefile("rb")
                while f.readline():
                    while f.readline().strip():
                        pass
                    self.requests += 1
                    status = b"200 OK" if self.healthy else b"500 No"
                    s.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\nok")
        except (OSError, ssl.SSLError):
            pass


class EndlessServer(TlsServer):
    """Its answers last until the connection ends: with close_notify, or (/endless?cut) without."""

    def _serve(self, conn):
        try:
            s = self.context.wrap_socket(conn, server_side=True)
            cut = b"cut" in s.makefile("rb").readline()
            s.sendall(b"HTTP/1.1 200 OK\r\n\r\npart")
            if cut:
                s.shutdown(socket.SHUT_WR)
            else:
                s.unwrap()
            s.close()
        except (OSError, ssl.SSLError):
            pass


def upstream(context=None, cert=None, **extra):
    common = {}
    if context is not None:
        common["validation_context"] = context
    if cert:
        common["tls_certificates"] = [{"certificate_chain": {"filename": cert[0]},
                                       "private_key": {"filename": cert[1]}}]
    return {"transport_socket": {"name": "tls", "typed_config": {
        "@type": gw.UPSTREAM_TLS, "common_tls_context": common, **extra}}}


def sans(*pairs):
    return {"match_typed_subject_alt_names": [
        {"san_type": t, "matcher": m if isinstance(m, dict) else {"exact": m}} for t, m in pairs]}


class World:
    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.ca, self.other = Ca(tmp, "ca"), Ca(tmp, "other")
        self.pair = {
            "good": self.ca.issue(["good.test", "*.wild.test"], [URI], ["127.0.0.1"]),
            "stranger": self.other.issue(["good.test"], [URI]),
            "expired": self.ca.issue(["good.test"], [URI], days=-1),
            "nameless": self.ca.issue(),
        }
        self.servers = {n: TlsServer(p) for n, p in self.pair.items()}
        self.servers["mutual"] = TlsServer(self.pair["good"], self.ca.path)
        self.servers["endless"] = EndlessServer(self.pair["good"])
        self.cases = self._cases()
        self.port, self.mtls, self.l4 = gw.free_port(), gw.free_port(), gw.free_port()
        self.gateway = gw.Gateway(binary, tmp, self.resources())

    def _cases(self):
        """name -> (server, options of the cluster, believed)"""
        ca = {"trusted_ca": {"filename": self.ca.path}}
        good, stranger = self.pair["good"], self.pair["stranger"]
        both = {**ca, **sans(("DNS", "wrong.test"), ("URI", URI))}
        return {
            "sni": ("good", upstream(ca, sni="good.test"), True),
            "sni-wrong": ("good", upstream(ca, sni="bad.test"), False),
            "sni-stranger": ("stranger", upstream(ca, sni="good.test"), False),
            "sni-expired": ("expired", upstream(ca, sni="good.test"), False),
            "dns": ("good", upstream({**ca, **sans(("DNS", "good.test"))}), True),
            "dns-case": ("good", upstream({**ca, **sans(("DNS", "GOOD.test"))}), True),
            "dns-wild": ("good", upstream({**ca, **sans(("DNS", "a.wild.test"))}), True),
            "dns-wild-deep": ("good", upstream({**ca, **sans(("DNS", "a.b.wild.test"))}), False),
            "dns-wild-itself": ("good", upstream({**ca, **sans(("DNS", "*.wild.test"))}), True),
            "dns-wrong": ("good", upstream({**ca, **sans(("DNS", "bad.test"))}), False),
            "dns-stranger": ("stranger", upstream({**ca, **sans(("DNS", "good.test"))}), False),
            "dns-expired": ("expired", upstream({**ca, **sans(("DNS", "good.test"))}), False),
            "dns-nameless": ("nameless", upstream({**ca, **sans(("DNS", "good.test"))}), False),
            "dns-suffix": ("good", upstream({**ca, **sans(("DNS", {"suffix": ".wild.test"}))}), True),
            "uri": ("good", upstream({**ca, **sans(("URI", URI))}), True),
            "uri-is-not-dns": ("good", upstream({**ca, **sans(("DNS", URI))}), False),
            "uri-wrong": ("good", upstream({**ca, **sans(("URI", URI + "x"))}), False),
            "uri-regex": ("good", upstream({**ca, **sans(
                ("URI", {"safe_regex": {"regex": "spiffe://td\\.example/ns/shop/.*"}}))}), True),
            "uri-stranger": ("stranger", upstream({**ca, **sans(("URI", URI))}), False),
            "ip": ("good", upstream({**ca, **sans(("IP_ADDRESS", "127.0.0.1"))}), True),
            "ip-wrong": ("good", upstream({**ca, **sans(("IP_ADDRESS", "127.0.0.2"))}), False),
            "several": ("good", upstream(both), True),
            # With names given the server name is only sent, not checked.
            "sni-only-sent": ("good", upstream(both, sni="elsewhere.test"), True),
            "auto-san": ("good", upstream(both, sni="elsewhere.test",
                                          auto_sni_san_validation=True), False),
            "ca-only": ("nameless", upstream(ca), True),
            "ca-only-stranger": ("stranger", upstream(ca), False),
            "pin": ("good", upstream({**ca, "verify_certificate_spki": [
                pin(stranger[0]), pin(good[0])]}), True),
            "pin-wrong": ("good", upstream({**ca, "verify_certificate_spki": [
                pin(stranger[0])]}), False),
            "pin-and-name": ("good", upstream({**ca, "verify_certificate_spki": [pin(good[0])]},
                                              sni="bad.test"), False),
            "pin-without-ca": ("stranger", upstream({"verify_certificate_spki": [
                pin(stranger[0])]}), True),
            "pin-without-ca-wrong": ("stranger", upstream({"verify_certificate_spki": [
                pin(good[0])]}), False),
            "hash": ("good", upstream({**ca, "verify_certificate_hash": [
                fingerprint(good[0], colons=True)]}), True),
            "hash-or-pin": ("good", upstream({**ca, "verify_certificate_hash": [
                fingerprint(good[0])], "verify_certificate_spki": [pin(stranger[0])]}), True),
            "hash-wrong": ("good", upstream({**ca, "verify_certificate_hash": [
                fingerprint(stranger[0])]}), False),
            "anybody": ("stranger", upstream(), True),
            "mutual": ("mutual", upstream(ca, good, sni="good.test"), True),
            "endless": ("endless", upstream(ca, sni="good.test"), None),
            "mutual-none": ("mutual", upstream(ca, sni="good.test"), False),
        }

    def resources(self, extra=()):
        routes = [{"match": {"path": "/" + n}, "route": {"cluster": n, "timeout": "60s"}}
                  for n in [*self.cases, "auto"]]
        auto = {"typed_extension_protocol_options": {gw.HTTP_OPTIONS: {
            "@type": gw.TYPE + gw.HTTP_OPTIONS, "explicit_http_config": {"http_protocol_options": {}},
            "upstream_http_protocol_options": {"auto_sni": True, "auto_san_validation": True}}}}
        ca = {"trusted_ca": {"filename": self.ca.path}}
        accept = gw.tls_socket(*self.pair["good"], require_client_certificate=True)
        accept["typed_config"]["common_tls_context"]["validation_context"] = {
            **ca, **sans(("DNS", "good.test"))}
        tcp = {"filters": [{"name": "tcp", "typed_config": {
            "@type": gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "t", "cluster": "sni"}}]}
        return [
            gw.listener("main", self.port, [{"filters": [gw.hcm(routes)]}]),
            gw.listener("mtls", self.mtls, [{"filters": [gw.hcm(routes)],
                                             "transport_socket": accept}]),
            gw.listener("l4", self.l4, [{**tcp, "transport_socket": accept}]),
            *[gw.cluster(n, [self.servers[s].port], **o) for n, (s, o, _) in self.cases.items()],
            gw.cluster("auto", [self.servers["good"].port], **auto, **upstream(ca)), *extra]

    def ask(self, path, host="x.test"):
        with socket.create_connection(("127.0.0.1", self.port), timeout=2 * GUARD) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            return int(s.makefile("rb").readline().split()[1])


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("uptls"))
    yield w
    w.gateway.stop()
    for s in w.servers.values():
        s.close()


def test_whom_the_gateway_believes(w):
    wrong = []
    for name, (server, _, believed) in w.cases.items():
        if believed is None:
            continue
        before = w.servers[server].requests
        status = w.ask("/" + name)
        reached = w.servers[server].requests - before
        if status != (200 if believed else 503) or reached != (1 if believed else 0):
            wrong.append((name, status, reached))
    assert not wrong, w.gateway.log()[-4000:]


def test_the_log_says_whom_not(w):
    assert w.ask("/dns-wrong") == 503
    told = r"cluster 'dns-wrong': upstream 127\.0\.0\.1:\d+ is not trusted: certificate has none of the 1 names"
    until(lambda: re.search(told, w.gateway.log()), 5)


def test_the_name_of_the_request_is_sent_and_checked(w):
    good = w.servers["good"]
    good.names.clear()
    assert w.ask("/auto", "good.test:8080") == 200
    assert w.ask("/auto", "B.wild.test") == 200
    # A connection made for one name serves no other.
    assert w.ask("/auto", "bad.test") == 503
    assert w.ask("/auto", "good.test") == 200
    assert {"good.test", "b.wild.test", "bad.test"} == set(good.names)


def test_an_answer_that_lasts_until_the_end_needs_close_notify(w):
    """Anybody on the path can make a FIN: RFC 9112 9.8."""
    told = []
    for target in ("/endless", "/endless?cut"):
        out = b""
        with socket.create_connection(("127.0.0.1", w.port), timeout=2 * GUARD) as s:
            s.sendall(f"GET {target} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            try:
                while not out.endswith(b"0\r\n\r\n") and (piece := s.recv(4096)):
                    out += piece
            except ConnectionResetError:
                pass
        told.append(out)
    assert told[0].startswith(b"HTTP/1.1 200 ") and told[0].endswith(b"\r\n4\r\npart\r\n0\r\n\r\n")
    assert not told[1].endswith(b"0\r\n\r\n"), told[1]


BAD = {
    "sans-without-ca": (upstream(sans(("DNS", "good.test"))), "names cannot be trusted"),
    "nothing": (upstream({}), "without trusted_ca"),
    "system-roots": (upstream({"system_root_certs": {}}), "system roots need"),
    "no-digest": (upstream({"verify_certificate_spki": ["aGFsbG8="]}), "is not a SHA-256"),
    "no-hex": (upstream({"verify_certificate_hash": ["zz" * 32]}), "is not a SHA-256"),
    "short-hex": (upstream({"verify_certificate_hash": ["ab" * 31]}), "is not a SHA-256"),
    "other-name": (upstream({"system_root_certs": {}, **sans(("OTHER_NAME", "x"))}), "san_type 5"),
    "custom": (upstream({"custom_validator_config": {"name": "x"}}), "custom_validator_config"),
}


@pytest.mark.parametrize("name", BAD)
def test_rules_that_cannot_be_enforced_are_refused(w, name):
    options, why = BAD[name]
    w.gateway.apply(w.resources([gw.cluster("refused-" + name, [1], **options)]))
    until(lambda: any("refused-" + name in line and why in line
                      for line in w.gateway.log().splitlines()), 5)
    assert w.ask("/sni") == 200


def client(w, port, pair):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(w.ca.path)
    if pair:
        context.load_cert_chain(*pair)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2 * GUARD) as raw, \
                context.wrap_socket(raw, server_hostname="good.test") as s:
            s.sendall(b"GET /sni HTTP/1.1\r\nhost: good.test\r\nconnection: close\r\n\r\n")
            return s.recv(4096)[:12]
    except (OSError, ssl.SSLError):
        return b""


@pytest.mark.parametrize("where", ["mtls", "l4"])
def test_which_clients_the_gateway_believes(w, where):
    port, before = getattr(w, where), w.servers["good"].requests
    for pair in (None, w.pair["stranger"], w.pair["expired"], w.pair["nameless"]):
        assert client(w, port, pair) == b"", pair
    assert w.servers["good"].requests == before
    assert client(w, port, w.pair["good"]) == b"HTTP/1.1 200"
