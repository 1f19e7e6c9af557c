# SPDX-License-Identifier: Apache-2.0
"""HTTPRoute, core."""
import http.client

from .cases_gateway import GOOD, server
from .credentials import INFRA, WEB
from .registry import registry
from .traffic import Expect, Tls, eventually, send

CASES, case = registry()
V1, V2, V3 = "infra-backend-v1", "infra-backend-v2", "infra-backend-v3"


@case("HTTPRouteSimpleSameNamespace")
def simple(s):
    s.ready()
    s.expect(s.addr("same-namespace"), Expect(backend=V1))


@case("HTTPRouteCrossNamespace")
def cross_namespace(s):
    s.ready()
    s.expect(s.addr("backend-namespaces"), Expect(backend="web-backend", namespace=WEB))


@case("HTTPRouteExactPathMatching")
def exact_path(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        /one -> infra-backend-v1
        /two -> infra-backend-v2
        /     -> 404
        /one/example -> 404
        /two/     -> 404
        /Two -> 404
    """)


@case("HTTPRouteHeaderMatching")
def header_matching(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        / Version:one -> infra-backend-v1
        / Version:two -> infra-backend-v2
        / version:two color:orange -> infra-backend-v1
        / Color:blue -> infra-backend-v1
        / Color:green -> infra-backend-v1
        / Color:red -> infra-backend-v2
        / Color:yellow -> infra-backend-v2
        / Color:orange -> 404
        / Color:purple -> 404
        / Some-Other-Header:one -> 404
    """)


@case("HTTPRouteMatching")
def matching(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        / -> infra-backend-v1
        /example -> infra-backend-v1
        / Version:one -> infra-backend-v1
        /v2 -> infra-backend-v2
        /v2example -> infra-backend-v1
        / Version:two -> infra-backend-v2
        /v2/ -> infra-backend-v2
        /v2/example -> infra-backend-v2
        /foo/v2/example -> infra-backend-v1
    """)


@case("HTTPRouteMatchingAcrossRoutes")
def matching_across(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        example.com/ -> infra-backend-v1
        example.com/example -> infra-backend-v1
        example.net/example -> infra-backend-v1
        example.com/example Version:one -> infra-backend-v1
        example.com/v2 -> infra-backend-v2
        example.com/v2example -> infra-backend-v1
        example.com/foo/v2/example -> infra-backend-v1
        example.com/ Version:two -> infra-backend-v2
        example.net/v2 -> infra-backend-v1
    """)


@case("HTTPRoutePathMatchOrder")
def path_order(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        /match/exact/one -> infra-backend-v3
        /match/exact -> infra-backend-v2
        /match -> infra-backend-v1
        /match/prefix/one/any -> infra-backend-v2
        /match/prefix/any -> infra-backend-v1
        /match/any -> infra-backend-v3
    """)


@case("HTTPRouteHostnameIntersection")
def hostname_intersection(s):
    s.ready("no-intersecting-hosts")
    gateway = "httproute-hostname-intersection"
    s.gets(s.addr(gateway), """
        very.specific.com/s1 -> infra-backend-v1
        very.specific.com:1234/s1 -> infra-backend-v1
        non.matching.com/s1 -> 404
        foo.nonmatchingwildcard.io/s1 -> 404
        foo.wildcard.io/s1 -> 404
        very.specific.com/non-matching-prefix -> 404
        foo.wildcard.io/s2 -> infra-backend-v2
        bar.wildcard.io/s2 -> infra-backend-v2
        foo.bar.wildcard.io/s2 -> infra-backend-v2
        non.matching.com/s2 -> 404
        wildcard.io/s2 -> 404
        very.specific.com/s2 -> 404
        foo.wildcard.io/non-matching-prefix -> 404
        very.specific.com/s3 -> infra-backend-v3
        non.matching.com/s3 -> 404
        foo.specific.com/s3 -> 404
        foo.wildcard.io/s3 -> 404
        foo.anotherwildcard.io/s4 -> infra-backend-v1
        bar.anotherwildcard.io/s4 -> infra-backend-v1
        foo.bar.anotherwildcard.io/s4 -> infra-backend-v1
        anotherwildcard.io/s4 -> 404
        foo.wildcard.io/s4 -> 404
        very.specific.com/s4 -> 404
        foo.anotherwildcard.io/non-matching-prefix -> 404
        specific.but.wrong.com/s5 -> 404
        wildcard.io/s5 -> 404
    """)
    s.refused_route("HTTPRoute", "no-intersecting-hosts", "Accepted", "NoMatchingListenerHostname")
    s.listeners(gateway, {f"listener-{i}": {**GOOD, "attached": n} for i, n in ((1, 2), (2, 1), (3, 1))})
    s.gets(s.addr(gateway + "-all"), """
        first.com/ -> infra-backend-v2
        sub.first.com/ -> infra-backend-v2
        second.com/ -> infra-backend-v2
        sub.second.com/ -> infra-backend-v2
        third.com/ -> 404
        sub.third.com/ -> 404
    """)


@case("HTTPRouteListenerHostnameMatching")
def listener_hostnames(s):
    s.ready()
    s.gets(s.addr("httproute-listener-hostname-matching"), """
        bar.com/ -> infra-backend-v1
        foo.bar.com/ -> infra-backend-v2
        baz.bar.com/ -> infra-backend-v3
        boo.bar.com/ -> infra-backend-v3
        multiple.prefixes.bar.com/ -> infra-backend-v3
        multiple.prefixes.foo.com/ -> infra-backend-v3
        foo.com/ -> 404
        no.matching.host/ -> 404
    """)


@case("HTTPRouteHTTPSListener")
def https_listener(s):
    s.ready()
    addr = s.addr("same-namespace-with-https-listener", 443)

    def tls(name, alpn="http/1.1"):
        return Tls(name, server(s), alpn=(alpn,))

    s.expect(addr,
             Expect(host="example.org", tls=tls("example.org"), backend=V1),
             Expect(host="example.org", tls=tls("example.org", "h2"), backend=V1, echo=True),
             Expect(host="second-example.org", tls=tls("second-example.org"), backend=V2),
             Expect(host="unknown-example.org", tls=tls("unknown-example.org"), status=404))


@case("HTTPRouteMultipleGateways")
def multiple_gateways(s):
    s.ready()
    for gateway, own in (("same-namespace", V2), ("all-namespaces", V3)):
        s.expect(s.addr(gateway), Expect("/shared", backend=V1), Expect("/same-namespace", backend=own),
                 Expect("/", backend=own))


@case("HTTPRouteDisallowedKind")
def disallowed_kind(s):
    s.gateways_ready()
    s.refused_route("HTTPRoute", "disallowed-kind", "Accepted", "NotAllowedByListeners")
    s.listeners("tlsroutes-only", {"tls": {**GOOD, "kinds": ["TLSRoute"], "attached": 0}})


@case("HTTPRouteInvalidCrossNamespaceParentRef")
def invalid_parent_namespace(s):
    s.refused_route("HTTPRoute", "invalid-cross-namespace-parent-ref", "Accepted", "NotAllowedByListeners", WEB)
    s.listeners("same-namespace", {"http": {"attached": 0}})
    s.expect(s.addr("same-namespace"), Expect(status=404))


@case("HTTPRouteInvalidParentRefNotMatchingSectionName")
def invalid_section(s):
    s.refused_route("HTTPRoute", "httproute-listener-not-matching-section-name", "Accepted", "NoMatchingParent")
    s.listeners("same-namespace", {"http": {"attached": 0}})


def bad_backend(s, name, reason):
    s.refused_route("HTTPRoute", name, "ResolvedRefs", reason)
    s.expect(s.addr("same-namespace"), Expect(status=500))


@case("HTTPRouteInvalidBackendRefUnknownKind")
def invalid_backend_kind(s):
    bad_backend(s, "invalid-backend-ref-unknown-kind", "InvalidKind")


@case("HTTPRouteInvalidNonExistentBackendRef")
def invalid_backend_name(s):
    bad_backend(s, "invalid-nonexistent-backend-ref", "BackendNotFound")


@case("HTTPRouteInvalidCrossNamespaceBackendRef")
def invalid_backend_namespace(s):
    bad_backend(s, "invalid-cross-namespace-backend-ref", "RefNotPermitted")


@case("HTTPRouteInvalidReferenceGrant")
def invalid_grant(s):
    bad_backend(s, "reference-grant", "RefNotPermitted")


@case("HTTPRoutePartiallyInvalidViaInvalidReferenceGrant")
def partially_granted(s):
    s.refused_route("HTTPRoute", "invalid-reference-grant", "ResolvedRefs", "RefNotPermitted")
    s.expect(s.addr("same-namespace"), Expect("/v2", status=500),
             Expect("/", backend="app-backend-v1", namespace="gateway-conformance-app-backend"))


@case("HTTPRouteReferenceGrant")
def grant(s):
    s.ready()
    s.expect(s.addr("same-namespace"), Expect(backend="web-backend", namespace=WEB))
    s.cluster.delete("ReferenceGrant", "reference-grant", WEB)
    bad_backend(s, "reference-grant", "RefNotPermitted")


@case("HTTPRouteNoBackendRefs")
def no_backends(s):
    s.ready()
    s.expect(s.addr("same-namespace"), Expect("/omitted-no-forward", status=500),
             Expect("/empty-no-forward", status=500), Expect("/", backend=V1))


@case("HTTPRouteObservedGenerationBump")
def generation(s):
    s.ready()
    before = s.cluster.get("HTTPRoute", "observed-generation-bump", INFRA)["metadata"]["generation"]
    changed = s.cluster.patch("HTTPRoute", "observed-generation-bump", INFRA, [
        {"op": "replace", "path": "/spec/rules/0/backendRefs/0/name", "value": V2}])
    assert changed["metadata"]["generation"] == before + 1
    s.ready()
    s.expect(s.addr("same-namespace"), Expect(backend=V2))


@case("HTTPRouteRedirectHostAndStatus")
def redirect_host(s):
    s.ready()
    s.expect(s.addr("same-namespace"),
             Expect("/hostname-redirect", status=302, redirect={"host": "example.org"}),
             Expect("/host-and-status", status=301, redirect={"host": "example.org"}))


def modifier_cases():
    many = {f"X-Header-{a}": f"{b}-val-{a[-1]}" for a, b in (
        ("Set-2", "set"), ("Add-2", "add"), ("Remove-1", "remove"), ("Remove-2", "remove"))}
    return (
        Expect("/set", headers={"Some-Other-Header": "val"},
               seen={"Some-Other-Header": "val", "X-Header-Set": "set-overwrites-values"}, backend=V1),
        Expect("/set", headers={"Some-Other-Header": "val", "X-Header-Set": "some-other-value"},
               seen={"Some-Other-Header": "val", "X-Header-Set": "set-overwrites-values"}, backend=V1),
        Expect("/add", headers={"Some-Other-Header": "val"},
               seen={"Some-Other-Header": "val", "X-Header-Add": "add-appends-values"}, backend=V1),
        Expect("/add", headers={"Some-Other-Header": "val", "X-Header-Add": "some-other-value"},
               seen={"Some-Other-Header": "val", "X-Header-Add": "some-other-value,add-appends-values"}, backend=V1),
        Expect("/remove", headers={"X-Header-Remove": "val"}, seen={}, unseen=["X-Header-Remove"], backend=V1),
        Expect("/multiple", headers={**many, "Another-Header": "another-header-val"}, backend=V1,
               seen={"X-Header-Set-1": "header-set-1", "X-Header-Set-2": "header-set-2",
                     "X-Header-Add-1": "header-add-1", "X-Header-Add-2": "add-val-2,header-add-2",
                     "X-Header-Add-3": "header-add-3", "Another-Header": "another-header-val"},
               unseen=["X-Header-Remove-1", "X-Header-Remove-2"]),
        Expect("/case-insensitivity", backend=V1,
               headers={"x-header-set": "original-val-set", "x-header-add": "original-val-add",
                        "x-header-remove": "original-val-remove", "Another-Header": "another-header-val"},
               seen={"X-Header-Set": "header-set", "X-Header-Add": "original-val-add,header-add",
                     "Another-Header": "another-header-val"}, unseen=["x-header-remove", "X-Header-Remove"]))


@case("HTTPRouteRequestHeaderModifier")
def header_modifier(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *modifier_cases())


@case("HTTPRouteServiceTypes")
def service_types(s):
    pods = s.cluster.pods_of(INFRA, {"app": V1})
    for name in ("manual-endpointslices-ip4", "headless-manual-endpointslices-ip4"):
        s.cluster.patch("EndpointSlice", name, INFRA, {"endpoints": [
            {"addresses": [p["ip"]], "conditions": {"ready": True}} for p in pods]})
    s.ready()
    s.expect(s.addr("same-namespace"), *(Expect(path, backend=V1) for path in (
        "/manual-endpointslices", "/headless", "/headless-manual-endpointslices")))


def pods_by_http(addr):
    """A function that sends so many requests and returns the pods that answered."""
    def once(total):
        link = http.client.HTTPConnection(*addr)
        try:
            return [send(addr, link=link).echo["pod"] for _ in range(total)]
        finally:
            link.close()
    return once


@case("HTTPRouteWeight")
def weight(s):
    s.ready()
    once = pods_by_http(s.addr("same-namespace"))
    eventually(lambda: once(1), "the first request")
    s.weights(once, {V1: 0.7, V2: 0.3, V3: 0})
