# SPDX-License-Identifier: Apache-2.0
"""'spanwire fabric': an authority of linked sites and certificates of peers, as files."""
import socket
import ssl
import stat
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from harness.control import Control
from harness.wait import GUARD, SLOW, until


@pytest.fixture
def fabric(binary, tmp_path):
    def run(*args, check=True):
        done = subprocess.run([binary, "fabric", *map(str, args)], capture_output=True, text=True, check=False,
                              timeout=GUARD * SLOW, cwd=tmp_path)
        if check:
            assert done.returncode == 0, done.stderr
        return done
    return run


def refused(done, *why):
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done
    for w in why:
        assert w in done.stderr, done.stderr


def leaf(path):
    return x509.load_pem_x509_certificate((path / "cert.pem").read_bytes())


def names(cert):
    return cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


def context(path, server):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    c.load_cert_chain(str(path / "cert.pem"), str(path / "key.pem"))
    c.load_verify_locations(str(path / "ca.pem"))
    c.verify_mode = ssl.CERT_REQUIRED
    return c


def handshake(client, server, name):
    """Both sides show their certificate; what the server saw."""
    ours, theirs = socket.socketpair()
    seen = []

    def serve():
        with context(server, True).wrap_socket(theirs, server_side=True) as s:
            seen.append(s.getpeercert())
            s.recv(1)
    t = threading.Thread(target=serve)
    t.start()
    with context(client, False).wrap_socket(ours, server_hostname=name) as c:
        c.sendall(b"x")
    t.join()
    return [v for k, v in seen[0]["subjectAltName"] if k == "DNS"]


def test_sites_trust_each_other(fabric, binary, tmp_path):
    a, b = tmp_path / "f", tmp_path / "b"
    assert "peer 'east'" in fabric("create", "--name", "east", "--dir", a).stdout
    fabric("peer", "west", "--dir", a, "--out", b)
    assert sorted(f.name for f in b.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    for path, name in ((a, "east"), (b, "west")):
        assert names(leaf(path)) == [name]
        assert stat.S_IMODE((path / "key.pem").stat().st_mode) == 0o600
        uses = leaf(path).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
        assert isinstance(leaf(path).public_key().curve, ec.SECP256R1)
    assert stat.S_IMODE((a / "ca.key").stat().st_mode) == 0o600
    assert (a / "ca.pem").read_bytes() == (b / "ca.pem").read_bytes()
    assert handshake(a, b, "west") == ["east"] and handshake(b, a, "east") == ["west"]
    control = Control(binary, tmp_path / "control", "--link-listen", "127.0.0.1:0", "--link-fabric", str(b))
    try:
        until(lambda: "fabric certificate of 'west' in use" in control.log(), what="the certificate")
    finally:
        control.close()


def test_nothing_is_replaced(fabric, tmp_path):
    fabric("create", "--name", "east")
    before = {f.name: f.read_bytes() for f in (tmp_path / "fabric").iterdir()}
    refused(fabric("create", "--name", "east", check=False), "fabric/ca.pem", "nothing is replaced")
    fabric("peer", "west")
    refused(fabric("peer", "west", check=False), "west/", "nothing is replaced")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "key.pem").write_text("mine")
    refused(fabric("create", "--name", "east", "--dir", "half", check=False), "half/key.pem")
    assert [f.name for f in (tmp_path / "half").iterdir()] == ["key.pem"]
    assert before == {f.name: f.read_bytes() for f in (tmp_path / "fabric").iterdir()}


def test_a_request_is_signed_for_its_key_alone(fabric, tmp_path):
    fabric("create", "--name", "east")
    key = ec.generate_private_key(ec.SECP256R1())
    csr = (x509.CertificateSigningRequestBuilder()
           .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "east")]))
           .add_extension(x509.SubjectAlternativeName([x509.DNSName("east")]), False)
           .add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256()))
    (tmp_path / "r.csr").write_bytes(csr.public_bytes(serialization.Encoding.PEM))
    made = tmp_path / "made"
    made.mkdir()
    (made / "ca.pem").write_bytes((tmp_path / "fabric" / "ca.pem").read_bytes())
    (made / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                                     serialization.NoEncryption()))
    (made / "cert.pem").write_text(fabric("peer", "west", "--csr", "r.csr").stdout)
    cert = leaf(made)
    assert names(cert) == ["west"]
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert handshake(made, tmp_path / "fabric", "east") == ["west"]
    assert not (tmp_path / "west").exists()
    (tmp_path / "r.csr").write_text("hello")
    refused(fabric("peer", "west", "--csr", "r.csr", check=False), "CSR does not parse")


def test_mistakes_are_told(fabric, tmp_path):
    refused(fabric(check=False), "create, or peer NAME")
    refused(fabric("create", "x", check=False), "create, or peer NAME")
    refused(fabric("create", "--name", "a.b", check=False), "'a.b' is no name of a peer")
    refused(fabric("peer", "west", check=False), "fabric/ca.pem")
    fabric("create", "--name", "east")
    refused(fabric("peer", "../west", check=False), "no name of a peer")
    key = tmp_path / "fabric" / "ca.key"
    kept = key.read_bytes()
    key.write_text("hello")
    refused(fabric("peer", "west", check=False), "fabric': the root key does not parse")
    key.write_bytes(kept)
