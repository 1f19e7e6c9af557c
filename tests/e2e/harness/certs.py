# SPDX-License-Identifier: Apache-2.0
"""Certificates: good ones from 'spanwire cert', wrong ones made here with the same authority."""
import datetime
import os
import pathlib
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .netns import run


@dataclass(frozen=True)
class Cert:
    crt: str
    key: str

    def x509(self):
        return x509.load_pem_x509_certificate(pathlib.Path(self.crt).read_bytes())


def spiffe_ids(cert):
    """SPIFFE URIs of a parsed certificate."""
    san = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return san.get_values_for_type(x509.UniformResourceIdentifier)


def _now():
    return datetime.datetime.utcnow()


def _pem(path, data):
    path.write_bytes(data)
    os.chmod(path, 0o600)
    return str(path)


def _key_pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


class Authority:
    """A certificate authority directory as 'spanwire cert ca' makes it."""

    def __init__(self, binary, directory, trust_domain="cluster.local", constrained=False):
        """Without name constraints by default: tests forge names of other trust domains with it."""
        self.binary = binary
        self.dir = pathlib.Path(directory)
        self.out = self.dir.parent / (self.dir.name + "-issued")
        self.out.mkdir()
        run(binary, "cert", "ca", "--dir", str(self.dir), "--trust-domain", trust_domain,
            *([] if constrained else ["--any-trust-domain"]))
        self.cert, self.root, self.key = self._load()
        self.cache = {}
        self.count = 0

    def _load(self):
        """Finds the authority by content, so the names of the files are no contract here."""
        certs, keys = [], []
        for path in sorted(self.dir.iterdir()):
            data = path.read_bytes() if path.is_file() else b""
            if b"BEGIN CERTIFICATE" in data:
                certs.append((x509.load_pem_x509_certificate(data), str(path)))
            if b"PRIVATE KEY" in data:
                keys.append(serialization.load_pem_private_key(data, None))
        for cert, path in certs:
            for key in keys:
                if cert.public_key().public_numbers() == key.public_key().public_numbers():
                    return cert, path, key
        raise AssertionError(f"no certificate with its key in {self.dir}")

    def key_id(self):
        """How certificates and lists name this authority's key."""
        ski = self.cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ski.value)

    def _prefix(self):
        self.count += 1
        return self.out / f"c{self.count}"

    def issue(self, identity, ttl=None):
        """A good certificate from 'spanwire cert issue'."""
        if ttl is None and identity in self.cache:
            return self.cache[identity]
        prefix = str(self._prefix())
        extra = ["--ttl", ttl] if ttl else []
        run(self.binary, "cert", "issue", "--dir", str(self.dir), "--id", identity,
            "--out", prefix, *extra)
        cert = Cert(prefix + ".crt", prefix + ".key")
        if ttl is None:
            self.cache[identity] = cert
        return cert

    def forge(self, uris, start=-3600, end=3600, self_signed=False,
              usages=(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
              issuer=None):
        """Any certificate: validity in seconds from now, any SANs, by us or by itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "forged")])
        signer = issuer or self
        builder = (x509.CertificateBuilder().subject_name(name)
                   .issuer_name(name if self_signed else signer.cert.subject)
                   .public_key(key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(_now() + datetime.timedelta(seconds=start))
                   .not_valid_after(_now() + datetime.timedelta(seconds=end))
                   .add_extension(x509.BasicConstraints(False, None), True))
        if uris:
            san = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(u) for u in uris])
            builder = builder.add_extension(san, True)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), False)
        if not self_signed:
            builder = builder.add_extension(signer.key_id(), False)
        cert = builder.sign(key if self_signed else signer.key, hashes.SHA256())
        prefix = self._prefix()
        return Cert(_pem(prefix.with_suffix(".crt"),
                         cert.public_bytes(serialization.Encoding.PEM)),
                    _pem(prefix.with_suffix(".key"), _key_pem(key)))

    def crl(self, *serials):
        """A PEM revocation list of this authority naming the serial numbers."""
        builder = (x509.CertificateRevocationListBuilder().issuer_name(self.cert.subject)
                   .last_update(_now() - datetime.timedelta(hours=1))
                   .next_update(_now() + datetime.timedelta(days=1))
                   .add_extension(x509.CRLNumber(len(serials) + 1), False)
                   .add_extension(self.key_id(), False))
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial)
                .revocation_date(_now() - datetime.timedelta(hours=1)).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_context(authority, cert=None, alpn=("h2",), verify=True,
                   versions=(ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname = False
    ctx.minimum_version, ctx.maximum_version = versions
    if verify:
        ctx.load_verify_locations(authority.root)
    else:
        ctx.verify_mode = ssl.CERT_NONE
    if cert:
        ctx.load_cert_chain(cert.crt, cert.key)
    if alpn:
        ctx.set_alpn_protocols(list(alpn))
    return ctx


def server_context(authority, cert, alpn=("h2",), client_cert=True,
                   versions=(ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.minimum_version, ctx.maximum_version = versions
    ctx.load_cert_chain(cert.crt, cert.key)
    ctx.load_verify_locations(authority.root)
    ctx.verify_mode = ssl.CERT_REQUIRED if client_cert else ssl.CERT_NONE
    if alpn:
        ctx.set_alpn_protocols(list(alpn))
    return ctx
