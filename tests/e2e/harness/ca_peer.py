# SPDX-License-Identifier: Apache-2.0
"""A certificate authority that speaks istio.v1.auth.IstioCertificateService: root, intermediate, gRPC over TLS. What
it answers can be bent in every way a test needs."""
import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
import threading
import traceback
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .xds_client import _field, _fields

METHOD = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
PORT = 15012


def _pem(thing):
    return thing.public_bytes(serialization.Encoding.PEM).decode()


class Signer:
    """A key with its certificate, made by itself or by another."""

    def __init__(self, name, parent=None):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])
        self.cert = (parent or self).sign(self.name, self.key.public_key(), ca=True)

    def sign(self, subject, key, ca=False, sans=(), begin=-120, end=3600):
        now = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key)
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now + datetime.timedelta(seconds=begin))
                   .not_valid_after(now + datetime.timedelta(seconds=86400 if ca else end))
                   .add_extension(x509.BasicConstraints(ca, None), True))
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(sans)), not subject.rdns)
        if not ca:
            uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), False)
        return builder.sign(self.key, hashes.SHA256())


@dataclass
class Asked:
    """One request as it came."""
    csr: object
    identity: str      # in the request's SAN
    impersonated: str  # in the metadata; None: not there
    ttl: int
    headers: dict


class CaPeer:
    """Serves in a namespace, the caller's by default. 'answer' makes the list of PEM texts of a request, or an int, the gRPC
    status of a refusal; 'gate' is waited for before each answer; 'asked' is what came."""

    def __init__(self, directory, ip, port=PORT, names=(), ns=None):
        self.dir, self.ip, self.port, self.ns = directory, ip, port, ns
        self.root = Signer("root one")
        self.middle = Signer("intermediate", self.root)
        self.roots = [self.root]
        self.asked, self.ttl, self.answer, self.crashes = [], None, self.sign, []
        self.gate = threading.Event()
        self.gate.set()
        self.web = Signer("web root")
        self.root_file = directory / "ca-root.pem"
        self.root_file.write_text(_pem(self.web.cert))
        key = ec.generate_private_key(ec.SECP256R1())
        sans = [x509.DNSName(n) for n in names] or [x509.IPAddress(ipaddress.ip_address(ip))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        cert = self.web.sign(subject, key.public_key(), sans=sans)
        (directory / "ca-web.pem").write_text(_pem(cert) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode())
        self.token_file = directory / "token"
        self.token_file.write_text("the-token\n")
        self.listener, self.threads, self.conns = None, [], []
        self.start()

    def flags(self):
        return ["--ca-address", f"https://{self.ip}:{self.port}", "--ca-root", str(self.root_file),
                "--auth-token", str(self.token_file)]

    # -- answers ------------------------------------------------------------------------------
    def leaf(self, asked, identity=None, key=None, signer=None, begin=-120, end=None):
        uri = x509.UniformResourceIdentifier(identity or asked.identity)
        end = end if end is not None else self.ttl or asked.ttl
        return (signer or self.middle).sign(x509.Name([]), key or asked.csr.public_key(), sans=[uri],
                                            begin=begin, end=end)

    def bundle(self):
        return "".join(_pem(r.cert) for r in self.roots)

    def sign(self, asked):
        return [_pem(self.leaf(asked)) + "\n", _pem(self.middle.cert) + "\n", self.bundle()]

    def revoke(self, serial):
        """A revocation list of the intermediate, PEM."""
        now = datetime.datetime.utcnow()
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        return (x509.CertificateRevocationListBuilder().issuer_name(self.middle.name).last_update(now)
                .next_update(now + datetime.timedelta(days=1)).add_revoked_certificate(entry)
                .sign(self.middle.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    # -- the server ---------------------------------------------------------------------------
    def start(self):
        self.away = False
        with self.ns.entered() if self.ns else contextlib.nullcontext():
            self.listener = socket.create_server((self.ip, self.port))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.dir / "ca-web.pem")
        context.set_alpn_protocols(["h2"])
        thread = threading.Thread(target=self._accept, args=(self.listener, context), daemon=True)
        thread.start()
        self.threads.append(thread)

    def stop(self):
        """Away: nothing listens, nothing stays connected."""
        self.away = True  # before the list is read: a connection that is not in it yet sees this
        if self.listener:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        for conn in self.conns:
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.gate.set()
        for thread in self.threads:
            thread.join()
        self.threads, self.conns = [], []

    def _accept(self, listener, context):
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(raw, context), daemon=True)
            self.threads.append(thread)
            self.conns.append(raw)
            thread.start()

    def _serve(self, raw, context):
        try:
            with context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as s:
                self.conns.append(s)
                if not self.away:
                    s.do_handshake()
                    self._talk(s)
        except OSError:
            pass  # the node went away
        except Exception as err:  # pylint: disable=broad-except
            if not self.away:  # once stop() has shut the socket down, Python reads from it without decrypting
                self.crashes.append("".join(traceback.format_exception(err)))

    def _talk(self, s):
        conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        conn.initiate_connection()
        s.sendall(conn.data_to_send())
        heads, bodies = {}, {}
        while True:
            data = s.recv(65536)
            if not data:
                return
            for event in conn.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id], bodies[event.stream_id] = dict(event.headers), b""
                elif isinstance(event, h2.events.DataReceived):
                    conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    bodies[event.stream_id] += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    self._answer(conn, event.stream_id, heads[event.stream_id], bodies[event.stream_id])
            s.sendall(conn.data_to_send())

    def _answer(self, conn, stream, heads, body):
        asked = self._parse(heads, body[5:])
        self.asked.append(asked)
        self.gate.wait()
        got = self.answer(asked) if heads[":path"] == METHOD else 12
        conn.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        if isinstance(got, bytes):
            message = got
        elif isinstance(got, list):
            message = b"".join(_field(1, pem) for pem in got)
        if not isinstance(got, int):
            conn.send_data(stream, struct.pack(">BI", 0, len(message)) + message)
        status = got if isinstance(got, int) else 0
        conn.send_headers(stream, [("grpc-status", str(status))] + ([("grpc-message", "not today")] if status else []),
                          end_stream=True)

    @staticmethod
    def _parse(heads, body):
        csr = impersonated = None
        ttl, at = 0, 0
        for number, value in _fields(body):
            if number == 1:
                csr = x509.load_pem_x509_csr(value)
            elif number == 4:
                for _, entry in _fields(value):
                    pair = dict(_fields(entry))
                    if pair[1] == b"ImpersonatedIdentity":
                        impersonated = dict(_fields(pair[2]))[3].decode()
        # validity_duration is the only number of the message.
        at = body.index(b"-----END CERTIFICATE REQUEST-----") + 33
        while body[at:at + 1] == b"\n":
            at += 1
        assert body[at] == 3 << 3, body[at:]
        for i, byte in enumerate(body[at + 1:]):
            ttl |= (byte & 127) << 7 * i
            if not byte & 128:
                break
        assert csr.is_signature_valid and not csr.subject.rdns
        san = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert san.critical
        return Asked(csr, san.value.get_values_for_type(x509.UniformResourceIdentifier)[0], impersonated, ttl, heads)


__all__ = ["CaPeer", "Signer"]
