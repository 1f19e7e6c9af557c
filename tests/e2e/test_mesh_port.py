# SPDX-License-Identifier: Apache-2.0
"""
The mesh's port of `spanwire control` through a gRPC client of another make: who gets certificates, for which
identities and how long; who may open streams and who is cut off. Certificates are judged by openssl.
"""
import json
import re
import signal
import subprocess

import pytest
from harness.mesh_port import (ADDRESS, AUTHORIZATION, DAY, DENIED, EXHAUSTED, INVALID, NODE, UNAUTHENTICATED, UNIMPLEMENTED, WEB,
                               MeshPort, answers)
from harness.ports import free_port
from harness.wait import GUARD, SANITIZED, SLOW, until
from test_mesh_authority import expired


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = MeshPort(binary, tmp_path_factory.mktemp("mesh-port")).knows_pods()
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
    # And in the log, which outlives a pod's memory.
    [line] = [text for text in world.control.log().splitlines() if f"serial={serial}" in text]
    for part in ("info\t", "certificate issued", f"identity={WEB}", "caller=spiffe://cluster.local/ns/istio-system/sa/ztunnel", "pod=ztunnel-1", "expires=20"):
        assert part in line, line


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


def test_others_get_their_own_identity_only(world):
    token = world.token("shop", "web", "web-1")
    got = world.sign(token=token)
    assert f"URI:{WEB}" in world.text(got["chain"][0], "-ext", "subjectAltName")
    got = world.sign(token=token, identity="spiffe://cluster.local/ns/shop/sa/db")
    assert got["code"] == UNAUTHENTICATED
    world.refusal("sa/web.*identity=.*sa/db.*not an account of node proxies")


def test_a_certificate_does_not_renew_itself(world, binary, tmp_path):
    """Who had an identity once would keep it, without the pod and on any node. Only where that is asked for."""
    cert = tmp_path / "cert.pem"

    def renew(at, **fields):
        cert.write_text(at.sign(identity=WEB)["chain"][0])
        [got] = at.run({"do": "sign", "csr": at.csr, "ttl": DAY, **fields}, cert=(str(cert), str(at.key)))
        return got
    assert renew(world)["code"] == UNAUTHENTICATED
    world.refusal(f"caller=.*{WEB}.*a certificate does not renew itself")
    # A token counts, whatever certificate comes with it.
    got = renew(world, token=world.token(), identity=WEB)
    assert got["code"] == 0, got
    other = MeshPort(binary, tmp_path, "--ca-renew-by-certificate")
    try:
        got = renew(other.knows_pods())
        assert f"URI:{WEB}" in other.text(got["chain"][0], "-ext", "subjectAltName")
        assert renew(other, identity="spiffe://cluster.local/ns/shop/sa/db")["code"] == UNAUTHENTICATED
    finally:
        other.control.close()


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
        [got] = world.run({"do": "stream", "id": NODE, "token": world.token(), "types": [ADDRESS], **fields})
        return got.get("code", got.get("open"))

    assert stream() == [ADDRESS]
    assert stream(types=[AUTHORIZATION, ADDRESS]) == [AUTHORIZATION, ADDRESS]
    assert stream(metadata={"NAMESPACE": "istio-system", "SERVICE_ACCOUNT": "ztunnel"}) == [ADDRESS]
    assert stream(token=None) == UNAUTHENTICATED
    assert stream(token=world.token(audience="x")) == UNAUTHENTICATED
    assert stream(token=expired(world)) == UNAUTHENTICATED
    assert stream(token=world.token("shop", "web", "web-1")) == DENIED
    assert stream(metadata={"NAMESPACE": "shop"}) == DENIED
    assert stream(metadata={"SERVICE_ACCOUNT": "web"}) == DENIED
    assert stream(id="") == INVALID
    assert stream(id="ztunnel~nowhere~ztunnel-1.istio-system~x") == INVALID
    assert stream(types=["type.googleapis.com/envoy.config.cluster.v3.Cluster"]) == UNIMPLEMENTED
    assert stream(types=["type.googleapis.com/istio.workload.Workload"]) == UNIMPLEMENTED  # Address has them
    # By certificate.
    leaf = world.sign()["chain"][0]
    cert = world.top / "node.pem"
    cert.write_text(leaf)
    [got] = world.run({"do": "stream", "id": "ztunnel~10.0.0.1~z.istio-system~x", "types": [ADDRESS]},
                      cert=(str(cert), str(world.key)))
    assert got == {"open": [ADDRESS]}
    assert world.sign(token=None)["code"] == UNAUTHENTICATED
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
        world.refusal(f"closing the stream of client .*{re.escape(node)}.*token not authenticated")
    finally:
        child.kill()
        child.wait(GUARD)


def test_a_stream_ends_with_its_certificate(world, tmp_path):
    node, cert = "ztunnel~10.0.0.4~z4.istio-system~x", tmp_path / "cert.pem"
    cert.write_text(world.sign(ttl=5)["chain"][0])
    child = world.start([{"do": "stream", "id": node, "hold": True, "types": [ADDRESS]}],
                        cert=(str(cert), str(world.key)))
    try:
        assert json.loads(child.stdout.readline()) == {"open": [ADDRESS]}
        world.refusal(f"closing the stream of client .*{re.escape(node)}.*certificate has expired")
        assert json.loads(child.stdout.readline())["ended"] == UNAUTHENTICATED
    finally:
        child.kill()
        child.wait(GUARD)


def test_the_root_it_makes_has_no_name_constraints(binary, tmp_path):
    """The verifier of ztunnel (webpki) knows no constraints of URIs, and refuses every certificate below one that has some."""
    world = MeshPort(binary, tmp_path)
    try:
        text = world.openssl("x509", "-in", str(world.roots), "-noout", "-text")
        assert "CA:TRUE" in text and "Name Constraints" not in text
    finally:
        world.control.close()


def test_a_root_is_rotated_with_two_in_the_bundle(binary, tmp_path):
    world = MeshPort(binary, tmp_path)
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


@pytest.mark.parametrize("between", [0, 1, 2])
def test_an_authority_is_plugged_in(binary, tmp_path, between):
    """Below a root with so many intermediates, the last of which signs: one certificate per element, the roots last."""
    ca = tmp_path / "cacerts"
    ca.mkdir()
    top = tmp_path / "top"
    top.mkdir()

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=top, check=True, capture_output=True)

    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    ext = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
    (top / "ext").write_text(ext)
    openssl("req", "-x509", *ec, "-days", "9", "-subj", "/CN=root", "-keyout", "0.key", "-out", "0.pem")
    for i in range(1, between + 1):
        openssl("req", *ec, "-subj", f"/CN=mid{i}", "-keyout", f"{i}.key", "-out", f"{i}.csr")
        openssl("x509", "-req", "-in", f"{i}.csr", "-CA", f"{i - 1}.pem", "-CAkey", f"{i - 1}.key", "-CAcreateserial",
                "-days", "3", "-extfile", "ext", "-out", f"{i}.pem")
    chain = [(top / f"{i}.pem").read_text() for i in range(between, -1, -1)]  # the signer first
    (ca / "ca-cert.pem").write_text(chain[0])
    incomplete = subprocess.run([binary, "control", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0",
                                 "--mesh-listen", "127.0.0.1:0", "--ca-dir", str(ca)], capture_output=True, text=True,
                                timeout=GUARD * SLOW, check=False)
    assert incomplete.returncode != 0
    assert "ca-key.pem" in incomplete.stderr
    (ca / "ca-key.pem").write_text((top / f"{between}.key").read_text())
    (ca / "cert-chain.pem").write_text("".join(chain))
    (ca / "root-cert.pem").write_text(chain[-1])
    world = MeshPort(binary, tmp_path / "w", "--ca-dir", str(ca))
    world.roots = ca / "root-cert.pem"
    try:
        got = until(lambda: (lambda g: g if g["code"] == 0 else None)(world.sign(identity=WEB, ttl=80 * DAY)), GUARD,
                    "the authority to know the pods")
        leaf, *rest = got["chain"]
        assert leaf.count("BEGIN CERTIFICATE") == 1
        # The intermediates, each alone and in order, then the root bundle.
        assert [c.strip() for c in rest] == [c.strip() for c in (*chain[:-1], chain[-1])]
        (top / "leaf.pem").write_text(leaf)
        (top / "between.pem").write_text("".join(rest[:-1]))
        openssl("verify", "-CAfile", "0.pem", *(("-untrusted", "between.pem") if between else ()), "leaf.pem")
        # No longer than its signer.
        assert world.text(leaf, "-enddate") == world.text(chain[0], "-enddate")
    finally:
        world.control.close()


# -- streams of another make --------------------------------------------------------------------
UID = "Kubernetes//Pod/shop/web-1"
SVC = "shop/web.shop.svc.cluster.local"


@pytest.fixture(scope="module")
def served(world):
    """A pod with an address, and a Service of it."""
    done = world.control.patch("/api/v1/namespaces/shop/pods/web-1", {"metadata": {"labels": {"app": "web"}}})
    assert done.status == 200, done
    done = world.control.patch("/api/v1/namespaces/shop/pods/web-1/status", {"status": {
        "phase": "Running", "podIP": "10.0.1.1", "podIPs": [{"ip": "10.0.1.1"}],
        "conditions": [{"type": "Ready", "status": "True"}]}})
    assert done.status == 200, done
    made = world.control.post("/api/v1/namespaces/shop/services", {"metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "10.96.7.7"}})
    assert made.status == 201, made
    policies = "/apis/security.istio.io/v1/namespaces/shop/authorizationpolicies"
    made = world.control.post(policies, {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
                                         "metadata": {"name": "open"}, "spec": {"rules": [{}]}})
    assert made.status == 201, made
    until(lambda: {UID, SVC} <= set(talk(world, [{"type": ADDRESS}])[0][0]["resources"]), GUARD, "both resources")
    until(lambda: "shop/open" in talk(world, [{"type": AUTHORIZATION}])[0][0]["resources"], GUARD, "the policy")
    return world


def talk(port, turns, **fields):
    step = {"do": "talk", "id": NODE, "token": port.token(), "turns": turns, **fields}
    [got] = port.run(step)
    return got["turns"], got.get("ended")


def test_who_comes_back_gets_what_changed(served):
    [first], _ = talk(served, [{"type": ADDRESS}])
    have = first["resources"]
    [again, quiet], _ = talk(served, [{"type": ADDRESS, "initial": {**have, "gone/host": "1"}},
                                      {"type": ADDRESS, "quiet": True}])
    assert again["resources"] == {} and again["removed"] == ["gone/host"], again
    assert quiet is None, "an ACK is not answered"
    [again], _ = talk(served, [{"type": ADDRESS, "initial": {**have, UID: "other"}}])
    assert again["resources"] == {UID: have[UID]}


def test_a_refusal_is_shown_and_not_repeated(served):
    turns, ended = talk(served, [{"type": ADDRESS}, {"type": ADDRESS, "nack": "I do not like it", "quiet": True},
                                 {"type": AUTHORIZATION}])
    assert UID in turns[0]["resources"] and turns[1] is None and "shop/open" in turns[2]["resources"] and not ended
    served.refusal("client refused a response.*I do not like it")


def test_a_change_is_sent_alone(served):
    """While a stream of another make listens, one Service changes."""
    child = served.start([{"do": "talk", "id": NODE, "token": served.token(), "turns": [
        {"type": ADDRESS}, {"type": ADDRESS}]}])
    try:
        until(lambda: [c for c in served.control.get("/debug/xds").json["clients"]
                       if c["type"] == ADDRESS and c["acks"]], GUARD, "the stream")
        done = served.control.patch("/api/v1/namespaces/shop/services/web", {"spec": {"ports": [
            {"port": 80, "name": "http"}, {"port": 81, "name": "more"}]}})
        assert done.status == 200, done
        [got] = answers(child, 1)
        changed = set(got["turns"][1]["resources"])
        assert SVC in changed and changed <= {SVC, UID}, got
    finally:
        child.kill()
        child.wait(GUARD)


def test_on_demand(served):
    """Nothing but the pods of the own node until it is asked for, by name, address or VIP."""
    turns, _ = talk(served, [
        {"type": ADDRESS, "subscribe": ["*"], "unsubscribe": ["*"]},
        {"type": ADDRESS, "subscribe": ["/10.96.7.7"]},
        {"type": ADDRESS, "subscribe": ["/192.0.2.9"]}], metadata={"NODE_NAME": "node-9"})
    assert turns[0]["resources"] == {}
    assert set(turns[1]["resources"]) == {SVC, UID} and "/10.96.7.7" in turns[1]["aliases"][SVC]
    assert turns[2]["resources"] == {} and turns[2]["removed"] == ["/192.0.2.9"]
    [near], _ = talk(served, [{"type": ADDRESS, "subscribe": ["*"], "unsubscribe": ["*"]}],
                     metadata={"NODE_NAME": "node-1"})
    assert set(near["resources"]) == {UID}


def test_state_of_the_world(served):
    """All of it with each change, also without what was deleted; a response that is refused is not sent again."""
    turns, ended = talk(served, [{"type": AUTHORIZATION}, {"type": AUTHORIZATION, "quiet": True}], world=True)
    assert turns[0]["names"] == ["shop/open"] and turns[1] is None and not ended
    passing, services = "shop/passing.shop.svc.cluster.local", "/api/v1/namespaces/shop/services"
    child = served.start([{"do": "talk", "id": NODE, "token": served.token(), "world": True, "turns": [
        {"type": ADDRESS}, {"type": ADDRESS}, {"type": ADDRESS, "nack": "the world is too large"},
        {"type": ADDRESS, "quiet": True}]}])

    def heard(what):
        return any(c[what] for c in served.control.get("/debug/xds").json["clients"] if c["type"] == ADDRESS)
    try:
        until(lambda: heard("acks"), GUARD, "the first ACK")
        made = served.control.post(services, {"metadata": {"name": "passing"}, "spec": {"ports": [{"port": 80}]}})
        assert made.status == 201, made
        until(lambda: heard("nacks"), GUARD, "the NACK")
        served.refusal("client refused a response.*the world is too large")
        assert served.control.delete(f"{services}/passing").status == 200
        [got] = answers(child, 1)
    finally:
        child.kill()
        child.wait(GUARD)
    first, more, less, quiet = got["turns"]
    assert {UID, SVC} <= set(first["names"]) and passing not in first["names"]
    assert sorted(more["names"]) == sorted([*first["names"], passing])
    assert sorted(less["names"]) == sorted(first["names"])
    assert quiet is None and not got.get("ended")


def test_a_client_reconnects_to_a_restarted_control_plane(binary, tmp_path):
    """It says what it holds and gets what changed since, in the process that it had a stream to and in the next."""
    port = MeshPort(binary, tmp_path, "--mesh-listen", f"127.0.0.1:{free_port()}").knows_pods()
    services = "/api/v1/namespaces/shop/services"

    def service(name):
        made = port.control.post(services, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
        assert made.status == 201, made
        return f"shop/{name}.shop.svc.cluster.local"

    def names():
        return set(talk(port, [{"type": ADDRESS}])[0][0]["resources"])

    def said():
        return json.loads(child.stdout.readline())
    child = None
    try:
        stays, goes = service("stays"), service("goes")
        until(lambda: {stays, goes} <= names(), GUARD, "both Services")
        child = port.start([{"do": "follow", "id": NODE, "token": port.token(), "type": ADDRESS}])
        assert {stays, goes} <= set(said()["resources"])
        port.control.stop(kill=True)
        assert said() == {"ended": 14}
        port.restart()
        got = said()
        assert got["resources"] == [] and got["removed"] == [], got
        # It stands still while the control plane is replaced and the world changes.
        child.send_signal(signal.SIGSTOP)
        port.control.stop(kill=True)
        port.restart()
        new = service("new")
        assert port.control.delete(f"{services}/goes").status == 200
        until(lambda: new in names() and goes not in names(), GUARD, "the change")
        child.send_signal(signal.SIGCONT)
        assert said() == {"ended": 14}
        got = said()
        assert got["resources"] == [new] and got["removed"] == [goes] and {stays, new} <= set(got["have"]), got
        # And goes on by changes alone.
        assert port.control.delete(f"{services}/stays").status == 200
        got = said()
        assert got["resources"] == [] and got["removed"] == [stays], got
    finally:
        if child:
            child.kill()
            child.wait(GUARD)
        port.control.close()


@pytest.mark.parametrize("turn", [
    {"type": ADDRESS, "subscribe": ["\u0000" * 300000]},
    {"type": ""},
])
def test_bad_streams_end_alone(served, turn):
    """A stream that makes no sense ends with a reason; others go on."""
    turns, ended = talk(served, [turn, {"type": ADDRESS, "quiet": True}])
    assert ended and ended["code"] in (INVALID, UNIMPLEMENTED, 8), (turns, ended)
    [first], _ = talk(served, [{"type": ADDRESS}])
    assert UID in first["resources"]


def pb(field, data):
    size, out = len(data), b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return bytes([field << 3 | 2]) + out + bytes([size]) + data


def deep_struct(levels):
    """Field of a Struct with the value of a Struct, and so on."""
    data = b""
    for _ in range(levels):
        data = pb(1, pb(1, b"k") + pb(2, pb(5, data)))
    return data


TYPE = pb(2, ADDRESS.encode())
IDENTITY = pb(1, NODE.encode())
GARBAGE = {
    "a length that is cut off": TYPE + b"\x1a\xff\xff",
    "a length beyond the message": TYPE + b"\x1a\x7fabc",
    "a length of 2^63": TYPE + b"\x1a" + b"\xff" * 8 + b"\x7f",
    "a varint of eleven bytes": TYPE + b"\x08" + b"\xff" * 10 + b"\x01",
    "another wire type for the type": pb(1, IDENTITY) + b"\x10\x05",
    "an end without its group": TYPE + b"\x0c",
    "a wire type that there is not": TYPE + b"\x0f\x00",
    "field number 0": TYPE + b"\x02\x00",
    "a node that is cut off": pb(1, IDENTITY[:-4]) + TYPE,
    "metadata of many levels": pb(1, IDENTITY + pb(3, deep_struct(100))) + TYPE,
    "held resources that are cut off": pb(1, IDENTITY) + TYPE + pb(5, b"\x0a\x7fx"),
    "random bytes": bytes((i * 167 + 13) % 256 for i in range(3000)),
}


@pytest.fixture(scope="module")
def listener(served):
    """A stream of another node, open all the while."""
    child = served.start([{"do": "stream", "id": NODE.replace("10.0.0.1", "10.0.0.7"), "token": served.token(),
                           "hold": True, "types": [ADDRESS]}])
    assert json.loads(child.stdout.readline()) == {"open": [ADDRESS]}
    yield child
    child.kill()
    child.wait(GUARD)


def test_what_is_no_request_ends_the_stream(served, listener):
    """As the first message of a stream and as a later one: the reason is returned, logged and counted, and whatever
    others subscribed to stays."""
    def clients():
        return sorted((c["node"], c["type"], c["acks"]) for c in served.control.get("/debug/xds").json["clients"])

    # What a client holds is read in the first request for a type only.
    cases = [(name, turns) for name in GARBAGE for turns in (0, 1) if not (turns and "held" in name)]
    before = until(lambda: clients() if len(clients()) == 1 else None, GUARD, "the listener alone")
    count = served.count("spanwire_xds_refusals", reason="invalid")
    lines = len(served.control.log().splitlines())
    got = served.run(*({"do": "talk", "id": NODE, "token": served.token(), "turns": [{"type": ADDRESS}] * turns + [
        {"raw": GARBAGE[name].hex()}]} for name, turns in cases))
    for case, answer in zip(cases, got):
        ended = answer.get("ended")
        assert ended and ended["code"] == INVALID and ended["text"], (case, answer)

    # Lines are limited to a burst and ten a second: one more refusal later has the number of those left out.
    cases.append(("random bytes", 0))
    got += served.run({"do": "talk", "id": NODE, "token": served.token(), "turns": [{"raw": GARBAGE["random bytes"].hex()}]})

    def told():
        return [line for line in served.control.log().splitlines()[lines:]
                if "closing the stream of client 127.0.0.1" in line]

    def suppressed():
        return sum(int(n) for n in re.findall(r"\bsuppressed_lines=\"?(\d+)", "\n".join(told())))
    until(lambda: len(told()) + suppressed() == len(cases), GUARD, "a line for each, or its place in a number")
    reasons = [answer["ended"]["text"] for answer in got]
    assert len(told()) > 10 and all(any(reason in line for reason in reasons) for line in told()), told()
    assert served.count("spanwire_xds_refusals", reason="invalid") == count + len(cases)
    assert until(lambda: clients() if len(clients()) == 1 else None, GUARD, "the streams to be gone") == before
    [first], _ = talk(served, [{"type": ADDRESS}])
    assert UID in first["resources"] and listener.poll() is None


def memory(served, name):
    text = open(f"/proc/{served.control.proc.pid}/status", encoding="ascii").read()
    return int(re.search(rf"{name}:\s+(\d+)", text).group(1)) // 1024


def test_a_message_of_200_mib(served, listener):
    """A byte more is not even kept; as many as may be are, and let go. Others are served while they come."""
    size = 200 << 20
    before = memory(served, "VmHWM")
    _, ended = talk(served, [{"zeros": size + 1}])
    assert ended["code"] == EXHAUSTED and str(size + 1) in ended["text"], ended
    served.refusal(f"closing the stream of client 127.0.0.1.*message of {size + 1} bytes is larger than {size}")
    assert memory(served, "VmHWM") < before + 32
    child = served.start([{"do": "talk", "id": NODE, "token": served.token(), "turns": [{"zeros": size}]}])
    try:
        [first], _ = talk(served, [{"type": ADDRESS}])
        assert UID in first["resources"]
        [got] = answers(child, 1)
        assert got["ended"]["code"] == INVALID, got
    finally:
        child.kill()
        child.wait(GUARD)
    if not SANITIZED:  # the sanitizer's allocator keeps what is freed for a while
        assert memory(served, "VmHWM") < before + 3 * 200 + 64
        until(lambda: memory(served, "VmRSS") < before + 64, GUARD, "the memory to be given back")
    assert listener.poll() is None
