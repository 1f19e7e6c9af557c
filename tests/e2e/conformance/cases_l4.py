# SPDX-License-Identifier: Apache-2.0
"""TLSRoute, TCPRoute and UDPRoute."""
import contextlib
import functools
import socket
import struct
import time

from .cases_gateway import GOOD
from .credentials import INFRA, WEB
from .registry import registry
from .traffic import PATIENCE, Expect, Tls, cut_off, eventually, is_backend, tcp_context, tcp_line, udp_ask, udp_context

CASES, case = registry()


def pair(s, name):
    return s.credentials.pairs[name]


def closed(addr, tls=None, what="the connection to be refused"):
    eventually(lambda: cut_off(addr, tls), what)


def tls_echo(addr, tls, backend, encrypted):
    def attempt():
        got = tcp_context(addr, tls)
        assert is_backend(got["pod"], backend), got
        assert got["isTLS"] is encrypted, got
        if encrypted:
            assert got["tls"]["serverName"] == tls.sni, got
        assert tcp_line(addr, "PING", tls) == "PONG"
    eventually(attempt, f"TCP with TLS for {tls.sni}")


# --- TLSRoute ---
@case("TLSRouteSimpleSameNamespace")
def tls_simple(s):
    s.ready()
    tls = Tls("abc.example.com", pair(s, "tls-passthrough-checks-certificate"))
    tls_echo(s.addr("gateway-tlsroute", 443), tls, "tcp-backend", True)


@case("TLSRouteHostnameIntersection")
def tls_intersection(s):
    s.ready()
    cert = pair(s, "tls-checks-certificate")
    for gateway, names, miss in (
            ("exact-hostname-x-1", {"abc": "tls-backend"}, "non.matching.com"),
            ("more-specific-wc-hostname-x-2", {"abc": "tls-backend", "other": "tls-backend-2"}, "non.matching.com"),
            ("less-specific-wc-hostname-x-3", {"abc": "tls-backend", "other": "tls-backend-2"}, "non.matching.com"),
            ("empty-hostname-x-4", {"abc": "tls-backend", "other": "tls-backend-2"}, "non.matching.org")):
        addr = s.addr("gw-tlsroute-" + gateway, 443)
        s.expect(addr, *(Expect(host=f"{name}.example.com", tls=Tls(f"{name}.example.com", cert), backend=backend)
                         for name, backend in names.items()))
        closed(addr, Tls(miss), f"{gateway} to refuse {miss}")


@case("TLSRouteInvalidNoMatchingListener")
def tls_no_listener(s):
    s.gateways_ready()
    for protocol in ("http", "https"):
        s.refused_route("TLSRoute", f"tlsroute-not-allowed-protocol-{protocol}", "Accepted", "NotAllowedByListeners")
        s.listeners(f"gateway-tlsroute-{protocol}-only", {protocol: {"attached": 0}})
    s.refused_route("TLSRoute", "tlsroute-no-matching-section-name", "Accepted", "NoMatchingParent")
    s.listeners("gateway-tlsroute-tls-passthrough-only", {"tls-passthrough": {"attached": 0}})


@case("TLSRouteInvalidNoMatchingListenerHostname")
def tls_no_hostname(s):
    s.gateways_ready()
    for i, gateway in ((1, "gateway-tls-exact-hostname"), (2, "gateway-tls-wildcard-hostname")):
        s.refused_route("TLSRoute", f"tlsroute-hostname-mismatch-{i}", "Accepted", "NoMatchingListenerHostname")
        s.listeners(gateway, {"tls": {"attached": 0}})


def tls_bad_backend(s, route, gateway, reason, host="example.com"):
    s.gateways_ready()
    s.refused_route("TLSRoute", route, "ResolvedRefs", reason)
    closed(s.addr(gateway, 443), Tls(host))


@case("TLSRouteInvalidBackendRefNonexistent")
def tls_no_backend(s):
    tls_bad_backend(s, "invalid-backend-ref-nonexistent", "gateway-tlsroute-invalid-backend-ref-nonexistent",
                    "BackendNotFound")


@case("TLSRouteInvalidBackendRefUnknownKind")
def tls_unknown_kind(s):
    tls_bad_backend(s, "invalid-backend-ref-unknown-kind", "gateway-tlsroute-invalid-backend-ref-unknown-kind",
                    "InvalidKind")


@case("TLSRouteInvalidReferenceGrant")
def tls_invalid_grant(s):
    tls_bad_backend(s, "gateway-conformance-infra-test", "gateway-tlsroute-referencegrant", "RefNotPermitted",
                    "abc.example.com")


@case("TLSRouteListenerPassthroughSupportedKinds")
def tls_passthrough_kinds(s):
    s.listeners("gateway-tlsroute-passthrough-supported-kind", {"tls-passthrough": {
        "ResolvedRefs": ("False", "InvalidRouteKinds"), "kinds": ["TLSRoute"]}})


@case("TLSRouteListenerTerminateSupportedKinds")
def tls_terminate_kinds(s):
    s.gateways_ready()
    s.listeners("gateway-tlsroute-terminate-supported", {"tls-terminate": {**GOOD, "kinds": ["TLSRoute"]}})


@case("TLSRouteListenerTerminateNotSupported")
def tls_terminate_unsupported(s):
    s.listeners("gateway-tlsroute-terminate-unsupported", {"tls-terminate": {
        "Accepted": ("False", "UnsupportedValue")}})


@case("TLSRouteListenerMixedTerminationNotSupported")
def tls_mixed_unsupported(s):
    s.listeners("gateway-tlsroute-mixed-termination-not-supported", {
        name: {"Accepted": ("False", "ProtocolConflict")} for name in ("tls-terminate", "tls-passthrough")})


@case("TLSRouteTerminateSimpleSameNamespace")
def tls_terminate(s):
    s.ready()
    tls = Tls("tls.example.com", pair(s, "tls-terminate-checks-certificate"))
    tls_echo(s.addr("gateway-tlsroute-terminate", 8443), tls, "tcp-backend", False)


@case("TLSRouteMixedTerminationSameNamespace")
def tls_mixed(s):
    s.ready()
    addr = s.addr("gateway-tlsroute-mixed-termination", 8883)
    tls_echo(addr, Tls("abc.example.com", pair(s, "tls-passthrough-checks-certificate")), "tcp-backend", True)
    tls_echo(addr, Tls("tls.example.com", pair(s, "tls-terminate-checks-certificate")), "tcp-backend", False)


# --- what TCP and UDP have in common ---
def reaches(ask, addr, backend, namespace=INFRA):
    def attempt():
        got = ask(addr)
        assert is_backend(got["pod"], backend) and got["namespace"] == namespace, got
    eventually(attempt, f"{addr} to reach {backend}")


def multiple_routes(s, kind, gateway, listener, port, ask):
    """Both are attached, the oldest has the traffic."""
    s.ready()
    prefix = kind.lower() + "-attach-"
    older = s.cluster.get(kind, prefix + "older", INFRA)
    reaches(udp_context if kind == "UDPRoute" else ask, s.addr(gateway, port), f"{kind[:3].lower()}-attach-backend-1")
    time.sleep(1.1)  # creation times are whole seconds
    backend = dict(older["spec"]["rules"][0]["backendRefs"][0], name=f"{kind[:3].lower()}-attach-backend-2")
    newer = {"apiVersion": older["apiVersion"], "kind": kind,
             "metadata": {"name": prefix + "newer", "namespace": INFRA},
             "spec": {**older["spec"], "rules": [{"backendRefs": [backend]}]}}
    s.documents.append(newer)
    s.cluster.create([newer])
    s.ready()
    s.listeners(gateway, {listener: {**GOOD, "attached": 2}})
    addr = s.addr(gateway, port)
    pods = {ask(addr)["pod"] for _ in range(100)}
    assert all(is_backend(p, f"{kind[:3].lower()}-attach-backend-1") for p in pods), pods


def weighted(s, kind, gateway, ask):
    s.ready()
    addr = s.addr(gateway, 9300 if kind == "tcp" else 5300)
    eventually(lambda: (udp_context if kind == "udp" else ask)(addr), "the first answer")
    s.weights(lambda n: [ask(addr)["pod"] for _ in range(n)],
              {f"{kind}-backend-v1": 0.7, f"{kind}-backend-v2": 0.3, f"{kind}-backend-v3": 0})


# --- TCPRoute ---
@case("TCPRouteParentRefAttachAll")
def tcp_all(s):
    s.ready()
    s.listeners("tcp-attach-all-gateway", {n: {**GOOD, "kinds": ["TCPRoute"], "attached": 1}
                                           for n in ("one", "two", "three", "four")})
    for port in range(9310, 9314):
        reaches(tcp_context, s.addr("tcp-attach-all-gateway", port), "tcp-echo-attach-all")


@case("TCPRouteParentRefPortAndSectionName")
def tcp_sections(s):
    s.ready()
    names = ("one", "two", "three")
    s.listeners("tcp-multi-listener-gateway", {n: {**GOOD, "attached": 1} for n in names})
    for i, name in enumerate(names):
        reaches(tcp_context, s.addr("tcp-multi-listener-gateway", 9300 + i), f"tcp-echo-{name}")


@case("TCPRouteMultipleRoutesAttachment")
def tcp_two_routes(s):
    multiple_routes(s, "TCPRoute", "tcp-multi-route-attach-gateway", "tcp", 9310, tcp_context)


@case("TCPRouteWeightedRouting")
def tcp_weights(s):
    weighted(s, "tcp", "tcp-weighted-gateway", tcp_context)


@case("TCPRouteReferenceGrant")
def tcp_grant(s):
    s.ready()
    addr = s.addr("tcp-reference-grant-gateway", 9320)
    reaches(tcp_context, addr, "tcp-reference-grant-backend", WEB)
    s.cluster.delete("ReferenceGrant", "tcp-reference-grant", WEB)
    s.refused_route("TCPRoute", "tcp-reference-grant", "ResolvedRefs", "RefNotPermitted")
    closed(addr)


@case("TCPRouteInvalidBackendRefNonexistent")
def tcp_no_backend(s):
    s.gateways_ready()
    s.refused_route("TCPRoute", "tcp-route-invalid-backend-ref-nonexistent", "ResolvedRefs", "BackendNotFound")
    closed(s.addr("tcp-gateway-invalid-backend", 9300))


@case("TCPRouteInvalidCrossNamespaceBackendRef")
def tcp_no_grant(s):
    s.gateways_ready()
    s.refused_route("TCPRoute", "tcp-invalid-cross-namespace-backend-ref", "ResolvedRefs", "RefNotPermitted")
    closed(s.addr("tcp-invalid-cross-namespace-backend-ref-gateway", 9321))


@case("TCPRouteInvalidNonTCPListener")
def tcp_other_listener(s):
    s.gateways_ready()
    s.route("TCPRoute", "tcp-route", {"Accepted": ("False", "NotAllowedByListeners"),
                                      "ResolvedRefs": ("False", "BackendNotFound")})
    s.listeners("tcp-mixed-protocol-gateway", {"only-allow-http-routes": {"kinds": ["HTTPRoute"], "attached": 0}})


# --- UDPRoute ---
@case("UDPRoute")
def udp_dns(s):
    s.ready()
    addr = s.addr("udp-gateway", 5300)
    question = b"".join(bytes([len(p)]) + p for p in (b"foo", b"bar", b"com")) + b"\0\0\1\0\1"

    def attempt():
        got = udp_ask(addr, struct.pack(">6H", 4711, 0x0100, 1, 0, 0, 0) + question)
        number, flags, asked, _, _, more = struct.unpack(">6H", got[:12])
        assert (number, flags & 0x800f, asked) == (4711, 0x8000, 1) and more > 0, got
        assert got[12:12 + len(question)] == question, got

    eventually(attempt, "the DNS answer")


@case("UDPRouteParentRefAttachAllListeners")
def udp_all(s):
    s.ready()
    gateway = "udp-attach-all-listeners-gateway"
    s.listeners(gateway, {f"udp-{i}": {**GOOD, "kinds": ["UDPRoute"], "attached": 1} for i in (1, 2, 3)})
    for port in (5310, 5311, 5312):
        reaches(udp_context, s.addr(gateway, port), "udp-echo-attach-all")


@case("UDPRouteParentRefPortAndSectionName")
def udp_sections(s):
    s.ready()
    names = ("by-port", "by-section", "by-section-and-port")
    s.listeners("udp-multi-listener-gateway", {n: {**GOOD, "attached": 1} for n in names})
    for i, name in enumerate(names):
        reaches(udp_context, s.addr("udp-multi-listener-gateway", 5300 + i), f"udp-echo-{name}")


@case("UDPRouteMultipleRoutesAttachment")
def udp_two_routes(s):
    multiple_routes(s, "UDPRoute", "udp-multi-route-attach-gateway", "udp", 5301,
                    functools.partial(udp_context, timeout=PATIENCE))


@case("UDPRouteWeightedRouting")
def udp_weights(s):
    weighted(s, "udp", "udp-weighted-gateway", functools.partial(udp_context, timeout=PATIENCE))


@case("UDPRouteReferenceGrant")
def udp_grant(s):
    s.ready()
    space = "gateway-conformance-app-backend"
    addr = s.addr("udp-gateway-reference-grant", 5300)
    reaches(udp_context, addr, "udp-echo-reference-grant", space)
    s.cluster.delete("ReferenceGrant", "udp-reference-grant", space)
    s.refused_route("UDPRoute", "udp-route-reference-grant", "ResolvedRefs", "RefNotPermitted")
    silent(addr)


def silent(addr):
    """Datagrams are dropped."""
    def attempt():
        with contextlib.suppress(socket.timeout, ConnectionRefusedError):
            got = udp_ask(addr, b"anybody?", 0.3)
            raise AssertionError(f"answered {got[:100]!r}")
    eventually(attempt, "silence")


@case("UDPRouteInvalidBackendRefNonexistent")
def udp_no_backend(s):
    s.gateways_ready()
    s.refused_route("UDPRoute", "udp-route-invalid-backend-ref-nonexistent", "ResolvedRefs", "BackendNotFound")
    silent(s.addr("udp-gateway-invalid-backend", 5300))


@case("UDPRouteInvalidCrossNamespaceBackendRef")
def udp_no_grant(s):
    s.gateways_ready()
    s.refused_route("UDPRoute", "udp-route-invalid-cross-namespace-backend-ref", "ResolvedRefs", "RefNotPermitted")
    silent(s.addr("udp-gateway-invalid-cross-namespace-backend-ref", 5300))


@case("UDPRouteNotAllowedByListeners")
def udp_other_listener(s):
    s.gateways_ready()
    s.refused_route("UDPRoute", "udproute-not-allowed-by-listeners", "Accepted", "NotAllowedByListeners")
    s.listeners("udproute-tls-only-gateway", {"tls": {"attached": 0}})
