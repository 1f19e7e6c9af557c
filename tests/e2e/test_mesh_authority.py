# SPDX-License-Identifier: Apache-2.0
"""
The certificate authority of `spanwire control`: whom it refuses and what that leaves, where its keys are, how its root
is followed by another, and how roots and revocation lists reach namespaces. Certificates are judged by openssl.
"""
import base64
import datetime
import json
import re
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from harness.ca_peer import Signer, _pem
from harness.mesh_port import DAY, EXHAUSTED, INVALID, ROOTS, UNAUTHENTICATED, WEB, MeshPort
from harness.wait import GUARD, SLOW, until

NO_TOKEN = "request authenticate failure"
NO_IDENTITY = "request impersonation authentication failure"
ZTUNNEL = "spiffe://cluster.local/ns/istio-system/sa/ztunnel"
SECRET = "secrets/istio-ca-secret"
WAIT = ("--ca-rotate-wait", "1s", "--ca-max-ttl", "24h")


# -- refusals -----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = MeshPort(binary, tmp_path_factory.mktemp("mesh-authority")).knows_pods()
    yield w
    w.control.close()


def resigned(world, **claims):
    """A token of the API with other claims, signed by the API's own key."""
    head, body, _ = world.token().split(".")
    body = json.loads(base64.urlsafe_b64decode(body + "=="))
    body.update(claims)
    text = f"{head}.{base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip('=')}"
    [key] = world.control.data.rglob("token.key")
    key = serialization.load_pem_private_key(key.read_bytes(), None)
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{base64.urlsafe_b64encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big')).decode().rstrip('=')}"


def expired(world):
    return resigned(world, iat=int(time.time()) - 7200, nbf=int(time.time()) - 7200, exp=int(time.time()) - 3600)


def bent_csr(world):
    lines = world.csr.splitlines()
    lines[-2] = lines[-2][:4] + ("A" if lines[-2][4] != "A" else "B") + lines[-2][5:]  # within the signature
    return "\n".join(lines) + "\n"


def other(name):
    return f"spiffe://cluster.local/ns/shop/sa/{name}"


# What is asked, the status and its text, the counter's label, and what the log says: who asked, for what, and why not.
REFUSED = {
    "no-token": ({"token": None}, UNAUTHENTICATED, NO_TOKEN, "unauthenticated", "no bearer token"),
    "nonsense": ({"token": "a.b.c"}, UNAUTHENTICATED, NO_TOKEN, "unauthenticated", "token not authenticated"),
    "expired": ({"token": expired}, UNAUTHENTICATED, NO_TOKEN, "unauthenticated", "token not authenticated"),
    "audience": ({"token": lambda w: w.token(audience="else")}, UNAUTHENTICATED, NO_TOKEN, "unauthenticated",
                 "audience|not authenticated"),
    "cluster": ({"cluster": "elsewhere"}, UNAUTHENTICATED, NO_TOKEN, "unauthenticated", "names another cluster"),
    "unbound": ({"token": lambda w: w.token(pod=None), "identity": WEB}, UNAUTHENTICATED, NO_IDENTITY,
                "unauthenticated", f"caller={ZTUNNEL}.*identity={WEB}.*not bound to a pod"),
    "not-a-node": ({"token": lambda w: w.token("shop", "web", "web-1"), "identity": other("db")}, UNAUTHENTICATED,
                   NO_IDENTITY, "unauthenticated", f"caller={WEB}.*identity={other('db')}.*not an account of node"),
    "other-node": ({"identity": other("db")}, UNAUTHENTICATED, NO_IDENTITY, "unauthenticated",
                   f"caller={ZTUNNEL} pod=ztunnel-1 identity={other('db')}.*runs on its node 'node-1'"),
    "failed-pod": ({"identity": other("gone")}, UNAUTHENTICATED, NO_IDENTITY, "unauthenticated",
                   f"identity={other('gone')}.*runs on its node"),
    "trust-domain": ({"identity": "spiffe://other.domain/ns/shop/sa/web"}, UNAUTHENTICATED, NO_IDENTITY,
                     "unauthenticated", "identity=spiffe://other.domain.*trust domain is not the mesh's"),
    "no-identity": ({"identity": "https://x"}, UNAUTHENTICATED, NO_IDENTITY, "unauthenticated", "not an identity"),
    "too-long": ({"identity": WEB, "ttl": 91 * DAY}, INVALID, "CSR signing error (", "invalid",
                 f"identity={WEB}.*requested TTL of 7862400 s is more than 7776000 s"),
    "most": ({"identity": WEB, "ttl": 2 ** 53}, INVALID, "CSR signing error (", "invalid", "requested TTL"),
    "csr-empty": ({"identity": WEB, "csr": ""}, INVALID, "CSR signing error (", "invalid", f"identity={WEB}"),
    "csr-bent": ({"identity": WEB, "csr": bent_csr}, INVALID, "CSR signing error (", "invalid", f"identity={WEB}"),
    "protobuf": ({"raw": "0affffff7f"}, INVALID, "malformed request", "invalid", f"caller={ZTUNNEL}"),
    "wire-type": ({"raw": "0f01"}, INVALID, "malformed request", "invalid", f"caller={ZTUNNEL}"),
    "deep": ({"raw": "22ff0f" + "0aff0f" * 600}, INVALID, "malformed request", "invalid", f"caller={ZTUNNEL}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason_and_without_a_trace(world, name):
    fields, code, text, label, why = REFUSED[name]
    fields = {k: v(world) if callable(v) else v for k, v in fields.items()}
    record = world.control.data / "issued.jsonl"
    before = record.read_bytes(), world.bundle().read_text(), world.count("spanwire_ca_requests", result=label)
    lines = world.control.log().count("certificate request refused")
    got = world.sign(**fields)
    assert (got["code"], got["text"][:len(text)]) == (code, text), got
    said = until(lambda: world.control.log().split("certificate request refused")[lines + 1:], GUARD, "a log line")
    assert re.search(why, said[0].splitlines()[0]), said[0]
    assert "client=127.0.0.1" in said[0]
    until(lambda: world.count("spanwire_ca_requests", result=label) == before[2] + 1, GUARD, "the count")
    assert (record.read_bytes(), world.bundle().read_text()) == before[:2]


def test_it_is_the_time_that_makes_a_token_expired(world):
    """The token of the row "expired" has no other fault."""
    assert world.sign(token=resigned(world, exp=int(time.time()) + 900), identity=WEB)["code"] == 0


def refusal_of(world, step, label):
    """The answer to a step that is no orderly request, and the line of the log about it, which counts once."""
    before = world.count("spanwire_ca_requests", result=label)
    lines = world.control.log().count("certificate request refused")
    [got] = world.run(step)
    said = until(lambda: world.control.log().split("certificate request refused")[lines + 1:], GUARD, "a log line")
    until(lambda: world.count("spanwire_ca_requests", result=label) > before, GUARD, "the count")
    assert "client=127.0.0.1" in said[0]
    return got, said[0].splitlines()[0]


def test_too_large_a_request_is_not_read(world):
    got, line = refusal_of(world, {"do": "sign", "token": world.token(), "zeros": 200 << 20}, "failed")
    assert got["code"] in (EXHAUSTED, INVALID), got
    assert re.search("reason=.*larger|reason=.*more than", line), line
    assert world.sign(identity=WEB)["code"] == 0


def test_two_requests_in_one_call_are_refused(world):
    assert world.sign(identity=WEB)["code"] == 0  # so that it is known whose token it is
    got, line = refusal_of(world, {"do": "twice", "csr": world.csr, "token": world.token()}, "invalid")
    assert got["code"] == INVALID and "more than one message" in got["text"], got
    assert re.search("reason=.*more than one message", line), line


def test_more_calls_than_may_wait_are_refused(world):
    before = world.control.log().count("certificate request refused")
    def refused():
        return sum(world.count("spanwire_ca_requests", result=r) for r in ("failed", "unauthenticated", "invalid"))

    counted = refused()
    got, _ = refusal_of(world, {"do": "crowd", "calls": 1100}, "failed")
    assert got["code"] == EXHAUSTED and got["text"] == "too many requests wait", got
    world.refusal("certificate request refused.*too many requests wait for the API's answers")
    # Those that waited end with their connections. Each counts; the log has some, and says of how many.
    until(lambda: refused() > counted + 512, GUARD, lambda: f"a count for each: {refused() - counted}")

    def of_how_many():
        world.sign(token="none")
        return re.search(r"certificate request refused.*suppressed_lines=\d\d", world.control.log())

    until(of_how_many, GUARD, "a line that says how many had none")
    assert world.control.log().count("certificate request refused") < before + 400
    assert world.sign(identity=WEB)["code"] == 0


# -- rotation -----------------------------------------------------------------------------------
def rotate(binary, directory, *flags):
    return subprocess.run([binary, "cert", "rotate", "--dir", str(directory), *flags], capture_output=True, text=True,
                          timeout=GUARD * SLOW, check=False)


def roots_of(world):
    return world.bundle().read_text().count("BEGIN CERTIFICATE")


def test_a_root_follows_another_by_command(binary, tmp_path):
    world = MeshPort(binary, tmp_path, *WAIT).knows_pods()
    ca = world.control.data / "mesh-ca"
    try:
        old = world.roots.read_text()
        (tmp_path / "old.pem").write_text(old)
        first = world.sign(identity=WEB)["chain"][0]
        done = rotate(binary, ca)
        assert (done.returncode, done.stdout) == (0, "announce\n"), done
        until(lambda: world.roots.read_text() != old, GUARD, "the new root to be used")
        until(lambda: roots_of(world) == 2, GUARD, "both roots in the ConfigMap")
        leaf, roots = world.sign(identity=WEB)["chain"]
        assert roots.count("BEGIN") == 2
        both = world.bundle()
        assert world.verify(leaf, world.roots) and not world.verify(leaf, tmp_path / "old.pem")
        assert world.verify(first, both) and world.verify(first, tmp_path / "old.pem")
        # Certificates of the old one may be in use for a day: no step before that, unless an operator says so.
        done = rotate(binary, ca)
        assert done.returncode == 1 and "its next step is 'forget'" in done.stderr, done
        done = rotate(binary, ca, "--now")
        assert (done.returncode, done.stdout) == (0, "forget\n"), done
        until(lambda: roots_of(world) == 1, GUARD, "the old root to be forgotten")
        leaf, roots = world.sign(identity=WEB)["chain"]
        assert roots.strip() == world.roots.read_text().strip() != old.strip()
        assert sorted(p.name for p in ca.iterdir()) == ["root.crt", "root.key"]
        assert world.count("spanwire_ca_rotations", step="switch") == 1
    finally:
        world.control.close()


def aged_root(directory):
    """A root with a tenth of its life left."""
    signer = Signer("old root")
    now = datetime.datetime.utcnow()
    cert = (x509.CertificateBuilder().subject_name(signer.name).issuer_name(signer.name)
            .public_key(signer.key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=90)).not_valid_after(now + datetime.timedelta(days=10))
            .add_extension(x509.BasicConstraints(True, None), True).sign(signer.key, hashes.SHA256()))
    directory.mkdir()
    (directory / "root.crt").write_text(_pem(cert))
    (directory / "root.key").write_bytes(signer.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return _pem(cert)


def test_an_aged_root_is_followed_by_itself(binary, tmp_path):
    old = aged_root(tmp_path / "ca")
    world = MeshPort(binary, tmp_path / "w", "--ca-dir", str(tmp_path / "ca"), *WAIT)
    try:
        world.roots = tmp_path / "ca" / "root.crt"
        until(lambda: world.roots.read_text() != old, GUARD, "the new root to be used")
        world.knows_pods()
        leaf, roots = world.sign(identity=WEB)["chain"]
        assert old.strip() in roots and roots.count("BEGIN") == 2
        assert world.verify(leaf, world.roots)
        steps = re.findall(r"rotation of the root for trust domain 'cluster.local': (\w+)", world.control.log())
        assert steps == ["announce", "switch"]
        metrics = world.control.get("/metrics").body.decode()
        [end] = re.findall(r"^spanwire_ca_root_expires_seconds (\S+)$", metrics, re.M)
        assert float(end) > time.time() + 3000 * DAY
        world.restart()  # where it was: the day is not over
        assert world.sign(identity=WEB)["chain"][-1].count("BEGIN") == 2
    finally:
        world.control.close()


# -- Secrets ------------------------------------------------------------------------------------
def test_a_root_of_our_own_in_a_secret(binary, tmp_path):
    world = MeshPort(binary, tmp_path, "--ca-secret", *WAIT)
    try:
        world.roots = world.bundle()
        world.knows_pods()
        made = world.object(SECRET, "istio-system")
        assert made["type"] == "istio.io/ca-root"
        assert {"ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"} <= set(made["data"])
        old = world.roots.read_text()
        assert base64.b64decode(made["data"]["ca-cert.pem"]).decode().strip() == old.strip()
        assert not (world.control.data / "mesh-ca").exists()
        # Deleted, it is written again with what is in use; a restart finds it.
        path = f"/api/v1/namespaces/istio-system/{SECRET}"
        assert world.control.delete(path).status == 200
        again = until(lambda: world.object(SECRET, "istio-system"), GUARD, "the Secret to be back")
        assert again["data"] == made["data"]
        world.restart()
        assert world.bundle().read_text() == old
        # Each annotation is a step of a rotation; the second comes by itself.
        note = {"metadata": {"annotations": {"spanwire.dev/rotate-root": "now"}}}
        assert world.control.patch(path, note).status == 200
        until(lambda: roots_of(world) == 2, GUARD, "both roots in the ConfigMap")
        now = until(lambda: (lambda s: s if "previous-cert.pem" in s["data"] else None)(
            world.object(SECRET, "istio-system")), GUARD, "the new root to be used")
        assert "annotations" not in now["metadata"] or not now["metadata"]["annotations"]
        world.roots = world.bundle()
        leaf, roots = world.sign(identity=WEB)["chain"]
        assert roots.count("BEGIN") == 2
        (tmp_path / "old.pem").write_text(old)
        assert world.verify(leaf, world.roots) and not world.verify(leaf, tmp_path / "old.pem")
        assert world.control.patch(path, note).status == 200
        until(lambda: roots_of(world) == 1, GUARD, "the old root to be forgotten")
        data = world.object(SECRET, "istio-system")["data"]
        assert base64.b64decode(data["root-cert.pem"]).decode().strip() == world.bundle().read_text().strip()
        assert "previous-cert.pem" not in data and "next-cert.pem" not in data
    finally:
        world.control.close()


def encoded(**parts):
    return {k.replace("_", "-") + ".pem": base64.b64encode(v if isinstance(v, bytes) else v.encode()).decode()
            for k, v in parts.items()}


def test_a_secret_of_cert_manager(binary, tmp_path):
    """A Certificate's Secret as it is, named cacerts: tls.crt has the CA and what leads to the root, ca.crt the root."""
    world = MeshPort(binary, tmp_path, "--ca-secret", *WAIT)
    try:
        world.roots = world.bundle()
        world.knows_pods()
        own = world.roots.read_text()
        root = Signer("issuer root")
        middle = Signer("mesh", root)
        key = middle.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                       serialization.NoEncryption())
        data = {name: base64.b64encode(v if isinstance(v, bytes) else v.encode()).decode() for name, v in (
            ("tls.crt", _pem(middle.cert)), ("tls.key", key), ("ca.crt", _pem(root.cert) + own))}
        body = {"metadata": {"name": "cacerts", "annotations": {"cert-manager.io/certificate-name": "mesh"}},
                "type": "kubernetes.io/tls", "data": data}
        answer = world.control.post("/api/v1/namespaces/istio-system/secrets", body)
        assert answer.status == 201, answer
        until(lambda: roots_of(world) == 2, GUARD, "both roots in the ConfigMap")
        leaf, mid, roots = world.sign(identity=WEB)["chain"]
        assert mid.strip() == _pem(middle.cert).strip() and roots.count("BEGIN") == 2
        (tmp_path / "mid.pem").write_text(mid)
        (tmp_path / "root.pem").write_text(_pem(root.cert))
        assert world.verify(leaf, tmp_path / "root.pem", "-untrusted", str(tmp_path / "mid.pem"))
        # After a restart it is what is used; nothing of ours is made beside it.
        world.restart()
        assert world.sign(identity=WEB)["chain"][1].strip() == _pem(middle.cert).strip()
    finally:
        world.control.close()


def revocations(signer, *serials):
    now = datetime.datetime.utcnow()
    builder = (x509.CertificateRevocationListBuilder().issuer_name(signer.name).last_update(now)
               .next_update(now + datetime.timedelta(days=1)))
    for serial in serials:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build())
    return builder.sign(signer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_plugged_in_secret_and_its_revocation_list(binary, tmp_path):
    world = MeshPort(binary, tmp_path, "--ca-secret", *WAIT)
    try:
        world.roots = world.bundle()
        world.knows_pods()
        own = world.roots.read_text()
        root = Signer("company root")
        middle = Signer("mesh", root)
        key = middle.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                       serialization.NoEncryption())
        secrets = "/api/v1/namespaces/istio-system/secrets"
        parts = {"ca_cert": _pem(middle.cert), "ca_key": key, "cert_chain": _pem(middle.cert) + _pem(root.cert),
                 "root_cert": _pem(root.cert)}

        def plug(status, **more):
            body = {"metadata": {"name": "cacerts"}, "data": encoded(**(parts | more))}
            answer = world.control.request("PUT" if status == 200 else "POST",
                                           secrets + ("/cacerts" if status == 200 else ""), body)
            assert answer.status == status, answer
        # A root that nobody trusts yet is not taken over, nor is half a CA.
        plug(201)
        world.refusal("Secret 'istio-system/cacerts': the new root bundle neither contains the old one.*keeping the previous")
        plug(200, root_cert="", ca_key=b"")
        world.refusal("'ca-key.pem' is missing; keeping the previous CA")
        assert world.sign(identity=WEB)["chain"][-1].strip() == own.strip()
        plug(200, root_cert=_pem(root.cert) + own)
        until(lambda: roots_of(world) == 2, GUARD, "both roots in the ConfigMap")
        leaf, mid, roots = world.sign(identity=WEB)["chain"]
        assert mid.strip() == _pem(middle.cert).strip() and roots.count("BEGIN") == 2
        (tmp_path / "mid.pem").write_text(mid)
        (tmp_path / "root.pem").write_text(_pem(root.cert))
        assert world.verify(leaf, tmp_path / "root.pem", "-untrusted", str(tmp_path / "mid.pem"))
        # Revocation lists go to every namespace, follow the Secret, and come back.
        first, second = revocations(middle, 7), revocations(middle, 7, 8)
        for crl in (first, second):
            plug(200, root_cert=_pem(root.cert) + own, ca_crl=crl)
            for ns in ("shop", "istio-system", "default"):
                until(lambda n=ns, c=crl: (world.object("configmaps/istio-ca-crl", n) or {}).get("data", {}).get(
                    "ca-crl.pem") == c.decode(), GUARD, f"the list in {ns}")
        # One that nobody could read, or of somebody else, does not get to the nodes, which would not start with it.
        for crl, why in ((b"rubbish", "does not parse"), (revocations(Signer("company root"), 9), "not signed by the issuer")):
            plug(200, root_cert=_pem(root.cert) + own, ca_crl=crl)
            world.refusal(f"cannot read the CA's revocation list, handing out the previous: .*{why}")
            assert world.object("configmaps/istio-ca-crl")["data"]["ca-crl.pem"] == second.decode()
        plug(200, root_cert=_pem(root.cert) + own, ca_crl=second)
        world.control.delete("/api/v1/namespaces/shop/configmaps/istio-ca-crl")
        until(lambda: world.object("configmaps/istio-ca-crl"), GUARD, "the list to be back")
        assert world.object("configmaps/istio-ca-crl", "kube-public") is None
        assert world.object(ROOTS, "kube-public") is None
    finally:
        world.control.close()
