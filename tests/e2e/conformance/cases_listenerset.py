# SPDX-License-Identifier: Apache-2.0
"""ListenerSet."""
from .cases_gateway import GOOD, HTTP_KINDS
from .credentials import INFRA
from .registry import registry

CASES, case = registry()
ACCEPTED = {"Accepted": ("True", "Accepted"), "Programmed": ("True", "Programmed")}


def both(reason):
    return {"Accepted": ("False", reason), "Programmed": ("False", reason)}


def attached_sets(s, gateway, count):
    def check():
        status = s.cluster.get("Gateway", gateway, INFRA)["status"]
        assert status.get("attachedListenerSets", 0) == count, f"{status.get('attachedListenerSets')} attached sets"
    s.until(check, f"ListenerSets of {gateway}")
    s.wait("Gateway", gateway, {"Accepted": "True", "Programmed": "True"})


@case("ListenerSetDefaultNotAllowed")
def default_not_allowed(s):
    attached_sets(s, "gateway-default-does-not-allow-listenerset", 0)
    s.wait("ListenerSet", "listenerset-default-not-allowed", both("NotAllowed"))


@case("ListenerSetAllowedNamespaceNone")
def none_allowed(s):
    attached_sets(s, "gateway-does-not-allow-listenerset", 0)
    s.wait("ListenerSet", "listenerset-not-allowed", both("NotAllowed"))


@case("ListenerSetAllowedNamespaceSame")
def same_allowed(s):
    attached_sets(s, "gateway-allows-listenerset-in-same-namespace", 1)
    s.wait("ListenerSet", "listenerset-in-same-namespace", ACCEPTED)
    s.listeners("listenerset-in-same-namespace", {"listenerset-in-same-namespace-listener": GOOD}, "ListenerSet")
    s.wait("ListenerSet", "listenerset-in-different-namespace", both("NotAllowed"),
           "gateway-api-listenerset-not-allowed-ns")


@case("ListenerSetAllowedNamespaceSelector")
def selected_allowed(s):
    attached_sets(s, "gateway-allows-listenerset-in-selected-namespace", 1)
    space = "gateway-api-listenerset-selector-allowed-ns"
    s.wait("ListenerSet", "listenerset-in-selected-namespace", ACCEPTED, space)
    s.listeners("listenerset-in-selected-namespace", {"listenerset-in-selected-namespace-listener": GOOD},
                "ListenerSet", space)
    s.wait("ListenerSet", "listenerset-not-in-selected-namespace", both("NotAllowed"),
           "gateway-api-listenerset-selector-not-allowed-ns")


@case("ListenerSetAllowedRoutesNamespaces")
def allowed_routes(s):
    s.ready("route-in-gateway-namespace")
    gateway = "gateway-with-listener-sets-test-allowed-routes"
    attached_sets(s, gateway, 2)
    name = "listener-set-listener-allowed-routes-"
    s.listeners("listenerset-test-allowed-routes-namespaces", {
        name + which: {**GOOD, "kinds": HTTP_KINDS, "attached": n}
        for which, n in (("all", 3), ("same", 1), ("selector", 1))}, "ListenerSet")
    s.refused_route("HTTPRoute", "route-in-gateway-namespace", "Accepted", "NotAllowedByListeners")
    s.listeners("listenerset-test-allowed-routes-cross-ns", {
        name + "cross-ns-same": {**GOOD, "attached": 1}}, "ListenerSet", "gateway-api-ls-cross-ns")
    s.gets(s.addr(gateway), f"""
        {name}all.com/route-in-same-namespace -> infra-backend-v1
        {name}all.com/route-in-selected-namespace -> infra-backend-v2
        {name}all.com/route-not-in-selected-namespace -> infra-backend-v3
        {name}same.com/route-in-same-namespace -> infra-backend-v1
        {name}same.com/route-in-selected-namespace -> 404
        {name}same.com/route-not-in-selected-namespace -> 404
        {name}selector.com/route-in-same-namespace -> 404
        {name}selector.com/route-in-selected-namespace -> infra-backend-v2
        {name}selector.com/route-not-in-selected-namespace -> 404
        {name}cross-ns-same.com/route-in-listenerset-namespace -> infra-backend-v1
        {name}cross-ns-same.com/route-in-gateway-namespace -> 404
    """)


@case("ListenerSetAllowedRoutesSupportedKinds")
def supported_kinds(s):
    s.gateways_ready()
    s.listeners("listenerset-test-allowed-routes-supported-kinds", {"listener-set-listener-allowed-routes-tls-only": {
        "ResolvedRefs": ("False", "InvalidRouteKinds"), "kinds": []}}, "ListenerSet")


@case("ListenerSetHTTPRouting")
def routing(s):
    s.ready()
    gateway, one, two = ("gateway-with-listener-sets-http-routing", "listener-set-http-routing-1",
                         "listener-set-http-routing-2")
    attached_sets(s, gateway, 2)
    whole = {**GOOD, "kinds": HTTP_KINDS}
    s.listeners(one, {one + "-listener-1": {**whole, "attached": 3}, one + "-listener-2": {**whole, "attached": 2}},
                "ListenerSet")
    s.listeners(two, {f"{two}-listener-{i}": {**whole, "attached": 2} for i in (1, 2)}, "ListenerSet")
    hosts = {"gateway-listener": "/gateway", one + "-listener": f"/{one}", two + "-listener": f"/{two}"}
    table = []
    for listener, own in hosts.items():
        for i in (1, 2):
            host = f"{listener}-{i}.com"
            table.append(f"{host}/route -> infra-backend-v1")
            for path in hosts.values():
                table.append(f"{host}{path}-route -> {'infra-backend-v2' if path == own else 404}")
                section = path == own and i == 1 and path != f"/{two}"
                table.append(f"{host}{path}-section-route -> {'infra-backend-v3' if section else 404}")
    s.gets(s.addr(gateway), "\n".join(table))


def conflict(s, gateway, kind, reason):
    """Of listeners in conflict the Gateway's wins, then that of the first set."""
    lost = {"Accepted": ("False", reason), "Programmed": ("False", reason), "Conflicted": ("True", reason)}
    with_gateway, with_set = f"{kind}-conflict-with-gateway-listener", f"{kind}-conflict-with-listener-set-listener"
    prefix = f"listenerset-with-{kind}-conflict-with-"
    attached_sets(s, gateway, 2)
    s.listeners(gateway, {"gateway-listener": GOOD, with_gateway: GOOD})
    for name, valid, listeners in (
            ("gateway-1", True, {"listener-set-1-listener": GOOD, with_gateway: lost, with_set: GOOD}),
            ("gateway-2", False, {with_gateway: lost}),
            ("listener-set-1", True, {"listener-set-2-listener": GOOD, with_set: lost}),
            ("listener-set-2", False, {with_set: lost})):
        s.wait("ListenerSet", prefix + name, {"Accepted": "True", "Programmed": ("True", "Programmed")} if valid
               else both("ListenersNotValid"))
        s.listeners(prefix + name, listeners, "ListenerSet")


@case("ListenerSetHostnameConflict")
def hostname_conflict(s):
    conflict(s, "gateway-with-listenerset-hostname-conflict", "hostname", "HostnameConflict")


@case("ListenerSetProtocolConflict")
def protocol_conflict(s):
    conflict(s, "gateway-with-listenerset-protocol-conflict", "protocol", "ProtocolConflict")


@case("ListenerSetReferenceGrant")
def reference_grant(s):
    s.gateways_ready()
    s.wait("ListenerSet", "listenerset-with-reference-grant", {"Accepted": "True", "Programmed": "True"})
    s.listeners("listenerset-with-reference-grant",
                {"listenerset-with-reference-grant-listener": {"ResolvedRefs": "True"}}, "ListenerSet")
    space = "gateway-api-listener-sets-test-reference-grant-ns"
    s.wait("ListenerSet", "listenerset-without-reference-grant", both("ListenersNotValid"), space)
    s.listeners("listenerset-without-reference-grant", {"listenerset-without-reference-grant-listener": {
        "ResolvedRefs": ("False", "RefNotPermitted")}}, "ListenerSet", space)


@case("ListenerSetGatewayParentSectionNameNotFound")
def section_not_found(s):
    s.ready("route-via-gateway")
    s.refused_route("HTTPRoute", "route-via-gateway", "Accepted", "NoMatchingParent")
    s.gets(s.addr("gateway-section-name"), """
        ls-section-name.com/goodsection -> infra-backend-v1
        ls-section-name.com/badsection -> 404
        gw-section.com/badsection -> 404
    """)


@case("ListenerSetDualParentRefIndependence")
def dual_parents(s):
    s.ready("route-dual-parentref-one")
    fine = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}
    s.route("HTTPRoute", "route-dual-parentref-one",
            each=[{**fine, "Accepted": ("False", "NoMatchingParent")}, fine])
    s.gets(s.addr("gateway-dual-parentref"), """
        gw-dual.com/dualboth -> infra-backend-v1
        ls-dual.com/dualboth -> infra-backend-v1
        gw-dual.com/dualone -> 404
        ls-dual.com/dualone -> infra-backend-v2
    """)


@case("ListenerSetRouteStatusScopedToParentRef")
def scoped_status(s):
    s.ready()
    s.gets(s.addr("gateway-parentref"), """
        gw-parentref.com/gwonly -> infra-backend-v1
        listenerset-parentref.com/gwonly -> 404
        gw-parentref.com/lsonly -> 404
        listenerset-parentref.com/lsonly -> infra-backend-v2
    """)
