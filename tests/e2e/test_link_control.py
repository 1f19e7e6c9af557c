# SPDX-License-Identifier: Apache-2.0
"""The port of `spanwire control` where data planes of links ask: every answer of ClusterLink's, and ours."""
import base64
import contextlib
import hmac
import json
import os
import re
import threading
import urllib.parse

import pytest
from harness.control import Control
from harness.link_control import SYSTEM, Fabric, Gateway, Plane, Site, check_request, thumbprint
from harness.metrics import Metrics
from harness.wait import until

CLIENT = "10.7.0.5"
EGRESS = {"x-client-ip": CLIENT, "x-import-name": "web", "x-import-namespace": "default"}
OWN = {"x-forwarded-for": CLIENT, "x-import": "default/web"}


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    return Fabric(tmp_path_factory.mktemp("fabric"))


@pytest.fixture
def closing():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def site(binary, tmp_path, fabric, closing, request):
    """Site 'here' with an Export 'web' for peer 'there' and a pod."""
    here = fabric.peer("here", where=tmp_path / "here")
    control = Control(binary, tmp_path / "control", "--link-listen", "127.0.0.1:0", "--link-fabric", str(here),
                      "--peer-label", "zone=a", "--upstream-allow", "127.0.0.0/8", "--xds-listen", "127.0.0.1:0",
                      "--link-export-host", "10.1.1.1", *getattr(request, "param", ()))
    closing.callback(control.close)
    s = Site(control, control.data / "link-site", "here")
    s.fabric_dir = here
    s.export("web", labels={"tier": "front"})
    s.pod("client", CLIENT, {"app": "shop", "app.kubernetes.io/name": "shop"})
    return s


@pytest.fixture
def gateway(fabric, closing):
    def make(name, *, where=None, **kw):
        g = Gateway(where or fabric.peer(name), **kw)
        closing.callback(g.close)
        return g
    return make


def ready(site, expected=200, headers=None):
    """The control plane has seen the objects when a token is answered as expected."""
    def answered():
        with site.plane() as p:
            return p.http("POST", "/authz", {**peer_headers(site), **(headers or {})}, body()).status == expected
    until(answered, what=f"{expected} for a token: {site.control.log()[-2000:]}")


def body(name="web", namespace="default", attributes=None):
    return json.dumps({"ServiceName": name, "ServiceNamespace": namespace, "SrcAttributes": attributes})


def peer_headers(_site, name="there", thumb="ab" * 32):
    return {"x-peer": name, "x-peer-certificate": thumb}


def token(plane, site, **kw):
    answer = plane.http("POST", "/authz", peer_headers(site, **kw), body())
    assert answer.status == 200, answer
    return answer.head["authorization"]


def metric(site, name, **labels):
    return Metrics(site.control.get("/metrics").body.decode()).sum(name, **labels)


# -- gRPC Check -----------------------------------------------------------------------------------
def test_check_answers_as_clusterlink_does(site, fabric):
    """Every row of the contract that needs no other site: codes, statuses and texts."""
    site.policy("all")
    ready(site)
    pem = urllib.parse.quote((fabric.peer("there") / "cert.pem").read_text())
    with site.plane() as p:
        for missing in EGRESS:
            v = p.check(internal=True, headers={k: x for k, x in EGRESS.items() if k != missing})
            assert (v.code, v.http, v.body) == (3, 400, f"Missing '{missing}' header.")
        v = p.check(internal=True, headers=EGRESS)
        assert (v.code, v.http) == (13, 500) and "default/web" in v.body
        v = p.check("GET", "/healthz", principal="there")
        assert v.code == 0 and v.http is None
        assert json.loads(base64.b64decode(v.added["ClusterLinkPeerLabels"])) == {"zone": "a"}
        for text in ("{", "", "[]", '{"ServiceName":1}', '{"SrcAttributes":{"a":1}}'):
            v = p.check("POST", "/authz", body=text, principal="there")
            assert (v.code, v.http) == (3, 400) and v.body, text
        v = p.check("POST", "/authz", body=body("none"), principal="there")
        assert (v.code, v.http, v.body) == (5, 404, "Exported service 'default/none' not found.")
        v = p.check("POST", "/authz", body='{"servicename":"web","SERVICENAMESPACE":"default"}', principal="there")
        assert v.code == 0 and v.added["x-access-token"] and not v.headers
        v = p.check("POST", "/authz", body=body(), principal="ignored", certificate=pem)
        granted = {"authorization": "Bearer " + v.added["x-access-token"]}
        v = p.check("CONNECT", "x:443", headers=granted, principal="there")
        assert (v.code, v.http) == (7, 403), "the certificate is a part of the token"
        v = p.check("CONNECT", "x:443", headers=granted, principal="there", certificate=pem)
        assert v.code == 0 and v.headers == {"host": "export-default/web"}
        v = p.check("CONNECT", "x:443", principal="there")
        assert (v.code, v.http, v.body) == (3, 400, "Missing 'authorization' header.")
        v = p.check("CONNECT", "x:443", headers={"authorization": "bearer x"}, principal="there")
        assert (v.code, v.http, v.body) == (3, 400, "Authorization header is not using the bearer scheme.")
        v = p.check("CONNECT", "x:443", headers={"authorization": "Bearer x"}, principal="there")
        assert (v.code, v.http) == (7, 403) and v.body.startswith("failed to verify jws signature")
        for method, path in (("GET", "/foo"), ("POST", "/healthz"), ("PUT", "/authz")):
            v = p.check(method, path, principal="there")
            assert (v.code, v.http, v.body) == (3, 400, f"No handler defined for {method} {path}.")
        assert p.grpc(b"").head["grpc-status"] == "3"
        assert p.grpc(b"\xff").head["grpc-status"] == "3"
    site.drop("accesspolicies", "all")
    ready(site, 403)
    with site.plane() as p:
        v = p.check("POST", "/authz", body=body(), principal="there")
        assert (v.code, v.http, v.body) == (7, 403, "Permission denied for 'default/web'.")


def test_check_egress_asks_the_peer(site, gateway):
    there = gateway("there")
    site.peer("there", there.port)
    site.imports("web", ("there", "shop"))
    site.policy("all")
    ready(site)
    with site.plane() as p:
        v = until(lambda: (lambda v: v if v.code == 0 else None)(p.check(internal=True, headers=EGRESS)), what="a token")
        assert v.headers["host"] == "remote-peer-there"
        assert v.headers["authorization"] == f"Bearer token-{len(there.asked)}"
        path, asked = there.asked[-1]
        assert path == "/authz" and (asked["ServiceName"], asked["ServiceNamespace"]) == ("shop", "default")
        assert asked["SrcAttributes"] == {
            "client.clusterlink.net/labels.app": "shop", "client.clusterlink.net/labels.app.kubernetes.io/name": "shop",
            "client.clusterlink.net/namespace": "default", "client.clusterlink.net/service-account": "app",
            "peer.clusterlink.net/labels.zone": "a", "peer.clusterlink.net/name": "here"}
        p.check(internal=True, headers={**EGRESS, "x-client-ip": "10.7.0.99"})
        assert there.asked[-1][1]["SrcAttributes"] is None
        there.authz = 403
        v = p.check(internal=True, headers=EGRESS)
        assert (v.code, v.http, v.body) == (13, 500, "cannot select import source: tried out all 1 sources")


# -- our own form ---------------------------------------------------------------------------------
def test_only_data_planes_of_the_site_are_answered(site):
    with site.plane(cert=None) as p:
        assert p.http("GET", "/healthz").status == 401
        assert p.grpc(check_request("GET", "/healthz")).head["grpc-status"] == "16"
    with site.plane() as p:
        assert p.http("GET", "/other").status == 400
        assert p.http("POST", "/authz", peer_headers(site), "x" * 70000).status == 413


def test_tokens_are_for_one_peer_and_one_use(site):
    site.policy("all")
    ready(site)
    with site.plane() as p:
        mine = token(p, site)
        stolen = p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site, thumb="cd" * 32)})
        assert stolen.status == 403 and "another certificate" in stolen.head["x-reason"]
        other = p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site, name="mallory")})
        assert other.status == 403
        first = p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site)})
        assert first.status == 200 and first.head["host"] == "export-default/web" and first.head["x-grant"]
        assert first.head["x-policy"] == "default/all"
        again = p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site)})
        assert again.status == 403 and "used before" in again.head["x-reason"]
        assert p.http("POST", "/authz/ingress", {"authorization": "Bearer " + first.head["x-grant"],
                                                 **peer_headers(site)}).status == 403
        forged = mine[:-2] + ("AA" if not mine.endswith("AA") else "BB")
        assert p.http("POST", "/authz/ingress", {"authorization": forged, **peer_headers(site)}).status == 403
    assert metric(site, "spanwire_link_tokens_total", result="stolen") == 2
    assert metric(site, "spanwire_link_tokens_total", result="replayed") == 1
    assert mine.split()[1] not in site.control.log()


def test_a_token_is_used_once_over_a_restart(site):
    """The process that comes cannot know whether it was: what is older than itself opens nothing."""
    site.policy("all")
    ready(site)
    with site.plane() as p:
        mine = token(p, site)
        assert p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site)}).status == 200
    site.control.restart()
    site.port = int(re.findall(r"links on 127\.0\.0\.1:(\d+)", site.control.log())[-1])
    ready(site)
    with site.plane() as p:
        again = p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site)})
        assert again.status == 403, again
        assert p.http("POST", "/authz/ingress", {"authorization": token(p, site), **peer_headers(site)}).status == 200


def test_a_peer_is_who_its_certificate_says(site):
    site.policy("all", src={"matchLabels": {"peer.clusterlink.net/name": "there"}})
    with site.plane() as p:
        claims = body(attributes={"peer.clusterlink.net/name": "there"})
        until(lambda: p.http("POST", "/authz", peer_headers(site), claims).status == 200, what="the policy")
        assert p.http("POST", "/authz", peer_headers(site, name="mallory"), claims).status == 403
        assert p.http("POST", "/authz", {}, claims).status == 403
        assert p.http("POST", "/authz", peer_headers(site), body(attributes={"client.clusterlink.net/namespace": "x"})
                      ).status == 200, "attributes without a name get the certificate's"
        assert p.http("POST", "/authz", peer_headers(site), body()).status == 403, "nobody vouches for the client"


@pytest.mark.parametrize("site", [("--link-known-peers-only",)], indirect=True)
def test_only_known_peers_have_connections(site):
    """Without a Peer there is no token, what one had opens nothing any more, and what is open is closed."""
    site.policy("all")
    ready(site, 403)
    site.peer("there", 1)
    ready(site)
    with site.plane() as p:
        assert p.http("POST", "/authz", peer_headers(site, name="mallory"), body()).status == 403
        opened = p.http("POST", "/authz/ingress", {"authorization": token(p, site), **peer_headers(site)})
        assert opened.status == 200
        with site.plane() as other:
            tokens = [token(p, site)]
            site.drop("peers", "there", SYSTEM)
            until(lambda: tokens.append(other.http("POST", "/authz", peer_headers(site), body()).head.get("authorization"))
                  or not tokens[-1], what="the Peer to be gone")
        late = p.http("POST", "/authz/ingress", {"authorization": [t for t in tokens if t][-1], **peer_headers(site)})
        assert late.status == 403 and "no Peer object" in late.head["x-reason"]
        assert p.http("POST", "/authz/review", body=opened.head["x-grant"] + "\n").body.startswith(b"denied")


def test_sources_are_tried_until_a_token_is_granted(site, gateway, fabric):
    refuses, dead, works = gateway("refuses", authz=404), gateway("dead", authz=None), gateway("works")
    for g, name in ((refuses, "refuses"), (dead, "dead"), (works, "works")):
        site.peer(name, g.port)
    site.imports("web", ("refuses", "web"), ("dead", "web"), ("works", "web"), ("gone", "web"), scheme="static")
    site.policy("all")
    ready(site)
    with site.plane() as p:
        def egress(**more):
            return p.http("POST", "/authz/egress", {**OWN, **more})
        until(lambda: metric(site, "spanwire_link_peer_reachable") == 3, what="heartbeats")
        a = until(lambda: (lambda a: a if a.status == 200 else None)(egress()), what="a token")
        assert a.head["host"] == "remote-peer-works" and a.head["x-export"] == "default/web"
        assert a.head["x-source"] == "default/app" and a.head["x-policy"] == "default/all"
        assert refuses.asked and dead.asked
        excluded = egress(**{"x-exclude": "works/default/web"})
        assert excluded.status == 503 and "x-reason" in excluded.head
        assert p.http("POST", "/authz/egress", {"x-import": "default/web"}).status == 400
        assert p.http("POST", "/authz/egress", {**OWN, "x-import": "default/none"}).status == 404
        site.policy("no", "deny", dst={"matchLabels": {"peer.clusterlink.net/name": "works"}})
        until(lambda: egress().status == 503, what="the denial")
        site.policy("none", "deny")
        site.imports("web", ("refuses", "web"), ("works", "web"), scheme="static")
        denied = until(lambda: (lambda a: a if a.status == 403 else None)(egress()), what="the denial of all")
        assert "default/no" in denied.head["x-reason"], denied


def test_both_gateways_of_a_peer_are_asked(site, gateway, fabric):
    """The first answers nothing at all; the second does. No request waits for the first."""
    where = fabric.peer("there")
    silent, works = gateway("there", where=where, authz=None, healthy=500), gateway("there", where=where)
    site.peer("there", silent.port, works.port)
    site.imports("web", ("there", "web"))
    site.policy("all")
    ready(site)
    with site.plane() as p:
        a = until(lambda: (lambda a: a if a.status == 200 else None)(p.http("POST", "/authz/egress", OWN)),
                  what="a token")
        assert a.head["host"] == "remote-peer-there"


def test_a_server_with_another_name_is_not_the_peer(site, gateway):
    mallory = gateway("mallory")
    site.peer("there", mallory.port)
    site.imports("web", ("there", "web"))
    site.policy("all")
    ready(site)
    until(lambda: "peer 'there' is unreachable" in site.control.log(), what="the refusal")
    with site.plane() as p:
        assert p.http("POST", "/authz/egress", OWN).status == 503
    assert not mallory.asked and not mallory.beats


def test_labels_of_a_peer_are_refreshed_by_every_heartbeat(site, gateway):
    there = gateway("there", labels={"env": "test"})
    site.peer("there", there.port)
    site.imports("web", ("there", "web"))
    site.policy("prod", dst={"matchLabels": {"peer.clusterlink.net/labels.env": "prod"}})
    ready(site, 403)
    until(lambda: there.beats, what="a heartbeat")
    with site.plane() as p:
        assert p.http("POST", "/authz/egress", OWN).status == 403
        there.labels = {"env": "prod"}
        until(lambda: p.http("POST", "/authz/egress", OWN).status == 200, what="the new label")
    assert metric(site, "spanwire_link_peer_reachable", peer="there") == 1
    there.labels = False
    until(lambda: metric(site, "spanwire_link_peer_reachable", peer="there") == 0, what="an answer without labels")


def test_labels_of_a_peer_outlive_its_silence_and_a_restart(site, gateway):
    """Policies about labels go on to allow and to deny: what is open runs on, and nothing is let in meanwhile."""
    there = gateway("there", labels={"env": "prod"})
    site.peer("there", there.port)
    site.imports("web", ("there", "web"))
    site.imports("other", ("there", "other"))
    site.policy("prod", dst={"matchLabels": {"peer.clusterlink.net/labels.env": "prod"}})
    site.policy("no", "deny", dst={"matchLabels": {"peer.clusterlink.net/labels.env": "prod",
                                                   "export.clusterlink.net/name": "other"}})
    site.policy("any", dst={"matchLabels": {"export.clusterlink.net/name": "other"}})

    def seen():
        path = f"/apis/clusterlink.net/v1alpha1/namespaces/{SYSTEM}/peers/there"
        return site.control.get(path).json.get("status", {}).get("labels") == {"env": "prod"}

    def check():
        with site.plane() as p:
            def asked(path, **kw):
                return until(lambda: (lambda a: a if a.status != 503 else None)(p.http("POST", path, **kw)),
                             what=f"an answer: {site.control.log()[-1500:]}")
            assert asked("/authz/review", body=grant + "\n").body == b"ok\n"
            assert asked("/authz/egress", headers={**OWN, "x-import": "default/other"}).status == 403
    with site.plane() as p:
        grant = until(lambda: (lambda a: a if a.status == 200 else None)(p.http("POST", "/authz/egress", OWN)),
                      what="a token").head["x-grant"]
    until(seen, what="the labels in the status")
    check()
    there.silent.set()  # heartbeats are not answered any more
    site.control.restart()
    site.port = int(re.findall(r"links on 127\.0\.0\.1:(\d+)", site.control.log())[-1])
    check()
    until(lambda: "peer 'there' is unreachable" in site.control.log(), what="the end of the heartbeat")
    check()


def test_objects_that_are_not_valid_get_no_connection(site, gateway):
    """An Export that leads elsewhere, an Import with an unknown scheme: both refuse, and everything else goes on."""
    site.peer("there", gateway("there").port)
    site.put("exports", "Export", "evil", {"host": "10.9.9.9", "port": 80})
    site.imports("web", ("there", "web"))
    site.imports("odd", ("there", "web"), scheme="nonsense")
    site.policy("all")
    ready(site)
    with site.plane() as p:
        until(lambda: p.http("POST", "/authz/egress", OWN).status == 200, what="the good Import")
        a = p.http("POST", "/authz", peer_headers(site), body("evil"))
        assert (a.status, a.body) == (404, b"Exported service 'default/evil' not found.")
        a = p.http("POST", "/authz/egress", {**OWN, "x-import": "default/odd"})
        assert a.status == 503 and "nonsense" in a.head["x-reason"], a
        site.put("exports", "Export", "evil", {"host": "10.1.1.1", "port": 80})
        until(lambda: p.http("POST", "/authz", peer_headers(site), body("evil")).status == 200, what="the mended Export")
        assert p.http("POST", "/authz/egress", OWN).status == 200


def test_a_peer_that_is_deleted_is_left_alone(site, gateway):
    there, near = gateway("there"), gateway("near")
    site.peer("there", there.port)
    site.peer("near", near.port)
    until(lambda: metric(site, "spanwire_link_peer_reachable") == 2, what="heartbeats")
    site.drop("peers", "there", SYSTEM)
    until(lambda: metric(site, "spanwire_link_peer_reachable") == 1, what="one peer less")
    seen, beats = there.beats, near.beats
    until(lambda: near.beats >= beats + 3, what="heartbeats of the other peer")
    assert there.beats == seen


def test_open_connections_are_reviewed(site, gateway):
    there = gateway("there")
    site.peer("there", there.port)
    site.imports("web", ("there", "web"))
    site.policy("all", src={"matchLabels": {"client.clusterlink.net/labels.app.kubernetes.io/name": "shop"}})
    site.policy("in", dst={"matchLabels": {"export.clusterlink.net/labels.tier": "front"}},
                src={"matchLabels": {"peer.clusterlink.net/name": "there"}})
    attributes = {"peer.clusterlink.net/name": "there"}
    with site.plane() as p:
        def minted():
            a = p.http("POST", "/authz", peer_headers(site), body(attributes=attributes))
            return a if a.status == 200 else None
        out = until(lambda: (lambda a: a if a.status == 200 else None)(p.http("POST", "/authz/egress", OWN)),
                    what=f"a token {site.control.log()[-1500:]}").head["x-grant"]
        into = p.http("POST", "/authz/ingress", {"authorization": until(minted, what="a token").head["authorization"],
                                                 **peer_headers(site)}).head["x-grant"]

        def review():
            a = p.http("POST", "/authz/review", body=f"{out}\n{into}\nrubbish\n")
            assert a.status == 200, a
            return [line.split()[0] for line in a.body.decode().splitlines()]
        assert review() == ["ok", "ok", "denied"]
        site.policy("no", "deny", namespace=None, dst={"matchLabels": {"export.clusterlink.net/labels.tier": "front"}})
        until(lambda: review() == ["ok", "denied", "denied"], what="the denial")
        site.control.patch("/api/v1/namespaces/default/pods/client", {"metadata": {"labels": {
            "app.kubernetes.io/name": None}}})
        until(lambda: review() == ["denied", "denied", "denied"], what="the lost label")
        assert p.http("POST", "/authz/review", body="x\n" * 1001).status == 400
        assert p.http("POST", "/authz/review", body="x" * (1 << 20) + "y").status == 413


def test_a_policy_change_while_the_peer_is_asked(site, gateway):
    """A peer may take seconds to answer; what counts is what is allowed when it has."""
    go = threading.Event()
    there = gateway("there", authz=lambda body: 200 if go.wait(20) else 500)
    site.peer("there", there.port)
    site.imports("web", ("there", "web"))
    site.policy("all")
    ready(site)
    with site.plane() as p, site.plane() as other:
        until(lambda: metric(site, "spanwire_link_peer_reachable") == 1, what="heartbeats")
        p.burst(1, "POST", "/authz/egress", OWN.items())
        until(lambda: there.asked, what="the question")
        site.policy("no", "deny")
        until(lambda: other.http("POST", "/authz", peer_headers(site), body()).status == 403, what="the denial")
        go.set()
        said, = p.answers(1)
        assert said[":status"] == "403" and "default/no" in said["x-reason"], said


# -- secrets --------------------------------------------------------------------------------------
def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verified(bearer, key):
    """Claims of a compact JWS (RFC 7515) with HS256, computed here."""
    head, payload, tag = bearer.removeprefix("Bearer ").split(".")
    assert json.loads(unpadded(head)) == {"alg": "HS256", "typ": "JWT"}
    assert hmac.compare_digest(hmac.new(key, f"{head}.{payload}".encode(), "sha256").digest(), unpadded(tag))
    return json.loads(unpadded(payload))


def test_the_key_of_tokens_is_restored(site):
    site.policy("all")
    ready(site)
    path = f"/api/v1/namespaces/{SYSTEM}/secrets/jwk"
    before = site.control.get(path).json
    assert len(base64.b64decode(base64.b64decode(before["data"]["key"]))) == 32
    with site.plane() as p:
        mine = token(p, site)
        claims = verified(mine, base64.b64decode(base64.b64decode(before["data"]["key"])))
        assert (claims["export_name"], claims["export_namespace"]) == ("web", "default")
        assert claims["peer"] == "there" and claims["cnf"]["x5t#S256"] and claims["jti"] and claims["exp"]
        assert site.control.delete(path).status == 200
        after = until(lambda: (lambda a: a.json if a.status == 200 else None)(site.control.get(path)), what="the key")
        assert after["data"] == before["data"] and after["metadata"]["uid"] != before["metadata"]["uid"]
        assert p.http("POST", "/authz/ingress", {"authorization": mine, **peer_headers(site)}).status == 200


def test_another_key_of_tokens_cuts_nothing(site):
    """Tokens of the old one are worth nothing from then on; connections that are open are known by it still."""
    site.policy("all")
    ready(site)
    path = f"/api/v1/namespaces/{SYSTEM}/secrets/jwk"
    with site.plane() as p:
        grant = p.http("POST", "/authz/ingress", {"authorization": token(p, site), **peer_headers(site)}).head["x-grant"]
        key = os.urandom(32)
        data = {"key": base64.b64encode(base64.b64encode(key)).decode()}
        old = token(p, site)
        assert site.control.patch(path, {"data": data}).status == 200

        def rotated():
            with contextlib.suppress(AssertionError):
                return verified(token(p, site), key)
            return False
        until(rotated, what="tokens of the new key")
        assert p.http("POST", "/authz/ingress", {"authorization": old, **peer_headers(site)}).status == 403
        assert p.http("POST", "/authz/review", body=grant + "\n").body == b"ok\n"


def test_a_broken_certificate_leaves_the_old_one(site, gateway, fabric):
    there = gateway("there")
    site.peer("there", there.port)
    until(lambda: there.beats, what="a heartbeat")
    good = (site.fabric_dir / "cert.pem").read_bytes()
    (site.fabric_dir / "cert.pem").write_text("rubbish")
    until(lambda: "keeping the previous one" in site.control.log(), what="the warning")
    seen = there.beats
    until(lambda: there.beats > seen + 1, what="more heartbeats")
    (site.fabric_dir / "cert.pem").write_bytes(good)
    until(lambda: metric(site, "spanwire_link_fabric_reloads_total", result="ok") >= 2, what="the old one again")
    assert thumbprint(site.fabric_dir)


def test_a_certificate_without_a_name_is_refused_at_the_start(binary, tmp_path, fabric):
    nameless = fabric.peer("nameless", dns=[], where=tmp_path / "fabric")
    control = Control(binary, tmp_path / "control", "--link-listen", "127.0.0.1:0", "--link-fabric", str(nameless),
                      "--xds-listen", "127.0.0.1:0", wait=False)
    assert control.wait(40) == 1
    assert "no DNS name" in control.log()


def test_floods_are_refused(site, gateway):
    """A peer that never answers holds its share of requests and no more; other peers are asked meanwhile."""
    site.peer("there", gateway("there", authz=None).port)
    site.peer("near", gateway("near").port)
    site.imports("web", ("there", "web"))
    site.imports("other", ("near", "web"))
    site.policy("all")
    ready(site)
    with contextlib.ExitStack() as stack:
        planes = [stack.enter_context(contextlib.closing(Plane(site.port, site.site))) for _ in range(2)]
        for p in planes:
            p.prepare(1200, "POST", "/authz/egress", OWN.items())
        for p in planes:  # within the three seconds that the first of them wait
            p.flush()
        with site.plane() as p:
            assert p.http("POST", "/authz/egress", {**OWN, "x-import": "default/other"}).status == 200
        said = [a for p in planes for a in p.answers(1200)]
    assert {a[":status"] for a in said} == {"503"}
    over = [a for a in said if "2048 requests to peer 'there' are under way, its share of 4096" in a["x-reason"]]
    assert len(over) >= 352 and metric(site, "spanwire_link_decisions_total", reason="overload") >= len(over)


def test_requests_to_a_peer_wait_their_turn(site, gateway):
    """More at once than there are connections to a gateway, and than a peer was ever asked at once: all are answered."""
    site.peer("there", gateway("there").port)
    site.imports("web", ("there", "web"))
    site.policy("all")
    ready(site)
    with site.plane() as p:
        p.burst(300, "POST", "/authz/egress", OWN.items())
        assert [a[":status"] for a in p.answers(300)] == ["200"] * 300


def test_imports_get_no_port_of_other_programs(site):
    """Gateways connect to target ports unfiltered, at addresses that may be this machine's."""
    for name, port in (("admin", 15000), ("kept", 20001)):
        site.put("imports", "Import", name, {"port": 80, "targetPort": port, "lbScheme": "static", "sources": []})

    def verdict(name):
        found = site.control.get(f"/apis/clusterlink.net/v1alpha1/namespaces/default/imports/{name}").json
        return [c["status"] for c in found.get("status", {}).get("conditions", ()) if c["type"] == "ImportTargetPortValid"]
    until(lambda: verdict("kept") == ["True"] and verdict("admin") == ["False"], what="the verdicts")
