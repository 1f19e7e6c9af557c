# SPDX-License-Identifier: Apache-2.0
"""The certificates the suite makes when it starts, as Secrets and ConfigMaps."""
import base64
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

INFRA = "gateway-conformance-infra"
APP = "gateway-conformance-app-backend"
WEB = "gateway-conformance-web-backend"


class Pair:
    """A key and its certificate; without an issuer it signs itself."""

    def __init__(self, common, names=(), issuer=None, ca=False):
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
        now = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder().subject_name(name)
                   .issuer_name(issuer.cert.subject if issuer else name)
                   .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(hours=1))
                   .not_valid_after(now + datetime.timedelta(days=7))
                   .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier(n) if "://" in n else x509.DNSName(n) for n in names]),
                critical=False)
        if not ca:
            builder = builder.add_extension(x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        self.cert = builder.sign(issuer.key if issuer else self.key, hashes.SHA256())
        self.cert_pem = self.cert.public_bytes(serialization.Encoding.PEM).decode()
        self.der = self.cert.public_bytes(serialization.Encoding.DER)
        self.key_pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()).decode()


def _secret(namespace, name, pair):
    data = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": namespace},
            "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}}


def config_map(namespace, name, pair):
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}, "data": {"ca.crt": pair.cert_pem}}


class Credentials:
    """`pairs` by Secret or ConfigMap name, `objects` to be created."""

    def __init__(self):
        self.pairs, self.objects = {}, []
        backend = self._authority("tls-checks-ca-certificate")
        self._add("tls-checks-certificate", ["abc.example.com", "spiffe://abc.example.com/test-identity",
                                             "other.example.com"], backend)
        self._add("tls-checks-client-certificate", ["client.example.com"], backend)
        self._add("tls-terminate-checks-certificate", ["tls.example.com"], backend)
        passthrough = self._add("tls-passthrough-checks-certificate", ["abc.example.com"], backend)
        self.objects.append(_secret(APP, "tls-passthrough-checks-certificate", passthrough))
        self._add("certificate", ["*"], None, WEB)
        self._add("tls-validity-checks-certificate", ["*", "*.org", "*.wildcard.org"])
        for prefix in ("tls-validity-checks-", "tls-validity-checks-per-port-"):
            ca = self._authority(prefix + "ca-certificate")
            self._add(prefix + "client-certificate", ["client.example.org"], ca)
        self._authority("mismatch-ca-certificate")
        self._authority("web-backend-cm", WEB)

    def _authority(self, name, namespace=INFRA):
        pair = self.pairs[name] = Pair(name, ca=True)
        self.objects.append(config_map(namespace, name, pair))
        return pair

    def _add(self, name, names, issuer=None, namespace=INFRA):
        pair = self.pairs[name] = Pair(names[0], names, issuer)
        self.objects.append(_secret(namespace, name, pair))
        return pair
