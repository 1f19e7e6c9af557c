# SPDX-License-Identifier: Apache-2.0
"""A certificate is replaced by one that cannot be used."""
import pathlib
import re
import socket
import ssl

from harness import fabric as fb
from harness import gateway as gw
from harness.wait import GUARD, stays, until
from test_gateway_xds import CDS, EDS, LDS, RDS, Server, XdsGateway, any_of, assignment, eds_cluster, field, listener, table

SDS = gw.TYPE + "envoy.extensions.transport_sockets.tls.v3.Secret"


def secret(name, cert, key):
    def text(s):
        return field(3, s)  # DataSource.inline_string
    return field(1, name) + field(2, field(1, text(cert)) + field(2, text(key)))


def tls_listener(name, port, secret_name):
    """That of test_gateway_xds, its one chain with a certificate by SDS."""
    context = field(1, field(6, field(1, secret_name)))
    sock = field(1, "tls") + field(3, any_of("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", context))
    plain, chain = listener(name, port, "t"), field(6, sock)
    head = field(1, name) + field(2, field(1, field(2, "127.0.0.1") + field(3, port)))
    assert plain.startswith(head)
    at = len(head) + 1  # behind the key of filter_chains comes a length
    while plain[at] & 128:
        at += 1
    return head + field(3, plain[at + 1:] + chain)


def pair(where, name):
    return [pathlib.Path(p).read_text(encoding="utf-8") for p in fb.make_cert(where, name)]


def served(port):
    """The certificate that is shown, or None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), GUARD) as raw, context.wrap_socket(raw) as s:
            return ssl.DER_cert_to_PEM_cert(s.getpeercert(True)).strip()
    except OSError:
        return None


def refused(port):
    text = fb._fetch(f"http://127.0.0.1:{port}/metrics")
    return int(re.search(r'^spanwire_gateway_config_refused_total\{type="secret"\} (\d+)$', text, re.M).group(1))


def test_a_listener_keeps_its_last_good_certificate(binary, tmp_path):
    """A bad secret is refused by name; who has a good one goes on, who has none does not begin."""
    server, origin = Server(binary), gw.Origin()
    one, two, other = gw.free_port(), gw.free_port(), gw.free_port()
    first, second, third = (pair(tmp_path, n) for n in ("one.test", "two.test", "three.test"))
    g = XdsGateway(binary, tmp_path, server.port)
    try:
        server.commit((CDS, "c", eds_cluster("c")), (EDS, "c", assignment("c", origin.port)), (RDS, "t", table("t", "c")),
                      (SDS, "s", secret("s", *first)), (LDS, "l", tls_listener("l", one, "s")))
        until(lambda: served(one) == first[0].strip(), 10, "the first certificate")
        g.wait_ready()
        assert refused(g.stats_port) == 0
        bad = [(first[0], second[1], "key"), (second[0], "no key", "key"), ("no certificate", second[1], "certificate")]
        for i, (cert, key, word) in enumerate(bad):
            server.commit((SDS, "s", secret("s", cert, key)))
            until(lambda n=i + 1: refused(g.stats_port) == n, 10, "the refusal to be counted")
            until(lambda: any("s: " in line for line in server.status()), 10, "the refusal to be told")
            until(lambda w=word: re.search(rf"Secret 's' refused: .*{w}", g.log()), 5, "the log")
            assert served(one) == first[0].strip()
        # A listener that is new takes what is good of an old name, and waits for a new one.
        server.commit((SDS, "n", secret("n", third[0], second[1])), (LDS, "l2", tls_listener("l2", two, "s")),
                      (LDS, "l3", tls_listener("l3", other, "n")))
        until(lambda: served(two) == first[0].strip(), 10, "another listener")
        stays(lambda: served(other) is None, 0.5)
        server.commit((SDS, "s", secret("s", *second)), (SDS, "n", secret("n", *third)))
        for port, want in ((one, second), (two, second), (other, third)):
            until(lambda p=port, w=want: served(p) == w[0].strip(), 10, "the good certificates")
    finally:
        g.stop()
        server.close()
        origin.close()


def test_the_control_plane_withdraws_a_listener_without_certificate(binary, tmp_path):
    """It sees that none can be used, says so, and the port is closed until there is one again."""
    f = fb.Fabric(binary, tmp_path)
    try:
        port = gw.free_port()
        first, second = (fb.make_cert(tmp_path, n) for n in ("one.test", "two.test"))
        f.secret("cert", *first)
        f.gateway_object("edge", [("https", "HTTPS", port, {"tls": {"certificateRefs": [{"name": "cert"}]}})])
        f.start_gateway()
        f.programmed("edge")
        until(lambda: served(port), 10, "the first certificate")
        f.secret("cert", first[0], second[1])

        def conditions():
            return {c["type"]: c for c in f.get("Gateway", "edge")["status"]["listeners"][0]["conditions"]}
        until(lambda: conditions()["Programmed"]["status"] == "False", 10, "the listener to be taken back")
        told = conditions()["ResolvedRefs"]
        assert (told["status"], told["reason"]) == ("False", "InvalidCertificateRef"), told
        assert "do not belong together" in told["message"], told
        until(lambda: served(port) is None, 10, "the port to be closed")
        f.secret("cert", *second)
        want = pathlib.Path(second[0]).read_text(encoding="utf-8").strip()
        until(lambda: served(port) == want, 10, "the second certificate")
    finally:
        f.close()
