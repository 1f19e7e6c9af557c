# SPDX-License-Identifier: Apache-2.0
"""Who is who: certificates accepted and refused on both sides, rotation, revocation."""
import base64
import shutil
import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from harness import certs, traffic
from harness.certs import client_context, server_context
from harness.hbone_peer import App, hbone_client, rejected
from harness.mesh import PORT
from harness.wait import GUARD, guard, stays, until

P1 = "spiffe://cluster.local/ns/default/sa/p1"


def check_refused(mesh, context):
    """Refused, the application untouched, said in the log, and a good client still served."""
    assert rejected(mesh.p1, mesh.target, context, mesh.authority)
    assert mesh.app.accepted == 0
    mesh.node.wait_log(r"\taccess\tconnection failed|\twarn\t|\terror\t")
    peer = mesh.hbone(mesh.s2)
    assert peer.tunnel(mesh.authority).status == 200


# -- clients that must not get in -------------------------------------------------------------

@pytest.mark.tsan
def test_trust_domain_mismatch_rejected(inbound):
    cert = inbound.ca.forge(["spiffe://other.domain/ns/default/sa/p1"])
    check_refused(inbound, client_context(inbound.ca, cert))


def test_expired_certificate(inbound):
    cert = inbound.ca.forge([P1], start=-7200, end=-60)
    check_refused(inbound, client_context(inbound.ca, cert))


def test_certificate_of_the_future(inbound):
    cert = inbound.ca.forge([P1], start=3600, end=7200)
    check_refused(inbound, client_context(inbound.ca, cert))


def test_self_signed_certificate(inbound):
    cert = inbound.ca.forge([P1], self_signed=True)
    check_refused(inbound, client_context(inbound.ca, cert))


def test_no_certificate(inbound):
    check_refused(inbound, client_context(inbound.ca))


def test_certificate_of_another_authority(inbound, binary, tmp_path_factory):
    """Same name, other key: the chain decides, not the text."""
    other = certs.Authority(binary, tmp_path_factory.mktemp("other") / "ca")
    context = client_context(inbound.ca, other.issue(P1))
    check_refused(inbound, context)


@pytest.mark.parametrize("uris", [[], ["https://p1.example/"]])
def test_certificate_without_spiffe_name(inbound, uris):
    check_refused(inbound, client_context(inbound.ca, inbound.ca.forge(uris)))


def test_forged_certificate_that_is_good(inbound):
    """The counter-check of all the refusals here."""
    cert = inbound.ca.forge([P1])
    assert not rejected(inbound.p1, inbound.target, client_context(inbound.ca, cert),
                        inbound.authority)


@pytest.mark.parametrize("uri", [
    "spiffe://cluster.local/ns/default/sa", "spiffe://cluster.local/ns/default/sa/p1/extra",
    "spiffe://cluster.local/n/default/s/p1", "spiffe://cluster.local",
])
def test_names_that_are_no_workload_identity(inbound, uri):
    check_refused(inbound, client_context(inbound.ca, inbound.ca.forge([uri])))


def test_certificate_for_servers_only(inbound):
    cert = inbound.ca.forge([P1], usages=(ExtendedKeyUsageOID.SERVER_AUTH,))
    check_refused(inbound, client_context(inbound.ca, cert))


def test_certificate_without_key_usage_is_accepted(inbound):
    cert = inbound.ca.forge([P1], usages=())
    assert not rejected(inbound.p1, inbound.target, client_context(inbound.ca, cert),
                        inbound.authority)


def test_the_spiffe_name_is_the_identity(inbound):
    cert = inbound.ca.forge(["https://p1.example/", P1])
    peer = inbound.keep(hbone_client(inbound.p1, inbound.target,
                                     client_context(inbound.ca, cert)))
    stream = peer.tunnel(inbound.authority)
    assert stream.status == 200
    peer.end(stream)
    assert inbound.node.wait_access(direction="inbound")[-1]["src.identity"] == P1


@pytest.mark.parametrize("alpn", [("http/1.1",), ("h2c", "spdy/1")])
def test_wrong_alpn(inbound, alpn):
    cert = inbound.ca.issue(P1)
    check_refused(inbound, client_context(inbound.ca, cert, alpn=alpn))


def test_a_client_without_alpn_is_served(inbound):
    cert = inbound.ca.issue(P1)
    assert not rejected(inbound.p1, inbound.target, client_context(inbound.ca, cert, alpn=None),
                        inbound.authority)


def test_tls12_is_refused(inbound):
    v12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    cert = inbound.ca.issue(P1)
    check_refused(inbound, client_context(inbound.ca, cert, versions=v12))
    out = inbound.p1.run("timeout", f"{guard(GUARD):g}", "openssl", "s_client", "-connect",
                         f"{inbound.s2.ip4}:15008", "-tls1_2", "-alpn", "h2", stdin="",
                         check=False)
    assert "alert protocol version" in out


def test_tls12_when_enabled(mesh):
    mesh.shared("node2", env={"TLS12_ENABLED": "true"})
    mesh.echo(mesh.s2)
    target, authority = (mesh.s2.ip4, 15008), f"{mesh.s2.ip4}:{PORT}"
    v12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    for suite in ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"):
        context = client_context(mesh.ca, mesh.ca.issue(P1), versions=v12)
        context.set_ciphers(suite)
        assert not rejected(mesh.p1, target, context, authority)
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    assert rejected(mesh.p1, target, context, authority)
    assert not rejected(mesh.p1, target, mesh.client_context(), authority)


@pytest.mark.parametrize("suite, good", [
    ("TLS_AES_256_GCM_SHA384", True), ("TLS_AES_128_GCM_SHA256", True),
    ("TLS_CHACHA20_POLY1305_SHA256", False)])
def test_cipher_suites(inbound, suite, good):
    cert = inbound.ca.issue(P1)
    out = inbound.p1.run("timeout", f"{guard(GUARD):g}", "openssl", "s_client", "-connect",
                         f"{inbound.s2.ip4}:15008", "-tls1_3", "-ciphersuites", suite, "-alpn",
                         "h2", "-cert", cert.crt, "-key", cert.key, "-CAfile", inbound.ca.root,
                         "-verify_return_error", stdin="", check=False)
    assert (f"Cipher is {suite}" in out) is good, out
    if good:
        assert "Verify return code: 0 (ok)" in out


def test_server_sends_the_leaf_without_the_root(inbound):
    cert = inbound.ca.issue(P1)
    out = inbound.p1.run("timeout", f"{guard(GUARD):g}", "openssl", "s_client", "-connect",
                         f"{inbound.s2.ip4}:15008", "-showcerts", "-alpn", "h2", "-cert",
                         cert.crt, "-key", cert.key, "-CAfile", inbound.ca.root, stdin="",
                         check=False)
    assert out.count("BEGIN CERTIFICATE") == 1


def test_certificate_is_chosen_by_the_namespace(inbound):
    """One process serves several pods; SNI does not matter."""
    for pod in (inbound.s2, inbound.t2, inbound.c2):
        peer = inbound.hbone(pod, sni="s2.example.com")
        assert peer.peer_identity == pod.identity


# -- servers that must not be talked to -------------------------------------------------------

@pytest.fixture
def outbound(mesh):
    mesh.node = mesh.shared("node1")
    return mesh


def check_not_used(mesh, context):
    server = mesh.hbone_server(mesh.p2, context=context)
    assert mesh.refused(mesh.c1, mesh.p2, 80)
    assert not server.streams, "no request may reach the wrong server"
    line = mesh.node.wait_access(direction="outbound")[-1]
    assert line["error"]
    flags = {lab["response_flags"] for lab, v in
             mesh.node.metrics().find("istio_tcp_connections_closed_total", reporter="source")}
    assert flags and "-" not in flags


@pytest.mark.tsan
def test_server_with_another_identity(outbound):
    check_not_used(outbound, outbound.server_context(outbound.q2.identity))


def test_server_of_another_trust_domain(outbound):
    cert = outbound.ca.forge(["spiffe://other.domain/ns/default/sa/p2"])
    check_not_used(outbound, server_context(outbound.ca, cert))


def test_server_with_expired_certificate(outbound):
    cert = outbound.ca.forge([outbound.p2.identity], start=-7200, end=-60)
    check_not_used(outbound, server_context(outbound.ca, cert))


def test_server_with_self_signed_certificate(outbound):
    cert = outbound.ca.forge([outbound.p2.identity], self_signed=True)
    check_not_used(outbound, server_context(outbound.ca, cert))


def test_server_with_client_certificate_only(outbound):
    cert = outbound.ca.forge([outbound.p2.identity], usages=(ExtendedKeyUsageOID.CLIENT_AUTH,))
    check_not_used(outbound, server_context(outbound.ca, cert))


def test_server_with_wrong_alpn(outbound):
    check_not_used(outbound, outbound.server_context(outbound.p2.identity, alpn=("http/1.1",)))


def test_server_with_tls12_only(outbound):
    v12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    check_not_used(outbound, outbound.server_context(outbound.p2.identity, versions=v12))


def test_server_that_is_not_tls(outbound):
    outbound.echo(outbound.p2, 15008, greeting=b"220 hello\r\n")
    assert outbound.refused(outbound.c1, outbound.p2, 80)
    assert outbound.node.wait_access(direction="outbound")[-1]["error"]


def test_other_trust_domain_is_fine_outbound_when_it_is_expected(outbound):
    """The record says which trust domain the destination has; the chain must still verify."""
    identity = "spiffe://other.domain/ns/default/sa/p2"
    outbound.world.workloads["p2"]["trustDomain"] = "other.domain"
    outbound.apply()
    outbound.hbone_server(outbound.p2, context=server_context(
        outbound.ca, outbound.ca.forge([identity])))
    outbound.roundtrip(outbound.c1, outbound.p2, 80)


# -- rotation ---------------------------------------------------------------------------------

def certificates(node):
    return {c["identity"]: c for c in node.config_dump()["certificates"]}


def leaf(entry):
    return x509.load_pem_x509_certificate(base64.b64decode(entry["certChain"][0]["pem"]))


def test_certificates_are_there_before_traffic(mesh):
    """Prefetch for the workloads of this node, and only those."""
    node1, node2 = mesh.both()
    for node, pods in ((node1, ("c1", "s1")), (node2, ("c2", "s2", "t2", "x2"))):
        want = {mesh.pods[p].identity for p in pods}
        until(lambda n=node, w=want: w <= {i for i, c in certificates(n).items() if c["state"] == "Available"})
        have = certificates(node)
        other = mesh.s2 if node is node1 else mesh.s1
        assert other.identity not in have


def test_config_dump_describes_certificates(mesh):
    node = mesh.shared("node1", "--secret-ttl", "1h")
    until(lambda: certificates(node).get(mesh.c1.identity, {}).get("state") == "Available")
    entry = certificates(node)[mesh.c1.identity]
    cert = leaf(entry)
    assert certs.spiffe_ids(cert) == [mesh.c1.identity]
    shown = entry["certChain"][0]
    assert shown["serialNumber"] == str(cert.serial_number)
    assert shown["validFrom"].startswith(cert.not_valid_before.strftime("%Y-%m-%dT%H:%M:%S"))
    assert shown["expirationTime"].startswith(
        cert.not_valid_after.strftime("%Y-%m-%dT%H:%M:%S"))
    assert (cert.not_valid_after - cert.not_valid_before).total_seconds() <= 3700
    assert len(entry["rootCerts"]) == 1


@pytest.mark.tsan
def test_rotation_at_half_life(mesh):
    """New handshakes use the new certificate, open connections go on."""
    mesh.shared("node2", "--secret-ttl", "14s")  # half of it is left to whoever comes late
    mesh.echo(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    first = peer.peer_cert.serial_number
    stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}")
    peer.echo(stream)

    def rotated():
        fresh = mesh.hbone(mesh.s2)
        serial = fresh.peer_cert.serial_number
        fresh.close()
        return serial != first
    until(rotated, what="a new certificate", interval=0.2)
    peer.echo(stream)
    assert mesh.hbone(mesh.s2).tunnel(f"{mesh.s2.ip4}:{PORT}").status == 200


def test_forget_identities_that_are_gone(mesh):
    """prefetch_forget_certs: the last workload with an identity takes its certificate along."""
    mesh.world.workload("extra", ["10.0.1.50"], node="node1")
    node = mesh.shared("node1")
    extra = "spiffe://cluster.local/ns/default/sa/extra"
    until(lambda: extra in certificates(node), 5, "prefetch for a local workload")
    del mesh.world.workloads["extra"]
    mesh.apply()
    until(lambda: extra not in certificates(node), 5, "the certificate to be forgotten")
    mesh.world.workload("extra", ["10.0.1.50"], node="node1")
    mesh.apply()
    until(lambda: extra in certificates(node), 5)


def test_authority_that_cannot_sign(mesh, tmp_path_factory):
    """The key disappears: what was issued goes on working, the failure is said."""
    broken = tmp_path_factory.mktemp("broken") / "ca"
    shutil.copytree(mesh.ca.dir, broken)
    mesh.shared("node2", "--local-ca", str(broken), without=("--local-ca",))
    mesh.echo(mesh.s2)
    assert mesh.hbone(mesh.s2).tunnel(f"{mesh.s2.ip4}:{PORT}").status == 200
    shutil.rmtree(broken)
    assert mesh.hbone(mesh.s2).tunnel(f"{mesh.s2.ip4}:{PORT}").status == 200


# -- revocation -------------------------------------------------------------------------------

@pytest.fixture
def crl(mesh):
    mesh.crl_path = mesh.dir / "crl.pem"

    def write(*certs_):
        tmp = mesh.crl_path.with_suffix(".tmp")
        tmp.write_bytes(mesh.ca.crl(*[c.x509().serial_number for c in certs_]))
        tmp.replace(mesh.crl_path)
    write()
    mesh.revoke = write
    return mesh


def test_crl_inbound_rejects_revoked_cert(crl):
    bad = crl.ca.forge([P1])
    crl.revoke(bad)
    node2 = crl.shared("node2", "--crl", str(crl.crl_path))
    crl.echo(crl.s2)
    target, authority = (crl.s2.ip4, 15008), f"{crl.s2.ip4}:{PORT}"
    assert rejected(crl.p1, target, client_context(crl.ca, bad), authority)
    assert not rejected(crl.p1, target, crl.client_context(), authority)
    until(lambda: node2.metrics().sum("istio_crl_policy_rejections_total") >= 1)


def test_crl_outbound_rejects_revoked_cert(crl):
    bad = crl.ca.forge([crl.p2.identity])
    crl.revoke(bad)
    crl.shared("node1", "--crl", str(crl.crl_path))
    server = crl.hbone_server(crl.p2, context=server_context(crl.ca, bad))
    assert crl.refused(crl.c1, crl.p2, 80)
    assert not server.streams


@pytest.mark.tsan
def test_crl_inbound_terminates_existing_connection(crl):
    bad = crl.ca.forge([P1])
    node2 = crl.shared("node2", "--crl", str(crl.crl_path))
    crl.echo(crl.s2)
    authority = f"{crl.s2.ip4}:{PORT}"
    peer = crl.keep(hbone_client(crl.p1, (crl.s2.ip4, 15008), client_context(crl.ca, bad)))
    stream = peer.tunnel(authority)
    peer.echo(stream)
    good = crl.hbone(crl.s2)
    good_stream = good.tunnel(authority)
    crl.revoke(bad)
    until(lambda: (peer.pump(0.05), stream.finished or peer.gone)[1], 6, "the stream to end")
    good.echo(good_stream)
    line = node2.wait_access(direction="inbound")[-1]
    assert line["error"]
    assert node2.metrics().sum("istio_tcp_connections_closed_total", reporter="destination",
                               response_flags="CERT_REVOKED") == 1


def test_crl_outbound_terminates_existing_connection(crl):
    bad = crl.ca.forge([crl.p2.identity])
    node1 = crl.shared("node1", "--crl", str(crl.crl_path))
    crl.hbone_server(crl.p2, context=server_context(crl.ca, bad))
    sock = crl.connect(crl.c1, crl.p2, 80)
    traffic.echo_once(sock)
    crl.revoke(bad)
    until(lambda: traffic.ended(sock), 6, "the connection to be closed")
    node1.wait_access(direction="outbound")
    assert node1.metrics().sum("istio_tcp_connections_closed_total", reporter="source",
                               response_flags="CERT_REVOKED") == 1
    assert crl.refused(crl.c1, crl.p2, 80)


def test_crl_change_that_concerns_nobody(crl):
    node1, node2 = crl.both("--crl", str(crl.crl_path))
    crl.echo(crl.s2)
    sock = crl.connect(crl.c1, crl.s2)
    traffic.echo_once(sock)
    crl.revoke(crl.ca.forge([P1]))
    for node in (node1, node2):
        node.wait_log("revocation list loaded from")
        node.config_dump()  # asks the workers, who had been told of the list before
    stays(lambda: not traffic.ended(sock), 0.2)
    traffic.echo_once(sock)
    assert node1.alive and node2.alive


def test_malformed_crl_is_refused_at_start(crl):
    """The reference only warns and enforces nothing; that is failing open."""
    crl.crl_path.write_text("-----BEGIN X509 CRL-----\nnonsense\n-----END X509 CRL-----\n")
    node = crl.shared("node2", "--crl", str(crl.crl_path), wait=False)
    node.expect_status = 1
    assert node.wait() == 1
    assert f"'{crl.crl_path}': CRL does not parse" in node.log()
    assert "ready" not in node.log()


def test_damaged_crl_keeps_the_old_one(crl):
    bad = crl.ca.forge([P1])
    crl.revoke(bad)
    node = crl.shared("node2", "--crl", str(crl.crl_path))
    crl.echo(crl.s2)
    crl.crl_path.write_text("garbage")
    node.wait_log("cannot load the revocation list")
    target, authority = (crl.s2.ip4, 15008), f"{crl.s2.ip4}:{PORT}"
    assert rejected(crl.p1, target, client_context(crl.ca, bad), authority)
    assert not rejected(crl.p1, target, crl.client_context(), authority)


def test_resumption_is_not_offered_to_other_identities(mesh):
    """Every connection of the node does a full handshake with its own certificate."""
    node = mesh.shared("node1")
    server = mesh.hbone_server(mesh.p2, App())
    for _ in range(3):
        mesh.roundtrip(mesh.c1, mesh.p2, 80)
        dead = mesh.carriers(mesh.c1, mesh.p2)
        assert dead and dead <= node.open_sockets()
        for p in server.live:
            p.call(p.abort)
        until(lambda: not dead & node.open_sockets(), what="the node to see the end")
    assert len(server.peers) == 3
    assert all(not p.tls.session_reused for p in server.peers)
