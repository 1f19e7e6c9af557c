# SPDX-License-Identifier: Apache-2.0
"""What the fabric's CAs sign, and whose names peers believe: name constraints, one identity per certificate."""
import datetime
import ipaddress
import shutil
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from harness import certs
from harness.certs import client_context
from harness.control import Control
from harness.hbone_peer import rejected
from harness.wait import until

P1 = "spiffe://cluster.local/ns/default/sa/p1"
OTHER = "spiffe://other.domain/ns/default/sa/p1"
PROXIES = "/apis/networking.datumapis.com/v1alpha/namespaces/default/httpproxies"
GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways"
SECRETS = "/api/v1/namespaces/default/secrets"


# ---- HBONE ----

def refuses(mesh, cert, why):
    """Refused, the application untouched, the reason in the log; a good client is served."""
    assert rejected(mesh.p1, mesh.target, client_context(mesh.ca, cert), mesh.authority)
    assert mesh.app.accepted == 0
    mesh.node.wait_log(why)
    assert mesh.hbone(mesh.s2).tunnel(mesh.authority).status == 200


@pytest.mark.parametrize("uris", [[P1, OTHER], [OTHER, P1], [P1, P1 + "x"], ["spiffe://other.domain/any", P1],
                                  [P1, "SPIFFE://cluster.local/any"]], ids=["ours-first", "ours-last", "two-of-ours",
                                                                            "unknown-form", "upper-case"])
def test_a_certificate_with_two_identities_has_none(inbound, uris):
    """One was enough for the trust domain, and the other one was what policies saw."""
    refuses(inbound, inbound.ca.forge(uris), "more than one SPIFFE identity")


def test_other_uris_beside_the_identity_do_not_matter(inbound):
    cert = inbound.ca.forge(["https://p1.example/", P1])
    assert not rejected(inbound.p1, inbound.target, client_context(inbound.ca, cert), inbound.authority)


class Intermediate:
    """A CA below another, with name constraints; what Authority.forge needs of an issuer."""

    def __init__(self, parent, permitted=None, excluded=None):
        self.key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder()
                   .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "team")]))
                   .issuer_name(parent.cert.subject).public_key(self.key.public_key())
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
                   .add_extension(x509.BasicConstraints(True, 0), True)
                   .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False)
                   .add_extension(parent.key_id(), False)
                   .add_extension(x509.NameConstraints(permitted, excluded), True))
        self.cert = builder.sign(parent.key, hashes.SHA256())

    def key_id(self):
        ski = self.cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ski.value)

    def forge(self, authority, uris):
        cert = authority.forge(uris, issuer=self)
        with open(cert.crt, "ab") as f:
            f.write(self.cert.public_bytes(serialization.Encoding.PEM))
        return cert


def uri(name):
    return x509.UniformResourceIdentifier(name)


@pytest.mark.parametrize("permitted, good", [
    ("cluster.local", True), (".local", True), ("team.example", False), (".cluster.local", False), ("luster.local", False)])
def test_permitted_uris_of_an_intermediate(inbound, permitted, good):
    """The CA of a team may not speak for the whole trust domain."""
    cert = Intermediate(inbound.ca, permitted=[uri(permitted)]).forge(inbound.ca, [P1])
    if good:
        assert not rejected(inbound.p1, inbound.target, client_context(inbound.ca, cert), inbound.authority)
    else:
        refuses(inbound, cert, "outside the name constraints")


def test_excluded_uris_of_an_intermediate(inbound):
    cert = Intermediate(inbound.ca, excluded=[uri("cluster.local")]).forge(inbound.ca, [P1])
    refuses(inbound, cert, "outside the name constraints")


def test_our_own_root_is_constrained_to_its_trust_domain(binary, tmp_path):
    ca = certs.Authority(binary, tmp_path / "ca", constrained=True)
    found = ca.cert.extensions.get_extension_for_class(x509.NameConstraints)
    assert found.critical and found.value.permitted_subtrees == [uri("cluster.local")]
    good, bad = ca.issue(P1), ca.forge([OTHER])

    def verify(cert):
        return subprocess.run(["openssl", "verify", "-CAfile", ca.root, cert.crt], capture_output=True, check=False).returncode
    assert verify(good) == 0 and verify(bad) != 0


# ---- the CA of names that HTTPProxies have ----

@pytest.fixture(scope="module")
def control(binary, tmp_path_factory):
    c = Control(binary, tmp_path_factory.mktemp("control"), "--target-domain", "connect.test", "--certificate-domain",
                "devices.example")
    yield c
    c.close()


def proxy(control, name, *hosts):
    body = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy", "metadata": {"name": name}, "spec": {
        "hostnames": list(hosts), "rules": [{"backends": [{"endpoint": "http://10.1.2.3:80"}]}]}}
    assert control.post(PROXIES, body).status == 201


def certified(control):
    """Names in certificates of this CA that are in Secrets."""
    items = control.get(SECRETS + "?labelSelector=spanwire.dev%2Fissued%3Dtrue").json["items"]
    return {i["metadata"]["annotations"]["spanwire.dev/certificate-for"] for i in items}


def condition(obj, kind):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def root_of(data):
    return x509.load_pem_x509_certificate((data / "connect-ca/root.crt").read_bytes())


def check_constraints(root, *domains):
    found = root.extensions.get_extension_for_class(x509.NameConstraints)
    assert found.critical
    assert [n.value for n in found.value.permitted_subtrees if isinstance(n, x509.DNSName)] == list(domains)
    assert {n.value for n in found.value.excluded_subtrees} == {ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")}


def test_a_tenant_gets_no_certificate_for_somebody_elses_name(control):
    """Whoever trusts the fabric's CA would have trusted the tenant to be any bank."""
    proxy(control, "thief", "login.bank.example")
    proxy(control, "honest", "app.devices.example", "mine.localhost")
    until(lambda: {"app.devices.example", "mine.localhost"} <= certified(control), 20)
    until(lambda: len([n for n in certified(control) if n.endswith(".connect.test")]) == 2, 20)
    assert "login.bank.example" not in certified(control)
    until(lambda: condition(control.get(PROXIES + "/thief").json, "CertificatesReady").get("reason") ==
          "OutsideCertificateDomains", 20)
    until(lambda: "'login.bank.example' is under no domain that the fabric's CA signs for" in control.log())
    listeners = control.get(GATEWAYS + "/thief").json["spec"]["listeners"]
    assert {x["protocol"] for x in listeners if x["hostname"] == "login.bank.example"} == {"HTTP"}


def test_its_root_says_what_it_signs(control):
    check_constraints(root_of(control.data), "connect.test", "devices.example", "localhost")


def old_root(directory, name="spanwire root of connect.spanwire"):
    """As versions without constraints made it: (certificate, key)."""
    directory.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.utcnow()
    cert = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=3000)).add_extension(x509.BasicConstraints(True, None), True)
            .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), True)
            .add_extension(x509.SubjectAlternativeName([uri("spiffe://connect.spanwire")]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False).sign(key, hashes.SHA256()))
    (directory / "root.crt").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    (directory / "root.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                                           serialization.NoEncryption()))
    return cert, key


def leaf_of(cert, key, name, path):
    now = datetime.datetime.utcnow()
    own = ec.generate_private_key(ec.SECP256R1())
    leaf = (x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(cert.subject).public_key(own.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False).sign(key, hashes.SHA256()))
    path.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    return str(path)


def test_an_old_root_is_renewed(binary, tmp_path):
    old, key = old_root(tmp_path / "control/data/connect-ca")
    before = (tmp_path / "control/data/connect-ca/root.key").read_bytes()
    c = Control(binary, tmp_path / "control", "--target-domain", "connect.test")
    until(lambda: "was renewed with the domains it may sign for" in c.log())
    new = root_of(c.data)
    check_constraints(new, "connect.test", "localhost")
    assert new.subject == old.subject and new.public_key().public_numbers() == old.public_key().public_numbers()
    assert new.not_valid_after == old.not_valid_after and new.serial_number != old.serial_number
    assert (c.data / "connect-ca/root.key").read_bytes() == before
    # What was signed before is good below the new one, if it may be; and what may not be, is not.
    for name, good in (("a.connect.test", True), ("login.bank.example", False)):
        leaf = leaf_of(old, key, name, tmp_path / "leaf.crt")
        done = subprocess.run(["openssl", "verify", "-CAfile", str(c.data / "connect-ca/root.crt"), leaf],
                              capture_output=True, check=False)
        assert (done.returncode == 0) == good
    c.close()
    # Once.
    shutil.copytree(tmp_path / "control/data/connect-ca", tmp_path / "again/data/connect-ca")
    c = Control(binary, tmp_path / "again", "--target-domain", "connect.test")
    assert root_of(c.data) == new
    c.close()


def test_the_root_of_the_operator_stays_and_signs_no_more(binary, tmp_path):
    old, _ = old_root(tmp_path / "control/data/connect-ca", "The Company")
    c = Control(binary, tmp_path / "control", "--target-domain", "connect.test")
    assert root_of(c.data) == old
    proxy(c, "thief", "login.bank.example")
    until(lambda: condition(c.get(PROXIES + "/thief").json, "CertificatesReady").get("reason") == "OutsideCertificateDomains", 20)
    assert "login.bank.example" not in certified(c)
    c.close()


def test_domains_that_are_none(binary, tmp_path):
    for value in ("*.example", "", "Example.com", "a..b", "10.0.0.1/8"):
        done = subprocess.run([binary, "control", "--data", str(tmp_path / "x"), "--listen", "127.0.0.1:0",
                               f"--certificate-domain={value}"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode and "--certificate-domain" in done.stderr, done
