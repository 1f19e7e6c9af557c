# SPDX-License-Identifier: Apache-2.0
"""Certificates from a certificate authority on the network: a foreign one that speaks Istio's API, with two nodes."""
import base64

import pytest
from cryptography import x509
from harness import traffic
from harness.ca_peer import CaPeer, Signer, _pem
from harness.wait import until

FABRIC = "172.172.0.254"


@pytest.fixture
def ca(mesh, tmp_path):
    peer = mesh.keep(CaPeer(tmp_path, FABRIC))
    mesh.both_ca = lambda *flags, **kw: mesh.both(*peer.flags(), *flags, without=("--local-ca",), **kw)
    mesh.one_ca = lambda name, *flags, **kw: mesh.shared(name, *peer.flags(), *flags, without=("--local-ca",), **kw)
    return peer


def certificates(node):
    return {c["identity"]: c for c in node.config_dump()["certificates"]}


def state(node, pod):
    return certificates(node).get(pod.identity, {}).get("state", "")


def parsed(entry):
    return x509.load_pem_x509_certificate(base64.b64decode(entry["pem"]))


def available(node, pod):
    until(lambda: state(node, pod) == "Available", what=f"a certificate of {pod.name}: {node.log()[-1500:]}")


@pytest.mark.tsan
def test_traffic_with_certificates_of_the_authority(mesh, ca):
    """What is asked, and what is made of the answer: leaf and intermediate are shown, the roots trusted."""
    node1, node2 = mesh.both_ca("--secret-ttl", "2h", "--cluster-id", "one",
                                env={"CA_HEADER_X-Extra": "more"})
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    asked = {a.identity: a for a in ca.asked}
    assert {mesh.c1.identity, mesh.s2.identity} <= set(asked)
    one = asked[mesh.c1.identity]
    assert one.impersonated == mesh.c1.identity and one.ttl == 7200
    assert one.headers["authorization"] == "Bearer the-token"
    assert one.headers["clusterid"] == "one" and one.headers["x-extra"] == "more"
    entry = certificates(node1)[mesh.c1.identity]
    assert entry["state"] == "Available"
    assert len(entry["certChain"]) == 2 and len(entry["rootCerts"]) == 1
    leaf = parsed(entry["certChain"][0])
    assert str(leaf.serial_number) == entry["certChain"][0]["serialNumber"]
    assert entry["certChain"][0]["validFrom"] < entry["certChain"][0]["expirationTime"]
    assert node2.metrics().sum("spanwire_certificate_requests_total", result="issued") >= 1
    line = node2.wait_access(direction="inbound")[0]
    assert line["src.identity"] == mesh.c1.identity


def test_dedicated_node_asks_for_itself(mesh, tmp_path):
    """One workload, whose own token it is: nobody is impersonated. The request passes the pod's redirection."""
    ca = mesh.keep(CaPeer(tmp_path, "10.0.1.1", ns=mesh.topo.nodes["node1"]))
    token = "a" * 400  # the token itself, longer than any file's name
    node = mesh.dedicated(mesh.d1, *ca.flags()[:-1], token, without=("--local-ca",))
    available(node, mesh.d1)
    asked = ca.asked[0]
    assert asked.identity == mesh.d1.identity and asked.impersonated is None
    assert asked.headers["authorization"] == "Bearer " + token
    assert token not in node.log() and token not in node.admin("/config_dump")[1]


def test_token_is_read_for_every_request(mesh, ca):
    ca.ttl = 4
    mesh.one_ca("node1")
    until(lambda: ca.asked, what="a request")
    ca.token_file.write_text("another")
    until(lambda: any(a.headers["authorization"] == "Bearer another" for a in list(ca.asked)), what="the new token")


@pytest.mark.tsan
def test_rotation_under_traffic(mesh, ca):
    """Short lives: an open connection lasts over several renewals, new ones are made with what is current."""
    ca.ttl = 6
    node1, _ = mesh.both_ca()
    mesh.echo(mesh.s2)
    held = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(held)
    serials = set()

    def renewed():
        entry = certificates(node1)[mesh.c1.identity]
        assert entry["state"] == "Available"
        serials.add(entry["certChain"][0]["serialNumber"])
        mesh.roundtrip(mesh.c1, mesh.s2)
        traffic.echo_once(held)
        return len(serials) >= 4
    until(renewed, what="three renewals")


def test_second_root_is_trusted_without_cutting_connections(mesh, ca):
    ca.ttl = 6
    node1, node2 = mesh.both_ca()
    mesh.echo(mesh.s2)
    held = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(held)
    ca.roots = [ca.root, Signer("root two")]  # distributed first, then in use
    until(lambda: all(len(certificates(n)[p.identity]["rootCerts"]) == 2
                      for n, p in ((node1, mesh.c1), (node2, mesh.s2))), what="both roots on both nodes")
    ca.root = ca.roots[1]
    ca.middle = Signer("intermediate two", ca.root)
    name = ca.middle.cert.subject

    def moved():
        mesh.roundtrip(mesh.c1, mesh.s2)
        traffic.echo_once(held)
        return all(parsed(certificates(n)[p.identity]["certChain"][0]).issuer == name
                   for n, p in ((node1, mesh.c1), (node2, mesh.s2)))
    until(moved, what="certificates of the second root")
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_authority_away_at_the_start(mesh, ca):
    """Fails closed with the reason, at once; recovers by itself."""
    ca.stop()
    node1 = mesh.one_ca("node1")
    mesh.shared("node2", *ca.flags(), without=("--local-ca",))
    mesh.echo(mesh.s2)
    until(lambda: state(node1, mesh.c1).startswith("Unavailable: "), what="an error in the dump")
    assert mesh.refused(mesh.c1, mesh.s2)
    line = node1.wait_access(message="connection complete", direction="outbound")[0]
    assert "15012" in line["error"]
    assert node1.metrics().sum("istio_tcp_connections_closed_total", response_flags="IDENTITY_ERROR") >= 1
    assert node1.metrics().sum("spanwire_certificate_requests_total", result="unavailable") >= 1
    node1.wait_log(r"cannot get a certificate for spiffe://cluster.local/ns/default/sa/c1: .*retrying in")
    ca.start()
    for node, pod in ((node1, mesh.c1), (mesh.nodes[1], mesh.s2)):
        available(node, pod)
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_authority_away_while_a_certificate_is_valid(mesh, ca):
    """The old certificate stays in use; the renewal comes with the authority."""
    ca.ttl = 40
    node1, node2 = mesh.both_ca()
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    ca.ttl = 8
    before = certificates(node1)[mesh.c1.identity]["certChain"][0]["serialNumber"]
    ca.stop()
    until(lambda: node1.metrics().sum("spanwire_certificate_requests_total", result="unavailable") >= 1
          and node2.metrics().sum("spanwire_certificate_requests_total", result="unavailable") >= 1,
          what="failed renewals")
    assert state(node1, mesh.c1) == "Available"
    mesh.roundtrip(mesh.c1, mesh.s2)
    node1.wait_log("the previous one is still valid")
    ca.start()
    until(lambda: certificates(node1)[mesh.c1.identity]["certChain"][0]["serialNumber"] != before,
          what="a renewed certificate")
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_connection_waits_for_a_slow_authority(mesh, ca):
    """Initializing: the connection is neither refused nor sent in the clear."""
    ca.gate.clear()
    node1, node2 = mesh.both_ca()
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    until(lambda: state(node1, mesh.c1) == "Initializing" and ca.asked, what="a request under way")
    sock.sendall(b"early")
    ca.gate.set()
    assert sock.recv(5) == b"early"
    assert state(node1, mesh.c1) == state(node2, mesh.s2) == "Available"


def test_an_authority_that_does_not_answer_is_unavailable(mesh, ca):
    """It denied nothing: while connections need the certificate, it is asked again as soon as one that cannot be reached."""
    ca.gate.clear()
    node1 = mesh.one_ca("node1")
    node1.wait_log("status 4", timeout=20)
    assert node1.metrics().sum("spanwire_certificate_requests_total", result="unavailable") >= 1
    assert node1.metrics().sum("spanwire_certificate_requests_total", result="denied") == 0
    ca.gate.set()


def test_plain_destinations_do_not_wait(mesh, ca):
    """Only what needs a certificate waits for one."""
    ca.gate.clear()
    node1 = mesh.one_ca("node1")
    mesh.echo(mesh.u2)
    mesh.roundtrip(mesh.c1, mesh.u2)
    assert state(node1, mesh.c1) == "Initializing"
    ca.gate.set()


def other_key(ca, asked):
    return [_pem(ca.leaf(asked, key=Signer("x").key.public_key())), _pem(ca.middle.cert), ca.bundle()]


WRONG = {
    "another-identity": (lambda ca, a: [_pem(ca.leaf(a, identity="spiffe://cluster.local/ns/default/sa/admin")),
                                        _pem(ca.middle.cert), ca.bundle()], "issued a certificate for"),
    "no-root": (lambda ca, a: [_pem(ca.leaf(a))], "needs a leaf and a root bundle"),
    "empty": (lambda ca, a: b"", "needs a leaf and a root bundle"),
    "garbage": (lambda ca, a: b"\xff\xff\xff\xff\x01", "."),
    "no-pem": (lambda ca, a: ["hello", ca.bundle()], "not a certificate"),
    "another-key": (other_key, "do not belong together"),
    "foreign-root": (lambda ca, a: [_pem(ca.leaf(a)), _pem(ca.middle.cert), _pem(Signer("foreign").cert)],
                     "does not lead to one of its roots"),
    "without-intermediate": (lambda ca, a: [_pem(ca.leaf(a)), ca.bundle()], "does not lead to one of its roots"),
    "expired": (lambda ca, a: [_pem(ca.leaf(a, begin=-7200, end=-60)), _pem(ca.middle.cert), ca.bundle()],
                "not valid at this time"),
    "refused": (lambda ca, a: 16, "status 16: not today"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_fail_closed(mesh, ca, name):
    """Nothing but the right certificate is used; the right one is, when it comes."""
    answer, reason = WRONG[name]
    ca.answer = lambda asked: answer(ca, asked) if asked.identity == mesh.c1.identity else ca.sign(asked)
    node1, _ = mesh.both_ca()
    mesh.echo(mesh.s2)
    node1.wait_log(f"cannot get a certificate for {mesh.c1.identity}: .*{reason}")
    until(lambda: state(node1, mesh.c1).startswith("Unavailable: "), what="an error in the dump")
    assert mesh.refused(mesh.c1, mesh.s2)
    ca.answer = ca.sign
    available(node1, mesh.c1)
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_server_name_and_root_of_the_authority(mesh, tmp_path):
    """A certificate for another name is refused, unless that name is allowed besides; so is another root."""
    ca = mesh.keep(CaPeer(tmp_path, FABRIC, names=["authority.example"]))
    node1 = mesh.shared("node1", *ca.flags(), without=("--local-ca",))
    node1.wait_log("cannot get a certificate for .*authority.example")
    assert not ca.asked
    node1.terminate()
    node1.wait()
    again = mesh.shared("node1", *ca.flags(), "--ca-alt-name", "authority.example", without=("--local-ca",))
    available(again, mesh.c1)
    again.terminate()
    again.wait()
    good = ca.root_file.read_text()
    ca.root_file.write_text(_pem(Signer("stranger").cert))
    third = mesh.shared("node1", *ca.flags(), "--ca-alt-name", "authority.example", without=("--local-ca",))
    third.wait_log("cannot get a certificate for ")
    assert state(third, mesh.c1) != "Available"
    ca.root_file.write_text(good)  # read again, without a restart
    available(third, mesh.c1)


def test_a_root_that_comes_later(mesh, ca):
    """As a ConfigMap that is not there yet. The token was read before: nothing of it stays behind."""
    good = ca.root_file.read_text()
    ca.root_file.unlink()
    node = mesh.one_ca("node1")
    node.wait_log("cannot get a certificate for .*ca-root.pem")
    assert not ca.asked
    ca.root_file.write_text(good)
    available(node, mesh.c1)


def test_settings_that_exclude_each_other(mesh, ca):
    node = mesh.shared("node1", *ca.flags(), wait=False)
    node.expect_status = None
    assert node.wait() != 0
    assert "exclude each other" in node.log()


def test_compliance_policy_that_cannot_be_met(mesh):
    node = mesh.shared("node1", wait=False, env={"COMPLIANCE_POLICY": "pqc"})
    node.expect_status = None
    assert node.wait() != 0
    assert "COMPLIANCE_POLICY 'pqc' cannot be met" in node.log()


def test_revoked_peer_of_the_authority(mesh, ca):
    """A revocation list of the authority's intermediate, put in place later, ends the peer's connections."""
    node1, node2 = mesh.both_ca("--crl", str(mesh.dir / "crl.pem"))
    mesh.echo(mesh.s2)
    held = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(held)
    serial = int(certificates(node1)[mesh.c1.identity]["certChain"][0]["serialNumber"])
    (mesh.dir / "crl.tmp").write_bytes(ca.revoke(serial))
    (mesh.dir / "crl.tmp").rename(mesh.dir / "crl.pem")
    until(lambda: traffic.ended(held), what="the end of the connection")
    assert mesh.refused(mesh.c1, mesh.s2)
    node2.wait_log("peer certificate has been revoked")
