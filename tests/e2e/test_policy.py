# SPDX-License-Identifier: Apache-2.0
"""Authorisation: who may connect, and what happens to open connections when that changes."""
import pytest
from harness import traffic
from harness.mesh import PORT
from harness.wait import stays, until


def principal(pod):
    return pod.identity.removeprefix("spiffe://")


@pytest.fixture
def pair(mesh):
    mesh.node1, mesh.node2 = mesh.both()
    mesh.app = mesh.echo(mesh.s2)
    return mesh


# match -> (allowed from c1 over mTLS, allowed in plaintext from u1), when it is the only ALLOW
MATCHES = {
    "principal": ({"principals": [{"Exact": "cluster.local/ns/default/sa/c1"}]}, True, False),
    "other principal": ({"principals": [{"Exact": "cluster.local/ns/default/sa/x"}]},
                        False, False),
    "principal prefix": ({"principals": [{"Prefix": "cluster.local/ns/default/"}]}, True, False),
    "principal suffix": ({"principals": [{"Suffix": "/sa/c1"}]}, True, False),
    "principal presence": ({"principals": [{"Presence": []}]}, True, False),
    "no principal": ({"notPrincipals": [{"Presence": []}]}, False, True),
    "not this principal": ({"notPrincipals": [{"Exact": "cluster.local/ns/default/sa/c1"}]},
                           False, True),
    "namespace": ({"namespaces": [{"Exact": "default"}]}, True, False),
    "not namespace": ({"notNamespaces": [{"Exact": "default"}]}, False, True),
    "source ip": ({"sourceIps": ["10.0.1.2/32"]}, True, False),
    "source net": ({"sourceIps": ["10.0.1.0/24"]}, True, True),
    "not source ip": ({"notSourceIps": ["10.0.1.4/32"]}, True, False),
    "destination ip": ({"destinationIps": ["10.0.2.3/32"]}, True, True),
    "not destination ip": ({"notDestinationIps": ["10.0.2.3/32"]}, False, False),
    "port": ({"destinationPorts": [PORT]}, True, True),
    "other port": ({"destinationPorts": [1]}, False, False),
    "not port": ({"notDestinationPorts": [PORT]}, False, False),
    "and": ({"principals": [{"Presence": []}], "destinationPorts": [PORT]}, True, False),
    "and not": ({"principals": [{"Presence": []}], "destinationPorts": [1]}, False, False),
}


def allowed(mesh, src):
    return not mesh.refused(src, mesh.s2)


def test_every_match_field(pair):
    """ALLOW with each match, then DENY with the same one: the answers must be opposite."""
    for name, (match, tunnel, plain) in MATCHES.items():
        for action in ("Allow", "Deny"):
            pair.world.policies.clear()
            pair.world.match_policy("p", action, **match)
            pair.apply()
            got = allowed(pair, pair.c1), allowed(pair, pair.u1)
            want = (tunnel, plain) if action == "Allow" else (not tunnel, not plain)
            assert got == want, f"{action} {name}"


def test_service_accounts(pair):
    """Written in either of the forms a ServiceAccountMatch has in the file."""
    pair.world.match_policy("p", "Allow",
                            serviceAccounts=[{"namespace": "default", "serviceAccount": "c1"}])
    pair.apply()
    assert allowed(pair, pair.c1)
    assert not allowed(pair, pair.s1)
    assert not allowed(pair, pair.u1)


@pytest.mark.tsan
def test_denied_connection_is_said_everywhere(pair):
    pair.world.match_policy("no-c1", "Deny", principals=[{"Exact": principal(pair.c1)}])
    pair.apply()
    assert pair.refused(pair.c1, pair.s2)
    assert pair.app.accepted == 0
    out = pair.node1.wait_access(direction="outbound")[-1]
    assert "401" in out["error"]
    inb = pair.node2.wait_access(direction="inbound")[-1]
    assert "default/no-c1" in inb["error"] and inb.level == "error"
    assert pair.node2.metrics().sum("istio_tcp_connections_closed_total",
                                    reporter="destination", response_flags="DENY") == 1
    peer = pair.hbone(pair.s2, identity=pair.c1.identity)
    assert peer.tunnel(f"{pair.s2.ip4}:{PORT}").status == 401
    peer = pair.hbone(pair.s2)
    assert peer.tunnel(f"{pair.s2.ip4}:{PORT}").status == 200


def test_strict_mtls_refuses_plaintext(pair):
    key = pair.world.policy("istio_converted_static_strict", "Deny",
                            [[[{"notPrincipals": [{"Presence": []}]}]]],
                            scope="WorkloadSelector", namespace="istio-system")
    pair.world.workloads["s2"]["authorizationPolicies"] = [key]
    pair.apply()
    assert allowed(pair, pair.c1)
    assert not allowed(pair, pair.u1)
    line = pair.node2.wait_access(direction="inbound", src_workload="u1")[-1]
    assert key in line["error"]
    pair.echo(pair.t2)
    pair.roundtrip(pair.u1, pair.t2), "the policy is another workload's"


def test_order_deny_before_allow(pair):
    pair.world.match_policy("yes", "Allow", principals=[{"Presence": []}])
    pair.apply()
    assert allowed(pair, pair.c1)
    pair.world.match_policy("no", "Deny", destinationPorts=[PORT])
    pair.apply()
    assert not allowed(pair, pair.c1)


def test_empty_allow_policy_denies_all(pair):
    pair.world.policy("nothing", "Allow", [])
    pair.apply()
    assert not allowed(pair, pair.c1)
    assert not allowed(pair, pair.u1)


def test_scopes(pair):
    pair.world.policy("other-ns", "Deny", [[[{"destinationPorts": [PORT]}]]], namespace="other")
    pair.apply()
    assert allowed(pair, pair.c1)
    pair.world.policy("everywhere", "Deny", [[[{"destinationPorts": [PORT]}]]], scope="Global",
                      namespace="istio-system")
    pair.apply()
    assert not allowed(pair, pair.c1)
    pair.world.policies.clear()
    pair.world.policy("selected", "Deny", [[[{"destinationPorts": [PORT]}]]],
                      scope="WorkloadSelector")
    pair.apply()
    assert allowed(pair, pair.c1), "a selector policy that nobody lists applies to nobody"


def test_dry_run_is_only_logged(pair):
    pair.world.match_policy("trial", "Deny", destinationPorts=[PORT], dry_run=True)
    pair.apply()
    assert allowed(pair, pair.c1)


def test_missing_policy_fails_closed(pair):
    """A workload that names a policy nobody has sent is not open to all (unlike the reference)."""
    pair.world.workloads["s2"]["authorizationPolicies"] = ["default/not-there"]
    pair.apply()
    assert not allowed(pair, pair.c1)
    assert not allowed(pair, pair.u1)


@pytest.mark.tsan
@pytest.mark.parametrize("client", ["c1", "c2", "u1"])
def test_policy_closes_open_connections(pair, client):
    """Over a tunnel, on the fast path and in plaintext."""
    sock = pair.connect(pair.pods[client], pair.s2)
    other = pair.connect(pair.s1, pair.s2)
    for s in (sock, other):
        traffic.echo_once(s)
    ip = pair.pods[client].ip4
    pair.world.match_policy("no", "Deny", sourceIps=[f"{ip}/32"])
    pair.apply()
    until(lambda: traffic.ended(sock), 10, "the connection to be closed")
    traffic.echo_once(other)
    line = pair.node2.wait_access(direction="inbound", src_workload=client)[-1]
    assert "connection closed due to policy change" in line["error"]
    assert pair.node2.metrics().sum("istio_tcp_connections_closed_total",
                                    reporter="destination", response_flags="DENY") == 1


def test_workload_change_closes_open_connections(pair):
    """A selector policy attached to the workload later counts for what is already open."""
    pair.world.policy("sel", "Deny", [[[{"destinationPorts": [PORT]}]]],
                      scope="WorkloadSelector")
    pair.apply()
    sock = pair.connect(pair.c1, pair.s2)
    traffic.echo_once(sock)
    pair.world.workloads["s2"]["authorizationPolicies"] = ["default/sel"]
    pair.apply()
    until(lambda: traffic.ended(sock), 10, "the connection to be closed")


def test_unrelated_change_closes_nothing(pair):
    sock = pair.connect(pair.c1, pair.s2)
    traffic.echo_once(sock)
    pair.world.match_policy("no", "Deny", destinationPorts=[1])
    pair.apply()
    pair.world.match_policy("yes", "Allow", principals=[{"Presence": []}])
    pair.apply()
    stays(lambda: not traffic.ended(sock), 0.3)
    traffic.echo_once(sock)


def test_allow_withdrawn_closes(pair):
    pair.world.match_policy("yes", "Allow", principals=[{"Exact": principal(pair.c1)}])
    pair.apply()
    sock = pair.connect(pair.c1, pair.s2)
    traffic.echo_once(sock)
    pair.world.policies.clear()
    pair.world.match_policy("yes", "Allow", principals=[{"Exact": principal(pair.s1)}])
    pair.apply()
    until(lambda: traffic.ended(sock), 10, "the connection to be closed")
    assert not allowed(pair, pair.c1)
    assert allowed(pair, pair.s1)


def test_foreign_client_sees_its_stream_end(pair):
    peer = pair.hbone(pair.s2)
    denied = peer.tunnel(f"{pair.s2.ip4}:{PORT}")
    peer.echo(denied)
    pair.world.match_policy("no", "Deny", sourceIps=[f"{pair.p1.ip4}/32"])
    pair.apply()
    peer.wait(lambda: denied.finished, 3, "the stream to be closed")


def test_nesting_of_rules_and_clauses(pair):
    """Rules are alternatives, clauses of a rule all count, matches of a clause are alternatives."""
    port = {"destinationPorts": [PORT]}
    never = {"destinationPorts": [1]}
    cases = [
        ([[[never]], [[port]]], True),
        ([[[port], [never]]], False),
        ([[[never, port], [port]]], True),
        ([[]], True),
        ([[[]]], True),
        ([[[{}]]], False),
    ]
    for rules, want in cases:
        pair.world.policy("p", "Allow", rules)
        pair.apply()
        assert allowed(pair, pair.c1) is want, rules
