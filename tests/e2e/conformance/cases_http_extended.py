# SPDX-License-Identifier: Apache-2.0
"""HTTPRoute, extended features."""
import concurrent.futures
import http.client
import math
import time
import uuid

from .cases_gateway import server
from .cases_http import V1, V2, V3, modifier_cases
from .credentials import INFRA
from .registry import registry
from .traffic import Expect, Tls, eventually, is_backend, send

CASES, case = registry()

# What a rule with these modifiers does to a request.
MODIFIED = {
    "headers": {"X-Header-Remove": "remove-val", "X-Header-Add-Append": "append-val-1", "X-Header-Set": "set-val"},
    "seen": {"X-Header-Add": "header-val-1", "X-Header-Add-Append": "append-val-1,header-val-2",
             "X-Header-Set": "set-overwrites-values"},
    "unseen": ["X-Header-Remove"],
}


# --- redirects ---
def plain_redirect(path, status):
    def run(s):
        s.ready()
        s.expect(s.addr("same-namespace"), Expect(path, status=status, redirect={}))
    return run


case("HTTPRoute303Redirect")(plain_redirect("/see-other", 303))
case("HTTPRoute307Redirect")(plain_redirect("/temporary", 307))
case("HTTPRoute308Redirect")(plain_redirect("/permanent", 308))


@case("HTTPRouteRedirectPath")
def redirect_path(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *(
        Expect(path, status=status, redirect={"path": to, **more}) for path, status, to, more in (
            ("/original-prefix/lemon", 302, "/replacement-prefix/lemon", {}),
            ("/full/path/original", 302, "/full-path-replacement", {}),
            ("/path-and-host", 302, "/replacement-prefix", {"host": "example.org"}),
            ("/path-and-status", 301, "/replacement-prefix", {}),
            ("/full-path-and-host", 302, "/replacement-full", {"host": "example.org"}),
            ("/full-path-and-status", 301, "/replacement-full", {}))))


@case("HTTPRouteRedirectPort")
def redirect_port(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *(
        Expect(path, status=status, redirect={"port": 8083, **more}) for path, status, more in (
            ("/port", 302, {}), ("/port-and-host", 302, {"host": "example.org"}), ("/port-and-status", 301, {}),
            ("/port-and-host-and-status", 302, {"host": "example.org"}))))


@case("HTTPRouteRedirectPortAndScheme")
def redirect_port_and_scheme(s):
    s.ready()

    def cases(scheme, *table, **more):
        return (Expect(f"/scheme-{a}-and-port-{b}", status=302, **more, redirect={
            "scheme": scheme if a == "nil" else a, "host": "example.org", "port": port}) for a, b, port in table)

    s.expect(s.addr("same-namespace"), *cases(
        "http", ("nil", "nil", None), ("nil", 80, None), ("nil", 8080, 8080), ("https", "nil", None),
        ("https", 443, None), ("https", 8443, 8443)))
    s.expect(s.addr("same-namespace-with-http-listener-on-8080", 8080), *cases(
        "http", ("nil", "nil", 8080), ("nil", 80, None), ("https", "nil", None)))
    s.expect(s.addr("same-namespace-with-https-listener", 443), *cases(
        "https", ("nil", "nil", None), ("nil", 443, None), ("nil", 8443, 8443), ("http", "nil", None),
        ("http", 80, None), ("http", 8080, 8080), host="example.org", tls=Tls("example.org", server(s))))


@case("HTTPRouteRedirectScheme")
def redirect_scheme(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *(
        Expect(path, status=status, redirect={"scheme": "https", **more}) for path, status, more in (
            ("/scheme", 302, {}), ("/scheme-and-host", 302, {"host": "example.org"}),
            ("/scheme-and-status", 301, {}), ("/scheme-and-host-and-status", 302, {"host": "example.org"}))))


# --- rewrites ---
@case("HTTPRouteRewriteHost")
def rewrite_host(s):
    s.ready()
    s.expect(s.addr("same-namespace"),
             Expect("/one", host="rewrite.example", seen_host="one.example.org", backend=V1),
             Expect("/two", host="rewrite.example", seen_host="example.org", backend=V2),
             Expect("/rewrite-host-and-modify-headers", host="rewrite.example", seen_host="test.example.org",
                    backend=V2, **MODIFIED))


@case("HTTPRouteRewritePath")
def rewrite_path(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *(
        Expect(path, seen_path=seen, backend=V1, **more) for path, seen, more in (
            ("/prefix/one/two", "/one/two", {}), ("/strip-prefix/three", "/three", {}),
            ("/strip-prefix", "/", {}), ("/strip-prefix/", "/", {}), ("/prefix/one", "/one", {}),
            ("/prefix/one/", "/one/", {}), ("/prefix/one/two?a=b", "/one/two?a=b", {}),
            ("/full/one/two", "/one", {}), ("/full/rewrite-path-and-modify-headers/test", "/test", MODIFIED),
            ("/prefix/rewrite-path-and-modify-headers/one", "/prefix/one", MODIFIED))))


# --- matches ---
@case("HTTPRouteMethodMatching")
def methods(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        POST / -> infra-backend-v1
        GET / -> infra-backend-v2
        HEAD / -> 404
        DELETE / -> 404
        GET /path1 -> infra-backend-v1
        PUT / version:one -> infra-backend-v2
        POST /path2 version:two -> infra-backend-v3
        PUT / -> 404
        PATCH /path3 -> infra-backend-v1
        DELETE /path4 version:three -> infra-backend-v1
        DELETE /path4 -> 404
        PATCH /path5 -> infra-backend-v1
        PATCH / version:four -> infra-backend-v2
    """)


@case("HTTPRouteQueryParamMatching")
def query_params(s):
    s.ready()
    s.gets(s.addr("same-namespace"), """
        /?animal=whale -> infra-backend-v1
        /?animal=dolphin -> infra-backend-v2
        /?animal=dolphin&color=blue -> infra-backend-v3
        /?ANIMAL=Whale -> infra-backend-v3
        /?animal=whale&otherparam=irrelevant -> infra-backend-v1
        /?animal=dolphin&color=yellow -> infra-backend-v2
        /?color=blue -> 404
        /?animal=dog -> 404
        /?animal=whaledolphin -> 404
        / -> 404
        /path1?animal=whale -> infra-backend-v1
        /?animal=whale version:one -> infra-backend-v2
        /path2?animal=whale version:two -> infra-backend-v3
        /path3?animal=shark -> infra-backend-v1
        /path4?animal=kraken version:three -> infra-backend-v1
        /?animal=shark -> 404
        /path4?animal=kraken -> 404
        /path5?animal=hydra -> infra-backend-v1
        /?animal=hydra version:four -> infra-backend-v3
    """)


# --- headers ---
@case("HTTPRouteResponseHeaderModifier")
def response_headers(s):
    s.ready()

    def one(path, backend_sets, answer, absent=(), **more):
        asked = {"X-Echo-Set-Header": ",".join(backend_sets)} if backend_sets else {}
        return Expect(path, headers={**asked, **more.pop("headers", {})}, seen=more.pop("seen", {}),
                      answer=answer, answer_absent=absent, backend=V1, **more)

    both = {"X-Header-Set-1": "header-set-1", "X-Header-Set-2": "header-set-2", "X-Header-Add-1": "header-add-1",
            "X-Header-Add-2": "add-val-2,header-add-2", "Another-Header": "another-header-val"}
    sets = ("X-Header-Set-2:set-val-2", "X-Header-Add-2:add-val-2", "X-Header-Remove-1:val", "X-Header-Remove-2:val",
            "Another-Header:another-header-val")
    gone = ("X-Header-Remove-1", "X-Header-Remove-2")
    s.expect(s.addr("same-namespace"),
             one("/set", ("Some-Other-Header:val",),
                 {"Some-Other-Header": "val", "X-Header-Set": "set-overwrites-values"}),
             one("/set", ("Some-Other-Header:val", "X-Header-Set:some-other-value"),
                 {"Some-Other-Header": "val", "X-Header-Set": "set-overwrites-values"}),
             one("/add", ("Some-Other-Header:val",),
                 {"Some-Other-Header": "val", "X-Header-Add": "add-appends-values"}),
             one("/add", ("Some-Other-Header:val", "X-Header-Add:some-other-value"),
                 {"Some-Other-Header": "val", "X-Header-Add": "some-other-value,add-appends-values"}),
             one("/remove", ("X-Header-Remove:val",), {}, ("X-Header-Remove",)),
             one("/multiple", sets, {**both, "X-Header-Add-3": "header-add-3"}, gone),
             one("/case-insensitivity",
                 ("x-header-set:original-val-set", "x-header-add:original-val-add", "x-header-remove:val",
                  "Another-Header:another-header-val"),
                 {"X-Header-Set": "header-set", "X-Header-Add": "original-val-add,header-add",
                  "x-lowercase-add": "lowercase-add", "X-Mixedcase-Add-1": "mixedcase-add-1",
                  "X-Mixedcase-Add-2": "mixedcase-add-2", "X-Uppercase-Add": "uppercase-add",
                  "Another-Header": "another-header-val"}, ("X-Header-Remove",)),
             one("/response-and-request-header-modifiers", sets, both, gone, **MODIFIED))


@case("HTTPRouteBackendRequestHeaderModifier")
def backend_headers(s):
    s.ready()
    s.expect(s.addr("same-namespace"), *modifier_cases())


@case("HTTPRouteRequestHeaderModifierBackendWeights")
def backend_header_weights(s):
    s.ready()
    addr, seen = s.addr("same-namespace"), set()

    def attempt():
        echo = send(addr, headers={"Backend": "nobody"}).echo
        told = echo["headers"].get("Backend")
        assert told and is_backend(echo["pod"], told[0]) and len(told) == 1, f"{echo['pod']} saw {told}"
        seen.add(told[0])

    eventually(attempt, "the header of the backend", consecutive=60)
    assert seen == {V1, V2}, seen


# --- mirrors ---
def mirrored(s, addr, path, targets, **more):
    """Each target logs the request, besides the backend that answers."""
    mark = f"?n={uuid.uuid4().hex[:8]}"
    s.expect(addr, Expect(path + mark, backend=V1, **more))
    for name in targets:
        def check(name=name):
            n = s.cluster.logged(INFRA, name, f"Echoing back request made to {path}{mark} to client")
            assert n > 0, f"no mirror of {path} in the log of {name}"
        s.until(check, f"mirror to {name}")


@case("HTTPRouteRequestMirror")
def mirror(s):
    s.ready()
    addr = s.addr("same-namespace")
    mirrored(s, addr, "/mirror", [V2])
    mirrored(s, addr, "/mirror-and-modify-headers", [V2], **MODIFIED)


@case("HTTPRouteRequestMultipleMirrors")
def mirrors(s):
    s.ready()
    addr = s.addr("same-namespace")
    mirrored(s, addr, "/multi-mirror", [V2, V3])
    mirrored(s, addr, "/multi-mirror-and-modify-request-headers", [V2, V3], **MODIFIED)


@case("HTTPRouteRequestPercentageMirror")
def percentage_mirror(s):
    s.ready()
    addr, total = s.addr("same-namespace"), 500
    for path, share, more in (("/percent-mirror", 0.2, {}), ("/percent-mirror-fraction", 0.5, {}),
                              ("/percent-mirror-and-modify-headers", 0.35, MODIFIED)):
        s.expect(addr, Expect(path, backend=V1, **more))
        # Four standard deviations: a right answer fails once in 15,000 runs, and may then try again.
        band = 4 * math.sqrt(total * share * (1 - share))
        for left in (2, 1, 0):
            mark = f"?n={uuid.uuid4().hex[:8]}"
            many(addr, path + mark, total)
            count = settled(lambda p=path + mark: s.cluster.logged(
                INFRA, V2, f"Echoing back request made to {p} to client"))
            if abs(count - total * share) <= band:
                break
            assert left, f"{path}: {count} of {total} mirrored, expected {total * share:g} +- {band:.0f}"


def settled(count):
    """What it is when it has not changed for a while."""
    was, now = None, count()
    while now != was:
        time.sleep(0.3)
        was, now = now, count()
    return now


def many(addr, path, total):
    link = http.client.HTTPConnection(*addr)
    for _ in range(total):
        assert send(addr, path, link=link).status == 200
    link.close()


# --- time ---
def timeouts(s, path, disabled):
    """
    Answers in time pass, late ones are 504, and 0s means that late ones pass too. The slow
    requests run side by side.
    """
    s.ready()
    addr = s.addr("same-namespace")
    s.expect(addr, Expect(path, backend=V1))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda c: c.run(addr), (Expect(path + "?delay=30s", status=504),
                                             Expect(disabled + "?delay=1s", backend=V1))))


@case("HTTPRouteTimeoutRequest")
def request_timeout(s):
    timeouts(s, "/request-timeout", "/disable-request-timeout")


@case("HTTPRouteTimeoutBackendRequest")
def backend_timeout(s):
    timeouts(s, "/backend-timeout", "/disable-backend-timeout")


@case("HTTPRouteRetry")
def retry(s):
    s.ready()
    addr = s.addr("same-namespace")
    some, every = "/retry/code-500-attempts-3", "/retry/code-all-attempts-2"

    def one(path, code, failures, status):
        def attempt():
            query = f"?responseCode={code}&succeedAfter={failures}&uuid={uuid.uuid4()}"
            Expect(path + query, status=status, backend=V3).attempt(addr)
        eventually(attempt, f"{path} with {failures} times {code}")

    one(some, 500, 2, 200)
    one(some, 500, 4, 500)
    one(some, 503, 2, 503)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda a: one(*a), [(every, code, n, status or code) for code in (500, 502, 503, 504)
                                         for n, status in ((1, 200), (3, None))]))


# --- listeners and parents ---
@case("HTTPRouteListenerPortMatching")
def listener_ports(s):
    s.ready()
    for port, table in ((80, "foo.com/ -> infra-backend-v1\n bar.com/ -> 404"),
                        (8080, "foo.com/ -> infra-backend-v2\n bar.com/ -> infra-backend-v2"),
                        (8090, "foo.com/ -> infra-backend-v3\n bar.com/ -> 404")):
        s.gets(s.addr("httproute-listener-port-matching", port), table)


@case("HTTPRouteInvalidParentRefSectionNameNotMatchingPort")
def section_not_port(s):
    s.gateways_ready()
    s.refused_route("HTTPRoute", "httproute-listener-section-name-not-matching-port", "Accepted", "NoMatchingParent")
    s.listeners("gateway-with-one-not-matching-port-and-section-name-route", {"http": {"attached": 0}})


@case("HTTPRouteInvalidParentRefNotMatchingListenerPort")
def not_listener_port(s):
    s.refused_route("HTTPRoute", "httproute-listener-not-matching-route-port", "Accepted", "NoMatchingParent")
    s.listeners("same-namespace", {"http": {"attached": 0}})


# --- protocols ---
@case("HTTPRouteBackendProtocolH2C")
def h2c_backend(s):
    s.ready()
    s.expect(s.addr("same-namespace"), Expect(backend=V1, proto="HTTP/2.0"))


@case("HTTPRouteBackendProtocolWebSocket")
def websocket_backend(s):
    s.ready()
    host, port = s.addr("same-namespace")

    def attempt():
        got = s.client.ask("ws", url=f"ws://{host}:{port}/ws", text="hello from here")
        assert got == "hello from here", got

    eventually(attempt, "the WebSocket")


# --- CORS ---
ORIGIN, CREDENTIALS = "access-control-allow-origin", "access-control-allow-credentials"
METHODS, HEADERS = "access-control-allow-methods", "access-control-allow-headers"


def preflight(path, origin, method="GET", asked=None, answer=None, absent=(), status=(200, 204)):
    headers = {"Origin": origin, "access-control-request-method": method}
    if asked:
        headers["access-control-request-headers"] = asked
    return Expect(path, "OPTIONS", headers=headers, status=status, answer=answer, answer_absent=absent, echo=False)


def simple(path, origin, answer=None, absent=(), method="GET", **headers):
    return Expect(path, method, headers={"Origin": origin, **headers}, answer=answer, answer_absent=absent, backend=V1)


@case("HTTPRouteCORS")
def cors(s):
    s.ready()
    two = ("x-header-1,x-header-2", "x-header-2,x-header-1")
    full = {METHODS: ("GET,OPTIONS", "OPTIONS,GET"), HEADERS: two, CREDENTIALS: "true",
            "access-control-expose-headers": ("x-header-3,x-header-4", "x-header-4,x-header-3"),
            "access-control-max-age": "3600"}
    ours = "https://other.foo.com"
    wild, wild_open = "/cors-wildcard-methods-headers", "/cors-wildcard-methods-headers-unauth"
    s.expect(s.addr("same-namespace"), *(
        preflight("/cors-1", o, asked="x-header-1, x-header-2", answer={ORIGIN: o, **full})
        for o in ("https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com")), *(
        simple("/cors-1", o, {ORIGIN: o}) for o in ("https://www.foo.com", "https://www.bar.com")), *(
        preflight("/cors-wildcard-origin", o, "PUT", answer={ORIGIN: (o, "*"), METHODS: "PUT"}, absent=[CREDENTIALS])
        for o in ("https://foobar.com", "https://foobar.com:12345")), *(
        simple("/cors-wildcard-origin", o, {ORIGIN: (o, "*")}, [CREDENTIALS], method="PUT")
        for o in ("https://foobar.com", "https://foobar.com:12345")),
        preflight("/cors-1", "https://foobar.com", absent=[ORIGIN], status=(200, 204, 403)),
        simple("/cors-1", "https://foobar.com", absent=[ORIGIN]),
        preflight("/cors-2", "https://www.foo.com", "POST", absent=[CREDENTIALS],
                  answer={ORIGIN: "https://www.foo.com", METHODS: ("POST", "*")}),
        preflight(wild, ours, "PUT", "x-header-1, x-header-2",
                  {ORIGIN: ours, METHODS: "PUT", HEADERS: two, CREDENTIALS: "true"}),
        preflight(wild_open, ours, "PUT", "x-header-1, x-header-2",
                  {ORIGIN: (ours, "*"), METHODS: ("PUT", "*"), HEADERS: (*two, "*")}, [CREDENTIALS]),
        simple(wild, ours, {ORIGIN: ours, CREDENTIALS: "true"}, Authorization="Bearer test"),
        simple(wild_open, ours, {ORIGIN: (ours, "*")}, [CREDENTIALS], Authorization="Bearer test"))


@case("HTTPRouteNamedRule")
def named_rule(s):
    s.ready()
    s.expect(s.addr("same-namespace"), Expect("/named", backend=V1), Expect("/unnamed", backend=V2))


@case("HTTPRouteHTTPSListenerDetectMisdirectedRequests")
def misdirected(s):
    s.ready()
    path = "/detect-misdirected-requests"
    first, second, unknown = "example.org", "second-example.org", "unknown-example.org"
    third, fourth, fifth = (f"{n}-example.wildcard.org" for n in ("third", "fourth", "fith"))
    s.expect(s.addr("same-namespace-with-https-listener", 443), *(
        Expect(path, host=host, tls=Tls(sni, server(s), alpn=("h2",)), echo=status == 200, status=status,
               backend=backend) for sni, host, status, backend in (
            (first, first, 200, V1), (first, second, 421, None), (first, unknown, 404, None),
            (second, second, 200, V2), (second, first, 421, None), (second, unknown, 421, None),
            (third, third, 200, V3), (third, fifth, 200, V3), (third, fourth, 421, None),
            (third, second, 421, None), (third, unknown, 421, None),
            (fourth, fourth, 200, V1), (fourth, fifth, 421, None),
            (unknown, first, 200, V1), (unknown, unknown, 404, None))))
