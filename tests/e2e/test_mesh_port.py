# SPDX-License-Identifier: Apache-2.0
"""
The mesh's port of `spanwire control` through a gRPC client of another make: who gets certificates, for which
identities and how long; who may open streams and who is cut off. Certificates are judged by openssl.
"""
import json
import pathlib
import re
import subprocess

import pytest
from harness.control import Control
from harness.wait import GUARD, SLOW, until

CLIENT = pathlib.Path(__file__).resolve().parent / "clients" / "mesh.mjs"
UNAUTHENTICATED, DENIED, INVALID, UNIMPLEMENTED = 16, 7, 3, 12
ADDRESS = "type.googleapis.com/istio.workload.Address"
AUTHORIZATION = "type.googleapis.com/istio.security.Authorization"
WEB = "spiffe://cluster.local/ns/shop/sa/web"
DAY = 86400


class World:
    def __init__(self, binary, top, *flags):
        self.top = top
        self.control = Control(binary, top / "control", "--mesh-listen", "127.0.0.1:0", *flags)
        self.port = int(until(lambda: re.findall(r"mesh on 127\.0\.0\.1:(\d+)", self.control.log()), GUARD,
                              "the mesh's port")[-1])
        self.roots = self.control.data / "mesh-ca" / "root.crt"
        for ns in ("istio-system", "shop"):
            self.control.post("/api/v1/namespaces", {"metadata": {"name": ns}})
        for ns, name in (("istio-system", "ztunnel"), ("shop", "web"), ("shop", "db"), ("shop", "gone")):
            self.control.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
        self.pod("istio-system", "ztunnel-1", "ztunnel", "node-1")
        self.pod("istio-system", "ztunnel-2", "ztunnel", "node-2")
        self.pod("shop", "web-1", "web", "node-1")
        self.pod("shop", "db-1", "db", "node-2")
        self.pod("shop", "gone-1", "gone", "node-1", "Failed")
        self.key = top / "key.pem"
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.key))
        self.csr = self.openssl("req", "-new", "-key", str(self.key), "-subj", "/")

    def openssl(self, *args, stdin=None):
        done = subprocess.run(["openssl", *args], input=stdin, capture_output=True, text=True, timeout=GUARD * SLOW,
                              check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pod(self, ns, name, account, node, phase="Running"):
        path = f"/api/v1/namespaces/{ns}/pods"
        made = self.control.post(path, {"metadata": {"name": name}, "spec": {
            "serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
        assert made.status == 201, made
        done = self.control.patch(f"{path}/{name}/status", {"status": {"phase": phase}})
        assert done.status == 200, done

    def token(self, ns="istio-system", account="ztunnel", pod="ztunnel-1", audience="istio-ca", seconds=3600):
        spec = {"audiences": [audience], "expirationSeconds": seconds}
        if pod:
            uid = self.control.get(f"/api/v1/namespaces/{ns}/pods/{pod}").json["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        answer = self.control.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token", {"spec": spec})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def start(self, steps, roots=None, cert=()):
        child = subprocess.Popen(["node", str(CLIENT), f"127.0.0.1:{self.port}", str(roots or self.roots), *cert],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdin.write(json.dumps(steps))
        child.stdin.close()
        return child

    def run(self, *steps, **kw):
        child = self.start(steps, **kw)
        lines = child.stdout.read().splitlines()
        child.wait(GUARD * SLOW)
        assert len(lines) == len(steps), f"run tools/setup test first?\n{child.stderr.read()[-3000:]}"
        return [json.loads(line) for line in lines]

    def sign(self, **fields):
        [got] = self.run({"do": "sign", "csr": self.csr, "token": self.token(), "ttl": DAY, **fields})
        return got

    def text(self, pem, *what):
        return self.openssl("x509", "-noout", *what, stdin=pem)

    def refusal(self, why):
        until(lambda: re.search(why, self.control.log()), GUARD, f"a line in the log that says {why}")


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("mesh-port"))
    # The pods are known when a request for one of them is granted.
    until(lambda: w.sign(identity=WEB)["code"] == 0, GUARD, "the authority to know the pods")
    yield w
    w.control.close()


def test_a_node_gets_the_identities_of_its_pods(world):
    got = world.sign(identity=WEB, cluster="Kubernetes")
    leaf, roots = got["chain"]
    assert roots.strip() == world.roots.read_text().strip()
    names = world.text(leaf, "-ext", "subjectAltName,keyUsage,extendedKeyUsage,basicConstraints")
    assert "X509v3 Subject Alternative Name: critical" in names
    assert f"URI:{WEB}" in names
    assert "Digital Signature, Key Encipherment" in names
    assert "TLS Web Server Authentication, TLS Web Client Authentication" in names
    assert "CA:FALSE" in names
    (world.top / "leaf.pem").write_text(leaf)
    world.openssl("verify", "-CAfile", str(world.roots), str(world.top / "leaf.pem"))
    assert world.text(leaf, "-pubkey") == world.openssl("pkey", "-in", str(world.key), "-pubout")
    # On record, and only that.
    record = [json.loads(line) for line in (world.control.data / "issued.jsonl").read_text().splitlines()]
    serial = world.text(leaf, "-serial").strip().split("=")[1].lower()
    [line] = [r for r in record if r["serial"] == serial]
    assert line["identity"] == WEB
    assert line["requester"] == "spiffe://cluster.local/ns/istio-system/sa/ztunnel"


def test_the_roots_are_in_every_namespace(world):
    def path(ns):
        return f"/api/v1/namespaces/{ns}/configmaps/istio-ca-root-cert"

    def there(ns):
        answer = world.control.get(path(ns))
        return answer.json if answer.status == 200 else None

    found = until(lambda: there("shop"), GUARD, "the ConfigMap")
    assert found["data"]["root-cert.pem"].strip() == world.roots.read_text().strip()
    assert found["metadata"]["labels"]["istio.io/config"] == "true"
    assert world.control.delete(path("shop")).status == 200
    until(lambda: there("shop"), GUARD, "the ConfigMap to be back")


@pytest.mark.parametrize("identity, why", [
    ("spiffe://cluster.local/ns/shop/sa/db", "runs on its node 'node-1'"),
    ("spiffe://cluster.local/ns/shop/sa/gone", "runs on its node 'node-1'"),
    ("spiffe://other.domain/ns/shop/sa/web", "trust domain is not the mesh's"),
    ("spiffe://cluster.local/ns/shop/sa/web/x", "not an identity"),
])
def test_a_node_gets_no_others(world, identity, why):
    got = world.sign(identity=identity)
    assert (got["code"], got["text"]) == (UNAUTHENTICATED, "request impersonation authentication failure")
    world.refusal(f"certificate request refused.*sa/ztunnel.*identity={re.escape(identity)}.*{why}")


def test_others_get_their_own_identity_only(world):
    token = world.token("shop", "web", "web-1")
    got = world.sign(token=token)
    assert f"URI:{WEB}" in world.text(got["chain"][0], "-ext", "subjectAltName")
    got = world.sign(token=token, identity="spiffe://cluster.local/ns/shop/sa/db")
    assert got["code"] == UNAUTHENTICATED
    world.refusal("sa/web.*identity=.*sa/db.*not an account of node proxies")


def test_tokens_must_be_ours_for_us_and_bound(world):
    no = (UNAUTHENTICATED, "request authenticate failure")
    for token in (None, "nonsense", world.token(audience="somebody-else")):
        got = world.sign(token=token)
        assert (got["code"], got["text"]) == no
    got = world.sign(cluster="elsewhere")
    assert (got["code"], got["text"]) == no
    got = world.sign(token=world.token(pod=None), identity=WEB)
    assert got["code"] == UNAUTHENTICATED
    world.refusal("not bound to a pod")


def test_lifetimes_are_limited(world):
    def days(pem):
        start, end = (world.text(pem, what).strip().split("=")[1] for what in ("-startdate", "-enddate"))
        begin, finish = (int(subprocess.check_output(["date", "-d", t, "+%s"])) for t in (start, end))
        return round((finish - begin) / DAY, 2)

    assert days(world.sign(ttl=0)["chain"][0]) == 1
    assert days(world.sign(ttl=-5)["chain"][0]) == 1
    assert days(world.sign(ttl=30 * DAY)["chain"][0]) == 30
    got = world.sign(ttl=91 * DAY)
    assert got["code"] == INVALID
    assert got["text"].startswith("CSR signing error (")


def test_bad_requests_are_refused(world):
    broken = world.csr.splitlines()
    line = broken[-2]
    broken[-2] = line[:4] + ("A" if line[4] != "A" else "B") + line[5:]  # within the signature
    weak = world.openssl("req", "-new", "-newkey", "rsa:1024", "-nodes", "-keyout", "/dev/null", "-subj", "/")
    for csr in ("", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
                "\n".join(broken) + "\n", weak):
        got = world.sign(csr=csr)
        assert got["code"] == INVALID, got
        assert got["text"].startswith("CSR signing error (")
    [got] = world.run({"do": "twice", "csr": world.csr, "token": world.token()})
    assert got["code"] == INVALID and "more than one message" in got["text"], got


def test_who_may_open_streams(world):
    def stream(**fields):
        [got] = world.run({"do": "stream", "id": "ztunnel~10.0.0.1~ztunnel-1.istio-system~istio-system.svc.cluster.local",
                           "token": world.token(), "types": [ADDRESS], **fields})
        return got.get("code", got.get("open"))

    assert stream() == [ADDRESS]
    assert stream(types=[AUTHORIZATION, ADDRESS]) == [AUTHORIZATION, ADDRESS]
    assert stream(metadata={"NAMESPACE": "istio-system", "SERVICE_ACCOUNT": "ztunnel"}) == [ADDRESS]
    assert stream(token=None) == UNAUTHENTICATED
    assert stream(token=world.token(audience="x")) == UNAUTHENTICATED
    assert stream(token=world.token("shop", "web", "web-1")) == DENIED
    assert stream(metadata={"NAMESPACE": "shop"}) == DENIED
    assert stream(metadata={"SERVICE_ACCOUNT": "web"}) == DENIED
    assert stream(id="") == INVALID
    assert stream(id="ztunnel~nowhere~ztunnel-1.istio-system~x") == INVALID
    assert stream(types=["type.googleapis.com/envoy.config.cluster.v3.Cluster"]) == UNIMPLEMENTED
    # By certificate.
    leaf = world.sign()["chain"][0]
    cert = world.top / "node.pem"
    cert.write_text(leaf)
    [got] = world.run({"do": "stream", "id": "ztunnel~10.0.0.1~z.istio-system~x", "types": [ADDRESS]},
                      cert=(str(cert), str(world.key)))
    assert got == {"open": [ADDRESS]}
    text = world.control.get("/metrics").body.decode().replace("_total", "")
    for reason in ("unauthenticated", "forbidden", "invalid", "type"):
        assert f'spanwire_xds_refusals{{reason="{reason}"}}' in text
    assert 'spanwire_ca_requests{result="issued"}' in text
    assert 'spanwire_ca_requests{result="unauthenticated"}' in text


def test_a_stream_ends_with_its_token(world):
    world.pod("istio-system", "ztunnel-3", "ztunnel", "node-3")
    node = "ztunnel~10.0.0.3~ztunnel-3.istio-system~x"
    child = world.start([{"do": "stream", "id": node, "token": world.token(pod="ztunnel-3"), "hold": True,
                          "types": [ADDRESS]}])
    try:
        assert json.loads(child.stdout.readline()) == {"open": [ADDRESS]}

        def acknowledged():
            clients = world.control.get("/debug/xds").json["clients"]
            return [c for c in clients if c["node"] == node and c["acked"] and c["acked"] == c["sent"]]

        [client] = until(acknowledged, GUARD, "the status to show what the node acknowledged")
        assert client["type"] == ADDRESS
        # A token bound to a pod is worth nothing without it.
        assert world.control.delete("/api/v1/namespaces/istio-system/pods/ztunnel-3?gracePeriodSeconds=0").status == 200
        assert json.loads(child.stdout.readline())["ended"] == UNAUTHENTICATED
        world.refusal(f"closing the stream of client .*{re.escape(node)}.*token is nobody's")
    finally:
        child.kill()
        child.wait(GUARD)


def test_a_root_is_rotated_with_two_in_the_bundle(binary, tmp_path):
    world = World(binary, tmp_path)
    ca = world.control.data / "mesh-ca"
    try:
        until(lambda: world.sign(identity=WEB)["code"] == 0, GUARD, "the authority to know the pods")
        old = (ca / "root.crt").read_text()
        (tmp_path / "old.pem").write_text(old)
        subprocess.run([binary, "cert", "ca", "--dir", str(tmp_path / "next")], check=True, capture_output=True)
        new = (tmp_path / "next" / "root.crt").read_text()
        # An unrelated root at once would cut everybody off: it is refused.
        for name in ("root.key", "root.crt"):
            (ca / name).write_bytes((tmp_path / "next" / name).read_bytes())
        world.refusal("reload failed, keeping the previous CA: .*bundle")
        # First everybody trusts both, signed by the new one.
        (ca / "roots.pem").write_text(old)
        chain = until(lambda: (lambda c: c if c[-1].count("BEGIN") == 2 else None)(
            world.sign(identity=WEB, **{})["chain"]), GUARD, "two roots in the bundle")
        assert old.strip() in chain[-1] and new.strip() in chain[-1]
        (tmp_path / "leaf.pem").write_text(chain[0])
        world.openssl("verify", "-CAfile", str(tmp_path / "next" / "root.crt"), str(tmp_path / "leaf.pem"))
    finally:
        world.control.close()


def test_an_intermediate_is_plugged_in(binary, tmp_path):
    ca = tmp_path / "cacerts"
    ca.mkdir()
    top = tmp_path / "top"
    top.mkdir()

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=top, check=True, capture_output=True)

    ext = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
    (top / "ext").write_text(ext)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
            "-subj", "/CN=root", "-keyout", "root.key", "-out", "root.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=mid",
            "-keyout", "mid.key", "-out", "mid.csr")
    openssl("x509", "-req", "-in", "mid.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-days", "3",
            "-extfile", "ext", "-out", "mid.pem")
    (ca / "ca-cert.pem").write_text((top / "mid.pem").read_text())
    incomplete = subprocess.run([binary, "control", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0",
                                 "--mesh-listen", "127.0.0.1:0", "--ca-dir", str(ca)], capture_output=True, text=True,
                                timeout=GUARD * SLOW, check=False)
    assert incomplete.returncode != 0
    assert "ca-key.pem" in incomplete.stderr
    (ca / "ca-key.pem").write_text((top / "mid.key").read_text())
    (ca / "cert-chain.pem").write_text((top / "mid.pem").read_text() + (top / "root.pem").read_text())
    (ca / "root-cert.pem").write_text((top / "root.pem").read_text())
    world = World(binary, tmp_path / "w", "--ca-dir", str(ca))
    world.roots = ca / "root-cert.pem"
    try:
        got = until(lambda: (lambda g: g if g["code"] == 0 else None)(world.sign(identity=WEB, ttl=80 * DAY)), GUARD,
                    "the authority to know the pods")
        leaf, mid, roots = got["chain"]
        assert mid.strip() == (top / "mid.pem").read_text().strip()
        assert roots.strip() == (top / "root.pem").read_text().strip()
        (top / "leaf.pem").write_text(leaf)
        openssl("verify", "-CAfile", "root.pem", "-untrusted", "mid.pem", "leaf.pem")
        # No longer than its signer.
        assert world.text(leaf, "-enddate") == world.text(mid, "-enddate")
    finally:
        world.control.close()
