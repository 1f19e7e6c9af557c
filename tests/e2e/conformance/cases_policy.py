# SPDX-License-Identifier: Apache-2.0
"""BackendTLSPolicy."""
from .cases_gateway import server
from .credentials import INFRA, config_map
from .registry import registry
from .traffic import Expect, Tls

CASES, case = registry()
HOST = "abc.example.com"
ACCEPTED = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}
FAILS = (500, 502, 503)


def to(path, sni=None):
    """sni: the backend is reached with that name; else the request fails."""
    path = "/backendtlspolicy" + path
    if sni:
        return Expect(path, host=HOST, sni=sni, backend="tls-backend")
    return Expect(path, host=HOST, status=FAILS)


@case("BackendTLSPolicy")
def policy(s):
    s.ready()
    addr = s.addr("same-namespace")
    for name in ("host-mismatch", "cert-mismatch", "reconcile-test"):
        s.policy(name, ACCEPTED)
    for gateway in ("same-namespace", "same-namespace-with-https-listener"):
        s.policy("normative-test", ACCEPTED, gateway)
    s.expect(addr, to("", HOST), to("-host-mismatch"), to("-cert-mismatch"))
    s.expect(s.addr("same-namespace-with-https-listener", 443), Expect(
        "/backendtlspolicy", host="https-listener.org", sni=HOST, backend="tls-backend",
        tls=Tls("https-listener.org", server(s))))
    s.expect(addr, to("-reconcile-test", HOST))
    name = "tls-checks-ca-certificate"
    try:
        s.cluster.apply(config_map(INFRA, name, s.credentials.pairs["mismatch-ca-certificate"]))
        s.expect(addr, to("-reconcile-test"))
    finally:
        s.cluster.apply(config_map(INFRA, name, s.credentials.pairs[name]))
    s.expect(addr, to("-reconcile-test", HOST))


@case("BackendTLSPolicySANValidation")
def alternative_names(s):
    s.ready()
    for name in ("san-dns", "san-dns-mismatch", "san-uri", "san-uri-mismatch", "multiple-sans",
                 "multiple-mismatch-sans"):
        s.policy(name, ACCEPTED)
    s.expect(s.addr("same-namespace"), to("-san-dns", HOST), to("-san-dns-mismatch"), to("-san-uri", HOST),
             to("-san-uri-mismatch"), to("-multiple-sans", HOST), to("-multiple-mismatch-sans"))


@case("BackendTLSPolicyConflictResolution")
def conflicts(s):
    s.ready()
    for kind in ("without-section-name", "with-section-name"):
        s.policy(f"conflicted-{kind}-1", {"Accepted": ("True", "Accepted")})
        s.policy(f"conflicted-{kind}-2", {"Accepted": ("False", "Conflicted")})
        s.policy(f"not-conflicted-{kind}", {"Accepted": ("True", "Accepted")})
    other = "other.example.com"
    s.expect(s.addr("same-namespace"), to("-conflicted-without-section-name", other),
             to("-conflicted-with-section-name", other), to("-not-conflicted-with-section-name", other),
             to("-not-conflicted-without-section-name", HOST))


def invalid(s, policy_name, reason, path):
    s.policy(policy_name, {"Accepted": ("False", "NoValidCACertificate"), "ResolvedRefs": ("False", reason)})
    s.expect(s.addr("same-namespace"), to(path))


@case("BackendTLSPolicyInvalidCACertificateRef")
def invalid_ca(s):
    for kind in ("nonexistent", "malformed"):
        invalid(s, f"{kind}-ca-certificate-ref", "InvalidCACertificateRef", f"-{kind}-ca-certificate-ref")


@case("BackendTLSPolicyInvalidKind")
def invalid_kind(s):
    invalid(s, "invalid-kind", "InvalidKind", "-invalid-kind")


@case("BackendTLSPolicyObservedGenerationBump")
def generation(s):
    s.policy("observed-generation-bump", ACCEPTED)
    before = s.cluster.get("BackendTLSPolicy", "observed-generation-bump", INFRA)["metadata"]["generation"]
    changed = s.cluster.patch("BackendTLSPolicy", "observed-generation-bump", INFRA,
                              {"spec": {"validation": {"hostname": "foo.com"}}})
    assert changed["metadata"]["generation"] == before + 1
    s.policy("observed-generation-bump", ACCEPTED)
